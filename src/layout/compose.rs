//! `composition`: applies one layout after another, or a tiler mode by mode. Divides, products and
//! partitions are built on it. For example, `(6,2):(8,2)` after `(4,3):(3,1)` is
//! `((2,2),3):((24,2),8)`.
//!
//! The result `R` satisfies `R(i) == A⁺(B(i))` for all `i < size(B)`, where `A⁺` is `A` with its
//! last mode unbounded in both directions. `R`'s shape refines `B`'s shape. Any integer, even -1,
//! has digits in the modes of `A⁺`: the inner digits stay within their extents, and the last digit
//! is negative if the index is.
//!
//! How it works:
//! * Coalesce `A`, so that its modes are the digits of a mixed-radix number.
//! * Compose each mode `s:d` of `B` on its own. `i * d` is affine in `i` until the first digit
//!   carries, after `n = min ceil(extent / digit of d)` steps. So `n` must divide `s`; emit
//!   `n:A(d)` and continue with `s/n : n*d`.
//! * Add up the largest digits of all new modes. If a sum carries, the composition is an error
//!   ("admissibility"): the coordinates that `B` reaches in `A` are no layout.
//!
//! If `A` has at most two modes, its values are no layout then either. With more, a carry into a
//! mode and a carry out of it may cancel: `(2,2,2):(1,0,2) o (2,2):(3,1)` is `(2,2):(1,1)` by its
//! values, but 4 has the coordinate `(0,0,1)`, and 3 and 1 have `(1,1,0)` and `(1,0,0)`. Such a
//! composition is refused too. To accept it, one would have to compare the values for every index,
//! and for symbols nothing can.
//!
//! This finds the same modes as CuTe's algorithm whenever CuTe is right, so the printed forms
//! agree.

use super::assume::{Operands, advise};
use super::basis::{BasisPath, ScaledBasis};
use super::coalesce::{Flat, Keep};
use super::draft::{Draft, Operation, perform};
use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::number::{Number, Stride, split_i64};
use super::profile::LEAF;
use super::tiler::{TilerLeaf, TilerRef, TilerTuple};
use super::tuple::first_subtree;

type Done<N> = Result<(), <N as Number>::Error>;

/// The part of the left-hand side that one basis path of the right-hand side selects, and the sums
/// of its digits.
struct Left<N: Number> {
    path: BasisPath,
    flat: Flat<N>,
    /// True if all extents but the last are static.
    numbers: bool,
    /// For each mode but the last: the sum of the new modes' largest digits, and the current step's
    /// digit. Symbolic summands are in `symbolic_load`.
    load: N::Counts,
    symbolic_load: Option<Vec<N>>,
}

impl<N: Number> Left<N> {
    #[inline]
    fn new() -> Self {
        Self {
            path: BasisPath::default(),
            flat: Flat::default(),
            numbers: true,
            load: N::Counts::default(),
            symbolic_load: None,
        }
    }

    /// Checks the extents and clears the digit sums. Call it when `flat` has all its modes.
    #[inline]
    fn begin(&mut self) -> Done<N> {
        if let Some((_, inner)) = self.flat.modes.split_last() {
            for (extent, _) in inner {
                if extent.bounds().1 < 1 {
                    let extent = extent.to_int();
                    return Err(N::fail(|| LayoutError::ExtentNotPositive { extent }));
                }
                self.numbers &= extent.is_number();
                N::put(&mut self.load, (0, 0))?;
            }
        }
        Ok(())
    }

    #[cold]
    #[inline]
    fn not_admissible(&self, s: &N, d: &N) -> N::Error {
        N::fail(|| LayoutError::NotAdmissible {
            left: self.flat.to_string(),
            extent: s.to_int(),
            stride: d.to_int(),
        })
    }

