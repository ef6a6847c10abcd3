//! [`RowPartition`]: one thread's share of a matrix row that several threads hold together. Kernels
//! that need whole rows, such as softmax and norms, load, reduce and store through it.

use crate::ir::builder::{AnyVector, Arithmetic, Converted, VectorElement};
use crate::ir::op::LoadAccess;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, GlobalMut, Pointer, Val, Vector, bf16, f16};

use super::combine::tree;
use super::row_tile::{RowAccess, RowTile};

/// A pointer to a row in global memory: [`Global`] or [`GlobalMut`]. You name it only as a bound,
/// in kernels that load from either.
pub trait RowPointer: Pointer<Elem: Converted> {
    /// The same pointer to 32-bit words, through which vectors are loaded.
    type Words: Pointer<Elem = u32>;
    /// Returns how to load: `ld.global.nc` if the kernel only reads the memory.
    fn access() -> LoadAccess;
    /// Casts the pointer to words.
    fn words(pointer: Val<'_, Self>) -> Val<'_, Self::Words>;
}

impl<T: Converted> RowPointer for Global<T> {
    type Words = Global<u32>;
    fn access() -> LoadAccess {
        LoadAccess::default().non_coherent()
    }
    #[track_caller]
    fn words(pointer: Val<'_, Self>) -> Val<'_, Global<u32>> {
        pointer.ptr_cast()
    }
}

impl<T: Converted> RowPointer for GlobalMut<T> {
    type Words = GlobalMut<u32>;
    fn access() -> LoadAccess {
        LoadAccess::default()
    }
    #[track_caller]
    fn words(pointer: Val<'_, Self>) -> Val<'_, GlobalMut<u32>> {
        pointer.ptr_cast()
    }
}

/// One thread's share of a row: some vectors and, in a ragged row, single elements at its ends.
/// Made by [`RowTile::part`].
///
/// It loads and stores the row, reduces over the threads that share it, and tells you which columns
/// the thread holds. Values are always in the same order: first the vectors' elements, then the
/// single elements. [`load`](RowPartition::load) returns them like that and
/// [`store`](RowPartition::store) expects them like that.
#[derive(Clone, Copy, Debug)]
pub struct RowPartition<'b> {
    pub(super) tile: RowTile,
    /// Elements per vector.
    pub(super) vector: u32,
    /// The indices of the thread's first vector, and of its first single element at the ends.
    pub(super) thread: Val<'b, i32>,
    pub(super) end_thread: Val<'b, i32>,
    /// Elements before the first vector; only in a ragged row.
    pub(super) head: Option<Val<'b, i32>>,
    /// Vectors in the row.
    pub(super) vectors: Val<'b, i32>,
    pub(super) columns: Val<'b, i32>,
}

/// One thread's elements of a row, as they are in memory. Two 16-bit elements share a register, so
/// it takes half as many registers as the converted values; convert late with
/// [`iter_f32`](RowFragment::iter_f32).
#[derive(Clone, Debug)]
pub struct RowFragment<'b, T> {
    pub(crate) vectors: Vec<Val<'b, Vector<u32, 4>>>,
    pub(crate) singles: Vec<Val<'b, T>>,
}

impl<'b, T: Converted> RowFragment<'b, T> {
    /// Converts all elements to `f32` at once, in the order of [`RowPartition`]. If you go through
    /// them only once, [`iter_f32`](RowFragment::iter_f32) needs fewer registers. Use it if several
    /// passes go through the converted values.
    #[track_caller]
    pub fn to_f32(&self) -> Vec<Val<'b, f32>> {
        self.iter_f32().collect()
    }

