//! The text form of a kernel (its printed IR): [`KernelIr`](super::KernelIr) prints it, [`parse`]
//! reads it. With it you can write a test kernel by hand.
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
//! `a*` means any number of `a`, `a,*` any number separated by commas, and `a?` an optional `a`.
//! Quoted words are literal.
//!
//! ```text
//! kernels   = kernel*
//! kernel    = "kernel" symbol "target" word bounds "(" (value ":" type),* ")" "{" statement* "}"
//! bounds    = ("block" extent)? ("max_threads" number)? ("min_blocks_per_sm" number)?
//!             ("max_registers" number)? ("cluster" (extent | "at_launch"))?
//! extent    = number "x" number "x" number
//! statement = "shared" symbol ":" scalar "x" number "align" number
//!           | "local" symbol ":" scalar "x" number
//!           | "var" symbol ":" type "x" number
//!           | "array" symbol ":" scalar "=" literal,*
//!           | "global" symbol ":" scalar "x" number ("=" literal,*)?
//!           | (value,* "=")? operation
//! operation = "const" literal results
//!           | "if" value results region ("else" region)?
//!           | "for" symbol? value ":" type "=" value "to" value "step" value
//!             ("unroll" ("full" | number) | "vectorize" number)? ("prefetch" number)?
//!             carried? results region
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
//! A statement starts on its own line, or right after `{`. `;` starts a comment. `row` is the name
//! of a row of the op table. `scalar`, `vector` and `space` are names of [`Scalar`](super::Scalar),
//! [`VectorType`](super::VectorType) (such as `f16x2`) and [`Space`](super::Space).
//!
//! # Names
//!
//! You can choose names freely. Within a kernel each name is defined once; values, variables,
//! allocations and loops have separate namespaces. A value may be used above its definition and
//! from any region; the verifier decides whether the definition reaches the use. Allocations,
//! variables and loops must be declared above their use.
//!
//! When a kernel is printed, its values, variables and allocations appear by number, as in all
//! messages. A parsed kernel numbers them from its top; see
//! [`KernelIr::canonical`](super::KernelIr::canonical).
//!
//! # Laws
//!
//! For every verified kernel `k`, `parse(print(k)) == k`. For every text that parses, verified or
//! not, printing and parsing it again changes nothing. Equality is program equality: see
//! `KernelIr`'s `PartialEq`.

mod error;
mod lex;
mod literal;
mod parse;
mod print;
mod region;

pub use error::{ParseError, ParseErrorKind};
pub use parse::{parse, parse_kernels};
