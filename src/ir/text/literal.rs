//! Parses constants, and quotes and unquotes texts, for the parser and printer of the text form.

use crate::ir::narrow;
use crate::ir::number::Rounding;
use crate::ir::types::{Const, Scalar};

/// Parses a constant of type `scalar`: the inverse of `Const`'s `Display`. Also accepts hexadecimal
/// integers, the bits of a `tf32` in hexadecimal, and floating-point literals of any length, which
/// round to nearest even (narrow formats by way of `f64`). Returns `None` if the type does not have
/// the value, for example if a finite literal is too large.
#[inline]
pub(super) fn parse(scalar: Scalar, text: &str) -> Option<Const> {
    let bits = match scalar {
        Scalar::Bool => match text {
            "false" => 0,
            "true" => 1,
            _ => return None,
        },
        Scalar::Tf32 if text.starts_with("0x") => {
            let bits = u32::from_str_radix(unsigned(&text["0x".len()..])?, 16).ok()?;
            let is_number = narrow::decode(scalar, bits).is_some_and(|x| !x.is_nan());
            return is_number.then_some(Const::new(scalar, bits.into()));
        }
        Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F16
        | Scalar::Bf16
        | Scalar::Tf32
        | Scalar::F32
        | Scalar::F64 => float(scalar, text)?,
        Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64 => {
            let value = integer(text)?;
            let constant = Const::new(scalar, value as u64);
            return (constant.as_int() == Some(value)).then_some(constant);
        }
    };
    Some(Const::new(scalar, bits))
}

fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (radix, digits) = match digits.strip_prefix("0x") {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    let magnitude = u64::from_str_radix(unsigned(digits)?, radix).ok()?;
    Some(if negative { -i128::from(magnitude) } else { magnitude.into() })
}

/// Rejects a leading sign, which Rust's parsers would accept.
fn unsigned(digits: &str) -> Option<&str> {
    digits.starts_with(|c: char| c.is_ascii_alphanumeric()).then_some(digits)
}

#[inline]
fn float(scalar: Scalar, text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("nan:0x") {
        let bits = u64::from_str_radix(unsigned(digits)?, 16).ok()?;
        let is_nan = match scalar {
            Scalar::F32 => f32::from_bits(u32::try_from(bits).ok()?).is_nan(),
            Scalar::F64 => f64::from_bits(bits).is_nan(),
            _ => {
                let fits = bits >> scalar.bits() == 0;
                fits && narrow::decode(scalar, bits as u32).is_some_and(f64::is_nan)
            }
        };
        return is_nan.then_some(bits);
    }
    let magnitude = text.strip_prefix('-').unwrap_or(text);
    let infinite = magnitude == "inf";
    if !infinite && !magnitude.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (bits, is_infinite) = match scalar {
        Scalar::F32 => {
            let value: f32 = text.parse().ok()?;
            (value.to_bits().into(), value.is_infinite())
        }
        Scalar::F64 => {
            let value: f64 = text.parse().ok()?;
            (value.to_bits(), value.is_infinite())
        }
        _ => {
            let bits = narrow::encode(scalar, text.parse().ok()?, Rounding::NearestEven, false)?;
            let value = narrow::decode(scalar, bits)?;
            // In a format without infinity, a value that is too large becomes NaN.
            if value.is_nan() {
                return None;
            }
            (bits.into(), value.is_infinite())
        }
    };
    (is_infinite == infinite).then_some(bits)
}

/// Quotes a text in printable ASCII.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c == '\'' { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out.push('"');
    out
}

