//! Computes `composition`: a layout after a layout or after a tiler, with the test of
//! admissibility.
//!
//! The law is `R(i) == A⁺(B(i))` for all `i < size(B)`, where `A⁺` is `A` with its last mode
//! unbounded in both directions. The shape of `R` refines the shape of `B`. Every integer, also -1,
//! has digits in the modes of `A⁺`: the inner digits are in their extents, and the last digit is
//! negative for a negative index.
//!
//! The steps are:
//! * `A` is coalesced first, which makes its modes digits of a mixed radix.
//! * Each mode `s:d` of `B` is composed alone. `i * d` is affine in `i` until the first digit
//!   carries, after `n = min ceil(extent / digit of d)` steps. So `n` must divide `s`, and `n:A(d)`
//!   is followed by the composition of `s/n : n*d`.
//! * The largest digits of all new modes are added, and no sum may carry.
//!
//! CuTe's algorithm finds the same modes wherever it is right, so the printed forms agree.

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

/// The left side below one basis path of the right side, and the load of its digits.
struct Left<N: Number> {
    path: BasisPath,
    flat: Flat<N>,
    /// True if the extents of all modes but the last are numbers.
    numbers: bool,
    /// For each mode but the last, the sum of the largest digits of all new modes, and the digit of
    /// the current step. Symbolic summands are in `symbolic_load`.
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

    /// Starts the composition. The modes must be complete.
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

    /// Appends the composition with the mode `s:d` of the right side, as one mode.
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
            // Any stride is right; CuTe prints this one.
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
            // The digits of the step, and the number of steps until the first of them carries.
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
            // The last mode is unbounded both ways, so only its digit may be negative.
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

    /// CuTe's algorithm. A condition of admissibility is decided by divisors and bounds if they
    /// suffice; otherwise the result carries it, and evaluation checks it.
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

    /// The composition with `s:d` for `d < 0` as one mode. It is right if no digit carries in `s`
    /// steps, which [`check`](Left::check) tests.
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

    /// A number that is 0 exactly if the step is a multiple of the extent, or is smaller and either
    /// divides it or ends inside it.
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

    /// Checks that the new modes do not carry into each other. Returns the extent that overflows;
    /// an open condition goes to the last mode of `out`.
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
                // The values of the symbols decide this condition at evaluation.
                let excess = load.add(&N::new(1))?.sub(extent)?;
                out.check_last(&excess)?;
            }
        }
        Ok(None)
    }
}

/// The sum of a stride and a multiple of another, if it is a stride.
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

/// The left sides that the right side has used so far; usually one.
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

    /// The modes of the left side for a right side of integer strides. The caller fills them before
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

    /// The left side at the path of a stride.
    #[inline]
    fn part(&mut self, d: &N::Stride) -> Result<&mut Left<N>, N::Error> {
        let path = d.path();
        let known = |part: &Left<N>| part.path == path;
        if let Some(at) = self.others.iter().position(known) {
            return Ok(&mut self.others[at]);
        }
        // Values of both kinds cannot be added, so one layout cannot have both as arguments.
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

/// The error, wrapped in the path of the leaf `leaf` of a layout.
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

/// An operation that appends the result for two layouts to a draft.
pub(crate) trait Pairwise {
    /// True if modes beyond the tiler are kept.
    const REST: bool;

    fn pair<N: Number>(
        &self,
        layout: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N>;
}

/// A pairwise operation of a layout and a tiler.
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

/// Pairs each mode of `layout` with the leaf of `tiler` there.
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

/// The result of an operation of a layout and a tiler, or its error with the assumption about a
/// symbol that it needs.
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

impl Layout {
    /// `self o right`: the layout with `R(i) == self⁺(right(i))` for all `i < size(right)`, where
    /// `self⁺` is `self` with its last mode unbounded. `compatible(shape(right), shape(R))`.
    ///
    /// A tiler instead of a layout is applied mode by mode: an integer `n` stands for `n:1`, and
    /// `_` keeps the mode. Modes beyond the tiler are left out.
    ///
    /// If the divisors and bounds of symbols leave the law open, the result carries the condition.
    /// An evaluation that violates it is [`LayoutError::ConditionViolated`].
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
    /// [`LayoutError::NotAdmissible`] if a mode of `right` alone has no such layout,
    /// [`LayoutError::Carries`] if two modes of `right` carry into each other,
    /// [`LayoutError::Undecided`] if symbols leave a sign open, [`LayoutError::TooManyModes`],
    /// [`LayoutError::MixedCodomain`], [`LayoutError::Overflow`].
    #[doc(alias = "compose")]
    pub fn composition<'t>(&self, right: impl Into<TilerRef<'t>>) -> Result<Layout, LayoutError> {
        by_tiler_or_advice(self.as_ref(), right.into(), |layout, tiler| {
            perform(&ByTiler { layout, tiler, pairwise: Composition })
        })
    }
}
