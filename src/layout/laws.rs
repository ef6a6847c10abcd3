//! Checks a result of the algebra against the definition of its operation. Use it to test a layout
//! function of your own, or to convince yourself of a result.
//!
//! Each function takes the operands of an operation and a result, whoever computed it. It evaluates
//! both sides of the operation's equation at every coordinate and returns the first [`Violation`]:
//! the law, the coordinate, and both values. For example, this is how you test a composition of
//! your own against [`Layout::composition`]'s definition:
//!
//! ```
//! use tilewright::layout::{layout, laws};
//!
//! let (a, b) = (layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1)));
//! laws::check_composition(&a, &b, &a.composition(&b)?)?;
//!
//! let error = laws::check_composition(&a, &b, &layout!((4, 3):(24, 8))).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "composition, `R(i) == A(B(i))`: at 2 the left side is 48 and the right side is 2"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Violation`] is an error, so `?` works in the body of a `proptest!` test and in a `main`.
//!
//! # What is checked, and what is trusted
//!
//! * A check evaluates layouts ([`Layout::at`], [`ComposedLayout::apply`]) and never calls the
//!   operation that it checks. Divides and products are defined by a complement, so their checks
//!   compute one and check it too.
//! * The layouts must be static: evaluate symbols with [`Layout::eval`] first. The law of a
//!   symbolic operation is [`check_same`] of `op(L).eval(env)` and `op(L.eval(env))`.
//! * Up to [`LIMIT`] coordinates are walked. If a domain has more, the rest is not looked at.
//! * That an operation *refuses* its operands is not a violation. To show that it refuses nothing
//!   that has a result, run it on [`all_layouts`] and look for the result by brute force.

mod all_layouts;
mod inverse;
mod parts;
mod tiling;

pub use all_layouts::{AllLayouts, all_layouts};
pub use inverse::{
    check_common_layout, check_left_inverse, check_longest_right_inverse, check_nullspace,
    check_right_inverse, check_right_inverse_below,
};
pub use parts::{check_local_partition, check_local_tile, check_recast, check_slice};
pub use tiling::{
    check_blocked_product, check_flat_divide, check_flat_product, check_logical_divide,
    check_logical_product, check_raked_product, check_tile_to_shape, check_tiled_divide,
    check_tiled_product, check_zipped_divide, check_zipped_product,
};

use std::fmt;

use super::analysis::Analysis as _;
use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::tiler::{TilerLeaf, TilerRef, TilerTuple};
use super::tuple::{IntTuple, IntTupleRef, Tuple};
use crate::errors::errors;

/// What a check returns.
type Check = Result<(), Violation>;

/// The most coordinates that a check visits. It does not look at the rest of a larger domain.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// // The two differ at the last coordinate only, which is beyond the limit.
/// let (a, b) = (layout!((65536, 2):(1, 65536)), layout!((65536, 2):(1, 0)));
/// assert_eq!(laws::LIMIT, 65536);
/// assert!(laws::check_same(&a, &b).is_ok() && !a.same_function(&b)?);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub const LIMIT: i64 = 1 << 16;

/// The laws that this module can check. Each prints as its operation and its equation.
/// [`Violation::law`] returns the one that failed.
///
/// ```
/// use tilewright::layout::laws::Law;
/// assert_eq!(Law::RightInverse.to_string(), "right_inverse, `L(R(i)) == i`");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Law {
    /// Two layouts are the same function.
    Same,
    /// `coalesce` and `coalesce_by`.
    Coalesce,
    /// `filter`.
    Filter,
    /// `composition`.
    Composition,
    /// `complement`.
    Complement,
    /// `right_inverse`.
    RightInverse,
    /// `left_inverse`.
    LeftInverse,
    /// `nullspace`.
    Nullspace,
    /// `max_common_layout`.
    CommonLayout,
    /// `logical_divide`, and its zipped, tiled and flat forms.
    Divide,
    /// `logical_product`, and its zipped, tiled and flat forms.
    Product,
    /// `blocked_product`.
    BlockedProduct,
    /// `raked_product`.
    RakedProduct,
    /// `tile_to_shape`.
    TileToShape,
    /// `slice_and_offset`, `local_tile` and `local_partition`.
    Slice,
    /// `recast_layout`, `upcast` and `downcast`.
    Recast,
}

