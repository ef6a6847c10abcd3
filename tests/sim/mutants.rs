//! Changes random kernels at random and checks that each is refused or works.
//!
//! The verifier returns errors, or the passes, the PTX writer, the text form and the simulator all
//! take the kernel without a panic.
//!
//! `TILEWRIGHT_MUTANTS=1000000 cargo test --release --test sim mutants::` is the long run;
//! `TILEWRIGHT_MUTANTS_SEED` starts elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright::ir::op::{
    Arith, Compare, Control, Convert, Mem, Mma, Op, SpecialReg, Thread, Unroll,
};
use tilewright::ir::types::{Const, Scalar, Space, Type};
use tilewright::ir::{
    Entity, Kernel, KernelIr, OpData, OpId, Param, RegionId, Value, ValueData, ValueDef,
};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Output, run};

use crate::support::slow::slow;
use crate::support::{random_kernel, random_loops, rng, text};

use rng::Rng;

/// Returns an entity of a kernel with `len` of its kind, rarely a missing entity.
fn entity<K: Entity>(rng: &mut Rng, len: usize) -> K {
    if len == 0 || rng.below(200) == 0 { K::from_index(len) } else { K::from_index(rng.below(len)) }
}

fn any_type(rng: &mut Rng) -> Type {
    let elem = *rng.pick(&Scalar::ALL);
    match rng.below(3) {
        0 => Type::Pointer { space: *rng.pick(&Space::ALL), elem, mutable: rng.below(2) == 0 },
        _ => elem.into(),
    }
}

/// A position in the region, the end included.
fn position(rng: &mut Rng, ir: &KernelIr, region: RegionId) -> usize {
    rng.below(ir.regions[region].ops.len() + 1)
}

/// Adds a copy of an operation, with results of its own, somewhere in the region.
fn duplicate(rng: &mut Rng, ir: &mut KernelIr, op: OpId, region: RegionId) {
    let OpData { op, results, location, .. } = ir.ops[op].clone();
    let types: Vec<Type> = results.iter().map(|value| ir.type_of(*value)).collect();
    let id = ir.ops.push(OpData { op, results: Default::default(), region, location });
    for (i, ty) in types.into_iter().enumerate() {
        let def = ValueDef::Result(id, i as u32);
        let value = ir.values.push(ValueData { ty, def, region, location });
        ir.ops[id].results.push(value);
    }
    let at = position(rng, ir, region);
    ir.regions[region].ops.insert(at, id);
}

/// Moves an operation to the end of another region or to another place in its own.
fn relocate(rng: &mut Rng, ir: &mut KernelIr, op: OpId, region: RegionId) {
    let from = ir.ops[op].region;
    ir.regions[from].ops.retain(|other| *other != op);
    let at = position(rng, ir, region);
    ir.regions[region].ops.insert(at, op);
    ir.ops[op].region = region;
    for result in ir.ops[op].results.clone() {
        ir.values[result].region = region;
    }
}

