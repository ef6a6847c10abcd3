//! Lists the candidate configurations for a problem and ranks them: behind [`GemmConfig::best`],
//! [`GemmConfig::defaults`] and [`GemmConfig::explain`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::pipeline::Raster;

use crate::kernels::gemm::choose::explain::Explanation;
use crate::kernels::gemm::choose::machine::Machine;
use crate::kernels::gemm::choose::model::GemmModel;
use crate::kernels::gemm::choose::prediction::Prediction;
use crate::kernels::gemm::choose::regime::Regime;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{LoadMethod, Schedule, Splits, StoreMethod};
use crate::kernels::gemm::config::problem::{GemmProblem, STORE_BYTES};
use crate::kernels::gemm::config::{GemmConfig, L2_LINE_BYTES};

/// How many configurations to return at most: nobody measures more.
const MAX: usize = 12;
/// How many plans to cache at most.
const KNOWN: usize = 4096;
/// The most stages: beyond that, tiles do not arrive any sooner.
const STAGES: u32 = 12;

/// Bytes per stage from which threads that fetch it spill registers.
const FETCHED: u32 = 25 << 10;
/// The most accumulators with which a thread of a single consumer group can sum parts without
/// spills.
const PARTS: u32 = 116;

/// Tiles of the kernel without tensor cores, with their maximum stages. If few warps share an SM, a
/// deep tile waits for its instructions.
const SIMT: [([u32; 3], u32); 7] = [
    ([128, 256, 32], 3),
    ([128, 128, 32], 3),
    ([128, 64, 16], 3),
    ([64, 64, 16], 4),
    // For few rows: the least arithmetic per load of B.
    ([32, 256, 16], 4),
    ([16, 256, 16], 4),
    // For at most 4 rows: reads long rows of B, one after the other.
    ([4, 256, 32], 3),
];

/// Cluster shapes to try.
const CLUSTERS: [[u32; 2]; 6] = [[1, 1], [2, 1], [4, 1], [1, 2], [1, 4], [2, 2]];

/// Tiles of the multistage kernel.
const SM80: [[u32; 2]; 7] =
    [[128, 256], [128, 128], [64, 128], [64, 64], [64, 32], [32, 64], [32, 32]];

impl GemmConfig {
    /// Returns the best configurations for a problem on a machine, fastest first as predicted by
    /// [`GemmModel`], at most 12. They keep what you ask for in `self`: target, types, contiguous
    /// modes, epilogue, `pairs`, `promote`, `grouped` and `ragged`. Measure them if the best
    /// prediction is not good enough.
    ///
    /// Every returned configuration can run the problem. If TMA cannot read an operand, for example
    /// because its rows are not multiples of 16 bytes, the configurations use
    /// [`LoadMethod::Repack`], which first copies the operand into an aligned workspace, or
    /// [`LoadMethod::Threads`], with which threads load the tiles themselves, one element at a time
    /// if the alignment allows nothing wider.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, LoadMethod, Machine};
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
    /// // Rows of 4001 16-bit elements are not multiples of 16 bytes, so they are repacked first.
    /// assert_eq!(best(4096, 4096, 4001).load, LoadMethod::Repack);
    /// ```
    #[inline]
    pub fn defaults(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        self.plan(problem, machine).iter().map(|(config, _)| *config).collect()
    }

    /// Returns the [`defaults`](GemmConfig::defaults) with their predictions, cached per question.
    #[inline]
    fn plan(&self, problem: &GemmProblem, machine: &Machine) -> Arc<Plans> {
        let key =
            (self.wanted(GemmConfig::base(self.target, self.a, [0; 3])), *problem, machine.bits());
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.get(&key) {
            return known.clone();
        }
        let plans: Arc<Plans> = self.planned(problem, machine).into();
        // Programs use few sizes. If one does not, start over.
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
        if all.first().is_some_and(|config| config.load != LoadMethod::Tensor) {
            // For small problems, skipping the repacking is faster.
            all.extend(self.candidates_without_roles(problem, machine));
        }
        let found = first(&all);
        if found.is_empty() {
            first(&self.candidates_without_roles(problem, machine))
        } else {
            found
        }
    }

