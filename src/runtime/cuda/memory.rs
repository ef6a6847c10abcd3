//! Allocates memory of a GPU, and copies between it and the host.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::sync::{Arc, MutexGuard};

use super::capture::{Capture, Resource};
use super::context::Context;
use super::lease::Lease;
use super::pinned::HostMemory;
use super::status;
use super::stream::Stream;
use super::uses::{self, Note, Uses};
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::error::RuntimeError;

/// Memory of a GPU. All work that is queued on it is ordered: what reads waits for what wrote before, and
/// what writes for all before. It is freed after its last use.
pub(in crate::runtime) struct Memory(Arc<Allocation>);

/// An allocation, with the work that uses it.
pub(super) struct Allocation {
    context: &'static Context,
    /// 0 for an allocation without bytes, which the driver does not make.
    address: u64,
    bytes: usize,
    /// The stream that allocated the memory and will free it.
    allocated_on: Arc<Stream>,
    uses: Uses,
    /// The owner that frees it, if other code does.
    owner: Option<Box<dyn Any + Send + Sync>>,
    /// The allocation that this is a part of. It tracks the uses, and frees the memory.
    base: Option<Arc<Allocation>>,
}

impl Resource for Allocation {
    #[inline]
    fn uses(&self) -> &Uses {
        match &self.base {
            None => &self.uses,
            Some(base) => &base.uses,
        }
    }
}

impl Allocation {
    /// Returns the lease of lent memory.
    pub(super) fn lease(&self) -> Option<&Lease> {
        let owner = self.base.as_ref().map_or(&self.owner, |base| &base.owner);
        owner.as_deref().and_then(|owner| owner.downcast_ref())
    }
}

/// Held from looking at the uses of memory until the work that was queued is noted, if somebody else has some of it, too.
/// Refuses memory that was lent and went back.
pub(super) fn lock_shared<'m>(
    context: &'static Context,
    mut memory: impl Iterator<Item = &'m Memory> + Clone,
) -> Result<Option<MutexGuard<'static, ()>>, RuntimeError> {
    let all = memory.clone();
    if !memory.any(Memory::is_shared) {
        return Ok(None);
    }
    let graphs = context.lock_graphs();
    all.filter_map(|memory| memory.0.lease()).try_for_each(Lease::check)?;
    Ok(Some(graphs))
}

impl Memory {
    /// `bytes` zeros.
    pub(in crate::runtime) fn zeros(
        context: &'static Context,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        let memory = Memory::allocate(context, bytes)?;
        memory.clear_start(bytes)?;
        Ok(memory)
    }

    /// Returns a copy of `data`.
    pub(in crate::runtime) fn from_slice<T: Element>(
        context: &'static Context,
        data: &[T],
    ) -> Result<Memory, RuntimeError> {
        let mut memory = Memory::allocate(context, size_of_val(data))?;
        memory.write(data)?;
        Ok(memory)
    }

    /// Memory of other code, which `owner` keeps alive and frees; `stream` is where it was written last.
    ///
    /// # Safety
    /// The `bytes` bytes at `address` are memory of the context, as long as `owner` is not dropped, and are
    /// used by other code only where it is ordered with the uses here.
    pub(in crate::runtime) unsafe fn foreign(
        stream: &Arc<Stream>,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        // SAFETY: by contract.
        let memory = unsafe { Memory::foreign_unused(stream, address, bytes, owner) };
        stream.note(|note| note(memory.uses(), true));
        memory
    }

    /// As [`Memory::foreign`], of memory that no work has to wait for.
    ///
    /// # Safety
    /// That of [`Memory::foreign`].
    pub(super) unsafe fn foreign_unused(
        stream: &Arc<Stream>,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        Memory(Arc::new(Allocation {
            context: stream.context(),
            address,
            bytes,
            allocated_on: Arc::clone(stream),
            uses: Uses::default(),
            owner: Some(owner),
            base: None,
        }))
    }

