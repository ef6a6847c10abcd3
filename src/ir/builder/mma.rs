//! Tensor cores: `mma.sync` for operands in registers, `wgmma` for operands in shared memory, and
//! the matrix loads and stores. These are single instructions; [`tensor::mma`](crate::tensor::mma)
//! has whole tiles.

use super::any_vector::{AnyVector, VectorOf};
use super::body::{Body, Registers};
use super::error::BuildErrorKind;
use super::typed::{Accumulator, Element, IntoVal, MemIndex, MutPointer, Pointer, Shared, Val};
use super::vector::{Vector, VectorElement};
use crate::ir::narrow::f16;
use crate::ir::op::{
    MatrixCount, MatrixOrder, Mma, MmaOverflow, MmaShape, SetmaxnregAction, WgmmaForm,
};
use crate::ir::types::{Scalar, Type};

impl Accumulator for Vector<f16, 2> {
    const LANES: u32 = 2;
}

/// # MMAs by a warp
///
/// Multiplies matrices in registers.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector, f16};
///
/// type Params = (Global<f16>, Global<f16>, GlobalMut<f32>);
/// let kernel = Kernel::<Params>::build("tile", Target::SM_80, |k, (a, b, d)| {
///     let lane = k.lane_id();
///     let a: Val<'_, Vector<f16, 8>> = a.load_vector(lane * 8);
///     let b: Val<'_, Vector<f16, 4>> = b.load_vector(lane * 4);
///     let accumulators = k.registers::<f32>(4);
///     accumulators.fill(0.0);
///     k.mma_sync(&accumulators, a, b);
///     (0..4).for_each(|i| d.store(lane * 4 + i, accumulators.get(i)));
/// })?;
/// assert!(kernel.ptx().text().contains("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    /// Computes `D[m, n] += sum over k of A[m, k] * B[k, n]` with all threads of a warp. Each
    /// thread holds its accumulators in the registers `d`, its elements of A in `a` and those of B
    /// in `b`. The shape follows from how many there are: D always has 8 columns, and 16 rows if a
    /// thread holds 4 accumulators or 8 rows if it holds 2. PTX ISA 9.7.14.5 `mma.sync`.
    ///
    /// Pass an [`AnyVector`] if the operand type is chosen when the kernel is built.
    #[doc(alias("mma.sync", "tl.dot"))]
    #[track_caller]
    pub fn mma_sync<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: impl Into<AnyVector<'b>>,
        b: impl Into<AnyVector<'b>>,
    ) {
        self.mma_sync_with(d, a, b, MmaOverflow::Wrap);
    }

    /// Computes as [`mma_sync`](Body::mma_sync) does. `overflow` says whether integer accumulators
    /// wrap or clamp when a sum leaves the range of `i32`. PTX ISA 9.7.14.5 `mma.sync`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::ir::op::MmaOverflow;
    ///
    /// let kernel = Kernel::<(GlobalMut<i8>,)>::build("product", Target::SM_80, |k, (x,)| {
    ///     let accumulators = k.registers::<i32>(4);
    ///     accumulators.fill(i32::MAX);
    ///     let (a, b) = (x.load_vector::<16>(0), x.load_vector::<8>(16));
    ///     k.mma_sync_with(&accumulators, a, b, MmaOverflow::Satfinite);
    /// })?;
    /// assert!(kernel.ptx().text().contains("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 "));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn mma_sync_with<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: impl Into<AnyVector<'b>>,
        b: impl Into<AnyVector<'b>>,
        overflow: MmaOverflow,
    ) {
        let cx = self.context();
        let (a, b) = (a.into(), b.into());
        let rows = (d.len() * D::LANES * 32 / 8).max(1);
        let shape = MmaShape { m: rows, n: 8, k: a.lanes() * 32 / rows };
        let (a, b) = (a.operand(cx), b.operand(cx));
        let (d, first) = d.location();
        cx.emit(Mma::MmaSync { a, b, shape, d, first, overflow });
    }

    /// Computes as [`mma_sync`](Body::mma_sync) does, in `f64` with 16 rows, 8 columns and a K of 8
    /// or 16. It takes slices, because a thread holds more elements than a vector has: 4 of A and 2
    /// of B for K = 8, 8 and 4 for K = 16. Element `i` of A is in row `lane / 4 + 8 (i % 2)` and
    /// column `lane % 4 + 4 (i / 2)`; element `i` of B is in row `lane % 4 + 4 i` and column `lane
    /// / 4`. PTX ISA 9.7.14.5 `mma.sync`; `sm_90`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f64>,)>::build("product", Target::SM_90, |k, (x,)| {
    ///     let part = |first: i32| x.load(k.lane_id() + 32 * first);
    ///     let (a, b) = ([0, 1, 2, 3].map(part), [4, 5].map(part));
    ///     let accumulators = k.registers::<f64>(4);
    ///     accumulators.fill(0.0);
    ///     k.mma_sync_f64(&accumulators, &a, &b);
    ///     (0..4).for_each(|i| x.store(k.lane_id() * 4 + i, accumulators.get(i)));
    /// })?;
    /// assert!(kernel.ptx().text().contains("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn mma_sync_f64(&self, d: &Registers<'_, f64>, a: &[Val<'b, f64>], b: &[Val<'b, f64>]) {
        self.mma_sync_f64_into(d, a, b);
    }

    /// Computes as [`mma_sync_f64`](Body::mma_sync_f64) does, for callers that know that `D` is
    /// `f64`.
    #[track_caller]
    pub(crate) fn mma_sync_f64_into<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: &[Val<'b, f64>],
        b: &[Val<'b, f64>],
    ) {
        let cx = self.context();
        let k = u32::try_from(b.len()).unwrap_or(u32::MAX).saturating_mul(4);
        let values = a.iter().chain(b).map(|value| cx.operand(*value)).collect();
        let (d, first) = d.location();
        cx.emit(Mma::MmaSyncF64 { values, shape: MmaShape { m: 16, n: 8, k }, d, first });
    }
}

