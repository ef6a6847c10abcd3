//! Tensors of values, and copies of tensors with and without predicates.

use crate::support::device;

use tilewright::ir::{Body, BuildErrors, Element, GlobalMut, Kernel, Target, Val, f16};
use tilewright::layout::{IntTuple, Layout, LayoutError, coord, layout, shape, tiler};
use tilewright::runtime::Grid;
use tilewright::tensor::copy::{autovec_copy_if, copy, copy_if, copy_zfill};
use tilewright::tensor::view::{
    CoordTensor, RegisterTensor, SharedTensor, Tensor, TensorPointer, TensorSsa,
};

type InOut = (GlobalMut<i32>, GlobalMut<i32>, i32);

fn build(
    body: impl for<'b> FnOnce(
        &mut Body<'b, 'b>,
        Val<'b, GlobalMut<i32>>,
        Val<'b, GlobalMut<i32>>,
        Val<'b, i32>,
    ),
) -> Result<Kernel<InOut>, BuildErrors> {
    Kernel::build("tensor", Target::SM_80, |k, (x, y, n)| body(k, x, y, n))
}

/// Runs the kernel on each device with `x`, `len` times `-1`, and `n`; returns the second buffer.
fn run(
    kernel: Result<Kernel<InOut>, BuildErrors>,
    grid: Grid,
    x: &[i32],
    len: usize,
    n: i32,
) -> Vec<Vec<i32>> {
    let kernel = kernel.expect("the kernel is right");
    let run = |device: tilewright::runtime::Device| {
        let function = device.load(&kernel).expect("the kernel can be loaded");
        let mut x = device.upload(x).expect("there is memory");
        let mut y = device.upload(&vec![-1; len]).expect("there is memory");
        function.launch(grid, (&mut x, &mut y, n)).expect("the kernel runs");
        y.to_vec().expect("the result can be read")
    };
    device::devices().into_iter().map(run).collect()
}

fn threads(threads: u32) -> Grid {
    Grid { threads: [threads, 1, 1], ..Grid::cover(1, 1) }
}

fn numbers(len: i32) -> Vec<i32> {
    (0..len).map(|i| (i * 37 + 11) % 101 + 1).collect()
}

/// Element by element, whatever the layouts of the operands are.
#[test]
fn operators_work_element_by_element() -> Result<(), LayoutError> {
    let (a, b) = (layout!((3, 4):(4, 1)), layout!((3, 4):(1, 3)));
    let kernel = build(|_, x, y, _| {
        let (ta, tb) = (Tensor::new(x, &a), Tensor::new(x, &b));
        let (va, vb) = (ta.load_all(), tb.load_all());
        let sum = (&va + &vb) * 3 - va.clone() / 2;
        let larger = va.gt(&vb);
        let chosen = larger.select(&sum, &-vb.clone());
        let masked = (va & 15 | 64).convert::<i64>().convert::<i32>();
        Tensor::new(y, &a).store_all(&chosen);
        Tensor::new(y.offset(12), &a).store_all(&masked);
    });
    let x = numbers(12);
    for found in run(kernel, threads(1), &x, 24, 0) {
        for i in 0..12 {
            let at = a.at(i)? as usize;
            let (p, q) = (x[at], x[b.at(i)? as usize]);
            let expected = if p > q { (p + q) * 3 - p / 2 } else { -q };
            assert_eq!(found[at], expected);
            assert_eq!(found[12 + at], p & 15 | 64);
        }
    }
    Ok(())
}

