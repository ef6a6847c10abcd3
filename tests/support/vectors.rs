//! Rows of the vector files: parses them, computes the crate's answer, and judges it.

#![allow(dead_code, reason = "each user uses a part")]

use serde_json::Value;
use tilewright::layout::{
    ComposedLayout, Coord, Env, Int, IntTuple, Layout, LayoutError, Ratio, Slot, StrideTuple,
    Swizzle, Tiler, TilerLeaf, laws,
};
use tilewright::tensor::atom::AtomError;

use super::oracle;

#[path = "vectors_run.rs"]
mod answers;
use answers::run;

const NO_DEFINITION: &str = "no definition to check it with";

/// How an answer compares with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same text.
    Equal,
    /// The row breaks the law. We refuse it, or our answer satisfies the law.
    Stricter,
    /// The row is an error, and our answer satisfies the law.
    Extends,
    /// Another text for the same function.
    Form,
    /// Anything else.
    Different,
}

pub(crate) struct Row {
    pub(crate) op: String,
    pub(crate) args: Vec<Value>,
    pub(crate) result: Value,
    value: Option<String>,
    dynamic: Option<Vec<i64>>,
    pub(crate) mixed: bool,
    pub(crate) near: bool,
    pub(crate) breaks_law: bool,
    pub(crate) by: Vec<String>,
    line: String,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Layout(LayoutError),
    Other(String),
}
impl From<LayoutError> for Failure {
    fn from(e: LayoutError) -> Self {
        Failure::Layout(e)
    }
}
impl From<AtomError> for Failure {
    fn from(e: AtomError) -> Self {
        match e {
            AtomError::Layout(e) => Failure::Layout(e),
            e => Failure::Other(e.to_string()),
        }
    }
}
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Layout(e) => e.fmt(f),
            Failure::Other(e) => f.write_str(e),
        }
    }
}
type Answer = Result<Out, Failure>;

