//! The warp-specialised persistent GEMM of Hopper, written with the builder alone:
//! `C[M,N] = A[M,K] B[N,K]^T`, row-major `bf16`, sums in `f32`.
//!
//! A block is three warp groups. One thread of the first fills a ring of tiles of A and B by tensor copies; the
//! other two multiply them with `wgmma` and write their rows of C by tensor copies, each at its own pace. Blocks
//! stay, and take every `gridDim`-th tile in strips of `strip` row tiles, which are walked along N to and fro.

use tilewright::codegen::{
    DescriptorError, L2Promotion, MatrixDescriptor, TensorMapDesc, TensorMapError,
};
use tilewright::ir::{
    BarrierForm, Body, BuildErrors, BulkWait, ClusterArrival, Kernel, KernelOptions, L2Policy,
    MbarrierRef, ProxySpace, Range, Registers, RemoteArrival, Scalar, SetmaxnregAction, Shared,
    Target, TensorMap, TensorMapMut, Val, Vector, bf16, range,
};
use tilewright::layout::{ComposedLayout, Layout, LayoutError, Swizzle, layout};
use tilewright::runtime::Grid;

/// A, B and C; the row tiles and column tiles of C; the blocks of 64 along K.
pub(crate) type Gemm =
    (TensorMap<bf16, 2>, TensorMap<bf16, 2>, TensorMapMut<bf16, 2>, i32, i32, i32);

/// Elements along K of a tile: the 128 bytes of a row of the swizzle.
pub(crate) const BK: u32 = 64;
/// Threads of a warp group.
const GROUP: i32 = 128;
/// Warp groups that multiply.
const CONSUMERS: u32 = 2;

/// How a tile of C leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// 64 rows at once, as wide as the tile.
    Rows,
    /// 64 rows of 64 columns at a time.
    Chunks,
    /// As `Chunks`, under the first products of the next tile.
    Deferred,
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Rows of a tile of C: a multiple of 128.
    pub(crate) bm: u32,
    /// Columns of a tile of C.
    pub(crate) bn: u32,
    /// Tiles of A and B in shared memory.
    pub(crate) stages: u32,
    /// Row tiles of a strip.
    pub(crate) strip: i32,
    pub(crate) epilogue: Epilogue,
    /// Blocks of a cluster, along M: 1, or 2 that take turns in fetching B for both.
    pub(crate) cluster: u32,
    /// Whether the kernel may start before the one before it has ended.
    pub(crate) programmatic: bool,
}

impl Config {
    /// Columns of C that are stored at once.
    fn columns(&self) -> u32 {
        if self.epilogue == Epilogue::Rows { self.bn } else { 64 }
    }

    /// Places for such columns in shared memory for each warp group.
    fn slots(&self) -> u32 {
        if self.epilogue == Epilogue::Rows { 1 } else { 2 }
    }

    /// Blocks of 64 rows of a warp group.
    fn row_blocks(&self) -> u32 {
        self.bm / CONSUMERS / 64
    }

    /// Registers of a thread for the sums of 64 rows.
    fn sums(&self) -> usize {
        self.bn as usize / 2
    }

    /// Bytes of a tile of A and one of B.
    fn stage_bytes(&self) -> u32 {
        (self.bm + self.bn) * BK * 2
    }

    /// Row tiles, column tiles and blocks along K of a problem.
    pub(crate) fn tiles(&self, [m, n, k]: [u32; 3]) -> [i32; 3] {
        [m.div_ceil(self.bm), n.div_ceil(self.bn), k.div_ceil(BK)].map(|n| n as i32)
    }

    /// The grid for a problem on a device with `sms` multiprocessors.
    pub(crate) fn grid(&self, problem: [u32; 3], sms: u32) -> Grid {
        let [rows, columns, _] = self.tiles(problem).map(|n| n as u32);
        let pairs = rows.div_ceil(self.cluster) * columns;
        let blocks = pairs.min(sms / self.cluster) * self.cluster;
        Grid::new([blocks, 1, 1], [GROUP as u32 * (1 + CONSUMERS), 1, 1])
    }

