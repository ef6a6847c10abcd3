//! MMA on tensors: GEMM calls for a thread's partitions, operands, main loops and accumulators.
//! Partition the operands first ([`TiledMma`]).
//!
//! | you have | use |
//! |---|---|
//! | partitions in any memory, FMA or `mma.sync` | [`gemm`] |
//! | fragments in registers, `mma.sync` | [`TiledMma::gemm_sync`] |
//! | operands in shared memory, `wgmma` | [`SmemOperand`], [`TiledMma::gemm_async`] |
//! | a TMA pipeline's consumer, `wgmma` | [`WgmmaMainloop`] |
//! | a 2:4 sparse A, `wgmma` | [`SparseMma::gemm_async`](super::atom::SparseMma::gemm_async) |
//! | accumulators that become the next operand A | [`AccumulatorOperand`] |
//! | row-wise work on accumulators | [`AccumulatorRows`], [`OnlineSoftmax`] |

pub(super) mod accumulator_operand;
pub(super) mod accumulator_rows;
pub(super) mod mainloop;
pub(super) mod mma_sync;
pub(super) mod online_softmax;
pub(super) mod smem_operand;
mod sparse;
pub(super) mod wgmma;

pub use accumulator_operand::AccumulatorOperand;
pub use accumulator_rows::AccumulatorRows;
pub use mainloop::WgmmaMainloop;
pub(crate) use mainloop::copy_bits;
pub use online_softmax::{OnlineSoftmax, SoftmaxEnd};
pub use smem_operand::SmemOperand;
pub use wgmma::WgmmaOperand;

use crate::ir::builder::AnyVector;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Float, Registers, Val, Vector, bf16, f16};
use crate::layout::Layout;

use self::mma_sync::{accumulators_at, element_type, in_registers, multiply, not_here};
use super::atom::tiled_mma::{Operand, TiledMma};
use super::atom::{MmaOp, MmaSync, ValType};
use super::error::{TensorError, TensorErrorKind};
use super::view::engine::{Readable, Writable};
use super::view::tensor::{RegisterTensor, Tensor};

/// Computes `c += a bᵀ` on a thread's partitions: (V, M, N) from (V, M, K) and (V, N, K), one K
/// step after the other. CuTe's `gemm`.
///
/// A and B can be in any memory. What is not in registers is loaded before each K step, each
/// element once. All elements have the atom's types
/// ([`fragment_c`](super::atom::ThrMma::fragment_c)).
///
/// The atom is the universal FMA (one `fma` with one rounding each) or an `mma.sync`. It is the
/// simplest call, but loads element by element. For fragments that
/// [`MatrixLoad`](super::copy::MatrixLoad) fills use [`TiledMma::gemm_sync`], for `wgmma`
/// [`TiledMma::gemm_async`].
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::atom::{MmaAtom, MmaOp, TiledMma, ValType};
/// use tilewright::tensor::copy::copy;
/// use tilewright::tensor::mma::gemm;
/// use tilewright::tensor::view::Tensor;
///
/// let atom = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 })?;
/// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, _, _))?;
/// type Signature = (Global<f32>, Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Signature>::build("product", Target::SM_80, |k, (a, b, c)| {
///     let thr = mma.slice(k.thread_idx().x);
///     let a = thr.partition_a(&Tensor::new(a, layout!((2, 3) : (3, 1))));
///     let b = thr.partition_b(&Tensor::new(b, layout!((4, 3) : (1, 4))));
///     let c = thr.partition_c(&Tensor::new(c, layout!((2, 4) : (4, 1))));
///     let accumulators = thr.fragment_c(k, shape!(2, 4));
///     accumulators.fill(0.0);
///     gemm(&mma, &accumulators, &a, &b);
///     copy(&accumulators, &c);
/// })?;
/// let device = Device::sim()?;
/// let a = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let b = device.upload(&[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0])?;
/// let mut c = device.upload(&[0.0; 8])?;
/// let grid = Grid { threads: [4, 1, 1], ..Grid::cover(1, 1) };
/// device.load(&kernel)?.launch(grid, (&a, &b, &mut c))?;
/// assert_eq!(c.to_vec()?, [1.0, 2.0, 3.0, 6.0, 4.0, 5.0, 6.0, 15.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn gemm<'b, D, A, B>(mma: &TiledMma, c: &RegisterTensor<'b, D>, a: &Tensor<A>, b: &Tensor<B>)
where
    D: Element,
    A: Readable<'b>,
    B: Readable<'b>,
{
    let k = &c.body();
    if a.poisoned || b.poisoned || c.poisoned {
        return;
    }
    let done = match mma.atom().op() {
        MmaOp::UniversalFma { ty } => fma_all(k, *ty, c, a, b),
        MmaOp::Sync(op) => sync_all(k, mma, *op, c, a, b),
        op => Err(not_here(op)),
    };
    if let Err(kind) = done {
        let operand = format!("{}", mma.atom().op());
        k.report(TensorError { operation: "gemm", operand, kind });
    }
}

