//! The epilogue: what happens to accumulators between the MMA and the store. This file defines the
//! interface to the kernels and two epilogues: the configured one (`alpha`, `beta`, bias,
//! activation) and a caller's closure. An epilogue is an [`EpilogueForm`] on the host, which
//! declares its parameters and makes the [`EpilogueMap`] that the kernel applies to its
//! accumulators.

pub(crate) mod direct_store;
pub(crate) mod fragment;
pub(crate) mod reduction;
pub(crate) mod terms;

use std::marker::PhantomData;

use crate::ir::builder::{Context, ParamList, ParamSource, ParamValues, Parameter};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Float, Global, Number, Registers, Val};
use crate::runtime::{ArgList, Argument};
use crate::tensor::copy::AccumulatorMap;
use crate::tensor::pipeline::Tile;

use crate::kernels::gemm::config::{Bias, Epilogue, GemmConfig};
use crate::kernels::gemm::elements::{C, Numbers, Sum};
use crate::kernels::gemm::epilogue::fragment::{FirstElement, Fragment};
use crate::kernels::gemm::epilogue::terms::{Results, Terms};

/// A parameter type for your own epilogue: anything that you can declare in a kernel and pass at
/// launch.
pub trait EpilogueParameter: Parameter + Argument {}

impl<E: Parameter + Argument> EpilogueParameter for E {}

/// The epilogue's arguments for repeated launches.
pub(crate) trait EpilogueArgs {
    /// Appends the arguments for the next launch.
    fn push<'x>(&'x mut self, list: &mut ArgList<'x>);
}

/// The types of A and C as one type parameter, implemented for `(A, C)`. You meet it only in the
/// parameter types of a kernel with a configured epilogue.
pub trait EpilogueTypes: 'static {
    /// The type that the epilogue computes in: `f64` for `f64` operands, else `f32`.
    type Sum: Float;
    /// The element type of C.
    type C: Number;
}

impl<A: Element, C: Number> EpilogueTypes for (A, C) {
    type Sum = A::Sum;
    type C = C;
}

/// The element types of the epilogue of a configuration.
pub(crate) enum Elements {}

impl EpilogueTypes for Elements {
    type Sum = Sum;
    type C = C;
}

crate::params! {
    /// The kernel parameter that holds a configured epilogue's operands: `alpha`, `beta`, C and the
    /// bias. You pass them as [`GemmArgs`](crate::kernels::gemm::GemmArgs); name the type only to
    /// write the type of a [`Gemm`](crate::kernels::gemm::Gemm).
    pub struct EpilogueParams<T: EpilogueTypes> => EpilogueParamsAt<'b, T> {
        pub(crate) alpha: T::Sum,
        pub(crate) beta: T::Sum,
        pub(crate) c: Global<T::C>,
        /// The row pitch and the batch stride of C.
        pub(crate) c_strides: [i64; 2],
        pub(crate) bias: Global<T::C>,
    }
}

/// An epilogue as it is known before the kernel is built.
pub(crate) trait EpilogueForm {
    /// Appended to the kernel's name.
    fn suffix(&self) -> &'static str;

    /// Returns how many registers a thread keeps across all its tiles.
    fn kept(&self) -> u32 {
        0
    }

    /// Returns which results it writes besides D.
    fn results(&self) -> Results {
        Results::None
    }

    /// Declares its parameters.
    fn declare(&self, list: &mut ParamList);

    /// The epilogue in a kernel body, from the values of its parameters and its registers.
    fn make<'x, 'a: 'x>(
        &'x self,
        cx: &'a Context,
        values: &mut ParamValues<'_>,
        kept: Option<Registers<'a, u32>>,
    ) -> Box<dyn EpilogueMap<'a> + 'x>;
}

/// Declares the registers that an epilogue keeps, and clears them.
#[inline]
pub(crate) fn kept<'a>(k: &Body<'a, '_>, form: &dyn EpilogueForm) -> Option<Registers<'a, u32>> {
    if form.kept() == 0 {
        return None;
    }
    let kept = k.registers(form.kept());
    kept.fill(0);
    Some(kept)
}

/// An epilogue in a kernel body `'a`, whatever its parameters are, so that a kernel's tile code is
/// compiled once for all epilogues. `extents` are the rows and columns of D.
pub(crate) trait EpilogueMap<'a> {
    /// See [`AccumulatorMap::is_identity`].
    fn is_identity(&self) -> bool;

    /// See [`AccumulatorMap::has_effects`].
    fn has_effects(&self) -> bool;

    /// See [`AccumulatorMap::apply_pair`]. Can be called in any region of the body. Without
    /// `pairs`, both accumulators are the same.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        coord: [Val<'b, i32>; 3],
        extents: [Val<'b, i32>; 2],
    ) -> Val<'b, Sum>
    where
        'a: 'b;

    /// Returns the epilogue's reduction, if it has one.
    fn terms(&self) -> Option<&dyn Terms<'a>> {
        None
    }

    /// Ends the epilogue. Call it once in every thread that has applied it, with whole warps
    /// together.
    fn finish<'b>(&self, _: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
    }
}

