//! [`AxisReduce`]: reductions along any axis of a tensor.

mod kernel;
mod parts;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Kernel, Target, Untyped};
use crate::runtime::{
    AnyElement, ArgList, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
    Occupancy, RuntimeError,
};
use crate::tensor::rows::{ColumnReduction, RowAccess, RowTile};

use super::super::ready::{Built, Launch, ReadyKernel};
use super::super::rows::{RowError, check_len, with_elements};
use super::super::split::SplitWorkspace;
use super::RowReduceOp;
use kernel::build;

/// A packed tensor (outer, axis, inner) and the axis to reduce. All modes before the axis count as
/// one, and so do all modes after it. If the axis is the last mode, use
/// [`RowReduce`](super::RowReduce), which reads whole rows.
///
/// ```
/// use tilewright::kernels::reduce::AxisProblem;
/// let problem = AxisProblem::of(&[2, 3, 4, 5], 1).expect("there is an axis 1");
/// assert_eq!(problem, AxisProblem { outer: 2, len: 3, inner: 20 });
/// assert_eq!(AxisProblem::of(&[2, 3], 2), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AxisProblem {
    /// The product of the modes before the axis.
    pub outer: u32,
    /// How many elements to reduce, along the axis.
    pub len: u32,
    /// The product of the modes after the axis.
    pub inner: u32,
}

impl AxisProblem {
    /// Returns the problem for one axis of a packed tensor whose last mode is contiguous, or `None`
    /// if there is no such axis or a product reaches 2^32.
    #[inline]
    pub fn of(shape: &[u32], axis: usize) -> Option<AxisProblem> {
        let product =
            |sizes: &[u32]| sizes.iter().try_fold(1u32, |all, size| all.checked_mul(*size));
        let len = *shape.get(axis)?;
        Some(AxisProblem {
            outer: product(&shape[..axis])?,
            len,
            inner: product(&shape[axis + 1..])?,
        })
    }

    /// Returns how many results there are.
    pub fn results(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }
}

/// Prints the sizes before, along and after the axis: `2x3x20`.
impl fmt::Display for AxisProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AxisProblem { outer, len, inner } = self;
        write!(f, "{outer}x{len}x{inner}")
    }
}

/// What decides the generated code of an [`AxisReduce`] kernel. [`new`](AxisReduceConfig::new)
/// chooses it for a problem; set fields yourself if you tune. A block's chunk is `team` 16-byte
/// vectors wide, and the block reduces `threads / team` rows of it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AxisReduceConfig {
    /// The target.
    pub target: Target,
    /// `Aligned`, or `Ragged` if `inner` is not a multiple of 16 bytes: each vector is then shifted
    /// together from two loads.
    pub access: RowAccess,
    /// What to compute.
    pub op: RowReduceOp,
    /// Threads per block: a power of two from 64 to 1024.
    pub threads: u32,
    /// Threads that share a row: a power of two from 1 to 32, and at most `threads / 8`.
    pub team: u32,
    /// Rows that a thread loads at once: 1 to 8. The loads of the next iteration are in flight at
    /// the same time.
    pub rows: u32,
    /// Blocks per cluster: 1, 2, 4 or 8. They split one axis, and combine their results through
    /// distributed shared memory.
    pub cluster: u32,
}

impl AxisReduceConfig {
    /// Returns the configuration for a problem with elements of this type.
    #[inline]
    pub fn new(op: RowReduceOp, target: Target, elem: Scalar, problem: &AxisProblem) -> Self {
        let vector = RowTile::vector_len(elem);
        let access = match problem.inner.is_multiple_of(vector) {
            true => RowAccess::Aligned,
            false => RowAccess::Ragged,
        };
        let vectors = problem.inner.div_ceil(vector);
        let team = vectors.next_power_of_two().clamp(1, 32);
        // A vector of a ragged row takes two loads.
        let (threads, rows) = if access == RowAccess::Aligned { (256, 8) } else { (512, 4) };
        let mut config = AxisReduceConfig { target, access, op, threads, team, rows, cluster: 1 };
        // The last block of each chunk combines the results of the others; more chunks spread this
        // work.
        while config.team > 8 && config.chunks(elem, problem) < 32 {
            config.team /= 2;
        }
        config.of_long_axis(elem, problem)
    }

