//! Matrix products.

mod simt;

pub use simt::{SimtGemm, SimtGemmError, SimtSignature};
