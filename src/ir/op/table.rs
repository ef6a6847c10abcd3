//! The op table. Each operation is one row, and a macro derives everything else from it: the enum
//! variant, its operands and attributes, printing, parsing, type checks and often the PTX
//! instruction.
//!
//! `docs/adding-an-op.md` walks through an example. A row reads
//!
//! ```text
//! /// Meaning as a formula; PTX instruction and section of the PTX ISA.
//! name = Variant (operand: Constraint, ..; list: [Constraint]) { attribute: Type, .. } -> Result, .. : Class, Effect / Together + Own, TARGET, VERSION where check(part, ..)
//!     as "mnemonic" Suffix, method;
//! ```
//!
//! * `Constraint` is a variant of [`Constraint`](super::Constraint), `Result` of
//!   [`ResultKind`](super::ResultKind) and `Effect` of [`Effect`](super::Effect). `Class` is a
//!   variant of [`Class`](super::Class), the set of types that the row's type variable `T` ranges
//!   over.
//! * `; list: [Constraint]` adds a variadic list of operands after the named ones. Each of them
//!   must meet the constraint.
//! * `/ Together` says which threads must reach the operation together
//!   ([`Together`](super::Together)).
//! * `+ Own` says that the result may differ between threads even if their operands are equal.
//! * `TARGET` is the first target that has the operation. Some attribute values need a later one
//!   ([`Op::support`](super::Op::support)).
//! * `VERSION`, such as `PTX_7_8`, is the first PTX ISA version that has it. The default is 7.0.
//! * `where` names a function of `support.rs` that checks operands and attributes. Use it if PTX
//!   has the operation only for some types or attribute values.
//! * `as` gives the PTX instruction ([`Mnemonic`](super::Mnemonic)) of an operation that always is
//!   one instruction. Each row of the families `FloatArith` and `IntArith` has one.
//! * `method` generates a method of `Val` with the row's documentation, in the `impl` of its class
//!   in `builder/plain.rs`. The first operand is `self`; the other operands and the attributes
//!   follow.
//!
//! Constants and operations that own regions or end them have no row; they are in `mod.rs` and
//! `control.rs`.

pub(in crate::ir) mod memory;
pub(in crate::ir) mod number;
pub(in crate::ir) mod sync;
pub(in crate::ir) mod warp;

/// Calls the macro `$callback` with all rows, grouped by family.
macro_rules! for_each_op {
    ($callback:ident) => {
        $crate::ir::op::table::number::number_rows! { $callback }
    };
}

pub(in crate::ir) use for_each_op;
