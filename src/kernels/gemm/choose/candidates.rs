//! Configurations for a problem, where nothing has been measured.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::Raster;

use crate::kernels::gemm::choose::explain::Explanation;
use crate::kernels::gemm::choose::machine::Machine;
use crate::kernels::gemm::choose::model::GemmModel;
use crate::kernels::gemm::choose::prediction::Prediction;
use crate::kernels::gemm::choose::regime::Regime;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::forms::{LoadForm, Schedule, StoreForm};
use crate::kernels::gemm::config::problem::{GemmProblem, STORE_BYTES};
use crate::kernels::gemm::config::{GemmConfig, L2_LINE_BYTES};
use crate::kernels::gemm::split::parts::Splits;

/// The maximum number of configurations that are returned: as many as anyone measures.
const MAX: usize = 12;
/// The maximum number of plans that are kept.
const KNOWN: usize = 4096;
/// The maximum number of stages: beyond, tiles come no sooner.
const STAGES: u32 = 12;

/// Bytes of a stage at which threads that fetch it spill registers.
const FETCHED: u32 = 25 << 10;
/// The maximum number of accumulators of a thread that sums parts alone in its block and spills none.
const PARTS: u32 = 116;

/// Tiles of the kernel without tensor cores, and the maximum number of stages. Where few warps share an SM, a long step
/// along K waits for its instructions.
const SIMT: [([u32; 3], u32); 7] = [
    ([128, 256, 32], 3),
    ([128, 128, 32], 3),
    ([128, 64, 16], 3),
    ([64, 64, 16], 4),
    // The fewest products beside the loads of B, for few rows.
    ([32, 256, 16], 4),
    ([16, 256, 16], 4),
    // For at most 4 rows: long rows of B, one after the other.
    ([4, 256, 32], 3),
];

/// The clusters.
const CLUSTERS: [[u32; 2]; 6] = [[1, 1], [2, 1], [4, 1], [1, 2], [1, 4], [2, 2]];

/// Tiles of the multistage kernel.
const SM80: [[u32; 2]; 7] =
    [[128, 256], [128, 128], [64, 128], [64, 64], [64, 32], [32, 64], [32, 32]];

impl GemmConfig {
    /// The configurations for a problem, on a machine, with the target, the types, the
    /// contiguous modes and the epilogue of this one: the fastest first, as [`GemmModel`] predicts, at most 12. All of them
    /// have a kernel that takes the problem: where tensor copies cannot, one whose threads copy, down to element by
    /// element.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, LoadForm, Machine};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let best = |m, n, k| wanted.defaults(&GemmProblem::new(m, n, k), &Machine::H200).swap_remove(0);
    /// assert_eq!(best(8192, 8192, 8192).tile, [256, 200, 64]);
    /// assert_eq!(best(4096, 4096, 4096).tile, [128, 256, 64]);
    /// assert_eq!(best(1024, 1024, 1024).tile, [64, 128, 64]);
    /// // Without tensor cores.
    /// let simt = GemmConfig::simt(Target::SM_90A, Scalar::F32);
    /// let of = |size| simt.defaults(&GemmProblem::new(size, size, size), &Machine::H200).swap_remove(0).tile;
    /// assert_eq!([4096, 2048, 1024].map(of), [[128, 256, 32], [128, 128, 32], [128, 64, 16]]);
    /// // Rows of 4001 elements of 16 bits are no multiples of 16 bytes: they are copied first.
    /// assert_eq!(best(4096, 4096, 4001).load, LoadForm::Repack);
    /// ```
    #[inline]
    pub fn defaults(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        self.plan(problem, machine).iter().map(|(config, _)| *config).collect()
    }

    /// The [`defaults`](GemmConfig::defaults) with the predicted times, from a table where they have been asked for.
    #[inline]
    fn plan(&self, problem: &GemmProblem, machine: &Machine) -> Arc<Plans> {
        let key =
            (self.wanted(GemmConfig::base(self.target, self.a, [0; 3])), *problem, machine.bits());
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.get(&key) {
            return known.clone();
        }
        let plans: Arc<Plans> = self.planned(problem, machine).into();
        // Programs use few sizes; of endless ones, the table starts anew.
        if table.len() >= KNOWN {
            table.clear();
        }
        table.insert(key, plans.clone());
        plans
    }