    /// Memory that holds anything.
    fn allocate(context: &'static Context, bytes: usize) -> Result<Memory, RuntimeError> {
        let _current = context.enter()?;
        let stream = Arc::clone(context.default_stream());
        let mut address = 0;
        if bytes > 0 {
            let mut allocate = || {
                if context.has_pools() {
                    let allocate = context.api().cuMemAllocAsync;
                    // SAFETY: `address` is a variable for the result; the context is current.
                    ("cuMemAllocAsync", unsafe { allocate(&mut address, bytes, stream.raw()) })
                } else {
                    let allocate = context.api().cuMemAlloc_v2;
                    // SAFETY: as above.
                    ("cuMemAlloc_v2", unsafe { allocate(&mut address, bytes) })
                }
            };
            let (mut call, mut code) = allocate();
            if code == status::OUT_OF_MEMORY {
                // Memory that is freed behind running launches is free only when they have ended.
                context.wait()?;
                (call, code) = allocate();
            }
            if code == status::OUT_OF_MEMORY {
                let device = context.label().to_owned();
                return Err(RuntimeError::OutOfMemory { device, bytes: bytes as u64 });
            }
            context.check(call, code)?;
        }
        let uses = Uses::default();
        // Other streams may use it only when it is there.
        stream.note(|note| note(&uses, true));
        Ok(Memory(Arc::new(Allocation {
            context,
            address,
            bytes,
            allocated_on: stream,
            uses,
            owner: None,
            base: None,
        })))
    }

    /// Returns the `bytes` bytes from `first` on, if the memory has them. Uses of the part are uses of the whole.
    pub(in crate::runtime) fn part(&self, first: usize, bytes: usize) -> Option<Memory> {
        first.checked_add(bytes).filter(|end| *end <= self.0.bytes)?;
        let base = self.0.base.as_ref().unwrap_or(&self.0);
        Some(Memory(Arc::new(Allocation {
            context: self.0.context,
            address: self.0.address + first as u64,
            bytes,
            allocated_on: Arc::clone(&self.0.allocated_on),
            uses: Uses::default(),
            owner: None,
            base: Some(Arc::clone(base)),
        })))
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.0.context
    }

    /// Returns the address on the device.
    pub(in crate::runtime) fn address(&self) -> u64 {
        self.0.address
    }

    /// Returns the location of the address, for the arguments of a launch.
    pub(super) fn address_slot(&self) -> *mut c_void {
        std::ptr::from_ref(&self.0.address).cast_mut().cast()
    }

    pub(super) fn allocation(&self) -> &Arc<Allocation> {
        &self.0
    }

    #[inline]
    pub(super) fn uses(&self) -> &Uses {
        Resource::uses(&*self.0)
    }

    /// Notes work of the owner of the stream, which calls, if nothing else has to be done: nobody else has the memory, and
    /// all of its uses are on the stream.
    #[inline]
    pub(super) fn note_alone(&self, stream: &Stream, work: u64, writes: bool) -> bool {
        let (uses, is_shared) = (self.uses(), self.is_shared());
        !is_shared && uses.is_alone(stream) && uses.note_at_once(stream, work, writes)
    }

