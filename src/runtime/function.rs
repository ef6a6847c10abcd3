//! Defines [`Function`]: a kernel that `Device::load` has compiled and loaded.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::argument::{Arg, ArgList, ArgValue, Arguments};
use super::buffer::Memory;
use super::checked::{Checked, Launched, WithChecks};
use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::launch_options::LaunchOptions;
use super::limits::PlainGrids;
use super::load_options::LoadOptions;
use super::note::CompilerNote;
use super::occupancy::Occupancy;
use super::simulator;
use super::stream::{Stream, StreamBackend};
use super::timing::{LoadTimes, Timing};
use crate::codegen::ptx_of;
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{Kernel, KernelIr, LaunchBounds, Signature, Site};
use crate::launch::grid::Grid;
use crate::prove::Condition;

/// A kernel with signature `P` that is loaded on a device and ready to launch. Made by
/// [`Device::load`].
///
/// It is cheap to clone, and several threads may launch it. You can drop it right after a launch.
pub struct Function<P> {
    inner: Arc<Inner>,
    params: PhantomData<fn() -> P>,
}

pub(super) struct Inner {
    device: Device,
    name: String,
    params: Vec<Type>,
    signature: Arc<Signature>,
    /// Set if launches pass layouts or tuples.
    has_templates: bool,
    bounds: LaunchBounds,
    plain: PlainGrids,
    /// For each parameter: whether the kernel uses it as a tensor map in tiled mode, in im2col
    /// mode, and for stores in im2col mode.
    box_modes: Box<[[bool; 3]]>,
    /// Set if the kernel contains `griddepcontrol.wait`.
    waits: bool,
    code: Code,
    /// What the launches need, if the kernel was loaded with checks.
    launched: Option<Launched>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} on {})", self.name, self.device)
    }
}

pub(super) enum Code {
    Sim(Arc<simulator::Function>),
    Cuda(cuda::Function),
}

/// Returns an error if the device cannot run the kernel.
pub(super) fn check_kernel(device: &Device, ir: &KernelIr) -> Result<(), RuntimeError> {
    match &device.backend {
        Backend::Sim(_) => Ok(()),
        Backend::Cuda(context) => {
            context.check_target(&ir.name, ir.target)?;
            let (bytes, limit_bytes) = (ir.shared_layout().1, device.limits().shared_bytes_opt_in);
            if bytes > limit_bytes {
                let kernel = ir.name.clone();
                return Err(RuntimeError::SharedTooLarge { kernel, bytes, limit_bytes });
            }
            Ok(())
        }
    }
}

impl Device {
    /// Loads a kernel so that it can be launched. A load for a GPU proves the kernel's accesses, and
    /// adds checks where it cannot: see [`Function::conditions`] and [`Function::checks`]. The driver compiles the PTX, unless
    /// [`ModuleCache::shared`](super::ModuleCache::shared) already has the code. Kernels with
    /// `setmaxnreg` are kept in the driver's own cache instead.
    ///
    /// # Errors
    /// [`WrongTarget`](RuntimeError::WrongTarget), [`PtxRejected`](RuntimeError::PtxRejected),
    /// [`SetMaxNRegIgnored`](RuntimeError::SetMaxNRegIgnored),
    /// [`SharedTooLarge`](RuntimeError::SharedTooLarge),
    /// [`NoRoomForChecks`](RuntimeError::NoRoomForChecks),
    /// [`MissingEntry`](RuntimeError::MissingEntry), [`DeviceLost`](RuntimeError::DeviceLost),
    /// [`Driver`](RuntimeError::Driver). The simulator loads every kernel.
    pub fn load<P>(&self, kernel: &Kernel<P>) -> Result<Function<P>, RuntimeError> {
        Function::load(self, kernel, &LoadOptions::default())
    }

    /// Like [`Device::load`], but neither proves nor checks anything: see
    /// [`LoadOptions::unchecked`].
    ///
    /// # Safety
    /// That of [`LoadOptions::unchecked`].
    ///
    /// # Errors
    /// Those of [`Device::load`].
    #[allow(unsafe_code, reason = "the caller promises what the kernel accesses")]
    pub unsafe fn load_unchecked<P>(
        &self,
        kernel: &Kernel<P>,
    ) -> Result<Function<P>, RuntimeError> {
        Function::load(self, kernel, &LoadOptions::never_checked())
    }

