//! [`PointerOffset`]: the integers that you can add to a [`TensorPointer`], on the host or the
//! device.

use std::ops::{Add, Sub};

use crate::ir::{Pointer as PointerType, Val};

use super::TensorPointer;

/// An integer that you can add to a [`TensorPointer`] with `+`: `i32`, `i64`, or a device value of
/// these types. It counts elements. You name it only as a bound.
pub trait PointerOffset<'b>: sealed::Sealed {
    /// `pointer + self`
    #[doc(hidden)]
    fn after<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P>;
    /// `pointer - self`
    #[doc(hidden)]
    fn before<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P>;
}

mod sealed {
    /// Keeps other crates from adding offset types.
    pub trait Sealed {}
}

macro_rules! offsets {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl<'b> PointerOffset<'b> for $ty {
            fn after<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                pointer.add_host(self.into())
            }
            fn before<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                pointer.add_host(i64::from(self).saturating_neg())
            }
        }
        impl<'b, P: PointerType> Add<TensorPointer<'b, P>> for $ty {
            type Output = TensorPointer<'b, P>;
            fn add(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                self.after(pointer)
            }
        }
        impl sealed::Sealed for Val<'_, $ty> {}
        impl<'b> PointerOffset<'b> for Val<'b, $ty> {
            #[track_caller]
            fn after<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                pointer.add_device(self, self.divisor())
            }
            #[track_caller]
            fn before<P: PointerType>(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                pointer.add_device(-self, self.divisor())
            }
        }
        impl<'b, P: PointerType> Add<TensorPointer<'b, P>> for Val<'b, $ty> {
            type Output = TensorPointer<'b, P>;
            #[track_caller]
            fn add(self, pointer: TensorPointer<'b, P>) -> TensorPointer<'b, P> {
                self.after(pointer)
            }
        }
    )*};
}
offsets!(i32 i64);

impl<'b, P: PointerType, O: PointerOffset<'b>> Add<O> for TensorPointer<'b, P> {
    type Output = Self;
    #[track_caller]
    fn add(self, offset: O) -> Self {
        offset.after(self)
    }
}

impl<'b, P: PointerType, O: PointerOffset<'b>> Sub<O> for TensorPointer<'b, P> {
    type Output = Self;
    #[track_caller]
    fn sub(self, offset: O) -> Self {
        offset.before(self)
    }
}
