//! Logic of three words, and words of 4-bit integers, on every device.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::device;
use crate::support::kernels::checked;

use tilewright::ir::builder::{Arithmetic, FromInt4, Fused, TruthTable};
use tilewright::ir::{Global, GlobalMut, Kernel, Vector, bf16, f16};
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
            Kernel::<Params>::build("functions", target, |_, (x, y)| {
                let [a, b, c] = [0, 1, 2].map(|i| x.load(i));
                for table in 0..=u8::MAX {
                    let i = 3 * i32::from(table);
                    y.store(i, a.lop3(b, c, function(table)));
                    y.store(i + 1, a.lop3(b, c, |a, b, c| a ^ function(table)(a, b, c)));
                    y.store(i + 2, a.lop3_lut(b, c, table));
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

/// Each pair of integers, in each place of a word and whatever is in the others, has exactly its
/// values.
#[test]
fn integers_of_4_bits_are_unpacked_exactly() {
    fn check<T: FromInt4>(value: fn(f32) -> T)
    where
        Vector<T, 2>: Arithmetic + Fused,
    {
        type Params<T> = (Global<u32>, GlobalMut<T>, GlobalMut<T>);
        // Integers `pair` and `pair + 4` of a word are all values of a byte.
        let words: Vec<u32> = (0..4u32)
            .flat_map(|pair| (0..256u32).map(move |byte| (pair, byte)))
            .flat_map(|(pair, byte)| {
                let both = (byte & 15 | (byte >> 4) << 16) << (4 * pair);
                let others = !(0x000f_000f << (4 * pair));
                [0, u32::MAX, 0x9e37_79b9].map(|filling| both | filling & others)
            })
            .collect();
        let integer = |word: u32, i: u32| (word >> (4 * i) & 15) as i32;
        for device in device::devices() {
            let kernel = checked(&device, |target| {
                Kernel::<Params<T>>::build("unpack", target, |k, (x, unsigned, signed)| {
                    let i = k.block_idx().x * 128 + k.thread_idx().x;
                    let word = x.load(i);
                    let pairs = [word.unpack_u4::<T>(), word.unpack_i4::<T>()];
                    for (to, pairs) in [unsigned, signed].into_iter().zip(pairs) {
                        to.store_slice(i * 8, &pairs.map(|pair| pair.lanes()).concat());
                    }
                })
                .unwrap()
            });
            assert_eq!(kernel.ptx().text().matches("lop3.b32").count(), 8, "{}", kernel.ptx());
            let x = device.upload(&words).unwrap();
            let mut unsigned = device.zeros::<T>(8 * words.len()).unwrap();
            let mut signed = device.zeros::<T>(8 * words.len()).unwrap();
            let grid = Grid::new([words.len() as u32 / 128, 1, 1], [128, 1, 1]);
            let args = (&x, &mut unsigned, &mut signed);
            device.load(&kernel).unwrap().launch(grid, args).unwrap();
            let expected = |read: fn(i32) -> i32| -> Vec<u64> {
                let places = [0, 4, 1, 5, 2, 6, 3, 7];
                let all = words.iter().flat_map(|word| places.map(|i| read(integer(*word, i))));
                all.map(|n| value(n as f32).to_const().bits()).collect()
            };
            let bits = |values: Vec<T>| -> Vec<u64> {
                values.iter().map(|value| value.to_const().bits()).collect()
            };
            assert_eq!(bits(unsigned.to_vec().unwrap()), expected(|n| n), "on {device}");
            let signed = bits(signed.to_vec().unwrap());
            assert_eq!(signed, expected(|n| if n < 8 { n } else { n - 16 }), "on {device}");
        }
    }
    check::<f16>(f16::from_f32);
    check::<bf16>(bf16::from_f32);
}
