//! Gather and scatter of the rows of a matrix by a list of their numbers.

mod launch;

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target};
use crate::tensor::{RowAccess, RowTile};

use super::rows::{RowConfig, RowError, RowProblem, own_row};
pub use launch::RowGatherFunction;

/// The side whose rows are numbered by the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatherSide {
    /// Gather: row `i` of the output is row `index[i]` of the input.
    Input,
    /// Scatter: row `index[i]` of the output is row `i` of the input. No two numbers in the list are equal.
    Output,
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
    pub fn new(side: GatherSide, target: Target, elem: Scalar, problem: &RowProblem) -> Self {
        // The rows of the list start anywhere: only aligned rows are copied in vectors. The numbered side has other rows
        // than the list, so pitches count for a list of one row, too.
        let rows = problem.rows.max(2);
        let access = match (RowProblem { rows, ..*problem }).access(elem) {
            RowAccess::Aligned => RowAccess::Aligned,
            RowAccess::Ragged | RowAccess::Elements => RowAccess::Elements,
        };
        RowGatherConfig { rows: RowConfig::of_copy(target, elem, access, problem.columns), side }
    }
}

/// The input and the output, each with its pitch; the list; the rows of the numbered side; rows and columns.
type Params<T> = ((Global<T>, i64), (GlobalMut<T>, i64), Global<i32>, i32, [i32; 2]);

/// Copies rows of `f32`, `f16` or `bf16` whose numbers a list has. A number below 0 or beyond the last row is left out: the
/// row of a gather's output stays as it is.
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
    pub fn new(config: RowGatherConfig) -> Result<Self, RowError> {
        config.rows.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        let RowTile { cluster, access, stages, .. } = config.rows.tile;
        if cluster > 1 || access == RowAccess::Ragged || stages > 0 {
            let rule = "a gather has no clusters, no ragged accesses, and no stages";
            return Err(RowError::Tile { rule });
        }
        Ok(RowGather { config, kernel: build(&config)? })
    }

    /// The configuration.
    pub fn config(&self) -> &RowGatherConfig {
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
}

fn build<T: Converted>(config: &RowGatherConfig) -> Result<Kernel<Params<T>>, BuildErrors> {
    let RowGatherConfig { rows: RowConfig { target, tile }, side } = *config;
    let kind = if side == GatherSide::Input { "gather" } else { "scatter" };
    let name = format!("{kind}_{}_{}", T::SCALAR, config.rows);
    Kernel::<Params<T>>::build_with(
        tile.options(),
        &name,
        target,
        |k, ((x, x_pitch), (y, y_pitch), index, limit, sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let is_row = row.lt(sizes[0].cvt::<i64>());
            let other = k.if_with(is_row, -1, |k| index.load(k, row));
            let columns = (other.ge(0) & other.lt(limit)).select(columns, 0);
            let (from, to) = match side {
                GatherSide::Input => (other.cvt::<i64>(), row),
                GatherSide::Output => (row, other.cvt::<i64>()),
            };
            let part = tile.part::<T>(k, from * x_pitch, columns);
            let (x, y) = (x.offset(from * x_pitch), y.offset(to * y_pitch));
            k.for_(crate::ir::range(0, part.steps()), (), |k, step, ()| {
                let part = part.step(step);
                let elements = part.load_elements(k, x, 0.0);
                part.store_elements(k, y, &elements);
            });
        },
    )
}
