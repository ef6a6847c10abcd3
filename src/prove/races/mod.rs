//! Proves that the threads of a kernel do not race, by comparing two of them.
//!
//! Two threads race if both access the same byte, one of them writes, and nothing orders the two
//! accesses. `phase.rs` finds the pairs of accesses that no barrier orders. `overlap.rs` shows
//! for such a pair that only one and the same thread can touch the same byte twice: it renames the
//! unknowns that differ between threads (`twin.rs`), and takes the difference of both offsets apart.
//!
//! Blocks are never ordered, so for global memory also two threads of different blocks are compared.
//! Buffers that a launch may write do not overlap other buffers, as Rust's borrows say.

mod batch;
mod overlap;
mod phase;
mod record;
mod report;
mod ring;
mod twin;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) use record::Record;
pub use report::{Contention, OpenPair, RaceProof, RaceVerdict};

use super::claim::Deps;
use super::condition::Condition;
use super::pointer::Root;
use super::site::tested;
use super::walk::Walk;
use crate::ir::op::{AsyncCopy, MemScope, Mma, Op, SpecialReg, Thread};
use crate::ir::types::Space;
use crate::ir::{Entity, Kernel, KernelIr, OpId, Signature, Value, ValueDef};
use batch::Batch;
use overlap::{Answer, Effort, Overlap};
use phase::{Event, Phases, Scope};
use twin::{Pair, Twins};

/// How many pairs of accesses are worth a look at all of them together.
const MANY: usize = 8;

/// How many pairs of accesses to an allocation are compared.
const PAIRS: usize = 20_000;

impl<P> Kernel<P> {
    /// Shows for each buffer and shared allocation that no two threads race for it, or names two
    /// accesses that may race.
    ///
    /// Barriers of the block and of whole warps, `cp.async` with its waits, and atomics count. What
    /// other asynchronous copies, mbarriers, `wgmma` or other blocks of a cluster access stays open,
    /// and so does what only named barriers of some threads order.
    ///
    /// ```
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::prove::RaceVerdict;
    ///
    /// type Params = (Global<f32>, GlobalMut<f32>);
    /// let reverse = |barrier: bool| {
    ///     Kernel::<Params>::build("reverse", Target::SM_80, move |k, (x, y)| {
    ///         let (i, tile) = (k.thread_idx().x, k.shared::<f32>(64));
    ///         tile.store(i, x.load(i));
    ///         if barrier {
    ///             k.barrier();
    ///         }
    ///         y.store(i, tile.load(63 - i));
    ///     })
    /// };
    /// assert!(reverse(true)?.prove_races().is_complete());
    /// let proof = reverse(false)?.prove_races();
    /// let open = proof.allocations().iter().find(|one| !one.verdict.is_settled()).unwrap();
    /// assert!(matches!(&open.verdict, RaceVerdict::Open(pair) if pair.first.0 == "st"), "{proof}");
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn prove_races(&self) -> RaceProof {
        prove(self.ir(), self.signature())
    }
}

