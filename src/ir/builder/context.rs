//! [`Context`]: the state of one build, with the growing IR, the stack of open bodies, and the
//! errors so far. Every builder method appends its operation through it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use smallvec::SmallVec;

use super::collective::Pool;
use super::error::{BuildError, BuildErrorKind};
use super::host_part::HostParts;
use super::typed::{Element, IntoOperand, Ty, Val};
use crate::ir::Target;
use crate::ir::analysis::alignment;
use crate::ir::entity::{Entity, LocationId, OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, OpData, Region, SourceLocation, ValueData, ValueDef};
use crate::ir::op::{Op, ValueList};
use crate::ir::required_len::RequiredLen;
use crate::ir::signature::{Signature, SymbolParam, same_symbol};
use crate::ir::types::{Scalar, Type};
use crate::layout::{Int, Symbol};
use crate::sorting::sort_by_key;

/// The build that values and bodies belong to. Opaque to users: you meet it only in the signatures
/// of [`Values`](super::Values) and [`Parameter`](super::Parameter).
pub struct Context {
    state: RefCell<State>,
}

thread_local! {
    /// How many kernels the thread is building, one inside of the closure of another.
    static BUILDS: Cell<u32> = const { Cell::new(0) };
}

/// Counts one build of the thread less when it is dropped, also if the closure panics.
struct EndOfBuild;

impl Drop for EndOfBuild {
    fn drop(&mut self) {
        BUILDS.set(BUILDS.get().saturating_sub(1));
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

struct Open {
    region: RegionId,
    /// True once the region has its terminator.
    ended: bool,
}

pub(super) struct State {
    pub(super) ir: KernelIr,
    /// The number of builds of the thread, this one included, while this one is the innermost.
    builds: u32,
    open: Vec<Open>,
    errors: Vec<BuildError>,
    /// The parameters' symbols, each with its value.
    symbols: Vec<(Symbol, Value, Scalar)>,
    /// Symbolic expressions computed so far, by body and type, so that each is computed once.
    computed: HashMap<(RegionId, Int, Scalar), Value>,
    /// Buffer lengths that every launch must provide.
    pub(super) required: Vec<RequiredLen>,
    /// Shared memory for reductions and scans; `Some` once a block-wide one exists.
    pub(super) pool: Option<Pool>,
    /// What the host knows about the results of control flow, and about what loops carry.
    pub(super) result_parts: HashMap<OpId, HostParts>,
    pub(super) carried_parts: HashMap<OpId, HostParts>,
    /// Rust lines of calls into the crate that have not returned yet.
    pub(super) calls: Vec<SourceLocation>,
}

impl Context {
    pub(super) fn new(ir: KernelIr, symbols: &[SymbolParam]) -> Context {
        let open = vec![Open { region: ir.body, ended: false }];
        let symbols = symbols.iter().filter_map(|param| {
            let value = ir.params.get(param.index)?.value;
            Some((param.int.as_symbol()?.clone(), value, param.scalar))
        });
        let (symbols, computed, errors) = (symbols.collect(), HashMap::new(), Vec::new());
        let (required, pool, calls) = (Vec::new(), None, Vec::new());
        let (result_parts, carried_parts) = (HashMap::new(), HashMap::new());
        let state = State {
            ir,
            builds: BUILDS.get() + 1,
            open,
            errors,
            symbols,
            computed,
            required,
            pool,
            result_parts,
            carried_parts,
            calls,
        };
        Context { state: RefCell::new(state) }
    }

    /// Runs the closure of the kernel. Meanwhile this is the thread's innermost build.
    pub(super) fn build<R>(&self, body: impl FnOnce() -> R) -> R {
        BUILDS.set(self.with(|state| state.builds));
        let _end = EndOfBuild;
        body()
    }

    /// Returns the kernel, its errors, and the signature together with what the body requires of
    /// launches.
    pub(super) fn finish(self, signature: Signature) -> (KernelIr, Vec<BuildError>, Signature) {
        let state = self.state.into_inner();
        let mut computed: Vec<(Int, Scalar)> = Vec::new();
        for (_, int, scalar) in state.computed.into_keys() {
            if !computed.iter().any(|known| *known == (int.clone(), scalar)) {
                computed.push((int, scalar));
            }
        }
        // A hash map's order differs from run to run.
        sort_by_key(&mut computed, |(int, scalar)| (int.to_string(), *scalar));
        let required = state.required;
        (state.ir, state.errors, Signature { computed, required, ..signature })
    }

    /// Runs `f` on the state. It must not nest, so `f` calls only methods of [`State`].
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.borrow_mut())
    }