    /// Appends the composition with the right-hand mode `s:d`, as one mode.
    #[inline]
    fn leaf(&mut self, s: &N, d: &N, out: &mut Draft<N>) -> Done<N> {
        match &*self.flat.modes {
            [] => return out.push(s.clone(), N::Stride::from_number(N::new(0))),
            [(_, stride)] => return out.push(s.clone(), stride.scaled(d)?),
            _ => {}
        }
        match (s.number(), d.number()) {
            (Some(s), Some(d)) if self.numbers => self.compose_numbers(s, d, out),
            _ => self.compose_symbolic(s, d, out),
        }
    }

    #[inline]
    fn compose_numbers(&mut self, s: i64, d: i64, out: &mut Draft<N>) -> Done<N> {
        let overflow = || N::overflow("composition");
        let mut step = d;
        let Some(((_, last), inner)) = self.flat.modes.split_last() else { return Ok(()) };
        if s == 1 {
            // With one coordinate any stride is right. CuTe prints this one.
            step = step.checked_abs().ok_or_else(overflow)?;
            for (extent, _) in inner {
                let extent = extent.number().unwrap_or(1);
                step = super::int::ceil_div_i64(step, extent).ok_or_else(overflow)?;
            }
            let step = N::new(step.checked_mul(d.signum()).ok_or_else(overflow)?);
            return out.push(N::new(1), last.scaled(&step)?);
        }
        let mut rest = s;
        let mut made = 0;
        loop {
            // Split the step into digits, and find out after how many steps the first one carries.
            let mut run = i64::MAX;
            let mut high = step;
            let mut value: Option<N::Stride> = None;
            for ((extent, stride), (_, digit)) in inner.iter().zip(self.load.iter_mut()) {
                let extent = extent.number().unwrap_or(1);
                (high, *digit) = split_i64(high, extent).ok_or_else(overflow)?;
                if *digit > 0 {
                    let (steps, _) = split_i64(extent - 1, *digit).ok_or_else(overflow)?;
                    run = run.min(steps + 1);
                    value = match sum(value, stride, &N::new(*digit))? {
                        Some(value) => Some(value),
                        None => return Err(self.not_admissible(&N::new(s), &N::new(d))),
                    };
                }
            }
            // The last mode is unbounded in both directions, so only its digit may be negative.
            if high != 0 {
                value = match sum(value, last, &N::new(high))? {
                    Some(value) => Some(value),
                    None => return Err(self.not_admissible(&N::new(s), &N::new(d))),
                };
            }
            let value = value.unwrap_or_else(|| N::Stride::from_number(N::new(0)));
            let count = if rest < run { rest } else { run };
            let (after, left) = split_i64(rest, count).ok_or_else(overflow)?;
            if left != 0 {
                return Err(self.not_admissible(&N::new(s), &N::new(d)));
            }
            for (load, digit) in self.load.iter_mut() {
                let max = (count - 1).checked_mul(*digit).ok_or_else(overflow)?;
                *load = load.checked_add(max).ok_or_else(overflow)?;
            }
            out.push(N::new(count), value)?;
            made += 1;
            rest = after;
            if rest == 1 {
                return out.group_last(made);
            }
            step = step.checked_mul(count).ok_or_else(overflow)?;
        }
    }

