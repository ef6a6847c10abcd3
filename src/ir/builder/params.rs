//! Kernel parameters as Rust types: [`Params`], [`Parameter`] and the macro
//! [`params!`](crate::params).

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::body::Body;
use super::context::Context;
use super::error::BuildErrorKind;
use super::typed::{Ty, Val};
use crate::ir::entity::Value;
use crate::ir::signature::{Signature, SymbolParam, Template, same_symbol, scalar_of};
use crate::ir::types::Type;
use crate::layout::{IntTuple, Layout};

/// The type of one kernel parameter: a [`Ty`] (scalar, pointer or tensor map), a tuple or array of
/// parameters, a struct declared with [`params!`](crate::params), a [`Layout`] or an [`IntTuple`].
///
/// In PTX every scalar and pointer becomes a parameter of its own, in order. A layout or tuple
/// becomes one parameter per symbol that no earlier one has brought (see
/// [`KernelOptions::template`](crate::ir::KernelOptions::template)), an `i32` or `i64` by the
/// symbol's width. A `bool` is passed as one byte, 0 or 1 (`.u8`).
pub trait Parameter: 'static {
    /// What the kernel's body gets for this parameter.
    type At<'b>: Clone;
    /// Declares the scalars and pointers that make up the parameter. The build calls it before the
    /// kernel's body runs.
    fn declare(list: &mut ParamList);
    /// Makes what the body gets, from the values of the declared scalars and pointers.
    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Self::At<'b>;
}

/// The signature of a kernel: a tuple of [`Parameter`] types. You name it in
/// [`Kernel<P>`](crate::ir::Kernel) and as a bound.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the signature of a kernel",
    label = "expected a tuple of at most 12 parameter types",
    note = "a signature with one parameter has a comma: `Kernel<(Global<f32>,)>`",
    note = "parameters are scalars, `Global<T>`, `GlobalMut<T>`, tensor maps, layouts, tuples, arrays and structs declared with `params!`"
)]
pub trait Params: 'static {
    /// What the kernel's body gets for the parameters.
    type At<'b>;
    /// Declares the scalars and pointers that make up the parameters.
    fn declare(list: &mut ParamList);
    /// Makes what the body gets, from the values of the declared scalars and pointers.
    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Self::At<'b>;
}

/// Collects the scalars and pointers that a kernel's parameters consist of. You meet it only in
/// [`Parameter::declare`], which the macro [`params!`](crate::params) writes for you.
#[derive(Debug, Default)]
pub struct ParamList {
    /// Where the declaration is: the parameter, then the fields inside it.
    path: Vec<String>,
    param: usize,
    /// Templates that no parameter has taken yet.
    given: VecDeque<Template>,
    pub(super) leaves: Vec<(String, Type)>,
    /// Indices of the leaves that are not symbols.
    plain: Vec<usize>,
    pub(super) signature: Signature,
    pub(super) errors: Vec<BuildErrorKind>,
}

impl ParamList {
    pub(super) fn new(given: Vec<Template>) -> ParamList {
        ParamList { given: given.into(), ..ParamList::default() }
    }

    /// Declares parameter `param` and its parts.
    pub(crate) fn param(&mut self, param: usize, declare: impl FnOnce(&mut ParamList)) {
        self.param = param;
        self.field(&format!("p{param}"), declare);
    }

    /// Declares a named part of a parameter, such as a struct's field; `declare` adds its scalars
    /// and pointers. The name becomes part of the PTX parameters' names.
    pub fn field(&mut self, name: &str, declare: impl FnOnce(&mut ParamList)) {
        self.path.push(name.to_owned());
        declare(self);
        self.path.pop();
    }

    /// Declares a scalar or a pointer.
    pub(super) fn leaf(&mut self, ty: Type) {
        self.plain.push(self.leaves.len());
        self.push(ty, &[]);
    }

    /// Adds a PTX parameter. Its name is its path, in characters that PTX allows, made unique with
    /// underscores.
    fn push(&mut self, ty: Type, last: &[&str]) {
        let parts = self.path.iter().map(String::as_str).chain(last.iter().copied());
        let mut name = parts.collect::<Vec<_>>().join("_");
        name = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        name.truncate(200);
        while self.leaves.iter().any(|(known, _)| *known == name) {
            name.push('_');
        }
        self.leaves.push((name, ty));
    }