impl Law {
    /// Returns the operation's name in CuTe, for example `logical_divide`.
    ///
    /// ```
    /// # use tilewright::layout::laws::Law;
    /// assert_eq!(Law::Divide.operation(), "logical_divide");
    /// ```
    pub fn operation(self) -> &'static str {
        self.texts().0
    }

    /// Returns the equation for the result `R`, for example `R(i) == A(B(i))`, to print in a
    /// message.
    ///
    /// ```
    /// # use tilewright::layout::laws::Law;
    /// assert_eq!(Law::Composition.equation(), "R(i) == A(B(i))");
    /// ```
    pub fn equation(self) -> &'static str {
        self.texts().1
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Law::Same => ("same_function", "R(i) == L(i)"),
            Law::Coalesce => ("coalesce", "R(i) == L(i), flat, no two adjacent modes are one"),
            Law::Filter => ("filter", "R(i) == L(i) without the modes of stride 0"),
            Law::Composition => ("composition", "R(i) == A(B(i))"),
            Law::Complement => {
                ("complement", "(filter(L), R) is one-to-one, R increases and reaches the cotarget")
            }
            Law::RightInverse => ("right_inverse", "L(R(i)) == i"),
            Law::LeftInverse => ("left_inverse", "L(R(L(i))) == L(i)"),
            Law::Nullspace => ("nullspace", "L(R(i)) == 0"),
            Law::CommonLayout => ("max_common_layout", "A(R(i)) == i == B(R(i))"),
            Law::Divide => ("logical_divide", "R == L o (T, complement(T, shape(L)))"),
            Law::Product => ("logical_product", "R == (B, complement(B, size(B) * cosize(T)) o T)"),
            Law::BlockedProduct => {
                ("blocked_product", "R((b0,t0),..) == product(B, T)((b0,..),(t0,..))")
            }
            Law::RakedProduct => {
                ("raked_product", "R((t0,b0),..) == product(B, T)((b0,..),(t0,..))")
            }
            Law::TileToShape => ("tile_to_shape", "R(c + size(B) * t) == B(c) + R(size(B) * t)"),
            Law::Slice => ("slice", "L(c) == offset + R(rest of c)"),
            Law::Recast => ("recast_layout", "the same bits in elements of another width"),
        }
    }

    /// Makes the violation for a side that cannot be evaluated.
    fn stuck(self) -> impl Fn(LayoutError) -> Violation {
        move |cause| Violation::NotEvaluated { law: self, cause }
    }

    /// Makes the violation for a result of the wrong form.
    fn form(self, result: impl fmt::Display, fault: impl fmt::Display) -> Violation {
        Violation::Form { law: self, result: result.to_string(), fault: fault.to_string() }
    }

    fn equal(self, at: impl Into<IntTuple>, left: &IntTuple, right: &IntTuple) -> Check {
        if same_value(left, right) {
            return Ok(());
        }
        let [at, left, right] = [at.into(), left.clone(), right.clone()].map(Box::new);
        Err(Violation::Unequal { law: self, at, left, right })
    }

    /// Evaluates the layout at an integer coordinate. The last mode is unbounded.
    fn value(self, layout: &ComposedLayout, i: i64) -> Result<IntTuple, Violation> {
        match number_at(layout, i) {
            Some(value) => Ok(value.into()),
            None => layout.apply(i).map_err(self.stuck()),
        }
    }

    fn outer(self, layout: &ComposedLayout) -> Result<&Layout, Violation> {
        layout.outer_layout().map_err(self.stuck())
    }

    /// Returns a static layout's size.
    fn size(self, layout: &Layout) -> Result<i64, Violation> {
        self.number(layout.size())
    }

    fn number(self, number: Result<Int, LayoutError>) -> Result<i64, Violation> {
        number.and_then(|number| number.to_static()).map_err(self.stuck())
    }

    /// Returns each leaf's extent and stride.
    fn leaves(self, layout: &Layout) -> Result<Vec<(i64, i64)>, Violation> {
        let leaf = |(s, d): (&Int, &super::basis::ScaledBasis)| {
            Ok((s.to_static()?, d.to_int()?.to_static()?))
        };
        layout.as_ref().leaves().map(leaf).collect::<Result<_, _>>().map_err(self.stuck())
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, `{}`", self.operation(), self.equation())
    }
}

