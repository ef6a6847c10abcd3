//! [`Kernel`] and [`KernelOptions`]: builds a whole kernel from its signature and body, verifies it
//! and lowers it. Start here with `Kernel::build`.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::body::Body;
use super::context::Context;
use super::control::Terminated;
use super::error::{BuildError, BuildErrorKind, BuildErrors};
use super::host_part::HostParts;
use super::joins::types_of;
use super::params::{ParamList, ParamValues, Params};
use super::values::Values;
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::entity::{Entity, Value};
use crate::ir::kernel::{KernelIr, Param as IrParam, SourceLocation, ValueData, ValueDef};
use crate::ir::op::{Control, Mem, Op, Thread, ValueList};
use crate::ir::passes;
use crate::ir::signature::{Signature, Template};
use crate::ir::target::Target;
use crate::ir::types::{Space, Type};
use crate::ir::verify::{self, VerifyError, VerifyErrors, Violation};

/// The signature of a kernel that was not built from Rust types, but parsed from text or made as
/// data, such as in [`Kernel::verify`]. Only the IR knows its parameters, so rustc cannot check a
/// launch's arguments.
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

/// What the closure of [`Kernel::build`] may return: `()`, [`Terminated`], or a `Result` of these
/// whose error has a message, so that you can use `?` in a kernel.
pub trait BodyResult {
    /// Returns the error's message, if there is an error.
    fn error(self) -> Option<String>;
}

impl BodyResult for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl BodyResult for Terminated {
    fn error(self) -> Option<String> {
        None
    }
}

impl<R: BodyResult, E: fmt::Display> BodyResult for Result<R, E> {
    fn error(self) -> Option<String> {
        match self {
            Ok(result) => result.error(),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// A verified kernel with the signature `P`, for example `Kernel<(f32, Global<f32>, GlobalMut<f32>,
/// i32)>`.
///
/// A signature with one parameter needs a comma: `Kernel<(Global<f32>,)>`.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
///
/// type Square = (Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Square>::build("square", Target::SM_80, |k, (x, y)| {
///     let i = k.thread_idx().x;
///     let v = x.load(i);
///     y.store(i, v * v);
/// })?;
/// assert_eq!(kernel.ir().params.len(), 2);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
pub struct Kernel<P> {
    ir: KernelIr,
    signature: Arc<Signature>,
    merged: Option<MergedShared>,
    params: PhantomData<fn() -> P>,
}

/// A block's shared-memory size in bytes before and after [`KernelOptions::merge_shared`].
/// [`Kernel::merged_shared`] returns it, so that you can see whether merging pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedShared {
    /// The sum of all allocations, which a block would need without merging.
    pub before: u64,
    /// What a block takes after merging.
    pub after: u64,
}

impl<P> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        let (ir, signature) = (self.ir.clone(), Arc::clone(&self.signature));
        Kernel { ir, signature, merged: self.merged, params: PhantomData }
    }
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ir, f)
    }
}

impl<P> Kernel<P> {
    /// Returns the kernel's IR, to inspect, transform or print it.
    pub fn ir(&self) -> &KernelIr {
        &self.ir
    }

    /// Returns the kernel's name, which is also the name of its entry in the PTX text.
    pub fn name(&self) -> &str {
        &self.ir.name
    }

    /// Returns what each launch is checked against: layouts, tuples and buffer lengths. The runtime
    /// reads it; you need it only if you launch the PTX yourself.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// Returns how much shared memory [`KernelOptions::merge_shared`] saved, or `None` if the
    /// option was not set.
    pub fn merged_shared(&self) -> Option<MergedShared> {
        self.merged
    }

    /// Returns the target (GPU architecture) that the kernel was built for.
    pub fn target(&self) -> Target {
        self.ir.target
    }
}

