//! One GEMM in eight levels, from one thread per element to a warp-specialised persistent kernel.
//!
//! `D = A B`, all row-major `bf16` with `f32` accumulators. Sizes must be multiples of the tiles.
//! `cargo run --release --example gemm_levels -- 4096` times the levels on a GPU beside cuBLAS;
//! without a GPU it checks them on the simulator. `book/src/12-eight-levels.md` explains each step.

use std::error::Error;
use std::time::Duration;

use tilewright::arch::Major;
use tilewright::layout::ComposedLayout;
use tilewright::prelude::*;
use tilewright::tensor::atom::{
    CacheOp, CopyAtom, CopyOp, MmaAtom, MmaOp, MmaSync, Operand, OperandSource, SmemAtom,
    SmemSwizzle, ThrCopy, TiledCopy, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::{
    AsyncTile, MatrixLoad, StagedStore, TmaCopy, TmaTensor, autovec_copy,
};
use tilewright::tensor::mma::{WgmmaMainloop, gemm};
use tilewright::tensor::pipeline::{
    CpAsyncPipeline, PipelineState, Raster, TileScheduler, TmaPipeline, WarpRole, warp_roles,
};
use tilewright::tensor::view::{GlobalTensor, GlobalTensorMut, RegisterTensor, TensorPointer};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// M, N and K.
pub(crate) type Sizes = [u32; 3];

/// A: M x K, B: K x N, D: M x N.
type Pointers = (Global<bf16>, Global<bf16>, GlobalMut<bf16>);

/// The same pointers inside a kernel.
type Args<'b> = (Val<'b, Global<bf16>>, Val<'b, Global<bf16>>, Val<'b, GlobalMut<bf16>>);

/// Each level's tile of D per block, and the depth of a step along K.
pub(crate) const TILES: [Sizes; 8] = [
    [8, 32, 1],
    [8, 32, 1],
    [32, 32, 32],
    [128, 128, 16],
    [128, 128, 32],
    [128, 128, 64],
    [128, 128, 64],
    [128, 256, 64],
];

/// The levels' names.
const NAMES: [&str; 8] = [
    "naive",
    "coalesced",
    "shared tile",
    "register tile",
    "vectors, `cp.async` pipeline",
    "`mma.sync`",
    "TMA, `wgmma`",
    "warp-specialised, persistent",
];

/// Returns the matrices as tensors that are aligned to `bytes`. B is (N, K), as `gemm` takes it.
fn matrices<'b>(
    (a, b, d): Args<'b>,
    [m, n, depth]: Sizes,
    bytes: u32,
) -> (GlobalTensor<'b, bf16>, GlobalTensor<'b, bf16>, GlobalTensorMut<'b, bf16>) {
    let a = TensorPointer::new(a).assume_aligned(bytes);
    let b = TensorPointer::new(b).assume_aligned(bytes);
    let d = TensorPointer::new(d).assume_aligned(bytes);
    let a = Tensor::new(a, layout!((m, depth):(depth, 1)));
    let b = Tensor::new(b, layout!((n, depth):(1, n)));
    (a, b, Tensor::new(d, layout!((m, n):(n, 1))))
}

/// Levels 1 and 2: one thread per element of D. Neighbouring threads have neighbouring rows (1) or
/// neighbouring columns (2).
fn one_element(target: Target, sizes: Sizes, coalesced: bool) -> Result<Kernel<Pointers>> {
    let [_, _, depth] = sizes;
    Ok(Kernel::<Pointers>::build("one_element", target, |k, args| {
        let (a, b, d) = matrices(args, sizes, 2);
        let (thread, block) = (k.thread_idx(), k.block_idx());
        let (row, column) = if coalesced {
            (block.y * 8 + thread.y, block.x * 32 + thread.x)
        } else {
            (block.y * 8 + thread.x, block.x * 32 + thread.y)
        };
        let sum = k.for_(range(0, depth), 0.0, |_, i, sum| {
            let (a, b) = (a.load((row, i)), b.load((column, i)));
            a.cvt::<f32>().fma(b.cvt::<f32>(), sum)
        });
        d.store((row, column), sum.cvt::<bf16>());
    })?)
}

