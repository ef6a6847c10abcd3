//! The warp-specialised persistent kernel for `sm_90a`.
//!
//! One thread of the first warp group fills a ring of tiles of A and B by tensor copies. The other warp groups multiply
//! them with `wgmma` and write their rows of D by tensor copies: all on one tile (cooperative), or each on its own
//! (ping-pong). Thread blocks are persistent, and every role walks the same tiles in the same order.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::OnDevice;
use crate::ir::op::BarrierForm;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Element, Global, GlobalMut, Kernel, KernelOptions, TensorMap, TensorMapMut, Val,
};
use crate::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use crate::tensor::{
    GlobalLines, GlobalRows, GroupSizes, MmaAtom, OperandSource, OrderedBarrier, PipelineTurns,
    RowGroups, SharedTensor, SmemAtom, SmemSwizzle, StagedStore, StoreDestination, ThrLines,
    TiledMma, TmaCopy, TmaPipeline, TmaTensors, WarpRole, Wgmma, WgmmaMainloop, warp_roles,
};

use super::config::{GROUP, GemmConfig, L2_LINE_BYTES, SWIZZLE_ALIGN, WGMMA_ROWS};
use super::epilogue::{EpilogueForm, EpilogueParameter, EpilogueRef, kept};
use super::error::GemmError;
use super::forms::{LoadForm, StoreForm};
use super::fragment::offsets;
use super::groups::GroupParams;
use super::parts::Parts;
use super::problem::{GemmProblem, GemmStrides};
use super::ragged::{FormParams, ProductParams, RaggedProblem, maps_of};
use super::roles::{Consumer, Producer};
use super::split::{SplitArgs, SplitParams, Threads};
use super::types::{Types, in_memory, val_type};

crate::params! {
    /// The sizes of the product.
    pub(super) struct SizeParams {
        /// Row tiles and column tiles of D, steps along K, matrices of the batch.
        pub(super) row_tiles: i32,
        pub(super) column_tiles: i32,
        pub(super) steps: i32,
        pub(super) batch: i32,
        /// 1, or 0 where all matrices of the batch share one A, or one B.
        pub(super) batched_a: i32,
        pub(super) batched_b: i32,
        /// The rows and columns of D.
        pub(super) extents: [i32; 2],
    }
}

crate::params! {
    /// The parameters of the kernel beside A, B and D.
    pub(super) struct Params<E: EpilogueParameter> {
        pub(super) sizes: SizeParams,
        pub(super) epilogue: E,
    }
}

crate::params! {
    /// A and B, where tensor copies fetch them.
    pub(super) struct MapParams<T: Types> {
        pub(super) a: TensorMap<T::A, 3>,
        pub(super) b: TensorMap<T::B, 3>,
    }
}

crate::params! {
    /// A and B, where threads fetch them.
    pub(super) struct LineParams<T: Types> {
        pub(super) a: LinesOf<T::A>,
        pub(super) b: LinesOf<T::B>,
    }
}

crate::params! {
    /// An operand that threads fetch: its pitch and its batch stride, the elements from its first one to its last one,
    /// its lines and their elements.
    pub(super) struct LinesOf<T: Element> {
        pub(super) from: Global<T>,
        pub(super) strides: [i64; 2],
        pub(super) readable: i64,
        pub(super) extents: [i32; 2],
    }
}

crate::params! {
    /// D, where threads store it: its row pitch and its batch stride.
    pub(super) struct RowParams<T: Element> {
        pub(super) d: GlobalMut<T>,
        pub(super) strides: [i64; 2],
    }
}

/// The parameter D of a kernel that stores by tensor copies, and of one whose threads store.
pub(super) type Map<T> = TensorMapMut<<T as Types>::D, 3>;
pub(super) type Rows<T> = RowParams<<T as Types>::D>;

/// The parameters of the kernels: by the way A, B and D are copied, and whether thread blocks share tiles.
pub(super) type Whole<T, E> = (MapParams<T>, Params<E>, Map<T>);
pub(super) type SplitWhole<T, E> = (MapParams<T>, Params<E>, (Map<T>, SplitParams));
pub(super) type ByRows<T, E> = (MapParams<T>, Params<E>, Rows<T>);
pub(super) type SplitByRows<T, E> = (MapParams<T>, Params<E>, (Rows<T>, SplitParams));
pub(super) type ByLines<T, E> = (LineParams<T>, Params<E>, Rows<T>);
pub(super) type SplitByLines<T, E> = (LineParams<T>, Params<E>, (Rows<T>, SplitParams));

