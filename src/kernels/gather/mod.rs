//! Gather and scatter of the rows of a matrix by a list of their numbers.

mod launch;

use std::fmt;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Element, Global, GlobalMut, Kernel, Target, Val, range};
use crate::tensor::RowAccess;

use super::rows::{Input, RowConfig, RowError, RowProblem, own_row, with_elements};
pub use launch::RowGatherFunction;

/// The side whose rows are numbered by the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatherSide {
    /// Gather: row `i` of the output is row `index[i]` of the input.
    Input,
    /// Scatter: row `index[i]` of the output is row `i` of the input. No two numbers in the list are equal.
    Output,
}

impl GatherSide {
    /// The name of the operation: `gather` or `scatter`.
    pub const fn name(self) -> &'static str {
        match self {
            GatherSide::Input => "gather",
            GatherSide::Output => "scatter",
        }
    }
}

/// The configuration of a [`RowGather`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowGatherConfig {
    /// The target and the tile of a row; a row may be longer than the tile. Clusters share no row.
    pub rows: RowConfig,
    /// The side whose rows are numbered by the list.
    pub side: GatherSide,
}

impl RowGatherConfig {
    /// The configuration for rows of these sizes: `rows` of the problem is the length of the list.
    #[inline]
    pub fn new(side: GatherSide, target: Target, elem: Scalar, problem: &RowProblem) -> Self {
        let access = Self::access(elem, problem);
        RowGatherConfig { rows: RowConfig::of_copy(target, elem, access, problem.columns), side }
    }

    /// Returns configurations to choose from for rows of these sizes, the one of [`new`](RowGatherConfig::new) first.
    #[inline]
    pub fn candidates(
        side: GatherSide,
        target: Target,
        elem: Scalar,
        problem: &RowProblem,
    ) -> Vec<Self> {
        let access = Self::access(elem, problem);
        let rows = RowConfig::copies(target, elem, access, problem.columns).into_iter();
        rows.map(|rows| RowGatherConfig { rows, side }).collect()
    }

    #[inline]
    fn access(elem: Scalar, problem: &RowProblem) -> RowAccess {
        // The numbered side has other rows than the list, so pitches count for a list of one row, too.
        RowProblem { rows: problem.rows.max(2), ..*problem }.access(elem)
    }
}

/// The name of the configuration: `gather` or `scatter`, and the name of [`RowConfig`].
impl fmt::Display for RowGatherConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.side.name(), self.rows)
    }
}

/// The input and the output, each with its pitch; the list; the rows of the numbered side; rows and columns.
type Params<T> = ((Global<T>, i64), (GlobalMut<T>, i64), Global<i32>, i32, [i32; 2]);

/// Copies rows of `f32`, `f16`, `bf16` or an `f8` whose numbers a list has. A number below 0 or beyond the last row is left
/// out: the row of a gather's output stays as it is.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherConfig};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // 3 of 4 rows, of 2 columns each.
/// let problem = RowProblem::new(3, 2);
/// let config = RowGatherConfig::new(GatherSide::Input, device.target(), Scalar::F32, &problem);
/// let gather = RowGather::<f32>::new(config)?.load(&device)?;
/// let x = device.upload(&[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])?;
/// let (index, mut y) = (device.upload(&[3, 0, 3])?, device.zeros::<f32>(6)?);
/// gather.launch(&problem, 4, &index, &x, &mut y)?;
/// assert_eq!(y.to_vec()?, [3.0, 3.5, 0.0, 0.5, 3.0, 3.5]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RowGather<T> {
    config: RowGatherConfig,
    kernel: Kernel<Params<T>>,
}

impl<T: Converted> RowGather<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`RowConfig::check`]; [`RowError::Element`], [`RowError::Tile`].
    #[inline]
    pub fn new(config: RowGatherConfig) -> Result<Self, RowError> {
        config.rows.check_copy()?;
        RowConfig::check_element("the input", T::SCALAR, true)?;
        let kernel = with_elements(T::SCALAR, T::SCALAR, || build(&config))?;
        Ok(RowGather { config, kernel })
    }
}

#[inline]
fn build(config: &RowGatherConfig) -> Result<Kernel<Params<Input>>, BuildErrors> {
    let RowGatherConfig { rows: RowConfig { target, tile }, side } = *config;
    let name = format!("{}_{}_{}", side.name(), Input::scalar(), config.rows);
    Kernel::<Params<Input>>::build_with(
        tile.options(),
        &name,
        target,
        |k, ((x, x_pitch), (y, y_pitch), index, limit, sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let listed = (index, row, [limit, sizes[0]]);
            match side {
                GatherSide::Input => {
                    let (from, is_listed) = listed_row(k, listed);
                    let (x, y) = (x.offset(from * x_pitch), y.offset(row * y_pitch));
                    let part = tile.part_at(k, x, is_listed.select(columns, 0));
                    k.for_(range(0, part.steps()), (), |k, step, ()| {
                        let part = part.step(step);
                        let copy = part.load_copy(k, x);
                        part.store_copy(k, y, &copy);
                    });
                }
                GatherSide::Output => {
                    let x = x.offset(row * x_pitch);
                    let part = tile.part_at(k, x, columns);
                    k.for_(range(0, part.steps()), (), |k, step, ()| {
                        let part = part.step(step);
                        let copy = part.load_copy(k, x);
                        // Only the stores need the number: the row is in flight while the thread waits for it.
                        let (to, is_listed) = listed_row(k, listed);
                        part.only_if(is_listed).store_copy(k, y.offset(to * y_pitch), &copy);
                    });
                }
            }
        },
    )
}

/// Returns the number that the list has for a row below `rows`, and true if it is one of the `limit` rows.
#[inline]
fn listed_row<'b>(
    k: &mut Body<'b, '_>,
    (index, row, [limit, rows]): (Val<'b, Global<i32>>, Val<'b, i64>, [Val<'b, i32>; 2]),
) -> (Val<'b, i64>, Val<'b, bool>) {
    let other = k.if_with(row.lt(rows.cvt::<i64>()), -1, |k| index.load(k, row));
    (other.cvt::<i64>(), other.ge(0) & other.lt(limit))
}
