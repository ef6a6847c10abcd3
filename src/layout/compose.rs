//! `composition`: a layout after a layout, after a tiler, and the test of admissibility.
//!
//! The law is `R(i) == A⁺(B(i))` for all `i < size(B)`, where `A⁺` is `A` with its last mode
//! unbounded, and the shape of `B` is refined by the shape of `R`. `A` is coalesced first, which
//! makes its modes digits of a mixed radix, and each mode `s:d` of `B` is composed alone:
//! `i * d` is affine in `i` until the first digit carries, after
//! `n = min ceil(extent / digit of d)` steps, so `n` must divide `s`, and `n:A(d)` is followed by
//! the composition of `s/n : n*d`. Finally the largest digits of all modes that were made must not
//! carry when they are added. CuTe's algorithm finds the same modes where it is right, so the
//! printed forms agree.

use smallvec::SmallVec;

use super::basis::{Scale, ScaledBasis};
use super::coalesce::Flat;
use super::error::LayoutError;
use super::int::Int;
use super::layout::{Layout, LayoutBuilder, LayoutRef};
use super::tiler::{TilerLeaf, TilerRef, TilerTuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// The left side below one basis path of the right side, and how full its digits are.
struct Left {
    path: SmallVec<[u8; 8]>,
    flat: Flat,
    /// The extents of all modes but the last, if they are numbers.
    radix: Option<SmallVec<[i64; 8]>>,
    /// For each mode but the last, the sum of the largest digits of all modes made so far: the part
    /// that is a number, and the part that is not.
    load: SmallVec<[i64; 8]>,
    symbolic_load: Option<SmallVec<[Int; 8]>>,
}

impl Left {
    fn new(layout: LayoutRef<'_>, path: &[u8]) -> Result<Self> {
        let mut mode = layout;
        for &p in path {
            let p = usize::from(p);
            let rank = mode.rank();
            mode = mode.modes().nth(p).ok_or(LayoutError::NoSuchMode { mode: p, rank })?;
        }
        Self::of(Flat::coalesced(mode, true)?, path)
    }

    #[inline]
    fn of(flat: Flat, path: &[u8]) -> Result<Self> {
        let inner = flat.shape.len().saturating_sub(1);
        if let Some(extent) = flat.shape[..inner].iter().find(|s| s.bounds().1 < 1) {
            return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
        }
        let radix = flat.shape[..inner].iter().map(Int::as_static).collect();
        let load = SmallVec::from_elem(0, inner);
        Ok(Self { path: SmallVec::from_slice(path), flat, radix, load, symbolic_load: None })
    }
}

/// The left sides that a right side has used so far; most have one.
struct Composer<'a> {
    left: LayoutRef<'a>,
    parts: SmallVec<[Left; 1]>,
}

impl<'a> Composer<'a> {
    fn new(left: LayoutRef<'a>) -> Self {
        Self { left, parts: SmallVec::new() }
    }

    fn walk(&mut self, right: LayoutRef<'_>, out: &mut LayoutBuilder) -> Result<()> {
        if let (Some(s), Some(d)) = (right.shape().as_leaf(), right.stride().as_leaf()) {
            return self.leaf(s, d, out);
        }
        out.open();
        for (i, mode) in right.modes().enumerate() {
            self.walk(mode, out).map_err(|e| e.at(i))?;
        }
        out.close();
        Ok(())
    }

