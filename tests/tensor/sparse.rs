//! Products with a sparse A against the dense product, on all types, and the layouts of their
//! metadata.

use crate::support::device;
use crate::support::rng::Rng;

use tilewright::arch::{Major, sparse_metadata_at};
use tilewright::ir::builder::SparseMetadata;
use tilewright::ir::op::{MmaOverflow, ProxySpace, WgmmaForm};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Element, Global, GlobalMut, Kernel, KernelOptions, Target, Val, Vector, bf16, f8e4m3, f8e5m2,
    f16, tf32,
};
use tilewright::layout::{Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    AtomError, OperandSource, SmemAtom, SmemSwizzle, SparseMatrix, SparseMma, TiledMma, ValType,
    Wgmma,
};
use tilewright::tensor::mma::SmemOperand;
use tilewright::tensor::view::SharedTensor;

/// The place of `(thread, value)`.
fn place(layout: &Layout, thread: usize, value: usize) -> usize {
    let at = layout.crd2idx((thread as i64, value as i64)).unwrap();
    at.to_static().unwrap() as usize
}

/// The number of values of a thread.
fn values(layout: &Layout) -> usize {
    layout.mode(&[1]).unwrap().size().unwrap().to_static().unwrap() as usize
}

/// An element that small integers are exact in.
trait Small: Element + Default + PartialEq {
    fn of(n: i32) -> Self;
    fn number(self) -> i32;
    fn bits(self) -> u32;
}

macro_rules! small {
    ($($ty:ty: $of:expr, $number:expr, $bits:expr;)*) => {$(
        impl Small for $ty {
            fn of(n: i32) -> Self {
                $of(n)
            }
            fn number(self) -> i32 {
                $number(self)
            }
            fn bits(self) -> u32 {
                $bits(self)
            }
        }
    )*};
}

small! {
    i8: |n| n as i8, i32::from, |x: i8| u32::from(x as u8);
    u8: |n: i32| n.unsigned_abs() as u8, i32::from, u32::from;
    f16: |n: i32| f16::from_f32(n as f32), |x: f16| x.to_f32() as i32, |x: f16| u32::from(x.to_bits());
    bf16: |n: i32| bf16::from_f32(n as f32), |x: bf16| x.to_f32() as i32, |x: bf16| u32::from(x.to_bits());
    f8e4m3: |n: i32| f8e4m3::from_f32(n as f32), |x: f8e4m3| x.to_f32() as i32,
        |x: f8e4m3| u32::from(x.to_bits());
    f8e5m2: |n: i32| f8e5m2::from_f32(n as f32), |x: f8e5m2| x.to_f32() as i32,
        |x: f8e5m2| u32::from(x.to_bits());
    tf32: |n: i32| tf32::from_f32(n as f32), |x: tf32| x.to_f32() as i32, |x: tf32| x.to_bits();
}

/// A matrix with at most as many elements in a chunk as are kept.
fn random_sparse<T: Small>(rng: &mut Rng, rows: usize, columns: usize) -> Vec<T> {
    let wide = if T::SCALAR == Scalar::Tf32 { 2 } else { 4 };
    let mut all = vec![T::of(0); rows * columns];
    for chunk in all.chunks_exact_mut(wide) {
        // The same element twice leaves one.
        for _ in 0..wide / 2 {
            chunk[rng.below(wide)] = T::of(rng.below(7) as i32 - 3);
        }
    }
    all
}

fn random<T: Small>(rng: &mut Rng, count: usize) -> Vec<T> {
    (0..count).map(|_| T::of(rng.below(7) as i32 - 3)).collect()
}

/// Words of elements that follow each other.
fn words<T: Small>(elements: &[T]) -> Vec<u32> {
    let bits = T::SCALAR.bits();
    let word = |part: &[T]| {
        part.iter().enumerate().fold(0, |word, (i, x)| word | x.bits() << (i as u32 * bits))
    };
    elements.chunks_exact(32 / bits as usize).map(word).collect()
}

/// `A B` with A of `m` x `k`, row by row, and B of `n` x `k`, row by row; the result column by
/// column, as accumulators are.
fn dense<A: Small, B: Small>([m, n, k]: [usize; 3], a: &[A], b: &[B]) -> Vec<i32> {
    let term = |row: usize, column: usize| {
        (0..k).map(|i| a[row * k + i].number() * b[column * k + i].number()).sum()
    };
    (0..n)
        .flat_map(|column| (0..m).map(move |row| (row, column)))
        .map(|(row, column)| term(row, column))
        .collect()
}

