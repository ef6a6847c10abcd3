//! [`GemmConfig`]: everything that is chosen when a matrix product is built.

pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod forms;
pub(crate) mod names;
pub(crate) mod problem;
pub(crate) mod shared_memory;
pub(crate) mod types;

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::runtime::Grid;
use crate::tensor::{Raster, RowGroups};

use crate::kernels::gemm::config::forms::{LoadForm, Schedule, StoreForm};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::types::InputTypes;
use crate::kernels::gemm::split::parts::Splits;

/// A vector that is added to all columns or to all rows of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bias {
    /// One number for each row: of length M.
    Row,
    /// One number for each column: of length N.
    Column,
}

/// A function of each element of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, with the hardware's `tanh`.
    Gelu,
}

/// The operations on the product before it is written: `D = activation(alpha A B + beta C + bias)`. An operation that is off leaves
/// no instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// There is a factor `alpha`; without it, 1.
    pub alpha: bool,
    /// There is a term `beta C`.
    pub beta: bool,
    /// The vector of the type of C that is added.
    pub bias: Option<Bias>,
    /// The function that is applied.
    pub activation: Option<Activation>,
}

/// Everything that is chosen when a matrix product is built.
///
/// The kernel computes `D[m, n] = sum over k of A[m, k] B[k, n]` in the types `a`, `b`, `acc`, applies the
/// [`Epilogue`], and rounds to the type `d`. D and C are row-major; A and B are contiguous along K or along the other
/// mode. A configuration is for problems of any size.
///
/// [`check`](GemmConfig::check) says whether there is such a kernel. A configuration prints as a short name, which is
/// also that of the kernel, and can be parsed:
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, StoreForm};
/// use tilewright::tensor::Raster;
///
/// let config = GemmConfig {
///     stages: 3,
///     store: StoreForm::Rows,
///     raster: Raster::Swizzle { width: 8 },
///     ..GemmConfig::sm90(Scalar::Bf16, [256, 200])
/// };
/// config.check()?;
/// assert_eq!(config.to_string(), "sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl");
/// assert_eq!(config.to_string().parse(), Ok(config));
/// assert_eq!((config.threads(), config.shared_bytes()), (384, 226_352));
///
/// let problem = GemmProblem::new(8192, 8192, 8192);
/// assert_eq!(config.tiles(&problem), [32, 41, 128]);
/// assert_eq!(config.grid(&problem, 132).blocks, [132, 1, 1]);
///
/// let none = GemmConfig { stages: 9, ..config };
/// assert!(none.check().unwrap_err().to_string().contains("bytes of shared memory"));
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmConfig {
    /// The target of the kernel.
    pub target: Target,
    /// The type in which elements of A are multiplied. `Tf32` is in memory as `f32`.
    pub a: Scalar,
    /// The type in which elements of B are multiplied.
    pub b: Scalar,
    /// The type of C and of the bias, where the epilogue has them.
    pub c: Scalar,
    /// The type of D.
    pub d: Scalar,
    /// The type of accumulators.
    pub acc: Scalar,
    /// The contiguous mode of A: K (row-major) or M.
    pub major_a: Major,
    /// The contiguous mode of B: K (column-major) or N (row-major).
    pub major_b: Major,
    /// M, N and K of a tile: a block's tile of D, and the depth of a stage.
    pub tile: [u32; 3],
    /// Tiles of A and B that are in shared memory at a time.
    pub stages: u32,
    /// The schedule.
    pub schedule: Schedule,
    /// The operands of the tensor cores are exchanged: the kernel computes tiles of `D^T = B^T A^T`, and stores them
    /// transposed. The rows of an instruction then run along N, so M of the tile is any multiple of 8.
    pub swap: bool,
    /// Adds the accumulators of the tensor cores to others after each step along K, and starts them anew: the two-level accumulation
    /// of products of 8-bit floats, because tensor cores accumulate these with few bits. Without it, the tensor cores accumulate
    /// all steps, which is faster, as `FAST_ACCUM` of cuBLASLt does.
    pub promote: bool,
    /// The rows of A and D are in groups, each with a matrix B of its own: see
    /// [`GemmProblem::grouped`].
    pub grouped: bool,
    /// The matrices of a batch have different sizes and any addresses: see [`RaggedProblem`](crate::kernels::gemm::RaggedProblem).
    pub ragged: bool,
    /// Blocks of a cluster along M and along N. Those along M share the tiles of B, those along N the tiles of A.
    pub cluster: [u32; 2],
    /// The division of the steps along K of a tile among thread blocks.
    pub splits: Splits,
    /// The order of the tiles of D.
    pub raster: Raster,
    /// The way in which a tile of D is written.
    pub store: StoreForm,
    /// The epilogue.
    pub epilogue: Epilogue,
    /// Columns `2 j` and `2 j + 1` of A B become column `j` of D, which has `N / 2` columns: the kernel is built by
    /// [`Gemm::with_pairs`](crate::kernels::gemm::Gemm::with_pairs).
    pub pairs: bool,
    /// Registers of a producer thread and of a consumer thread, where warp groups move them between each
    /// other (`setmaxnreg`).
    pub registers: Option<[u32; 2]>,
    /// A divisor of addresses, pitches and batch strides of A and B, in bytes; for the multistage
    /// kernel also their extents along the contiguous mode.
    pub alignment: u32,
    /// The way in which tiles of A and B are fetched.
    pub load: LoadForm,
    /// The kernel may be launched before the one before it has ended: it waits for it by itself
    /// (programmatic dependent launch).
    pub programmatic: bool,
}

