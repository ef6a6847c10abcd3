//! The layout of the buffer that records failed assertions.

/// The memory that a kernel with assertions writes failures to.
///
/// Such a kernel has one more parameter, the last one, `$asserts`: the address of
/// [`BYTES`](AssertBuffer::BYTES) bytes of global memory, aligned to 8, or 0, with which failures are not
/// recorded. The runtime of this crate passes it by itself.
///
/// The first 8 bytes count all failures; they start as 0. The records follow at
/// [`HEADER_BYTES`](AssertBuffer::HEADER_BYTES), one for each of the first
/// [`RECORDS`](AssertBuffer::RECORDS) failures, in the order in which the threads come. A record has,
/// in little-endian order:
///
/// | bytes | content |
/// |---|---|
/// | 0..4 | the number of the operation, as [`Entity::index`](crate::ir::Entity::index) gives it |
/// | 4..16 | `%tid.x`, `.y`, `.z` |
/// | 16..28 | `%ctaid.x`, `.y`, `.z` |
/// | 32..40 | the index of the element of a fragment; all ones where there is none |
/// | 40..72 | the bits of the values, 8 bytes each, zero-extended |
#[derive(Clone, Copy, Debug)]
pub enum AssertBuffer {}

impl AssertBuffer {
    /// Bytes before the first record.
    pub const HEADER_BYTES: usize = 16;
    /// Bytes of a record.
    pub const RECORD_BYTES: usize = 72;
    /// Failures that are recorded; further ones are counted.
    pub const RECORDS: usize = 1024;
    /// Bytes in all.
    pub const BYTES: usize =
        AssertBuffer::HEADER_BYTES + AssertBuffer::RECORDS * AssertBuffer::RECORD_BYTES;
    /// The index of a record without an element.
    pub const NO_ELEMENT: u64 = u64::MAX;

    pub(super) const PARAM: &str = "$asserts";
    pub(super) const TID: usize = 4;
    pub(super) const CTAID: usize = 16;
    pub(super) const ELEMENT: usize = 32;
    pub(super) const VALUES: usize = 40;
}
