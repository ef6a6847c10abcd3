//! Unrolling and fetching ahead change nothing: random kernels give the same on the simulator
//! before and after they are lowered. The same kernels are read back from their text, and written
//! as PTX.
//!
//! `TILEWRIGHT_RANDOM_LOOPS=10000 cargo test --release --test sim random_loops::` is the long run;
//! `TILEWRIGHT_RANDOM_LOOPS_SEED` starts elsewhere.

use tilewright::ir::types::Const;
use tilewright::ir::{Element, Kernel, KernelIr};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Order, run};

use crate::support::{random_loops, rng, text};

use random_loops::{READ, THREADS};
use rng::Rng;

/// Runs the kernel and returns `y`.
fn result(ir: &KernelIr, n: i32) -> Vec<i32> {
    let x: Vec<i32> = (0..READ as i32).map(|i| (i * 37 + 11) % 101 - 40).collect();
    let (x, y) = (GlobalBuffer::from_slice(&x), GlobalBuffer::zeros(THREADS as usize * 4));
    let order = Order::Random { seed: n as u64 };
    let n: Const = n.to_const();
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&y), KernelArg::Scalar(n)];
    let options = Options::default().fuel(1 << 22).threads(1).order(order);
    let grid = Grid::new([1, 1, 1], [THREADS, 1, 1]);
    run(ir, grid, &args, &options).unwrap_or_else(|error| panic!("{error}\n{ir}"));
    y.to_vec()
}

fn shared_bytes(ir: &KernelIr) -> u64 {
    let (_, bytes) = ir.shared_layout();
    bytes
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

#[test]
fn lowering_changes_nothing() {
    let count = number("TILEWRIGHT_RANDOM_LOOPS", 200);
    let seed = number("TILEWRIGHT_RANDOM_LOOPS_SEED", 1);
    let (mut lowered_kernels, mut fetching_loops, mut staged_kernels) = (0, 0, 0);
    for number in 0..count {
        let mut rng = Rng::new(seed.wrapping_add(number));
        let (ir, fetching) = random_loops::random_loops(&mut rng);
        text::check_round_trip(&ir);
        let kernel = Kernel::verify(ir).expect("the generator verifies");
        let lowered = kernel.lower().unwrap_or_else(|errors| panic!("{errors}\n{kernel}"));
        assert!(lowered.ptx().text().contains(".entry loops"));
        fetching_loops += fetching;
        if lowered.ir() == kernel.ir() {
            continue;
        }
        lowered_kernels += 1;
        staged_kernels += u64::from(shared_bytes(lowered.ir()) > shared_bytes(kernel.ir()));
        text::check_round_trip(lowered.ir());
        let n = rng.below(8) as i32 - 1;
        assert_eq!(
            result(kernel.ir(), n),
            result(lowered.ir(), n),
            "kernel {number} of seed {seed} with n = {n} differs:\n{kernel}\nlowered:\n{lowered}"
        );
    }
    assert!(
        lowered_kernels * 4 > count,
        "only {lowered_kernels} of {count} kernels ask for anything"
    );
    assert!(
        staged_kernels * 40 > count,
        "only {staged_kernels} kernels have tiles of several stages"
    );
    assert!(fetching_loops as u64 * 4 > count, "only {fetching_loops} loops fetch ahead");
}