/// Threads of a warp group.
pub(crate) const GROUP: u32 = 128;
/// Registers of an SM.
pub(crate) const SM_REGISTERS: u32 = 65536;
/// Rows of D of one `wgmma` instruction.
pub(crate) const WGMMA_ROWS: u32 = 64;
/// Bytes of a line of the L2 cache.
pub(crate) const L2_LINE_BYTES: u32 = 128;
/// Alignment in bytes of tiles in the 128-byte swizzle, whose pattern repeats every 8 lines of 128 bytes.
pub(crate) const SWIZZLE_ALIGN: u32 = 1024;

impl GemmConfig {
    /// The warp-specialised kernel for `sm_90a` with tiles of M x N of a type, or of two: `[Scalar::F8E4M3, Scalar::F8E5M2]`. Both
    /// operands are K-major, D has the type [`InputTypes::output`]; there are as many stages as there is shared memory for, up to 8, a
    /// swizzle width of 8 row tiles, no epilogue.
    #[inline]
    pub fn sm90(inputs: impl Into<InputTypes>, [m, n]: [u32; 2]) -> GemmConfig {
        let inputs = inputs.into();
        let depth = 128 / inputs.a.size_bytes();
        let config = GemmConfig {
            schedule: Schedule::Cooperative,
            raster: Raster::Swizzle { width: 8 },
            programmatic: true,
            ..Self::base(Target::SM_90A, inputs, [m, n, depth])
        };
        let registers = config.usual_registers();
        let store = config.stores(false).next().unwrap_or(StoreForm::Rows);
        GemmConfig { store, registers, ..config }.with_max_stages(8)
    }

    /// The multistage kernel for `sm_80` and newer targets with tiles of M x N of this type, 3 stages; else as
    /// [`sm90`](GemmConfig::sm90).
    #[inline]
    pub fn sm80(target: Target, inputs: impl Into<InputTypes>, [m, n]: [u32; 2]) -> GemmConfig {
        let inputs = inputs.into();
        let depth = 128 / inputs.a.size_bytes();
        GemmConfig {
            stages: 3,
            schedule: Schedule::Multistage,
            raster: Raster::Swizzle { width: 8 },
            ..Self::base(target, inputs, [m, n, depth])
        }
    }

    /// The kernel without tensor cores, for any target, with tiles of 128 x 128 x 16.
    #[inline]
    pub fn simt(target: Target, inputs: impl Into<InputTypes>) -> GemmConfig {
        let inputs = inputs.into();
        GemmConfig {
            stages: 2,
            schedule: Schedule::Simt,
            raster: Raster::Swizzle { width: 8 },
            alignment: inputs.a.size_bytes(),
            ..Self::base(target, inputs, [128, 128, 16])
        }
    }

