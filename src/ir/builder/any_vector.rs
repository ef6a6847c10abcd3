//! [`AnyVector`]: vectors whose type is chosen when the kernel is built. Use it if the width of a
//! copy or the operand type of an MMA is a configuration value.

use super::context::Context;
use super::typed::{Element, IntoVal, MemIndex, Pointer, Val};
use super::vector::{Vector, VectorElement};
use crate::ir::entity::Value;
use crate::ir::op::{Convert, LoadAccess, MatrixCount, MatrixOrder, Mem, Mma, ValueList};
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

/// A scalar or vector whose type is chosen when the kernel is built, not when the Rust code is
/// compiled.
///
/// Use it in code that takes the instruction as data, for example a copy whose width is a
/// configuration value. If Rust knows the type, use [`Vector`], which rustc checks.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::ir::types::Scalar;
///
/// for lanes in [2, 4, 8] {
///     let kernel = Kernel::<(Global<u16>, GlobalMut<u16>)>::build("copy", Target::SM_80, |k, (x, y)| {
///         let i = k.thread_idx().x * lanes;
///         let vector = x.load_any(i, lanes).unwrap();
///         assert_eq!((vector.elem(), vector.lanes()), (Scalar::U16, lanes));
///         assert_eq!(vector.cast(Scalar::U32).unwrap().lanes(), lanes / 2);
///         y.store_vector(i, vector);
///     })?;
///     let bits = 16 * lanes;
///     let name = if bits == 32 { "ld.global.b32".to_owned() } else { format!("ld.global.v{}.b32", bits / 32) };
///     assert!(kernel.ptx().text().contains(&name));
/// }
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy)]
pub struct AnyVector<'b> {
    cx: &'b Context,
    value: Value,
    elem: Scalar,
    lanes: u32,
}

/// Prints `u16x8`, or `u16` for a scalar.
impl std::fmt::Debug for AnyVector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lanes {
            1 => write!(f, "{}", self.elem),
            lanes => write!(f, "{}x{lanes}", self.elem),
        }
    }
}

/// Returns the type of `lanes` elements (a scalar for 1), or `None` if no memory access moves that
/// many.
fn type_of(elem: Scalar, lanes: u32) -> Option<Type> {
    match lanes {
        1 => Some(elem.into()),
        lanes => {
            VectorType::new(elem, lanes).filter(|vector| vector.is_one_access()).map(Type::Vector)
        }
    }
}

impl<'b> AnyVector<'b> {
    fn new(cx: &'b Context, value: Value, elem: Scalar, lanes: u32) -> Self {
        AnyVector { cx, value, elem, lanes }
    }

    /// Returns whether one load or store can move `lanes` elements of this type.
    pub(super) fn has(elem: Scalar, lanes: usize) -> bool {
        u32::try_from(lanes).is_ok_and(|lanes| type_of(elem, lanes).is_some())
    }

