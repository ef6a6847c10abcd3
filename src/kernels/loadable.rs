//! `loadable`, the methods that all kernels of one [`Kernel`](crate::ir::Kernel) have.

/// Defines `config`, `ir`, `ptx`, `load` and `load_with` of a kernel with the fields `config` and `kernel`, and `compiler_log` of
/// the loaded one, whose field `function` is the kernel on the device. The block makes the loaded kernel.
macro_rules! loadable {
    (
        impl[$($generics:tt)*] $Kernel:ty: $Config:ty => $Loaded:ty, $Error:ty;
        ($config:ident, $function:ident, $device:pat) $loaded:block
    ) => {
        impl<$($generics)*> $Kernel {
            /// The configuration.
            pub fn config(&self) -> &$Config {
                &self.config
            }

            /// The kernel as IR.
            pub fn ir(&self) -> &$crate::ir::KernelIr {
                self.kernel.ir()
            }

            /// Proves that the kernel's accesses are in bounds. See
            /// [`Kernel::prove`]($crate::ir::Kernel::prove).
            pub fn prove(&self) -> $crate::prove::Proof {
                self.kernel.prove()
            }

            /// The kernel as PTX.
            pub fn ptx(&self) -> $crate::codegen::Ptx {
                self.kernel.ptx()
            }

            /// Loads the kernel.
            ///
            /// # Errors
            /// Those of [`Device::load`](crate::runtime::Device::load).
            pub fn load(&self, device: &$crate::runtime::Device) -> Result<$Loaded, $Error> {
                self.load_with($crate::runtime::LoadOptions::default(), device)
            }

            /// As [`load`](Self::load), with options.
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
            /// Returns what the driver's compiler wrote.
            pub fn compiler_log(&self) -> &str {
                self.function.compiler_log()
            }
        }
    };
}
pub(in crate::kernels) use loadable;
