//! [`TopK`]: the k largest elements of each row, with their columns. Use it to sample from logits
//! or to route tokens to experts.

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::op::FindFrom;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, WARP, range};
use crate::runtime::{
    AnyElement, ArgList, Buffer, BufferElement, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::{RowPointer, RowTile, tree};

use super::super::ready::{Built, Launch, ReadyKernel};
use super::super::rows::{
    Input, RowConfig, RowError, RowProblem, check_len, check_matrix, own_row, row_grid,
    with_elements,
};
use super::best::Best;
use super::words::{Words, element};
use super::{MAX_COLUMNS, reduced};

/// What decides the generated code of a [`TopK`] kernel. [`new`](TopKConfig::new) chooses it for
/// rows of a given size; set fields yourself if you tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopKConfig {
    /// The target and the row tile. One or more whole warps share a row, which may be longer than
    /// the tile.
    pub rows: RowConfig,
    /// How many elements to return per row: 1 to [`MAX`](TopKConfig::MAX).
    pub count: u32,
    /// True if rows have at most 2^16 columns of a 16-bit type. Warps then sort 32-bit words
    /// instead of 64-bit words.
    pub short: bool,
}

impl TopKConfig {
    /// The maximum number of results per row.
    pub const MAX: u32 = 64;

    /// Returns the configuration for rows of this size with elements of this type. The output's
    /// pitch is ignored.
    #[inline]
    pub fn new(count: u32, target: Target, input: Scalar, problem: &RowProblem) -> Self {
        // 4096 rows fill the SMs with one warp each. Fewer rows get more warps each, but every warp
        // takes at least two steps.
        let all = 4096 / problem.rows.max(1);
        let lanes = Self::of_warps(1, count, target, input, problem);
        let most = problem.columns / (2 * lanes.rows.tile.capacity(input));
        let warps = 1 << all.min(most).clamp(1, 16).ilog2();
        Self::of_warps(warps, count, target, input, problem)
    }

    /// Returns configurations for a tuner to try, that of [`new`](TopKConfig::new) first: 1 to 16
    /// warps share a row.
    #[inline]
    pub fn candidates(
        count: u32,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Vec<Self> {
        let mut found = vec![Self::new(count, target, input, problem)];
        for log in 0..=4 {
            let config = Self::of_warps(1 << log, count, target, input, problem);
            if !found.contains(&config) {
                found.push(config);
            }
        }
        found
    }

    /// Returns the configuration in which `warps` warps share a row.
    #[inline]
    fn of_warps(
        warps: u32,
        count: u32,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Self {
        let (team, access) = (32 * warps, reduced(problem).access(input));
        let threads = if warps == 1 { 128 } else { team };
        let tile = RowTile { threads, team, cluster: 1, vectors: 4, access };
        let short = input.bits() == 16 && problem.columns <= MAX_SHORT;
        TopKConfig { rows: RowConfig { target, tile }, count, short }
    }

    #[inline]
    fn check(&self, input: Scalar) -> Result<(), RowError> {
        self.rows.check()?;
        let RowTile { team, cluster, vectors, .. } = self.rows.tile;
        let rule = if !(1..=Self::MAX).contains(&self.count) {
            "the count must be 1 to 64"
        } else if team < 32 || cluster > 1 {
            "whole warps of one block must share a row"
        } else if vectors * self.rows.tile.vector(input) > 32 {
            "a thread can hold at most 32 elements"
        } else if self.short && input.bits() != 16 {
            "the kernel for short rows needs 16-bit elements"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }
}

/// The maximum number of columns of a short row.
const MAX_SHORT: u32 = 1 << 16;

/// Prints the configuration's name: the result count, the name of the [`RowConfig`], and `_short`
/// for short rows, for example `top_8_32x4_rows4_short`.
impl fmt::Display for TopKConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "top_{}_{}", self.count, self.rows)?;
        f.write_str(if self.short { "_short" } else { "" })
    }
}

