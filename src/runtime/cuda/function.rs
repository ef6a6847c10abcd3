//! Launches an entry of a module.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUlaunchAttributeID as Id};
use smallvec::SmallVec;

use super::capture::{Capture, Resource};
use super::context::Context;
use super::event::Event;
use super::kernel_name::KernelId;
use super::lease::Lease;
use super::memory::{Memory, lock_shared};
use super::module::Module;
use super::pending_report::Report;
use super::report::AssertReport;
use super::status;
use super::stream::Stream;
use super::submission_counter::QueuedLaunches;
use super::tensor_map::EncodedMap;
use super::uses::{Note, Uses};
use crate::ir::{ClusterShape, KernelIr, LaunchBounds};
use crate::launch::grid::Grid;
use crate::runtime::error::RuntimeError;
use crate::runtime::load_options::LoadOptions;
use crate::runtime::occupancy::Occupancy;
use crate::runtime::timing::LoadTimes;

/// An entry with its module.
pub(in crate::runtime) struct Function {
    module: Arc<Module>,
    raw: sys::CUfunction,
    name: String,
    kernel: KernelId,
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
pub(in crate::runtime) struct Launch<'l> {
    pub(in crate::runtime) grid: Grid,
    /// The blocks of a cluster along each axis.
    pub(in crate::runtime) cluster: [u32; 3],
    pub(in crate::runtime) programmatic: bool,
    pub(in crate::runtime) cooperative: bool,
    pub(in crate::runtime) stream: &'l Arc<Stream>,
    /// Gives what keeps the function alive.
    pub(in crate::runtime) owner: &'l dyn Fn() -> Arc<dyn Any + Send + Sync>,
}

