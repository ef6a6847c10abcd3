//! [`TiledMma::gemm_async`]: starts a tile's `wgmma` instructions. Use it in an `sm_90a` main loop
//! of your own; [`WgmmaMainloop`](crate::tensor::mma::WgmmaMainloop) is the ready-made one.

use crate::arch::Major;
use crate::ir::builder::{Accumulator, AnyVector, IntoVal};
use crate::ir::op::WgmmaForm;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Val};
use crate::layout::{IntTuple, Layout, LayoutError};

use super::mma_sync::{
    accumulators_at, check_accumulators, element_type, in_registers, not_here, operand, registers,
};
use super::smem_operand::SmemOperand;
use crate::tensor::atom::tiled_mma::{Operand, TiledMma};
use crate::tensor::atom::{MmaOp, OperandSource, ValType, Wgmma};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::RegisterTensor;

mod sealed {
    /// Keeps other crates from adding operands.
    pub trait Sealed {}
    impl Sealed for super::SmemOperand<'_> {}
    impl<T: crate::ir::Element> Sealed for super::RegisterTensor<'_, T> {}
}

/// Operand A of a `wgmma`: a [`SmemOperand`], or a [`RegisterTensor`] (V, M, K) of elements or
/// words. [`TiledMma::gemm_async`] takes either; you name the trait only as a bound.
pub trait WgmmaOperand<'b>: sealed::Sealed {
    /// Returns whether it is a placeholder.
    #[doc(hidden)]
    fn is_poisoned(&self) -> bool;
    /// Returns the extents M and K.
    ///
    /// # Errors
    /// The instruction cannot read it.
    #[doc(hidden)]
    fn extents(&self, mma: &TiledMma, op: &Wgmma) -> Result<[i64; 2], TensorErrorKind>;
    /// Returns the shape as text.
    #[doc(hidden)]
    fn shape_text(&self) -> String;
    /// Returns whether it is contiguous along M.
    #[doc(hidden)]
    fn is_mn_major(&self) -> bool;
    /// Returns one instruction's operand.
    ///
    /// # Errors
    /// The coordinate is outside.
    #[doc(hidden)]
    fn part(&self, elem: Scalar, coord: (i64, i64)) -> Result<WgmmaSource<'b>, TensorErrorKind>;
}

/// Operand A of one `wgmma`: the descriptor in shared memory, or the thread's registers. A
/// [`WgmmaOperand`] hands it to [`TiledMma::gemm_async`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum WgmmaSource<'b> {
    /// A matrix descriptor.
    Shared(Val<'b, u64>),
    /// The thread's elements.
    Registers(AnyVector<'b>),
}

#[inline]
pub(super) fn index(layout: &Layout, coord: (i64, i64)) -> Result<i64, LayoutError> {
    layout.crd2idx(IntTuple::from(coord))?.to_static()
}

#[inline]
pub(super) fn extent(layout: &Layout, mode: usize) -> Result<i64, LayoutError> {
    layout.get(&[mode])?.size()?.to_static()
}

fn check_source(op: &Wgmma, found: OperandSource) -> Result<(), TensorErrorKind> {
    if op.source_a == found {
        return Ok(());
    }
    Err(TensorErrorKind::OperandMemory {
        expected: match op.source_a {
            OperandSource::Shared => "shared memory: give it a `SmemOperand`",
            OperandSource::Registers => "registers: give it a fragment",
        },
    })
}

/// Checks the element type in shared memory; `f32` also works for `tf32`.
#[inline]
pub(super) fn check_shared(
    operand: &'static str,
    found: Scalar,
    expected: ValType,
) -> Result<(), TensorErrorKind> {
    let takes =
        expected.scalar() == Some(found) || (expected == ValType::Tf32 && found == Scalar::F32);
    let expected = expected.to_string();
    takes.then_some(()).ok_or(TensorErrorKind::ElementType { operand, found, expected })
}

impl<'b> WgmmaOperand<'b> for SmemOperand<'b> {
    fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    #[inline]
    fn extents(&self, _: &TiledMma, op: &Wgmma) -> Result<[i64; 2], TensorErrorKind> {
        check_source(op, OperandSource::Shared)?;
        check_shared("A", self.elem, op.a)?;
        Ok([extent(&self.layout, 0)?, extent(&self.layout, 1)?])
    }

    fn shape_text(&self) -> String {
        self.layout.shape().to_string()
    }

    fn is_mn_major(&self) -> bool {
        self.major == Major::Mn
    }

    #[track_caller]
    #[inline]
    fn part(&self, _: Scalar, coord: (i64, i64)) -> Result<WgmmaSource<'b>, TensorErrorKind> {
        Ok(WgmmaSource::Shared(self.at(index(&self.layout, coord)?)))
    }
}

impl<'b, T: Element> WgmmaOperand<'b> for RegisterTensor<'b, T> {
    fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn extents(&self, mma: &TiledMma, op: &Wgmma) -> Result<[i64; 2], TensorErrorKind> {
        check_source(op, OperandSource::Registers)?;
        let none = || TensorErrorKind::NoOperation { instruction: op.instruction() };
        let elem = element_type::<T>("A", op.a)?.ok_or_else(none)?;
        let values = in_registers::<T>(mma.values_in::<f32>(Operand::A)?, elem);
        let own = extent(self.layout(), 0)?;
        if own != values {
            let text = format!("{own} values per thread: the instruction needs {values}");
            return Err(LayoutError::Unsupported { operation: "wgmma", argument: text }.into());
        }
        Ok([extent(self.layout(), 1)?, extent(self.layout(), 2)?])
    }

    fn shape_text(&self) -> String {
        self.shape().to_string()
    }

    fn is_mn_major(&self) -> bool {
        false
    }

    #[track_caller]
    fn part(&self, elem: Scalar, coord: (i64, i64)) -> Result<WgmmaSource<'b>, TensorErrorKind> {
        let values = registers(self, coord)?;
        let none = TensorErrorKind::NoOperation { instruction: format!("wgmma of {elem}") };
        operand(&values, elem).map(WgmmaSource::Registers).ok_or(none)
    }
}

