//! `tilewright layout`: prints and draws a layout, or the result of an operation on it.

mod operations;
mod page;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use tilewright::layout::{
    ComposedLayout, Coord, Drawing, Env, IntTuple, Layout, LayoutError, Shading, Swizzle, Tiler,
};

use super::{Failure, print};
use operations::{Argument, Family, OPERATIONS, Operation};

/// The options of `tilewright layout`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// A layout such as `(4,8):(8,1)`, a shape (column-major), a swizzle `S<3,4,3>`, or
    /// `S<3,0,3> o 0 o (8,8):(8,1)`.
    #[arg(value_name = "LAYOUT", allow_hyphen_values = true)]
    layout: String,
    /// Operation of the algebra to apply to the layout.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(OPERATIONS.iter().map(|op| op.name)))]
    op: Option<String>,
    /// The operation's argument: a layout, tiler, shape, coordinate or integer.
    #[arg(long, value_name = "ARGUMENT", requires = "op", allow_hyphen_values = true)]
    with: Option<String>,
    /// Values for symbols, separated by commas. They are filled in before the operation: `n=8`
    /// turns `(4,n)` into `(4,8)`.
    #[arg(long = "let", value_delimiter = ',', value_name = "NAME=VALUE")]
    values: Vec<Binding>,
    /// Draw a layout (thread, value) -> element as a tile of this shape that shows threads and
    /// values.
    #[arg(long, value_name = "SHAPE", conflicts_with = "op")]
    tv: Option<String>,
    /// What the colours mean: `plain`, `ramp`, `cycle:RUN,PERIOD`, `banks:BITS` or `owner`
    /// [default: depends on the picture].
    #[arg(long, value_name = "KIND", value_parser = shading)]
    shade: Option<Shading>,
    /// Write the picture as SVG to this file and print only its path; `-` prints the picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the picture as a LaTeX document to this file and print only its path; `-` prints the
    /// document.
    #[arg(long, value_name = "FILE", conflicts_with = "svg")]
    latex: Option<PathBuf>,
    /// Write an interactive page with sliders for swizzle and tile to this file and print only its
    /// path; `-` prints the page.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "latex"])]
    html: Option<PathBuf>,
    /// Print one line of JSON instead of the table: the layout, the operation and its result, the
    /// size, and, if they are integers, the indices of all elements in colexicographic order.
    #[arg(long, conflicts_with_all = ["svg", "latex", "html", "shade"])]
    json: bool,
}

/// The value of a symbol, such as `n=8`.
#[derive(Clone, Debug)]
struct Binding {
    name: String,
    value: i64,
}

impl FromStr for Binding {
    type Err = String;

    fn from_str(text: &str) -> Result<Binding, String> {
        let expected = || format!("`{text}` is not a symbol with a value, such as `n=8`");
        let (name, value) = text.split_once('=').ok_or_else(expected)?;
        let (name, value) = (name.trim(), value.trim().parse().map_err(|_| expected())?);
        if name.is_empty() {
            return Err(expected());
        }
        Ok(Binding { name: name.to_owned(), value })
    }
}

/// A parsed value that may contain symbols.
trait Symbolic: FromStr<Err = LayoutError> {
    /// Replaces symbols by their values.
    fn valued(&self, env: &Env) -> Result<Self, LayoutError>;
}

macro_rules! symbolic {
    ($($ty:ty),*) => {$(
        impl Symbolic for $ty {
            fn valued(&self, env: &Env) -> Result<$ty, LayoutError> {
                self.eval(env)
            }
        }
    )*};
}
symbolic!(ComposedLayout, Coord, IntTuple, Tiler);

/// The symbol values from the command line.
struct Values(Option<Env>);

impl Values {
    fn new(bindings: &[Binding]) -> Values {
        let env = |env: Env, Binding { name, value }: &Binding| env.with(name, *value);
        let given = !bindings.is_empty();
        Values(given.then(|| bindings.iter().fold(Env::new(), env)))
    }

    /// Parses `text` and replaces its symbols by their values. Errors name the text. If the command
    /// line gives no values, symbols stay.
    fn parse<T: Symbolic>(&self, text: &str) -> Result<T, Failure> {
        let read: T = parse(text)?;
        match &self.0 {
            Some(env) => read.valued(env).map_err(|error| about(text, &error)),
            None => Ok(read),
        }
    }
}

