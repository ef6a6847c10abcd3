//! The canonical form of a kernel, in which ids are numbered in program order. Equality of kernels
//! compares it, so that the order in which a pass created its operations does not matter.

use std::collections::HashMap;

use super::entity::{Arena, Entity, OpId, RegionId, SharedId, Value, VarId};
use super::kernel::{KernelIr, OpData, Region, SharedData, ValueData, ValueDef, VarData};
use super::op::{Control, Op};
use super::types::{Const, Scalar, Type};

/// Maps old ids to new ids. Ids of unreachable entities map to `u32::MAX`, which no arena contains.
struct Renumbering<K>(Vec<K>);

impl<K: Entity> Renumbering<K> {
    fn new<T>(order: &[K], arena: &Arena<K, T>) -> Renumbering<K> {
        let mut new = vec![K::from_index(u32::MAX as usize); arena.len()];
        for (number, old) in order.iter().enumerate() {
            if let Some(entry) = new.get_mut(old.index()) {
                *entry = K::from_index(number);
            }
        }
        Renumbering(new)
    }

    fn get(&self, old: K) -> K {
        self.0.get(old.index()).copied().unwrap_or(K::from_index(u32::MAX as usize))
    }
}

/// Everything reachable from a kernel's body, in text-form order.
#[derive(Default)]
struct Order {
    regions: Vec<RegionId>,
    ops: Vec<OpId>,
    values: Vec<Value>,
    vars: Vec<VarId>,
}

impl Order {
    #[inline]
    fn new(ir: &KernelIr) -> Order {
        let mut vars: HashMap<usize, Vec<VarId>> = HashMap::new();
        for (id, var) in ir.vars.iter() {
            vars.entry(var.region.index()).or_default().push(id);
        }
        let mut order = Order::default();
        order.values.extend(ir.params.iter().map(|param| param.value));
        let mut seen = vec![false; ir.regions.len()];
        // The work list; the next step is at the end. The walk is not recursive because an
        // unverified kernel may nest arbitrarily deep.
        let mut next = vec![Next::Region(ir.body)];
        while let Some(step) = next.pop() {
            match step {
                Next::Region(id) => {
                    let Some(region) = ir.regions.get(id) else { continue };
                    if !std::mem::replace(&mut seen[id.index()], true) {
                        order.regions.push(id);
                        order.values.extend(&region.args);
                        order.vars.extend(vars.get(&id.index()).into_iter().flatten());
                        next.extend(region.ops.iter().rev().map(|op| Next::Op(*op)));
                    }
                }
                Next::Op(id) => {
                    let Some(data) = ir.ops.get(id) else { continue };
                    order.ops.push(id);
                    order.values.extend(&data.results);
                    next.extend(data.op.regions().into_iter().rev().map(Next::Region));
                }
            }
        }
        order
    }
}

/// A step of the walk that computes the [`Order`].
enum Next {
    Region(RegionId),
    Op(OpId),
}

