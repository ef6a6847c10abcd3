//! [`ReadyKernel`], and what all ready kernels have in common: [`Built`] and [`Loaded`].

use std::cell::Cell;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::codegen::{Ptx, PtxOptions};
use crate::ir::{Kernel, KernelIr};
use crate::prove::Proof;
use crate::runtime::{
    ArgList, Arguments, Device, Function, Grid, LaunchOptions, LoadOptions, RuntimeError, Stream,
    Timing,
};

/// A kernel that you call with a problem and buffers, for example a [`Softmax`]. You build it once
/// for a configuration, load it once on a device, and launch it for many problems.
///
/// To add one, write its configuration, its device code, a function that builds it (`new`), and
/// this trait, which says how a launch goes. Loading, streams, launch options and timing come from
/// [`Built`] and [`Loaded`]. For example, a kernel that scales the elements of a buffer:
///
/// ```
/// use std::fmt;
/// use tilewright::kernels::{Built, Launch, ReadyKernel};
/// use tilewright::prelude::*;
/// use tilewright::runtime::LoadOptions;
///
/// /// What decides the generated code.
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// struct ScaleConfig {
///     target: Target,
///     threads: u32,
/// }
///
/// impl fmt::Display for ScaleConfig {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         write!(f, "scale_{}", self.threads)
///     }
/// }
///
/// /// `y[i] = factor * x[i]` for the first `n` elements. A launch takes `n` and `(factor, &x, &mut y)`.
/// struct Scale(ScaleConfig);
///
/// type Params = (f32, Global<f32>, GlobalMut<f32>, i32);
///
/// impl Scale {
///     fn new(config: ScaleConfig) -> Result<Built<Scale>, BuildErrors> {
///         let (options, name) = (KernelOptions::default().block([config.threads, 1, 1]), config.to_string());
///         let kernel = Kernel::<Params>::build_with(options, &name, config.target, |k, (factor, x, y, n)| {
///             x.require_len(n);
///             y.require_len(n);
///             let i = k.block_idx().x * config.threads as i32 + k.thread_idx().x;
///             k.if_(i.lt(n), |_| y.store(i, x.load(i) * factor));
///         })?;
///         Ok(Built::new(Scale(config), kernel))
///     }
/// }
///
/// impl ReadyKernel for Scale {
///     type Config = ScaleConfig;
///     type Params = Params;
///     type Problem = u32;
///     type Args<'a> = (f32, &'a Buffer<f32>, &'a mut Buffer<f32>);
///     type Shared = ();
///     type Error = RuntimeError;
///
///     fn config(&self) -> &ScaleConfig {
///         &self.0
///     }
///
///     fn share(&self, _: &Function<Params>, _: LoadOptions<'_>) -> Result<(), RuntimeError> {
///         Ok(())
///     }
///
///     fn launch(&self, n: &u32, (factor, x, y): Self::Args<'_>, launch: Launch<'_, Self>) -> Result<(), RuntimeError> {
///         if *n == 0 {
///             return Ok(());
///         }
///         launch.start(Grid::cover(*n as usize, self.0.threads), (factor, x, y, *n as i32))
///     }
/// }
///
/// # #[cfg(feature = "sim")] {
/// let device = Device::sim()?;
/// let scale = Scale::new(ScaleConfig { target: device.target(), threads: 64 })?.load(&device)?;
/// let (x, mut y) = (device.upload(&[2.0; 100])?, device.zeros(100)?);
/// scale.launch(&100, (3.0, &x, &mut y))?;
/// assert_eq!(y.to_vec()?, [6.0; 100]);
/// // The launch checks buffer lengths, because the kernel requires them.
/// assert!(scale.launch(&101, (3.0, &x, &mut y)).is_err());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A value of the type that implements the trait is what a launch has to know besides problem and
/// buffers: usually the configuration, for some kernels also layouts that `new` computed.
///
/// [`Softmax`]: super::softmax::Softmax
pub trait ReadyKernel: Sized + Send + Sync {
    /// What decides the generated code. Its text is the configuration's name.
    type Config: Clone + Eq + Hash + fmt::Display;
    /// The kernel's parameters. If they depend on the configuration, name [`Untyped`] here, build
    /// with [`Kernel::untyped`], and launch with [`Launch::start_as`].
    ///
    /// [`Untyped`]: crate::ir::Untyped
    type Params: Arguments;
    /// The sizes of a launch, or `()` if the buffers' lengths say enough.
    type Problem: ?Sized;
    /// The buffers and scalars of a launch: `(&x, &mut y)` for an input and an output, or a struct.
    type Args<'a>;
    /// What the launches of a loaded kernel share, for example a workspace; `()` for most kernels.
    type Shared: Send + Sync;
    /// Why a kernel cannot be built, loaded or launched.
    type Error: std::error::Error + From<RuntimeError>;

