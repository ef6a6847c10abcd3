//! Trip counts of loops with constant bounds. The unrolling pass needs them to unroll a loop
//! completely, the verifier to reject one that has none.

use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;

/// The iterations of a `for` whose bounds and step are constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) struct Trips {
    /// The first index.
    pub(in crate::ir) lo: i128,
    /// The increment of the index.
    pub(in crate::ir) step: i128,
    /// `ceil((hi - lo) / step)`, or 0 if `hi <= lo`.
    pub(in crate::ir) count: u128,
}

impl Trips {
    /// Returns the iterations of a `for`. The step must be positive if it is constant, which the
    /// verifier checks.
    ///
    /// # Errors
    /// Returns the name of the first operand that is not a constant.
    pub(in crate::ir) fn new(
        ir: &KernelIr,
        [lo, hi, step]: [Value; 3],
    ) -> Result<Trips, &'static str> {
        let lo = ir.integer(lo).ok_or("lo")?;
        let hi = ir.integer(hi).ok_or("hi")?;
        let step = ir.integer(step).ok_or("step")?;
        let span = u128::try_from(hi - lo).unwrap_or(0);
        Ok(Trips { lo, step, count: span.div_ceil(step.unsigned_abs().max(1)) })
    }
}