errors! {
    /// A result that breaks the law of its operation, at the first place where it does. The checks
    /// of this module return it.
    ///
    /// ```
    /// use tilewright::layout::{layout, shape};
    /// use tilewright::layout::laws::{Law, Violation, check_right_inverse};
    /// let violation = check_right_inverse(&layout!((4, 8):(8, 1)), &layout!(32:1)).unwrap_err();
    /// assert_eq!(violation.law(), Law::RightInverse);
    /// assert!(matches!(violation, Violation::Unequal { at, .. } if *at == shape!(1)));
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Violation {
        /// {law}: at {at} the left side is {left} and the right side is {right}
        Unequal { law: Law, at: Box<IntTuple>, left: Box<IntTuple>, right: Box<IntTuple> },
        /// {law}: {result} {fault}
        Form { law: Law, result: String, fault: String },
        /// {law}: {result} has {found} elements, but {needed} are needed
        Size { law: Law, result: String, found: i64, needed: i64 },
        /// {law}: the coordinates {first} and {second} of {layout} share the index {index}
        Collision { law: Law, layout: String, first: Box<IntTuple>, second: Box<IntTuple>, index: i64 },
        /// {law}: a side cannot be evaluated: {cause}
        NotEvaluated { law: Law, cause: LayoutError },
    }
}
crate::errors::message_as_debug!(Violation);

impl Violation {
    /// Returns the law that is violated. A test that runs several checks can ask for it.
    ///
    /// ```
    /// use tilewright::layout::{layout, laws};
    /// let violation = laws::check_coalesce(&layout!((2, 4):(1, 2)), &layout!(8:2)).unwrap_err();
    /// assert_eq!(violation.law(), laws::Law::Coalesce);
    /// ```
    pub fn law(&self) -> Law {
        match self {
            Violation::Unequal { law, .. }
            | Violation::Form { law, .. }
            | Violation::Size { law, .. }
            | Violation::Collision { law, .. }
            | Violation::NotEvaluated { law, .. } => *law,
        }
    }
}

/// Returns the value of a static layout into the integers. The checks use it if they can, because
/// [`ComposedLayout::apply`] allocates the coordinate.
fn number_at(layout: &ComposedLayout, i: i64) -> Option<i64> {
    layout.as_normal()?.at(i).ok()
}

/// Fills the entries of `shape` that the coordinate lacks with 0.
fn filled(coord: IntTupleRef<'_>, shape: IntTupleRef<'_>) -> IntTuple {
    if coord.is_leaf() {
        return coord.to_owned();
    }
    // A leaf is its own mode 0.
    if shape.is_leaf() {
        return coord.child(0).map_or_else(|| coord.to_owned(), |c| filled(c, shape));
    }
    let zero = IntTuple::from(0);
    let items: Vec<IntTuple> = shape
        .children()
        .enumerate()
        .map(|(i, s)| coord.child(i).map_or_else(|| zero.clone(), |c| filled(c, s)))
        .collect();
    IntTuple::from_items(&items).unwrap_or(zero)
}

/// Returns true if two values of layouts are equal as coordinates. Missing entries count as 0, so
/// that a plain 0 equals any coordinate of zeros. Use it to compare results of layouts into
/// coordinates.
///
/// ```
/// use tilewright::layout::{laws::same_value, shape};
/// assert!(same_value(&shape!(2, 0), &shape!(2, (0, 0))) && !same_value(&shape!(2, 0), &shape!(0, 2)));
/// ```
#[inline]
pub fn same_value(a: &IntTuple, b: &IntTuple) -> bool {
    fn walk(a: Option<IntTupleRef<'_>>, b: Option<IntTupleRef<'_>>) -> bool {
        let zero = |t: Option<IntTupleRef<'_>>| {
            t.is_none_or(|t| t.leaves().iter().all(|l| *l == Int::ZERO))
        };
        match (a, b) {
            (Some(x), Some(y)) if x.is_leaf() && y.is_leaf() => x == y,
            (Some(x), Some(y)) if !x.is_leaf() && !y.is_leaf() => {
                (0..x.rank().max(y.rank())).all(|i| walk(x.child(i), y.child(i)))
            }
            (x, y) => zero(x) && zero(y),
        }
    }
    walk(Some(a.as_ref()), Some(b.as_ref()))
}

