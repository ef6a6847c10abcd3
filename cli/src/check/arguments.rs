//! Parses the arguments for kernels that come from a file.

use std::path::Path;
use std::str::FromStr;

use tilewright::arch::{PixelBox, TensorMapDesc};
use tilewright::ir::types::{Const, Scalar, Type};
use tilewright::ir::{Element, KernelIr, bf16, f16};
use tilewright::sim::{GlobalBuffer, KernelArg};

use crate::{Failure, read};

/// `NAME=VALUE`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    value: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        let name = name.trim_start_matches('%').to_owned();
        Ok(Named { name, value: value.to_owned() })
    }
}

/// How many elements a buffer has if the user gives no argument for it.
const DEFAULT_LEN: usize = 1 << 16;
/// The maximum size of a buffer in bytes.
const MOST_BYTES: usize = 1 << 30;

/// A kernel argument, with the memory behind it.
pub(super) enum Owned {
    Scalar(Const),
    Buffer(GlobalBuffer),
    Map(Box<TensorMapDesc>, GlobalBuffer),
}

impl Owned {
    pub(super) fn borrow(&self) -> KernelArg<'_> {
        match self {
            Owned::Scalar(value) => KernelArg::Scalar(*value),
            Owned::Buffer(buffer) => KernelArg::Buffer(buffer),
            Owned::Map(map, buffer) => KernelArg::TensorMap(map, buffer),
        }
    }

    /// Returns the buffer's elements as the text form writes them.
    pub(super) fn elements(&self, elem: Scalar) -> Vec<String> {
        let (Owned::Buffer(buffer) | Owned::Map(_, buffer)) = self else { return Vec::new() };
        let element = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            Const::new(elem, u64::from_le_bytes(word)).to_string()
        };
        buffer.to_vec::<u8>().chunks_exact(elem.size_bytes() as usize).map(element).collect()
    }
}

/// Returns a kernel's arguments.
pub(super) fn arguments(ir: &KernelIr, named: &[Named]) -> Result<Vec<Owned>, Failure> {
    let one = |param: &tilewright::ir::Param| {
        let name = param.name.trim_start_matches('%');
        let value = named.iter().rev().find(|named| named.name == name);
        let value = value.map(|named| named.value.as_str());
        let failed = |error: String| {
            Failure::input(format!("parameter `{name}` of kernel `{}`: {error}", ir.name))
        };
        match (ir.type_of(param.value), value) {
            (Type::Scalar(_) | Type::Vector(_), None) => {
                Err(failed(format!("it needs a value: `--arg {name}=..`")))
            }
            (Type::Scalar(scalar), Some(value)) => {
                constant(scalar, value).map(Owned::Scalar).map_err(failed)
            }
            (Type::Vector(_), Some(_)) => {
                Err(failed("vector parameters cannot be passed".to_owned()))
            }
            (Type::Pointer { elem, .. }, value) => {
                buffer(elem, value).map(Owned::Buffer).map_err(failed)
            }
            (Type::TensorMap { .. }, None) => Err(failed(format!(
                "it needs a tensor and a box, the contiguous dimension first: `--arg {name}=64x32/64x8`"
            ))),
            (Type::TensorMap { elem, .. }, Some(value)) => map(elem, value).map_err(failed),
        }
    };
    ir.params.iter().map(one).collect()
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a value of the parameter's type"))
}

/// Parses a value of a scalar type.
fn constant(scalar: Scalar, text: &str) -> Result<Const, String> {
    Ok(match scalar {
        Scalar::F32 => number::<f32>(text)?.to_const(),
        Scalar::F64 => number::<f64>(text)?.to_const(),
        Scalar::F16 => f16::from_f32(number(text)?).to_const(),
        Scalar::Bf16 => bf16::from_f32(number(text)?).to_const(),
        Scalar::Bool => number::<bool>(text)?.to_const(),
        _ => {
            let value: i128 = number(text)?;
            let bits = 8 * scalar.size_bytes();
            if value >= 1 << bits || value < -(1 << (bits - 1)) {
                return Err(format!("`{text}` is not a value of type {scalar}"));
            }
            Const::new(scalar, value as u64 & (u64::MAX >> (64 - bits)))
        }
    })
}

