//! Matrix products `D = activation(alpha A B + beta C + bias)`, or with an epilogue of the program.
//!
//! * A [`GemmProblem`] has the sizes and strides, a [`GemmConfig`] the types and every choice of a kernel: tile, stages, schedule.
//! * [`GemmConfig::best`] chooses a configuration for a problem on a [`Machine`], as [`GemmModel`] predicts times. It takes what
//!   a program asks for from another configuration: target, types, contiguous modes, epilogue, groups.
//! * [`Gemm`] is the kernel of a configuration, and its PTX. [`Gemm::load`] makes a [`GemmFunction`] for a device, and
//!   [`GemmFunction::launch`] takes the buffers as [`GemmArgs`].
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
//! // What is asked for: f16, both operands contiguous along K. The tile is chosen.
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

// Words of this folder:
// * step: a tile of A and B of depth `tile[2]` along K; a stage of the ring holds one. `tiles()` counts row tiles, column tiles, steps.
// * part: a range of the steps of a tile that one thread block multiplies; all of them without splits.
// * slot: the partial accumulators of a part in the workspace.
// * line: a row or column of a matrix along its contiguous mode; tiles of A and B are lines in shared memory.
// * accumulator: an element of A B before the epilogue. A configuration with `pairs` has two for each element of D.
// * form: the layout of an operand that a kernel takes (tensor maps, lines, rows), with its own parameters.
//
// From a configuration to a launch:
// * `config`, `forms`, `parts`, `types` are the fields; `fields` is their name and `check` their rules; `shared_memory` counts bytes.
// * `defaults` lists candidates and orders them by `model`, which predicts times from `parameters`, `machine` and `traffic`; `prediction`
//   is its result, `regime` the kind of time.
// * `front` builds the kernel: `sm90` with `roles` (warp groups), `sm80` and `fma` with `threads` (all threads copy). `fragment`,
//   `epilogue`, `terms` and `direct_store` take accumulators to D; `split` adds parts; `padded_tile` is the tile of `fma`.
// * `input` and `output` are the forms of A and B, and of D, of an `sm90` kernel: parameters, values in its body, arguments.
// * `launch` runs a function: `loaded` has it with its workspaces, and binds the buffers of an `sm90` kernel, `repack` copies
//   unaligned operands first, `ragged` makes tensor maps on the device, `how` launches or measures.

mod check;
mod config;
mod defaults;
mod direct_store;
mod epilogue;
mod error;
mod explain;
mod fields;
mod fma;
mod forms;
mod fragment;
mod front;
mod groups;
mod how;
mod input;
mod launch;
mod loaded;
mod machine;
mod model;
mod output;
mod padded_tile;
mod parameters;
mod parts;
mod prediction;
mod problem;
mod ragged;
mod reduction;
mod regime;
mod repack;
mod roles;
mod shared_memory;
mod sm80;
mod sm90;
mod split;
mod terms;
mod threads;
mod traffic;
mod types;

pub use config::{Activation, Bias, Epilogue, GemmConfig};
pub use epilogue::FusedEpilogue;
pub use error::GemmError;
pub use explain::Explanation;
pub use forms::{LoadForm, Schedule, StoreForm};
pub use front::Gemm;
pub use groups::GroupRows;
pub use launch::{GemmArgs, GemmFunction, GemmLaunch};
pub use machine::Machine;
pub use model::GemmModel;
pub use parameters::Parameters;
pub use parts::Splits;
pub use prediction::Prediction;
pub use problem::{GemmProblem, GemmStrides, MatrixStrides};
pub use ragged::RaggedProblem;
pub use reduction::{AmaxGemm, ReducedGemm};
pub use regime::{ParseRegimeError, Regime};
pub use split::GemmWorkspace;
pub use terms::Reduction;
pub use types::InputTypes;
