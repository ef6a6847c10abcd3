//! [`SmemAllocator`]: allocates shared memory piece by piece and tells how much a block uses. Use
//! it as you would CuTe DSL's class of the same name.

use crate::ir::{Body, Element};
use crate::layout::{ComposedLayout, LayoutError, Swizzle};

use super::{MemRangeAt, Storage};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::pointer::TensorPointer;
use crate::tensor::view::tensor::SharedTensor;

/// Allocates shared memory piece by piece and counts the bytes that a block uses: CuTe DSL's
/// `SmemAllocator`. Use it if sizes depend on the configuration; for a fixed set of members,
/// [`storage!`](crate::storage) is shorter.
///
/// Each piece starts at the next multiple of its alignment. What a kernel allocates in other ways
/// is counted too.
///
/// ```
/// use tilewright::ir::{Kernel, Target};
/// use tilewright::layout::{Swizzle, layout};
/// use tilewright::tensor::storage::{MemRange, SmemAllocator};
///
/// tilewright::storage! {
///     struct Barriers<'b> { full: MemRange<u64, 3>, empty: MemRange<u64, 3> }
/// }
/// let kernel = Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     let mut smem = SmemAllocator::new(k);
///     let barriers = smem.allocate::<Barriers<'static>>(k);
///     assert_eq!((barriers.empty.len(), smem.size_in_bytes()), (3, 48));
///     let factors = smem.allocate_array::<f32>(k, 5);
///     assert_eq!((factors.len(), smem.size_in_bytes()), (5, 68));
///     // The tile begins at the next multiple of 128 bytes.
///     let tile = smem.allocate_tensor::<f32>(
///         k, layout!((8, 32) : (32, 1)), 128, Swizzle::new(3, 2, 3).ok(),
///     );
///     assert_eq!(tile.to_string(), "ptr<f32, smem, align<16>, S<3,2,3>> o (8,32):(32,1)");
///     assert_eq!(smem.size_in_bytes(), 128 + 1024);
/// })?;
/// assert_eq!(kernel.ir().shared_layout().1, 1152);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmemAllocator {
    bytes: u64,
}

impl SmemAllocator {
    /// Makes an allocator that continues after what the kernel has already allocated.
    pub fn new(k: &Body<'_, '_>) -> Self {
        SmemAllocator { bytes: k.shared_bytes() }
    }

    /// Returns how many bytes of shared memory the block uses so far, padding included. Call it to
    /// check the configuration against the device's limit.
    pub fn size_in_bytes(&self) -> u64 {
        self.bytes
    }

    /// Allocates a scalar, a range, or a type that [`storage!`](crate::storage) declares,
    /// uninitialised. Use it for barriers and other small members.
    #[track_caller]
    pub fn allocate<'b, S: Storage>(&mut self, k: &Body<'b, '_>) -> S::At<'b> {
        let storage = S::allocate(k);
        self.bytes = k.shared_bytes();
        storage
    }

    /// Allocates `len` elements, uninitialised. Use it for a buffer that needs no layout, for
    /// example a row of factors.
    #[track_caller]
    pub fn allocate_array<'b, T: Element>(
        &mut self,
        k: &Body<'b, '_>,
        len: u32,
    ) -> MemRangeAt<'b, T> {
        let range = MemRangeAt::new(TensorPointer::new(k.shared::<T>(len)), len);
        self.bytes = k.shared_bytes();
        range
    }

    /// Allocates a tensor, for example a tile that TMA fills. Its elements are uninitialised and
    /// the first one is aligned to `byte_alignment`: a power of two, at least the element size.
    /// Pass `swizzle` if the layout has none of its own but its elements should be swizzled.
    ///
    /// It is a build error if you pass a swizzle for a layout that already has one, or if the
    /// layout has symbols.
    #[track_caller]
    pub fn allocate_tensor<'b, T: Element>(
        &mut self,
        k: &Body<'b, '_>,
        layout: impl Into<ComposedLayout>,
        byte_alignment: u32,
        swizzle: Option<Swizzle>,
    ) -> SharedTensor<'b, T> {
        let layout = layout.into();
        let composed = match swizzle {
            None => Ok(layout.clone()),
            Some(swizzle) => swizzled(swizzle, &layout),
        };
        let tensor = match composed {
            Ok(composed) => SharedTensor::shared_aligned(k, composed, byte_alignment),
            Err(error) => {
                let (operation, kind) = ("allocate_tensor", TensorErrorKind::from(error));
                k.report(TensorError { operation, operand: layout.to_string(), kind });
                SharedTensor::shared_aligned(k, layout, byte_alignment).poison()
            }
        };
        self.bytes = k.shared_bytes();
        tensor
    }
}

#[inline]
fn swizzled(swizzle: Swizzle, layout: &ComposedLayout) -> Result<ComposedLayout, LayoutError> {
    match layout.as_normal() {
        Some(plain) => ComposedLayout::new(swizzle, 0, plain),
        None => {
            let argument = format!("{swizzle} with a layout that is already composed");
            Err(LayoutError::Unsupported { operation: "allocate_tensor", argument })
        }
    }
}