    #[inline]
    fn leaf(&mut self, s: &Int, d: &ScaledBasis, out: &mut LayoutBuilder) -> Result<()> {
        if s.bounds().1 < 1 {
            return Err(LayoutError::ExtentNotPositive { extent: s.clone() });
        }
        let Scale::Int(step) = &d.value else {
            return Err(LayoutError::NotAnIntegerStride { stride: d.to_string() });
        };
        if step.is(0) {
            out.push(s.clone(), 0);
            return Ok(());
        }
        let path = d.path.modes();
        let at = match self.parts.iter().position(|p| p.path.as_slice() == path) {
            Some(at) => at,
            None => {
                // Values of both kinds cannot be added, so they cannot be arguments of one layout.
                if self.parts.iter().any(|p| p.path.starts_with(path) || path.starts_with(&p.path))
                {
                    return Err(LayoutError::MixedCodomain { stride: d.to_string() });
                }
                self.parts.push(Left::new(self.left, path)?);
                self.parts.len() - 1
            }
        };
        let part = &mut self.parts[at];
        match (&*part.flat.shape, &*part.flat.stride) {
            ([], _) | (_, []) => {
                out.push(s.clone(), 0);
                return Ok(());
            }
            ([_], [stride]) => {
                out.push(s.clone(), stride.scaled(step)?);
                return Ok(());
            }
            _ => {}
        }
        match (s.as_static(), step.as_static()) {
            (Some(s), Some(d)) if part.radix.is_some() => part.compose_static(s, d, out),
            _ => part.compose_symbolic(s, step, out),
        }
    }

    /// The modes that were made must not carry into each other.
    fn check(&self, right: LayoutRef<'_>, out: &mut LayoutBuilder) -> Result<()> {
        for part in &self.parts {
            for (i, (extent, load)) in part.flat.shape.iter().zip(&part.load).enumerate() {
                let Some(symbolic) = &part.symbolic_load else {
                    if extent.as_static().is_some_and(|extent| *load < extent) {
                        continue;
                    }
                    return Err(LayoutError::Carries {
                        left: self.left.to_string(),
                        right: right.to_string(),
                        extent: extent.clone(),
                    });
                };
                let load = symbolic[i].add(&Int::new(*load))?;
                if !load.is(0) && !extent.at_least(&load.add(&Int::ONE)?) {
                    if extent.is_static() && load.is_static() {
                        return Err(LayoutError::Carries {
                            left: self.left.to_string(),
                            right: right.to_string(),
                            extent: extent.clone(),
                        });
                    }
                    // The symbols decide it when they are known.
                    let excess = load.add(&Int::ONE)?.sub(extent)?;
                    out.check_last(&excess);
                }
            }
        }
        Ok(())
    }
}

impl Left {
    #[cold]
    fn not_admissible(&self, s: impl Into<Int>, d: impl Into<Int>) -> LayoutError {
        let mut left = LayoutBuilder::new();
        self.flat.clone().emit(&mut left);
        let left = left.finish().map_or_else(|e| e.to_string(), |l| l.to_string());
        LayoutError::NotAdmissible { left, extent: s.into(), stride: d.into() }
    }

    fn compose_static(&mut self, s: i64, d: i64, out: &mut LayoutBuilder) -> Result<()> {
        let radix: &[i64] = self.radix.as_deref().unwrap_or(&[]);
        let overflow = || LayoutError::overflow("composition");
        let sign = d.signum();
        let mut step = d.checked_abs().ok_or_else(overflow)?;
        let strides = &self.flat.stride;
        let Some(last) = strides.last() else { return Ok(()) };
        let mut rest = s;
        if s == 1 {
            // Any stride is right; this is the one that CuTe prints.
            for &extent in radix {
                step = super::int::ceil_div_i64(step, extent).ok_or_else(overflow)?;
            }
            let step = Int::new(step.checked_mul(sign).ok_or_else(overflow)?);
            out.push(Int::ONE, last.scaled(&step)?);
            return Ok(());
        }
        let mut made = 0;
        loop {
            // The digits of the step, and after how many steps the first of them carries.
            let mut run = i64::MAX;
            let mut high = step;
            let mut digits: SmallVec<[i64; 8]> = SmallVec::new();
            let mut value: Option<ScaledBasis> = None;
            for (r, stride) in strides.iter().enumerate() {
                let digit = match radix.get(r) {
                    Some(&extent) => {
                        let digit = high % extent;
                        high /= extent;
                        if digit > 0 {
                            run = run.min((extent - 1) / digit + 1);
                        }
                        digits.push(digit);
                        digit
                    }
                    None => high,
                };
                if digit != 0 {
                    let part = stride.scaled(&Int::new(digit * sign))?;
                    value = Some(match value {
                        None => part,
                        Some(sum) if sum.is_zero() => part,
                        Some(sum) if part.is_zero() => sum,
                        Some(sum) => match (&sum.value, &part.value) {
                            (Scale::Int(a), Scale::Int(b)) if sum.path == part.path => {
                                sum.with_value(a.add(b)?)
                            }
                            _ => return Err(self.not_admissible(s, d)),
                        },
                    });
                }
            }
            let value = value.unwrap_or_else(|| 0.into());
            let count = rest.min(run);
            if rest % count != 0 {
                return Err(self.not_admissible(s, d));
            }
            for (load, digit) in self.load.iter_mut().zip(&digits) {
                let most = (count - 1).checked_mul(*digit).ok_or_else(overflow)?;
                *load = load.checked_add(most).ok_or_else(overflow)?;
            }
            out.push(Int::new(count), value);
            made += 1;
            rest /= count;
            if rest == 1 {
                out.group_last(made);
                return Ok(());
            }
            step = step.checked_mul(count).ok_or_else(overflow)?;
        }
    }

