//! Compares tensors of dynamic extents and strides with static layouts of the same numbers.

use crate::support::device;

use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, Global, GlobalMut, Kernel, KernelOptions, Target, Template, Val, range,
};
use tilewright::layout::{Env, Int, IntTuple, Layout, LayoutError, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    CacheOp, CopyAtom, CopyOp, MmaAtom, MmaOp, TiledCopy, TiledMma, ValType,
};
use tilewright::tensor::copy::{autovec_copy, clear, copy, copy_if, copy_zfill};
use tilewright::tensor::mma::gemm;
use tilewright::tensor::view::{
    GlobalTensor, GlobalTensorMut, RegisterTensor, SharedTensor, Tensor, TensorPointer,
};

type Params = (Layout, Global<f32>, Layout, GlobalMut<f32>);

/// A kernel of two tensors with these layouts.
fn kernel(
    [from, to]: [&Layout; 2],
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, &GlobalTensor<'b, f32>, &GlobalTensorMut<'b, f32>),
) -> Kernel<Params> {
    let options = KernelOptions::default().template(from).template(to);
    Kernel::<Params>::build_with(options, "dynamic", Target::SM_80, |k, (from, x, to, y)| {
        let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), from);
        let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), to);
        body(k, &x, &y);
    })
    .unwrap()
}

/// Runs it with these layouts on `1, 2, 3, ..` and on zeros.
fn run(device: &Device, kernel: &Kernel<Params>, grid: Grid, [from, to]: [&Layout; 2]) -> Vec<f32> {
    let len = |layout: &Layout| layout.cosize().unwrap().to_static().unwrap() as usize;
    let x: Vec<f32> = (1..=len(from)).map(|i| i as f32).collect();
    let (x, mut y) = (device.upload(&x).unwrap(), device.zeros::<f32>(len(to)).unwrap());
    device.load(kernel).unwrap().launch(grid, (from, &x, to, &mut y)).unwrap();
    y.to_vec().unwrap()
}

/// Copies the coordinates that `inside` has and returns the second tensor.
fn copied([from, to]: [&Layout; 2], inside: impl Fn(i64) -> bool) -> Vec<f32> {
    let mut expected = vec![0.0; to.cosize().unwrap().to_static().unwrap() as usize];
    for i in (0..to.size().unwrap().to_static().unwrap()).filter(|i| inside(*i)) {
        expected[to.at(i).unwrap() as usize] = (from.at(i).unwrap() + 1) as f32;
    }
    expected
}

fn one_block(threads: u32) -> Grid {
    Grid::new([1, 1, 1], [threads, 1, 1])
}

/// Static extents with a dynamic pitch: `(4,8):(n,1)` and `(4,8):(1,m)`.
fn pitches(divisor: i64) -> [Layout; 2] {
    let (n, m) = (Int::symbol("n").divisible_by(divisor), Int::symbol("m").divisible_by(divisor));
    [Layout::new((4, 8), (n, 1)).unwrap(), Layout::new((4, 8), (1, m)).unwrap()]
}

#[test]
fn host_coordinates_go_through_symbols() {
    let [rows, columns] = pitches(1);
    let kernel = kernel([&rows, &columns], |k, x, y| {
        let t = k.thread_idx().x;
        // Each row by itself: by a coordinate, by slices, by a moved origin, by a number for a
        // coordinate.
        y.store((0, t), x.load((0, t)));
        y.slice((1, ..)).store(t, x.slice((1, ..)).load(t));
        y.domain_offset((2, 0)).store((0, t), x.domain_offset((2, 0)).load((0, t)));
        for column in 0..8 {
            y.store(3 + 4 * column, x.load(3 + 4 * column));
        }
    });
    for device in device::devices() {
        for (n, m) in [(8, 4), (9, 5), (100, 70)] {
            let layouts = [rows.clone(), columns.clone()]
                .map(|layout| layout.eval(&Env::new().with("n", n).with("m", m)).unwrap());
            let layouts = layouts.each_ref();
            let found = run(&device, &kernel, one_block(8), layouts);
            assert_eq!(found, copied(layouts, |_| true), "n = {n}, m = {m} on {device}");
        }
    }
}

