//! Generates random kernels whose loops really run.
//!
//! They terminate, do not fault, and their results do not depend on the order of the warps. Loops
//! ask at random for unrolling and for software pipelining. The kernels of `random_kernel.rs`
//! contain every operation; these contain few operations in every form of control flow.

use std::num::NonZeroU32;

use tilewright::ir::op::{
    Arith, Axis, Compare, Control, Convert, LoadAccess, Mem, Op, SpecialReg, StoreAccess, Sync,
    Thread, Unroll,
};
use tilewright::ir::types::{Const, Scalar, Space, Type};
use tilewright::ir::{
    Kernel, KernelIr, LocationId, OpData, OpId, Param, Region, RegionId, SharedData,
    SourceLocation, Target, Value, ValueData, ValueDef, VarData, VarId,
};

use super::raw::Raw;
use super::rng::Rng;

/// Element count of the buffer `x`, a power of two.
pub(crate) const READ: usize = 64;

/// Threads per block (two warps), and element count of the buffer `y`.
pub(crate) const THREADS: u32 = 64;

const I32: Scalar = Scalar::I32;

/// Returns a kernel `(%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32)`, for `n` from -1 to
/// 6, and how many of its loops prefetch. It is verified.
pub(crate) fn random_loops(rng: &mut Rng) -> (KernelIr, usize) {
    let mut ir = Generator::new(rng).kernel();
    let asking = |ir: &KernelIr| {
        let asks = |op: &OpId| prefetch_of(&ir.ops[*op].op).is_some_and(|stages| stages > 0);
        ir.ops.keys().filter(asks).collect::<Vec<_>>()
    };
    // The verifier decides which loops can prefetch.
    let mut asked = asking(&ir);
    while let Err(errors) = Kernel::verify(ir.clone()) {
        let text = errors.to_string();
        let Some(op) = asked.pop() else { panic!("the generator is wrong:\n{text}\n{ir}") };
        if let Op::Control(Control::For { prefetch, .. }) = &mut ir.ops[op].op {
            *prefetch = 0;
        }
    }
    let fetching = asking(&ir).len();
    (ir, fetching)
}

fn prefetch_of(op: &Op) -> Option<u32> {
    match op {
        Op::Control(Control::For { prefetch, .. }) => Some(*prefetch),
        _ => None,
    }
}

struct Generator<'r> {
    rng: &'r mut Rng,
    raw: Raw,
    /// The visible values of type `i32`, for each open region.
    visible: Vec<Vec<Value>>,
    /// The visible one-register variables.
    vars: Vec<VarId>,
    /// The enclosing loops, each with its count of carried values.
    loops: Vec<(OpId, usize)>,
    x: Value,
    y: Value,
    n: Value,
    thread: Value,
    shared: Value,
    /// True if threads may return early. If not, a loop may have tiles of its own in shared memory.
    returns: bool,
    /// How many operations may still be added.
    size: usize,
}

