//! Checks assertions and printed text of kernels on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::kernels::checked;
use crate::support::{device, ptxas};

use std::sync::{Mutex, MutexGuard, PoisonError};

use device::devices;
use std::process::Command;

use tilewright::ir::op::{Arith, Diagnostic, Op};
use tilewright::ir::{Element, Format, GlobalMut, Kernel, Target, range};
use tilewright::runtime::{AssertFailures, Device, Grid, RuntimeError};
use tilewright::sim;

/// Keeps other tests from waiting for the launches of this one: they would get its failures.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failures of the launches, which the simulator returns at once and a GPU when it is waited
/// for.
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
    let _alone = alone();
    let line = line!() + 5;
    let build = |target| {
        Kernel::<Out>::build("sevens", target, |k, (x,)| {
            let (b, t, dim) = (k.block_idx(), k.thread_idx(), k.block_dim());
            let i = (b.y * 2 + b.x) * 40 + t.y * dim.x + t.x;
            k.assert_with((i % 7).ne(3), "{} is 3 modulo 7 {{{:.1}}}", (i, i.cvt::<f32>()));
            x.store(i, i);
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
                let location = ([block % 2, block / 2, 0], [thread % 20, thread / 20, 0]);
                (format!("{i} is 3 modulo 7 {{{i}.0}}"), line, location)
            })
            .collect();
        assert_eq!((found.total, found.kernel.as_str()), (expected.len() as u64, "sevens"));
        let all: Vec<_> = found
            .failures
            .iter()
            .map(|f| (f.message.clone(), f.location.line, (f.block, f.thread)))
            .collect();
        assert_eq!(all, expected, "on {device}");
        let first = &found.failures[0];
        assert_eq!(first.values, [3.to_const(), 3.0f32.to_const()]);
        assert!(first.location.file.ends_with("diagnostics.rs") && first.element.is_none());
        let text = found.to_string();
        assert!(text.starts_with("kernel `sevens` failed 23 assertions on "), "{text}");
        assert!(text.contains(&format!("diagnostics.rs:{line}:")) && text.ends_with("and 18 more"));
        assert_eq!(x.to_vec().unwrap(), (0..160).collect::<Vec<i32>>());
    }
}