/// Level 3: a block keeps 32 x 32 tiles in shared memory, so each element is loaded once for 32
/// products.
fn shared_tile(target: Target, sizes: Sizes) -> Result<Kernel<Pointers>> {
    let [_, _, depth] = sizes;
    Ok(Kernel::<Pointers>::build("shared_tile", target, |k, args| {
        let (a, b, d) = matrices(args, sizes, 2);
        let (thread, block) = (k.thread_idx(), k.block_idx());
        let a = a.local_tile(&tiler!(32, 32), (block.y, ..));
        let b = b.local_tile(&tiler!(32, 32), (block.x, ..));
        let d = d.local_tile(&tiler!(32, 32), (block.y, block.x));
        let sa: SharedTensor<'_, bf16> = Tensor::shared(k, layout!((32, 32):(32, 1)));
        let sb: SharedTensor<'_, bf16> = Tensor::shared(k, layout!((32, 32):(1, 32)));
        let sum = k.for_(range(0, depth / 32), 0.0, |k, step, sum| {
            sa.store((thread.y, thread.x), a.load((thread.y, thread.x, step)));
            sb.store((thread.x, thread.y), b.load((thread.x, thread.y, step)));
            k.barrier();
            let sum = (0..32).fold(sum, |sum, i| {
                let (a, b) = (sa.load((thread.y, i)), sb.load((thread.x, i)));
                a.cvt::<f32>().fma(b.cvt::<f32>(), sum)
            });
            k.barrier();
            sum
        });
        d.store((thread.y, thread.x), sum.cvt::<bf16>());
    })?)
}

/// Level 4: a thread keeps 8 x 8 elements of D in registers, so 16 loads from shared memory feed 64
/// products.
fn register_tile(target: Target, sizes: Sizes) -> Result<Kernel<Pointers>> {
    let [_, _, depth] = sizes;
    let atom = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 })?;
    let mma = TiledMma::new(atom, &layout!((16, 16, 1):(16, 1, 0)), tiler!(_, _, _))?;
    Ok(Kernel::<Pointers>::build("register_tile", target, |k, args| {
        let (a, b, d) = matrices(args, sizes, 2);
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let a = a.local_tile(&tiler!(128, 16), (block.y, ..));
        let b = b.local_tile(&tiler!(128, 16), (block.x, ..));
        let d = d.local_tile(&tiler!(128, 128), (block.y, block.x));
        let sa: SharedTensor<'_, f32> = Tensor::shared(k, layout!((128, 16):(1, 132)));
        let sb: SharedTensor<'_, f32> = Tensor::shared(k, layout!((128, 16):(1, 128)));
        // Neighbouring threads are along K in A, and along N in B.
        let (of_a, of_b) = (layout!((16, 16):(16, 1)), layout!((128, 2):(1, 128)));
        let (to_a, to_b) = (sa.local_partition(&of_a, thread), sb.local_partition(&of_b, thread));
        let mine = mma.slice(thread);
        let (from_a, from_b) = (mine.partition_a(&sa), mine.partition_b(&sb));
        let acc = mine.fragment_c::<f32>(k, shape!(128, 128));
        acc.fill(0.0);
        k.for_(range(0, depth / 16), (), |k, step, ()| {
            let a = a.slice((.., .., step)).local_partition(&of_a, thread);
            let b = b.slice((.., .., step)).local_partition(&of_b, thread);
            to_a.store_all(&a.load_all().convert());
            to_b.store_all(&b.load_all().convert());
            k.barrier();
            gemm(&mma, &acc, &from_a, &from_b);
            k.barrier();
        });
        mine.partition_c(&d).store_all(&acc.load_all().convert());
    })?)
}

/// Starts a thread's copies from a global-memory tile to a stage of a ring buffer.
fn fetch<'b>(
    load: &ThrCopy<'_, 'b>,
    (from, step): (&GlobalTensor<'b, bf16>, Val<'b, i32>),
    (to, stage): (&SharedTensor<'b, bf16>, Val<'b, i32>),
) {
    load.copy(&from.slice((.., .., .., step)), &to.slice((.., .., .., stage)));
}

