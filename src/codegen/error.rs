//! What can be wrong with a module. A single verified kernel can always be written.

use std::fmt;

use crate::ir::Target;

/// A kernel that cannot be added to a [`Module`](super::Module).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodegenError {
    /// The module has a kernel of this name.
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The constant arrays of all kernels take more bytes than a module has.
    ConstantArrays {
        /// The name of the kernel that was added last.
        name: String,
        /// The bytes that all take.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
    /// The kernel is built for another target than the module.
    OtherTarget {
        /// The name of the kernel.
        name: String,
        /// The target of the kernel.
        kernel: Target,
        /// The target of the module.
        module: Target,
    },
}

impl fmt::Display for CodegenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodegenError::DuplicateName { name } => write!(
                f,
                "the module already has a kernel `{name}`: the kernels of a module need different names"
            ),
            CodegenError::ConstantArrays { name, bytes, limit } => write!(
                f,
                "with kernel `{name}` the constant arrays of the module take {bytes} bytes, but there are {limit}: put it into a module of its own"
            ),
            CodegenError::OtherTarget { name, kernel, module } => write!(
                f,
                "kernel `{name}` is built for {kernel}, but the module is for {module}: build it for {module}, or put it into a module of its own"
            ),
        }
    }
}

impl std::error::Error for CodegenError {}
