//! Matrix products.

mod partition;
mod simt;

pub use simt::{SimtGemm, SimtGemmError, SimtSignature};
