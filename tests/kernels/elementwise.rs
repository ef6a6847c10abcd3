//! Elementwise kernels, compared with the same function on the host.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f16};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::rows::{RowError, RowProblem};
use tilewright::runtime::Device;

use super::matrix::{Real, check, devices, random};
use crate::support::{ptxas, text};

/// `x0 * sigmoid(x0) * x1 + x2`, of as many inputs as there are.
fn reference(x: &[f64]) -> f64 {
    let silu = x[0] / (1.0 + (-x[0]).exp());
    silu * x.get(1).unwrap_or(&1.0) + x.get(2).unwrap_or(&0.0)
}

fn build<T, D, const N: usize>(config: ElementwiseConfig) -> Elementwise<T, D, N>
where
    T: Converted,
    D: VectorElement<2> + Converted,
{
    let kernel = Elementwise::<T, D, N>::new(config, "silu", |_, x| {
        let mut result = x[0].silu();
        if N > 1 {
            result *= x[1];
        }
        if N > 2 {
            result += x[2];
        }
        result
    });
    kernel.unwrap()
}

#[track_caller]
fn run<T, D, const N: usize>(device: &Device, len: usize, seed: u64)
where
    T: Real + Converted,
    D: Real + VectorElement<2> + Converted,
{
    let problem = RowProblem::new(1, len as u32);
    let inputs: [Vec<T>; N] =
        std::array::from_fn(|i| random(&problem, len as u64, 3.0, seed + i as u64));
    let config = ElementwiseConfig::new(device.target(), N);
    let function = build::<T, D, N>(config).load(device).unwrap();
    let buffers: Vec<_> = inputs.iter().map(|x| device.upload(x).unwrap()).collect();
    let mut y = device.upload(&vec![D::of(9.0); len]).unwrap();
    function.launch(std::array::from_fn(|i| &buffers[i]), &mut y).unwrap();
    let y = y.to_vec().unwrap();
    let what = format!("{N} inputs of {} on {}", T::SCALAR, device.name());
    // Of a sum that cancels, the error is relative to its terms.
    check::<T, D>(&what, &problem, &inputs[0], &y, [2e-6, 2e-6], |_, x| {
        let place = |i: usize| inputs.iter().map(|x| x[i].to()).collect::<Vec<f64>>();
        (0..x.len()).map(|i| reference(&place(i))).collect()
    });
}

#[test]
fn lengths_around_a_block() {
    for device in devices() {
        for len in [0, 1, 7, 8, 9, 1000, 2047, 2048, 2049, 8191, 8192, 8193, 20_001] {
            run::<bf16, bf16, 1>(&device, len, 1);
            run::<f32, f32, 2>(&device, len, 2);
            run::<f16, f32, 3>(&device, len, 3);
            run::<bf16, f8e4m3, 2>(&device, len, 4);
        }
    }
}

/// GELU, the rotary embedding of pairs `(x, partner)`, and a cast are closures.
#[test]
fn activations_rotations_and_casts() {
    let of = |i: usize| (i as f32 / 100.0 - 3.0, (i * 37 % 101) as f32 / 50.0 - 1.0);
    let columns: Vec<(f32, f32)> = (0..601).map(of).collect();
    for device in devices() {
        let upload = |f: &dyn Fn(&(f32, f32)) -> f32| {
            device.upload(&columns.iter().map(f).collect::<Vec<f32>>()).unwrap()
        };
        let (x, partner) = (upload(&|(a, _)| *a), upload(&|(_, b)| *b));
        let (cos, sin) = (upload(&|(a, _)| a.cos()), upload(&|(a, _)| a.sin()));
        let mut y = device.zeros::<f32>(601).unwrap();
        let config = |inputs| ElementwiseConfig::new(device.target(), inputs);
        let gelu = Elementwise::<f32, f32, 1>::new(config(1), "gelu", |_, [x]| x.gelu_tanh());
        gelu.unwrap().load(&device).unwrap().launch([&x], &mut y).unwrap();
        for ((x, _), y) in columns.iter().zip(y.to_vec().unwrap()) {
            let x = f64::from(*x);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            assert!((f64::from(y) - 0.5 * x * (1.0 + inner.tanh())).abs() < 2e-6, "{x}: {y}");
        }
        let rotary = Elementwise::<f32, f32, 4>::new(config(4), "rotary", |_, [x, p, cos, sin]| {
            x * cos - p * sin
        });
        let rotary = rotary.unwrap().load(&device).unwrap();
        rotary.launch([&x, &partner, &cos, &sin], &mut y).unwrap();
        for ((x, p), y) in columns.iter().zip(y.to_vec().unwrap()) {
            let angle = f64::from(*x);
            let expected = angle * angle.cos() - f64::from(*p) * angle.sin();
            assert!((f64::from(y) - expected).abs() < 2e-6, "{x}, {p}: {y}");
        }
        let mut narrow = device.zeros::<bf16>(601).unwrap();
        let cast = Elementwise::<f32, bf16, 1>::new(config(1), "cast", |_, [x]| x);
        cast.unwrap().load(&device).unwrap().launch([&x], &mut narrow).unwrap();
        let expected: Vec<bf16> = columns.iter().map(|(x, _)| bf16::from_f32(*x)).collect();
        assert_eq!(narrow.to_vec().unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_lengths(len in 1usize..30_000, seed in 0u64..1000) {
        for device in devices() {
            run::<bf16, bf16, 2>(&device, len, seed);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let config = ElementwiseConfig::new(Target::SM_90A, 2);
    let kernel = build::<bf16, bf16, 2>(config);
    text::check_round_trip(kernel.ir());
    let ptx = kernel.ptx();
    assert_eq!(ptx.text().matches("ld.global.nc.v4.b32").count(), 4);
    assert_eq!(ptx.text().matches("st.global.v4.b32").count(), 2);
    if let Some(ptxas) = ptxas::find() {
        let report = ptxas.report(ptx.text(), "sm_90a").unwrap();
        assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let config = ElementwiseConfig::new(device.target(), 1);
    let function = build::<f32, f32, 1>(config).load(&device).unwrap();
    let (x, mut y) = (device.zeros::<f32>(4).unwrap(), device.zeros::<f32>(5).unwrap());
    let error = function.launch([&x], &mut y).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 4, needed: 5, .. }), "{error}");
    let wrong = ElementwiseConfig { threads: 100, ..config };
    let error = Elementwise::<f32, f32, 1>::new(wrong, "none", |_, [x]| x).unwrap_err();
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = Elementwise::<i32, f32, 1>::new(config, "none", |_, [x]| x).unwrap_err();
    assert!(matches!(error, RowError::Element { found: Scalar::I32, .. }), "{error}");
}
