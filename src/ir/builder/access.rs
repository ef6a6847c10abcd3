//! Loads and stores with an order or hints for the caches, and what caches are told.

use super::body::Body;
use super::typed::{IntoVal, MemIndex, MutPointer, Pointer, Val};
use crate::ir::op::{Cache, LoadAccess, Mem, PrefetchLevel, StoreAccess};

/// Accesses with an order, a scope or hints for the caches.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, LoadAccess, MemScope, StoreAccess, Target};
///
/// type Signal = (Global<f32>, GlobalMut<f32>, GlobalMut<u32>);
/// let kernel = Kernel::<Signal>::build("signal", Target::SM_80, |k, (x, y, flag)| {
///     let v = x.load_with(k, 0, LoadAccess::default().non_coherent());
///     y.store(k, 0, v);
///     flag.store_with(k, 0, 1, StoreAccess::default().release(MemScope::Gpu));
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("ld.global.nc.f32"));
/// assert!(ptx.text().contains("st.release.gpu.global.u32"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<P: Pointer> Val<'_, P> {
    /// `*(self + index)`, `index` in elements, accessed as `access` says. PTX ISA 9.7.9.8 `ld`, 9.7.9.9
    /// `ld.global.nc`.
    #[track_caller]
    pub fn load_with<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        access: LoadAccess,
    ) -> Val<'c, P::Elem> {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit_val(Mem::Ld { base, index, access })
    }

    /// `*(self + index) = value`, `index` in elements, accessed as `access` says. PTX ISA 9.7.9.12 `st`.
    #[track_caller]
    pub fn store_with<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        value: impl IntoVal<'c, P::Elem>,
        access: StoreAccess,
    ) where
        P: MutPointer,
    {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let value = cx.operand_of(value);
        cx.emit(Mem::St { base, index, value, access });
    }
}

/// What caches are told about global memory. Nothing but speed depends on it, but for
/// [`discard`](Val::discard).
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, PrefetchLevel, Target};
///
/// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("next", Target::SM_80, |k, (x, n)| {
///     x.prefetch(k, n, PrefetchLevel::L2);
///     x.store(k, 0, 1.0);
/// })?;
/// assert!(kernel.ptx().text().contains("prefetch.global.L2 ["));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<P: Pointer> Val<'_, P> {
    /// Brings the line of `self + index` into a cache; the address may be outside what can be read.
    /// PTX ISA 9.7.9.15 `prefetch`.
    #[track_caller]
    pub fn prefetch<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        level: PrefetchLevel,
    ) {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Prefetch { base, index, level });
    }

    /// The 128 bytes from `self + index` on, a multiple of 128 bytes, lose their content and need not go to
    /// memory: they are to be written before they are read again. PTX ISA 9.7.9.17 `discard`.
    #[track_caller]
    pub fn discard<'c, I: MemIndex>(self, k: &Body<'c, '_>, index: impl IntoVal<'c, I>)
    where
        P: MutPointer,
    {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Discard { base, index });
    }

    /// L2 gives the 128 bytes from `self + index` on, a multiple of 128 bytes, up in their turn, no longer
    /// last. PTX ISA 9.7.9.16 `applypriority`.
    #[track_caller]
    pub fn applypriority<'c, I: MemIndex>(self, k: &Body<'c, '_>, index: impl IntoVal<'c, I>) {
        let cx = k.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Applypriority { base, index });
    }
}
