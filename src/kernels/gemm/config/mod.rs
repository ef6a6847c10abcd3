//! [`GemmConfig`]: all decisions made when a GEMM kernel is built, and the sizes that follow from
//! them (threads, grid, tiles). Start from the preset [`sm90`](GemmConfig::sm90),
//! [`sm80`](GemmConfig::sm80) or [`simt`](GemmConfig::simt), and change fields.

pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod methods;
pub(crate) mod names;
pub(crate) mod problem;
pub(crate) mod shared_memory;
pub(crate) mod types;

use crate::arch::Major;
use crate::ir::types::Scalar;
use crate::ir::{Float, Target, Val};
use crate::runtime::Grid;
use crate::tensor::pipeline::{Raster, RowGroups};

use crate::kernels::gemm::config::methods::{
    AccumulationMode, BatchMode, LoadMethod, Schedule, Splits, StoreMethod,
};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::types::InputTypes;

/// Which vector the epilogue adds to each row or column of D, for example a linear layer's bias. It
/// has the element type of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bias {
    /// One value per row of D: M elements.
    Row,
    /// One value per column of D: N elements.
    Column,
}

/// The function that the epilogue applies to each element, after the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, with the hardware's `tanh`.
    Gelu,
}

impl Activation {
    /// All activations, for example to tune a kernel with each.
    pub const ALL: [Activation; 2] = [Activation::Relu, Activation::Gelu];

    /// Returns the word for it in a configuration's name.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
        }
    }

    /// Applies the function to a value in a kernel.
    #[track_caller]
    #[inline]
    pub(crate) fn apply<T: Float>(self, value: Val<'_, T>) -> Val<'_, T> {
        match self {
            Activation::Relu => value.max(T::default()),
            Activation::Gelu => {
                // The hardware's `tanh` takes `f32`.
                let value = value.cvt::<f32>();
                // sqrt(2 / pi), and its product with 0.044715.
                let inner = value * (value * value).fma(0.035_677_407_f32, 0.797_884_6);
                ((value * 0.5) * (inner.tanh_fast() + 1.0)).cvt::<T>()
            }
        }
    }
}

/// What happens to the accumulators before they are written:
/// `D = activation(alpha A B + beta C + bias)`. Whatever is off generates no code. For anything
/// else, build the kernel with [`Gemm::with_epilogue`](crate::kernels::gemm::Gemm::with_epilogue).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Multiplies A B by a factor `alpha`, which you pass at launch.
    pub alpha: bool,
    /// Adds `beta C`. You pass `beta` and C at launch.
    pub beta: bool,
    /// Adds a vector to all columns or to all rows.
    pub bias: Option<Bias>,
    /// Applies a function last.
    pub activation: Option<Activation>,
}

