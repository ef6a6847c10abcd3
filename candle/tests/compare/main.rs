//! Compares each operation with candle's of the same name in `f32`, on the simulator, and with the
//! feature `cuda` on the first GPU.

mod attention;
mod ops;
mod support;
