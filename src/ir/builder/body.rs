//! [`Body`], the handle of a body closure: indices, constants, variables, shared memory, loads, stores and barriers.

use std::marker::PhantomData;
use std::sync::Arc;

use super::context::Context;
use super::error::BuildErrorKind;
use super::typed::{
    Constant, Element, IntoOperand, IntoVal, Local, MemIndex, MutPointer, Pointer, Shared, Ty, Val,
};
use crate::ir::Target;
use crate::ir::entity::{SharedId, VarId};
use crate::ir::kernel::{ArrayData, LocalData, SharedData, SourceLocation, VarData};
use crate::ir::op::{Axis, LoadAccess, Mem, SpecialReg, StoreAccess, Sync, Thread};
use crate::layout::LayoutError;

/// The body `'b` of a kernel under construction, inside the body `'o`. Operations made through it go to its
/// end.
///
/// Each closure that is given to a control flow method gets a `Body` of its own, in the manner of
/// [`std::thread::scope`], so that rustc sees which values belong to which body.
#[derive(Debug)]
pub struct Body<'b, 'o: 'b> {
    cx: &'b Context,
    outer: PhantomData<&'o ()>,
}

/// One value for each axis.
#[derive(Clone, Copy, Debug)]
pub struct Dim3<'b> {
    /// The fastest varying axis.
    pub x: Val<'b, i32>,
    /// The second axis.
    pub y: Val<'b, i32>,
    /// The slowest axis.
    pub z: Val<'b, i32>,
}

impl<'b, 'o> Body<'b, 'o> {
    pub(super) fn new(cx: &'b Context) -> Body<'b, 'o> {
        Body { cx, outer: PhantomData }
    }

    /// A handle of the same body, whose lifetimes are shorter, or whose outer body `'x` is another one around it.
    ///
    /// It makes two calls compile that rustc refuses with "`k` escapes the closure body here": of a function that
    /// takes a body and values of bodies that rustc cannot compare with it, and of a closure for bodies inside of
    /// `'x` from a body that is more than one level inside.
    ///
    /// ```
    /// use tilewright::ir::{Body, GlobalMut, Kernel, Target, Val, range};
    ///
    /// /// Runs `f` in a body two levels inside of `'b`.
    /// fn each<'b>(
    ///     k: &mut Body<'b, '_>,
    ///     n: Val<'b, i32>,
    ///     f: impl for<'c> Fn(&mut Body<'c, 'b>, Val<'c, i32>),
    /// ) {
    ///     k.for_(range(0, n), (), |k, i, ()| {
    ///         k.for_(range(0, i), (), |k, j, ()| f(&mut k.rescoped(), i * n + j));
    ///     });
    /// }
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("k", Target::SM_80, |k, (x, n)| {
    ///     each(k, n, |k, i| x.store(k, i, n));
    /// })?;
    /// assert_eq!(kernel.to_string().matches("for ").count(), 2);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn rescoped<'s, 'x: 's>(&mut self) -> Body<'s, 'x>
    where
        'b: 's,
    {
        Body::new(self.cx)
    }

    /// The threads of a block along each axis, if all launches have the same.
    pub(crate) fn block_shape(&self) -> Option<[u32; 3]> {
        self.context().block()
    }

    /// The target of the kernel.
    pub(crate) fn target(&self) -> Target {
        self.context().target()
    }

    /// The bytes of shared memory that a block takes with what was allocated so far.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.context().shared_bytes()
    }

    /// The build that the body belongs to.
    pub(crate) fn context(&self) -> &'b Context {
        self.cx
    }

