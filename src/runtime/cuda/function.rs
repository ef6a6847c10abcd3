//! An entry of a module, and its launch.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUlaunchAttributeID as Id};
use smallvec::SmallVec;

use super::context::Context;
use super::event::Event;
use super::module::Module;
use super::report::AssertReport;
use super::status;
use crate::ir::{ClusterShape, KernelIr, LaunchBounds};
use crate::runtime::{Grid, LaunchOptions, RuntimeError};

/// An entry with its module.
pub(in crate::runtime) struct Function {
    module: Arc<Module>,
    raw: sys::CUfunction,
    name: Arc<str>,
    params: usize,
    dynamic_shared_bytes: u32,
    asserts: Option<Arc<AssertReport>>,
    max_threads: u32,
    registers: u32,
}

// SAFETY: as for the context.
unsafe impl Send for Function {}
// SAFETY: as for the context.
unsafe impl Sync for Function {}

/// The shape of a launch.
pub(in crate::runtime) struct Launch {
    pub(in crate::runtime) grid: Grid,
    /// The blocks of a cluster along each axis.
    pub(in crate::runtime) cluster: [u32; 3],
    pub(in crate::runtime) options: LaunchOptions,
}

impl Function {
    /// Compiles the PTX that was written for the kernel, whose parameters have at most 8 bytes each.
    pub(in crate::runtime) fn load(
        context: &'static Context,
        ir: &KernelIr,
        ptx: &str,
    ) -> Result<Function, RuntimeError> {
        Function::new(Arc::new(Module::load(context, &ir.name, ptx)?), ir)
    }

