//! [`Plan`]: what the host computes before it builds the warp-specialised kernel: shared-memory
//! layouts, TMA copies, the tiled MMA, the store, and the tensor maps of each launch. The device
//! code that uses it is in `kernel.rs` and `roles.rs`.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::{ParamList, Parameter};
use crate::ir::types::Scalar;
use crate::ir::{Kernel, KernelOptions, Untyped};
use crate::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use crate::tensor::atom::{MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, Wgmma};
use crate::tensor::copy::{StagedStore, TmaCopy};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::StoreMethod;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::types::{in_memory, val_type};
use crate::kernels::gemm::config::{GemmConfig, L2_LINE_BYTES, WGMMA_ROWS};
use crate::kernels::gemm::epilogue::fragment::offsets;
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueRef, kept};
use crate::kernels::gemm::split::SplitParams;

crate::params! {
    /// The sizes of a launch.
    pub(crate) struct SizeParams => Sizes<'b> {
        /// Row and column tiles of D, steps along K, matrices in the batch.
        pub(crate) row_tiles: i32,
        pub(crate) column_tiles: i32,
        pub(crate) steps: i32,
        pub(crate) batch: i32,
        /// 1, or 0 if the whole batch shares one A, or one B.
        pub(crate) batched_a: i32,
        pub(crate) batched_b: i32,
        /// The rows and columns of D.
        pub(crate) extents: [i32; 2],
    }
}

/// An operand: the layout of its ring buffer in shared memory, and the TMA copy that fetches a
/// tile.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) ring: ComposedLayout,
    pub(crate) copy: TmaCopy,
}

impl Operand {
    /// Plans tiles of `rows` rows, as deep as a stage. Only the first `fetched` rows come from
    /// global memory.
    #[inline]
    fn new(
        config: &GemmConfig,
        scalar: Scalar,
        major: Major,
        [rows, fetched]: [u32; 2],
    ) -> Result<Operand, GemmError> {
        let GemmConfig { tile: [_, _, depth], stages, .. } = *config;
        let atom = SmemAtom::new(major, SmemSwizzle::Sw128).position_independent(scalar.bits())?;
        // A TMA copy's boxes follow each other along the mode that is not contiguous.
        let order = if major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
        let tiled = |shape: IntTuple| atom.tile_to_shape(&shape, Some(&order));
        let fetched = tiled(shape!(rows, depth, 1))?.composition(&tiler!(fetched, depth, 1))?;
        let copy = TmaCopy::new(in_memory(scalar), &fetched)?;
        Ok(Operand { ring: tiled(shape!(rows, depth, stages))?, copy })
    }

    /// Returns the tensor map for a batch of `lines` x `depth` matrices. If the batch shares one
    /// matrix, the map has a single one.
    #[inline]
    fn map(
        &self,
        major: Major,
        [lines, depth, batch]: [u32; 3],
        [pitch, next]: [u64; 2],
    ) -> Result<TensorMapDesc, GemmError> {
        let tensor = matrices(major, [lines, depth, batch], [pitch, next])?;
        let map = self.copy.desc(&tensor)?;
        // If a box row is not aligned to an L2 line, it straddles two, and promotion would fetch
        // both twice.
        let aligned =
            (pitch * u64::from(map.elem().size_bytes())).is_multiple_of(L2_LINE_BYTES.into());
        Ok(map.with_l2_promotion(if aligned { L2Promotion::B256 } else { L2Promotion::None }))
    }
}

/// Returns the layout (line, column, matrix) of a batch of matrices.
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

/// Everything about the kernel that is known on the host.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration, with A and B as TMA fetches them: after repacking.
    pub(crate) config: GemmConfig,
    /// The kernel's name.
    pub(crate) name: String,
    pub(crate) mma: TiledMma,
    /// Where each of a thread's accumulators is in the tile, relative to the first.
    pub(crate) offsets: Vec<[i32; 2]>,
    /// A warp group's blocks of 64 rows, the rows from one block to the next, and their columns.
    pub(crate) shape: [u32; 3],
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) store: StagedStore,
}

