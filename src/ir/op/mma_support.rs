//! Support checks for tensor core operations: which shapes, types and attributes PTX allows. The op
//! table's rows name these functions, and the verifier runs them.

use super::ValueList;
use super::mma::{Accumulators, MmaOverflow, MmaShape, WgmmaForm, metadata_threads};
use super::support::{ANY, Support};
use super::support_types::{SHARED, Types, only};
use crate::ir::entity::{Value, VarId};
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};

pub(super) fn mma_sync_f64(
    ir: &KernelIr,
    values: &ValueList,
    shape: &MmaShape,
    d: &VarId,
) -> Support {
    let MmaShape { m, n, k } = *shape;
    let accumulators = Types(ir).var(*d).and_then(|ty| Accumulators::new(*shape, 32, ty));
    only(
        (m, n) == (16, 8) && matches!(k, 8 | 16),
        "the shapes are m16n8k8 and m16n8k16: for `m16n8k4` and `m8n8k4` there is `mma_sync`",
    )?;
    only(
        accumulators.is_some_and(|accumulators| accumulators.ty == Scalar::F64.into()),
        "accumulators are f64",
    )?;
    only(
        values.len() as u32 * 32 == (m + n) * k,
        "a thread has k / 2 elements of A and k / 4 of B",
    )?;
    ANY
}

pub(super) fn mma_sync(
    ir: &KernelIr,
    a: &Value,
    b: &Value,
    shape: &MmaShape,
    d: &VarId,
    overflow: &MmaOverflow,
) -> Support {
    let first = mma_types(Types(ir), [*a, *b], *shape, *d)?;
    let integers = Types(ir).var(*d) == Some(Scalar::I32.into());
    only(integers || *overflow == MmaOverflow::Wrap, "`.satfinite` is for integers")?;
    Ok(first)
}

pub(super) fn mma_sync_sp(
    ir: &KernelIr,
    a: &Value,
    b: &Value,
    shape: &MmaShape,
    selector: &u32,
    d: &VarId,
    overflow: &MmaOverflow,
) -> Support {
    let types = Types(ir);
    let MmaShape { m, n, k } = *shape;
    let ((a_type, a_lanes), (b_type, b_lanes)) = match (types.fragment(*a), types.fragment(*b)) {
        (Some(a), Some(b)) => (a, b),
        _ => return Err("A and B are scalars or vectors"),
    };
    let factors = Factors::of(a_type, b_type)?;
    let depths = match factors {
        Factors::Tf32 => [8, 16],
        Factors::F16 | Factors::Bf16 => [16, 32],
        Factors::Integers => [32, 64],
        Factors::F8 => [64, 64],
    };
    only(
        (m, n) == (16, 8) && depths.contains(&k),
        "it is m16n8, with k16 and k32 for 16 bits, k8 and k16 for tf32, k32 and k64 for 8-bit integers, k64 for \
         8-bit floating point",
    )?;
    let sums = types.var(*d).and_then(|ty| Accumulators::new(*shape, 32, ty));
    // PTX has f16 accumulators for 8-bit floating point only in block-scaled MMAs, which this is
    // not.
    let narrow = factors == Factors::F16;
    only(
        sums.is_some_and(|sums| factors.accumulate_in(sums.ty, narrow)),
        "accumulators are f32 (for f16 also f16x2), for integers i32",
    )?;
    only(
        a_lanes * 64 == m * k && b_lanes * 32 == n * k,
        "a thread has m k / 64 elements of A and n k / 32 elements of B, in one vector each",
    )?;
    selects(a_type, k, *selector)?;
    let integers = factors == Factors::Integers;
    only(integers || *overflow == MmaOverflow::Wrap, "`.satfinite` is for integers")?;
    Ok(if factors == Factors::F8 { Target::SM_89 } else { Target::SM_80 })
}

/// Checks that the selector names threads that exist, given how many of each four supply metadata.
fn selects(a_type: Scalar, k: u32, selector: u32) -> Result<(), &'static str> {
    only(
        selector * metadata_threads(a_type, k) < 4,
        "the selector is 0 to 3 if one thread in four has the metadata, 0 or 1 if two have it, else 0",
    )
}

/// The operand types of a sparse MMA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factors {
    F16,
    Bf16,
    Tf32,
    F8,
    Integers,
}

