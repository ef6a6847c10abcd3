//! Products by every atom of `mma.sync` and `wgmma` that kernels can have, against the definition.
//!
//! The simulator always runs; with `TILEWRIGHT_GPU=1` the first GPU runs what it has.

use crate::support::{device, rng};

use std::collections::HashMap;

use rng::Rng;
use tilewright::arch::Major;
use tilewright::ir::builder::Accumulator;
use tilewright::ir::op::ProxySpace;
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, Element, Global, GlobalMut, Kernel, Target, Vector, bf16, f8e4m3, f8e5m2, f16, range,
    tf32,
};
use tilewright::layout::{ComposedLayout, Layout, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::tensor::atom::{
    MmaAtom, MmaOp, MmaSync, OperandSource, SmemAtom, SmemSwizzle, ThrMma, TiledMma, ValType, Wgmma,
};
use tilewright::tensor::copy::copy;
use tilewright::tensor::mma::{SmemOperand, gemm};
use tilewright::tensor::view::{RegisterTensor, SharedTensor, Tensor};

/// The whole number in a type.
fn number<T: Element>(x: i64) -> T {
    let bits = match T::SCALAR {
        Scalar::I8 => u64::from(x as i8 as u8),
        Scalar::U8 => u64::from(x as u8),
        Scalar::I32 => u64::from(x as i32 as u32),
        Scalar::F8E4M3 => f8e4m3::from_f64(x as f64).to_bits().into(),
        Scalar::F8E5M2 => f8e5m2::from_f64(x as f64).to_bits().into(),
        Scalar::F16 => f16::from_f64(x as f64).to_bits().into(),
        Scalar::Bf16 => bf16::from_f64(x as f64).to_bits().into(),
        Scalar::Tf32 => tf32::from_f64(x as f64).to_bits().into(),
        Scalar::F32 => (x as f32).to_bits().into(),
        Scalar::F64 => (x as f64).to_bits(),
        other => panic!("{other}"),
    };
    T::from_bits(bits)
}

/// Sums of tensor cores, and their elements.
trait Sums: Accumulator {
    type Out: Element;
    fn set<'b>(sums: &RegisterTensor<'b, Self>, from: &RegisterTensor<'b, Self::Out>);
    fn get<'b>(sums: &RegisterTensor<'b, Self>) -> RegisterTensor<'b, Self::Out>;
}

macro_rules! sums {
    ($($ty:ty)*) => {$(
        impl Sums for $ty {
            type Out = $ty;
            fn set<'b>(sums: &RegisterTensor<'b, $ty>, from: &RegisterTensor<'b, $ty>) {
                copy(from, sums);
            }
            fn get<'b>(sums: &RegisterTensor<'b, $ty>) -> RegisterTensor<'b, $ty> {
                sums.clone()
            }
        }
    )*};
}
sums!(f32 f64 i32);

impl Sums for Vector<f16, 2> {
    type Out = f16;
    fn set<'b>(sums: &RegisterTensor<'b, Self>, from: &RegisterTensor<'b, f16>) {
        sums.set_elements(from);
    }
    fn get<'b>(sums: &RegisterTensor<'b, Self>) -> RegisterTensor<'b, f16> {
        sums.elements()
    }
}

type Params<A, B, C> = (Global<A>, Global<B>, GlobalMut<C>);

/// The operands and the extents of a product.
struct Product {
    mma: TiledMma,
    extents: [i64; 3],
    target: Target,
    /// Sums near the largest integer, to which only positive numbers are added.
    large: bool,
    seed: u64,
}

impl Product {
    fn text(&self) -> String {
        format!("{} {:?}, large: {}", self.mma.atom().op(), self.extents, self.large)
    }

