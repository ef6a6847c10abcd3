//! Keeps the check records of kernels in page-locked memory, which survives a device fault. A
//! kernel with access checks writes its first violation there before it stops, and
//! [`Violations::find`] reads it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::ir::{CheckedKernel, Record};
use crate::runtime::error::RuntimeError;
use crate::sim::Fault;

/// Distance between two records in 64-bit words.
const STRIDE: usize = 16;

/// Records per allocation.
const RECORDS: usize = 256;

/// From this many records on, kernels whose function was dropped are forgotten.
const REMEMBERED: usize = 1024;

/// Host memory that kernels write 64-bit words to.
pub(super) trait Words: Send + Sync {
    /// Returns the memory's address.
    fn start(&self) -> u64;
    /// Returns a word, or 0 if the index is past the end. Does not ask the device.
    fn word(&self, index: usize) -> u64;
}

/// A context's check records, one for each loaded kernel with access checks. Their memory is never
/// freed, because a kernel may still be running when its function is dropped.
#[derive(Default)]
pub(super) struct Violations(Mutex<Records>);

#[derive(Default)]
struct Records {
    memory: Vec<Box<dyn Words>>,
    /// Each record's kernel; `None` if it was forgotten.
    kernels: Vec<Option<Arc<CheckedKernel>>>,
}

impl Violations {
    /// Returns the device address of a new record for the kernel, which launches pass as an
    /// argument. The caller must keep the kernel as long as it can be launched.
    pub(super) fn add(
        &self,
        make: impl FnOnce(usize) -> Result<Box<dyn Words>, RuntimeError>,
        kernel: &Arc<CheckedKernel>,
    ) -> Result<u64, RuntimeError> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = records.kernels.len();
        if number == records.memory.len() * RECORDS {
            let bytes = RECORDS * STRIDE * size_of::<u64>();
            records.memory.push(make(bytes)?);
        }
        if number.is_multiple_of(REMEMBERED) {
            let is_used = |kernel: &Arc<CheckedKernel>| Arc::strong_count(kernel) > 1;
            records.kernels.iter_mut().for_each(|kernel| *kernel = kernel.take().filter(is_used));
        }
        records.kernels.push(Some(Arc::clone(kernel)));
        let memory = records.memory.last().map_or(0, |memory| memory.start());
        Ok(memory + (number % RECORDS * STRIDE * size_of::<u64>()) as u64)
    }

    /// Returns the violation that a kernel recorded. Call it after a fault has ended the device.
    pub(super) fn find(&self) -> Option<Fault> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.kernels.iter().enumerate().find_map(|(number, kernel)| {
            let memory = records.memory.get(number / RECORDS)?;
            let first = number % RECORDS * STRIDE;
            let words: [u64; Record::WORDS] = std::array::from_fn(|i| memory.word(first + i));
            Fault::from_record(kernel.as_ref()?, &Record::read(&words)?)
        })
    }
}
