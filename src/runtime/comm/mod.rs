//! Moves and combines data of several devices: collectives by NCCL, or by the simulator.
//!
//! A [`Communicator`] is one rank of a set of devices. All ranks make the same calls in the same order, each for its own
//! device. The devices are those of one process ([`Communicator::all`]) or of several processes and machines
//! ([`Communicator::connect`] with a [`UniqueId`]).
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use tilewright::runtime::Device;
//! use tilewright::runtime::comm::{CommGroup, Communicator, ReduceOp};
//!
//! let devices = [Device::sim_number(0)?, Device::sim_number(1)?];
//! let ranks = Communicator::all(&devices)?;
//! let x = [devices[0].upload(&[1.0f32, 2.0])?, devices[1].upload(&[10.0f32, 20.0])?];
//! let mut y = [devices[0].zeros::<f32>(2)?, devices[1].zeros::<f32>(2)?];
//! let streams = [devices[0].stream()?, devices[1].stream()?];
//! // One thread makes the calls of all ranks as one group.
//! let mut group = CommGroup::new();
//! for (rank, y) in ranks.iter().zip(&mut y) {
//!     let at = rank.rank() as usize;
//!     group.all_reduce(rank, &streams[at], ReduceOp::Sum, &x[at], y)?;
//! }
//! group.run()?;
//! assert_eq!(y[0].to_vec()?, [11.0, 22.0]);
//! assert_eq!(y[1].to_vec()?, [11.0, 22.0]);
//! # }
//! # Ok::<(), tilewright::runtime::RuntimeError>(())
//! ```
//!
//! # Order
//!
//! On GPUs a call queues its work and returns. Buffers order it with launches and copies, as those with each other: no
//! call waits on the host for earlier work, and a buffer that is dropped in flight is freed behind it. The first call
//! between two ranks connects them and waits for the other rank. A stream that records a graph records the call.
//!
//! On simulators a call ends when all ranks have made it. So each rank has a thread of its own, or one thread makes the
//! calls of several ranks as a [`CommGroup`]. A `send` ends when its data is received: a program in which all ranks send
//! first hangs there, as it does on GPUs for long messages.
//!
//! # What can fail
//!
//! All functions return [`RuntimeError`](crate::runtime::RuntimeError), here mostly
//! [`Comm`](crate::runtime::RuntimeError::Comm) with a [`CommError`]. A communicator with a failed call, a rank that died
//! or work that has made no progress for [`CommOptions::timeout`] is aborted: all ranks of the process get the error from
//! the call that hangs, from the next call that waits for the device, and from each later call of the communicator. The
//! contents of the buffers of the failed work are then unspecified.
//!
//! If NCCL cannot end the work within five seconds, for example because its kernel hangs on the GPU, the waiting calls return
//! the error all the same. The stream, the buffers and the functions of the work are then left behind: nobody waits for them,
//! and they are not freed. Only memory that is borrowed (`Device::borrow_cudarc`) is waited for, because its lender may free it.
//!
//! A process notices within two seconds that another process of its machine died, and by the timeout that one of another
//! machine did.

mod call;
mod communicator;
mod error;
mod group;
mod reduce;
mod unique_id;
mod world;

#[cfg(not(feature = "nccl"))]
use super::absent::nccl;
#[cfg(feature = "nccl")]
use super::cuda::nccl;

#[cfg(feature = "nccl")]
pub(super) use call::CallKind;
pub(super) use call::CallShape;
pub use call::{CommOptions, ReduceOp};
pub use communicator::Communicator;
pub use error::{CommError, NcclVersion};
pub use group::CommGroup;
pub use unique_id::UniqueId;
