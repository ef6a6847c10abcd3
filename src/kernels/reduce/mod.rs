//! Reductions of rows or along any axis: sum, mean, max, min, norm and argmax, and the k largest
//! elements of rows.

mod axis;
mod best;
mod top_k;
mod words;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, Val, range};
use crate::runtime::{
    AnyElement, ArgList, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::{Indexed, RowAccess, RowPointer, RowTile, tree};

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{
    Input, Output, RowConfig, RowError, RowProblem, check_len, check_matrix, own_row, row_grid,
    with_elements,
};
pub use axis::{AxisProblem, AxisReduce, AxisReduceConfig};
pub use top_k::{TopK, TopKArgs, TopKConfig};

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowReduceOp {
    /// The sum; 0 if there are no elements.
    Sum,
    /// The mean; NaN if there are no elements.
    Mean,
    /// The largest element. NaN is ignored. Negative infinity if all elements are NaN or there are
    /// none.
    Max,
    /// The smallest element. NaN is ignored. Infinity if all elements are NaN or there are none.
    Min,
    /// The square root of the sum of squares; 0 if there are no elements.
    Norm,
    /// The lowest index of the largest element, as `i32`; -1 if there are no elements. NaN counts
    /// as negative infinity.
    ArgMax,
}

impl RowReduceOp {
    /// All reductions.
    pub const ALL: [RowReduceOp; 6] =
        [Self::Sum, Self::Mean, Self::Max, Self::Min, Self::Norm, Self::ArgMax];

    /// Returns the name: `sum`, `mean`, `max`, `min`, `norm` or `argmax`.
    pub const fn name(self) -> &'static str {
        match self {
            RowReduceOp::Sum => "sum",
            RowReduceOp::Mean => "mean",
            RowReduceOp::Max => "max",
            RowReduceOp::Min => "min",
            RowReduceOp::Norm => "norm",
            RowReduceOp::ArgMax => "argmax",
        }
    }

    /// Returns the identity, and the function that combines two partial results, before roots and
    /// divisions.
    fn monoid(self) -> (f32, Combine) {
        match self {
            RowReduceOp::Max => (f32::NEG_INFINITY, |a, b| a.max(b)),
            RowReduceOp::Min => (f32::INFINITY, |a, b| a.min(b)),
            RowReduceOp::ArgMax => (f32::NEG_INFINITY, |a, b| a.max(b)),
            RowReduceOp::Sum | RowReduceOp::Mean | RowReduceOp::Norm => (0.0, |a, b| a + b),
        }
    }

    /// Adds an element with a higher index to a partial result.
    #[inline]
    fn added<'c>(self, found: Indexed<'c>, (value, index): Indexed<'c>) -> Indexed<'c> {
        let squared = if self == RowReduceOp::Norm { value * value } else { value };
        let result = self.monoid().1(found.0, squared);
        (
            result,
            if self == RowReduceOp::ArgMax {
                value.gt(found.0).select(index, found.1)
            } else {
                found.1
            },
        )
    }

    /// Combines two partial results. Of equal elements, the one with the lower index wins.
    #[inline]
    fn combined<'c>(self, a: Indexed<'c>, b: Indexed<'c>) -> Indexed<'c> {
        if self != RowReduceOp::ArgMax {
            return (self.monoid().1(a.0, b.0), a.1);
        }
        let is_better = b.0.gt(a.0) | (b.0.eq(a.0) & b.1.lt(a.1));
        (is_better.select(b.0, a.0), is_better.select(b.1, a.1))
    }

    /// Returns the final result from a partial one over `len` elements.
    fn finished<'c, Y: Converted>(
        self,
        (found, index): Indexed<'c>,
        len: Val<'c, i32>,
    ) -> Val<'c, Y> {
        match self {
            RowReduceOp::ArgMax => {
                let no_index = len.eq(0).select::<i32>(-1, 0);
                found.eq(f32::NEG_INFINITY).select(no_index, index).cvt::<Y>()
            }
            RowReduceOp::Mean => (found / len.cvt::<f32>()).cvt::<Y>(),
            RowReduceOp::Norm => found.sqrt().cvt::<Y>(),
            _ => found.cvt::<Y>(),
        }
    }

    /// Returns the type of the results: `i32` for [`ArgMax`](RowReduceOp::ArgMax), otherwise `f32`.
    pub fn output(self) -> Scalar {
        if self == RowReduceOp::ArgMax { Scalar::I32 } else { Scalar::F32 }
    }

    /// Checks the element types of the input and the results.
    fn check_elements(self, input: Scalar, output: Scalar) -> Result<(), RowError> {
        RowConfig::check_element("the input", input, false)?;
        if output != self.output() {
            let expected = if self == RowReduceOp::ArgMax { "i32" } else { "f32" };
            let (operand, found) = ("the output", output);
            return Err(RowError::Element { operand, found, expected });
        }
        Ok(())
    }
}

