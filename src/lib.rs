//! CuTe's layout algebra, a typed kernel builder, PTX and a simulator, in safe Rust.

pub mod layout;
