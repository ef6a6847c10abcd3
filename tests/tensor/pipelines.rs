//! Passes data through rings of stages, and checks the errors of impossible rings.

use crate::support::device;

use tilewright::ir::op::{CpAsyncCache, L2Policy, ProxySpace};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, Global, GlobalMut, Kernel, KernelOptions, Shared, Target, TensorMapMut, Val, bf16, range,
};
use tilewright::layout::{layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::Options;
use tilewright::tensor::atom::{CacheOp, CopyAtom, CopyOp, MmaAtom, TiledCopy, TiledMma};
use tilewright::tensor::copy::{TmaCopy, copy};
use tilewright::tensor::mma::gemm;
use tilewright::tensor::pipeline::{
    CpAsyncPipeline, Raster, RowGroups, TileScheduler, TmaPipeline, TmaStorePipeline, WarpRole,
    warp_roles,
};
use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer};

/// Copies what a thread has of a row of 64 elements.
fn copy_row<'b>(
    k: &Body<'b, '_>,
    (x, ring): (Val<'b, Global<i32>>, Val<'b, Shared<i32>>),
    [thread, row, place]: [Val<'b, i32>; 3],
) {
    let (to, from) = (ring.offset(place + thread), x.offset(row * 64 + thread));
    k.cp_async(to, from, CpAsyncCache::Ca, 4);
}

/// Rows pass through rings of all sizes, whole ones and less; each thread uses what another one
/// copied.
#[test]
fn rows_pass_through_rings_of_all_sizes() {
    for (stages, pitch) in [(2, 1), (3, 1), (3, 64), (4, 96), (5, 64)] {
        let pipe = CpAsyncPipeline::new(stages, pitch).unwrap();
        assert_eq!((pipe.stages(), pipe.ahead()), (stages, stages - 1));
        // A place is a number of a stage or of elements.
        let scale = if pitch == 1 { 64u32 } else { 1 };
        let elements = stages * pitch * scale;
        type Params = (Global<i32>, GlobalMut<i32>, i32);
        let kernel = Kernel::<Params>::build("rows", Target::SM_80, |k, (x, y, rows)| {
            let ring = k.shared::<i32>(elements);
            let t = k.thread_idx().x;
            pipe.fill(k, |k, row, place| {
                let row = k.value(row);
                k.if_(row.lt(rows), |k| copy_row(k, (x, ring), [t, row, place * scale]));
            });
            let start = (pipe.start(k), k.constant(0));
            let (_, sum) = k.for_(range(0, rows), start, |k, row, (state, sum)| {
                let ahead = row + pipe.ahead();
                k.if_(ahead.lt(rows), |k| copy_row(k, (x, ring), [t, ahead, state.write * scale]));
                let sum = sum * 3 + ring.load(state.read * scale + (63 - t));
                pipe.commit(k);
                pipe.wait(k);
                (pipe.next(state), sum)
            });
            pipe.drain(k);
            y.store(t, sum);
        })
        .unwrap();
        for device in device::devices() {
            let function = device.load(&kernel).unwrap();
            for rows in [0, 1, 2, 3, 7, 12] {
                let values: Vec<i32> = (0..64 * 12).map(|i| i * 7 % 31).collect();
                let (x, mut y) = (device.upload(&values).unwrap(), device.zeros(64).unwrap());
                let grid = Grid::new([1, 1, 1], [64, 1, 1]);
                function.launch(grid, (&x, &mut y, rows as i32)).unwrap();
                let sum =
                    |t: usize| (0..rows).fold(0i32, |sum, row| sum * 3 + values[64 * row + 63 - t]);
                assert_eq!(y.to_vec().unwrap(), (0..64).map(sum).collect::<Vec<_>>(), "{stages}");
            }
        }
    }
}

