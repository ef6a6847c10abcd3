//! Compiles PTX with the driver's linker, because it returns the machine code, which the module
//! cache keeps. If the driver loads PTX directly, it keeps that code to itself.

use std::ffi::CString;
use std::ptr;

use cudarc::driver::sys::{self, CUjitInputType as Input};

use super::context::Context;
use super::jit::Jit;
use super::status;
use crate::runtime::cache::Compiled;
use crate::runtime::error::RuntimeError;

/// Compiles PTX for the context's GPU. Returns `None` if the driver cannot compile it this way. The
/// caller then loads the PTX directly, and gets the error message from there.
pub(super) fn compile(
    context: &'static Context,
    ptx: &str,
) -> Result<Option<Compiled>, RuntimeError> {
    let Ok(image) = CString::new(ptx) else { return Ok(None) };
    let _current = context.enter()?;
    let api = context.api();
    let mut jit = Jit::new();
    let mut state: sys::CUlinkState = ptr::null_mut();
    // SAFETY: there are as many values as keys; the log buffers have the stated sizes and outlive
    // the state; `state` is a local out parameter.
    let code = unsafe { (api.cuLinkCreate_v2)(jit.len(), jit.keys(), jit.values(), &mut state) };
    if code != status::SUCCESS {
        return if status::fault(code).is_some() {
            context.check("cuLinkCreate_v2", code).map(|()| None)
        } else {
            Ok(None)
        };
    }
    let linked = {
        // SAFETY: the state is open; the text's terminating zero is counted, and the text outlives
        // the call; there are no further options.
        let added = unsafe {
            (api.cuLinkAddData_v2)(
                state,
                Input::CU_JIT_INPUT_PTX,
                image.as_ptr().cast_mut().cast(),
                image.as_bytes_with_nul().len(),
                c"kernel.ptx".as_ptr(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let (mut code, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the state is open; `code` and `bytes` are local out parameters.
        let mut complete = || unsafe { (api.cuLinkComplete)(state, &mut code, &mut bytes) };
        let answer = if added == status::SUCCESS { complete() } else { added };
        if answer == status::SUCCESS && !code.is_null() {
            // SAFETY: the driver created `bytes` bytes, which live as long as the state.
            let cubin = unsafe { std::slice::from_raw_parts(code.cast::<u8>(), bytes) };
            Ok(cubin.to_vec())
        } else {
            Err(answer)
        }
    };
    // SAFETY: the state is open and not used again.
    let closed = unsafe { (api.cuLinkDestroy)(state) };
    context.check("cuLinkDestroy", closed)?;
    match linked {
        Ok(cubin) => Ok(Some(Compiled { cubin, log: jit.into_logs().0 })),
        Err(answer) if status::fault(answer).is_some() => {
            context.check("cuLinkComplete", answer).map(|()| None)
        }
        Err(_) => Ok(None),
    }
}
