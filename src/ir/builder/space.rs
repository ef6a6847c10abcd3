//! Generic pointers: conversion from and to a memory space, and the test of their space.

use super::typed::{
    Constant, Element, Generic, GenericMut, Global, GlobalMut, Local, Pointer, Shared,
    SharedCluster, Val,
};
use crate::ir::op::Mem;
use crate::ir::types::{Space, Type};

/// A type of pointers into one space.
pub trait SpacePointer: Pointer {
    /// The generic pointers to the same elements, which may be written where these may.
    type Generic: GenericPointer<Elem = Self::Elem>;
    /// The space that they point into.
    const SPACE: Space;
}

/// A type of generic pointers: [`Generic`] and [`GenericMut`].
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

/// Generic pointers: one type for pointers into several spaces, so that one function or one loop accesses all of
/// them. An access finds the space by the address, which takes a little longer than where it is known.
///
/// ```
/// use tilewright::ir::{Body, GenericMut, GlobalMut, Kernel, Target, Val};
/// use tilewright::ir::types::Space;
///
/// fn sum<'b>(k: &mut Body<'b, '_>, x: Val<'b, GenericMut<i32>>) -> Val<'b, i32> {
///     k.for_(tilewright::ir::range(0, 4), 0, |k, i, sum| sum + x.load(k, i))
/// }
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sums", Target::SM_80, |k, (x,)| {
///     let (tile, mine) = (k.shared::<i32>(4), k.local_array::<i32>(4));
///     k.for_(tilewright::ir::range(0, 4), (), |k, i, ()| {
///         tile.store(k, i, i * 10);
///         mine.store(k, i, i * 100);
///     });
///     let total = sum(k, x.cvta()) + sum(k, tile.cvta()) + sum(k, mine.cvta());
///     let is_shared = tile.cvta().isspacep(Space::Shared);
///     x.store(k, 0, is_shared.select(total, -1));
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
    /// Returns the generic pointer to the same address. PTX ISA 9.7.9.20 `cvta`.
    #[track_caller]
    pub fn cvta(self) -> Val<'b, P::Generic> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::Cvta { base })
    }
}

impl<'b, G: GenericPointer> Val<'b, G> {
    /// Returns the pointer of type `P` to the same address, which must be in the space of `P`: elsewhere it means nothing
    /// on a GPU, and is a fault of the simulator. PTX ISA 9.7.9.20 `cvta.to`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("count", Target::SM_80, |k, (x,)| {
    ///     x.cvta().cvta_to::<GlobalMut<u32>>().red().add(k, 0, 1);
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

    /// Returns whether the pointer points into `space`, not [`Space::Generic`]. Shared memory of the block is also
    /// shared memory of the cluster. PTX ISA 9.7.9.19 `isspacep`.
    #[track_caller]
    pub fn isspacep(self, space: Space) -> Val<'b, bool> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::Isspacep { base, space })
    }
}

impl<'b, P: Pointer> Val<'b, P> {
    /// The address, in bytes: `i64` of global and generic pointers, `i32` of others, in their space. Tile IR's
    /// `ptr_to_int`. The simulator has addresses of its own: those of one allocation are as far from each other as on a
    /// GPU, and allocations start at multiples of 256 bytes, those in shared and local memory where PTX has them.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<i64>,)>::build("far", Target::SM_80, |k, (x,)| {
    ///     let tile = k.shared::<f32>(8);
    ///     x.store(k, 0, x.offset(3).ptr_to_int() - x.ptr_to_int());
    ///     x.store(k, 1, (tile.offset(5).ptr_to_int() - tile.ptr_to_int()).cvt::<i64>());
    ///     x.store(k, 2, x.ptr_to_int() % 16);
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

    /// The pointer as one to shared memory of the block, if its type is; else `None`.
    pub fn as_shared(self) -> Option<Val<'b, Shared<P::Elem>>> {
        (space_of::<P>() == Some(Space::Shared)).then(|| Val::new(self.context(), self.id()))
    }

    /// The pointer as one to global memory that is only read, if its type is one to global memory; else `None`.
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

impl<'b> Val<'b, i64> {
    /// The pointer to global memory at this address, in bytes: the inverse of [`ptr_to_int`](Val::ptr_to_int), for example
    /// for an address that another kernel stored. Tile IR's `int_to_ptr`.
    ///
    /// On the simulator an address means what [`ptr_to_int`](Val::ptr_to_int) returned in the same launch: the same
    /// parameter. Every access is checked as others are.
    ///
    /// # Safety
    /// On a GPU nothing checks accesses through the pointer, also in a kernel that is loaded with checks. While the kernel
    /// runs they must stay inside one live allocation, at a multiple of the size of `T`. The kernel must not write what it
    /// reads through a [`Global`] parameter.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// # #[allow(unsafe_code)]
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("third", Target::SM_80, |k, (x,)| {
    ///     let address = x.ptr_to_int() + 8;
    ///     // SAFETY: `x` has three elements.
    ///     let third = unsafe { address.int_to_ptr::<f32>() };
    ///     third.store(k, 0, 3.0);
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
