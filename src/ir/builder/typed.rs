//! Rust types as IR types: what a [`Val`] can hold, and what a host value can stand for.

use std::fmt;
use std::marker::PhantomData;

use super::context::Context;
use super::error::BuildErrorKind;
use crate::ir::entity::Value;
use crate::ir::narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
use crate::ir::types::{Const, Scalar, Space, Type};

pub(super) mod sealed {
    /// Closes the type traits: the builder relies on the facts that they state.
    pub trait Sealed {}
}

/// A type of device values.
///
/// Implemented by the scalar types, by [`Vector`](super::Vector), by the pointer types [`Global`],
/// [`GlobalMut`] and [`Shared`], and by [`TensorMap`] and [`TensorMapMut`].
pub trait Ty: sealed::Sealed + Copy + 'static {
    /// Returns the IR type.
    fn ty() -> Type;
}

/// A scalar type: device values of it are numbers or truth values, and host values are literals.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a device value nor a host scalar",
    label = "expected a `Val` or a host scalar such as `1.0`"
)]
pub trait Element: Ty + fmt::Debug + PartialEq + Default + Send + Sync {
    /// The type of sums of many such elements: `f64` of `f64`, else `f32`.
    type Sum: Float + Accumulator + From<f32>;
    /// The IR type.
    const SCALAR: Scalar;
    /// Returns the IR type, as code of kernels reads it. It is [`SCALAR`](Element::SCALAR) for every type that a program
    /// can name.
    // An element role has no constant type: see `role`.
    #[inline]
    fn scalar() -> Scalar {
        Self::SCALAR
    }
    /// The literal as a constant.
    fn to_const(self) -> Const;
    /// The value with the given bits, zero-extended; the inverse of [`Element::to_const`].
    fn from_bits(bits: u64) -> Self;
}

/// A type with `+`, `-`, `*`, [`min`](Val::min) and [`max`](Val::max): every [`Number`], and the packed vectors
/// of two `f16` or two `bf16`.
pub trait Arithmetic: Ty {}
/// A scalar type with arithmetic: integers, [`f16`](struct@f16), [`bf16`], `f32` and `f64`.
pub trait Number: Element + Arithmetic + Ordered + Converted {}
/// A scalar type that can be compared: every [`Number`] and `bool`.
pub trait Ordered: Element {}
/// A scalar type that values can be converted to: every one but `bool`.
#[diagnostic::on_unimplemented(
    message = "values are not converted to `{Self}`",
    note = "a `bool` comes from a comparison, such as `x.ne(0)`"
)]
pub trait Converted: Element {}
/// The type of an accumulator register.
#[diagnostic::on_unimplemented(
    message = "tensor cores have no accumulators of type `{Self}`",
    note = "accumulators are f32, f64, i32 or `Vector<f16, 2>`"
)]
pub trait Accumulator: Ty {
    /// The accumulators in a register.
    const LANES: u32;
}

impl Accumulator for f32 {
    const LANES: u32 = 1;
}
impl Accumulator for f64 {
    const LANES: u32 = 1;
}
impl Accumulator for i32 {
    const LANES: u32 = 1;
}

/// An integer type.
pub trait Integer: Number + Ord {
    /// The number 0.
    const ZERO: Self;
    /// The number 1, the step of a [`range`](super::range) that names none.
    const ONE: Self;
    /// The next number; the largest one is its own.
    fn successor(self) -> Self;
}
/// A floating point type with arithmetic: [`f16`](struct@f16), [`bf16`], `f32` and `f64`.
pub trait Float: Number + Fused {}
/// A type with FMA: every [`Float`], and the packed vectors of two `f16` or two `bf16`.
pub trait Fused: Signed {}
/// A type of [`Arithmetic`] with negative values.
pub trait Signed: Arithmetic {}
/// A type with bitwise logic: integers and `bool`.
pub trait Bits: Element {}
/// An integer type that can index memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index memory",
    label = "expected an index of type `i32`, `i64`, `u32` or `u64`",
    note = "`k.thread_idx()` and `k.block_idx()` have the indices `.x`, `.y` and `.z`",
    note = "the first argument of `load` and `store` is the body, `k`; the second one is the index"
)]
pub trait MemIndex: Integer {
    /// The number, if the type has it.
    fn from_i64(value: i64) -> Option<Self>;
}

macro_rules! sum {
    () => {
        f32
    };
    ($ty:ty) => {
        $ty
    };
}

