//! Support checks for arithmetic: the functions that rows of the op table name in their `where`.
//! They are for operations that PTX has only for some types or attribute values.

use super::control::ValueList;
pub(super) use super::copy_support::*;
pub(super) use super::mma_support::*;
pub(super) use super::space_support::*;
use super::{ApproxFunction, Clamp, Compare, FloatMode, MemScope, SpecialReg, Subnormals};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::number::Rounding;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

/// The first target that has an operation for its operands' types, or why no target has it.
pub(super) type Support = Result<Target, &'static str>;

pub(super) const ANY: Support = Ok(Target::SM_80);

/// Returns the first target that has a scope.
pub(super) fn scope(_: &KernelIr, scope: &MemScope) -> Support {
    Ok(scope.first_target())
}

/// Returns the first target that has a special register.
pub(super) fn special(_: &KernelIr, reg: &SpecialReg) -> Support {
    Ok(reg.first_target())
}

fn type_of(ir: &KernelIr, value: &Value) -> Option<Type> {
    ir.values.get(*value).map(|value| value.ty)
}

/// Returns the type of a scalar, or the element type of a vector.
fn elem(ir: &KernelIr, value: &Value) -> Scalar {
    match type_of(ir, value) {
        Some(Type::Scalar(scalar)) => scalar,
        Some(Type::Vector(vector)) => vector.elem(),
        // Rows with this check take no pointers.
        Some(Type::Pointer { .. } | Type::TensorMap { .. }) | None => Scalar::Bool,
    }
}

fn only(condition: bool, reason: &'static str) -> Support {
    if condition { ANY } else { Err(reason) }
}

pub(super) fn i32_only(ir: &KernelIr, value: &Value) -> Support {
    only(elem(ir, value) == Scalar::I32, "PTX has it for i32 only")
}

pub(super) fn f32_only(ir: &KernelIr, value: &Value) -> Support {
    only(elem(ir, value) == Scalar::F32, "PTX has it for f32 only")
}

pub(super) fn f32_or_f64(ir: &KernelIr, value: &Value) -> Support {
    let wide = matches!(elem(ir, value), Scalar::F32 | Scalar::F64);
    only(wide, "PTX has it for f32 and f64 only")
}

pub(super) fn not_f64(ir: &KernelIr, value: &Value) -> Support {
    only(elem(ir, value) != Scalar::F64, "PTX has no `.NaN` for f64")
}

pub(super) fn comparison(ir: &KernelIr, value: &Value, compare: &Compare) -> Support {
    only(
        elem(ir, value).is_float() || !compare.needs_float(),
        "only floating point numbers can be unordered",
    )
}

/// Checks the mode of `add`, `sub` and `mul`.
pub(super) fn float_mode(ir: &KernelIr, value: &Value, mode: &FloatMode) -> Support {
    sum(elem(ir, value), *mode, false)
}

pub(super) fn fma_mode(ir: &KernelIr, value: &Value, mode: &FloatMode) -> Support {
    sum(elem(ir, value), *mode, true)
}

/// Checks the mode of `div`, `sqrt` and `rcp`, which do not exist for 16-bit types.
pub(super) fn wide_float_mode(ir: &KernelIr, value: &Value, mode: &FloatMode) -> Support {
    match elem(ir, value) {
        Scalar::F16 | Scalar::Bf16 => Err("PTX has it for f32 and f64 only"),
        _ if mode.clamp != Clamp::None => Err("it has no `.sat` and no `.relu`"),
        scalar => sum(scalar, *mode, false),
    }
}

pub(super) fn same_bits(ir: &KernelIr, value: &Value, to: &Type) -> Support {
    let bits = type_of(ir, value).map(|ty| ty.bits());
    let no_bool = elem(ir, value) != Scalar::Bool && *to != Type::BOOL;
    only(
        no_bool && bits == Some(to.bits()),
        "the types must have the same number of bits, and not be bool",
    )
}

pub(super) fn conversion(ir: &KernelIr, value: &Value, to: &Scalar) -> Support {
    of_elements(type_of(ir, value), *to, |from| {
        if *to == Scalar::Bool {
            Err("a bool comes from a comparison: compare with zero, `setp<ne>`")
        } else if from != *to && (from.is_f8() || to.is_f8()) {
            Ok(Target::SM_89)
        } else {
            ANY
        }
    })
}

pub(super) fn rounded_conversion(
    ir: &KernelIr,
    value: &Value,
    to: &Scalar,
    mode: &FloatMode,
) -> Support {
    of_elements(type_of(ir, value), *to, |from| rounded(from, *to, *mode))
}

pub(super) fn rint(ir: &KernelIr, value: &Value, to: &Scalar, rounding: &Rounding) -> Support {
    if *rounding == Rounding::NearestAway {
        return Err("PTX has `.rni`, `.rzi`, `.rmi` and `.rpi`");
    }
    only(
        to.is_int() || elem(ir, value) == *to,
        "the result has an integer type, or the operand's type",
    )
}

pub(super) fn pack(_: &KernelIr, values: &ValueList, to: &Scalar) -> Support {
    only(
        matches!((values.len(), to), (2, Scalar::I16 | Scalar::U16) | (4, Scalar::I8 | Scalar::U8)),
        "it makes four 8-bit integers, or two 16-bit ones",
    )
}

pub(super) fn to_int(_: &KernelIr, to: &Scalar) -> Support {
    only(to.is_int(), "the result has an integer type")
}

/// Checks the modes of `add`, `sub` and `mul`, and with `fma` those of `fma`.
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

pub(super) fn approximation(
    ir: &KernelIr,
    value: &Value,
    function: &ApproxFunction,
    subnormals: &Subnormals,
) -> Support {
    use ApproxFunction as F;
    let ftz = *subnormals == Subnormals::Ftz;
    match (elem(ir, value), *function) {
        (Scalar::F32, F::Tanh) | (Scalar::F16, F::Ex2 | F::Tanh) => {
            only(!ftz, "it has no `.ftz`: use `keep`")
        }
        (Scalar::F32, _) => ANY,
        (Scalar::Bf16, F::Ex2) if ftz => Ok(Target::SM_90),
        (Scalar::Bf16, F::Ex2) => Err("`ex2` of bf16 always has `.ftz`"),
        (Scalar::Bf16, F::Tanh) if !ftz => Ok(Target::SM_90),
        (Scalar::F64, _) => Err("PTX approximates f64 only with fewer digits"),
        _ => Err("16-bit floating point has only `ex2` and `tanh`"),
    }
}

/// Checks a conversion's element types, for scalars and for vectors.
fn of_elements(from: Option<Type>, to: Scalar, scalar: impl Fn(Scalar) -> Support) -> Support {
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

/// Checks conversions to floating point with an explicit rounding mode.
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
            Err("conversions to 8 bits with an explicit rounding start from f32")
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
        (_, Scalar::Tf32) => Err("conversions to tf32 with an explicit rounding start from f32"),
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
        (_, Scalar::Bf16) => Err("conversions to bf16 with an explicit rounding start from f32"),
        (a, Scalar::F16 | Scalar::F32 | Scalar::F64) if a.is_int() => {
            only(clamp == Clamp::None, "an integer is converted without `.sat` and `.relu`")
        }
        (Scalar::F32 | Scalar::F64, Scalar::F16) | (Scalar::F64, Scalar::F32) => {
            only(matches!(clamp, Clamp::None | Clamp::Sat), "it only has `.sat`")
        }
        _ => Err("the conversion is exact and rounds nothing: use `cvt`"),
    }
}