/// Changes the attributes of an operation.
fn attributes(rng: &mut Rng, ir: &mut KernelIr, op: OpId) {
    let (vars, shared, ops) = (ir.vars.len(), ir.shared.len(), ir.ops.len());
    match &mut ir.ops[op].op {
        Op::Const(constant) => {
            let scalar =
                if rng.below(4) == 0 { *rng.pick(&Scalar::ALL) } else { constant.scalar() };
            *constant = Const::new(scalar, rng.word() >> rng.below(64));
        }
        Op::Arith(Arith::Setp { compare, .. }) => *compare = *rng.pick(&Compare::ALL),
        Op::Convert(Convert::Cvt { to, .. }) => *to = *rng.pick(&Scalar::ALL),
        Op::Thread(Thread::Sreg { reg }) => *reg = *rng.pick(&SpecialReg::ALL),
        Op::Mem(Mem::SharedBase { shared: id }) => *id = entity(rng, shared),
        Op::Mem(Mem::GetVar { var, index } | Mem::SetVar { var, index, .. }) => {
            *var = entity(rng, vars);
            *index = rng.below(4) as u32;
        }
        Op::Mma(
            Mma::MmaSync { d, first, shape, .. }
            | Mma::MmaSyncF64 { d, first, shape, .. }
            | Mma::Wgmma { d, first, shape, .. }
            | Mma::WgmmaRs { d, first, shape, .. },
        ) => match rng.below(3) {
            0 => *d = entity(rng, vars),
            1 => *first = (rng.word() >> (32 + rng.below(32))) as u32,
            _ => shape.n = (rng.word() >> (32 + rng.below(32))) as u32,
        },
        Op::Control(Control::For { prefetch, .. }) if rng.below(2) == 0 => {
            *prefetch = rng.below(4) as u32;
        }
        Op::Control(Control::For { unroll, .. }) => {
            *unroll = match rng.below(3) {
                0 => Unroll::Full,
                1 => Unroll::Keep,
                _ => (1 + rng.word() as u32 % 9).try_into().map_or(Unroll::Keep, Unroll::By),
            };
        }
        Op::Control(Control::Break { target, values } | Control::Continue { target, values }) => {
            match rng.below(3) {
                0 => *target = entity(rng, ops),
                1 => drop(values.pop()),
                _ => values.push(Value::from_index(0)),
            }
        }
        _ => {}
    }
}

/// Changes something.
fn mutate(rng: &mut Rng, ir: &mut KernelIr) {
    let op: OpId = OpId::from_index(rng.below(ir.ops.len()));
    let region: RegionId = RegionId::from_index(rng.below(ir.regions.len()));
    match rng.below(18) {
        0 => {
            let from = ir.ops[op].region;
            ir.regions[from].ops.retain(|other| *other != op);
        }
        1 => duplicate(rng, ir, op, ir.ops[op].region),
        2 => duplicate(rng, ir, op, region),
        3 => relocate(rng, ir, op, ir.ops[op].region),
        4 => relocate(rng, ir, op, region),
        5..=8 => {
            let count = ir.values.len();
            if count > 0 {
                let chosen = rng.below(4);
                let mut at = 0;
                ir.ops[op].op.for_each_operand_mut(&mut |value| {
                    if at == chosen || chosen == 3 {
                        *value = entity(rng, count);
                    }
                    at += 1;
                });
            }
        }
        9 | 10 => attributes(rng, ir, op),
        11 => {
            let other = OpId::from_index(rng.below(ir.ops.len()));
            let (a, b) = (ir.ops[op].op.clone(), ir.ops[other].op.clone());
            (ir.ops[op].op, ir.ops[other].op) = (b, a);
        }
        12 => {
            let other = OpId::from_index(rng.below(ir.ops.len()));
            ir.ops[op].op = ir.ops[other].op.clone();
        }
        13 if !ir.values.is_empty() => {
            let value = Value::from_index(rng.below(ir.values.len()));
            ir.values[value].ty = any_type(rng);
        }
        14 if !ir.shared.is_empty() => {
            let shared = entity(rng, ir.shared.len());
            if ir.shared.get(shared).is_some() {
                let data = &mut ir.shared[shared];
                match rng.below(3) {
                    0 => data.elem = *rng.pick(&Scalar::ALL),
                    1 => data.len = (rng.word() >> (32 + rng.below(32))) as u32,
                    _ => data.align_bytes = 1 << rng.below(14),
                }
            }
        }
        15 if !ir.vars.is_empty() => {
            let var = entity(rng, ir.vars.len());
            if ir.vars.get(var).is_some() {
                match rng.below(3) {
                    0 => ir.vars[var].ty = any_type(rng),
                    1 => ir.vars[var].len = (rng.word() >> (32 + rng.below(32))) as u32,
                    _ => ir.vars[var].region = region,
                }
            }
        }
        16 => match rng.below(4) {
            0 => ir.regions[region].parent = Some(op),
            1 => {
                ir.regions[region].args.pop();
            }
            2 => {
                ir.ops[op].results.pop();
            }
            _ => ir.body = region,
        },
        _ => {
            let order = &mut ir.regions[region].ops;
            if order.len() > 1 {
                let (a, b) = (rng.below(order.len()), rng.below(order.len()));
                order.swap(a, b);
            }
        }
    }
}

