//! Defines [`CudarcElement`]: the element types that buffers and `cudarc` slices can share.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

use crate::ir::{Element, bf16, f8e4m3, f8e5m2, f16, tf32};

macro_rules! device_types {
    ($($ty:ty)*) => {$(
        // SAFETY: it is a number in the device's own format: plain bytes without padding, and every
        // bit pattern is valid.
        unsafe impl DeviceRepr for $ty {}
        // SAFETY: all-zero bits are the number 0.
        unsafe impl ValidAsZeroBits for $ty {}
    )*};
}

device_types!(bf16 f16 f8e4m3 f8e5m2 tf32);

/// An element type of a `CudaSlice` that can become a [`Buffer`](crate::runtime::Buffer). These are
/// all [`Element`] types and, with the feature `half`, `half::f16` and `half::bf16`, whose buffers
/// have elements of type [`f16`](struct@crate::ir::f16) and [`bf16`].
///
/// If your program allocates or copies slices of `half` types with `cudarc`, turn on `cudarc`'s
/// feature `f16`, which implements `DeviceRepr` for them. Our feature `half` does not turn it on,
/// because it adds nine crates (a second `rand` among them) that buffers do not need:
///
/// ```toml
/// tilewright = { version = "0.1", features = ["half"] }
/// cudarc = { version = "0.19", features = ["f16"] }
/// ```
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::runtime::CudarcElement;
/// fn elem_size<S: CudarcElement>() -> usize {
///     size_of::<S::Elem>()
/// }
/// assert_eq!((elem_size::<bf16>(), elem_size::<f32>()), (2, 4));
/// ```
pub trait CudarcElement: sealed::SameBytes + 'static {
    /// The buffer's element type, which has the same bytes.
    type Elem: Element;
}

mod sealed {
    /// Sealed, because memory is reinterpreted as another type without a check.
    pub trait SameBytes {}
}

impl<T: Element> sealed::SameBytes for T {}

impl<T: Element> CudarcElement for T {
    type Elem = T;
}

#[cfg(feature = "half")]
macro_rules! half_types {
    ($($half:ty => $own:ty,)*) => {$(
        impl sealed::SameBytes for $half {}

        impl CudarcElement for $half {
            type Elem = $own;
        }
    )*};
}

#[cfg(feature = "half")]
half_types! {
    half::f16 => f16,
    half::bf16 => bf16,
}
