//! [`TmaCopy`]: tiles between global and shared memory by the tensor memory accelerator.

use std::fmt;

use crate::arch::{SwizzleMode, TensorMapDesc, TensorMapError};
use crate::ir::builder::{DeviceCoord, IntoVal, MbarrierRef};
use crate::ir::op::{BulkReduce, L2Policy};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Shared, TensorMap, TensorMapMut, Val};
use crate::layout::{ComposedLayout, Layout, LayoutError, Swizzle};

use super::peers::ClusterPeers;
use crate::tensor::atom::{AtomError, CopyAtom, CopyOp, TmaOp};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::SharedTensor;

/// The tensor copies of a tile between global and shared memory: its boxes and their offsets.
/// CuTe's `make_tma_copy`.
///
/// It is made of the type of the elements and the layout of the tile in shared memory, one mode for each mode of the
/// tensor. On the host it gives the map of a tensor ([`desc`](TmaCopy::desc)); in a kernel one thread starts the copies
/// of a tile ([`load`](TmaCopy::load), [`store`](TmaCopy::store)). A tile whose contiguous mode is longer than a row of
/// its swizzle is several boxes.
///
/// ```
/// use tilewright::arch::SwizzleMode;
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::{Layout, layout, shape};
/// use tilewright::arch::Major;
/// use tilewright::tensor::{SmemAtom, SmemSwizzle, TmaCopy};
///
/// // 128 rows of 64 elements, contiguous along the second mode; the third counts matrices.
/// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
/// let tile = TmaCopy::new(Scalar::Bf16, &rows.tile_to_shape(&shape!(128, 64, 1), None)?)?;
/// assert_eq!((tile.box_dims(), tile.boxes(), tile.bytes()), (&[64, 128, 1][..], 1, 16384));
/// let map = tile.desc(&layout!((1000, 512, 3) : (512, 1, 512_000)))?;
/// assert_eq!((map.dims(), map.swizzle()), (&[512, 1000, 3][..], SwizzleMode::B128));
///
/// // The same tile contiguous along the first mode is two boxes of 64 rows of 64.
/// let columns = SmemAtom::new(Major::Mn, SmemSwizzle::Sw128).position_independent(16)?;
/// let columns = columns.tile_to_shape(&shape!(128, 64, 1), Some(&shape!(1, 0, 2)))?;
/// assert_eq!(TmaCopy::new(Scalar::Bf16, &columns)?.boxes(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaCopy {
    elem: Scalar,
    tile: ComposedLayout,
    swizzle: SwizzleMode,
    /// The mode of the tile that each dimension of the map counts, the contiguous one first.
    modes: Vec<usize>,
    box_dims: Vec<u32>,
    boxes: Vec<Part>,
}

/// A box of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its start in the tile, in each mode.
    origin: Vec<i64>,
    /// Elements from the start of the tile in shared memory.
    offset: i64,
}

impl Part {
    /// Elements from the start of the tile in shared memory.
    pub(super) fn offset(&self) -> i64 {
        self.offset
    }
}

/// An extent of a mode with its stride.
pub(super) type Leaf = (i64, i64);

