//! Permutations of a tensor's modes, for example `(batch, position, head, dim)` to `(batch, head,
//! position, dim)`. A strided copy if the last mode stays, a transpose if it moves.

mod launch;
mod problem;

use std::fmt;

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, KernelIr, Target, range};

use super::rows::{Input, RowConfig, RowError, own_row, with_elements};
use super::transpose::{Transpose, TransposeConfig};
use crate::tensor::rows::strided;
pub use launch::PermuteFunction;
pub use problem::{PermuteMode, PermuteProblem};

/// What decides the generated code of a [`Permute`] kernel. [`new`](PermuteConfig::new) chooses it
/// for a problem; set it yourself if you tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermuteConfig {
    /// The rows stay contiguous, so the kernel copies them.
    Rows {
        /// The target and the row tile. A row may be longer than the tile. Clusters are not
        /// supported.
        rows: RowConfig,
        /// How many modes the rows have: 0 to 4.
        modes: u32,
    },
    /// The last mode moves, so the kernel transposes.
    Transpose(TransposeConfig),
}

impl PermuteConfig {
    /// Returns the configuration for a problem with elements of this type.
    #[inline]
    pub fn new(target: Target, elem: Scalar, problem: &PermuteProblem) -> Self {
        if let Some(problem) = problem.transpose() {
            return PermuteConfig::Transpose(TransposeConfig::new(target, elem, &problem));
        }
        let (access, modes) = (problem.access(elem), problem.used_modes());
        let rows = RowConfig::of_copy(target, elem, access, problem.columns);
        PermuteConfig::Rows { rows, modes }
    }

    /// Returns configurations for a tuner to try for a problem, that of [`new`](PermuteConfig::new)
    /// first.
    #[inline]
    pub fn candidates(target: Target, elem: Scalar, problem: &PermuteProblem) -> Vec<Self> {
        if let Some(problem) = problem.transpose() {
            let all = TransposeConfig::candidates(target, elem, &problem).into_iter();
            return all.map(PermuteConfig::Transpose).collect();
        }
        let (access, modes) = (problem.access(elem), problem.used_modes());
        let rows = RowConfig::copies(target, elem, access, problem.columns).into_iter();
        rows.map(|rows| PermuteConfig::Rows { rows, modes }).collect()
    }
}

/// Prints the configuration's name: the modes and the name of the [`RowConfig`], as in
/// `permute_2_32x2_rows4`, or the name of the [`TransposeConfig`], as in `transpose_16x16_mstrip8`.
impl fmt::Display for PermuteConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PermuteConfig::Rows { rows, modes } => write!(f, "permute_{modes}_{rows}"),
            PermuteConfig::Transpose(config) => write!(f, "transpose_{config}"),
        }
    }
}

/// Input and output, rows and columns, the modes' counts, and the strides of input and output.
type Params<T> = (Global<T>, GlobalMut<T>, [i32; 2], [i32; 4], [[i64; 4]; 2]);

/// Permutes the modes of a tensor of `f32`, `f16`, `bf16` or an `f8`. If the last mode moves, it is
/// a batch of [transposes](Transpose).
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteProblem};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // (position, head, dimension) to (head, position, dimension).
/// let problem = PermuteProblem::new(&[3, 2, 4], &[1, 0, 2])?;
/// let config = PermuteConfig::new(device.target(), Scalar::F32, &problem);
/// let x: Vec<f32> = (0..24).map(|i| i as f32).collect();
/// let mut y = device.zeros::<f32>(24)?;
/// Permute::<f32>::new(config)?.load(&device)?.launch(&problem, &device.upload(&x)?, &mut y)?;
/// assert_eq!(y.to_vec()?[..12], [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0, 19.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Permute<T> {
    config: PermuteConfig,
    kernel: AnyKernel<T>,
}

/// The kernel, for either configuration.
#[derive(Debug)]
enum AnyKernel<T> {
    Rows(Kernel<Params<T>>),
    Transpose(Transpose<T>),
}

impl<T: Converted> Permute<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], [`RowError::Element`] for an unsupported type,
    /// or [`RowError::Tile`].
    #[inline]
    pub fn new(config: PermuteConfig) -> Result<Self, RowError> {
        RowConfig::check_element("the input", T::SCALAR, true)?;
        let kernel = match config {
            PermuteConfig::Transpose(config) => AnyKernel::Transpose(Transpose::new(config)?),
            PermuteConfig::Rows { modes, .. } if modes > PermuteProblem::MAX_MODES => {
                return Err(RowError::Tile { rule: "rows can have at most 4 modes" });
            }
            PermuteConfig::Rows { rows, modes } => {
                rows.check_copy()?;
                let build = || build(&rows, modes);
                AnyKernel::Rows(with_elements(T::SCALAR, T::SCALAR, build)?)
            }
        };
        Ok(Permute { config, kernel })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &PermuteConfig {
        &self.config
    }

    /// Returns the kernel's IR.
    pub fn ir(&self) -> &KernelIr {
        match &self.kernel {
            AnyKernel::Rows(kernel) => kernel.ir(),
            AnyKernel::Transpose(kernel) => kernel.ir(),
        }
    }

    /// Returns the kernel's PTX.
    pub fn ptx(&self) -> Ptx {
        match &self.kernel {
            AnyKernel::Rows(kernel) => kernel.ptx(),
            AnyKernel::Transpose(kernel) => kernel.ptx(),
        }
    }
}

#[inline]
fn build(rows: &RowConfig, modes: u32) -> Result<Kernel<Params<Input>>, BuildErrors> {
    let RowConfig { target, tile } = *rows;
    let name = format!("permute_{modes}_{}_{rows}", Input::scalar());
    Kernel::<Params<Input>>::build_with(
        tile.options(),
        &name,
        target,
        |k, (x, y, sizes, counts, [x_strides, y_strides])| {
            let (row, columns) = own_row(k, tile, sizes);
            let [from, to] = [x_strides, y_strides].map(|strides| {
                strided(row.cvt(), counts.into_iter().zip(strides).take(modes as usize))
            });
            let (x, y) = (x.offset(from), y.offset(to));
            let part = tile.part_at(k, x, columns);
            k.for_(range(0, part.steps()), (), |k, step, ()| {
                let part = part.step(step);
                let copy = part.load_copy(k, x);
                part.store_copy(k, y, &copy);
            });
        },
    )
}
