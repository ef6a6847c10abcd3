//! PTX text as an operation, on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, text};

use device::devices;
use tilewright::ir::op::{InlinePtx, Op};
use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::runtime::{Device, Grid, RuntimeError};
use tilewright::sim::FaultCause;

/// Prints, parses and assembles what `build` makes for each target, and returns the one for the
/// device.
fn checked<P>(device: &Device, build: impl Fn(Target) -> Kernel<P>) -> Kernel<P> {
    let kernel = build(device.target());
    text::check_round_trip(kernel.ir());
    if let Some(ptxas) = ptxas::find() {
        for target in [Target::SM_80, Target::SM_90A] {
            let ptx = build(target).ptx();
            let result = ptxas.assemble(ptx.text(), &target.to_string(), &["-O1"]);
            result.unwrap_or_else(|problem| panic!("{problem}\n{ptx}"));
        }
    }
    kernel
}

/// Two results, operands of several types, registers and labels of its own, used twice.
#[test]
fn ptx_computes_and_has_a_scope_of_its_own() {
    let text = "\
        .reg .pred is_large;
        .reg .b64 sum;
        add.s64 sum, %2, %3;
        setp.gt.s64 is_large, sum, 10;
        @is_large bra large;
        mov.b64 %0, sum;
        bra done;
        large:
        mov.b64 %0, 10;
        done:
        selp.b32 %1, 1, 0, is_large;
        xor.b32 %1, %1, %4;";
    let build = |target| {
        Kernel::<(GlobalMut<i64>,)>::build("clamps", target, |k, (x,)| {
            let i = k.thread_idx().x;
            let v = x.load(i);
            let mut sum = v;
            for flip in [0, 1] {
                let ptx = InlinePtx::new(text).pure().simulated(|operands, results| {
                    let sum = (operands[0] as i64).wrapping_add(operands[1] as i64);
                    results[0] = sum.min(10) as u64;
                    results[1] = u64::from(sum > 10) ^ operands[2];
                });
                let (clamped, large) = k.ptx::<(i64, i32), _>(ptx, (v, i.cvt::<i64>(), flip));
                sum = sum + clamped * 100 + large.cvt::<i64>() * 10_000;
            }
            x.store(i, sum);
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let values = [1i64, 20, -3, 8, 6];
        let mut x = device.upload(&values).unwrap();
        device.load(&kernel).unwrap().launch(Grid::cover(5, 5), (&mut x,)).unwrap();
        let expected: Vec<i64> =
            (0..).zip(values).map(|(i, v)| v + (v + i).min(10) * 200 + 10_000).collect();
        assert_eq!(x.to_vec().unwrap(), expected, "on {device}");
    }
}

/// Narrow results are extended, whatever the text leaves above them; `bool` is a predicate.
#[test]
fn ptx_of_narrow_types_and_predicates() {
    let build = |target| {
        Kernel::<(GlobalMut<i32>, u8, bool, f32)>::build("narrow", target, |k, (x, a, b, f)| {
            let add = InlinePtx::new("add.u32 %0, %1, 250;")
                .simulated(|operands, results| results[0] = operands[0] + 250);
            let sum = k.ptx::<u8, _>(add, a);
            let neg = InlinePtx::new("sub.u32 %0, 0x1000, %1;")
                .simulated(|operands, results| results[0] = 0x1000 - operands[0]);
            let negative = k.ptx::<i8, _>(neg, a);
            let not = InlinePtx::new("not.pred %0, %1;")
                .simulated(|operands, results| results[0] = 1 - operands[0]);
            let not_b = k.ptx::<bool, _>(not, b);
            let half =
                InlinePtx::new("mul.rn.f32 %0, %1, 0f3F000000;").simulated(|operands, results| {
                    results[0] = (f32::from_bits(operands[0] as u32) * 0.5).to_bits().into();
                });
            let half = k.ptx::<f32, _>(half, f);
            let swap =
                InlinePtx::new("mov.b32 %0, %3; mov.b32 %1, %2;").simulated(|operands, results| {
                    (results[0], results[1]) = (operands[1], operands[0])
                });
            let (c, d) = k.ptx::<(i32, i32), _>(swap, (3, 4));
            let values = [sum.cvt(), negative.cvt(), not_b.cvt(), half.cvt(), c * 10 + d];
            for (i, value) in (0..).zip(values) {
                x.store(i, value);
            }
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let mut x = device.zeros(5).unwrap();
        let f = device.load(&kernel).unwrap();
        f.launch(Grid::cover(1, 1), (&mut x, 10, true, 7.0)).unwrap();
        assert_eq!(x.to_vec().unwrap(), [4, -10, 0, 3, 43], "on {device}");
    }
}

/// Memory, special registers and effects: on a GPU as the text says, on the simulator a fault with
/// the text and the line.
#[test]
fn ptx_without_a_simulation_is_a_fault_there() {
    let line = line!() + 5;
    let build = |target| {
        Kernel::<(Global<i32>, GlobalMut<i32>)>::build("loads", target, |k, (x, y)| {
            let load = "{ .reg .b32 lane;\n mov.u32 lane, %%laneid;\n ld.global.s32 %0, [%1+4];\n add.s32 %0, %0, lane; }";
            let i = k.thread_idx().x;
            let v = k.ptx::<i32, _>(InlinePtx::new(load), x.offset(i));
            k.ptx::<(), _>(InlinePtx::new("st.global.s32 [%0], %1;"), (y.offset(i), v));
        })
        .unwrap()
    };
    for device in devices() {
        let kernel = checked(&device, build);
        let x = device.upload(&[10, 20, 30, 40]).unwrap();
        let mut y = device.zeros::<i32>(3).unwrap();
        let launched = device.load(&kernel).unwrap().launch(Grid::cover(3, 3), (&x, &mut y));
        if !device.is_sim() {
            launched.unwrap();
            assert_eq!(y.to_vec().unwrap(), [20, 31, 42]);
            continue;
        }
        let Err(RuntimeError::Simulation(error)) = launched else { panic!("{launched:?}") };
        let fault = error.fault().unwrap();
        let FaultCause::NotSimulated { text } = &fault.cause else { panic!("{fault}") };
        assert!(
            text.contains("ld.global.s32 %0, [%1+4]") && fault.location.line == line,
            "{fault}"
        );
        let said = fault.to_string();
        assert!(said.contains("has no `InlinePtx::simulated`"), "{said}");
    }
}

/// Text that only computes is left out where nothing uses it; other text never is.
#[test]
fn ptx_is_kept_unless_it_is_pure() {
    let build = |ptx: InlinePtx| {
        let kernel = Kernel::<(i32,)>::build("k", Target::SM_80, |k, (n,)| {
            let _ = k.ptx::<i32, _>(ptx, n);
        });
        kernel.unwrap().ptx().text().contains("popc.b32")
    };
    assert!(build(InlinePtx::new("popc.b32 %0, %1;")));
    assert!(!build(InlinePtx::new("popc.b32 %0, %1;").pure()));
}

/// The header follows the text, and the text form has no simulation, which counts as absent.
#[test]
fn ptx_has_a_version_and_a_text_form() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_90A, |k, (x,)| {
        let ptx = InlinePtx::new("mov.u32 %0, %%clock;").for_version(8, 5).simulated(|_, _| ());
        let v = k.ptx::<i32, _>(ptx, ());
        x.store(0, v);
    })
    .unwrap();
    assert_eq!(kernel.ptx().version().to_string(), "8.5");
    let text = kernel.to_string();
    assert!(text.contains("ptx \"mov.u32 %0, %%clock;\" target sm_80 version 8.5 : i32"), "{text}");
    text::check_round_trip(kernel.ir());
    let parsed = tilewright::ir::parse("k.kir", &text).unwrap();
    let is_simulated = |ir: &tilewright::ir::KernelIr| {
        ir.ops
            .iter()
            .any(|(_, data)| matches!(&data.op, Op::Inline(op) if op.ptx.simulation().is_some()))
    };
    assert!(is_simulated(kernel.ir()) && !is_simulated(&parsed));
}
