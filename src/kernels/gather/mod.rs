//! Gather and scatter of a matrix's rows by a list of row indices: embedding lookups, or tokens on
//! their way to experts and back.

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, Val, range,
};
use crate::runtime::{
    AnyElement, ArgList, Buffer, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::RowAccess;

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{
    Input, RowConfig, RowError, RowProblem, check_len, check_matrix, own_row, row_grid,
    with_elements,
};

/// Whether the list of row indices says where to read (gather, for example an embedding lookup) or
/// where to write (scatter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatherSide {
    /// Gather: output row `i` is input row `index[i]`.
    Input,
    /// Scatter: output row `index[i]` is input row `i`. No index may appear twice.
    Output,
}

impl GatherSide {
    /// Returns the operation's name: `gather` or `scatter`.
    pub const fn name(self) -> &'static str {
        match self {
            GatherSide::Input => "gather",
            GatherSide::Output => "scatter",
        }
    }
}

/// What decides the generated code of a [`RowGather`] kernel. [`new`](RowGatherConfig::new) chooses
/// it for rows of a given size; set it yourself if you tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowGatherConfig {
    /// The target and the row tile. A row may be longer than the tile. Clusters are not supported.
    pub rows: RowConfig,
    /// Gather or scatter.
    pub side: GatherSide,
}

impl RowGatherConfig {
    /// Returns the configuration for rows of this size; the problem's `rows` is the length of the
    /// list.
    #[inline]
    pub fn new(side: GatherSide, target: Target, elem: Scalar, problem: &RowProblem) -> Self {
        let access = Self::access(elem, problem);
        RowGatherConfig { rows: RowConfig::of_copy(target, elem, access, problem.columns), side }
    }

    /// Returns configurations for a tuner to try for rows of this size, that of
    /// [`new`](RowGatherConfig::new) first.
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
        // The indexed side has another row count than the list, so pitches matter even if the list
        // has one row.
        RowProblem { rows: problem.rows.max(2), ..*problem }.access(elem)
    }
}

/// Prints the configuration's name: `gather` or `scatter`, then the name of the [`RowConfig`].
impl fmt::Display for RowGatherConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.side.name(), self.rows)
    }
}

crate::params! {
    struct Params => ParamsAt<'b> {
        x: Global<Input>,
        x_pitch: i64,
        y: GlobalMut<Input>,
        y_pitch: i64,
        /// The list of row indices.
        index: Global<i32>,
        /// How many rows the indexed side has.
        limit: i32,
        /// The length of the list.
        rows: i32,
        columns: i32,
    }
}

/// Copies rows of `f32`, `f16`, `bf16` or an `f8`, selected by a list of row indices. An index
/// below 0 or past the last row is skipped; a gather then leaves the output row unchanged.
///
/// A launch takes a [`RowProblem`], whose `rows` is the length of the list, and [`RowGatherArgs`].
/// It does nothing if there are no elements.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherArgs, RowGatherConfig};
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
/// gather.launch(&problem, RowGatherArgs { index: &index, limit: 4, x: &x, y: &mut y })?;
/// assert_eq!(y.to_vec()?, [3.0, 3.5, 0.0, 0.5, 3.0, 3.5]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RowGather<T> {
    config: RowGatherConfig,
    elem: PhantomData<fn() -> T>,
}

/// The matrices and the list of a [`RowGather`] launch.
pub struct RowGatherArgs<'a, T: BufferElement> {
    /// Row indices, as many as the problem has rows.
    pub index: &'a Buffer<i32>,
    /// How many rows the indexed side has. An index outside `0..limit` is skipped.
    pub limit: u32,
    /// The input.
    pub x: T::Ref<'a>,
    /// The output.
    pub y: T::Mut<'a>,
}

impl<T: Converted> RowGather<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], [`RowError::Element`] for an unsupported type,
    /// or [`RowError::Tile`].
    #[inline]
    pub fn new(config: RowGatherConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR)?;
        Ok(Built::new(RowGather { config, elem: PhantomData }, kernel))
    }
}

impl RowGather<AnyElement> {
    /// Builds the kernel for an element type that is a value: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](RowGather::new).
    #[inline]
    pub fn untyped(config: RowGatherConfig, elem: Scalar) -> Result<Built<Self>, RowError> {
        Ok(Built::new(RowGather { config, elem: PhantomData }, config.build(elem)?))
    }
}

impl<T: BufferElement> ReadyKernel for RowGather<T> {
    type Config = RowGatherConfig;
    type Params = Untyped;
    type Problem = RowProblem;
    type Args<'a> = RowGatherArgs<'a, T>;
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &RowGatherConfig {
        &self.config
    }

