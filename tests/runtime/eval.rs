//! One expression on one thread, on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::device;

use device::devices;
use tilewright::ir::{Element, range};
use tilewright::runtime::{Device, RuntimeError};
use tilewright::testing::{EvalError, eval};

/// A value of each type comes back as it is.
#[test]
fn eval_returns_every_type() {
    fn check<T: Element>(device: &Device, value: T)
    where
        for<'b> tilewright::ir::Val<'b, T>: tilewright::ir::builder::IntoVal<'b, T>,
    {
        let found: T = eval::<T>(device, |k| k.constant(value)).unwrap();
        assert_eq!(found, value, "on {device}");
    }
    for device in devices() {
        check(&device, true);
        check(&device, -5i8);
        check(&device, 200u8);
        check(&device, -30_000i16);
        check(&device, 60_000u16);
        check(&device, i32::MIN);
        check(&device, u32::MAX);
        check(&device, i64::MIN + 1);
        check(&device, u64::MAX - 1);
        check(&device, -1.5e30f32);
        check(&device, f64::MIN_POSITIVE);
    }
}

#[test]
fn eval_returns_tuples_and_arrays() {
    for device in devices() {
        let (a, [b, c], (d,)): (u8, [(i64, bool); 2], (f32,)) = eval(&device, |k| {
            let x = k.constant(250u8);
            let wide = x.cvt::<i64>();
            (x + 10, [(wide, x.gt(3)), (-wide, x.lt(3))], (x.cvt::<f32>() * 0.5,))
        })
        .unwrap();
        assert_eq!((a, b, c, d), (4, (250, true), (-250, false), 125.0), "on {device}");
    }
}

#[test]
fn eval_runs_control_flow_and_shared_memory() {
    for device in devices() {
        let found: i32 = eval(&device, |k| {
            let s = k.shared::<i32>(10);
            k.for_(range(0, 10), (), |_, i, ()| s.store(i, i * i));
            k.for_(range(0, 10), 0, |_, i, sum| sum + s.load(i))
        })
        .unwrap();
        assert_eq!(found, 285);
    }
}

/// Mistakes of the expression, faults and failed assertions are told apart.
#[test]
fn eval_says_what_went_wrong() {
    for device in devices() {
        let failed = eval::<i32>(&device, |k| {
            let x = k.constant(3);
            k.assert_with(x.gt(4), "{} is small", x);
            x
        });
        let Err(EvalError::Runtime(RuntimeError::AssertFailed(failures))) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(failures.failures[0].message, "3 is small");
        let wrong = eval::<i32>(&device, |k| {
            k.printf("{}", ());
            k.constant(3)
        });
        let Err(error @ EvalError::Build(_)) = wrong else { panic!("{wrong:?}") };
        assert!(error.to_string().contains("1 placeholders, but there are 0 values"), "{error}");
    }
    let sim = Device::sim().unwrap();
    let fault = eval::<i32>(&sim, |k| k.constant(3) / k.thread_idx().x);
    assert!(matches!(fault, Err(EvalError::Runtime(RuntimeError::Simulation(_)))), "{fault:?}");
}
