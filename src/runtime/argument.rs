//! Defines which Rust values a launch takes for each parameter type, for example a `&Buffer<f32>`
//! for a `Global<f32>`. Implement [`Argument`] to make another parameter type launchable.

use std::marker::PhantomData;

use smallvec::SmallVec;

use super::buffer::{Buffer, Memory};
use super::buffer_ref::{BufferMut, BufferRef};
use super::error::RuntimeError;
use super::tensor_map::{Mapped, TensorMapArg, TensorMapArgMut};
use crate::ir::builder::Field;
use crate::ir::types::{Const, Scalar, Space, Type};
use crate::ir::{
    Element, Global, GlobalMut, Signature, SignatureError, Template, TensorMap, TensorMapMut,
    Untyped,
};
use crate::layout::{IntTuple, Layout};

/// A parameter type that a launch can pass, together with the value that you pass for it: `f32` for
/// `f32`, `&Buffer<T>` for [`Global<T>`](Global), `&mut Buffer<T>` for [`GlobalMut<T>`](GlobalMut),
/// `&Layout` and `&IntTuple` for layouts and tuples of integers, `&TensorMapArg<T>` for
/// [`TensorMap<T, N>`](TensorMap), `&mut TensorMapArgMut<T>` for
/// [`TensorMapMut<T, N>`](TensorMapMut), tuples and arrays of them, and structs that you declare
/// with [`params!`](crate::params).
#[diagnostic::on_unimplemented(
    message = "a launch cannot pass a parameter of type `{Self}`",
    label = "this kernel cannot be launched",
    note = "parameters of a launched kernel are scalars, `Global<T>`, `GlobalMut<T>`, tensor maps, layouts, tuples, arrays and structs declared with `params!`"
)]
pub trait Argument: 'static {
    /// The argument type of this parameter. A launch borrows it for `'h`; `'b` is the lifetime of a
    /// buffer inside it.
    ///
    /// A mutable tensor map needs both lifetimes, because a mutable reference does not shorten the
    /// lifetime inside: with a single lifetime you could pass the map only once. All mutable tensor
    /// maps of one launch share one `'b`, so make them in the same scope.
    type Arg<'h, 'b: 'h>;
    /// Appends the argument to the list, without its Rust type. A launch calls it for each
    /// argument, so that the code which checks and passes the list is compiled only once.
    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>);
}

#[diagnostic::do_not_recommend]
impl<T: Element> Argument for T {
    type Arg<'h, 'b: 'h> = T;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.push(Arg::from(arg));
    }
}

impl<T: Element> Argument for Global<T> {
    type Arg<'h, 'b: 'h> = &'h Buffer<T>;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.push(Arg::from(arg));
    }
}

impl<T: Element> Argument for GlobalMut<T> {
    type Arg<'h, 'b: 'h> = &'h mut Buffer<T>;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.push(Arg::from(arg));
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize> Argument for TensorMap<T, RANK> {
    type Arg<'h, 'b: 'h> = &'h TensorMapArg<'h, T>;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.push(Arg::from(arg));
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, const RANK: usize> Argument for TensorMapMut<T, RANK> {
    type Arg<'h, 'b: 'h> = &'h mut TensorMapArgMut<'b, T>;

    fn erase<'h, 'b: 'h>(arg: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.push(Arg::from(arg));
    }
}

/// A kernel signature that a launch can use: a tuple of [`Argument`] types, or [`Untyped`]. Use it
/// as a bound in functions that launch kernels of any signature.
#[diagnostic::on_unimplemented(
    message = "a kernel of signature `{Self}` cannot be launched",
    label = "not a tuple of types that a launch can pass",
    note = "parameters of a launched kernel are scalars, `Global<T>`, `GlobalMut<T>`, tensor maps, layouts, tuples, arrays and structs declared with `params!`"
)]
pub trait Arguments {
    /// The launch arguments: a tuple with one argument per parameter, or a list for [`Untyped`].
    /// [`Argument::Arg`] explains the lifetimes.
    type Args<'h, 'b: 'h>;
    /// Appends the arguments to the list in order, without their Rust types. A launch calls it
    /// first; everything after that is the same code for all signatures.
    fn erase<'h, 'b: 'h>(args: Self::Args<'h, 'b>, out: &mut ArgList<'h>);
}

