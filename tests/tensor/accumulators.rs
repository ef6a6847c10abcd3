//! Rows and columns of accumulators, and accumulators as the operand A, against the parts of
//! threads.

use tilewright::ir::builder::DeviceCoord;
use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
use tilewright::layout::{layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::atom::{MmaAtom, TiledMma};
use tilewright::tensor::copy::copy;
use tilewright::tensor::mma::{AccumulatorOperand, AccumulatorRows};
use tilewright::tensor::view::{CoordTensor, Tensor};

use crate::support::device;

fn mma(atom: &str) -> TiledMma {
    let atom: MmaAtom = atom.parse().unwrap();
    TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap()
}

/// The element of the tile: neighbours differ much, signs alternate, and sums of a row are exact.
fn number(row: u32, column: u32) -> f32 {
    let number = ((row * 256 + column) * 193 % 16_384) as f32;
    if (row + column).is_multiple_of(2) { number } else { -number }
}

/// The columns of a row that the mask leaves.
fn left(row: u32, columns: u32) -> std::ops::Range<u32> {
    row % 7..columns - row % 5
}

/// By the view each element has its row and its column; reductions are those of whole rows; a mask
/// cuts what it says.
#[test]
fn accumulators_are_rows_and_columns() {
    for (atom, target, [m, n], threads) in [
        ("SM80_16x8x16_F32F16F16F32_TN", Target::SM_80, [16, 8], 32),
        ("SM80_16x8x16_F32F16F16F32_TN", Target::SM_80, [32, 40], 32),
        ("SM90_64x16x16_F32BF16BF16_SS", Target::SM_90A, [64, 48], 128),
        ("SM90_64x176x16_F32BF16BF16_SS", Target::SM_90A, [64, 176], 128),
    ] {
        let mma = mma(atom);
        let rows = AccumulatorRows::new(&mma, [m, n]).unwrap();
        type Params = (GlobalMut<f32>, GlobalMut<f32>, GlobalMut<f32>, GlobalMut<f32>);
        let options = KernelOptions::default().block([threads, 1, 1]);
        let kernel = Kernel::<Params>::build_with(options, "rows", target, |k, (x, y, z, w)| {
            let thread = k.thread_idx().x;
            let thr = mma.slice(thread);
            let acc = thr.fragment_c::<f32>(k, shape!(m, n));
            let x = Tensor::new(x, layout!((m, n) : (n, 1)));
            copy(&thr.partition_c(&x), &acc);
            let [first, column] = rows.origin(&mma, thread);
            for (r, offset) in rows.row_offsets().iter().enumerate() {
                let row = first + *offset;
                let max = rows.fold(&acc, r, k.constant(f32::MIN), |a, b| a.max(b));
                let sum = rows.fold(&acc, r, k.constant(0.0), |a, b| a + b);
                w.store(row * 2, rows.reduce_lanes(max, |a, b| a.max(b)));
                w.store(row * 2 + 1, rows.reduce_lanes(sum, |a, b| a + b));
                for (value, offset) in rows.row(&acc, r).into_iter().zip(rows.column_offsets()) {
                    y.store(row * n + (column + *offset), value);
                }
            }
            rows.mask(&acc, 0.5, |offset| {
                let row = first + offset;
                let (low, high) = (row % 7, n as i32 - row % 5);
                [Some(low - column), Some(high - column)]
            });
            let z = Tensor::new(z, layout!((m, n) : (n, 1)));
            copy(&acc, &thr.partition_c(&z));
        })
        .unwrap();
        let places = || (0..m).flat_map(|row| (0..n).map(move |column| (row, column)));
        let x: Vec<f32> = places().map(|(row, column)| number(row, column)).collect();
        for device in device::devices() {
            if !device.target().offers(target) {
                continue;
            }
            let untouched = vec![f32::NAN; x.len()];
            let mut buffers =
                [&x, &untouched, &untouched, &untouched].map(|x| device.upload(x).unwrap());
            let [input, y, z, w] = &mut buffers;
            let function = device.load(&kernel).unwrap();
            function
                .launch(Grid::new([1; 3], [threads, 1, 1]), (input, &mut *y, &mut *z, &mut *w))
                .unwrap();
            let [y, z, w] = [y, z, w].map(|buffer| buffer.to_vec().unwrap());
            assert_eq!(y, x, "{atom}");
            for ((row, column), found) in places().zip(z) {
                let kept = left(row, n).contains(&column);
                let expected = if kept { number(row, column) } else { 0.5 };
                assert_eq!(found, expected, "{atom}: ({row}, {column})");
            }
            for (row, found) in x.chunks(n as usize).zip(w.chunks(2)) {
                let max = row.iter().copied().fold(f32::MIN, f32::max);
                assert_eq!(found, [max, row.iter().sum()], "{atom}");
            }
        }
    }
}

/// The coordinates of all elements of a part that the host knows.
fn places(part: &CoordTensor<'_>) -> Vec<Vec<i64>> {
    let place = |i: i64| match part.coord(i) {
        DeviceCoord::Tuple(entries) => entries
            .iter()
            .map(|entry| match entry {
                DeviceCoord::Host(number) => *number,
                other => panic!("{other:?} is no number"),
            })
            .collect(),
        other => panic!("{other:?} is no place"),
    };
    (0..part.size()).map(place).collect()
}

/// The accumulators of each word of A have the coordinates of the two elements of A in that word,
/// in every thread.
#[test]
fn accumulators_are_the_operand_a_of_the_next_product() {
    for (from, to, [m, n], threads) in [
        ("SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F32F16F16F32_TN", [16, 32], 32),
        ("SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F32BF16BF16F32_TN", [48, 64], 32),
        ("SM90_64x80x16_F32BF16BF16_SS", "SM90_64x256x16_F32BF16BF16_RS", [64, 80], 128),
        ("SM90_64x176x16_F32F16F16_SS", "SM90_64x128x16_F32F16F16_RS", [64, 176], 128),
    ] {
        let [from, to] = [from, to].map(mma);
        let operand = AccumulatorOperand::new(&from, &to, [m, n]).unwrap();
        let kernel = Kernel::<()>::build("host", Target::SM_90A, |k, ()| {
            let matrix = CoordTensor::identity(k, shape!(m, n));
            for thread in 0..threads {
                let of_c = places(&from.slice(thread).partition_c(&matrix));
                let of_a = places(&to.slice(thread).partition_a(&matrix));
                assert_eq!(operand.words().len() * 2, of_a.len());
                for (word, elements) in operand.words().iter().zip(of_a.chunks(2)) {
                    let found = word.map(|register| &of_c[register as usize]);
                    assert_eq!(found, [&elements[0], &elements[1]], "thread {thread}");
                }
            }
        });
        kernel.unwrap();
    }
}

#[test]
fn accumulators_of_other_threads_are_refused() {
    let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse().unwrap();
    let wide = TiledMma::new(atom, &layout!((1, 2, 1)), tiler!(_, _, _)).unwrap();
    let error = AccumulatorRows::new(&wide, [16, 32]).unwrap_err();
    assert!(error.to_string().contains("rows that several warps share"), "{error}");
    let one = mma("SM80_16x8x16_F32F16F16F32_TN");
    let error = AccumulatorOperand::new(&wide, &one, [16, 32]).unwrap_err();
    assert!(error.to_string().contains("elements that other threads hold"), "{error}");
    let bytes = mma("SM90_64x64x32_F32E4M3E4M3_RS_TN");
    let from = mma("SM90_64x64x32_F32E4M3E4M3_SS_TN");
    let error = AccumulatorOperand::new(&from, &bytes, [64, 64]).unwrap_err();
    assert!(error.to_string().contains("16 bits"), "{error}");
}
