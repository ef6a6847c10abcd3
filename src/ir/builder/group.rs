//! The macro [`values!`](crate::values): your own structs of device values, so that a loop can
//! carry them or an `if` return them under field names.

/// Declares structs of device values that control flow carries and returns like a single value.
///
/// Each struct has one lifetime, that of the body its values belong to. A field is a
/// [`Val`](crate::ir::Val), a pointer, a tuple, array or `Vec` of these, another such struct, or a
/// tensor in memory or a fragment from [`tensor`](crate::tensor). The structs are `Copy`; write
/// `: Clone` after the name of one that holds tensors or a `Vec`.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, range};
///
/// tilewright::values! {
///     /// The largest value so far and where it was seen.
///     struct Largest<'b> {
///         value: Val<'b, f32>,
///         index: Val<'b, i32>,
///     }
/// }
///
/// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("arg_max", Target::SM_80, |k, (x, n)| {
///     let first = Largest { value: x.load(0), index: k.constant(0) };
///     let found = k.for_(range(1, n), first, |k, i, best| {
///         let value = x.load(i);
///         k.if_with(value.gt(best.value), best, |_| Largest { value, index: i })
///     });
///     x.store(0, found.index.cvt::<f32>());
/// })?;
/// assert!(kernel.to_string().contains("for"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
///
/// A struct with a tensor is `Clone` only:
///
/// ```
/// tilewright::values! {
///     struct Rows<'b>: Clone {
///         tile: tilewright::tensor::view::GlobalTensor<'b, f32>,
///         first: tilewright::ir::Val<'b, i32>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! values {
    (@copy $Name:ident) => {
        impl ::std::marker::Copy for $Name<'_> {}
    };
    (@copy $Name:ident, Clone) => {};
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident<$body:lifetime> $(: $Clone:ident)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $Field:ty),+ $(,)?
        }
    )*) => {$(
        $crate::values! { @copy $Name $(, $Clone)? }

        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $Name<$body> {
            $($(#[$field_meta])* $field_vis $field: $Field),+
        }

        impl $crate::ir::builder::Values for $Name<'static> {
            type At<'x> = $Name<'x>;

            fn types(
                lengths: &mut dyn ::std::iter::Iterator<Item = usize>,
                out: &mut ::std::vec::Vec<$crate::ir::types::Type>,
            ) {
                // The declaration's lifetime can only be named inside a function that declares it.
                fn of_fields<$body>(
                    _: &$body (),
                    lengths: &mut dyn ::std::iter::Iterator<Item = usize>,
                    out: &mut ::std::vec::Vec<$crate::ir::types::Type>,
                ) {
                    $(
                        <<$Field as $crate::ir::builder::IntoValues<$body>>::V as $crate::ir::builder::Values>::types(
                            lengths, out,
                        );
                    )+
                }
                of_fields(&(), lengths, out)
            }

            fn make<'x>(
                cx: &'x $crate::ir::builder::Context,
                lengths: &mut dyn ::std::iter::Iterator<Item = usize>,
                ids: &mut dyn ::std::iter::Iterator<Item = $crate::ir::Value>,
            ) -> $Name<'x> {
                fn of_fields<$body>(
                    cx: &$body $crate::ir::builder::Context,
                    lengths: &mut dyn ::std::iter::Iterator<Item = usize>,
                    ids: &mut dyn ::std::iter::Iterator<Item = $crate::ir::Value>,
                ) -> $Name<$body> {
                    $Name {
                        $($field: <<$Field as $crate::ir::builder::IntoValues<$body>>::V
                            as $crate::ir::builder::Values>::make(cx, lengths, ids)),+
                    }
                }
                of_fields(cx, lengths, ids)
            }

            #[track_caller]
            fn ids(
                group: &$Name<'_>,
                cx: &$crate::ir::builder::Context,
                out: &mut $crate::ir::op::ValueList,
            ) {
                #[track_caller]
                fn of_fields<$body>(
                    group: &$Name<$body>,
                    cx: &$crate::ir::builder::Context,
                    out: &mut $crate::ir::op::ValueList,
                ) {
                    $(
                        <<$Field as $crate::ir::builder::IntoValues<$body>>::V as $crate::ir::builder::Values>::ids(
                            &group.$field, cx, out,
                        );
                    )+
                }
                of_fields(group, cx, out)
            }

            fn host_parts(group: &$Name<'_>, out: &mut $crate::ir::builder::HostParts) {
                fn of_fields<$body>(
                    group: &$Name<$body>,
                    out: &mut $crate::ir::builder::HostParts,
                ) {
                    $(
                        <<$Field as $crate::ir::builder::IntoValues<$body>>::V as $crate::ir::builder::Values>::host_parts(
                            &group.$field, out,
                        );
                    )+
                }
                of_fields(group, out)
            }

            fn with_host_parts<'x>(
                cx: &'x $crate::ir::builder::Context,
                made: $Name<'x>,
                parts: &mut dyn ::std::iter::Iterator<
                    Item = ::std::rc::Rc<dyn $crate::ir::builder::HostPart>,
                >,
            ) -> $Name<'x> {
                fn of_fields<$body>(
                    cx: &$body $crate::ir::builder::Context,
                    made: $Name<$body>,
                    parts: &mut dyn ::std::iter::Iterator<
                        Item = ::std::rc::Rc<dyn $crate::ir::builder::HostPart>,
                    >,
                ) -> $Name<$body> {
                    $Name {
                        $($field: <<$Field as $crate::ir::builder::IntoValues<$body>>::V
                            as $crate::ir::builder::Values>::with_host_parts(
                                cx, made.$field, parts,
                            )),+
                    }
                }
                of_fields(cx, made, parts)
            }
        }

        impl<$body> $crate::ir::builder::IntoValues<$body> for $Name<$body> {
            type V = $Name<'static>;

            fn at(self, _: &$body $crate::ir::builder::Context) -> $Name<$body> {
                self
            }
        }
    )*};
}
