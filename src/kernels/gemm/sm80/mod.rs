//! The multistage kernel with `mma.sync`, for `sm_80` and newer targets. It serves all GPUs whose
//! tensor cores have no `wgmma`.
//!
//! All threads of a block prefetch tiles of A and B into a ring buffer in shared memory with
//! `cp.async`. For each tile along K, a warp loads its fragments with `ldmatrix` one step ahead,
//! multiplies them, and starts copies of a later tile between the MMAs. After the last tile it
//! applies the epilogue and stores from registers. There are no warp roles.
//!
//! The copies of a tile are spread over the steps of another tile, and a tile's first fragments are
//! loaded during the last MMAs of the previous one, so that neither stalls the tensor cores.

pub(crate) mod arguments;

use crate::ir::builder::Accumulator;
use crate::ir::types::Scalar;
use crate::ir::{Body, Kernel, Target, Untyped, Val, range};
use crate::layout::{layout, shape, tiler};
use crate::tensor::atom::{MmaAtom, MmaSync, Operand, TiledMma};
use crate::tensor::copy::{AsyncTile, MatrixLoad, MatrixRing};
use crate::tensor::mma::copy_bits;
use crate::tensor::pipeline::{CpAsyncPipeline, wait_for_launch};
use crate::tensor::view::{RegisterTensor, SharedTensor, Tensor};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::types::{in_memory, val_type};
use crate::kernels::gemm::config::{GemmConfig, SWIZZLE_ALIGN};
use crate::kernels::gemm::elements::{A, B, Sum};
use crate::kernels::gemm::epilogue::direct_store::DirectStore;
use crate::kernels::gemm::epilogue::fragment::offsets;
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueRef};
use crate::kernels::gemm::sm80::arguments::{Matrix, ThreadsBody, count, of_d, threads_of_block};
use crate::kernels::gemm::split::work_tiles::WorkTiles;

/// Everything about the kernel that is known on the host.
struct Plan {
    mma: TiledMma,
    /// Elements along K per MMA instruction.
    depth: u32,
    tiles: [AsyncTile; 2],
    loads: [MatrixLoad; 2],
    offsets: Vec<[i32; 2]>,
}

impl Plan {
    #[inline]
    fn new(config: &GemmConfig) -> Result<Plan, GemmError> {
        let GemmConfig { target, tile: [m, n, of_tile], schedule, a, b, acc, .. } = *config;
        let types = [val_type(a), val_type(b), val_type(acc)];
        let [Some(ty_a), Some(ty_b), Some(ty_acc)] = types else {
            return Err(GemmError::Inputs { schedule, a, b, acc });
        };
        // For `f64`, newer targets multiply more rows at a time.
        let [rows, depth] = match (a, target.offers(Target::SM_90)) {
            (Scalar::F64, true) => [16, 8],
            (Scalar::F64, false) => [8, 4],
            _ => [16, 256 / a.bits()],
        };
        let atom = MmaAtom::new(MmaSync::new([rows, 8, depth], ty_a, ty_b, ty_acc))?;
        let [rows, columns] = config.warp_tile();
        let warps = [m / rows, n / columns];
        // A warp's columns are next to each other.
        let beside = layout!((8, warps[1], columns / 8):(1, i64::from(columns), 8));
        let mma = TiledMma::new(atom, &layout!((warps[0], warps[1], 1)), tiler!(_, beside, _))?;
        let tile = |scalar, major, extent| {
            AsyncTile::new(in_memory(scalar), major, extent, config.threads(), config.alignment)?
                .with_depth(of_tile)
        };
        // Interleaved, so that a thread has adjacent columns of D.
        let tiles = [tile(a, config.major_a, m)?, tile(b, config.major_b, n)?.interleaved()];
        let loads = [
            MatrixLoad::new(&mma, Operand::A, config.major_a, m)?,
            MatrixLoad::new(&mma, Operand::B, config.major_b, n)?,
        ];
        let offsets = offsets(&mma, [m, n], &tiles[1].rows())?;
        Ok(Plan { mma, depth, tiles, loads, offsets })
    }
}

