//! Checks tiled copies made from addresses and from one atom of C, and the shuffles that transpose
//! pairs of threads.

use crate::support::device;

use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target, f16};
use tilewright::layout::{Layout, idx2crd, layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::atom::{CopyAtom, CopyOp, MmaAtom, TiledCopy, TiledMma};
use tilewright::tensor::copy::copy;
use tilewright::tensor::view::Tensor;

/// The place of the tile's element in a matrix of `rows` rows, through the rows and columns of the
/// tile.
fn place(tiled: &TiledCopy, index: i64, rows: i64) -> i64 {
    let modes = tiled.tiler_layouts();
    let coord = idx2crd(&index.into(), tiled.tiler()).unwrap();
    let at = |mode: usize| {
        let entry = coord.leaves()[mode].to_static().unwrap();
        modes[mode].at(entry).unwrap()
    };
    at(0) + rows * at(1)
}

/// The first values of each thread are those of C, in their order.
#[test]
fn the_copy_of_an_atom_has_the_first_values_of_c() {
    for (name, bits) in
        [("SM80_16x8x16_F32F16F16F32_TN", [32, 64]), ("SM80_8x8x4_F64F64F64F64_TN", [64, 128])]
    {
        let atom: MmaAtom = name.parse().unwrap();
        let dtype = if name.contains("F64") { Scalar::F64 } else { Scalar::F32 };
        for arrangement in [layout!((1, 1, 1)), layout!((2, 2, 1)), layout!((1, 4, 1))] {
            let tile = tiler!(32, 32, 16);
            let mma = TiledMma::new(atom.clone(), &arrangement, tile).unwrap();
            let c = mma.layout_c_tv().unwrap();
            let threads = c.get(&[0]).unwrap().size().unwrap().to_static().unwrap();
            let rows = mma.tile_size_mnk(0).unwrap();
            for bits in bits {
                let op = CopyOp::Universal { bits };
                let tiled = TiledCopy::of_c_atom(CopyAtom::new(op).unwrap(), dtype, &mma).unwrap();
                let values = i64::from(bits / dtype.bits());
                for (thread, value) in (0..threads).flat_map(|t| (0..values).map(move |v| (t, v))) {
                    let index = tiled.layout_tv().crd2idx((thread, value)).unwrap();
                    let index = index.to_static().unwrap();
                    let expected = c.crd2idx((thread, value)).unwrap().to_static().unwrap();
                    assert_eq!(
                        place(&tiled, index, rows.into()),
                        expected,
                        "{tiled}, {thread}, {value}"
                    );
                }
            }
        }
    }
    let mma = TiledMma::new(
        "SM80_8x8x4_F64F64F64F64_TN".parse().unwrap(),
        &layout!((1, 1, 1)),
        tiler!(8, 8, 4),
    );
    let wide = CopyAtom::new(CopyOp::Universal { bits: 128 }).unwrap();
    let error = TiledCopy::of_c_atom(wide, Scalar::F32, &mma.unwrap()).unwrap_err();
    assert!(error.to_string().contains("not a multiple of the atom's 4"), "{error}");
}

/// A value of a thread is the element of the data with the address that the layout gives.
#[test]
fn cotiled_copies_have_the_elements_of_their_addresses() {
    for (addresses, data, bits) in [
        (layout!((32, 4) : (4, 1)), layout!((16, 64) : (1, 16)), 128),
        (layout!((32, 4) : (4, 1)), layout!((16, 64) : (64, 1)), 128),
        (layout!(((8, 4), 2) : ((2, 64), 1)), layout!((8, 64) : (64, 1)), 64),
        (layout!((16, 2) : (2, 1)), layout!(((4, 2), 16) : ((1, 64), 4)), 64),
    ] {
        let atom = CopyAtom::new(CopyOp::Universal { bits }).unwrap();
        let tiled = TiledCopy::cotiled(atom, Scalar::F32, &addresses, &data).unwrap();
        let rows = data.get(&[0]).unwrap().size().unwrap().to_static().unwrap();
        for thread in 0..i64::from(tiled.size().unwrap()) {
            for value in 0..i64::from(bits / 32) {
                let index = tiled.layout_tv().crd2idx((thread, value)).unwrap();
                let at = place(&tiled, index.to_static().unwrap(), rows);
                let expected = addresses.crd2idx((thread, value)).unwrap().to_static().unwrap();
                assert_eq!(data.at(at).unwrap(), expected, "{addresses} of {data}");
            }
        }
    }
    let atom = CopyAtom::new(CopyOp::Universal { bits: 32 }).unwrap();
    let padded = layout!((4, 4) : (1, 5));
    assert!(TiledCopy::cotiled(atom.clone(), Scalar::F32, &layout!((8, 1)), &padded).is_err());
    let data = layout!((4, 4) : (1, 4));
    let error = TiledCopy::cotiled(atom, Scalar::F32, &layout!((32, 1)), &data).unwrap_err();
    assert!(error.to_string().contains("has no element at address 16"), "{error}");
}

/// A cotiled copy of rows that do not follow each other, on devices.
#[test]
fn cotiled_copies_run() {
    let data = layout!((16, 64) : (64, 1));
    let op = CopyAtom::new(CopyOp::Universal { bits: 64 }).unwrap();
    // Each thread copies two neighbours of a row; only every fourth row is reached at a time.
    let addresses = layout!(((8, 4), 2) : ((2, 256), 1));
    let tiled = TiledCopy::cotiled(op, Scalar::F32, &addresses, &data).unwrap();
    assert_eq!(tiled.tiler(), &shape!(4, 16));
    let kernel =
        Kernel::<(Global<f32>, GlobalMut<f32>)>::build("rows", Target::SM_80, |k, (x, y)| {
            let thr = tiled.slice(k.thread_idx().x);
            let x = tilewright::tensor::view::TensorPointer::new(x).assume_aligned(16);
            let y = tilewright::tensor::view::TensorPointer::new(y).assume_aligned(16);
            let (x, y) = (Tensor::new(x, data.clone()), Tensor::new(y, data.clone()));
            thr.copy(&thr.partition_s(&x), &thr.partition_d(&y));
        });
    let kernel = kernel.unwrap();
    for device in device::devices() {
        let x = device.upload(&(0..1024).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
        let mut y = device.zeros::<f32>(1024).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.to_vec().unwrap());
    }
}

/// Registers of pairs of threads go where the layouts of the atom say.
fn check_shuffled<T: Element>(apart: u32, values: Vec<T>) {
    let atom = CopyAtom::new(CopyOp::ShuffleTranspose { apart }).unwrap();
    let per = i64::from(32 / T::SCALAR.bits());
    let tv = Layout::compact((32, 2 * per));
    let tiled = TiledCopy::from_tv(atom, T::SCALAR, tv, shape!(32, 2 * per)).unwrap();
    let [m, n] = [64, 4 * per];
    let kernel = Kernel::<(Global<T>, GlobalMut<T>)>::build("moved", Target::SM_80, |k, (x, y)| {
        let thr = tiled.slice(k.thread_idx().x);
        let x = Tensor::new(x, Layout::compact((m, n)));
        let y = Tensor::new(y, Layout::row_major((m, n)));
        let (from, to) = (thr.partition_s(&x), thr.partition_d(&y));
        let (a, b) = (from.fragment_like::<T>(), to.fragment_like::<T>());
        copy(&from, &a);
        thr.copy(&a, &b);
        copy(&b, &to);
    });
    let kernel = kernel.unwrap_or_else(|errors| panic!("{tiled}: {errors}"));
    assert_eq!(kernel.ptx().text().matches("shfl.sync.bfly.b32").count(), 4);
    for device in device::devices() {
        let x = device.upload(&values).unwrap();
        let mut y = device.zeros::<T>(values.len()).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        let y = y.to_vec().unwrap();
        for i in 0..m * n {
            let from = values[(i / n + m * (i % n)) as usize];
            assert_eq!(y[i as usize].to_const(), from.to_const(), "{tiled} on {}", device.name());
        }
    }
}

#[test]
fn shuffles_transpose_pairs_of_threads() {
    for apart in [1, 4] {
        check_shuffled::<u32>(apart, (0..256).collect());
        check_shuffled::<f32>(apart, (0..256).map(|i| i as f32).collect());
        check_shuffled::<f16>(apart, (0..512).map(|i| f16::from_f32(i as f32)).collect());
        check_shuffled::<u8>(apart, (0..1024).map(|i| (i % 251) as u8).collect());
    }
    let error = CopyAtom::new(CopyOp::ShuffleTranspose { apart: 2 }).unwrap_err();
    assert!(error.to_string().contains("1 or 4 apart, not 2"), "{error}");
}
