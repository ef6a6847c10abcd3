//! Writes `printf` as a call of `vprintf`, the function that CUDA gives to every kernel. A call
//! looks like this:
//!
//! ```text
//! .extern .func (.param .b32 $written) vprintf (.param .b64 $format, .param .b64 $values);
//! .global .align 1 .b8 $k_format0[8] = {120, 32, 61, 32, 37, 100, 10, 0};      ("x = %d\n")
//!
//!   .local .align 8 .b8 $values[8];           (the values, as C passes them: natural alignment)
//!   st.local.b32 [$values+0], %r3;
//!   ..
//!   call ($written), vprintf, ($format, $address);
//! ```

use super::entry::Entry;
use super::regs::{Class, Operand, Reg};
use crate::ir::types::{Const, Scalar};
use crate::ir::{Format, Piece, Placeholder, Style, Value};

/// The function's declaration, once in a module.
pub(super) const VPRINTF: &str =
    "\n.extern .func (.param .b32 $written) vprintf (.param .b64 $format, .param .b64 $values);\n";

/// The declarations of a kernel that prints.
#[derive(Debug, Default)]
pub(super) struct Printing {
    /// How many bytes the values of a call need.
    values_bytes: u32,
    formats: u32,
    /// True if the words for `bool` are declared.
    has_words: bool,
}

impl Printing {
    /// Returns the declaration inside the entry.
    pub(super) fn declaration(&self) -> Option<String> {
        let bytes = self.values_bytes;
        (bytes > 0).then(|| format!(".local .align 8 .b8 $values[{bytes}];\n"))
    }
}

/// The C type as which a scalar is passed to a variadic function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Int,
    LongLong,
    Double,
    Word,
}

impl Passed {
    const fn of(scalar: Scalar) -> Passed {
        match scalar {
            Scalar::Bool => Passed::Word,
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::U8 | Scalar::U16 | Scalar::U32 => {
                Passed::Int
            }
            Scalar::I64 | Scalar::U64 => Passed::LongLong,
            Scalar::F8E4M3
            | Scalar::F8E5M2
            | Scalar::F16
            | Scalar::Bf16
            | Scalar::Tf32
            | Scalar::F32
            | Scalar::F64 => Passed::Double,
        }
    }

    const fn bytes(self) -> u32 {
        match self {
            Passed::Int => 4,
            Passed::LongLong | Passed::Double | Passed::Word => 8,
        }
    }
}

/// Returns the format for C's `printf`, with its final zero byte.
fn c_format(format: &Format, scalars: &[Scalar]) -> Vec<u8> {
    let (mut out, mut scalars) = (String::new(), scalars.iter());
    for piece in format.pieces() {
        match piece {
            Piece::Text(text) => out += &text.replace('%', "%%"),
            Piece::Value(placeholder) => {
                if let Some(scalar) = scalars.next() {
                    out += &c_placeholder(placeholder, *scalar);
                }
            }
        }
    }
    let mut bytes = out.into_bytes();
    bytes.push(0);
    bytes
}

fn c_placeholder(placeholder: &Placeholder, scalar: Scalar) -> String {
    let Placeholder { left, plus, prefix, zeros, width, precision, style, .. } = placeholder;
    let mut out = String::new();
    let mut width = *width;
    if *prefix {
        // C writes no prefix for zero, and does not know Rust's prefix for octal numbers.
        out += if *style == Style::Octal { "0o" } else { "0x" };
        width = width.saturating_sub(2);
    }
    out.push('%');
    if left.unwrap_or(scalar == Scalar::Bool) && !zeros {
        out.push('-');
    }
    out += if *plus { "+" } else { "" };
    // A width of 0 would read as a second flag.
    if width > 0 {
        out += if *zeros { "0" } else { "" };
        out += &width.to_string();
    }
    if let Some(precision) = precision {
        out += &format!(".{precision}");
    }
    let passed = Passed::of(scalar);
    out += if passed == Passed::LongLong { "ll" } else { "" };
    out += match (passed, style) {
        (Passed::Word, _) => "s",
        (Passed::Double, Style::LowerExp) => "e",
        (Passed::Double, Style::UpperExp) => "E",
        (Passed::Double, _) if precision.is_some() => "f",
        (Passed::Double, _) => "g",
        (_, Style::LowerHex) => "x",
        (_, Style::UpperHex) => "X",
        (_, Style::Octal) => "o",
        (_, _) if scalar.is_signed() => "d",
        (_, _) => "u",
    };
    out
}

