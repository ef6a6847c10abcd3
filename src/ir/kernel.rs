//! The data structures behind a kernel: [`KernelIr`] owns arenas of operations, regions, values and
//! allocations.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;

use super::bounds::LaunchBounds;
use super::entity::{
    Arena, ArrayId, GlobalId, LocalId, LocationId, OpId, RegionId, SharedId, Value, VarId,
};
use super::op::{AsyncCopy, BoxMode, Diagnostic, Op, Sync};
use super::target::Target;
use super::types::{Const, Scalar, Type};

/// A kernel as plain data, not yet verified. Read it to inspect a kernel; change a copy to write a
/// pass, and pass the result to [`Kernel::verify`](super::Kernel::verify).
/// [`Kernel`](super::Kernel) is the verified form.
#[derive(Clone, Debug)]
pub struct KernelIr {
    /// The name of the PTX entry point.
    pub name: String,
    /// The GPU architecture that the kernel is built for.
    pub target: Target,
    /// The launch bounds.
    pub bounds: LaunchBounds,
    /// The parameters, in launch order.
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
    /// All shared-memory allocations.
    pub shared: Arena<SharedId, SharedData>,
    /// All local-memory allocations.
    pub locals: Arena<LocalId, LocalData>,
    /// All constant arrays.
    pub arrays: Arena<ArrayId, ArrayData>,
    /// All global arrays.
    pub globals: Arena<GlobalId, GlobalData>,
    /// All source locations.
    pub locations: Arena<LocationId, SourceLocation>,
    location_ids: HashMap<SourceLocation, LocationId>,
}

impl KernelIr {
    /// The maximum nesting depth of regions in a verified kernel, counting its body. Because of
    /// this limit, code that walks a verified kernel's regions may recurse.
    pub const MAX_DEPTH: usize = 256;

    /// The maximum size of a text for [`parse_kernels`](crate::ir::parse_kernels), in bytes.
    pub const MAX_TEXT_BYTES: usize = 64 << 20;

    /// The static shared memory that every target allows a block, in bytes. A kernel that needs
    /// more gets all of it as dynamic shared memory: see [`KernelIr::dynamic_shared_bytes`].
    pub const MAX_STATIC_SHARED_BYTES: u64 = 48 * 1024;

    /// The maximum size of all constant arrays in a module, in bytes (PTX ISA 5.1.3).
    pub const CONST_BYTES: u64 = 64 << 10;

    /// The maximum size of all global arrays of a kernel, in bytes. PTX has no limit; a kernel that
    /// needs more takes a buffer.
    pub const GLOBAL_BYTES: u64 = 256 << 20;

    /// The maximum local memory per thread, in bytes.
    pub const LOCAL_BYTES: u64 = 512 << 10;

