//! The epilogue: what happens to accumulators between the MMA and the store. This file defines the
//! interface to the kernels and two epilogues: the configured one (`alpha`, `beta`, bias,
//! activation) and a caller's closure.

pub(crate) mod direct_store;
pub(crate) mod fragment;
pub(crate) mod reduction;
pub(crate) mod terms;

use std::marker::PhantomData;

use crate::ir::builder::{Context, Float, ParamList, ParamSource, ParamValues, Parameter};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, Number, Registers, Val};
use crate::runtime::{ArgList, Argument};
use crate::tensor::{AccumulatorMap, Tile};

use crate::kernels::gemm::config::types::Numbers;
use crate::kernels::gemm::config::{Activation, Bias, Epilogue, GemmConfig};
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

/// The types of A and C as one type parameter: implemented for `(A, C)`.
pub trait EpilogueTypes: 'static {
    /// The type that the epilogue computes in.
    type Sum: Float;
    /// The element type of C.
    type C: Number;
}

impl<A: Element, C: Number> EpilogueTypes for (A, C) {
    type Sum = A::Sum;
    type C = C;
}

crate::params! {
    /// The operands of a configured epilogue.
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
pub(crate) trait EpilogueForm<S: Float> {
    /// The parameters it takes.
    type Params: Parameter;
    /// Appended to the kernel's name.
    const SUFFIX: &'static str;

    /// Returns how many registers a thread keeps across all its tiles.
    fn kept(&self) -> u32 {
        0
    }

    /// Returns which results it writes besides D.
    fn results(&self) -> Results {
        Results::None
    }

    /// Makes the epilogue in a kernel's body, from its registers, its parameters' values, and the
    /// rows and columns of D.
    fn map<'a>(
        &self,
        kept: Option<Registers<'a, u32>>,
        args: <Self::Params as Parameter>::At<'a>,
        extents: [Val<'a, i32>; 2],
    ) -> impl EpilogueMap<'a, S>;
}

/// Declares the registers that an epilogue keeps, and clears them.
pub(crate) fn kept<'a, S: Float>(
    k: &Body<'a, '_>,
    form: &impl EpilogueForm<S>,
) -> Option<Registers<'a, u32>> {
    (form.kept() > 0).then(|| {
        let kept = k.registers(form.kept());
        kept.fill(k, 0);
        kept
    })
}

/// An epilogue in a kernel's body `'a`. It is a trait object, so that the kernels' code is compiled
/// once for all epilogues.
pub(crate) trait EpilogueMap<'a, S: Float> {
    /// See [`AccumulatorMap::is_identity`].
    fn is_identity(&self) -> bool;

    /// See [`AccumulatorMap::has_effects`].
    fn has_effects(&self) -> bool;

    /// See [`AccumulatorMap::apply_pair`]. Can be called in any region of the body. Without
    /// `pairs`, both accumulators are the same.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, S>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, S>
    where
        'a: 'b;

    /// Returns the epilogue's reduction, if it has one.
    fn terms(&self) -> Option<&dyn Terms<'a, S>> {
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

/// An epilogue with everything it needs to be applied to accumulators of type `S`.
///
/// `i32` accumulators and elements of D travel bit-cast in `f32` registers, so that one store path
/// handles every 32-bit type. To compute, accumulators are converted to values, and the result to
/// D. An epilogue without operations leaves the bits alone, so integers are never rounded.
pub(crate) struct EpilogueRef<'p, 'a, S> {
    map: &'p dyn EpilogueMap<'a, S>,
    numbers: Numbers,
    config: &'p GemmConfig,
    /// The offsets of a thread's accumulators in a tile.
    offsets: &'p [[i32; 2]],
    /// The rows and columns of D, and the matrices.
    extents: [Val<'a, i32>; 3],
    /// Set if the accumulators already hold elements of D.
    is_applied: bool,
}

impl<S> Clone for EpilogueRef<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for EpilogueRef<'_, '_, S> {}

impl<'p, 'a, S: Float> EpilogueRef<'p, 'a, S> {
    pub(crate) fn new(
        (config, offsets): (&'p GemmConfig, &'p [[i32; 2]]),
        ([rows, columns], matrices): ([Val<'a, i32>; 2], Val<'a, i32>),
        map: &'p dyn EpilogueMap<'a, S>,
    ) -> Self {
        let extents = [rows, columns, matrices];
        let numbers = Numbers { acc: config.acc, d: config.d };
        EpilogueRef { map, numbers, config, offsets, extents, is_applied: false }
    }

    /// See [`EpilogueMap::finish`].
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
        let fragment = Fragment::new(k, (self.config, self.offsets), tile, first, self.extents);
        fragment.reduce(k, accumulators, (terms, self.numbers));
        EpilogueRef { is_applied: true, ..self }
    }

    fn keeps_accumulators(&self) -> bool {
        let is_integer = |scalar| scalar == Scalar::I32;
        let is_identity =
            self.map.is_identity() && is_integer(self.numbers.acc) == is_integer(self.numbers.d);
        self.is_applied || is_identity
    }

    /// Returns the element of D for an accumulator, passed twice, or for a pair.
    pub(crate) fn of_accumulators<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, S>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, S>
    where
        'a: 'b,
    {
        if self.keeps_accumulators() {
            return accumulators[0];
        }
        let value = self.map.apply(k, self.numbers.of_accumulators(accumulators), coord);
        self.numbers.stored(value)
    }
}

/// Kernels that store through this trait have `f32` accumulators, so the conversions are no-ops.
impl<'b, 'a: 'b, S: Float> AccumulatorMap<'b> for EpilogueRef<'_, 'a, S> {
    fn is_identity(&self) -> bool {
        self.keeps_accumulators()
    }