impl Entry<'_> {
    pub(super) fn printf(&mut self, format: &str, values: &[Value]) {
        // The verifier has parsed it and checked that the values are scalars.
        let format = Format::parse(format).unwrap_or_default();
        let scalars: Vec<Scalar> = values.iter().map(|value| self.scalar(*value)).collect();
        let bytes = c_format(&format, &scalars);
        let name = format!("${}_format{}", self.ir.name, self.printing.formats);
        self.printing.formats += 1;
        self.declare_text(&name, &bytes);

        let mut end = 0u32;
        for (value, placeholder) in values.iter().zip(format.placeholders()) {
            let size = Passed::of(self.scalar(*value)).bytes();
            let at = end.next_multiple_of(size);
            end = at + size;
            let (ty, passed) = self.passed(*value, placeholder.style);
            self.begin();
            self.text.push("st.local.");
            self.text.push(ty);
            self.text.push(" [$values+");
            self.text.number(at.into());
            self.text.push("], ");
            self.text.operand(passed);
            self.text.push(";\n");
        }
        self.printing.values_bytes = self.printing.values_bytes.max(end);

        let format = self.address_of_name(&name, "global");
        let values =
            if end > 0 { self.address_of_name("$values", "local").into() } else { Operand::Int(0) };
        self.line("{");
        self.line(".param .b32 $written;");
        self.line(".param .b64 $format;");
        self.line(".param .b64 $address;");
        for (param, value) in [("$format", format.into()), ("$address", values)] {
            self.begin();
            self.text.push("st.param.b64 [");
            self.text.push(param);
            self.text.push("], ");
            self.text.operand(value);
            self.text.push(";\n");
        }
        self.line("call ($written), vprintf, ($format, $address);");
        self.line("}");
    }

    fn line(&mut self, line: &str) {
        self.begin();
        self.text.push(line);
        self.text.push("\n");
    }

    /// Declares a zero-terminated text before the entry.
    fn declare_text(&mut self, name: &str, bytes: &[u8]) {
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        let (len, numbers) = (bytes.len(), numbers.join(", "));
        self.globals += &format!("\n.global .align 1 .b8 {name}[{len}] = {{{numbers}}};");
    }

    /// Returns the generic address of a name that is declared in a space.
    fn address_of_name(&mut self, name: &str, space: &str) -> Reg {
        let to = self.temp(Class::B64);
        self.begin();
        self.text.push("mov.u64 ");
        self.text.reg(to);
        self.text.push(", ");
        self.text.push(name);
        self.text.push(";\n");
        self.ins(&["cvta.", space, ".u64"], &[to.into(), to.into()]);
        to
    }

    /// Returns a value as C passes it, with the type to store it by.
    fn passed(&mut self, value: Value, style: Style) -> (&'static str, Operand) {
        let scalar = self.scalar(value);
        let operand = self.operand(value);
        let constant = match operand {
            Operand::Const(constant) => Some(constant),
            Operand::Reg(_) | Operand::Int(_) => None,
        };
        match Passed::of(scalar) {
            Passed::Int => {
                // In two's complement, a narrow value must not show more bits than its type has.
                let narrow = scalar.is_signed() && scalar.bits() < 32 && style != Style::Display;
                match (operand, narrow) {
                    (Operand::Reg(_), true) => {
                        let bits = self.temp(Class::B32);
                        let mask = Operand::Int((1 << scalar.bits()) - 1);
                        self.ins(&["and.b32"], &[bits.into(), operand, mask]);
                        ("b32", bits.into())
                    }
                    (Operand::Const(constant), true) => {
                        ("b32", Operand::Int(constant.bits() as i64))
                    }
                    (_, _) => ("b32", operand),
                }
            }
            Passed::LongLong => ("b64", operand),
            Passed::Double => match (scalar, constant.and_then(Const::to_f64)) {
                (_, Some(x)) => ("f64", Operand::Const(Const::new(Scalar::F64, x.to_bits()))),
                (Scalar::F64, None) => ("f64", operand),
                (_, None) => {
                    let narrow = scalar.format().is_some();
                    let single = if narrow { self.widened(operand, scalar) } else { operand };
                    let wide = self.temp(Class::F64);
                    self.ins(&["cvt.f64.f32"], &[wide.into(), single]);
                    ("f64", wide.into())
                }
            },
            Passed::Word => {
                let (yes, no) =
                    (format!("${}_true", self.ir.name), format!("${}_false", self.ir.name));
                if !std::mem::replace(&mut self.printing.has_words, true) {
                    self.declare_text(&yes, b"true\0");
                    self.declare_text(&no, b"false\0");
                }
                if let Some(constant) = constant {
                    let word = if constant.bits() != 0 { yes } else { no };
                    return ("b64", self.address_of_name(&word, "global").into());
                }
                let (yes, no) =
                    (self.address_of_name(&yes, "global"), self.address_of_name(&no, "global"));
                self.ins(&["selp.b64"], &[yes.into(), yes.into(), no.into(), operand]);
                ("b64", yes.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_those_of_c() {
        let cases = [
            ("100% {}\n", Scalar::I32, "100%% %d\n"),
            ("{}", Scalar::U8, "%u"),
            ("{:5}", Scalar::I64, "%5lld"),
            ("{:<05}", Scalar::U64, "%05llu"),
            ("{:#010x}", Scalar::U32, "0x%08x"),
            ("{:#o}", Scalar::I16, "0o%o"),
            ("{:+}", Scalar::F32, "%+g"),
            ("{:08.3}", Scalar::F64, "%08.3f"),
            ("{:.2E}", Scalar::F64, "%.2E"),
            ("{:6}", Scalar::Bool, "%-6s"),
            ("{:>6}", Scalar::Bool, "%6s"),
            ("{:#02X}", Scalar::I64, "0x%llX"),
        ];
        for (text, scalar, expected) in cases {
            let format = Format::parse(text).unwrap();
            let found = String::from_utf8(c_format(&format, &[scalar])).unwrap();
            assert_eq!(found, format!("{expected}\0"), "{text}");
        }
    }
}
