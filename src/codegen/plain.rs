//! Writes operations that are a single PTX instruction, by the mnemonic in the operation's row of
//! the op table. A new operation of this kind needs a row there and no code here.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::entry::Entry;
use super::regs::{Class, arith_type};
use crate::ir::Value;
use crate::ir::op::{FloatArith, IntArith, Op, OpInfo, TypeSuffix};
use crate::ir::types::{Scalar, VectorType};

/// Attribute values that PTX expresses without a suffix.
const WITHOUT_SUFFIX: [&str; 3] = ["keep", "position", "index"];

const fn are_plain(rows: &[OpInfo]) -> bool {
    let mut row = 0;
    while row < rows.len() {
        if rows[row].mnemonic.is_none() {
            return false;
        }
        row += 1;
    }
    true
}

const _: () = assert!(
    are_plain(FloatArith::INFO) && are_plain(IntArith::INFO),
    "each row of these families names its instruction"
);

/// Replaces each `{attribute}` and `{.attribute}` in a mnemonic.
fn with_attributes(op: &Op, info: &OpInfo, text: &'static str) -> Cow<'static, str> {
    if !text.contains('{') {
        return text.into();
    }
    let values = op.attributes();
    let mut name = text.to_owned();
    for ((attribute, _), value) in info.attributes.iter().zip(&values) {
        let dotted = match WITHOUT_SUFFIX.contains(&value.as_str()) {
            true => String::new(),
            false => format!(".{value}"),
        };
        name = name.replace(&format!("{{.{attribute}}}"), &dotted);
        name = name.replace(&format!("{{{attribute}}}"), value);
    }
    name.into()
}

impl Entry<'_> {
    /// Writes the instruction of an operation whose row has a mnemonic.
    pub(super) fn plain(&mut self, op: &Op, result: Value) {
        let Some((info, mnemonic)) = op.info().and_then(|info| Some((info, info.mnemonic?))) else {
            return;
        };
        let text = with_attributes(op, info, mnemonic.text);
        let values = op.operands();
        let to = self.def(result);
        let mut name: SmallVec<[&str; 6]> = SmallVec::from_slice(&[text.as_ref()]);
        match (mnemonic.suffix, &values[..]) {
            (TypeSuffix::Result | TypeSuffix::Wrapped, _) => {
                name.extend([".", self.computed_type(result)]);
            }
            (TypeSuffix::Operand, [first, ..]) => {
                name.extend([".", arith_type(self.scalar(*first))]);
            }
            (TypeSuffix::Bits, [first, ..]) => {
                name.extend([".", Class::of(self.ir.type_of(*first)).bits_name()]);
            }
            (TypeSuffix::Select, [first, .., last]) => {
                name.extend([".", Class::of(self.ir.type_of(*first)).bits_name()]);
                name.extend([".", arith_type(self.scalar(*last))]);
            }
            (TypeSuffix::Halves, _) => {
                let elem = self.ir.type_of(result).vector().map(VectorType::elem);
                name.push(match elem {
                    Some(Scalar::U16) => ".u16x2",
                    Some(_) => ".s16x2",
                    None => ".s32",
                });
            }
            (TypeSuffix::Dot, [lhs, rhs, ..]) => {
                name.extend([lhs, rhs].map(|value| match self.scalar(*value).is_signed() {
                    true => ".s32",
                    false => ".u32",
                }));
            }
            (
                TypeSuffix::None
                | TypeSuffix::Operand
                | TypeSuffix::Bits
                | TypeSuffix::Select
                | TypeSuffix::Dot,
                _,
            ) => {}
        }
        self.write_op(&name, to, &values);
        if mnemonic.suffix == TypeSuffix::Wrapped {
            self.wrap(to, self.scalar(result));
        }
    }
}