/// Launch arguments without their Rust types. [`Arguments::erase`] fills it; you only see it if you
/// implement [`Argument`] for a type of your own.
#[derive(Debug, Default)]
pub struct ArgList<'h> {
    /// Scalars, buffers and tensor maps, in parameter order.
    pub(super) args: SmallVec<[Arg<'h>; 8]>,
    /// Layouts and tuples of integers, which `resolve` turns into one scalar per symbolic integer.
    pub(super) given: Vec<Template>,
}

impl<'h> ArgList<'h> {
    /// Appends another list.
    #[inline]
    pub(crate) fn append(&mut self, other: ArgList<'h>) {
        self.args.extend(other.args);
        self.given.extend(other.given);
    }

    /// Returns the last argument's element count, or `None` if the argument is not a buffer.
    pub(crate) fn last_len(&self) -> Option<usize> {
        match self.args.last()?.value {
            ArgValue::Buffer(_, len) => Some(len),
            ArgValue::Scalar(_) | ArgValue::TensorMap(_) => None,
        }
    }

    /// Appends scalars.
    pub(crate) fn scalars<T: Element, const N: usize>(&mut self, scalars: [T; N]) {
        self.args.extend(scalars.map(Arg::from));
    }

    /// Appends a scalar of any type.
    pub(crate) fn constant(&mut self, scalar: Const) {
        let (ty, value) = (scalar.scalar().into(), ArgValue::Scalar(scalar));
        self.args.push(Arg { ty, value });
    }

    /// Appends a buffer to read.
    pub(crate) fn buffer(&mut self, buffer: BufferRef<'h>) {
        self.args.push(Arg::buffer(buffer, false));
    }

    /// Appends a buffer to write.
    pub(crate) fn buffer_mut(&mut self, buffer: BufferMut<'h>) {
        self.args.push(Arg::buffer(buffer.into_ref(), true));
    }

    /// Appends a tensor map to read.
    pub(crate) fn tensor_map(&mut self, map: &'h Mapped<'_>) {
        self.args.push(Arg::tensor_map(map, false));
    }

    /// Appends a tensor map to write.
    pub(crate) fn tensor_map_mut(&mut self, map: &'h mut Mapped<'_>) {
        self.args.push(Arg::tensor_map(map, true));
    }

    /// Appends a tensor map to write, and the address of its first element, for kernels that store
    /// some tiles through TMA and others directly.
    pub(crate) fn mapped_rows(&mut self, map: &'h mut Mapped<'_>) {
        let map: &'h Mapped<'_> = map;
        let elem = map.desc.elem();
        let len = map.desc.tensor_bytes() / u64::from(elem.size_bytes());
        // The tensor is part of a buffer, so its length fits.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.args.push(Arg::tensor_map(map, true));
        let value = ArgValue::Buffer(map.memory, len);
        self.args.push(Arg { ty: pointer(elem, true), value });
    }

    /// Shortens the list's lifetime. rustc cannot do that by itself, because `SmallVec` is
    /// invariant.
    pub(crate) fn shortened<'s>(self) -> ArgList<'s>
    where
        'h: 's,
    {
        let mut list = ArgList { args: SmallVec::new(), given: self.given };
        for arg in self.args {
            list.args.push(arg);
        }
        list
    }

