//! Defines the part of the library's `runtime` that the bookkeeping names.

pub(crate) mod cuda;

pub(crate) mod error {
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum RuntimeError {
        BufferShared,
        #[allow(dead_code, reason = "nobody captures a stream here")]
        StreamCaptures,
    }
}