    /// Runs CuTe's algorithm on symbols. If their divisors and bounds decide a condition of
    /// admissibility, it is settled here. Otherwise the result carries the condition, and
    /// evaluation checks it.
    #[inline]
    fn compose_symbolic(&mut self, s: &N, d: &N, out: &mut Draft<N>) -> Done<N> {
        let (low, high) = d.bounds();
        if low < 0 && high <= 0 {
            return self.compose_negative(s, d, out);
        }
        if low < 0 {
            return Err(N::fail(|| LayoutError::Undecided {
                operation: "composition",
                condition: format!("the sign of {}", d.to_int()),
            }));
        }
        let mut step = d.clone();
        let mut rest = s.clone();
        let mut made = 0;
        let mut loads = self.take_loads();
        let Some(((_, last), inner)) = self.flat.modes.split_last() else { return Ok(()) };
        for (r, (extent, stride)) in inner.iter().enumerate() {
            let steps = extent.ceil_div(&step)?;
            let next = step.ceil_div(extent)?;
            if rest.is(1) || (steps.is(1) && step.multiple_of(extent)) {
                step = next;
                continue;
            }
            let count = steps.min(&rest)?;
            let open = self.open_condition(&step, extent, &count, &rest, (s, d))?;
            if steps.is(1) {
                rest = rest.on_condition(&open);
                step = next;
                continue;
            }
            let max = count.sub(&N::new(1))?.mul(&step)?;
            loads[r] = loads[r].add(&max)?;
            out.push(count.on_condition(&open), stride.scaled(&step)?)?;
            made += 1;
            let (after, left) = (rest.floor_div(&count)?, rest.modulo(&count)?);
            if left.is_number() && !left.is(0) {
                return Err(self.not_admissible(s, d));
            }
            rest = after.on_condition(&left);
            step = next;
        }
        if made == 0 || !rest.is(1) {
            out.push(rest, last.scaled(&step)?)?;
            made += 1;
        }
        self.symbolic_load = Some(loads);
        out.group_last(made)
    }

    /// Appends the composition with `s:d` for `d < 0`, as one mode. That is right if no digit
    /// carries within `s` steps, which [`check`](Left::check) tests.
    #[inline]
    fn compose_negative(&mut self, s: &N, d: &N, out: &mut Draft<N>) -> Done<N> {
        let mut loads = self.take_loads();
        let Some(((_, last), inner)) = self.flat.modes.split_last() else { return Ok(()) };
        let steps = s.sub(&N::new(1))?;
        let (mut value, mut high) = (None, d.clone());
        for (load, (extent, stride)) in loads.iter_mut().zip(inner) {
            let digit = high.modulo(extent)?;
            high = high.floor_div(extent)?;
            if !digit.is(0) {
                *load = load.add(&steps.mul(&digit)?)?;
                let next = sum(value, stride, &digit)?;
                value = Some(next.ok_or_else(|| self.not_admissible(s, d))?);
            }
        }
        let value = sum(value, last, &high)?.ok_or_else(|| self.not_admissible(s, d))?;
        self.symbolic_load = Some(loads);
        out.push(s.clone(), value)
    }

    fn take_loads(&mut self) -> Vec<N> {
        self.symbolic_load.take().unwrap_or_else(|| vec![N::new(0); self.load.len()])
    }

    /// Returns an expression that is 0 exactly if the step is a multiple of the extent, or if it is
    /// smaller and either divides the extent or ends inside it.
    #[inline]
    fn open_condition(
        &self,
        step: &N,
        extent: &N,
        count: &N,
        rest: &N,
        (s, d): (&N, &N),
    ) -> Result<N, N::Error> {
        if step.multiple_of(extent) {
            return Ok(N::new(0));
        }
        let short = extent.modulo(step)?.min(&rest.sub(count)?.max(&N::new(0))?)?;
        let inside = step.floor_div(extent)?.max(&short)?;
        let open = step.modulo(extent)?.min(&inside)?;
        if open.is_number() && !open.is(0) {
            return Err(self.not_admissible(s, d));
        }
        Ok(open)
    }

    /// Checks that the new modes do not carry into each other. Returns the extent that overflows,
    /// if there is one. If symbols leave it open, the last mode of `out` gets the condition.
    #[inline]
    fn check(&self, out: &mut Draft<N>) -> Result<Option<N>, N::Error> {
        for (i, ((load, _), (extent, _))) in
            self.load.iter().zip(self.flat.modes.iter()).enumerate()
        {
            let Some(symbolic) = &self.symbolic_load else {
                if extent.number().is_some_and(|extent| *load < extent) {
                    continue;
                }
                return Ok(Some(extent.clone()));
            };
            let load = symbolic[i].add(&N::new(*load))?;
            if !load.is(0) && !extent.at_least(&load.add(&N::new(1))?) {
                if extent.is_number() && load.is_number() {
                    return Ok(Some(extent.clone()));
                }
                // Only the symbols' values can decide this, so evaluation checks it.
                let excess = load.add(&N::new(1))?.sub(extent)?;
                out.check_last(&excess)?;
            }
        }
        Ok(None)
    }
}

