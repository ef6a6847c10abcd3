//! [`TensorPointer`]: an address with its known alignment and its swizzle. Wrap a kernel parameter
//! in one to promise an alignment, which is what allows vector accesses.

use std::fmt;

use crate::ir::builder::DeviceCoord;
use crate::ir::types::{Space, Type};
use crate::ir::{Body, Element, MutPointer, Pointer as PointerType, Shared, Val};
use crate::layout::{Int, Layout, LayoutError, Swizzle, bits_of};

mod offset;
mod recast;

pub use self::offset::PointerOffset;
pub use self::recast::Recast;

use super::coord::{DevicePart, Parts, is_narrow};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// The address of an element with its known alignment: CuTe's pointer with `assumed_align`.
///
/// Offsets count elements. A host offset costs nothing, because it becomes part of the load's or
/// store's address. The alignment follows the offset's divisibility: `p + n` is aligned to the
/// largest power of two that divides both `p`'s alignment and the size of `n` elements.
///
/// ```
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::tensor::view::TensorPointer;
///
/// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
///     let x = TensorPointer::new(x).assume_aligned(16);
///     assert_eq!(x.to_string(), "ptr<f32, gmem, align<16>>");
///     assert_eq!((x + 2).alignment(), 8);
///     assert_eq!((4i64 + x).alignment(), 16);
///     assert_eq!((x - 1).alignment(), 4);
///     let thread = k.thread_idx().x;
///     assert_eq!((x + thread).alignment(), 4); // nothing is known of the number of the thread
///     assert_eq!((x + thread * 4).alignment(), 16); // `Val::divisor` is 4
/// })?;
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
pub struct TensorPointer<'b, P> {
    base: Val<'b, P>,
    /// In elements. Applied before the swizzle, if there is one.
    offset: i64,
    /// The alignment of `base`, in bytes.
    align: u32,
    swizzle: Option<Swizzled<'b, P>>,
}

/// A swizzled pointer: `*(p + i)` is the element at `base[S(offset + i)]`.
struct Swizzled<'b, P> {
    swizzle: Swizzle,
    moved: Option<Moved<'b, P>>,
}

/// The device part of an offset, before the swizzle `S`.
struct Moved<'b, P> {
    offset: Val<'b, i32>,
    /// `S(offset)`.
    image: Val<'b, i32>,
    /// `base + S(offset)`.
    base: Val<'b, P>,
    /// The bits that `offset` may set, if they are known.
    bits: Option<i64>,
    /// A divisor of `offset`.
    divisor: u64,
}

impl<P> Clone for TensorPointer<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for TensorPointer<'_, P> {}
impl<P> Clone for Swizzled<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Swizzled<'_, P> {}
impl<P> Clone for Moved<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Moved<'_, P> {}

/// What the host knows of a pointer that control flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointerPart {
    align: u32,
    /// The swizzle and the host offset before it.
    swizzle: Option<(Swizzle, i64)>,
}

impl PointerPart {
    /// Returns the part that is true for both pointers, or `None` if their swizzles differ.
    pub(super) fn joined(&self, other: &PointerPart) -> Option<PointerPart> {
        let align = self.align.min(other.align);
        (self.swizzle == other.swizzle).then_some(PointerPart { align, ..*self })
    }
}

/// For example `to a multiple of 16 bytes under S<3,4,3> + 0`.
impl fmt::Display for PointerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to a multiple of {} bytes", self.align)?;
        match self.swizzle {
            Some((swizzle, offset)) => write!(f, " under {swizzle} + {offset}"),
            None => Ok(()),
        }
    }
}

/// Returns the largest power of two that divides `value`, at most `limit`; `limit` itself for 0.
/// `limit` must be a power of two.
fn power_of_two(value: u64, limit: u64) -> u64 {
    if value == 0 { limit } else { (1 << value.trailing_zeros()).min(limit) }
}

/// Returns the largest alignment that divides `bytes`, at most `limit`, a power of two.
fn alignment_of(bytes: u64, limit: u32) -> u32 {
    u32::try_from(power_of_two(bytes, limit.into())).unwrap_or(limit)
}