/// What is known about an allocation.
enum Found {
    Relies(Deps),
    Open { reason: String, first: OpId, second: OpId },
    Assumed(&'static str),
}

fn prove(ir: &KernelIr, signature: &Signature) -> RaceProof {
    let mut walk = Walk::new(ir);
    walk.records = Some(Vec::new());
    walk.add_signature(signature);
    walk.run();
    let records = walk.records.take().unwrap_or_default();
    let mut found = Races::new(ir, walk).all(&records);
    found.sort_by(|a, b| (a.space.to_string(), &a.name).cmp(&(b.space.to_string(), &b.name)));
    let mut conditions = Vec::new();
    let allocations = found.into_iter().map(|one| one.public(ir, &mut conditions)).collect();
    RaceProof { kernel: ir.name.clone(), allocations, conditions }
}

/// An allocation with what was found.
struct Allocation {
    name: String,
    space: Space,
    accesses: usize,
    found: Found,
    /// What the launch has to fulfil, if it can evaluate all of it.
    conditions: Option<Vec<Condition>>,
}

impl Allocation {
    fn public(self, ir: &KernelIr, all: &mut Vec<Condition>) -> Contention {
        let at = |op: OpId| (ir.ops[op].op.name(), ir.location_of(op));
        let verdict = match self.found {
            Found::Relies(_) => match self.conditions {
                None => RaceVerdict::Assumed(
                    "a condition on the launch that is too large to be evaluated",
                ),
                Some(own) if own.is_empty() => RaceVerdict::Proved,
                Some(own) => {
                    let index = |condition: Condition| {
                        let known = all.iter().position(|known| *known == condition);
                        known.unwrap_or_else(|| {
                            all.push(condition);
                            all.len() - 1
                        })
                    };
                    RaceVerdict::Condition(own.into_iter().map(index).collect())
                }
            },
            Found::Open { reason, first, second } => {
                RaceVerdict::Open(OpenPair { reason, first: at(first), second: at(second) })
            }
            Found::Assumed(what) => RaceVerdict::Assumed(what),
        };
        let (name, space, accesses) = (self.name, self.space, self.accesses);
        Contention { name, space, accesses, verdict }
    }
}

/// What it relies on that no two threads of different warps race, and whether threads of the same
/// warp may.
struct Order {
    deps: Deps,
    is_within_warps: bool,
}

struct Races<'k> {
    ir: &'k KernelIr,
    walk: Walk<'k>,
    phases: Phases<'k>,
    /// The same for the threads of a warp, if they are compared.
    warps: OnceCell<Phases<'k>>,
    registers: HashSet<SpecialReg>,
    twins: HashMap<Pair, Twins>,
}

