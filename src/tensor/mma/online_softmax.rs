//! [`OnlineSoftmax`]: a softmax whose rows arrive tile by tile, as in FlashAttention. Use it if the
//! scores of a row never exist all at once, because another GEMM consumes each tile.

use crate::ir::{Body, Val, WARP};

use super::accumulator_rows::AccumulatorRows;
use crate::tensor::view::tensor::RegisterTensor;

crate::values! {
    /// The running state of a softmax over tiles of columns. For each of a thread's two rows it
    /// holds the maximum of all scores so far, and the sum of the thread's own powers
    /// `2^(scale * (score - max))`.
    ///
    /// For each tile call [`update`](OnlineSoftmax::update), which replaces scores by powers, and
    /// [`rescale`](OnlineSoftmax::rescale), which corrects what was accumulated with earlier
    /// maxima. Call [`finish`](OnlineSoftmax::finish) at the end. `scale` must be positive:
    /// `log2(e)` times any factor of the scores.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, range};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::atom::{MmaAtom, TiledMma};
    /// use tilewright::tensor::mma::{AccumulatorRows, OnlineSoftmax};
    ///
    /// // The logarithm of the sum of the powers of e of 3 tiles of 16 x 8 whose elements are 0, 1 and 2.
    /// let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// let rows = AccumulatorRows::new(&mma, [16, 8])?;
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("lse", Target::SM_80, |k, (y,)| {
    ///     let scale = k.constant(std::f32::consts::LOG2_E);
    ///     let acc = mma.slice(0).fragment_c::<f32>(k, shape!(16, 8));
    ///     let softmax = k.for_(range(0, 3), OnlineSoftmax::new(k), |_, tile, softmax| {
    ///         acc.fill(tile.cvt::<f32>());
    ///         softmax.update(&rows, &acc, scale).0
    ///     });
    ///     let lse = softmax.finish(&rows, scale).lse;
    ///     y.store(k.thread_idx().x, lse[0]);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut y = device.zeros::<f32>(32)?;
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut y,))?;
    /// let expected = (8.0 * (1.0 + 1f32.exp() + 2f32.exp())).ln();
    /// assert!(y.to_vec()?.iter().all(|y| (y - expected).abs() < 1e-5));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct OnlineSoftmax<'b> {
        /// Each row's maximum in all lanes that share the row; negative infinity without scores.
        /// With lazy [`maxima`](OnlineSoftmax::maxima) it can be up to 8 powers of two below the
        /// true maximum.
        pub max: [Val<'b, f32>; 2],
        /// Each row's sum of the thread's own powers.
        pub sum: [Val<'b, f32>; 2],
    }
}

impl<'b> OnlineSoftmax<'b> {
    /// Returns the state before the first tile: no scores, so that the sums are 0.
    #[track_caller]
    #[inline]
    pub fn new(k: &Body<'b, '_>) -> Self {
        let [low, zero] = [f32::NEG_INFINITY, 0.0].map(|number| k.constant(number));
        OnlineSoftmax { max: [low; 2], sum: [zero; 2] }
    }

    /// Returns each row's base, the score whose power is 1: the maximum so far. This is the first
    /// half of [`update`](OnlineSoftmax::update).
    ///
    /// If `lazy`, the old base stays until a score exceeds it by more than 8 powers of two, so that
    /// most tiles need no rescaling. Powers then go up to `2^8`, but the result is the same:
    /// Zadouri et al., FlashAttention-4 (2026).
    #[track_caller]
    #[inline]
    pub fn maxima(
        &self,
        rows: &AccumulatorRows,
        scores: &RegisterTensor<'b, f32>,
        scale: Val<'b, f32>,
        lazy: bool,
    ) -> [Val<'b, f32>; 2] {
        let k = &scores.body();
        let maxima = [0, 1].map(|row| {
            let max = rows.fold(scores, row, self.max[row], |a, b| a.max(b));
            rows.reduce_lanes(max, |a, b| a.max(b))
        });
        if !lazy {
            return maxima;
        }
        let slack = k.constant(8.0);
        [0, 1].map(|row| {
            // For the first score the difference is infinite. For two negative infinities it is
            // NaN, and the base stays.
            let grows = ((maxima[row] - self.max[row]) * scale).gt(slack);
            grows.select(maxima[row], self.max[row])
        })
    }

    /// Replaces a tile's scores by their powers. Returns the next state and, per row, the factor
    /// for everything accumulated so far. A score of negative infinity is masked; if a row has no
    /// other score, its powers are 0.
    #[track_caller]
    #[inline]
    pub fn update(
        self,
        rows: &AccumulatorRows,
        scores: &RegisterTensor<'b, f32>,
        scale: Val<'b, f32>,
    ) -> (Self, [Val<'b, f32>; 2]) {
        let maxima = self.maxima(rows, scores, scale, false);
        self.update_to(rows, scores, scale, maxima)
    }

    /// The second half of [`update`](OnlineSoftmax::update), with `maxima` from the first half. Use
    /// the two halves if other work goes between the maxima and the powers.
    #[track_caller]
    #[inline]
    pub fn update_to(
        self,
        rows: &AccumulatorRows,
        scores: &RegisterTensor<'b, f32>,
        scale: Val<'b, f32>,
        maxima: [Val<'b, f32>; 2],
    ) -> (Self, [Val<'b, f32>; 2]) {
        let k = &scores.body();
        let (mut next, mut factors) = (self, self.sum);
        for (row, (max, factor)) in maxima.into_iter().zip(&mut factors).enumerate() {
            let base = Self::base(k, max);
            let minus = -(base * scale);
            // Exactly 1 if the maximum stays.
            *factor = ((self.max[row] - base) * scale).exp2_fast();
            rows.map_row(scores, row, |_, score| score.fma(scale, minus).exp2_fast());
            let zero = k.constant(0.0);
            let own = rows.fold(scores, row, zero, |a, b| a + b);
            next.max[row] = max;
            next.sum[row] = self.sum[row].fma(*factor, own);
        }
        (next, factors)
    }

    /// Returns the score whose power is 1. If there are no scores it is 0, so that their powers
    /// become 0.
    #[track_caller]
    #[inline]
    fn base<'c>(k: &Body<'c, '_>, max: Val<'c, f32>) -> Val<'c, f32> {
        max.eq(f32::NEG_INFINITY).select(k.constant(0.0), max)
    }

    /// Merges the softmax of other columns of the same rows, held by the same lanes. Returns the
    /// merged state and, per row, the factors for what was accumulated with `self` and with
    /// `other`. Use it to combine split keys.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::mma::OnlineSoftmax;
    ///
    /// // The powers of 2 of 5 and 3, and of 6: relative to the larger maximum, the first sum is halved.
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("join", Target::SM_80, |k, (y,)| {
    ///     let of = |max: f32, sum: f32| OnlineSoftmax { max: [k.constant(max); 2], sum: [k.constant(sum); 2] };
    ///     let (both, [old, new]) = of(5.0, 1.25).join(of(6.0, 1.0), k.constant(1.0));
    ///     for (at, number) in [both.max[0], both.sum[0], old[0], new[0]].into_iter().enumerate() {
    ///         y.store(at as u32, number);
    ///     }
    /// })?;
    /// let device = Device::sim()?;
    /// let mut y = device.zeros::<f32>(4)?;
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [1, 1, 1]), (&mut y,))?;
    /// assert_eq!(y.to_vec()?, [6.0, 1.625, 0.5, 1.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn join(self, other: Self, scale: Val<'b, f32>) -> (Self, [[Val<'b, f32>; 2]; 2]) {
        let k = &scale.body();
        let max = [0, 1].map(|row| self.max[row].max(other.max[row]));
        let base = max.map(|max| Self::base(k, max));
        let [old, new] = [self, other]
            .map(|one| [0, 1].map(|row| ((one.max[row] - base[row]) * scale).exp2_fast()));
        let sum = [0, 1].map(|row| self.sum[row].fma(old[row], other.sum[row] * new[row]));
        (OnlineSoftmax { max, sum }, [old, new])
    }

    /// Multiplies each row of accumulators by its factor. If `lazy`, skips that when all factors of
    /// the warp are 1. Call it with the factors that [`update`](OnlineSoftmax::update) returns,
    /// before the tile's own products are added.
    #[track_caller]
    #[inline]
    pub fn rescale(
        rows: &AccumulatorRows,
        acc: &RegisterTensor<'b, f32>,
        factors: [Val<'b, f32>; 2],
        lazy: bool,
    ) {
        let k = &mut acc.body();
        if lazy {
            let any = k.vote_any(WARP, factors[0].ne(1.0) | factors[1].ne(1.0));
            // The inner body has a shorter lifetime, so each value is copied.
            k.if_(any, |_| OnlineSoftmax::rescale(rows, acc, factors.map(|factor| factor), false));
            return;
        }
        for (row, factor) in factors.into_iter().enumerate() {
            rows.map_row(acc, row, |_, value| value * factor);
        }
    }

    /// Reduces the sums over the lanes.
    #[track_caller]
    #[inline]
    pub fn finish(self, rows: &AccumulatorRows, scale: Val<'b, f32>) -> SoftmaxEnd<'b> {
        let k = &scale.body();
        let [mut inverse, mut lse] = [self.sum; 2];
        for row in 0..2 {
            let sum = rows.reduce_lanes(self.sum[row], |a, b| a + b);
            let empty = sum.eq(0.0);
            inverse[row] = empty.select(k.constant(0.0), sum.recip_fast());
            let log = self.max[row].fma(scale, sum.log2_fast()) * std::f32::consts::LN_2;
            lse[row] = empty.select(k.constant(f32::NEG_INFINITY), log);
        }
        SoftmaxEnd { inverse, lse }
    }
}

/// What [`OnlineSoftmax::finish`] returns for a thread's two rows.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxEnd<'b> {
    /// Each row's reciprocal sum, or 0 if the row has no scores. Multiply the accumulated output by
    /// it.
    pub inverse: [Val<'b, f32>; 2],
    /// Each row's log-sum-exp in nats, or negative infinity if the row has no scores. A backward
    /// pass and a merge of split keys need it.
    pub lse: [Val<'b, f32>; 2],
}
