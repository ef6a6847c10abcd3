//! [`SparseMma::gemm_async`]: starts a tile's `wgmma` instructions with a 2:4 sparse A. Use it in
//! an `sm_90a` main loop; `examples/sparse_gemm.rs` is a whole GEMM.

use crate::arch::Major;
use crate::ir::builder::{Accumulator, IntoVal, SparseMetadata};
use crate::ir::op::WgmmaForm;
use crate::ir::{Body, Val};

use super::mma_sync::{accumulators_at, check_accumulators, not_here};
use super::smem_operand::SmemOperand;
use super::wgmma::{check_shared, extent, index};
use crate::tensor::atom::{MmaOp, SparseMma};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::RegisterTensor;

impl SparseMma {
    /// Starts the `wgmma` instructions of `c += a bᵀ`, one K step after the other. Wait for them as
    /// for [`TiledMma::gemm_async`](crate::tensor::atom::TiledMma::gemm_async).
    ///
    /// `c`, `a` and `b` are a thread's partitions by a tiled MMA with the [`half`](SparseMma::half)
    /// as its atom: `a` has A's kept elements, so `b` has twice as many K steps. `metadata` returns
    /// the thread's word for the instruction at a row and K step of `a`, with selector 0:
    /// [`metadata`](SparseMma::metadata) makes these words on the host. Without `accumulate`, the
    /// first step overwrites `c`.
    ///
    /// It is a build error if the partitions or types do not fit, or if B is not K-major with a
    /// swizzle of at least 64 bytes.
    #[track_caller]
    pub fn gemm_async<'b, D: Accumulator>(
        &self,
        c: &RegisterTensor<'b, D>,
        a: &SmemOperand<'b>,
        b: &SmemOperand<'b>,
        metadata: impl Fn(usize, usize) -> Val<'b, u32>,
        accumulate: impl IntoVal<'b, bool>,
    ) {
        let k = &c.body();
        if a.poisoned || b.poisoned || c.poisoned {
            return;
        }
        let accumulate = k.value::<bool>(accumulate);
        if let Err(kind) = self.start_all(k, c, a, b, &metadata, accumulate) {
            k.report(TensorError { operation: "gemm", operand: self.to_string(), kind });
        }
    }

    #[track_caller]
    fn start_all<'b, D: Accumulator>(
        &self,
        k: &Body<'b, '_>,
        c: &RegisterTensor<'b, D>,
        a: &SmemOperand<'b>,
        b: &SmemOperand<'b>,
        metadata: &dyn Fn(usize, usize) -> Val<'b, u32>,
        accumulate: Val<'b, bool>,
    ) -> Result<(), TensorErrorKind> {
        let op = self.half().op();
        let MmaOp::Wgmma(wgmma) = op else { return Err(not_here(op)) };
        check_shared("A", a.elem, wgmma.a)?;
        check_shared("B", b.elem, wgmma.b)?;
        check_accumulators::<D>(wgmma.c)?;
        let (m, steps) = (extent(&a.layout, 0)?, extent(&a.layout, 1)?);
        let n = extent(&b.layout, 0)?;
        let fits = c.rank() == 3
            && a.layout.rank() == 2
            && b.layout.rank() == 2
            && extent(c.layout(), 1)? == m
            && extent(c.layout(), 2)? == n
            && extent(&b.layout, 1)? == 2 * steps;
        if !fits {
            return Err(TensorErrorKind::GemmShapes {
                c: c.shape().to_string(),
                a: a.layout.shape().to_string(),
                b: b.layout.shape().to_string(),
            });
        }
        // One instruction reads two K steps of B from one descriptor.
        let units = index(&b.layout, (0, 1))? - index(&b.layout, (0, 0))?;
        if b.major == Major::Mn || units != 2 {
            let layout = b.layout.to_string();
            return Err(TensorErrorKind::SparseSteps { layout, units });
        }
        let form = WgmmaForm {
            transpose_a: a.major == Major::Mn,
            satfinite: wgmma.saturate,
            ..WgmmaForm::default()
        };
        for step in 0..steps {
            let more = if step == 0 { accumulate } else { k.constant(true) };
            for column in 0..n {
                let b_at = b.at(index(&b.layout, (column, 2 * step))?);
                for row in 0..m {
                    let a_at = a.at(index(&a.layout, (row, step))?);
                    let word = metadata(row as usize, step as usize);
                    let metadata = SparseMetadata { word, selector: 0 };
                    let accumulators = accumulators_at(c, (row, column))?;
                    let types = [a.elem, b.elem];
                    k.wgmma_sp(&accumulators, types, [a_at, b_at], metadata, more, form);
                }
            }
        }
        Ok(())
    }
}
