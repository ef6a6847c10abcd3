//! Kernels on a device, and their launch.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use super::argument::{Arg, ArgValue, Arguments};
use super::buffer::Memory;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::grid::Grid;
use super::options::LaunchOptions;
use super::timing::Timing;
use crate::ir::{Kernel, LaunchBounds, Type};

#[cfg(feature = "cuda-any-version")]
use super::cuda;
#[cfg(feature = "sim")]
use {super::sim, std::time::Instant};

/// A kernel of signature `P`, loaded on a device by [`Device::load`].
///
/// It is cheap to clone and can be launched from several threads. Dropping it right after a launch is safe.
pub struct Function<P> {
    inner: Arc<Inner>,
    params: PhantomData<fn() -> P>,
}

struct Inner {
    device: Device,
    name: String,
    params: Vec<Type>,
    bounds: LaunchBounds,
    code: Code,
}

enum Code {
    #[cfg(feature = "sim")]
    Sim(Box<sim::Program>, sim::Options),
    #[cfg(feature = "cuda-any-version")]
    Cuda(cuda::Function),
}

impl<P> Clone for Function<P> {
    fn clone(&self) -> Self {
        Function { inner: Arc::clone(&self.inner), params: PhantomData }
    }
}

impl<P> fmt::Debug for Function<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} on {})", self.inner.name, self.inner.device)
    }
}

impl<P> Function<P> {
    pub(super) fn load(device: &Device, kernel: &Kernel<P>) -> Result<Function<P>, RuntimeError> {
        let ir = kernel.ir();
        let code = match &device.backend {
            #[cfg(feature = "sim")]
            Backend::Sim(options) => {
                Code::Sim(Box::new(sim::Program::new(ir).map_err(simulation)?), options.clone())
            }
            #[cfg(feature = "cuda-any-version")]
            Backend::Cuda(context) => {
                context.check_target(kernel.name(), kernel.target())?;
                let (bytes, limit_bytes) =
                    (ir.shared_layout().1, device.limits().shared_bytes_opt_in);
                if bytes > limit_bytes {
                    let kernel = kernel.name().to_owned();
                    return Err(RuntimeError::SharedTooLarge { kernel, bytes, limit_bytes });
                }
                Code::Cuda(cuda::Function::load(context, ir, kernel.ptx().text())?)
            }
        };
        let inner = Inner {
            device: device.clone(),
            name: kernel.name().to_owned(),
            params: ir.params.iter().map(|param| ir.type_of(param.value)).collect(),
            bounds: ir.bounds,
            code,
        };
        Ok(Function { inner: Arc::new(inner), params: PhantomData })
    }