    #[inline]
    fn planned(&self, problem: &GemmProblem, machine: &Machine) -> Vec<(GemmConfig, Prediction)> {
        let model = GemmModel::of(Machine { sms: machine.sms.max(1), ..*machine });
        let regime = regime_of(problem);
        let first = |configs: &[GemmConfig]| -> Vec<(GemmConfig, Prediction)> {
            let ranked = model.rank(configs, problem, regime).into_iter();
            let fits = |config: &GemmConfig| {
                config.check().is_ok() && config.check_problem(problem).is_ok()
            };
            ranked.filter(|(config, _)| fits(config)).take(MAX).collect()
        };
        let mut all = self.candidates(problem, machine);
        if all.first().is_some_and(|config| config.load != LoadForm::Tensor) {
            // Small products are sooner done without copies.
            all.extend(self.of_threads(problem, machine));
        }
        let found = first(&all);
        if found.is_empty() { first(&self.of_threads(problem, machine)) } else { found }
    }

    /// Says why [`best`](GemmConfig::best) chooses its configuration.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, LoadForm, Machine};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let problem = GemmProblem::new(4096, 4096, 4001);
    /// let why = wanted.explain(&problem, &Machine::H200)?;
    /// assert_eq!(why.config, wanted.best(&problem, &Machine::H200)?);
    /// // Rows of 4001 elements are copied before the product.
    /// assert!(why.config.load == LoadForm::Repack && why.prediction.copies_s > 0.0);
    /// assert!(why.to_string().contains("copies of A and B"));
    /// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`best`](GemmConfig::best).
    #[inline]
    pub fn explain(
        &self,
        problem: &GemmProblem,
        machine: &Machine,
    ) -> Result<Explanation, GemmError> {
        let plans = self.plan(problem, machine);
        let mut plans = plans.iter().copied();
        let (config, prediction) = plans.next().ok_or_else(|| self.no_config(problem))?;
        let tiles = config.tiles(problem);
        Ok(Explanation { config, prediction, tiles, sms: machine.sms, others: plans.collect() })
    }

    /// The first of the [`defaults`](GemmConfig::defaults).
    ///
    /// # Errors
    /// Those of [`GemmProblem::strides`], where no configuration takes the problem; [`GemmError::NoConfig`]: there are no
    /// such types, or each configuration refuses the problem.
    #[inline]
    pub fn best(&self, problem: &GemmProblem, machine: &Machine) -> Result<GemmConfig, GemmError> {
        let first = self.plan(problem, machine).first().map(|(config, _)| *config);
        first.ok_or_else(|| self.no_config(problem))
    }

    /// The reason why no configuration takes a problem.
    #[inline]
    fn no_config(&self, problem: &GemmProblem) -> GemmError {
        if let Err(error) = problem.strides(self) {
            return error;
        }
        // The schedules that every target has.
        let tried = match self.a {
            Scalar::F32 => self.wanted(GemmConfig::simt(self.target, self.a)),
            Scalar::F64 => self.wanted(GemmConfig::sm80(self.target, self.a, SM80[3])),
            _ => self.wanted(GemmConfig::sm80(self.target, self.a, SM80[0])),
        };
        let last = tried.check().and_then(|()| tried.check_problem(problem).map(|_| ()));
        GemmError::NoConfig { last: last.err().map(Box::new) }
    }

    /// The configurations of the warp-specialised kernel with the target, the types, the contiguous modes and the epilogue
    /// of this one, and worth a comparison for a problem: tiles of 64 to 256 rows of an instruction by every
    /// multiple of 8 columns, operands as they are and exchanged, one and two swizzle rows deep, tiles shared or
    /// each of a warp group's own, clusters of up to four blocks where there are as many tiles. Not all have a
    /// kernel: see [`check`](GemmConfig::check).
    #[inline]
    pub(crate) fn candidates(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        if self.target != Target::SM_90A || matches!(self.a, Scalar::F32 | Scalar::F64) {
            return Vec::new();
        }
        let problem = &if self.grouped { problem.mean_group() } else { *problem };
        let base = self.wanted(GemmConfig::sm90(self.a, [128, 128]));
        let [a, b, by_threads] = base.unaligned_operands(problem, 16);
        let load = if a || b { LoadForm::Repack } else { LoadForm::Tensor };
        let base = GemmConfig { load, ..base };
        // Copies are aligned to lines of the L2 cache, too.
        let [a, b, _] = base.unaligned_operands(problem, L2_LINE_BYTES.into());
        let unaligned = load == LoadForm::Tensor && (a || b);
        let tiles = base.tiles_and_schedules(problem);
        let clusters = tiles.flat_map(|config| config.clusters(problem, machine, unaligned));
        let mut all = Vec::new();
        for config in clusters.flat_map(|config| config.depths(problem)) {
            let ready = |store| config.ready(store, problem, machine);
            let stored = config.stores(by_threads).map(ready);
            for whole in stored.chain(config.fetched_by_threads(problem, machine)) {
                all.push(whole);
                if config.has_registers_for_parts() {
                    all.extend(whole.with_splits(problem, machine.sms));
                }
            }
            if config.overlaps_stores() && !by_threads {
                all.push(ready(StoreForm::Overlapped));
            }
        }
        all
    }

