//! Defines [`DlpackError`], and which DLPack type each element type has.

use crate::errors::errors;

use dlpark::ffi::{DLDataType, DLDeviceType};

use crate::ir::types::Scalar;

errors! {
    /// Why memory could not be exchanged as a DLPack tensor, from
    /// [`Buffer::into_dlpack`](super::Buffer::into_dlpack) and
    /// [`Buffer::from_dlpack`](super::Buffer::from_dlpack).
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum DlpackError {
        /// The tensor is not in the memory of a CUDA GPU.
        NotCuda {
            /// The kind of its device: a value of DLPack's `DLDeviceType`.
            device_type: u32,
        } = |f| {
            f.write_str("the DLPack tensor is in ")?;
            match device_name(*device_type) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "the memory of a device with DLPack type {device_type}")?,
            }
            f.write_str(", but only the memory of a CUDA GPU can be borrowed: move the tensor to the GPU first")
        },
        /// the DLPack tensor is on GPU {tensor}, but the stream is on {stream}: use a stream of the
        /// tensor's GPU
        OtherDevice { tensor: i32, stream: String },
        /// the DLPack tensor has `{found}` elements, but the buffer has `{expected}`: ask for a
        /// buffer of the tensor's type, or convert the tensor
        DataType { expected: Scalar, found: String },
        /// DLPack has no type for elements of `{elem}`: use `f32`, which has the same bits
        NoDataType { elem: Scalar },
        /// the DLPack tensor of shape {shape:?} has the strides {strides:?}, but a buffer must be
        /// row-major and without gaps: make the tensor contiguous first
        Strides { shape: Vec<i64>, strides: Vec<i64> },
        /// the DLPack tensor starts {byte_offset} bytes after {data:#x}, which is not a multiple of
        /// the element size of {align} bytes: copy the tensor
        Offset { data: u64, byte_offset: u64, align: u64 },
        /// the DLPack tensor has {elements} elements but no address: this is a bug in its producer
        NoData { elements: usize },
        /// the DLPack tensor is read-only, but a buffer can be written: export a copy, or a tensor
        /// that is not read-only
        ReadOnly,
        /// the DLPack tensor's description is invalid: {reason}
        Invalid { reason: String },
        /// a buffer of {len} elements cannot become a DLPack tensor of shape {shape:?}: the product
        /// of the extents must be {len}
        Shape { shape: Vec<usize>, len: usize },
    }
}
crate::errors::message_as_debug!(DlpackError);

/// Names a device type from `dlpack.h`.
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

/// Returns the DLPack type for a buffer's elements. The 8-bit formats are OCP's, whose E4M3 has no
/// infinities ("fn").
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

/// Names a DLPack type as array libraries do: `float32`, `bfloat16`, or `uint8x4` for four lanes.
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

    /// Two element types never share a DLPack type, and each has the right bit width.
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
