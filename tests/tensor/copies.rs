//! Checks that tiled copies execute the instruction of their atom once for each vector, on every
//! device.
//!
//! The law is that a copy by an atom is the copy of its elements. The simulator always runs; with
//! `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, rng};

#[path = "../../examples/paged_kv.rs"]
mod paged_kv;
use rng::Rng;
use tilewright::ir::builder::DeviceCoord;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target, bf16, f16, range};
use tilewright::layout::{ComposedLayout, Layout, Swizzle, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    CacheOp, CopyAtom, CopyOp, Matrices, MmaAtom, Operand, TiledCopy, TiledMma,
};
use tilewright::tensor::copy::copy;
use tilewright::tensor::view::{
    CoordTensor, RegisterTensor, SharedTensor, Tensor, TensorPointer, TensorSsa,
};

fn cases() -> usize {
    let wanted = std::env::var("TILEWRIGHT_CASES").ok().and_then(|cases| cases.parse().ok());
    wanted.unwrap_or(if device::gpu().is_some() { 24 } else { 6 })
}

/// The value of memory where nothing is copied.
const UNTOUCHED: u64 = 0x5a;

fn random<T: Element>(rng: &mut Rng, len: usize) -> Vec<T> {
    let mask = u64::MAX >> (64 - T::SCALAR.bits());
    (0..len).map(|_| T::from_bits(rng.word() & mask)).collect()
}

fn bits<T: Element>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_const().bits()).collect()
}

/// A matrix with vectors along one of its modes.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    extents: [i64; 2],
    /// True if vectors run along rows, so that the second mode is contiguous.
    rows: bool,
    pitch: i64,
}

impl Matrix {
    fn layout(&self) -> Layout {
        let [m, n] = self.extents;
        let strides = if self.rows { (self.pitch, 1) } else { (1, self.pitch) };
        Layout::new((m, n), strides).unwrap()
    }

    fn len(&self) -> usize {
        (self.pitch * if self.rows { self.extents[0] } else { self.extents[1] }) as usize
    }
}

/// Threads and values at random, and a matrix of some tiles.
struct Case {
    tiled: TiledCopy,
    x: Matrix,
    y: Matrix,
    tile: ComposedLayout,
    threads: u32,
    /// Vectors of a thread.
    vectors: usize,
}

impl Case {
    fn new(rng: &mut Rng, op: CopyOp, bits: u32, dtype: Scalar) -> Case {
        let vector = i64::from(bits / dtype.bits());
        let rows = rng.below(2) == 0;
        let mut two = || 1 + rng.below(2) as i64;
        let (more, across) = (two(), two());
        let repeats = [two(), two()];
        // Values are numbered along the vector first.
        let values = if rows {
            layout!((across, vector * more) : (vector * more, 1))
        } else {
            layout!((vector * more, across) : (1, vector * more))
        };
        let (tm, tn) = (1i64 << rng.below(4), 1i64 << rng.below(4));
        let threads = if rng.below(2) == 0 {
            layout!((tm, tn) : (1, tm))
        } else {
            layout!((tm, tn) : (tn, 1))
        };
        let tiled = TiledCopy::new(CopyAtom::new(op).unwrap(), dtype, &threads, &values).unwrap();
        let (along, apart) = (vector * more, across);
        let tile = if rows { [tm * apart, tn * along] } else { [tm * along, tn * apart] };
        let extents = [tile[0] * repeats[0], tile[1] * repeats[1]];
        let width = if rows { extents[1] } else { extents[0] };
        let mut matrix = || Matrix { extents, rows, pitch: width + vector * rng.below(3) as i64 };
        let (x, y, padded) = (matrix(), matrix(), matrix());
        let plain = Matrix { pitch: width, ..padded };
        let swizzle = Swizzle::new(2, i64::from(vector.ilog2()), 3).unwrap();
        let tile = if rng.below(2) == 0 {
            ComposedLayout::from(padded.layout())
        } else {
            ComposedLayout::new(swizzle, 0, plain.layout()).unwrap()
        };
        let vectors = (repeats[0] * repeats[1] * more * across) as usize;
        Case { tiled, x, y, tile, threads: (tm * tn) as u32, vectors }
    }

