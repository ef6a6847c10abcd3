//! The warp-specialised kernel with the arguments of a launch, by the way in which A, B and D are copied.

use crate::arch::Major;
use crate::ir::Element;
use crate::runtime::{
    AtLaunch, Buffer, Device, Function, Grid, LoadOptions, RuntimeError, TensorMapArg,
    TensorMapArgMut,
};

use super::config::GemmConfig;
use super::epilogue::{EpilogueArgs, EpilogueParameter};
use super::error::GemmError;
use super::groups::{GroupArgs, LaunchGroups};
use super::how::How;
use super::problem::{GemmProblem, GemmStrides};
use super::ragged::{FormParams, MapForms, Maps, ProductParams};
use super::sm90::{self, LineParams, LinesOf, MapParams, RowParams, SizeParams, Sm90Kernel};
use super::split::{GemmWorkspace, SplitParams, SplitWorkspace, Workspace};
use super::types::Types;

/// The warp-specialised kernel, as [`Sm90Kernel`] has it.
pub(super) enum Product<T: Types, E: EpilogueParameter> {
    Whole(Function<sm90::Whole<T, E>>),
    Split(Function<sm90::SplitWhole<T, E>>, SplitWorkspace),
    Rows(Function<sm90::ByRows<T, E>>),
    SplitRows(Function<sm90::SplitByRows<T, E>>, SplitWorkspace),
    Lines(Function<sm90::ByLines<T, E>>),
    SplitLines(Function<sm90::SplitByLines<T, E>>, SplitWorkspace),
    Groups(Function<sm90::ByGroups<T, E>>, SplitWorkspace),
    Ragged(Function<sm90::Ragged<T, E>>, Box<Maps<T>>),
}

/// Evaluates an expression for the function of a [`Product`].
macro_rules! on_function {
    ($product:expr, $function:ident => $value:expr) => {
        match $product {
            Product::Whole($function) => $value,
            Product::Split($function, _) => $value,
            Product::Rows($function) => $value,
            Product::SplitRows($function, _) => $value,
            Product::Lines($function) => $value,
            Product::SplitLines($function, _) => $value,
            Product::Groups($function, _) => $value,
            Product::Ragged($function, _) => $value,
        }
    };
}

impl<T: Types, E: EpilogueParameter> Product<T, E> {
    pub(super) fn load(
        options: LoadOptions<'_>,
        (config, kernel): (&GemmConfig, &Sm90Kernel<T, E>),
        device: &Device,
    ) -> Result<Product<T, E>, GemmError> {
        let workspace = || SplitWorkspace::new(device);
        Ok(match kernel {
            Sm90Kernel::Whole(kernel) => Product::Whole(device.load_with(options, kernel)?),
            Sm90Kernel::Split(kernel) => {
                Product::Split(device.load_with(options, kernel)?, workspace()?)
            }
            Sm90Kernel::Rows(kernel) => Product::Rows(device.load_with(options, kernel)?),
            Sm90Kernel::SplitRows(kernel) => {
                Product::SplitRows(device.load_with(options, kernel)?, workspace()?)
            }
            Sm90Kernel::Lines(kernel) => Product::Lines(device.load_with(options, kernel)?),
            Sm90Kernel::SplitLines(kernel) => {
                Product::SplitLines(device.load_with(options, kernel)?, workspace()?)
            }
            Sm90Kernel::Groups(kernel) => {
                Product::Groups(device.load_with(options, kernel)?, workspace()?)
            }
            Sm90Kernel::Ragged(kernel) => {
                let maps = Maps::load(config, options, device)?;
                Product::Ragged(device.load_with(options, kernel)?, Box::new(maps))
            }
        })
    }

    pub(super) fn compiler_log(&self) -> &str {
        on_function!(self, function => function.compiler_log())
    }

    /// The blocks of clusters that the device runs at once: fewer than it has SMs where those of a cluster must be
    /// neighbours. `None` without clusters, and on the simulator.
    pub(super) fn blocks_at_once(&self, config: &GemmConfig) -> Result<Option<u32>, RuntimeError> {
        let blocks = config.cluster_blocks();
        if blocks == 1 {
            return Ok(None);
        }
        let grid = Grid::new([blocks, 1, 1], [config.threads(), 1, 1]);
        let clusters = on_function!(self, function => function.clusters_at_once(grid))?;
        Ok(clusters.map(|clusters| clusters * blocks))
    }
}

/// A product that is ready to run.
pub(super) struct Sm90Args<'h, T: Types, E: EpilogueParameter> {
    product: Bound<'h, T, E>,
    tiles: [i32; 3],
    batch: i32,
    batched: [i32; 2],
    extents: [i32; 2],
}