    /// Tiles with each schedule and with exchanged operands, where a thread has registers for its accumulators. Tiles lower than an
    /// instruction are for matrices that are as low, where operands cannot be exchanged.
    #[inline]
    fn tiles_and_schedules(self, problem: &GemmProblem) -> impl Iterator<Item = GemmConfig> {
        const FORMS: [(Schedule, bool); 3] = [
            (Schedule::Cooperative, false),
            (Schedule::Pingpong, false),
            (Schedule::Cooperative, true),
        ];
        let low = [32, 16].into_iter().filter(|rows| problem.m <= *rows);
        let heights = [256, 192, 128, 64].into_iter().chain(low);
        let sizes = heights.flat_map(|rows| (1..=32).rev().map(move |n| [rows, 8 * n]));
        let of_size = move |[rows, columns]: [u32; 2]| {
            FORMS.map(|(schedule, swap)| {
                let [m, n] = if swap { [columns, rows] } else { [rows, columns] };
                GemmConfig { schedule, swap, tile: [m, n, self.tile[2]], ..self }
            })
        };
        // More accumulators leave the producer, or two tiles of a thread block, too few registers.
        let max = |schedule| if schedule == Schedule::Pingpong { 192 } else { 200 };
        sizes.flat_map(of_size).filter(move |config| config.accumulators() <= max(config.schedule))
    }

    /// The clusters of this tile, as many blocks as there are tiles. Aligned operands gain nothing in many waves, and lose in one with
    /// a large operand; rows that are not aligned to lines of the L2 cache double the requests, which a cluster divides:
    /// docs/evidence/gpu.md, "Clusters and unaligned rows".
    #[inline]
    fn clusters(
        self,
        problem: &GemmProblem,
        machine: &Machine,
        unaligned: bool,
    ) -> impl Iterator<Item = GemmConfig> + use<> {
        let tiles = [problem.m.div_ceil(self.tile[0]), problem.n.div_ceil(self.tile[1])];
        let waves = u64::from(tiles[0]) * u64::from(tiles[1]) / u64::from(machine.sms.max(1));
        let apart = !unaligned && (waves > 2 || self.is_one_large_wave(problem, machine));
        let fits =
            move |[m, n]: &[u32; 2]| *m <= tiles[0] && *n <= tiles[1] && (m * n == 1 || !apart);
        CLUSTERS.into_iter().filter(fits).map(move |cluster| GemmConfig { cluster, ..self })
    }

    /// The depths of this tile: one swizzle row, or two of a small tile. Boxes of 8 rows of one swizzle row are fetched slower than
    /// larger ones, so such tiles have two.
    #[inline]
    fn depths(self, problem: &GemmProblem) -> impl Iterator<Item = GemmConfig> + use<> {
        let ([m, n, depth], [_, columns]) = (self.tile, self.mma_tile());
        let min = if columns == 8 && problem.k > depth { 2 } else { 1 };
        let max = if m * n <= 128 * 128 { 2 } else { 1 };
        (min..=max).map(move |rows| GemmConfig { tile: [m, n, depth * rows], ..self })
    }

    /// The configuration whose threads fetch operands that are copied first in this one, if they spill no registers:
    /// docs/evidence/gpu.md, "Tiles that threads fetch".
    #[inline]
    fn fetched_by_threads(self, problem: &GemmProblem, machine: &Machine) -> Option<GemmConfig> {
        let stored = self.ready(StoreForm::Direct, problem, machine);
        // Vectors on their way need room in the L1 cache, which shares its memory with stages.
        let stages = stored.stages.min(3);
        let config = GemmConfig { load: LoadForm::Threads, stages, ..stored };
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        let fits = config.load_rule().is_none() && config.stage_bytes() < FETCHED;
        (self.load == LoadForm::Repack && fits).then_some(config)
    }

