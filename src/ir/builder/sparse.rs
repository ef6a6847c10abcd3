//! Tensor cores: MMAs with a structured-sparse A, which is half as large as a dense one and can run
//! at twice the rate. A is sparse enough if at most 2 of every 4 neighbours in a row are not zero.

use super::any_vector::AnyVector;
use super::body::{Body, Registers};
use super::typed::{Accumulator, IntoVal, Val};
use crate::ir::op::{Mma, MmaOverflow, MmaShape, WgmmaForm};
use crate::ir::types::Scalar;

/// A thread's metadata for a sparse MMA: which columns the kept elements of A come from.
#[derive(Clone, Copy, Debug)]
pub struct SparseMetadata<'b> {
    /// The thread's word. It only counts in threads that `selector` chooses.
    pub word: Val<'b, u32>,
    /// Which threads of each group of four supply their words. It must be below
    /// [`SparseMma::selectors`](crate::tensor::atom::SparseMma::selectors).
    pub selector: u32,
}

/// # Sparse MMAs
///
/// Multiplies by a structured-sparse A: of every 4 elements in a row of A 2 are kept, or of every 2
/// `tf32` elements one. [`SparseMma`](crate::tensor::atom::SparseMma) compresses a matrix into the
/// kept elements and their metadata.
impl<'b> Body<'b, '_> {
    /// Computes as [`mma_sync`](Body::mma_sync) does, with a sparse A, 16 rows and 8 columns. `a`
    /// holds the thread's kept elements, distributed as in an `mma_sync` with half the K.
    /// PTX ISA 9.7.14.6.3 `mma.sp::ordered_metadata`.
    ///
    /// ```
    /// use tilewright::ir::builder::SparseMetadata;
    /// use tilewright::ir::op::MmaOverflow;
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector, f16};
    ///
    /// type Params = (Global<f16>, Global<u32>, Global<f16>, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build("sparse", Target::SM_80, |k, (a, e, b, d)| {
    ///     let lane = k.lane_id();
    ///     let a: Val<'_, Vector<f16, 8>> = a.load_vector(lane * 8);
    ///     let b: Val<'_, Vector<f16, 8>> = b.load_vector(lane * 8);
    ///     let accumulators = k.registers::<f32>(4);
    ///     accumulators.fill(0.0);
    ///     let metadata = SparseMetadata { word: e.load(lane), selector: 0 };
    ///     k.mma_sync_sp(&accumulators, a, b, metadata, MmaOverflow::Wrap);
    ///     (0..4).for_each(|i| d.store(lane * 4 + i, accumulators.get(i)));
    /// })?;
    /// let name = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 ";
    /// assert!(kernel.ptx().text().contains(name));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn mma_sync_sp<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: impl Into<AnyVector<'b>>,
        b: impl Into<AnyVector<'b>>,
        metadata: SparseMetadata<'b>,
        overflow: MmaOverflow,
    ) {
        let cx = self.context();
        let (a, b) = (a.into(), b.into());
        let shape = MmaShape { m: 16, n: 8, k: b.lanes() * 4 };
        let SparseMetadata { word, selector } = metadata;
        let (a, b, metadata) = (a.operand(cx), b.operand(cx), cx.operand(word));
        let (d, first) = d.location();
        cx.emit(Mma::MmaSyncSp { a, b, metadata, shape, selector, d, first, overflow });
    }

    /// Starts an MMA as [`wgmma_with`](Body::wgmma_with) does, with a sparse A and twice the K. The
    /// matrix in shared memory that the descriptor `a` describes holds the kept elements. Each warp
    /// passes the metadata of its 16 rows, as for [`mma_sync_sp`](Body::mma_sync_sp). PTX
    /// ISA 9.7.15.6 `wgmma.mma_async.sp`; `sm_90a`.
    #[track_caller]
    pub fn wgmma_sp<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        [a_type, b_type]: [Scalar; 2],
        [a, b]: [Val<'b, u64>; 2],
        metadata: SparseMetadata<'b>,
        accumulate: impl IntoVal<'b, bool>,
        form: WgmmaForm,
    ) {
        let cx = self.context();
        let (a, b, accumulate) = (cx.operand(a), cx.operand(b), cx.operand_of(accumulate));
        let SparseMetadata { word, selector } = metadata;
        let (metadata, shape) = (cx.operand(word), wgmma_shape(a_type, d));
        let (d, first) = d.location();
        cx.emit(Mma::WgmmaSp {
            a,
            b,
            metadata,
            accumulate,
            shape,
            a_type,
            b_type,
            selector,
            d,
            first,
            form,
        });
    }

    /// Starts an MMA as [`wgmma_sp`](Body::wgmma_sp) does, with the kept elements of A in
    /// registers: each warp holds 16 rows, distributed as for [`mma_sync_sp`](Body::mma_sync_sp).
    /// PTX ISA 9.7.15.6 `wgmma.mma_async.sp`; `sm_90a`.
    #[track_caller]
    pub fn wgmma_rs_sp<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: impl Into<AnyVector<'b>>,
        b: Val<'b, u64>,
        b_type: Scalar,
        metadata: SparseMetadata<'b>,
        accumulate: impl IntoVal<'b, bool>,
        form: WgmmaForm,
    ) {
        let (cx, a) = (self.context(), a.into());
        let shape = wgmma_shape(a.elem(), d);
        let (a, b, accumulate) = (a.operand(cx), cx.operand(b), cx.operand_of(accumulate));
        let SparseMetadata { word, selector } = metadata;
        let metadata = cx.operand(word);
        let (d, first) = d.location();
        cx.emit(Mma::WgmmaRsSp {
            a,
            b,
            metadata,
            accumulate,
            shape,
            b_type,
            selector,
            d,
            first,
            form,
        });
    }
}

/// Returns the shape of a sparse `wgmma` into the registers `d`.
fn wgmma_shape<D: Accumulator>(a_type: Scalar, d: &Registers<'_, D>) -> MmaShape {
    MmaShape { m: 64, n: d.len() * D::LANES * 2, k: 512 / a_type.bits() }
}