/// `(a op t)(c) == a op t(c)` and `(t op a)(c) == t(c) op a`, for numbers of the host and of the
/// device.
#[test]
fn single_values_stand_on_either_side() {
    macro_rules! check {
        ($(($($op:tt)+) $left:expr, $right:expr;)*) => {$(
            let kernel = build(|_, x, y, n| {
                let layout = layout!((2, 3):(3, 1));
                let t = Tensor::new(x, &layout).load_all();
                let out = |part: i32| Tensor::new(y.offset(6 * part), &layout);
                out(0).store_all(&($left $($op)+ &t));
                out(1).store_all(&($left $($op)+ t.clone()));
                out(2).store_all(&(n $($op)+ &t));
                out(3).store_all(&(n $($op)+ t.clone()));
                out(4).store_all(&(&t $($op)+ $right));
                out(5).store_all(&(t.clone() $($op)+ n));
                out(6).store_all(&(&t $($op)+ &t));
            });
            let (x, n) = (numbers(6), 5);
            for found in run(kernel, threads(1), &x, 42, n) {
                for (i, &value) in x.iter().enumerate() {
                    let (left, right) = ($left $($op)+ value, value $($op)+ $right);
                    let (by_n, with_n) = (n $($op)+ value, value $($op)+ n);
                    let expected = [left, left, by_n, by_n, right, with_n, value $($op)+ value];
                    let found: Vec<i32> = (0..7).map(|part| found[6 * part + i]).collect();
                    assert_eq!(found, expected, "{}", stringify!($($op)+));
                }
            }
        )*};
    }
    check! {
        (+) 7, 3;
        (-) 7, 3;
        (*) -7, 3;
        (/) 700, 3;
        (%) 700, 13;
        (&) 0x55, 0x33;
        (|) 0x55, 0x33;
        (^) 0x55, 0x33;
    }
}

/// Shifts by host and device numbers and by tensors; `-` and `!` of references.
#[test]
fn shifts_and_operators_of_one_tensor() {
    let kernel = build(|k, x, y, n| {
        let t = Tensor::new(x, layout!(6)).load_all();
        let amounts = (&t % 5).convert::<u32>();
        let small = amounts.lt(3);
        let no = (!&small).select(&TensorSsa::full(k, 6, 1), &TensorSsa::full(k, 6, 0));
        let results = [
            &t << 2,
            t.clone() >> n.cvt::<u32>(),
            &t << &amounts,
            -&t >> amounts,
            -&t,
            !&t,
            !t.clone(),
            no,
            (true ^ &small).select(&TensorSsa::full(k, 6, 1), &TensorSsa::full(k, 6, 0)),
        ];
        for (part, result) in (0..).zip(&results) {
            Tensor::new(y.offset(6 * part), layout!(6)).store_all(result);
        }
    });
    let (x, n) = (numbers(6), 3);
    for found in run(kernel, threads(1), &x, 54, n) {
        for (i, &value) in x.iter().enumerate() {
            let amount = value % 5;
            let no = i32::from(amount >= 3);
            let shifted = [value << 2, value >> n, value << amount, -value >> amount];
            let expected = [&shifted[..], &[-value, !value, !value, no, no]].concat();
            let found: Vec<i32> = (0..9).map(|part| found[6 * part + i]).collect();
            assert_eq!(found, expected);
        }
    }
}

/// `broadcast(t, shape)(c) == t(c with 0 where the extent is 1)`, for missing modes too.
#[test]
fn modes_of_extent_one_are_repeated() -> Result<(), LayoutError> {
    for (from, to, strides) in [
        (shape!(3, 4), shape!(3, 4), shape!(1, 3)),
        (shape!(1, 4), shape!(3, 4), shape!(0, 1)),
        (shape!(3, 1), shape!(3, 4), shape!(1, 0)),
        (shape!(3), shape!(3, 4), shape!(1, 0)),
        (shape!(1), shape!(3, (2, 2)), shape!(0, (0, 0))),
        (shape!(3, 1), shape!(3, (2, 2)), shape!(1, (0, 0))),
        (shape!((3, 1), 2), shape!((3, 2), 2), shape!((1, 0), 3)),
    ] {
        let size = to.product()?.to_static()? as i32;
        let expected = Layout::new(&to, &strides)?;
        let kernel = build(|k, x, y, _| {
            let x = Tensor::new(x, Layout::compact(from.clone()));
            let out = Tensor::new(y, Layout::compact(to.clone()));
            out.store_all(&x.load_all().broadcast_to(to.clone()));
            // An operator repeats both sides.
            let ones = TensorSsa::full(k, to.clone(), 1);
            let out = Tensor::new(y.offset(size), Layout::compact(to.clone()));
            out.store_all(&(x.load_all() * ones));
        });
        let x = numbers(12);
        for found in run(kernel, threads(1), &x, 2 * size as usize, 0) {
            let repeated: Vec<i32> = expected.indices()?.map(|i| x[i as usize]).collect();
            assert_eq!(found, [repeated.clone(), repeated].concat(), "{from} to {to}");
        }
    }
    Ok(())
}

