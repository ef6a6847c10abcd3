//! Defines [`Function`]: a loaded kernel entry and its launches.

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

/// A kernel entry, with the module that it belongs to.
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

/// A launch without its arguments: the grid, the stream and the attributes.
pub(in crate::runtime) struct Launch<'l> {
    pub(in crate::runtime) grid: Grid,
    /// Blocks per cluster along each axis.
    pub(in crate::runtime) cluster: [u32; 3],
    pub(in crate::runtime) programmatic: bool,
    pub(in crate::runtime) cooperative: bool,
    pub(in crate::runtime) stream: &'l Arc<Stream>,
    /// Returns something that keeps the function alive.
    pub(in crate::runtime) owner: &'l dyn Fn() -> Arc<dyn Any + Send + Sync>,
}

/// An argument in the driver's form.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) enum LaunchArg<'h> {
    /// The bits of a parameter of at most 8 bytes, zero-extended.
    Bits(&'h u64),
    /// A pointer to memory, and whether the kernel may write it.
    Memory(&'h Memory, bool),
    /// A tensor map, the memory behind it, and whether the kernel may write that.
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

/// A launch's arguments. They are iterated several times, because building a list would cost a
/// launch more.
pub(in crate::runtime) trait LaunchArgs<'h>:
    ExactSizeIterator<Item = LaunchArg<'h>> + Clone
{
}

impl<'h, A: ExactSizeIterator<Item = LaunchArg<'h>> + Clone> LaunchArgs<'h> for A {}

impl Function {
    /// Compiles and loads the kernel `ir`. If access checks were added to it, `source` is the
    /// kernel without them, to which assertion messages refer.
    pub(in crate::runtime) fn load(
        context: &'static Context,
        ir: &KernelIr,
        source: &KernelIr,
        ptx: &str,
        options: &LoadOptions<'_>,
    ) -> Result<Function, RuntimeError> {
        Function::new(Arc::new(Module::load_with(context, &ir.name, ptx, options)?), ir, source)
    }

    /// Returns the kernel's entry in a module that contains it.
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
            // SAFETY: `value` is a local out parameter; the function's module is loaded.
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

    /// Queues a launch. The arguments must have the types of the parameters.
    ///
    /// Nearly all launches come from the thread that owns the stream, and use memory only on that
    /// stream. They are queued right here. This code is usually not in the instruction cache when a
    /// launch reaches it, so what counts is that it is short.
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

    /// Lets other code capture the launch into its graph. We cannot know when the graph runs or
    /// when it is destroyed, so no use is noted, and the code and memory of the launch are leaked.
    /// The context must be current.
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
        // Another thread has ended the capture meanwhile, so the launch runs.
        let uses = |note: &mut Note<'_>| self.note_uses(args.clone(), note);
        launch.stream.queue(Some(self.launches()), uses, || Ok(()))
    }

    /// Like [`Function::launch`], but waits for the end and returns how long the GPU took.
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
        // Order the launch first, so that the measured time does not include waiting for other
        // work.
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

    /// Returns the kernel's assertion report, or `None` if the kernel has no assertions.
    fn report(&self) -> Option<Arc<dyn Report>> {
        self.asserts.as_ref().map(|report| Arc::clone(report) as Arc<dyn Report>)
    }

    fn launches(&self) -> QueuedLaunches {
        QueuedLaunches { count: 1, kernel: self.kernel }
    }

    /// Makes the stream wait for earlier work on the arguments: after the last write of what the
    /// kernel reads, and after all uses of what it writes. The context must be current.
    fn order<'h>(
        &self,
        launch: &Launch<'_>,
        args: impl LaunchArgs<'h>,
    ) -> Result<(), RuntimeError> {
        self.ordered(args).try_for_each(|(uses, writes)| uses.order(launch.stream, writes))
    }

    /// Returns everything that a launch shares with other work. The `bool` says whether the launch
    /// writes it.
    fn ordered<'a, 'h: 'a>(
        &'a self,
        args: impl LaunchArgs<'h> + 'a,
    ) -> impl Iterator<Item = (&'a Uses, bool)> {
        let memory = args.filter_map(LaunchArg::memory);
        let memory = memory.map(|(memory, writes)| (memory.uses(), writes));
        memory.chain(self.asserts.iter().map(|report| (report.uses(), false)))
    }

    /// Calls `note` with everything that a launch uses, and whether the launch writes it.
    fn note_uses<'h>(&self, args: impl LaunchArgs<'h>, note: &mut Note<'_>) {
        self.ordered(args).for_each(|(uses, writes)| note(uses, writes));
        note(self.module.uses(), false);
    }

    /// Queues or records any launch. The context must be current, and other code must not capture
    /// the stream.
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

    /// If other code may have captured the launch, leaks what it uses and returns an error. The
    /// context must be current. Not inlined, so that launches on this crate's own streams stay
    /// short.
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

    /// Records a launch with everything that it uses; it is ordered when the graph runs. The
    /// recording cannot end before this returns.
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

    /// Passes a launch to the driver, with the assertion buffer if the kernel has assertions. The
    /// context must be current.
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

    /// Passes a launch to the driver. `params` must have at least as many slots as the entry has
    /// parameters. The context must be current.
    #[inline]
    fn call(&self, launch: &Launch<'_>, params: &mut [*mut c_void]) -> Result<(), RuntimeError> {
        let context = self.context();
        let mut attributes = launch.attributes();
        let config = self.config(launch, &mut attributes);
        // SAFETY: the entry is loaded and has no more parameters than `params` has pointers
        // (including the one for assertions, whose memory lives as long as the function). A pointer
        // leads to a tensor map for a tensor-map parameter, and otherwise to 8 bytes, the largest
        // size of any other parameter. The driver copies the low bytes before it returns (CUDA
        // hosts are little-endian). The attributes live until it returns. Memory behind addresses
        // is freed after the use that the caller notes, or lives as long as the graph that records
        // the launch.
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

    /// Returns the error for a launch that the driver refused with this status.
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

    pub(in crate::runtime) fn log(&self) -> &str {
        self.module.log()
    }

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

    /// Returns how many of the launch's clusters run at once.
    pub(in crate::runtime) fn clusters_at_once(
        &self,
        launch: &Launch<'_>,
    ) -> Result<u32, RuntimeError> {
        let context = self.context();
        let _current = context.enter()?;
        let mut attributes = launch.attributes();
        let (config, mut clusters) = (self.config(launch, &mut attributes), 0);
        // SAFETY: `clusters` is a local out parameter; the function's module is loaded.
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

    /// Returns how many blocks of `threads` threads the device runs at once. The context must be
    /// current.
    fn blocks_at_once(&self, threads: u32) -> Result<u64, RuntimeError> {
        let context = self.context();
        let mut blocks = 0;
        // SAFETY: `blocks` is a local out parameter; the function's module is loaded.
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

/// Returns the threads per block. The device's limits have been checked, so this cannot overflow.
fn threads_of(grid: Grid) -> u32 {
    grid.threads.iter().product()
}

/// A launch with at most this many parameters allocates nothing for their slots.
const FEW_PARAMS: usize = 16;

/// A launch's attributes besides its grid.
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
