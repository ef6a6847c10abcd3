//! Configurations for a problem, where nothing has been measured.

use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::Raster;

use super::config::{GemmConfig, Schedule, StoreForm};
use super::error::GemmError;
use super::model::{GemmModel, Machine};
use super::problem::GemmProblem;
use super::regime::Regime;

/// The most configurations that are returned: as many as anyone measures.
const MOST: usize = 12;
/// The most stages: beyond, tiles come no sooner.
const STAGES: u32 = 12;

/// Tiles of the kernel without tensor cores, and the most stages. Where few warps share an SM, a long step
/// along K waits for its instructions.
const SIMT: [([u32; 3], u32); 4] =
    [([128, 256, 32], 3), ([128, 128, 32], 3), ([128, 64, 16], 3), ([64, 64, 16], 4)];

/// Tiles of the multistage kernel.
const SM80: [[u32; 2]; 4] = [[128, 256], [128, 128], [64, 128], [64, 64]];

impl GemmConfig {
    /// The configurations for a problem, on a device with `sms` SMs, with the target, the types, the
    /// contiguous modes and the epilogue of this one: the fastest first, as [`GemmModel`] predicts, at most 12. All of them
    /// have a kernel that takes the problem: where tensor copies cannot, one whose threads copy, down to element by
    /// element.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Schedule};
    ///
    /// let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    /// let best = |m, n, k| wanted.defaults(&GemmProblem::new(m, n, k), 132).swap_remove(0);
    /// assert_eq!(best(8192, 8192, 8192).tile, [256, 200, 64]);
    /// assert_eq!(best(4096, 4096, 4096).tile, [128, 256, 64]);
    /// assert_eq!(best(1024, 1024, 1024).tile, [64, 128, 64]);
    /// // Without tensor cores.
    /// let simt = GemmConfig::simt(Target::SM_90A, Scalar::F32);
    /// let of = |size| simt.defaults(&GemmProblem::new(size, size, size), 132).swap_remove(0).tile;
    /// assert_eq!([4096, 2048, 1024].map(of), [[128, 256, 32], [128, 128, 32], [128, 64, 16]]);
    /// // Rows of 1001 elements of 16 bits are no multiples of 16 bytes: they are copied, or a small product does without.
    /// assert!(best(4096, 4096, 4001).repack);
    /// let odd = best(64, 64, 101);
    /// assert_eq!((odd.schedule, odd.alignment), (Schedule::Multistage, 2));
    /// ```
    pub fn defaults(&self, problem: &GemmProblem, sms: u32) -> Vec<GemmConfig> {
        let mut all = self.of_sm90(problem, sms);
        if all.first().is_some_and(|config| config.repack) {
            // Small products are sooner done without copies.
            all.extend(self.of_threads(problem));
            return ranked(&all, problem, sms).collect();
        }
        if all.is_empty() {
            all = self.of_threads(problem);
            sort(&mut all, problem, sms);
        }
        all
    }

    /// The first of the [`defaults`](GemmConfig::defaults).
    ///
    /// # Errors
    /// Those of [`GemmProblem::strides`], where no configuration takes the problem; [`GemmError::NoConfig`]: there are no
    /// such types, or each configuration refuses the problem.
    pub fn best(&self, problem: &GemmProblem, sms: u32) -> Result<GemmConfig, GemmError> {
        let first = self.defaults(problem, sms).into_iter().next();
        first.ok_or_else(|| {
            if let Err(error) = problem.strides(self) {
                return error;
            }
            // The schedules that every target has.
            let tried = match self.a {
                Scalar::F32 => self.wanted(GemmConfig::simt(self.target, self.a)),
                _ => self.wanted(GemmConfig::sm80(self.target, self.a, SM80[0])),
            };
            let last = tried.check().and_then(|()| tried.check_problem(problem).map(|_| ()));
            GemmError::NoConfig { last: last.err().map(Box::new) }
        })
    }