/// Checks that `result` is the same function as `layout`: both have the same size, and `R(i) ==
/// L(i)` for all `i < size(L)`.
///
/// [`Layout::same_function`] decides this without visiting every coordinate. Use this check if you
/// want to know the first coordinate where the two differ.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// laws::check_same(&layout!((2, 3):(1, 2)), &layout!(6:1))?;
/// let error = laws::check_same(&layout!((2, 3):(1, 4)), &layout!(6:1)).unwrap_err();
/// assert!(error.to_string().ends_with("at 2 the left side is 2 and the right side is 4"), "{error}");
/// # Ok::<(), laws::Violation>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_same(
    layout: impl Into<ComposedLayout>,
    result: impl Into<ComposedLayout>,
) -> Result<(), Violation> {
    same(Law::Same, &layout.into(), &result.into())
}

#[inline]
fn same(law: Law, layout: &ComposedLayout, result: &ComposedLayout) -> Check {
    let needed = law.size(law.outer(layout)?)?;
    let found = law.size(law.outer(result)?)?;
    if needed != found {
        return Err(Violation::Size { law, result: result.to_string(), found, needed });
    }
    for i in 0..needed.min(LIMIT) {
        let value = number_at(result, i);
        if value.is_none() || value != number_at(layout, i) {
            law.equal(i, &law.value(result, i)?, &law.value(layout, i)?)?;
        }
    }
    Ok(())
}

/// Checks that `result` (`R`) is the coalesced `layout` (`L`): `R(i) == L(i)` for all `i <
/// size(L)`, `R` is not nested, and no two adjacent modes of `R` could be merged.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((2, (1, 6)):(1, (6, 2)));
/// laws::check_coalesce(&l, &l.coalesce()?)?;
/// let error = laws::check_coalesce(&l, &layout!((2, 6):(1, 2))).unwrap_err();
/// assert!(error.to_string().ends_with("has two adjacent modes that can be merged"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_coalesce(layout: &Layout, result: &Layout) -> Result<(), Violation> {
    let law = Law::Coalesce;
    same(law, &layout.into(), &result.into())?;
    if result.depth() > 1 {
        return Err(law.form(result, "is nested"));
    }
    let leaves: Vec<_> = result.as_ref().leaves().collect();
    if leaves.len() > 1 && leaves.iter().any(|(s, _)| **s == Int::ONE) {
        return Err(law.form(result, "has a mode of extent 1"));
    }
    for pair in leaves.windows(2) {
        if let (Some(end), Some(next)) =
            (pair[0].1.as_int().and_then(|d| d.mul(pair[0].0).ok()), pair[1].1.as_int())
            && end == *next
        {
            return Err(law.form(result, "has two adjacent modes that can be merged"));
        }
    }
    Ok(())
}

/// Checks a `coalesce_by`: runs [`check_coalesce`] for each mode of `profile`, which leaves the
/// rank as it is. CuTe's `coalesce(L, profile)`.
///
/// ```
/// use tilewright::layout::{layout, laws, shape};
/// let l = layout!((2, (2, 3)):(1, (2, 4)));
/// laws::check_coalesce_by(&l, &shape!(1, 1), &l.coalesce_by(&shape!(1, 1))?)?;
/// assert!(laws::check_coalesce_by(&l, &shape!(1, 1), &layout!(12:1)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_coalesce_by(
    layout: &Layout,
    profile: &IntTuple,
    result: &Layout,
) -> Result<(), Violation> {
    if profile.is_leaf() {
        return check_coalesce(layout, result);
    }
    if result.rank() != layout.rank() {
        return Err(Law::Coalesce
            .form(result, format_args!("does not have the {} modes of {layout}", layout.rank())));
    }
    let mut profiles = profile.children();
    for (mode, part) in layout.modes().zip(result.modes()) {
        let (mode, part) = (mode.to_layout(), part.to_layout());
        match profiles.next() {
            Some(profile) => check_coalesce_by(&mode, &profile.to_owned(), &part)?,
            None => same(Law::Coalesce, &mode.into(), &part.into())?,
        }
    }
    Ok(())
}

/// Checks that `result` is `layout` without its stride-0 modes, and coalesced, which is CuTe's
/// `filter`.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((2, 3, 4):(1, 0, 2));
/// laws::check_filter(&l, &l.filter()?)?;
/// assert!(laws::check_filter(&l, &l.coalesce()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_filter(layout: &Layout, result: &Layout) -> Result<(), Violation> {
    let law = Law::Filter;
    let modes = layout.as_ref().leaves().filter(|(_, d)| d.as_static() != Some(0));
    let modes: Vec<Layout> = modes.map(|(s, d)| Layout::leaf(s.clone(), d.clone())).collect();
    let kept = if modes.is_empty() { Ok(Layout::trivial()) } else { Layout::concat(&modes) };
    same(law, &kept.map_err(law.stuck())?.into(), &result.into())?;
    let zero = |(s, d): (&Int, &super::basis::ScaledBasis)| !s.is(1) && d.as_static() == Some(0);
    match result.as_ref().leaves().any(zero) {
        true => Err(law.form(result, "has a mode of stride 0")),
        false => Ok(()),
    }
}

