//! [`GemmModel`]: predicts how long a GEMM takes for a configuration. `best` ranks candidates with
//! it.

use crate::ir::types::Scalar;
use crate::sorting::sort_by;

use crate::kernels::gemm::choose::machine::{HOPPER_MMA_SYNC, Machine};
use crate::kernels::gemm::choose::parameters::Parameters;
use crate::kernels::gemm::choose::prediction::Prediction;
use crate::kernels::gemm::choose::regime::Regime;
use crate::kernels::gemm::choose::traffic::{Traffic, lines_of};
use crate::kernels::gemm::config::methods::{BatchMode, LoadMethod, Schedule, Splits, StoreMethod};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::{Activation, GROUP, GemmConfig, L2_LINE_BYTES, WGMMA_ROWS};

/// The busiest SM's work: its tiles, its total cycles, and the cycles of the parts, which overlap.
struct Busy {
    waves: u32,
    cycles: f64,
    mma: f64,
    l2: f64,
    store: f64,
    fix_up: f64,
}

/// What the busiest SM gets.
struct Share {
    /// Tiles or parts of tiles, one after the other.
    waves: f64,
    /// Steps along K.
    steps: f64,
    /// Tiles whose end is visible.
    tiles: f64,
    /// Parts of tiles written to the workspace or read from it.
    parts: f64,
    /// Waits for the other parts of a tile.
    exchanges: f64,
}

impl Share {
    /// Without splits, or with split-K into `parts` equal parts: `at_once` SMs, or clusters, run
    /// `resident` blocks each.
    #[inline]
    fn even([tiles, steps]: [f64; 2], parts: u32, [at_once, resident]: [f64; 2]) -> Share {
        let parts = f64::from(parts);
        let tiles = tiles * parts;
        let waves = (tiles / at_once).ceil().max(1.0);
        // The blocks of an SM share it, so the work of all of them counts.
        let rounds = (tiles / (at_once * resident)).ceil().max(1.0) * resident.min(waves);
        let steps = rounds * (steps / parts).ceil();
        let (parts, exchanges) = match parts > 1.0 {
            // Each block writes its part, and the last one reads all of them. Blocks of one SM wait
            // together.
            true => (rounds + parts, (rounds / resident).ceil()),
            false => (0.0, 0.0),
        };
        Share { waves, steps, tiles: rounds, parts, exchanges }
    }

    /// With stream-K. The arguments are the same as for [`even`](Share::even).
    #[inline]
    fn stream([tiles, steps]: [f64; 2], [at_once, resident]: [f64; 2]) -> Share {
        let [tiles, each, max] = [tiles, steps, at_once * resident].map(|x| x as u64);
        let blocks = Splits::StreamK.blocks(tiles, each, max);
        let shared = Splits::shared(tiles, blocks);
        let whole = ((tiles - shared) / blocks) as f64;
        if shared == 0 {
            let whole = whole * resident;
            return Share {
                waves: whole,
                steps: whole * steps,
                tiles: whole,
                parts: 0.0,
                exchanges: 0.0,
            };
        }
        let run = (shared * each).div_ceil(blocks);
        // A block writes the end of the tile in which its run starts, and reads the other parts of
        // the tile in which it ends.
        let others = each.div_ceil(run);
        // The blocks of an SM share it.
        let of_sm = resident.min((blocks as f64 / at_once).ceil());
        Share {
            waves: of_sm * (whole + run.div_ceil(each) as f64),
            steps: of_sm * (whole * steps + run as f64),
            tiles: of_sm * (whole + shared.div_ceil(blocks) as f64),
            parts: of_sm * (1.0 + others as f64),
            exchanges: 1.0,
        }
    }
}