    /// Iterates over the elements as `f32`; each vector is converted when the iterator reaches it.
    /// Use it for a single pass, for example a sum.
    pub fn iter_f32(&self) -> impl Iterator<Item = Val<'b, f32>> {
        let vectors = self.vectors.iter().flat_map(|vector| lanes_of::<T>(*vector));
        vectors.chain(self.singles.iter().copied()).map(|value| value.cvt::<f32>())
    }

    /// Adds another row's elements, and rounds the sums to `T`, for example to add a residual
    /// before a norm.
    #[track_caller]
    pub fn plus(&self, other: &Self) -> Self
    where
        T: VectorElement<2>,
    {
        let sums = |a: Vec<Val<'b, T>>, b: Vec<Val<'b, T>>| {
            a.into_iter().zip(b).map(|(a, b)| a.cvt::<f32>() + b.cvt::<f32>()).collect::<Vec<_>>()
        };
        let vectors = self.vectors.iter().zip(&other.vectors).filter_map(|(a, b)| {
            let words = pack::<T>(&sums(lanes_of(*a), lanes_of(*b)))?.values::<u32>()?;
            words.try_into().ok().map(Val::<Vector<u32, 4>>::pack)
        });
        let singles = self.singles.iter().zip(&other.singles);
        let singles = singles.map(|(a, b)| (a.cvt::<f32>() + b.cvt::<f32>()).cvt::<T>());
        RowFragment { vectors: vectors.collect(), singles: singles.collect() }
    }

    /// Returns the maximum of the elements and `lowest`, which must not be NaN. 16-bit elements are
    /// compared in pairs. Use it for the thread's part of a row maximum, with negative infinity as
    /// `lowest`.
    #[track_caller]
    pub fn max(&self, lowest: Val<'b, f32>) -> Val<'b, f32> {
        let words = || self.vectors.iter().flat_map(|vector| vector.lanes());
        let singles = self.singles.iter().copied().map(|value| value.cvt::<f32>());
        let mut values: Vec<_> = match T::scalar() {
            Scalar::Bf16 => largest_pair::<bf16>(words()),
            Scalar::F16 => largest_pair::<f16>(words()),
            _ => self
                .vectors
                .iter()
                .flat_map(|vector| lanes_of::<T>(*vector))
                .map(|value| value.cvt())
                .collect(),
        };
        values.extend(singles);
        tree(lowest, &values, |a, b| a.max(b)).max(lowest)
    }
}

/// Returns the elements of a 16-byte vector.
#[track_caller]
pub(super) fn lanes_of<'b, T: Element>(vector: Val<'b, Vector<u32, 4>>) -> Vec<Val<'b, T>> {
    AnyVector::from(vector).values::<T>().unwrap_or_default()
}

/// Returns the maxima of the pairs' first and second elements.
#[track_caller]
fn largest_pair<'b, T>(words: impl Iterator<Item = Val<'b, u32>>) -> Vec<Val<'b, f32>>
where
    T: VectorElement<2> + Converted,
    Vector<T, 2>: Arithmetic,
{
    let pairs = words.map(|word| word.bitcast::<Vector<T, 2>>());
    let largest = pairs.reduce(|a, b| a.max(b));
    largest.into_iter().flat_map(|pair| pair.lanes()).map(|value| value.cvt::<f32>()).collect()
}

impl<'b> RowPartition<'b> {
    #[track_caller]
    pub(super) fn new(
        k: &Body<'b, '_>,
        tile: RowTile,
        vector: u32,
        thread: Val<'b, i32>,
        start: Val<'b, i64>,
        columns: Val<'b, i32>,
    ) -> Self {
        let lanes = vector as i32;
        match tile.access {
            RowAccess::Aligned | RowAccess::Elements => {
                let (end_thread, vectors) = (thread, columns / lanes);
                RowPartition { tile, vector, thread, end_thread, head: None, vectors, columns }
            }
            RowAccess::Ragged => {
                let ahead = (k.constant(0) - start.cvt::<i32>()) & (lanes - 1);
                let head = ahead.min(columns);
                let vectors = (columns - head) / lanes;
                let (end_thread, head) = (thread, Some(head));
                RowPartition { tile, vector, thread, end_thread, head, vectors, columns }
            }
        }
    }