/// All that moves whole tensors, one after the other, each a copy.
type Copies = for<'b> fn(&mut Body<'b, 'b>, &GlobalTensor<'b, f32>, &GlobalTensorMut<'b, f32>);

const COPIES: [Copies; 7] = [
    |_, x, y| copy(x, y),
    |_, x, y| autovec_copy(x, y),
    |_, x, y| y.store_all(&x.load_all()),
    |k, x, y| {
        let held: RegisterTensor<'_, f32> = RegisterTensor::registers(k, layout!((4, 8) : (8, 1)));
        autovec_copy(x, &held);
        autovec_copy(&held, y);
    },
    |k, x, y| {
        let all = Tensor::identity(k, shape!(4, 8)).within((k.thread_idx().x + 4, ..));
        copy_if(&all, x, y);
    },
    |k, x, y| {
        let all = Tensor::identity(k, shape!(4, 8)).within((.., k.thread_idx().x + 8));
        copy_zfill(&all, x, y);
    },
    |k, x, y| {
        clear(y);
        let atom = CopyAtom::new(CopyOp::Universal { bits: 32 }).unwrap();
        let tiled = TiledCopy::new(atom, Scalar::F32, &layout!((1, 1)), &layout!((2, 4))).unwrap();
        let thr = tiled.slice(k.thread_idx().x);
        thr.copy(&thr.partition_s(x), &thr.partition_d(y));
    },
];

#[test]
fn tensors_with_strides_of_the_run_are_copied() {
    for device in device::devices() {
        for divisor in [1, 2, 4] {
            for (i, body) in COPIES.iter().enumerate() {
                let [rows, columns] = pitches(divisor);
                for layouts in [[&rows, &columns], [&rows, &rows], [&columns, &rows]] {
                    let kernel = kernel(layouts, body);
                    for (n, m) in [(8, 4), (12, 20)] {
                        let env = Env::new().with("n", n).with("m", m);
                        let layouts = layouts.map(|layout| layout.eval(&env).unwrap());
                        let layouts = layouts.each_ref();
                        let found = run(&device, &kernel, one_block(1), layouts);
                        assert_eq!(found, copied(layouts, |_| true), "copy {i}, {n} {m}");
                    }
                }
            }
        }
    }
}

/// Divisors of symbols are alignment, and so the width of vectors.
#[test]
fn divisors_of_symbols_are_widths_of_vectors() {
    for (divisor, loads) in [(1, 32), (2, 16), (4, 8), (12, 8), (6, 16)] {
        let [rows, _] = pitches(divisor);
        let copied = kernel([&rows, &rows], |_, x, y| {
            let bytes = (4 << divisor.trailing_zeros()).min(16);
            assert_eq!(x.slice((1, ..)).data().alignment(), bytes);
            assert_eq!(x.slice((2, ..)).data().alignment(), (2 * bytes).min(16));
            autovec_copy(x, y);
        });
        assert_eq!(copied.ptx().text().matches("ld.global").count(), loads, "{divisor}");
        assert_eq!(copied.ptx().text().matches("st.global").count(), loads, "{divisor}");
    }
    // A tiled copy of vectors asks for the divisor.
    let tiled = |divisor| {
        let [rows, _] = pitches(divisor);
        let options = KernelOptions::default().template(&rows);
        Kernel::<(Layout, Global<f32>)>::build_with(options, "k", Target::SM_80, |k, (rows, x)| {
            let atom = CopyAtom::new(CopyOp::Universal { bits: 128 }).unwrap();
            let copy =
                TiledCopy::new(atom, Scalar::F32, &layout!((4, 2) : (2, 1)), &layout!((1, 4)));
            let copy = copy.unwrap();
            let thr = copy.slice(k.thread_idx().x);
            let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), rows);
            let from = thr.partition_s(&x);
            let held: RegisterTensor<'_, f32> = from.fragment_like();
            thr.copy(&from, &held);
        })
    };
    assert_eq!(tiled(4).unwrap().ptx().text().matches("ld.global.v4").count(), 1);
    let error = tiled(2).unwrap_err().to_string();
    assert!(error.contains("the alignment is 8 bytes, but the layout allows 16"), "{error}");
}

