//! Work schedulers: every item is taken once, launch after launch, and decoders know all tiles.

use crate::support::{device, ptxas};

use proptest::prelude::*;
use tilewright::ir::{Body, BuildErrors, Global, GlobalMut, Kernel, Target, Val};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::Options;
use tilewright::tensor::pipeline::{
    DynamicScheduler, HeadSections, Raster, Sequences, StaticScheduler, TileScheduler, WorkCounter,
    WorkScheduler,
};

/// The counts of items, the counter, the number of items.
type Params = (GlobalMut<i32>, GlobalMut<u32>, i32);

/// Devices with mbarriers that wait.
fn devices() -> Vec<Device> {
    let all = device::devices().into_iter().filter(|device| device.target() >= Target::SM_90);
    all.chain([Device::sim_for(Target::SM_90).unwrap()]).collect()
}

fn count<'b>(
    k: &mut Body<'b, '_>,
    work: impl WorkScheduler<'b>,
    x: Val<'b, GlobalMut<i32>>,
    more: i32,
) {
    let taken = work.for_each_item(k, k.constant(0), |_, item, taken| {
        x.red().add(item, more);
        taken + 1
    });
    // Carried values come out of the loop: nothing is added for no items.
    k.if_(taken.lt(0), |_| x.red().add(0, 1));
}

/// A warp draws for two consumer warps, whose threads count.
fn dynamic() -> Result<Kernel<Params>, BuildErrors> {
    Kernel::<Params>::build("dynamic", Target::SM_90, |k, (x, taken, items)| {
        let work = DynamicScheduler::new(k, taken, items, 64);
        let thread = k.thread_idx().x;
        work.init(thread.eq(0));
        k.barrier();
        k.if_(thread.eq(64), |k| {
            let work = work.producer();
            count(k, work, x, 0);
        });
        k.if_(thread.lt(64), |k| {
            let work = work.consumer();
            count(k, work, x, 1);
        });
    })
}

/// The same kernel runs again and again, also as a graph, without a host that resets its counter.
#[test]
fn a_counter_is_reset_by_the_last_item() {
    let kernel = dynamic().unwrap();
    for device in devices() {
        let function = device.load(&kernel).unwrap();
        for items in [1, 2, 3, 7, 40] {
            let mut x = device.zeros::<i32>(items).unwrap();
            let mut taken = device.zeros::<u32>(1).unwrap();
            for blocks in [1, 2, 5] {
                let grid = Grid::new([blocks.min(items as u32), 1, 1], [96, 1, 1]);
                let before = x.to_vec().unwrap()[0];
                function.launch(grid, (&mut x, &mut taken, items as i32)).unwrap();
                assert_eq!(x.to_vec().unwrap(), vec![before + 64; items], "{items} on {blocks}");
                assert_eq!(taken.to_vec().unwrap(), [0]);
            }
            let before = x.to_vec().unwrap()[0];
            let (graph, grid) = (device.graph().unwrap(), Grid::new([1, 1, 1], [96, 1, 1]));
            let options = tilewright::runtime::LaunchOptions::default().stream(graph.stream());
            function.launch_with(options, grid, (&mut x, &mut taken, items as i32)).unwrap();
            let graph = graph.finish().unwrap();
            (0..3).for_each(|_| graph.launch().unwrap());
            assert_eq!(x.to_vec().unwrap(), vec![before + 3 * 64; items]);
        }
    }
}

/// In adversarial schedules and random ones, the numbers go from the producer to the consumers
/// without a data race.
#[test]
fn numbers_are_handed_over_without_a_race() {
    let options = Options::default().target(Target::SM_90).race(true).schedules(8);
    let device = Device::sim_with(options);
    let function = device.load(&dynamic().unwrap()).unwrap();
    let mut x = device.zeros::<i32>(9).unwrap();
    let mut taken = device.zeros::<u32>(1).unwrap();
    let grid = Grid::new([2, 1, 1], [96, 1, 1]);
    function.launch(grid, (&mut x, &mut taken, 9)).unwrap();
    assert!(x.to_vec().unwrap().iter().all(|count| count % 64 == 0 && *count > 0));
}

/// Schedulers without roles: those of tiles, static ones, and a counter.
#[test]
fn every_scheduler_takes_each_item_once() {
    let kernel = Kernel::<Params>::build("all", Target::SM_80, |k, (x, taken, items)| {
        count(k, StaticScheduler::new(k, items), x, 1);
        count(k, WorkCounter::new(taken, items), x, 100);
        let [rows, one] = [items, k.constant(1)];
        count(k, TileScheduler::new(k, Raster::AlongM, [rows, one, one]), x, 10_000);
    })
    .unwrap();
    for device in device::devices() {
        let function = device.load(&kernel).unwrap();
        for (items, blocks) in [(1, 1), (5, 2), (5, 5), (64, 3)] {
            let mut x = device.zeros::<i32>(items).unwrap();
            let mut taken = device.zeros::<u32>(1).unwrap();
            let grid = Grid::new([blocks, 1, 1], [1, 1, 1]);
            function.launch(grid, (&mut x, &mut taken, items as i32)).unwrap();
            assert_eq!(x.to_vec().unwrap(), vec![10_101; items]);
        }
    }
}