const OVERFLOW: LayoutError = LayoutError::Overflow { operation: "the offset of a pointer" };

impl<'b> TensorPointer<'b, Shared<u8>> {
    /// Casts the pointer to a storage member, whose offset is a multiple of its element size.
    #[track_caller]
    pub(in crate::tensor) fn element_at<T: Element>(self) -> TensorPointer<'b, Shared<T>> {
        self.retyped()
    }
}

impl<'b, P: PointerType> From<Val<'b, P>> for TensorPointer<'b, P> {
    fn from(base: Val<'b, P>) -> Self {
        TensorPointer::new(base)
    }
}

impl<'b, P: PointerType> TensorPointer<'b, P> {
    /// Returns a handle of the innermost open body of the pointer's kernel.
    pub(in crate::tensor) fn body(&self) -> Body<'b, 'b> {
        self.base.body()
    }

    /// Makes a tensor pointer from a kernel parameter or an allocation, which is naturally aligned.
    /// Add [`assume_aligned`](TensorPointer::assume_aligned) if you know more.
    pub fn new(base: Val<'b, P>) -> Self {
        TensorPointer { base, offset: 0, align: P::Elem::scalar().size_bytes(), swizzle: None }
    }

    /// Promises that the address is a multiple of `bytes`: CuTe's `assumed_align`. Wherever the
    /// kernel relies on the promise, a launch with a less aligned buffer is a fault.
    ///
    /// It is a build error if `bytes` is not a power of two.
    #[doc(alias = "tl.multiple_of")]
    #[track_caller]
    pub fn assume_aligned(self, bytes: u32) -> Self {
        let k = &self.body();
        if !bytes.is_power_of_two() {
            let kind = TensorErrorKind::AlignmentNotPowerOfTwo { bytes };
            k.report(TensorError { operation: "assume_aligned", operand: self.to_string(), kind });
            return self;
        }
        if self.swizzle.is_some() || self.offset == 0 || self.alignment() >= bytes {
            return TensorPointer { align: self.align.max(bytes), ..self };
        }
        // The promise is about the address with its host offset.
        TensorPointer { base: self.base.offset(self.offset), offset: 0, align: bytes, ..self }
    }

    /// Forgets all but the natural alignment. Use it before a loop that carries a pointer, if the
    /// pointer's later values are less aligned than its first one: both must promise the same.
    pub fn without_alignment(self) -> Self {
        TensorPointer { align: P::Elem::scalar().size_bytes(), ..self }
    }

    /// What the host knows of the pointer when control flow carries it.
    pub(super) fn part(&self) -> PointerPart {
        match self.swizzle {
            None => PointerPart { align: self.alignment(), swizzle: None },
            Some(Swizzled { swizzle, .. }) => {
                PointerPart { align: self.align, swizzle: Some((swizzle, self.offset)) }
            }
        }
    }

