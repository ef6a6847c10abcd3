//! Defines [`LoadOptions`], the compiler and the cache of a load.

use std::sync::LazyLock;

#[cfg(feature = "cuda-any-version")]
use super::cache::ModuleCache;
use super::ptxas::Ptxas;

/// The way in which a load compiles a kernel for a GPU: by the driver, with the code kept in
/// [`ModuleCache::shared`](super::ModuleCache::shared) (which says what it cannot keep), by default.
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
    /// The cache of compiled code; `None` compiles each time.
    #[cfg(feature = "cuda-any-version")]
    pub cache: Option<&'o ModuleCache>,
    /// The assembler that compiles instead of the driver.
    pub ptxas: Option<&'o Ptxas>,
    /// True for checks in the kernel's code; see [`LoadOptions::checked`].
    pub checked: bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            #[cfg(feature = "cuda-any-version")]
            cache: Some(ModuleCache::shared()),
            ptxas: None,
            checked: checked_by_default(),
        }
    }
}

/// Returns whether loads check: where `TILEWRIGHT_CHECKED` is `1`.
fn checked_by_default() -> bool {
    static CHECKED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("TILEWRIGHT_CHECKED").is_some_and(|value| value == "1"));
    *CHECKED
}

impl<'o> LoadOptions<'o> {
    /// Keeps code in this cache, or in none.
    #[cfg(feature = "cuda-any-version")]
    pub fn cache(self, cache: Option<&'o ModuleCache>) -> LoadOptions<'o> {
        LoadOptions { cache, ..self }
    }

    /// Compiles with this assembler, or with the driver.
    pub fn ptxas(self, ptxas: Option<&'o Ptxas>) -> LoadOptions<'o> {
        LoadOptions { ptxas, ..self }
    }

    /// Puts checks into the code of the kernel for a GPU, as [`Kernel::checked`](crate::ir::Kernel::checked) does: bounds
    /// of buffers and allocations, alignment, divisors, steps of loops and `assume_aligned`. They are off by default, and
    /// on where the environment variable `TILEWRIGHT_CHECKED` is `1`: on an H200 they have called accesses of correct
    /// kernels violations, so compare what they report with the simulator.
    ///
    /// The first violation ends the kernel before the access. A call that waits for it returns
    /// `RuntimeError::Violation` with the fault that the simulator would report. The device is then lost, as after
    /// every fault of a GPU. The simulator checks every access itself and ignores the option. So does a GPU without the
    /// feature `sim`, which has the faults.
    ///
    /// ```
    /// use tilewright::runtime::LoadOptions;
    /// assert!(LoadOptions::default().checked(true).checked);
    /// ```
    pub fn checked(self, checked: bool) -> LoadOptions<'o> {
        LoadOptions { checked, ..self }
    }
}
