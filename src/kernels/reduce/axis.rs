//! [`AxisReduce`]: reductions along any axis of a tensor.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelIr, MutPointer, Target, Val, Var, range,
};
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions};
use crate::tensor::{RowAccess, RowTile};

use super::super::arrival::is_last_to_arrive;
use super::super::rows::{RowConfig, RowError, check_aligned, check_len};
use super::RowReduceOp;

/// A compact tensor (outer, axis, inner) and the axis that is reduced: the modes before it are one, and so are those after
/// it. Where there is none after it, [`RowReduce`](super::RowReduce) reads whole rows.
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
    /// The elements along the axis.
    pub len: u32,
    /// The product of the modes after the axis.
    pub inner: u32,
}

impl AxisProblem {
    /// The problem of an axis of a compact tensor whose last mode is contiguous: `None` if there is no such axis, or sizes
    /// of 2^32 or more.
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

    /// Returns the number of results.
    pub fn results(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }
}

/// The configuration of an [`AxisReduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AxisReduceConfig {
    /// The target.
    pub target: Target,
    /// The accesses: `Aligned`, or `Elements` where `inner` is no multiple of 16 bytes.
    pub access: RowAccess,
    /// The result.
    pub op: RowReduceOp,
}

impl AxisReduceConfig {
    /// The configuration for a problem with elements of this type.
    pub fn new(op: RowReduceOp, target: Target, elem: Scalar, problem: &AxisProblem) -> Self {
        let vector = (RowTile::VECTOR_BYTES / elem.size_bytes().max(1)).max(1);
        let access = match problem.inner.is_multiple_of(vector) {
            true => RowAccess::Aligned,
            false => RowAccess::Elements,
        };
        AxisReduceConfig { target, access, op }
    }

    /// Warps of a block share columns; each lane has 16 bytes of a row, or 4 elements.
    fn tile(&self) -> RowTile {
        let vectors = if self.access == RowAccess::Aligned { 1 } else { 4 };
        let (access, threads) = (self.access, 32 * WARPS);
        RowTile { threads, team: 32, cluster: 1, vectors, access, stages: 0 }
    }

    fn check(&self) -> Result<(), RowError> {
        match self.access {
            RowAccess::Aligned | RowAccess::Elements => Ok(()),
            RowAccess::Ragged => Err(RowError::Tile { rule: "rows along an axis are not ragged" }),
        }
    }
}

/// The name of the configuration: `sum`, `max_elements`.
impl fmt::Display for AxisReduceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name())?;
        f.write_str(if self.access == RowAccess::Aligned { "" } else { "_elements" })
    }
}

/// The warps of a block, which have every eighth row.
const WARPS: u32 = 8;
/// The rows that a warp loads at once. Those of the next iteration are in flight too.
const IN_FLIGHT: u32 = 4;
/// The rows that a block has at least, if the axis is split.
const LEAST_ROWS: u32 = 64;
/// The rows that a block could read in the time of its start and of the exchange of its result.
const START_ROWS: u64 = 32;

/// The input, the output, `[len, inner, parts of the axis]`, the divisor of a mean, and the workspace: the results of the
/// parts, and the parts that are reduced of each chunk of columns.
type Params<T, Y> = (Global<T>, GlobalMut<Y>, [i32; 3], f32, (GlobalMut<f32>, GlobalMut<u32>));

/// A reduction of a tensor of `T` along an axis: `y(o, i) = op over j of x(o, j, i)`, as `f32`, or `i32` for
/// [`RowReduceOp::ArgMax`]. The results for special and for no elements are those of [`RowReduceOp`]. `T` is `f32`, `f16` or
/// `bf16`; sums are `f32`.
///
/// Where there are few results, several blocks reduce parts of the axis. The last one of them to end reduces their results, in
/// a fixed order. The number of parts depends on the blocks that the device runs at once.
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
/// sums.launch(&problem, &device.upload(&x)?, &mut y)?;
/// assert_eq!(y.to_vec()?, [0.0, 1000.0, 2000.0, 3000.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AxisReduce<T, Y = f32> {
    config: AxisReduceConfig,
    kernel: Kernel<Params<T, Y>>,
}

