//! Compares the written PTX with the simulator on the same kernels.
//!
//! The simulator runs the IR; an interpreter under `tests/support` runs the text.
//!
//! `TILEWRIGHT_PTX_KERNELS=10000 cargo test --release --test codegen ptx_interpreted::` is the long
//! run; `TILEWRIGHT_PTX_SEED` starts elsewhere.

use tilewright::ir::types::{Scalar, Type};
use tilewright::ir::{Element, Kernel, Record};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Order, run};

use crate::support::{ptx_interpreter, random_loops, rng, straight_line};

use ptx_interpreter::{Argument, Entry};
use random_loops::{READ, THREADS};
use rng::Rng;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

/// Runs a block of `threads` threads and returns the buffers behind the pointer parameters, by the
/// simulator and by the PTX. Scalar parameters are `n`; those of 64 bits are the lengths of the
/// buffers, in order.
fn results<P>(kernel: &Kernel<P>, threads: u32, buffers: &[Vec<u8>], n: i32) -> [Vec<Vec<u8>>; 2] {
    let ir = kernel.ir();
    let simulated: Vec<GlobalBuffer> =
        buffers.iter().map(|bytes| GlobalBuffer::from_slice(bytes)).collect();
    let mut interpreted = buffers.to_vec();
    let (mut args, mut arguments) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (simulated.iter(), interpreted.iter_mut());
    let mut lengths = buffers.iter().map(|bytes| bytes.len() as u64);
    for param in &ir.params {
        match ir.type_of(param.value) {
            Type::Scalar(Scalar::U64) => {
                let length = lengths.next().expect("there is a length for each buffer");
                args.push(KernelArg::Scalar(length.to_const()));
                arguments.push(Argument::Scalar(length));
            }
            Type::Scalar(_) => {
                args.push(KernelArg::Scalar(n.to_const()));
                arguments.push(Argument::Scalar(n as u64));
            }
            _ => {
                args.push(KernelArg::Buffer(
                    left.next().expect("there is a buffer for each pointer"),
                ));
                let bytes = right.next().expect("there is a buffer for each pointer");
                arguments.push(Argument::Buffer(bytes));
            }
        }
    }
    let options = Options::default().fuel(1 << 22).threads(1).order(Order::RoundRobin);
    run(ir, Grid::new([1, 1, 1], [threads, 1, 1]), &args, &options)
        .unwrap_or_else(|error| panic!("{error}\n{ir}"));
    let ptx = kernel.ptx();
    let ran = Entry::parse(ptx.text())
        .and_then(|entry| entry.run(threads as usize, &mut arguments, 1 << 20));
    ran.unwrap_or_else(|problem| panic!("{problem}\n{ptx}"));
    [simulated.iter().map(|buffer| buffer.to_vec()).collect(), interpreted]
}

/// Control flow in every form, as it was built and after loops are unrolled and fetch ahead.
#[test]
fn random_loops_compute_what_their_ptx_computes() {
    let (count, seed) = (number("TILEWRIGHT_PTX_KERNELS", 40), number("TILEWRIGHT_PTX_SEED", 1));
    let mut distinct = std::collections::HashSet::new();
    for case in seed..seed + count {
        let (ir, _) = random_loops::random_loops(&mut Rng::new(case));
        let kernel = Kernel::verify(ir).expect("the generator verifies");
        let lowered = kernel.lower().expect("the generator asks for what can be done");
        let n = (case % 8) as i32 - 1;
        for kernel in [kernel, lowered] {
            let x = (0..READ as i32).flat_map(|i| ((i * 37 + 11) % 101 - 40).to_le_bytes());
            let buffers = [x.collect(), vec![0; THREADS as usize * 4]];
            let [simulated, interpreted] = results(&kernel, THREADS, &buffers, n);
            assert_eq!(
                simulated,
                interpreted,
                "kernel {case} with n = {n}:\n{kernel}\n{}",
                kernel.ptx()
            );
            distinct.insert(simulated);
        }
    }
    assert!(distinct.len() as u64 * 3 > count, "only {} different results", distinct.len());
}

/// Checks in the code of correct kernels are silent, in the IR and in the PTX, and change no
/// result.
#[test]
fn random_loops_with_checks_compute_what_they_compute_without() {
    let (count, seed) = (number("TILEWRIGHT_PTX_KERNELS", 40), number("TILEWRIGHT_PTX_SEED", 1));
    for case in seed..seed + count {
        let (ir, _) = random_loops::random_loops(&mut Rng::new(case));
        let kernel = Kernel::verify(ir).expect("the generator verifies");
        let checked = kernel.checked().expect("the kernel is small");
        let n = (case % 8) as i32 - 1;
        let x = (0..READ as i32).flat_map(|i| ((i * 37 + 11) % 101 - 40).to_le_bytes());
        let mut buffers = vec![x.collect(), vec![0; THREADS as usize * 4]];
        let [expected, _] = results(&kernel, THREADS, &buffers, n);
        // The lengths that a launch passes are those of accessed buffers.
        if checked.extents() != [0, 1] {
            continue;
        }
        buffers.push(vec![0; 8 * Record::WORDS]);
        for found in results(checked.kernel(), THREADS, &buffers, n) {
            assert_eq!(found[..2], expected, "kernel {case} with n = {n}:\n{}", checked.kernel());
            assert_eq!(found[2], buffers[2], "kernel {case} with n = {n}:\n{}", checked.kernel());
        }
    }
}

/// Integers of all widths: every operation occurs, and what each thread computes is compared in
/// full.
#[test]
fn straight_lines_of_integers_compute_what_their_ptx_computes() {
    let (count, seed) = (number("TILEWRIGHT_PTX_KERNELS", 150), number("TILEWRIGHT_PTX_SEED", 1));
    let rows = straight_line::rows();
    let mut seen = std::collections::BTreeSet::new();
    for case in seed..seed + count {
        let mut rng = Rng::new(case);
        let (kernel, names) = straight_line::straight_line(&mut rng, &rows);
        seen.extend(names);
        let elements = straight_line::RESULTS * straight_line::THREADS as usize;
        let pointers = kernel.ir().params.len();
        let mut words = || straight_line::bits(&mut rng).to_le_bytes();
        let buffers: Vec<Vec<u8>> =
            (0..pointers).map(|_| (0..elements).flat_map(|_| words()).collect()).collect();
        let [simulated, interpreted] = results(&kernel, straight_line::THREADS, &buffers, 0);
        if simulated == interpreted {
            continue;
        }
        let param = (0..pointers).find(|i| simulated[*i] != interpreted[*i]).unwrap();
        let byte = (0..).find(|i| simulated[param][*i] != interpreted[param][*i]).unwrap();
        panic!(
            "case {case}: byte {byte} of p{param} differs: {} and {}\n{kernel}\n{}",
            simulated[param][byte],
            interpreted[param][byte],
            kernel.ptx()
        );
    }
    let missing: Vec<&str> =
        INTEGER_ROWS.split_whitespace().filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} did not occur in {count} kernels: {seen:?}");
}

/// The rows that have a form for integers.
const INTEGER_ROWS: &str = "abs add add_packed add_sat and bfe bfi bfind bitcast bmsk brev clz cnot cvt cvt_pack cvt_sat \
    div dp2a dp4a fns lop3 mad mad24 mad24_hi_sat mad_hi mad_hi_sat mad_wide max max_packed \
    max_relu min min_packed min_relu mul mul24 mul_hi mul_wide neg not or popc prmt rem sad \
    selp setp shf shl shr sub sub_sat szext vec_extract vec_pack vec_splat xor";
