//! Checks that control flow carries and returns pointers, tensors, fragments and structs of them.

use crate::support::device;

use tilewright::ir::{BuildErrors, Global, GlobalMut, Kernel, Params, Target, Val, range};
use tilewright::layout::{ComposedLayout, layout};
use tilewright::runtime::Grid;
use tilewright::tensor::copy::autovec_copy;
use tilewright::tensor::pipeline::TmaPipeline;
use tilewright::tensor::view::{GlobalTensor, RegisterTensor, SharedTensor, Tensor, TensorPointer};

type InOut = (Global<i32>, GlobalMut<i32>);

/// Runs a kernel of one block on `0..256`.
fn run(kernel: Result<Kernel<InOut>, BuildErrors>, threads: u32, len: usize) -> Vec<Vec<i32>> {
    let kernel = kernel.unwrap();
    let run = |device: tilewright::runtime::Device| {
        let x = device.upload(&(0..256).collect::<Vec<i32>>()).unwrap();
        let mut y = device.zeros::<i32>(len).unwrap();
        let grid = Grid::new([1, 1, 1], [threads, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
        y.to_vec().unwrap()
    };
    device::devices().into_iter().map(run).collect()
}

fn message<S: Params>(kernel: Result<Kernel<S>, BuildErrors>) -> String {
    kernel.map(|_| ()).unwrap_err().to_string()
}

/// A pointer that a loop moves has the addresses of the plain index, and keeps what is known of it.
#[test]
fn pointers_walk_through_loops() {
    let kernel = Kernel::<InOut>::build("walk", Target::SM_80, |k, (x, y)| {
        let x = TensorPointer::new(x).assume_aligned(16) + 4;
        let step = k.thread_idx().x * 4 + 4;
        let (last, sum) = k.for_(range(0, 5), (x, 0), |k, _, (at, sum)| {
            assert_eq!(at.alignment(), 16);
            let four = RegisterTensor::<i32>::registers(k, layout!(4));
            autovec_copy(&Tensor::new(at, layout!(4)), &four);
            let sum = (0..4).fold(sum, |sum, i| sum + four.load(i));
            (at + step, sum)
        });
        let t = k.thread_idx().x;
        y.store(t * 2, sum);
        y.store(t * 2 + 1, last.load());
    });
    let text = kernel.as_ref().unwrap().ptx().text().to_owned();
    assert_eq!(text.matches("ld.global.v4").count(), 1, "{text}");
    for y in run(kernel, 3, 6) {
        for t in 0..3 {
            let first = |i: i32| 4 + i * (t * 4 + 4);
            let sum: i32 = (0..5).map(|i| 4 * first(i) + 6).sum();
            assert_eq!(y[2 * t as usize..][..2], [sum, first(5)]);
        }
    }
}

/// A result has the alignment that holds on both paths.
#[test]
fn results_know_what_holds_on_both_paths() {
    let kernel = Kernel::<InOut>::build("paths", Target::SM_80, |k, (x, y)| {
        let x = TensorPointer::new(x).assume_aligned(32);
        let t = k.thread_idx().x;
        let chosen = k.if_else(t.gt(1), |k| k.yield_(x + 4), |k| k.yield_(x + t * 2));
        assert_eq!(chosen.alignment(), 8);
        let of_cases = k
            .cases()
            .when(t.eq(0), |k| k.yield_(x + 8))
            .when(t.eq(1), |k| k.yield_(x + 2))
            .otherwise(|k| k.yield_(x));
        assert_eq!(of_cases.alignment(), 8);
        let kept = k.if_with(t.eq(2), x, |_| x + 16);
        assert_eq!(kept.alignment(), 32);
        let found = k.loop_(x, |k, l, at| {
            k.if_(at.load().ge(t * 3), |k| l.break_(k, at));
            l.continue_(k, at + 8)
        });
        assert_eq!(found.alignment(), 32);
        y.store(t * 4, chosen.load());
        y.store(t * 4 + 1, of_cases.load());
        y.store(t * 4 + 2, kept.load());
        y.store(t * 4 + 3, found.load());
    });
    let expected = |t: i32| {
        let (chosen, kept) = (if t > 1 { 4 } else { 2 * t }, if t == 2 { 16 } else { 0 });
        [chosen, [8, 2, 0, 0][t as usize], kept, (3 * t + 7) / 8 * 8]
    };
    for y in run(kernel, 4, 16) {
        assert_eq!(y, (0..4).flat_map(expected).collect::<Vec<_>>());
    }
}

tilewright::values! {
    /// A window on the rows of a matrix, and what was seen in it.
    struct Window<'b>: Clone {
        rows: GlobalTensor<'b, i32>,
        seen: RegisterTensor<'b, i32>,
        count: Val<'b, i32>,
    }
    struct Ends<'b> {
        first: TensorPointer<'b, Global<i32>>,
        last: TensorPointer<'b, Global<i32>>,
    }
}