pub(super) type ByGroups<T, E> =
    (MapParams<T>, Params<E>, (GroupParams<<T as Types>::D>, SplitParams));

/// The parameters of the kernel for products of different sizes.
pub(super) type Ragged<T, E> = (FormParams<T>, Params<E>, ProductParams<<T as Types>::D>);

/// The kernel of a configuration.
pub(super) enum Sm90Kernel<T: Types, E: EpilogueParameter> {
    Whole(Kernel<Whole<T, E>>),
    Split(Kernel<SplitWhole<T, E>>),
    Rows(Kernel<ByRows<T, E>>),
    SplitRows(Kernel<SplitByRows<T, E>>),
    Lines(Kernel<ByLines<T, E>>),
    SplitLines(Kernel<SplitByLines<T, E>>),
    Groups(Kernel<ByGroups<T, E>>),
    Ragged(Kernel<Ragged<T, E>>),
}

/// The sizes in a kernel body.
pub(super) type Sizes<'a> = SizeParams<OnDevice<'a>>;

/// A and B in a kernel body.
pub(super) enum Input<'p, 'a, A: Element, B: Element> {
    Maps(TmaTensors<'p, 'a, A, 3>, TmaTensors<'p, 'a, B, 3>),
    Lines(Box<(ThrLines<'a, A>, ThrLines<'a, B>)>),
}

/// D in a kernel body.
type Output<'a, T> = StoreDestination<'a, <T as Types>::D>;

fn map<'a, D: Element>(d: Val<'a, TensorMapMut<D, 3>>, _: &Sizes<'a>) -> StoreDestination<'a, D> {
    d.into()
}

fn rows<'a, D: Element>(
    d: RowParams<D, OnDevice<'a>>,
    sizes: &Sizes<'a>,
) -> StoreDestination<'a, D> {
    GlobalRows { to: d.d, strides: d.strides, extents: sizes.extents }.into()
}

fn groups<'a, D: Element>(
    of: GroupParams<D, OnDevice<'a>>,
    sizes: &Sizes<'a>,
) -> StoreDestination<'a, D> {
    let GroupParams { d: (map, to), strides, bounds, count, capacity } = of;
    let rows = GlobalRows { to, strides, extents: sizes.extents };
    StoreDestination::Groups { map, rows, groups: RowGroups { bounds, count, capacity } }
}

fn products<'a, D: Element>(
    of: ProductParams<D, OnDevice<'a>>,
    _: &Sizes<'a>,
) -> StoreDestination<'a, D> {
    let ProductParams { d: map, maps, table, count } = of;
    let sizes = GroupSizes { table, words: RaggedProblem::WORDS, count };
    StoreDestination::Made { map, maps: maps_of(maps, 2), sizes }
}

/// An operand: the layout of its ring of tiles in shared memory, and the copy that fetches a tile.
#[derive(Clone, Debug)]
struct Operand {
    ring: ComposedLayout,
    copy: TmaCopy,
}

impl Operand {
    /// Tiles of `rows` rows, the first `fetched` of them from global memory, as many columns as a stage is deep.
    #[inline]
    fn new(
        config: &GemmConfig,
        (scalar, major): (Scalar, Major),
        [rows, fetched]: [u32; 2],
    ) -> Result<Operand, GemmError> {
        let GemmConfig { tile: [_, _, depth], stages, .. } = *config;
        let atom = SmemAtom::new(major, SmemSwizzle::Sw128).position_independent(scalar.bits())?;
        // The boxes of a tensor copy are consecutive along the mode that is not contiguous.
        let order = if major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
        let tiled = |shape: IntTuple| atom.tile_to_shape(&shape, Some(&order));
        let fetched = tiled(shape!(rows, depth, 1))?.composition(&tiler!(fetched, depth, 1))?;
        let copy = TmaCopy::new(in_memory(scalar), &fetched)?;
        Ok(Operand { ring: tiled(shape!(rows, depth, stages))?, copy })
    }

    /// The map of matrices of `lines` x `depth` elements. One matrix that all of a batch share is no batch.
    #[inline]
    fn map(
        &self,
        major: Major,
        [lines, depth, batch]: [u32; 3],
        [pitch, next]: [u64; 2],
    ) -> Result<TensorMapDesc, GemmError> {
        let tensor = matrices(major, [lines, depth, batch], [pitch, next])?;
        let map = self.copy.desc(&tensor)?;
        // A row of a box that is not aligned to a line of the L2 cache is in two lines; promotion would fetch both twice.
        let aligned =
            (pitch * u64::from(map.elem().size_bytes())).is_multiple_of(L2_LINE_BYTES.into());
        let promo = match std::env::var("TW_PROMO").as_deref() {
            Ok("64") => L2Promotion::B64,
            Ok("128") => L2Promotion::B128,
            Ok("256") => L2Promotion::B256,
            _ => L2Promotion::None,
        };
        Ok(map.with_l2_promotion(if aligned { L2Promotion::B256 } else { promo }))
    }
}