    /// The host value as a device value.
    #[track_caller]
    pub fn constant<T: Element>(&self, value: T) -> Val<'b, T> {
        self.cx.constant(value)
    }

    /// The host or device value as a device value.
    #[track_caller]
    pub fn value<T: Ty>(&self, value: impl IntoOperand<'b, T>) -> Val<'b, T> {
        value.into_operand(self.cx)
    }

    #[track_caller]
    pub(super) fn dim3(&self, reg: fn(Axis) -> SpecialReg) -> Dim3<'b> {
        let [x, y, z] = Axis::ALL.map(|axis| Thread::Sreg { reg: reg(axis) });
        Dim3 { x: self.cx.emit_val(x), y: self.cx.emit_val(y), z: self.cx.emit_val(z) }
    }

    /// The index of the thread in its block. PTX ISA 10.1 `%tid`.
    #[doc(alias("threadIdx", "tid"))]
    #[track_caller]
    pub fn thread_idx(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Tid)
    }

    /// The number of threads of a block along each axis. PTX ISA 10.2 `%ntid`.
    #[doc(alias("blockDim", "ntid"))]
    #[track_caller]
    pub fn block_dim(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Ntid)
    }

    /// The index of the block in the grid. PTX ISA 10.6 `%ctaid`.
    #[doc(alias("blockIdx", "ctaid", "program_id", "tl.program_id"))]
    #[track_caller]
    pub fn block_idx(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Ctaid)
    }

    /// The number of blocks of the grid along each axis. PTX ISA 10.7 `%nctaid`.
    #[doc(alias("gridDim", "nctaid", "num_programs", "tl.num_programs"))]
    #[track_caller]
    pub fn grid_dim(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Nctaid)
    }

    /// The index of the thread in its warp, 0 to 31. PTX ISA 10.3 `%laneid`.
    #[doc(alias("laneid", "lane_idx"))]
    #[track_caller]
    pub fn lane_id(&self) -> Val<'b, i32> {
        self.cx.emit_val(Thread::Sreg { reg: SpecialReg::LaneId })
    }

    /// Waits until all threads of the block arrive here; what each of them wrote before is seen by all
    /// after. Threads that have returned are not waited for. PTX ISA 9.7.13.1 `barrier.sync 0`.
    #[doc(alias(
        "syncthreads",
        "__syncthreads",
        "sync_threads",
        "bar.sync",
        "debug_barrier",
        "tl.debug_barrier"
    ))]
    #[track_caller]
    pub fn barrier(&self) {
        self.cx.emit(Sync::Barrier {});
    }

    /// Static shared memory for `len` elements, naturally aligned and uninitialised. The pointer is the
    /// same in all threads of the block. PTX ISA 5.1.7 `.shared`.
    #[doc(alias("__shared__", "make_smem"))]
    #[track_caller]
    pub fn shared<T: Element>(&self, len: u32) -> Val<'b, Shared<T>> {
        self.shared_aligned(len, T::scalar().size_bytes())
    }

    /// As [`shared`](Body::shared), with the first element at a multiple of `align_bytes`, a power of two
    /// not below the natural alignment.
    #[doc(alias = "__align__")]
    #[track_caller]
    pub fn shared_aligned<T: Element>(&self, len: u32, align_bytes: u32) -> Val<'b, Shared<T>> {
        let location = SourceLocation::caller();
        let elem = T::scalar();
        let shared: SharedId = self.cx.with(|state| {
            let location = state.location(location);
            state.ir.shared.push(SharedData { elem, len, align_bytes, location })
        });
        self.cx.emit_val(Mem::SharedBase { shared })
    }

    /// Memory of the thread for `len` elements, uninitialised, which starts at a multiple of 16 bytes. It is the
    /// same memory wherever in the kernel the array is made, also in each iteration of a loop. Registers have
    /// no addresses: this is for what is indexed by numbers that are known on the device only. It is slower than
    /// registers, and a thread has at most 512 KiB of it. PTX ISA 5.1.5 `.local`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// let device = Device::default()?;
    /// let last: i32 = eval(&device, |k| {
    ///     let digits = k.local_array::<i32>(10);
    ///     k.for_(tilewright::ir::range(0, 10), (), |k, i, ()| digits.store(k, 9 - i, i * i));
    ///     digits.load(k, k.thread_idx().x)
    /// })?;
    /// assert_eq!(last, 81);
    /// # }
    /// # Ok::<(), tilewright::testing::EvalError>(())
    /// ```
    #[track_caller]
    pub fn local_array<T: Element>(&self, len: u32) -> Val<'b, Local<T>> {
        let location = SourceLocation::caller();
        let elem = T::scalar();
        let local = self.cx.with(|state| {
            let location = state.location(location);
            state.ir.locals.push(LocalData { elem, len, location })
        });
        self.cx.emit_val(Mem::LocalBase { local })
    }

    /// A constant array of the module, at most 64 KiB together with all others: read-only memory that is
    /// filled when the module is loaded. A load is fast where all threads of a warp read one element, and
    /// one after the other for different ones. Equal arrays are one. PTX ISA 5.1.3 `.const`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// let device = Device::default()?;
    /// let sum: f32 = eval(&device, |k| {
    ///     let weights = k.const_array(&[0.25f32, 0.5, 0.25]);
    ///     k.for_(tilewright::ir::range(0, 3), 0.0, |k, i, sum| sum + weights.load(k, i))
    /// })?;
    /// assert_eq!(sum, 1.0);
    /// # }
    /// # Ok::<(), tilewright::testing::EvalError>(())
    /// ```
    #[doc(alias = "__constant__")]
    #[track_caller]
    pub fn const_array<T: Element>(&self, elements: &[T]) -> Val<'b, Constant<T>> {
        let location = SourceLocation::caller();
        let bits: Arc<[u64]> = elements.iter().map(|element| element.to_const().bits()).collect();
        let elem = T::scalar();
        let array = self.cx.with(|state| {
            let is_equal = |known: &ArrayData| known.elem == elem && known.bits == bits;
            let known = state.ir.arrays.iter().find(|(_, known)| is_equal(known));
            match known.map(|(array, _)| array) {
                Some(array) => array,
                None => {
                    let location = state.location(location);
                    state.ir.arrays.push(ArrayData { elem, bits, location })
                }
            }
        });
        self.cx.emit_val(Mem::ArrayBase { array })
    }

    /// A mutable register that holds `init`.
    #[doc(alias = "make_rmem")]
    #[track_caller]
    pub fn var<T: Ty>(&self, init: impl IntoVal<'b, T>) -> Var<'b, T> {
        let value = init.into_val(self.cx);
        let var = Var { regs: self.registers(1) };
        var.regs.set(self, 0, value);
        var
    }

    /// `len` mutable registers of one type, indexed by host numbers. They hold no value until they are set,
    /// at each entry of this body.
    #[doc(alias("make_rmem_tensor", "make_fragment"))]
    #[track_caller]
    pub fn registers<T: Ty>(&self, len: u32) -> Registers<'b, T> {
        let location = SourceLocation::caller();
        let var = self.cx.with(|state| {
            let (location, region) = (state.location(location), state.region());
            state.ir.vars.push(VarData { ty: T::ty(), len, region, location, name: None })
        });
        Registers { var, first: 0, len, body: PhantomData, ty: PhantomData }
    }

    /// The value of a fallible operation of the layout algebra. A failure is recorded with this line and
    /// returned by `Kernel::build`; the default takes the value's location until then.
    #[track_caller]
    pub fn layout<L: Default>(&self, result: Result<L, LayoutError>) -> L {
        result.unwrap_or_else(|error| {
            self.cx.error(BuildErrorKind::Layout(error));
            L::default()
        })
    }
}

