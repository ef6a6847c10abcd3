//! Mistakes that programmers make, each applied at every line of a kernel where it can be made.
//!
//! A line of the text form is an operation of the IR.

/// A kernel with one mistake.
pub(crate) struct Mutant {
    pub(crate) class: &'static str,
    pub(crate) operator: &'static str,
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// The text of the line, without spaces at its ends.
    pub(crate) site: String,
    pub(crate) text: String,
}

/// The lines of a kernel, and one of them.
struct Site<'t> {
    lines: &'t [String],
    at: usize,
}

/// The operations that access memory.
const ACCESSES: [&str; 16] = [
    "ld",
    "st",
    "ld_vec",
    "st_vec",
    "atom",
    "atom_cas",
    "ldmatrix",
    "cp_async",
    "cp_async_bulk_load",
    "cp_async_bulk_store",
    "cp_async_bulk_tensor_load",
    "cp_async_bulk_tensor_store",
    "cp_async_bulk_tensor_multicast",
    "st_async",
    "wgmma",
    "ld_matrix",
];

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the operation of a line.
fn op_of(line: &str) -> &str {
    let line = line.trim();
    let line =
        if line.starts_with('%') { line.split_once("= ").map_or("", |(_, op)| op) } else { line };
    line.split(['<', ' ', ';']).next().unwrap_or("")
}

/// The result of a line.
fn result_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let (name, _) = line.split_once(" = ")?;
    name.starts_with('%').then_some(name)
}

/// The operands of a line.
fn operands(line: &str) -> Vec<&str> {
    let text = line.trim().split(" ;").next().unwrap_or("");
    let text = text.split_once("= ").map_or(text, |(_, op)| op);
    let names = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '%');
    text.split(names).filter(|word| word.starts_with('%')).collect()
}

impl Site<'_> {
    fn line(&self) -> &str {
        &self.lines[self.at]
    }

    fn op(&self) -> &str {
        op_of(self.line())
    }

    fn is(&self, ops: &[&str]) -> bool {
        ops.contains(&self.op())
    }

    /// The kernel with other lines in place of the line.
    fn with(&self, new: &[String]) -> Option<String> {
        let mut all = self.lines.to_vec();
        all.splice(self.at..=self.at, new.iter().cloned());
        Some(all.join("\n"))
    }

    /// The line with a text in place of the first occurrence of another one.
    fn replaced(&self, from: &str, to: &str) -> Option<String> {
        let line = self.line();
        line.contains(from).then(|| line.replacen(from, to, 1)).and_then(|line| self.with(&[line]))
    }

    fn space(&self) -> String {
        " ".repeat(indent(self.line()))
    }

    /// Returns true for a line whose result nothing uses.
    fn is_unused(&self) -> bool {
        let Some(result) = result_of(self.line()) else { return false };
        let mut others = self.lines.iter().enumerate().filter(|(at, _)| *at != self.at);
        !others.any(|(_, line)| operands(line).contains(&result))
    }

    /// The kernel without the line, where nothing uses its result.
    fn dropped(&self) -> Option<String> {
        let has_result = result_of(self.line()).is_some();
        (!has_result || self.is_unused()).then(|| self.with(&[]))?
    }

    /// The integer that an operand is, if it is a constant.
    fn constant(&self, name: &str) -> Option<i64> {
        let line = self.lines.iter().find(|line| result_of(line) == Some(name))?;
        let value = line.trim().split_once("= const ")?.1;
        value.split(' ').next()?.parse().ok()
    }

    /// The kernel with a constant of a type in place of operand number `operand`.
    fn with_constant(&self, operand: usize, value: &str, ty: &str) -> Option<String> {
        let line = self.line();
        let name = *operands(line).get(operand)?;
        let start = if result_of(line).is_some() { line.find("= ")? + 2 } else { 0 };
        // The operand, not a longer name that begins with it.
        let mut from = start;
        let mut seen = 0;
        let at = loop {
            let at = from + line[from..].find('%')?;
            let end = line[at + 1..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .map_or(line.len(), |len| at + 1 + len);
            if seen == operand {
                assert_eq!(&line[at..end], name);
                break at..end;
            }
            (seen, from) = (seen + 1, end);
        };
        let mut line = line.to_owned();
        line.replace_range(at, "%mutant");
        self.with(&[format!("{}%mutant = const {value} : {ty}", self.space()), line])
    }

    /// The kernel with a constant operand changed.
    fn changed(&self, operand: usize, ty: &str, f: impl Fn(i64) -> i64) -> Option<String> {
        let value = self.constant(operands(self.line()).get(operand)?)?;
        let new = f(value);
        (new != value && new >= 0).then(|| self.with_constant(operand, &new.to_string(), ty))?
    }

    /// The line of the next access before (or behind) this one in the same region, over pure
    /// operations only.
    fn neighbour(&self, behind: bool) -> Option<usize> {
        let mut at = self.at;
        loop {
            at = if behind { at + 1 } else { at.checked_sub(1)? };
            let line = self.lines.get(at)?;
            if indent(line) != indent(self.line()) || line.contains('{') || line.contains('}') {
                return None;
            }
            let op = op_of(line);
            if ACCESSES.contains(&op) {
                return Some(at);
            }
            let stops = ["barrier", "bar_warp", "mbarrier", "fence", "continue", "yield", "break"];
            if stops.iter().any(|stop| op.starts_with(stop)) || op.contains("wait") {
                return None;
            }
        }
    }

    /// The kernel with the line on the other side of the next fence, or of the next strong
    /// operation.
    fn moved_over_sync(&self, behind: bool) -> Option<String> {
        let mut at = self.at;
        loop {
            at = if behind { at + 1 } else { at.checked_sub(1)? };
            let line = self.lines.get(at)?;
            if indent(line) < indent(self.line()) {
                return None;
            }
            let is_strong = ["st", "ld", "atom"].contains(&op_of(line)) && line.contains('<');
            if indent(line) == indent(self.line()) && (op_of(line) == "fence" || is_strong) {
                break;
            }
        }
        let mut all = self.lines.to_vec();
        let line = all.remove(self.at);
        all.insert(at, line);
        Some(all.join("\n"))
    }

    /// The kernel with the line on the other side of the next access.
    fn moved(&self, behind: bool) -> Option<String> {
        let to = self.neighbour(behind)?;
        let mut all = self.lines.to_vec();
        let line = all.remove(self.at);
        all.insert(to, line);
        Some(all.join("\n"))
    }
}

