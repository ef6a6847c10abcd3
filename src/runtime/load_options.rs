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
    /// Whether the kernel's code gets access checks. With `None`, the environment and the build
    /// decide: see [`LoadOptions::checked`].
    pub checked: Option<bool>,
    /// Whether a check that is left is an error: see [`LoadOptions::deny_checks`].
    pub(super) denies_checks: bool,
}

#[allow(clippy::derivable_impls, reason = "only a build without CUDA could derive it")]
impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            #[cfg(feature = "cuda-any-version")]
            cache: Some(ModuleCache::shared()),
            ptxas: None,
            checked: None,
            denies_checks: false,
        }
    }
}

impl<'o> LoadOptions<'o> {
    /// Returns whether a load on a GPU, or on the simulator, adds checks.
    pub(super) fn checks(&self, is_gpu: bool) -> bool {
        static WANTED: LazyLock<Option<bool>> =
            LazyLock::new(|| std::env::var_os("TILEWRIGHT_CHECKED").map(|value| value == "1"));
        let default = is_gpu && cfg!(debug_assertions);
        self.checked.or(*WANTED).unwrap_or(default)
    }

    /// Returns whether a check that is left is an error.
    pub(super) fn denies_checks(&self) -> bool {
        self.denies_checks
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

    /// Puts access checks into the kernel's code, as
    /// [`Kernel::checked`](crate::ir::Kernel::checked) does: bounds of buffers and allocations,
    /// alignment, divisors, loop steps and promises. What
    /// [`Kernel::prove`](crate::ir::Kernel::prove) proves for every launch is not checked, and
    /// [`Function::checks`](super::Function::checks) lists what is. Turn it on to find the line
    /// behind a GPU fault or a wrong result. If you do not set this option, the environment variable
    /// `TILEWRIGHT_CHECKED` decides: `1` turns checks on, any other value turns them off. If it is
    /// not set either, a build with debug assertions checks on a GPU.
    ///
    /// On a GPU the first violation stops the kernel before the access. A call that waits for the
    /// kernel returns `RuntimeError::Violation` with the fault that the simulator would report. The
    /// device is then lost, as after every GPU fault. The simulator checks every access itself, so
    /// there the option only tests the checks: a launch runs the same code as on a GPU and returns
    /// the same fault as without the option. Without the feature `sim`, which defines the faults,
    /// the option does nothing.
    ///
    /// ```
    /// use tilewright::runtime::LoadOptions;
    /// assert_eq!(LoadOptions::default().checked(true).checked, Some(true));
    /// ```
    pub fn checked(self, checked: bool) -> LoadOptions<'o> {
        LoadOptions { checked: Some(checked), ..self }
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
    ///     k.if_(i.lt(n), |k| x.store(k, i, 7));
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
        LoadOptions { denies_checks: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::LoadOptions;

    #[test]
    fn options_come_before_the_kind_of_build() {
        let options = LoadOptions::default();
        assert!(options.checked(true).checks(false) && !options.checked(false).checks(true));
        if std::env::var_os("TILEWRIGHT_CHECKED").is_none() {
            assert_eq!(
                [true, false].map(|gpu| options.checks(gpu)),
                [cfg!(debug_assertions), false]
            );
        }
    }
}
