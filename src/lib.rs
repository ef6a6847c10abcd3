//! CuTe's layout algebra, a typed kernel builder, PTX and a simulator, in safe Rust.

pub mod codegen;
pub mod ir;
pub mod layout;
pub mod runtime;
