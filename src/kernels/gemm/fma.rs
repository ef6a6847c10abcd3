//! The kernel without tensor cores, for every target: sums of `f32` by `fma`, in the order of K.
//!
//! Tiles of A and B are in a ring in shared memory as `f32`, one line for each step along K. Elements of 32 bits come
//! there by `cp.async`, one by one, so that tiles that are contiguous along K are transposed on the way; those of 16
//! bits wait in registers until they are converted. A thread has runs of 4 rows and of 4 columns, far from each other in
//! the tile, and reads them in vectors, one step ahead of the products.
//!
//! What is left of K by whole tiles comes first: the first tile starts before the matrix, with zeros, so that no other
//! one ends within it.

use crate::codegen::Major;
use crate::ir::{
    Body, CpAsyncCache, DeviceCoord, Element, Global, Kernel, KernelOptions, Number, Registers,
    Scalar, Shared, Val, Var, Vector, range,
};
use crate::tensor::TileScheduler;

use super::config::GemmConfig;
use super::direct_store::DirectStore;
use super::epilogue::EpilogueOps;
use super::error::GemmError;
use super::sm80::{Params, count, matrix};

/// Elements between the ends of two lines in shared memory: vectors stay aligned, and 8 steps of 4 rows, which a warp
/// writes at a time where the matrix is contiguous along K, are in 32 banks.
const PAD: u32 = 4;
/// Rows and columns of a thread that follow each other.
const RUN: u32 = 4;

/// Builds the kernel.
pub(super) fn build<A, B, C, D>(
    config: &GemmConfig,
) -> Result<Kernel<Params<A, B, C, D>>, GemmError>
where
    A: Element,
    B: Element,
    C: Number,
    D: Number,
{
    let GemmConfig { tile: [m, n, depth], stages, .. } = *config;
    let threads = config.threads();
    let [high, wide] = config.thread_tile();
    let options = KernelOptions::default()
        .block([threads, 1, 1])
        .min_blocks_per_sm(config.resident_blocks());
    let name = config.to_string();
    Ok(Kernel::build_with(options, &name, config.target, |k, (a, b, d, sizes, epilogue)| {
        let [rows, columns, depths, batch] = sizes;
        let extents = [count(rows, m), count(columns, n), batch];
        let block = k.block_idx().x;
        let tile = TileScheduler::new(k, config.raster, extents).tile(k, block);
        let (row, column) = (tile.row * m as i32, tile.column * n as i32);
        let steps = count(depths, depth);
        let missing = steps * depth as i32 - depths;
        let side = |extent, run, major| Side { extent, run, depth, threads, major };
        let (side_a, side_b) = (side(m, high, config.major_a), side(n, wide, config.major_b));
        // A stage is a tile of A, then one of B.
        let elements = side_a.elements() + side_b.elements();
        let sa = k.shared_aligned::<f32>((stages * elements) as usize, 16);
        let sb = sa.offset(side_a.elements() as i32);
        let from_a = side_a.source(k, matrix(a, tile), [row, rows], missing, sa);
        let from_b = side_b.source(k, matrix(b, tile), [column, columns], missing, sb);
        let sums = k.registers::<f32>((high * wide) as usize).named(k, "sums");
        sums.fill(k, 0.0);
        let [down, across] = place(k, config).map(|i| (i * RUN).cvt::<i32>());
        let (read_a, read_b) = (sa.offset(down), sb.offset(across));
        // The operands of two steps.
        let operands =
            [0, 1].map(|_| (k.registers(high as usize), k.registers(wide as usize)));
        let load = |k: &Body<'_, '_>, stage: Val<'_, i32>, step: u32| {
            let (x, y) = &operands[step as usize % 2];
            side_a.line(k, read_a, stage, step % depth, x);
            side_b.line(k, read_b, stage, step % depth, y);
        };
        for stage in 0..stages as i32 - 1 {
            let (more, to) = (steps.gt(stage), k.constant(stage * elements as i32));
            let first = (stage == 0).then_some(missing);
            from_a.start(k, to, more, first);
            from_b.start(k, to, more, first);
            from_a.finish(k, to);
            from_b.finish(k, to);
            k.cp_async_commit_group();
        }
        k.cp_async_wait_group(stages - 2);
        k.barrier();
        load(k, k.constant(0), 0);
        let last = ((stages - 1) * elements) as i32;
        let start = (k.constant(0), k.constant(last));
        k.for_(range(0, steps), start, |k, step, (read, write)| {
            let more = (step + (stages as i32 - 1)).lt(steps);
            let next = after(read, elements, stages);
            for step in 0..depth {
                if step + 1 == depth {
                    from_a.finish(k, write);
                    from_b.finish(k, write);
                    k.cp_async_wait_group(stages - 2);
                    k.barrier();
                    load(k, next, depth);
                } else {
                    load(k, read, step + 1);
                }
                let half = config.registers.is_some_and(|r| r[0] / 100 % 2 == 1);
                if step == 0 {
                    from_a.start(k, write, more, None);
                }
                if step == if half { depth / 2 - 1 } else { 0 } {
                    from_b.start(k, write, more, None);
                    k.cp_async_commit_group();
                }
                let (x, y) = &operands[step as usize % 2];
                multiply(k, &sums, x, y);
            }
            (next, after(write, elements, stages))
        });
        let far = |i: u32, run: u32, extent: u32| i % RUN + i / RUN * (extent / (run / RUN));
        let places: Vec<[i32; 2]> = (0..high * wide)
            .map(|i| [far(i / wide, high, m), far(i % wide, wide, n)].map(|i| i as i32))
            .collect();
        let store = DirectStore::new(d, tile, [row, column], [rows, columns]);
        let epilogue = EpilogueOps::new(config.epilogue, epilogue);
        store.all(k, &sums, &DeviceCoord::from((down, across)), &places, &epilogue);
    })?)
}