    /// Returns a handle of the innermost open body.
    pub(crate) fn body(&self) -> super::body::Body<'_, '_> {
        super::body::Body::new(self)
    }

    /// Makes a region that no operation owns yet.
    pub(super) fn new_region(&self) -> RegionId {
        self.with(|state| state.new_region())
    }

    /// Returns whether the innermost open body has its terminator.
    pub(super) fn ended(&self) -> bool {
        self.with(|state| state.ended())
    }

    /// Marks the innermost open body as ended.
    pub(super) fn end_region(&self) {
        self.with(|state| state.end_region());
    }

    /// Adds arguments of the given types to a region.
    pub(super) fn add_args(&self, region: RegionId, types: &[Type], location: SourceLocation) {
        self.with(|state| {
            let location = state.location(location);
            for ty in types {
                state.add_arg(region, *ty, location);
            }
        });
    }

    /// Returns a region's arguments.
    pub(super) fn args(&self, region: RegionId) -> ValueList {
        self.with(|state| state.ir.regions[region].args.iter().copied().collect())
    }

    /// Returns the block's shape in threads, if the kernel fixes it.
    pub(super) fn block(&self) -> Option<[u32; 3]> {
        self.with(|state| state.ir.bounds.block)
    }

    pub(super) fn target(&self) -> Target {
        self.with(|state| state.ir.target)
    }

    /// Returns how many bytes of shared memory a block needs so far.
    pub(super) fn shared_bytes(&self) -> u64 {
        self.with(|state| state.ir.shared_layout().1)
    }

    /// Returns the largest power of two, up to 4096, that is known to divide an integer.
    pub(super) fn divisor(&self, value: Value) -> u64 {
        self.with(|state| {
            let declared = |param: Value| {
                let found = state.symbols.iter().find(|(_, value, _)| *value == param);
                found.map_or(1, |(symbol, ..)| symbol.divisor().unsigned_abs())
            };
            alignment::divisor(&state.ir, value, &declared)
        })
    }

    /// Appends a constant at the caller's line.
    #[track_caller]
    pub(super) fn constant<T: Element>(&self, value: T) -> Val<'_, T> {
        self.emit_val(Op::Const(value.to_const()))
    }

    /// Appends an operation and returns the results that its row in the operation table determines.
    #[track_caller]
    pub(super) fn emit(&self, op: impl Into<Op>) -> SmallVec<[Value; 2]> {
        self.emit_at(op.into(), SourceLocation::caller())
    }

    fn emit_at(&self, op: Op, location: SourceLocation) -> SmallVec<[Value; 2]> {
        self.with(|state| state.emit(op, location))
    }

    /// Appends an operation with one result, of type `T`.
    #[track_caller]
    pub(super) fn emit_val<T: Ty>(&self, op: impl Into<Op>) -> Val<'_, T> {
        let results = self.emit_at(op.into(), SourceLocation::caller());
        Val::new(self, self.result_at(&results, 0, T::ty()))
    }

    /// Appends an operation with two results, of types `A` and `B`.
    #[track_caller]
    pub(super) fn emit_pair<A: Ty, B: Ty>(&self, op: impl Into<Op>) -> (Val<'_, A>, Val<'_, B>) {
        let results = self.emit_at(op.into(), SourceLocation::caller());
        let [a, b] = [self.result_at(&results, 0, A::ty()), self.result_at(&results, 1, B::ty())];
        (Val::new(self, a), Val::new(self, b))
    }

    fn result_at(&self, results: &[Value], at: usize, ty: Type) -> Value {
        results.get(at).copied().unwrap_or_else(|| self.poison(ty))
    }

    /// Makes a value without a definition, in place of one that could not be made. Either an error
    /// has been recorded, or the verifier finds the missing definition.
    pub(super) fn poison(&self, ty: Type) -> Value {
        self.with(|state| state.poison(ty))
    }

    /// Returns the value's id for use at the caller's line. Records an error unless the value
    /// belongs to this build and to an open body.
    #[track_caller]
    pub(super) fn operand<T: Ty>(&self, value: Val<'_, T>) -> Value {
        self.operand_in(value.context(), value.id(), T::ty())
    }

    #[track_caller]
    fn operand_in(&self, context: &Context, value: Value, ty: Type) -> Value {
        let location = SourceLocation::caller();
        self.with(|state| {
            if !std::ptr::eq(self, context) {
                state.error(location, BuildErrorKind::ForeignValue);
                return state.poison(ty);
            }
            let ValueData { region, location: made, .. } = state.ir.values[value];
            if !state.open.iter().rev().any(|open| open.region == region) {
                let made = state.ir.locations[made];
                state.error(location, BuildErrorKind::ValueOutsideItsBody { made });
            }
            value
        })
    }

    /// Returns a host or device value's id for use at the caller's line.
    #[track_caller]
    pub(super) fn operand_of<'x, T: Ty>(&'x self, value: impl IntoOperand<'x, T>) -> Value {
        let value = value.into_operand(self);
        self.operand(value)
    }

    /// Runs `body` in a scratch region with arguments of the given types, then undoes everything it
    /// made. `see` looks at the result and the operations before they are undone.
    pub(super) fn try_out<R, S>(
        &self,
        types: &[Type],
        body: impl FnOnce(&[Value]) -> R,
        see: impl FnOnce(&KernelIr, &[OpId], R) -> S,
    ) -> S {
        let (before, region, args) = self.with(|state| {
            let before = Marks::new(state);
            let location = state.ir.location(SourceLocation { file: "", line: 0, column: 0 });
            let region = state.new_region();
            let args = types.iter().map(|ty| state.add_arg(region, *ty, location));
            let args: Vec<Value> = args.collect();
            state.open.push(Open { region, ended: false });
            (before, region, args)
        });
        let result = body(&args);
        self.with(|state| {
            state.close();
            let seen = see(&state.ir, &state.ir.regions[region].ops, result);
            before.take_back(state);
            seen
        })
    }

    /// Records an error at the caller's source location.
    #[track_caller]
    pub(super) fn error(&self, kind: BuildErrorKind) {
        let location = SourceLocation::caller();
        self.with(|state| state.error(location, kind));
    }
}