    /// Returns the configuration that the kernel was built for.
    fn config(&self) -> &Self::Config;

    /// Makes what launches share. Called once, when the kernel is loaded. If a launch starts other
    /// kernels too, load them here, with the same options.
    ///
    /// # Errors
    /// Those of allocations and of [`Device::load_with`].
    fn share(
        &self,
        function: &Function<Self::Params>,
        options: LoadOptions<'_>,
    ) -> Result<Self::Shared, Self::Error>;

    /// Checks the buffers and starts the kernel, or several. Does nothing if there is nothing to
    /// do.
    ///
    /// # Errors
    /// Problems and buffers that do not fit, and the errors of [`Function::launch`].
    fn launch(
        &self,
        problem: &Self::Problem,
        args: Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), Self::Error>;
}

/// A ready kernel that is built and verified, but not loaded yet. It knows no device, so you can
/// inspect its code on any machine.
///
/// ```
/// use tilewright::ir::{Target, types::Scalar};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
///
/// let config = SoftmaxConfig::new(Target::SM_90, Scalar::F32, &RowProblem::new(100, 1000))?;
/// let softmax = Softmax::<f32>::new(config)?;
/// assert_eq!(softmax.config(), &config);
/// assert!(softmax.ptx().text().contains(".target sm_90"));
/// # Ok::<(), tilewright::kernels::rows::RowError>(())
/// ```
pub struct Built<K: ReadyKernel> {
    ready: Arc<K>,
    kernel: Kernel<K::Params>,
}

impl<K: ReadyKernel> Built<K> {
    /// Returns the ready kernel for its device code. Call it at the end of the function that builds
    /// your kernel.
    pub fn new(ready: K, kernel: Kernel<K::Params>) -> Built<K> {
        Built { ready: Arc::new(ready), kernel }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &K::Config {
        self.ready.config()
    }

    /// Returns the value that says how a launch goes.
    pub(in crate::kernels) fn ready(&self) -> &K {
        &self.ready
    }

    /// Returns the kernel's IR. It prints as text.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// Writes the kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }

    /// Writes the kernel as PTX with options, for example with line information for a profiler.
    pub fn ptx_with(&self, options: PtxOptions) -> Ptx {
        self.kernel.ptx_with(options)
    }

    /// Proves which accesses of the kernel are in bounds for every launch: see
    /// [`prove`](crate::prove). Conditions name parameters as the IR does, not as the problem.
    ///
    /// ```
    /// use tilewright::ir::{Target, types::Scalar};
    /// use tilewright::kernels::rows::RowProblem;
    /// use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
    ///
    /// let config = SoftmaxConfig::new(Target::SM_90, Scalar::F32, &RowProblem::new(100, 1000))?;
    /// let proof = Softmax::<f32>::new(config)?.prove();
    /// assert!(!proof.obligations().is_empty());
    /// # Ok::<(), tilewright::kernels::rows::RowError>(())
    /// ```
    pub fn prove(&self) -> Proof {
        self.kernel.prove()
    }

    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<Loaded<K>, K::Error> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Loads the kernel with options, for example with access checks.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Loaded<K>, K::Error> {
        let function = device.load_with(options, &self.kernel)?;
        let shared = self.ready.share(&function, options)?;
        Ok(Loaded { ready: Arc::clone(&self.ready), function, shared })
    }
}

impl<K: ReadyKernel> fmt::Debug for Built<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Built({})", self.config())
    }
}