/// Tiles of matrices of any size through shared memory; the dynamic shape guards rows and columns.
#[test]
fn marked_layouts_end_to_end() -> Result<(), LayoutError> {
    // A matrix of rows with a pitch, and one of columns: all numbers are those of a launch.
    let from = layout!((32, 64) : (80, 1)).mark_layout_dynamic(None)?;
    let to = layout!((32, 64) : (1, 32)).mark_layout_dynamic(0)?;
    let atom = CopyAtom::new(CopyOp::Universal { bits: 32 }).unwrap();
    let tiled = TiledCopy::new(atom, Scalar::F32, &layout!((8, 4) : (4, 1)), &layout!((1, 4)));
    let tiled = tiled.unwrap();
    let transpose = kernel([&from, &to], |k, x, y| {
        let (block, thr) = (k.block_idx(), tiled.slice(k.thread_idx().x));
        let tile = tiler!(16, 32);
        let staged = SharedTensor::<f32>::shared(k, layout!((16, 32) : (33, 1)));
        let places = Tensor::identity(k, x.shape().to_owned());
        let [x_tile, y_tile] = [(); 2].map(|()| (block.x, block.y));
        let inside = thr.partition_s(&places.local_tile(&tile, x_tile));
        let inside = inside.within(k.coord(x.shape()));
        let from = thr.partition_s(&x.local_tile(&tile, x_tile));
        let to = thr.partition_d(&y.local_tile(&tile, y_tile));
        thr.copy_zfill(&inside, &from, &thr.partition_d(&staged));
        k.barrier();
        thr.copy_if(&inside, &thr.partition_s(&staged), &to);
    });
    for device in device::devices() {
        for [m, n, pitch] in [[32, 64, 80], [16, 32, 32], [1, 1, 1], [50, 70, 71], [17, 33, 40]] {
            let layouts = [layout!((m, n) : (pitch, 1)), layout!((m, n) : (1, m + 3))];
            let layouts = layouts.each_ref();
            let blocks = [m, n, 1].map(|extent| extent as u32);
            let grid = Grid::new([blocks[0].div_ceil(16), blocks[1].div_ceil(32), 1], [32, 1, 1]);
            let found = run(&device, &transpose, grid, layouts);
            assert_eq!(found, copied(layouts, |_| true), "{m} x {n} on {device}");
        }
    }
    Ok(())
}

/// Compact rows of a length that 4 divides: whole vectors by `cp.async`.
#[test]
fn compact_shapes_keep_their_vectors() -> Result<(), LayoutError> {
    let of = |layout: Layout| layout.mark_compact_shape_dynamic(0, None, 1);
    let marked = of(layout!((32, 64) : (64, 1)).mark_compact_shape_dynamic(1, None, 4)?)?;
    assert_eq!(marked.to_string(), "(s0,s1):(s1,1)");
    let op = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: true };
    let bring = TiledCopy::new(
        CopyAtom::new(op).unwrap(),
        Scalar::F32,
        &layout!((8, 4) : (4, 1)),
        &layout!((1, 4)),
    );
    let bring = bring.unwrap();
    let staged = kernel([&marked, &marked], |k, x, y| {
        let (block, thr) = (k.block_idx(), bring.slice(k.thread_idx().x));
        let tile = tiler!(16, 32);
        let staged = SharedTensor::<f32>::shared(k, layout!((16, 32) : (36, 1)));
        let limit = k.coord(x.shape());
        let places =
            Tensor::identity(k, x.shape().to_owned()).local_tile(&tile, (block.x, block.y));
        // The first element of each vector stands for it: 4 divides the rows.
        let places = thr.partition_s(&places).slice(((0, ..), .., ..));
        let inside = places.within(limit.clone());
        let from = thr.partition_s(&x.local_tile(&tile, (block.x, block.y)));
        thr.copy_if(&inside, &from, &thr.partition_d(&staged));
        k.cp_async_wait_all();
        k.barrier();
        let out = TiledCopy::new(
            CopyAtom::new(CopyOp::Universal { bits: 128 }).unwrap(),
            Scalar::F32,
            &layout!((8, 4) : (4, 1)),
            &layout!((1, 4)),
        );
        let out = out.unwrap();
        let thr = out.slice(k.thread_idx().x);
        let to = thr.partition_d(&y.local_tile(&tile, (block.x, block.y)));
        thr.copy_if(&inside, &thr.partition_s(&staged), &to);
    });
    let text = staged.ptx();
    assert_eq!(text.text().matches("cp.async.cg.shared.global").count(), 4);
    assert_eq!(text.text().matches("st.global.v4").count(), 4);
    for device in device::devices() {
        for [m, n] in [[32, 64], [16, 32], [3, 4], [50, 76], [17, 100]] {
            let layouts = [layout!((m, n) : (n, 1)), layout!((m, n) : (n, 1))];
            let layouts = layouts.each_ref();
            let blocks = [(m as u32).div_ceil(16), (n as u32).div_ceil(32), 1];
            let found = run(&device, &staged, Grid::new(blocks, [32, 1, 1]), layouts);
            assert_eq!(found, copied(layouts, |_| true), "{m} x {n} on {device}");
        }
        // Rows of 30 contradict what the kernel was built for.
        let layout = layout!((4, 30) : (30, 1));
        let (x, mut y) = (device.zeros::<f32>(120).unwrap(), device.zeros::<f32>(120).unwrap());
        let launched =
            device.load(&staged).unwrap().launch(one_block(32), (&layout, &x, &layout, &mut y));
        assert!(launched.unwrap_err().to_string().contains("s1 = 30 violates"));
    }
    Ok(())
}

