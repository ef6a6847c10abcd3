//! Selective scans, compared with their definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{Element, Kernel, Target, bf16, f16};
use tilewright::kernels::selective_scan::{
    DeltaActivation, FinalState, SelectiveScan, SelectiveScanArgs, SelectiveScanConfig,
    SelectiveScanError, SelectiveScanProblem,
};
use tilewright::prove::{Verdict, What};
use tilewright::runtime::Device;
use tilewright::sim::Options;
use tilewright::tensor::rows::RowAccess;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::ptxas;
use crate::support::rng::Rng;

/// The operands of a scan. Those that a launch does not get are `None`.
#[derive(Clone)]
struct Case<T> {
    problem: SelectiveScanProblem,
    states: u32,
    x: Vec<T>,
    dt: Vec<T>,
    a: Vec<f32>,
    b: Vec<T>,
    c: Vec<T>,
    bias: Option<Vec<f32>>,
    skip: Option<Vec<f32>>,
    gate: Option<Vec<T>>,
    initial: Option<Vec<f32>>,
}

/// A number, and the sum of the magnitudes that were added up for it.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    magnitude: f64,
}

impl Sum {
    fn plus(self, value: f64) -> Sum {
        Sum { value: self.value + value, magnitude: self.magnitude + value.abs() }
    }

    fn times(self, factor: f64) -> Sum {
        Sum { value: self.value * factor, magnitude: self.magnitude * factor.abs() }
    }
}

/// The results of a scan.
struct Results<Y, S> {
    y: Vec<Y>,
    last: Vec<S>,
}

impl<T: Real> Case<T> {
    /// Random operands. Bit `i` of `given` says whether the launch has the bias, the skip factors,
    /// the gate and the initial states.
    fn random(problem: SelectiveScanProblem, states: u32, given: u32, seed: u64) -> Case<T> {
        let mut rng = Rng::new(seed);
        let mut number =
            move |from: f32, to: f32| from + (to - from) * (rng.below(1001) as f32 / 1000.0);
        let SelectiveScanProblem { batch, channels, length } = problem;
        let count = |sizes: [u32; 3]| sizes.iter().map(|size| *size as usize).product::<usize>();
        let mut some =
            |len: usize, from, to| (0..len).map(|_| number(from, to)).collect::<Vec<f32>>();
        let elements = |values: Vec<f32>| values.into_iter().map(T::of).collect::<Vec<T>>();
        let sequences = count([batch, channels, length]);
        let matrix = count([batch, states, length]);
        let per_channel = count([1, 1, channels]);
        Case {
            problem,
            states,
            x: elements(some(sequences, -2.0, 2.0)),
            dt: elements(some(sequences, -6.0, 1.0)),
            a: some(count([1, channels, states]), -4.0, -0.1),
            b: elements(some(matrix, -1.0, 1.0)),
            c: elements(some(matrix, -1.0, 1.0)),
            bias: (given & 1 != 0).then(|| some(per_channel, -1.0, 1.0)),
            skip: (given & 2 != 0).then(|| some(per_channel, -1.0, 1.0)),
            gate: (given & 4 != 0).then(|| elements(some(sequences, -5.0, 5.0))),
            initial: (given & 8 != 0).then(|| some(count([batch, channels, states]), -3.0, 3.0)),
        }
    }

