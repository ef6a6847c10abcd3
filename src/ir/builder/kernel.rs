//! Building a whole kernel: its signature, its body, its verification.

use std::fmt;
use std::marker::PhantomData;

use super::body::Body;
use super::context::Context;
use super::control::Terminated;
use super::error::{BuildError, BuildErrorKind, BuildErrors};
use super::typed::{Ty, Val};
use super::values::Values;
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::entity::{Entity, Value};
use crate::ir::kernel::{KernelIr, Param as IrParam, Place, ValueData, ValueDef};
use crate::ir::op::{Arith, Control, Mem, Op, ValueList};
use crate::ir::passes;
use crate::ir::target::Target;
use crate::ir::types::{Space, Type};
use crate::ir::verify::{self, VerifyErrors, Violation};

/// The signature of a kernel: a tuple of parameter types. Each [`Ty`] is a parameter type.
pub trait Params: 'static {
    /// The parameters as the body of the kernel gets them.
    type At<'b>;
    /// The types of the parameters, in order.
    fn types() -> Vec<Type>;
    /// The parameters as the body of the kernel gets them, from one value for each of `types`.
    fn make<'b>(
        cx: &'b Context,
        ids: &mut dyn Iterator<Item = crate::ir::entity::Value>,
    ) -> Self::At<'b>;
}

macro_rules! params {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Ty),*> Params for ($($name,)*) {
            type At<'b> = ($(Val<'b, $name>,)*);

            fn types() -> Vec<Type> {
                vec![$($name::TYPE),*]
            }
            #[allow(clippy::unused_unit, reason = "the macro also makes the empty tuple")]
            fn make<'b>(
                _cx: &'b Context,
                _ids: &mut dyn Iterator<Item = crate::ir::entity::Value>,
            ) -> Self::At<'b> {
                ($(<$name as super::values::Values>::make(_cx, _ids),)*)
            }
        }
    )*};
}

params! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
}

/// A signature that only the IR knows, of a kernel that was not built from Rust types.
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

/// What the closure given to [`Kernel::build`] may return: `()`, [`Terminated`], or a `Result` of these
/// with any error that has a message.
pub trait BodyResult {
    /// The message of the error, if there is one.
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

/// A verified kernel with the signature `P`, for example `Kernel<(f32, Global<f32>, GlobalMut<f32>, i32)>`.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
///
/// type Square = (Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Square>::build("square", Target::SM_80, |k, (x, y)| {
///     let i = k.thread_idx().x;
///     let v = x.load(k, i);
///     y.store(k, i, v * v);
/// })?;
/// assert_eq!(kernel.ir().params.len(), 2);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
pub struct Kernel<P> {
    ir: KernelIr,
    params: PhantomData<fn() -> P>,
}

impl<P> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        Kernel { ir: self.ir.clone(), params: PhantomData }
    }
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ir, f)
    }
}

impl<P> Kernel<P> {
    /// The kernel as data.
    pub fn ir(&self) -> &KernelIr {
        &self.ir
    }

    /// The name of the PTX entry.
    pub fn name(&self) -> &str {
        &self.ir.name
    }

    /// The target that the kernel was built for.
    pub fn target(&self) -> Target {
        self.ir.target
    }
}

impl<P> Kernel<P> {
    /// The kernel without its assertions, and without what only they computed.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     k.assert(i.lt(64), "the block has at most 64 threads");
    ///     x.store(k, i, i);
    /// })?;
    /// assert!(kernel.ir().has_asserts());
    /// assert!(!kernel.without_asserts().to_string().contains("setp"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn without_asserts(&self) -> Kernel<P> {
        Kernel { ir: passes::without_asserts(&self.ir), params: PhantomData }
    }

    /// Carries out what the operations of the kernel ask for: loops that are to be unrolled are.
    /// [`Kernel::build`] ends with this; a kernel that was parsed has its loops as they are written, which
    /// the simulator and PTX take as plain loops, until this is called. The result computes the same.
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
    /// What the kernel then takes too much of.
    #[track_caller]
    pub fn lower(&self) -> Result<Kernel<P>, BuildErrors> {
        let lowered = lower(self.ir.clone(), Place::caller());
        let ir = lowered.map_err(|errors| BuildErrors::new(&self.ir.name, errors))?;
        Ok(Kernel { ir, params: PhantomData })
    }
}

