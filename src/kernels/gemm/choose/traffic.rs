//! Counts the bytes that a GEMM's tiles fetch from the L2 cache and from memory, for the cost
//! model. It is how raster orders and cluster shapes get their rank.

use crate::ir::types::Scalar;
use crate::tensor::pipeline::Raster;

use crate::kernels::gemm::choose::model::GemmModel;
use crate::kernels::gemm::config::methods::{LoadMethod, StoreMethod};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::{GemmConfig, L2_LINE_BYTES};

/// The bytes that one launch moves.
pub(crate) struct Traffic {
    /// Bytes read from the L2 cache for tiles.
    pub(crate) l2: f64,
    /// Bytes that all SMs receive. With clusters this is more, because multicast delivers a byte
    /// several times.
    pub(crate) received: f64,
    /// Bytes read from and written to memory.
    pub(crate) memory: f64,
    /// Bytes of D.
    pub(crate) written: f64,
}

impl GemmModel {
    /// Returns the waves with one block per SM, as a fraction: 1.5 is one full and one half-full
    /// wave.
    #[inline]
    pub(crate) fn waves(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let [rows, columns, _] = config.tiles(problem).map(f64::from);
        let parts = f64::from(problem.batch) * f64::from(config.splits.even());
        rows * columns * parts / f64::from(self.machine.sms)
    }

    /// Returns the effective memory bandwidth. A few SMs cannot saturate memory. If only a share
    /// `x` of the SMs works, in the last wave too, that wave takes the time of `x` to a power below
    /// 1.
    #[inline]
    pub(crate) fn memory_rate(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let waves = self.waves(config, problem);
        self.machine.memory_bytes_per_s * waves
            / (waves.floor() + waves.fract().powf(self.parameters.memory_root))
    }

    /// Returns the bytes that a block fetches from the L2 cache per step. Cluster blocks along M
    /// share B, those along N share A.
    #[inline]
    pub(crate) fn stage_l2_bytes(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let [a, b] = self.stage_operands(config, problem);
        let [along_m, along_n] = config.cluster.map(|blocks| f64::from(blocks.max(1)));
        a / along_n + b / along_m
    }

    /// Returns the bytes of A and of B per step. A tile row that is not aligned to L2 lines costs
    /// two.
    #[inline]
    pub(crate) fn stage_operands(&self, config: &GemmConfig, problem: &GemmProblem) -> [f64; 2] {
        let [m, n, k] = config.tile.map(f64::from);
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        let unaligned =
            1.0 + (self.parameters.unaligned - 1.0) * self.waves(config, problem).min(1.0);
        let strides = problem.strides(config).ok();
        let bytes = |scalar: Scalar, pitch: Option<u64>| {
            let size = u64::from(scalar.size_bytes());
            let aligned = pitch.is_none_or(|pitch| {
                let bytes = pitch * size;
                // The repacked copies are aligned.
                bytes.is_multiple_of(L2_LINE_BYTES.into())
                    || (config.load == LoadMethod::Repack && !bytes.is_multiple_of(16))
            });
            let lines = if aligned || !config.is_warp_specialised() { 1.0 } else { unaligned };
            k * size as f64 * lines
        };
        // Tile rows beyond the matrix are not free.
        let beyond = |tile: f64, tiles: u64, extent: u32| {
            (tile * tiles as f64 / f64::from(extent.max(1))).powf(self.parameters.beyond)
        };
        let a =
            m * bytes(config.a, strides.map(|strides| strides.a[0])) * beyond(m, rows, problem.m);
        let b = n
            * bytes(config.b, strides.map(|strides| strides.b[0]))
            * beyond(n, columns, problem.n);
        [a, b]
    }

    /// Returns the bytes that a launch moves.
    #[inline]
    pub(crate) fn traffic(&self, config: &GemmConfig, problem: &GemmProblem) -> Traffic {
        let p = &self.parameters;
        let [rows, columns, steps] = config.tiles(problem).map(f64::from);
        let [m, n, k] = [problem.m, problem.n, problem.k].map(f64::from);
        let batch = f64::from(problem.batch);
        let (size, out) = (f64::from(config.a.size_bytes()), f64::from(config.d.size_bytes()));
        let (a, b, d) = (
            m * k * size,
            n * k * size,
            m * n * out / f64::from(config.accumulators_per_element()),
        );
        let stages = rows * columns * steps * batch;
        let kept = self.machine.l2_bytes * p.kept_share;
        let read = if a + b <= kept {
            a + b
        } else {
            // A wave's tiles form a block of `high` x `wide` tiles; the raster order determines
            // `high`.
            let tiles = f64::from(self.machine.sms).min(rows * columns);
            let high = match config.raster {
                Raster::Swizzle { width } => f64::from(width * config.cluster[0]),
                Raster::SwizzleAlongM { width } => tiles / f64::from(width.max(1)),
                Raster::Hilbert => tiles.sqrt(),
                Raster::AlongM => rows,
                Raster::AlongN => 1.0,
            };
            let high = high.clamp(1.0, rows);
            let wide = (tiles / high).clamp(1.0, columns);
            let (passes_b, passes_a) = ((rows / high).ceil(), (columns / wide).ceil());
            // The panel of A that a wave reads stays in the cache if it fits beside the streamed
            // data.
            let panel = high / rows * a;
            let passes_a = if panel <= kept {
                1.0 + (passes_a - 1.0) * (panel / kept).powi(3)
            } else {
                passes_a
            };
            let passes_b = if b <= kept { 1.0 } else { passes_b };
            a * passes_a + b * passes_b
        };
        // If parts of D's rows share a memory sector, it is written twice, and read once.
        let sector = |elements: u64| {
            (elements * u64::from(config.d.size_bytes())).is_multiple_of(SECTOR_BYTES)
        };
        let [_, width] = config.tile_of_d();
        let width =
            if config.store == StoreMethod::Chunks { config.store_columns() } else { width };
        let stored =
            (n / f64::from(config.accumulators_per_element()) / f64::from(width.max(1))).ceil();
        let pitch = problem.strides(config).map_or(1, |strides| strides.d[0]);
        let is_torn = [pitch, u64::from(width)].map(|elements| !sector(elements));
        let of_line = match is_torn {
            [false, false] => 0.0,
            [false, true] => p.torn_bytes,
            [true, _] => p.shifted_bytes,
        };
        let torn = m * (stored - 1.0).max(0.0) * of_line;
        let read = match config.load {
            LoadMethod::Threads => read * lines_of(config),
            LoadMethod::Tensor | LoadMethod::Repack => read,
        };
        Traffic {
            l2: stages * self.stage_l2_bytes(config, problem),
            received: stages * self.stage_operands(config, problem).iter().sum::<f64>(),
            memory: (read + p.write_share * d + torn) * batch,
            written: d * batch,
        }
    }
}

/// Returns how many bytes threads fetch per byte of a tile row, because rows start and end inside
/// sectors.
pub(crate) fn lines_of(config: &GemmConfig) -> f64 {
    let row = config.tile[2] * config.a.size_bytes();
    1.0 + SECTOR_BYTES as f64 / f64::from(row)
}

/// Bytes per sector, the unit of memory reads and writes.
const SECTOR_BYTES: u64 = 32;