macro_rules! element {
    ($($ty:ty: $scalar:ident $(sums $sum:ty)?, $to_bits:expr, $from_bits:expr, [$($class:ident),*];)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Ty for $ty {
            #[inline]
            fn ty() -> Type {
                Type::Scalar(Scalar::$scalar)
            }
        }
        impl Element for $ty {
            type Sum = sum!($($sum)?);
            const SCALAR: Scalar = Scalar::$scalar;
            fn to_const(self) -> Const {
                let to_bits: fn($ty) -> u64 = $to_bits;
                Const::new(Scalar::$scalar, to_bits(self))
            }
            fn from_bits(bits: u64) -> $ty {
                let from_bits: fn(u64) -> $ty = $from_bits;
                from_bits(bits)
            }
        }
        $(impl $class for $ty {})*
    )*};
}

element! {
    bool: Bool, |x| x.into(), |b| b != 0, [Ordered, Bits];
    i8: I8, |x| x as u64, |b| b as i8, [Arithmetic, Number, Ordered, Converted, Signed, Bits];
    i16: I16, |x| x as u64, |b| b as i16, [Arithmetic, Number, Ordered, Converted, Signed, Bits];
    i32: I32, |x| x as u64, |b| b as i32, [Arithmetic, Number, Ordered, Converted, Signed, Bits];
    i64: I64, |x| x as u64, |b| b as i64, [Arithmetic, Number, Ordered, Converted, Signed, Bits];
    u8: U8, |x| x.into(), |b| b as u8, [Arithmetic, Number, Ordered, Converted, Bits];
    u16: U16, |x| x.into(), |b| b as u16, [Arithmetic, Number, Ordered, Converted, Bits];
    u32: U32, |x| x.into(), |b| b as u32, [Arithmetic, Number, Ordered, Converted, Bits];
    u64: U64, |x| x, |b| b, [Arithmetic, Number, Ordered, Converted, Bits];
    f8e4m3: F8E4M3, |x| x.to_bits().into(), |b| f8e4m3::from_bits(b as u8), [Converted];
    f8e5m2: F8E5M2, |x| x.to_bits().into(), |b| f8e5m2::from_bits(b as u8), [Converted];
    f16: F16, |x| x.to_bits().into(), |b| f16::from_bits(b as u16),
        [Arithmetic, Number, Ordered, Converted, Float, Fused, Signed];
    bf16: Bf16, |x| x.to_bits().into(), |b| bf16::from_bits(b as u16),
        [Arithmetic, Number, Ordered, Converted, Float, Fused, Signed];
    tf32: Tf32, |x| x.to_bits().into(), |b| tf32::from_bits(b as u32), [Converted];
    f32: F32, |x| x.to_bits().into(), |b| f32::from_bits(b as u32),
        [Arithmetic, Number, Ordered, Converted, Float, Fused, Signed];
    f64: F64 sums f64, |x| x.to_bits(), f64::from_bits,
        [Arithmetic, Number, Ordered, Converted, Float, Fused, Signed];
}

macro_rules! int {
    ($($ty:ty)*) => {$(
        impl Integer for $ty {
            const ZERO: $ty = 0;
            const ONE: $ty = 1;
            fn successor(self) -> $ty {
                self.saturating_add(1)
            }
        }
    )*};
}
int!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! mem_index {
    ($($ty:ty)*) => {$(
        impl MemIndex for $ty {
            fn from_i64(value: i64) -> Option<$ty> {
                value.try_into().ok()
            }
        }
    )*};
}
mem_index!(i32 i64 u32 u64);

/// A device or a host integer that indexes memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index memory",
    label = "expected an `i32`, `i64`, `u32` or `u64`, or a `Val` of one of these",
    note = "a host count is converted with `as i32`"
)]
pub trait IntoIndex<'x> {
    /// The type of the index.
    type Index: MemIndex;
    /// The index as a device value; a host value becomes a constant.
    fn into_index(self, cx: &'x Context) -> Val<'x, Self::Index>;
}

#[diagnostic::do_not_recommend]
impl<'x, I: MemIndex> IntoIndex<'x> for I {
    type Index = I;

    #[track_caller]
    fn into_index(self, cx: &'x Context) -> Val<'x, I> {
        cx.constant(self)
    }
}

#[diagnostic::do_not_recommend]
impl<'x, I: MemIndex> IntoIndex<'x> for Val<'x, I> {
    type Index = I;

