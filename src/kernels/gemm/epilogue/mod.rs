//! The epilogue: operations on the product before it is written.

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

/// The parameter of an epilogue that a program wrote, which a launch passes.
pub trait EpilogueParameter: Parameter + Argument {}

impl<E: Parameter + Argument> EpilogueParameter for E {}

/// The arguments of an epilogue for any number of launches.
pub(crate) trait EpilogueArgs {
    /// Appends the arguments of the next launch.
    fn push<'x>(&'x mut self, list: &mut ArgList<'x>);
}

/// The types of A and of C, as one type: the pair of them.
pub trait EpilogueTypes: 'static {
    /// The type in which the epilogue computes.
    type Sum: Float;
    /// The type of C.
    type C: Number;
}

impl<A: Element, C: Number> EpilogueTypes for (A, C) {
    type Sum = A::Sum;
    type C = C;
}

crate::params! {
    /// The operands of the epilogue of a configuration.
    pub struct EpilogueParams<T: EpilogueTypes> => EpilogueParamsAt<'b, T> {
        pub(crate) alpha: T::Sum,
        pub(crate) beta: T::Sum,
        pub(crate) c: Global<T::C>,
        /// The row pitch and the batch stride of C.
        pub(crate) c_strides: [i64; 2],
        pub(crate) bias: Global<T::C>,
    }
}

/// An epilogue before its kernel is built.
pub(crate) trait EpilogueForm<S: Float> {
    /// Its parameters.
    type Params: Parameter;
    /// The end of the names of its kernels.
    const SUFFIX: &'static str;

    /// The registers that a thread keeps for all its tiles.
    fn kept(&self) -> u32 {
        0
    }

    /// The results that it writes beside D.
    fn results(&self) -> Results {
        Results::None
    }

    /// The epilogue in a kernel body, with its registers, the values of its parameters, and the rows and columns of D.
    fn map<'a>(
        &self,
        kept: Option<Registers<'a, u32>>,
        args: <Self::Params as Parameter>::At<'a>,
        extents: [Val<'a, i32>; 2],
    ) -> impl EpilogueMap<'a, S>;
}

/// Declares the registers of an epilogue, with zeros.
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

/// An epilogue in a kernel body `'a`, whatever its parameters are: the tiles of a kernel are built once for all of them.
pub(crate) trait EpilogueMap<'a, S: Float> {
    /// As [`AccumulatorMap::is_identity`].
    fn is_identity(&self) -> bool;

    /// As [`AccumulatorMap::has_effects`].
    fn has_effects(&self) -> bool;

    /// As [`AccumulatorMap::apply_pair`], in any region of the body. Without pairs both accumulators are the same.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, S>; 2],
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, S>
    where
        'a: 'b;

    /// The reduction of an epilogue that has one.
    fn terms(&self) -> Option<&dyn Terms<'a, S>> {
        None
    }

    /// Ends the epilogue, once in each thread that has applied it. Whole warps do it together.
    fn finish<'b>(&self, _: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
    }
}

/// The epilogue of a kernel body `'a`, of accumulators of type `S`.
///
/// An `i32`, an accumulator or an element of D, is in an `f32` with the same bits: kernels move the words of both alike. The
/// operations are on numbers: an accumulator is converted for them, and the result to D. Without operations, integers are never rounded.
pub(crate) struct EpilogueRef<'p, 'a, S> {
    map: &'p dyn EpilogueMap<'a, S>,
    numbers: Numbers,
    config: &'p GemmConfig,
    /// The offsets of the accumulators of a thread in a tile.
    offsets: &'p [[i32; 2]],
    /// The rows and columns of D, and the number of matrices.
    extents: [Val<'a, i32>; 3],
    /// The accumulators are elements of D already.
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

    /// As [`EpilogueMap::finish`].
    pub(crate) fn finish<'b>(&self, k: &mut Body<'b, '_>)
    where
        'a: 'b,
    {
        self.map.finish(k);
    }

    /// Applies an epilogue with a reduction to the accumulators of a thread of a tile, in place, and reduces its terms. Returns
    /// the epilogue that is left for the store. `first` makes the place of the first accumulator. All threads of a warp do it together.
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

    /// Returns the element of D for an accumulator, twice the same, or for a pair of them.
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

/// Kernels whose stores are of `f32` have such accumulators: the conversions are none.
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

/// The epilogue of a configuration, for C and D of these types.
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

/// `activation(alpha x + beta C + bias)`.
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
                // The hardware's `tanh` is of `f32`.
                let value = value.cvt::<f32>();
                // sqrt(2 / pi), and its product with 0.044715.
                let inner = value * (value * value).fma(0.035_677_407_f32, 0.797_884_6);
                ((value * 0.5) * (inner.tanh_fast() + 1.0)).cvt::<T::Sum>()
            }
        }
    }
}

/// The parameter `E` of an epilogue that a program wrote: see [`Gemm::with_epilogue`](crate::kernels::gemm::Gemm::with_epilogue).
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

/// An epilogue that a program wrote, with the parameter `E`: of an accumulator, twice the same, or of a pair.
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

    /// Tiles reach beyond D: the closure runs for elements of D only.
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