    /// Like [`Device::load`], but with options: access checks, another cache, or `ptxas` as the
    /// compiler.
    ///
    /// # Errors
    /// Those of [`Device::load`]; [`Ptxas`](RuntimeError::Ptxas);
    /// [`ChecksLeft`](RuntimeError::ChecksLeft).
    pub fn load_with<P>(
        &self,
        options: LoadOptions<'_>,
        kernel: &Kernel<P>,
    ) -> Result<Function<P>, RuntimeError> {
        Function::load(self, kernel, &options)
    }
}

impl<P> Clone for Function<P> {
    fn clone(&self) -> Self {
        Function { inner: Arc::clone(&self.inner), params: PhantomData }
    }
}

impl<P> fmt::Debug for Function<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<P> Function<P> {
    pub(super) fn load(
        device: &Device,
        kernel: &Kernel<P>,
        options: &LoadOptions<'_>,
    ) -> Result<Function<P>, RuntimeError> {
        let (ir, signature) = (kernel.ir(), kernel.signature());
        let checks = WithChecks::new(ir, signature, device, options)?;
        let inner = Inner::load(device, ir, signature, options, checks)?;
        Ok(Function { inner: Arc::new(inner), params: PhantomData })
    }

    pub(super) fn new(
        device: &Device,
        kernel: &Kernel<P>,
        code: Code,
        launched: Option<Launched>,
    ) -> Function<P> {
        let inner = Inner::new(device, kernel.ir(), kernel.signature(), code, launched);
        Function { inner: Arc::new(inner), params: PhantomData }
    }

    /// Returns the kernel's name, which messages and profilers show.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns whether the kernel was loaded with checks, the default on a GPU: see
    /// [`LoadOptions::checked`]. If all its accesses are proved, the code contains none
    /// nevertheless.
    pub fn is_checked(&self) -> bool {
        self.inner.launched.is_some()
    }

