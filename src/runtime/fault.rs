//! Defines [`DeviceFault`], a fault that ends the use of a GPU in a process.

use std::fmt;

/// A fault from which a GPU does not recover.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceFault {
    /// The device.
    pub device: String,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The number of launches in flight. One of them is at fault.
    pub launches: u64,
    /// The kernel of the latest of them.
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

/// The kinds of faults that a GPU reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside of mapped memory.
    IllegalAddress,
    /// An access at an address that its width does not divide.
    MisalignedAddress,
    /// An access in a state space that the address does not belong to.
    InvalidAddressSpace,
    /// An instruction that does not exist, or not with these operands.
    IllegalInstruction,
    /// A jump to an address without code.
    InvalidProgramCounter,
    /// A fault of the call stack, or too little memory for it.
    StackError,
    /// An assertion in the kernel.
    Assert,
    /// A kernel that ran longer than the system allows.
    LaunchTimeout,
    /// An error of memory or of a link that could not be corrected.
    UncorrectableError,
    /// The context was destroyed by other code of the process.
    ContextDestroyed,
    /// A fault that the driver does not name further.
    LaunchFailed,
    /// A violation of a check in the kernel's code; see [`LoadOptions::checked`](super::LoadOptions::checked).
    Violation,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::IllegalAddress => "accessed memory at an illegal address",
            FaultKind::MisalignedAddress => "accessed memory at a misaligned address",
            FaultKind::InvalidAddressSpace => "accessed memory of another state space",
            FaultKind::IllegalInstruction => "came to an illegal instruction",
            FaultKind::InvalidProgramCounter => "jumped to an invalid address",
            FaultKind::StackError => "corrupted or overflowed its stack",
            FaultKind::Assert => "failed an assertion",
            FaultKind::LaunchTimeout => "ran longer than the system allows",
            FaultKind::UncorrectableError => {
                "met an error of memory or of a link that could not be corrected"
            }
            FaultKind::Violation => "violated a check of its code",
            FaultKind::ContextDestroyed => "lost its context",
            FaultKind::LaunchFailed => "failed for a reason that the driver does not name",
        })
    }
}