    /// The definition.
    fn expected(&self, activation: DeltaActivation) -> Results<Sum, Sum> {
        let SelectiveScanProblem { batch, channels, length } = self.problem;
        let [batch, channels, length, states] =
            [batch, channels, length, self.states].map(|size| size as usize);
        let (mut y, mut last) = (Vec::new(), Vec::new());
        for (sequence, channel) in
            (0..batch).flat_map(|sequence| (0..channels).map(move |channel| (sequence, channel)))
        {
            let row = sequence * channels + channel;
            let start = |n: usize| {
                let initial = self.initial.as_ref().map_or(0.0, |all| all[row * states + n]);
                Sum::default().plus(initial.into())
            };
            let mut h: Vec<Sum> = (0..states).map(start).collect();
            let of_channel =
                |all: &Option<Vec<f32>>| all.as_ref().map_or(0.0, |all| all[channel].into());
            let (bias, skip): (f64, f64) = (of_channel(&self.bias), of_channel(&self.skip));
            for t in 0..length {
                let at = row * length + t;
                let (x, dt) = (self.x[at].to(), self.dt[at].to() + bias);
                let delta = match activation {
                    DeltaActivation::Identity => dt,
                    DeltaActivation::Softplus => dt.max(0.0) + (-dt.abs()).exp().ln_1p(),
                };
                let mut sum = Sum::default().plus(skip * x);
                for (n, h) in h.iter_mut().enumerate() {
                    let at = (sequence * states + n) * length + t;
                    let decay = (delta * f64::from(self.a[channel * states + n])).exp();
                    *h = h.times(decay).plus(delta * self.b[at].to() * x);
                    let (c, magnitude) = (self.c[at].to(), h.magnitude);
                    sum.value += c * h.value;
                    sum.magnitude += c.abs() * magnitude;
                }
                let gate = self.gate.as_ref().map(|gate| gate[at].to());
                y.push(sum.times(gate.map_or(1.0, |z| z / (1.0 + (-z).exp()))));
            }
            last.extend(h);
        }
        Results { y, last }
    }

    /// Runs the case on a device. Nothing may be written behind the results.
    #[track_caller]
    fn run(&self, device: &Device, config: SelectiveScanConfig) -> Results<T, f32>
    where
        T: VectorElement<2> + Converted,
    {
        let scan = SelectiveScan::<T>::new(config).unwrap().load(device).unwrap();
        let elements = |all: &[T]| device.upload(all).unwrap();
        let floats = |all: &[f32]| device.upload(all).unwrap();
        let rows = (self.problem.batch * self.problem.channels) as usize;
        let [y_len, last_len] = [self.x.len(), rows * self.states as usize];
        let mut y = elements(&vec![T::of(UNTOUCHED); y_len + 8]);
        let mut last = floats(&vec![UNTOUCHED; last_len + 8]);
        let (bias, skip) = (self.bias.as_deref().map(floats), self.skip.as_deref().map(floats));
        let (gate, initial) =
            (self.gate.as_deref().map(elements), self.initial.as_deref().map(floats));
        let args = SelectiveScanArgs {
            x: &elements(&self.x),
            dt: &elements(&self.dt),
            a: &floats(&self.a),
            b: &elements(&self.b),
            c: &elements(&self.c),
            y: &mut y,
            bias: bias.as_ref(),
            skip: skip.as_ref(),
            gate: gate.as_ref(),
            initial: initial.as_ref(),
            last: (config.last == FinalState::Stored).then_some(&mut last),
        };
        scan.launch(&self.problem, args).unwrap();
        let (mut y, mut last) = (y.to_vec().unwrap(), last.to_vec().unwrap());
        assert!(y.drain(y_len..).all(|y| y.to() == T::of(UNTOUCHED).to()), "wrote behind y");
        assert!(last.drain(last_len..).all(|last| last == UNTOUCHED), "wrote behind the states");
        Results { y, last }
    }

    /// Runs the case and compares all results with the definition.
    #[track_caller]
    fn check(&self, device: &Device, config: SelectiveScanConfig)
    where
        T: VectorElement<2> + Converted,
    {
        let (found, expected) = (self.run(device, config), self.expected(config.delta));
        let what = format!("{config} of {} {} on {}", self.problem, T::SCALAR, device.name());
        let close = |found: f64, expected: &Sum, epsilon: f64| {
            let slack = expected.value.abs() * epsilon + expected.magnitude * 1e-5 + 1e-7;
            (found - expected.value).abs() <= slack
        };
        for (at, (found, expected)) in found.y.iter().zip(&expected.y).enumerate() {
            let found = found.to();
            let is_close = close(found, expected, T::EPSILON);
            assert!(is_close, "{what}: y[{at}] is {found}, not {}", expected.value);
        }
        if config.last == FinalState::Stored {
            for (at, (found, expected)) in found.last.iter().zip(&expected.last).enumerate() {
                let is_close = close((*found).into(), expected, 0.0);
                assert!(is_close, "{what}: state {at} is {found}, not {}", expected.value);
            }
        }
    }
}