/// Adds `times * stride` to `sum`. Returns `None` if the result is not a stride, that is, if it
/// would mix basis elements.
#[inline]
fn sum<S: Stride>(
    sum: Option<S>,
    stride: &S,
    times: &S::Number,
) -> Result<Option<S>, <S::Number as Number>::Error> {
    let part = stride.scaled(times)?;
    Ok(match sum {
        None => Some(part),
        Some(sum) => sum.plus(&part),
    })
}

/// The left-hand sides that the composition has used so far, one per basis path; usually just one.
pub(crate) struct Composer<'a, N: Number> {
    left: LayoutRef<'a>,
    first: Left<N>,
    begun: bool,
    others: Vec<Left<N>>,
}

impl<'a, N: Number> Composer<'a, N> {
    #[inline]
    pub(crate) fn new(left: LayoutRef<'a>) -> Self {
        Self { left, first: Left::new(), begun: false, others: Vec::new() }
    }

    /// The left-hand modes for a right-hand side with integer strides. Fill them before you call
    /// [`begin`](Composer::begin).
    #[inline]
    pub(crate) fn flat(&mut self) -> &mut Flat<N> {
        &mut self.first.flat
    }

    #[inline]
    pub(crate) fn begin(&mut self) -> Done<N> {
        self.begun = true;
        self.first.begin()
    }

    /// Appends the composition with `right`.
    #[inline]
    pub(crate) fn compose(&mut self, right: LayoutRef<'_>, out: &mut Draft<N>) -> Done<N> {
        let mut at = 0;
        for &code in right.codes {
            if code != LEAF {
                out.tuple(usize::from(code))?;
                continue;
            }
            if let (Some(s), Some(d)) = (right.shape.get(at), right.stride.get(at)) {
                self.leaf(&N::read(s)?, &N::Stride::read(d)?, out)
                    .map_err(|e| within_leaf::<N>(e, right.codes, at))?;
            }
            at += 1;
        }
        Ok(())
    }

    /// Appends the composition with `right`, as one mode.
    #[inline]
    pub(crate) fn compose_flat(&mut self, right: &Flat<N>, out: &mut Draft<N>) -> Done<N> {
        let many = right.modes.len() > 1;
        if many {
            out.tuple(right.modes.len())?;
        }
        for (i, (s, d)) in right.modes.iter().enumerate() {
            self.leaf(s, d, out).map_err(|e| if many { N::within(e, i) } else { e })?;
        }
        Ok(())
    }

    #[inline]
    fn leaf(&mut self, s: &N, d: &N::Stride, out: &mut Draft<N>) -> Done<N> {
        if s.bounds().1 < 1 {
            return Err(N::fail(|| LayoutError::ExtentNotPositive { extent: s.to_int() }));
        }
        let step = d.factor()?;
        if step.is(0) {
            return out.push(s.clone(), N::Stride::from_number(N::new(0)));
        }
        if self.begun && self.first.path == d.path() {
            return self.first.leaf(s, step, out);
        }
        self.part(d)?.leaf(s, step, out)
    }