/// Combines two partial results.
type Combine = for<'c> fn(Val<'c, f32>, Val<'c, f32>) -> Val<'c, f32>;

/// What decides the generated code of a [`RowReduce`] kernel. [`new`](RowReduceConfig::new) chooses
/// it for rows of a given size; set it yourself if you tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowReduceConfig {
    /// The target and the row tile. A row may be longer than the tile.
    pub rows: RowConfig,
    /// What to compute for each row.
    pub op: RowReduceOp,
}

impl RowReduceConfig {
    /// Returns the configuration for rows of this size with input elements of this type. The
    /// output's pitch is ignored.
    #[inline]
    pub fn new(op: RowReduceOp, target: Target, input: Scalar, problem: &RowProblem) -> Self {
        let access = reduced(problem).access(input);
        let tile = RowTile { threads: 128, team: 32, cluster: 1, vectors: 4, access };
        let vectors = problem.columns.div_ceil(tile.vector(input)).max(1);
        let team = vectors.next_power_of_two().min(32);
        let tile = match vectors {
            0..=128 => RowTile { team, vectors: vectors.div_ceil(team), ..tile },
            129..=1024 => RowTile { team: 128, ..tile },
            1025..=8192 => RowTile { threads: 256, team: 256, ..tile },
            8193..=65_536 => RowTile { threads: 512, team: 512, vectors: 8, ..tile },
            _ => RowTile { threads: 1024, team: 1024, ..tile },
        };
        // Argmax takes more instructions per vector; more threads hide them.
        let is_cluster = target.offers(Target::SM_90) && access != RowAccess::Elements;
        let tile = match (op, vectors) {
            (RowReduceOp::ArgMax, 65..=128) => RowTile { vectors: 2, ..tile },
            // A few long rows: the blocks of a cluster share each.
            (_, 65_537..) if is_cluster && problem.rows <= 32 => {
                let vectors = if op == RowReduceOp::ArgMax { 2 } else { 8 };
                RowTile { threads: 512, team: 512, cluster: 8, vectors, ..tile }
            }
            (RowReduceOp::ArgMax, 129..=1024) if access == RowAccess::Ragged => tile,
            (RowReduceOp::ArgMax, 129..=1024) => {
                RowTile { threads: 256, team: 256, vectors: 2, ..tile }
            }
            (RowReduceOp::ArgMax, 1025..) => {
                RowTile { threads: 512, team: 512, vectors: 2, ..tile }
            }
            _ => tile,
        };
        RowReduceConfig { rows: RowConfig { target, tile }, op }
    }

    /// Returns configurations for a tuner to try, that of [`new`](RowReduceConfig::new) first: a
    /// warp, a block of 128 to 1024 threads or a cluster of 2 to 8 blocks shares a row, and each
    /// thread loads 2, 4 or 8 vectors at once.
    #[inline]
    pub fn candidates(
        op: RowReduceOp,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Vec<Self> {
        let default = Self::new(op, target, input, problem);
        let RowConfig { tile, .. } = default.rows;
        let all = problem.columns.div_ceil(tile.vector(input)).max(1);
        let mut found = vec![default];
        for [threads, team] in [[128, 32], [128; 2], [256; 2], [512; 2], [1024; 2]] {
            for vectors in [2, 4, 8] {
                let rows = RowConfig { target, tile: RowTile { threads, team, vectors, ..tile } };
                let config = RowReduceConfig { rows, op };
                // A row has at least a vector for each thread.
                if (team == 32 || team <= all) && !found.contains(&config) {
                    found.push(config);
                }
            }
        }
        if !target.offers(Target::SM_90) || tile.access == RowAccess::Elements {
            return found;
        }
        for cluster in [2, 4, 8] {
            for [team, vectors] in [[256, 4], [512, 2], [512, 4], [1024, 4], [1024, 8]] {
                let tile = RowTile { threads: team, team, vectors, cluster, ..tile };
                // Each thread has all its vectors.
                if tile.sharers() * vectors <= all {
                    found.push(RowReduceConfig { rows: RowConfig { target, tile }, op });
                }
            }
        }
        found
    }
}

/// Prints the configuration's name: what it computes, then the name of the [`RowConfig`], for
/// example `sum_128x4`.
impl fmt::Display for RowReduceConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.op.name(), self.rows)
    }
}