fn config<T: Element>(
    device: &Device,
    states: u32,
    problem: &SelectiveScanProblem,
) -> SelectiveScanConfig {
    let config = SelectiveScanConfig::new(device.target(), T::SCALAR, states, problem).unwrap();
    SelectiveScanConfig { last: FinalState::Stored, ..config }
}

/// The configuration that the library chooses, which is one for few channels, and one for many
/// channels.
fn both_configs<T: Element>(
    device: &Device,
    states: u32,
    problem: &SelectiveScanProblem,
) -> [SelectiveScanConfig; 2] {
    let few = config::<T>(device, states, problem);
    let many = SelectiveScanProblem { channels: 1 << 20, ..*problem };
    let many = config::<T>(device, states, &many);
    assert!(many.lanes < few.lanes || states == 1);
    [few, many]
}

/// Lengths around a vector, a chunk of steps and several of them; channels around a block.
#[test]
fn sizes_around_vectors_chunks_and_blocks() {
    for device in devices() {
        for (seed, (channels, length)) in (0..).zip([
            (1, 1),
            (3, 7),
            (5, 8),
            (9, 31),
            (8, 32),
            (7, 33),
            (16, 40),
            (4, 64),
            (2, 65),
        ]) {
            let problem = SelectiveScanProblem::new(2, channels, length);
            let states = [16, 8, 4, 1][seed as usize % 4];
            sized::<f32>(&device, problem, states, seed);
            sized::<bf16>(&device, problem, states, seed);
            sized::<f16>(&device, problem, states, seed);
        }
    }
}

/// Runs a scan with all operands.
#[track_caller]
fn sized<T>(device: &Device, problem: SelectiveScanProblem, states: u32, seed: u64)
where
    T: Real + VectorElement<2> + Converted,
{
    let case = Case::<T>::random(problem, states, 15, seed);
    for config in both_configs::<T>(device, states, &problem) {
        case.check(device, config);
    }
}

/// Every subset of the optional operands, with and without softplus, under the race detector.
#[test]
fn every_option() {
    let options = Options::default().target(Target::SM_90A).race(true).schedules(2);
    for device in devices().into_iter().chain([Device::sim_with(options)]) {
        for (given, length) in (0..16).zip([35, 16].into_iter().cycle()) {
            for delta in [DeltaActivation::Identity, DeltaActivation::Softplus] {
                let problem = SelectiveScanProblem::new(1, 3, length);
                let mut case = Case::<bf16>::random(problem, 16, given, given.into());
                if delta == DeltaActivation::Identity {
                    case.dt.iter_mut().for_each(|dt| *dt = bf16::from_f32(dt.to_f32().abs() * 0.1));
                    case.bias.iter_mut().flatten().for_each(|bias| *bias = bias.abs());
                }
                let last = if given % 3 == 0 { FinalState::Dropped } else { FinalState::Stored };
                for config in both_configs::<bf16>(&device, 16, &problem) {
                    case.check(&device, SelectiveScanConfig { delta, last, ..config });
                }
            }
        }
    }
}

/// A sequence that is cut anywhere has the same results, bit for bit.
#[test]
fn a_cut_sequence_is_continued() {
    let (channels, length, states) = (3, 50, 8);
    let cut = |all: &[bf16], rows: usize, from: usize, to: usize| -> Vec<bf16> {
        let rows = all.chunks(length).take(rows);
        rows.flat_map(|row| row[from..to].iter().copied()).collect()
    };
    for device in devices() {
        let problem = SelectiveScanProblem::new(1, channels, length as u32);
        let whole = Case::<bf16>::random(problem, states, 15, 5);
        let config = config::<bf16>(&device, states, &problem);
        let expected = whole.run(&device, config);
        for middle in [0, 1, 31, 32, 49, 50] {
            let mut initial = whole.initial.clone();
            let mut y = vec![Vec::new(); channels as usize];
            for (from, to) in [(0, middle), (middle, length)] {
                let sequences = |all: &[bf16]| cut(all, channels as usize, from, to);
                let matrix = |all: &[bf16]| cut(all, states as usize, from, to);
                let part = Case {
                    problem: SelectiveScanProblem::new(1, channels, (to - from) as u32),
                    x: sequences(&whole.x),
                    dt: sequences(&whole.dt),
                    b: matrix(&whole.b),
                    c: matrix(&whole.c),
                    gate: whole.gate.as_deref().map(sequences),
                    initial: initial.take(),
                    ..whole.clone()
                };
                let results = part.run(&device, config);
                for (y, part) in y.iter_mut().zip(results.y.chunks((to - from).max(1))) {
                    y.extend_from_slice(part);
                }
                initial = Some(results.last);
            }
            assert_eq!(y.concat(), expected.y, "cut at {middle}");
            assert_eq!(initial, Some(expected.last.clone()), "cut at {middle}");
        }
    }
}

