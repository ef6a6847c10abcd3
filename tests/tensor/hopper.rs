//! Tile schedulers, pipelines, tensor copies and staged stores on the simulator: laws first.

use crate::support::device;

use tilewright::arch::Major;
use tilewright::ir::op::{BulkReduce, BulkWait, ProxySpace};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Kernel, Target, TensorMap, TensorMapMut, Val,
    bf16, f16, range,
};
use tilewright::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{StagedStore, TmaCopy};
use tilewright::tensor::pipeline::{
    PipelineState, Raster, TileScheduler, TmaPipeline, WarpRole, warp_roles,
};
use tilewright::tensor::view::SharedTensor;

const RASTERS: [Raster; 6] = [
    Raster::AlongM,
    Raster::AlongN,
    Raster::Swizzle { width: 1 },
    Raster::Swizzle { width: 3 },
    Raster::SwizzleAlongM { width: 4 },
    Raster::Hilbert,
];

/// The device takes the tiles in the order of the host, one matrix of a batch after the other.
#[test]
fn schedulers_follow_their_raster() -> Result<(), BuildErrors> {
    let device = Device::sim().unwrap();
    for raster in RASTERS {
        type Params = (GlobalMut<i32>, i32, i32, i32);
        let kernel =
            Kernel::<Params>::build("order", Target::SM_80, |k, (x, rows, columns, batch)| {
                let tiles = TileScheduler::new(k, raster, [rows, columns, batch]);
                tiles.for_each(k, k.block_idx().x, |k, tile, number| {
                    x.store(number * 3, tile.row);
                    x.store(number * 3 + 1, tile.column);
                    x.store(number * 3 + 2, tile.batch);
                    number + k.grid_dim().x
                });
            })?;
        let function = device.load(&kernel).unwrap();
        for [rows, columns] in [[1, 1], [1, 9], [9, 1], [4, 4], [5, 7], [8, 3], [13, 6], [7, 16]] {
            let mut x = device.zeros::<i32>(2 * 3 * (rows * columns) as usize).unwrap();
            let (m, n) = (rows as i32, columns as i32);
            function.launch(Grid::new([3, 1, 1], [1, 1, 1]), (&mut x, m, n, 2)).unwrap();
            let found: Vec<[i32; 3]> = x
                .to_vec()
                .unwrap()
                .chunks_exact(3)
                .map(|tile| [tile[0], tile[1], tile[2]])
                .collect();
            let expected = (0..2).flat_map(|batch| {
                (0..rows * columns).map(move |i| {
                    let [row, column] = raster.tile(i, [rows, columns]);
                    [row as i32, column as i32, batch]
                })
            });
            assert!(found.into_iter().eq(expected), "{raster}, {rows} x {columns}");
        }
    }
    Ok(())
}

/// Blocks of a cluster have adjacent rows of tiles; ping-pong groups have alternate tiles.
#[test]
fn clusters_and_turns_share_the_tiles() -> Result<(), BuildErrors> {
    let device = Device::sim().unwrap();
    type Params = (GlobalMut<i32>, i32, i32);
    let kernel = Kernel::<Params>::build("turns", Target::SM_80, |k, (x, rows, columns)| {
        let tiles =
            TileScheduler::new(k, Raster::Swizzle { width: 2 }, [rows, columns, k.constant(1)]);
        let group = k.thread_idx().x;
        tiles.clusters([2, 1]).of_group(group, 2).for_each(k, (), |k, tile, ()| {
            k.if_(tile.row.lt(rows), |k| {
                x.store(tile.row * columns + tile.column, k.block_idx().x * 2 + group + 1);
            });
        });
    })?;
    let mut x = device.zeros::<i32>(35).unwrap();
    device.load(&kernel).unwrap().launch(Grid::new([4, 1, 1], [2, 1, 1]), (&mut x, 7, 5)).unwrap();
    let x = x.to_vec().unwrap();
    // Every tile has its taker; rows 2i and 2i + 1 are of the two blocks of one cluster.
    for (i, taker) in x.iter().enumerate() {
        assert!(*taker > 0, "tile {i}");
        assert_eq!((taker - 1) / 2 % 2, i as i32 / 5 % 2, "tile {i}");
    }
    Ok(())
}

