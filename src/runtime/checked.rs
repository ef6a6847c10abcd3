//! Loads and launches kernels with checks (the option `LoadOptions::checked`). If checks are in the
//! code, the kernel takes additional arguments; [`Checked`] appends them.

use std::sync::Arc;

use super::argument::{Arg, ArgList, ArgValue};
use super::checks_left::ChecksLeft;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::guard::Guard;
use super::load_options::LoadOptions;
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{CheckedKernel, KernelIr, Signature, Site, VerifyErrors};
use crate::prove::{self, Guarded};

/// What makes a kernel's launches safe: the checks in its code, and the conditions on a launch
/// without which it needs more of them.
#[derive(Clone, Debug)]
pub(super) struct WithChecks {
    /// The kernel with checks, to load instead of the original one; `None` if it needs none.
    code: Option<Arc<CheckedKernel>>,
    guard: Option<Arc<Guard>>,
}

impl WithChecks {
    /// Proves the kernel, and adds the checks that a launch needs although it fulfils the kernel's
    /// conditions. Returns `None` if the options do not ask for checks.
    pub(super) fn new(
        ir: &KernelIr,
        signature: &Arc<Signature>,
        device: &Device,
        options: &LoadOptions<'_>,
    ) -> Result<Option<WithChecks>, RuntimeError> {
        let denies = options.denies_checks();
        if !options.wants_checks(!device.is_sim()) {
            return Ok(None);
        }
        let Guarded { checked, conditions, open } =
            prove::guarded(ir, signature).map_err(|errors| no_room(ir, &errors))?;
        if denies && let Some(first) = open.first() {
            return Err(RuntimeError::ChecksLeft(Box::new(ChecksLeft::new(ir, open.len(), first))));
        }
        let guard = Guard::new(conditions, ir, signature, options).map(Arc::new);
        Ok(Some(WithChecks { code: checked.map(Arc::new), guard }))
    }

    /// Adds checks of all that is not proved for every launch.
    pub(super) fn all(ir: &KernelIr, signature: &Signature) -> Result<WithChecks, RuntimeError> {
        let checked = prove::checked(ir, signature).map_err(|errors| no_room(ir, &errors))?;
        Ok(WithChecks { code: Some(Arc::new(checked)), guard: None })
    }

    /// Returns the kernel to load: the one with checks, or else `ir`.
    pub(super) fn loaded<'k>(&'k self, ir: &'k KernelIr) -> &'k KernelIr {
        self.code.as_ref().map_or(ir, |checked| checked.kernel().ir())
    }

    /// Returns the kernel with its checks, for the simulator.
    pub(super) fn shared(&self) -> Option<&Arc<CheckedKernel>> {
        self.code.as_ref()
    }

    /// Returns what launches need. On a GPU, makes a record for the kernel's first violation; the
    /// simulator makes one for each launch.
    pub(super) fn into_launched(self, device: &Device) -> Result<Launched, RuntimeError> {
        let WithChecks { code, guard } = self;
        let checked = match (code, &device.backend) {
            (None, _) => None,
            (Some(kernel), Backend::Sim(_)) => Some(Checked { kernel, record: None }),
            (Some(kernel), Backend::Cuda(context)) => {
                #[cfg(feature = "sim")]
                let record = context.record_of(&kernel)?;
                #[cfg(not(feature = "sim"))]
                let (record, _) = (0, context);
                Some(Checked { kernel, record: Some(record) })
            }
        };
        Ok(Launched { checked, guard })
    }
}

/// What launches of a kernel need that was loaded with checks.
#[derive(Debug)]
pub(super) struct Launched {
    /// The arguments for the checks, if the code has any.
    pub(super) checked: Option<Checked>,
    pub(super) guard: Option<Arc<Guard>>,
}

fn no_room(ir: &KernelIr, errors: &VerifyErrors) -> RuntimeError {
    RuntimeError::NoRoomForChecks { kernel: ir.name.clone(), errors: Box::new(errors.clone()) }
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