#[test]
fn assert_takes_values_of_every_type() {
    let _alone = alone();
    let build = |target| {
        Kernel::<Out>::build("types", target, |k, (x,)| {
            let v = x.load(0);
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
    let _alone = alone();
    let build = |target| {
        Kernel::<Out>::build("all_fail", target, |k, (x,)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            k.for_(range(0, 3), (), |k, j, ()| k.assert_with(i.lt(0), "{} {}", (i, j)));
            x.store(i, 1);
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
        let locations: Vec<_> = found.failures.iter().map(|f| (f.block[0], f.thread[0])).collect();
        assert!(locations.is_sorted());
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
    let _alone = alone();
    let build = |name: &'static str| {
        move |target| {
            Kernel::<(GlobalMut<i32>, i32)>::build(name, target, |k, (x, n)| {
                k.assert_with(n.lt(5), "{} is not below 5", n);
                x.store(0, n);
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
            // Two kernels fail before the device is waited for; one of them is dropped.
            f.launch(grid, (&mut x, 7)).unwrap();
            g.launch(grid, (&mut x, 8)).unwrap();
            g.launch(grid, (&mut x, 9)).unwrap();
            drop(f);
            let Err(RuntimeError::AssertFailed(first)) = x.to_vec() else { panic!("on {device}") };
            assert_eq!((first.kernel.as_str(), first.total), ("one", 1));
            let second = failures(&device, Ok(()));
            assert_eq!((second.kernel.as_str(), second.total), ("two", 2));
            assert_eq!(x.to_vec().unwrap(), [9]);
            // A call of another thread does not get the failures of this one, except that it waits
            // for all.
            g.launch(grid, (&mut x, 11)).unwrap();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| device.upload(&[1]).map(|_| ()));
                assert_eq!(other.join().unwrap(), Ok(()));
                let all = scope.spawn(|| device.synchronize());
                let failed = all.join().unwrap();
                assert!(matches!(failed, Err(RuntimeError::AssertFailed(_))), "{failed:?}");
            });
            // The failures of a thread that has ended are anybody's.
            std::thread::scope(|scope| {
                scope.spawn(|| g.launch(grid, (&mut x, 12)).unwrap()).join().unwrap();
            });
            assert!(matches!(x.to_vec(), Err(RuntimeError::AssertFailed(_))));
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
    let _alone = alone();
    let build = |target| {
        Kernel::<Out>::build("locations", target, |k, (x,)| {
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
            x.store(i, 1);
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
                x.store(i, n);
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

/// Every type in every style that it can be written in, as values that are known and not known when
/// the kernel is built, with the lines that C prints. The argument is -5.
fn prints(target: Target) -> Kernel<(i32,)> {
    Kernel::<(i32,)>::build("prints", target, |k, (v,)| {
        let (x, y) = (v.cvt::<f32>(), v.cvt::<f64>());
        k.printf("|a {} {:3} {:<3}. {:03} {:+}\n", (v, v, v, v, v));
        k.printf("|b {} {} {} {}\n", (v.cvt::<i8>(), v.cvt::<i16>(), v.cvt::<i64>(), 7i8));
        k.printf("|c {} {} {}\n", (v.cvt::<u8>(), v.cvt::<u16>(), v.cvt::<u32>()));
        k.printf("|d {} {:x} {:#X}\n", (v.cvt::<u64>(), v.cvt::<i8>(), v.cvt::<i64>()));
        k.printf("|e {:x} {:#06x} {:o} {:#o}\n", (-1i8, 255, v.cvt::<i16>(), 8u8));
        k.printf("|f {} {:.2} {:8.1} {:<8.1}. {:e} {:.1E}\n", (x, x, x, x, x, x));
        k.printf("|g {} {:.2} {:08.1} {:+} {:e}\n", [y; 5]);
        k.printf("|h {} {} {}\n", (0.1f32, 1e30f64, x / 0.0));
        k.printf("|i {} {:6}. {:>6} {}\n", (v.lt(0), v.gt(0), true, false));
        k.printf("|j 100% {{}} \"\\\" é {}%\n", (v,));
        k.printf("|k no values\n", ());
        k.printf("|l {} {} {} {}\n", (1, v.cvt::<i64>(), true, 2.5));
        k.printf("|m {}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}\n", [v; 32]);
    })
    .unwrap()
}

fn printed() -> Vec<String> {
    let mut lines = vec![
        "|a -5  -5 -5 . -05 -5".to_owned(),
        "|b -5 -5 -5 7".to_owned(),
        "|c 251 65531 4294967291".to_owned(),
        "|d 18446744073709551611 fb 0xFFFFFFFFFFFFFFFB".to_owned(),
        "|e ff 0x00ff 177773 0o10".to_owned(),
        "|f -5 -5.00     -5.0 -5.0    . -5.000000e+00 -5.0E+00".to_owned(),
        "|g -5 -5.00 -00005.0 -5 -5.000000e+00".to_owned(),
        "|h 0.1 1e+30 -inf".to_owned(),
        "|i true false .   true false".to_owned(),
        "|j 100% {} \"\\\" é -5%".to_owned(),
        "|k no values".to_owned(),
        "|l 1 -5 true 2.5".to_owned(),
    ];
    lines.push(format!("|m {}", "-5".repeat(32)));
    lines
}

/// Lines that a GPU printed, on the standard output of a second process.
fn printed_by_gpu() -> Option<Vec<String>> {
    device::gpu()?;
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this)
        .args(["--exact", "diagnostics::printf_child", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect())
}

#[test]
#[ignore = "run by the test that reads what it prints"]
fn printf_child() {
    let device = device::gpu().expect("the parent has seen it");
    device.load(&prints(device.target())).unwrap().launch(Grid::cover(1, 1), (-5,)).unwrap();
    device.synchronize().unwrap();
}

#[test]
fn printf_writes_every_type_and_style() {
    let output = sim::Output::captured();
    let device = Device::sim_with(sim::Options::default().output(output.clone()));
    let kernel = checked(&device, prints);
    device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (-5,)).unwrap();
    let text = output.take();
    assert_eq!(text.lines().collect::<Vec<_>>(), printed());
    if let Some(lines) = printed_by_gpu() {
        assert_eq!(lines, printed());
    }
}

/// The order of the output depends neither on the host nor on the order of the warps.
#[test]
fn printf_in_the_order_of_blocks_and_threads() {
    let build = |target| {
        Kernel::<(i32,)>::build("order", target, |k, (n,)| {
            let (b, t) = (k.block_idx(), k.thread_idx());
            let block = b.y * 3 + b.x;
            let thread = t.y * 40 + t.x;
            k.if_((thread & 1).eq(0), |k| k.printf("{} {} even\n", (block, thread)));
            k.for_(range(0, n), (), |k, i, ()| k.printf("{} {} {}\n", (block, thread, i)));
        })
        .unwrap()
    };
    let mut expected = String::new();
    for (block, thread) in (0..6).flat_map(|block| (0..80).map(move |thread| (block, thread))) {
        if thread % 2 == 0 {
            expected += &format!("{block} {thread} even\n");
        }
        for i in 0..2 {
            expected += &format!("{block} {thread} {i}\n");
        }
    }
    for order in [sim::Order::RoundRobin, sim::Order::Random { seed: 7 }] {
        for threads in [0, 1] {
            let output = sim::Output::captured();
            let options = sim::Options::default().order(order).threads(threads);
            let device = Device::sim_with(options.output(output.clone()));
            let f = device.load(&build(device.target())).unwrap();
            f.launch(Grid::new([3, 2, 1], [40, 2, 1]), (2,)).unwrap();
            assert_eq!(output.take(), expected, "{order:?} {threads}");
            assert_eq!(output.take(), "");
        }
    }
}

/// Text printed before a fault is seen, and nothing of blocks that depend on the host's timing.
#[test]
fn printf_before_a_fault() {
    let output = sim::Output::captured();
    let device = Device::sim_with(sim::Options::default().output(output.clone()));
    let build = |target| {
        Kernel::<Out>::build("faulty", target, |k, (x,)| {
            let b = k.block_idx().x;
            k.printf("block {}\n", b);
            k.assert(b.lt(9), "small");
            x.store(b, 1);
        })
        .unwrap()
    };
    let kernel = checked(&device, build);
    let mut x = device.zeros::<i32>(3).unwrap();
    let launched =
        device.load(&kernel).unwrap().launch(Grid::new([50, 1, 1], [1, 1, 1]), (&mut x,));
    assert!(matches!(launched, Err(RuntimeError::Simulation(_))), "{launched:?}");
    assert_eq!(output.take(), "block 0\nblock 1\nblock 2\nblock 3\n");
}

/// A text goes to any writer, and several kernels of a module print.
#[test]
fn printf_to_a_writer_and_in_a_module() {
    struct Sender(std::sync::mpsc::Sender<Vec<u8>>);
    impl std::io::Write for Sender {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let output = sim::Output::to(Sender(sender));
    let device = Device::sim_with(sim::Options::default().output(output));
    let build = |name| {
        Kernel::<(bool,)>::build(name, Target::SM_80, |k, (b,)| k.printf("{} {}", (b, !b))).unwrap()
    };
    let (first, second) = (build("first"), build("second"));
    for kernel in [&first, &second] {
        device.load(kernel).unwrap().launch(Grid::cover(1, 1), (true,)).unwrap();
    }
    drop(device);
    let bytes: Vec<u8> = receiver.try_iter().flatten().collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), "true falsetrue false");

    let mut module = tilewright::codegen::Module::new(Target::SM_80);
    module.add(&first).unwrap();
    module.add(&second).unwrap();
    let ptx = module.ptx();
    assert_eq!(ptx.text().matches(".extern .func").count(), 1);
    if let Some(ptxas) = ptxas::find() {
        ptxas.assemble(ptx.text(), "sm_80", &["-O1"]).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// C's conversions are errors that name the placeholder; other percent signs are text.
#[test]
fn conversions_of_c_are_errors_that_name_the_placeholder() {
    for (text, conversion, position) in [
        ("value %d\n", "%d", 7),
        ("{} of %5.2f", "%5.2f", 7),
        ("%-8s{}", "%-8s", 1),
        ("%llu", "%llu", 1),
        ("%%%x", "%x", 3),
    ] {
        let error = Format::parse(text).unwrap_err();
        let wanted = format!(
            "`{conversion}` at character {position} is a conversion of C's `printf`: write `{{}}` for the value, or \
             `%{conversion}` for the text itself"
        );
        assert_eq!(error.to_string(), wanted, "{text}");
    }
    for (text, printed) in [
        ("100%", "100%"),
        ("5 % of 3", "5 % of 3"),
        ("50%, 3% discount 20%off", "50%, 3% discount 20%off"),
        ("%%d and %%", "%d and %"),
    ] {
        assert_eq!(Format::parse(text).unwrap().to_text(&[]), printed);
    }
}