    /// The maps of A, B and C for a problem, from the layouts of the tensors and of the tiles.
    pub(crate) fn maps(&self, [m, n, k]: [u32; 3]) -> Result<[TensorMapDesc; 3], TensorMapError> {
        let swizzle = Swizzle::new(3, 3, 3)?;
        let operand = |rows: u32, tile: u32| {
            let tile = ComposedLayout::new(swizzle, 0, Layout::row_major((tile, BK)))?;
            let tensor = Layout::row_major((rows, k));
            let map = TensorMapDesc::from_layouts(Scalar::Bf16, &tensor, &tile)?;
            Ok::<_, TensorMapError>(map.with_l2_promotion(L2Promotion::B256))
        };
        let tensor = Layout::row_major((m, n));
        let chunk = Layout::row_major((64, self.columns()));
        let chunk = if self.epilogue == Epilogue::Rows {
            ComposedLayout::from(chunk)
        } else {
            ComposedLayout::new(swizzle, 0, chunk)?
        };
        let c = TensorMapDesc::from_layouts(Scalar::Bf16, &tensor, &chunk)?;
        Ok([operand(m, self.bm)?, operand(n, self.bn)?, c])
    }
}

/// Why there is no kernel.
#[derive(Debug)]
#[allow(dead_code, reason = "the fields are for the message of a failed benchmark")]
pub(crate) enum GemmError {
    Layout(LayoutError),
    Descriptor(DescriptorError),
    Build(BuildErrors),
}

/// The bits of the descriptors of A and B, from their layouts for one instruction.
fn descriptors(config: &Config) -> Result<[u64; 2], GemmError> {
    let swizzle = Swizzle::new(3, 3, 3).map_err(GemmError::Layout)?;
    let of = |rows: u32| {
        let rows = layout!((rows, 16) : (i64::from(BK), 1));
        let operand = ComposedLayout::new(swizzle, 0, rows).map_err(GemmError::Layout)?;
        MatrixDescriptor::of(&operand, 16)
            .map(MatrixDescriptor::bits)
            .map_err(GemmError::Descriptor)
    };
    Ok([of(64)?, of(config.bn)?])
}

/// The place in the ring, and the parity of its present round.
#[derive(Clone, Copy)]
struct Ring(u32);

impl Ring {
    fn next<'b>(
        self,
        k: &Body<'b, '_>,
        (stage, parity): (Val<'b, i32>, Val<'b, u32>),
    ) -> (Val<'b, i32>, Val<'b, u32>) {
        let next = stage + 1;
        let wraps = next.eq(self.0 as i32);
        (wraps.select(k.constant(0), next), wraps.select(parity ^ 1, parity))
    }
}

/// What all roles of the kernel share.
struct Gemm90<'b> {
    config: Config,
    a: Val<'b, TensorMap<bf16, 2>>,
    b: Val<'b, TensorMap<bf16, 2>>,
    c: Val<'b, TensorMapMut<bf16, 2>>,
    /// Row tiles (those of a cluster count as one), column tiles, blocks along K.
    extents: [Val<'b, i32>; 3],
    sa: Val<'b, Shared<bf16>>,
    sb: Val<'b, Shared<bf16>>,
    sc: Val<'b, Shared<bf16>>,
    barriers: Val<'b, Shared<u64>>,
    /// The thread in its warp group, and the block in its cluster.
    thread: Val<'b, i32>,
    rank: Val<'b, i32>,
    descriptors: [u64; 2],
}