    /// Replaces layouts and tuples by the values of their symbolic integers, so that each kernel
    /// parameter has an argument.
    pub(super) fn resolve(
        &mut self,
        kernel: &str,
        signature: &Signature,
    ) -> Result<(), RuntimeError> {
        let ArgList { args, given } = self;
        let numbers = signature.bind(given).map_err(|error| refused(kernel, error))?;
        for (index, number) in numbers {
            let (ty, value) = (number.scalar().into(), ArgValue::Scalar(number));
            args.insert(index.min(args.len()), Arg { ty, value });
        }
        Ok(())
    }

    /// Returns an error if a buffer is shorter than the kernel requires.
    #[inline]
    pub(super) fn check_lengths(
        &self,
        kernel: &str,
        signature: &Signature,
    ) -> Result<(), RuntimeError> {
        let number = |index: usize| match self.args.get(index)?.value {
            ArgValue::Scalar(number) => Some(number),
            ArgValue::Buffer(..) | ArgValue::TensorMap(_) => None,
        };
        let len = |index: usize| match self.args.get(index)?.value {
            ArgValue::Buffer(_, len) => Some(len),
            ArgValue::Scalar(_) | ArgValue::TensorMap(_) => None,
        };
        signature.check_lengths(number, len).map_err(|error| refused(kernel, error))
    }
}

fn refused(kernel: &str, error: SignatureError) -> RuntimeError {
    RuntimeError::Signature { kernel: kernel.to_owned(), error: Box::new(error) }
}

/// Passes a layout of integers to a parameter that was built with a symbolic layout. It must have
/// the same nesting, and the same integer wherever the symbolic layout has no symbol.
#[diagnostic::do_not_recommend]
impl Argument for Layout {
    type Arg<'h, 'b: 'h> = &'h Layout;

    #[inline]
    fn erase<'h, 'b: 'h>(arg: &'h Layout, out: &mut ArgList<'h>) {
        out.given.push(arg.into());
    }
}

/// Passes a tuple of integers to a parameter that was built with a symbolic tuple. It must have the
/// same nesting, and the same integer wherever the symbolic tuple has no symbol.
#[diagnostic::do_not_recommend]
impl Argument for IntTuple {
    type Arg<'h, 'b: 'h> = &'h IntTuple;

    #[inline]
    fn erase<'h, 'b: 'h>(arg: &'h IntTuple, out: &mut ArgList<'h>) {
        out.given.push(arg.into());
    }
}

#[diagnostic::do_not_recommend]
impl<A: Argument, const N: usize> Argument for [A; N] {
    type Arg<'h, 'b: 'h> = [A::Arg<'h, 'b>; N];

    fn erase<'h, 'b: 'h>(args: Self::Arg<'h, 'b>, out: &mut ArgList<'h>) {
        args.into_iter().for_each(|arg| A::erase(arg, out));
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($name: Argument),*> Argument for ($($name,)*) {
            type Arg<'h, 'b: 'h> = ($($name::Arg<'h, 'b>,)*);

            #[allow(non_snake_case, reason = "a variable is named as the type of its parameter")]
            fn erase<'h, 'b: 'h>(($($name,)*): Self::Arg<'h, 'b>, _out: &mut ArgList<'h>) {
                $(<$name as Argument>::erase($name, _out);)*
            }
        }
    )*};
}

tuples! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
}

/// Marks the launch side of a struct that is declared with [`params!`](crate::params): with this
/// marker, the struct's fields are the launch arguments. The macro names it; you need not.
#[derive(Clone, Copy, Debug)]
pub struct AtLaunch<'h, 'b>(PhantomData<&'h &'b ()>);

impl<'h, 'b: 'h, A: Argument> Field<AtLaunch<'h, 'b>> for A {
    type Of = A::Arg<'h, 'b>;
}

macro_rules! arguments {
    ($(($($name:ident)*))*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            type Args<'h, 'b: 'h> = ($($name::Arg<'h, 'b>,)*);

            #[allow(non_snake_case, reason = "a variable is named as the type of its parameter")]
            fn erase<'h, 'b: 'h>(($($name,)*): Self::Args<'h, 'b>, _out: &mut ArgList<'h>) {
                $(<$name as Argument>::erase($name, _out);)*
            }
        }
    )*};
}

