//! Instructions whose operands are of several kinds: addresses, lists of registers, boxes of tensors.

use super::entry::Entry;
use super::mem::Place;
use super::regs::Operand;

/// An operand of an instruction as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'p> {
    /// A register or a constant.
    One(Operand),
    /// `[register+offset]`
    At(Place),
    /// `{register, ..}`
    List(&'p [Operand]),
    /// `[map, {coordinate, ..}]`
    Box(Operand, &'p [Operand]),
}

impl Entry<'_> {
    /// Writes an instruction: the parts of its name, then its operands.
    pub(super) fn instruction(&mut self, name: &[&str], parts: &[Part<'_>]) {
        self.begin();
        name.iter().for_each(|part| self.text.push(part));
        for (i, part) in parts.iter().enumerate() {
            self.text.push(if i == 0 { " " } else { ", " });
            match *part {
                Part::One(operand) => self.text.operand(operand),
                Part::At(place) => self.write_place(place),
                Part::List(operands) => self.list(operands),
                Part::Box(map, coords) => {
                    self.text.push("[");
                    self.text.operand(map);
                    self.text.push(", ");
                    self.list(coords);
                    self.text.push("]");
                }
            }
        }
        self.text.push(";\n");
    }

    fn list(&mut self, operands: &[Operand]) {
        self.text.push("{");
        for (i, operand) in operands.iter().enumerate() {
            if i > 0 {
                self.text.push(", ");
            }
            self.text.operand(*operand);
        }
        self.text.push("}");
    }
}
