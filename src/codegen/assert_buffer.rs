//! The layout of the device buffer in which a kernel records failed assertions. You need it only if
//! you launch the PTX without this crate's runtime, which allocates and reads the buffer.

/// The memory to which a kernel with assertions writes its failures. You need this only if you
/// launch the PTX without this crate's runtime, which does it for you.
///
/// Such a kernel has one additional parameter, `$asserts`, the last one. Pass the address of
/// [`BYTES`](AssertBuffer::BYTES) bytes of global memory, aligned to 8, or 0 to record nothing.
///
/// The first 8 bytes count all failures; set them to 0 before the launch. Records follow at
/// [`HEADER_BYTES`](AssertBuffer::HEADER_BYTES), one for each of the first
/// [`RECORDS`](AssertBuffer::RECORDS) failures, in the order in which the threads report them. A
/// record holds, in little-endian order:
///
/// | bytes | content |
/// |---|---|
/// | 0..4 | the number of the operation, as [`Entity::index`](crate::ir::Entity::index) gives it |
/// | 4..16 | `%tid.x`, `.y`, `.z` |
/// | 16..28 | `%ctaid.x`, `.y`, `.z` |
/// | 32..40 | the index of the element of a fragment; all ones where there is none |
/// | 40..72 | the bits of the values, 8 bytes each, zero-extended |
///
/// ```
/// use tilewright::codegen::AssertBuffer;
/// let record = |i| AssertBuffer::HEADER_BYTES + i * AssertBuffer::RECORD_BYTES;
/// assert_eq!(record(AssertBuffer::RECORDS), AssertBuffer::BYTES);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum AssertBuffer {}

impl AssertBuffer {
    /// How many bytes come before the first record.
    pub const HEADER_BYTES: usize = 16;
    /// How many bytes a record has. Record `i` starts at `HEADER_BYTES + i * RECORD_BYTES`.
    pub const RECORD_BYTES: usize = 72;
    /// How many failures are recorded. Further failures are only counted.
    pub const RECORDS: usize = 1024;
    /// The size of the whole buffer in bytes, to allocate it.
    pub const BYTES: usize =
        AssertBuffer::HEADER_BYTES + AssertBuffer::RECORDS * AssertBuffer::RECORD_BYTES;
    /// The element index in a record if the assertion is not about a fragment.
    pub const NO_ELEMENT: u64 = u64::MAX;

    pub(super) const PARAM: &str = "$asserts";
    pub(super) const TID: usize = 4;
    pub(super) const CTAID: usize = 16;
    pub(super) const ELEMENT: usize = 32;
    pub(super) const VALUES: usize = 40;
}
