//! The online softmax against the definition of a softmax in f64.

use std::f32::consts::LOG2_E;

use tilewright::ir::{GlobalMut, Kernel, Target, range};
use tilewright::layout::{layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::atom::TiledMma;
use tilewright::tensor::copy::copy;
use tilewright::tensor::mma::{AccumulatorRows, OnlineSoftmax, SoftmaxEnd};
use tilewright::tensor::view::Tensor;

use crate::support::device;

const ROWS: u32 = 16;
const TILE: u32 = 8;
const TILES: u32 = 12;

/// A score. Rows differ in the steps by which later tiles are higher: none, small ones, large ones,
/// a fall, masked scores at the start, at the end, and everywhere.
fn score(row: u32, column: u32) -> f32 {
    let (tile, noise) = (column / TILE, ((row * 977 + column * 193) % 101) as f32 / 50.0);
    let masked = match row % 8 {
        5 => tile < 3,
        6 => column.is_multiple_of(2) || tile > 8,
        7 => true,
        _ => false,
    };
    let step = [0.0, 0.9, 4.0, 40.0, -30.0, 7.0, 5.6, 0.0][row as usize % 8];
    if masked { f32::NEG_INFINITY } else { step * tile as f32 + noise - 3.0 }
}

/// Powers of all tiles, each rescaled as often as the maxima grow, are the softmax of the whole
/// row; so is the LSE. With lazy maxima most tiles rescale nothing, and the end is the same.
#[test]
fn tiles_become_the_softmax_of_the_row() {
    let mma = TiledMma::new(
        "SM80_16x8x16_F32F16F16F32_TN".parse().unwrap(),
        &layout!((1, 1, 1)),
        tiler!(_, _, _),
    )
    .unwrap();
    let rows = AccumulatorRows::new(&mma, [ROWS, TILE]).unwrap();
    let columns = TILE * TILES;
    let x: Vec<f32> = (0..ROWS * columns).map(|at| score(at / columns, at % columns)).collect();
    for lazy in [false, true] {
        // The sum over the tiles of the probabilities of each column of a tile, times the number of
        // the tile and 1.
        type Params = (GlobalMut<f32>, GlobalMut<f32>, GlobalMut<f32>);
        let kernel = Kernel::<Params>::build("softmax", Target::SM_80, |k, (x, y, lse)| {
            let (lane, scale) = (k.thread_idx().x, k.constant(LOG2_E));
            let thr = mma.slice(lane);
            let x = Tensor::new(x, layout!((16, 96) : (96, 1)));
            let x = x.local_tile(&tiler!(16, 8), (0, ..));
            let [scores, sums] = [0; 2].map(|_| thr.fragment_c::<f32>(k, shape!(ROWS, TILE)));
            sums.fill(0.0);
            let softmax = k.for_(range(0, TILES), OnlineSoftmax::new(k), |_, tile, softmax| {
                let from = x.slice((.., .., tile));
                copy(&thr.partition_c(&from), &scores);
                let maxima = softmax.maxima(&rows, &scores, scale, lazy);
                let (softmax, factors) = softmax.update_to(&rows, &scores, scale, maxima);
                OnlineSoftmax::rescale(&rows, &sums, factors, lazy);
                let weight = (tile + 1).cvt::<f32>();
                let (from, to) = (scores.variables(), sums.variables());
                for register in 0..to.len() {
                    let sum = from.get(register).fma(weight, to.get(register));
                    to.set(register, sum);
                }
                softmax
            });
            let SoftmaxEnd { inverse, lse: of_row } = softmax.finish(&rows, scale);
            OnlineSoftmax::rescale(&rows, &sums, inverse, false);
            let y = Tensor::new(y, layout!((16, 8) : (8, 1)));
            copy(&sums, &thr.partition_c(&y));
            let [row, _] = rows.origin(&mma, lane);
            for (offset, of_row) in rows.row_offsets().iter().zip(of_row) {
                lse.store(row + *offset, of_row);
            }
        })
        .unwrap();
        for device in device::devices() {
            let mut y = device.zeros::<f32>((ROWS * TILE) as usize).unwrap();
            let mut lse = device.zeros::<f32>(ROWS as usize).unwrap();
            let mut x = device.upload(&x).unwrap();
            let function = device.load(&kernel).unwrap();
            function.launch(Grid::new([1; 3], [32, 1, 1]), (&mut x, &mut y, &mut lse)).unwrap();
            let (y, lse) = (y.to_vec().unwrap(), lse.to_vec().unwrap());
            for row in 0..ROWS {
                let power = |column| f64::from(score(row, column)).exp();
                let sum: f64 = (0..columns).map(power).sum();
                let expected = if sum == 0.0 { f64::NEG_INFINITY } else { sum.ln() };
                let found = f64::from(lse[row as usize]);
                assert!(
                    found == expected || (found - expected).abs() < 1e-4,
                    "row {row}: {found}, {expected}"
                );
                for column in 0..TILE {
                    let of_tile = |tile| power(tile * TILE + column) * f64::from(tile + 1);
                    let expected: f64 = (0..TILES).map(of_tile).sum();
                    let expected = if sum == 0.0 { 0.0 } else { expected / sum };
                    let found = f64::from(y[(row * TILE + column) as usize]);
                    let close = (found - expected).abs() < 1e-4 * (1.0 + expected);
                    assert!(close, "row {row}, column {column}: {found}, {expected}");
                }
            }
        }
    }
}
