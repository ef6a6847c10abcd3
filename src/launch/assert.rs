//! Turns what a device recorded about failed assertions into [`AssertFailures`], the report that a
//! program reads or prints. A kernel records only an operation index and values; the message and
//! the Rust line come from the kernel's IR.

use std::fmt;

use crate::codegen::AssertBuffer;
use crate::ir::SourceLocation;
use crate::ir::types::Const;

#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
use std::collections::HashMap;

#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
use crate::ir::op::{Diagnostic, Op};
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
use crate::ir::types::Scalar;
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
use crate::ir::{Entity, Format, KernelIr, OpId};
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
use crate::sorting::sort_by_key;

/// The assertions of a kernel that failed in its launches since the program last waited for the
/// device. You get it in
/// [`RuntimeError::AssertFailed`](crate::runtime::RuntimeError::AssertFailed). Print it for a
/// readable report, or read `failures` in a test.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssertFailures {
    /// The kernel's name.
    pub kernel: String,
    /// The device's name.
    pub device: String,
    /// How many assertions failed, including those that `failures` leaves out.
    pub total: u64,
    /// The details of at most [`RECORDED`](AssertFailures::RECORDED) failures, sorted by block and
    /// then by thread (z before y before x). If more assertions fail, the simulator keeps the
    /// failures of the lowest blocks, and a GPU keeps those that happened first.
    pub failures: Vec<AssertFailure>,
}

/// One assertion that failed in one thread. [`AssertFailures::failures`] lists them. It prints as
/// one line, with the message, the Rust line and the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssertFailure {
    /// The assertion's message, with the values filled in.
    pub message: String,
    /// The values in the message, for example to compare them in a test.
    pub values: Vec<Const>,
    /// If the condition is a fragment (several elements per thread), the index of the element for
    /// which it is false; otherwise `None`.
    pub element: Option<u64>,
    /// The Rust line on which the assertion was written.
    pub location: SourceLocation,
    /// Where the assertion is in the kernel's IR, such as `for[2]/then/3`: operation 3 in the
    /// `then` branch inside the loop at operation 2.
    pub path: String,
    /// The index of the thread's block in the grid.
    pub block: [u32; 3],
    /// The index of the thread in its block.
    pub thread: [u32; 3],
}

/// What is known on the host about each assertion of a kernel, by operation index. The simulator
/// and the CUDA runtime use it to explain the failures that a launch recorded.
#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
#[derive(Debug)]
pub(crate) struct AssertSites {
    kernel: String,
    sites: HashMap<usize, Site>,
}

#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
#[derive(Debug)]
struct Site {
    message: Format,
    /// The types of the values, which a GPU records as bits.
    #[cfg_attr(not(feature = "cuda-any-version"), expect(dead_code, reason = "of a GPU"))]
    scalars: Vec<Scalar>,
    location: SourceLocation,
    path: String,
}

#[cfg(any(feature = "sim", feature = "cuda-any-version"))]
impl AssertSites {
    /// Collects the assertions of `ir`. The paths come from `source`, which is the same kernel, or
    /// the kernel before access checks were added to it, so that they match what the user wrote.
    pub(crate) fn new(ir: &KernelIr, source: &KernelIr) -> AssertSites {
        let mut sites = HashMap::new();
        let is_assert = |ir: &KernelIr, id: OpId| {
            matches!(ir.ops[id].op, Op::Diagnostic(Diagnostic::Assert { .. }))
        };
        let asserts = |ir: &KernelIr| {
            let mut ops = ir.reached_ops();
            ops.retain(|id| is_assert(ir, *id));
            ops
        };
        for (id, origin) in asserts(ir).into_iter().zip(asserts(source)) {
            let Op::Diagnostic(Diagnostic::Assert { message, values, .. }) = &ir.ops[id].op else {
                continue;
            };
            let site = Site {
                // The verifier has read it.
                message: Format::parse(message).unwrap_or_default(),
                scalars: values.iter().filter_map(|value| ir.type_of(*value).scalar()).collect(),
                location: ir.location_of(id),
                path: source.path_of(origin),
            };
            sites.insert(id.index(), site);
        }
        AssertSites { kernel: ir.name.clone(), sites }
    }

    /// Returns the failure of the assertion at operation `op`, or `None` if there is no such
    /// assertion.
    pub(crate) fn failure(
        &self,
        op: usize,
        block: [u32; 3],
        thread: [u32; 3],
        element: Option<u64>,
        values: &[Const],
    ) -> Option<AssertFailure> {
        let Site { message, location, path, .. } = self.sites.get(&op)?;
        Some(AssertFailure {
            message: message.to_text(values),
            values: values.to_vec(),
            element,
            location: *location,
            path: path.clone(),
            block,
            thread,
        })
    }

    /// Decodes one record that a GPU wrote to an [`AssertBuffer`]. Returns `None` if the record
    /// does not belong to an assertion of this kernel.
    #[cfg(feature = "cuda-any-version")]
    pub(crate) fn decode(&self, record: &[u64]) -> Option<AssertFailure> {
        let half = |i: usize| {
            let word = record.get(i / 2).copied().unwrap_or(0);
            (word >> (32 * (i % 2))) as u32
        };
        let op = half(0) as usize;
        let (thread, block) = ([half(1), half(2), half(3)], [half(4), half(5), half(6)]);
        let (element, bits) = record.get(4..)?.split_first()?;
        let element = Some(*element).filter(|index| *index != AssertBuffer::NO_ELEMENT);
        let scalars = &self.sites.get(&op)?.scalars;
        let values: Vec<Const> =
            scalars.iter().zip(bits).map(|(scalar, bits)| Const::new(*scalar, *bits)).collect();
        self.failure(op, block, thread, element, &values)
    }
}

impl AssertFailures {
    /// How many failures are kept with details. Further failures are only counted, in `total`.
    pub const RECORDED: usize = AssertBuffer::RECORDS;

    #[cfg(any(feature = "sim", feature = "cuda-any-version"))]
    pub(crate) fn new(
        sites: &AssertSites,
        device: &str,
        total: u64,
        mut failures: Vec<AssertFailure>,
    ) -> AssertFailures {
        let key = |[x, y, z]: [u32; 3]| [z, y, x];
        sort_by_key(&mut failures, |failure| (key(failure.block), key(failure.thread)));
        let (kernel, device) = (sites.kernel.clone(), device.to_owned());
        AssertFailures { kernel, device, total, failures }
    }
}

/// `assertion failed at src/a.rs:7:5 in thread (3, 0, 0) of block (0, 0, 0): the index is 3`
impl fmt::Display for AssertFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([x, y, z], [bx, by, bz]) = (self.thread, self.block);
        write!(f, "assertion failed at {} in thread ({x}, {y}, {z}) ", self.location)?;
        write!(f, "of block ({bx}, {by}, {bz})")?;
        if let Some(element) = self.element {
            write!(f, " for element {element}")?;
        }
        write!(f, ": {} [{}]", self.message, self.path)
    }
}

/// Failures that a message shows.
const SHOWN: usize = 5;

/// One line that counts the failures, and one for each of the first five.
impl fmt::Display for AssertFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AssertFailures { kernel, device, total, failures } = self;
        let s = if *total == 1 { "" } else { "s" };
        write!(f, "kernel `{kernel}` failed {total} assertion{s} on {device}:")?;
        failures.iter().take(SHOWN).try_for_each(|failure| write!(f, "\n  {failure}"))?;
        match total.saturating_sub(SHOWN as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for AssertFailures {}
crate::errors::message_as_debug!(AssertFailures);
