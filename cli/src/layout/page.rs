//! Builds the page of `tilewright layout --html`: an interactive picture of a layout, or of an
//! operation on it.

use serde_json::{Value, json};
use tilewright::layout::{
    ComposedLayout, IntTuple, IntTupleRef, Layout, LayoutError, Part, Shading, Swizzle, crd2idx,
};

use super::super::{Failure, page};
use super::operations::{Argument, Family};
use super::{Options, Subject, Values, about, applied, no_layout, plain_for_tv, subject};

type Result<T> = std::result::Result<T, LayoutError>;

/// The page's template.
const PAGE: &str = include_str!("page.html");
/// JavaScript integers are exact up to here.
const EXACT: u64 = 1 << 53;
/// If the page cannot compute the values by itself, it contains at most this many.
const MOST_LABELS: u64 = 4096;

/// Returns the page that the options ask for.
pub(super) fn page(options: &Options, values: &Values) -> std::result::Result<String, Failure> {
    let text = options.layout.as_str();
    let failed = |error: LayoutError| about(text, &error);
    let layout = match subject(text, values)? {
        Subject::Swizzle(_) if options.op.is_some() || options.tv.is_some() => {
            return Err(no_layout(text));
        }
        Subject::Swizzle(swizzle) => table_of(swizzle).map_err(failed)?.into(),
        Subject::Layout(layout) => layout,
    };
    match (&options.op, &options.tv) {
        (Some(name), _) => {
            let with = options.with.as_deref();
            let (operation, argument, result) = applied(&layout, name, with, values)?;
            let with = argument.layout();
            // The indices of a right-hand side are positions in the layout.
            let is_right_side = matches!(operation.family, Family::Composition | Family::Divide);
            let linked = is_right_side && matches!(argument, Argument::Tiler(_));
            let mut parts = vec![("layout", &*layout)];
            parts.extend(with.as_ref().map(|with| ("with", with)));
            parts.push((operation.name, &result));
            of_parts(options, &parts, linked)
                .map_err(|error| Failure::input(format!("{name} of `{text}`: {error}")))
        }
        (None, Some(tile)) => {
            let tile: IntTuple = values.parse(tile)?;
            of_threads(options, plain_for_tv(&layout, text)?, &tile).map_err(failed)
        }
        (None, None) => of_parts(options, &[("layout", &layout)], false).map_err(failed),
    }
}

/// Returns a table of indices whose rows and columns are the bits that the swizzle reads and
/// changes.
fn table_of(swizzle: Swizzle) -> Result<ComposedLayout> {
    swizzle.draw().text()?;
    let (base, shift) = (swizzle.base(), swizzle.shift().abs());
    let (rows, columns) = (1i64 << swizzle.bits(), 1i64 << shift);
    let (down, right) = (1i64 << (base + shift), 1i64 << base);
    format!("{swizzle} o 0 o ({rows},{columns}):({down},{right})").parse()
}

/// Returns the command line in shell syntax.
fn command(options: &Options) -> String {
    let named = [("--op", &options.op), ("--with", &options.with), ("--tv", &options.tv)];
    let named = named
        .into_iter()
        .filter_map(|(name, value)| Some(format!(" {name} '{}'", value.as_ref()?)));
    let named = named.collect::<String>();
    let values =
        options.values.iter().map(|value| format!(" --let {}={}", value.name, value.value));
    format!("tilewright layout '{}'{named}{}", options.layout, values.collect::<String>())
}

/// Builds the page for layouts with their roles: the layout, an operation's argument as `with`, and
/// the result. `linked` says that the argument's indices are positions in the layout.
fn of_parts(options: &Options, parts: &[(&str, &ComposedLayout)], linked: bool) -> Result<String> {
    let title = parts.last().map(|(_, layout)| layout.to_string());
    let parts: Result<Vec<Value>> = parts.iter().map(|(role, layout)| part(role, layout)).collect();
    // The element sizes that the page offers.
    let bits = match options.shade {
        Some(Shading::Banks { element_bits: bits @ (8 | 16 | 32 | 64) }) => bits,
        _ => 32,
    };
    let data = json!({
        "title": title, "command": command(options), "parts": parts?, "linked": linked, "bits": bits,
    });
    Ok(page::html(PAGE, &data))
}

