//! [`Draft`]: a layout while it is put together, and [`perform`]: an operation, first on numbers.

use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutRef};
use super::number::{List, Number, Stride};
use super::tuple::{Codes, LEAF, MAX_DEPTH};

/// A layout while it is put together: its codes and leaves from the left to the right.
pub(crate) struct Draft<N: Number> {
    codes: N::Codes,
    shape: N::Extents,
    stride: N::Strides,
}

impl<N: Number> Draft<N> {
    #[inline]
    fn new() -> Self {
        Self {
            codes: N::Codes::default(),
            shape: N::Extents::default(),
            stride: N::Strides::default(),
        }
    }

    /// Begins a tuple of `arity` modes: the next ones.
    #[inline]
    pub(crate) fn tuple(&mut self, arity: usize) -> Result<(), N::Error> {
        let code = arity_code::<N>(arity)?;
        N::put(&mut self.codes, code)
    }

    /// A mode of a single extent and stride.
    #[inline]
    pub(crate) fn push(&mut self, extent: N, stride: N::Stride) -> Result<(), N::Error> {
        N::put(&mut self.codes, LEAF)?;
        N::put(&mut self.shape, extent)?;
        N::put(&mut self.stride, stride)
    }

    /// A copy of a mode.
    #[inline]
    pub(crate) fn push_ref(&mut self, mode: LayoutRef<'_>) -> Result<(), N::Error> {
        for &code in mode.codes {
            N::put(&mut self.codes, code)?;
        }
        for (s, d) in mode.leaves() {
            N::put(&mut self.shape, N::read(s)?)?;
            N::put(&mut self.stride, N::Stride::read(d)?)?;
        }
        Ok(())
    }

    /// Makes one mode of the last `count` leaves, unless it is one already.
    #[inline]
    pub(crate) fn group_last(&mut self, count: usize) -> Result<(), N::Error> {
        if count < 2 {
            return Ok(());
        }
        let code = arity_code::<N>(count)?;
        let at = self.codes.len().saturating_sub(count);
        if self.codes.insert_at(at, code) { Ok(()) } else { Err(too_many::<N>()) }
    }

    /// Makes the extent of the last leaf hold only if `violation` is not above 0.
    #[inline]
    pub(crate) fn check_last(&mut self, violation: &N) -> Result<(), N::Error> {
        if violation.bounds().1 <= 0 {
            return Ok(());
        }
        if let Some(last) = self.shape.last_mut() {
            *last = last.on_condition(violation);
        }
        Ok(())
    }
}

fn too_many<N: Number>() -> N::Error {
    N::fail(|| LayoutError::TooLarge { limit: u64::from(LEAF) - 1 })
}

#[inline]
fn arity_code<N: Number>(arity: usize) -> Result<u16, N::Error> {
    match u16::try_from(arity) {
        Ok(code) if code != LEAF => Ok(code),
        _ => Err(too_many::<N>()),
    }
}

impl Draft<i64> {
    #[inline]
    fn finish(self) -> Layout {
        Layout {
            codes: Codes::from_slice(&self.codes),
            shape: self.shape.iter().map(|&s| Int::new(s)).collect(),
            stride: self.stride.iter().map(Stride::to_basis).collect(),
        }
    }
}

impl Draft<Int> {
    fn finish(self) -> Result<Layout, LayoutError> {
        let layout = Layout { codes: self.codes, shape: self.shape, stride: self.stride };
        // A layout of few nodes cannot be too deep.
        if layout.codes.len() > MAX_DEPTH && layout.depth() > MAX_DEPTH {
            return Err(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        Ok(layout)
    }
}

/// An operation on layouts, for any kind of numbers.
pub(crate) trait Operation {
    /// Appends the result.
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error>;
}

/// The result of an operation.
#[inline]
pub(crate) fn perform(operation: &impl Operation) -> Result<Layout, LayoutError> {
    let mut draft = Draft::<i64>::new();
    if operation.run(&mut draft).is_ok() {
        return Ok(draft.finish());
    }
    let mut draft = Draft::<Int>::new();
    operation.run(&mut draft)?;
    draft.finish()
}
