//! Runs sequences of operations on two or three layouts that the input's bytes describe.
//!
//! Layouts are static and symbolic, compact and arbitrary, small and near the ends of `i64`. No operation panics, wraps or hangs;
//! a small result of a composition, complement, divide, product, inverse or coalesce satisfies its
//! definition; and what symbols give, in any of the operands, is what their numbers give.

#![no_main]

#[path = "../../tests/support/oracle.rs"]
mod oracle;

mod bytes;
mod composed_layouts;
mod numbers;
mod operations;
mod scalars;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| operations::run(&mut bytes::Bytes::new(data)));