/// Builds the kernel.
pub(crate) fn gemm(config: Config) -> Result<Kernel<Gemm>, GemmError> {
    let threads = GROUP as u32 * (1 + CONSUMERS);
    let mut options = KernelOptions::default().block([threads, 1, 1]).min_blocks_per_sm(1);
    if config.cluster > 1 {
        options = options.cluster([config.cluster, 1, 1]);
    }
    let descriptors = descriptors(&config)?;
    Kernel::<Gemm>::build_with(options, "gemm_sm90", Target::SM_90A, |k, params| {
        let (a, b, c, row_tiles, column_tiles, k_blocks) = params;
        let stages = config.stages as usize;
        let sa = k.shared_aligned::<bf16>(stages * (config.bm * BK) as usize, 1024);
        let sb = k.shared_aligned::<bf16>(stages * (config.bn * BK) as usize, 1024);
        let staged = CONSUMERS * config.slots() * 64 * config.columns();
        let sc = k.shared_aligned::<bf16>(staged as usize, 1024);
        let barriers = k.shared::<u64>(2 * stages);
        let t = k.thread_idx().x;
        let pairs = (row_tiles + (config.cluster as i32 - 1)) / config.cluster as i32;
        let rank = if config.cluster > 1 {
            k.block_idx().x % config.cluster as i32
        } else {
            k.constant(0)
        };
        let gemm = Gemm90 {
            config,
            a,
            b,
            c,
            extents: [pairs, column_tiles, k_blocks],
            sa,
            sb,
            sc,
            barriers,
            thread: t % GROUP,
            rank,
            descriptors,
        };
        if config.programmatic {
            k.griddepcontrol_launch_dependents();
        }
        k.if_(t.eq(0), |k| {
            for stage in 0..config.stages as i32 {
                gemm.full(k.constant(stage)).init(k, 1);
                gemm.empty(k.constant(stage)).init(k, CONSUMERS * config.cluster);
            }
            k.fence_mbarrier_init();
        });
        k.barrier();
        if config.cluster > 1 {
            k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Aligned);
        }
        if config.programmatic {
            k.griddepcontrol_wait();
        }
        let group = t / GROUP;
        k.if_else(
            group.eq(0),
            |k| {
                k.setmaxnreg(SetmaxnregAction::Dec, 40);
                k.if_(t.eq(0), |k| gemm.produce(k));
            },
            |k| {
                k.setmaxnreg(SetmaxnregAction::Inc, 232);
                gemm.consume(k, group - 1);
            },
        );
        if config.cluster > 1 {
            // The other block may still write here, or arrive at a barrier here.
            k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Unaligned);
        }
    })
    .map_err(GemmError::Build)
}

impl<'b> Gemm90<'b> {
    fn full(&self, stage: Val<'b, i32>) -> MbarrierRef<'b> {
        self.barriers.mbarrier(stage)
    }

    fn empty(&self, stage: Val<'b, i32>) -> MbarrierRef<'b> {
        self.barriers.mbarrier(stage + self.config.stages as i32)
    }

    /// The tiles of this block, in the order in which every role takes them: `body` gets the number of a tile and
    /// the ring.
    fn for_each_tile(
        &self,
        k: &mut Body<'b, '_>,
        ring: (Val<'b, i32>, Val<'b, u32>),
        body: impl for<'c> FnOnce(
            &mut Body<'c, 'b>,
            Val<'c, i32>,
            (Val<'c, i32>, Val<'c, u32>),
        ) -> (Val<'c, i32>, Val<'c, u32>),
    ) {
        k.for_(self.tiles(k), ring, body);
    }

    /// The numbers of the tiles of this block; those of a cluster count as one.
    fn tiles(&self, k: &Body<'b, '_>) -> Range<'b, i32> {
        let cluster = self.config.cluster as i32;
        let [rows, columns, _] = self.extents;
        let (first, step) = (k.block_idx().x / cluster, k.grid_dim().x / cluster);
        range(first, rows * columns).step(step)
    }

    /// The row and the column of a tile, in tiles.
    fn place(&self, tile: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let [rows, columns, _] = self.extents;
        let width = columns * self.config.strip;
        let strip = tile / width;
        let inside = tile - strip * width;
        let first_row = strip * self.config.strip;
        let rows = (rows - first_row).min(self.config.strip);
        let along = inside / rows;
        let row = first_row + (inside - along * rows);
        let column = (strip & 1).ne(0).select(columns - 1 - along, along);
        [row * self.config.cluster as i32 + self.rank, column]
    }

