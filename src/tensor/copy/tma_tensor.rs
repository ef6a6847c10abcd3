//! [`TmaTensor`]: a tensor map as a tensor that you can tile and slice, so that a kernel addresses
//! TMA tiles as it addresses any other tensor. CuTe's `get_tma_tensor`.

use crate::ir::builder::{DeviceCoord, MbarrierRef, Ty};
use crate::ir::{Element, Global, TensorMap, TensorMapMut, Val};
use crate::layout::{IntTuple, TilerRef};

use super::peers::ClusterPeers;
use super::tma::TmaCopy;
use crate::tensor::view::tensor::{CoordTensor, SharedTensor, Tensor};

/// A tensor map that you tile and slice like a data tensor, and whose tiles a [`TmaCopy`] moves:
/// CuTe's `TmaCopy::get_tma_tensor`. It saves you from computing tile coordinates by hand.
///
/// Its elements are coordinates of the map. Every mode has the largest possible extent, `2^31 - 1`,
/// because the kernel does not know the tensor's extents; the map does, and clips tiles to them.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::BulkWait;
/// use tilewright::ir::{Kernel, Target, TensorMap, TensorMapMut};
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::{layout, tiler};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::TmaCopy;
/// use tilewright::tensor::pipeline::TmaPipeline;
/// use tilewright::tensor::view::SharedTensor;
///
/// // Copies the tile of 8 x 32 in column 1 of the row of tiles that the block has.
/// let tile = layout!((8, 32) : (32, 1));
/// let copy = TmaCopy::new(Scalar::I32, &tile)?;
/// type Params = (TensorMap<i32, 2>, TensorMapMut<i32, 2>);
/// let kernel = Kernel::<Params>::build("tile", Target::SM_90, |k, (from, to)| {
///     let shared = SharedTensor::<i32>::shared_aligned(k, tile.clone(), 128);
///     let pipe = TmaPipeline::new(k, 1, copy.bytes(), 1);
///     let first = k.thread_idx().x.eq(0);
///     pipe.init(first);
///     k.barrier();
///     k.if_(first, |k| {
///         let row = k.block_idx().x;
///         let from = copy.tensor(from).local_tile(&tiler!(8, 32), (row, ..));
///         from.slice((.., .., 1)).load(&shared, pipe.acquire(pipe.producer()));
///         pipe.wait(pipe.consumer());
///         copy.tensor(to).local_tile(&tiler!(8, 32), (row, 1)).store(&shared);
///         k.cp_async_bulk_commit_group();
///         k.cp_async_bulk_wait_group(0, BulkWait::Read);
///     });
/// })?;
/// let device = Device::sim()?;
/// let x = device.upload(&(0..16 * 64).collect::<Vec<i32>>())?;
/// let mut y = device.zeros::<i32>(16 * 64)?;
/// let map = copy.desc(&layout!((16, 64) : (64, 1)))?;
/// let args = (&x.tensor_map(&map)?, &mut y.tensor_map_mut(&map)?);
/// device.load(&kernel)?.launch(Grid::new([2, 1, 1], [32, 1, 1]), args)?;
/// assert!(y.to_vec()?.iter().zip(0..).all(|(y, i)| *y == if i % 64 < 32 { 0 } else { i }));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TmaTensor<'c, 'b, M> {
    copy: &'c TmaCopy,
    map: Val<'b, M>,
    coords: CoordTensor<'b>,
}

impl TmaCopy {
    /// Returns the tensor of `map`, whose tiles this copy moves. Tile it to get the tiles that you
    /// load or store.
    #[track_caller]
    pub fn tensor<'c, 'b, M: Ty>(&'c self, map: Val<'b, M>) -> TmaTensor<'c, 'b, M> {
        let extents = vec![IntTuple::from(i32::MAX); self.rank()];
        // A map has 1 to 5 modes, which a tuple can hold.
        let shape = IntTuple::from_items(extents).unwrap_or_else(|_| IntTuple::from(i32::MAX));
        TmaTensor { copy: self, map, coords: Tensor::identity(&map.body(), shape) }
    }
}

