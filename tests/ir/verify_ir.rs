//! Rules of the verifier that no text can break: kernels made as data, with indices that do not
//! fit.

use tilewright::ir::Kernel;
use tilewright::ir::op::{Arith, Control, Mem, Op, Unroll};
use tilewright::ir::types::{Const, Scalar, Type};
use tilewright::ir::{
    Arena, Entity, KernelIr, LocationId, OpData, OpId, Param, Region, RegionId, SharedData,
    SourceLocation, Target, Value, ValueData, ValueDef, VarData, VarId, VerifyError,
};

/// A kernel with a parameter `%a: i32`, a constant `%1`, a shared allocation, a variable and
/// `return`.
fn small() -> KernelIr {
    let mut ir = KernelIr::new("small", Target::SM_80);
    let location = ir.location(SourceLocation::caller());
    let (region, ty) = (ir.body, Scalar::I32.into());
    let value = ir.values.push(ValueData { ty, def: ValueDef::Param(0), region, location });
    ir.params.push(Param { name: "a".into(), value });
    let op = push(&mut ir, region, Op::Const(Const::new(Scalar::I32, 1)));
    let def = ValueDef::Result(op, 0);
    let result = ir.values.push(ValueData { ty, def, region, location });
    ir.ops[op].results.push(result);
    ir.shared.push(SharedData { elem: Scalar::F32, len: 4, align_bytes: 4, location });
    ir.vars.push(VarData { ty, len: 1, region, location, name: None });
    push(&mut ir, region, Control::Return);
    ir.regions[region].ops.reverse();
    ir
}

/// Adds an operation without results at the front of a region.
fn add(ir: &mut KernelIr, region: RegionId, op: impl Into<Op>) {
    push(ir, region, op);
}

/// As `add`, and returns the operation.
fn push(ir: &mut KernelIr, region: RegionId, op: impl Into<Op>) -> OpId {
    let location = ir.location(SourceLocation::caller());
    let id = ir.ops.push(OpData { op: op.into(), results: Default::default(), region, location });
    ir.regions[region].ops.insert(0, id);
    id
}

fn last<K: Entity>() -> K {
    K::from_index(u32::MAX as usize)
}

/// Checks that the changed kernel breaks the rule, and that neither verifying nor printing nor
/// comparing it panics.
#[track_caller]
fn check(change: impl FnOnce(&mut KernelIr), expected: impl Fn(&VerifyError) -> bool) {
    let mut ir = small();
    change(&mut ir);
    let _ = (ir.to_string(), ir.canonical(), ir == small());
    let errors = Kernel::verify(ir.clone()).map(|_| ()).expect_err(&ir.to_string());
    assert!(errors.iter().any(|violation| expected(&violation.error)), "{errors}\n{ir}");
}

#[track_caller]
fn out_of_range(change: impl FnOnce(&mut KernelIr)) {
    check(change, |error| matches!(error, VerifyError::EntityOutOfRange { .. }));
}

#[track_caller]
fn wrong_owner(change: impl FnOnce(&mut KernelIr)) {
    check(change, |error| matches!(error, VerifyError::WrongOwner { .. }));
}

#[test]
fn the_small_kernel_is_valid() {
    Kernel::verify(small()).expect("it is");
}

#[test]
fn indices_that_point_nowhere() {
    out_of_range(|ir| ir.body = last());
    out_of_range(|ir| ir.params[0].value = last());
    out_of_range(|ir| ir.regions[ir.body].ops.push(last()));
    out_of_range(|ir| ir.regions[ir.body].args.push(last()));
    out_of_range(|ir| ir.ops[OpId::from_index(0)].results.push(last()));
    out_of_range(|ir| ir.ops[OpId::from_index(0)].location = last());
    out_of_range(|ir| ir.values[Value::from_index(1)].location = last());
    out_of_range(|ir| ir.values[Value::from_index(1)].region = last());
    out_of_range(|ir| ir.locations = Arena::<LocationId, SourceLocation>::new());
    out_of_range(|ir| ir.vars[VarId::from_index(0)].region = last());
    out_of_range(|ir| ir.vars[VarId::from_index(0)].location = last());
    out_of_range(|ir| ir.shared[Entity::from_index(0)].location = last());
    let values = || [last()].into_iter().collect();
    let cond = Value::from_index(0);
    let ops: [fn() -> Op; 9] = [
        || Mem::GlobalBase { global: last() }.into(),
        || Mem::ArrayBase { array: last() }.into(),
        || Arith::Neg { value: last() }.into(),
        || Mem::SharedBase { shared: last() }.into(),
        || Mem::GetVar { var: last(), index: 0 }.into(),
        || Mem::SetVar { value: Value::from_index(0), var: last(), index: 0 }.into(),
        || Control::Break { target: last(), values: Default::default() }.into(),
        || Control::Continue { target: last(), values: Default::default() }.into(),
        || Control::Loop { init: Default::default(), body: last() }.into(),
    ];
    for op in ops {
        out_of_range(|ir| add(ir, ir.body, op()));
    }
    out_of_range(|ir| add(ir, ir.body, Control::Yield { values: values() }));
    out_of_range(|ir| {
        let control = Control::If { cond, then_region: last(), else_region: Some(last()) };
        push(ir, ir.body, control);
    });
}

