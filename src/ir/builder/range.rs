//! [`range`]: a loop's bounds and step, and how the loop is unrolled, vectorized or pipelined. It
//! makes a loop faster without changing its body.

use std::num::NonZeroU32;

use super::context::Context;
use super::error::BuildErrorKind;
use super::typed::{Integer, Val};
use crate::ir::entity::Value;
use crate::ir::op::Unroll;

/// A half-open range of loop indices, made by [`range`] and passed to
/// [`for_`](crate::ir::Body::for_). Its methods set the step and ask to unroll, vectorize or
/// pipeline the loop.
#[derive(Clone, Copy, Debug)]
pub struct Range<'x, T: Copy> {
    pub(super) lo: Bound<'x, T>,
    pub(super) hi: Bound<'x, T>,
    pub(super) step: Bound<'x, T>,
    pub(super) unroll: Unroll,
    pub(super) prefetch: u32,
}

/// One end of a range, or its step, before the loop adds it to a kernel: a host or a device value.
/// You meet it only in [`IntoBound`] and [`IntoLimit`].
#[derive(Debug)]
pub enum Bound<'x, T> {
    /// A host value, which becomes a constant.
    Host(T),
    /// A device value.
    Device(Val<'x, T>),
    /// A host count that does not fit the index type, which becomes an error of the build.
    TooLarge(u32),
}

impl<T: Copy> Clone for Bound<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Copy> Copy for Bound<'_, T> {}

/// An integer that can start a [`range`]: on the host or the device. You name it as a bound in
/// generic code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot bound a range of `{T}`",
    label = "expected `{T}` or `Val<'_, {T}>`",
    note = "a host number is converted with `as {T}`, a device value with `.cvt::<{T}>()`"
)]
pub trait IntoBound<'x, T> {
    /// Returns the bound.
    fn into_bound(self) -> Bound<'x, T>;
}

impl<'x, T: Integer> IntoBound<'x, T> for T {
    fn into_bound(self) -> Bound<'x, T> {
        Bound::Host(self)
    }
}

impl<'x, T: Integer> IntoBound<'x, T> for Val<'x, T> {
    fn into_bound(self) -> Bound<'x, T> {
        Bound::Device(self)
    }
}

/// An integer that can end a [`range`] or be its step: what [`IntoBound`] accepts, and for `i32`
/// also a `u32` host count. You name it as a bound in generic code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot bound a range of `{T}`",
    label = "expected `{T}` or `Val<'_, {T}>`",
    note = "a host count is a `u32`, which bounds a range of `i32` too; a device value is converted with `.cvt::<{T}>()`"
)]
pub trait IntoLimit<'x, T> {
    /// Returns the bound.
    fn into_limit(self) -> Bound<'x, T>;
}

#[diagnostic::do_not_recommend]
impl<'x, T, B: IntoBound<'x, T>> IntoLimit<'x, T> for B {
    fn into_limit(self) -> Bound<'x, T> {
        self.into_bound()
    }
}

#[diagnostic::do_not_recommend]
impl<'x> IntoLimit<'x, i32> for u32 {
    fn into_limit(self) -> Bound<'x, i32> {
        i32::try_from(self).map_or(Bound::TooLarge(self), Bound::Host)
    }
}

/// Returns the indices `lo, lo + 1, ..` below `hi`, for [`for_`](crate::ir::Body::for_). The range
/// is empty if `hi <= lo`.
pub fn range<'x, T: Integer>(lo: impl IntoBound<'x, T>, hi: impl IntoLimit<'x, T>) -> Range<'x, T> {
    Range {
        lo: lo.into_bound(),
        hi: hi.into_limit(),
        step: Bound::Host(T::ONE),
        unroll: Unroll::Keep,
        prefetch: 0,
    }
}

impl<'x, T: Integer> Range<'x, T> {
    /// Sets the step, which is 1 by default: the indices are `lo, lo + step, ..`. The step must be
    /// positive.
    pub fn step(self, step: impl IntoLimit<'x, T>) -> Range<'x, T> {
        Range { step: step.into_limit(), ..self }
    }

    /// Unrolls the loop `n` times: its body then holds `n` iterations, and a second loop runs the
    /// remaining ones. The results stay the same; 0 counts as 1. Use it for short bodies, because
    /// counting and branching then cost as much as the work.
    pub fn unroll(self, n: u32) -> Range<'x, T> {
        Range { unroll: NonZeroU32::new(n).map_or(Unroll::Keep, Unroll::By), ..self }
    }