/// A cost model of a GPU: predicts the seconds that a configuration takes for a problem.
///
/// The busiest SM computes `waves` tiles of `steps` steps each, which takes
/// `cycles = start + first stage + waves (steps max(MMA, bytes / fill, latency / stages) + end)`.
/// Memory traffic depends on the raster order, energy on the operations and on the bytes from L2
/// cache and memory. If all SMs ask at once, the L2 cache gives each fewer bytes than it could take
/// alone. Of these four times, the longest counts most.
///
/// A block in a cluster also receives the bytes that the other blocks requested. With stream-K, a
/// block computes the steps of its run and of its whole tiles, and writes and reads parts of tiles.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmModel, GemmProblem, Regime};
/// let model = GemmModel::H200;
/// let problem = GemmProblem::new(8192, 8192, 8192);
/// let wide = model.predict(&GemmConfig::sm90(Scalar::Bf16, [256, 200]), &problem, Regime::Burst);
/// let narrow = model.predict(&GemmConfig::sm90(Scalar::Bf16, [64, 64]), &problem, Regime::Burst);
/// assert!(wide.seconds < narrow.seconds);
/// assert_eq!(wide.waves, 10); // 32 x 41 tiles on 132 SMs
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmModel {
    /// The GPU for which times are predicted.
    pub machine: Machine,
    /// The fitted constants: those of the H200, unless you fit your own.
    pub parameters: Parameters,
}

impl GemmModel {
    /// The model of an NVIDIA H200, the GPU for which predictions are calibrated.
    pub const H200: GemmModel = GemmModel { machine: Machine::H200, parameters: Parameters::H200 };

    /// Returns the model of a GPU, with the constants fitted to the H200. Predicted times are then
    /// calibrated only for an H200, but configurations can still be compared.
    pub fn of(machine: Machine) -> GemmModel {
        GemmModel { machine, parameters: Parameters::H200 }
    }

    /// Predicts the time of a launch. A grouped GEMM counts as one GEMM with about as many tiles,
    /// and with the bytes of groups of average size. To compare several configurations, call
    /// [`rank`](GemmModel::rank).
    #[inline]
    pub fn predict(
        &self,
        config: &GemmConfig,
        problem: &GemmProblem,
        regime: Regime,
    ) -> Prediction {
        if !config.is_grouped() {
            return self.predict_reading(config, problem, regime, self.traffic(config, problem));
        }
        let (config, groups) = (GemmConfig { batch: BatchMode::Uniform, ..*config }, problem.batch);
        let (all, one) = (config.ungrouped(problem), problem.mean_group());
        let memory = f64::from(groups) * self.traffic(&config, &one).memory;
        let traffic = Traffic { memory, ..self.traffic(&config, &all) };
        self.predict_reading(&config, &all, regime, traffic)
    }

    /// Predicts the time of a launch that moves these bytes.
    #[inline]
    fn predict_reading(
        &self,
        config: &GemmConfig,
        problem: &GemmProblem,
        regime: Regime,
        traffic: Traffic,
    ) -> Prediction {
        let p = &self.parameters;
        let busy = self.busy(config, problem);
        let of_cycles = |cycles: f64| cycles / self.machine.clock_hz;
        let launch = self.launch(config, problem);
        let busy_s = launch + of_cycles(busy.cycles);
        let Traffic { l2, received, memory, written } = traffic;
        // Parts are summed after the operands have been read.
        let fix_up_s = of_cycles(busy.fix_up);
        let met = of_cycles(if config.cluster_blocks() > 1 { p.cluster_wait_cycles } else { 0.0 });
        let memory_s = launch + met + memory / self.memory_rate(config, problem) + fix_up_s;
        let copies_s = self.copies(config, problem);
        let energy_j = self.flops(config, problem) * p.flop_j * energy_of(config)
            + ((1.0 - p.received_share) * l2 + p.received_share * received) * p.l2_j
            + memory * p.memory_j;
        let watts = match regime {
            Regime::Latency | Regime::Burst => self.machine.power_w * p.burst_w,
            Regime::Steady => self.machine.power_w * p.steady_w,
        };
        let energy_s = energy_j / (watts - p.idle_w).max(1.0);
        // All SMs together get fewer bytes from the L2 cache than each could take.
        let all = self.machine.clock_hz * f64::from(self.machine.sms) * p.chip_bytes;
        let cache_s = launch + met + (l2 + p.written_share * written) / all + fix_up_s;
        let times = [busy_s, memory_s, cache_s, energy_s];
        let longest = times.into_iter().fold(0.0, f64::max);
        let sum: f64 = times.iter().map(|seconds| (seconds / longest).powf(p.power)).sum();
        let stream = match (config.splits, config.schedule) {
            (Splits::StreamK, Schedule::Simt) => p.stream_simt_share,
            (Splits::StreamK, _) => p.stream_share,
            (Splits::SplitK(_), _) => 1.0,
        };
        let is_hindered =
            config.programmatic && config.suffers_from_overlap(problem, &self.machine);
        let hindered = if is_hindered { p.hindered } else { 1.0 };
        let seconds = longest * sum.powf(1.0 / p.power) * stream * hindered + copies_s;
        Prediction {
            seconds,
            is_calibrated: self.is_calibrated(config),
            busy_s,
            memory_s,
            cache_s,
            energy_s,
            waves: busy.waves,
            memory_bytes: memory,
            l2_bytes: l2,
            mma_s: of_cycles(busy.mma),
            l2_s: of_cycles(busy.l2),
            store_s: of_cycles(busy.store),
            fix_up_s,
            copies_s,
        }
    }

