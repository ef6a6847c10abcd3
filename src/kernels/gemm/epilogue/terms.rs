//! Epilogue reductions: [`Reduction`] says what is reduced along rows or columns, [`Terms`] is the
//! part of an epilogue that reduces, and here is how a warp reduces the terms of its lanes. A new
//! reduction is a variant of [`Reduction`] with its start value, `combine` and `result`.

use crate::ir::{Body, Float, Registers, Val, WARP};

use crate::kernels::gemm::elements::{Numbers, Sum};
use crate::kernels::gemm::epilogue::fragment::Fragment;

/// How [`Gemm::with_reduction`](crate::kernels::gemm::Gemm::with_reduction) reduces terms
/// `t[m, n]`, one per element of D. Take a row reduction for softmax or norm statistics, a column
/// sum for the gradient of a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// `r[m] = sum over n of t[m, n]`
    RowSum,
    /// `r[m] = max over n of t[m, n]`. Ignores NaN; the result is negative infinity if all terms
    /// are NaN.
    RowMax,
    /// `r[n] = sum over m of t[m, n]`
    ColumnSum,
    /// `r[n] = max over m of t[m, n]`. Ignores NaN; the result is negative infinity if all terms
    /// are NaN.
    ColumnMax,
}

impl Reduction {
    /// All reductions, for example to test each.
    pub const ALL: [Reduction; 4] =
        [Reduction::RowSum, Reduction::RowMax, Reduction::ColumnSum, Reduction::ColumnMax];

    /// Returns whether there is a result per column, rather than per row.
    pub(crate) const fn is_of_columns(self) -> bool {
        matches!(self, Reduction::ColumnSum | Reduction::ColumnMax)
    }

    /// Returns the neutral element.
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

    /// Returns a warp's result from its reduced terms. The hardware maximum of NaNs is NaN, so the
    /// neutral element is combined once more.
    #[inline]
    fn result<'b>(self, k: &Body<'b, '_>, x: Val<'b, Sum>) -> Val<'b, Sum> {
        match self {
            Reduction::RowSum | Reduction::ColumnSum => x,
            Reduction::RowMax | Reduction::ColumnMax => self.combine(x, self.start(k)),
        }
    }
}

/// What an epilogue writes to the last buffer of its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Results {
    None,
    Amax,
    Reduced(Reduction),
}

/// The part of an epilogue that reduces terms, in a kernel's body `'a`.
pub(crate) trait Terms<'a> {
    /// Returns the reduction along rows or columns, or `None` if each thread keeps one result.
    fn reduction(&self) -> Option<Reduction>;

    /// Returns an element of D and its term. Beyond D, the term is neutral.
    fn apply<'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: [Val<'b, Sum>; 2],
        coord: [Val<'b, i32>; 3],
        extents: [Val<'b, i32>; 2],
    ) -> (Val<'b, Sum>, Val<'b, Sum>)
    where
        'a: 'b;

    /// Reduces a term into the thread's result.
    fn update<'b>(&self, term: Val<'b, Sum>)
    where
        'a: 'b;

    /// Stores a partial result.
    fn store<'b>(&self, k: &mut Body<'b, '_>, at: Val<'b, i64>, value: Val<'b, Sum>)
    where
        'a: 'b;
}

/// A result of some lanes: its value, and its row or column relative to the thread's first.
type Partial<'b> = (Val<'b, Sum>, Val<'b, i32>);

impl<'b> Fragment<'b> {
    /// Applies an epilogue to a thread's accumulators in place, and reduces its terms. All threads
    /// of a warp must call it together.
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
            let pair = element.registers.map(|register| accumulators.get(register).cvt::<Sum>());
            let (coord, pair) = ([row, column, batch], numbers.of_accumulators(pair));
            let (value, term) = terms.apply(k, pair, coord, fragment.extents);
            accumulators.set(element.registers[0], numbers.stored(value).cvt::<R>());
            Some(term)
        };
        let Some(reduction) = terms.reduction() else {
            for at in 0..fragment.elements.len() {
                if let Some(term) = apply(k, at) {
                    terms.update(term);
                }
            }
            return;
        };
        let (kept, other) = if reduction.is_of_columns() { (1, 0) } else { (0, 1) };
        let lanes = fragment.lanes[other];
        // Groups the elements by the result they belong to, in order.
        let mut order: Vec<usize> = (0..fragment.elements.len()).collect();
        order.sort_by_key(|at| {
            fragment.elements.get(*at).map(|e| [e.offset[kept], e.offset[other]])
        });
        let offset = |at: &usize| fragment.elements.get(*at).map_or(0, |e| e.offset[kept]);
        let results: Vec<&[usize]> = order.chunk_by(|x, y| offset(x) == offset(y)).collect();
        // Where this warp's partial results start in the buffer.
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

/// Reduces a power of two of partial results over the lanes that differ in the given lane-id bits.
/// At each bit, a lane keeps half of the results and sends the other half to its partner, so each
/// step takes half as many shuffles as the one before. Returns this lane's result, and whether it
/// must write it if not all lanes do.
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
