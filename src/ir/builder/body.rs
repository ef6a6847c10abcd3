//! [`Body`], the handle through which a closure appends operations, with the methods that every
//! kernel needs: indices, constants, registers, shared memory, loads, stores and barriers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::context::Context;
use super::error::BuildErrorKind;
use super::typed::{
    Constant, Element, GlobalMut, IntoOperand, IntoVal, Local, MemIndex, MutPointer, Pointer,
    Shared, Ty, Val,
};
use crate::ir::Target;
use crate::ir::entity::{SharedId, VarId};
use crate::ir::kernel::{ArrayData, GlobalData, LocalData, SharedData, SourceLocation, VarData};
use crate::ir::op::{Axis, LoadAccess, Mem, SpecialReg, StoreAccess, Sync, Thread};
use crate::layout::LayoutError;

/// The handle of one body of a kernel: the kernel itself, a loop or an arm. Its methods append
/// operations to the end of that body.
///
/// `'b` is the body's own lifetime, `'o` that of the body around it. Every closure that you pass to
/// a control-flow method gets its own `Body`, as in [`std::thread::scope`], so that rustc knows
/// which body each value belongs to.
///
/// The methods below are grouped by topic; arithmetic, loads and stores are methods of [`Val`]:
///
/// | topic | for example |
/// |---|---|
/// | constants | `constant`, `value` |
/// | thread and block indices | `thread_idx`, `lane_id`, `smid`, `clusterid` |
/// | memory and registers | `shared`, `local_array`, `var`, `registers` |
/// | control flow | `if_`, `if_else`, `for_`, `while_`, `cases` |
/// | layouts | `crd2idx`, `int`, `layout` |
/// | reductions and scans | `sum`, `reduce`, `scan` |
/// | warp operations | `shfl_idx`, `vote_ballot`, `redux_add` |
/// | barriers and fences | `barrier`, `named_barrier`, `fence` |
/// | asynchronous copies | `cp_async`, `cp_async_bulk_load` |
/// | tensor cores | `mma_sync`, `wgmma`, `mma_sync_sp` |
/// | debugging | `assert`, `printf`, `trap` |
/// | inline PTX | `ptx` |
#[derive(Debug)]
pub struct Body<'b, 'o: 'b> {
    cx: &'b Context,
    outer: PhantomData<&'o ()>,
}

/// A thread or block index, or a block or grid size, along x, y and z: what [`Body::thread_idx`]
/// and [`Body::grid_dim`] return.
#[derive(Clone, Copy, Debug)]
pub struct Dim3<'b> {
    /// The x axis, which varies fastest from thread to thread.
    pub x: Val<'b, i32>,
    /// The y axis.
    pub y: Val<'b, i32>,
    /// The z axis, which varies slowest.
    pub z: Val<'b, i32>,
}

/// # Scopes
///
/// Passes a body on if its lifetime does not fit.
impl<'b, 'o> Body<'b, 'o> {
    pub(super) fn new(cx: &'b Context) -> Body<'b, 'o> {
        Body { cx, outer: PhantomData }
    }

    /// Returns a handle of the same body with shorter lifetimes, or with another enclosing body
    /// `'x`.
    ///
    /// Use it when rustc says "`k` escapes the closure body here". That happens if you call a
    /// function with a body and with values from bodies that rustc cannot compare with it, or if a
    /// closure that takes bodies inside `'x` is called from more than one level inside.
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
    ///     each(k, n, |_, i| x.store(i, n));
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

    /// Returns the block's shape in threads, if the kernel fixes it.
    pub(crate) fn block_shape(&self) -> Option<[u32; 3]> {
        self.context().block()
    }

    pub(crate) fn target(&self) -> Target {
        self.context().target()
    }

    /// Returns how many bytes of shared memory a block needs for the allocations made so far.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.context().shared_bytes()
    }

    /// Returns the build that this body belongs to.
    pub(crate) fn context(&self) -> &'b Context {
        self.cx
    }
}