impl<T: Converted, Y: Converted> AxisReduce<T, Y> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`], [`RowError::Tile`], [`RowError::Build`].
    pub fn new(config: AxisReduceConfig) -> Result<Self, RowError> {
        config.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        let is_arg = config.op == RowReduceOp::ArgMax;
        let (scalar, expected) = if is_arg { (Scalar::I32, "i32") } else { (Scalar::F32, "f32") };
        if Y::SCALAR != scalar {
            let (operand, found) = ("the output", Y::SCALAR);
            return Err(RowError::Element { operand, found, expected });
        }
        Ok(AxisReduce { config, kernel: build(&config)? })
    }

    /// The configuration.
    pub fn config(&self) -> &AxisReduceConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AxisReduceFunction<T, Y>, RowError> {
        let (config, function) = (self.config, device.load(&self.kernel)?);
        let occupancy = function.occupancy(config.tile().threads)?;
        // On the simulator an axis is split, too.
        let resident = occupancy.map_or(16, |occupancy| occupancy.blocks()).max(1).into();
        let workspace = Mutex::new((device.zeros(1)?, device.zeros(1)?));
        Ok(AxisReduceFunction { config, function, resident, workspace })
    }
}

/// An [`AxisReduce`] that a device has loaded.
#[derive(Debug)]
pub struct AxisReduceFunction<T, Y = f32> {
    config: AxisReduceConfig,
    function: Function<Params<T, Y>>,
    /// The blocks that run at once.
    resident: u64,
    /// The results of parts of an axis, as large as any launch needed, and the arrivals at each chunk: 0 before and after a
    /// launch. Launches come after each other for it.
    workspace: Mutex<(Buffer<f32>, Buffer<u32>)>,
}

impl<T: Converted, Y: Converted> AxisReduceFunction<T, Y> {
    /// Starts the kernel, on the stream for all work that names none. No results are no work. Launches of one function come
    /// after each other, also those on several streams: they share a workspace.
    ///
    /// # Errors
    /// [`RowError::TooLarge`], [`RowError::Rows`], [`RowError::Access`]; buffers that are too short or misaligned; those of
    /// [`Function::launch`].
    pub fn launch(
        &self,
        problem: &AxisProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// As [`launch`](AxisReduceFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](AxisReduceFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &AxisProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        let AxisProblem { outer, len, inner } = *problem;
        let tile = self.config.tile();
        let all = problem.results().checked_mul(len.max(1).into()).filter(|all| *all < 1 << 40);
        let all = all.ok_or(RowError::TooLarge { operand: "the input" })?;
        let sizes = [len, inner].map(i32::try_from);
        let [Ok(rows), Ok(columns)] = sizes else {
            return Err(RowError::Rows { rows: len.max(inner) });
        };
        let needed = AxisReduceConfig::new(self.config.op, self.config.target, T::SCALAR, problem);
        if self.config.access == RowAccess::Aligned && needed.access != RowAccess::Aligned {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        check_len("the input", x.len(), if len == 0 { 0 } else { all })?;
        check_len("the output", y.len(), problem.results())?;
        check_aligned("the input", &tile, x.is_aligned_to(16))?;
        if problem.results() == 0 {
            return Ok(());
        }
        let chunk = tile.capacity(T::SCALAR);
        let chunks = u64::from(inner.div_ceil(chunk)) * u64::from(outer);
        let parts = self.parts(chunks, len);
        let blocks = i32::try_from(chunks * parts).map_err(|_| RowError::Rows { rows: outer })?;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let (partials, arrivals) = &mut *workspace;
        if parts > 1 {
            let numbers = if self.config.op == RowReduceOp::ArgMax { 2 } else { 1 };
            let numbers = numbers * chunks * parts * u64::from(chunk);
            if (partials.len() as u64) < numbers {
                *partials = partials.device().zeros(numbers as usize)?;
            }
            if (arrivals.len() as u64) < chunks {
                *arrivals = arrivals.device().zeros(chunks as usize)?;
            }
        }
        let grid = Grid::new([blocks as u32, 1, 1], [tile.threads, 1, 1]);
        let sizes = [rows, columns, parts as i32];
        let args = (x, y, sizes, len as f32, (partials, &mut *arrivals));
        let launched = self.function.launch_with(options, grid, args);
        if launched.is_err() {
            // Blocks that the simulator stopped have not arrived.
            *arrivals = arrivals.device().zeros(arrivals.len())?;
        }
        Ok(launched?)
    }

    /// Returns the parts of an axis with `chunks` chunks of columns: as many as 1 to 8 waves of blocks have room for, in the
    /// shortest time.
    fn parts(&self, chunks: u64, len: u32) -> u64 {
        let (resident, most) = (self.resident, u64::from(len / LEAST_ROWS).max(1));
        let rows = |parts: u64| u64::from(len).div_ceil(parts) + START_ROWS;
        let time = |parts: &u64| (chunks * parts).div_ceil(resident) * rows(*parts);
        let candidates = (1..=8).map(|waves| (waves * resident / chunks).clamp(1, most));
        candidates.min_by_key(time).unwrap_or(1)
    }
}

/// The warps of a block reduce every eighth row of a part of a chunk of columns, and then a thread the results of the warps for
/// a column. The last block to arrive at a chunk reduces the results of its parts in the same way.
fn build<T: Converted, Y: Converted>(
    config: &AxisReduceConfig,
) -> Result<Kernel<Params<T, Y>>, BuildErrors> {
    let AxisReduceConfig { target, op, .. } = *config;
    let tile = config.tile();
    let chunk = tile.capacity(T::SCALAR);
    let (is_arg, identity) = (op == RowReduceOp::ArgMax, op.monoid().0);
    // 64 registers for each thread, or 80: more loads in flight need more of them.
    let blocks = if config.access == RowAccess::Aligned { 4 } else { 3 };
    Kernel::<Params<T, Y>>::build_with(
        tile.options().min_blocks_per_sm(blocks),
        &format!("axis_{config}_{}", T::SCALAR),
        target,
        |k, (x, y, [len, inner, parts], divisor, (partials, arrivals))| {
            // Blocks beside each other read columns beside each other.
            let (block, all) = (k.block_idx().x, k.grid_dim().x / parts);
            let (number, rest) = (block / all, block % all);
            let chunks = (inner + (chunk as i32 - 1)) / chunk as i32;
            let (outer, column) = (rest / chunks, rest % chunks * chunk as i32);
            let each = (len + (parts - 1)) / parts;
            let (first, end) = (number * each, (number * each + each).min(len));
            let (thread, warp, lane) = (k.thread_idx().x, k.thread_idx().x / 32, k.lane_id());
            let columns = (inner - column).min(chunk as i32);
            let x = x.offset(outer.mul_wide(len) * wide(inner) + wide(column));
            let fill = if is_arg { f32::NAN } else { identity };
            let best: Vec<_> =
                (0..chunk / 32).map(|_| (k.var(identity), k.var(i32::MAX))).collect();
            let rows = range(first + warp, end).step(WARPS * IN_FLIGHT).prefetch_stages(1);
            k.for_(rows, (), |k, row, ()| {
                let rows = (0..IN_FLIGHT).map(|number| row + (number * WARPS) as i32);
                let loaded = rows.map(|row| {
                    let columns = row.lt(end).select(columns, 0);
                    let part = tile.part::<T>(k, k.constant(0i64), columns);
                    (row, part.load(k, x.offset(row.mul_wide(inner)), fill))
                });
                for (row, values) in loaded.collect::<Vec<_>>() {
                    for (value, best) in values.into_iter().zip(&best) {
                        let is_norm = op == RowReduceOp::Norm;
                        let value = if is_norm { value * value } else { value };
                        set(k, best, combined(op, get(k, best), (value, row)));
                    }
                }
            });
            let places = is_arg.then(|| k.shared::<i32>(WARPS * chunk));
            let of_warps = Slots { values: k.shared::<f32>(WARPS * chunk), places, chunk };
            let share = |k: &Body<'_, '_>| {
                let own = of_warps.at(warp, lane);
                (0..).zip(&best).for_each(|(at, best)| own.store(k, at * 32, get(k, best)));
                k.barrier();
            };
            share(k);
            let is_last = k.if_with(parts.gt(1), true, |k| {
                let total = wide(k.grid_dim().x) * i64::from(chunk);
                let places = is_arg.then(|| partials.ptr_cast::<i32>().offset(total));
                let of_parts = Slots { values: partials, places, chunk };
                k.if_(thread.lt(chunk), |k| {
                    let own = of_parts.at(rest * parts + number, thread);
                    own.store(k, 0, of_warps.combined(k, op, thread));
                });
                let barrier = (k.named_barrier(1, tile.threads).aligned(), thread.eq(0));
                let is_last = is_last_to_arrive(k, arrivals.offset(rest), parts, barrier);
                k.if_(is_last, |k| {
                    best.iter().for_each(|best| {
                        set(k, best, (k.constant(identity), k.constant(i32::MAX)))
                    });
                    k.for_(range(warp, parts).step(WARPS).unroll(4), (), |k, part, ()| {
                        let part = of_parts.at(rest * parts + part, lane);
                        for (at, best) in (0..).zip(&best) {
                            set(k, best, combined(op, get(k, best), part.load(k, at * 32)));
                        }
                    });
                    share(k);
                });
                is_last
            });
            // The column of result `thread` of a slot.
            let own = match config.access {
                RowAccess::Elements => thread,
                _ => lane * (chunk / 32) as i32 + warp,
            };
            k.if_(is_last & thread.lt(chunk) & own.lt(columns), |k| {
                let (found, at) = of_warps.combined(k, op, thread);
                let result = match op {
                    RowReduceOp::ArgMax => {
                        let none = len.eq(0).select::<i32>(-1, 0);
                        found.eq(f32::NEG_INFINITY).select(none, at).cvt::<Y>()
                    }
                    RowReduceOp::Mean => (found / divisor).cvt::<Y>(),
                    RowReduceOp::Norm => found.sqrt().cvt::<Y>(),
                    _ => found.cvt::<Y>(),
                };
                y.store(k, outer.mul_wide(inner) + wide(column + own), result);
            });
        },
    )
}

fn wide(value: Val<'_, i32>) -> Val<'_, i64> {
    value.cvt::<i64>()
}

/// A result, and of [`RowReduceOp::ArgMax`] its row.
type Found<'c> = (Val<'c, f32>, Val<'c, i32>);

fn get<'c, 'b: 'c>(k: &Body<'c, '_>, (value, row): &(Var<'b, f32>, Var<'b, i32>)) -> Found<'c> {
    (value.get(k), row.get(k))
}

fn set<'c, 'b: 'c>(k: &Body<'c, '_>, to: &(Var<'b, f32>, Var<'b, i32>), found: Found<'c>) {
    to.0.set(k, found.0);
    to.1.set(k, found.1);
}

/// Returns the result of two; of equal elements the one in the lower row counts.
fn combined<'c>(op: RowReduceOp, a: Found<'c>, b: Found<'c>) -> Found<'c> {
    if op != RowReduceOp::ArgMax {
        return (op.monoid().1(a.0, b.0), a.1);
    }
    let is_better = b.0.gt(a.0) | (b.0.eq(a.0) & b.1.lt(a.1));
    (is_better.select(b.0, a.0), is_better.select(b.1, a.1))
}

/// Results in memory, with their rows: slots of a result for each column of a chunk. Those of all lanes for their first column
/// come first.
struct Slots<'b, P, R> {
    values: Val<'b, P>,
    places: Option<Val<'b, R>>,
    chunk: u32,
}

impl<'b, P: MutPointer<Elem = f32>, R: MutPointer<Elem = i32>> Slots<'b, P, R> {
    /// Returns the results of a slot from `number` on.
    fn at<'c>(&self, slot: Val<'c, i32>, number: Val<'c, i32>) -> Slots<'c, P, R>
    where
        'b: 'c,
    {
        let at = wide(slot) * i64::from(self.chunk) + wide(number);
        let places = self.places.map(|places| places.offset(at));
        Slots { values: self.values.offset(at), places, chunk: self.chunk }
    }

    fn store(&self, k: &Body<'_, '_>, at: i32, found: Found<'_>) {
        self.values.store(k, at, found.0);
        self.places.inspect(|places| places.store(k, at, found.1));
    }

    fn load<'c>(&self, k: &Body<'c, '_>, at: i32) -> Found<'c>
    where
        'b: 'c,
    {
        let place = self.places.map(|places| places.load(k, at));
        (self.values.load(k, at), place.unwrap_or_else(|| k.constant(i32::MAX)))
    }

    /// Returns result `number` of the slots of all warps.
    fn combined<'c>(&self, k: &Body<'c, '_>, op: RowReduceOp, number: Val<'c, i32>) -> Found<'c>
    where
        'b: 'c,
    {
        let first = self.at(k.constant(0), number);
        let of = |warp: u32| first.load(k, (warp * self.chunk) as i32);
        (1..WARPS).fold(of(0), |found, warp| combined(op, found, of(warp)))
    }
}
