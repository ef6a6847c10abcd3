//! Copies tiles by `cp.async` in parts, and loads operands from a ring with precomputed addresses.

use tilewright::arch::Major;
use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target, bf16};
use tilewright::layout::{Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{MmaAtom, Operand, SmemAtom, SmemSwizzle, TiledMma};
use tilewright::tensor::copy::{AsyncTile, MatrixLoad};
use tilewright::tensor::view::SharedTensor;

/// A, its pitch, its rows and columns, what came.
type Copies<T> = (Global<T>, i64, i32, i32, GlobalMut<T>);

/// Copies the tile at `origin` of a matrix of `extents` to the second of two stages, in `parts`
/// parts, and writes it as an array (MN, K), column-major.
fn copied<T: Element + From<i16>>(
    tile: AsyncTile,
    extent: u32,
    threads: u32,
    parts: u32,
    [first, depth]: [i32; 2],
    [rows, columns]: [i32; 2],
    major: Major,
) -> Vec<T> {
    let ring = tile.layout(2).unwrap();
    let [_, line] = tile.shape();
    let kernel = Kernel::<Copies<T>>::build(
        "copies",
        Target::SM_80,
        |k, (from, pitch, rows, columns, to)| {
            let ring = SharedTensor::<T>::shared_aligned(k, ring.clone(), 1024);
            let first = k.constant(first);
            let copy = tile.slice(k, from, pitch, first, [rows, columns], &ring);
            for part in 0..parts {
                copy.start_part(k.constant(1), k.constant(depth), part, parts);
            }
            k.cp_async_commit_group();
            k.cp_async_wait_group(0);
            k.barrier();
            let thread = k.thread_idx().x;
            for i in 0..(extent * line / threads) as i32 {
                let at = thread + i * threads as i32;
                let (mn, depth) = (at % extent as i32, at / extent as i32);
                to.store(at, ring.load((mn, depth, 1)));
            }
        },
    )
    .unwrap();
    let device = Device::sim().unwrap();
    let (lines, pitch) = if major == Major::K { (rows, columns) } else { (columns, rows) };
    // Numbers that tell elements apart.
    let matrix: Vec<T> = (0..lines * pitch).map(|i| T::from((i % 8191) as i16)).collect();
    let matrix = device.upload(&matrix).unwrap();
    let mut to = device.zeros::<T>((extent * line) as usize).unwrap();
    let grid = Grid::new([1, 1, 1], [threads, 1, 1]);
    let function = device.load(&kernel).unwrap();
    function.launch(grid, (&matrix, i64::from(pitch), rows, columns, &mut to)).unwrap();
    to.to_vec().unwrap()
}

/// `ring(i, k) = matrix(first + rows(i), depth + k)`, and zero outside.
fn check_copies<T: Element + From<i16> + PartialEq + std::fmt::Debug>(
    tile: AsyncTile,
    [extent, threads, parts]: [u32; 3],
    origin: [i32; 2],
    extents: [i32; 2],
    major: Major,
) {
    let found = copied::<T>(tile, extent, threads, parts, origin, extents, major);
    let rows = tile.rows();
    for (at, found) in (0i64..).zip(found) {
        let (i, depth) = (at % i64::from(extent), at / i64::from(extent));
        let row = i64::from(origin[0]) + rows.at(i).unwrap();
        let column = i64::from(origin[1]) + depth;
        let [m, n] = extents.map(i64::from);
        let place = if major == Major::K { row * n + column } else { column * m + row };
        let expected = if row < m && column < n { (place % 8191) as i16 } else { 0 };
        assert_eq!(found, T::from(expected), "{tile:?}: ({i}, {depth}) in {parts} parts");
    }
}

#[test]
fn all_of_a_tile_is_copied_in_any_parts() {
    for (extent, threads) in [(64, 64), (64, 128), (128, 128), (256, 256), (192, 128)] {
        for alignment in [4, 8, 16] {
            let tile = AsyncTile::new(f32::SCALAR, Major::K, extent, threads, alignment).unwrap();
            let columns = 64 + alignment as i32 / 4;
            for (tile, parts) in [(tile, 1), (tile.interleaved(), 3), (tile.interleaved(), 5)] {
                let sizes = [extent, threads, parts];
                // Inside, over the last row, and over the last column.
                check_copies::<f32>(tile, sizes, [32, 0], [320, columns], Major::K);
                check_copies::<f32>(tile, sizes, [32, 32], [77, columns], Major::K);
                check_copies::<f32>(tile, sizes, [32, 64], [77, columns], Major::K);
            }
        }
    }
    for (extent, threads, parts) in [(64, 128, 1), (128, 128, 3), (128, 256, 3), (192, 64, 7)] {
        let tile = AsyncTile::new(f32::SCALAR, Major::Mn, extent, threads, 16).unwrap();
        for tile in [tile, tile.interleaved()] {
            let sizes = [extent, threads, parts];
            check_copies::<f32>(tile, sizes, [32, 0], [320, 40], Major::Mn);
            check_copies::<f32>(tile, sizes, [32, 32], [76, 40], Major::Mn);
        }
    }
}

/// Tiles of several lines of 128 or of 64 bytes: inside, and over the end of the mode that is not
/// contiguous.
#[test]
fn tiles_of_any_shape_are_copied() {
    for (shape, threads) in [([64, 96], 64), ([64, 48], 128), ([32, 128], 128), ([128, 16], 256)] {
        let tile = AsyncTile::of_shape(f32::SCALAR, Major::K, shape, threads).unwrap();
        let [extent, depth] = shape;
        for parts in [1, 3] {
            let columns = depth as i32 + 8;
            let sizes = [extent, threads, parts];
            check_copies::<f32>(tile, sizes, [32, 4], [200, columns], Major::K);
            check_copies::<f32>(tile, sizes, [32, 0], [53, columns], Major::K);
        }
        let tile = AsyncTile::of_shape(f32::SCALAR, Major::Mn, [depth, extent], threads).unwrap();
        let sizes = [depth, threads, 1];
        check_copies::<f32>(tile, sizes, [4, 32], [depth as i32 + 8, 200], Major::Mn);
        check_copies::<f32>(tile, sizes, [0, 32], [depth as i32, 45], Major::Mn);
    }
    let error = AsyncTile::of_shape(f32::SCALAR, Major::K, [64, 40], 128).unwrap_err();
    assert!(error.to_string().contains("the contiguous one a multiple of 64 bytes"), "{error}");
    let error = AsyncTile::of_shape(f32::SCALAR, Major::K, [24, 32], 128).unwrap_err();
    assert!(error.to_string().contains("must divide evenly among the threads"), "{error}");
}

/// Each order has each row once.
#[test]
fn lines_are_rows_in_another_order() {
    for extent in [32, 64, 96, 256] {
        let tile = AsyncTile::new(f32::SCALAR, Major::K, extent, 64, 16).unwrap().interleaved();
        let rows = tile.rows();
        let mut found: Vec<i64> =
            (0..i64::from(extent)).map(|line| rows.at(line).unwrap()).collect();
        assert_ne!(found, Vec::from_iter(0..i64::from(extent)));
        found.sort_unstable();
        assert_eq!(found, Vec::from_iter(0..i64::from(extent)));
    }
    let odd = AsyncTile::new(f32::SCALAR, Major::K, 80, 64, 16).unwrap().interleaved();
    assert_eq!(odd.rows(), Layout::compact(80));
}

/// The words of each step and stage equal those of slices of the ring.
#[test]
fn a_ring_has_the_operands_of_its_slices() {
    let atom: MmaAtom = "SM80_16x8x16_F32BF16BF16F32_TN".parse().unwrap();
    let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, 32, _)).unwrap();
    for (operand, major) in
        [Operand::A, Operand::B].into_iter().flat_map(|o| [(o, Major::K), (o, Major::Mn)])
    {
        let load = MatrixLoad::new(&mma, operand, major, 64).unwrap();
        let atom = SmemAtom::new(major, SmemSwizzle::Sw128).position_independent(16).unwrap();
        let order = if major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
        let ring = atom.tile_to_shape(&shape!(64, 64, 3), Some(&order)).unwrap();
        type Params = (GlobalMut<u32>, GlobalMut<u32>);
        let kernel = Kernel::<Params>::build("ring", Target::SM_80, |k, (sliced, moved)| {
            let ring = SharedTensor::<bf16>::shared_aligned(k, ring.clone(), 1024);
            let thread = k.thread_idx().x;
            for i in 0..3 * 64 * 64 / 128 {
                let at = thread + i * 128;
                let number = at.cvt::<f32>().cvt::<bf16>();
                ring.store((at % 64, at / 64 % 64, at / 4096), number);
            }
            k.barrier();
            let thr = mma.slice(thread);
            let words = thr.fragment_words(k, operand, shape!(64, 16));
            let part = load.partition(thread, &ring);
            let steps = load.ring(thread, &ring);
            let count = words.variables().len();
            for stage in 0..3 {
                for step in 0..4 {
                    let at = ((stage * 4 + step) * 128 + thread) * count;
                    load.load(&part.slice((.., .., i64::from(step), i64::from(stage))), &words);
                    for i in 0..count {
                        sliced.store(at + i, words.variables().get(i));
                    }
                    steps.stage(k.constant(stage)).load(step as u32, &words);
                    for i in 0..count {
                        moved.store(at + i, words.variables().get(i));
                    }
                }
            }
        })
        .unwrap();
        let device = Device::sim().unwrap();
        let len = 3 * 4 * 128 * 16;
        let (mut sliced, mut moved) =
            (device.zeros::<u32>(len).unwrap(), device.zeros::<u32>(len).unwrap());
        let function = device.load(&kernel).unwrap();
        function.launch(Grid::new([1, 1, 1], [128, 1, 1]), (&mut sliced, &mut moved)).unwrap();
        let sliced = sliced.to_vec().unwrap();
        // A thread has 8 words, of the 16 that there is room for.
        assert!(
            sliced.iter().filter(|word| **word != 0).count() > len / 3,
            "{operand:?} {major:?}"
        );
        assert_eq!(sliced, moved.to_vec().unwrap(), "{operand:?} {major:?}");
    }
}

