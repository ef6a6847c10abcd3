//! The rules that a configuration must satisfy. [`GemmConfig::check`] applies them in the order of
//! the words in the configuration's name; each rule returns the sentence that the error shows.
//! `names.rs` calls the rules, each in the row of its word.

use crate::arch::Major;
use crate::ir::Target;
use crate::ir::types::Scalar;

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{BatchMode, LoadMethod, Schedule, Splits, StoreMethod};
use crate::kernels::gemm::config::{GROUP, GemmConfig, SM_REGISTERS};
use crate::tensor::copy::StagedStore;

/// The most registers per thread for elements of D. The rest of the 255 hold addresses, descriptors
/// and counters.
const MAX_ACCUMULATORS: u32 = 208;

impl GemmConfig {
    /// Turns a broken rule into the error that names the field and its value.
    pub(crate) fn rule(
        &self,
        field: &'static str,
        value: impl std::fmt::Display,
        rule: Option<&'static str>,
    ) -> Result<(), GemmError> {
        match rule {
            Some(rule) => Err(GemmError::Field { field, value: value.to_string(), rule }),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn check_target(&self) -> Result<(), GemmError> {
        let GemmConfig { schedule, target, .. } = *self;
        if self.is_warp_specialised() && !target.offers(Target::SM_90A) {
            return Err(GemmError::Target { schedule, target });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_inputs(&self) -> Result<(), GemmError> {
        let GemmConfig { schedule, a, b, acc, .. } = *self;
        use Scalar as S;
        let inputs = match (schedule, a) {
            (Schedule::Simt, S::F32 | S::F16 | S::Bf16) => a == b,
            (Schedule::Simt, _) => false,
            (Schedule::Multistage, S::F64) | (_, S::Tf32 | S::F16 | S::Bf16) => a == b,
            (_, S::F8E4M3 | S::F8E5M2) => b.is_f8(),
            (_, S::I8 | S::U8) => matches!(b, S::I8 | S::U8),
            _ => false,
        };
        if !inputs || acc != self.inputs().accumulator() {
            return Err(GemmError::Inputs { schedule, a, b, acc });
        }
        self.check_floats(a)
    }

    /// 8-bit floats need a target that can multiply and convert them.
    fn check_floats(&self, scalar: Scalar) -> Result<(), GemmError> {
        let target = self.target;
        if scalar.is_f8() && !target.offers(Target::SM_89) {
            return Err(GemmError::SmallFloats { scalar, target });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_output(&self, operand: char, scalar: Scalar) -> Result<(), GemmError> {
        use Scalar as S;
        let takes = match operand {
            _ if self.a == S::F64 => scalar == S::F64,
            'D' => StagedStore::takes(scalar),
            _ => matches!(scalar, S::F32 | S::F16 | S::Bf16 | S::I32),
        };
        if !takes {
            return Err(GemmError::Output { operand, scalar });
        }
        self.check_floats(scalar)
    }

    /// Checks the contiguous modes. Operands that the MMA cannot read must be transposed by
    /// repacking.
    #[inline]
    pub(crate) fn check_majors(&self) -> Result<(), GemmError> {
        let transposed = self.takes_mn_major() || self.transposes_copies();
        for (operand, scalar, major) in [('A', self.a, self.major_a), ('B', self.b, self.major_b)] {
            if major == Major::Mn && !transposed {
                return Err(GemmError::MajorMode { operand, scalar, major });
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn check_tile(&self) -> Result<(), GemmError> {
        let tile = |mode, extent, holds: bool, rule| {
            if holds { Ok(()) } else { Err(GemmError::Tile { mode, extent, rule }) }
        };
        let [m, n, k] = self.tile;
        let line = 128 / self.a.size_bytes();
        let of_product = self.of_product();
        match self.schedule {
            Schedule::Simt => {
                let sides = [32, 64, 128, 256];
                let rule = "32, 64, 128 or 256";
                tile('N', n, sides.contains(&n), rule)?;
                // A warp has 4 x 128, 16 x 64, 32 x 64 or 64 x 32 elements.
                let whole = match m {
                    4 => n == 256,
                    16 => n >= 64,
                    _ => sides.contains(&m) && (m >= 64 || n >= 64),
                };
                let rule = "4 if N is 256, or 16, 32, 64, 128 or 256 (at least 64 if N is 32)";
                tile('M', m, whole, rule)?;
                // Each thread copies the same number of elements.
                let threads = self.threads().max(1);
                let whole = |side: u32| (side * k).is_multiple_of(threads);
                let holds = [8, 16, 32].contains(&k) && whole(m) && whole(n);
                let rule = "8, 16 or 32, so that all threads copy the same number of elements";
                tile('K', k, holds, rule)
            }
            Schedule::Multistage => {
                let whole = |extent: u32| [32, 64, 128, 256].contains(&extent);
                let rule = "32, 64, 128 or 256";
                tile('M', m, whole(m), rule)?;
                tile('N', n, whole(n), rule)?;
                // Lines along M or N are at least 64 bytes too. For `f64`, two instructions take a
                // whole line.
                let half = k == line / 2 && self.a.bits() < 64;
                tile(
                    'K',
                    k,
                    k == line || half,
                    "128 bytes, or 64 bytes if elements are narrower than 64 bits",
                )
            }
            Schedule::Cooperative | Schedule::Pingpong => {
                // Along the MMA's rows and along its columns.
                let rows = |mode, extent: u32| {
                    if self.is_pingpong() {
                        let rule = "64 or 128 in the ping-pong schedule";
                        tile(mode, extent, [64, 128].contains(&extent), rule)
                    } else if self.swap {
                        let holds = [64, 128, 192, 256].contains(&extent);
                        tile(mode, extent, holds, "64, 128, 192 or 256")
                    } else {
                        let holds = [16, 32, 64, 128, 192, 256].contains(&extent);
                        tile(mode, extent, holds, "16, 32, 64, 128, 192 or 256")
                    }
                };
                let columns = |mode, extent: u32| {
                    let holds = (8..=256).contains(&extent) && extent.is_multiple_of(8);
                    tile(mode, extent, holds, "a multiple of 8 up to 256")?;
                    let wide = extent.is_multiple_of(16) || matches!(extent, 8 | 24);
                    let holds = wide || self.acc != Scalar::I32;
                    tile(
                        mode,
                        extent,
                        holds,
                        "8, 24 or a multiple of 16, as integer `wgmma` requires",
                    )
                };
                if self.swap {
                    columns('M', m)?;
                    rows('N', n)?;
                } else {
                    rows('M', m)?;
                    columns('N', n)?;
                }
                let whole = of_product.major_a == Major::K || m.is_multiple_of(64);
                tile('M', m, whole, "a multiple of 64 if A is contiguous along M")?;
                let whole = of_product.major_b == Major::K || n.is_multiple_of(64);
                tile('N', n, whole, "a multiple of 64 if B is contiguous along N")?;
                let whole = k > 0 && k.is_multiple_of(line) && k <= 4 * line;
                tile('K', k, whole, "128, 256, 384 or 512 bytes")
            }
        }
    }

    #[inline]
    pub(crate) fn swap_rule(&self) -> Option<&'static str> {
        if !self.swap {
            None
        } else if self.schedule != Schedule::Cooperative {
            Some("only the cooperative schedule can swap operands")
        } else if self.d.bits() != 16 {
            Some("only a D with 16-bit elements can be stored transposed")
        } else if self.store == StoreMethod::Overlapped {
            Some("the store method `overlapped` cannot transpose")
        } else {
            None
        }
    }

    pub(crate) fn promote_rule(&self) -> Option<&'static str> {
        if !self.is_promoted() {
            None
        } else if !self.is_warp_specialised() || !self.a.is_f8() {
            Some("it is only for `wgmma` with 8-bit floats, whose accumulators have few bits")
        } else if self.store == StoreMethod::Overlapped {
            Some(
                "the store method `overlapped` leaves no registers for a second set of accumulators",
            )
        } else {
            None
        }
    }

    pub(crate) fn pairs_rule(&self) -> Option<&'static str> {
        let [_, n, _] = self.tile;
        if !self.pairs {
            None
        } else if self.swap {
            Some("with swapped operands no thread holds two columns of a row")
        } else if self.is_warp_specialised() && !n.is_multiple_of(16) {
            Some("the tile must have a multiple of 16 columns")
        } else {
            None
        }
    }

    pub(crate) fn batch_rule(&self) -> Option<&'static str> {
        match self.batch {
            BatchMode::Uniform => None,
            BatchMode::Grouped => self.grouped_rule(),
            BatchMode::Ragged => self.ragged_rule(),
        }
    }

    fn grouped_rule(&self) -> Option<&'static str> {
        if self.major_a == Major::Mn {
            Some(
                "A must be contiguous along K, because a group can start at any row and TMA boxes start at multiples of 16 bytes",
            )
        } else if !self.is_warp_specialised() {
            Some("grouped GEMM needs a warp-specialised kernel for sm_90a")
        } else if self.swap || self.cluster != [1, 1] || self.splits.is_split() {
            Some("grouped GEMM does not support swapped operands, clusters or splits")
        } else if self.load != LoadMethod::Tensor || self.store == StoreMethod::Direct {
            Some("grouped GEMM must load A and B, and store D, with TMA")
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn cluster_rule(&self) -> Option<&'static str> {
        if !self.is_warp_specialised() && self.cluster != [1, 1] {
            Some("only warp-specialised kernels for sm_90a can use clusters")
        } else if !self.cluster.iter().all(|blocks| [1, 2, 4, 8].contains(blocks))
            || self.cluster_blocks() > 8
        {
            Some("a cluster must have 1, 2, 4 or 8 blocks along each mode, and at most 8 in all")
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn splits_rule(&self) -> Option<&'static str> {
        if self.splits == Splits::SplitK(1) {
            None
        } else if self.is_pingpong() {
            Some("the ping-pong schedule cannot split K")
        } else if self.store == StoreMethod::Overlapped {
            Some("the store method `overlapped` cannot split K")
        } else if self.store == StoreMethod::Direct && self.consumers() > 1 {
            // Here, and with more accumulators per thread, `ptxas` spills.
            Some("the store method `direct` can split K only with one consumer warp group")
        } else if !self.is_warp_specialised() && self.accumulators() > 64 {
            Some("this schedule can split K only with at most 64 accumulators per thread")
        } else if self.splits != Splits::StreamK
            && self.consumers() == 2
            && self.accumulators() > 136
            && (self.swap || self.d.bits() == 32)
        {
            Some(
                "two consumer warp groups with more than 136 accumulators per thread can split K only if D has 16 bits and operands are not swapped",
            )
        } else if !(1..=64).contains(&self.splits.even()) || self.splits == Splits::SplitK(0) {
            Some("the split count must be 1 to 64")
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn alignment_rule(&self) -> Option<&'static str> {
        let (alignment, size) = (self.alignment, self.a.size_bytes());
        let (holds, rule) = match self.schedule {
            Schedule::Cooperative | Schedule::Pingpong => (alignment == 16, "TMA needs 16 bytes"),
            Schedule::Multistage => (
                alignment.is_power_of_two() && (size..=16).contains(&alignment),
                "it must be a power of two from the element size to 16 bytes",
            ),
            Schedule::Simt => (
                alignment == size,
                "the `simt` schedule copies single elements, so it must be the element size",
            ),
        };
        (!holds).then_some(rule)
    }

    #[inline]
    pub(crate) fn load_rule(&self) -> Option<&'static str> {
        match self.load {
            LoadMethod::Tensor => None,
            _ if !self.is_warp_specialised() => {
                Some("only warp-specialised kernels, which load with TMA, need it")
            }
            LoadMethod::Repack => None,
            // A producer that has given registers away has too few for the vectors it fetches.
            LoadMethod::Threads if self.consumers() > 1 => {
                Some("loads by threads support only one consumer warp group")
            }
            LoadMethod::Threads if self.cluster != [1, 1] => Some("clusters need TMA loads"),
            LoadMethod::Threads if self.store != StoreMethod::Direct => {
                Some("loads by threads need the store method `direct`")
            }
            LoadMethod::Threads => None,
        }
    }

    #[inline]
    pub(crate) fn store_rule(&self) -> Option<&'static str> {
        let [_, n] = self.tile_of_d();
        match self.store {
            StoreMethod::Direct => None,
            _ if !self.is_warp_specialised() => {
                Some("only warp-specialised kernels for sm_90a can store with TMA")
            }
            StoreMethod::Rows => (!(n * self.d.size_bytes()).is_multiple_of(16))
                .then_some("a row of the tile must be a multiple of 16 bytes"),
            StoreMethod::Chunks => self.chunk_columns().is_none().then_some(
                "the tile cannot be cut into equal parts of up to 64 columns without bank conflicts",
            ),
            StoreMethod::Overlapped if self.is_pingpong() => {
                Some("the ping-pong schedule already overlaps stores with MMAs")
            }
            StoreMethod::Overlapped if self.d.bits() != 16 || self.acc == Scalar::I32 => Some(
                "D must have 16-bit elements and floating-point accumulators",
            ),
            StoreMethod::Overlapped
                if self.tile[1] != 4 * self.line_columns() || self.rows_of_consumer() != 64 =>
            {
                Some("each consumer warp group must have 64 rows and 256 columns")
            }
            StoreMethod::Overlapped => None,
        }
    }

    pub(crate) fn programmatic_rule(&self) -> Option<&'static str> {
        let offers = self.target.offers(Target::SM_90);
        (self.programmatic && !offers).then_some("programmatic launches need sm_90")
    }

    /// Checks the block's thread count and shared memory.
    #[inline]
    pub(crate) fn check_block(&self) -> Result<(), GemmError> {
        let threads = self.threads();
        if !(32..=1024).contains(&threads) {
            return Err(GemmError::Threads { threads });
        }
        let (needed, available) = (self.shared_bytes(), self.target.max_shared_bytes());
        if needed > available {
            return Err(GemmError::SharedMemory { needed, available });
        }
        Ok(())
    }

    /// Returns the registers per thread that hold elements of A and B in the kernel without tensor
    /// cores: those of two steps along K, and of the next tiles if they are converted on the way.
    #[inline]
    fn waiting(&self) -> u32 {
        if self.schedule != Schedule::Simt {
            return 0;
        }
        let ([m, n, k], [rows, columns]) = (self.tile, self.thread_tile());
        let tiles = if self.a == Scalar::F32 { 0 } else { (m + n) * k / self.threads() };
        2 * (rows + columns) + tiles
    }

    #[inline]
    pub(crate) fn check_registers(&self) -> Result<(), GemmError> {
        let registers = self.registers;
        let error = |rule| Err(GemmError::Registers { registers, rule });
        let accumulators = self.accumulators() * if self.is_promoted() { 2 } else { 1 };
        let kept = if self.store == StoreMethod::Overlapped { self.kept_words() } else { 0 };
        // Elements of C and of a bias are loaded a few at a time. So are elements of A and B that
        // `cp.async` cannot copy.
        let loads = self.epilogue.beta || self.epilogue.bias.is_some();
        let loads = if self.is_warp_specialised() && loads { 48 } else { 0 };
        let single = match self.schedule {
            Schedule::Multistage if self.alignment < 4 => 128 / self.a.size_bytes(),
            _ => 0,
        };
        // Addresses in the workspace, and of the rows of D that threads store.
        let parts = match self.splits {
            Splits::StreamK => 16,
            splits if splits.is_split() => 8,
            _ => 0,
        };
        let rows = match (self.is_warp_specialised(), self.store, self.splits.is_split()) {
            // Tiles fetched by threads are small, so that addresses of D's rows take few registers.
            _ if self.producers() == 3 => 8,
            (true, StoreMethod::Direct, true) => 32,
            (true, StoreMethod::Direct, false) => 24,
            _ => 0,
        };
        // Element coordinates, and what the epilogue makes of two accumulators.
        let pairs = if self.pairs && self.is_warp_specialised() { 32 } else { 0 };
        let parts = parts + rows + pairs;
        let needed = accumulators + kept + loads + parts + single + self.waiting();
        // What the launch gives each thread. Operands and addresses need part of it.
        let entry = (SM_REGISTERS / self.threads().max(1)).min(255) / 8 * 8;
        let available =
            |registers: u32, others: u32| registers.saturating_sub(others).min(MAX_ACCUMULATORS);
        let max = match (registers, self.is_warp_specialised()) {
            (Some(_), false) => {
                return error("only warp-specialised kernels can redistribute registers");
            }
            (None, true) => available(entry, 32),
            (None, false) if self.schedule == Schedule::Simt => available(entry, 32),
            // `f64` operands take twice the registers.
            (None, false) if self.a == Scalar::F64 => available(entry, 128),
            (None, false) => available(entry, 96),
            (Some([fetch, multiply]), true) => {
                let legal = |count: u32| count.is_multiple_of(8) && (24..=256).contains(&count);
                if !legal(fetch) || !legal(multiply) {
                    return error("each count must be a multiple of 8 from 24 to 256");
                }
                // Threads that fetch hold vectors in registers. A thread that only starts TMA
                // copies holds none.
                let (less, more, rule) = if self.load == LoadMethod::Threads {
                    (multiply, fetch, "consumers must give registers to producers")
                } else {
                    (fetch, multiply, "producers must give registers to consumers")
                };
                if less > entry || more < entry {
                    return error(rule);
                }
                if GROUP * (self.producers() * fetch + self.consumers() * multiply) > SM_REGISTERS {
                    return error("together they need more than the SM's 65536 registers");
                }
                // `ptxas` allocates for the launch's register count, whatever `setmaxnreg` moves
                // later.
                let three = if self.consumers() == 3 { available(entry, 32) } else { u32::MAX };
                available(multiply, 32).min(three)
            }
        };
        if needed > max {
            return Err(GemmError::Accumulators { needed, max });
        }
        Ok(())
    }
}