/// All decisions made when a GEMM kernel is built.
///
/// The kernel computes `D[m, n] = sum over k of A[m, k] B[k, n]` with elements of the types `a` and
/// `b`, accumulates in `acc`, applies the [`Epilogue`], and rounds to the type `d`. C and D are
/// row-major. A and B are contiguous along K or along their other mode. A configuration fixes no
/// problem size: one kernel runs problems of any size.
///
/// Start from [`sm90`](GemmConfig::sm90), [`sm80`](GemmConfig::sm80) or [`simt`](GemmConfig::simt)
/// and change fields, or let [`best`](GemmConfig::best) choose. [`check`](GemmConfig::check) tells
/// you whether a kernel exists for your combination. A configuration prints as a short name, which
/// is also the kernel's name and can be parsed back:
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, StoreMethod};
/// use tilewright::tensor::pipeline::Raster;
///
/// let config = GemmConfig {
///     stages: 3,
///     store: StoreMethod::Rows,
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
    /// The target to build for. The schedules with `wgmma` need `sm_90a`.
    pub target: Target,
    /// The element type of A. `Tf32` means `f32` in memory, multiplied as TF32.
    pub a: Scalar,
    /// The element type of B, which is the type of A with two exceptions: the two 8-bit floats can
    /// be mixed, and so can `i8` and `u8`.
    pub b: Scalar,
    /// The element type of C and of the bias, if the epilogue has them. By default it is the type
    /// of D.
    pub c: Scalar,
    /// The element type of D.
    pub d: Scalar,
    /// The accumulator type. It follows from `a` and `b`: `i32` for 8-bit integers, `f64` for
    /// `f64`, else `f32`. Other values are refused.
    pub acc: Scalar,
    /// The contiguous mode of A: K (row-major) or M (column-major).
    pub major_a: Major,
    /// The contiguous mode of B: K (column-major) or N (row-major).
    pub major_b: Major,
    /// The tile sizes along M, N and K: a thread block computes M x N elements of D at a time, and
    /// one pipeline stage is K deep. Larger tiles read A and B less often, but need more registers
    /// and shared memory, and fill the SMs badly if D is small.
    pub tile: [u32; 3],
    /// The pipeline stages in shared memory, from 2 to 32. More stages hide more memory latency,
    /// until shared memory is full. [`with_max_stages`](GemmConfig::with_max_stages) takes as many
    /// as fit.
    pub stages: u32,
    /// Which instructions multiply, and how the warps share the work.
    pub schedule: Schedule,
    /// Swaps the MMA operands: the kernel computes tiles of `D^T = B^T A^T` and stores them
    /// transposed. The MMA's 64 rows then run along N, so the tile's M may be any multiple of 8.
    /// Set it if D has few rows, for example when decoding; it wastes no MMA rows there.
    /// `Cooperative` schedule and 16-bit D only.
    pub swap: bool,
    /// Where the sums of 8-bit floats are kept. Choose `Promoted` if results must be accurate.
    pub accumulation: AccumulationMode,
    /// Whether all GEMMs of a launch have the same size.
    pub batch: BatchMode,
    /// The thread blocks in a cluster, along M and along N. Blocks along M share the tiles of B and
    /// blocks along N the tiles of A, fetched once by multicast. Set it to reduce L2 traffic; a
    /// grid that the cluster does not divide runs some blocks for nothing. Warp-specialised
    /// schedules only.
    pub cluster: [u32; 2],
    /// How thread blocks divide a tile's steps along K: split-K or stream-K. Set it if D has too
    /// few tiles to fill the SMs and K is long. It costs a workspace, and a pass that sums the
    /// partial accumulators.
    pub splits: Splits,
    /// The raster order: in which order the tiles of D are computed. It does not change the result.
    /// A good order lets the blocks that run at the same time share rows of A and columns of B in
    /// the L2 cache.
    pub raster: Raster,
    /// How a tile of D gets from registers to global memory. It changes the speed, the shared
    /// memory left for stages, and which alignments of D are accepted.
    pub store: StoreMethod,
    /// The operations applied before D is written.
    pub epilogue: Epilogue,
    /// Combines pairs of columns: columns `2 j` and `2 j + 1` of A B become column `j` of D, which
    /// has `N / 2` columns, for example for SwiGLU. Build such a kernel with
    /// [`Gemm::with_pairs`](crate::kernels::gemm::Gemm::with_pairs).
    pub pairs: bool,
    /// The registers per producer thread and per consumer thread, which the warp groups set with
    /// `setmaxnreg`; `None` leaves all threads with what the launch gave them. Consumers with large
    /// tiles need it. [`usual_registers`](GemmConfig::usual_registers) is the default.
    pub registers: Option<[u32; 2]>,
    /// The alignment in bytes that the kernel relies on: it must divide the addresses, pitches and
    /// batch strides of A and B. The `wgmma` schedules need 16, and `Simt` the element size. With
    /// `Multistage` you can choose a power of two from the element size to 16; it must also divide
    /// the extents along the contiguous modes. A smaller value accepts more operands and copies
    /// them in smaller, slower pieces.
    pub alignment: u32,
    /// How tiles of A and B get to shared memory. Change it if TMA cannot read your operands,
    /// because they are misaligned.
    pub load: LoadMethod,
    /// Programmatic dependent launch: the kernel may start before the previous launch on its stream
    /// has ended, and waits for it itself before it reads or writes global memory. It hides launch
    /// latency and does not change the result. Needs `sm_90`.
    pub programmatic: bool,
}

/// Threads per warp group.
pub(crate) const GROUP: u32 = 128;
/// 32-bit registers per SM.
pub(crate) const SM_REGISTERS: u32 = 65536;
/// Rows of D per `wgmma` instruction.
pub(crate) const WGMMA_ROWS: u32 = 64;
/// Bytes per L2 cache line.
pub(crate) const L2_LINE_BYTES: u32 = 128;
/// Alignment in bytes of a tile in the 128-byte swizzle, whose pattern repeats every 8 lines of 128
/// bytes.
pub(crate) const SWIZZLE_ALIGN: u32 = 1024;

