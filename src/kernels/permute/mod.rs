//! Permutations of a tensor's modes, for example `(batch, position, head, dim)` to `(batch, head,
//! position, dim)`. A strided copy if the last mode stays, a transpose if it moves.

mod problem;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, range};
use crate::runtime::{
    AnyElement, ArgList, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::{RowAccess, strided};

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{Input, RowConfig, RowError, check_matrix, own_row, row_grid, with_elements};
use super::transpose::{self, TransposeConfig};
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
/// a batch of [transposes](transpose::Transpose).
///
/// A launch takes a [`PermuteProblem`] and `(&x, &mut y)`. It does nothing if there are no
/// elements.
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
/// Permute::<f32>::new(config)?.load(&device)?.launch(&problem, (&device.upload(&x)?, &mut y))?;
/// assert_eq!(y.to_vec()?[..12], [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0, 19.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Permute<T> {
    config: PermuteConfig,
    elem: PhantomData<fn() -> T>,
}

impl<T: Converted> Permute<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], [`RowError::Element`] for an unsupported type,
    /// or [`RowError::Tile`].
    #[inline]
    pub fn new(config: PermuteConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR)?;
        Ok(Built::new(Permute { config, elem: PhantomData }, kernel))
    }
}

impl Permute<AnyElement> {
    /// Builds the kernel for an element type that is a value: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](Permute::new).
    #[inline]
    pub fn untyped(config: PermuteConfig, elem: Scalar) -> Result<Built<Self>, RowError> {
        Ok(Built::new(Permute { config, elem: PhantomData }, config.build(elem)?))
    }
}

impl<T: BufferElement> ReadyKernel for Permute<T> {
    type Config = PermuteConfig;
    type Params = Untyped;
    type Problem = PermuteProblem;
    type Args<'a> = (T::Ref<'a>, T::Mut<'a>);
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &PermuteConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// [`RowError::TooLarge`] or [`RowError::Rows`]; [`RowError::Access`] if a kernel with aligned
    /// accesses gets other rows; [`RowError::Tile`] if the problem has more modes than the kernel,
    /// or if one transposes and the other does not; errors for buffers that are too short or
    /// misaligned, and those of [`Function::launch`].
    fn launch(
        &self,
        problem: &PermuteProblem,
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.config.bind(problem, x.into(), y.into(), args))
    }
}

impl PermuteConfig {
    /// Builds the kernel for elements of this type.
    #[inline]
    fn build(&self, elem: Scalar) -> Result<Kernel<Untyped>, RowError> {
        RowConfig::check_element("the input", elem, true)?;
        match self {
            PermuteConfig::Transpose(config) => Ok(transpose::build(config, elem)?.untyped()),
            PermuteConfig::Rows { modes, .. } if *modes > PermuteProblem::MAX_MODES => {
                Err(RowError::Tile { rule: "rows can have at most 4 modes" })
            }
            PermuteConfig::Rows { rows, modes } => {
                rows.check_copy()?;
                Ok(with_elements(elem, elem, || build(rows, *modes))?)
            }
        }
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &PermuteProblem,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let (rows, kernel_modes) = match (self, problem.transpose()) {
            (PermuteConfig::Rows { rows, modes }, None) => (rows, *modes),
            (PermuteConfig::Transpose(config), Some(problem)) => {
                return config.bind(&problem, x, y, args);
            }
            (PermuteConfig::Rows { .. }, Some(_)) => {
                return Err(RowError::Tile {
                    rule: "the kernel keeps rows contiguous, but the problem transposes them",
                });
            }
            (PermuteConfig::Transpose(_), None) => {
                return Err(RowError::Tile {
                    rule: "the kernel transposes rows, but the problem keeps them contiguous",
                });
            }
        };
        let tile = &rows.tile_of_copy();
        let lens = problem.lens().ok_or(RowError::TooLarge { operand: "the tensor" })?;
        if tile.access == RowAccess::Aligned && problem.access(x.scalar()) != RowAccess::Aligned {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        if problem.used_modes() > kernel_modes {
            return Err(RowError::Tile { rule: "the problem has more row modes than the kernel" });
        }
        check_matrix("the input", tile, x, lens[0])?;
        check_matrix("the output", tile, y.as_ref(), lens[1])?;
        if lens[0] == 0 {
            return Ok(None);
        }
        let rows = problem.rows().ok_or(RowError::Rows { rows: u32::MAX })?;
        let max = i32::MAX as u32 - tile.rows_per_block();
        if rows > max || problem.columns > 1 << 30 {
            return Err(RowError::Rows { rows: rows.max(problem.columns) });
        }
        // In the order of `Params`.
        args.buffer(x);
        args.buffer_mut(y);
        args.scalars([rows, problem.columns].map(|size| size as i32));
        args.scalars(problem.modes.map(|mode| mode.count as i32));
        args.scalars(problem.modes.map(|mode| mode.input_stride as i64));
        args.scalars(problem.modes.map(|mode| mode.output_stride as i64));
        Ok(Some(row_grid(tile, rows)))
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
            k.for_(range(0, part.steps()), (), |_, step, ()| {
                let part = part.step(step);
                let copy = part.load_copy(x);
                part.store_copy(y, &copy);
            });
        },
    )
}