/// `skip(n)` is `n` times `next`, and `previous` goes back.
#[test]
fn skipping_is_going_on() -> Result<(), BuildErrors> {
    let device = Device::sim().unwrap();
    for stages in 1..6 {
        let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("ring", Target::SM_80, |k, (x, n)| {
            let start = TmaPipeline::new(k, stages, 128, 1).producer().next().next();
            let slow = k.for_(range(0, n), start, |_, _, state| state.next());
            let fast = start.skip(n);
            for (i, state) in [slow, fast].into_iter().enumerate() {
                let states = [state, state.next().previous()];
                for (j, state) in states.into_iter().enumerate() {
                    let at = (4 * i + 2 * j) as i32;
                    x.store(at, state.stage);
                    x.store(at + 1, state.parity.cvt::<i32>());
                }
            }
        })?;
        let function = device.load(&kernel).unwrap();
        for n in [0, 1, 2, 3, 4, 5, 6, 7, 13, 100] {
            let mut x = device.zeros::<i32>(8).unwrap();
            function.launch(Grid::cover(1, 1), (&mut x, n)).unwrap();
            let x = x.to_vec().unwrap();
            assert!(x.chunks(2).all(|state| *state == x[..2]), "{stages} stages, {n} steps: {x:?}");
        }
    }
    Ok(())
}

/// Loops, tuples, arrays and structs keep the ring of a state; an `if_else` loses it, and the build
/// says so.
#[test]
fn a_state_knows_its_ring() {
    tilewright::values! {
        struct Both<'b> {
            states: [PipelineState<'b>; 2],
            count: Val<'b, i32>,
        }
    }
    let build = |forget: bool| {
        Kernel::<(GlobalMut<i32>, i32)>::build("ring", Target::SM_80, |k, (x, n)| {
            let rings = [3, 5].map(|stages| TmaPipeline::new(k, stages, 128, 1).consumer());
            let start = (Both { states: rings, count: n }, 0);
            let (both, _) = k.for_(range(0, n), start, |k, i, (both, _)| {
                let [a, b] = both.states;
                let a = k.if_with(i.gt(3), a, |_| a.next());
                (Both { states: [a.next(), b.next()], ..both }, i)
            });
            let [mut a, b] = k.while_(
                both.states,
                |_, [a, _]| a.stage.ne(0),
                |_, all| all.map(|state| state.next()),
            );
            assert_eq!([a.stages, b.stages], [3, 5]);
            if forget {
                a = k.if_else(n.gt(0), |k| k.yield_(a), |k| k.yield_(b));
            }
            x.store(0, a.next().stage);
        })
    };
    assert!(build(false).is_ok());
    let error = build(true).unwrap_err().to_string();
    let other = "one path gives the state of a ring buffer with 3 stages, but another gives the state of a ring buffer with 5 stages";
    assert!(error.contains(other), "{error}");
}

