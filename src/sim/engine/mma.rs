//! The arithmetic of tensor cores, for `mma.sync` and `wgmma`.
//!
//! Products are exact. An instruction adds its products to the accumulator one after the other, by
//! rising `k`, and rounds each time to nearest even in `f32`. In `f64` it rounds `a * b + c` once.
//! Integers wrap, or are clamped to `i32` once at the end. `f16` accumulators are widened to `f32`,
//! summed there, and rounded once at the end. A NaN result has one fixed bit pattern. Tensor cores
//! instead align several products to the largest exponent, truncate the lower bits and add them at
//! once, so the last bits of a GPU's result differ unless every sum is exact. `truncate.rs` models
//! this truncation.
//!
//! All fragments follow one scheme (PTX ISA, "Matrix Fragments for mma.m16n8k16" and others). In a
//! block of 16 rows and 8 columns of D, register `r` of thread `4 * row + quad` holds row
//! `row + 8 * (r / 2)` and column `2 * quad + r % 2`. So one register of all threads is a matrix of
//! 8 rows and 4 columns, and [`multiply`] adds to it.

use super::truncate;
use crate::ir::eval::Nan;
use crate::ir::f16;
use crate::ir::types::Scalar;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::LANES;

/// For a block of 8 rows of A and one `k`, each row's element.
pub(in crate::sim) type Rows<T> = [T; 8];
/// For every other column of a block of 8 columns of B and one `k`, each column's element.
pub(in crate::sim) type Columns<T> = [T; 4];

/// A type in which accumulators are summed.
pub(in crate::sim) trait Summand: Copy + Default + Send + Sync {
    fn add_product(sum: Self, a: Self, b: Self) -> Self;
}

impl Summand for f32 {
    /// The product must be exact: see [`are_exact`].
    #[inline(always)]
    fn add_product(sum: f32, a: f32, b: f32) -> f32 {
        sum + a * b
    }
}

impl Summand for f64 {
    #[inline(always)]
    fn add_product(sum: f64, a: f64, b: f64) -> f64 {
        a.mul_add(b, sum)
    }
}

impl Summand for i32 {
    #[inline(always)]
    fn add_product(sum: i32, a: i32, b: i32) -> i32 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
}

impl Summand for i64 {
    #[inline(always)]
    fn add_product(sum: i64, a: i64, b: i64) -> i64 {
        sum + a * b
    }
}

/// `f32` operands whose products may need too many bits or be out of range.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Wide(f32);

impl Summand for Wide {
    #[inline(always)]
    fn add_product(sum: Wide, a: Wide, b: Wide) -> Wide {
        Wide(a.0.mul_add(b.0, sum.0))
    }
}

/// Adds `A B` to one register of a warp.
#[inline(always)]
pub(in crate::sim) fn multiply<T: Summand>(
    accumulators: &mut [T; LANES],
    a: &[Rows<T>],
    b: &[Columns<T>],
) {
    for (a, b) in a.iter().zip(b) {
        for (accumulators, a) in accumulators.chunks_exact_mut(4).zip(a) {
            for (sum, b) in accumulators.iter_mut().zip(b) {
                *sum = T::add_product(*sum, *a, *b);
            }
        }
    }
}

/// The registers of D, and their type.
#[derive(Debug)]
pub(in crate::sim) struct AccumulatorSlots {
    pub(in crate::sim) elem: AccumulatorType,
    /// The registers' slots, in order.
    pub(in crate::sim) slots: Box<[u32]>,
}

/// The type of accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum AccumulatorType {
    F16,
    F32,
    F64,
    I32,
}

/// A warp's operands: `rows[block * k + i]` for blocks of 8 rows of A, and
/// `columns[(2 * block + parity) * k + i]` for blocks of 8 columns of B, where `i` counts along
/// `k`.
#[derive(Debug)]
pub(in crate::sim) struct Operands<'o, T> {
    pub(in crate::sim) rows: &'o [Rows<T>],
    pub(in crate::sim) columns: &'o [Columns<T>],
    pub(in crate::sim) k: usize,
    /// For a sparse A, the index of each element of `rows` along K of B, which has twice as many.
    pub(in crate::sim) kept: Option<&'o [Rows<u8>]>,
}

