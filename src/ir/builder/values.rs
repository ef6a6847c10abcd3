//! [`Values`] and [`IntoValues`]: what control flow can carry and return, such as a device value, a
//! tuple, array or `Vec` of them, or a struct declared with [`values!`](crate::values).

use std::any::Any;
use std::rc::Rc;

use super::call::Call;
use super::context::Context;
use super::host_part::{HostPart, HostParts};
use super::typed::{Element, IntoVal, Ty, Val};
use crate::ir::entity::Value;
use crate::ir::kernel::SourceLocation;
use crate::ir::op::ValueList;
use crate::ir::types::Type;

/// A type of what a loop can carry and an `if` can return: a device value (named by its [`Ty`]), a
/// tuple, array or `Vec` of such types, a struct declared with [`values!`](crate::values), or `()`.
/// You name it as a bound in generic code; the macro implements it for your structs.
///
/// The type of a `Vec` does not say how many values it has. Its length is one of the group's host
/// parts: [`Values::types`] and [`Values::make`] take it from `lengths`, in order.
pub trait Values: 'static {
    /// The group as it exists in the body `'x`.
    type At<'x>: Clone;

    /// Appends the types of the group's values, in order. A `Vec` without a length in `lengths` is
    /// empty.
    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>);
    /// Takes the group's values from `ids`, in the order of [`Values::types`] of these `lengths`.
    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> Self::At<'x>;
    /// Appends the group's values in the order of [`Values::types`]; checks each for use in `cx`.
    fn ids(group: &Self::At<'_>, cx: &Context, out: &mut ValueList);
    /// Appends what the host knows about the group ([`HostPart`](super::HostPart)), one entry for
    /// each member that has such facts. A group of plain device values has nothing to add.
    fn host_parts(_group: &Self::At<'_>, _out: &mut HostParts) {}
    /// Returns the group `made`, its members updated to the given host facts, which are joined from
    /// all paths.
    fn with_host_parts<'x>(
        _cx: &'x Context,
        made: Self::At<'x>,
        _parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> Self::At<'x> {
        made
    }
}

impl<T: Ty> Values for T {
    type At<'x> = Val<'x, T>;

    fn types(_: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        out.push(T::ty());
    }

    fn make<'x>(
        cx: &'x Context,
        _: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> Val<'x, T> {
        // The caller makes one id for each of `types`. Should it ever not, the value is poison,
        // which no verified kernel contains.
        Val::new(cx, ids.next().unwrap_or_else(|| cx.poison(T::ty())))
    }

    #[track_caller]
    fn ids(value: &Val<'_, T>, cx: &Context, out: &mut ValueList) {
        out.push(cx.operand(*value));
    }
}

impl<V: Values, const N: usize> Values for [V; N] {
    type At<'x> = [V::At<'x>; N];

    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        for _ in 0..N {
            V::types(lengths, out);
        }
    }

    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> [V::At<'x>; N] {
        std::array::from_fn(|_| V::make(cx, lengths, ids))
    }

    #[track_caller]
    fn ids(group: &[V::At<'_>; N], cx: &Context, out: &mut ValueList) {
        for part in group {
            V::ids(part, cx, out);
        }
    }

    fn host_parts(group: &[V::At<'_>; N], out: &mut HostParts) {
        group.iter().for_each(|part| V::host_parts(part, out));
    }

    fn with_host_parts<'x>(
        cx: &'x Context,
        made: [V::At<'x>; N],
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> [V::At<'x>; N] {
        made.map(|part| V::with_host_parts(cx, part, parts))
    }
}

/// The length of a carried `Vec`. Its elements' host parts follow.
pub(super) struct Length(pub(super) usize);

impl HostPart for Length {
    fn join(&self, other: &dyn HostPart) -> Option<Rc<dyn HostPart>> {
        let other = other.as_any().downcast_ref::<Length>()?;
        (self.0 == other.0).then(|| Rc::new(Length(self.0)) as Rc<dyn HostPart>)
    }

    fn text(&self) -> String {
        format!("a `Vec` of length {}", self.0)
    }

    fn advice(&self) -> &'static str {
        "a `Vec` has the same length on all paths"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<V: Values> Values for Vec<V> {
    type At<'x> = Vec<V::At<'x>>;

    fn types(lengths: &mut dyn Iterator<Item = usize>, out: &mut Vec<Type>) {
        for _ in 0..lengths.next().unwrap_or_default() {
            V::types(lengths, out);
        }
    }

    fn make<'x>(
        cx: &'x Context,
        lengths: &mut dyn Iterator<Item = usize>,
        ids: &mut dyn Iterator<Item = Value>,
    ) -> Vec<V::At<'x>> {
        let len = lengths.next().unwrap_or_default();
        (0..len).map(|_| V::make(cx, lengths, ids)).collect()
    }

    #[track_caller]
    fn ids(group: &Vec<V::At<'_>>, cx: &Context, out: &mut ValueList) {
        for part in group {
            V::ids(part, cx, out);
        }
    }

    fn host_parts(group: &Vec<V::At<'_>>, out: &mut HostParts) {
        out.push(Rc::new(Length(group.len())));
        group.iter().for_each(|part| V::host_parts(part, out));
    }

    fn with_host_parts<'x>(
        cx: &'x Context,
        made: Vec<V::At<'x>>,
        parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
    ) -> Vec<V::At<'x>> {
        // `make` has used the length.
        let _ = parts.next();
        made.into_iter().map(|part| V::with_host_parts(cx, part, parts)).collect()
    }
}