impl<'r> Generator<'r> {
    fn new(rng: &'r mut Rng) -> Generator<'r> {
        let mut raw = Raw::new("loops", Target::SM_80);
        let pointer = |mutable| Type::Pointer { space: Space::Global, elem: I32, mutable };
        let [x, y, n] = [pointer(false), pointer(true), I32.into()].map(|ty| raw.new_param(ty));
        let (elem, location) = (I32, raw.location);
        let shared =
            raw.ir.shared.push(SharedData { elem, len: THREADS, align_bytes: 4, location });
        let returns = rng.below(2) == 0;
        let (visible, size) = (vec![vec![n]], 8 + rng.below(28));
        let mut generator = Generator {
            rng,
            raw,
            visible,
            vars: Vec::new(),
            loops: Vec::new(),
            x,
            y,
            n,
            thread: n,
            shared: n,
            returns,
            size,
        };
        generator.thread = generator.raw.get(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) });
        generator.shared = generator.raw.get(Mem::SharedBase { shared });
        let (base, thread) = (generator.shared, generator.thread);
        generator.show(thread);
        // What a thread that has ended would have given to others.
        generator.raw.push(
            Mem::St { base, index: thread, value: thread, access: StoreAccess::default() },
            &[],
        );
        generator.raw.push(Sync::Barrier {}, &[]);
        generator
    }

    fn kernel(mut self) -> KernelIr {
        for _ in 0..self.rng.below(3) {
            self.new_var();
        }
        // A variable that is declared here is visible everywhere.
        while self.size > 0 {
            self.statement(true);
        }
        let values = self.visible.concat();
        let mut sum = self.constant(I32, 0);
        for value in values {
            let lhs = self.arith(I32, Arith::Mul { lhs: sum, rhs: self.n });
            sum = self.arith(I32, Arith::Add { lhs, rhs: value });
        }
        for var in self.vars.clone() {
            let rhs = self.raw.get(Mem::GetVar { var, index: 0 });
            sum = self.arith(I32, Arith::Xor { lhs: sum, rhs });
        }
        let (base, index) = (self.y, self.thread);
        let before = self.raw.get(Mem::Ld { base, index, access: LoadAccess::default() });
        let value = self.arith(I32, Arith::Add { lhs: sum, rhs: before });
        self.raw.push(Mem::St { base, index, value, access: StoreAccess::default() }, &[]);
        self.raw.push(Control::Return, &[]);
        self.raw.ir
    }

    // Operations.

    fn arith(&mut self, scalar: Scalar, op: impl Into<Op>) -> Value {
        let value = self.raw.get(op);
        assert_eq!(self.raw.ir.type_of(value), scalar.into());
        value
    }

    fn constant(&mut self, scalar: Scalar, value: i128) -> Value {
        self.raw.get(Op::Const(Const::new(scalar, value as u64)))
    }

    fn show(&mut self, value: Value) {
        self.visible.last_mut().expect("the body is open").push(value);
    }

    fn any(&mut self) -> Value {
        let values = self.visible.concat();
        if self.rng.below(5) == 0 {
            let bits = self.rng.below(9) as i128 - 2;
            return self.constant(I32, bits);
        }
        *self.rng.pick(&values)
    }

    fn condition(&mut self) -> Value {
        let (lhs, rhs) = (self.any(), self.any());
        // Integers are always ordered.
        let ordered: Vec<Compare> =
            Compare::ALL.into_iter().filter(|compare| !compare.needs_float()).collect();
        let compare = *self.rng.pick(&ordered);
        self.raw.get(Arith::Setp { lhs, rhs, compare })
    }

    /// Loads an element of `x` that depends on `value`.
    fn load(&mut self, value: Value) -> Value {
        let rhs = self.constant(I32, READ as i128 - 1);
        let index = self.arith(I32, Arith::And { lhs: value, rhs });
        self.raw.get(Mem::Ld { base: self.x, index, access: LoadAccess::default() })
    }

    fn new_var(&mut self) {
        let value = self.any();
        let var = self.raw.new_var(I32.into(), 1);
        self.raw.push(Mem::SetVar { value, var, index: 0 }, &[]);
        self.vars.push(var);
    }

    /// Every thread passes a value to another thread of the block.
    fn exchange(&mut self) {
        let value = self.any();
        self.exchange_through(self.shared, value);
    }

    /// Like `exchange`, but through a buffer with one element per thread.
    fn exchange_through(&mut self, base: Value, value: Value) {
        let index = self.thread;
        if self.rng.below(2) == 0 {
            let (to, zero) = (self.raw.get(Mem::Offset { base, index }), self.constant(I32, 0));
            self.raw.push(
                Mem::St { base: to, index: zero, value, access: StoreAccess::default() },
                &[],
            );
        } else {
            self.raw.push(Mem::St { base, index, value, access: StoreAccess::default() }, &[]);
        }
        self.raw.push(Sync::Barrier {}, &[]);
        let by = 1 + self.rng.below(THREADS as usize - 1) as i128;
        let (by, last) = (self.constant(I32, by), self.constant(I32, i128::from(THREADS) - 1));
        let moved = self.arith(I32, Arith::Add { lhs: index, rhs: by });
        let other = self.arith(I32, Arith::And { lhs: moved, rhs: last });
        let value = self.raw.get(Mem::Ld { base, index: other, access: LoadAccess::default() });
        self.raw.push(Sync::Barrier {}, &[]);
        self.show(value);
    }

    /// Adds a statement. `uniform` is set if all threads execute the region together.
    fn statement(&mut self, uniform: bool) {
        self.size = self.size.saturating_sub(1);
        let deep = self.visible.len() > 4;
        match self.rng.below(16) {
            0..=3 => {
                let (lhs, rhs) = (self.any(), self.any());
                let op = match self.rng.below(6) {
                    0 => Arith::Add { lhs, rhs },
                    1 => Arith::Sub { lhs, rhs },
                    2 => Arith::Mul { lhs, rhs },
                    3 => Arith::Xor { lhs, rhs },
                    4 => Arith::Min { lhs, rhs },
                    _ => {
                        let rhs = self.constant(I32, 3);
                        Arith::Rem { lhs, rhs }
                    }
                };
                let value = self.raw.get(op);
                self.show(value);
            }
            4 | 5 => {
                let value = self.any();
                let value = self.load(value);
                self.show(value);
            }
            6 if !self.vars.is_empty() => {
                let var = *self.rng.pick(&self.vars);
                if self.rng.below(2) == 0 {
                    let value = self.raw.get(Mem::GetVar { var, index: 0 });
                    self.show(value);
                } else {
                    let value = self.any();
                    self.raw.push(Mem::SetVar { value, var, index: 0 }, &[]);
                }
            }
            7 => {
                let (base, index) = (self.y, self.thread);
                let before = self.raw.get(Mem::Ld { base, index, access: LoadAccess::default() });
                let rhs = self.any();
                let value = self.arith(I32, Arith::Xor { lhs: before, rhs });
                self.raw.push(Mem::St { base, index, value, access: StoreAccess::default() }, &[]);
            }
            8 if uniform => self.exchange(),
            9 | 10 if !deep => self.if_(),
            11 if !deep => self.loop_(),
            12..=15 if !deep => self.for_(uniform),
            _ => self.new_value(),
        }
    }

    fn new_value(&mut self) {
        let (lhs, rhs) = (self.any(), self.any());
        let value = self.arith(I32, Arith::Or { lhs, rhs });
        self.show(value);
    }

    // Control flow.

    fn open(&mut self, owner: OpId, args: &[Type]) -> RegionId {
        let region = self.raw.ir.regions.push(Region { parent: Some(owner), ..Region::default() });
        for (i, &ty) in args.iter().enumerate() {
            let (def, location) = (ValueDef::Arg(region, i as u32), self.raw.location);
            let value = self.raw.ir.values.push(ValueData { ty, def, region, location });
            self.raw.ir.regions[region].args.push(value);
        }
        region
    }

    /// Fills a region, and ends it with what `end` makes of the values that are visible there.
    fn fill(
        &mut self,
        region: RegionId,
        shown: Vec<Value>,
        statements: usize,
        uniform: bool,
        end: impl FnOnce(&mut Self),
    ) {
        let outer = std::mem::replace(&mut self.raw.region, region);
        let vars = self.vars.len();
        self.visible.push(shown);
        for _ in 0..statements {
            if self.size > 0 {
                self.statement(uniform);
            }
        }
        if self.rng.below(6) == 0 {
            self.new_var();
        }
        end(self);
        self.visible.pop();
        self.vars.truncate(vars);
        self.raw.region = outer;
    }

    fn all(&mut self, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.any()).collect()
    }

    fn if_(&mut self) {
        let cond = self.condition();
        let results = self.rng.below(3);
        let types = vec![I32.into(); results];
        let body = self.raw.region;
        let id = self.raw.push(Control::If { cond, then_region: body, else_region: None }, &types);
        let then_region = self.open(id, &[]);
        let else_region = (results > 0 || self.rng.below(2) == 0).then(|| self.open(id, &[]));
        self.raw.ir.ops[id].op = Control::If { cond, then_region, else_region }.into();
        for arm in [Some(then_region), else_region].into_iter().flatten() {
            let statements = self.rng.below(3);
            // An arm that only loads can be prefetched together with its condition.
            let loads = self.rng.below(2) == 0;
            self.fill(arm, vec![], if loads { 0 } else { statements }, false, |g| {
                if loads {
                    let value = g.any();
                    let value = g.load(value);
                    g.show(value);
                }
                // If one arm yields, the code after the `if` is reached.
                g.arm_end(results, Some(arm) == else_region || else_region.is_none());
            });
        }
        for result in self.raw.ir.ops[id].results.clone() {
            self.show(result);
        }
    }

    /// Adds `yield` or, now and then, a jump out of a loop.
    fn arm_end(&mut self, results: usize, may_jump: bool) {
        let jumps = may_jump && self.rng.below(8) == 0;
        if jumps && (self.loops.is_empty() || self.rng.below(8) == 0) {
            let op = Control::Return;
            if self.returns {
                self.raw.push(op, &[]);
            } else {
                let values = self.all(results).into();
                self.raw.push(Control::Yield { values }, &[]);
            }
        } else if jumps {
            let loops = self.loops.clone();
            let (target, count) = *self.rng.pick(&loops);
            let values = self.all(count).into();
            let is_for = prefetch_of(&self.raw.ir.ops[target].op).is_some();
            let op = if is_for && self.rng.below(2) == 0 {
                Control::Continue { target, values }
            } else {
                Control::Break { target, values }
            };
            self.raw.push(op, &[]);
        } else {
            let values = self.all(results).into();
            self.raw.push(Control::Yield { values }, &[]);
        }
    }

    /// Adds a loop that breaks after a few iterations, which its first carried value counts.
    fn loop_(&mut self) {
        let carried = 1 + self.rng.below(2);
        let mut init = self.all(carried);
        init[0] = self.constant(I32, 0);
        let limit = self.rng.below(5) as i128;
        let types = vec![I32.into(); carried];
        let control = |body| Control::Loop { init: init.clone().into(), body };
        let id = self.raw.push(control(self.raw.region), &types);
        let body = self.open(id, &types);
        self.raw.ir.ops[id].op = control(body).into();
        let args = self.raw.ir.regions[body].args.to_vec();
        let statements = self.rng.below(3);
        self.loops.push((id, carried));
        let counter = args[0];
        self.fill(body, args, statements, false, |g| {
            let (limit, one) = (g.constant(I32, limit), g.constant(I32, 1));
            let cond = g.raw.get(Arith::Setp { lhs: counter, rhs: limit, compare: Compare::Ge });
            let region = g.raw.region;
            let then = Control::If { cond, then_region: region, else_region: None };
            let exit = g.raw.push(then, &[]);
            let then_region = g.open(exit, &[]);
            g.raw.ir.ops[exit].op = Control::If { cond, then_region, else_region: None }.into();
            g.fill(then_region, vec![], 0, false, |g| {
                let values = g.all(carried).into();
                g.raw.push(Control::Break { target: id, values }, &[]);
            });
            let mut values = g.all(carried);
            values[0] = g.arith(I32, Arith::Add { lhs: counter, rhs: one });
            let values = values.into();
            g.raw.push(Control::Continue { target: id, values }, &[]);
        });
        self.loops.pop();
        for result in self.raw.ir.ops[id].results.clone() {
            self.show(result);
        }
    }

    /// Returns a range with few iterations: bounds, step, and whether they are constants.
    fn range(&mut self, scalar: Scalar) -> ([Value; 3], bool) {
        let bits = scalar.bits();
        let (min, max) = match scalar.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        let step = 1 + self.rng.below(4) as i128;
        let span = self.rng.below(8) as i128 * step - self.rng.below(3) as i128;
        // At the ends of the type's range, where careless arithmetic wraps.
        let lo = match self.rng.below(4) {
            0 => min,
            1 => max - span.clamp(0, 20),
            _ => self.rng.below(5) as i128,
        };
        let hi = (lo + span).clamp(min, max);
        if self.rng.below(3) == 0 {
            return ([lo, hi, step].map(|value| self.constant(scalar, value)), true);
        }
        let zero = self.constant(scalar, 0);
        // The unknown value: the parameter `n`, which is small.
        let wide = if scalar == I32 {
            self.n
        } else {
            self.arith(scalar, Convert::Cvt { value: self.n, to: scalar })
        };
        let [lo, step] = [lo, step].map(|value| self.constant(scalar, value));
        let count = self.arith(scalar, Arith::Max { lhs: wide, rhs: zero });
        let eight = self.constant(scalar, 8);
        let count = self.arith(scalar, Arith::Min { lhs: count, rhs: eight });
        // It may wrap. Then the loop has no iterations.
        let hi = self.arith(scalar, Arith::Add { lhs: lo, rhs: count });
        ([lo, hi, step], false)
    }

    fn for_(&mut self, uniform: bool) {
        let scalar = *self.rng.pick(&[
            I32,
            I32,
            Scalar::I8,
            Scalar::U8,
            Scalar::I16,
            Scalar::U32,
            Scalar::I64,
            Scalar::U64,
        ]);
        let ([lo, hi, step], known) = self.range(scalar);
        let carried = self.rng.below(3);
        let init: Vec<Value> = self.all(carried);
        let types = vec![I32.into(); carried];
        let unroll = match self.rng.below(4) {
            0 | 1 => Unroll::Keep,
            2 if known => Unroll::Full,
            _ => NonZeroU32::new(1 + self.rng.below(4) as u32).map_or(Unroll::Keep, Unroll::By),
        };
        // Half of the loops are written so that they can prefetch.
        let streams = self.rng.below(2) == 0;
        let prefetch = if streams { self.rng.below(4) } else { self.rng.below(2) } as u32;
        let tile = (streams && uniform && !self.returns && self.rng.below(2) == 0).then(|| {
            let data =
                SharedData { elem: I32, len: THREADS, align_bytes: 4, location: self.raw.location };
            let shared = self.raw.ir.shared.push(data);
            self.raw.get(Mem::SharedBase { shared })
        });
        let control = |body| {
            let init = init.clone().into();
            Control::For { lo, hi, step, unroll, prefetch, init, body }
        };
        let id = self.raw.push(control(self.raw.region), &types);
        let args: Vec<Type> = [scalar.into()].into_iter().chain(types).collect();
        let body = self.open(id, &args);
        self.raw.ir.ops[id].op = control(body).into();
        let args = self.raw.ir.regions[body].args.to_vec();
        self.loops.push((id, carried));
        let statements = if streams { 0 } else { self.rng.below(4) };
        // After some threads have jumped, the others are on their own.
        self.fill(body, args[1..].to_vec(), statements, false, |g| {
            let index = if scalar == I32 {
                args[0]
            } else {
                g.arith(I32, Convert::Cvt { value: args[0], to: I32 })
            };
            if streams {
                g.stream(index, uniform, tile);
            }
            g.show(index);
            let values = g.all(carried).into();
            g.raw.push(Control::Continue { target: id, values }, &[]);
        });
        self.loops.pop();
        for result in self.raw.ir.ops[id].results.clone() {
            self.show(result);
        }
    }

    /// Fills a loop body that loads along its index and computes with what it loads.
    fn stream(&mut self, index: Value, uniform: bool, tile: Option<Value>) {
        let mut fetched = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let factor = 1 + self.rng.below(7) as i128;
            let factor = self.constant(I32, factor);
            let scaled = self.arith(I32, Arith::Mul { lhs: index, rhs: factor });
            let rhs = if self.rng.below(2) == 0 { self.thread } else { self.n };
            let at = self.arith(I32, Arith::Add { lhs: scaled, rhs });
            if self.rng.below(3) == 0 {
                fetched.push(self.guarded_load(at));
            } else {
                fetched.push(self.load(at));
            }
        }
        if self.rng.below(4) == 0 {
            // An address that was itself loaded.
            let at = *self.rng.pick(&fetched);
            fetched.push(self.load(at));
        }
        if let Some(tile) = tile {
            // Another thread uses what is loaded.
            let value = *self.rng.pick(&fetched);
            self.exchange_through(tile, value);
        }
        fetched.into_iter().for_each(|value| self.show(value));
        if tile.is_none() && uniform && self.rng.below(3) == 0 {
            self.exchange();
        }
        for _ in 0..self.rng.below(4) {
            if let (0, Some(var)) = (self.rng.below(2), self.vars.first().copied()) {
                let lhs = self.raw.get(Mem::GetVar { var, index: 0 });
                let rhs = self.any();
                let value = self.arith(I32, Arith::Add { lhs, rhs });
                self.raw.push(Mem::SetVar { value, var, index: 0 }, &[]);
            } else {
                self.new_value();
            }
        }
    }

    fn guarded_load(&mut self, at: Value) -> Value {
        let limit = self.rng.below(20) as i128;
        let limit = self.constant(I32, limit);
        let cond = self.raw.get(Arith::Setp { lhs: at, rhs: limit, compare: Compare::Lt });
        let otherwise = self.constant(I32, -7);
        let region = self.raw.region;
        let control = Control::If { cond, then_region: region, else_region: None };
        let id = self.raw.push(control, &[I32.into()]);
        let (then_region, other) = (self.open(id, &[]), self.open(id, &[]));
        self.raw.ir.ops[id].op = Control::If { cond, then_region, else_region: Some(other) }.into();
        for (arm, loads) in [(then_region, true), (other, false)] {
            self.fill(arm, vec![], 0, false, |g| {
                let value = if loads { g.load(at) } else { otherwise };
                let values = [value].into_iter().collect();
                g.raw.push(Control::Yield { values }, &[]);
            });
        }
        self.raw.ir.ops[id].results[0]
    }
}