/// The fold over the modes that the profile does not keep, in the order of the coordinates: the
/// function is not commutative, so that the order shows.
#[test]
fn reductions_fold_the_other_modes() -> Result<(), LayoutError> {
    let shape: IntTuple = shape!(2, (3, 2), 2);
    let step = |sum: i32, value: i32| sum.wrapping_mul(3).wrapping_add(value);
    let layout = Layout::compact(shape.clone());
    let all = [coord!(_, 0, 0), coord!(0, _, 0), coord!(_, (0, _), 0), coord!(_, _, _), coord!(0)];
    for (which, profile) in all.into_iter().enumerate() {
        let kernel = build(|_, x, y, _| {
            let values = Tensor::new(x, &layout).load_all();
            fn f<'b>(sum: Val<'b, i32>, value: Val<'b, i32>) -> Val<'b, i32> {
                sum * 3 + value
            }
            let reduced = match which {
                0 => values.reduce(5, (.., 1, 1), f),
                1 => values.reduce(5, (1, .., 1), f),
                2 => values.reduce(5, (.., (1, ..), 1), f),
                3 => values.reduce(5, .., f),
                _ => values.reduce(5, 1, f),
            };
            let out = Tensor::new(y, Layout::compact(reduced.shape().clone()));
            out.store_all(&reduced);
        });
        let x = numbers(24);
        // By the definition: the elements with the same entries at the `_`.
        let indices = |layout: Layout| Ok::<Vec<i64>, LayoutError>(layout.indices()?.collect());
        let (kept, rest) = match which {
            3 => (indices(layout.clone())?, vec![0]),
            4 => (vec![0], indices(layout.clone())?),
            _ => (indices(layout.slice(&profile)?)?, indices(layout.dice(&profile)?)?),
        };
        let fold = |k: &i64| rest.iter().fold(5, |sum, r| step(sum, x[(k + r) as usize]));
        let expected: Vec<i32> = kept.iter().map(fold).collect();
        for found in run(kernel, threads(1), &x, expected.len(), 0) {
            assert_eq!(found, expected, "{profile}");
        }
    }
    Ok(())
}

/// `reduce_keepdims` is `reduce` with the extent 1 for each leaf that is folded, so it goes back to
/// the shape that it comes from: `all - max` is the difference from the largest element with the
/// same kept coordinates.
#[test]
fn reductions_that_keep_their_modes_go_with_the_tensor() {
    let kernel = build(|_, x, y, _| {
        let shape = shape!((2, 2, 4), 1, 3);
        let all = Tensor::new(x, Layout::compact(shape.clone())).load_all();
        let rows = all.reduce_keepdims(-1000, ((1, .., 1), 1, 1), |a, b| a.max(b));
        assert_eq!(rows.shape(), &shape!((1, 2, 1), 1, 1));
        let dropped = all.reduce(-1000, ((1, .., 1), 1, 1), |a, b| a.max(b));
        let same = dropped.reshape(shape!((1, 2, 1), 1, 1));
        let total = all.reduce_keepdims(0, 0, |a, b| a + b);
        assert_eq!(total.shape(), &shape!((1, 1, 1), 1, 1));
        let out = Tensor::new(y, Layout::compact(shape.clone()));
        out.store_all(&((&all - &rows) * 100 + (&all - &same) + &total));
    });
    let x = numbers(48);
    let total: i32 = x.iter().sum();
    for found in run(kernel, threads(1), &x, 48, 0) {
        for (i, value) in found.iter().enumerate() {
            let row = |i: usize| i / 2 % 2;
            let largest = (0..48).filter(|j| row(*j) == row(i)).map(|j| x[j]).max();
            let apart = x[i] - largest.expect("there are such elements");
            assert_eq!(*value, apart * 100 + apart + total, "element {i}");
        }
    }
}