    /// Returns the left-hand side for a stride's basis path, and adds it if it is new.
    #[inline]
    fn part(&mut self, d: &N::Stride) -> Result<&mut Left<N>, N::Error> {
        let path = d.path();
        let known = |part: &Left<N>| part.path == path;
        if let Some(at) = self.others.iter().position(known) {
            return Ok(&mut self.others[at]);
        }
        // A layout cannot take both an integer and a tuple as its argument.
        let modes = path.modes();
        let mixed = |part: &Left<N>| {
            let other = part.path.modes();
            other.starts_with(modes) || modes.starts_with(other)
        };
        if (self.begun && mixed(&self.first)) || self.others.iter().any(mixed) {
            let stride = d.to_basis().to_string();
            return Err(N::fail(|| LayoutError::MixedCodomain { stride }));
        }
        let mut mode = self.left;
        for &p in modes {
            let (p, rank) = (usize::from(p), mode.rank());
            mode = mode
                .modes()
                .nth(p)
                .ok_or_else(|| N::fail(|| LayoutError::NoSuchMode { mode: p, rank }))?;
        }
        if self.begun {
            self.others.push(Left::new());
        }
        self.begun = true;
        let part = self.others.last_mut().unwrap_or(&mut self.first);
        part.path = path;
        part.flat.coalesce(mode, Keep::WideAndLast)?;
        part.begin()?;
        Ok(part)
    }

    /// Checks that the new modes do not carry into each other.
    #[inline]
    pub(crate) fn check(&self, right: LayoutRef<'_>, out: &mut Draft<N>) -> Done<N> {
        for part in std::iter::once(&self.first).chain(&self.others) {
            if let Some(extent) = part.check(out)? {
                return Err(N::fail(|| LayoutError::Carries {
                    left: self.left.to_string(),
                    right: right.to_string(),
                    extent: extent.to_int(),
                }));
            }
        }
        Ok(())
    }
}

/// Adds the path of leaf `leaf` to the error.
#[cold]
fn within_leaf<N: Number>(error: N::Error, codes: &[u16], leaf: usize) -> N::Error {
    if codes.first() == Some(&LEAF) {
        return error;
    }
    let mut rest = codes.get(1..).unwrap_or(&[]);
    let mut before = 0;
    let mut mode = 0;
    loop {
        let (nodes, leaves) = first_subtree(rest);
        if nodes == 0 {
            return error;
        }
        let (child, after) = rest.split_at(nodes);
        if leaf < before + leaves {
            return N::within(within_leaf::<N>(error, child, leaf - before), mode);
        }
        (rest, before, mode) = (after, before + leaves, mode + 1);
    }
}

/// Appends `left o right`.
#[inline]
pub(crate) fn compose_into<N: Number>(
    left: LayoutRef<'_>,
    right: LayoutRef<'_>,
    out: &mut Draft<N>,
) -> Done<N> {
    let mut composer = Composer::new(left);
    composer.compose(right, out)?;
    composer.check(right, out)
}

/// An operation on a layout and a tile, which [`ByTiler`] applies mode by mode.
pub(crate) trait Pairwise {
    /// True if the result keeps the modes that the tiler does not cover.
    const REST: bool;

    fn pair<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N>;
}

/// Applies a [`Pairwise`] operation by a tiler.
pub(crate) struct ByTiler<'a, P> {
    pub(crate) layout: LayoutRef<'a>,
    pub(crate) tiler: TilerRef<'a>,
    pub(crate) pairwise: P,
}

impl<P: Pairwise> Operation for ByTiler<'_, P> {
    #[inline]
    fn run<N: Number>(&self, out: &mut Draft<N>) -> Done<N> {
        match self.tiler {
            TilerRef::Layout(tile) => self.pairwise.pair(self.layout, tile, out),
            TilerRef::Tuple(tiler) => by_tiler(self.layout, tiler, &self.pairwise, out),
        }
    }
}

