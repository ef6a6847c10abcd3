//! Moves and combines data across several devices. GPUs use NCCL; the simulator has collectives of
//! its own.
//!
//! A [`Communicator`] is one rank of a set of devices. All ranks must make the same calls in the
//! same order, each for its own device. The devices can belong to one process
//! ([`Communicator::all`]) or to several processes and machines ([`Communicator::connect`] with a
//! [`UniqueId`]).
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
//! On GPUs, a call queues its work and returns. Buffers order it with launches and copies, just as
//! they order those with each other: no call waits on the host for earlier work, and a buffer that
//! you drop in flight is freed after its last use. The first call between two ranks connects them,
//! so it waits for the other rank. If the stream records a graph, the call becomes part of the
//! graph.
//!
//! On simulators, a call returns when all ranks have made it. So either give each rank a thread of
//! its own, or let one thread make the calls of several ranks as a [`CommGroup`]. A `send` returns
//! when its data has been received. A program in which all ranks send first therefore hangs, as it
//! does on GPUs if the messages are long.
//!
//! # What can fail
//!
//! All functions return [`RuntimeError`](crate::runtime::RuntimeError), here mostly
//! [`Comm`](crate::runtime::RuntimeError::Comm) with a [`CommError`]. A communicator is aborted if
//! a call fails, if a rank dies, or if work makes no progress for [`CommOptions::timeout`]. All
//! ranks of the process then get the error: from the call that hangs, from the next call that waits
//! for the device, and from each later call of the communicator. The failed work's buffers have
//! unspecified contents.
//!
//! If NCCL cannot end the work within five seconds, for example because its kernel hangs on the
//! GPU, the waiting calls return the error nevertheless. The work's stream, buffers and functions
//! are then leaked: nothing waits for them, and they are never freed. Only borrowed memory
//! (`Device::borrow_cudarc`) is still waited for, because its lender may free it.
//!
//! A process notices within two seconds that another process on the same machine has died. For a
//! process on another machine, it takes until the timeout.

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
