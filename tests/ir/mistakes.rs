//! Checks the messages for a newcomer's mistakes.
//!
//! Each message names the Rust line or the argument, and the cure. Messages of rustc are in
//! `tests/ui/` and `tests/launch_ui/`.

use crate::support::places;

use expect_test::{Expect, expect};
use tilewright::ir::{
    Body, Element, Global, GlobalMut, Kernel, KernelOptions, Params, Shared, Target, parse, range,
};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, RunError, run};

#[track_caller]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(&places::without_places(text, file!()));
}

/// Builds a kernel that must be refused.
#[track_caller]
fn check_build<P: Params>(
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>),
    expected: Expect,
) {
    check_options::<P>(KernelOptions::default(), body, expected);
}

#[track_caller]
fn check_options<P: Params>(
    options: KernelOptions,
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>),
    expected: Expect,
) {
    let built = Kernel::<P>::build_with(options, "wrong", Target::SM_80, body);
    check(&built.expect_err("it is wrong").to_string(), expected);
}

/// Verifies a kernel as text that must be refused.
#[track_caller]
fn check_text(body: &str, expected: Expect) {
    let text = format!("kernel @wrong target sm_80 (%c: bool, %a: f32, %n: i32) {{\n{body}\n}}");
    let ir = parse("wrong.kir", &text).unwrap_or_else(|error| panic!("{error}"));
    check(&Kernel::verify(ir).map(|_| ()).expect_err("it is wrong").to_string(), expected);
}

/// Runs a kernel on the simulator that must fail, with four elements in `x` and in `y`, and the
/// number `n`.
#[track_caller]
fn check_run(
    threads: u32,
    n: i32,
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, <Signature as Params>::At<'b>),
    expected: Expect,
) {
    let kernel =
        Kernel::<Signature>::build("wrong", Target::SM_80, body).expect("the build cannot see it");
    let (x, y) = (GlobalBuffer::from_slice(&[1i32, 2, 3, 4]), GlobalBuffer::from_slice(&[0i32; 4]));
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&y), KernelArg::Scalar(n.to_const())];
    let grid = Grid::new([1, 1, 1], [threads, 1, 1]);
    let options = Options::default().fuel(10_000).threads(1);
    let error = run(kernel.ir(), grid, &args, &options).expect_err("it is wrong");
    let text = error.to_string();
    let text = match error {
        // The hot lines follow.
        RunError::OutOfFuel { .. } => text.lines().next().unwrap_or_default(),
        _ => &text,
    };
    check(text, expected);
}

type Signature = (Global<i32>, GlobalMut<i32>, i32);

#[test]
fn m01_path_of_a_loop_that_does_not_end() {
    check_text(
        "loop @l {\nif %c {\nbreak @l\n}\n%b = add %a, %a : f32\n}\nreturn",
        expect![
            "wrong.kir:6:1: the body of this `loop` does not end on every path: add `continue` or `break` [loop[0]/1]"
        ],
    );
}

#[test]
fn m02_wrong_number_of_carried_values() {
    check_text(
        "%r = loop @l iter(%x: f32 = %a, %i: i32 = %n) : f32 {\nif %c {\nbreak @l %x\n}\ncontinue @l %x\n}\nreturn",
        expect![
            "wrong.kir:6:1: `continue` has 1 value, but needs 2: one for each value that the loop carries [loop[0]/1]"
        ],
    );
}

