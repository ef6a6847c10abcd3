//! Buffers whose element type is only known at run time.

use tilewright::ir::types::{Const, Scalar};
use tilewright::ir::{Element, bf16, f8e4m3, f8e5m2, f16, tf32};
use tilewright::runtime::{Arg, Buffer, Device};

/// A buffer with any element type.
pub(crate) trait AnyBuffer {
    /// Returns it as an argument that the kernel may write.
    fn arg(&mut self) -> Arg<'_>;
    /// Returns it as an argument that the kernel reads.
    fn read_only(&self) -> Arg<'_>;
    fn bits(&self) -> Vec<u64>;
}

impl<T: Element> AnyBuffer for Buffer<T> {
    fn arg(&mut self) -> Arg<'_> {
        Arg::from(self)
    }

    fn read_only(&self) -> Arg<'_> {
        Arg::from(self)
    }

    fn bits(&self) -> Vec<u64> {
        let data = self.to_vec().expect("the buffer can be read");
        data.into_iter().map(|x| x.to_const().bits()).collect()
    }
}

/// A generic function over the element type.
pub(crate) trait OfElement {
    type Output;
    fn of<T: Element>(self) -> Self::Output;
}

pub(crate) fn with_element<F: OfElement>(scalar: Scalar, f: F) -> F::Output {
    match scalar {
        Scalar::Bool => f.of::<bool>(),
        Scalar::I8 => f.of::<i8>(),
        Scalar::I16 => f.of::<i16>(),
        Scalar::I32 => f.of::<i32>(),
        Scalar::I64 => f.of::<i64>(),
        Scalar::U8 => f.of::<u8>(),
        Scalar::U16 => f.of::<u16>(),
        Scalar::U32 => f.of::<u32>(),
        Scalar::U64 => f.of::<u64>(),
        Scalar::F8E4M3 => f.of::<f8e4m3>(),
        Scalar::F8E5M2 => f.of::<f8e5m2>(),
        Scalar::F16 => f.of::<f16>(),
        Scalar::Bf16 => f.of::<bf16>(),
        Scalar::Tf32 => f.of::<tf32>(),
        Scalar::F32 => f.of::<f32>(),
        Scalar::F64 => f.of::<f64>(),
    }
}

struct Upload<'d>(&'d Device, &'d [u64]);

impl OfElement for Upload<'_> {
    type Output = Box<dyn AnyBuffer>;

    fn of<T: Element>(self) -> Box<dyn AnyBuffer> {
        let data: Vec<T> = self.1.iter().map(|bits| T::from_bits(*bits)).collect();
        Box::new(self.0.upload(&data).expect("the buffer fits"))
    }
}

/// Uploads a buffer of elements with these bits.
pub(crate) fn upload(device: &Device, scalar: Scalar, bits: &[u64]) -> Box<dyn AnyBuffer> {
    with_element(scalar, Upload(device, bits))
}

/// Returns whether the bits are a NaN of the type.
pub(crate) fn is_nan(scalar: Scalar, bits: u64) -> bool {
    Const::new(scalar, bits).to_f64().is_some_and(f64::is_nan)
}