    /// Takes the next template for a layout or tuple, and declares a parameter for each of its new
    /// symbols.
    #[inline]
    fn template(&mut self, wanted: &'static str, is_wanted: fn(&Template) -> bool) {
        let param = self.param;
        let Some(template) = self.given.pop_front() else {
            return self.errors.push(BuildErrorKind::MissingTemplate { param, wanted });
        };
        if !is_wanted(&template) {
            let found = template.to_string();
            return self.errors.push(BuildErrorKind::OtherTemplate { param, wanted, found });
        }
        let (symbols, _) = template.symbols();
        for int in symbols {
            let Some(symbol) = int.as_symbol() else { continue };
            let is_known =
                self.signature.symbols.iter().any(|known| {
                    known.int.as_symbol().is_some_and(|known| same_symbol(known, symbol))
                });
            if !is_known {
                let (index, scalar) = (self.leaves.len(), scalar_of(symbol));
                self.push(scalar.into(), &[symbol.name()]);
                let int = int.clone();
                self.signature.symbols.push(SymbolParam { int, index, scalar });
            }
        }
        self.signature.templates.push((param, template));
    }

    /// Reports unused templates, and symbols that stand alone in no template.
    pub(super) fn finish(&mut self) {
        if !self.given.is_empty() {
            let unused = self.given.len();
            self.errors.push(BuildErrorKind::TooManyTemplates { unused });
        }
        for (param, template) in &self.signature.templates {
            for symbol in template.symbols().1 {
                let is_leaf = self.signature.symbols.iter().any(|known| {
                    known.int.as_symbol().is_some_and(|known| same_symbol(known, &symbol))
                });
                let is_known = |error: &BuildErrorKind| {
                    matches!(error, BuildErrorKind::SymbolWithoutLeaf { param: other, symbol: name, .. }
                        if other == param && name == symbol.name())
                };
                if !is_leaf && !self.errors.iter().any(is_known) {
                    self.errors.push(BuildErrorKind::SymbolWithoutLeaf {
                        param: *param,
                        symbol: symbol.name().to_owned(),
                        template: template.to_string(),
                    });
                }
            }
        }
    }

    /// Pairs the declarations with the values of the kernel's parameters.
    pub(super) fn values<'v>(&'v self, ids: &'v [Value]) -> ParamValues<'v> {
        let plain = self.plain.iter().filter_map(|leaf| ids.get(*leaf)).copied().collect();
        let templates = self.signature.templates.iter().map(|(_, template)| template).collect();
        ParamValues { plain, templates }
    }
}

/// The values of the scalars and pointers that a parameter declared, in the order of declaration.
/// You meet it only in [`Parameter::make`], which the macro [`params!`](crate::params) writes for
/// you.
#[derive(Debug)]
pub struct ParamValues<'v> {
    plain: VecDeque<Value>,
    templates: VecDeque<&'v Template>,
}

impl ParamValues<'_> {
    #[inline]
    fn layout(&mut self) -> Layout {
        match self.templates.pop_front() {
            Some(Template::Layout(layout)) => layout.clone(),
            // `declare` has recorded an error.
            Some(Template::Tuple(_)) | None => Layout::trivial(),
        }
    }

    #[inline]
    fn tuple(&mut self) -> IntTuple {
        match self.templates.pop_front() {
            Some(Template::Tuple(tuple)) => tuple.clone(),
            Some(Template::Layout(_)) | None => IntTuple::leaf(0),
        }
    }
}

/// A parameter's values, from which `P` is made again in every region that uses it. Generic code
/// needs it because rustc cannot shorten the lifetime in `P::At`.
#[derive(Debug)]
pub struct ParamSource<P> {
    plain: VecDeque<Value>,
    templates: Vec<Template>,
    param: PhantomData<fn() -> P>,
}

impl<P> Clone for ParamSource<P> {
    fn clone(&self) -> Self {
        let (plain, templates) = (self.plain.clone(), self.templates.clone());
        ParamSource { plain, templates, param: PhantomData }
    }
}

impl<P: Parameter> ParamSource<P> {
    /// Takes the parameter's values.
    pub(crate) fn take(cx: &Context, values: &mut ParamValues<'_>) -> ParamSource<P> {
        let plain = values.plain.clone();
        let templates = values.templates.iter().map(|template| (*template).clone()).collect();
        P::make(cx, values);
        ParamSource { plain, templates, param: PhantomData }
    }