/// Without channels nothing happens; without steps the final states are the initial ones.
#[test]
fn empty_problems() {
    for device in devices() {
        for (batch, channels, length) in [(0, 5, 8), (3, 0, 8), (2, 3, 0), (0, 0, 0)] {
            let problem = SelectiveScanProblem::new(batch, channels, length);
            for given in [0, 15] {
                let case = Case::<f32>::random(problem, 16, given, 1);
                let config = config::<f32>(&device, 16, &problem);
                case.check(&device, config);
                case.check(&device, SelectiveScanConfig { last: FinalState::Dropped, ..config });
            }
        }
    }
}

/// The definition holds for infinities and for NaN, which stays in its channel.
#[test]
fn special_numbers() {
    for device in devices() {
        let problem = SelectiveScanProblem::new(1, 2, 6);
        let mut case = Case::<f32>::random(problem, 4, 15, 2);
        let config = config::<f32>(&device, 4, &problem);
        // Delta is 0, then 1000; the gate closes fully, and opens fully.
        case.dt[1] = f32::NEG_INFINITY;
        case.dt[2] = 1000.0;
        case.dt[3] = -1000.0;
        let gate = case.gate.as_mut().unwrap();
        gate[3] = 1000.0;
        case.check(&device, config);
        let gate = case.gate.as_mut().unwrap();
        gate[4] = f32::NEG_INFINITY;
        case.dt[8] = f32::NAN;
        let Results { y, last } = case.run(&device, config);
        assert_eq!(y[4], 0.0);
        let is_nan: Vec<bool> = y.iter().map(|y| y.is_nan()).collect();
        let (no, yes) = (false, true);
        assert_eq!(is_nan, [no, no, no, no, no, no, no, no, yes, yes, yes, yes]);
        assert!(last[..4].iter().all(|h| h.is_finite()) && last[4..].iter().all(|h| h.is_nan()));
    }
}

/// Configurations of small blocks for these states and a length.
fn configs(target: Target, states: u32, length: u32, element: Scalar) -> Vec<SelectiveScanConfig> {
    let problem = SelectiveScanProblem::new(1, 1, length);
    let chosen = SelectiveScanConfig::new(target, element, states, &problem).unwrap();
    let is_aligned = (u64::from(length) * u64::from(element.size_bytes())).is_multiple_of(16);
    let accesses = [RowAccess::Elements, RowAccess::Aligned];
    let mut all = Vec::new();
    for lanes in [1, 2, 4, 8, 16, 32] {
        for threads in [32, 64, 128] {
            for steps in [8, 16, 32, 64] {
                for access in accesses.into_iter().take(1 + usize::from(is_aligned)) {
                    let channels = threads / lanes;
                    all.push(SelectiveScanConfig { lanes, channels, steps, access, ..chosen });
                }
            }
        }
    }
    all.retain(|config| config.check().is_ok());
    assert!(all.len() > 10);
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Any sizes and options in any configuration.
    #[test]
    fn random_scans(
        batch in 1u32..3,
        channels in 1u32..40,
        length in prop_oneof![1u32..80, (1u32..10).prop_map(|vectors| 8 * vectors)],
        states in 0u32..6,
        given in 0u32..16,
        (softplus, stored) in any::<(bool, bool)>(),
        choice in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let (problem, states) = (SelectiveScanProblem::new(batch, channels, length), 1 << states);
        let delta = if softplus { DeltaActivation::Softplus } else { DeltaActivation::Identity };
        let last = if stored { FinalState::Stored } else { FinalState::Dropped };
        for device in devices() {
            let all = configs(device.target(), states, length, Scalar::F16);
            let config = SelectiveScanConfig { delta, last, ..*choice.get(&all) };
            let mut case = Case::<f16>::random(problem, states, given, seed);
            if delta == DeltaActivation::Identity {
                // States that grow beyond bounds prove nothing.
                case.dt.iter_mut().for_each(|dt| *dt = f16::from_f32(dt.to_f32().abs() * 0.1));
                case.bias.iter_mut().flatten().for_each(|bias| *bias = bias.abs());
            }
            case.check(&device, config);
        }
    }
}

