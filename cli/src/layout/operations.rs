//! Maps operation names to the operations of the algebra.

use tilewright::layout::{
    ComposedLayout, Coord, Drawing, IntTuple, Layout, LayoutError, Swizzle, Tiler, TilerLeaf,
};

use super::{Failure, Values, parse, said};

type Result<T> = std::result::Result<T, LayoutError>;
type Made = Result<ComposedLayout>;

/// An operation: its name in this library and in CuTe, its function, and the picture that shows it.
pub(super) struct Operation {
    pub(super) name: &'static str,
    run: Run,
    pub(super) family: Family,
}

/// Which kind of picture shows an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Divide,
    Product,
    Composition,
    Other,
}

/// An operation's function. The variant says what `--with` has to be.
enum Run {
    Alone(fn(&ComposedLayout) -> Made),
    /// A shape, or nothing.
    OptionalShape(fn(&ComposedLayout, Option<&IntTuple>) -> Made),
    Shape(fn(&ComposedLayout, &IntTuple) -> Made),
    /// A layout, or a tuple of integers, layouts and `_`.
    Tiler(fn(&ComposedLayout, &Tiler) -> Made),
    /// A tiler, a swizzle or a composed layout.
    Right(fn(&ComposedLayout, &Argument) -> Made),
    Layout(fn(&ComposedLayout, &ComposedLayout) -> Made),
    /// A coordinate with `_`.
    Coord(fn(&ComposedLayout, &Coord) -> Made),
    Number(fn(&ComposedLayout, i64) -> Made),
    Numbers(fn(&ComposedLayout, [i64; 2]) -> Made),
    Modes(fn(&ComposedLayout, &[usize]) -> Made),
}

/// A parsed argument, as far as it can be drawn.
pub(super) enum Argument {
    Tiler(Box<Tiler>),
    Swizzle(Swizzle),
    Composed(Box<ComposedLayout>),
    /// A shape, coordinate or integer.
    Other,
}

impl Argument {
    /// Returns the argument as a tiler, if it is one.
    pub(super) fn tiler(&self) -> Option<Tiler> {
        match self {
            Argument::Tiler(tiler) => Some(tiler.as_ref().clone()),
            Argument::Composed(layout) => layout.as_normal().map(|layout| layout.clone().into()),
            Argument::Swizzle(_) | Argument::Other => None,
        }
    }

    /// Returns the argument as a layout, if it is one.
    pub(super) fn layout(&self) -> Option<ComposedLayout> {
        match self {
            Argument::Tiler(tiler) => match tiler.as_leaf() {
                Some(TilerLeaf::Layout(layout)) => Some(Layout::clone(layout).into()),
                _ => None,
            },
            Argument::Composed(layout) => Some(layout.as_ref().clone()),
            Argument::Swizzle(_) | Argument::Other => None,
        }
    }

    /// Draws the argument, if it has a picture.
    pub(super) fn drawing(&self) -> Option<Drawing> {
        match self {
            Argument::Swizzle(swizzle) => Some(swizzle.draw()),
            _ => self.layout().map(|layout| layout.draw()),
        }
    }
}

