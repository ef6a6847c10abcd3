//! [`AttentionError`]: errors for unsupported attention configurations and for problems that a
//! kernel cannot run.

use crate::errors::errors;

use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;
use crate::tensor::TensorError;
use crate::tensor::atom::AtomError;

errors! {
    /// Why an attention kernel cannot be built, or why it cannot run a problem.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::attention::{AttentionConfig, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new([1, 8, 8], [256, 256], 128);
    /// let config = AttentionConfig::new(Target::SM_90A, &problem)?;
    /// let error = AttentionConfig { target: Target::SM_80, ..config }.check().unwrap_err();
    /// assert_eq!(error.to_string(), "the kernel needs sm_90a, and the target is sm_80");
    /// # Ok::<(), tilewright::kernels::attention::AttentionError>(())
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum AttentionError {
        /// the kernel needs {needed}, and the target is {target}
        Target { needed: Target, target: Target },
        /// the elements are {found}, but the kernel needs f16 or bf16
        Element { found: Scalar },
        /// the {which} dimension is {found}, but {rule}
        HeadDim { which: &'static str, found: u32, rule: &'static str },
        /// unsupported tile of {rows} queries and {columns} keys: {rule}
        Tile { rows: u32, columns: u32, rule: &'static str },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages or a smaller tile
        SharedMemory { needed: u64, available: u64 },
        /// each thread needs {needed} registers for elements, but has only {max}: use a smaller
        /// tile
        Accumulators { needed: u32, max: u32 },
        /// {heads} query heads are not a multiple of {key_heads} key heads
        Heads { heads: u32, key_heads: u32 },
        /// the kernel packs {packed} query heads into a tile, but {group} share a key head
        PackedHeads { packed: u32, group: u32 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// the problem has {what}, but the kernel was configured {with} one
        Feature { what: &'static str, with: &'static str },
        /// the scale and the softcap must be finite and above 0, got {found}
        Scale { found: f32 },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// the address of {operand} and its strides must be multiples of {bytes} bytes
        Alignment { operand: &'static str, bytes: u32 },
        /// {error}
        Layout(error: Box<LayoutError>),
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
crate::errors::message_as_debug!(AttentionError);

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for AttentionError {
            #[inline]
            fn from(error: $error) -> AttentionError {
                AttentionError::$variant(Box::new(error))
            }
        }
    )*};
}

from!(LayoutError Layout AtomError Atom TensorError Tensor BuildErrors Build RuntimeError Runtime);