    /// Returns the checks in the loaded code: one for each access, divisor, loop step and promise
    /// that [`Kernel::prove`] proves neither for every launch nor by a condition on the launch. Each
    /// names its Rust line, so you can look for a bound that the kernel should state. The list is
    /// empty if the kernel was loaded without checks.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, KernelOptions, Target};
    /// use tilewright::runtime::{Device, LoadOptions};
    ///
    /// let device = Device::sim()?;
    /// let options = KernelOptions::default().block([64, 1, 1]);
    /// type Params = (Global<i32>, Global<f32>, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build_with(options, "gather", device.target(), |k, (at, x, y)| {
    ///     let t = k.thread_idx().x;
    ///     let i = at.load(t); // in bounds if `at` has 64 elements
    ///     y.store(t, x.load(i)); // the load depends on data, so it is checked
    /// })?;
    /// let function = device.load_with(LoadOptions::default().checked(), &kernel)?;
    /// assert_eq!(function.checks().len(), 1);
    /// assert_eq!(function.conditions()[0].to_string(), "len(p0) >= 64");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checks(&self) -> &[Site] {
        let checked = self.inner.launched.as_ref().and_then(|launched| launched.checked.as_ref());
        checked.map_or(&[], Checked::sites)
    }

    /// Returns the conditions that each launch evaluates, for example `len(y) >= n`. If a launch
    /// does not fulfil them all, it runs the kernel with checks of everything that is not proved
    /// for every launch. So a launch that is correct nevertheless works, but takes longer, and an
    /// access out of bounds ends the kernel with its Rust line. The first such launch compiles that
    /// kernel. After [`LoadOptions::deny_checks`], the launch returns
    /// [`ConditionBroken`](RuntimeError::ConditionBroken) instead. The list is empty if the kernel
    /// was loaded without checks.
    pub fn conditions(&self) -> &[Condition] {
        let guard = self.inner.launched.as_ref().and_then(|launched| launched.guard.as_ref());
        guard.map_or(&[], |guard| guard.conditions())
    }

    /// Returns the compiler's log for the kernel, which tells registers, spills and shared memory.
    /// The log is empty on the simulator, and if the driver took the code from its own cache,
    /// because it then compiles nothing.
    pub fn compiler_log(&self) -> &str {
        match &self.inner.code {
            Code::Sim(_) => "",
            Code::Cuda(function) => function.log(),
        }
    }

    /// Returns the compiler's warnings about code that will be slower than written, for example a
    /// serialised `wgmma`. Read them if a kernel is unexpectedly slow. The list is empty whenever
    /// [`compiler_log`](Function::compiler_log) is.
    pub fn compiler_notes(&self) -> Vec<CompilerNote> {
        CompilerNote::all(self.compiler_log())
    }

    /// Returns how long compiling and loading took, for example to see whether the module cache
    /// works. If the function comes from a [`LoadedModule`](super::LoadedModule), these are the
    /// times of the whole module. They are zero on the simulator.
    pub fn load_times(&self) -> LoadTimes {
        match &self.inner.code {
            Code::Sim(_) => LoadTimes::default(),
            Code::Cuda(function) => function.load_times(),
        }
    }

    /// Returns the device that the kernel is loaded on. The buffers of a launch must be there, too.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl<P> Function<P> {
    /// Launches the kernel on the default stream, with the blocks and threads of `grid`.
    ///
    /// On a GPU the call returns as soon as the launch is queued. If the kernel faults or an
    /// assertion in it fails, a later call that waits for it says so. On the simulator the kernel
    /// has finished when the call returns.
    ///
    /// A launch checks its grid and the types, devices and required lengths of its arguments, and
    /// evaluates the kernel's [conditions](Function::conditions). If an access is neither proved nor
    /// follows from them, the code checks it; see [what is safe](crate::runtime#what-is-safe).
    ///
    /// # Errors
    /// [`EmptyGrid`](RuntimeError::EmptyGrid), [`GridTooLarge`](RuntimeError::GridTooLarge),
    /// [`BlockTooLarge`](RuntimeError::BlockTooLarge),
    /// [`BlockNotAsBuilt`](RuntimeError::BlockNotAsBuilt),
    /// [`MoreThreadsThanBuilt`](RuntimeError::MoreThreadsThanBuilt),
    /// [`Cluster`](RuntimeError::Cluster), [`TooManyRegisters`](RuntimeError::TooManyRegisters),
    /// [`OtherDevice`](RuntimeError::OtherDevice); for layouts, tuples and buffer lengths
    /// [`Signature`](RuntimeError::Signature); for an untyped kernel
    /// [`ArgumentCount`](RuntimeError::ArgumentCount) and
    /// [`ArgumentType`](RuntimeError::ArgumentType); on the simulator `RuntimeError::Simulation`
    /// and [`AssertFailed`](RuntimeError::AssertFailed); on a GPU the fault of an earlier launch,
    /// if there was one, and [`Driver`](RuntimeError::Driver).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel};
    /// use tilewright::runtime::{Device, Grid};
    /// let device = Device::default()?;
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("fill", device.target(), |k, (x, value)| {
    ///     x.store(k.thread_idx().x, value)
    /// })?;
    /// let fill = device.load(&kernel)?;
    /// let mut x = device.zeros(32)?;
    /// fill.launch(Grid::cover(32, 32), (&mut x, 7))?;
    /// assert_eq!(x.to_vec()?, [7; 32]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch(&self, grid: Grid, args: P::Args<'_, '_>) -> Result<(), RuntimeError>
    where
        P: Arguments,
    {
        self.launch_with(LaunchOptions::default(), grid, args)
    }

    /// Like [`Function::launch`], but with [`LaunchOptions`]: on another stream than the default
    /// one, as a cooperative launch, or with programmatic dependent launch.
    ///
    /// # Errors
    /// Those of [`Function::launch`]; [`TooManyBlocksAtOnce`](RuntimeError::TooManyBlocksAtOnce)
    /// for a cooperative launch.
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        grid: Grid,
        args: P::Args<'_, '_>,
    ) -> Result<(), RuntimeError>
    where
        P: Arguments,
    {
        let mut list = ArgList::default();
        P::erase(args, &mut list);
        self.launch_list(options, grid, &mut list)
    }

    /// Like [`Function::launch_with`], with arguments whose Rust types are gone already.
    #[inline]
    pub(crate) fn launch_list(
        &self,
        options: LaunchOptions<'_>,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<(), RuntimeError> {
        Inner::launch(&self.inner, &options, grid, args)
    }

    /// Like [`Function::launch`], but waits for the kernel and returns how long it ran.
    ///
    /// # Errors
    /// Those of [`Function::launch`], and on a GPU the fault of this launch and
    /// [`AssertFailed`](RuntimeError::AssertFailed).
    pub fn time(&self, grid: Grid, args: P::Args<'_, '_>) -> Result<Timing, RuntimeError>
    where
        P: Arguments,
    {
        self.time_with(LaunchOptions::default(), grid, args)
    }

    /// Like [`Function::time`], but with [`LaunchOptions`], for example on another stream.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`], and on a GPU the fault of this launch and
    /// [`AssertFailed`](RuntimeError::AssertFailed).
    pub fn time_with(
        &self,
        options: LaunchOptions<'_>,
        grid: Grid,
        args: P::Args<'_, '_>,
    ) -> Result<Timing, RuntimeError>
    where
        P: Arguments,
    {
        let mut list = ArgList::default();
        P::erase(args, &mut list);
        self.time_list(options, grid, &mut list)
    }

    /// Like [`Function::time_with`], with arguments whose Rust types are gone already.
    #[inline]
    pub(crate) fn time_list(
        &self,
        options: LaunchOptions<'_>,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<Timing, RuntimeError> {
        Inner::time(&self.inner, &options, grid, args)
    }

    /// Returns how many blocks of `threads_per_block` threads the GPU runs at once, for example to
    /// size the grid of a persistent kernel; `None` on the simulator.
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias = "cudaOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn occupancy(&self, threads_per_block: u32) -> Result<Option<Occupancy>, RuntimeError> {
        match &self.inner.code {
            Code::Sim(_) => Ok(None),
            Code::Cuda(function) => function.occupancy(threads_per_block).map(Some),
        }
    }

    /// Returns how many clusters of the grid the GPU runs at once, for example to size the grid of
    /// a persistent kernel with clusters; `None` on the simulator.
    ///
    /// # Errors
    /// Those of [`Function::launch`] about the grid; the fault of an earlier launch, if there was
    /// one;
    /// [`Driver`](RuntimeError::Driver).
    pub fn clusters_at_once(&self, grid: Grid) -> Result<Option<u32>, RuntimeError> {
        Inner::clusters_at_once(&self.inner, grid)
    }
}