/// Level 5: `cp.async` prefetches tiles two steps ahead in 16-byte vectors, and threads load
/// vectors of 8 elements.
fn pipelined(target: Target, sizes: Sizes) -> Result<Kernel<Pointers>> {
    let [_, _, depth] = sizes;
    let op = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: false };
    let word = CopyAtom::new(op)?;
    let (of_a, of_b) = (layout!((64, 4):(4, 1)), layout!((16, 16):(1, 16)));
    let copy_a = TiledCopy::new(word.clone(), Scalar::Bf16, &of_a, &layout!((1, 8)))?;
    let copy_b = TiledCopy::new(word, Scalar::Bf16, &of_b, &layout!((8, 1)))?;
    let atom = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 })?;
    let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    let pipe = CpAsyncPipeline::new(3, 1)?;
    let options = KernelOptions::default().block([256, 1, 1]).min_blocks_per_sm(2);
    Ok(Kernel::<Pointers>::build_with(options, "pipelined", target, |k, args| {
        let (a, b, d) = matrices(args, sizes, 16);
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let a = a.local_tile(&tiler!(128, 32), (block.y, ..));
        let b = b.local_tile(&tiler!(128, 32), (block.x, ..));
        let d = d.local_tile(&tiler!(128, 128), (block.y, block.x));
        // Rows of A are 80 bytes apart, so that vectors in neighbouring rows are in different
        // banks.
        let (ring_a, ring_b) =
            (layout!((128, 32, 3):(40, 1, 5120)), layout!((128, 32, 3):(1, 128, 4096)));
        let sa: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, ring_a, 16);
        let sb: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, ring_b, 16);
        let (load_a, load_b) = (copy_a.slice(thread), copy_b.slice(thread));
        let (from_a, to_a) = (load_a.partition_s(&a), load_a.partition_d(&sa));
        let (from_b, to_b) = (load_b.partition_s(&b), load_b.partition_d(&sb));
        // Rows `row`, `row + 16`, .. and 8 neighbouring columns of D.
        let (row, column) = (thread / 16, thread % 16);
        let (a8, b8) = (
            Tensor::registers(k, layout!((8, 8):(8, 1))),
            Tensor::registers(k, layout!((8, 8):(1, 8))),
        );
        let (x, y) =
            (Tensor::registers(k, layout!((1, 8, 8))), Tensor::registers(k, layout!((1, 8, 8))));
        let acc: RegisterTensor<'_, f32> = Tensor::registers(k, layout!((1, 8, 8):(1, 8, 1)));
        acc.fill(0.0);
        pipe.fill(k, |k, step, stage| {
            let step = k.value(step);
            fetch(&load_a, (&from_a, step), (&to_a, stage));
            fetch(&load_b, (&from_b, step), (&to_b, stage));
        });
        k.for_(range(0, depth / 32), pipe.start(k), |k, step, state| {
            let ahead = step + pipe.ahead();
            k.if_(ahead.lt(depth / 32), |_| {
                fetch(&load_a, (&from_a, ahead), (&to_a, state.write));
                fetch(&load_b, (&from_b, ahead), (&to_b, state.write));
            });
            let (a, b) = (sa.slice((.., .., state.read)), sb.slice((.., .., state.read)));
            for part in 0..4 {
                let a = a
                    .local_tile(&tiler!(128, 8), (0, part))
                    .local_partition(&layout!((16, 1)), row);
                let b = b.local_tile(&tiler!(8, 8), (column, part));
                autovec_copy(&a, &a8);
                autovec_copy(&b, &b8);
                x.store_all(&a8.load_all().convert::<f32>().reshape(shape!(1, 8, 8)));
                y.store_all(&b8.load_all().convert::<f32>().reshape(shape!(1, 8, 8)));
                gemm(&mma, &acc, &x, &y);
            }
            pipe.commit(k);
            pipe.wait(k);
            pipe.next(state)
        });
        let d = d.local_partition(&layout!((16, 1)), row).local_tile(&tiler!(8, 8), (0, column));
        let out: RegisterTensor<'_, bf16> = Tensor::registers(k, layout!((8, 8):(8, 1)));
        out.store_all(&acc.load_all().convert().reshape(shape!(8, 8)));
        autovec_copy(&out, &d);
    })?)
}

