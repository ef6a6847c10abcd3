//! Atomic operations on memory that several threads update, such as counters and sums. [`Atom`]
//! returns the old value, [`Red`] returns nothing. Prefer `Red` if you do not need the old value.

use super::typed::{
    Bits, Element, Integer, IntoOperand, IntoVal, MemIndex, MutPointer, Number, Val,
};
use super::vector::{Vector, VectorElement};
use crate::ir::narrow::{bf16, f16};
use crate::ir::op::{Atomic, AtomicOp, AtomicOrder, MemScope, RedOrder};

mod sealed {
    /// Seals the traits for atomic element types.
    pub trait Sealed {}
}

/// An element type with atomic addition. You name it as a bound in code that is generic over such
/// types.
pub trait AtomicAdd: Number + sealed::Sealed {}
/// An integer type with atomic minimum, maximum and bitwise logic. You name it as a bound in
/// generic code.
pub trait AtomicInt: Integer + Bits + AtomicAdd {}
/// An element type with compare-and-swap: 16, 32 or 64 bits. You name it as a bound in generic
/// code.
pub trait AtomicCas: Element + sealed::Sealed {}
/// An element type with atomic exchange: 32 or 64 bits. You name it as a bound in generic code.
pub trait AtomicWord: AtomicCas {}
/// An element type with atomic addition of `N`-element vectors: `f32` for 2 and 4, `f16` and `bf16`
/// for 2, 4 and 8. Each element is added atomically, the vector as a whole is not. You name it as a
/// bound in generic code.
#[diagnostic::on_unimplemented(
    message = "vectors of {N} `{Self}` cannot be added atomically",
    note = "vectors of 2 and 4 `f32`, and of 2, 4 and 8 `f16` and `bf16` can"
)]
pub trait AtomicVector<const N: usize>: VectorElement<N> + AtomicAdd {}
/// An [`AtomicVector`] type that also has an atomic minimum and maximum: `f16` or `bf16`. You name
/// it as a bound in generic code.
pub trait AtomicHalf<const N: usize>: AtomicVector<N> {}

macro_rules! atomic {
    ($($ty:ident: $($class:ident)*;)*) => {$(
        impl sealed::Sealed for $ty {}
        $(impl $class for $ty {})*
    )*};
}

atomic! {
    i16: AtomicCas;
    u16: AtomicCas;
    f16: AtomicAdd AtomicCas;
    bf16: AtomicAdd AtomicCas;
    i32: AtomicAdd AtomicInt AtomicCas AtomicWord;
    u32: AtomicAdd AtomicInt AtomicCas AtomicWord;
    i64: AtomicAdd AtomicInt AtomicCas AtomicWord;
    u64: AtomicAdd AtomicInt AtomicCas AtomicWord;
    f32: AtomicAdd AtomicCas AtomicWord;
    f64: AtomicAdd AtomicCas AtomicWord;
}

macro_rules! vectors {
    ($($ty:ident: $($lanes:literal)* => $($class:ident)*;)*) => {$(
        vectors!(@lanes $ty [$($lanes)*] $($class)*);
    )*};
    (@lanes $ty:ident $lanes:tt $($class:ident)*) => {$(
        vectors!(@each $ty $lanes $class);
    )*};
    (@each $ty:ident [$($lanes:literal)*] $class:ident) => {$(
        impl $class<$lanes> for $ty {}
    )*};
}

vectors! {
    f32: 2 4 => AtomicVector;
    f16: 2 4 8 => AtomicVector AtomicHalf;
    bf16: 2 4 8 => AtomicVector AtomicHalf;
}

/// # Atomics
///
/// Updates memory that several threads share. Use `atom` if you need the old value, otherwise
/// `red`.
impl<'b, P: MutPointer> Val<'b, P> {
    /// Returns the atomic operations that return the old value, with relaxed order and GPU scope.
    /// If you do not need the old value, use [`red`](Val::red). PTX ISA 9.7.13.5 `atom`.
    ///
    /// ```
    /// use tilewright::ir::op::{AtomicOrder, MemScope};
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// type Queue = (GlobalMut<i32>, GlobalMut<u32>);
    /// let kernel = Kernel::<Queue>::build("queue", Target::SM_80, |k, (out, next)| {
    ///     let slot = next.atom().add(0, 1);
    ///     out.store(slot, k.thread_idx().x);
    ///     next.atom().order(AtomicOrder::AcqRel).scope(MemScope::Sys).inc(1, 100);
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("atom.relaxed.gpu.global.add.u32"));
    /// assert!(ptx.text().contains("atom.acq_rel.sys.global.inc.u32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias(
        "atomicAdd",
        "atomicSub",
        "atomicMax",
        "atomicMin",
        "atomicAnd",
        "atomicOr",
        "atomicXor",
        "atomicInc",
        "atomicDec",
        "atomic_add",
        "tl.atomic_add",
        "atomic_max",
        "atomic_min"
    ))]
    pub fn atom(self) -> Atom<'b, P> {
        Atom { base: self, order: AtomicOrder::Relaxed, scope: MemScope::Gpu }
    }

    /// Returns the atomic operations without a result, with relaxed order and GPU scope. They are
    /// cheaper than [`atom`](Val::atom), because the thread waits for no value. PTX ISA 9.7.13.7
    /// `red`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sum", Target::SM_80, |_, (x,)| {
    ///     x.red().add(0, 1.0);
    /// })?;
    /// assert!(kernel.ptx().text().contains("red.relaxed.gpu.global.add.f32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias = "atomicAdd")]
    pub fn red(self) -> Red<'b, P> {
        Red { base: self, order: RedOrder::Relaxed, scope: MemScope::Gpu }
    }
}

