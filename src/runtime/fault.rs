//! Defines [`DeviceFault`]: a fault after which the process cannot use the GPU any more.

use std::fmt;

/// A fault from which a GPU does not recover, for example an access to unmapped memory. You get it
/// in [`RuntimeError::Fault`](super::RuntimeError::Fault). The process has to end before it can use
/// the GPU again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceFault {
    /// The faulting device.
    pub device: String,
    /// What happened.
    pub kind: FaultKind,
    /// How many launches were in flight. One of them caused the fault; if there were several, wait
    /// after each launch to learn which.
    pub launches: u64,
    /// The kernel of the most recent launch in flight.
    pub kernel: Option<String>,
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceFault { device, kind, launches, kernel } = self;
        match (kernel, launches) {
            (Some(kernel), 1) => write!(f, "kernel `{kernel}` {kind} on {device}"),
            (Some(kernel), 2..) => write!(
                f,
                "one of the last {launches} kernels, up to `{kernel}`, {kind} on {device} (synchronise \
                 after each launch to learn which)"
            ),
            _ => write!(f, "a kernel {kind} on {device}"),
        }
    }
}

/// What a GPU reports about a [`DeviceFault`]. To find the line behind a wrong access, run the
/// kernel on the simulator or load it with checks
/// ([`LoadOptions::checked`](super::LoadOptions::checked)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to unmapped memory.
    IllegalAddress,
    /// A misaligned access.
    MisalignedAddress,
    /// An access through an address that belongs to another state space.
    InvalidAddressSpace,
    /// An instruction that does not exist, or does not take these operands.
    IllegalInstruction,
    /// A jump to an address that holds no code.
    InvalidProgramCounter,
    /// A broken call stack, or too little memory for it.
    StackError,
    /// A failed assertion in the kernel.
    Assert,
    /// The kernel ran longer than the system allows.
    LaunchTimeout,
    /// An uncorrectable memory or link error.
    UncorrectableError,
    /// Other code in the process destroyed the context.
    ContextDestroyed,
    /// A fault that the driver does not specify.
    LaunchFailed,
    /// A failed check in the kernel's code; see
    /// [`LoadOptions::checked`](super::LoadOptions::checked).
    Violation,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::IllegalAddress => "accessed memory at an illegal address",
            FaultKind::MisalignedAddress => "accessed memory at a misaligned address",
            FaultKind::InvalidAddressSpace => "accessed an address in another state space",
            FaultKind::IllegalInstruction => "reached an illegal instruction",
            FaultKind::InvalidProgramCounter => "jumped to an invalid address",
            FaultKind::StackError => "corrupted or overflowed its stack",
            FaultKind::Assert => "failed an assertion",
            FaultKind::LaunchTimeout => "ran longer than the system allows",
            FaultKind::UncorrectableError => "hit an uncorrectable memory or link error",
            FaultKind::Violation => "failed a check in its code",
            FaultKind::ContextDestroyed => "lost its context",
            FaultKind::LaunchFailed => "failed for a reason that the driver does not name",
        })
    }
}
