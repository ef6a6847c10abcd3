//! Allocates GPU memory and copies between it and the host, in order with all other work on the
//! memory.

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

/// GPU memory. All work that is queued on it is ordered: a read waits for the last write, a write
/// waits for all earlier uses. It is freed after its last use.
pub(in crate::runtime) struct Memory(Arc<Allocation>);

/// An allocation, together with the work that uses it.
pub(super) struct Allocation {
    context: &'static Context,
    /// 0 for an empty allocation, which the driver would refuse.
    address: u64,
    bytes: usize,
    /// The stream that allocated the memory and will free it.
    allocated_on: Arc<Stream>,
    uses: Uses,
    /// Set if other code owns the memory: dropping this frees it.
    owner: Option<Box<dyn Any + Send + Sync>>,
    /// The allocation that this is a part of. It tracks the uses and frees the memory.
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
    /// Returns the lease, if the memory is lent.
    pub(super) fn lease(&self) -> Option<&Lease> {
        let owner = self.base.as_ref().map_or(&self.owner, |base| &base.owner);
        owner.as_deref().and_then(|owner| owner.downcast_ref())
    }
}

/// If somebody else shares some of the memory, returns a lock that you must hold from reading its
/// uses until the new work is noted. Returns an error if lent memory has already gone back to its
/// lender.
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
    /// Allocates `bytes` zero bytes.
    pub(in crate::runtime) fn zeros(
        context: &'static Context,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        let memory = Memory::allocate(context, bytes)?;
        memory.clear_start(bytes)?;
        Ok(memory)
    }

    /// Allocates memory with a copy of `data`.
    pub(in crate::runtime) fn from_slice<T: Element>(
        context: &'static Context,
        data: &[T],
    ) -> Result<Memory, RuntimeError> {
        let mut memory = Memory::allocate(context, size_of_val(data))?;
        memory.write(data)?;
        Ok(memory)
    }

    /// Wraps memory from other code. `owner` keeps it alive and frees it; `stream` is where it was
    /// last written.
    ///
    /// # Safety
    /// The `bytes` bytes at `address` are memory of the context as long as `owner` is not dropped.
    /// Other code uses them only in an order with the uses here.
    pub(in crate::runtime) unsafe fn foreign(
        stream: &Arc<Stream>,
        address: u64,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        // SAFETY: guaranteed by the caller.
        let memory = unsafe { Memory::foreign_unused(stream, address, bytes, owner) };
        stream.note(|note| note(memory.uses(), true));
        memory
    }

    /// Like [`Memory::foreign`], but for memory that no work has to wait for.
    ///
    /// # Safety
    /// As for [`Memory::foreign`].
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

    /// Allocates memory with arbitrary content.
    fn allocate(context: &'static Context, bytes: usize) -> Result<Memory, RuntimeError> {
        let _current = context.enter()?;
        let stream = Arc::clone(context.default_stream());
        let mut address = 0;
        if bytes > 0 {
            let mut allocate = || {
                if context.has_pools() {
                    let allocate = context.api().cuMemAllocAsync;
                    // SAFETY: `address` is a local out parameter; the context is current.
                    ("cuMemAllocAsync", unsafe { allocate(&mut address, bytes, stream.raw()) })
                } else {
                    let allocate = context.api().cuMemAlloc_v2;
                    // SAFETY: as above.
                    ("cuMemAlloc_v2", unsafe { allocate(&mut address, bytes) })
                }
            };
            let (mut call, mut code) = allocate();
            if code == status::OUT_OF_MEMORY {
                // Memory that is freed after running launches becomes available only when they end.
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
        // Other streams may use the memory only after its allocation.
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

    /// Returns the `bytes` bytes from offset `first` on, or `None` if the memory is shorter. Using
    /// the part counts as using the whole.
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

    pub(in crate::runtime) fn address(&self) -> u64 {
        self.0.address
    }

    /// Returns a pointer to the address, for a launch's parameter list.
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

    /// Notes work of the calling thread, which owns the stream, if that needs nothing else: nobody
    /// shares the memory, and all its uses are on this stream. Returns whether it did.
    #[inline]
    pub(super) fn note_alone(&self, stream: &Stream, work: u64, writes: bool) -> bool {
        let (uses, is_shared) = (self.uses(), self.is_shared());
        !is_shared && uses.is_alone(stream) && uses.note_at_once(stream, work, writes)
    }

    /// Returns whether a graph or a part also uses the memory.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        uses::is_shared(&self.0) || self.0.base.is_some()
    }

    /// Makes a graph keep the memory. Returns an error for lent memory.
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

    /// Leaks the memory because a graph of other code uses it. Lent memory is not leaked; its
    /// lender has to keep it.
    pub(super) fn keep_for_ever(&self) {
        if self.0.lease().is_none() {
            mem::forget(Arc::clone(&self.0));
        }
    }

    /// Returns whether other code frees the memory, or it is a part.
    pub(super) fn has_owner(&self) -> bool {
        self.0.owner.is_some() || self.0.base.is_some()
    }

    /// Gives up the allocation and returns its address, if nobody else uses the memory and this
    /// crate allocated it. Otherwise returns the memory.
    pub(super) fn release(self) -> Result<u64, Memory> {
        match Arc::try_unwrap(self.0) {
            Ok(mut own) if own.owner.is_none() && own.base.is_none() => {
                Ok(mem::take(&mut own.address))
            }
            Ok(foreign) => Err(Memory(Arc::new(foreign))),
            Err(shared) => Err(Memory(shared)),
        }
    }

    /// Returns whether other code passed an owner of this type.
    pub(super) fn is_owned_by<O: Any>(&self) -> bool {
        // Ask for the box's content: the box itself is never an `O`.
        self.0.owner.as_deref().is_some_and(|owner| owner.is::<O>())
    }

    /// Takes the owner out, if it has this type and nobody else uses the memory. Otherwise returns
    /// the memory. No work on the memory may be left.
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

    /// Queues work on the memory on `stream`, after the uses that it has to wait for. `call` names
    /// the driver call.
    fn queue(
        &self,
        stream: &Arc<Stream>,
        writes: bool,
        call: &'static str,
        work: impl FnOnce() -> u32,
    ) -> Result<(), RuntimeError> {
        self.queue_with(None, stream, writes, call, work)
    }

    /// Like [`Memory::queue`], but the work also reads `from`.
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

    /// Queues work that also uses host memory, in the order of `stream`. Other code can never
    /// capture it, because its graph could use the host memory at any later time. `work` receives
    /// the stream that it has to use. `call` names the driver call.
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

    /// Like [`Memory::queue_host_copy`], but for pageable host memory. Returns when the copy has
    /// ended.
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
            // In such a copy the driver blocks the host until the stream reaches it, and blocks
            // calls from all other threads meanwhile. If a collective hung before it, nothing could
            // end that wait. So wait before the copy, in a way that can be given up.
            let runs_on = stream.uncaptured();
            if !Arc::ptr_eq(runs_on, stream) {
                runs_on.follow(stream)?;
            }
            self.uses().order(runs_on, writes)?;
            runs_on.wait()?;
        }
        self.queue_host_copy(stream, writes, call, work)?.wait_to_the_end()
    }

    /// Like [`Memory::queue_with`], but for work that writes the memory and that a stream may
    /// record.
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

    /// Overwrites the content with `data`, which must have the same size in bytes.
    pub(in crate::runtime) fn write<T: Element>(&mut self, data: &[T]) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        let (context, stream) = (self.0.context, &self.0.allocated_on);
        self.copy_pageable(stream, true, "cuMemcpyHtoDAsync", |stream| {
            // SAFETY: both sides have `bytes` bytes. An element is plain bytes without padding. The
            // host memory is borrowed until this function returns, and the copy has ended by then.
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

    /// Queues a copy from page-locked host memory of the same size in bytes.
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
            // SAFETY: both sides have `bytes` bytes. Each is freed, and the host memory written,
            // only after the uses that are noted.
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

    /// Queues a copy to page-locked host memory of the same size in bytes.
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
            // SAFETY: both sides have `bytes` bytes. Each is freed, and the host memory read or
            // written, only after the uses that are noted.
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

    /// Queues a copy from other memory of the same context and the same size in bytes.
    #[inline]
    pub(in crate::runtime) fn copy_from(
        &mut self,
        from: &Memory,
        stream: &Arc<Stream>,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context;
        self.queue_or_record(Some(from), stream, "cuMemcpyDtoDAsync", || {
            // SAFETY: the copy stays within both sides, which are freed only after the uses that
            // are noted, or live as long as the graph that records the copy.
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

    /// Queues a fill that sets all elements to `value`.
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
                // SAFETY: the allocation has `len` elements of this size. It is freed after this
                // use, or lives as long as the graph that records it.
                1 => unsafe { (api.cuMemsetD8Async)(to, bits as u8, len, raw) },
                // SAFETY: as above.
                2 => unsafe { (api.cuMemsetD16Async)(to, bits as u16, len, raw) },
                // SAFETY: as above.
                4 => unsafe { (api.cuMemsetD32Async)(to, bits as u32, len, raw) },
                // The driver fills with words of at most 4 bytes: first all lower halves, then all
                // upper ones.
                _ => {
                    let [low, high] = [bits as u32, (bits >> 32) as u32];
                    // SAFETY: as above, with one 4-byte word per element.
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

    /// Waits for all uses, then returns the first `len` 64-bit words.
    pub(super) fn read_start(&self, len: usize) -> Result<Vec<u64>, RuntimeError> {
        let mut data = vec![0; len.min(self.0.bytes / size_of::<u64>())];
        let _current = self.0.context.enter()?;
        self.uses().wait(true)?;
        // SAFETY: the vector and the allocation both have that many words.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        Ok(data)
    }

    /// Queues a fill that sets the first `bytes` bytes to zero.
    pub(super) fn clear_start(&self, bytes: usize) -> Result<(), RuntimeError> {
        let (context, stream) = (self.0.context, &self.0.allocated_on);
        let bytes = bytes.min(self.0.bytes);
        self.queue(stream, true, "cuMemsetD8Async", || {
            // SAFETY: the allocation has `bytes` bytes and is freed after this use.
            unsafe { (context.api().cuMemsetD8Async)(self.0.address, 0, bytes, stream.raw()) }
        })
    }

    /// Copies the content to the host.
    pub(in crate::runtime) fn to_vec<T: Element>(&self) -> Result<Vec<T>, RuntimeError> {
        let len = self.0.bytes / size_of::<T>();
        if T::SCALAR == Scalar::Bool {
            // A kernel may have stored any byte, but only two bytes are valid `bool`s.
            let bytes = self.to_vec::<u8>()?;
            return Ok(bytes.into_iter().map(|byte| T::from_bits(byte.into())).collect());
        }
        let mut data = Vec::<T>::with_capacity(len);
        // SAFETY: the vector has room for `len` elements, and the allocation has at least as many.
        unsafe { self.read_to(data.as_mut_ptr(), len)? };
        // SAFETY: the elements have been written, and every bit pattern is valid for their type.
        unsafe { data.set_len(len) };
        self.0.context.check_asserts()?;
        Ok(data)
    }

    /// Turns each byte into 0 or 1, the valid `bool`s, because a kernel may have stored any byte.
    /// The bytes travel through the host.
    #[inline]
    pub(in crate::runtime) fn make_bools(&mut self) -> Result<(), RuntimeError> {
        let bytes = self.to_vec::<u8>()?;
        if bytes.iter().any(|byte| *byte > 1) {
            let bools = bytes.into_iter().map(|byte| bool::from_bits(byte.into()).into());
            self.write(&bools.collect::<Vec<u8>>())?;
        }
        Ok(())
    }

    /// Copies the content to `data`, which must have the same size in bytes.
    pub(in crate::runtime) fn read_into<T: Element>(
        &self,
        data: &mut [T],
    ) -> Result<(), RuntimeError> {
        self.check_size(data)?;
        if T::SCALAR == Scalar::Bool {
            data.copy_from_slice(&self.to_vec()?);
            return Ok(());
        }
        // SAFETY: the slice has `len` elements, and every bit pattern is valid for their type.
        unsafe { self.read_to(data.as_mut_ptr(), data.len())? };
        self.0.context.check_asserts()
    }

    /// Copies the first `len` elements to `to`.
    ///
    /// # Safety
    /// `to` has room for `len` elements, and the allocation has at least as many.
    unsafe fn read_to<T: Element>(&self, to: *mut T, len: usize) -> Result<(), RuntimeError> {
        let context = self.0.context;
        if len == 0 {
            context.enter()?;
            return Ok(());
        }
        // On the stream that last wrote the memory, the copy waits for nothing else.
        let stream = self.uses().writer().unwrap_or_else(|| Arc::clone(&self.0.allocated_on));
        self.copy_pageable(&stream, false, "cuMemcpyDtoHAsync", |stream| {
            // SAFETY: the caller guarantees the sizes. The copy has ended when this function
            // returns, because nobody captures the stream: if waiting for it fails, the context is
            // lost and copies no more.
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
        // After a fault, the memory is gone with the context. A hung collective delays only the
        // memory that it uses: an owner is handled below, and the driver frees pool memory without
        // waiting.
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
            // The owner may free the memory at once, in an order of its own.
            if self.context.keep(self.uses.wait(true)).is_none() {
                // Something may still be using the memory, so leak it.
                mem::forget(self.owner.take());
            }
            return;
        }
        let (call, code) = if self.context.has_pools() {
            if self.context.keep(self.uses.order(stream, true)).is_none() {
                return;
            }
            // SAFETY: the address was allocated in the order of this stream and is freed once. All
            // its uses are on this stream, or the stream waits for them.
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
