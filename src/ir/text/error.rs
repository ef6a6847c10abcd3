//! Errors from parsing a kernel's text, with their position. `Display` shows the faulty line.

use std::fmt;

use super::lex::Span;
use crate::errors::errors;
use crate::ir::target::ParseTargetError;
use crate::ir::types::{Scalar, Space};

errors! {
    /// What is wrong with a kernel's text. Match on [`ParseError::kind`] to tell mistakes apart.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ParseErrorKind {
        /// the text has {bytes} bytes, but at most {limit} are read
        TooLong { bytes: usize, limit: usize },
        /// regions are nested more than {limit} deep
        TooDeep { limit: usize },
        /// A character that cannot start any token.
        UnknownCharacter {
            character: char,
        } = |f| write!(f, "unexpected character `{}`", character.escape_debug()),
        /// this quote is not closed on its line
        UnclosedText,
        /// A backslash that does not start an escape.
        InvalidEscape { text: String } = |f| write!(
            f,
            "`{}` is not an escape: expected `\\n`, `\\r`, `\\t`, `\\0`, `\\\\`, `\\\"`, `\\'` or `\\u{{..}}` with hexadecimal digits",
            text.replace(char::is_control, "\u{fffd}")
        ),
        /// A `%` or `@` without a name after it.
        InvalidName { text: String } = |f| write!(
            f,
            "`{}` is not a name: `%` or `@` is followed by a letter, then letters, digits and `_`; a value may also be a number",
            text.escape_debug()
        ),
        /// `{text}` cannot name a parameter: start with a letter
        InvalidParamName { text: String },
        /// Not what the grammar expects here.
        Unexpected {
            expected: &'static str,
            found: String,
        } = |f| write!(f, "expected {expected}, but found {}", found.escape_debug()),
        /// {error}
        InvalidTarget(error: ParseTargetError),
        /// A number that is negative, too large, or not a number.
        InvalidNumber {
            text: String,
        } = |f| write!(f, "`{text}` is not a number from 0 to {}", u32::MAX),
        /// `{name}` is not a type: expected a scalar such as `f32`, or `ptr<..>`
        UnknownType { name: String },
        /// A name that is no state space.
        UnknownSpace {
            name: String,
        } = |f| {
            let [others @ .., last] = Space::ALL.map(|space| format!("`{space}`"));
            write!(f, "`{name}` is not a state space: expected {} or {last}", others.join(", "))
        },
        /// there is no operation `{name}`
        UnknownOperation { name: String },
        /// An undefined name. Variables, allocations and loops must be declared above their use.
        UndefinedName { name: String } = |f| if name.starts_with('%') {
            write!(f, "`{name}` is not defined in this kernel")
        } else {
            write!(f, "`{name}` is not declared above this line, or is something else")
        },
        /// `{name}` was already given on line {first_line}: give each name only once
        RepeatedName { name: String, first_line: u32 },
        /// `{text}` is not a constant of type {scalar}
        InvalidConstant { text: String, scalar: Scalar },
        /// The wrong number of operands for the operation.
        OperandCount {
            op: &'static str,
            expected: usize,
            found: usize,
        } = |f| write!(f, "`{op}` takes {}, but is given {found}", Count(*expected, "operand")),
        /// The wrong number of attributes for the operation.
        AttributeCount {
            op: &'static str,
            expected: usize,
            found: usize,
        } = |f| write!(f, "`{op}` has {}, but is given {found}", Count(*expected, "attribute")),
        /// `{text}` is not a value of the attribute `{attribute}: {ty}` of `{op}`
        InvalidAttribute {
            op: &'static str,
            attribute: &'static str,
            ty: &'static str,
            text: String,
        },
        /// The result names and the result types differ in number.
        ResultCount { names: usize, types: usize } = |f| {
            let (names, types) = (Count(*names, "name"), Count(*types, "type"));
            write!(f, "the results have {names}, but {types}")
        },
    }
}

/// A count with its noun.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// An error from parsing a kernel's text, with its position. [`parse`](crate::ir::parse) returns
/// it; its `Display` shows the line with the mistake underlined.
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
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// The line of the error, from 1.
    pub line: u32,
    /// The column of the error in characters, from 1.
    pub column: u32,
    /// The line of the error, or the part of it around the column.
    excerpt: String,
    /// How many characters of the excerpt come before the column.
    before: usize,
    /// How many characters to underline.
    width: usize,
}

/// How many characters of the line to show on each side of the column.
const EXCERPT: usize = 80;

impl ParseError {
    /// Creates the error for `span` of `text`.
    #[inline]
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

/// Prints `line:column: ` and the cause, then the line with the error underlined.
impl fmt::Display for ParseError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, line, column, excerpt, before, width } = self;
        // Keep tabs in the padding, so that the marks line up.
        let padding: String =
            excerpt.chars().take(*before).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let bar = if excerpt.is_empty() { "  |" } else { "  | " };
        write!(f, "{line}:{column}: {kind}\n{bar}{excerpt}\n  | {padding}{:^<width$}", "")
    }
}

impl std::error::Error for ParseError {}
crate::errors::message_as_debug!(ParseError);