/// A shape with fewer modes goes to the first ones, and is refused where it would go to others too,
/// as are modes of another form.
#[test]
fn ambiguous_shapes_are_refused() {
    let message = |left: IntTuple, right: IntTuple| {
        let built = build(|k, _, _, _| {
            let (a, b) =
                (TensorSsa::full(k, left.clone(), 1), TensorSsa::full(k, right.clone(), 2));
            let _ = a + b;
        });
        built.err().map(|errors| errors.iter().next().map(|error| error.kind.to_string()))
    };
    for (left, right) in [
        (shape!(2), shape!(2, 4)),
        (shape!(2, 1), shape!(2, 4)),
        (shape!(1, 4), shape!(4, 4)),
        (shape!(4, 1), shape!(4, 4)),
        (shape!(1), shape!(4, 4)),
        (shape!(4), shape!(4, 1)),
        (shape!((1, 2, 1), 1, 1), shape!((2, 2, 4), 1, 1)),
        (shape!(1, 3), shape!((2, 2), 3)),
        (shape!(2, 3), shape!(2, 3, 2)),
        (shape!(4, 2), shape!(4, (2))),
    ] {
        assert_eq!(message(left.clone(), right.clone()), None, "{left} and {right}");
        assert_eq!(message(right.clone(), left.clone()), None, "{right} and {left}");
    }
    for (left, right, first, last) in [
        (shape!(4), shape!(4, 4), "(4,1)", "(1,4)"),
        (shape!(4), shape!(1, 4), "(4,1)", "(1,4)"),
        (shape!(2, 3), shape!(2, 3, 3), "(2,3,1)", "(2,1,3)"),
        (shape!(2, 2), shape!(2, 2, 2), "(2,2,1)", "(1,2,2)"),
    ] {
        let found = message(left.clone(), right).flatten().unwrap_or_default();
        let wanted = format!(
            "in several ways: write `.reshape(shape!{first})` or `.reshape(shape!{last})`, or use `reduce_keepdims`"
        );
        assert!(found.contains(&wanted), "{found}");
    }
    for (left, right) in [
        (shape!(2), shape!((2, 2, 4), 1, 1)),
        (shape!((2, 2), 3), shape!(2, 3)),
        (shape!((2, 2), 3), shape!((2, 2, 4), 3)),
        (shape!(3), shape!(2, 3)),
    ] {
        let found = message(left.clone(), right.clone()).flatten().unwrap_or_default();
        assert!(found.contains("cannot broadcast the shapes"), "{left} and {right}: {found}");
    }
}

/// Through registers and shared memory and back: each thread its own part.
#[test]
fn copies_go_through_all_kinds_of_memory() {
    let kernel = build(|k, x, y, _| {
        let t = k.thread_idx().x;
        let parts = layout!((4, 8):(8, 1));
        let from = Tensor::new(x, layout!((8, 16):(16, 1))).local_partition(&parts, t);
        let to = Tensor::new(y, layout!((8, 16):(1, 8)));
        let tile = SharedTensor::<i32>::shared(k, layout!((8, 16):(17, 1)));
        let fragment: RegisterTensor<'_, i32> = from.fragment_like();
        copy(&from, &fragment);
        copy(&fragment, &tile.local_partition(&parts, t));
        k.barrier();
        // Another thread takes it out.
        let other = 31 - t;
        copy(&tile.local_partition(&parts, other), &to.local_partition(&parts, other));
    });
    let x = numbers(128);
    for found in run(kernel, threads(32), &x, 128, 0) {
        for row in 0..8 {
            for column in 0..16 {
                assert_eq!(found[row + 8 * column], x[16 * row + column]);
            }
        }
    }
}