#[test]
fn structs_of_tensors_and_fragments_are_carried() {
    let kernel = Kernel::<InOut>::build("window", Target::SM_80, |k, (x, y)| {
        let rows = Tensor::new(x, layout!((2, 4) : (8, 1)));
        let seen = RegisterTensor::<i32>::registers(k, layout!((2, 4)));
        seen.fill(0);
        let first = Window { rows, seen, count: k.constant(0) };
        let last = k.while_(
            first,
            |_, window| window.count.lt(5),
            |_, window| {
                let sum = window.seen.load_all() + window.rows.load_all();
                window.seen.store_all(&sum);
                // Two rows on.
                let rows = window.rows.domain_offset((2, 0));
                Window { rows, count: window.count + 1, ..window }
            },
        );
        let y = Tensor::new(y, layout!((3, 2, 4) : (8, 4, 1)));
        y.slice((0, .., ..)).store_all(&last.rows.load_all());
        y.slice((1, .., ..)).store_all(&last.seen.load_all());
        let x = *last.rows.data();
        let ends = k.for_(range(0, 3), Ends { first: x, last: x + 80 }, |_, _, ends| Ends {
            first: ends.first + 1,
            last: ends.last - 1,
        });
        y.store((2, 0, 0), ends.first.load());
        y.store((2, 1, 0), ends.last.load());
    });
    for y in run(kernel, 1, 24) {
        for (i, (row, column)) in (0..2).flat_map(|r| (0..4).map(move |c| (r, c))).enumerate() {
            let at = |step: i32| (row + 2 * step) * 8 + column;
            assert_eq!(y[i], at(5));
            assert_eq!(y[8 + i], (0..5).map(at).sum::<i32>());
        }
        assert_eq!([y[16], y[20]], [83, 157]);
    }
}

/// Swizzled tiles, and the states of rings, go through `if_else`.
#[test]
fn tiles_and_ring_states_are_results() {
    let kernel = Kernel::<InOut>::build("tiles", Target::SM_90, |k, (x, y)| {
        let swizzled: ComposedLayout = "S<2,0,3> o 0 o (8,4):(4,1)".parse()?;
        let a = SharedTensor::<i32>::shared(k, swizzled.clone());
        let b = SharedTensor::<i32>::shared(k, swizzled);
        let t = k.thread_idx().x;
        for column in 0..4 {
            a.store((t, column), x.load(t * 4 + column));
            b.store((t, column), x.load(t * 4 + column) + 100);
        }
        k.barrier();
        let chosen = k.if_else(
            t.lt(4),
            |k| k.yield_((a.clone(), b.clone())),
            |k| k.yield_((b.clone(), a.clone())),
        );
        assert_eq!(chosen.0.swizzle(), a.swizzle());
        y.store(t * 2, chosen.0.load((7 - t, 1)));
        let pipe = TmaPipeline::new(k, 3, 128, 1);
        let state = pipe.consumer();
        let state = k.if_else(t.lt(4), |k| k.yield_(state), |k| k.yield_(state.next()));
        y.store(t * 2 + 1, state.next().stage);
        Ok::<(), tilewright::layout::LayoutError>(())
    });
    for y in run(kernel, 8, 16) {
        for t in 0..8 {
            let value = (7 - t) * 4 + 1 + if t < 4 { 0 } else { 100 };
            assert_eq!(y[2 * t as usize..][..2], [value, if t < 4 { 1 } else { 2 }]);
        }
    }
}