    /// Makes the parameter for use in `k`.
    pub(crate) fn at<'b>(&self, k: &Body<'b, '_>) -> P::At<'b> {
        let (plain, templates) = (self.plain.clone(), self.templates.iter().collect());
        P::make(k.context(), &mut ParamValues { plain, templates })
    }
}

impl<T: Ty> Parameter for T {
    type At<'b> = Val<'b, T>;

    fn declare(list: &mut ParamList) {
        list.leaf(T::ty());
    }

    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Val<'b, T> {
        Val::new(cx, values.plain.pop_front().unwrap_or_else(|| cx.poison(T::ty())))
    }
}

/// A layout with symbols. Each launch passes a layout with integers, from which the kernel gets the
/// symbols' values.
impl Parameter for Layout {
    type At<'b> = Layout;

    #[inline]
    fn declare(list: &mut ParamList) {
        list.template("a layout", |template| matches!(template, Template::Layout(_)));
    }

    #[inline]
    fn make(_: &Context, values: &mut ParamValues<'_>) -> Layout {
        values.layout()
    }
}

/// A tuple with symbols. Each launch passes a tuple with integers, from which the kernel gets the
/// symbols' values.
impl Parameter for IntTuple {
    type At<'b> = IntTuple;

    #[inline]
    fn declare(list: &mut ParamList) {
        list.template("a tuple", |template| matches!(template, Template::Tuple(_)));
    }

    #[inline]
    fn make(_: &Context, values: &mut ParamValues<'_>) -> IntTuple {
        values.tuple()
    }
}

impl<P: Parameter, const N: usize> Parameter for [P; N] {
    type At<'b> = [P::At<'b>; N];

    fn declare(list: &mut ParamList) {
        (0..N).for_each(|i| list.field(&i.to_string(), P::declare));
    }

    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> [P::At<'b>; N] {
        std::array::from_fn(|_| P::make(cx, values))
    }
}

macro_rules! tuples {
    ($($Trait:ident $part:ident [$(($($name:ident)*))*])*) => {$($(
        impl<$($name: Parameter),*> $Trait for ($($name,)*) {
            type At<'b> = ($($name::At<'b>,)*);

            fn declare(_list: &mut ParamList) {
                let _position = 0usize;
                $(
                    tuples!(@$part _list, _position, $name);
                    let _position = _position + 1;
                )*
            }

            #[allow(clippy::unused_unit, reason = "the macro also makes the empty tuple")]
            fn make<'b>(_cx: &'b Context, _values: &mut ParamValues<'_>) -> Self::At<'b> {
                ($(<$name as Parameter>::make(_cx, _values),)*)
            }
        }
    )*)*};
    (@param $list:ident, $position:ident, $name:ident) => {
        $list.param($position, <$name as Parameter>::declare)
    };
    (@field $list:ident, $position:ident, $name:ident) => {
        $list.field(&$position.to_string(), <$name as Parameter>::declare)
    };
}

tuples! {
    Parameter field [
        ()
        (A)
        (A B)
        (A B C)
        (A B C D)
        (A B C D E)
        (A B C D E F)
        (A B C D E F G)
        (A B C D E F G H)
    ]
    Params param [
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
    ]
}

/// Selects the type of a field in a struct declared with [`params!`](crate::params): one for the
/// signature ([`InSignature`]), another for a launch. Only the macro uses it.
pub trait Field<Side> {
    /// The field's type on this side.
    type Of;
}

/// Marks the signature's side of a parameter struct, so that the struct can be a type in
/// [`Kernel<P>`](crate::ir::Kernel). It has no values.
#[derive(Clone, Copy, Debug)]
pub enum InSignature {}

impl<P: Parameter> Field<InSignature> for P {
    type Of = PhantomData<fn() -> P>;
}

/// Is `T` itself. A bound on `<T as Same<'a>>::This` for every `'a` may be false without an error,
/// so that a device struct is `Copy` exactly if all its fields are.
#[doc(hidden)]
pub trait Same<'a> {
    type This;
}

impl<T> Same<'_> for T {
    type This = T;
}

