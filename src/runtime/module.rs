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
use crate::ir::{Kernel, KernelIr};

/// Several kernels on a device, loaded together by [`Device::load_module`]. Compared with loading
/// each kernel by itself, a GPU compiles their PTX once, and equal constant arrays are stored once.
///
/// You can drop it after you took out the functions, because they keep the code.
pub struct LoadedModule {
    device: Device,
    kernels: Vec<KernelIr>,
    code: Option<Arc<cuda::Module>>,
    /// The kernels with checks that the code contains.
    checked: Vec<WithChecks>,
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
        let checked = WithChecks::of_module(module, device, options).unwrap_or_default();
        let code = match &device.backend {
            Backend::Sim(_) => None,
            Backend::Cuda(context) => {
                let names: Vec<&str> = module.kernels().iter().map(|ir| ir.name.as_str()).collect();
                let ptx = WithChecks::module(&checked, module.target()).ptx();
                let ptx = if checked.is_empty() { module.ptx() } else { ptx };
                let names = names.join(", ");
                Some(Arc::new(cuda::Module::load_with(context, &names, ptx.text(), options)?))
            }
        };
        Ok(LoadedModule {
            device: device.clone(),
            kernels: module.kernels().iter().copied().cloned().collect(),
            code,
            checked,
        })
    }

    /// Returns a kernel of the module as a function that you can launch. `kernel` must be one that
    /// was added to the module.
    ///
    /// # Errors
    /// [`NotInModule`](RuntimeError::NotInModule); on a GPU [`Driver`](RuntimeError::Driver).
    pub fn function<P>(&self, kernel: &Kernel<P>) -> Result<Function<P>, RuntimeError> {
        let ir = kernel.ir();
        if !self.kernels.iter().any(|known| known.name == ir.name && known == ir) {
            let kernel = kernel.name().to_owned();
            return Err(RuntimeError::NotInModule { kernel });
        }
        let with_checks = self.checked.iter().find(|checks| checks.kernel().name() == ir.name);
        let (context, module) = match (&self.device.backend, &self.code) {
            (Backend::Sim(context), _) => {
                let shared = with_checks.map(WithChecks::shared);
                let code = Code::Sim(simulator::Function::load(context, ir, shared)?);
                let checked = with_checks.cloned().map(WithChecks::on_simulator);
                return Ok(Function::new(&self.device, kernel, code, checked));
            }
            (Backend::Cuda(_), None) => return self.device.load(kernel),
            (Backend::Cuda(context), Some(module)) => (context, Arc::clone(module)),
        };
        let loaded = with_checks.map_or(ir, |checks| checks.kernel().ir());
        let code = Code::Cuda(cuda::Function::new(module, loaded, ir)?);
        let checked = with_checks.map(|checks| checks.clone().on_gpu(context)).transpose()?;
        Ok(Function::new(&self.device, kernel, code, checked))
    }
}