    #[inline]
    pub(crate) fn base(
        target: Target,
        inputs: impl Into<InputTypes>,
        tile: [u32; 3],
    ) -> GemmConfig {
        let inputs = inputs.into();
        let d = inputs.output();
        GemmConfig {
            target,
            a: inputs.a,
            b: inputs.b,
            c: d,
            d,
            acc: inputs.accumulator(),
            major_a: Major::K,
            major_b: Major::K,
            tile,
            stages: 2,
            schedule: Schedule::Simt,
            swap: false,
            promote: false,
            grouped: false,
            ragged: false,
            cluster: [1, 1],
            splits: Splits::Even(1),
            raster: Raster::AlongN,
            store: StoreForm::Direct,
            epilogue: Epilogue::default(),
            pairs: false,
            registers: None,
            alignment: 16,
            load: LoadForm::Tensor,
            programmatic: false,
        }
    }

    /// Returns the types of A and B.
    #[inline]
    pub const fn inputs(&self) -> InputTypes {
        InputTypes { a: self.a, b: self.b }
    }

    /// Returns whether the instructions take A and B that are contiguous along M or N: `wgmma` transposes elements of 16 bits only,
    /// and `ldmatrix` none of 8 bits.
    #[inline]
    pub(crate) const fn takes_mn_major(&self) -> bool {
        let bits = self.a.bits();
        bits == 16 || bits >= 32 && !self.is_warp_specialised()
    }

    /// Returns whether copies to the workspace are contiguous along K, whatever A and B are.
    #[inline]
    pub(crate) const fn transposes_copies(&self) -> bool {
        let copies = matches!(self.load, LoadForm::Repack) && self.is_warp_specialised();
        copies && !self.takes_mn_major()
    }

    /// The configuration of the product itself, of A and B as they are in the workspace.
    #[inline]
    pub(crate) fn of_product(&self) -> GemmConfig {
        if !self.transposes_copies() {
            return *self;
        }
        GemmConfig { major_a: Major::K, major_b: Major::K, ..*self }
    }

    /// Returns whether the kernel is for `sm_90a`: tensor copies, and warp groups with roles.
    pub const fn is_warp_specialised(&self) -> bool {
        self.schedule.uses_tma()
    }

    /// Warp groups that multiply; 1 where there are no roles.
    pub const fn consumers(&self) -> u32 {
        match self.schedule {
            Schedule::Simt | Schedule::Multistage => 1,
            // 64 rows each, or 128 where four groups would be too many.
            Schedule::Cooperative => match self.mma_tile()[0] {
                0..=64 => 1,
                192 => 3,
                _ => 2,
            },
            Schedule::Pingpong => 2,
        }
    }

    /// M and N of the products that the tensor cores make of a tile.
    #[inline]
    pub const fn mma_tile(&self) -> [u32; 2] {
        let [m, n, _] = self.tile;
        if self.swap { [n, m] } else { [m, n] }
    }

    /// Returns the accumulators that make one element of D: columns of A B for each column of D.
    #[inline]
    pub(crate) const fn accumulators_per_element(&self) -> u32 {
        if self.pairs { 2 } else { 1 }
    }

    /// M and N of a tile of D.
    pub const fn tile_of_d(&self) -> [u32; 2] {
        [self.tile[0], self.tile[1] / self.accumulators_per_element()]
    }

    /// Threads that write tiles of A and B to shared memory, or none where tensor copies do.
    pub(crate) const fn writers(&self) -> u32 {
        if self.fetches_by_threads() { GROUP * self.producers() } else { 0 }
    }

    /// Returns the number of warp groups that fetch, at most the stages. Before tensor cores read what a thread has written, it waits for
    /// all of its loads, also those of its next tile: three groups, each with steps of its own, keep three tiles in flight. Two where the
    /// epilogue loads C or a bias, which needs registers.
    pub(crate) const fn producers(&self) -> u32 {
        let two = self.stages < 3 || self.epilogue.beta || self.epilogue.bias.is_some();
        match (self.fetches_by_threads(), two) {
            (false, _) => 1,
            (true, true) => 2,
            (true, false) => 3,
        }
    }

    const fn fetches_by_threads(&self) -> bool {
        matches!(self.load, LoadForm::Threads)
    }

