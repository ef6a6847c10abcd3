//! Defines [`LoadOptions`]: which compiler, cache and access checks a load uses. Pass it to
//! `Device::load_with`.

use std::sync::LazyLock;

#[cfg(feature = "cuda-any-version")]
use super::cache::ModuleCache;
use super::ptxas::Ptxas;

/// How a load compiles a kernel for a GPU. By default the driver compiles it, and
/// [`ModuleCache::shared`](super::ModuleCache::shared) keeps the code (its documentation says which
/// code it cannot keep).
///
/// ```
/// # #[cfg(all(feature = "sim", feature = "cuda-any-version"))] {
/// # use tilewright::ir::{Kernel, Target};
/// use tilewright::runtime::{Device, LoadOptions, ModuleCache};
/// # let kernel = Kernel::<()>::build("k", Target::SM_80, |_, ()| ())?;
/// let cache = ModuleCache::in_memory();
/// let device = Device::default()?;
/// let function = device.load_with(LoadOptions::default().cache(Some(&cache)), &kernel)?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LoadOptions<'o> {
    /// The cache of compiled code. With `None`, every load compiles, for example to measure compile
    /// times.
    #[cfg(feature = "cuda-any-version")]
    pub cache: Option<&'o ModuleCache>,
    /// The `ptxas` that compiles. With `None`, the driver compiles.
    pub ptxas: Option<&'o Ptxas>,
    pub(super) checks: Checks,
}

/// Whether a load proves the kernel, and adds checks of what is not proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checks {
    /// On a GPU, unless the environment says otherwise.
    OnGpu,
    Everywhere,
    /// A check that is left is an error.
    Denied,
    Never,
}

#[allow(clippy::derivable_impls, reason = "only a build without CUDA could derive it")]
impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            #[cfg(feature = "cuda-any-version")]
            cache: Some(ModuleCache::shared()),
            ptxas: None,
            checks: Checks::OnGpu,
        }
    }
}

impl<'o> LoadOptions<'o> {
    /// Returns whether a load on a GPU, or on the simulator, adds checks.
    pub(super) fn wants_checks(&self, is_gpu: bool) -> bool {
        static WANTED: LazyLock<Option<bool>> =
            LazyLock::new(|| std::env::var_os("TILEWRIGHT_CHECKED").map(|value| value == "1"));
        match self.checks {
            Checks::OnGpu => WANTED.unwrap_or(is_gpu),
            Checks::Everywhere | Checks::Denied => true,
            Checks::Never => false,
        }
    }

    /// Returns whether a check that is left is an error.
    pub(super) fn denies_checks(&self) -> bool {
        self.checks == Checks::Denied
    }

    /// Sets the cache of compiled code; with `None`, the load compiles even if the code was
    /// compiled before.
    #[cfg(feature = "cuda-any-version")]
    pub fn cache(self, cache: Option<&'o ModuleCache>) -> LoadOptions<'o> {
        LoadOptions { cache, ..self }
    }

    /// Sets the `ptxas` that compiles, for example one from another toolkit than the driver's; with
    /// `None`, the driver compiles.
    pub fn ptxas(self, ptxas: Option<&'o Ptxas>) -> LoadOptions<'o> {
        LoadOptions { ptxas, ..self }
    }

    /// Checks accesses on the simulator, too, as a load on a GPU does by default: it proves the
    /// kernel, and puts checks into the code where
    /// [`Kernel::prove`](crate::ir::Kernel::prove) proves nothing. They check bounds of buffers and
    /// allocations, alignment, divisors, loop steps and promises.
    /// [`Function::checks`](super::Function::checks) lists them, and
    /// [`Function::conditions`](super::Function::conditions) says on which conditions the proofs
    /// rely.
    ///
    /// On a GPU the first violation stops the kernel before the access. A call that waits for the
    /// kernel returns `RuntimeError::Violation` with the fault that the simulator would report. The
    /// device is then lost, as after every GPU fault. The simulator checks every access itself, so
    /// there the option only tests the checks: a launch runs the same code as on a GPU and returns
    /// the same fault as without the option. Without the feature `sim`, which defines the faults, a
    /// violation is a `RuntimeError::Fault` without a line.
    ///
    /// The environment variable `TILEWRIGHT_CHECKED` changes loads that do not set an option: with
    /// `1`, they check on the simulator, too; with any other value, they do not check on a GPU,
    /// either. If you set it so, you vouch for the program's kernels, as with
    /// [`unchecked`](LoadOptions::unchecked).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// # use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, LoadOptions};
    /// # let kernel = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| x.store(0, 7))?;
    /// let function = Device::sim()?.load_with(LoadOptions::default().checked(), &kernel)?;
    /// assert!(function.is_checked());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checked(self) -> LoadOptions<'o> {
        LoadOptions { checks: Checks::Everywhere, ..self }
    }

    /// Neither proves nor checks anything. On a GPU nothing then compares an access with its
    /// buffer, so use it to measure what checks cost, or if a kernel loads too slowly with a proof.
    /// The simulator checks every access nevertheless.
    ///
    /// # Safety
    /// On a GPU, each launch must access only what its arguments and the kernel's own allocations
    /// hold, at aligned addresses, and all that the kernel promises with `assume_*` must hold.
    #[allow(unsafe_code, reason = "the caller promises what the kernel accesses")]
    pub unsafe fn unchecked(self) -> LoadOptions<'o> {
        LoadOptions { checks: Checks::Never, ..self }
    }

    /// The default options, but without checks.
    pub(super) fn never_checked() -> LoadOptions<'o> {
        LoadOptions { checks: Checks::Never, ..LoadOptions::default() }
    }

    /// Makes a load fail if the kernel's code would need checks, so that you notice when a change
    /// loses a proof. The error, [`ChecksLeft`](super::RuntimeError::ChecksLeft), names the Rust
    /// line of the first access that is not proved, and what could not be shown. A launch that does
    /// not fulfil a condition returns
    /// [`ConditionBroken`](super::RuntimeError::ConditionBroken), because the kernel that would
    /// check its accesses then is not wanted either. The option works on the simulator, too.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid, LoadOptions, RuntimeError};
    ///
    /// let device = Device::sim()?;
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("fill", Target::SM_80, |k, (x, n)| {
    ///     let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
    ///     k.if_(i.lt(n), |k| x.store(i, 7));
    /// })?;
    /// let function = device.load_with(LoadOptions::default().deny_checks(), &kernel)?;
    /// let mut x = device.zeros(100)?;
    /// function.launch(Grid::cover(100, 32), (&mut x, 100))?;
    /// let error = function.launch(Grid::cover(101, 32), (&mut x, 101)).unwrap_err();
    /// assert!(matches!(error, RuntimeError::ConditionBroken { .. }), "{error}");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deny_checks(self) -> LoadOptions<'o> {
        LoadOptions { checks: Checks::Denied, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::LoadOptions;

    #[test]
    fn options_come_before_the_environment() {
        let options = LoadOptions::default();
        assert!(options.checked().wants_checks(false) && options.deny_checks().wants_checks(false));
        if std::env::var_os("TILEWRIGHT_CHECKED").is_none() {
            assert_eq!([true, false].map(|gpu| options.wants_checks(gpu)), [true, false]);
        }
    }
}
