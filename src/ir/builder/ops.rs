//! Operators, comparisons and conversions of device values.
//!
//! They have no side effects, so they take no body handle; each is appended to the innermost open
//! body. `value += x` means `value = value + x`: on the host the name then stands for a new device
//! value, and the old one does not change.

use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

use super::typed::{
    Arithmetic, Bits, Constant, Converted, Element, Float, Fused, Generic, GenericMut, Global,
    GlobalMut, Integer, IntoOperand, IntoVal, Local, MemIndex, Number, Ordered, Pointer, Shared,
    SharedCluster, Signed, Ty, Val,
};
use crate::ir::narrow::{bf16, f16};
use crate::ir::op::{Arith, Compare, Convert, Mem};

macro_rules! binary_operators {
    ($($Trait:ident $method:ident $Assign:ident $assign:ident $Variant:ident $Bound:ident [$($ty:ty)*];)*) => {$(
        #[doc = concat!("[`Arith::", stringify!($Variant), "`]; either side may be a host value.")]
        impl<'b, T: $Bound, R: IntoOperand<'b, T>> $Trait<R> for Val<'b, T> {
            type Output = Val<'b, T>;

            #[track_caller]
            fn $method(self, rhs: R) -> Val<'b, T> {
                let cx = self.context();
                let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
                cx.emit_val(Arith::$Variant { lhs, rhs })
            }
        }

        /// Applies the operator and assigns the result on the host. If a value changes inside a
        /// device loop or branch, return it from that body or keep it in a [`Var`](crate::ir::Var).
        impl<'b, T: $Bound, R: IntoOperand<'b, T>> $Assign<R> for Val<'b, T> {
            #[track_caller]
            fn $assign(&mut self, rhs: R) {
                *self = self.$method(rhs);
            }
        }

        $(
            #[doc = concat!("[`Arith::", stringify!($Variant), "`] with a host value on the left.")]
            impl<'b> $Trait<Val<'b, $ty>> for $ty {
                type Output = Val<'b, $ty>;

                #[inline]
                #[track_caller]
                fn $method(self, rhs: Val<'b, $ty>) -> Val<'b, $ty> {
                    self.into_val(rhs.context()).$method(rhs)
                }
            }
        )*
    )*};
}

binary_operators! {
    Add add AddAssign add_assign Add Arithmetic [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Sub sub SubAssign sub_assign Sub Arithmetic [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Mul mul MulAssign mul_assign Mul Arithmetic [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Div div DivAssign div_assign Div Number [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Rem rem RemAssign rem_assign Rem Integer [i8 i16 i32 i64 u8 u16 u32 u64];
    BitAnd bitand BitAndAssign bitand_assign And Bits [bool i8 i16 i32 i64 u8 u16 u32 u64];
    BitOr bitor BitOrAssign bitor_assign Or Bits [bool i8 i16 i32 i64 u8 u16 u32 u64];
    BitXor bitxor BitXorAssign bitxor_assign Xor Bits [bool i8 i16 i32 i64 u8 u16 u32 u64];
}

macro_rules! shift_operators {
    ($($Trait:ident $method:ident $Assign:ident $assign:ident $Variant:ident;)*) => {$(
        #[doc = concat!("[`Arith::", stringify!($Variant), "`]; the amount is a `u32`.")]
        impl<'b, T: Integer, R: IntoOperand<'b, u32>> $Trait<R> for Val<'b, T> {
            type Output = Val<'b, T>;

            #[track_caller]
            fn $method(self, amount: R) -> Val<'b, T> {
                let cx = self.context();
                let (value, amount) = (cx.operand(self), cx.operand_of(amount));
                cx.emit_val(Arith::$Variant { value, amount })
            }
        }

        /// Applies the operator and assigns the result on the host.
        impl<'b, T: Integer, R: IntoOperand<'b, u32>> $Assign<R> for Val<'b, T> {
            #[track_caller]
            fn $assign(&mut self, amount: R) {
                *self = self.$method(amount);
            }
        }
    )*};
}

shift_operators! {
    Shl shl ShlAssign shl_assign Shl;
    Shr shr ShrAssign shr_assign Shr;
}

/// [`Arith::Neg`]
impl<'b, T: Signed> Neg for Val<'b, T> {
    type Output = Val<'b, T>;

    #[track_caller]
    fn neg(self) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Arith::Neg { value })
    }
}

/// [`Arith::Not`]
impl<'b, T: Bits> Not for Val<'b, T> {
    type Output = Val<'b, T>;

    #[track_caller]
    fn not(self) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Arith::Not { value })
    }
}

macro_rules! compares {
    ($($(#[$doc:meta])* $method:ident $Variant:ident;)*) => {
        /// # Comparisons
        ///
        /// Each returns a device `bool`, for [`if_`](crate::ir::Body::if_) and
        /// [`select`](Val::select). PTX ISA 9.7.6.2 `setp`.
        impl<'b, T: Ordered> Val<'b, T> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $method(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, bool> {
                    let cx = self.context();
                    let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
                    cx.emit_val(Arith::Setp { lhs, rhs, compare: Compare::$Variant })
                }
            )*

            /// Returns whether `self != rhs`, which is true if either is NaN.
            #[track_caller]
            pub fn ne(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, bool> {
                // Rust's `!=` negates `==`, while PTX's `ne` is false for NaN.
                let compare = if T::scalar().is_float() { Compare::Neu } else { Compare::Ne };
                self.compare(compare, rhs)
            }
        }
    };
}

compares! {
    /// Returns whether `self == rhs`, which is false if either is NaN.
    eq Eq;
    /// Returns whether `self < rhs`, which is false if either is NaN.
    lt Lt;
    /// Returns whether `self <= rhs`, which is false if either is NaN.
    le Le;
    /// Returns whether `self > rhs`, which is false if either is NaN.
    gt Gt;
    /// Returns whether `self >= rhs`, which is false if either is NaN.
    ge Ge;
}

/// # Minimum and maximum
///
/// If one value is NaN, the result is the other one. `min_nan` and `max_nan` return NaN instead.
impl<'b, T: Arithmetic> Val<'b, T> {
    /// Returns the smaller value, or the other one if one is NaN. PTX ISA 9.7.1.12, 9.7.3.11 `min`.
    #[doc(alias("fminf", "minimum", "tl.minimum"))]
    #[track_caller]
    pub fn min(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::Min { lhs, rhs })
    }

    /// Returns the larger value, or the other one if one is NaN. PTX ISA 9.7.1.13, 9.7.3.12 `max`.
    #[doc(alias("fmaxf", "maximum", "tl.maximum"))]
    #[track_caller]
    pub fn max(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::Max { lhs, rhs })
    }
}