    /// Returns why [`best`](GemmConfig::best) chooses its configuration. Print it if a GEMM is
    /// slower than you expect.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, LoadMethod, Machine};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let problem = GemmProblem::new(4096, 4096, 4001);
    /// let why = wanted.explain(&problem, &Machine::H200)?;
    /// assert_eq!(why.config, wanted.best(&problem, &Machine::H200)?);
    /// // Rows of 4001 elements are repacked before the GEMM.
    /// assert!(why.config.load == LoadMethod::Repack && why.prediction.copies_s > 0.0);
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

    /// Returns the configuration predicted to be fastest, the first of the
    /// [`defaults`](GemmConfig::defaults). Use it to get a good kernel without measuring. The
    /// result is for [`target`](GemmConfig::target), whichever preset `self` comes from: with
    /// `sm_80` there, [`sm90`](GemmConfig::sm90) also leads to an `sm_80` kernel.
    ///
    /// # Errors
    /// Those of [`GemmProblem::strides`], and [`GemmError::NoConfig`] if no kernel supports the
    /// types or none can run the problem.
    #[inline]
    pub fn best(&self, problem: &GemmProblem, machine: &Machine) -> Result<GemmConfig, GemmError> {
        let first = self.plan(problem, machine).first().map(|(config, _)| *config);
        first.ok_or_else(|| self.no_config(problem))
    }

    /// Returns why no configuration can run a problem.
    #[inline]
    fn no_config(&self, problem: &GemmProblem) -> GemmError {
        if let Err(error) = problem.strides(self) {
            return error;
        }
        // Schedules that every target has.
        let tried = match self.a {
            Scalar::F32 => self.wanted(GemmConfig::simt(self.target, self.a)),
            Scalar::F64 => self.wanted(GemmConfig::sm80(self.target, self.a, SM80[3])),
            _ => self.wanted(GemmConfig::sm80(self.target, self.a, SM80[0])),
        };
        let last = tried.check().and_then(|()| tried.check_problem(problem).map(|_| ()));
        GemmError::NoConfig { last: last.err().map(Box::new) }
    }