    /// Returns whether thread blocks draw tiles from a counter. Tiles of groups differ in cost: the last tile of a group has few rows.
    /// Ping-pong keeps a fixed order.
    pub(crate) const fn draws_tiles(&self) -> bool {
        self.grouped && !self.is_pingpong()
    }

    /// Returns whether a launch has a workspace, for partial accumulators or for the counter of tiles.
    pub(crate) const fn has_workspace(&self) -> bool {
        self.splits.is_split() || self.grouped
    }

    /// Returns whether each consumer has tiles of its own.
    pub(crate) const fn is_pingpong(&self) -> bool {
        matches!(self.schedule, Schedule::Pingpong)
    }

    /// Warp groups that multiply the same tile.
    #[inline]
    pub(crate) const fn consumers_of_tile(&self) -> u32 {
        if self.is_pingpong() { 1 } else { self.consumers() }
    }

    /// Threads with all accumulators of a part of a tile, or a share of them: a warp group, or a block without roles.
    #[inline]
    pub(crate) const fn threads_of_group(&self) -> u32 {
        if self.is_warp_specialised() { GROUP } else { self.threads() }
    }

    /// Registers that a launch gives to each thread of a block that has an SM for itself.
    #[inline]
    pub(crate) fn entry_registers(&self) -> u32 {
        SM_REGISTERS / self.threads()
    }

