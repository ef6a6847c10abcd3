//! Random kernels with ring buffers that all threads fill by `cp.async`: mostly correct pipelines of
//! which something is left out, moved or counted wrongly.

use crate::generator::Made;
use crate::support::rng::Rng;

const START: &str = "
  shared @s: i32 x 1024 align 16
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %b = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %three = const 3 : i32
  %four = const 4 : i32
  %five = const 5 : i32
  %k16 = const 16 : i32
  %k31 = const 31 : i32
  %k32 = const 32 : i32
  %k48 = const 48 : i32
  %k63 = const 63 : i32
  %k64 = const 64 : i32
  %k128 = const 128 : i32
  %word = const 4 : u32
  %row = const 16 : u32
  %all = const 4294967295 : u32
  %base = mul %b, %k64 : i32
  %own = add %base, %t : i32
  %mirrored = sub %k63, %t : i32
  %beside = xor %t, %one : i32
  %lane = rem %t, %k32 : i32
  %warp = div %t, %k32 : i32
  %first = mul %warp, %k32 : i32
  %turned = sub %k31, %lane : i32
  %of_warp = add %first, %turned : i32
  %vector = mul %t, %four : i32
  %few = setp<lt> %t, %k16 : bool
  %even = rem %n, %two : i32
  %is_even = setp<eq> %even, %zero : bool
";

/// What a step of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Copies the tile that is read so many steps later.
    Copy(i32),
    Commit,
    Wait(i32),
    WaitAll,
    Barrier,
    BarWarp,
    /// Reads the tile of so many steps later.
    Read(i32),
    /// Stores to that tile.
    Store(i32),
}

struct Pipeline<'r> {
    rng: &'r mut Rng,
    text: String,
    next: usize,
    stages: i32,
    /// Whether the loop carries the stages, rather than dividing its index.
    carries: bool,
    /// The distance of two stages.
    pitch: &'static str,
    /// The element of a tile that a thread reads.
    element: &'static str,
    /// Whether 16 threads copy four elements each.
    is_wide: bool,
}

pub(crate) fn random(rng: &mut Rng) -> Made {
    let stages = 2 + rng.below(3) as i32;
    let ahead = if rng.below(8) == 0 { rng.below(5) as i32 } else { stages - 1 };
    let pending = if rng.below(8) == 0 { rng.below(4) as i32 } else { stages - 2 };
    let of_warp = rng.below(4) == 0;
    let barrier = if of_warp { Step::BarWarp } else { Step::Barrier };
    let mut steps = match rng.below(4) {
        // The barrier at the start of a step, or at its end.
        0 | 1 => vec![Step::Wait(pending), barrier, Step::Copy(ahead), Step::Commit, Step::Read(0)],
        2 => vec![Step::Copy(ahead), Step::Read(0), Step::Commit, Step::Wait(pending), barrier],
        // Operands come a step early.
        _ => vec![Step::Copy(ahead), Step::Commit, Step::Wait(pending), barrier, Step::Read(1)],
    };
    for _ in 0..rng.below(3) {
        let at = rng.below(steps.len());
        match rng.below(8) {
            0 => drop(steps.remove(at)),
            1 => {
                let other = rng.below(steps.len());
                steps.swap(at, other);
            }
            2 => steps.insert(at, barrier),
            3 => steps.insert(at, Step::Commit),
            4 => steps.insert(at, Step::WaitAll),
            5 => steps.insert(at, Step::Wait(rng.below(4) as i32)),
            6 => steps.insert(at, Step::Read(rng.below(3) as i32)),
            _ => steps.insert(at, Step::Store(rng.below(4) as i32)),
        }
        if steps.is_empty() {
            break;
        }
    }
    let elements: &[&str] = if of_warp {
        &["%t", "%of_warp", "%of_warp", "%beside"]
    } else {
        &["%t", "%mirrored", "%mirrored", "%mirrored", "%of_warp", "%beside"]
    };
    let mut made = Pipeline {
        text: format!(
            "kernel @ring target sm_80 block 64 x 1 x 1 (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32, %m: i32) {{{START}"
        ),
        next: 0,
        stages,
        carries: rng.below(2) == 0,
        pitch: if rng.below(10) == 0 { "%k48" } else { "%k64" },
        element: elements[rng.below(elements.len())],
        is_wide: !of_warp && rng.below(3) == 0,
        rng,
    };
    let prologue = if made.rng.below(10) == 0 { ahead - 1 } else { ahead };
    for step in 0..prologue {
        made.step(Step::Copy(step), None);
        if made.rng.below(20) > 0 {
            made.step(Step::Commit, None);
        }
    }
    if matches!(steps.first(), Some(Step::Copy(_))) && made.rng.below(10) > 0 {
        made.step(Step::Wait(pending), None);
        made.step(barrier, None);
    }
    let rounds = made.rng.below(3);
    if rounds == 0 {
        made.line("for @o %o: i32 = %zero to %two step %one {");
    }
    let end = *made.rng.pick(&["%n", "%n", "%five", "%three"]);
    if made.carries {
        made.line(&format!(
            "%last = for @l %i: i32 = %zero to {end} step %one iter(%stage: i32 = %zero) : i32 {{"
        ));
    } else {
        made.line(&format!("for @l %i: i32 = %zero to {end} step %one {{"));
    }
    for step in steps {
        if made.rng.below(12) == 0 {
            // Some threads do it, or all of them if a parameter says so.
            let cond = *made.rng.pick(&["%few", "%is_even"]);
            let is_barrier = step == barrier;
            made.line(&format!("if {} {{", if is_barrier { "%is_even" } else { cond }));
            made.step(step, Some(made.carries));
            made.line("yield\n}");
        } else {
            made.step(step, Some(made.carries));
        }
    }
    if made.carries {
        made.next += 1;
        let n = made.next;
        let end = made.constant(stages);
        made.line(&format!("%a{n} = add %stage, %one : i32"));
        made.line(&format!("%e{n} = setp<eq> %a{n}, {end} : bool"));
        made.line(&format!("%r{n} = selp %e{n}, %zero, %a{n} : i32"));
        made.line(&format!("continue @l %r{n}"));
    } else {
        made.line("continue @l");
    }
    made.line("}");
    for _ in 0..made.rng.below(4) {
        let last = [Step::WaitAll, barrier, Step::Read(0), Step::Copy(0)];
        let step = *made.rng.pick(&last);
        made.step(step, None);
    }
    if rounds == 0 {
        made.line("continue @o\n}");
    }
    made.line("return");
    made.text += "}\n";
    Made { text: made.text, block: Some([64, 1, 1]) }
}