    /// Fills the ring.
    fn produce(&self, k: &mut Body<'b, '_>) {
        let Config { bm, bn, stages, cluster, .. } = self.config;
        // On new barriers the phase before the first one has ended: all places are empty.
        let start = (k.constant(0), k.constant(1));
        self.for_each_tile(k, start, |k, tile, ring| {
            let [row, column] = self.place(tile);
            let (row, column) = (row * bm as i32, column * bn as i32);
            k.for_(range(0, self.extents[2]), ring, |k, block, (stage, parity)| {
                let (full, depth) = (self.full(stage), block * BK as i32);
                self.empty(stage).wait_parity(k, parity);
                full.arrive_expect_tx(k, self.config.stage_bytes());
                let to = self.sa.offset(stage * (bm * BK) as i32);
                let policy = L2Policy::Default;
                self.a.cp_async_bulk_tensor_load(k, to, [depth, row], full, policy);
                let to = self.sb.offset(stage * (bn * BK) as i32);
                if cluster == 1 {
                    self.b.cp_async_bulk_tensor_load(k, to, [depth, column], full, policy);
                } else {
                    k.if_((block & 1).eq(self.rank), |k| {
                        let (b, both) = (self.b, (1 << cluster) - 1);
                        b.cp_async_bulk_tensor_multicast(
                            k,
                            to,
                            [depth, column],
                            full,
                            both,
                            policy,
                        );
                    });
                }
                Ring(stages).next(k, (stage, parity))
            })
        });
    }

    /// Multiplies, and writes the rows of warp group `group` of each tile.
    fn consume(&self, k: &mut Body<'b, '_>, group: Val<'b, i32>) {
        let blocks = self.config.row_blocks();
        let rows = group * (self.config.bm / CONSUMERS) as i32;
        let staged = (self.config.slots() * 64 * self.config.columns()) as i32;
        let store = Store::new(self, k, self.sc.offset(group * staged), group);
        let operands = self.operands(rows);
        let start = (k.constant(0), k.constant(0));
        if self.config.epilogue == Epilogue::Deferred {
            self.consume_deferred(k, &store, operands, rows);
        } else {
            self.for_each_tile(k, start, |k, tile, ring| {
                let sums = self.config.sums();
                let acc = k.registers::<f32>(blocks as usize * sums).named(k, "acc");
                let (stage, parity) = ring;
                let init = (stage, parity, k.constant(0));
                let (stage, parity, _) = k.do_while(init, |k, (stage, parity, block)| {
                    let more = block.gt(0);
                    self.multiply(k, &acc, operands, (stage, parity), more);
                    // The products of the block before are done: its place can be filled again.
                    k.wgmma_wait_group(1);
                    k.if_(self.thread.eq(0) & more, |k| self.release(k, stage));
                    let (stage, parity) = Ring(self.config.stages).next(k, (stage, parity));
                    let block = block + 1;
                    ((stage, parity, block), block.lt(self.extents[2]))
                });
                k.wgmma_wait_group(0);
                k.if_(self.thread.eq(0), |k| self.release(k, stage));
                let [row, column] = self.corner(tile, rows);
                for block in 0..blocks {
                    let acc = acc.part(block as usize * sums, sums);
                    store.all(k, &acc, [row + 64 * block as i32, column]);
                }
                (stage, parity)
            });
        }
        k.if_(self.thread.eq(0), |k| k.cp_async_bulk_wait_group(0, BulkWait::Read));
    }

