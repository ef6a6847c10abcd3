//! Runs kernels on the CPU and checks every access: a simulator that is also a sanitizer.
//!
//! Use it to test a kernel without a GPU, or to find out why it misbehaves on one. The simulator
//! runs the IR, not the PTX text. Whatever a GPU leaves undefined becomes a [`Fault`] that names
//! the operation, its Rust line, the thread and the address. Most programs reach it through
//! [`Device::sim`](crate::runtime::Device::sim), and [`Options`] has its settings.
//!
//! ```
//! use tilewright::ir::{GlobalMut, Kernel, Target};
//! use tilewright::runtime::{Device, Grid};
//!
//! // Two threads store to one element, and nothing orders them.
//! let kernel = Kernel::<(GlobalMut<i32>,)>::build("last", Target::SM_80, |k, (x,)| {
//!     x.store(0, k.thread_idx().x);
//! })?;
//! let device = Device::sim()?;
//! let mut x = device.zeros::<i32>(1)?;
//! let fault = device.load(&kernel)?.launch(Grid::cover(64, 64), (&mut x,)).unwrap_err().to_string();
//! # if cfg!(debug_assertions) {
//! assert!(fault.starts_with("data race (write after write): `st` at "));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a kernel runs
//!
//! The 32 lanes of a warp run in lock step under an execution mask. The warps of a block, or of all
//! blocks of a cluster, take turns on one host thread; several clusters run in parallel on the
//! host's threads. [`Order`] chooses whose turn it is, because some mistakes only show when, for
//! example, the last warp runs first.
//!
//! # What is exact
//!
//! * Integer and IEEE operations are bit exact. A NaN result has the bits that an H200 gives it.
//! * MMAs multiply exactly and then add one product after the other, by rising `k`. Each addition
//!   is rounded to nearest even in `f32`; `f64` rounds once for each `a * b + c`; `f16`
//!   accumulators are rounded once, at the end of the instruction. Tensor cores instead add several
//!   products at once and cut bits off, so the last bits differ unless every sum is exact.
//!   [`Accumulation::Truncated`] models that. Integer MMAs are bit exact.
//! * The result, the operation count and the reported fault do not depend on how the host schedules
//!   the blocks. The exceptions are blocks that race for global memory, and atomics whose order
//!   matters: floating point sums, `exch`, `cas`, and any use of the value that an atomic returns.
//!
//! # What is checked
//!
//! * **Bounds.** Each access must stay inside the allocation that its pointer was made from, even
//!   if the address would land in another valid one.
//! * **Initialisation.** Shared memory is uninitialised when a block starts. Each byte remembers
//!   whether it was written, and reading one that was not is a fault.
//! * **Barriers.** All threads of a warp must reach a barrier together. The block's barrier opens
//!   when every warp that has not ended waits there, a named barrier when the threads that it
//!   counts have arrived. If no warp can go on, the fault lists what each warp waits for.
//! * **mbarriers.** They count arrivals and bytes as the hardware does. Undefined uses are faults,
//!   for example one arrival too many, and so are waits that can never end.
//! * **Asynchronous operations** (`cp.async`, bulk and tensor copies, `wgmma`) take effect as late
//!   as the kernel's waits allow. Until then you must not write what the operation reads, nor touch
//!   what it writes. That catches a missing wait, a ring buffer with too few stages, and a stage
//!   that is refilled too early.
//! * **Data races**, if [`Options::race`] is set, as it is by default in builds with
//!   `debug_assertions`. Two accesses that nothing orders are a fault, in shared and in global
//!   memory, between threads (lanes of one warp included) and asynchronous operations. The run goes
//!   on after a race, so that it finds more of them. The header of `race/mod.rs` explains the
//!   method. In addition, [`Options::schedules`] runs a launch in several orders and compares the
//!   results.

mod engine;
mod exec;
mod fault;
mod kernel_report;
mod launch;
mod memory;
mod options;
mod output;
mod program;
mod progress;
mod race;
mod report;
mod reports;
mod schedules;
mod stream_order;
mod trace;

use std::fmt;

