//! Epilogues that also reduce: along rows or columns ([`Gemm::with_reduction`]), or to the largest
//! absolute value of D ([`Gemm::with_amax`]), for example to choose the scale of an 8-bit output.
//! They save a pass over D.

use std::marker::PhantomData;

use crate::ir::builder::{Context, Converted, ParamList, ParamSource, ParamValues, Parameter};
use crate::ir::{Body, Element, Float, GlobalMut, Number, Registers, Val, WARP};
use crate::runtime::ArgList;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::BatchMode;
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::elements::Sum;
use crate::kernels::gemm::epilogue::terms::{Reduction, Results, Terms};
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueMap, EpilogueParameter, FusedEpilogue};
use crate::kernels::gemm::kernel::Gemm;
use crate::kernels::ready::Built;

/// A kernel that also writes results of type `P`.
type Reducing<A, B, C, D, E, P> = Gemm<A, B, C, D, FusedEpilogue<(E, GlobalMut<P>)>>;

/// The kernel that [`Gemm::with_reduction`] builds. Name it to keep such a kernel in a struct.
pub type ReducedGemm<A, B, C, D, E> = Reducing<A, B, C, D, E, <A as Element>::Sum>;

/// The kernel that [`Gemm::with_amax`] builds. Name it to keep such a kernel in a struct.
pub type AmaxGemm<A, B, C, D, E> = Reducing<A, B, C, D, E, f32>;

impl GemmConfig {
    /// Returns the shape `[parts, matrices, extent]` of the partial results that a
    /// [reducing](Gemm::with_reduction) kernel with this configuration writes. Use it to allocate
    /// the buffer of partial results.
    ///
    /// `parts` is how many warps all tiles have along the reduced mode, `matrices` is the batch (1
    /// for [grouped](crate::kernels::gemm::BatchMode::Grouped) GEMM), and `extent` is M, or the
    /// columns of D.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Reduction};
    ///
    /// let config = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
    /// let problem = GemmProblem { batch: 3, ..GemmProblem::new(100, 200, 64) };
    /// // Four tiles along N, each with one warp group; two along M, each with four warps.
    /// assert_eq!(config.reduction_shape(&problem, Reduction::RowMax), [4, 3, 100]);
    /// assert_eq!(config.reduction_shape(&problem, Reduction::ColumnSum), [8, 3, 200]);
    /// ```
    #[inline]
    pub fn reduction_shape(&self, problem: &GemmProblem, reduction: Reduction) -> [u32; 3] {
        let ([rows, columns, _], [high, wide]) = (self.tiles(problem), self.warps_of_tile());
        let matrices = if self.is_grouped() { 1 } else { problem.batch };
        match reduction.is_of_columns() {
            true => [rows * high, matrices, problem.n / self.accumulators_per_element()],
            false => [columns * wide, matrices, problem.m],
        }
    }
}

impl<A: Element, B: Element, C: Number, D: Converted> Gemm<A, B, C, D> {
    /// Builds the kernel with your own epilogue that also reduces, along rows or columns. Use it
    /// for the statistics of a softmax or a norm, for the gradient of a bias, or for row scales.
    /// The closure is like that of [`with_pairs`](Gemm::with_pairs): it takes two accumulators,
    /// which are the same unless the configuration has `pairs`. But it returns a pair: the element
    /// of D, and the term to reduce.
    ///
    /// Each warp writes its own partial result per row or column. So the results do not depend on
    /// the order of threads and are reproducible bit for bit, and the buffer needs no initial
    /// value. At launch, pass the closure's argument and the buffer of partial results as a pair.
    /// The buffer has the shape [`GemmConfig::reduction_shape`]; reduce it over the first mode to
    /// get the result. Terms and results have the type that the epilogue computes in: `f64` for
    /// `f64` operands, else `f32`.
    ///
    /// For [grouped](crate::kernels::gemm::BatchMode::Grouped) GEMM, the results belong to the rows
    /// of the whole matrix, `[parts, M]`. Rows without a group are not written.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::f16;
    /// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, Reduction};
    /// use tilewright::runtime::Device;
    ///
    /// // The sum of squares of each row of D, for a norm after the GEMM.
    /// let config = GemmConfig::sm90(Scalar::F16, [64, 64]);
    /// let squares = Reduction::RowSum;
    /// let gemm = Gemm::<f16>::with_reduction::<f32>(config, squares, |_, [sum, _], _, factor| {
    ///     let x = sum * factor;
    ///     (x, x * x)
    /// })?;
    /// let device = Device::sim()?;
    /// let (m, n, k) = (40, 80, 16);
    /// let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32((i / k) as f32)).collect();
    /// let (a, b) = (device.upload(&a)?, device.upload(&vec![f16::from_f32(1.0); n * k])?);
    /// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    /// // Two tiles along N.
    /// assert_eq!(config.reduction_shape(&problem, squares), [2, 1, 40]);
    /// let (mut d, mut sums) = (device.zeros::<f16>(m * n)?, device.zeros::<f32>(2 * m)?);
    /// let args = GemmArgs::new(&a, &b, &mut d);
    /// gemm.load(&device)?.launch(&problem, (args, (0.125, &mut sums)))?;
    /// let sums = sums.to_vec()?;
    /// // The elements of row m are 2 m: 64 in the first tile, and 16 in the second one.
    /// assert_eq!((sums[3], sums[m + 3]), (64.0 * 36.0, 16.0 * 36.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`with_epilogue`](Gemm::with_epilogue). [`GemmError::Field`] for
    /// [`ragged`](crate::kernels::gemm::BatchMode::Ragged) configurations, and for column
    /// reductions of [`grouped`](crate::kernels::gemm::BatchMode::Grouped) ones. A launch returns
    /// [`GemmError::BufferLength`] if the buffer of partial results is too short.
    pub fn with_reduction<E: EpilogueParameter>(
        config: GemmConfig,
        reduction: Reduction,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> (Val<'b, A::Sum>, Val<'b, A::Sum>),
    ) -> Result<Built<ReducedGemm<A, B, C, D, E>>, GemmError>
    where
        A::Sum: Converted,
    {
        let rule = match config.batch {
            BatchMode::Ragged => Some("row and column results need matrices of one size"),
            BatchMode::Grouped if reduction.is_of_columns() => {
                Some("a column would mix the rows of all groups")
            }
            BatchMode::Grouped | BatchMode::Uniform => None,
        };
        config.rule("batch", config.batch.name().unwrap_or("uniform"), rule)?;
        Self::reduced(config, Some(reduction), epilogue)
    }

