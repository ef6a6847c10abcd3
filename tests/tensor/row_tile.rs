//! `RowTile`: who stores the result of a row, elements of the row that is held, rows that it does
//! not hold, and registers.

use crate::support::ptxas;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
use tilewright::runtime::{Device, Grid, RuntimeError};
use tilewright::sim::Options;
use tilewright::tensor::rows::{RowAccess, RowTile, tree};

/// Teams of lanes, warps, blocks and clusters, with each form of accesses, and the columns of a row
/// that fills the tile.
fn tiles() -> Vec<(RowTile, u32)> {
    let tile = RowTile { threads: 64, team: 8, cluster: 1, vectors: 2, access: RowAccess::Ragged };
    let teams = [(64, 1, 1), (64, 8, 1), (64, 32, 1), (96, 96, 1), (32, 32, 2), (64, 64, 4)];
    let accesses = [(RowAccess::Aligned, 0), (RowAccess::Ragged, 1), (RowAccess::Elements, 0)];
    let all = teams.into_iter().flat_map(|(threads, team, cluster)| {
        accesses.map(|(access, fewer)| {
            let tile = RowTile { threads, team, cluster, access, ..tile };
            (tile, tile.capacity(Scalar::F32) - fewer)
        })
    });
    all.collect()
}

/// All columns of a short row; some of a long one, with those at its ends and where the next block
/// goes on.
fn columns_to_ask(columns: u32) -> Vec<i32> {
    let columns = columns as i32;
    let inner = if columns < 20 { 0..columns } else { 0..8 };
    let others = [columns / 4, columns / 3, columns / 2, columns - 5, columns - 4, columns - 3];
    let last = [columns - 2, columns - 1, columns, -1, i32::MAX, i32::MIN];
    inner.chain(others.into_iter().filter(|column| *column >= 0)).chain(last).collect()
}

/// The element at each column of a row, in all of its threads, bit by bit: also NaN and -0. Columns
/// that the row does not have are 0. One thread of a row is its leader.
#[test]
fn every_column_of_a_held_row_is_its_element() {
    type Params = (Global<f32>, GlobalMut<f32>, GlobalMut<f32>, GlobalMut<i32>, [i32; 3]);
    let device = Device::sim_with(Options::default().race(true));
    for (tile, columns) in tiles() {
        let asked = columns_to_ask(columns);
        let kernel = Kernel::<Params>::build_with(
            tile.options(),
            "columns",
            Target::SM_90,
            |k, (x, y, other, leaders, [first, rows, columns])| {
                let row = tile.row(k);
                let start = row.mul_wide(columns) + first.cvt::<i64>();
                let part = tile.part::<f32>(k, start, row.lt(rows).select(columns, 0));
                // What a thread has where the row has no element is not 0.
                let elements = part.load_elements(x.offset(start), 55.0);
                let values = elements.to_f32();
                let is_leader = part.is_leader() & row.lt(rows);
                k.if_(is_leader, |_| {
                    leaders.atom().add(row, 1);
                });
                let thread = k.thread_idx().x + k.block_idx().x * tile.threads as i32;
                for (i, column) in (0..).zip(&asked) {
                    let column = k.constant(*column);
                    let element = part.at(&values, column);
                    k.if_(is_leader, |_| y.store(row * asked.len() as i32 + i, element));
                    // All threads have it.
                    if i == 1 {
                        let again = part.at(elements.iter_f32(), column);
                        other.store(thread, again);
                    }
                }
            },
        )
        .unwrap();
        let function = device.load(&kernel).unwrap();
        let rows = tile.rows_per_block() + 1;
        let starts = if tile.access == RowAccess::Aligned { 0..1 } else { 0..4 };
        for first in starts {
            let len = (first as u32 + rows * columns) as usize;
            let bits = |i: usize| match i % 5 {
                0 => 0x8000_0000,
                1 => 0x7fc0_1234 + i as u32,
                2 => 0xff80_0000,
                _ => (i as f32 + 1.0).to_bits(),
            };
            let x: Vec<f32> = (0..len).map(|i| f32::from_bits(bits(i))).collect();
            let x = device.upload(&x).unwrap();
            let mut y = device.zeros::<f32>(rows as usize * asked.len()).unwrap();
            let threads = (tile.blocks(rows) * tile.threads) as usize;
            let mut other = device.zeros::<f32>(threads).unwrap();
            let mut leaders = device.zeros::<i32>(rows as usize).unwrap();
            let grid = Grid::new([tile.blocks(rows), 1, 1], [tile.threads, 1, 1]);
            let sizes = [first, rows as i32, columns as i32];
            function.launch(grid, (&x, &mut y, &mut other, &mut leaders, sizes)).unwrap();
            assert_eq!(leaders.to_vec().unwrap(), vec![1; rows as usize], "{tile:?}");
            let element = |row: u32, column: i32| match u32::try_from(column) {
                Ok(column) if column < columns => {
                    bits((first as u32 + row * columns + column) as usize)
                }
                _ => 0,
            };
            let expected: Vec<u32> = (0..rows)
                .flat_map(|row| asked.iter().map(move |column| (row, *column)))
                .map(|(row, column)| element(row, column))
                .collect();
            let found: Vec<u32> = y.to_vec().unwrap().iter().map(|y| y.to_bits()).collect();
            assert_eq!(found, expected, "{tile:?} from {first}");
            for (thread, value) in (0..).zip(other.to_vec().unwrap()) {
                let row = thread / tile.team / tile.cluster;
                let expected = if row < rows { element(row, asked[1]) } else { 0 };
                assert_eq!(value.to_bits(), expected, "{tile:?} from {first}, thread {thread}");
            }
        }
    }
}

