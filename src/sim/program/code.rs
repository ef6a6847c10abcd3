//! [`Code`]: a kernel in the form that warps execute, a flat list of steps on register slots.
//! `walk.rs` compiles a kernel to it, and `exec/warp.rs` runs it.

use super::context::Act;
use super::named_barrier::Named;
use crate::ir::OpId;
use crate::ir::op::{SpecialReg, VolatileReg};
use crate::sim::fault::raw_fault::RawResult;
use crate::sim::memory::access::Access;
use crate::sim::memory::buffer::GlobalBuffer;
use crate::sim::memory::lanes::{Move, Pure, Regs};
use crate::sim::memory::races::Accessed;
use crate::sim::memory::shared::SharedRange;

/// An operation without side effects that can fault in the active lanes.
pub(in crate::sim) type Checked = Box<dyn Fn(&mut Regs, u32) -> RawResult + Send + Sync>;

/// A memory access by a warp's active lanes, with what the race detector needs to know about it.
pub(in crate::sim) struct MemoryStep {
    pub(in crate::sim) run: Access,
    pub(in crate::sim) what: Accessed,
}

/// One step of a warp. Steps are indices into [`Code::steps`]. A frame is given by its depth in the
/// warp's stack of open constructs, which is the static nesting depth.
pub(in crate::sim) enum Inst {
    Pure(Pure),
    Checked(Checked),
    Memory(Access),
    /// A load, store or atomic operation by lanes.
    Access(Box<MemoryStep>),
    /// Copies under the execution mask.
    Copy(Box<[Move]>),
    Barrier,
    Named(Named),
    /// An operation of the whole warp, or one that may wait.
    Act(Act),
    /// An operation for each group of lanes that name the same `members`.
    Warp {
        members: u32,
        run: Group,
        /// Set for `bar.warp.sync`, the only one that orders memory accesses.
        orders_memory: bool,
    },
    /// Reads a special register that changes over time.
    Volatile {
        reg: VolatileReg,
        dst: u32,
    },
    /// Lets other warps run.
    Sleep,
    /// Opens a frame. First runs the lanes in which the slot `cond` is true, from the next step on,
    /// then the other lanes from `else_` on, then all of them from `end` on.
    If {
        cond: u32,
        else_: Option<u32>,
        end: u32,
    },
    /// Opens a frame and runs the body, which starts at the next step.
    For(Box<ForLoop>),
    /// Opens a frame and runs the body, which starts at the next step.
    Loop {
        init: Box<[Move]>,
        end: u32,
    },
    /// Ends an arm of the innermost `if`, after copying the arm's results.
    Yield(Box<[Move]>),
    Continue {
        frame: u32,
        moves: Box<[Move]>,
    },
    Break {
        frame: u32,
        moves: Box<[Move]>,
    },
    Return,
}

/// Called when lanes enter a `for`: sets the index and the remaining iterations, and returns the
/// lanes with at least one iteration.
pub(in crate::sim) type Enter = Box<dyn Fn(&mut Regs, u32) -> RawResult<u32> + Send + Sync>;
/// Called after an iteration: advances the index, counts down the remaining iterations, and returns
/// the lanes that have another one.
pub(in crate::sim) type Advance = Box<dyn Fn(&mut Regs) -> u32 + Send + Sync>;

/// A `for`. Its carried arguments and its results share their slots.
pub(in crate::sim) struct ForLoop {
    pub(in crate::sim) enter: Enter,
    pub(in crate::sim) advance: Advance,
    pub(in crate::sim) init: Box<[Move]>,
    pub(in crate::sim) end: u32,
}

pub(in crate::sim) struct Step {
    pub(in crate::sim) inst: Inst,
    /// How many operations the step counts for: itself, and those before it that need no step.
    pub(in crate::sim) weight: u32,
}

/// A compiled kernel. Each launch executes it in all warps.
pub(in crate::sim) struct Code {
    pub(in crate::sim) steps: Vec<Step>,
    /// The operation of each step.
    pub(in crate::sim) ops: Vec<OpId>,
    /// How many slots the file `w` has.
    pub(in crate::sim) w: usize,
    /// How many slots the file `d` has.
    pub(in crate::sim) d: usize,
    /// Constants: slots of `w` with the same word in all lanes.
    pub(in crate::sim) fill_w: Vec<(u32, u32)>,
    /// Constants: slots of `d` with the same word in all lanes.
    pub(in crate::sim) fill_d: Vec<(u32, u64)>,
    /// Slots of special registers, in the file of their type.
    pub(in crate::sim) special: Vec<(SpecialReg, u32)>,
    /// For each parameter, the slot of a scalar and whether it is in `d`; `None` for a pointer.
    pub(in crate::sim) params: Vec<Option<(u32, bool)>>,
    /// The constant arrays.
    pub(in crate::sim) arrays: Vec<GlobalBuffer>,
    /// The global arrays. Launches share their content.
    pub(in crate::sim) globals: Vec<GlobalBuffer>,
    pub(in crate::sim) shared: Vec<SharedRange>,
    pub(in crate::sim) shared_bytes: usize,
    /// Set if the kernel reads shared memory through the asynchronous proxy.
    pub(in crate::sim) watches_proxies: bool,
    /// Set if threads poll global memory: see `polls.rs`.
    pub(in crate::sim) polls: bool,
    /// Byte ranges of a thread's local allocations.
    pub(in crate::sim) local: Vec<SharedRange>,
    /// Bytes of a thread's local memory.
    pub(in crate::sim) local_bytes: usize,
}

/// An operation on a group of lanes.
pub(in crate::sim) type Group = Box<dyn Fn(&mut Regs, u32) -> RawResult + Send + Sync>;