/// Pairs each mode of `layout` with the tiler's leaf for it.
fn by_tiler<N: Number, P: Pairwise>(
    layout: LayoutRef<'_>,
    tiler: TilerTuple<'_>,
    pairwise: &P,
    out: &mut Draft<N>,
) -> Done<N> {
    if let Some(leaf) = tiler.as_leaf() {
        return match leaf {
            TilerLeaf::Int(extent) => {
                // Divide and product turn the integer into a layout, and 1 into `1:0`.
                let stride = ScaledBasis::from(if P::REST && extent.is(1) { 0 } else { 1 });
                let tile = LayoutRef {
                    codes: &[LEAF],
                    shape: std::slice::from_ref(extent),
                    stride: std::slice::from_ref(&stride),
                };
                pairwise.pair(layout, tile, out)
            }
            TilerLeaf::Layout(tile) => pairwise.pair(layout, tile.as_ref().as_ref(), out),
            TilerLeaf::All => out.push_ref(layout),
        };
    }
    let (modes, rank) = (tiler.rank(), layout.rank());
    if modes > rank {
        return Err(N::fail(|| LayoutError::TooManyModes { tiler: modes, layout: rank }));
    }
    out.tuple(if P::REST { rank } else { modes })?;
    let mut tiles = tiler.children();
    for (i, mode) in layout.modes().enumerate() {
        match tiles.next() {
            Some(tile) => {
                by_tiler(mode, tile, pairwise, out).map_err(|e| N::within(e, i))?;
            }
            None if P::REST => out.push_ref(mode)?,
            None => break,
        }
    }
    Ok(())
}

/// Runs an operation on a layout and a tiler. If it fails, adds to the error the assumption about a
/// symbol that would make it succeed.
#[inline]
pub(crate) fn by_tiler_or_advice(
    layout: LayoutRef<'_>,
    tiler: TilerRef<'_>,
    operation: impl Fn(LayoutRef<'_>, TilerRef<'_>) -> Result<Layout, LayoutError>,
) -> Result<Layout, LayoutError> {
    operation(layout, tiler).map_err(|error| {
        let operands = Operands::new(layout).with_tiler(tiler);
        advise(error, &operands, |o| operation(o.layout.as_ref(), (&o.tiler).into()))
    })
}

struct Composition;

impl Pairwise for Composition {
    const REST: bool = false;

    #[inline]
    fn pair<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N> {
        compose_into(layout, tile, out)
    }
}

/// # Composition
///
/// Applies one layout after another.
impl Layout {
    /// Returns `self o right`: the layout that applies `right` first and `self` to its result. Use
    /// it to select or reorder the elements of `self`. For example, `(6,2):(8,2)` after
    /// `(4,3):(3,1)` is `((2,2),3):((24,2),8)`. The equation is `R(i) == self⁺(right(i))` for all
    /// `i < size(right)`, where `self⁺` is `self` with its last mode unbounded. `R` has `right`'s
    /// shape or a refinement of it: `compatible(shape(right), shape(R))`.
    ///
    /// If you pass a tiler instead of a layout, it is applied mode by mode: an integer `n` stands
    /// for `n:1`, and `_` keeps the mode. Modes that the tiler does not cover are dropped.
    ///
    /// If the divisors and bounds of symbols do not settle whether the equation holds, the result
    /// carries that condition, and an evaluation that violates it returns
    /// [`LayoutError::ConditionViolated`].
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((6, 2):(8, 2));
    /// assert_eq!(a.composition(&layout!((4, 3):(3, 1)))?, layout!(((2, 2), 3):((24, 2), 8)));
    /// assert_eq!(a.composition(&tiler!(2, 2:1))?, layout!((2, 2):(8, 2)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAdmissible`] if one of `right`'s modes leaves a mode of `self` at
    /// a place that does not divide it, [`LayoutError::Carries`] if two of its modes carry into
    /// each other (the few layouts of three modes and more in which carries cancel are refused
    /// too), [`LayoutError::Undecided`] if symbols leave a sign open, [`LayoutError::TooManyModes`]
    /// if the tiler has more modes than `self`, [`LayoutError::MixedCodomain`] if `right` mixes
    /// integer strides and basis elements, and [`LayoutError::Overflow`].
    #[doc(alias = "compose")]
    pub fn composition<'t>(&self, right: impl Into<TilerRef<'t>>) -> Result<Layout, LayoutError> {
        by_tiler_or_advice(self.as_ref(), right.into(), |layout, tiler| {
            perform(&ByTiler { layout, tiler, pairwise: Composition })
        })
    }
}