/// A tile that is fetched is where its layout says, zero outside of the tensor; a tile that is
/// stored arrives.
#[track_caller]
fn check_copy(tile: &ComposedLayout, tensor: (i64, i64), major: Major, origin: [i32; 2]) {
    let copy = TmaCopy::new(Scalar::Bf16, tile).unwrap();
    type Params = (TensorMap<bf16, 2>, TensorMapMut<bf16, 2>, GlobalMut<f32>, i32, i32);
    let sizes: Vec<i64> = tile
        .outer_layout()
        .unwrap()
        .modes()
        .map(|m| m.size().unwrap().to_static().unwrap())
        .collect();
    let (rows, columns) = (sizes[0], sizes[1]);
    let kernel = Kernel::<Params>::build("copy", Target::SM_90, |k, (from, to, y, row, column)| {
        let x = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 1024);
        let pipe = TmaPipeline::new(k, 1, copy.bytes(), 1);
        let first = k.thread_idx().x.eq(0);
        pipe.init(first);
        k.barrier();
        k.if_(first, |_| {
            let full = pipe.acquire(pipe.producer());
            copy.load(from, (row, column), &x, full);
        });
        pipe.wait(pipe.consumer());
        k.for_(range(0, rows as i32), (), |k, i, ()| {
            k.for_(range(0, columns as i32), (), |_, j, ()| {
                y.store(i * columns as i32 + j, x.load((i, j)).cvt::<f32>());
            });
        });
        k.if_(first, |k| {
            copy.store(to, &x, (row, column));
            k.cp_async_bulk_commit_group();
            k.cp_async_bulk_wait_group(0, tilewright::ir::op::BulkWait::Done);
        });
    })
    .unwrap();
    let device = Device::sim().unwrap();
    let strides = if major == Major::K { (tensor.1, 1) } else { (1, tensor.0) };
    let matrix = Layout::new(tensor, strides).unwrap();
    let place = |row: i64, column: i64| (row * strides.0 + column * strides.1) as usize;
    let len = (tensor.0 * tensor.1) as usize;
    let data: Vec<bf16> = (0..len).map(|i| bf16::from_f32((i % 251) as f32 + 1.0)).collect();
    let x = device.upload(&data).unwrap();
    let mut copied = device.zeros::<bf16>(len).unwrap();
    let mut y = device.upload(&vec![f32::NAN; (rows * columns) as usize]).unwrap();
    let map = copy.desc(&matrix).unwrap();
    let from = x.tensor_map(&map).unwrap();
    let mut to = copied.tensor_map_mut(&map).unwrap();
    let grid = Grid::cover(1, 1);
    let args = (&from, &mut to, &mut y, origin[0], origin[1]);
    device.load(&kernel).unwrap().launch(grid, args).unwrap();
    let (y, copied) = (y.to_vec().unwrap(), copied.to_vec().unwrap());
    let mut inside = vec![false; len];
    for i in 0..rows {
        for j in 0..columns {
            let (row, column) = (i + i64::from(origin[0]), j + i64::from(origin[1]));
            let there = (0..tensor.0).contains(&row) && (0..tensor.1).contains(&column);
            let expected = if there { data[place(row, column)].to_f32() } else { 0.0 };
            assert_eq!(y[(i * columns + j) as usize], expected, "{tile}: ({i},{j})");
            if there {
                inside[place(row, column)] = true;
            }
        }
    }
    for (i, (found, inside)) in copied.iter().zip(inside).enumerate() {
        let expected = if inside { data[i].to_f32() } else { 0.0 };
        assert_eq!(found.to_f32(), expected, "{tile}: element {i} of the copy");
    }
}

#[test]
fn tiles_are_fetched_and_stored() {
    for swizzle in [SmemSwizzle::Sw32, SmemSwizzle::Sw64, SmemSwizzle::Sw128] {
        let rows = SmemAtom::new(Major::K, swizzle).position_independent(16).unwrap();
        let columns = SmemAtom::new(Major::Mn, swizzle).position_independent(16).unwrap();
        let order = Some(shape!(1, 0));
        for shape in [shape!(16, 64), shape!(64, 128)] {
            let tile = rows.tile_to_shape(&shape, None).unwrap();
            check_copy(&tile, (100, 136), Major::K, [8, 16]);
            check_copy(&tile, (40, 72), Major::K, [32, 64]);
        }
        let shape: IntTuple = shape!(128, 16);
        let tile = columns.tile_to_shape(&shape, order.as_ref()).unwrap();
        check_copy(&tile, (136, 40), Major::Mn, [64, 8]);
        check_copy(&tile, (72, 21), Major::Mn, [0, 16]);
    }
    check_copy(&layout!((24, 40) : (40, 1)).into(), (50, 48), Major::K, [32, 8]);
}