/// A [`Product`] with A, B and D.
enum Bound<'h, T: Types, E: EpilogueParameter> {
    Whole(&'h Function<sm90::Whole<T, E>>, MapArgs<'h, T>, TensorMapArgMut<'h, T::D>),
    Split(
        &'h Function<sm90::SplitWhole<T, E>>,
        MapArgs<'h, T>,
        TensorMapArgMut<'h, T::D>,
        Workspace<'h>,
    ),
    Rows(&'h Function<sm90::ByRows<T, E>>, MapArgs<'h, T>, RowsArg<'h, T::D>),
    SplitRows(
        &'h Function<sm90::SplitByRows<T, E>>,
        MapArgs<'h, T>,
        RowsArg<'h, T::D>,
        Workspace<'h>,
    ),
    Lines(&'h Function<sm90::ByLines<T, E>>, LineArgs<'h, T>, RowsArg<'h, T::D>),
    SplitLines(
        &'h Function<sm90::SplitByLines<T, E>>,
        LineArgs<'h, T>,
        RowsArg<'h, T::D>,
        Workspace<'h>,
    ),
    Groups(&'h Function<sm90::ByGroups<T, E>>, MapArgs<'h, T>, GroupArgs<'h, T::D>, Workspace<'h>),
    Ragged(&'h Function<sm90::Ragged<T, E>>, Box<RaggedArgs<'h, T>>),
}

/// A, B and D of products of different sizes, each with a map for its form, and the table of the products.
struct RaggedArgs<'h, T: Types> {
    maps: &'h Maps<T>,
    forms: MapArgs<'h, T>,
    a: &'h Buffer<T::A>,
    b: &'h Buffer<T::B>,
    d: TensorMapArgMut<'h, T::D>,
    table: &'h Buffer<i64>,
}

/// A and B by tensor maps.
struct MapArgs<'h, T: Types> {
    a: TensorMapArg<'h, T::A>,
    b: TensorMapArg<'h, T::B>,
}

impl<'h, T: Types> MapArgs<'h, T> {
    fn params(&self) -> MapParams<T, AtLaunch<'_, 'h>> {
        MapParams { a: &self.a, b: &self.b }
    }
}

/// A and B as they lie.
struct LineArgs<'h, T: Types> {
    a: LinesArg<'h, T::A>,
    b: LinesArg<'h, T::B>,
}

impl<'h, T: Types> LineArgs<'h, T> {
    fn params(&self) -> LineParams<T, AtLaunch<'_, 'h>> {
        LineParams { a: self.a.params(), b: self.b.params() }
    }
}

/// An operand as it lies.
struct LinesArg<'h, E: Element> {
    from: &'h Buffer<E>,
    strides: [i64; 2],
    readable: i64,
    extents: [i32; 2],
}

impl<'h, E: Element> LinesArg<'h, E> {
    fn new(
        from: &'h Buffer<E>,
        major: Major,
        [lines, depth, batch]: [u32; 3],
        strides: [u64; 2],
    ) -> Self {
        let [lines, columns] = if major == Major::K { [lines, depth] } else { [depth, lines] };
        // Distances are below 2^40, and sizes below 2^31.
        let [pitch, next] = strides.map(|stride| stride as i64);
        let readable =
            i64::from(batch - 1) * next + i64::from(lines - 1) * pitch + i64::from(columns);
        let extents = [lines as i32, columns as i32];
        LinesArg { from, strides: [pitch, next], readable, extents }
    }

    fn params(&self) -> LinesOf<E, AtLaunch<'_, 'h>> {
        let LinesArg { from, strides, readable, extents } = *self;
        LinesOf { from, strides, readable, extents }
    }
}

/// D as it lies.
struct RowsArg<'h, E: Element> {
    d: &'h mut Buffer<E>,
    strides: [i64; 2],
}

impl<'h, E: Element> RowsArg<'h, E> {
    fn params(&mut self) -> RowParams<E, AtLaunch<'_, 'h>> {
        RowParams { d: &mut *self.d, strides: self.strides }
    }
}