/// # Absolute value
///
/// Takes signed integers and floats.
impl<'b, T: Signed> Val<'b, T> {
    /// Returns `|self|`. The smallest integer, whose magnitude does not fit, wraps to itself. PTX
    /// ISA 9.7.1.10, 9.7.3.9 `abs`.
    #[doc(alias = "fabsf")]
    #[track_caller]
    pub fn abs(self) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Arith::Abs { value })
    }
}

/// # Fused multiply-add
///
/// Takes floats; for integers, use `mad`.
impl<'b, T: Fused> Val<'b, T> {
    /// Returns `self * rhs + addend`, rounded once: more exact and cheaper than a product and a
    /// sum. PTX ISA 9.7.3.6 `fma.rn`.
    #[doc(alias("fmaf", "__fmaf_rn"))]
    #[track_caller]
    pub fn fma(self, rhs: impl IntoOperand<'b, T>, addend: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(Arith::Fma { lhs, rhs, addend })
    }
}

/// # Square root
///
/// Rounds correctly; `sqrt_fast` is faster.
impl<'b, T: Float> Val<'b, T> {
    /// Returns the correctly rounded square root, or NaN for a negative value. PTX ISA 9.7.3.14
    /// `sqrt.rn`.
    #[doc(alias = "sqrtf")]
    #[track_caller]
    pub fn sqrt(self) -> Val<'b, T> {
        let value = self.context().operand(self);
        self.context().emit_val(Arith::Sqrt { value })
    }
}

/// # Conversions
///
/// Convert explicitly, because operators never mix types.
impl<'b, T: Element> Val<'b, T> {
    /// Converts the value to `U`, as Rust's `as` does; if `U` is `T`, returns the value itself. PTX
    /// ISA 9.7.9.21 `cvt`.
    ///
    /// A conversion to floating point rounds once, to nearest even. A value that is too large
    /// becomes infinity, except in an 8-bit type, where it becomes the largest finite value,
    /// because PTX has no other conversion to these. The 8-bit types need `sm_89`.
    #[doc(alias("to", "astype", "tl.cast"))]
    #[track_caller]
    pub fn cvt<U: Converted>(self) -> Val<'b, U> {
        let value = self.context().operand(self);
        if T::scalar() == U::scalar() {
            return Val::new(self.context(), value);
        }
        self.context().emit_val(Convert::Cvt { value, to: U::scalar() })
    }
}

/// # Selection
///
/// Picks one of two values without a branch.
impl<'b> Val<'b, bool> {
    /// Returns `then_value` if the condition is true, otherwise `else_value`. Both are computed;
    /// use [`if_else`](crate::ir::Body::if_else) if only one may be. PTX ISA 9.7.6.3 `selp`.
    #[doc(alias("where", "tl.where", "ternary"))]
    #[track_caller]
    pub fn select<T: Ty>(
        self,
        then_value: impl IntoVal<'b, T>,
        else_value: impl IntoOperand<'b, T>,
    ) -> Val<'b, T> {
        let cx = self.context();
        let cond = cx.operand(self);
        let (then_value, else_value) = (cx.operand_of(then_value), cx.operand_of(else_value));
        cx.emit_val(Arith::Selp { cond, then_value, else_value })
    }
}

/// # Pointer arithmetic
///
/// Moves a pointer by elements.
impl<'b, P: Pointer> Val<'b, P> {
    /// Returns the pointer advanced by `index` elements, for example to the block's part of a
    /// matrix. PTX ISA 9.7.1.4 `mad`.
    #[track_caller]
    pub fn offset<I: MemIndex>(self, index: impl IntoVal<'b, I>) -> Val<'b, P> {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit_val(Mem::Offset { base, index })
    }
}

macro_rules! casts {
    ($($Pointer:ident)*) => {$(
        #[doc = concat!("# Casts of `", stringify!($Pointer), "` pointers")]
        ///
        /// Changes the element type and keeps the address.
        impl<'b, T: Element> Val<'b, $Pointer<T>> {
            /// Returns a pointer to the same address with another element type, for example to copy
            /// `f16` elements as `u32` words. When you access memory through it, the address must
            /// be a multiple of the new element size.
            #[track_caller]
            pub fn ptr_cast<U: Element>(self) -> Val<'b, $Pointer<U>> {
                let cx = self.context();
                let base = cx.operand(self);
                if T::scalar() == U::scalar() {
                    return Val::new(cx, base);
                }
                cx.emit_val(Mem::PtrCast { base, to: U::scalar() })
            }
        }
    )*};
}
casts!(Global GlobalMut Shared SharedCluster Local Constant Generic GenericMut);
