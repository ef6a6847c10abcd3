//! [`StagedStore`]: an epilogue that stores `wgmma` accumulators through shared memory and TMA. Use
//! it at the end of an `sm_90` GEMM, because direct stores of accumulators are not coalesced.

use crate::arch::{Major, TensorMapDesc};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, NamedBarrier, Shared, Val};
use crate::layout::{ComposedLayout, IntTuple, Layout, shape, tiler};

use super::global_rows::SharedRows;
use super::thr_store::{StoreDestination, ThrStore};
use super::tma::TmaCopy;
use crate::tensor::atom::{SmemAtom, SmemSwizzle};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// Stores a warp group's `wgmma` accumulators to a matrix: 64 rows and some columns at a time go to
/// a slot of shared memory, with `stmatrix` for 16-bit elements, and from there to global memory
/// with one TMA store. Slots are used in turn, and each store waits only until its slot has been
/// read.
///
/// This is the usual epilogue for `sm_90`. It costs shared memory for the slots, but writes whole
/// lines and leaves the address work to TMA. If TMA cannot write the matrix, choose
/// [`StoreDestination::Rows`] and [`by_threads`](StagedStore::by_threads).
///
/// A slot whose rows have 128 bytes uses the 128-byte swizzle. Other slots are not swizzled; they
/// have no bank conflicts if a row consists of an odd number of 16-byte units.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::tensor::copy::StagedStore;
///
/// let store = StagedStore::new(Scalar::Bf16, 64, 2)?;
/// assert_eq!(store.slot().to_string(), "S<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))");
/// assert_eq!(store.elements(), 2 * 64 * 64);
/// assert_eq!(StagedStore::new(Scalar::Bf16, 200, 1)?.slot().to_string(), "(64,200):(200,1)");
/// # Ok::<(), tilewright::tensor::TensorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedStore {
    pub(super) elem: Scalar,
    pub(super) columns: u32,
    pub(super) slots: u32,
    pub(super) swizzled: bool,
    /// Accumulators of two adjacent columns form one element.
    pub(super) pairs: bool,
    /// Accumulator rows are columns of the matrix.
    pub(super) transposed: bool,
    /// How many of the 64 accumulator rows go to global memory.
    pub(super) rows: u32,
    /// The slot's row pitch in elements, if it is not swizzled.
    pub(super) pitch: u32,
    slot: ComposedLayout,
    pub(super) copy: TmaCopy,
}