    /// Returns the configuration for a long axis: the blocks of a cluster combine their results
    /// without global memory, and narrow chunks give every SM of a large GPU a block.
    #[inline]
    fn of_long_axis(self, elem: Scalar, problem: &AxisProblem) -> Self {
        const LONG: u32 = 4096;
        const ENOUGH_CHUNKS: u64 = 256;
        if problem.len < LONG / 4 || !self.target.offers(Target::SM_90) {
            return self;
        }
        let narrow = [(8, 512), (16, 256)].map(|(team, threads)| Self { team, threads, ..self });
        let narrow = narrow.into_iter().find(|it| it.chunks(elem, problem) <= ENOUGH_CHUNKS);
        // For still longer axes combining takes little of the time, and clusters would leave SMs
        // idle.
        let is_joined = (LONG..8 * LONG).contains(&problem.len);
        let cluster = |chunks, max, cluster| if is_joined && chunks < max { cluster } else { 1 };
        match (self.team, narrow) {
            (0..=8, _) => Self { cluster: cluster(self.chunks(elem, problem), 32, 8), ..self },
            (_, Some(narrow)) => {
                Self { cluster: cluster(narrow.chunks(elem, problem), 128, 2), ..narrow }
            }
            (_, None) => self,
        }
    }

    /// Returns configurations for a tuner to try, that of [`new`](AxisReduceConfig::new) first.
    #[inline]
    pub fn candidates(
        op: RowReduceOp,
        target: Target,
        elem: Scalar,
        problem: &AxisProblem,
    ) -> Vec<Self> {
        let mut found = vec![Self::new(op, target, elem, problem)];
        let mut configs = Vec::new();
        for cluster in [1, 2, 4, 8] {
            for team in [4, 8, 16, 32] {
                let tiles = [(256, 4), (256, 8), (512, 4), (512, 8), (1024, 2)].into_iter();
                configs.extend(tiles.map(|(threads, rows)| Self {
                    threads,
                    team,
                    rows,
                    cluster,
                    ..found[0]
                }));
            }
        }
        for config in configs {
            if !found.contains(&config) && config.check().is_ok() {
                found.push(config);
            }
        }
        found
    }

    /// Returns the columns of a block's chunk, and the threads that reduce them.
    #[inline]
    fn tile(&self) -> ColumnReduction {
        let AxisReduceConfig { access, threads, team, rows, cluster, .. } = *self;
        ColumnReduction { threads, team, rows, cluster, access }
    }

    /// Returns how many chunks a problem has.
    #[inline]
    fn chunks(&self, elem: Scalar, problem: &AxisProblem) -> u64 {
        u64::from(problem.inner.div_ceil(self.tile().columns(elem))) * u64::from(problem.outer)
    }

    /// Estimates the registers per thread: results of up to 8 columns, loads in flight, and
    /// addresses.
    fn registers(&self) -> u32 {
        let results = if self.op == RowReduceOp::ArgMax { 16 } else { 8 };
        let row = if self.access == RowAccess::Ragged { 16 } else { 8 };
        (results + row * self.rows + 24).next_multiple_of(8)
    }

