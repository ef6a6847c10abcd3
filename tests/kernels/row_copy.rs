//! Copies of single rows: every element moves, nothing outside of the two rows is read or written.

use tilewright::ir::builder::Converted;
use tilewright::ir::{Element, GlobalMut, Kernel, Target, bf16, f8e4m3, range};
use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherConfig};
use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteProblem};
use tilewright::kernels::rows::RowProblem;
use tilewright::runtime::{Device, Function, Grid};
use tilewright::sim::Options;
use tilewright::tensor::rows::{RowAccess, RowTile};

use super::matrix::{Real, UNTOUCHED};
use crate::support::{ptxas, text};

/// The source, its length, the destination; the first element of the row in both, and its columns.
type Params<T> = (GlobalMut<T>, i32, GlobalMut<T>, [i32; 3]);

/// The first block copies the row. The second one stores to the elements beside the source, which
/// is a race if they are read.
fn load<T: Converted>(device: &Device, tile: RowTile) -> Function<Params<T>> {
    let (name, target) = ("copy", device.target());
    let kernel = Kernel::<Params<T>>::build_with(
        tile.options(),
        name,
        target,
        |k, (x, len, y, [from, to, columns])| {
            let is_copy = k.block_idx().x.eq(0);
            k.if_(is_copy & tile.row(k).eq(0), |k| {
                let (x, y) = (x.offset(from), y.offset(to));
                let part = tile.part_at(k, x, columns);
                k.for_(range(0, part.steps()), (), |_, step, ()| {
                    let part = part.step(step);
                    let copy = part.load_copy(x);
                    part.store_copy(y, &copy);
                });
            });
            k.if_(!is_copy & k.thread_idx().x.eq(0), |k| {
                let zero = k.constant(T::default());
                let end = from + columns;
                k.if_(from.gt(0), |_| x.store(from - 1, zero));
                k.if_(end.lt(len), |_| x.store(end, zero));
            });
        },
    );
    device.load(&kernel.unwrap()).unwrap()
}

/// Copies rows between all starts modulo 16 bytes. The row ends where the buffers end, or one
/// element before.
fn check_all<T: Real + Converted>(
    device: &Device,
    tile: RowTile,
    lengths: impl IntoIterator<Item = usize>,
) {
    let copy = load::<T>(device, tile);
    let lanes = 16 / T::SCALAR.size_bytes() as usize;
    for columns in lengths {
        for at in 0..lanes * lanes {
            let ([from, to], after) = ([at / lanes, at % lanes], (at + columns) % 2);
            let x: Vec<T> =
                (0..from + columns + after).map(|i| T::of((i % 13 + 1) as f32)).collect();
            let mut y = device.upload(&vec![T::of(UNTOUCHED); to + columns + after]).unwrap();
            let sizes = [from, to, columns].map(|size| size as i32);
            let args = (&mut device.upload(&x).unwrap(), x.len() as i32, &mut y, sizes);
            let grid = Grid::new([2, 1, 1], [tile.threads, 1, 1]);
            copy.launch(grid, args).unwrap();
            let is_row = to..to + columns;
            for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
                let untouched = T::of(UNTOUCHED);
                let expected = if is_row.contains(&at) { x[at - to + from] } else { untouched };
                let what =
                    format!("{tile:?}: {columns} {} from {from} to {to}, at {at}", T::SCALAR);
                assert_eq!(found.to(), expected.to(), "{what}");
            }
        }
    }
}

#[test]
fn all_starts() {
    let device = Device::sim_with(Options::default().target(Target::SM_90A).race(true));
    let access = RowAccess::Ragged;
    let lanes = RowTile { threads: 32, team: 32, cluster: 1, vectors: 2, access };
    check_all::<f32>(&device, lanes, (0..=20).chain([300]));
    check_all::<bf16>(&device, lanes, (0..=40).chain([70, 600]));
    check_all::<f8e4m3>(&device, lanes, [0, 1, 16, 33, 46, 47, 100]);
    // Several steps, and several single elements for each thread; a row for a block.
    let few = RowTile { team: 4, vectors: 1, ..lanes };
    check_all::<f32>(&device, few, [5, 100]);
    check_all::<bf16>(&device, few, [29, 100]);
    let block = RowTile { threads: 64, team: 64, ..lanes };
    check_all::<bf16>(&device, block, [50, 1100]);
    // Single elements start anywhere, too.
    let elements = RowTile { access: RowAccess::Elements, ..lanes };
    check_all::<bf16>(&device, elements, [0, 5, 100]);
}

#[test]
fn kernels_assemble_without_spills() {
    let ptxas = ptxas::find();
    for problem in [RowProblem::new(65_536, 1023), RowProblem::new(65_536, 1024)] {
        let shape = [problem.rows, 8, problem.columns];
        let permutation = PermuteProblem::new(&shape, &[1, 0, 2]).unwrap();
        let config = PermuteConfig::new(Target::SM_90A, bf16::SCALAR, &permutation);
        let permute = Permute::<bf16>::new(config).unwrap();
        let mut kernels = vec![(permute.ir().clone(), permute.ptx())];
        for side in [GatherSide::Input, GatherSide::Output] {
            let config = RowGatherConfig::new(side, Target::SM_90A, bf16::SCALAR, &problem);
            assert_ne!(config.rows.tile.access, RowAccess::Elements);
            let gather = RowGather::<bf16>::new(config).unwrap();
            kernels.push((gather.ir().clone(), gather.ptx()));
        }
        for (ir, ptx) in kernels {
            text::check_round_trip(&ir);
            assert!(
                ptx.text().contains("ld.global.v4.b32") && ptx.text().contains("st.global.v4.b32")
            );
            // The assembler would move these behind stores.
            assert!(!ptx.text().contains("ld.global.nc"));
            let Some(ptxas) = &ptxas else { continue };
            let report = ptxas.report(ptx.text(), "sm_90a").unwrap();
            assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
        }
    }
}
