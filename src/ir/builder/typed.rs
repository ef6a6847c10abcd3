//! Rust types as IR types: what a [`Val`] can hold, and which host values can stand in for it.
//! Generic kernel code names these traits as bounds.

use std::fmt;
use std::marker::PhantomData;

use super::context::Context;
use super::error::BuildErrorKind;
use crate::ir::entity::Value;
use crate::ir::narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
use crate::ir::types::{Const, Scalar, Space, Type};

pub(super) mod sealed {
    /// Seals the type traits, because the builder relies on the facts they state.
    pub trait Sealed {}
}

/// A type that a device value can have: the scalars, [`Vector`](crate::ir::Vector), pointers such
/// as [`Global`] and [`Shared`], and the tensor maps [`TensorMap`] and [`TensorMapMut`]. You name
/// it as a bound if your code only moves values.
pub trait Ty: sealed::Sealed + Copy + 'static {
    /// Returns the same type in the IR.
    fn ty() -> Type;
}

/// A scalar type: the integers, the floats (narrow ones too) and `bool`. A host value of it can be
/// used wherever a device value can, as a literal.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a device value nor a host scalar",
    label = "expected a `Val` or a host scalar such as `1.0`"
)]
pub trait Element: Ty + fmt::Debug + PartialEq + Default + Send + Sync {
    /// The type to sum many elements in without losing precision: `f64` for `f64`, otherwise `f32`.
    type Sum: Float + Accumulator + From<f32>;
    /// The same type in the IR.
    const SCALAR: Scalar;
    /// Returns the element type in the IR. Generic kernel code calls it instead of reading
    /// [`SCALAR`](Element::SCALAR); for every type that you can name, the two are equal.
    // An element role has no constant type: see `role`.
    #[inline]
    fn scalar() -> Scalar {
        Self::SCALAR
    }
    /// Converts the literal to an IR constant.
    fn to_const(self) -> Const;
    /// Returns the value with the given bits, zero-extended. The inverse of [`Element::to_const`].
    fn from_bits(bits: u64) -> Self;
}

/// A type with `+`, `-`, `*`, [`min`](Val::min) and [`max`](Val::max): every [`Number`], and the
/// packed vectors of two `f16` or two `bf16`. You name it as a bound in code that also computes
/// with pairs.
pub trait Arithmetic: Ty {}
/// A scalar type with arithmetic: integers, [`f16`](struct@f16), [`bf16`], `f32` and `f64`. You
/// name it as a bound in code that computes with scalars.
pub trait Number: Element + Arithmetic + Ordered + Converted {}
/// A scalar type that can be compared ([`lt`](Val::lt) and so on): every [`Number`] and `bool`. You
/// name it as a bound.
pub trait Ordered: Element {}
/// A scalar type that [`cvt`](Val::cvt) can convert to: every one except `bool`. You name it as a
/// bound.
#[diagnostic::on_unimplemented(
    message = "values cannot be converted to `{Self}`",
    note = "a `bool` comes from a comparison, such as `x.ne(0)`"
)]
pub trait Converted: Element {}
/// A type that tensor cores accumulate in: `f32`, `f64`, `i32`, or a pair of `f16`. You name it as
/// a bound in code that issues MMAs.
#[diagnostic::on_unimplemented(
    message = "tensor cores have no accumulators of type `{Self}`",
    note = "accumulators are f32, f64, i32 or `Vector<f16, 2>`"
)]
pub trait Accumulator: Ty {
    /// How many accumulators one register holds.
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

/// An integer type of 8 to 64 bits, signed or unsigned. You name it as a bound, for example for
/// loop indices.
pub trait Integer: Number + Ord {
    /// The value 0.
    const ZERO: Self;
    /// The value 1, the default step of a [`range`](crate::ir::range).
    const ONE: Self;
    /// Returns the value plus 1, or the value itself if it is the largest.
    fn successor(self) -> Self;
}
/// A floating point type with arithmetic: [`f16`](struct@f16), [`bf16`], `f32` and `f64`. You name
/// it as a bound.
pub trait Float: Number + Fused {}
/// A type with [fused multiply-add](Val::fma): every [`Float`], and the packed vectors of two `f16`
/// or two `bf16`. You name it as a bound.
pub trait Fused: Signed {}
/// An [`Arithmetic`] type with negative values, so that unary `-` and [`abs`](Val::abs) exist. You
/// name it as a bound.
pub trait Signed: Arithmetic {}
/// A type with the bitwise operators `&`, `|`, `^` and `!`: integers and `bool`. You name it as a
/// bound.
pub trait Bits: Element {}
/// An integer type that can index memory: `i32`, `i64`, `u32` or `u64`. Accesses are generic over
/// it, so you can use 64-bit indices for large buffers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index memory",
    label = "expected an index of type `i32`, `i64`, `u32` or `u64`",
    note = "`k.thread_idx()` and `k.block_idx()` have the indices `.x`, `.y` and `.z`",
    note = "the first argument of `load` and `store` is the body, `k`; the second one is the index"
)]
pub trait MemIndex: Integer {
    /// Returns the value in this type, or `None` if it does not fit.
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

/// An integer that indexes memory, on the device or the host. You meet it as a bound.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index memory",
    label = "expected an `i32`, `i64`, `u32` or `u64`, or a `Val` of one of these",
    note = "a host count is converted with `as i32`"
)]
pub trait IntoIndex<'x> {
    /// The index type.
    type Index: MemIndex;
    /// Returns the index as a device value; a host value becomes a constant.
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
                // A rank that is too large is clamped, so that it stays too large for the verifier.
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

