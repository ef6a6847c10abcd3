//! Products of `wgmma`: operands in shared memory, which it reads by itself.

use crate::codegen::{Major, MatrixDescriptor};
use crate::ir::{
    Body, Element, IntoVal, Sum, Type, Val, WgmmaForm, bf16, f8e4m3, f8e5m2, f16, tf32,
};
use crate::layout::{ComposedLayout, IntTuple, Layout, LayoutError, Swizzle};

use super::atom::{MmaOp, OperandSource, ValType, Wgmma};
use super::error::{TensorError, TensorErrorKind};
use super::tensor::{Fragment, SharedTensor};
use super::tiled_mma::TiledMma;

/// The part of an operand in shared memory that a warp group multiplies: a descriptor, and how far from it those of the
/// other instructions are. CuTe's descriptor iterator.
///
/// Made of the partition of a swizzled tensor by a [`ThrMma`](super::ThrMma) of `wgmma`, (V, MN, K, ..), and has the
/// modes (MN, K, ..).
#[derive(Clone, Debug)]
pub struct SmemOperand<'b> {
    /// The lower half of the descriptor, which has the address. All distances change this half only.
    low: Val<'b, u32>,
    bits: u64,
    major: Major,
    /// In units of 16 bytes.
    layout: Layout,
    element_bits: u32,
    /// The tensor could not be made; the error has been recorded.
    poisoned: bool,
}

impl<'b> SmemOperand<'b> {
    /// The operand of a partition (V, MN, K, ..).
    ///
    /// A layout that `wgmma` does not read is an error of the build
    /// ([`TensorErrorKind::Descriptor`]).
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, bf16};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::tensor::{
    ///     Major, MmaAtom, OperandSource, SharedTensor, SmemAtom, SmemOperand, SmemSwizzle, TiledMma, ValType,
    ///     Wgmma,
    /// };
    ///
    /// let op = Wgmma::new(64, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    /// let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
    /// let tile = rows.tile_to_shape(&shape!(64, 64), None)?;
    /// let kernel = Kernel::<()>::build("k", Target::SM_90A, |k, ()| {
    ///     let x = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 1024);
    ///     let thr = mma.slice(k.thread_idx().x);
    ///     let (a, b) = (SmemOperand::new(k, &thr.partition_a(k, &x)), SmemOperand::new(k, &thr.partition_b(k, &x)));
    ///     let sums = thr.fragment_c::<f32>(k, shape!(64, 64));
    ///     k.wgmma_fence();
    ///     mma.gemm_async(k, &sums, &a, &b, false);
    ///     k.wgmma_commit_group();
    ///     k.wgmma_wait_group(0);
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("wgmma.mma_async").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn new<T: Element>(k: &Body<'b, '_>, part: &SharedTensor<'b, T>) -> Self {
        let nothing = SmemOperand {
            low: k.constant(0),
            bits: 0,
            major: Major::K,
            layout: Layout::trivial(),
            element_bits: T::SCALAR.bits(),
            poisoned: true,
        };
        if part.poisoned {
            return nothing;
        }
        match of_layout(part) {
            Ok((descriptor, layout)) => {
                let (base, offset) = part.engine.resolve();
                let bytes = i64::from(T::SCALAR.size_bytes());
                let start = base.matrix_descriptor(descriptor.bits()).cvt::<u32>();
                let low = add(start, offset * bytes / 16);
                let (bits, major) = (descriptor.bits(), descriptor.major);
                SmemOperand { low, bits, major, layout, poisoned: false, ..nothing }
            }
            Err(kind) => {
                part.failed(k, "make_descriptor", kind);
                nothing
            }
        }
    }

    /// The modes (MN, K, ..), in units of 16 bytes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The part of a stage, the last mode.
    #[track_caller]
    pub fn stage(&self, k: &Body<'b, '_>, stage: Val<'b, i32>) -> Self {
        if self.poisoned {
            return self.clone();
        }
        let parts = || -> Result<(Layout, i64), LayoutError> {
            let last = self.layout.rank().saturating_sub(1);
            let stride = self
                .layout
                .get(&[last])?
                .stride()
                .as_leaf()
                .map_or(Ok(0), |s| s.to_int()?.to_static())?;
            Ok((self.layout.take(0, last)?, stride))
        };
        match parts() {
            Ok((layout, stride)) => {
                let step = u32::try_from(stride).unwrap_or(u32::MAX);
                let low = self.low + stage.cvt::<u32>() * step;
                SmemOperand { low, layout, ..self.clone() }
            }
            Err(error) => {
                let operand = self.layout.to_string();
                k.report(TensorError { operation: "slice", operand, kind: error.into() });
                SmemOperand { poisoned: true, ..self.clone() }
            }
        }
    }

    /// The descriptor at a place in units of 16 bytes; the upper half has no part of the address.
    #[track_caller]
    fn at(&self, units: i64) -> Val<'b, u64> {
        let low = add(self.low, units);
        Val::pack([low, low.constant((self.bits >> 32) as u32)]).bitcast::<u64>()
    }
}

