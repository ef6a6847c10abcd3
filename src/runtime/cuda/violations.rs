//! Keeps the records of kernels with checks in page-locked memory, which outlives a fault of the device.

use std::sync::{Arc, Mutex, PoisonError};

use crate::ir::{CheckedKernel, Record};
use crate::runtime::error::RuntimeError;
use crate::sim::Fault;

/// Words from one record to the next.
const STRIDE: usize = 16;

/// Records in a piece of memory.
const RECORDS: usize = 256;

/// The number of records after which kernels without a function are forgotten.
const REMEMBERED: usize = 1024;

/// Words of host memory that kernels write.
pub(super) trait Words: Send + Sync {
    /// Returns the address.
    fn start(&self) -> u64;
    /// Returns a word, or 0 behind the end. It asks nothing of the device.
    fn word(&self, index: usize) -> u64;
}

/// The records of a context. Memory is never given back, because a kernel may still run when its function is gone.
#[derive(Default)]
pub(super) struct Violations(Mutex<Records>);

#[derive(Default)]
struct Records {
    memory: Vec<Box<dyn Words>>,
    /// The kernel of each record; `None` where it is forgotten.
    kernels: Vec<Option<Arc<CheckedKernel>>>,
}

impl Violations {
    /// Returns the address of a record for the kernel. The caller keeps the kernel as long as it can be launched.
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

    /// Returns the violation of a kernel, after the fault that ended the device.
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