/// The library has a configuration for each state count and problem.
#[test]
fn every_state_count_has_a_configuration() {
    for states in [1, 2, 4, 8, 16, 32, 64, 128] {
        for (channels, length) in [(1, 1), (1000, 24), (1 << 20, 4096)] {
            for element in [Scalar::F32, Scalar::F16, Scalar::Bf16] {
                let problem = SelectiveScanProblem::new(1, channels, length);
                let config = SelectiveScanConfig::new(Target::SM_80, element, states, &problem);
                assert_eq!(config.unwrap().states, states);
            }
        }
    }
    let problem = SelectiveScanProblem::new(1, 1, 1);
    for states in [0, 3, 256, u32::MAX] {
        let config = SelectiveScanConfig::new(Target::SM_80, Scalar::F32, states, &problem);
        assert!(matches!(config, Err(SelectiveScanError::Config { .. })));
    }
}

#[test]
fn names_are_read_back() {
    for (states, element) in [(16, Scalar::Bf16), (4, Scalar::F32)] {
        for config in configs(Target::SM_90A, states, 32, element) {
            for delta in [DeltaActivation::Identity, DeltaActivation::Softplus] {
                for last in [FinalState::Dropped, FinalState::Stored] {
                    let config = SelectiveScanConfig { delta, last, ..config };
                    assert_eq!(config.to_string().parse(), Ok(config));
                }
            }
        }
    }
    for text in ["", "sm90a", "sm90a_n16_32x2", "sm90a_n016_32x2_t32", "sm90a_n16_32x2_t32_x"] {
        let error = text.parse::<SelectiveScanConfig>().unwrap_err();
        assert_eq!(error, SelectiveScanError::Name { text: text.to_owned() });
    }
}