    /// Returns the warp-specialised configurations worth comparing for a problem, with the target,
    /// types, contiguous modes and epilogue of `self`. They combine tiles of 16 to 256 MMA rows by
    /// every multiple of 8 columns, both schedules, swapped and unswapped operands, tiles one and
    /// two swizzle rows deep, and clusters of up to four blocks if there are enough tiles. Not
    /// every one has a kernel: see [`check`](GemmConfig::check).
    ///
    /// Use it to search for the fastest configuration yourself; a
    /// [`GemmModel`](crate::kernels::gemm::GemmModel) ranks the result.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Machine};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let problem = GemmProblem::new(4096, 4096, 4096);
    /// let all = wanted.candidates(&problem, &Machine::H200);
    /// assert!(all.contains(&wanted.best(&problem, &Machine::H200)?));
    /// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
    /// ```
    #[inline]
    pub fn candidates(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        if self.target != Target::SM_90A || matches!(self.a, Scalar::F32 | Scalar::F64) {
            return Vec::new();
        }
        let problem = &if self.is_grouped() { problem.mean_group() } else { *problem };
        let base = self.wanted(GemmConfig::sm90(self.a, [128, 128]));
        let [a, b, by_threads] = base.unaligned_operands(problem, 16);
        let load = if a || b { LoadMethod::Repack } else { LoadMethod::Tensor };
        let base = GemmConfig { load, ..base };
        // Repacked copies are also aligned to L2 lines.
        let [a, b, _] = base.unaligned_operands(problem, L2_LINE_BYTES.into());
        let unaligned = load == LoadMethod::Tensor && (a || b);
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
                all.push(ready(StoreMethod::Overlapped));
            }
        }
        all
    }

    /// Returns the tiles with each schedule and with swapped operands, if their accumulators fit
    /// into registers. Tiles lower than a `wgmma` (64 rows) are only for matrices that are as low;
    /// swapping operands is the alternative, but it needs a 16-bit D.
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
        // More accumulators leave too few registers for the producer, or for two tiles per block.
        let max = |schedule| if schedule == Schedule::Pingpong { 192 } else { 200 };
        sizes.flat_map(of_size).filter(move |config| config.accumulators() <= max(config.schedule))
    }

    /// Returns this tile with each cluster for which there are enough tiles. If operands are
    /// aligned, clusters gain nothing over many waves, and lose in a single wave with a large
    /// operand. Rows that are not aligned to L2 lines double the requests, and clusters share them:
    /// see "Clusters and unaligned rows" in docs/evidence/experiments.md.
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

    /// Returns this tile one swizzle row deep, and also two deep if it is small. TMA is slow to
    /// fetch boxes of 8 rows, so tiles that need them are always two deep.
    #[inline]
    fn depths(self, problem: &GemmProblem) -> impl Iterator<Item = GemmConfig> + use<> {
        let ([m, n, depth], [_, columns]) = (self.tile, self.mma_tile());
        let min = if columns == 8 && problem.k > depth { 2 } else { 1 };
        let max = if m * n <= 128 * 128 { 2 } else { 1 };
        (min..=max).map(move |rows| GemmConfig { tile: [m, n, depth * rows], ..self })
    }

    /// Returns the configuration in which threads fetch operands that this one repacks, if they do
    /// not spill registers: see "Tiles that threads fetch" in docs/evidence/experiments.md.
    #[inline]
    fn fetched_by_threads(self, problem: &GemmProblem, machine: &Machine) -> Option<GemmConfig> {
        let stored = self.ready(StoreMethod::Direct, problem, machine);
        // Vectors in flight need room in the L1 cache, which shares its memory with the stages.
        let stages = stored.stages.min(3);
        let config = GemmConfig { load: LoadMethod::Threads, stages, ..stored };
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        let fits = config.load_rule().is_none() && config.stage_bytes() < FETCHED;
        (self.load == LoadMethod::Repack && fits).then_some(config)
    }

    /// Returns whether K may be split: the schedule must be cooperative, and the threads that sum
    /// the parts must not spill.
    #[inline]
    fn has_registers_for_parts(&self) -> bool {
        let has_registers = self.consumers() > 1 || self.accumulators() <= PARTS;
        self.schedule == Schedule::Cooperative && has_registers
    }

    /// Returns whether the store may overlap with the next tile: it takes two warp groups to have
    /// registers for the rows they keep.
    #[inline]
    fn overlaps_stores(&self) -> bool {
        let overlapped = GemmConfig { store: StoreMethod::Overlapped, ..*self };
        overlapped.store_rule().is_none() && !self.swap && self.consumers() == 2
    }

    /// Returns the configurations that split K. If tiles are few, split-K into as many parts as
    /// fill the device, half as many and a quarter, with at least 4 steps per part. Stream-K, if
    /// there are at most 4 waves and the last one would leave an eighth or more of the total block
    /// time idle.
    #[inline]
    fn with_splits(self, problem: &GemmProblem, at_once: u32) -> impl Iterator<Item = GemmConfig> {
        let [rows, columns, steps] = self.tiles(problem);
        let tiles = u64::from(rows) * u64::from(columns) * u64::from(problem.batch);
        let max = (u64::from(at_once) / tiles.max(1)).min(64).min(u64::from(steps / 4)) as u32;
        // Rounds down so that no part is empty.
        let full = move |splits: u32| steps.div_ceil(steps.div_ceil(splits.max(1)));
        let even = [max, max / 2, max / 4].map(full).into_iter().filter(|splits| *splits > 1);
        let slots = tiles.div_ceil(at_once.into()) * u64::from(at_once);
        let stream = self.cluster == [1, 1] && max < 2 && steps >= 8;
        let stream = stream && slots <= 4 * u64::from(at_once) && 8 * tiles <= 7 * slots;
        let splits = even.map(Splits::SplitK).chain(stream.then_some(Splits::StreamK));
        splits.map(move |splits| {
            let config = GemmConfig { splits, ..self };
            GemmConfig { registers: config.usual_registers(), ..config }
        })
    }

    /// Completes the configuration: takes this store form, and everything that follows from the
    /// tile.
    #[inline]
    fn ready(self, store: StoreMethod, problem: &GemmProblem, machine: &Machine) -> GemmConfig {
        let programmatic = !self.suffers_from_overlap(problem, machine);
        let (raster, registers) = (self.usual_raster(problem), self.usual_registers());
        let config = GemmConfig { store, raster, registers, programmatic, ..self };
        config.with_max_stages(STAGES)
    }

    /// Returns whether overlapping with the previous launch makes it slower: see
    /// [`is_one_large_wave`](Self::is_one_large_wave).
    #[inline]
    pub(crate) fn suffers_from_overlap(&self, problem: &GemmProblem, machine: &Machine) -> bool {
        self.cluster == [1, 1] && self.is_one_large_wave(problem, machine)
    }

    /// Returns whether all blocks run in one wave and share a large operand. Then neighbouring
    /// blocks should be in the same half of the L2 cache. They are not if they start wherever an SM
    /// becomes free, or as clusters.
    #[inline]
    fn is_one_large_wave(&self, problem: &GemmProblem, machine: &Machine) -> bool {
        /// The operands' bytes from which this holds, as a share of the L2 cache. Above it,
        /// overlapping costs 4 to 19 %; below, it gains.
        const SHARE: f64 = 0.3;
        let [rows, columns, _] = self.tiles(problem).map(u64::from);
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let [a, b] =
            [m * k * u64::from(self.a.size_bytes()), n * k * u64::from(self.b.size_bytes())];
        let shared = if a > b { columns > 1 } else { rows > 1 };
        let one_wave = rows * columns * u64::from(problem.batch) <= u64::from(machine.sms);
        // Grouped GEMM: the tiles of one group are few among many.
        shared && one_wave && !self.is_grouped() && (a + b) as f64 >= SHARE * machine.l2_bytes
    }

    /// Returns, for A, B and D, whether its pitch or batch stride is not a multiple of `bytes`. For
    /// A and B, also returns true if the tensor cores cannot read their contiguous mode.
    #[inline]
    pub(crate) fn unaligned_operands(&self, problem: &GemmProblem, bytes: u64) -> [bool; 3] {
        let Ok(strides) = problem.strides(self) else { return [false; 3] };
        if self.batch.has_sizes_on_device() {
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

    /// Returns the configurations of the `mma.sync` and SIMT kernels worth comparing for a problem,
    /// with the target, types, contiguous modes and epilogue of `self`. Each has a kernel for the
    /// problem.
    ///
    /// ```
    /// use tilewright::ir::{Target, types::Scalar};
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Machine};
    ///
    /// let wanted = GemmConfig::simt(Target::SM_80, Scalar::F32);
    /// let problem = GemmProblem::new(512, 512, 512);
    /// let all = wanted.candidates_without_roles(&problem, &Machine::A100);
    /// assert!(!all.is_empty() && all.iter().all(|config| config.target == Target::SM_80));
    /// ```
    #[inline]
    pub fn candidates_without_roles(
        &self,
        problem: &GemmProblem,
        machine: &Machine,
    ) -> Vec<GemmConfig> {
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
            // Small tiles have narrow copies. They are only worth it if there are few blocks.
            let few = |[m, n]: &[u32; 2]| {
                let blocks = u64::from(problem.m.div_ceil(*m)) * u64::from(problem.n.div_ceil(*n));
                *m >= 64 && *n >= 64 || 5 * blocks * u64::from(problem.batch) <= machine.sms.into()
            };
            for tile in SM80.into_iter().filter(few) {
                let base = self.wanted(GemmConfig::sm80(self.target, self.a, tile));
                // A swizzle 2048 rows wide. Blocks with small tiles share an SM.
                let raster = Raster::Swizzle { width: 2048 / tile[0] };
                let programmatic = self.target.offers(Target::SM_90)
                    && !base.suffers_from_overlap(problem, machine);
                // If K is short, tiles of half the depth have less to copy.
                let half = 2 * problem.k <= base.tile[2] && few(&[32, 32]) && size < 8;
                let depth = base.tile[2] / if half { 2 } else { 1 };
                let tile = [tile[0], tile[1], depth];
                let base = GemmConfig { tile, raster, programmatic, ..base };
                let max = if tile[0] * tile[1] > 128 * 128 { 4 } else { 3 };
                // If K is short, all its steps are in flight at once.
                let steps = problem.k.div_ceil(depth);
                let max = if steps < 5 { steps + 1 } else { max };
                let aligned =
                    [16, 8, 4, size].into_iter().map(|alignment| GemmConfig { alignment, ..base });
                let mut aligned = aligned.filter(|config| config.alignment >= size);
                let found = aligned.find(|config| config.check_problem(problem).is_ok());
                let found = found.map(|config| config.with_max_stages(max));
                // With few blocks and a long K, a programmatic launch is slower.
                let plain = found.filter(|config| config.programmatic);
                let plain = plain.map(|config| GemmConfig { programmatic: false, ..config });
                all.extend(found.into_iter().chain(plain));
            }
        }
        // Up to four blocks with small tiles share an SM.
        let split = all.iter().flat_map(|config| config.with_splits(problem, 4 * machine.sms));
        all.extend(split.collect::<Vec<_>>());
        all.retain(|config| config.check().is_ok() && config.check_problem(problem).is_ok());
        all
    }

    /// Returns `config` with what `self` asks for: target, types, contiguous modes, epilogue,
    /// groups. Use it to try tiles of your own for the same GEMM.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{Epilogue, GemmConfig};
    ///
    /// let epilogue = Epilogue { beta: true, ..Epilogue::default() };
    /// let wanted = GemmConfig { epilogue, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    /// let other = wanted.wanted(GemmConfig::sm90(Scalar::Bf16, [256, 128]));
    /// assert_eq!((other.tile[0], other.epilogue), (256, epilogue));
    /// ```
    #[inline]
    pub fn wanted(&self, config: GemmConfig) -> GemmConfig {
        let GemmConfig { target, a, b, c, d, acc, major_a, major_b, .. } = *self;
        let GemmConfig { epilogue, pairs, accumulation, batch, .. } = *self;
        let config = GemmConfig { epilogue, pairs, accumulation, batch, ..config };
        GemmConfig { target, a, b, c, d, acc, major_a, major_b, ..config }
    }
}

/// Configurations with their predictions, fastest first.
type Plans = [(GemmConfig, Prediction)];

/// A plan's key: what the configuration asks for, the problem, the machine.
type Asked = (GemmConfig, GemmProblem, [u64; 7]);

/// The plans cached by this process.
static TABLE: LazyLock<Mutex<HashMap<Asked, Arc<Plans>>>> = LazyLock::new(Mutex::default);

/// Returns the regime to plan for: the first, which is the one with short work.
#[inline]
fn regime_of(problem: &GemmProblem) -> Regime {
    let regimes = Regime::of_sizes([problem.m, problem.n, problem.k]);
    regimes.first().copied().unwrap_or(Regime::Burst)
}