    /// CuTe's algorithm. A condition of admissibility that divisors and bounds decide is decided;
    /// one that they leave open goes with the result, and evaluation checks it.
    fn compose_symbolic(&mut self, s: &Int, d: &Int, out: &mut LayoutBuilder) -> Result<()> {
        let (low, high) = d.bounds();
        let (sign, mut step) = if low >= 0 {
            (Int::ONE, d.clone())
        } else if high <= 0 {
            (Int::new(-1), d.negate()?)
        } else {
            return Err(LayoutError::Undecided {
                operation: "composition",
                condition: format!("the sign of {d}"),
            });
        };
        let mut rest = s.clone();
        let mut made = 0;
        let inner_modes = self.load.len();
        let load =
            self.symbolic_load.get_or_insert_with(|| SmallVec::from_elem(Int::ZERO, inner_modes));
        let mut loads = std::mem::take(load);
        let strides = self.flat.stride.clone();
        let Some((last, inner)) = strides.split_last() else { return Ok(()) };
        for (r, stride) in inner.iter().enumerate() {
            let extent = self.flat.shape[r].clone();
            let steps = extent.ceil_div(&step)?;
            let next = step.ceil_div(&extent)?;
            if rest.is(1) || (steps.is(1) && step.multiple_of(&extent)) {
                step = next;
                continue;
            }
            let count = steps.min(&rest)?;
            let open = self.open_condition(&step, &extent, &count, &rest, (s, d))?;
            if steps.is(1) {
                rest = rest.on_condition(&open);
                step = next;
                continue;
            }
            let most = count.sub(&Int::ONE)?.mul(&step)?;
            loads[r] = loads[r].add(&most)?;
            out.push(count.on_condition(&open), stride.scaled(&step.mul(&sign)?)?);
            made += 1;
            let (after, left) = (rest.floor_div(&count)?, rest.modulo(&count)?);
            if left.is_static() && !left.is(0) {
                return Err(self.not_admissible(s.clone(), d.clone()));
            }
            rest = after.on_condition(&left);
            step = next;
        }
        if made == 0 || !rest.is(1) {
            out.push(rest, last.scaled(&step.mul(&sign)?)?);
            made += 1;
        }
        out.group_last(made);
        self.symbolic_load = Some(loads);
        Ok(())
    }

    /// A number that is 0 if and only if the step is a multiple of the extent, or is less and
    /// divides it or ends inside of it.
    fn open_condition(
        &self,
        step: &Int,
        extent: &Int,
        count: &Int,
        rest: &Int,
        (s, d): (&Int, &Int),
    ) -> Result<Int> {
        if step.multiple_of(extent) {
            return Ok(Int::ZERO);
        }
        let short = extent.modulo(step)?.min(&rest.sub(count)?.max(&Int::ZERO)?)?;
        let inside = step.floor_div(extent)?.max(&short)?;
        let open = step.modulo(extent)?.min(&inside)?;
        if open.is_static() && !open.is(0) {
            return Err(self.not_admissible(s.clone(), d.clone()));
        }
        Ok(open)
    }
}

