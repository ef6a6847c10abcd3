//! Loads and launches kernels that are built with access checks (the option
//! `LoadOptions::checked`). Such a kernel takes additional arguments; [`Checked`] appends them.

use std::sync::Arc;

use super::argument::{Arg, ArgList, ArgValue};
use super::cuda;
use super::device::Device;
use super::error::RuntimeError;
use super::load_options::LoadOptions;
use crate::codegen::{Module, Ptx};
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{CheckedKernel, Kernel, KernelIr, Signature, Site, Target, Untyped};
use crate::prove;

/// A kernel to which access checks were added, ready to be loaded instead of the original one.
#[derive(Clone, Debug)]
pub(super) struct WithChecks(Arc<CheckedKernel>);

impl WithChecks {
    /// Returns the kernel with checks, or `None` if the options do not ask for checks or if the
    /// checks would exceed a limit.
    pub(super) fn new(
        ir: &KernelIr,
        signature: &Signature,
        device: &Device,
        options: &LoadOptions<'_>,
    ) -> Option<WithChecks> {
        if !options.checks(!device.is_sim()) || !cfg!(feature = "sim") {
            return None;
        }
        prove::checked(ir, signature).ok().map(|checked| WithChecks(Arc::new(checked)))
    }

    /// Returns all kernels of a module with access checks. Returns `None` if one of them cannot get
    /// any, so that the module is loaded without checks.
    #[inline]
    pub(super) fn of_module(
        module: &Module<'_>,
        device: &Device,
        options: &LoadOptions<'_>,
    ) -> Option<Vec<WithChecks>> {
        let checked = |ir: &&KernelIr| {
            let kernel = Kernel::verify((*ir).clone()).ok()?;
            WithChecks::new(kernel.ir(), kernel.signature(), device, options)
        };
        module.kernels().iter().map(checked).collect()
    }

    /// Puts kernels with checks into one module, which is loaded instead of the original one.
    #[inline]
    pub(super) fn module(checked: &[WithChecks], target: Target) -> Module<'_> {
        let mut module = Module::new(target);
        for WithChecks(kernel) in checked {
            // This cannot fail: the checked kernels have the same names and constant arrays as the
            // plain ones.
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

    /// Returns what a launch on the simulator appends to the arguments. It has no address for the
    /// record of the first violation, because the simulator adds a record of its own to each
    /// launch.
    pub(super) fn on_simulator(self) -> Checked {
        Checked { kernel: self.0, record: None }
    }

    /// Returns what a launch on a GPU appends to the arguments, with a new record for the kernel's
    /// first violation.
    pub(super) fn on_gpu(self, context: &'static cuda::Context) -> Result<Checked, RuntimeError> {
        #[cfg(feature = "sim")]
        let record = context.record_of(&self.0)?;
        #[cfg(not(feature = "sim"))]
        let (record, _) = (0, context);
        Ok(Checked { kernel: self.0, record: Some(record) })
    }
}

/// The arguments that a kernel with checks takes in addition to its own: the sizes that the checks
/// compare with, and where to record the first violation.
#[derive(Debug)]
pub(super) struct Checked {
    kernel: Arc<CheckedKernel>,
    /// The device address of the violation record; `None` on the simulator.
    record: Option<u64>,
}

impl Checked {
    /// Returns the checks in the code.
    pub(super) fn sites(&self) -> &[Site] {
        self.kernel.sites()
    }

    /// Appends the byte sizes of buffers and tensor-map boxes, then the violation record's address.
    /// A launch calls it after its own arguments.
    pub(super) fn append(&self, list: &mut ArgList<'_>) {
        for extent in self.kernel.extents() {
            let bytes = list.args.get(*extent as usize).map_or(0, bytes_of);
            list.args.push(word(bytes));
        }
        list.args.extend(self.record.map(word));
    }
}

/// Returns how many bytes the kernel may access through a buffer, or the box size of a tensor map.
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
