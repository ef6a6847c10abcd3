//! Structs and unions in shared memory, laid out as in C, and an allocator. Use them if a kernel
//! keeps several things in shared memory, for example tiles, barriers and scalars.

pub(super) mod allocator;

pub use allocator::SmemAllocator;

use crate::ir::{Body, Element, Shared, Val};
use crate::layout::{Analysis, ComposedLayout, LayoutError};

use super::error::{TensorError, TensorErrorKind};
use super::view::pointer::TensorPointer;
use super::view::tensor::{SharedTensor, Tensor};

/// A byte pointer into shared memory, from which a [`storage!`](crate::storage) struct makes its
/// members. You name it only if you implement [`Storage`] for a type of your own.
pub type StoragePointer<'b> = TensorPointer<'b, Shared<u8>>;

/// A type that can live in shared memory: a scalar, a [`MemRange`], an [`Align`], or a type that
/// [`storage!`](crate::storage) declares. Call [`allocate`](Storage::allocate) on the type in a
/// kernel, or pass the type to [`SmemAllocator`].
pub trait Storage: 'static {
    /// The size in bytes, padded to a multiple of the alignment: C's `sizeof`.
    const SIZE: u32;
    /// The alignment in bytes: C's `alignof`.
    const ALIGN: u32;
    /// What a kernel gets for the storage: a [`TensorPointer`] for a scalar, a [`MemRangeAt`] for a
    /// range, and for a declared struct the struct itself, with its members as fields.
    type At<'b>;

    /// Returns the members of the storage that starts at `bytes`. An allocator calls it after it
    /// has reserved the memory; you need it only to place storage in memory that you already have.
    fn at<'b>(k: &Body<'b, '_>, bytes: StoragePointer<'b>) -> Self::At<'b>;

    /// Returns [`SIZE`](Storage::SIZE) in bytes: C's `sizeof`.
    fn size_of() -> u32 {
        Self::SIZE
    }

    /// Returns [`ALIGN`](Storage::ALIGN) in bytes: C's `alignof`.
    fn align_of() -> u32 {
        Self::ALIGN
    }

    /// The same as [`size_of`](Storage::size_of), under CuTe DSL's name `size_in_bytes`.
    fn size_in_bytes() -> u32 {
        Self::SIZE
    }

    /// Allocates shared memory of this type, uninitialised, like CuTe DSL's
    /// `SmemAllocator.allocate`. Use it for a single struct; for several pieces, [`SmemAllocator`]
    /// also counts the bytes.
    #[track_caller]
    fn allocate<'b>(k: &Body<'b, '_>) -> Self::At<'b> {
        let bytes: Val<'b, Shared<u8>> = k.shared_aligned(Self::SIZE, Self::ALIGN);
        Self::at(k, TensorPointer::new(bytes).assume_aligned(Self::ALIGN))
    }
}

impl<T: Element> Storage for T {
    const SIZE: u32 = T::SCALAR.size_bytes();
    const ALIGN: u32 = T::SCALAR.size_bytes();
    type At<'b> = TensorPointer<'b, Shared<T>>;

    #[track_caller]
    fn at<'b>(_: &Body<'b, '_>, bytes: StoragePointer<'b>) -> Self::At<'b> {
        bytes.element_at()
    }
}

/// `N` contiguous elements of type `T`, as a member of a shared-memory struct, for example a tile's
/// buffer: CuTe DSL's `struct.MemRange`.
///
/// ```
/// use tilewright::ir::{Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::tensor::storage::{MemRange, Storage};
///
/// assert_eq!(MemRange::<f32, 128>::size_in_bytes(), 512);
/// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     let data = MemRange::<f32, 128>::allocate(k);
///     assert_eq!((data.len(), data.elem_width()), (128, 32));
///     data.at(5).store(1.0);
///     let tile = data.tensor(layout!((8, 16) : (16, 1)));
///     assert_eq!(tile.to_string(), "ptr<f32, smem, align<4>> o (8,16):(16,1)");
/// })?;
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum MemRange<T, const N: u32> {
    #[doc(hidden)]
    Never(std::convert::Infallible, std::marker::PhantomData<fn() -> T>),
}

