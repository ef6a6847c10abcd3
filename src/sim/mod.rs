//! Kernels on the CPU, with every access checked.
//!
//! The simulator runs the IR, not the PTX text: warps of 32 threads in lock step under an execution mask,
//! the warps of a block one after the other, those of the blocks of a cluster too, the clusters of a grid in
//! parallel. It is also the sanitizer: what
//! a GPU leaves undefined is a [`Fault`] that names the operation, its Rust line, the thread and the
//! address.
//!
//! ```
//! use tilewright::ir::{GlobalMut, Kernel, Target};
//! use tilewright::runtime::{Device, Grid};
//!
//! // Two threads store to one element, and nothing orders them.
//! let kernel = Kernel::<(GlobalMut<i32>,)>::build("last", Target::SM_80, |k, (x,)| {
//!     x.store(k, 0, k.thread_idx().x);
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
//! * Integer and IEEE operations are bit exact. A result that is NaN has the bits that an H200 gives it.
//! * Every access is checked against the allocation that its pointer was made from. Shared memory is
//!   uninitialised when a block starts, and each byte remembers whether it was written.
//! * A barrier must be reached by all threads of a warp together; it opens when every warp that has not
//!   ended waits at one, a named barrier when all its threads have arrived. Warps that wait for ever are a fault,
//!   which lists the wait of each warp.
//! * Barriers in shared memory count arrivals and bytes; what is undefined about them is a fault, and a wait
//!   that cannot end.
//! * An asynchronous operation (copies of threads, of bytes, of boxes of tensors, and `wgmma`) takes effect
//!   as late as something waits for it. Until then it is a fault to write what it reads, or to access what it writes:
//!   a missing wait, a ring of too few stages, a stage that is filled too early.
//! * With [`Options::race`], the default where `debug_assertions` are on, accesses without an order are a fault, in shared
//!   and in global memory: of threads, lanes of a warp included, and of asynchronous operations (`race/`). The run goes
//!   on after a race to find others. [`Options::schedules`] runs a launch in several orders and compares the results.
//! * Tensor cores: a product is exact; the products of one instruction are added to the sum one after the
//!   other, in the order of rising `k`, each time rounded to nearest even in `f32` (in `f64` with one rounding of
//!   `a * b + c`); accumulators of type `f16` are rounded to it once, at the end of the instruction. The hardware adds
//!   several products at once and cuts bits off, so its last bits differ unless all accumulators are exact;
//!   [`Accumulation::Truncated`] is a model of that. Of integers all bits are the same.
//! * The result, the number of operations and the fault reported do not depend on how the host runs the
//!   blocks, unless blocks race for global memory: by plain accesses, or by atomic operations whose order
//!   matters (accumulators of floating point numbers, `exch`, `cas`, and every use of what was there before).

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
pub use fault::source::{
    Barrier, HotLine, MemoryAccess, Racer, SourceAllocation, SourceOp, SourceTerms,
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
pub use schedules::ResultsDiffer;
pub use stream_order::StreamOrder;
pub use trace::class::OpClass;
pub use trace::counts::{Moved, Mover};

use crate::ir::KernelIr;
use crate::launch::grid::Grid;

/// Runs a kernel on the grid and waits for its end. `args` are the arguments of its parameters, in order.
///
/// ```
/// use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::Grid;
/// use tilewright::sim;
///
/// type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
/// let kernel = Kernel::<Axpy>::build("axpy", Target::SM_80, |k, (a, x, y, n)| {
///     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
///     k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
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
/// [`RunError::Fault`] where the kernel misbehaves, [`RunError::OutOfFuel`] where it does not end; the other
/// errors where grid or arguments do not fit the kernel.
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

/// A kernel made ready for any number of launches.
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
    /// Prepares a kernel.
    ///
    /// # Errors
    /// [`RunError::NotVerified`] if the IR is not that of a verified kernel.
    pub fn new(kernel: &KernelIr) -> Result<Program, RunError> {
        let code = compile(kernel)?;
        Ok(Program { ir: kernel.clone(), code })
    }

    /// Runs the kernel as [`run`] does.
    ///
    /// # Errors
    /// As for [`run`].
    pub fn run(
        &self,
        grid: Grid,
        args: &[KernelArg<'_>],
        options: &Options,
    ) -> Result<LaunchReport, RunError> {
        schedules::launch(&self.ir, &self.code, grid, args, options)
    }
}
