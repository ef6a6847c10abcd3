//! [`OverlappedStore`]: stores a tile of accumulators while the next tile is multiplied. Use it in
//! a persistent `sm_90` kernel, so that the tensor cores need not wait for the epilogue.

use std::ops::Range;

use super::thr_store::{AccumulatorMap, ThrStore};
use crate::ir::{Body, Element, Registers, Val};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::RegisterTensor;

/// A thread's share of an epilogue that overlaps with the next tile's main loop.
///
/// [`ThrStore::tile`] stores a tile as soon as it is finished, and its warp group's tensor cores
/// wait for that. This store [keeps](OverlappedStore::keep) the finished tile in registers, rounded
/// to the element type and packed in words of 32 bits, and [stores](OverlappedStore::store) it in
/// parts between the `wgmma` of the next tile's first steps
/// ([`WgmmaMainloop::run_over`](crate::tensor::mma::WgmmaMainloop::run_over)). It costs one
/// register per four columns of 16-bit elements.
///
/// The loop over tiles carries the origin of the tile that is kept: it starts with
/// [`nothing`](OverlappedStore::nothing), takes what `keep` returns, and ends with
/// [`finish`](OverlappedStore::finish). `examples/hopper_gemm.rs` is a whole kernel.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::{Kernel, Target, TensorMapMut, bf16, range};
/// use tilewright::layout::{Layout, layout, shape, tiler};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::atom::{MmaAtom, OperandSource, TiledMma, ValType, Wgmma};
/// use tilewright::tensor::copy::{OverlappedStore, StagedStore};
///
/// // Three tiles of 64 x 128, stored in two parts. Tile `i` consists of `i`.
/// let op = Wgmma::new(128, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
/// let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((1, 1, 1)), tiler!(_, _, _))?;
/// let store = StagedStore::new(Scalar::Bf16, 64, 2)?;
/// let kernel = Kernel::<(TensorMapMut<bf16, 3>,)>::build("tiles", Target::SM_90A, |k, (map,)| {
///     let staging = k.shared_aligned::<bf16>(store.elements(), 1024);
///     let thread = k.thread_idx().x;
///     let part = store.slice(k, map, staging, thread, k.named_barrier(1, 128));
///     let overlapped = OverlappedStore::new(k, part, 128);
///     let last = k.for_(range(0, 3), overlapped.nothing(), |k, tile, previous| {
///         // Here a kernel starts this tile's MMAs.
///         overlapped.store(previous, 0..overlapped.parts());
///         let acc = mma.slice(thread).fragment_c::<f32>(k, shape!(64, 128));
///         acc.fill(tile.cvt::<f32>());
///         overlapped.keep(&acc, [tile * 64, k.constant(0), k.constant(0)], &())
///     });
///     overlapped.finish(last);
/// })?;
/// let device = Device::sim_for(Target::SM_90A)?;
/// let mut d = device.zeros::<bf16>(3 * 64 * 128)?;
/// let map = store.desc(&Layout::new((3 * 64, 128, 1), (128, 1, 0))?)?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [128, 1, 1]), (&mut d.tensor_map_mut(&map)?,))?;
/// let d = d.to_vec()?;
/// assert!((0..d.len()).all(|i| d[i].to_f32() == (i / (64 * 128)) as f32));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OverlappedStore<'s, 'b, T> {
    store: ThrStore<'s, 'b, T>,
    kept: Registers<'b, u32>,
    parts: u32,
}

impl<'s, 'b, T: Element> OverlappedStore<'s, 'b, T> {
    /// Takes the registers for a tile with 64 rows per warp group and `columns` columns. Call it
    /// once, before the loop over tiles.
    ///
    /// It is a build error if `columns` is not a multiple of the columns that `store` covers, or if
    /// the store's slots do not divide the tile's parts: parts use the slots in turn.
    #[track_caller]
    pub fn new(k: &Body<'b, '_>, store: ThrStore<'s, 'b, T>, columns: u32) -> Self {
        let _call = k.call();
        let parts = columns / store.columns();
        let why = if parts == 0 || !columns.is_multiple_of(store.columns()) {
            Some("the tile's columns must be a multiple of the store's columns")
        } else if !parts.is_multiple_of(store.slots()) {
            Some(
                "the store's slots must divide the tile's parts, because the parts use them in turn",
            )
        } else {
            None
        };
        if let Some(why) = why {
            let operand = format!("{columns} columns in parts of {}", store.columns());
            let kind = TensorErrorKind::TmaTile { why };
            k.report(TensorError { operation: "OverlappedStore", operand, kind });
        }
        let kept = k.registers(store.words_of_columns(columns).max(1));
        kept.fill(0);
        OverlappedStore { store, kept, parts }
    }

    /// Returns how many parts a tile is stored in. A tile's main loop must store them all.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Returns the origin that stands for no tile, with which the loop over tiles starts.
    #[track_caller]
    pub fn nothing(&self) -> [Val<'b, i32>; 3] {
        let k = &self.store.row.body();
        [k.constant(-1), k.constant(0), k.constant(0)]
    }

    /// Stores some parts of the tile that is kept, which is at (row, column, matrix) `origin`. Does
    /// nothing if there is no tile yet. All threads of the warp group must call it together.
    #[track_caller]
    pub fn store(&self, origin: [Val<'b, i32>; 3], parts: Range<u32>) {
        let k = &mut self.store.row.body();
        let _call = k.call();
        let k = &mut k.rescoped();
        k.if_(origin[0].ge(0), |_| {
            for part in parts {
                self.store.part(origin, &self.kept, part);
            }
        });
    }

    /// Keeps a finished tile, each accumulator passed through `map`, and returns its `origin`. The
    /// accumulators are free again afterwards.
    #[track_caller]
    pub fn keep(
        &self,
        acc: &RegisterTensor<'b, f32>,
        origin: [Val<'b, i32>; 3],
        map: &impl AccumulatorMap<'b>,
    ) -> [Val<'b, i32>; 3] {
        self.store.keep(acc, origin, &self.kept, map);
        origin
    }

    /// Stores the last tile and waits until TMA has read it. Call it once, after the loop over
    /// tiles.
    #[track_caller]
    pub fn finish(&self, last: [Val<'b, i32>; 3]) {
        self.store(last, 0..self.parts);
        self.store.finish();
    }
}
