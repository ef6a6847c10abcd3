//! `right_inverse`, `left_inverse`, `nullspace`.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::coalesce::Flat;
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder, LayoutRef};
use super::tuple::Leaves;

type Result<T> = std::result::Result<T, LayoutError>;

/// The places of `keys` in increasing order, by the exchanges that CuTe makes: they decide the
/// order of equal keys, which shows in the printed result.
fn sorted_places(keys: &[i64]) -> SmallVec<[usize; 8]> {
    let mut places: SmallVec<[usize; 8]> = (0..keys.len()).collect();
    for i in 0..places.len() {
        for j in i + 1..places.len() {
            if keys[places[j]] < keys[places[i]] {
                places.swap(i, j);
            }
        }
    }
    places
}

/// The exclusive prefix products of the extents.
fn prefix_products(shape: &[Int]) -> Result<Leaves<Int>> {
    let mut out = Leaves::new();
    let mut current = Int::ONE;
    for extent in shape {
        out.push(current.clone());
        current = current.mul(extent)?;
    }
    Ok(out)
}

/// A leaf that a right inverse may take.
struct Link {
    stride: i64,
    extent: i64,
    /// The stride of the leaf in the domain.
    place: i64,
    /// What the longest chain that begins here reaches, and its next leaf.
    reached: i64,
    next: Option<usize>,
}

/// The longest chain of static leaves in which each stride is what the chain reaches before it, if it
/// reaches more than `reached`.
fn longest_chain(layout: LayoutRef<'_>, reached: i64) -> Result<Option<Flat>> {
    let mut links: SmallVec<[Link; 8]> = SmallVec::new();
    let mut place = 1i64;
    for (s, d) in layout.leaves() {
        let (Some(extent), Some(stride)) = (s.as_static(), d.as_static()) else { return Ok(None) };
        if let Some(end) = stride.checked_mul(extent)
            && extent > 1
            && stride > 0
        {
            links.push(Link { stride, extent, place, reached: end, next: None });
        }
        place = place.checked_mul(extent).ok_or_else(|| LayoutError::overflow("right_inverse"))?;
    }
    // A chain goes on at a larger stride only, so that what follows a leaf is known before it.
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
        out.push(&Int::new(link.extent), &ScaledBasis::from(link.place))?;
        match link.next {
            Some(next) => at = next,
            None => return Ok(Some(out)),
        }
    }
}

impl Layout {
    /// The longest layout with `self(R(i)) == i` for all `i < size(R)` that is made of leaves of
    /// `self`, each with the stride that the leaves before it reach.
    ///
    /// Of leaves with the same stride CuTe takes the first, after coalescing. Where that ends early,
    /// the result is the longest sequence instead. With symbols, a mode is taken where its stride is
    /// seen to be the size that is reached, in CuTe's order.
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
    /// [`LayoutError::Overflow`], [`LayoutError::NotAnIntegerStride`].
    pub fn right_inverse(&self) -> Result<Layout> {
        let (first, longer) = self.right_inverses()?;
        Ok(longer.unwrap_or(first))
    }

    /// The right inverse that CuTe finds, and the longest one if that is longer.
    pub(crate) fn right_inverses(&self) -> Result<(Layout, Option<Layout>)> {
        let flat = Flat::coalesced(self.as_ref(), false)?;
        let prefix = prefix_products(&flat.shape)?;
        let mut out = Flat::default();
        let mut reached = Int::ONE;
        let strides: SmallVec<[&Int; 8]> =
            flat.stride.iter().map(ScaledBasis::to_int).collect::<Result<_>>()?;
        let keys: SmallVec<[i64; 8]> =
            strides.iter().map(|d| d.as_static().unwrap_or(i64::MAX)).collect();
        let order = sorted_places(&keys);
        // Modes that do not overlap leave no choice.
        let overlaps = order.windows(2).any(|pair| {
            let (d, next) = (keys[pair[0]], keys[pair[1]]);
            let end = flat.shape[pair[0]].as_static().and_then(|s| s.checked_mul(d));
            d > 0 && end.is_some_and(|end| next < end)
        });
        let mut left = order;
        while let Some(at) = left.iter().position(|&i| strides[i].same(&reached)) {
            let i = left.remove(at);
            out.push(&flat.shape[i], &ScaledBasis::from(prefix[i].clone()))?;
            reached = reached.mul(&flat.shape[i])?;
        }
        let longer = match reached.as_static() {
            Some(reached) if overlaps => longest_chain(self.as_ref(), reached)?,
            _ => None,
        };
        Ok((out.into_layout()?, longer.map(Flat::into_layout).transpose()?))
    }