impl Factors {
    fn of(a: Scalar, b: Scalar) -> Result<Factors, &'static str> {
        use Scalar as S;
        match (a, b) {
            (S::F16, S::F16) => Ok(Factors::F16),
            (S::Bf16, S::Bf16) => Ok(Factors::Bf16),
            (S::Tf32, S::Tf32) => Ok(Factors::Tf32),
            (S::F8E4M3 | S::F8E5M2, S::F8E4M3 | S::F8E5M2) => Ok(Factors::F8),
            (S::I8 | S::U8, S::I8 | S::U8) => Ok(Factors::Integers),
            _ => Err(
                "A and B are both f16, bf16 or tf32, or each i8 or u8, or each f8e4m3 or f8e5m2",
            ),
        }
    }

    /// Returns whether registers of type `ty` can accumulate such products. `narrow` allows
    /// `f16x2`.
    fn accumulate_in(self, ty: Type, narrow: bool) -> bool {
        match ty {
            Type::Scalar(Scalar::F32) => self != Factors::Integers,
            Type::Scalar(Scalar::I32) => self == Factors::Integers,
            Type::Vector(_) => narrow,
            Type::Scalar(_) | Type::Pointer { .. } | Type::TensorMap { .. } => false,
        }
    }
}

pub(super) fn movmatrix(ir: &KernelIr, value: &Value) -> Support {
    let fragment = Types(ir).fragment(*value);
    only(
        fragment.is_some_and(|(elem, lanes)| elem.bits() == 16 && lanes == 2),
        "a thread has two elements of 16 bits",
    )?;
    ANY
}

/// Checks the pointer of an `ldmatrix` or `stmatrix`.
pub(super) fn matrices(ir: &KernelIr, base: &Value) -> Support {
    let types = Types(ir);
    only(types.in_space(*base, Space::Shared), SHARED)?;
    only(
        types.pointee(*base).is_some_and(|elem| elem.bits() == 16),
        "the elements have 16 bits: cast the pointer",
    )?;
    ANY
}

pub(super) fn stmatrix(ir: &KernelIr, base: &Value, vector: &Value) -> Support {
    matrices(ir, base)?;
    only(
        Types(ir).fragment(*vector).is_some_and(|(_, lanes)| matches!(lanes, 2 | 4 | 8)),
        "the vector has 2, 4 or 8 elements, two of each matrix",
    )?;
    ANY
}

pub(super) fn matrix_descriptor(ir: &KernelIr, base: &Value, bits: &u64) -> Support {
    only(Types(ir).in_space(*base, Space::Shared), SHARED)?;
    only(bits & 0x3fff == 0, "bits 0 to 13 must be free for the address")?;
    ANY
}

pub(super) fn wgmma(
    ir: &KernelIr,
    shape: &MmaShape,
    a_type: &Scalar,
    b_type: &Scalar,
    d: &VarId,
    form: &WgmmaForm,
) -> Support {
    wgmma_types(Types(ir), [*a_type, *b_type], *shape, *d, *form)
}

pub(super) fn wgmma_rs(
    ir: &KernelIr,
    a: &Value,
    shape: &MmaShape,
    b_type: &Scalar,
    d: &VarId,
    form: &WgmmaForm,
) -> Support {
    let (a_type, lanes) = Types(ir).fragment(*a).unwrap_or((Scalar::Bool, 0));
    wgmma_types(Types(ir), [a_type, *b_type], *shape, *d, *form)?;
    only(!form.transpose_a, "A in registers is not transposed")?;
    only(lanes * 128 == shape.m * shape.k, "a thread has 64 k / 128 elements of A, in one vector")?;
    ANY
}

pub(super) fn wgmma_sp(
    ir: &KernelIr,
    shape: &MmaShape,
    a_type: &Scalar,
    b_type: &Scalar,
    selector: &u32,
    d: &VarId,
    form: &WgmmaForm,
) -> Support {
    let dense = MmaShape { k: shape.k / 2, ..*shape };
    only(shape.k.is_multiple_of(2), "k counts A's zeros too: it is twice that of `wgmma`")?;
    let support = wgmma_types(Types(ir), [*a_type, *b_type], dense, *d, *form)?;
    selects(*a_type, shape.k, *selector)?;
    Ok(support)
}

pub(super) fn wgmma_rs_sp(
    ir: &KernelIr,
    a: &Value,
    shape: &MmaShape,
    b_type: &Scalar,
    selector: &u32,
    d: &VarId,
    form: &WgmmaForm,
) -> Support {
    let (a_type, lanes) = Types(ir).fragment(*a).unwrap_or((Scalar::Bool, 0));
    let support = wgmma_sp(ir, shape, &a_type, b_type, selector, d, form)?;
    only(!form.transpose_a, "A in registers is not transposed")?;
    only(lanes * 256 == shape.m * shape.k, "a thread has 64 k / 256 elements of A, in one vector")?;
    Ok(support)
}

pub(super) fn setmaxnreg(_: &KernelIr, count: &u32) -> Support {
    only(
        count.is_multiple_of(8) && (24..=256).contains(count),
        "the number of registers is a multiple of 8 from 24 to 256",
    )?;
    ANY
}