/// A matrix that the tiles do not divide: what lies outside is neither read (the source ends there)
/// nor written (so does the destination), and zeros take its place in shared memory.
#[test]
fn ragged_tiles_are_predicated() {
    let (rows, columns) = (21, 13);
    for device_limit in [false, true] {
        for whole_tiles_out in [false, true] {
            let kernel = build(|k, x, y, n| {
                let (t, block) = (k.thread_idx().x, k.block_idx());
                let at = (block.x, block.y);
                let (tiling, parts) = (tiler!(8, 8), layout!((4, 8):(8, 1)));
                let matrix = Tensor::new(x, layout!((rows, columns):(columns, 1)));
                let from = matrix.local_tile(&tiling, at).local_partition(&parts, t);
                let places = CoordTensor::identity(k, shape!(rows, columns));
                let places = places.local_tile(&tiling, at).local_partition(&parts, t);
                let inside = match device_limit {
                    true => places.within((rows, n)),
                    false => places.within((rows, columns)),
                };
                let tile = SharedTensor::<i32>::shared(k, layout!((8, 8):(8, 1)));
                let tile = tile.local_partition(&parts, t);
                copy_zfill(&inside, &from, &tile);
                if whole_tiles_out {
                    let to = Tensor::new(y, layout!((24, 16):(16, 1)));
                    copy(&tile, &to.local_tile(&tiling, at).local_partition(&parts, t));
                } else {
                    let to = Tensor::new(y, layout!((rows, columns):(columns, 1)));
                    let to = to.local_tile(&tiling, at).local_partition(&parts, t);
                    copy_if(&inside, &tile, &to);
                }
            });
            let grid = Grid { blocks: [3, 2, 1], ..threads(32) };
            let x = numbers(rows * columns);
            let len = if whole_tiles_out { 24 * 16 } else { x.len() };
            for found in run(kernel, grid, &x, len, columns) {
                if !whole_tiles_out {
                    assert_eq!(found, x, "device limit: {device_limit}");
                    continue;
                }
                for row in 0..24 {
                    for column in 0..16 {
                        let inside = row < rows && column < columns;
                        let expected =
                            if inside { x[(row * columns + column) as usize] } else { 0 };
                        assert_eq!(found[(row * 16 + column) as usize], expected);
                    }
                }
            }
        }
    }
}

/// A predicate is any tensor of bools; a register may hold one.
#[test]
fn predicates_may_be_computed() {
    let kernel = build(|_, x, y, n| {
        let (x, y) = (Tensor::new(x, layout!((4, 2))), Tensor::new(y, layout!((4, 2))));
        let even = x.load_all().map(|value| (value % 2).eq(0));
        let kept = y.fragment_like::<bool>();
        kept.store_all(&(even.map(|even| even & n.gt(0))));
        copy_if(&kept, &x, &y);
    });
    let x = [1, 2, 3, 4, 6, 8, 9, 10];
    for found in run(kernel.clone(), threads(1), &x, 8, 1) {
        assert_eq!(found, [-1, 2, -1, 4, 6, 8, -1, 10]);
    }
    for found in run(kernel, threads(1), &x, 8, 0) {
        assert_eq!(found, [-1; 8]);
    }
}

