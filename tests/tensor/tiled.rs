//! Checks the elements that each thread has of tiled copies and tiled MMAs, and their results.

use crate::support::device;

use std::collections::HashMap;
use std::error::Error;

use tilewright::ir::builder::DeviceCoord;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Body, Global, GlobalMut, Kernel, Target};
use tilewright::layout::{Layout, layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::atom::{CopyAtom, CopyOp, Matrices, MmaAtom, Operand, TiledCopy, TiledMma};
use tilewright::tensor::copy::copy;
use tilewright::tensor::mma::gemm;
use tilewright::tensor::view::{CoordTensor, RegisterTensor, SharedTensor, Tensor};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn universal(bits: u32) -> Result<CopyAtom> {
    Ok(CopyAtom::new(CopyOp::Universal { bits })?)
}

/// The coordinates of all elements of a tensor of coordinates that the host knows.
fn places(tensor: &CoordTensor<'_>) -> Vec<[i64; 2]> {
    let place = |i: i64| match tensor.coord(i) {
        DeviceCoord::Tuple(entries) => match entries.as_slice() {
            [DeviceCoord::Host(row), DeviceCoord::Host(column)] => [*row, *column],
            other => panic!("{other:?} is no place"),
        },
        other => panic!("{other:?} is no place"),
    };
    (0..tensor.size()).map(place).collect()
}

/// Runs `body` in a build, for what needs a body and no device.
fn in_a_build(body: impl for<'b> FnOnce(&mut Body<'b, 'b>)) {
    Kernel::<()>::build("host", Target::SM_80, |k, ()| body(k)).expect("nothing is wrong");
}

/// By the definition, without the layout of threads and values. The tile has a block of `values`
/// for each coordinate of `threads`. So value `(i, j)` of the thread at `(p, q)` is the element
/// `(p vm + i, q vn + j)`, where `values` is `vm x vn`. The two layouts number threads and values.
#[test]
fn a_thread_copies_its_values_of_each_tile() -> Result<()> {
    for (threads, values, [tm, tn], [vm, vn], bits) in [
        (layout!((8, 4):(4, 1)), layout!((1, 4)), [8, 4], [1, 4], 32),
        (layout!((8, 4):(4, 1)), layout!((1, 4)), [8, 4], [1, 4], 128),
        (layout!((4, 8)), layout!((4, 1)), [4, 8], [4, 1], 64),
        (layout!((4, 8)), layout!((2, 2):(2, 1)), [4, 8], [2, 2], 32),
        (layout!((16, 16):(16, 1)), layout!((1, 1)), [16, 16], [1, 1], 32),
        (layout!(((2, 4), 4):((1, 8), 2)), layout!((2, 4)), [8, 4], [2, 4], 64),
    ] {
        let tiled = TiledCopy::new(universal(bits)?, Scalar::F32, &threads, &values)?;
        let extents: Vec<i64> =
            tiled.tiler().children().map(|e| e.as_static().expect("a number")).collect();
        let (m, n) = (tm * vm, tn * vn);
        assert_eq!((extents, i64::from(tiled.size()?)), (vec![m, n], tm * tn));
        // The element of each value of each thread in a tile.
        let mut elements = HashMap::new();
        for (p, q) in (0..tm).flat_map(|p| (0..tn).map(move |q| (p, q))) {
            for (i, j) in (0..vm).flat_map(|i| (0..vn).map(move |j| (i, j))) {
                let thread = threads.crd2idx((p, q))?.to_static()?;
                let value = values.crd2idx((i, j))?.to_static()?;
                let known = elements.insert((thread, value), [p * vm + i, q * vn + j]);
                assert_eq!(known, None);
            }
        }
        in_a_build(|k| {
            let matrix = CoordTensor::identity(k, shape!(3 * m, 2 * n));
            for thread in 0..tm * tn {
                let slice = tiled.slice(thread);
                let part = slice.partition_s(&matrix);
                assert_eq!(places(&slice.partition_d(&matrix)), places(&part));
                let mut expected = Vec::new();
                for (j, i) in (0..2).flat_map(|j| (0..3).map(move |i| (j, i))) {
                    for value in 0..vm * vn {
                        let [row, column] = elements[&(thread, value)];
                        expected.push([row + i * m, column + j * n]);
                    }
                }
                assert_eq!(places(&part), expected, "thread {thread} of {tiled}");
            }
        });
    }
    Ok(())
}

/// The reading and the writing thread of the same bit of the atom have the same element.
#[test]
fn matrix_copies_read_and_write_the_same_elements() -> Result<()> {
    for matrices in Matrices::ALL {
        for transposed in [false, true] {
            for op in [
                CopyOp::LdMatrix { matrices, transposed },
                CopyOp::StMatrix { matrices, transposed },
            ] {
                let atom = CopyAtom::new(op)?;
                let count = matrices.count();
                let tiled = TiledCopy::new(
                    atom.clone(),
                    Scalar::U16,
                    &layout!((8, 4):(4, 1)),
                    &Layout::compact((1, 2 * count)),
                )?;
                // Bits of the atom in units of elements.
                let of_elements = |tv: &Layout| tv.recast_layout(1, 16);
                let source = of_elements(atom.layout_src_tv())?;
                let destination = of_elements(atom.layout_dst_tv())?;
                in_a_build(|k| {
                    let matrix = CoordTensor::identity(k, shape!(8, 8 * count));
                    let mut read = HashMap::new();
                    for thread in 0..32 {
                        let part = places(&tiled.slice(thread).partition_s(&matrix));
                        for (value, place) in (0..).zip(part) {
                            let bit = source.crd2idx((thread, value)).expect("inside");
                            read.insert(bit.to_string(), place);
                        }
                    }
                    for thread in 0..32 {
                        let part = places(&tiled.slice(thread).partition_d(&matrix));
                        for (value, place) in (0..).zip(part) {
                            let bit = destination.crd2idx((thread, value)).expect("inside");
                            assert_eq!(read.get(&bit.to_string()), Some(&place), "{op}");
                        }
                    }
                });
            }
        }
    }
    Ok(())
}

/// Each element is copied once, by the threads of a device: from a matrix to shared memory and
/// back.
#[test]
fn tiles_are_copied_once() -> Result<()> {
    for (threads, values) in [
        (layout!((8, 4):(4, 1)), layout!((1, 4))),
        (layout!((4, 8)), layout!((4, 1))),
        (layout!((2, 16):(16, 1)), layout!((2, 2):(2, 1))),
    ] {
        let tiled = TiledCopy::new(universal(32)?, Scalar::I32, &threads, &values)?;
        type InOut = (Global<i32>, GlobalMut<i32>);
        let kernel = Kernel::<InOut>::build("copy", Target::SM_80, |k, (x, y)| {
            let thr = tiled.slice(k.thread_idx().x);
            let x = Tensor::new(x, layout!((32, 64):(64, 1)));
            let y = Tensor::new(y, layout!((32, 64):(1, 32)));
            let tile = SharedTensor::<i32>::shared(k, layout!((32, 64):(65, 1)));
            thr.copy(&thr.partition_s(&x), &thr.partition_d(&tile));
            k.barrier();
            let (from, to) = (thr.partition_s(&tile), thr.partition_d(&y));
            let held: RegisterTensor<'_, i32> = from.fragment_like();
            thr.copy(&from, &held);
            // An element that is reached twice is added twice.
            let sum = held.load_all() + to.load_all();
            to.store_all(&sum);
        })?;
        let x: Vec<i32> = (0..32 * 64).collect();
        for device in device::devices() {
            let (from, mut to) = (device.upload(&x)?, device.upload(&vec![0; x.len()])?);
            let grid = Grid { threads: [32, 1, 1], ..Grid::cover(1, 1) };
            device.load(&kernel)?.launch(grid, (&from, &mut to))?;
            let found = to.to_vec()?;
            for (row, column) in (0..32).flat_map(|r| (0..64).map(move |c| (r, c))) {
                assert_eq!(found[row + 32 * column], x[64 * row + column]);
            }
        }
    }
    Ok(())
}

fn mma(name: &str, atoms: &Layout, permutation: tilewright::layout::Tiler) -> Result<TiledMma> {
    Ok(TiledMma::new(name.parse::<MmaAtom>()?, atoms, permutation)?)
}

/// The part of a thread is what the layout of threads and values says, for each operand.
#[test]
fn parts_of_operands_are_those_of_the_layouts() -> Result<()> {
    for tiled in [
        mma("UniversalFMA<float>", &layout!((16, 16, 1):(16, 1, 0)), tiler!(_, _, _))?,
        mma("UniversalFMA<float>", &layout!((4, 8, 1)), tiler!(16, 16, 4))?,
        mma("SM80_16x8x16_F32F16F16F32_TN", &layout!((2, 2, 1)), tiler!(32, 32, 16))?,
        mma("SM80_16x8x8_F32TF32TF32F32_TN", &layout!((2, 2, 1):(2, 1, 1)), tiler!(_, _, _))?,
        mma("SM80_8x8x4_F64F64F64F64_TN", &layout!((2, 2, 1)), tiler!(32, 32, 16))?,
    ] {
        for operand in Operand::ALL {
            let modes = match operand {
                Operand::A => [0, 2],
                Operand::B => [1, 2],
                Operand::C => [0, 1],
            };
            let [rows, columns] =
                [tiled.tile_size_mnk(modes[0])?, tiled.tile_size_mnk(modes[1])?].map(i64::from);
            let tv = tiled.layout_tv(operand)?;
            let count = tiled.size()?;
            in_a_build(|k| {
                let tile = CoordTensor::identity(k, shape!(rows, columns));
                for thread in 0..count {
                    let thr = tiled.slice(thread);
                    let part = match operand {
                        Operand::A => thr.partition_a(&tile),
                        Operand::B => thr.partition_b(&tile),
                        Operand::C => thr.partition_c(&tile),
                    };
                    assert_eq!(part.rank(), 3);
                    for (value, [row, column]) in (0..).zip(places(&part)) {
                        let place = tv.crd2idx((thread, value)).expect("inside");
                        assert_eq!(place, row + rows * column, "{operand:?}, thread {thread}");
                    }
                }
            });
        }
    }
    Ok(())
}

/// The product of small integers, which is exact: operands in shared memory and in registers,
/// layouts of threads of all kinds, tiles that are larger than the threads.
#[test]
fn products_are_exact() -> Result<()> {
    let (m, n, depth) = (16usize, 24usize, 5usize);
    for atoms in
        [layout!((4, 8, 1)), layout!((4, 8, 1):(8, 1, 0)), layout!((2, 2, 1)), layout!((1, 1, 1))]
    {
        let tiled = mma("UniversalFMA<float>", &atoms, tiler!(_, _, _))?;
        let threads = tiled.size()? as u32;
        for in_registers in [false, true] {
            type Signature = (Global<f32>, Global<f32>, GlobalMut<f32>);
            let kernel = Kernel::<Signature>::build("product", Target::SM_80, |k, (a, b, c)| {
                let thr = tiled.slice(k.thread_idx().x);
                let a = Tensor::new(a, Layout::row_major((m, depth)));
                let b = Tensor::new(b, Layout::compact((n, depth)));
                let c = Tensor::new(c, Layout::row_major((m, n)));
                let sums = thr.fragment_c::<f32>(k, (m, n));
                sums.fill(0.0);
                let (a, b) = (thr.partition_a(&a), thr.partition_b(&b));
                if in_registers {
                    let (x, y) = (a.fragment_like::<f32>(), b.fragment_like::<f32>());
                    copy(&a, &x);
                    copy(&b, &y);
                    gemm(&tiled, &sums, &x, &y);
                } else {
                    gemm(&tiled, &sums, &a, &b);
                }
                copy(&sums, &thr.partition_c(&c));
            })?;
            let number = |i: usize| ((i * 29 + 7) % 13) as f32 - 6.0;
            let a: Vec<f32> = (0..m * depth).map(number).collect();
            let b: Vec<f32> = (0..n * depth).map(|i| number(i + 5)).collect();
            for device in device::devices() {
                let (da, db) = (device.upload(&a)?, device.upload(&b)?);
                let mut dc = device.upload(&vec![f32::NAN; m * n])?;
                let grid = Grid { threads: [threads, 1, 1], ..Grid::cover(1, 1) };
                device.load(&kernel)?.launch(grid, (&da, &db, &mut dc))?;
                let found = dc.to_vec()?;
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let sum: f32 = (0..depth).map(|q| a[i * depth + q] * b[j + q * n]).sum();
                    assert_eq!(found[i * n + j], sum, "element ({i}, {j}) by {atoms}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn tiled_copies_that_miss_elements_do_not_exist() -> Result<()> {
    let refused = |threads: &Layout, values: &Layout, bits: u32, dtype: Scalar| -> Result<String> {
        let error = TiledCopy::new(universal(bits)?, dtype, threads, values);
        Ok(error.expect_err("it is wrong").kind.to_string())
    };
    let broadcast = refused(&layout!((8, 4):(4, 0)), &layout!((1, 4)), 32, Scalar::F32)?;
    assert_eq!(
        broadcast,
        "each element of the tile must be reached once, but the 128 indices of ((1,8),(4,4)):((0,4),(1,0)) reach 32 of its 128 elements: mode 1 of the threads must have the stride 1, but has 0"
    );
    assert_eq!(
        refused(&layout!((8, 4)), &layout!((3, 1)), 64, Scalar::F32)?,
        "the tile has 3 values, which is not a multiple of the atom's 2: 1 are left over"
    );
    assert_eq!(
        refused(&layout!((8, 4)), &layout!((1, 1)), 32, Scalar::F64)?,
        "ld.b32 copies 32 bits at a time, which is not a whole number of 64-bit elements"
    );
    let of_warp = CopyAtom::new(CopyOp::LdMatrix { matrices: Matrices::X1, transposed: false })?;
    let error = TiledCopy::new(of_warp, Scalar::U16, &layout!((8, 2)), &layout!((1, 2)));
    assert_eq!(
        error.expect_err("it is wrong").kind.to_string(),
        "the tile has 16 threads, which is not a multiple of the atom's 32: 16 are left over"
    );
    let tv = layout!((4, 2):(1, 4));
    let error = TiledCopy::from_tv(universal(32)?, Scalar::F32, tv, shape!(4, 4));
    assert_eq!(
        error.expect_err("it is wrong").to_string(),
        "`make_tiled_copy` of UniversalCopy<uint32_t> o (4,2):(1,4) of (4,4): each element of the tile must be reached once, but the 8 indices of (4,2):(1,4) reach 8 of its 16 elements: mode 1 of the tile has the extent 4, but 2 are reached"
    );
    Ok(())
}

/// The mode that is wrong is named, with what it has and what it needs.
#[test]
fn coverage_errors_name_the_mode() -> Result<()> {
    let refused = |tv: Layout, tile: (i64, i64)| -> Result<String> {
        let error = TiledCopy::from_tv(universal(32)?, Scalar::F32, tv, shape!(tile.0, tile.1));
        let text = error.expect_err("it is wrong").kind.to_string();
        Ok(text.split(": ").last().unwrap_or_default().to_owned())
    };
    for (tv, tile, expected) in [
        (
            layout!(((4, 8), 4):((32, 1), 0)),
            (8, 16),
            "mode 1 of (threads, values) must have the stride 8, but has 0",
        ),
        (
            layout!(((4, 8), 4):((32, 1), 16)),
            (8, 16),
            "mode 1 of (threads, values) must have the stride 8, but has 16",
        ),
        (
            layout!((4, 4):(1, 2)),
            (4, 4),
            "mode 1 of (threads, values) must have the stride 4, but has 2",
        ),
        (layout!((4, 3)), (4, 4), "mode 1 of the tile has the extent 4, but 3 are reached"),
        (layout!((2, 3)), (4, 4), "mode 1 of the tile has the extent 4, but 3/2 are reached"),
        (layout!((2, 1)), (4, 4), "mode 0 of the tile has the extent 4, but 2 are reached"),
        (layout!((4, 8)), (4, 4), "mode 1 of the tile has the extent 4, but 8 are reached"),
    ] {
        let text = tv.to_string();
        assert_eq!(refused(tv, tile)?, expected, "{text}");
    }
    // Of a tile that cuts an atom, some elements are reached more often.
    let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    let cut = TiledMma::unchecked(atom, &layout!((1, 1, 1)), tiler!(_, 12, _))?;
    let error = TiledCopy::of_operand(universal(16)?, Scalar::F16, &cut, Operand::B);
    let text = error.expect_err("it is wrong").to_string();
    assert!(text.contains("each element of the tile must be reached"), "{text}");
    Ok(())
}

#[test]
fn mistakes_are_errors_of_the_build() -> Result<()> {
    let vectors =
        TiledCopy::new(universal(128)?, Scalar::F32, &layout!((8, 4):(4, 1)), &layout!((1, 4)))?;
    let fma = mma("UniversalFMA<float>", &layout!((4, 8, 1)), tiler!(_, _, _))?;
    let tensor_core = mma("SM80_16x8x16_F32F16F16F32_TN", &layout!((1, 1, 1)), tiler!(_, _, _))?;
    let errors = Kernel::<(GlobalMut<f32>,)>::build("wrong", Target::SM_80, |k, (x,)| {
        let thr = vectors.slice(k.thread_idx().x);
        let rows = Tensor::new(x, layout!((8, 16):(16, 1)));
        let columns = SharedTensor::<f32>::shared(k, layout!((8, 16):(1, 8)));
        let tile = SharedTensor::<f32>::shared(k, layout!((8, 16):(16, 1)));
        let part = thr.partition_s(&rows);
        // The address is known to be a multiple of 4 bytes only.
        thr.copy(&part, &thr.partition_d(&tile));
        thr.copy(&thr.partition_s(&tile), &thr.partition_d(&columns));
        let part = thr.partition_s(&columns).named(["value", "m", "n"]);
        thr.copy(&part, &thr.partition_d(&tile));
        let ragged = SharedTensor::<f32>::shared(k, layout!((12, 16):(16, 1)));
        thr.partition_d(&ragged);
        let mma = fma.slice(k.thread_idx().x);
        mma.partition_a(&SharedTensor::<f32>::shared(k, layout!((6, 4))));
        let sums = mma.fragment_c::<f32>(k, shape!(8, 8));
        let (a, b) = (mma.partition_a(&rows), mma.partition_b(&rows));
        gemm(&fma, &sums, &a, &mma.partition_b(&tile.slice((.., 0)).zipped_divide(&tiler!(8))));
        gemm(&tensor_core, &sums, &a, &b);
        let wide = RegisterTensor::<f64>::registers(k, layout!((1, 2, 1)));
        gemm(&fma, &wide, &wide, &wide);
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "`copy` of UniversalCopy<uint128_t> o ((4,8),4):((32,1),8) of (8,16): cannot access ptr<f32, gmem, align<4>> o ((4,1),1,1):((1,0),0,0) in vectors of 4 elements (128 bits): 1 x 32 bits; the alignment is 4 bytes, but the layout allows 16; if the address is a multiple of 16, say so with `TensorPointer::new(pointer).assume_aligned(16)`, else copy smaller vectors",
        "`copy` of UniversalCopy<uint128_t> o ((4,8),4):((32,1),8) of (8,16): cannot access ptr<f32, smem, align<4>> o ((4,1),1,1):((8,0),0,0) in vectors of 4 elements (128 bits): 1 x 32 bits; contiguous runs have length 1, because mode 0.0 has stride 8, but a vector of 4 needs a multiple of 4",
        "`copy` of UniversalCopy<uint128_t> o ((4,8),4):((32,1),8) of (8,16): cannot access ptr<f32, smem, align<4>> o ((4,1),1,1):((8,0),0,0) of (value,m,n) in vectors of 4 elements (128 bits): 1 x 32 bits; contiguous runs have length 1, because mode 0.0 has stride 8, but a vector of 4 needs a multiple of 4; mode 0 is value",
        "`partition_D` of ptr<f32, smem, align<16>> o (12,16):(16,1): mode 0 has the extent 12, which is not a multiple of the tile's 8: 4 are left over, and the last tile would reach past the end of the memory",
        "`partition_A` of ptr<f32, smem, align<16>> o (6,4):(1,6): mode 0 has the extent 6, which is not a multiple of the tile's 4: 2 are left over, and the last tile would reach past the end of the memory",
        "`gemm` of UniversalFMA<float>: the shapes do not match: C is (1,2,1), A is (1,2,16) and B is (1,1,1), but must be (V,M,N), (V,M,K) and (V,N,K)",
        "`gemm` of SM80_16x8x16_F32F16F16F32_TN: the elements of A are f32, but the instruction needs F16: convert them first",
        "`gemm` of UniversalFMA<float>: the elements of A, B and C are f64, but the instruction needs F32: convert them first",
    ];
    assert_eq!(texts, expected);
    Ok(())
}

/// Parts of a thread have the names of the modes of the tensor, which stand in what is said of a
/// copy.
#[test]
fn parts_and_errors_name_modes() {
    let universal = CopyAtom::new(CopyOp::Universal { bits: 32 }).unwrap();
    let tiled = TiledCopy::new(universal, Scalar::F32, &layout!((8, 4)), &layout!((1, 1))).unwrap();
    let mma: MmaAtom = "SM80_16x8x8_F32TF32TF32F32_TN".parse().unwrap();
    let mma = TiledMma::new(mma, &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap();
    let errors = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("k", Target::SM_80, |k, (x, y)| {
        let thread = k.thread_idx().x;
        let thr = tiled.slice(thread);
        let x = Tensor::new(x, layout!((16, 8)).named(["m", "k"]).unwrap());
        let y = Tensor::new(y, layout!((16, 16)).named(["m", "n"]).unwrap());
        let names = |text: String| text.split_once(" of ").map(|(_, names)| names.to_owned());
        let (from, to) = (thr.partition_s(&x), thr.partition_d(&y));
        assert_eq!(names(from.to_string()).as_deref(), Some("(value,m,k)"));
        assert_eq!(names(thr.retile_s(&from).to_string()).as_deref(), Some("(value,m,k)"));
        let parts = mma.slice(thread).partition_a(&x);
        assert_eq!(names(parts.to_string()).as_deref(), Some("(value,m,k)"));
        thr.copy(&from, &to);
        let row = Tensor::shared(k, layout!((8, 8, 3)).named(["m", "k", "stage"]).unwrap());
        copy(&from.slice((0, .., ..)), &row);
    })
    .unwrap_err();
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    assert!(texts[0].contains("((1,1),2,2) of (value,m,k)"), "{texts:?}");
    assert!(texts[0].contains("((1,1),2,4) of (value,m,n)"), "{texts:?}");
    assert!(texts[1].contains("(8,8,3) of (m,k,stage)"), "{texts:?}");
}