impl Operation {
    /// Parses the argument and applies the operation to `layout`.
    pub(super) fn apply(
        &self,
        layout: &ComposedLayout,
        text: Option<&str>,
        values: &Values,
    ) -> std::result::Result<(Argument, ComposedLayout), Failure> {
        let name = self.name;
        let failed = |error| Failure::input(format!("{name} of `{layout}`: {}", said(&error)));
        let (argument, made) = match (&self.run, text) {
            (Run::Alone(run), None) => (Argument::Other, run(layout)),
            (Run::Alone(_), Some(_)) => {
                return Err(Failure::input(format!("{name} has no argument: leave out `--with`")));
            }
            (Run::OptionalShape(run), None) => (Argument::Other, run(layout, None)),
            (run, None) => {
                return Err(Failure::input(format!("{name} needs `--with` {}", run.needs())));
            }
            (Run::OptionalShape(run), Some(text)) => {
                (Argument::Other, run(layout, Some(&values.parse(text)?)))
            }
            (Run::Shape(run), Some(text)) => (Argument::Other, run(layout, &values.parse(text)?)),
            (Run::Coord(run), Some(text)) => (Argument::Other, run(layout, &values.parse(text)?)),
            (Run::Tiler(run), Some(text)) => {
                let tiler: Tiler = values.parse(text)?;
                let made = run(layout, &tiler);
                (Argument::Tiler(tiler.into()), made)
            }
            (Run::Layout(run), Some(text)) => {
                let other: ComposedLayout = values.parse(text)?;
                let made = run(layout, &other);
                (Argument::Composed(other.into()), made)
            }
            (Run::Right(run), Some(text)) => {
                let right = if text.contains(" o ") {
                    Argument::Composed(Box::new(values.parse(text)?))
                } else if text.contains('<') {
                    Argument::Swizzle(parse(text)?)
                } else {
                    Argument::Tiler(Box::new(values.parse(text)?))
                };
                let made = run(layout, &right);
                (right, made)
            }
            (Run::Number(run), Some(text)) => match integers(text).as_deref() {
                Some([number]) => (Argument::Other, run(layout, *number)),
                _ => return Err(self.refuses(text)),
            },
            (Run::Numbers(run), Some(text)) => match integers(text).as_deref() {
                Some([first, second]) => (Argument::Other, run(layout, [*first, *second])),
                _ => return Err(self.refuses(text)),
            },
            (Run::Modes(run), Some(text)) => match modes(text) {
                Some(modes) => (Argument::Other, run(layout, &modes)),
                None => return Err(self.refuses(text)),
            },
        };
        Ok((argument, made.map_err(failed)?))
    }

    fn refuses(&self, text: &str) -> Failure {
        Failure::input(format!("{} needs {}, not `{text}`", self.name, self.run.needs()))
    }
}

impl Run {
    fn needs(&self) -> &'static str {
        match self {
            Run::Alone(_) => "nothing",
            Run::OptionalShape(_) | Run::Shape(_) => "a shape, such as `(4,8)`",
            Run::Tiler(_) => "a tiler, such as `(2,4)` or `4:2`",
            Run::Right(_) => "a layout, a tiler or a swizzle, such as `(4,2):(2,1)`",
            Run::Layout(_) => "a layout, such as `(4,2):(2,1)`",
            Run::Coord(_) => "a coordinate, such as `(1,_)`",
            Run::Number(_) => "an integer",
            Run::Numbers(_) => "two integers, such as `0,2`",
            Run::Modes(_) => "mode indices, such as `1,0`",
        }
    }
}

/// Parses `1`, `0,2` or `(0,2)`.
fn integers(text: &str) -> Option<Vec<i64>> {
    let inner = text.trim();
    let inner = inner.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(inner);
    inner.split(',').map(|n| n.trim().parse().ok()).collect()
}

fn modes(text: &str) -> Option<Vec<usize>> {
    integers(text)?.into_iter().map(|mode| usize::try_from(mode).ok()).collect()
}

/// Returns the mode range `begin..end`. A negative end gives an empty range, which every operation
/// refuses.
fn range([begin, end]: [i64; 2]) -> (usize, usize) {
    (usize::try_from(begin).unwrap_or(usize::MAX), usize::try_from(end).unwrap_or(0))
}

/// Returns the plain layout, for operations that composed layouts do not support.
fn plain<'a>(layout: &'a ComposedLayout, operation: &'static str) -> Result<&'a Layout> {
    layout
        .as_normal()
        .ok_or_else(|| LayoutError::Unsupported { operation, argument: layout.to_string() })
}

fn compose(left: &ComposedLayout, right: &Argument) -> Made {
    match right {
        Argument::Tiler(tiler) => left.composition(tiler.as_ref()),
        Argument::Swizzle(swizzle) => plain(left, "composition")?.compose_swizzle(*swizzle),
        Argument::Composed(right) => left.compose_composed(right),
        Argument::Other => Ok(left.clone()),
    }
}

use Family::{Composition, Divide, Other, Product};

const fn op(name: &'static str, run: Run, family: Family) -> Operation {
    Operation { name, run, family }
}