/// Atomic operations that return the old value, made by [`Val::atom`]. Use them if a thread acts on
/// that value, for example to take a ticket from a counter.
#[derive(Debug)]
pub struct Atom<'b, P> {
    base: Val<'b, P>,
    order: AtomicOrder,
    scope: MemScope,
}

/// Atomic operations without a result, made by [`Val::red`]. Use them to add up or count, because
/// they are cheaper than [`Atom`].
#[derive(Debug)]
pub struct Red<'b, P> {
    base: Val<'b, P>,
    order: RedOrder,
    scope: MemScope,
}

impl<P> Clone for Atom<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Atom<'_, P> {}
impl<P> Clone for Red<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Red<'_, P> {}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $op:ident [$($bound:tt)*];)*) => {
        impl<'b, P: MutPointer> Atom<'b, P> {
            $(
                $(#[$doc])*
                /// Returns the old value.
                #[track_caller]
                pub fn $name<I: MemIndex>(
                    self,
                    index: impl IntoVal<'b, I>,
                    value: impl IntoOperand<'b, P::Elem>,
                ) -> Val<'b, P::Elem>
                where
                    $($bound)*
                {
                    self.emit(AtomicOp::$op, index, value)
                }
            )*
        }

        impl<'b, P: MutPointer> Red<'b, P> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<I: MemIndex>(
                    self,
                    index: impl IntoVal<'b, I>,
                    value: impl IntoOperand<'b, P::Elem>,
                ) where
                    $($bound)*
                {
                    self.emit(AtomicOp::$op, index, value);
                }
            )*
        }
    };
}

operations! {
    /// Adds `value` atomically to the element at `self + index`; integers wrap. In global memory
    /// `f32` flushes subnormals to zero. `bf16` requires `sm_90`.
    add = Add [P::Elem: AtomicAdd];
    /// Sets the element atomically to the smaller of itself and `value`.
    min = Min [P::Elem: AtomicInt];
    /// Sets the element atomically to the larger of itself and `value`.
    max = Max [P::Elem: AtomicInt];
    /// Combines the element atomically with `value` by bitwise and.
    and = And [P::Elem: AtomicInt];
    /// Combines the element atomically with `value` by bitwise or.
    or = Or [P::Elem: AtomicInt];
    /// Combines the element atomically with `value` by bitwise exclusive or.
    xor = Xor [P::Elem: AtomicInt];
    /// Adds 1 to the element atomically, or sets it to 0 if it is at least `value`: a counter that
    /// wraps around after `value`.
    inc = Inc [P: MutPointer<Elem = u32>];
    /// Subtracts 1 from the element atomically, or sets it to `value` if it is 0 or larger than
    /// `value`: a counter that starts over at `value`.
    dec = Dec [P: MutPointer<Elem = u32>];
}

