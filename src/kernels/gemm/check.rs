//! Checks that there is a kernel for a configuration.

use crate::arch::Major;
use crate::ir::{Scalar, Target};

use super::config::{GROUP, GemmConfig, SM_REGISTERS, Schedule, StoreForm};
use super::error::GemmError;

/// The most registers of a thread that hold elements of D: the others of 255 are addresses, descriptors, counters.
const MAX_ACCUMULATORS: u32 = 208;

impl GemmConfig {
    /// Checks that there is a kernel for this configuration.
    ///
    /// # Errors
    /// The first cause that there is none: [`GemmError`] has one variant for each.
    pub fn check(&self) -> Result<(), GemmError> {
        self.check_types()?;
        self.check_tile()?;
        self.check_copies()?;
        self.check_store()?;
        self.check_registers()?;
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

    fn check_types(&self) -> Result<(), GemmError> {
        let GemmConfig { schedule, target, a, b, acc, .. } = *self;
        if self.is_warp_specialised() && !target.offers(Target::SM_90A) {
            return Err(GemmError::Target { schedule, target });
        }
        use Scalar as S;
        let inputs = match schedule {
            Schedule::Simt => matches!(a, S::F32 | S::F16 | S::Bf16) && a == b,
            Schedule::Multistage => matches!(a, S::Tf32 | S::F16 | S::Bf16) && a == b,
            Schedule::Cooperative | Schedule::Pingpong => match a {
                S::Tf32 | S::F16 | S::Bf16 => a == b,
                S::F8E4M3 | S::F8E5M2 => matches!(b, S::F8E4M3 | S::F8E5M2),
                _ => false,
            },
        };
        if !inputs || acc != S::F32 {
            return Err(GemmError::Inputs { schedule, a, b, acc });
        }
        for (operand, scalar) in [('C', self.c), ('D', self.d)] {
            if !matches!(scalar, S::F32 | S::F16 | S::Bf16) {
                return Err(GemmError::Output { operand, scalar });
            }
        }
        // `wgmma` transposes elements of 16 bits only.
        let transposed = !self.is_warp_specialised() || a.bits() == 16;
        for (operand, scalar, major) in [('A', a, self.major_a), ('B', b, self.major_b)] {
            if major == Major::Mn && !transposed {
                return Err(GemmError::MajorMode { operand, scalar, major });
            }
        }
        Ok(())
    }

    fn check_tile(&self) -> Result<(), GemmError> {
        let tile = |mode, extent, holds: bool, rule| {
            if holds { Ok(()) } else { Err(GemmError::Tile { mode, extent, rule }) }
        };
        let [m, n, k] = self.tile;
        let line = 128 / self.a.size_bytes();
        match self.schedule {
            Schedule::Simt => {
                let sides = [32, 64, 128, 256];
                let rule = "32, 64, 128 or 256";
                tile('N', n, sides.contains(&n), rule)?;
                // A warp has 32 x 64 or 64 x 32 elements.
                let whole = sides.contains(&m) && (m >= 64 || n >= 64);
                tile('M', m, whole, "32, 64, 128 or 256, not 32 beside an N of 32")?;
                // Each thread copies the same number of elements.
                let threads = self.threads().max(1);
                let whole = |side: u32| (side * k).is_multiple_of(threads);
                let holds = [8, 16, 32].contains(&k) && whole(m) && whole(n);
                let rule = "8, 16 or 32, such that all threads copy the same number of elements";
                tile('K', k, holds, rule)
            }
            Schedule::Multistage => {
                let whole = |extent: u32| [64, 128, 256].contains(&extent);
                let rule = "64, 128 or 256";
                tile('M', m, whole(m), rule)?;
                tile('N', n, whole(n), rule)?;
                tile('K', k, k == line, "128 bytes")
            }
            Schedule::Cooperative | Schedule::Pingpong => {
                let heights: (&[u32], _) = if self.schedule == Schedule::Pingpong {
                    (&[64, 128], "64 or 128 where warp groups have tiles of their own")
                } else {
                    (&[16, 32, 64, 128, 256], "16, 32, 64, 128 or 256")
                };
                tile('M', m, heights.0.contains(&m), heights.1)?;
                let whole = self.major_a == Major::K || m.is_multiple_of(64);
                tile('M', m, whole, "a multiple of 64 where A is contiguous along M")?;
                let width = (8..=256).contains(&n) && n.is_multiple_of(8);
                tile('N', n, width, "a multiple of 8 up to 256")?;
                let whole = self.major_b == Major::K || n.is_multiple_of(64);
                tile('N', n, whole, "a multiple of 64 where B is contiguous along N")?;
                let whole = k > 0 && k.is_multiple_of(line) && k <= 4 * line;
                tile('K', k, whole, "one to four times 128 bytes")
            }
        }
    }

    fn check_copies(&self) -> Result<(), GemmError> {
        let GemmConfig { stages, cluster, raster, alignment, .. } = *self;
        if !(2..=32).contains(&stages) {
            return Err(GemmError::Stages { stages, least: 2 });
        }
        let cluster_rule = if !self.is_warp_specialised() && cluster != 1 {
            Some("only warp-specialised kernels for sm_90a have clusters")
        } else if self.schedule == Schedule::Pingpong && cluster != 1 {
            Some("warp groups with tiles of their own have no clusters")
        } else if !(1..=2).contains(&cluster) {
            Some("a cluster has 1 or 2 blocks")
        } else {
            None
        };
        if let Some(rule) = cluster_rule {
            return Err(GemmError::Cluster { cluster, rule });
        }
        if !raster.is_valid() {
            return Err(GemmError::Raster { raster });
        }
        let size = self.a.size_bytes();
        let (holds, rule) = match self.schedule {
            Schedule::Cooperative | Schedule::Pingpong => {
                (alignment == 16, "tensor copies have 16")
            }
            Schedule::Multistage => (
                alignment.is_power_of_two() && (size..=16).contains(&alignment),
                "copies have the size of an element, 4, 8 or 16",
            ),
            Schedule::Simt => (alignment == size, "elements are copied one by one"),
        };
        if holds { Ok(()) } else { Err(GemmError::CopyAlignment { alignment, rule }) }
    }

    fn check_store(&self) -> Result<(), GemmError> {
        let [_, n, _] = self.tile;
        let store = self.store;
        let columns = 128 / self.d.size_bytes();
        let rule = match store {
            StoreForm::Direct => None,
            _ if !self.is_warp_specialised() => {
                Some("only warp-specialised kernels for sm_90a write by tensor copies")
            }
            StoreForm::Rows => (!(n * self.d.size_bytes()).is_multiple_of(16))
                .then_some("a row of the tile is no multiple of 16 bytes"),
            StoreForm::Chunks => (!n.is_multiple_of(columns))
                .then_some("a row of the tile is no multiple of 128 bytes"),
            StoreForm::Overlapped if self.schedule == Schedule::Pingpong => {
                Some("warp groups with tiles of their own write while the others multiply anyway")
            }
            StoreForm::Overlapped if self.d.bits() != 16 => {
                Some("only elements of 16 bits are kept while the next tile is multiplied")
            }
            StoreForm::Overlapped if n != 4 * columns || self.rows_of_consumer() != 64 => {
                Some("it is for 64 rows and 256 columns of a warp group")
            }
            StoreForm::Overlapped => None,
        };
        match rule {
            Some(rule) => Err(GemmError::Store { store, rule }),
            None => Ok(()),
        }
    }

    /// Registers of a thread of the kernel without tensor cores with elements of A and B: of two steps along K, and of
    /// the next tiles where those are converted on the way.
    fn waiting(&self) -> u32 {
        if self.schedule != Schedule::Simt {
            return 0;
        }
        let ([m, n, k], [rows, columns]) = (self.tile, self.thread_tile());
        let tiles = if self.a == Scalar::F32 { 0 } else { (m + n) * k / self.threads() };
        2 * (rows + columns) + tiles
    }

    fn check_registers(&self) -> Result<(), GemmError> {
        let registers = self.registers;
        let error = |rule| Err(GemmError::Registers { registers, rule });
        let sums = self.accumulators();
        let kept = if self.store == StoreForm::Overlapped { sums / 2 } else { 0 };
        // Elements of C and of a bias are loaded some at a time; so are elements of A and B that no copy takes.
        let loads = self.epilogue.beta || self.epilogue.bias.is_some();
        let loads = if self.is_warp_specialised() && loads { 48 } else { 0 };
        let single = self.schedule == Schedule::Multistage && self.alignment < 4;
        let needed = sums + kept + loads + if single { 64 } else { 0 } + self.waiting();
        // What a launch gives each thread, and what is left of it for sums beside the operands and addresses.
        let entry = (SM_REGISTERS / self.threads().max(1)).min(255) / 8 * 8;
        let most =
            |registers: u32, others: u32| registers.saturating_sub(others).min(MAX_ACCUMULATORS);
        let most = match (registers, self.is_warp_specialised()) {
            (Some(_), false) => return error("only warp groups with roles move them"),
            (None, true) => most(entry, 32),
            (None, false) if self.schedule == Schedule::Simt => most(entry, 32),
            (None, false) => most(entry, 96),
            (Some([fetch, multiply]), true) => {
                let legal = |count: u32| count.is_multiple_of(8) && (24..=256).contains(&count);
                if !legal(fetch) || !legal(multiply) {
                    return error("a count is a multiple of 8 from 24 to 256");
                }
                if fetch > entry || multiply < entry {
                    return error("threads that fetch give registers to those that multiply");
                }
                if GROUP * (fetch + self.consumers() * multiply) > SM_REGISTERS {
                    return error("a multiprocessor has 65536");
                }
                most(multiply, 32)
            }
        };
        if needed > most {
            return Err(GemmError::Accumulators { needed, most });
        }
        Ok(())
    }
}
