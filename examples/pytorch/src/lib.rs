//! tilewright kernels behind a C ABI, for PyTorch's tensors on PyTorch's stream.
//!
//! `tilewright_pytorch.h` declares the functions, and `tilewright_torch.py` calls them. A kernel is
//! loaded for one problem. Its launches do not wait for anything, so they may be captured into a
//! graph.

mod kernels;
mod tensor;

use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use tilewright::prelude::*;

pub use kernels::{Attention, Gemm, Quantize, Rows, ScaledGemm, Transpose};
use kernels::{Loaded, Problem};
use tensor::On;

type AnyError = Box<dyn Error>;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// A kernel that is loaded on a GPU for one problem.
pub struct Kernel {
    device: Device,
    context: Arc<CudaContext>,
    loaded: Loaded,
}

impl Kernel {
    /// Loads the kernel. Refuses a stream that is being captured.
    ///
    /// # Safety
    /// `stream` is a stream of the GPU's primary context.
    unsafe fn load<P: Problem>(
        device: i32,
        stream: *mut c_void,
        problem: Option<&P>,
    ) -> Result<Kernel, AnyError> {
        let problem = problem.ok_or("the problem is a null pointer")?;
        let number = usize::try_from(device);
        let number = number.map_err(|_| format!("{device} is not the number of a GPU"))?;
        let (device, context) = (Device::cuda(number)?, CudaContext::new(number)?);
        // SAFETY: the memory belongs to the caller, who orders its uses by streams. `cudarc`'s
        // events would break a capture.
        unsafe { context.disable_event_tracking() };
        // SAFETY: guaranteed by the caller.
        if unsafe { On::new(&device, &context, stream)? }.is_captured()? {
            return Err("the kernel is not loaded, and the stream is captured into a graph: prepare before the \
                        capture: load the kernel and launch it once"
                .into());
        }
        Ok(Kernel { loaded: problem.load(&device)?, device, context })
    }

    /// Queues a launch.
    ///
    /// # Safety
    /// As for [`tilewright_launch`].
    unsafe fn launch(
        &self,
        stream: *mut c_void,
        tensors: *const *mut c_void,
        count: u32,
    ) -> Result<(), AnyError> {
        let Loaded { lens, launch } = &self.loaded;
        if usize::try_from(count)? != lens.len() {
            return Err(format!("the kernel takes {} tensors and not {count}", lens.len()).into());
        }
        if tensors.is_null() {
            return Err("the list of tensors is a null pointer".into());
        }
        // SAFETY: guaranteed by the caller.
        let tensors = unsafe { std::slice::from_raw_parts(tensors, lens.len()) };
        if tensors.iter().zip(lens).any(|(tensor, len)| tensor.is_null() && *len > 0) {
            return Err("a tensor with elements has a null pointer".into());
        }
        let addresses = tensors.iter().map(|tensor| u64::try_from(tensor.expose_provenance()));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        // SAFETY: guaranteed by the caller.
        let on = unsafe { On::new(&self.device, &self.context, stream)? };
        launch(&on, &addresses)
    }
}

/// Keeps an error's message for this thread.
fn note(error: AnyError) {
    let text = error.to_string().replace('\0', " ");
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
}

/// Returns the kernel as a pointer for [`tilewright_unload`], or null after an error.
fn handle(loaded: Result<Kernel, AnyError>) -> *mut Kernel {
    loaded.map_or_else(
        |error| {
            note(error);
            null_mut()
        },
        |kernel| Box::into_raw(Box::new(kernel)),
    )
}

/// Loads a kernel for rows.
///
/// # Safety
/// `problem` is null or points to a problem. `stream` is a stream of the GPU's primary context that
/// is not destroyed before the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_rows(
    device: i32,
    stream: *mut c_void,
    problem: *const Rows,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Loads a transpose.
///
/// # Safety
/// As for [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_transpose(
    device: i32,
    stream: *mut c_void,
    problem: *const Transpose,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Loads a GEMM.
///
/// # Safety
/// As for [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_gemm(
    device: i32,
    stream: *mut c_void,
    problem: *const Gemm,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Loads a GEMM of 8-bit floats with block scales.