#[track_caller]
fn fma_all<'b, D, A, B>(
    k: &Body<'b, '_>,
    expected: ValType,
    c: &RegisterTensor<'b, D>,
    a: &Tensor<A>,
    b: &Tensor<B>,
) -> Result<(), TensorErrorKind>
where
    D: Element,
    A: Readable<'b>,
    B: Readable<'b>,
{
    for found in [D::scalar(), A::Elem::scalar(), B::Elem::scalar()] {
        if expected.scalar() != Some(found) {
            let (operand, expected) = ("A, B and C", expected.to_string());
            return Err(TensorErrorKind::ElementType { operand, found, expected });
        }
    }
    let extents = extents(c.layout(), a.layout(), b.layout(), [1, 1, 1])?;
    let steps = Steps::new(k, extents, c, a, b)?;
    for (rows, columns) in steps.a.iter().zip(&steps.b) {
        let mut x: Vec<Val<'b, A::Elem>> = Vec::with_capacity(rows.len());
        for row in rows {
            x.push(row.read());
        }
        let mut accumulators = steps.c.iter();
        for column in columns {
            let y = column.read();
            for x in &x {
                let Some(sum) = accumulators.next() else { continue };
                let sum = c.engine.at(*sum);
                if let Some(next) = fma([(*x).into(), y.into(), sum.read().into()]) {
                    sum.write(next);
                }
            }
        }
    }
    Ok(())
}

/// Computes `x y + z`; all three have the type `D`.
#[track_caller]
fn fma<'b, D: Element>(operands: [AnyVector<'b>; 3]) -> Option<Val<'b, D>> {
    #[track_caller]
    fn of<'b, T: Float, D: Element>([x, y, z]: [AnyVector<'b>; 3]) -> Option<Val<'b, D>> {
        let (x, y) = (x.values::<T>()?.pop()?, y.values::<T>()?.pop()?);
        AnyVector::from(x.fma(y, z.values::<T>()?.pop()?)).values::<D>()?.pop()
    }
    match D::scalar() {
        Scalar::F32 => of::<f32, D>(operands),
        Scalar::F64 => of::<f64, D>(operands),
        Scalar::F16 => of::<f16, D>(operands),
        Scalar::Bf16 => of::<bf16, D>(operands),
        // The types have been checked against the atom's.
        _ => None,
    }
}

#[track_caller]
fn sync_all<'b, D, A, B>(
    k: &Body<'b, '_>,
    mma: &TiledMma,
    op: MmaSync,
    c: &RegisterTensor<'b, D>,
    a: &Tensor<A>,
    b: &Tensor<B>,
) -> Result<(), TensorErrorKind>
where
    D: Element,
    A: Readable<'b>,
    B: Readable<'b>,
{
    let _call = k.call();
    let none = || TensorErrorKind::NoOperation { instruction: op.instruction() };
    let a_type = element_type::<A::Elem>("A", op.a)?.ok_or_else(none)?;
    let b_type = element_type::<B::Elem>("B", op.b)?.ok_or_else(none)?;
    if op.c.scalar() != Some(D::scalar()) {
        let (found, expected) = (D::scalar(), op.c.to_string());
        return Err(TensorErrorKind::ElementType { operand: "C", found, expected });
    }
    // Here each register of a C fragment holds one element.
    let own = |operand| mma.values_in::<f32>(operand);
    let counts = [
        own(Operand::C)?,
        in_registers::<A::Elem>(own(Operand::A)?, a_type),
        in_registers::<B::Elem>(own(Operand::B)?, b_type),
    ];
    let [m, n, depth] = extents(c.layout(), a.layout(), b.layout(), counts)?;
    for step in 0..depth {
        let mut x = Vec::new();
        for row in 0..m {
            x.push(part(k, a, (row, step))?);
        }
        for column in 0..n {
            let y = part(k, b, (column, step))?;
            for (row, x) in (0..m).zip(&x) {
                let accumulators = accumulators_at(c, (row, column))?;
                let done = match D::scalar() {
                    Scalar::F16 => in_pairs(k, &accumulators, |pairs| {
                        multiply(k, op, pairs, x, a_type, &y, b_type)
                    }),
                    Scalar::F32 => accumulators
                        .of::<f32>()
                        .and_then(|sums| multiply(k, op, &sums, x, a_type, &y, b_type)),
                    Scalar::F64 => accumulators
                        .of::<f64>()
                        .and_then(|sums| multiply(k, op, &sums, x, a_type, &y, b_type)),
                    Scalar::I32 => accumulators
                        .of::<i32>()
                        .and_then(|sums| multiply(k, op, &sums, x, a_type, &y, b_type)),
                    _ => None,
                };
                done.ok_or_else(none)?;
            }
        }
    }
    Ok(())
}

