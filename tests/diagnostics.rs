//! What kernels say to the host, on every device: assertions.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.
#![cfg(feature = "sim")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends with the message"
)]

#[path = "support/device.rs"]
mod device;
#[path = "support/ptxas.rs"]
mod ptxas;
#[path = "support/text.rs"]
mod text;

use device::devices;
use tilewright::ir::{Arith, Diagnostic, Element, GlobalMut, Kernel, Op, Target, range};
use tilewright::runtime::{AssertFailures, Device, Grid, RuntimeError};

/// Builds for the device; the kernel is also printed and parsed, and assembled.
fn checked<P>(device: &Device, build: impl Fn(Target) -> Kernel<P>) -> Kernel<P> {
    let kernel = build(device.target());
    text::check_round_trip(kernel.ir());
    if let Some(ptxas) = ptxas::find() {
        for target in [Target::SM_80, Target::SM_90A] {
            let ptx = build(target).ptx();
            let result = ptxas.assemble(ptx.text(), &target.to_string(), &["-O1"]);
            result.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
    kernel
}

/// The failures of the launches, which the simulator returns at once and a GPU when it is waited for.
fn failures(device: &Device, launched: Result<(), RuntimeError>) -> AssertFailures {
    match launched.and_then(|()| device.synchronize()) {
        Err(RuntimeError::AssertFailed(failures)) => *failures,
        other => panic!("{other:?} on {device}"),
    }
}

type Out = (GlobalMut<i32>,);

/// Message, values, Rust line, block and thread arrive, sorted, and the kernel goes on.
#[test]
fn assert_reports_message_values_line_block_and_thread() {
    let line = line!() + 5;
    let build = |target| {
        Kernel::<Out>::build("sevens", target, |k, (x,)| {
            let (b, t, dim) = (k.block_idx(), k.thread_idx(), k.block_dim());
            let i = (b.y * 2 + b.x) * 40 + t.y * dim.x + t.x;
            k.assert_with((i % 7).ne(3), "{} is 3 modulo 7 {{{:.1}}}", (i, i.cvt::<f32>()));
            x.store(k, i, i);
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let mut x = device.zeros::<i32>(160).unwrap();
        let f = device.load(&kernel).unwrap();
        let found = failures(&device, f.launch(Grid::new([2, 2, 1], [20, 2, 1]), (&mut x,)));
        let expected: Vec<_> = (0..160)
            .filter(|i| i % 7 == 3)
            .map(|i| {
                let (block, thread) = (i / 40, i % 40);
                let place = ([block % 2, block / 2, 0], [thread % 20, thread / 20, 0]);
                (format!("{i} is 3 modulo 7 {{{i}.0}}"), line, place)
            })
            .collect();
        assert_eq!((found.total, found.kernel.as_str()), (expected.len() as u64, "sevens"));
        let all: Vec<_> = found
            .failures
            .iter()
            .map(|f| (f.message.clone(), f.place.line, (f.block, f.thread)))
            .collect();
        assert_eq!(all, expected, "on {device}");
        let first = &found.failures[0];
        assert_eq!(first.values, [3.to_const(), 3.0f32.to_const()]);
        assert!(first.place.file.ends_with("diagnostics.rs") && first.element.is_none());
        let text = found.to_string();
        assert!(text.starts_with("kernel `sevens` failed 23 assertions on "), "{text}");
        assert!(text.contains(&format!("diagnostics.rs:{line}:")) && text.ends_with("and 18 more"));
        assert_eq!(x.to_vec().unwrap(), (0..160).collect::<Vec<i32>>());
    }
}

#[test]
fn assert_takes_values_of_every_type() {
    let build = |target| {
        Kernel::<Out>::build("types", target, |k, (x,)| {
            let v = x.load(k, 0);
            let never = v.eq(12);
            k.assert_with(never, "{} {} {} {}", (v.cvt::<i8>(), v.cvt::<u8>(), v.eq(-5), true));
            k.assert_with(never, "{:x} {} {}", (v.cvt::<i16>(), v.cvt::<u16>(), v));
            k.assert_with(never, "{} {} {:#x}", (v.cvt::<u32>(), v.cvt::<i64>(), v.cvt::<u64>()));
            k.assert_with(never, "{} {:e}", (v.cvt::<f32>(), v.cvt::<f64>()));
            k.assert_with(never, "{} {} {}", [-1.5f32, f32::INFINITY, f32::MIN_POSITIVE]);
            k.assert_with(never, "{} {} {}", (i64::MIN, u64::MAX, i8::MIN));
            k.assert(never, "no values");
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let mut x = device.upload(&[-5i32]).unwrap();
        let f = device.load(&kernel).unwrap();
        let found = failures(&device, f.launch(Grid::cover(1, 1), (&mut x,)));
        let messages: Vec<&str> = found.failures.iter().map(|f| f.message.as_str()).collect();
        let expected = [
            "-5 251 true true",
            "fffb 65531 -5",
            "4294967291 -5 0xfffffffffffffffb",
            "-5 -5.000000e+00",
            "-1.5 inf 1.17549e-38",
            "-9223372036854775808 18446744073709551615 -128",
            "no values",
        ];
        assert_eq!(messages, expected, "on {device}");
    }
}

/// A fixed number of failures is kept, and all are counted.
#[test]
fn assert_keeps_the_first_failures_and_counts_the_rest() {
    let build = |target| {
        Kernel::<Out>::build("all_fail", target, |k, (x,)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            k.for_(range(0, 3), (), |k, j, ()| k.assert_with(i.lt(0), "{} {}", (i, j)));
            x.store(k, i, 1);
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let mut x = device.zeros::<i32>(64 * 128).unwrap();
        let f = device.load(&kernel).unwrap();
        let found = failures(&device, f.launch(Grid::new([64, 1, 1], [128, 1, 1]), (&mut x,)));
        assert_eq!(found.total, 3 * 64 * 128);
        assert_eq!(found.failures.len(), AssertFailures::RECORDED);
        let places: Vec<_> = found.failures.iter().map(|f| (f.block[0], f.thread[0])).collect();
        assert!(places.is_sorted());
        if device.is_sim() {
            let messages = found.failures.iter().map(|f| f.message.clone());
            let expected = (0..AssertFailures::RECORDED).map(|n| format!("{} {}", n / 3, n % 3));
            assert!(messages.eq(expected));
        }
        assert_eq!(x.to_vec().unwrap(), [1; 64 * 128]);
    }
}

/// Each failure is returned once, by the first call that waits; the device works on.
#[test]
fn assert_failures_are_returned_once() {
    let build = |name: &'static str| {
        move |target| {
            Kernel::<(GlobalMut<i32>, i32)>::build(name, target, |k, (x, n)| {
                k.assert_with(n.lt(5), "{} is not below 5", n);
                x.store(k, 0, n);
            })
            .unwrap()
        }
    };
    for device in devices() {
        let f = device.load(&checked(&device, build("one"))).unwrap();
        let g = device.load(&checked(&device, build("two"))).unwrap();
        let mut x = device.zeros::<i32>(1).unwrap();
        let grid = Grid::cover(1, 1);
        f.launch(grid, (&mut x, 4)).unwrap();
        device.synchronize().unwrap();
        assert_eq!(failures(&device, f.launch(grid, (&mut x, 5))).total, 1);
        device.synchronize().unwrap();
        assert_eq!(x.to_vec().unwrap(), [5]);
        assert_eq!(
            failures(&device, f.launch(grid, (&mut x, 6))).failures[0].message,
            "6 is not below 5"
        );
        if !device.is_sim() {
            // Two kernels, of which one is dropped, fail before the device is waited for.
            f.launch(grid, (&mut x, 7)).unwrap();
            g.launch(grid, (&mut x, 8)).unwrap();
            g.launch(grid, (&mut x, 9)).unwrap();
            drop(f);
            let Err(RuntimeError::AssertFailed(first)) = x.to_vec() else { panic!("on {device}") };
            assert_eq!((first.kernel.as_str(), first.total), ("one", 1));
            let second = failures(&device, Ok(()));
            assert_eq!((second.kernel.as_str(), second.total), ("two", 2));
            assert_eq!(x.to_vec().unwrap(), [9]);
            let timed = g.time(grid, (&mut x, 10));
            assert!(matches!(timed, Err(RuntimeError::AssertFailed(_))), "{timed:?}");
        }
        g.launch(grid, (&mut x, 1)).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1]);
    }
}

/// Assertions in branches and loops, with negated and with known conditions.
#[test]
fn assert_is_checked_where_it_stands() {
    let build = |target| {
        Kernel::<Out>::build("places", target, |k, (x,)| {
            let i = k.thread_idx().x;
            let is_small = i.lt(3);
            k.if_else(
                is_small,
                |k| k.assert_with(!is_small, "then {}", i),
                |k| k.assert(!is_small, "never"),
            );
            k.for_loop(range(0, i), (), |k, lp, j, ()| {
                k.assert_with(j.ne(30), "loop {} {}", (i, j));
                k.if_(j.gt(31), |k| lp.break_(k, ()));
                lp.continue_(k, ())
            });
            k.assert(true, "never");
            k.if_(i.eq(39), |k| {
                k.assert(false, "always");
                k.return_()
            });
            x.store(k, i, 1);
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let mut x = device.zeros::<i32>(40).unwrap();
        let f = device.load(&kernel).unwrap();
        let found = failures(&device, f.launch(Grid::cover(1, 40), (&mut x,)));
        let mut messages: Vec<String> = (0..3).map(|i| format!("then {i}")).collect();
        messages.extend((31..40).map(|i| format!("loop {i} 30")));
        messages.push("always".to_owned());
        let all: Vec<String> = found.failures.iter().map(|f| f.message.clone()).collect();
        assert_eq!(all, messages, "on {device}");
        let expected: Vec<i32> = (0..40).map(|i| (i != 39).into()).collect();
        assert_eq!(x.to_vec().unwrap(), expected);
    }
}

#[test]
fn assert_can_be_removed_without_a_trace() {
    let build = |with: bool| {
        Kernel::<(GlobalMut<i32>, i32)>::build("k", Target::SM_80, |k, (x, n)| {
            let i = k.thread_idx().x;
            if with {
                let rest = n - i * 3;
                k.assert_with(rest.gt(0) & i.lt(n), "{}", rest);
            }
            k.if_(i.lt(n), |k| {
                if with {
                    k.assert(n.ne(0), "not zero");
                }
                x.store(k, i, n);
            });
        })
        .unwrap()
    };
    let (with, bare) = (build(true), build(false));
    assert!(with.ir().has_asserts() && !bare.ir().has_asserts());
    assert!(with.ptx().text().contains("$asserts"));
    assert!(!bare.ptx().text().contains("$asserts"));
    let removed = with.without_asserts();
    assert!(*removed.ir() == *bare.ir(), "{removed}\n{bare}");
    Kernel::verify(removed.ir().clone()).unwrap();
    let lines = |kernel: &Kernel<_>| {
        let text = kernel.ptx().into_text();
        text.lines().filter(|line| !line.trim().starts_with("//")).count()
    };
    assert_eq!(lines(&removed), lines(&bare));
    // What others use stays.
    let used = |op: &Op| matches!(op, Op::Arith(Arith::Setp { .. }));
    assert!(removed.ir().reached_ops().iter().any(|op| used(&removed.ir().ops[*op].op)));
    let is_assert = |op: &Op| matches!(op, Op::Diagnostic(Diagnostic::Assert { .. }));
    assert!(!removed.ir().reached_ops().iter().any(|op| is_assert(&removed.ir().ops[*op].op)));
}
