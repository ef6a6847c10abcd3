//! Logic of three words, on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::device;
use crate::support::kernels::checked;

use tilewright::ir::builder::TruthTable;
use tilewright::ir::{Global, GlobalMut, Kernel};
use tilewright::runtime::Grid;

/// The function with the given table, as the sum of its minterms.
fn function(table: u8) -> impl Fn(TruthTable, TruthTable, TruthTable) -> TruthTable {
    move |a, b, c| {
        let none = a & !a;
        (0..8u8).filter(|row| table >> row & 1 == 1).fold(none, |sum, row| {
            let literal = |x: TruthTable, bit: u8| if row >> bit & 1 == 1 { x } else { !x };
            sum | literal(a, 2) & literal(b, 1) & literal(c, 0)
        })
    }
}

/// Every function of three bits, written as a closure, is that function of the words' bits.
#[test]
fn closures_are_the_functions_of_the_bits() {
    type Params = (Global<u32>, GlobalMut<u32>);
    for device in device::devices() {
        let kernel = checked(&device, |target| {
            Kernel::<Params>::build("functions", target, |k, (x, y)| {
                let [a, b, c] = [0, 1, 2].map(|i| x.load(k, i));
                for table in 0..=u8::MAX {
                    let i = 3 * i32::from(table);
                    y.store(k, i, a.lop3(b, c, function(table)));
                    y.store(k, i + 1, a.lop3(b, c, |a, b, c| a ^ function(table)(a, b, c)));
                    y.store(k, i + 2, a.lop3_lut(b, c, table));
                }
            })
            .unwrap()
        });
        // All eight rows of a table are in the lowest bits, and the others differ.
        let words = [0x1234_56f0u32, 0x9abc_deccu32, 0x0f1e_2daau32];
        let x = device.upload(&words).unwrap();
        let mut y = device.zeros::<u32>(3 * 256).unwrap();
        device.load(&kernel).unwrap().launch(Grid::cover(1, 1), (&x, &mut y)).unwrap();
        let expected: Vec<u32> = (0..=u8::MAX)
            .flat_map(|table| {
                let bit = |at: u32| {
                    let [a, b, c] = words.map(|word| word >> at & 1);
                    (u32::from(table) >> (4 * a + 2 * b + c) & 1) << at
                };
                let word = (0..32).fold(0, |word, at| word | bit(at));
                [word, word ^ words[0], word]
            })
            .collect();
        assert_eq!(y.to_vec().unwrap(), expected, "on {device}");
    }
}