/// The epilogue of a kernel body `'a`.
///
/// An `i32`, whether accumulator or element of D, travels bit-cast in an `f32`, because kernels
/// move the words of both types alike. The epilogue's operations need numbers: the accumulator is
/// converted before them and the result after them. If there are no operations, integers are never
/// rounded.
#[derive(Clone, Copy)]
pub(crate) struct EpilogueRef<'p, 'a> {
    map: &'p (dyn EpilogueMap<'a> + 'p),
    numbers: Numbers,
    config: &'p GemmConfig,
    /// The offsets of a thread's accumulators in a tile.
    offsets: &'p [[i32; 2]],
    /// The rows and columns of D, and the matrices.
    extents: [Val<'a, i32>; 3],
    /// Set if the accumulators already hold elements of D.
    is_applied: bool,
}

impl<'p, 'a> EpilogueRef<'p, 'a> {
    /// The last entry of `extents` is the number of matrices.
    #[inline]
    pub(crate) fn new(
        config: &'p GemmConfig,
        offsets: &'p [[i32; 2]],
        extents: [Val<'a, i32>; 3],
        map: &'p (dyn EpilogueMap<'a> + 'p),
    ) -> Self {
        let numbers = Numbers { acc: config.acc, d: config.d };
        EpilogueRef { map, numbers, config, offsets, extents, is_applied: false }
    }

    /// See [`EpilogueMap::finish`].
    #[inline]
    pub(crate) fn finish<'b>(&self, k: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
        self.map.finish(k);
    }

    /// If the epilogue has a reduction, applies it to a thread's accumulators in place and reduces
    /// its terms. Returns the epilogue that is left for the store. `first` returns the position of
    /// the first accumulator. All threads of a warp must call it together.
    pub(crate) fn reduce<'b, R: Float>(
        self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, R>,
        tile: Tile<'b>,
        first: impl FnOnce(&mut Body<'b, '_>) -> FirstElement<'b>,
    ) -> Self
    where
        'a: 'b,
    {
        let Some(terms) = self.map.terms() else { return self };
        let first = first(k);
        let fragment = Fragment::new(k, self.config, self.offsets, tile, first, self.extents);
        fragment.reduce(k, accumulators, terms, self.numbers);
        EpilogueRef { is_applied: true, ..self }
    }

    #[inline]
    fn keeps_accumulators(&self) -> bool {
        let is_integer = |scalar| scalar == Scalar::I32;
        let is_identity =
            self.map.is_identity() && is_integer(self.numbers.acc) == is_integer(self.numbers.d);
        self.is_applied || is_identity
    }

    /// Returns the element of D for an accumulator, passed twice, or for a pair.
    #[inline]
    pub(crate) fn of_accumulators<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, Sum>
    where
        'a: 'b,
    {
        if self.keeps_accumulators() {
            return accumulators[0];
        }
        let [rows, columns, _] = self.extents;
        let accumulators = self.numbers.of_accumulators(accumulators);
        let value = self.map.apply(k, accumulators, coord, [rows, columns]);
        self.numbers.stored(value)
    }
}

/// Kernels that store through this trait have `f32` accumulators, so the conversions are no-ops.
impl<'b, 'a: 'b> AccumulatorMap<'b> for EpilogueRef<'_, 'a> {
    #[inline]
    fn is_identity(&self) -> bool {
        self.keeps_accumulators()
    }

    #[inline]
    fn has_effects(&self) -> bool {
        !self.is_applied && self.map.has_effects()
    }

    #[inline]
    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        accumulator: Val<'b, f32>,
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self.apply_pair(k, [accumulator; 2], coord)
    }

    #[inline]
    fn apply_pair(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, f32>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self.of_accumulators(k, accumulators.map(|x| x.cvt::<Sum>()), coord).cvt::<f32>()
    }
}

/// The epilogue of a configuration.
pub(crate) struct ConfiguredEpilogue(pub(crate) Epilogue);

impl EpilogueForm for ConfiguredEpilogue {
    #[inline]
    fn suffix(&self) -> &'static str {
        ""
    }

    #[inline]
    fn declare(&self, list: &mut ParamList) {
        EpilogueParams::<Elements>::declare(list);
    }

    #[inline]
    fn make<'x, 'a: 'x>(
        &'x self,
        cx: &'a Context,
        values: &mut ParamValues<'_>,
        _: Option<Registers<'a, u32>>,
    ) -> Box<dyn EpilogueMap<'a> + 'x> {
        let args = EpilogueParams::<Elements>::make(cx, values);
        Box::new(EpilogueOps { ops: self.0, args })
    }
}

