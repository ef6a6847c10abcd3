//! `--groups` and `--swiglu`: other forms of a product, beside the plain one of the same work.

use std::time::Duration;

use tilewright::ir::bf16;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, GroupRows};
use tilewright::runtime::{Buffer, Device};
use tilewright::tune::{Machine, median};

use super::super::{Failure, print};
use super::Gemm as Options;
use super::random;

/// The form that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Groups of rows of random lengths, each with a B of its own: their number.
    Groups(u32),
    /// SwiGLU of pairs of columns.
    Swiglu,
}

/// Numbers from -0.5 to 0.5. The power of a GPU depends on them.
fn upload(device: &Device, len: usize, seed: u64) -> Result<Buffer<bf16>, GemmError> {
    /// The length after which they start anew.
    const PERIOD: usize = (1 << 20) + 7;
    let mut next = random::numbers(seed);
    let block: Vec<bf16> =
        (0..len.min(PERIOD)).map(|_| bf16::from_f32(next() as f32 - 0.5)).collect();
    let all: Vec<bf16> = block.iter().copied().cycle().take(len).collect();
    Ok(device.upload(&all)?)
}

/// The first rows of groups of random lengths, and their end.
fn starts(rows: u32, groups: u32, seed: u64) -> Vec<i32> {
    let mut next = random::numbers(seed);
    let shares: Vec<f64> = (0..groups).map(|_| next()).collect();
    let sum = shares.iter().sum::<f64>();
    let mut before = 0.0;
    let mut starts = vec![0];
    for share in shares {
        before += share;
        starts.push((before / sum * f64::from(rows)).round() as i32);
    }
    starts
}

pub(super) fn run(
    options: &Options,
    device: &Device,
    shapes: &[GemmProblem],
    form: Form,
) -> Result<(), Failure> {
    if device.is_sim() || options.dtype != Scalar::Bf16 {
        return Err(Failure::input("other forms of products are measured on a GPU, in bf16"));
    }
    let head =
        "problem                plain us  TFLOP/s  form us  TFLOP/s  ratio  kernels: plain, form\n";
    print(&format!("{form:?}\n{head}"))?;
    for problem in shapes {
        let GemmProblem { m, n, k, .. } = *problem;
        let one = one(options, device, [m, n, k], form).map_err(Failure::run)?;
        let ([plain, other], configs) = one;
        let speed = |seconds: f64| problem.flops() as f64 / seconds / 1e12;
        let [a, b] = configs;
        print(&format!(
            "{:<22} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>6.3}  {a} {b}\n",
            format!("{m}x{n}x{k}"),
            plain * 1e6,
            speed(plain),
            other * 1e6,
            speed(other),
            plain / other,
        ))?;
    }
    Ok(())
}

/// The seconds of the plain product and of the form, and their configurations.
fn one(
    options: &Options,
    device: &Device,
    [m, n, k]: [u32; 3],
    form: Form,
) -> Result<([f64; 2], [GemmConfig; 2]), GemmError> {
    let machine = Machine::of(device);
    let wanted = GemmConfig { target: device.target(), ..GemmConfig::sm90(Scalar::Bf16, [128; 2]) };
    let problem = GemmProblem::new(m, n, k);
    let (grouped, groups) = match form {
        Form::Groups(groups) => (GemmProblem::grouped([m, n, k], groups), groups),
        Form::Swiglu => (problem, 1),
    };
    let [of_m, of_n, of_k] = [m, n, k].map(|size| size as usize);
    let a = upload(device, of_m * of_k, 1)?;
    let b = upload(device, groups as usize * of_n * of_k, 2)?;
    let mut d = device.zeros::<bf16>(of_m * of_n)?;
    let starts = device.upload(&starts(m, groups, options.seed))?;
    let plain = wanted.best(&problem, &machine)?;
    let plain_function = Gemm::<bf16>::new(plain)?.load(device)?;
    let run_plain = |d: &mut Buffer<bf16>| -> Result<Duration, GemmError> {
        Ok(plain_function.prepare(&problem, GemmArgs::new(&a, &b, d))?.time()?.elapsed)
    };
    match form {
        Form::Groups(_) => {
            let config = GemmConfig { grouped: true, ..wanted }.best(&grouped, &machine)?;
            let function = Gemm::<bf16>::new(config)?.load(device)?;
            let run = |d: &mut Buffer<bf16>| -> Result<Duration, GemmError> {
                let args = GemmArgs::new(&a, &b, d).groups(GroupRows::Starts(&starts));
                Ok(function.prepare(&grouped, args)?.time()?.elapsed)
            };
            Ok((medians(options.rounds, &mut d, run_plain, run)?, [plain, config]))
        }
        Form::Swiglu => {
            let config = GemmConfig { pairs: true, ..wanted }.best(&problem, &machine)?;
            let gemm = Gemm::<bf16>::with_pairs::<()>(config, |_, [gate, value], _, ()| {
                gate.silu_fast() * value
            })?;
            let function = gemm.load(device)?;
            let run = |d: &mut Buffer<bf16>| -> Result<Duration, GemmError> {
                Ok(function.time(&problem, GemmArgs::new(&a, &b, d), ())?.elapsed)
            };
            Ok((medians(options.rounds, &mut d, run_plain, run)?, [plain, config]))
        }
    }
}

/// The median seconds of two launches that alternate.
fn medians(
    rounds: u32,
    d: &mut Buffer<bf16>,
    mut first: impl FnMut(&mut Buffer<bf16>) -> Result<Duration, GemmError>,
    mut second: impl FnMut(&mut Buffer<bf16>) -> Result<Duration, GemmError>,
) -> Result<[f64; 2], GemmError> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..8 * rounds + 2 {
        let pair = [first(d)?, second(d)?];
        // The first launches load the kernels.
        if round >= 2 {
            pair.into_iter().zip(&mut times).for_each(|(time, of)| of.push(time.as_secs_f64()));
        }
    }
    Ok(times.map(|times| median(&times).unwrap_or(f64::NAN)))
}
