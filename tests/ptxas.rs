//! NVIDIA's assembler accepts what is written, without a warning: every operation on every type that it
//! takes, with operands known and unknown, and every form of control flow.

use std::collections::BTreeSet;

use tilewright::codegen::Module;
use tilewright::ir::{Kernel, Mem, Op, Scalar, Space, Sync, Target, Type, Untyped};

#[path = "support/flow.rs"]
mod flow;
#[path = "support/ptxas.rs"]
mod ptxas;
#[path = "support/raw.rs"]
mod raw;

use raw::{Raw, pointer};

fn targets() -> [Target; 2] {
    [Target::SM_80, Target::SM_90A]
}

/// Assembles all kernels as one module.
fn check_module(kernels: &[Kernel<Untyped>], options: &[&str]) {
    let Some(ptxas) = ptxas::find() else { return };
    let target = kernels[0].target();
    let mut module = Module::new(target);
    for kernel in kernels {
        module.add(kernel).unwrap();
    }
    let ptx = module.ptx();
    if let Err(problem) = ptxas.assemble(ptx.text(), &target.to_string(), options) {
        panic!("{problem}");
    }
}

fn short(ty: Type) -> String {
    match ty {
        Type::Scalar(scalar) => scalar.to_string(),
        Type::Pointer { space, elem, .. } => format!("{space}_{elem}"),
    }
}

/// A number other than 0 and 1, and other than the smallest and the largest.
fn some_bits(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F32 => (-1.5f32).to_bits().into(),
        Scalar::F64 => 0.1f64.to_bits(),
        _ => 0xc3c3_c3c3_c3c3_c3c3,
    }
}

/// Each arithmetic operation on each type, each operand once known and once not.
fn arith_kernels(target: Target) -> Vec<Kernel<Untyped>> {
    let mut kernels = Vec::new();
    for (number, row) in raw::arith(&[raw::no_value()]).into_iter().enumerate() {
        let info = row.info();
        let takes_types = !info.operands.is_empty();
        for ty in raw::types() {
            if !info.class.contains(ty) || (!takes_types && ty != Type::BOOL) {
                continue;
            }
            let mut kernel = Raw::new(format!("{}_{number}_{}", info.name, short(ty)), target);
            let types = raw::operand_types(info, ty);
            for known in 0..1u32 << types.len() {
                let operands: Vec<_> = types
                    .iter()
                    .enumerate()
                    .map(|(i, ty)| match ty.scalar().filter(|_| known >> i & 1 == 1) {
                        Some(scalar) => kernel.constant(scalar, some_bits(scalar)),
                        None => kernel.unknown(*ty),
                    })
                    .collect();
                let operands = if takes_types { operands } else { vec![raw::no_value()] };
                let result = kernel.get(raw::arith(&operands).swap_remove(number));
                kernel.consume(result);
            }
            kernels.push(kernel.finish());
        }
    }
    kernels
}

/// Indices of every type: unknown, and constants on both sides of what fits into an instruction.
fn mem_kernels(target: Target) -> Vec<Kernel<Untyped>> {
    let mut kernels = Vec::new();
    let indices = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];
    for space in [Space::Global, Space::Shared] {
        for elem in Scalar::ALL {
            let mut kernel = Raw::new(format!("mem_{space}_{elem}"), target);
            let ty = pointer(space, elem);
            let base = kernel.unknown(ty);
            for index_type in indices {
                let known = [0, 3, u64::MAX, 1 << 31, (1 << 31) - 1, 1 << 61, 1 << 62];
                let mut places: Vec<_> =
                    known.into_iter().map(|bits| kernel.constant(index_type, bits)).collect();
                places.push(kernel.unknown(index_type.into()));
                for index in places {
                    let value = kernel.get(Mem::Ld { base, index });
                    let moved = kernel.get(Mem::Offset { base, index });
                    kernel.consume(moved);
                    kernel.op(Mem::St { base: moved, index, value });
                    let constant = kernel.constant(elem, some_bits(elem));
                    kernel.op(Mem::St { base, index, value: constant });
                }
            }
            kernels.push(kernel.finish());
        }
    }
    for ty in raw::types() {
        let mut kernel = Raw::new(format!("var_{}", short(ty)), target);
        let value = kernel.unknown(ty);
        let var = kernel.var(value);
        let read = kernel.get(Mem::GetVar { var, index: 1 });
        kernel.consume(read);
        if let Type::Scalar(scalar) = ty {
            let value = kernel.constant(scalar, some_bits(scalar));
            kernel.op(Mem::SetVar { value, var, index: 0 });
            kernel.op(Sync::Barrier {});
            let read = kernel.get(Mem::GetVar { var, index: 0 });
            kernel.consume(read);
        }
        kernels.push(kernel.finish());
    }
    // Parameters of every type, and constants at the ends of their types.
    let mut kernel = Raw::new("params", target);
    for ty in raw::types() {
        let value = kernel.param(ty);
        if !matches!(ty, Type::Pointer { space: Space::Shared, .. }) {
            kernel.consume(value);
        }
        if let Type::Scalar(scalar) = ty {
            for bits in [0, 1, u64::MAX, 1 << (scalar.bits() - 1), (1 << (scalar.bits() - 1)) - 1] {
                let value = kernel.constant(scalar, bits);
                kernel.consume(value);
                let (zero, var) = (kernel.unknown(ty), kernel.var(value));
                kernel.op(Mem::SetVar { value: zero, var, index: 0 });
            }
        }
    }
    kernels.push(kernel.finish());
    kernels
}

#[test]
fn every_operation_on_every_type() {
    let covered: BTreeSet<&str> = targets()
        .into_iter()
        .flat_map(|target| {
            let mut kernels = arith_kernels(target);
            kernels.extend(mem_kernels(target));
            check_module(&kernels, &[]);
            let names = kernels.iter().flat_map(|kernel| {
                kernel.ir().ops.iter().filter_map(|(_, data)| data.op.info()).map(|info| info.name)
            });
            names.collect::<Vec<_>>()
        })
        .collect();
    let rows: BTreeSet<&str> = Op::table().map(|info| info.name).collect();
    assert_eq!(covered, rows, "a row has no kernel here");
}

#[test]
fn every_form_of_control_flow() {
    for target in targets() {
        check_module(&flow::Flow::all(target), &[]);
    }
}