    /// The name of the kernel.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl<P> Function<P> {
    /// Runs the kernel on the threads of `grid`, after all work of the device before this call.
    ///
    /// On a GPU the call returns as soon as the launch is queued, and a fault or a failed assertion of the
    /// kernel appears in a later call that waits for it. On the simulator the kernel has run when the call
    /// returns.
    ///
    /// # Errors
    /// [`EmptyGrid`](RuntimeError::EmptyGrid), [`GridTooLarge`](RuntimeError::GridTooLarge),
    /// [`BlockTooLarge`](RuntimeError::BlockTooLarge), [`BlockNotAsBuilt`](RuntimeError::BlockNotAsBuilt),
    /// [`MoreThreadsThanBuilt`](RuntimeError::MoreThreadsThanBuilt), [`Cluster`](RuntimeError::Cluster),
    /// [`TooManyRegisters`](RuntimeError::TooManyRegisters), [`OtherDevice`](RuntimeError::OtherDevice); for
    /// an untyped kernel [`ArgumentCount`](RuntimeError::ArgumentCount) and
    /// [`ArgumentType`](RuntimeError::ArgumentType); on the simulator
    /// `RuntimeError::Simulation` and [`AssertFailed`](RuntimeError::AssertFailed); on a GPU the fault of a launch before, if it had one, and
    /// [`Driver`](RuntimeError::Driver).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel};
    /// use tilewright::runtime::{Device, Grid};
    /// let device = Device::default()?;
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("fill", device.target(), |k, (x, value)| {
    ///     x.store(k, k.thread_idx().x, value)
    /// })?;
    /// let fill = device.load(&kernel)?;
    /// let mut x = device.zeros(32)?;
    /// fill.launch(Grid::cover(32, 32), (&mut x, 7))?;
    /// assert_eq!(x.to_vec()?, [7; 32]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn launch(&self, grid: Grid, args: P::Args<'_>) -> Result<(), RuntimeError>
    where
        P: Arguments,
    {
        self.launch_with(LaunchOptions::default(), grid, args)
    }

    /// As [`Function::launch`], with options.
    ///
    /// # Errors
    /// Those of [`Function::launch`]; [`TooManyBlocksAtOnce`](RuntimeError::TooManyBlocksAtOnce) for a
    /// cooperative launch.
    pub fn launch_with(
        &self,
        options: LaunchOptions,
        grid: Grid,
        args: P::Args<'_>,
    ) -> Result<(), RuntimeError>
    where
        P: Arguments,
    {
        let args = P::erase(args).0;
        let cluster = self.inner.check(grid, &args)?;
        match &self.inner.code {
            #[cfg(feature = "sim")]
            Code::Sim(program, simulator) => {
                let _ = (options, cluster);
                simulate(program, simulator, grid, &args).map(|_| ())
            }
            #[cfg(feature = "cuda-any-version")]
            Code::Cuda(function) => {
                let launch = cuda::Launch { grid, cluster, options };
                function.launch(&launch, &device_args(&args))
            }
        }
    }

    /// As [`Function::launch`]; waits for the end and says how long the kernel ran.
    ///
    /// # Errors
    /// Those of [`Function::launch`], and on a GPU the fault of this launch and
    /// [`AssertFailed`](RuntimeError::AssertFailed).
    pub fn time(&self, grid: Grid, args: P::Args<'_>) -> Result<Timing, RuntimeError>
    where
        P: Arguments,
    {
        self.time_with(LaunchOptions::default(), grid, args)
    }

    /// As [`Function::time`], with options.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`], and on a GPU the fault of this launch and
    /// [`AssertFailed`](RuntimeError::AssertFailed).
    pub fn time_with(
        &self,
        options: LaunchOptions,
        grid: Grid,
        args: P::Args<'_>,
    ) -> Result<Timing, RuntimeError>
    where
        P: Arguments,
    {
        let args = P::erase(args).0;
        let cluster = self.inner.check(grid, &args)?;
        match &self.inner.code {
            #[cfg(feature = "sim")]
            Code::Sim(program, simulator) => {
                let _ = (options, cluster);
                let start = Instant::now();
                let thread_ops = simulate(program, simulator, grid, &args)?;
                Ok(Timing { elapsed: start.elapsed(), thread_ops: Some(thread_ops) })
            }
            #[cfg(feature = "cuda-any-version")]
            Code::Cuda(function) => {
                let launch = cuda::Launch { grid, cluster, options };
                let elapsed = function.time(&launch, &device_args(&args))?;
                Ok(Timing { elapsed, thread_ops: None })
            }
        }
    }
}

impl Inner {
    /// Refuses what the device or the kernel does not take. The types are checked for every kernel, also
    /// where rustc has done it: a wrong list would let the driver read past its end.
    /// The answer is the blocks of a cluster along each axis.
    fn check(&self, grid: Grid, args: &[Arg<'_>]) -> Result<[u32; 3], RuntimeError> {
        let cluster = self.device.limits().check(&self.name, &self.bounds, grid)?;
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
            if let ArgValue::Buffer(memory) = arg.value
                && !memory.is_on(&self.device)
            {
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

#[cfg(feature = "sim")]
fn simulate(
    program: &sim::Program,
    options: &sim::Options,
    grid: Grid,
    args: &[Arg<'_>],
) -> Result<u64, RuntimeError> {
    let args: SmallVec<[sim::Arg<'_>; 8]> = args.iter().filter_map(sim_arg).collect();
    let report = program.run(grid, &args, options).map_err(simulation)?;
    Ok(report.thread_ops)
}

/// `None` for a buffer of another device, which has been refused before.
#[cfg(feature = "sim")]
fn sim_arg<'h>(arg: &Arg<'h>) -> Option<sim::Arg<'h>> {
    match arg.value {
        ArgValue::Scalar(value) => Some(sim::Arg::Scalar(value)),
        ArgValue::Buffer(Memory::Sim(buffer)) => Some(sim::Arg::Buffer(buffer)),
        #[cfg(feature = "cuda-any-version")]
        ArgValue::Buffer(Memory::Cuda(_)) => None,
    }
}

#[cfg(feature = "sim")]
fn simulation(error: sim::RunError) -> RuntimeError {
    match error {
        sim::RunError::AssertFailed(failures) => RuntimeError::AssertFailed(failures),
        error => RuntimeError::Simulation(Box::new(error)),
    }
}

/// The bits of each argument: of a buffer its address.
#[cfg(feature = "cuda-any-version")]
fn device_args(args: &[Arg<'_>]) -> SmallVec<[u64; 12]> {
    args.iter()
        .map(|arg| match arg.value {
            ArgValue::Scalar(value) => value.bits(),
            ArgValue::Buffer(Memory::Cuda(memory)) => memory.address(),
            // A buffer of another device has been refused before.
            #[cfg(feature = "sim")]
            ArgValue::Buffer(Memory::Sim(_)) => 0,
        })
        .collect()
}