    /// Returns whether thread blocks may share a tile: the threads that sum its parts spill none. Only cooperative warp groups do.
    #[inline]
    fn has_registers_for_parts(&self) -> bool {
        let has_registers = self.consumers() > 1 || self.accumulators() <= PARTS;
        self.schedule == Schedule::Cooperative && has_registers
    }

    /// Returns whether the epilogue may overlap with the next tile: two warp groups have registers for the rows that they keep.
    #[inline]
    fn overlaps_stores(&self) -> bool {
        let overlapped = GemmConfig { store: StoreForm::Overlapped, ..*self };
        overlapped.store_rule().is_none() && !self.swap && self.consumers() == 2
    }

    /// The configurations that split K: with as many equal splits as make about as many blocks of few tiles as a device runs at
    /// once, half or a quarter as many, each with 4 steps or more; and stream-K, where the last wave of up to 4 leaves an
    /// eighth of the time of all blocks, or more, without work.
    #[inline]
    fn with_splits(self, problem: &GemmProblem, at_once: u32) -> impl Iterator<Item = GemmConfig> {
        let [rows, columns, steps] = self.tiles(problem);
        let tiles = u64::from(rows) * u64::from(columns) * u64::from(problem.batch);
        let max = (u64::from(at_once) / tiles.max(1)).min(64).min(u64::from(steps / 4)) as u32;
        // As many as leave none without steps.
        let full = move |splits: u32| steps.div_ceil(steps.div_ceil(splits.max(1)));
        let even = [max, max / 2, max / 4].map(full).into_iter().filter(|splits| *splits > 1);
        let slots = tiles.div_ceil(at_once.into()) * u64::from(at_once);
        let stream = self.cluster == [1, 1] && max < 2 && steps >= 8;
        let stream = stream && slots <= 4 * u64::from(at_once) && 8 * tiles <= 7 * slots;
        let splits = even.map(Splits::Even).chain(stream.then_some(Splits::Stream));
        splits.map(move |splits| {
            let config = GemmConfig { splits, ..self };
            GemmConfig { registers: config.usual_registers(), ..config }
        })
    }

    /// The configuration with this way to write D and with all that follows from its tile.
    #[inline]
    fn ready(self, store: StoreForm, problem: &GemmProblem, machine: &Machine) -> GemmConfig {
        let programmatic = !self.suffers_from_overlap(problem, machine);
        let (raster, registers) = (self.usual_raster(problem), self.usual_registers());
        let config = GemmConfig { store, raster, registers, programmatic, ..self };
        config.with_max_stages(STAGES)
    }

    /// Returns true if a launch that overlaps with the one before is slower: see [`is_one_large_wave`](Self::is_one_large_wave).
    #[inline]
    pub(crate) fn suffers_from_overlap(&self, problem: &GemmProblem, machine: &Machine) -> bool {
        self.cluster == [1, 1] && self.is_one_large_wave(problem, machine)
    }

    /// Returns true if blocks that all run at once share the tiles of a large operand. They are neighbours in one half of the
    /// L2 cache, unless they start where an SM happens to be free, or as clusters.
    #[inline]
    fn is_one_large_wave(&self, problem: &GemmProblem, machine: &Machine) -> bool {
        /// The share of the L2 cache. Measured: from 4 to 19 % of products with more bytes, and gains with fewer.
        const SHARE: f64 = 0.3;
        let [rows, columns, _] = self.tiles(problem).map(u64::from);
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let [a, b] =
            [m * k * u64::from(self.a.size_bytes()), n * k * u64::from(self.b.size_bytes())];
        let shared = if a > b { columns > 1 } else { rows > 1 };
        let one_wave = rows * columns * u64::from(problem.batch) <= u64::from(machine.sms);
        // Those of one group are few of many.
        shared && one_wave && !self.grouped && (a + b) as f64 >= SHARE * machine.l2_bytes
    }

    /// Returns of A, B and D whether its pitch or its batch stride is no multiple of `bytes`, or, of A and B, whether tensor cores
    /// do not take it as it is.
    #[inline]
    pub(crate) fn unaligned_operands(&self, problem: &GemmProblem, bytes: u64) -> [bool; 3] {
        let Ok(strides) = problem.strides(self) else { return [false; 3] };
        if self.ragged {
            // Those of the problem are of no matrix.
            return [false; 3];
        }
        let of = |[pitch, next]: [u64; 2], scalar: Scalar| {
            let unaligned =
                |stride: u64| !(stride * u64::from(scalar.size_bytes())).is_multiple_of(bytes);
            unaligned(pitch) || (problem.batch > 1 && unaligned(next))
        };
        let columns =
            u64::from(problem.n / self.accumulators_per_element()) * u64::from(self.d.size_bytes());
        let is_cut = !columns.is_multiple_of(STORE_BYTES);
        let across = |major| major == Major::Mn && !self.takes_mn_major();
        [
            across(self.major_a) || of(strides.a, self.a),
            across(self.major_b) || of(strides.b, self.b),
            is_cut || of(strides.d, self.d),
        ]
    }