    #[track_caller]
    fn into_index(self, _: &'x Context) -> Val<'x, I> {
        self
    }
}

macro_rules! pointer {
    ($($(#[$doc:meta])* $name:ident, $space:ident, $mutable:literal, $address:ty;)*) => {$(
        $(#[$doc])*
        pub struct $name<T>(PhantomData<fn() -> T>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> sealed::Sealed for $name<T> {}
        impl<T: Element> Ty for $name<T> {
            #[inline]
            fn ty() -> Type {
                Type::Pointer { space: Space::$space, elem: T::scalar(), mutable: $mutable }
            }
        }
        impl<T: Element> Pointer for $name<T> {
            type Elem = T;
            type Address = $address;
        }
    )*};
}

macro_rules! tensor_map {
    ($($(#[$doc:meta])* $name:ident, $mutable:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name<T, const RANK: usize>(PhantomData<fn() -> T>);

        impl<T, const RANK: usize> Clone for $name<T, RANK> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T, const RANK: usize> Copy for $name<T, RANK> {}
        impl<T, const RANK: usize> sealed::Sealed for $name<T, RANK> {}
        impl<T: Element, const RANK: usize> Ty for $name<T, RANK> {
            #[inline]
            fn ty() -> Type {
                // A rank that is not possible stays one.
                let rank = if RANK < 256 { RANK as u8 } else { 255 };
                Type::TensorMap { elem: T::scalar(), rank, mutable: $mutable }
            }
        }
        impl<T: Element, const RANK: usize> TensorMapType for $name<T, RANK> {
            type Elem = T;
            const RANK: usize = RANK;
        }
    )*};
}

/// A type of tensor maps.
pub trait TensorMapType: Ty {
    /// The elements of the tensor.
    type Elem: Element;
    /// The dimensions of the tensor.
    const RANK: usize;
}

tensor_map! {
    /// A tensor of `RANK` dimensions in global memory that the tensor memory accelerator reads: the parameter
    /// of a tensor map. It is a parameter and stays one: it is not carried, selected or stored.
    TensorMap, false;
    /// As [`TensorMap`], of a tensor that the kernel may write.
    TensorMapMut, true;
}

/// A pointer type.
pub trait Pointer: Ty {
    /// The type of the elements.
    type Elem: Element;
    /// The integer type of its addresses: `i64`, or `i32` for a small space.
    type Address: Integer;
}

/// A pointer type that allows stores.
#[diagnostic::on_unimplemented(
    message = "a store needs a mutable pointer",
    note = "declare the kernel parameter as `GlobalMut<T>` instead of `Global<T>`"
)]
pub trait MutPointer: Pointer {}

pointer! {
    /// A pointer to global memory that the kernel only reads: the parameter of a `&Buffer<T>` argument.
    Global, Global, false, i64;
    /// A pointer to global memory that the kernel may write: the parameter of a `&mut Buffer<T>` argument.
    GlobalMut, Global, true, i64;
    /// A pointer to shared memory.
    Shared, Shared, true, i32;
    /// A pointer to shared memory of a block of the cluster: made by [`Val::mapa`].
    SharedCluster, SharedCluster, true, i32;
    /// A pointer to memory of the thread: made by [`Body::local_array`](super::Body::local_array).
    Local, Local, true, i32;
    /// A generic pointer, to memory that the kernel only reads: made by [`Val::cvta`].
    Generic, Generic, false, i64;
    /// A generic pointer, to memory that the kernel may write: made by [`Val::cvta`].
    GenericMut, Generic, true, i64;
    /// A pointer to a constant array: made by [`Body::const_array`](super::Body::const_array).
    Constant, Const, false, i32;
}
impl<T: Element> MutPointer for GlobalMut<T> {}
impl<T: Element> MutPointer for Shared<T> {}
impl<T: Element> MutPointer for SharedCluster<T> {}
impl<T: Element> MutPointer for Local<T> {}
impl<T: Element> MutPointer for GenericMut<T> {}

/// A device value of type `T`, made in the body `'b` of a kernel: it can be used there and in the bodies
/// inside it, not outside.
///
/// It has the operators of `T`, compares with [`lt`](Val::lt) and its like (the result is a device `bool`),
/// and has no way to become a host value: a host `if`, `while` or `for` on it does not compile.
pub struct Val<'b, T> {
    cx: &'b Context,
    id: Value,
    ty: PhantomData<fn() -> T>,
}

impl<T> Clone for Val<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Val<'_, T> {}

impl<T> fmt::Debug for Val<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}

impl<'b, T> Val<'b, T> {
    pub(super) fn new(cx: &'b Context, id: Value) -> Val<'b, T> {
        Val { cx, id, ty: PhantomData }
    }

    /// The build that the value belongs to.
    pub(super) fn context(self) -> &'b Context {
        self.cx
    }

