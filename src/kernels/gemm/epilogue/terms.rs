//! [`Terms`]: what an epilogue reduces along rows or columns, and the partial results of the warps.

use crate::ir::builder::Float;
use crate::ir::{Body, Registers, Val, WARP};

use crate::kernels::gemm::config::types::Numbers;
use crate::kernels::gemm::elements::Sum;
use crate::kernels::gemm::epilogue::fragment::Fragment;

/// A reduction of terms `t[m, n]`, one for each element of D: see [`Gemm::with_reduction`](crate::kernels::gemm::Gemm::with_reduction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// `r[m] = sum over n of t[m, n]`
    RowSum,
    /// `r[m] = max over n of t[m, n]`. NaN is ignored: the result is negative infinity if all terms are NaN.
    RowMax,
    /// `r[n] = sum over m of t[m, n]`
    ColumnSum,
    /// `r[n] = max over m of t[m, n]`. NaN is ignored: the result is negative infinity if all terms are NaN.
    ColumnMax,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Reduction; 4] =
        [Reduction::RowSum, Reduction::RowMax, Reduction::ColumnSum, Reduction::ColumnMax];

    /// Returns whether there is a result for each column, not for each row.
    pub(crate) const fn is_of_columns(self) -> bool {
        matches!(self, Reduction::ColumnSum | Reduction::ColumnMax)
    }

    /// The result of no terms.
    #[inline]
    pub(crate) fn start<'b>(self, k: &Body<'b, '_>) -> Val<'b, Sum> {
        match self {
            Reduction::RowSum | Reduction::ColumnSum => k.constant(Sum::default()),
            Reduction::RowMax | Reduction::ColumnMax => k.constant(f32::NEG_INFINITY).cvt(),
        }
    }

    #[inline]
    fn combine<'b>(self, x: Val<'b, Sum>, y: Val<'b, Sum>) -> Val<'b, Sum> {
        match self {
            Reduction::RowSum | Reduction::ColumnSum => x + y,
            Reduction::RowMax | Reduction::ColumnMax => x.max(y),
        }
    }

    /// Returns the result of a warp from the reduction of its terms. The maximum of terms that are all NaN is NaN.
    #[inline]
    fn result<'b>(self, k: &Body<'b, '_>, x: Val<'b, Sum>) -> Val<'b, Sum> {
        match self {
            Reduction::RowSum | Reduction::ColumnSum => x,
            Reduction::RowMax | Reduction::ColumnMax => self.combine(x, self.start(k)),
        }
    }
}

/// The results that an epilogue writes to the last buffer of its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Results {
    None,
    Amax,
    Reduced(Reduction),
}

/// The part of an epilogue that reduces terms, in a kernel body `'a`.
pub(crate) trait Terms<'a> {
    /// The reduction along rows or columns; without one, each thread has one result.
    fn reduction(&self) -> Option<Reduction>;

    /// The element of D and its term; that of no element of D changes nothing.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        coord: [Val<'b, i32>; 3],
        extents: [Val<'b, i32>; 2],
    ) -> (Val<'b, Sum>, Val<'b, Sum>)
    where
        'a: 'b;

    /// Reduces a term with those of the thread.
    fn update<'b>(&self, k: &Body<'b, '_>, term: Val<'b, Sum>)
    where
        'a: 'b;

    /// Stores a partial result.
    fn store<'b>(&self, k: &mut Body<'b, '_>, at: Val<'b, i64>, value: Val<'b, Sum>)
    where
        'a: 'b;
}

/// A result of some lanes: its value, and its row or column from that of the thread on.
type Partial<'b> = (Val<'b, Sum>, Val<'b, i32>);