#[test]
fn regions_and_operations_that_are_there_twice() {
    let twice = |change: fn(&mut KernelIr)| {
        check(change, |e| matches!(e, VerifyError::InKernelTwice { .. }))
    };
    twice(|ir| {
        let op = ir.regions[ir.body].ops[0];
        ir.regions[ir.body].ops.push(op);
    });
    twice(|ir| add(ir, ir.body, Control::Loop { init: Default::default(), body: ir.body }));
}

#[test]
fn owners_that_are_not() {
    wrong_owner(|ir| ir.params.push(ir.params[0].clone()));
    wrong_owner(|ir| {
        let result = ir.ops[OpId::from_index(0)].results[0];
        ir.ops[OpId::from_index(0)].results.push(result);
    });
    wrong_owner(|ir| ir.regions[ir.body].parent = Some(OpId::from_index(0)));
    wrong_owner(|ir| {
        let region = ir.regions.push(Region::default());
        ir.ops[OpId::from_index(0)].region = region;
    });
    wrong_owner(|ir| ir.values[Value::from_index(0)].def = ValueDef::Param(1));
    wrong_owner(|ir| ir.values[Value::from_index(1)].def = ValueDef::Result(last(), 0));
    wrong_owner(|ir| ir.regions[ir.body].args.push(Value::from_index(1)));
    wrong_owner(|ir| {
        let region = ir.regions.push(Region::default());
        ir.values[Value::from_index(1)].region = region;
    });
    // A value that nothing makes.
    wrong_owner(|ir| {
        let (region, location) = (ir.body, LocationId::from_index(0));
        let (ty, def) = (Type::BOOL, ValueDef::Param(u32::MAX));
        let value = ir.values.push(ValueData { ty, def, region, location });
        push(ir, region, Arith::Not { value });
    });
}

/// Loops inside each other, `depth` regions with the body of the kernel.
fn nested(depth: usize) -> KernelIr {
    let mut ir = small();
    let mut region = ir.body;
    for _ in 1..depth {
        let body = ir.regions.push(Region::default());
        let op = push(&mut ir, region, Control::Loop { init: Default::default(), body });
        ir.regions[body].parent = Some(op);
        push(&mut ir, body, Control::Continue { target: op, values: Default::default() });
        region = body;
    }
    ir
}

#[test]
fn regions_too_deep_inside_each_other() {
    let ir = nested(KernelIr::MAX_DEPTH);
    let parsed: KernelIr = ir.to_string().parse().expect("it is not too deep");
    assert!(parsed == ir);
    Kernel::verify(ir).expect("it is not too deep");
    for depth in [KernelIr::MAX_DEPTH + 1, 20_000] {
        let ir = nested(depth);
        let _ = (ir.to_string(), ir == ir.canonical());
        let errors = Kernel::verify(ir).map(|_| ()).expect_err("it is too deep");
        let expected = VerifyError::TooDeep { limit: KernelIr::MAX_DEPTH };
        assert_eq!(
            errors.iter().map(|violation| &violation.error).collect::<Vec<_>>(),
            [&expected]
        );
    }
}

#[test]
fn names_that_the_text_form_does_not_have() {
    for name in ["", "_a", "0", "a b", "a;.visible", "ä", "a$", "%a"] {
        check(
            |ir| ir.name = name.into(),
            |error| *error == VerifyError::InvalidName { name: name.into() },
        );
        check(
            |ir| ir.params[0].name = name.into(),
            |error| *error == VerifyError::InvalidParamName { name: name.into() },
        );
    }
}

