//! Defines [`LoadedModule`]: several kernels that are compiled and loaded together, which is faster
//! than loading each by itself.

use std::fmt;
use std::sync::Arc;

use super::checked::WithChecks;
use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::function::{Code, Function, check_kernel};
use super::load_options::LoadOptions;
use super::simulator;
use crate::codegen::Module;
use crate::ir::{Kernel, KernelIr, Signature};

/// Several kernels on a device, loaded together by [`Device::load_module`]. Compared with loading
/// each kernel by itself, a GPU compiles their PTX once, and equal constant arrays are stored once.
///
/// You can drop it after you took out the functions, because they keep the code.
pub struct LoadedModule {
    device: Device,
    kernels: Vec<KernelIr>,
    code: Option<Arc<cuda::Module>>,
    /// For each kernel, what its launches need, if the module was loaded with checks.
    checks: Vec<Option<WithChecks>>,
}

impl fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kernels.iter().map(|ir| ir.name.as_str()).collect();
        write!(f, "LoadedModule({} on {})", names.join(", "), self.device)
    }
}

impl Device {
    /// Loads several kernels together. Take them out with [`LoadedModule::function`].
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::codegen::Module;
    /// use tilewright::ir::{GlobalMut, Kernel};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let device = Device::default()?;
    /// let build = |name, scale: i32| {
    ///     Kernel::<(GlobalMut<i32>,)>::build(name, device.target(), |k, (x,)| {
    ///         let table = k.const_array(&[2, 3, 5, 7]); // once in the module
    ///         let i = k.thread_idx().x;
    ///         x.store(i, table.load(i) * scale)
    ///     })
    /// };
    /// let (primes, twice) = (build("primes", 1)?, build("twice", 2)?);
    /// let mut module = Module::new(device.target());
    /// module.add(&primes)?;
    /// module.add(&twice)?;
    /// let loaded = device.load_module(&module)?;
    /// let mut x = device.zeros(4)?;
    /// loaded.function(&twice)?.launch(Grid::cover(4, 4), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [4, 6, 10, 14]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Device::load`].
    #[inline]
    pub fn load_module(&self, module: &Module<'_>) -> Result<LoadedModule, RuntimeError> {
        LoadedModule::load(self, module, &LoadOptions::default())
    }

    /// Like [`Device::load_module`], but with options: access checks, another cache, or `ptxas` as
    /// the compiler.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    #[inline]
    pub fn load_module_with(
        &self,
        options: LoadOptions<'_>,
        module: &Module<'_>,
    ) -> Result<LoadedModule, RuntimeError> {
        LoadedModule::load(self, module, &options)
    }
}

impl LoadedModule {
    #[inline]
    pub(super) fn load(
        device: &Device,
        module: &Module<'_>,
        options: &LoadOptions<'_>,
    ) -> Result<LoadedModule, RuntimeError> {
        for ir in module.kernels() {
            check_kernel(device, ir)?;
        }
        let checks = |ir: &&KernelIr| {
            let signature = Arc::new(Signature::default());
            WithChecks::new(ir, &signature, device, options)
        };
        let checks = module.kernels().iter().map(checks).collect::<Result<Vec<_>, _>>()?;
        let code = match &device.backend {
            Backend::Sim(_) => None,
            Backend::Cuda(context) => {
                let names: Vec<&str> = module.kernels().iter().map(|ir| ir.name.as_str()).collect();
                let mut loaded = Vec::new();
                for (&ir, checks) in module.kernels().iter().zip(&checks) {
                    loaded.push(checks.as_ref().map_or(ir, |checks| checks.loaded(ir)));
                }
                let ptx = module.with_code(loaded).ptx();
                let names = names.join(", ");
                Some(Arc::new(cuda::Module::load_with(context, &names, ptx.text(), options)?))
            }
        };
        Ok(LoadedModule {
            device: device.clone(),
            kernels: module.kernels().iter().copied().cloned().collect(),
            code,
            checks,
        })
    }

    /// Returns a kernel of the module as a function that you can launch. `kernel` must be one that
    /// was added to the module.
    ///
    /// # Errors
    /// [`NotInModule`](RuntimeError::NotInModule); on a GPU [`Driver`](RuntimeError::Driver).
    pub fn function<P>(&self, kernel: &Kernel<P>) -> Result<Function<P>, RuntimeError> {
        let ir = kernel.ir();
        let known = self.kernels.iter().position(|known| known.name == ir.name && known == ir);
        let Some(checks) = known.and_then(|known| self.checks.get(known)) else {
            let kernel = kernel.name().to_owned();
            return Err(RuntimeError::NotInModule { kernel });
        };
        let code = match (&self.device.backend, &self.code) {
            (Backend::Sim(context), _) => {
                let shared = checks.as_ref().and_then(WithChecks::shared);
                Code::Sim(simulator::Function::load(context, ir, shared)?)
            }
            (Backend::Cuda(_), None) => return self.device.load(kernel),
            (Backend::Cuda(_), Some(module)) => {
                let loaded = checks.as_ref().map_or(ir, |checks| checks.loaded(ir));
                Code::Cuda(cuda::Function::new(Arc::clone(module), loaded, ir)?)
            }
        };
        let checks = checks.clone();
        let launched = checks.map(|checks| checks.into_launched(&self.device)).transpose()?;
        Ok(Function::new(&self.device, kernel, code, launched))
    }
}