impl<'b> Fragment<'b> {
    /// Applies an epilogue to the accumulators of a thread, in place, and reduces its terms. All threads of a warp do it together.
    pub(crate) fn reduce<'a: 'b, R: Float>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, R>,
        terms: &dyn Terms<'a>,
        numbers: Numbers,
    ) {
        let fragment = self;
        let apply = |k: &mut Body<'b, '_>, at: usize| -> Option<Val<'b, Sum>> {
            let element = fragment.elements.get(at)?;
            let [row, column, batch] = fragment.first;
            let [down, right] = element.offset;
            let (row, column) = (row + down, column + right);
            let inside = [(row, fragment.ends[0]), (column, fragment.ends[1])];
            let row = inside.into_iter().fold(row, |row, (at, end)| match end {
                Some(end) => at.lt(end).select(row, i32::MAX),
                None => row,
            });
            let pair = element.registers.map(|register| accumulators.get(k, register).cvt::<Sum>());
            let (coord, pair) = ([row, column, batch], numbers.of_accumulators(pair));
            let (value, term) = terms.apply(k, pair, coord, fragment.extents);
            accumulators.set(k, element.registers[0], numbers.stored(value).cvt::<R>());
            Some(term)
        };
        let Some(reduction) = terms.reduction() else {
            for at in 0..fragment.elements.len() {
                if let Some(term) = apply(k, at) {
                    terms.update(k, term);
                }
            }
            return;
        };
        let (kept, other) = if reduction.is_of_columns() { (1, 0) } else { (0, 1) };
        let lanes = fragment.lanes[other];
        // The elements of each result, in order.
        let mut order: Vec<usize> = (0..fragment.elements.len()).collect();
        order.sort_by_key(|at| {
            fragment.elements.get(*at).map(|e| [e.offset[kept], e.offset[other]])
        });
        let offset = |at: &usize| fragment.elements.get(*at).map_or(0, |e| e.offset[kept]);
        let results: Vec<&[usize]> = order.chunk_by(|x, y| offset(x) == offset(y)).collect();
        // The partial results before those of the warp.
        let extent = fragment.extents[kept];
        let [matrix, matrices] = fragment.matrix.map(|number| number.cvt::<i64>());
        let line = fragment.parts[other].cvt::<i64>() * matrices + matrix;
        let line = line * extent.cvt::<i64>();
        let end = fragment.ends[kept].map_or(extent, |end| end.min(extent));
        let end = fragment.origin[other].lt(fragment.extents[other]).select(end, 0);
        let mut rest = &results[..];
        while !rest.is_empty() {
            let len = 1 << rest.len().ilog2().min(lanes.len() as u32);
            let some;
            (some, rest) = rest.split_at(len);
            let mut partials: Vec<Partial<'b>> = Vec::with_capacity(len);
            for elements in some {
                let terms = elements.iter().filter_map(|at| apply(k, *at));
                if let Some(sum) = terms.reduce(|x, y| reduction.combine(x, y)) {
                    partials.push((sum, k.constant(elements.first().map_or(0, offset))));
                }
            }
            let (value, offset, writes) = of_lanes(k, reduction, partials, lanes);
            let at = fragment.first[kept] + offset;
            let writes = writes.map_or(at.lt(end), |writes| writes & at.lt(end));
            k.if_(writes, |k| {
                let result = reduction.result(k, value);
                terms.store(k, line + at.cvt::<i64>(), result);
            });
        }
    }
}

/// Reduces a power of two of partial results over the lanes whose numbers differ in some bits. Half of the results go to the lanes
/// with a bit, so a step takes half as many shuffles as the one before. Returns the result of the lane, and whether it writes it
/// if not all lanes do.
#[inline]
fn of_lanes<'b>(
    k: &Body<'b, '_>,
    reduction: Reduction,
    mut partials: Vec<Partial<'b>>,
    bits: &[u32],
) -> (Val<'b, Sum>, Val<'b, i32>, Option<Val<'b, bool>>) {
    let (lane, mut writes) = (k.lane_id(), None);
    for bit in bits {
        let (mask, is_upper) = (1u32 << bit, (lane >> *bit & 1).ne(0));
        let shuffled = |value| k.shfl_bfly(WARP, value, mask);
        if let [(value, _)] = &mut partials[..] {
            *value = reduction.combine(*value, shuffled(*value));
            writes = Some(writes.map_or(!is_upper, |writes: Val<'_, bool>| writes & !is_upper));
            continue;
        }
        let upper = partials.split_off(partials.len() / 2);
        for (own, (value, at)) in partials.iter_mut().zip(upper) {
            let (kept, sent) = (is_upper.select(value, own.0), is_upper.select(own.0, value));
            *own = (reduction.combine(kept, shuffled(sent)), is_upper.select(at, own.1));
        }
    }
    let none = || (reduction.start(k), k.constant(0));
    let (value, at) = partials.pop().unwrap_or_else(none);
    (value, at, writes)
}