#[test]
fn parts_and_steps_that_there_are_not_are_errors() {
    let atom: MmaAtom = "SM80_16x8x16_F32BF16BF16F32_TN".parse().unwrap();
    let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, 32, _)).unwrap();
    let load = MatrixLoad::new(&mma, Operand::A, Major::K, 64).unwrap();
    let tile = AsyncTile::new(bf16::SCALAR, Major::K, 64, 128, 16).unwrap();
    let ring = tile.layout(2).unwrap();
    let said = |part: u32, parts: u32, step: u32| {
        let kernel = Kernel::<(Global<bf16>,)>::build("k", Target::SM_80, |k, (x,)| {
            let tensor = SharedTensor::<bf16>::shared_aligned(k, ring.clone(), 1024);
            let (zero, pitch) = (k.constant(0), k.constant(64i64));
            let copy = tile.slice(k, x, pitch, zero, [k.constant(64), k.constant(64)], &tensor);
            copy.start_part(zero, zero, part, parts);
            k.cp_async_commit_group();
            k.cp_async_wait_group(0);
            k.barrier();
            let thread = k.thread_idx().x;
            let words = mma.slice(thread).fragment_words(k, Operand::A, shape!(64, 16));
            load.ring(thread, &tensor).stage(zero).load(step, &words);
        });
        kernel.err().map(|errors| errors.to_string())
    };
    assert_eq!(said(2, 3, 3), None);
    for (part, parts) in [(3, 3), (0, 0), (u32::MAX, 2)] {
        let text = said(part, parts, 0).unwrap();
        assert!(text.contains(&format!("part {part} of {parts}")), "{text}");
        assert!(text.contains("the part index must be below the part count"), "{text}");
    }
    let text = said(0, 1, 4).unwrap();
    assert!(text.contains("ldmatrix") && text.contains('4'), "{text}");
}
