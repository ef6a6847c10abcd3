//! Kernels that fill matrices with random values and compare matrices, on the device.
//! [`Tunable`](super::Tunable)s make their inputs and check their results with them.

use tilewright::ir::builder::{Role, with_roles};
use tilewright::ir::types::Scalar;
use tilewright::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, range};
use tilewright::runtime::{
    AnyBuffer, Buffer, BufferMut, BufferRef, Device, Function, Grid, RuntimeError,
};

use super::search::Rejection;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The size of the table from which matrix elements are drawn.
const TABLE: usize = 1 << 16;
const THREADS: u32 = 256;

/// Returns a grid for `len` elements; each thread handles several.
pub(super) fn grid(len: usize) -> Grid {
    Grid::new([len.div_ceil(THREADS as usize).clamp(1, 1 << 14) as u32, 1, 1], [THREADS, 1, 1])
}

/// Returns an element that no kernel writes: NaN, or the largest integer.
pub(super) fn not_a_number<D: Element>() -> D {
    // All bits of the exponent, and some of the fraction.
    D::from_bits(u64::MAX >> 1 >> (64 - 8 * size_of::<D>()))
}

/// Returns values from N(0, 1), by the Box-Muller method.
pub(super) fn normal_table(seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || {
        let (u, v): (f64, f64) = (1.0 - rng.random_range(0.0..1.0), rng.random_range(0.0..1.0));
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    };
    (0..TABLE).map(|_| draw()).collect()
}

/// Returns the table index for element `i` of the matrix with seed `seed`: the upper half of a
/// 32-bit hash ("lowbias32" by C. Wellons), so that neighbours are uncorrelated.
pub(super) fn table_index(i: u64, seed: u32) -> usize {
    let mut x = (i as u32) ^ ((i >> 32) as u32).wrapping_mul(0x9e37_79b9) ^ seed;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    ((x ^ (x >> 16)) >> 16) as usize
}

/// The type of the elements of a matrix.
type X = Role<0>;

/// Matrix, table, seed, element count.
type Fill = (GlobalMut<X>, Global<f32>, u32, i64);

/// 8-bit integer matrices hold the table's values, which are below 5, times this factor and
/// truncated.
pub(super) const INTEGERS: f32 = 24.0;

/// Builds a kernel that writes `x[i] = table[table_index(i, seed)]`, rounded to this type.
fn fill(target: Target, scalar: Scalar) -> Result<Kernel<Untyped>, BuildErrors> {
    Ok(with_roles(&[scalar], || fill_body(target))?.untyped())
}

fn fill_body(target: Target) -> Result<Kernel<Fill>, BuildErrors> {
    Kernel::<Fill>::build("fill", target, |k, (x, table, seed, len)| {
        let threads = (k.grid_dim().x * k.block_dim().x).cvt::<i64>();
        let first = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<i64>();
        k.for_(range(first, len).step(threads), (), |_, i, ()| {
            let high = (i >> 32).cvt::<u32>() * 0x9e37_79b9u32;
            let hash = i.cvt::<u32>() ^ high ^ seed;
            let hash = (hash ^ (hash >> 16)) * 0x7feb_352du32;
            let hash = (hash ^ (hash >> 15)) * 0x846c_a68bu32;
            let index = (hash ^ (hash >> 16)) >> 16;
            let value = table.load(index);
            let is_byte = matches!(X::scalar(), Scalar::I8 | Scalar::U8);
            let value = if is_byte { value * INTEGERS } else { value };
            x.store(i, value.cvt::<X>());
        });
    })
}

/// Makes buffers of one element type, filled with values from a table.
pub(super) struct Filler {
    fill: Function<Untyped>,
    table: Buffer<f32>,
    scalar: Scalar,
}

impl Filler {
    /// Returns a filler for elements of this type.
    pub(super) fn new(device: &Device, scalar: Scalar, table: &[f32]) -> Result<Filler, Rejection> {
        let fill = device.load(&fill(device.target(), scalar)?)?;
        Ok(Filler { fill, table: device.upload(table)?, scalar })
    }