/// Returns the text inside quotes: the inverse of [`quote`].
///
/// # Errors
/// Returns the byte range of the first invalid escape.
#[inline]
pub(super) fn unquote(quoted: &str) -> Result<String, (usize, usize)> {
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    let mut out = String::new();
    let mut rest = inside;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out += plain;
        // The opening quote is one byte, so this is where the backslash is in `quoted`.
        let start = inside.len() - escaped.len();
        let wrong = |len: usize| (start, start + 1 + len);
        let c = escaped.chars().next().unwrap_or_default();
        let mut len = c.len_utf8();
        out.push(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            '\\' | '"' | '\'' => c,
            'u' => {
                let digits = escaped.strip_prefix("u{").and_then(|rest| rest.split_once('}'));
                let (digits, _) = digits.ok_or(wrong(len))?;
                len += digits.len() + 2;
                let code = unsigned(digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                code.and_then(char::from_u32).ok_or(wrong(len))?
            }
            _ => return Err(wrong(len)),
        });
        rest = &escaped[len..];
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for text in ["", "plain", "a\"b\\c\n\r\t\0'", "äöü \u{1f600} \u{7f}", "{:x} ; \u{301}"] {
            let quoted = quote(text);
            assert!(quoted.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{quoted}");
            assert_eq!(unquote(&quoted), Ok(text.to_owned()));
        }
        assert_eq!(unquote("\"ä\\x\""), Err((3, 5)));
        for wrong in ["\\u{110000}", "\\u{}", "\\u{+1}", "\\u41", "\\é"] {
            assert!(unquote(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_constant_is_read_back() {
        let patterns = [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0xffff,
            0x3f80_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fc0_0000,
            0x8000_0000,
            0xff80_0000,
            0xffc0_1234,
            0xffff_ffff,
            0x7fef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            0x8000_0000_0000_0000,
            0xfff0_0000_0000_0000,
            u64::MAX,
        ];
        let spread = (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for bits in patterns.into_iter().chain(spread) {
            for scalar in Scalar::ALL {
                let constant = Const::new(scalar, bits);
                assert_eq!(parse(scalar, &constant.to_string()), Some(constant), "{constant}");
            }
        }
    }

    #[test]
    fn other_spellings() {
        assert_eq!(parse(Scalar::U8, "0xff"), Some(Const::new(Scalar::U8, 255)));
        assert_eq!(parse(Scalar::I8, "-0x80"), Some(Const::new(Scalar::I8, 0x80)));
        assert_eq!(parse(Scalar::F32, "1"), Some(Const::new(Scalar::F32, 0x3f80_0000)));
        assert_eq!(parse(Scalar::Bf16, "0.1"), Some(Const::new(Scalar::Bf16, 0x3dcd)));
        assert_eq!(parse(Scalar::Tf32, "0x3f800001"), Some(Const::new(Scalar::Tf32, 0x3f80_0001)));
        assert_eq!(parse(Scalar::F32, "-25e-2"), Some(Const::new(Scalar::F32, 0xbe80_0000)));
    }

    #[test]
    fn what_a_type_does_not_have() {
        let cases = [
            (Scalar::Bool, "1"),
            (Scalar::U8, "256"),
            (Scalar::U8, "-1"),
            (Scalar::I8, "128"),
            (Scalar::I8, "--1"),
            (Scalar::I8, "-"),
            (Scalar::I8, "0x"),
            (Scalar::I8, "0x-1"),
            (Scalar::I64, "9223372036854775808"),
            (Scalar::U64, "18446744073709551616"),
            (Scalar::I32, "1.0"),
            (Scalar::F32, "1e39"),
            (Scalar::F64, "1e309"),
            (Scalar::F32, "nan"),
            (Scalar::F32, "nan:0x3f800000"),
            (Scalar::F32, "nan:0x17fc00000"),
            (Scalar::F32, "infinity"),
            (Scalar::F32, "0x10"),
            (Scalar::F64, "true"),
            (Scalar::F16, "65520"),
            (Scalar::F16, "nan:0x7c00"),
            (Scalar::F16, "nan:0x17e00"),
            (Scalar::F8E4M3, "inf"),
            (Scalar::F8E4M3, "465"),
            (Scalar::F8E5M2, "0x10"),
            (Scalar::Tf32, "0x7fffe000"),
            (Scalar::Tf32, "0x13f800000"),
        ];
        for (scalar, text) in cases {
            assert_eq!(parse(scalar, text), None, "{text} : {scalar}");
        }
    }
}