/// A mutable register. Made by [`Body::var`].
#[derive(Debug)]
pub struct Var<'b, T> {
    regs: Registers<'b, T>,
}

impl<T> Clone for Var<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Var<'_, T> {}

impl<T: Ty> Var<'_, T> {
    /// The present value.
    #[track_caller]
    pub fn get<'c>(&self, k: &Body<'c, '_>) -> Val<'c, T> {
        self.regs.get(k, 0)
    }

    /// Sets the value.
    #[track_caller]
    pub fn set<'c>(&self, k: &Body<'c, '_>, value: impl IntoOperand<'c, T>) {
        self.regs.set(k, 0, value);
    }
}

/// An array of mutable registers. Made by [`Body::registers`].
///
/// The index is a host number: registers have no addresses. A read of a register that may not have been
/// set is an error of the build.
#[derive(Debug)]
pub struct Registers<'b, T> {
    var: VarId,
    first: u32,
    len: u32,
    body: PhantomData<&'b ()>,
    ty: PhantomData<fn() -> T>,
}

impl<T> Clone for Registers<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Registers<'_, T> {}

impl<'r, T: Ty> Registers<'r, T> {
    /// The number of registers.
    #[expect(clippy::len_without_is_empty, reason = "an array of no registers has no use")]
    pub fn len(&self) -> u32 {
        self.len
    }

    #[track_caller]
    fn check(&self, cx: &Context, index: u32) -> u32 {
        if index >= self.len {
            cx.error(BuildErrorKind::VarIndexOutOfRange { index, len: self.len });
        }
        self.first.saturating_add(index)
    }