/// The text that a line becomes, if the mistake can be made there.
type Make = fn(&Site<'_>) -> Option<String>;

/// A class, its operators, and what each makes.
const OPERATORS: &[(&str, &str, Make)] = &[
    ("drop barrier", "drop", |s| s.is(&["barrier"]).then(|| s.dropped())?),
    ("drop barrier", "only of the warp", |s| {
        let space = s.space();
        let mask = format!("{space}%mutant = const 4294967295 : u32");
        s.is(&["barrier"]).then(|| s.with(&[mask, format!("{space}bar_warp %mutant")]))?
    }),
    ("move barrier", "one access earlier", |s| s.is(&["barrier"]).then(|| s.moved(false))?),
    ("move barrier", "one access later", |s| s.is(&["barrier"]).then(|| s.moved(true))?),
    ("named barrier", "drop", |s| {
        s.is(&["barrier_sync", "barrier_arrive"]).then(|| s.dropped())?
    }),
    ("named barrier", "fewer threads", |s| {
        s.is(&["barrier_sync", "barrier_arrive"]).then(|| s.changed(1, "u32", |n| n - 32))?
    }),
    ("named barrier", "more threads", |s| {
        s.is(&["barrier_sync", "barrier_arrive"]).then(|| s.changed(1, "u32", |n| n + 32))?
    }),
    ("named barrier", "another one", |s| {
        s.is(&["barrier_sync", "barrier_arrive"]).then(|| s.changed(0, "u32", |n| n + 2))?
    }),
    ("named barrier", "sync as arrive", |s| {
        s.is(&["barrier_sync"]).then(|| s.replaced("barrier_sync", "barrier_arrive"))?
    }),
    ("named barrier", "arrive too early", |s| s.is(&["barrier_arrive"]).then(|| s.moved(false))?),
    ("named barrier", "sync too late", |s| s.is(&["barrier_sync"]).then(|| s.moved(true))?),
    ("__syncwarp", "drop", |s| s.is(&["bar_warp"]).then(|| s.dropped())?),
    ("__syncwarp", "one access earlier", |s| s.is(&["bar_warp"]).then(|| s.moved(false))?),
    ("__syncwarp", "one access later", |s| s.is(&["bar_warp"]).then(|| s.moved(true))?),
    ("collective as fence", "shuffle", |s| {
        s.is(&["bar_warp"]).then(|| {
            let space = s.space();
            s.with(&[
                format!("{space}%mutant_seg = const 31 : u32"),
                format!(
                    "{space}%mutant, %mutant_in = shfl<bfly> %t, %u1, %mutant_seg, %all : i32, bool"
                ),
            ])
        })?
    }),
    ("collective as fence", "vote", |s| {
        s.is(&["bar_warp"])
            .then(|| s.with(&[format!("{}%mutant = vote_ballot %first, %all : u32", s.space())]))?
    }),
    ("collective as fence", "match", |s| {
        s.is(&["bar_warp"])
            .then(|| s.with(&[format!("{}%mutant = match_any %t, %all : u32", s.space())]))?
    }),
    ("collective as fence", "reduction", |s| {
        s.is(&["bar_warp"])
            .then(|| s.with(&[format!("{}%mutant = redux<add> %t, %all : i32", s.space())]))?
    }),
    ("member mask", "half of the warp", |s| match s.op() {
        "bar_warp" => s.with_constant(0, "65535", "u32"),
        "redux" => s.with_constant(1, "65535", "u32"),
        _ => None,
    }),
    ("cp.async", "drop commit", |s| s.is(&["cp_async_commit_group"]).then(|| s.dropped())?),
    ("cp.async", "drop wait", |s| {
        s.is(&["cp_async_wait_group", "cp_async_wait_all"]).then(|| s.dropped())?
    }),
    ("cp.async", "wait for one fewer", |s| s.is(&["cp_async_wait_group"]).then(|| one_more(s))?),
    ("cp.async", "arrive too early", |s| {
        s.is(&["cp_async_mbarrier_arrive"]).then(|| s.moved(false))?
    }),
    ("cp.async", "drop arrive", |s| s.is(&["cp_async_mbarrier_arrive"]).then(|| s.dropped())?),
    ("bulk store", "drop commit", |s| {
        s.is(&["cp_async_bulk_commit_group"]).then(|| s.dropped())?
    }),
    ("bulk store", "drop wait", |s| s.is(&["cp_async_bulk_wait_group"]).then(|| s.dropped())?),
    ("bulk store", "wait for one fewer", |s| {
        s.is(&["cp_async_bulk_wait_group"]).then(|| one_more(s))?
    }),
    ("proxy fence", "drop", |s| s.is(&["fence_proxy_async"]).then(|| s.dropped())?),
    ("proxy fence", "too early", |s| s.is(&["fence_proxy_async"]).then(|| s.moved(false))?),
    ("proxy fence", "of global memory", |s| {
        let line = s.line().split(';').next()?.trim_end();
        let name = "fence_proxy_async";
        let at = line.find(name)?;
        s.with(&[format!("{}{name}<global>", &line[..at])])
    }),
    ("mbarrier", "drop wait", |s| s.is(&["mbarrier_wait_parity"]).then(|| s.dropped())?),
    ("mbarrier", "other parity", |s| {
        let name = *operands(s.line()).get(2).filter(|_| s.is(&["mbarrier_wait_parity"]))?;
        let flip = format!("{}%mutant = xor {name}, %u1 : u32", s.space());
        let at = s.line().rfind(name)?;
        let mut line = s.line().to_owned();
        line.replace_range(at..at + name.len(), "%mutant");
        s.with(&[flip, line])
    }),
    ("mbarrier", "wait too late", |s| s.is(&["mbarrier_wait_parity"]).then(|| s.moved(true))?),
    ("mbarrier", "drop arrive", |s| s.is(&ARRIVALS).then(|| s.dropped())?),
    ("mbarrier", "arrive too early", |s| s.is(&ARRIVALS).then(|| s.moved(false))?),
    ("mbarrier", "arrive twice", |s| {
        let line = s.line().to_owned();
        let again = match line.split_once(" = ") {
            Some((_, op)) => format!("{}%mutant = {op}", s.space()),
            None => line.clone(),
        };
        s.is(&ARRIVALS).then(|| s.with(&[line, again]))?
    }),
    ("mbarrier", "arrive without bytes", |s| {
        let [barrier, index, _] = operands(s.line())[..] else { return None };
        let (space, result) = (s.space(), result_of(s.line())?);
        (s.op() == "mbarrier_arrive_expect_tx").then(|| {
            s.with(&[
                format!("{space}%mutant = const 1 : u32"),
                format!("{space}{result} = mbarrier_arrive {barrier}, {index}, %mutant : u64"),
            ])
        })?
    }),
    ("mbarrier", "more bytes", |s| {
        s.is(&["mbarrier_arrive_expect_tx"]).then(|| s.changed(2, "u32", |n| n + 16))?
    }),
    ("mbarrier", "fewer bytes", |s| {
        s.is(&["mbarrier_arrive_expect_tx"]).then(|| s.changed(2, "u32", |n| n - 16))?
    }),
    ("mbarrier", "drop init", |s| s.is(&["mbarrier_init"]).then(|| s.dropped())?),
    ("mbarrier count", "one more", |s| {
        s.is(&["mbarrier_init"]).then(|| s.changed(2, "u32", |n| n + 1))?
    }),
    ("mbarrier count", "one fewer", |s| {
        s.is(&["mbarrier_init"]).then(|| s.changed(2, "u32", |n| n - 1))?
    }),
    ("mbarrier init fence", "drop", |s| s.is(&["fence_mbarrier_init"]).then(|| s.dropped())?),
    ("remote arrival", "without release", |s| {
        s.replaced("mbarrier_arrive_cluster<release>", "mbarrier_arrive_cluster")
    }),
    ("wgmma", "drop fence", |s| s.is(&["wgmma_fence"]).then(|| s.dropped())?),
    ("wgmma", "drop commit", |s| s.is(&["wgmma_commit_group"]).then(|| s.dropped())?),
    ("wgmma", "drop wait", |s| s.is(&["wgmma_wait_group"]).then(|| s.dropped())?),
    ("wgmma", "wait for one fewer", |s| s.is(&["wgmma_wait_group"]).then(|| one_more(s))?),
    ("cluster barrier", "drop both halves", |s| {
        let next = s.lines.get(s.at + 1).filter(|line| op_of(line) == "barrier_cluster_wait")?;
        (s.op() == "barrier_cluster_arrive").then(|| {
            let mut all = s.lines.to_vec();
            all.retain(|line| !std::ptr::eq(line, next));
            all.drain(s.at..=s.at + 1);
            all.join("\n")
        })
    }),
    ("cluster barrier", "one access earlier", |s| moved_cluster_barrier(s, false)),
    ("cluster barrier", "one access later", |s| moved_cluster_barrier(s, true)),
    ("cluster barrier", "barrier of the block", |s| {
        let is_wait =
            s.lines.get(s.at + 1).is_some_and(|line| op_of(line) == "barrier_cluster_wait");
        (s.op() == "barrier_cluster_arrive" && is_wait).then(|| {
            let mut all = s.lines.to_vec();
            all.splice(s.at..=s.at + 1, [format!("{}barrier", s.space())]);
            all.join("\n")
        })
    }),
    ("cluster barrier", "drop arrive", |s| {
        s.is(&["barrier_cluster_arrive"]).then(|| s.dropped())?
    }),
    ("cluster barrier", "drop wait", |s| s.is(&["barrier_cluster_wait"]).then(|| s.dropped())?),
    ("cluster arrival", "relaxed", |s| {
        (s.line().trim() == "barrier_cluster_arrive")
            .then(|| s.with(&[format!("{}barrier_cluster_arrive<, relaxed>", s.space())]))?
    }),
    ("thread fence", "drop", |s| s.is(&["fence"]).then(|| s.dropped())?),
    ("thread fence", "scope cta", |s| s.is(&["fence"]).then(|| s.replaced("gpu", "cta"))?),
    ("order", "acquire as relaxed", |s| s.replaced("acquire", "relaxed")),
    ("order", "release as relaxed", |s| {
        s.is(&["st", "atom"]).then(|| s.replaced("release", "relaxed"))?
    }),
    ("order", "plain access", |s| {
        let (from, to) = (s.line().find('<')?, s.line().find('>')?);
        s.is(&["ld", "st"])
            .then(|| s.with(&[format!("{}{}", &s.line()[..from], &s.line()[to + 1..])]))?
    }),
    ("order", "drop store", |s| (s.op() == "st" && s.line().contains('<')).then(|| s.dropped())?),
    ("scope", "cta", |s| {
        s.is(&["ld", "st", "atom", "atom_cas"]).then(|| s.replaced("gpu", "cta"))?
    }),
    ("programmatic launch", "drop wait", |s| {
        s.is(&["griddepcontrol_wait"]).then(|| s.dropped())?
    }),
    ("programmatic launch", "wait too late", |s| {
        s.is(&["griddepcontrol_wait"]).then(|| s.moved(true))?
    }),
    ("programmatic launch", "wait of one thread", |s| {
        let space = s.space();
        s.is(&["griddepcontrol_wait"]).then(|| {
            s.with(&[
                format!("{space}if %first {{"),
                format!("{space}  griddepcontrol_wait"),
                format!("{space}  yield"),
                format!("{space}}}"),
            ])
        })?
    }),
    ("programmatic launch", "wait in one block", |s| {
        let space = s.space();
        s.is(&["griddepcontrol_wait"]).then(|| {
            s.with(&[
                format!("{space}%mutant = setp<eq> %block, %zero : bool"),
                format!("{space}if %mutant {{"),
                format!("{space}  griddepcontrol_wait"),
                format!("{space}  yield"),
                format!("{space}}}"),
            ])
        })?
    }),
    ("programmatic launch", "start dependents instead of a wait", |s| {
        s.replaced("griddepcontrol_wait", "griddepcontrol_launch_dependents")
    }),
    ("programmatic launch", "drop start of dependents", |s| {
        s.is(&["griddepcontrol_launch_dependents"]).then(|| s.dropped())?
    }),
    ("reset", "drop", |s| is_reset(s).then(|| s.dropped())?),
    ("reset", "too early", |s| is_reset(s).then(|| s.moved_over_sync(false))?),
    ("reset", "too late", |s| is_reset(s).then(|| s.moved_over_sync(true))?),
    ("atomic", "load and store", |s| {
        let [base, index, value] = operands(s.line())[..] else { return None };
        let (space, old, ty) = (s.space(), result_of(s.line())?, s.line().rsplit(" : ").next()?);
        (s.op() == "atom").then(|| {
            s.with(&[
                format!("{space}{old} = ld {base}, {index} : {ty}"),
                format!("{space}%mutant = add {old}, {value} : {ty}"),
                format!("{space}st {base}, {index}, %mutant"),
            ])
        })?
    }),
    ("atomic", "exchange by load and store", |s| {
        let [base, index, _, value] = operands(s.line())[..] else { return None };
        let (space, old, ty) = (s.space(), result_of(s.line())?, s.line().rsplit(" : ").next()?);
        (s.op() == "atom_cas").then(|| {
            s.with(&[
                format!("{space}{old} = ld {base}, {index} : {ty}"),
                format!("{space}st {base}, {index}, {value}"),
            ])
        })?
    }),
    ("atomic", "drop", |s| s.is(&["atom"]).then(|| s.dropped())?),
    ("shared allocation", "halved", |s| {
        let (head, tail) =
            s.line().split_once(" x ").filter(|(head, _)| head.trim().starts_with("shared @"))?;
        let (len, tail) = tail.split_once(' ')?;
        let half = len.parse::<u32>().ok().filter(|len| *len > 1)? / 2;
        s.with(&[format!("{head} x {half} {tail}")])
    }),
    ("shared allocation", "over another one", |s| {
        let (_, name) = s.line().split_once("shared_base<@")?;
        let name = name.split('>').next()?;
        let ty = |line: &str| {
            line.trim()
                .strip_prefix("shared @")?
                .split_once(": ")
                .map(|(n, t)| (n.to_owned(), t.split(' ').next().unwrap_or("").to_owned()))
        };
        let all: Vec<(String, String)> = s.lines.iter().filter_map(|line| ty(line)).collect();
        let own = all.iter().position(|(n, _)| n == name)?;
        let other = all[..own].iter().find(|(_, t)| *t == all[own].1)?;
        s.replaced(&format!("<@{name}>"), &format!("<@{}>", other.0))
    }),
    ("guard", "drop", |s| {
        let has_else = s.lines[s.at + 1..]
            .iter()
            .find(|line| indent(line) == indent(s.line()))
            .is_some_and(|line| line.contains("else"));
        (s.op() == "if" && !has_else).then(|| s.with_constant(0, "true", "bool"))?
    }),
    ("comparison", "one more", |s| {
        s.replaced("setp<lt>", "setp<le>").or_else(|| s.replaced("setp<ge>", "setp<gt>"))
    }),
    ("block index", "drop", |s| s.replaced("sreg<ctaid.x>", "const 0")),
    ("thread index", "two threads to one element", |s| {
        let [base, index, value] = operands(s.line())[..] else { return None };
        // A constant stays what it is.
        (s.op() == "st" && !s.line().contains('<') && s.constant(index).is_none()).then(|| {
            let space = s.space();
            s.with(&[
                format!("{space}%amount = const 1 : u32"),
                format!("{space}%mutant = shr {index}, %amount : i32"),
                format!("{space}st {base}, %mutant, {value}"),
            ])
        })?
    }),
    ("ring", "one stage", |s| {
        let stage = result_of(s.line()).is_some_and(|name| {
            ["%stage", "%ps", "%qs", "%bs", "%pstage", "%qstage"].contains(&name)
        });
        (s.op() == "and" && stage).then(|| s.with_constant(1, "0", "i32"))?
    }),
    ("ring", "one stage fewer", |s| {
        let is_ring = operands(s.line()).get(1) == Some(&"%stages");
        (s.op() == "rem" && is_ring).then(|| s.changed(1, "i32", |n| n - 1))?
    }),
];

const ARRIVALS: [&str; 3] =
    ["mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_arrive_cluster"];

/// Returns true for a plain store that resets a counter or a flag.
fn is_reset(s: &Site<'_>) -> bool {
    s.line().ends_with(";reset")
}

/// Both halves of a barrier of the cluster, which follow each other, on the other side of the next
/// access.
fn moved_cluster_barrier(s: &Site<'_>, behind: bool) -> Option<String> {
    let is_wait = |line: &String| op_of(line) == "barrier_cluster_wait";
    if s.op() != "barrier_cluster_arrive" || !s.lines.get(s.at + 1).is_some_and(is_wait) {
        return None;
    }
    let from = Site { lines: s.lines, at: if behind { s.at + 1 } else { s.at } };
    let to = from.neighbour(behind)?;
    let mut all = s.lines.to_vec();
    let barrier: Vec<String> = all.drain(s.at..=s.at + 1).collect();
    let to = if behind { to - 1 } else { to };
    all.splice(to..to, barrier);
    Some(all.join("\n"))
}

/// The line with a larger number of pending groups.
fn one_more(s: &Site<'_>) -> Option<String> {
    let (head, tail) = s.line().split_once('<')?;
    let end = tail.find(|c: char| !c.is_ascii_digit())?;
    let count: u32 = tail[..end].parse().ok()?;
    s.with(&[format!("{head}<{}{}", count + 1, &tail[end..])])
}

/// The classes, in order.
pub(crate) fn classes() -> Vec<&'static str> {
    let mut all: Vec<&'static str> = OPERATORS.iter().map(|(class, ..)| *class).collect();
    all.dedup();
    all
}

/// The number of operators.
pub(crate) fn operators() -> usize {
    OPERATORS.len()
}

/// All mutants of a kernel.
pub(crate) fn mutants(text: &str) -> Vec<Mutant> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut all = Vec::new();
    for at in 0..lines.len() {
        let site = Site { lines: &lines, at };
        for (class, operator, make) in OPERATORS {
            // The IR has no operations whose results nothing uses.
            if site.is_unused() && !class.starts_with("mbarrier") && *class != "atomic" {
                continue;
            }
            if let Some(text) = make(&site) {
                let (line, site) = (at + 1, site.line().trim().to_owned());
                all.push(Mutant { class, operator, line, site, text });
            }
        }
    }
    all
}
