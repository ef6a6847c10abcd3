//! [`SmemOperand`]: the matrix descriptors with which `wgmma` reads an operand tile from shared
//! memory. Make one for A and one for B before the main loop, and pass both to
//! [`TiledMma::gemm_async`](crate::tensor::atom::TiledMma::gemm_async).

use crate::arch::{Major, MatrixDescriptor};
use crate::ir::types::Scalar;
use crate::ir::{Element, Val, WARP};
use crate::layout::{ComposedLayout, Layout, LayoutError, Swizzle};

use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::SharedTensor;

/// A tile of A or B in shared memory, as `wgmma` takes it: the 64-bit matrix descriptor of the
/// tile's first instruction, and the distances from there to the descriptors of the other
/// instructions. CuTe's descriptor iterator.
///
/// Make it before the main loop from the tile's partition, which
/// [`ThrMma::partition_a`](crate::tensor::atom::ThrMma::partition_a) or `partition_b` returns with
/// the modes (V, MN, K, ..); V is what one instruction reads. The operand keeps the modes (MN, K,
/// ..). If the tile is a ring buffer (MN, K, stage), select the stage to read with
/// [`stage`](SmemOperand::stage) in each step of the main loop.
///
/// All threads of a warp must make it together, because lane 0 broadcasts its address so that the
/// descriptor is uniform.
#[derive(Clone, Debug)]
pub struct SmemOperand<'b> {
    /// The descriptor's lower half with the address. All distances change only this half.
    low: Val<'b, u32>,
    bits: u64,
    pub(in crate::tensor) major: Major,
    /// In units of 16 bytes.
    pub(in crate::tensor) layout: Layout,
    pub(in crate::tensor) elem: Scalar,
    /// Placeholder for an operand that could not be made; the error has been recorded.
    pub(in crate::tensor) poisoned: bool,
}

impl<'b> SmemOperand<'b> {
    /// Makes the operand from `part`, a `wgmma` thread's partition (V, MN, K, ..) of a swizzled
    /// tile in shared memory.
    ///
    /// It is a build error if `wgmma` cannot read the layout ([`TensorErrorKind::Descriptor`]).
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, bf16};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::atom::{
    ///     MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
    /// };
    /// use tilewright::tensor::mma::SmemOperand;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// let op = Wgmma::new(64, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
    /// let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
    /// let tile = rows.tile_to_shape(&shape!(64, 64), None)?;
    /// let kernel = Kernel::<()>::build("k", Target::SM_90A, |k, ()| {
    ///     let x = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 1024);
    ///     let thr = mma.slice(k.thread_idx().x);
    ///     let (a, b) = (SmemOperand::new(&thr.partition_a(&x)), SmemOperand::new(&thr.partition_b(&x)));
    ///     let accumulators = thr.fragment_c::<f32>(k, shape!(64, 64));
    ///     k.wgmma_fence();
    ///     mma.gemm_async(&accumulators, &a, &b, false);
    ///     k.wgmma_commit_group();
    ///     k.wgmma_wait_group(0);
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("wgmma.mma_async").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn new<T: Element>(part: &SharedTensor<'b, T>) -> Self {
        let k = &part.body();
        let nothing = SmemOperand {
            low: k.constant(0),
            bits: 0,
            major: Major::K,
            layout: Layout::trivial(),
            elem: T::scalar(),
            poisoned: true,
        };
        if part.poisoned {
            return nothing;
        }
        match of_layout(part) {
            Ok((descriptor, layout)) => {
                let (base, offset) = part.engine.resolve();
                let bytes = i64::from(T::scalar().size_bytes());
                let start = base.matrix_descriptor(descriptor.bits()).cvt::<u32>();
                // All threads of a warp have the same operand. If one lane broadcasts it, the
                // descriptor stays in uniform registers, where `wgmma` reads it.
                let low = k.shfl_idx(WARP, add(start, offset * bytes / 16), 0);
                let (bits, major) = (descriptor.bits(), descriptor.major);
                SmemOperand { low, bits, major, layout, poisoned: false, ..nothing }
            }
            Err(kind) => {
                part.failed(k, "make_descriptor", kind);
                nothing
            }
        }
    }

    /// Returns the layout of the instructions' descriptors, (MN, K, ..). Strides count units of 16
    /// bytes, as the address field of a descriptor does. Use it to see how many instructions a tile
    /// takes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Selects a stage of a ring buffer, which is the operand's last mode: (MN, K, stage) becomes
    /// (MN, K). Call it in the main loop with the stage that the pipeline has just filled; it only
    /// adds an offset to the descriptor.
    #[track_caller]
    #[inline]
    pub fn stage(&self, stage: Val<'b, i32>) -> Self {
        let k = &self.low.body();
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

    /// Returns the descriptor at an offset in units of 16 bytes. The address is only in the lower
    /// half.
    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn at(&self, units: i64) -> Val<'b, u64> {
        let low = add(self.low, units);
        Val::pack([low, low.constant((self.bits >> 32) as u32)]).bitcast::<u64>()
    }
}

#[track_caller]
fn add(low: Val<'_, u32>, units: i64) -> Val<'_, u32> {
    match u32::try_from(units) {
        Ok(0) => low,
        Ok(units) => low + units,
        // Beyond shared memory, so the access is a fault.
        Err(_) => low + u32::MAX,
    }
}

/// Returns one instruction's descriptor, and the layout of the others.
fn of_layout<T: Element>(
    part: &SharedTensor<'_, T>,
) -> Result<(MatrixDescriptor, Layout), TensorErrorKind> {
    let (layout, bytes) = (part.layout(), i64::from(T::scalar().size_bytes()));
    let value = layout.get(&[0])?;
    let one =
        value.modes().map(|mode| mode.to_layout().coalesce()).collect::<Result<Vec<_>, _>>()?;
    let one = ComposedLayout::new(
        part.swizzle().unwrap_or(Swizzle::identity()),
        0,
        Layout::concat(&one)?,
    )?;
    let descriptor = MatrixDescriptor::of(&one, T::scalar().bits())
        .map_err(|e| TensorErrorKind::Descriptor(Box::new(e)))?;
    let rest = layout.take(1, layout.rank())?;
    let units = |stride: i64| match stride * bytes {
        bytes if bytes % 16 == 0 => Ok(bytes / 16),
        bytes => {
            Err(TensorErrorKind::Descriptor(Box::new(crate::arch::DescriptorError::Distance {
                bytes,
            })))
        }
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