    #[inline]
    fn check(&self) -> Result<(), RowError> {
        let AxisReduceConfig { access, threads, team, rows, .. } = *self;
        let rule = if access == RowAccess::Elements {
            "an axis reduction needs aligned or ragged rows, not access by single elements"
        } else if !threads.is_power_of_two() || !(64..=1024).contains(&threads) {
            "a block must have 64, 128, 256, 512 or 1024 threads"
        } else if !team.is_power_of_two() || !(1..=32).contains(&team) || team * 8 > threads {
            "1, 2, 4, 8, 16 or 32 threads must share a row, and at most an eighth of the block"
        } else if !(1..=8).contains(&rows) || threads * self.registers() > SM_REGISTERS {
            "a thread must load 1 to 8 rows at once, and the block must need at most 65536 registers for them"
        } else if !self.cluster.is_power_of_two() || self.cluster > 8 {
            "a cluster must have 1, 2, 4 or 8 blocks"
        } else if self.cluster > 1 && !self.target.offers(Target::SM_90) {
            "clusters need sm_90"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }
}

/// Registers per SM.
const SM_REGISTERS: u32 = 64 << 10;

/// Prints the configuration's name: what it computes, team and rows of a block, rows in flight,
/// cluster size if above 1, and `_ragged` unless rows are aligned. For example `sum_8x64_rows4`,
/// `sum_8x64_rows4_cluster8`, `max_32x16_rows4_ragged`.
impl fmt::Display for AxisReduceConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AxisReduceConfig { access, op, threads, team, rows, cluster, .. } = self;
        write!(f, "{}_{team}x{}_rows{rows}", op.name(), threads / team.max(&1))?;
        if *cluster != 1 {
            write!(f, "_cluster{cluster}")?;
        }
        f.write_str(if *access == RowAccess::Aligned { "" } else { "_ragged" })
    }
}

/// Reduces a tensor along one axis: `y(o, i) = op over j of x(o, j, i)`, as `f32`, or `i32` for
/// [`RowReduceOp::ArgMax`]. `T` is `f32`, `f16` or `bf16`; sums are in `f32`. [`RowReduceOp`] says
/// what NaN and an empty axis give.
///
/// If there are few results, several blocks split the axis. The blocks of a cluster combine their
/// results first; then the last block or cluster to finish combines those of all, in a fixed order,
/// so that a run is reproducible on the same device. How many parts there are depends on how many
/// blocks the device runs at once.
///
/// A launch takes an [`AxisProblem`] and `(&x, &mut y)`. It does nothing if there are no results.
/// Launches of one loaded kernel run one after the other, even on different streams, because they
/// share a workspace.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::reduce::{AxisProblem, AxisReduce, AxisReduceConfig, RowReduceOp};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // The sums of the columns of a matrix.
/// let problem = AxisProblem { outer: 1, len: 1000, inner: 4 };
/// let x: Vec<f32> = (0..4000).map(|i| (i % 4) as f32).collect();
/// let config = AxisReduceConfig::new(RowReduceOp::Sum, device.target(), Scalar::F32, &problem);
/// let sums = AxisReduce::<f32>::new(config)?.load(&device)?;
/// let mut y = device.zeros::<f32>(4)?;
/// sums.launch(&problem, (&device.upload(&x)?, &mut y))?;
/// assert_eq!(y.to_vec()?, [0.0, 1000.0, 2000.0, 3000.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AxisReduce<T, Y = f32> {
    config: AxisReduceConfig,
    types: PhantomData<fn(T) -> Y>,
}