    /// Creates a kernel with an empty body and no parameters, to fill in by hand. It does not
    /// verify until its body ends in `return`.
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
            globals: Arena::new(),
            locations: Arena::new(),
            location_ids: HashMap::new(),
        }
    }

    /// Returns the id for a source location, which you store in new operations and values. Equal
    /// locations get the same id.
    pub fn location(&mut self, location: SourceLocation) -> LocationId {
        *self.location_ids.entry(location).or_insert_with(|| self.locations.push(location))
    }

    /// Returns the operation's source location, for error messages.
    pub fn location_of(&self, op: OpId) -> SourceLocation {
        self.locations[self.ops[op].location]
    }

    /// Returns the value's type.
    pub fn type_of(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Returns the constant if `value` is one.
    pub(in crate::ir) fn constant(&self, value: Value) -> Option<Const> {
        let ValueDef::Result(op, _) = self.values.get(value)?.def else { return None };
        if let Op::Const(constant) = self.ops.get(op)?.op { Some(constant) } else { None }
    }

    /// Returns the integer if `value` is an integer constant.
    pub(in crate::ir) fn integer(&self, value: Value) -> Option<i128> {
        self.constant(value).and_then(Const::as_int)
    }

    /// Lays out the block's shared memory, as the PTX writer and the simulator place it. Returns
    /// the offset of each allocation and the total size, in bytes. Allocations keep their order,
    /// and each starts at the next multiple of its alignment.
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

    /// Lays out the thread's local memory, as the PTX writer and the simulator place it. Returns
    /// the offset of each allocation and the total size, in bytes. Allocations keep their order,
    /// and each starts at the next multiple of [`LocalData::ALIGN_BYTES`].
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

    /// Returns the dynamic shared memory that a launch passes for each block, in bytes. This is 0
    /// if all allocations fit into static shared memory, and otherwise the size of all allocations.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// let with = |bytes| {
    ///     Kernel::<(GlobalMut<u8>,)>::build("k", Target::SM_90A, |k, (x,)| {
    ///         let tile = k.shared::<u8>(bytes);
    ///         tile.store(0, 1);
    ///         x.store(0, tile.load(0));
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

    /// Returns the operations reachable from the body, in the order in which the kernel prints. Use
    /// it instead of [`ops`](KernelIr::ops), which may also hold operations that a pass removed.
    /// The kernel must be verified.
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

    /// Returns whether the verified kernel contains an `assert`. A launch then passes a hidden
    /// parameter, the buffer for failed assertions.
    pub fn has_asserts(&self) -> bool {
        let is_assert =
            |op: OpId| matches!(self.ops[op].op, Op::Diagnostic(Diagnostic::Assert { .. }));
        self.reached_ops().into_iter().any(is_assert)
    }

    /// Returns whether the verified kernel contains a `griddepcontrol_wait`, either as an operation
    /// or in inline PTX. Without it, a programmatic dependent launch may read what the previous
    /// launch has not written yet.
    pub fn waits_for_grids(&self) -> bool {
        let text = "griddepcontrol.wait";
        self.reached_ops().into_iter().map(|op| &self.ops[op].op).any(|op| {
            matches!(op, Op::Sync(Sync::GriddepcontrolWait {}))
                || matches!(op, Op::Inline(inline) if inline.ptx.text().contains(text))
        })
    }

    /// Returns three flags for each parameter: used as a tensor map in tiled mode, used in im2col
    /// mode, and stored to in im2col mode.
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

    /// Returns the parameter that a tensor map derives from. For a map that is itself a parameter,
    /// this is `map`.
    pub(crate) fn template(&self, mut map: Value) -> Value {
        while let ValueDef::Result(op, _) = self.values[map].def
            && let Op::AsyncCopy(AsyncCopy::TensormapAcquire { map: of, .. }) = &self.ops[op].op
        {
            map = *of;
        }
        map
    }

    /// Returns the size of the parameter buffer in bytes, which PTX limits. Each parameter starts
    /// at a multiple of its size, except that tensor maps are aligned to 64 bytes. A kernel with
    /// assertions has one hidden pointer parameter at the end. All parameters must have values.
    pub fn param_bytes(&self) -> u64 {
        let sizes = self.params.iter().map(|param| match self.type_of(param.value) {
            Type::TensorMap { .. } => (Type::TENSOR_MAP_BYTES, Type::TENSOR_MAP_ALIGN_BYTES),
            ty => (u64::from(ty.bits() / 8), u64::from(ty.bits() / 8)),
        });
        let hidden = self.has_asserts().then_some((8, 8));
        sizes.chain(hidden).fold(0, |end: u64, (bytes, align)| end.next_multiple_of(align) + bytes)
    }

    /// Returns whether control can leave the region at its end, so that what follows the region can
    /// run. It can if the last operation is a `yield` or is not a terminator. An `if` counts as a
    /// terminator when neither of its two arms falls through.
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

    /// Returns the body arguments of loop `target` that a `continue` sets for the next iteration,
    /// without the index of a `for`. Returns `None` if `target` is not a loop.
    pub fn carried_args(&self, target: OpId) -> Option<&[Value]> {
        use super::op::Control;
        let Op::Control(control) = &self.ops[target].op else { return None };
        match control {
            // The first argument is the loop index.
            Control::For { body, .. } => Some(self.regions[*body].args.get(1..).unwrap_or(&[])),
            Control::Loop { body, .. } => Some(&self.regions[*body].args),
            Control::If { .. }
            | Control::Yield { .. }
            | Control::Continue { .. }
            | Control::Break { .. }
            | Control::Return => None,
        }
    }

    /// Returns the operation's path from the kernel's body, as messages show it: each enclosing
    /// operation with its position, then the position in the innermost region. For example,
    /// `for[2]/if[5]/then/3` is op 3 in the `then` arm of the `if` that is op 5 of the loop body of
    /// op 2.
    pub fn path_of(&self, op: OpId) -> String {
        self.path_with(op, |op| {
            let region = &self.regions[self.ops[op].region];
            region.ops.iter().position(|other| *other == op)
        })
    }

    /// Returns the operation's path, with a custom lookup for positions.
    pub(in crate::ir) fn path_with(
        &self,
        op: OpId,
        position: impl Fn(OpId) -> Option<usize>,
    ) -> String {
        // Builds the path inside out and without recursion, because an unverified kernel can nest
        // arbitrarily deep.
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

/// A kernel parameter: its name, and its value in the body. The value's type is the parameter's
/// type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// The name, in the text form and in PTX.
    pub name: String,
    /// The value that stands for the parameter in the body.
    pub value: Value,
}

/// A list of operations with arguments, like an MLIR region with a single block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// The operation that owns the region, or `None` for the kernel's body.
    pub parent: Option<OpId>,
    /// The region's arguments, such as a loop's index and carried values.
    pub args: SmallVec<[Value; 4]>,
    /// The operations, in order.
    pub ops: Vec<OpId>,
}

