//! Lends memory of other code for a time.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::capture::Resource;
use super::lease::Lease;
use super::memory::{Allocation, Memory};
use super::stream::Stream;
use crate::runtime::error::RuntimeError;

/// Lets the stream of a slice wait for what `cudarc` has queued on the slice before, and returns the address. Where the
/// argument is `true`, `cudarc` notes that the stream has used the slice.
pub(in crate::runtime) type Access<'s> = Box<dyn FnMut(bool) -> u64 + 's>;

/// The lender's side of lent memory. Dropping it ends the loan.
pub(in crate::runtime) struct Lent<'s> {
    memory: Arc<Allocation>,
    stream: Arc<Stream>,
    access: Access<'s>,
    /// Set if other code captured the stream when the loan began.
    captured: bool,
}

impl<'s> Lent<'s> {
    /// Lends `bytes` bytes. Drop the memory first, then the other value.
    ///
    /// # Safety
    /// `access` gives the address of `bytes` bytes that `cudarc` allocated in the context of `stream`, which nobody frees
    /// before `'s` ends. Nobody writes them before that, and nobody reads them where the memory may be written.
    #[inline]
    pub(in crate::runtime) unsafe fn new(
        stream: Arc<Stream>,
        bytes: usize,
        mut access: Access<'s>,
    ) -> Result<(Memory, Lent<'s>), RuntimeError> {
        let _current = stream.context().enter()?;
        let captured = stream.is_capturing()?;
        let (address, lease) = (access(false), Box::new(Lease::new(captured)));
        // SAFETY: by contract until the loan ends. Then work on the memory is refused, and the stream waits for the work
        // before. A capture has no work to wait for, and only captured work may use the memory.
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
            // What is being queued on the memory is noted before, or refused.
            let _graphs = context.lock_graphs();
            lease.end();
        }
        // After a fault nothing runs, and a capture runs nothing.
        if let Some(_current) = context.keep(context.enter())
            && !(self.captured && context.keep(self.stream.is_capturing()) == Some(true))
        {
            let uses = self.memory.uses();
            if context.keep(uses.order(&self.stream, true)).is_none() {
                let mut waited = uses.wait(true);
                // The lender may free the memory. So even a collective that hangs is waited for.
                while matches!(waited, Err(RuntimeError::Comm(_))) {
                    thread::sleep(Duration::from_millis(1));
                    waited = uses.wait(true);
                }
                context.keep(waited);
            }
            (self.access)(true);
        }
        if Arc::strong_count(&self.memory) > 1 {
            // The memory was kept beyond the loan. What somebody else has, too, is checked before each use.
            mem::forget(Arc::clone(&self.memory));
        }
    }
}