#[test]
fn m03_barrier_that_some_threads_do_not_reach() {
    check_build::<Signature>(
        |k, (x, y, n)| {
            let i = k.thread_idx().x;
            k.if_(i.lt(n), |k| {
                y.store(i, x.load(i));
                k.barrier();
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: only some threads of a block may reach the barrier: the `if` at FILE:LINE may differ between them; move the barrier out of it, or make its condition or range independent of the thread"#]],
    );
}

#[test]
fn m04_index_without_a_guard() {
    check_run(
        5,
        4,
        |k, (x, y, _)| {
            let i = k.thread_idx().x;
            y.store(i, x.load(i) + 1);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 4 (bytes 16 to 20) of parameter `p0`, which has 4 elements (16 bytes), in thread (4, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
}

#[test]
fn m05_shared_memory_as_a_parameter() {
    check_build::<(Shared<f32>, GlobalMut<f32>)>(
        |_, (s, y)| y.store(0, s.load(0)),
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: parameter `p0` points to shared memory, which exists only while a block runs: make it in the kernel (`k.shared`), and pass an index"#]],
    );
}

#[test]
fn m06_alignment_below_that_of_the_elements() {
    check_build::<(GlobalMut<f64>,)>(
        |k, (y,)| {
            let s = k.shared_aligned::<f64>(32, 4);
            s.store(0, y.load(0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: shared0 is aligned to 4 bytes, but its elements are f64: align it to 8 or more"#]],
    );
}

#[test]
fn m07_counting_down() {
    check_build::<Signature>(
        |k, (_, y, n)| {
            k.for_(range(n, 0).step(-1), (), |_, i, ()| y.store(i, 0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: the step of a `for` is -1, but must be positive: to count down, count up and subtract the index"#]],
    );
}

#[test]
fn m08_step_of_zero_at_run_time() {
    check_run(
        1,
        0,
        |k, (_, y, n)| {
            k.for_(range(0, 4).step(n), (), |_, i, ()| y.store(i, 0));
        },
        expect![
            "`for` at FILE:LINE has the step 0, which is not positive, in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; pass a positive step"
        ],
    );
}

#[test]
fn m09_value_kept_from_an_inner_body() {
    check_build::<Signature>(
        |k, (_, y, n)| {
            let mut kept = n;
            k.if_(n.lt(3), |_| kept = n * 2);
            y.store(0, kept);
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: a value made at FILE:LINE is used outside the body that made it: return it from that body, or keep it in a variable (`k.var`)"#]],
    );
}

#[test]
fn m10_wrong_arguments_of_a_launch() {
    let kernel = Kernel::<Signature>::build("wrong", Target::SM_80, |_, (x, y, n)| {
        y.store(n, x.load(n));
    })
    .expect("the kernel is right");
    let (x, y) = (GlobalBuffer::from_slice(&[1i32]), GlobalBuffer::from_slice(&[0i32]));
    let run = |args: &[KernelArg<'_>]| {
        let grid = Grid::new([1, 1, 1], [1, 1, 1]);
        let error = run(kernel.ir(), grid, args, &Options::default()).expect_err("it is wrong");
        error.to_string()
    };
    let (x, y, n) =
        (KernelArg::Buffer(&x), KernelArg::Buffer(&y), KernelArg::Scalar(0i32.to_const()));
    check(&run(&[x, y]), expect!["the kernel has 3 parameters, but the launch passes 2 arguments"]);
    check(
        &run(&[x, y, KernelArg::Scalar(0i64.to_const())]),
        expect!["parameter `p2` is i32, but the argument is i64"],
    );
    check(&run(&[n, y, n]), expect!["parameter `p0` is ptr<global, i32>, but the argument is i32"]);
}

#[test]
fn m11_block_that_is_too_large() {
    check_options::<()>(
        KernelOptions::default().block([64, 32, 1]),
        |_, ()| {},
        expect![[r#"
        kernel `wrong` has 1 error:
          FILE:LINE: a block of 64 x 32 x 1 threads is too large: it can have at most 1024 in all, so use more blocks"#]],
    );
    check_options::<()>(
        KernelOptions::default().block([8, 8, 128]),
        |_, ()| {},
        expect![[r#"
        kernel `wrong` has 1 error:
          FILE:LINE: a block has at most 64 threads along z, not 128: use another axis, or more blocks"#]],
    );
}

#[test]
fn m12_too_much_shared_memory() {
    check_build::<(GlobalMut<f32>,)>(
        |k, (y,)| {
            let s = k.shared::<f32>(100_000);
            s.store(0, y.load(0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: the kernel takes 400000 bytes of shared memory, but a block of its target has 166912: use smaller tiles"#]],
    );
}

#[test]
fn m13_register_read_before_it_is_set() {
    check_build::<Signature>(
        |k, (_, y, n)| {
            let best = k.registers::<i32>(1);
            k.if_(n.gt(0), |_| best.set(0, n));
            y.store(0, best.get(0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: register 0 of var0, declared at FILE:LINE, is read on a path on which it was not set: set it where it is declared, or on every path"#]],
    );
}

#[test]
fn m14_shared_memory_read_before_it_is_written() {
    check_run(
        4,
        3,
        |k, (x, y, n)| {
            let (s, i) = (k.shared::<i32>(4), k.thread_idx().x);
            k.if_(i.lt(n), |_| s.store(i, x.load(i)));
            k.barrier();
            y.store(i, s.load(i));
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 3 (bytes 12 to 16) of shared memory `shared0`, made at FILE:LINE, of which byte 12 was never written, in thread (3, 0, 0) of block (0, 0, 0) of kernel `wrong`; store every element, and pass a barrier, before you load it; if an `if_` or a predicate guards the store, guard the load too, or store zeros to the other elements"
        ],
    );
}

#[test]
fn m15_barrier_that_is_missing() {
    // The last warp reads what the first one has not written yet.
    check_run(
        64,
        0,
        |k, (_, y, _)| {
            let (s, i) = (k.shared::<i32>(64), k.thread_idx().x);
            s.store(i, i);
            let other = s.load(-i + 63);
            k.if_(i.lt(4), |_| y.store(i, other));
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 63 (bytes 252 to 256) of shared memory `shared0`, made at FILE:LINE, of which byte 252 was never written, in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; store every element, and pass a barrier, before you load it; if an `if_` or a predicate guards the store, guard the load too, or store zeros to the other elements"
        ],
    );
}

#[test]
fn m16_division_by_zero() {
    check_build::<Signature>(
        |_, (_, y, n)| y.store(0, n / 0),
        expect![[r#"
        kernel `wrong` has 1 error:
          FILE:LINE: `div` divides by the constant 0 whenever the kernel runs: guard it, or leave it out"#]],
    );
    check_run(
        1,
        0,
        |_, (_, y, n)| y.store(0, 7 % n),
        expect![
            "`rem` at FILE:LINE divides 7 by zero in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the divisor with 0 first"
        ],
    );
}

#[test]
fn m17_what_the_target_does_not_have() {
    let options = KernelOptions::default().cluster([2, 1, 1]);
    check_options::<()>(
        options,
        |_, ()| {},
        expect![[r#"
        kernel `wrong` has 1 error:
          FILE:LINE: `cluster` needs sm_90, but the kernel is built for sm_80: build it for sm_90, or do without"#]],
    );
}

#[test]
fn m18_loop_that_does_not_end() {
    check_run(
        1,
        0,
        |k, (_, y, _)| {
            k.loop_(0, |k, lp, i| {
                y.store(0, i);
                k.if_(i.lt(0), |k| lp.break_(k, i));
                lp.continue_(k, i)
            });
        },
        expect![
            "block (0, 0, 0) has not ended after 10000 operations, when thread (0, 0, 0) is at the `if` at FILE:LINE: the kernel does not end, or `Options::fuel` is too low for it"
        ],
    );
}

#[test]
fn m19_yield_in_a_loop() {
    check_build::<Signature>(
        |k, (_, _, n)| {
            k.for_(range(0, n), (), |k, i, ()| {
                let _ = k.yield_(i);
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: `yield` ends an arm of an `if`, but stands in the body of a `for`: end that with `continue` or `break`"#]],
    );
}

#[test]
fn m20_unrolling_what_is_not_known() {
    check_build::<Signature>(
        |k, (_, y, n)| {
            k.for_(range(0, n).unroll_full(), (), |_, i, ()| y.store(i, i));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: a loop whose `hi` is not a constant cannot be unrolled fully: use `.unroll(n)`, which needs no constant"#]],
    );
}

#[test]
fn m21_store_in_a_loop_that_fetches_ahead() {
    check_build::<Signature>(
        |k, (x, y, n)| {
            let indices = range(0, n).prefetch_stages(2);
            k.for_(indices, (), |_, i, ()| y.store(i, x.load(i)));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: this loop cannot fetch ahead, because the `st` at FILE:LINE writes global memory that a later load may read: store after the loop, or leave `.prefetch_stages` out"#]],
    );
}

#[test]
fn m22_constant_index_outside_of_shared_memory() {
    check_build::<Signature>(
        |k, (x, _, _)| {
            let s = k.shared::<i32>(4);
            for i in 0..=4 {
                s.store(i, x.load(i));
            }
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: bytes 16 to 20 of shared0, made at FILE:LINE, are accessed whenever the kernel runs, but it has only 16 bytes: use a smaller index, or make the allocation larger"#]],
    );
}

#[test]
fn m23_operation_after_the_end_of_a_body() {
    check_build::<Signature>(
        |k, (_, y, n)| {
            k.if_(n.lt(0), |k| {
                let end = k.return_();
                y.store(0, 1);
                end
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: `st` cannot run: the body was ended at FILE:LINE"#]],
    );
}