    /// Returns true for an element inside, by a predicate with one bool for each `group` values of
    /// a thread: the bool of the first value.
    fn inside(&self, group: i64, limit: [i64; 2]) -> impl Fn([i64; 2]) -> bool + use<> {
        let sizes: Vec<i64> =
            self.tiled.tiler().children().map(|extent| extent.as_static().unwrap()).collect();
        let (m, n) = (sizes[0], sizes[1]);
        let tv = self.tiled.layout_tv();
        let at =
            |thread: i64, value: i64| tv.crd2idx((thread, value)).unwrap().to_static().unwrap();
        let values = tv.get(&[1]).unwrap().size().unwrap().to_static().unwrap();
        let mut firsts = vec![0; (m * n) as usize];
        for thread in 0..i64::from(self.threads) {
            for value in 0..values {
                firsts[at(thread, value) as usize] = at(thread, value / group * group);
            }
        }
        move |[row, column]| {
            let (i, j) = (row % m, column % n);
            let first = firsts[(i + m * j) as usize];
            first % m + row - i < limit[0] && first / m + column - j < limit[1]
        }
    }

    /// Returns the expected `y`.
    fn expected<T: Element>(&self, x: &[T], of: impl Fn([i64; 2], u64) -> u64) -> Vec<u64> {
        let mut y = vec![UNTOUCHED; self.y.len()];
        let [m, n] = self.x.extents;
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let index = |matrix: &Matrix| {
                matrix.layout().crd2idx((i, j)).unwrap().to_static().unwrap() as usize
            };
            y[index(&self.y)] = of([i, j], x[index(&self.x)].to_const().bits());
        }
        y
    }
}

/// An access of a vector as PTX spells it; a scalar and what fits a register in other ways.
fn spelled(access: &str, bits: u32, elem: u32) -> String {
    let word = elem.max(32);
    if bits > word { format!("{access}.v{}.b{word}", bits / word) } else { format!("{access}.") }
}

type InOut<T> = (Global<T>, GlobalMut<T>, i32, i32);

fn run<T: Element>(
    device: &Device,
    kernel: &Kernel<InOut<T>>,
    case: &Case,
    x: &[T],
    limit: [i64; 2],
) -> Vec<u64> {
    let from = device.upload(x).unwrap();
    let mut to = device.upload(&vec![T::from_bits(UNTOUCHED); case.y.len()]).unwrap();
    let grid = Grid::new([1, 1, 1], [case.threads, 1, 1]);
    let args = (&from, &mut to, limit[0] as i32, limit[1] as i32);
    device.load(kernel).unwrap().launch(grid, args).unwrap();
    bits(&to.to_vec().unwrap())
}

/// Memory to shared memory, to registers, to memory, each a copy by the atom.
fn check_universal<T: Element>(seed: u64) {
    let mut rng = Rng::new(seed);
    for (case, width) in (0..cases()).zip([8, 16, 32, 64, 128].into_iter().cycle()) {
        let width = width.max(T::SCALAR.bits());
        let case_of = Case::new(&mut rng, CopyOp::Universal { bits: width }, width, T::SCALAR);
        let Case { tiled, x, y, tile, vectors, .. } = &case_of;
        let kernel = Kernel::<InOut<T>>::build("copy", Target::SM_80, |k, (a, b, ..)| {
            let thr = tiled.slice(k.thread_idx().x);
            let a = Tensor::new(TensorPointer::new(a).assume_aligned(16), x.layout());
            let b = Tensor::new(TensorPointer::new(b).assume_aligned(16), y.layout());
            let tile = SharedTensor::<T>::shared(k, tile.clone());
            thr.copy(&thr.partition_s(&a), &thr.partition_d(&tile));
            k.barrier();
            let held: RegisterTensor<'_, T> = thr.partition_s(&tile).fragment_like();
            thr.copy(&thr.partition_s(&tile), &held);
            thr.copy(&held, &thr.partition_d(&b));
        });
        let kernel = kernel.unwrap_or_else(|errors| panic!("{tiled}: {errors}"));
        let ptx = kernel.ptx();
        for access in ["ld.global", "st.shared", "ld.shared", "st.global"] {
            for name in [format!("{access}."), spelled(access, width, T::SCALAR.bits())] {
                assert_eq!(ptx.text().matches(&name).count(), *vectors, "{name} of {tiled}");
            }
        }
        let data = random::<T>(&mut rng, x.len());
        for device in device::devices() {
            let found = run(&device, &kernel, &case_of, &data, [0, 0]);
            let expected = case_of.expected(&data, |_, x| x);
            assert!(found == expected, "case {case}, {tiled} on {}", device.name());
        }
    }
}

