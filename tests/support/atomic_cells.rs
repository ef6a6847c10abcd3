//! Enumerates candidates for the atomic operations: every space, element, vector, operation, order
//! and scope.

use tilewright::ir::Value;
use tilewright::ir::op::{Atomic, AtomicOp, AtomicOrder, MemScope, Op, RedOrder};
use tilewright::ir::types::{Scalar, Space, Type, VectorType};

use super::raw::Raw;

/// Calls `visit` with each candidate of a row: the types that it is on, and a function that creates
/// it in a kernel.
pub(crate) fn each(row: &str, mut visit: impl FnMut(&[(&str, String)], &dyn Fn(&mut Raw) -> Op)) {
    let spaces = Space::ALL.into_iter().filter(|space| *space != Space::Const);
    for (space, elem) in spaces.flat_map(|space| Scalar::ALL.map(|elem| (space, elem))) {
        let vectors = [2, 4, 8, 16].into_iter().filter_map(|n| VectorType::new(elem, n));
        let vectors: Vec<Type> = vectors.map(Type::from).collect();
        let operands = if row.ends_with("_vec") { vectors } else { vec![elem.into()] };
        for operand in operands {
            let name = if row.ends_with("_vec") { "vector" } else { "elements" };
            let types = [(name, operand.to_string()), ("space", space.to_string())];
            let mut with = |op: &dyn Fn([Value; 3]) -> Atomic| {
                visit(&types, &|k| {
                    let base = k.unknown(Type::Pointer { space, elem, mutable: true });
                    let index = k.unknown(Scalar::I32.into());
                    let base = k.get(tilewright::ir::op::Mem::AssumeAligned { base, bytes: 16 });
                    op([base, index, k.unknown(operand)]).into()
                });
            };
            for &scope in MemScope::ALL {
                for &op in AtomicOp::ALL {
                    for &order in AtomicOrder::ALL {
                        match row {
                            "atom" => with(&|[base, index, value]| Atomic::Atom {
                                base,
                                index,
                                value,
                                op,
                                order,
                                scope,
                            }),
                            "atom_vec" => with(&|[base, index, vector]| Atomic::AtomVec {
                                base,
                                index,
                                vector,
                                op,
                                order,
                                scope,
                            }),
                            _ => {}
                        }
                    }
                    for &order in RedOrder::ALL {
                        match row {
                            "red" => with(&|[base, index, value]| Atomic::Red {
                                base,
                                index,
                                value,
                                op,
                                order,
                                scope,
                            }),
                            "red_vec" => with(&|[base, index, vector]| Atomic::RedVec {
                                base,
                                index,
                                vector,
                                op,
                                order,
                                scope,
                            }),
                            _ => {}
                        }
                    }
                }
                if row == "atom_cas" {
                    for &order in AtomicOrder::ALL {
                        with(&|[base, index, value]| Atomic::AtomCas {
                            base,
                            index,
                            compare: value,
                            value,
                            order,
                            scope,
                        });
                    }
                }
            }
        }
    }
}
