//! The parts of a kernel: arenas of regions, operations, values, variables and shared allocations.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bounds::LaunchBounds;
use super::entity::{Arena, ArrayId, LocalId, LocationId, OpId, RegionId, SharedId, Value, VarId};
use super::op::{AsyncCopy, BoxMode, Diagnostic, Op, Sync};
use super::target::Target;
use super::types::{Const, Scalar, Type};

/// A kernel as data, not yet verified. [`Kernel`](super::Kernel) is the verified form.
#[derive(Clone, Debug)]
pub struct KernelIr {
    /// The name of the PTX entry.
    pub name: String,
    /// The target of the kernel.
    pub target: Target,
    /// The launch bounds.
    pub bounds: LaunchBounds,
    /// The parameters, in the order in which a launch passes them.
    pub params: Vec<Param>,
    /// The outermost region. It has no arguments and ends in `return`.
    pub body: RegionId,
    /// All regions.
    pub regions: Arena<RegionId, Region>,
    /// All operations.
    pub ops: Arena<OpId, OpData>,
    /// All values.
    pub values: Arena<Value, ValueData>,
    /// All register variables.
    pub vars: Arena<VarId, VarData>,
    /// All shared memory allocations.
    pub shared: Arena<SharedId, SharedData>,
    /// All local memory allocations.
    pub locals: Arena<LocalId, LocalData>,
    /// All constant arrays.
    pub arrays: Arena<ArrayId, ArrayData>,
    /// All source locations.
    pub locations: Arena<LocationId, SourceLocation>,
    location_ids: HashMap<SourceLocation, LocationId>,
}

impl KernelIr {
    /// The maximum depth of nested regions in a verified kernel, including its body.
    /// What follows regions may so be recursive.
    pub const MAX_DEPTH: usize = 256;

    /// The maximum size in bytes of a text for [`parse_kernels`](crate::ir::parse_kernels).
    pub const MAX_TEXT_BYTES: usize = 64 << 20;

    /// Bytes of static shared memory that a block can have on every target. What a kernel has beyond is
    /// dynamic: see [`KernelIr::dynamic_shared_bytes`].
    pub const MAX_STATIC_SHARED_BYTES: u64 = 48 * 1024;

    /// The maximum size in bytes of all constant arrays of a module (PTX ISA 5.1.3).
    pub const CONST_BYTES: u64 = 64 << 10;

    /// The maximum size in bytes of the local memory of a thread.
    pub const LOCAL_BYTES: u64 = 512 << 10;

    /// A kernel with an empty body.
    pub fn new(name: impl Into<String>, target: Target) -> KernelIr {
        let mut regions = Arena::new();
        let body = regions.push(Region::default());
        KernelIr {
            name: name.into(),
            target,
            bounds: LaunchBounds::default(),
            params: Vec::new(),
            body,
            regions,
            ops: Arena::new(),
            values: Arena::new(),
            vars: Arena::new(),
            shared: Arena::new(),
            locals: Arena::new(),
            arrays: Arena::new(),
            locations: Arena::new(),
            location_ids: HashMap::new(),
        }
    }

    /// The index of a source location, the same one for equal locations.
    pub fn location(&mut self, location: SourceLocation) -> LocationId {
        *self.location_ids.entry(location).or_insert_with(|| self.locations.push(location))
    }