#[track_caller]
fn add(low: Val<'_, u32>, units: i64) -> Val<'_, u32> {
    match u32::try_from(units) {
        Ok(0) => low,
        Ok(units) => low + units,
        // Beyond shared memory: the access is a fault.
        Err(_) => low + u32::MAX,
    }
}

/// The descriptor of one instruction, and where the others are.
fn of_layout<T: Element>(
    part: &SharedTensor<'_, T>,
) -> Result<(MatrixDescriptor, Layout), TensorErrorKind> {
    let (layout, bytes) = (part.layout(), i64::from(T::SCALAR.size_bytes()));
    let value = layout.get(&[0])?;
    let one =
        value.modes().map(|mode| mode.to_layout().coalesce()).collect::<Result<Vec<_>, _>>()?;
    let one = ComposedLayout::new(
        part.swizzle().unwrap_or(Swizzle::identity()),
        0,
        Layout::concat(&one)?,
    )?;
    let descriptor = MatrixDescriptor::of(&one, T::SCALAR.bits())
        .map_err(|e| TensorErrorKind::Descriptor(Box::new(e)))?;
    let rest = layout.take(1, layout.rank())?;
    let units =
        |stride: i64| match stride * bytes {
            bytes if bytes % 16 == 0 => Ok(bytes / 16),
            bytes => Err(TensorErrorKind::Descriptor(Box::new(
                crate::codegen::DescriptorError::Distance { bytes },
            ))),
        };
    let mut modes = Vec::new();
    for mode in rest.modes() {
        let mode = mode.to_layout().coalesce()?;
        let mut leaves = Vec::new();
        for (extent, stride) in mode.as_ref().leaves() {
            leaves.push(Layout::leaf(extent.to_static()?, units(stride.to_int()?.to_static()?)?));
        }
        modes.push(match leaves.as_slice() {
            [one] => one.clone(),
            _ => Layout::concat(&leaves)?,
        });
    }
    Ok((descriptor, Layout::concat(&modes)?))
}

impl TiledMma {
    /// `c += a bᵀ` by a warp group, or `c = a bᵀ` where not `accumulate`: starts all `wgmma` of the parts (MN, K) of A
    /// and B, K after K, into the sums (V, M, N). They are done after a wait
    /// ([`wgmma_wait_group`](Body::wgmma_wait_group)); a fence comes before, a commit after.
    #[track_caller]
    pub fn gemm_async<'b, D: Element + Sum>(
        &self,
        k: &Body<'b, '_>,
        c: &Fragment<'_, D>,
        a: &SmemOperand<'b>,
        b: &SmemOperand<'b>,
        accumulate: impl IntoVal<'b, bool>,
    ) {
        if a.poisoned || b.poisoned || c.poisoned {
            return;
        }
        let accumulate = k.value::<bool>(accumulate);
        if let Err(kind) = self.start_all(k, c, a, b, accumulate) {
            let operand = self.atom().op().to_string();
            k.report(TensorError { operation: "gemm", operand, kind });
        }
    }

    #[track_caller]
    fn start_all<'b, D: Element + Sum>(
        &self,
        k: &Body<'b, '_>,
        c: &Fragment<'_, D>,
        a: &SmemOperand<'b>,
        b: &SmemOperand<'b>,
        accumulate: Val<'b, bool>,
    ) -> Result<(), TensorErrorKind> {
        let op = self.atom().op();
        let MmaOp::Wgmma(wgmma) = op else {
            return Err(TensorErrorKind::NoOperation { instruction: op.instruction() });
        };
        let of_registers = wgmma.source_a == OperandSource::Registers;
        if of_registers || a.element_bits != wgmma.a.bits() || b.element_bits != wgmma.b.bits() {
            return Err(TensorErrorKind::NoOperation { instruction: op.instruction() });
        }
        let extent = |layout: &Layout, mode: usize| layout.get(&[mode])?.size()?.to_static();
        let ranks = [c.layout(), &a.layout, &b.layout].map(Layout::rank);
        let shapes = || TensorErrorKind::GemmShapes {
            c: c.shape().to_string(),
            a: a.layout.shape().to_string(),
            b: b.layout.shape().to_string(),
        };
        if ranks != [3, 2, 2] {
            return Err(shapes());
        }
        let [m, n, depth] = [extent(&a.layout, 0)?, extent(&b.layout, 0)?, extent(&a.layout, 1)?];
        let fits = extent(c.layout(), 1)? == m && extent(c.layout(), 2)? == n;
        if !fits || extent(&b.layout, 1)? != depth {
            return Err(shapes());
        }
        let values = extent(c.layout(), 0)? as usize;
        let index = |layout: &Layout, coord: IntTuple| layout.crd2idx(coord)?.to_static();
        for step in 0..depth {
            for column in 0..n {
                let b_at = b.at(index(&b.layout, (column, step).into())?);
                for row in 0..m {
                    let a_at = a.at(index(&a.layout, (row, step).into())?);
                    let first = index(c.layout(), (0, row, column).into())? as usize;
                    let sums = c.engine.variables().part(first, values);
                    let more = if step == 0 { accumulate } else { k.constant(true) };
                    let form = WgmmaForm {
                        transpose_a: a.major == Major::Mn,
                        transpose_b: b.major == Major::Mn,
                        satfinite: wgmma.saturate,
                        ..WgmmaForm::default()
                    };
                    start(k, *wgmma, &sums, [a_at, b_at], more, form)?;
                }
            }
        }
        Ok(())
    }
}

