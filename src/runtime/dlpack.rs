//! What DLPack says of a tensor, and why one is refused.

use std::fmt;

use dlpark::ffi::{DLDataType, DLDeviceType};

use crate::ir::Scalar;

/// Why memory does not go out or come in as a DLPack tensor.
///
/// From [`Buffer::into_dlpack`](super::Buffer::into_dlpack) and
/// [`Buffer::from_dlpack`](super::Buffer::from_dlpack).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DlpackError {
    /// The tensor is not in the memory of a CUDA GPU.
    NotCuda {
        /// Where it is: a value of DLPack's `DLDeviceType`.
        device_type: u32,
    },
    /// The tensor is on another GPU than the stream.
    OtherDevice {
        /// The number of the GPU of the tensor.
        tensor: i32,
        /// The device of the stream.
        stream: String,
    },
    /// The elements of the tensor are of another type.
    DataType {
        /// The type of the elements of the buffer.
        expected: Scalar,
        /// The type of the elements of the tensor, such as `float32` or `float32x4`.
        found: String,
    },
    /// DLPack has no type for these elements.
    NoDataType {
        /// The type.
        elem: Scalar,
    },
    /// The elements do not lie one after the other, the last coordinate fastest.
    Strides {
        /// The extents of the tensor.
        shape: Vec<i64>,
        /// Its strides, in elements.
        strides: Vec<i64>,
    },
    /// The size of an element does not divide the address of the first one, or the sum of pointer and offset is no
    /// address.
    Offset {
        /// The pointer of the tensor.
        data: u64,
        /// The bytes from there to the first element.
        byte_offset: u64,
        /// What must divide the address.
        align: u64,
    },
    /// The tensor has elements and no address.
    NoData {
        /// The number of elements.
        elements: usize,
    },
    /// The tensor must not be written, and a buffer may be.
    ReadOnly,
    /// The description of the tensor breaks the rules of DLPack.
    Invalid {
        /// Which, in the words of the crate `dlpark`.
        reason: String,
    },
    /// The buffer has another number of elements than the shape.
    Shape {
        /// The extents.
        shape: Vec<usize>,
        /// The elements of the buffer.
        len: usize,
    },
}

/// The kinds of devices by their numbers in `dlpack.h`.
fn device_name(device_type: u32) -> Option<&'static str> {
    Some(match DLDeviceType(device_type) {
        DLDeviceType::CPU => "host memory",
        DLDeviceType::CUDAHOST => "page-locked host memory of CUDA",
        DLDeviceType::CUDAMANAGED => "managed memory of CUDA",
        DLDeviceType::ROCM => "the memory of an AMD GPU",
        DLDeviceType::METAL => "the memory of an Apple GPU",
        _ => return None,
    })
}

impl fmt::Display for DlpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DlpackError::NotCuda { device_type } => {
                f.write_str("the DLPack tensor is in ")?;
                match device_name(*device_type) {
                    Some(name) => f.write_str(name)?,
                    None => write!(f, "the memory of a device of DLPack's type {device_type}")?,
                }
                f.write_str(", and only the memory of a CUDA GPU can be borrowed: move the tensor to the GPU first")
            }
            DlpackError::OtherDevice { tensor, stream } => write!(
                f,
                "the DLPack tensor is on GPU {tensor} and the stream on {stream}: name a stream of the GPU of the \
                 tensor"
            ),
            DlpackError::DataType { expected, found } => write!(
                f,
                "the DLPack tensor has elements of `{found}` and the buffer is of `{expected}`: ask for a buffer of \
                 the type of the tensor, or convert the tensor"
            ),
            DlpackError::NoDataType { elem } => {
                write!(f, "DLPack has no type for elements of `{elem}`: use `f32`, which has the same bits")
            }
            DlpackError::Strides { shape, strides } => write!(
                f,
                "the DLPack tensor of shape {shape:?} has the strides {strides:?}, and a buffer is memory without \
                 gaps, the last coordinate fastest: make the tensor contiguous first"
            ),
            DlpackError::Offset { data, byte_offset, align } => write!(
                f,
                "the DLPack tensor starts {byte_offset} bytes behind {data:#x}, which is no multiple of the {align} \
                 bytes of an element: copy it"
            ),
            DlpackError::NoData { elements } => {
                write!(f, "the DLPack tensor has {elements} elements and no address: its producer is wrong")
            }
            DlpackError::ReadOnly => f.write_str(
                "the DLPack tensor must not be written, and a buffer may be: export a copy, or a tensor that is not \
                 read-only",
            ),
            DlpackError::Invalid { reason } => {
                write!(f, "the DLPack tensor is not described as DLPack asks for: {reason}")
            }
            DlpackError::Shape { shape, len } => write!(
                f,
                "a buffer of {len} elements is no DLPack tensor of shape {shape:?}: the product of the extents must \
                 be {len}"
            ),
        }
    }
}

