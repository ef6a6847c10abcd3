//! Numbered barriers and fences on every device, against the same on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, threads};

use tilewright::ir::op::{BarrierForm, ClusterArrival, FenceOrder, L2Policy, MemScope, ProxySpace};
use tilewright::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Target, Val, range};
use tilewright::runtime::{Device, Grid};

#[track_caller]
fn check<T: Element>(
    warps: u32,
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    let grid = Grid::new([3, 1, 1], [32 * warps, 1, 1]);
    threads::check_grid(
        Target::SM_80,
        grid,
        |k, _| {
            let t = k.thread_idx().x;
            body(k, t)
        },
        |i| expected(i % (32 * warps as i32)),
    );
}

/// The number of the barrier of a stage.
fn number<'b>(base: u32, i: Val<'b, i32>) -> Val<'b, u32> {
    (i & 1).cvt::<u32>() + base
}

/// One warp fills a buffer of two stages, another one empties it: what the one waits for, the other
/// one tells.
#[test]
fn a_ring_between_two_warps() {
    const STEPS: i32 = 9;
    check::<i32>(
        2,
        |k, t| {
            let ring = k.shared::<i32>(64);
            let sum = k.var(0);
            let producer = (t / 32).eq(0);
            k.if_else(
                producer,
                |k| {
                    k.for_(range(0, STEPS), (), |k, i, ()| {
                        let empty = k.named_barrier(number(3, i), 64);
                        k.if_(i.ge(2), |_| empty.sync());
                        ring.store((i & 1) * 32 + t, i * 1000 + t);
                        k.named_barrier(number(1, i), 64).arrive();
                    });
                },
                |k| {
                    k.for_(range(0, STEPS), (), |k, i, ()| {
                        k.named_barrier(number(1, i), 64).sync();
                        let v = ring.load((i & 1) * 32 + 63 - t);
                        sum.set(sum.get() + v);
                        let empty = k.named_barrier(number(3, i), 64);
                        k.if_(i.lt(STEPS - 2), |_| empty.arrive());
                    });
                },
            );
            sum.get()
        },
        |t| if t < 32 { 0 } else { (0..STEPS).map(|i| i * 1000 + 63 - t).sum() },
    );
}

/// Two pairs of warps, each with a barrier of its own that depends on the warp.
#[test]
fn barriers_of_pairs_of_warps() {
    check::<i32>(
        4,
        |k, t| {
            let tile = k.shared::<i32>(128);
            let pair = (t / 64).cvt::<u32>();
            tile.store(t, t * 3);
            k.named_barrier(pair + 7, 64).aligned().sync();
            tile.load(t ^ 63)
        },
        |t| (t ^ 63) * 3,
    );
}

#[test]
fn reductions_over_the_threads_of_a_barrier() {
    check::<u32>(
        3,
        |k, t| {
            let all = k.named_barrier(2, 96);
            let odd = all.red_popc((t & 1).ne(0));
            let many = all.aligned().red_popc(t.lt(40));
            odd * 1000 + many
        },
        |_| 48 * 1000 + 40,
    );
    check::<bool>(3, |k, t| k.named_barrier(1, 96).red_and(t.lt(95)), |_| false);
    check::<bool>(3, |k, t| k.named_barrier(1, 96).aligned().red_and(t.lt(96)), |_| true);
    check::<bool>(3, |k, t| k.named_barrier(1, 96).red_or(t.eq(95)), |_| true);
    check::<bool>(3, |k, t| k.named_barrier(15, 96).aligned().red_or(t.gt(95)), |_| false);
    // What all threads of a block find together can guard a barrier.
    check::<i32>(
        2,
        |k, t| {
            let s = k.shared::<i32>(64);
            s.store(t, t);
            let any = k.named_barrier(1, 64).red_or(t.gt(60));
            let v = k.var(-1);
            k.if_(any, |k| {
                k.barrier();
                v.set(s.load(63 - t));
            });
            v.get()
        },
        |t| 63 - t,
    );
}

/// A message in global memory: data, fence, flag; the reader spins, then fences.
#[test]
fn a_message_between_blocks() {
    let build = |target| {
        Kernel::<(GlobalMut<u32>, GlobalMut<u32>)>::build("message", target, |k, (data, out)| {
            let first = k.block_idx().x.eq(0);
            k.if_else(
                first,
                |k| {
                    data.store(1, 42);
                    k.fence(FenceOrder::AcqRel, MemScope::Gpu);
                    data.atom().exch(0, 1);
                },
                |k| {
                    k.loop_::<_, ()>((), |k, lp, ()| {
                        let seen = data.atom().add(0, 0);
                        k.if_(seen.ne(0), |k| lp.break_(k, ()));
                        lp.continue_(k, ())
                    });
                    k.fence(FenceOrder::Sc, MemScope::Gpu);
                    out.store(k.block_idx().x, data.load(1));
                },
            );
        })
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let mut data = device.zeros::<u32>(2).unwrap();
        let mut out = device.zeros::<u32>(4).unwrap();
        let grid = Grid::new([4, 1, 1], [1, 1, 1]);
        device.load(&build(device.target())).unwrap().launch(grid, (&mut data, &mut out)).unwrap();
        assert_eq!(out.to_vec().unwrap(), [0, 42, 42, 42], "on {}", device.name());
    }
}

