//! Choices that build on `select` and `if`: one value out of a list by a device index, and
//! short-circuit `&&` and `||`.

use super::body::Body;
use super::error::BuildErrorKind;
use super::typed::{Integer, IntoVal, Ty, Val};

/// # Choice by index
///
/// Picks one value from a list.
impl<'o> Body<'o, '_> {
    /// Returns `values[index]` for a device index into a host list of device values, or the last
    /// value if `index` is out of range. Use it for short lists in registers, which have no
    /// addresses. All values are computed; the choice costs a compare and a select per value. An
    /// empty list is an error of the build.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("pick", Target::SM_80, |k, (x, i)| {
    ///     let (a, b, c) = (x.load(0), x.load(1), x.load(2));
    ///     let picked = k.select_n(i, &[a, b, c]);
    ///     x.store(3, picked);
    /// })?;
    /// assert_eq!(kernel.to_string().matches("selp").count(), 2);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn select_n<I: Integer, T: Ty>(
        &self,
        index: Val<'o, I>,
        values: &[Val<'o, T>],
    ) -> Val<'o, T> {
        let (cx, _call) = (self.context(), self.call());
        let Some((last, others)) = values.split_last() else {
            cx.error(BuildErrorKind::EmptyList);
            return Val::new(cx, cx.poison(T::ty()));
        };
        let mut position = I::ZERO;
        let mut conditions = Vec::with_capacity(others.len());
        for value in others {
            conditions.push((index.eq(position), *value));
            position = position.successor();
        }
        conditions
            .into_iter()
            .rev()
            .fold(*last, |rest, (is_here, value)| is_here.select(value, rest))
    }
}

/// # Short-circuit logic
///
/// Computes the second condition only if it matters.
impl<'o> Body<'o, '_> {
    /// Returns `a && b()`. `b` runs only if `a` is true; use it when `b` must not run otherwise,
    /// such as a load that `a` guards.
    #[track_caller]
    pub fn and_then<'v>(
        &mut self,
        a: impl IntoVal<'v, bool>,
        b: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> Val<'b, bool>,
    ) -> Val<'o, bool>
    where
        'o: 'v,
    {
        self.if_with(a, false, b)
    }

    /// Returns `a || b()`. `b` runs only if `a` is false; use it when `b` is expensive or must not
    /// run otherwise.
    #[track_caller]
    pub fn or_else<'v>(
        &mut self,
        a: impl IntoVal<'v, bool>,
        b: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> Val<'b, bool>,
    ) -> Val<'o, bool>
    where
        'o: 'v,
    {
        let a = a.into_val(self.context());
        self.if_with(!a, true, b)
    }
}
