//! Mistakes that rustc cannot see, found while a kernel is built: each is named with its Rust line.

use crate::support::places;

use expect_test::{Expect, expect};
use tilewright::ir::{
    Body, BuildErrors, Global, GlobalMut, Group, Kernel, KernelOptions, Params, Target, Val, range,
};

/// Builds a kernel that must be refused and compares the text of the refusal.
#[track_caller]
fn check<P: Params>(body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>), expected: Expect) {
    let errors = Kernel::<P>::build("wrong", Target::SM_80, body).expect_err("it is wrong");
    check_text(&errors, expected);
}

#[track_caller]
fn check_text(errors: &BuildErrors, expected: Expect) {
    expected.assert_eq(&places::without_places(&errors.to_string(), file!()));
}

/// A launch can compute a length from its arguments only.
#[test]
fn required_length_of_what_a_launch_does_not_know() {
    check::<(Global<i32>, GlobalMut<f32>)>(
        |k, (lengths, y)| {
            y.require_len(lengths.load(0));
            y.offset(4).require_len(8);
            y.require_len(k.thread_idx().x + 1);
        },
        expect![[r#"
            kernel `wrong` has 3 errors:
              FILE:LINE: a launch cannot check this length: `require_len` needs a pointer that is itself a parameter, and a length computed from integer parameters and constants
              FILE:LINE: a launch cannot check this length: `require_len` needs a pointer that is itself a parameter, and a length computed from integer parameters and constants
              FILE:LINE: a launch cannot check this length: `require_len` needs a pointer that is itself a parameter, and a length computed from integer parameters and constants"#]],
    );
}

/// A value that an inner body computes from outer values has the outer lifetime: rustc lets it out.
#[test]
fn value_computed_in_an_inner_body_and_kept() {
    check::<(GlobalMut<f32>,)>(
        |k, (y,)| {
            let x = y.load(0);
            let mut kept = x;
            k.if_(x.lt(1.0), |_| kept = x + x);
            y.store(0, kept);
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: a value made at FILE:LINE is used outside the body that made it: return it from that body, or keep it in a variable (`k.var`)"#]],
    );
}

#[test]
fn value_of_another_build() {
    Kernel::<(f32,)>::build("outer", Target::SM_80, |_, (x,)| {
        check::<(GlobalMut<f32>,)>(
            |_, (y,)| y.store(0, x),
            expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: this value belongs to another kernel: use only values of the kernel that is being built"#]],
        );
    })
    .expect("the outer kernel is not at fault");
}

/// Operators take no `Body`, so they could add to a kernel whose closure waits for another build.
#[test]
fn operation_of_an_outer_kernel() {
    check::<(GlobalMut<f32>, f32)>(
        |_, (y, x)| {
            let inner = Kernel::<(GlobalMut<f32>,)>::build("inner", Target::SM_80, |_, (z,)| {
                let _ = x + x;
                z.store(0, 1.0);
            });
            assert!(inner.is_ok());
            y.store(0, x + 1.0);
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: `add` belongs to an outer kernel, but the closure of another kernel runs: add it before or after that kernel is built"#]],
    );
}

/// A closure that panics ends its build, so the outer kernel can go on.
#[test]
fn outer_kernel_after_a_panic() {
    let kernel = Kernel::<(GlobalMut<f32>,)>::build("outer", Target::SM_80, |_, (y,)| {
        let nothing: Vec<()> = Vec::new();
        let inner = std::panic::catch_unwind(|| {
            Kernel::<()>::build("inner", Target::SM_80, |_, ()| nothing[0])
        });
        assert!(inner.is_err());
        y.store(0, 1.0);
    });
    assert!(kernel.is_ok());
}

#[test]
fn operation_after_the_end_of_a_body() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (y, n)| {
            k.for_loop(range(0, n), (), |k, lp, i, ()| {
                let end = lp.continue_(k, ());
                y.store(i, 1.0);
                end
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: `st` cannot run: the body was ended at FILE:LINE"#]],
    );
}

#[test]
fn end_of_another_body() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (_, n)| {
            k.loop_(n, |k, lp, i| {
                let mut end = None;
                k.if_(i.lt(3), |k| end = Some(lp.break_(k, i)));
                end.expect("the body ran")
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: this body of `loop` returns a `Terminated` from another body: end it with a jump of its own"#]],
    );
}

#[test]
fn chain_of_cases_without_its_last_arm() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (y, n)| {
            let _ = k.cases().when(n.lt(1), |_| ()).when(n.lt(2), |_| y.store(0, 1.0));
            y.store(1, 1.0);
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: this chain of `cases` has no last arm: end it with `otherwise`"#]],
    );
}

/// All paths give a `Vec` the same length. If one does not, the error has both lengths.
#[test]
fn vectors_of_other_lengths() {
    fn longer<'b>(mut values: Vec<Val<'b, i32>>, last: Val<'b, i32>) -> Vec<Val<'b, i32>> {
        values.push(last);
        values
    }
    check::<(GlobalMut<i32>, i32)>(
        |k, (y, n)| {
            let carried = k.for_(range(0, n), (vec![n; 3], 0), |_, i, (values, _)| {
                assert_eq!(values.len(), 3);
                (longer(values, i), i)
            });
            assert_eq!(carried.0.len(), 3);
            let ended = k.for_loop(range(0, n), vec![n; 2], |k, l, i, values| {
                k.if_(i.gt(4), |k| l.break_(k, vec![n; 1]));
                l.continue_(k, longer(values, i))
            });
            assert_eq!(ended.len(), 1);
            let chosen = k.if_else(n.gt(1), |k| k.yield_(vec![n; 5]), |k| k.yield_(vec![n; 6]));
            assert_eq!(chosen.len(), 5);
            let kept = k.if_with(n.gt(1), vec![n; 7], |_| vec![n; 8]);
            let first = k.cases().when(n.gt(1), |k| k.yield_(vec![n; 9]));
            let cases = first.otherwise(|k| k.yield_(vec![n; 10]));
            let nested =
                k.while_(vec![vec![n; 2]; 2], |_, _| n.gt(0), |_, _| vec![vec![n; 2], vec![n; 11]]);
            let sums = k.reduce(Group::Warp, vec![n; 12], |_, a, _| a[1..].to_vec());
            let scanned = k.scan_exclusive(Group::Warp, vec![n; 13], vec![n; 14], |_, a, _| a);
            let lists = [kept, cases, sums, scanned];
            lists.into_iter().chain(nested).flatten().for_each(|value| y.store(0, value));
        },
        expect![[r#"
            kernel `wrong` has 9 errors:
              FILE:LINE: the loop carries a `Vec` of length 3, but the next iteration gets a `Vec` of length 4: a `Vec` has the same length on all paths
              FILE:LINE: one path gives a `Vec` of length 1, but another gives a `Vec` of length 2: a `Vec` has the same length on all paths
              FILE:LINE: the loop carries a `Vec` of length 2, but the next iteration gets a `Vec` of length 3: a `Vec` has the same length on all paths
              FILE:LINE: one path gives a `Vec` of length 5, but another gives a `Vec` of length 6: a `Vec` has the same length on all paths
              FILE:LINE: one path gives a `Vec` of length 8, but another gives a `Vec` of length 7: a `Vec` has the same length on all paths
              FILE:LINE: one path gives a `Vec` of length 9, but another gives a `Vec` of length 10: a `Vec` has the same length on all paths
              FILE:LINE: the loop carries a `Vec` of length 2, but the next iteration gets a `Vec` of length 11: a `Vec` has the same length on all paths
              FILE:LINE: a reduction or scan of a `Vec` of length 12 gets one of length 11: its combining body and its first value must keep the length
              FILE:LINE: a reduction or scan of a `Vec` of length 14 gets one of length 13: its combining body and its first value must keep the length"#]],
    );
}

#[test]
fn register_that_does_not_exist() {
    check::<(GlobalMut<f32>,)>(
        |k, (y,)| {
            let acc = k.registers::<f32>(4);
            acc.fill(0.0);
            y.store(0, acc.get(4));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: register 4 of a variable with 4 registers does not exist"#]],
    );
}

#[test]
fn register_read_before_it_is_set() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (y, n)| {
            let acc = k.registers::<f32>(2);
            k.for_(range(0, n), (), |_, _, ()| acc.set(0, 1.0));
            y.store(0, acc.get(0));
            k.if_else(n.lt(3), |_| acc.fill(1.0), |_| acc.set(1, 2.0));
            y.store(1, acc.get(1));
            y.store(2, acc.get(0));
        },
        expect![[r#"
            kernel `wrong` has 2 errors:
              FILE:LINE: register 0 of var0, declared at FILE:LINE, is read on a path on which it was not set: set it where it is declared, or on every path
              FILE:LINE: register 0 of var0, declared at FILE:LINE, is read on a path on which it was not set: set it where it is declared, or on every path"#]],
    );
}

/// A line that reads many registers is one error, not one for each.
#[test]
fn registers_of_one_line_read_before_they_are_set() {
    check::<(GlobalMut<f32>,)>(
        |k, (y,)| {
            let acc = k.registers::<f32>(4);
            for i in 0..4 {
                y.store(i, acc.get(i as u32));
            }
            y.store(4, acc.get(3));
        },
        expect![[r#"
            kernel `wrong` has 2 errors:
              FILE:LINE: register 0 of var0, declared at FILE:LINE, is read on a path on which it was not set: set it where it is declared, or on every path
              FILE:LINE: register 3 of var0, declared at FILE:LINE, is read on a path on which it was not set: set it where it is declared, or on every path"#]],
    );
}

#[test]
fn step_that_is_not_positive() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (y, n)| {
            k.for_(range(0, n).step(-1), (), |_, i, ()| y.store(i, 0.0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: the step of a `for` is -1, but must be positive: to count down, count up and subtract the index"#]],
    );
}

#[test]
fn yield_outside_an_if() {
    check::<(GlobalMut<f32>, i32)>(
        |k, (_, n)| {
            k.for_(range(0, n), (), |k, _, ()| {
                let _ = k.yield_(1.0);
            });
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: `yield` ends an arm of an `if`, but stands in the body of a `for`: end that with `continue` or `break`"#]],
    );
}

#[test]
fn too_much_shared_memory() {
    check::<(GlobalMut<f32>,)>(
        |k, (y,)| {
            let s = k.shared::<f32>(42_000);
            y.store(0, s.load(0));
        },
        expect![[r#"
            kernel `wrong` has 1 error:
              FILE:LINE: the kernel takes 168000 bytes of shared memory, but a block of its target has 166912: use smaller tiles"#]],
    );
}

#[test]
fn names_and_block_sizes() {
    let errors = Kernel::<()>::build("a b; .visible", Target::SM_80, |_, ()| {}).unwrap_err();
    check_text(
        &errors,
        expect![[r#"
        kernel `a b; .visible` has 1 error:
          FILE:LINE: `a b; .visible` is not a PTX identifier: use letters, digits and `_`, starting with a letter"#]],
    );
    let options = KernelOptions::default().block([1024, 2, 1]);
    let errors = Kernel::<()>::build_with(options, "big", Target::SM_80, |_, ()| {}).unwrap_err();
    check_text(
        &errors,
        expect![[r#"
            kernel `big` has 1 error:
              FILE:LINE: a block of 1024 x 2 x 1 threads is too large: it can have at most 1024 in all, so use more blocks"#]],
    );
}

#[test]
fn error_of_the_body() {
    let errors = Kernel::<()>::build("fails", Target::SM_80, |_, ()| {
        let width: i32 = "seven".parse()?;
        let _ = width;
        Ok::<(), std::num::ParseIntError>(())
    })
    .unwrap_err();
    check_text(
        &errors,
        expect![[r#"
        kernel `fails` has 1 error:
          FILE:LINE: invalid digit found in string"#]],
    );
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_their_lines() {
    let errors = Kernel::<(Global<f32>, i32)>::build("wrong", Target::SM_80, |k, (x, n)| {
        let mut kept: Option<Val<'_, i32>> = None;
        let regs = k.registers::<f32>(1);
        k.if_(n.lt(0), |_| kept = Some(n * 2));
        regs.set(3, 1.0);
        x.load(kept.expect("the body ran"));
    })
    .unwrap_err();
    let lines: Vec<u32> = errors.iter().map(|error| error.location.line).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0] < lines[1]);
}