    /// Returns the source location of the operation.
    pub fn location_of(&self, op: OpId) -> SourceLocation {
        self.locations[self.ops[op].location]
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// The constant that a value is; `None` for all other values.
    pub(in crate::ir) fn constant(&self, value: Value) -> Option<Const> {
        let ValueDef::Result(op, _) = self.values.get(value)?.def else { return None };
        if let Op::Const(constant) = self.ops.get(op)?.op { Some(constant) } else { None }
    }

    /// The integer that a value is; `None` for a value that is not a constant or not an integer.
    pub(in crate::ir) fn integer(&self, value: Value) -> Option<i128> {
        self.constant(value).and_then(Const::as_int)
    }

    /// The bytes of shared memory that a block takes, and the offset of each allocation: the
    /// allocations in order, each at the next multiple of its alignment.
    pub fn shared_layout(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let offsets = self
            .shared
            .iter()
            .map(|(_, alloc)| {
                let start = end.next_multiple_of(u64::from(alloc.align_bytes).max(1));
                end = start + u64::from(alloc.len) * u64::from(alloc.elem.size_bytes());
                start
            })
            .collect();
        (offsets, end)
    }

    /// The bytes of local memory that a thread takes, and the offset of each allocation: the allocations in
    /// order, each at the next multiple of [`LocalData::ALIGN_BYTES`].
    pub fn local_layout(&self) -> (Vec<u64>, u64) {
        let mut end = 0u64;
        let offsets = self
            .locals
            .iter()
            .map(|(_, alloc)| {
                let start = end.next_multiple_of(LocalData::ALIGN_BYTES.into());
                end = start + alloc.bytes();
                start
            })
            .collect();
        (offsets, end)
    }

    /// The bytes of dynamic shared memory that a launch gives to each block: all of its shared memory where
    /// that is more than a block has without being asked, else none.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// let with = |bytes| {
    ///     Kernel::<(GlobalMut<u8>,)>::build("k", Target::SM_90A, |k, (x,)| {
    ///         let tile = k.shared::<u8>(bytes);
    ///         tile.store(k, 0, 1);
    ///         x.store(k, 0, tile.load(k, 0));
    ///     })
    /// };
    /// assert_eq!(with(49_152)?.ir().dynamic_shared_bytes(), 0);
    /// assert_eq!(with(49_153)?.ir().dynamic_shared_bytes(), 49_153);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn dynamic_shared_bytes(&self) -> u64 {
        let (_, bytes) = self.shared_layout();
        if bytes > Self::MAX_STATIC_SHARED_BYTES { bytes } else { 0 }
    }

    /// The operations that the body reaches, in the order of the text form. For a verified kernel.
    pub fn reached_ops(&self) -> Vec<OpId> {
        fn visit(ir: &KernelIr, region: RegionId, found: &mut Vec<OpId>) {
            for op in &ir.regions[region].ops {
                found.push(*op);
                for inner in ir.ops[*op].op.regions() {
                    visit(ir, inner, found);
                }
            }
        }
        let mut found = Vec::new();
        visit(self, self.body, &mut found);
        found
    }

    /// Returns whether the verified kernel has an `assert`.
    pub fn has_asserts(&self) -> bool {
        let is_assert =
            |op: OpId| matches!(self.ops[op].op, Op::Diagnostic(Diagnostic::Assert { .. }));
        self.reached_ops().into_iter().any(is_assert)
    }

    /// Returns whether the verified kernel has a `griddepcontrol_wait`, or PTX text with it.
    pub fn waits_for_grids(&self) -> bool {
        let text = "griddepcontrol.wait";
        self.reached_ops().into_iter().map(|op| &self.ops[op].op).any(|op| {
            matches!(op, Op::Sync(Sync::GriddepcontrolWait {}))
                || matches!(op, Op::Inline(inline) if inline.ptx.text().contains(text))
        })
    }

