//! User structs as groups of device values.

/// Declares structs of device values, which control flow carries and returns like a single value.
///
/// Each struct has one lifetime, the body that its values belong to. Its fields are [`Val`](crate::ir::Val)s,
/// tuples and arrays of these, or other structs declared so. The structs are `Copy`.
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
///     let first = Largest { value: x.load(k, 0), index: k.constant(0) };
///     let found = k.for_(range(1, n), first, |k, i, best| {
///         let value = x.load(k, i);
///         k.if_with(value.gt(best.value), best, |_| Largest { value, index: i })
///     });
///     x.store(k, 0, found.index.cvt::<f32>());
/// })?;
/// assert!(kernel.to_string().contains("for"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[macro_export]
macro_rules! values {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident<$body:lifetime> {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $Field:ty),+ $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $Name<$body> {
            $($(#[$field_meta])* $field_vis $field: $Field),+
        }

        impl $crate::ir::builder::Values for $Name<'static> {
            type At<'x> = $Name<'x>;

            fn types(out: &mut ::std::vec::Vec<$crate::ir::types::Type>) {
                // The lifetime of the declaration is named only inside a function that declares it.
                fn of_fields<$body>(_: &$body (), out: &mut ::std::vec::Vec<$crate::ir::types::Type>) {
                    $(
                        <<$Field as $crate::ir::builder::IntoValues<$body>>::V as $crate::ir::builder::Values>::types(
                            out,
                        );
                    )+
                }
                of_fields(&(), out)
            }

            fn make<'x>(
                cx: &'x $crate::ir::builder::Context,
                ids: &mut dyn ::std::iter::Iterator<Item = $crate::ir::Value>,
            ) -> $Name<'x> {
                fn of_fields<$body>(
                    cx: &$body $crate::ir::builder::Context,
                    ids: &mut dyn ::std::iter::Iterator<Item = $crate::ir::Value>,
                ) -> $Name<$body> {
                    $Name {
                        $($field: <<$Field as $crate::ir::builder::IntoValues<$body>>::V
                            as $crate::ir::builder::Values>::make(cx, ids)),+
                    }
                }
                of_fields(cx, ids)
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

            fn with_host_fields<'x>(
                cx: &'x $crate::ir::builder::Context,
                made: $Name<'x>,
                pattern: &$Name<'_>,
            ) -> $Name<'x> {
                fn of_fields<'made, $body>(
                    cx: &'made $crate::ir::builder::Context,
                    made: $Name<'made>,
                    pattern: &$Name<$body>,
                ) -> $Name<'made> {
                    $Name {
                        $($field: <<$Field as $crate::ir::builder::IntoValues<$body>>::V
                            as $crate::ir::builder::Values>::with_host_fields(
                                cx, made.$field, &pattern.$field,
                            )),+
                    }
                }
                of_fields(cx, made, pattern)
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
