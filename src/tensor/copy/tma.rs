//! [`TmaCopy`]: TMA copies of tiles between global and shared memory, the way to feed `wgmma` on
//! `sm_90`. The host makes the tensor map, and one thread of the kernel issues each copy.

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

/// Copies a tile between global and shared memory with TMA: CuTe's `make_tma_copy`.
///
/// Use it on `sm_90` whenever the tensor's address and pitches are multiples of 16 bytes. One
/// thread issues the copy, the hardware computes addresses, clips at the tensor's edges, swizzles,
/// and completes on an mbarrier ([`TmaPipeline`](crate::tensor::pipeline::TmaPipeline)). Without a
/// tensor map, for contiguous data, use [`bulk_copy`](crate::tensor::copy::bulk_copy); for other
/// pitches use [`AsyncTile`](crate::tensor::copy::AsyncTile) or
/// [`GlobalLines`](crate::tensor::copy::GlobalLines).
///
/// Make it from the element type and the tile's layout in shared memory, with one mode per mode of
/// the tensor. On the host, [`desc`](TmaCopy::desc) makes the tensor map. In the kernel, one thread
/// calls [`load`](TmaCopy::load) or [`store`](TmaCopy::store). If the tile's contiguous mode is
/// longer than a row of its swizzle, the tile consists of several boxes.
///
/// ```
/// use tilewright::arch::SwizzleMode;
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::{Layout, layout, shape};
/// use tilewright::arch::Major;
/// use tilewright::tensor::atom::{SmemAtom, SmemSwizzle};
/// use tilewright::tensor::copy::TmaCopy;
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
    /// The tile's mode for each dimension of the map, the contiguous one first.
    modes: Vec<usize>,
    box_dims: Vec<u32>,
    boxes: Vec<Part>,
}

/// A box of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its start in the tile, per mode.
    origin: Vec<i64>,
    /// Elements from the tile's start in shared memory.
    offset: i64,
}

impl Part {
    pub(super) fn offset(&self) -> i64 {
        self.offset
    }

    /// Returns the box's start along a mode of the tile.
    pub(super) fn start(&self, mode: usize) -> i64 {
        self.origin.get(mode).copied().unwrap_or(0)
    }
}

/// A mode's extent and stride.
pub(super) type Leaf = (i64, i64);