/// A tensor map type: [`TensorMap`] or [`TensorMapMut`]. You name it as a bound in code that
/// accepts both.
pub trait TensorMapType: Ty {
    /// The tensor's element type.
    type Elem: Element;
    /// The tensor's rank.
    const RANK: usize;
}

tensor_map! {
    /// A tensor map (TMA descriptor) of a tensor with `RANK` dimensions that the kernel reads. It
    /// is passed as a kernel parameter; you cannot carry it through control flow, select or store
    /// it.
    TensorMap, false;
    /// A tensor map, as [`TensorMap`], of a tensor that the kernel may also write.
    TensorMapMut, true;
}

/// A pointer type into any state space. You name it as a bound in code that loads through any
/// pointer.
pub trait Pointer: Ty {
    /// The element type.
    type Elem: Element;
    /// The integer type of addresses: `i64`, or `i32` in a state space with 32-bit addresses.
    type Address: Integer;
}

/// A pointer type that allows stores: all except [`Global`], [`Generic`] and [`Constant`]. You name
/// it as a bound in code that stores.
#[diagnostic::on_unimplemented(
    message = "a store needs a mutable pointer",
    note = "declare the kernel parameter as `GlobalMut<T>` instead of `Global<T>`"
)]
pub trait MutPointer: Pointer {}

pointer! {
    /// A pointer to global memory that the kernel only reads. A launch passes `&Buffer<T>`.
    Global, Global, false, i64;
    /// A pointer to global memory that the kernel may write. A launch passes `&mut Buffer<T>`.
    GlobalMut, Global, true, i64;
    /// A pointer to the block's shared memory, made by [`Body::shared`](crate::ir::Body::shared).
    Shared, Shared, true, i32;
    /// A pointer to the shared memory of any block in the cluster, made by [`Val::mapa`]. Use it to
    /// exchange data between blocks without global memory.
    SharedCluster, SharedCluster, true, i32;
    /// A pointer to the thread's local memory, made by
    /// [`Body::local_array`](crate::ir::Body::local_array).
    Local, Local, true, i32;
    /// A generic pointer to memory that the kernel only reads, in any state space, made by
    /// [`Val::cvta`].
    Generic, Generic, false, i64;
    /// A generic pointer to memory that the kernel may write, in any state space, made by
    /// [`Val::cvta`].
    GenericMut, Generic, true, i64;
    /// A pointer to constant memory, made by [`Body::const_array`](crate::ir::Body::const_array).
    Constant, Const, false, i32;
}
impl<T: Element> MutPointer for GlobalMut<T> {}
impl<T: Element> MutPointer for Shared<T> {}
impl<T: Element> MutPointer for SharedCluster<T> {}
impl<T: Element> MutPointer for Local<T> {}
impl<T: Element> MutPointer for GenericMut<T> {}

/// A device value of type `T`, made in the body `'b`. You can use it in that body and in bodies
/// inside it, but not outside.
///
/// It has the operators of `T`. Comparisons such as [`lt`](Val::lt) return a device `bool`. There
/// is no way back to a host value, so a host `if`, `while` or `for` on it does not compile.
///
/// The methods below are grouped by topic:
///
/// | topic | for example |
/// |---|---|
/// | constants, loads and stores | `constant`, `load`, `store`, `load_vector`, `prefetch` |
/// | promises to the builder | `assume_divisible_by`, `assume_aligned`, `require_len` |
/// | atomics | `atom`, `red` |
/// | pointers | `cvta`, `ptr_to_int`, `offset`, `ptr_cast` |
/// | comparisons and selection | `lt`, `compare`, `select` |
/// | arithmetic | `min`, `fma`, `sqrt`, `floor`, `add_rounded` |
/// | conversions | `cvt`, `cvt_rint`, `cvt_rounded`, `bitcast` |
/// | math functions | `exp`, `gelu`, `sin_fast`, `atan2` |
/// | vectors | `pack`, `splat`, `lanes` |
/// | integers and bits | `mul_hi`, `add_sat`, `dp4a`, `bfe`, `popc` |
/// | clusters and mbarriers | `mapa`, `st_async`, `mbarrier` |
/// | TMA copies | `cp_async_bulk_tensor_load` |
/// | matrices for tensor cores | `ldmatrix`, `matrix_descriptor` |
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