/// Two warps, each with a ring and a barrier of its own, store more tiles than there are stages.
#[test]
fn stages_are_stored_while_others_are_written() {
    for stages in [1, 2, 3] {
        let copy = TmaCopy::new(Scalar::I32, layout!((1, 32):(32, 1))).unwrap();
        let kernel = Kernel::<(TensorMapMut<i32, 2>,)>::build("rows", Target::SM_90, |k, (to,)| {
            let all = layout!((1, 32, 3, 2):(32, 1, 32, 96));
            let all = SharedTensor::<i32>::shared_aligned(k, all, 128);
            let t = k.thread_idx().x;
            let (warp, lane) = (t / 32, t % 32);
            let barrier = k.named_barrier(warp.cvt::<u32>() + 1, 32);
            let pipe = TmaStorePipeline::new(k, stages, lane.eq(0)).with_barrier(barrier);
            for step in 0..7 {
                let at = (.., .., i64::from(pipe.stage(step)), warp);
                let stage = all.slice(at);
                let row = warp * 7 + step as i32;
                pipe.acquire();
                stage.store((0, lane), row * 100 + lane);
                pipe.commit(|_| copy.store(to, &stage, (row, 0)));
            }
            pipe.finish();
        })
        .unwrap();
        let wait = format!("cp.async.bulk.wait_group.read {};", stages - 1);
        assert!(kernel.ptx().text().contains(&wait));
        let map = copy.desc(&layout!((14, 32):(32, 1))).unwrap();
        let expected: Vec<i32> = (0..14 * 32).map(|i| i / 32 * 100 + i % 32).collect();
        for device in device::devices() {
            if device.target() < Target::SM_90 {
                continue;
            }
            let mut x = device.zeros::<i32>(14 * 32).unwrap();
            let mut to = x.tensor_map_mut(&map).unwrap();
            let grid = Grid::new([1, 1, 1], [64, 1, 1]);
            device.load(&kernel).unwrap().launch(grid, (&mut to,)).unwrap();
            assert_eq!(x.to_vec().unwrap(), expected, "{stages} stages");
        }
    }
}

/// Row `i` has `4 * (i + 1)` numbers. Each role tries a stage first, and waits only where the stage
/// is not ready.
#[test]
fn rows_of_different_lengths_are_tried_first() {
    for stages in [1, 2, 3] {
        type Params = (Global<i32>, GlobalMut<i32>);
        let kernel = Kernel::<Params>::build("rows", Target::SM_90, |k, (x, y)| {
            let ring = k.shared_aligned::<i32>(stages * 32, 128);
            let pipe = TmaPipeline::new(k, stages, 128, 32);
            let t = k.thread_idx().x;
            pipe.init(t.eq(0));
            k.barrier();
            k.if_(t.eq(32), |k| {
                k.for_(range(0, 7), pipe.producer(), |k, row, state| {
                    let is_empty = pipe.try_acquire(state);
                    k.if_(!is_empty, |_| pipe.wait_empty(state));
                    let bytes = (row + 1).cvt::<u32>() * 16;
                    let full = pipe.expect_transaction(state, bytes);
                    let (to, from) = (ring.offset(state.stage * 32), x.offset(row * 32));
                    k.cp_async_bulk_load(to, from, bytes, full, L2Policy::EvictFirst);
                    state.next()
                });
            });
            k.if_(t.lt(32), |k| {
                let state = pipe.consumer();
                let start = (state, pipe.try_wait(state), k.constant(0));
                let (.., sum) = k.for_(range(0, 7), start, |k, row, (state, is_full, sum)| {
                    k.if_(!is_full, |_| pipe.wait(state));
                    let has = t.lt(4 * (row + 1));
                    let number = k.if_with(has, 0, |_| ring.load(state.stage * 32 + t));
                    k.fence_proxy_async(ProxySpace::SharedCta);
                    pipe.release(state);
                    let next = state.next();
                    (next, pipe.try_wait(next), sum * 3 + number)
                });
                y.store(t, sum);
            });
        })
        .unwrap();
        let x: Vec<i32> = (0..7 * 32).map(|i| i * 7 % 31).collect();
        let sum = |t: usize| {
            (0..7).fold(0, |sum, row| sum * 3 + if t < 4 * (row + 1) { x[32 * row + t] } else { 0 })
        };
        let races = Options::default().target(Target::SM_90).race(true).schedules(6);
        for device in device::devices().into_iter().chain([Device::sim_with(races)]) {
            if device.target() < Target::SM_90 {
                continue;
            }
            let (input, mut y) = (device.upload(&x).unwrap(), device.zeros(32).unwrap());
            let grid = Grid::new([1, 1, 1], [64, 1, 1]);
            device.load(&kernel).unwrap().launch(grid, (&input, &mut y)).unwrap();
            assert_eq!(
                y.to_vec().unwrap(),
                (0..32).map(sum).collect::<Vec<_>>(),
                "{stages} stages"
            );
        }
    }
}