/// Checks that `result` (`R`) is the composition of `a` and `b`: `R(i) == A(B(i))` for all `i <
/// size(B)`, and the shape of `R` refines the shape of `B`. Past its size, `A` continues in its
/// last mode, as in CuTe.
///
/// ```
/// use tilewright::layout::{ComposedLayout, layout, laws};
/// let (a, b) = (layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1)));
/// laws::check_composition(&a, &b, &a.composition(&b)?)?;
/// // Swizzled layouts are composed layouts.
/// let a: ComposedLayout = "S<2,0,2> o 0 o (4,4):(4,1)".parse()?;
/// laws::check_composition(&a, &layout!(4:4), &a.composition(&layout!(4:4))?)?;
/// assert!(laws::check_composition(&a, &layout!(4:4), &layout!(4:4)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_composition(
    a: impl Into<ComposedLayout>,
    b: impl Into<ComposedLayout>,
    result: impl Into<ComposedLayout>,
) -> Result<(), Violation> {
    composition(Law::Composition, &a.into(), &b.into(), &result.into())
}

#[inline]
fn composition(law: Law, a: &ComposedLayout, b: &ComposedLayout, result: &ComposedLayout) -> Check {
    let needed = law.outer(b)?.shape().to_owned();
    let found = law.outer(result)?.shape().to_owned();
    if !needed.compatible(&found).map_err(law.stuck())? {
        return Err(
            law.form(result, format_args!("has the shape {found}, which does not refine {needed}"))
        );
    }
    for i in 0..law.size(law.outer(b)?)?.min(LIMIT) {
        let value = number_at(result, i);
        if value.is_some() && value == number_at(b, i).and_then(|inside| number_at(a, inside)) {
            continue;
        }
        let inside = law.value(b, i)?;
        let inside = match a.outer_layout() {
            Ok(a) => filled(inside.as_ref(), a.shape()),
            Err(_) => inside,
        };
        let right = a.apply(&inside).map_err(law.stuck())?;
        law.equal(i, &law.value(result, i)?, &right)?;
    }
    Ok(())
}

/// Checks a composition with a tiler: runs [`check_composition`] for each mode and its tile. A mode
/// whose tile is `_` must stay as it is.
///
/// ```
/// use tilewright::layout::{layout, laws, tiler};
/// let a = layout!((4, 8):(8, 1));
/// laws::check_composition_by(&a, &tiler!(2, _), &a.composition(&tiler!(2, _))?)?;
/// assert!(laws::check_composition_by(&a, &tiler!(2, _), &layout!((2, 8):(1, 8))).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_composition_by<'t>(
    a: &Layout,
    tiler: impl Into<TilerRef<'t>>,
    result: &Layout,
) -> Result<(), Violation> {
    composition_by(a, tiler.into(), result)
}

#[inline]
fn composition_by(a: &Layout, tiler: TilerRef<'_>, result: &Layout) -> Check {
    let law = Law::Composition;
    match part(tiler) {
        Tile::All if a == result => Ok(()),
        Tile::All => Err(law.form(result, format_args!("is not {a}, although the tile is `_`"))),
        Tile::Whole(tile) => composition(law, &a.into(), &(*tile).into(), &result.into()),
        Tile::ByMode(tiler) => {
            if result.rank() != tiler.rank() {
                return Err(law.form(
                    result,
                    format_args!("does not have the {} modes of {tiler}", tiler.rank()),
                ));
            }
            for ((mode, tile), part) in a.modes().zip(tiler.children()).zip(result.modes()) {
                composition_by(&mode.to_layout(), TilerRef::Tuple(tile), &part.to_layout())?;
            }
            Ok(())
        }
    }
}

/// What a tiler does at one level.
enum Tile<'t> {
    All,
    Whole(Box<Layout>),
    ByMode(TilerTuple<'t>),
}

