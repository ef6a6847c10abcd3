//! Elementwise kernels, compared with the same function on the host.

use proptest::prelude::*;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f16};
use tilewright::kernels::Built;
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::kernels::rows::{RowError, RowProblem};
use tilewright::layout::{ComposedLayout, Layout, Part, layout};
use tilewright::runtime::Device;

use super::matrix::{Real, check, devices, random};
use crate::support::{ptxas, text};

#[path = "../../examples/rotary.rs"]
mod rotary;

#[test]
fn the_example_rotates() {
    for device in devices() {
        rotary::run(&device).unwrap();
    }
}

/// `x0 * sigmoid(x0) * x1 + x2`, of as many inputs as there are.
fn reference(x: &[f64]) -> f64 {
    let silu = x[0] / (1.0 + (-x[0]).exp());
    silu * x.get(1).unwrap_or(&1.0) + x.get(2).unwrap_or(&0.0)
}

fn build<T, D, const N: usize>(config: ElementwiseConfig) -> Built<Elementwise<T, D, N>>
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
    function.launch(&(), (std::array::from_fn(|i| &buffers[i]), &mut y)).unwrap();
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

/// GELU and a cast are closures.
#[test]
fn activations_and_casts() {
    let of = |i: usize| (i as f32 / 100.0 - 3.0, (i * 37 % 101) as f32 / 50.0 - 1.0);
    let columns: Vec<(f32, f32)> = (0..601).map(of).collect();
    for device in devices() {
        let upload = |f: &dyn Fn(&(f32, f32)) -> f32| {
            device.upload(&columns.iter().map(f).collect::<Vec<f32>>()).unwrap()
        };
        let x = upload(&|(a, _)| *a);
        let mut y = device.zeros::<f32>(601).unwrap();
        let config = |inputs| ElementwiseConfig::new(device.target(), inputs);
        let gelu = Elementwise::<f32, f32, 1>::new(config(1), "gelu", |_, [x]| x.gelu_tanh());
        gelu.unwrap().load(&device).unwrap().launch(&(), ([&x], &mut y)).unwrap();
        for ((x, _), y) in columns.iter().zip(y.to_vec().unwrap()) {
            let x = f64::from(*x);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            assert!((f64::from(y) - 0.5 * x * (1.0 + inner.tanh())).abs() < 2e-6, "{x}: {y}");
        }
        let mut narrow = device.zeros::<bf16>(601).unwrap();
        let cast = Elementwise::<f32, bf16, 1>::new(config(1), "cast", |_, [x]| x);
        cast.unwrap().load(&device).unwrap().launch(&(), ([&x], &mut narrow)).unwrap();
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

/// `y[L(c)] = x0[L0(c)] - 2 * x1[L1(c)]` by the layouts' own functions.
#[track_caller]
fn check_layouts<T: Real + Converted>(device: &Device, y: &Layout, inputs: [ComposedLayout; 2]) {
    let config = ElementwiseConfig::new(device.target(), 2);
    let kernel =
        Elementwise::<T, f32, 2>::with_layouts(config, "axes", y, inputs.clone(), |_, [a, b]| {
            b.fma(-2.0, a)
        });
    let function = kernel.unwrap().load(device).unwrap();
    let size = y.size().unwrap().to_static().unwrap();
    let place =
        |layout: &ComposedLayout, c: i64| layout.apply(c).unwrap().as_static().unwrap() as usize;
    let lens =
        inputs.each_ref().map(|input| (0..size).map(|c| place(input, c) + 1).max().unwrap_or(0));
    let x = [0, 1].map(|which| -> Vec<T> {
        (0..lens[which]).map(|i| T::of(((i * 37 + which * 11) % 199) as f32 / 8.0 - 12.0)).collect()
    });
    let buffers = x.each_ref().map(|x| device.upload(x).unwrap());
    // What lies behind the output stays as it is.
    let mut out = device.upload(&vec![77.0; size as usize + 9]).unwrap();
    function.launch(&(), (buffers.each_ref(), &mut out)).unwrap();
    let mut expected = vec![77.0; size as usize + 9];
    for c in 0..size {
        let [a, b] = [0, 1].map(|which| x[which][place(&inputs[which], c)].to());
        expected[place(&y.into(), c)] = (a - 2.0 * b) as f32;
    }
    assert_eq!(out.to_vec().unwrap(), expected, "{y}, {inputs:?}");
}

/// Broadcast rows, columns and numbers, transposed and turned modes, extents with and without whole
/// vectors.
#[test]
fn layouts_of_inputs() {
    let turned = |at: i64, layout| ComposedLayout::new(Part::Identity, at, layout).unwrap();
    for device in devices() {
        for (m, n) in [(3i64, 64i64), (5, 40), (7, 9), (1, 1), (130, 136), (33, 100)] {
            let row_major = Layout::row_major((m, n));
            let inputs: [ComposedLayout; 5] = [
                (&row_major).into(),
                (&layout!((m, n):(1, 0))).into(),
                (&layout!((m, n):(0, 1))).into(),
                (&layout!((m, n):(0, 0))).into(),
                (&layout!((m, n):(1, m))).into(),
            ];
            for input in &inputs {
                check_layouts::<f16>(&device, &row_major, [inputs[0].clone(), input.clone()]);
            }
            check_layouts::<f32>(&device, &row_major, [inputs[2].clone(), inputs[1].clone()]);
            check_layouts::<bf16>(
                &device,
                &layout!((m, n):(1, m)),
                [inputs[4].clone(), inputs[0].clone()],
            );
            // The columns from the last one to the first, and a padded pitch.
            let reversed = turned(n - 1, layout!((m, n):(n + 8, -1)));
            check_layouts::<f32>(&device, &row_major, [reversed, inputs[0].clone()]);
        }
        // The halves of rows change places, as for a rotary embedding of (position, head, half,
        // dimension).
        let y = layout!((6, 3, 2, 32):(192, 64, 32, 1));
        let partner = turned(32, layout!((6, 3, 2, 32):(192, 64, -32, 1)));
        let table = (&layout!((6, 3, 2, 32):(32, 0, 0, 1))).into();
        check_layouts::<bf16>(&device, &y, [partner, table]);
    }
}

#[test]
fn layouts_that_no_kernel_takes_are_refused() {
    let config = ElementwiseConfig::new(Target::SM_80, 1);
    let error = |y: Layout, x: ComposedLayout| {
        let found = Elementwise::<f32, f32, 1>::with_layouts(config, "x", &y, [x], |_, [x]| x);
        found.unwrap_err().to_string()
    };
    assert_eq!(
        error(layout!((4, 4):(8, 1)), (&layout!((4, 4):(8, 1))).into()),
        "unsupported layout of the output: it must be static and compact, so that each offset below its size belongs to exactly one coordinate"
    );
    assert_eq!(
        error(layout!((4, 4):(4, 1)), (&layout!(16:1)).into()),
        "unsupported layout of an input: it must have the output's shape"
    );
    assert_eq!(
        error(layout!(4:1), (&layout!(4:-1)).into()),
        "unsupported layout of an input: no offset may be negative"
    );
    for size in [1i64 << 31, 1 << 41] {
        assert_eq!(
            error(layout!(size:1), (&layout!(size:0)).into()),
            "unsupported layout of the output: it must have 1 to 2^31 - 1 elements"
        );
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
    let error = function.launch(&(), ([&x], &mut y)).unwrap_err();
    assert!(matches!(error, RowError::BufferLength { found: 4, needed: 5, .. }), "{error}");
    let wrong = ElementwiseConfig { threads: 100, ..config };
    let error = Elementwise::<f32, f32, 1>::new(wrong, "none", |_, [x]| x).unwrap_err();
    assert!(matches!(error, RowError::Tile { .. }), "{error}");
    let error = Elementwise::<i32, f32, 1>::new(config, "none", |_, [x]| x).unwrap_err();
    assert!(matches!(error, RowError::Element { found: Scalar::I32, .. }), "{error}");
}