/// A, B and D of a product.
pub(super) type Operands<'h, T> =
    (&'h Buffer<<T as Types>::A>, &'h Buffer<<T as Types>::B>, &'h mut Buffer<<T as Types>::D>);

impl<'h, T: Types, E: EpilogueParameter> Sm90Args<'h, T, E> {
    pub(super) fn new(
        (plan, product): (&sm90::Plan, &'h Product<T, E>),
        config: &GemmConfig,
        (a, b, d): Operands<'h, T>,
        problem: &GemmProblem,
        (strides, groups): (&GemmStrides, Option<LaunchGroups<'h>>),
        (tiles, given): ([i32; 3], Option<&'h mut GemmWorkspace>),
    ) -> Result<Self, GemmError> {
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let maps = || -> Result<_, GemmError> {
            let [map_a, map_b] = plan.maps(problem, strides)?;
            Ok(MapArgs { a: a.tensor_map(&map_a)?, b: b.tensor_map(&map_b)? })
        };
        let lines = || LineArgs {
            a: LinesArg::new(a, config.major_a, [m, k, batch], strides.a),
            b: LinesArg::new(b, config.major_b, [n, k, batch], strides.b),
        };
        let map_of_d = || plan.map_of_d(problem, strides);
        let rows = |d| RowsArg { d, strides: strides.d.map(|stride| stride as i64) };
        let product = match product {
            Product::Whole(function) => {
                Bound::Whole(function, maps()?, d.tensor_map_mut(&map_of_d()?)?)
            }
            Product::Split(function, workspace) => {
                let workspace = Workspace::new(workspace, given);
                Bound::Split(function, maps()?, d.tensor_map_mut(&map_of_d()?)?, workspace)
            }
            Product::Rows(function) => Bound::Rows(function, maps()?, rows(d)),
            Product::SplitRows(function, workspace) => {
                Bound::SplitRows(function, maps()?, rows(d), Workspace::new(workspace, given))
            }
            Product::Lines(function) => Bound::Lines(function, lines(), rows(d)),
            Product::SplitLines(function, workspace) => {
                Bound::SplitLines(function, lines(), rows(d), Workspace::new(workspace, given))
            }
            Product::Ragged(..) => return Err(GemmError::Products { needed: true }),
            Product::Groups(function, workspace) => {
                let groups = groups.ok_or(GemmError::GroupRows { needed: true })?;
                let d = d.tensor_map_mut(&map_of_d()?)?;
                Bound::Groups(
                    function,
                    maps()?,
                    GroupArgs { d, pitch: strides.d[0] as i64, groups },
                    Workspace::new(workspace, given),
                )
            }
        };
        Ok(Sm90Args {
            product,
            tiles,
            batch: batch as i32,
            batched: [strides.a, strides.b].map(|[_, next]| i32::from(next != 0)),
            extents: [m as i32, (n / config.sums()) as i32],
        })
    }

    /// Products of different sizes.
    pub(super) fn ragged(
        (plan, product): (&sm90::Plan, &'h Product<T, E>),
        config: &GemmConfig,
        (a, b, d): Operands<'h, T>,
        problem: &GemmProblem,
        table: &'h Buffer<i64>,
    ) -> Result<Self, GemmError> {
        let GemmProblem { m, n, batch, .. } = *problem;
        let Product::Ragged(function, maps) = product else {
            return Err(GemmError::Products { needed: false });
        };
        let [map_a, map_b, map_d] = plan.map_forms(problem)?;
        let forms = MapArgs { a: a.tensor_map(&map_a)?, b: b.tensor_map(&map_b)? };
        let d = d.tensor_map_mut(&map_d)?;
        let args = Box::new(RaggedArgs { maps, forms, a, b, d, table });
        Ok(Sm90Args {
            product: Bound::Ragged(function, args),
            tiles: config.tiles(problem).map(|n| n as i32),
            batch: batch as i32,
            batched: [0; 2],
            extents: [m as i32, (n / config.sums()) as i32],
        })
    }

    pub(super) fn run(
        &mut self,
        how: &mut How<'_>,
        grid: Grid,
        config: &GemmConfig,
        epilogue: &mut impl EpilogueArgs<E>,
    ) -> Result<(), GemmError> {
        let Sm90Args { product, tiles, batch, batched, extents } = self;
        let [row_tiles, column_tiles, steps] = *tiles;
        let ([batched_a, batched_b], batch, extents) = (*batched, *batch, *extents);
        let groups = [row_tiles as u64, column_tiles as u64, batch as u64];
        let sizes =
            SizeParams { row_tiles, column_tiles, steps, batch, batched_a, batched_b, extents };
        // Arguments that live as long as those beside them.
        macro_rules! args {
            () => {
                sm90::Params { sizes, epilogue: epilogue.arg() }
            };
        }
        macro_rules! split {
            ($function:ident, $workspace:ident, $input:expr, $d:expr) => {{
                let mut reserved = $workspace.reserve(config, groups, grid)?;
                let buffers = reserved.buffers();
                how.run($function, grid, ($input, args!(), ($d, SplitParams::arg(config, buffers))))
            }};
        }
        match product {
            Bound::Whole(function, maps, d) => how.run(function, grid, (maps.params(), args!(), d)),
            Bound::Split(function, maps, d, workspace) => {
                split!(function, workspace, maps.params(), d)
            }
            Bound::Rows(function, maps, d) => {
                how.run(function, grid, (maps.params(), args!(), d.params()))
            }
            Bound::SplitRows(function, maps, d, workspace) => {
                split!(function, workspace, maps.params(), d.params())
            }
            Bound::Lines(function, lines, d) => {
                how.run(function, grid, (lines.params(), args!(), d.params()))
            }
            Bound::SplitLines(function, lines, d, workspace) => {
                split!(function, workspace, lines.params(), d.params())
            }
            Bound::Groups(function, maps, d, workspace) => {
                split!(function, workspace, maps.params(), d.params())
            }
            Bound::Ragged(function, args) => {
                let RaggedArgs { maps, forms, a, b, d, table } = &mut **args;
                let (a, b) = ((&**a, &forms.a), (&**b, &forms.b));
                let made = MapForms { a, b, table, count: batch };
                let maps = maps.make(how, &made, d)?;
                let products = ProductParams { d, maps: &*maps, table: *table, count: batch };
                let forms = FormParams { a: &forms.a, b: &forms.b, maps: &*maps };
                how.run(function, grid, (forms, args!(), products))
            }
        }
    }
}
