//! What can be wrong with a text, and where.

use std::fmt;

use super::lex::Span;
use crate::ir::target::ParseTargetError;
use crate::ir::types::Scalar;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text has more bytes than a kernel can have.
    TooLong {
        /// The bytes of the text.
        bytes: usize,
        /// The bytes that are read.
        limit: usize,
    },
    /// Too many regions are inside each other.
    TooDeep {
        /// The number that a kernel can have.
        limit: usize,
    },
    /// A character that no part of the form starts with.
    UnknownCharacter {
        /// The character.
        character: char,
    },
    /// A quote that no other one follows on its line.
    UnclosedText,
    /// A backslash that no escape follows.
    InvalidEscape {
        /// What is written.
        text: String,
    },
    /// A `%` or `@` that no name follows.
    InvalidName {
        /// What is written.
        text: String,
    },
    /// A parameter with a number for a name.
    InvalidParamName {
        /// What is written.
        text: String,
    },
    /// Something else than the form asks for.
    Unexpected {
        /// What is asked for.
        expected: &'static str,
        /// What is written.
        found: String,
    },
    /// No such target.
    InvalidTarget(ParseTargetError),
    /// A number that is negative, too large, or no number.
    InvalidNumber {
        /// What is written.
        text: String,
    },
    /// No type has the name.
    UnknownType {
        /// The name.
        name: String,
    },
    /// No state space has the name.
    UnknownSpace {
        /// The name.
        name: String,
    },
    /// No operation has the name.
    UnknownOperation {
        /// The name.
        name: String,
    },
    /// The name stands for nothing: no value, or no variable, allocation or loop above.
    UndefinedName {
        /// The name with its sigil.
        name: String,
    },
    /// The name was given before.
    RepeatedName {
        /// The name with its sigil.
        name: String,
        /// The line that gave it first.
        first_line: u32,
    },
    /// A constant that its type does not have.
    InvalidConstant {
        /// What is written.
        text: String,
        /// The type.
        scalar: Scalar,
    },
    /// More or fewer operands than the operation takes.
    OperandCount {
        /// The operation.
        op: &'static str,
        /// The number that it takes.
        expected: usize,
        /// The number written.
        found: usize,
    },
    /// More or fewer attributes than the operation has.
    AttributeCount {
        /// The operation.
        op: &'static str,
        /// The number that it has.
        expected: usize,
        /// The number written.
        found: usize,
    },
    /// An attribute with a value that it cannot have.
    InvalidAttribute {
        /// The operation.
        op: &'static str,
        /// The attribute.
        attribute: &'static str,
        /// The Rust type of its values.
        ty: &'static str,
        /// What is written.
        text: String,
    },
    /// The results have more or fewer names than types.
    ResultCount {
        /// The number of names.
        names: usize,
        /// The number of types.
        types: usize,
    },
}

