//! Tests memory of the device and concurrent streams in a process of its own.
//!
//! Memory is full, kept, given back and not leaked, on the simulator and on a GPU.
//!
//! These tests look at the memory of the whole process or of the whole GPU, or at the clock, so
//! they run one after the other, and no other tests are in this file. Other programs on the GPU
//! disturb them.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]

#[path = "support/mod.rs"]
mod support;

use support::device::wanted_gpu;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
use tilewright::runtime::{Device, Grid, LaunchOptions, RuntimeError, Stream};

/// Held by each test from its start to its end.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn gpu_memory_is_kept_and_given_back() {
    let _alone = alone();
    let Some(device) = wanted_gpu() else { return };
    let free = || device.memory().unwrap().unwrap().0;
    device.trim_memory().unwrap();
    let before = free();
    device.keep_memory(u64::MAX).unwrap();
    drop(device.zeros::<u8>(1 << 30).unwrap());
    device.synchronize().unwrap();
    let kept = free();
    device.keep_memory(0).unwrap();
    device.trim_memory().unwrap();
    assert!(kept + (1 << 29) < before, "{before} bytes were free, then {kept}");
    assert!(free() + (1 << 29) > before);
}

#[test]
fn gpu_memory_that_is_full_can_be_used_again() {
    let _alone = alone();
    let Some(device) = wanted_gpu() else { return };
    let (_, total) = device.memory().unwrap().unwrap();
    let error = device.zeros::<u8>(total as usize + 1).map(|_| ());
    let bytes = total + 1;
    assert_eq!(error, Err(RuntimeError::OutOfMemory { device: device.to_string(), bytes }));
    // More than half of the memory, twice in turn: the first is given back in time.
    for _ in 0..2 {
        let large = device.zeros::<u8>(total as usize / 8 * 5).unwrap();
        assert!(device.zeros::<u8>(total as usize / 8 * 5).is_err());
        drop(large);
    }
    // The launch after it works.
    cycle(&device, &kernel(device.target()), 3);
}

/// `y' = a x + y`, with an assertion, whose memory belongs to each loaded function.
fn kernel(target: Target) -> Kernel<(f32, Global<f32>, GlobalMut<f32>, i32)> {
    Kernel::<(f32, Global<f32>, GlobalMut<f32>, i32)>::build("axpy", target, |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.assert_with(n.ge(0), "{} elements", n);
        k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
    })
    .unwrap()
}

/// Loads, launches and drops.
fn cycle(device: &Device, kernel: &Kernel<(f32, Global<f32>, GlobalMut<f32>, i32)>, i: usize) {
    const LEN: usize = 256;
    let f = device.load(kernel).unwrap();
    let x = device.upload(&[1.0f32; LEN]).unwrap();
    let mut y = device.zeros(LEN).unwrap();
    f.launch(Grid::cover(LEN, 256), (i as f32, &x, &mut y, LEN as i32)).unwrap();
    if i.is_multiple_of(50) {
        assert_eq!(y.to_vec().unwrap(), [i as f32; LEN]);
    }
}

/// The bytes of memory that the process has, where the system tells them.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// 10,000 cycles of load, launch and drop leave the memory of the process and of the device as it
/// was: a leak of a KiB in a cycle would be seen.
fn cycles_leak_nothing(device: &Device) {
    const CYCLES: usize = 10_000;
    const MOST: u64 = 8 << 20;
    let kernel = kernel(device.target());
    let state = || {
        device.synchronize().unwrap();
        device.trim_memory().unwrap();
        (resident(), device.memory().unwrap().map(|(free, _)| free))
    };
    // All caches and pools are full after these.
    (0..1000).for_each(|i| cycle(device, &kernel, i));
    let (resident_before, free_before) = state();
    (0..CYCLES).for_each(|i| cycle(device, &kernel, i));
    let (resident_after, free_after) = state();
    eprintln!(
        "{CYCLES} cycles on {device}: resident {resident_before:?} then {resident_after:?} bytes, free on the \
         device {free_before:?} then {free_after:?}"
    );
    if let (Some(before), Some(after)) = (resident_before, resident_after) {
        assert!(after <= before + MOST, "{before} bytes were resident, then {after}");
    }
    if let (Some(before), Some(after)) = (free_before, free_after) {
        assert!(after + MOST >= before, "{before} bytes were free, then {after}");
    }
}

#[test]
fn simulator_cycles_leak_nothing() {
    let _alone = alone();
    cycles_leak_nothing(&Device::sim().unwrap());
}

#[test]
fn gpu_cycles_leak_nothing() {
    let _alone = alone();
    if let Some(device) = wanted_gpu() {
        cycles_leak_nothing(&device);
    }
}

/// Four launches of one small block each take four streams hardly longer than one launch takes, and
/// one stream four times as long. The least of several times each, because the first ones include
/// what the driver does once.
#[test]
fn gpu_streams_run_beside_each_other() {
    let _alone = alone();
    let Some(device) = wanted_gpu() else { return };
    type Slow = (Global<f32>, GlobalMut<f32>, i32);
    let kernel = Kernel::<Slow>::build("slow", device.target(), |k, (x, y, n)| {
        let i = k.thread_idx().x;
        let sum = k.for_(range(0, n), 0.0, |_, _, sum| sum + x.load(i));
        y.store(i, sum);
    });
    let f = device.load(&kernel.unwrap()).unwrap();
    let (grid, n) = (Grid::cover(1, 64), 1_000_000);
    let x = device.upload(&[1.0f32; 64]).unwrap();
    let mut sums = [(); 4].map(|()| device.zeros::<f32>(64).unwrap());
    let streams = [(); 4].map(|()| device.stream().unwrap());
    let mut least = |streams: &[&Stream]| -> Duration {
        let times = (0..8).map(|_| {
            device.synchronize().unwrap();
            let begin = Instant::now();
            for (stream, sum) in streams.iter().zip(&mut sums) {
                let options = LaunchOptions::default().stream(stream);
                f.launch_with(options, grid, (&x, sum, n)).unwrap();
            }
            device.synchronize().unwrap();
            begin.elapsed()
        });
        times.min().unwrap()
    };
    let one = least(&[&streams[0]]);
    let in_turn = least(&[&streams[0]; 4]);
    let beside = least(&streams.each_ref());
    eprintln!("one launch {one:?}; four in one stream {in_turn:?}, in four streams {beside:?}");
    assert!(in_turn > one * 3, "one takes {one:?}, four in one stream {in_turn:?}");
    assert!(beside < one * 2, "one takes {one:?}, four in four streams {beside:?}");
    assert!(sums.iter().all(|sum| sum.to_vec().unwrap() == [n as f32; 64]));
}
