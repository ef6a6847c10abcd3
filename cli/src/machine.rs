//! The GPUs for which configurations can be ranked without having one.

use std::fmt;

use clap::ValueEnum;
use tilewright::ir::Target;
use tilewright::kernels::gemm::Machine;

/// A GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GpuName {
    /// H200 SXM, which the model is calibrated on.
    H200,
    /// H100 SXM.
    H100,
    /// A100 80GB SXM.
    A100,
    /// GeForce RTX 4090.
    Rtx4090,
    /// L40S.
    L40s,
}

impl GpuName {
    pub(super) const fn machine(self) -> Machine {
        match self {
            GpuName::H200 => Machine::H200,
            GpuName::H100 => Machine::H100,
            GpuName::A100 => Machine::A100,
            GpuName::Rtx4090 => Machine::RTX_4090,
            GpuName::L40s => Machine::L40S,
        }
    }

    /// Returns the target to build for.
    pub(super) const fn target(self) -> Target {
        match self {
            GpuName::H200 | GpuName::H100 => Target::SM_90A,
            GpuName::A100 => Target::SM_80,
            GpuName::Rtx4090 | GpuName::L40s => Target::SM_89,
        }
    }
}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GpuName::H200 => "H200",
            GpuName::H100 => "H100",
            GpuName::A100 => "A100",
            GpuName::Rtx4090 => "RTX 4090",
            GpuName::L40s => "L40S",
        })
    }
}
