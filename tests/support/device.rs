//! The devices that a test of kernels runs on.

use tilewright::runtime::Device;

use super::skip::skip;

/// The simulator, always, and the first GPU where the environment has `TILEWRIGHT_GPU=1`.
///
/// A test that asks for a GPU on a machine without one fails: it must not pass unseen.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::sim().expect("the simulator is always there")];
    devices.extend(gpu());
    devices
}

/// Returns the first GPU for a test that needs one; without `TILEWRIGHT_GPU=1` the test counts as skipped.
pub(crate) fn wanted_gpu() -> Option<Device> {
    let gpu = gpu();
    if gpu.is_none() {
        skip("set TILEWRIGHT_GPU=1 on a machine with a GPU");
    }
    gpu
}

/// The first GPU where the environment has `TILEWRIGHT_GPU=1`, else nothing.
pub(crate) fn gpu() -> Option<Device> {
    let wanted = std::env::var("TILEWRIGHT_GPU").is_ok_and(|value| value == "1");
    wanted.then(|| Device::cuda(0).expect("TILEWRIGHT_GPU=1 asks for a GPU"))
}