/// `y(i, j) = x(i - 3, j - 9)`, and 0 where that is before the first row or column: coordinates
/// that the host moves below 0.
#[test]
fn coordinates_before_the_tensor_are_outside() -> Result<(), LayoutError> {
    let matrix = layout!((32, 64) : (64, 1)).mark_layout_dynamic(1)?;
    let shifted = kernel([&matrix, &matrix], |k, x, y| {
        let (block, thread) = (k.block_idx(), k.thread_idx().x);
        let (tile, threads) = (tiler!(4, 8), layout!((2, 8) : (8, 1)));
        let at = (block.x, block.y);
        let (places, limit) = (Tensor::identity(k, x.shape().to_owned()), k.coord(x.shape()));
        let moved = places.domain_offset((-3, -9)).local_tile(&tile, at);
        let inside = moved.local_partition(&threads, thread).within(limit.clone());
        let x = x.domain_offset((-3, -9)).local_tile(&tile, at);
        let x = x.local_partition(&threads, thread);
        let values = x.fragment_like::<f32>();
        copy_zfill(&inside, &x, &values);
        let exists = places.local_tile(&tile, at).local_partition(&threads, thread);
        let y = y.local_tile(&tile, at).local_partition(&threads, thread);
        copy_if(&exists.within(limit), &values, &y);
    });
    for device in device::devices() {
        for [m, n] in [[32, 64], [3, 9], [4, 10], [1, 1], [21, 37]] {
            let layouts = [layout!((m, n) : (n, 1)), layout!((m, n) : (n, 1))];
            let blocks = [(m as u32).div_ceil(4), (n as u32).div_ceil(8), 1];
            let x: Vec<f32> = (1..=m * n).map(|i| i as f32).collect();
            let (gpu_x, mut y) =
                (device.upload(&x).unwrap(), device.zeros::<f32>((m * n) as usize).unwrap());
            let args = (&layouts[0], &gpu_x, &layouts[1], &mut y);
            let function = device.load(&shifted).unwrap();
            function.launch(Grid::new(blocks, [16, 1, 1]), args).unwrap();
            let expected: Vec<f32> = (0..m * n)
                .map(|at| (at / n - 3, at % n - 9))
                .map(|(i, j)| if i < 0 || j < 0 { 0.0 } else { x[(i * n + j) as usize] })
                .collect();
            assert_eq!(y.to_vec().unwrap(), expected, "{m} x {n} on {device}");
        }
    }
    Ok(())
}

