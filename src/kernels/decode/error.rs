//! [`DecodeError`]: errors for unsupported decode configurations and for problems that a kernel
//! cannot run.

use crate::errors::errors;

use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::runtime::RuntimeError;
use crate::tensor::TensorError;
use crate::tensor::atom::AtomError;

errors! {
    /// Why a decode kernel cannot be built, or why it cannot run a problem.
    ///
    /// ```
    /// use tilewright::kernels::decode::DecodeProblem;
    ///
    /// // 32 query heads and 5 key heads; pages of 64 tokens.
    /// let error = DecodeProblem::new([4, 32, 5], 128, [100, 64, 20]).check().unwrap_err();
    /// assert_eq!(error.to_string(), "32 query heads are not a multiple of 5 key heads");
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum DecodeError {
        /// the kernel needs sm_80, and the target is {target}
        Target { target: Target },
        /// the elements are {found}, but the kernel needs f16 or bf16
        Element { found: Scalar },
        /// the head dimension is {found}, but must be 64, 96, 128 or 256
        HeadDim { found: u32 },
        /// the problem has the head dimension {found}, but the kernel was built for {expected}
        OtherHeadDim { found: u32, expected: u32 },
        /// unsupported configuration with {warps} warps and {stages} stages: a block must have 1, 2
        /// or 4 warps, and a ring buffer 2 to 64 stages
        Ring { warps: u32, stages: u32 },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages or warps
        SharedMemory { needed: u64, available: u64 },
        /// {heads} query heads are not a multiple of {key_heads} key heads
        Heads { heads: u32, key_heads: u32 },
        /// each sequence has {found} queries, but must have 1 to 16
        Queries { found: u32 },
        /// a window must have at least one key
        Window,
        /// a page has {found} tokens, but the count must be a power of two from 16 to 2^20
        Page { found: u32 },
        /// sequences have up to {max_len} keys, but each row of the page table has room for
        /// {capacity}
        Capacity { max_len: u32, capacity: u64 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// the scale must be finite and above 0, got {found}
        Scale { found: f32 },
        /// the {which} stride of {operand} is {found} elements, but it must be a multiple of 8
        Stride { operand: &'static str, which: &'static str, found: u64 },
        /// {operand} must start at a multiple of 16 bytes
        Address { operand: &'static str },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// {splits} splits of {tokens} tokens cannot serve sequences whose queries see up to {keys}
        /// keys: {rule}
        Plan { splits: u32, tokens: u32, keys: u32, rule: &'static str },
        /// {error}
        Atom(error: Box<AtomError>),
        /// {error}
        Tensor(error: Box<TensorError>),
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(DecodeError);

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for DecodeError {
            #[inline]
            fn from(error: $error) -> DecodeError {
                DecodeError::$variant(Box::new(error))
            }
        }
    )*};
}

from!(AtomError Atom TensorError Tensor BuildErrors Build RuntimeError Runtime);