/// Level 6: tensor cores. `ldmatrix` loads the operands of `mma.sync` from swizzled tiles; 8 warps
/// compute 64 x 32 each.
fn mma_sync(target: Target, sizes: Sizes) -> Result<Kernel<Pointers>> {
    let [m, n, depth] = sizes;
    let op = MmaSync::new([16, 8, 16], ValType::Bf16, ValType::Bf16, ValType::F32);
    // A warp's columns are next to each other.
    let columns = layout!((8, 4, 4):(1, 32, 8));
    let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((2, 4, 1)), tiler!(_, columns, _))?;
    let tile_a = AsyncTile::new(Scalar::Bf16, Major::K, 128, 256, 16)?;
    let tile_b = AsyncTile::new(Scalar::Bf16, Major::Mn, 128, 256, 16)?;
    let load_a = MatrixLoad::new(&mma, Operand::A, Major::K, 128)?;
    let load_b = MatrixLoad::new(&mma, Operand::B, Major::Mn, 128)?;
    let pipe = CpAsyncPipeline::new(3, 1)?;
    let (ring_a, ring_b) = (tile_a.layout(3)?, tile_b.layout(3)?);
    let options = KernelOptions::default().block([256, 1, 1]).min_blocks_per_sm(2);
    Ok(Kernel::<Pointers>::build_with(options, "mma_sync", target, |k, (a, b, d)| {
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let sa: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, ring_a.clone(), 1024);
        let sb: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, ring_b.clone(), 1024);
        let [rows, columns, depths] = [m, n, depth].map(|size| k.value::<i32>(size));
        let (pitch_a, pitch_b) = (k.constant(i64::from(depth)), k.constant(i64::from(n)));
        let (row, column) = (block.y * 128, block.x * 128);
        let copy_a = tile_a.slice(k, a, pitch_a, row, [rows, depths], &sa);
        let copy_b = tile_b.slice(k, b, pitch_b, column, [columns, depths], &sb);
        let mine = mma.slice(thread);
        let (from_a, from_b) = (load_a.ring(thread, &sa), load_b.ring(thread, &sb));
        let x = mine.fragment_words(k, Operand::A, shape!(128, 16));
        let y = mine.fragment_words(k, Operand::B, shape!(128, 16));
        let acc = mine.fragment_c::<f32>(k, shape!(128, 128));
        acc.fill(0.0);
        pipe.fill(k, |k, step, stage| {
            let at = k.value::<i32>(step * 64);
            copy_a.start(stage, at);
            copy_b.start(stage, at);
        });
        k.for_(range(0, depth / 64), pipe.start(k), |k, step, state| {
            // Past the end of K, nothing is read.
            let ahead = (step + pipe.ahead()) * 64;
            copy_a.start(state.write, ahead);
            copy_b.start(state.write, ahead);
            for part in 0..4 {
                from_a.stage(state.read).load(part, &x);
                from_b.stage(state.read).load(part, &y);
                mma.gemm_sync(&acc, &x, &y);
            }
            pipe.commit(k);
            pipe.wait(k);
            pipe.next(state)
        });
        let (_, _, d) = matrices((a, b, d), sizes, 16);
        let d = d.local_tile(&tiler!(128, 128), (block.y, block.x));
        store_rounded(&acc, &mine.partition_c(&d));
    })?)
}

/// Rounds a thread's accumulators and stores them in vectors.
fn store_rounded<'b>(acc: &RegisterTensor<'b, f32>, to: &GlobalTensorMut<'b, bf16>) {
    let out = acc.fragment_like::<bf16>();
    out.store_all(&acc.load_all().convert());
    autovec_copy(&out, to);
}

/// The TMA copies of A and B tiles for the last two levels, and the layouts of their ring buffers.
struct Tiles {
    a: TmaCopy,
    b: TmaCopy,
    ring_a: ComposedLayout,
    ring_b: ComposedLayout,
}