    /// Returns whether the model is calibrated for such a configuration on this machine.
    #[inline]
    fn is_calibrated(&self, config: &GemmConfig) -> bool {
        let is_16_bit = matches!(config.a, Scalar::Bf16 | Scalar::F16);
        self.machine.is_h200() && config.is_warp_specialised() && is_16_bit
    }

    /// Returns the seconds of a launch, without its blocks' work. If there are few blocks, several
    /// overlapping launches share the GPU.
    #[inline]
    fn launch(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let p = &self.parameters;
        if !config.programmatic {
            return p.launch_s;
        }
        let share = self.waves(config, problem);
        let more = if share <= 0.25 { p.overlap_quarter_s } else { 0.0 }
            + if share <= 0.5 { p.overlap_half_s } else { 0.0 };
        (p.launch_s - p.programmatic_s - more).max(0.0)
    }

    /// Returns the seconds of repacking misaligned operands, in one launch before the GEMM.
    #[inline]
    fn copies(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let p = &self.parameters;
        if config.load != LoadMethod::Repack {
            return 0.0;
        }
        let [m, n, k] = [problem.m, problem.n, problem.k].map(f64::from);
        let batch = f64::from(problem.batch);
        let sizes = [(m * k, config.a), (n * k, config.b)];
        let unaligned = config.unaligned_operands(problem, 16);
        let operands = sizes.into_iter().zip(unaligned).filter(|(_, unaligned)| *unaligned);
        let bytes: f64 = operands.map(|((n, of), _)| n * f64::from(of.size_bytes())).sum();
        let bytes = batch * bytes;
        let rate = self.machine.memory_bytes_per_s;
        let kept = self.machine.l2_bytes * p.kept_share;
        // The GEMM reads the workspace from the L2 cache if it fits.
        let workspace = if bytes <= kept { p.cached_share } else { 1.0 };
        p.launch_of_copies_s + (1.0 + workspace) * bytes / rate
    }

    /// Returns the configurations with their predictions, fastest first. Equal predictions keep
    /// their order. Measure the first few of them instead of all.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmModel, GemmProblem, Machine, Regime};
    /// let problem = GemmProblem::new(4096, 4096, 4096);
    /// let configs = GemmConfig::sm90(Scalar::Bf16, [128, 128]).defaults(&problem, &Machine::H200);
    /// let ranked = GemmModel::H200.rank(&configs, &problem, Regime::Burst);
    /// assert!(ranked.is_sorted_by_key(|(_, prediction)| prediction.seconds));
    /// ```
    #[inline]
    pub fn rank(
        &self,
        configs: &[GemmConfig],
        problem: &GemmProblem,
        regime: Regime,
    ) -> Vec<(GemmConfig, Prediction)> {
        let mut ranked: Vec<(GemmConfig, Prediction)> =
            configs.iter().map(|config| (*config, self.predict(config, problem, regime))).collect();
        sort_by(&mut ranked, |(_, a), (_, b)| a.seconds.total_cmp(&b.seconds));
        ranked
    }