/// The stage after the one at `place`.
fn after(place: Val<'_, i32>, elements: u32, stages: u32) -> Val<'_, i32> {
    place.eq(((stages - 1) * elements) as i32).select(0, place + elements as i32)
}

/// Which of the threads of the tile the thread is: from above and from the left.
///
/// Lanes whose numbers differ in bit 0 alone are below each other, those that differ in bit 1 alone beside each other (or
/// the other way round): so that of what a vector of each lane reads there are two halves of a warp with 64 or 128
/// bytes each.
fn place<'b>(k: &Body<'b, '_>, config: &GemmConfig) -> [Val<'b, u32>; 2] {
    let [_, n, _] = config.tile;
    let [high, wide] = config.thread_tile();
    let thread = k.thread_idx().x.cvt::<u32>();
    let (lane, warp) = (thread % 32, thread / 32);
    let (four, eight) = (lane % 2 + lane / 16 * 2, lane / 2 % 8);
    let threads = n / wide;
    // A warp is 8 x 4 or 4 x 8 threads, whichever is nearer to a square of elements.
    let is_wide = threads >= 8 && ((wide <= high) != config.registers.is_some_and(|r| r[0] / 200 % 2 == 1));
    let (lanes, [down, across]) =
        if is_wide { ([4, 8], [four, eight]) } else { ([8, 4], [eight, four]) };
    let warps = threads / lanes[1];
    [down + warp / warps * lanes[0], across + warp % warps * lanes[1]]
}

/// `sums += x yᵀ`, line by line and back, so that neighbours share operands.
fn multiply(
    k: &Body<'_, '_>,
    sums: &Registers<'_, f32>,
    x: &Registers<'_, f32>,
    y: &Registers<'_, f32>,
) {
    let wide = y.len();
    for i in 0..x.len() {
        for j in 0..wide {
            let j = if i % 2 == 0 { j } else { wide - 1 - j };
            let at = wide * i + j;
            sums.set(k, at, x.get(k, i).fma(y.get(k, j), sums.get(k, at)));
        }
    }
}

/// A tile of A or B.
#[derive(Clone, Copy)]
struct Side {
    /// Rows or columns of the tile, and of a thread.
    extent: u32,
    run: u32,
    depth: u32,
    threads: u32,
    major: Major,
}

impl Side {
    /// Elements between two lines in shared memory.
    fn pitch(self) -> u32 {
        self.extent + PAD
    }

    /// Elements of shared memory of a stage.
    fn elements(self) -> u32 {
        self.depth * self.pitch()
    }

    /// How many threads beside each other copy elements that follow each other in the matrix: along K as many as there
    /// are banks for their lines, along the other mode a warp, or more where there are not enough steps.
    fn beside(self) -> u32 {
        match self.major {
            Major::K => self.depth.min(8),
            Major::Mn => (self.threads / self.depth).max(32).min(self.extent),
        }
    }

    /// Extents of the tile as it is in the matrix: lines, and along them.
    fn lines(self) -> [u32; 2] {
        match self.major {
            Major::K => [self.extent, self.depth],
            Major::Mn => [self.depth, self.extent],
        }
    }

    /// The lines of which a thread copies elements, from its first one.
    fn steps(self) -> Vec<i32> {
        let lines = self.lines()[0];
        (0..lines).step_by((self.threads / self.beside()) as usize).map(|i| i as i32).collect()
    }

    /// Those elements of a line, from the first one.
    fn along(self) -> Vec<i32> {
        (0..self.lines()[1]).step_by(self.beside() as usize).map(|i| i as i32).collect()
    }

    /// Line and element as row or column and step along K.
    fn place(self, [line, along]: [i32; 2]) -> [i32; 2] {
        if self.major == Major::K { [line, along] } else { [along, line] }
    }

    /// What a thread reads of line `step` of a stage, from its first element of the ring.
    fn line(
        self,
        k: &Body<'_, '_>,
        from: Val<'_, Shared<f32>>,
        stage: Val<'_, i32>,
        step: u32,
        to: &Registers<'_, f32>,
    ) {
        let from = from.offset(stage);
        let runs = self.run / RUN;
        for run in 0..runs {
            let at = step * self.pitch() + run * (self.extent / runs);
            let four: Val<'_, Vector<f32, 4>> = from.load_vector(k, at as i32);
            for (i, x) in four.lanes().into_iter().enumerate() {
                to.set(k, (run * RUN) as usize + i, x);
            }
        }
    }

