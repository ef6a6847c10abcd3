//! Defines [`Checked`]: what a launch passes to a kernel whose code contains checks.

use std::sync::Arc;

use super::argument::{Arg, ArgList, ArgValue};
use super::cuda;
use super::device::Device;
use super::error::RuntimeError;
use super::load_options::LoadOptions;
use crate::codegen::{Module, Ptx};
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{CheckedKernel, Kernel, KernelIr, Target, Untyped};

/// A kernel with checks, ready to be loaded.
#[derive(Clone, Debug)]
pub(super) struct WithChecks(Arc<CheckedKernel>);

impl WithChecks {
    /// Returns the kernel with checks, or `None` if the options do not ask for checks or if the
    /// checks would exceed a limit.
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

    /// Returns all kernels of a module with checks, or `None` if one of them has none.
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

    /// Builds a module from kernels with checks.
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

    /// Returns what a launch on the simulator passes. The simulator adds a record of its own.
    pub(super) fn on_simulator(self) -> Checked {
        Checked { kernel: self.0, record: None }
    }

    /// Returns what a launch on a GPU passes.
    pub(super) fn on_gpu(self, context: &'static cuda::Context) -> Result<Checked, RuntimeError> {
        #[cfg(feature = "sim")]
        let record = context.record_of(&self.0)?;
        #[cfg(not(feature = "sim"))]
        let (record, _) = (0, context);
        Ok(Checked { kernel: self.0, record: Some(record) })
    }
}

/// The additional arguments of a kernel with checks.
#[derive(Debug)]
pub(super) struct Checked {
    kernel: Arc<CheckedKernel>,
    /// The record's device address; `None` on the simulator.
    record: Option<u64>,
}

impl Checked {
    /// Appends the byte sizes of buffers and boxes, then the record's address.
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