/// An impossible ring, rasterization or set of roles is a typed error, not a kernel that hangs.
#[test]
fn what_cannot_be_is_named() {
    let text = |stages, elements| CpAsyncPipeline::new(stages, elements).unwrap_err().to_string();
    assert_eq!(
        text(1, 64),
        "`CpAsyncPipeline` of 1 stages of 64 elements: expected 2 to 33554431 stages, got 1"
    );
    assert!(text(2, 0).ends_with("expected 1 to 1073741823 elements per stage, got 0"));
    assert!(text(5, 1 << 29).ends_with("expected 2 to 3 stages, got 5"));
    let errors = |body: &dyn Fn(&mut Body<'_, '_>)| {
        let options = KernelOptions::default().block([384, 1, 1]);
        let kernel = Kernel::<()>::build_with(options, "wrong", Target::SM_90A, |k, ()| body(k));
        kernel.map_or_else(
            |errors| errors.iter().map(|e| e.kind.to_string()).collect::<Vec<_>>(),
            |_| Vec::new(),
        )
    };
    let found = errors(&|k| {
        TmaPipeline::new(k, 0, 128, 0);
        let issuer = k.constant(true);
        TmaStorePipeline::new(k, 0, issuer);
    });
    assert_eq!(
        found,
        [
            "`TmaPipeline` of 0 stages of 128 bytes, 0 consumers: expected 1 to 1073741823 stages, got 0",
            "`TmaPipeline` of 0 stages of 128 bytes, 0 consumers: expected 1 to 1048575 consumers, got 0",
            "`TmaStorePipeline` of 0 stages: expected 1 to 4294967295 stages, got 0",
        ]
    );
    let found = errors(&|k| {
        let extents = [k.constant(4), k.constant(4), k.constant(1)];
        TileScheduler::new(k, Raster::Swizzle { width: 0 }, extents);
        TileScheduler::new(k, Raster::SwizzleAlongM { width: u32::MAX }, extents);
        TileScheduler::new(k, Raster::Hilbert, extents);
    });
    assert_eq!(
        found,
        [
            "`TileScheduler` of strip0: expected 1 to 2147483647 rows in a strip, got 0",
            "`TileScheduler` of mstrip4294967295: expected 1 to 2147483647 columns in a strip, got 4294967295",
        ]
    );
    let found = errors(&|k| {
        warp_roles(k, &[], 168, |_, _, _| ());
        warp_roles(k, &[WarpRole::new(0), WarpRole::new(3)], 168, |_, _, _| ());
        warp_roles(k, &[WarpRole::new(1), WarpRole::new(1)], 168, |_, _, _| ());
        warp_roles(k, &[WarpRole::new(1), WarpRole::new(2)], 168, |_, _, _| ());
    });
    assert_eq!(
        found,
        [
            "`warp_roles` of roles of [] warp groups: expected 1 to 8 roles, got 0",
            "`warp_roles` of roles of [0, 3] warp groups: expected 1 to 8 warp groups in a role, got 0",
            "`warp_roles` of roles of [1, 1] warp groups: expected 384 threads in all roles together, got 256",
        ]
    );
    let found = errors(&|k| {
        let pipe = TmaPipeline::new(k, 2, 128, 32).written_by(4);
        pipe.expect_transaction(pipe.producer(), 128u32);
    });
    assert_eq!(
        found,
        ["`expect_transaction` of a stage: expected 0 threads that write a stage, got 4"]
    );
    type Params = (Global<i32>, GlobalMut<u32>);
    let kernel = Kernel::<Params>::build("drawn", Target::SM_90, |k, (bounds, taken)| {
        let [count, one] = [4, 1].map(|x| k.constant(x));
        let tiles = TileScheduler::new(k, Raster::AlongN, [one; 3]);
        tiles.drawn(Some((taken, 32)));
        let groups = RowGroups { bounds, count, capacity: k.constant(0) };
        let tiles = tiles.row_groups(Some(groups), 4);
        tiles.drawn(None).of_group(one, 2);
        tiles.drawn(Some((taken, 32))).of_group(one, 2);
    });
    let errors = kernel.unwrap_err();
    let found: Vec<String> = errors.iter().map(|e| e.kind.to_string()).collect();
    assert_eq!(
        found,
        [
            "`TileScheduler::drawn` of n: cannot draw tiles from a counter: \
             without groups the tile count is fixed: use `DynamicScheduler`",
            "`TileScheduler::drawn` of n: cannot draw tiles from a counter: \
             `of_group` hands out tiles that the counter hands out again",
        ]
    );
}