    /// Returns the busiest SM's work.
    #[inline]
    fn busy(&self, config: &GemmConfig, problem: &GemmProblem) -> Busy {
        let p = &self.parameters;
        let [rows, columns, steps] = config.tiles(problem);
        let [m, n] = config.cluster.map(|blocks| blocks.max(1));
        let cluster = config.cluster_blocks().max(1);
        let clusters =
            f64::from(rows.div_ceil(m)) * f64::from(columns.div_ceil(n)) * f64::from(problem.batch);
        let resident = if config.is_warp_specialised() {
            1
        } else {
            config.resident(self.machine.shared_bytes)
        };
        let at_once = f64::from(self.machine.clusters(cluster));
        let share = match config.splits {
            Splits::SplitK(parts) => {
                Share::even([clusters, f64::from(steps)], parts.max(1), [at_once, resident.into()])
            }
            Splits::StreamK => {
                Share::stream([clusters, f64::from(steps)], [at_once, resident.into()])
            }
        };
        let products = self.step_cycles(config, problem);
        let products = if config.schedule == Schedule::Simt {
            // An SM has 128 FMA lanes. With fewer threads, some are idle.
            let threads = share.waves.min(resident.into()) * f64::from(config.threads());
            products * (128.0 / threads).max(1.0)
        } else {
            products
        };
        // Blocks of programmatic launches start wherever a previous one ends, so an SM with room
        // for more of them gets more than others.
        let room = f64::from(resident).min(clusters) / share.waves.max(1.0);
        let crowd = if config.programmatic { room.max(1.0).powf(p.crowded) } else { 1.0 };
        let products = crowd * products;
        let bytes = self.stage_l2_bytes(config, problem);
        // Each block that shares an SM has its own stages. With copies by threads, all but the
        // stage being read are being filled.
        let own_stages = config.stages.saturating_sub(u32::from(!config.is_warp_specialised()));
        let blocks = share.waves.min(resident.into()).max(1.0);
        let stages = blocks * f64::from(own_stages.max(1));
        let own = p.step_cycles
            + if config.consumers() < 2 && config.is_warp_specialised() {
                p.drain_cycles
            } else {
                0.0
            }
            + f64::from(cluster - 1) * p.cluster_cycles;
        let lines = f64::from(config.tile[2] * config.a.size_bytes()) / f64::from(L2_LINE_BYTES);
        // A block in a cluster also receives the bytes that the others requested.
        let received: f64 = self.stage_operands(config, problem).iter().sum();
        let fill = bytes / p.fill_bytes + (received - bytes) / p.receive_bytes;
        // A cluster requests a stage once it is empty in all blocks.
        let others = f64::from(cluster).log2() * p.cluster_latency_cycles;
        // The tensor cores occupy two stages: the one they read and the one before it. In a
        // cluster, the slowest block decides.
        let request = p.request_cycles + p.cluster_share * others;
        let held = 2.0 + f64::from(cluster).log2() * p.cluster_stages;
        let refill = (request + p.fill_share * fill) / (stages - held).max(1.0);
        let wait = if config.is_warp_specialised() { p.latency_cycles } else { p.copied_cycles };
        let latency = ((wait + others) / stages).max(refill);
        // With two stages, none is filled meanwhile.
        let has_more = blocks * f64::from(config.stages) > 2.0;
        let serial = if has_more { 0.0 } else { products + own + refill };
        let step = (products + own).max(fill).max(latency).max(serial);
        let drained = products + own / lines.max(1.0);
        let step = step.max(drained);
        let step = if config.load == LoadMethod::Threads {
            let vectors = f64::from(config.stage_bytes()) / f64::from(16 * GROUP);
            let each = (share.steps / share.tiles.max(1.0)).max(1.0);
            let first = step.max(vectors * vectors * p.first_cycles);
            // Each producer group waits for its own step.
            let round = p.round_cycles / f64::from(config.producers());
            let next = step.max(vectors * p.vector_cycles * lines_of(config)).max(round);
            (first + (each - 1.0) * next) / each
        } else {
            step
        };
        let [m, n] = config.tile_of_d();
        let end = self.end_cycles(config, problem);
        let seen = match (config.schedule, config.store) {
            (Schedule::Pingpong, _) => p.pingpong_share,
            (_, StoreMethod::Overlapped) => p.overlapped_share,
            // Nothing overlaps with stores by threads.
            (Schedule::Cooperative, StoreMethod::Direct) => p.direct_share,
            (_, StoreMethod::Chunks) if narrow(config) => 1.0,
            (_, StoreMethod::Chunks | StoreMethod::Direct) => p.chunks_share,
            (_, StoreMethod::Rows) => 1.0,
        };
        // With only one tile, a second warp group has no tile of its own and hides nothing.
        let alone = config.is_pingpong() && share.waves < 2.0;
        let drain = if alone { p.drain_cycles } else { 0.0 };
        // Bytes, then cycles, of a part that a block writes or reads.
        let part = 4.0 * f64::from(m) * f64::from(n);
        let part = part / p.partial_bytes + (part - p.large_part).max(0.0) / p.large_part_bytes;
        let fix_up = share.parts * part + share.exchanges * p.exchange_cycles;
        let function = self.function_cycles(config);
        // The other warp group multiplies meanwhile.
        let shown = end * seen + if config.is_pingpong() { 0.0 } else { function };
        let end = end + function;
        let store = (share.tiles - 1.0).max(0.0) * shown + end;
        let tiles = share.steps * (step + drain);
        // If tiles are short, each of the two warp groups waits for the ends of its own tiles.
        let of_groups = if config.is_pingpong() && share.tiles > 0.0 {
            let of_group = (share.tiles / 2.0).ceil();
            of_group * (tiles / share.tiles + end) - share.tiles * shown
        } else {
            0.0
        };
        let together = if cluster > 1 { p.cluster_wait_cycles } else { 0.0 };
        let is_low = config.is_warp_specialised() && !config.swap && config.tile[0] < WGMMA_ROWS;
        let together = together + if is_low { p.clear_cycles } else { 0.0 };
        Busy {
            waves: share.waves as u32,
            // The first MMA waits for a whole stage.
            cycles: p.prologue_cycles + together + fill + tiles.max(of_groups) + store + fix_up,
            mma: share.steps * products,
            l2: share.steps * fill,
            store,
            fix_up,
        }
    }

