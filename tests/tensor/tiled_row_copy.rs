//! Rows of tiles: a copy through shared memory moves every element of the rows, and nothing else is
//! written.

use proptest::prelude::*;
use tilewright::ir::builder::AnyVector;
use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::layout::layout;
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::rows::{MatrixRows, RowAccess, TiledRowCopy};
use tilewright::tensor::view::SharedTensor;

const TILE: TiledRowCopy = TiledRowCopy {
    threads: 64,
    rows: 16,
    matrices: 2,
    vectors: 8,
    across: 4,
    access: RowAccess::Ragged,
};

/// The input with its length, the output; the sizes of the matrices, and the pitches and batch
/// strides of both.
type Params = (Global<u16>, i64, GlobalMut<u16>, [i32; 3], [i64; 2], [i64; 2]);

/// Each block copies up to 16 rows of 2 matrices, of up to 57 elements.
fn copy(tile: TiledRowCopy) -> Result<Kernel<Params>, tilewright::ir::BuildErrors> {
    Kernel::<Params>::build("copy", Target::SM_80, |k, (x, len, y, sizes, pitches, strides)| {
        let first = [k.constant(0), k.constant(0), k.block_idx().x * 2];
        let left = [sizes[0], sizes[1], sizes[2] - first[2]];
        let [x_batch, y_batch] = strides.map(|stride| vec![(sizes[2], stride)]);
        let x = MatrixRows { base: x, pitch: pitches[0], batch: x_batch, first, left };
        let y = MatrixRows { base: y, pitch: pitches[1], batch: y_batch, first, left };
        let rows = SharedTensor::<u16>::shared(k, layout!((32, 64) : (64, 1)));
        let vectors = rows.composition(&layout!((8, (4, 16), (2, 2)) : (32, (256, 1), (1024, 16))));
        tile.copy_to(k, &x, len, &vectors);
        k.barrier();
        tile.store(k, &y, |_, vector| {
            let (rows, lead) = (&rows, x.leads(vector.matrix).of(vector.row));
            let line = vector.matrix * 16 + vector.row;
            move |_, columns| {
                let element = |column: &_| rows.load((line, *column + lead));
                AnyVector::pack::<u16>(&columns.iter().map(element).collect::<Vec<_>>())
            }
        });
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_go_anywhere(rows in 1usize..17, columns in 1usize..58, matrices in 1usize..5, more in [0usize..9, 0usize..9, 0usize..9, 0usize..9]) {
        let device = Device::sim_for(Target::SM_80).unwrap();
        let pitches = [columns + more[0], columns + more[1]];
        let strides = [rows * pitches[0] + more[2], rows * pitches[1] + more[3]];
        let end = |side: usize| (matrices - 1) * strides[side] + (rows - 1) * pitches[side] + columns;
        let x: Vec<u16> = (0..end(0)).map(|i| i as u16 + 1).collect();
        let mut expected = vec![0; end(1) + 3];
        for matrix in 0..matrices {
            for row in 0..rows {
                let [from, to] = [0, 1].map(|side| matrix * strides[side] + row * pitches[side]);
                expected[to..to + columns].copy_from_slice(&x[from..from + columns]);
            }
        }
        let mut y = device.zeros::<u16>(expected.len()).unwrap();
        let sizes = [rows, columns, matrices].map(|size| size as i32);
        let [pitches, strides] = [pitches, strides].map(|of| of.map(|count| count as i64));
        let grid = Grid::new([matrices.div_ceil(2) as u32, 1, 1], [64, 1, 1]);
        let args = (&device.upload(&x).unwrap(), x.len() as i64, &mut y, sizes, pitches, strides);
        device.load(&copy(TILE).unwrap()).unwrap().launch(grid, args).unwrap();
        prop_assert_eq!(y.to_vec().unwrap(), expected);
    }
}

#[test]
fn extents_are_powers_of_two_with_a_vector_for_each_thread() {
    for tile in [
        TiledRowCopy { threads: 0, ..TILE },
        TiledRowCopy { across: 0, ..TILE },
        TiledRowCopy { across: 16, ..TILE },
        TiledRowCopy { vectors: 6, ..TILE },
        TiledRowCopy { rows: 1 << 20, ..TILE },
        TiledRowCopy { rows: 4, ..TILE },
        TiledRowCopy { matrices: 0, ..TILE },
    ] {
        let error = copy(tile).unwrap_err().to_string();
        assert!(error.contains("TiledRowCopy::copy_to"), "{tile:?}: {error}");
    }
}