impl Tiles {
    fn new([m, n, depth]: Sizes, stages: u32) -> Result<Tiles> {
        let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
        let columns = SmemAtom::new(Major::Mn, SmemSwizzle::Sw128).position_independent(16)?;
        // Boxes of B follow each other along K first.
        let order = Some(shape!(1, 0, 2));
        Ok(Tiles {
            a: TmaCopy::new(Scalar::Bf16, &rows.tile_to_shape(&shape!(m, depth), None)?)?,
            b: TmaCopy::new(
                Scalar::Bf16,
                &columns.tile_to_shape(&shape!(n, depth), Some(&shape!(1, 0)))?,
            )?,
            ring_a: rows.tile_to_shape(&shape!(m, depth, stages), None)?,
            ring_b: columns.tile_to_shape(&shape!(n, depth, stages), order.as_ref())?,
        })
    }

    fn bytes(&self) -> u32 {
        self.a.bytes() + self.b.bytes()
    }
}

/// A `wgmma` of 64 x `columns` with both operands in shared memory, for `groups` warp groups along
/// M.
fn wgmma(columns: u32, groups: u32) -> Result<TiledMma> {
    let op = Wgmma::new(columns, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    Ok(TiledMma::new(MmaAtom::new(op)?, &layout!((groups, 1, 1)), tiler!(_, _, _))?)
}

/// The K tiles of a block's rows of A and columns of B, and the ring buffer that they go to.
struct Source<'c, 'b> {
    pipe: TmaPipeline<'b>,
    a: TmaTensor<'c, 'b, TensorMap<bf16, 2>>,
    b: TmaTensor<'c, 'b, TensorMap<bf16, 2>>,
    sa: SharedTensor<'b, bf16>,
    sb: SharedTensor<'b, bf16>,
}

impl<'b> Source<'_, 'b> {
    /// Waits until the stage is empty, then starts the copies of a step. Call it in one thread.
    fn fetch(&self, step: Val<'b, i32>, state: PipelineState<'b>) {
        let full = self.pipe.acquire(state);
        let (a, b) = (self.a.slice((.., .., step)), self.b.slice((.., .., step)));
        a.load(&self.sa.slice((.., .., state.stage)), full);
        b.load(&self.sb.slice((.., .., state.stage)), full);
    }
}

/// A and B as tensor maps, and D as a pointer.
type Maps = (TensorMap<bf16, 2>, TensorMap<bf16, 2>, GlobalMut<bf16>);

/// Level 7: one thread fetches tiles by TMA, and the warp group multiplies them directly from
/// shared memory.
fn tma_wgmma(target: Target, sizes: Sizes, tiles: &Tiles) -> Result<Kernel<Maps>> {
    const STAGES: u32 = 4;
    let [m, n, depth] = sizes;
    let steps = depth / 64;
    let mma = wgmma(128, 1)?;
    let options = KernelOptions::default().block([128, 1, 1]);
    Ok(Kernel::<Maps>::build_with(options, "tma_wgmma", target, |k, (a, b, d)| {
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let sa: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, tiles.ring_a.clone(), 1024);
        let sb: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, tiles.ring_b.clone(), 1024);
        let pipe = TmaPipeline::new(k, STAGES, tiles.bytes(), 1);
        let first = thread.eq(0);
        pipe.init(first);
        k.barrier();
        let a = tiles.a.tensor(a).local_tile(&tiler!(128, 64), (block.y, ..));
        let b = tiles.b.tensor(b).local_tile(&tiler!(128, 64), (block.x, ..));
        let source = Source { pipe, a, b, sa: sa.clone(), sb: sb.clone() };
        let products = WgmmaMainloop::new(k, &mma, pipe, thread, &sa, &sb);
        let mine = mma.slice(thread);
        let acc = mine.fragment_c::<f32>(k, shape!(128, 128));
        acc.fill(0.0);
        // All stages but one are filled before the loop.
        let mut write = pipe.producer();
        for step in 0..steps.min(STAGES - 1) {
            k.if_(first, |k| source.fetch(k.value(step), write));
            write = write.next();
        }
        let start = (write, pipe.consumer());
        let (_, read) = k.for_(range(0, steps), start, |k, step, (write, read)| {
            products.start(&acc, read, true);
            products.release_previous(read, step.gt(0));
            let ahead = step + (STAGES - 1);
            k.if_(first & ahead.lt(steps), |_| source.fetch(ahead, write));
            (write.next(), read.next())
        });
        products.finish(read);
        let d = TensorPointer::new(d).assume_aligned(16);
        let d = Tensor::new(d, layout!((m, n):(n, 1)));
        let d = d.local_tile(&tiler!(128, 128), (block.y, block.x));
        store_rounded(&acc, &mine.partition_c(&d));
    })?)
}

