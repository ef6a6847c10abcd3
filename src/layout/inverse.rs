//! Inverts layouts. `right_inverse` and `left_inverse` map indices back to coordinates, and
//! `nullspace` finds the coordinates with index 0. Use them to ask who holds an element, for
//! example which thread and value.

use std::cell::Cell;

use smallvec::SmallVec;

use super::assume::{Operands, advise};
use super::builder::LayoutBuilder;
use super::coalesce::{Flat, Keep, merged};
use super::complement::smallest;
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{Number, Stride as _};

type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// Collects the coalesced layout's modes, each with its stride in the domain (the product of the
/// extents before it).
#[inline]
fn placed<N: Number>(layout: LayoutRef<'_>, modes: &mut N::Placed) -> Result<(), N::Error> {
    let mut index = N::new(1);
    merged(layout, Keep::Wide, |s: N, d| {
        d.plain()?;
        let next = index.mul(&s)?;
        N::put(modes, (s, d, std::mem::replace(&mut index, next)))
    })
}

/// Sorts by stride, symbols last, with the same exchange sort as CuTe. It decides the order of
/// equal strides, which shows in the printed result.
#[inline]
fn sort_by_stride<N: Number>(modes: &mut [(N, N::Stride, N)]) {
    for i in 0..modes.len() {
        for j in i + 1..modes.len() {
            if stride_or_max::<N>(&modes[j].1) < stride_or_max::<N>(&modes[i].1) {
                modes.swap(i, j);
            }
        }
    }
}

/// Moves mode `at` to the front and shifts the modes before it back by one.
#[inline]
fn to_front<T>(modes: &mut [T], at: usize) {
    for i in (0..at).rev() {
        modes.swap(i, i + 1);
    }
}

/// Finds CuTe's right inverse, or a longer one.
struct RightInverse<'a> {
    layout: LayoutRef<'a>,
    /// Whether to look for a longer one.
    longest: bool,
}

impl Operation for RightInverse<'_> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        let mut modes = N::Placed::default();
        placed::<N>(self.layout, &mut modes)?;
        sort_by_stride::<N>(&mut modes);
        // If no modes overlap, there is only one possible chain.
        let mut overlaps = false;
        let mut end = 0i64;
        for (s, d, _) in modes.iter() {
            let stride = stride_or_max::<N>(d);
            overlaps |= stride > 0 && stride < end;
            if stride > 0 {
                end = s.number().map_or(0, |s| s.saturating_mul(stride));
            }
        }
        let mut inverse = Flat::<N>::default();
        let mut reached = N::new(1);
        let mut rest = &mut *modes;
        loop {
            let reaches = |d: &N::Stride| d.plain().is_ok_and(|d| d.same(&reached));
            let Some(at) = rest.iter().position(|(_, d, _)| reaches(d)) else { break };
            to_front(rest, at);
            let Some(((s, _, index), after)) = rest.split_first_mut() else { break };
            reached = reached.mul(s)?;
            inverse.merge(s.clone(), N::Stride::from_number(index.clone()))?;
            rest = after;
        }
        if let Some(reached) = reached.number().filter(|_| self.longest && overlaps)
            && let Some(longer) = longest_chain::<N>(self.layout, reached)?
        {
            inverse = longer;
        }
        inverse.emit(out)
    }
}

/// The sort key: the stride if it is static. Symbols come last.
#[inline]
fn stride_or_max<N: Number>(stride: &N::Stride) -> i64 {
    stride.plain().ok().and_then(N::number).unwrap_or(i64::MAX)
}

/// A leaf that a right inverse may use.
struct Link {
    stride: i64,
    extent: i64,
    /// The leaf's stride in the domain.
    index: i64,
    /// How far the longest chain from here reaches, and the next leaf in that chain.
    reached: i64,
    next: Option<usize>,
}