impl State {
    /// Returns the IR's id for a source location.
    pub(super) fn location(&mut self, location: SourceLocation) -> LocationId {
        let location = self.of_user(location);
        self.ir.location(location)
    }

    pub(super) fn error(&mut self, location: SourceLocation, kind: BuildErrorKind) {
        let location = self.of_user(location);
        self.errors.push(BuildError { location, kind });
    }

    fn poison(&mut self, ty: Type) -> Value {
        let (region, location) = (self.region(), SourceLocation { file: "", line: 0, column: 0 });
        let location = self.location(location);
        self.ir.values.push(ValueData { ty, def: ValueDef::Param(u32::MAX), region, location })
    }

    /// Returns the parameter that holds a symbol's value, and its type.
    pub(super) fn symbol(&self, symbol: &Symbol) -> Option<(Value, Scalar)> {
        let found = self.symbols.iter().find(|(known, ..)| same_symbol(known, symbol));
        found.map(|(_, value, scalar)| (*value, *scalar))
    }

    /// Returns the value of an expression if an open body has computed it.
    pub(super) fn computed(&self, int: &Int, scalar: Scalar) -> Option<Value> {
        let regions = self.open.iter().rev().map(|open| open.region);
        regions
            .into_iter()
            .find_map(|region| self.computed.get(&(region, int.clone(), scalar)).copied())
    }

    /// Remembers the value of an expression for the innermost open body.
    pub(super) fn note_computed(&mut self, int: &Int, scalar: Scalar, value: Value) {
        self.computed.insert((self.region(), int.clone(), scalar), value);
    }

    /// Returns whether the region's body is open.
    pub(super) fn is_open(&self, region: RegionId) -> bool {
        self.open.iter().any(|open| open.region == region)
    }

    /// Returns the innermost open body's region.
    pub(super) fn region(&self) -> RegionId {
        // The body of the kernel stays open until `finish`.
        self.open.last().map_or(self.ir.body, |open| open.region)
    }

    /// Appends an operation with the results of its row.
    fn emit(&mut self, op: Op, location: SourceLocation) -> SmallVec<[Value; 2]> {
        let types = op.result_types(&self.ir);
        let id = self.append(op, location);
        types.into_iter().map(|ty| self.add_result(id, ty)).collect()
    }

