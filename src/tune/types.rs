//! [`GemmTypes`] names the element types of a product, and [`GemmSpace::with_types`] finds them by their names.

use super::space::GemmSpace;
use crate::ir::builder::Converted;
use crate::ir::{Element, Number, bf16, f8e4m3, f8e5m2, f16};

/// The element types of A, B and D of a product in memory, as one type: the tuple of them. C and the bias have the type of D.
pub trait GemmTypes: 'static {
    /// The type of A.
    type A: Element + Converted;
    /// The type of B.
    type B: Element + Converted;
    /// The type of D.
    type D: Number + Converted;
}

impl<A: Element + Converted, B: Element + Converted, D: Number + Converted> GemmTypes
    for (A, B, D)
{
    type A = A;
    type B = B;
    type D = D;
}

/// Work on a product that is written once for all element types, for [`GemmSpace::with_types`].
pub trait GemmWork {
    /// The result.
    type Output;

    /// Does the work for matrices of these types.
    fn run<T: GemmTypes>(self) -> Self::Output;
}

impl GemmSpace {
    /// Does work with the element types of this space, or returns `None` for types that are not tuned. There are `bf16` and `f16` to the
    /// same type or to `f32`; `f32` and `tf32` to `f32`; `f64`; any two floats of 8 bits to `bf16` or `f16`; and any two
    /// integers of 8 bits to `i32`.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::{Element, Target};
    /// use tilewright::tune::{GemmSpace, GemmTypes, GemmWork};
    ///
    /// struct Bytes;
    /// impl GemmWork for Bytes {
    ///     type Output = [usize; 3];
    ///     fn run<T: GemmTypes>(self) -> [usize; 3] {
    ///         [size_of::<T::A>(), size_of::<T::B>(), size_of::<T::D>()]
    ///     }
    /// }
    /// let space = GemmSpace::new(Target::SM_90A, [Scalar::F8E4M3, Scalar::F8E5M2]);
    /// assert_eq!(space.with_types(Bytes), Some([1, 1, 2]));
    /// assert_eq!(GemmSpace { output: Scalar::F64, ..space }.with_types(Bytes), None);
    /// ```
    pub fn with_types<W: GemmWork>(&self, work: W) -> Option<W::Output> {
        let inputs = self.input.in_memory();
        let asked = [inputs.a, inputs.b, self.output];
        macro_rules! first_of {
            ($($a:ident $b:ident: $($d:ident)*;)*) => {
                $($(if asked == [$a::SCALAR, $b::SCALAR, $d::SCALAR] {
                    return Some(work.run::<($a, $b, $d)>());
                })*)*
            };
        }
        first_of! {
            bf16 bf16: bf16 f32;
            f16 f16: f16 f32;
            f32 f32: f32;
            f64 f64: f64;
            f8e4m3 f8e4m3: bf16 f16;
            f8e4m3 f8e5m2: bf16 f16;
            f8e5m2 f8e4m3: bf16 f16;
            f8e5m2 f8e5m2: bf16 f16;
            i8 i8: i32;
            i8 u8: i32;
            u8 i8: i32;
            u8 u8: i32;
        }
        None
    }
}