#[test]
fn universal_copies_move_whole_vectors() {
    check_universal::<u8>(1);
    check_universal::<f16>(2);
    check_universal::<i16>(3);
    check_universal::<f32>(4);
    check_universal::<u32>(5);
    check_universal::<f64>(6);
    check_universal::<u64>(7);
}

fn cp_async(bits: u32, zero_fill: bool) -> CopyOp {
    let cache = if bits == 128 { CacheOp::Global } else { CacheOp::Always };
    CopyOp::CpAsync { bits, cache, zero_fill }
}

/// The form of a copy's predicate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// One bool for each element, by the mode that vectors do not run along.
    Elements,
    /// One bool for each vector.
    Vectors,
    /// One bool for each coordinate of the modes after the first.
    Rest,
}

/// Copies with predicates of all forms: what is outside is left alone, or zero, and is not read.
fn check_predicated<T: Element>(seed: u64, op: impl Fn(u32) -> CopyOp, zeros: bool) {
    let mut rng = Rng::new(seed);
    let forms = [By::Elements, By::Vectors, By::Rest];
    for (case, by) in (0..cases()).zip(forms.into_iter().cycle()) {
        let width = *rng.pick(&[32, 64, 128]);
        let op = op(width.max(T::SCALAR.bits()));
        let (CopyOp::Universal { bits: width } | CopyOp::CpAsync { bits: width, .. }) = op else {
            panic!("{op} takes no predicate")
        };
        let asynchronous = matches!(op, CopyOp::CpAsync { .. });
        let case_of = Case::new(&mut rng, op, width, T::SCALAR);
        let Case { tiled, x, y, tile, vectors, .. } = &case_of;
        let kernel =
            Kernel::<InOut<T>>::build("copy", Target::SM_80, |k, (a, b, rows, columns)| {
                let thr = tiled.slice(k.thread_idx().x);
                let a = Tensor::new(TensorPointer::new(a).assume_aligned(16), x.layout());
                let b = Tensor::new(TensorPointer::new(b).assume_aligned(16), y.layout());
                let from = thr.partition_s(&a);
                let [m, n] = x.extents;
                let places = thr.partition_s(&CoordTensor::identity(k, shape!(m, n)));
                let inside = match by {
                    By::Elements if x.rows => places.within((rows, ..)),
                    By::Elements => places.within((.., columns)),
                    By::Vectors => places.slice(((0, ..), .., ..)).within((rows, columns)),
                    By::Rest => places.slice(((0, 0), .., ..)).within((rows, columns)),
                };
                if asynchronous {
                    let tile = SharedTensor::<T>::shared(k, tile.clone());
                    let part = thr.partition_d(&tile);
                    let untouched =
                        TensorSsa::full(k, part.shape().to_owned(), T::from_bits(UNTOUCHED));
                    part.store_all(&untouched);
                    if zeros {
                        thr.copy_zfill(&inside, &from, &part);
                    } else {
                        thr.copy_if(&inside, &from, &part);
                    }
                    k.cp_async_commit_group();
                    k.cp_async_wait_group(0);
                    k.barrier();
                    copy(&part, &thr.partition_d(&b));
                } else if zeros {
                    thr.copy_zfill(&inside, &from, &thr.partition_d(&b));
                } else {
                    thr.copy_if(&inside, &from, &thr.partition_d(&b));
                }
            });
        let kernel = kernel.unwrap_or_else(|errors| panic!("{tiled}: {errors}"));
        let name = if asynchronous { ".shared.global" } else { "ld.global." };
        assert_eq!(kernel.ptx().text().matches(name).count(), *vectors, "{name} of {tiled}");
        let limit = x.extents.map(|extent| rng.below(extent as usize + 2) as i64);
        let limit = match by {
            By::Elements if x.rows => [limit[0], i64::MAX],
            By::Elements => [i64::MAX, limit[1]],
            By::Vectors | By::Rest => limit,
        };
        let data = random::<T>(&mut rng, x.len());
        let vector = i64::from(width / T::SCALAR.bits());
        let values = tiled.layout_tv().get(&[1]).unwrap().size().unwrap().to_static().unwrap();
        let group = match by {
            By::Elements => 1,
            By::Vectors => vector,
            By::Rest => values,
        };
        let outside = if zeros { 0 } else { UNTOUCHED };
        let inside = case_of.inside(group, limit);
        let expected = case_of.expected(&data, |place, x| if inside(place) { x } else { outside });
        for device in device::devices() {
            let found = run(&device, &kernel, &case_of, &data, limit.map(|l| l.min(1 << 30)));
            assert!(found == expected, "case {case}, {by:?}, {tiled} on {}", device.name());
        }
    }
}

