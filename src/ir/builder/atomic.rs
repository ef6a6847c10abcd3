//! Atomic operations.

use super::body::Body;
use super::typed::{Bits, Element, Int, IntoVal, MemIndex, MutPointer, Number, Val};
use crate::ir::op::{Atomic, AtomicOp, AtomicOrder, MemScope, RedOrder};

mod sealed {
    /// Closes the traits of atomic elements.
    pub trait Sealed {}
}

/// An element that can be added to in one step.
pub trait AtomicAdd: Number + sealed::Sealed {}
/// An integer with atomic minimum, maximum and logic.
pub trait AtomicInt: Int + Bits + AtomicAdd {}
/// An element that can be exchanged in one step: of 32 or 64 bits.
pub trait AtomicWord: Element + sealed::Sealed {}

macro_rules! atomic {
    ($($ty:ident: $($class:ident)*;)*) => {$(
        impl sealed::Sealed for $ty {}
        $(impl $class for $ty {})*
    )*};
}

atomic! {
    i32: AtomicAdd AtomicInt AtomicWord;
    u32: AtomicAdd AtomicInt AtomicWord;
    i64: AtomicAdd AtomicInt AtomicWord;
    u64: AtomicAdd AtomicInt AtomicWord;
    f32: AtomicAdd AtomicWord;
    f64: AtomicAdd AtomicWord;
}

impl<'b, P: MutPointer> Val<'b, P> {
    /// Atomic operations that return what was there, relaxed and in the scope of the device.
    /// PTX ISA 9.7.13.5 `atom`.
    ///
    /// ```
    /// use tilewright::ir::{AtomicOrder, GlobalMut, Kernel, MemScope, Target};
    ///
    /// type Queue = (GlobalMut<i32>, GlobalMut<u32>);
    /// let kernel = Kernel::<Queue>::build("queue", Target::SM_80, |k, (out, next)| {
    ///     let slot = next.atom().add(k, 0, 1);
    ///     out.store(k, slot, k.thread_idx().x);
    ///     next.atom().order(AtomicOrder::AcqRel).scope(MemScope::Sys).inc(k, 1, 100);
    /// })?;
    /// let ptx = kernel.ptx();
    /// assert!(ptx.text().contains("atom.relaxed.gpu.global.add.u32"));
    /// assert!(ptx.text().contains("atom.acq_rel.sys.global.inc.u32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn atom(self) -> Atom<'b, P> {
        Atom { base: self, order: AtomicOrder::Relaxed, scope: MemScope::Gpu }
    }

    /// Atomic operations without a result, relaxed and in the scope of the device.
    /// PTX ISA 9.7.13.7 `red`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sum", Target::SM_80, |k, (x,)| {
    ///     x.red().add(k, 0, 1.0);
    /// })?;
    /// assert!(kernel.ptx().text().contains("red.relaxed.gpu.global.add.f32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn red(self) -> Red<'b, P> {
        Red { base: self, order: RedOrder::Relaxed, scope: MemScope::Gpu }
    }
}

/// Atomic operations with a result on the elements behind a pointer. Made by [`Val::atom`].
#[derive(Debug)]
pub struct Atom<'b, P> {
    base: Val<'b, P>,
    order: AtomicOrder,
    scope: MemScope,
}

/// Atomic operations without a result on the elements behind a pointer. Made by [`Val::red`].
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
        impl<P: MutPointer> Atom<'_, P> {
            $(
                $(#[$doc])*
                /// Returns `old`.
                #[track_caller]
                pub fn $name<'c, I: MemIndex>(
                    self,
                    k: &Body<'c, '_>,
                    index: impl IntoVal<'c, I>,
                    value: impl IntoVal<'c, P::Elem>,
                ) -> Val<'c, P::Elem>
                where
                    $($bound)*
                {
                    self.emit(k, AtomicOp::$op, index, value)
                }
            )*
        }

        impl<P: MutPointer> Red<'_, P> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<'c, I: MemIndex>(
                    self,
                    k: &Body<'c, '_>,
                    index: impl IntoVal<'c, I>,
                    value: impl IntoVal<'c, P::Elem>,
                ) where
                    $($bound)*
                {
                    self.emit(k, AtomicOp::$op, index, value);
                }
            )*
        }
    };
}

operations! {
    /// `*(self + index) = old + value`; integers wrap. `f32` in global memory takes subnormal numbers as
    /// zero.
    add = Add [P::Elem: AtomicAdd];
    /// The smaller of `old` and `value`.
    min = Min [P::Elem: AtomicInt];
    /// The larger of `old` and `value`.
    max = Max [P::Elem: AtomicInt];
    /// `old & value`
    and = And [P::Elem: AtomicInt];
    /// `old | value`
    or = Or [P::Elem: AtomicInt];
    /// `old ^ value`
    xor = Xor [P::Elem: AtomicInt];
    /// `if old >= value { 0 } else { old + 1 }`
    inc = Inc [P: MutPointer<Elem = u32>];
    /// `if old == 0 || old > value { value } else { old - 1 }`
    dec = Dec [P: MutPointer<Elem = u32>];
}

impl<'b, P: MutPointer> Atom<'b, P> {
    /// The same with an order.
    pub fn order(self, order: AtomicOrder) -> Atom<'b, P> {
        Atom { order, ..self }
    }

    /// The same in a scope.
    pub fn scope(self, scope: MemScope) -> Atom<'b, P> {
        Atom { scope, ..self }
    }

    #[track_caller]
    fn emit<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        op: AtomicOp,
        index: impl IntoVal<'c, I>,
        value: impl IntoVal<'c, P::Elem>,
    ) -> Val<'c, P::Elem> {
        let cx = k.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let value = cx.operand_of(value);
        let Atom { order, scope, .. } = self;
        cx.emit_val(Atomic::Atom { base, index, value, op, order, scope })
    }

    /// Sets the element to `value`. Returns what was there.
    #[track_caller]
    pub fn exch<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        value: impl IntoVal<'c, P::Elem>,
    ) -> Val<'c, P::Elem>
    where
        P::Elem: AtomicWord,
    {
        self.emit(k, AtomicOp::Exch, index, value)
    }

    /// Sets the element to `value` where its bits are those of `compare`. Returns what was there.
    /// PTX ISA 9.7.13.5 `atom.cas`.
    #[track_caller]
    pub fn cas<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        compare: impl IntoVal<'c, P::Elem>,
        value: impl IntoVal<'c, P::Elem>,
    ) -> Val<'c, P::Elem>
    where
        P::Elem: AtomicWord,
    {
        let cx = k.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let (compare, value) = (cx.operand_of(compare), cx.operand_of(value));
        let Atom { order, scope, .. } = self;
        cx.emit_val(Atomic::AtomCas { base, index, compare, value, order, scope })
    }
}

impl<'b, P: MutPointer> Red<'b, P> {
    /// The same with an order.
    pub fn order(self, order: RedOrder) -> Red<'b, P> {
        Red { order, ..self }
    }

    /// The same in a scope.
    pub fn scope(self, scope: MemScope) -> Red<'b, P> {
        Red { scope, ..self }
    }

    #[track_caller]
    fn emit<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        op: AtomicOp,
        index: impl IntoVal<'c, I>,
        value: impl IntoVal<'c, P::Elem>,
    ) {
        let cx = k.context();
        let (base, index) = (cx.operand(self.base), cx.operand_of(index));
        let value = cx.operand_of(value);
        let Red { order, scope, .. } = self;
        cx.emit(Atomic::Red { base, index, value, op, order, scope });
    }
}