/// Gives a verified kernel to all parts of the library, with race detection or without. Returns
/// true if the simulator ran it to its end.
fn use_everywhere(ir: &KernelIr, race: bool) -> bool {
    text::check_round_trip(ir);
    let kernel = Kernel::verify(ir.clone()).expect("it was verified");
    assert!(kernel.ptx().text().contains(".entry"));
    if let Ok(lowered) = kernel.lower() {
        text::check_round_trip(lowered.ir());
        assert!(lowered.ptx().text().contains(".entry"));
        simulate(lowered.ir(), race);
    }
    simulate(ir, race)
}

/// Runs the kernel, where it takes no tensor map: there is no tensor for it.
fn simulate(ir: &KernelIr, race: bool) -> bool {
    let is_map = |param: &Param| matches!(ir.type_of(param.value), Type::TensorMap { .. });
    if ir.params.iter().any(is_map) {
        return false;
    }
    let buffers: Vec<GlobalBuffer> = ir.params.iter().map(|_| GlobalBuffer::zeros(512)).collect();
    let args: Vec<KernelArg<'_>> = ir
        .params
        .iter()
        .zip(&buffers)
        .map(|(param, buffer)| match ir.type_of(param.value) {
            Type::Scalar(scalar) => KernelArg::Scalar(Const::new(scalar, 3)),
            Type::Pointer { .. } => KernelArg::Buffer(buffer),
            Type::Vector(_) | Type::TensorMap { .. } => {
                unreachable!("no kernel here has such a parameter")
            }
        })
        .collect();
    let grid = Grid::new([1, 1, 1], ir.bounds.block.unwrap_or([33, 1, 1]));
    // What kernels print is not of interest.
    let options = Options::default().fuel(2_000).threads(1).race(race);
    let options = options.output(Output::captured());
    let result = run(ir, grid, &args, &options);
    if let Err(error) = &result {
        assert!(!error.to_string().is_empty());
    }
    result.is_ok()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

#[test]
fn mutants_are_refused_or_work() {
    let (count, seed) = (
        number("TILEWRIGHT_MUTANTS", if slow() { 10_000 } else { 2000 }),
        number("TILEWRIGHT_MUTANTS_SEED", 1),
    );
    let (mut accepted, mut ended) = (0u64, 0u64);
    for number in 0..count {
        let mut rng = Rng::new(seed.wrapping_add(number));
        let mut ir = if number % 10 == 0 {
            random_loops::random_loops(&mut rng).0.canonical()
        } else {
            let choices: Vec<u32> = (0..rng.below(200)).map(|_| rng.word() as u32).collect();
            random_kernel::random_kernel(&choices).canonical()
        };
        for _ in 0..1 + rng.below(3) {
            mutate(&mut rng, &mut ir);
        }
        let result = catch_unwind(AssertUnwindSafe(|| match Kernel::verify(ir.clone()) {
            Ok(_) => Some(use_everywhere(&ir, number % 8 == 0)),
            Err(errors) => {
                // Every error has a text, and the kernel can be shown beside it.
                assert!(errors.iter().all(|violation| !violation.to_string().is_empty()));
                let _ = (ir.to_string(), ir.canonical());
                None
            }
        }));
        match result {
            Ok(used) => {
                accepted += u64::from(used.is_some());
                ended += u64::from(used == Some(true));
            }
            Err(_) => panic!("mutant {number} of seed {seed} panics:\n{ir}"),
        }
    }
    // The test says something about both sides.
    assert!(accepted * 10 > count, "of {count} mutants only {accepted} are valid");
    assert!(accepted < count, "every mutant is valid");
    assert!(ended * 20 > accepted, "of {accepted} valid mutants only {ended} run to their end");
}