impl<T: Converted, Y: Converted> AxisReduce<T, Y> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`], [`RowError::Tile`] or [`RowError::Build`].
    #[inline]
    pub fn new(config: AxisReduceConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR, Y::SCALAR)?;
        Ok(Built::new(AxisReduce { config, types: PhantomData }, kernel))
    }
}

impl AxisReduce<AnyElement, AnyElement> {
    /// Builds the kernel for an input type that is a value: see [`AnyElement`]. The results have
    /// the type [`RowReduceOp::output`].
    ///
    /// # Errors
    /// Those of [`new`](AxisReduce::new).
    #[inline]
    pub fn untyped(config: AxisReduceConfig, input: Scalar) -> Result<Built<Self>, RowError> {
        let kernel = config.build(input, config.op.output())?;
        Ok(Built::new(AxisReduce { config, types: PhantomData }, kernel))
    }
}

/// A small GPU for the simulator.
const SIMULATED: Occupancy = Occupancy { blocks_per_sm: 8, sm_count: 2 };

impl<T: BufferElement, Y: BufferElement> ReadyKernel for AxisReduce<T, Y> {
    type Config = AxisReduceConfig;
    type Params = Untyped;
    type Problem = AxisProblem;
    type Args<'a> = (T::Ref<'a>, Y::Mut<'a>);
    type Shared = SplitWorkspace<u32>;
    type Error = RowError;

    fn config(&self) -> &AxisReduceConfig {
        &self.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        _: LoadOptions<'_>,
    ) -> Result<SplitWorkspace<u32>, RowError> {
        Ok(SplitWorkspace::new(function, self.config.threads, SIMULATED)?)
    }

    /// # Errors
    /// [`RowError::TooLarge`], [`RowError::Rows`] or [`RowError::Access`], errors for buffers that
    /// are too short or misaligned, and those of [`Function::launch`].
    fn launch(
        &self,
        problem: &AxisProblem,
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        let start = |grid, args: &mut ArgList<'_>| launch.start_list(grid, args);
        self.config.start(problem, x.into(), y.into(), launch.shared(), &start)
    }
}

impl AxisReduceConfig {
    /// Builds the kernel for elements of these types.
    #[inline]
    fn build(&self, input: Scalar, output: Scalar) -> Result<Kernel<Untyped>, RowError> {
        self.check()?;
        self.op.check_elements(input, output)?;
        Ok(with_elements(input, output, || build(self))?)
    }

    /// Checks a launch, and starts it if there is anything to do.
    #[inline]
    fn start(
        &self,
        problem: &AxisProblem,
        x: BufferRef<'_>,
        y: BufferMut<'_>,
        split: &SplitWorkspace<u32>,
        start: &dyn Fn(Grid, &mut ArgList<'_>) -> Result<(), RuntimeError>,
    ) -> Result<(), RowError> {
        let AxisProblem { outer, len, inner } = *problem;
        let all = problem.results().checked_mul(len.max(1).into()).filter(|all| *all < 1 << 40);
        let all = all.ok_or(RowError::TooLarge { operand: "the input" })?;
        // Coordinates past the last row and column must still fit an `i32`.
        let max = i32::MAX as u32 - (1 << 16);
        if len > max || inner > max {
            return Err(RowError::Rows { rows: len.max(inner) });
        }
        let needed = AxisReduceConfig::new(self.op, self.target, x.scalar(), problem);
        if self.access == RowAccess::Aligned && needed.access != RowAccess::Aligned {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        check_len("the input", x.len(), if len == 0 { 0 } else { all })?;
        check_len("the output", y.as_ref().len(), problem.results())?;
        if !x.is_aligned_to(16) {
            return Err(RowError::Address { operand: "the input" });
        }
        if problem.results() == 0 {
            return Ok(());
        }
        let chunks = self.chunks(x.scalar(), problem);
        let parts = self.parts(split.occupancy().blocks().max(1).into(), chunks, len);
        let blocks = i32::try_from(chunks).map_err(|_| RowError::Rows { rows: outer })?;
        let clusters = parts / u64::from(self.cluster);
        let chunk = u64::from(self.tile().columns(x.scalar()));
        // A single cluster needs no workspace.
        let (words, counters) =
            if clusters > 1 { (2 * chunks * clusters * chunk, chunks) } else { (0, 0) };
        let grid = Grid::new([blocks as u32, parts as u32, 1], [self.threads, 1, 1]);
        split.with(words, counters, |buffers| {
            // In the order of `Params`.
            let mut args = ArgList::default();
            args.buffer(x);
            args.buffer_mut(y);
            args.scalars([len as i32, inner as i32]);
            args.buffer_mut((&mut buffers.partials).into());
            args.buffer_mut((&mut buffers.arrivals).into());
            start(grid, &mut args)
        })?;
        Ok(())
    }
}
