//! Divergence analysis: finds values that differ between the threads of a block or warp, and
//! operations that only some of these threads reach. The verifier uses it to reject barriers in
//! divergent code, for example inside `if thread_idx().x < 16`.
//!
//! A value is *divergent* if threads of the same block (or warp) may see different values in the
//! same execution. Divergence starts at the thread and lane indices and spreads through operands; a
//! load from a uniform address is uniform. Some values are uniform across a warp even though their
//! operands are not:
//!
//! * `tid.x / 32` and similar, if warps follow the x axis. This is known if the kernel fixes its
//!   block size, and assumed otherwise, so that we only reject kernels that are certainly wrong.
//! * Comparisons with the same result in all threads of a warp (`thread_index.rs`).
//! * Votes and reductions, and the results of a butterfly exchange (`butterfly.rs`).
//!
//! An operation is *divergent* if it may execute with only part of the threads that have not
//! returned:
//!
//! * inside an arm of an `if` with a divergent condition, and inside a loop with a divergent range;
//! * after an `if` that some threads leave by `break` or `continue` and others do not: for
//!   `continue` up to the end of the loop body, for `break` up to the end of the loop.
//!
//! A load from a uniform address counts as uniform, unless the caller asks for values that do not
//! depend on data (`without_data`).
//!
//! A divergent `return` makes nothing after it divergent, because barriers do not wait for threads
//! that have returned. The analysis iterates to a fixed point. Its flags only ever rise, so it
//! needs at most as many rounds as there are values; two or three are typical.

use std::collections::{HashMap, HashSet};

use super::butterfly::Butterflies;
use super::origin::{Origins, Root};
use super::thread_index::{agree, is_thread_index};
use crate::ir::entity::{Entity, OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{
    Arith, Axis, Compare, Control, Mem, Op, ReduxOp, ShflMode, SpecialReg, Sync, Thread,
    VolatileReg, Warp,
};
use crate::ir::types::{Space, Type};

/// The group of threads to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum Scope {
    /// The threads of a warp.
    Warp,
    /// The threads of a block.
    Block,
}

/// The result of the divergence analysis.
pub(crate) struct Uniformity {
    ops: Vec<Option<OpId>>,
    values: Vec<bool>,
}

impl Uniformity {
    /// Analyses a kernel whose structure is verified.
    pub(in crate::ir) fn new(ir: &KernelIr, scope: Scope) -> Uniformity {
        Uniformity::of(ir, scope, false)
    }

    /// Analyses the threads of a block. Whatever depends on memory that the kernel can write is
    /// divergent, because another thread may write it between two threads' loads.
    pub(crate) fn without_data(ir: &KernelIr) -> Uniformity {
        Uniformity::of(ir, Scope::Block, true)
    }

    /// The same for the threads of a warp. The kernel has to fix its block size.
    pub(crate) fn of_warps_without_data(ir: &KernelIr) -> Uniformity {
        Uniformity::of(ir, Scope::Warp, true)
    }

    fn of(ir: &KernelIr, scope: Scope, is_strict: bool) -> Uniformity {
        let is_warp = |[x, y, z]: [u32; 3]| x.saturating_mul(y).saturating_mul(z) <= 32;
        let scope = if ir.bounds.block.is_some_and(is_warp) { Scope::Warp } else { scope };
        let mut flow = Flow {
            ir,
            scope,
            is_strict,
            origins: is_strict.then(|| Origins::new(ir)),
            values: vec![false; ir.values.len()],
            vars: vec![false; ir.vars.len()],
            butterflies: Butterflies::new(ir),
            broken: HashSet::new(),
            ops: vec![None; ir.ops.len()],
            agreed: HashMap::new(),
            changed: true,
        };
        while std::mem::take(&mut flow.changed) {
            flow.region(ir.body, None);
        }
        Uniformity { ops: flow.ops, values: flow.values }
    }

    /// Returns whether threads may see different values in the same execution of the operation that
    /// defines the value.
    pub(crate) fn is_divergent(&self, value: Value) -> bool {
        self.values.get(value.index()).copied().unwrap_or(true)
    }

    /// Returns the branch or loop that keeps some threads from reaching `op`, or `None` if all
    /// reach it.
    pub(crate) fn divergence_of(&self, op: OpId) -> Option<OpId> {
        self.ops.get(op.index()).copied().flatten()
    }
}