#[test]
fn what_no_kernel_runs_is_refused() {
    let problem = SelectiveScanProblem::new(2, 3, 8);
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let config = config::<f32>(&device, 16, &problem);
    let config = SelectiveScanConfig { access: RowAccess::Aligned, ..config };
    for (config, rule) in [
        (SelectiveScanConfig { states: 12, ..config }, "the state count"),
        (SelectiveScanConfig { states: 0, ..config }, "the state count"),
        (SelectiveScanConfig { access: RowAccess::Ragged, ..config }, "sequences can"),
        (SelectiveScanConfig { lanes: 0, ..config }, "the lanes of a channel"),
        (SelectiveScanConfig { lanes: 32, ..config }, "the lanes of a channel"),
        (SelectiveScanConfig { states: 128, lanes: 4, ..config }, "the lanes of a channel"),
        (SelectiveScanConfig { channels: 3, ..config }, "a block must have a multiple"),
        (SelectiveScanConfig { channels: u32::MAX, ..config }, "a block must have a multiple"),
        (SelectiveScanConfig { steps: 24, ..config }, "a block must have a power of two"),
        (SelectiveScanConfig { steps: 128, channels: 64, ..config }, "a block can have 48 KiB"),
    ] {
        match SelectiveScan::<f32>::new(config).unwrap_err() {
            SelectiveScanError::Config { rule: found } => {
                assert!(found.starts_with(rule), "{found}")
            }
            other => panic!("{other}"),
        }
    }
    assert!(matches!(SelectiveScan::<f64>::new(config), Err(SelectiveScanError::Element { .. })));
    let case = Case::<f32>::random(problem, 16, 15, 3);
    let scan = SelectiveScan::<f32>::new(config).unwrap().load(&device).unwrap();
    let long = device.zeros::<f32>(1000).unwrap();
    let [mut y, mut last] = [48, 96].map(|len| device.zeros::<f32>(len).unwrap());
    let mut launch = |problem: &SelectiveScanProblem, x: &[f32], has_last: bool| {
        let x = device.upload(x).unwrap();
        let args = SelectiveScanArgs {
            x: &x,
            dt: &long,
            a: &long,
            b: &long,
            c: &long,
            y: &mut y,
            bias: None,
            skip: None,
            gate: None,
            initial: None,
            last: has_last.then_some(&mut last),
        };
        scan.launch(problem, args).map_err(|error| error.to_string())
    };
    assert_eq!(launch(&problem, &case.x, true), Ok(()));
    let without = launch(&problem, &case.x, false).unwrap_err();
    assert_eq!(without, "the kernel stores the final states, but there is no buffer for them");
    let short = launch(&problem, &case.x[1..], true).unwrap_err();
    assert_eq!(short, "the buffer for x has 47 elements, but 48 are needed");
    let odd = launch(&SelectiveScanProblem { length: 7, ..problem }, &case.x, true).unwrap_err();
    assert!(odd.contains("a multiple of 4 elements, but it is 7"), "{odd}");
    let large = SelectiveScanProblem::new(u32::MAX, u32::MAX, 8);
    assert!(launch(&large, &case.x, true).unwrap_err().contains("can be at most"));
    let needs = SelectiveScanProblem::new(1, 1 << 30, 1 << 30);
    assert!(launch(&needs, &case.x, true).unwrap_err().contains("are needed"));
}

/// The kernels that the library chooses assemble for each target without a warning, and keep
/// everything in registers.
#[test]
fn kernels_assemble_without_spills() {
    let Some(ptxas) = ptxas::find() else { return };
    for target in [Target::SM_80, Target::SM_90A] {
        for (batch, length) in [(8, 2048), (8, 2047), (2, 2048), (1, 2048), (1, 2047)] {
            let problem = SelectiveScanProblem::new(batch, 2048, length);
            let config = SelectiveScanConfig::new(target, Scalar::Bf16, 16, &problem).unwrap();
            let ptx = SelectiveScan::<bf16>::new(config).unwrap().ptx();
            let (text, target) = (ptx.text(), ptx.target().to_string());
            let assembled = ptxas.assemble(text, &target, &[]);
            assembled.unwrap_or_else(|problem| panic!("{config}: {problem}"));
            let report = ptxas.report(text, &target).unwrap();
            assert!(report.contains(" 0 bytes spill stores"), "{config}: {report}");
        }
    }
}

/// Every access to shared memory is in bounds for all launches, and no condition refuses every
/// launch: a count of channels that guards an access is not at most -1.
#[test]
fn shared_accesses_are_proved() {
    for (length, last) in [(2048, FinalState::Stored), (2047, FinalState::Dropped)] {
        let problem = SelectiveScanProblem::new(8, 2048, length);
        let config = SelectiveScanConfig::new(Target::SM_90A, Scalar::Bf16, 16, &problem).unwrap();
        let scan = SelectiveScan::<bf16>::new(SelectiveScanConfig { last, ..config }).unwrap();
        let proof = Kernel::verify(scan.ir().clone()).unwrap().prove();
        println!("{proof}");
        for condition in proof.conditions() {
            assert!(!condition.to_string().starts_with("0 >= "), "{condition}");
        }
        let shared = proof.obligations().iter().filter(|obligation| {
            matches!(obligation.what, What::Access { space: Space::Shared, .. })
        });
        let shared: Vec<_> = shared.collect();
        assert!(shared.len() > 20);
        for obligation in shared {
            assert!(matches!(obligation.verdict, Verdict::Proved), "{obligation:?}");
        }
    }
}