/// The input with its pitch; the values; the columns; rows and columns.
type Params<T> = ((Global<T>, i64), GlobalMut<f32>, GlobalMut<i32>, [i32; 2]);

/// Returns the `count` largest elements of each row, in descending order as `f32`, and their
/// columns. The input is `f32`, `f16` or `bf16`. Of equal elements, the one with the lower column
/// comes first. NaN is skipped. If a row has fewer elements, the rest is negative infinity with
/// column -1.
///
/// A launch takes a [`RowProblem`] and [`TopKArgs`]. It does nothing if there are no rows.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::reduce::{TopK, TopKArgs, TopKConfig};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = RowProblem::new(1, 1000);
/// let x: Vec<f32> = (0..1000).map(|i| (i * 7 % 500) as f32).collect();
/// let top = TopK::<f32>::new(TopKConfig::new(3, device.target(), Scalar::F32, &problem))?.load(&device)?;
/// let (mut values, mut columns) = (device.zeros::<f32>(3)?, device.zeros::<i32>(3)?);
/// let args = TopKArgs { x: &device.upload(&x)?, values: &mut values, columns: &mut columns };
/// top.launch(&problem, args)?;
/// assert_eq!(values.to_vec()?, [499.0, 499.0, 498.0]);
/// // 7 * 357 = 4 * 500 + 499.
/// assert_eq!(columns.to_vec()?, [357, 857, 214]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TopK<T> {
    config: TopKConfig,
    elem: PhantomData<fn() -> T>,
}

/// The buffers of a [`TopK`] launch.
pub struct TopKArgs<'a, T: BufferElement> {
    /// The input.
    pub x: T::Ref<'a>,
    /// The largest elements of each row, `count` per row.
    pub values: &'a mut Buffer<f32>,
    /// Their columns, `count` per row.
    pub columns: &'a mut Buffer<i32>,
}

impl<T: Converted> TopK<T> {
    /// The maximum row length.
    pub const MAX_COLUMNS: u32 = MAX_COLUMNS;

    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], [`RowError::Element`] for an unsupported type,
    /// or [`RowError::Tile`].
    #[inline]
    pub fn new(config: TopKConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR)?;
        Ok(Built::new(TopK { config, elem: PhantomData }, kernel))
    }
}

impl TopK<AnyElement> {
    /// Builds the kernel for an input type that is a value: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](TopK::new).
    #[inline]
    pub fn untyped(config: TopKConfig, input: Scalar) -> Result<Built<Self>, RowError> {
        Ok(Built::new(TopK { config, elem: PhantomData }, config.build(input)?))
    }
}

impl<T: BufferElement> ReadyKernel for TopK<T> {
    type Config = TopKConfig;
    type Params = Untyped;
    type Problem = RowProblem;
    type Args<'a> = TopKArgs<'a, T>;
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &TopKConfig {
        &self.config
    }

    fn share(&self, _: &Function<Self::Params>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Returns the errors of [`RowConfig::check_problem`], with up to
    /// [`MAX_COLUMNS`](TopK::MAX_COLUMNS) columns, and of [`Function::launch`], and errors for
    /// buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &RowProblem,
        TopKArgs { x, values, columns }: TopKArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.config.bind(problem, x.into(), values, columns, args))
    }
}

impl TopKConfig {
    /// Builds the kernel for elements of this type.
    #[inline]
    fn build(&self, input: Scalar) -> Result<Kernel<Untyped>, RowError> {
        RowConfig::check_element("the input", input, false)?;
        self.check(input)?;
        Ok(with_elements(input, input, || match self.short {
            true => build::<1>(self),
            false => build::<2>(self),
        })?)
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &RowProblem,
        x: BufferRef<'h>,
        values: &'h mut Buffer<f32>,
        columns: &'h mut Buffer<i32>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let tile = &self.rows.tile;
        let max = if self.short { MAX_SHORT } else { MAX_COLUMNS };
        let [pitch, _] = reduced(problem).check(tile, x.scalar(), max)?;
        let results = u64::from(problem.rows) * u64::from(self.count);
        check_matrix("the input", tile, x, problem.len(pitch))?;
        check_len("the values", values.len(), results)?;
        check_len("the columns", columns.len(), results)?;
        if problem.rows == 0 {
            return Ok(None);
        }
        // In the order of `Params`.
        args.buffer(x);
        args.scalars([pitch as i64]);
        args.buffer_mut(values.into());
        args.buffer_mut(columns.into());
        args.scalars([problem.rows, problem.columns].map(|size| size as i32));
        Ok(Some(row_grid(tile, problem.rows)))
    }
}

