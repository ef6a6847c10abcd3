//! PTX's support for arithmetic operations, by attribute, type and first target.

use super::{ApproxFunction, Arith, Clamp, FloatMode, Subnormals};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::number::Rounding;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

type Support = Result<Target, &'static str>;

const ANY: Support = Ok(Target::SM_80);

/// The first target that has the operation on the types of its operands, or why there is none. What the row
/// says about types holds.
pub(super) fn support(op: &Arith, ir: &KernelIr) -> Support {
    let ty = |value: &Value| ir.values.get(*value).map(|value| value.ty);
    // The scalar, or the scalar of the elements.
    let elem = |value: &Value| match ty(value) {
        Some(Type::Scalar(scalar)) => scalar,
        Some(Type::Vector(vector)) => vector.elem(),
        // The row takes no pointers where this is asked.
        Some(Type::Pointer { .. } | Type::TensorMap { .. }) | None => Scalar::Bool,
    };
    match op {
        Arith::AddRounded { lhs, mode, .. }
        | Arith::SubRounded { lhs, mode, .. }
        | Arith::MulRounded { lhs, mode, .. } => sum(elem(lhs), *mode, false),
        Arith::FmaRounded { lhs, mode, .. } => sum(elem(lhs), *mode, true),
        Arith::DivRounded { lhs: value, mode, .. }
        | Arith::SqrtRounded { value, mode }
        | Arith::RcpRounded { value, mode } => match elem(value) {
            Scalar::F16 | Scalar::Bf16 => Err("PTX has it for f32 and f64 only"),
            _ if mode.clamp != Clamp::None => Err("it has no `.sat` and no `.relu`"),
            scalar => sum(scalar, *mode, false),
        },
        Arith::Approx { value, function, subnormals } => {
            approx(elem(value), *function, *subnormals)
        }
        Arith::DivApprox { lhs, .. } => only(elem(lhs) == Scalar::F32, "PTX has it for f32 only"),
        Arith::MinNan { lhs, .. } | Arith::MaxNan { lhs, .. } => {
            only(elem(lhs) != Scalar::F64, "PTX has no `.NaN` for f64")
        }
        Arith::Copysign { magnitude: value, .. } | Arith::Testp { value, .. } => only(
            matches!(elem(value), Scalar::F32 | Scalar::F64),
            "PTX has it for f32 and f64 only",
        ),
        Arith::AddSat { lhs, .. }
        | Arith::SubSat { lhs, .. }
        | Arith::MadHiSat { lhs, .. }
        | Arith::Mad24HiSat { lhs, .. } => {
            only(elem(lhs) == Scalar::I32, "PTX has it for i32 only")
        }
        Arith::Setp { lhs, compare, .. } => only(
            elem(lhs).is_float() || !compare.needs_float(),
            "only floating point numbers can be unordered",
        ),
        Arith::Bitcast { value, to } => {
            let bits = ty(value).map(|ty| ty.bits());
            let no_bool = elem(value) != Scalar::Bool && *to != Type::BOOL;
            only(
                no_bool && bits == Some(to.bits()),
                "the types must have the same number of bits, and not be bool",
            )
        }
        Arith::Cvt { value, to } => conversion(ty(value), *to, |from| {
            let is_byte = |s: Scalar| matches!(s, Scalar::F8E4M3 | Scalar::F8E5M2);
            if *to == Scalar::Bool {
                Err("a bool comes from a comparison: compare with zero, `setp<ne>`")
            } else if from != *to && (is_byte(from) || is_byte(*to)) {
                Ok(Target::SM_89)
            } else {
                ANY
            }
        }),
        Arith::CvtRounded { value, to, mode } => {
            conversion(ty(value), *to, |from| rounded(from, *to, *mode))
        }
        Arith::CvtRint { value, to, rounding } => {
            let from = elem(value);
            if *rounding == Rounding::NearestAway {
                return Err("PTX has `.rni`, `.rzi`, `.rmi` and `.rpi`");
            }
            only(
                to.is_int() || from == *to,
                "the result is of an integer type, or of the type of the operand",
            )
        }
        Arith::CvtPack { values, to } => only(
            matches!(
                (values.len(), to),
                (2, Scalar::I16 | Scalar::U16) | (4, Scalar::I8 | Scalar::U8)
            ),
            "it makes four integers of 8 bits, or two of 16",
        ),
        Arith::CvtSat { to, .. } => only(to.is_int(), "the result is of an integer type"),
        Arith::Add { .. }
        | Arith::Sub { .. }
        | Arith::Mul { .. }
        | Arith::Div { .. }
        | Arith::Rem { .. }
        | Arith::Min { .. }
        | Arith::Max { .. }
        | Arith::Neg { .. }
        | Arith::Abs { .. }
        | Arith::Fma { .. }
        | Arith::Sqrt { .. }
        | Arith::And { .. }
        | Arith::Or { .. }
        | Arith::Xor { .. }
        | Arith::Not { .. }
        | Arith::Shl { .. }
        | Arith::Shr { .. }
        | Arith::Selp { .. }
        | Arith::MulHi { .. }
        | Arith::MulWide { .. }
        | Arith::Mad { .. }
        | Arith::MadHi { .. }
        | Arith::MadWide { .. }
        | Arith::Mul24 { .. }
        | Arith::Mad24 { .. }
        | Arith::AddPacked { .. }
        | Arith::MinPacked { .. }
        | Arith::MaxPacked { .. }
        | Arith::MinRelu { .. }
        | Arith::MaxRelu { .. }
        | Arith::Sad { .. }
        | Arith::Dp4a { .. }
        | Arith::Dp2a { .. }
        | Arith::Popc { .. }
        | Arith::Clz { .. }
        | Arith::Brev { .. }
        | Arith::Bfind { .. }
        | Arith::Bfe { .. }
        | Arith::Bfi { .. }
        | Arith::Fns { .. }
        | Arith::Lop3 { .. }
        | Arith::Shf { .. }
        | Arith::Prmt { .. }
        | Arith::Szext { .. }
        | Arith::Bmsk { .. }
        | Arith::VecPack { .. }
        | Arith::VecSplat { .. }
        | Arith::VecExtract { .. }
        | Arith::Sreg { .. } => ANY,
    }
}

