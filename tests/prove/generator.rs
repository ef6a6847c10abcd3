//! Random kernels whose accesses are near the ends of their allocations.
//!
//! A kernel computes indices in every way that the prover follows: arithmetic that may wrap,
//! quotients, remainders, bits, minima, selections, guards, nested loops with carried values,
//! register variables. It makes few accesses, because the first fault ends a run.

use crate::support::rng::Rng;

/// A kernel, and the sizes that it was built for.
pub(crate) struct Made {
    pub(crate) text: String,
    /// The block size, if the kernel fixes it.
    pub(crate) block: Option<[u32; 3]>,
}

/// The types of indices.
const TYPES: [&str; 4] = ["i32", "i32", "u32", "i64"];

struct Generator<'r> {
    rng: &'r mut Rng,
    text: String,
    /// Visible integers by region, each with its type.
    visible: Vec<Vec<(String, &'static str)>>,
    /// The enclosing loops: name, and the types of what they carry.
    loops: Vec<(String, Vec<&'static str>, bool)>,
    vars: Vec<String>,
    next: usize,
    indent: usize,
    statements: usize,
    accesses: usize,
}

pub(crate) fn random(rng: &mut Rng) -> Made {
    let blocks = [None, Some([32, 1, 1]), Some([64, 1, 1]), Some([8, 4, 2]), Some([1, 1, 1])];
    let block = *rng.pick(&blocks);
    let bounds = block.map_or(String::new(), |[x, y, z]| format!(" block {x} x {y} x {z}"));
    let lens = [1, 7, 16, 24, 32, 33, 48, 64, 100, 128, 256];
    let [shared, wide, local] = [(); 3].map(|()| *rng.pick(&lens));
    let array: Vec<String> = (0..*rng.pick(&lens)).map(|i| i.to_string()).collect();
    let text = format!(
        "kernel @random target sm_80{bounds} (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32, %m: i32, %l: i64) {{
  shared @s: i32 x {shared} align 16
  shared @w: i64 x {wide} align 16
  local @p: i32 x {local}
  array @a: i32 = {}
  %s = shared_base<@s> : ptr<shared, mut i32>
  %w = shared_base<@w> : ptr<shared, mut i64>
  %p = local_base<@p> : ptr<local, mut i32>
  %a = array_base<@a> : ptr<const, i32>
",
        array.join(", ")
    );
    let mut generator = Generator {
        rng,
        text,
        visible: vec![vec![
            ("n".to_owned(), "i32"),
            ("m".to_owned(), "i32"),
            ("l".to_owned(), "i64"),
        ]],
        loops: Vec::new(),
        vars: Vec::new(),
        next: 0,
        indent: 2,
        statements: 0,
        accesses: 0,
    };
    for reg in ["tid.x", "tid.y", "ctaid.x", "ntid.x", "nctaid.x", "laneid"] {
        if generator.rng.below(2) == 0 || reg == "tid.x" {
            let name = generator.fresh();
            generator.line(&format!("%{name} = sreg<{reg}> : i32"));
            generator.show(name, "i32");
        }
    }
    if generator.rng.below(3) == 0 {
        generator.line("var @v: i32 x 1");
        let value = generator.any("i32");
        generator.line(&format!("set_var<@v, 0> %{value}"));
        generator.vars.push("v".to_owned());
    }
    generator.statements = 6 + generator.rng.below(16);
    while generator.statements > 0 {
        generator.statement();
    }
    if generator.accesses == 0 {
        generator.access();
    }
    generator.line("return");
    generator.text += "}\n";
    Made { text: generator.text, block }
}

impl Generator<'_> {
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn line(&mut self, text: &str) {
        self.text += &" ".repeat(self.indent);
        self.text += text;
        self.text.push('\n');
    }

    fn show(&mut self, name: String, ty: &'static str) {
        self.visible.last_mut().expect("a region is open").push((name, ty));
    }

    fn constant(&mut self, value: i64, ty: &'static str) -> String {
        let name = self.fresh();
        let value = if ty == "u32" { value.rem_euclid(1 << 32) } else { value };
        self.line(&format!("%{name} = const {value} : {ty}"));
        name
    }

    /// A visible integer of the type: new ones more often than old ones.
    fn any(&mut self, ty: &'static str) -> String {
        let all: Vec<String> =
            self.visible.concat().into_iter().filter(|(_, t)| *t == ty).map(|(n, _)| n).collect();
        match self.rng.below(6) {
            0 => {
                let value = self.number();
                self.constant(value, ty)
            }
            1 if ty != "i32" => {
                let from = self.any("i32");
                let name = self.fresh();
                self.line(&format!("%{name} = cvt<{ty}> %{from} : {ty}"));
                name
            }
            2..=3 if !all.is_empty() => {
                all[all.len() - 1 - self.rng.below(all.len().min(3))].clone()
            }
            _ if !all.is_empty() => self.rng.pick(&all).clone(),
            _ => {
                let value = self.number();
                self.constant(value, ty)
            }
        }
    }

    /// A number that index arithmetic is made of.
    fn number(&mut self) -> i64 {
        let all = [
            0,
            1,
            1,
            2,
            3,
            4,
            7,
            8,
            15,
            16,
            16,
            31,
            32,
            33,
            63,
            64,
            100,
            128,
            -1,
            -4,
            1 << 20,
            0x7fff_ffff,
        ];
        *self.rng.pick(&all)
    }

    fn positive(&mut self) -> i64 {
        *self.rng.pick(&[1, 2, 3, 4, 5, 8, 10, 16, 32, 64])
    }

    fn compute(&mut self) {
        let ty = *self.rng.pick(&TYPES);
        let a = self.any(ty);
        let result = self.fresh();
        let op = match self.rng.below(20) {
            0..=3 => format!("add %{a}, %{}", self.any(ty)),
            4 => format!("sub %{a}, %{}", self.any(ty)),
            5 | 6 => {
                let by = self.positive();
                format!("mul %{a}, %{}", self.constant(by, ty))
            }
            7 => format!("mul %{a}, %{}", self.any(ty)),
            8 | 9 => {
                let by = self.positive();
                format!("div %{a}, %{}", self.constant(by, ty))
            }
            10 | 11 => {
                let by = self.positive();
                format!("rem %{a}, %{}", self.constant(by, ty))
            }
            12 => format!(
                "{} %{a}, %{}",
                if self.rng.below(2) == 0 { "div" } else { "rem" },
                self.any(ty)
            ),
            13 => {
                let mask = *self.rng.pick(&[1, 3, 7, 15, 31, 63, 0x18, 0x70, 0x38, 5, -8, -16]);
                format!("and %{a}, %{}", self.constant(mask, ty))
            }
            14 => format!(
                "{} %{a}, %{}",
                self.rng.pick(&["and", "or", "xor", "xor"]).to_owned(),
                self.any(ty)
            ),
            15 => format!("{} %{a}, %{}", self.rng.pick(&["min", "max"]).to_owned(), self.any(ty)),
            16 => {
                let by = self.rng.below(7) as i64;
                let amount = self.constant(by, "u32");
                format!("{} %{a}, %{amount}", self.rng.pick(&["shl", "shr"]).to_owned())
            }
            17 => {
                let cond = self.cond();
                let b = self.any(ty);
                format!("selp %{cond}, %{a}, %{b}")
            }
            18 if ty == "i32" => {
                let low = self.rng.below(3) as i64 - 1;
                let high = low + self.positive();
                let (low, high) = (self.constant(low, ty), self.constant(high, ty));
                let cut = self.fresh();
                self.line(&format!("%{cut} = max %{a}, %{low} : {ty}"));
                format!("min %{cut}, %{high}")
            }
            _ if ty == "i32" && !self.vars.is_empty() => {
                if self.rng.below(2) == 0 {
                    self.line(&format!("set_var<@v, 0> %{a}"));
                }
                "get_var<@v, 0>".to_owned()
            }
            _ => format!("add %{a}, %{}", self.any(ty)),
        };
        self.line(&format!("%{result} = {op} : {ty}"));
        self.show(result, ty);
    }

    fn cond(&mut self) -> String {
        let ty = *self.rng.pick(&TYPES);
        let (a, b) = (self.any(ty), self.any(ty));
        let compare = *self.rng.pick(&["lt", "lt", "le", "gt", "ge", "eq", "ne"]);
        let result = self.fresh();
        self.line(&format!("%{result} = setp<{compare}> %{a}, %{b} : bool"));
        match self.rng.below(5) {
            0 => {
                let other = self.cond();
                let both = self.fresh();
                let op = *self.rng.pick(&["and", "and", "or", "xor"]);
                self.line(&format!("%{both} = {op} %{result}, %{other} : bool"));
                both
            }
            1 if self.rng.below(2) == 0 => {
                let not = self.fresh();
                self.line(&format!("%{not} = not %{result} : bool"));
                not
            }
            _ => result,
        }
    }

    fn statement(&mut self) {
        self.statements = self.statements.saturating_sub(1);
        let is_deep = self.visible.len() > 4;
        match self.rng.below(14) {
            0..=6 => self.compute(),
            7 | 8 => self.access(),
            9 | 10 if !is_deep => self.if_(),
            11 | 12 if !is_deep => self.for_(),
            13 if !is_deep => self.loop_(),
            _ => self.compute(),
        }
    }

    fn open(&mut self) {
        self.visible.push(Vec::new());
        self.indent += 2;
    }

    fn close(&mut self, end: &str) {
        self.indent -= 2;
        self.visible.pop();
        self.line(end);
    }

    fn some(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            if self.statements > 0 {
                self.statement();
            }
        }
    }

    fn if_(&mut self) {
        let cond = self.cond();
        match self.rng.below(4) {
            0 => {
                let ty = *self.rng.pick(&TYPES);
                let result = self.fresh();
                self.line(&format!("%{result} = if %{cond} : {ty} {{"));
                for end in ["} else {", "}"] {
                    self.open();
                    self.some();
                    let value = self.any(ty);
                    self.line(&format!("yield %{value}"));
                    self.close(end);
                }
                self.show(result, ty);
            }
            1 if !self.loops.is_empty() => {
                // Leaves or continues a loop.
                self.line(&format!("if %{cond} {{"));
                self.open();
                let (name, types, breaks) = self.rng.pick(&self.loops.clone()).clone();
                let values: Vec<String> =
                    types.iter().map(|ty| format!("%{}", self.any(ty))).collect();
                let jump = if self.rng.below(2) == 0 || !breaks { "break" } else { "continue" };
                self.line(&format!("{jump} @{name} {}", values.join(", ")));
                self.close("}");
            }
            2 => {
                self.line(&format!("if %{cond} {{"));
                self.open();
                self.line("return");
                self.close("}");
            }
            _ => {
                self.line(&format!("if %{cond} {{"));
                self.open();
                self.some();
                self.access();
                self.line("yield");
                self.close("}");
            }
        }
    }

    fn carried(&mut self) -> (Vec<(String, &'static str)>, String) {
        let count = self.rng.below(3);
        let mut all = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..count {
            let ty = *self.rng.pick(&TYPES);
            let init = self.any(ty);
            let name = self.fresh();
            parts.push(format!("%{name}: {ty} = %{init}"));
            all.push((name, ty));
        }
        let text =
            if parts.is_empty() { String::new() } else { format!(" iter({})", parts.join(", ")) };
        (all, text)
    }

    /// The next value of a carried one: often a step, or a counter that starts again.
    fn next_of(&mut self, name: &str, ty: &'static str) -> String {
        match self.rng.below(4) {
            0 => self.any(ty),
            1 => {
                let limit = self.positive();
                let (one, limit, zero) =
                    (self.constant(1, ty), self.constant(limit, ty), self.constant(0, ty));
                let [next, is_end, wrapped] = [(); 3].map(|()| self.fresh());
                self.line(&format!("%{next} = add %{name}, %{one} : {ty}"));
                self.line(&format!("%{is_end} = setp<eq> %{next}, %{limit} : bool"));
                self.line(&format!("%{wrapped} = selp %{is_end}, %{zero}, %{next} : {ty}"));
                wrapped
            }
            _ => {
                let by = match self.rng.below(3) {
                    0 => self.number(),
                    _ => self.positive(),
                };
                let by = self.constant(by, ty);
                let next = self.fresh();
                let op = if self.rng.below(4) == 0 { "sub" } else { "add" };
                self.line(&format!("%{next} = {op} %{name}, %{by} : {ty}"));
                next
            }
        }
    }

    fn body(
        &mut self,
        name: &str,
        carried: &[(String, &'static str)],
        index: Option<(String, &'static str)>,
        is_for: bool,
    ) {
        self.open();
        let types: Vec<&'static str> = carried.iter().map(|(_, ty)| *ty).collect();
        self.loops.push((name.to_owned(), types, is_for));
        if let Some((index, ty)) = index {
            self.show(index, ty);
        }
        for (name, ty) in carried {
            self.show(name.clone(), ty);
        }
        if !is_for {
            // An endless loop would use up its fuel.
            let cond = self.cond();
            self.line(&format!("if %{cond} {{"));
            let values: Vec<String> = carried.iter().map(|(name, _)| format!("%{name}")).collect();
            self.line(&format!("  break @{name} {}", values.join(", ")));
            self.line("}");
        }
        self.some();
        if self.rng.below(2) == 0 {
            self.access();
        }
        let next: Vec<String> = carried
            .to_vec()
            .iter()
            .map(|(name, ty)| format!("%{}", self.next_of(name, ty)))
            .collect();
        self.line(&format!("continue @{name} {}", next.join(", ")));
        self.loops.pop();
        self.close("}");
    }

    fn for_(&mut self) {
        let ty = *self.rng.pick(&TYPES);
        let lo = if self.rng.below(2) == 0 { self.constant(0, ty) } else { self.any(ty) };
        let hi = if self.rng.below(2) == 0 {
            let hi = self.positive();
            self.constant(hi, ty)
        } else {
            self.any(ty)
        };
        let step = self.positive();
        let step = if self.rng.below(6) == 0 { self.any(ty) } else { self.constant(step, ty) };
        let (carried, text) = self.carried();
        let (name, index) = (self.fresh(), self.fresh());
        let results: Vec<String> = carried.iter().map(|_| self.fresh()).collect();
        let types: Vec<&str> = carried.iter().map(|(_, ty)| *ty).collect();
        let (left, right) = head(&results, &types);
        self.line(&format!(
            "{left}for @{name} %{index}: {ty} = %{lo} to %{hi} step %{step}{text}{right} {{"
        ));
        self.body(&name, &carried, Some((index, ty)), true);
        for (result, (_, ty)) in results.into_iter().zip(carried) {
            self.show(result, ty);
        }
    }

    fn loop_(&mut self) {
        let (carried, text) = self.carried();
        let name = self.fresh();
        let results: Vec<String> = carried.iter().map(|_| self.fresh()).collect();
        let types: Vec<&str> = carried.iter().map(|(_, ty)| *ty).collect();
        let (left, right) = head(&results, &types);
        self.line(&format!("{left}loop @{name}{text}{right} {{"));
        self.body(&name, &carried, None, false);
        for (result, (_, ty)) in results.into_iter().zip(carried) {
            self.show(result, ty);
        }
    }

    /// Makes an index smaller than a limit, in one of several ways, or leaves it.
    fn access(&mut self) {
        self.accesses += 1;
        let ty = *self.rng.pick(&TYPES);
        let index = self.any(ty);
        let index = match self.rng.below(4) {
            0 => {
                let by = self.positive();
                let by = self.constant(by, ty);
                let cut = self.fresh();
                let op = *self.rng.pick(&["rem", "min", "div"]);
                self.line(&format!("%{cut} = {op} %{index}, %{by} : {ty}"));
                cut
            }
            _ => index,
        };
        let value = self.constant(7, "i32");
        let guard = (self.rng.below(3) == 0).then(|| {
            let limit = self.any(ty);
            let guard = self.fresh();
            self.line(&format!("%{guard} = setp<lt> %{index}, %{limit} : bool"));
            self.line(&format!("if %{guard} {{"));
            self.open();
        });
        let result = self.fresh();
        let line = match self.rng.below(9) {
            0 => format!("%{result} = ld %x, %{index} : i32"),
            1 => format!("st %y, %{index}, %{value}"),
            2 => format!("st %s, %{index}, %{value}"),
            3 => format!("st %p, %{index}, %{value}"),
            4 => format!("%{result} = ld %a, %{index} : i32"),
            5 => {
                let offset = self.any(ty);
                let q = self.fresh();
                self.line(&format!("%{q} = offset %s, %{offset} : ptr<shared, mut i32>"));
                format!("st %{q}, %{index}, %{value}")
            }
            6 => {
                let lanes = *self.rng.pick(&[2, 4]);
                let vector = self.fresh();
                self.line(&format!("%{vector} = vec_splat<{lanes}> %{value} : i32x{lanes}"));
                let base = *self.rng.pick(&["%s", "%y", "%p"]);
                format!("st_vec {base}, %{index}, %{vector}")
            }
            7 => {
                let q = self.fresh();
                self.line(&format!("%{q} = ptr_cast<i32> %w : ptr<shared, mut i32>"));
                format!("red<add, relaxed, cta> %{q}, %{index}, %{value}")
            }
            _ => format!("%{result} = atom<add, relaxed, gpu> %y, %{index}, %{value} : i32"),
        };
        self.line(&line);
        if guard.is_some() {
            self.line("yield");
            self.close("}");
        } else if line.starts_with(&format!("%{result} ")) {
            self.show(result, "i32");
        }
    }
}

/// The results of a loop, before and after its name.
fn head(results: &[String], types: &[&str]) -> (String, String) {
    if results.is_empty() {
        return (String::new(), String::new());
    }
    let names: Vec<String> = results.iter().map(|name| format!("%{name}")).collect();
    (format!("{} = ", names.join(", ")), format!(" : {}", types.join(", ")))
}