/// Appends `left o right`.
pub(crate) fn compose_into(
    left: LayoutRef<'_>,
    right: LayoutRef<'_>,
    out: &mut LayoutBuilder,
) -> Result<()> {
    let mut composer = Composer::new(left);
    composer.walk(right, out)?;
    composer.check(right, out)
}

/// Appends `left o (tile, rest)` for a coalesced left side and integer strides.
pub(crate) fn compose_pair_into(
    left: LayoutRef<'_>,
    flat: Flat,
    tile: LayoutRef<'_>,
    rest: &Flat,
    out: &mut LayoutBuilder,
) -> Result<()> {
    let mut composer = Composer::new(left);
    composer.parts.push(Left::of(flat, &[])?);
    out.open();
    composer.walk(tile, out)?;
    let many = rest.shape.len() > 1;
    if many {
        out.open();
    }
    for (i, (s, d)) in rest.shape.iter().zip(&rest.stride).enumerate() {
        composer.leaf(s, d, out).map_err(|e| if many { e.at(i).at(1) } else { e.at(1) })?;
    }
    if many {
        out.close();
    }
    out.close();
    composer.check(tile, out)
}

/// Appends `left o right` for a coalesced left side.
pub(crate) fn compose_flat_into(
    left: LayoutRef<'_>,
    flat: Flat,
    right: LayoutRef<'_>,
    out: &mut LayoutBuilder,
) -> Result<()> {
    let mut composer = Composer::new(left);
    composer.parts.push(Left::of(flat, &[])?);
    composer.walk(right, out)?;
    composer.check(right, out)
}

/// Applies `f` to each mode of `layout` at a leaf of `tiler`. With `rest`, modes that the tiler does
/// not have are kept.
pub(crate) fn by_tiler(
    layout: LayoutRef<'_>,
    tiler: TilerTuple<'_>,
    out: &mut LayoutBuilder,
    f: &mut impl FnMut(LayoutRef<'_>, LayoutRef<'_>, &mut LayoutBuilder) -> Result<()>,
    rest: bool,
) -> Result<()> {
    if let Some(leaf) = tiler.as_leaf() {
        return match leaf {
            TilerLeaf::Int(extent) => {
                // A divide and a product make a layout of the integer, `1:0` of 1.
                let stride = if rest && extent.is(1) { 0 } else { 1 };
                let tile = Layout::leaf(extent.clone(), stride);
                f(layout, tile.as_ref(), out)
            }
            TilerLeaf::Layout(tile) => f(layout, tile.as_ref().as_ref(), out),
            TilerLeaf::All => {
                out.push_ref(layout);
                Ok(())
            }
        };
    }
    if tiler.rank() > layout.rank() {
        return Err(LayoutError::TooManyModes { tiler: tiler.rank(), layout: layout.rank() });
    }
    out.open();
    let mut tiles = tiler.children();
    for (i, mode) in layout.modes().enumerate() {
        match tiles.next() {
            Some(tile) => by_tiler(mode, tile, out, f, rest).map_err(|e| e.at(i))?,
            None if rest => out.push_ref(mode),
            None => break,
        }
    }
    out.close();
    Ok(())
}

impl Layout {
    /// `self o right`: the layout with `R(i) == self⁺(right(i))` for all `i < size(right)`, where
    /// `self⁺` is `self` with its last mode unbounded. `compatible(shape(right), shape(R))`.
    ///
    /// A tiler instead of a layout is applied mode by mode: an integer `n` stands for `n:1`, `_`
    /// keeps the mode; modes that the tiler does not have are left out.
    ///
    /// Where the divisors and bounds of symbols leave open whether the law holds, the result carries
    /// the condition, and its evaluation is [`LayoutError::ConditionViolated`] where it is not met.
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
    pub fn composition<'t>(&self, right: impl Into<TilerRef<'t>>) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        match right.into() {
            TilerRef::Layout(right) => compose_into(self.as_ref(), right, &mut out)?,
            TilerRef::Tuple(tiler) => {
                by_tiler(self.as_ref(), tiler, &mut out, &mut compose_into, false)?;
            }
        }
        out.finish()
    }
}