/// The kernel in the text form.
impl<P> fmt::Display for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ir, f)
    }
}

impl Kernel<Untyped> {
    /// Verifies a kernel that was made as data, and leaves it as it is: see [`Kernel::lower`].
    ///
    /// # Errors
    /// All rules that the kernel breaks.
    pub fn verify(ir: KernelIr) -> Result<Kernel<Untyped>, VerifyErrors> {
        verify::verify(&ir)?;
        Ok(Kernel { ir, params: PhantomData })
    }
}

impl<P: Params> Kernel<P> {
    /// Builds and verifies the kernel `name` for `target`. `body` runs once and gets the parameters of the
    /// signature `P`.
    ///
    /// # Errors
    /// Every mistake found, in the order of the Rust lines that made them.
    #[track_caller]
    pub fn build<R: BodyResult>(
        name: &str,
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>) -> R,
    ) -> Result<Kernel<P>, BuildErrors> {
        Self::build_with(KernelOptions::default(), name, target, body)
    }

    /// As [`Kernel::build`], with options.
    ///
    /// # Errors
    /// Every mistake found, in the order of the Rust lines that made them.
    #[track_caller]
    pub fn build_with<R: BodyResult>(
        options: KernelOptions,
        name: &str,
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>) -> R,
    ) -> Result<Kernel<P>, BuildErrors> {
        let head = Head { name, target, options, place: Place::caller() };
        let ir = head.build(P::types(), |k, mut ids| {
            let params = P::make(k.context(), &mut ids);
            body(k, params).error()
        })?;
        Ok(Kernel { ir, params: PhantomData })
    }
}

impl Kernel<Untyped> {
    /// A kernel that stores the values of an expression: each to its parameter, a pointer to one element.
    #[track_caller]
    pub(crate) fn expression<V: Values>(
        target: Target,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>) -> V::At<'b>,
    ) -> Result<Kernel<Untyped>, BuildErrors> {
        let options = KernelOptions::default().block([1, 1, 1]);
        let head = Head { name: "expression", target, options, place: Place::caller() };
        let mut types = Vec::new();
        V::types(&mut types);
        let pointer = |ty: Type| match ty {
            Type::Scalar(elem) => Type::Pointer { space: Space::Global, elem, mutable: true },
            // What is no scalar cannot be stored, which the verifier says.
            Type::Pointer { .. } | Type::Vector(_) => ty,
        };
        let ir = head.build(types.into_iter().map(pointer).collect(), |k, bases| {
            let (group, cx) = (body(k), k.context());
            let mut values = ValueList::new();
            if !cx.with(|state| state.ended()) {
                V::ids(&group, cx, &mut values);
            }
            for (base, value) in bases.zip(values) {
                let index = cx.constant(0i32).id();
                cx.emit(Mem::St { base, index, value });
            }
            None
        })?;
        Ok(Kernel { ir, params: PhantomData })
    }
}

/// What is known of a kernel before its body is built.
struct Head<'h> {
    name: &'h str,
    target: Target,
    options: KernelOptions,
    place: Place,
}

impl Head<'_> {
    /// Builds and verifies a kernel with parameters of the given types. `body` returns the message of its
    /// error, if it has one.
    fn build(
        self,
        types: Vec<Type>,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'b>,
            std::iter::Map<std::ops::Range<usize>, fn(usize) -> Value>,
        ) -> Option<String>,
    ) -> Result<KernelIr, BuildErrors> {
        let Head { name, target, options, place } = self;
        let mut ir = KernelIr::new(name, target);
        ir.bounds = options.bounds;
        let (region, place_id) = (ir.body, ir.place(place));
        for (i, ty) in types.into_iter().enumerate() {
            let def = ValueDef::Param(i as u32);
            let value = ir.values.push(ValueData { ty, def, region, place: place_id });
            ir.params.push(IrParam { name: format!("p{i}"), value });
        }
        let params = ir.params.len();
        let cx = Context::new(ir);
        let ids = (0..params).map(Value::from_index as fn(usize) -> Value);
        let message = body(&mut Body::new(&cx), ids);
        if !cx.with(|state| state.ended()) {
            cx.with(|state| state.append(Control::Return.into(), place));
        }
        let (mut ir, mut errors) = cx.finish();
        remove_unused_special_registers(&mut ir);
        if let Some(message) = message {
            errors.push(BuildError { place, kind: BuildErrorKind::Body(message) });
        }
        if !errors.is_empty() {
            return Err(BuildErrors::new(name, errors));
        }
        let lowered = check(&ir, place).and_then(|()| lower(ir, place));
        lowered.map_err(|errors| BuildErrors::new(name, errors))
    }
}

