//! The text form of a kernel.
//!
//! ```text
//! kernel @name target sm_80 block 256 x 1 x 1 (%p0: ptr<global, f32>, %p1: i32) {
//!   shared @shared0: f32 x 1024 align 16
//!   %2 = const 0 : i32
//!   %3 = sreg<tid.x> : i32
//!   %4 = setp<lt> %3, %p1 : bool
//!   %9 = for @l0 %5: i32 = %2 to %p1 step %7 iter(%8: f32 = %6) : f32 {
//!     continue @l0 %8
//!   }
//!   return
//! }
//! ```
//!
//! An operation prints as `results = name<attributes> operands : result types`. A loop has a label, which
//! `break` and `continue` name.

mod print;
