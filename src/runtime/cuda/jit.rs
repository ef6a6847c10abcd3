//! The options of the driver's compiler, and its logs.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::CUjit_option as Key;

/// Bytes of each log that are kept.
const LOG_BYTES: usize = 16 * 1024;

/// The options of one compilation, with the memory for its two logs: the driver writes them until the call, or
/// the linker that it opens, has ended, so this must live as long.
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
        // Sizes and switches are passed in place of pointers.
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

    /// Returns the number of options.
    pub(super) fn len(&self) -> c_uint {
        self.keys.len() as c_uint
    }

    pub(super) fn keys(&mut self) -> *mut Key {
        self.keys.as_mut_ptr()
    }

    pub(super) fn values(&mut self) -> *mut *mut c_void {
        self.values.as_mut_ptr()
    }

    /// Returns the information log and the error log. The compiler has ended.
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

    /// A log is the text at the address in the options.
    #[test]
    fn logs_are_read_from_where_the_options_point() {
        let jit = Jit::new();
        assert_eq!(jit.len(), 5);
        for (key, text) in
            [(Key::CU_JIT_INFO_LOG_BUFFER, b"info"), (Key::CU_JIT_ERROR_LOG_BUFFER, b"oops")]
        {
            let at = jit.keys.iter().position(|k| *k == key).unwrap();
            // SAFETY: the value is the start of a log of 16 KiB, which `jit` owns.
            unsafe { jit.values[at].cast::<[u8; 4]>().write(*text) };
        }
        assert_eq!(jit.into_logs(), ("info".to_owned(), "oops".to_owned()));
    }
}