/// The rules that a kernel which was built at `place` breaks.
fn check(ir: &KernelIr, place: Place) -> Result<(), Vec<BuildError>> {
    verify::verify(ir).map_err(|found| {
        let error = |violation: Violation| BuildError {
            place: violation.place.unwrap_or(place),
            kind: BuildErrorKind::Verify(violation.error),
        };
        found.into_iter().map(error).collect()
    })
}

/// Carries out what the operations of a verified kernel ask for, and verifies what that changed.
fn lower(ir: KernelIr, place: Place) -> Result<KernelIr, Vec<BuildError>> {
    match passes::lower(&ir) {
        None => Ok(ir),
        Some(lowered) => check(&lowered, place).map(|()| lowered),
    }
}

/// Facts about a kernel beside its name, target and body.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
///
/// let options = KernelOptions::default().block([128, 1, 1]);
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build_with(options, "fill", Target::SM_80, |k, (x,)| {
///     x.store(k, k.thread_idx().x, 7)
/// })?;
/// assert_eq!(kernel.ir().bounds.block, Some([128, 1, 1]));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct KernelOptions {
    /// What all launches of the kernel have in common.
    pub bounds: LaunchBounds,
}

impl KernelOptions {
    /// Fixes the threads of a block (PTX ISA 11.4 `.reqntid`); a launch with others is refused.
    pub fn block(mut self, block: [u32; 3]) -> KernelOptions {
        self.bounds.block = Some(block);
        self
    }

    /// The most threads that a block may have (`.maxntid`), for a kernel that does not fix them: `ptxas`
    /// gives a thread no more registers than last for them. A launch with more is refused.
    pub fn max_threads(mut self, threads: u32) -> KernelOptions {
        self.bounds.max_threads = Some(threads);
        self
    }

    /// How many blocks one multiprocessor is to have room for at once (`.minnctapersm`), which bounds the
    /// registers of a thread. It needs [`block`](KernelOptions::block) or
    /// [`max_threads`](KernelOptions::max_threads).
    pub fn min_blocks_per_sm(mut self, blocks: u32) -> KernelOptions {
        self.bounds.min_blocks_per_sm = Some(blocks);
        self
    }

    /// The most registers of a thread (`.maxnreg`), from 24 to 255.
    pub fn max_registers(mut self, registers: u32) -> KernelOptions {
        self.bounds.max_registers = Some(registers);
        self
    }

    /// Launches the blocks in clusters of so many along each axis (`.reqnctapercluster`), up to 8 in all, or
    /// 16 where the GPU has them. The target is `sm_90` or newer.
    pub fn cluster(mut self, blocks: [u32; 3]) -> KernelOptions {
        self.bounds.cluster = Some(ClusterShape::Fixed(blocks));
        self
    }

    /// Leaves the blocks of a cluster to each launch, which must say how many (`.explicitcluster`).
    pub fn cluster_at_launch(mut self) -> KernelOptions {
        self.bounds.cluster = Some(ClusterShape::AtLaunch);
        self
    }
}

/// `k.thread_idx().x` also reads `y` and `z`; reads that nothing uses are not worth a line in the output.
fn remove_unused_special_registers(ir: &mut KernelIr) {
    let mut used = vec![false; ir.values.len()];
    for (_, data) in ir.ops.iter() {
        data.op.for_each_operand(|value| used[value.index()] = true);
    }
    let is_used = |ir: &KernelIr, op: crate::ir::OpId| {
        let data = &ir.ops[op];
        !matches!(data.op, Op::Arith(Arith::Sreg { .. }))
            || data.results.iter().any(|value| used[value.index()])
    };
    let regions: Vec<_> = ir.regions.keys().collect();
    for region in regions {
        let mut ops = std::mem::take(&mut ir.regions[region].ops);
        ops.retain(|op| is_used(ir, *op));
        ir.regions[region].ops = ops;
    }
}