/// Tiles of several boxes, partly outside of the tensor, combined with what is there: each element
/// as the definition says.
fn check_reduce<T: Element>(
    op: BulkReduce,
    number: impl Fn(u64) -> T,
    combined: impl Fn(T, T) -> T,
) {
    let bits = T::SCALAR.bits();
    let columns = SmemAtom::new(Major::Mn, SmemSwizzle::Sw32).position_independent(bits).unwrap();
    let rows = i64::from(64 * 8 / bits);
    let tile = columns.tile_to_shape(&shape!(rows, 16), Some(&shape!(1, 0))).unwrap();
    let copy = TmaCopy::new(T::SCALAR, &tile).unwrap();
    assert_eq!(copy.boxes(), 2);
    // The second tile hangs over both ends.
    let (m, n) = (rows + rows / 2, 20);
    type Params<T> = (Global<T>, TensorMapMut<T, 2>);
    let kernel = Kernel::<Params<T>>::build("reduce", Target::SM_90, |k, (x, to)| {
        let part = SharedTensor::<T>::shared_aligned(k, tile.clone(), 1024);
        let t = k.thread_idx().x;
        k.for_(range(t, (rows * 16) as i32).step(32), (), |_, i, ()| {
            part.store(i, x.load(i));
        });
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.barrier();
        k.if_(t.eq(0), |k| {
            for origin in [(0, 0), (rows, 8)] {
                copy.reduce(op, to, &part, origin);
            }
            k.cp_async_bulk_commit_group();
            k.cp_async_bulk_wait_group(0, BulkWait::Done);
        });
    })
    .unwrap();
    let name = format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}");
    assert_eq!(kernel.ptx().text().matches(&name).count(), 4, "{name}");
    let x: Vec<T> = (0..(rows * 16) as u64).map(|i| number(i * 7 % 13)).collect();
    let old: Vec<T> = (0..(m * n) as u64).map(|i| number(i * 5 % 11)).collect();
    let mut expected = old.clone();
    for (row, column) in [(0, 0), (rows, 8)] {
        for (i, j) in (0..rows).flat_map(|i| (0..16).map(move |j| (i, j))) {
            if row + i < m && column + j < n {
                let place = &mut expected[(row + i + m * (column + j)) as usize];
                *place = combined(*place, x[(i + rows * j) as usize]);
            }
        }
    }
    for device in device::devices() {
        if !device.is_sim() && !device.target().offers(Target::SM_90) {
            continue;
        }
        let (x, mut y) = (device.upload(&x).unwrap(), device.upload(&old).unwrap());
        let map = copy.desc(&layout!((m, n) : (1, m))).unwrap();
        let mut to = y.tensor_map_mut(&map).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut to as _)).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "{op} of {} on {}", T::SCALAR, device.name());
    }
}

#[test]
fn tiles_are_combined_with_a_tensor() {
    let half = |i: u64| f16::from_f32(i as f32);
    check_reduce(BulkReduce::Add, |i| i as f32, |a, b| a + b);
    check_reduce(BulkReduce::Add, half, |a, b| f16::from_f32(a.to_f32() + b.to_f32()));
    check_reduce(BulkReduce::Add, |i| i as i32 - 5, |a, b| a + b);
    check_reduce(BulkReduce::Min, |i| i as i32 - 5, Ord::min);
    check_reduce(BulkReduce::Max, |i| i, Ord::max);
    check_reduce(BulkReduce::Max, half, |a, b| f16::from_f32(a.to_f32().max(b.to_f32())));
    check_reduce(BulkReduce::And, |i| i as u32, |a, b| a & b);
    check_reduce(BulkReduce::Or, |i| i as u32, |a, b| a | b);
    check_reduce(BulkReduce::Xor, |i| i, |a, b| a ^ b);
    check_reduce(BulkReduce::Inc, |i| i as u32, |a, b| if a >= b { 0 } else { a + 1 });
    check_reduce(BulkReduce::Dec, |i| i as u32, |a, b| if a == 0 || a > b { b } else { a - 1 });
}

/// A tile that no TMA copy moves is refused, with the reason.
#[test]
fn tiles_that_no_copy_moves() {
    let said = |tile: &str| {
        let tile: ComposedLayout = tile.parse().unwrap();
        TmaCopy::new(Scalar::Bf16, &tile).unwrap_err().to_string()
    };
    let table = [
        ("S<2,4,3> o 0 o (64,64):(64,1)", "does not support this swizzle"),
        ("S<3,3,3> o 64 o (64,64):(64,1)", "add it to the pointer"),
        ("S<3,3,3> o 0 o (64,32):(32,1)", "must be as wide as its swizzle"),
        ("(64,4):(4,1)", "multiples of 16 bytes"),
        ("(512,64):(64,1)", "at most 256 elements"),
    ];
    for (tile, expected) in table {
        let found = said(tile);
        assert!(found.contains(expected), "{tile}: {found}");
    }
    let copy = TmaCopy::new(Scalar::Bf16, layout!((8, 64) : (64, 1))).unwrap();
    let other = Kernel::<(TensorMapMut<bf16, 2>,)>::build("k", Target::SM_90A, |k, (map,)| {
        let tile = SharedTensor::<bf16>::shared_aligned(k, layout!((8, 64) : (72, 1)), 128);
        copy.store(map, &tile, (0, 0));
    });
    let error = other.map(|_| ()).unwrap_err().to_string();
    assert!(
        error
            .contains("its layout is (8,64):(72,1), but the copy was made for tiles (8,64):(64,1)"),
        "{error}"
    );
    let error = copy.desc(&layout!((100, 64) : (1, 104))).unwrap_err().to_string();
    assert!(error.contains("contiguous along the same mode"), "{error}");
    let error = copy.desc(&layout!((100, 70) : (70, 1))).unwrap_err().to_string();
    assert!(error.contains("140"), "{error}");
    assert!(
        StagedStore::new(Scalar::Bf16, 60, 1).is_err()
            && StagedStore::new(Scalar::F64, 64, 1).is_err()
    );
}

