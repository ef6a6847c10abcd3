//! The parameters of a kernel, as Rust types.

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

/// The type of a parameter: a [`Ty`], a tuple or an array of parameters, a struct declared with
/// [`params!`](crate::params), a [`Layout`] or an [`IntTuple`].
///
/// A kernel gets each scalar and each pointer of them as a parameter of its own, in order; a layout or a
/// tuple is a parameter for each symbol in it that was not a parameter before (see
/// [`KernelOptions::template`](super::KernelOptions::template)). A `bool` is one byte, 0 or 1 (`.u8`);
/// a symbol is `i32` or `i64`, by its width.
pub trait Parameter: 'static {
    /// The parameter as the body of the kernel gets it.
    type At<'b>: Clone;
    /// Declares the scalars and pointers that the parameter is made of.
    fn declare(list: &mut ParamList);
    /// The parameter from the values of what it has declared.
    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Self::At<'b>;
}

/// The signature of a kernel: a tuple of parameter types, each a [`Parameter`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the signature of a kernel",
    label = "expected a tuple of at most 12 parameter types",
    note = "a signature with one parameter has a comma: `Kernel<(Global<f32>,)>`",
    note = "parameters are scalars, `Global<T>`, `GlobalMut<T>`, tensor maps, layouts, tuples, arrays and structs declared with `params!`"
)]
pub trait Params: 'static {
    /// The parameters as the body of the kernel gets them.
    type At<'b>;
    /// Declares the scalars and pointers that the parameters are made of.
    fn declare(list: &mut ParamList);
    /// The parameters from the values of what they have declared.
    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Self::At<'b>;
}

/// The scalars and pointers that the parameters of a kernel are made of. Opaque to users.
#[derive(Debug, Default)]
pub struct ParamList {
    /// The path of the declaration: the parameter, and the fields inside it.
    path: Vec<String>,
    param: usize,
    /// The templates that parameters have not taken yet.
    given: VecDeque<Template>,
    pub(super) leaves: Vec<(String, Type)>,
    /// The leaves that are no symbols.
    plain: Vec<usize>,
    pub(super) signature: Signature,
    pub(super) errors: Vec<BuildErrorKind>,
}

impl ParamList {
    pub(super) fn new(given: Vec<Template>) -> ParamList {
        ParamList { given: given.into(), ..ParamList::default() }
    }

    /// Declares the parameter `param` with its parts.
    pub(crate) fn param(&mut self, param: usize, declare: impl FnOnce(&mut ParamList)) {
        self.param = param;
        self.field(&format!("p{param}"), declare);
    }

    /// Declares a part with the given name.
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

    /// Adds a parameter of the kernel: named by its path, in characters that PTX takes, and once.
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

    /// Declares a layout or a tuple: parameters for the symbols that are its leaves.
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

    /// Finds what is wrong with the declarations as a whole.
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

    /// The values of the declarations, from those of the parameters of the kernel.
    pub(super) fn values<'v>(&'v self, ids: &'v [Value]) -> ParamValues<'v> {
        let plain = self.plain.iter().filter_map(|leaf| ids.get(*leaf)).copied().collect();
        let templates = self.signature.templates.iter().map(|(_, template)| template).collect();
        ParamValues { plain, templates }
    }
}

/// The values of what the parameters of a kernel have declared. Opaque to users.
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
            // An error has been recorded.
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

/// The values of a parameter `P`, from which it is made anew in each region that uses it: the body of a kernel and the
/// regions inside have lifetimes that `P::At` cannot be converted between where `P` is generic.
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
    /// Takes the values of the parameter.
    pub(crate) fn take(cx: &Context, values: &mut ParamValues<'_>) -> ParamSource<P> {
        let plain = values.plain.clone();
        let templates = values.templates.iter().map(|template| (*template).clone()).collect();
        P::make(cx, values);
        ParamSource { plain, templates, param: PhantomData }
    }

    /// The parameter in a region.
    pub(crate) fn at<'b>(&self, k: &Body<'b, '_>) -> P::At<'b> {
        let (plain, templates) = (self.plain.clone(), self.templates.iter().collect());
        P::make(k.context(), &mut ParamValues { plain, templates })
    }
}

impl<T: Ty> Parameter for T {
    type At<'b> = Val<'b, T>;

    fn declare(list: &mut ParamList) {
        list.leaf(T::TYPE);
    }

    fn make<'b>(cx: &'b Context, values: &mut ParamValues<'_>) -> Val<'b, T> {
        Val::new(cx, values.plain.pop_front().unwrap_or_else(|| cx.poison(T::TYPE)))
    }
}

/// A layout with symbols: its numbers come with each launch.
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

/// A tuple with symbols: its numbers come with each launch.
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

/// The type of a field of a struct declared with [`params!`](crate::params) on one side: in a signature
/// ([`InSignature`]), in the body of a kernel ([`OnDevice`]), or at a launch.
pub trait Field<Side> {
    /// The type of the field.
    type Of;
}

/// The side of a struct of parameters that names a type in a signature. No value has it.
#[derive(Clone, Copy, Debug)]
pub enum InSignature {}

/// The side of a struct of parameters that the body of a kernel gets.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice<'b>(PhantomData<&'b ()>);

impl<P: Parameter> Field<InSignature> for P {
    type Of = PhantomData<fn() -> P>;
}

impl<'b, P: Parameter> Field<OnDevice<'b>> for P {
    type Of = P::At<'b>;
}

/// Declares structs that are parameters of kernels, by value.
///
/// A field is anything that a parameter can be: a scalar, a pointer, a tuple, an array, a layout, another
/// such struct. In the signature the name stands for the type; in the body of the kernel the fields are
/// device values; at a launch the fields are what each parameter takes. A struct may have one type parameter
/// with a bound.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// tilewright::params! {
///     /// A vector and what to do with it.
///     struct Scaled {
///         data: Global<f32>,
///         factor: f32,
///         negate: bool,
///     }
/// }
///
/// let kernel = Kernel::<(Scaled, GlobalMut<f32>)>::build("scale", Target::SM_80, |k, (x, y)| {
///     let i = k.thread_idx().x;
///     let v = x.data.load(k, i) * x.factor;
///     y.store(k, i, x.negate.select(-v, v));
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
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$T:ident: $Bound:path>)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $Field:ty),+ $(,)?
        }
    )*) => {$(
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

        impl$(<$T: $Bound>)? $crate::ir::builder::Parameter for $Name<$($T)?> {
            type At<'b> = $Name<$($T,)? $crate::ir::builder::OnDevice<'b>>;

            fn declare(list: &mut $crate::ir::builder::ParamList) {
                $(list.field(stringify!($field), <$Field as $crate::ir::builder::Parameter>::declare);)+
            }

            fn make<'b>(
                cx: &'b $crate::ir::builder::Context,
                values: &mut $crate::ir::builder::ParamValues<'_>,
            ) -> Self::At<'b> {
                $Name { $($field: <$Field as $crate::ir::builder::Parameter>::make(cx, values)),+ }
            }
        }

        impl$(<$T: $Bound>)? ::std::clone::Clone for $Name<$($T,)? $crate::ir::builder::OnDevice<'_>> {
            fn clone(&self) -> Self {
                $Name { $($field: ::std::clone::Clone::clone(&self.$field)),+ }
            }
        }

        $crate::__launch_params! { $Name $(<$T: $Bound>)? { $($field: $Field),+ } }
    )*};
}