/// All three matrices as tensor maps.
type AllMaps = (TensorMap<bf16, 2>, TensorMap<bf16, 2>, TensorMapMut<bf16, 3>);

/// Level 8: a producer warp group fetches, two consumer warp groups multiply and store by TMA.
/// Blocks are persistent, so the producer already fetches the next tile while the consumers store
/// one.
fn specialised(
    target: Target,
    [m, n, depth]: Sizes,
    tiles: &Tiles,
    store: &StagedStore,
) -> Result<Kernel<AllMaps>> {
    let (mma, steps) = (wgmma(256, 2)?, depth / 64);
    let options = KernelOptions::default().block([384, 1, 1]).min_blocks_per_sm(1);
    Ok(Kernel::<AllMaps>::build_with(options, "specialised", target, |k, (a, b, d)| {
        let sa: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, tiles.ring_a.clone(), 1024);
        let sb: SharedTensor<'_, bf16> = Tensor::shared_aligned(k, tiles.ring_b.clone(), 1024);
        let staging = k.shared_aligned::<bf16>(2 * store.elements(), 1024);
        let pipe = TmaPipeline::new(k, 4, tiles.bytes(), 2);
        let thread = k.thread_idx().x;
        let extents = [m / 128, n / 256, 1].map(|extent| k.value::<i32>(extent));
        let order = TileScheduler::new(k, Raster::Swizzle { width: 16 }, extents);
        pipe.init(thread.eq(0));
        k.barrier();
        let roles = WarpRole::producers_and_consumers([1, 2], Some([40, 232]));
        warp_roles(k, &roles, 168, |k, role, group| {
            if role == 0 {
                return k.if_(thread.eq(0), |k| {
                    let (a, b) = (tiles.a.tensor(a), tiles.b.tensor(b));
                    order.for_each(k, pipe.producer(), |k, tile, state| {
                        let a = a.local_tile(&tiler!(128, 64), (tile.row, ..));
                        let b = b.local_tile(&tiler!(256, 64), (tile.column, ..));
                        let source = Source { pipe, a, b, sa: sa.clone(), sb: sb.clone() };
                        k.for_(range(0, steps), state, |_, step, state| {
                            source.fetch(step, state);
                            state.next()
                        })
                    });
                });
            }
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), 128).aligned();
            let products = WgmmaMainloop::new(k, &mma, pipe, thread - 128, &sa, &sb);
            let to = staging.offset(group * store.elements());
            let out = store.slice(k, d, to, thread % 128, barrier);
            order.for_each(k, pipe.consumer(), |k, tile, state| {
                let acc = mma.slice(0).fragment_c::<f32>(k, shape!(128, 256));
                let state = products.run(&acc, state, k.value(steps));
                products.finish(state);
                let origin = [tile.row * 128 + group * 64, tile.column * 256, k.constant(0)];
                out.tile(&acc, origin, [1, 64, 256], &());
                state
            });
            out.finish();
        });
    })?)
}

/// Returns the kernel of one of the first six levels, counted from 0, and its block shape.
fn of_pointers(target: Target, sizes: Sizes, level: usize) -> Result<(Kernel<Pointers>, [u32; 3])> {
    Ok(match level {
        0 => (one_element(target, sizes, false)?, [8, 32, 1]),
        1 => (one_element(target, sizes, true)?, [32, 8, 1]),
        2 => (shared_tile(target, sizes)?, [32, 32, 1]),
        3 => (register_tile(target, sizes)?, [256, 1, 1]),
        4 => (pipelined(target, sizes)?, [256, 1, 1]),
        _ => (mma_sync(target, sizes)?, [256, 1, 1]),
    })
}

