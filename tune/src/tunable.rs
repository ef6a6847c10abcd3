//! [`Tunable`]: what you implement so that a [`Tuner`](super::Tuner) can build, check and time a
//! kernel's configurations.

use std::fmt;
use std::hash::Hash;

use super::search::Rejection;
use tilewright::ir::{Kernel, Target};
use tilewright::kernels::gemm::Regime;
use tilewright::kernels::{Built, Loaded, ReadyKernel};
use tilewright::runtime::{Device, Function, LaunchOptions, LoadOptions, Stream};

/// A problem that several configurations of a kernel can solve. Implement it for your own kernel,
/// and a [`Tuner`](super::Tuner) finds the fastest configuration.
///
/// For example, a copy of 256 elements by one warp, in vectors of 1, 2 or 4:
///
/// ```
/// use tilewright::prelude::*;
/// use tilewright_tune::{Effort, Regime, Rejection, Tunable, Tuner, TuningStore};
///
/// type Params = (Global<f32>, GlobalMut<f32>);
/// fn copy(width: u32, target: Target) -> Result<Kernel<Params>, BuildErrors> {
///     Kernel::<Params>::build("copy", target, |k, (x, y)| {
///         for i in 0..8 / width {
///             let at = (k.thread_idx().x + i * 32) * width;
///             match width {
///                 4 => y.store_vector(at, x.load_vector::<4>(at)),
///                 2 => y.store_vector(at, x.load_vector::<2>(at)),
///                 _ => y.store(at, x.load(at)),
///             }
///         }
///     })
/// }
///
/// struct Copy;
/// impl Tunable for Copy {
///     type Config = u32;
///     type Kernel = Kernel<Params>;
///     type Data = (Buffer<f32>, Buffer<f32>);
///     fn key(&self) -> String { "copy of 256 f32".to_owned() }
///     fn space(&self, _: &Device) -> Vec<u32> { vec![1, 2, 4] }
///     fn build(width: &u32, target: Target) -> Result<Kernel<Params>, Rejection> { Ok(copy(*width, target)?) }
///     fn bytes(&self) -> u64 { 2 * 1024 }
///     fn data(&self, device: &Device, _: u32) -> Result<Self::Data, Rejection> {
///         Ok((device.upload(&[7.0; 256])?, device.zeros(256)?))
///     }
///     fn launch(&self, _: &u32, copy: &Function<Params>, (x, y): &mut Self::Data, options: LaunchOptions<'_>) -> Result<(), Rejection> {
///         Ok(copy.launch_with(options, Grid::cover(32, 32), (x, y))?)
///     }
///     fn verify(&self, (_, y): &mut Self::Data) -> Result<(), Rejection> {
///         Rejection::unless(y.to_vec()? == [7.0; 256], "not a copy")
///     }
/// }
///
/// // The times of the simulator say nothing; on a GPU the fastest width wins.
/// let store = TuningStore::none();
/// let tuned = Tuner::new(&Device::sim()?).tune(&Copy, &store, Effort::default(), Regime::Latency)?;
/// assert!([1, 2, 4].contains(&tuned.config) && tuned.rejected.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Tunable {
    /// A configuration. It is identified by its text, so no two in a space may print the same.
    type Config: Clone + Eq + Hash + fmt::Display + Send + Sync;
    /// What [`build`](Tunable::build) makes from a configuration.
    type Kernel: Loadable;
    /// The buffers of a launch: inputs, outputs, and the expected result if you keep it.
    type Data;

    /// Returns a text that identifies the problem: sizes, types, strides. Stored results are found
    /// by it.
    fn key(&self) -> String;

    /// Returns all configurations.
    fn space(&self, device: &Device) -> Vec<Self::Config>;

    /// Checks, before the kernel is built, whether a configuration's kernel can solve this problem.
    /// Configurations that fail are not candidates.
    ///
    /// # Errors
    /// Returns why it cannot.
    fn check(&self, _config: &Self::Config) -> Result<(), Rejection> {
        Ok(())
    }

    /// Sorts the configurations into the order in which to measure them, the most promising first,
    /// because a search measures only the first ones.
    fn rank(
        &self,
        configs: Vec<Self::Config>,
        _device: &Device,
        _regime: Regime,
    ) -> Vec<Self::Config> {
        configs
    }

    /// Builds the kernel. It may depend only on the configuration and the target, because a tuner
    /// reuses it for other problems.
    ///
    /// # Errors
    /// Returns why there is no kernel.
    fn build(config: &Self::Config, target: Target) -> Result<Self::Kernel, Rejection>;

    /// Returns how many bytes a launch reads and writes. From it follows how many sets of buffers
    /// launches rotate through: together more than twice the L2 cache, so that every launch reads
    /// from memory.
    fn bytes(&self) -> u64;

    /// Returns true if a launch writes few of its [bytes](Tunable::bytes).
    /// [`bench()`](super::bench()) then compares it with a read of as many bytes, otherwise with a
    /// copy that reads one half and writes the other.
    fn only_reads(&self) -> bool {
        false
    }

    /// Returns how many arithmetic operations a launch does, or 0 if that is no useful measure.
    fn flops(&self) -> f64 {
        0.0
    }

    /// Makes the buffers of set `set`. Results are checked in set 0.
    ///
    /// # Errors
    /// Returns the device's error.
    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection>;

    /// Overwrites the outputs of set 0 with wrong values, so that a kernel that writes nothing
    /// fails the check. The default makes all buffers anew.
    ///
    /// # Errors
    /// Returns the device's error.
    fn clear(&self, data: &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        *data = self.data(&stream.device(), 0)?;
        Ok(stream.device().synchronize()?)
    }

    /// Launches the kernel with `options`, which name the stream.
    ///
    /// # Errors
    /// Returns the launch's error.
    fn launch(
        &self,
        config: &Self::Config,
        function: &FunctionOf<Self>,
        data: &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection>;

    /// Compares a finished launch's whole result with the expected one.
    ///
    /// # Errors
    /// [`Rejection::Wrong`] says how they differ.
    fn verify(&self, data: &mut Self::Data) -> Result<(), Rejection>;
}

