//! Cooperative launches on the simulator: all blocks are resident and run in turn, on any number of
//! host threads.

use tilewright::ir::op::{AtomicOrder, LoadAccess, MemScope};
use tilewright::ir::{GlobalMut, Kernel, Target, range};
use tilewright::runtime::{Device, Grid, LaunchOptions, RuntimeError};
use tilewright::sim::{self, GlobalBuffer, KernelArg, Options, Order, RunError};

type Params = (GlobalMut<i32>, GlobalMut<i32>, i32);

/// In each of `rounds` rounds, a block adds 1 to its own number and waits for all blocks; then it
/// checks that the last block, whose number it reads, has done the same. Rounds alternate between
/// two numbers of each block, so that no block writes what another one still reads.
fn grid_barrier() -> Kernel<Params> {
    Kernel::<Params>::build("grid_barrier", Target::SM_90, |k, (arrived, numbers, rounds)| {
        let (block, blocks) = (k.block_idx().x, k.grid_dim().x);
        let leads = k.thread_idx().x.eq(0);
        k.for_(range(1, rounds + 1), (), |k, round, ()| {
            k.if_(leads, |k| {
                let at = round % 2 * blocks;
                numbers.store(at + block, round);
                arrived.atom().order(AtomicOrder::AcqRel).add(0, 1);
                k.loop_((), |k, spin, ()| {
                    let all = arrived.load_with(0, LoadAccess::default().acquire(MemScope::Gpu));
                    k.if_(all.ge(blocks * round), |k| spin.break_(k, ()));
                    spin.continue_(k, ())
                });
                let last = numbers.load(at + blocks - 1);
                k.if_(last.lt(round), |k| k.trap());
            });
            k.barrier();
        });
    })
    .expect("the kernel is correct")
}

#[test]
fn a_grid_barrier_opens_whatever_the_number_of_host_threads() {
    const ROUNDS: i32 = 5;
    let kernel = grid_barrier();
    for blocks in [1, 2, 8, 40] {
        for cluster in [1, 2] {
            if blocks % cluster != 0 {
                continue;
            }
            let grid = Grid::new([blocks, 1, 1], [64, 1, 1]).cluster([cluster, 1, 1]);
            let mut counts = Vec::new();
            for threads in [1, 2] {
                for order in [Order::RoundRobin, Order::Random { seed: 3 }] {
                    let (arrived, numbers) =
                        (GlobalBuffer::zeros(4), GlobalBuffer::zeros(8 * blocks as usize));
                    let rounds = KernelArg::Scalar(tilewright::ir::Element::to_const(ROUNDS));
                    let args = [KernelArg::Buffer(&arrived), KernelArg::Buffer(&numbers), rounds];
                    let options = Options::default().threads(threads).order(order);
                    // Race detection would run the clusters on one host thread.
                    let options = options.fuel(1 << 20).cooperative(true).race(false);
                    let report = sim::run(kernel.ir(), grid, &args, &options);
                    let report =
                        report.unwrap_or_else(|error| panic!("{blocks}, {order:?}: {error}"));
                    assert_eq!(arrived.to_vec::<i32>(), [ROUNDS * blocks as i32]);
                    let numbers = numbers.to_vec::<i32>();
                    let (even, odd) = numbers.split_at(blocks as usize);
                    assert!(
                        even.iter().all(|n| *n == ROUNDS - 1) && odd.iter().all(|n| *n == ROUNDS)
                    );
                    if order == Order::RoundRobin {
                        counts.push(report.thread_ops);
                    }
                }
            }
            assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
        }
    }
}

#[test]
fn a_launch_asks_for_it() {
    let device = Device::sim_with(Options::default().threads(1).fuel(1 << 20));
    let f = device.load(&grid_barrier()).unwrap();
    let (mut arrived, mut numbers) =
        (device.zeros::<i32>(1).unwrap(), device.zeros::<i32>(16).unwrap());
    let grid = Grid::new([8, 1, 1], [32, 1, 1]);
    let cooperative = LaunchOptions::default().cooperative(true);
    f.launch_with(cooperative, grid, (&mut arrived, &mut numbers, 3)).unwrap();
    assert_eq!(arrived.to_vec().unwrap(), [24]);
    // One block after the other never gets there.
    let alone = f.launch(grid, (&mut arrived, &mut numbers, 9)).unwrap_err();
    assert!(alone.to_string().contains("has not ended after"), "{alone}");
    // Also where it was recorded.
    let mut arrived = device.zeros::<i32>(1).unwrap();
    let error = f.launch_with(
        cooperative,
        Grid::new([100_000, 1, 1], [32, 1, 1]),
        (&mut arrived, &mut numbers, 1),
    );
    let Err(RuntimeError::TooManyBlocksAtOnce { blocks: 100_000, limit, kernel }) = error else {
        panic!("{error:?}")
    };
    assert_eq!((limit, kernel.as_str()), (132 * 32, "grid_barrier"));
}

#[test]
fn a_fault_and_endless_blocks_end_it() {
    type Out = (GlobalMut<i32>,);
    let kernel = Kernel::<Out>::build("spin", Target::SM_80, |k, (x,)| {
        let block = k.block_idx().x;
        k.if_(block.eq(3), |_| x.store(100, 1));
        k.loop_((), |k, spin, ()| {
            k.if_(x.load(0).eq(7), |k| spin.break_(k, ()));
            spin.continue_(k, ())
        });
    })
    .unwrap();
    let x = GlobalBuffer::zeros(4);
    // The blocks read what block 3 may write: the fault is of interest here.
    let options = Options::default().fuel(1 << 16).cooperative(true).race(false);
    let go = |blocks| {
        let grid = Grid::new([blocks, 1, 1], [32, 1, 1]);
        sim::run(kernel.ir(), grid, &[KernelArg::Buffer(&x)], &options).unwrap_err()
    };
    assert!(matches!(go(3), RunError::OutOfFuel { block: [0, 0, 0], .. }));
    let error = go(5);
    assert_eq!(error.fault().expect("block 3 is at fault").block, [3, 0, 0]);
}
