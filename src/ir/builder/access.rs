//! Loads and stores with memory order or cache hints, vector accesses, and prefetches.

use super::any_vector::{AnyVector, VectorOf};
use super::typed::{Element, IntoIndex, IntoOperand, IntoVal, MemIndex, MutPointer, Pointer, Val};
use super::vector::{Vector, VectorElement};
use crate::ir::op::{Cache, Convert, LoadAccess, Mem, PrefetchLevel, StoreAccess, ValueList};
use crate::ir::vector::VectorType;

/// # Memory order and cache hints
///
/// Loads and stores with a memory order, a scope or cache hints.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::ir::op::{LoadAccess, MemScope, StoreAccess};
///
/// type Signal = (Global<f32>, GlobalMut<f32>, GlobalMut<u32>);
/// let kernel = Kernel::<Signal>::build("signal", Target::SM_80, |_, (x, y, flag)| {
///     let v = x.load_with(0, LoadAccess::default().non_coherent());
///     y.store(0, v);
///     flag.store_with(0, 1, StoreAccess::default().release(MemScope::Gpu));
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("ld.global.nc.f32"));
/// assert!(ptx.text().contains("st.release.gpu.global.u32"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b, P: Pointer> Val<'b, P> {
    /// Loads the element at `self + index` with the memory order and cache hints in `access`;
    /// `index` counts elements. Use it to read a flag that another thread writes, or to keep
    /// streamed data out of a cache. PTX ISA 9.7.9.8 `ld`, 9.7.9.9 `ld.global.nc`.
    #[doc(alias("__ldg", "__ldcs", "__ldca", "__ldcg", "ld.acquire"))]
    #[track_caller]
    pub fn load_with<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        access: LoadAccess,
    ) -> Val<'b, P::Elem> {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit_val(Mem::Ld { base, index, access })
    }

    /// Stores `value` at `self + index` with the memory order and cache hints in `access`; `index`
    /// counts elements. Use it to set a flag that another thread reads, or to keep streamed data
    /// out of a cache. PTX ISA 9.7.9.12 `st`.
    #[doc(alias("__stcs", "__stcg", "__stwt", "st.release"))]
    #[track_caller]
    pub fn store_with<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        value: impl IntoOperand<'b, P::Elem>,
        access: StoreAccess,
    ) where
        P: MutPointer,
    {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        let value = cx.operand_of(value);
        cx.emit(Mem::St { base, index, value, access });
    }
}