/// Returns the longest chain of static leaves, if it reaches further than `reached`. In a chain,
/// each stride equals the size that the leaves before it reach.
#[cold]
fn longest_chain<N: Number>(
    layout: LayoutRef<'_>,
    reached: i64,
) -> Result<Option<Flat<N>>, N::Error> {
    let mut links: SmallVec<[Link; 8]> = SmallVec::new();
    let mut index = 1i64;
    for (s, d) in layout.leaves() {
        let (Some(extent), Some(stride)) = (s.as_static(), d.as_static()) else { return Ok(None) };
        if let Some(end) = stride.checked_mul(extent)
            && extent > 1
            && stride > 0
        {
            links.push(Link { stride, extent, index, reached: end, next: None });
        }
        index = index.checked_mul(extent).ok_or_else(|| N::overflow("right_inverse"))?;
    }
    // A chain continues only at a larger stride. So if we go from large to small, the successor of
    // a leaf is already known.
    links.sort_by_key(|link| std::cmp::Reverse(link.stride));
    let mut first: Option<usize> = None;
    for i in 0..links.len() {
        let end = links[i].reached;
        for j in 0..i {
            if links[j].stride == end && links[j].reached > links[i].reached {
                links[i].reached = links[j].reached;
                links[i].next = Some(j);
            }
        }
        let best = first.map_or(reached, |i| links[i].reached);
        if links[i].stride == 1 && links[i].reached > best {
            first = Some(i);
        }
    }
    let Some(mut at) = first else { return Ok(None) };
    let mut out = Flat::default();
    loop {
        let link = &links[at];
        out.merge(N::new(link.extent), N::Stride::from_number(N::new(link.index)))?;
        match link.next {
            Some(next) => at = next,
            None => return Ok(Some(out)),
        }
    }
}

/// Finds the left inverse, and sets `injective` if the strides alone prove that the layout is
/// one-to-one.
struct LeftInverse<'a> {
    layout: LayoutRef<'a>,
    injective: &'a Cell<bool>,
}

impl Operation for LeftInverse<'_> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Result<(), N::Error> {
        let mut modes = N::Placed::default();
        placed::<N>(self.layout, &mut modes)?;
        // Only the mode with the largest stride may be negative, so it comes last.
        let negative = order_by_stride::<N>(&mut modes, self.layout)?;
        let mut inverse = Flat::<N>::default();
        let mut reached = N::new(1);
        // The open step's stride, and the last mode taken.
        let mut stride = N::new(0);
        let mut last: Option<(&N, &N)> = None;
        let mut injective = true;
        // At most 0 if the symbolic strides are in this order and divide each other.
        let mut violation = N::new(0);
        for (s, d, p) in modes.iter() {
            let d = d.plain()?;
            if d.is(0) {
                last = last.or(Some((s, d)));
                continue;
            }
            if s.bounds().1 < 1 {
                return Err(N::fail(|| LayoutError::ExtentNotPositive { extent: s.to_int() }));
            }
            let step = match d.exact_div(&reached) {
                Ok(step) => step,
                Err(_) if d.is_number() && reached.is_number() => {
                    return Err(N::fail(|| LayoutError::StrideNotDivisible {
                        layout: self.layout.to_string(),
                        stride: d.to_int(),
                        by: reached.to_int(),
                    }));
                }
                Err(_) => {
                    let uneven = d.modulo(&reached)?.max(&reached.sub(d)?)?;
                    violation = violation.max(&uneven)?;
                    d.floor_div(&reached)?
                }
            };
            if let Some((s0, d0)) = last.filter(|(_, d0)| !d0.is(0)) {
                let end = s0.sub(&N::new(1))?.mul(d0)?.add(&N::new(1))?;
                if d.is_number() && end.is_number() {
                    injective &= d.at_least(&end);
                } else {
                    violation = violation.max(&end.sub(d)?)?;
                }
            }
            if !step.is(1) {
                inverse.merge(step, N::Stride::from_number(stride))?;
            }
            reached = d.clone();
            stride = p.clone();
            last = Some((s, d));
        }
        if negative {
            stride = stride.negate()?;
        }
        if let Some((s, _)) = last.filter(|(s, _)| !s.is(1)) {
            inverse.merge(s.clone(), N::Stride::from_number(stride))?;
        }
        self.injective.set(injective);
        inverse.emit(out)?;
        out.check_last(&violation)
    }
}