/// A loop of the device over as many tiles as there are, each through registers: sums of rows of
/// any length.
#[test]
fn tiles_are_counted_by_the_kernel() -> Result<(), LayoutError> {
    let rows = layout!((8, 64) : (64, 1)).mark_layout_dynamic(1)?;
    let sums = layout!(8).mark_compact_shape_dynamic(0, None, 8)?;
    let kernel = kernel([&rows, &sums], |k, x, y| {
        let (block, t) = (k.block_idx().x, k.thread_idx().x);
        let at = (block, ..);
        let tiles = x.local_tile(&tiler!(8, 4), at).slice((t, .., ..));
        let places = Tensor::identity(k, x.shape().to_owned()).local_tile(&tiler!(8, 4), at);
        let places = places.slice((t, .., ..));
        let limit = k.coord(x.shape());
        let count = tiles.shape().child(1).and_then(|mode| mode.as_leaf().cloned()).unwrap();
        assert_eq!(tiles.shape().to_string(), "(4,ceil_div(s1,4))");
        let count = k.int::<i32>(&count);
        let held = RegisterTensor::<f32>::registers(k, layout!(4));
        let sum = k.for_(range(0, count), k.constant(0f32), |_, tile, sum| {
            let inside = places.slice((.., tile)).within(limit.clone());
            copy_zfill(&inside, &tiles.slice((.., tile)), &held);
            held.load_all().reduce(sum, 0, |a, b| a + b).at(0)
        });
        y.store(block * 8 + t, sum);
    });
    for device in device::devices() {
        for [m, n, pitch] in [[8, 4, 4], [16, 7, 9], [24, 1, 2], [8, 130, 131]] {
            let layouts = [layout!((m, n) : (pitch, 1)), layout!(m)];
            let layouts = layouts.each_ref();
            let grid = Grid::new([m as u32 / 8, 1, 1], [8, 1, 1]);
            let found = run(&device, &kernel, grid, layouts);
            let sum = |row: i64| (0..n).map(|j| (row * pitch + j + 1) as f32).sum::<f32>();
            assert_eq!(found, (0..m).map(sum).collect::<Vec<_>>(), "{m} x {n} on {device}");
        }
    }
    Ok(())
}

/// A product whose factors are read from memory with dynamic pitches.
#[test]
fn factors_with_strides_of_the_run_are_multiplied() {
    let [a, b] = pitches(1);
    let kernel = kernel([&a, &b], |k, a, b| {
        let atom = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 }).unwrap();
        let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap();
        let thr = mma.slice(k.thread_idx().x);
        let (part_a, part_b) = (thr.partition_a(a), thr.partition_b(b));
        let sums = thr.fragment_c::<f32>(k, shape!(4, 4));
        sums.fill(0.0);
        gemm(&mma, &sums, &part_a, &part_b);
        // The products of the rows of A and of B in place of 4 columns of B.
        copy(&sums, &thr.partition_c(&b.local_tile(&tiler!(4, 4), (0, 1))));
    });
    for device in device::devices() {
        for (n, m) in [(8, 4), (11, 5)] {
            let env = Env::new().with("n", n).with("m", m);
            let [a, b] = [&a, &b].map(|layout| layout.eval(&env).unwrap());
            let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
            let (first, mut second) = (device.upload(&x).unwrap(), device.upload(&x).unwrap());
            let function = device.load(&kernel).unwrap();
            function.launch(one_block(1), (&a, &first, &b, &mut second)).unwrap();
            let found = second.to_vec().unwrap();
            let at = |layout: &Layout, i: i64, j: i64| layout.at(i + 4 * j).unwrap();
            for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
                let sum: i64 = (0..8).map(|step| at(&a, i, step) * at(&b, j, step)).sum();
                assert_eq!(found[at(&b, i, j + 4) as usize], sum as f32, "{i} {j} on {device}");
            }
        }
    }
}