    /// A layout with `self(R(self(i))) == self(i)` for all `i < size(self)`; for a one-to-one
    /// layout `R(self(i)) == i`.
    ///
    /// The largest stride may be negative: the last mode of `R` takes what is left of an index,
    /// also of a negative one.
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
    /// [`LayoutError::NotDivisible`] if the strides do not divide each other in order,
    /// [`LayoutError::NotInjective`] if modes overlap so that the equation fails,
    /// [`LayoutError::Unsupported`] for a negative stride that is not the largest,
    /// [`LayoutError::Undecided`], [`LayoutError::NotAnIntegerStride`], [`LayoutError::Overflow`].
    pub fn left_inverse(&self) -> Result<Layout> {
        let flat = Flat::coalesced(self.as_ref(), false)?;
        let prefix = prefix_products(&flat.shape)?;
        let mut signs: SmallVec<[Sign; 8]> = SmallVec::new();
        let mut steps: SmallVec<[Int; 8]> = SmallVec::new();
        let mut modes: SmallVec<[(&Int, &Int, &Int); 8]> = SmallVec::new();
        for d in &flat.stride {
            let d = d.to_int()?;
            let (sign, step) = Sign::of(d)?;
            signs.push(sign);
            steps.push(step);
        }
        for ((s, d), p) in flat.shape.iter().zip(&steps).zip(&prefix) {
            modes.push((s, d, p));
        }
        let order = order_by_stride(&modes)?;
        let mut out = Flat::default();
        let mut reached = Int::ONE;
        // The stride of the step that is still open, and the last mode taken.
        let mut stride = Int::ZERO;
        let mut last: Option<(&Int, &Int)> = None;
        let mut injective = true;
        let mut violation = Int::ZERO;
        for (at, &i) in order.iter().enumerate() {
            let (s, d, p) = modes[i];
            if d.is(0) {
                last = last.or(Some((s, d)));
                continue;
            }
            let negative = signs[i] == Sign::Negative;
            if negative && at + 1 < order.len() {
                return Err(LayoutError::Unsupported {
                    operation: "left_inverse with a negative stride below a larger one",
                    argument: self.to_string(),
                });
            }
            if s.bounds().0 < 2 {
                // Numbers would drop a mode of extent 1.
                violation = violation.max(&Int::new(2).sub(s)?)?;
            }
            let step = d.exact_div(&reached)?;
            if let Some((s0, d0)) = last.filter(|(_, d0)| !d0.is(0)) {
                let end = s0.sub(&Int::ONE)?.mul(d0)?.add(&Int::ONE)?;
                injective &= d.at_least(&end);
            }
            out.shape.push(step.clone());
            out.stride.push(ScaledBasis::from(stride));
            reached = d.clone();
            stride = if negative { p.negate()? } else { p.clone() };
            last = Some((s, d));
        }
        let Some((s, _)) = last else { return Ok(Layout::trivial()) };
        out.shape.push(s.clone());
        out.stride.push(ScaledBasis::from(stride));
        let result = out.merged(&violation)?.into_layout()?;
        if !injective && !self.satisfies_left_inverse(&result)? {
            return Err(LayoutError::NotInjective { layout: self.to_string() });
        }
        Ok(result)
    }

    /// The equation itself, for layouts of overlapping modes up to a million coordinates.
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

    /// The coordinates that are mapped to 0 by static strides 0: `self(R(i)) == 0` for all
    /// `i < size(R)`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 2, 2):(1, 0, 2)).nullspace()?, layout!(2:2));
    /// assert_eq!(layout!((2, 2):(1, 2)).nullspace()?, layout!(1:0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    NotNegative,
    Negative,
}

impl Sign {
    /// The sign of a stride, and its absolute value.
    fn of(d: &Int) -> Result<(Self, Int)> {
        match d.bounds() {
            (0.., _) => Ok((Sign::NotNegative, d.clone())),
            (_, ..=-1) => Ok((Sign::Negative, d.negate()?)),
            _ => Err(LayoutError::Undecided {
                operation: "left_inverse",
                condition: format!("the sign of the stride {d}"),
            }),
        }
    }
}

/// The places of the modes in the order of their strides.
fn order_by_stride(modes: &[(&Int, &Int, &Int)]) -> Result<SmallVec<[usize; 8]>> {
    let keys: Option<SmallVec<[i64; 8]>> = modes.iter().map(|(_, d, _)| d.as_static()).collect();
    if let Some(keys) = keys {
        return Ok(sorted_places(&keys));
    }
    let mut places: SmallVec<[usize; 8]> = (0..modes.len()).collect();
    let mut out = SmallVec::new();
    while !places.is_empty() {
        let least = places
            .iter()
            .position(|&i| places.iter().all(|&j| modes[j].1.at_least(modes[i].1)))
            .ok_or_else(|| LayoutError::Undecided {
                operation: "left_inverse",
                condition: "the order of the strides".to_owned(),
            })?;
        out.push(places.remove(least));
    }
    Ok(out)
}

impl Flat {
    /// Coalesces what was put together leaf by leaf, on the condition that `violation` is not
    /// above 0.
    fn merged(self, violation: &Int) -> Result<Flat> {
        let mut merged = Flat::default();
        for (s, d) in self.shape.iter().zip(&self.stride) {
            if !s.is(1) {
                merged.push(s, d)?;
            }
        }
        let mut merged = merged.or_trivial();
        if let Some(last) = merged.shape.last_mut() {
            *last = last.on_condition(violation);
        }
        Ok(merged)
    }
}