fn mma_types(types: Types<'_>, [a, b]: [Value; 2], shape: MmaShape, d: VarId) -> Support {
    use Scalar as S;
    let ((a_type, a_lanes), (b_type, b_lanes)) = match (types.fragment(a), types.fragment(b)) {
        (Some(a), Some(b)) => (a, b),
        _ => return Err("A and B are scalars or vectors"),
    };
    let MmaShape { m, n, k } = shape;
    let accumulators = types.var(d).and_then(|ty| Accumulators::new(shape, 32, ty));
    let f32 = accumulators.is_some_and(|accumulators| accumulators.ty == S::F32.into());
    let f16 = accumulators.is_some_and(|accumulators| matches!(accumulators.ty, Type::Vector(_)));
    let is_byte = |s: Scalar| matches!(s, S::I8 | S::U8);
    let (shapes, legal_sum, first): (&[(u32, u32, u32)], bool, Target) = match (a_type, b_type) {
        (S::F16, S::F16) => (&[(16, 8, 8), (16, 8, 16)], f32 || f16, Target::SM_80),
        (S::Bf16, S::Bf16) => (&[(16, 8, 8), (16, 8, 16)], f32, Target::SM_80),
        (S::Tf32, S::Tf32) => (&[(16, 8, 4), (16, 8, 8)], f32, Target::SM_80),
        (S::F64, S::F64) => {
            let first = if m == 8 { Target::SM_80 } else { Target::SM_90 };
            (&[(8, 8, 4), (16, 8, 4)], accumulators.is_some_and(|s| s.ty == S::F64.into()), first)
        }
        (x, y) if is_byte(x) && is_byte(y) => (
            &[(8, 8, 16), (16, 8, 16), (16, 8, 32)],
            accumulators.is_some_and(|s| s.ty == S::I32.into()),
            Target::SM_80,
        ),
        (x, y) if x.is_f8() && y.is_f8() => {
            (&[(16, 8, 16), (16, 8, 32)], f32 || f16, Target::SM_89)
        }
        _ => {
            return Err(
                "A and B are both f16, bf16, tf32 or f64, or each i8 or u8, or each f8e4m3 \
                 or f8e5m2",
            );
        }
    };
    only(
        shapes.contains(&(m, n, k)),
        "these types do not have the shape: there are m16n8k8 and m16n8k16 for 16 bits, m16n8k4 and m16n8k8 \
         for tf32, m8n8k4 and m16n8k4 for f64, m8n8k16, m16n8k16 and m16n8k32 for 8-bit integers, m16n8k16 \
         and m16n8k32 for 8-bit floating point",
    )?;
    only(
        legal_sum,
        "accumulators are f32 (for f16 and 8-bit floating point also f16x2), for f64 f64, for integers i32",
    )?;
    only(
        a_lanes * 32 == m * k && b_lanes * 32 == n * k,
        "a thread has m k / 32 elements of A and n k / 32 elements of B, in one vector each",
    )?;
    Ok(first)
}

fn wgmma_types(
    types: Types<'_>,
    [a, b]: [Scalar; 2],
    shape: MmaShape,
    d: VarId,
    form: WgmmaForm,
) -> Support {
    use Scalar as S;
    let MmaShape { m, n, k } = shape;
    let accumulators = types.var(d).and_then(|ty| Accumulators::new(shape, 128, ty));
    let f32 = accumulators.is_some_and(|accumulators| accumulators.ty == S::F32.into());
    let f16 = accumulators.is_some_and(|accumulators| matches!(accumulators.ty, Type::Vector(_)));
    let is_byte = |s: Scalar| matches!(s, S::I8 | S::U8);
    let integers = is_byte(a) && is_byte(b);
    let (depth, legal_sum) = match (a, b) {
        (S::F16, S::F16) => (16, f32 || f16),
        (S::Bf16, S::Bf16) => (16, f32),
        (S::Tf32, S::Tf32) => (8, f32),
        (x, y) if x.is_f8() && y.is_f8() => (32, f32 || f16),
        _ if integers => {
            (32, accumulators.is_some_and(|accumulators| accumulators.ty == S::I32.into()))
        }
        _ => {
            return Err(
                "A and B are both f16, bf16 or tf32, or each i8 or u8, or each f8e4m3 or f8e5m2",
            );
        }
    };
    only(m == 64 && k == depth, "it is m64, with k16 for 16 bits, k8 for tf32, k32 for 8 bits")?;
    let columns = if integers { n.is_multiple_of(16) || n == 8 || n == 24 } else { true };
    only(
        n.is_multiple_of(8) && (8..=256).contains(&n) && columns,
        "n is a multiple of 8 from 8 to 256; for integers 8, 24 or a multiple of 16",
    )?;
    only(
        legal_sum,
        "accumulators are f32 (for f16 and 8-bit floating point also f16x2), for integers i32",
    )?;
    only(
        a.bits() == 16 || !(form.transpose_a || form.transpose_b),
        "only 16-bit types are transposed",
    )?;
    only(!integers || !(form.negate_a || form.negate_b), "integers are not negated")?;
    only(integers || !form.satfinite, "`.satfinite` is for integers")?;
    Ok(Target::SM_90A)
}