impl<T: Element, const N: u32> Storage for MemRange<T, N> {
    const SIZE: u32 = N * T::SCALAR.size_bytes();
    const ALIGN: u32 = T::SCALAR.size_bytes();
    type At<'b> = MemRangeAt<'b, T>;

    #[track_caller]
    fn at<'b>(_: &Body<'b, '_>, bytes: StoragePointer<'b>) -> Self::At<'b> {
        MemRangeAt { pointer: bytes.element_at(), len: N }
    }
}

/// A [`MemRange`] that has been allocated, as a kernel sees it: take a pointer or a tensor from it.
pub struct MemRangeAt<'b, T> {
    pointer: TensorPointer<'b, Shared<T>>,
    len: u32,
}

impl<T> Clone for MemRangeAt<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for MemRangeAt<'_, T> {}

impl<T: Element> std::fmt::Debug for MemRangeAt<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.len, self.pointer)
    }
}

/// Returns how many elements a layout spans, up to its last one. A swizzle moves indices to the end
/// of their block only if the layout reaches the bits that it permutes.
#[inline]
fn reached(layout: &ComposedLayout, at_most: u32) -> Result<u32, LayoutError> {
    let whole_blocks = super::view::tensor::shared_len(layout)?;
    if whole_blocks <= at_most || layout.swizzle_portion().is_identity() {
        return Ok(whole_blocks);
    }
    let last = layout.image()?.last().map_or(Some(0), |last| last.checked_add(1));
    let overflow = LayoutError::Overflow { operation: "the size of shared memory" };
    last.and_then(|len| u32::try_from(len).ok()).ok_or(overflow)
}

impl<'b, T: Element> MemRangeAt<'b, T> {
    /// Makes a range of `len` elements at a pointer.
    pub(super) fn new(pointer: TensorPointer<'b, Shared<T>>, len: u32) -> Self {
        MemRangeAt { pointer, len }
    }

    /// Returns the element count: CuTe DSL's `size`. Use it as the bound of a loop over the range.
    #[expect(clippy::len_without_is_empty, reason = "CuTe's `size`; a range of nothing has no use")]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the bits per element, for example 32 for `f32`: CuTe DSL's `elem_width`.
    pub fn elem_width(&self) -> u32 {
        T::SCALAR.bits()
    }

    /// Returns the size in bytes. A bulk copy that fills the range makes its barrier expect this
    /// many bytes.
    pub fn size_in_bytes(&self) -> u32 {
        self.len * T::SCALAR.size_bytes()
    }

    /// Returns the pointer to the first element, for example to pass it to an instruction that
    /// takes an address: CuTe DSL's `data_ptr`.
    pub fn data_ptr(&self) -> TensorPointer<'b, Shared<T>> {
        self.pointer
    }

    /// Returns the pointer to an element: CuTe DSL's `[index]`. It is a build error if `index` is
    /// out of bounds.
    #[track_caller]
    pub fn at(&self, index: u32) -> TensorPointer<'b, Shared<T>> {
        let k = &self.pointer.body();
        if index >= self.len {
            let kind =
                TensorErrorKind::NoSuchElement { index: index.into(), len: self.len as usize };
            let operand = format!("{} x {}", self.len, self.pointer);
            k.report(TensorError { operation: "at", operand, kind });
            return self.pointer;
        }
        self.pointer + i64::from(index)
    }

    /// Returns a tensor over the range, with a plain or swizzled layout: CuTe DSL's `get_tensor`.
    /// It is a build error if the layout needs more elements than there are.
    #[track_caller]
    pub fn tensor(&self, layout: impl Into<ComposedLayout>) -> SharedTensor<'b, T> {
        self.tensor_as::<T>(layout)
    }

    /// Like [`tensor`](MemRangeAt::tensor), with another element type for the same bytes. Use it to
    /// reuse a buffer, for example if the epilogue stages `bf16` results in memory that held `f32`
    /// operands.
    #[track_caller]
    pub fn tensor_as<U: Element>(&self, layout: impl Into<ComposedLayout>) -> SharedTensor<'b, U> {
        let k = &self.pointer.body();
        let layout = layout.into();
        let size = U::SCALAR.size_bytes();
        let needed = reached(&layout, self.size_in_bytes() / size);
        let needed = needed.map(|len| len.saturating_mul(size));
        let kind: Option<TensorErrorKind> = match needed {
            Ok(needed) if needed <= self.size_in_bytes() => None,
            Ok(needed) => {
                Some(TensorErrorKind::RangeTooShort { needed, bytes: self.size_in_bytes() })
            }
            Err(error) => Some(error.into()),
        };
        let tensor = Tensor::new(self.pointer.recast::<U>(), &layout);
        match kind {
            None => tensor,
            Some(kind) => {
                let operand = format!("{} x {} o {layout}", self.len, self.pointer);
                k.report(TensorError { operation: "get_tensor", operand, kind });
                tensor.poison()
            }
        }
    }
}