/// The extents bound the coordinates: tiles that divide the tensor are not compared.
#[test]
fn what_the_extents_show_is_not_compared() {
    let kernel = build(|k, _, _, n| {
        let (t, block) = (k.thread_idx().x, k.block_idx().x);
        let places = CoordTensor::identity(k, shape!(64, 32));
        let tile = places.local_tile(&tiler!(16, 16), (block, 1));
        let part = tile.local_partition(&layout!((8, 4):(4, 1)), t);
        assert!(part.within((64, 32)).is_always());
        assert!(!part.within((63, 32)).is_always());
        assert!(!part.within((64, n)).is_always());
        assert!(part.within((64, ..)).is_always());
        // The second half of the second tile: columns 16 to 31 are not all below 31.
        assert!(!part.within((64, 31)).is_always());
        assert!(tile.slice((.., 3)).within((64, 20)).is_always());
        assert!(!tile.slice((.., 4)).within((64, 20)).is_always());
    });
    assert!(kernel.is_ok());
}

/// Modes in modes make no difference: a mode is known by its size.
#[test]
fn predicates_have_the_modes_of_the_copy() {
    for (predicate, copied) in [
        (shape!(2, 4), layout!((2, 4))),
        (shape!(2, 4), layout!(((1, 2), (2, 2)))),
        (shape!((2, 1), (2, 2)), layout!((2, (1, 4)))),
        (shape!(8), layout!((2, 4))),
        (shape!(2, 4), layout!(8)),
    ] {
        let kernel = build(|k, x, y, n| {
            let (x, y) = (Tensor::new(x, &copied), Tensor::new(y, &copied));
            let numbers = TensorSsa::full(k, predicate.clone(), 0);
            let mut at = 0;
            let numbers = numbers.map(|zero| {
                at += 1;
                zero + at
            });
            copy_if(&numbers.le(n), &x, &y);
        });
        for found in run(kernel, threads(1), &numbers(8), 8, 3) {
            let expected: Vec<i32> = numbers(8)[..3].iter().copied().chain([-1; 5]).collect();
            assert_eq!(found, expected, "{predicate} of {copied}");
        }
    }
}

/// Registers of other elements hold the bits that memory of other elements holds.
#[test]
fn fragments_are_recast_as_memory_is() {
    fn check<T: Element, U: Element>(layout: &Layout) {
        let recast = layout.recast_layout(T::SCALAR.bits().into(), U::SCALAR.bits().into());
        let recast = recast.expect("it has neighbours");
        let kernel = build(|k, x, y, _| {
            let x = TensorPointer::new(x).assume_aligned(16).recast::<T>();
            let y = TensorPointer::new(y).assume_aligned(16).recast::<U>();
            let held = RegisterTensor::<T>::registers(k, layout.clone());
            copy(&Tensor::new(x, layout.clone()), &held);
            let other = held.recast::<U>();
            assert_eq!(other.layout(), &recast);
            copy(&other, &Tensor::new(y, recast.clone()));
            // A part by itself, and both ways: the same bits.
            let there = other.recast::<T>();
            let out = y.recast::<T>() + 16 * 32 / i64::from(T::SCALAR.bits());
            copy(&there, &Tensor::new(out, there.layout().clone()));
        });
        let x: Vec<i32> = (0..32).map(|i| i * 0x0123_4567 + 0x1020).collect();
        for found in run(kernel, threads(1), &x, 32, 0) {
            let name = format!("{} to {} of {layout}", T::SCALAR, U::SCALAR);
            assert_eq!(found[..8], x[..8], "{name}");
            assert_eq!(found[16..24], x[..8], "{name}");
        }
    }
    // 32 bytes each.
    for layout in [layout!(8), layout!((4, 2)), layout!((2, 4) : (4, 1))] {
        check::<i32, f32>(&layout);
        check::<u32, u32>(&layout);
        check::<i32, u8>(&layout);
        check::<f32, f16>(&layout);
    }
    check::<i32, f64>(&layout!((4, 2)));
    check::<u8, i64>(&layout!((8, 4)));
    check::<f16, u32>(&layout!((2, 8)));
    check::<u8, f16>(&layout!((4, (2, 4)) : (8, (1, 2))));
    check::<f64, u16>(&layout!(4));
}