#[test]
fn fences_of_proxies() {
    let grid = Grid::new([1, 1, 1], [32, 1, 1]);
    threads::check_grid::<i32>(
        Target::SM_90,
        grid,
        |k, i| {
            let s = k.shared::<i32>(32);
            s.store(i, i);
            ProxySpace::ALL.iter().for_each(|space| k.fence_proxy_async(*space));
            k.fence(FenceOrder::AcqRel, MemScope::Cluster);
            s.load(i)
        },
        |i| i,
    );
}

/// Whole warps agree on a comparison of the thread index with a multiple of 32, so they may meet
/// behind it.
#[test]
fn barriers_behind_comparisons_of_the_thread_index() {
    let grid = Grid::new([1, 1, 1], [96, 1, 1]);
    threads::check_grid::<i32>(
        Target::SM_80,
        grid,
        |k, i| {
            let t = k.thread_idx().x;
            let (low, rest) = (t.lt(32), t.ge(32));
            let s = k.shared::<i32>(96);
            s.store(t, i);
            k.if_(low, |k| k.named_barrier(1, 32).sync());
            k.if_(rest, |k| k.named_barrier(2, 64).sync());
            k.if_(t.max(31).gt(31), |k| k.named_barrier(3, 64).sync());
            k.if_(low, |k| k.bar_warp(u32::MAX));
            k.barrier();
            s.load(95 - t)
        },
        |i| 95 - i,
    );
    let build = |bound: i32| {
        Kernel::<()>::build("apart", Target::SM_80, |k, ()| {
            let part = k.thread_idx().x.lt(bound);
            k.if_(part, |k| k.named_barrier(1, 32).sync());
        })
    };
    for bound in 0..=128 {
        assert_eq!(build(bound).is_ok(), bound % 32 == 0, "{bound}");
    }
}

/// Warps that wait for ever are found at once, in any order of warps.
#[test]
fn barriers_that_never_open_are_a_fault() {
    let device = Device::sim().unwrap();
    let kernel = Kernel::<()>::build("wait", Target::SM_80, |k, ()| {
        let first = (k.thread_idx().x / 32).eq(0);
        k.if_(first, |k| k.named_barrier(4, 64).sync());
    });
    let function = device.load(&kernel.unwrap()).unwrap();
    let error = function.launch(Grid::new([1, 1, 1], [64, 1, 1]), ()).unwrap_err().to_string();
    assert!(
        error.contains("waits forever at barrier 4, where 32 of 64 threads have arrived"),
        "{error}"
    );
}

/// The first block of a cluster copies bytes to all of them, which then pass them on to the next
/// one.
#[test]
fn bulk_copies_between_blocks() {
    const BLOCKS: u32 = 4;
    const LEN: u32 = 64;
    let options = KernelOptions::default().cluster([BLOCKS, 1, 1]);
    type Params = (Global<u32>, GlobalMut<u32>);
    let kernel = Kernel::<Params>::build_with(options, "pass_on", Target::SM_90, |k, (x, y)| {
        let (tile, other) = (k.shared_aligned::<u32>(LEN, 16), k.shared_aligned::<u32>(LEN, 16));
        let bars = k.shared::<u64>(2);
        let (first, second) = (bars.mbarrier(0), bars.mbarrier(1));
        let (t, rank) = (k.thread_idx().x, k.block_idx().x % BLOCKS);
        let meet = |k: &Body<'_, '_>| {
            k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Unaligned);
        };
        k.if_(t.eq(0), |k| {
            for bar in [first, second] {
                bar.init(1);
            }
            k.fence_mbarrier_init();
            for bar in [first, second] {
                bar.arrive_expect_tx(4 * LEN);
            }
        });
        meet(k);
        k.if_((rank + t).eq(0), |k| {
            let all = (1 << BLOCKS) - 1;
            k.cp_async_bulk_multicast(tile, x, 4 * LEN, first, all, L2Policy::Default);
        });
        first.wait_parity(0);
        tile.store(t, tile.load(t) * 10 + rank.cvt::<u32>());
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.barrier();
        k.if_(t.eq(0), |k| {
            let next = ((rank + 1) % BLOCKS).cvt::<u32>();
            let told = bars.offset(1).mapa(next);
            k.cp_async_bulk_cluster(other.mapa(next), tile, 4 * LEN, told);
        });
        second.wait_parity(0);
        y.store(rank * LEN + t, other.load(t));
        // No block ends while another one copies from it or to it.
        meet(k);
    })
    .unwrap_or_else(|errors| panic!("{errors}"));
    if let Some(ptxas) = ptxas::find() {
        let assembled = ptxas.assemble(kernel.ptx().text(), "sm_90", &["-O3"]);
        assembled.unwrap_or_else(|problem| panic!("{problem}"));
    }
    let x: Vec<u32> = (0..LEN).map(|i| i * i).collect();
    let from = |rank: u32| (rank + BLOCKS - 1) % BLOCKS;
    let expected: Vec<u32> =
        (0..BLOCKS).flat_map(|rank| x.iter().map(move |v| v * 10 + from(rank))).collect();
    for device in device::devices() {
        let from = device.upload(&x).unwrap();
        let mut y = device.zeros::<u32>((BLOCKS * LEN) as usize).unwrap();
        let grid = Grid::new([BLOCKS, 1, 1], [LEN, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&from, &mut y)).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "on {}", device.name());
    }
}
