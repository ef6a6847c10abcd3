//! [`GemmTypes`], a GEMM's element types as one Rust type, and [`GemmSpace::with_types`], which
//! finds it for types known only at run time.

use super::space::GemmSpace;
use crate::ir::builder::Converted;
use crate::ir::{Element, Number, bf16, f8e4m3, f8e5m2, f16};

/// The element types of A, B and D in memory as one type: their tuple. C and the bias have D's
/// type.
pub trait GemmTypes: 'static {
    /// A's element type.
    type A: Element + Converted;
    /// B's element type.
    type B: Element + Converted;
    /// D's element type.
    type D: Number + Converted;
}

impl<A: Element + Converted, B: Element + Converted, D: Number + Converted> GemmTypes
    for (A, B, D)
{
    type A = A;
    type B = B;
    type D = D;
}

/// A generic function over GEMM element types, for [`GemmSpace::with_types`]. It is a trait because
/// a closure cannot be generic.
pub trait GemmWork {
    /// What it returns.
    type Output;

    /// Runs with these element types.
    fn run<T: GemmTypes>(self) -> Self::Output;
}

impl GemmSpace {
    /// Runs `work` with this space's element types, or returns `None` if they are not tuned.
    /// Supported are `bf16` and `f16` to the same type or to `f32`; `f32` and `tf32` to `f32`;
    /// `f64`; any two 8-bit floats to `bf16` or `f16`; and any two 8-bit integers to `i32`.
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