    fn has_effects(&self) -> bool {
        !self.is_applied && self.map.has_effects()
    }

    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        accumulator: Val<'b, f32>,
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self.apply_pair(k, [accumulator; 2], coord)
    }

    fn apply_pair(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, f32>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self.of_accumulators(k, accumulators.map(|x| x.cvt::<S>()), coord).cvt::<f32>()
    }
}

/// The configured epilogue, for these types of A and C.
pub(crate) struct ConfiguredEpilogue<T>(Epilogue, PhantomData<T>);

impl<T> ConfiguredEpilogue<T> {
    pub(crate) fn new(ops: Epilogue) -> Self {
        ConfiguredEpilogue(ops, PhantomData)
    }
}

impl<T: EpilogueTypes> EpilogueForm<T::Sum> for ConfiguredEpilogue<T> {
    type Params = EpilogueParams<T>;
    const SUFFIX: &'static str = "";

    fn map<'a>(
        &self,
        _: Option<Registers<'a, u32>>,
        args: EpilogueParamsAt<'a, T>,
        extents: [Val<'a, i32>; 2],
    ) -> impl EpilogueMap<'a, T::Sum> {
        EpilogueOps { ops: self.0, args, extents }
    }
}

/// Computes `activation(alpha x + beta C + bias)`.
struct EpilogueOps<'a, T: EpilogueTypes> {
    ops: Epilogue,
    args: EpilogueParamsAt<'a, T>,
    /// The rows and columns of D.
    extents: [Val<'a, i32>; 2],
}

impl<'a, T: EpilogueTypes> EpilogueMap<'a, T::Sum> for EpilogueOps<'a, T> {
    fn is_identity(&self) -> bool {
        self.ops == Epilogue::default()
    }

    fn has_effects(&self) -> bool {
        false
    }

    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        [accumulator, _]: [Val<'b, T::Sum>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> Val<'b, T::Sum>
    where
        'a: 'b,
    {
        let EpilogueOps { ops, args, extents: [m, n] } = self;
        let (m, n) = (*m, *n);
        let mut value = if ops.alpha { accumulator * args.alpha } else { accumulator };
        if ops.beta {
            let inside = row.lt(m) & column.lt(n);
            let x = k.if_with(inside, T::Sum::default(), |k| {
                let [pitch, matrix] = args.c_strides;
                let at =
                    row.cvt::<i64>() * pitch + column.cvt::<i64>() + batch.cvt::<i64>() * matrix;
                args.c.load(k, at).cvt::<T::Sum>()
            });
            value = x.fma(args.beta, value);
        }
        if let Some(bias) = ops.bias {
            let (at, extent) = if bias == Bias::Row { (row, m) } else { (column, n) };
            let x = k.if_with(at.lt(extent), T::Sum::default(), |k| {
                args.bias.load(k, at).cvt::<T::Sum>()
            });
            value += x;
        }
        match ops.activation {
            None => value,
            Some(Activation::Relu) => value.max(T::Sum::default()),
            Some(Activation::Gelu) => {
                // The hardware's `tanh` takes `f32`.
                let value = value.cvt::<f32>();
                // sqrt(2 / pi), and its product with 0.044715.
                let inner = value * (value * value).fma(0.035_677_407_f32, 0.797_884_6);
                ((value * 0.5) * (inner.tanh_fast() + 1.0)).cvt::<T::Sum>()
            }
        }
    }
}

/// The parameter type of a kernel with your own epilogue: see
/// [`Gemm::with_epilogue`](crate::kernels::gemm::Gemm::with_epilogue).
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

/// Your own epilogue with the parameter `E`. The closure gets an accumulator twice, or a pair.
pub(crate) struct FusedForm<E, F> {
    apply: F,
    param: PhantomData<fn() -> E>,
}

impl<E, F> FusedForm<E, F> {
    pub(crate) fn new(apply: F) -> Self {
        FusedForm { apply, param: PhantomData }
    }
}

impl<S: Float, E, F> EpilogueForm<S> for FusedForm<E, F>
where
    E: EpilogueParameter,
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, S>; 2], [Val<'b, i32>; 3], E::At<'b>) -> Val<'b, S>,
{
    type Params = FusedEpilogue<E>;
    const SUFFIX: &'static str = "_fused";

    fn map<'a>(
        &self,
        _: Option<Registers<'a, u32>>,
        args: ParamSource<E>,
        extents: [Val<'a, i32>; 2],
    ) -> impl EpilogueMap<'a, S> {
        FusedOps { apply: &self.apply, args, extents }
    }
}

struct FusedOps<'p, 'a, E, F> {
    apply: &'p F,
    args: ParamSource<E>,
    /// The rows and columns of D.
    extents: [Val<'a, i32>; 2],
}

impl<'a, S: Float, E, F> EpilogueMap<'a, S> for FusedOps<'_, 'a, E, F>
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
        accumulators: [Val<'b, S>; 2],
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> Val<'b, S>
    where
        'a: 'b,
    {
        let [m, n] = self.extents;
        k.if_with(row.lt(m) & column.lt(n), S::default(), |k| {
            let args = self.args.at(k);
            (self.apply)(k, accumulators, [row, column, batch], args)
        })
    }
}