#[test]
fn predicates_leave_vectors_out() {
    let universal = |bits| CopyOp::Universal { bits };
    check_predicated::<f32>(20, universal, false);
    check_predicated::<f16>(21, universal, true);
    check_predicated::<u8>(22, universal, true);
    check_predicated::<f64>(23, universal, false);
    check_predicated::<f32>(24, |bits| cp_async(bits, false), false);
    check_predicated::<bf16>(25, |bits| cp_async(bits, true), true);
    check_predicated::<u8>(26, |bits| cp_async(bits, false), false);
    check_predicated::<f64>(27, |bits| cp_async(bits, true), true);
}

/// `cp.async` without a predicate; `copy_if` of an atom with zero fill makes zeros.
#[test]
fn asynchronous_copies_fill_shared_memory() {
    let mut rng = Rng::new(40);
    for case in 0..2 * cases() {
        let width = *rng.pick(&[32, 64, 128]);
        let case_of = Case::new(&mut rng, cp_async(width, case % 2 == 1), width, Scalar::F16);
        let Case { tiled, x, y, tile, vectors, .. } = &case_of;
        let kernel =
            Kernel::<InOut<f16>>::build("copy", Target::SM_80, |k, (a, b, rows, columns)| {
                let thr = tiled.slice(k.thread_idx().x);
                let a = Tensor::new(TensorPointer::new(a).assume_aligned(16), x.layout());
                let b = Tensor::new(TensorPointer::new(b).assume_aligned(16), y.layout());
                let tile = SharedTensor::<f16>::shared(k, tile.clone());
                let (from, to) = (thr.partition_s(&a), thr.partition_d(&tile));
                if case % 2 == 1 {
                    let [m, n] = x.extents;
                    let places = thr.partition_s(&CoordTensor::identity(k, shape!(m, n)));
                    let inside = places.slice(((0, ..), .., ..)).within((rows, columns));
                    thr.copy_if(&inside, &from, &to);
                } else {
                    thr.copy(&from, &to);
                }
                k.cp_async_wait_all();
                k.barrier();
                copy(&to, &thr.partition_d(&b));
            });
        let kernel = kernel.unwrap();
        let name =
            if width == 128 { "cp.async.cg.shared.global" } else { "cp.async.ca.shared.global" };
        assert_eq!(kernel.ptx().text().matches(name).count(), *vectors, "{tiled}");
        let limit = if case % 2 == 1 { [3, 5] } else { [1 << 30, 1 << 30] };
        let data = random::<f16>(&mut rng, x.len());
        let group = i64::from(width / 16);
        let inside = case_of.inside(group, limit);
        let expected = case_of.expected(&data, |place, x| if inside(place) { x } else { 0 });
        for device in device::devices() {
            let found = run(&device, &kernel, &case_of, &data, limit);
            assert!(found == expected, "case {case}, {tiled} on {}", device.name());
        }
    }
}

