//! Allocates page-locked host memory, which a GPU can copy while the host goes on. The public
//! `Pinned` owns such memory.

use std::ffi::c_void;
use std::fmt;

use super::context::Context;
use super::status;
use super::uses::Uses;
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::error::RuntimeError;

/// Page-locked memory. The host reads it only after the copies that write it, and changes or frees
/// it only after all copies.
pub(in crate::runtime) struct HostMemory {
    context: &'static Context,
    /// Aligned for every element type; null if the memory is empty.
    address: *mut c_void,
    bytes: usize,
    uses: Uses,
}

// SAFETY: the value owns the memory, and its work in flight is tracked under a lock.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Allocates `bytes` zero bytes.
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
        // SAFETY: `address` receives the result; 0 means no flags.
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

    /// Waits for the copies that write the memory and, if `all`, also for those that read it.
    fn wait(&self, all: bool) -> Result<(), RuntimeError> {
        let _current = self.context.enter()?;
        self.uses.wait(all)
    }

    /// Waits for the copies that write the memory, then returns its elements. Refuses `bool`,
    /// because not every byte is a valid `bool`.
    pub(in crate::runtime) fn slice<T: Element>(&self) -> Result<&[T], RuntimeError> {
        refuse_bool::<T>()?;
        self.wait(false)?;
        if self.bytes == 0 {
            return Ok(&[]);
        }
        let len = self.bytes / size_of::<T>();
        // SAFETY: the memory has `len` elements, aligned to a page, and every bit pattern is valid
        // for their type. No copy writes them now. None can be queued while this borrow lasts,
        // because that takes the memory mutably.
        Ok(unsafe { std::slice::from_raw_parts(self.address.cast(), len) })
    }

    /// Like [`HostMemory::slice`], but waits for all copies and returns a mutable slice.
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
        // SAFETY: the memory contains the word, aligned to a page. It is read once, even if the GPU
        // writes it.
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
        // If the wait fails, leak the memory, because running copies would hit memory that somebody
        // else allocates next.
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