/// A launch that has passed all checks and can now run, be timed, or be recorded by its stream.
struct Launch<'l> {
    function: &'l Arc<Inner>,
    options: &'l LaunchOptions<'l>,
    grid: Grid,
    /// Blocks per cluster along each axis.
    cluster: [u32; 3],
    args: &'l [Arg<'l>],
}

impl Launch<'_> {
    /// Runs or queues the launch, or lets its stream record it.
    #[inline(always)]
    fn launch(&self) -> Result<(), RuntimeError> {
        match &self.function.code {
            Code::Sim(function) => {
                function.launch(self.on_simulator(), self.args.iter().map(sim_arg))
            }
            Code::Cuda(function) => self.on_gpu(function, |launch| {
                function.launch(launch, self.args.iter().map(device_arg))
            }),
        }
    }

    /// Runs the launch and waits until it ends.
    #[inline]
    fn time(&self) -> Result<Timing, RuntimeError> {
        match &self.function.code {
            Code::Sim(function) => {
                function.time(self.on_simulator(), self.args.iter().map(sim_arg))
            }
            Code::Cuda(function) => {
                let elapsed = self.on_gpu(function, |launch| {
                    function.time(launch, self.args.iter().map(device_arg))
                })?;
                Ok(Timing { elapsed, thread_ops: None })
            }
        }
    }

    /// Converts the launch to the simulator's form.
    fn on_simulator(&self) -> simulator::Launch<'_> {
        let stream = match self.options.stream {
            Some(Stream { backend: StreamBackend::Sim(stream) }) => Some(stream),
            _ => None,
        };
        let LaunchOptions { cooperative, programmatic, .. } = *self.options;
        simulator::Launch { grid: self.grid, cooperative, programmatic, stream }
    }

    /// Converts the launch to the driver's form and passes it to `f`.
    #[inline(always)]
    fn on_gpu<R>(&self, function: &cuda::Function, f: impl FnOnce(&cuda::Launch<'_>) -> R) -> R {
        let Launch { function: inner, options, grid, cluster, .. } = *self;
        let stream = match options.stream {
            Some(Stream { backend: StreamBackend::Cuda(stream) }) => stream,
            _ => function.context().default_stream(),
        };
        f(&cuda::Launch {
            grid,
            cluster,
            programmatic: options.programmatic,
            cooperative: options.cooperative,
            stream,
            owner: &|| Arc::clone(inner) as Arc<dyn std::any::Any + Send + Sync>,
        })
    }
}