impl<T: Summand> Operands<'_, T> {
    /// Returns how many blocks of 8 rows D has.
    fn blocks(&self) -> usize {
        self.rows.len() / self.k
    }

    fn rows(&self, block: usize) -> &[Rows<T>] {
        &self.rows[block * self.k..][..self.k]
    }

    fn columns(&self, block: usize, parity: usize) -> &[Columns<T>] {
        let k = if self.kept.is_some() { 2 * self.k } else { self.k };
        &self.columns[(2 * block + parity) * k..][..k]
    }

    /// Adds the products of a block of rows and a block of columns by `add`.
    #[inline(always)]
    fn add_block(
        &self,
        accumulators: &mut [T; LANES],
        half: usize,
        columns: &[Columns<T>],
        add: &impl Fn(&mut [T; LANES], &[Rows<T>], &[Columns<T>]),
    ) {
        let rows = self.rows(half);
        let Some(kept) = self.kept else { return add(accumulators, rows, columns) };
        let kept = &kept[half * self.k..][..self.k];
        // Each row uses its own columns of B.
        for row in 0..8 {
            let own: Vec<Columns<T>> = kept.iter().map(|at| columns[at[row] as usize]).collect();
            let mut all = *accumulators;
            add(&mut all, rows, &own);
            accumulators[4 * row..][..4].copy_from_slice(&all[4 * row..][..4]);
        }
    }

    /// Adds the products to registers with one element for each thread. `get` and `set` convert the
    /// accumulators.
    fn each<W: Copy>(
        &self,
        slots: &[u32],
        file: &mut [[W; LANES]],
        accumulate: bool,
        get: impl Fn(W) -> T,
        set: impl Fn(T) -> W,
    ) {
        self.each_by(slots, file, accumulate, get, set, multiply);
    }

    /// Like `each`, but `add` adds the products to a register.
    fn each_by<W: Copy>(
        &self,
        slots: &[u32],
        file: &mut [[W; LANES]],
        accumulate: bool,
        get: impl Fn(W) -> T,
        set: impl Fn(T) -> W,
        add: impl Fn(&mut [T; LANES], &[Rows<T>], &[Columns<T>]),
    ) {
        let blocks = self.blocks();
        for (r, slot) in slots.iter().enumerate() {
            let (parity, half, block) = (r % 2, r / 2 % blocks, r / 2 / blocks);
            let register = &mut file[*slot as usize];
            let mut accumulators = [T::default(); LANES];
            if accumulate {
                accumulators = std::array::from_fn(|lane| get(register[lane]));
            }
            self.add_block(&mut accumulators, half, self.columns(block, parity), &add);
            *register = std::array::from_fn(|lane| set(accumulators[lane]));
        }
    }

    /// Like `each`, for registers with two elements, which are neighbours in a row.
    fn each_pair(
        &self,
        slots: &[u32],
        file: &mut [[u32; LANES]],
        accumulate: bool,
        get: impl Fn(u16) -> T,
        set: impl Fn(T) -> u16,
    ) {
        self.each_pair_by(slots, file, accumulate, get, set, multiply);
    }

    /// Like `each_pair`, but `add` adds the products to one element of each thread.
    fn each_pair_by(
        &self,
        slots: &[u32],
        file: &mut [[u32; LANES]],
        accumulate: bool,
        get: impl Fn(u16) -> T,
        set: impl Fn(T) -> u16,
        add: impl Fn(&mut [T; LANES], &[Rows<T>], &[Columns<T>]),
    ) {
        let blocks = self.blocks();
        for (r, slot) in slots.iter().enumerate() {
            let (half, block) = (r % blocks, r / blocks);
            let register = &mut file[*slot as usize];
            for parity in 0..2 {
                let shift = 16 * parity;
                let mut accumulators = [T::default(); LANES];
                if accumulate {
                    accumulators =
                        std::array::from_fn(|lane| get((register[lane] >> shift) as u16));
                }
                self.add_block(&mut accumulators, half, self.columns(block, parity), &add);
                for (word, sum) in register.iter_mut().zip(accumulators) {
                    *word = *word & !(0xffff << shift) | u32::from(set(sum)) << shift;
                }
            }
        }
    }
}

fn f32_bits(x: f32) -> u32 {
    x.or_nan_of([]).to_bits()
}

fn f16_bits(x: f32) -> u16 {
    f16::from_f32(x).to_bits()
}