impl Pipeline<'_> {
    fn line(&mut self, text: &str) {
        self.text += "  ";
        self.text += text;
        self.text.push('\n');
    }

    fn op(&mut self, text: &str) -> String {
        self.next += 1;
        let name = format!("%v{}", self.next);
        self.line(&format!("{name} = {text} : i32"));
        name
    }

    fn constant(&mut self, value: i32) -> String {
        self.op(&format!("const {value}"))
    }

    /// The first element of the stage that is read `ahead` steps later. `carries` says how a loop
    /// finds it; without a loop, steps count from 0.
    fn stage(&mut self, ahead: i32, carries: Option<bool>) -> String {
        let stages = self.constant(self.stages);
        let slot = match carries {
            None => self.constant(ahead.rem_euclid(self.stages)),
            Some(carries) => {
                let from = if carries { "%stage" } else { "%i" };
                let by = self.constant(ahead.rem_euclid(self.stages));
                let sum = self.op(&format!("add {from}, {by}"));
                self.op(&format!("rem {sum}, {stages}"))
            }
        };
        let pitch = self.pitch;
        self.op(&format!("mul {slot}, {pitch}"))
    }

    fn step(&mut self, step: Step, carries: Option<bool>) {
        match step {
            Step::Copy(ahead) => {
                let stage = self.stage(ahead, carries);
                if self.is_wide {
                    self.line("if %few {");
                    let at = self.op(&format!("add {stage}, %vector"));
                    self.line(&format!("cp_async<cg, 16> %s, {at}, %x, %vector, %row"));
                    self.line("yield\n}");
                } else {
                    let at = self.op(&format!("add {stage}, %t"));
                    self.line(&format!("cp_async<ca, 4> %s, {at}, %x, %t, %word"));
                }
            }
            Step::Commit => self.line("cp_async_commit_group"),
            Step::Wait(pending) => {
                self.line(&format!("cp_async_wait_group<{}>", pending.max(0)));
            }
            Step::WaitAll => self.line("cp_async_wait_all"),
            Step::Barrier => self.line("barrier"),
            Step::BarWarp => self.line("bar_warp %all"),
            Step::Read(ahead) => {
                let stage = self.stage(ahead, carries);
                let element = self.element;
                let at = self.op(&format!("add {stage}, {element}"));
                let value = self.op(&format!("ld %s, {at}"));
                self.line(&format!("st %y, %own, {value}"));
            }
            Step::Store(ahead) => {
                let stage = self.stage(ahead, carries);
                let at = self.op(&format!("add {stage}, %t"));
                self.line(&format!("st %s, {at}, %t"));
            }
        }
    }
}