/// Head and tile of each item; tiles, heads, and heads of a section.
type Heads = (GlobalMut<i32>, [i32; 3]);

fn heads() -> Result<Kernel<Heads>, BuildErrors> {
    Kernel::<Heads>::build("heads", Target::SM_80, |k, (x, sizes)| {
        let [tiles, heads, section] = sizes;
        StaticScheduler::new(k, tiles * heads).for_each_item(k, (), |_, item, ()| {
            let [head, tile] = HeadSections { tiles, heads, section }.decode(item);
            x.store(item * 2, head);
            x.store(item * 2 + 1, tile);
        });
    })
}

/// The start of each sequence, then for each slot its sequence, tile, start and length.
type Decoded = (Global<i32>, GlobalMut<i32>, [i32; 2]);

fn sequences(size: u32) -> Result<Kernel<Decoded>, BuildErrors> {
    Kernel::<Decoded>::build("sequences", Target::SM_80, |k, (starts, x, [count, slots])| {
        StaticScheduler::new(k, slots).for_each_item(k, (), |_, slot, ()| {
            let found = Sequences { starts, count }.decode(slot, size);
            for (i, value) in (0..).zip([found.sequence, found.tile, found.start, found.len]) {
                x.store(slot * 4 + i, value);
            }
        });
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Section after section, in a section tile after tile from the last one, in a tile head after
    /// head.
    #[test]
    fn heads_come_in_sections(tiles in 1i32..9, heads_ in 1i32..9, section in 1i32..12) {
        let mut expected = Vec::new();
        let all: Vec<i32> = (0..heads_).collect();
        for heads in all.chunks(section as usize) {
            for tile in (0..tiles).rev() {
                expected.extend(heads.iter().flat_map(|head| [*head, tile]));
            }
        }
        let device = Device::sim().unwrap();
        let mut x = device.zeros::<i32>(expected.len()).unwrap();
        let function = device.load(&heads().unwrap()).unwrap();
        let grid = Grid::new([2, 1, 1], [1, 1, 1]);
        function.launch(grid, (&mut x, [tiles, heads_, section])).unwrap();
        prop_assert_eq!(x.to_vec().unwrap(), expected);
    }

    /// Each tile of each sequence has one slot, and the other slots have an empty tile.
    #[test]
    fn sequences_of_every_length_have_their_tiles(
        lens in prop::collection::vec(prop_oneof![Just(0u32), 0u32..40], 1..20),
        size in prop_oneof![Just(1u32), Just(8), 1u32..30],
    ) {
        let mut starts = vec![0];
        lens.iter().for_each(|len| starts.push(starts[starts.len() - 1] + *len as i32));
        let (positions, count) = (lens.iter().sum::<u32>(), lens.len() as u32);
        let slots = Sequences::slots(positions, count, size) as usize;
        for device in device::devices() {
            let mut x = device.zeros::<i32>(4 * slots).unwrap();
            let starts_on = device.upload(&starts).unwrap();
            let function = device.load(&sequences(size).unwrap()).unwrap();
            let args = (&starts_on, &mut x, [count as i32, slots as i32]);
            function.launch(Grid::new([2, 1, 1], [1, 1, 1]), args).unwrap();
            let mut found = Vec::new();
            for slot in x.to_vec().unwrap().chunks(4) {
                let [sequence, tile, start, len] = [slot[0], slot[1], slot[2], slot[3]];
                prop_assert_eq!(start, starts[sequence as usize]);
                prop_assert_eq!(len, lens[sequence as usize] as i32);
                if tile * (size as i32) < len {
                    found.push((sequence, tile));
                }
            }
            let tiles = |sequence: usize| lens[sequence].div_ceil(size) as i32;
            let expected = (0..lens.len()).flat_map(|i| (0..tiles(i)).map(move |t| (i as i32, t)));
            prop_assert!(found.into_iter().eq(expected));
        }
    }
}

#[test]
fn schedulers_assemble() {
    let Some(ptxas) = ptxas::find() else { return };
    let report = ptxas.report(dynamic().unwrap().ptx().text(), "sm_90").unwrap();
    assert!(report.contains("0 bytes stack frame, 0 bytes spill stores"), "{report}");
    ptxas.report(sequences(100).unwrap().ptx().text(), "sm_80").unwrap();
}