/// # Constants
///
/// Turns host values into device values.
impl<'b, 'o> Body<'b, 'o> {
    /// Returns a host value as a device constant. You rarely need it, because operators and methods
    /// accept host values; use it where rustc has to know the device type.
    #[track_caller]
    pub fn constant<T: Element>(&self, value: T) -> Val<'b, T> {
        self.cx.constant(value)
    }

    /// Converts a host value to a device constant, and returns a device value as it is. Use it in
    /// helpers that accept both.
    #[track_caller]
    pub fn value<T: Ty>(&self, value: impl IntoOperand<'b, T>) -> Val<'b, T> {
        value.into_operand(self.cx)
    }
}

/// # Thread and block indices
///
/// Tells where the thread is in its block and in the grid, and how large these are.
impl<'b, 'o> Body<'b, 'o> {
    #[track_caller]
    pub(super) fn dim3(&self, reg: fn(Axis) -> SpecialReg) -> Dim3<'b> {
        let [x, y, z] = Axis::ALL.map(|axis| Thread::Sreg { reg: reg(axis) });
        Dim3 { x: self.cx.emit_val(x), y: self.cx.emit_val(y), z: self.cx.emit_val(z) }
    }

    /// Returns the thread's index in its block: CUDA's `threadIdx`. PTX ISA 10.1 `%tid`.
    #[doc(alias("threadIdx", "tid"))]
    #[track_caller]
    pub fn thread_idx(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Tid)
    }

    /// Returns the block's size in threads, as the launch chose it. PTX ISA 10.2 `%ntid`.
    #[doc(alias("blockDim", "ntid"))]
    #[track_caller]
    pub fn block_dim(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Ntid)
    }

    /// Returns the block's index in the grid: CUDA's `blockIdx`. Use it to pick the block's tile of
    /// the problem. PTX ISA 10.6 `%ctaid`.
    #[doc(alias("blockIdx", "ctaid", "program_id", "tl.program_id"))]
    #[track_caller]
    pub fn block_idx(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Ctaid)
    }

    /// Returns the grid's size in blocks: CUDA's `gridDim`, for example for a grid-stride loop. PTX
    /// ISA 10.7 `%nctaid`.
    #[doc(alias("gridDim", "nctaid", "num_programs", "tl.num_programs"))]
    #[track_caller]
    pub fn grid_dim(&self) -> Dim3<'b> {
        self.dim3(SpecialReg::Nctaid)
    }

    /// Returns the thread's lane in its warp, 0 to 31, for example to let one lane store a warp's
    /// result. PTX ISA 10.3 `%laneid`.
    #[doc(alias("laneid", "lane_idx"))]
    #[track_caller]
    pub fn lane_id(&self) -> Val<'b, i32> {
        self.cx.emit_val(Thread::Sreg { reg: SpecialReg::LaneId })
    }
}

/// # Block barrier
///
/// Synchronises the threads of the block.
impl<'b, 'o> Body<'b, 'o> {
    /// Waits until all threads of the block have arrived, except those that have returned.
    /// Afterwards every thread sees what the others wrote before the barrier. PTX ISA 9.7.13.1
    /// `barrier.sync 0`.
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
}

