//! Random kernels of phases: threads access shared and global memory, with and without barriers in
//! between, in loops, branches and guards. Most indices belong to one thread, some do not.

use crate::generator::Made;
use crate::support::rng::Rng;

struct Phases<'r> {
    rng: &'r mut Rng,
    text: String,
    next: usize,
    indent: usize,
    /// The counters of the enclosing loops.
    counters: Vec<String>,
    statements: usize,
    /// Whether there are named barriers.
    is_named: bool,
}

const START: &str = "
  shared @s: i32 x 4096 align 16
  shared @w: i32 x 4096 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %w = shared_base<@w> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %b = sreg<ctaid.x> : i32
  %d = sreg<ntid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %k4 = const 4 : i32
  %k5 = const 5 : i32
  %k7 = const 7 : i32
  %k8 = const 8 : i32
  %k16 = const 16 : i32
  %k31 = const 31 : i32
  %k32 = const 32 : i32
  %k33 = const 33 : i32
  %k63 = const 63 : i32
  %k64 = const 64 : i32
  %k128 = const 128 : i32
  %once = const 1 : u32
  %k32u = const 32 : u32
  %k64u = const 64 : u32
";

pub(crate) fn random(rng: &mut Rng) -> Made {
    let block = *rng.pick(&[Some([64, 1, 1]), Some([64, 1, 1]), Some([32, 2, 1]), None]);
    let bounds = block.map_or(String::new(), |[x, y, z]| format!(" block {x} x {y} x {z}"));
    let mut phases = Phases {
        rng,
        text: format!(
            "kernel @phases target sm_80{bounds} (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32, %m: i32) {{{START}"
        ),
        next: 0,
        indent: 2,
        counters: Vec::new(),
        statements: 0,
        is_named: false,
    };
    phases.is_named = block.is_some() && phases.rng.below(4) == 0;
    if phases.rng.below(3) == 0 || block == Some([32, 2, 1]) && phases.rng.below(4) > 0 {
        phases.line("%r = sreg<tid.y> : i32");
        phases.line("%row = mul %r, %k32 : i32");
    } else {
        phases.line("%row = mul %zero, %k32 : i32");
    }
    phases.statements = 3 + phases.rng.below(8);
    while phases.statements > 0 {
        phases.statement(true);
    }
    phases.line("return");
    phases.text += "}\n";
    Made { text: phases.text, block }
}