/// The layout (line, column, matrix) of the matrices of a batch.
#[inline]
fn matrices(
    major: Major,
    [lines, columns, batch]: [u32; 3],
    [pitch, next]: [u64; 2],
) -> Result<Layout, GemmError> {
    let batch = if next == 0 { 1 } else { batch };
    let strides = if major == Major::K { (pitch, 1, next) } else { (1, pitch, next) };
    Ok(Layout::new([lines, columns, batch].map(i64::from), strides)?)
}

/// Everything that is known before the kernel runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The configuration with A and B as tensor copies fetch them.
    pub(super) config: GemmConfig,
    /// The name of the kernel.
    name: String,
    pub(super) mma: TiledMma,
    /// The offsets in a tile of the accumulators of a thread.
    offsets: Vec<[i32; 2]>,
    /// The blocks of 64 rows of a warp group, the rows from one to the next, and their columns.
    pub(super) shape: [u32; 3],
    a: Operand,
    b: Operand,
    store: StagedStore,
}

impl Plan {
    #[inline]
    pub(super) fn new(config: &GemmConfig) -> Result<Plan, GemmError> {
        config.check()?;
        let (config, name) = (&config.of_product(), config.to_string());
        let GemmConfig { tile: [m, n, _], schedule, a, b, acc, swap, .. } = *config;
        let inputs = val_type(a).zip(val_type(b));
        let sums = val_type(acc);
        let ((ty_a, ty_b), sums) =
            inputs.zip(sums).ok_or(GemmError::Inputs { schedule, a, b, acc })?;
        let [rows, columns] = config.mma_tile();
        let (left, right) = if swap { (ty_b, ty_a) } else { (ty_a, ty_b) };
        let op = Wgmma::new(columns, left, right, sums, OperandSource::Shared);
        let groups = config.consumers_of_tile();
        let rows_a = if swap { m } else { config.rows_of_products() };
        let (stored, slots) = (config.store_columns(), config.store_slots());
        let store = if swap {
            StagedStore::transposed(config.d, stored, slots)?
        } else {
            StagedStore::of_rows(config.d, rows.min(WGMMA_ROWS), stored, slots)?
        };
        let store = if config.pairs { store.of_pairs() } else { store };
        let store = if config.store == StoreForm::Direct { store.by_threads()? } else { store };
        let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((groups, 1, 1)), tiler!(_, _, _))?;
        let order = Layout::new(i64::from(columns), 1)?;
        let mut offsets = offsets(&mma, [config.rows_of_products(), columns], &order)?;
        if swap {
            offsets.iter_mut().for_each(|offset| offset.reverse());
        }
        let blocks = config.rows_of_consumer() / WGMMA_ROWS;
        Ok(Plan {
            config: *config,
            name,
            mma,
            offsets,
            shape: [blocks, config.rows_of_products() / blocks, columns],
            a: Operand::new(config, (a, config.major_a), [rows_a, m])?,
            b: Operand::new(config, (b, config.major_b), [n, n])?,
            store,
        })
    }

    /// The maps of A and B of a problem.
    #[inline]
    pub(super) fn maps(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<[TensorMapDesc; 2], GemmError> {
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let a = self.a.map(self.config.major_a, [m, k, batch], strides.a)?;
        Ok([a, self.b.map(self.config.major_b, [n, k, batch], strides.b)?])
    }

    /// Maps of A, B and D of one element, for a kernel that makes maps from them for matrices of up to the sizes of a problem.
    #[inline]
    pub(super) fn map_forms(&self, problem: &GemmProblem) -> Result<[TensorMapDesc; 3], GemmError> {
        let GemmConfig { major_a, major_b, .. } = self.config;
        let of = |operand: &Operand, major, lines: u32| -> Result<_, GemmError> {
            let columns = if major == Major::K { problem.k } else { lines };
            // Promotion as for rows that follow each other.
            let pitch = u64::from(columns).next_multiple_of(16);
            operand.map(major, [1; 3], [pitch, 0])
        };
        let a = of(&self.a, major_a, problem.m)?;
        let b = of(&self.b, major_b, problem.n)?;
        Ok([a, b, self.store.desc(&matrices(Major::K, [1; 3], [16, 0])?)?])
    }

    /// The map of D, for a kernel that stores it by tensor copies.
    #[inline]
    pub(super) fn map_of_d(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<TensorMapDesc, GemmError> {
        let GemmProblem { m, n, batch, .. } = *problem;
        let columns = n / self.config.sums();
        Ok(self.store.desc(&matrices(Major::K, [m, columns, batch], strides.d)?)?)
    }

    /// Builds the kernel.
    pub(super) fn build<T: Types, F: EpilogueForm<T::Sum>>(
        &self,
        form: &F,
    ) -> Result<Sm90Kernel<T, F::Params>, GemmError> {
        let GemmConfig { target, splits, load, store, grouped, ragged, .. } = self.config;
        let (options, name) = (self.options(), format!("{}{}", self.name, F::SUFFIX));
        let by_threads = (load == LoadForm::Threads, store == StoreForm::Direct);
        macro_rules! built {
            ($form:ident: $Params:ident, $input:ident, $output:expr) => {
                Sm90Kernel::$form(Kernel::<$Params<T, F::Params>>::build_with(
                    options,
                    &name,
                    target,
                    |k, (ab, Params { sizes, epilogue }, d)| {
                        let epilogue = form.map(kept(k, form), epilogue, sizes.extents);
                        let (ab, d) = (self.$input::<T>(k, ab), $output(d, &sizes));
                        self.body::<T>(
                            k,
                            (
                                &sizes,
                                EpilogueRef::new(
                                    (&self.config, &self.offsets),
                                    (sizes.extents, sizes.batch),
                                    &epilogue,
                                ),
                            ),
                            &ab,
                            d,
                            None,
                        );
                    },
                )?)
            };
            (split $form:ident: $Params:ident, $input:ident, $output:expr) => {
                Sm90Kernel::$form(Kernel::<$Params<T, F::Params>>::build_with(
                    options,
                    &name,
                    target,
                    |k, (ab, Params { sizes, epilogue }, (d, split))| {
                        let epilogue = form.map(kept(k, form), epilogue, sizes.extents);
                        let (ab, d) = (self.$input::<T>(k, ab), $output(d, &sizes));
                        self.body::<T>(
                            k,
                            (
                                &sizes,
                                EpilogueRef::new(
                                    (&self.config, &self.offsets),
                                    (sizes.extents, sizes.batch),
                                    &epilogue,
                                ),
                            ),
                            &ab,
                            d,
                            Some(&split),
                        );
                    },
                )?)
            };
        }
        Ok(match (by_threads, splits.is_split()) {
            _ if grouped => built!(split Groups: ByGroups, tensors, groups),
            _ if ragged => built!(Ragged: Ragged, made, products),
            ((true, _), false) => built!(Lines: ByLines, lines, rows),
            ((true, _), true) => built!(split SplitLines: SplitByLines, lines, rows),
            ((false, true), false) => built!(Rows: ByRows, tensors, rows),
            ((false, true), true) => built!(split SplitRows: SplitByRows, tensors, rows),
            ((false, false), false) => built!(Whole: Whole, tensors, map),
            ((false, false), true) => built!(split Split: SplitWhole, tensors, map),
        })
    }

    /// A and B where tensor copies fetch them.
    fn tensors<'a, T: Types>(
        &self,
        _: &Body<'a, '_>,
        MapParams { a, b }: MapParams<T, OnDevice<'a>>,
    ) -> Input<'_, 'a, T::A, T::B> {
        let (of_a, of_b) = (&self.a.copy, &self.b.copy);
        let a = TmaTensors { copy: of_a, map: a, maps: None };
        Input::Maps(a, TmaTensors { copy: of_b, map: b, maps: None })
    }

    /// A and B where the maps are in memory.
    fn made<'a, T: Types>(
        &self,
        _: &Body<'a, '_>,
        FormParams { a, b, maps }: FormParams<T, OnDevice<'a>>,
    ) -> Input<'_, 'a, T::A, T::B> {
        let (of_a, of_b) = (&self.a.copy, &self.b.copy);
        let maps_of = |operand| Some(maps_of(maps, operand));
        let a = TmaTensors { copy: of_a, map: a, maps: maps_of(0) };
        Input::Maps(a, TmaTensors { copy: of_b, map: b, maps: maps_of(1) })
    }

    /// A and B where threads fetch them.
    fn lines<'a, T: Types>(
        &self,
        k: &Body<'a, '_>,
        of: LineParams<T, OnDevice<'a>>,
    ) -> Input<'_, 'a, T::A, T::B> {
        fn lines<'a, E: Element>(
            k: &Body<'a, '_>,
            major: Major,
            of: LinesOf<E, OnDevice<'a>>,
            tile: [u32; 2],
        ) -> ThrLines<'a, E> {
            let LinesOf { from, strides, readable, extents } = of;
            let lines = GlobalLines { from, major, strides, readable, extents };
            lines.slice(k, tile, k.thread_idx().x % GROUP)
        }
        let GemmConfig { tile: [m, n, depth], major_a, major_b, .. } = self.config;
        let a = lines(k, major_a, of.a, [m, depth]);
        Input::Lines(Box::new((a, lines(k, major_b, of.b, [n, depth]))))
    }

    #[inline]
    fn options(&self) -> KernelOptions {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(1);
        match self.config.cluster_blocks() {
            1 => options,
            blocks => options.cluster([blocks, 1, 1]),
        }
    }

    /// The kernel. A producer finds its first tile before it waits for the launch before this one; the bounds of groups are in
    /// memory.
    fn body<'a, T: Types>(
        &self,
        k: &mut Body<'a, '_>,
        (sizes, epilogue): (&Sizes<'a>, EpilogueRef<'_, 'a, T::Sum>),
        input: &Input<'_, 'a, T::A, T::B>,
        output: Output<'a, T>,
        split: Option<&SplitArgs<'a>>,
    ) {
        let Plan { config, a, b, store, .. } = self;
        let sa = SharedTensor::<T::A>::shared_aligned(k, a.ring.clone(), SWIZZLE_ALIGN);
        let sb = SharedTensor::<T::B>::shared_aligned(k, b.ring.clone(), SWIZZLE_ALIGN);
        let staging =
            k.shared_aligned::<T::D>(config.consumers() * store.elements(), SWIZZLE_ALIGN);
        let (bytes, arrivals) = (a.copy.bytes() + b.copy.bytes(), config.consumers_of_tile());
        let pipe = TmaPipeline::new(k, config.stages, bytes, arrivals);
        let pipe = pipe.cluster(config.cluster_blocks()).written_by(config.writers().min(GROUP));
        let order = config.is_pingpong().then(|| OrderedBarrier::new(k, 2));
        let tiles = [sizes.row_tiles, sizes.column_tiles, sizes.batch];
        let parts = Parts::new(k, config, (tiles, output.groups()), sizes.steps, split);
        let (plan, thread) = (self, k.thread_idx().x);
        config.programmatic.then(|| k.griddepcontrol_launch_dependents());
        pipe.init(k, thread.eq(0));
        parts.tiles.init(k, thread.eq(0));
        order.inspect(|order| order.init(k, thread.eq(0)));
        k.barrier();
        pipe.cluster_sync(k, BarrierForm::Aligned);
        let groups = [config.producers(), config.consumers()];
        let roles = WarpRole::producers_and_consumers(groups, config.registers);
        warp_roles(k, &roles, config.entry_registers(), |k, role, group| {
            (config.programmatic && (role > 0 || config.grouped || config.ragged))
                .then(|| k.griddepcontrol_wait());
            let parts = parts.of_role(k, role == 0);
            if role == 0 {
                let turns = PipelineTurns { group, groups: config.producers() };
                let producer = Producer { plan, sizes, input, pipe, turns, sa: &sa, sb: &sb };
                return k.if_(thread.lt(config.writers().max(1)), |k| producer.produce(k, parts));
            }
            let own = thread - GROUP * config.producers();
            let mma_thread = if config.is_pingpong() { thread % GROUP } else { own };
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let to = staging.offset(group * store.elements());
            let products = if config.swap {
                WgmmaMainloop::new(k, &self.mma, pipe, mma_thread, &sb, &sa)
            } else {
                WgmmaMainloop::clear_rows(k, &sa, config.tile[0], mma_thread, barrier);
                WgmmaMainloop::new(k, &self.mma, pipe, mma_thread, &sa, &sb)
            };
            let store = store.slice(k, output.clone(), to, thread % GROUP, barrier);
            let threads = Threads { group, groups: config.consumers(), count: GROUP, barrier };
            let products = products.promoted(config.promote);
            let warps = Consumer { plan, sizes, epilogue, split, threads, pipe, products, store };
            match (config.store, order) {
                (StoreForm::Overlapped, _) => warps.consume_overlapped(k, parts.tiles),
                (_, Some(order)) => warps.consume_ordered(k, (parts, order)),
                (_, None) => warps.consume(k, parts),
            }
            warps.store.finish(k);
            epilogue.finish(k);
        });
        pipe.cluster_sync(k, BarrierForm::Unaligned);
    }
}
