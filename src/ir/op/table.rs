//! The table of operations: one row each, from which everything else is derived.
//!
//! A row reads
//!
//! ```text
//! /// Meaning as a formula; PTX instruction and section of the PTX ISA.
//! name = Variant (operand: Constraint, ..; list: [Constraint]) { attribute: Type, .. } -> Result, .. : Class, Effect / Together + Own, TARGET, VERSION where check(part, ..)
//!     as "mnemonic" Suffix, method;
//! ```
//!
//! `; list: [Constraint]` is for operations with any number of operands. The operands of the list follow the
//! named ones, and each must meet the constraint of the list.
//!
//! `Constraint` is a variant of [`Constraint`](super::Constraint), `Result` of
//! [`ResultKind`](super::ResultKind), `Class` of [`Class`](super::Class) (the types that the variable `T` may
//! stand for) and `Effect` of [`Effect`](super::Effect). `/ Together` names the threads that must reach it
//! together ([`Together`](super::Together)), and `+ Own` says that a thread's result is its own whatever the
//! operands are. `TARGET` is the first target that has the operation; a
//! value of an attribute may need a later one ([`Op::support`](super::Op::support)). `VERSION`, such as
//! `PTX_7_8`, is the first version of the PTX ISA that has it; rows without one exist since 7.0.
//! `where` names a function of `support.rs` that takes operands and attributes, for rows that PTX has only
//! for some types or attributes. `as` is the PTX instruction of a plain operation
//! ([`Mnemonic`](super::Mnemonic)); each row of the families `FloatArith` and `IntArith` has one. `method`
//! makes a method of `Val` with the documentation of the row: the first operand is `self`, then come the others
//! and the attributes. Operations that
//! own regions, terminators and constants are in `control.rs` and `mod.rs`.

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
