//! Compiles reads of special registers such as `%tid` and `%smid`, and other operations that ask
//! the hardware for something.
//!
//! The simulated device has 132 SMs with room for 64 warps each, and `%smid` assigns blocks to SMs
//! in turn. The clock registers return how many operations the cluster's warps have executed.
//! `%gridid` is always 0.

use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use crate::ir::op::{Axis, SpecialReg, Thread, VolatileReg};
use crate::ir::types::Scalar;
use crate::ir::{OpId, Value};
use crate::launch::grid::Grid;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::{Lane, Regs};
use crate::sim::memory::mask::{LANE_BIT, LANES};

const MULTIPROCESSORS: u64 = 132;
const WARPS_OF_MULTIPROCESSOR: u32 = 64;
/// The unit in which shared memory is allocated.
const SHARED_UNIT: usize = 128;
/// Shared memory that the system reserves for each block.
const SHARED_RESERVED: u32 = 1024;

/// How many blocks, and how many bytes of shared memory, fit on an SM.
const BLOCKS_OF_MULTIPROCESSOR: u32 = 32;
const SHARED_OF_MULTIPROCESSOR: usize = 228 << 10;

/// Returns how many blocks with `threads` threads and `shared_bytes` bytes of shared memory can run
/// at once.
pub(in crate::sim) fn blocks_at_once(threads: u32, shared_bytes: usize) -> u64 {
    let warps = threads.div_ceil(LANES as u32).max(1);
    let shared = shared_bytes.next_multiple_of(SHARED_UNIT) + SHARED_RESERVED as usize;
    let room = (WARPS_OF_MULTIPROCESSOR / warps)
        .min((SHARED_OF_MULTIPROCESSOR / shared) as u32)
        .min(BLOCKS_OF_MULTIPROCESSOR);
    MULTIPROCESSORS * u64::from(room)
}

/// The launch parameters, apart from the grid, that special registers depend on.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Shape {
    /// The cluster's blocks along each axis.
    pub(in crate::sim) cluster: [u32; 3],
    /// Set if the launch or the kernel asks for clusters.
    pub(in crate::sim) names_cluster: bool,
    /// Dynamic shared memory, in bytes.
    pub(in crate::sim) dynamic_shared_bytes: u32,
}

impl Shape {
    /// Returns how many blocks a cluster has.
    pub(in crate::sim) fn blocks(&self) -> u32 {
        self.cluster.iter().map(|n| (*n).max(1)).product()
    }

    /// Returns the position of the block with the given rank in cluster `number`, x fastest.
    pub(in crate::sim) fn block(&self, grid: Grid, number: u64, rank: u32) -> [u32; 3] {
        let clusters =
            |axis: usize| u64::from(grid.blocks[axis] / self.cluster[axis].max(1)).max(1);
        let [x, y] = [clusters(0), clusters(1)];
        let outer = [number % x, number / x % y, number / x / y].map(|n| n as u32);
        let [cx, cy, cz] = self.cluster.map(|n| n.max(1));
        let inner = [rank % cx, rank / cx % cy, rank / cx / cy];
        let size = [cx, cy, cz];
        std::array::from_fn(|axis| outer[axis] * size[axis] + inner[axis])
    }
}

/// A warp's position in the grid.
pub(in crate::sim) struct Position {
    pub(in crate::sim) grid: Grid,
    pub(in crate::sim) shape: Shape,
    /// The block's position.
    pub(in crate::sim) block: [u32; 3],
    /// The index of the warp's first thread in its block.
    pub(in crate::sim) first_thread: u32,
    /// Bytes of shared memory.
    pub(in crate::sim) shared_bytes: usize,
}

impl Position {
    /// Writes a special register to its slot, in the file of its type.
    pub(in crate::sim) fn fill(&self, regs: &mut Regs, reg: SpecialReg, slot: u32) {
        if reg.scalar().bits() == 64 {
            // The grid id.
            regs.d[slot as usize] = [0; LANES];
        } else {
            regs.w[slot as usize] = self.words(reg);
        }
    }