/// Sorts the modes by the absolute values of their strides, and stores those. Returns true if the
/// last stride was negative.
#[inline]
fn order_by_stride<N: Number>(
    modes: &mut [(N, N::Stride, N)],
    layout: LayoutRef<'_>,
) -> Result<bool, N::Error> {
    let mut all_numbers = true;
    let mut negative = None;
    for (_, stride, _) in modes.iter_mut() {
        let d = stride.plain()?;
        all_numbers &= d.is_number();
        match d.bounds() {
            (0.., _) => {}
            (_, ..=-1) => {
                let size = d.negate()?;
                if negative.replace(size.clone()).is_some() {
                    return Err(below_a_larger::<N>(layout));
                }
                *stride = N::Stride::from_number(size);
            }
            _ => {
                return Err(N::fail(|| LayoutError::Undecided {
                    operation: "left_inverse",
                    condition: format!("the sign of the stride {}", d.to_int()),
                }));
            }
        }
    }
    if all_numbers {
        sort_by_stride::<N>(modes);
    } else {
        for index in 0..modes.len() {
            let rest = modes.get_mut(index..).unwrap_or(&mut []);
            let at = smallest::<N>(rest.iter().map(|(_, d, _)| d))?;
            to_front(rest, at);
        }
    }
    let largest = modes.last().map(|(_, d, _)| d.plain()).transpose()?;
    let has_symbols = !all_numbers || modes.iter().any(|(s, _, _)| !s.is_number());
    if let ([.., (_, before, _), _], Some(largest), Some(_), true) =
        (&*modes, largest, &negative, has_symbols)
        && before.plain()?.same(largest)
    {
        // Either of the two could be the negative one.
        return Err(below_a_larger::<N>(layout));
    }
    match (&negative, largest) {
        (Some(negative), Some(largest)) if !largest.same(negative) => {
            Err(below_a_larger::<N>(layout))
        }
        _ => Ok(negative.is_some()),
    }
}

fn below_a_larger<N: Number>(layout: LayoutRef<'_>) -> N::Error {
    N::fail(|| LayoutError::Unsupported {
        operation: "left_inverse with a negative stride below a larger one",
        argument: layout.to_string(),
    })
}

/// # Inverses and null space
///
/// Maps indices back to coordinates.
impl Layout {
    /// Returns a layout `R` that maps indices back to coordinates: `self(R(i)) == i` for all `i <
    /// size(R)`. For `(4,8):(8,1)` it is `(8,4):(4,1)`. `R` visits the elements in memory order
    /// from index 0 on, so `size(R)` says how many of them a vectorized copy can treat as
    /// contiguous.
    ///
    /// To build `R`, we chain leaves of `self`: the first has stride 1, and the stride of each next
    /// leaf is the product of the extents so far. `R` is the longest such chain. For example,
    /// `(4,2):(1,16)` has only the chain `4:1`, because its second leaf starts at 16 and not at 4.
    ///
    /// If several leaves have the same stride, CuTe takes the first after coalescing. If that ends
    /// early, we return the longest chain instead. With symbols, we go in CuTe's order and take a
    /// mode only if its stride is provably the size reached so far.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout};
    /// assert_eq!(layout!((4, 8):(8, 1)).right_inverse()?, layout!((8, 4):(4, 1)));
    /// assert_eq!(layout!((4, 2):(1, 16)).right_inverse()?, layout!(4:1));
    /// // CuTe joins the last two modes, takes the first, and ends with `2:1`.
    /// assert_eq!(layout!((2, 2, 2):(1, 1, 2)).right_inverse()?, layout!((2, 2):(1, 4)));
    /// let n = Int::symbol("n");
    /// let l = Layout::row_major((4, &n));
    /// assert_eq!(l.right_inverse()?.to_string(), "(n,4):(4,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::NotAnIntegerStride`] if a stride is a
    /// basis element or a fraction.
    #[doc(alias = "inverse")]
    #[inline]
    pub fn right_inverse(&self) -> Result<Layout> {
        perform(&RightInverse { layout: self.as_ref(), longest: true })
    }

