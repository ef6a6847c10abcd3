//! Defines [`Device`]: a GPU or the simulator, and the calls that open one. Every program starts
//! here.

use std::fmt;

use super::cuda;
use super::device_choice::DeviceChoice;
use super::driver_answer::{CudaVersion, driver_release};
use super::error::RuntimeError;
use super::limits::Limits;
use super::properties::Properties;
use super::simulator;
use crate::ir::Target;

/// A GPU, or the CPU simulator. Start here: [`Device::default`] opens a GPU if there is one, and
/// otherwise the simulator.
///
/// A device is cheap to clone, and all clones compare equal. Devices that are opened for the same
/// GPU are equal, and so are simulators with the same number, whatever their options.
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    pub(super) backend: Backend,
}

#[derive(Clone)]
pub(super) enum Backend {
    Sim(simulator::Context),
    Cuda(&'static cuda::Context),
}

impl From<Backend> for Device {
    fn from(backend: Backend) -> Device {
        Device { backend }
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Backend) -> bool {
        match (self, other) {
            (Backend::Sim(a), Backend::Sim(b)) => a.number() == b.number(),
            (Backend::Cuda(a), Backend::Cuda(b)) => std::ptr::eq(*a, *b),
            (Backend::Sim(_), Backend::Cuda(_)) | (Backend::Cuda(_), Backend::Sim(_)) => false,
        }
    }
}

impl Eq for Backend {}

impl Device {
    /// Returns the first supported GPU, or the simulator if there is none: [`DeviceChoice::Auto`].
    ///
    /// You can set the environment variable `TILEWRIGHT_SIM_TARGET` to choose the simulator's
    /// target, for example `sm_90a`: see [`Device::sim_for`].
    ///
    /// # Errors
    /// The error of [`Device::cuda`], if there is a GPU but it does not start, or if there is none
    /// and this build has no simulator; [`SimTarget`](RuntimeError::SimTarget) if it falls back to
    /// the simulator and the variable names no target.
    #[expect(
        clippy::should_implement_trait,
        reason = "it can fail, so it is not the trait's function of this name"
    )]
    #[inline]
    pub fn default() -> Result<Device, RuntimeError> {
        let error = match Device::first_gpu() {
            Ok(device) => return Ok(device),
            Err(error) => error,
        };
        match error {
            RuntimeError::CudaNotBuilt
            | RuntimeError::NoDriver
            | RuntimeError::StubDriver
            | RuntimeError::OldDriver { .. }
            | RuntimeError::NoDevice
            | RuntimeError::UnsupportedDevice { .. } => match Device::sim_target_of_user()? {
                Some(target) => Device::sim_for(target),
                None => Device::sim(),
            }
            .map_err(|_| error),
            error => Err(error),
        }
    }

    /// Returns the simulator target that the environment names.
    #[inline]
    fn sim_target_of_user() -> Result<Option<Target>, RuntimeError> {
        match std::env::var_os("TILEWRIGHT_SIM_TARGET") {
            Some(text) if !text.is_empty() => {
                text.to_string_lossy().parse().map(Some).map_err(RuntimeError::SimTarget)
            }
            _ => Ok(None),
        }
    }

    /// Returns the simulator, with target `sm_80`. Use it for tests that must run without a GPU.
    ///
    /// # Errors
    /// [`SimulatorNotBuilt`](RuntimeError::SimulatorNotBuilt).
    pub fn sim() -> Result<Device, RuntimeError> {
        simulator::Context::open(None).map(|simulator| Backend::Sim(simulator).into())
    }

    /// Returns the simulator with `target` as its [`Device::target`], so that a program builds its
    /// kernels for `target`. The simulator runs kernels for every target, whichever you name here.
    ///
    /// # Errors
    /// [`SimulatorNotBuilt`](RuntimeError::SimulatorNotBuilt).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::Target;
    /// use tilewright::runtime::Device;
    /// assert_eq!(Device::sim()?.target(), Target::SM_80);
    /// assert_eq!(Device::sim_for(Target::SM_90A)?.target(), Target::SM_90A);
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn sim_for(target: Target) -> Result<Device, RuntimeError> {
        simulator::Context::open(Some(target)).map(|simulator| Backend::Sim(simulator).into())
    }

    /// Returns the simulator with this number, for programs that use several devices.
    /// [`Device::sim`] is simulator 0. As with two GPUs, one simulator refuses the memory, streams
    /// and functions of another.
    ///
    /// # Errors
    /// [`SimulatorNotBuilt`](RuntimeError::SimulatorNotBuilt).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// let (first, second) = (Device::sim()?, Device::sim_number(1)?);
    /// assert_ne!(first, second);
    /// assert_eq!((first, second.to_string()), (Device::sim_number(0)?, "simulator 1".to_owned()));
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn sim_number(number: u32) -> Result<Device, RuntimeError> {
        simulator::Context::open(None)
            .map(|simulator| Backend::Sim(simulator.numbered(number)).into())
    }

    /// Returns a simulator whose launches run with these options, for example with a limit on their
    /// work.
    ///
    /// ```
    /// use tilewright::runtime::Device;
    /// use tilewright::sim;
    /// let device = Device::sim_with(sim::Options::default().fuel(1_000_000));
    /// assert_eq!(Ok(device), Device::sim());
    /// ```
    #[cfg(feature = "sim")]
    pub fn sim_with(options: crate::sim::Options) -> Device {
        Backend::Sim(options.into()).into()
    }

    /// Returns the GPU with CUDA ordinal `ordinal`, counted from 0. Use it if the program must run
    /// on a particular GPU; [`Device::default`] picks one.
    ///
    /// # Errors
    /// [`CudaNotBuilt`](RuntimeError::CudaNotBuilt), [`NoDriver`](RuntimeError::NoDriver),
    /// [`StubDriver`](RuntimeError::StubDriver), [`OldDriver`](RuntimeError::OldDriver),
    /// [`MissingSymbol`](RuntimeError::MissingSymbol), [`NoDevice`](RuntimeError::NoDevice),
    /// [`NoSuchDevice`](RuntimeError::NoSuchDevice),
    /// [`UnsupportedDevice`](RuntimeError::UnsupportedDevice),
    /// [`DeviceLost`](RuntimeError::DeviceLost), [`Driver`](RuntimeError::Driver).
    #[inline]
    pub fn cuda(ordinal: usize) -> Result<Device, RuntimeError> {
        cuda::Context::open(ordinal).map(|context| Backend::Cuda(context).into())
    }

    /// Returns how many GPUs the CUDA driver offers, at least 1. Use it to open each with
    /// [`Device::cuda`].
    ///
    /// # Errors
    /// See [`Device::cuda`].
    #[doc(alias = "cudaGetDeviceCount")]
    #[inline]
    pub fn cuda_count() -> Result<usize, RuntimeError> {
        cuda::device_count()
    }

    /// Returns all devices of the machine: every GPU that is supported and works, then the
    /// simulator, for example to run a test on each. Opens each GPU, which takes the driver some
    /// tenths of a second.
    ///
    /// ```
    /// use tilewright::runtime::Device;
    /// let devices = Device::all();
    /// assert_eq!(devices.last().cloned(), Device::sim().ok());
    /// ```
    #[inline]
    pub fn all() -> Vec<Device> {
        let count = Device::cuda_count().unwrap_or(0);
        (0..count).map(Device::cuda).chain([Device::sim()]).filter_map(Result::ok).collect()
    }

    /// Returns the device that the user chose, for example on a command line: parse the text as a
    /// [`DeviceChoice`] first.
    ///
    /// # Errors
    /// See [`Device::default`], [`Device::sim`] and [`Device::cuda`].
    #[inline]
    pub fn open(choice: DeviceChoice) -> Result<Device, RuntimeError> {
        match choice {
            DeviceChoice::Auto => Device::default(),
            DeviceChoice::Sim => Device::sim(),
            DeviceChoice::Cuda(None) => Device::first_gpu(),
            DeviceChoice::Cuda(Some(ordinal)) => Device::cuda(ordinal),
        }
    }

    /// Returns the first GPU that is not too old for this crate.
    #[inline]
    fn first_gpu() -> Result<Device, RuntimeError> {
        let count = Device::cuda_count()?;
        let mut answer = Device::cuda(0);
        for ordinal in 1..count {
            if !matches!(answer, Err(RuntimeError::UnsupportedDevice { .. })) {
                break;
            }
            answer = Device::cuda(ordinal);
        }
        answer
    }

    /// Returns the device's name: `simulator`, or what the driver calls the GPU, such as
    /// `NVIDIA H200`.
    pub fn name(&self) -> &str {
        match &self.backend {
            Backend::Sim(simulator) => simulator.name(),
            Backend::Cuda(context) => context.name(),
        }
    }

    /// Returns the target to build kernels for. On a GPU that is the target with the most features
    /// that the GPU supports. On the simulator it is `sm_80`, which every kernel can use, or the
    /// target that you gave to [`Device::sim_for`]. The simulator runs kernels for every target.
    pub fn target(&self) -> Target {
        match &self.backend {
            Backend::Sim(simulator) => simulator.target(),
            Backend::Cuda(context) => context.target(),
        }
    }

    /// Returns whether this is the simulator, for example to choose a small problem there.
    pub fn is_sim(&self) -> bool {
        match &self.backend {
            Backend::Sim(_) => true,
            Backend::Cuda(_) => false,
        }
    }

    /// Returns the limits that a launch has to respect: the maximum grid, cluster and block size,
    /// and the maximum shared memory. Check them if your program computes the block or tile size.
    pub fn limits(&self) -> Limits {
        match &self.backend {
            Backend::Sim(_) => Limits::SIMULATOR,
            Backend::Cuda(context) => context.limits(),
        }
    }

    /// Returns the GPU's properties, such as its SM count and L2 size, from which you can choose
    /// tiles and grids; `None` on the simulator.
    #[doc(alias = "cudaGetDeviceProperties")]
    pub fn properties(&self) -> Option<Properties> {
        match &self.backend {
            Backend::Sim(_) => None,
            Backend::Cuda(context) => Some(context.properties()),
        }
    }

    /// Returns the CUDA version that the driver implements; `None` on the simulator. Print it with
    /// measurements, because the driver also compiles the kernels.
    pub fn cuda_version(&self) -> Option<CudaVersion> {
        match &self.backend {
            Backend::Sim(_) => None,
            Backend::Cuda(context) => Some(context.cuda_version()),
        }
    }

    /// Returns the NVIDIA driver's release, such as `580.95.05`. Returns `None` on the simulator,
    /// and if the system does not tell the release.
    pub fn driver_release(&self) -> Option<String> {
        if self.is_sim() { None } else { driver_release() }
    }

    /// Returns the GPU's free and total memory in bytes, for example to choose a batch size; `None`
    /// on the simulator, which uses host memory.
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn memory(&self) -> Result<Option<(u64, u64)>, RuntimeError> {
        match &self.backend {
            Backend::Sim(_) => Ok(None),
            Backend::Cuda(context) => context.memory().map(Some),
        }
    }

    /// Compiles PTX text with the driver and returns the compiler's messages: registers, spills and
    /// shared memory of each entry. Use it to check hand-written or changed PTX; the code is
    /// neither kept nor run. Errors call the text `name`.
    ///
    /// # Errors
    /// [`PtxRejected`](RuntimeError::PtxRejected) with the compiler's log,
    /// [`SetMaxNRegIgnored`](RuntimeError::SetMaxNRegIgnored),
    /// [`PtxOnSimulator`](RuntimeError::PtxOnSimulator), [`DeviceLost`](RuntimeError::DeviceLost),
    /// [`Driver`](RuntimeError::Driver).
    pub fn check_ptx(&self, name: &str, ptx: &str) -> Result<String, RuntimeError> {
        match &self.backend {
            Backend::Sim(_) => Err(RuntimeError::PtxOnSimulator { name: name.to_owned() }),
            Backend::Cuda(context) => {
                cuda::Module::load(context, name, ptx).map(|module| module.log().to_owned())
            }
        }
    }

    /// Sets how many bytes of freed memory the driver may keep for later buffers when the device is
    /// synchronised. It starts at 0: each synchronisation gives all freed memory back. Raise it if
    /// your program synchronises often and allocates much, because both become faster. Does nothing
    /// on the simulator and on GPUs without memory pools.
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn keep_memory(&self, bytes: u64) -> Result<(), RuntimeError> {
        match &self.backend {
            Backend::Sim(_) => Ok(()),
            Backend::Cuda(context) => context.keep_memory(bytes),
        }
    }

    /// Waits for all work, then gives kept memory back to the system: see [`Device::keep_memory`].
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn trim_memory(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            Backend::Sim(_) => Ok(()),
            Backend::Cuda(context) => context.trim_memory(),
        }
    }

    /// Waits for all earlier launches on all streams. Call it before you stop a clock, or to learn
    /// whether a launch has failed.
    ///
    /// # Errors
    /// The fault of one of these launches, if there was one;
    /// [`AssertFailed`](RuntimeError::AssertFailed) once for each kernel with failed assertions,
    /// whichever thread launched it. (Other calls that wait report only the failed assertions of
    /// their own thread's launches.)
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            Backend::Sim(simulator) => {
                simulator.synchronize();
                Ok(())
            }
            Backend::Cuda(context) => context.synchronize(),
        }
    }
}

/// Shows `simulator`, or for example `GPU 0 (NVIDIA H200)`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Sim(simulator) => f.write_str(&simulator.label()),
            Backend::Cuda(context) => f.write_str(context.label()),
        }
    }
}

/// Returns the driver's CUDA version, even if there is no GPU that this crate supports. Use it to
/// explain why [`Device::cuda`] fails.
///
/// # Errors
/// The reason why no driver starts; see [`Device::cuda`].
#[inline]
pub fn driver_version() -> Result<CudaVersion, RuntimeError> {
    cuda::driver_version()
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