impl Plan {
    #[inline]
    pub(crate) fn new(config: &GemmConfig) -> Result<Plan, GemmError> {
        config.check()?;
        let (config, name) = (&config.of_product(), config.to_string());
        let GemmConfig { tile: [m, n, _], schedule, a, b, acc, swap, .. } = *config;
        let inputs = val_type(a).zip(val_type(b));
        let ((ty_a, ty_b), ty_acc) =
            inputs.zip(val_type(acc)).ok_or(GemmError::Inputs { schedule, a, b, acc })?;
        let [rows, columns] = config.mma_tile();
        let (left, right) = if swap { (ty_b, ty_a) } else { (ty_a, ty_b) };
        let op = Wgmma::new(columns, left, right, ty_acc, OperandSource::Shared);
        let groups = config.consumers_of_tile();
        let rows_a = if swap { m } else { config.rows_of_products() };
        let (stored, slots) = (config.store_columns(), config.store_slots());
        let store = if swap {
            StagedStore::transposed(config.d, stored, slots)?
        } else {
            StagedStore::of_rows(config.d, rows.min(WGMMA_ROWS), stored, slots)?
        };
        let store = if config.pairs { store.of_pairs() } else { store };
        let store = if config.store == StoreMethod::Direct { store.by_threads()? } else { store };
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
            a: Operand::new(config, a, config.major_a, [rows_a, m])?,
            b: Operand::new(config, b, config.major_b, [n, n])?,
            store,
        })
    }

    /// Returns the tensor maps of A and B for a problem. For a ragged batch they are templates with
    /// a single element, from which a kernel makes the real ones.
    #[inline]
    pub(crate) fn maps(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<[TensorMapDesc; 2], GemmError> {
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let GemmConfig { major_a, major_b, .. } = self.config;
        let map = |operand: &Operand, major, lines: u32, strides| {
            if !self.config.batch.has_sizes_on_device() {
                return operand.map(major, [lines, k, batch], strides);
            }
            let columns = if major == Major::K { k } else { lines };
            // The templates get L2 promotion as if rows followed each other.
            operand.map(major, [1; 3], [u64::from(columns).next_multiple_of(16), 0])
        };
        Ok([map(&self.a, major_a, m, strides.a)?, map(&self.b, major_b, n, strides.b)?])
    }

    /// Returns the tensor map of D, for kernels that store it by TMA. See [`maps`](Plan::maps).
    #[inline]
    pub(crate) fn map_of_d(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
    ) -> Result<TensorMapDesc, GemmError> {
        let GemmProblem { m, n, batch, .. } = *problem;
        let (sizes, strides) = match self.config.batch.has_sizes_on_device() {
            true => ([1; 3], [16, 0]),
            false => ([m, n / self.config.accumulators_per_element(), batch], strides.d),
        };
        Ok(self.store.desc(&matrices(Major::K, sizes, strides)?)?)
    }

    /// Builds the kernel. Its parameters are A and B; the sizes and the epilogue's operands; D,
    /// with a workspace if the kernel needs one.
    #[inline]
    pub(crate) fn build(&self, form: &dyn EpilogueForm) -> Result<Kernel<Untyped>, GemmError> {
        let (config, name) = (&self.config, format!("{}{}", self.name, form.suffix()));
        let declare = |list: &mut ParamList| {
            list.param(0, |list| self.declare_input(list));
            list.param(1, |list| {
                list.field("sizes", SizeParams::declare);
                list.field("epilogue", |list| form.declare(list));
            });
            list.param(2, |list| match config.has_workspace() {
                false => self.declare_output(list),
                true => {
                    list.field("0", |list| self.declare_output(list));
                    list.field("1", SplitParams::declare);
                }
            });
        };
        let kernel =
            Kernel::declared(self.options(), &name, config.target, declare, |k, values| {
                let (cx, kept) = (k.context(), kept(k, form));
                let input = self.input(k, values);
                let sizes = SizeParams::make(cx, values);
                let epilogue = form.make(cx, values, kept);
                let output = self.output(k, values, &sizes);
                let split = config.has_workspace().then(|| SplitParams::make(cx, values));
                let [rows, columns] = sizes.extents;
                let extents = [rows, columns, sizes.batch];
                let epilogue = EpilogueRef::new(config, &self.offsets, extents, &*epilogue);
                self.body(k, &sizes, epilogue, &input, output, split.as_ref());
            });
        Ok(kernel?)
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
}