impl<P> Kernel<P> {
    /// Returns the kernel without its assertions and without the operations that only the
    /// assertions needed. Use it for the release version of a kernel that you debug with
    /// [`Body::assert`].
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     k.assert(i.lt(64), "the block has at most 64 threads");
    ///     x.store(i, i);
    /// })?;
    /// assert!(kernel.ir().has_asserts());
    /// assert!(!kernel.without_asserts().to_string().contains("setp"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn without_asserts(&self) -> Kernel<P> {
        let (ir, signature) = (passes::without_asserts(&self.ir), Arc::clone(&self.signature));
        Kernel { ir, signature, merged: self.merged, params: PhantomData }
    }

    /// Applies the transformations that operations ask for, such as unrolling a loop. The result
    /// computes the same.
    ///
    /// [`Kernel::build`] already does this. Call it after parsing: a parsed kernel keeps its loops
    /// as they are written, and the simulator and the PTX writer run them as plain loops.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, parse};
    ///
    /// let text = "
    ///     kernel @squares target sm_80 (%y: ptr<global, mut i32>) {
    ///       %zero = const 0 : i32
    ///       %one = const 1 : i32
    ///       %three = const 3 : i32
    ///       for @l %i: i32 = %zero to %three step %one unroll full {
    ///         %v = mul %i, %i : i32
    ///         st %y, %i, %v
    ///         continue @l
    ///       }
    ///       return
    ///     }";
    /// let kernel = Kernel::verify(parse("squares.kir", text)?)?;
    /// let stores = |k: &Kernel<_>| k.ir().to_string().matches("st %y").count();
    /// assert_eq!((stores(&kernel), stores(&kernel.lower()?)), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns each limit that the lowered kernel exceeds, for example of shared memory, which
    /// pipelining multiplies.
    #[track_caller]
    pub fn lower(&self) -> Result<Kernel<P>, BuildErrors> {
        let ir = lowered(&self.ir, SourceLocation::caller())?;
        let signature = Arc::clone(&self.signature);
        Ok(Kernel { ir, signature, merged: self.merged, params: PhantomData })
    }
}

/// Prints the kernel in the text form.
impl<P> fmt::Display for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ir, f)
    }
}

impl Kernel<Untyped> {
    /// Verifies a kernel that was parsed from text or made as data, so that you can generate code
    /// for it or simulate it. It does not unroll or pipeline loops; [`Kernel::lower`] does.
    ///
    /// # Errors
    /// Returns every rule that the kernel breaks.
    pub fn verify(ir: KernelIr) -> Result<Kernel<Untyped>, VerifyErrors> {
        verify::verify(&ir)?;
        Ok(Kernel { ir, signature: Arc::default(), merged: None, params: PhantomData })
    }
}

impl<P> Kernel<P> {
    // The bound `P: Params` is on the methods, because only there rustc shows the trait's message.
    /// Builds and verifies the kernel `name` for `target`. `body` runs once, on the host, and gets
    /// the parameters of the signature `P`.
    ///
    /// # Errors
    /// Returns every mistake found, in the order of the Rust lines that made them.
    #[track_caller]
    pub fn build<R: BodyResult>(
        name: &str,
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>) -> R,
    ) -> Result<Kernel<P>, BuildErrors>
    where
        P: Params,
    {
        Self::build_with(KernelOptions::default(), name, target, body)
    }

    /// Builds a kernel as [`Kernel::build`] does, with [options](KernelOptions) such as launch
    /// bounds or layout templates.
    ///
    /// # Errors
    /// Returns every mistake found, in the order of the Rust lines that made them.
    #[track_caller]
    pub fn build_with<R: BodyResult>(
        options: KernelOptions,
        name: &str,
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>) -> R,
    ) -> Result<Kernel<P>, BuildErrors>
    where
        P: Params,
    {
        Self::declared(options, name, target, P::declare, |k, values| {
            let params = P::make(k.context(), values);
            body(k, params)
        })
    }
}

