//! The example of tensor parallelism runs, and each rank's result equals that of one device.

use crate::ranks::device_sets;

#[path = "../../examples/tensor_parallel.rs"]
mod tensor_parallel;

use tensor_parallel::Sizes;

#[test]
fn the_mlp_equals_that_of_one_device() {
    for devices in device_sets(2) {
        let sizes = match devices[0].is_sim() {
            true => Sizes { rows: 32, outer: 24, hidden: 48 },
            false => Sizes { rows: 2048, outer: 1024, hidden: 4096 },
        };
        tensor_parallel::run(&devices, sizes).unwrap();
    }
}