/// Runs an instruction that holds two accumulators per register.
#[track_caller]
fn in_pairs<'b, D: Element>(
    k: &Body<'b, '_>,
    accumulators: &Registers<'b, D>,
    multiply: impl FnOnce(&Registers<'b, Vector<f16, 2>>) -> Option<()>,
) -> Option<()> {
    let accumulators = accumulators.of::<f16>()?;
    let pairs = k.registers::<Vector<f16, 2>>(accumulators.len() / 2);
    for pair in 0..pairs.len() {
        pairs.set(pair, Val::pack([accumulators.get(2 * pair), accumulators.get(2 * pair + 1)]));
    }
    multiply(&pairs)?;
    for pair in 0..pairs.len() {
        for (lane, value) in (0..).zip(pairs.get(pair).lanes()) {
            accumulators.set(2 * pair + lane, value);
        }
    }
    Some(())
}

/// Returns one instruction's elements at a coordinate (M or N, K) of a partition.
#[track_caller]
fn part<'b, E: Readable<'b>>(
    k: &Body<'b, '_>,
    tensor: &Tensor<E>,
    (mn, step): (i64, i64),
) -> Result<Vec<Val<'b, E::Elem>>, TensorErrorKind> {
    let values = tensor.layout().get(&[0])?.size()?.to_static()?;
    let mut all = Vec::with_capacity(values as usize);
    for value in 0..values {
        all.push(tensor.engine_at(k, (value, mn, step))?.read());
    }
    Ok(all)
}

/// Returns the extents M, N and K of the partitions, which must match each other and the atom.
#[inline]
pub(super) fn extents(
    c: &Layout,
    a: &Layout,
    b: &Layout,
    values: [i64; 3],
) -> Result<[i64; 3], TensorErrorKind> {
    let extent = |layout: &Layout, mode: usize| layout.get(&[mode])?.size()?.to_static();
    let ranks = [c, a, b].map(Layout::rank);
    let shapes = || TensorErrorKind::GemmShapes {
        c: c.shape().to_string(),
        a: a.shape().to_string(),
        b: b.shape().to_string(),
    };
    if ranks != [3, 3, 3] {
        return Err(shapes());
    }
    let [m, n, depth] = [extent(a, 1)?, extent(b, 1)?, extent(a, 2)?];
    let own = [extent(c, 0)?, extent(a, 0)?, extent(b, 0)?];
    let fits = extent(c, 1)? == m && extent(c, 2)? == n && extent(b, 2)? == depth;
    if own == values && fits { Ok([m, n, depth]) } else { Err(shapes()) }
}

/// Both operands' elements and the accumulators' indices, in the order of their use.
struct Steps<A, B> {
    /// Per K step, the rows.
    a: Vec<Vec<A>>,
    /// Per K step, the columns.
    b: Vec<Vec<B>>,
    /// The accumulators, rows fastest.
    c: Vec<i64>,
}

impl<'b, A: Readable<'b>, B: Readable<'b>> Steps<A, B> {
    #[track_caller]
    fn new<C>(
        k: &Body<'b, '_>,
        [m, n, depth]: [i64; 3],
        c: &Tensor<C>,
        a: &Tensor<A>,
        b: &Tensor<B>,
    ) -> Result<Self, TensorErrorKind> {
        let mut steps = Steps { a: Vec::new(), b: Vec::new(), c: Vec::new() };
        for step in 0..depth {
            steps.a.push(line(k, a, m, step)?);
            steps.b.push(line(k, b, n, step)?);
        }
        for column in 0..n {
            for row in 0..m {
                steps.c.push(c.layout().crd2idx((0, row, column))?.to_static()?);
            }
        }
        Ok(steps)
    }
}

/// Returns the first `len` elements of a K step.
#[track_caller]
fn line<'b, E: Readable<'b>>(
    k: &Body<'b, '_>,
    tensor: &Tensor<E>,
    len: i64,
    step: i64,
) -> Result<Vec<E>, TensorErrorKind> {
    let mut all = Vec::new();
    for mn in 0..len {
        all.push(tensor.engine_at(k, (0, mn, step))?);
    }
    Ok(all)
}
