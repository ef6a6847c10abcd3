//! Defines [`LoadedModule`], several kernels that are loaded together.

use std::fmt;
use std::sync::Arc;

use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::function::{Code, Function, check_kernel};
use super::load_options::LoadOptions;
use super::simulator;
use crate::codegen::Module;
use crate::ir::{Kernel, KernelIr};

/// A module of several kernels on a device, loaded by [`Device::load_module`]: on a GPU their PTX is compiled
/// once, and equal constant arrays are one.
///
/// It is not needed any more once its functions are taken out; those keep the code.
pub struct LoadedModule {
    device: Device,
    kernels: Vec<KernelIr>,
    code: Option<Arc<cuda::Module>>,
}

impl fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kernels.iter().map(|ir| ir.name.as_str()).collect();
        write!(f, "LoadedModule({} on {})", names.join(", "), self.device)
    }
}

impl LoadedModule {
    pub(super) fn load(
        device: &Device,
        module: &Module<'_>,
        options: &LoadOptions<'_>,
    ) -> Result<LoadedModule, RuntimeError> {
        for ir in module.kernels() {
            check_kernel(device, ir)?;
        }
        let code = match &device.backend {
            Backend::Sim(_) => None,
            Backend::Cuda(context) => {
                let names: Vec<&str> = module.kernels().iter().map(|ir| ir.name.as_str()).collect();
                let ptx = module.ptx();
                let names = names.join(", ");
                Some(Arc::new(cuda::Module::load_with(context, &names, ptx.text(), options)?))
            }
        };
        Ok(LoadedModule {
            device: device.clone(),
            kernels: module.kernels().iter().copied().cloned().collect(),
            code,
        })
    }

    /// Returns the function of a kernel of the module.
    ///
    /// # Errors
    /// [`NotInModule`](RuntimeError::NotInModule); on a GPU [`Driver`](RuntimeError::Driver).
    pub fn function<P>(&self, kernel: &Kernel<P>) -> Result<Function<P>, RuntimeError> {
        let ir = kernel.ir();
        if !self.kernels.iter().any(|known| known.name == ir.name && known == ir) {
            let kernel = kernel.name().to_owned();
            return Err(RuntimeError::NotInModule { kernel });
        }
        let code = match &self.device.backend {
            Backend::Sim(context) => Code::Sim(simulator::Function::load(context, ir)?),
            Backend::Cuda(context) => match &self.code {
                Some(module) => Code::Cuda(cuda::Function::new(Arc::clone(module), ir)?),
                None => Code::Cuda(cuda::Function::load(
                    context,
                    ir,
                    kernel.ptx().text(),
                    &LoadOptions::default(),
                )?),
            },
        };
        Ok(Function::new(&self.device, kernel, code))
    }
}
