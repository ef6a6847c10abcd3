//! `ColumnValues`: elements of a vector at the columns of a row.

use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::Options;
use tilewright::tensor::rows::{RowAccess, RowTile};

/// `y(j) = x(j) * w(j)`, for rows of any start that take several steps: the last vector of a step
/// ends in the vector after it, which belongs to the next thread, to the next step or to no thread.
#[test]
fn steps_of_a_row_have_the_elements_of_their_columns() {
    let device = Device::sim_with(Options::default().race(true));
    for (vectors, columns) in [(8, 5003), (8, 4096), (2, 1300), (2, 511), (1, 1027)] {
        let access = RowAccess::Ragged;
        let tile = RowTile { threads: 64, team: 64, cluster: 1, vectors, access };
        type Params = (Global<f32>, Global<f32>, GlobalMut<f32>, [i32; 2]);
        let kernel = Kernel::<Params>::build_with(
            tile.options(),
            "scaled",
            Target::SM_80,
            |k, (x, w, y, [start, columns])| {
                let first = start.cvt::<i64>();
                let row = tile.part::<f32>(k, first, columns);
                k.for_(range(0, row.steps()), (), |k, step, ()| {
                    let part = row.step(step);
                    let weights = part.load_columns(w);
                    let elements = part.load_elements(x.offset(first), 0.0);
                    let results = elements.iter_f32().zip(weights.iter_f32()).map(|(x, w)| x * w);
                    part.store(y.offset(first), results);
                    k.barrier();
                });
            },
        )
        .unwrap();
        let kernel = device.load(&kernel).unwrap();
        let w: Vec<f32> = (0..columns).map(|column| (column % 251) as f32).collect();
        let w = device.upload(&w).unwrap();
        for start in 0..4 {
            let x = device.upload(&vec![2.0; (start + columns) as usize]).unwrap();
            let mut y = device.zeros::<f32>(x.len()).unwrap();
            kernel
                .launch(Grid::new([1, 1, 1], [64, 1, 1]), (&x, &w, &mut y, [start, columns]))
                .unwrap();
            let y = y.to_vec().unwrap();
            for (column, y) in (0..columns).zip(&y[start as usize..]) {
                let at = (vectors, columns, start, column);
                assert_eq!(*y, 2.0 * (column % 251) as f32, "{at:?}");
            }
        }
    }
}