    /// Returns whether a graph or a part uses the memory, too.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        uses::is_shared(&self.0) || self.0.base.is_some()
    }

    /// Lets a graph keep the memory. Fails for lent memory.
    pub(super) fn record_use(
        &self,
        capture: &mut Capture,
        writes: bool,
    ) -> Result<(), RuntimeError> {
        if self.0.lease().is_some() {
            return Err(RuntimeError::NotInGraph { call: "Device::borrow_cudarc" });
        }
        capture.note_use(&self.0, writes);
        Ok(())
    }

    /// Keeps the memory for ever, because a graph of other code has it. Lent memory is its lender's to keep.
    pub(super) fn keep_for_ever(&self) {
        if self.0.lease().is_none() {
            mem::forget(Arc::clone(&self.0));
        }
    }

    /// Returns whether other code frees the memory.
    pub(super) fn has_owner(&self) -> bool {
        self.0.owner.is_some() || self.0.base.is_some()
    }

    /// Returns the address, not to be freed here any more, if nobody else has the memory and this crate allocated it;
    /// else the memory again.
    pub(super) fn release(self) -> Result<u64, Memory> {
        match Arc::try_unwrap(self.0) {
            Ok(mut own) if own.owner.is_none() && own.base.is_none() => {
                Ok(mem::take(&mut own.address))
            }
            Ok(foreign) => Err(Memory(Arc::new(foreign))),
            Err(shared) => Err(Memory(shared)),
        }
    }

    /// Returns whether other code gave an owner of this type.
    pub(super) fn is_owned_by<O: Any>(&self) -> bool {
        // The box is no `O`, what is in it is.
        self.0.owner.as_deref().is_some_and(|owner| owner.is::<O>())
    }

    /// Returns the owner that other code gave, if it is of this type and nobody else has the memory; else the memory
    /// again. No work is left on it.
    pub(super) fn release_owner<O: Any>(self) -> Result<O, Memory> {
        let mut allocation = Arc::try_unwrap(self.0).map_err(Memory)?;
        match allocation.owner.take().map(|owner| owner.downcast::<O>()) {
            Some(Ok(owner)) => {
                allocation.address = 0;
                return Ok(*owner);
            }
            Some(Err(other)) => allocation.owner = Some(other),
            None => {}
        }
        Err(Memory(Arc::new(allocation)))
    }

    /// Queues work on the memory, which `call` names: on `stream`, after what it must wait for.
    fn queue(
        &self,
        stream: &Arc<Stream>,
        writes: bool,
        call: &'static str,
        work: impl FnOnce() -> u32,
    ) -> Result<(), RuntimeError> {
        self.queue_with(None, stream, writes, call, work)
    }

    /// As [`Memory::queue`], of work that reads `from`, too.
    fn queue_with(
        &self,
        from: Option<&Memory>,
        stream: &Arc<Stream>,
        writes: bool,
        call: &'static str,
        work: impl FnOnce() -> u32,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context;
        let _current = context.enter()?;
        if self.0.bytes == 0 {
            return Ok(());
        }
        stream.check_not_capturing()?;
        let _graphs = lock_shared(context, from.into_iter().chain([self]))?;
        from.map_or(Ok(()), |from| from.uses().order(stream, false))?;
        self.uses().order(stream, writes)?;
        let uses = |note: &mut Note<'_>| {
            from.into_iter().for_each(|from| note(from.uses(), false));
            note(self.uses(), writes);
        };
        stream.queue(None, uses, || context.check(call, work()))?;
        stream.check_not_captured(|| (Arc::clone(&self.0), from.map(|from| Arc::clone(&from.0))))
    }

    /// Queues work that also uses host memory, which `call` names: in the order of `stream`, and so that no other code
    /// can capture it, because a graph would use the host memory at any later time. `work` gets the stream to call.
    fn queue_host_copy(
        &self,
        stream: &Arc<Stream>,
        writes: bool,
        call: &'static str,
        work: impl FnOnce(&Arc<Stream>) -> u32,
    ) -> Result<Arc<Stream>, RuntimeError> {
        let runs_on = stream.uncaptured();
        let _current = self.0.context.enter()?;
        if !Arc::ptr_eq(runs_on, stream) {
            runs_on.follow(stream)?;
        }
        self.queue(runs_on, writes, call, || work(runs_on))?;
        Ok(Arc::clone(runs_on))
    }

    /// As [`Memory::queue_host_copy`], to or from pageable memory. Returns when the copy has ended.
    fn copy_pageable(
        &self,
        stream: &Arc<Stream>,
        writes: bool,
        call: &'static str,
        work: impl FnOnce(&Arc<Stream>) -> u32,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context;
        let _current = context.enter()?;
        if context.has_comms() {
            // The driver lets the host wait inside such a copy until the stream comes to it, and lets no other thread call
            // it meanwhile. Behind a collective that hangs nobody could end this wait, so it comes before the copy.
            let runs_on = stream.uncaptured();
            if !Arc::ptr_eq(runs_on, stream) {
                runs_on.follow(stream)?;
            }
            self.uses().order(runs_on, writes)?;
            runs_on.wait()?;
        }
        self.queue_host_copy(stream, writes, call, work)?.wait_to_the_end()
    }

    /// As [`Memory::queue_with`], of work that writes the memory and that a stream may record.
    fn queue_or_record(
        &self,
        from: Option<&Memory>,
        stream: &Arc<Stream>,
        call: &'static str,
        work: impl Fn() -> u32,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context;
        let recorded = stream.captured(|capture| {
            if self.0.bytes == 0 {
                return Ok(());
            }
            let _current = context.enter()?;
            self.record_use(capture, true)?;
            from.map_or(Ok(()), |from| from.record_use(capture, false))?;
            context.check(call, work())?;
            capture.note_node();
            Ok(())
        });
        recorded.unwrap_or_else(|| self.queue_with(from, stream, true, call, &work))
    }

    /// Replaces the content with `data`, of the same size in bytes.
    pub(in crate::runtime) fn write<T: Element>(&mut self, data: &[T]) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        let (context, stream) = (self.0.context, &self.0.allocated_on);
        self.copy_pageable(stream, true, "cuMemcpyHtoDAsync", |stream| {
            // SAFETY: both sides have `bytes` bytes. An element is plain bytes without padding. The host
            // memory is borrowed until this function returns, and the copy has ended by then.
            unsafe {
                (context.api().cuMemcpyHtoDAsync_v2)(
                    self.0.address,
                    data.as_ptr().cast(),
                    self.0.bytes,
                    stream.raw(),
                )
            }
        })?;
        context.check_asserts()
    }

    /// Queues a copy of page-locked host memory, of the same size in bytes.
    #[inline]
    pub(in crate::runtime) fn write_from(
        &mut self,
        host: &HostMemory,
        stream: &Arc<Stream>,
    ) -> Result<(), RuntimeError> {
        stream.check_runs("Buffer::write_from")?;
        let context = self.0.context;
        let _current = context.enter()?;
        host.uses().order(stream.uncaptured(), false)?;
        let runs_on = self.queue_host_copy(stream, true, "cuMemcpyHtoDAsync", |stream| {
            // SAFETY: both sides have `bytes` bytes; each is freed, and the host memory written, only after
            // the uses that are noted.
            unsafe {
                (context.api().cuMemcpyHtoDAsync_v2)(
                    self.0.address,
                    host.address().cast(),
                    self.0.bytes,
                    stream.raw(),
                )
            }
        })?;
        runs_on.note(|note| note(host.uses(), false));
        if Arc::ptr_eq(&runs_on, stream) { Ok(()) } else { stream.follow(&runs_on) }
    }

    /// Queues a copy to page-locked host memory, of the same size in bytes.
    #[inline]
    pub(in crate::runtime) fn read_to_host(
        &self,
        host: &mut HostMemory,
        stream: &Arc<Stream>,
    ) -> Result<(), RuntimeError> {
        stream.check_runs("Buffer::read_to")?;
        let context = self.0.context;
        let _current = context.enter()?;
        host.uses().order(stream.uncaptured(), true)?;
        let runs_on = self.queue_host_copy(stream, false, "cuMemcpyDtoHAsync", |stream| {
            // SAFETY: both sides have `bytes` bytes; each is freed, and the host memory read or written, only
            // after the uses that are noted.
            unsafe {
                (context.api().cuMemcpyDtoHAsync_v2)(
                    host.address().cast(),
                    self.0.address,
                    self.0.bytes,
                    stream.raw(),
                )
            }
        })?;
        runs_on.note(|note| note(host.uses(), true));
        if Arc::ptr_eq(&runs_on, stream) { Ok(()) } else { stream.follow(&runs_on) }
    }

    /// Queues a copy of other memory of the same context and size in bytes.
    #[inline]
    pub(in crate::runtime) fn copy_from(
        &mut self,
        from: &Memory,
        stream: &Arc<Stream>,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context;
        self.queue_or_record(Some(from), stream, "cuMemcpyDtoDAsync", || {
            // SAFETY: both sides have `bytes` bytes and are freed only after the uses that are noted, or live as
            // long as the graph that records the copy.
            unsafe {
                (context.api().cuMemcpyDtoDAsync_v2)(
                    self.0.address,
                    from.0.address,
                    self.0.bytes.min(from.0.bytes),
                    stream.raw(),
                )
            }
        })
    }

    /// Queues that all elements become `value`.
    pub(in crate::runtime) fn fill<T: Element>(
        &mut self,
        value: T,
        stream: &Arc<Stream>,
    ) -> Result<(), RuntimeError> {
        let (context, to, raw) = (self.0.context, self.0.address, stream.raw());
        let (api, bits) = (context.api(), value.to_const().bits());
        let len = self.0.bytes / size_of::<T>().max(1);
        self.queue_or_record(None, stream, "cuMemsetAsync", || {
            match size_of::<T>() {
                // SAFETY: the allocation has `len` elements of the size and is freed after this use, or lives as long
                // as the graph that records it.
                1 => unsafe { (api.cuMemsetD8Async)(to, bits as u8, len, raw) },
                // SAFETY: as above.
                2 => unsafe { (api.cuMemsetD16Async)(to, bits as u16, len, raw) },
                // SAFETY: as above.
                4 => unsafe { (api.cuMemsetD32Async)(to, bits as u32, len, raw) },
                // The driver sets words of 4 bytes at most: first all lower halves, then all upper ones.
                _ => {
                    let [low, high] = [bits as u32, (bits >> 32) as u32];
                    // SAFETY: as above, with one word of 4 bytes in each element.
                    let half =
                        |to, half| unsafe { (api.cuMemsetD2D32Async)(to, 8, half, 1, len, raw) };
                    match half(to, low) {
                        status::SUCCESS => half(to + 4, high),
                        code => code,
                    }
                }
            }
        })
    }

    /// Returns the first `len` words, after all uses.
    pub(super) fn read_start(&self, len: usize) -> Result<Vec<u64>, RuntimeError> {
        let mut data = vec![0; len.min(self.0.bytes / size_of::<u64>())];
        let _current = self.0.context.enter()?;
        self.uses().wait(true)?;
        // SAFETY: the vector and the allocation have as many words.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        Ok(data)
    }

    /// Sets the first `bytes` bytes to zero.
    pub(super) fn clear_start(&self, bytes: usize) -> Result<(), RuntimeError> {
        let (context, stream) = (self.0.context, &self.0.allocated_on);
        let bytes = bytes.min(self.0.bytes);
        self.queue(stream, true, "cuMemsetD8Async", || {
            // SAFETY: the allocation has `bytes` bytes and is freed after this use.
            unsafe { (context.api().cuMemsetD8Async)(self.0.address, 0, bytes, stream.raw()) }
        })
    }

    /// Returns the content.
    pub(in crate::runtime) fn to_vec<T: Element>(&self) -> Result<Vec<T>, RuntimeError> {
        let len = self.0.bytes / size_of::<T>();
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
        self.0.context.check_asserts()?;
        Ok(data)
    }

    /// Makes each byte 0 or 1: those are the `bool`s, and a kernel may have stored any byte. The bytes take the way
    /// through the host.
    #[inline]
    pub(in crate::runtime) fn make_bools(&mut self) -> Result<(), RuntimeError> {
        let bytes = self.to_vec::<u8>()?;
        if bytes.iter().any(|byte| *byte > 1) {
            let bools = bytes.into_iter().map(|byte| bool::from_bits(byte.into()).into());
            self.write(&bools.collect::<Vec<u8>>())?;
        }
        Ok(())
    }

    /// Writes the content to `data`, which has the same size in bytes.
    pub(in crate::runtime) fn read_into<T: Element>(
        &self,
        data: &mut [T],
    ) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        if T::SCALAR == Scalar::Bool {
            data.copy_from_slice(&self.to_vec()?);
            return Ok(());
        }
        // SAFETY: the slice has `len` elements, and all bits are a value of an element.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        self.0.context.check_asserts()
    }

    /// Copies the first `len` elements to `to`.
    ///
    /// # Safety
    /// `to` has room for `len` elements, and the allocation has as many.
    unsafe fn read_to<T: Element>(&self, to: *mut T, len: usize) -> Result<(), RuntimeError> {
        let context = self.0.context;
        if len == 0 {
            context.enter()?;
            return Ok(());
        }
        // On the stream of the last change nothing has to be waited for but that.
        let stream = self.uses().writer().unwrap_or_else(|| Arc::clone(&self.0.allocated_on));
        self.copy_pageable(&stream, false, "cuMemcpyDtoHAsync", |stream| {
            // SAFETY: the sizes are right by contract. The copy has ended when this function returns, because nobody
            // captures the stream: if waiting for it fails, the context is lost and copies no more.
            unsafe {
                (context.api().cuMemcpyDtoHAsync_v2)(
                    to.cast(),
                    self.0.address,
                    len * size_of::<T>(),
                    stream.raw(),
                )
            }
        })
    }

    fn check_size<T: Element>(&self, data: &[T]) -> Result<(), RuntimeError> {
        if size_of_val(data) == self.0.bytes {
            return Ok(());
        }
        let buffer = self.0.bytes / size_of::<T>();
        Err(RuntimeError::LengthMismatch { buffer, host: data.len() })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.address == 0 || self.base.is_some() {
            return;
        }
        let (api, stream) = (self.context.api(), &self.allocated_on);
        // After a fault the memory is gone with the context. A collective that hangs keeps only the memory that it uses:
        // an owner is asked below, and the driver frees memory of a pool without a wait.
        let entered = match self.owner.is_some() || self.context.has_pools() {
            true => self.context.keep(self.context.enter()),
            false => self.context.enter_to_drop(),
        };
        let Some(_current) = entered else { return };
        if self.lease().is_some() {
            // The end of the borrow has ordered the uses.
            return;
        }
        if self.owner.is_some() {
            // The owner may free it at once, in an order of its own.
            if self.context.keep(self.uses.wait(true)).is_none() {
                // Something may still run on it.
                mem::forget(self.owner.take());
            }
            return;
        }
        let (call, code) = if self.context.has_pools() {
            if self.context.keep(self.uses.order(stream, true)).is_none() {
                return;
            }
            // SAFETY: the address is that of an allocation in the order of this stream, freed once. All its
            // uses are in this stream, or the stream waits for them.
            ("cuMemFreeAsync", unsafe { (api.cuMemFreeAsync)(self.address, stream.raw()) })
        } else {
            if self.context.keep(self.uses.wait(true)).is_none() {
                return;
            }
            // SAFETY: all uses have ended; the allocation is freed once.
            ("cuMemFree_v2", unsafe { (api.cuMemFree_v2)(self.address) })
        };
        self.context.keep(self.context.check(call, code));
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.0.bytes, self.0.context.label())
    }
}