/// A ready kernel that is loaded on a device. Each launch takes its own problem and buffers.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::Loaded;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
/// use tilewright::runtime::Device;
///
/// let (device, problem) = (Device::sim()?, RowProblem::new(1, 2));
/// let config = SoftmaxConfig::new(device.target(), Scalar::F32, &problem)?;
/// let softmax: Loaded<Softmax<f32>> = Softmax::new(config)?.load(&device)?;
/// let (x, mut y) = (device.upload(&[3.0, 3.0])?, device.zeros(2)?);
/// let stream = device.stream()?;
/// softmax.on(&stream).launch(&problem, (&x, &mut y))?;
/// assert_eq!(y.to_vec()?, [0.5, 0.5]);
/// assert!(softmax.time(&problem, (&x, &mut y))?.elapsed.as_nanos() > 0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loaded<K: ReadyKernel> {
    ready: Arc<K>,
    function: Function<K::Params>,
    shared: K::Shared,
}

impl<K: ReadyKernel> Loaded<K> {
    /// Returns the configuration.
    pub fn config(&self) -> &K::Config {
        self.ready.config()
    }

    /// Returns the loaded function: its device, how long loading took, what the compiler noted.
    pub fn function(&self) -> &Function<K::Params> {
        &self.function
    }

    /// Returns the log of the driver's compiler (`ptxas`).
    pub fn compiler_log(&self) -> &str {
        self.function.compiler_log()
    }

    /// Launches the kernel on the default stream.
    ///
    /// # Errors
    /// Those of the kernel's [`ReadyKernel::launch`].
    pub fn launch(&self, problem: &K::Problem, args: K::Args<'_>) -> Result<(), K::Error> {
        self.with(LaunchOptions::default()).launch(problem, args)
    }

    /// Launches the kernel, waits for it, and returns how long it ran.
    ///
    /// # Errors
    /// Those of [`launch`](Loaded::launch), and on a GPU the fault of this launch.
    pub fn time(&self, problem: &K::Problem, args: K::Args<'_>) -> Result<Timing, K::Error> {
        self.with(LaunchOptions::default()).time(problem, args)
    }

    /// Returns a handle that launches on this stream.
    pub fn on<'l>(&'l self, stream: &'l Stream) -> LoadedWith<'l, K> {
        self.with(LaunchOptions::default().stream(stream))
    }

    /// Returns a handle that launches with these options.
    pub fn with<'l>(&'l self, options: LaunchOptions<'l>) -> LoadedWith<'l, K> {
        LoadedWith { loaded: self, options }
    }

    /// Returns the value that says how a launch goes.
    pub(in crate::kernels) fn ready(&self) -> &K {
        &self.ready
    }

    /// Returns what launches share.
    pub(in crate::kernels) fn shared(&self) -> &K::Shared {
        &self.shared
    }

    /// Returns what launches share, to change it before the first launch.
    pub(in crate::kernels) fn shared_mut(&mut self) -> &mut K::Shared {
        &mut self.shared
    }
}

impl<K: ReadyKernel> fmt::Debug for Loaded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({} on {})", self.config(), self.function.device())
    }
}

/// A [`Loaded`] kernel together with launch options, from [`Loaded::on`] or [`Loaded::with`].
pub struct LoadedWith<'l, K: ReadyKernel> {
    loaded: &'l Loaded<K>,
    options: LaunchOptions<'l>,
}

impl<K: ReadyKernel> LoadedWith<'_, K> {
    /// Launches the kernel.
    ///
    /// # Errors
    /// Those of [`Loaded::launch`].
    pub fn launch(&self, problem: &K::Problem, args: K::Args<'_>) -> Result<(), K::Error> {
        self.loaded.ready.launch(problem, args, self.start(None))
    }

    /// Launches the kernel, waits for it, and returns how long it ran. If the kernel is several
    /// launches, returns the sum of their times.
    ///
    /// # Errors
    /// Those of [`Loaded::time`].
    pub fn time(&self, problem: &K::Problem, args: K::Args<'_>) -> Result<Timing, K::Error> {
        self.time_all(|launch| self.loaded.ready.launch(problem, args, launch))
    }

    /// Returns the time of all kernels that `run` starts.
    pub(in crate::kernels) fn time_all(
        &self,
        run: impl FnOnce(Launch<'_, K>) -> Result<(), K::Error>,
    ) -> Result<Timing, K::Error> {
        let time = Cell::new(Timing { elapsed: Duration::ZERO, thread_ops: None });
        run(self.start(Some(&time)))?;
        Ok(time.get())
    }

    /// Returns a launch with these options. It adds the kernels' times to `time`, if there is one.
    #[inline]
    pub(in crate::kernels) fn start<'s>(&'s self, time: Option<&'s Cell<Timing>>) -> Launch<'s, K> {
        let Loaded { function, shared, .. } = self.loaded;
        Launch { function, shared, options: self.options, time }
    }
}

