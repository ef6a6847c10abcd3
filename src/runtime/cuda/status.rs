//! Defines the driver's status codes (CUDA Driver API, `CUresult`), and which of them mean that the
//! device is lost.

use crate::runtime::fault::FaultKind;

pub(super) const SUCCESS: u32 = 0;
pub(super) const OUT_OF_MEMORY: u32 = 2;
pub(super) const STUB_LIBRARY: u32 = 34;
pub(super) const NO_DEVICE: u32 = 100;
pub(super) const NOT_FOUND: u32 = 500;
pub(super) const NOT_READY: u32 = 600;
pub(super) const COOPERATIVE_LAUNCH_TOO_LARGE: u32 = 720;
pub(super) const CAPTURE_UNSUPPORTED: u32 = 900;
pub(super) const CAPTURED_EVENT: u32 = 907;

/// Returns the fault that a status reports, if the context returns this status from every later
/// call, too.
pub(super) fn fault(code: u32) -> Option<FaultKind> {
    Some(match code {
        214 | 220 => FaultKind::UncorrectableError,
        700 => FaultKind::IllegalAddress,
        702 => FaultKind::LaunchTimeout,
        709 => FaultKind::ContextDestroyed,
        710 => FaultKind::Assert,
        714 => FaultKind::StackError,
        715 => FaultKind::IllegalInstruction,
        716 => FaultKind::MisalignedAddress,
        717 => FaultKind::InvalidAddressSpace,
        718 => FaultKind::InvalidProgramCounter,
        719 => FaultKind::LaunchFailed,
        _ => return None,
    })
}

/// Returns whether a module-load status is about the PTX rather than the device: invalid image, no
/// binary for the GPU, invalid PTX, no compiler, unsupported PTX version, compiler disabled.
pub(super) fn is_about_ptx(code: u32) -> bool {
    matches!(code, 200 | 209 | 218 | 221..=223)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys::CUresult;

    /// The values agree with the names in the bindings.
    #[test]
    fn numbers_are_those_of_the_driver() {
        let named = [
            (CUresult::CUDA_ERROR_ECC_UNCORRECTABLE, FaultKind::UncorrectableError),
            (CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE, FaultKind::UncorrectableError),
            (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, FaultKind::IllegalAddress),
            (CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, FaultKind::LaunchTimeout),
            (CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, FaultKind::ContextDestroyed),
            (CUresult::CUDA_ERROR_ASSERT, FaultKind::Assert),
            (CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR, FaultKind::StackError),
            (CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION, FaultKind::IllegalInstruction),
            (CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, FaultKind::MisalignedAddress),
            (CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE, FaultKind::InvalidAddressSpace),
            (CUresult::CUDA_ERROR_INVALID_PC, FaultKind::InvalidProgramCounter),
            (CUresult::CUDA_ERROR_LAUNCH_FAILED, FaultKind::LaunchFailed),
        ];
        for (code, kind) in named {
            assert_eq!(fault(code as u32), Some(kind), "{code:?}");
        }
        assert_eq!((0..2000).filter(|code| fault(*code).is_some()).count(), named.len());
        let ptx = [
            CUresult::CUDA_ERROR_INVALID_IMAGE,
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            CUresult::CUDA_ERROR_INVALID_PTX,
            CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED,
        ];
        assert!(ptx.iter().all(|code| is_about_ptx(*code as u32)));
        assert_eq!((0..2000).filter(|code| is_about_ptx(*code)).count(), ptx.len());
        assert_eq!(OUT_OF_MEMORY, CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32);
        assert_eq!(STUB_LIBRARY, CUresult::CUDA_ERROR_STUB_LIBRARY as u32);
        assert_eq!(NO_DEVICE, CUresult::CUDA_ERROR_NO_DEVICE as u32);
        assert_eq!(NOT_FOUND, CUresult::CUDA_ERROR_NOT_FOUND as u32);
        let unsupported = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32;
        assert_eq!(CAPTURE_UNSUPPORTED, unsupported);
        assert_eq!(CAPTURED_EVENT, CUresult::CUDA_ERROR_CAPTURED_EVENT as u32);
        assert_eq!(NOT_READY, CUresult::CUDA_ERROR_NOT_READY as u32);
        let too_large = CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE as u32;
        assert_eq!(COOPERATIVE_LAUNCH_TOO_LARGE, too_large);
        assert_eq!(SUCCESS, CUresult::CUDA_SUCCESS as u32);
    }
}