    /// Builds the kernel with your own epilogue that also computes the largest absolute value the
    /// closure returns, before rounding to the type of D. FP8 training uses it to scale a later
    /// GEMM. The closure is like that of [`with_pairs`](Gemm::with_pairs): it takes two
    /// accumulators. Unless the configuration has `pairs`, both are the same.
    ///
    /// At launch, pass the closure's argument and a buffer as a pair. The kernel raises the
    /// buffer's first element to the largest absolute value; set it to 0 before, or to another
    /// value that is not negative. If any value is NaN, the element becomes NaN. The order of
    /// threads does not matter. It is cheap: each thread keeps one register for all its tiles, and
    /// each warp does one atomic operation.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::f16;
    /// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
    /// use tilewright::runtime::Device;
    ///
    /// let config = GemmConfig::sm90(Scalar::F16, [64, 64]);
    /// let gemm = Gemm::<f16>::with_amax::<f32>(config, |_, [sum, _], [row, _, _], factor| {
    ///     sum * factor - row.cvt::<f32>()
    /// })?;
    /// let (m, n, k) = (40, 24, 16);
    /// let device = Device::sim()?;
    /// let ones = |len| device.upload(&vec![f16::from_f32(1.0); len]);
    /// let (a, b, mut d, mut amax) = (ones(m * k)?, ones(n * k)?, device.zeros::<f16>(m * n)?, device.zeros::<f32>(1)?);
    /// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    /// // 8 - row, for rows up to 39.
    /// gemm.load(&device)?.launch(&problem, (GemmArgs::new(&a, &b, &mut d), (0.5, &mut amax)))?;
    /// assert_eq!(amax.to_vec()?, [31.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`with_epilogue`](Gemm::with_epilogue). A launch returns
    /// [`GemmError::BufferLength`] if the buffer is empty.
    pub fn with_amax<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Built<AmaxGemm<A, B, C, D, E>>, GemmError> {
        Self::reduced::<E, f32>(config, None, |k, accumulators, coord, args| {
            let value = epilogue(k, accumulators, coord, args);
            (value, value.abs())
        })
    }

    fn reduced<E: EpilogueParameter, P: Converted>(
        config: GemmConfig,
        reduction: Option<Reduction>,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> (Val<'b, A::Sum>, Val<'b, A::Sum>),
    ) -> Result<Built<Reducing<A, B, C, D, E, P>>, GemmError> {
        let form =
            ReducedForm::<A::Sum, E, P, _> { apply: epilogue, reduction, types: PhantomData };
        Gemm::with_closure(config, &form)
    }
}

impl Results {
    /// Checks that the last buffer of the arguments is large enough for a problem's results.
    #[inline]
    pub(crate) fn check(
        self,
        config: &GemmConfig,
        problem: &GemmProblem,
        args: &ArgList<'_>,
    ) -> Result<(), GemmError> {
        let needed = match self {
            Results::None => 0,
            Results::Amax => 1,
            Results::Reduced(reduction) => {
                let shape = config.reduction_shape(problem, reduction);
                shape.into_iter().fold(1u64, |len, extent| len.saturating_mul(extent.into()))
            }
        };
        let found = args.last_len().map_or(0, |len| len as u64);
        if found < needed {
            return Err(GemmError::BufferLength { operand: "the results", found, needed });
        }
        Ok(())
    }
}