impl TmaCopy {
    /// The copies of a tile of elements of type `elem` with this layout in shared memory.
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`]: no mode is contiguous, a row is not that of the swizzle, a box is too large, a box
    /// starts inside of the pattern of the swizzle; [`TensorErrorKind::Layout`] for a layout with symbols.
    pub fn new(elem: Scalar, tile: impl Into<ComposedLayout>) -> Result<TmaCopy, TensorError> {
        let tile = &tile.into();
        Self::of(elem, tile).map_err(|kind| TensorError {
            operation: "make_tma_copy",
            operand: format!("{elem} o {tile}"),
            kind,
        })
    }

    #[inline]
    fn of(elem: Scalar, tile: &ComposedLayout) -> Result<TmaCopy, TensorErrorKind> {
        let none = |why| TensorErrorKind::TmaTile { why };
        let bytes = i64::from(elem.size_bytes());
        let swizzle = SwizzleMode::of(tile.swizzle_portion(), elem.size_bytes());
        let swizzle =
            swizzle.ok_or(none("the swizzle is none of those that the accelerator has"))?;
        if tile.offset().as_static() != Some(0) {
            return Err(none("the layout has an offset: add it to the pointer"));
        }
        let modes: Vec<Vec<Leaf>> = tile
            .outer_layout()?
            .modes()
            .map(|mode| leaves(&mode.to_layout()))
            .collect::<Result<_, _>>()?;
        if !(1..=5).contains(&modes.len()) {
            return Err(none("a tensor has 1 to 5 modes"));
        }
        // Dimensions by their distance in shared memory; modes of one element last.
        let key = |mode: &usize| {
            modes.get(*mode).and_then(|leaves| leaves.first()).map_or(i64::MAX, |leaf| leaf.1)
        };
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(key);
        let (mut dense, mut box_dims) = (1, Vec::new());
        let mut parts = vec![Part { origin: vec![0; modes.len()], offset: 0 }];
        for mode in &order {
            let leaves = modes.get(*mode).map_or(&[][..], Vec::as_slice);
            let (inner, rest) = match leaves.split_first() {
                Some(((extent, stride), rest)) if *stride == dense => (*extent, rest),
                _ => (1, leaves),
            };
            if inner > 256 {
                return Err(none("a box has at most 256 elements along a mode"));
            }
            dense *= inner;
            box_dims.push(inner as u32);
            let mut step = inner;
            for (extent, stride) in rest {
                parts = repeated(&parts, *mode, step, (*extent, *stride));
                step *= extent;
            }
        }
        let row = box_dims.first().map_or(0, |inner| i64::from(*inner) * bytes);
        let pattern = match swizzle.row_bytes() {
            Some(width) if i64::from(width) != row => {
                return Err(none("the contiguous rows of the tile are not those of its swizzle"));
            }
            Some(width) => 8 * i64::from(width),
            None if row % 16 != 0 => return Err(none("contiguous rows are multiples of 16 bytes")),
            None => 128,
        };
        if parts.iter().any(|part| part.offset * bytes % pattern != 0) {
            return Err(none(
                "a box starts inside of the pattern of the swizzle, or not at a multiple of 128 bytes",
            ));
        }
        Ok(TmaCopy { elem, tile: tile.clone(), swizzle, modes: order, box_dims, boxes: parts })
    }

    /// The layout of the tile in shared memory.
    pub fn tile(&self) -> &ComposedLayout {
        &self.tile
    }

    /// The extents of a box, the contiguous one first.
    pub fn box_dims(&self) -> &[u32] {
        &self.box_dims
    }

    /// The type of the elements.
    pub(super) fn elem(&self) -> Scalar {
        self.elem
    }

    /// The swizzle of a box.
    pub(super) fn swizzle(&self) -> SwizzleMode {
        self.swizzle
    }

    /// The mode of the tile that each dimension of a box counts.
    pub(super) fn modes(&self) -> &[usize] {
        &self.modes
    }

    /// The boxes of a tile.
    pub(super) fn parts(&self) -> &[Part] {
        &self.boxes
    }

    /// The modes of a tile.
    pub fn rank(&self) -> usize {
        self.modes.len()
    }

    /// The number of boxes of a tile.
    pub fn boxes(&self) -> usize {
        self.boxes.len()
    }

    /// The bytes of a tile: what a barrier waits for.
    pub fn bytes(&self) -> u32 {
        let elements: u32 = self.box_dims.iter().product();
        elements * self.elem.size_bytes() * self.boxes.len() as u32
    }

    /// The copy of one box as an atom: one thread, and all bits of the box. CuTe's `Copy_Atom` of a `TiledCopy` that
    /// `make_tma_copy` gives.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::{TmaCopy, TmaOp};
    ///
    /// let copy = TmaCopy::new(Scalar::F32, layout!((8, 32) : (32, 1)))?;
    /// let atom = copy.atom(TmaOp::Store)?;
    /// assert_eq!(atom.op().to_string(), "SM90_TMA_STORE<8192>");
    /// assert_eq!(atom.layout_src_tv().to_string(), "(1,8192):(0,1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AtomError::BulkBits`] for a box of more than 2^32 bits, which no shared memory holds.
    #[inline]
    pub fn atom(&self, op: TmaOp) -> Result<CopyAtom, AtomError> {
        let elements = self.box_dims.iter().try_fold(1u32, |all, dim| all.checked_mul(*dim));
        let bits = elements.and_then(|elements| elements.checked_mul(self.elem.bits()));
        CopyAtom::new(CopyOp::Tma { op, bits: bits.unwrap_or(u32::MAX) })
    }

    /// The map of a tensor whose tiles are copied. Modes of one element may have any stride.
    ///
    /// # Errors
    /// The tensor has not one number for each mode of the tile, or another contiguous mode; [`TensorMapError`] where
    /// hardware does not take it: distances that are no multiples of 16 bytes among others.
    #[inline]
    pub fn desc(&self, tensor: &Layout) -> Result<TensorMapDesc, TensorError> {
        let error =
            |kind| TensorError { operation: "make_tma_copy", operand: tensor.to_string(), kind };
        let sizes = sizes_of(tensor);
        let sizes = sizes.map_err(|cause| error(cause.into()))?;
        let flat: Option<Vec<Leaf>> =
            self.modes.iter().map(|mode| sizes.get(*mode).copied()).collect();
        let flat = flat.filter(|flat| flat.len() == sizes.len());
        let why = "the tensor has other modes than the tile";
        let flat = flat.ok_or(error(TensorErrorKind::TmaTile { why }))?;
        if flat.first().is_some_and(|(extent, stride)| *extent > 1 && *stride != 1) {
            let why = "the tensor is contiguous along another mode than the tile";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        let bytes = i64::from(self.elem.size_bytes());
        let dims: Vec<u64> = flat.iter().map(|(extent, _)| extent.unsigned_abs()).collect();
        let strides: Vec<u64> = flat
            .iter()
            .skip(1)
            .map(|(extent, stride)| if *extent == 1 { 16 } else { (stride * bytes).unsigned_abs() })
            .collect();
        let map = TensorMapDesc::new(self.elem, &dims, &strides, &self.box_dims)
            .and_then(|map| map.with_swizzle(self.swizzle));
        map.map_err(|cause: TensorMapError| error(TensorErrorKind::TensorMap(Box::new(cause))))
    }

    /// The coordinates of a box of the tile at `origin`, in the order of the map.
    #[track_caller]
    pub(super) fn coords<'b, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        origin: &DeviceCoord<'b>,
        part: &Part,
    ) -> [Val<'b, i32>; RANK] {
        let _call = k.call();
        let entries: Vec<&DeviceCoord<'b>> = match origin {
            DeviceCoord::Tuple(items) => items.iter().collect(),
            one => vec![one],
        };
        if entries.len() != self.modes.len() || RANK != self.modes.len() {
            let (expected, found) =
                (self.modes.len(), if RANK == self.modes.len() { entries.len() } else { RANK });
            let kind = LayoutError::RankMismatch { expected, found }.into();
            k.report(TensorError { operation, operand: self.to_string(), kind });
        }
        std::array::from_fn(|dim| {
            let mode = self.modes.get(dim).copied().unwrap_or(0);
            let shift = part.origin.get(mode).copied().unwrap_or(0);
            let shift = crate::tensor::view::engine::clamped(shift);
            match entries.get(mode) {
                Some(DeviceCoord::Device(at)) if shift == 0 => *at,
                Some(DeviceCoord::Device(at)) => *at + shift,
                Some(DeviceCoord::Host(at)) => {
                    k.constant(crate::tensor::view::engine::clamped(*at).saturating_add(shift))
                }
                Some(DeviceCoord::All | DeviceCoord::Tuple(_)) => {
                    let argument = "a coordinate that is no number".to_owned();
                    let kind = LayoutError::Unsupported { operation, argument }.into();
                    k.report(TensorError { operation, operand: self.to_string(), kind });
                    k.constant(0)
                }
                None => k.constant(0),
            }
        })
    }

    /// Returns the start of a tile in shared memory, if it has the layout of this copy.
    #[track_caller]
    pub(super) fn shared_base<'b, T: Element>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        tile: &SharedTensor<'b, T>,
    ) -> Option<Val<'b, Shared<T>>> {
        if tile.poisoned {
            return None;
        }
        let same = || -> Result<bool, LayoutError> {
            let mine = self.tile.outer_layout()?.coalesce()?;
            Ok(tile.layout().coalesce()? == mine
                && tile.swizzle().unwrap_or(Swizzle::identity()) == self.tile.swizzle_portion())
        };
        let why = match same() {
            Ok(true) if T::scalar() == self.elem && tile.engine.start_alignment() >= 128 => {
                let (base, offset) = tile.engine.resolve();
                return Some(if offset == 0 { base } else { base.offset(offset) });
            }
            Ok(true) if T::scalar() == self.elem => {
                "the tile is not known to start at a multiple of 128 bytes: make it by `Tensor::shared_aligned` with that \
                 alignment, and the stages of a ring a multiple of 128 bytes apart"
            }
            Ok(true) => "the tile has elements of another type",
            Ok(false) => {
                let (expected, layout) = (self.tile.to_string(), tile.layout());
                let found = match tile.swizzle() {
                    Some(swizzle) => format!("{swizzle} o 0 o {layout}"),
                    None => layout.to_string(),
                };
                tile.failed(k, operation, TensorErrorKind::TmaLayout { expected, found });
                return None;
            }
            Err(error) => {
                tile.failed(k, operation, error);
                return None;
            }
        };
        tile.failed(k, operation, TensorErrorKind::TmaTile { why });
        None
    }

    /// Starts the copies of the tile at `origin`, one number for each mode, to shared memory; `full` waits for
    /// [`bytes`](TmaCopy::bytes) bytes. What is outside of the tensor becomes zero. One thread does it.
    #[track_caller]
    pub fn load<'b, T: Element, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
    ) {
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_load", to)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_load", &origin, part);
            let to = at(base, part.offset);
            map.cp_async_bulk_tensor_load(k, to, coords, full, L2Policy::Default);
        }
    }

    /// As [`load`](TmaCopy::load), to each block of the cluster whose bit `ctas` has: to the same offset there, and for
    /// the barrier there.
    #[track_caller]
    pub fn load_multicast<'b, T: Element, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
        ctas: impl IntoVal<'b, u32>,
    ) {
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_load", to)) else {
            return;
        };
        let ctas = k.value::<u32>(ctas);
        for part in &self.boxes {
            let coords = self.coords(k, "tma_load", &origin, part);
            let to = at(base, part.offset);
            map.cp_async_bulk_tensor_multicast(k, to, coords, full, ctas, L2Policy::Default);
        }
    }

    /// As [`load`](TmaCopy::load), for a tile that several blocks of the cluster need. Each of them calls it, and the one
    /// with the rank `number % blocks` multicasts the tile to all.
    #[track_caller]
    pub fn load_rotated<'k: 'b, 'b, T: Element, const RANK: usize>(
        &self,
        k: &mut Body<'k, '_>,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'b>,
        peers: ClusterPeers<'b>,
        number: Val<'b, i32>,
    ) {
        let (origin, ClusterPeers { blocks, rank, ctas }) = (origin.into(), peers);
        if blocks == 1 {
            return self.load(k, map, origin, to, full);
        }
        let mine = (number % blocks).eq(rank);
        k.if_(mine, |k| self.load_multicast(k, map, origin, to, full, ctas));
    }

    /// Starts the copies of a tile in shared memory to `origin`, but for what is outside of the tensor, as part of the
    /// group of bulk copies that is committed next. One thread does it, after all that wrote the tile have made it
    /// visible ([`fence_proxy_async`](Body::fence_proxy_async)) and met. No coordinate of `origin` is negative.
    #[track_caller]
    pub fn store<'b, T: Element, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        map: Val<'b, TensorMapMut<T, RANK>>,
        from: &SharedTensor<'b, T>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_store", from)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_store", &origin, part);
            map.cp_async_bulk_tensor_store(k, coords, at(base, part.offset), L2Policy::Default);
        }
    }

    /// As [`store`](TmaCopy::store), but each element of the tensor becomes `op` of itself and that of the tile: sums of
    /// tiles of several blocks, say, in any order. CuTe's `SM90_TMA_REDUCE_ADD` and its likes.
    ///
    /// `Add` is for `f16`, `bf16`, `f32`, `i32`, `u32` and `u64`, `Min` and `Max` for `f16`, `bf16` and integers of 32 and
    /// 64 bits, `And`, `Or` and `Xor` for these integers, `Inc` and `Dec` for `u32`; another type is an error of the build.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::op::{BulkReduce, BulkWait, ProxySpace};
    /// use tilewright::ir::{Kernel, Target, TensorMapMut};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::{SharedTensor, TmaCopy};
    ///
    /// // Each of three blocks adds its number to all elements of a tile.
    /// let tile = layout!((8, 32) : (32, 1));
    /// let copy = TmaCopy::new(Scalar::F32, &tile)?;
    /// let kernel = Kernel::<(TensorMapMut<f32, 2>,)>::build("sum", Target::SM_90, |k, (to,)| {
    ///     let part = SharedTensor::<f32>::shared_aligned(k, tile.clone(), 128);
    ///     let (t, number) = (k.thread_idx().x, k.block_idx().x.cvt::<f32>());
    ///     for row in 0..8 {
    ///         part.store(k, (row, t), number);
    ///     }
    ///     k.fence_proxy_async(ProxySpace::SharedCta);
    ///     k.barrier();
    ///     k.if_(t.eq(0), |k| {
    ///         copy.reduce(k, BulkReduce::Add, to, &part, (8, 0));
    ///         k.cp_async_bulk_commit_group();
    ///         k.cp_async_bulk_wait_group(0, BulkWait::Done);
    ///     });
    /// })?;
    /// assert!(kernel.ptx().text().contains("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"));
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[10.0; 16 * 32])?;
    /// let map = copy.desc(&layout!((16, 32) : (32, 1)))?;
    /// let mut to = x.tensor_map_mut(&map)?;
    /// device.load(&kernel)?.launch(Grid::new([3, 1, 1], [32, 1, 1]), (&mut to,))?;
    /// let x = x.to_vec()?;
    /// assert!(x[..8 * 32].iter().all(|x| *x == 10.0) && x[8 * 32..].iter().all(|x| *x == 13.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn reduce<'b, T: Element, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        op: BulkReduce,
        map: Val<'b, TensorMapMut<T, RANK>>,
        from: &SharedTensor<'b, T>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_reduce", from)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_reduce", &origin, part);
            let (from, policy) = (at(base, part.offset), L2Policy::Default);
            map.cp_reduce_async_bulk_tensor(k, op, coords, from, policy);
        }
    }

    /// Brings the tile at `origin` into L2, before it is [loaded](TmaCopy::load). One thread does it; nothing waits for it.
    /// CuTe's `SM90_TMA_LOAD::PREFETCH`.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, TensorMap};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::TmaCopy;
    ///
    /// let copy = TmaCopy::new(Scalar::F32, layout!((8, 32) : (32, 1)))?;
    /// let kernel = Kernel::<(TensorMap<f32, 2>,)>::build("ahead", Target::SM_90, |k, (x,)| {
    ///     let row = k.block_idx().x * 8;
    ///     k.if_(k.thread_idx().x.eq(0), |k| copy.prefetch(k, x, (row, 0)));
    /// })?;
    /// assert!(kernel.ptx().text().contains("cp.async.bulk.prefetch.tensor.2d.L2.global"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn prefetch<'b, T: Element, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let origin = origin.into();
        for part in &self.boxes {
            let coords = self.coords(k, "tma_prefetch", &origin, part);
            map.cp_async_bulk_prefetch_tensor(k, coords, L2Policy::Default);
        }
    }
}