/// All operations, sorted by name.
pub(super) static OPERATIONS: &[Operation] = &[
    op("append", Run::Layout(|a, b| a.append(plain(b, "append")?)), Other),
    op(
        "blocked_product",
        Run::Layout(|a, b| a.blocked_product(plain(b, "blocked_product")?)),
        Product,
    ),
    op(
        "coalesce",
        Run::OptionalShape(|a, profile| match profile {
            Some(profile) => a.coalesce_by(profile),
            None => a.coalesce(),
        }),
        Other,
    ),
    op(
        "complement",
        Run::OptionalShape(|a, cotarget| {
            Ok(match cotarget {
                Some(cotarget) => a.complement(cotarget)?,
                None => plain(a, "complement")?.complement_inner()?,
            }
            .into())
        }),
        Other,
    ),
    op("composition", Run::Right(compose), Composition),
    op("dice", Run::Coord(|a, coord| Ok(plain(a, "dice")?.dice(coord)?.into())), Other),
    op("downcast", Run::Number(|a, n| a.downcast(n)), Other),
    op(
        "filter",
        Run::OptionalShape(|a, profile| match profile {
            Some(profile) => a.filter_by(profile),
            None => a.filter(),
        }),
        Other,
    ),
    op(
        "filter_zeros",
        Run::OptionalShape(|a, profile| {
            let layout = plain(a, "filter_zeros")?;
            Ok(match profile {
                Some(profile) => layout.filter_zeros_by(profile)?,
                None => layout.filter_zeros(),
            }
            .into())
        }),
        Other,
    ),
    op("flat_divide", Run::Tiler(|a, tiler| a.flat_divide(tiler)), Divide),
    op("flat_product", Run::Tiler(|a, tiler| a.flat_product(tiler)), Product),
    op("flatten", Run::Alone(ComposedLayout::flatten), Other),
    op("fragment_like", Run::Alone(|a| Ok(a.fragment_like()?.into())), Other),
    op("get", Run::Modes(|a, path| a.get(path)), Other),
    op(
        "group",
        Run::Numbers(|a, modes| {
            let (begin, end) = range(modes);
            a.group(begin, end)
        }),
        Other,
    ),
    op(
        "identity_like",
        Run::Alone(|a| Ok(plain(a, "identity_like")?.identity_like()?.into())),
        Other,
    ),
    op("layout_like", Run::Alone(|a| Ok(a.layout_like()?.into())), Other),
    op("left_inverse", Run::Alone(ComposedLayout::left_inverse), Other),
    op("logical_divide", Run::Tiler(|a, tiler| a.logical_divide(tiler)), Divide),
    op("logical_product", Run::Tiler(|a, tiler| a.logical_product(tiler)), Product),
    op("max_common_layout", Run::Layout(|a, b| Ok(a.max_common_layout(b)?.into())), Other),
    op("nullspace", Run::Alone(|a| Ok(a.nullspace()?.into())), Other),
    op("prepend", Run::Layout(|a, b| a.prepend(plain(b, "prepend")?)), Other),
    op("raked_product", Run::Layout(|a, b| a.raked_product(plain(b, "raked_product")?)), Product),
    op(
        "recast_layout",
        Run::Numbers(|a, [old_bits, new_bits]| a.recast_layout(old_bits, new_bits)),
        Other,
    ),
    op("right_inverse", Run::Alone(ComposedLayout::right_inverse), Other),
    op("select", Run::Modes(|a, modes| a.select(modes)), Other),
    op("slice", Run::Coord(|a, coord| a.slice(coord)), Other),
    op(
        "take",
        Run::Numbers(|a, modes| {
            let (begin, end) = range(modes);
            a.take(begin, end)
        }),
        Other,
    ),
    op("tile_to_shape", Run::Shape(|a, shape| a.tile_to_shape(shape, None)), Other),
    op("tiled_divide", Run::Tiler(|a, tiler| a.tiled_divide(tiler)), Divide),
    op("tiled_product", Run::Tiler(|a, tiler| a.tiled_product(tiler)), Product),
    op(
        "unflatten",
        Run::Shape(|a, profile| Ok(plain(a, "unflatten")?.unflatten(profile)?.into())),
        Other,
    ),
    op("upcast", Run::Number(|a, n| a.upcast(n)), Other),
    op("zip", Run::Layout(|a, b| Ok(plain(a, "zip")?.zip(plain(b, "zip")?)?.into())), Other),
    op("zipped_divide", Run::Tiler(|a, tiler| a.zipped_divide(tiler)), Divide),
    op("zipped_product", Run::Tiler(|a, tiler| a.zipped_product(tiler)), Product),
];