pub use fault::cause::FaultCause;
pub use fault::error::RunError;
pub use fault::report::{Fault, StuckWarp, WarpWait};
pub use fault::results_differ::ResultsDiffer;
pub use fault::source::{
    Barrier, HotLine, MemoryAccess, RacingAccess, SourceAllocation, SourceOp, SourceTerms,
};
pub use fault::state::{AsyncUse, BarrierState, WgmmaMatrix};
pub use fault::terms::Terms;
pub use kernel_report::{AccessReport, KernelReport, StageReport, TrafficReport, WaitReport};
pub use launch::KernelArg;
pub use memory::buffer::{GlobalBuffer, WriteError};
pub use options::{Accumulation, FenceAfterReads, LaunchReport, Options, Order};
pub use output::Output;
pub use progress::{OnProgress, Progress};
pub use race::{Agent, MissingEdge};
pub use reports::Reports;
pub use stream_order::StreamOrder;
pub use trace::class::OpClass;
pub use trace::counts::{MemoryKind, TrafficSource};

use crate::ir::KernelIr;
use crate::launch::grid::Grid;

/// Compiles a kernel for the simulator, runs it on a grid, and returns when it has ended. Use it if
/// you have IR and want no [`Device`](crate::runtime::Device). `args` holds one argument for each
/// parameter, in order.
///
/// ```
/// use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::Grid;
/// use tilewright::sim;
///
/// type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
/// let kernel = Kernel::<Axpy>::build("axpy", Target::SM_80, |k, (a, x, y, n)| {
///     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
///     k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
/// })?;
/// let x = sim::GlobalBuffer::from_slice(&[1.0f32, 2.0, 3.0]);
/// let y = sim::GlobalBuffer::from_slice(&[10.0f32, 20.0, 30.0]);
/// let args = [
///     sim::KernelArg::Scalar(2.0f32.to_const()),
///     sim::KernelArg::Buffer(&x),
///     sim::KernelArg::Buffer(&y),
///     sim::KernelArg::Scalar(3i32.to_const()),
/// ];
/// sim::run(kernel.ir(), Grid::cover(3, 128), &args, &sim::Options::default())?;
/// assert_eq!(y.to_vec::<f32>(), [12.0, 24.0, 36.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RunError::Fault`] if the kernel misbehaves, [`RunError::OutOfFuel`] if it does not end,
/// [`RunError::AssertFailed`] if one of its assertions fails, [`RunError::ResultsDiffer`] if two
/// schedules disagree. Every other error means that the grid or the arguments do not fit the
/// kernel, and it did not run.
pub fn run(
    kernel: &KernelIr,
    grid: Grid,
    args: &[KernelArg<'_>],
    options: &Options,
) -> Result<LaunchReport, RunError> {
    let code = compile(kernel)?;
    schedules::launch(kernel, &code, grid, args, options)
}

fn compile(kernel: &KernelIr) -> Result<program::code::Code, RunError> {
    program::walk::compile(kernel).map_err(|refused| match refused {
        program::refused::Refused::Malformed => RunError::NotVerified,
        program::refused::Refused::TooManyRegisters => {
            RunError::TooManyRegisters { limit: program::slots::MAX_SLOTS }
        }
    })
}

/// A kernel that is compiled for the simulator once and can then run any number of times. Use it
/// instead of [`run`], which compiles on each call, if you run a kernel more than once.
pub struct Program {
    ir: KernelIr,
    code: program::code::Code,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("kernel", &self.ir.name).finish_non_exhaustive()
    }
}

impl Program {
    /// Compiles a kernel for the simulator.
    ///
    /// # Errors
    /// [`RunError::NotVerified`] if the IR is not that of a verified kernel,
    /// [`RunError::TooManyRegisters`] if its threads hold more values at once than the simulator
    /// has registers for.
    pub fn new(kernel: &KernelIr) -> Result<Program, RunError> {
        let code = compile(kernel)?;
        Ok(Program { ir: kernel.clone(), code })
    }

    /// Runs the compiled kernel, otherwise like [`run`].
    ///
    /// # Errors
    /// The same as [`run`].
    pub fn run(
        &self,
        grid: Grid,
        args: &[KernelArg<'_>],
        options: &Options,
    ) -> Result<LaunchReport, RunError> {
        schedules::launch(&self.ir, &self.code, grid, args, options)
    }
}
