//! [`TiledMma::gemm_sync`]: multiplies operand fragments in registers with `mma.sync`, the inner
//! step of an `sm_80` main loop. Use it if your main loop loads fragments itself.

use crate::ir::builder::{Accumulator, AnyVector, Ty};
use crate::ir::op::MmaOverflow;
use crate::ir::types::{Scalar, Type};
use crate::ir::{Body, Element, Registers, Val};
use crate::layout::IntTuple;

use super::extents;
use crate::tensor::atom::tiled_mma::{Operand, TiledMma};
use crate::tensor::atom::{MmaOp, MmaSync, ValType};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::RegisterTensor;

impl TiledMma {
    /// Computes `c += a bᵀ` with `mma.sync` on a thread's fragments: accumulators (V, M, N) from
    /// (V, M, K) and (V, N, K), one K step after the other. CuTe's `gemm` on register tensors. It
    /// takes every `mma.sync` atom that kernels support.
    ///
    /// A and B hold the atom's element types
    /// ([`fragment_a`](crate::tensor::atom::ThrMma::fragment_a)) or 32-bit words of them
    /// ([`fragment_words`](crate::tensor::atom::ThrMma::fragment_words)). `f32` also works for
    /// `tf32`; the instruction truncates it. Make the accumulators with
    /// [`fragment_accumulators`](crate::tensor::atom::ThrMma::fragment_accumulators), which gives
    /// pairs for `F16`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::atom::{MmaAtom, TiledMma};
    /// use tilewright::tensor::copy::copy;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let atom: MmaAtom = "SM80_16x8x32_S32S8S8S32_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// type Params = (Global<i8>, Global<i8>, GlobalMut<i32>);
    /// let kernel = Kernel::<Params>::build("product", Target::SM_80, |k, (a, b, c)| {
    ///     let thr = mma.slice(k.thread_idx().x);
    ///     let (x, y) = (thr.fragment_a::<i8>(k, shape!(16, 64)), thr.fragment_b::<i8>(k, shape!(8, 64)));
    ///     copy(&thr.partition_a(&Tensor::new(a, layout!((16, 64) : (64, 1)))), &x);
    ///     copy(&thr.partition_b(&Tensor::new(b, layout!((8, 64) : (64, 1)))), &y);
    ///     let accumulators = thr.fragment_accumulators::<i32>(k, shape!(16, 8));
    ///     accumulators.fill(0);
    ///     mma.gemm_sync(&accumulators, &x, &y);
    ///     copy(&accumulators, &thr.partition_c(&Tensor::new(c, layout!((16, 8) : (8, 1)))));
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32").count(), 2);
    /// let device = Device::sim()?;
    /// let (a, b) = (device.upload(&[3i8; 16 * 64])?, device.upload(&[-2i8; 8 * 64])?);
    /// let mut c = device.zeros::<i32>(16 * 8)?;
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&a, &b, &mut c))?;
    /// assert_eq!(c.to_vec()?, [-6 * 64; 16 * 8]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn gemm_sync<D: Accumulator, A: Element, B: Element>(
        &self,
        c: &RegisterTensor<'_, D>,
        a: &RegisterTensor<'_, A>,
        b: &RegisterTensor<'_, B>,
    ) {
        let k = &c.body();
        if a.poisoned || b.poisoned || c.poisoned {
            return;
        }
        if let Err(kind) = self.multiply_all(k, c, a, b) {
            let operand = self.atom().op().to_string();
            k.report(TensorError { operation: "gemm", operand, kind });
        }
    }

    #[track_caller]
    fn multiply_all<D: Accumulator, A: Element, B: Element>(
        &self,
        k: &Body<'_, '_>,
        c: &RegisterTensor<'_, D>,
        a: &RegisterTensor<'_, A>,
        b: &RegisterTensor<'_, B>,
    ) -> Result<(), TensorErrorKind> {
        let op = self.atom().op();
        let none = || TensorErrorKind::NoOperation { instruction: op.instruction() };
        let MmaOp::Sync(sync) = op else { return Err(not_here(op)) };
        let types = [element_type::<A>("A", sync.a)?, element_type::<B>("B", sync.b)?];
        let [a_type, b_type] = [types[0].ok_or_else(none)?, types[1].ok_or_else(none)?];
        check_accumulators::<D>(sync.c)?;
        let own = |operand| self.values_in::<D>(operand);
        let counts = [
            own(Operand::C)?,
            in_registers::<A>(own(Operand::A)?, a_type),
            in_registers::<B>(own(Operand::B)?, b_type),
        ];
        let [m, n, depth] = extents(c.layout(), a.layout(), b.layout(), counts)?;
        for step in 0..depth {
            // Column by column, because row by row was slower when measured in a whole kernel.
            for column in 0..n {
                let of_b = registers(b, (column, step))?;
                for row in 0..m {
                    let of_a = registers(a, (row, step))?;
                    let accumulators = accumulators_at(c, (row, column))?;
                    multiply(k, *sync, &accumulators, &of_a, a_type, &of_b, b_type)
                        .ok_or_else(none)?;
                }
            }
        }
        Ok(())
    }

    /// Returns a thread's values per instruction; accumulators that share a register count as one.
    pub(in crate::tensor) fn values_in<D: Accumulator>(
        &self,
        operand: Operand,
    ) -> Result<i64, TensorErrorKind> {
        let (tv, lanes) = match operand {
            Operand::A => (self.atom().layout_a_tv(), 1),
            Operand::B => (self.atom().layout_b_tv(), 1),
            Operand::C => (self.atom().layout_c_tv(), D::LANES),
        };
        Ok(tv.get(&[1])?.size()?.to_static()? / i64::from(lanes))
    }
}