/// # MMAs by a warp group
///
/// Multiplies matrices in shared memory, asynchronously; A may also be in registers. Requires
/// `sm_90a`.
impl<'b> Body<'b, '_> {
    /// Starts `D = A B + D` if `accumulate` is true, otherwise `D = A B`, with the 128 threads of a
    /// warp group. It runs asynchronously: read `D` only after
    /// [`wgmma_wait_group`](Body::wgmma_wait_group).
    ///
    /// `a` and `b` are [descriptors](Val::matrix_descriptor) of matrices in shared memory; you name
    /// their element types `A` and `B` at the call. A has 64 rows. For `len` registers per thread,
    /// D has `2 len` columns, or `4 len` if each register holds a pair. PTX ISA 9.7.15.5.2
    /// `wgmma.mma_async`; `sm_90a`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target, bf16};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("square", Target::SM_90A, |k, (x,)| {
    ///     let tile = k.shared_aligned::<bf16>(64 * 64, 1024);
    ///     // Rows of 128 bytes in the swizzle of 128 bytes, groups of 8 rows 1024 bytes apart.
    ///     let rows = tile.matrix_descriptor(1 << 62 | 64 << 32 | 1 << 16);
    ///     let accumulators = k.registers::<f32>(32);
    ///     k.wgmma_fence();
    ///     k.wgmma::<bf16, bf16, _>(&accumulators, rows, rows, false);
    ///     k.wgmma_commit_group();
    ///     k.wgmma_wait_group(0);
    ///     x.store(k.thread_idx().x, accumulators.get(0));
    /// })?;
    /// assert!(kernel.ptx().text().contains("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("wgmma.mma_async", "warpgroup_gemm"))]
    #[track_caller]
    pub fn wgmma<A: Element, B: Element, D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: Val<'b, u64>,
        b: Val<'b, u64>,
        accumulate: impl IntoVal<'b, bool>,
    ) {
        let types = [A::scalar(), B::scalar()];
        self.wgmma_with(d, types, [a, b], accumulate, WgmmaForm::default());
    }

    /// Starts an MMA as [`wgmma`](Body::wgmma) does, with options such as transposed operands, and
    /// with the element types of A and B as host values. Use it if these are configuration values.
    /// PTX ISA 9.7.15.5.2 `wgmma.mma_async`; `sm_90a`.
    #[track_caller]
    pub fn wgmma_with<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        [a_type, b_type]: [Scalar; 2],
        [a, b]: [Val<'b, u64>; 2],
        accumulate: impl IntoVal<'b, bool>,
        form: WgmmaForm,
    ) {
        let cx = self.context();
        let (a, b, accumulate) = (cx.operand(a), cx.operand(b), cx.operand_of(accumulate));
        let shape = wgmma_shape(a_type, d);
        let (d, first) = d.location();
        cx.emit(Mma::Wgmma { a, b, accumulate, shape, a_type, b_type, d, first, form });
    }

    /// Starts an MMA as [`wgmma_with`](Body::wgmma_with) does, with A in registers. Use it if the
    /// kernel computed or converted A, as attention does. Each warp holds 16 of the 64 rows,
    /// distributed over its threads as for `mma_sync`. `b_type` is the element type of B. PTX
    /// ISA 9.7.15.5.2 `wgmma.mma_async`; `sm_90a`.
    #[track_caller]
    pub fn wgmma_rs<D: Accumulator>(
        &self,
        d: &Registers<'_, D>,
        a: impl Into<AnyVector<'b>>,
        b: Val<'b, u64>,
        b_type: Scalar,
        accumulate: impl IntoVal<'b, bool>,
        form: WgmmaForm,
    ) {
        let (cx, a) = (self.context(), a.into());
        let shape = wgmma_shape(a.elem(), d);
        let (a, b, accumulate) = (a.operand(cx), cx.operand(b), cx.operand_of(accumulate));
        let (d, first) = d.location();
        cx.emit(Mma::WgmmaRs { a, b, accumulate, shape, b_type, d, first, form });
    }

    /// Orders the thread's earlier accesses to registers and shared memory before the `wgmma` that
    /// follow. Call it before the first `wgmma`, and again after you change registers that a
    /// `wgmma` uses. PTX ISA 9.7.15.7.1 `wgmma.fence`; `sm_90a`.
    #[doc(alias = "warpgroup_arrive")]
    #[track_caller]
    pub fn wgmma_fence(&self) {
        self.context().emit(Mma::WgmmaFence {});
    }

    /// Commits all `wgmma` that are in no group yet as one group. Call it after the MMAs of one K
    /// step, so that you can wait for them. PTX ISA 9.7.15.7.2 `wgmma.commit_group`; `sm_90a`.
    #[doc(alias = "warpgroup_commit_batch")]
    #[track_caller]
    pub fn wgmma_commit_group(&self) {
        self.context().emit(Mma::WgmmaCommitGroup {});
    }

    /// Waits until at most the latest `pending` groups are in flight; a value above 7 counts as 7.
    /// Wait with 0 before you read the accumulators, and with 1 to release a stage whose MMAs have
    /// read it. PTX ISA 9.7.15.7.3 `wgmma.wait_group`; `sm_90a`.
    #[doc(alias = "warpgroup_wait")]
    #[track_caller]
    pub fn wgmma_wait_group(&self, pending: u32) {
        self.context().emit(Mma::WgmmaWaitGroup { pending });
    }
}

