//! [`Role`]: an element type that is known when a kernel is built, not when the program is
//! compiled. Ready kernels use it.
//!
//! A ready kernel takes matrices of many element types, but its body is the same Rust code for all
//! of them: only the scalar types in the IR differ. So the body is written for roles, for example
//! `type A = Role<0>`, and rustc compiles it once. The kernel's public functions, which have the
//! buffers' types as type parameters, build it inside [`with_roles`]:
//!
//! ```text
//! with_roles(&[config.a, config.b], || Kernel::declared(.., |k, values| body(k, ..)))
//! ```
//!
//! Scope: a role stands for a scalar type on the thread that runs `with_roles`, until that call
//! returns or unwinds. Scopes nest, because an epilogue may build another kernel: the inner one
//! hides all roles of the outer one. A role that is not bound reads as `bool`, in which the
//! verifier finds no arithmetic, so that a forgotten scope is a build error.
//!
//! A role has no [`Element::SCALAR`]: code that reads this constant, such as a `Buffer`, does not
//! compile for roles.

use std::cell::Cell;

use super::typed::{
    Accumulator, Arithmetic, Converted, Element, Float, Fused, Number, Ordered, Signed, Ty, sealed,
};
use super::vector::VectorElement;
use crate::ir::narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::vector::VectorType;

/// How many roles one kernel can have.
const ROLES: usize = 8;

thread_local! {
    /// What the roles stand for on this thread.
    static BOUND: Cell<[Scalar; ROLES]> = const { Cell::new([Scalar::Bool; ROLES]) };
}

/// Sets the roles of an outer scope again when it is dropped.
struct Restore([Scalar; ROLES]);

impl Drop for Restore {
    fn drop(&mut self) {
        BOUND.set(self.0);
    }
}

/// Runs `build`, in which [`Role<i>`](Role) stands for `scalars[i]`, of which there are at most 8.
/// Call it around the build of a kernel's body. Scopes nest: an inner one hides all roles of the
/// outer one.
pub fn with_roles<R>(scalars: &[Scalar], build: impl FnOnce() -> R) -> R {
    let mut bound = [Scalar::Bool; ROLES];
    for (role, scalar) in bound.iter_mut().zip(scalars) {
        *role = *scalar;
    }
    let _restore = Restore(BOUND.replace(bound));
    build()
}

/// Element type `I` of the kernel that is being built, bound by [`with_roles`]. Write a kernel's
/// body for roles if it is the same for many element types: rustc then compiles it once, and the
/// types are values. A host value of it holds a literal, which becomes a constant of the bound
/// type.
///
/// The kernel's signature in Rust has no types that buffers have, so launch it as an
/// [untyped](crate::ir::Kernel::untyped) one. Outside [`with_roles`], a role reads as `bool`, in
/// which there is no arithmetic, so that a forgotten scope is a build error.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::builder::{Role, with_roles};
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::{BuildErrors, GlobalMut, Kernel, Target, Untyped};
/// use tilewright::runtime::{AnyBuffer, Device, Grid};
///
/// type X = Role<0>;
///
/// fn doubled(elem: Scalar, target: Target) -> Result<Kernel<Untyped>, BuildErrors> {
///     let kernel = with_roles(&[elem], || {
///         Kernel::<(GlobalMut<X>,)>::build("doubled", target, |k, (x,)| {
///             let i = k.thread_idx().x;
///             let value = x.load(i);
///             x.store(i, value + value);
///         })
///     })?;
///     Ok(kernel.untyped())
/// }
///
/// let device = Device::sim()?;
/// for elem in [Scalar::F16, Scalar::I32] {
///     let kernel = device.load(&doubled(elem, device.target())?)?;
///     let mut x = AnyBuffer::from_f64(&device, elem, &[3.0; 32])?;
///     kernel.launch(Grid::new([1, 1, 1], [32, 1, 1]), vec![x.as_mut().into()])?;
///     assert_eq!(x.to_f64()?, [6.0; 32]);
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Role<const I: usize>(f64);

impl<const I: usize> sealed::Sealed for Role<I> {}

impl<const I: usize> Ty for Role<I> {
    #[inline]
    fn ty() -> Type {
        Type::Scalar(Self::scalar())
    }
}

impl<const I: usize> Element for Role<I> {
    type Sum = Self;
    #[allow(clippy::panic, reason = "rustc evaluates it: code that reads it does not compile")]
    const SCALAR: Scalar = panic!("the type of an element role is known when a kernel is built");