    /// The configurations of the warp-specialised kernel with the target, the types, the contiguous modes and the epilogue
    /// of this one, and worth a comparison for a problem: tiles of 64 to 256 rows of an instruction by every
    /// multiple of 8 columns, operands as they are and exchanged, one and two swizzle rows deep, tiles shared or
    /// each of a warp group's own, clusters where pitches are not aligned to lines of the L2 cache. Not all have a
    /// kernel: see [`check`](GemmConfig::check).
    pub(crate) fn candidates(&self, problem: &GemmProblem) -> Vec<GemmConfig> {
        if self.target != Target::SM_90A || self.a == Scalar::F32 {
            return Vec::new();
        }
        let base = self.wanted(GemmConfig::sm90(self.a, [128, 128]));
        let repack = base.unaligned_operands(problem, 16).into_iter().any(|unaligned| unaligned);
        let base = GemmConfig { repack, ..base };
        // Copies are aligned to lines of the L2 cache.
        let [a, b, _] = base.unaligned_operands(problem, 128);
        let unaligned = !repack && (a || b);
        let clusters: &[u32] = if unaligned { &[1, 2] } else { &[1] };
        // Tiles lower than an instruction are for matrices that are, where operands cannot be exchanged.
        let heights = [256, 192, 128, 64].into_iter();
        let heights = heights.chain([32, 16].into_iter().filter(|m| problem.m <= *m));
        let mut all = Vec::new();
        for (rows, columns) in heights.flat_map(|m| (1..=32).rev().map(move |n| (m, 8 * n))) {
            let forms = [
                (Schedule::Cooperative, false),
                (Schedule::Pingpong, false),
                (Schedule::Cooperative, true),
            ];
            for (schedule, swap) in forms {
                let [m, n] = if swap { [columns, rows] } else { [rows, columns] };
                let deep = if m * n <= 128 * 128 { 2 } else { 1 };
                for (lines, &cluster) in
                    (1..=deep).flat_map(|k| clusters.iter().map(move |c| (k, c)))
                {
                    let tile = [m, n, base.tile[2] * lines];
                    let config = GemmConfig { schedule, swap, cluster, tile, ..base };
                    // More accumulators leave the producer, or two tiles of a thread block, too few registers.
                    let most = if schedule == Schedule::Pingpong { 192 } else { 200 };
                    if config.accumulators() > most {
                        continue;
                    }
                    let ready = |store| config.ready(store, problem);
                    let chunks = !swap && n.is_multiple_of(128 / base.d.size_bytes());
                    let whole = ready(if chunks { StoreForm::Chunks } else { StoreForm::Rows });
                    all.push(whole);
                    if schedule == Schedule::Cooperative {
                        all.extend(
                            whole.splits_of(problem).map(|splits| GemmConfig { splits, ..whole }),
                        );
                    }
                    if chunks && config.consumers() == 2 && config.accumulators() == 128 {
                        all.push(ready(StoreForm::Overlapped));
                    }
                }
            }
        }
        all
    }

    /// Splits that make about as many blocks of few tiles as a device has SMs, or half as many, each with 4 steps or more.
    fn splits_of(&self, problem: &GemmProblem) -> impl Iterator<Item = u32> + use<> {
        let [rows, columns, steps] = self.tiles(problem);
        let tiles = u64::from(rows) * u64::from(columns) * u64::from(problem.batch);
        let sms = u64::from(Machine::H200.sms);
        let most = (sms / tiles.max(1)).min(64).min(u64::from(steps / 4)) as u32;
        // As many as leave none without steps.
        let full = move |splits: u32| steps.div_ceil(steps.div_ceil(splits.max(1)));
        [most, most / 2, most / 4].map(full).into_iter().filter(|splits| *splits > 1)
    }

    /// The configuration with this way to write D and with all that follows from its tile.
    fn ready(self, store: StoreForm, problem: &GemmProblem) -> GemmConfig {
        let [m, n, _] = self.tile;
        // Short matrices with a long sum have lost by early launches with small tiles, for no known reason.
        let small = [[64, 128], [128, 64]].contains(&[m, n]);
        let programmatic = !(problem.m <= 256 && problem.k >= 4096 && small);
        let (raster, registers) = (self.usual_raster(problem), self.usual_registers());
        let config = GemmConfig { store, raster, registers, programmatic, ..self };
        config.with_most_stages(STAGES)
    }

    /// The first of the candidates that have a kernel for the problem, in the model's order.
    fn of_sm90(&self, problem: &GemmProblem, sms: u32) -> Vec<GemmConfig> {
        let fits =
            |config: &GemmConfig| config.check().is_ok() && config.check_problem(problem).is_ok();
        ranked(&self.candidates(problem), problem, sms).filter(fits).take(MOST).collect()
    }

