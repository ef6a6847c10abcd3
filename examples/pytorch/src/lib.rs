//! Kernels of tilewright behind a C ABI, for PyTorch's tensors on PyTorch's stream.
//!
//! `tilewright_pytorch.h` declares the functions and `softmax.py` calls them. The host waits for nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaContext;
use tilewright::ir::types::Scalar;
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig, SoftmaxFunction};
use tilewright::prelude::*;
use tilewright::runtime::Stream;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

type Loaded = HashMap<(usize, SoftmaxConfig), Arc<SoftmaxFunction<bf16, bf16>>>;

/// Loaded kernels of each GPU.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Returns the kernel for rows of these sizes, loaded once for each GPU and configuration.
fn load(
    ordinal: usize,
    problem: &RowProblem,
) -> Result<Arc<SoftmaxFunction<bf16, bf16>>, Box<dyn Error>> {
    let device = Device::cuda(ordinal)?;
    let config = SoftmaxConfig::new(device.target(), Scalar::Bf16, problem)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if let Some(function) = loaded.get(&(ordinal, config)) {
        return Ok(Arc::clone(function));
    }
    let function = Arc::new(Softmax::new(config)?.load(&device)?);
    loaded.insert((ordinal, config), Arc::clone(&function));
    Ok(function)
}

/// The arguments of a call, as PyTorch has them.
struct Call {
    ordinal: usize,
    stream: *mut c_void,
    x: *const c_void,
    y: *mut c_void,
    problem: RowProblem,
}

/// # Safety
/// Those of [`tilewright_softmax_bf16`].
unsafe fn softmax(call: &Call) -> Result<(), Box<dyn Error>> {
    let Call { ordinal, stream, x, y, problem } = call;
    let len = u64::from(problem.rows) * u64::from(problem.columns);
    if len == 0 {
        return Ok(());
    }
    if x.is_null() || y.is_null() {
        return Err("a tensor with elements has a null pointer".into());
    }
    let (len, function) = (usize::try_from(len)?, load(*ordinal, problem)?);
    // SAFETY: by contract the stream belongs to this GPU and outlives the call, which alone has the wrapper.
    let stream = unsafe { CudaContext::new(*ordinal)?.wrap_borrowed_stream(stream.cast()) };
    let [x, y] = [x.expose_provenance(), y.expose_provenance()].map(u64::try_from);
    let (x, y) = (x?, y?);
    // SAFETY: by contract there are `len` elements at each address. They are not ours to free: the slices are never
    // dropped.
    let (x, mut y) = unsafe {
        let slice = |address| ManuallyDrop::new(stream.upgrade_device_ptr::<bf16>(address, len));
        (slice(x), slice(y))
    };
    let ours = Stream::from_cudarc(&stream)?;
    let options = LaunchOptions::default().stream(&ours);
    let queue =
        |(x, y): (&Buffer<bf16>, &mut Buffer<bf16>)| function.launch_with(options, problem, x, y);
    Ok(Device::cuda(*ordinal)?.borrow_cudarc((&*x, &mut *y), queue)?)
}

/// Keeps the message of an error for this thread; returns 0, or 1 after an error.
fn status(result: Result<(), Box<dyn Error>>) -> c_int {
    let Err(error) = result else { return 0 };
    let text = error.to_string().replace('\0', " ");
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
    1
}

fn ordinal(device: i32) -> Result<usize, Box<dyn Error>> {
    usize::try_from(device).map_err(|_| format!("{device} is not the number of a GPU").into())
}

/// Queues `y = softmax(x)` of contiguous rows of bf16.
///
/// # Safety
/// `x` and `y` are addresses of `rows * columns` elements in memory of the GPU that do not overlap. They stay until the work
/// of the stream has ended. `stream` is a stream of the primary context of that GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_softmax_bf16(
    device: i32,
    stream: *mut c_void,
    x: *const c_void,
    y: *mut c_void,
    rows: u32,
    columns: u32,
) -> c_int {
    let problem = RowProblem::new(rows, columns);
    status(ordinal(device).and_then(|ordinal| {
        // SAFETY: by contract.
        unsafe { softmax(&Call { ordinal, stream, x, y, problem }) }
    }))
}

/// Compiles and loads the kernel for rows of this size.
#[unsafe(no_mangle)]
pub extern "C" fn tilewright_prepare_softmax_bf16(device: i32, rows: u32, columns: u32) -> c_int {
    let problem = RowProblem::new(rows, columns);
    status(ordinal(device).and_then(|ordinal| load(ordinal, &problem).map(|_| ())))
}

/// Returns the message of the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn tilewright_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::ptr::{null, null_mut};

    use super::*;

    fn message() -> String {
        // SAFETY: the text lives until the next call of this thread.
        unsafe { CStr::from_ptr(tilewright_last_error()) }.to_string_lossy().into_owned()
    }

    fn call(device: i32, rows: u32) -> c_int {
        // SAFETY: null pointers are refused before anything is queued.
        unsafe { tilewright_softmax_bf16(device, null_mut(), null(), null_mut(), rows, 8) }
    }

    #[test]
    fn wrong_arguments_are_errors_with_a_message() {
        assert_eq!((call(-1, 4), message().as_str()), (1, "-1 is not the number of a GPU"));
        assert_eq!(
            (call(0, 4), message().as_str()),
            (1, "a tensor with elements has a null pointer")
        );
        assert_eq!(call(0, 0), 0);
    }

    /// Without a driver the answer is its error, not the end of the process.
    #[test]
    fn preparing_needs_a_gpu() {
        let failed = tilewright_prepare_softmax_bf16(0, 16, 64);
        assert_eq!(failed == 1, Device::cuda(0).is_err());
        assert!(failed == 0 || !message().is_empty());
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
