//! Launches as a user writes them, on every device: the same tests, the same results.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![cfg(feature = "sim")]

#[path = "support/device.rs"]
mod device;

use device::devices;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, Untyped};
use tilewright::runtime::{Device, Function, Grid, RuntimeError};

type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

fn axpy(target: Target) -> Kernel<Axpy> {
    Kernel::<Axpy>::build("axpy", target, |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
    })
    .unwrap()
}

/// `y' = a x + y`, for lengths that do and do not fill the last block.
#[test]
fn axpy_computes() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        for n in [1, 31, 256, 257, 10_000] {
            let xs: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let ys: Vec<f32> = (0..n).map(|i| 0.5 * i as f32 + 1.0).collect();
            let x = device.upload(&xs).unwrap();
            let mut y = device.upload(&ys).unwrap();
            f.launch(Grid::cover(n, 256), (2.0, &x, &mut y, n as i32)).unwrap();
            f.launch(Grid::cover(n, 64), (-1.0, &x, &mut y, n as i32)).unwrap();
            device.synchronize().unwrap();
            let expected: Vec<f32> = xs.iter().zip(&ys).map(|(x, y)| x + y).collect();
            assert_eq!(y.to_vec().unwrap(), expected, "{n} on {device}");
            assert_eq!(x.to_vec().unwrap(), xs);
        }
    }
}

/// Every scalar type goes to a kernel and comes back.
#[test]
fn arguments_of_every_type_arrive() {
    fn check<T>(device: &Device, value: T)
    where
        T: tilewright::ir::Element + for<'h> tilewright::runtime::Argument<Arg<'h> = T>,
        for<'b> tilewright::ir::Val<'b, T>: tilewright::ir::IntoVal<'b, T>,
    {
        let kernel = Kernel::<(GlobalMut<T>, T, i32)>::build(
            "pass",
            device.target(),
            |k, (to, value, at)| to.store(k, at, value),
        )
        .unwrap();
        let mut to = device.zeros::<T>(3).unwrap();
        let f = device.load(&kernel).unwrap();
        f.launch(Grid::cover(1, 1), (&mut to, value, 1)).unwrap();
        assert_eq!(to.to_vec().unwrap(), [T::default(), value, T::default()], "on {device}");
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
fn a_launch_is_timed() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        let x = device.upload(&[1.0; 1000]).unwrap();
        let mut y = device.zeros(1000).unwrap();
        let timing = f.time(Grid::cover(1000, 128), (3.0, &x, &mut y, 1000)).unwrap();
        assert!(!timing.elapsed.is_zero() && timing.rate(1.0) > 0.0, "{timing:?} on {device}");
        assert_eq!(timing.thread_ops.is_some(), device.is_sim());
        // Each of 1000 threads loads, computes and stores; each of 1024 looks where it is.
        assert!(timing.thread_ops.is_none_or(|ops| ops > 7 * 1000), "{timing:?}");
        assert_eq!(y.to_vec().unwrap(), [3.0; 1000]);
    }
}

/// Functions, buffers and devices may be dropped in any order, right after a launch.
#[test]
fn drops_in_any_order() {
    for device in devices() {
        let mut y = device.upload(&[0.0f32; 64]).unwrap();
        for i in 0..20 {
            let f = device.load(&axpy(device.target())).unwrap();
            let x = device.upload(&[i as f32; 64]).unwrap();
            f.launch(Grid::cover(64, 64), (1.0, &x, &mut y, 64)).unwrap();
            if i % 2 == 0 {
                drop(f);
                drop(x);
            } else {
                drop(x);
                drop(f);
            }
            // What is allocated now may get the memory of what was just dropped.
            drop(device.upload(&[1e9f32; 64]).unwrap());
        }
        drop(device);
        assert_eq!(y.to_vec().unwrap(), [190.0; 64]);
    }
}

#[test]
fn threads_share_a_device() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        std::thread::scope(|scope| {
            for t in 1..=4 {
                let (device, f) = (device.clone(), f.clone());
                scope.spawn(move || {
                    let x = device.upload(&[t as f32; 300]).unwrap();
                    let mut y = device.zeros(300).unwrap();
                    for _ in 0..10 {
                        f.launch(Grid::cover(300, 64), (1.0, &x, &mut y, 300)).unwrap();
                    }
                    assert_eq!(y.to_vec().unwrap(), [10.0 * t as f32; 300]);
                });
            }
        });
    }
}

#[test]
fn buffers_of_no_elements() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        let x = device.upload::<f32>(&[]).unwrap();
        let mut y = device.zeros(0).unwrap();
        f.launch(Grid::cover(0, 32), (1.0, &x, &mut y, 0)).unwrap();
        assert!(y.is_empty() && y.to_vec().unwrap().is_empty());
    }
}

#[test]
fn a_kernel_without_a_rust_signature() {
    for device in devices() {
        let kernel = Kernel::verify(axpy(device.target()).ir().clone()).unwrap();
        let f: Function<Untyped> = device.load(&kernel).unwrap();
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let mut y = device.upload(&[10.0f32, 20.0]).unwrap();
        let args = vec![3.0f32.into(), (&x).into(), (&mut y).into(), 2i32.into()];
        f.launch(Grid::cover(2, 32), args).unwrap();
        assert_eq!(y.to_vec().unwrap(), [13.0, 26.0]);
        assert!(matches!(
            f.launch(Grid::cover(2, 32), vec![]),
            Err(RuntimeError::ArgumentCount { .. })
        ));
    }
}

/// What is said of a device is fit to be printed.
#[test]
fn devices_are_named() {
    for device in devices() {
        assert!(!device.name().is_empty() && device.to_string().contains(device.name()));
        assert_eq!(device.cuda_version().is_none(), device.is_sim());
        assert!(device.limits().threads_per_block >= 1024);
    }
    let sim = Device::sim().unwrap();
    assert_eq!(
        (sim.name(), sim.driver_release(), sim.target()),
        ("simulator", None, Target::SM_80)
    );
}
