//! The warp-specialised persistent kernel for `sm_90a`, with TMA and `wgmma`.
//!
//! A thread block is persistent: the tile scheduler gives it one tile of D after the other. The
//! first warp group is the producer. One of its threads waits for an empty stage of the ring buffer
//! and fills it with a tile of A and a tile of B by TMA. The other warp groups are consumers. They
//! wait for a full stage, multiply it with `wgmma` and release it. After a tile's last step they
//! apply the epilogue, stage their rows of D in shared memory, and store them by TMA (by threads,
//! with `StoreMethod::Direct`).
//!
//! Consumers share each tile (cooperative) or take turns with a tile each (ping-pong). All roles
//! walk the same tiles in the same order, so they need not tell each other which tile is next. The
//! exception is grouped GEMM: there the producer draws tiles from a global counter and passes them
//! on. With [`LoadMethod::Threads`](crate::kernels::gemm::LoadMethod), two or three whole producer
//! groups fetch.
//!
//! `plan` computes layouts and tensor maps on the host. `kernel` is the frame of the device code,
//! `roles` has the loops of the producer and the consumers. `input` and `output` are the forms that
//! A, B and D can take. `groups` and `ragged` add grouped and ragged GEMM.

pub(crate) mod groups;
pub(crate) mod input;
pub(crate) mod kernel;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod ragged;
pub(crate) mod roles;