impl<P> Kernel<P> {
    /// Forgets the Rust types of the signature, so that kernels with different parameters have one
    /// type. A launch then checks the arguments' types when it runs.
    pub fn untyped(self) -> Kernel<Untyped> {
        self.with_signature()
    }

    /// Returns the kernel with another Rust type as its signature; the IR types must be the same. A
    /// kernel that was built for [roles](super::Role) gets the types that its launches pass.
    pub(crate) fn with_signature<Q>(self) -> Kernel<Q> {
        let Kernel { ir, signature, merged, .. } = self;
        Kernel { ir, signature, merged, params: PhantomData }
    }

    /// Builds a kernel from the signature `S` as [`Kernel::build_with`] does, and returns it with
    /// the signature `P`. Kernels whose bodies are written for roles use it.
    #[track_caller]
    pub(crate) fn build_as<S: Params, R: BodyResult>(
        options: KernelOptions,
        name: &str,
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, S::At<'b>) -> R,
    ) -> Result<Kernel<P>, BuildErrors> {
        Self::declared(options, name, target, S::declare, |k, values| {
            let params = S::make(k.context(), values);
            body(k, params)
        })
    }

    /// Builds a kernel from the parameters that `declare` lists. `body` makes them from their
    /// values, in the same order.
    #[track_caller]
    pub(crate) fn declared<R: BodyResult>(
        options: KernelOptions,
        name: &str,
        target: Target,
        declare: impl FnOnce(&mut ParamList),
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, &mut ParamValues<'_>) -> R,
    ) -> Result<Kernel<P>, BuildErrors> {
        let KernelOptions { bounds, templates, merge_shared } = options;
        let mut list = ParamList::new(templates);
        declare(&mut list);
        let location = SourceLocation::caller();
        let head = Head { name, target, bounds, location, merge_shared };
        let (ir, signature, merged) =
            head.build(list, Box::new(|k, list, ids| body(k, &mut list.values(ids)).error()))?;
        Ok(Kernel { ir, signature, merged, params: PhantomData })
    }
}

impl Kernel<Untyped> {
    /// Builds a kernel that stores each value of an expression through its own parameter, a pointer
    /// to one element.
    #[track_caller]
    pub(crate) fn expression<V: Values>(
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>) -> V::At<'b>,
    ) -> Result<Kernel<Untyped>, BuildErrors> {
        let bounds = KernelOptions::default().block([1, 1, 1]).bounds;
        let (name, location) = ("expression", SourceLocation::caller());
        let head = Head { name, target, bounds, location, merge_shared: false };
        let (types, mut list) = (types_of::<V>(&HostParts::new()), ParamList::new(Vec::new()));
        let pointer = |ty: Type| match ty {
            Type::Scalar(elem) => Type::Pointer { space: Space::Global, elem, mutable: true },
            Type::Vector(vector) => {
                Type::Pointer { space: Space::Global, elem: vector.elem(), mutable: true }
            }
            Type::Pointer { .. } | Type::TensorMap { .. } => ty,
        };
        for (i, ty) in types.into_iter().enumerate() {
            list.field(&format!("p{i}"), |list| list.leaf(pointer(ty)));
        }
        let (ir, signature, merged) = head.build(
            list,
            Box::new(|k, _, bases| {
                let (group, cx) = (body(k), k.context());
                let mut values = ValueList::new();
                if !cx.ended() {
                    V::ids(&group, cx, &mut values);
                }
                for (&base, value) in bases.iter().zip(values) {
                    let index = cx.constant(0i32).id();
                    cx.emit(Mem::St { base, index, value, access: Default::default() });
                }
                None
            }),
        )?;
        Ok(Kernel { ir, signature, merged, params: PhantomData })
    }
}

/// A kernel's body, which returns the text of its error. It is boxed so that [`Head::build`] is
/// compiled once and not for each body.
type BodyOf<'f> =
    Box<dyn for<'b> FnOnce(&mut Body<'b, 'b>, &ParamList, &[Value]) -> Option<String> + 'f>;