    /// Returns a buffer of `len` values from the table, in an order that depends on the seed.
    pub(super) fn buffer(&self, seed: u32, len: usize) -> Result<AnyBuffer, RuntimeError> {
        let mut x = AnyBuffer::zeros(self.fill.device(), self.scalar, len)?;
        self.run(x.as_mut(), seed)?;
        Ok(x)
    }

    /// As [`buffer`](Filler::buffer), if the program knows the filler's type.
    pub(super) fn typed<T: Element>(
        &self,
        seed: u32,
        len: usize,
    ) -> Result<Buffer<T>, RuntimeError> {
        let mut x = self.fill.device().zeros(len)?;
        self.run((&mut x).into(), seed)?;
        Ok(x)
    }

    fn run(&self, x: BufferMut<'_>, seed: u32) -> Result<(), RuntimeError> {
        let len = x.as_ref().len();
        // In the order of `Fill`.
        let args = vec![x.into(), (&self.table).into(), seed.into(), (len as i64).into()];
        self.fill.launch(grid(len), args)
    }
}

/// Returns a buffer of `len` values from N(0, 1), different for each `set`.
pub(super) fn normal(
    device: &Device,
    scalar: Scalar,
    set: u32,
    len: usize,
) -> Result<AnyBuffer, Rejection> {
    Ok(Filler::new(device, scalar, &normal_table(0))?.buffer(set, len)?)
}

/// Returns a buffer of `len` ones.
pub(super) fn ones(device: &Device, scalar: Scalar, len: usize) -> Result<AnyBuffer, Rejection> {
    Ok(Filler::new(device, scalar, &[1.0; TABLE])?.buffer(0, len)?)
}

/// The byte of buffers that hold values which no kernel writes: NaN, or -1 in each integer.
pub(super) const WRONG: u8 = 0xff;

/// Sets one element.
#[cfg(test)]
pub(super) fn spoil(buffer: &mut AnyBuffer, at: usize, value: f64) {
    let mut all = buffer.to_f64().unwrap();
    all[at] = value;
    *buffer = AnyBuffer::from_f64(&buffer.device(), buffer.scalar(), &all).unwrap();
}

/// The kernel's parameters: two results, the outcome, the tolerances and the element count. The
/// last one holds `[columns, elements per matrix]` and `[row pitch, batch stride]`, which both
/// results share.
type Compare = (Global<X>, Global<X>, GlobalMut<u64>, [f32; 2], i64, [[i64; 2]; 2]);

/// Builds a kernel that counts the elements with `!(|x - y| <= relative |y| + absolute)`, NaN
/// included, in `found[0]`, and keeps the smallest index of one in `found[1]`. Elements are
/// numbered row by row and matrix by matrix; padding between rows is skipped.
pub(super) fn compare_of(target: Target, scalar: Scalar) -> Result<Kernel<Untyped>, BuildErrors> {
    Ok(with_roles(&[scalar], || compare_body(target))?.untyped())
}

fn compare_body(target: Target) -> Result<Kernel<Compare>, BuildErrors> {
    Kernel::<Compare>::build("compare", target, |k, parameters| {
        let (x, y, found, within, len, extents) = parameters;
        let ([relative, absolute], [[columns, elements], [pitch, next]]) = (within, extents);
        let threads = (k.grid_dim().x * k.block_dim().x).cvt::<i64>();
        let first = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<i64>();
        k.for_(range(first, len).step(threads), (), |k, i, ()| {
            let (matrix, inside) = (i / elements, i % elements);
            let at = matrix * next + inside / columns * pitch + inside % columns;
            let (x, y) = (x.load(at).cvt::<f32>(), y.load(at).cvt::<f32>());
            let close = (x - y).abs().le(relative.fma(y.abs(), absolute));
            k.if_(!close, |_| {
                found.red().add(0, 1);
                found.red().min(1, i.cvt::<u64>());
            });
        });
    })
}

