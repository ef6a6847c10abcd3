//! An entry of a module, and its launch.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUfunction_attribute as Attribute};
use smallvec::SmallVec;

use super::context::Context;
use super::event::Event;
use super::module::Module;
use super::report::AssertReport;
use crate::ir::KernelIr;
use crate::runtime::{Grid, RuntimeError};

/// An entry with its module.
pub(in crate::runtime) struct Function {
    module: Module,
    raw: sys::CUfunction,
    name: Arc<str>,
    params: usize,
    asserts: Option<Arc<AssertReport>>,
    max_threads: u32,
    registers: u32,
}

// SAFETY: as for the context.
unsafe impl Send for Function {}
// SAFETY: as for the context.
unsafe impl Sync for Function {}

impl Function {
    /// Compiles the PTX that was written for the kernel, whose parameters have at most 8 bytes each.
    pub(in crate::runtime) fn load(
        context: &'static Context,
        ir: &KernelIr,
        ptx: &str,
    ) -> Result<Function, RuntimeError> {
        let (name, params) = (ir.name.as_str(), ir.params.len());
        let module = Module::load(context, name, ptx)?;
        let raw = module.entry(name)?;
        let attribute = |attribute: Attribute| -> Result<u32, RuntimeError> {
            let _current = context.enter()?;
            let mut value: c_int = 0;
            // SAFETY: `value` is a place for the result; the function's module is loaded.
            let code = unsafe { (context.api().cuFuncGetAttribute)(&mut value, attribute, raw) };
            context.check("cuFuncGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let max_threads = attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let registers = attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
        let asserts = AssertReport::new(context, ir)?;
        Ok(Function { module, raw, name: name.into(), params, asserts, max_threads, registers })
    }

    /// Queues a launch. Each argument is the bits of a parameter, zero-extended.
    pub(in crate::runtime) fn launch(&self, grid: Grid, args: &[u64]) -> Result<(), RuntimeError> {
        self.check(grid, args)?;
        let _current = self.context().enter()?;
        self.queue(grid, args).map(|_| ())
    }

    /// As [`Function::launch`]; waits for the end and returns how long the GPU was at it.
    pub(in crate::runtime) fn time(
        &self,
        grid: Grid,
        args: &[u64],
    ) -> Result<Duration, RuntimeError> {
        self.check(grid, args)?;
        let context = self.context();
        let (start, end) = (Event::new(context)?, Event::new(context)?);
        let _current = context.enter()?;
        start.record()?;
        let launch = self.queue(grid, args)?;
        end.record()?;
        end.wait()?;
        context.note_end(launch);
        context.asserts().check()?;
        start.elapsed_until(&end)
    }

    fn context(&self) -> &'static Context {
        self.module.context()
    }

    fn check(&self, grid: Grid, args: &[u64]) -> Result<(), RuntimeError> {
        let kernel = || self.name.to_string();
        if args.len() != self.params {
            let (expected, given) = (self.params, args.len());
            return Err(RuntimeError::ArgumentCount { kernel: kernel(), expected, given });
        }
        // The limits of the device have been checked, so this does not overflow.
        let threads: u32 = grid.threads.iter().product();
        if threads > self.max_threads {
            let (limit, registers) = (self.max_threads, self.registers);
            return Err(RuntimeError::TooManyRegisters {
                kernel: kernel(),
                threads,
                limit,
                registers,
            });
        }
        Ok(())
    }

    /// Queues a launch when the context is current; returns its number.
    fn queue(&self, grid: Grid, args: &[u64]) -> Result<u64, RuntimeError> {
        let context = self.context();
        let config = sys::CUlaunchConfig {
            gridDimX: grid.blocks[0],
            gridDimY: grid.blocks[1],
            gridDimZ: grid.blocks[2],
            blockDimX: grid.threads[0],
            blockDimY: grid.threads[1],
            blockDimZ: grid.threads[2],
            sharedMemBytes: 0,
            hStream: context.stream(),
            attrs: ptr::null_mut(),
            numAttrs: 0,
        };
        let asserts = self.asserts.as_ref().map(|report| report.address());
        let mut params: SmallVec<[*mut c_void; 12]> =
            args.iter().chain(&asserts).map(|arg| ptr::from_ref(arg).cast_mut().cast()).collect();
        // SAFETY: the entry is loaded and has as many parameters as `params` has pointers (that for the
        // assertions included, with memory that lives as long as the function), each to 8 bytes,
        // the most a parameter has, of which the driver copies the low ones before it returns (hosts of CUDA
        // are little-endian). Memory behind addresses is freed in this stream, so after the launch.
        let code = unsafe {
            (context.api().cuLaunchKernelEx)(
                &config,
                self.raw,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        context.check("cuLaunchKernelEx", code)?;
        // A launch gets its number when it is queued and not before: who then waits for all launches up to a
        // number has waited for this one.
        if let Some(report) = &self.asserts {
            context.asserts().note(report);
        }
        let launch = context.note_launch(&self.name);
        self.module.note_launch(launch);
        Ok(launch)
    }
}
