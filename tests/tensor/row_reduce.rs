//! What a reduction over the threads of a row orders.

use tilewright::ir::{GlobalMut, Kernel, Target, WARP};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::Options;
use tilewright::tensor::rows::{RowAccess, RowTile, tree};

/// Adds the sum and the last element of a row to its elements, in place: all threads read the
/// element that one of them overwrites behind the reduction. Returns what the launch says.
fn in_place(team: u32, cluster: u32, has_bar_warp: bool) -> String {
    let access = RowAccess::Aligned;
    let tile = RowTile { threads: team, team, cluster, vectors: 1, access };
    let target = if cluster > 1 { Target::SM_90 } else { Target::SM_80 };
    let columns = (4 * team * cluster).cast_signed();
    let options = tile.options();
    let kernel = Kernel::<(GlobalMut<f32>,)>::build_with(options, "in_place", target, |k, (x,)| {
        let part = tile.part::<f32>(k, k.constant(0i64), k.constant(columns));
        let last = x.load(columns - 1);
        let values = part.load(x, 0.0);
        let own = tree(k.constant(0.0), &values, |a, b| a + b);
        let sum = part.sum(own);
        if has_bar_warp {
            k.bar_warp(WARP);
        }
        part.store(x, values.iter().map(|value| *value + sum + last));
    })
    .unwrap();
    let device = Device::sim_with(Options::default().race(true));
    let mut x = device.upload(&vec![1.0f32; columns as usize]).unwrap();
    let grid = Grid::new([tile.blocks(1), 1, 1], [team, 1, 1]);
    match device.load(&kernel).unwrap().launch(grid, (&mut x,)) {
        Ok(_) => {
            assert_eq!(x.to_vec().unwrap(), vec![columns as f32 + 2.0; columns as usize]);
            "silent".to_owned()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn lanes_need_a_barrier_of_their_warp() {
    let found = in_place(32, 1, false);
    assert!(found.contains("no `bar_warp` orders the two"), "{found}");
    assert_eq!(in_place(32, 1, true), "silent");
}

#[test]
fn several_warps_of_a_block_are_ordered() {
    assert_eq!(in_place(64, 1, false), "silent");
    assert_eq!(in_place(512, 1, false), "silent");
}

#[test]
fn blocks_of_a_cluster_are_not_ordered() {
    let found = in_place(64, 2, false);
    assert!(found.contains("nothing orders the two blocks of the cluster"), "{found}");
}
