//! Diagnostics of the threads of a block: prints and failed assertions.

use smallvec::SmallVec;

use crate::ir::{Const, Diagnostic, Format, OpId, Scalar, Value};
use crate::launch::assert::AssertFailures;
use crate::sim::memory::access::Access;
use crate::sim::memory::lanes::{Regs, lanes_of};
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused;

/// A failed assertion of a block.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Failure {
    /// The thread, by its number in the block.
    pub(in crate::sim) thread: u32,
    pub(in crate::sim) op: OpId,
    pub(in crate::sim) values: Consts,
}

pub(in crate::sim) type Consts = SmallVec<[Const; 4]>;

/// Diagnostics of the threads of a block so far.
#[derive(Debug, Default)]
pub(in crate::sim) struct Diagnostics {
    /// The number of the first thread of the warp that runs.
    pub(in crate::sim) first_thread: u32,
    /// Failed assertions, in all.
    pub(in crate::sim) failed: u64,
    /// Those that are kept, for each thread in the order of its program.
    failures: Vec<Failure>,
    /// Printed text, for each thread in program order.
    prints: Vec<(u32, String)>,
}

impl Diagnostics {
    fn fail(&mut self, lane: usize, op: OpId, values: Consts) {
        self.failed += 1;
        let thread = self.first_thread + lane as u32;
        self.failures.push(Failure { thread, op, values });
        if self.failures.len() >= 2 * AssertFailures::RECORDED {
            self.sort();
        }
    }

    /// Keeps the failures of the lowest threads; those of a thread stay in the order of its program.
    fn sort(&mut self) {
        self.failures.sort_by_key(|failure| failure.thread);
        self.failures.truncate(AssertFailures::RECORDED);
    }

    /// Returns the text printed since the last call, thread after thread.
    pub(in crate::sim) fn take_prints(&mut self) -> String {
        self.prints.sort_by_key(|(thread, _)| *thread);
        self.prints.drain(..).map(|(_, text)| text).collect()
    }

    /// Returns the number of failed assertions since the last call, and the recorded ones, sorted by thread.
    pub(in crate::sim) fn take(&mut self) -> (u64, Vec<Failure>) {
        self.sort();
        (std::mem::take(&mut self.failed), std::mem::take(&mut self.failures))
    }
}

/// The values of a lane.
fn values_of(regs: &Regs, slots: &[(Scalar, u32)], lane: usize) -> Consts {
    let value = |(scalar, slot): &(Scalar, u32)| {
        let slot = *slot as usize;
        let word = if scalar.bits() == 64 { regs.d[slot][lane] } else { regs.w[slot][lane].into() };
        Const::new(*scalar, word)
    };
    slots.iter().map(value).collect()
}

impl Compiler<'_> {
    pub(in crate::sim) fn diagnostic(&self, id: OpId, op: &Diagnostic) -> Result<Access, Refused> {
        let slots = |values: &[Value]| -> Result<Box<[(Scalar, u32)]>, Refused> {
            values.iter().map(|value| self.scalar(*value)).collect()
        };
        match op {
            Diagnostic::Assert { cond, values, .. } => {
                let (cond, values) = (self.scalar_of(*cond, Scalar::Bool)?, slots(values)?);
                Ok(Box::new(move |regs, memory, mask| {
                    for lane in lanes_of(mask & !regs.truth(cond)) {
                        memory.block_mut().diagnostics.fail(
                            lane,
                            id,
                            values_of(regs, &values, lane),
                        );
                    }
                    Ok(())
                }))
            }
            Diagnostic::Printf { format, values } => {
                let format = Format::parse(format).map_err(|_| Refused::Malformed)?;
                let values = slots(values)?;
                Ok(Box::new(move |regs, memory, mask| {
                    let Diagnostics { first_thread, prints, .. } =
                        &mut memory.block_mut().diagnostics;
                    for lane in lanes_of(mask) {
                        let text = format.to_text(&values_of(regs, &values, lane));
                        prints.push((*first_thread + lane as u32, text));
                    }
                    Ok(())
                }))
            }
        }
    }
}