    /// Returns how many times the threads must go through their registers to cover the row: 1 if
    /// the row fits into the tile's [capacity](RowTile::capacity), else more. Use it as the bound
    /// of a loop over [`step`](RowPartition::step).
    #[track_caller]
    pub fn steps(&self) -> Val<'b, i32> {
        let at_once = (self.tile.sharers() * self.tile.vectors) as i32;
        ((self.vectors + (at_once - 1)) / at_once).max(1)
    }

    /// Returns the thread's share in step `number`, which must be below
    /// [`steps`](RowPartition::steps). The single elements at the row's ends belong to step 0,
    /// which is `self`. Loop over the steps once per pass, for example once for the maximum and
    /// once for the sum.
    #[track_caller]
    pub fn step(&self, number: Val<'b, i32>) -> RowPartition<'b> {
        let at_once = (self.tile.sharers() * self.tile.vectors) as i32;
        // From index `4 * vector` on, a thread has no single elements, not even in a row copy.
        let end_thread = number.eq(0).select(self.end_thread, 4 * self.vector as i32);
        RowPartition { thread: self.thread + number * at_once, end_thread, ..*self }
    }

    /// Returns the same share if `holds`, else that of an empty row.
    #[track_caller]
    pub(crate) fn only_if(&self, holds: Val<'b, bool>) -> RowPartition<'b> {
        let [vectors, columns] = [self.vectors, self.columns].map(|count| holds.select(count, 0));
        RowPartition { vectors, columns, ..*self }
    }

    /// Returns whether this is the leader, the first thread that shares the row: the one to store
    /// the row's result.
    ///
    /// Blocks beyond the last row have leaders too, so also compare [`RowTile::row`] with the row
    /// count.
    #[track_caller]
    pub fn is_leader(&self) -> Val<'b, bool> {
        let k = &self.columns.body();
        self.tile.thread(k).eq(0)
    }

    /// Returns how many single elements the thread has.
    pub(super) fn end_count(&self) -> u32 {
        if self.head.is_some() { (2 * self.vector).div_ceil(self.tile.sharers()) } else { 0 }
    }

    /// Returns whether the thread's vector `number` exists.
    #[track_caller]
    pub(super) fn has_vector(&self, number: u32) -> Val<'b, bool> {
        (self.thread + (number * self.tile.sharers()) as i32).lt(self.vectors)
    }

    /// Returns the first column of the thread's first vector.
    #[track_caller]
    pub(crate) fn first_column(&self) -> Val<'b, i32> {
        let column = self.thread * self.vector as i32;
        self.head.map_or(column, |head| head + column)
    }

    /// Returns the column after the row's vectors.
    #[track_caller]
    pub(crate) fn vector_end(&self) -> Val<'b, i32> {
        let end = self.vectors * self.vector as i32;
        self.head.map_or(end, |head| head + end)
    }

    /// Returns the distance in elements between the thread's vectors.
    pub(crate) fn stride(&self) -> i32 {
        (self.tile.sharers() * self.vector) as i32
    }

    /// Returns the column of the thread's single element `number`, and whether the row has it. The
    /// first threads hold the row's first elements, the following ones its last elements.
    #[track_caller]
    #[inline]
    fn end(&self, number: u32) -> (Val<'b, i32>, Val<'b, bool>) {
        let lanes = self.vector as i32;
        let at = self.end_thread + (number * self.tile.sharers()) as i32;
        let head = self.head.unwrap_or(at);
        let column = at.lt(lanes).select(at, at + (head + (self.vectors - 1) * lanes));
        (column, at.lt(lanes).select(at.lt(head), column.lt(self.columns)))
    }

    /// Returns the columns of the thread's single elements, each with whether the row has it.
    #[track_caller]
    #[inline]
    pub(crate) fn ends(&self) -> Vec<(Val<'b, i32>, Val<'b, bool>)> {
        (0..self.end_count()).map(|number| self.end(number)).collect()
    }

    /// Returns the column of each of the thread's elements, in the order of
    /// [`load`](RowPartition::load), for example to find an argmax or to mask columns.
    #[track_caller]
    #[inline]
    pub fn columns(&self) -> Vec<Val<'b, i32>> {
        let first = self.first_column();
        let vectors = (0..self.tile.vectors as i32).flat_map(|number| {
            (0..self.vector as i32).map(move |lane| first + (number * self.stride() + lane))
        });
        vectors.chain((0..self.end_count()).map(|number| self.end(number).0)).collect()
    }

    /// Returns `value` for each of the thread's elements that the row has, and `fill` for the
    /// others, in the order of [`load`](RowPartition::load). For example, 1 and 0 let a sum count
    /// elements.
    #[track_caller]
    #[inline]
    pub fn where_present(&self, value: Val<'b, f32>, fill: f32) -> Vec<Val<'b, f32>> {
        let lanes = self.vector as usize;
        let vectors = (0..self.tile.vectors).flat_map(|number| {
            let value = self.has_vector(number).select::<f32>(value, fill);
            std::iter::repeat_n(value, lanes)
        });
        let ends = self.ends().into_iter().map(|(_, has)| has.select::<f32>(value, fill));
        vectors.chain(ends).collect()
    }

    /// Loads the thread's share of the row that starts at `*row` and converts it to `f32`. Where
    /// the share reaches beyond the row, values become `fill`. Pick it for a single pass over the
    /// values; [`load_elements`](RowPartition::load_elements) needs fewer registers.
    #[track_caller]
    pub fn load<P: RowPointer>(&self, row: Val<'b, P>, fill: f32) -> Vec<Val<'b, f32>> {
        self.load_elements(row, fill).to_f32()
    }

    /// Loads the thread's share of a row and keeps the elements as they are in memory. `row` points
    /// to the row's first element (column 0) in all threads that share it, for example
    /// `x.offset(start)`. Where the share reaches beyond the row, elements become `fill`: choose
    /// one that does not change the result, for example 0 for a sum and negative infinity for a
    /// maximum.
    ///
    /// Prefer this to [`load`](RowPartition::load) if you need the elements more than once, for
    /// example in softmax for the maximum, the sum and the result: until you convert them, two
    /// 16-bit elements share a register. All loads are issued before any value is used.
    #[track_caller]
    pub fn load_elements<P: RowPointer>(
        &self,
        row: Val<'b, P>,
        fill: f32,
    ) -> RowFragment<'b, P::Elem> {
        let k = &mut self.columns.body();
        let _call = k.call();
        let mut elements = self.load_inner(k, row, fill, P::access());
        elements.singles.extend(self.load_ends(k, row, fill).singles);
        elements
    }

    /// Loads the thread's elements except those at a ragged row's ends.
    #[track_caller]
    pub(crate) fn load_inner<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
        fill: f32,
        access: LoadAccess,
    ) -> RowFragment<'b, P::Elem> {
        let first = row.offset(self.first_column());
        if self.vector == 1 {
            let fill = k.constant(narrow::<P::Elem>(fill));
            let values: Vec<Val<'b, P::Elem>> = (0..self.tile.vectors)
                .map(|number| {
                    let at = number as i32 * self.stride();
                    k.if_with(self.has_vector(number), fill, |_| first.load_with(at, access))
                })
                .collect();
            return RowFragment { vectors: Vec::new(), singles: values };
        }
        let (first, words) = (P::words(first), filled(k, narrow::<P::Elem>(fill)));
        let load = |number| self.load_vector::<P>(k, first, number, words, access);
        let vectors = (0..self.tile.vectors).map(load).collect();
        RowFragment { vectors, singles: Vec::new() }
    }

    /// Loads the thread's vector `number`; `first` points to its first vector.
    #[track_caller]
    pub(super) fn load_vector<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        first: Val<'b, P::Words>,
        number: u32,
        fill: Val<'b, Vector<u32, 4>>,
        access: LoadAccess,
    ) -> Val<'b, Vector<u32, 4>> {
        let (at, k) = (self.word::<P::Elem>(number), &mut k.rescoped());
        k.if_with(self.has_vector(number), fill, |_| first.load_vector_with::<4>(at, access))
    }

    /// Returns the distance in words from the thread's first vector to its vector `number`.
    pub(super) fn word<T: Element>(&self, number: u32) -> i32 {
        number as i32 * self.stride() / (32 / T::scalar().bits() as i32)
    }

    /// Loads the thread's single elements at the row's ends.
    #[track_caller]
    pub(crate) fn load_ends<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
        fill: f32,
    ) -> RowFragment<'b, P::Elem> {
        let singles = (0..self.end_count()).map(|number| self.load_end(k, row, number, fill));
        RowFragment { vectors: Vec::new(), singles: singles.collect() }
    }

    /// Reloads the thread's elements of a step and at the row's ends. Returns the lowest column
    /// whose element equals `value`, or `i32::MAX`.
    #[track_caller]
    pub(crate) fn first_equal<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
        step: Val<'b, i32>,
        value: Val<'b, f32>,
    ) -> Val<'b, i32> {
        let (part, ends) = (self.step(step), self.load_ends(k, row, f32::NAN));
        let inner = part.load_inner(k, row, f32::NAN, P::access());
        let columns = part.columns().into_iter().take((part.tile.vectors * part.vector) as usize);
        let columns = columns.chain(self.ends().into_iter().map(|(column, _)| column));
        let elements = inner.iter_f32().chain(ends.iter_f32()).zip(columns);
        elements.fold(k.constant(i32::MAX), |first, (element, column)| {
            element.eq(value).select(column.min(first), first)
        })
    }

    /// Loads the thread's single element `number` at the row's ends.
    #[track_caller]
    pub(super) fn load_end<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
        number: u32,
        fill: f32,
    ) -> Val<'b, P::Elem> {
        let k = &mut k.rescoped();
        let fill = k.constant(narrow::<P::Elem>(fill));
        let (column, has) = self.end(number);
        k.if_with(has, fill, |_| row.load_with(column, P::access()))
    }

    /// Loads the columns of the thread's vector `number` element by element.
    #[track_caller]
    fn load_column_vector<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
        number: u32,
        fill: f32,
    ) -> Vec<Val<'b, P::Elem>> {
        let k = &mut k.rescoped();
        let fill = k.constant(narrow::<P::Elem>(fill));
        let first = row.offset(self.first_column() + number as i32 * self.stride());
        let load =
            |lane| k.if_with(self.has_vector(number), fill, |_| first.load_with(lane, P::access()));
        (0..self.vector as i32).map(load).collect()
    }

    /// Iterates over the same columns of another row, which can start anywhere. Each vector is
    /// loaded when the iterator reaches it, in a ragged row element by element.
    pub(super) fn columns_by_vector<P: RowPointer>(
        &self,
        k: &mut Body<'b, '_>,
        row: Val<'b, P>,
    ) -> impl Iterator<Item = Val<'b, P::Elem>> + use<'b, P> {
        let (part, mut k): (_, Body<'b, 'b>) = (*self, k.rescoped());
        let fill = filled(&k, narrow::<P::Elem>(0.0));
        let words = P::words(row.offset(part.first_column()));
        let mut ends_k: Body<'b, 'b> = k.rescoped();
        let vectors = (0..part.tile.vectors).flat_map(move |number| match part.tile.access {
            RowAccess::Aligned => {
                lanes_of(part.load_vector::<P>(&mut k, words, number, fill, P::access()))
            }
            _ => part.load_column_vector(&mut k, row, number, 0.0),
        });
        vectors.chain(
            (0..part.end_count()).map(move |number| part.load_end(&mut ends_k, row, number, 0.0)),
        )
    }

    /// Stores `values`, rounded to the nearest `D`, to the row that starts at `*row`. If an
    /// iterator computes the values, it does so vector by vector as they are stored, which saves
    /// registers.
    #[track_caller]
    pub fn store<D: VectorElement<2> + Converted>(
        &self,
        row: Val<'b, GlobalMut<D>>,
        values: impl IntoIterator<Item = Val<'b, f32>>,
    ) {
        let k = &mut self.columns.body();
        let _call = k.call();
        let mut values = values.into_iter();
        let first = row.offset(self.first_column());
        for number in 0..self.tile.vectors {
            self.store_vector(first, number, values.by_ref().take(self.vector as usize));
        }
        for number in 0..self.end_count() {
            let (column, has) = self.end(number);
            k.if_(has, |_| {
                values.by_ref().take(1).for_each(|value| row.store(column, value.cvt::<D>()));
            });
        }
    }

    /// Stores the thread's vector `number`, if the row has it. `first` is the address of the
    /// thread's first vector.
    #[track_caller]
    pub(crate) fn store_vector<D: VectorElement<2> + Converted>(
        &self,
        first: Val<'b, GlobalMut<D>>,
        number: u32,
        values: impl IntoIterator<Item = Val<'b, f32>>,
    ) {
        let k = &mut self.columns.body();
        // Elements per access.
        let lanes = self.vector.min(RowTile::VECTOR_BYTES / D::scalar().size_bytes());
        k.if_(self.has_vector(number), |_| {
            let vector: Vec<_> = values.into_iter().collect();
            for (part, values) in (0..).zip(vector.chunks(lanes as usize)) {
                let at = number as i32 * self.stride() + part * lanes as i32;
                match pack::<D>(values) {
                    Some(packed) => first.store_vector(at, packed),
                    None => values.iter().zip(at..).for_each(|(value, at)| {
                        first.store(at, value.cvt::<D>());
                    }),
                }
            }
        });
    }

    /// Stores elements unchanged, as [`load_elements`](RowPartition::load_elements) has loaded
    /// them, to the row that starts at `*row`. Use it to copy rows; [`store`](RowPartition::store)
    /// is for computed values.
    #[track_caller]
    pub fn store_elements<T: Converted>(
        &self,
        row: Val<'b, GlobalMut<T>>,
        elements: &RowFragment<'b, T>,
    ) {
        let k = &mut self.columns.body();
        let _call = k.call();
        let first = row.offset(self.first_column());
        let (words, in_word) = (first.ptr_cast::<u32>(), 32 / T::scalar().bits() as i32);
        for (number, vector) in (0..).zip(&elements.vectors) {
            let at = number as i32 * self.stride() / in_word;
            k.if_(self.has_vector(number), |_| words.store_vector(at, *vector));
        }
        for (number, value) in (0..).zip(&elements.singles) {
            if self.vector == 1 {
                let at = number as i32 * self.stride();
                k.if_(self.has_vector(number), |_| first.store(at, *value));
            } else {
                let (column, has) = self.end(number);
                k.if_(has, |_| row.store(column, *value));
            }
        }
    }
}