/// # Register reallocation
///
/// Moves registers between warps. Requires `sm_90a`.
impl<'b> Body<'b, '_> {
    /// Changes the register limit per thread to `count`, a multiple of 8 from 24 to 256, for
    /// example to move registers from producer to consumer warps. All warps of a warp group must do
    /// it. The kernel needs launch bounds that fix its initial register count; without them `ptxas`
    /// ignores the request. PTX ISA 9.7.19.5 `setmaxnreg`; `sm_90a`.
    #[doc(alias("warpgroup_reg_alloc", "warpgroup_reg_dealloc"))]
    #[track_caller]
    pub fn setmaxnreg(&self, action: SetmaxnregAction, count: u32) {
        self.context().emit(Mma::Setmaxnreg { action, count });
    }
}

/// Returns the shape of a `wgmma` into the registers `d`.
fn wgmma_shape<D: Accumulator>(a_type: Scalar, d: &Registers<'_, D>) -> MmaShape {
    MmaShape { m: 64, n: d.len() * D::LANES * 2, k: 256 / a_type.bits() }
}

/// # Matrix descriptors
///
/// Describes an operand of `wgmma` in shared memory.
impl<'b, T: Element> Val<'b, Shared<T>> {
    /// Returns the `wgmma` descriptor of a matrix in shared memory that starts here: `bits |
    /// (address >> 4 & 0x3fff)`. `bits` describes everything except the address;
    /// [`MatrixDescriptor::bits`](crate::arch::MatrixDescriptor::bits) computes it. For a matrix
    /// that starts `n` bytes further, add `n / 16` to the descriptor. PTX ISA 9.7.15.5.1.
    #[track_caller]
    pub fn matrix_descriptor(self, bits: u64) -> Val<'b, u64> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mma::MatrixDescriptor { base, bits })
    }
}