    #[inline]
    fn scalar() -> Scalar {
        BOUND.get().get(I).copied().unwrap_or(Scalar::Bool)
    }

    #[inline]
    fn to_const(self) -> Const {
        let (scalar, x) = (Self::scalar(), self.0 as f32);
        let bits = match scalar {
            Scalar::Bool => (self.0 != 0.0).into(),
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => self.0 as u64,
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => self.0 as i64 as u64,
            Scalar::F8E4M3 => f8e4m3::from_f32(x).to_bits().into(),
            Scalar::F8E5M2 => f8e5m2::from_f32(x).to_bits().into(),
            Scalar::F16 => f16::from_f32(x).to_bits().into(),
            Scalar::Bf16 => bf16::from_f32(x).to_bits().into(),
            Scalar::Tf32 => tf32::from_f32(x).to_bits().into(),
            Scalar::F32 => x.to_bits().into(),
            Scalar::F64 => self.0.to_bits(),
        };
        Const::new(scalar, bits)
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Role(Const::new(Self::scalar(), bits).as_f64().unwrap_or(bits as f64))
    }
}

impl<const I: usize> From<f32> for Role<I> {
    #[inline]
    fn from(x: f32) -> Self {
        Role(x.into())
    }
}

impl<const I: usize, const N: usize> VectorElement<N> for Role<I> {
    #[allow(clippy::panic, reason = "rustc evaluates it: code that reads it does not compile")]
    const VECTOR: VectorType =
        panic!("the type of an element role is known when a kernel is built");

    #[inline]
    fn vector() -> VectorType {
        // The verifier refuses vectors that do not exist.
        VectorType::of(Self::scalar(), N as u8)
    }
}

impl<const I: usize> Accumulator for Role<I> {
    const LANES: u32 = 1;
}

impl<const I: usize> Arithmetic for Role<I> {}
impl<const I: usize> Converted for Role<I> {}
impl<const I: usize> Float for Role<I> {}
impl<const I: usize> Fused for Role<I> {}
impl<const I: usize> Number for Role<I> {}
impl<const I: usize> Ordered for Role<I> {}
impl<const I: usize> Signed for Role<I> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{GlobalMut, Kernel, Target};

    type X = Role<0>;

    fn doubled() -> Result<String, crate::ir::BuildErrors> {
        let kernel = Kernel::<(GlobalMut<X>,)>::build("k", Target::SM_80, |_, (x,)| {
            x.store(0, x.load(0) + X::from(1.0));
        })?;
        Ok(kernel.to_string())
    }

    /// A scope ends with its closure, and hides the outer one.
    #[test]
    fn a_role_is_the_type_of_its_scope() {
        let of = |scalar| with_roles(&[scalar], || (doubled(), X::scalar()));
        let (float, int) = (of(Scalar::F32).0.unwrap(), of(Scalar::I32).0.unwrap());
        assert!(float.contains("const 1.0 : f32") && int.contains("const 1 : i32"), "{float}{int}");
        with_roles(&[Scalar::F64], || {
            assert_eq!(of(Scalar::F16).1, Scalar::F16);
            assert_eq!(X::scalar(), Scalar::F64);
            let unwound = std::panic::catch_unwind(|| with_roles(&[Scalar::I8], || panic!("no")));
            assert!(unwound.is_err());
            assert_eq!((X::scalar(), Role::<1>::scalar()), (Scalar::F64, Scalar::Bool));
        });
        // Without a scope there is no such kernel.
        assert!(doubled().is_err());
    }

    #[test]
    fn a_literal_has_the_bits_of_its_type() {
        for scalar in Scalar::ALL {
            let found =
                with_roles(&[scalar], || (X::from(1.0).to_const(), X::default().to_const()));
            let expected = match scalar {
                Scalar::F8E4M3 => 0x38,
                Scalar::F8E5M2 | Scalar::F16 => f16::from_f32(1.0).to_bits().into(),
                Scalar::Bf16 => 0x3f80,
                Scalar::F32 | Scalar::Tf32 => 0x3f80_0000,
                Scalar::F64 => 1.0f64.to_bits(),
                _ => 1,
            };
            let expected = if scalar == Scalar::F8E5M2 { expected >> 8 } else { expected };
            assert_eq!(found, (Const::new(scalar, expected), Const::new(scalar, 0)));
            let back = with_roles(&[scalar], || X::from_bits(expected));
            assert_eq!(back, X::from(1.0));
        }
    }
}
