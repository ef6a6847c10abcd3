//! [`ConvolutionError`]: errors for unsupported convolution configurations and for problems that a
//! kernel cannot run.

use crate::errors::errors;

use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;
use crate::tensor::TensorError;
use crate::tensor::atom::AtomError;

errors! {
    /// Why a convolution kernel cannot be built, or why it cannot run a problem.
    ///
    /// ```
    /// use tilewright::kernels::convolution::ConvolutionProblem;
    /// use tilewright::tensor::copy::Filter;
    ///
    /// let problem = ConvolutionProblem::new([1, 14, 14, 3], 64, [Filter::new(3); 2]);
    /// assert_eq!(
    ///     problem.check().unwrap_err().to_string(),
    ///     "there are 3 input channels, but the count must be a positive multiple of 8: pad them with zeros"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum ConvolutionError {
        /// the kernel needs sm_90a, and the target is {target}
        Target { target: Target },
        /// the elements are {found}, but the kernel needs f16 or bf16
        Element { found: Scalar },
        /// unsupported configuration `{config}`: {rule}
        Config { config: String, rule: &'static str },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages
        SharedMemory { needed: u64, available: u64 },
        /// `{name}` is not a configuration's name, such as `sm90a_128x256x64_s4_o4_bias_relu`
        Name { name: String },
        /// there are {found} {which} channels, but the count must be a positive multiple of 8: pad
        /// them with zeros
        Channels { which: &'static str, found: u32 },
        /// the filter along the {dimension} has {what} {found}, but TMA needs {min} to {max}
        Filter { dimension: &'static str, what: &'static str, found: i64, min: i64, max: i64 },
        /// the filter does not fit the {extent} pixels along the {dimension} with their padding
        NoOutputs { dimension: &'static str, extent: u32 },
        /// {what} is {found}, but can be at most {max}
        TooLarge { what: &'static str, found: u64, max: u64 },
        /// the launch has {what} bias, but the kernel was configured {with} one
        Bias { what: &'static str, with: &'static str },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
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
crate::errors::message_as_debug!(ConvolutionError);

macro_rules! from {
    ($($error:ident $variant:ident)*) => {$(
        impl From<$error> for ConvolutionError {
            #[inline]
            fn from(error: $error) -> ConvolutionError {
                ConvolutionError::$variant(Box::new(error))
            }
        }
    )*};
}

from!(LayoutError Layout AtomError Atom TensorError Tensor BuildErrors Build RuntimeError Runtime);