/// What is known about a kernel before its body is built.
struct Head<'h> {
    name: &'h str,
    target: Target,
    bounds: LaunchBounds,
    location: SourceLocation,
    merge_shared: bool,
}

impl Head<'_> {
    /// Builds and verifies a kernel with the given parameters. `body` gets their values and returns
    /// its error message, if any.
    fn build(
        self,
        mut list: ParamList,
        body: BodyOf<'_>,
    ) -> Result<(KernelIr, Arc<Signature>, Option<MergedShared>), BuildErrors> {
        let Head { name, target, bounds, location, merge_shared } = self;
        list.finish();
        let mut ir = KernelIr::new(name, target);
        ir.bounds = bounds;
        let (region, place_id) = (ir.body, ir.location(location));
        for (i, (name, ty)) in list.leaves.iter().enumerate() {
            let def = ValueDef::Param(i as u32);
            let value = ir.values.push(ValueData { ty: *ty, def, region, location: place_id });
            ir.params.push(IrParam { name: name.clone(), value });
        }
        let ids: Vec<Value> = ir.params.iter().map(|param| param.value).collect();
        let cx = Context::new(ir, &list.signature.symbols);
        let wrong = std::mem::take(&mut list.errors);
        let message = cx.build(|| {
            let message = body(&mut Body::new(&cx), &list, &ids);
            if !cx.ended() {
                cx.with(|state| state.append(Control::Return.into(), location));
            }
            message
        });
        let (mut ir, mut errors, signature) = cx.finish(list.signature);
        errors.extend(wrong.into_iter().map(|kind| BuildError { location, kind }));
        remove_unused_special_registers(&mut ir);
        if let Some(message) = message {
            errors.push(BuildError { location, kind: BuildErrorKind::Body(message) });
        }
        if !errors.is_empty() {
            return Err(BuildErrors::new(name, errors));
        }
        // Merged allocations may fit even if the sum of all does not, so that error is judged after
        // merging.
        let fits = |error: &BuildError| {
            !merge_shared
                || !matches!(error.kind, BuildErrorKind::Verify(VerifyError::SharedSize { .. }))
        };
        let checked = check(&ir, location).or_else(|errors| {
            let errors: Vec<BuildError> = errors.into_iter().filter(fits).collect();
            if errors.is_empty() { Ok(()) } else { Err(errors) }
        });
        let lowered = checked.and_then(|()| lower(ir, location, merge_shared));
        let (ir, merged) = lowered.map_err(|errors| BuildErrors::new(name, errors))?;
        Ok((ir, Arc::new(signature), merged))
    }
}

pub(in crate::ir) fn lowered(
    ir: &KernelIr,
    location: SourceLocation,
) -> Result<KernelIr, BuildErrors> {
    let lowered = lower(ir.clone(), location, false);
    Ok(lowered.map_err(|errors| BuildErrors::new(&ir.name, errors))?.0)
}

/// Verifies a kernel that was built at `location`.
fn check(ir: &KernelIr, location: SourceLocation) -> Result<(), Vec<BuildError>> {
    verify::verify(ir).map_err(|found| {
        let error = |violation: Violation| BuildError {
            location: violation.location.unwrap_or(location),
            kind: BuildErrorKind::Verify(violation.error),
        };
        found.into_iter().map(error).collect()
    })
}

/// Applies the transformations that operations ask for, merges shared memory if `merge` is true,
/// and verifies the result again.
fn lower(
    ir: KernelIr,
    location: SourceLocation,
    merge: bool,
) -> Result<(KernelIr, Option<MergedShared>), Vec<BuildError>> {
    let lowered = passes::lower(&ir);
    let changed = lowered.is_some();
    let ir = lowered.unwrap_or(ir);
    if !merge {
        return if changed { check(&ir, location) } else { Ok(()) }.map(|()| (ir, None));
    }
    let before = ir.shared_layout().1;
    let ir = passes::merge_shared(&ir).unwrap_or(ir);
    let after = ir.shared_layout().1;
    check(&ir, location).map(|()| (ir, Some(MergedShared { before, after })))
}