    /// Packs values into a vector, the first one as element 0; a single value stays a scalar. Use
    /// it to build an operand for a store or an MMA. Returns `None` if no vector has that many
    /// elements. PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn pack<T: Element>(values: &[Val<'b, T>]) -> Option<Self> {
        let (first, lanes) = (values.first()?, u32::try_from(values.len()).ok()?);
        type_of(T::scalar(), lanes)?;
        let cx = first.context();
        if lanes == 1 {
            return Some(Self::new(cx, first.id(), T::scalar(), 1));
        }
        let values: ValueList = values.iter().map(|value| cx.operand(*value)).collect();
        let vector: Val<'b, T> = cx.emit_val(Convert::VecPack { values });
        Some(Self::new(cx, vector.id(), T::scalar(), lanes))
    }

    /// Returns the element type, for code that distinguishes types when the kernel is built.
    pub fn elem(self) -> Scalar {
        self.elem
    }

    /// Returns how many elements the vector has; a scalar counts as 1.
    pub fn lanes(self) -> u32 {
        self.lanes
    }

    /// Returns the vector's size in bits, for example to check that a [`cast`](AnyVector::cast)
    /// fits.
    pub fn bits(self) -> u32 {
        self.elem.bits() * self.lanes
    }

    /// Reinterprets the bits as elements of type `elem`, for example two `f16` as one `u32`.
    /// Returns `None` if no vector of `elem` has that many bits. PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn cast(self, elem: Scalar) -> Option<Self> {
        if elem == self.elem {
            return Some(self);
        }
        let lanes = self.bits() / elem.bits();
        let no_bool = elem != Scalar::Bool && self.elem != Scalar::Bool;
        if !no_bool || !self.bits().is_multiple_of(elem.bits()) {
            return None;
        }
        let to = type_of(elem, lanes)?;
        let value = self.operand(self.cx);
        let cast: Val<'b, u32> = self.cx.emit_val(Convert::Bitcast { value, to });
        Some(Self::new(self.cx, cast.id(), elem, lanes))
    }

    /// Unpacks the vector into elements of type `T`, reinterpreting the bits if the element type is
    /// another one. Use it to compute with what you loaded. Returns `None` if no vector of `T` has
    /// that many bits. PTX ISA 9.7.9.1 `mov`.
    #[track_caller]
    pub fn values<T: Element>(self) -> Option<Vec<Val<'b, T>>> {
        let vector = self.cast(T::scalar())?;
        if vector.lanes == 1 {
            return Some(vec![Val::new(self.cx, vector.value)]);
        }
        let mut values = Vec::with_capacity(vector.lanes as usize);
        for lane in 0..vector.lanes {
            let vector = vector.operand(self.cx);
            values.push(self.cx.emit_val(Convert::VecExtract { vector, lane }));
        }
        Some(values)
    }

    /// Transposes an 8x8 matrix across the warp, as [`Val::movmatrix`] does. Each lane holds two of
    /// its 16-bit elements. PTX ISA 9.7.14.5.17 `movmatrix`.
    #[track_caller]
    pub fn movmatrix(self) -> Self {
        let value = self.operand(self.cx);
        let moved: Val<'b, u32> = self.cx.emit_val(Mma::Movmatrix { value });
        AnyVector { value: moved.id(), ..self }
    }

    /// Returns the value's id, checked like every other operand.
    #[track_caller]
    pub(super) fn operand(self, cx: &Context) -> Value {
        // The type of the handle only matters if the value is from another build.
        cx.operand(Val::<'_, u32>::new(self.cx, self.value))
    }
}

impl<'b, T: VectorElement<N>, const N: usize> From<Val<'b, Vector<T, N>>> for AnyVector<'b> {
    fn from(vector: Val<'b, Vector<T, N>>) -> Self {
        AnyVector::new(vector.context(), vector.id(), T::scalar(), N as u32)
    }
}

impl<'b, T: Element> From<Val<'b, T>> for AnyVector<'b> {
    fn from(value: Val<'b, T>) -> Self {
        AnyVector::new(value.context(), value.id(), T::scalar(), 1)
    }
}

/// A vector that can be stored as elements of type `T`: a [`Vector`], or an [`AnyVector`] whose
/// type the verifier checks. You name it as a bound in functions that store either.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a vector of `{T}`",
    label = "expected `Val<'_, Vector<{T}, N>>` or `AnyVector<'_>`"
)]
pub trait VectorOf<'b, T>: Into<AnyVector<'b>> {}
impl<'b, T: VectorElement<N>, const N: usize> VectorOf<'b, T> for Val<'b, Vector<T, N>> {}
impl<'b, T> VectorOf<'b, T> for AnyVector<'b> {}

/// # Loads with a configured length
///
/// Loads vectors whose length is chosen when the kernel is built.
impl<'b, P: Pointer> Val<'b, P> {
    /// Loads `lanes` elements at `self + index` in one access, as [`load_vector`](Val::load_vector)
    /// does. Use it if `lanes` is a configuration value. Returns `None` if no vector has that many
    /// elements. PTX ISA 9.7.9.8 `ld`.
    #[track_caller]
    pub fn load_any<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        lanes: u32,
    ) -> Option<AnyVector<'b>> {
        let k = &self.body();
        let elem = P::Elem::scalar();
        type_of(elem, lanes)?;
        if lanes == 1 {
            return Some(self.load(index).into());
        }
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let access = LoadAccess::default();
        let vector: Val<'b, P::Elem> = cx.emit_val(Mem::LdVec { base, index, lanes, access });
        Some(AnyVector::new(cx, vector.id(), elem, lanes))
    }

    /// Loads `count` 8x8 matrices as [`ldmatrix`](Val::ldmatrix) does: a lane gets two elements of
    /// each matrix. Use it if `count` is a configuration value. PTX ISA 9.7.14.5.15 `ldmatrix`.
    #[track_caller]
    pub fn ldmatrix_any<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        count: MatrixCount,
        order: MatrixOrder,
    ) -> AnyVector<'b> {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let vector: Val<'b, P::Elem> = cx.emit_val(Mma::Ldmatrix { base, index, count, order });
        AnyVector::new(cx, vector.id(), P::Elem::scalar(), 2 * count.matrices())
    }
}
