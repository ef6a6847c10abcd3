//! [`Guard`]: the conditions under which a kernel's launches need no more checks than its code has.

use std::sync::{Arc, OnceLock};

use super::argument::{Arg, ArgValue};
#[cfg(feature = "cuda-any-version")]
use super::cache::ModuleCache;
use super::checked::WithChecks;
use super::device::Device;
use super::error::RuntimeError;
use super::function::Inner;
use super::load_options::LoadOptions;
use super::ptxas::Ptxas;
use crate::ir::op::Axis;
use crate::ir::{KernelIr, Signature};
use crate::launch::grid::Grid;
use crate::prove::{Condition, LaunchFacts};

/// The launch conditions of a function, and the same kernel with all checks for launches that do
/// not fulfil them.
///
/// The conditions are sufficient, not necessary: a launch that does not fulfil them may be correct.
/// So it runs the kernel that checks every access that is not proved for all launches. That kernel
/// is compiled by the first launch that needs it, also in the middle of a graph recording, because
/// recordings allow loads.
#[derive(Debug)]
pub(super) struct Guard {
    conditions: Vec<Condition>,
    otherwise: Otherwise,
}

/// What happens to a launch that does not fulfil the conditions.
#[derive(Debug)]
enum Otherwise {
    Refuse { kernel: String },
    Check(Box<Later>),
}

/// A kernel that is loaded when a launch needs it.
#[derive(Debug)]
struct Later {
    ir: KernelIr,
    signature: Arc<Signature>,
    ptxas: Option<Ptxas>,
    /// Whether the kernel without these checks came from the shared cache. A cache of the caller's
    /// own may not live long enough.
    #[cfg(feature = "cuda-any-version")]
    is_cached: bool,
    loaded: OnceLock<Arc<Inner>>,
}

impl Guard {
    /// Returns the guard for a kernel, or `None` if there are no conditions.
    pub(super) fn new(
        conditions: Vec<Condition>,
        ir: &KernelIr,
        signature: &Arc<Signature>,
        options: &LoadOptions<'_>,
    ) -> Option<Guard> {
        if conditions.is_empty() {
            return None;
        }
        let otherwise = match options.denies_checks() {
            true => Otherwise::Refuse { kernel: ir.name.clone() },
            false => Otherwise::Check(Box::new(Later {
                ir: ir.clone(),
                signature: Arc::clone(signature),
                ptxas: options.ptxas.cloned(),
                #[cfg(feature = "cuda-any-version")]
                is_cached: options
                    .cache
                    .is_some_and(|cache| std::ptr::eq(cache, ModuleCache::shared())),
                loaded: OnceLock::new(),
            })),
        };
        Some(Guard { conditions, otherwise })
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns the first condition that the launch does not fulfil.
    #[inline]
    pub(super) fn broken(&self, grid: Grid, args: &[Arg<'_>]) -> Option<&Condition> {
        let launch = Values { grid, args };
        self.conditions.iter().find(|condition| !condition.holds_for(&launch))
    }

    /// Returns the kernel that runs although the launch does not fulfil this condition.
    #[cold]
    pub(super) fn otherwise(
        &self,
        device: &Device,
        condition: &Condition,
    ) -> Result<&Arc<Inner>, RuntimeError> {
        let later = match &self.otherwise {
            Otherwise::Check(later) => later,
            Otherwise::Refuse { kernel } => {
                return Err(RuntimeError::ConditionBroken {
                    kernel: kernel.clone(),
                    condition: condition.to_string(),
                    op: condition.op(),
                    location: condition.location(),
                });
            }
        };
        if let Some(loaded) = later.loaded.get() {
            return Ok(loaded);
        }
        // Two threads may both load it. Then one of the two is used.
        let loaded = Arc::new(later.load(device)?);
        Ok(later.loaded.get_or_init(|| loaded))
    }
}

impl Later {
    fn load(&self, device: &Device) -> Result<Inner, RuntimeError> {
        let options = LoadOptions {
            #[cfg(feature = "cuda-any-version")]
            cache: self.is_cached.then(ModuleCache::shared),
            ptxas: self.ptxas.as_ref(),
            ..LoadOptions::default()
        };
        let checks = WithChecks::all(&self.ir, &self.signature)?;
        Inner::load(device, &self.ir, &self.signature, &options, Some(checks))
    }
}

/// A launch, as its conditions see it.
struct Values<'l> {
    grid: Grid,
    args: &'l [Arg<'l>],
}

impl<'l> Values<'l> {
    fn value(&self, param: u32) -> Option<&'l ArgValue<'l>> {
        self.args.get(param as usize).map(|arg| &arg.value)
    }
}

impl LaunchFacts for Values<'_> {
    fn blocks(&self, axis: Axis) -> u32 {
        self.grid.blocks[axis.index()]
    }

    fn threads(&self, axis: Axis) -> u32 {
        self.grid.threads[axis.index()]
    }

    fn integer(&self, param: u32) -> Option<i128> {
        match self.value(param)? {
            ArgValue::Scalar(value) => value.as_int(),
            ArgValue::Buffer(..) | ArgValue::TensorMap(_) => None,
        }
    }

    fn len(&self, param: u32) -> Option<u64> {
        match self.value(param)? {
            ArgValue::Buffer(_, len) => Some(*len as u64),
            ArgValue::Scalar(_) | ArgValue::TensorMap(_) => None,
        }
    }

    fn box_bytes(&self, param: u32) -> Option<u64> {
        match self.value(param)? {
            ArgValue::TensorMap(map) => Some(map.desc.shared_bytes()),
            ArgValue::Scalar(_) | ArgValue::Buffer(..) => None,
        }
    }

    fn is_aligned(&self, param: u32, bytes: u32) -> bool {
        match self.value(param) {
            Some(ArgValue::Buffer(memory, _)) => memory.is_aligned_to(u64::from(bytes).max(1)),
            _ => false,
        }
    }
}
