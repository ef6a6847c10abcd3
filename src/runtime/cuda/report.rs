//! Reads failed assertions from the device, after the kernels that may have written them have
//! ended.

use std::sync::Arc;

use super::capture::Resource;
use super::context::Context;
use super::memory::Memory;
use super::pending_report::Report;
use super::uses::Uses;
use crate::codegen::AssertBuffer;
use crate::ir::KernelIr;
use crate::launch::assert::{AssertFailures, AssertSites};
use crate::runtime::error::RuntimeError;

const WORD: usize = size_of::<u64>();

/// The buffer that a kernel writes its failed assertions to, and what its entries mean.
pub(super) struct AssertReport {
    memory: Memory,
    sites: AssertSites,
}

impl AssertReport {
    /// Allocates the buffer; `None` if the kernel has no assertions.
    pub(super) fn new(
        context: &'static Context,
        ir: &KernelIr,
        source: &KernelIr,
    ) -> Result<Option<Arc<AssertReport>>, RuntimeError> {
        if !ir.has_asserts() {
            return Ok(None);
        }
        let memory = Memory::zeros(context, AssertBuffer::BYTES)?;
        Ok(Some(Arc::new(AssertReport { memory, sites: AssertSites::new(ir, source) })))
    }

    /// Returns the buffer's address, which a launch passes as an argument.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }
}

/// Launches count as reads of the buffer, so that whoever reads the failures waits for all of them.
/// The launches need not wait for each other, because they add atomically.
impl Resource for AssertReport {
    fn uses(&self) -> &Uses {
        self.memory.uses()
    }
}

impl Report for AssertReport {
    fn take(&self) -> Result<Option<AssertFailures>, RuntimeError> {
        let total = self.memory.read_start(1)?.first().copied().unwrap_or(0);
        if total == 0 {
            return Ok(None);
        }
        let records = (total as usize).min(AssertBuffer::RECORDS);
        let bytes = AssertBuffer::HEADER_BYTES + records * AssertBuffer::RECORD_BYTES;
        let words = self.memory.read_start(bytes / WORD)?;
        self.memory.clear_start(AssertBuffer::HEADER_BYTES)?;
        let records = words.get(AssertBuffer::HEADER_BYTES / WORD..).unwrap_or_default();
        let failures = records
            .chunks_exact(AssertBuffer::RECORD_BYTES / WORD)
            .filter_map(|record| self.sites.decode(record))
            .collect();
        let device = self.memory.context().label();
        Ok(Some(AssertFailures::new(&self.sites, device, total, failures)))
    }
}
