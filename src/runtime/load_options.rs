//! Defines [`LoadOptions`], the compiler and the cache of a load.

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
#[cfg_attr(not(feature = "cuda-any-version"), derive(Default))]
#[non_exhaustive]
pub struct LoadOptions<'o> {
    /// The cache of compiled code; `None` compiles each time.
    #[cfg(feature = "cuda-any-version")]
    pub cache: Option<&'o ModuleCache>,
    /// The assembler that compiles instead of the driver.
    pub ptxas: Option<&'o Ptxas>,
}

#[cfg(feature = "cuda-any-version")]
impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions { cache: Some(ModuleCache::shared()), ptxas: None }
    }
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
}
