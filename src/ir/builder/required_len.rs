//! Buffer lengths that a kernel requires, checked at every launch, so that a short buffer is a host
//! error and not an out-of-bounds access.

use super::error::BuildErrorKind;
use super::typed::{IntoVal, MemIndex, Pointer, Val};
use crate::ir::kernel::ValueDef;
use crate::ir::required_len::{LenExpr, RequiredLen};

/// # Buffer lengths
///
/// Makes every launch check a buffer's length.
impl<'b, P: Pointer> Val<'b, P> {
    /// Requires that every launch passes a buffer of at least `len` elements for this parameter. A
    /// launch with a shorter buffer is refused before it starts, and the error says what was
    /// missing. On a GPU an access past a buffer's end would be noticed late or never.
    ///
    /// `len` may be computed from parameters and constants with `+ - * / % << >> &`, `min`, `max`
    /// and integer conversions. It may also be [`Body::int`](crate::ir::Body::int) of a symbolic
    /// expression, such as the cosize of a layout parameter. The launch computes it without wrapping. The pointer must be a
    /// parameter itself, without an offset. The requirement is part of the
    /// [`Signature`](crate::ir::Signature); the text form does not print it.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let device = Device::default()?;
    /// type Params = (GlobalMut<f32>, i32, i32);
    /// let kernel = Kernel::<Params>::build("fill", device.target(), |k, (x, rows, columns)| {
    ///     x.require_len(rows * columns);
    ///     let i = k.thread_idx().x;
    ///     k.if_(i.lt(rows * columns), |_| x.store(i, 1.0));
    /// })?;
    /// let mut x = device.zeros(11)?;
    /// let error = device.load(&kernel)?.launch(Grid::cover(12, 32), (&mut x, 3, 4)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "cannot launch kernel `fill`: parameter 0 needs a buffer of at least \
    ///      `%p1 * %p2` = 12 elements, but its argument has 11"
    /// );
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn require_len<I: MemIndex>(self, len: impl IntoVal<'b, I>) {
        let cx = self.context();
        let (pointer, len) = (cx.operand(self), cx.operand_of(len));
        let found = cx.with(|state| {
            let ValueDef::Param(param) = state.ir.values.get(pointer)?.def else { return None };
            let len = LenExpr::of(&state.ir, len)?;
            state.required.push(RequiredLen { param: param as usize, len });
            Some(())
        });
        if found.is_none() {
            cx.error(BuildErrorKind::RequiredLen);
        }
    }
}