/// A closure that returns an element of D and its term.
trait ReducedClosure<S: Float, E: EpilogueParameter>:
    for<'b> Fn(
    &mut Body<'b, '_>,
    [Val<'b, S>; 2],
    [Val<'b, i32>; 3],
    E::At<'b>,
) -> (Val<'b, S>, Val<'b, S>)
{
}

impl<S: Float, E: EpilogueParameter, F> ReducedClosure<S, E> for F where
    F: for<'b> Fn(
        &mut Body<'b, '_>,
        [Val<'b, S>; 2],
        [Val<'b, i32>; 3],
        E::At<'b>,
    ) -> (Val<'b, S>, Val<'b, S>)
{
}

/// An epilogue with a reduction of numbers of type `S`. Without a reduction along rows or columns
/// it keeps the largest of all terms, which are not negative.
struct ReducedForm<S, E, P, F> {
    apply: F,
    reduction: Option<Reduction>,
    types: PhantomData<(S, E, P)>,
}

impl<S: Float, E, P, F> EpilogueForm for ReducedForm<S, E, P, F>
where
    E: EpilogueParameter,
    P: Converted,
    F: ReducedClosure<S, E>,
{
    fn suffix(&self) -> &'static str {
        "_reduced"
    }

    fn kept(&self) -> u32 {
        if self.reduction.is_none() { 1 } else { 0 }
    }

    fn results(&self) -> Results {
        self.reduction.map_or(Results::Amax, Results::Reduced)
    }

    fn declare(&self, list: &mut ParamList) {
        <(E, GlobalMut<P>)>::declare(list);
    }

    fn make<'x, 'a: 'x>(
        &'x self,
        cx: &'a Context,
        values: &mut ParamValues<'_>,
        kept: Option<Registers<'a, u32>>,
    ) -> Box<dyn EpilogueMap<'a> + 'x> {
        let ReducedForm { apply, reduction, .. } = self;
        let args = ParamSource::<(E, GlobalMut<P>)>::take(cx, values);
        let numbers = PhantomData::<fn() -> S>;
        Box::new(ReducedOps { apply, reduction: *reduction, args, largest: kept, numbers })
    }
}

struct ReducedOps<'p, 'a, S, E, P, F> {
    apply: &'p F,
    reduction: Option<Reduction>,
    args: ParamSource<(E, GlobalMut<P>)>,
    /// The thread's largest term, as bits: non-negative floats order like their bits.
    largest: Option<Registers<'a, u32>>,
    numbers: PhantomData<fn() -> S>,
}

impl<'a, S: Float, E, P, F> EpilogueMap<'a> for ReducedOps<'_, 'a, S, E, P, F>
where
    E: EpilogueParameter,
    P: Converted,
    F: ReducedClosure<S, E>,
{
    fn is_identity(&self) -> bool {
        false
    }

    fn has_effects(&self) -> bool {
        true
    }

    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        coord: [Val<'b, i32>; 3],
        extents: [Val<'b, i32>; 2],
    ) -> Val<'b, Sum>
    where
        'a: 'b,
    {
        Terms::apply(self, k, accumulators, coord, extents).0
    }

    fn terms(&self) -> Option<&dyn Terms<'a>> {
        Some(self)
    }

    fn finish<'b>(&self, k: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
        let Some(largest) = &self.largest else { return };
        let largest = k.redux_max(WARP, largest.get(0));
        k.if_(k.lane_id().eq(0), |k| {
            let (_, amax) = self.args.at(k);
            amax.ptr_cast::<u32>().red().max(0, largest);
        });
    }
}

impl<'a, S: Float, E, P, F> Terms<'a> for ReducedOps<'_, 'a, S, E, P, F>
where
    E: EpilogueParameter,
    P: Converted,
    F: ReducedClosure<S, E>,
{
    fn reduction(&self) -> Option<Reduction> {
        self.reduction
    }

    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
        [m, n]: [Val<'b, i32>; 2],
    ) -> (Val<'b, Sum>, Val<'b, Sum>)
    where
        'a: 'b,
    {
        // `Sum` stands for `S`: conversions between both are none.
        let accumulators = accumulators.map(|accumulator| accumulator.cvt::<S>());
        let start = match self.reduction {
            Some(reduction) => reduction.start(k).cvt::<S>(),
            None => k.constant(S::default()),
        };
        let (value, term) = k.if_with(row.lt(m) & column.lt(n), (S::default(), start), |k| {
            let (args, _) = self.args.at(k);
            (self.apply)(k, accumulators, [row, column, batch], args)
        });
        (value.cvt(), term.cvt())
    }

    fn update<'b>(&self, term: Val<'b, Sum>)
    where
        'a: 'b,
    {
        if let Some(largest) = &self.largest {
            let bits = term.cvt::<f32>().bitcast::<u32>();
            largest.set(0, largest.get(0).max(bits));
        }
    }

    fn store<'b>(&self, k: &mut Body<'b, '_>, at: Val<'b, i64>, value: Val<'b, Sum>)
    where
        'a: 'b,
    {
        let (_, partials) = self.args.at(k);
        partials.store(at, value.cvt::<P>());
    }
}