    /// Returns of A, B and D whether its pitch or its batch stride is no multiple of `bytes`.
    pub(super) fn unaligned_operands(&self, problem: &GemmProblem, bytes: u64) -> [bool; 3] {
        let Ok(strides) = problem.strides(self) else { return [false; 3] };
        let of = |[pitch, next]: [u64; 2], scalar: Scalar| {
            let unaligned =
                |stride: u64| !(stride * u64::from(scalar.size_bytes())).is_multiple_of(bytes);
            unaligned(pitch) || (problem.batch > 1 && unaligned(next))
        };
        [of(strides.a, self.a), of(strides.b, self.b), of(strides.d, self.d)]
    }

    fn of_threads(&self, problem: &GemmProblem) -> Vec<GemmConfig> {
        let mut all = Vec::new();
        let size = self.a.size_bytes();
        if self.a == Scalar::F32 {
            for (tile, stages) in SIMT {
                let base = self.wanted(GemmConfig::simt(self.target, self.a));
                all.push(GemmConfig { tile, ..base }.with_most_stages(stages));
            }
        } else {
            for tile in SM80 {
                let base = self.wanted(GemmConfig::sm80(self.target, self.a, tile));
                // A swizzle width of 2048 rows. Blocks of small tiles share an SM.
                let base = GemmConfig { raster: Raster::Swizzle { width: 2048 / tile[0] }, ..base };
                let most = if tile[0] * tile[1] > 128 * 128 { 4 } else { 3 };
                let aligned =
                    [16, 8, 4, size].into_iter().map(|alignment| GemmConfig { alignment, ..base });
                let mut aligned = aligned.filter(|config| config.alignment >= size);
                let found = aligned.find(|config| config.check_problem(problem).is_ok());
                all.extend(found.map(|config| config.with_most_stages(most)));
            }
        }
        all.retain(|config| config.check().is_ok() && config.check_problem(problem).is_ok());
        all
    }

    /// A configuration with what this one asks for.
    fn wanted(&self, config: GemmConfig) -> GemmConfig {
        let GemmConfig { target, a, b, c, d, acc, major_a, major_b, epilogue, .. } = *self;
        GemmConfig { target, a, b, c, d, acc, major_a, major_b, epilogue, ..config }
    }

    /// About how many cycles a problem takes with a kernel whose threads copy: rounds of tiles, each as long as its products or its copies take, and
    /// what a switch of tiles costs.
    fn cycles(&self, problem: &GemmProblem, sms: u32) -> f64 {
        let [m, n, k] = self.tile.map(f64::from);
        let [rows, columns, steps] = self.tiles(problem).map(f64::from);
        let rounds = (rows * columns * f64::from(problem.batch) / f64::from(sms.max(1))).ceil();
        // FMAs of an SM in a cycle, and bytes that it fetches.
        let rate = match self.schedule {
            Schedule::Simt => 128.0 * self.share_of_products(),
            Schedule::Multistage | Schedule::Cooperative | Schedule::Pingpong => {
                2048.0 * 2.0 / f64::from(self.a.size_bytes())
            }
        };
        // No other block hides the start and the end of one whose threads have all registers.
        let alone = self.schedule == Schedule::Simt && self.accumulators() > 64;
        let switch = if alone { 30_000.0 } else { 1500.0 };
        let products = f64::from(self.rows_of_products()) * n * k / rate;
        let bytes = f64::from(self.stage_bytes()) / 55.0;
        rounds * (steps * products.max(bytes) + switch + 0.07 * m * n)
    }

    /// About which share of the instructions of the kernel without tensor cores are products: beside them there are
    /// loads of operands in vectors of 4, copies with their addresses, and what each step along K costs.
    fn share_of_products(&self) -> f64 {
        let [m, n, k] = self.tile.map(f64::from);
        let [rows, columns] = self.thread_tile().map(f64::from);
        let copies = 1.5 * (m + n) / f64::from(self.threads());
        let products = rows * columns;
        products / (products + (rows + columns) / 4.0 + copies + 60.0 / k)
    }
}

/// The configurations in the model's order.
fn ranked(
    configs: &[GemmConfig],
    problem: &GemmProblem,
    sms: u32,
) -> impl Iterator<Item = GemmConfig> {
    let model = GemmModel::of(Machine { sms: sms.max(1), ..Machine::H200 });
    let regime = Regime::of_sizes([problem.m, problem.n, problem.k]).first();
    let regime = regime.copied().unwrap_or(Regime::Burst);
    model.rank(configs, problem, regime).into_iter().map(|(config, _)| config)
}

/// The fastest first, by the estimate.
fn sort(all: &mut [GemmConfig], problem: &GemmProblem, sms: u32) {
    all.sort_by(|a, b| a.cycles(problem, sms).total_cmp(&b.cycles(problem, sms)));
}