impl TiledMma {
    /// Starts a warp group's `wgmma` for `c += a bᵀ`, or `c = a bᵀ` unless `accumulate`:
    /// accumulators (V, M, N) from partitions (M, K) of A and (N, K) of B, one K step after the
    /// other.
    ///
    /// Call [`wgmma_fence`](Body::wgmma_fence) before and `wgmma_commit_group` after it. The
    /// accumulators are valid after a wait ([`wgmma_wait_group`](Body::wgmma_wait_group)).
    ///
    /// If A is in registers, `wgmma` reads them until that wait, and in a loop the next iteration's
    /// A has the same registers. So compute or convert the next A after the wait; it is not enough
    /// to store it to the fragment there. Otherwise `ptxas` serialises every `wgmma` of the kernel
    /// (C7513); the build refuses the cases in which `ptxas` is known to do so.
    ///
    /// Whether A is in shared memory or in registers depends on the atom. Registers hold elements
    /// ([`fragment_a`](crate::tensor::atom::ThrMma::fragment_a)) or words of them. Make the
    /// accumulators with
    /// [`fragment_accumulators`](crate::tensor::atom::ThrMma::fragment_accumulators). `f32` also
    /// works for `tf32`; the instruction truncates it.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, Val, Vector, f16};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::atom::{MmaAtom, SmemAtom, SmemSwizzle, TiledMma};
    /// use tilewright::tensor::mma::SmemOperand;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// let atom: MmaAtom = "SM90_64x64x16_F16F16F16_RS".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
    /// let tile = rows.tile_to_shape(&shape!(64, 64), None)?;
    /// let kernel = Kernel::<()>::build("k", Target::SM_90A, |k, ()| {
    ///     let thr = mma.slice(k.thread_idx().x);
    ///     let tile = SharedTensor::<f16>::shared_aligned(k, tile.clone(), 1024);
    ///     let a = thr.fragment_a::<f16>(k, shape!(64, 64));
    ///     a.fill(f16::from_f32(1.0));
    ///     let b = SmemOperand::new(&thr.partition_b(&tile));
    ///     let accumulators = thr.fragment_accumulators::<Vector<f16, 2>>(k, shape!(64, 64));
    ///     k.wgmma_fence();
    ///     mma.gemm_async(&accumulators, &a, &b, false);
    ///     k.wgmma_commit_group();
    ///     k.wgmma_wait_group(0);
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn gemm_async<'b, D: Accumulator>(
        &self,
        c: &RegisterTensor<'b, D>,
        a: &impl WgmmaOperand<'b>,
        b: &SmemOperand<'b>,
        accumulate: impl IntoVal<'b, bool>,
    ) {
        let k = &c.body();
        if a.is_poisoned() || b.poisoned || c.poisoned {
            return;
        }
        let accumulate = k.value::<bool>(accumulate);
        if let Err(kind) = self.start_all(k, c, a, b, accumulate) {
            let operand = self.atom().op().to_string();
            k.report(TensorError { operation: "gemm", operand, kind });
        }
    }

    #[track_caller]
    fn start_all<'b, D: Accumulator>(
        &self,
        k: &Body<'b, '_>,
        c: &RegisterTensor<'_, D>,
        a: &impl WgmmaOperand<'b>,
        b: &SmemOperand<'b>,
        accumulate: Val<'b, bool>,
    ) -> Result<(), TensorErrorKind> {
        let op = self.atom().op();
        let none = || TensorErrorKind::NoOperation { instruction: op.instruction() };
        let MmaOp::Wgmma(wgmma) = op else { return Err(not_here(op)) };
        let types = wgmma.a.scalar().zip(wgmma.b.scalar());
        let (a_type, b_type) = types.ok_or_else(none)?;
        let [m, depth] = a.extents(self, wgmma)?;
        check_shared("B", b.elem, wgmma.b)?;
        check_accumulators::<D>(wgmma.c)?;
        let n = extent(&b.layout, 0)?;
        let fits = c.rank() == 3
            && b.layout.rank() == 2
            && extent(c.layout(), 0)? == self.values_in::<D>(Operand::C)?
            && extent(c.layout(), 1)? == m
            && extent(c.layout(), 2)? == n
            && extent(&b.layout, 1)? == depth;
        if !fits {
            return Err(TensorErrorKind::GemmShapes {
                c: c.shape().to_string(),
                a: a.shape_text(),
                b: b.layout.shape().to_string(),
            });
        }
        let form = WgmmaForm {
            transpose_a: a.is_mn_major(),
            transpose_b: b.major == Major::Mn,
            satfinite: wgmma.saturate,
            ..WgmmaForm::default()
        };
        for step in 0..depth {
            for column in 0..n {
                let b_at = b.at(index(&b.layout, (column, step))?);
                for row in 0..m {
                    let a_at = a.part(a_type, (row, step))?;
                    let accumulators = accumulators_at(c, (row, column))?;
                    let more = if step == 0 { accumulate } else { k.constant(true) };
                    match a_at {
                        WgmmaSource::Shared(a_at) => {
                            k.wgmma_with(&accumulators, [a_type, b_type], [a_at, b_at], more, form);
                        }
                        WgmmaSource::Registers(a) => {
                            k.wgmma_rs(&accumulators, a, b_at, b_type, more, form)
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