fn shading(text: &str) -> Result<Shading, String> {
    let (kind, numbers) = text.split_once(':').unwrap_or((text, ""));
    let numbers: Vec<u32> = match numbers {
        "" => Vec::new(),
        _ => numbers
            .split(',')
            .map(|n| n.trim().parse())
            .collect::<Result<_, _>>()
            .unwrap_or_default(),
    };
    match (kind, numbers.as_slice()) {
        ("plain", []) => Ok(Shading::Plain),
        ("ramp", []) => Ok(Shading::Ramp),
        ("owner", []) => Ok(Shading::Owner),
        ("cycle", [run @ (1..), period @ (1..)]) => {
            Ok(Shading::Cycle { run: (*run).into(), period: (*period).into() })
        }
        ("banks", [element_bits @ (1..)]) => Ok(Shading::Banks { element_bits: *element_bits }),
        _ => Err("expected plain, ramp, cycle:RUN,PERIOD, banks:BITS or owner".to_owned()),
    }
}

/// What is drawn.
enum Subject {
    Swizzle(Swizzle),
    Layout(Box<ComposedLayout>),
}

/// Parses `text`. Errors name it.
fn parse<T: FromStr<Err = LayoutError>>(text: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|error| about(text, &error))
}

fn about(text: &str, error: &LayoutError) -> Failure {
    Failure::input(format!("`{text}`: {}", said(error)))
}

/// Returns an error's text. If a symbol has no value, adds the option that gives it one.
fn said(error: &LayoutError) -> String {
    match error {
        LayoutError::NotStatic { .. } => format!("{error}: `--let NAME=VALUE`"),
        _ => error.to_string(),
    }
}

fn subject(text: &str, values: &Values) -> Result<Subject, Failure> {
    let is_swizzle = text.trim_start().starts_with('S') && text.trim_end().ends_with('>');
    if is_swizzle && !text.contains(" o ") {
        return parse(text).map(Subject::Swizzle);
    }
    values.parse(text).map(|layout| Subject::Layout(Box::new(layout)))
}

/// Lines with a name and a value, aligned in columns.
struct Lines(Vec<(&'static str, String)>);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name:width$}  {value}"))
    }
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let text = options.layout.as_str();
    let values = Values::new(&options.values);
    if options.json {
        return print(&format!("{}\n", json(options, &values)?));
    }
    let (lines, table, picture) = match subject(text, &values)? {
        Subject::Swizzle(swizzle) if options.op.is_none() && options.tv.is_none() => {
            let lines = vec![("swizzle", swizzle.to_string())];
            (lines, swizzle.draw(), swizzle.draw())
        }
        Subject::Swizzle(_) => return Err(no_layout(text)),
        Subject::Layout(layout) => {
            let mut lines = vec![("layout", layout.to_string())];
            let (table, picture) = match (&options.op, &options.tv) {
                (Some(name), _) => {
                    operation(&layout, name, options.with.as_deref(), &values, &mut lines)?
                }
                (None, Some(tile)) => {
                    sizes(&layout, &mut lines).map_err(|error| about(text, &error))?;
                    let tile: IntTuple = values.parse(tile)?;
                    let plain = plain_for_tv(&layout, text)?;
                    (plain.draw_tv(&tile), plain.draw_tv(&tile))
                }
                (None, None) => {
                    sizes(&layout, &mut lines).map_err(|error| about(text, &error))?;
                    (layout.draw(), layout.draw())
                }
            };
            (lines, table, picture)
        }
    };
    let picture = match options.shade {
        Some(shading) => picture.shaded(shading),
        None => picture,
    };
    let no_picture = |error: LayoutError| about(text, &error);
    let written = match (&options.svg, &options.latex, &options.html) {
        (Some(file), _, _) => Some((file, picture.svg().map_err(no_picture)?)),
        (_, Some(file), _) => Some((file, picture.latex().map_err(no_picture)?)),
        (_, _, Some(file)) => Some((file, page::page(options, &values)?)),
        (None, None, None) => None,
    };
    match written {
        Some((file, picture)) if is_stdout(file) => return print(&picture),
        Some((file, picture)) => {
            write(file, &picture)?;
            return print(&format!("{}\n", file.display()));
        }
        None => {}
    }
    let table = match table.text() {
        Ok(table) => table,
        // The layout is valid, but there is nothing more to show than the lines above.
        Err(
            error @ (LayoutError::NotStatic { .. }
            | LayoutError::TooLarge { .. }
            | LayoutError::Unsupported { .. }),
        ) => {
            format!("no picture: {}", said(&error))
        }
        Err(error) => return Err(about(text, &error)),
    };
    // The table starts with the notation, which is already printed above it.
    let notation = table.split('\n').next().unwrap_or_default();
    let table = match lines.iter().any(|(_, value)| value == notation) {
        true => table.get(notation.len() + 1..).unwrap_or_default(),
        false => &table,
    };
    print(&format!("{}\n{table}\n", Lines(lines)))
}

/// Returns the error for a swizzle in place of a layout.
fn no_layout(text: &str) -> Failure {
    Failure::input(format!(
        "`{text}` is only a swizzle, but `--op` and `--tv` need a layout, such as `{text} o 0 o (8,8):(8,1)`"
    ))
}

