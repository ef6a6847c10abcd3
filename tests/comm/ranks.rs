//! Ranks that run as threads.

use std::thread;

use tilewright::runtime::Device;
use tilewright::runtime::comm::{CommOptions, Communicator};

use crate::support::skip::skip;

/// Sets of `ranks` devices that a test runs on: simulators, and GPUs where the environment has
/// `TILEWRIGHT_GPU=1` and there are as many.
pub(crate) fn device_sets(ranks: u32) -> Vec<Vec<Device>> {
    let simulators = (0..ranks).map(Device::sim_number).collect::<Result<Vec<_>, _>>();
    let mut sets = vec![simulators.expect("the simulator is always there")];
    sets.extend(gpus(ranks));
    sets
}

/// Returns `ranks` GPUs; counts the test as skipped where there are fewer.
pub(crate) fn gpus(ranks: u32) -> Option<Vec<Device>> {
    if std::env::var("TILEWRIGHT_GPU").as_deref() != Ok("1") {
        skip("set TILEWRIGHT_GPU=1 on a machine with GPUs and NCCL");
        return None;
    }
    let count = Device::cuda_count().expect("TILEWRIGHT_GPU=1 asks for a GPU");
    if count < ranks as usize {
        skip(&format!("{ranks} GPUs are needed and {count} are there"));
        return None;
    }
    let device = |ordinal| Device::cuda(ordinal).expect("the GPU opens");
    Some((0..ranks as usize).map(device).collect())
}

/// Runs `f` for each rank of the devices, in a thread of its own, and returns the results in the
/// order of the ranks.
pub(crate) fn each_rank<R: Send>(
    options: CommOptions,
    devices: &[Device],
    f: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let all = Communicator::all_with(options, devices).expect("the devices connect");
    thread::scope(|threads| {
        let start = |comm| threads.spawn(|| f(comm));
        let threads: Vec<_> = all.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("the rank ends well")).collect()
    })
}