#[test]
fn mistakes_are_errors_of_the_build() {
    let errors = build(|k, x, y, _| {
        let (x, y) = (Tensor::new(x, layout!((2, 4))), Tensor::new(y, layout!((3, 4))));
        copy(&x, &y);
        let values = x.load_all();
        let _ = &values + &y.load_all();
        y.store_all(&values);
        values.at(8);
        values.at(k.thread_idx().x);
        let _ = values.reduce(0, (.., 1, 1), |a, b| a + b);
        let inside = CoordTensor::identity(k, shape!(2, 4)).within((1, 1));
        copy_if(&inside, &y, &y);
        // As many elements in other modes.
        let inside = CoordTensor::identity(k, shape!(4, 2)).within((1, 1));
        copy_if(&inside, &x, &x);
        copy_zfill(&inside, &x, &x);
        autovec_copy_if(&inside, &x, &x);
        let _ = CoordTensor::identity(k, shape!(2, 4)).within(1);
        let _ = values.broadcast_to(shape!(2, 8));
        RegisterTensor::<i32>::registers(k, layout!((2, 3) : (3, 1))).recast::<i64>().fill(0);
        RegisterTensor::<i8>::registers(k, layout!(4)).recast::<bool>();
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "`copy` of ptr<i32, gmem, align<4>> o (2,4):(1,2): cannot copy a tensor of shape (2,4) to one of shape (3,4): both must have the same number of elements",
        "`broadcast` of ssa<i32> o (2,4): cannot broadcast the shapes (2,4) and (3,4): each pair of modes must have the same profile and extents, or one of the two must be 1 (`reduce_keepdims` leaves a 1 for each leaf that it folds)",
        "`store` of ptr<i32, gmem, align<4>> o (3,4):(1,3): cannot broadcast the shapes (2,4) and (3,4): each pair of modes must have the same profile and extents, or one of the two must be 1 (`reduce_keepdims` leaves a 1 for each leaf that it folds)",
        "`load` of ssa<i32> o (2,4): there is no element 8: the tensor has 8",
        "`load` of ssa<i32> o (2,4): registers have no addresses, so a device value cannot index them: use a host loop, or keep the tensor in shared memory",
        "`reduce` of ssa<i32> o (2,4): 2 modes are needed, 3 were given",
        "`copy_if` of ptr<i32, gmem, align<4>> o (3,4):(1,3): the predicate has the shape (2,4), but the copy (3,4): a predicate must be a tensor of bools of the copy's shape",
        "`copy_if` of ptr<i32, gmem, align<4>> o (2,4):(1,2): the predicate has the shape (4,2), but the copy (2,4): a predicate must be a tensor of bools of the copy's shape",
        "`copy_zfill` of ptr<i32, gmem, align<4>> o (2,4):(1,2): the predicate has the shape (4,2), but the copy (2,4): a predicate must be a tensor of bools of the copy's shape",
        "`copy_if` of ptr<i32, gmem, align<4>> o (2,4):(1,2): the predicate has the shape (4,2), but the copy (2,4): a predicate must be a tensor of bools of the copy's shape",
        "`elem_less` of (0,0) o (2,4):(1@0,1@1): 2 modes are needed, 1 were given",
        "`broadcast_to` of ssa<i32> o (2,4): cannot broadcast the shapes (2,4) and (2,8): each pair of modes must have the same profile and extents, or one of the two must be 1 (`reduce_keepdims` leaves a 1 for each leaf that it folds)",
        "`recast` of rmem<i32> o (2,3):(3,1): 3 is not divisible by 2",
        "`recast` of rmem<i8> o 4:1: recast is not defined for elements of type i8 as elements of type bool",
    ];
    assert_eq!(texts, expected);
    assert!(errors.iter().all(|error| error.location.file == file!()));
}