/// The argument of a parameter, as the driver takes it.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) enum LaunchArg<'h> {
    /// The bits of a parameter of at most 8 bytes, zero-extended.
    Bits(&'h u64),
    /// A pointer to memory, which the kernel may write.
    Memory(&'h Memory, bool),
    /// A tensor map of memory, which the kernel may write.
    Map(&'h EncodedMap, &'h Memory, bool),
}

impl<'h> LaunchArg<'h> {
    fn slot(self) -> *mut c_void {
        match self {
            LaunchArg::Bits(bits) => ptr::from_ref(bits).cast_mut().cast(),
            LaunchArg::Memory(memory, _) => memory.address_slot(),
            LaunchArg::Map(map, ..) => map.slot(),
        }
    }

    /// Returns the memory behind the argument, and whether the kernel may write it.
    fn memory(self) -> Option<(&'h Memory, bool)> {
        match self {
            LaunchArg::Bits(_) => None,
            LaunchArg::Memory(memory, writes) | LaunchArg::Map(_, memory, writes) => {
                Some((memory, writes))
            }
        }
    }
}

/// The arguments of a launch. They are iterated several times, because a list of them would cost a launch
/// more than that.
pub(in crate::runtime) trait LaunchArgs<'h>:
    ExactSizeIterator<Item = LaunchArg<'h>> + Clone
{
}

impl<'h, A: ExactSizeIterator<Item = LaunchArg<'h>> + Clone> LaunchArgs<'h> for A {}

impl Function {
    /// Compiles the PTX that was written for the kernel. `source` is the kernel without checks.
    pub(in crate::runtime) fn load(
        context: &'static Context,
        ir: &KernelIr,
        source: &KernelIr,
        ptx: &str,
        options: &LoadOptions<'_>,
    ) -> Result<Function, RuntimeError> {
        Function::new(Arc::new(Module::load_with(context, &ir.name, ptx, options)?), ir, source)
    }

    /// Returns the entry of the kernel in a module whose PTX has it.
    pub(in crate::runtime) fn new(
        module: Arc<Module>,
        ir: &KernelIr,
        source: &KernelIr,
    ) -> Result<Function, RuntimeError> {
        let context = module.context();
        let (name, bounds) = (ir.name.as_str(), ir.bounds);
        let dynamic_shared_bytes = ir.dynamic_shared_bytes() as u32;
        let raw = module.entry(name)?;
        let attribute = |attribute: Attribute| -> Result<u32, RuntimeError> {
            let _current = context.enter()?;
            let mut value: c_int = 0;
            // SAFETY: `value` is a variable for the result; the function's module is loaded.
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
        let (name, kernel) = (name.to_owned(), module.kernel(name));
        let asserts = AssertReport::new(context, ir, source)?;
        Ok(Function {
            module,
            raw,
            name,
            kernel,
            dynamic_shared_bytes,
            asserts,
            max_threads,
            registers,
        })
    }

    /// Queues a launch. The arguments are of the types of the parameters.
    ///
    /// Nearly all launches are by the owner of their stream, on memory that is used there only. They are queued here:
    /// the code is cold whenever a launch comes to it, so what counts is how much of it there is.
    #[inline]
    pub(in crate::runtime) fn launch<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        self.check(launch.grid)?;
        let _current = self.context().enter()?;
        let stream = &**launch.stream;
        if stream.is_capturing()? {
            return self.launch_captured(launch, args);
        }
        if self.asserts.is_none()
            && args.len() <= FEW_PARAMS
            && let Some(work) = stream.begin()
        {
            let mut params = [ptr::null_mut(); FEW_PARAMS];
            let mut is_alone = self.module.uses().note_at_once(stream, work, false);
            for (param, arg) in params.iter_mut().zip(args.clone()) {
                *param = arg.slot();
                if let Some((memory, writes)) = arg.memory() {
                    is_alone &= memory.note_alone(stream, work, writes);
                }
            }
            if is_alone {
                let result = self.call(launch, &mut params);
                stream.end(work, result.is_ok().then(|| self.launches()));
                // Another thread may have begun a capture since the check above.
                if stream.is_foreign() && result.is_ok() {
                    return self.check_not_captured(launch, args);
                }
                return result;
            }
            stream.end(work, None);
        }
        self.queue(launch, args)
    }

    /// Lets other code record a launch into its graph. Neither when the graph runs nor when it goes is known here: so no use
    /// is noted, and code and memory that the launch uses are kept for ever. The context is current.
    #[cold]
    fn launch_captured<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        let context = self.context();
        let memory = || args.clone().filter_map(LaunchArg::memory).map(|(memory, _)| memory);
        let _graphs = context.lock_graphs();
        memory()
            .filter_map(|memory| memory.allocation().lease())
            .try_for_each(Lease::check_lent)?;
        let is_ready = {
            let _relaxed = context.relax_captures()?;
            self.ordered(args.clone()).all(|(uses, writes)| uses.have_ended(launch.stream, writes))
        };
        if !is_ready {
            return Err(RuntimeError::CaptureWaits { kernel: self.name.clone() });
        }
        self.call_with(launch, args.clone())?;
        memory().for_each(Memory::keep_for_ever);
        mem::forget((launch.owner)());
        if launch.stream.is_capturing()? {
            return Ok(());
        }
        // Another thread has ended the capture meanwhile: the launch runs.
        let uses = |note: &mut Note<'_>| self.note_uses(args.clone(), note);
        launch.stream.queue(Some(self.launches()), uses, || Ok(()))
    }

    /// As [`Function::launch`]; waits for the end and returns how long the GPU was at it.
    pub(in crate::runtime) fn time<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<Duration, RuntimeError> {
        self.check(launch.grid)?;
        launch.stream.check_runs("Function::time")?;
        let context = self.context();
        let (start, end) = (Event::new(context)?, Event::new(context)?);
        let _current = context.enter()?;
        launch.stream.check_not_capturing()?;
        // What the launch must wait for is not part of it.
        self.order(launch, args.clone())?;
        start.record(launch.stream)?;
        self.queue(launch, args)?;
        end.record(launch.stream)?;
        launch.stream.wait()?;
        context.check_asserts()?;
        start.elapsed_until(&end)
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.module.context()
    }

    #[inline]
    fn check(&self, grid: Grid) -> Result<(), RuntimeError> {
        let threads = threads_of(grid);
        if threads > self.max_threads {
            let (limit, registers) = (self.max_threads, self.registers);
            return Err(RuntimeError::TooManyRegisters {
                kernel: self.name.clone(),
                threads,
                limit,
                registers,
            });
        }
        Ok(())
    }

    /// Returns the entry of the launch in the submission counter.
    fn report(&self) -> Option<Arc<dyn Report>> {
        self.asserts.as_ref().map(|report| Arc::clone(report) as Arc<dyn Report>)
    }

    fn launches(&self) -> QueuedLaunches {
        QueuedLaunches { count: 1, kernel: self.kernel }
    }

    /// Lets the stream wait for the work on the arguments that must come before. The context is current.
    fn order<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        self.ordered(args).try_for_each(|(uses, writes)| uses.order(launch.stream, writes))
    }

    /// Returns the memory that a launch shares with other work, and whether it writes it.
    fn ordered<'a, 'h: 'a>(
        &'a self,
        args: impl LaunchArgs<'h> + 'a,
    ) -> impl Iterator<Item = (&'a Uses, bool)> {
        let memory = args.filter_map(LaunchArg::memory);
        let memory = memory.map(|(memory, writes)| (memory.uses(), writes));
        memory.chain(self.asserts.iter().map(|report| (report.uses(), false)))
    }

    /// Calls `note` with all that a launch uses, and whether it writes that.
    fn note_uses<'h>(&self, args: impl LaunchArgs<'h>, note: &mut Note<'_>) {
        self.ordered(args).for_each(|(uses, writes)| note(uses, writes));
        note(self.module.uses(), false);
    }

    /// Queues or records any launch. The context is current, and the stream is none that other code records.
    #[cold]
    fn queue<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        let stream = launch.stream;
        let record = |capture: &mut Capture| self.record(launch, args.clone(), capture);
        if let Some(recorded) = stream.captured(record) {
            return recorded;
        }
        let memory = args.clone().filter_map(LaunchArg::memory);
        let _graphs = lock_shared(self.context(), memory.map(|(memory, _)| memory))?;
        let mut reports = self.asserts.as_ref().map(|_| self.context().lock_asserts());
        self.order(launch, args.clone())?;
        let uses = |note: &mut Note<'_>| self.note_uses(args.clone(), note);
        stream.queue(Some(self.launches()), uses, || self.call_with(launch, args.clone()))?;
        if let (Some(reports), Some(report)) = (&mut reports, self.report()) {
            reports.note(&report);
        }
        self.check_not_captured(launch, args)
    }

    /// Keeps what a launch uses if other code may have captured it, and refuses it then. The context is current. It is out of
    /// line, so that launches on streams of this crate stay short.
    #[cold]
    fn check_not_captured<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        launch.stream.check_not_captured(|| {
            let memory = args.filter_map(LaunchArg::memory);
            let memory: Vec<_> =
                memory.map(|(memory, _)| Arc::clone(memory.allocation())).collect();
            (memory, (launch.owner)())
        })
    }

    /// Records a launch, with all that it uses, which is ordered when it runs. The recording does not end before
    /// this function does.
    fn record<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
        capture: &mut Capture,
    ) -> Result<(), RuntimeError> {
        for (memory, writes) in args.clone().filter_map(LaunchArg::memory) {
            memory.record_use(capture, writes)?;
        }
        self.call_with(launch, args)?;
        if let Some(report) = &self.asserts {
            capture.note_use(report, false);
        }
        let report = self.report();
        capture.note_launch(self.kernel, self.module.uses(), report, (launch.owner)());
        Ok(())
    }

    /// Gives a launch to the driver, with the memory for assertions, if the kernel has some. The context is current.
    fn call_with<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        let report = self.asserts.as_ref().map(|report| report.address());
        let report = report.as_ref().map(|address| LaunchArg::Bits(address).slot());
        let mut params: SmallVec<[_; FEW_PARAMS]> = args.map(LaunchArg::slot).collect();
        params.extend(report);
        self.call(launch, &mut params)
    }

    /// Gives a launch to the driver, with the slots of at least as many parameters as the entry has. The context is
    /// current.
    #[inline]
    fn call(&self, launch: &Launch<'_>, params: &mut [*mut c_void]) -> Result<(), RuntimeError> {
        let context = self.context();
        let mut attributes = launch.attributes();
        let config = self.config(launch, &mut attributes);
        // SAFETY: the entry is loaded and has no more parameters than `params` has pointers (that for the
        // assertions included, with memory that lives as long as the function): to a tensor map for a
        // parameter of that type, else to 8 bytes, the largest size of such a parameter; the driver
        // copies the low ones before it returns (hosts of CUDA are little-endian). The attributes live
        // until it returns. Memory behind addresses is freed after the use that the caller notes, or lives as
        // long as the graph that records the launch.
        let code = unsafe {
            (context.api().cuLaunchKernelEx)(
                &config,
                self.raw,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        if code == status::SUCCESS { Ok(()) } else { self.refuse(launch, code) }
    }

    /// Returns the error of a launch to which the driver gave this answer.
    #[cold]
    fn refuse(&self, launch: &Launch<'_>, code: u32) -> Result<(), RuntimeError> {
        if code == status::COOPERATIVE_LAUNCH_TOO_LARGE {
            let Grid { blocks, .. } = launch.grid;
            let blocks = blocks.iter().fold(1u64, |n, blocks| n.saturating_mul((*blocks).into()));
            let limit = self.blocks_at_once(threads_of(launch.grid))?;
            let kernel = self.name.clone();
            return Err(RuntimeError::TooManyBlocksAtOnce { kernel, blocks, limit });
        }
        self.context().check("cuLaunchKernelEx", code)
    }

    /// Returns the log of the compiler.
    pub(in crate::runtime) fn log(&self) -> &str {
        self.module.log()
    }

    /// Returns the load times of its module.
    pub(in crate::runtime) fn load_times(&self) -> LoadTimes {
        self.module.times()
    }

    /// Returns the occupancy for blocks of `threads` threads.
    pub(in crate::runtime) fn occupancy(&self, threads: u32) -> Result<Occupancy, RuntimeError> {
        let context = self.context();
        let _current = context.enter()?;
        let sm_count = context.sm_count();
        let blocks = self.blocks_at_once(threads)? / u64::from(sm_count.max(1));
        Ok(Occupancy { blocks_per_sm: blocks as u32, sm_count })
    }

    /// Returns the number of clusters of the launch that run at once.
    pub(in crate::runtime) fn clusters_at_once(
        &self,
        launch: &Launch<'_>,
    ) -> Result<u32, RuntimeError> {
        let context = self.context();
        let _current = context.enter()?;
        let mut attributes = launch.attributes();
        let (config, mut clusters) = (self.config(launch, &mut attributes), 0);
        // SAFETY: `clusters` is a variable for the result; the function's module is loaded.
        let code = unsafe {
            (context.api().cuOccupancyMaxActiveClusters)(&mut clusters, self.raw, &config)
        };
        context.check("cuOccupancyMaxActiveClusters", code)?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    #[inline]
    fn config(
        &self,
        launch: &Launch<'_>,
        attributes: &mut [sys::CUlaunchAttribute],
    ) -> sys::CUlaunchConfig {
        let grid = launch.grid;
        sys::CUlaunchConfig {
            gridDimX: grid.blocks[0],
            gridDimY: grid.blocks[1],
            gridDimZ: grid.blocks[2],
            blockDimX: grid.threads[0],
            blockDimY: grid.threads[1],
            blockDimZ: grid.threads[2],
            sharedMemBytes: self.dynamic_shared_bytes,
            hStream: launch.stream.raw(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        }
    }

    /// Returns the number of blocks of `threads` threads that the device runs at once. The context is current.
    fn blocks_at_once(&self, threads: u32) -> Result<u64, RuntimeError> {
        let context = self.context();
        let mut blocks = 0;
        // SAFETY: `blocks` is a variable for the result; the function's module is loaded.
        let code = unsafe {
            (context.api().cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &mut blocks,
                self.raw,
                threads as c_int,
                self.dynamic_shared_bytes as usize,
            )
        };
        context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let blocks_per_sm = u64::try_from(blocks).unwrap_or(0);
        Ok(blocks_per_sm * u64::from(context.sm_count()))
    }
}

/// Returns the threads of a block. The limits of the device have been checked, so this does not overflow.
fn threads_of(grid: Grid) -> u32 {
    grid.threads.iter().product()
}

/// A launch with at most this number of parameters allocates nothing for their slots.
const FEW_PARAMS: usize = 16;

/// The attributes of a launch beside its grid.
type Attributes = SmallVec<[sys::CUlaunchAttribute; 3]>;

impl Launch<'_> {
    #[inline]
    fn attributes(&self) -> Attributes {
        let has_cluster = self.grid.cluster.is_some() || self.cluster != [1; 3];
        match has_cluster | self.programmatic | self.cooperative {
            true => self.some_attributes(has_cluster),
            false => Attributes::new(),
        }
    }

    #[cold]
    fn some_attributes(&self, has_cluster: bool) -> Attributes {
        let attribute = |id, value| sys::CUlaunchAttribute { id, pad: Default::default(), value };
        let mut attributes = Attributes::new();
        if has_cluster {
            let [x, y, z] = self.cluster;
            let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            let value = sys::CUlaunchAttributeValue { clusterDim: cluster };
            attributes.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value));
        }
        if self.programmatic {
            let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
            let id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes.push(attribute(id, value));
        }
        if self.cooperative {
            let value = sys::CUlaunchAttributeValue { cooperative: 1 };
            attributes.push(attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value));
        }
        attributes
    }
}
