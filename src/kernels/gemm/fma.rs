//! The kernel without tensor cores, for every target: sums of `f32` by `fma`, in the order of K.
//!
//! A thread has 8 x 8 sums: two times 4 rows and two times 4 columns, half a tile apart, which it reads from shared
//! memory in vectors. Tiles of A and B are there as `f32`, one line for each step along K; elements of the next tile
//! wait in registers.

use crate::codegen::Major;
use crate::ir::{
    Body, DeviceCoord, Element, Global, Kernel, KernelOptions, Number, Registers, Shared, Val,
    Vector, range,
};
use crate::tensor::TileScheduler;

use super::config::GemmConfig;
use super::direct_store::DirectStore;
use super::epilogue::EpilogueOps;
use super::error::GemmError;
use super::threads::{Params, after, count, matrix};

/// Elements between the ends of two lines in shared memory, so that vectors stay aligned and neighbours meet other banks.
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
    let options = KernelOptions::default().block([threads, 1, 1]);
    let name = config.to_string();
    Ok(Kernel::build_with(options, &name, config.target, |k, (a, b, d, sizes, epilogue)| {
        let [rows, columns, depths, batch] = sizes;
        let extents = [count(rows, m), count(columns, n), batch];
        let block = k.block_idx().x;
        let tile = TileScheduler::new(k, config.raster, extents).tile(k, block);
        let (row, column) = (tile.row * m as i32, tile.column * n as i32);
        let side = |extent| Side { extent, depth, threads };
        let (side_a, side_b) = (side(m), side(n));
        let sa = k.shared_aligned::<f32>((stages * side_a.elements()) as usize, 16);
        let sb = k.shared_aligned::<f32>((stages * side_b.elements()) as usize, 16);
        let from_a = side_a.source(k, matrix(a, tile), config.major_a, row, [rows, depths]);
        let from_b = side_b.source(k, matrix(b, tile), config.major_b, column, [columns, depths]);
        let ahead_a = k.registers::<f32>(side_a.copies());
        let ahead_b = k.registers::<f32>(side_b.copies());
        let sums = k.registers::<f32>(64).named(k, "sums");
        sums.fill(k, 0.0);
        let thread = k.thread_idx().x.cvt::<u32>();
        // A warp is 8 threads wide: of what its lanes read, few bytes differ.
        let wide = 8.min(n / 8);
        let (lane, warp) = (thread % 32, thread / 32);
        let across = lane % wide + warp % (n / 8 / wide) * wide;
        let down = lane / wide + warp / (n / 8 / wide) * (32 / wide);
        let [across, down] = [across, down].map(|i| (i * RUN).cvt::<i32>());
        let first = k.constant(0);
        from_a.load(k, &ahead_a, first);
        from_b.load(k, &ahead_b, first);
        from_a.store(k, &ahead_a, sa);
        from_b.store(k, &ahead_b, sb);
        k.barrier();
        let start = (first, after(first, stages));
        k.for_(range(0, count(depths, depth)), start, |k, step, (read, write)| {
            let next = (step + 1) * depth as i32;
            from_a.load(k, &ahead_a, next);
            from_b.load(k, &ahead_b, next);
            let a = sa.offset(read * side_a.elements() as i32 + down);
            let b = sb.offset(read * side_b.elements() as i32 + across);
            for step in 0..depth {
                multiply(k, &sums, side_a.line(k, a, step), side_b.line(k, b, step));
            }
            if stages == 1 {
                k.barrier();
            }
            from_a.store(k, &ahead_a, sa.offset(write * side_a.elements() as i32));
            from_b.store(k, &ahead_b, sb.offset(write * side_b.elements() as i32));
            k.barrier();
            (write, after(write, stages))
        });
        let run = |i: i32, extent: u32| i % RUN as i32 + i / RUN as i32 * (extent / 2) as i32;
        let places: Vec<[i32; 2]> = (0..64).map(|i| [run(i / 8, m), run(i % 8, n)]).collect();
        let store = DirectStore::new(d, tile, [row, column], [rows, columns]);
        let epilogue = EpilogueOps::new(config.epilogue, epilogue);
        store.all(k, &sums, &DeviceCoord::from((down, across)), &places, &epilogue);
    })?)
}

