//! Prints and parses fixed sets of names, such as scalar types and comparison predicates. `named!`
//! gives an attribute enum its names.

use std::fmt;

/// The error of parsing a name that is not in its set. The message lists all valid names.
///
/// ```
/// use tilewright::ir::op::Compare;
/// use tilewright::ir::types::Scalar;
///
/// assert_eq!("f32".parse::<Scalar>()?, Scalar::F32);
/// let error = "lower".parse::<Compare>().unwrap_err();
/// let message = "`lower` is not a comparison: expected one of `eq`, `ne`, `lt`";
/// assert!(error.to_string().starts_with(message));
/// # Ok::<(), tilewright::ir::ParseNameError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ParseNameError {
    what: &'static str,
    text: String,
    names: Vec<String>,
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}: expected one of ", self.text.escape_debug(), self.what)?;
        for (i, name) in self.names.iter().enumerate() {
            write!(f, "{}`{name}`", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseNameError {}
crate::errors::message_as_debug!(ParseNameError);

/// Returns the member of `all` that prints as `text`. `what` describes the set for the error
/// message, with an article: "a scalar type".
pub(in crate::ir) fn find<T: Copy + fmt::Display>(
    what: &'static str,
    all: &[T],
    text: &str,
) -> Result<T, ParseNameError> {
    let index = position(what, all.len(), &|i| all[i].to_string(), text)?;
    Ok(all[index])
}

/// Returns the index of the name that equals `text`, among `len` names.
fn position(
    what: &'static str,
    len: usize,
    name: &dyn Fn(usize) -> String,
    text: &str,
) -> Result<usize, ParseNameError> {
    let mut names = Vec::new();
    for index in 0..len {
        let name = name(index);
        if name == text {
            return Ok(index);
        }
        names.push(name);
    }
    Err(ParseNameError { what, text: text.to_owned(), names })
}

/// Defines `ALL`, `name`, `Display` and `FromStr` for a fieldless enum. Each row gives the type,
/// its noun with an article for error messages, and each variant's name.
macro_rules! named {
    ($($ty:ident, $what:literal: $($Variant:ident = $name:literal),* $(,)?;)*) => {$(
        impl $ty {
            /// All variants, in order.
            pub const ALL: &'static [$ty] = &[$($ty::$Variant),*];

            /// Returns PTX's name for the variant, which printed kernels use too.
            pub const fn name(self) -> &'static str {
                match self {
                    $($ty::$Variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $ty {
            type Err = $crate::ir::name::ParseNameError;

            fn from_str(text: &str) -> Result<$ty, $crate::ir::name::ParseNameError> {
                $crate::ir::name::find($what, $ty::ALL, text)
            }
        }
    )*};
}

pub(in crate::ir) use named;