/// A number stands for a coordinate in a dynamic shape too, and memory with dynamic strides is
/// recast.
#[test]
fn places_and_elements_of_shapes_of_the_run() -> Result<(), LayoutError> {
    let compact = layout!((8, 4) : (1, 8)).mark_compact_shape_dynamic(0, None, 2)?;
    let kernel = kernel([&compact, &compact], |k, x, y| {
        let halves = x.recast::<f64>();
        assert_eq!(halves.layout().to_string(), "(s0/2,4):(1,s0/2)");
        halves.load((0, 3));
        let places = Tensor::identity(k, x.shape().to_owned());
        let t = k.thread_idx().x;
        for i in 0..3 {
            let number = 5 + 7 * i;
            if i == 0 {
                let at = places.coord(number);
                y.store(at.clone(), x.load(at));
            }
            let at = places.coord(t + number);
            y.store(at, x.load(t + number));
        }
    });
    for device in device::devices() {
        for m in [6, 8, 12] {
            let layout = layout!((m, 4) : (1, m));
            let layouts = [&layout, &layout];
            let found = run(&device, &kernel, one_block(1), layouts);
            assert_eq!(found, copied(layouts, |i| [5, 12, 19].contains(&i)), "{m} on {device}");
        }
    }
    Ok(())
}

/// A copied tile has a static shape.
#[test]
fn extents_of_the_run_are_not_copied_as_a_whole() {
    let marked = layout!((8, 4) : (4, 1)).mark_layout_dynamic(None).unwrap();
    let bodies: [Copies; 4] = [
        |_, x, y| copy(x, y),
        |_, x, y| autovec_copy(x, y),
        |_, x, _| drop(x.load_all()),
        |_, _, y| clear(y),
    ];
    for body in bodies {
        let options = KernelOptions::default().template(&marked).template(&marked);
        let built = Kernel::<Params>::build_with(options, "k", Target::SM_80, |k, (a, x, b, y)| {
            let (x, y) = (Tensor::new(x, a), Tensor::new(y, b));
            body(k, &x, &y);
        });
        let error = built.unwrap_err().to_string();
        assert!(
            error.contains("the extent s0 of (s0,s1) is known only when the kernel runs"),
            "{error}"
        );
        assert!(error.contains("`local_tile`"), "{error}");
    }
}

/// Marking changes the numbers to symbols: with the numbers back, it is the layout that was marked.
#[test]
fn marks_are_layouts_of_the_kind() -> Result<(), LayoutError> {
    let order = |order: &'static [usize]| Some(order);
    let marked = [
        (layout!((8, 4, 16, 2) : (128, 32, 2, 1)), 0, None),
        (layout!((8, 4, 16, 2) : (128, 32, 2, 1)), 3, None),
        (layout!((8, 4, 16, 2) : (1, 8, 32, 512)), 2, None),
        (layout!((8, 1, 4) : (4, 4, 1)), 0, None),
        (layout!((8, 1, 4) : (4, 32, 1)), 1, order(&[1, 0, 2])),
        (layout!((1, 8) : (1, 1)), 1, None),
        (layout!((1, 8) : (100, 1)), 1, None),
        (layout!((1, 8) : (8, 1)), 0, order(&[0, 1])),
        (layout!(8 : 1), 0, None),
    ];
    for (given, mode, order) in marked {
        let dynamic = given.mark_compact_shape_dynamic(mode, order, 1)?;
        let symbol = dynamic.shape().leaves()[mode].clone();
        let extent = given.shape().leaves()[mode].to_static()?;
        assert!(symbol.as_symbol().is_some());
        assert_eq!(dynamic.eval(&Env::new().bind(&symbol, extent))?, given, "{dynamic}");
        // Another extent gives another compact layout, of another size.
        let longer = dynamic.eval(&Env::new().bind(&symbol, 3 * extent))?;
        assert_eq!(longer.size()?, given.size()?.mul(&3.into())?);
        if !given.to_string().contains("100") {
            assert_eq!(longer.cosize()?, longer.size()?, "{longer}");
        }
    }
    for given in
        [layout!((8, 4) : (4, 1)), layout!((8, 4, 3) : (1, 0, 50)), layout!((8, 4) : (3, 40))]
    {
        let dynamic = given.mark_layout_dynamic(None)?;
        let mut env = Env::new();
        let numbers = given.as_ref().leaves().zip(dynamic.as_ref().leaves());
        for ((extent, stride), (by_extent, by_stride)) in numbers {
            assert!(by_extent.as_symbol().is_some());
            let (stride, by_stride) = (stride.to_int()?, by_stride.to_int()?);
            assert_eq!(by_stride.is_static(), stride.is(0) || stride.is(1));
            env = env.bind(by_extent, extent.to_static()?).bind(by_stride, stride.to_static()?);
        }
        assert_eq!(dynamic.eval(&env)?, given);
    }
    Ok(())
}

