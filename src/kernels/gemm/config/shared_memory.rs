//! How a thread block divides its shared memory between pipeline stages and the staging buffers for
//! D, and how many stages fit. [`with_max_stages`](GemmConfig::with_max_stages) takes as many as
//! fit.

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::methods::{Schedule, StoreMethod};

/// The narrowest part of a tile stored by one TMA copy, in columns, if D is not transposed.
const MIN_COLUMNS: u32 = 24;

impl GemmConfig {
    /// Returns the configuration with as many stages as fit into shared memory, from 2 to `max`.
    /// Call it after you have changed the tile or the store method.
    #[inline]
    pub fn with_max_stages(self, max: u32) -> GemmConfig {
        let fits = |stages: &u32| {
            GemmConfig { stages: *stages, ..self }.shared_bytes() <= self.target.max_shared_bytes()
        };
        let stages = (2..=max).rev().find(fits).unwrap_or(2);
        GemmConfig { stages, ..self }
    }

    /// Returns the store methods worth comparing, the usual one first. Parts of 128 bytes per row
    /// are best, because the first parts are in flight while later ones are still converted.
    /// Narrower parts are slower than whole rows, but may make room for a fourth stage.
    #[inline]
    pub(crate) fn stores(&self, by_threads: bool) -> impl Iterator<Item = StoreMethod> + use<> {
        let of = |store| GemmConfig { store, ..*self }.with_max_stages(4).stages;
        let (usual, other) = match self.chunk_columns() {
            _ if by_threads => (StoreMethod::Direct, None),
            Some(columns) if columns == self.line_columns() && !self.swap => {
                (StoreMethod::Chunks, None)
            }
            Some(_) if of(StoreMethod::Chunks) > of(StoreMethod::Rows) => {
                (StoreMethod::Rows, Some(StoreMethod::Chunks))
            }
            _ => (StoreMethod::Rows, None),
        };
        [usual].into_iter().chain(other)
    }

    /// Returns the columns of D that make 128 bytes.
    #[inline]
    pub(crate) const fn line_columns(&self) -> u32 {
        128 / self.d.size_bytes()
    }

    /// Returns the columns of a part, if the tile can be stored in several. That is a 128-byte line
    /// if it divides the tile. Otherwise the tile is cut into equal parts with an odd number of
    /// 16-byte units per row, which avoids bank conflicts. A transposed tile is cut so that the
    /// stages still fit.
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

    /// Returns how many columns of the tile one TMA copy stores. With `Direct` and `Rows` that is
    /// all of them. With swapped operands, the tile is transposed, so these are rows of D.
    #[inline]
    pub const fn store_columns(&self) -> u32 {
        match self.store {
            StoreMethod::Direct | StoreMethod::Rows => {
                self.mma_tile()[1] / self.accumulators_per_element()
            }
            StoreMethod::Overlapped => self.line_columns(),
            StoreMethod::Chunks => match self.chunk_columns() {
                Some(columns) => columns,
                None => self.mma_tile()[1] / self.accumulators_per_element(),
            },
        }
    }

    /// Returns the registers per thread that an overlapped store keeps, with two 16-bit elements in
    /// each.
    #[inline]
    pub(crate) const fn kept_words(&self) -> u32 {
        self.accumulators() / (2 * self.accumulators_per_element())
    }

    /// Returns how many stores 64 rows of a tile take.
    #[inline]
    pub(crate) const fn store_parts(&self) -> u32 {
        self.parts_of(self.store_columns())
    }

    /// Returns how many stores of `columns` columns 64 rows of a tile take.
    #[inline]
    const fn parts_of(&self, columns: u32) -> u32 {
        match columns * self.accumulators_per_element() {
            0 => 1,
            columns => self.mma_tile()[1] / columns,
        }
    }

    /// Returns the staging bytes per row. If threads read the rows back (`Direct`), rows are padded
    /// to an odd number of 16-byte units to avoid bank conflicts, except if the 128-byte swizzle
    /// does that.
    #[inline]
    const fn store_line_bytes(&self, columns: u32) -> u32 {
        let bytes = columns.saturating_mul(self.d.size_bytes());
        let even = bytes.is_multiple_of(32) && bytes != 128 && !self.swap;
        if even && matches!(self.store, StoreMethod::Direct) {
            bytes.saturating_add(16)
        } else {
            bytes
        }
    }

    /// Returns how many staging buffers for D each warp group has in shared memory. One buffer
    /// holds what a single store takes; with two, one is filled while the other is stored. It is 0
    /// for kernels that store from registers.
    #[inline]
    pub const fn store_slots(&self) -> u32 {
        self.slots_of(self.store_columns())
    }

    #[inline]
    const fn slots_of(&self, columns: u32) -> u32 {
        match self.store {
            StoreMethod::Direct => self.is_warp_specialised() as u32,
            StoreMethod::Rows => 1,
            // Two buffers alternate if each tile has an even number of stores.
            StoreMethod::Chunks | StoreMethod::Overlapped => {
                let parts = self.parts_of(columns);
                let stores = (self.rows_of_consumer() / 64).saturating_mul(parts);
                if stores.is_multiple_of(2) { 2 } else { 1 }
            }
        }
    }

    /// Returns how many bytes a block fetches per stage: one tile of A and one of B.
    #[inline]
    pub const fn stage_bytes(&self) -> u32 {
        self.bytes_of_tiles(self.tile)
    }

    /// Returns the bytes of one stage's tiles of A and B for these tile sizes.
    #[inline]
    const fn bytes_of_tiles(&self, [m, n, k]: [u32; 3]) -> u32 {
        m.saturating_mul(self.a.size_bytes())
            .saturating_add(n.saturating_mul(self.b.size_bytes()))
            .saturating_mul(k)
    }

    /// Returns the shared memory per block, in bytes. Compare it with what a block of your GPU can
    /// have.
    #[inline]
    pub const fn shared_bytes(&self) -> u64 {
        self.shared_bytes_of(self.store_columns())
    }

    /// Returns the shared memory per block if one store takes `columns` columns.
    #[inline]
    const fn shared_bytes_of(&self, columns: u32) -> u64 {
        let [m, n, k] = self.tile;
        let rows = if self.swap { m } else { self.rows_of_products() };
        let stages = self.stages as u64 * self.bytes_of_tiles([rows, n, k]) as u64;
        match self.schedule {
            // Tiles are kept as `f32`, each column of A and row of B padded by 4 elements.
            Schedule::Simt => {
                let line = m as u64 + 4 + n as u64 + 4;
                (self.stages as u64).saturating_mul(4 * line).saturating_mul(k as u64)
            }
            Schedule::Multistage => stages,
            Schedule::Cooperative | Schedule::Pingpong => {
                let slots = (self.consumers() * self.slots_of(columns)) as u64;
                let slot = 64 * self.store_line_bytes(columns) as u64;
                // Barriers: a full and an empty one per stage, and the ordered barrier of two
                // groups.
                let ordered = if self.is_pingpong() { 2 } else { 0 };
                // For two tile indices in flight: their barriers, and the indices themselves.
                let drawn = if self.draws_tiles() { 5 } else { 0 };
                stages.saturating_add(slots * slot + 8 * (2 * self.stages as u64 + ordered + drawn))
            }
        }
    }
}
