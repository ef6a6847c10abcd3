//! The levels of `examples/gemm_levels.rs`: each computes the product.

use tilewright::ir::Target;
use tilewright::runtime::Device;

use crate::support::{device, ptxas};

#[path = "../../examples/gemm_levels.rs"]
mod example;

/// The simulator of the target of the last levels, and a GPU of that target if it is asked for.
fn devices() -> Vec<Device> {
    let gpus = device::devices().into_iter();
    let gpus = gpus.filter(|device| !device.is_sim() && device.target() == Target::SM_90A);
    std::iter::once(Device::sim_for(Target::SM_90A).unwrap()).chain(gpus).collect()
}

/// Two tiles and several steps along K: more than a ring has stages.
#[test]
fn every_level_is_right() {
    for device in devices() {
        for (level, [m, n, depth]) in example::TILES.into_iter().enumerate() {
            let steps = if level < 2 { 40 } else { 6 };
            example::check(&device, level, [2 * m, n, steps * depth], usize::MAX).unwrap();
        }
    }
}

/// A tile for each of three blocks or none, so that a persistent block has two tiles in both
/// directions.
#[test]
fn the_last_level_walks_over_tiles() {
    for device in devices() {
        example::check(&device, 7, [256, 512, 64], 5000).unwrap();
    }
}

/// `ptxas` says nothing: it does not run `wgmma` one after the other.
#[test]
fn every_level_assembles() {
    let Some(ptxas) = ptxas::find() else { return };
    for (level, _) in example::TILES.iter().enumerate() {
        let text = example::ptx(level, [4096; 3]).unwrap();
        let assembled = ptxas.assemble(&text, "sm_90a", &[]);
        assembled.unwrap_or_else(|problem| panic!("level {}: {problem}", level + 1));
    }
}