/// Each warp keeps the best elements of its part of the row. It skips a step if no lane's maximum
/// is above the bound; otherwise each lane adds its elements above the bound, one per round. The
/// single elements at the ends of a ragged row come last. Then the warps that share a row merge
/// their lists pairwise. An element with its column takes `N` words.
fn build<const N: usize>(config: &TopKConfig) -> Result<Kernel<Params<Input>>, BuildErrors> {
    let TopKConfig { rows: RowConfig { target, tile }, count, .. } = *config;
    let name = format!("{config}_{}", Input::scalar());
    Kernel::<Params<Input>>::build_with(
        // Limits registers to 64 per thread.
        tile.options().min_blocks_per_sm((1024 / tile.threads).max(1)),
        &name,
        target,
        |k, ((x, pitch), values, indices, sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let part = tile.part::<Input>(k, row * pitch, columns);
            let (x, access) = (x.offset(row * pitch), <Global<Input>>::access());
            let words = Best::<Input, N>::WORDS;
            let lists = k.shared::<u32>(tile.threads / 32 * words);
            let own = lists.offset(k.thread_idx().x / 32 * words as i32);
            let best = Best::<Input, N>::new(k, x, count, own);
            // The warp reduction makes the step count visibly uniform to `ptxas`.
            let steps = range(0, k.redux_max(WARP, part.steps()));
            k.for_(steps, (), |k, step, ()| {
                let part = part.step(step);
                let words = Words::of(&part.load_inner(k, x, f32::NEG_INFINITY, access));
                let (first, maxima) = (part.first_column(), words.maxima());
                let behind = first + tile.capacity(Input::scalar()) as i32;
                k.if_(step.eq(0), |k| best.start(k, &maxima, behind));
                let max = tree(maxima[0], &maxima, |a, b| a.max(b));
                let (bound, column) = best.bound();
                let passes = max.gt(bound) | (max.eq(bound) & first.lt(column));
                k.if_(k.vote_any(WARP, passes), |k| {
                    k.do_while(words.mask(k, bound, first.ge(column)), |k, mask| {
                        let bit = mask.bfind(FindFrom::Position);
                        let (element, vector) = (element(bit), tile.vector(Input::scalar()));
                        let gap = element / vector * (part.stride() as u32 - vector);
                        let column = first + (element + gap).cvt::<i32>();
                        best.add(k, mask.ne(0) & column.lt(part.vector_end()), column);
                        let rest = mask & !(k.constant(1u32) << bit);
                        (rest, k.vote_any(WARP, rest.ne(0)))
                    });
                });
            });
            part.ends().into_iter().for_each(|(column, holds)| best.add(k, holds, column));
            best.merge_candidates(k);
            let (warps, lane) = (tile.team as i32 / 32, k.lane_id());
            let warp = k.thread_idx().x / 32 % warps;
            best.join(k, warp, warps);
            for (number, (value, column)) in (0..).zip(best.elements()) {
                let rank = lane + number * 32;
                let is_result = warp.eq(0) & rank.lt(count) & row.lt(sizes[0].cvt::<i64>());
                k.if_(is_result, |_| {
                    let at = row * i64::from(count) + rank.cvt::<i64>();
                    values.store(at, value);
                    indices.store(at, column);
                });
            }
        },
    )
}
