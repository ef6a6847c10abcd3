//! Permutations of the modes of a tensor: copies of rows from strides to strides, or transposes.

mod launch;
mod problem;

use std::fmt;

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target, range};

use super::rows::{RowConfig, RowError, own_row};
use super::transpose::{Transpose, TransposeConfig};
use crate::tensor::strided;
pub use launch::PermuteFunction;
pub use problem::{PermuteMode, PermuteProblem};

/// The configuration of a [`Permute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermuteConfig {
    /// Rows stay contiguous.
    Rows {
        /// The target and the tile of a row; a row may be longer than the tile. Clusters share no row.
        rows: RowConfig,
        /// The modes of the rows: 0 to 4.
        modes: u32,
    },
    /// Rows are transposed with another mode.
    Transpose(TransposeConfig),
}

impl PermuteConfig {
    /// The configuration for a problem with elements of this type.
    #[inline]
    pub fn new(target: Target, elem: Scalar, problem: &PermuteProblem) -> Self {
        if let Some(problem) = problem.transpose() {
            return PermuteConfig::Transpose(TransposeConfig::new(target, elem, &problem));
        }
        let (access, modes) = (problem.access(elem), problem.used_modes());
        let rows = RowConfig::of_copy(target, elem, access, problem.columns);
        PermuteConfig::Rows { rows, modes }
    }

    /// Returns configurations to choose from for a problem, the one of [`new`](PermuteConfig::new) first.
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

/// The name of the configuration: the modes and the name of [`RowConfig`], `permute_2_32x2_rows4`, or the name of
/// [`TransposeConfig`], `transpose_16x16_mstrip8`.
impl fmt::Display for PermuteConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PermuteConfig::Rows { rows, modes } => write!(f, "permute_{modes}_{rows}"),
            PermuteConfig::Transpose(config) => write!(f, "transpose_{config}"),
        }
    }
}

/// The input and the output, rows and columns, the counts of the modes, and the strides of input and output.
type Params<T> = (Global<T>, GlobalMut<T>, [i32; 2], [i32; 4], [[i64; 4]; 2]);

/// A permutation of the modes of a tensor of `f32`, `f16`, `bf16` or an `f8`. Where the last mode moves, it is a batch of
/// [transposes](Transpose).
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

/// The kernel of a configuration.
#[derive(Debug)]
enum AnyKernel<T> {
    Rows(Kernel<Params<T>>),
    Transpose(Transpose<T>),
}

impl<T: Converted> Permute<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`RowConfig::check`]; [`RowError::Element`], [`RowError::Tile`].
    #[inline]
    pub fn new(config: PermuteConfig) -> Result<Self, RowError> {
        RowConfig::check_element("the input", T::SCALAR, true)?;
        let kernel = match config {
            PermuteConfig::Transpose(config) => AnyKernel::Transpose(Transpose::new(config)?),
            PermuteConfig::Rows { modes, .. } if modes > PermuteProblem::MAX_MODES => {
                return Err(RowError::Tile { rule: "rows have at most 4 modes" });
            }
            PermuteConfig::Rows { rows, modes } => {
                rows.check_copy()?;
                AnyKernel::Rows(build(&rows, modes)?)
            }
        };
        Ok(Permute { config, kernel })
    }

    /// The configuration.
    pub fn config(&self) -> &PermuteConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        match &self.kernel {
            AnyKernel::Rows(kernel) => kernel.ir(),
            AnyKernel::Transpose(kernel) => kernel.ir(),
        }
    }

    /// Proves that the kernel's accesses are in bounds. See
    /// [`Kernel::prove`](crate::ir::Kernel::prove).
    pub fn prove(&self) -> crate::prove::Proof {
        match &self.kernel {
            AnyKernel::Rows(kernel) => kernel.prove(),
            AnyKernel::Transpose(kernel) => kernel.prove(),
        }
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        match &self.kernel {
            AnyKernel::Rows(kernel) => kernel.ptx(),
            AnyKernel::Transpose(kernel) => kernel.ptx(),
        }
    }
}

fn build<T: Converted>(rows: &RowConfig, modes: u32) -> Result<Kernel<Params<T>>, BuildErrors> {
    let RowConfig { target, tile } = *rows;
    let name = format!("permute_{modes}_{}_{rows}", T::SCALAR);
    Kernel::<Params<T>>::build_with(
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