impl TmaCopy {
    /// Makes the copy of a tile with elements of type `elem` and this layout in shared memory.
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`] if no mode is contiguous, a row does not match the swizzle, a
    /// box is too large, or a box starts inside the swizzle pattern; [`TensorErrorKind::Layout`] if
    /// the layout has symbols.
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
        let swizzle = swizzle.ok_or(none("the hardware does not support this swizzle"))?;
        if tile.offset().as_static() != Some(0) {
            return Err(none("the layout has an offset: add it to the pointer"));
        }
        let modes: Vec<Vec<Leaf>> = tile
            .outer_layout()?
            .modes()
            .map(|mode| leaves(&mode.to_layout()))
            .collect::<Result<_, _>>()?;
        if !(1..=5).contains(&modes.len()) {
            return Err(none("the tile must have 1 to 5 modes"));
        }
        // Order dimensions by their stride in shared memory; modes of extent 1 come last.
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
                return Err(none("a box can have at most 256 elements along a mode"));
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
                return Err(none(
                    "the tile's contiguous rows must be as wide as its swizzle: 32, 64 or 128 bytes",
                ));
            }
            Some(width) => 8 * i64::from(width),
            None if row % 16 != 0 => {
                return Err(none("the tile's contiguous rows must be multiples of 16 bytes"));
            }
            None => 128,
        };
        if parts.iter().any(|part| part.offset * bytes % pattern != 0) {
            return Err(none(
                "each box must start at a multiple of the swizzle pattern's size, or of 128 bytes without a swizzle",
            ));
        }
        Ok(TmaCopy { elem, tile: tile.clone(), swizzle, modes: order, box_dims, boxes: parts })
    }

    /// Returns the tile's layout in shared memory. Allocate the tile, or each stage of a ring
    /// buffer, with it.
    pub fn tile(&self) -> &ComposedLayout {
        &self.tile
    }

    /// Returns the extents of the box that one instruction copies, the contiguous one first. They
    /// are limited to 256 each by the hardware.
    pub fn box_dims(&self) -> &[u32] {
        &self.box_dims
    }

    pub(super) fn elem(&self) -> Scalar {
        self.elem
    }

    pub(super) fn swizzle(&self) -> SwizzleMode {
        self.swizzle
    }

    /// The tile's mode for each dimension of a box.
    pub(super) fn modes(&self) -> &[usize] {
        &self.modes
    }

    /// The tile's boxes.
    pub(super) fn parts(&self) -> &[Part] {
        &self.boxes
    }

    /// Returns the tile's rank, which is that of the tensor and of the map.
    pub fn rank(&self) -> usize {
        self.modes.len()
    }

    /// Returns how many boxes the tile has, and so how many instructions a copy takes.
    pub fn boxes(&self) -> usize {
        self.boxes.len()
    }

    /// Returns the tile's size in bytes: what the mbarrier has to expect
    /// (`arrive_expect_tx`) before a [`load`](TmaCopy::load).
    pub fn bytes(&self) -> u32 {
        let elements: u32 = self.box_dims.iter().product();
        elements * self.elem.size_bytes() * self.boxes.len() as u32
    }

    /// Returns the copy of one box as an atom: one thread, all bits of the box. CuTe's `Copy_Atom`
    /// of the `TiledCopy` that `make_tma_copy` returns.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::atom::TmaOp;
    /// use tilewright::tensor::copy::TmaCopy;
    ///
    /// let copy = TmaCopy::new(Scalar::F32, layout!((8, 32) : (32, 1)))?;
    /// let atom = copy.atom(TmaOp::Store)?;
    /// assert_eq!(atom.op().to_string(), "SM90_TMA_STORE<8192>");
    /// assert_eq!(atom.layout_src_tv().to_string(), "(1,8192):(0,1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AtomError::BulkBits`] if a box has more than 2^32 bits, which no shared memory holds.
    #[inline]
    pub fn atom(&self, op: TmaOp) -> Result<CopyAtom, AtomError> {
        let elements = self.box_dims.iter().try_fold(1u32, |all, dim| all.checked_mul(*dim));
        let bits = elements.and_then(|elements| elements.checked_mul(self.elem.bits()));
        CopyAtom::new(CopyOp::Tma { op, bits: bits.unwrap_or(u32::MAX) })
    }

    /// Makes the tensor map of a tensor whose tiles you copy. Modes of extent 1 can have any
    /// stride. Call it on the host before the launch; the kernel gets the map as a parameter.
    ///
    /// # Errors
    /// The tensor's rank or contiguous mode differs from the tile's, or it is not static;
    /// [`TensorMapError`] if the hardware cannot express it, for example because a stride is not a
    /// multiple of 16 bytes.
    #[inline]
    pub fn desc(&self, tensor: &Layout) -> Result<TensorMapDesc, TensorError> {
        let error =
            |kind| TensorError { operation: "make_tma_copy", operand: tensor.to_string(), kind };
        let sizes = sizes_of(tensor);
        let sizes = sizes.map_err(|cause| error(cause.into()))?;
        let flat: Option<Vec<Leaf>> =
            self.modes.iter().map(|mode| sizes.get(*mode).copied()).collect();
        let flat = flat.filter(|flat| flat.len() == sizes.len());
        let why = "the tensor and the tile must have the same number of modes";
        let flat = flat.ok_or(error(TensorErrorKind::TmaTile { why }))?;
        if flat.first().is_some_and(|(extent, stride)| *extent > 1 && *stride != 1) {
            let why = "the tensor must be contiguous along the same mode as the tile";
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

    /// Returns a box's coordinates in the order of the map, for the tile at `origin`.
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
            let shift = crate::tensor::view::engine::clamped(part.start(mode));
            match entries.get(mode) {
                Some(DeviceCoord::Device(at)) if shift == 0 => *at,
                Some(DeviceCoord::Device(at)) => *at + shift,
                Some(DeviceCoord::Host(at)) => {
                    k.constant(crate::tensor::view::engine::clamped(*at).saturating_add(shift))
                }
                Some(DeviceCoord::All | DeviceCoord::Tuple(_)) => {
                    let argument = "a coordinate that is not an integer".to_owned();
                    let kind = LayoutError::Unsupported { operation, argument }.into();
                    k.report(TensorError { operation, operand: self.to_string(), kind });
                    k.constant(0)
                }
                None => k.constant(0),
            }
        })
    }

    /// Returns the start of a tile in shared memory, if its layout matches this copy.
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
                "the tile must be known to start at a multiple of 128 bytes: make it with \
                 `Tensor::shared_aligned` and that alignment, and put the stages of a ring buffer \
                 a multiple of 128 bytes apart"
            }
            Ok(true) => "the tile has another element type than the copy",
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

    /// Starts loading the tile at `origin`, one index per mode, into shared memory. The copies
    /// complete on `full` with [`bytes`](TmaCopy::bytes) bytes. Elements outside the tensor become
    /// zero. Call it in one thread.
    #[track_caller]
    pub fn load<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
    ) {
        let k = &map.body();
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_load", to)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_load", &origin, part);
            let to = at(base, part.offset);
            map.cp_async_bulk_tensor_load(to, coords, full, L2Policy::Default);
        }
    }

    /// Like [`load`](TmaCopy::load), but multicast to every block of the cluster whose bit is set
    /// in `ctas`. The data and the barrier signal arrive at the same shared-memory offsets there.
    /// Use it to read a tile from global memory once for several blocks.
    #[track_caller]
    pub fn load_multicast<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
        ctas: impl IntoVal<'b, u32>,
    ) {
        let k = &map.body();
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_load", to)) else {
            return;
        };
        let ctas = k.value::<u32>(ctas);
        for part in &self.boxes {
            let coords = self.coords(k, "tma_load", &origin, part);
            let to = at(base, part.offset);
            map.cp_async_bulk_tensor_multicast(to, coords, full, ctas, L2Policy::Default);
        }
    }

    /// Like [`load`](TmaCopy::load), for a tile that several blocks of the cluster need. Each of
    /// them must call it; the one with rank `number % blocks` multicasts the tile to all, so that
    /// the blocks take turns.
    #[track_caller]
    pub fn load_rotated<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'b>,
        peers: ClusterPeers<'b>,
        number: Val<'b, i32>,
    ) {
        let k = &mut map.body();
        let (origin, ClusterPeers { blocks, rank, ctas }) = (origin.into(), peers);
        if blocks == 1 {
            return self.load(map, origin, to, full);
        }
        let mine = (number % blocks).eq(rank);
        k.if_(mine, |_| self.load_multicast(map, origin, to, full, ctas));
    }

    /// Starts storing a tile from shared memory to `origin`, clipped to the tensor. The copies join
    /// the next committed bulk group. No coordinate of `origin` may be negative.
    ///
    /// Call it in one thread. Before that, every thread that wrote the tile must make its writes
    /// visible with [`fence_proxy_async`](Body::fence_proxy_async) and pass a barrier.
    #[track_caller]
    pub fn store<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMapMut<T, RANK>>,
        from: &SharedTensor<'b, T>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let k = &map.body();
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_store", from)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_store", &origin, part);
            map.cp_async_bulk_tensor_store(coords, at(base, part.offset), L2Policy::Default);
        }
    }

    /// Like [`store`](TmaCopy::store), but combines each element of the tensor with the tile's by
    /// `op`, for example to add up the tiles of several blocks. The order is undefined. CuTe's
    /// `SM90_TMA_REDUCE_ADD` and its siblings.
    ///
    /// `Add` works on `f16`, `bf16`, `f32`, `i32`, `u32` and `u64`; `Min` and `Max` on `f16`,
    /// `bf16` and 32-bit and 64-bit integers; `And`, `Or` and `Xor` on these integers; `Inc` and
    /// `Dec` on `u32`. Other types are a build error.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::op::{BulkReduce, BulkWait, ProxySpace};
    /// use tilewright::ir::{Kernel, Target, TensorMapMut};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::copy::TmaCopy;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// // Each of three blocks adds its number to all elements of a tile.
    /// let tile = layout!((8, 32) : (32, 1));
    /// let copy = TmaCopy::new(Scalar::F32, &tile)?;
    /// let kernel = Kernel::<(TensorMapMut<f32, 2>,)>::build("sum", Target::SM_90, |k, (to,)| {
    ///     let part = SharedTensor::<f32>::shared_aligned(k, tile.clone(), 128);
    ///     let (t, number) = (k.thread_idx().x, k.block_idx().x.cvt::<f32>());
    ///     for row in 0..8 {
    ///         part.store((row, t), number);
    ///     }
    ///     k.fence_proxy_async(ProxySpace::SharedCta);
    ///     k.barrier();
    ///     k.if_(t.eq(0), |k| {
    ///         copy.reduce(BulkReduce::Add, to, &part, (8, 0));
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
        op: BulkReduce,
        map: Val<'b, TensorMapMut<T, RANK>>,
        from: &SharedTensor<'b, T>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let k = &map.body();
        let (origin, Some(base)) = (origin.into(), self.shared_base(k, "tma_reduce", from)) else {
            return;
        };
        for part in &self.boxes {
            let coords = self.coords(k, "tma_reduce", &origin, part);
            let (from, policy) = (at(base, part.offset), L2Policy::Default);
            map.cp_reduce_async_bulk_tensor(op, coords, from, policy);
        }
    }

    /// Prefetches the tile at `origin` into L2, ahead of its [load](TmaCopy::load). Call it in one
    /// thread; nothing has to wait for it. CuTe's `SM90_TMA_LOAD::PREFETCH`.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, TensorMap};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::copy::TmaCopy;
    ///
    /// let copy = TmaCopy::new(Scalar::F32, layout!((8, 32) : (32, 1)))?;
    /// let kernel = Kernel::<(TensorMap<f32, 2>,)>::build("ahead", Target::SM_90, |k, (x,)| {
    ///     let row = k.block_idx().x * 8;
    ///     k.if_(k.thread_idx().x.eq(0), |_| copy.prefetch(x, (row, 0)));
    /// })?;
    /// assert!(kernel.ptx().text().contains("cp.async.bulk.prefetch.tensor.2d.L2.global"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn prefetch<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let k = &map.body();
        let origin = origin.into();
        for part in &self.boxes {
            let coords = self.coords(k, "tma_prefetch", &origin, part);
            map.cp_async_bulk_prefetch_tensor(coords, L2Policy::Default);
        }
    }
}

/// For example `bf16 o S<3,3,3> o 0 o (128,64):(64,1) in boxes of 64x128`.
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

/// Returns each mode's size and stride.
#[inline]
pub(super) fn sizes_of(tensor: &Layout) -> Result<Vec<Leaf>, LayoutError> {
    let leaf = |mode: Layout| {
        let stride = mode.stride().as_leaf().map_or(Ok(0), |stride| stride.to_int()?.to_static());
        Ok((mode.size()?.to_static()?, stride?))
    };
    tensor.modes().map(|mode| leaf(mode.to_layout())).collect()
}

/// Returns a mode's extents and strides, coalesced and without extents of 1.
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

/// Repeats `parts` along `mode`, `step` coordinates apart.
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
