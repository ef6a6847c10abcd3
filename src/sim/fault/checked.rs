//! Turns the record that a kernel with access checks leaves on a GPU into a [`Fault`], so that a
//! GPU reports the same sentences as the simulator.

use super::cause::FaultCause;
use super::report::Fault;
use super::source::MemoryAccess;
use crate::ir::types::{Const, Scalar, Space};
use crate::ir::{Check, CheckedKernel, Record};
use crate::sim::options::Order;

impl Fault {
    /// Returns the fault that a record describes, worded as the simulator would word it. A kernel
    /// with access checks ([`Kernel::checked`](crate::ir::Kernel::checked)) writes such a record
    /// when a check fails. The runtime calls this after the kernel has stopped; call it yourself if
    /// you launch such a kernel with other code. Returns `None` if `checked` has no such check,
    /// because the record belongs to another kernel.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Record, Target};
    /// use tilewright::sim::Fault;
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", Target::SM_80, |k, (x,)| {
    ///     x.store(k.thread_idx().x, 7)
    /// })?;
    /// // Thread 16 of block 0 stores 4 bytes at byte 64 of 64.
    /// let record = Record::read(&[1, 1, 16, 0, 0, 0, 0, 0, 64, 64, 4, 0]).unwrap();
    /// let fault = Fault::from_record(&kernel.checked()?, &record).unwrap();
    /// assert!(fault.to_string().contains(
    ///     "writes i32 element 16 (bytes 64 to 68) of parameter `p0`, which has 16 elements (64 bytes)"
    /// ));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_record(checked: &CheckedKernel, record: &Record) -> Option<Fault> {
        let site = checked.sites().get(record.site)?;
        let [first, length, bytes, rank] = record.values;
        let number = |scalar: Scalar| Const::new(scalar, first & low_bits(scalar));
        let cause = match &site.check {
            Check::Access(known) => {
                let byte = offset(first, known.space.pointer_bits());
                let bytes = bytes as u32;
                let access = MemoryAccess {
                    is_store: known.is_store,
                    space: known.space,
                    rank: (known.space == Space::SharedCluster).then_some(rank as u32),
                    allocation: known.allocation.clone(),
                    made: known.made,
                    elem: known.elem,
                    element: byte.div_euclid(known.elem.size_bytes().into()),
                    byte,
                    bytes,
                    align: known.align,
                    len_bytes: length,
                };
                match byte >= 0 && byte + i128::from(bytes) <= i128::from(length) {
                    true => FaultCause::Misaligned { access },
                    false => FaultCause::OutOfBounds { access },
                }
            }
            Check::Division { scalar } => FaultCause::DivisionByZero { dividend: number(*scalar) },
            Check::Step { scalar } => FaultCause::StepNotPositive { step: number(*scalar) },
            Check::Divisible { scalar, divisor } => {
                FaultCause::NotDivisible { value: number(*scalar), divisor: *divisor }
            }
            Check::Between { scalar } => {
                let bound = |bits: u64| Const::new(*scalar, bits & low_bits(*scalar));
                let (low, high) = (bound(length), bound(bytes));
                FaultCause::OutsideBounds { value: number(*scalar), low, high }
            }
            Check::Promise { bytes, pointer_bits } => {
                let byte = offset(first, *pointer_bits) as i64;
                FaultCause::BrokenPromise { bytes: *bytes, byte }
            }
        };
        Some(Fault {
            cause,
            kernel: checked.kernel().name().to_owned(),
            op: site.op,
            path: site.path.clone(),
            location: site.location,
            block: record.block,
            thread: record.thread,
            stuck: Vec::new(),
            cycle: Vec::new(),
            order: Order::default(),
            also: Vec::new(),
        })
    }
}

/// Reads an offset of `width` bits.
fn offset(bits: u64, width: u32) -> i128 {
    if width == 32 { i128::from(bits as u32 as i32) } else { i128::from(bits as i64) }
}

fn low_bits(scalar: Scalar) -> u64 {
    u64::MAX >> (64 - scalar.bits().clamp(1, 64))
}