impl KernelIr {
    /// Returns the same kernel with unreachable entities removed and all ids renumbered in the
    /// order in which the kernel prints. Use it before you compare ids or show a kernel that passes
    /// have changed. Parsed kernels already have this form; built and rewritten kernels may not.
    ///
    /// The kernel should be verified or parsed. Dangling ids stay dangling.
    #[inline]
    pub fn canonical(&self) -> KernelIr {
        let order = Order::new(self);
        let regions = Renumbering::new(&order.regions, &self.regions);
        let ops = Renumbering::new(&order.ops, &self.ops);
        let values = Renumbering::new(&order.values, &self.values);
        let vars = Renumbering::new(&order.vars, &self.vars);
        let mut new = self.clone();
        new.params.iter_mut().for_each(|param| param.value = values.get(param.value));
        new.body = regions.get(self.body);
        new.regions = Arena::new();
        for region in order.regions.iter().filter_map(|id| self.regions.get(*id)) {
            new.regions.push(Region {
                parent: region.parent.map(|op| ops.get(op)),
                args: region.args.iter().map(|value| values.get(*value)).collect(),
                ops: region.ops.iter().map(|op| ops.get(*op)).collect(),
            });
        }
        new.ops = Arena::new();
        for data in order.ops.iter().filter_map(|id| self.ops.get(*id)) {
            let mut op = data.op.clone();
            op.for_each_operand_mut(&mut |value| *value = values.get(*value));
            rename(&mut op, &regions, &ops, &vars);
            new.ops.push(OpData {
                op,
                results: data.results.iter().map(|value| values.get(*value)).collect(),
                region: regions.get(data.region),
                location: data.location,
            });
        }
        new.values = Arena::new();
        for data in order.values.iter().filter_map(|id| self.values.get(*id)) {
            let def = match data.def {
                ValueDef::Param(i) => ValueDef::Param(i),
                ValueDef::Result(op, i) => ValueDef::Result(ops.get(op), i),
                ValueDef::Arg(region, i) => ValueDef::Arg(regions.get(region), i),
            };
            new.values.push(ValueData { def, region: regions.get(data.region), ..*data });
        }
        new.vars = Arena::new();
        for data in order.vars.iter().filter_map(|id| self.vars.get(*id)) {
            new.vars.push(VarData { region: regions.get(data.region), ..*data });
        }
        new
    }
}

/// Renumbers everything in `op` except its operands.
fn rename(
    op: &mut Op,
    regions: &Renumbering<RegionId>,
    ops: &Renumbering<OpId>,
    vars: &Renumbering<VarId>,
) {
    if let Some(var) = op.var_mut() {
        *var = vars.get(*var);
    }
    let Op::Control(control) = op else { return };
    match control {
        Control::If { then_region, else_region, .. } => {
            *then_region = regions.get(*then_region);
            *else_region = else_region.map(|region| regions.get(region));
        }
        Control::For { body, .. } | Control::Loop { body, .. } => *body = regions.get(*body),
        Control::Continue { target, .. } | Control::Break { target, .. } => {
            *target = ops.get(*target);
        }
        Control::Yield { .. } | Control::Return => {}
    }
}

/// Returns the parts of a canonical kernel that equality compares: everything but source locations.
#[inline]
fn parts(ir: &KernelIr) -> impl PartialEq + use<'_> {
    let regions: Vec<&Region> = ir.regions.iter().map(|(_, region)| region).collect();
    let ops: Vec<_> =
        ir.ops.iter().map(|(_, data)| (&data.op, &data.results, data.region)).collect();
    let values: Vec<(Type, ValueDef, RegionId)> =
        ir.values.iter().map(|(_, data)| (data.ty, data.def, data.region)).collect();
    let vars: Vec<(Type, u32, RegionId)> =
        ir.vars.iter().map(|(_, data)| (data.ty, data.len, data.region)).collect();
    let arrays: Vec<(Scalar, Vec<u64>)> = ir
        .arrays
        .iter()
        .map(|(_, array)| (array.elem, array.elements().map(Const::bits).collect()))
        .collect();
    let globals: Vec<(Scalar, u32, Vec<u64>)> = ir
        .globals
        .iter()
        .map(|(_, global)| (global.elem, global.len, global.elements().map(Const::bits).collect()))
        .collect();
    let locals: Vec<(Scalar, u32)> =
        ir.locals.iter().map(|(_, local)| (local.elem, local.len)).collect();
    let shared: Vec<(SharedId, Scalar, u32, u32)> = ir
        .shared
        .iter()
        .map(|(id, SharedData { elem, len, align_bytes, .. })| (id, *elem, *len, *align_bytes))
        .collect();
    (
        (&ir.name, ir.target, ir.bounds, &ir.params, ir.body),
        regions,
        ops,
        values,
        vars,
        shared,
        locals,
        arrays,
        globals,
    )
}

/// Two kernels are equal if they are the same program. Ids, unreachable entities and source
/// locations do not matter.
impl PartialEq for KernelIr {
    #[inline]
    fn eq(&self, other: &KernelIr) -> bool {
        let (a, b) = (self.canonical(), other.canonical());
        parts(&a) == parts(&b)
    }
}