/// The numbers of the accumulators, which are words or halves of words.
fn accumulators(c: ValType, word: u32) -> Vec<i32> {
    match c {
        ValType::S32 => vec![word as i32],
        ValType::F32 => vec![f32::from_bits(word) as i32],
        _ => [word as u16, (word >> 16) as u16].map(|h| f16::from_bits(h).to_f32() as i32).to_vec(),
    }
}

/// Runs an `mma.sp` of a warp on random matrices, with each selector.
fn check_sync<A: Small, B: Small>(device: &Device, mma: &SparseMma, c: ValType, rng: &mut Rng) {
    let [m, n, k] = mma.shape_mnk().map(|extent| extent as usize);
    let counts = [values(mma.layout_a_tv()), values(mma.layout_b_tv())];
    let counts =
        [counts[0] * A::SCALAR.bits() as usize / 32, counts[1] * B::SCALAR.bits() as usize / 32];
    let sums = values(mma.layout_c_tv()) as u32 / if c == ValType::F16 { 2 } else { 1 };
    for selector in 0..mma.selectors() {
        type Params = (Global<u32>, Global<u32>, Global<u32>, GlobalMut<u32>);
        let kernel = Kernel::<Params>::build("sparse", Target::SM_90, |k, (a, e, b, d)| {
            let lane = k.lane_id();
            let [a, b] =
                [(a, counts[0], A::SCALAR), (b, counts[1], B::SCALAR)].map(|(x, count, elem)| {
                    let words = x.load_any(lane * count as i32, count as u32).unwrap();
                    words.cast(elem).unwrap()
                });
            let e = e.load(lane);
            macro_rules! run {
                ($ty:ty, $zero:expr) => {{
                    let registers = k.registers::<$ty>(sums);
                    registers.fill($zero);
                    let metadata = SparseMetadata { word: e, selector };
                    k.mma_sync_sp(&registers, a, b, metadata, MmaOverflow::Wrap);
                    for i in 0..sums {
                        let word = registers.get(i).bitcast::<u32>();
                        d.store(lane * sums as i32 + i as i32, word);
                    }
                }};
            }
            match c {
                ValType::S32 => run!(i32, 0),
                ValType::F32 => run!(f32, 0.0),
                _ => {
                    let zero = Val::pack([k.constant(f16::ZERO); 2]);
                    run!(Vector<f16, 2>, zero)
                }
            }
        })
        .unwrap();
        let function = device.load(&kernel).unwrap();
        for _ in 0..4 {
            let (a, b) = (random_sparse::<A>(rng, m, k), random::<B>(rng, n * k));
            let sparse = SparseMatrix::compress(&a, k).unwrap();
            assert_eq!(sparse.to_dense(), a);
            let of = |layout: &Layout, rows: usize| -> Vec<(usize, usize)> {
                let all = (0..32).flat_map(|t| (0..values(layout)).map(move |v| (t, v)));
                all.map(|(t, v)| place(layout, t, v)).map(|at| (at % rows, at / rows)).collect()
            };
            let kept: Vec<A> = of(mma.layout_a_tv(), m)
                .iter()
                .map(|(r, c)| sparse.values()[r * k / 2 + c])
                .collect();
            let columns: Vec<B> =
                of(mma.layout_b_tv(), n).iter().map(|(r, c)| b[r * k + c]).collect();
            let e = mma.metadata(&sparse, [0, 0], selector).unwrap();
            let upload = |words: &[u32]| device.upload(words).unwrap();
            let (kept, e, columns) = (upload(&words(&kept)), upload(&e), upload(&words(&columns)));
            let mut d = device.zeros::<u32>(32 * sums as usize).unwrap();
            function
                .launch(Grid::new([1, 1, 1], [32, 1, 1]), (&kept, &e, &columns, &mut d))
                .unwrap();
            let found: Vec<i32> =
                d.to_vec().unwrap().into_iter().flat_map(|word| accumulators(c, word)).collect();
            let expected = dense([m, n, k], &a, &b);
            let expected: Vec<i32> =
                of(mma.layout_c_tv(), m).iter().map(|(r, c)| expected[c * m + r]).collect();
            assert_eq!(found, expected, "{mma}, selector {selector}");
        }
    }
}

