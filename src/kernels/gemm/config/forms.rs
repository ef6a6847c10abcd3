//! [`Schedule`], [`LoadForm`] and [`StoreForm`]: who works on a tile, and how it is fetched and written.

/// The division of work among the threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Plain FMAs of `f32`, each thread 4 x 4 to 16 x 8 accumulators, tiles fetched some steps ahead by `cp.async`. Every
    /// target.
    Simt,
    /// `mma.sync`, tiles fetched some steps ahead by `cp.async`. Every target.
    Multistage,
    /// `wgmma`: a producer warp group fetches tiles by tensor copies, and one to three consumer warp groups multiply, all on the
    /// same tile. `sm_90a`.
    Cooperative,
    /// As `Cooperative`, with two consumer warp groups, each on tiles of its own: one writes its tile while the other multiplies.
    /// `sm_90a`.
    Pingpong,
}

impl Schedule {
    /// All schedules.
    pub const ALL: [Schedule; 4] =
        [Schedule::Simt, Schedule::Multistage, Schedule::Cooperative, Schedule::Pingpong];

    /// The name in a name of a configuration.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Schedule::Simt => "simt",
            Schedule::Multistage => "ms",
            Schedule::Cooperative => "coop",
            Schedule::Pingpong => "pp",
        }
    }

    /// Returns whether tiles are fetched by tensor copies, which need pitches of 16 bytes.
    #[inline]
    pub const fn uses_tma(self) -> bool {
        matches!(self, Schedule::Cooperative | Schedule::Pingpong)
    }
}

/// The way in which a warp-specialised kernel fetches tiles of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadForm {
    /// By tensor copies, which need addresses, pitches and batch strides of 16 bytes. Kernels of the other schedules copy by
    /// threads, and have this form too.
    Tensor,
    /// By tensor copies from a workspace of the function, to which operands that need it are copied before the product: because
    /// they are not aligned, or to transpose them, because tensor cores take such elements contiguous along K alone.
    Repack,
    /// By all threads of the producer warp groups, from any address and pitch.
    Threads,
}

/// The way in which a tile of D is written from registers to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreForm {
    /// By the threads, to any address and pitch. Warp-specialised kernels go through shared memory and write aligned vectors of 16
    /// bytes; the others write from registers.
    Direct,
    /// Through shared memory by tensor copies of 64 rows, as wide as the tile.
    Rows,
    /// Through shared memory by several tensor copies of 64 rows: of 128 bytes where these divide the tile, else narrower.
    Chunks,
    /// As `Chunks`, overlapped with the main loop of the next tile.
    Overlapped,
}

impl LoadForm {
    /// The name in a name of a configuration.
    #[inline]
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            LoadForm::Tensor => None,
            LoadForm::Repack => Some("repack"),
            LoadForm::Threads => Some("threads"),
        }
    }
}

impl StoreForm {
    /// All forms.
    pub const ALL: [StoreForm; 4] =
        [StoreForm::Direct, StoreForm::Rows, StoreForm::Chunks, StoreForm::Overlapped];

    /// The name in a name of a configuration.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            StoreForm::Direct => "direct",
            StoreForm::Rows => "rows",
            StoreForm::Chunks => "chunks",
            StoreForm::Overlapped => "overlapped",
        }
    }
}