arguments! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
}

impl Arguments for Untyped {
    type Args<'h, 'b: 'h> = Vec<Arg<'h>>;

    fn erase<'h, 'b: 'h>(args: Self::Args<'h, 'b>, out: &mut ArgList<'h>) {
        out.args.extend(args);
    }
}

/// The signature of a kernel that declares its parameters one by one (`Kernel::declared`). To
/// launch such a kernel, pass an [`ArgList`] with one argument per parameter.
#[derive(Debug)]
pub(crate) enum Declared {}

impl Arguments for Declared {
    type Args<'h, 'b: 'h> = ArgList<'h>;

    fn erase<'h, 'b: 'h>(args: ArgList<'h>, out: &mut ArgList<'h>) {
        *out = args;
    }
}

/// An argument for an untyped kernel, which was not built from Rust types (for example one that was
/// parsed from text), so that the launch has to check the argument's type. You get it with `into()`
/// from a scalar, a `&Buffer<T>`, a `&mut Buffer<T>`, a [`BufferRef`], a [`BufferMut`], or a tensor
/// map.
#[derive(Debug)]
pub struct Arg<'h> {
    pub(super) ty: Type,
    pub(super) value: ArgValue<'h>,
}

#[derive(Debug)]
pub(super) enum ArgValue<'h> {
    Scalar(Const),
    /// Memory, and how many of its elements are passed.
    Buffer(&'h Memory, usize),
    TensorMap(&'h Mapped<'h>),
}

impl<T: Element> From<T> for Arg<'_> {
    fn from(scalar: T) -> Self {
        Arg { ty: T::ty(), value: ArgValue::Scalar(scalar.to_const()) }
    }
}

impl<'h> Arg<'h> {
    fn buffer(buffer: BufferRef<'h>, mutable: bool) -> Self {
        let value = ArgValue::Buffer(buffer.memory(), buffer.len());
        Arg { ty: pointer(buffer.scalar(), mutable), value }
    }

    fn tensor_map(map: &'h Mapped<'_>, mutable: bool) -> Self {
        let (elem, rank) = (map.desc.elem(), map.desc.rank() as u8);
        Arg { ty: Type::TensorMap { elem, rank, mutable }, value: ArgValue::TensorMap(map) }
    }
}

impl<'h, T: Element> From<&'h Buffer<T>> for Arg<'h> {
    fn from(buffer: &'h Buffer<T>) -> Self {
        Arg::buffer(buffer.into(), false)
    }
}

impl<'h, T: Element> From<&'h mut Buffer<T>> for Arg<'h> {
    fn from(buffer: &'h mut Buffer<T>) -> Self {
        Arg::buffer((&*buffer).into(), true)
    }
}

impl<'h> From<BufferRef<'h>> for Arg<'h> {
    fn from(buffer: BufferRef<'h>) -> Self {
        Arg::buffer(buffer, false)
    }
}

impl<'h> From<BufferMut<'h>> for Arg<'h> {
    fn from(buffer: BufferMut<'h>) -> Self {
        Arg::buffer(buffer.into_ref(), true)
    }
}

impl<'h, T: Element> From<&'h TensorMapArg<'_, T>> for Arg<'h> {
    fn from(arg: &'h TensorMapArg<'_, T>) -> Self {
        Arg::tensor_map(arg.mapped(), false)
    }
}

impl<'h, T: Element> From<&'h mut TensorMapArgMut<'_, T>> for Arg<'h> {
    fn from(arg: &'h mut TensorMapArgMut<'_, T>) -> Self {
        Arg::tensor_map(arg.mapped(), true)
    }
}

fn pointer(elem: Scalar, mutable: bool) -> Type {
    Type::Pointer { space: Space::Global, elem, mutable }
}
