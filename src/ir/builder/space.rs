//! Pointer conversions: between a state space and generic pointers, and to and from integer
//! addresses. A function that accesses several kinds of memory takes a generic pointer, and a
//! kernel that stores pointers stores their addresses.

use super::typed::{
    Constant, Element, Generic, GenericMut, Global, GlobalMut, Local, Pointer, Shared,
    SharedCluster, Val,
};
use crate::ir::op::Mem;
use crate::ir::types::{Space, Type};

/// A pointer type into one state space, such as [`Global`] or [`Shared`]. You name it as a bound in
/// code that converts to and from generic pointers.
pub trait SpacePointer: Pointer {
    /// The generic pointer type for the same elements, mutable if this one is.
    type Generic: GenericPointer<Elem = Self::Elem>;
    /// The state space that the pointer points into.
    const SPACE: Space;
}

/// A generic pointer type: [`Generic`] or [`GenericMut`]. You name it as a bound.
pub trait GenericPointer: Pointer {}

impl<T: Element> GenericPointer for Generic<T> {}
impl<T: Element> GenericPointer for GenericMut<T> {}

macro_rules! spaces {
    ($($Pointer:ident: $Space:ident, $Generic:ident;)*) => {$(
        impl<T: Element> SpacePointer for $Pointer<T> {
            type Generic = $Generic<T>;
            const SPACE: Space = Space::$Space;
        }
    )*};
}

spaces! {
    Global: Global, Generic;
    GlobalMut: Global, GenericMut;
    Shared: Shared, GenericMut;
    SharedCluster: SharedCluster, GenericMut;
    Local: Local, GenericMut;
    Constant: Const, Generic;
}

/// # Generic pointers
///
/// Lets one function or loop access several state spaces through one pointer type. An access has to
/// find the space from the address, so it is a little slower than one through a typed pointer.
///
/// ```
/// use tilewright::ir::{Body, GenericMut, GlobalMut, Kernel, Target, Val};
/// use tilewright::ir::types::Space;
///
/// fn sum<'b>(k: &mut Body<'b, '_>, x: Val<'b, GenericMut<i32>>) -> Val<'b, i32> {
///     k.for_(tilewright::ir::range(0, 4), 0, |_, i, sum| sum + x.load(i))
/// }
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sums", Target::SM_80, |k, (x,)| {
///     let (tile, mine) = (k.shared::<i32>(4), k.local_array::<i32>(4));
///     k.for_(tilewright::ir::range(0, 4), (), |_, i, ()| {
///         tile.store(i, i * 10);
///         mine.store(i, i * 100);
///     });
///     let total = sum(k, x.cvta()) + sum(k, tile.cvta()) + sum(k, mine.cvta());
///     let is_shared = tile.cvta().isspacep(Space::Shared);
///     x.store(0, is_shared.select(total, -1));
/// })?;
/// assert!(kernel.ptx().text().contains("cvta.local.u64"));
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::{Device, Grid};
///
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1, 2, 3, 4])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?[0], 10 + 60 + 600);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, P: SpacePointer> Val<'b, P> {
    /// Converts the pointer to a generic one, for example to pass it to code that accepts any
    /// memory. PTX ISA 9.7.9.20 `cvta`.
    #[track_caller]
    pub fn cvta(self) -> Val<'b, P::Generic> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::Cvta { base })
    }
}

/// # Typed pointers from generic ones
///
/// Converts back. Call `isspacep` first if you do not know the state space.
impl<'b, G: GenericPointer> Val<'b, G> {
    /// Converts the generic pointer to one of type `P`. The address must be in the state space of
    /// `P`: otherwise the result is meaningless on a GPU, and a fault in the simulator. PTX ISA
    /// 9.7.9.20 `cvta.to`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("count", Target::SM_80, |_, (x,)| {
    ///     x.cvta().cvta_to::<GlobalMut<u32>>().red().add(0, 1);
    /// })?;
    /// assert!(kernel.ptx().text().contains("cvta.to.global.u64"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn cvta_to<P: SpacePointer<Generic = G>>(self) -> Val<'b, P> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::CvtaTo { base, space: P::SPACE })
    }

    /// Returns whether the pointer points into `space`, which must not be [`Space::Generic`]. Call
    /// it before [`cvta_to`](Val::cvta_to) if you do not know the space. The block's shared memory
    /// also counts as the cluster's. PTX ISA 9.7.9.19 `isspacep`.
    #[track_caller]
    pub fn isspacep(self, space: Space) -> Val<'b, bool> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::Isspacep { base, space })
    }
}

