//! Defines [`Checked`], the checks in the code of a loaded kernel, and what a launch passes for them.

use std::sync::Arc;

use super::argument::{Arg, ArgList, ArgValue};
use super::cuda;
use super::device::Device;
use super::error::RuntimeError;
use super::load_options::LoadOptions;
use crate::codegen::{Module, Ptx};
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{CheckedKernel, Kernel, KernelIr, Target, Untyped};

/// A kernel with checks that is to be loaded.
#[derive(Clone, Debug)]
pub(super) struct WithChecks(Arc<CheckedKernel>);

impl WithChecks {
    /// Returns the kernel with checks, if the options ask for them and it does not exceed a limit with them.
    pub(super) fn new(
        ir: &KernelIr,
        device: &Device,
        options: &LoadOptions<'_>,
    ) -> Option<WithChecks> {
        if !options.checks(!device.is_sim()) || !cfg!(feature = "sim") {
            return None;
        }
        CheckedKernel::of(ir).ok().map(|checked| WithChecks(Arc::new(checked)))
    }

    /// Returns all kernels of a module with checks; `None` where one has none.
    #[inline]
    pub(super) fn of_module(
        module: &Module<'_>,
        device: &Device,
        options: &LoadOptions<'_>,
    ) -> Option<Vec<WithChecks>> {
        let checked = |ir: &&KernelIr| {
            let kernel = Kernel::verify((*ir).clone()).ok()?;
            WithChecks::new(kernel.ir(), device, options)
        };
        module.kernels().iter().map(checked).collect()
    }

    /// Returns the module of kernels with checks.
    #[inline]
    pub(super) fn module(checked: &[WithChecks], target: Target) -> Module<'_> {
        let mut module = Module::new(target);
        for WithChecks(kernel) in checked {
            // Kernels with checks have the names and the constant arrays of those without.
            let _ = module.add(kernel.kernel());
        }
        module
    }

    pub(super) fn kernel(&self) -> &Kernel<Untyped> {
        self.0.kernel()
    }

    pub(super) fn code(&self) -> (&KernelIr, Ptx) {
        (self.0.kernel().ir(), self.0.kernel().ptx())
    }

    /// Returns the kernel with its checks, for the simulator.
    pub(super) fn shared(&self) -> &Arc<CheckedKernel> {
        &self.0
    }

    /// Returns what a launch on the simulator passes, which adds a record of its own.
    pub(super) fn on_simulator(self) -> Checked {
        Checked { kernel: self.0, record: None }
    }

    /// Returns what a launch on the GPU passes.
    pub(super) fn on_gpu(self, context: &'static cuda::Context) -> Result<Checked, RuntimeError> {
        #[cfg(feature = "sim")]
        let record = context.record_of(&self.0)?;
        #[cfg(not(feature = "sim"))]
        let (record, _) = (0, context);
        Ok(Checked { kernel: self.0, record: Some(record) })
    }
}

/// The further arguments of a kernel with checks.
#[derive(Debug)]
pub(super) struct Checked {
    kernel: Arc<CheckedKernel>,
    /// The address of the record; `None` on the simulator.
    record: Option<u64>,
}

impl Checked {
    /// Appends the bytes of buffers and boxes, and the address of the record.
    pub(super) fn append(&self, list: &mut ArgList<'_>) {
        for extent in self.kernel.extents() {
            let bytes = list.args.get(*extent as usize).map_or(0, bytes_of);
            list.args.push(word(bytes));
        }
        list.args.extend(self.record.map(word));
    }
}

/// The bytes that a kernel may access through a buffer, or of the box of a tensor map.
fn bytes_of(arg: &Arg<'_>) -> u64 {
    match (&arg.value, arg.ty) {
        (ArgValue::Buffer(_, len), Type::Pointer { elem, .. }) => {
            (*len as u64).saturating_mul(elem.size_bytes().into())
        }
        (ArgValue::TensorMap(map), _) => map.desc.shared_bytes(),
        (ArgValue::Buffer(..) | ArgValue::Scalar(_), _) => 0,
    }
}

fn word(bits: u64) -> Arg<'static> {
    Arg { ty: Scalar::U64.into(), value: ArgValue::Scalar(Const::new(Scalar::U64, bits)) }
}