    /// Rows of a tile that one warp group multiplies.
    #[inline]
    pub const fn rows_of_consumer(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => self.rows_of_products() / self.consumers(),
            Schedule::Simt | Schedule::Multistage | Schedule::Pingpong => self.tile[0],
        }
    }

    /// Rows of a tile in shared memory and in the products. `wgmma` has 64: where the tile has fewer, the others are zero,
    /// and neither fetched nor written.
    #[inline]
    pub const fn rows_of_products(&self) -> u32 {
        let [m, _] = self.mma_tile();
        if self.is_warp_specialised() && m < 64 { 64 } else { m }
    }

    /// Rows and columns of a tile that one warp of the multistage kernel multiplies.
    #[inline]
    pub const fn warp_tile(&self) -> [u32; 2] {
        match (self.tile[0], self.tile[1]) {
            // Four warps share the copies of a small tile.
            (32, 32) => [16, 16],
            (32, 64) | (64, 32) => [16, 32],
            (0..=64, 0..=128) | (128, 0..=64) => [32, 32],
            // With twice as many threads each copies fewer lines.
            (0..=64, _) => [32, 64],
            (_, 0..=64) => [64, 32],
            _ => [64, 64],
        }
    }

    /// Rows and columns of a tile that one thread of the kernel without tensor cores multiplies.
    pub const fn thread_tile(&self) -> [u32; 2] {
        match self.tile[0] {
            0..16 => [4, 4],
            16..32 => [4, 8],
            m if m.saturating_mul(self.tile[1]) >= 128 * 256 => [16, 8],
            _ => [8, 8],
        }
    }

    /// Threads of a block.
    #[inline]
    pub const fn threads(&self) -> u32 {
        let [m, n, _] = self.tile;
        match self.schedule {
            Schedule::Simt => {
                let [rows, columns] = self.thread_tile();
                (m / rows).saturating_mul(n / columns)
            }
            Schedule::Multistage => {
                let [rows, columns] = self.warp_tile();
                (m / rows).saturating_mul(n / columns).saturating_mul(32)
            }
            Schedule::Cooperative | Schedule::Pingpong => {
                GROUP * (self.producers() + self.consumers())
            }
        }
    }

    /// The registers of a thread that hold accumulators.
    #[inline]
    pub const fn accumulators(&self) -> u32 {
        let [m, n, _] = self.tile;
        let words = self.acc.size_bytes() / 4;
        match self.schedule {
            Schedule::Simt => {
                let [rows, columns] = self.thread_tile();
                rows * columns
            }
            Schedule::Multistage => {
                let [rows, columns] = self.warp_tile();
                words * rows * columns / 32
            }
            Schedule::Cooperative => {
                let [_, n] = self.mma_tile();
                self.rows_of_products().saturating_mul(n) / (self.consumers() * GROUP)
            }
            Schedule::Pingpong => m.saturating_mul(n) / GROUP,
        }
    }

    /// The default registers of producer and consumer threads: 40 and 232 where two groups
    /// multiply, 56 and 224 by stream-K, 32 and 160 with three; with one there are enough without. 136 and 104 beside three
    /// groups whose threads fetch tiles.
    #[inline]
    pub const fn usual_registers(&self) -> Option<[u32; 2]> {
        if self.producers() == 3 {
            Some([136, 104])
        } else if !self.is_warp_specialised() || self.consumers() < 2 {
            None
        } else if self.consumers() == 3 {
            Some([32, 160])
        } else if matches!(self.splits, Splits::Stream) {
            // The producer follows the run of its block, too.
            Some([56, 224])
        } else if self.accumulators() > 200 || (self.accumulators() > 192 && self.is_pingpong()) {
            // OrderedBarrier need a few registers more.
            Some([24, 240])
        } else {
            Some([40, 232])
        }
    }

    /// The default order of tiles: a swizzle of up to 2048 rows and 16 tiles, so that the tiles in flight cover about as
    /// many rows as columns of D, which reads least. Takes the largest such width that divides the number of row tiles,
    /// so that the last group is full. Takes the largest width of all where that divisor is less than half of it, and for groups of
    /// rows, whose numbers of row tiles differ: the row tiles of a group then read the same columns of B at a time.
    #[inline]
    pub fn usual_raster(&self, problem: &GemmProblem) -> Raster {
        let [row_tiles, _, _] = self.tiles(problem);
        let max = (2048 / self.tile[0].max(1)).clamp(1, 16);
        if self.grouped {
            return Raster::Swizzle { width: max };
        }
        let max = max.min(row_tiles.max(1));
        let rows = (1..=max).rev().find(|rows| row_tiles.is_multiple_of(*rows)).unwrap_or(1);
        Raster::Swizzle { width: if 2 * rows >= max { rows } else { max } }
    }

    /// Row tiles, column tiles and steps along K of each matrix of a problem. Groups of rows are one matrix, with as many row
    /// tiles as there may be.
    #[inline]
    pub fn tiles(&self, problem: &GemmProblem) -> [u32; 3] {
        let [m, n, k] = self.tile.map(|size| size.max(1));
        let rows = match self.grouped {
            true => u32::try_from(RowGroups::max_tiles(problem.m, problem.batch, m)),
            false => Ok(problem.m.div_ceil(m)),
        };
        [rows.unwrap_or(u32::MAX), problem.n.div_ceil(n), problem.k.div_ceil(k)]
    }

    /// The blocks of a cluster.
    pub(crate) const fn cluster_blocks(&self) -> u32 {
        self.cluster[0].saturating_mul(self.cluster[1])
    }

    /// The matrices with tiles of their own.
    pub(crate) fn matrices(&self, problem: &GemmProblem) -> u32 {
        if self.grouped { 1 } else { problem.batch }
    }

    /// The grid for a problem on a device with `sms` SMs. Blocks of warp-specialised kernels stay, and
    /// take tile after tile; of the others, each has one tile, or a run of steps where they share them by stream-K.
    #[inline]
    pub fn grid(&self, problem: &GemmProblem, sms: u32) -> Grid {
        let [rows, columns, steps] = self.tiles(problem).map(u64::from);
        let [m, n] = self.cluster.map(|blocks| u64::from(blocks.max(1)));
        let cluster = m.saturating_mul(n);
        let clusters = rows
            .div_ceil(m)
            .saturating_mul(columns.div_ceil(n))
            .saturating_mul(self.matrices(problem).into());
        let max = match self.splits {
            _ if self.is_warp_specialised() => u64::from(sms) / cluster,
            // Each block may stay, because the shared memory of a block is at most that of an SM.
            Splits::Stream => {
                u64::from(sms) * u64::from(self.resident(self.target.max_shared_bytes()))
            }
            Splits::Even(_) => u64::MAX,
        };
        let blocks = self.splits.blocks(clusters, steps, max).saturating_mul(cluster);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Grid::new([blocks, 1, 1], [self.threads(), 1, 1])
    }
}