    /// Returns the cycles from a tile's last MMA to the end of its stores.
    #[inline]
    fn end_cycles(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let p = &self.parameters;
        let [m, n] = config.tile_of_d();
        let written = f64::from(m) * f64::from(n) * f64::from(config.d.size_bytes());
        // A block whose threads take all registers is alone on its SM, so nothing hides its start
        // and end.
        let has_all = config.schedule == Schedule::Simt && config.accumulators() > 64;
        let switch = if has_all { p.alone_cycles } else { p.switch_cycles };
        // Words and elements that threads store one by one from registers, if rows are not
        // multiples of 16 bytes.
        let columns = problem.n / config.accumulators_per_element();
        let row = columns.saturating_mul(config.d.size_bytes());
        if config.schedule == Schedule::Multistage && !row.is_multiple_of(16) {
            let cycles = if row.is_multiple_of(4) { p.word_cycles } else { p.odd_cycles };
            return switch + f64::from(m) * f64::from(n.min(columns)) * cycles;
        }
        let by_rows = match (config.is_warp_specialised(), config.store) {
            (true, StoreMethod::Direct) if config.swap => {
                let quick = config.consumers() == 1 && (m.is_multiple_of(16) || m < 16);
                let high = f64::from(m.saturating_sub(64));
                (if quick { p.exchanged_cycles } else { p.exchanged_more_cycles })
                    + high * p.exchanged_row_cycles
            }
            (true, StoreMethod::Direct) => {
                p.direct_cycles + p.row_cycles * f64::from(config.rows_of_consumer())
            }
            // Threads wait for each other before and after each part.
            (true, StoreMethod::Chunks) if narrow(config) => {
                let parts = config.rows_of_consumer() / 64 * config.store_parts();
                f64::from(parts) * p.part_cycles
            }
            _ => 0.0,
        };
        let conflicts = p.bank_conflict_share * bank_conflicts(config);
        // L2 lines that parts of a row share with their neighbours.
        let width =
            if config.swap { n.min(WGMMA_ROWS) } else { config.store_columns().min(columns) };
        let width = width.saturating_mul(config.d.size_bytes());
        let is_whole = row.is_multiple_of(L2_LINE_BYTES) && width.is_multiple_of(L2_LINE_BYTES);
        let torn = if is_whole { 0.0 } else { p.torn_lines / f64::from(width.max(1)) };
        switch + by_rows + written / p.store_bytes * (1.0 + conflicts + torn)
    }

    /// Returns the cycles of the epilogue's function for one tile. We do not know what `pairs`
    /// compute, so they count as SwiGLU.
    #[inline]
    fn function_cycles(&self, config: &GemmConfig) -> f64 {
        let [m, n] = config.mma_tile().map(f64::from);
        let is_slow = config.pairs || config.epilogue.activation == Some(Activation::Gelu);
        if is_slow { m * n * self.parameters.function_cycles } else { 0.0 }
    }

