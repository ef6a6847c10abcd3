//! The builder: rustc as the first verifier.
//!
//! A kernel is a closure over [`Val`]s, values of Rust types that carry the body they were made in as a
//! lifetime. Control flow is closures too: a body gets a [`Body`] handle and its carried values, and
//! returns how it ends. So a value that leaves its body, a carried value that changes its type, or a device
//! value in a host `if` does not compile.
//!
//! What lifetimes cannot see is checked when an operand is used, and collected: [`Kernel::build`] returns
//! all mistakes at once, each with its Rust line.
//!
//! Host `if`, `for` and `while` run while the kernel is built and leave no trace but the operations that
//! they make: they are the compile-time forms of control flow.

mod access;
mod any_vector;
mod assume;
mod async_copy;
mod atomic;
mod barrier;
mod bits;
mod body;
mod call;
mod cases;
mod cluster;
mod collective;
mod context;
mod control;
mod diagnostic;
mod elementary;
mod error;
mod float;
mod group;
mod host_part;
mod im2col;
mod inline;
mod int4;
mod joins;
mod kernel;
mod layout;
mod loops;
mod math;
mod mbarrier;
mod mma;
mod ops;
mod params;
mod plain;
mod promote;
mod range;
mod report;
mod required_len;
mod role;
mod select;
mod space;
mod sparse;
mod special;
mod symbolic;
mod typed;
mod values;
mod vector;
mod warp;

pub use any_vector::{AnyVector, VectorOf};
pub use atomic::{
    Atom, AtomicAdd, AtomicCas, AtomicHalf, AtomicInt, AtomicVector, AtomicWord, Red,
};
pub use barrier::NamedBarrier;
pub use bits::{DotElement, Half, TruthTable, Widen, Word, Word32};
pub use body::{Body, Dim3, Registers, Var};
pub use cases::{CaseEnd, Cases, CasesStart};
pub use collective::Group;
pub use context::Context;
pub use control::{ArmEnd, End, Join, Terminated};
pub use error::{BuildError, BuildErrorKind, BuildErrors};
pub use host_part::{HostPart, HostParts};
pub use int4::FromInt4;
pub(in crate::ir) use kernel::lowered;
pub use kernel::{BodyResult, Kernel, KernelOptions, MergedShared, Untyped};
pub use layout::DeviceCoord;
pub use loops::Loop;
pub use mbarrier::MbarrierRef;
pub use params::{
    Field, InSignature, ParamList, ParamSource, ParamValues, Parameter, Params, Same,
};
pub use promote::{Promote, promote};
pub use range::{Bound, IntoBound, IntoLimit, Range, range};
pub use report::Reported;
pub(crate) use role::{Role, with_roles};
pub use space::{GenericPointer, SpacePointer};
pub use typed::{
    Accumulator, Arithmetic, Bits, Constant, Converted, Element, Float, Fused, Generic, GenericMut,
    Global, GlobalMut, Integer, IntoIndex, IntoOperand, IntoVal, Local, MemIndex, MutPointer,
    Number, Ordered, Pointer, Shared, SharedCluster, Signed, TensorMap, TensorMapMut,
    TensorMapType, Ty, Val,
};
pub use values::{IntoValues, Values};
pub use vector::{Vector, VectorElement};
pub use warp::{Redux, WARP};