/// A row fits if the tile's threads hold all of its columns at once: the assertion fails for the
/// first longer row. Without assertions the kernel is the one that never asked.
#[test]
fn a_row_beyond_the_capacity_is_reported() {
    for (tile, _) in tiles() {
        let build = |asks: bool| {
            Kernel::<(GlobalMut<i32>, i32)>::build_with(
                tile.options(),
                "fits",
                Target::SM_90,
                |k, (x, columns)| {
                    if asks {
                        tile.assert_fits::<f32>(k, columns);
                    }
                    x.store(k.thread_idx().x, columns);
                },
            )
            .unwrap()
        };
        let kernel = build(true);
        assert!(*kernel.without_asserts().ir() == *build(false).ir(), "{kernel}");
        let device = Device::sim().unwrap();
        let function = device.load(&kernel).unwrap();
        let grid = Grid::new([tile.cluster, 1, 1], [tile.threads, 1, 1]);
        let mut x = device.zeros::<i32>(tile.threads as usize).unwrap();
        let capacity = (tile.sharers() * tile.vectors * tile.vector(Scalar::F32)) as i32;
        function.launch(grid, (&mut x, capacity)).unwrap();
        let error = function.launch(grid, (&mut x, capacity + 1)).unwrap_err();
        assert!(matches!(error, RuntimeError::AssertFailed(_)), "{tile:?}: {error}");
    }
}

/// An SM has 65536 registers. A tile of 64 elements in each thread leaves room for 1024 threads,
/// also if a kernel converts the row twice.
#[test]
fn wide_tiles_leave_room_for_1024_threads() {
    let Some(ptxas) = ptxas::find() else { return };
    for (threads, cluster) in [(256, 1), (256, 8), (512, 1), (1024, 1), (96, 1)] {
        let access = RowAccess::Ragged;
        let tile = RowTile { threads, team: threads, cluster, vectors: 8, access };
        type Params = (GlobalMut<bf16>, Global<i32>, GlobalMut<f32>, i32);
        let kernel = Kernel::<Params>::build_with(
            tile.options(),
            "cross_entropy",
            Target::SM_90,
            |k, (x, target, loss, columns)| {
                let row = tile.row(k);
                let start = row.mul_wide(columns);
                let part = tile.part::<bf16>(k, start, columns);
                let elements = part.load_elements(x.offset(start), f32::NEG_INFINITY);
                let values: Vec<_> = elements.iter_f32().collect();
                let own = tree(k.constant(f32::MIN), &values, |a, b| a.max(b));
                let powers: Vec<_> = values.iter().map(|x| (*x - own).exp_fast()).collect();
                let sum = tree(k.constant(0.0), &powers, |a, b| a + b);
                let [max, sum] = part.reduce([own, sum], |_, [m, s], [n, t]| {
                    let max = m.max(n);
                    [max, s * (m - max).exp_fast() + t * (n - max).exp_fast()]
                });
                let column = target.load(row);
                let of_target = part.at(elements.iter_f32(), column);
                k.if_(part.is_leader(), |_| loss.store(row, sum.ln() + max - of_target));
                let gradients = elements.iter_f32().map(|x| (x - max).exp_fast() / sum);
                part.store(x.offset(start), gradients);
            },
        )
        .unwrap();
        let said = ptxas.report(kernel.ptx().text(), "sm_90").unwrap();
        let (_, rest) = said.split_once("Used ").unwrap();
        let registers: u32 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!(registers <= 64, "{tile:?}: {said}");
    }
}