/// The parser refuses a name that is given twice.
#[test]
fn parameters_of_one_name() {
    check(
        |ir| {
            let (region, location) = (ir.body, LocationId::from_index(0));
            let (ty, def) = (Scalar::I32.into(), ValueDef::Param(1));
            let value = ir.values.push(ValueData { ty, def, region, location });
            ir.params.push(Param { name: "a".into(), value });
        },
        |error| *error == VerifyError::DuplicateParamName { name: "a".into() },
    );
}

/// The body of the kernel and the arms of an `if` with arguments.
#[test]
fn arguments_where_none_can_be() {
    let argument = |ir: &mut KernelIr, region: RegionId| {
        let (ty, def, location) =
            (Scalar::I32.into(), ValueDef::Arg(region, 0), LocationId::from_index(0));
        let arg = ir.values.push(ValueData { ty, def, region, location });
        ir.regions[region].args.push(arg);
    };
    check(
        |ir| argument(ir, ir.body),
        |error| *error == VerifyError::RegionArguments { owner: None, found: 1 },
    );
    check(
        |ir| {
            let then_region = ir.regions.push(Region::default());
            argument(ir, then_region);
            let cond = Value::from_index(0);
            let op = push(ir, ir.body, Control::If { cond, then_region, else_region: None });
            ir.regions[then_region].parent = Some(op);
            push(ir, then_region, Control::Return);
        },
        |error| *error == VerifyError::RegionArguments { owner: Some("if"), found: 1 },
    );
}

/// The text form names loops only.
#[test]
fn jumps_to_what_is_no_loop() {
    let expected = VerifyError::NotALoop { op: "break", target: "const" };
    check(
        |ir| {
            let (target, values) = (OpId::from_index(0), Default::default());
            add(ir, ir.body, Control::Break { target, values });
        },
        |error| *error == expected,
    );
}

/// A loop whose body has fewer arguments than it carries, and more.
#[test]
fn arguments_that_do_not_fit() {
    let value = Value::from_index(0);
    for carried in [0, 1, 2] {
        check(
            |ir| {
                let body = ir.regions.push(Region::default());
                let init = (0..carried).map(|_| value).collect();
                let location = LocationId::from_index(0);
                if carried != 1 {
                    let (ty, def) = (Scalar::I32.into(), ValueDef::Arg(body, 0));
                    let arg = ir.values.push(ValueData { ty, def, region: body, location });
                    ir.regions[body].args.push(arg);
                }
                let op = push(ir, ir.body, Control::Loop { init, body });
                ir.regions[body].parent = Some(op);
                push(ir, body, Control::Return);
            },
            |error| matches!(error, VerifyError::CarriedCount { op: "loop", .. }),
        );
    }
    // A `for` without an index.
    check(
        |ir| {
            let body = ir.regions.push(Region::default());
            let init = Default::default();
            let op = push(
                ir,
                ir.body,
                Control::For {
                    lo: value,
                    hi: value,
                    step: value,
                    unroll: Unroll::Keep,
                    prefetch: 0,
                    init,
                    body,
                },
            );
            ir.regions[body].parent = Some(op);
            push(ir, body, Control::Return);
        },
        |error| matches!(error, VerifyError::RangeIndex { found: None, .. }),
    );
}

/// Global arrays of 256 MiB and 8 bytes.
#[test]
fn more_global_arrays_than_a_kernel_has() {
    let verify = |last: u32| {
        let text = format!(
            "kernel @k target sm_80 () {{\n  global @a: u64 x 33554430\n  global @b: u64 x {last}\n  return\n}}\n"
        );
        Kernel::verify(text.parse().expect("it parses"))
    };
    assert!(verify(2).is_ok());
    let errors = verify(3).expect_err("they are too large");
    let expected = VerifyError::GlobalBytes { bytes: 268_435_464, limit: 268_435_456 };
    assert_eq!(errors.iter().map(|found| &found.error).collect::<Vec<_>>(), [&expected]);
}

/// Constant arrays of 64 KiB and 8 bytes.
#[test]
fn more_constant_arrays_than_a_module_has() {
    let verify = |last: usize| {
        let (first, last) = (vec!["0"; 8191].join(", "), vec!["1"; last].join(", "));
        let text = format!(
            "kernel @k target sm_80 () {{\n  array @a: u64 = {first}\n  array @b: u64 = {last}\n  return\n}}\n"
        );
        Kernel::verify(text.parse().expect("it parses"))
    };
    assert!(verify(1).is_ok());
    let errors = verify(2).expect_err("they are too large");
    let expected = VerifyError::ArrayBytes { bytes: 65_544, limit: 65_536 };
    assert_eq!(errors.iter().map(|found| &found.error).collect::<Vec<_>>(), [&expected]);
}