    /// For each parameter: whether copies use it as a tensor map of tiled mode, and of im2col mode, and whether stores
    /// use it in im2col mode.
    pub(crate) fn box_modes(&self) -> Vec<[bool; 3]> {
        let mut modes = vec![[false; 3]; self.params.len()];
        for op in self.reached_ops() {
            let Op::AsyncCopy(copy) = &self.ops[op].op else { continue };
            let (AsyncCopy::CpAsyncBulkTensorLoad { map, mode, .. }
            | AsyncCopy::CpAsyncBulkTensorMulticast { map, mode, .. }
            | AsyncCopy::CpAsyncBulkTensorStore { map, mode, .. }
            | AsyncCopy::CpReduceAsyncBulkTensor { map, mode, .. }
            | AsyncCopy::CpAsyncBulkPrefetchTensor { map, mode, .. }) = copy
            else {
                continue;
            };
            let map = self.template(*map);
            let used = self.params.iter().zip(&mut modes).find(|(param, _)| param.value == map);
            if let Some((_, modes)) = used {
                let im2col = *mode == BoxMode::Im2col;
                modes[usize::from(im2col)] = true;
                modes[2] |= im2col
                    && matches!(
                        copy,
                        AsyncCopy::CpAsyncBulkTensorStore { .. }
                            | AsyncCopy::CpReduceAsyncBulkTensor { .. }
                    );
            }
        }
        modes
    }

    /// The parameter from which a tensor map is made: the map itself where it is one.
    pub(crate) fn template(&self, mut map: Value) -> Value {
        while let ValueDef::Result(op, _) = self.values[map].def
            && let Op::AsyncCopy(AsyncCopy::TensormapAcquire { map: of, .. }) = &self.ops[op].op
        {
            map = *of;
        }
        map
    }

    /// Returns the bytes of the parameters, each at the next multiple of its size. A kernel with assertions has
    /// one hidden parameter more. For a kernel whose parameters have values.
    pub fn param_bytes(&self) -> u64 {
        let sizes = self.params.iter().map(|param| match self.type_of(param.value) {
            Type::TensorMap { .. } => (Type::TENSOR_MAP_BYTES, Type::TENSOR_MAP_ALIGN_BYTES),
            ty => (u64::from(ty.bits() / 8), u64::from(ty.bits() / 8)),
        });
        let hidden = self.has_asserts().then_some((8, 8));
        sizes.chain(hidden).fold(0, |end: u64, (bytes, align)| end.next_multiple_of(align) + bytes)
    }

    /// Returns whether control can leave the end of the region: its last operation is `yield`, or not a
    /// terminator. An `if` without an arm that falls through ends its region like a terminator.
    pub fn falls_through(&self, region: RegionId) -> bool {
        use super::op::Control;
        let Some(&last) = self.regions[region].ops.last() else { return true };
        let Some(control) = self.ops[last].op.control() else { return true };
        match control {
            Control::Continue { .. } | Control::Break { .. } | Control::Return => false,
            Control::If { then_region, else_region: Some(else_region), .. } => {
                self.falls_through(*then_region) || self.falls_through(*else_region)
            }
            Control::If { else_region: None, .. }
            | Control::For { .. }
            | Control::Loop { .. }
            | Control::Yield { .. } => true,
        }
    }

    /// The arguments that `continue` sets in the loop `target`; `None` where `target` is not a loop.
    pub fn carried_args(&self, target: OpId) -> Option<&[Value]> {
        use super::op::Control;
        let Op::Control(control) = &self.ops[target].op else { return None };
        match control {
            // The first argument is the index.
            Control::For { body, .. } => Some(self.regions[*body].args.get(1..).unwrap_or(&[])),
            Control::Loop { body, .. } => Some(&self.regions[*body].args),
            Control::If { .. }
            | Control::Yield { .. }
            | Control::Continue { .. }
            | Control::Break { .. }
            | Control::Return => None,
        }
    }

    /// The path of an operation from the kernel's body, such as `for[2]/then/3`: each enclosing operation
    /// with its position, then the position in the innermost region.
    pub fn path_of(&self, op: OpId) -> String {
        self.path_with(op, |op| {
            let region = &self.regions[self.ops[op].region];
            region.ops.iter().position(|other| *other == op)
        })
    }

