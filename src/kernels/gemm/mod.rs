//! GEMM: `D = activation(alpha A B + beta C + bias)`, or with your own epilogue. Batched, grouped
//! (MoE) and ragged problems included.
//!
//! * [`GemmProblem`] holds the sizes and strides. [`GemmConfig`] holds the element types and every
//!   decision about the kernel: tile, stages, schedule, epilogue.
//! * [`GemmConfig::best`] chooses a configuration for a problem on a [`Machine`] with the cost
//!   model [`GemmModel`]. You pass it a configuration that says what you need (target, types,
//!   contiguous modes, epilogue, groups); it chooses the rest.
//! * [`Gemm::new`] builds the kernel of a configuration. As with all ready kernels, you
//!   [load](crate::kernels::Built::load) it on a device, and
//!   [launch](crate::kernels::Loaded::launch) it with a [`GemmProblem`] and [`GemmArgs`].
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use tilewright::ir::f16;
//! use tilewright::ir::types::Scalar;
//! use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, Machine};
//! use tilewright::runtime::Device;
//!
//! let device = Device::sim()?;
//! let (m, n, k) = (100, 60, 32);
//! let problem = GemmProblem::new(m as u32, n as u32, k as u32);
//! // We ask for f16 with both operands contiguous along K. `best` chooses the tile.
//! let wanted = GemmConfig::sm90(Scalar::F16, [128, 128]);
//! let config = wanted.best(&problem, &Machine::of(&device))?;
//! let gemm = Gemm::<f16>::new(config)?.load(&device)?;
//! let a = device.upload(&vec![f16::from_f32(0.5); m * k])?;
//! let b = device.upload(&vec![f16::from_f32(2.0); n * k])?;
//! let mut d = device.zeros::<f16>(m * n)?;
//! gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d))?;
//! assert!(d.to_vec()?.iter().all(|x| x.to_f32() == 32.0));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Vocabulary of this folder:
// * step: one tile of A and B, `tile[2]` deep along K; a stage of the ring buffer holds one step.
// * part: the range of a tile's steps that one thread block multiplies; the whole range without
//   split-K or stream-K.
// * slot: a part's partial accumulators in the workspace.
// * line: a row or a column of a matrix, whichever is contiguous.
// * accumulator: an element of A B before the epilogue. A configuration with `pairs` has two for
//   each element of D.
//
// From a configuration to a launch, folder by folder:
// * `config` is the configuration: its fields, their names, the rules that `check` enforces,
//   errors, the problem.
// * `choose` picks a configuration: it lists candidates and orders them by a cost model of the
//   machine.
// * `kernel` builds the kernel of a configuration: `sm90` (TMA and `wgmma`, warp-specialised),
//   `sm80` (`cp.async` and `mma.sync`) or `simt` (no tensor cores). `split` adds split-K and
//   stream-K, `epilogue` takes accumulators to D.
// * `elements` names the element types in bodies, which are known when a kernel is built.
// * `launch` binds a launch's buffers and starts the kernels: a copy of misaligned operands first
//   (`repack`), then the GEMM.

mod choose;
mod config;
mod elements;
mod epilogue;
mod kernel;
mod launch;
mod simt;
mod sm80;
mod sm90;
mod split;

pub use super::group_rows::GroupRows;
pub use choose::explain::Explanation;
pub use choose::machine::Machine;
pub use choose::model::GemmModel;
pub use choose::parameters::Parameters;
pub use choose::prediction::Prediction;
pub use choose::regime::{ParseRegimeError, Regime};
pub use config::error::GemmError;
pub use config::methods::{AccumulationMode, BatchMode, LoadMethod, Schedule, Splits, StoreMethod};
pub use config::problem::{GemmProblem, GemmStrides, MatrixStrides};
pub use config::types::InputTypes;
pub use config::{Activation, Bias, Epilogue, GemmConfig};
pub use epilogue::FusedEpilogue;
pub use epilogue::reduction::{AmaxGemm, ReducedGemm};
pub use epilogue::terms::Reduction;
pub use kernel::{AnyGemm, Gemm};
pub use launch::{AnyGemmArgs, GemmArgs, GemmLaunch};
pub use sm90::ragged::RaggedProblem;
pub use split::GemmWorkspace;