/// One instruction.
#[track_caller]
fn start<'b, D: Element + Sum>(
    k: &Body<'b, '_>,
    op: Wgmma,
    sums: &crate::ir::Registers<'_, D>,
    [a, b]: [Val<'b, u64>; 2],
    accumulate: Val<'b, bool>,
    form: WgmmaForm,
) -> Result<(), TensorErrorKind> {
    use ValType as V;
    let sum = match op.c {
        V::F32 => Type::from(crate::ir::Scalar::F32),
        V::S32 => Type::from(crate::ir::Scalar::I32),
        _ => return Err(TensorErrorKind::NoOperation { instruction: op.instruction() }),
    };
    if D::TYPE != sum {
        let expected = op.c.to_string();
        return Err(TensorErrorKind::ElementType { operand: "C", found: D::SCALAR, expected });
    }
    macro_rules! emit {
        ($($a:ident $b:ident: $A:ty, $B:ty;)*) => {
            match (op.a, op.b) {
                $((V::$a, V::$b) => k.wgmma_with::<$A, $B, D>(sums, a, b, accumulate, form),)*
                _ => return Err(TensorErrorKind::NoOperation { instruction: op.instruction() }),
            }
        };
    }
    emit! {
        Bf16 Bf16: bf16, bf16;
        F16 F16: f16, f16;
        Tf32 Tf32: tf32, tf32;
        E4M3 E4M3: f8e4m3, f8e4m3;
        E4M3 E5M2: f8e4m3, f8e5m2;
        E5M2 E4M3: f8e5m2, f8e4m3;
        E5M2 E5M2: f8e5m2, f8e5m2;
        S8 S8: i8, i8;
        S8 U8: i8, u8;
        U8 S8: u8, i8;
        U8 U8: u8, u8;
    }
    Ok(())
}