/// # Memory
///
/// Allocates shared, local, constant and global memory.
impl<'b, 'o> Body<'b, 'o> {
    /// Allocates static shared memory for `len` elements and returns a pointer, the same in all
    /// threads of the block. Use it for data that the block's threads exchange. The memory is
    /// uninitialised and aligned to the element size. PTX ISA 5.1.7 `.shared`.
    #[doc(alias("__shared__", "make_smem"))]
    #[track_caller]
    pub fn shared<T: Element>(&self, len: u32) -> Val<'b, Shared<T>> {
        self.shared_aligned(len, T::scalar().size_bytes())
    }

    /// Allocates shared memory as [`shared`](Body::shared) does, aligned to `align_bytes`: a power
    /// of two that is at least the element size. Vector accesses need it (16 bytes), and so do TMA
    /// copies (128 bytes).
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

    /// Allocates `len` uninitialised elements of local memory, private to the thread and aligned to
    /// 16 bytes. Use it for an array that device values index, because registers have no addresses.
    /// It is slower than registers, and a thread has at most 512 KiB of it. A call inside a loop
    /// returns the same memory in every iteration. PTX ISA 5.1.5 `.local`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// let device = Device::default()?;
    /// let last: i32 = eval(&device, |k| {
    ///     let digits = k.local_array::<i32>(10);
    ///     k.for_(tilewright::ir::range(0, 10), (), |_, i, ()| digits.store(9 - i, i * i));
    ///     digits.load(k.thread_idx().x)
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

    /// Places `elements` in constant memory and returns a read-only pointer. The array is filled
    /// when the module is loaded. A load is fast if all threads of a warp read the same element;
    /// different elements are loaded one after the other. All constant arrays of a module share 64
    /// KiB, and equal arrays are stored once. PTX ISA 5.1.3 `.const`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// let device = Device::default()?;
    /// let sum: f32 = eval(&device, |k| {
    ///     let weights = k.const_array(&[0.25f32, 0.5, 0.25]);
    ///     k.for_(tilewright::ir::range(0, 3), 0.0, |_, i, sum| sum + weights.load(i))
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

    /// Declares `len` elements of global memory that belong to the kernel, and returns a pointer to
    /// them. They are 0 when the kernel is loaded, all threads can read and write them, and a
    /// launch sees what earlier launches of the same loaded function have stored. Use it for what
    /// lives longer than a launch and that no caller needs to pass, such as a counter. PTX ISA
    /// 5.1.4 `.global`.
    ///
    /// Launches that run at the same time share the elements, so access them with atomics then.
    /// All global arrays of a kernel have at most 256 MiB
    /// ([`KernelIr::GLOBAL_BYTES`](crate::ir::KernelIr::GLOBAL_BYTES)).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// // Counts the launches.
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("count", Target::SM_80, |k, (y,)| {
    ///     let count = k.global_array::<u32>(1);
    ///     let before = count.load(0);
    ///     count.store(0, before + 1);
    ///     y.store(0, before);
    /// })?;
    /// let device = Device::sim()?;
    /// let count = device.load(&kernel)?;
    /// let mut y = device.zeros::<u32>(1)?;
    /// for expected in 0..3 {
    ///     count.launch(Grid::cover(1, 1), (&mut y,))?;
    ///     assert_eq!(y.to_vec()?, [expected]);
    /// }
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "__device__")]
    #[track_caller]
    pub fn global_array<T: Element>(&self, len: u32) -> Val<'b, GlobalMut<T>> {
        self.global(len, [].into())
    }

    /// Declares global memory as [`global_array`](Body::global_array) does, with `elements` as its
    /// content when the kernel is loaded.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// let device = Device::default()?;
    /// let seed: u32 = eval(&device, |k| {
    ///     let seeds = k.global_array_of(&[17u32, 42]);
    ///     seeds.load(1)
    /// })?;
    /// assert_eq!(seed, 42);
    /// # }
    /// # Ok::<(), tilewright::testing::EvalError>(())
    /// ```
    #[track_caller]
    pub fn global_array_of<T: Element>(&self, elements: &[T]) -> Val<'b, GlobalMut<T>> {
        let bits = elements.iter().map(|element| element.to_const().bits()).collect();
        // The verifier refuses arrays that are much shorter than this.
        self.global(u32::try_from(elements.len()).unwrap_or(u32::MAX), bits)
    }

    #[track_caller]
    fn global<T: Element>(&self, len: u32, bits: Arc<[u64]>) -> Val<'b, GlobalMut<T>> {
        let (elem, location) = (T::scalar(), SourceLocation::caller());
        let global = self.cx.with(|state| {
            let location = state.location(location);
            state.ir.globals.push(GlobalData { elem, len, bits, location })
        });
        self.cx.emit_val(Mem::GlobalBase { global })
    }
}

/// # Registers
///
/// Declares mutable registers, for values that change in a loop and for accumulators.
impl<'b, 'o> Body<'b, 'o> {
    /// Declares a mutable register and sets it to `init`. Use it for a value that changes inside a
    /// loop or a branch.
    #[doc(alias = "make_rmem")]
    #[track_caller]
    pub fn var<T: Ty>(&self, init: impl IntoVal<'b, T>) -> Var<'b, T> {
        let value = init.into_val(self.cx);
        let var = Var { regs: self.registers(1) };
        var.regs.set(0, value);
        var
    }

    /// Declares `len` mutable registers of one type, indexed by host integers: for example the
    /// accumulators of an MMA. Whenever this body is entered, they are undefined until you set
    /// them.
    #[doc(alias("make_rmem_tensor", "make_fragment"))]
    #[track_caller]
    pub fn registers<T: Ty>(&self, len: u32) -> Registers<'b, T> {
        let location = SourceLocation::caller();
        let var = self.cx.with(|state| {
            let (location, region) = (state.location(location), state.region());
            state.ir.vars.push(VarData { ty: T::ty(), len, region, location, name: None })
        });
        Registers::bound(self.cx, RegisterRange { var, first: 0, len })
    }
}

