//! Kernels that check their own accesses on the GPU: [`CheckedKernel`], and the [`Record`] of a
//! violation. Loading with checks makes them; you need this module only to run one without this
//! crate's runtime.

use std::fmt;

use super::bounds::LaunchBounds;
use super::builder::lowered;
use super::kernel::{KernelIr, SourceLocation};
use super::passes;
use super::passes::checked::Proved;
use super::types::{Scalar, Space};
use super::verify::VerifyErrors;
use crate::ir::{Kernel, Untyped};

/// A kernel with checks compiled into its code, because a GPU itself checks almost nothing.
/// [`Kernel::checked`] makes one.
///
/// A launch passes the kernel's own arguments, then a `u64` size in bytes for each parameter in
/// [`extents`](CheckedKernel::extents), then the address of [`Record::WORDS`] zeroed words. The
/// first thread that violates a check fills in the record, and the kernel ends with `trap`.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", Target::SM_80, |k, (x,)| {
///     x.store(k.thread_idx().x, 7)
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

/// A check in a kernel's code: the operation that it guards and what it requires.
/// [`CheckedKernel::sites`] lists them, so that you can turn a [`Record`] into a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// The name of the checked operation.
    pub op: &'static str,
    /// The operation's path from the kernel's body, not counting the checks.
    pub path: String,
    /// The operation's source line in the Rust program.
    pub location: SourceLocation,
    /// What is checked.
    pub check: Check,
}

/// What a [`Site`] checks, and which values it records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// An access must be inside its allocation and aligned. Values: the offset of its first byte,
    /// the allocation's size in bytes, the access's size in bytes, and for another block's shared
    /// memory that block's rank.
    Access(CheckedAccess),
    /// The divisor must not be zero. Value: the dividend.
    Division {
        /// The dividend's type.
        scalar: Scalar,
    },
    /// The step of a `for` must be positive. Value: the step.
    Step {
        /// The step's type.
        scalar: Scalar,
    },
    /// The operand of an `assume_divisible_by` must be a multiple of `divisor`. Value: the operand.
    Divisible {
        /// The operand's type.
        scalar: Scalar,
        /// The promised divisor.
        divisor: u32,
    },
    /// The operand of an `assume_between` must be within its bounds. Values: the operand, the lower
    /// and the upper bound.
    Between {
        /// The type of all three values.
        scalar: Scalar,
    },
    /// The pointer of an `assume_aligned` must be a multiple of `bytes`. Value: its offset in its
    /// allocation.
    Promise {
        /// The promised alignment.
        bytes: u32,
        /// The width of the pointer and of its offset, in bits.
        pointer_bits: u32,
    },
}

/// What is known about a checked access before the kernel runs. An error message combines it with
/// the values in the [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedAccess {
    /// Whether it is a store rather than a load.
    pub is_store: bool,
    /// The allocation's memory space.
    pub space: Space,
    /// The name of the parameter or allocation.
    pub allocation: String,
    /// The source line of the allocation, if the kernel made it.
    pub made: Option<SourceLocation>,
    /// The element type.
    pub elem: Scalar,
    /// The required alignment of the first byte.
    pub align: u32,
}

/// The first violation of a launch, decoded from the 64-bit words that the thread wrote to memory.
/// Read it after a launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The index of the violated check in [`CheckedKernel::sites`].
    pub site: usize,
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The values of the [`Check`], zero-extended. Unused ones are 0.
    pub values: [u64; 4],
}

impl Record {
    /// The size of a record, in words.
    pub const WORDS: usize = 12;
    /// The word that counts threads with violations.
    pub(in crate::ir) const COUNT: usize = 0;
    /// The word with the check's index plus 1. It is written last, so a nonzero value means that
    /// the record is complete.
    pub(in crate::ir) const SITE: usize = 1;
    /// The first of three words with the thread index. The block index and the values follow.
    pub(in crate::ir) const THREAD: usize = 2;

    /// Decodes a record. Returns `None` if no thread has completed it.
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
    /// Returns the kernel with all checks added, to find out-of-bounds accesses and broken promises
    /// on a GPU. A check runs before each memory access, each integer division, each loop whose step
    /// is not a constant, and each `assume_aligned`, `assume_divisible_by` and `assume_between`.
    ///
    /// A pointer is checked against the parameter or allocation that it derives from. Not checked
    /// are pointers that may derive from several, operands of inline PTX, and `wgmma` matrices. If
    /// the checks prevent the kernel from verifying, for example because they stand in the way of
    /// pipelining a loop, they are added to the [lowered](Kernel::lower) kernel instead.
    ///
    /// # Errors
    /// Returns the limits that the kernel exceeds once it has checks, such as the nesting depth of
    /// regions.
    pub fn checked(&self) -> Result<CheckedKernel, VerifyErrors> {
        CheckedKernel::of(self.ir(), |_| Proved::new())
    }
}

impl CheckedKernel {
    /// Adds checks to a verified kernel, or to its lowered form if it does not verify with checks.
    /// `proved` says what needs no check in the kernel that it gets.
    pub(crate) fn of(
        ir: &KernelIr,
        mut proved: impl FnMut(&KernelIr) -> Proved,
    ) -> Result<CheckedKernel, VerifyErrors> {
        CheckedKernel::new(ir, &proved(ir)).or_else(|errors| {
            match lowered(ir, SourceLocation::caller()) {
                Ok(lowered) => CheckedKernel::new(&lowered, &proved(&lowered)),
                Err(_) => Err(errors),
            }
        })
    }

    fn new(ir: &KernelIr, proved: &Proved) -> Result<CheckedKernel, VerifyErrors> {
        let passes::checked::WithChecks { mut ir, extents, sites } =
            passes::checked::with_checks(ir, proved);
        // Checks need registers, so tell `ptxas` to leave room for a block of any size.
        let bounds = &mut ir.bounds;
        if bounds.block.is_none() && bounds.max_registers.is_none() {
            bounds.max_threads.get_or_insert(LaunchBounds::MAX_THREADS);
        }
        Ok(CheckedKernel { kernel: Kernel::verify(ir)?, extents, sites })
    }

    /// Returns the kernel with its checks, to generate PTX from.
    pub fn kernel(&self) -> &Kernel<Untyped> {
        &self.kernel
    }

    /// Returns the indices of the parameters whose size in bytes a launch passes, in the order in
    /// which it passes them. The size is a buffer's, or for a tensor map that of its box.
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// Returns the checks, in the order of [`Record::site`].
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }
}

/// Prints the kernel's name and how many checks it has.
impl fmt::Display for CheckedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` with {} checks", self.kernel.name(), self.sites.len())
    }
}