#[test]
fn what_cannot_be_carried_says_what_to_do() {
    type One = (Global<i32>,);
    let text = message(Kernel::<One>::build("k", Target::SM_80, |k, (x,)| {
        let x = TensorPointer::new(x).assume_aligned(16);
        let t = k.thread_idx().x;
        k.for_(range(0, 4), x, |_, _, at| at + t);
    }));
    assert!(
        text.contains("the loop carries a pointer to a multiple of 16 bytes, but the next iteration gets a pointer to a multiple of 4 bytes: state the other one's alignment with `assume_aligned`, or start with `without_alignment`"),
        "{text}"
    );
    assert!(text.contains("tests/tensor/carried.rs"), "{text}");
    Kernel::<One>::build("k", Target::SM_80, |k, (x,)| {
        let x = TensorPointer::new(x).assume_aligned(16);
        let t = k.thread_idx().x;
        k.for_(range(0, 4), x.without_alignment(), |_, _, at| at + t);
    })
    .unwrap();
    let text = message(Kernel::<One>::build("k", Target::SM_80, |k, (x,)| {
        let x = Tensor::new(x, layout!((4, 8)));
        k.for_(range(0, 4), x, |_, _, x| x.slice((0, ..)));
    }));
    assert!(text.contains("o (4,8):(1,4), but the next iteration gets a tensor"), "{text}");
    assert!(text.contains("carry the pointer and make the tensor in the body"), "{text}");
    let text = message(Kernel::<()>::build("k", Target::SM_80, |k, ()| {
        let t = k.thread_idx().x;
        let fragment = |k: &tilewright::ir::Body<'_, '_>| {
            RegisterTensor::<i32>::registers(k, layout!(4)).fill(1);
        };
        fragment(k);
        let (a, b) = (
            RegisterTensor::<i32>::registers(k, layout!(4)),
            RegisterTensor::<i32>::registers(k, layout!(4)),
        );
        let chosen = k.if_else(t.eq(0), |k| k.yield_(a.clone()), |k| k.yield_(b.clone()));
        chosen.load(0);
    }));
    assert!(text.contains("all paths must carry the same fragment: make it before"), "{text}");
    // A fragment of the loop's body does not outlive it.
    let text = message(Kernel::<()>::build("k", Target::SM_80, |k, ()| {
        let fragment = k.loop_((), |k, l, ()| {
            let fragment = RegisterTensor::<i32>::registers(k, layout!(4));
            fragment.fill(1);
            l.break_(k, fragment)
        });
        fragment.load(0);
    }));
    assert!(text.contains("belong to a body that has ended: make them before that body"), "{text}");
    assert_eq!(text.matches("carried.rs").count(), 2, "{text}");
    let text = message(Kernel::<()>::build("k", Target::SM_80, |k, ()| {
        let swizzled: ComposedLayout = "S<2,0,3> o 0 o (8,4):(4,1)".parse()?;
        let tile = SharedTensor::<i32>::shared(k, swizzled);
        let t = k.thread_idx().x;
        k.if_with(t.eq(0), *tile.slice((1, ..)).data(), |_| *tile.slice((t, ..)).data());
        Ok::<(), tilewright::layout::LayoutError>(())
    }));
    assert!(text.contains("carry the offset, and slice or move the tensor in the body"), "{text}");
}

/// An assertion of a fragment names the first element that is false, in the order of the
/// coordinates.
#[test]
fn fragments_are_asserted() {
    use tilewright::runtime::RuntimeError;
    let kernel = Kernel::<(Global<i32>,)>::build("check", Target::SM_80, |k, (x,)| {
        let t = k.thread_idx().x;
        let row = Tensor::new(x, layout!((4, 6) : (6, 1))).slice((t, ..));
        row.load_all().ne(7).assert("no 7");
    });
    let kernel = kernel.unwrap();
    let mut numbers = vec![0; 24];
    (numbers[6 + 2], numbers[6 + 5], numbers[18]) = (7, 7, 7);
    for device in device::devices() {
        let x = device.upload(&numbers).unwrap();
        let grid = Grid::new([1, 1, 1], [4, 1, 1]);
        let launched = device.load(&kernel).unwrap().launch(grid, (&x,));
        let error = launched.and_then(|_| device.synchronize()).unwrap_err();
        let RuntimeError::AssertFailed(failed) = error else { panic!("{error}") };
        let found: Vec<_> = failed.failures.iter().map(|f| (f.thread[0], f.element)).collect();
        assert_eq!((failed.total, found), (2, vec![(1, Some(2)), (3, Some(0))]));
        assert!(failed.failures[0].to_string().contains("for element 2: no 7"));
        assert!(failed.failures[0].location.file.ends_with("carried.rs"));
    }
    assert!(!kernel.without_asserts().ptx().text().contains("selp"));
    tilewright::ir::KernelIr::clone(kernel.ir())
        .to_string()
        .parse::<tilewright::ir::KernelIr>()
        .unwrap();
}