/// # Results of the layout algebra
///
/// Lets a body use layouts without `?`.
impl<'b, 'o> Body<'b, 'o> {
    /// Unwraps the result of a layout operation, so that a kernel's body needs no `?`. If it is an
    /// error, records it with the caller's line for `Kernel::build` to return, and continues with
    /// `L::default()`.
    #[track_caller]
    pub fn layout<L: Default>(&self, result: Result<L, LayoutError>) -> L {
        result.unwrap_or_else(|error| {
            self.cx.error(BuildErrorKind::Layout(error));
            L::default()
        })
    }
}

/// A mutable register, made by [`Body::var`]. Use it if a value changes inside a loop or a branch
/// and you do not want to pass it through the closures. [`Registers`] is an array of them.
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

impl<'b, T: Ty> Var<'b, T> {
    /// Returns the register's current value.
    #[track_caller]
    pub fn get(&self) -> Val<'b, T> {
        self.regs.get(0)
    }

    /// Sets the register to `value`.
    #[track_caller]
    pub fn set(&self, value: impl IntoOperand<'b, T>) {
        self.regs.set(0, value);
    }
}

/// An array of mutable registers, made by [`Body::registers`]: for example the accumulators of an
/// MMA, or the values that a thread keeps across a loop.
///
/// The index is a host integer, because registers have no addresses; if you need a device index,
/// use [`Body::local_array`]. The build fails if a register is read that may not have been set.
#[derive(Debug)]
pub struct Registers<'b, T> {
    cx: &'b Context,
    range: RegisterRange,
    ty: PhantomData<fn() -> T>,
}

/// Which registers of which variable; its text is the variable and the first register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterRange {
    var: VarId,
    first: u32,
    len: u32,
}

impl fmt::Display for RegisterRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.var, self.first)
    }
}

impl<T> Clone for Registers<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Registers<'_, T> {}

impl<'r, T: Ty> Registers<'r, T> {
    /// Binds registers that control flow carried to the build in which they are used.
    pub(crate) fn bound(cx: &'r Context, range: RegisterRange) -> Self {
        Registers { cx, range, ty: PhantomData }
    }

    /// Returns a handle of the innermost open body of the registers' kernel.
    pub(crate) fn body(&self) -> Body<'r, 'r> {
        Body::new(self.cx)
    }

    pub(crate) fn range(&self) -> RegisterRange {
        self.range
    }

    /// Returns how many registers the array has, for a host loop over all of them.
    #[expect(clippy::len_without_is_empty, reason = "an array of no registers has no use")]
    pub fn len(&self) -> u32 {
        self.range.len
    }

    #[track_caller]
    fn check(&self, index: u32) -> u32 {
        let RegisterRange { first, len, .. } = self.range;
        if index >= len {
            self.cx.error(BuildErrorKind::VarIndexOutOfRange { index, len });
        }
        first.saturating_add(index)
    }