fn only(condition: bool, reason: &'static str) -> Support {
    if condition { ANY } else { Err(reason) }
}

/// The modes of `add`, `sub` and `mul`, and of `fma`.
fn sum(scalar: Scalar, mode: FloatMode, fma: bool) -> Support {
    let FloatMode { rounding, ftz, clamp } = mode;
    if rounding == Rounding::NearestAway {
        return Err("`.rna` is for conversions");
    }
    match scalar {
        Scalar::F32 => only(
            matches!(clamp, Clamp::None | Clamp::Sat),
            "f32 has `.sat`, but no `.relu` and no `.satfinite`",
        ),
        Scalar::F64 => {
            only(!ftz && clamp == Clamp::None, "f64 has no `.ftz`, no `.sat` and no `.relu`")
        }
        _ if rounding != Rounding::NearestEven => {
            Err("16-bit floating point is always rounded to nearest even: use `rn`")
        }
        Scalar::F16 => only(
            matches!(clamp, Clamp::None | Clamp::Sat) || (fma && clamp == Clamp::Relu),
            "f16 has `.sat`, and `.relu` for `fma` only",
        ),
        _ => only(
            !ftz && (clamp == Clamp::None || (fma && clamp == Clamp::Relu)),
            "bf16 has no `.ftz` and no `.sat`, and `.relu` for `fma` only",
        ),
    }
}

fn approx(scalar: Scalar, function: ApproxFunction, subnormals: Subnormals) -> Support {
    use ApproxFunction as F;
    let ftz = subnormals == Subnormals::Ftz;
    match (scalar, function) {
        (Scalar::F32, F::Tanh) | (Scalar::F16, F::Ex2 | F::Tanh) => {
            only(!ftz, "there is no `.ftz` of it: use `keep`")
        }
        (Scalar::F32, _) => ANY,
        (Scalar::Bf16, F::Ex2) if ftz => Ok(Target::SM_90),
        (Scalar::Bf16, F::Ex2) => Err("`ex2` of bf16 is always with `.ftz`"),
        (Scalar::Bf16, F::Tanh) if !ftz => Ok(Target::SM_90),
        (Scalar::F64, _) => Err("PTX has no approximations of f64 that keep its digits"),
        _ => Err("of 16-bit floating point there are `ex2` and `tanh` only"),
    }
}