    /// Returns the right inverse that CuTe finds, even if there is a longer one. The search for a
    /// common layout tries it first, so that results print as in CuTe.
    #[inline]
    pub(crate) fn first_right_inverse(&self) -> Result<Layout> {
        perform(&RightInverse { layout: self.as_ref(), longest: false })
    }

    /// Returns a layout `R` that maps each index of `self` back to a coordinate with that index:
    /// `self(R(self(i))) == self(i)` for all `i < size(self)`. If `self` is one-to-one, `R(self(i))
    /// == i`. Use it to ask who holds an element, for example which thread. For `(4,2):(1,16)` it
    /// is `(16,2):(1,4)`.
    ///
    /// The largest stride may be negative: the last mode of `R` takes the rest of an index, also of
    /// a negative one.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2):(1, 16)).left_inverse()?, layout!((16, 2):(1, 4)));
    /// assert_eq!(layout!((4, 3):(1, -4)).left_inverse()?, layout!((4, 3):(1, -4)));
    /// assert!(layout!((4, 3):(2, 3)).left_inverse().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::StrideNotDivisible`] if the strides do not divide each other in
    /// order, [`LayoutError::NotInjective`] if modes overlap so that the equation fails,
    /// [`LayoutError::Unsupported`] for a negative stride that is not the largest,
    /// [`LayoutError::ExtentNotPositive`] if an extent is below 1, [`LayoutError::Undecided`] if
    /// the sign of a symbolic stride is not known, [`LayoutError::NotAnIntegerStride`] if a stride
    /// is a basis element or a fraction, and [`LayoutError::Overflow`]. Symbolic strides are taken
    /// in the order of their divisors, on the condition that they divide each other in that order,
    /// which evaluation checks.
    #[inline]
    pub fn left_inverse(&self) -> Result<Layout> {
        self.any_left_inverse().map_err(|error| {
            advise(error, &Operands::new(self.as_ref()), |o| o.layout.any_left_inverse())
        })
    }

    #[inline]
    fn any_left_inverse(&self) -> Result<Layout> {
        let found = Cell::new(true);
        let operation = LeftInverse { layout: self.as_ref(), injective: &found };
        let result = perform(&operation)?;
        if !found.get() && !self.satisfies_left_inverse(&result)? {
            return Err(LayoutError::NotInjective { layout: self.to_string() });
        }
        Ok(result)
    }

    /// Tests the equation itself, for overlapping modes. Gives up (false) above a million
    /// coordinates.
    #[inline]
    fn satisfies_left_inverse(&self, inverse: &Layout) -> Result<bool> {
        const LIMIT: i64 = 1 << 20;
        match self.size()?.as_static() {
            Some(size) if size <= LIMIT => {
                for index in self.indices()? {
                    if self.at(inverse.at(index)?)? != index {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Returns the coordinates that the layout maps to 0 because their static strides are 0:
    /// `self(R(i)) == 0` for all `i < size(R)`. Use it to find the elements that a broadcast
    /// repeats: for `(2,2,2):(1,0,2)` it is `2:2`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 2, 2):(1, 0, 2)).nullspace()?, layout!(2:2));
    /// assert_eq!(layout!((2, 2):(1, 2)).nullspace()?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if a product does not fit in 64 bits.
    #[inline]
    pub fn nullspace(&self) -> Result<Layout> {
        let mut modes: SmallVec<[(Int, Int); 8]> = SmallVec::new();
        let mut current = Int::ONE;
        for (s, d) in self.as_ref().leaves() {
            if d.as_static() == Some(0) {
                let stride = if s.is(1) { Int::ZERO } else { current.clone() };
                modes.push((s.clone(), stride));
            }
            current = current.mul(s)?;
        }
        let mut out = LayoutBuilder::new();
        let many = modes.len() != 1;
        if modes.is_empty() {
            return Ok(Layout::trivial());
        }
        if many {
            out.open();
        }
        for (s, d) in modes {
            out.push(s, d);
        }
        if many {
            out.close();
        }
        out.finish()
    }
}
