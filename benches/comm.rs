//! Compares communicator calls with bare NCCL calls: `cargo bench --bench comm` on a machine with
//! two GPUs.
//!
//! Prints how long a call takes on the host, and the time per call until the work has ended, each
//! with its ratio. Fails if a ratio exceeds the bar. Without GPUs or NCCL it only says so.
#![expect(unsafe_code, reason = "the bare calls of NCCL to compare with")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends with the message"
)]

use std::ffi::{c_int, c_void};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use cudarc::driver::{CudaContext, DevicePtrMut, sys};
use libloading::Library;
use tilewright::runtime::Device;
use tilewright::runtime::comm::{Communicator, ReduceOp};

/// A call may take at most this many times as long as the bare one.
const BAR: f64 = 1.1;
/// Calls before each wait for the device. The device's queue has room for them.
const CALLS: usize = 200;
const ROUNDS: usize = 40;

type Comm = *mut c_void;
type InitAll = unsafe extern "C" fn(*mut Comm, c_int, *const c_int) -> u32;
type AllReduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, u32, u32, Comm, sys::CUstream) -> u32;
type Destroy = unsafe extern "C" fn(Comm) -> u32;

/// A bare NCCL communicator.
#[derive(Clone, Copy)]
struct Bare {
    comm: Comm,
    all_reduce: AllReduce,
    destroy: Destroy,
}

// SAFETY: a communicator is a name, and only one thread at a time uses it.
unsafe impl Send for Bare {}

fn bare(count: usize) -> Option<Vec<Bare>> {
    let names = ["libnccl.so.2", "libnccl.so"];
    // SAFETY: the names belong to NVIDIA's library.
    let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    let library = Box::leak(Box::new(library));
    // SAFETY: these are the functions' types.
    let (init, all_reduce, destroy) = unsafe {
        (
            *library.get::<InitAll>(b"ncclCommInitAll").ok()?,
            *library.get::<AllReduce>(b"ncclAllReduce").ok()?,
            *library.get::<Destroy>(b"ncclCommDestroy").ok()?,
        )
    };
    let mut comms: Vec<Comm> = vec![std::ptr::null_mut(); count];
    // SAFETY: there is room for each result; without a list, NCCL takes the devices from 0 on.
    let status = unsafe { init(comms.as_mut_ptr(), count as c_int, std::ptr::null()) };
    assert_eq!(status, 0, "ncclCommInitAll");
    Some(comms.into_iter().map(|comm| Bare { comm, all_reduce, destroy }).collect())
}

/// Seconds per call: on the host, and until the work has ended.
#[derive(Clone, Copy)]
struct Cost([f64; 2]);

fn measure(barrier: &Barrier, mut call: impl FnMut(), wait: impl Fn()) -> Cost {
    barrier.wait();
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    let queued = start.elapsed();
    wait();
    Cost([queued, start.elapsed()].map(|time| time.as_secs_f64() / CALLS as f64))
}

/// Returns the costs of our calls and of the bare calls on one rank, per round.
fn rank(barrier: &Barrier, comm: Communicator, bare: Bare, len: usize) -> Vec<[Cost; 2]> {
    let device = comm.device();
    let stream = device.stream().unwrap();
    let mut x = device.zeros::<f32>(len).unwrap();
    let context = CudaContext::new(comm.rank() as usize).unwrap();
    let bare_stream = context.new_stream().unwrap();
    let mut bare_x = bare_stream.alloc_zeros::<f32>(len).unwrap();
    let (address, _guard) = bare_x.device_ptr_mut(&bare_stream);
    let address = address as *mut c_void;
    let mut ours = || {
        comm.all_reduce_in_place(&stream, ReduceOp::Sum, &mut x).unwrap();
    };
    let bare_call = || {
        const F32: u32 = 7;
        let raw = bare_stream.cu_stream();
        // SAFETY: the memory has `len` elements and lives until the stream has been waited for.
        let status = unsafe { (bare.all_reduce)(address, address, len, F32, 0, bare.comm, raw) };
        assert_eq!(status, 0, "ncclAllReduce");
    };
    let rounds = (0..ROUNDS + 2).map(|round| {
        let mut cost = |ours_now: bool| match ours_now {
            true => measure(barrier, &mut ours, || stream.synchronize().unwrap()),
            false => measure(barrier, bare_call, || bare_stream.synchronize().unwrap()),
        };
        // Each goes first in half of the rounds.
        if round % 2 == 0 {
            let ours = cost(true);
            [ours, cost(false)]
        } else {
            let bare = cost(false);
            [cost(true), bare]
        }
    });
    // The first two rounds connect the ranks.
    let rounds = rounds.collect::<Vec<_>>().split_off(2);
    barrier.wait();
    // SAFETY: its work has ended.
    unsafe { (bare.destroy)(bare.comm) };
    rounds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let count = Device::cuda_count().unwrap_or(0).min(2);
    let devices: Result<Vec<Device>, _> = (0..count).map(Device::cuda).collect();
    let mut met = true;
    for len in [1024, 1 << 20] {
        let comms = devices.clone().and_then(|devices| Communicator::all(&devices));
        let comms = match comms {
            Ok(comms) => comms,
            Err(error) => {
                println!("nothing is measured: {error}");
                return ExitCode::SUCCESS;
            }
        };
        let bare_comms = bare(count).expect("the communicators have found NCCL");
        let barrier = Arc::new(Barrier::new(count));
        let costs: Vec<Vec<[Cost; 2]>> = std::thread::scope(|threads| {
            let ranks = comms.into_iter().zip(bare_comms);
            let start = |(comm, bare): (Communicator, Bare)| {
                let barrier = Arc::clone(&barrier);
                threads.spawn(move || {
                    let bare = bare;
                    rank(&barrier, comm, bare, len)
                })
            };
            let threads: Vec<_> = ranks.map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (which, what) in ["on the host", "until its end"].into_iter().enumerate() {
            let rounds: Vec<&[Cost; 2]> = costs.iter().flatten().collect();
            let of = |i: usize| median(rounds.iter().map(|costs| costs[i].0[which]).collect());
            let ratio =
                median(rounds.iter().map(|[Cost(a), Cost(b)]| a[which] / b[which]).collect());
            let verdict = if ratio <= BAR { "met" } else { "MISSED" };
            println!(
                "all_reduce of {len} f32 on {count} GPUs, {what}: {:.2} us, bare {:.2} us, {ratio:.3} x (bar {BAR} x: \
                 {verdict})",
                of(0) * 1e6,
                of(1) * 1e6
            );
            met &= ratio <= BAR;
        }
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