    /// Names the registers in PTX: `name` and a number, as in `%acc_12`. `name` starts with a letter and has
    /// letters, digits and `_`. Any other name, or a name in use, is replaced by a number.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("named", Target::SM_80, |k, (x,)| {
    ///     let acc = k.registers::<f32>(4).named(k, "acc");
    ///     acc.fill(k, 0.0);
    ///     k.for_(tilewright::ir::range(0, 8), (), |k, i, ()| {
    ///         acc.set(k, 3, acc.get(k, 3) + x.load(k, i));
    ///     });
    ///     x.store(k, 0, acc.get(k, 3));
    /// })?;
    /// assert!(kernel.ptx().text().contains("%acc_3"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn named(self, k: &Body<'_, '_>, name: &'static str) -> Self {
        k.context().with(|state| {
            state.ir.vars[self.var].name = Some(name);
        });
        self
    }

    /// The variable in the IR, and the first of its registers.
    pub(super) fn location(&self) -> (VarId, u32) {
        (self.var, self.first)
    }

    /// The same registers, for a body inside or outside of this one.
    pub(crate) fn rebound<'x>(self) -> Registers<'x, T> {
        let Registers { var, first, len, ty, .. } = self;
        Registers { var, first, len, body: PhantomData, ty }
    }

    /// Returns whether both are the same registers.
    pub(crate) fn is(&self, other: &Registers<'_, T>) -> bool {
        (self.var, self.first, self.len) == (other.var, other.first, other.len)
    }

    /// The variable and the first of its registers, for errors.
    pub(crate) fn name(&self) -> String {
        format!("{}[{}]", self.var, self.first)
    }

    /// A variable in place of registers that could not be made.
    pub(crate) fn of_build(cx: &'r Context) -> Self {
        let location = SourceLocation { file: "", line: 0, column: 0 };
        let var = cx.with(|state| {
            let (region, location) = (state.region(), state.location(location));
            state.ir.vars.push(VarData { ty: T::ty(), len: 1, region, location, name: None })
        });
        Registers { var, first: 0, len: 1, body: PhantomData, ty: PhantomData }
    }

    /// Checks that the variable was declared in a body that is open, and records an error where it was not.
    #[track_caller]
    pub(crate) fn is_declared(&self, cx: &Context) -> bool {
        let location = SourceLocation::caller();
        cx.with(|state| {
            let VarData { region, location: made, .. } = state.ir.vars[self.var];
            let declared = state.is_open(region);
            if !declared {
                let made = state.ir.locations[made];
                state.error(location, BuildErrorKind::RegistersOutsideTheirBody { made });
            }
            declared
        })
    }

    /// The same registers, if they are of the type `U`.
    pub(crate) fn of<U: Ty>(&self) -> Option<Registers<'r, U>> {
        let Registers { var, first, len, body, .. } = *self;
        (T::ty() == U::ty()).then_some(Registers { var, first, len, body, ty: PhantomData })
    }

    /// The `len` registers from `first` on, as registers of their own. Those that there are not are an error
    /// where they are used.
    pub fn part(&self, first: u32, len: u32) -> Self {
        let all = self.first.saturating_add(first);
        Registers { first: all, len: len.min(self.len.saturating_sub(first)), ..*self }
    }

    /// The present value of register `index`.
    #[track_caller]
    pub fn get<'c>(&self, k: &Body<'c, '_>, index: u32) -> Val<'c, T> {
        let cx = k.context();
        cx.emit_val(Mem::GetVar { var: self.var, index: self.check(cx, index) })
    }

    /// Sets register `index`.
    #[track_caller]
    pub fn set<'c>(&self, k: &Body<'c, '_>, index: u32, value: impl IntoOperand<'c, T>) {
        let cx = k.context();
        let value = cx.operand_of(value);
        cx.emit(Mem::SetVar { value, var: self.var, index: self.check(cx, index) });
    }

    /// Sets all registers.
    #[track_caller]
    pub fn fill<'c>(&self, k: &Body<'c, '_>, value: impl IntoOperand<'c, T>) {
        let value = value.into_operand(k.context());
        for index in 0..self.len {
            self.set(k, index, value);
        }
    }
}

impl<'b, T> Val<'b, T> {
    /// The host value as a device value, in the build that this value belongs to.
    #[track_caller]
    pub fn constant<U: Element>(self, value: U) -> Val<'b, U> {
        self.context().constant(value)
    }

    /// The host count as a device index, in the build that this value belongs to.
    #[track_caller]
    pub(crate) fn count(self, count: u32) -> Val<'b, i32> {
        count.into_operand(self.context())
    }
}

impl<P: Pointer> Val<'_, P> {
    /// `*(self + index)`, `index` in elements. PTX ISA 9.7.9.8 `ld`.
    #[doc(alias("tl.load", "ld"))]
    #[track_caller]
    pub fn load<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
    ) -> Val<'c, P::Elem> {
        self.load_with(k, index, LoadAccess::default())
    }

    /// `*(self + index) = value`, `index` in elements. PTX ISA 9.7.9.12 `st`.
    #[doc(alias("tl.store", "st"))]
    #[track_caller]
    pub fn store<'c, I: MemIndex>(
        self,
        k: &Body<'c, '_>,
        index: impl IntoVal<'c, I>,
        value: impl IntoOperand<'c, P::Elem>,
    ) where
        P: MutPointer,
    {
        self.store_with(k, index, value, StoreAccess::default());
    }
}