    /// The path of an operation, with the positions of operations in their regions.
    pub(in crate::ir) fn path_with(
        &self,
        op: OpId,
        position: impl Fn(OpId) -> Option<usize>,
    ) -> String {
        // From the inside out, without recursion: nothing limits how deep regions nest.
        let mut parts = Vec::new();
        let position =
            |op: OpId| position(op).map_or_else(|| "end".to_owned(), |number| number.to_string());
        parts.push(position(op));
        let mut region = self.ops[op].region;
        while let Some(parent) = self.regions[region].parent {
            let owner = &self.ops[parent].op;
            let arm = match owner.regions().iter().position(|r| *r == region) {
                Some(1) => "else/",
                _ if owner.name() == "if" => "then/",
                _ => "",
            };
            parts.push(format!("{}[{}]/{arm}", owner.name(), position(parent)));
            region = self.ops[parent].region;
        }
        parts.into_iter().rev().collect()
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Its name in the text form and in PTX.
    pub name: String,
    /// Its value in the body.
    pub value: Value,
}

/// A list of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// The operation that owns the region; `None` for the body of the kernel.
    pub parent: Option<OpId>,
    /// The arguments.
    pub args: SmallVec<[Value; 4]>,
    /// The operations, in order.
    pub ops: Vec<OpId>,
}

/// An operation with its results, its region and its source location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpData {
    /// The operation.
    pub op: Op,
    /// Its results.
    pub results: SmallVec<[Value; 2]>,
    /// The region that holds it.
    pub region: RegionId,
    /// The call that made it.
    pub location: LocationId,
}

/// A value: its type and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueData {
    /// The type.
    pub ty: Type,
    /// The definition.
    pub def: ValueDef,
    /// The region in which the value can be used, with all regions inside it.
    pub region: RegionId,
    /// The call that made it.
    pub location: LocationId,
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueDef {
    /// A parameter of the kernel, by position.
    Param(u32),
    /// A result of an operation, by position.
    Result(OpId, u32),
    /// An argument of a region, by position.
    Arg(RegionId, u32),
}

/// Registers of one type that can be set more than once. They hold no value until they are set, at each
/// entry of the region that declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VarData {
    /// The type of each register.
    pub ty: Type,
    /// The number of registers.
    pub len: u32,
    /// The region that declares the variable.
    pub region: RegionId,
    /// The call that made it.
    pub location: LocationId,
    /// The name of its registers in PTX; not compared, and not in the text form.
    pub name: Option<&'static str>,
}

/// An allocation in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedData {
    /// The type of the elements.
    pub elem: Scalar,
    /// The number of elements.
    pub len: u32,
    /// The alignment of the first element in bytes, a power of two.
    pub align_bytes: u32,
    /// The call that made it.
    pub location: LocationId,
}

/// An allocation in local memory: memory that each thread has of its own, from the start of the kernel to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalData {
    /// The type of the elements.
    pub elem: Scalar,
    /// The number of elements.
    pub len: u32,
    /// The call that made it.
    pub location: LocationId,
}

impl LocalData {
    /// The bytes that every allocation starts at a multiple of.
    pub const ALIGN_BYTES: u32 = 16;

    /// The bytes of all elements.
    pub fn bytes(&self) -> u64 {
        u64::from(self.len) * u64::from(self.elem.size_bytes())
    }
}

/// A constant array: memory of the module that no thread can write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayData {
    /// The type of the elements.
    pub elem: Scalar,
    /// The bits of each element; those above its width do not count.
    pub bits: Arc<[u64]>,
    /// The call that made it.
    pub location: LocationId,
}

impl ArrayData {
    /// The elements.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = Const> {
        self.bits.iter().map(|bits| Const::new(self.elem, *bits))
    }

    /// The bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.bits.len() as u64 * u64::from(self.elem.size_bytes())
    }
}

/// A line of the Rust program that built a kernel, or of a text that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// The file, as rustc was given it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl SourceLocation {
    /// Returns the source location of the caller.
    #[track_caller]
    pub fn caller() -> SourceLocation {
        let location = Location::caller();
        SourceLocation { file: location.file(), line: location.line(), column: location.column() }
    }
}

/// `file:line:column`
impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