/// A number of things.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ParseErrorKind as E;
        match self {
            E::TooLong { bytes, limit } => {
                write!(f, "the text has {bytes} bytes, but at most {limit} are read")
            }
            E::TooDeep { limit } => {
                write!(f, "more than {limit} regions are inside each other")
            }
            E::UnknownCharacter { character } => {
                write!(f, "`{}` starts nothing here", character.escape_debug())
            }
            E::UnclosedText => f.write_str("this quote is not closed on its line"),
            E::InvalidEscape { text } => write!(
                f,
                "`{}` is not an escape: expected `\\n`, `\\r`, `\\t`, `\\0`, `\\\\`, `\\\"`, `\\'` or `\\u{{..}}` with hexadecimal digits",
                text.replace(char::is_control, "\u{fffd}")
            ),
            E::InvalidName { text } => write!(
                f,
                "`{}` is not a name: `%` or `@` is followed by a letter, then letters, digits and `_`; a value may also be a number",
                text.escape_debug()
            ),
            E::InvalidParamName { text } => {
                write!(f, "`{text}` cannot name a parameter: start with a letter")
            }
            E::Unexpected { expected, found } => {
                write!(f, "{expected} is expected, but there is {}", found.escape_debug())
            }
            E::InvalidTarget(error) => error.fmt(f),
            E::InvalidNumber { text } => {
                write!(f, "`{text}` is not a number from 0 to {}", u32::MAX)
            }
            E::UnknownType { name } => {
                write!(f, "`{name}` is not a type: expected a scalar such as `f32`, or `ptr<..>`")
            }
            E::UnknownSpace { name } => {
                write!(f, "`{name}` is not a state space: expected `global`, `shared` or `const`")
            }
            E::UnknownOperation { name } => write!(f, "there is no operation `{name}`"),
            E::UndefinedName { name } if name.starts_with('%') => {
                write!(f, "`{name}` is not defined in this kernel")
            }
            E::UndefinedName { name } => {
                write!(f, "`{name}` is not declared above as what is named here")
            }
            E::RepeatedName { name, first_line } => {
                write!(
                    f,
                    "`{name}` was given on line {first_line} already: each name is given once"
                )
            }
            E::InvalidConstant { text, scalar } => {
                write!(f, "`{text}` is not a constant of type {scalar}")
            }
            E::OperandCount { op, expected, found } => {
                write!(f, "`{op}` takes {}, but is given {found}", Count(*expected, "operand"))
            }
            E::AttributeCount { op, expected, found } => {
                write!(f, "`{op}` has {}, but is given {found}", Count(*expected, "attribute"))
            }
            E::InvalidAttribute { op, attribute, ty, text } => {
                write!(f, "`{text}` is not a value of the attribute `{attribute}: {ty}` of `{op}`")
            }
            E::ResultCount { names, types } => {
                let (names, types) = (Count(*names, "name"), Count(*types, "type"));
                write!(f, "the results have {names}, but {types}")
            }
        }
    }
}

/// Why a text is not a kernel, and where.
///
/// ```
/// use tilewright::ir::{KernelIr, ParseErrorKind};
///
/// let text = "kernel @k target sm_80 (%x: f32) {\n  %y = add %x : f32\n  return\n}\n";
/// let error = text.parse::<KernelIr>().unwrap_err();
/// assert_eq!(error.kind, ParseErrorKind::OperandCount { op: "add", expected: 2, found: 1 });
/// assert_eq!(
///     error.to_string(),
///     "2:8: `add` takes 2 operands, but is given 1\n  |   %y = add %x : f32\n  |        ^^^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// The line at fault, from 1.
    pub line: u32,
    /// The column at fault in characters, from 1.
    pub column: u32,
    /// The line at fault, or the part of it around the column.
    excerpt: String,
    /// Characters of the excerpt before the column.
    before: usize,
    /// Characters at fault.
    width: usize,
}

/// Characters of the excerpt on each side of the column.
const EXCERPT: usize = 80;

impl ParseError {
    /// The error at `span` of `text`.
    pub(super) fn new(text: &str, span: Span, kind: ParseErrorKind) -> ParseError {
        let line_start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_text = text[line_start..].lines().next().unwrap_or_default();
        let line = text[..line_start].matches('\n').count() as u32 + 1;
        let column = text[line_start..span.start].chars().count();
        let skipped = column.saturating_sub(EXCERPT);
        let excerpt: String = line_text
            .chars()
            .skip(skipped)
            .take(2 * EXCERPT)
            .map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        let excerpt = excerpt.trim_end().to_owned();
        let rest = excerpt.chars().count().saturating_sub(column - skipped).max(1);
        let width = text[span.start..span.end].chars().count().clamp(1, rest);
        let column_from_1 = column as u32 + 1;
        let before = column - skipped;
        ParseError { kind, line, column: column_from_1, excerpt, before, width }
    }
}

/// `line:column: ` and what is wrong, then the line with the place marked.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, line, column, excerpt, before, width } = self;
        // A tab of the line stays one in the padding, so that the marks are under what they mark.
        let padding: String =
            excerpt.chars().take(*before).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let bar = if excerpt.is_empty() { "  |" } else { "  | " };
        write!(f, "{line}:{column}: {kind}\n{bar}{excerpt}\n  | {padding}{:^<width$}", "")
    }
}

impl std::error::Error for ParseError {}
