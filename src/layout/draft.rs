//! [`Draft`] is a layout under construction. [`perform`] runs an operation, first on `i64` and
//! then, if needed, on [`Int`]. Come here when you write a new operation: it appends its result to
//! a draft.

use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{List, Number, Stride};
use super::profile::{Codes, LEAF, MAX_DEPTH, too_many_modes};
use super::tuple::{Leaves, TupleRef};

/// A layout under construction: its codes and leaves, from left to right.
pub(crate) struct Draft<N: Number> {
    codes: N::Codes,
    modes: N::Modes,
}

/// A mode of a draft.
pub(crate) type Tree<'a, N> = TupleRef<'a, (N, <N as Number>::Stride)>;

impl<N: Number> Draft<N> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { codes: N::Codes::default(), modes: N::Modes::default() }
    }

    /// Begins a tuple. The next `arity` modes are inside it.
    #[inline]
    pub(crate) fn tuple(&mut self, arity: usize) -> Result<(), N::Error> {
        let code = arity_code::<N>(arity)?;
        N::put(&mut self.codes, code)
    }

    /// Appends a leaf.
    #[inline]
    pub(crate) fn push(&mut self, extent: N, stride: N::Stride) -> Result<(), N::Error> {
        N::put(&mut self.codes, LEAF)?;
        N::put(&mut self.modes, (extent, stride))
    }

    /// Appends a copy of a mode of another draft.
    #[inline]
    pub(crate) fn push_tree(&mut self, mode: Tree<'_, N>) -> Result<(), N::Error> {
        for &code in mode.codes {
            N::put(&mut self.codes, code)?;
        }
        for leaf in mode.leaves() {
            N::put(&mut self.modes, leaf.clone())?;
        }
        Ok(())
    }

    /// Returns what was appended so far.
    #[inline]
    pub(crate) fn as_ref(&self) -> Tree<'_, N> {
        TupleRef { codes: &self.codes, leaves: &self.modes }
    }

    /// Appends a copy of a mode.
    #[inline]
    pub(crate) fn push_ref(&mut self, mode: LayoutRef<'_>) -> Result<(), N::Error> {
        for &code in mode.codes {
            N::put(&mut self.codes, code)?;
        }
        for (s, d) in mode.leaves() {
            N::put(&mut self.modes, (N::read(s)?, N::Stride::read(d)?))?;
        }
        Ok(())
    }

    /// Groups the last `count` leaves into one mode, unless there is only one.
    #[inline]
    pub(crate) fn group_last(&mut self, count: usize) -> Result<(), N::Error> {
        if count < 2 {
            return Ok(());
        }
        let code = arity_code::<N>(count)?;
        let at = self.codes.len().saturating_sub(count);
        if self.codes.insert_at(at, code) { Ok(()) } else { Err(too_many::<N>()) }
    }

    /// Attaches to the last leaf's extent the condition that `violation` is not above 0.
    #[inline]
    pub(crate) fn check_last(&mut self, violation: &N) -> Result<(), N::Error> {
        if violation.bounds().1 <= 0 {
            return Ok(());
        }
        if let Some((last, _)) = self.modes.tail() {
            if violation.is_number() {
                return Err(N::fail(|| LayoutError::ConditionViolated {
                    value: last.to_int().to_string(),
                    condition: format!("{} <= 0", violation.to_int()),
                }));
            }
            *last = last.on_condition(violation);
        }
        Ok(())
    }
}

fn too_many<N: Number>() -> N::Error {
    N::fail(too_many_modes)
}

#[inline]
fn arity_code<N: Number>(arity: usize) -> Result<u16, N::Error> {
    match u16::try_from(arity) {
        Ok(code) if code != LEAF => Ok(code),
        _ => Err(too_many::<N>()),
    }
}

impl Draft<i64> {
    /// Appends the draft to an empty layout.
    #[inline]
    fn write(&self, layout: &mut Layout) {
        layout.codes.extend_from_slice(&self.codes);
        for &(extent, stride) in self.modes.iter() {
            layout.shape.push(Int::new(extent));
            layout.stride.push(ScaledBasis::from(stride));
        }
    }
}