/// `mma.sp` multiplies as the dense product does: all types, shapes and selectors.
#[test]
fn every_mma_sp_multiplies() {
    use ValType as T;
    for device in device::devices() {
        let rng = &mut Rng::new(3);
        macro_rules! check {
            ($($a:ty, $b:ty, $ta:ident, $tb:ident, [$($k:literal),*], [$($c:ident),*];)*) => {$(
                for k in [$($k),*] {
                    for c in [$(T::$c),*] {
                        let mma = SparseMma::sync(k, T::$ta, T::$tb, c).unwrap();
                        check_sync::<$a, $b>(&device, &mma, c, rng);
                    }
                }
            )*};
        }
        check! {
            f16, f16, F16, F16, [16, 32], [F32, F16];
            bf16, bf16, Bf16, Bf16, [16, 32], [F32];
            tf32, tf32, Tf32, Tf32, [8, 16], [F32];
            i8, i8, S8, S8, [32, 64], [S32];
            i8, u8, S8, U8, [32, 64], [S32];
            u8, i8, U8, S8, [32, 64], [S32];
            u8, u8, U8, U8, [32, 64], [S32];
            f8e4m3, f8e4m3, E4M3, E4M3, [64], [F32];
            f8e4m3, f8e5m2, E4M3, E5M2, [64], [F32];
            f8e5m2, f8e4m3, E5M2, E4M3, [64], [F32];
            f8e5m2, f8e5m2, E5M2, E5M2, [64], [F32];
        }
    }
}

/// A matrix in shared memory without a swizzle: 8 rows of 16 bytes follow each other, then those
/// along K. Returns the words, and the descriptor without its address.
fn in_shared<T: Small>(elements: &[T], columns: usize) -> (Vec<u32>, u64) {
    let row_words = words(&elements[..columns]).len();
    let units = row_words / 4;
    let all = words(elements);
    let rows = elements.len() / columns;
    let mut out = vec![0; all.len()];
    for row in 0..rows {
        for w in 0..row_words {
            out[row / 8 * units * 32 + w / 4 * 32 + row % 8 * 4 + w % 4] = all[row * row_words + w];
        }
    }
    let (leading, stride) = (128u64, 128 * units as u64);
    (out, leading >> 4 << 16 | stride >> 4 << 32)
}