/// # Matrix transposes
///
/// Transposes a matrix in registers, across a warp.
impl<'b, T: VectorElement<2>> Val<'b, Vector<T, 2>> {
    /// Transposes an 8x8 matrix of 16-bit elements across the warp, for example to use one MMA's
    /// result as an operand of the next. Lane `i` passes elements `2 (i % 4)` and `2 (i % 4) + 1`
    /// of row `i / 4`, and gets the elements in these rows and column `i / 4`. PTX ISA 9.7.14.5.17
    /// `movmatrix`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, Val, Vector};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<u16>,)>::build("transposed", Target::SM_80, |k, (x,)| {
    ///     let pair: Val<'_, Vector<u16, 2>> = x.load_vector(k.lane_id() * 2);
    ///     x.store_vector(k.lane_id() * 2, pair.movmatrix());
    /// })?;
    /// assert!(kernel.ptx().text().contains("movmatrix.sync.aligned.m8n8.trans.b16 "));
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&(0..64).collect::<Vec<u16>>())?;
    /// device.load(&kernel)?.launch(Grid::cover(32, 32), (&mut x,))?;
    /// assert_eq!(x.to_vec()?[..9], [0, 8, 16, 24, 32, 40, 48, 56, 1]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn movmatrix(self) -> Val<'b, Vector<T, 2>> {
        let value = self.context().operand(self);
        self.context().emit_val(Mma::Movmatrix { value })
    }
}

/// # Matrix loads and stores
///
/// Loads and stores 8x8 matrices of 16-bit elements in shared memory, one 16-byte row per lane.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, Vector, f16};
/// use tilewright::ir::op::MatrixOrder;
///
/// let kernel = Kernel::<(GlobalMut<f16>,)>::build("matrices", Target::SM_90, |k, (x,)| {
///     let tile = k.shared_aligned::<f16>(16 * 16, 16);
///     let row = k.lane_id() * 8;
///     let four: Val<'_, Vector<f16, 8>> = tile.ldmatrix(row, MatrixOrder::Rows);
///     tile.stmatrix(row, four, MatrixOrder::Trans);
///     x.store(k.lane_id(), four.lanes()[0]);
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("ldmatrix.sync.aligned.m8n8.x4.shared.b16"));
/// assert!(ptx.text().contains("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b, P: Pointer> Val<'b, P> {
    /// Loads one, two or four 8x8 matrices of 16-bit elements into a warp's MMA fragment layout, as
    /// operands for [`mma_sync`](Body::mma_sync). Lane `i` passes the address of row `i % 8` of
    /// matrix `i / 8`. From each matrix, a lane gets the elements in columns `2 (lane % 4)` and `2
    /// (lane % 4) + 1` of row `lane / 4`; with [`MatrixOrder::Trans`] it gets the transposed
    /// elements. PTX ISA 9.7.14.5.15 `ldmatrix`.
    #[doc(alias = "ldsm")]
    #[track_caller]
    pub fn ldmatrix<const N: usize, I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        order: MatrixOrder,
    ) -> Val<'b, Vector<P::Elem, N>>
    where
        P::Elem: VectorElement<N>,
    {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let Some(count) = MatrixCount::of(N as u32 / 2) else {
            cx.error(BuildErrorKind::MatrixCount { lanes: N });
            return Val::new(cx, cx.poison(Type::Vector(<P::Elem as VectorElement<N>>::vector())));
        };
        cx.emit_val(Mma::Ldmatrix { base, index, count, order })
    }

    /// Stores one, two or four 8x8 matrices to shared memory, from the fragment layout in which
    /// [`ldmatrix`](Val::ldmatrix) loads them. An epilogue uses it to gather accumulators into
    /// rows. PTX ISA 9.7.14.5.16 `stmatrix`; `sm_90`.
    #[doc(alias = "stsm")]
    #[track_caller]
    pub fn stmatrix<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        vector: impl VectorOf<'b, P::Elem>,
        order: MatrixOrder,
    ) where
        P: MutPointer,
    {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let vector = vector.into().operand(cx);
        cx.emit(Mma::Stmatrix { base, index, vector, order });
    }
}