    /// What a thread copies of the tiles from row or column `first` on of a matrix with `limit` of these, to the ring at
    /// `to`. The first tile starts `missing` steps before the matrix.
    fn source<'b, T: Element>(
        self,
        k: &Body<'b, '_>,
        (from, pitch): (Val<'b, Global<T>>, Val<'b, i64>),
        [first, limit]: [Val<'b, i32>; 2],
        missing: Val<'b, i32>,
        to: Val<'b, Shared<f32>>,
    ) -> Source<'b, T> {
        let thread = k.thread_idx().x.cvt::<u32>();
        let beside = self.beside();
        let (line, along) = ((thread / beside).cvt::<i32>(), (thread % beside).cvt::<i32>());
        let shared = self.pitch() as i32;
        let (place, from, to) = match self.major {
            Major::K => {
                let row = first + line;
                let from = from.offset(row.cvt::<i64>() * pitch + (along - missing).cvt::<i64>());
                ([row, along], from, to.offset(along * shared + line))
            }
            Major::Mn => {
                let row = first + along;
                let from = from.offset((line - missing).cvt::<i64>() * pitch + row.cvt::<i64>());
                ([row, line], from, to.offset(line * shared + along))
            }
        };
        let size = i64::from(T::SCALAR.size_bytes());
        let stride = pitch * (i64::from(self.threads / beside) * size);
        let next = match self.major {
            Major::K => k.constant(i64::from(self.depth) * size),
            Major::Mn => pitch * (i64::from(self.depth) * size),
        };
        let from = k.var(from.ptr_cast::<u8>());
        // Elements of other sizes are converted on the way.
        let copies = self.steps().len() * self.along().len();
        let ahead = (T::SCALAR != Scalar::F32).then(|| k.registers(copies));
        let [row, step] = place;
        Source { ty: std::marker::PhantomData, side: self, from, stride, next, left: limit - row, step, to, ahead }
    }
}

/// What a thread copies of the tiles along K.
struct Source<'b, T> {
    ty: std::marker::PhantomData<fn() -> T>,
    side: Side,
    /// Its first element of the next tile.
    from: Var<'b, Global<u8>>,
    /// Bytes between its lines, and between tiles.
    stride: Val<'b, i64>,
    next: Val<'b, i64>,
    /// How many rows or columns there are from the first one on, and the step along K of this one in the tile.
    left: Val<'b, i32>,
    step: Val<'b, i32>,
    /// Its place in the ring.
    to: Val<'b, Shared<f32>>,
    /// Where elements wait that do not go to shared memory by themselves.
    ahead: Option<Registers<'b, f32>>,
}

impl<'b, T: Element> Source<'b, T> {
    /// Starts the copies of the next tile to a stage. What is outside of the matrix becomes 0, which is all of the
    /// tile where it is not one of them (`exists`); of the first tile also the steps before `missing`.
    fn start(
        &self,
        k: &mut Body<'b, '_>,
        stage: Val<'b, i32>,
        exists: Val<'b, bool>,
        missing: Option<Val<'b, i32>>,
    ) {
        let side = self.side;
        let left = exists.select(self.left, k.constant(0));
        let to = self.to.offset(stage);
        let along = side.along();
        let mut at = self.from.get(k);
        for (i, line) in side.steps().into_iter().enumerate() {
            if i > 0 {
                at = at.offset(self.stride);
            }
            let from = at.ptr_cast::<T>();
            for (j, &along) in along.iter().enumerate() {
                let [down, right] = side.place([line, along]);
                let inside = left.gt(down);
                let inside = match missing {
                    Some(missing) => inside & (self.step + right).ge(missing),
                    None => inside,
                };
                if let Some(ahead) = &self.ahead {
                    let element = k.if_with(inside, T::default(), |k| from.load(k, along));
                    ahead.set(k, i * along_len(side) + j, element.cvt::<f32>());
                } else {
                    let bytes = inside.select(k.constant(4), k.constant(0));
                    let to = to.offset(right * side.pitch() as i32 + down);
                    let from = from.offset(along).ptr_cast::<f32>();
                    k.cp_async_zfill(to, from, CpAsyncCache::Ca, 4, bytes);
                }
            }
        }
        self.from.set(k, self.from.get(k).offset(self.next));
    }

    /// Writes the elements that wait to a stage.
    fn finish(&self, k: &Body<'_, '_>, stage: Val<'_, i32>) {
        let Some(ahead) = &self.ahead else { return };
        let side = self.side;
        let to = self.to.offset(stage);
        let mut i = 0;
        for line in side.steps() {
            for along in side.along() {
                let [down, right] = side.place([line, along]);
                to.store(k, right * side.pitch() as i32 + down, ahead.get(k, i));
                i += 1;
            }
        }
    }
}
fn along_len(side: Side) -> usize { side.along().len() }