/// Returns the problem with the input's pitch for both sides.
fn reduced(problem: &RowProblem) -> RowProblem {
    RowProblem { output_pitch: problem.input_pitch, ..*problem }
}

/// The maximum row length.
const MAX_COLUMNS: u32 = 1 << 30;

/// The input with its pitch; the results; rows and columns.
type Params<T, Y> = ((Global<T>, i64), GlobalMut<Y>, [i32; 2]);

/// Reduces each row of a matrix to one value: an `f32`, or an `i32` for [`RowReduceOp::ArgMax`].
/// `T` is `f32`, `f16` or `bf16`; sums are in `f32`. A warp, a block or a cluster reduces a row,
/// which may have up to 2^30 columns. To reduce along another axis than the last, use
/// [`AxisReduce`].
///
/// A launch takes a [`RowProblem`] and `(&x, &mut y)`; `y[row]` is the row's result. It does
/// nothing if there are no rows.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::reduce::{RowReduce, RowReduceConfig, RowReduceOp};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = RowProblem::new(2, 1000);
/// let x: Vec<bf16> = (0..2000).map(|i| bf16::from_f32((i % 250) as f32)).collect();
/// let x = device.upload(&x)?;
/// let config = RowReduceConfig::new(RowReduceOp::Sum, device.target(), Scalar::Bf16, &problem);
/// let mut sums = device.zeros::<f32>(2)?;
/// RowReduce::<bf16>::new(config)?.load(&device)?.launch(&problem, (&x, &mut sums))?;
/// assert_eq!(sums.to_vec()?, [4.0 * 31_125.0; 2]);
///
/// let config = RowReduceConfig { op: RowReduceOp::ArgMax, ..config };
/// let mut columns = device.zeros::<i32>(2)?;
/// RowReduce::<bf16, i32>::new(config)?.load(&device)?.launch(&problem, (&x, &mut columns))?;
/// assert_eq!(columns.to_vec()?, [249, 249]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RowReduce<T, Y = f32> {
    config: RowReduceConfig,
    types: PhantomData<fn(T) -> Y>,
}

impl<T: Converted, Y: Converted> RowReduce<T, Y> {
    /// The maximum row length.
    pub const MAX_COLUMNS: u32 = MAX_COLUMNS;

    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], [`RowError::Element`] for an unsupported type,
    /// or [`RowError::Tile`].
    #[inline]
    pub fn new(config: RowReduceConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR, Y::SCALAR)?;
        Ok(Built::new(RowReduce { config, types: PhantomData }, kernel))
    }
}

impl RowReduce<AnyElement, AnyElement> {
    /// Builds the kernel for an input type that is a value: see [`AnyElement`]. The results have
    /// the type [`RowReduceOp::output`].
    ///
    /// # Errors
    /// Those of [`new`](RowReduce::new).
    #[inline]
    pub fn untyped(config: RowReduceConfig, input: Scalar) -> Result<Built<Self>, RowError> {
        let kernel = config.build(input, config.op.output())?;
        Ok(Built::new(RowReduce { config, types: PhantomData }, kernel))
    }
}

impl<T: BufferElement, Y: BufferElement> ReadyKernel for RowReduce<T, Y> {
    type Config = RowReduceConfig;
    type Params = Untyped;
    type Problem = RowProblem;
    type Args<'a> = (T::Ref<'a>, Y::Mut<'a>);
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &RowReduceConfig {
        &self.config
    }