    /// As `consume`: the rows of a tile, 64 of a warp group, are packed, and written in four parts under the first
    /// four blocks of the next one.
    fn consume_deferred(
        &self,
        k: &mut Body<'b, '_>,
        store: &Store<'b>,
        operands: [Val<'b, u32>; 2],
        rows: Val<'b, i32>,
    ) {
        const PARTS: i32 = 4;
        let words = self.config.sums() / 2;
        let packed = k.registers::<u32>(words).named(k, "packed");
        packed.fill(k, 0);
        let first = |number: i32| number as usize * words / PARTS as usize;
        let tiles = self.tiles(k);
        let start = (k.constant(0), k.constant(0), k.constant(-1));
        let (.., last) = k.for_(tiles, start, |k, tile, (stage, parity, before)| {
            let acc = k.registers::<f32>(self.config.sums()).named(k, "acc");
            let mut ring = (stage, parity);
            for number in 0..PARTS {
                self.multiply(k, &acc, operands, ring, k.constant(number > 0));
                k.if_(before.ge(0), |k| {
                    let [row, column] = self.corner(before, rows);
                    let words = packed.part(first(number), words / PARTS as usize);
                    store.chunk(
                        k,
                        |k, unit| two(k, &words, unit),
                        [row, column + 64 * number],
                        number as u32,
                    );
                });
                k.wgmma_wait_group(1);
                if number > 0 {
                    k.if_(self.thread.eq(0), |k| self.release(k, ring.0));
                }
                ring = Ring(self.config.stages).next(k, ring);
            }
            let (stage, parity) = k.for_(range(PARTS, self.extents[2]), ring, |k, _, ring| {
                self.multiply(k, &acc, operands, ring, k.constant(true));
                k.wgmma_wait_group(1);
                k.if_(self.thread.eq(0), |k| self.release(k, ring.0));
                Ring(self.config.stages).next(k, ring)
            });
            k.wgmma_wait_group(0);
            k.if_(self.thread.eq(0), |k| self.release(k, stage));
            for word in 0..words {
                packed.set(k, word, pack(k, &acc, 2 * word));
            }
            (stage, parity, tile)
        });
        k.if_(last.ge(0), |k| {
            let [row, column] = self.corner(last, rows);
            for number in 0..PARTS {
                let words = packed.part(first(number), words / PARTS as usize);
                store.chunk(
                    k,
                    |k, unit| two(k, &words, unit),
                    [row, column + 64 * number],
                    number as u32,
                );
            }
        });
    }

    /// The first row of a warp group and the first column of a tile.
    fn corner(&self, tile: Val<'b, i32>, rows: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        let [row, column] = self.place(tile);
        [row * self.config.bm as i32 + rows, column * self.config.bn as i32]
    }

    /// The lower halves of the descriptors of A, for the warp group whose rows start at `rows`, and B in the first
    /// stage. All distances change the lower half only.
    fn operands(&self, rows: Val<'b, i32>) -> [Val<'b, u32>; 2] {
        let [a_bits, b_bits] = self.descriptors;
        let a = self.sa.offset(rows * BK as i32).matrix_descriptor(a_bits);
        let b = self.sb.matrix_descriptor(b_bits);
        [a, b].map(|descriptor| descriptor.cvt::<u32>())
    }

    /// Waits for a stage, and starts `acc += A B^T` of it, or `acc = A B^T` where not `accumulate`.
    fn multiply(
        &self,
        k: &mut Body<'b, '_>,
        acc: &Registers<'b, f32>,
        [a, b]: [Val<'b, u32>; 2],
        (stage, parity): (Val<'b, i32>, Val<'b, u32>),
        accumulate: Val<'b, bool>,
    ) {
        let Config { bm, bn, .. } = self.config;
        let [a_bits, b_bits] = self.descriptors;
        let sums = self.config.sums();
        // Descriptors count in units of 16 bytes.
        let units = |elements: u32| elements * 2 / 16;
        self.full(stage).wait_parity(k, parity);
        let at = stage.cvt::<u32>();
        let (a, b) = (a + at * units(bm * BK), b + at * units(bn * BK));
        k.wgmma_fence();
        for step in 0..BK / 16 {
            for block in 0..self.config.row_blocks() {
                let a = descriptor(a + (units(block * 64 * BK) + units(step * 16)), a_bits);
                let b = descriptor(b + units(step * 16), b_bits);
                let acc = acc.part(block as usize * sums, sums);
                if step == 0 {
                    k.wgmma::<bf16, bf16, _>(&acc, a, b, accumulate);
                } else {
                    k.wgmma::<bf16, bf16, _>(&acc, a, b, true);
                }
            }
        }
        k.wgmma_commit_group();
    }

    /// The warp group has read the tiles of the stage before `stage`.
    fn release(&self, k: &Body<'b, '_>, stage: Val<'b, i32>) {
        let stage = stage.eq(0).select(self.config.stages as i32 - 1, stage - 1);
        let empty = self.empty(stage);
        match self.config.cluster {
            1 => {
                empty.arrive(k);
            }
            blocks => {
                for block in 0..blocks {
                    empty.arrive_cluster(k, block, RemoteArrival::Plain);
                }
            }
        }
    }
}

/// How a warp group writes its rows of C.
struct Store<'b> {
    config: Config,
    c: Val<'b, TensorMapMut<bf16, 2>>,
    to: Val<'b, Shared<bf16>>,
    /// The elements of the place that the lane gives to `stmatrix`, but for the columns, and the 8 columns that
    /// it starts with.
    row: Val<'b, i32>,
    unit: Val<'b, i32>,
    thread: Val<'b, i32>,
    barrier: Val<'b, u32>,
}

impl<'b> Store<'b> {
    fn new(
        gemm: &Gemm90<'b>,
        k: &Body<'b, '_>,
        to: Val<'b, Shared<bf16>>,
        group: Val<'b, i32>,
    ) -> Store<'b> {
        let Gemm90 { config, c, thread, .. } = *gemm;
        let lane = k.lane_id();
        // Lanes 0 to 15 have rows of the first 8 columns, the others of the next ones.
        let row = thread / 32 * 16 + lane % 16;
        let mut unit = lane / 16;
        if config.epilogue != Epilogue::Rows {
            // The swizzle of 128 bytes: the 8 columns are xored with the row.
            unit = unit ^ (row & 7);
        }
        let layout = Layout::row_major((64, config.columns()));
        let row = k.crd2idx::<i32>((row, 0), &layout);
        Store { config, c, to, row, unit, thread, barrier: (group + 1).cvt() }
    }