/// Computes `D += A B` or `D = A B` in floating point. If `fraction_bits` is set, terms are
/// truncated as in [`truncate`](super::truncate).
pub(in crate::sim) fn multiply_f32(
    regs: &mut Regs,
    accumulators: &AccumulatorSlots,
    operands: &Operands<'_, f32>,
    accumulate: bool,
    fraction_bits: Option<u32>,
) {
    let Operands { rows, columns, k, kept } = *operands;
    if let Some(bits) = fraction_bits {
        let rows: Vec<Rows<f64>> = rows.iter().map(|row| row.map(f64::from)).collect();
        let columns: Vec<Columns<f64>> = columns.iter().map(|all| all.map(f64::from)).collect();
        let wide = Operands { rows: &rows, columns: &columns, k, kept };
        let add = |accumulators: &mut [f64; LANES], a: &[Rows<f64>], b: &[Columns<f64>]| {
            truncate::multiply(accumulators, a, b, bits);
        };
        match accumulators.elem {
            AccumulatorType::F16 => {
                let (get, set) =
                    (|bits| f64::from(f16_to_f32(bits)), |x| f16::from_f64(x).to_bits());
                wide.each_pair_by(&accumulators.slots, &mut regs.w, accumulate, get, set, add);
            }
            AccumulatorType::F32 | AccumulatorType::F64 | AccumulatorType::I32 => {
                let get = |bits| f64::from(f32::from_bits(bits));
                let set = |x| f32_bits(truncate::to_f32(x));
                wide.each_by(&accumulators.slots, &mut regs.w, accumulate, get, set, add);
            }
        }
        return;
    }
    if are_exact(rows.as_flattened(), columns.as_flattened()) {
        match accumulators.elem {
            AccumulatorType::F16 => {
                let get = |bits| f16_to_f32(bits);
                operands.each_pair(&accumulators.slots, &mut regs.w, accumulate, get, f16_bits);
            }
            AccumulatorType::F32 | AccumulatorType::F64 | AccumulatorType::I32 => {
                let file = &mut regs.w;
                operands.each(&accumulators.slots, file, accumulate, f32::from_bits, f32_bits);
            }
        }
        return;
    }
    let rows: Vec<Rows<Wide>> = rows.iter().map(|row| row.map(Wide)).collect();
    let columns: Vec<Columns<Wide>> = columns.iter().map(|column| column.map(Wide)).collect();
    let wide = Operands { rows: &rows, columns: &columns, k, kept };
    match accumulators.elem {
        AccumulatorType::F16 => {
            let (get, set) = (|bits| Wide(f16_to_f32(bits)), |x: Wide| f16_bits(x.0));
            wide.each_pair(&accumulators.slots, &mut regs.w, accumulate, get, set);
        }
        AccumulatorType::F32 | AccumulatorType::F64 | AccumulatorType::I32 => {
            let (get, set) = (|bits| Wide(f32::from_bits(bits)), |x: Wide| f32_bits(x.0));
            wide.each(&accumulators.slots, &mut regs.w, accumulate, get, set);
        }
    }
}

/// Computes `D += A B` in `f64`.
pub(in crate::sim) fn multiply_f64(
    regs: &mut Regs,
    accumulators: &AccumulatorSlots,
    operands: &Operands<'_, f64>,
) {
    let bits = |x: f64| if x.has_nan_bits() { 0x7fff_ffff_ffff_ffff } else { x.to_bits() };
    operands.each(&accumulators.slots, &mut regs.d, true, f64::from_bits, bits);
}

/// Computes `D += A B` or `D = A B` in integers, which wrap or are clamped.
pub(in crate::sim) fn multiply_i32(
    regs: &mut Regs,
    accumulators: &AccumulatorSlots,
    operands: &Operands<'_, i32>,
    accumulate: bool,
    satfinite: bool,
) {
    let Operands { rows, columns, k, kept } = *operands;
    if !satfinite {
        let (get, set) = (|bits| bits as i32, |x: i32| x as u32);
        operands.each(&accumulators.slots, &mut regs.w, accumulate, get, set);
        return;
    }
    let rows: Vec<Rows<i64>> = rows.iter().map(|row| row.map(i64::from)).collect();
    let columns: Vec<Columns<i64>> = columns.iter().map(|column| column.map(i64::from)).collect();
    let wide = Operands { rows: &rows, columns: &columns, k, kept };
    let get = |bits| i64::from(bits as i32);
    let set = |x: i64| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32;
    wide.each(&accumulators.slots, &mut regs.w, accumulate, get, set);
}

/// Returns whether every product of a number in `a` and one in `b` is exact in `f32`. The numbers
/// have at most 12 significant bits, so only the range matters.
fn are_exact(a: &[f32], b: &[f32]) -> bool {
    // The smallest and largest nonzero magnitude, as bits, which sort like the numbers.
    let range = |numbers: &[f32]| {
        let (mut smallest, mut largest) = (u32::MAX, 0);
        for x in numbers {
            let bits = x.to_bits() & 0x7fff_ffff;
            largest = largest.max(bits);
            // Zero wraps around to the largest value.
            smallest = smallest.min(bits.wrapping_sub(1));
        }
        let float = |bits: u32| f64::from(f32::from_bits(bits));
        (smallest != u32::MAX).then(|| (float(smallest.wrapping_add(1)), float(largest)))
    };
    match (range(a), range(b)) {
        (Some((a_smallest, a_largest)), Some((b_smallest, b_largest))) => {
            let (smallest, largest) = (a_smallest * b_smallest, a_largest * b_largest);
            smallest >= f64::from(f32::MIN_POSITIVE) && largest <= f64::from(f32::MAX)
        }
        // One side is all zeros; the other may hold an infinity.
        _ => true,
    }
}

