//! The same address as a pointer to other elements.

use crate::ir::{Body, Element, Global, GlobalMut, Pointer as PointerType, Shared, Val};
use crate::layout::LayoutError;

use super::{Swizzled, TensorPointer, size_of_element};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// A family of pointer types, one for each type of elements.
pub trait Recast: PointerType {
    /// The same type, to other elements.
    type Of<T: Element>: PointerType<Elem = T>;
    /// The same address.
    #[doc(hidden)]
    fn cast<T: Element>(pointer: Val<'_, Self>) -> Val<'_, Self::Of<T>>;
}

macro_rules! recast {
    ($($Pointer:ident)*) => {$(
        impl<E: Element> Recast for $Pointer<E> {
            type Of<T: Element> = $Pointer<T>;

            #[track_caller]
            fn cast<T: Element>(pointer: Val<'_, Self>) -> Val<'_, $Pointer<T>> {
                pointer.ptr_cast::<T>()
            }
        }
    )*};
}
recast!(Global GlobalMut Shared);

impl<'b, P: PointerType> TensorPointer<'b, P> {
    /// The element of type `T` at this address, which is known to be a multiple of its size.
    #[track_caller]
    pub(in crate::tensor) fn retyped<T: Element>(&self) -> TensorPointer<'b, P::Of<T>>
    where
        P: Recast,
    {
        let bytes = i128::from(self.offset) * i128::from(size_of_element::<P>());
        let offset = bytes.div_euclid(i128::from(T::scalar().size_bytes()));
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        TensorPointer { base: P::cast(self.base), offset, align: self.align, swizzle: None }
    }

    /// The same address as a pointer to elements of type `T`: CuTe's `recast_ptr`. A swizzle is recast too.
    ///
    /// An address that is not known to be a multiple of the size of `T` is an error of the build.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::tensor::TensorPointer;
    ///
    /// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let x = TensorPointer::new(x).assume_aligned(k, 8);
    ///     assert_eq!((x + 2).recast::<u8>(k).to_string(), "ptr<u8, gmem, align<8>>");
    ///     assert_eq!(x.recast::<f64>(k).to_string(), "ptr<f64, gmem, align<8>>");
    ///     (x + 1).recast::<f64>(k);
    /// })
    /// .unwrap_err();
    /// assert!(errors.to_string().contains("known to be a multiple of 4 bytes only"));
    /// ```
    #[track_caller]
    pub fn recast<T: Element>(&self, k: &Body<'b, '_>) -> TensorPointer<'b, P::Of<T>>
    where
        P: Recast,
    {
        let (from, to) = (P::Elem::scalar().bits(), T::scalar().bits());
        let align = self.alignment();
        if align < T::scalar().size_bytes() {
            let kind = TensorErrorKind::Recast { from, to, align };
            k.report(TensorError { operation: "recast", operand: self.to_string(), kind });
            return TensorPointer { base: P::cast(self.base), offset: 0, align, swizzle: None };
        }
        let pointer = match self.swizzle {
            None => return self.retyped(),
            Some(swizzled) => TensorPointer { swizzle: None, ..*self }.retyped_under(swizzled),
        };
        match pointer {
            Ok(pointer) => pointer,
            Err(error) => {
                let operation = "recast";
                k.report(TensorError { operation, operand: self.to_string(), kind: error.into() });
                self.retyped()
            }
        }
    }

    /// As [`retyped`](TensorPointer::retyped), under a swizzle of elements. What the device knows of the offset is
    /// in elements too, so it must be the start of the swizzle.
    #[track_caller]
    fn retyped_under<T: Element>(
        self,
        Swizzled { swizzle, moved }: Swizzled<'b, P>,
    ) -> Result<TensorPointer<'b, P::Of<T>>, LayoutError>
    where
        P: Recast,
    {
        if moved.is_some() {
            let argument = "a swizzled pointer that a device number has moved".to_owned();
            return Err(LayoutError::Unsupported { operation: "recast", argument });
        }
        let (from, to) = (P::Elem::scalar().bits().into(), T::scalar().bits().into());
        let swizzle = swizzle.recast(from, to)?;
        let moved = None;
        Ok(TensorPointer { swizzle: Some(Swizzled { swizzle, moved }), ..self.retyped() })
    }
}
