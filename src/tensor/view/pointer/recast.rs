//! Casts a pointer to another element type, CuTe's `recast_ptr`: for example to read pairs of
//! `bf16` as `u32`.

use crate::ir::{Element, Global, GlobalMut, Pointer as PointerType, Shared, Val};
use crate::layout::LayoutError;

use super::{Swizzled, TensorPointer, size_of_element};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// The pointer types that can be cast to another element type, for CuTe's `recast`: [`Global`],
/// [`GlobalMut`] and [`Shared`]. For example `Global<bf16>` can become `Global<u32>`, which reads
/// two elements at once.
///
/// You only name it as a bound (`P: Recast`) in functions that are generic over the pointer type.
/// To cast, call [`TensorPointer::recast`] or, for a whole tensor,
/// [`Tensor::recast`](crate::tensor::view::Tensor::recast).
pub trait Recast: PointerType {
    /// The same pointer type with another element type.
    type Of<T: Element>: PointerType<Elem = T>;
    /// Casts the pointer; the address stays the same. [`TensorPointer::recast`] calls it.
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
    /// Casts the pointer; the caller knows that the address is aligned for `T`.
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

    /// Casts the pointer to element type `T`, swizzle included: CuTe's `recast_ptr`. Use it to read
    /// several elements at once, or to access the raw bits.
    ///
    /// It is a build error if the address is not known to be aligned to `T`'s size.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::tensor::view::TensorPointer;
    ///
    /// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
    ///     let x = TensorPointer::new(x).assume_aligned(8);
    ///     assert_eq!((x + 2).recast::<u8>().to_string(), "ptr<u8, gmem, align<8>>");
    ///     assert_eq!(x.recast::<f64>().to_string(), "ptr<f64, gmem, align<8>>");
    ///     (x + 1).recast::<f64>();
    /// })
    /// .unwrap_err();
    /// assert!(errors.to_string().contains("only known to be a multiple of 4 bytes"));
    /// ```
    #[track_caller]
    pub fn recast<T: Element>(&self) -> TensorPointer<'b, P::Of<T>>
    where
        P: Recast,
    {
        let k = &self.body();
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

    /// Like [`retyped`](TensorPointer::retyped), but keeps the swizzle. The device offset counts
    /// elements of the old type, so the pointer must not have one.
    #[track_caller]
    fn retyped_under<T: Element>(
        self,
        Swizzled { swizzle, moved }: Swizzled<'b, P>,
    ) -> Result<TensorPointer<'b, P::Of<T>>, LayoutError>
    where
        P: Recast,
    {
        if moved.is_some() {
            let argument = "a swizzled pointer with a device offset".to_owned();
            return Err(LayoutError::Unsupported { operation: "recast", argument });
        }
        let (from, to) = (P::Elem::scalar().bits().into(), T::scalar().bits().into());
        let swizzle = swizzle.recast(from, to)?;
        let moved = None;
        Ok(TensorPointer { swizzle: Some(Swizzled { swizzle, moved }), ..self.retyped() })
    }
}