    /// Names the registers in the PTX text, for example `%acc_12` for name `acc`, so that you find
    /// them there. A name starts with a letter and consists of letters, digits and `_`. If a name
    /// is invalid or already in use, the PTX writer numbers the registers instead.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("named", Target::SM_80, |k, (x,)| {
    ///     let acc = k.registers::<f32>(4).named("acc");
    ///     acc.fill(0.0);
    ///     k.for_(tilewright::ir::range(0, 8), (), |_, i, ()| {
    ///         acc.set(3, acc.get(3) + x.load(i));
    ///     });
    ///     x.store(0, acc.get(3));
    /// })?;
    /// assert!(kernel.ptx().text().contains("%acc_3"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn named(self, name: &'static str) -> Self {
        self.cx.with(|state| {
            state.ir.vars[self.range.var].name = Some(name);
        });
        self
    }

    /// Returns the IR variable and the index of its first register.
    pub(super) fn location(&self) -> (VarId, u32) {
        (self.range.var, self.range.first)
    }

    /// Makes a placeholder for registers that could not be made.
    pub(crate) fn of_build(cx: &'r Context) -> Self {
        let location = SourceLocation { file: "", line: 0, column: 0 };
        let var = cx.with(|state| {
            let (region, location) = (state.region(), state.location(location));
            state.ir.vars.push(VarData { ty: T::ty(), len: 1, region, location, name: None })
        });
        Registers::bound(cx, RegisterRange { var, first: 0, len: 1 })
    }

    /// Returns whether the body that declared the variable is still open; records an error if not.
    #[track_caller]
    pub(crate) fn is_declared(&self) -> bool {
        let location = SourceLocation::caller();
        self.cx.with(|state| {
            let VarData { region, location: made, .. } = state.ir.vars[self.range.var];
            let declared = state.is_open(region);
            if !declared {
                let made = state.ir.locations[made];
                state.error(location, BuildErrorKind::RegistersOutsideTheirBody { made });
            }
            declared
        })
    }

    /// Returns the same registers with type `U`, or `None` if their type is another one.
    pub(crate) fn of<U: Ty>(&self) -> Option<Registers<'r, U>> {
        (T::ty() == U::ty()).then(|| Registers::bound(self.cx, self.range))
    }

    /// Returns `len` registers starting at `first` as an array of their own, for example the
    /// accumulators of one MMA out of a whole tile. If the array ends earlier, the part is shorter,
    /// and using a missing register is an error of the build.
    pub fn part(&self, first: u32, len: u32) -> Self {
        let RegisterRange { var, first: start, len: all } = self.range;
        let (first, len) = (start.saturating_add(first), len.min(all.saturating_sub(first)));
        Registers::bound(self.cx, RegisterRange { var, first, len })
    }

    /// Returns the current value of register `index`.
    #[track_caller]
    pub fn get(&self, index: u32) -> Val<'r, T> {
        self.cx.emit_val(Mem::GetVar { var: self.range.var, index: self.check(index) })
    }

    /// Sets register `index` to `value`.
    #[track_caller]
    pub fn set(&self, index: u32, value: impl IntoOperand<'r, T>) {
        let value = self.cx.operand_of(value);
        self.cx.emit(Mem::SetVar { value, var: self.range.var, index: self.check(index) });
    }

    /// Sets all registers to `value`, for example accumulators to 0 before the main loop.
    #[track_caller]
    pub fn fill(&self, value: impl IntoOperand<'r, T>) {
        let k = &self.body();
        let value = value.into_operand(k.context());
        for index in 0..self.range.len {
            self.set(index, value);
        }
    }
}

/// # Constants
///
/// Turns a host value into a device value.
impl<'b, T> Val<'b, T> {
    /// Returns a host value as a device constant in the kernel of this value. Use it in helpers
    /// that have a value but no [`Body`].
    #[track_caller]
    pub fn constant<U: Element>(self, value: U) -> Val<'b, U> {
        self.context().constant(value)
    }

    /// Returns a host count as a device index of the same build as this value.
    #[track_caller]
    pub(crate) fn count(self, count: u32) -> Val<'b, i32> {
        count.into_operand(self.context())
    }
}

/// # Loads and stores
///
/// Accesses one element through a pointer. The access is appended to the innermost open body.
impl<'b, P: Pointer> Val<'b, P> {
    /// Loads the element at `self + index`; `index` counts elements. Guard it with
    /// [`if_`](Body::if_) if the index may be out of bounds. PTX ISA 9.7.9.8 `ld`.
    #[doc(alias("tl.load", "ld"))]
    #[track_caller]
    pub fn load<I: MemIndex>(self, index: impl IntoVal<'b, I>) -> Val<'b, P::Elem> {
        self.load_with(index, LoadAccess::default())
    }

    /// Stores `value` at `self + index`; `index` counts elements. Guard it with [`if_`](Body::if_)
    /// if the index may be out of bounds. PTX ISA 9.7.9.12 `st`.
    #[doc(alias("tl.store", "st"))]
    #[track_caller]
    pub fn store<I: MemIndex>(
        self,
        index: impl IntoVal<'b, I>,
        value: impl IntoOperand<'b, P::Elem>,
    ) where
        P: MutPointer,
    {
        self.store_with(index, value, StoreAccess::default());
    }
}