/// The sum, and the number of its place.
fn numbered<'b>(
    _: &mut Body<'b, '_>,
    sum: Val<'b, f32>,
    [row, column, matrix]: [Val<'b, i32>; 3],
) -> Val<'b, f32> {
    sum + (matrix * 10000 + row * 100 + column).cvt::<f32>()
}

/// A staged store writes each accumulator to the coordinate of its map, at once or overlapped.
#[test]
fn sums_know_their_places() {
    let op = Wgmma::new(96, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    let atom = MmaAtom::new(op).unwrap();
    let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap();
    for late in [false, true] {
        let store = StagedStore::new(Scalar::F32, if late { 24 } else { 48 }, 2).unwrap();
        type Params = (TensorMapMut<f32, 3>,);
        let kernel = Kernel::<Params>::build("places", Target::SM_90A, |k, (map,)| {
            let (thread, to) = (k.thread_idx().x, k.shared_aligned::<f32>(store.elements(), 1024));
            let part = store.slice(k, map, to, thread, k.named_barrier(1, 128));
            let acc = mma.slice(thread).fragment_c::<f32>(k, shape!(64, 96));
            acc.fill(0.25);
            let origin = [64, 0, 1].map(|number| k.constant(number));
            if late {
                let kept = k.registers::<u32>(48);
                part.keep(&acc, origin, &kept, &numbered);
                (0..4).for_each(|number| part.part(origin, &kept, number));
            } else {
                part.tile(&acc, origin, [1, 64, 96], &numbered);
            }
            part.finish();
        })
        .unwrap();
        let device = Device::sim().unwrap();
        let mut d = device.zeros::<f32>(2 * 128 * 96).unwrap();
        let map = store.desc(&layout!((128, 96, 2) : (96, 1, 12288))).unwrap();
        let args = (&mut d.tensor_map_mut(&map).unwrap(),);
        device.load(&kernel).unwrap().launch(Grid::new([1, 1, 1], [128, 1, 1]), args).unwrap();
        for (i, found) in d.to_vec().unwrap().into_iter().enumerate() {
            let (matrix, row, column) = (i / 12288, i / 96 % 128, i % 96);
            let is_written = matrix == 1 && row >= 64;
            let expected = (matrix * 10000 + row * 100 + column) as f32 + 0.25;
            assert_eq!(
                found,
                if is_written { expected } else { 0.0 },
                "({row},{column}) late: {late}"
            );
        }
    }
}

/// Roles: each warp group runs the body of its role alone, and knows its number in it.
#[test]
fn roles_share_out_the_groups() -> Result<(), BuildErrors> {
    let device = Device::sim().unwrap();
    for counts in [vec![1], vec![1, 1], vec![1, 2], vec![2, 1, 1]] {
        let roles: Vec<WarpRole> = counts.iter().map(|n| WarpRole::new(*n)).collect();
        let kernel = Kernel::<(GlobalMut<i32>,)>::build("roles", Target::SM_90A, |k, (x,)| {
            let t = k.thread_idx().x;
            warp_roles(k, &roles, 168, |_, role, group| x.store(t, 10 * role as i32 + group));
        })?;
        let groups: u32 = counts.iter().sum();
        let mut x = device.upload(&vec![-1; 128 * groups as usize]).unwrap();
        let grid = Grid::new([1, 1, 1], [128 * groups, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&mut x,)).unwrap();
        let expected = counts.iter().enumerate().flat_map(|(role, n)| {
            (0..*n as i32).flat_map(move |group| vec![10 * role as i32 + group; 128])
        });
        assert!(x.to_vec().unwrap().into_iter().eq(expected), "{counts:?}");
    }
    Ok(())
}
