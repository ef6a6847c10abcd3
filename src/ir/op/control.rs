//! Operations that own regions, and the terminators of regions.
//!
//! A region ends in a terminator, or in an `if` with two arms that do not fall through.

use smallvec::SmallVec;

use super::{Op, Unroll};
use crate::ir::entity::{OpId, RegionId, Value};

/// A short list of values.
pub type ValueList = SmallVec<[Value; 4]>;

/// Structured control flow.
///
/// The meaning is CUDA Tile IR's (section 8.5), extended: `break` and `continue` name the loop they belong
/// to, which may be any enclosing one, and are allowed in `for`; `return` is allowed anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// Runs one of two regions; its results are what the region that ran yields. Without `else_` it has no
    /// results.
    If {
        /// The condition: the first region runs where it is true.
        cond: Value,
        /// Runs where `cond` is true. No arguments.
        then_region: RegionId,
        /// Runs where `cond` is false. No arguments.
        else_region: Option<RegionId>,
    },
    /// Runs `body` for `i = lo, lo + step, ..` while `i < hi`, in the signedness of their type; the number
    /// of iterations is computed first, without wrap: `ceil((hi - lo) / step)`, or 0 if `hi <= lo`.
    ///
    /// `body` has the arguments `i` and one for each of `init`; `continue` gives the next ones. The results
    /// are the last ones (`init` if there is no iteration), or those of `break`.
    For {
        /// The first index.
        lo: Value,
        /// The end of the half-open range.
        hi: Value,
        /// The distance of two indices; must be positive.
        step: Value,
        /// The unrolling of the loop when the kernel is built.
        unroll: Unroll,
        /// The number of iterations by which lowering moves loads from global memory ahead; 0 leaves the loop
        /// as it is.
        prefetch: u32,
        /// The first values of the carried arguments.
        init: ValueList,
        /// The body.
        body: RegionId,
    },
    /// Runs `body` until it breaks. `body` has one argument for each of `init`; `continue` gives the next
    /// ones; the results are the values of `break`, whose types may differ.
    Loop {
        /// The first values of the carried arguments.
        init: ValueList,
        /// The body.
        body: RegionId,
    },
    /// Ends an arm of the innermost `if`, with its results.
    Yield {
        /// The results of the `if`.
        values: ValueList,
    },
    /// Ends an iteration of an enclosing loop.
    Continue {
        /// The loop.
        target: OpId,
        /// The carried values of the next iteration.
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
    /// The name in the text form.
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

    /// The regions that the operation owns, in the order in which they are printed.
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

    /// The operands, in order.
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

    /// Calls `visit` with each operand, in order, so that it can be replaced.
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