/// A plain loop of `cp.async` and tensor cores, with its copies ahead, gives the product of the
/// plain loop.
#[test]
fn products_of_tiles_that_are_copied_ahead() {
    let copy_atom = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: false };
    let loads = TiledCopy::new(
        CopyAtom::new(copy_atom).unwrap(),
        Scalar::Bf16,
        &layout!((16, 4):(4, 1)),
        &layout!((1, 8)),
    )
    .unwrap();
    let atom: MmaAtom = "SM80_16x8x16_F32BF16BF16F32_TN".parse().unwrap();
    let mma = TiledMma::new(atom, &layout!((1, 2, 1)), tiler!(_, _, _)).unwrap();
    type Params = (Global<bf16>, Global<bf16>, GlobalMut<f32>, i32);
    let matrix = layout!((16, 160):(160, 1));
    let values: Vec<bf16> = (0..16 * 160).map(|i| bf16::from_f32((i % 11) as f32)).collect();
    for stages in 0..=3 {
        let kernel = Kernel::<Params>::build("ahead", Target::SM_80, |k, (a, b, c, tiles)| {
            let thread = k.thread_idx().x;
            let [a, b] = [a, b].map(|x| {
                let x = TensorPointer::new(x).assume_aligned(16);
                Tensor::new(x, &matrix).local_tile(&tiler!(16, 32), (0, ..))
            });
            let [sa, sb] = [(); 2]
                .map(|()| SharedTensor::<bf16>::shared_aligned(k, layout!((16, 32):(40, 1)), 16));
            let (load, mine) = (loads.slice(thread), mma.slice(thread));
            let acc = mine.fragment_c::<f32>(k, shape!(16, 16));
            acc.fill(0.0);
            k.for_(range(0, tiles).prefetch_stages(stages), (), |k, step, ()| {
                for (from, to) in [(&a, &sa), (&b, &sb)] {
                    let from = load.partition_s(&from.slice((.., .., step)));
                    load.copy(&from, &load.partition_d(to));
                }
                k.cp_async_commit_group();
                k.cp_async_wait_group(0);
                k.barrier();
                gemm(&mma, &acc, &mine.partition_a(&sa), &mine.partition_b(&sb));
                k.barrier();
            });
            copy(&acc, &mine.partition_c(&Tensor::new(c, layout!((16, 16):(16, 1)))));
        })
        .unwrap();
        for device in device::devices() {
            let x = device.upload(&values).unwrap();
            let function = device.load(&kernel).unwrap();
            for tiles in 0..=5 {
                let mut c = device.zeros::<f32>(16 * 16).unwrap();
                function.launch(Grid::cover(64, 64), (&x, &x, &mut c, tiles)).unwrap();
                let at = |row: usize, column: usize| values[row * 160 + column].to_f32();
                let product = |i: usize, j: usize| -> f32 {
                    (0..32 * tiles as usize).map(|l| at(i, l) * at(j, l)).sum()
                };
                let c = c.to_vec().unwrap();
                let wrong = (0..256).find(|at| c[*at] != product(at / 16, at % 16));
                assert_eq!(wrong, None, "{stages} stages, {tiles} tiles on {device}");
            }
        }
    }
}