/// Returns the PTX of a level, counted from 0.
#[allow(dead_code, reason = "a test assembles it")]
pub(crate) fn ptx(level: usize, sizes: Sizes) -> Result<String> {
    let target = Target::SM_90A;
    let tiles = || Tiles::new(TILES[level], 4);
    let ptx = match level {
        6 => tma_wgmma(target, sizes, &tiles()?)?.ptx(),
        7 => specialised(target, sizes, &tiles()?, &StagedStore::new(Scalar::Bf16, 64, 1)?)?.ptx(),
        _ => of_pointers(target, sizes, level)?.0.ptx(),
    };
    Ok(ptx.text().to_owned())
}

/// The matrices on a device.
pub(crate) struct Matrices {
    sizes: Sizes,
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    d: Buffer<bf16>,
}

impl Matrices {
    /// Uploads `element(i)` as element `i` of A and, with another offset, of B.
    pub(crate) fn new(
        device: &Device,
        sizes: Sizes,
        element: impl Fn(usize) -> f32,
    ) -> Result<Matrices> {
        let [m, n, depth] = lengths(sizes)?;
        let upload = |len: usize, first: usize| {
            let values: Vec<bf16> = (0..len).map(|i| bf16::from_f32(element(i + first))).collect();
            device.upload(&values)
        };
        let (a, b) = (upload(m * depth, 0)?, upload(depth * n, 3)?);
        Ok(Matrices { sizes, a, b, d: device.zeros(m * n)? })
    }

    /// Computes D with a level, counted from 0, and returns the time of each of `runs` launches on
    /// `sms` SMs.
    pub(crate) fn run(
        &mut self,
        device: &Device,
        level: usize,
        sms: u32,
        runs: usize,
    ) -> Result<Vec<Duration>> {
        let Matrices { sizes, a, b, d } = self;
        let (target, sizes) = (device.target(), *sizes);
        let [m, n, depth] = sizes;
        let [rows, columns, _] = TILES[level];
        let blocks = [n / columns, m / rows, 1];
        let mut times = Vec::new();
        if level < 6 {
            let (kernel, threads) = of_pointers(target, sizes, level)?;
            let function = device.load(&kernel)?;
            for _ in 0..runs {
                rest(device);
                times.push(function.time(Grid::new(blocks, threads), (&*a, &*b, &mut *d))?.elapsed);
            }
            return Ok(times);
        }
        let tiles = Tiles::new(TILES[level], 4)?;
        let (map_a, map_b) = (
            tiles.a.desc(&layout!((m, depth):(depth, 1)))?,
            tiles.b.desc(&layout!((n, depth):(1, n)))?,
        );
        let (a, b) = (a.tensor_map(&map_a)?, b.tensor_map(&map_b)?);
        if level == 6 {
            let function = device.load(&tma_wgmma(target, sizes, &tiles)?)?;
            for _ in 0..runs {
                rest(device);
                let grid = Grid::new(blocks, [128, 1, 1]);
                times.push(function.time(grid, (&a, &b, &mut *d))?.elapsed);
            }
            return Ok(times);
        }
        let store = StagedStore::new(Scalar::Bf16, 64, 1)?;
        let function = device.load(&specialised(target, sizes, &tiles, &store)?)?;
        let map_d = store.desc(&layout!((m, n, 1):(n, 1, 0)))?;
        let mut d = d.tensor_map_mut(&map_d)?;
        for _ in 0..runs {
            rest(device);
            let grid = Grid::new([sms.min(blocks[0] * blocks[1]), 1, 1], [384, 1, 1]);
            times.push(function.time(grid, (&a, &b, &mut d))?.elapsed);
        }
        Ok(times)
    }
}

/// Lets a GPU rest, so that each launch starts at the full clock.
fn rest(device: &Device) {
    if !device.is_sim() {
        std::thread::sleep(Duration::from_millis(40));
    }
}

fn lengths(sizes: Sizes) -> Result<[usize; 3]> {
    let [m, n, depth] = sizes.map(usize::try_from);
    Ok([m?, n?, depth?])
}

/// Small integers, whose products and sums are exact.
fn small(i: usize) -> f32 {
    (i * 7 % 5) as f32 - 2.0
}