    fn share(&self, _: &Function<Self::Params>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Returns the errors of [`RowConfig::check_problem`], with up to
    /// [`MAX_COLUMNS`](RowReduce::MAX_COLUMNS) columns, and of [`Function::launch`], and errors for
    /// buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &RowProblem,
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.config.bind(problem, x.into(), y.into(), args))
    }
}

impl RowReduceConfig {
    /// Builds the kernel for elements of these types.
    #[inline]
    fn build(&self, input: Scalar, output: Scalar) -> Result<Kernel<Untyped>, RowError> {
        self.rows.check()?;
        self.op.check_elements(input, output)?;
        Ok(with_elements(input, output, || build(self))?)
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &RowProblem,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let tile = &self.rows.tile;
        let [pitch, _] = reduced(problem).check(tile, x.scalar(), MAX_COLUMNS)?;
        check_matrix("the input", tile, x, problem.len(pitch))?;
        check_len("the output", y.as_ref().len(), problem.rows.into())?;
        if problem.rows == 0 {
            return Ok(None);
        }
        // In the order of `Params`.
        args.buffer(x);
        args.scalars([pitch as i64]);
        args.buffer_mut(y);
        args.scalars([problem.rows, problem.columns].map(|size| size as i32));
        Ok(Some(row_grid(tile, problem.rows)))
    }
}

/// In each step a thread reduces its elements to one value, and combines it with the steps before.
#[inline]
fn build(config: &RowReduceConfig) -> Result<Kernel<Params<Input, Output>>, BuildErrors> {
    let RowReduceConfig { rows: RowConfig { target, tile }, op } = *config;
    let name = format!("row_{}_{}_{}", op.name(), Input::scalar(), config.rows);
    Kernel::<Params<Input, Output>>::build_with(
        tile.options(),
        &name,
        target,
        |k, ((x, pitch), y, sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let part = tile.part::<Input>(k, row * pitch, columns);
            let x = x.offset(row * pitch);
            let is_first = part.is_leader() & row.lt(sizes[0].cvt::<i64>());
            if op == RowReduceOp::ArgMax {
                // Each thread keeps its largest element and the first step that had it, and looks
                // for the column in that step only.
                let (lowest, access) = (k.constant(f32::NEG_INFINITY), <Global<Input>>::access());
                let (own, step) =
                    k.for_(range(0, part.steps()), (lowest, 0), |k, step, (max, at)| {
                        let own =
                            part.step(step).load_inner(k, x, f32::NEG_INFINITY, access).max(lowest);
                        (own.max(max), own.gt(max).select(step, at))
                    });
                let own_end = part.load_ends(k, x, f32::NEG_INFINITY).max(lowest);
                let max = k.max(tile.group(), own.max(own_end));
                let has = own.eq(max) | own_end.eq(max);
                let at = k.if_with(has, i32::MAX, |k| part.first_equal(k, x, step, max));
                let mut found = (max, k.min(tile.group(), at));
                if tile.cluster > 1 {
                    // Columns are exchanged bit-cast to `f32`.
                    let own = [max, found.1.bitcast()];
                    let [max, at] = part.reduce(own, |_, a, b| {
                        let [a, b] = [a, b].map(|[value, at]| (value, at.bitcast()));
                        let (value, at) = op.combined(a, b);
                        [value, at.bitcast()]
                    });
                    found = (max, at.bitcast());
                }
                k.if_(is_first, |_| y.store(row, op.finished(found, columns)));
                return;
            }
            let (identity, combine) = op.monoid();
            let own = k.for_(range(0, part.steps()), identity, |k, step, sum| {
                let mut values = part.step(step).load(x, identity);
                if op == RowReduceOp::Norm {
                    values = values.iter().map(|value| *value * *value).collect();
                }
                combine(sum, tree(k.constant(identity), &values, combine))
            });
            let [result] = part.reduce([own], |_, [a], [b]| [combine(a, b)]);
            let result = (result, columns);
            k.if_(is_first, |_| y.store(row, op.finished(result, columns)));
        },
    )
}
