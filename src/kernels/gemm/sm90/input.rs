//! A and B as parameters of the warp-specialised kernel: tensor maps if TMA loads the tiles, or a
//! pointer with strides if threads do (`LoadMethod::Threads`). For each form, this file declares
//! the kernel's parameters, makes their values in the body, and holds a launch's arguments. A new
//! way to load A or B is a variant of both [`Input`] and [`InputArgs`].

use crate::arch::Major;
use crate::ir::builder::{ParamList, ParamValues, Parameter};
use crate::ir::{Body, Element, Global, TensorMap};
use crate::runtime::{ArgList, BufferRef, Mapped};
use crate::tensor::copy::{GlobalLines, ThrLines, TmaTensors};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::LoadMethod;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::{GROUP, GemmConfig};
use crate::kernels::gemm::elements::{A, B};
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::gemm::sm90::ragged::{Made, maps_of};

crate::params! {
    /// A and B for TMA.
    struct MapParams => MapsAt<'b> {
        a: TensorMap<A, 3>,
        b: TensorMap<B, 3>,
    }
}

crate::params! {
    /// A and B for threads that fetch.
    struct LineParams => BothLinesAt<'b> {
        a: LinesOf<A> => LinesAt<'b, A>,
        b: LinesOf<B> => LinesAt<'b, B>,
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
pub(crate) enum Input<'p, 'a> {
    Maps(TmaTensors<'p, 'a, A, 3>, TmaTensors<'p, 'a, B, 3>),
    Lines(Box<(ThrLines<'a, A>, ThrLines<'a, B>)>),
}

impl Plan {
    /// Declares A and B. A ragged kernel also takes maps in memory.
    #[inline]
    pub(crate) fn declare_input(&self, list: &mut ParamList) {
        let load = self.config.load;
        if load == LoadMethod::Threads {
            return LineParams::declare(list);
        }
        MapParams::declare(list);
        if self.config.is_ragged() {
            list.field("maps", Global::<u64>::declare);
        }
    }

    /// Makes A and B in the kernel's body.
    #[inline]
    pub(crate) fn input<'a>(
        &self,
        k: &Body<'a, '_>,
        values: &mut ParamValues<'_>,
    ) -> Input<'_, 'a> {
        let GemmConfig { tile: [m, n, depth], load, major_a, major_b, .. } = self.config;
        if load == LoadMethod::Threads {
            let BothLinesAt { a, b } = LineParams::make(k.context(), values);
            let a = a.slice(k, major_a, [m, depth]);
            return Input::Lines(Box::new((a, b.slice(k, major_b, [n, depth]))));
        }
        let MapsAt { a, b } = MapParams::make(k.context(), values);
        let made = self.config.is_ragged().then(|| Global::<u64>::make(k.context(), values));
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
pub(crate) enum InputArgs<'h> {
    Maps(Box<MapArgs<'h>>),
    Lines(LineArg<'h>, LineArg<'h>),
}

/// A and B with their tensor maps.
pub(crate) struct MapArgs<'h> {
    pub(crate) a: MapArg<'h>,
    pub(crate) b: MapArg<'h>,
}

/// An operand with its tensor map.
pub(crate) struct MapArg<'h> {
    pub(crate) from: BufferRef<'h>,
    pub(crate) map: Mapped<'h>,
}

/// An operand that threads fetch.
pub(crate) struct LineArg<'h> {
    from: BufferRef<'h>,
    strides: [i64; 2],
    readable: i64,
    extents: [i32; 2],
}

impl<'h> InputArgs<'h> {
    #[inline]
    pub(crate) fn new(
        plan: &Plan,
        a: BufferRef<'h>,
        b: BufferRef<'h>,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<Self, GemmError> {
        let (GemmProblem { m, n, k, batch, .. }, config) = (*problem, &plan.config);
        if config.load == LoadMethod::Threads {
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

    /// Appends A and B, and for GEMMs of different sizes the maps in memory, as
    /// [`Plan::declare_input`] declares them.
    #[inline]
    pub(crate) fn push<'x>(&'x self, made: Option<Made<'x>>, list: &mut ArgList<'x>) {
        match self {
            InputArgs::Maps(of) => {
                list.tensor_map(&of.a.map);
                list.tensor_map(&of.b.map);
                if let Some(Made { maps, .. }) = made {
                    list.buffer(maps.into());
                }
            }
            InputArgs::Lines(a, b) => {
                a.push(list);
                b.push(list);
            }
        }
    }
}

impl<'h> LineArg<'h> {
    #[inline]
    fn new(
        from: BufferRef<'h>,
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

    /// In the order of [`LinesOf`].
    #[inline]
    fn push<'x>(&'x self, list: &mut ArgList<'x>) {
        let LineArg { from, strides, readable, extents } = *self;
        list.buffer(from);
        list.scalars(strides);
        list.scalars([readable]);
        list.scalars(extents);
    }
}