/// An operation in a [`KernelIr`], with its results, region and source location. A pass or an
/// analysis walks over these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpData {
    /// The operation.
    pub op: Op,
    /// The values that the operation defines.
    pub results: SmallVec<[Value; 2]>,
    /// The region that contains the operation.
    pub region: RegionId,
    /// Where the Rust program (or parsed text) created the operation.
    pub location: LocationId,
}

/// A value in a [`KernelIr`]: its type and where it comes from. Look here to go from an operand to
/// the operation that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueData {
    /// The value's type.
    pub ty: Type,
    /// What defines the value.
    pub def: ValueDef,
    /// The region in which the value is visible. Nested regions can use it too.
    pub region: RegionId,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
}

/// What defines a value: follow it from an operand to the operation that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueDef {
    /// The kernel parameter with this index.
    Param(u32),
    /// An operation's result with this index.
    Result(OpId, u32),
    /// A region's argument with this index.
    Arg(RegionId, u32),
}

/// A register variable: one or more mutable registers of one type. Its registers are unset each
/// time control enters the region that declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VarData {
    /// The type of each register.
    pub ty: Type,
    /// How many registers it has.
    pub len: u32,
    /// The region that declares the variable.
    pub region: RegionId,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
    /// The name of its registers in PTX. Comparison and the text form ignore it.
    pub name: Option<&'static str>,
}

/// A shared-memory allocation of the kernel. [`KernelIr::shared_layout`] returns its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedData {
    /// The element type.
    pub elem: Scalar,
    /// The length in elements.
    pub len: u32,
    /// The alignment of the first element in bytes; a power of two.
    pub align_bytes: u32,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
}

/// A local-memory allocation: private to each thread, and alive from the kernel's start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalData {
    /// The element type.
    pub elem: Scalar,
    /// The length in elements.
    pub len: u32,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
}

impl LocalData {
    /// The alignment of every local allocation, in bytes.
    pub const ALIGN_BYTES: u32 = 16;

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.len) * u64::from(self.elem.size_bytes())
    }
}

/// A constant array: read-only memory of the module, filled when the module is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayData {
    /// The element type.
    pub elem: Scalar,
    /// The bits of each element. Bits above the element type's width are ignored.
    pub bits: Arc<[u64]>,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
}

impl ArrayData {
    /// Returns the elements as constants, for example to print them.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = Const> {
        self.bits.iter().map(|bits| Const::new(self.elem, *bits))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bits.len() as u64 * u64::from(self.elem.size_bytes())
    }
}

/// A global array: memory of the kernel that all threads can read and write. It is filled when the
/// kernel is loaded and keeps its content between launches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GlobalData {
    /// The element type.
    pub elem: Scalar,
    /// The length in elements.
    pub len: u32,
    /// The bits of the first elements when the kernel is loaded; the others are 0. Bits above the
    /// element type's width are ignored.
    pub bits: Arc<[u64]>,
    /// Where the Rust program (or parsed text) created it.
    pub location: LocationId,
}

impl GlobalData {
    /// The alignment of every global array, in bytes.
    pub const ALIGN_BYTES: u32 = 16;

    /// Returns the initial values that are given, as constants.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = Const> {
        self.bits.iter().map(|bits| Const::new(self.elem, *bits))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.len) * u64::from(self.elem.size_bytes())
    }
}

/// A source position in the Rust program that built the kernel, or in a parsed text. Errors and
/// faults name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// The file path, as passed to rustc.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl SourceLocation {
    /// Returns the line that called the current function, which must be `#[track_caller]`.
    /// Functions that add operations use it.
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
