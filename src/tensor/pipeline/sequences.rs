//! Decoders of work items: tiles of heads, the longest first, and tiles of sequences of different lengths.

use crate::ir::{Body, Global, Val};

/// The tiles of heads in sections: all tiles of one section of heads come before those of the next one, so that the keys
/// and values of its heads stay in the L2 cache. In a section the last tiles of all heads come first, which are the longest
/// ones of a causal attention.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{HeadSections, StaticScheduler, WorkScheduler};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("order", Target::SM_80, |k, (x,)| {
///     let [tiles, heads, section] = [2, 3, 2].map(|count| k.constant(count));
///     let work = StaticScheduler::new(k, tiles * heads);
///     work.for_each_item(k, (), |k, item, ()| {
///         let [head, tile] = HeadSections { tiles, heads, section }.decode(item);
///         x.store(k, item, head * 10 + tile);
///     });
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.zeros::<i32>(6)?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// // Heads 0 and 1, then head 2.
/// assert_eq!(x.to_vec()?, [1, 11, 0, 10, 21, 20]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HeadSections<'b> {
    /// The tiles of a head.
    pub tiles: Val<'b, i32>,
    /// The heads.
    pub heads: Val<'b, i32>,
    /// The heads of a section, at least 1.
    pub section: Val<'b, i32>,
}

impl<'b> HeadSections<'b> {
    /// Returns the head and the tile of a work item, of `tiles * heads`.
    #[track_caller]
    pub fn decode(&self, number: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let of_section = self.section * self.tiles;
        let section = number / of_section;
        let (first, inside) = (section * self.section, number - section * of_section);
        let heads = (self.heads - first).min(self.section);
        let tile = inside / heads;
        let head = first + (inside - tile * heads);
        [head, self.tiles - 1 - tile]
    }
}

/// Sequences of different lengths, one after the other in one tensor. `starts` has the first position of each sequence, and
/// the end of the last one: `cu_seqlens` of FlashAttention.
///
/// The host knows the number of all positions and of sequences, but not the lengths. It counts
/// [`slots`](Sequences::slots): sequence `i` has the slots from `starts[i] / tile + i` on, which are enough for its tiles.
/// Slots without a tile have an empty one.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Sequences, StaticScheduler, WorkScheduler};
///
/// // Tiles of 4 positions count their own ones.
/// type Params = (Global<i32>, GlobalMut<i32>, [i32; 2]);
/// let kernel = Kernel::<Params>::build("tiles", Target::SM_80, |k, (starts, x, [count, slots])| {
///     let work = StaticScheduler::new(k, slots);
///     work.for_each_item(k, (), |k, slot, ()| {
///         let found = Sequences { starts, count }.decode(k, slot, 4);
///         let own = (found.len - found.tile * 4).min(4);
///         k.if_(own.gt(0), |k| x.red().add(k, found.sequence, own));
///     });
/// })?;
/// let device = Device::sim()?;
/// let starts = device.upload(&[0, 7, 7, 8, 21])?;
/// let mut x = device.zeros::<i32>(4)?;
/// let slots = Sequences::slots(21, 4, 4) as i32;
/// device.load(&kernel)?.launch(Grid::cover(2, 1), (&starts, &mut x, [4, slots]))?;
/// assert_eq!(x.to_vec()?, [7, 0, 1, 13]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'b> {
    /// The first positions, ascending, and the end of the last sequence.
    pub starts: Val<'b, Global<i32>>,
    /// The number of sequences, at least 1.
    pub count: Val<'b, i32>,
}

crate::values! {
    /// A tile of a sequence.
    pub struct SequenceTile<'b> {
        /// The number of the sequence.
        pub sequence: Val<'b, i32>,
        /// The number of the tile in the sequence. The tile is empty if `tile * size >= len`.
        pub tile: Val<'b, i32>,
        /// The first position of the sequence.
        pub start: Val<'b, i32>,
        /// The positions of the sequence.
        pub len: Val<'b, i32>,
    }
}

impl Sequences<'_> {
    /// Returns the number of slots for tiles of `tile` positions, of `positions` in all.
    pub fn slots(positions: u32, count: u32, tile: u32) -> u64 {
        u64::from(positions / tile.max(1)) + u64::from(count)
    }
}

impl<'b> Sequences<'b> {
    /// Returns the sequence of a slot, with the slot's tile of `size` positions, by a binary search.
    #[track_caller]
    #[inline]
    pub fn decode(&self, k: &mut Body<'b, '_>, slot: Val<'b, i32>, size: u32) -> SequenceTile<'b> {
        let (zero, starts) = (k.constant(0), self.starts);
        // The sequence is among `low` .. `high`.
        let (sequence, _) = k.while_(
            (zero, self.count),
            |_, (low, high)| (high - low).gt(1),
            |k, (low, high)| {
                let middle = low + (high - low) / 2;
                let first = starts.load(k, middle) / size + middle;
                let is_below = slot.lt(first);
                (is_below.select(low, middle), is_below.select(middle, high))
            },
        );
        let start = starts.load(k, sequence);
        let len = starts.load(k, sequence + 1) - start;
        SequenceTile { sequence, tile: slot - (start / size + sequence), start, len }
    }
}