    /// The start of the kernel of every product: the sums of the thread. And its end, after
    /// `multiply`.
    fn build<A: Element, B: Element, D: Sums>(
        &self,
        multiply: impl for<'b> Fn(
            &mut Body<'b, '_>,
            &ThrMma<'_, 'b>,
            &RegisterTensor<'b, D>,
            tilewright::ir::Val<'b, Global<A>>,
            tilewright::ir::Val<'b, Global<B>>,
        ),
    ) -> Kernel<Params<A, B, D::Out>> {
        let [m, n, _] = self.extents;
        let kernel = Kernel::build("product", self.target, |k, (a, b, c)| {
            let thr = self.mma.slice(k.thread_idx().x);
            let out = thr.partition_c(&Tensor::new(c, Layout::row_major((m, n))));
            let sums = thr.fragment_accumulators::<D>(k, shape!(m, n));
            let elements = thr.fragment_c::<D::Out>(k, shape!(m, n));
            copy(&out, &elements);
            D::set(&sums, &elements);
            multiply(k, &thr, &sums, a, b);
            copy(&D::get(&sums), &out);
        });
        kernel.unwrap_or_else(|errors| panic!("{}: {errors}", self.text()))
    }

    /// Compares with the definition on every device that has the instruction.
    fn check<A: Element, B: Element, C: Element>(&self, kernel: &Kernel<Params<A, B, C>>) {
        let mut rng = Rng::new(self.seed);
        let [m, n, depth] = self.extents.map(|extent| extent as usize);
        let mut matrix = |scalar: Scalar, len: usize| -> Vec<i64> {
            let low = if self.large || scalar == Scalar::U8 { 0 } else { -3 };
            (0..len).map(|_| low + rng.below(7) as i64).collect()
        };
        let (a, b) = (matrix(A::SCALAR, m * depth), matrix(B::SCALAR, n * depth));
        let c: Vec<i64> = (0..m * n)
            .map(|_| rng.below(20) as i64 - if self.large { 40 } else { 10 })
            .map(|c| if self.large { i64::from(i32::MAX) + c } else { c })
            .collect();
        let saturate = match self.mma.atom().op() {
            MmaOp::Sync(op) => op.saturate,
            MmaOp::Wgmma(op) => op.saturate,
            other => panic!("{other}"),
        };
        let expected: Vec<C> = (0..m * n)
            .map(|i| {
                let (row, column) = (i / n, i % n);
                let products = (0..depth).map(|q| a[row * depth + q] * b[column * depth + q]);
                let sum = c[i] + products.sum::<i64>();
                let sum = if saturate { sum.min(i32::MAX.into()) } else { sum };
                number::<C>(sum)
            })
            .collect();
        let (a, b): (Vec<A>, Vec<B>) =
            (a.into_iter().map(number).collect(), b.into_iter().map(number).collect());
        let c: Vec<C> = c.into_iter().map(number).collect();
        for device in device::devices() {
            if !device.is_sim() && !device.target().offers(self.target) {
                continue;
            }
            let found = self.run(&device, kernel, (&a, &b, &c));
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            if let Some(i) = wrong {
                let (text, name) = (self.text(), device.name());
                panic!("{text} on {name}: {:?} at {i}, not {:?}", found[i], expected[i]);
            }
        }
    }

    fn run<A: Element, B: Element, C: Element>(
        &self,
        device: &Device,
        kernel: &Kernel<Params<A, B, C>>,
        (a, b, c): (&[A], &[B], &[C]),
    ) -> Vec<C> {
        let (a, b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
        let mut c = device.upload(c).unwrap();
        let threads = self.mma.size().unwrap();
        let grid = Grid::new([1, 1, 1], [threads, 1, 1]);
        let launched = device.load(kernel).and_then(|kernel| kernel.launch(grid, (&a, &b, &mut c)));
        let sums = launched.and_then(|_| c.to_vec());
        sums.unwrap_or_else(|error| panic!("{} on {}: {error}", self.text(), device.name()))
    }
}

/// Runs `$f::<A, B, D>($args)` for the types of an atom.
macro_rules! by_types {
    ($op:expr, $f:ident $args:tt) => {
        match ($op.a, $op.b, $op.c) {
            (ValType::F16, ValType::F16, ValType::F16) => $f::<f16, f16, Vector<f16, 2>> $args,
            (ValType::F16, ValType::F16, ValType::F32) => $f::<f16, f16, f32> $args,
            (ValType::Bf16, ValType::Bf16, ValType::F32) => $f::<bf16, bf16, f32> $args,
            (ValType::Tf32, ValType::Tf32, ValType::F32) => $f::<tf32, tf32, f32> $args,
            (ValType::F64, ValType::F64, ValType::F64) => $f::<f64, f64, f64> $args,
            (ValType::S8, ValType::S8, ValType::S32) => $f::<i8, i8, i32> $args,
            (ValType::S8, ValType::U8, ValType::S32) => $f::<i8, u8, i32> $args,
            (ValType::U8, ValType::S8, ValType::S32) => $f::<u8, i8, i32> $args,
            (ValType::U8, ValType::U8, ValType::S32) => $f::<u8, u8, i32> $args,
            (ValType::E4M3, ValType::E4M3, ValType::F32) => $f::<f8e4m3, f8e4m3, f32> $args,
            (ValType::E4M3, ValType::E5M2, ValType::F32) => $f::<f8e4m3, f8e5m2, f32> $args,
            (ValType::E5M2, ValType::E4M3, ValType::F32) => $f::<f8e5m2, f8e4m3, f32> $args,
            (ValType::E5M2, ValType::E5M2, ValType::F32) => $f::<f8e5m2, f8e5m2, f32> $args,
            (ValType::E4M3, ValType::E4M3, ValType::F16) => $f::<f8e4m3, f8e4m3, Vector<f16, 2>> $args,
            (ValType::E4M3, ValType::E5M2, ValType::F16) => $f::<f8e4m3, f8e5m2, Vector<f16, 2>> $args,
            (ValType::E5M2, ValType::E4M3, ValType::F16) => $f::<f8e5m2, f8e4m3, Vector<f16, 2>> $args,
            (ValType::E5M2, ValType::E5M2, ValType::F16) => $f::<f8e5m2, f8e5m2, Vector<f16, 2>> $args,
            other => panic!("{other:?}"),
        }
    };
}