impl Inner {
    pub(super) fn load(
        device: &Device,
        ir: &KernelIr,
        signature: &Arc<Signature>,
        options: &LoadOptions<'_>,
        checks: Option<WithChecks>,
    ) -> Result<Inner, RuntimeError> {
        check_kernel(device, ir)?;
        let code = match &device.backend {
            Backend::Sim(context) => {
                let shared = checks.as_ref().and_then(WithChecks::shared);
                Code::Sim(simulator::Function::load(context, ir, shared)?)
            }
            Backend::Cuda(context) => {
                let loaded = checks.as_ref().map_or(ir, |checks| checks.loaded(ir));
                let ptx = ptx_of(loaded);
                Code::Cuda(cuda::Function::load(context, loaded, ir, ptx.text(), options)?)
            }
        };
        let launched = checks.map(|checks| checks.into_launched(device)).transpose()?;
        Ok(Inner::new(device, ir, signature, code, launched))
    }

    fn new(
        device: &Device,
        ir: &KernelIr,
        signature: &Arc<Signature>,
        code: Code,
        launched: Option<Launched>,
    ) -> Inner {
        Inner {
            device: device.clone(),
            name: ir.name.clone(),
            params: ir.params.iter().map(|param| ir.type_of(param.value)).collect(),
            signature: Arc::clone(signature),
            has_templates: !signature.bind(&[]).is_ok_and(|bound| bound.is_empty()),
            bounds: ir.bounds,
            plain: device.limits().plain_grids(&ir.bounds),
            waits: ir.waits_for_grids(),
            box_modes: ir.box_modes().into(),
            code,
            launched,
        }
    }

    fn clusters_at_once(this: &Arc<Inner>, grid: Grid) -> Result<Option<u32>, RuntimeError> {
        let Inner { device, name, bounds, code, .. } = &**this;
        let options = &LaunchOptions::default();
        let cluster = device.limits().check(name, bounds, grid)?;
        let launch = Launch { function: this, options, grid, cluster, args: &[] };
        match code {
            Code::Sim(_) => Ok(None),
            Code::Cuda(function) => {
                launch.on_gpu(function, |launch| function.clusters_at_once(launch)).map(Some)
            }
        }
    }

    /// Checks a launch, then runs or queues it.
    fn launch(
        this: &Arc<Inner>,
        options: &LaunchOptions<'_>,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<(), RuntimeError> {
        Inner::prepare(this, options, grid, args)?.launch()
    }

    /// Checks a launch, runs it and waits until it ends.
    #[inline]
    fn time(
        this: &Arc<Inner>,
        options: &LaunchOptions<'_>,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<Timing, RuntimeError> {
        Inner::prepare(this, options, grid, args)?.time()
    }

