//! Floating-point functions with an explicit mode: approximate division, rounding to integers,
//! classification, comparisons.

use super::typed::{Float, IntoOperand, Ordered, Val};
use crate::ir::number::Rounding;
use crate::ir::op::{Arith, Compare, Convert, DivApprox, FloatArith, Subnormals};

/// # Approximate division
///
/// Divides faster than `/`, within an error bound that you choose.
impl<'b> Val<'b, f32> {
    /// Returns approximately `self / rhs`, which is faster than `/`. [`DivApprox`] has the error
    /// bounds. PTX ISA 9.7.3.8 `div.approx`, `div.full`.
    #[doc(alias = "__fdividef")]
    #[track_caller]
    pub fn div_approx(
        self,
        rhs: impl IntoOperand<'b, f32>,
        form: DivApprox,
        subnormals: Subnormals,
    ) -> Val<'b, f32> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::DivApprox { lhs, rhs, form, subnormals })
    }
}

/// # Signs and NaN
///
/// Copies a sign, or tests for NaN.
impl<'b, T: Float> Val<'b, T> {
    /// Returns the magnitude of `self` with the sign of `sign`, for `f32` and `f64`. PTX
    /// ISA 9.7.3.2 `copysign`.
    #[doc(alias = "copysignf")]
    #[track_caller]
    pub fn copysign(self, sign: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (magnitude, sign) = (cx.operand(self), cx.operand_of(sign));
        cx.emit_val(Arith::Copysign { magnitude, sign })
    }

    /// Returns whether the value is NaN, for example to skip missing data. PTX ISA 9.7.6.2
    /// `setp.nan`.
    #[doc(alias = "isnan")]
    #[track_caller]
    pub fn is_nan(self) -> Val<'b, bool> {
        self.compare(Compare::Nan, self)
    }
}

/// # Rounding to an integer
///
/// The result is still a float; `cvt_rint` converts it to an integer type too.
impl<'b, T: Float> Val<'b, T> {
    fn to_integral(self, rounding: Rounding) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtRint { value, to: T::scalar(), rounding })
    }

    /// Rounds down to an integer. PTX ISA 9.7.9.21 `cvt.rmi`.
    #[doc(alias = "floorf")]
    #[track_caller]
    pub fn floor(self) -> Val<'b, T> {
        self.to_integral(Rounding::Down)
    }

    /// Rounds up to an integer. PTX ISA 9.7.9.21 `cvt.rpi`.
    #[doc(alias = "ceilf")]
    #[track_caller]
    pub fn ceil(self) -> Val<'b, T> {
        self.to_integral(Rounding::Up)
    }

    /// Rounds toward zero to an integer. PTX ISA 9.7.9.21 `cvt.rzi`.
    #[doc(alias = "truncf")]
    #[track_caller]
    pub fn trunc(self) -> Val<'b, T> {
        self.to_integral(Rounding::Zero)
    }

    /// Rounds to the nearest integer, and halfway cases to the even one. PTX ISA 9.7.9.21
    /// `cvt.rni`.
    #[doc(alias("rintf", "rint", "nearbyint"))]
    #[track_caller]
    pub fn round_ties_even(self) -> Val<'b, T> {
        self.to_integral(Rounding::NearestEven)
    }
}

/// # Comparisons with a chosen operator
///
/// Offers the unordered comparisons too, which are true if an operand is NaN.
impl<'b, T: Ordered> Val<'b, T> {
    /// Applies any comparison. Use it for the unordered ones, which are true if an operand is NaN;
    /// the others have methods such as [`lt`](Val::lt). PTX ISA 9.7.6.2 `setp`.
    #[track_caller]
    pub fn compare(self, compare: Compare, rhs: impl IntoOperand<'b, T>) -> Val<'b, bool> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::Setp { lhs, rhs, compare })
    }
}