struct Flow<'k> {
    ir: &'k KernelIr,
    scope: Scope,
    /// Whether loads from memory that may change are divergent.
    is_strict: bool,
    /// Where pointers come from, if the above is so.
    origins: Option<Origins>,
    /// For each value, whether it is divergent.
    values: Vec<bool>,
    /// For each variable, whether it may hold a divergent value.
    vars: Vec<bool>,
    /// Butterfly exchanges between a warp's lanes.
    butterflies: Butterflies,
    /// The loops that some threads leave in an iteration in which others stay.
    broken: HashSet<OpId>,
    /// For each operation, the branch or loop that makes it divergent.
    ops: Vec<Option<OpId>>,
    /// For each comparison of divergent values, whether all threads agree on the result.
    agreed: HashMap<OpId, bool>,
    changed: bool,
}

/// The loops that a divergent jump targets: only some threads continue or leave them.
type Jumps = HashSet<OpId>;

impl Flow<'_> {
    fn is_divergent(&self, value: Value) -> bool {
        self.values[value.index()]
    }

    fn raise(&mut self, value: Value, divergent: bool) {
        let flag = &mut self.values[value.index()];
        self.changed |= divergent && !*flag;
        *flag |= divergent;
    }

    fn raise_all(&mut self, to: &[Value], from: &[Value], divergent: bool) {
        for (to, from) in to.iter().zip(from) {
            let divergent = divergent || self.is_divergent(*from);
            self.raise(*to, divergent);
        }
    }

    /// Visits a region. `cause` is set if only some threads reach it. Returns the divergent jumps
    /// out of the region.
    fn region(&mut self, region: RegionId, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let mut cause = cause;
        let mut jumps = Jumps::new();
        for &op in &ir.regions[region].ops {
            self.ops[op.index()] = cause;
            let left = self.op(op, cause);
            // Only threads that did not jump reach the next operations.
            if !left.is_empty() {
                cause = cause.or(Some(op));
            }
            jumps.extend(left);
        }
        jumps
    }

    fn op(&mut self, op: OpId, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let data = &ir.ops[op];
        let mut divergent = data.op.operands().into_iter().any(|value| self.is_divergent(value));
        match (&data.op, data.op.info().is_some_and(|info| info.own_result)) {
            (Op::Control(control), _) => return self.control(op, control, cause),
            (Op::Thread(Thread::Sreg { reg }), _) => divergent = self.varies(*reg),
            (Op::Arith(Arith::Setp { compare, lhs, rhs }), _) => {
                divergent &= !self.agree(op, *compare, *lhs, *rhs);
            }
            (op @ (Op::Arith(_) | Op::FloatArith(_) | Op::IntArith(_) | Op::Convert(_)), _) => {
                divergent &= !self.is_number_of_warp(op);
                if self.scope == Scope::Warp {
                    let (values, results) = (&self.values, &data.results);
                    let is_divergent = |value: Value| values[value.index()];
                    divergent &= !self.butterflies.is_uniform(ir, op, results, is_divergent);
                }
            }
            (Op::Mem(Mem::SetVar { var, .. }), _) => {
                // A thread that does not get here keeps its old value.
                let flag = &mut self.vars[var.index()];
                let divergent = divergent || cause.is_some();
                self.changed |= divergent && !*flag;
                *flag |= divergent;
            }
            // Inline PTX may read anything that differs between threads.
            (Op::Inline(_), _) => divergent = true,
            (Op::Mem(Mem::GetVar { var, .. }), _) => divergent = self.vars[var.index()],
            (Op::Warp(warp), _) => {
                let divergent = self.warp(warp);
                for (result, divergent) in data.results.iter().zip(divergent) {
                    self.raise(*result, divergent);
                }
                return Jumps::new();
            }
            // All waiting threads get the same result, whatever their predicates are.
            (
                Op::Sync(
                    Sync::BarrierRed { id, threads, .. } | Sync::BarrierRedPopc { id, threads, .. },
                ),
                _,
            ) => {
                let some = self.scope == Scope::Block && cause.is_some();
                divergent =
                    some || self.is_strict || self.is_divergent(*id) || self.is_divergent(*threads);
            }
            (Op::Thread(Thread::VolatileSreg { reg }), _) => {
                divergent = match reg {
                    VolatileReg::SmId => false,
                    VolatileReg::WarpId => self.scope != Scope::Warp,
                    VolatileReg::Clock | VolatileReg::Clock64 | VolatileReg::GlobalTimer => true,
                };
            }
            // Each thread has its own local memory.
            (Op::Mem(Mem::Ld { base, .. } | Mem::LdVec { base, .. }), _) => {
                divergent |= match ir.type_of(*base) {
                    Type::Pointer { space: Space::Local | Space::Generic, .. } => true,
                    Type::Pointer { space: Space::Const, .. } => false,
                    // Nothing writes a buffer that a launch may only read.
                    _ => self.is_strict && !self.is_read_only(*base),
                };
            }
            (_, own_result) => {
                divergent |= own_result;
                if own_result && let Some(var) = data.op.var() {
                    let flag = &mut self.vars[var.index()];
                    self.changed |= !*flag;
                    *flag = true;
                }
            }
        }
        for result in &data.results {
            self.raise(*result, divergent);
        }
        Jumps::new()
    }

    /// Returns whether threads see different values of a special register.
    fn varies(&self, reg: SpecialReg) -> bool {
        use SpecialReg as R;
        // A block's threads fill warps along x first, then y, then z.
        let whole_warps = |threads: u32| self.scope == Scope::Warp && threads.is_multiple_of(32);
        match (reg, self.ir.bounds.block) {
            (R::Tid(Axis::Y), Some([x, ..])) => !whole_warps(x),
            (R::Tid(Axis::Z), Some([x, y, _])) => !whole_warps(x.saturating_mul(y)),
            (R::Tid(_) | R::LaneId, _) => true,
            (R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt, _) => true,
            (R::LaneMaskGe | R::LaneMaskGt, _) => true,
            (R::Ntid(_) | R::Ctaid(_) | R::Nctaid(_), _) => false,
            (R::NWarpId | R::NSmId | R::GridId | R::IsExplicitCluster, _) => false,
            (R::ClusterId(_) | R::NClusterId(_) | R::ClusterCtaid(_), _) => false,
            (R::ClusterNctaid(_) | R::ClusterCtaRank | R::ClusterNctaRank, _) => false,
            (R::DynamicSmemSize | R::TotalSmemSize | R::AggrSmemSize, _) => false,
        }
    }

    /// Returns whether the operation drops the lane bits of the thread index, so that its result is
    /// the same across a warp.
    fn is_number_of_warp(&self, op: &Op) -> bool {
        let along_x = match self.ir.bounds.block {
            Some([x, y, z]) => x.is_multiple_of(32) || (y, z) == (1, 1),
            None => true,
        };
        let with = |value: Value, other: Value, drops_lane: fn(i128) -> bool| {
            is_thread_index(self.ir, value) && self.ir.integer(other).is_some_and(drops_lane)
        };
        if self.scope != Scope::Warp || !along_x {
            return false;
        }
        if let Op::Arith(Arith::Shr { value, amount }) = *op {
            with(value, amount, |amount| amount >= 5)
        } else if let Op::Arith(Arith::Div { lhs, rhs }) = *op {
            with(lhs, rhs, |divisor| divisor > 0 && divisor % 32 == 0)
        } else if let Op::Arith(Arith::And { lhs, rhs }) = *op {
            let drops_lane = |mask| mask & 31 == 0;
            with(lhs, rhs, drops_lane) || with(rhs, lhs, drops_lane)
        } else {
            false
        }
    }

    /// Returns whether the pointer is into a buffer that the kernel cannot write.
    fn is_read_only(&self, pointer: Value) -> bool {
        let root = self.origins.as_ref().and_then(|origins| origins.root(pointer));
        let Some(Root::Param(param)) = root else { return false };
        self.ir.params.get(param as usize).is_some_and(|param| {
            let ty = self.ir.type_of(param.value);
            matches!(ty, Type::Pointer { space: Space::Global, mutable: false, .. })
        })
    }

    /// Returns whether all threads agree on the result of a comparison of divergent values.
    fn agree(&mut self, op: OpId, compare: Compare, lhs: Value, rhs: Value) -> bool {
        let (ir, scope) = (self.ir, self.scope);
        // A block without a fixed size may extend along any axis.
        if self.is_strict && ir.bounds.block.is_none() {
            return false;
        }
        *self.agreed.entry(op).or_insert_with(|| agree(ir, scope, compare, lhs, rhs))
    }

    /// Returns for each result of a warp operation whether it is divergent.
    fn warp(&self, op: &Warp) -> [bool; 2] {
        let is = |value: Value| self.is_divergent(value);
        let of_warp = self.scope == Scope::Warp;
        match *op {
            Warp::Shfl { value, lane, segment, members, mode } => {
                let whole = self.ir.integer(segment).is_some_and(|segment| segment & 0x1f00 == 0);
                let one = mode == ShflMode::Idx && whole && !is(lane);
                [is(value) && !(of_warp && one && !is(members)), !one]
            }
            // All threads that execute it together get the same result.
            Warp::Vote { members, .. }
            | Warp::VoteBallot { members, .. }
            | Warp::MatchAll { members, .. }
            | Warp::Redux { members, .. }
                if of_warp =>
            {
                [is(members); 2]
            }
            Warp::Vote { pred, members, .. } => [is(pred) || is(members); 2],
            Warp::MatchAll { value, members } => [true, is(value) || is(members)],
            Warp::MatchAny { value, members } => [!of_warp || is(value) || is(members), true],
            // The last warp of a block may be partial.
            Warp::Redux { op: ReduxOp::Add | ReduxOp::Xor, .. } | Warp::VoteBallot { .. } => {
                [true; 2]
            }
            Warp::Redux { value, members, .. } => [is(value) || is(members); 2],
            Warp::Elect { members } => [!of_warp || is(members), true],
            Warp::Activemask {} => [self.is_strict || !of_warp, true],
            Warp::BarWarp { .. } => [false; 2],
        }
    }

    fn control(&mut self, op: OpId, control: &Control, cause: Option<OpId>) -> Jumps {
        let ir = self.ir;
        let results = &ir.ops[op].results;
        match control {
            Control::If { cond, then_region, else_region } => {
                let splits = self.is_divergent(*cond);
                let inside = if splits { cause.or(Some(op)) } else { cause };
                let mut jumps = self.region(*then_region, inside);
                if let Some(else_region) = else_region {
                    jumps.extend(self.region(*else_region, inside));
                }
                for result in results {
                    self.raise(*result, splits);
                }
                jumps
            }
            Control::For { lo, hi, step, init, body, .. } => {
                let args = &ir.regions[*body].args;
                let [lo, hi, step] = [lo, hi, step].map(|value| self.is_divergent(*value));
                if let Some((index, carried)) = args.split_first() {
                    self.raise(*index, lo || step);
                    self.raise_all(carried, init, false);
                }
                let splits = lo || hi || step || self.broken.contains(&op);
                self.raise_all(results, init, splits);
                self.loop_body(op, *body, splits, cause)
            }
            Control::Loop { init, body } => {
                self.raise_all(&ir.regions[*body].args, init, false);
                let splits = self.broken.contains(&op);
                self.loop_body(op, *body, splits, cause)
            }
            Control::Yield { values } => {
                if let Some(parent) = ir.regions[ir.ops[op].region].parent {
                    self.raise_all(&ir.ops[parent].results, values, false);
                }
                Jumps::new()
            }
            Control::Continue { target, values } => {
                let apart = self.jumps_apart(*target, cause);
                let args = ir.carried_args(*target).unwrap_or(&[]);
                self.raise_all(args, values, apart);
                if let Op::Control(Control::For { .. }) = &ir.ops[*target].op {
                    self.raise_all(&ir.ops[*target].results, values, apart);
                }
                apart.then_some(*target).into_iter().collect()
            }
            Control::Break { target, values } => {
                let apart = self.jumps_apart(*target, cause);
                if apart && self.broken.insert(*target) {
                    self.changed = true;
                }
                self.raise_all(&ir.ops[*target].results, values, apart);
                apart.then_some(*target).into_iter().collect()
            }
            Control::Return => Jumps::new(),
        }
    }

    /// Returns whether only some of the threads that entered the loop `target` take this jump,
    /// given the cause for which the jump is divergent.
    fn jumps_apart(&self, target: OpId, cause: Option<OpId>) -> bool {
        cause.is_some() && cause != self.ops[target.index()]
    }

    fn loop_body(&mut self, op: OpId, body: RegionId, splits: bool, cause: Option<OpId>) -> Jumps {
        let inside = if splits { cause.or(Some(op)) } else { cause };
        if self.broken.contains(&op) {
            // Threads leave with the values of different iterations.
            for result in &self.ir.ops[op].results {
                self.raise(*result, true);
            }
        }
        let mut jumps = self.region(body, inside);
        // The loop's threads reconverge at its end.
        jumps.remove(&op);
        jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns for each barrier of a kernel whether it is divergent, in text order.
    fn barriers(scope: Scope, body: &str) -> Vec<bool> {
        let text = format!("kernel @k target sm_80 (%x: ptr<global, mut i32>, %n: i32) {{{body}}}");
        let ir: KernelIr = text.parse().unwrap();
        let uniformity = Uniformity::new(&ir, scope);
        let is_barrier = |op: &OpId| matches!(ir.ops[*op].op, Op::Sync(Sync::Barrier {}));
        let barriers = ir.ops.keys().filter(is_barrier);
        barriers.map(|op| uniformity.divergence_of(op).is_some()).collect()
    }

    const START: &str = "
        %t = sreg<tid.x> : i32
        %b = sreg<ctaid.x> : i32
        %zero = const 0 : i32
        %one = const 1 : i32
        %apart = setp<lt> %t, %n : bool
        %together = setp<lt> %b, %n : bool
        ";

    #[track_caller]
    fn check(body: &str, expected: &[bool]) {
        check_in(Scope::Block, body, expected);
    }

    #[track_caller]
    fn check_in(scope: Scope, body: &str, expected: &[bool]) {
        assert_eq!(barriers(scope, &format!("{START}{body}\nreturn\n")), expected, "{body}");
    }

    /// Checks whether a branch on `%v > %n` is divergent in a block and in a warp.
    #[track_caller]
    fn check_branch(value: &str, expected: [bool; 2]) {
        let body = format!("{value}\n%c = setp<gt> %v, %n : bool\nif %c {{\nbarrier\nyield\n}}");
        check_in(Scope::Block, &body, &[expected[0]]);
        check_in(Scope::Warp, &body, &[expected[1]]);
    }

    #[test]
    fn numbers_of_warps_are_the_same_in_a_warp() {
        let shift =
            |by: u32, what: &str| format!("%s = const {by} : u32\n%v = shr {what}, %s : i32");
        check_branch(&shift(5, "%t"), [true, false]);
        check_branch(&shift(4, "%t"), [true, true]);
        check_branch("%s = const 64 : i32\n%v = div %t, %s : i32", [true, false]);
        check_branch("%s = const 48 : i32\n%v = div %t, %s : i32", [true, true]);
        check_branch("%s = const -32 : i32\n%v = and %t, %s : i32", [true, false]);
        check_branch("%y = sreg<tid.y> : i32\n%v = add %y, %zero : i32", [true, true]);
        check_branch("%v = volatile_sreg<smid> : i32", [false, false]);
        check_branch("%v = volatile_sreg<warpid> : i32", [true, false]);
    }

    #[test]
    fn comparisons_that_whole_warps_agree_on() {
        let check = |values: &str, compare: &str, expected: [bool; 2]| {
            let body = format!(
                "{values}\n%c = setp<{compare}> %v, %w : bool\nif %c {{\nbarrier\nyield\n}}"
            );
            check_in(Scope::Block, &body, &[expected[0]]);
            check_in(Scope::Warp, &body, &[expected[1]]);
        };
        // The property: `t compare bound` is the same in threads 32 w to 32 w + 31, for every warp
        // w.
        let by_law = |compare: &str, bound: i32| {
            let holds = |t: i32| match compare {
                "lt" => t < bound,
                "le" => t <= bound,
                "gt" => t > bound,
                "ge" => t >= bound,
                "eq" => t == bound,
                _ => t != bound,
            };
            let apart = |threads: std::ops::Range<i32>| {
                let first = holds(threads.start);
                threads.into_iter().any(|t| holds(t) != first)
            };
            [apart(0..1024), (0..32).any(|warp| apart(32 * warp..32 * warp + 32))]
        };
        for compare in ["lt", "le", "gt", "ge", "eq", "ne"] {
            for bound in [-1, 0, 1, 31, 32, 33, 48, 63, 64, 992, 1023, 1024, 2000] {
                let values = format!("%v = add %t, %zero : i32\n%w = const {bound} : i32");
                check(&values, compare, by_law(compare, bound));
            }
        }
        let (k32, k40) = ("%k32 = const 32 : i32\n", "%k40 = const 40 : i32\n");
        let with = |text: &str| format!("{k32}{k40}{text}");
        check(&with("%v = min %t, %k40 : i32\n%w = const 32 : i32"), "lt", [true, false]);
        check(&with("%v = min %t, %k40 : i32\n%w = const 40 : i32"), "lt", [true, true]);
        check(&with("%v = max %t, %k40 : i32\n%w = const 40 : i32"), "ge", [false, false]);
        check(&with("%v = sub %t, %k32 : i32\n%w = const 0 : i32"), "ge", [true, false]);
        // Bounds that are known only at run time.
        check(&with("%v = cvt<i32> %t : i32\n%w = mul %n, %k32 : i32"), "lt", [true, false]);
        check(&with("%v = cvt<i32> %t : i32\n%w = mul %n, %k32 : i32"), "le", [true, true]);
        check(&with("%w = cvt<i32> %t : i32\n%v = mul %n, %k32 : i32"), "gt", [true, false]);
        check(&with("%v = cvt<i32> %t : i32\n%w = mul %n, %k40 : i32"), "lt", [true, true]);
        check(
            &with("%v = cvt<i32> %t : i32\n%m = mul %n, %k32 : i32\n%w = min %m, %k32 : i32"),
            "ge",
            [true, false],
        );
    }

    #[test]
    fn what_a_warp_computes_together_is_the_same_in_it() {
        let all = "%all = const 0xffffffff : u32\n%l = const 3 : u32\n%w = const 31 : u32\n";
        let with = |op: &str| format!("{all}{op}");
        check_branch(&with("%v = redux<max> %t, %all : i32"), [true, false]);
        check_branch(&with("%v = redux<max> %b, %all : i32"), [false, false]);
        check_branch(&with("%v = redux<add> %b, %all : i32"), [true, false]);
        check_branch(&with("%v, %p = shfl<idx> %t, %l, %w, %all : i32, bool"), [true, false]);
        check_branch(&with("%v, %p = shfl<up> %t, %l, %w, %all : i32, bool"), [true, true]);
        check_branch(&with("%v, %p = shfl<up> %b, %l, %w, %all : i32, bool"), [false, false]);
        let vote = with("%p = vote<any> %apart, %all : bool\n%v = selp %p, %n, %zero : i32");
        check_branch(&vote, [true, false]);
        let elect = with("%e, %p = elect %all : u32, bool\n%v = selp %p, %n, %zero : i32");
        check_branch(&elect, [true, true]);
    }

    #[test]
    fn branches_on_the_thread_index_diverge() {
        check("barrier\nif %together {\nbarrier\nyield\n}\nbarrier", &[false, false, false]);
        check(
            "if %apart {\nbarrier\nyield\n} else {\nbarrier\nyield\n}\nbarrier",
            &[true, true, false],
        );
        check("if %apart {\nif %together {\nbarrier\nyield\n}\nyield\n}", &[true]);
    }

    #[test]
    fn loads_from_one_address_do_not_diverge() {
        check(
            "%v = ld %x, %b : i32\n%c = setp<lt> %v, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[false],
        );
        check(
            "%v = ld %x, %t : i32\n%c = setp<lt> %v, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
    }

    #[test]
    fn loops_diverge_by_their_range_and_by_their_breaks() {
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\ncontinue @l\n}\nbarrier",
            &[false, false],
        );
        check(
            "for @l %i: i32 = %zero to %t step %one {\nbarrier\ncontinue @l\n}\nbarrier",
            &[true, false],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\nif %apart {\nbreak @l\n}\nbarrier\ncontinue @l\n}\nbarrier",
            &[true, true, false],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nbarrier\nif %apart {\ncontinue @l\n}\nbarrier\ncontinue @l\n}",
            &[false, true],
        );
        check(
            "for @l %i: i32 = %zero to %n step %one {\nif %apart {\nreturn\n}\nbarrier\ncontinue @l\n}",
            &[false],
        );
    }

    #[test]
    fn jumps_of_outer_loops_diverge_until_these_end() {
        let inner = "loop @m {\nif %apart {\ncontinue @l\n}\nbreak @m\n}";
        check(
            &format!(
                "for @l %i: i32 = %zero to %n step %one {{\nbarrier\n{inner}\nbarrier\ncontinue @l\n}}\nbarrier"
            ),
            &[false, true, false],
        );
    }

    #[test]
    fn values_diverge_through_carried_values_results_and_variables() {
        check(
            "%r = for @l %i: i32 = %zero to %n step %one iter(%a: i32 = %zero) : i32 {\n%s = add %a, %t : i32\ncontinue @l %s\n}\n%c = setp<lt> %r, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
        check(
            "%r = if %apart : i32 {\nyield %zero\n} else {\nyield %one\n}\n%c = setp<lt> %r, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
        check(
            "var @v: i32 x 1\nset_var<@v, 0> %zero\nif %apart {\nset_var<@v, 0> %one\nyield\n}\n%g = get_var<@v, 0> : i32\n%c = setp<lt> %g, %n : bool\nif %c {\nbarrier\nyield\n}",
            &[true],
        );
    }
}