impl<K: ReadyKernel> fmt::Debug for LoadedWith<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {:?}", self.loaded, self.options)
    }
}

/// A launch that [`ReadyKernel::launch`] fills in: it starts the kernel with the stream and the
/// options that the caller chose, or times it.
pub struct Launch<'l, K: ReadyKernel> {
    function: &'l Function<K::Params>,
    shared: &'l K::Shared,
    options: LaunchOptions<'l>,
    /// The time of all starts so far, if they are timed.
    time: Option<&'l Cell<Timing>>,
}

impl<'l, K: ReadyKernel> Launch<'l, K> {
    /// Returns the same launch with another [`LaunchOptions::programmatic`] than the caller's. A
    /// launch that is timed is never programmatic.
    #[inline]
    #[must_use]
    pub fn programmatic(&self, programmatic: bool) -> Launch<'l, K> {
        let options = self.options.programmatic(programmatic && self.time.is_none());
        Launch { options, ..*self }
    }

    /// Starts the kernel. A kernel may be started several times in one launch.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    #[inline]
    pub fn start(
        &self,
        grid: Grid,
        args: <K::Params as Arguments>::Args<'_, '_>,
    ) -> Result<(), RuntimeError> {
        self.start_other(self.function, grid, args)
    }

    /// Starts the kernel with the arguments of signature `P`. For kernels whose parameters depend
    /// on the configuration.
    ///
    /// # Errors
    /// Those of [`Function::launch`], for example if the kernel has other parameters.
    #[inline]
    pub fn start_as<P: Arguments>(
        &self,
        grid: Grid,
        args: P::Args<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let mut list = ArgList::default();
        P::erase(args, &mut list);
        self.start_list(grid, &mut list)
    }

    /// Starts another kernel, for example one that prepares the input. [`ReadyKernel::share`] loads
    /// it.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    #[inline]
    pub fn start_other<P: Arguments>(
        &self,
        function: &Function<P>,
        grid: Grid,
        args: P::Args<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let mut list = ArgList::default();
        P::erase(args, &mut list);
        self.run(function, grid, &mut list)
    }

    /// Starts the kernel with arguments whose Rust types are gone already.
    #[inline]
    pub(in crate::kernels) fn start_list(
        &self,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<(), RuntimeError> {
        self.run(self.function, grid, args)
    }

    #[inline]
    fn run<P>(
        &self,
        function: &Function<P>,
        grid: Grid,
        args: &mut ArgList<'_>,
    ) -> Result<(), RuntimeError> {
        let Some(sum) = self.time else {
            return function.launch_list(self.options, grid, args);
        };
        let time = function.time_list(self.options, grid, args)?;
        let Timing { elapsed, thread_ops } = sum.get();
        sum.set(Timing {
            elapsed: elapsed + time.elapsed,
            thread_ops: time.thread_ops.map(|ops| ops + thread_ops.unwrap_or(0)),
        });
        Ok(())
    }

    /// Starts the kernel with the grid and the arguments from `bind`, which returns `None` if there
    /// is nothing to do.
    #[inline]
    pub(in crate::kernels) fn start_bound<'h, E: From<RuntimeError>>(
        &self,
        bind: impl FnOnce(&mut ArgList<'h>) -> Result<Option<Grid>, E>,
    ) -> Result<(), E> {
        let mut args = ArgList::default();
        match bind(&mut args)? {
            Some(grid) => Ok(self.start_list(grid, &mut args)?),
            None => Ok(()),
        }
    }

    /// Returns what [`ReadyKernel::share`] made.
    pub fn shared(&self) -> &'l K::Shared {
        self.shared
    }

    /// Returns this launch as one of `L`, which has the same parameters and shares the same.
    #[inline]
    pub(in crate::kernels) fn cast<L>(&self) -> Launch<'l, L>
    where
        L: ReadyKernel<Params = K::Params, Shared = K::Shared>,
    {
        let Launch { function, shared, options, time } = *self;
        Launch { function, shared, options, time }
    }
}

impl<K: ReadyKernel> fmt::Debug for Launch<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({:?} with {:?})", self.function, self.options)
    }
}