fn check_sync<A: Element, B: Element, D: Sums>(op: MmaSync, seed: u64, large: bool) {
    let atom = MmaAtom::new(op).unwrap();
    let mma = TiledMma::new(atom, &layout!((2, 1, 1)), tiler!(_, _, _)).unwrap();
    let [m, n, depth] = op.shape_mnk.map(i64::from);
    let extents = [4 * m, 3 * n, 2 * depth];
    let product = Product { mma, extents, target: op.target(), large, seed };
    let [m, n, depth] = extents;
    let kernel = product.build::<A, B, D>(|k, thr, sums, a, b| {
        let (x, y) = (thr.fragment_a::<A>(k, (m, depth)), thr.fragment_b::<B>(k, (n, depth)));
        copy(&thr.partition_a(&Tensor::new(a, Layout::row_major((m, depth)))), &x);
        copy(&thr.partition_b(&Tensor::new(b, Layout::row_major((n, depth)))), &y);
        product.mma.gemm_sync(sums, &x, &y);
    });
    // Two tiles along M, three along N, two along K.
    let count = kernel.ptx().text().matches(&format!("{} ", op.instruction())).count();
    assert_eq!(count, 2 * 3 * 2, "{}", op.instruction());
    product.check(&kernel);
}

/// As [`check_sync`], of A and B in global memory and sums that are elements.
fn check_gemm<A: Element, B: Element, D: Sums>(op: MmaSync, seed: u64, large: bool) {
    let atom = MmaAtom::new(op).unwrap();
    let mma = TiledMma::new(atom, &layout!((1, 2, 1)), tiler!(_, _, _)).unwrap();
    let [m, n, depth] = op.shape_mnk.map(i64::from);
    let extents = [2 * m, 4 * n, 2 * depth];
    let product = Product { mma, extents, target: op.target(), large, seed };
    let [m, n, depth] = extents;
    type Of<A, B, C> = Kernel<Params<A, B, C>>;
    let kernel: Of<A, B, D::Out> = Kernel::build("product", op.target(), |k, (a, b, c)| {
        let thr = product.mma.slice(k.thread_idx().x);
        let a = thr.partition_a(&Tensor::new(a, Layout::row_major((m, depth))));
        let b = thr.partition_b(&Tensor::new(b, Layout::row_major((n, depth))));
        let out = thr.partition_c(&Tensor::new(c, Layout::row_major((m, n))));
        let sums = thr.fragment_c::<D::Out>(k, shape!(m, n));
        copy(&out, &sums);
        gemm(&product.mma, &sums, &a, &b);
        copy(&sums, &out);
    })
    .unwrap_or_else(|errors| panic!("{}: {errors}", product.text()));
    product.check(&kernel);
}

/// Returns true if kernels can have the instruction.
fn is_executable(op: &MmaSync) -> bool {
    let known = [op.a, op.b, op.c].iter().all(|ty| ty.scalar().is_some());
    known && op.bit_op.is_none()
}

#[test]
fn every_mma_sync_multiplies() {
    let mut done = 0;
    for (seed, op) in (0..).zip(MmaOp::all()) {
        let MmaOp::Sync(op) = op else { continue };
        if is_executable(&op) {
            if !op.saturate {
                by_types!(op, check_sync(op, seed, false));
            }
            if op.c == ValType::S32 {
                by_types!(op, check_sync(op, seed, true));
            }
            by_types!(op, check_gemm(op, seed, op.saturate));
            done += 1;
        }
    }
    // f16 with two kinds of sums, bf16, tf32 in two shapes, f64 in four, four pairs of fp8 with two
    // kinds of sums, four pairs of bytes in three shapes, saturating or not.
    assert_eq!(done, 4 + 2 + 2 + 4 + 8 + 24);
}

