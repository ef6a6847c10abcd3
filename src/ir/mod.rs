//! The kernel IR, with its typed builder, its verifier and its text form.
//!
//! A kernel has typed values, operations and structured regions.
//!
//! A kernel is built by a Rust closure ([`Kernel::build`]) and verified at once, so a [`Kernel`] is always
//! valid: code generation and simulation of it never panic. [`KernelIr`] is the same as plain data.
//!
//! Values are in SSA form; register variables ([`Registers`]) are the mutable exception. Control flow is
//! structured: [`Control`] operations own regions, and a region ends in a terminator.

mod analysis;
mod bounds;
mod builder;
mod canonical;
mod entity;
pub(crate) mod eval;
mod format;
mod kernel;
mod name;
pub(crate) mod narrow;
pub(crate) mod number;
mod op;
mod passes;
mod required_len;
mod signature;
mod target;
mod text;
mod types;
mod vector;
mod verify;

pub use bounds::{ClusterShape, LaunchBounds};
pub use builder::{
    AnyVector, Arithmetic, ArmEnd, Atom, AtomicAdd, AtomicCas, AtomicHalf, AtomicInt, AtomicVector,
    AtomicWord, Bits, Body, BodyResult, Bound, BuildError, BuildErrorKind, BuildErrors, CaseEnd,
    Cases, CasesStart, Constant, Context, Converted, DeviceCoord, Dim3, DotElement, Element, End,
    Field, Float, Fused, Generic, GenericMut, GenericPointer, Global, GlobalMut, Group, Half,
    InSignature, Integer, IntoBound, IntoIndex, IntoLimit, IntoOperand, IntoVal, IntoValues, Join,
    Kernel, KernelOptions, Local, Loop, MbarrierRef, MemIndex, MutPointer, NamedBarrier, Number,
    OnDevice, Ordered, ParamList, ParamValues, Parameter, Params, Pointer, Promote, Range, Red,
    Redux, Registers, Reported, Shared, SharedCluster, Signed, SpacePointer, Sum, TensorMap,
    TensorMapMut, TensorMapType, Terminated, Ty, Untyped, Val, Values, Var, Vector, VectorElement,
    VectorOf, WARP, Widen, Word, Word32, promote, range,
};
pub use entity::{
    Arena, ArrayId, Entity, LocalId, OpId, PlaceId, RegionId, SharedId, Value, VarId,
};
pub use format::{Format, FormatError, Piece, Placeholder, Style};
pub use kernel::{
    ArrayData, KernelIr, LocalData, OpData, Param, Place, Region, SharedData, ValueData, ValueDef,
    VarData,
};
pub use name::ParseNameError;
pub use narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
pub use number::{FloatFormat, Rounding, Specials};
pub use op::{
    Accumulators, ApproxFunction, Arith, AsyncCopy, Atomic, AtomicOp, AtomicOrder, Axis,
    BarrierForm, BarrierRed, BulkReduce, BulkWait, ByteHalf, Cache, Clamp, Class, ClusterArrival,
    Compare, Constraint, Control, Convert, CpAsyncCache, Diagnostic, Direction, DivApprox, Effect,
    Excess, FenceOrder, FindFrom, FloatArith, FloatMode, FloatTest, Inline, InlinePtx, IntArith,
    L1Evict, L2Policy, L2Prefetch, LoadAccess, LoadCache, LoadOrder, MatrixCount, MatrixOrder,
    Mbarrier, Mem, MemScope, Mma, MmaOverflow, MmaShape, Mnemonic, Op, OpInfo, ParseAccessError,
    ParseMmaShapeError, ParseWgmmaFormError, PendingCount, PermuteMode, PrefetchLevel, ProductHalf,
    ProxySpace, PtxPiece, PtxTextError, RedOrder, ReduxOp, RemoteArrival, ResultKind,
    SetmaxnregAction, ShflMode, Simulate, SpecialReg, StoreAccess, StoreCache, StoreOrder,
    Subnormals, Sync, Thread, Together, TypeSuffix, Unroll, ValueList, VolatileReg, VoteMode, Warp,
    WgmmaForm,
};
pub use signature::{Signature, SignatureError, Template};
pub use target::{ParseTargetError, Target};
pub use text::{ParseError, ParseErrorKind, parse, parse_kernels};
pub use types::{Const, Scalar, Space, Type};
pub use vector::VectorType;
pub use verify::{VerifyError, VerifyErrors, Violation};