/// # Vector loads and stores
///
/// Accesses several elements with one instruction.
///
/// The address must be a multiple of the vector's size. The build fails if the kernel itself shows
/// that it is not. The simulator checks every other access; on a GPU a misaligned access ends the
/// launch with an error. Buffers are 16-byte aligned, and
/// [`Body::shared_aligned`](crate::ir::Body::shared_aligned) aligns shared memory.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val, Vector};
///
/// let kernel = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("copy", Target::SM_80, |k, (x, y)| {
///     let i = k.thread_idx().x * 4;
///     let v: Val<'_, Vector<f32, 4>> = x.load_vector(i);
///     y.store_vector(i, v);
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("ld.global.v4.b32") && ptx.text().contains("st.global.v4.b32"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b, P: Pointer> Val<'b, P> {
    /// Loads the `N` elements starting at `self + index` as a vector; `index` counts elements. Use
    /// it when a thread reads neighbouring elements, because one wide access is cheaper than
    /// several narrow ones. A 256-bit vector takes two accesses, and only needs 16-byte alignment.
    /// PTX ISA 9.7.9.8 `ld.v4`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target, Val, bf16};
    ///
    /// let kernel = Kernel::<(GlobalMut<bf16>,)>::build("twice", Target::SM_90, |k, (x,)| {
    ///     let i = k.thread_idx().x * 8;
    ///     let row = x.load_vector::<8>(i).cvt::<f32>();
    ///     let twice = Val::pack(row.lanes().map(|lane| lane + lane));
    ///     x.store_vector(i, twice.cvt::<bf16>());
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("ld.global.v4.b32") && ptx.text().contains("st.global.v4.b32"));
    /// assert_eq!(ptx.text().matches("cvt.rn.bf16x2.f32").count(), 4);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("float4", "ld.v4"))]
    #[track_caller]
    pub fn load_vector<const N: usize>(
        self,
        index: impl IntoIndex<'b>,
    ) -> Val<'b, Vector<P::Elem, N>>
    where
        P::Elem: VectorElement<N>,
    {
        self.load_vector_with(index, LoadAccess::default())
    }

    /// Loads a vector as [`load_vector`](Val::load_vector) does, with the memory order and cache
    /// hints in `access`, for example to mark data that is read only once.
    #[track_caller]
    pub fn load_vector_with<const N: usize>(
        self,
        index: impl IntoIndex<'b>,
        access: LoadAccess,
    ) -> Val<'b, Vector<P::Elem, N>>
    where
        P::Elem: VectorElement<N>,
    {
        let cx = self.context();
        let index = index.into_index(cx);
        let vector = <P::Elem as VectorElement<N>>::vector();
        let lanes = vector.lanes();
        if vector.is_one_access() {
            let (base, index) = (cx.operand(self), cx.operand(index));
            return cx.emit_val(Mem::LdVec { base, index, lanes, access });
        }
        let base = cx.operand(self.offset(index));
        let mut values = ValueList::new();
        for first in [0, lanes / 2] {
            let index = cx.constant(first as i32).id();
            for vector in cx.emit(Mem::LdVec { base, index, lanes: lanes / 2, access }) {
                for lane in 0..lanes / 2 {
                    values.extend(cx.emit(Convert::VecExtract { vector, lane }));
                }
            }
        }
        cx.emit_val(Convert::VecPack { values })
    }

    /// Loads a vector as [`load_vector`](Val::load_vector) does if `condition` is true. Otherwise
    /// nothing is accessed, and every element is `otherwise`.
    ///
    /// The condition guards the whole vector, for example `index.lt(len)` if `len` is a multiple of
    /// `N`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(Global<bf16>, i32, GlobalMut<bf16>)>::build("pad", Target::SM_80, |k, (x, len, y)| {
    ///     let i = k.thread_idx().x * 8;
    ///     let vector = x.load_vector_if::<8>(i.lt(len), i, bf16::from_f32(-1.0));
    ///     y.store_vector(i, vector);
    /// })?;
    /// let device = Device::sim()?;
    /// let x = device.upload(&[bf16::from_f32(2.0); 8])?;
    /// let mut y = device.zeros::<bf16>(16)?;
    /// device.load(&kernel)?.launch(Grid::cover(2, 2), (&x, 8, &mut y))?;
    /// let (loaded, padded) = ([bf16::from_f32(2.0); 8], [bf16::from_f32(-1.0); 8]);
    /// assert_eq!(y.to_vec()?, [loaded, padded].concat());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn load_vector_if<const N: usize>(
        self,
        condition: impl IntoVal<'b, bool>,
        index: impl IntoIndex<'b>,
        otherwise: impl IntoVal<'b, P::Elem>,
    ) -> Val<'b, Vector<P::Elem, N>>
    where
        P::Elem: VectorElement<N>,
    {
        let k = &mut self.body();
        let (cx, _call) = (k.context(), k.call());
        let (index, otherwise) = (index.into_index(cx), Val::splat(otherwise.into_val(cx)));
        k.if_with(condition, otherwise, |_| self.load_vector(index))
    }

    /// Stores `values` one after the other, starting at `self + index`; `index` counts elements. It
    /// uses 16-byte vectors as long as they fit, then smaller ones. Use it for results whose count
    /// is a host value, such as a thread's accumulators.
    ///
    /// The address must be a multiple of the largest vector's size, as for
    /// [`store_vector`](Val::store_vector). For example, 13 values of `bf16` become vectors of 8
    /// and 4 elements and a scalar, so the address must be a multiple of 16 bytes.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("ramp", Target::SM_80, |k, (y,)| {
    ///     let values: Vec<_> = (0..7).map(|i| k.constant(i as f32)).collect();
    ///     y.store_slice(0, &values);
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("st.global.v4.b32") && ptx.text().contains("st.global.v2.b32"));
    /// let device = Device::sim()?;
    /// let mut y = device.zeros::<f32>(8)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut y,))?;
    /// assert_eq!(y.to_vec()?, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn store_slice(self, index: impl IntoIndex<'b>, values: &[Val<'b, P::Elem>])
    where
        P: MutPointer,
    {
        let k = &self.body();
        let to = self.offset(index.into_index(k.context()));
        let (elem, mut rest, mut at) = (P::Elem::scalar(), values, 0);
        while !rest.is_empty() {
            // The longest vector that fits. Lengths only shrink, so each vector starts at a
            // multiple of its own length.
            let fitting = |len: &usize| AnyVector::has(elem, *len) && *len <= rest.len();
            let len = [16, 8, 4, 2].into_iter().find(fitting).unwrap_or(1);
            let (first, others) = rest.split_at(len);
            match (AnyVector::pack(first), first) {
                (Some(vector), _) => to.store_vector(at, vector),
                (None, values) => values.iter().for_each(|value| to.store(at, *value)),
            }
            (rest, at) = (others, at + len as i32);
        }
    }

    /// Stores a vector at `self + index`; `index` counts elements. Use it when a thread writes
    /// neighbouring elements. The address must be a multiple of the vector's size; a 256-bit vector
    /// takes two accesses, and only needs 16-byte alignment. PTX ISA 9.7.9.12 `st.v4`.
    #[doc(alias = "st.v4")]
    #[track_caller]
    pub fn store_vector<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        vector: impl VectorOf<'b, P::Elem>,
    ) where
        P: MutPointer,
    {
        self.store_vector_with(index, vector, StoreAccess::default());
    }

    /// Stores a vector as [`store_vector`](Val::store_vector) does, with the memory order and cache
    /// hints in `access`, for example to evict the written data first.
    #[track_caller]
    pub fn store_vector_with<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        vector: impl VectorOf<'b, P::Elem>,
        access: StoreAccess,
    ) where
        P: MutPointer,
    {
        let cx = self.context();
        let (index, vector) = (index.into_val(cx), vector.into());
        let lanes = vector.lanes();
        if vector.bits() <= VectorType::ACCESS_BITS {
            let (base, index) = (cx.operand(self), cx.operand(index));
            let value = vector.operand(cx);
            match lanes {
                1 => cx.emit(Mem::St { base, index, value, access }),
                _ => cx.emit(Mem::StVec { base, index, vector: value, access }),
            };
            return;
        }
        let base = cx.operand(self.offset(index));
        let vector = vector.operand(cx);
        for first in [0, lanes / 2] {
            let mut values = ValueList::new();
            for lane in first..first + lanes / 2 {
                values.extend(cx.emit(Convert::VecExtract { vector, lane }));
            }
            let index = cx.constant(first as i32).id();
            for vector in cx.emit(Convert::VecPack { values }) {
                cx.emit(Mem::StVec { base, index, vector, access });
            }
        }
    }
}

