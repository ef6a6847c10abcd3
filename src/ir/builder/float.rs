//! Floating point functions with a mode: rounding, approximation, NaN handling, classification.

use super::typed::{Float, Fused, IntoOperand, Ordered, Val};
use crate::ir::number::Rounding;
use crate::ir::op::{
    ApproxFunction, Arith, Compare, Convert, DivApprox, FloatArith, FloatMode, FloatTest,
    Subnormals,
};

/// Arithmetic that names its rounding, and what becomes of subnormal numbers and of results out of a range.
///
/// PTX has all roundings, `.ftz` and `.sat` for `f32`; all roundings for `f64`; for `f16` and pairs of it `.ftz`
/// and `.sat`; for `bf16` and pairs of it nothing but `rn`; and `.relu` for `fma` of 16-bit numbers. Any other
/// mode is an error of the verifier, which says what there is.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{FloatMode, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("third", Target::SM_80, |k, (x,)| {
///     let (one, three) = (x.load(k, 0), x.load(k, 1));
///     x.store(k, 0, one.div_rounded(three, FloatMode::RM));
///     x.store(k, 1, one.div_rounded(three, FloatMode::RP));
///     x.store(k, 2, three.add_rounded(one, FloatMode::RZ.ftz().sat()));
/// })?;
/// assert!(kernel.ptx().text().contains("add.rz.ftz.sat.f32"));
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0f32, 3.0, 0.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [0.33333331, 0.33333334, 1.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Fused> Val<'b, T> {
    /// `self + rhs`, rounded as `mode` says. PTX ISA 9.7.3.3, 9.7.4.1 `add`.
    #[track_caller]
    pub fn add_rounded(self, rhs: impl IntoOperand<'b, T>, mode: FloatMode) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::AddRounded { lhs, rhs, mode })
    }

    /// `self - rhs`, rounded as `mode` says. PTX ISA 9.7.3.4, 9.7.4.2 `sub`.
    #[track_caller]
    pub fn sub_rounded(self, rhs: impl IntoOperand<'b, T>, mode: FloatMode) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::SubRounded { lhs, rhs, mode })
    }

    /// `self * rhs`, rounded as `mode` says. PTX ISA 9.7.3.5, 9.7.4.3 `mul`.
    #[track_caller]
    pub fn mul_rounded(self, rhs: impl IntoOperand<'b, T>, mode: FloatMode) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::MulRounded { lhs, rhs, mode })
    }

    /// `self * rhs + addend`, rounded once as `mode` says. PTX ISA 9.7.3.6, 9.7.4.4 `fma`.
    #[track_caller]
    pub fn fma_rounded(
        self,
        rhs: impl IntoOperand<'b, T>,
        addend: impl IntoOperand<'b, T>,
        mode: FloatMode,
    ) -> Val<'b, T> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(FloatArith::FmaRounded { lhs, rhs, addend, mode })
    }

    /// The smaller value; NaN if either is NaN. Not of `f64`. PTX ISA 9.7.3.11, 9.7.4.7 `min.NaN`.
    #[track_caller]
    pub fn min_nan(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::MinNan { lhs, rhs })
    }

    /// The larger value; NaN if either is NaN. Not of `f64`. PTX ISA 9.7.3.12, 9.7.4.8 `max.NaN`.
    #[track_caller]
    pub fn max_nan(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::MaxNan { lhs, rhs })
    }

    /// An approximation of a function; [`ApproxFunction`] has the bounds. All functions of `f32`; of `f16` and
    /// `bf16`, and pairs of them, `ex2` and `tanh`, those of `bf16` from `sm_90` on. PTX ISA 9.7.3 `.approx`.
    #[track_caller]
    pub fn approx(self, function: ApproxFunction, subnormals: Subnormals) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(FloatArith::Approx { value, function, subnormals })
    }
}

impl<'b> Val<'b, f32> {
    /// Approximately `self / rhs`, within 2 ulp where [`DivApprox`] says so. PTX ISA 9.7.3.8 `div.approx`,
    /// `div.full`.
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

impl<'b, T: Float> Val<'b, T> {
    /// `self / rhs`, rounded as `mode` says. Of `f32` and `f64`. PTX ISA 9.7.3.8 `div`.
    #[track_caller]
    pub fn div_rounded(self, rhs: impl IntoOperand<'b, T>, mode: FloatMode) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(FloatArith::DivRounded { lhs, rhs, mode })
    }

    /// The square root, rounded as `mode` says. Of `f32` and `f64`. PTX ISA 9.7.3.15 `sqrt`.
    #[track_caller]
    pub fn sqrt_rounded(self, mode: FloatMode) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(FloatArith::SqrtRounded { value, mode })
    }

    /// `1 / self`, rounded as `mode` says. Of `f32` and `f64`. PTX ISA 9.7.3.13 `rcp`.
    #[track_caller]
    pub fn rcp_rounded(self, mode: FloatMode) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(FloatArith::RcpRounded { value, mode })
    }

    /// The value with the sign of `sign`. Of `f32` and `f64`. PTX ISA 9.7.3.2 `copysign`.
    #[track_caller]
    pub fn copysign(self, sign: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (magnitude, sign) = (cx.operand(self), cx.operand_of(sign));
        cx.emit_val(Arith::Copysign { magnitude, sign })
    }

    /// Returns whether the value has the property. For `f32` and `f64`. PTX ISA 9.7.3.1 `testp`.
    #[track_caller]
    pub fn testp(self, test: FloatTest) -> Val<'b, bool> {
        let value = self.context().operand(self);
        self.context().emit_val(FloatArith::Testp { value, test })
    }

    /// Returns whether the value is NaN. PTX ISA 9.7.6.2 `setp.nan`.
    #[track_caller]
    pub fn is_nan(self) -> Val<'b, bool> {
        self.compare(Compare::Nan, self)
    }

    fn to_integral(self, rounding: Rounding) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtRint { value, to: T::SCALAR, rounding })
    }

    /// The largest integer that is not above. PTX ISA 9.7.9.21 `cvt.rmi`.
    #[track_caller]
    pub fn floor(self) -> Val<'b, T> {
        self.to_integral(Rounding::Down)
    }

    /// The smallest integer that is not below. PTX ISA 9.7.9.21 `cvt.rpi`.
    #[track_caller]
    pub fn ceil(self) -> Val<'b, T> {
        self.to_integral(Rounding::Up)
    }

    /// The integer toward zero. PTX ISA 9.7.9.21 `cvt.rzi`.
    #[track_caller]
    pub fn trunc(self) -> Val<'b, T> {
        self.to_integral(Rounding::Zero)
    }

    /// The nearest integer, of two the even one. PTX ISA 9.7.9.21 `cvt.rni`.
    #[track_caller]
    pub fn round_ties_even(self) -> Val<'b, T> {
        self.to_integral(Rounding::NearestEven)
    }
}

impl<'b, T: Ordered> Val<'b, T> {
    /// Compares with any comparison, including the unordered ones that are true if an operand is NaN. PTX ISA 9.7.6.2 `setp`.
    #[track_caller]
    pub fn compare(self, compare: Compare, rhs: impl IntoOperand<'b, T>) -> Val<'b, bool> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::Setp { lhs, rhs, compare })
    }
}