/// Runs a `wgmma.mma_async.sp` on random matrices, with each selector.
fn check_wgmma<A: Small, B: Small>(device: &Device, half: Wgmma, rng: &mut Rng) {
    let mma = SparseMma::wgmma(half).unwrap();
    let [m, n, k] = mma.shape_mnk().map(|extent| extent as usize);
    let c = half.c;
    let (a_words, b_words) =
        (m * k / 2 * A::SCALAR.bits() as usize / 32, n * k * B::SCALAR.bits() as usize / 32);
    let sums = values(mma.layout_c_tv()) as u32 / if c == ValType::F16 { 2 } else { 1 };
    let types = [A::SCALAR, B::SCALAR];
    let in_registers = half.source_a == OperandSource::Registers;
    let of = |layout: &Layout, rows: usize| -> Vec<(usize, usize)> {
        let all = (0..128).flat_map(|t| (0..values(layout)).map(move |v| (t, v)));
        all.map(|(t, v)| place(layout, t, v)).map(|at| (at % rows, at / rows)).collect()
    };
    let (a, b) = (random_sparse::<A>(rng, m, k), random::<B>(rng, n * k));
    let sparse = SparseMatrix::compress(&a, k).unwrap();
    let (shared_a, a_bits) = in_shared(sparse.values(), k / 2);
    let (shared_b, b_bits) = in_shared(&b, k);
    let a_data = match in_registers {
        true => {
            let kept: Vec<A> = of(mma.layout_a_tv(), m)
                .iter()
                .map(|(r, c)| sparse.values()[r * k / 2 + c])
                .collect();
            words(&kept)
        }
        false => shared_a,
    };
    for selector in 0..mma.selectors() {
        type Params = (Global<u32>, Global<u32>, Global<u32>, GlobalMut<u32>);
        let options = KernelOptions::default().block([128, 1, 1]);
        let kernel =
            Kernel::<Params>::build_with(options, "sparse", Target::SM_90A, |k, (a, e, b, d)| {
                let t = k.thread_idx().x;
                let tile_a = k.shared_aligned::<u32>(a_words as u32, 128);
                let tile_b = k.shared_aligned::<u32>(b_words as u32, 128);
                for i in 0..a_words.div_ceil(128) as i32 {
                    let at = t + 128 * i;
                    k.if_(at.lt(a_words as i32), |_| tile_a.store(at, a.load(at)));
                }
                for i in 0..b_words.div_ceil(128) as i32 {
                    let at = t + 128 * i;
                    k.if_(at.lt(b_words as i32), |_| tile_b.store(at, b.load(at)));
                }
                k.fence_proxy_async(ProxySpace::SharedCta);
                k.barrier();
                let (a_at, b_at) =
                    (tile_a.matrix_descriptor(a_bits), tile_b.matrix_descriptor(b_bits));
                let part = a.load_any(t * 4, 4).unwrap().cast(types[0]).unwrap();
                let metadata = SparseMetadata { word: e.load(t), selector };
                macro_rules! run {
                    ($ty:ty, $zero:expr) => {{
                        let registers = k.registers::<$ty>(sums);
                        registers.fill($zero);
                        k.wgmma_fence();
                        let form = WgmmaForm::default();
                        if in_registers {
                            k.wgmma_rs_sp(&registers, part, b_at, types[1], metadata, false, form);
                        } else {
                            k.wgmma_sp(&registers, types, [a_at, b_at], metadata, false, form);
                        }
                        k.wgmma_commit_group();
                        k.wgmma_wait_group(0);
                        for i in 0..sums {
                            let at = t * sums as i32 + i as i32;
                            d.store(at, registers.get(i).bitcast::<u32>());
                        }
                    }};
                }
                match c {
                    ValType::S32 => run!(i32, 0),
                    ValType::F32 => run!(f32, 0.0),
                    _ => run!(Vector<f16, 2>, Val::pack([k.constant(f16::ZERO); 2])),
                }
            })
            .unwrap();
        let e = mma.metadata(&sparse, [0, 0], selector).unwrap();
        let upload = |words: &[u32]| device.upload(words).unwrap();
        let (a_data, e, b_data) = (upload(&a_data), upload(&e), upload(&shared_b));
        let mut d = device.zeros::<u32>(128 * sums as usize).unwrap();
        let function = device.load(&kernel).unwrap();
        function.launch(Grid::new([1, 1, 1], [128, 1, 1]), (&a_data, &e, &b_data, &mut d)).unwrap();
        let found: Vec<i32> =
            d.to_vec().unwrap().into_iter().flat_map(|word| accumulators(c, word)).collect();
        let expected = dense([m, n, k], &a, &b);
        let expected: Vec<i32> =
            of(mma.layout_c_tv(), m).iter().map(|(r, c)| expected[c * m + r]).collect();
        assert_eq!(found, expected, "{mma}, selector {selector}");
    }
}

/// `wgmma.mma_async.sp` multiplies as the dense product does: all types, both sources of A, all
/// selectors.
#[test]
fn every_kind_of_sparse_wgmma_multiplies() {
    use ValType as T;
    for device in device::devices() {
        let rng = &mut Rng::new(5);
        macro_rules! check {
            ($($a:ty, $b:ty, $ta:ident, $tb:ident, [$($c:ident),*];)*) => {$(
                for c in [$(T::$c),*] {
                    for source in [OperandSource::Shared, OperandSource::Registers] {
                        let n = [8, 24, 64][rng.below(3)];
                        let half = Wgmma::new(n, T::$ta, T::$tb, c, source);
                        let half = if T::$ta.is_integer() { Wgmma { n: 32, ..half } } else { half };
                        check_wgmma::<$a, $b>(&device, half, rng);
                    }
                }
            )*};
        }
        check! {
            f16, f16, F16, F16, [F32, F16];
            bf16, bf16, Bf16, Bf16, [F32];
            tf32, tf32, Tf32, Tf32, [F32];
            i8, i8, S8, S8, [S32];
            i8, u8, S8, U8, [S32];
            u8, i8, U8, S8, [S32];
            u8, u8, U8, U8, [S32];
            f8e4m3, f8e4m3, E4M3, E4M3, [F32, F16];
            f8e4m3, f8e5m2, E4M3, E5M2, [F32, F16];
            f8e5m2, f8e4m3, E5M2, E4M3, [F32, F16];
            f8e5m2, f8e5m2, E5M2, E5M2, [F32, F16];
        }
    }
}