/// Up to this many indices are printed as JSON.
const MOST_INDICES: i64 = 1 << 14;

/// Describes a layout, or the result of an operation, as JSON.
fn json(options: &Options, values: &Values) -> Result<Value, Failure> {
    let text = options.layout.as_str();
    let layout = match subject(text, values)? {
        Subject::Swizzle(_) if options.op.is_some() || options.tv.is_some() => {
            return Err(no_layout(text));
        }
        Subject::Swizzle(swizzle) => return Ok(json!({ "swizzle": swizzle.to_string() })),
        Subject::Layout(layout) => layout,
    };
    let mut all = json!({ "layout": layout.to_string() });
    let shown = match &options.op {
        Some(name) => {
            let with = options.with.as_deref();
            let (operation, _, result) = applied(&layout, name, with, values)?;
            all["operation"] = operation.name.into();
            all["with"] = with.map(str::trim).into();
            all["result"] = result.to_string().into();
            Box::new(result)
        }
        None => layout,
    };
    let mut lines = Vec::new();
    sizes(&shown, &mut lines).map_err(|error| about(text, &error))?;
    for (name, value) in lines {
        // Values that depend on symbols become text.
        all[name] = value.parse::<i64>().map_or_else(|_| value.into(), Value::from);
    }
    let indices = match all["size"].as_i64() {
        Some(size @ 0..=MOST_INDICES) => {
            let index = |at| shown.apply(at).ok()?.to_int().ok()?.as_static();
            (0..size).map(index).collect::<Option<Vec<i64>>>()
        }
        _ => None,
    };
    all["indices"] = indices.into();
    Ok(all)
}

/// Returns the plain layout that `--tv` needs.
fn plain_for_tv<'a>(layout: &'a ComposedLayout, text: &str) -> Result<&'a Layout, Failure> {
    let no_plain = || Failure::input(format!("`--tv` needs a plain layout, not `{text}`"));
    layout.as_normal().ok_or_else(no_plain)
}

fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Adds size and cosize. The inverse of a swizzled layout has no shape, so it has neither.
fn sizes(
    layout: &ComposedLayout,
    lines: &mut Vec<(&'static str, String)>,
) -> Result<(), LayoutError> {
    let Ok(outer) = layout.outer_layout() else { return Ok(()) };
    lines.push(("size", outer.size()?.to_string()));
    let coshape = outer.coshape()?;
    lines.push(match coshape.is_leaf() {
        true => ("cosize", coshape.to_string()),
        false => ("coshape", coshape.to_string()),
    });
    Ok(())
}

/// Applies the named operation to a layout and its argument.
fn applied(
    layout: &ComposedLayout,
    name: &str,
    with: Option<&str>,
    values: &Values,
) -> Result<(&'static Operation, Argument, ComposedLayout), Failure> {
    let Some(operation) = OPERATIONS.iter().find(|op| op.name == name) else {
        return Err(Failure::input(format!("there is no operation `{name}`")));
    };
    let (argument, result) = operation.apply(layout, with, values)?;
    Ok((operation, argument, result))
}

/// Applies an operation. Returns two drawings: one of the result alone, and one of input, argument
/// and result.
fn operation(
    layout: &ComposedLayout,
    name: &str,
    with: Option<&str>,
    values: &Values,
    lines: &mut Vec<(&'static str, String)>,
) -> Result<(Drawing, Drawing), Failure> {
    let (operation, argument, result) = applied(layout, name, with, values)?;
    if let Some(with) = with {
        lines.push(("with", with.trim().to_owned()));
    }
    lines.push((operation.name, result.to_string()));
    sizes(&result, lines)
        .map_err(|error| Failure::input(format!("{name} of `{layout}`: {error}")))?;
    let picture = side_by_side(operation, layout, &argument, &result);
    Ok((result.draw(), picture))
}

/// Draws input, argument and result side by side.
fn side_by_side(
    operation: &Operation,
    layout: &ComposedLayout,
    argument: &Argument,
    result: &ComposedLayout,
) -> Drawing {
    let tiler: Option<Tiler> = argument.tiler();
    if let (Some(plain), Some(tiler), Some(made)) = (layout.as_normal(), tiler, result.as_normal())
    {
        match operation.family {
            Family::Divide => return Drawing::divide(operation.name, plain, &tiler, made),
            Family::Product => return Drawing::product(operation.name, plain, &tiler, made),
            Family::Composition => return Drawing::composition(plain, &tiler, made),
            Family::Other => {}
        }
    }
    let mut parts = vec![("layout", layout.draw())];
    parts.extend(argument.drawing().map(|drawing| ("with", drawing)));
    parts.push((operation.name, result.draw()));
    Drawing::beside(parts)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text)
        .map_err(|error| Failure::input(format!("cannot write `{}`: {error}", file.display())))
}
