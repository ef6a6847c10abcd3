//! Format strings: the messages of `assert` and the text of `printf`.
//!
//! Placeholders look like Rust's, but can express only what C's `printf` can, because that is what
//! a GPU offers. For example, `{}` prints a floating-point value as `%g`, with six significant
//! digits.

use super::types::{Const, Scalar};
use crate::errors::errors;

/// The notation in which a placeholder prints its value, such as decimal or hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// `{}`: integers in decimal, `bool` as `true` or `false`, floating point as C's `%g`, or as
    /// `%f` if there is a precision.
    Display,
    /// `{:x}`: hexadecimal, in two's complement.
    LowerHex,
    /// `{:X}`: hexadecimal in capitals, in two's complement.
    UpperHex,
    /// `{:o}`: octal, in two's complement.
    Octal,
    /// `{:e}`: floating point as C's `%e`.
    LowerExp,
    /// `{:E}`: floating point as C's `%E`.
    UpperExp,
}

/// A placeholder, `{}` or `{:..}`, taken apart. You get it from [`Format::placeholders`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placeholder {
    /// The source text, including the braces.
    pub text: String,
    /// Whether the value is left-aligned when the field is wider than the value. `None` lets the
    /// type decide: numbers are right-aligned, `bool` is left-aligned.
    pub left: Option<bool>,
    /// Whether to print a `+` before nonnegative numbers.
    pub plus: bool,
    /// Whether to print the prefix `0x` or `0o` before hexadecimal and octal numbers.
    pub prefix: bool,
    /// Whether to pad with zeros after the sign and prefix.
    pub zeros: bool,
    /// The minimum field width, in characters.
    pub width: u8,
    /// Digits after the decimal point.
    pub precision: Option<u8>,
    /// The notation of the value.
    pub style: Style,
}

/// A part of a [`Format`]: literal text or a placeholder. [`Format::pieces`] lists them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// A placeholder for a value.
    Value(Placeholder),
}

/// A parsed format string. [`Body::printf`](crate::ir::Body::printf) takes its text; parse it
/// yourself to check a text that is not a literal.
///
/// ```text
/// placeholder = "{" (":" ("<" | ">")? "+"? "#"? "0"? width? ("." precision)? style?)? "}"
/// style       = "x" | "X" | "o" | "e" | "E"
/// ```
///
/// Write `{{` and `}}` for braces and `%%` for a percent sign. A `%` that does not start one of C's
/// conversions may stand alone; conversions such as `%d` and `%5.2f` are errors. Width and
/// precision are at most 255.
///
/// ```
/// use tilewright::ir::{Element, Format};
///
/// let format = Format::parse("{:#06x} is {:.2}")?;
/// assert_eq!(format.to_text(&[255.to_const(), 0.125f32.to_const()]), "0x00ff is 0.12");
/// let error = Format::parse("{:q}").unwrap_err();
/// assert_eq!(error.to_string(), "`{:q}` at character 1 is not a placeholder: write `{}`, or `{:` with an \
///     alignment `<` or `>`, `+`, `#`, `0`, a width, `.` and a precision, one of `x`, `X`, `o`, `e`, `E`, \
///     and `}`");
/// # Ok::<(), tilewright::ir::FormatError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Format {
    pieces: Vec<Piece>,
}

errors! {
    /// Errors from parsing a [`Format`]. Positions count characters from 1.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum FormatError {
        /// A `{` without its `}`.
        UnclosedPlaceholder { position: usize } = |f| write!(
            f,
            "the `{{` at character {position} is not closed: write `{{}}` for a value and `{{{{` for a brace"
        ),
        /// A `}` without its `{`.
        UnopenedPlaceholder {
            position: usize,
        } = |f| write!(f, "the `}}` at character {position} closes nothing: write `}}}}` for a brace"),
        /// The text between braces is not a valid placeholder.
        InvalidPlaceholder { text: String, position: usize } = |f| write!(
            f,
            "`{}` at character {position} is not a placeholder: write `{{}}`, or `{{:` with an alignment `<` or `>`, `+`, `#`, `0`, a width, `.` and a precision, one of `x`, `X`, `o`, `e`, `E`, and `}}`",
            text.escape_debug()
        ),
        /// `{text}` at character {position} is a conversion of C's `printf`: write `{{}}` for the
        /// value, or `%{text}` for the text itself
        Conversion { text: String, position: usize },
        /// character {position} is the zero character, which would end the text on a GPU
        ZeroCharacter { position: usize },
    }
}
crate::errors::message_as_debug!(FormatError);

