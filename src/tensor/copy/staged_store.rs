//! [`StagedStore`]: accumulators of a warp group to global memory, through shared memory and tensor copies.

use crate::arch::{Major, TensorMapDesc};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, NamedBarrier, Shared, Val};
use crate::layout::{ComposedLayout, IntTuple, Layout, shape, tiler};

use super::global_rows::SharedRows;
use super::thr_store::{StoreDestination, ThrStore};
use super::tma::TmaCopy;
use crate::tensor::atom::{SmemAtom, SmemSwizzle};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// The store of rows of a matrix from the accumulators of `wgmma` by a warp group: 64 rows and some columns at a time go to shared
/// memory, by `stmatrix` where elements have 16 bits, and from there by one tensor copy. The stores use slots
/// cyclically: each waits only for the copy that used its slot before.
///
/// Columns of 128 bytes are in the swizzle of 128 bytes, all others as they are: they meet no bank twice where the
/// number of 16-byte units in a row is odd.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::tensor::StagedStore;
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
    /// Accumulators of two neighbouring columns are one element.
    pub(super) pairs: bool,
    /// The rows of the accumulators are columns of the matrix.
    pub(super) transposed: bool,
    /// The rows of 64 rows of accumulators that go to global memory.
    pub(super) rows: u32,
    /// Elements from a row of the slot to the next one, where it is not swizzled.
    pub(super) pitch: u32,
    slot: ComposedLayout,
    pub(super) copy: TmaCopy,
}