    /// The value that the device carries for this pointer. A swizzled pointer that a device value
    /// has moved would need two values, so it is a build error.
    #[track_caller]
    pub(super) fn carried(&self) -> Val<'b, P> {
        match self.swizzle {
            None if self.offset == 0 => self.base,
            None => self.base.offset(self.offset),
            Some(Swizzled { moved: None, .. }) => self.base,
            Some(Swizzled { moved: Some(_), .. }) => {
                let kind = TensorErrorKind::CarriedSwizzle;
                let operand = self.to_string();
                self.base.report(TensorError { operation: "carry", operand, kind });
                self.base
            }
        }
    }

    /// Rebuilds a carried pointer from what the host knows of it.
    pub(super) fn with_part(self, part: &PointerPart) -> Self {
        let (swizzle, offset) = part.swizzle.map_or((None, 0), |(swizzle, offset)| {
            (Some(Swizzled { swizzle, moved: None }), offset)
        });
        TensorPointer { base: self.base, offset, align: part.align, swizzle }
    }

    /// Rounds the address up to a multiple of `bytes`: CuTe DSL's `align`. The kernel computes it,
    /// unless the pointer is known to be aligned already.
    ///
    /// It is a build error if `bytes` is not a power of two, or if the pointer is swizzled, because
    /// moving the start would permute other elements.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::view::TensorPointer;
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let at = (TensorPointer::new(x) + k.thread_idx().x).align(16);
    ///     assert_eq!((at.alignment(), (at + 2).alignment()), (16, 8));
    ///     at.store(7);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[-1; 12])?;
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [6, 1, 1]), (&mut x,))?;
    /// // Thread 0 stays, threads 1 to 4 write element 4, and thread 5 element 8.
    /// let x = x.to_vec()?;
    /// assert_eq!((0..12).filter(|i| x[*i] >= 0).collect::<Vec<_>>(), [0, 4, 8]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn align(self, bytes: u32) -> Self {
        let k = &self.body();
        let operation = "align";
        let kind = match self.swizzle {
            None if bytes.is_power_of_two() => None,
            Some(_) => {
                let argument = "a swizzled pointer: align it before it is swizzled".to_owned();
                Some(LayoutError::Unsupported { operation, argument }.into())
            }
            None => Some(TensorErrorKind::AlignmentNotPowerOfTwo { bytes }),
        };
        if let Some(kind) = kind {
            k.report(TensorError { operation, operand: self.to_string(), kind });
            return self;
        }
        if self.alignment() >= bytes {
            return self;
        }
        // The distance to the next multiple is a whole count of elements: their size divides both.
        let address = self.toint().cvt::<i64>();
        let bytes_on = -address & i64::from(bytes - 1);
        let moved = self.add_device(bytes_on >> size_of_element::<P>().trailing_zeros(), 1);
        // The host offset was rounded up too, so it moves into the base.
        let (base, offset) = moved.resolve();
        let base = if offset == 0 { base } else { base.offset(offset) };
        TensorPointer { base, offset: 0, align: bytes, swizzle: None }
    }

    /// Returns the element type that the pointer points to: CuTe DSL's `dtype`.
    pub fn dtype(&self) -> crate::ir::types::Scalar {
        P::Elem::scalar()
    }

    /// Returns the memory space that the pointer points into, for example to choose between
    /// `ldmatrix` and plain loads.
    pub fn space(&self) -> Space {
        match P::ty() {
            Type::Pointer { space, .. } => space,
            // Every pointer type has an IR pointer type, so this arm is never taken.
            Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => Space::Global,
        }
    }

    /// Returns the address's known alignment in bytes, a power of two. It limits how wide a vector
    /// access can be.
    ///
    /// Under a swizzle it is the lowest alignment that the element can have.
    pub fn alignment(&self) -> u32 {
        alignment_of(self.divisor() * size_of_element::<P>(), self.max_alignment())
    }

    /// The known divisor of the offset, a power of two.
    fn divisor(&self) -> u64 {
        let moved = self.swizzle.and_then(|swizzled| swizzled.moved).map(|moved| moved.divisor);
        let moved = moved.map_or(1 << 32, |divisor| power_of_two(divisor, 1 << 32));
        power_of_two(self.offset.unsigned_abs(), moved)
    }

    /// The known alignment in bytes if the swizzle does not move the first element, else
    /// [`alignment`](TensorPointer::alignment). An offset of whole swizzle blocks keeps the base's
    /// alignment, which can be more than the run of elements that the swizzle keeps together.
    pub(in crate::tensor) fn start_alignment(&self) -> u32 {
        let Some(Swizzled { swizzle, .. }) = self.swizzle else { return self.alignment() };
        let plain = self.divisor();
        let whole = plain > (swizzle.y_mask() | swizzle.z_mask()).unsigned_abs();
        if whole {
            alignment_of(plain * size_of_element::<P>(), self.align)
        } else {
            self.alignment()
        }
    }

    /// Returns the element's address without a swizzle.
    #[track_caller]
    pub(in crate::tensor) fn plain(&self) -> Self {
        let align = self.alignment();
        let (base, offset) = self.resolve();
        TensorPointer { base, offset, align: align.min(self.align), swizzle: None }
    }

    /// The highest alignment that any element can have, in bytes: the alignment of the base, or, if
    /// it is smaller, the run of elements that the swizzle moves as a whole. CuTe DSL's
    /// `max_alignment`. Unlike [`alignment`](TensorPointer::alignment), it does not depend on the
    /// pointer's offset.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::ComposedLayout;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     // The swizzle keeps 4 neighbours together.
    ///     let layout: ComposedLayout = "S<2,2,3> o 0 o (8,32):(32,1)".parse()?;
    ///     let tile = SharedTensor::<f32>::shared_aligned(k, layout, 128);
    ///     assert_eq!((tile.data().max_alignment(), (*tile.data() + 1).max_alignment()), (16, 16));
    ///     assert_eq!((tile.data().alignment(), (*tile.data() + 1).alignment()), (16, 4));
    ///     Ok::<(), tilewright::layout::LayoutError>(())
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn max_alignment(&self) -> u32 {
        let block = self.swizzle.map_or(1 << 32, |Swizzled { swizzle, .. }| {
            swizzle.max_alignment().unsigned_abs().max(1)
        });
        alignment_of(block * size_of_element::<P>(), self.align)
    }

    /// Returns the swizzle that offsets pass through, or `None` for plain memory. Check it before
    /// you treat the memory as contiguous.
    pub fn swizzle(&self) -> Option<Swizzle> {
        self.swizzle.map(|swizzled| swizzled.swizzle)
    }

    /// Swizzles all offsets from here on; the pointer itself is at `offset`.
    #[track_caller]
    pub(in crate::tensor) fn swizzled(self, swizzle: Swizzle, offset: i64) -> Self {
        let (base, at) = self.resolve();
        let base = if at == 0 { base } else { base.offset(at) };
        let align = self.alignment();
        TensorPointer { base, offset, align, swizzle: Some(Swizzled { swizzle, moved: None }) }
    }

    /// Moves the pointer by `offset` elements. If the sum overflows `i64` it saturates, and no
    /// memory has that address.
    pub(in crate::tensor) fn add_host(self, offset: i64) -> Self {
        TensorPointer { offset: self.offset.saturating_add(offset), ..self }
    }

    #[track_caller]
    pub(in crate::tensor) fn add_device<I: crate::ir::builder::MemIndex>(
        self,
        offset: Val<'b, I>,
        divisor: u64,
    ) -> Self {
        match self.swizzle {
            None => {
                let align =
                    alignment_of(divisor.saturating_mul(size_of_element::<P>()), self.align);
                TensorPointer { base: self.base.offset(offset), align, ..self }
            }
            Some(swizzled) => self.add_swizzled(swizzled, offset.cvt::<i32>(), None, divisor),
        }
    }

    /// Adds a device offset before the swizzle; it sets no bits outside `bits`.
    #[track_caller]
    fn add_swizzled(
        self,
        Swizzled { swizzle, moved }: Swizzled<'b, P>,
        offset: Val<'b, i32>,
        bits: Option<i64>,
        divisor: u64,
    ) -> Self {
        // If all offsets are multiples of the swizzle's block, the swizzle changes neither them nor
        // what is added to them.
        let block = (swizzle.y_mask() | swizzle.z_mask()).unsigned_abs();
        let whole = power_of_two(divisor, 1 << 32) > block;
        let (offset, image, base, bits, divisor) = match moved {
            None if whole => (offset, offset, self.base.offset(offset), bits, divisor),
            None => {
                let image = swizzle_device(swizzle, offset);
                (offset, image, self.base.offset(image), bits, divisor)
            }
            Some(moved) => {
                let disjoint = |(a, b): (i64, i64)| (a & b == 0).then_some(a | b);
                let bits = moved.bits.zip(bits).and_then(disjoint);
                let divisor = power_of_two(divisor, power_of_two(moved.divisor, 1 << 32));
                let sum = moved.offset + offset;
                if whole {
                    (sum, moved.image + offset, moved.base.offset(offset), bits, divisor)
                } else {
                    let image = swizzle_device(swizzle, sum);
                    (sum, image, self.base.offset(image), bits, divisor)
                }
            }
        };
        let moved = Some(Moved { offset, image, base, bits, divisor });
        TensorPointer { swizzle: Some(Swizzled { swizzle, moved }), ..self }
    }

    /// Returns the address as a pointer and a host offset in elements.
    #[track_caller]
    pub(in crate::tensor) fn resolve(&self) -> (Val<'b, P>, i64) {
        let Some(Swizzled { swizzle, moved }) = self.swizzle else {
            return (self.base, self.offset);
        };
        let Some(Moved { offset, image: moved_image, base, bits, .. }) = moved else {
            return (self.base, swizzle.apply(self.offset));
        };
        // A swizzle keeps an offset of whole blocks as it is, and does not mix it with the rest.
        let block = (swizzle.y_mask() | swizzle.z_mask()).checked_add(1).unwrap_or(1);
        let block = block.unsigned_abs().next_power_of_two();
        let low = i64::try_from(self.offset.unsigned_abs() % block).unwrap_or(0);
        let low = if self.offset < 0 && low != 0 { block as i64 - low } else { low };
        let high = self.offset.saturating_sub(low);
        if low == 0 {
            return (base, high);
        }
        let image = swizzle.apply(low);
        // A swizzle is linear over bits: if `a` and `b` share no bits, `S(a + b) == S(a) ^ S(b)`.
        // That is again a sum if the images share none.
        let disjoint = bits.filter(|bits| bits & low == 0);
        // The bits of the host image that the device image may set too.
        let shared = disjoint.map(|bits| spread(swizzle, bits) & image);
        match (shared, shared.and_then(narrow), narrow(low)) {
            (Some(0), ..) => (base, image.saturating_add(high)),
            (Some(shared), Some(bits), _) => {
                (self.base.offset(moved_image ^ bits), (image - shared).saturating_add(high))
            }
            (_, _, Some(low)) => (self.base.offset(swizzle_device(swizzle, offset + low)), high),
            // No memory reaches this far, so the access itself reports it.
            _ => (base, self.offset),
        }
    }

    /// Moves the pointer by `offset` elements: the constant part on the host, symbols on the
    /// device.
    #[track_caller]
    pub(in crate::tensor) fn add_int(
        &self,
        k: &Body<'b, '_>,
        offset: &Int,
    ) -> Result<Self, TensorErrorKind> {
        let number = offset.constant_part();
        let host = self.offset.checked_add(number).ok_or(OVERFLOW)?;
        let moved = TensorPointer { offset: host, ..*self };
        let symbols = offset.sub(&number.into())?;
        if symbols.is(0) {
            return Ok(moved);
        }
        let divisor = symbols.divisibility().unsigned_abs();
        if let Some(swizzled) = self.swizzle {
            return Ok(moved.add_swizzled(swizzled, k.int(&symbols), None, divisor));
        }
        let (min, max) = symbols.bounds();
        if narrow(min).and(narrow(max)).is_some() {
            return Ok(moved.add_device(k.int::<i32>(&symbols), divisor));
        }
        Ok(moved.add_device(k.int::<i64>(&symbols), divisor))
    }

    /// Moves the pointer to a coordinate of `layout`; each `_` counts as 0.
    #[track_caller]
    pub(in crate::tensor) fn advance(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        coord: &DeviceCoord<'b>,
    ) -> Result<Self, TensorErrorKind> {
        let Parts { host, device } = Parts::new(coord)?;
        let (_, offset) = layout.slice_and_offset(&host)?;
        let moved = self.add_int(k, offset.to_int()?)?;
        match device {
            None => Ok(moved),
            Some(device) => moved.advance_device(k, layout, &device),
        }
    }

    #[track_caller]
    fn advance_device(
        self,
        k: &Body<'b, '_>,
        layout: &Layout,
        device: &DevicePart<'b>,
    ) -> Result<Self, TensorErrorKind> {
        let modes = device.modes(layout)?;
        let divisor = device.divisor(&modes)?.unsigned_abs();
        if let Some(swizzled) = self.swizzle {
            let Some(offset) = device.offset::<i32>(k, &modes) else { return Ok(self) };
            return Ok(self.add_swizzled(swizzled, offset, bits_of(modes.as_ref()), divisor));
        }
        if is_narrow(&modes) {
            let Some(offset) = device.offset::<i32>(k, &modes) else { return Ok(self) };
            return Ok(self.add_device(offset, divisor));
        }
        let Some(offset) = device.offset::<i64>(k, &modes) else { return Ok(self) };
        Ok(self.add_device(offset, divisor))
    }

    /// Returns the address in bytes ([`Val::ptr_to_int`]), for example to print it or to check its
    /// alignment: an `i64` for global and generic pointers, else an `i32`. CuTe DSL's `toint`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::tensor::view::TensorPointer;
    ///
    /// let kernel = Kernel::<(GlobalMut<i64>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let (at, tile) = (TensorPointer::new(x) + 2, TensorPointer::new(k.shared::<f32>(8)) + 5);
    ///     x.store(0, at.toint() + tile.toint().cvt::<i64>());
    /// })?;
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let device = Device::sim()?;
    /// let mut x = device.zeros::<i64>(1)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
    /// // Allocations start at multiples of 256 bytes.
    /// assert_eq!(x.to_vec()?[0] % 256, 2 * 8 + 5 * 4);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn toint(&self) -> Val<'b, P::Address> {
        self.to_pointer().ptr_to_int()
    }

    /// Returns a plain pointer to the element.
    #[track_caller]
    pub(crate) fn to_pointer(self) -> Val<'b, P> {
        let (base, offset) = self.resolve();
        if offset == 0 { base } else { base.offset(offset) }
    }

    /// Loads the element that the pointer points to. PTX ISA 9.7.9.8 `ld`.
    #[track_caller]
    pub fn load(&self) -> Val<'b, P::Elem> {
        let (base, offset) = self.resolve();
        base.load(offset)
    }

    /// Stores a value to the element that the pointer points to. PTX ISA 9.7.9.12 `st`.
    #[track_caller]
    pub fn store(&self, value: impl crate::ir::builder::IntoOperand<'b, P::Elem>)
    where
        P: MutPointer,
    {
        let (base, offset) = self.resolve();
        base.store(offset, value);
    }
}

