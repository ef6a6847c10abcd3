//! The host's part of groups that control flow carries and returns: layouts, alignments, and the registers of fragments.

use std::any::Any;
use std::rc::Rc;

/// The host's knowledge of a part of a group: the layout of a tensor, the alignment of a pointer, the stages of a ring.
pub trait HostPart {
    /// Returns what holds for both, or `None` if control flow cannot join them.
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>>;
    /// The part in words, for errors.
    fn text(&self) -> String;
    /// The cure where it cannot be joined with another.
    fn advice(&self) -> &'static str;
    /// The part, to find its type.
    fn as_any(&self) -> &dyn Any;
}

/// The parts of a group, one for each pointer, tensor and ring in it.
pub type HostParts = Vec<Rc<dyn HostPart>>;