/// The layouts of the metadata are CuTe's `ELayout`s, and put a chunk where the instruction reads
/// it.
#[test]
fn metadata_is_where_the_instruction_reads_it() {
    use ValType as T;
    let wgmma = |a, c| SparseMma::wgmma(Wgmma::new(64, a, a, c, OperandSource::Shared)).unwrap();
    let of_cute = [
        (wgmma(T::S8, T::S32), "((2,2,8,4),32):((8,2048,1,16),64)"),
        (wgmma(T::F16, T::F32), "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))"),
        (wgmma(T::Tf32, T::F32), "((2,2,8,4),(8,2)):((512,0,1,16),(64,8))"),
    ];
    for (mma, expected) in of_cute {
        assert_eq!(mma.layout_e_tv().to_string(), expected, "{mma}");
    }
    let sync = |k, a, c| SparseMma::sync(k, a, a, c).unwrap();
    let all = [
        (sync(16, T::F16, T::F32), Scalar::F16),
        (sync(32, T::Bf16, T::F32), Scalar::Bf16),
        (sync(8, T::Tf32, T::F32), Scalar::Tf32),
        (sync(16, T::Tf32, T::F32), Scalar::Tf32),
        (sync(32, T::S8, T::S32), Scalar::I8),
        (sync(64, T::E4M3, T::F32), Scalar::F8E4M3),
        (wgmma(T::S8, T::S32), Scalar::I8),
        (wgmma(T::F16, T::F32), Scalar::F16),
        (wgmma(T::Tf32, T::F32), Scalar::Tf32),
    ];
    for (mma, elem) in all {
        let [m, _, k] = mma.shape_mnk().map(|extent| extent as usize);
        let layout = mma.layout_e_tv();
        let (wide, bits) = (if elem == Scalar::Tf32 { 2 } else { 4 }, 32 / values(layout));
        for warp in 0..m / 16 {
            for row in 0..16 {
                for chunk in 0..k / wide {
                    let (thread, bit) = sparse_metadata_at(elem, row as u32, chunk as u32);
                    let thread = 32 * warp + 4 * (row % 8) + thread as usize;
                    let at = place(layout, thread, bit as usize / bits);
                    assert_eq!((at % m, at / m), (16 * warp + row, wide * chunk), "{mma}");
                }
            }
        }
    }
}

/// Instructions and matrices that do not exist are refused.
#[test]
fn what_is_not_sparse_is_refused() {
    use ValType as T;
    let shape = SparseMma::sync(64, T::F16, T::F16, T::F32).unwrap_err();
    assert!(matches!(shape, AtomError::Shape { shape_mnk: [16, 8, 64], .. }), "{shape}");
    let types = SparseMma::sync(64, T::E4M3, T::E4M3, T::F16).unwrap_err();
    assert!(matches!(types, AtomError::ValTypes { .. }), "{types}");
    let full = SparseMatrix::compress(&[0i8, 0, 0, 0, 1, 2, 0, 3], 8);
    assert_eq!(full, Err(AtomError::SparseChunk { row: 0, column: 4, found: 3, max: 2 }));
    let odd = SparseMatrix::compress(&[0i8; 12], 6);
    assert_eq!(odd, Err(AtomError::SparseColumns { columns: 6, multiple: 4 }));
    let mma = SparseMma::sync(16, T::F16, T::F16, T::F32).unwrap();
    let matrix = SparseMatrix::compress(&vec![f16::ZERO; 16 * 32], 32).unwrap();
    for (origin, selector) in [([0, 16], 4), ([1, 0], 0), ([0, 20], 0), ([0, 2], 0)] {
        let error = mma.metadata(&matrix, origin, selector).unwrap_err();
        assert_eq!(error, AtomError::SparseColumns { columns: 32, multiple: 4 });
    }
    assert_eq!(mma.to_string(), "SM80_SPARSE_16x8x16_F32F16F16F32_TN");
    assert_eq!(
        mma.instruction(),
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    );
}

/// The names and instructions of a warp group.
#[test]
fn sparse_instructions_have_the_parts_of_their_names() {
    let half = Wgmma::new(128, ValType::S8, ValType::U8, ValType::S32, OperandSource::Registers);
    let mma = SparseMma::wgmma(half.saturate()).unwrap();
    assert_eq!(mma.to_string(), "SM90_SPARSE_64x128x64_S32S8U8_RS_TN_SATURATE");
    let instruction = "wgmma.mma_async.sp.sync.aligned.m64n128k64.satfinite.s32.s8.u8";
    assert_eq!(mma.instruction(), instruction);
}