/// `S`, aligned to `BYTES` bytes, a power of two: CuTe DSL's `struct.Align`. The size stays the
/// same. Use it for example for a TMA tile, which needs 128 bytes, or 1024 with the 128-byte
/// swizzle.
///
/// ```
/// use tilewright::tensor::storage::{Align, MemRange, Storage};
/// assert_eq!(<Align<MemRange<f32, 3>, 16> as Storage>::ALIGN, 16);
/// assert_eq!(<Align<MemRange<f32, 3>, 16> as Storage>::SIZE, 12);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Align<S, const BYTES: u32> {
    #[doc(hidden)]
    Never(std::convert::Infallible, std::marker::PhantomData<fn() -> S>),
}

impl<S: Storage, const BYTES: u32> Storage for Align<S, BYTES> {
    const SIZE: u32 = S::SIZE;
    const ALIGN: u32 = {
        assert!(BYTES.is_power_of_two(), "alignment must be a power of two");
        if BYTES > S::ALIGN { BYTES } else { S::ALIGN }
    };
    type At<'b> = S::At<'b>;

    #[track_caller]
    fn at<'b>(k: &Body<'b, '_>, bytes: StoragePointer<'b>) -> Self::At<'b> {
        S::at(k, bytes)
    }
}

/// Returns the next multiple of `align`; [`storage!`](crate::storage) computes member offsets with
/// it.
#[doc(hidden)]
pub const fn round_up(offset: u32, align: u32) -> u32 {
    offset.div_ceil(align) * align
}