impl StagedStore {
    /// Makes a store of 64 rows and `columns` columns of type `elem`, with up to `slots` stores in
    /// flight.
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`] if rows are not multiples of 16 bytes and 8 columns, or have
    /// more than 256 elements; if elements are not `f32`, `f16`, `bf16`, 8-bit floats, `i32` or
    /// 8-bit integers; or if there are no slots.
    #[inline]
    pub fn new(elem: Scalar, columns: u32, slots: u32) -> Result<StagedStore, TensorError> {
        StagedStore::of_rows(elem, 64, columns, slots)
    }

    /// Like [`new`](StagedStore::new), but only the first `rows` of each 64 rows go to global
    /// memory, for tiles with fewer rows than a `wgmma`.
    ///
    /// # Errors
    /// Those of [`new`](StagedStore::new); `rows` is not a multiple of 8 from 8 to 64.
    #[inline]
    pub fn of_rows(
        elem: Scalar,
        rows: u32,
        columns: u32,
        slots: u32,
    ) -> Result<StagedStore, TensorError> {
        let error = |kind| TensorError {
            operation: "make_staged_store",
            operand: format!("{elem} o ({rows},{columns})"),
            kind,
        };
        if !(8..=64).contains(&rows) || !rows.is_multiple_of(8) {
            let why = "a store must have a multiple of 8 rows from 8 to 64";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        if !Self::takes(elem) {
            return Err(error(TensorErrorKind::TmaTile {
                why: "accumulators can be stored as f32, f16, bf16, i32, or 8-bit floats or integers",
            }));
        }
        if columns == 0 || !columns.is_multiple_of(8) || slots == 0 {
            let why = "a store must have at least one slot, and a positive multiple of 8 columns";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        let swizzled = columns * elem.size_bytes() == 128;
        let slot = if swizzled {
            let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128);
            let atom = atom.position_independent(elem.bits()).map_err(|e| match e {
                crate::tensor::atom::AtomError::Layout(e) => error(e.into()),
                _ => error(TensorErrorKind::TmaTile {
                    why: "the swizzle does not support elements of this width",
                }),
            })?;
            atom.tile_to_shape(&shape!(64, columns), None).map_err(|e| error(e.into()))?
        } else {
            Layout::row_major((64, columns)).into()
        };
        let outer = slot.outer_layout().and_then(|slot| slot.composition(&tiler!(rows, columns)));
        let outer = outer.map_err(|e| error(e.into()))?;
        // The third mode is the batch.
        let batched = outer.append_to(3, &Layout::trivial()).map_err(|e| error(e.into()))?;
        let batched =
            ComposedLayout::new(slot.swizzle_portion(), 0, batched).map_err(|e| error(e.into()))?;
        let copy = TmaCopy::new(elem, &batched)?;
        Ok(StagedStore {
            elem,
            columns,
            slots,
            swizzled,
            pairs: false,
            transposed: false,
            rows,
            pitch: columns,
            slot,
            copy,
        })
    }

    /// Returns whether accumulators can be stored as `elem`. An `i32` travels bit-cast in an
    /// accumulator.
    pub(crate) const fn takes(elem: Scalar) -> bool {
        use Scalar as S;
        matches!(elem, S::F32 | S::F16 | S::Bf16 | S::F8E4M3 | S::F8E5M2 | S::I8 | S::U8 | S::I32)
    }

    /// Makes a store of transposed accumulators: 64 rows and `columns` columns of accumulators
    /// become `columns` rows and 64 columns of the matrix. They go to shared memory in the 128-byte
    /// swizzle, with `stmatrix.trans`. Use it when A and B are exchanged.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::tensor::copy::StagedStore;
    ///
    /// let store = StagedStore::transposed(Scalar::F16, 24, 1)?;
    /// assert_eq!(store.slot().to_string(), "S<3,3,3> o 0 o ((8,3),(64,1)):((64,512),(1,0))");
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`] if elements do not have 16 bits, if `columns` is not a multiple
    /// of 8 from 8 to 256, or if there are no slots.
    #[inline]
    pub fn transposed(elem: Scalar, columns: u32, slots: u32) -> Result<StagedStore, TensorError> {
        let error = |kind| TensorError {
            operation: "make_staged_store",
            operand: format!("{elem} o ({columns},64)"),
            kind,
        };
        if !matches!(elem, Scalar::F16 | Scalar::Bf16) {
            let why = "only f16 and bf16 can be stored transposed";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        if columns == 0 || !columns.is_multiple_of(8) || slots == 0 {
            let why = "a store must have at least one slot, and a positive multiple of 8 columns";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128);
        let atom = atom.position_independent(elem.bits()).map_err(|e| match e {
            crate::tensor::atom::AtomError::Layout(e) => error(e.into()),
            _ => error(TensorErrorKind::TmaTile {
                why: "the swizzle does not support elements of this width",
            }),
        })?;
        let tile = |shape: IntTuple| atom.tile_to_shape(&shape, None).map_err(|e| error(e.into()));
        // The third mode is the batch.
        let copy = TmaCopy::new(elem, &tile(shape!(columns, 64, 1))?)?;
        let slot = tile(shape!(columns, 64))?;
        Ok(StagedStore {
            elem,
            columns,
            slots,
            swizzled: true,
            pairs: false,
            transposed: true,
            rows: 64,
            pitch: 64,
            slot,
            copy,
        })
    }

    /// Combines the accumulators of columns `2 j` and `2 j + 1` into column `j` of the matrix, with
    /// [`AccumulatorMap::apply_pair`](super::AccumulatorMap::apply_pair), for example for a gated
    /// activation. The store's columns count the matrix's columns, not the accumulators'.
    ///
    /// A thread then holds single elements of a row and writes them to shared memory one by one.
    /// Transposed stores cannot do it, because no thread has both columns.
    pub fn of_pairs(self) -> StagedStore {
        StagedStore { pairs: true, ..self }
    }

    /// Accumulators per element.
    pub(super) fn sums(&self) -> u32 {
        if self.pairs { 2 } else { 1 }
    }

    /// Prepares the store for [`StoreDestination::Rows`], where threads write the rows instead of
    /// TMA. Pads rows in shared memory to an odd number of 16-byte units, which avoids bank
    /// conflicts.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::tensor::copy::StagedStore;
    ///
    /// let store = StagedStore::new(Scalar::Bf16, 128, 1)?.by_threads()?;
    /// assert_eq!(store.slot().to_string(), "(64,128):(136,1)");
    /// assert_eq!(store.elements(), 64 * 136);
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorErrorKind::Layout`] if a slot is too large.
    #[inline]
    pub fn by_threads(self) -> Result<StagedStore, TensorError> {
        let units = self.columns * self.elem.size_bytes() / 16;
        if self.swizzled || units % 2 == 1 {
            return Ok(self);
        }
        let pitch = self.columns + 16 / self.elem.size_bytes();
        let slot = Layout::new((64, self.columns), (i64::from(pitch), 1));
        let slot = slot.map_err(|error| TensorError {
            operation: "make_staged_store",
            operand: format!("{} o (64,{})", self.elem, self.columns),
            kind: error.into(),
        })?;
        Ok(StagedStore { pitch, slot: slot.into(), ..self })
    }

    /// Returns the layout of 64 accumulator rows in shared memory: one of the store's slots. A copy
    /// of your own between slot and memory needs it.
    pub fn slot(&self) -> &ComposedLayout {
        &self.slot
    }

    /// Returns how many columns one store covers. An epilogue steps through the tile's columns by
    /// it.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Returns how many elements of shared memory to allocate per warp group as staging memory.
    pub fn elements(&self) -> u32 {
        self.slots * self.slot_elements()
    }

    /// The matrix rows in a slot.
    pub(super) fn shared_rows<'b, T: Element>(
        &self,
        from: Val<'b, Shared<T>>,
    ) -> SharedRows<'b, T> {
        let StagedStore { columns, rows, pitch, swizzled, .. } = *self;
        let (rows, columns) = if self.transposed { (columns, rows) } else { (rows, columns) };
        SharedRows { from, rows, columns, pitch, swizzled }
    }

    pub(super) fn slot_elements(&self) -> u32 {
        64 * if self.transposed { self.columns } else { self.pitch }
    }

    /// Makes the tensor map of a (row, column, matrix) tensor that is contiguous along columns. The
    /// kernel gets the map as a parameter and passes it to [`slice`](StagedStore::slice).
    ///
    /// # Errors
    /// Those of [`TmaCopy::desc`].
    #[inline]
    pub fn desc(&self, tensor: &Layout) -> Result<TensorMapDesc, TensorError> {
        self.copy.desc(tensor)
    }

    /// Returns one thread's part of the epilogue, a [`ThrStore`], with which the thread stores its
    /// accumulators to `to`, for example to a tensor map by TMA, or to [`StoreDestination::Rows`]
    /// without TMA. `staging` is the warp group's shared memory,
    /// [`elements`](StagedStore::elements) long, aligned to 1024 bytes (128 without a swizzle).
    /// `thread` is the index in the group, and `barrier` a named barrier that only this group uses.
    /// Call it once per thread, before the loop over tiles.
    #[track_caller]
    pub fn slice<'s, 'b, T: Element>(
        &'s self,
        k: &Body<'b, '_>,
        to: impl Into<StoreDestination<'b, T>>,
        staging: Val<'b, Shared<T>>,
        thread: Val<'b, i32>,
        barrier: NamedBarrier<'b>,
    ) -> ThrStore<'s, 'b, T> {
        let to = to.into();
        if T::scalar() != self.elem {
            let expected = self.elem.to_string();
            let kind = TensorErrorKind::ElementType { operand: "D", found: T::scalar(), expected };
            k.report(TensorError { operation: "slice", operand: format!("{:?}", self.copy), kind });
        }
        let lane = k.lane_id();
        if self.transposed && self.pairs {
            let kind = TensorErrorKind::TmaTile { why: "column pairs cannot be stored transposed" };
            k.report(TensorError { operation: "slice", operand: format!("{:?}", self.copy), kind });
        }
        if self.transposed {
            // Matrices come in the order of the words: two along a warp's 16 rows, then those of
            // the next 8 columns.
            let row = (lane / 16 * 8 + lane % 8) * 64;
            let unit = (thread / 32 * 2 + lane / 8 % 2) ^ (lane % 8);
            return ThrStore { store: self, to, staging, row, unit, lane, thread, barrier };
        }
        let warp = thread / 32 * 16;
        // For `stmatrix`, lanes 0 to 15 address rows of the first 8 columns, the others those of
        // the next 8. In 32-bit stores, four lanes per row hold two columns each (8 bytes). In
        // other stores they hold less than 8 bytes.
        let (row, unit) = match (self.pairs, self.elem.bits()) {
            (false, 16) => (warp + lane % 16, lane / 16),
            (false, 32) => (warp + lane / 4, lane % 4 / 2),
            _ => (warp + lane / 4, k.constant(0)),
        };
        let unit = if self.swizzled { unit ^ (row & 7) } else { unit };
        ThrStore { store: self, to, staging, row: row * self.pitch, unit, lane, thread, barrier }
    }
}