/// Builds the kernel.
#[inline]
pub(crate) fn build(
    config: &GemmConfig,
    form: &dyn EpilogueForm,
) -> Result<Kernel<Untyped>, GemmError> {
    arguments::build(config, form, 1, &*body(*config)?)
}

#[inline]
fn body(config: GemmConfig) -> Result<Box<ThreadsBody>, GemmError> {
    let plan = Plan::new(&config)?;
    let GemmConfig { tile: [m, n, depth], stages, .. } = config;
    let pipe = CpAsyncPipeline::new(stages, 1)?;
    let rings = [plan.tiles[0].layout(stages)?, plan.tiles[1].layout(stages)?];
    Ok(Box::new(move |k, args, epilogue, split| {
        let (rows, columns, depths) = (args.m, args.n, args.k);
        let sa = SharedTensor::<A>::shared_aligned(k, rings[0].clone(), SWIZZLE_ALIGN);
        let sb = SharedTensor::<B>::shared_aligned(k, rings[1].clone(), SWIZZLE_ALIGN);
        let extents = [count(rows, m), count(columns, n), args.batch];
        let parts = WorkTiles::new(k, &config, extents, (None, None), count(depths, depth), None);
        if config.programmatic {
            k.griddepcontrol_launch_dependents();
        }
        let limits = [rows, of_d(&config, columns)];
        let extents = [limits[0], limits[1], args.batch];
        let epilogue = EpilogueRef::new(&config, &plan.offsets, extents, epilogue);
        let thread = k.thread_idx().x;
        parts.for_each_of_block(k, |k, part| {
            let tile = part.tile;
            let (row, column) = (tile.row * m, tile.column * n);
            let a = Matrix::of_tile(args.a, args.a_strides, tile);
            let b = Matrix::of_tile(args.b, args.b_strides, tile);
            let copy_a = plan.tiles[0].slice(k, a.first, a.pitch, row, [rows, depths], &sa);
            let copy_b = plan.tiles[1].slice(k, b.first, b.pitch, column, [columns, depths], &sb);
            let thr = plan.mma.slice(thread);
            let from_a = plan.loads[0].ring(thread, &sa);
            let from_b = plan.loads[1].ring(thread, &sb);
            let accumulators = thr.fragment_c::<Sum>(k, shape!(m, n));
            let integers =
                (config.acc == Scalar::I32).then(|| thr.fragment_c::<i32>(k, shape!(m, n)));
            match &integers {
                Some(integers) => integers.fill(0),
                None => accumulators.fill(Sum::default()),
            }
            // Operands for two steps: one is multiplied while the next is loaded.
            let words = [0, 1].map(|_| match config.a {
                Scalar::F64 => Fragments::Doubles(
                    thr.fragment_a(k, shape!(m, plan.depth)),
                    thr.fragment_b(k, shape!(n, plan.depth)),
                ),
                _ => Fragments::Words(
                    thr.fragment_words(k, Operand::A, shape!(m, plan.depth)),
                    thr.fragment_words(k, Operand::B, shape!(n, plan.depth)),
                ),
            });
            wait_for_launch(k, config.programmatic, [copy_a.address(), copy_b.address()]);
            pipe.fill(k, |_, step, stage| {
                let depth = (part.first + step) * depth;
                copy_a.start(stage, depth);
                copy_b.start(stage, depth);
            });
            load(&from_a, &from_b, k.constant(0), 0, &words);
            let steps = depth / plan.depth;
            let single = config.alignment < 4;
            let is_small = m * n <= 64 * 64;
            let start = pipe.start(k);
            k.for_(range(part.first, part.end), start, |k, tile, state| {
                let ahead = (tile + pipe.ahead()) * depth;
                // Elements too misaligned for `cp.async` are loaded before the MMAs, and stored
                // after them.
                let mut begin =
                    || (copy_a.begin(state.write, ahead), copy_b.begin(state.write, ahead));
                let loaded = single.then(&mut begin);
                for step in 0..steps {
                    if step + 1 < steps {
                        load(&from_a, &from_b, state.read, step + 1, &words);
                        let copy = |_: &mut Body<'_, '_>| {
                            copy_a.start_part(state.write, ahead, step, steps - 1);
                            copy_b.start_part(state.write, ahead, step, steps - 1);
                        };
                        // If the matrices are small, most copies would be beyond the last tile, so
                        // it is worth a branch.
                        match (single, is_small) {
                            (true, _) => {}
                            (false, true) => k.if_((tile + pipe.ahead()).lt(part.end), copy),
                            (false, false) => copy(k),
                        }
                    } else {
                        if let Some((a, b)) = &loaded {
                            a.store();
                            b.store();
                        }
                        // The next tile. All threads have loaded what they need from this one, so
                        // its stage can be overwritten next.
                        pipe.commit(k);
                        pipe.wait(k);
                        // Compute the next stage here. Any earlier, and `ptxas` would move the last
                        // MMAs past the barrier, and these loads would have none to hide under.
                        let next = |_: &Body<'_, '_>| {
                            load(&from_a, &from_b, pipe.after(state.read), 0, &words);
                        };
                        match is_small {
                            true => k.if_((tile + 1).lt(part.end), |k| next(k)),
                            false => next(k),
                        }
                    }
                    let operands = &words[step as usize % 2];
                    match &integers {
                        Some(integers) => operands.gemm_sync(&plan.mma, integers),
                        None => operands.gemm_sync(&plan.mma, &accumulators),
                    }
                }
                pipe.next(state)
            });
            if let Some(integers) = &integers {
                copy_bits(integers, &accumulators);
            }
            parts.leave(k, pipe);
            // The thread's first element in the tile.
            let coords = Tensor::identity(k, shape!(m, n));
            let coords = coords.composition(&tiler!(_, plan.tiles[1].rows()));
            let first = thr.partition_c(&coords).coord((0, 0, 0));
            let origin = [row, of_d(&config, column)];
            let store = DirectStore::new(args.d, args.d_strides, tile, origin, limits);
            let store = store.wide().pairs(config.pairs);
            let accumulators = accumulators.variables();
            let threads = threads_of_block(k, &config);
            parts.sum(k, split, part, threads, &accumulators, |k| {
                let epilogue = epilogue.reduce(k, &accumulators, tile, |k| store.first(k, &first));
                store.all(k, &accumulators, &first, &plan.offsets, epilogue);
            });
        });
        epilogue.finish(k);
    }))
}