fn part(tiler: TilerRef<'_>) -> Tile<'_> {
    match tiler {
        TilerRef::Layout(tile) => Tile::Whole(Box::new(tile.to_layout())),
        TilerRef::Tuple(tuple) => match tuple.as_leaf() {
            Some(TilerLeaf::All) => Tile::All,
            Some(TilerLeaf::Int(n)) => Tile::Whole(Box::new(Layout::leaf(n.clone(), 1))),
            Some(TilerLeaf::Layout(tile)) => Tile::Whole(tile.clone()),
            None => Tile::ByMode(tuple),
        },
    }
}

/// Checks that `result` is a complement of `layout` in `cotarget`.
///
/// With `F = filter(L)`, `(F, R)` must be one-to-one and `R` must increase. If, in increasing
/// order, each stride of `F` is a multiple of the size that the modes before it cover, then `F` and
/// `R` must also reach the whole cotarget. A shape is counted as CuTe counts it: in each mode, as
/// many tiles as fit side by side, and the next mode continues with what is left of the tile.
///
/// ```
/// use tilewright::layout::{layout, laws, shape};
/// let l = layout!((2, 2):(1, 6));
/// laws::check_complement(&l, &shape!(24), &l.complement(&shape!(24))?)?;
/// let error = laws::check_complement(&l, &shape!(24), &layout!(3:2)).unwrap_err();
/// assert!(error.to_string().ends_with("3:2 has 3 elements, but 6 are needed"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_complement(
    layout: &Layout,
    cotarget: &IntTuple,
    result: &Layout,
) -> Result<(), Violation> {
    let law = Law::Complement;
    let overflow = || law.stuck()(LayoutError::overflow("check_complement"));
    let filtered = layout.filter().map_err(law.stuck())?;
    for (extent, _) in filtered.as_ref().leaves() {
        if extent.to_static().map_err(law.stuck())? < 1 {
            return Err(law.stuck()(LayoutError::ExtentNotPositive { extent: extent.clone() }));
        }
    }
    let (of_layout, found) = (law.size(&filtered)?, law.size(result)?);
    if let Some(covered) = in_order(&law.leaves(&filtered)?) {
        let (mut wanted, mut tile) = (covered, covered);
        for extent in cotarget.leaves() {
            let extent = extent.to_static().map_err(law.stuck())?;
            if extent < 1 {
                return Err(law.form(cotarget, "is not a shape"));
            }
            wanted = wanted.checked_mul(ceil_div(extent, tile)).ok_or_else(overflow)?;
            tile = ceil_div(tile, extent);
        }
        let needed = ceil_div(wanted, of_layout);
        if found < needed {
            return Err(Violation::Size { law, result: result.to_string(), found, needed });
        }
    }
    let at = |i: i64| result.at(i).map_err(law.stuck());
    for i in 1..found.min(LIMIT) {
        if at(i - 1)? >= at(i)? {
            return Err(law.form(result, format_args!("does not increase at {i}")));
        }
    }
    let both = Layout::concat([&filtered, result]).map_err(law.stuck())?;
    match both.collision().map_err(law.stuck())? {
        Some(found) => Err(Violation::Collision {
            law,
            layout: both.to_string(),
            first: Box::new(found.left),
            second: Box::new(found.right),
            index: found.index,
        }),
        None => Ok(()),
    }
}

/// Divides positive integers and rounds up.
fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

/// Returns the size that the modes cover if, in increasing order, each stride is a multiple of the
/// size covered before it.
fn in_order(leaves: &[(i64, i64)]) -> Option<i64> {
    let mut modes: Vec<(i64, i64)> = leaves.iter().map(|&(s, d)| (d, s)).collect();
    modes.sort_unstable();
    let mut covered = 1;
    let all = modes.iter().all(|&(d, s)| {
        let fits = d % covered == 0;
        covered = d.saturating_mul(s).max(1);
        fits
    });
    all.then_some(covered)
}

/// Returns the two modes of a result, which must be a pair.
fn pair(law: Law, result: &Layout) -> Result<(Layout, Layout), Violation> {
    let mut modes = result.modes();
    match (modes.next(), modes.next(), modes.next()) {
        (Some(first), Some(second), None) => Ok((first.to_layout(), second.to_layout())),
        _ => Err(law.form(result, "is not a pair")),
    }
}

/// Makes a tuple of these integers, or a plain integer if `is_leaf`.
fn coordinate(law: Law, entries: &[i64], is_leaf: bool) -> Result<IntTuple, Violation> {
    match entries {
        [entry] if is_leaf => Ok(Tuple::leaf(*entry)),
        _ => IntTuple::from_items(entries.iter().copied()).map_err(law.stuck()),
    }
}
