//! The text form of a kernel: [`KernelIr`](super::KernelIr) prints it, [`parse`] reads it.
//!
//! ```text
//! kernel @name target sm_80 block 256 x 1 x 1 (%p0: ptr<global, mut f32>, %p1: i32) {
//!   shared @tile: f32 x 1024 align 16
//!   var @sum: f32 x 1
//!   %zero = const 0.0 : f32
//!   %first = const 0 : i32
//!   set_var<@sum, 0> %zero
//!   %last = for @rows %i: i32 = %first to %p1 step %one iter(%x: f32 = %zero) : f32 {
//!     %y = ld %p0, %i : f32           ; a comment ends with its line
//!     continue @rows %y
//!   }
//!   return
//! }
//! ```
//!
//! # Grammar
//!
//! `a*` is any number of `a`, `a,*` any number with commas between, `a?` at most one. Words in quotes stand
//! for themselves.
//!
//! ```text
//! kernels   = kernel*
//! kernel    = "kernel" symbol "target" word bounds "(" (value ":" type),* ")" "{" statement* "}"
//! bounds    = ("block" extent)? ("max_threads" number)? ("min_blocks_per_sm" number)?
//!             ("max_registers" number)? ("cluster" (extent | "at_launch"))?
//! extent    = number "x" number "x" number
//! statement = "shared" symbol ":" scalar "x" number "align" number
//!           | "var" symbol ":" type "x" number
//!           | "array" symbol ":" scalar "=" literal,*
//!           | (value,* "=")? operation
//! operation = "const" literal results
//!           | "if" value results region ("else" region)?
//!           | "for" symbol? value ":" type "=" value "to" value "step" value
//!             ("unroll" ("full" | number))? ("prefetch" number)? carried? results region
//!           | "loop" symbol? carried? results region
//!           | "yield" value,* results
//!           | ("continue" | "break") symbol value,* results
//!           | "return" results
//!           | "assert" text value ("," value)* ("element" value)? results
//!           | "printf" text value,* results
//!           | "ptx" text "target" word "version" number "pure"? value,* results
//!           | row ("<" attribute,* ">")? value,* results
//! carried   = "iter" "(" (value ":" type "=" value),* ")"
//! results   = (":" type,*)?
//! region    = "{" statement* "}"
//! type      = scalar | vector | "ptr" "<" space "," "mut"? scalar ">"
//!           | "tensor_map" "<" "mut"? scalar "," number ">"
//! value     = "%" name        symbol = "@" name        attribute = word | number | symbol
//! name      = a letter, then letters, digits and "_"; for values other than parameters also digits alone
//! text      = a text in quotes, on one line, with Rust's escapes
//! literal   = "true" | "false" | number | "inf" | "-inf" | "nan:0x" hexadecimal digits
//! ```
//!
//! A statement starts on a line of its own, or right after `{`. `;` starts a comment. `row` is the name of
//! a row of the operation table, `scalar`, `vector` and `space` are names of [`Scalar`](super::Scalar),
//! [`VectorType`](super::VectorType) (`f16x2`) and [`Space`](super::Space).
//!
//! # Names
//!
//! Names can be chosen freely; each is given once in a kernel, with names of their own for values,
//! variables, allocations and loops. A value may be named above the line that makes it, and from anywhere:
//! whether its definition reaches is for the verifier to say. Allocations, variables and loops must be
//! declared above. A kernel prints with the numbers of its values, variables and allocations, the ones that
//! all messages use, and those of a parsed kernel are counted from its top; see
//! [`KernelIr::canonical`](super::KernelIr::canonical).
//!
//! # Laws
//!
//! For every verified kernel `k`, `parse(print(k)) == k`; for every text that parses, verified or not,
//! printing and parsing changes nothing. Equality is that of programs: see `KernelIr`'s `PartialEq`.

mod error;
mod lex;
mod literal;
mod parse;
mod print;
mod region;

pub use error::{ParseError, ParseErrorKind};
pub use parse::{parse, parse_kernels};