/// Packs values, rounded to `D`, into one vector; `None` for a single value.
#[track_caller]
fn pack<'b, D: VectorElement<2> + Converted>(values: &[Val<'b, f32>]) -> Option<AnyVector<'b>> {
    fn words<'b, D: VectorElement<2>, W: Element>(
        values: &[Val<'b, f32>],
    ) -> Option<AnyVector<'b>> {
        let two = |pair: &[Val<'b, f32>]| match pair {
            [a, b] => Some(Val::<Vector<f32, 2>>::pack([*a, *b]).cvt::<D>().bitcast::<W>()),
            _ => None,
        };
        let words: Option<Vec<Val<'b, W>>> = values.chunks(2).map(two).collect();
        AnyVector::pack(&words?)?.cast(D::scalar())
    }
    match D::scalar().bits() {
        _ if values.len() < 2 => None,
        32 if D::scalar() == Scalar::F32 => AnyVector::pack(values),
        16 => words::<D, u32>(values),
        8 => words::<D, u16>(values),
        _ => None,
    }
}

/// Returns a 16-byte vector filled with `value`.
#[track_caller]
pub(crate) fn filled<'b, T: Element>(k: &Body<'b, '_>, value: T) -> Val<'b, Vector<u32, 4>> {
    let (bits, one) = (T::scalar().bits(), value.to_const().bits() as u32);
    Val::splat(k.constant((0..32 / bits).fold(0, |word, lane| word | one << (lane * bits))))
}

/// Rounds `value` to `T`; 0 for types that are not floats.
pub(crate) fn narrow<T: Element>(value: f32) -> T {
    match T::scalar() {
        Scalar::F32 => T::from_bits(value.to_bits().into()),
        Scalar::Bf16 => T::from_bits(bf16::from_f32(value).to_bits().into()),
        Scalar::F16 => T::from_bits(f16::from_f32(value).to_bits().into()),
        _ => T::default(),
    }
}
