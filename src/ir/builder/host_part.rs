//! [`HostPart`]: what the host knows about device values that a loop carries or an `if` returns,
//! such as a tensor's layout or a pointer's alignment. Implement it for a type of your own that
//! carries such facts.

use std::any::Any;
use std::rc::Rc;

/// What the host knows about one carried value: a tensor's layout, a pointer's alignment, the
/// stages of a ring buffer. Implement it if your own type carries such facts through loops and
/// branches. When two control-flow paths meet, the builder calls [`join`](HostPart::join) on the
/// facts of both.
pub trait HostPart {
    /// Returns what holds on both paths, or `None` if they cannot be joined.
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>>;
    /// Describes the fact, for the error message if it cannot be joined.
    fn text(&self) -> String;
    /// Says how to fix the kernel if the fact cannot be joined with another one.
    fn advice(&self) -> &'static str;
    /// Returns `self` as [`Any`], so that `join` can downcast the other fact to its own type.
    fn as_any(&self) -> &dyn Any;
}

/// The host parts of a struct or tuple of device values ([`Values`](super::Values)): one for each
/// pointer, tensor and ring buffer in it.
pub type HostParts = Vec<Rc<dyn HostPart>>;
