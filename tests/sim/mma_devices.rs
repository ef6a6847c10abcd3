//! Products of matrices of `f64` on every device, against the same on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, text, threads};

use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector};
use tilewright::runtime::Grid;

type Params = (Global<f64>, Global<f64>, GlobalMut<f64>);

/// `D += A B` with A of `m` rows, row by row, and B of 8 columns, column by column; `k` from 4
/// to 16.
fn build(m: u32, k: u32, target: Target) -> Kernel<Params> {
    Kernel::<Params>::build("product", target, |body, (a, b, d)| {
        let lane = body.lane_id();
        let (row, quad) = (lane / 4, lane % 4);
        let sums = body.registers::<f64>(m / 4);
        let at = |i: u32| (row + i / 2 * 8) * 8 + quad * 2 + i % 2;
        (0..m / 4).for_each(|i| sums.set(i, d.load(at(i))));
        // Rows of a block of 8 follow each other, then come columns four further.
        let blocks = m / 8;
        let of_a = |i: u32| a.load((row + i % blocks * 8) * k + quad + i / blocks * 4);
        let of_b = |i: u32| b.load(row * k + quad + i * 4);
        match (m, k) {
            (8, _) => body.mma_sync(&sums, of_a(0), of_b(0)),
            (_, 4) => {
                let a: Val<'_, Vector<f64, 2>> = Val::pack([of_a(0), of_a(1)]);
                body.mma_sync(&sums, a, of_b(0));
            }
            _ => {
                let a: Vec<_> = (0..k / 2).map(of_a).collect();
                let b: Vec<_> = (0..k / 4).map(of_b).collect();
                body.mma_sync_f64(&sums, &a, &b);
            }
        }
        (0..m / 4).for_each(|i| d.store(at(i), sums.get(i)));
    })
    .unwrap_or_else(|errors| panic!("{errors}"))
}

/// Sums of whole numbers are exact in any order.
#[test]
fn products_of_doubles() {
    for (m, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
        let first = if m == 8 { Target::SM_80 } else { Target::SM_90 };
        threads::assemble(first, |target| build(m, k, target));
        let a: Vec<f64> = (0..m * k).map(|i| f64::from(i * 7 % 23) - 11.0).collect();
        let b: Vec<f64> = (0..8 * k).map(|i| (f64::from(i * 5 % 19) - 9.0) * 1024.0).collect();
        let c: Vec<f64> = (0..m * 8).map(|i| f64::from(i) * 0.5).collect();
        let expected: Vec<f64> = (0..m * 8)
            .map(|i| {
                let (row, column) = (i / 8 * k, i % 8 * k);
                let products = (0..k).map(|l| a[(row + l) as usize] * b[(column + l) as usize]);
                c[i as usize] + products.sum::<f64>()
            })
            .collect();
        for device in device::devices() {
            let target = if device.is_sim() { first } else { device.target() };
            if !target.offers(first) {
                continue;
            }
            let kernel = build(m, k, target);
            text::check_round_trip(kernel.ir());
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut d = device.upload(&c).unwrap();
            let grid = Grid::new([1, 1, 1], [32, 1, 1]);
            device.load(&kernel).unwrap().launch(grid, (&a, &b, &mut d)).unwrap();
            assert_eq!(d.to_vec().unwrap(), expected, "m{m}n8k{k} on {}", device.name());
        }
    }
}