macro_rules! vector_operations {
    ($($(#[$doc:meta])* $name:ident = $op:ident $bound:ident;)*) => {
        /// Atomic operations on the vector at `self + index`, whose address is a multiple of its
        /// size. Each element is updated atomically, the vector as a whole is not.
        ///
        /// In all memory you can add a pair of `f16` (`sm_80`) or `bf16` (`sm_90`). Everything
        /// else, that is `f32` vectors, longer vectors, minimum and maximum, needs global memory
        /// and `sm_90`.
        ///
        /// ```
        /// use tilewright::ir::{GlobalMut, Kernel, Target, Val, Vector};
        ///
        /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sums", Target::SM_90, |k, (x,)| {
        ///     let v: Val<'_, Vector<f32, 4>> = Val::splat(k.constant(0.5));
        ///     x.red().add_vector(0, v);
        ///     let before = x.atom().add_vector(4, v);
        ///     x.store_vector(8, before);
        /// })?;
        /// assert!(kernel.ptx().text().contains("red.relaxed.gpu.global.add.v4.f32"));
        /// # #[cfg(feature = "sim")] {
        /// use tilewright::runtime::{Device, Grid};
        ///
        /// let device = Device::sim()?;
        /// let mut x = device.upload(&[1.0; 12])?;
        /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
        /// assert_eq!(x.to_vec()?, [[1.5; 4], [1.5; 4], [1.0; 4]].concat());
        /// # }
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        impl<'b, P: MutPointer> Atom<'b, P> {
            $(
                $(#[$doc])*
                /// Returns the old vector. PTX ISA 9.7.13.5 `atom.v2`, `atom.v4`, `atom.v8`.
                #[track_caller]
                pub fn $name<const N: usize, I: MemIndex>(
                    self,
                    index: impl IntoVal<'b, I>,
                    vector: Val<'b, Vector<P::Elem, N>>,
                ) -> Val<'b, Vector<P::Elem, N>>
                where
                    P::Elem: $bound<N>,
                {
                    let cx = self.base.context();
                    let (base, index) = (cx.operand(self.base), cx.operand_of(index));
                    let vector = cx.operand(vector);
                    let (op, Atom { order, scope, .. }) = (AtomicOp::$op, self);
                    cx.emit_val(Atomic::AtomVec { base, index, vector, op, order, scope })
                }
            )*
        }

        impl<'b, P: MutPointer> Red<'b, P> {
            $(
                $(#[$doc])*
                /// [`Atom`] has the rules. PTX ISA 9.7.13.7 `red.v2`, `red.v4`, `red.v8`.
                #[track_caller]
                pub fn $name<const N: usize, I: MemIndex>(
                    self,
                    index: impl IntoVal<'b, I>,
                    vector: Val<'b, Vector<P::Elem, N>>,
                ) where
                    P::Elem: $bound<N>,
                {
                    let cx = self.base.context();
                    let (base, index) = (cx.operand(self.base), cx.operand_of(index));
                    let vector = cx.operand(vector);
                    let (op, Red { order, scope, .. }) = (AtomicOp::$op, self);
                    cx.emit(Atomic::RedVec { base, index, vector, op, order, scope });
                }
            )*
        }
    };
}

vector_operations! {
    /// Adds `vector`, each element atomically. `f32` flushes subnormals to zero.
    add_vector = Add AtomicVector;
    /// Sets each element atomically to the smaller of itself and its counterpart in `vector`; if
    /// one is NaN, to the other.
    min_vector = Min AtomicHalf;
    /// Sets each element atomically to the larger of itself and its counterpart in `vector`; if one
    /// is NaN, to the other.
    max_vector = Max AtomicHalf;
}

impl<'b, P: MutPointer> Atom<'b, P> {
    /// Sets the memory order, which is relaxed by default. Use acquire or release if the atomic
    /// guards other data.
    pub fn order(self, order: AtomicOrder) -> Atom<'b, P> {
        Atom { order, ..self }
    }

    /// Sets the scope: which threads see the operation as atomic. The default is all threads of the
    /// GPU.
    pub fn scope(self, scope: MemScope) -> Atom<'b, P> {
        Atom { scope, ..self }
    }

    #[track_caller]
    fn emit<I: MemIndex>(
        self,
        op: AtomicOp,
        index: impl IntoVal<'b, I>,
        value: impl IntoOperand<'b, P::Elem>,
    ) -> Val<'b, P::Elem> {
        let cx = self.base.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let value = cx.operand_of(value);
        let Atom { order, scope, .. } = self;
        cx.emit_val(Atomic::Atom { base, index, value, op, order, scope })
    }

    /// Sets the element atomically to `value` and returns the old value, for example to take a
    /// lock. PTX ISA 9.7.13.5 `atom.exch`.
    #[doc(alias("atomicExch", "atomic_xchg", "tl.atomic_xchg"))]
    #[track_caller]
    pub fn exch<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        value: impl IntoOperand<'b, P::Elem>,
    ) -> Val<'b, P::Elem>
    where
        P::Elem: AtomicWord,
    {
        self.emit(AtomicOp::Exch, index, value)
    }

    /// Sets the element atomically to `value` if its bits equal those of `compare`. Returns the old
    /// value, which tells whether the swap happened. Use it in a loop to build atomics that PTX
    /// lacks. PTX ISA 9.7.13.5 `atom.cas`.
    #[doc(alias("atomicCAS", "atomic_cas", "tl.atomic_cas"))]
    #[track_caller]
    pub fn cas<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        compare: impl IntoOperand<'b, P::Elem>,
        value: impl IntoOperand<'b, P::Elem>,
    ) -> Val<'b, P::Elem>
    where
        P::Elem: AtomicCas,
    {
        let cx = self.base.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let (compare, value) = (cx.operand_of(compare), cx.operand_of(value));
        let Atom { order, scope, .. } = self;
        cx.emit_val(Atomic::AtomCas { base, index, compare, value, order, scope })
    }
}

impl<'b, P: MutPointer> Red<'b, P> {
    /// Sets the memory order, which is relaxed by default. Use release to publish the thread's
    /// earlier writes.
    pub fn order(self, order: RedOrder) -> Red<'b, P> {
        Red { order, ..self }
    }

    /// Sets the scope: which threads see the operation as atomic. The default is all threads of the
    /// GPU.
    pub fn scope(self, scope: MemScope) -> Red<'b, P> {
        Red { scope, ..self }
    }

    #[track_caller]
    fn emit<I: MemIndex>(
        self,
        op: AtomicOp,
        index: impl IntoVal<'b, I>,
        value: impl IntoOperand<'b, P::Elem>,
    ) {
        let cx = self.base.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let value = cx.operand_of(value);
        let Red { order, scope, .. } = self;
        cx.emit(Atomic::Red { base, index, value, op, order, scope });
    }
}