impl std::error::Error for DlpackError {}

/// The type of DLPack for elements of a buffer; the 8-bit formats are OCP's, of which E4M3 has no infinities
/// ("fn").
pub(super) fn data_type(elem: Scalar) -> Result<DLDataType, DlpackError> {
    Ok(match elem {
        Scalar::Bool => DLDataType::BOOL,
        Scalar::I8 => DLDataType::I8,
        Scalar::I16 => DLDataType::I16,
        Scalar::I32 => DLDataType::I32,
        Scalar::I64 => DLDataType::I64,
        Scalar::U8 => DLDataType::U8,
        Scalar::U16 => DLDataType::U16,
        Scalar::U32 => DLDataType::U32,
        Scalar::U64 => DLDataType::U64,
        Scalar::F8E4M3 => DLDataType::F8E4M3FN,
        Scalar::F8E5M2 => DLDataType::F8E5M2,
        Scalar::F16 => DLDataType::F16,
        Scalar::Bf16 => DLDataType::BF16,
        Scalar::Tf32 => return Err(DlpackError::NoDataType { elem }),
        Scalar::F32 => DLDataType::F32,
        Scalar::F64 => DLDataType::F64,
    })
}

/// A type of DLPack in the words of array libraries: `float32`, `bfloat16`, `uint8x4` for four lanes.
pub(super) fn data_type_name(data_type: DLDataType) -> String {
    let DLDataType { code, bits, lanes } = data_type;
    let family = match code.0 {
        0 => "int".to_owned(),
        1 => "uint".to_owned(),
        2 => "float".to_owned(),
        3 => "handle".to_owned(),
        4 => "bfloat".to_owned(),
        5 => "complex".to_owned(),
        6 => "bool".to_owned(),
        7 => "float8_e3m4/".to_owned(),
        8 => "float8_e4m3/".to_owned(),
        9 => "float8_e4m3b11fnuz/".to_owned(),
        10 => "float8_e4m3fn/".to_owned(),
        11 => "float8_e4m3fnuz/".to_owned(),
        12 => "float8_e5m2/".to_owned(),
        13 => "float8_e5m2fnuz/".to_owned(),
        code => format!("type {code}/"),
    };
    let lanes = if lanes == 1 { String::new() } else { format!("x{lanes}") };
    format!("{family}{bits}{lanes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two element types never share a DLPack type, and each has the bits of its elements.
    #[test]
    fn types_are_told_apart() {
        let types: Vec<_> = Scalar::ALL.iter().filter_map(|elem| data_type(*elem).ok()).collect();
        assert_eq!(types.len(), Scalar::ALL.len() - 1);
        for (i, one) in types.iter().enumerate() {
            assert!(types[..i].iter().all(|other| other != one), "{one:?}");
        }
        for elem in Scalar::ALL {
            match data_type(elem) {
                Ok(found) => {
                    assert_eq!(u64::from(found.bits), 8 * u64::from(elem.size_bytes()), "{elem}")
                }
                Err(error) => assert_eq!(error, DlpackError::NoDataType { elem: Scalar::Tf32 }),
            }
        }
    }

    #[test]
    fn types_have_the_names_of_array_libraries() {
        let name = |elem| data_type_name(data_type(elem).unwrap());
        assert_eq!(name(Scalar::F32), "float32");
        assert_eq!(name(Scalar::Bf16), "bfloat16");
        assert_eq!(name(Scalar::Bool), "bool8");
        assert_eq!(data_type_name(DLDataType::C64), "complex64");
        let four = DLDataType::new(DLDataType::U8.code, 8, 4);
        assert_eq!(data_type_name(four), "uint8x4");
    }
}