/// Returns the error for an instruction that another function, or none, executes.
#[inline]
pub(in crate::tensor) fn not_here(op: &MmaOp) -> TensorErrorKind {
    let instruction = op.instruction();
    let method = match op {
        MmaOp::UniversalFma { .. } => "gemm",
        MmaOp::Sync(_) => "gemm_sync",
        MmaOp::Wgmma(_) => "gemm_async",
        MmaOp::Dp4a | MmaOp::Dp2a | MmaOp::QuadPair { .. } => {
            return TensorErrorKind::NoOperation { instruction };
        }
    };
    TensorErrorKind::OtherGemm { instruction, method }
}

/// Returns the element type that a fragment of `T` represents: the instruction's, possibly packed
/// in words. `None` if kernels have no such type.
pub(in crate::tensor) fn element_type<T: Element>(
    operand: &'static str,
    expected: ValType,
) -> Result<Option<Scalar>, TensorErrorKind> {
    let Some(elem) = expected.scalar() else { return Ok(None) };
    let takes = T::scalar() == elem
        || T::scalar() == Scalar::U32
        || (elem == Scalar::Tf32 && T::scalar() == Scalar::F32);
    let (found, expected) = (T::scalar(), expected.to_string());
    takes.then_some(Some(elem)).ok_or(TensorErrorKind::ElementType { operand, found, expected })
}

/// How many registers of `T` hold `values` elements.
pub(in crate::tensor) fn in_registers<T: Element>(values: i64, elem: Scalar) -> i64 {
    values * i64::from(elem.bits()) / i64::from(T::scalar().bits())
}

/// Checks that `D` is the instruction's accumulator type.
pub(in crate::tensor) fn check_accumulators<D: Accumulator>(
    expected: ValType,
) -> Result<(), TensorErrorKind> {
    let (found, lanes) = match D::ty() {
        Type::Scalar(scalar) => (scalar, 1),
        Type::Vector(vector) => (vector.elem(), vector.lanes()),
        // No accumulator is a pointer; this arm is never taken.
        Type::Pointer { elem, .. } | Type::TensorMap { elem, .. } => (elem, 0),
    };
    let packed = if expected == ValType::F16 { 2 } else { 1 };
    if expected.scalar() == Some(found) && lanes == packed {
        return Ok(());
    }
    let expected = if packed == 2 { "pairs of F16".to_owned() } else { expected.to_string() };
    Err(TensorErrorKind::ElementType { operand: "C", found, expected })
}

/// Returns one instruction's values at a coordinate (M or N, K) of a fragment.
#[track_caller]
pub(in crate::tensor) fn registers<'b, T: Element>(
    fragment: &RegisterTensor<'b, T>,
    (mn, step): (i64, i64),
) -> Result<Vec<Val<'b, T>>, TensorErrorKind> {
    let layout = fragment.layout();
    let values = layout.get(&[0])?.size()?.to_static()?;
    let mut all = Vec::with_capacity(values as usize);
    let words = fragment.variables();
    for value in 0..values {
        let at = layout.crd2idx(IntTuple::from((value, mn, step)))?.to_static()?;
        all.push(words.get(u32::try_from(at).unwrap_or(u32::MAX)));
    }
    Ok(all)
}

/// Returns one instruction's accumulators, which must be adjacent, at a coordinate (M, N).
pub(in crate::tensor) fn accumulators_at<'b, D: Ty>(
    c: &RegisterTensor<'b, D>,
    (row, column): (i64, i64),
) -> Result<Registers<'b, D>, TensorErrorKind> {
    let layout = c.layout();
    let values = layout.get(&[0])?.size()?.to_static()?;
    let at = |value: i64| layout.crd2idx(IntTuple::from((value, row, column)))?.to_static();
    let first = at(0)?;
    for value in 1..values {
        if at(value)? != first + value {
            return Err(TensorErrorKind::AccumulatorsApart { layout: layout.to_string() });
        }
    }
    let number = |index: i64| u32::try_from(index).unwrap_or(u32::MAX);
    Ok(c.engine.variables().part(number(first), number(values)))
}

/// Packs an instruction's elements into one vector; `None` if no vector has this length.
#[track_caller]
pub(in crate::tensor) fn operand<'b, T: Element>(
    values: &[Val<'b, T>],
    elem: Scalar,
) -> Option<AnyVector<'b>> {
    AnyVector::pack(values)?.cast(elem)
}

/// Emits one instruction.
#[track_caller]
pub(in crate::tensor) fn multiply<'b, A: Element, B: Element, D: Accumulator>(
    k: &Body<'b, '_>,
    op: MmaSync,
    accumulators: &Registers<'_, D>,
    a: &[Val<'b, A>],
    a_type: Scalar,
    b: &[Val<'b, B>],
    b_type: Scalar,
) -> Option<()> {
    let [m, _, depth] = op.shape_mnk;
    if op.a == ValType::F64 && m == 16 && depth > 4 {
        // No vector is long enough.
        k.mma_sync_f64_into(accumulators, &doubles(a)?, &doubles(b)?);
        return Some(());
    }
    let (a, b) = (operand(a, a_type)?, operand(b, b_type)?);
    let overflow = if op.saturate { MmaOverflow::Satfinite } else { MmaOverflow::Wrap };
    k.mma_sync_with(accumulators, a, b, overflow);
    Some(())
}

/// Returns the values as `f64`, from elements or from words.
#[track_caller]
fn doubles<'b, T: Element>(values: &[Val<'b, T>]) -> Option<Vec<Val<'b, f64>>> {
    let of_one = |values: &[Val<'b, T>]| operand(values, Scalar::F64)?.values::<f64>()?.pop();
    values.chunks((64 / T::scalar().bits()) as usize).map(of_one).collect()
}