///
/// # Safety
/// As for [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_scaled_gemm(
    device: i32,
    stream: *mut c_void,
    problem: *const ScaledGemm,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Loads a quantisation to 8-bit floats.
///
/// # Safety
/// As for [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_quantize(
    device: i32,
    stream: *mut c_void,
    problem: *const Quantize,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Loads an attention forward kernel.
///
/// # Safety
/// As for [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_load_attention(
    device: i32,
    stream: *mut c_void,
    problem: *const Attention,
) -> *mut Kernel {
    // SAFETY: guaranteed by the caller.
    handle(unsafe { Kernel::load(device, stream, problem.as_ref()) })
}

/// Queues a launch, or adds it to the graph if the stream is being captured. Returns 0, or 1 after
/// an error.
///
/// # Safety
/// `kernel` is null or loaded. `tensors` has `count` addresses of contiguous tensors for the
/// kernel's problem, in memory of its GPU; outputs overlap no other tensor. The tensors live until
/// the stream's work has ended, and as long as a graph that contains the launch. `stream` is as for
/// [`tilewright_load_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_launch(
    kernel: *const Kernel,
    stream: *mut c_void,
    tensors: *const *mut c_void,
    count: u32,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let launched = match unsafe { kernel.as_ref() } {
        None => Err("the kernel is a null pointer".into()),
        // SAFETY: guaranteed by the caller.
        Some(kernel) => unsafe { kernel.launch(stream, tensors, count) },
    };
    launched.map_err(note).is_err().into()
}

/// Unloads a kernel when its work has ended. Code that a graph uses is never unloaded.
///
/// # Safety
/// `kernel` is null or loaded, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_unload(kernel: *mut Kernel) {
    if !kernel.is_null() {
        // SAFETY: the caller guarantees that it is a box that `handle` gave away.
        drop(unsafe { Box::from_raw(kernel) });
    }
}

/// Returns the message of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn tilewright_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::ptr::null;

    use super::*;

    fn message() -> String {
        // SAFETY: the text lives until this thread's next call.
        unsafe { CStr::from_ptr(tilewright_last_error()) }.to_string_lossy().into_owned()
    }

    fn load(device: i32, problem: *const Rows) -> *mut Kernel {
        // SAFETY: the null stream belongs to every context.
        unsafe { tilewright_load_rows(device, null_mut(), problem) }
    }

    #[test]
    fn wrong_arguments_are_errors_with_a_message() {
        let problem = Rows { op: 0, element: 1, rows: 4, columns: 8, count: 0, epsilon: 0.0 };
        assert!(load(-1, &problem).is_null());
        assert_eq!(message(), "-1 is not the number of a GPU");
        assert!(load(0, null()).is_null());
        assert_eq!(message(), "the problem is a null pointer");
        // SAFETY: null pointers are refused before anything is queued.
        assert_eq!(unsafe { tilewright_launch(null(), null_mut(), null(), 0) }, 1);
        assert_eq!(message(), "the kernel is a null pointer");
        // SAFETY: a null pointer is ignored.
        unsafe { tilewright_unload(null_mut()) };
    }

    /// Without a driver, loading returns an error instead of ending the process.
    #[test]
    fn loading_needs_a_gpu() {
        let problem = Rows { op: 0, element: 1, rows: 4, columns: 8, count: 0, epsilon: 0.0 };
        let kernel = load(0, &problem);
        assert_eq!(kernel.is_null(), Device::cuda(0).is_err());
        assert!(!kernel.is_null() || !message().is_empty());
        // SAFETY: it is null or loaded.
        unsafe { tilewright_unload(kernel) };
    }

    #[test]
    fn the_header_declares_every_function() {
        let (source, header) = (include_str!("lib.rs"), include_str!("../tilewright_pytorch.h"));
        let functions = source.split("extern \"C\" fn ").skip(1);
        let names: Vec<&str> = functions.filter_map(|rest| rest.split('(').next()).collect();
        assert!(names.contains(&"tilewright_last_error"));
        for name in names.iter().filter(|name| name.starts_with("tilewright_")) {
            assert!(header.contains(&format!("{name}(")), "{name}");
        }
    }
}
