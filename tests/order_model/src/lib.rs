//! Runs the bookkeeping of launches in `src/runtime/cuda` under every interleaving that loom finds.
//!
//! The files are those of the library. What they use of it is here: atomics and locks of loom,
//! threads with numbers, and a driver that does the work of a stream when somebody waits.
#![cfg(test)]

mod runtime;