/// # Identity
///
/// Identifies the value in the IR.
impl<'b, T> Val<'b, T> {
    pub(super) fn new(cx: &'b Context, id: Value) -> Val<'b, T> {
        Val { cx, id, ty: PhantomData }
    }

    /// Returns the build that the value belongs to.
    pub(super) fn context(self) -> &'b Context {
        self.cx
    }

    /// Returns a handle of the innermost open body of the value's kernel. Use it in a method of your
    /// own types that needs constants or control flow, so that its callers need not pass `k`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target, Val};
    ///
    /// /// A counter in memory that stays below `limit`.
    /// #[derive(Clone, Copy)]
    /// struct Counter<'b> {
    ///     count: Val<'b, GlobalMut<i32>>,
    ///     limit: Val<'b, i32>,
    /// }
    ///
    /// impl<'b> Counter<'b> {
    ///     fn add_one(self) {
    ///         let (count, next) = (self.count, self.count.load(0) + 1);
    ///         self.count.body().if_(next.lt(self.limit), |_| count.store(0, next));
    ///     }
    /// }
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("k", Target::SM_80, |_, (count, limit)| {
    ///     Counter { count, limit }.add_one();
    /// })?;
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let device = Device::sim()?;
    /// let mut count = device.upload(&[3])?;
    /// for _ in 0..9 {
    ///     device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut count, 6))?;
    /// }
    /// assert_eq!(count.to_vec()?, [5]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn body(self) -> super::body::Body<'b, 'b> {
        super::body::Body::new(self.cx)
    }

    /// Returns the value's id in the IR, for example to look up how the IR defines it.
    pub fn id(self) -> Value {
        self.id
    }
}

/// # Known divisors
///
/// Answers when the kernel is built, so it costs the kernel nothing.
impl<T: Integer> Val<'_, T> {
    /// Returns the largest power of two, up to 4096, that is known to divide the integer: CuTe's
    /// `get_divisibility`, for a device value. Use it to choose the widest vector that is known to
    /// be aligned.
    ///
    /// It is derived from constants, from symbols with a divisor, from
    /// [`assume_divisible_by`](Val::assume_divisible_by) and from loop indices, through `+ - * / <<
    /// >> & | ^`, `min`, `max`, `select` and integer conversions. An unknown integer has divisor 1.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target, range};
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

/// A device value of type `T`, or a host value that becomes a constant: `Val<'x, T>` or `T`. The
/// argument decides what `T` is; see [`IntoOperand`] for when `T` is already known.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a device value of type `{T}`",
    label = "expected `Val<'_, {T}>` or a host `{T}`",
    note = "types are never mixed silently: a device value is converted with `.cvt::<{T}>()`; a float literal has a point, such as `2.0`",
    note = "a host value is converted on the host: with `as`, such as `n as i32`; to a narrow float with `from_f32`, such as `bf16::from_f32(2.0)`"
)]
pub trait IntoVal<'x, T: Ty> {
    /// Returns the device value; a host value becomes a constant.
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

/// An operand whose type `T` is already known: a `Val<'x, T>`, a host `T`, or for `i32` also a host
/// `u32`.
///
/// Host counts are `u32` and device indices are `i32`, so you can write `thread % threads` without
/// a conversion. A count above `i32::MAX` is reported as
/// [`CountTooLarge`](super::BuildErrorKind::CountTooLarge).
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, range};
///
/// const WARPS: u32 = 4;
/// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("k", Target::SM_80, |k, (x, n)| {
///     let warp = k.thread_idx().x / 32 % WARPS;
///     k.for_(range(warp, n).step(WARPS), (), |_, i, ()| x.store(i, 0.0));
/// })?;
/// assert!(kernel.to_string().contains("const 4 : i32"));
///
/// let result = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
///     x.store(0, k.thread_idx().x + u32::MAX);
/// });
/// assert!(result.unwrap_err().to_string().contains("the count 4294967295"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a device value of type `{T}`",
    label = "expected `Val<'_, {T}>` or a host `{T}`",
    note = "types are never mixed silently: a device value is converted with `.cvt::<{T}>()`; a float literal has a point, such as `2.0`; the value of a `Var` is `var.get()`",
    note = "a host count is a `u32`, which stands for an `i32` too; a narrow float is made with `from_f32`, such as `bf16::from_f32(2.0)`"
)]
pub trait IntoOperand<'x, T: Ty> {
    /// Returns the device value; a host value becomes a constant.
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
