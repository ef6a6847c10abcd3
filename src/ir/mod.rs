//! The kernel IR: its typed builder, verifier, passes and text form.
//!
//! [`Kernel::build`] runs your closure once, records its operations and verifies the result. A
//! [`Kernel`] is therefore always valid, and generating code from it or simulating it never panics.
//! [`KernelIr`] is the same kernel as plain data, before verification.
//!
//! The IR looks like an MLIR dialect: typed SSA values, operations, and regions nested in
//! operations.
//!
//! ```
//! use tilewright::ir::{GlobalMut, Kernel, Target, parse};
//!
//! let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("fill", Target::SM_80, |k, (x, n)| {
//!     let i = k.thread_idx().x;
//!     k.if_(i.lt(n), |_| x.store(i, 1.0));
//! })?;
//! // The text form reads back.
//! let text = kernel.ir().to_string();
//! assert!(text.starts_with("kernel @fill target sm_80 (%p0: ptr<global, mut f32>, %p1: i32) {"));
//! let read = Kernel::verify(parse("fill.kir", &text)?)?;
//! assert_eq!(read.name(), "fill");
//!
//! // What rustc cannot see, the verifier does: a barrier that a part of the threads reaches.
//! let errors = Kernel::<()>::build("half", Target::SM_80, |k, ()| {
//!     k.if_(k.thread_idx().x.lt(16), |k| k.barrier());
//! })
//! .unwrap_err();
//! assert!(errors.to_string().contains("only some threads of a block may reach the barrier"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | add operations to a body | [`Body`], and the methods of [`Val`] |
//! | look at a finished kernel | [`Kernel::ir`], [`op`], [`types`] |
//! | write and read kernels as text | `Display` of [`Kernel`], [`parse()`] |
//! | limit threads, clusters and registers | [`KernelOptions`], [`LaunchBounds`] |
//!
//! Values are in SSA form; register variables ([`Registers`]) are the only mutable exception.
//! Control flow is structured: [`Control`](op::Control) operations own regions, and each region
//! ends in a terminator.

mod analysis;
mod bounds;
pub mod builder;
mod canonical;
mod checked;
mod entity;
pub(crate) mod eval;
mod format;
mod kernel;
mod name;
pub(crate) mod narrow;
pub(crate) mod number;
pub mod op;
mod passes;
mod required_len;
mod signature;
mod target;
mod text;
pub mod types;
mod vector;
mod verify;

pub(crate) use analysis::accesses::{Access, AccessBytes, accesses};
pub(crate) use analysis::uniformity::Uniformity;
pub use bounds::{ClusterShape, LaunchBounds};
pub use builder::barrier::NamedBarrier;
pub use builder::body::{Body, Dim3, Registers, Var};
pub use builder::collective::Group;
pub use builder::control::{End, Join};
pub use builder::error::{BuildError, BuildErrors};
pub use builder::kernel::{Kernel, KernelOptions, Untyped};
pub use builder::loops::Loop;
pub use builder::params::Params;
pub use builder::range::{Range, range};
pub use builder::typed::{
    Constant, Element, Float, Generic, GenericMut, Global, GlobalMut, Integer, Local, MutPointer,
    Number, Pointer, Shared, SharedCluster, TensorMap, TensorMapMut, Val,
};
pub use builder::vector::Vector;
pub use builder::warp::WARP;
pub use checked::{Check, CheckedAccess, CheckedKernel, Record, Site};
pub use entity::{
    Arena, ArrayId, Entity, GlobalId, LocalId, LocationId, OpId, RegionId, SharedId, Value, VarId,
};
pub use format::{Format, FormatError, Piece, Placeholder, Style};
pub use kernel::{
    ArrayData, GlobalData, KernelIr, LocalData, OpData, Param, Region, SharedData, SourceLocation,
    ValueData, ValueDef, VarData,
};
pub use name::ParseNameError;
pub use narrow::{bf16, f8e4m3, f8e5m2, f16, tf32};
pub(crate) use passes::checked::Proved;
pub(crate) use required_len::{LenExpr, LenFun};
pub use signature::{Signature, SignatureError, Template};
pub use target::{ParseTargetError, Target};
pub use text::{ParseError, ParseErrorKind, parse, parse_kernels};
pub use verify::{VerifyError, VerifyErrors, Violation};