/// An element of B that no kept element of A meets does not count, also if it is infinite.
#[test]
fn elements_that_are_not_met_do_not_count() {
    let mma = SparseMma::sync(16, ValType::F16, ValType::F16, ValType::F32).unwrap();
    type Params = (Global<u32>, Global<u32>, Global<u32>, GlobalMut<f32>);
    let kernel = Kernel::<Params>::build("infinite", Target::SM_90, |k, (a, e, b, d)| {
        let lane = k.lane_id();
        let [a, b] = [a, b].map(|x| x.load_any(lane * 2, 2).unwrap().cast(Scalar::F16).unwrap());
        let registers = k.registers::<f32>(4);
        registers.fill(0.0);
        let metadata = SparseMetadata { word: e.load(lane), selector: 0 };
        k.mma_sync_sp(&registers, a, b, metadata, MmaOverflow::Wrap);
        (0..4).for_each(|i| d.store(lane * 4 + i as i32, registers.get(i)));
    })
    .unwrap();
    // Columns 0 and 1 of each chunk are kept; column 2 of B is infinite.
    let one = [1, 1, 0, 0].map(f16::of).repeat(16 * 4);
    let sparse = SparseMatrix::compress(&one, 16).unwrap();
    let at = |layout: &Layout, rows: usize, f: &dyn Fn(usize, usize) -> f16| -> Vec<u32> {
        let all = (0..32).flat_map(|t| (0..values(layout)).map(move |v| (t, v)));
        let all: Vec<f16> =
            all.map(|(t, v)| place(layout, t, v)).map(|at| f(at % rows, at / rows)).collect();
        words(&all)
    };
    let kept = at(mma.layout_a_tv(), 16, &|row, column| sparse.values()[row * 8 + column]);
    let columns =
        at(mma.layout_b_tv(), 8, &|_, k| if k % 4 == 2 { f16::INFINITY } else { f16::of(1) });
    let e = mma.metadata(&sparse, [0, 0], 0).unwrap();
    for device in device::devices() {
        let upload = |words: &[u32]| device.upload(words).unwrap();
        let (kept, e, columns) = (upload(&kept), upload(&e), upload(&columns));
        let mut d = device.zeros::<f32>(128).unwrap();
        let function = device.load(&kernel).unwrap();
        function.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&kept, &e, &columns, &mut d)).unwrap();
        assert_eq!(d.to_vec().unwrap(), [8.0; 128]);
    }
}

/// One sparse `wgmma` reads 64 bytes of each row of B, so B's tile must have them side by side.
#[test]
fn tiles_of_b_that_a_sparse_wgmma_cannot_read_are_refused() {
    let half = Wgmma::new(64, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    let sparse = SparseMma::wgmma(half).unwrap();
    let tiled = TiledMma::new(sparse.half().clone(), &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap();
    let build = |swizzle, major| {
        let kept = SmemAtom::new(Major::K, SmemSwizzle::Sw32).position_independent(16).unwrap();
        let kept = kept.tile_to_shape(&shape!(64, 16), None).unwrap();
        let atom = SmemAtom::new(major, swizzle).position_independent(16).unwrap();
        let tile = atom.tile_to_shape(&shape!(64, 32), None).unwrap();
        Kernel::<()>::build("sparse", Target::SM_90A, |k, ()| {
            let a = SharedTensor::<bf16>::shared_aligned(k, kept, 1024);
            let b = SharedTensor::<bf16>::shared_aligned(k, tile, 1024);
            let thr = tiled.slice(k.thread_idx().x);
            let c = thr.fragment_c::<f32>(k, shape!(64, 64));
            let (a, b) = (thr.partition_a(&a), thr.partition_b(&b));
            let (a, b) = (SmemOperand::new(&a), SmemOperand::new(&b));
            k.wgmma_fence();
            sparse.gemm_async(&c, &a, &b, |_, _| k.constant(0x4444_4444), false);
            k.wgmma_commit_group();
            k.wgmma_wait_group(0);
        })
    };
    assert!(build(SmemSwizzle::Sw64, Major::K).is_ok());
    for (swizzle, major) in [(SmemSwizzle::Sw32, Major::K), (SmemSwizzle::Sw128, Major::Mn)] {
        let error = build(swizzle, major).unwrap_err().to_string();
        assert!(error.contains("with a swizzle of at least 64 bytes"), "{error}");
    }
}