/// A [`Tunable`]'s kernel after loading, for example `Function<Params>` for a `Kernel<Params>`.
pub type FunctionOf<K> = <<K as Tunable>::Kernel as Loadable>::Function;

/// A built kernel that a device can load: what [`Kernel::build`] returns, or a ready kernel.
/// Implement it if your tunable wraps its kernel in a type of its own.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright_tune::Loadable;
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("one", Target::SM_80, |k, (x,)| {
///     x.store(0, 1.0);
/// })?;
/// assert_eq!(kernel.code(), kernel.ptx().text());
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
pub trait Loadable: Send + Sync + 'static {
    /// The kernel after loading.
    type Function: Send + Sync + 'static;

    /// Returns the kernel's code, as PTX.
    fn code(&self) -> String;

    /// Loads the kernel for timing: without access checks.
    ///
    /// # Errors
    /// Returns the error of [`Device::load`].
    fn load(&self, device: &Device) -> Result<Self::Function, Rejection>;

    /// Returns the log of the driver's compiler.
    fn compiler_log(function: &Self::Function) -> &str;
}

impl<P: 'static> Loadable for Kernel<P> {
    type Function = Function<P>;

    fn code(&self) -> String {
        self.ptx().text().to_owned()
    }

    fn load(&self, device: &Device) -> Result<Function<P>, Rejection> {
        Ok(device.load(self)?)
    }

    fn compiler_log(function: &Function<P>) -> &str {
        function.compiler_log()
    }
}

impl<K: ReadyKernel + 'static> Loadable for Built<K>
where
    Rejection: From<K::Error>,
{
    type Function = Loaded<K>;

    fn code(&self) -> String {
        self.ptx().text().to_owned()
    }

    fn load(&self, device: &Device) -> Result<Loaded<K>, Rejection> {
        Ok(self.load_with(LoadOptions::default(), device)?)
    }

    fn compiler_log(function: &Loaded<K>) -> &str {
        function.compiler_log()
    }
}