impl Phases<'_> {
    fn line(&mut self, text: &str) {
        self.text += &" ".repeat(self.indent);
        self.text += text;
        self.text.push('\n');
    }

    /// Adds an operation, and returns its result.
    fn op(&mut self, text: &str) -> String {
        self.next += 1;
        let name = format!("%v{}", self.next);
        self.line(&format!("{name} = {text} : i32"));
        name
    }

    fn constant(&mut self) -> String {
        let all = ["%zero", "%one", "%two", "%k4", "%k7", "%k16", "%k32", "%k63", "%k64", "%k128"];
        (*self.rng.pick(&all)).to_owned()
    }

    fn counter(&mut self) -> String {
        match self.counters.last() {
            Some(last) if self.rng.below(4) > 0 => last.clone(),
            _ => "%one".to_owned(),
        }
    }

    /// An index from 0 to 4095.
    fn index(&mut self) -> String {
        match self.rng.below(14) {
            0..=2 => self.op("add %t, %row"),
            3 => {
                let c = self.constant();
                let sum = self.op("add %t, %row");
                self.op(&format!("add {sum}, {c}"))
            }
            4 => {
                let c = *self.rng.pick(&["%one", "%two", "%k7", "%k16", "%k63"]);
                self.op(&format!("xor %t, {c}"))
            }
            5 => self.op("sub %k63, %t"),
            6 => {
                // Two buffers, one after the other.
                let counter = self.counter();
                let c = *self.rng.pick(&["%zero", "%one", "%two"]);
                let turn = self.op(&format!("add {counter}, {c}"));
                let by = *self.rng.pick(&["%two", "%two", "%three"]);
                let stage = self.op(&format!("rem {turn}, {by}"));
                let pitch = *self.rng.pick(&["%k64", "%k64", "%k63"]);
                let base = self.op(&format!("mul {stage}, {pitch}"));
                self.op(&format!("add {base}, %t"))
            }
            7 => {
                // A tile, perhaps with padding, by rows or columns.
                let by = *self.rng.pick(&["%k8", "%k16", "%k5"]);
                let row = self.op(&format!("div %t, {by}"));
                let column = self.op(&format!("rem %t, {by}"));
                let pitch = *self.rng.pick(&["%k8", "%k16", "%k33", "%k7"]);
                let (a, c) = if self.rng.below(2) == 0 { (&row, &column) } else { (&column, &row) };
                let base = self.op(&format!("mul {a}, {pitch}"));
                self.op(&format!("add {base}, {c}"))
            }
            8 => {
                // A swizzle.
                let row = self.op("div %t, %k8");
                let column = self.op("rem %t, %k8");
                let low = self.op(&format!("rem {row}, %k8"));
                let mask = *self.rng.pick(&[&low, &column]);
                let mixed = self.op(&format!("xor {column}, {mask}"));
                let base = self.op(&format!("mul {row}, %k8"));
                self.op(&format!("add {base}, {mixed}"))
            }
            9 => {
                let by = *self.rng.pick(&["%two", "%k32"]);
                self.op(&format!("div %t, {by}"))
            }
            10 => {
                let by = *self.rng.pick(&["%two", "%three"]);
                self.op(&format!("mul %t, {by}"))
            }
            11 => {
                let counter = self.counter();
                let base = self.op(&format!("mul {counter}, %k64"));
                let own = self.op("add %t, %row");
                self.op(&format!("add {base}, {own}"))
            }
            12 => {
                let c = self.counter();
                let turned = self.op(&format!("add %t, {c}"));
                self.op(&format!("rem {turned}, %k64"))
            }
            _ => self.constant(),
        }
    }

    fn access(&mut self) {
        let index = self.index();
        if self.rng.below(3) == 0 {
            // Global memory, mostly a tile for each block.
            let size = *self.rng.pick(&["%k64", "%k128", "%d", "%m", "%k32"]);
            let index = if self.rng.below(5) > 0 {
                let base = self.op(&format!("mul %b, {size}"));
                self.op(&format!("add {base}, {index}"))
            } else {
                index
            };
            let value = self.op("mul %t, %k5");
            match self.rng.below(6) {
                0 => self.line(&format!("red<add, relaxed, gpu> %y, {index}, {value}")),
                1 => {
                    let loaded = self.op(&format!("ld %y, {index}"));
                    self.line(&format!("st %y, {index}, {loaded}"));
                }
                _ => self.line(&format!("st %y, {index}, {value}")),
            }
            return;
        }
        let base = *self.rng.pick(&["%s", "%s", "%s", "%w"]);
        match self.rng.below(9) {
            0 => {
                // Four elements at once, mostly of the thread's own.
                let by = *self.rng.pick(&["%k4", "%k4", "%two", "%k8"]);
                let first = self.op(&format!("rem {index}, %k64"));
                let at = self.op(&format!("mul {first}, {by}"));
                let at = if by == "%two" { self.op(&format!("mul {at}, %two")) } else { at };
                self.next += 1;
                let vector = format!("%v{}", self.next);
                self.line(&format!("{vector} = vec_splat<4> %t : i32x4"));
                self.line(&format!("st_vec {base}, {at}, {vector}"));
            }
            1 => {
                // Several values for each address, or one.
                let value = self.op("mul %t, %k5");
                let scope = *self.rng.pick(&["cta", "gpu"]);
                self.line(&format!("st<relaxed.{scope}> {base}, {index}, {value}"));
            }
            2..=5 => {
                let value = self.op("mul %t, %k5");
                self.line(&format!("st {base}, {index}, {value}"));
            }
            6 => {
                let value = self.op("mul %t, %k5");
                self.line(&format!("red<add, relaxed, cta> {base}, {index}, {value}"));
            }
            _ => {
                let loaded = self.op(&format!("ld {base}, {index}"));
                self.line(&format!("st %w, {loaded}, %t"));
                // Most loads are only kept.
                let last = self.text.trim_end().rfind('\n').map_or(0, |at| at + 1);
                if self.rng.below(5) > 0 {
                    self.text.truncate(last);
                    let own = self.op("add %t, %row");
                    let own = self.op(&format!("add {own}, %k128"));
                    self.line(&format!("st %w, {own}, {loaded}"));
                }
            }
        }
    }

    fn region(&mut self, is_uniform: bool) {
        self.indent += 2;
        for _ in 0..1 + self.rng.below(3) {
            self.statement(is_uniform);
        }
        self.indent -= 2;
    }

    fn statement(&mut self, is_uniform: bool) {
        self.statements = self.statements.saturating_sub(1);
        match self.rng.below(13) {
            0..=4 => self.access(),
            5..=7 if is_uniform => {
                // Half of the threads do not make a barrier of all.
                let barriers = [
                    "barrier",
                    "barrier",
                    "barrier_sync %once, %k64u",
                    "barrier_sync %once, %k32u",
                ];
                let last = if self.is_named { 4 } else { 2 };
                let barrier = *self.rng.pick(&barriers[..last]);
                self.line(barrier);
            }
            8 if self.indent < 8 => {
                // Branches that depend on the thread, or not.
                let lane = self.op("rem %t, %k32");
                let leads = format!("{lane}, %zero");
                let (apart, compare) = match self.rng.below(7) {
                    5 => (leads.as_str(), "eq"),
                    6 => ("%t, %k16", "ge"),
                    0 => ("%t, %k32", "lt"),
                    1 => ("%t, %zero", "eq"),
                    2 => ("%t, %n", "lt"),
                    3 => ("%n, %k16", "lt"),
                    _ => ("%b, %one", "lt"),
                };
                let is_same = !apart.starts_with("%t") && apart != leads;
                self.next += 1;
                let cond = format!("%c{}", self.next);
                self.line(&format!("{cond} = setp<{compare}> {apart} : bool"));
                self.line(&format!("if {cond} {{"));
                self.region(is_uniform && is_same);
                self.indent += 2;
                self.line("yield");
                self.indent -= 2;
                if self.rng.below(2) == 0 {
                    self.line("} else {");
                    self.region(is_uniform && is_same);
                    self.indent += 2;
                    self.line("yield");
                    self.indent -= 2;
                }
                self.line("}");
            }
            9..=10 if self.indent < 6 => {
                self.next += 1;
                let (name, index) = (format!("@l{}", self.next), format!("%i{}", self.next));
                let end = *self.rng.pick(&["%three", "%three", "%k5", "%n", "%t"]);
                let is_same = end != "%t";
                self.line(&format!("for {name} {index}: i32 = %zero to {end} step %one {{"));
                self.counters.push(index);
                self.region(is_uniform && is_same);
                if self.rng.below(6) == 0 {
                    self.indent += 2;
                    let jump = *self.rng.pick(&["break", "continue"]);
                    self.next += 1;
                    let cond = format!("%c{}", self.next);
                    let test = *self.rng.pick(&["%n, %k16", "%t, %k16"]);
                    self.line(&format!("{cond} = setp<lt> {test} : bool"));
                    self.line(&format!("if {cond} {{\n{jump} {name}\n}}"));
                    self.indent -= 2;
                    self.region(is_uniform && is_same && test.starts_with("%n"));
                }
                self.counters.pop();
                self.line(&format!("  continue {name}"));
                self.line("}");
            }
            11 if self.indent < 6 => {
                // A value that all threads carry alike, and that halves or doubles.
                self.next += 1;
                let n = self.next;
                let (start, op) = *self.rng.pick(&[("%k32", "div"), ("%one", "mul")]);
                self.line(&format!("%r{n} = loop @l{n} iter(%i{n}: i32 = {start}) : i32 {{"));
                self.counters.push(format!("%i{n}"));
                self.region(is_uniform);
                self.indent += 2;
                if self.rng.below(2) == 0 {
                    let far = self.op(&format!("add %t, %i{n}"));
                    self.line(&format!("%g{n} = setp<lt> %t, %i{n} : bool"));
                    self.line(&format!("if %g{n} {{"));
                    self.line(&format!("  %f{n} = ld %s, {far} : i32"));
                    self.line(&format!("  st %s, %t, %f{n}"));
                    self.line("  yield");
                    self.line("}");
                    if is_uniform && self.rng.below(4) > 0 {
                        self.line("barrier");
                    }
                }
                let next = self.op(&format!("{op} %i{n}, %two"));
                let (end, compare) = if op == "div" { ("%one", "lt") } else { ("%k16", "gt") };
                self.line(&format!("%e{n} = setp<{compare}> {next}, {end} : bool"));
                self.line(&format!("if %e{n} {{\n    break @l{n} {next}\n  }}"));
                if is_uniform && self.rng.below(3) == 0 {
                    self.line("barrier");
                }
                self.line(&format!("continue @l{n} {next}"));
                self.indent -= 2;
                self.counters.pop();
                self.line("}");
            }
            _ => self.access(),
        }
    }
}