#[test]
fn marks_that_are_not_decided_are_errors() {
    let shape = |layout: Layout, mode, order: Option<&[usize]>, divisibility| {
        layout.mark_compact_shape_dynamic(mode, order, divisibility).unwrap_err()
    };
    let square = || layout!((8, 4) : (4, 1));
    assert!(matches!(shape(square(), 2, None, 1), LayoutError::NoSuchMode { mode: 2, rank: 2 }));
    assert!(matches!(shape(square(), 1, None, 3), LayoutError::NotDivisible { .. }));
    assert!(matches!(shape(square(), 1, None, 0), LayoutError::NotDivisible { .. }));
    assert!(matches!(shape(layout!((8, 4) : (5, 1)), 1, None, 1), LayoutError::Unsupported { .. }));
    assert!(matches!(shape(square(), 1, Some(&[1, 0]), 1), LayoutError::Unsupported { .. }));
    assert!(matches!(shape(square(), 1, Some(&[0, 0]), 1), LayoutError::Unsupported { .. }));
    assert!(matches!(shape(layout!((8, 1) : (1, 1)), 1, None, 1), LayoutError::Undecided { .. }));
    let nested = layout!((8, (4, 2)) : (8, (2, 1)));
    assert!(matches!(shape(nested, 0, None, 1), LayoutError::Unsupported { .. }));
    let twice = square().mark_compact_shape_dynamic(1, None, 1).unwrap();
    assert!(matches!(shape(twice, 1, None, 1), LayoutError::Unsupported { .. }));

    let all =
        |layout: Layout, leading: Option<usize>| layout.mark_layout_dynamic(leading).unwrap_err();
    assert!(matches!(all(layout!((8, 4) : (1, 1)), None), LayoutError::Undecided { .. }));
    assert!(matches!(all(square(), Some(0)), LayoutError::Unsupported { .. }));
    assert!(matches!(all(square(), Some(2)), LayoutError::NoSuchMode { .. }));
}

/// More than 2^31 elements: offsets of 64 bits, whoever knows the coordinate. The tensor begins far
/// below the buffer, which is its last row.
#[test]
fn tensors_of_more_than_32_bits() {
    const ROWS: i64 = 1 << 17;
    const PITCH: i64 = 1 << 16;
    let last = (ROWS - 1) * PITCH;
    let symbolic = Layout::new((ROWS, 64), (Int::symbol("pitch"), 1)).unwrap();
    for layout in [layout!((ROWS, 64) : (PITCH, 1)), symbolic] {
        type Params = (IntTuple, GlobalMut<i32>, i32);
        let pitch = Template::from(IntTuple::leaf(Int::symbol("pitch")));
        let options = KernelOptions::default().template(pitch);
        let kernel =
            Kernel::<Params>::build_with(options, "far", Target::SM_80, |k, (_, x, row)| {
                let x = Tensor::new(TensorPointer::new(x) - last, layout.clone());
                let t = k.thread_idx().x;
                // The row is known by the device, by the host, as a tile of the device, and as one
                // number.
                x.store((row, t), 1);
                x.store((ROWS - 1, t + 16), 2);
                x.local_tile(&tiler!(2, 8), (row / 2, 4)).store((1, t), 3);
                let place: Val<'_, i32> = row + t * (1 << 17);
                x.domain_offset((0, 48)).store(place, 4);
            });
        let kernel = kernel.unwrap();
        for device in device::devices() {
            let mut x = device.zeros::<i32>(64).unwrap();
            let launched = device.load(&kernel).unwrap().launch(
                one_block(8),
                (&IntTuple::leaf(Int::new(PITCH)), &mut x, (ROWS - 1) as i32),
            );
            launched.unwrap();
            let value = |i: usize| if i % 16 < 8 { i as i32 / 16 + 1 } else { 0 };
            let expected: Vec<i32> = (0..64).map(value).collect();
            assert_eq!(x.to_vec().unwrap(), expected, "{layout} on {device}");
        }
    }
}