/// The tile of one matrix instruction: rows of 8, and the registers of a thread beside each other.
fn of_matrices<T: Element>(op: CopyOp, matrices: Matrices) -> TiledCopy {
    let (per, count) = (32 / T::SCALAR.bits(), matrices.count());
    let tv = layout!(((4, 8), (per, count)) : ((8 * per, 1), (8, 32 * per)));
    let atom = CopyAtom::new(op).unwrap();
    TiledCopy::from_tv(atom, T::SCALAR, tv, shape!(8, 4 * per * count)).unwrap()
}

/// Matrices from shared memory to registers and back are those of the layouts of their atoms.
fn check_matrices<T: Element>(seed: u64, orders: &[bool]) {
    let mut rng = Rng::new(seed);
    for matrices in Matrices::ALL {
        for transposed in orders.iter().copied() {
            for store in [false, true] {
                let op = match store {
                    false => CopyOp::LdMatrix { matrices, transposed },
                    true => CopyOp::StMatrix { matrices, transposed },
                };
                let tiled = of_matrices::<T>(op, matrices);
                let per_row = i64::from(128 / T::SCALAR.bits());
                let [m, n] = [16, 2 * per_row * i64::from(matrices.count())];
                // Rows of 16 bytes along the mode that the instruction reads; padded, so that banks
                // differ.
                let tile = match transposed {
                    false => Layout::new((m, n), (n + per_row, 1)).unwrap(),
                    true => Layout::new((m, n), (1, m + per_row)).unwrap(),
                };
                type OfMatrices<T> = (Global<T>, GlobalMut<T>);
                let target = if store { Target::SM_90 } else { Target::SM_80 };
                let kernel = Kernel::<OfMatrices<T>>::build("matrices", target, |k, (x, y)| {
                    let t = k.thread_idx().x;
                    let thr = tiled.slice(t);
                    let x = Tensor::new(x, Layout::compact((m, n)));
                    let y = Tensor::new(y, Layout::row_major((m, n)));
                    let tile = SharedTensor::<T>::shared(k, tile.clone());
                    let all = || range(t, (m * n) as i32).step(32);
                    if store {
                        let from = thr.partition_s(&x);
                        let held: RegisterTensor<'_, T> = from.fragment_like();
                        copy(&from, &held);
                        thr.copy(&held, &thr.partition_d(&tile));
                        k.barrier();
                        k.for_(all(), (), |_, i, ()| y.store(i, tile.load(i)));
                    } else {
                        k.for_(all(), (), |_, i, ()| tile.store(i, x.load(i)));
                        k.barrier();
                        let to = thr.partition_d(&y);
                        let held: RegisterTensor<'_, T> = to.fragment_like();
                        thr.copy(&thr.partition_s(&tile), &held);
                        copy(&held, &to);
                    }
                });
                let kernel = kernel.unwrap_or_else(|errors| panic!("{tiled}: {errors}"));
                let name = op.instruction();
                assert_eq!(kernel.ptx().text().matches(&name).count(), 4, "{name}");
                let data = random::<T>(&mut rng, (m * n) as usize);
                let expected: Vec<u64> = (0..m * n)
                    .map(|i| data[(i / n + m * (i % n)) as usize].to_const().bits())
                    .collect();
                for device in device::devices() {
                    if !device.is_sim() && !device.target().offers(target) {
                        continue;
                    }
                    let from = device.upload(&data).unwrap();
                    let mut to = device.zeros::<T>((m * n) as usize).unwrap();
                    let grid = Grid::new([1, 1, 1], [32, 1, 1]);
                    device.load(&kernel).unwrap().launch(grid, (&from, &mut to)).unwrap();
                    let found = bits(&to.to_vec().unwrap());
                    assert!(found == expected, "{tiled} on {}", device.name());
                }
            }
        }
    }
}

