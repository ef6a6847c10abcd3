//! Epilogues that also compute the largest absolute value of what they return.

use std::marker::PhantomData;

use crate::ir::builder::{Converted, Float, ParamSource};
use crate::ir::{Body, GlobalMut, Registers, Val, WARP};

use super::config::{Epilogue, GemmConfig};
use super::epilogue::{EpilogueForm, EpilogueMap, EpilogueParameter, FusedEpilogue};
use super::error::GemmError;
use super::front::Gemm;
use crate::ir::{Element, Number};

/// The kernel of [`Gemm::with_amax`].
pub type AmaxGemm<A, B, C, D, E> = Gemm<A, B, C, D, FusedEpilogue<(E, GlobalMut<f32>)>>;

impl<A: Element, B: Element, C: Number, D: Converted> Gemm<A, B, C, D> {
    /// As [`with_epilogue`](Gemm::with_epilogue) and [`with_pairs`](Gemm::with_pairs), of one column or of pairs as the
    /// configuration says. The kernel also computes `max |x|` of the numbers `x` that the closure returns, before they are
    /// rounded to the type of D: what scales a later product of 8-bit floats. Without pairs, both sums are the same.
    ///
    /// A launch takes the pair of the closure's argument and a buffer. Its first element becomes the largest of those numbers and
    /// of what it was, which is no negative number; a NaN among them makes it a NaN. The order of threads does not matter. Each
    /// thread keeps one number for all its tiles, and a warp does one atomic operation.
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
    /// gemm.load(&device)?.launch(&problem, GemmArgs::new(&a, &b, &mut d), (0.5, &mut amax))?;
    /// assert_eq!(amax.to_vec()?, [31.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`with_epilogue`](Gemm::with_epilogue).
    pub fn with_amax<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<AmaxGemm<A, B, C, D, E>, GemmError> {
        if config.epilogue != Epilogue::default() {
            return Err(GemmError::TwoEpilogues);
        }
        Gemm::build(config, &AmaxForm::<E, _> { apply: epilogue, param: PhantomData })
    }
}

struct AmaxForm<E, F> {
    apply: F,
    param: PhantomData<fn() -> E>,
}

impl<S: Float, E, F> EpilogueForm<S> for AmaxForm<E, F>
where
    E: EpilogueParameter,
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, S>; 2], [Val<'b, i32>; 3], E::At<'b>) -> Val<'b, S>,
{
    type Params = FusedEpilogue<(E, GlobalMut<f32>)>;
    const SUFFIX: &'static str = "_amax";
    const KEPT: u32 = 1;

    fn map<'a>(
        &self,
        kept: Option<Registers<'a, u32>>,
        args: ParamSource<(E, GlobalMut<f32>)>,
        extents: [Val<'a, i32>; 2],
    ) -> impl EpilogueMap<'a, S> {
        AmaxOps { apply: &self.apply, args, extents, largest: kept }
    }
}

struct AmaxOps<'p, 'a, E, F> {
    apply: &'p F,
    args: ParamSource<(E, GlobalMut<f32>)>,
    /// The rows and columns of D.
    extents: [Val<'a, i32>; 2],
    /// The largest absolute value of the thread: its bits, whose order is that of the numbers.
    largest: Option<Registers<'a, u32>>,
}

impl<'a, S: Float, E, F> EpilogueMap<'a, S> for AmaxOps<'_, 'a, E, F>
where
    E: EpilogueParameter,
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, S>; 2], [Val<'b, i32>; 3], E::At<'b>) -> Val<'b, S>,
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
        sums: [Val<'b, S>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> Val<'b, S>
    where
        'a: 'b,
    {
        let [m, n] = self.extents;
        k.if_with(row.lt(m) & column.lt(n), S::default(), |k| {
            let (args, _) = self.args.at(k);
            let value = (self.apply)(k, sums, [row, column, batch], args);
            if let Some(largest) = &self.largest {
                let bits = value.abs().cvt::<f32>().bitcast::<u32>();
                largest.set(k, 0, largest.get(k, 0).max(bits));
            }
            value
        })
    }

    fn finish<'b>(&self, k: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
        let Some(largest) = &self.largest else { return };
        let largest = k.redux_max(WARP, largest.get(k, 0));
        k.if_(k.lane_id().eq(0), |k| {
            let (_, amax) = self.args.at(k);
            amax.ptr_cast::<u32>().red().max(k, 0, largest);
        });
    }
}