impl<'k> Races<'k> {
    fn new(ir: &'k KernelIr, walk: Walk<'k>) -> Races<'k> {
        let ops = ir.reached_ops();
        let used: HashSet<Value> = ops.iter().flat_map(|op| ir.ops[*op].op.operands()).collect();
        let registers = ops.into_iter().filter_map(|op| {
            let Op::Thread(Thread::Sreg { reg }) = ir.ops[op].op else { return None };
            ir.ops[op].results.iter().any(|result| used.contains(result)).then_some(reg)
        });
        let registers = registers.collect();
        let (phases, warps) = (Phases::new(ir, Scope::Block), OnceCell::new());
        Races { ir, walk, phases, warps, registers, twins: HashMap::new() }
    }

    fn all(mut self, records: &[Record]) -> Vec<Allocation> {
        let ir = self.ir;
        let mut by_root: BTreeMap<(u32, usize), Vec<&Record>> = BTreeMap::new();
        let mut strays: Vec<&Record> = Vec::new();
        for record in records {
            match record.root {
                Root::Param(param) => by_root.entry((0, param as usize)).or_default().push(record),
                Root::Shared(shared) | Root::Remote(shared) => {
                    by_root.entry((1, shared.index())).or_default().push(record);
                }
                // Each thread has its own, and constants do not change.
                Root::Local(_) => {}
                Root::Array(_) if !record.is_store => {}
                Root::Array(_) | Root::Integer | Root::Unknown => strays.push(record),
            }
        }
        let ops = ir.reached_ops();
        let inline = ops.iter().any(|op| matches!(ir.ops[*op].op, Op::Inline(_)));
        let products = ops.iter().copied().find(|op| {
            matches!(
                ir.ops[*op].op,
                Op::Mma(
                    Mma::Wgmma { .. }
                        | Mma::WgmmaRs { .. }
                        | Mma::WgmmaSp { .. }
                        | Mma::WgmmaRsSp { .. }
                )
            )
        });
        let mut results = Vec::new();
        for records in by_root.into_values() {
            let (name, space) = match records[0].root {
                Root::Param(param) => match ir.params.get(param as usize) {
                    Some(param) => (param.name.clone(), Space::Global),
                    None => continue,
                },
                Root::Shared(shared) | Root::Remote(shared) => (shared.to_string(), Space::Shared),
                Root::Local(_) | Root::Array(_) | Root::Integer | Root::Unknown => continue,
            };
            let writes = records.iter().any(|record| record.is_store);
            let stray = strays.iter().find(|stray| stray.is_store || writes);
            let open = |reason: &str, first: OpId, second: OpId| Found::Open {
                reason: reason.to_owned(),
                first,
                second,
            };
            let found = if let Some(stray) = stray {
                open("the pointer's allocation is not known", stray.op, records[0].op)
            } else if let Some(op) = products.filter(|_| space == Space::Shared) {
                open("`wgmma` reads shared memory until a later wait", op, records[0].op)
            } else {
                self.allocation(&records)
            };
            let found = match found {
                Found::Relies(_) if inline => Found::Assumed("inline PTX"),
                found => found,
            };
            results.push(self.result(name, space, records.len(), found, records[0].op));
        }
        for op in ops {
            if let Op::AsyncCopy(
                AsyncCopy::CpAsyncBulkTensorStore { map, .. }
                | AsyncCopy::CpReduceAsyncBulkTensor { map, .. },
            ) = &ir.ops[op].op
                && let ValueDef::Param(param) = ir.values[*map].def
                && let Some(param) = ir.params.get(param as usize)
                && !results.iter().any(|known| known.name == param.name)
            {
                let reason = "tensor copies, whose boxes are not compared".to_owned();
                let found = Found::Open { reason, first: op, second: op };
                results.push(self.result(param.name.clone(), Space::Global, 1, found, op));
            }
        }
        results
    }

    fn result(
        &self,
        name: String,
        space: Space,
        accesses: usize,
        found: Found,
        at: OpId,
    ) -> Allocation {
        let deps = if let Found::Relies(deps) = found { deps } else { 0 };
        let place = (self.ir.ops[at].op.name(), self.ir.location_of(at));
        let requirements = &self.walk.requirements;
        let conditions = tested(requirements, deps)
            .map(|i| Condition::new(self.ir, &self.walk.atoms, &requirements[i], place))
            .collect();
        Allocation { name, space, accesses, found, conditions }
    }

    /// Compares all accesses to an allocation with one another.
    fn allocation(&mut self, records: &[&Record]) -> Found {
        if !records.iter().any(|record| record.is_store) {
            return Found::Relies(0);
        }
        let batches = Batch::of(records, [&self.phases, self.phases(Scope::Warp)]);
        let (mut deps, mut pairs) = (0, 0);
        for (i, a) in batches.iter().enumerate() {
            for b in &batches[i..] {
                if !(a.all[0].is_store || b.all[0].is_store) {
                    continue;
                }
                if let Some(own) = self.hulls(a, b) {
                    deps |= own;
                    continue;
                }
                for (a, b) in a.pairs(b, &self.phases) {
                    pairs += 1;
                    let found = if pairs > PAIRS {
                        Err("the kernel has too many accesses".to_owned())
                    } else {
                        self.pair(a, b, Effort::Searches)
                    };
                    match found {
                        Ok(own) => deps |= own,
                        Err(reason) => return Found::Open { reason, first: a.op, second: b.op },
                    }
                }
            }
        }
        Found::Relies(deps)
    }

    /// Compares all bytes of one batch with those of another one.
    fn hulls(&mut self, a: &Batch<'_>, b: &Batch<'_>) -> Option<Deps> {
        if a.all.len() * b.all.len() < MANY {
            return None;
        }
        let (a, b) = a.hulls(b)?;
        self.pair(&a, &b, Effort::Ranges).ok()
    }

    /// Returns what it relies on that two threads do not race with these accesses.
    fn pair(&mut self, a: &Record, b: &Record, effort: Effort) -> Result<Deps, String> {
        for record in [a, b] {
            if let Root::Remote(_) = record.root {
                return Err("another block of the cluster may access it".to_owned());
            }
            if let Some(reason) = record.asynchronous {
                return Err(reason.to_owned());
            }
        }
        let is_global = matches!(a.root, Root::Param(_));
        let scopes = match (a.atomic, b.atomic) {
            (Some((x, size)), Some((y, other))) if size == other => Some([x, y]),
            _ => None,
        };
        let is_wide = |scope: MemScope| matches!(scope, MemScope::Gpu | MemScope::Sys);
        if scopes.is_some_and(|scopes| !is_global || scopes.into_iter().all(is_wide)) {
            return Ok(0);
        }
        let mut deps = 0;
        if is_global {
            let is_plain = !(a.is_collective || b.is_collective || a.is_copy || b.is_copy);
            match self.decide(&Pair::Grid, a, b, effort) {
                Answer::Apart(own) => return Ok(own),
                Answer::SameThread(own) if is_plain => return Ok(own),
                Answer::SameThread(own) | Answer::SameWarp(own) | Answer::SameBlock(own) => {
                    deps |= own;
                }
                Answer::Unknown => return Err(self.unknown(a, b, "two blocks")),
            }
            if scopes.is_some() {
                return Ok(deps);
            }
        }
        let Some(own) = self.threads(Scope::Block, a, b, effort) else {
            return Err(self.unknown(a, b, "two threads"));
        };
        deps |= own.deps;
        if own.is_within_warps {
            match self.threads(Scope::Warp, a, b, effort) {
                Some(own) if !own.is_within_warps => deps |= own.deps,
                _ => return Err(self.unknown(a, b, "two threads of a warp")),
            }
        }
        Ok(deps)
    }

    /// Shows that no two threads of a block or warp race.
    fn threads(&mut self, scope: Scope, a: &Record, b: &Record, effort: Effort) -> Option<Order> {
        let depth = self.phases.loops(self.ir.ops[a.op].region).len();
        let [x, y] = [a, b].map(|record| Event { op: record.op, is_copy: record.is_copy });
        let relations = self.phases(scope).relations(x, y);
        let mut order = Order { deps: 0, is_within_warps: false };
        for relation in relations.iter() {
            // One warp executes the matrix operation once.
            let is_once = a.op == b.op && relation.is_same(depth);
            let is_thread =
                relation.is_sequential && (is_once || !(a.is_collective || b.is_collective));
            let (first, second) = if relation.is_swapped { (b, a) } else { (a, b) };
            let pair = Pair::Threads(scope, relation.steps.clone());
            match self.decide(&pair, first, second, effort) {
                Answer::Apart(own) => order.deps |= own,
                Answer::SameThread(own) if is_thread => order.deps |= own,
                Answer::SameThread(own) | Answer::SameWarp(own) => {
                    order.deps |= own;
                    order.is_within_warps = true;
                }
                Answer::SameBlock(_) | Answer::Unknown => return None,
            }
        }
        Some(order)
    }

    fn phases(&self, scope: Scope) -> &Phases<'k> {
        match scope {
            Scope::Block => &self.phases,
            Scope::Warp => self.warps.get_or_init(|| Phases::new(self.ir, Scope::Warp)),
        }
    }

    fn decide(&mut self, pair: &Pair, a: &Record, b: &Record, effort: Effort) -> Answer {
        let scope = match pair {
            Pair::Threads(scope, _) => *scope,
            Pair::Grid => Scope::Block,
        };
        let index = self.twins.len() as u32;
        let twins = self
            .twins
            .entry(pair.clone())
            .or_insert_with_key(|pair| Twins::new(pair.clone(), index));
        let phases = match scope {
            Scope::Block => &self.phases,
            Scope::Warp => self.warps.get_or_init(|| Phases::new(self.ir, Scope::Warp)),
        };
        Overlap::new(&mut self.walk, phases, twins, &self.registers, effort).decide(a, b)
    }

    /// Says what is not known about a pair.
    fn unknown(&self, a: &Record, b: &Record, who: &str) -> String {
        let show = |record: &Record| match &record.bytes {
            Some((offset, bytes)) => {
                let offset = super::show::poly(self.ir, &self.walk.atoms, offset);
                format!("{bytes} bytes at {offset}")
            }
            None => "unknown bytes".to_owned(),
        };
        format!("{who} may touch the same byte, without a barrier: {} and {}", show(a), show(b))
    }
}