/// An instruction on types that kernels lack is refused by its name.
#[test]
fn other_mma_sync_are_errors() {
    for op in MmaOp::all() {
        let MmaOp::Sync(sync) = op else { continue };
        if is_executable(&sync) {
            continue;
        }
        let mma = TiledMma::new(MmaAtom::new(op).unwrap(), &layout!((1, 1, 1)), tiler!(_, _, _));
        let mma = mma.unwrap();
        let errors = Kernel::<()>::build("none", Target::SM_90, |k, ()| {
            let c = RegisterTensor::<i32>::registers(k, layout!((4, 1, 1)));
            let a = RegisterTensor::<u32>::registers(k, layout!((4, 1, 1)));
            mma.gemm_sync(&c, &a, &a);
        })
        .expect_err("there is no such operation");
        let expected = format!("kernels do not support the instruction {} yet", op.instruction());
        assert!(errors.to_string().contains(&expected), "{errors}");
    }
}

/// A tile of an operand of `wgmma` in shared memory, in one of the swizzles that fit.
fn smem_tile(rng: &mut Rng, [mn, depth]: [i64; 2], bits: u32) -> ComposedLayout {
    loop {
        let major = if bits == 16 && rng.below(2) == 0 { Major::Mn } else { Major::K };
        let atom = SmemAtom::new(major, *rng.pick(&SmemSwizzle::ALL));
        let line = i64::from(atom.swizzle.line_bytes() * 8 / bits);
        let length = if major == Major::Mn { mn } else { depth };
        if length % line != 0 {
            continue;
        }
        let order = (major == Major::Mn && rng.below(2) == 0).then(|| shape!(1, 0));
        let atom = atom.position_independent(bits).unwrap();
        return atom.tile_to_shape(&shape!(mn, depth), order.as_ref()).unwrap();
    }
}

/// Elements in shared memory, brought there by all threads of a block.
fn bring<'b, T: Element>(
    k: &mut Body<'b, '_>,
    from: tilewright::ir::Val<'b, Global<T>>,
    tile: &ComposedLayout,
    [mn, depth]: [i64; 2],
) -> SharedTensor<'b, T> {
    let from = Tensor::new(from, Layout::row_major((mn, depth)));
    let to = SharedTensor::<T>::shared_aligned(k, tile.clone(), 1024);
    let all = range(k.thread_idx().x, (mn * depth) as i32).step(k.block_dim().x);
    k.for_(all, (), |_, i, ()| to.store(i, from.load(i)));
    to
}

fn check_wgmma<A: Element, B: Element, D: Sums>(op: Wgmma, seed: u64, large: bool) {
    let mut rng = Rng::new(seed);
    let atom = MmaAtom::new(op).unwrap();
    let groups = 1 + rng.below(2) as i64;
    let mma = TiledMma::new(atom, &layout!((groups, 1, 1)), tiler!(_, _, _)).unwrap();
    let [m, n, depth] = op.shape_mnk().map(i64::from);
    // The sums of a thread are registers: half as many as columns, for each tile along M.
    let most = if n > 200 { 1 } else { 2 };
    let (repeats, steps) = (1 + rng.below(most) as i64, 4);
    let extents = [groups * repeats * m, n, steps * depth];
    let product = Product { mma, extents, target: Target::SM_90A, large, seed };
    let [m, n, depth] = extents;
    let tile_a = smem_tile(&mut rng, [m, depth], op.a.bits());
    let tile_b = smem_tile(&mut rng, [n, depth], op.b.bits());
    let kernel = product.build::<A, B, D>(|k, thr, sums, a, b| {
        let y = bring(k, b, &tile_b, [n, depth]);
        let y = SmemOperand::new(&thr.partition_b(&y));
        let finish = |k: &mut Body<'_, '_>| {
            k.fence_proxy_async(ProxySpace::SharedCta);
            k.barrier();
            k.wgmma_fence();
        };
        if op.source_a == OperandSource::Shared {
            let x = bring(k, a, &tile_a, [m, depth]);
            let x = SmemOperand::new(&thr.partition_a(&x));
            finish(k);
            product.mma.gemm_async(sums, &x, &y, true);
        } else {
            let x = thr.fragment_a::<A>(k, (m, depth));
            copy(&thr.partition_a(&Tensor::new(a, Layout::row_major((m, depth)))), &x);
            finish(k);
            product.mma.gemm_async(sums, &x, &y, true);
        }
        k.wgmma_commit_group();
        k.wgmma_wait_group(0);
    });
    let count = kernel.ptx().text().matches(&format!("{} ", op.instruction())).count();
    assert_eq!(count as i64, repeats * steps, "{}", op.instruction());
    product.check(&kernel);
}

