//! The matrix products of `tilewright::kernels`, on every device there is.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.
#![cfg(feature = "sim")]

#[path = "support/device.rs"]
mod device;
#[path = "support/ptxas.rs"]
mod ptxas;
#[path = "support/text.rs"]
mod text;

use proptest::prelude::*;
use tilewright::ir::Target;
use tilewright::kernels::gemm::SimtGemm;
use tilewright::runtime::Grid;

/// A number that is exact in no short sum, different for each position.
fn entry(seed: u32, index: usize) -> f32 {
    let mixed = (index as u32).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b);
    f32::from_bits(0x3f80_0000 | (mixed.wrapping_mul(0xc2b2_ae35) >> 9)) - 1.5
}

/// `C = A B` by its definition, with the roundings that `SimtGemm` documents: the same bits.
fn reference(gemm: &SimtGemm, a: &[f32], b: &[f32]) -> Vec<f32> {
    let (n, k) = (gemm.n as usize, gemm.k as usize);
    let entry = |index: usize| {
        let (row, column) = (index / n, index % n);
        (0..k).fold(0.0, |sum, i| a[row * k + i].mul_add(b[i * n + column], sum))
    };
    (0..gemm.m as usize * n).map(entry).collect()
}

#[track_caller]
fn check(gemm: SimtGemm) {
    check_stages(gemm, SimtGemm::PREFETCH_STAGES);
}

#[track_caller]
fn check_stages(gemm: SimtGemm, stages: u32) {
    let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|size| size as usize);
    let a: Vec<f32> = (0..m * k).map(|i| entry(1, i)).collect();
    let b: Vec<f32> = (0..k * n).map(|i| entry(2, i)).collect();
    let expected = reference(&gemm, &a, &b);
    for device in device::devices() {
        let kernel = gemm.build_with(device.target(), stages).expect("the kernel is valid");
        let function = device.load(&kernel).expect("the kernel loads");
        let (a, b) = (device.upload(&a).expect("it fits"), device.upload(&b).expect("it fits"));
        // What the kernel does not write stays not a number.
        let mut c = device.upload(&vec![f32::NAN; m * n]).expect("it fits");
        let grid = Grid::new(gemm.blocks(), [SimtGemm::THREADS, 1, 1]);
        function.launch(grid, (&a, &b, &mut c)).expect("the kernel runs");
        let found = c.to_vec().expect("it can be read");
        assert!(found == expected, "{gemm:?}, {stages} stages, is wrong on {}", device.name());
    }
}

#[test]
fn whole_tiles() {
    check(SimtGemm { m: 64, n: 64, k: 16 });
    check(SimtGemm { m: 128, n: 64, k: 48 });
    check(SimtGemm { m: 64, n: 192, k: 16 });
}

/// More stages than tiles, as many, and fewer.
#[test]
fn tiles_fetched_ahead() {
    for stages in 0..4 {
        check_stages(SimtGemm { m: 64, n: 64, k: 32 }, stages);
        check_stages(SimtGemm { m: 70, n: 65, k: 63 }, stages);
    }
}

#[test]
fn ragged_edges() {
    check(SimtGemm { m: 1, n: 1, k: 1 });
    check(SimtGemm { m: 65, n: 64, k: 16 });
    check(SimtGemm { m: 64, n: 63, k: 17 });
    check(SimtGemm { m: 251, n: 127, k: 63 });
    check(SimtGemm { m: 1, n: 300, k: 5 });
    check(SimtGemm { m: 300, n: 1, k: 33 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(m in 1u32..150, n in 1u32..150, k in 1u32..70) {
        check(SimtGemm { m, n, k });
    }
}

#[test]
fn it_assembles_without_a_warning_and_survives_its_text() {
    for target in [Target::SM_80, Target::SM_90A] {
        for gemm in [SimtGemm { m: 256, n: 256, k: 256 }, SimtGemm { m: 251, n: 127, k: 63 }] {
            let kernel = gemm.build(target).expect("the kernel is valid");
            text::check_round_trip(kernel.ir());
            if let Some(ptxas) = ptxas::find() {
                let ptx = kernel.ptx();
                let result = ptxas.assemble(ptx.text(), &target.to_string(), &[]);
                result.unwrap_or_else(|problem| panic!("{problem}"));
            }
        }
    }
}

#[test]
fn sizes_that_no_kernel_has_are_refused() {
    for (gemm, text) in [
        (SimtGemm { m: 0, n: 1, k: 1 }, "the size `m` is 0, but must be from 1 to 2147483584"),
        (SimtGemm { m: 1, n: 1, k: u32::MAX }, "the size `k` is 4294967295, but must be"),
    ] {
        let errors = gemm.build(Target::SM_80).expect_err("the size is wrong");
        assert!(errors.to_string().contains(text), "{errors}");
    }
}