    /// Unrolls the loop `n` times and turns the loads and stores of `n` iterations into vector
    /// accesses: CuTe DSL's `vectorize`. This applies to accesses at the loop's index through a
    /// pointer made outside the loop. The remaining iterations run one by one. The results stay the
    /// same; 0 and 1 change nothing.
    ///
    /// The step must be 1, and the vectors must be known to be aligned. Start the range at a
    /// multiple of `n`; for another start, use `offset`, `assume_aligned` or `assume_divisible_by`.
    /// The body may only load, compute and store, and no iteration may read what another one wrote.
    /// Otherwise the build fails and says what is in the way.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// type Scale = (Global<f32>, GlobalMut<f32>, i32);
    /// let kernel = Kernel::<Scale>::build("double", Target::SM_80, |k, (x, y, n)| {
    ///     k.for_(range(0, n).vectorize(4), (), |_, i, ()| y.store(i, x.load(i) * 2.0));
    /// })?;
    /// let text = kernel.to_string();
    /// assert!(text.contains("= ld_vec<4> ") && text.contains("st_vec "));
    /// let device = Device::sim()?;
    /// let (x, mut y) = (device.upload(&[1.0; 7])?, device.zeros::<f32>(7)?);
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y, 7))?;
    /// assert_eq!(y.to_vec()?, [2.0; 7]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn vectorize(self, n: u32) -> Range<'x, T> {
        let unroll = if n > 1 { NonZeroU32::new(n).map(Unroll::Vector) } else { None };
        Range { unroll: unroll.unwrap_or(Unroll::Keep), ..self }
    }

    /// Unrolls the loop completely, so that no branch remains. The build fails unless the bounds
    /// and the step are constants.
    pub fn unroll_full(self) -> Range<'x, T> {
        Range { unroll: Unroll::Full, ..self }
    }

    /// Pipelines the loop: loads from global memory are issued `n` iterations ahead, so that they
    /// overlap with the work of the iterations in between. The loads of the first `n` iterations
    /// move before the loop; iteration `i` uses the values fetched for it and fetches those for
    /// iteration `i + n`. Each fetched value takes `n` registers. The results stay the same; 0
    /// changes nothing.
    ///
    /// Shared-memory tiles are pipelined too, if the body fills them, passes a barrier, reads them
    /// and passes a second barrier, and if every iteration stores the same elements. The tiles then
    /// become ring buffers of `n + 1` stages, and one barrier per iteration is enough. Tensor core
    /// instructions (`mma.sync`, `ldmatrix`) may read them. If
    /// [`cp_async`](crate::ir::Body::cp_async) fills the tiles, it must fill all of them, with one
    /// commit and a wait for all groups before the first barrier. Then the copies of `n` iterations
    /// are in flight and take no registers.
    ///
    /// What is fetched ahead may depend on the loop's index and on values from outside the loop,
    /// but not on carried values; it may be conditional. Loads in inner loops stay where they are.
    /// The build fails if a load cannot move up: because it depends on the work of its iteration,
    /// because the body may be left early, or because the loop may write what it later reads.
    ///
    /// ```
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, range};
    ///
    /// type Dot = (Global<f32>, Global<f32>, GlobalMut<f32>, i32);
    /// let kernel = Kernel::<Dot>::build("dot", Target::SM_80, |k, (x, y, out, n)| {
    ///     let sum = k.for_(range(0, n).prefetch_stages(2), 0.0, |_, i, sum| {
    ///         let (a, b) = (x.load(i), y.load(i));
    ///         a.fma(b, sum)
    ///     });
    ///     out.store(0, sum);
    /// })?;
    /// // Two loads for each of the two iterations before the loop, two inside, and two for short ranges.
    /// assert_eq!(kernel.ir().to_string().matches("= ld ").count(), 2 * 2 + 2 + 2);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn prefetch_stages(self, n: u32) -> Range<'x, T> {
        Range { prefetch: n, ..self }
    }
}

#[track_caller]
pub(super) fn bound<'x, T: Integer>(cx: &'x Context, bound: Bound<'x, T>) -> Value {
    match bound {
        Bound::Host(value) => cx.operand_of(value),
        Bound::Device(value) => cx.operand(value),
        Bound::TooLarge(count) => {
            cx.error(BuildErrorKind::CountTooLarge { count });
            cx.operand_of(T::ZERO)
        }
    }
}