/// Applies `scalar` to the element type of a conversion, for scalars and for vectors.
fn conversion(from: Option<Type>, to: Scalar, scalar: impl Fn(Scalar) -> Support) -> Support {
    match from {
        Some(Type::Scalar(from)) => scalar(from),
        Some(Type::Vector(vector)) => match VectorType::new(to, vector.lanes()) {
            Some(_) => scalar(vector.elem()),
            None => Err(
                "a vector has at most 128 bits, or 8 elements of 32 bits: convert the elements one by one",
            ),
        },
        Some(Type::Pointer { .. } | Type::TensorMap { .. }) | None => ANY,
    }
}

/// The conversions to floating point that name a rounding.
fn rounded(from: Scalar, to: Scalar, mode: FloatMode) -> Support {
    use Rounding::{Down, NearestAway, NearestEven, Up, Zero};
    let FloatMode { rounding, ftz, clamp } = mode;
    if ftz {
        return Err("`.ftz` is for arithmetic");
    }
    let away = rounding == NearestAway;
    let common = matches!(rounding, NearestEven | Zero);
    match (from, to) {
        (Scalar::Bool, _) => Err("a bool is 0 or 1: use `cvt`"),
        (_, to) if !to.is_float() => Err("the result is floating point: use `cvt_rint`"),
        (a, b) if a == b => only(
            mode == FloatMode::RN.sat() && matches!(a, Scalar::F16 | Scalar::F32 | Scalar::F64),
            "a conversion to the same type has `rn.sat` only, of f16, f32 and f64",
        ),
        (_, Scalar::F8E4M3 | Scalar::F8E5M2) if from != Scalar::F32 => {
            Err("conversions to 8 bits that name a rounding are from f32")
        }
        (_, Scalar::F8E4M3 | Scalar::F8E5M2) => {
            let mode = matches!(clamp, Clamp::Satfinite | Clamp::SatfiniteRelu);
            only(
                mode && rounding == NearestEven,
                "conversions to 8 bits have `rn.satfinite` and `rn.satfinite.relu`",
            )
            .map(|_| Target::SM_89)
        }
        (Scalar::F32, Scalar::Tf32) if away => only(
            matches!(clamp, Clamp::None | Clamp::Satfinite),
            "`.rna` has no `.relu` and no `.sat`",
        ),
        (Scalar::F32, Scalar::Tf32) => only(
            common && matches!(clamp, Clamp::None | Clamp::Relu),
            "tf32 has `rna`, `rn`, `rz` and `.relu` for the latter two",
        )
        .map(|_| Target::SM_90),
        (_, Scalar::Tf32) => Err("conversions to tf32 that name a rounding are from f32"),
        _ if away => Err("`.rna` is for tf32"),
        (Scalar::F32, Scalar::F16 | Scalar::Bf16)
            if matches!(clamp, Clamp::Relu | Clamp::Satfinite | Clamp::SatfiniteRelu) =>
        {
            only(common, "`.relu` and `.satfinite` are for `rn` and `rz`")
        }
        (Scalar::F32, Scalar::Bf16) if matches!(rounding, Down | Up) && clamp == Clamp::None => {
            Ok(Target::SM_90)
        }
        (Scalar::F32, Scalar::Bf16) => only(clamp == Clamp::None, "bf16 has no `.sat`"),
        (_, Scalar::Bf16) => Err("conversions to bf16 that name a rounding are from f32"),
        (a, Scalar::F16 | Scalar::F32 | Scalar::F64) if a.is_int() => {
            only(clamp == Clamp::None, "an integer is converted without `.sat` and `.relu`")
        }
        (Scalar::F32 | Scalar::F64, Scalar::F16) | (Scalar::F64, Scalar::F32) => {
            only(matches!(clamp, Clamp::None | Clamp::Sat), "there is `.sat` of it only")
        }
        _ => Err("the conversion is exact and rounds nothing: use `cvt`"),
    }
}
