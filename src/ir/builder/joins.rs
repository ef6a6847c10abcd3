//! Joins what the host knows about values ([`HostPart`]) when control-flow paths meet. The loops
//! and `if`s of the builder call it for their results. For example, a pointer aligned to 16 bytes
//! on one path and 8 on the other is aligned to 8 afterwards.

use std::rc::Rc;

use super::context::Context;
use super::error::BuildErrorKind;
use super::host_part::{HostPart, HostParts};
use super::values::Values;
use crate::ir::entity::OpId;
use crate::ir::kernel::SourceLocation;

/// Returns a group's host parts.
pub(super) fn host_parts<V: Values>(group: &V::At<'_>) -> HostParts {
    let mut parts = HostParts::new();
    V::host_parts(group, &mut parts);
    parts
}

/// Returns the group with the given host parts.
#[track_caller]
pub(super) fn with_parts<'x, V: Values>(
    cx: &'x Context,
    made: V::At<'x>,
    parts: &HostParts,
) -> V::At<'x> {
    if parts.is_empty() { made } else { V::with_host_parts(cx, made, &mut parts.iter().cloned()) }
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
            }
        }
    }

    /// Joins the host parts of two paths. If two parts cannot be joined, records an error and keeps
    /// the first.
    #[inline]
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
