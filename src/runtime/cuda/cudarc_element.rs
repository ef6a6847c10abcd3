//! Defines [`CudarcElement`], the element types of memory of `cudarc`.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

use crate::ir::{Element, bf16, f8e4m3, f8e5m2, f16, tf32};

macro_rules! device_types {
    ($($ty:ty)*) => {$(
        // SAFETY: it is a number of the device's own format, plain bytes without padding, and all bits are a value.
        unsafe impl DeviceRepr for $ty {}
        // SAFETY: zero bits are the number 0.
        unsafe impl ValidAsZeroBits for $ty {}
    )*};
}

device_types!(bf16 f16 f8e4m3 f8e5m2 tf32);

/// A type of the elements of a `CudaSlice` that can be those of a [`Buffer`](crate::runtime::Buffer): each [`Element`],
/// and with the feature `half` `half::f16` and `half::bf16`, whose buffers have elements of
/// [`f16`](struct@crate::ir::f16) and [`bf16`].
///
/// A program that allocates or copies slices of `half` types with `cudarc` names `cudarc`'s feature `f16`, which implements
/// `DeviceRepr` for them. Our feature `half` does not turn it on, because it brings nine crates (a second `rand` among
/// them) that buffers do not need:
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
    /// The elements of the buffer, with the same bytes.
    type Elem: Element;
}

mod sealed {
    /// Memory is taken as that of another type without a look at it.
    pub trait SameBytes {}
}

impl<T: Element> sealed::SameBytes for T {}

impl<T: Element> CudarcElement for T {
    type Elem = T;
}

#[cfg(feature = "half")]
mod half_types {
    use super::{CudarcElement, sealed};

    impl sealed::SameBytes for half::f16 {}

    impl CudarcElement for half::f16 {
        type Elem = crate::ir::f16;
    }

    impl sealed::SameBytes for half::bf16 {}

    impl CudarcElement for half::bf16 {
        type Elem = crate::ir::bf16;
    }
}