    /// Writes 64 rows of C, of which `sums` are the thread's.
    fn all(
        &self,
        k: &mut Body<'b, '_>,
        sums: &Registers<'b, f32>,
        [row, column]: [Val<'b, i32>; 2],
    ) {
        let (columns, width) = (self.config.columns(), self.config.bn);
        for chunk in 0..width / columns {
            let pairs = |k: &Body<'b, '_>, unit: u32| {
                let first = (chunk * columns / 2 + unit * 4) as usize;
                [first, first + 2].map(|at| pack(k, sums, at))
            };
            self.chunk(k, pairs, [row, column + (chunk * columns) as i32], chunk);
        }
    }

    /// Writes 64 rows of some columns; `pairs` has, of each 8 of them, the thread's two of its two rows.
    fn chunk(
        &self,
        k: &mut Body<'b, '_>,
        pairs: impl Fn(&Body<'b, '_>, u32) -> [Val<'b, u32>; 2],
        [row, column]: [Val<'b, i32>; 2],
        number: u32,
    ) {
        let (columns, slots) = (self.config.columns(), self.config.slots());
        let to = self.to.offset((number % slots * 64 * columns) as i32);
        let barrier = k.named_barrier(self.barrier, GROUP as u32).aligned();
        k.if_(self.thread.eq(0), |k| k.cp_async_bulk_wait_group(slots - 1, BulkWait::Read));
        barrier.sync(k);
        for first in (0..columns / 8).step_by(2) {
            let unit = if self.config.epilogue == Epilogue::Rows {
                self.unit + first as i32
            } else {
                self.unit ^ (first as i32)
            };
            let (at, [a, b]) = (self.row + unit * 8, pairs(k, first));
            if first + 1 < columns / 8 {
                let [c, d] = pairs(k, first + 1);
                let four: Val<'_, Vector<u32, 4>> = Val::pack([a, b, c, d]);
                to.stmatrix(k, at, four.bitcast::<Vector<bf16, 8>>());
            } else {
                let two: Val<'_, Vector<u32, 2>> = Val::pack([a, b]);
                to.stmatrix(k, at, two.bitcast::<Vector<bf16, 4>>());
            }
        }
        k.fence_proxy_async(ProxySpace::SharedCta);
        barrier.sync(k);
        k.if_(self.thread.eq(0), |k| {
            self.c.cp_async_bulk_tensor_store(k, [column, row], to, L2Policy::Default);
            k.cp_async_bulk_commit_group();
        });
    }
}

/// Two sums as `bf16` in a word.
fn pack<'b>(k: &Body<'b, '_>, sums: &Registers<'b, f32>, at: usize) -> Val<'b, u32> {
    let two: Val<'_, Vector<f32, 2>> = Val::pack([sums.get(k, at), sums.get(k, at + 1)]);
    two.cvt::<bf16>().bitcast::<u32>()
}

/// The descriptor with this lower half; the upper one has no part of the address.
fn descriptor(low: Val<'_, u32>, bits: u64) -> Val<'_, u64> {
    Val::pack([low, low.constant((bits >> 32) as u32)]).bitcast::<u64>()
}

/// The words of 8 columns of a thread's two rows.
fn two<'b>(k: &Body<'b, '_>, words: &Registers<'_, u32>, unit: u32) -> [Val<'b, u32>; 2] {
    [0, 1].map(|row| words.get(k, 2 * unit as usize + row))
}
