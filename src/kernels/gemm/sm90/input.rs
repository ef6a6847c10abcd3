//! The forms in which the warp-specialised kernel takes A and B: tensor maps for TMA, or lines that
//! threads fetch. For each: the kernel's parameters, their values in the body, and a launch's
//! arguments.

use crate::arch::Major;
use crate::ir::builder::{ParamList, ParamValues, Parameter};
use crate::ir::{Body, Element, Global, TensorMap};
use crate::runtime::{ArgList, Argument, AtLaunch, Buffer, TensorMapArg};
use crate::tensor::{GlobalLines, ThrLines, TmaTensors};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::forms::LoadForm;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::types::Types;
use crate::kernels::gemm::config::{GROUP, GemmConfig};
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::gemm::sm90::ragged::{Made, maps_of};

crate::params! {
    /// A and B for TMA.
    struct MapParams<T: Types> => MapsAt<'b, T> {
        a: TensorMap<T::A, 3>,
        b: TensorMap<T::B, 3>,
    }
}

crate::params! {
    /// A and B for threads that fetch.
    struct LineParams<T: Types> => BothLinesAt<'b, T> {
        a: LinesOf<T::A> => LinesAt<'b, T::A>,
        b: LinesOf<T::B> => LinesAt<'b, T::B>,
    }
}

crate::params! {
    /// An operand that threads fetch: its pitch and batch stride, the elements from its first to
    /// its last, its lines and their length.
    struct LinesOf<T: Element> => LinesAt<'b, T> {
        from: Global<T>,
        strides: [i64; 2],
        readable: i64,
        extents: [i32; 2],
    }
}

/// A and B in the kernel's body.
pub(crate) enum Input<'p, 'a, A: Element, B: Element> {
    Maps(TmaTensors<'p, 'a, A, 3>, TmaTensors<'p, 'a, B, 3>),
    Lines(Box<(ThrLines<'a, A>, ThrLines<'a, B>)>),
}

impl Plan {
    /// Declares A and B. A ragged kernel also takes maps in memory.
    pub(crate) fn declare_input<T: Types>(&self, list: &mut ParamList) {
        let GemmConfig { load, ragged, .. } = self.config;
        if load == LoadForm::Threads {
            return LineParams::<T>::declare(list);
        }
        MapParams::<T>::declare(list);
        ragged.then(|| list.field("maps", Global::<u64>::declare));
    }

    /// Makes A and B in the kernel's body.
    pub(crate) fn input<'a, T: Types>(
        &self,
        k: &Body<'a, '_>,
        values: &mut ParamValues<'_>,
    ) -> Input<'_, 'a, T::A, T::B> {
        let GemmConfig { tile: [m, n, depth], load, major_a, major_b, ragged, .. } = self.config;
        if load == LoadForm::Threads {
            let BothLinesAt { a, b } = LineParams::<T>::make(k.context(), values);
            let a = a.slice(k, major_a, [m, depth]);
            return Input::Lines(Box::new((a, b.slice(k, major_b, [n, depth]))));
        }
        let MapsAt { a, b } = MapParams::<T>::make(k.context(), values);
        let made = ragged.then(|| Global::<u64>::make(k.context(), values));
        let maps = |operand| made.map(|made| maps_of(made, operand));
        Input::Maps(
            TmaTensors { copy: &self.a.copy, map: a, maps: maps(0) },
            TmaTensors { copy: &self.b.copy, map: b, maps: maps(1) },
        )
    }
}

impl<'a, E: Element> LinesAt<'a, E> {
    /// Returns a thread's part of tiles of these lines.
    fn slice(self, k: &Body<'a, '_>, major: Major, tile: [u32; 2]) -> ThrLines<'a, E> {
        let LinesAt { from, strides, readable, extents } = self;
        let lines = GlobalLines { from, major, strides, readable, extents };
        lines.slice(k, tile, k.thread_idx().x % GROUP)
    }
}

/// A and B of a launch.
pub(crate) enum InputArgs<'h, T: Types> {
    Maps(Box<MapArgs<'h, T>>),
    Lines(LineArg<'h, T::A>, LineArg<'h, T::B>),
}

/// A and B with their tensor maps.
pub(crate) struct MapArgs<'h, T: Types> {
    pub(crate) a: MapArg<'h, T::A>,
    pub(crate) b: MapArg<'h, T::B>,
}

/// An operand with its tensor map.
pub(crate) struct MapArg<'h, E: Element> {
    pub(crate) from: &'h Buffer<E>,
    pub(crate) map: TensorMapArg<'h, E>,
}

/// An operand that threads fetch.
pub(crate) struct LineArg<'h, E: Element> {
    from: &'h Buffer<E>,
    strides: [i64; 2],
    readable: i64,
    extents: [i32; 2],
}

impl<'h, T: Types> InputArgs<'h, T> {
    pub(crate) fn new(
        plan: &Plan,
        (a, b): (&'h Buffer<T::A>, &'h Buffer<T::B>),
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<Self, GemmError> {
        let (GemmProblem { m, n, k, batch, .. }, config) = (*problem, &plan.config);
        if config.load == LoadForm::Threads {
            let a = LineArg::new(a, config.major_a, [m, k, batch], strides.a);
            return Ok(InputArgs::Lines(
                a,
                LineArg::new(b, config.major_b, [n, k, batch], strides.b),
            ));
        }
        let [map_a, map_b] = plan.maps(problem, strides)?;
        let a = MapArg { from: a, map: a.tensor_map(&map_a)? };
        let b = MapArg { from: b, map: b.tensor_map(&map_b)? };
        Ok(InputArgs::Maps(Box::new(MapArgs { a, b })))
    }

    /// Appends A and B to the arguments, and for a ragged kernel the maps made on the device.
    pub(crate) fn push<'x>(&'x self, made: Option<Made<'x>>, list: &mut ArgList<'x>) {
        match self {
            InputArgs::Maps(of) => {
                MapParams::<T>::erase(MapParams { a: &of.a.map, b: &of.b.map }, list);
                if let Some(Made { maps, .. }) = made {
                    Global::<u64>::erase(maps, list);
                }
            }
            InputArgs::Lines(a, b) => {
                LineParams::<T>::erase(LineParams { a: a.params(), b: b.params() }, list);
            }
        }
    }
}

impl<'h, E: Element> LineArg<'h, E> {
    fn new(
        from: &'h Buffer<E>,
        major: Major,
        [lines, depth, batch]: [u32; 3],
        strides: [u64; 2],
    ) -> Self {
        let [lines, columns] = if major == Major::K { [lines, depth] } else { [depth, lines] };
        // Strides are below 2^40, and sizes below 2^31.
        let [pitch, next] = strides.map(|stride| stride as i64);
        let readable =
            i64::from(batch - 1) * next + i64::from(lines - 1) * pitch + i64::from(columns);
        let extents = [lines as i32, columns as i32];
        LineArg { from, strides: [pitch, next], readable, extents }
    }

    fn params<'x>(&self) -> LinesOf<E, AtLaunch<'x, 'h>>
    where
        'h: 'x,
    {
        let LineArg { from, strides, readable, extents } = *self;
        LinesOf { from, strides, readable, extents }
    }
}
