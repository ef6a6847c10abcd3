//! [`Vector`]: short vectors as device values, for vector loads and stores, MMA operands and packed
//! 16-bit arithmetic.

use std::marker::PhantomData;

use super::typed::{Arithmetic, Element, Fused, Signed, Ty, Val, sealed};
use crate::ir::narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
use crate::ir::op::{Convert, ValueList};
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

/// The type of a device value with `N` elements of type `T`. [`VectorType`] lists the possible
/// vectors. If the type is known only when the kernel is built, use
/// [`AnyVector`](super::AnyVector).
///
/// Vectors of two `f16` or two `bf16` have arithmetic, with one PTX instruction for both elements
/// (`add.rn.f16x2`). You can pack, unpack, convert, select, load, store and carry all other
/// vectors, but not compute with them.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, f16};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<f16>,)>::build("pair", Target::SM_80, |_, (x,)| {
///     let pair = Val::pack([x.load(0), x.load(1)]);
///     let [a, b] = (pair * pair + Val::splat(x.load(2))).lanes();
///     x.store(0, a);
///     x.store(1, b);
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.5, -2.0, 0.25].map(f16::from_f32))?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [2.5, 4.25, 0.25].map(f16::from_f32));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Vector<T, const N: usize>(PhantomData<fn() -> T>);

impl<T, const N: usize> Clone for Vector<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const N: usize> Copy for Vector<T, N> {}
impl<T, const N: usize> sealed::Sealed for Vector<T, N> {}
impl<T: VectorElement<N>, const N: usize> Ty for Vector<T, N> {
    #[inline]
    fn ty() -> Type {
        Type::Vector(T::vector())
    }
}

/// A scalar type that has vectors of `N` elements. You name it as a bound in code that is generic
/// over the element type.
#[diagnostic::on_unimplemented(
    message = "there is no vector of {N} `{Self}`",
    note = "a vector has 2, 4, 8 or 16 elements other than `bool`, and at most 128 bits, or 8 elements of 32 bits"
)]
pub trait VectorElement<const N: usize>: Element {
    /// The same vector type in the IR.
    const VECTOR: VectorType;
    /// Returns the vector type in the IR. Generic kernel code calls it instead of reading the
    /// constant; see [`Element::scalar`].
    #[inline]
    fn vector() -> VectorType {
        Self::VECTOR
    }
}

macro_rules! vector_elements {
    ($($($ty:ident $scalar:ident),+: $($lanes:literal)+;)*) => {$(
        vector_elements!(@each [$($ty $scalar),+] [$($lanes)+]);
    )*};
    (@each [$($ty:ident $scalar:ident),+] $lanes:tt) => {
        $(vector_elements!(@lanes $ty $scalar $lanes);)+
    };
    (@lanes $ty:ident $scalar:ident [$($lanes:literal)+]) => {$(
        impl VectorElement<$lanes> for $ty {
            const VECTOR: VectorType = VectorType::of(Scalar::$scalar, $lanes);
        }
    )+};
}

vector_elements! {
    i8 I8, u8 U8, f8e4m3 F8E4M3, f8e5m2 F8E5M2: 2 4 8 16;
    i16 I16, u16 U16, f16 F16, bf16 Bf16: 2 4 8;
    i32 I32, u32 U32, tf32 Tf32, f32 F32: 2 4 8;
    i64 I64, u64 U64, f64 F64: 2;
}

macro_rules! packed {
    ($($ty:ident)*) => {$(
        impl Arithmetic for Vector<$ty, 2> {}
        impl Signed for Vector<$ty, 2> {}
        impl Fused for Vector<$ty, 2> {}
    )*};
}
packed!(f16 bf16);

/// # Vectors
///
/// Packs scalars into a vector, and takes them out again.
impl<'b, T: VectorElement<N>, const N: usize> Val<'b, Vector<T, N>> {
    /// Packs values into a vector, the first one as element 0, for example to store them with one
    /// instruction. [`Convert::VecPack`] PTX ISA 9.7.9.1 `mov`.
    #[doc(alias = "make_float4")]
    #[track_caller]
    pub fn pack(lanes: [Val<'b, T>; N]) -> Val<'b, Vector<T, N>> {
        // Safe to index: every vector has elements.
        let cx = lanes[0].context();
        let values: ValueList = lanes.into_iter().map(|lane| cx.operand(lane)).collect();
        cx.emit_val(Convert::VecPack { values })
    }

    /// Returns a vector with `value` in every element, for example to scale a pair of `f16`.
    /// [`Convert::VecSplat`] PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn splat(value: Val<'b, T>) -> Val<'b, Vector<T, N>> {
        let cx = value.context();
        let value = cx.operand(value);
        cx.emit_val(Convert::VecSplat { value, lanes: T::vector().lanes() })
    }

    /// Returns element `lane`, counted from 0. Verification rejects an element that does not exist.
    /// [`Convert::VecExtract`] PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn lane(self, lane: u32) -> Val<'b, T> {
        let vector = self.context().operand(self);
        self.context().emit_val(Convert::VecExtract { vector, lane })
    }

    /// Returns all elements as scalars, so that you can compute with them. PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn lanes(self) -> [Val<'b, T>; N] {
        let mut lanes = [self.lane(0); N];
        for (lane, number) in lanes.iter_mut().zip(0..).skip(1) {
            *lane = self.lane(number);
        }
        lanes
    }
}

/// # Vector conversions
///
/// Converts element by element.
impl<'b, T: VectorElement<N>, const N: usize> Val<'b, Vector<T, N>> {
    /// Converts each element to `U`, as [`Val::cvt`] does. One PTX instruction converts two `f32`
    /// to a narrower format (`cvt.rn.bf16x2.f32`), or two 8-bit floats to `f16`
    /// (`cvt.rn.f16x2.e4m3x2`).
    #[track_caller]
    pub fn cvt<U: VectorElement<N>>(self) -> Val<'b, Vector<U, N>> {
        let value = self.context().operand(self);
        if T::scalar() == U::scalar() {
            return Val::new(self.context(), value);
        }
        self.context().emit_val(Convert::Cvt { value, to: U::scalar() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rust_types_are_those_that_there_are() {
        let mut found = Vec::new();
        macro_rules! check {
            ($($ty:ident: $($lanes:literal)+;)*) => {$($({
                let vector = <$ty as VectorElement<$lanes>>::VECTOR;
                assert_eq!(VectorType::new(<$ty as Element>::SCALAR, $lanes), Some(vector));
                found.push(vector);
            })+)*};
        }
        check! {
            i8: 2 4 8 16;
            u8: 2 4 8 16;
            f8e4m3: 2 4 8 16;
            f8e5m2: 2 4 8 16;
            i16: 2 4 8;
            u16: 2 4 8;
            f16: 2 4 8;
            bf16: 2 4 8;
            i32: 2 4 8;
            u32: 2 4 8;
            tf32: 2 4 8;
            f32: 2 4 8;
            i64: 2;
            u64: 2;
            f64: 2;
        }
        assert!(VectorType::all().all(|vector| found.contains(&vector)));
    }
}
