//! [`HeadSections`] and [`Sequences`]: decode work items of attention into heads, sequences and
//! tiles. Use them in an attention kernel whose blocks take items from a
//! [`WorkScheduler`](super::WorkScheduler).

use crate::ir::{Global, Val};

/// Orders attention's query tiles by sections of heads, so that the keys and values of a section's
/// heads stay in L2: all tiles of one section come before those of the next. Within a section,
/// every head's last tile comes first, because in causal attention it is the longest.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{HeadSections, StaticScheduler, WorkScheduler};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("order", Target::SM_80, |k, (x,)| {
///     let [tiles, heads, section] = [2, 3, 2].map(|count| k.constant(count));
///     let work = StaticScheduler::new(k, tiles * heads);
///     work.for_each_item(k, (), |_, item, ()| {
///         let [head, tile] = HeadSections { tiles, heads, section }.decode(item);
///         x.store(item, head * 10 + tile);
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
    /// Tiles per head.
    pub tiles: Val<'b, i32>,
    /// The head count.
    pub heads: Val<'b, i32>,
    /// Heads per section, at least 1.
    pub section: Val<'b, i32>,
}

impl<'b> HeadSections<'b> {
    /// Decodes a work item, below `tiles * heads`, into its head and tile. A block calls it for
    /// each item that it takes.
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

/// Sequences of different lengths, packed into one tensor. `starts` holds each sequence's first
/// position and the end of the last one: FlashAttention's `cu_seqlens`.
///
/// The host knows the total positions and the sequence count, but not the lengths, so it launches
/// [`slots`](Sequences::slots) work items: sequence `i` gets the slots from `starts[i] / tile + i`
/// on, which are enough for its tiles. Slots that are left over decode to an empty tile.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{Sequences, StaticScheduler, WorkScheduler};
///
/// // Tiles of 4 positions count their own ones.
/// type Params = (Global<i32>, GlobalMut<i32>, [i32; 2]);
/// let kernel = Kernel::<Params>::build("tiles", Target::SM_80, |k, (starts, x, [count, slots])| {
///     let work = StaticScheduler::new(k, slots);
///     work.for_each_item(k, (), |k, slot, ()| {
///         let found = Sequences { starts, count }.decode(slot, 4);
///         let own = (found.len - found.tile * 4).min(4);
///         k.if_(own.gt(0), |_| x.red().add(found.sequence, own));
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
    /// The sequence count, at least 1.
    pub count: Val<'b, i32>,
}

crate::values! {
    /// A tile of a sequence, for example of queries in attention over sequences of different
    /// lengths: what [`Sequences::decode`] returns for a slot.
    pub struct SequenceTile<'b> {
        /// The index of the sequence.
        pub sequence: Val<'b, i32>,
        /// The index of the tile in its sequence. The tile is empty if `tile * size >= len`.
        pub tile: Val<'b, i32>,
        /// The sequence's first position.
        pub start: Val<'b, i32>,
        /// The sequence's length.
        pub len: Val<'b, i32>,
    }
}

impl Sequences<'_> {
    /// Returns how many slots `positions` positions in `count` sequences need, with tiles of `tile`
    /// positions. Use it on the host to size the grid or a scheduler's item count.
    pub fn slots(positions: u32, count: u32, tile: u32) -> u64 {
        u64::from(positions / tile.max(1)) + u64::from(count)
    }
}

impl<'b> Sequences<'b> {
    /// Finds a slot's sequence with a binary search, and its tile of `size` positions. A block
    /// calls it for each slot; it must skip empty tiles.
    #[track_caller]
    #[inline]
    pub fn decode(&self, slot: Val<'b, i32>, size: u32) -> SequenceTile<'b> {
        let k = &mut self.count.body();
        let (zero, starts) = (k.constant(0), self.starts);
        // The sequence is in `low..high`.
        let (sequence, _) = k.while_(
            (zero, self.count),
            |_, (low, high)| (high - low).gt(1),
            |_, (low, high)| {
                let middle = low + (high - low) / 2;
                let first = starts.load(middle) / size + middle;
                let is_below = slot.lt(first);
                (is_below.select(low, middle), is_below.select(middle, high))
            },
        );
        let start = starts.load(sequence);
        let len = starts.load(sequence + 1) - start;
        SequenceTile { sequence, tile: slot - (start / size + sequence), start, len }
    }
}
