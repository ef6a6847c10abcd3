//! Configurations for a problem, where nothing has been measured.

use crate::ir::{Scalar, Target};
use crate::tensor::Raster;

use super::config::{GemmConfig, Schedule, StoreForm};
use super::error::GemmError;
use super::problem::GemmProblem;

/// Tiles of the warp-specialised kernel, and how they are written: M, N, multiples of 128 bytes along K.
const SM90: [([u32; 3], StoreForm); 13] = [
    ([256, 200, 1], StoreForm::Rows),
    ([256, 184, 1], StoreForm::Rows),
    ([256, 128, 1], StoreForm::Chunks),
    ([128, 256, 1], StoreForm::Overlapped),
    ([128, 256, 1], StoreForm::Chunks),
    ([128, 192, 1], StoreForm::Chunks),
    ([128, 128, 1], StoreForm::Chunks),
    ([64, 128, 1], StoreForm::Chunks),
    ([64, 64, 2], StoreForm::Chunks),
    ([64, 64, 1], StoreForm::Chunks),
    ([64, 32, 2], StoreForm::Rows),
    ([32, 32, 2], StoreForm::Rows),
    ([16, 32, 2], StoreForm::Rows),
];

/// Tiles of the kernel without tensor cores, and the most stages. Where few warps share an SM, a long step
/// along K waits for its instructions.
const SIMT: [([u32; 3], u32); 4] =
    [([128, 256, 32], 3), ([128, 128, 32], 3), ([128, 64, 16], 3), ([64, 64, 16], 4)];

/// Tiles of the multistage kernel.
const SM80: [[u32; 2]; 4] = [[128, 256], [128, 128], [64, 128], [64, 64]];

impl GemmConfig {
    /// The configurations for a problem, on a device with `sms` SMs, with the target, the types, the
    /// contiguous modes and the epilogue of this one: the fastest first, by an estimate of the cycles
    /// that their rounds of tiles take. All of them have a kernel that takes the problem: where tensor copies cannot,
    /// one whose threads copy, down to element by element.
    ///
    /// ```
    /// use tilewright::ir::{Scalar, Target};
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
    /// // Rows of 1001 elements of 16 bits are no multiples of 16 bytes.
    /// let odd = best(1024, 1024, 1001);
    /// assert_eq!((odd.schedule, odd.alignment), (Schedule::Multistage, 2));
    /// ```
    pub fn defaults(&self, problem: &GemmProblem, sms: u32) -> Vec<GemmConfig> {
        let mut all = self.of_sm90(problem);
        all.retain(|config| config.check_problem(problem).is_ok());
        sort(&mut all, problem, sms);
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

    fn of_sm90(&self, problem: &GemmProblem) -> Vec<GemmConfig> {
        if self.target != Target::SM_90A || self.a == Scalar::F32 {
            return Vec::new();
        }
        let made = SM90.into_iter().map(|([m, n, lines], store)| {
            let base = GemmConfig::sm90(self.a, [m, n]);
            let tile = [m, n, base.tile[2] * lines];
            // Short matrices with a long sum have lost by early launches, for no known reason.
            let programmatic = !(problem.m <= 256 && problem.k >= 4096 && [m, n] == [64, 128]);
            let raster = base.usual_raster(problem);
            let config = GemmConfig { tile, store, raster, programmatic, ..base };
            let config = self.wanted(config);
            GemmConfig { registers: config.usual_registers(), ..config }.with_most_stages(8)
        });
        made.filter(|config| config.check().is_ok()).collect()
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

    /// About how many cycles a problem takes: rounds of tiles, each as long as its products or its copies take, and
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
        let write = if self.store == StoreForm::Overlapped { 0.02 } else { 0.07 };
        rounds * (steps * products.max(bytes) + switch + write * m * n)
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

/// The fastest first, by the estimate.
fn sort(all: &mut [GemmConfig], problem: &GemmProblem, sms: u32) {
    all.sort_by(|a, b| a.cycles(problem, sms).total_cmp(&b.cycles(problem, sms)));
}
