//! [`AxisReduce`]: reductions along any axis of a tensor.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target, Val, range};
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions};
use crate::tensor::{RowAccess, RowTile};

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
/// The rows that a warp has in flight.
const IN_FLIGHT: u32 = 4;
/// The blocks that a launch has at least, if the axis is long: each SM of a large GPU has four.
const BLOCKS: u64 = 528;
/// The rows that a block has at least, if the axis is split.
const LEAST_ROWS: u32 = 128;

/// The input, the output, `[len, inner, parts of the axis]`, and the divisor of a mean.
type Params<T, Y> = (Global<T>, GlobalMut<Y>, [i32; 3], f32);

/// The kernels of a split axis: of its parts, and of their results.
type SplitKernels<T, Y> = (Kernel<Params<T, f32>>, Kernel<Params<f32, Y>>);
type SplitFunctions<T, Y> = (Function<Params<T, f32>>, Function<Params<f32, Y>>);

/// A reduction of a tensor of `T` along an axis: `y(o, i) = op over j of x(o, j, i)`, as `f32`, or `i32` for
/// [`RowReduceOp::ArgMax`]. The results for special and for no elements are those of [`RowReduceOp`]. `T` is `f32`, `f16` or
/// `bf16`; sums are `f32`.
///
/// Where there are few results, several blocks reduce parts of the axis, and a second launch reduces their results, in a
/// fixed order. `ArgMax` is not split.
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
    split: Option<SplitKernels<T, Y>>,
}

impl<T: Converted, Y: Converted> AxisReduce<T, Y> {
    /// Builds the kernels.
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
        let split = match is_arg {
            true => None,
            false => {
                let second = AxisReduceConfig { access: RowAccess::Elements, ..config };
                let parts = build(&config, Pass::Parts)?;
                Some((parts, build(&second, Pass::Results)?))
            }
        };
        Ok(AxisReduce { config, kernel: build(&config, Pass::Whole)?, split })
    }

    /// The configuration.
    pub fn config(&self) -> &AxisReduceConfig {
        &self.config
    }

    /// The kernel of an axis that is not split, as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// The kernel of an axis that is not split, as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }

    /// Loads the kernels.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AxisReduceFunction<T, Y>, RowError> {
        let split = match &self.split {
            None => None,
            Some((parts, results)) => Some((device.load(parts)?, device.load(results)?)),
        };
        let (config, function) = (self.config, device.load(&self.kernel)?);
        let workspace = Mutex::new(device.zeros(1)?);
        Ok(AxisReduceFunction { config, function, split, workspace })
    }
}

/// An [`AxisReduce`] that a device has loaded.
#[derive(Debug)]
pub struct AxisReduceFunction<T, Y = f32> {
    config: AxisReduceConfig,
    function: Function<Params<T, Y>>,
    split: Option<SplitFunctions<T, Y>>,
    /// The results of parts of an axis, as large as any launch needed. Launches come after each other for it.
    workspace: Mutex<Buffer<f32>>,
}

impl<T: Converted, Y: Converted> AxisReduceFunction<T, Y> {
    /// Starts the kernels, on the stream for all work that names none. No results are no work.
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
        let grid = |tile: &RowTile, elem, parts: u32| {
            let chunks = u64::from(inner.div_ceil(tile.capacity(elem))) * u64::from(outer);
            let blocks = u32::try_from(chunks * u64::from(parts)).ok();
            let blocks = blocks.filter(|blocks| *blocks <= i32::MAX as u32);
            let blocks = blocks.ok_or(RowError::Rows { rows: outer })?;
            Ok::<_, RowError>((Grid::new([blocks, 1, 1], [tile.threads, 1, 1]), chunks))
        };
        let (whole, chunks) = grid(&tile, T::SCALAR, 1)?;
        let parts = (BLOCKS.div_ceil(chunks) as u32).min(len / LEAST_ROWS).max(1);
        let divisor = len as f32;
        if let (Some((first, second)), 2..) = (&self.split, parts) {
            let mut space = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
            let needed = problem.results() as usize * parts as usize;
            if space.len() < needed {
                *space = x.device().zeros(needed)?;
            }
            let (grid_of_parts, _) = grid(&tile, T::SCALAR, parts)?;
            let args = (x, &mut *space, [rows, columns, parts as i32], divisor);
            first.launch_with(options, grid_of_parts, args)?;
            let tile = AxisReduceConfig { access: RowAccess::Elements, ..self.config }.tile();
            let (grid_of_results, _) = grid(&tile, Scalar::F32, 1)?;
            let args = (&*space, y, [parts as i32, columns, 1], divisor);
            return Ok(second.launch_with(options, grid_of_results, args)?);
        }
        Ok(self.function.launch_with(options, whole, (x, y, [rows, columns, 1], divisor))?)
    }
}

/// The pass over the axis: all of it, a part of it, or the results of parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Whole,
    Parts,
    Results,
}

