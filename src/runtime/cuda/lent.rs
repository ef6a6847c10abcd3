//! Lends memory of other code to this crate for a limited time: the closure of
//! `Device::borrow_cudarc`.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::capture::Resource;
use super::lease::Lease;
use super::memory::{Allocation, Memory};
use super::stream::Stream;
use crate::runtime::error::RuntimeError;

/// Makes the slice's stream wait for what `cudarc` has queued on the slice, and returns the slice's
/// address. If the argument is `true`, `cudarc` also notes that the stream has used the slice.
pub(in crate::runtime) type Access<'s> = Box<dyn FnMut(bool) -> u64 + 's>;

/// The lender's side of lent memory. Dropping it ends the loan.
pub(in crate::runtime) struct Lent<'s> {
    memory: Arc<Allocation>,
    stream: Arc<Stream>,
    access: Access<'s>,
    /// Set if other code was capturing the stream when the loan began.
    captured: bool,
}

impl<'s> Lent<'s> {
    /// Lends `bytes` bytes. Drop the returned memory before the other value.
    ///
    /// # Safety
    /// `access` returns the address of `bytes` bytes that `cudarc` allocated in the context of
    /// `stream`. Until `'s` ends, nobody frees or writes them, and nobody reads them if this crate
    /// may write them.
    #[inline]
    pub(in crate::runtime) unsafe fn new(
        stream: Arc<Stream>,
        bytes: usize,
        mut access: Access<'s>,
    ) -> Result<(Memory, Lent<'s>), RuntimeError> {
        let _current = stream.context().enter()?;
        let captured = stream.is_capturing()?;
        let (address, lease) = (access(false), Box::new(Lease::new(captured)));
        // SAFETY: guaranteed by the caller until the loan ends. From then on, work on the memory is
        // refused, and the stream waits for the earlier work. A capture has no work to wait for,
        // and only captured work may use the memory.
        let lent = unsafe {
            match captured {
                true => Memory::foreign_unused(&stream, address, bytes, lease),
                false => Memory::foreign(&stream, address, bytes, lease),
            }
        };
        let memory = Arc::clone(lent.allocation());
        Ok((lent, Lent { memory, stream, access, captured }))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let context = self.stream.context();
        if let Some(lease) = self.memory.lease() {
            // Work that is being queued on the memory is either noted before this, or refused.
            let _graphs = context.lock_graphs();
            lease.end();
        }
        // After a fault nothing runs, and during a capture nothing runs either.
        if let Some(_current) = context.keep(context.enter())
            && !(self.captured && context.keep(self.stream.is_capturing()) == Some(true))
        {
            let uses = self.memory.uses();
            if context.keep(uses.order(&self.stream, true)).is_none() {
                let mut waited = uses.wait(true);
                // The lender may free the memory, so wait even for a hung collective.
                while matches!(waited, Err(RuntimeError::Comm(_))) {
                    thread::sleep(Duration::from_millis(1));
                    waited = uses.wait(true);
                }
                context.keep(waited);
            }
            (self.access)(true);
        }
        if Arc::strong_count(&self.memory) > 1 {
            // Somebody kept the memory beyond the loan, so leak the allocation. Shared memory is
            // checked before each use, and a check finds that the loan has ended.
            mem::forget(Arc::clone(&self.memory));
        }
    }
}
