//! Errors from putting several kernels into one module, for example two with the same name. A
//! single verified kernel can always be written.

use crate::errors::errors;

use crate::ir::Target;

errors! {
    /// Why a kernel cannot be added to a [`Module`](super::Module).
    /// [`Module::add`](super::Module::add) returns it.
    ///
    /// ```
    /// use tilewright::codegen::{CodegenError, Module};
    /// use tilewright::ir::{Kernel, Target};
    ///
    /// let kernel = Kernel::<()>::build("k", Target::SM_80, |_, ()| ())?;
    /// let error = Module::new(Target::SM_90).add(&kernel).unwrap_err();
    /// assert!(matches!(error, CodegenError::OtherTarget { .. }));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CodegenError {
        /// the module already has a kernel `{name}`: the kernels of a module need different names
        DuplicateName { name: String },
        /// with kernel `{name}` the module's constant arrays need {bytes} bytes, but only {limit}
        /// fit: put the kernel into a module of its own
        ConstantArrays { name: String, bytes: u64, limit: u64 },
        /// kernel `{name}` is built for {kernel}, but the module is for {module}: build it for
        /// {module}, or put it into a module of its own
        OtherTarget { name: String, kernel: Target, module: Target },
    }
}
crate::errors::message_as_debug!(CodegenError);
