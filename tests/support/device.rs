//! Chooses the devices that a kernel test runs on.

use tilewright::runtime::Device;

use super::skip::skip;

/// Returns the simulator and, if `TILEWRIGHT_GPU=1` is set, the first GPU.
///
/// If the variable asks for a GPU and the machine has none, the test fails, because it must not
/// pass unnoticed.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::sim().expect("the simulator is always there")];
    devices.extend(gpu());
    devices
}

/// Returns the first GPU, for a test that needs one. Without `TILEWRIGHT_GPU=1` the test counts as
/// skipped.
pub(crate) fn wanted_gpu() -> Option<Device> {
    let gpu = gpu();
    if gpu.is_none() {
        skip("set TILEWRIGHT_GPU=1 on a machine with a GPU");
    }
    gpu
}

/// Returns the first GPU if `TILEWRIGHT_GPU=1` is set.
pub(crate) fn gpu() -> Option<Device> {
    let wanted = std::env::var("TILEWRIGHT_GPU").is_ok_and(|value| value == "1");
    wanted.then(|| Device::cuda(0).expect("TILEWRIGHT_GPU=1 asks for a GPU"))
}