    /// Appends an operation without results to the innermost open body.
    pub(super) fn append(&mut self, op: Op, location: SourceLocation) -> OpId {
        let region = self.region();
        // A constant is only an operand of another operation, which the error then names.
        if self.builds != BUILDS.get() && !matches!(op, Op::Const(_)) {
            self.error(location, BuildErrorKind::OutsideItsKernel { op: op.name() });
        }
        if self.ended() && !matches!(op, Op::Const(_)) {
            let terminator = self.ir.regions[region].ops.last().map(|op| self.ir.location_of(*op));
            let terminator = terminator.unwrap_or(location);
            self.error(location, BuildErrorKind::AfterTerminator { op: op.name(), terminator });
        }
        if let Op::Control(control) = &op
            && control.is_terminator()
        {
            self.end_region();
        }
        let location = self.location(location);
        let id = self.ir.ops.push(OpData { op, results: Default::default(), region, location });
        self.ir.regions[region].ops.push(id);
        id
    }

    pub(super) fn add_result(&mut self, op: OpId, ty: Type) -> Value {
        let OpData { region, location, ref results, .. } = self.ir.ops[op];
        let def = ValueDef::Result(op, results.len() as u32);
        let value = self.ir.values.push(ValueData { ty, def, region, location });
        self.ir.ops[op].results.push(value);
        value
    }

    /// Makes a region that no operation owns yet.
    pub(super) fn new_region(&mut self) -> RegionId {
        self.ir.regions.push(Region::default())
    }

    pub(super) fn add_arg(&mut self, region: RegionId, ty: Type, location: LocationId) -> Value {
        let def = ValueDef::Arg(region, self.ir.regions[region].args.len() as u32);
        let value = self.ir.values.push(ValueData { ty, def, region, location });
        self.ir.regions[region].args.push(value);
        value
    }

    /// Opens the body of `region`, so that new operations go there.
    pub(super) fn open(&mut self, region: RegionId, parent: OpId) {
        self.ir.regions[region].parent = Some(parent);
        self.open.push(Open { region, ended: false });
    }

    /// Marks the innermost open body as ended.
    pub(super) fn end_region(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.ended = true;
        }
    }

    /// Returns whether the innermost open body has its terminator.
    pub(super) fn ended(&self) -> bool {
        self.open.last().is_some_and(|open| open.ended)
    }

    pub(super) fn close(&mut self) {
        self.open.pop();
    }
}

/// The sizes of all arenas at one moment, for undoing what follows.
struct Marks {
    ops: usize,
    values: usize,
    regions: usize,
    vars: usize,
    shared: usize,
    locals: usize,
    arrays: usize,
    globals: usize,
    errors: usize,
    required: usize,
    has_pool: bool,
}

impl Marks {
    fn new(state: &State) -> Marks {
        let ir = &state.ir;
        Marks {
            ops: ir.ops.len(),
            values: ir.values.len(),
            regions: ir.regions.len(),
            vars: ir.vars.len(),
            shared: ir.shared.len(),
            locals: ir.locals.len(),
            arrays: ir.arrays.len(),
            globals: ir.globals.len(),
            errors: state.errors.len(),
            required: state.required.len(),
            has_pool: state.pool.is_some(),
        }
    }

    /// Undoes everything made since then. Nothing older may refer to it.
    #[inline]
    fn take_back(&self, state: &mut State) {
        let ir = &mut state.ir;
        ir.ops.truncate(self.ops);
        ir.values.truncate(self.values);
        ir.regions.truncate(self.regions);
        ir.vars.truncate(self.vars);
        ir.shared.truncate(self.shared);
        ir.locals.truncate(self.locals);
        ir.arrays.truncate(self.arrays);
        ir.globals.truncate(self.globals);
        // A new pool has inserted operations at the start of the kernel.
        let body = ir.body;
        ir.regions[body].ops.retain(|op| op.index() < self.ops);
        state.errors.truncate(self.errors);
        state.required.truncate(self.required);
        state.computed.retain(|(region, ..), _| region.index() < self.regions);
        state.result_parts.retain(|op, _| op.index() < self.ops);
        state.carried_parts.retain(|op, _| op.index() < self.ops);
        let pool = state.pool.take().filter(|_| self.has_pool);
        state.pool = pool.map(|pool| pool.without_ops_from(self.ops));
    }
}