impl GemmConfig {
    /// Returns whether groups of rows have their own matrices B.
    pub(crate) const fn is_grouped(&self) -> bool {
        matches!(self.batch, BatchMode::Grouped)
    }

    /// Returns whether each GEMM of a batch has its own sizes.
    pub(crate) const fn is_ragged(&self) -> bool {
        matches!(self.batch, BatchMode::Ragged)
    }

    /// Returns whether accumulators are added to `f32` registers after each step.
    pub(crate) const fn is_promoted(&self) -> bool {
        matches!(self.accumulation, AccumulationMode::Promoted)
    }

    /// The warp-specialised kernel for `sm_90a`, with M x N tiles. `inputs` is one type, or two,
    /// such as `[Scalar::F8E4M3, Scalar::F8E5M2]`. Both operands are contiguous along K, D has the
    /// type [`InputTypes::output`], the raster is a swizzle 8 row tiles wide, and there is no
    /// epilogue. Takes as many stages as fit into shared memory, up to 8. Use it as a start on
    /// Hopper.
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
        let store = config.stores(false).next().unwrap_or(StoreMethod::Rows);
        GemmConfig { store, registers, ..config }.with_max_stages(8)
    }

    /// The multistage kernel for `sm_80` and newer targets, with M x N tiles and 3 stages.
    /// Everything else is as for [`sm90`](GemmConfig::sm90). Use it as a start on GPUs without
    /// `wgmma`.
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

    /// The kernel without tensor cores, for any target, with 128 x 128 x 16 tiles. Use it as a
    /// start for `f32` in full precision.
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
            accumulation: AccumulationMode::Fast,
            batch: BatchMode::Uniform,
            cluster: [1, 1],
            splits: Splits::SplitK(1),
            raster: Raster::AlongN,
            store: StoreMethod::Direct,
            epilogue: Epilogue::default(),
            pairs: false,
            registers: None,
            alignment: 16,
            load: LoadMethod::Tensor,
            programmatic: false,
        }
    }

    /// Returns the types of A and B as one value, for example to print them or to make another
    /// configuration with them.
    #[inline]
    pub const fn inputs(&self) -> InputTypes {
        InputTypes { a: self.a, b: self.b }
    }

    /// Returns whether the MMA can read A and B that are contiguous along M or N. `wgmma`
    /// transposes 16-bit elements only, and `ldmatrix` everything but 8-bit elements.
    #[inline]
    pub(crate) const fn takes_mn_major(&self) -> bool {
        let bits = self.a.bits();
        bits == 16 || bits >= 32 && !self.is_warp_specialised()
    }

    /// Returns whether the repacked copies of A and B are transposed to be contiguous along K.
    #[inline]
    pub(crate) const fn transposes_copies(&self) -> bool {
        let copies = matches!(self.load, LoadMethod::Repack) && self.is_warp_specialised();
        copies && !self.takes_mn_major()
    }

    /// Returns the configuration that the GEMM kernel itself is built for: with repacking, A and B
    /// are as they lie in the workspace, not as you pass them.
    #[inline]
    pub(crate) fn of_product(&self) -> GemmConfig {
        if !self.transposes_copies() {
            return *self;
        }
        GemmConfig { major_a: Major::K, major_b: Major::K, ..*self }
    }

    /// Returns whether this is a warp-specialised kernel for `sm_90a`: TMA copies, and warp groups
    /// with roles. Such a kernel is persistent: its blocks loop over tiles.
    pub const fn is_warp_specialised(&self) -> bool {
        self.schedule.uses_tma()
    }

    /// Returns how many warp groups multiply (consumers), or 1 if the schedule has no roles.
    pub const fn consumers(&self) -> u32 {
        match self.schedule {
            Schedule::Simt | Schedule::Multistage => 1,
            // 64 rows each, or 128 if that would take four groups.
            Schedule::Cooperative => match self.mma_tile()[0] {
                0..=64 => 1,
                192 => 3,
                _ => 2,
            },
            Schedule::Pingpong => 2,
        }
    }

    /// Returns M and N of the tile as the MMA sees it. With `swap` they are exchanged: a 64 x 128
    /// tile is 128 x 64 for the MMA. Use it to see which MMA shapes a tile consists of.
    #[inline]
    pub const fn mma_tile(&self) -> [u32; 2] {
        let [m, n, _] = self.tile;
        if self.swap { [n, m] } else { [m, n] }
    }

    /// Returns how many accumulators make one element of D: 2 with `pairs`, else 1.
    #[inline]
    pub(crate) const fn accumulators_per_element(&self) -> u32 {
        if self.pairs { 2 } else { 1 }
    }

    /// Returns M and N of the tile in D. With `pairs`, it is half as wide. Use it to count the
    /// tiles of D.
    pub const fn tile_of_d(&self) -> [u32; 2] {
        [self.tile[0], self.tile[1] / self.accumulators_per_element()]
    }

    /// Returns the threads that write tiles of A and B to shared memory, or 0 if TMA does.
    pub(crate) const fn writers(&self) -> u32 {
        if self.fetches_by_threads() { GROUP * self.producers() } else { 0 }
    }

    /// Returns the producer warp groups. With TMA, one is enough. If threads fetch, a thread has to
    /// wait for all its loads, including those for its next tile, before it can hand a tile to the
    /// tensor cores. So three groups take turns and keep three tiles in flight. If the epilogue
    /// loads C or a bias, there are registers for two only. There are never more producers than
    /// stages.
    pub(crate) const fn producers(&self) -> u32 {
        let two = self.stages < 3 || self.epilogue.beta || self.epilogue.bias.is_some();
        match (self.fetches_by_threads(), two) {
            (false, _) => 1,
            (true, true) => 2,
            (true, false) => 3,
        }
    }

    const fn fetches_by_threads(&self) -> bool {
        matches!(self.load, LoadMethod::Threads)
    }

    /// Returns whether thread blocks draw tiles from a global counter. Grouped GEMM does, because
    /// tiles differ in cost: a group's last tile has few rows. Ping-pong needs a fixed order.
    pub(crate) const fn draws_tiles(&self) -> bool {
        self.is_grouped() && !self.is_pingpong()
    }

    /// Returns whether a launch needs a workspace: for partial accumulators, or for the tile
    /// counter.
    pub(crate) const fn has_workspace(&self) -> bool {
        self.splits.is_split() || self.is_grouped()
    }

    /// Returns whether each consumer warp group works on its own tiles.
    pub(crate) const fn is_pingpong(&self) -> bool {
        matches!(self.schedule, Schedule::Pingpong)
    }

    /// Returns the warp groups that multiply the same tile.
    #[inline]
    pub(crate) const fn consumers_of_tile(&self) -> u32 {
        if self.is_pingpong() { 1 } else { self.consumers() }
    }

    /// Returns the size of a group of threads that sums and stores together: a warp group, or the
    /// whole block if the schedule has no roles.
    #[inline]
    pub(crate) const fn threads_of_group(&self) -> u32 {
        if self.is_warp_specialised() { GROUP } else { self.threads() }
    }

    /// Returns the registers each thread starts with, if the block has the SM to itself.
    #[inline]
    pub(crate) fn entry_registers(&self) -> u32 {
        SM_REGISTERS / self.threads()
    }

    /// Returns how many of the tile's rows one warp group multiplies. Use it to see how many
    /// accumulator rows a group holds.
    #[inline]
    pub const fn rows_of_consumer(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => self.rows_of_products() / self.consumers(),
            Schedule::Simt | Schedule::Multistage | Schedule::Pingpong => self.tile[0],
        }
    }

    /// Returns the tile rows in shared memory and in the MMA. If a tile has fewer rows than the 64
    /// of `wgmma`, the rest is zero, and is neither fetched nor written. Shared memory is sized by
    /// it.
    #[inline]
    pub const fn rows_of_products(&self) -> u32 {
        let [m, _] = self.mma_tile();
        if self.is_warp_specialised() && m < 64 { 64 } else { m }
    }

    /// Returns the rows and columns that one warp of the multistage kernel multiplies. It follows
    /// from the tile; use it to see how the warps are arranged.
    #[inline]
    pub const fn warp_tile(&self) -> [u32; 2] {
        match (self.tile[0], self.tile[1]) {
            // Four warps share the copies of a small tile.
            (32, 32) => [16, 16],
            (32, 64) | (64, 32) => [16, 32],
            (0..=64, 0..=128) | (128, 0..=64) => [32, 32],
            // With twice as many threads, each copies fewer lines.
            (0..=64, _) => [32, 64],
            (_, 0..=64) => [64, 32],
            _ => [64, 64],
        }
    }

    /// Returns the rows and columns that one thread of the kernel without tensor cores multiplies.
    /// Their product is the thread's accumulators.
    pub const fn thread_tile(&self) -> [u32; 2] {
        match self.tile[0] {
            0..16 => [4, 4],
            16..32 => [4, 8],
            m if m.saturating_mul(self.tile[1]) >= 128 * 256 => [16, 8],
            _ => [8, 8],
        }
    }

    /// Returns the threads per block, for a launch by other means than
    /// [`Gemm::load`](crate::kernels::gemm::Gemm::load).
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

    /// Returns how many registers of a thread hold accumulators. If a tile is refused because it
    /// needs too many registers, this is why.
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

    /// Returns the default registers of a producer and a consumer thread. For TMA kernels that is
    /// 40 and 232 with two consumer groups (24 and 240 if the accumulators need it, 56 and 224 with
    /// stream-K) and 32 and 160 with three. With one consumer group nothing has to move. If three
    /// producer groups fetch by threads, they get 136 and the consumers 104.
    #[inline]
    pub const fn usual_registers(&self) -> Option<[u32; 2]> {
        if self.producers() == 3 {
            Some([136, 104])
        } else if !self.is_warp_specialised() || self.consumers() < 2 {
            None
        } else if self.consumers() == 3 {
            Some([32, 160])
        } else if matches!(self.splits, Splits::StreamK) {
            // Stream-K gives the producer more to track: its block's run of steps.
            Some([56, 224])
        } else if self.accumulators() > 200 || (self.accumulators() > 192 && self.is_pingpong()) {
            // `OrderedBarrier` needs a few more registers.
            Some([24, 240])
        } else {
            Some([40, 232])
        }
    }

    /// Returns the default raster order: a swizzle up to 2048 rows and 16 tiles wide. The tiles in
    /// flight then cover about as many rows as columns of D, which reads the fewest bytes of A and
    /// B. It prefers the largest width that divides the row tile count, so that the last group is
    /// full. If that is less than half of the maximum, it takes the maximum. Grouped GEMM always
    /// takes it, because each group has a different row tile count: a group's row tiles then read
    /// the same columns of B together.
    #[inline]
    pub fn usual_raster(&self, problem: &GemmProblem) -> Raster {
        let [row_tiles, _, _] = self.tiles(problem);
        let max = (2048 / self.tile[0].max(1)).clamp(1, 16);
        if self.is_grouped() {
            return Raster::Swizzle { width: max };
        }
        let max = max.min(row_tiles.max(1));
        let rows = (1..=max).rev().find(|rows| row_tiles.is_multiple_of(*rows)).unwrap_or(1);
        Raster::Swizzle { width: if 2 * rows >= max { rows } else { max } }
    }

    /// Returns the row tiles and column tiles of each matrix in a problem, and the steps along K.
    /// Grouped GEMM counts as one matrix, with the most row tiles that its groups can need. Use it
    /// to see how much work a problem is: for example fewer tiles than SMs leave some SMs idle.
    #[inline]
    pub fn tiles(&self, problem: &GemmProblem) -> [u32; 3] {
        let [m, n, k] = self.tile.map(|size| size.max(1));
        let rows = match self.is_grouped() {
            true => u32::try_from(RowGroups::max_tiles(problem.m, problem.batch, m)),
            false => Ok(problem.m.div_ceil(m)),
        };
        [rows.unwrap_or(u32::MAX), problem.n.div_ceil(n), problem.k.div_ceil(k)]
    }

    /// Returns the blocks per cluster.
    pub(crate) const fn cluster_blocks(&self) -> u32 {
        self.cluster[0].saturating_mul(self.cluster[1])
    }

    /// Returns how many matrices D is tiled as: the batch, or 1 for grouped GEMM.
    pub(crate) fn matrices(&self, problem: &GemmProblem) -> u32 {
        if self.is_grouped() { 1 } else { problem.batch }
    }

    /// Returns the grid for a problem on a device with `sms` SMs. Warp-specialised kernels are
    /// persistent: at most one block per SM, each of which takes tile after tile. In the other
    /// kernels, each block computes one tile or one part of a split tile; with stream-K, as many
    /// blocks as fit on the SMs share the tiles.
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
            // All these blocks can run at once, because a block's shared memory is at most an SM's.
            Splits::StreamK => {
                u64::from(sms) * u64::from(self.resident(self.target.max_shared_bytes()))
            }
            Splits::SplitK(_) => u64::MAX,
        };
        let blocks = self.splits.blocks(clusters, steps, max).saturating_mul(cluster);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Grid::new([blocks, 1, 1], [self.threads(), 1, 1])
    }
}