    /// Completes the arguments and checks the launch. It is inlined, like everything that it calls,
    /// so that the whole launch is one piece of code: see [`cuda::Function::launch`].
    #[inline(always)]
    fn prepare<'l>(
        this: &'l Arc<Inner>,
        options: &'l LaunchOptions<'_>,
        grid: Grid,
        args: &'l mut ArgList<'_>,
    ) -> Result<Launch<'l>, RuntimeError> {
        if this.has_templates || !args.given.is_empty() {
            args.resolve(&this.name, &this.signature)?;
        }
        let cluster = this.check(grid, &args.args)?;
        args.check_lengths(&this.name, &this.signature)?;
        this.check_stream(options)?;
        if options.programmatic && !this.waits {
            return Err(RuntimeError::ProgrammaticWithoutWait { kernel: this.name.clone() });
        }
        let mut this = this;
        if let Some(Launched { guard: Some(guard), .. }) = &this.launched
            && let Some(broken) = guard.broken(grid, &args.args)
        {
            this = guard.otherwise(&this.device, broken)?;
        }
        if let Some(Launched { checked: Some(checked), .. }) = &this.launched {
            checked.append(args);
        }
        Ok(Launch { function: this, options, grid, cluster, args: &args.args })
    }

    /// Returns an error if the stream belongs to another device.
    #[inline]
    fn check_stream(&self, options: &LaunchOptions<'_>) -> Result<(), RuntimeError> {
        match options.stream {
            Some(stream) if !stream.is_on(&self.device) => Err(RuntimeError::OtherDeviceStream {
                what: format!("kernel `{}`", self.name),
                stream: stream.device().to_string(),
                device: self.device.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks the launch against the device and the kernel, and returns the blocks per cluster
    /// along each axis. Types are checked even if rustc has already checked them, because with a
    /// wrong list the driver would read past its end.
    #[inline(always)]
    fn check(&self, grid: Grid, args: &[Arg<'_>]) -> Result<[u32; 3], RuntimeError> {
        let cluster = match self.plain.has(grid) {
            true => [1; 3],
            false => self.device.limits().check(&self.name, &self.bounds, grid)?,
        };
        let kernel = || self.name.clone();
        let (expected, given) = (self.params.len(), args.len());
        if expected != given {
            return Err(RuntimeError::ArgumentCount { kernel: kernel(), expected, given });
        }
        for (index, (arg, expected)) in args.iter().zip(&self.params).enumerate() {
            if arg.ty != *expected {
                let (expected, given) = (*expected, arg.ty);
                return Err(RuntimeError::ArgumentType {
                    kernel: kernel(),
                    index,
                    expected,
                    given,
                });
            }
            let memory = match arg.value {
                ArgValue::Buffer(memory, _) => memory,
                ArgValue::TensorMap(map) => {
                    let im2col = map.desc.pixel_box().is_some();
                    let used = self.box_modes.get(index).copied().unwrap_or_default();
                    if used[usize::from(!im2col)] {
                        return Err(RuntimeError::BoxMode { kernel: kernel(), index, im2col });
                    }
                    if let (true, Some((dim, pixels, extent))) =
                        (used[2], map.desc.pixels_outside())
                    {
                        let kernel = kernel();
                        return Err(RuntimeError::StorePixels {
                            kernel,
                            index,
                            dim,
                            pixels,
                            extent,
                        });
                    }
                    map.memory
                }
                ArgValue::Scalar(_) => continue,
            };
            if !memory.is_on(&self.device) {
                return Err(RuntimeError::OtherDevice {
                    kernel: kernel(),
                    index,
                    buffer: memory.device().to_string(),
                    device: self.device.to_string(),
                });
            }
        }
        Ok(cluster)
    }
}

/// Converts an argument to the simulator's form.
fn sim_arg<'h>(arg: &Arg<'h>) -> simulator::LaunchArg<'h> {
    use simulator::LaunchArg;
    /// Stands for a buffer on another device, which was refused earlier.
    const NOTHING: LaunchArg<'static> = LaunchArg::Scalar(Const::new(Scalar::Bool, 0));
    match arg.value {
        ArgValue::Scalar(value) => LaunchArg::Scalar(value),
        ArgValue::Buffer(Memory::Sim(memory), _) => LaunchArg::Memory(memory),
        ArgValue::TensorMap(map) => match map.memory {
            Memory::Sim(memory) => LaunchArg::Map(&map.desc, memory),
            Memory::Cuda(_) => NOTHING,
        },
        ArgValue::Buffer(Memory::Cuda(_), _) => NOTHING,
    }
}

/// Converts an argument to the driver's form, for example a buffer to its address.
#[inline]
fn device_arg<'h>(arg: &'h Arg<'_>) -> cuda::LaunchArg<'h> {
    use cuda::LaunchArg;
    /// Stands for arguments that were refused earlier.
    const NOTHING: LaunchArg<'static> = LaunchArg::Bits(&0);
    let writes = match arg.ty {
        Type::Pointer { mutable, .. } | Type::TensorMap { mutable, .. } => mutable,
        Type::Scalar(_) | Type::Vector(_) => false,
    };
    match arg.value {
        ArgValue::Scalar(ref value) => LaunchArg::Bits(value.bits_place()),
        ArgValue::Buffer(Memory::Cuda(memory), _) => LaunchArg::Memory(memory, writes),
        ArgValue::TensorMap(map) => match (&map.encoded, map.memory) {
            (Some(encoded), Memory::Cuda(memory)) => LaunchArg::Map(encoded, memory, writes),
            _ => NOTHING,
        },
        ArgValue::Buffer(Memory::Sim(_), _) => NOTHING,
    }
}
