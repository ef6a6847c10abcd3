//! The PTX text under construction: lines, indentation, and comments with Rust source locations. It
//! decides how PTX looks, and the other files what it says.

use std::collections::HashSet;

use super::regs::{Operand, Reg};
use crate::ir::types::Scalar;
use crate::ir::{Entity, KernelIr, SourceLocation};

/// A PTX text under construction.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    depth: usize,
    /// The register name of each variable of the current entry.
    vars: Vec<String>,
}

impl Text {
    pub(super) fn with_capacity(bytes: usize) -> Text {
        Text { out: String::with_capacity(bytes), ..Text::default() }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Names the registers of a kernel's variables: like the kernel does, if that name is valid and
    /// free, otherwise by the variable's index.
    pub(super) fn name_vars(&mut self, ir: &KernelIr) {
        let mut taken = HashSet::new();
        self.vars = ir
            .vars
            .iter()
            .map(|(id, var)| {
                let number = id.index();
                let Some(name) = var.name else { return format!("v{number}") };
                let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                    && name.len() < 64
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    // A letter or two with a number would clash with the writer's registers, and
                    // with special ones.
                    && !name.ends_with(|c: char| c.is_ascii_digit());
                if is_name && taken.insert(name) {
                    name.to_owned()
                } else if is_name {
                    format!("{name}_v{number}")
                } else {
                    format!("v{number}")
                }
            })
            .collect();
    }

    /// Returns the register name of a variable.
    pub(super) fn var_name(&self, var: usize) -> &str {
        self.vars.get(var).map_or("", String::as_str)
    }

    /// Returns how many bytes were written so far: a position for [`insert`](Text::insert).
    pub(super) fn position(&self) -> usize {
        self.out.len()
    }

    /// Inserts `text` at an earlier position.
    pub(super) fn insert(&mut self, position: usize, text: &str) {
        self.out.insert_str(position, text);
    }

    pub(super) fn indent(&mut self) {
        self.depth += 1;
    }

    pub(super) fn dedent(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Starts a line at the current indentation.
    pub(super) fn begin(&mut self) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(super) fn number(&mut self, number: u64) {
        push_u64(&mut self.out, number);
    }

    pub(super) fn signed(&mut self, number: i64) {
        push_i64(&mut self.out, number);
    }

    pub(super) fn reg(&mut self, reg: Reg) {
        match reg {
            Reg::Value(class, number) => {
                self.push(class.prefix());
                self.number(number.into());
            }
            Reg::Part(class, number, index) => {
                self.push(class.prefix());
                self.number(number.into());
                self.push("_");
                self.number(index.into());
            }
            Reg::Temp(class, number) => {
                self.push("%t");
                self.push(&class.prefix()[1..]);
                self.number(number.into());
            }
            Reg::Var(_, var, index) => {
                self.out.push('%');
                if let Some(name) = self.vars.get(var as usize) {
                    self.out.push_str(name);
                }
                self.out.push('_');
                self.number(index.into());
            }
        }
    }

    pub(super) fn operand(&mut self, operand: Operand) {
        match operand {
            Operand::Reg(reg) => self.reg(reg),
            Operand::Int(number) => self.signed(number),
            Operand::Const(constant) => {
                let bits = constant.bits();
                match (constant.scalar(), constant.as_int()) {
                    (Scalar::F32, _) => self.hex("0f", bits, 8),
                    (Scalar::F64, _) => self.hex("0d", bits, 16),
                    (Scalar::Tf32, _) => self.hex("0x", bits, 8),
                    (Scalar::F16 | Scalar::Bf16, _) => self.hex("0x", bits, 4),
                    (Scalar::F8E4M3 | Scalar::F8E5M2, _) => self.hex("0x", bits, 2),
                    (Scalar::U64, _) | (_, None) => self.number(bits),
                    // Every other integer type fits.
                    (_, Some(int)) => self.signed(int as i64),
                }
            }
        }
    }

    fn hex(&mut self, prefix: &str, bits: u64, digits: u32) {
        self.push(prefix);
        for digit in (0..digits).rev() {
            let nibble = (bits >> (4 * digit) & 15) as usize;
            self.out.push(char::from(b"0123456789ABCDEF"[nibble]));
        }
    }

    /// Writes `// file:line`. The file's folders are left out, so that the text does not depend on
    /// where the program was compiled.
    pub(super) fn location(&mut self, location: SourceLocation) {
        self.begin();
        self.push("// ");
        self.ascii(file_name(location));
        self.push(":");
        self.number(location.line.into());
        self.push("\n");
    }

    pub(super) fn ascii(&mut self, name: &str) {
        self.out.extend(ascii(name));
    }
}

/// Returns the file's name, with its folder if the name alone is `mod.rs`: `softmax/mod.rs`,
/// `kernel.rs`.
fn file_name(location: SourceLocation) -> &'static str {
    let path = location.file;
    let start_of_last = |path: &str| path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let name = start_of_last(path);
    match &path[name..] {
        "mod.rs" if name > 0 => &path[start_of_last(&path[..name - 1])..],
        other => other,
    }
}

/// PTX is printable ASCII. Other characters of a file name become `_`.
fn ascii(name: &str) -> impl Iterator<Item = char> {
    let printable = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    name.chars().map(move |c| if printable(c) { c } else { '_' })
}

/// Returns a location as it appears in PTX comments: `file:line`, without the file's folders. Use
/// it to find the instructions of a Rust line in the text.
///
/// ```
/// use tilewright::codegen::location_in_comments;
/// use tilewright::ir::SourceLocation;
/// let location = SourceLocation { file: "src/my kernel.rs", line: 12, column: 5 };
/// assert_eq!(location_in_comments(location), "my_kernel.rs:12");
/// ```
pub fn location_in_comments(location: SourceLocation) -> String {
    let name: String = ascii(file_name(location)).collect();
    format!("{name}:{}", location.line)
}

/// The numbers from 0 to 99, two digits each.
const PAIRS: &str = "\
    0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

fn push_u64(out: &mut String, number: u64) {
    if number < 10 {
        out.push(char::from(b'0' + number as u8));
        return;
    }
    if number >= 100 {
        push_u64(out, number / 100);
    }
    let pair = (number % 100) as usize * 2;
    out.push_str(&PAIRS[pair..pair + 2]);
}

fn push_i64(out: &mut String, number: i64) {
    if number < 0 {
        out.push('-');
    }
    push_u64(out, number.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::types::Const;

    fn text_of(operand: Operand) -> String {
        let mut text = Text::default();
        text.operand(operand);
        text.finish()
    }

    #[test]
    fn constants_print_with_all_their_bits() {
        let cases = [
            (Scalar::I8, 0x80, "-128"),
            (Scalar::U8, 255, "255"),
            (Scalar::I32, 0x8000_0000, "-2147483648"),
            (Scalar::U32, 0xffff_ffff, "4294967295"),
            (Scalar::I64, 1 << 63, "-9223372036854775808"),
            (Scalar::U64, u64::MAX, "18446744073709551615"),
            (Scalar::Bool, 1, "1"),
            (Scalar::Bf16, 0x3f80, "0x3F80"),
            (Scalar::F8E4M3, 0x7e, "0x7E"),
            (Scalar::Tf32, 0x3f80_0000, "0x3F800000"),
            (Scalar::F32, f32::NAN.to_bits().into(), "0f7FC00000"),
            (Scalar::F32, (-0.0f32).to_bits().into(), "0f80000000"),
            (Scalar::F64, f64::INFINITY.to_bits(), "0d7FF0000000000000"),
        ];
        for (scalar, bits, expected) in cases {
            assert_eq!(text_of(Operand::Const(Const::new(scalar, bits))), expected);
        }
        let numbers = [0, 7, 10, 99, 100, 109, 110, 999, 1000, 12_345, -1, -10, i64::MAX, i64::MIN];
        for number in numbers {
            assert_eq!(text_of(Operand::Int(number)), number.to_string());
        }
    }

    #[test]
    fn a_location_is_the_name_of_the_file_in_ascii() {
        let name = |file| {
            let mut text = Text::default();
            text.location(SourceLocation { file, line: 42, column: 7 });
            text.finish()
        };
        assert_eq!(name("/home/me/src/gemm.rs"), "// gemm.rs:42\n");
        assert_eq!(name("C:\\me\\gemm.rs"), "// gemm.rs:42\n");
        assert_eq!(name("ä\n.rs"), "// __.rs:42\n");
    }
}