/// Builds the page for a layout (thread, value) -> element of a tile.
fn of_threads(options: &Options, layout: &Layout, tile: &IntTuple) -> Result<String> {
    // Returns an error if this is not a layout of the tile's threads and values, or if the picture
    // is too large.
    layout.draw_tv(tile.clone()).text()?;
    let modes: Vec<_> = layout.modes().collect();
    let [threads, values] = modes.as_slice() else {
        return Err(LayoutError::RankMismatch { expected: 2, found: layout.rank() });
    };
    let size = |mode: IntTupleRef<'_>| mode.product()?.to_static();
    let mut elements = Vec::new();
    for thread in 0..size(threads.shape())? {
        let of = |value| crd2idx(&layout.apply((thread, value))?, tile)?.to_static();
        elements.push((0..size(values.shape())?).map(of).collect::<Result<Vec<i64>>>()?);
    }
    let text = format!("{layout} in {tile}");
    let data = json!({
        "title": text,
        "command": command(options),
        "parts": [],
        "bits": 32,
        "tv": {
            "text": text,
            "shape": [numbers(threads.shape())?, numbers(values.shape())?],
            "tile": numbers(tile.as_ref())?,
            "elements": elements,
        },
    });
    Ok(page::html(PAGE, &data))
}

/// Converts a tuple of integers to JSON and keeps its nesting.
fn numbers(tuple: IntTupleRef<'_>) -> Result<Value> {
    match tuple.as_leaf() {
        Some(leaf) => Ok(leaf.to_static()?.into()),
        None => tuple.children().map(numbers).collect::<Result<Vec<_>>>().map(Value::Array),
    }
}

/// Describes a layout: either the parts from which the page computes its indices, with a checksum
/// over them, or the values themselves.
fn part(role: &str, layout: &ComposedLayout) -> Result<Value> {
    // Returns an error if the layout has no picture.
    layout.draw().text()?;
    let outer = layout.outer_layout()?;
    let size = outer.size()?.to_static()?;
    let value = |at: i64| layout.apply(at);
    let mut data = json!({
        "role": role,
        "text": layout.to_string(),
        "shape": numbers(outer.shape())?,
        "cosize": outer.coshape()?.to_string(),
    });
    let strides: Option<Vec<i64>> =
        outer.stride().leaves().iter().map(|stride| stride.to_int().ok()?.as_static()).collect();
    let swizzle = match layout.inner() {
        Part::Identity | Part::Swizzle(_) => Some(layout.swizzle_portion()),
        _ => None,
    };
    match (strides, swizzle, layout.offset().as_static()) {
        (Some(strides), Some(swizzle), Some(offset)) => {
            let mut checksum = 7;
            for at in 0..size {
                let index = value(at)?.to_int()?.to_static()?;
                if index.unsigned_abs() > EXACT {
                    return Err(LayoutError::TooLarge {
                        what: "an index of the page",
                        limit: EXACT,
                    });
                }
                checksum = (checksum * 31 + index % 1_000_003) % 1_000_003;
            }
            data["stride"] = strides.into();
            data["offset"] = offset.into();
            data["outer"] = outer.to_string().into();
            data["swizzle"] = json!([swizzle.bits(), swizzle.base(), swizzle.shift()]);
            data["checksum"] = checksum.into();
        }
        _ if size.unsigned_abs() > MOST_LABELS => {
            let what = "the number of coordinates of the page";
            return Err(LayoutError::TooLarge { what, limit: MOST_LABELS });
        }
        _ => {
            let labels: Result<Vec<String>> =
                (0..size).map(|at| Ok(value(at)?.to_string())).collect();
            data["labels"] = labels?.into();
        }
    }
    Ok(data)
}