/// Parses a buffer: `LEN` has the elements 0, 1, 2, .., `LEN:VALUE` has equal elements, and `@FILE`
/// the elements that the file lists, with white space or commas between them.
fn buffer(elem: Scalar, text: Option<&str>) -> Result<GlobalBuffer, String> {
    if let Some(path) = text.and_then(|text| text.strip_prefix('@')) {
        let text = read(Path::new(path)).map_err(|failure| failure.message)?;
        let elements = text.split(|c: char| c.is_whitespace() || c == ',');
        let elements = elements.filter(|element| !element.is_empty());
        return from_constants(elem, elements.map(|element| constant(elem, element)));
    }
    let (len, fill) = match text {
        None => (DEFAULT_LEN, Some("0")),
        Some(text) => match text.split_once(':') {
            Some((len, fill)) => (number(len)?, Some(fill)),
            None => (number(text)?, None),
        },
    };
    filled(elem, len, fill)
}

fn filled(elem: Scalar, len: usize, fill: Option<&str>) -> Result<GlobalBuffer, String> {
    let size = elem.size_bytes() as usize;
    if len.checked_mul(size).is_none_or(|bytes| bytes > MOST_BYTES) {
        return Err(format!("{len} elements are more than {} MiB", MOST_BYTES >> 20));
    }
    let is_float = matches!(elem, Scalar::F32 | Scalar::F64 | Scalar::F16 | Scalar::Bf16);
    let element = |i: usize| match fill {
        Some(text) => constant(elem, text),
        // Integers that every floating-point type can represent.
        None if is_float => constant(elem, &(i % 128).to_string()),
        None => Ok(Const::new(elem, i as u64 & (u64::MAX >> (64 - 8 * size)))),
    };
    from_constants(elem, (0..len).map(element))
}

fn from_constants(
    elem: Scalar,
    constants: impl Iterator<Item = Result<Const, String>>,
) -> Result<GlobalBuffer, String> {
    let mut bytes = Vec::new();
    for constant in constants {
        let bits = constant?.bits().to_le_bytes();
        bytes.extend_from_slice(&bits[..elem.size_bytes() as usize]);
    }
    Ok(GlobalBuffer::from_slice(&bytes))
}

/// Parses a tensor map: `DIMSxDIMS/BOXxBOX` with the contiguous dimension first. In im2col mode it
/// is `DIMS/CHANNELSxPIXELS/LOWERtoUPPER` with the corners of the pixel box, for example
/// `64x14x9x2/64x32/-1x-1to-1x-1`.
fn map(elem: Scalar, text: &str) -> Result<Owned, String> {
    let (dims, box_) =
        text.split_once('/').ok_or("expected a tensor and a box, such as 64x32/64x8")?;
    let dims = dims.split('x').map(number::<u64>).collect::<Result<Vec<_>, _>>()?;
    let (box_, corners) =
        box_.split_once('/').map_or((box_, None), |(box_, corners)| (box_, Some(corners)));
    let box_ = box_.split('x').map(number::<u32>).collect::<Result<Vec<_>, _>>()?;
    let mut strides = Vec::new();
    let mut bytes = u64::from(elem.size_bytes());
    for dim in &dims {
        bytes = bytes.checked_mul(*dim).ok_or("the tensor is too large")?;
        strides.push(bytes);
    }
    strides.pop();
    let map = match (corners, box_.as_slice()) {
        (None, _) => TensorMapDesc::new(elem, &dims, &strides, &box_),
        (Some(corners), &[channels, pixels]) => {
            let corner =
                |text: &str| -> Result<Vec<i32>, String> { text.split('x').map(number).collect() };
            let wanted = "expected the corners of the pixel box, such as -1x-1to0x0";
            let (lower, upper) = corners.split_once("to").ok_or(wanted)?;
            let (lower, upper) = (corner(lower)?, corner(upper)?);
            let pixels = PixelBox { lower, upper, channels, pixels };
            TensorMapDesc::im2col(elem, &dims, &strides, pixels)
        }
        (Some(_), _) => {
            return Err(
                "expected channels, pixels and corners of the pixel box, such as 64x32/-1x-1to0x0"
                    .to_owned(),
            );
        }
    };
    let map = map.map_err(|error| error.to_string())?;
    let len = usize::try_from(bytes).map_err(|_| "the tensor is too large")?;
    let buffer = filled(elem, len / elem.size_bytes() as usize, None)?;
    Ok(Owned::Map(Box::new(map), buffer))
}
