//! The forms in which the warp-specialised kernel takes D ([`OutputForm`]). For each: the kernel's
//! parameters, their values in the body, and a launch's arguments.

use std::marker::PhantomData;

use crate::ir::builder::{Context, ParamList, ParamValues, Parameter};
use crate::ir::{Body, Element, Global, GlobalMut, TensorMapMut, Val};
use crate::runtime::{ArgList, Argument, Buffer, TensorMapArgMut};
use crate::tensor::{GlobalRows, GroupSizes, RowGroups, StoreDestination};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::forms::StoreForm;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::sm90::groups::LaunchGroups;
use crate::kernels::gemm::sm90::plan::{Plan, Sizes};
use crate::kernels::gemm::sm90::ragged::{Made, RaggedProblem, maps_of};

crate::params! {
    /// D for threads that store: its row pitch and batch stride.
    struct RowParams<T: Element> => RowsAt<'b, T> {
        d: GlobalMut<T>,
        strides: [i64; 2],
    }
}

crate::params! {
    /// D of a grouped GEMM: its row pitch, and 0.
    struct GroupParams<T: Element> => GroupsAt<'b, T> {
        d: MappedRows<T> => MappedRowsAt<'b, T>,
        strides: [i64; 2],
        bounds: Global<i32>,
        count: i32,
        capacity: i32,
    }
}

crate::params! {
    /// D of a ragged GEMM: a template map, and the maps and sizes of all problems.
    struct ProductParams<T: Element> => ProductsAt<'b, T> {
        d: TensorMapMut<T, 3>,
        maps: Global<u64>,
        table: Global<i64>,
        count: i32,
    }
}

/// A matrix that both TMA and threads store to: its map and its first element. At launch, you pass
/// only the map.
pub(crate) struct MappedRows<T>(PhantomData<fn() -> T>);

/// [`MappedRows`] in a kernel's body.
pub(crate) type MappedRowsAt<'b, T> = (Val<'b, TensorMapMut<T, 3>>, Val<'b, GlobalMut<T>>);

impl<T: Element> Parameter for MappedRows<T> {
    type At<'b> = MappedRowsAt<'b, T>;

    fn declare(list: &mut ParamList) {
        <(TensorMapMut<T, 3>, GlobalMut<T>) as Parameter>::declare(list);
    }

    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Self::At<'b> {
        <(TensorMapMut<T, 3>, GlobalMut<T>) as Parameter>::make(cx, values)
    }
}

impl<T: Element> Argument for MappedRows<T> {
    type Arg<'h, 'b: 'h> = &'h mut TensorMapArgMut<'b, T>;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.push_mapped(arg);
    }
}

/// The form of the parameter D.
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
    fn of(config: &GemmConfig) -> OutputForm {
        match config.store {
            _ if config.grouped => OutputForm::Groups,
            _ if config.ragged => OutputForm::Products,
            StoreForm::Direct => OutputForm::Rows,
            StoreForm::Rows | StoreForm::Chunks | StoreForm::Overlapped => OutputForm::Map,
        }
    }
}

impl Plan {
    /// Declares D.
    pub(crate) fn declare_output<D: Element>(&self, list: &mut ParamList) {
        match OutputForm::of(&self.config) {
            OutputForm::Map => TensorMapMut::<D, 3>::declare(list),
            OutputForm::Rows => RowParams::<D>::declare(list),
            OutputForm::Groups => GroupParams::<D>::declare(list),
            OutputForm::Products => ProductParams::<D>::declare(list),
        }
    }

    /// Makes D in the kernel's body.
    pub(crate) fn output<'a, D: Element>(
        &self,
        k: &Body<'a, '_>,
        values: &mut ParamValues<'_>,
        sizes: &Sizes<'a>,
    ) -> StoreDestination<'a, D> {
        let cx = k.context();
        match OutputForm::of(&self.config) {
            OutputForm::Map => TensorMapMut::<D, 3>::make(cx, values).into(),
            OutputForm::Rows => {
                let RowsAt { d: to, strides } = RowParams::<D>::make(cx, values);
                GlobalRows { to, strides, extents: sizes.extents }.into()
            }
            OutputForm::Groups => {
                let GroupsAt { d: (map, to), strides, bounds, count, capacity } =
                    GroupParams::<D>::make(cx, values);
                let rows = GlobalRows { to, strides, extents: sizes.extents };
                StoreDestination::Groups {
                    map,
                    rows,
                    groups: RowGroups { bounds, count, capacity },
                }
            }
            OutputForm::Products => {
                let ProductsAt { d: map, maps, table, count } =
                    ProductParams::<D>::make(cx, values);
                let sizes = GroupSizes { table, words: RaggedProblem::WORDS, count };
                StoreDestination::Made { map, maps: maps_of(maps, 2), sizes }
            }
        }
    }
}

/// D of a launch: a map, or rows with pitch and batch stride. Grouped GEMM has both, with the pitch
/// beside the map.
pub(crate) enum OutputArgs<'h, D: Element> {
    Map(TensorMapArgMut<'h, D>),
    Rows(&'h mut Buffer<D>, [i64; 2]),
    Groups(TensorMapArgMut<'h, D>, i64, LaunchGroups<'h>),
}

impl<'h, D: Element> OutputArgs<'h, D> {
    pub(crate) fn new(
        plan: &Plan,
        d: &'h mut Buffer<D>,
        problem: &GemmProblem,
        (strides, groups): (&GemmStrides, Option<LaunchGroups<'h>>),
    ) -> Result<Self, GemmError> {
        let [pitch, next] = strides.d.map(|stride| stride as i64);
        if let OutputForm::Rows = OutputForm::of(&plan.config) {
            return Ok(OutputArgs::Rows(d, [pitch, next]));
        }
        let map = d.tensor_map_mut(&plan.map_of_d(problem, strides)?)?;
        Ok(match groups {
            Some(groups) => OutputArgs::Groups(map, pitch, groups),
            None => OutputArgs::Map(map),
        })
    }

    /// Appends D to the arguments, and for a ragged kernel the maps made on the device.
    pub(crate) fn push<'x>(&'x mut self, made: Option<Made<'x>>, list: &mut ArgList<'x>) {
        match self {
            OutputArgs::Map(d) => match made {
                None => TensorMapMut::<D, 3>::erase(d, list),
                Some(Made { maps, table, count }) => {
                    ProductParams::<D>::erase(ProductParams { d, maps, table, count }, list);
                }
            },
            OutputArgs::Rows(d, strides) => {
                RowParams::<D>::erase(RowParams { d: &mut **d, strides: *strides }, list);
            }
            OutputArgs::Groups(d, pitch, groups) => {
                let (LaunchGroups { bounds, count, capacity }, strides) = (*groups, [*pitch, 0]);
                let params = GroupParams { d, strides, bounds, count, capacity };
                GroupParams::<D>::erase(params, list);
            }
        }
    }
}