#[test]
fn matrices_move_between_shared_memory_and_registers() {
    check_matrices::<u16>(50, &[false, true]);
    check_matrices::<f16>(51, &[false, true]);
    check_matrices::<u8>(52, &[false]);
    check_matrices::<f32>(53, &[false]);
}

/// Matrices in registers go where the layouts of the atom say: the threads that have them
/// afterwards.
fn check_moved<T: Element>(seed: u64) {
    let atom = CopyAtom::new(CopyOp::MovMatrix).unwrap();
    let per = i64::from(16 / T::SCALAR.bits());
    // The elements of 16 bits stay together, those of a register are beside each other.
    let tv = layout!(((4, 8), (per, 2)) : ((16 * per, 1), (8, 8 * per)));
    let tiled = TiledCopy::from_tv(atom, T::SCALAR, tv, shape!(8, 8 * per)).unwrap();
    let [m, n] = [16, 16 * per];
    let kernel = Kernel::<(Global<T>, GlobalMut<T>)>::build("moved", Target::SM_80, |k, (x, y)| {
        let thr = tiled.slice(k.thread_idx().x);
        let x = Tensor::new(x, Layout::compact((m, n)));
        let y = Tensor::new(y, Layout::row_major((m, n)));
        let (from, to) = (thr.partition_s(&x), thr.partition_d(&y));
        let (a, b) = (from.fragment_like::<T>(), to.fragment_like::<T>());
        copy(&from, &a);
        thr.copy(&a, &b);
        copy(&b, &to);
    });
    let kernel = kernel.unwrap_or_else(|errors| panic!("{tiled}: {errors}"));
    let name = "movmatrix.sync.aligned.m8n8.trans.b16 ";
    assert_eq!(kernel.ptx().text().matches(name).count(), 4);
    let data = random::<T>(&mut Rng::new(seed), (m * n) as usize);
    let expected: Vec<u64> =
        (0..m * n).map(|i| data[(i / n + m * (i % n)) as usize].to_const().bits()).collect();
    for device in device::devices() {
        let (from, mut to) =
            (device.upload(&data).unwrap(), device.zeros::<T>(data.len()).unwrap());
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&from, &mut to)).unwrap();
        assert!(bits(&to.to_vec().unwrap()) == expected, "{tiled} on {}", device.name());
    }
}

#[test]
fn matrices_move_between_registers() {
    check_moved::<u16>(60);
    check_moved::<bf16>(61);
    check_moved::<u8>(62);
}

/// The coordinates of all elements of a tensor of coordinates that the host knows.
fn places(tensor: &CoordTensor<'_>) -> Vec<[i64; 2]> {
    let place = |i: i64| match tensor.coord(i) {
        DeviceCoord::Tuple(entries) => match entries.as_slice() {
            [DeviceCoord::Host(row), DeviceCoord::Host(column)] => [*row, *column],
            other => panic!("{other:?} is no place"),
        },
        other => panic!("{other:?} is no place"),
    };
    (0..tensor.size()).map(place).collect()
}