/// Compares two results as the kernel `compare` does, and returns what it found.
pub(super) fn compared(
    compare: &Function<Untyped>,
    [x, y]: [BufferRef<'_>; 2],
    within: [f32; 2],
    len: usize,
    extents: [[i64; 2]; 2],
) -> Result<[u64; 2], RuntimeError> {
    let mut found = compare.device().upload(&[0, u64::MAX])?;
    // In the order of `Compare`.
    let mut args = vec![x.into(), y.into(), (&mut found).into()];
    args.extend(within.map(Into::into));
    args.push((len as i64).into());
    args.extend(extents.into_iter().flatten().map(Into::into));
    compare.launch(grid(len), args)?;
    let found = found.to_vec()?;
    Ok([found[0], found[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::ir::bf16;

    #[test]
    fn host_and_device_have_the_same_numbers() {
        let device = Device::sim().unwrap();
        let (numbers, len, seed) = (normal_table(3), 5000, 0xdead_beef);
        let filler = Filler::new(&device, Scalar::Bf16, &numbers).unwrap();
        let found = filler.typed::<bf16>(seed, len).unwrap().to_vec().unwrap();
        let expected = (0..len as u64).map(|i| bf16::from_f32(numbers[table_index(i, seed)]));
        assert!(found.into_iter().eq(expected));
    }

    /// Mean 0, variance 1, and neighbours that are not correlated.
    #[test]
    fn the_numbers_are_normal() {
        let table = normal_table(0);
        let numbers: Vec<f64> = (0..200_000).map(|i| f64::from(table[table_index(i, 7)])).collect();
        let mean = |f: &dyn Fn(usize) -> f64| (0..199_000).map(f).sum::<f64>() / 199_000.0;
        assert!(mean(&|i| numbers[i]).abs() < 0.02);
        assert!((mean(&|i| numbers[i] * numbers[i]) - 1.0).abs() < 0.02);
        for distance in [1, 2, 64, 1000] {
            assert!(mean(&|i| numbers[i] * numbers[i + distance]).abs() < 0.02, "{distance}");
        }
    }

    #[test]
    fn what_differs_is_found_also_what_is_no_number() {
        let device = Device::sim().unwrap();
        let kernel = device.load(&compare_of(device.target(), Scalar::F32).unwrap()).unwrap();
        let y: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let check = |change: &[(usize, f32)], expected: [u64; 2]| {
            let mut x = y.clone();
            change.iter().for_each(|(i, value)| x[*i] = *value);
            let (x, y) = (device.upload(&x).unwrap(), device.upload(&y).unwrap());
            let (both, extents) = ([(&x).into(), (&y).into()], [[1000, 1000], [1000, 1000]]);
            let found = compared(&kernel, both, [0.01, 0.5], 1000, extents);
            assert_eq!(found, Ok(expected));
        };
        check(&[], [0, u64::MAX]);
        check(&[(0, 0.5), (100, 101.4), (999, 989.0)], [0, u64::MAX]);
        check(&[(0, 0.6)], [1, 0]);
        check(&[(700, f32::NAN), (500, 506.0), (900, f32::INFINITY)], [3, 500]);
    }

    /// Two 3x4 matrices with pitch 5, 20 apart: element 14 is the third one of the second matrix.
    #[test]
    fn what_lies_between_lines_is_not_compared() {
        let device = Device::sim().unwrap();
        let kernel = device.load(&compare_of(device.target(), Scalar::F32).unwrap()).unwrap();
        let inside = |i: usize| i % 20 < 15 && i % 20 % 5 < 4;
        let y: Vec<f32> = (0..40).map(|i| if inside(i) { 1.0 } else { f32::NAN }).collect();
        for (wrong, expected) in [(4, [0, u64::MAX]), (19, [0, u64::MAX]), (22, [1, 14])] {
            let mut x = y.clone();
            x[wrong] = 7.0;
            let (x, y) = (device.upload(&x).unwrap(), device.upload(&y).unwrap());
            let (both, extents) = ([(&x).into(), (&y).into()], [[4, 12], [5, 20]]);
            let found = compared(&kernel, both, [0.01, 0.5], 24, extents);
            assert_eq!(found, Ok(expected), "{wrong}");
        }
    }
}
