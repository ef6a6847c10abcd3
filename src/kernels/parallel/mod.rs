//! Linear layers over several devices: tensor parallelism whose communication overlaps with the
//! GEMMs.
//!
//! A layer's weight is divided among the ranks of a
//! [`Communicator`](crate::runtime::comm::Communicator). Between layers, each rank has some rows of
//! the activations (sequence parallelism).
//!
//! * [`ColumnParallel`]: each rank has some columns of `W`. It gathers the rows of `X` from all
//!   ranks and multiplies them with its columns. Use it for the first layer of a pair, such as the
//!   up projection.
//! * [`RowParallel`]: each rank has some rows of `W`, and the columns of `X` that go with them. The
//!   ranks' results are summed, and scattered by rows or kept on all ranks. Use it for the second
//!   layer of the pair.
//!
//! To overlap, a layer divides its rows into chunks. While one chunk is communicated on a stream of
//! its own, another is multiplied on the SMs that the communication leaves free. [`CommOverlap`]
//! says how many chunks and SMs; if you do not choose, a cost model does.
//!
//! Weights are stored as `W^T`, row-major `N x K`, like PyTorch's `nn.Linear`. Activations are
//! row-major.

mod column;
mod plan;
mod products;
mod row;

pub use column::ColumnParallel;
pub use plan::{CommOverlap, ParallelSizes};
pub use row::{RowOutput, RowParallel};
