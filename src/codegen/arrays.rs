//! A module's constant arrays: lookup tables that a kernel reads at run time. Equal arrays of
//! several kernels are written once.

use std::collections::HashMap;
use std::fmt::Write;

use crate::ir::KernelIr;
use crate::ir::types::Const;

/// A module's arrays, in the order of their declarations.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    /// Each array's index, by element size and the bits of all elements.
    numbers: HashMap<(u32, Vec<u64>), u64>,
    bytes: u64,
    declarations: String,
}

impl Arrays {
    /// Adds a kernel's arrays and returns their indices, in the kernel's order.
    pub(super) fn add(&mut self, ir: &KernelIr) -> Vec<u64> {
        ir.arrays
            .iter()
            .map(|(_, array)| {
                let size = array.elem.size_bytes();
                let bits: Vec<u64> = array.elements().map(Const::bits).collect();
                let (next, len) = (self.numbers.len() as u64, bits.len());
                let key = (size, bits);
                if let Some(number) = self.numbers.get(&key) {
                    return *number;
                }
                self.bytes = self.bytes.next_multiple_of(size.into()) + array.bytes();
                let numbers: Vec<String> = key.1.iter().map(u64::to_string).collect();
                let (width, numbers) = (8 * size, numbers.join(", "));
                // Writing to a `String` succeeds.
                let _ = writeln!(
                    self.declarations,
                    ".const .align 16 .b{width} $array{next}[{len}] = {{{numbers}}};"
                );
                self.numbers.insert(key, next);
                next
            })
            .collect()
    }

    /// Returns how many bytes all arrays take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the declarations.
    pub(super) fn declarations(&self) -> &str {
        &self.declarations
    }
}