    /// Returns the MMA cycles per step.
    #[inline]
    fn step_cycles(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let p = &self.parameters;
        let [m, n, k] = products_of(config);
        match config.schedule {
            // 128 multiply-adds per cycle.
            Schedule::Simt => m * n * k / 128.0 / share_of_products(config),
            Schedule::Multistage => {
                let products = m * n * k / multiplications(config.a);
                // Narrow copies take more instructions than the MMA. 16-bit elements too misaligned
                // for `cp.async` go through registers. Copies beyond the matrices are skipped: on
                // average, a tile has `problem.m / rows` rows.
                let [rows, columns, steps] = config.tiles(problem).map(f64::from);
                let lines = f64::from(problem.m) / rows + f64::from(problem.n) / columns;
                let copies =
                    lines * f64::from(problem.k) / steps * f64::from(config.a.size_bytes());
                let copies = copies / f64::from(config.alignment.max(1));
                let rate = p.mma_sync_share * self.machine.mma_sync_per_cycle / HOPPER_MMA_SYNC;
                let products = products / rate;
                if config.alignment < 4 {
                    products + p.round_trip_cycles.max(copies * p.load_cycles)
                } else {
                    products.max(copies * p.copy_cycles)
                }
            }
            Schedule::Cooperative | Schedule::Pingpong => {
                // A 64 x n instruction takes n / 2 cycles, or as long as it takes to read its
                // operands from shared memory.
                let instructions = m / 64.0 * k * f64::from(config.a.size_bytes()) / 32.0;
                let width = (n / 2.0).max(16.0 + n / 4.0);
                instructions * width
            }
        }
    }

    /// Returns the floating-point operations of all tiles, including the parts beyond the matrices.
    #[inline]
    fn flops(&self, config: &GemmConfig, problem: &GemmProblem) -> f64 {
        let [rows, columns, steps] = config.tiles(problem).map(f64::from);
        let [m, n, k] = products_of(config);
        2.0 * rows * m * columns * n * steps * k * f64::from(problem.batch)
    }
}

/// Returns whether TMA stores D in parts narrower than 128 bytes, or in parts of transposed rows.
#[inline]
fn narrow(config: &GemmConfig) -> bool {
    config.swap || config.store_columns() < config.line_columns()
}

/// Returns the extra shared-memory wavefronts per store: `ways - 1` for a `ways`-way bank conflict.
/// Unswizzled rows have none if they have an odd count of 16-byte units.
#[inline]
fn bank_conflicts(config: &GemmConfig) -> f64 {
    let columns = config.store_columns();
    let is_unswizzled = config.is_warp_specialised()
        && !config.swap
        && matches!(config.store, StoreMethod::Rows | StoreMethod::Chunks)
        && columns != config.line_columns();
    let units = (columns * config.d.size_bytes() / 16).max(1);
    let ways = if is_unswizzled { 1 << units.trailing_zeros().min(3) } else { 1 };
    f64::from(ways - 1)
}

/// Returns M, N and K of a stage's MMA.
#[inline]
fn products_of(config: &GemmConfig) -> [f64; 3] {
    let [_, n] = config.mma_tile();
    [config.rows_of_products(), n, config.tile[2]].map(f64::from)
}

/// Returns how much of the instructions without tensor cores are FMAs, as a share. The others are
/// vector loads of operands, copies with their address computations, and the overhead per step.
#[inline]
fn share_of_products(config: &GemmConfig) -> f64 {
    let [m, n, k] = config.tile.map(f64::from);
    let [rows, columns] = config.thread_tile().map(f64::from);
    let copies = 1.5 * (m + n) / f64::from(config.threads());
    let products = rows * columns;
    products / (products + (rows + columns) / 4.0 + copies + 60.0 / k)
}

/// Returns the multiply-adds per cycle and SM that tensor cores reach for a type.
fn multiplications(scalar: Scalar) -> f64 {
    // `f64` does not scale like the narrower types.
    if scalar == Scalar::F64 { 128.0 } else { 4096.0 / f64::from(scalar.size_bytes()) }
}

/// Returns the energy per operation, relative to bf16 with wide instructions.
#[inline]
fn energy_of(config: &GemmConfig) -> f64 {
    let narrow = 1.0 + 6.0 / f64::from(config.mma_tile()[1].max(8));
    let kind = match config.schedule {
        Schedule::Simt => 8.0,
        Schedule::Multistage => 1.4,
        Schedule::Cooperative | Schedule::Pingpong => 1.0,
    };
    narrow * kind * f64::from(config.a.size_bytes()) / 2.0
}