/// Tensor maps in global memory, written by [`tensormap_replace`](Val::tensormap_replace). Use it
/// in a grouped GEMM, where the device makes a map for each group's matrix.
#[derive(Clone, Copy, Debug)]
pub struct MapArray<'b> {
    /// The address of the first map.
    pub first: Val<'b, Global<u64>>,
    /// Elements from one map to the next, a multiple of 16.
    pub words: u32,
}

impl<'b> MapArray<'b> {
    /// Returns the address of map `number`, for example to fence or replace it.
    #[track_caller]
    pub fn at(&self, number: Val<'b, i32>) -> Val<'b, Global<u64>> {
        let first: Val<'b, Global<u64>> = self.first;
        first.offset(number * self.words)
    }
}

/// The tensors that one [`TmaCopy`] moves: a single tensor map, or many maps in memory that are
/// made from it. A kernel that handles plain and grouped GEMM takes it instead of a [`TmaTensor`].
#[derive(Clone, Copy, Debug)]
pub struct TmaTensors<'c, 'b, T, const RANK: usize> {
    /// The copy that moves their tiles.
    pub copy: &'c TmaCopy,
    /// The tensor map.
    pub map: Val<'b, TensorMap<T, RANK>>,
    /// The maps in memory. With `None`, every matrix is in the tensor of `map`.
    pub maps: Option<MapArray<'b>>,
}

impl<'c, 'b, T: Element, const RANK: usize> TmaTensors<'c, 'b, T, RANK> {
    /// Returns the tensor of map `number`, or of the only map. If maps are in memory, it first
    /// acquires the map, because the device may just have written it.
    #[track_caller]
    pub fn of<'d>(&self, number: Val<'d, i32>) -> TmaTensor<'c, 'd, TensorMap<T, RANK>>
    where
        'b: 'd,
    {
        let map: Val<'d, TensorMap<T, RANK>> = self.map;
        let map = self.maps.map_or(map, |maps| map.tensormap_acquire(maps.at(number)));
        self.copy.tensor(map)
    }
}

impl<'c, 'b, M> TmaTensor<'c, 'b, M> {
    /// Returns the coordinates that this view covers as a [`CoordTensor`], for example to see where
    /// a tile starts.
    pub fn coords(&self) -> &CoordTensor<'b> {
        &self.coords
    }

    /// Divides the tensor by `tiler` and returns the tile at `coord`: [`Tensor::local_tile`].
    #[track_caller]
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: impl Into<DeviceCoord<'b>>,
    ) -> Self {
        TmaTensor { coords: self.coords.local_tile(tiler, coord), ..*self }
    }

    /// Moves the origin to a coordinate: [`Tensor::domain_offset`]. Use it to start at a group's
    /// first row.
    #[track_caller]
    pub fn domain_offset(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
        TmaTensor { coords: self.coords.domain_offset(coord), ..*self }
    }

    /// Keeps the modes that have `..` and fixes the others: [`Tensor::slice`].
    #[track_caller]
    pub fn slice(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
        TmaTensor { coords: self.coords.slice(coord), ..*self }
    }
}

impl<'b, T: Element, const RANK: usize> TmaTensor<'_, 'b, TensorMap<T, RANK>> {
    /// Starts loading this tile into shared memory: [`TmaCopy::load`].
    #[track_caller]
    pub fn load(&self, to: &SharedTensor<'b, T>, full: MbarrierRef<'_>) {
        self.copy.load(self.map, self.coords.data().value(), to, full);
    }

    /// Starts loading this tile for all blocks of the cluster that need it:
    /// [`TmaCopy::load_rotated`].
    #[track_caller]
    pub fn load_rotated(
        &self,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'b>,
        peers: ClusterPeers<'b>,
        number: Val<'b, i32>,
    ) {
        let origin = self.coords.data().value();
        self.copy.load_rotated(self.map, origin, to, full, peers, number);
    }
}

impl<'b, T: Element, const RANK: usize> TmaTensor<'_, 'b, TensorMapMut<T, RANK>> {
    /// Starts a TMA store of the tile `from` in shared memory to this tile of global memory, for
    /// example at the end of a kernel. [`TmaCopy::store`] says how to wait for it.
    #[track_caller]
    pub fn store(&self, from: &SharedTensor<'b, T>) {
        self.copy.store(self.map, from, self.coords.data().value());
    }
}