/// A step's operands in registers: words that elements share, or 64-bit elements.
enum Fragments<'b> {
    Words(RegisterTensor<'b, u32>, RegisterTensor<'b, u32>),
    Doubles(RegisterTensor<'b, f64>, RegisterTensor<'b, f64>),
}

impl Fragments<'_> {
    fn gemm_sync<S: Accumulator>(&self, mma: &TiledMma, accumulators: &RegisterTensor<'_, S>) {
        match self {
            Fragments::Words(a, b) => mma.gemm_sync(accumulators, a, b),
            Fragments::Doubles(a, b) => mma.gemm_sync(accumulators, a, b),
        }
    }
}

/// Loads a step's operands. Even and odd steps use different registers.
#[inline]
fn load<'b>(
    a: &MatrixRing<'_, 'b, A>,
    b: &MatrixRing<'_, 'b, B>,
    stage: Val<'b, i32>,
    step: u32,
    fragments: &[Fragments<'_>; 2],
) {
    let (a, b) = (a.stage(stage), b.stage(stage));
    match &fragments[step as usize % 2] {
        Fragments::Words(to_a, to_b) => {
            a.load(step, to_a);
            b.load(step, to_b);
        }
        Fragments::Doubles(to_a, to_b) => {
            a.load(step, to_a);
            b.load(step, to_b);
        }
    }
}
