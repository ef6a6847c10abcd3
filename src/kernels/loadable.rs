//! The macro that gives every ready kernel with a single [`Kernel`](crate::ir::Kernel) its
//! `config`, `ir`, `ptx` and `load` methods. Invoke it in the `launch.rs` of a new kernel.

/// Defines `config`, `ir`, `ptx`, `load` and `load_with` for a kernel struct with the fields
/// `config` and `kernel`, and `compiler_log` for the loaded kernel, which must have a field
/// `function`. The block builds the loaded kernel from the configuration and the function.
macro_rules! loadable {
    (
        impl[$($generics:tt)*] $Kernel:ty: $Config:ty => $Loaded:ty, $Error:ty;
        ($config:ident, $function:ident, $device:pat) $loaded:block
    ) => {
        impl<$($generics)*> $Kernel {
            /// Returns the configuration the kernel was built for.
            pub fn config(&self) -> &$Config {
                &self.config
            }

            /// Returns the kernel's IR.
            pub fn ir(&self) -> &$crate::ir::KernelIr {
                self.kernel.ir()
            }

            /// Writes the kernel as PTX.
            pub fn ptx(&self) -> $crate::codegen::Ptx {
                self.kernel.ptx()
            }

            /// Loads the kernel on a device.
            ///
            /// # Errors
            /// Those of [`Device::load`](crate::runtime::Device::load).
            pub fn load(&self, device: &$crate::runtime::Device) -> Result<$Loaded, $Error> {
                self.load_with($crate::runtime::LoadOptions::default(), device)
            }

            /// Same as [`load`](Self::load), with load options: for example access checks.
            ///
            /// # Errors
            /// Those of [`Device::load_with`](crate::runtime::Device::load_with).
            pub fn load_with(
                &self,
                options: $crate::runtime::LoadOptions<'_>,
                device: &$crate::runtime::Device,
            ) -> Result<$Loaded, $Error> {
                let ($config, $device) = (self.config, device);
                let $function = device.load_with(options, &self.kernel)?;
                $loaded
            }
        }

        impl<$($generics)*> $Loaded {
            /// Returns the log of the driver's compiler (`ptxas`).
            pub fn compiler_log(&self) -> &str {
                self.function.compiler_log()
            }
        }
    };
}
pub(in crate::kernels) use loadable;