    /// The entry of the kernel in a module whose PTX has it.
    pub(in crate::runtime) fn new(
        module: Arc<Module>,
        ir: &KernelIr,
    ) -> Result<Function, RuntimeError> {
        let context = module.context();
        let (name, params, bounds) = (ir.name.as_str(), ir.params.len(), ir.bounds);
        let dynamic_shared_bytes = ir.dynamic_shared_bytes() as u32;
        let raw = module.entry(name)?;
        let attribute = |attribute: Attribute| -> Result<u32, RuntimeError> {
            let _current = context.enter()?;
            let mut value: c_int = 0;
            // SAFETY: `value` is a place for the result; the function's module is loaded.
            let code = unsafe { (context.api().cuFuncGetAttribute)(&mut value, attribute, raw) };
            context.check("cuFuncGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let allow = |attribute: Attribute, value: u32| -> Result<(), RuntimeError> {
            let _current = context.enter()?;
            // SAFETY: the function's module is loaded.
            let code =
                unsafe { (context.api().cuFuncSetAttribute)(raw, attribute, value as c_int) };
            context.check("cuFuncSetAttribute", code)
        };
        if dynamic_shared_bytes > 0 {
            let limit = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            allow(limit, dynamic_shared_bytes)?;
        }
        let beyond_portable = match bounds.cluster {
            Some(ClusterShape::Fixed(blocks)) => {
                blocks.iter().product::<u32>() > LaunchBounds::PORTABLE_CLUSTER
            }
            Some(ClusterShape::AtLaunch) => true,
            None => false,
        };
        if beyond_portable {
            allow(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        }
        let max_threads = attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let registers = attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
        let (name, asserts) = (name.into(), AssertReport::new(context, ir)?);
        Ok(Function {
            module,
            raw,
            name,
            params,
            dynamic_shared_bytes,
            asserts,
            max_threads,
            registers,
        })
    }

    /// Queues a launch. Each argument is the bits of a parameter, zero-extended.
    pub(in crate::runtime) fn launch(
        &self,
        launch: &Launch,
        args: &[u64],
    ) -> Result<(), RuntimeError> {
        self.check(launch.grid, args)?;
        let _current = self.context().enter()?;
        self.queue(launch, args).map(|_| ())
    }

    /// As [`Function::launch`]; waits for the end and returns how long the GPU was at it.
    pub(in crate::runtime) fn time(
        &self,
        launch: &Launch,
        args: &[u64],
    ) -> Result<Duration, RuntimeError> {
        self.check(launch.grid, args)?;
        let context = self.context();
        let (start, end) = (Event::new(context)?, Event::new(context)?);
        let _current = context.enter()?;
        start.record()?;
        let number = self.queue(launch, args)?;
        end.record()?;
        end.wait()?;
        context.note_end(number);
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
        let threads = threads_of(grid);
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
    fn queue(&self, launch: &Launch, args: &[u64]) -> Result<u64, RuntimeError> {
        let context = self.context();
        let Launch { grid, .. } = *launch;
        let mut attributes = attributes_of(launch);
        let config = sys::CUlaunchConfig {
            gridDimX: grid.blocks[0],
            gridDimY: grid.blocks[1],
            gridDimZ: grid.blocks[2],
            blockDimX: grid.threads[0],
            blockDimY: grid.threads[1],
            blockDimZ: grid.threads[2],
            sharedMemBytes: self.dynamic_shared_bytes,
            hStream: context.stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let asserts = self.asserts.as_ref().map(|report| report.address());
        let mut params: SmallVec<[*mut c_void; 12]> =
            args.iter().chain(&asserts).map(|arg| ptr::from_ref(arg).cast_mut().cast()).collect();
        // SAFETY: the entry is loaded and has as many parameters as `params` has pointers (that for the
        // assertions included, with memory that lives as long as the function), each to 8 bytes,
        // the most a parameter has, of which the driver copies the low ones before it returns (hosts of CUDA
        // are little-endian). The attributes live until it returns. Memory behind addresses is freed in this
        // stream, so after the launch.
        let code = unsafe {
            (context.api().cuLaunchKernelEx)(
                &config,
                self.raw,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        if code == status::COOPERATIVE_LAUNCH_TOO_LARGE {
            let blocks =
                grid.blocks.iter().fold(1u64, |n, blocks| n.saturating_mul((*blocks).into()));
            let limit = self.blocks_at_once(threads_of(grid))?;
            let kernel = self.name.to_string();
            return Err(RuntimeError::TooManyBlocksAtOnce { kernel, blocks, limit });
        }
        context.check("cuLaunchKernelEx", code)?;
        // A launch gets its number when it is queued and not before: who then waits for all launches up to a
        // number has waited for this one.
        if let Some(report) = &self.asserts {
            context.asserts().note(report);
        }
        let number = context.note_launch(&self.name);
        self.module.note_launch(number);
        Ok(number)
    }

    /// How many blocks of so many threads the device runs at once. The context is current.
    fn blocks_at_once(&self, threads: u32) -> Result<u64, RuntimeError> {
        let context = self.context();
        let mut blocks = 0;
        // SAFETY: `blocks` is a place for the result; the function's module is loaded.
        let code = unsafe {
            (context.api().cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &mut blocks,
                self.raw,
                threads as c_int,
                self.dynamic_shared_bytes as usize,
            )
        };
        context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let per_multiprocessor = u64::try_from(blocks).unwrap_or(0);
        Ok(per_multiprocessor * u64::from(context.multiprocessors()))
    }
}

/// The threads of a block. The limits of the device have been checked, so this does not overflow.
fn threads_of(grid: Grid) -> u32 {
    grid.threads.iter().product()
}

/// What a launch asks of the driver beside its grid.
fn attributes_of(launch: &Launch) -> SmallVec<[sys::CUlaunchAttribute; 3]> {
    let attribute = |id, value| sys::CUlaunchAttribute { id, pad: Default::default(), value };
    let mut attributes = SmallVec::new();
    let [x, y, z] = launch.cluster;
    if launch.grid.cluster.is_some() || launch.cluster != [1; 3] {
        let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        let value = sys::CUlaunchAttributeValue { clusterDim: cluster };
        attributes.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value));
    }
    if launch.options.programmatic {
        let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
        let id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes.push(attribute(id, value));
    }
    if launch.options.cooperative {
        let value = sys::CUlaunchAttributeValue { cooperative: 1 };
        attributes.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value));
    }
    attributes
}
