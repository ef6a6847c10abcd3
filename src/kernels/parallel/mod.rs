//! Linear layers on several devices: tensor parallelism with communication behind the products.
//!
//! The weight of a layer is cut into one part for each rank of a [`Communicator`](crate::runtime::comm::Communicator).
//! Rows of activations are cut, too, between the layers (sequence parallelism).
//!
//! * [`ColumnParallel`]: each rank has columns of `W`. It gathers the rows of `X` of all ranks, and multiplies them with its
//!   columns.
//! * [`RowParallel`]: each rank has rows of `W`, and the columns of `X` that go with them. The sum of all ranks' products is
//!   scattered by rows, or is there on all ranks.
//!
//! A layer cuts its rows into chunks. While the communication of a chunk runs on a stream of its own, the product of
//! another chunk runs on the SMs that the communication leaves free. [`CommOverlap`] says how; a cost model chooses it.
//!
//! Weights are stored as `W^T`, row-major `N x K`, as PyTorch's `nn.Linear` has them; activations are row-major.

mod column;
mod plan;
mod products;
mod row;

pub use column::ColumnParallel;
pub use plan::{CommOverlap, ParallelSizes};
pub use row::{RowOutput, RowParallel};
