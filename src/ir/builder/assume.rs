//! Promises about integers, for example `pitch.assume_divisible_by(4)`, so that the builder accepts
//! vector accesses on addresses it could not prove to be aligned.

use super::typed::{Integer, IntoOperand, Val};
use crate::ir::op::Mem;

/// # Promises about integers
///
/// Tells the builder what the host knows about an integer and the kernel cannot see, for example
/// that a row pitch is a multiple of 4.
///
/// A promise holds for the returned value only, so use that instead of the original. The simulator
/// reports a broken promise, and so does a GPU kernel loaded with checks. Otherwise breaking a
/// promise is undefined behaviour.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector};
/// use tilewright::runtime::{Device, Grid};
///
/// type Params = (Global<f32>, GlobalMut<f32>, i32);
/// let kernel = Kernel::<Params>::build("row", Target::SM_80, |k, (x, y, pitch)| {
///     let pitch = pitch.assume_divisible_by(4).assume_between(0, 1 << 20);
///     let start = k.block_idx().x * pitch;
///     assert_eq!(start.divisor(), 4);
///     let four: Val<'_, Vector<f32, 4>> = x.load_vector(start);
///     y.store_vector(k.block_idx().x * 4, four);
/// })?;
/// let device = Device::sim()?;
/// let (function, x) = (device.load(&kernel)?, device.upload(&[1.0; 32])?);
/// let mut y = device.zeros(8)?;
/// function.launch(Grid::new([2, 1, 1], [1, 1, 1]), (&x, &mut y, 8))?;
/// assert_eq!(y.to_vec()?, [1.0; 8]);
/// let fault = function.launch(Grid::new([2, 1, 1], [1, 1, 1]), (&x, &mut y, 6)).unwrap_err();
/// assert!(fault.to_string().contains("promises a multiple of 4, but gets 6"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Integer> Val<'b, T> {
    /// Promises that the integer is a multiple of `divisor`, and returns it. (If `divisor` is 0,
    /// the integer must be 0.) Use it when the build rejects a vector access or a copy because it
    /// cannot prove the alignment. Alignment goes by powers of two: after
    /// `pitch.assume_divisible_by(12)`, the returned pitch counts as a multiple of 4. A false
    /// promise is reported by the simulator and by kernels loaded with checks, and is otherwise
    /// undefined behaviour.
    #[doc(alias("assume", "multiple_of", "tl.multiple_of"))]
    #[track_caller]
    pub fn assume_divisible_by(self, divisor: u32) -> Val<'b, T> {
        let cx = self.context();
        let value = cx.operand(self);
        cx.emit_val(Mem::AssumeDivisibleBy { value, divisor })
    }

    /// Promises that the integer is between `low` and `high`, both included, and returns it. Use it
    /// for an index that is never negative and that you divide: if `low` is a constant and not
    /// negative, `/` and `%` by a positive constant become cheaper, because the rounding needs no
    /// correction.
    #[doc(alias("assume", "__builtin_assume", "tl.assume"))]
    #[track_caller]
    pub fn assume_between(
        self,
        low: impl IntoOperand<'b, T>,
        high: impl IntoOperand<'b, T>,
    ) -> Val<'b, T> {
        let cx = self.context();
        let value = cx.operand(self);
        let (low, high) = (cx.operand_of(low), cx.operand_of(high));
        cx.emit_val(Mem::AssumeBetween { value, low, high })
    }
}