/// # Addresses and state spaces
///
/// Tells where a pointer points.
impl<'b, P: Pointer> Val<'b, P> {
    /// Returns the address in bytes, within the pointer's state space: `i64` for global and generic
    /// pointers, otherwise `i32`. Use it to store a pointer as data or to compute distances. It is
    /// Tile IR's `ptr_to_int`.
    ///
    /// The simulator has its own addresses. Distances within an allocation are those of a GPU, and
    /// allocations start at multiples of 256 bytes, or in shared and local memory where PTX places
    /// them.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<i64>,)>::build("far", Target::SM_80, |k, (x,)| {
    ///     let tile = k.shared::<f32>(8);
    ///     x.store(0, x.offset(3).ptr_to_int() - x.ptr_to_int());
    ///     x.store(1, (tile.offset(5).ptr_to_int() - tile.ptr_to_int()).cvt::<i64>());
    ///     x.store(2, x.ptr_to_int() % 16);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.zeros::<i64>(3)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [24, 20, 0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("toint", "__cvta_generic_to_shared"))]
    #[track_caller]
    pub fn ptr_to_int(self) -> Val<'b, P::Address> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::PtrToInt { base })
    }

    /// Returns the pointer as [`Shared`] if it has that type, otherwise `None`, so that generic
    /// code can use instructions for shared memory.
    pub fn as_shared(self) -> Option<Val<'b, Shared<P::Elem>>> {
        (space_of::<P>() == Some(Space::Shared)).then(|| Val::new(self.context(), self.id()))
    }

    /// Returns the pointer as [`Global`], for reading, if its type points to global memory,
    /// otherwise `None`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// Kernel::<(GlobalMut<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let tile = k.shared::<f32>(32);
    ///     assert!(x.as_global().is_some() && x.as_shared().is_none());
    ///     assert!(tile.as_global().is_none() && tile.as_shared().is_some());
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn as_global(self) -> Option<Val<'b, Global<P::Elem>>> {
        (space_of::<P>() == Some(Space::Global)).then(|| Val::new(self.context(), self.id()))
    }
}

/// # Pointers from addresses
///
/// Turns an address into a pointer. This is unsafe, because a GPU does not check the address.
impl<'b> Val<'b, i64> {
    /// Turns an address in bytes into a pointer to global memory, for example an address that
    /// another kernel stored. It is the inverse of [`ptr_to_int`](Val::ptr_to_int), and Tile IR's
    /// `int_to_ptr`.
    ///
    /// In the simulator, an address is valid only if [`ptr_to_int`](Val::ptr_to_int) returned it in
    /// the same launch, and points into the same parameter. Accesses are checked as usual.
    ///
    /// # Safety
    /// On a GPU nothing checks accesses through the pointer, not even if the kernel is loaded with
    /// checks. While the kernel runs, every access must stay inside one live allocation, at a
    /// multiple of the size of `T`. The kernel must not write what it also reads through a
    /// [`Global`] parameter.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// # #[allow(unsafe_code)]
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("third", Target::SM_80, |_, (x,)| {
    ///     let address = x.ptr_to_int() + 8;
    ///     // SAFETY: `x` has three elements.
    ///     let third = unsafe { address.int_to_ptr::<f32>() };
    ///     third.store(0, 3.0);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.zeros::<f32>(3)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [0.0, 0.0, 3.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(unsafe_code, reason = "the caller promises what the kernel that is built accesses")]
    #[doc(alias = "reinterpret_cast")]
    #[track_caller]
    pub unsafe fn int_to_ptr<T: Element>(self) -> Val<'b, GlobalMut<T>> {
        let cx = self.context();
        let address = cx.operand(self);
        cx.emit_val(Mem::IntToPtr { address, to: T::scalar() })
    }
}

fn space_of<P: Pointer>() -> Option<Space> {
    match P::ty() {
        Type::Pointer { space, .. } => Some(space),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
    }
}
