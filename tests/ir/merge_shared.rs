//! Allocations of shared memory whose live ranges do not overlap share memory, and kernels compute
//! the same.

use crate::support::{device, rng::Rng, text};

use tilewright::ir::op::CpAsyncCache;
use tilewright::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Shared, Target, Val, range,
};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::{Options, Order};

type Params = (Global<i32>, GlobalMut<i32>, i32);

const THREADS: u32 = 64;

fn build(
    merge: bool,
    body: impl for<'b> FnOnce(
        &mut Body<'b, 'b>,
        Val<'b, Global<i32>>,
        Val<'b, GlobalMut<i32>>,
        Val<'b, i32>,
    ),
) -> Result<Kernel<Params>, BuildErrors> {
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let options = if merge { options.merge_shared() } else { options };
    Kernel::build_with(options, "k", Target::SM_80, |k, (x, y, n)| body(k, x, y, n))
}

/// The bytes before and after, of a kernel whose results stay the same in any order of the warps.
#[track_caller]
fn check(
    body: impl for<'b> Fn(
        &mut Body<'b, 'b>,
        Val<'b, Global<i32>>,
        Val<'b, GlobalMut<i32>>,
        Val<'b, i32>,
    ),
) -> (u64, u64) {
    let [plain, merged] = [false, true].map(|merge| build(merge, &body).unwrap());
    let bytes = merged.merged_shared().unwrap();
    assert_eq!(plain.merged_shared(), None);
    assert_eq!(bytes.before, plain.ir().shared_layout().1);
    assert_eq!(bytes.after, merged.ir().shared_layout().1);
    text::check_round_trip(merged.ir());
    let orders = [Order::RoundRobin, Order::Random { seed: 1 }, Order::Random { seed: 2 }];
    let mut devices: Vec<Device> =
        orders.map(|order| Device::sim_with(Options::default().order(order))).to_vec();
    devices.extend(device::gpu());
    for device in devices {
        for n in [0, 1, 3] {
            let run = |kernel: &Kernel<Params>| {
                let x: Vec<i32> = (0..512).map(|i| i * 7919 % 1000).collect();
                let x = device.upload(&x).unwrap();
                let mut y = device.zeros::<i32>(2 * THREADS as usize).unwrap();
                let grid = Grid::new([2, 1, 1], [THREADS, 1, 1]);
                device.load(kernel).unwrap().launch(grid, (&x, &mut y, n)).unwrap();
                y.to_vec().unwrap()
            };
            assert_eq!(run(&merged), run(&plain), "n = {n} on {device}");
        }
    }
    (bytes.before, bytes.after)
}

/// Exchanges values through a tile: barriers stand between the store and the load.
fn exchange<'b>(
    k: &Body<'b, '_>,
    tile: Val<'b, Shared<i32>>,
    value: Val<'b, i32>,
    apart: i32,
) -> Val<'b, i32> {
    let t = k.thread_idx().x;
    tile.store(t, value);
    k.barrier();
    tile.load(t ^ apart)
}

#[test]
fn phases_share_memory() {
    let bytes = check(|k, x, y, n| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared_aligned::<f32>(2 * THREADS, 128));
        let c = k.shared::<i32>(THREADS);
        let t = k.thread_idx().x;
        let v = exchange(k, a, x.load(t), 1);
        k.barrier();
        b.store(t * 2, v.cvt::<f32>());
        k.barrier();
        let w = b.load((t ^ 3) * 2).cvt::<i32>();
        k.barrier();
        let last = exchange(k, c, w + n, 5);
        y.store(k.block_idx().x * THREADS + t, last);
    });
    assert_eq!(bytes, (256 + 512 + 256, 512));
}

#[test]
fn arms_of_a_uniform_branch_share_memory() {
    let bytes = check(|k, x, y, n| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        let v = x.load(t);
        let out = k.if_else(
            k.block_idx().x.lt(n),
            |k| k.yield_(exchange(k, a, v, 1)),
            |k| k.yield_(exchange(k, b, v + 7, 2)),
        );
        y.store(k.block_idx().x * THREADS + t, out);
    });
    assert_eq!(bytes, (512, 256));
}