fn size_of_element<P: PointerType>() -> u64 {
    P::Elem::scalar().size_bytes().into()
}

fn narrow(value: i64) -> Option<i32> {
    i32::try_from(value).ok()
}

/// Returns the bits that `S(x)` may set if `x` sets none outside `bits`.
fn spread(swizzle: Swizzle, bits: i64) -> i64 {
    let read = bits & swizzle.y_mask();
    let shift = swizzle.shift();
    bits | if shift >= 0 { read >> shift } else { read << -shift }
}

/// Computes `S(x)` on the device.
#[track_caller]
fn swizzle_device(swizzle: Swizzle, x: Val<'_, i32>) -> Val<'_, i32> {
    let Some(mask) = narrow(swizzle.y_mask()).filter(|mask| *mask != 0) else { return x };
    let (read, shift) = (x & mask, swizzle.shift());
    let amount = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
    x ^ if shift >= 0 { read >> amount } else { read << amount }
}

/// For example `ptr<f32, smem, align<16>, S<3,2,3>>`: element type, memory space, known alignment
/// and swizzle.
impl<P: PointerType> fmt::Display for TensorPointer<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = match self.space() {
            Space::Global => "gmem",
            Space::Shared => "smem",
            Space::SharedCluster => "dsmem",
            Space::Local => "lmem",
            Space::Const => "cmem",
            Space::Generic => "mem",
        };
        write!(f, "ptr<{}, {space}, align<{}>", self.dtype(), self.alignment())?;
        match self.swizzle() {
            Some(swizzle) => write!(f, ", {swizzle}>"),
            None => f.write_str(">"),
        }
    }
}

impl<P: PointerType> fmt::Debug for TensorPointer<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
