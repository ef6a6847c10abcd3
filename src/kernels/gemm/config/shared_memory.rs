//! The shared memory of a thread block: stages of tiles, and the parts of D that are stored.

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::forms::{Schedule, StoreForm};

/// The fewest columns of a part of a tile that is not transposed.
const MIN_COLUMNS: u32 = 24;

impl GemmConfig {
    /// Returns the configuration with as many stages as shared memory has room for, from 2 to `max`.
    #[inline]
    pub fn with_max_stages(self, max: u32) -> GemmConfig {
        let fits = |stages: &u32| {
            GemmConfig { stages: *stages, ..self }.shared_bytes() <= self.target.max_shared_bytes()
        };
        let stages = (2..=max).rev().find(fits).unwrap_or(2);
        GemmConfig { stages, ..self }
    }

    /// Returns the forms of the store to compare, the usual one first. Lines of 128 bytes are best: the first ones are in
    /// flight while the others are converted. Narrower parts are slower than whole rows, but may
    /// leave room for a fourth stage.
    #[inline]
    pub(crate) fn stores(&self, by_threads: bool) -> impl Iterator<Item = StoreForm> + use<> {
        let of = |store| GemmConfig { store, ..*self }.with_max_stages(4).stages;
        let (usual, other) = match self.chunk_columns() {
            _ if by_threads => (StoreForm::Direct, None),
            Some(columns) if columns == self.line_columns() && !self.swap => {
                (StoreForm::Chunks, None)
            }
            Some(_) if of(StoreForm::Chunks) > of(StoreForm::Rows) => {
                (StoreForm::Rows, Some(StoreForm::Chunks))
            }
            _ => (StoreForm::Rows, None),
        };
        [usual].into_iter().chain(other)
    }

    /// Columns of D in 128 bytes.
    #[inline]
    pub(crate) const fn line_columns(&self) -> u32 {
        128 / self.d.size_bytes()
    }

    /// Columns of a part of a tile: a line of 128 bytes if it divides the tile, else as many as there are in several equal
    /// parts whose rows meet no bank twice, because their number of 16-byte units is odd. Of a transposed
    /// tile, as many rows as leave room for the stages.
    #[inline]
    pub(crate) const fn chunk_columns(&self) -> Option<u32> {
        let n = self.mma_tile()[1] / self.accumulators_per_element();
        if n > 0 && n.is_multiple_of(self.line_columns()) && !self.swap {
            return Some(self.line_columns());
        }
        let min = if self.swap { 8 } else { MIN_COLUMNS };
        let (mut columns, mut least) = (64, None);
        while columns >= min {
            let bytes = columns * self.d.size_bytes();
            let is_odd = !(bytes / 16).is_multiple_of(2) && bytes.is_multiple_of(16);
            if n > columns && n.is_multiple_of(columns) && (is_odd || self.swap) {
                least = Some(columns);
                if self.shared_bytes_of(columns) <= self.target.max_shared_bytes() {
                    break;
                }
            }
            columns -= 8;
        }
        least
    }

    /// Columns of D that one tensor copy stores; those of the tile where it is written directly. Where operands are
    /// exchanged, they are rows.
    #[inline]
    pub const fn store_columns(&self) -> u32 {
        match self.store {
            StoreForm::Direct | StoreForm::Rows => {
                self.mma_tile()[1] / self.accumulators_per_element()
            }
            StoreForm::Overlapped => self.line_columns(),
            StoreForm::Chunks => match self.chunk_columns() {
                Some(columns) => columns,
                None => self.mma_tile()[1] / self.accumulators_per_element(),
            },
        }
    }

    /// Words of two elements of a thread, which an overlapped store keeps.
    #[inline]
    pub(crate) const fn kept_words(&self) -> u32 {
        self.accumulators() / (2 * self.accumulators_per_element())
    }

    /// Stores of 64 rows of a tile.
    #[inline]
    pub(crate) const fn store_parts(&self) -> u32 {
        self.parts_of(self.store_columns())
    }

    /// The same with stores of `columns` columns.
    #[inline]
    const fn parts_of(&self, columns: u32) -> u32 {
        match columns * self.accumulators_per_element() {
            0 => 1,
            columns => self.mma_tile()[1] / columns,
        }
    }

    /// Bytes of shared memory for each of 64 rows of a store. Threads that write them read an odd number of 16-byte
    /// units, except in the swizzle of 128 bytes.
    #[inline]
    const fn store_line_bytes(&self, columns: u32) -> u32 {
        let bytes = columns.saturating_mul(self.d.size_bytes());
        let even = bytes.is_multiple_of(32) && bytes != 128 && !self.swap;
        if even && matches!(self.store, StoreForm::Direct) {
            bytes.saturating_add(16)
        } else {
            bytes
        }
    }

    /// Returns the buffers of 64 rows of a store that each warp group has in shared memory.
    #[inline]
    pub const fn store_slots(&self) -> u32 {
        self.slots_of(self.store_columns())
    }

    #[inline]
    const fn slots_of(&self, columns: u32) -> u32 {
        match self.store {
            StoreForm::Direct => self.is_warp_specialised() as u32,
            StoreForm::Rows => 1,
            // Two buffers alternate if each tile has an even number of stores.
            StoreForm::Chunks | StoreForm::Overlapped => {
                let parts = self.parts_of(columns);
                let stores = (self.rows_of_consumer() / 64).saturating_mul(parts);
                if stores.is_multiple_of(2) { 2 } else { 1 }
            }
        }
    }

    /// Bytes of a tile of A and one of B: what is fetched for a stage.
    #[inline]
    pub const fn stage_bytes(&self) -> u32 {
        self.bytes_of_tiles(self.tile)
    }

    /// Bytes of tiles of A and B for a tile of these extents.
    #[inline]
    const fn bytes_of_tiles(&self, [m, n, k]: [u32; 3]) -> u32 {
        m.saturating_mul(self.a.size_bytes())
            .saturating_add(n.saturating_mul(self.b.size_bytes()))
            .saturating_mul(k)
    }

    /// Bytes of shared memory of a block.
    #[inline]
    pub const fn shared_bytes(&self) -> u64 {
        self.shared_bytes_of(self.store_columns())
    }

    /// The same for stores of these columns.
    #[inline]
    const fn shared_bytes_of(&self, columns: u32) -> u64 {
        let [m, n, k] = self.tile;
        let rows = if self.swap { m } else { self.rows_of_products() };
        let stages = self.stages as u64 * self.bytes_of_tiles([rows, n, k]) as u64;
        match self.schedule {
            // Tiles are kept as f32, those of A with a pad of 4 columns for every row.
            Schedule::Simt => {
                let line = m as u64 + 4 + n as u64 + 4;
                (self.stages as u64).saturating_mul(4 * line).saturating_mul(k as u64)
            }
            Schedule::Multistage => stages,
            Schedule::Cooperative | Schedule::Pingpong => {
                let slots = (self.consumers() * self.slots_of(columns)) as u64;
                let slot = 64 * self.store_line_bytes(columns) as u64;
                // Barriers: full and empty of each stage, and the ordered barrier of two groups.
                let ordered = if self.is_pingpong() { 2 } else { 0 };
                // The barriers of two numbers of tiles, and the numbers.
                let drawn = if self.draws_tiles() { 5 } else { 0 };
                stages.saturating_add(slots * slot + 8 * (2 * self.stages as u64 + ordered + drawn))
            }
        }
    }
}