/// The retiled fragment of an MMA is the fragment of the copy made for it.
#[test]
fn retiled_parts_are_those_of_the_copy() {
    let mma = |name: &str, atoms: &Layout, permutation| {
        TiledMma::new(name.parse::<MmaAtom>().unwrap(), atoms, permutation).unwrap()
    };
    let f16 = "SM80_16x8x16_F32F16F16F32_TN";
    let tiled = [
        (Scalar::F16, mma(f16, &layout!((1, 1, 1)), tiler!(_, _, _))),
        (Scalar::F16, mma(f16, &layout!((2, 2, 1)), tiler!(_, 32, _))),
        (Scalar::F16, mma(f16, &layout!((4, 1, 1)), tiler!(_, 16, 32))),
        (Scalar::F16, mma(f16, &layout!((2, 1, 1)), tiler!(64, 32, 16))),
        (Scalar::F32, mma("SM80_16x8x8_F32TF32TF32F32_TN", &layout!((2, 2, 1)), tiler!(_, 32, _))),
        (Scalar::U8, mma("SM80_16x8x32_S32S8S8S32_TN", &layout!((2, 2, 1)), tiler!(_, 32, _))),
        (Scalar::F64, mma("SM80_8x8x4_F64F64F64F64_TN", &layout!((2, 2, 1)), tiler!(32, 32, 16))),
    ];
    let mut checked = 0;
    for (dtype, mma) in &tiled {
        for operand in Operand::ALL {
            for op in CopyOp::all() {
                let asynchronous = matches!(
                    op,
                    CopyOp::CpAsync { .. } | CopyOp::MovMatrix | CopyOp::ShuffleTranspose { .. }
                );
                let Ok(copy) =
                    TiledCopy::of_operand(CopyAtom::new(op).unwrap(), *dtype, mma, operand)
                else {
                    continue;
                };
                if asynchronous {
                    continue;
                }
                checked += 1;
                let modes = match operand {
                    Operand::A => [0, 2],
                    Operand::B => [1, 2],
                    Operand::C => [0, 1],
                };
                let [m, n] = modes.map(|mode| 2 * mma.tile_size_mnk(mode).unwrap());
                Kernel::<()>::build("host", Target::SM_80, |k, ()| {
                    let matrix = CoordTensor::identity(k, shape!(m, n));
                    for thread in (0..mma.size().unwrap()).step_by(13) {
                        let (thr, copy) = (mma.slice(thread), copy.slice(thread));
                        let part = match operand {
                            Operand::A => thr.partition_a(&matrix),
                            Operand::B => thr.partition_b(&matrix),
                            Operand::C => thr.partition_c(&matrix),
                        };
                        // On the side of the registers.
                        let (retiled, own) = match op {
                            CopyOp::StMatrix { .. } => {
                                (copy.retile_s(&part), copy.partition_s(&matrix))
                            }
                            _ => (copy.retile_d(&part), copy.partition_d(&matrix)),
                        };
                        assert_eq!(retiled.shape(), own.shape(), "{op} of {operand:?}");
                        assert_eq!(places(&retiled), places(&own), "{op} of {operand:?}");
                    }
                })
                .unwrap_or_else(|errors| panic!("{op} of {operand:?}: {errors}"));
            }
        }
    }
    assert!(checked > 60, "{checked}");
}

/// Copies whose predicate is false read nothing, wherever the source points.
#[test]
fn absent_pages_are_zeros() {
    for device in device::devices() {
        paged_kv::run(&device).unwrap();
    }
}

