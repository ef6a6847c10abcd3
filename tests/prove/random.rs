//! The law on random kernels: those of this folder, and those of other tests.

use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Kernel};
use tilewright::prove::{LaunchValue, LaunchValues};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options};

use crate::generator;
use crate::law::{Shown, check, counts, number, verified};
use crate::support::random_loops;
use crate::support::rng::Rng;

/// Launches of each random kernel.
const LAUNCHES: usize = 4;

/// The operations that a launch may execute: random loops may be long.
const FUEL: u64 = 1 << 13;

#[test]
fn random_indices_keep_their_proofs() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 400), number("TILEWRIGHT_PROVE_SEED", 1));
    let (mut all, mut faults, mut launches) = ([0; 3], 0, 0);
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case));
        let made = generator::random(&mut rng);
        let ir = tilewright::ir::parse("kernel.kir", &made.text)
            .unwrap_or_else(|error| panic!("{error}\n{}", made.text));
        // The generator leaves few things to the verifier, such as steps that are never positive.
        let Ok(kernel) = Kernel::verify(ir) else { continue };
        let proof = kernel.prove();
        for (sum, count) in all.iter_mut().zip(counts(&proof)) {
            *sum += count;
        }
        for _ in 0..LAUNCHES {
            let threads = made.block.unwrap_or_else(|| {
                *rng.pick(&[[1, 1, 1], [32, 1, 1], [33, 1, 1], [4, 3, 2], [64, 1, 1]])
            });
            let blocks = [1 + rng.below(3) as u32, 1, 1];
            let lens = [0, 1, 16, 31, 32, 63, 64, 65, 96, 128, 129, 200];
            let [x, y] = [(); 2].map(|()| *rng.pick(&lens));
            let numbers =
                [0, 1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 100, 128, -1, -5, i32::MAX, i32::MIN];
            let [n, m] = [(); 2].map(|()| *rng.pick(&numbers));
            let l = i64::from(*rng.pick(&numbers)) * if rng.below(4) == 0 { 1 << 31 } else { 1 };
            let [bx, by] = [x, y].map(|len| GlobalBuffer::from_slice(&vec![3i32; len]));
            let args = [
                KernelArg::Buffer(&bx),
                KernelArg::Buffer(&by),
                KernelArg::Scalar(n.to_const()),
                KernelArg::Scalar(m.to_const()),
                KernelArg::Scalar(l.to_const()),
            ];
            let buffer = |len: usize| LaunchValue::Buffer { len: len as u64, alignment: 256 };
            let values = LaunchValues::new(
                blocks,
                threads,
                vec![
                    buffer(x),
                    buffer(y),
                    LaunchValue::Integer(n.into()),
                    LaunchValue::Integer(m.into()),
                    LaunchValue::Integer(l.into()),
                ],
            );
            let options = Options::default().race(false).fuel(FUEL).threads(1);
            let shown =
                check(kernel.ir(), &proof, Grid::new(blocks, threads), &args, &values, &options);
            faults += usize::from(shown == Shown::FaultAtOpen);
            launches += 1;
        }
    }
    let [proved, conditions, open] = all;
    println!(
        "{cases} kernels, {launches} launches, {faults} faults at open accesses; {proved} obligations proved, \
         {conditions} by conditions, {open} open"
    );
    // The kernels are worth running only if many accesses are proved and many launches fault.
    assert!(proved > open / 4 && faults > launches / 20);
}

/// Loops in every form of control flow, before and after they are lowered.
#[test]
fn random_loops_keep_their_proofs() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 100), number("TILEWRIGHT_PROVE_SEED", 1));
    let mut all = [0; 3];
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case));
        let (ir, _) = random_loops::random_loops(&mut rng);
        let kernel = Kernel::verify(ir).unwrap();
        let lowered = kernel.lower().unwrap();
        for ir in [kernel.ir(), lowered.ir()] {
            let kernel = Kernel::verify(ir.clone()).unwrap();
            let proof = kernel.prove();
            for (sum, count) in all.iter_mut().zip(counts(&proof)) {
                *sum += count;
            }
            for _ in 0..2 {
                let len = |wanted: usize, rng: &mut Rng| match rng.below(3) {
                    0 => wanted - 1,
                    _ => wanted,
                };
                let x = len(random_loops::READ, &mut rng);
                let y = len(random_loops::THREADS as usize, &mut rng);
                let n = rng.below(8) as i32 - 1;
                let [bx, by] = [x, y].map(|len| GlobalBuffer::from_slice(&vec![1i32; len]));
                let args = [
                    KernelArg::Buffer(&bx),
                    KernelArg::Buffer(&by),
                    KernelArg::Scalar(n.to_const()),
                ];
                let buffer = |len: usize| LaunchValue::Buffer { len: len as u64, alignment: 256 };
                let threads = [random_loops::THREADS, 1, 1];
                let values = LaunchValues::new(
                    [1; 3],
                    threads,
                    vec![buffer(x), buffer(y), LaunchValue::Integer(n.into())],
                );
                let options = Options::default().race(false).fuel(1 << 20).threads(1);
                check(kernel.ir(), &proof, Grid::new([1; 3], threads), &args, &values, &options);
            }
        }
    }
    println!("random loops: {all:?} obligations proved, by conditions, open");
    assert!(all[2] <= all[0]);
    let _ = (Scalar::I32, verified);
}
