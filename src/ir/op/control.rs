//! Structured control flow: operations that own regions, and the terminators that end regions.
//!
//! A region ends in a terminator, or in an `if` neither of whose two arms falls through.

use smallvec::SmallVec;

use super::{Op, Unroll};
use crate::ir::entity::{OpId, RegionId, Value};

/// A short list of values, such as an operation's operands. The first four take no heap allocation.
pub type ValueList = SmallVec<[Value; 4]>;

/// Structured control flow.
///
/// The semantics are those of CUDA Tile IR (section 8.5), with three extensions: `break` and
/// `continue` name their loop, which may be any enclosing one; both are allowed in `for`; and
/// `return` is allowed anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// Runs one of two regions. The results are the values that this region yields. An `if` without
    /// `else_region` has no results.
    If {
        /// The condition.
        cond: Value,
        /// Runs if `cond` is true. It has no arguments.
        then_region: RegionId,
        /// Runs if `cond` is false. It has no arguments.
        else_region: Option<RegionId>,
    },
    /// Runs `body` for `i = lo, lo + step, ..` while `i < hi`, signed or unsigned as their type is.
    /// The iteration count is computed before the loop, without wrapping: `ceil((hi - lo) / step)`,
    /// or 0 if `hi <= lo`.
    ///
    /// `body` takes `i` and one argument for each value in `init`. `continue` passes the values for
    /// the next iteration. The results are the last such values (`init` if there is no iteration),
    /// or the values of a `break`.
    For {
        /// The first index.
        lo: Value,
        /// The end of the range, exclusive.
        hi: Value,
        /// The increment of the index. Must be positive.
        step: Value,
        /// How lowering unrolls the loop.
        unroll: Unroll,
        /// How many iterations ahead lowering loads from global memory (software pipelining). 0
        /// leaves the loop as it is.
        prefetch: u32,
        /// The initial values of the carried arguments.
        init: ValueList,
        /// The loop body.
        body: RegionId,
    },
    /// Runs `body` until a `break`. `body` takes one argument for each value in `init`, and
    /// `continue` passes the values for the next iteration. The results are the values of the
    /// `break`; their types may differ from those of `init`.
    Loop {
        /// The initial values of the carried arguments.
        init: ValueList,
        /// The loop body.
        body: RegionId,
    },
    /// Ends an arm of the innermost `if` and passes its results.
    Yield {
        /// The results of the `if`.
        values: ValueList,
    },
    /// Ends an iteration of an enclosing loop.
    Continue {
        /// The loop.
        target: OpId,
        /// The carried values for the next iteration.
        values: ValueList,
    },
    /// Ends an enclosing loop.
    Break {
        /// The loop.
        target: OpId,
        /// The results of the loop.
        values: ValueList,
    },
    /// Ends the thread.
    Return,
}

impl From<Control> for Op {
    fn from(control: Control) -> Op {
        Op::Control(control)
    }
}

impl Control {
    /// Returns the operation's name in a printed kernel, such as `for`.
    pub const fn name(&self) -> &'static str {
        match self {
            Control::If { .. } => "if",
            Control::For { .. } => "for",
            Control::Loop { .. } => "loop",
            Control::Yield { .. } => "yield",
            Control::Continue { .. } => "continue",
            Control::Break { .. } => "break",
            Control::Return => "return",
        }
    }

    /// Returns whether the operation ends its region.
    pub const fn is_terminator(&self) -> bool {
        match self {
            Control::Yield { .. }
            | Control::Continue { .. }
            | Control::Break { .. }
            | Control::Return => true,
            Control::If { .. } | Control::For { .. } | Control::Loop { .. } => false,
        }
    }

    /// Returns the regions that the operation owns, in printing order, to visit the operations
    /// inside.
    pub fn regions(&self) -> SmallVec<[RegionId; 2]> {
        match self {
            Control::If { then_region, else_region, .. } => {
                [*then_region].into_iter().chain(*else_region).collect()
            }
            Control::For { body, .. } | Control::Loop { body, .. } => {
                SmallVec::from_slice(&[*body])
            }
            Control::Yield { .. }
            | Control::Continue { .. }
            | Control::Break { .. }
            | Control::Return => SmallVec::new(),
        }
    }

    /// Returns the operands, in order; values inside the regions are not among them.
    pub fn operands(&self) -> ValueList {
        match self {
            Control::If { cond, .. } => ValueList::from_slice(&[*cond]),
            Control::For { lo, hi, step, init, .. } => {
                [lo, hi, step].into_iter().chain(init).copied().collect()
            }
            Control::Loop { init: values, .. }
            | Control::Yield { values }
            | Control::Continue { values, .. }
            | Control::Break { values, .. } => values.clone(),
            Control::Return => ValueList::new(),
        }
    }

    /// Calls `visit` with each operand, in order, so that a pass can replace it.
    pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        match self {
            Control::If { cond, .. } => visit(cond),
            Control::For { lo, hi, step, init, .. } => {
                [lo, hi, step].into_iter().chain(init).for_each(visit);
            }
            Control::Loop { init: values, .. }
            | Control::Yield { values }
            | Control::Continue { values, .. }
            | Control::Break { values, .. } => values.iter_mut().for_each(visit),
            Control::Return => {}
        }
    }
}