/// Computes `activation(alpha x + beta C + bias)`.
struct EpilogueOps<'a> {
    ops: Epilogue,
    args: EpilogueParamsAt<'a, Elements>,
}

impl<'a> EpilogueMap<'a> for EpilogueOps<'a> {
    #[inline]
    fn is_identity(&self) -> bool {
        self.ops == Epilogue::default()
    }

    #[inline]
    fn has_effects(&self) -> bool {
        false
    }

    #[inline]
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        [accumulator, _]: [Val<'b, Sum>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
        [m, n]: [Val<'b, i32>; 2],
    ) -> Val<'b, Sum>
    where
        'a: 'b,
    {
        let EpilogueOps { ops, args } = self;
        let mut value = if ops.alpha { accumulator * args.alpha } else { accumulator };
        if ops.beta {
            let inside = row.lt(m) & column.lt(n);
            let x = k.if_with(inside, Sum::default(), |_| {
                let [pitch, matrix] = args.c_strides;
                let at =
                    row.cvt::<i64>() * pitch + column.cvt::<i64>() + batch.cvt::<i64>() * matrix;
                args.c.load(at).cvt::<Sum>()
            });
            value = x.fma(args.beta, value);
        }
        if let Some(bias) = ops.bias {
            let (at, extent) = if bias == Bias::Row { (row, m) } else { (column, n) };
            let x = k.if_with(at.lt(extent), Sum::default(), |_| args.bias.load(at).cvt::<Sum>());
            value += x;
        }
        ops.activation.map_or(value, |activation| activation.apply(value))
    }
}

/// The parameter type of a kernel with your own epilogue: see
/// [`Gemm::with_epilogue`](crate::kernels::gemm::Gemm::with_epilogue). You meet it only if you name
/// such a kernel's type.
#[derive(Debug)]
pub struct FusedEpilogue<E>(PhantomData<fn() -> E>);

impl<E: Parameter> Parameter for FusedEpilogue<E> {
    type At<'b> = ParamSource<E>;

    fn declare(list: &mut ParamList) {
        E::declare(list);
    }

    fn make(cx: &Context, values: &mut ParamValues<'_>) -> ParamSource<E> {
        ParamSource::take(cx, values)
    }
}

/// The arguments of one launch.
impl EpilogueArgs for ArgList<'_> {
    fn push<'x>(&'x mut self, list: &mut ArgList<'x>) {
        list.append(std::mem::take(self).shortened());
    }
}

/// An epilogue that a program wrote, with the parameter `E`, on numbers of type `S`. It gets a pair
/// of accumulators; without `pairs`, both are the same.
pub(crate) struct FusedForm<S, E, F> {
    apply: F,
    types: PhantomData<fn() -> (S, E)>,
}

impl<S, E, F> FusedForm<S, E, F> {
    pub(crate) fn new(apply: F) -> Self {
        FusedForm { apply, types: PhantomData }
    }
}

impl<S: Float, E, F> EpilogueForm for FusedForm<S, E, F>
where
    E: EpilogueParameter,
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, S>; 2], [Val<'b, i32>; 3], E::At<'b>) -> Val<'b, S>,
{
    fn suffix(&self) -> &'static str {
        "_fused"
    }

    fn declare(&self, list: &mut ParamList) {
        E::declare(list);
    }

    fn make<'x, 'a: 'x>(
        &'x self,
        cx: &'a Context,
        values: &mut ParamValues<'_>,
        _: Option<Registers<'a, u32>>,
    ) -> Box<dyn EpilogueMap<'a> + 'x> {
        let args = ParamSource::<E>::take(cx, values);
        Box::new(FusedOps { apply: &self.apply, args, numbers: PhantomData::<fn() -> S> })
    }
}

struct FusedOps<'p, S, E, F> {
    apply: &'p F,
    args: ParamSource<E>,
    numbers: PhantomData<fn() -> S>,
}

impl<'a, S: Float, E, F> EpilogueMap<'a> for FusedOps<'_, S, E, F>
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

    /// Tiles reach beyond D, but the closure runs only for elements of D.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
        [m, n]: [Val<'b, i32>; 2],
    ) -> Val<'b, Sum>
    where
        'a: 'b,
    {
        // `Sum` stands for `S`: these conversions are none.
        let accumulators = accumulators.map(|accumulator| accumulator.cvt::<S>());
        let value = k.if_with(row.lt(m) & column.lt(n), S::default(), |k| {
            let args = self.args.at(k);
            (self.apply)(k, accumulators, [row, column, batch], args)
        });
        value.cvt()
    }
}