#[test]
fn mistakes_are_errors_of_the_build() {
    let of = |op, values: &Layout| {
        let atom = CopyAtom::new(op).unwrap();
        TiledCopy::new(atom, Scalar::F16, &layout!((32, 1)), values).unwrap()
    };
    let eight = layout!((1, 8));
    let (plain, zeros) = (of(cp_async(128, false), &eight), of(cp_async(128, true), &eight));
    let vectors = of(CopyOp::Universal { bits: 128 }, &eight);
    let load = of_matrices::<f16>(
        CopyOp::LdMatrix { matrices: Matrices::X1, transposed: false },
        Matrices::X1,
    );
    let moved = TiledCopy::from_tv(
        CopyAtom::new(CopyOp::MovMatrix).unwrap(),
        Scalar::F16,
        layout!(((4, 8), 2) : ((16, 1), 8)),
        shape!(8, 8),
    )
    .unwrap();
    let errors = Kernel::<(GlobalMut<f16>, i32)>::build("wrong", Target::SM_80, |k, (x, n)| {
        let t = k.thread_idx().x;
        let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), layout!((32, 8) : (8, 1)));
        let tile = SharedTensor::<f16>::shared(k, layout!((32, 8) : (8, 1)));
        // 1: the wrong memories.
        let thr = plain.slice(t);
        let (from, to) = (thr.partition_s(&tile), thr.partition_d(&x));
        thr.copy(&from, &to);
        let (from, to) = (thr.partition_s(&x), thr.partition_d(&tile));
        // 2: no zeros without zero fill.
        let places = thr.partition_s(&CoordTensor::identity(k, shape!(32, 8)));
        let rows = places.within((n, ..));
        thr.copy_zfill(&rows, &from, &to);
        // 3: a predicate that differs inside of a vector; 4: one of another size.
        let thr = zeros.slice(t);
        thr.copy_if(&places.within((.., n)), &from, &to);
        let three = TensorSsa::full(k, shape!((3)), n.gt(0));
        thr.copy_if(&three, &from, &to);
        // 5: matrices take no predicate; 6: they go to registers; 7: these are there before.
        let thr = load.slice(t);
        let part = thr.partition_s(&tile);
        let held = thr.partition_d(&tile).fragment_like::<f16>();
        let one = TensorSsa::full(k, shape!((4)), n.gt(0));
        thr.copy_if(&one, &part, &held);
        thr.copy(&part, &thr.partition_d(&x));
        let moved = moved.slice(t);
        let pair = RegisterTensor::<f16>::registers(k, layout!(2));
        pair.fill(f16::from_f32(0.0));
        moved.copy(&moved.partition_s(&tile), &pair);
        // 8: parts of different copies; 9: elements of another width.
        let thr = vectors.slice(t);
        let more = RegisterTensor::<f16>::registers(k, layout!((8, 2)));
        thr.copy(&thr.partition_s(&x), &more);
        let wide = RegisterTensor::<f32>::registers(k, layout!(8));
        wide.fill(0.0);
        thr.copy(&wide, &wide);
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "`copy` of SM80_CP_ASYNC_CACHEGLOBAL<uint128_t> o (32,8):(1,32) of (32,8): cp.async.cg.shared.global copies from global to shared memory, not from",
        "`copy_zfill` of SM80_CP_ASYNC_CACHEGLOBAL<uint128_t> o (32,8):(1,32) of (32,8): this atom's cp.async.cg.shared.global cannot fill with zeros: make the atom with `zero_fill: true`",
        "`copy_if` of SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t> o (32,8):(1,32) of (32,8): vectors of 8 elements are copied whole, but the predicate changes inside vector 0",
        "`copy_if` of SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t> o (32,8):(1,32) of (32,8): the predicate has the shape (3), but the copy ((8,1),1,1), in 1 vectors of 8 elements",
        "all threads of a warp execute ldmatrix.sync.aligned.m8n8.x1.shared.b16 together, so single threads cannot skip it",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 copies from shared memory to registers, not from",
        "movmatrix.sync.aligned.m8n8.trans.b16 copies from registers to registers, not from",
        "cannot copy a tensor of shape ((8,1),1,1) to one of shape (8,2)",
        "the elements of the source are f32, but the instruction needs f16: convert them first",
    ];
    for (i, (text, expected)) in texts.iter().zip(expected).enumerate() {
        assert!(text.contains(expected), "{i}: {text}\nis not\n{expected}");
    }
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    // Halves of a register cannot be parts of one element.
    let atom =
        CopyAtom::new(CopyOp::LdMatrix { matrices: Matrices::X1, transposed: true }).unwrap();
    let tv = layout!(((4, 8), 1) : ((8, 1), 0));
    let error = TiledCopy::from_tv(atom, Scalar::F32, tv, shape!(8, 4)).unwrap_err().to_string();
    assert!(
        error.ends_with("copies 16 bits at a time, which is not a whole number of 32-bit elements"),
        "{error}"
    );
}