    fn share(&self, _: &Function<Self::Params>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Returns the errors of [`RowConfig::check_problem`], with up to 2^30 columns, and of
    /// [`Function::launch`], and errors for buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &RowProblem,
        args: RowGatherArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        let RowGatherArgs { index, limit, x, y } = args;
        let rows = ListedRows { index, limit };
        launch.start_bound(|args| self.config.bind(problem, rows, x.into(), y.into(), args))
    }
}

/// The list of a launch, and how many rows the indexed side has.
struct ListedRows<'h> {
    index: &'h Buffer<i32>,
    limit: u32,
}

impl RowGatherConfig {
    /// Builds the kernel for elements of this type.
    #[inline]
    fn build(&self, elem: Scalar) -> Result<Kernel<Untyped>, RowError> {
        self.rows.check_copy()?;
        RowConfig::check_element("the input", elem, true)?;
        Ok(with_elements(elem, elem, || build(self))?)
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &RowProblem,
        ListedRows { index, limit }: ListedRows<'h>,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let tile = &self.rows.tile_of_copy();
        // Each matrix is checked with its own row count.
        let numbered = RowProblem { rows: limit, ..*problem };
        let [x_pitch, y_pitch] = problem.check(tile, x.scalar(), 1 << 30)?;
        numbered.check(tile, x.scalar(), 1 << 30)?;
        let limit = i32::try_from(limit).map_err(|_| RowError::Rows { rows: limit })?;
        let [input, output] = match self.side {
            GatherSide::Input => [&numbered, problem],
            GatherSide::Output => [problem, &numbered],
        };
        check_len("the list", index.len(), problem.rows.into())?;
        check_matrix("the input", tile, x, input.len(x_pitch))?;
        check_matrix("the output", tile, y.as_ref(), output.len(y_pitch))?;
        if problem.is_empty() {
            return Ok(None);
        }
        // In the order of `Params`.
        args.buffer(x);
        args.scalars([x_pitch as i64]);
        args.buffer_mut(y);
        args.scalars([y_pitch as i64]);
        args.buffer(index.into());
        args.scalars([limit]);
        args.scalars([problem.rows, problem.columns].map(|size| size as i32));
        Ok(Some(row_grid(tile, problem.rows)))
    }
}

#[inline]
fn build(config: &RowGatherConfig) -> Result<Kernel<(Params,)>, BuildErrors> {
    let RowGatherConfig { rows: RowConfig { target, tile }, side } = *config;
    let name = format!("{}_{}_{}", side.name(), Input::scalar(), config.rows);
    Kernel::<(Params,)>::build_with(tile.options(), &name, target, |k, (params,)| {
        let ParamsAt { x, x_pitch, y, y_pitch, .. } = params;
        let (row, columns) = own_row(k, tile, [params.rows, params.columns]);
        match side {
            GatherSide::Input => {
                let (from, is_listed) = params.listed_row(k, row);
                let (x, y) = (x.offset(from * x_pitch), y.offset(row * y_pitch));
                let part = tile.part_at(k, x, is_listed.select(columns, 0));
                k.for_(range(0, part.steps()), (), |_, step, ()| {
                    let part = part.step(step);
                    let copy = part.load_copy(x);
                    part.store_copy(y, &copy);
                });
            }
            GatherSide::Output => {
                let x = x.offset(row * x_pitch);
                let part = tile.part_at(k, x, columns);
                k.for_(range(0, part.steps()), (), |k, step, ()| {
                    let part = part.step(step);
                    let copy = part.load_copy(x);
                    // Only the stores need the index, so the row is in flight while the thread
                    // waits for it.
                    let (to, is_listed) = params.listed_row(k, row);
                    part.only_if(is_listed).store_copy(y.offset(to * y_pitch), &copy);
                });
            }
        }
    })
}

impl<'b> ParamsAt<'b> {
    /// Returns the list's index for a row of the list, and true if it is one of the `limit` rows.
    #[inline]
    fn listed_row<'c>(
        &self,
        k: &mut Body<'c, '_>,
        row: Val<'c, i64>,
    ) -> (Val<'c, i64>, Val<'c, bool>)
    where
        'b: 'c,
    {
        let is_in_list = row.lt(self.rows.cvt::<i64>());
        let other = k.if_with(is_in_list, -1, |_| self.index.load(row));
        (other.cvt::<i64>(), other.ge(0) & other.lt(self.limit))
    }
}
