//! Generates random kernels of integer operations without control flow.
//!
//! They contain integers of all widths, truth values, and registers with four bytes or two half
//! words, with every operation and attribute on these.

use tilewright::ir::op::{Arith, Axis, Compare, Convert, Mem, Op, SpecialReg, Thread};
use tilewright::ir::types::{Scalar, Space, Type, VectorType};
use tilewright::ir::{Kernel, Target, Untyped, Value};

use super::raw::{self, Raw};
use super::rng::Rng;

/// Threads per block. Each has operands of its own.
pub(crate) const THREADS: u32 = 16;

/// The maximum number of results of a kernel.
pub(crate) const RESULTS: usize = 40;

const INTEGERS: [Scalar; 8] = [
    Scalar::I8,
    Scalar::I16,
    Scalar::I32,
    Scalar::I64,
    Scalar::U8,
    Scalar::U16,
    Scalar::U32,
    Scalar::U64,
];

/// Returns the types of values that fit into one register.
fn types() -> Vec<Type> {
    let pairs = [(Scalar::I8, 4), (Scalar::U8, 4), (Scalar::I16, 2), (Scalar::U16, 2)];
    let vectors = pairs.into_iter().filter_map(|(elem, lanes)| VectorType::new(elem, lanes));
    let scalars = INTEGERS.into_iter().map(Type::from).chain([Type::BOOL]);
    scalars.chain(vectors.map(Type::from)).collect()
}

/// Returns bits that are near the ends of some range, or arbitrary ones.
pub(crate) fn bits(rng: &mut Rng) -> u64 {
    let near = (rng.below(5) as u64).wrapping_sub(2);
    match rng.below(4) {
        0 => near,
        1 => (1u64 << rng.below(64)).wrapping_add(near),
        2 => (1u64 << rng.below(64)).wrapping_neg().wrapping_add(near),
        _ => rng.word() >> rng.below(64),
    }
}

/// Returns the operations with all their attributes, grouped by row.
pub(crate) fn rows() -> Vec<Vec<Op>> {
    let mut all = raw::arith();
    all.retain(|op| match op {
        Op::Thread(Thread::Sreg { .. }) => false,
        // Conversions between integers do not round.
        Op::Convert(Convert::CvtRounded { .. } | Convert::CvtRint { .. }) => false,
        Op::Arith(Arith::Setp { compare, .. }) => !compare.needs_float(),
        Op::Convert(Convert::Bitcast { to, .. }) => types().contains(to),
        Op::Convert(Convert::Cvt { to, .. } | Convert::CvtSat { to, .. }) => INTEGERS.contains(to),
        _ => true,
    });
    all.sort_by_key(|op| raw::info(op).name);
    all.chunk_by(|a, b| raw::info(a).name == raw::info(b).name).map(<[Op]>::to_vec).collect()
}

/// Returns a kernel whose parameters are all pointers to global memory, and the names of its
/// operations.
pub(crate) fn straight_line(
    rng: &mut Rng,
    rows: &[Vec<Op>],
) -> (Kernel<Untyped>, Vec<&'static str>) {
    let mut raw = Raw::new("line", Target::SM_90A);
    let mut values: Vec<Value> =
        INTEGERS.into_iter().map(|scalar| raw.unknown(scalar.into())).collect();
    let (lhs, rhs) = (values[2], raw.constant(Scalar::I32, bits(rng)));
    values.push(raw.get(Arith::Setp { lhs, rhs, compare: Compare::Lt }));
    let (types, mut names) = (types(), Vec::new());
    for _ in 0..20 * RESULTS {
        if values.len() >= RESULTS {
            break;
        }
        let row = rng.pick(rows);
        let (row, ty) = (rng.pick(row).clone(), *rng.pick(&types));
        if let Some(value) = operation(&mut raw, rng, &values, &row, ty) {
            names.push(raw::info(&row).name);
            values.push(value);
        }
    }
    let thread = raw.get(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) });
    let mut outputs: Vec<(Scalar, Value)> = Vec::new();
    for (number, value) in (0..).zip(values) {
        let (value, scalar) = match raw.ir.type_of(value) {
            Type::Scalar(scalar) => (value, scalar),
            _ => (raw.get(Convert::Bitcast { value, to: Scalar::U32.into() }), Scalar::U32),
        };
        let known = outputs.iter().find(|(known, _)| *known == scalar).map(|(_, base)| *base);
        let base = known.unwrap_or_else(|| {
            let base = raw.new_param(raw::pointer(Space::Global, scalar));
            outputs.push((scalar, base));
            base
        });
        let row = raw.constant(Scalar::I32, number * u64::from(THREADS));
        let index = raw.get(Arith::Add { lhs: row, rhs: thread });
        raw.op(Mem::St { base, index, value, access: Default::default() });
    }
    (raw.finish(), names)
}

/// Applies the operation to values and constants of the types that it takes with `ty`, if there are
/// any.
fn operation(raw: &mut Raw, rng: &mut Rng, values: &[Value], row: &Op, ty: Type) -> Option<Value> {
    if !raw::info(row).class.contains(ty) {
        return None;
    }
    let mut operands = Vec::new();
    for ty in raw::operand_types(row, ty) {
        let known: Vec<Value> =
            values.iter().copied().filter(|value| raw.ir.type_of(*value) == ty).collect();
        let value = match ty {
            Type::Scalar(scalar) if known.is_empty() || rng.below(3) == 0 => {
                raw.constant(scalar, bits(rng))
            }
            _ if known.is_empty() => return None,
            _ => *rng.pick(&known),
        };
        operands.push(value);
    }
    if let Op::Arith(Arith::Div { .. } | Arith::Rem { .. }) = row
        && let Type::Scalar(scalar) = ty
        && scalar != Scalar::Bool
    {
        // No divisor is 0: it is a constant, or a value whose lowest bit is set.
        let constant = bits(rng) | u64::from(rng.below(2) == 0);
        let constant = if constant & 0x7f == 0 { constant | 4 } else { constant };
        let constant = raw.constant(scalar, constant);
        operands[1] = match rng.below(2) {
            0 => constant,
            _ => {
                let one = raw.constant(scalar, 1);
                raw.get(Arith::Or { lhs: operands[1], rhs: one })
            }
        };
    }
    let op = raw::with_operands(row, &operands);
    if !raw::is_valid(&op, &raw.ir) {
        return None;
    }
    let results = op.result_types(&raw.ir);
    results.iter().all(|ty| types().contains(ty)).then(|| raw.get(op))
}