    /// The value in the IR.
    pub fn id(self) -> Value {
        self.id
    }
}

impl<T: Integer> Val<'_, T> {
    /// The largest power of two, at most 4096, that is known to divide the number: CuTe's `get_divisibility` of a device
    /// value.
    ///
    /// Known are constants, symbols of parameters with a divisor, promises
    /// ([`assume_divisible_by`](Val::assume_divisible_by)), indices of counted loops, and what is computed of known
    /// numbers with `+ - * / << >> & | ^`, `min`, `max`, `select` and conversions between integers.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target, builder::range};
    ///
    /// Kernel::<(Global<f32>, i32)>::build("k", Target::SM_80, |k, (_, n)| {
    ///     let thread = k.thread_idx().x;
    ///     assert_eq!([thread.divisor(), (thread * 4).divisor(), (n << 3).divisor()], [1, 4, 8]);
    ///     assert_eq!((thread * 12 + n * 8 + 2).divisor(), 2);
    ///     k.for_(range(0, n).step(4), (), |_, i, ()| assert_eq!((i * 2).divisor(), 8));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn divisor(self) -> u64 {
        self.cx.divisor(self.id)
    }
}

/// A device value of type `T` or a host value that stands for one: `Val<'x, T>` or `T`. The value decides the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a device value of type `{T}`",
    label = "expected `Val<'_, {T}>` or a host `{T}`",
    note = "types are never mixed silently: a device value is converted with `.cvt::<{T}>()`; a float literal has a point, such as `2.0`",
    note = "a host value is converted on the host: with `as`, such as `n as i32`; to a narrow float with `from_f32`, such as `bf16::from_f32(2.0)`"
)]
pub trait IntoVal<'x, T: Ty> {
    /// The device value; a host value becomes a constant.
    fn into_val(self, cx: &'x Context) -> Val<'x, T>;
}

#[diagnostic::do_not_recommend]
impl<'x, T: Element> IntoVal<'x, T> for T {
    #[track_caller]
    fn into_val(self, cx: &'x Context) -> Val<'x, T> {
        cx.constant(self)
    }
}

#[diagnostic::do_not_recommend]
impl<'x, T: Ty> IntoVal<'x, T> for Val<'x, T> {
    #[track_caller]
    fn into_val(self, _: &'x Context) -> Val<'x, T> {
        self
    }
}

/// An operand whose type `T` is known from its location: `Val<'x, T>`, a host `T`, and for `i32` also a host `u32`.
///
/// Host counts are `u32` and device indices are `i32`, so `thread % threads` needs no conversion. A count above
/// `i32::MAX` is [`CountTooLarge`](super::BuildErrorKind::CountTooLarge).
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, range};
///
/// const WARPS: u32 = 4;
/// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("k", Target::SM_80, |k, (x, n)| {
///     let warp = k.thread_idx().x / 32 % WARPS;
///     k.for_(range(warp, n).step(WARPS), (), |k, i, ()| x.store(k, i, 0.0));
/// })?;
/// assert!(kernel.to_string().contains("const 4 : i32"));
///
/// let result = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
///     x.store(k, 0, k.thread_idx().x + u32::MAX);
/// });
/// assert!(result.unwrap_err().to_string().contains("the count 4294967295"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a device value of type `{T}`",
    label = "expected `Val<'_, {T}>` or a host `{T}`",
    note = "types are never mixed silently: a device value is converted with `.cvt::<{T}>()`; a float literal has a point, such as `2.0`; the value of a `Var` is `var.get(k)`",
    note = "a host count is a `u32`, which stands for an `i32` too; a narrow float is made with `from_f32`, such as `bf16::from_f32(2.0)`"
)]
pub trait IntoOperand<'x, T: Ty> {
    /// The device value; a host value becomes a constant.
    fn into_operand(self, cx: &'x Context) -> Val<'x, T>;
}

#[diagnostic::do_not_recommend]
impl<'x, T: Ty, V: IntoVal<'x, T>> IntoOperand<'x, T> for V {
    #[track_caller]
    fn into_operand(self, cx: &'x Context) -> Val<'x, T> {
        self.into_val(cx)
    }
}

#[diagnostic::do_not_recommend]
impl<'x> IntoOperand<'x, i32> for u32 {
    #[track_caller]
    fn into_operand(self, cx: &'x Context) -> Val<'x, i32> {
        let Ok(number) = i32::try_from(self) else {
            cx.error(BuildErrorKind::CountTooLarge { count: self });
            return cx.constant(0);
        };
        cx.constant(number)
    }
}