/// Runs a level on these sizes and compares `count` elements of D with the host.
pub(crate) fn check(device: &Device, level: usize, sizes: Sizes, count: usize) -> Result<()> {
    let mut matrices = Matrices::new(device, sizes, small)?;
    matrices.run(device, level, 2, 1)?;
    let d = matrices.d.to_vec()?;
    let [m, n, depth] = lengths(sizes)?;
    for place in (0..m * n).step_by((m * n / count).max(1) | 1) {
        let (row, column) = (place / n, place % n);
        let products = (0..depth).map(|i| small(row * depth + i) * small(i * n + column + 3));
        let expected = bf16::from_f32(products.sum());
        let name = NAMES[level];
        assert_eq!(d[place], expected, "D({row}, {column}) of level {}, {name}", level + 1);
    }
    Ok(())
}

/// Returns the median rate in TFLOP/s.
fn rate(sizes: Sizes, mut times: Vec<Duration>) -> f64 {
    times.sort();
    let flop = 2.0 * sizes.map(f64::from).iter().product::<f64>();
    flop / times[times.len() / 2].as_secs_f64() / 1e12
}

/// Times all levels and cuBLAS on random data.
fn measure(device: &Device, size: u32) -> Result<()> {
    let sizes = [size; 3];
    let sms = device.properties().map_or(1, |properties| properties.sm_count);
    // Uniform in -1 .. 1.
    let random = |i: usize| (i.wrapping_mul(0x9e37_79b9) >> 7 & 0xffff) as f32 / 32768.0 - 1.0;
    let mut matrices = Matrices::new(device, sizes, random)?;
    let cublas = cublas(device, &mut matrices);
    println!("{} x {} x {} on {device}", size, size, size);
    if let Err(error) = &cublas {
        println!("no cuBLAS: {error}");
    }
    println!("| level | TFLOP/s | x cuBLAS |\n|---|---|---|");
    for (level, name) in NAMES.into_iter().enumerate() {
        if level >= 6 && device.target() != Target::SM_90A {
            println!("| {} {name} | needs sm_90a | |", level + 1);
            continue;
        }
        check(device, level, sizes, 1000)?;
        let reached = rate(sizes, matrices.run(device, level, sms, 9)?);
        let ratio = cublas.as_ref().map_or(String::new(), |best| format!("{:.3}", reached / best));
        println!("| {} {name} | {reached:.2} | {ratio} |", level + 1);
    }
    if let Ok(best) = cublas {
        println!("| cuBLAS | {best:.2} | 1 |");
    }
    Ok(())
}

/// Returns the rate of cuBLAS.
#[cfg(feature = "cublas")]
fn cublas(device: &Device, matrices: &mut Matrices) -> Result<f64> {
    use tilewright::runtime::{Cublas, Matmul};
    let Matrices { sizes, a, b, d } = matrices;
    let (inputs, output) = ([Scalar::Bf16; 2], Scalar::Bf16);
    let matmul = Matmul { sizes: *sizes, a: Major::K, b: Major::Mn, inputs, output };
    let (cublas, stream) = (Cublas::open(device)?, device.stream()?);
    let mut times = Vec::new();
    for _ in 0..9 {
        rest(device);
        // While the first GEMM runs, the host has time to choose a kernel for the second one, which
        // is timed.
        cublas.gemm(&matmul, &stream, a, b, d)?;
        let begin = stream.record()?;
        cublas.gemm(&matmul, &stream, a, b, d)?;
        let end = stream.record()?;
        end.synchronize()?;
        times.push(begin.elapsed_until(&end)?);
    }
    Ok(rate(*sizes, times))
}

#[cfg(not(feature = "cublas"))]
fn cublas(_: &Device, _: &mut Matrices) -> Result<f64> {
    Err("built without the feature `cublas`".into())
}

#[allow(dead_code, reason = "a test runs the levels")]
fn main() -> Result<()> {
    let size = std::env::args().nth(1).map_or(Ok(4096), |size| size.parse())?;
    let device = Device::default()?;
    if !device.is_sim() {
        return measure(&device, size);
    }
    let device = Device::sim_for(Target::SM_90A)?;
    for (level, name) in NAMES.into_iter().enumerate() {
        let [m, n, depth] = TILES[level];
        check(&device, level, [2 * m, n, 6 * depth], 1000)?;
        println!("level {}, {name}: right on the simulator", level + 1);
    }
    Ok(())
}