/// Every kind of `wgmma`, of one width each; the widths are the same for all.
#[test]
fn every_kind_of_wgmma_multiplies() {
    let mut kinds: HashMap<_, Vec<Wgmma>> = HashMap::new();
    for op in MmaOp::all() {
        if let MmaOp::Wgmma(op) = op {
            kinds.entry((op.a, op.b, op.c, op.source_a, op.saturate)).or_default().push(op);
        }
    }
    // f16 with two kinds of sums, bf16, tf32, four pairs of fp8 with two kinds of sums, four pairs
    // of bytes with saturation or not: A from shared memory and from registers.
    assert_eq!(kinds.len(), 2 * (2 + 1 + 1 + 8 + 8));
    let wanted = std::env::var("TILEWRIGHT_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases: usize = wanted.unwrap_or(if device::gpu().is_some() { 6 } else { 1 });
    for (kind, ops) in kinds {
        let text = format!("{kind:?}");
        let mut rng = Rng::new(text.bytes().map(u64::from).sum());
        for case in 0..cases {
            let op = *rng.pick(&ops);
            let seed = rng.word();
            let large = op.c == ValType::S32 && (op.saturate || case % 2 == 1);
            by_types!(op, check_wgmma(op, seed, large));
        }
    }
}

/// Operands that do not fit the instruction are refused.
#[test]
fn mistakes_are_errors_of_the_build() {
    let tiled = |name: &str| {
        let atom: MmaAtom = name.parse().unwrap();
        TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _)).unwrap()
    };
    let sync = tiled("SM80_16x8x16_F32F16F16F32_TN");
    let half = tiled("SM80_16x8x16_F16F16F16F16_TN");
    let shared = tiled("SM90_64x8x16_F32BF16BF16_SS");
    let registers = tiled("SM90_64x8x16_F32BF16BF16_RS");
    let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw32).position_independent(16).unwrap();
    let errors = Kernel::<()>::build("wrong", Target::SM_90A, |k, ()| {
        let thr = sync.slice(k.thread_idx().x);
        let a = thr.fragment_a::<bf16>(k, shape!(16, 16));
        let b = thr.fragment_b::<f16>(k, shape!(8, 16));
        let sums = thr.fragment_accumulators::<f32>(k, shape!(16, 8));
        sync.gemm_sync(&sums, &a, &b);
        let a = thr.fragment_a::<f16>(k, shape!(16, 16));
        half.gemm_sync(&sums, &a, &b);
        sync.gemm_sync(&sums, &b, &a);
        let apart = RegisterTensor::<f32>::registers(k, layout!(((2, 2), 1, 1) : ((1, 4), 0, 0)));
        sync.gemm_sync(&apart, &a, &b);
        let thr = shared.slice(k.thread_idx().x);
        let tile = rows.tile_to_shape(&shape!(64, 16), None).unwrap();
        let x = SharedTensor::<bf16>::shared_aligned(k, tile, 1024);
        let b = SmemOperand::new(&thr.partition_b(&x.local_tile(&tiler!(8, 16), (0, 0))));
        let a = thr.partition_a(&x);
        let (a, held) =
            (SmemOperand::new(&a), registers.slice(0).fragment_a::<bf16>(k, shape!(64, 16)));
        let sums = thr.fragment_accumulators::<f32>(k, shape!(64, 8));
        shared.gemm_async(&sums, &held, &b, false);
        registers.gemm_async(&sums, &a, &b, false);
        let wide = thr.fragment_accumulators::<i32>(k, shape!(64, 8));
        shared.gemm_async(&wide, &a, &b, false);
        sync.gemm_async(&sums, &a, &b, false);
        shared.gemm_sync(&sums, &held, &held);
    })
    .expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(|error| error.kind.to_string()).collect();
    let expected = [
        "the elements of A are bf16, but the instruction needs F16",
        "the elements of C are f32, but the instruction needs pairs of F16",
        "the shapes do not match: C is ((2,2),1,1), A is ((2,2),1,1) and B is ((2,2,2),1,1)",
        "an instruction's accumulators must be consecutive registers",
        "the instruction reads A from shared memory",
        "the instruction reads A from registers",
        "the elements of C are i32, but the instruction needs F32",
        "use `gemm_sync` to execute mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "use `gemm_async` to execute wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
    ];
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.contains(expected), "{text}\nis not\n{expected}");
    }
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
}
