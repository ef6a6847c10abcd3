//! Lets control flow carry and return pointers, tensors in memory and fragments. The builder uses
//! it if a loop or an `if` takes or yields such a value, for example a pointer that moves in each
//! iteration.
//!
//! A carried tensor has a device part (the pointer value) and a host part (layout, alignment,
//! swizzle). Both branches, or both ends of a loop body, must agree on the host part.

use std::any::Any;
use std::rc::Rc;

use super::engine::{FragmentPart, Rmem};
use super::pointer::{PointerPart, TensorPointer};
use super::tensor::{RegisterTensor, Tensor};
use crate::ir::builder::{Context, HostPart, HostParts, IntoValues, Ty, Values};
use crate::ir::op::ValueList;
use crate::ir::types::Type;
use crate::ir::{Pointer as PointerType, Registers, Value};
use crate::layout::{Layout, Names};

impl HostPart for PointerPart {
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>> {
        let other = other.as_any().downcast_ref::<PointerPart>()?;
        Some(Rc::new(self.joined(other)?))
    }

    fn text(&self) -> String {
        format!("a pointer {self}")
    }

    fn advice(&self) -> &'static str {
        "state the other one's alignment with `assume_aligned`, or start with `without_alignment`; \
         a swizzled pointer must keep its swizzle and its offset"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<P: PointerType> Values for TensorPointer<'static, P> {
    type At<'x> = TensorPointer<'x, P>;

    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        P::types(lengths, out);
    }

    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> TensorPointer<'x, P> {
        TensorPointer::new(P::make(cx, lengths, ids))
    }

    #[track_caller]
    fn ids(pointer: &TensorPointer<'_, P>, cx: &Context, out: &mut ValueList) {
        P::ids(&pointer.carried(), cx, out);
    }

    fn host_parts(pointer: &TensorPointer<'_, P>, out: &mut HostParts) {
        out.push(Rc::new(pointer.part()));
    }

    fn with_host_parts<'x>(
        _: &'x Context,
        made: TensorPointer<'x, P>,
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> TensorPointer<'x, P> {
        let part = parts.next();
        match part.as_ref().and_then(|part| part.as_any().downcast_ref::<PointerPart>()) {
            Some(part) => made.with_part(part),
            None => made,
        }
    }
}

impl<'x, P: PointerType> IntoValues<'x> for TensorPointer<'x, P> {
    type V = TensorPointer<'static, P>;

    fn at(self, _: &'x Context) -> TensorPointer<'x, P> {
        self
    }
}

/// What the host knows of a carried tensor.
#[derive(Clone)]
struct TensorPart<E> {
    engine: E,
    layout: Layout,
    names: Names,
    poisoned: bool,
}

impl<E: Clone> TensorPart<E> {
    fn of<F>(tensor: &Tensor<F>, engine: E) -> Self {
        let Tensor { layout, names, poisoned, .. } = tensor;
        TensorPart { engine, layout: layout.clone(), names: names.clone(), poisoned: *poisoned }
    }

    fn tensor<F>(&self, engine: F) -> Tensor<F> {
        let TensorPart { layout, names, poisoned, .. } = self.clone();
        Tensor { engine, layout, names, poisoned }
    }

    /// Returns the part that describes both tensors, if their engines can be joined by `join`.
    fn joined(&self, other: &Self, join: impl FnOnce(&E, &E) -> Option<E>) -> Option<Self> {
        // The error of the poisoned tensor has been recorded already.
        if self.poisoned || other.poisoned {
            return Some(TensorPart { poisoned: true, ..self.clone() });
        }
        let same = self.layout == other.layout && self.names == other.names;
        let engine = same.then(|| join(&self.engine, &other.engine))??;
        Some(TensorPart { engine, ..self.clone() })
    }
}

impl HostPart for TensorPart<PointerPart> {
    #[inline]
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>> {
        let other = other.as_any().downcast_ref::<Self>()?;
        Some(Rc::new(self.joined(other, PointerPart::joined)?))
    }

    #[inline]
    fn text(&self) -> String {
        format!("a tensor {} o {}{}", self.engine, self.layout, self.names)
    }