impl Draft<Int> {
    #[inline]
    fn finish(self) -> Result<Layout, LayoutError> {
        let (shape, stride) = self.modes.into_iter().unzip();
        let layout = Layout { codes: self.codes, shape, stride };
        // A layout with few nodes cannot be too deep.
        if layout.codes.len() > MAX_DEPTH && layout.depth() > MAX_DEPTH {
            return Err(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        Ok(layout)
    }
}

/// An operation on layouts, written once for both `i64` and [`Int`].
pub(crate) trait Operation {
    /// Appends the result.
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error>;
}

/// Prototype: skips `i64`.
pub static GENERAL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Runs an operation and returns its result.
#[inline]
pub(crate) fn perform(operation: &impl Operation) -> Result<Layout, LayoutError> {
    if GENERAL.load(std::sync::atomic::Ordering::Relaxed) {
        return perform_any(operation);
    }
    // Write it where it will be returned, because a layout is 376 bytes.
    let empty = Layout { codes: Codes::new(), shape: Leaves::new(), stride: Leaves::new() };
    let mut made = Ok(empty);
    if let Ok(layout) = &mut made {
        let mut draft = Draft::<i64>::new();
        match operation.run(&mut draft) {
            Ok(()) if numbers_first() => draft.write(layout),
            _ => made = perform_any(operation),
        }
    }
    made
}

#[cfg(not(test))]
const fn numbers_first() -> bool {
    true
}

#[cfg(test)]
use tests::numbers_first;

#[inline]
fn perform_any(operation: &impl Operation) -> Result<Layout, LayoutError> {
    let mut draft = Draft::<Int>::new();
    operation.run(&mut draft)?;
    draft.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::layout::{Layout, LayoutError, layout};

    thread_local! {
        static GENERAL: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn numbers_first() -> bool {
        !GENERAL.get()
    }

    type Made = Result<Layout, LayoutError>;

    /// Runs all operations on a pair of layouts.
    fn all(a: &Layout, b: &Layout) -> Vec<Made> {
        vec![
            a.coalesce(),
            a.coalesce_by(&b.shape().to_owned()),
            a.filter(),
            a.complement(&48.into()),
            a.complement(&b.shape().to_owned()),
            a.complement_inner(),
            a.right_inverse(),
            a.left_inverse(),
            a.composition(b),
            a.logical_divide(b),
            a.zipped_divide(b),
            a.logical_product(b),
            a.flat_product(b),
        ]
    }

    /// Results and errors have the same text, whether `i64` is tried first or not.
    #[test]
    fn both_kinds_of_numbers_agree() {
        // Under Miri, each operation takes a second.
        let (extent, stride) = if cfg!(miri) { (2, 1) } else { (4, 8) };
        let leaves = (1..=extent).flat_map(|s| (-1..=stride).map(move |d| (s, d)));
        let leaves: Vec<(i64, i64)> = leaves.collect();
        let mut layouts: Vec<Layout> = leaves.iter().map(|&(s, d)| Layout::leaf(s, d)).collect();
        for (i, &(s, d)) in leaves.iter().enumerate() {
            for &(t, e) in leaves.iter().skip(i % 3).step_by(3) {
                layouts.push(layout!((s, t):(d, e)));
                layouts.push(layout!((s, (t, 2)):(e, (d, 16))));
            }
        }
        let mut accepted = 0;
        for (i, a) in layouts.iter().enumerate() {
            for b in layouts.iter().skip(i % 127).step_by(127) {
                GENERAL.set(true);
                let general = all(a, b);
                GENERAL.set(false);
                let numbers = all(a, b);
                assert_eq!(general, numbers, "{a} and {b}");
                accepted += numbers.iter().filter(|made| made.is_ok()).count();
            }
        }
        assert!(accepted > 30_000 || cfg!(miri), "{accepted}");
    }
}
