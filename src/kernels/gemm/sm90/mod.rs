//! The warp-specialised persistent kernel for `sm_90a`.
//!
//! One thread of the first warp group fills a ring of tiles of A and B by tensor copies. The other warp groups multiply
//! them with `wgmma` and write their rows of D by tensor copies: all on one tile (cooperative), or each on its own
//! (ping-pong). Thread blocks are persistent, and every role walks the same tiles in the same order.

pub(crate) mod groups;
pub(crate) mod input;
pub(crate) mod kernel;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod ragged;
pub(crate) mod roles;