    fn advice(&self) -> &'static str {
        "a carried tensor must keep its layout, and its pointer its alignment and swizzle: give \
         both the same layout, or carry the pointer and make the tensor in the body"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<P: PointerType> Values for Tensor<TensorPointer<'static, P>> {
    type At<'x> = Tensor<TensorPointer<'x, P>>;

    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        P::types(lengths, out);
    }

    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> Self::At<'x> {
        // Without its host part we know nothing of the tensor. That happens only after another
        // error.
        let tensor =
            Tensor::from_parts(TensorPointer::new(P::make(cx, lengths, ids)), Layout::trivial());
        Tensor { poisoned: true, ..tensor }
    }

    #[track_caller]
    fn ids(tensor: &Self::At<'_>, cx: &Context, out: &mut ValueList) {
        P::ids(&tensor.engine.carried(), cx, out);
    }

    fn host_parts(tensor: &Self::At<'_>, out: &mut HostParts) {
        out.push(Rc::new(TensorPart::of(tensor, tensor.engine.part())));
    }

    fn with_host_parts<'x>(
        _: &'x Context,
        made: Self::At<'x>,
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> Self::At<'x> {
        let part = parts.next();
        match part.as_ref().and_then(|part| part.as_any().downcast_ref()) {
            Some(part @ TensorPart { engine, .. }) => part.tensor(made.engine.with_part(engine)),
            None => made,
        }
    }
}

impl<'x, P: PointerType> IntoValues<'x> for Tensor<TensorPointer<'x, P>> {
    type V = Tensor<TensorPointer<'static, P>>;

    fn at(self, _: &'x Context) -> Self {
        self
    }
}

impl<T: Ty> HostPart for TensorPart<FragmentPart<T>> {
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>> {
        let other = other.as_any().downcast_ref::<Self>()?;
        let place = |part: &FragmentPart<T>| (part.registers, part.offset);
        let join = |a: &FragmentPart<T>, b: &FragmentPart<T>| (place(a) == place(b)).then_some(*a);
        Some(Rc::new(self.joined(other, join)?))
    }

    fn text(&self) -> String {
        let FragmentPart { registers, offset, .. } = self.engine;
        let (layout, names) = (&self.layout, &self.names);
        let ty = T::ty();
        format!("the fragment rmem<{ty}> o {layout}{names} in the registers {registers}+{offset}")
    }

    fn advice(&self) -> &'static str {
        "registers have no addresses, so all paths must carry the same fragment: make it before, \
         and copy the elements into it"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: Ty> Values for RegisterTensor<'static, T> {
    type At<'x> = RegisterTensor<'x, T>;

    fn types(_: &mut dyn Iterator<Item = usize>, _: &mut Vec<Type>) {}

    fn make<'x>(
        cx: &'x Context,
        _: &mut dyn Iterator<Item = usize>,
        _: &mut dyn Iterator<Item = Value>,
    ) -> RegisterTensor<'x, T> {
        // Without its host part we know nothing of the fragment. That happens only after another
        // error.
        let tensor = Tensor::from_parts(Rmem::new(Registers::of_build(cx)), Layout::trivial());
        Tensor { poisoned: true, ..tensor }
    }

    fn ids(_: &RegisterTensor<'_, T>, _: &Context, _: &mut ValueList) {}

    fn host_parts(tensor: &RegisterTensor<'_, T>, out: &mut HostParts) {
        out.push(Rc::new(TensorPart::of(tensor, tensor.engine.part())));
    }

    #[track_caller]
    fn with_host_parts<'x>(
        cx: &'x Context,
        made: RegisterTensor<'x, T>,
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> RegisterTensor<'x, T> {
        let part = parts.next();
        let part: Option<&TensorPart<FragmentPart<T>>> =
            part.as_ref().and_then(|part| part.as_any().downcast_ref());
        match part {
            Some(part) => {
                let engine = Rmem::bound(cx, part.engine);
                let live = part.poisoned || engine.variables().is_declared();
                Tensor { poisoned: part.poisoned || !live, ..part.tensor(engine) }
            }
            None => made,
        }
    }
}

impl<'x, T: Ty> IntoValues<'x> for RegisterTensor<'x, T> {
    type V = RegisterTensor<'static, T>;

    fn at(self, _: &'x Context) -> Self {
        self
    }
}