impl Format {
    /// Parses a format string.
    ///
    /// # Errors
    /// Returns the first position that does not parse.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let position = text[..text.len() - rest.len()].chars().count() + 1;
            rest = &rest[c.len_utf8()..];
            match c {
                '\0' => return Err(FormatError::ZeroCharacter { position }),
                '{' | '}' if rest.starts_with(c) => {
                    plain.push(c);
                    rest = &rest[1..];
                }
                '}' => return Err(FormatError::UnopenedPlaceholder { position }),
                '{' => {
                    let Some((inside, after)) = rest.split_once('}') else {
                        return Err(FormatError::UnclosedPlaceholder { position });
                    };
                    let text = format!("{{{inside}}}");
                    let placeholder = placeholder(inside, &text)
                        .ok_or(FormatError::InvalidPlaceholder { text, position })?;
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Value(placeholder));
                    rest = after;
                }
                '%' if rest.starts_with('%') => {
                    plain.push('%');
                    rest = &rest[1..];
                }
                '%' => match conversion(rest) {
                    Some(len) => {
                        let text = format!("%{}", &rest[..len]);
                        return Err(FormatError::Conversion { text, position });
                    }
                    None => plain.push('%'),
                },
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Format { pieces })
    }

    /// Returns the literal texts and placeholders, in order, for code that formats values itself.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Iterates over the placeholders, in order, for example to count the values that the text
    /// needs.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Value(placeholder) => Some(placeholder),
        })
    }

    /// Formats the values, one per placeholder. A placeholder without a value prints as its own
    /// source text.
    pub fn to_text(&self, values: &[Const]) -> String {
        let (mut out, mut values) = (String::new(), values.iter());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out += text,
                Piece::Value(placeholder) => match values.next() {
                    Some(value) => out += &placeholder.to_text(*value),
                    None => out += &placeholder.text,
                },
            }
        }
        out
    }
}

/// Returns the length of the `printf` conversion at the start of `rest`, the text after a `%`. A
/// space does not count as a flag, so that `5 % of` stays plain text.
fn conversion(rest: &str) -> Option<usize> {
    let is_flag = |c: char| matches!(c, '-' | '+' | '#' | '0'..='9' | '.' | '*');
    let after_flags = rest.trim_start_matches(is_flag);
    let after_length = after_flags.trim_start_matches(['h', 'l', 'j', 'z', 't']);
    let kind = after_length.chars().next()?;
    let is_conversion = matches!(
        kind,
        'd' | 'i'
            | 'o'
            | 'u'
            | 'x'
            | 'X'
            | 'e'
            | 'E'
            | 'f'
            | 'F'
            | 'g'
            | 'G'
            | 'a'
            | 'A'
            | 'c'
            | 's'
            | 'p'
    );
    // `50%discount` is plain text: a letter directly after the conversion means that it is none.
    let next = after_length.chars().nth(1);
    let ends = !next.is_some_and(|c| c.is_ascii_alphabetic());
    (is_conversion && ends).then(|| rest.len() - after_length.len() + 1)
}

/// Parses the placeholder `text`; `inside` is the part between its braces.
fn placeholder(inside: &str, text: &str) -> Option<Placeholder> {
    let mut rest = match inside.strip_prefix(':') {
        Some(rest) => rest,
        None if inside.is_empty() => "",
        None => return None,
    };
    let mut flag = |flag: &str| match rest.strip_prefix(flag) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    };
    let left = match (flag("<"), flag(">")) {
        (true, true) => return None,
        (false, false) => None,
        (left, _) => Some(left),
    };
    let (plus, prefix, zeros) = (flag("+"), flag("#"), flag("0"));
    let width = number(&mut rest)?.unwrap_or(0);
    let precision = match rest.strip_prefix('.') {
        Some(after) => {
            rest = after;
            Some(number(&mut rest)??)
        }
        None => None,
    };
    let style = match rest {
        "" => Style::Display,
        "x" => Style::LowerHex,
        "X" => Style::UpperHex,
        "o" => Style::Octal,
        "e" => Style::LowerExp,
        "E" => Style::UpperExp,
        _ => return None,
    };
    let text = text.to_owned();
    Some(Placeholder { text, left, plus, prefix, zeros, width, precision, style })
}

/// Parses the integer at the start of `rest`, if there is one. Returns `None` if it is too large.
fn number(rest: &mut &str) -> Option<Option<u8>> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    if digits.is_empty() { Some(None) } else { digits.parse().ok().map(Some) }
}