    fn words(&self, reg: SpecialReg) -> [u32; LANES] {
        use SpecialReg as R;
        let [x, y, _] = self.grid.threads;
        let thread = |lane: usize| self.first_thread + lane as u32;
        // The launch has checked that the grid consists of whole clusters.
        let cluster = |axis: Axis| self.shape.cluster[axis.index()].max(1);
        let inner = |axis: Axis| self.block[axis.index()] % cluster(axis);
        let shared = self.shared_bytes.next_multiple_of(SHARED_UNIT) as u32;
        match reg {
            R::Tid(Axis::X) => std::array::from_fn(|lane| thread(lane) % x),
            R::Tid(Axis::Y) => std::array::from_fn(|lane| thread(lane) / x % y),
            R::Tid(Axis::Z) => std::array::from_fn(|lane| thread(lane) / x / y),
            R::Ntid(axis) => [self.grid.threads[axis.index()]; LANES],
            R::Ctaid(axis) => [self.block[axis.index()]; LANES],
            R::Nctaid(axis) => [self.grid.blocks[axis.index()]; LANES],
            R::ClusterId(axis) => [self.block[axis.index()] / cluster(axis); LANES],
            R::NClusterId(axis) => [self.grid.blocks[axis.index()] / cluster(axis); LANES],
            R::ClusterCtaid(axis) => [inner(axis); LANES],
            R::ClusterNctaid(axis) => [cluster(axis); LANES],
            R::ClusterCtaRank => {
                let [x, y, z] = Axis::ALL.map(inner);
                [x + cluster(Axis::X) * (y + cluster(Axis::Y) * z); LANES]
            }
            R::ClusterNctaRank => [Axis::ALL.into_iter().map(cluster).product(); LANES],
            R::IsExplicitCluster => [self.shape.names_cluster.word(); LANES],
            R::LaneId => std::array::from_fn(|lane| lane as u32),
            R::LaneMaskEq => LANE_BIT,
            R::LaneMaskLe => LANE_BIT.map(|bit| bit | (bit - 1)),
            R::LaneMaskLt => LANE_BIT.map(|bit| bit - 1),
            R::LaneMaskGe => LANE_BIT.map(|bit| !(bit - 1)),
            R::LaneMaskGt => LANE_BIT.map(|bit| !(bit | (bit - 1))),
            R::NWarpId => [WARPS_OF_MULTIPROCESSOR; LANES],
            R::NSmId => [MULTIPROCESSORS as u32; LANES],
            R::TotalSmemSize => [shared; LANES],
            R::AggrSmemSize => [shared + SHARED_RESERVED; LANES],
            R::DynamicSmemSize => [self.shape.dynamic_shared_bytes; LANES],
            R::GridId => [0; LANES],
        }
    }
}

/// Writes a volatile special register to its slot, for warp `number` after the cluster has executed
/// `operations` operations.
pub(in crate::sim) fn read_volatile(
    regs: &mut Regs,
    memory: &Memory<'_>,
    number: u32,
    operations: u64,
    reg: VolatileReg,
    slot: u32,
) {
    let slot = slot as usize;
    match reg {
        VolatileReg::WarpId => regs.w[slot] = [number; LANES],
        VolatileReg::SmId => {
            regs.w[slot] = [(memory.blocks[memory.here].number % MULTIPROCESSORS) as u32; LANES]
        }
        VolatileReg::Clock => regs.w[slot] = [operations as u32; LANES],
        VolatileReg::Clock64 | VolatileReg::GlobalTimer => regs.d[slot] = [operations; LANES],
    }
}

impl Compiler<'_> {
    /// Returns the slot that holds a special register, and reserves it at the first use. The slot
    /// is filled when a thread starts.
    pub(in crate::sim) fn special(&mut self, reg: SpecialReg) -> u32 {
        if let Some(slot) = self.special.get(&reg) {
            return *slot;
        }
        let slot = self.regs.reserve(reg.scalar());
        self.code.special.push((reg, slot));
        self.special.insert(reg, slot);
        slot
    }

    pub(in crate::sim) fn thread(
        &mut self,
        id: OpId,
        op: &Thread,
        results: &[Value],
    ) -> Result<(), Refused> {
        let inst = match *op {
            Thread::VolatileSreg { reg } => {
                let dst = self.result(results, 0)?.scalar(reg.scalar())?;
                Inst::Volatile { reg, dst }
            }
            // Constant registers are filled before a thread starts.
            Thread::Sreg { .. } => return Err(Malformed),
            Thread::Nanosleep { nanoseconds } => {
                self.scalar_of(nanoseconds, Scalar::U32)?;
                Inst::Sleep
            }
            Thread::Trap {} => stop(RawCause::Trap),
            Thread::Brkpt {} => stop(RawCause::Breakpoint),
        };
        self.emit(id, inst);
        Ok(())
    }
}

/// Makes a step that always faults.
fn stop(cause: RawCause) -> Inst {
    Inst::Checked(Box::new(move |_, mask| {
        Err(RawFault::new(mask.trailing_zeros() as usize, cause))
    }))
}

/// Returns the lanes' `bool` words.
pub(in crate::sim) fn truth(mask: u32) -> [u32; LANES] {
    std::array::from_fn(|lane| (mask & LANE_BIT[lane] != 0).word())
}