/// What an operation returned.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    Layout(ComposedLayout),
    Tuple(IntTuple),
    Strides(StrideTuple),
    Pair(ComposedLayout, IntTuple),
    Text(String),
    /// The named layouts of an atom.
    Object(Vec<(&'static str, String)>),
}

impl Out {
    fn eval(&self, env: &Env) -> Result<Out, LayoutError> {
        Ok(match self {
            Out::Layout(l) => Out::Layout(l.eval(env)?),
            Out::Tuple(t) => Out::Tuple(t.eval(env)?),
            Out::Strides(t) => Out::Strides(t.map(|d| d.eval(env))?),
            Out::Pair(l, o) => Out::Pair(l.eval(env)?, o.eval(env)?),
            Out::Text(t) => Out::Text(t.clone()),
            Out::Object(fields) => Out::Object(fields.clone()),
        })
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Out::Layout(l) => l.to_string(),
            Out::Tuple(t) => t.to_string(),
            Out::Strides(t) => t.to_string(),
            Out::Pair(l, o) => format!("({l},{o})"),
            Out::Text(t) => t.clone(),
            Out::Object(fields) => {
                let fields = fields.iter().map(|(name, text)| format!("{name:?}: {text:?}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns the divisors of all leaves.
    fn divisors(&self) -> Vec<i64> {
        let of_layout = |l: &ComposedLayout, out: &mut Vec<i64>| {
            if let Ok(l) = l.outer_layout() {
                out.extend(l.shape().leaves().iter().map(divisor));
                out.extend(l.stride().leaves().iter().map(|d| d.value().map_or(1, divisor)));
            }
        };
        fn divisor(i: &Int) -> i64 {
            i.divisibility()
        }
        let mut out = Vec::new();
        match self {
            Out::Layout(l) => of_layout(l, &mut out),
            Out::Tuple(t) => out.extend(t.leaves().iter().map(divisor)),
            Out::Strides(t) => {
                out.extend(t.leaves().iter().map(|d| d.value().map_or(1, divisor)));
            }
            Out::Pair(l, o) => {
                of_layout(l, &mut out);
                out.extend(o.leaves().iter().map(divisor));
            }
            Out::Text(_) | Out::Object(_) => {}
        }
        out
    }
}

/// A row's arguments as text. `?` and, in mixed rows, integers without a mark have become symbols.
struct Args<'a> {
    row: &'a Row,
    env: Env,
    texts: Vec<String>,
}

/// Replaces each `?` by a name, and binds the name to its value.
fn name_unknowns(
    text: &str,
    values: &mut std::slice::Iter<'_, i64>,
    next: &mut usize,
    env: &mut Env,
) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c == '?' {
            let name = format!("d{next}");
            *next += 1;
            if let Some(v) = values.next() {
                *env = std::mem::take(env).with(&name, *v);
            }
            out.push_str(&name);
        } else {
            out.push(c);
        }
    }
    out
}

/// Replaces each `?` by its value.
fn fill_unknowns(text: &str, values: &mut std::slice::Iter<'_, i64>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('?') {
        out.push_str(before);
        out.push_str(&values.next().map_or("?".to_owned(), ToString::to_string));
        rest = match (after.starts_with('{'), after.find('}')) {
            (true, Some(end)) => &after[end + 1..],
            _ => after,
        };
    }
    out + rest
}

/// Replaces each integer without `_` by a name that is bound to it.
fn name_runtime(text: &str, next: &mut usize, env: &mut Env) -> String {
    let mut out = String::new();
    let bytes: Vec<char> = text.chars().collect();
    let mut i = 0;
    while i < bytes.len() {
        let c = bytes[i];
        let negative = c == '-' && bytes.get(i + 1).is_some_and(char::is_ascii_digit);
        let fresh = !matches!(i.checked_sub(1).map(|j| bytes[j]), Some('_' | '@' | '<'));
        if (c.is_ascii_digit() || negative) && fresh && !text.starts_with("S<") {
            let start = i;
            i += 1;
            while i < bytes.len() && bytes[i].is_ascii_digit() {
                i += 1;
            }
            let number: String = bytes[start..i].iter().collect();
            let value: i64 = number.parse().unwrap_or(0);
            if value < 1 {
                out.push_str(&number);
                continue;
            }
            let name = format!("d{next}");
            *next += 1;
            *env = std::mem::take(env).with(&name, value);
            out.push_str(&name);
        } else {
            out.push(c);
            i += 1;
            if c == '_' {
                // A static integer, with its sign.
                while i < bytes.len() && (bytes[i].is_ascii_digit() || bytes[i] == '-') {
                    out.push(bytes[i]);
                    i += 1;
                }
            }
        }
    }
    out
}

impl<'a> Args<'a> {
    fn new(row: &'a Row) -> Self {
        let (mut env, mut next) = (Env::new(), 0);
        let empty = Vec::new();
        let mut values = row.dynamic.as_ref().unwrap_or(&empty).iter();
        let texts = row
            .args
            .iter()
            .map(|arg| match arg {
                Value::String(text) if row.mixed => name_runtime(text, &mut next, &mut env),
                Value::String(text) => name_unknowns(text, &mut values, &mut next, &mut env),
                other => other.to_string(),
            })
            .collect();
        Self { row, env, texts }
    }

    /// Returns the arguments with values in place of symbols.
    fn with_values(&self) -> Self {
        let mut values = self.row.dynamic.as_deref().unwrap_or(&[]).iter();
        let texts = self
            .row
            .args
            .iter()
            .map(|arg| match arg {
                Value::String(text) if self.row.mixed => text.replace('_', ""),
                Value::String(text) => fill_unknowns(text, &mut values),
                other => other.to_string(),
            })
            .collect();
        Self { row: self.row, env: Env::new(), texts }
    }

    fn len(&self) -> usize {
        self.texts.len()
    }

    fn text(&self, i: usize) -> Result<&str, Failure> {
        self.texts
            .get(i)
            .map(String::as_str)
            .ok_or_else(|| Failure::Other(format!("argument {i} is missing")))
    }

    fn parse<T: std::str::FromStr<Err = LayoutError>>(&self, i: usize) -> Result<T, Failure> {
        Ok(self.text(i)?.parse()?)
    }

    fn is_layout(&self, i: usize) -> bool {
        self.text(i).is_ok_and(|t| t.contains(':'))
    }

    fn is_swizzle(&self, i: usize) -> bool {
        self.text(i).is_ok_and(|t| t.starts_with('S') && !t.contains(" o "))
    }

    fn layout(&self, i: usize) -> Result<ComposedLayout, Failure> {
        self.parse(i)
    }

    fn plain(&self, i: usize) -> Result<Layout, Failure> {
        let l = self.layout(i)?;
        l.as_normal().cloned().ok_or_else(|| Failure::Other(format!("{l} is not a layout")))
    }

    /// Returns the tuple, or a layout's shape.
    fn shape(&self, i: usize) -> Result<IntTuple, Failure> {
        if self.is_layout(i) {
            return Ok(self.layout(i)?.shape()?.to_owned());
        }
        self.parse(i)
    }

    fn coord(&self, i: usize) -> Result<Coord, Failure> {
        self.parse(i)
    }

    fn number(&self, i: usize) -> Result<i64, Failure> {
        let text = self.text(i)?.trim_start_matches('_');
        text.parse().map_err(|_| Failure::Other(format!("{text} is not a number")))
    }

    fn index(&self, i: usize) -> Result<usize, Failure> {
        usize::try_from(self.number(i)?).map_err(|e| Failure::Other(e.to_string()))
    }

    fn list(&self, i: usize) -> Result<Vec<usize>, Failure> {
        let text = self.text(i)?;
        let numbers = text.trim_matches(|c| "[]()".contains(c)).split(',');
        numbers
            .filter(|t| !t.trim().is_empty())
            .map(|t| {
                t.trim()
                    .trim_start_matches('_')
                    .parse()
                    .map_err(|_| Failure::Other(format!("{text} is not a list")))
            })
            .collect()
    }

    fn tiler(&self, i: usize) -> Result<Tiler, Failure> {
        self.parse(i)
    }

    fn ratio(&self, i: usize) -> Result<Ratio, Failure> {
        self.parse(i)
    }
}

fn has_negative_extent(layout: &ComposedLayout) -> bool {
    layout.shape().is_ok_and(|shape| {
        shape.leaves().iter().any(|extent| extent.as_static().is_some_and(|extent| extent < 0))
    })
}

impl Row {
    /// Parses a row. `mixed` says that integers without `_` are run-time values.
    pub(crate) fn parse(line: &str, mixed: bool) -> Result<Self, String> {
        let v: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let op = v["op"].as_str().ok_or("no op")?.to_owned();
        let args = v["args"].as_array().ok_or("no args")?.clone();
        // Rows that mix static and run-time values mark the static ones with `_`; some rows have
        // none. Atom names contain `_`, too.
        let src = v["src"].as_str().unwrap_or("");
        let named = v["result"].is_object();
        let mixed = mixed
            || (src.starts_with("dyn") && v.get("dyn").is_none())
            || v["result"].as_str().is_some_and(has_static_mark)
            || (!named && args.iter().any(|a| a.as_str().is_some_and(has_static_mark)));
        Ok(Self {
            op,
            args,
            result: v["result"].clone(),
            value: v["result_val"].as_str().map(str::to_owned),
            dynamic: v["dyn"].as_array().map(|d| d.iter().filter_map(Value::as_i64).collect()),
            mixed,
            near: v.get("near").is_some(),
            breaks_law: v["contract"] == Value::Bool(false),
            by: v["by"]
                .as_array()
                .map(|b| b.iter().filter_map(|x| x.as_str().map(str::to_owned)).collect())
                .unwrap_or_default(),
            line: line.to_owned(),
        })
    }

    /// Returns whether the C++ implementation and another one agree on the row.
    pub(crate) fn is_agreed(&self) -> bool {
        self.by.len() > 1 && self.by.iter().any(|b| b == "cpp")
    }

    pub(crate) fn describe(&self) -> String {
        let args: Vec<String> = self.args.iter().map(ToString::to_string).collect();
        let by = self.by.join("+");
        let expected = self.value.clone().unwrap_or_else(|| match &self.result {
            Value::String(s) => s.clone(),
            other => other.to_string(),
        });
        let dynamic = self.dynamic.as_ref().map_or(String::new(), |d| format!(" dyn {d:?}"));
        format!("{}({}){dynamic} = {expected} [{by}]", self.op, args.join(", "))
    }

    /// Returns the crate's own answer, with the run-time values if the row has any.
    pub(crate) fn answer(&self) -> Result<String, Failure> {
        let args = Args::new(self);
        let out = match run(&self.op, &args) {
            Err(Failure::Layout(e)) if matches!(e.cause(), LayoutError::Undecided { .. }) => {
                run(&self.op, &args.with_values())?
            }
            other => other?,
        };
        Ok(out.eval(&args.env)?.text())
    }

    fn expected(&self) -> String {
        match (&self.value, &self.result) {
            (Some(value), _) => value.clone(),
            (None, Value::String(text)) if self.mixed => text.replace('_', ""),
            (None, Value::String(text)) => text.clone(),
            (None, other) => other.to_string(),
        }
    }

    pub(crate) fn judge(&self) -> (Verdict, String) {
        let args = Args::new(self);
        if let Value::Object(expected) = &self.result {
            return match run(&self.op, &args) {
                Ok(Out::Object(ours)) => judge_fields(&ours, expected),
                Ok(out) => (Verdict::Different, format!("-> {}", out.text())),
                Err(error) => (Verdict::Different, format!("-> {error}")),
            };
        }
        let expected = self.expected();
        let symbolic = match run(&self.op, &args) {
            // If the symbols leave something undecided, their values decide it.
            Err(Failure::Layout(e)) if matches!(e.cause(), LayoutError::Undecided { .. }) => {
                run(&self.op, &args.with_values())
            }
            other => other,
        };
        let answer = match &symbolic {
            Ok(out) => out.eval(&args.env).map_err(Failure::from),
            Err(Failure::Layout(e)) => Err(Failure::Layout(e.clone())),
            Err(Failure::Other(e)) => Err(Failure::Other(e.clone())),
        };
        match answer {
            Err(Failure::Layout(_)) if expected == "ERROR" => (Verdict::Equal, String::new()),
            Err(Failure::Layout(error))
                if self.breaks_law || self.result_breaks_law(&args, &expected) =>
            {
                (Verdict::Stricter, error.to_string())
            }
            Err(error) => (Verdict::Different, format!("-> {error}")),
            Ok(out) if expected == "ERROR" => match self.check(&args, &out) {
                Ok(()) => (Verdict::Extends, format!("-> {}", out.text())),
                Err(why) => (Verdict::Different, format!("-> {} but {why}", out.text())),
            },
            Ok(out) => {
                let text = out.text();
                if text == expected {
                    if let Ok(symbolic) = &symbolic
                        && let Some(weak) = self.weaker_divisor(symbolic)
                    {
                        return (Verdict::Different, weak);
                    }
                    return (Verdict::Equal, String::new());
                }
                if self.breaks_law {
                    return match self.check(&args, &out) {
                        Ok(()) => (Verdict::Stricter, format!("-> {text}")),
                        Err(why) => (Verdict::Different, format!("-> {text} but {why}")),
                    };
                }
                // A symbolic result is compared by its values, because modes whose size is 1 only
                // for these values may be present or not.
                let free_form = self.near || self.dynamic.is_some() || self.mixed;
                if free_form && self.same_function(&out, &expected) {
                    return (Verdict::Form, format!("-> {text}"));
                }
                if self.result_breaks_law(&args, &expected) && self.check(&args, &out).is_ok() {
                    return (Verdict::Stricter, format!("-> {text}"));
                }
                (Verdict::Different, format!("-> {text}"))
            }
        }
    }

    /// Returns whether the row's own result violates the operation's definition.
    fn result_breaks_law(&self, args: &Args<'_>, expected: &str) -> bool {
        let out = match expected.parse::<ComposedLayout>() {
            // Extents must be positive.
            Ok(layout) if has_negative_extent(&layout) => return true,
            Ok(layout) => Out::Layout(layout),
            Err(_) => return false,
        };
        self.check(args, &out).is_err_and(|why| why != NO_DEFINITION)
    }

    /// Returns a leaf whose divisor is weaker than the printed one, if there is one.
    fn weaker_divisor(&self, out: &Out) -> Option<String> {
        self.dynamic.as_ref()?;
        let printed = printed_divisors(self.result.as_str()?);
        let ours = out.divisors();
        if printed.len() != ours.len() {
            return None;
        }
        printed
            .iter()
            .zip(&ours)
            .find(|(p, o)| **p > 1 && *o % *p != 0)
            .map(|(p, o)| format!("the divisor {p} of {} is known as {o} only", self.result))
    }

    fn same_function(&self, out: &Out, expected: &str) -> bool {
        match out {
            Out::Layout(l) => {
                expected.parse::<ComposedLayout>().is_ok_and(|e| oracle::check_same(l, &e).is_ok())
            }
            Out::Pair(l, offset) => split_pair(expected).is_some_and(|(e, o)| {
                o == offset.to_string()
                    && e.parse::<ComposedLayout>().is_ok_and(|e| oracle::check_same(l, &e).is_ok())
            }),
            Out::Tuple(t) => expected.parse::<StrideTuple>().is_ok_and(|e| {
                // A basis value is the coordinate that it produces.
                e.as_leaf().is_some_and(|d| {
                    Layout::leaf(2, d.clone()).apply(1).is_ok_and(|v| oracle::same_value(&v, t))
                })
            }),
            _ => false,
        }
    }

    /// Checks a result that no implementation gives against the operation's definition.
    fn check(&self, args: &Args<'_>, out: &Out) -> Result<(), String> {
        let text = |e: Failure| e.to_string();
        let eval = |l: ComposedLayout| l.eval(&args.env).map_err(|e| e.to_string());
        let at = |i: usize| args.layout(i).map_err(text).and_then(eval);
        let plain = |i: usize| {
            let l = at(i)?;
            l.as_normal().cloned().ok_or_else(|| format!("{l} is composed"))
        };
        let tiler = |i: usize| {
            let t = args.tiler(i).map_err(text)?;
            t.map(|leaf| {
                Ok::<_, LayoutError>(match leaf {
                    TilerLeaf::Int(n) => TilerLeaf::Int(n.eval(&args.env)?.into()),
                    TilerLeaf::Layout(l) => TilerLeaf::Layout(Box::new(l.eval(&args.env)?)),
                    TilerLeaf::All => TilerLeaf::All,
                })
            })
            .map_err(|e| e.to_string())
        };
        match (self.op.as_str(), out) {
            ("composition", Out::Text(r)) if args.is_swizzle(0) && args.is_swizzle(1) => {
                let read = |t: &str| t.parse::<Swizzle>().map_err(|e| e.to_string());
                let (a, b) =
                    (read(args.text(0).map_err(text)?)?, read(args.text(1).map_err(text)?)?);
                let r = read(r)?;
                match (0..1 << 16).find(|&x| r.apply(x) != a.apply(b.apply(x))) {
                    Some(x) => Err(format!("at {x}")),
                    None => Ok(()),
                }
            }
            ("composition", Out::Layout(r)) if args.is_swizzle(1) => {
                let swizzle: Swizzle = args.parse(1).map_err(text)?;
                let l = at(0)?;
                let n = l.size().and_then(|s| s.to_static()).map_err(|e| e.to_string())?;
                for x in 0..n.min(oracle::LIMIT) {
                    let v = oracle::value(&l, swizzle.apply(x))?;
                    let w = oracle::value(r, x)?;
                    if v != w {
                        return Err(format!("at {x}: {w}, not {v}"));
                    }
                }
                Ok(())
            }
            ("composition", Out::Layout(r))
                if args.is_layout(1) && !args.text(1).is_ok_and(is_tiler) =>
            {
                oracle::said(oracle::check_composition(at(0)?, at(1)?, r))
            }
            ("composition", Out::Layout(r)) => {
                let normal = r.outer_layout().map_err(|e| e.to_string())?;
                oracle::said(oracle::check_composition_by(
                    at(0)?.outer_layout().map_err(|e| e.to_string())?,
                    &tiler(1)?,
                    normal,
                ))
            }
            ("right_inverse", Out::Layout(r)) if r.outer_layout().is_err() => {
                let l = at(0)?;
                let plain = l.nonswizzle_portion().and_then(Layout::right_inverse);
                let n = plain.and_then(|l| l.size()?.to_static()).map_err(|e| e.to_string())?;
                oracle::said(oracle::check_right_inverse(&l, r, n))
            }
            ("right_inverse", Out::Layout(r)) => {
                let n = r.size().and_then(|s| s.to_static()).map_err(|e| e.to_string())?;
                oracle::said(oracle::check_right_inverse(at(0)?, r, n))
            }
            ("left_inverse", Out::Layout(r)) => oracle::said(oracle::check_left_inverse(at(0)?, r)),
            ("complement", Out::Layout(r)) => {
                let cotarget = if args.len() > 1 {
                    let t = args.shape(1).map_err(text)?.eval(&args.env);
                    let t = t.map_err(|e| e.to_string())?;
                    t.leaves().iter().filter_map(Int::as_static).collect()
                } else {
                    vec![1]
                };
                let outer = r.outer_layout().map_err(|e| e.to_string())?;
                oracle::said(oracle::check_complement(
                    at(0)?.outer_layout().map_err(|e| e.to_string())?,
                    &cotarget,
                    outer,
                ))
            }
            (
                "logical_divide" | "zipped_divide" | "tiled_divide" | "flat_divide",
                Out::Layout(r),
            ) => {
                let l = at(0)?;
                let logical = l.logical_divide(&tiler(1)?).map_err(|e| e.to_string())?;
                let outer =
                    |l: &ComposedLayout| l.outer_layout().cloned().map_err(|e| e.to_string());
                oracle::said(laws::check_logical_divide(
                    &outer(&l)?,
                    &tiler(1)?,
                    &outer(&logical)?,
                ))?;
                same_leaves(&outer(&logical)?, &outer(r)?)
            }
            (
                "logical_product" | "zipped_product" | "tiled_product" | "flat_product",
                Out::Layout(r),
            ) => {
                let l = at(0)?;
                let t = tiler(1)?;
                let logical = l.logical_product(&t).map_err(|e| e.to_string())?;
                let outer =
                    |l: &ComposedLayout| l.outer_layout().cloned().map_err(|e| e.to_string());
                if let Some(TilerLeaf::Layout(tile)) = t.as_leaf() {
                    oracle::said(oracle::check_logical_product(
                        &outer(&l)?,
                        tile.as_ref(),
                        &outer(&logical)?,
                    ))?;
                }
                same_leaves(&outer(&logical)?, &outer(r)?)
            }
            ("blocked_product" | "raked_product", Out::Layout(r)) => {
                let (b, t) = (plain(0)?, plain(1)?);
                let rank = b.rank().max(t.rank());
                let one = Layout::trivial();
                let pad = |l: &Layout| l.append_to(rank, &one).map_err(|e| e.to_string());
                let (b, t) = (pad(&b)?, pad(&t)?);
                let p = b.logical_product(&t).map_err(|e| e.to_string())?;
                oracle::said(oracle::check_logical_product(&b, &t, &p))?;
                let outer = r.outer_layout().map_err(|e| e.to_string())?;
                same_leaves(&p, outer)
            }
            ("max_common_vector" | "max_common_layout", out) => {
                let (a, b) = (at(0)?, at(1)?);
                let n = match out {
                    Out::Tuple(t) => t.as_static().ok_or("no number")?,
                    Out::Layout(r) => {
                        r.size().and_then(|s| s.to_static()).map_err(|e| e.to_string())?
                    }
                    _ => return Err("no number".to_owned()),
                };
                if n == 1 {
                    return Ok(());
                }
                let common = match out {
                    Out::Layout(r) => r.clone(),
                    _ => {
                        let l = a.max_common_layout(&b).map_err(|e| e.to_string())?;
                        l.into()
                    }
                };
                // Every coordinate must be a coordinate of both layouts.
                let size = |l: &ComposedLayout| l.size().and_then(|s| s.to_static());
                let domain = size(&a).and_then(|n| Ok(n.min(size(&b)?)));
                if n > domain.map_err(|e| e.to_string())? {
                    return Err(format!("{n} elements leave {a} or {b}"));
                }
                oracle::said(oracle::check_right_inverse(&a, &common, n))?;
                oracle::said(oracle::check_right_inverse(&b, &common, n))
            }
            ("slice" | "slice_and_offset", Out::Pair(..) | Out::Layout(_)) => {
                check_slice(&at(1)?, &args.coord(0).map_err(text)?, &args.env, out)
            }
            ("crd2idx", Out::Tuple(t)) => {
                let l = at(1)?;
                let c = args.coord(0).map_err(text)?.to_ints("").map_err(|e| e.to_string())?;
                let c = c.eval(&args.env).map_err(|e| e.to_string())?;
                let v = l.apply(&c).map_err(|e| e.to_string())?;
                if v == *t { Ok(()) } else { Err(format!("{v}")) }
            }
            ("tile_to_shape", Out::Layout(r)) => {
                let target = args.shape(1).map_err(text)?.eval(&args.env);
                let target = target.map_err(|e| e.to_string())?;
                let shape = r.shape().map_err(|e| e.to_string())?.to_owned();
                match target.compatible(&shape) {
                    Ok(true) => Ok(()),
                    _ => Err(format!("{shape} does not refine {target}")),
                }
            }
            ("recast_layout", Out::Layout(r)) => {
                let steps =
                    Ratio::new(args.number(2).map_err(text)?, args.number(1).map_err(text)?);
                let steps = steps.map_err(|e| e.to_string())?;
                let r = r.outer_layout().map_err(|e| e.to_string())?;
                oracle::said(laws::check_recast(
                    &plain(0)?,
                    steps.denominator(),
                    steps.numerator(),
                    r,
                ))
            }
            _ => Err(NO_DEFINITION.to_owned()),
        }
    }
}

/// Compares an atom's layouts one by one. The verdict is the worst of them.
fn judge_fields(
    ours: &[(&'static str, String)],
    expected: &serde_json::Map<String, Value>,
) -> (Verdict, String) {
    let mut worst = (Verdict::Equal, String::new());
    for (name, theirs) in expected {
        let theirs = theirs.as_str().unwrap_or("");
        let Some((_, text)) = ours.iter().find(|(n, _)| n == name) else {
            return (Verdict::Different, format!("no {name}"));
        };
        if text == theirs {
            continue;
        }
        let verdict = match (text.parse::<ComposedLayout>(), theirs.parse::<ComposedLayout>()) {
            (Ok(a), Ok(b)) if oracle::check_same(&a, &b).is_ok() => Verdict::Form,
            // Not a layout, because shape and stride have different profiles.
            (Ok(_), Err(LayoutError::NotCongruent { .. })) => Verdict::Stricter,
            _ => return (Verdict::Different, format!("{name} -> {text}")),
        };
        worst = (verdict, format!("{name} -> {text}"));
    }
    worst
}

fn is_tiler(text: &str) -> bool {
    text.parse::<ComposedLayout>().is_err()
}

/// Checks `L(c) == offset + R(rest)` at every coordinate that fits `c`.
fn check_slice(l: &ComposedLayout, c: &Coord, env: &Env, out: &Out) -> Result<(), String> {
    let (r, offset) = match out {
        Out::Pair(r, o) => (r, o.clone()),
        Out::Layout(r) => {
            let (_, o) = l.slice_and_offset(c).map_err(|e| e.to_string())?;
            (r, o)
        }
        _ => return Err("no layout".to_owned()),
    };
    let c = c
        .map(|s| {
            Ok::<_, LayoutError>(match s {
                Slot::At(v) => Slot::At(v.eval(env)?.into()),
                Slot::All => Slot::All,
            })
        })
        .map_err(|e| e.to_string())?;
    oracle::said(laws::check_slice(l, &c, r, &offset))
}

/// Checks that both layouts have the same extents, besides 1, and strides, in any order.
fn same_leaves(a: &Layout, b: &Layout) -> Result<(), String> {
    let sorted = |l: &Layout| {
        let mut leaves: Vec<String> = l
            .as_ref()
            .leaves()
            .filter(|(s, _)| **s != 1)
            .map(|(s, d)| format!("{s}:{d}"))
            .collect();
        leaves.sort();
        leaves
    };
    if sorted(a) == sorted(b) { Ok(()) } else { Err(format!("{b} has other modes than {a}")) }
}

fn has_static_mark(text: &str) -> bool {
    text.char_indices().any(|(i, c)| {
        c == '_' && text[i + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-')
    })
}

/// Splits `(layout,offset)` at the last comma outside of parentheses.
fn split_pair(text: &str) -> Option<(&str, String)> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0;
    for (i, c) in inner.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            ',' if depth == 0 => return Some((&inner[..i], inner[i + 1..].to_owned())),
            _ => {}
        }
    }
    None
}

fn printed_divisors(text: &str) -> Vec<i64> {
    // The leaves in the order of the text: integers and `?`s.
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix('?') {
            let mut divisor = 1;
            let mut end = 0;
            if after.starts_with('{') {
                end = after.find('}').map_or(0, |i| i + 1);
                if let Some(at) = after[..end].find("div=") {
                    let digits: String =
                        after[at + 4..].chars().take_while(char::is_ascii_digit).collect();
                    divisor = digits.parse().unwrap_or(1);
                }
            }
            out.push(divisor);
            rest = &after[end..];
        } else if c.is_ascii_digit() {
            let len = rest.chars().take_while(char::is_ascii_digit).count();
            // A static leaf needs no divisor.
            out.push(1);
            rest = &rest[len..];
            while let Some(after) = rest.strip_prefix('@') {
                let len = after.chars().take_while(char::is_ascii_digit).count();
                rest = &after[len..];
            }
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}
