//! Allocates page-locked host memory, which a GPU copies from and to while the host continues.

use std::ffi::c_void;
use std::fmt;

use super::context::Context;
use super::status;
use super::uses::Uses;
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::error::RuntimeError;

/// Page-locked bytes. The host looks at them only after the copies that write them, changes them only after
/// all copies, and gives them back then.
pub(in crate::runtime) struct HostMemory {
    context: &'static Context,
    /// Aligned as every element is; null without bytes.
    address: *mut c_void,
    bytes: usize,
    uses: Uses,
}

// SAFETY: the memory belongs to the value, and its work in flight is behind a lock.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// `bytes` zeros.
    pub(in crate::runtime) fn zeros(
        context: &'static Context,
        bytes: usize,
    ) -> Result<HostMemory, RuntimeError> {
        let mut memory =
            HostMemory { context, address: std::ptr::null_mut(), bytes, uses: Uses::default() };
        let _current = context.enter()?;
        if bytes == 0 {
            return Ok(memory);
        }
        // SAFETY: `address` is a variable for the result; 0 asks for nothing special.
        let code = unsafe { (context.api().cuMemHostAlloc)(&mut memory.address, bytes, 0) };
        if code == status::OUT_OF_MEMORY {
            memory.address = std::ptr::null_mut();
            let device = "the host".to_owned();
            return Err(RuntimeError::OutOfMemory { device, bytes: bytes as u64 });
        }
        context.check("cuMemHostAlloc", code)?;
        // SAFETY: the allocation has `bytes` bytes.
        unsafe { memory.address.cast::<u8>().write_bytes(0, bytes) };
        Ok(memory)
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }

    pub(super) fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Waits for the copies that write the memory and, if `all`, for the copies that read it.
    fn wait(&self, all: bool) -> Result<(), RuntimeError> {
        let _current = self.context.enter()?;
        self.uses.wait(all)
    }

    /// Returns the elements. They are not `bool`s, because not all bits are a value of a `bool`.
    pub(in crate::runtime) fn slice<T: Element>(&self) -> Result<&[T], RuntimeError> {
        refuse_bool::<T>()?;
        self.wait(false)?;
        if self.bytes == 0 {
            return Ok(&[]);
        }
        let len = self.bytes / size_of::<T>();
        // SAFETY: the memory has `len` elements, aligned to a page, and all bits are a value of an element.
        // No copy writes them now, and none is queued as long as the memory is borrowed here: that takes it
        // mutably.
        Ok(unsafe { std::slice::from_raw_parts(self.address.cast(), len) })
    }

    /// As [`HostMemory::slice`], to be changed.
    pub(in crate::runtime) fn slice_mut<T: Element>(&mut self) -> Result<&mut [T], RuntimeError> {
        refuse_bool::<T>()?;
        self.wait(true)?;
        if self.bytes == 0 {
            return Ok(&mut []);
        }
        let len = self.bytes / size_of::<T>();
        // SAFETY: as above; no copy reads them either.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.cast(), len) })
    }
}

#[cfg(feature = "sim")]
impl super::violations::Words for HostMemory {
    fn start(&self) -> u64 {
        self.address as u64
    }

    fn word(&self, index: usize) -> u64 {
        if self.address.is_null() || index >= self.bytes / size_of::<u64>() {
            return 0;
        }
        // SAFETY: the memory has the word, aligned to a page; it is read once, whatever writes it.
        unsafe { self.address.cast::<u64>().add(index).read_volatile() }
    }
}

fn refuse_bool<T: Element>() -> Result<(), RuntimeError> {
    if T::SCALAR == Scalar::Bool { Err(RuntimeError::PinnedBool) } else { Ok(()) }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.address.is_null() {
            return;
        }
        let Some(_current) = self.context.enter_to_drop() else { return };
        // What still copies would copy from or to memory of others.
        if self.context.keep(self.uses.wait(true)).is_none() {
            return;
        }
        // SAFETY: the memory is freed once, and no copy is in flight.
        let code = unsafe { (self.context.api().cuMemFreeHost)(self.address) };
        self.context.keep(self.context.check("cuMemFreeHost", code));
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.bytes)
    }
}