/// Threads of one block take different arms at the same time.
#[test]
fn arms_of_a_divergent_branch_stay_apart() {
    let bytes = check(|k, x, y, _| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        let v = x.load(t);
        let of = |_: &Body<'_, '_>, tile: Val<'_, Shared<i32>>| tile.store(t, v);
        k.if_else(t.lt(5), |k| of(k, a), |k| of(k, b));
        k.barrier();
        let out = k.if_else(t.lt(5), |k| k.yield_(a.load(t)), |k| k.yield_(b.load(t)));
        y.store(k.block_idx().x * THREADS + t, out);
    });
    assert_eq!(bytes, (512, 512));
}

#[test]
fn phases_without_a_barrier_between_them_stay_apart() {
    let bytes = check(|k, x, y, _| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        let v = exchange(k, a, x.load(t), 1);
        // A slow thread may still load from `a`.
        let w = exchange(k, b, v, 2);
        y.store(k.block_idx().x * THREADS + t, w);
    });
    assert_eq!(bytes, (512, 512));
}

/// The second phase stands between two uses of the first allocation, or an iteration before it.
#[test]
fn values_that_live_across_a_phase_stay() {
    let bytes = check(|k, x, y, _| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        let v = exchange(k, a, x.load(t), 1);
        k.barrier();
        let w = exchange(k, b, v, 2);
        k.barrier();
        y.store(k.block_idx().x * THREADS + t, w + a.load(t ^ 9));
    });
    assert_eq!(bytes, (512, 512));
    let bytes = check(|k, x, y, n| {
        let (a, b) = (k.shared::<i32>(THREADS), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        a.store(t, 0);
        k.barrier();
        let sum = k.for_(range(0, n), 0, |k, i, sum| {
            let old = a.load(t);
            a.store(t, old + i);
            k.barrier();
            let w = exchange(k, b, x.load(t + i), 2);
            k.barrier();
            sum + w + old
        });
        y.store(k.block_idx().x * THREADS + t, sum);
    });
    assert_eq!(bytes, (512, 512));
}

#[test]
fn asynchronous_operations_keep_their_memory() {
    let bytes = check(|k, x, y, _| {
        let (a, b) = (k.shared_aligned::<i32>(THREADS, 16), k.shared::<i32>(THREADS));
        let t = k.thread_idx().x;
        k.cp_async(a.offset(t), x.offset(t), CpAsyncCache::Ca, 4);
        k.cp_async_wait_all();
        k.barrier();
        let v = a.load(t ^ 1);
        k.barrier();
        let w = exchange(k, b, v, 2);
        y.store(k.block_idx().x * THREADS + t, w);
    });
    assert_eq!(bytes, (512, 512));
}

/// Random chains of phases and branches compute the same, and never take more.
#[test]
fn random_phases_compute_the_same() {
    for seed in 0..40 {
        let bytes = check(|k, x, y, n| {
            let mut rng = Rng::new(seed);
            let tiles: Vec<_> = (0..4).map(|i| k.shared::<i32>(THREADS * (1 + i % 2))).collect();
            let t = k.thread_idx().x;
            let mut v = x.load(t);
            for _ in 0..2 + rng.below(5) {
                let (first, second) = (tiles[rng.below(4)], tiles[rng.below(4)]);
                let apart = 1 << rng.below(5);
                if rng.below(3) == 0 {
                    let cond = (k.block_idx().x + n).gt(rng.below(3) as i32);
                    v = k.if_else(
                        cond,
                        |k| k.yield_(exchange(k, first, v, apart)),
                        |k| k.yield_(exchange(k, second, v + 3, apart)),
                    );
                } else {
                    v = exchange(k, first, v, apart) + n;
                }
                // A tile that is used again needs a barrier in any case.
                k.barrier();
            }
            y.store(k.block_idx().x * THREADS + t, v);
        });
        assert!(bytes.1 <= bytes.0, "seed {seed}");
    }
}

/// Allocations that do not fit together may fit where they share memory.
#[test]
fn a_kernel_may_fit_by_merging() {
    let body = |k: &mut Body<'_, '_>, y: Val<'_, GlobalMut<i32>>| {
        let many = 30_000;
        let (a, b) = (k.shared::<i32>(many), k.shared::<i32>(many));
        let t = k.thread_idx().x;
        a.store(t, t);
        k.barrier();
        let v = a.load(t ^ 1);
        k.barrier();
        b.store(t, v);
        y.store(t, b.load(t));
    };
    let plain = build(false, |k, _, y, _| body(k, y)).unwrap_err().to_string();
    assert!(plain.contains("240000 bytes"), "{plain}");
    let merged = build(true, |k, _, y, _| body(k, y)).unwrap();
    assert_eq!(merged.merged_shared().unwrap().after, 120_000);
}