impl StagedStore {
    /// Stores of 64 rows of `columns` columns of elements of type `elem`, with at most `slots` in flight at a time.
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`]: rows are no multiples of 16 bytes and 8 columns, or longer than 256 elements;
    /// elements are neither `f32`, `f16`, `bf16` or floats of 8 bits nor `i32` or integers of 8 bits.
    #[inline]
    pub fn new(elem: Scalar, columns: u32, slots: u32) -> Result<StagedStore, TensorError> {
        StagedStore::of_rows(elem, 64, columns, slots)
    }

    /// As [`new`](StagedStore::new), where the first `rows` of each 64 rows alone go to global memory: those of tiles that
    /// are lower than an instruction.
    ///
    /// # Errors
    /// Those of [`new`](StagedStore::new); `rows` is no multiple of 8, or is above 64.
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
            let why = "a store has 8 to 64 rows, in groups of 8";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        if !Self::takes(elem) {
            return Err(error(TensorErrorKind::TmaTile {
                why: "accumulators are stored as f32, f16, bf16, floats or integers of 8 bits, or i32",
            }));
        }
        if columns == 0 || !columns.is_multiple_of(8) || slots == 0 {
            let why = "a store has some slots, and columns in groups of 8";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        let swizzled = columns * elem.size_bytes() == 128;
        let slot = if swizzled {
            let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128);
            let atom = atom.position_independent(elem.bits()).map_err(|e| match e {
                crate::tensor::atom::AtomError::Layout(e) => error(e.into()),
                _ => error(TensorErrorKind::TmaTile { why: "the swizzle has no such elements" }),
            })?;
            atom.tile_to_shape(&shape!(64, columns), None).map_err(|e| error(e.into()))?
        } else {
            Layout::row_major((64, columns)).into()
        };
        let outer = slot.outer_layout().and_then(|slot| slot.composition(&tiler!(rows, columns)));
        let outer = outer.map_err(|e| error(e.into()))?;
        // The third mode counts matrices of a batch.
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

    /// Returns whether accumulators can be stored as such elements. An `i32` has its bits in an accumulator.
    pub(crate) const fn takes(elem: Scalar) -> bool {
        use Scalar as S;
        matches!(elem, S::F32 | S::F16 | S::Bf16 | S::F8E4M3 | S::F8E5M2 | S::I8 | S::U8 | S::I32)
    }

    /// Stores of transposed accumulators: 64 rows and `columns` columns of them are `columns` rows and 64 columns of the
    /// matrix, which go to shared memory in the swizzle of 128 bytes by `stmatrix.trans`.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::tensor::StagedStore;
    ///
    /// let store = StagedStore::transposed(Scalar::F16, 24, 1)?;
    /// assert_eq!(store.slot().to_string(), "S<3,3,3> o 0 o ((8,3),(64,1)):((64,512),(1,0))");
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorErrorKind::TmaTile`]: elements are not of 16 bits, or columns are not 8 to 256 in groups of 8.
    #[inline]
    pub fn transposed(elem: Scalar, columns: u32, slots: u32) -> Result<StagedStore, TensorError> {
        let error = |kind| TensorError {
            operation: "make_staged_store",
            operand: format!("{elem} o ({columns},64)"),
            kind,
        };
        if !matches!(elem, Scalar::F16 | Scalar::Bf16) {
            let why = "accumulators are stored transposed as f16 or bf16";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        if columns == 0 || !columns.is_multiple_of(8) || slots == 0 {
            let why = "a store has some slots, and columns in groups of 8";
            return Err(error(TensorErrorKind::TmaTile { why }));
        }
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128);
        let atom = atom.position_independent(elem.bits()).map_err(|e| match e {
            crate::tensor::atom::AtomError::Layout(e) => error(e.into()),
            _ => error(TensorErrorKind::TmaTile { why: "the swizzle has no such elements" }),
        })?;
        let tile = |shape: IntTuple| atom.tile_to_shape(&shape, None).map_err(|e| error(e.into()));
        // The third mode counts matrices of a batch.
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

    /// The same where the accumulators of the columns `2 j` and `2 j + 1` become column `j` of the matrix, by
    /// [`AccumulatorMap::apply_pair`](super::AccumulatorMap::apply_pair). Columns of the store are those of the matrix. It
    /// has no transposed form: there, no thread has both columns.
    ///
    /// A thread then has single elements of a row, which it writes to shared memory one by one.
    pub fn of_pairs(self) -> StagedStore {
        StagedStore { pairs: true, ..self }
    }

    /// Accumulators of an element.
    pub(super) fn sums(&self) -> u32 {
        if self.pairs { 2 } else { 1 }
    }

    /// The same where threads store the rows ([`StoreDestination::Rows`]), not tensor copies. Rows in shared memory
    /// then have an odd number of 16-byte units, and meet no bank twice.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::tensor::StagedStore;
    ///
    /// let store = StagedStore::new(Scalar::Bf16, 128, 1)?.by_threads()?;
    /// assert_eq!(store.slot().to_string(), "(64,128):(136,1)");
    /// assert_eq!(store.elements(), 64 * 136);
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorErrorKind::Layout`]: a slot is too large.
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

    /// The layout of 64 rows of accumulators in shared memory.
    pub fn slot(&self) -> &ComposedLayout {
        &self.slot
    }

    /// Columns of the accumulators of one store.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Elements of shared memory of a warp group.
    pub fn elements(&self) -> u32 {
        self.slots * self.slot_elements()
    }

    /// The rows of the matrix in a slot.
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

    /// The map of a tensor (row, column, matrix), which is contiguous along columns.
    ///
    /// # Errors
    /// As for [`TmaCopy::desc`].
    #[inline]
    pub fn desc(&self, tensor: &Layout) -> Result<TensorMapDesc, TensorError> {
        self.copy.desc(tensor)
    }

    /// The part of a thread of a warp group, in a store to matrices of a tensor map or to rows that may lie anywhere. `staging` are the group's elements of shared memory, at a multiple of 1024
    /// bytes (of 128 where there is no swizzle); `thread` is the thread in the group; `barrier` is a named barrier that the group
    /// has for itself.
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
            let kind = TensorErrorKind::TmaTile { why: "pairs of columns are not transposed" };
            k.report(TensorError { operation: "slice", operand: format!("{:?}", self.copy), kind });
        }
        if self.transposed {
            // Matrices come in the order of the words: two along the 16 rows of a warp, then those of the next 8 columns.
            let row = (lane / 16 * 8 + lane % 8) * 64;
            let unit = (thread / 32 * 2 + lane / 8 % 2) ^ (lane % 8);
            return ThrStore { store: self, to, staging, row, unit, lane, thread, barrier };
        }
        let warp = thread / 32 * 16;
        // Of `stmatrix`, lanes 0 to 15 give rows of the first 8 columns, the others of the next ones. Of stores of 32
        // bits, four lanes in a row have two columns each: 8 bytes. Of other stores they have less than 8 bytes.
        let (row, unit) = match (self.pairs, self.elem.bits()) {
            (false, 16) => (warp + lane % 16, lane / 16),
            (false, 32) => (warp + lane / 4, lane % 4 / 2),
            _ => (warp + lane / 4, k.constant(0)),
        };
        let unit = if self.swizzled { unit ^ (row & 7) } else { unit };
        ThrStore { store: self, to, staging, row: row * self.pitch, unit, lane, thread, barrier }
    }
}