/// # Promised alignment
///
/// Allows vector accesses if the builder cannot prove the alignment itself.
impl<'b, P: Pointer> Val<'b, P> {
    /// Promises that the pointer is a multiple of `bytes`, a power of two, and returns it. Use it
    /// when the build rejects a vector access because it cannot prove the alignment. Access memory
    /// through the returned pointer, because the promise holds only for that one. The simulator
    /// reports a false promise.
    #[doc(alias("__builtin_assume_aligned", "multiple_of", "tl.multiple_of"))]
    #[track_caller]
    pub fn assume_aligned(self, bytes: u32) -> Val<'b, P> {
        let cx = self.context();
        let base = cx.operand(self);
        cx.emit_val(Mem::AssumeAligned { base, bytes })
    }
}

/// # Prefetches and cache hints
///
/// Controls the caches of global memory. That changes speed only, except [`discard`](Val::discard),
/// which changes what memory holds.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::ir::op::PrefetchLevel;
///
/// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("next", Target::SM_80, |_, (x, n)| {
///     x.prefetch(n, PrefetchLevel::L2);
///     x.store(0, 1.0);
/// })?;
/// assert!(kernel.ptx().text().contains("prefetch.global.L2 ["));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b, P: Pointer> Val<'b, P> {
    /// Prefetches the cache line at `self + index` into the cache `level`, so that a later load
    /// finds it there. The address may be invalid, for example past the end of a buffer. PTX
    /// ISA 9.7.9.15 `prefetch`.
    #[track_caller]
    pub fn prefetch<I: MemIndex>(self, index: impl IntoVal<'b, I>, level: PrefetchLevel) {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Prefetch { base, index, level });
    }

    /// Discards the 128 bytes at `self + index`, a multiple of 128 bytes: the cache need not write
    /// their content back to memory. Use it for scratch data that nobody reads any more. The
    /// content is lost, so write these bytes before you read them again. PTX ISA 9.7.9.17
    /// `discard`.
    #[track_caller]
    pub fn discard<I: MemIndex>(self, index: impl IntoVal<'b, I>)
    where
        P: MutPointer,
    {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Discard { base, index });
    }

    /// Resets the L2 eviction priority of the 128 bytes at `self + index`, a multiple of 128 bytes,
    /// to normal. Call it when data that you loaded with evict-last priority is no longer needed.
    /// PTX ISA 9.7.9.16 `applypriority`.
    #[track_caller]
    pub fn applypriority<I: MemIndex>(self, index: impl IntoVal<'b, I>) {
        let cx = self.context();
        let (base, index) = (cx.operand(self), cx.operand_of(index));
        cx.emit(Cache::Applypriority { base, index });
    }
}
