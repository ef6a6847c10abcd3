//! D as a parameter of the warp-specialised kernel. Its form ([`OutputForm`]) depends on how D is
//! stored:
//!
//! * one tensor map, if TMA stores whole tiles,
//! * a plain pointer with row pitch and batch stride, for `StoreMethod::Direct`,
//! * both of them, for grouped GEMM: TMA cannot store the tile in which a group ends,
//! * a template map, and the maps and sizes of all problems in global memory, for ragged GEMM.
//!
//! For each form, this file declares the kernel's parameters, makes the [`StoreDestination`] in the
//! body, and holds a launch's arguments. A new way to store D is a variant of both [`OutputForm`]
//! and [`OutputArgs`].

use crate::ir::builder::{ParamList, ParamValues, Parameter};
use crate::ir::{Body, Global, GlobalMut, TensorMapMut};
use crate::runtime::{ArgList, BufferMut, Mapped};
use crate::tensor::copy::{GlobalRows, StoreDestination};
use crate::tensor::pipeline::{GroupSizes, RowGroups};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::StoreMethod;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::elements::D;
use crate::kernels::gemm::sm90::plan::{Plan, Sizes};
use crate::kernels::gemm::sm90::ragged::{Made, RaggedProblem, maps_of};
use crate::kernels::group_rows::LaunchGroups;

crate::params! {
    /// D for threads that store: its row pitch and batch stride.
    struct RowParams => RowsAt<'b> {
        d: GlobalMut<D>,
        strides: [i64; 2],
    }
}

crate::params! {
    /// D of a grouped GEMM: its row pitch, and 0.
    struct GroupParams => GroupsAt<'b> {
        /// Its map and its first element.
        d: (TensorMapMut<D, 3>, GlobalMut<D>),
        strides: [i64; 2],
        bounds: Global<i32>,
        count: i32,
        capacity: i32,
    }
}

crate::params! {
    /// D of a ragged GEMM: a template map, and the maps and sizes of all problems.
    struct ProductParams => ProductsAt<'b> {
        d: TensorMapMut<D, 3>,
        maps: Global<u64>,
        table: Global<i64>,
        count: i32,
    }
}

/// The form of the parameter D, which the kernel's parameters, its body and its launch must agree
/// on.
#[derive(Clone, Copy)]
enum OutputForm {
    /// One tensor map.
    Map,
    /// Rows that threads store.
    Rows,
    /// A tensor map and rows, for grouped GEMM: TMA cannot store the tile in which a group ends.
    Groups,
    /// Tensor maps in memory, for ragged GEMM.
    Products,
}

impl OutputForm {
    #[inline]
    fn of(config: &GemmConfig) -> OutputForm {
        match config.store {
            _ if config.is_grouped() => OutputForm::Groups,
            _ if config.is_ragged() => OutputForm::Products,
            StoreMethod::Direct => OutputForm::Rows,
            StoreMethod::Rows | StoreMethod::Chunks | StoreMethod::Overlapped => OutputForm::Map,
        }
    }
}

impl Plan {
    /// Declares D.
    #[inline]
    pub(crate) fn declare_output(&self, list: &mut ParamList) {
        match OutputForm::of(&self.config) {
            OutputForm::Map => TensorMapMut::<D, 3>::declare(list),
            OutputForm::Rows => RowParams::declare(list),
            OutputForm::Groups => GroupParams::declare(list),
            OutputForm::Products => ProductParams::declare(list),
        }
    }

    /// Makes D in the kernel's body.
    #[inline]
    pub(crate) fn output<'a>(
        &self,
        k: &Body<'a, '_>,
        values: &mut ParamValues<'_>,
        sizes: &Sizes<'a>,
    ) -> StoreDestination<'a, D> {
        let cx = k.context();
        match OutputForm::of(&self.config) {
            OutputForm::Map => TensorMapMut::<D, 3>::make(cx, values).into(),
            OutputForm::Rows => {
                let RowsAt { d: to, strides } = RowParams::make(cx, values);
                GlobalRows { to, strides, extents: sizes.extents }.into()
            }
            OutputForm::Groups => {
                let GroupsAt { d: (map, to), strides, bounds, count, capacity } =
                    GroupParams::make(cx, values);
                let rows = GlobalRows { to, strides, extents: sizes.extents };
                StoreDestination::Groups {
                    map,
                    rows,
                    groups: RowGroups { bounds, count, capacity },
                }
            }
            OutputForm::Products => {
                let ProductsAt { d: map, maps, table, count } = ProductParams::make(cx, values);
                let sizes = GroupSizes { table, words: RaggedProblem::WORDS, count };
                StoreDestination::Made { map, maps: maps_of(maps, 2), sizes }
            }
        }
    }
}

/// D of a launch: a map, or rows with pitch and batch stride. Grouped GEMM has both, with the pitch
/// beside the map.
pub(crate) enum OutputArgs<'h> {
    Map(Mapped<'h>),
    Rows(BufferMut<'h>, [i64; 2]),
    Groups(Mapped<'h>, i64, LaunchGroups<'h>),
}

impl<'h> OutputArgs<'h> {
    #[inline]
    pub(crate) fn new(
        plan: &Plan,
        d: BufferMut<'h>,
        problem: &GemmProblem,
        strides: &GemmStrides,
        groups: Option<LaunchGroups<'h>>,
    ) -> Result<Self, GemmError> {
        let [pitch, next] = strides.d.map(|stride| stride as i64);
        if let OutputForm::Rows = OutputForm::of(&plan.config) {
            return Ok(OutputArgs::Rows(d, [pitch, next]));
        }
        let map = d.tensor_map(&plan.map_of_d(problem, strides)?)?;
        Ok(match groups {
            Some(groups) => OutputArgs::Groups(map, pitch, groups),
            None => OutputArgs::Map(map),
        })
    }

    /// Appends D, and for GEMMs of different sizes the maps in memory, as [`Plan::declare_output`]
    /// declares them.
    #[inline]
    pub(crate) fn push<'x>(&'x mut self, made: Option<Made<'x>>, list: &mut ArgList<'x>) {
        match self {
            OutputArgs::Map(d) => {
                list.tensor_map_mut(d);
                if let Some(Made { maps, table, count }) = made {
                    list.buffer(maps.into());
                    list.buffer(table.into());
                    list.scalars([count]);
                }
            }
            OutputArgs::Rows(d, strides) => {
                list.buffer_mut(d.reborrow());
                list.scalars(*strides);
            }
            OutputArgs::Groups(d, pitch, LaunchGroups { bounds, count, capacity }) => {
                list.mapped_rows(d);
                list.scalars([*pitch, 0]);
                list.buffer((*bounds).into());
                list.scalars([*count, *capacity]);
            }
        }
    }
}