/// Declares structs and unions in shared memory, laid out as in C. Use it to give barriers, tiles
/// and scalars one address computation and named fields.
///
/// A member is a scalar, a [`MemRange`](crate::tensor::storage::MemRange), an
/// [`Align`](crate::tensor::storage::Align) of one of these, or another declared type, written with
/// the lifetime `'static`. The declared type has the members as public fields: a scalar becomes a
/// [`TensorPointer`](crate::tensor::view::TensorPointer) to load and store, a range a
/// [`MemRangeAt`](crate::tensor::storage::MemRangeAt), a struct its own type. The lifetime is that
/// of the body in which the storage is allocated.
///
/// A struct's members start at the next multiple of their alignment, a union's members all at 0.
/// The type's alignment is its members' maximum, and its size is padded to it.
///
/// ```
/// use tilewright::ir::{Kernel, Target};
/// use tilewright::tensor::storage::{Align, MemRange, Storage};
///
/// tilewright::storage! {
///     /// A complex number.
///     struct Complex<'b> { real: f32, imag: f32 }
///     struct Tiles<'b> {
///         full: MemRange<i64, 3>,
///         a: Align<MemRange<f32, 100>, 1024>,
///         factor: Complex<'static>,
///         count: i16,
///     }
///     union Word<'b> { as_int: i32, as_float: f32 }
/// }
///
/// assert_eq!((Tiles::size_of(), Tiles::align_of()), (2048, 1024));
/// assert_eq!(Tiles::OFFSETS, [("full", 0), ("a", 1024), ("factor", 1424), ("count", 1432)]);
/// assert_eq!((Word::SIZE, Word::ALIGN), (4, 4));
/// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     let tiles = Tiles::allocate(k);
///     tiles.a.at(0).store(1.0);
///     tiles.factor.real.store(tiles.a.at(0).load() * 2.0);
///     tiles.count.store(3);
///     let word = Word::allocate(k);
///     word.as_float.store(1.0);
///     word.as_int.load(); // 0x3f80_0000
/// })?;
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[macro_export]
macro_rules! storage {
    () => {};
    (
        $(#[$meta:meta])* $vis:vis struct $Name:ident<$body:lifetime> {
            $($(#[$field_meta:meta])* $field:ident: $Field:ty),+ $(,)?
        } $($rest:tt)*
    ) => {
        $crate::__storage_type! {
            [$(#[$meta])*] [$vis] $Name $body [$($(#[$field_meta])* $field: $Field),+]
            next |offset: u32, size: u32, align: u32| $crate::tensor::storage::round_up(offset, align)
        }
        $crate::storage! { $($rest)* }
    };
    (
        $(#[$meta:meta])* $vis:vis union $Name:ident<$body:lifetime> {
            $($(#[$field_meta:meta])* $field:ident: $Field:ty),+ $(,)?
        } $($rest:tt)*
    ) => {
        $crate::__storage_type! {
            [$(#[$meta])*] [$vis] $Name $body [$($(#[$field_meta])* $field: $Field),+]
            next |offset: u32, size: u32, align: u32| 0
        }
        $crate::storage! { $($rest)* }
    };
}

/// One type that [`storage!`](crate::storage) declares.
#[doc(hidden)]
#[macro_export]
macro_rules! __storage_type {
    (
        [$($meta:tt)*] [$vis:vis] $Name:ident $body:lifetime
        [$($(#[$field_meta:meta])* $field:ident: $Field:ty),+]
        next |$offset:ident: u32, $size:ident: u32, $align:ident: u32| $start:expr
    ) => {
        $($meta)*
        $vis struct $Name<$body> {
            $(
                $(#[$field_meta])*
                pub $field: <$Field as $crate::tensor::storage::Storage>::At<$body>
            ),+
        }

        impl $Name<'static> {
            /// The members' names with their offsets in bytes, for example to compare them with a C
            /// struct.
            pub const OFFSETS: [(&'static str, u32); [$(stringify!($field)),+].len()] = {
                let mut offsets = [$((stringify!($field), 0)),+];
                let members = [$((
                    <$Field as $crate::tensor::storage::Storage>::SIZE,
                    <$Field as $crate::tensor::storage::Storage>::ALIGN,
                )),+];
                let (mut $offset, mut i) = (0, 0);
                while i < members.len() {
                    let ($size, $align) = members[i];
                    let _ = $align;
                    let start: u32 = $start;
                    offsets[i].1 = start;
                    $offset = start + $size;
                    i += 1;
                }
                let _ = $offset;
                offsets
            };
        }

        impl $crate::tensor::storage::Storage for $Name<'static> {
            const SIZE: u32 = {
                let sizes = [$(<$Field as $crate::tensor::storage::Storage>::SIZE),+];
                let (mut end, mut i) = (0, 0);
                while i < sizes.len() {
                    let after = Self::OFFSETS[i].1 + sizes[i];
                    end = if after > end { after } else { end };
                    i += 1;
                }
                $crate::tensor::storage::round_up(end, <Self as $crate::tensor::storage::Storage>::ALIGN)
            };
            const ALIGN: u32 = {
                let aligns = [$(<$Field as $crate::tensor::storage::Storage>::ALIGN),+];
                let (mut align, mut i) = (1, 0);
                while i < aligns.len() {
                    align = if aligns[i] > align { aligns[i] } else { align };
                    i += 1;
                }
                align
            };
            type At<'at> = $Name<'at>;

            #[track_caller]
            fn at<'at>(
                k: &$crate::ir::Body<'at, '_>,
                bytes: $crate::tensor::storage::StoragePointer<'at>,
            ) -> $Name<'at> {
                let mut offsets = Self::OFFSETS.iter().map(|(_, offset)| i64::from(*offset));
                $(
                    let $field = <$Field as $crate::tensor::storage::Storage>::at(
                        k,
                        bytes + offsets.next().unwrap_or(0),
                    );
                )+
                $Name { $($field),+ }
            }
        }
    };
}
