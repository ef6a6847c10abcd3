//! Encodes tensor maps for the GPU: turns a description into the 128 bytes that a launch passes.

use std::ffi::c_void;

use cudarc::driver::sys::{
    self, CUtensorMapDataType as DataType, CUtensorMapFloatOOBfill as OobFill,
    CUtensorMapInterleave as Interleave, CUtensorMapL2promotion as Promotion,
    CUtensorMapSwizzle as SwizzleKind,
};
use smallvec::SmallVec;

use super::memory::Memory;
use crate::arch::{Fill, L2Promotion, SwizzleMode, TensorMapDesc, TensorMapError};
use crate::ir::types::Scalar;
use crate::runtime::error::RuntimeError;

/// A tensor map's 128 bytes, which a launch passes as a parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct EncodedMap(sys::CUtensorMap);

impl EncodedMap {
    /// Encodes the map of a tensor that starts at the memory's first byte. The memory must be large
    /// enough.
    #[inline]
    pub(in crate::runtime) fn new(
        desc: &TensorMapDesc,
        memory: &Memory,
    ) -> Result<EncodedMap, RuntimeError> {
        let (context, address) = (memory.context(), memory.address());
        if !address.is_multiple_of(16) {
            return Err(TensorMapError::Address { address }.into());
        }
        // The driver takes no stride for the first dimension.
        let strides = desc.strides_bytes().get(1..).unwrap_or(&[]);
        let strides: SmallVec<[u64; 5]> = strides.iter().copied().chain([0]).collect();
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let _current = context.enter()?;
        let (api, ty, rank) = (context.api(), data_type(desc.elem()), desc.rank() as u32);
        let start = std::ptr::without_provenance_mut(address as usize);
        let interleave = Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
        let swizzle = match desc.swizzle() {
            SwizzleMode::None => SwizzleKind::CU_TENSOR_MAP_SWIZZLE_NONE,
            SwizzleMode::B32 => SwizzleKind::CU_TENSOR_MAP_SWIZZLE_32B,
            SwizzleMode::B64 => SwizzleKind::CU_TENSOR_MAP_SWIZZLE_64B,
            SwizzleMode::B128 => SwizzleKind::CU_TENSOR_MAP_SWIZZLE_128B,
        };
        let promotion = match desc.l2_promotion() {
            L2Promotion::None => Promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            L2Promotion::B64 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
            L2Promotion::B128 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            L2Promotion::B256 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        };
        let fill = match desc.fill() {
            Fill::Zero => OobFill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            Fill::Nan => OobFill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        };
        let (dims, strides) = (desc.dims().as_ptr(), strides.as_ptr());
        let steps = desc.element_strides().as_ptr();
        if let Some(pixels) = desc.pixel_box() {
            // SAFETY: as below; the corners have one value for each dimension but two.
            let code = unsafe {
                (api.cuTensorMapEncodeIm2col)(
                    &mut map,
                    ty,
                    rank,
                    start,
                    dims,
                    strides,
                    pixels.lower.as_ptr(),
                    pixels.upper.as_ptr(),
                    pixels.channels,
                    pixels.pixels,
                    steps,
                    interleave,
                    swizzle,
                    promotion,
                    fill,
                )
            };
            context.check("cuTensorMapEncodeIm2col", code)?;
            return Ok(EncodedMap(map));
        }
        // SAFETY: `map` is a local out parameter with the right alignment; the lists have one value
        // per dimension of the map, and the strides one less. The address is only stored.
        let code = unsafe {
            (api.cuTensorMapEncodeTiled)(
                &mut map,
                ty,
                rank,
                start,
                dims,
                strides,
                desc.box_dims().as_ptr(),
                steps,
                interleave,
                swizzle,
                promotion,
                fill,
            )
        };
        context.check("cuTensorMapEncodeTiled", code)?;
        Ok(EncodedMap(map))
    }

    /// Returns a pointer to the bytes, for a launch's parameter list.
    pub(super) fn slot(&self) -> *mut c_void {
        std::ptr::from_ref(&self.0).cast_mut().cast()
    }
}

/// Returns the driver's name for an element type. Copies do not compute, so the sign matters only
/// for reductions.
fn data_type(elem: Scalar) -> DataType {
    match elem {
        Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => {
            DataType::CU_TENSOR_MAP_DATA_TYPE_UINT8
        }
        Scalar::I16 | Scalar::U16 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        Scalar::I32 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Scalar::U32 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        Scalar::I64 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        Scalar::U64 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        Scalar::F16 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Scalar::Bf16 => DataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Scalar::Tf32 => DataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        Scalar::F32 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Scalar::F64 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    }
}