/// `sums += x yᵀ`.
fn multiply<'b>(
    k: &Body<'b, '_>,
    sums: &Registers<'_, f32>,
    x: [Val<'b, f32>; 8],
    y: [Val<'b, f32>; 8],
) {
    for (i, x) in x.into_iter().enumerate() {
        for (j, y) in y.into_iter().enumerate() {
            let at = 8 * i + j;
            sums.set(k, at, x.fma(y, sums.get(k, at)));
        }
    }
}

/// A tile of A or B: rows or columns, and steps along K.
#[derive(Clone, Copy)]
struct Side {
    extent: u32,
    depth: u32,
    threads: u32,
}

impl Side {
    /// Elements of shared memory of a stage.
    fn elements(self) -> u32 {
        self.depth * (self.extent + PAD)
    }

    /// Elements that a thread copies.
    fn copies(self) -> usize {
        (self.extent * self.depth / self.threads) as usize
    }

    /// The elements of a thread in one step.
    fn line<'b>(
        self,
        k: &Body<'b, '_>,
        from: Val<'b, Shared<f32>>,
        step: u32,
    ) -> [Val<'b, f32>; 8] {
        let line = (step * (self.extent + PAD)) as i32;
        let [near, far] = [line, line + (self.extent / 2) as i32].map(|at| {
            let four: Val<'b, Vector<f32, 4>> = from.load_vector(k, at);
            four.lanes()
        });
        let [a, b, c, d] = near;
        let [e, f, g, h] = far;
        [a, b, c, d, e, f, g, h]
    }

    /// What a thread copies of the tiles at `first` of a matrix: neighbours in memory by neighbours.
    fn source<'b, T: Element>(
        self,
        k: &Body<'b, '_>,
        (from, pitch): (Val<'b, Global<T>>, Val<'b, i64>),
        major: Major,
        first: Val<'b, i32>,
        limits: [Val<'b, i32>; 2],
    ) -> Source<'b, T> {
        let Side { extent, depth, threads } = self;
        let t = k.thread_idx().x.cvt::<u32>();
        let fast = if major == Major::K { depth } else { extent };
        // The places of a thread, (row or column, step along K), are its first one and these further.
        let mut steps = Vec::new();
        for i in 0..self.copies() as u32 {
            let (slow, fast) = (i * threads / fast, i * threads % fast);
            steps.push(
                if major == Major::K { [slow, fast] } else { [fast, slow] }.map(|x| x as i32),
            );
        }
        let (slow, fast) = ((t / fast).cvt::<i32>(), (t % fast).cvt::<i32>());
        let (line, step) = if major == Major::K { (slow, fast) } else { (fast, slow) };
        Source { side: self, from, pitch, major, place: [first + line, step], line, limits, steps }
    }
}

/// What a thread copies of a tile.
struct Source<'b, T> {
    side: Side,
    from: Val<'b, Global<T>>,
    pitch: Val<'b, i64>,
    major: Major,
    /// The first element: row or column of the matrix, and step along K of the tile.
    place: [Val<'b, i32>; 2],
    /// The row or column in the tile.
    line: Val<'b, i32>,
    limits: [Val<'b, i32>; 2],
    steps: Vec<[i32; 2]>,
}

impl<'b, T: Element> Source<'b, T> {
    /// Loads the elements of the tile at `depth` along K; what is outside of the matrix is 0.
    fn load(&self, k: &mut Body<'b, '_>, to: &Registers<'b, f32>, depth: Val<'b, i32>) {
        let [line, step] = self.place;
        let step = step + depth;
        let (across, along) = if self.major == Major::K { (line, step) } else { (step, line) };
        let from = self.from.offset(across.cvt::<i64>() * self.pitch + along.cvt::<i64>());
        for (i, [down, right]) in self.steps.iter().copied().enumerate() {
            let inside = (line + down).lt(self.limits[0]) & (step + right).lt(self.limits[1]);
            let (across, along) =
                if self.major == Major::K { (down, right) } else { (right, down) };
            let at = self.pitch * i64::from(across) + i64::from(along);
            let element = k.if_with(inside, T::default(), |k| from.load(k, at));
            to.set(k, i, element.cvt::<f32>());
        }
    }

    /// Writes them to a tile in shared memory.
    fn store(&self, k: &Body<'b, '_>, from: &Registers<'b, f32>, to: Val<'b, Shared<f32>>) {
        let pitch = (self.side.extent + PAD) as i32;
        let to = to.offset(self.place[1] * pitch + self.line);
        for (i, [down, right]) in self.steps.iter().enumerate() {
            to.store(k, right * pitch + down, from.get(k, i));
        }
    }
}