    /// The configurations of the kernels without roles.
    #[inline]
    pub(crate) fn of_threads(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        let mut all = Vec::new();
        let size = self.a.size_bytes();
        if self.a == Scalar::F32 {
            for (tile, stages) in
                SIMT.into_iter().filter(|(tile, _)| tile[0] >= 16 || problem.m <= 4)
            {
                let base = self.wanted(GemmConfig::simt(self.target, self.a));
                all.push(GemmConfig { tile, ..base }.with_max_stages(stages));
            }
        } else {
            // Small tiles, whose copies are narrow, are for few thread blocks.
            let few = |[m, n]: &[u32; 2]| {
                let blocks = u64::from(problem.m.div_ceil(*m)) * u64::from(problem.n.div_ceil(*n));
                *m >= 64 && *n >= 64 || 5 * blocks * u64::from(problem.batch) <= machine.sms.into()
            };
            for tile in SM80.into_iter().filter(few) {
                let base = self.wanted(GemmConfig::sm80(self.target, self.a, tile));
                // A swizzle width of 2048 rows. Blocks of small tiles share an SM.
                let raster = Raster::Swizzle { width: 2048 / tile[0] };
                let programmatic = self.target.offers(Target::SM_90)
                    && !base.suffers_from_overlap(problem, machine);
                // A short product has less to copy in steps of half the depth.
                let half = 2 * problem.k <= base.tile[2] && few(&[32, 32]) && size < 8;
                let depth = base.tile[2] / if half { 2 } else { 1 };
                let tile = [tile[0], tile[1], depth];
                let base = GemmConfig { tile, raster, programmatic, ..base };
                let max = if tile[0] * tile[1] > 128 * 128 { 4 } else { 3 };
                // All steps of a short product are in flight at once.
                let steps = problem.k.div_ceil(depth);
                let max = if steps < 5 { steps + 1 } else { max };
                let aligned =
                    [16, 8, 4, size].into_iter().map(|alignment| GemmConfig { alignment, ..base });
                let mut aligned = aligned.filter(|config| config.alignment >= size);
                let found = aligned.find(|config| config.check_problem(problem).is_ok());
                let found = found.map(|config| config.with_max_stages(max));
                // Long products of few blocks are slower as programmatic launches.
                let plain = found.filter(|config| config.programmatic);
                let plain = plain.map(|config| GemmConfig { programmatic: false, ..config });
                all.extend(found.into_iter().chain(plain));
            }
        }
        // Up to four blocks of small tiles share an SM.
        let split = all.iter().flat_map(|config| config.with_splits(problem, 4 * machine.sms));
        all.extend(split.collect::<Vec<_>>());
        all.retain(|config| config.check().is_ok() && config.check_problem(problem).is_ok());
        all
    }

    /// A configuration with what this one asks for: target, types, contiguous modes, epilogue, groups.
    #[inline]
    pub(crate) fn wanted(&self, config: GemmConfig) -> GemmConfig {
        let GemmConfig { target, a, b, c, d, acc, major_a, major_b, .. } = *self;
        let GemmConfig { epilogue, pairs, promote, grouped, ragged, .. } = *self;
        let config = GemmConfig { epilogue, pairs, promote, grouped, ragged, ..config };
        GemmConfig { target, a, b, c, d, acc, major_a, major_b, ..config }
    }
}

/// Configurations with their predicted times, the fastest first.
type Plans = [(GemmConfig, Prediction)];

/// The key of a plan: target, types, contiguous modes, epilogue and groups; problem; machine.
type Asked = (GemmConfig, GemmProblem, [u64; 7]);

/// The plans of a process.
static TABLE: LazyLock<Mutex<HashMap<Asked, Arc<Plans>>>> = LazyLock::new(Mutex::default);

/// The regime in which a problem is planned: that of short work.
#[inline]
fn regime_of(problem: &GemmProblem) -> Regime {
    let regimes = Regime::of_sizes([problem.m, problem.n, problem.k]);
    regimes.first().copied().unwrap_or(Regime::Burst)
}
