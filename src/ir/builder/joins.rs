//! Joins what the host knows about values ([`HostPart`]) when control-flow paths meet. The loops
//! and `if`s of the builder call it for their results. For example, a pointer aligned to 16 bytes
//! on one path and 8 on the other is aligned to 8 afterwards.

use super::context::Context;
use super::error::BuildErrorKind;
use super::host_part::HostParts;
use super::values::{Length, Values};
use crate::ir::entity::{OpId, Value};
use crate::ir::kernel::SourceLocation;
use crate::ir::types::Type;

/// Returns a group's host parts.
pub(super) fn host_parts<V: Values>(group: &V::At<'_>) -> HostParts {
    let mut parts = HostParts::new();
    V::host_parts(group, &mut parts);
    parts
}

/// Returns the types of the values of a group with the given host parts.
pub(super) fn types_of<V: Values>(parts: &HostParts) -> Vec<Type> {
    let mut types = Vec::new();
    V::types(&mut lengths(parts), &mut types);
    types
}

/// Makes the group with the given host parts from its values.
#[track_caller]
pub(super) fn made_of<'x, V: Values>(
    cx: &'x Context,
    ids: &mut dyn Iterator<Item = Value>,
    parts: &HostParts,
) -> V::At<'x> {
    let made = V::make(cx, &mut lengths(parts), ids);
    if parts.is_empty() { made } else { V::with_host_parts(cx, made, &mut parts.iter().cloned()) }
}

/// Returns the lengths of a group's vectors.
pub(super) fn lengths(parts: &HostParts) -> impl Iterator<Item = usize> {
    parts.iter().filter_map(|part| part.as_any().downcast_ref()).map(|Length(len)| *len)
}

impl Context {
    /// Records the host parts of a path's results of `op`, joined with those of the paths recorded
    /// before.
    #[inline]
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

    /// Returns the host parts of the results of `op`, as far as they are known.
    pub(super) fn results_of(&self, op: OpId) -> Option<HostParts> {
        self.with(|state| state.result_parts.get(&op).cloned())
    }

    /// Records the host parts of a loop's carried values.
    pub(super) fn note_carried(&self, op: OpId, parts: HostParts) {
        if !parts.is_empty() {
            self.with(|state| state.carried_parts.insert(op, parts));
        }
    }

    /// Checks that the next iteration's host parts agree with those that loop `op` carries.
    #[inline]
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
                if carried.as_any().is::<Length>() {
                    // The parts that follow are those of other elements.
                    return;
                }
            }
        }
    }

    /// Joins the host parts of two paths. If two parts cannot be joined, records an error and keeps
    /// the first; if two lengths differ, all that follow.
    #[inline]
    pub(super) fn joined(
        &self,
        first: &HostParts,
        others: &HostParts,
        location: SourceLocation,
    ) -> HostParts {
        let mut joined = first.clone();
        for (part, other) in joined.iter_mut().zip(others) {
            if let Some(both) = part.join(&**other) {
                *part = both;
                continue;
            }
            let (first, other, advice) = (part.text(), other.text(), part.advice());
            let kind = BuildErrorKind::JoinedPart { first, other, advice };
            self.with(|state| state.error(location, kind));
            if part.as_any().is::<Length>() {
                break;
            }
        }
        joined
    }
}
