//! [`ResultsDiffer`], the error of a launch whose schedules left different results.

use std::fmt;

use crate::ir::types::Const;
use crate::sim::options::Order;

/// The error of a launch whose result depends on the order in which warps and copies run: two
/// schedules left different values in a buffer. It names the first element that differs, in the
/// first such buffer. You get it only if [`Options::schedules`](crate::sim::Options::schedules) is
/// more than 1.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultsDiffer {
    /// The kernel's name.
    pub kernel: String,
    /// The name of the parameter whose buffer differs.
    pub param: String,
    /// The element's index in the buffer.
    pub element: u64,
    /// How many elements of the buffer differ.
    pub elements: u64,
    /// The first schedule of the launch.
    pub first_order: Order,
    /// The element's value after the first schedule.
    pub first_value: Const,
    /// The schedule with the other result.
    pub other_order: Order,
    /// The element's value after that schedule.
    pub other_value: Const,
}

impl fmt::Display for ResultsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResultsDiffer { kernel, param, element, elements, .. } = self;
        let ResultsDiffer { first_order, first_value, other_order, other_value, .. } = self;
        write!(
            f,
            "results differ: {} element {element} of `{param}` of kernel `{kernel}` is {first_value} with `{first_order:?}` \
             and {other_value} with `{other_order:?}`",
            first_value.scalar()
        )?;
        if *elements > 1 {
            write!(f, "; {elements} of its elements differ in all")?;
        }
        write!(
            f,
            "; the result depends on which block or thread comes first: look for code that only the first or the last \
             one runs, or allow it with `Options::may_differ(\"{param}\")`, which sums of floating point atomics need"
        )
    }
}
