//! The kernel without tensor cores, bit for bit, on every device there is.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, text};

#[path = "../../examples/gemm.rs"]
mod example;
#[path = "../../examples/hopper_gemm.rs"]
mod hopper_gemm;
#[path = "../../examples/plain_gemm.rs"]
mod plain_gemm;
#[path = "../../examples/sparse_gemm.rs"]
mod sparse_gemm;

use proptest::prelude::*;
use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem};

/// A number that is exact in no short sum, different for each position.
fn entry(seed: u32, index: usize) -> f32 {
    let mixed = (index as u32).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b);
    f32::from_bits(0x3f80_0000 | (mixed.wrapping_mul(0xc2b2_ae35) >> 9)) - 1.5
}

/// `C = A B` by its definition for row-major matrices, each product added with one rounding in the
/// order of K: the same bits.
fn reference([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
    let entry = |index: usize| {
        let (row, column) = (index / n, index % n);
        (0..k).fold(0.0, |sum, i| a[row * k + i].mul_add(b[i * n + column], sum))
    };
    (0..m * n).map(entry).collect()
}

fn simt(tile: [u32; 3], stages: u32) -> GemmConfig {
    let config = GemmConfig::simt(Target::SM_80, Scalar::F32);
    GemmConfig { tile, stages, major_b: Major::Mn, ..config }
}

#[track_caller]
fn check(config: GemmConfig, sizes: [u32; 3]) {
    let [m, n, k] = sizes.map(|size| size as usize);
    let a: Vec<f32> = (0..m * k).map(|i| entry(1, i)).collect();
    let b: Vec<f32> = (0..k * n).map(|i| entry(2, i)).collect();
    let expected = reference([m, n, k], &a, &b);
    let problem = GemmProblem::new(sizes[0], sizes[1], sizes[2]);
    for device in device::devices() {
        let config = GemmConfig { target: device.target(), ..config };
        let function = Gemm::<f32>::new(config).unwrap().load(&device).expect("the kernel loads");
        let (a, b) = (device.upload(&a).expect("it fits"), device.upload(&b).expect("it fits"));
        // What the kernel does not write stays not a number.
        let mut c = device.upload(&vec![f32::NAN; m * n]).expect("it fits");
        function.launch(&problem, GemmArgs::new(&a, &b, &mut c)).expect("the kernel runs");
        let found = c.to_vec().expect("it can be read");
        assert!(found == expected, "{config}, {sizes:?}, is wrong on {}", device.name());
    }
}

const SMALL: [u32; 3] = [64, 64, 8];

#[test]
fn whole_tiles() {
    check(simt(SMALL, 2), [64, 64, 16]);
    check(simt(SMALL, 2), [128, 64, 48]);
    check(simt([128, 128, 16], 2), [128, 256, 32]);
}

/// More stages than tiles, as many, and fewer.
#[test]
fn stages() {
    for stages in 2..6 {
        check(simt(SMALL, stages), [64, 64, 32]);
        check(simt(SMALL, stages), [70, 65, 63]);
    }
}

#[test]
fn ragged_edges() {
    let low = [[4, 256, 16], [4, 256, 32], [16, 64, 8], [16, 256, 16]];
    let others = [SMALL, [32, 64, 16], [64, 32, 8], [256, 32, 8], [128, 256, 32]];
    for tile in low.into_iter().chain(others) {
        for sizes in
            [[1, 1, 1], [65, 64, 16], [64, 63, 17], [251, 127, 63], [1, 300, 5], [300, 1, 33]]
        {
            check(simt(tile, 2), sizes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn random_sizes(m in 1u32..150, n in 1u32..150, k in 1u32..70) {
        check(simt(SMALL, 2), [m, n, k]);
    }
}

#[test]
fn it_assembles_without_a_warning_and_survives_its_text() {
    for target in [Target::SM_80, Target::SM_90A] {
        for tile in [SMALL, [128, 128, 16]] {
            let gemm = Gemm::<f32>::new(GemmConfig { target, ..simt(tile, 2) }).unwrap();
            text::check_round_trip(gemm.ir());
            if let Some(ptxas) = ptxas::find() {
                let result = ptxas.assemble(gemm.ptx().text(), &target.to_string(), &[]);
                result.unwrap_or_else(|problem| panic!("{problem}"));
            }
        }
    }
}

#[test]
fn sizes_that_no_kernel_has_are_refused() {
    for (m, n, k, name) in [(0, 1, 1, "m"), (1, u32::MAX, 1, "n"), (1, 1, 0, "k")] {
        let error = simt(SMALL, 2).check_problem(&GemmProblem::new(m, n, k)).unwrap_err();
        assert!(matches!(error, GemmError::Size { name: found, .. } if found == name), "{error}");
    }
}

#[test]
fn the_example_runs() {
    for device in device::devices() {
        example::run(&device).unwrap();
    }
}

/// The persistent warp-specialised example gives the product of the host, for sizes that fit the
/// tile and others.
#[test]
fn the_hopper_gemm_multiplies() {
    let sim = [tilewright::runtime::Device::sim_for(Target::SM_90A).unwrap()];
    for device in sim.into_iter().chain(device::gpu()) {
        hopper_gemm::run(&device).unwrap();
    }
}

/// The loop with copies four iterations ahead gives the product of the library's kernel.
#[test]
fn the_plain_loop_multiplies() {
    let sim = [tilewright::runtime::Device::sim_for(Target::SM_90A).unwrap()];
    for device in sim.into_iter().chain(device::gpu()) {
        plain_gemm::run(&device).unwrap();
    }
}

/// The loop with a 2:4 sparse A gives the product of the host.
#[test]
fn the_sparse_gemm_multiplies() {
    let sim = [tilewright::runtime::Device::sim_for(Target::SM_90A).unwrap()];
    for device in sim.into_iter().chain(device::gpu()) {
        sparse_gemm::run(&device).unwrap();
    }
}