impl Placeholder {
    /// Returns why this placeholder cannot print values of type `scalar`, or `None` if it can. The
    /// verifier puts the reason into its error.
    pub fn refusal(&self, scalar: Scalar) -> Option<&'static str> {
        let is_float = scalar.is_float();
        match self.style {
            Style::LowerHex | Style::UpperHex | Style::Octal if !scalar.is_int() => {
                return Some("hexadecimal and octal are for integers");
            }
            Style::LowerExp | Style::UpperExp if !is_float => {
                return Some("an exponent is for floating point numbers");
            }
            Style::Display
            | Style::LowerHex
            | Style::UpperHex
            | Style::Octal
            | Style::LowerExp
            | Style::UpperExp => {}
        }
        let in_digits = self.style == Style::Display;
        if self.precision.is_some() && !is_float {
            Some("a precision is for floating point numbers")
        } else if self.plus && !(is_float || scalar.is_signed() && in_digits) {
            Some("`+` is for signed numbers")
        } else if self.prefix && (in_digits || is_float) {
            Some("`#` is for hexadecimal and octal numbers")
        } else if self.prefix && self.width > 0 && !self.zeros {
            Some("a number with `#` can be filled with zeros only: write `0` before the width")
        } else if self.zeros && scalar == Scalar::Bool {
            Some("only numbers are filled with zeros")
        } else {
            None
        }
    }

    /// Formats one value as the simulator prints it: as C's `printf` would.
    pub fn to_text(&self, value: Const) -> String {
        let (negative, mut body, is_number) = match (value.as_int(), self.style) {
            (Some(int), Style::Display) => (int < 0, int.unsigned_abs().to_string(), true),
            (Some(_), Style::LowerHex | Style::LowerExp) => {
                (false, format!("{:x}", value.bits()), true)
            }
            (Some(_), Style::UpperHex | Style::UpperExp) => {
                (false, format!("{:X}", value.bits()), true)
            }
            (Some(_), Style::Octal) => (false, format!("{:o}", value.bits()), true),
            (None, _) => match value.to_f64() {
                Some(x) => (x.is_sign_negative(), self.float(x.abs()), x.is_finite()),
                None => (false, (value.bits() != 0).to_string(), false),
            },
        };
        let mut start = if negative {
            "-".to_owned()
        } else if self.plus {
            "+".to_owned()
        } else {
            String::new()
        };
        if self.prefix {
            start += if self.style == Style::Octal { "0o" } else { "0x" };
        }
        let width = usize::from(self.width);
        let missing = width.saturating_sub(start.len() + body.len());
        if self.zeros && is_number {
            body.insert_str(0, &"0".repeat(missing));
        }
        let text = start + &body;
        let left = self.left.unwrap_or(value.scalar() == Scalar::Bool);
        if left && !self.zeros { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }

    /// Formats a nonnegative number as C does.
    fn float(&self, x: f64) -> String {
        let upper = self.style == Style::UpperExp;
        let special = match (x.is_nan(), x.is_infinite(), upper) {
            (true, _, false) => "nan",
            (true, _, true) => "NAN",
            (_, true, false) => "inf",
            (_, true, true) => "INF",
            (false, false, _) => "",
        };
        if !special.is_empty() {
            return special.to_owned();
        }
        let precision = self.precision.map(usize::from);
        match (self.style, precision) {
            (Style::LowerExp | Style::UpperExp, _) => {
                let (digits, exponent) = scientific(x, precision.unwrap_or(6));
                let text = with_exponent(&digits, exponent);
                if upper { text.to_uppercase() } else { text }
            }
            (_, Some(precision)) => format!("{x:.precision$}"),
            (_, None) => general(x),
        }
    }
}

/// Returns `x` with one digit before the decimal point, and the decimal exponent.
fn scientific(x: f64, precision: usize) -> (String, i32) {
    let text = format!("{x:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => (digits.to_owned(), exponent.parse().unwrap_or(0)),
        None => (text, 0),
    }
}

