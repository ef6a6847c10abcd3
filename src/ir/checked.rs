//! Defines [`CheckedKernel`], a kernel that checks its own accesses.

use std::fmt;

use super::bounds::LaunchBounds;
use super::builder::{Kernel, Untyped, lowered};
use super::kernel::{KernelIr, SourceLocation};
use super::passes;
use super::types::{Scalar, Space};
use super::verify::VerifyErrors;

/// A kernel with checks in its code, for a device that checks nothing itself. Made by [`Kernel::checked`].
///
/// A launch passes the arguments of the kernel; the bytes that [`extents`](CheckedKernel::extents) names, as `u64`; and the address of [`Record::WORDS`] words of zero. The first thread that violates a check fills in the
/// record, and the kernel ends with `trap`.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", Target::SM_80, |k, (x,)| {
///     x.store(k, k.thread_idx().x, 7)
/// })?;
/// let checked = kernel.checked()?;
/// assert_eq!((checked.extents(), checked.sites().len()), (&[0][..], 1));
/// let names: Vec<&str> = checked.kernel().ir().params.iter().map(|p| p.name.as_str()).collect();
/// assert_eq!(names, ["p0", "p0_bytes", "violations"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedKernel {
    kernel: Kernel<Untyped>,
    extents: Vec<u32>,
    sites: Vec<Site>,
}

/// A check in the code of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// The name of the operation.
    pub op: &'static str,
    /// The path of the operation from the kernel's body, without the checks.
    pub path: String,
    /// The Rust line of the operation.
    pub location: SourceLocation,
    /// The subject of the check.
    pub check: Check,
}

/// The subject of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// An access is inside its allocation and aligned. Values: the offset of its first byte, the bytes of the
    /// allocation, the bytes of the access, and in shared memory of another block the rank of that block.
    Access(CheckedAccess),
    /// The divisor is not zero. Value: the dividend.
    Division {
        /// The type of the dividend.
        scalar: Scalar,
    },
    /// The step of a `for` is positive. Value: the step.
    Step {
        /// The type of the step.
        scalar: Scalar,
    },
    /// The value of an `assume_divisible_by` is a multiple of `divisor`. Value: that value.
    Divisible {
        /// The type of the value.
        scalar: Scalar,
        /// The promised divisor.
        divisor: u32,
    },
    /// The value of an `assume_between` is between its bounds. Values: that value, the bounds.
    Between {
        /// The type of the values.
        scalar: Scalar,
    },
    /// The pointer of an `assume_aligned` is a multiple of `bytes`. Value: its offset in its allocation.
    Promise {
        /// The promised alignment.
        bytes: u32,
        /// The bits of the pointer and of its offset.
        pointer_bits: u32,
    },
}

/// An access that is checked: what is known before the kernel runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedAccess {
    /// True for a store, false for a load.
    pub is_store: bool,
    /// The memory space of the allocation.
    pub space: Space,
    /// The name of the parameter or of the allocation.
    pub allocation: String,
    /// The Rust line of the allocation, if the kernel made it.
    pub made: Option<SourceLocation>,
    /// The type of the elements.
    pub elem: Scalar,
    /// The alignment of the first byte.
    pub align: u32,
}

/// The first violation of a launch, as a thread writes it: words of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The position of the check in [`CheckedKernel::sites`].
    pub site: usize,
    /// The thread in its block.
    pub thread: [u32; 3],
    /// The block.
    pub block: [u32; 3],
    /// The values of the [`Check`], zero-extended; missing values are 0.
    pub values: [u64; 4],
}

impl Record {
    /// The number of words.
    pub const WORDS: usize = 12;
    /// The word that counts the threads that violated a check.
    pub(in crate::ir) const COUNT: usize = 0;
    /// The word with the number of the check, from 1. It is written last.
    pub(in crate::ir) const SITE: usize = 1;
    /// The first of three words with the thread; the block and the values follow.
    pub(in crate::ir) const THREAD: usize = 2;

    /// Reads a record; `None` if no thread has completed it.
    ///
    /// ```
    /// use tilewright::ir::Record;
    /// assert_eq!(Record::read(&[0; Record::WORDS]), None);
    /// let record = Record::read(&[1, 3, 31, 0, 0, 5, 0, 0, 128, 64, 4, 0]).unwrap();
    /// assert_eq!((record.site, record.thread, record.block), (2, [31, 0, 0], [5, 0, 0]));
    /// assert_eq!(record.values, [128, 64, 4, 0]);
    /// ```
    pub fn read(words: &[u64]) -> Option<Record> {
        let words: &[u64; Record::WORDS] = words.get(..Record::WORDS)?.try_into().ok()?;
        let [_, site, x, y, z, block_x, block_y, block_z, ref values @ ..] = *words;
        Some(Record {
            site: usize::try_from(site.checked_sub(1)?).ok()?,
            thread: [x, y, z].map(|index| index as u32),
            block: [block_x, block_y, block_z].map(|index| index as u32),
            values: *values,
        })
    }
}

impl<P> Kernel<P> {
    /// Returns the kernel with a check in front of each access to memory, each division of integers, each loop with
    /// a computed step, and each `assume_aligned`.
    ///
    /// A pointer is checked against the parameter or allocation that it was made from. Not checked are pointers with
    /// several of them, operands of PTX text, and matrices of `wgmma`. If the kernel has loops that cannot be pipelined with
    /// checks in them, the checks are added after [`lower`](Kernel::lower).
    ///
    /// # Errors
    /// Limits that the kernel with its checks exceeds, such as the depth of nested regions.
    pub fn checked(&self) -> Result<CheckedKernel, VerifyErrors> {
        CheckedKernel::of(self.ir())
    }
}

impl CheckedKernel {
    /// The checks of a verified kernel, or of what it is lowered to where it cannot have them.
    pub(crate) fn of(ir: &KernelIr) -> Result<CheckedKernel, VerifyErrors> {
        CheckedKernel::new(ir).or_else(|errors| match lowered(ir, SourceLocation::caller()) {
            Ok(lowered) => CheckedKernel::new(&lowered),
            Err(_) => Err(errors),
        })
    }

    fn new(ir: &KernelIr) -> Result<CheckedKernel, VerifyErrors> {
        let passes::checked::WithChecks { mut ir, extents, sites } =
            passes::checked::with_checks(ir);
        // Checks take registers. A block of any size still has to fit.
        let bounds = &mut ir.bounds;
        if bounds.block.is_none() && bounds.max_registers.is_none() {
            bounds.max_threads.get_or_insert(LaunchBounds::MAX_THREADS);
        }
        Ok(CheckedKernel { kernel: Kernel::verify(ir)?, extents, sites })
    }

    /// Returns the kernel.
    pub fn kernel(&self) -> &Kernel<Untyped> {
        &self.kernel
    }

    /// Returns the positions of the parameters whose bytes a launch passes, in order: those of a buffer, or of the box of a
    /// tensor map.
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// Returns the checks.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }
}

/// The name of the kernel and the number of its checks.
impl fmt::Display for CheckedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` with {} checks", self.kernel.name(), self.sites.len())
    }
}