/// Returns the number in `bits`, which must be of a type of 8, 16 or 32 bits that tensor cores
/// accept.
#[inline(always)]
pub(in crate::sim) fn float(elem: Scalar, bits: u32) -> f32 {
    match elem {
        Scalar::Bf16 => f32::from_bits(bits << 16),
        Scalar::F16 => f16_to_f32(bits as u16),
        // The lowest bits are ignored.
        Scalar::Tf32 => f32::from_bits(bits & 0xffff_e000),
        Scalar::F8E5M2 => f16_to_f32((bits << 8) as u16),
        _ => e4m3_to_f32(bits as u8),
    }
}

/// Returns the 8-bit integer in `bits`.
#[inline(always)]
pub(in crate::sim) fn int(elem: Scalar, bits: u32) -> i32 {
    if elem == Scalar::I8 { (bits as i8).into() } else { (bits as u8).into() }
}

/// Moves the fields to their places in an `f32`, and multiplies by the difference of the biases,
/// which also makes subnormal numbers normal.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let magnitude = if rest >= 0x7c00 {
        0x7f80_0000 | rest << 13
    } else {
        (f32::from_bits(rest << 13) * f32::from_bits(0x7780_0000)).to_bits()
    };
    f32::from_bits(sign | magnitude)
}

#[inline(always)]
fn e4m3_to_f32(bits: u8) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x80) << 24, u32::from(bits & 0x7f));
    let magnitude = if rest == 0x7f {
        0x7fc0_0000
    } else {
        (f32::from_bits(rest << 20) * f32::from_bits(0x7b80_0000)).to_bits()
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::narrow;

    #[test]
    fn narrow_numbers_are_those_of_the_formats() {
        for (elem, count) in [
            (Scalar::F16, 1 << 16),
            (Scalar::Bf16, 1 << 16),
            (Scalar::F8E4M3, 256),
            (Scalar::F8E5M2, 256),
        ] {
            for bits in 0..count {
                let (found, expected) = (float(elem, bits), narrow::decode(elem, bits).unwrap());
                let same = f64::from(found).to_bits() == expected.to_bits();
                assert!(same || found.is_nan() && expected.is_nan(), "{elem} {bits:#x}: {found}");
            }
        }
        assert_eq!(float(Scalar::Tf32, 0x3f80_1fff), 1.0);
        assert_eq!((int(Scalar::I8, 0xff), int(Scalar::U8, 0xff)), (-1, 255));
    }

    /// A product that is not exact in `f32` must still give the accumulator of an exact product.
    #[test]
    fn products_out_of_range_are_exact() {
        let tiny = 2f32.powi(-100);
        assert!(are_exact(&[1.0, 0.0, -3.0], &[tiny]) && !are_exact(&[tiny], &[tiny]));
        assert!(!are_exact(&[1e30], &[1e30]) && !are_exact(&[f32::INFINITY], &[1.0]));
        assert!(are_exact(&[0.0], &[f32::INFINITY]) && are_exact(&[], &[]));
        let mut regs = Regs::new(1, 0);
        let accumulators = AccumulatorSlots { elem: AccumulatorType::F32, slots: [0].into() };
        let operands = Operands {
            rows: &[[1e30; 8], [1e30; 8], [2f32.powi(-90); 8]],
            columns: &[[1e30; 4], [-1e30; 4], [2f32.powi(-70); 4]],
            k: 3,
            kept: None,
        };
        multiply_f32(&mut regs, &accumulators, &operands, false, None);
        // The first sum is beyond the range of `f32`.
        assert_eq!(regs.w[0][0], f32::INFINITY.to_bits());
        let operands = Operands {
            rows: &[[2f32.powi(-80); 8]],
            columns: &[[3.0 * 2f32.powi(-70); 4]],
            k: 1,
            kept: None,
        };
        multiply_f32(&mut regs, &accumulators, &operands, false, None);
        // 1.5 of the smallest number rounds to even.
        assert_eq!(regs.w[0][5], 2);
        multiply_f32(&mut regs, &accumulators, &operands, true, None);
        assert_eq!(regs.w[0][5], 4);
    }
}