/// `bf16 o S<3,3,3> o 0 o (128,64):(64,1) in boxes of 64x128`
impl fmt::Display for TmaCopy {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.box_dims.iter().map(u32::to_string).collect();
        write!(f, "{} o {} in boxes of {}", self.elem, self.tile, dims.join("x"))
    }
}

#[track_caller]
pub(super) fn at<T: Element>(base: Val<'_, Shared<T>>, offset: i64) -> Val<'_, Shared<T>> {
    if offset == 0 { base } else { base.offset(offset) }
}

/// The size and the stride of each mode.
#[inline]
pub(super) fn sizes_of(tensor: &Layout) -> Result<Vec<Leaf>, LayoutError> {
    let leaf = |mode: Layout| {
        let stride = mode.stride().as_leaf().map_or(Ok(0), |stride| stride.to_int()?.to_static());
        Ok((mode.size()?.to_static()?, stride?))
    };
    tensor.modes().map(|mode| leaf(mode.to_layout())).collect()
}

/// The extents and strides of a mode, coalesced; extents of 1 are left out.
#[inline]
fn leaves(mode: &Layout) -> Result<Vec<Leaf>, LayoutError> {
    let mode = mode.coalesce()?;
    let all = mode
        .as_ref()
        .leaves()
        .map(|(extent, stride)| Ok((extent.to_static()?, stride.to_int()?.to_static()?)));
    let all: Result<Vec<Leaf>, LayoutError> = all.collect();
    Ok(all?.into_iter().filter(|(extent, _)| *extent != 1).collect())
}

/// Each of `parts` again and again along `mode`, `step` coordinates apart.
#[inline]
fn repeated(parts: &[Part], mode: usize, step: i64, (extent, stride): Leaf) -> Vec<Part> {
    let at = |i: i64| {
        parts.iter().map(move |part| {
            let mut part = part.clone();
            if let Some(start) = part.origin.get_mut(mode) {
                *start += i * step;
            }
            part.offset += i * stride;
            part
        })
    };
    (0..extent).flat_map(at).collect()
}