/// What you pass as a loop's initial values, or yield from an arm: a group of device values, in
/// which host scalars become constants.
///
/// It is a `Val<'x, T>`, a host scalar, a pointer, a tensor in memory or a fragment from
/// [`tensor`](crate::tensor), a tuple, array or `Vec` of these, or `()`. Pass pointers by value.
/// Pass a fragment by reference: it is the same registers everywhere.
///
/// A `Vec` has as many values as the host chooses when the kernel is built. The initial values say
/// how many. If another path gives more or fewer, the build returns
/// [`BuildErrorKind::CarriedPart`](super::BuildErrorKind::CarriedPart) or
/// [`JoinedPart`](super::BuildErrorKind::JoinedPart), with both lengths.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Val, range};
/// use tilewright::runtime::Device;
/// use tilewright::testing::eval;
///
/// // `items` sums at a time, the number a configuration could choose: 0 + 4 + 8, 1 + 5 + 9, ..
/// let items = 4;
/// let device = Device::default()?;
/// let total: i32 = eval(&device, |k| {
///     let zeros = vec![0; items as usize];
///     let sums = k.for_(range(0, 12).step(items), zeros, |_, first, sums: Vec<Val<'_, i32>>| {
///         (0..items).zip(sums).map(|(i, sum)| sum + first + i).collect()
///     });
///     assert_eq!(sums.len(), 4);
///     sums.into_iter().reduce(|a, b| a.max(b)).unwrap_or(k.constant(0))
/// })?;
/// assert_eq!(total, 3 + 7 + 11);
/// # }
/// # Ok::<(), tilewright::testing::EvalError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a group of device values",
    label = "expected a `Val`, a host scalar, a `TensorPointer`, a `Tensor` in memory or in registers, or a tuple, array or `Vec` of these",
    note = "a `TensorSsa` is not carried as a whole: carry its values (`x.values().to_vec()`), or keep them in a `RegisterTensor`",
    note = "a `CoordTensor` is made of numbers: carry these, and make or slice it in the body",
    note = "structs are declared with `values!`"
)]
pub trait IntoValues<'x> {
    /// The group's type.
    type V: Values;
    /// Returns the group; host values become constants.
    fn at(self, cx: &'x Context) -> <Self::V as Values>::At<'x>;
}

impl<'x, T: Element> IntoValues<'x> for T {
    type V = T;

    #[track_caller]
    fn at(self, cx: &'x Context) -> Val<'x, T> {
        self.into_val(cx)
    }
}

impl<'x, T: Ty> IntoValues<'x> for Val<'x, T> {
    type V = T;

    fn at(self, _: &'x Context) -> Val<'x, T> {
        self
    }
}

impl<'x, I: IntoValues<'x>, const N: usize> IntoValues<'x> for [I; N] {
    type V = [I::V; N];

    #[track_caller]
    fn at(self, cx: &'x Context) -> [<I::V as Values>::At<'x>; N] {
        let _call = Call::new(cx, SourceLocation::caller());
        self.map(|part| part.at(cx))
    }
}

impl<'x, I: IntoValues<'x>> IntoValues<'x> for Vec<I> {
    type V = Vec<I::V>;

    #[track_caller]
    fn at(self, cx: &'x Context) -> Vec<<I::V as Values>::At<'x>> {
        let _call = Call::new(cx, SourceLocation::caller());
        self.into_iter().map(|part| part.at(cx)).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt)*))*) => {$(
        impl<$($name: Values),*> Values for ($($name,)*) {
            type At<'x> = ($($name::At<'x>,)*);

            fn types(_lengths: &mut dyn Iterator<Item = usize>, _out: &mut Vec<Type>) {
                $($name::types(_lengths, _out);)*
            }
            #[allow(clippy::unused_unit, reason = "the macro also makes the empty tuple")]
            fn make<'x>(
                _cx: &'x Context,
                _lengths: &mut dyn Iterator<Item = usize>,
                _ids: &mut dyn Iterator<Item = Value>,
            ) -> Self::At<'x> {
                ($($name::make(_cx, _lengths, _ids),)*)
            }

            #[track_caller]
            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            fn ids(($($name,)*): &Self::At<'_>, _cx: &Context, _out: &mut ValueList) {
                $($name::ids($name, _cx, _out);)*
            }

            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            fn host_parts(($($name,)*): &Self::At<'_>, _out: &mut HostParts) {
                $($name::host_parts($name, _out);)*
            }

            #[allow(clippy::unused_unit, reason = "the macro also makes the empty tuple")]
            fn with_host_parts<'x>(
                _cx: &'x Context,
                _made: Self::At<'x>,
                _parts: &mut dyn Iterator<Item = Rc<dyn HostPart>>,
            ) -> Self::At<'x> {
                ($($name::with_host_parts(_cx, _made.$index, _parts),)*)
            }
        }

        impl<'x, $($name: IntoValues<'x>),*> IntoValues<'x> for ($($name,)*) {
            type V = ($($name::V,)*);

            #[track_caller]
            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            #[allow(clippy::unused_unit, reason = "the macro also makes the empty tuple")]
            fn at(self, _cx: &'x Context) -> <Self::V as Values>::At<'x> {
                let ($($name,)*) = self;
                ($($name.at(_cx),)*)
            }
        }
    )*};
}

tuples! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
}
