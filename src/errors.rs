//! The macro behind the error enums: a variant's doc comment is its message, so each is
//! written once.

use std::fmt::{self, Write};

/// Defines an error enum whose variants display their doc comments.
///
/// `{field}` in a doc comment prints that field, as in `format!`. If a variant's sentence has
/// branches, give an expression instead: `Variant { a: u32 } = |f| write!(f, ..),` which sees the
/// fields by name. `Variant(error: T)` declares the tuple variant `Variant(T)` and calls its only
/// field `error`. `prefix "..";` in front of the enum starts every sentence. A variant may have one
/// `#[cfg(..)]`, after its doc comment. Fields need no doc comments, because the message names
/// them.
///
/// No error has a `source`: its message already contains the message of its cause.
macro_rules! errors {
    (
        $(prefix $prefix:literal;)?
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[cfg($($cfg:tt)+)])?
                $variant:ident
                $({ $($(#[$field_meta:meta])* $field:ident: $ty:ty),+ $(,)? })?
                $(($inner:ident: $inner_ty:ty))?
                $(= |$f:ident| $by_hand:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "the message of a variant names its fields")]
        pub enum $name {
            $(
                $(#[doc = $doc])+
                $(#[cfg($($cfg)+)])?
                $variant
                $({ $($(#[$field_meta])* $field: $ty),+ })?
                $(($inner_ty))?
            ),+
        }

        impl std::fmt::Display for $name {
            #[allow(unused_variables, reason = "a message may leave a field out")]
            #[inline]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(f.write_str($prefix)?;)?
                match self {
                    $($(#[cfg($($cfg)+)])? errors!(@pattern $variant $({ $($field),+ })? $(($inner))?) => {
                        errors!(@message f [$($doc)+] $(|$f| $by_hand)?)
                    })+
                }
            }
        }

        impl std::error::Error for $name {}
    };
    (@pattern $variant:ident) => { Self::$variant };
    (@pattern $variant:ident { $($field:ident),+ }) => { Self::$variant { $($field),+ } };
    (@pattern $variant:ident ($inner:ident)) => { Self::$variant($inner) };
    (@message $out:ident [$($doc:literal)+] |$f:ident| $by_hand:expr) => {{
        let $f = $out;
        $by_hand
    }};
    (@message $out:ident [$($doc:literal)+]) => {{
        let mut sentence = $crate::errors::Sentence::new($out);
        $(sentence.line(format_args!($doc));)+
        sentence.written
    }};
}
pub(crate) use errors;

/// Implements `Debug` by the error's message, because a `main` that returns an error prints its
/// `Debug`. Errors that are only parts of others keep the derived form.
macro_rules! message_as_debug {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            #[inline]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use message_as_debug;

/// Joins the lines of a doc comment to one sentence. Each line starts with a space, which is
/// dropped from the first.
pub(crate) struct Sentence<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    started: bool,
    /// The first error. It is kept here because a `?` for each line would be half of what the
    /// compiler has to do for an enum.
    pub(crate) written: fmt::Result,
}

impl<'a, 'f> Sentence<'a, 'f> {
    pub(crate) fn new(out: &'a mut fmt::Formatter<'f>) -> Sentence<'a, 'f> {
        Sentence { out, started: false, written: Ok(()) }
    }

    /// Writes a line, unless an earlier one failed.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        if self.written.is_ok() {
            self.written = self.write_fmt(line);
        }
    }
}

impl Write for Sentence<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = if self.started { text } else { text.strip_prefix(' ').unwrap_or(text) };
        self.started = true;
        self.out.write_str(text)
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macro defines public enums")]
mod tests {
    errors! {
        prefix "no: ";
        /// An error.
        pub enum Failed {
            /// the extent {extent} of mode {mode}
            /// is not positive
            Extent { mode: usize, extent: i64 },
            /// Nothing to say of it.
            Branches { left: Option<u8> } = |f| match left {
                Some(left) => write!(f, "{left} is left"),
                None => f.write_str("nothing is left"),
            },
            /// inner: {error}
            Inner(error: std::num::TryFromIntError),
            /// it is empty
            Empty,
            /// no build has this
            #[cfg(all(unix, windows))]
            Never(error: NoSuchType),
        }
    }
    message_as_debug!(Failed);

    #[test]
    fn the_doc_comment_is_the_message() {
        assert_eq!(
            Failed::Extent { mode: 1, extent: -2 }.to_string(),
            "no: the extent -2 of mode 1 is not positive"
        );
        assert_eq!(Failed::Branches { left: Some(3) }.to_string(), "no: 3 is left");
        assert_eq!(Failed::Branches { left: None }.to_string(), "no: nothing is left");
        let inner = u8::try_from(300).unwrap_err();
        assert_eq!(Failed::Inner(inner).to_string(), format!("no: inner: {inner}"));
        assert_eq!(Failed::Empty.to_string(), "no: it is empty");
        assert_eq!(format!("{:?}", Failed::Empty), "no: it is empty");
    }
}
