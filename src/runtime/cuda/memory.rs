//! Memory of a GPU, and copies between it and the host.

use std::fmt;

use super::context::Context;
use super::status;
use crate::ir::{Element, Scalar};
use crate::runtime::RuntimeError;

/// An allocation, freed in the order of the stream when it is dropped.
pub(in crate::runtime) struct Memory {
    context: &'static Context,
    /// 0 for an allocation without bytes, which the driver does not make.
    address: u64,
    bytes: usize,
}

impl Memory {
    /// `bytes` zeros.
    pub(in crate::runtime) fn zeros(
        context: &'static Context,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        let memory = Memory::allocate(context, bytes)?;
        if bytes > 0 {
            let _current = context.enter()?;
            // SAFETY: the allocation has `bytes` bytes and is not used outside the stream.
            let code = unsafe {
                (context.api().cuMemsetD8Async)(memory.address, 0, bytes, context.stream())
            };
            context.check("cuMemsetD8Async", code)?;
        }
        Ok(memory)
    }

    /// A copy of `data`.
    pub(in crate::runtime) fn from_slice<T: Element>(
        context: &'static Context,
        data: &[T],
    ) -> Result<Memory, RuntimeError> {
        let mut memory = Memory::allocate(context, size_of_val(data))?;
        memory.write(data)?;
        Ok(memory)
    }

    /// Memory that holds anything.
    fn allocate(context: &'static Context, bytes: usize) -> Result<Memory, RuntimeError> {
        let mut memory = Memory { context, address: 0, bytes };
        if bytes == 0 {
            context.enter()?;
            return Ok(memory);
        }
        let _current = context.enter()?;
        let mut allocate = || {
            let place = &mut memory.address;
            let (call, code) = if context.has_pools() {
                // SAFETY: `place` is a place for the result; the context is current.
                let allocate = context.api().cuMemAllocAsync;
                ("cuMemAllocAsync", unsafe { allocate(place, bytes, context.stream()) })
            } else {
                // SAFETY: as above.
                ("cuMemAlloc_v2", unsafe { (context.api().cuMemAlloc_v2)(place, bytes) })
            };
            (call, code)
        };
        let (mut call, mut code) = allocate();
        if code == status::OUT_OF_MEMORY {
            // Memory that is freed behind running launches is free only when they have ended.
            context.wait()?;
            (call, code) = allocate();
        }
        match code {
            status::SUCCESS => Ok(memory),
            status::OUT_OF_MEMORY => {
                memory.address = 0;
                let device = context.label().to_owned();
                Err(RuntimeError::OutOfMemory { device, bytes: bytes as u64 })
            }
            code => {
                memory.address = 0;
                context.check(call, code)?;
                Ok(memory)
            }
        }
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    /// The address on the device.
    pub(in crate::runtime) fn address(&self) -> u64 {
        self.address
    }

    /// Replaces the content with `data`, of the same size in bytes.
    pub(in crate::runtime) fn write<T: Element>(&mut self, data: &[T]) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        let _current = self.context.enter()?;
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides have `bytes` bytes. An element is plain bytes without padding. The host memory
        // is borrowed until this function returns, and the copy has ended by then.
        let code = unsafe {
            (self.context.api().cuMemcpyHtoDAsync_v2)(
                self.address,
                data.as_ptr().cast(),
                self.bytes,
                self.context.stream(),
            )
        };
        self.context.check("cuMemcpyHtoDAsync", code)?;
        self.context.wait()?;
        self.context.check_asserts()
    }

    /// The first `len` words.
    pub(super) fn read_start(&self, len: usize) -> Result<Vec<u64>, RuntimeError> {
        let mut data = vec![0; len.min(self.bytes / size_of::<u64>())];
        // SAFETY: the vector and the allocation have as many words.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        Ok(data)
    }

    /// Sets the first `bytes` bytes to zero.
    pub(super) fn clear_start(&self, bytes: usize) -> Result<(), RuntimeError> {
        let (_current, bytes) = (self.context.enter()?, bytes.min(self.bytes));
        // SAFETY: the allocation has so many bytes and is not used outside the stream.
        let code = unsafe {
            (self.context.api().cuMemsetD8Async)(self.address, 0, bytes, self.context.stream())
        };
        self.context.check("cuMemsetD8Async", code)
    }

    /// The content.
    pub(in crate::runtime) fn to_vec<T: Element>(&self) -> Result<Vec<T>, RuntimeError> {
        let len = self.bytes / size_of::<T>();
        if T::SCALAR == Scalar::Bool {
            // A kernel may have stored any byte, and only two of them are a `bool`.
            let bytes = self.to_vec::<u8>()?;
            return Ok(bytes.into_iter().map(|byte| T::from_bits(byte.into())).collect());
        }
        let mut data = Vec::<T>::with_capacity(len);
        // SAFETY: the vector has room for `len` elements, which are at most the bytes of the allocation.
        unsafe { self.read_to(data.as_mut_ptr(), len)? };
        // SAFETY: the elements have been written, and all bits are a value of their type.
        unsafe { data.set_len(len) };
        self.context.check_asserts()?;
        Ok(data)
    }

    /// The content, written to `data`, of the same size in bytes.
    pub(in crate::runtime) fn read_into<T: Element>(
        &self,
        data: &mut [T],
    ) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        if T::SCALAR == Scalar::Bool {
            data.copy_from_slice(&self.to_vec()?);
            return Ok(());
        }
        // SAFETY: the slice has `len` elements, of which all bits are a value.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        self.context.check_asserts()
    }

    /// Copies the first `len` elements to `to`.
    ///
    /// # Safety
    /// `to` has room for `len` elements, and the allocation has as many.
    unsafe fn read_to<T: Element>(&self, to: *mut T, len: usize) -> Result<(), RuntimeError> {
        let _current = self.context.enter()?;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the sizes are right by contract. The copy has ended when this function returns: if waiting
        // for it fails, the context is lost and copies no more.
        let code = unsafe {
            (self.context.api().cuMemcpyDtoHAsync_v2)(
                to.cast(),
                self.address,
                len * size_of::<T>(),
                self.context.stream(),
            )
        };
        self.context.check("cuMemcpyDtoHAsync", code)?;
        self.context.wait()
    }

    fn check_size<T: Element>(&self, data: &[T]) -> Result<(), RuntimeError> {
        if size_of_val(data) == self.bytes {
            return Ok(());
        }
        let buffer = self.bytes / size_of::<T>();
        Err(RuntimeError::LengthMismatch { buffer, host: data.len() })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        // After a fault the memory is gone with the context.
        let Ok(_current) = self.context.enter() else { return };
        let api = self.context.api();
        let (call, code) = if self.context.has_pools() {
            // SAFETY: the address is that of an allocation in the order of this stream, freed once. All its
            // uses are in this stream, so before.
            ("cuMemFreeAsync", unsafe { (api.cuMemFreeAsync)(self.address, self.context.stream()) })
        } else {
            if self.context.wait().is_err() {
                return;
            }
            // SAFETY: all uses have ended; the allocation is freed once.
            ("cuMemFree_v2", unsafe { (api.cuMemFree_v2)(self.address) })
        };
        // A fault is kept for the next call; for anything else there is no one to tell.
        let _ = self.context.check(call, code);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.bytes, self.context.label())
    }
}
