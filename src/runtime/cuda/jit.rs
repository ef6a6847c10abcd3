//! Options and log buffers for the driver's compiler, for calls that compile or link PTX.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::CUjit_option as Key;

/// Maximum size of each log in bytes.
const LOG_BYTES: usize = 16 * 1024;

/// The options of one compilation, with its two log buffers. The driver writes the buffers until
/// the call ends, or until the linker that it opened is closed, so this must live as long.
pub(super) struct Jit {
    info: Vec<u8>,
    error: Vec<u8>,
    keys: [Key; 5],
    values: [*mut c_void; 5],
}

impl Jit {
    pub(super) fn new() -> Jit {
        let mut info = vec![0; LOG_BYTES];
        let mut error = vec![0; LOG_BYTES];
        // The driver takes sizes and switches in pointer-sized values.
        let number = |n: usize| ptr::without_provenance_mut::<c_void>(n);
        let options = [
            (Key::CU_JIT_LOG_VERBOSE, number(1)),
            (Key::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, number(LOG_BYTES)),
            (Key::CU_JIT_INFO_LOG_BUFFER, info.as_mut_ptr().cast()),
            (Key::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, number(LOG_BYTES)),
            (Key::CU_JIT_ERROR_LOG_BUFFER, error.as_mut_ptr().cast()),
        ];
        Jit {
            info,
            error,
            keys: options.map(|(key, _)| key),
            values: options.map(|(_, value)| value),
        }
    }

    pub(super) fn len(&self) -> c_uint {
        self.keys.len() as c_uint
    }

    pub(super) fn keys(&mut self) -> *mut Key {
        self.keys.as_mut_ptr()
    }

    pub(super) fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    /// Returns the information log and the error log. Call it when the compiler has finished.
    pub(super) fn into_logs(self) -> (String, String) {
        (text(&self.info), text(&self.error))
    }
}

/// Returns the text before the first zero byte.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_at_its_zero() {
        assert_eq!(text(b"some text \0\0rest"), "some text");
        assert_eq!(text(b"full"), "full");
    }

    /// Each log is read from the buffer that its option points to.
    #[test]
    fn logs_are_read_from_where_the_options_point() {
        let jit = Jit::new();
        assert_eq!(jit.len(), 5);
        for (key, text) in
            [(Key::CU_JIT_INFO_LOG_BUFFER, b"info"), (Key::CU_JIT_ERROR_LOG_BUFFER, b"oops")]
        {
            let at = jit.keys.iter().position(|k| *k == key).unwrap();
            // SAFETY: the value points to a 16 KiB log buffer, which `jit` owns.
            unsafe { jit.values[at].cast::<[u8; 4]>().write(*text) };
        }
        assert_eq!(jit.into_logs(), ("info".to_owned(), "oops".to_owned()));
    }
}