/// What you can fix about a kernel besides its name, target and body: launch bounds, layout
/// templates, shared-memory merging.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
///
/// let options = KernelOptions::default().block([128, 1, 1]);
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build_with(options, "fill", Target::SM_80, |k, (x,)| {
///     x.store(k.thread_idx().x, 7)
/// })?;
/// assert_eq!(kernel.ir().bounds.block, Some([128, 1, 1]));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelOptions {
    /// Launch bounds: limits for the block, the cluster and the registers.
    pub bounds: LaunchBounds,
    /// Templates for the parameters that are layouts or tuples, in the parameters' order; see
    /// [`template`](KernelOptions::template).
    pub templates: Vec<Template>,
    /// True if allocations whose live ranges do not overlap share memory; see
    /// [`merge_shared`](KernelOptions::merge_shared).
    pub merge_shared: bool,
}

impl KernelOptions {
    /// Gives the next parameter of type [`Layout`](crate::layout::Layout) or
    /// [`IntTuple`](crate::layout::IntTuple) its template: the layout or tuple with symbols in
    /// place of what is known only at launch.
    ///
    /// Each symbol becomes one scalar parameter of the kernel, even if several templates contain
    /// it, so it must stand alone as a leaf in one of them. A launch passes the layout or tuple
    /// with integers, and checks its form, its other leaves and what the template assumes about the
    /// symbols.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
    /// use tilewright::layout::{Int, Layout, layout};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let n = Int::symbol("n").divisible_by(4);
    /// let rows = Layout::new((8, n.clone()), (n, 1))?; // (8,n):(n,1)
    /// let options = KernelOptions::default().template(&rows);
    /// type Params = (Layout, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build_with(options, "ones", Target::SM_80, |k, (rows, x)| {
    ///     let (i, j) = (k.thread_idx().x, k.block_idx().x);
    ///     let offset = k.crd2idx::<i32>((i, j), &rows); // i * n + j
    ///     x.store(offset, 1.0);
    /// })?;
    ///
    /// let device = Device::sim()?;
    /// let f = device.load(&kernel)?;
    /// let mut x = device.zeros(8 * 12)?;
    /// f.launch(Grid::new([12, 1, 1], [8, 1, 1]), (&layout!((8, 12) : (12, 1)), &mut x))?;
    /// assert_eq!(x.to_vec()?, [1.0; 96]);
    /// let error = f.launch(Grid::new([12, 1, 1], [8, 1, 1]), (&layout!((8, 10) : (10, 1)), &mut x));
    /// assert!(error.unwrap_err().to_string().contains("n = 10 violates"));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn template(mut self, template: impl Into<Template>) -> KernelOptions {
        self.templates.push(template.into());
        self
    }

    /// Lets allocations with separate live ranges share memory: those in the arms of an `if` that
    /// all threads of the block take alike, and those of phases separated by a block barrier. Use
    /// it if a kernel has several phases and would otherwise exceed the shared memory;
    /// [`Kernel::merged_shared`] tells what it saved.
    ///
    /// Two allocations are not merged if a loop contains both. An allocation is merged only if
    /// nothing but loads, stores, matrix loads and atomics use it, because asynchronous copies,
    /// mbarriers, descriptors and other blocks may access memory later than the program order says.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
    ///
    /// let build = |options: KernelOptions| {
    ///     Kernel::<(GlobalMut<f32>, i32)>::build_with(options, "k", Target::SM_80, |k, (x, _)| {
    ///         let t = k.thread_idx().x;
    ///         let (first, second) = (k.shared::<f32>(256), k.shared::<i32>(128));
    ///         first.store(t, x.load(t));
    ///         k.barrier();
    ///         let sum = first.load(t) + first.load(t ^ 1);
    ///         k.barrier();
    ///         second.store(t, sum.cvt::<i32>());
    ///         k.barrier();
    ///         x.store(t, second.load(t ^ 2).cvt::<f32>());
    ///     })
    /// };
    /// let merged = build(KernelOptions::default().merge_shared())?.merged_shared().unwrap();
    /// assert_eq!((merged.before, merged.after), (1024 + 512, 1024));
    /// assert_eq!(build(KernelOptions::default())?.merged_shared(), None);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn merge_shared(self) -> KernelOptions {
        KernelOptions { merge_shared: true, ..self }
    }

    /// Fixes the block's shape in threads (PTX ISA 11.4 `.reqntid`); a launch with another shape is
    /// refused. A fixed shape makes reductions cheaper and lets `ptxas` use all registers that fit.
    #[doc(alias("__block_size__", "reqntid"))]
    pub fn block(mut self, block: [u32; 3]) -> KernelOptions {
        self.bounds.block = Some(block);
        self
    }

    /// Limits the threads of a block (`.maxntid`) for a kernel that does not fix them. `ptxas` then
    /// limits registers so that such a block fits; a launch with more threads is refused.
    #[doc(alias("__launch_bounds__", "maxntid"))]
    pub fn max_threads(mut self, threads: u32) -> KernelOptions {
        self.bounds.max_threads = Some(threads);
        self
    }

    /// Asks for at least `blocks` resident thread blocks per SM (`.minnctapersm`), which limits the
    /// registers per thread. Use it if the kernel hides latency by running several blocks. Needs
    /// [`block`](KernelOptions::block) or [`max_threads`](KernelOptions::max_threads).
    pub fn min_blocks_per_sm(mut self, blocks: u32) -> KernelOptions {
        self.bounds.min_blocks_per_sm = Some(blocks);
        self
    }

    /// Limits the registers per thread (`.maxnreg`), from 24 to 255, so that more blocks fit on an
    /// SM. Too low a limit makes `ptxas` spill registers to memory.
    #[doc(alias("__maxnreg__", "maxnreg"))]
    pub fn max_registers(mut self, registers: u32) -> KernelOptions {
        self.bounds.max_registers = Some(registers);
        self
    }

    /// Launches the kernel in clusters of `blocks` thread blocks along each axis
    /// (`.reqnctapercluster`): at most 8 in all, or 16 if the GPU supports it. Use it for multicast
    /// copies and distributed shared memory. Requires `sm_90`.
    #[doc(alias = "__cluster_dims__")]
    pub fn cluster(mut self, blocks: [u32; 3]) -> KernelOptions {
        self.bounds.cluster = Some(ClusterShape::Fixed(blocks));
        self
    }

    /// Lets each launch choose the cluster size, which it must then pass (`.explicitcluster`).
    pub fn cluster_at_launch(mut self) -> KernelOptions {
        self.bounds.cluster = Some(ClusterShape::AtLaunch);
        self
    }
}

/// Removes unused special registers: `k.thread_idx().x` also reads `y` and `z`, which would only
/// clutter the output.
fn remove_unused_special_registers(ir: &mut KernelIr) {
    let mut used = vec![false; ir.values.len()];
    for (_, data) in ir.ops.iter() {
        data.op.operands().iter().for_each(|value| used[value.index()] = true);
    }
    let is_used = |ir: &KernelIr, op: crate::ir::OpId| {
        let data = &ir.ops[op];
        !matches!(data.op, Op::Thread(Thread::Sreg { .. }))
            || data.results.iter().any(|value| used[value.index()])
    };
    let regions: Vec<_> = ir.regions.keys().collect();
    for region in regions {
        let mut ops = std::mem::take(&mut ir.regions[region].ops);
        ops.retain(|op| is_used(ir, *op));
        ir.regions[region].ops = ops;
    }
}