/// The warps of a block reduce every eighth row of a chunk of columns; the first warp adds the results of the others.
fn build<T: Converted, Y: Converted>(
    config: &AxisReduceConfig,
    pass: Pass,
) -> Result<Kernel<Params<T, Y>>, BuildErrors> {
    let AxisReduceConfig { target, op, .. } = *config;
    let tile = config.tile();
    let chunk = tile.capacity(T::SCALAR) as i32;
    let name = match pass {
        Pass::Whole => format!("axis_{config}_{}", T::SCALAR),
        Pass::Parts => format!("axis_{config}_{}_parts", T::SCALAR),
        Pass::Results => format!("axis_{config}_{}_results", T::SCALAR),
    };
    Kernel::<Params<T, Y>>::build_with(
        tile.options(),
        &name,
        target,
        |k, (x, y, [len, inner, parts], divisor)| {
            let (block, chunks) = (k.block_idx().x, (inner + (chunk - 1)) / chunk);
            let (number, rest) = (block % parts, block / parts);
            let (outer, column) = (rest / chunks, rest % chunks * chunk);
            let each = (len + (parts - 1)) / parts;
            let (first, end) = (number * each, (number * each + each).min(len));
            let (warp, lane) = (k.thread_idx().x / 32, k.lane_id());
            let columns = (inner - column).min(chunk);
            let x = x.offset(wide(outer) * wide(len) * wide(inner) + wide(column));
            let is_arg = op == RowReduceOp::ArgMax;
            let (identity, combine) = op.monoid();
            let fill = if is_arg { f32::NAN } else { identity };
            let own = tile.part::<T>(k, k.constant(0i64), columns);
            let best: Vec<_> =
                own.columns().iter().map(|_| (k.var(identity), k.var(i32::MAX))).collect();
            let rows = range(first + warp, end).step((WARPS * IN_FLIGHT) as i32);
            k.for_(rows, (), |k, row, ()| {
                let rows = (0..IN_FLIGHT).map(|number| row + (number * WARPS) as i32);
                let loaded: Vec<_> = rows
                    .map(|row| {
                        let columns = row.lt(end).select(columns, 0);
                        let part = tile.part::<T>(k, k.constant(0i64), columns);
                        (row, part.load(k, x.offset(wide(row) * wide(inner)), fill))
                    })
                    .collect();
                for (row, values) in loaded {
                    for (value, (found, at)) in values.into_iter().zip(&best) {
                        let is_norm = op == RowReduceOp::Norm && pass != Pass::Results;
                        let value = if is_norm { value * value } else { value };
                        let old = found.get(k);
                        if is_arg {
                            at.set(k, value.gt(old).select(row, at.get(k)));
                            found.set(k, value.gt(old).select(value, old));
                        } else {
                            found.set(k, combine(old, value));
                        }
                    }
                }
            });
            let slots = WARPS * 32 * best.len() as u32;
            let all = (k.shared::<f32>(slots), is_arg.then(|| k.shared::<i32>(slots)));
            let values = best.len() as i32;
            for (i, (found, at)) in best.iter().enumerate() {
                all.0.store(k, slot(warp, values, i) + lane, found.get(k));
                all.1.inspect(|all| all.store(k, slot(warp, values, i) + lane, at.get(k)));
            }
            k.barrier();
            let results = (wide(outer) * wide(parts) + wide(number)) * wide(inner) + wide(column);
            for (i, own) in own.columns().into_iter().enumerate() {
                k.if_(warp.eq(0) & own.lt(columns), |k| {
                    let (mut found, mut at) = (best[i].0.get(k), best[i].1.get(k));
                    for warp in 1..WARPS as i32 {
                        let from = slot(k.constant(warp), values, i) + lane;
                        let other = all.0.load(k, from);
                        if let Some(places) = all.1 {
                            let place = places.load(k, from);
                            let better = other.gt(found) | (other.eq(found) & place.lt(at));
                            found = better.select(other, found);
                            at = better.select(place, at);
                        } else {
                            found = combine(found, other);
                        }
                    }
                    let result = match op {
                        _ if pass == Pass::Parts => found.cvt::<Y>(),
                        RowReduceOp::ArgMax => {
                            let none = len.eq(0).select::<i32>(-1, 0);
                            found.eq(f32::NEG_INFINITY).select(none, at).cvt::<Y>()
                        }
                        RowReduceOp::Mean => (found / divisor).cvt::<Y>(),
                        RowReduceOp::Norm => found.sqrt().cvt::<Y>(),
                        _ => found.cvt::<Y>(),
                    };
                    y.store(k, results + wide(own), result);
                });
            }
        },
    )
}

fn wide(value: Val<'_, i32>) -> Val<'_, i64> {
    value.cvt::<i64>()
}

/// Returns the slots of number `i` of the `values` of a warp's lanes.
fn slot(warp: Val<'_, i32>, values: i32, i: usize) -> Val<'_, i32> {
    (warp * values + i as i32) * 32
}