/// Appends the exponent as C does: always with a sign, and with at least two digits.
fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Formats as C's `%g`: six significant digits without trailing zeros, with an exponent if it is
/// below -4 or above 5.
fn general(x: f64) -> String {
    let shorten = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let (digits, exponent) = scientific(x, 5);
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => shorten(&format!("{x:.decimals$}")),
        _ => with_exponent(&shorten(&digits), exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Element;

    fn text(format: &str, value: impl Element) -> String {
        let format = Format::parse(format).unwrap();
        let refusal = format.placeholders().find_map(|p| p.refusal(value.to_const().scalar()));
        assert_eq!(refusal, None);
        format.to_text(&[value.to_const()])
    }

    /// The expected texts follow ISO C11 7.21.6.1 and were checked against glibc.
    #[test]
    fn floating_point_is_written_as_c_writes_it() {
        let cases: [(&str, f64, &str); 24] = [
            ("{}", 0.0, "0"),
            ("{}", -0.0, "-0"),
            ("{}", 1.0, "1"),
            ("{}", 0.1, "0.1"),
            ("{}", 123_456.0, "123456"),
            ("{}", 1_234_567.0, "1.23457e+06"),
            ("{}", 999_999.5, "1e+06"),
            ("{}", 0.0001, "0.0001"),
            ("{}", 0.000_099_999_94, "9.99999e-05"),
            ("{}", 0.000_099_999_999, "0.0001"),
            ("{}", 1e300, "1e+300"),
            ("{}", f64::INFINITY, "inf"),
            ("{:E}", f64::NEG_INFINITY, "-INF"),
            ("{:05}", f64::INFINITY, "  inf"),
            ("{:.3}", 2.0005, "2.001"),
            ("{:.0}", 2.5, "2"),
            ("{:8.2}", -1.5, "   -1.50"),
            ("{:08.2}", -1.5, "-0001.50"),
            ("{:<8.2}|", 1.5, "1.50    |"),
            ("{:+}", 1.5, "+1.5"),
            ("{:e}", 1.5, "1.500000e+00"),
            ("{:.2E}", 1.5e-9, "1.50E-09"),
            ("{:.0e}", 1.6e100, "2e+100"),
            ("{:12e}", -1.0, "-1.000000e+00"),
        ];
        for (format, x, expected) in cases {
            assert_eq!(text(format, x), expected, "{format} of {x:?}");
        }
        assert_eq!(text("{}", 0.1f32), "0.1");
        assert_eq!(text("{}", f32::NAN), "nan");
    }

    #[test]
    fn integers_and_truth_values() {
        assert_eq!(text("{}", -128i8), "-128");
        assert_eq!(text("{:x}", -1i8), "ff");
        assert_eq!(text("{:#010X}", 0xbeefu32), "0x0000BEEF");
        assert_eq!(text("{:#o}", 8u64), "0o10");
        assert_eq!(text("{:+5}|", 7i16), "   +7|");
        assert_eq!(text("{:05}", -7i64), "-0007");
        assert_eq!(text("{:<4}|", u64::MAX), "18446744073709551615|");
        assert_eq!(text("{:6}|{{}}", true), "true  |{}");
        assert_eq!(text("{:>6}", false), " false");
    }

    #[test]
    fn what_is_no_format() {
        use FormatError as E;
        let invalid = |text: &str, position| E::InvalidPlaceholder { text: text.into(), position };
        let cases = [
            ("a{", E::UnclosedPlaceholder { position: 2 }),
            ("é}", E::UnopenedPlaceholder { position: 2 }),
            ("{0}", invalid("{0}", 1)),
            ("x{:?}", invalid("{:?}", 2)),
            ("{:256}", invalid("{:256}", 1)),
            ("{:.}", invalid("{:.}", 1)),
            ("{:<>4}", invalid("{:<>4}", 1)),
            ("\0", E::ZeroCharacter { position: 1 }),
        ];
        for (text, error) in cases {
            assert_eq!(Format::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn what_a_placeholder_does_not_take() {
        let refusals = [
            ("{:x}", Scalar::F32),
            ("{:o}", Scalar::Bool),
            ("{:e}", Scalar::I32),
            ("{:.2}", Scalar::I32),
            ("{:.2}", Scalar::Bool),
            ("{:+}", Scalar::U8),
            ("{:+x}", Scalar::I8),
            ("{:#}", Scalar::I8),
            ("{:#e}", Scalar::F64),
            ("{:#8x}", Scalar::U32),
            ("{:05}", Scalar::Bool),
        ];
        for (text, scalar) in refusals {
            let format = Format::parse(text).unwrap();
            assert!(format.placeholders().all(|p| p.refusal(scalar).is_some()), "{text}");
        }
        let plain = Format::parse("{}").unwrap();
        for scalar in Scalar::ALL {
            assert!(plain.placeholders().all(|p| p.refusal(scalar).is_none()), "{scalar}");
        }
    }
}
