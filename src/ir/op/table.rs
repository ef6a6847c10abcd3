//! The table of operations. Everything that can be derived about an operation is derived from its row.
//!
//! A row reads
//!
//! ```text
//! /// Meaning as a formula; PTX instruction and section of the PTX ISA.
//! name = Variant (operand: Constraint, ..; list: [Constraint]) { attribute: Type, .. } -> Result, .. : Class, Effect, TARGET;
//! ```
//!
//! `; list: [Constraint]` is there for operations with any number of operands: after those that have a name
//! come those of the list, each of which must meet its constraint.
//!
//! `Constraint` is a variant of [`Constraint`](super::Constraint), `Result` of
//! [`ResultKind`](super::ResultKind), `Class` of [`Class`](super::Class) (which types the variable `T` may
//! stand for) and `Effect` of [`Effect`](super::Effect); `TARGET` is the first target that has the
//! operation; a value of an attribute may need a later one ([`Op::first_target`](super::Op::first_target)).
//! Operations that own regions, terminators and constants are in `control.rs` and `mod.rs`.

/// Calls the macro `$callback` with all rows, grouped by family.
macro_rules! for_each_op {
    ($callback:ident) => {
        $callback! {
            /// Arithmetic, logic, comparison and conversion: no effect beyond the result.
            Arith {
                /// `lhs + rhs`; integers wrap. PTX ISA 9.7.1.1, 9.7.3.3 `add`.
                add = Add (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
                /// `lhs - rhs`; integers wrap. PTX ISA 9.7.1.2, 9.7.3.4 `sub`.
                sub = Sub (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
                /// `lhs * rhs`; integers keep the low half. PTX ISA 9.7.1.3 `mul.lo`, 9.7.3.5 `mul`.
                mul = Mul (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
                /// `lhs / rhs`; integers round toward zero, and a zero divisor is a fault; floating point
                /// is the correctly rounded quotient, which `f16` and `bf16` compute in `f32`.
                /// PTX ISA 9.7.1.8 `div`, 9.7.3.8 `div.rn`.
                div = Div (lhs: T, rhs: T) {} -> T : ScalarNumber, Pure, SM_80;
                /// `lhs - rhs * trunc(lhs / rhs)`, the sign of `lhs`; a zero divisor is a fault.
                /// PTX ISA 9.7.1.9 `rem`.
                rem = Rem (lhs: T, rhs: T) {} -> T : Int, Pure, SM_80;
                /// The smaller operand; if one is NaN, the other one. PTX ISA 9.7.1.12, 9.7.3.11 `min`.
                min = Min (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
                /// The larger operand; if one is NaN, the other one. PTX ISA 9.7.1.13, 9.7.3.12 `max`.
                max = Max (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
                /// `-value`; integers wrap. PTX ISA 9.7.1.11, 9.7.3.10 `neg`.
                neg = Neg (value: T) {} -> T : Signed, Pure, SM_80;
                /// `|value|`; integers wrap. PTX ISA 9.7.1.10, 9.7.3.9 `abs`.
                abs = Abs (value: T) {} -> T : Signed, Pure, SM_80;
                /// `lhs * rhs + addend` with one rounding. PTX ISA 9.7.3.6 `fma.rn`.
                fma = Fma (lhs: T, rhs: T, addend: T) {} -> T : Float, Pure, SM_80;
                /// The correctly rounded square root; NaN below zero. `f16` and `bf16` compute it in `f32`.
                /// PTX ISA 9.7.3.14 `sqrt.rn`.
                sqrt = Sqrt (value: T) {} -> T : ScalarFloat, Pure, SM_80;
                /// `lhs & rhs`. PTX ISA 9.7.8.1 `and`.
                and = And (lhs: T, rhs: T) {} -> T : Bits, Pure, SM_80;
                /// `lhs | rhs`. PTX ISA 9.7.8.2 `or`.
                or = Or (lhs: T, rhs: T) {} -> T : Bits, Pure, SM_80;
                /// `lhs ^ rhs`. PTX ISA 9.7.8.3 `xor`.
                xor = Xor (lhs: T, rhs: T) {} -> T : Bits, Pure, SM_80;
                /// `!value`. PTX ISA 9.7.8.4 `not`.
                not = Not (value: T) {} -> T : Bits, Pure, SM_80;
                /// `value << amount`; 0 where `amount` is the width or more. PTX ISA 9.7.8.8 `shl`.
                shl = Shl (value: T, amount: U32) {} -> T : Int, Pure, SM_80;
                /// `value >> amount`, filling with the sign of signed types; an `amount` of the width or
                /// more counts as the width. PTX ISA 9.7.8.9 `shr`.
                shr = Shr (value: T, amount: U32) {} -> T : Int, Pure, SM_80;
                /// Whether `lhs compare rhs`. PTX ISA 9.7.6.2 `setp`.
                setp = Setp (lhs: T, rhs: T) { compare: Compare } -> Bool : Ordered, Pure, SM_80;
                /// `if cond { then_value } else { else_value }`, both computed. PTX ISA 9.7.6.3 `selp`.
                selp = Selp (cond: Bool, then_value: T, else_value: T) {} -> T : Any, Pure, SM_80;
                /// The value in the type `to`, as Rust's `as`: integers wrap, floating point to integer
                /// truncates and saturates (NaN gives 0), everything else rounds to nearest even. A number
                /// that is too large for a floating point type of 8 bits becomes its largest. Each element of a vector, which keeps
                /// their number. PTX ISA 9.7.9.22 `cvt`.
                cvt = Cvt (value: T) { to: Scalar } -> To : Data, Pure, SM_80;
                /// The vector of the values of the list, the first one in the lowest bits.
                /// PTX ISA 9.7.9.1 `mov` of a vector.
                vec_pack = VecPack (; values: [T]) {} -> Pack : Scalar, Pure, SM_80;
                /// The vector of which every element is `value`.
                vec_splat = VecSplat (value: T) { lanes: u32 } -> Splat : Scalar, Pure, SM_80;
                /// Element `lane` of a vector, from 0. PTX ISA 9.7.9.1 `mov` of a vector.
                vec_extract = VecExtract (vector: T) { lane: u32 } -> Lane : Vector, Pure, SM_80;
                /// What the hardware tells the thread, the same at each execution. PTX ISA 10 `mov` from a
                /// special register.
                sreg = Sreg () { reg: SpecialReg } -> Reg : Any, Pure, SM_80;
            }
            /// Memory, pointers and register variables.
            Mem {
                /// `*(base + index)`, `index` in elements. PTX ISA 9.7.9.8 `ld`.
                ld = Ld (base: Pointer, index: Index) {} -> Elem : Any, Read, SM_80;
                /// `*(base + index) = value`, `index` in elements. PTX ISA 9.7.9.12 `st`.
                st = St (base: MutPointer, index: Index, value: Elem) {} -> Unit : Any, Write, SM_80;
                /// The pointer `base + index`, `index` in elements.
                offset = Offset (base: T, index: Index) {} -> T : Pointer, Pure, SM_80;
                /// The pointer `base` to elements of type `to`, at the same address, which must be a multiple
                /// of their size where they are accessed.
                ptr_cast = PtrCast (base: Pointer) { to: Scalar } -> PointerTo : Any, Pure, SM_80;
                /// The first element of a shared memory allocation.
                shared_base = SharedBase () { shared: SharedId } -> SharedPointer : Any, Pure, SM_80;
                /// The present value of register `index` of a variable.
                get_var = GetVar () { var: VarId, index: u32 } -> VarElem : Any, Read, SM_80;
                /// Sets register `index` of a variable.
                set_var = SetVar (value: VarElem) { var: VarId, index: u32 } -> Unit : Any, Write, SM_80;
            }
            /// Synchronisation of threads.
            Sync {
                /// Waits until all threads of the block that have not ended arrive; memory accesses before
                /// it are seen by the block after it. PTX ISA 9.7.13.1 `barrier.sync 0`.
                barrier = Barrier () {} -> Unit : Any, Sync, SM_80;
                /// Waits until the grids that this one depends on have ended and their memory accesses are
                /// seen. PTX ISA 9.7.13.13 `griddepcontrol.wait`.
                griddepcontrol_wait = GriddepcontrolWait () {} -> Unit : Any, Sync, SM_90;
                /// Lets the grids that depend on this one start, once all its blocks have called this or
                /// have ended. PTX ISA 9.7.13.13 `griddepcontrol.launch_dependents`.
                griddepcontrol_launch_dependents = GriddepcontrolLaunchDependents () {} -> Unit
                    : Any, Sync, SM_90;
            }
            /// Operations of the threads of a warp together: those whose bits `members` has, which must all
            /// come, with the same `members`, unless they have ended.
            Warp {
                /// `value` of the lane that `mode`, `lane` and `segment` choose, and whether that lane is
                /// inside the segment; where it is not, `value` of the thread itself.
                /// PTX ISA 9.7.9.6 `shfl.sync`.
                shfl = Shfl (value: T, lane: U32, segment: U32, members: U32) { mode: ShflMode } -> T, Bool
                    : Scalar, Sync, SM_80;
                /// Whether `pred` holds in all members, in any of them, or is the same in all of them.
                /// PTX ISA 9.7.13.9 `vote.sync`.
                vote = Vote (pred: Bool, members: U32) { mode: VoteMode } -> Bool : Any, Sync, SM_80;
                /// The bits of the members in which `pred` holds. PTX ISA 9.7.13.9 `vote.sync.ballot`.
                vote_ballot = VoteBallot (pred: Bool, members: U32) {} -> U32 : Any, Sync, SM_80;
                /// The bits of the members whose `value` has the same bits as the thread's.
                /// PTX ISA 9.7.13.10 `match.any.sync`.
                match_any = MatchAny (value: T, members: U32) {} -> U32 : ScalarNumber, Sync, SM_80;
                /// `members` where `value` has the same bits in all of them, else 0; and whether it has.
                /// PTX ISA 9.7.13.10 `match.all.sync`.
                match_all = MatchAll (value: T, members: U32) {} -> U32, Bool : ScalarNumber, Sync, SM_80;
                /// `value` of all members, combined; sums wrap. PTX ISA 9.7.13.12 `redux.sync`.
                redux = Redux (value: T, members: U32) { op: ReduxOp } -> T : Int32, Sync, SM_80;
                /// The lane of one of the members, the same one in all, and whether it is the thread.
                /// PTX ISA 9.7.13.14 `elect.sync`.
                elect = Elect (members: U32) {} -> U32, Bool : Any, Sync, SM_90;
                /// Waits for all members; memory accesses before it are seen by them after it.
                /// PTX ISA 9.7.13.2 `bar.warp.sync`.
                bar_warp = BarWarp (members: U32) {} -> Unit : Any, Sync, SM_80;
                /// The bits of the lanes that execute it together. PTX ISA 9.7.13.11 `activemask`.
                activemask = Activemask () {} -> U32 : Any, Read, SM_80;
            }
            /// What a thread asks of the hardware that runs it.
            Thread {
                /// What the hardware tells the thread now; another time it may be something else. PTX ISA 10
                /// `mov` from a volatile special register.
                volatile_sreg = VolatileSreg () { reg: VolatileReg } -> Reg : Any, Read, SM_80;
                /// Sleeps for between 0 and `2 * nanoseconds`, at most a millisecond.
                /// PTX ISA 9.7.13.1 `nanosleep`.
                nanosleep = Nanosleep (nanoseconds: U32) {} -> Unit : Any, Sync, SM_80;
                /// Ends the whole grid with an error. PTX ISA 9.7.19.4 `trap`.
                trap = Trap () {} -> Unit : Any, Sync, SM_80;
                /// Stops in a debugger. PTX ISA 9.7.19.1 `brkpt`.
                brkpt = Brkpt () {} -> Unit : Any, Sync, SM_80;
            }
        }
    };
}

pub(super) use for_each_op;
