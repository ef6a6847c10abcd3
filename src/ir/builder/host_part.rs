//! The host's part of groups that control flow carries and returns: layouts, alignments, and the registers of fragments.

use std::any::Any;
use std::rc::Rc;

use super::context::Context;
use super::error::BuildErrorKind;
use super::values::Values;
use crate::ir::entity::OpId;
use crate::ir::kernel::SourceLocation;

/// What the host knows of a part of a group: the layout of a tensor, the alignment of a pointer, the stages of a ring.
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

/// The parts of a group.
pub(super) fn host_parts<V: Values>(group: &V::At<'_>) -> HostParts {
    let mut parts = HostParts::new();
    V::host_parts(group, &mut parts);
    parts
}

/// The group with these parts.
#[track_caller]
pub(super) fn with_parts<'x, V: Values>(
    cx: &'x Context,
    made: V::At<'x>,
    parts: &HostParts,
) -> V::At<'x> {
    if parts.is_empty() { made } else { V::with_host_parts(cx, made, &mut parts.iter().cloned()) }
}

impl Context {
    /// Notes the parts of values that are results of `op`, with those that are known already.
    pub(super) fn note_results(&self, op: OpId, parts: HostParts, location: SourceLocation) {
        if parts.is_empty() {
            return;
        }
        let joined = match self.results_of(op) {
            Some(known) => self.joined(&known, &parts, location),
            None => parts,
        };
        self.with(|state| state.result_parts.insert(op, joined));
    }

    /// The parts of the results of `op`, as far as they are known.
    pub(super) fn results_of(&self, op: OpId) -> Option<HostParts> {
        self.with(|state| state.result_parts.get(&op).cloned())
    }

    /// Notes the parts of the carried values of a loop.
    pub(super) fn note_carried(&self, op: OpId, parts: HostParts) {
        if !parts.is_empty() {
            self.with(|state| state.carried_parts.insert(op, parts));
        }
    }

    /// Checks that the parts of values for the next iteration of `op` are those that the loop carries.
    pub(super) fn check_carried(&self, op: OpId, parts: &HostParts, location: SourceLocation) {
        let Some(carried) = self.with(|state| state.carried_parts.get(&op).cloned()) else {
            return;
        };
        for (carried, next) in carried.iter().zip(parts) {
            let joined = carried.join(&**next);
            if joined.is_none_or(|joined| joined.text() != carried.text()) {
                let (first, other) = (carried.text(), next.text());
                let advice = carried.advice();
                let kind = BuildErrorKind::CarriedPart { first, other, advice };
                self.with(|state| state.error(location, kind));
            }
        }
    }

    /// What holds for both; an error and the first one where there is nothing.
    pub(super) fn joined(
        &self,
        first: &HostParts,
        others: &HostParts,
        location: SourceLocation,
    ) -> HostParts {
        let join = |(first, other): (&Rc<dyn HostPart>, &Rc<dyn HostPart>)| {
            first.join(&**other).unwrap_or_else(|| {
                let kind = BuildErrorKind::JoinedPart {
                    first: first.text(),
                    other: other.text(),
                    advice: first.advice(),
                };
                self.with(|state| state.error(location, kind));
                first.clone()
            })
        };
        first.iter().zip(others).map(join).collect()
    }
}