/// Declares structs that are passed to kernels by value.
///
/// Use it if a kernel has more than a few parameters, or to hand some of them to a helper together.
/// A declaration `struct Scaled => ScaledAt<'b> { .. }` makes two structs with the same fields:
///
/// * `Scaled` is the type in the kernel's signature, and what a launch passes.
/// * `ScaledAt<'b>` holds the device values in the kernel's body. It is a plain struct and `Copy`
///   if its fields are. rustc can shorten its lifetime as it does for a [`Val`](crate::ir::Val), so
///   you can store it in your own structs.
///
/// A field is a scalar, a pointer, a tensor map, or an array or tuple of these. For any other type,
/// such as a [`Layout`](crate::layout::Layout) or another parameter struct, write its device type
/// after `=>`: `inner: Scaled => ScaledAt<'b>`, `layout: Layout => Layout`. A struct may have one
/// type parameter with a bound; repeat it in both names: `struct Scaled<T: Number> => ScaledAt<'b,
/// T> { .. }`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val};
/// use tilewright::runtime::{Device, Grid};
///
/// tilewright::params! {
///     /// A vector and what to do with it.
///     struct Scaled => ScaledAt<'b> {
///         data: Global<f32>,
///         factor: f32,
///         negate: bool,
///     }
/// }
///
/// impl<'b> ScaledAt<'b> {
///     /// Element `i` of the result.
///     fn get(&self, i: Val<'b, i32>) -> Val<'b, f32> {
///         let v = self.data.load(i) * self.factor;
///         self.negate.select(-v, v)
///     }
/// }
///
/// let kernel = Kernel::<(Scaled, GlobalMut<f32>)>::build("scale", Target::SM_80, |k, (x, y)| {
///     let i = k.thread_idx().x;
///     k.if_(i.lt(2), |_| y.store(i, x.get(i)));
/// })?;
/// let device = Device::sim()?;
/// let (data, mut y) = (device.upload(&[1.0, 2.0])?, device.zeros(2)?);
/// let x = Scaled { data: &data, factor: 3.0, negate: true };
/// device.load(&kernel)?.launch(Grid::cover(2, 2), (x, &mut y))?;
/// assert_eq!(y.to_vec()?, [-3.0, -6.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! params {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$T:ident: $Bound:path>)? => $At:ident<$b:lifetime $(, $U:ident)?> {
            $($fields:tt)+
        }
        $($more:tt)*
    ) => {
        $crate::__params! {
            @fields { [$(#[$meta])*] [$vis] $Name [$($T: $Bound)?] $At $b } $b [] $($fields)+
        }
        $crate::params! { $($more)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$T:ident: $Bound:path>)? { $($fields:tt)* }
        $($more:tt)*
    ) => {
        ::std::compile_error!(::std::concat!(
            "`", ::std::stringify!($Name), "` does not name its device type: write `struct ",
            ::std::stringify!($Name),
            $("<", ::std::stringify!($T), ": ", ::std::stringify!($Bound), ">",)?
            " => ", ::std::stringify!($Name), "At<'b", $(", ", ::std::stringify!($T),)? "> { .. }`",
        ));
    };
}

/// Expands one struct of [`params!`](crate::params): collects the fields one by one, each with its
/// device type, then writes the items.
#[doc(hidden)]
#[macro_export]
macro_rules! __params {
    (@fields $head:tt $b:lifetime $done:tt
        $(#[$meta:meta])* $vis:vis $field:ident: $Field:ty => $At:ty $(, $($rest:tt)*)?
    ) => {
        $crate::__params! {
            @add $head $b $done { [$(#[$meta])*] [$vis] $field ($Field) ($At) } $($($rest)*)?
        }
    };
    (@fields $head:tt $b:lifetime $done:tt
        $(#[$meta:meta])* $vis:vis $field:ident: [$($inner:tt)*] $(, $($rest:tt)*)?
    ) => {
        $crate::__params! {
            @add $head $b $done
            { [$(#[$meta])*] [$vis] $field ([$($inner)*]) ($crate::__param_at!($b [$($inner)*])) }
            $($($rest)*)?
        }
    };
    (@fields $head:tt $b:lifetime $done:tt
        $(#[$meta:meta])* $vis:vis $field:ident: ($($inner:tt)*) $(, $($rest:tt)*)?
    ) => {
        $crate::__params! {
            @add $head $b $done
            { [$(#[$meta])*] [$vis] $field (($($inner)*)) ($crate::__param_at!($b ($($inner)*))) }
            $($($rest)*)?
        }
    };
    (@fields $head:tt $b:lifetime $done:tt
        $(#[$meta:meta])* $vis:vis $field:ident: $Field:ty $(, $($rest:tt)*)?
    ) => {
        $crate::__params! {
            @add $head $b $done
            { [$(#[$meta])*] [$vis] $field ($Field) ($crate::ir::Val<$b, $Field>) }
            $($($rest)*)?
        }
    };
    (@fields
        { [$(#[$meta:meta])*] [$vis:vis] $Name:ident [$($T:ident: $Bound:path)?] $At:ident $b:lifetime }
        $also_b:lifetime
        [$({
            [$(#[$field_meta:meta])*] [$field_vis:vis] $field:ident ($Field:ty) ($FieldAt:ty)
        })+]
    ) => {
        $(#[$meta])*
        $vis struct $Name<$($T: $Bound,)? ParamSide = $crate::ir::builder::InSignature>
        where
            $($Field: $crate::ir::builder::Field<ParamSide>),+
        {
            $(
                $(#[$field_meta])*
                $field_vis $field: <$Field as $crate::ir::builder::Field<ParamSide>>::Of
            ),+
        }

        #[doc = ::std::concat!("[`", ::std::stringify!($Name), "`] in the body of a kernel.")]
        $vis struct $At<$b $(, $T: $Bound)?> {
            $(
                $(#[$field_meta])*
                $field_vis $field: $FieldAt
            ),+
        }

        impl$(<$T: $Bound>)? $crate::ir::builder::Parameter for $Name<$($T)?> {
            type At<$b> = $At<$b $(, $T)?>;

            #[inline]
            fn declare(list: &mut $crate::ir::builder::ParamList) {
                $(list.field(stringify!($field), <$Field as $crate::ir::builder::Parameter>::declare);)+
            }

            #[inline]
            fn make<$b>(
                cx: &$b $crate::ir::builder::Context,
                values: &mut $crate::ir::builder::ParamValues<'_>,
            ) -> Self::At<$b> {
                $At { $($field: <$Field as $crate::ir::builder::Parameter>::make(cx, values)),+ }
            }
        }

        #[allow(clippy::non_canonical_clone_impl, reason = "it is `Copy` only if all fields are")]
        impl<$b $(, $T: $Bound)?> ::std::clone::Clone for $At<$b $(, $T)?> {
            fn clone(&self) -> Self {
                $At { $($field: ::std::clone::Clone::clone(&self.$field)),+ }
            }
        }

        impl<$b $(, $T: $Bound)?> ::std::marker::Copy for $At<$b $(, $T)?>
        where
            $(for<'same> <$FieldAt as $crate::ir::builder::Same<'same>>::This: ::std::marker::Copy),+
        {
        }

        $crate::__launch_params! { $Name $(<$T: $Bound>)? { $($field: $Field),+ } }
    };
    (@add $head:tt $b:lifetime [$($done:tt)*] $field:tt $($rest:tt)*) => {
        $crate::__params! { @fields $head $b [$($done)* $field] $($rest)* }
    };
}

/// Expands to the device type of a parameter: a scalar, a pointer, or an array or tuple of these.
#[doc(hidden)]
#[macro_export]
macro_rules! __param_at {
    ($b:lifetime [[$($inner:tt)*]; $len:expr]) => { [$crate::__param_at!($b [$($inner)*]); $len] };
    ($b:lifetime [($($inner:tt)*); $len:expr]) => { [$crate::__param_at!($b ($($inner)*)); $len] };
    ($b:lifetime [$Element:ty; $len:expr]) => { [$crate::ir::Val<$b, $Element>; $len] };
    ($b:lifetime ($($parts:tt)*)) => { $crate::__param_at!(@tuple $b [] $($parts)*) };
    (@tuple $b:lifetime [$($done:ty,)*]) => { ($($done,)*) };
    (@tuple $b:lifetime [$($done:ty,)*] [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__param_at!(@tuple $b [$($done,)* $crate::__param_at!($b [$($inner)*]),] $($($rest)*)?)
    };
    (@tuple $b:lifetime [$($done:ty,)*] ($($inner:tt)*) $(, $($rest:tt)*)?) => {
        $crate::__param_at!(@tuple $b [$($done,)* $crate::__param_at!($b ($($inner)*)),] $($($rest)*)?)
    };
    (@tuple $b:lifetime [$($done:ty,)*] $Part:ty $(, $($rest:tt)*)?) => {
        $crate::__param_at!(@tuple $b [$($done,)* $crate::ir::Val<$b, $Part>,] $($($rest)*)?)
    };
}
