//! The table of operations: one row each, from which everything else is derived.
//!
//! A row reads
//!
//! ```text
//! /// Meaning as a formula; PTX instruction and section of the PTX ISA.
//! name = Variant (operand: Constraint, ..; list: [Constraint]) { attribute: Type, .. } -> Result, .. : Class, Effect, TARGET, VERSION where check(part, ..)
//!     as "mnemonic" Suffix;
//! ```
//!
//! `; list: [Constraint]` is for operations with any number of operands. The operands of the list follow the
//! named ones, and each must meet the constraint of the list.
//!
//! `Constraint` is a variant of [`Constraint`](super::Constraint), `Result` of
//! [`ResultKind`](super::ResultKind), `Class` of [`Class`](super::Class) (the types that the variable `T` may
//! stand for) and `Effect` of [`Effect`](super::Effect); `TARGET` is the first target that has the operation; a
//! value of an attribute may need a later one ([`Op::support`](super::Op::support)). `VERSION`, such as
//! `PTX_7_8`, is the first version of the PTX ISA that has it; rows without one exist since 7.0.
//! `where` names a function of `support.rs` that takes operands and attributes, for rows that PTX has only
//! for some types or attributes. `as` is the PTX instruction of a plain operation
//! ([`Mnemonic`](super::Mnemonic)); each row of the families `FloatArith` and `IntArith` has one. Operations that
//! own regions, terminators and constants are in `control.rs` and `mod.rs`.

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
                /// True where `lhs compare rhs`. PTX ISA 9.7.6.2 `setp`.
                setp = Setp (lhs: T, rhs: T) { compare: Compare } -> Bool : Ordered, Pure, SM_80
                    where comparison(lhs, compare);
                /// `if cond { then_value } else { else_value }`, both computed. PTX ISA 9.7.6.3 `selp`.
                selp = Selp (cond: Bool, then_value: T, else_value: T) {} -> T : Any, Pure, SM_80;
                /// `magnitude` with the sign of `sign`. PTX ISA 9.7.3.2 `copysign`.
                copysign = Copysign (magnitude: T, sign: T) {} -> T : ScalarFloat, Pure, SM_80
                    where f32_or_f64(magnitude);
                /// The high half of `lhs * rhs`. PTX ISA 9.7.1.3 `mul.hi`.
                mul_hi = MulHi (lhs: T, rhs: T) {} -> T : Int, Pure, SM_80;
                /// `lhs * rhs` in the type of twice the width. PTX ISA 9.7.1.3 `mul.wide`.
                mul_wide = MulWide (lhs: T, rhs: T) {} -> Wide : IntHalf, Pure, SM_80;
                /// The high half of `lhs * rhs`, plus `addend`; wraps. PTX ISA 9.7.1.4 `mad.hi`.
                mad_hi = MadHi (lhs: T, rhs: T, addend: T) {} -> T : Int, Pure, SM_80;
                /// `lhs * rhs + addend` in the type of twice the width; wraps. PTX ISA 9.7.1.4 `mad.wide`.
                mad_wide = MadWide (lhs: T, rhs: T, addend: Wide) {} -> Wide : IntHalf, Pure, SM_80;
                /// The lowest `count` bits of `value >> start`, extended by the highest of them where the type
                /// is signed, else by zeros; of `start` and `count` the lowest 8 bits count.
                /// PTX ISA 9.7.1.19 `bfe`.
                bfe = Bfe (value: T, start: U32, count: U32) {} -> T : IntWord, Pure, SM_80;
                /// `into` with `count` bits from `start` on replaced by the lowest ones of `value`; of `start`
                /// and `count` the lowest 8 bits count. PTX ISA 9.7.1.20 `bfi`.
                bfi = Bfi (value: T, into: T, start: U32, count: U32) {} -> T : IntWord, Pure, SM_80;
                /// The position of a bit that is set in `mask`: of the `offset`-th one from bit `base` on, that
                /// one included, upward, or downward where `offset` is negative; for `offset` 0, `base` itself.
                /// 2^32 - 1 if there is none, and where `base` is above 31. PTX ISA 9.7.1.17 `fns`.
                fns = Fns (mask: U32, base: U32, offset: I32) {} -> U32 : Any, Pure, SM_80;
                /// Any function of three bits, in each bit: bit `4 a + 2 b + c` of `table`.
                /// PTX ISA 9.7.8.6 `lop3`.
                lop3 = Lop3 (a: T, b: T, c: T) { table: u8 } -> T : Int32, Pure, SM_80;
            }
            /// Floating point functions that are one PTX instruction, with their modes.
            FloatArith {
                /// `lhs + rhs`, rounded as `mode` says. PTX ISA 9.7.3.3, 9.7.4.1 `add`.
                add_rounded = AddRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                    where float_mode(lhs, mode) as "add.{mode}" Result;
                /// `lhs - rhs`, rounded as `mode` says. PTX ISA 9.7.3.4, 9.7.4.2 `sub`.
                sub_rounded = SubRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                    where float_mode(lhs, mode) as "sub.{mode}" Result;
                /// `lhs * rhs`, rounded as `mode` says. PTX ISA 9.7.3.5, 9.7.4.3 `mul`.
                mul_rounded = MulRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                    where float_mode(lhs, mode) as "mul.{mode}" Result;
                /// `lhs * rhs + addend`, rounded once as `mode` says. PTX ISA 9.7.3.6, 9.7.4.4 `fma`.
                fma_rounded = FmaRounded (lhs: T, rhs: T, addend: T) { mode: FloatMode } -> T
                    : Float, Pure, SM_80 where fma_mode(lhs, mode) as "fma.{mode}" Result;
                /// `lhs / rhs`, rounded as `mode` says. PTX ISA 9.7.3.8 `div`.
                div_rounded = DivRounded (lhs: T, rhs: T) { mode: FloatMode } -> T
                    : ScalarFloat, Pure, SM_80 where wide_float_mode(lhs, mode) as "div.{mode}" Result;
                /// The square root, rounded as `mode` says. PTX ISA 9.7.3.15 `sqrt`.
                sqrt_rounded = SqrtRounded (value: T) { mode: FloatMode } -> T : ScalarFloat, Pure, SM_80
                    where wide_float_mode(value, mode) as "sqrt.{mode}" Result;
                /// `1 / value`, rounded as `mode` says. PTX ISA 9.7.3.13 `rcp`.
                rcp_rounded = RcpRounded (value: T) { mode: FloatMode } -> T : ScalarFloat, Pure, SM_80
                    where wide_float_mode(value, mode) as "rcp.{mode}" Result;
                /// An approximation of `function` of `value`; [`ApproxFunction`] has the bounds.
                approx = Approx (value: T) { function: ApproxFunction, subnormals: Subnormals } -> T
                    : Float, Pure, SM_80 where approximation(value, function, subnormals)
                    as "{function}.approx{.subnormals}" Result;
                /// An approximation of `lhs / rhs`, within 2 ulp. PTX ISA 9.7.3.8 `div.approx`, `div.full`.
                div_approx = DivApprox (lhs: T, rhs: T) { form: DivApprox, subnormals: Subnormals } -> T
                    : ScalarFloat, Pure, SM_80 where f32_only(lhs) as "div.{form}{.subnormals}" Result;
                /// The smaller operand; NaN if one is NaN. PTX ISA 9.7.3.11, 9.7.4.7 `min.NaN`.
                min_nan = MinNan (lhs: T, rhs: T) {} -> T : Float, Pure, SM_80 where not_f64(lhs)
                    as "min.NaN" Result;
                /// The larger operand; NaN if one is NaN. PTX ISA 9.7.3.12, 9.7.4.8 `max.NaN`.
                max_nan = MaxNan (lhs: T, rhs: T) {} -> T : Float, Pure, SM_80 where not_f64(lhs)
                    as "max.NaN" Result;
                /// True where `value` has the property `test`. PTX ISA 9.7.3.1 `testp`.
                testp = Testp (value: T) { test: FloatTest } -> Bool : ScalarFloat, Pure, SM_80
                    where f32_or_f64(value) as "testp.{test}" Operand;
            }
            /// Integer functions that are one PTX instruction.
            IntArith {
                /// `lhs + rhs`, cut to the range of the type. PTX ISA 9.7.1.1 `add.sat`.
                add_sat = AddSat (lhs: T, rhs: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                    as "add.sat" Result;
                /// `lhs - rhs`, cut to the range of the type. PTX ISA 9.7.1.2 `sub.sat`.
                sub_sat = SubSat (lhs: T, rhs: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                    as "sub.sat" Result;
                /// `lhs * rhs + addend`; keeps the low half. PTX ISA 9.7.1.4 `mad.lo`.
                mad = Mad (lhs: T, rhs: T, addend: T) {} -> T : Int, Pure, SM_80 as "mad.lo" Wrapped;
                /// `mad_hi`, cut to the range of the type. PTX ISA 9.7.1.4 `mad.hi.sat`.
                mad_hi_sat = MadHiSat (lhs: T, rhs: T, addend: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                    as "mad.hi.sat" Result;
                /// The low or the high 32 of the 48 bits of the product of the lowest 24 bits of the operands, which
                /// count as numbers of 24 bits. PTX ISA 9.7.1.5 `mul24`.
                mul24 = Mul24 (lhs: T, rhs: T) { half: ProductHalf } -> T : Int32, Pure, SM_80
                    as "mul24.{half}" Result;
                /// `mul24`, plus `addend`; wraps. PTX ISA 9.7.1.6 `mad24`.
                mad24 = Mad24 (lhs: T, rhs: T, addend: T) { half: ProductHalf } -> T : Int32, Pure, SM_80
                    as "mad24.{half}" Result;
                /// The high bits of `mul24`, plus `addend`, cut to the range of the type. PTX ISA 9.7.1.6
                /// `mad24.hi.sat`.
                mad24_hi_sat = Mad24HiSat (lhs: T, rhs: T, addend: T) {} -> T : Int32, Pure, SM_80
                    where i32_only(lhs) as "mad24.hi.sat" Result;
                /// `lhs + rhs` in both half words; wraps. PTX ISA 9.7.1.1 `add.s16x2`.
                add_packed = AddPacked (lhs: T, rhs: T) {} -> T : PackedInt, Pure, SM_90, PTX_8_0
                    as "add" Halves;
                /// The smaller half words. PTX ISA 9.7.1.12 `min.s16x2`.
                min_packed = MinPacked (lhs: T, rhs: T) {} -> T : PackedInt, Pure, SM_90, PTX_8_0
                    as "min" Halves;
                /// The larger half words. PTX ISA 9.7.1.13 `max.s16x2`.
                max_packed = MaxPacked (lhs: T, rhs: T) {} -> T : PackedInt, Pure, SM_90, PTX_8_0
                    as "max" Halves;
                /// `max(min(lhs, rhs), 0)`, in each element. PTX ISA 9.7.1.12 `min.relu`.
                min_relu = MinRelu (lhs: T, rhs: T) {} -> T : Relu, Pure, SM_90, PTX_8_0
                    as "min.relu" Halves;
                /// `max(lhs, rhs, 0)`, in each element. PTX ISA 9.7.1.13 `max.relu`.
                max_relu = MaxRelu (lhs: T, rhs: T) {} -> T : Relu, Pure, SM_90, PTX_8_0
                    as "max.relu" Halves;
                /// `|lhs - rhs| + addend`; wraps. PTX ISA 9.7.1.7 `sad`.
                sad = Sad (lhs: T, rhs: T, addend: T) {} -> T : Int, Pure, SM_80 as "sad" Wrapped;
                /// The sum of the products of four bytes each, plus `addend`; wraps. PTX ISA 9.7.1.23 `dp4a`.
                dp4a = Dp4a (lhs: Bytes, rhs: Bytes, addend: Dot) {} -> Dot : Any, Pure, SM_80
                    as "dp4a" Dot;
                /// The sum of the products of two half words and two bytes, plus `addend`; wraps.
                /// PTX ISA 9.7.1.24 `dp2a`.
                dp2a = Dp2a (lhs: Halves, rhs: Bytes, addend: Dot) { half: ByteHalf } -> Dot
                    : Any, Pure, SM_80 as "dp2a.{half}" Dot;
                /// The number of bits that are set. PTX ISA 9.7.1.14 `popc`.
                popc = Popc (value: T) {} -> U32 : IntWord, Pure, SM_80 as "popc" Bits;
                /// The number of zeros above the highest bit that is set. PTX ISA 9.7.1.15 `clz`.
                clz = Clz (value: T) {} -> U32 : IntWord, Pure, SM_80 as "clz" Bits;
                /// The bits in reverse order. PTX ISA 9.7.1.18 `brev`.
                brev = Brev (value: T) {} -> T : IntWord, Pure, SM_80 as "brev" Bits;
                /// The highest bit that differs from the sign (from 0, where unsigned), counted as `from`
                /// says; 2^32 - 1 if there is none. PTX ISA 9.7.1.16 `bfind`.
                bfind = Bfind (value: T) { from: FindFrom } -> U32 : IntWord, Pure, SM_80
                    as "bfind{.from}" Operand;
                /// Shifts the 64 bits `high:low` and gives the high half of a shift to the left, the low half of
                /// one to the right. PTX ISA 9.7.8.7 `shf`.
                shf = Shf (low: T, high: T, amount: U32) { direction: Direction, excess: Excess } -> T
                    : Int32, Pure, SM_80 as "shf.{direction}.{excess}.b32" None;
                /// Four of the eight bytes of `low` and `high`, as `mode` and `selector` say.
                /// PTX ISA 9.7.9.7 `prmt`.
                prmt = Prmt (low: T, high: T, selector: U32) { mode: PermuteMode } -> T
                    : Int32, Pure, SM_80 as "prmt.b32{.mode}" None;
                /// The lowest `bits` bits, extended to the width. PTX ISA 9.7.1.21 `szext`.
                szext = Szext (value: T, bits: U32) { excess: Excess } -> T : Int32, Pure, SM_80, PTX_7_6
                    as "szext.{excess}" Operand;
                /// `count` bits set, from `start` on. PTX ISA 9.7.1.22 `bmsk`.
                bmsk = Bmsk (start: U32, count: U32) { excess: Excess } -> U32 : Any, Pure, SM_80, PTX_7_6
                    as "bmsk.{excess}.b32" None;
            }
            /// Conversions of numbers, bits and vectors.
            Convert {
                /// The value in the type `to`, as Rust's `as`: integers wrap, floating point to integer
                /// truncates and saturates (NaN gives 0), everything else rounds to nearest even. A number
                /// that is too large for a floating point type of 8 bits becomes its largest. In each
                /// element of a vector. PTX ISA 9.7.9.21 `cvt`.
                cvt = Cvt (value: T) { to: Scalar } -> To : Data, Pure, SM_80 where conversion(value, to);
                /// The same bits as a value of the type `to`. PTX ISA 9.7.9.1 `mov`.
                bitcast = Bitcast (value: T) { to: Type } -> As : Data, Pure, SM_80 where same_bits(value, to);
                /// The number rounded to the floating point type `to` as `mode` says, in each element.
                /// PTX ISA 9.7.9.21 `cvt`.
                cvt_rounded = CvtRounded (value: T) { to: Scalar, mode: FloatMode } -> To
                    : Data, Pure, SM_80 where rounded_conversion(value, to, mode);
                /// The number rounded to an integer, as the type `to`: an integer type, whose range it is cut
                /// to (NaN gives 0), or the floating point type that it has.
                /// PTX ISA 9.7.9.21 `cvt.rni`, `cvt.rzi`, `cvt.rmi`, `cvt.rpi`.
                cvt_rint = CvtRint (value: T) { to: Scalar, rounding: Rounding } -> To
                    : ScalarFloat, Pure, SM_80 where rint(value, to, rounding);
                /// The integer cut to the range of the integer type `to`. PTX ISA 9.7.9.21 `cvt.sat`.
                cvt_sat = CvtSat (value: T) { to: Scalar } -> To : Int, Pure, SM_80 where to_int(to);
                /// The vector of the integers of the list, each cut to the range of `to`, the first one in the lowest
                /// bits: four of 8 bits, or two of 16. PTX ISA 9.7.9.22 `cvt.pack.sat`.
                cvt_pack = CvtPack (; values: [I32]) { to: Scalar } -> PackTo : Any, Pure, SM_80
                    where pack(values, to);
                /// The vector of the values of the list, the first one in the lowest bits.
                /// PTX ISA 9.7.9.1 `mov` of a vector.
                vec_pack = VecPack (; values: [T]) {} -> Pack : Scalar, Pure, SM_80;
                /// The vector with `value` in every element.
                vec_splat = VecSplat (value: T) { lanes: u32 } -> Splat : Scalar, Pure, SM_80;
                /// Element `lane` of a vector, from 0. PTX ISA 9.7.9.1 `mov` of a vector.
                vec_extract = VecExtract (vector: T) { lane: u32 } -> Lane : Vector, Pure, SM_80;
            }
            /// Memory, pointers and register variables.
            Mem {
                /// `*(base + index)`, `index` in elements. PTX ISA 9.7.9.8 `ld`.
                ld = Ld (base: Pointer, index: Index) { access: LoadAccess } -> Elem : Any, Read, SM_80
                    where load(access);
                /// `*(base + index) = value`, `index` in elements. PTX ISA 9.7.9.12 `st`.
                st = St (base: MutPointer, index: Index, value: Elem) { access: StoreAccess } -> Unit
                    : Any, Write, SM_80 where store(access);
                /// The vector of `lanes` elements from `*(base + index)` on, `index` in elements; its first
                /// byte is at a multiple of its size. PTX ISA 9.7.9.8 `ld.v2`, `ld.v4`.
                ld_vec = LdVec (base: Pointer, index: Index) { lanes: u32, access: LoadAccess }
                    -> ElemVector : Any, Read, SM_80 where load(access);
                /// Stores a vector from `*(base + index)` on, `index` in elements; its first byte is at a
                /// multiple of its size. PTX ISA 9.7.9.12 `st.v2`, `st.v4`.
                st_vec = StVec (base: MutPointer, index: Index, vector: ElemVector)
                    { access: StoreAccess } -> Unit : Any, Write, SM_80 where store(access);
                /// The same pointer, which the kernel promises to be at a multiple of `bytes`, a power of two.
                assume_aligned = AssumeAligned (base: T) { bytes: u32 } -> T : Pointer, Pure, SM_80;
                /// The pointer `base + index`, `index` in elements.
                offset = Offset (base: T, index: Index) {} -> T : Pointer, Pure, SM_80;
                /// The pointer `base` to elements of type `to`, at the same address, which must be a multiple
                /// of their size where they are accessed.
                ptr_cast = PtrCast (base: Pointer) { to: Scalar } -> PointerTo : Any, Pure, SM_80;
                /// The first element of a shared memory allocation.
                shared_base = SharedBase () { shared: SharedId } -> SharedPointer : Any, Pure, SM_80;
                /// The first element of a constant array.
                array_base = ArrayBase () { array: ArrayId } -> ArrayPointer : Any, Pure, SM_80;
                /// The first element of a local memory allocation of the thread.
                local_base = LocalBase () { local: LocalId } -> LocalPointer : Any, Pure, SM_80;
                /// The generic pointer to the same place. PTX ISA 9.7.9.20 `cvta`.
                cvta = Cvta (base: Pointer) {} -> GenericPointer : Any, Pure, SM_80 where cvta(base);
                /// The pointer of the space `space` to the same place, which must be in that space.
                /// PTX ISA 9.7.9.20 `cvta.to`.
                cvta_to = CvtaTo (base: Pointer) { space: Space } -> PointerInto : Any, Pure, SM_80
                    where cvta_to(base, space);
                /// True where a generic pointer points into the space `space`. PTX ISA 9.7.9.19 `isspacep`.
                isspacep = Isspacep (base: Pointer) { space: Space } -> Bool : Any, Pure, SM_80
                    where isspacep(base, space);
                /// The address, in bytes: as `i64` of global and generic pointers, as `i32` of those into the other
                /// spaces, which are small. Tile IR's `ptr_to_int`, PTX ISA 9.7.9.8 `mov`.
                ptr_to_int = PtrToInt (base: Pointer) {} -> Address : Any, Pure, SM_80;
                /// The pointer to the same place in the shared memory of block `cta` of the cluster.
                /// PTX ISA 9.7.9.23 `mapa`.
                mapa = Mapa (base: Pointer, cta: U32) {} -> ClusterPointer : Any, Pure, SM_90, PTX_7_8
                    where mapa(base);
                /// The number of the block of the cluster in whose shared memory the pointer is.
                /// PTX ISA 9.7.9.24 `getctarank`.
                getctarank = Getctarank (base: Pointer) {} -> U32 : Any, Pure, SM_90, PTX_7_8
                    where getctarank(base);
                /// The present value of register `index` of a variable.
                get_var = GetVar () { var: VarId, index: u32 } -> VarElem : Any, Read, SM_80;
                /// Sets register `index` of a variable.
                set_var = SetVar (value: VarElem) { var: VarId, index: u32 } -> Unit : Any, Write, SM_80;
            }
            /// Reads and writes of memory in one step, at `*(base + index)`, `index` in elements.
            Atomic {
                /// Sets the element to `op(old, value)`; the result is `old`. PTX ISA 9.7.13.5 `atom`.
                atom = Atom (base: MutPointer, index: Index, value: Elem)
                    { op: AtomicOp, order: AtomicOrder, scope: MemScope } -> Elem : Any, Write, SM_80
                    where atom(base, op, scope);
                /// Sets the element to `value` where its bits are those of `compare`; the result is the old value.
                /// PTX ISA 9.7.13.5 `atom.cas`.
                atom_cas = AtomCas (base: MutPointer, index: Index, compare: Elem, value: Elem)
                    { order: AtomicOrder, scope: MemScope } -> Elem : Any, Write, SM_80 where scope(scope);
                /// Sets each element from `*(base + index)` on to `op(old, value)`, each in a step of its own; the
                /// result is the old value. PTX ISA 9.7.13.5 `atom.v2`, `atom.v4`, `atom.v8`.
                atom_vec = AtomVec (base: MutPointer, index: Index, vector: ElemVector)
                    { op: AtomicOp, order: AtomicOrder, scope: MemScope } -> ElemVector : Any, Write, SM_80
                    where atom_vec(base, vector, op, scope);
                /// Sets each element from `*(base + index)` on to `op(old, value)`, each in a step of its own.
                /// PTX ISA 9.7.13.7 `red.v2`, `red.v4`, `red.v8`.
                red_vec = RedVec (base: MutPointer, index: Index, vector: ElemVector)
                    { op: AtomicOp, order: RedOrder, scope: MemScope } -> Unit : Any, Write, SM_80
                    where atom_vec(base, vector, op, scope);
                /// Sets the element to `op(old, value)`. PTX ISA 9.7.13.7 `red`.
                red = Red (base: MutPointer, index: Index, value: Elem)
                    { op: AtomicOp, order: RedOrder, scope: MemScope } -> Unit : Any, Write, SM_80
                    where atom(base, op, scope);
            }
            /// Cache hints about global memory, at `base + index`, `index` in elements.
            Cache {
                /// Brings the line of the address into a cache. PTX ISA 9.7.9.15 `prefetch`.
                prefetch = Prefetch (base: Pointer, index: Index) { level: PrefetchLevel } -> Unit
                    : Any, Read, SM_80;
                /// The 128 bytes from the address on lose their content, and need not go to memory.
                /// PTX ISA 9.7.9.17 `discard`.
                discard = Discard (base: MutPointer, index: Index) {} -> Unit : Any, Write, SM_80, PTX_7_4;
                /// L2 gives the 128 bytes from the address on up in their turn, no longer last.
                /// PTX ISA 9.7.9.16 `applypriority`.
                applypriority = Applypriority (base: Pointer, index: Index) {} -> Unit
                    : Any, Read, SM_80, PTX_7_4;
            }
            /// Synchronisation of threads.
            Sync {
                /// Waits until all threads of the block that have not ended arrive; memory accesses before
                /// it are seen by the block after it. PTX ISA 9.7.13.1 `barrier.sync 0`.
                barrier = Barrier () {} -> Unit : Any, Sync, SM_80;
                /// Waits at barrier `id`, 0 to 15, until `threads` threads have come to it, a multiple of 32.
                /// PTX ISA 9.7.13.1 `barrier.sync`.
                barrier_sync = BarrierSync (id: U32, threads: U32) { form: BarrierForm } -> Unit
                    : Any, Sync, SM_80;
                /// Comes to barrier `id` of `threads` threads without waiting.
                /// PTX ISA 9.7.13.1 `barrier.arrive`.
                barrier_arrive = BarrierArrive (id: U32, threads: U32) { form: BarrierForm } -> Unit
                    : Any, Sync, SM_80;
                /// Waits as `barrier_sync`; the result is `pred` of all threads, combined.
                /// PTX ISA 9.7.13.1 `barrier.red.and`, `barrier.red.or`.
                barrier_red = BarrierRed (pred: Bool, id: U32, threads: U32)
                    { op: BarrierRed, form: BarrierForm } -> Bool : Any, Sync, SM_80;
                /// Waits as `barrier_sync`; the result is the number of threads in which `pred` holds.
                /// PTX ISA 9.7.13.1 `barrier.red.popc`.
                barrier_red_popc = BarrierRedPopc (pred: Bool, id: U32, threads: U32)
                    { form: BarrierForm } -> U32 : Any, Sync, SM_80;
                /// Memory accesses before it come before those after it, for the threads of `scope`.
                /// PTX ISA 9.7.13.4 `fence`.
                fence = Fence () { order: FenceOrder, scope: MemScope } -> Unit : Any, Sync, SM_80
                    where scope(scope);
                /// The same for accesses of the thread to one memory at several addresses.
                /// PTX ISA 9.7.13.4 `fence.proxy.alias`.
                fence_proxy_alias = FenceProxyAlias () {} -> Unit : Any, Sync, SM_80, PTX_7_5;
                /// The same for accesses of the thread and of asynchronous copies and tensor cores.
                /// PTX ISA 9.7.13.4 `fence.proxy.async`.
                fence_proxy_async = FenceProxyAsync () { space: ProxySpace } -> Unit
                    : Any, Sync, SM_90, PTX_8_0;
                /// Comes to the barrier of the cluster without waiting. PTX ISA 9.7.13.3
                /// `barrier.cluster.arrive`.
                barrier_cluster_arrive = BarrierClusterArrive ()
                    { form: BarrierForm, order: ClusterArrival } -> Unit : Any, Sync, SM_90, PTX_7_8;
                /// Waits until all threads of the cluster have come to its barrier. PTX ISA 9.7.13.3
                /// `barrier.cluster.wait`.
                barrier_cluster_wait = BarrierClusterWait () { form: BarrierForm } -> Unit
                    : Any, Sync, SM_90, PTX_7_8;
                /// Waits until the grids that this one depends on have ended and their memory accesses are
                /// seen. PTX ISA 9.7.13.13 `griddepcontrol.wait`.
                griddepcontrol_wait = GriddepcontrolWait () {} -> Unit : Any, Sync, SM_90, PTX_7_8;
                /// Lets the grids that depend on this one start, once all its blocks have called this or
                /// have ended. PTX ISA 9.7.13.13 `griddepcontrol.launch_dependents`.
                griddepcontrol_launch_dependents = GriddepcontrolLaunchDependents () {} -> Unit
                    : Any, Sync, SM_90, PTX_7_8;
            }
            /// Tensor cores, and the matrices that they work on. All threads of a warp execute these together.
            Mma {
                /// `D += A B`, with D in registers `first ..` of the variable `d`, and each thread's parts of A
                /// and B in `a` and `b`. PTX ISA 9.7.14.5 `mma.sync`.
                mma_sync = MmaSync (a: Any, b: Any)
                    { shape: MmaShape, d: VarId, first: u32, overflow: MmaOverflow } -> Unit
                    : Any, Sync, SM_80 where mma_sync(a, b, shape, d, overflow);
                /// As `mma_sync`, in `f64`, where a thread has more of A than a vector holds: the list is each thread's
                /// part of A, then that of B. PTX ISA 9.7.14.5 `mma.sync`.
                mma_sync_f64 = MmaSyncF64 (; values: [F64]) { shape: MmaShape, d: VarId, first: u32 } -> Unit
                    : Any, Sync, SM_90, PTX_7_8 where mma_sync_f64(values, shape, d);
                /// Loads 8x8 matrices of 16-bit elements. The row `i % 8` of matrix `i / 8` starts at
                /// `*(base + index)` of lane `i`; a thread gets elements `2 (lane % 4) ..` of row `lane / 4` of
                /// each matrix. PTX ISA 9.7.14.5.15 `ldmatrix`.
                ldmatrix = Ldmatrix (base: Pointer, index: Index)
                    { count: MatrixCount, order: MatrixOrder } -> ElemVector : Any, Sync, SM_80
                    where matrices(base);
                /// Stores 8x8 matrices of 16-bit elements, as `ldmatrix` loads them.
                /// PTX ISA 9.7.14.5.16 `stmatrix`.
                stmatrix = Stmatrix (base: MutPointer, index: Index, vector: ElemVector)
                    { order: MatrixOrder } -> Unit : Any, Sync, SM_90, PTX_7_8 where stmatrix(base, vector);
                /// The transposed 8x8 matrix of 16-bit elements. Lane `i` passes the elements `2 (i % 4)` and
                /// `2 (i % 4) + 1` of row `i / 4`, and gets the elements of these rows in column `i / 4`.
                /// PTX ISA 9.7.14.5.17 `movmatrix`.
                movmatrix = Movmatrix (value: T) {} -> T : Vector, Sync, SM_80, PTX_7_8
                    where movmatrix(value);
                /// `bits`, and in bits 0 to 13 bits 4 to 17 of the address: the descriptor of a matrix in shared
                /// memory. PTX ISA 9.7.15.5.1 "matrix descriptor".
                matrix_descriptor = MatrixDescriptor (base: Pointer) { bits: u64 } -> U64
                    : Any, Pure, SM_80 where matrix_descriptor(base, bits);
                /// `D = A B + D` where `accumulate`, else `D = A B`, by the four warps of a warp group, which do
                /// not wait for it. D is in registers `first ..` of the variable `d`, A and B in shared memory at
                /// the descriptors `a` and `b`. PTX ISA 9.7.15.5.2 `wgmma.mma_async`.
                wgmma = Wgmma (a: U64, b: U64, accumulate: Bool)
                    { shape: MmaShape, a_type: Scalar, b_type: Scalar, d: VarId, first: u32, form: WgmmaForm }
                    -> Unit : Any, Sync, SM_90A, PTX_8_0 where wgmma(shape, a_type, b_type, d, form);
                /// As `wgmma`, with each thread's part of A in `a`. PTX ISA 9.7.15.5.2 `wgmma.mma_async`.
                wgmma_rs = WgmmaRs (a: Any, b: U64, accumulate: Bool)
                    { shape: MmaShape, b_type: Scalar, d: VarId, first: u32, form: WgmmaForm } -> Unit
                    : Any, Sync, SM_90A, PTX_8_0 where wgmma_rs(a, shape, b_type, d, form);
                /// Orders accesses to registers and shared memory before it with the `wgmma` after it.
                /// PTX ISA 9.7.15.7.1 `wgmma.fence`.
                wgmma_fence = WgmmaFence () {} -> Unit : Any, Sync, SM_90A, PTX_8_0;
                /// Makes a group of the `wgmma` that are in none. PTX ISA 9.7.15.7.2 `wgmma.commit_group`.
                wgmma_commit_group = WgmmaCommitGroup () {} -> Unit : Any, Sync, SM_90A, PTX_8_0;
                /// Waits until at most `pending` groups of `wgmma` are not done, the latest ones.
                /// PTX ISA 9.7.15.7.3 `wgmma.wait_group`.
                wgmma_wait_group = WgmmaWaitGroup () { pending: u32 } -> Unit : Any, Sync, SM_90A, PTX_8_0;
                /// Changes the registers that each thread of the warp may use to `count`, a multiple of 8 from 24
                /// to 256. PTX ISA 9.7.19.5 `setmaxnreg`.
                setmaxnreg = Setmaxnreg () { action: SetmaxnregAction, count: u32 } -> Unit
                    : Any, Sync, SM_90A, PTX_8_0 where setmaxnreg(count);
            }
            /// Barriers in shared memory that count arrivals and bytes. A phase ends when no arrival and no byte is
            /// pending. The barrier is the element `*(barrier + index)`.
            Mbarrier {
                /// Makes a barrier whose phases wait for `count` arrivals. PTX ISA 9.7.13.15.9 `mbarrier.init`.
                mbarrier_init = MbarrierInit (barrier: MutPointer, index: Index, count: U32) {} -> Unit
                    : Any, Sync, SM_80 where counts(barrier, count);
                /// Makes the barrier memory again. PTX ISA 9.7.13.15.10 `mbarrier.inval`.
                mbarrier_inval = MbarrierInval (barrier: MutPointer, index: Index) {} -> Unit
                    : Any, Sync, SM_80 where barrier(barrier);
                /// `count` arrivals; the result stands for the phase. PTX ISA 9.7.13.15.13 `mbarrier.arrive`.
                mbarrier_arrive = MbarrierArrive (barrier: MutPointer, index: Index, count: U32) {} -> U64
                    : Any, Sync, SM_80 where arrivals(barrier, count);
                /// The phase waits for `bytes` more bytes; then one arrival. The result stands for the phase.
                /// PTX ISA 9.7.13.15.13 `mbarrier.arrive.expect_tx`.
                mbarrier_arrive_expect_tx = MbarrierArriveExpectTx
                    (barrier: MutPointer, index: Index, bytes: U32) {} -> U64 : Any, Sync, SM_90, PTX_8_0
                    where barrier(barrier);
                /// An arrival at the barrier of the same place in block `cta` of the cluster.
                /// PTX ISA 9.7.13.15.13 `mbarrier.arrive.shared::cluster`, 9.7.9.23 `mapa`.
                mbarrier_arrive_cluster = MbarrierArriveCluster
                    (barrier: MutPointer, index: Index, cta: U32) { order: RemoteArrival } -> Unit
                    : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
                /// The phase waits for `bytes` more bytes. PTX ISA 9.7.13.15.11 `mbarrier.expect_tx`.
                mbarrier_expect_tx = MbarrierExpectTx (barrier: MutPointer, index: Index, bytes: U32) {}
                    -> Unit : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
                /// The phase waits for `bytes` fewer bytes. PTX ISA 9.7.13.15.12 `mbarrier.complete_tx`.
                mbarrier_complete_tx = MbarrierCompleteTx (barrier: MutPointer, index: Index, bytes: U32)
                    {} -> Unit : Any, Sync, SM_90, PTX_8_0 where barrier(barrier);
                /// True where the phase of `state` has ended. PTX ISA 9.7.13.15.16 `mbarrier.test_wait`.
                mbarrier_test_wait = MbarrierTestWait (barrier: MutPointer, index: Index, state: U64) {}
                    -> Bool : Any, Sync, SM_80 where barrier(barrier);
                /// True where the phase of parity `parity` has ended: 0 for the first phase, 1 for the one before it
                /// and for the second one, and so on. PTX ISA 9.7.13.15.16 `mbarrier.test_wait.parity`.
                mbarrier_test_wait_parity = MbarrierTestWaitParity
                    (barrier: MutPointer, index: Index, parity: U32) {} -> Bool : Any, Sync, SM_80, PTX_7_1
                    where parity(barrier, parity);
                /// As `mbarrier_test_wait`, perhaps after some time. PTX ISA 9.7.13.15.16 `mbarrier.try_wait`.
                mbarrier_try_wait = MbarrierTryWait (barrier: MutPointer, index: Index, state: U64) {}
                    -> Bool : Any, Sync, SM_90, PTX_7_8 where barrier(barrier);
                /// As `mbarrier_test_wait_parity`, perhaps after some time.
                /// PTX ISA 9.7.13.15.16 `mbarrier.try_wait.parity`.
                mbarrier_try_wait_parity = MbarrierTryWaitParity
                    (barrier: MutPointer, index: Index, parity: U32) {} -> Bool : Any, Sync, SM_90, PTX_7_8
                    where parity(barrier, parity);
                /// Waits until the phase of `state` has ended. PTX ISA 9.7.13.15.16, `mbarrier.try_wait` or
                /// `mbarrier.test_wait` in a loop.
                mbarrier_wait = MbarrierWait (barrier: MutPointer, index: Index, state: U64) {} -> Unit
                    : Any, Sync, SM_80 where barrier(barrier);
                /// Waits until the phase of parity `parity` has ended. PTX ISA 9.7.13.15.16,
                /// `mbarrier.try_wait.parity` or `mbarrier.test_wait.parity` in a loop.
                mbarrier_wait_parity = MbarrierWaitParity (barrier: MutPointer, index: Index, parity: U32)
                    {} -> Unit : Any, Sync, SM_80, PTX_7_1 where parity(barrier, parity);
                /// Makes the initialization of mbarriers visible to the cluster and to bulk copies. PTX ISA 9.7.13.4
                /// `fence.mbarrier_init`.
                fence_mbarrier_init = FenceMbarrierInit () {} -> Unit : Any, Sync, SM_90, PTX_8_0;
            }
            /// Copies that the thread does not wait for.
            AsyncCopy {
                /// Copies `bytes` bytes, 4, 8 or 16, from global memory `*(from + from_index)` to shared memory
                /// `*(to + to_index)`: the first `src_bytes` of them, the rest is zero. Nothing is read for 0.
                /// PTX ISA 9.7.9.25.3.1 `cp.async`.
                cp_async = CpAsync
                    (to: MutPointer, to_index: Index, from: Pointer, from_index: Index, src_bytes: U32)
                    { cache: CpAsyncCache, bytes: u32 } -> Unit : Any, Sync, SM_80
                    where cp_async(to, from, cache, bytes, src_bytes);
                /// Makes a group of the copies that are in none. PTX ISA 9.7.9.25.3.2 `cp.async.commit_group`.
                cp_async_commit_group = CpAsyncCommitGroup () {} -> Unit : Any, Sync, SM_80;
                /// Waits until at most `pending` groups are not done, the latest ones.
                /// PTX ISA 9.7.9.25.3.3 `cp.async.wait_group`.
                cp_async_wait_group = CpAsyncWaitGroup () { pending: u32 } -> Unit : Any, Sync, SM_80;
                /// Waits for all copies of the thread. PTX ISA 9.7.9.25.3.3 `cp.async.wait_all`.
                cp_async_wait_all = CpAsyncWaitAll () {} -> Unit : Any, Sync, SM_80;
                /// An arrival at the barrier when all copies of the thread so far are done.
                /// PTX ISA 9.7.13.15.15 `cp.async.mbarrier.arrive`.
                cp_async_mbarrier_arrive = CpAsyncMbarrierArrive (barrier: MutPointer, index: Index)
                    { count: PendingCount } -> Unit : Any, Sync, SM_80 where barrier(barrier);
                /// Copies `bytes` bytes, a multiple of 16, from global to shared memory; the phase of the barrier
                /// then waits for as many fewer. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
                cp_async_bulk_load = CpAsyncBulkLoad (to: MutPointer, to_index: Index, from: Pointer,
                    from_index: Index, bytes: U32, barrier: MutPointer, barrier_index: Index)
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where bulk_load(to, from, bytes, barrier);
                /// Copies `bytes` bytes, a multiple of 16, from shared to global memory, as one of the group that
                /// is committed next. PTX ISA 9.7.9.25.4.1 `cp.async.bulk`.
                cp_async_bulk_store = CpAsyncBulkStore
                    (to: MutPointer, to_index: Index, from: Pointer, from_index: Index, bytes: U32)
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where bulk_store(to, from, bytes);
                /// Brings `bytes` bytes, a multiple of 16, into L2. PTX ISA 9.7.9.25.4.3
                /// `cp.async.bulk.prefetch`.
                cp_async_bulk_prefetch = CpAsyncBulkPrefetch (from: Pointer, from_index: Index, bytes: U32)
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where bulk_prefetch(from, bytes);
                /// Copies the box at `coords` of a tensor to shared memory; the phase of the barrier then waits
                /// for as many bytes fewer. The first of `coords` is that of the contiguous dimension.
                /// PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`.
                cp_async_bulk_tensor_load = CpAsyncBulkTensorLoad (map: TensorMap, to: MutPointer,
                    to_index: Index, barrier: MutPointer, barrier_index: Index; coords: [I32])
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where tensor_load(map, to, barrier, coords);
                /// As `cp_async_bulk_tensor_load`, to the same place in each block of the cluster whose bit `ctas`
                /// has, and to the barrier there. PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`
                /// `.multicast::cluster`.
                cp_async_bulk_tensor_multicast = CpAsyncBulkTensorMulticast (map: TensorMap, to: MutPointer,
                    to_index: Index, barrier: MutPointer, barrier_index: Index, ctas: U32; coords: [I32])
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where tensor_load(map, to, barrier, coords);
                /// Copies a box from shared memory to `coords` of a tensor, as one of the group that is committed
                /// next. PTX ISA 9.7.9.25.5.2 `cp.async.bulk.tensor`.
                cp_async_bulk_tensor_store = CpAsyncBulkTensorStore
                    (map: TensorMap, from: Pointer, from_index: Index; coords: [I32]) { policy: L2Policy }
                    -> Unit : Any, Sync, SM_90, PTX_8_0 where tensor_store(map, from, coords);
                /// As `cp_async_bulk_tensor_store`, combined with the destination element by element.
                /// PTX ISA 9.7.9.25.5.3 `cp.reduce.async.bulk.tensor`.
                cp_reduce_async_bulk_tensor = CpReduceAsyncBulkTensor
                    (map: TensorMap, from: Pointer, from_index: Index; coords: [I32])
                    { op: BulkReduce, policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where tensor_reduce(map, from, coords, op);
                /// Brings the box at `coords` of a tensor into L2.
                /// PTX ISA 9.7.9.25.5.4 `cp.async.bulk.prefetch.tensor`.
                cp_async_bulk_prefetch_tensor = CpAsyncBulkPrefetchTensor (map: TensorMap; coords: [I32])
                    { policy: L2Policy } -> Unit : Any, Sync, SM_90, PTX_8_0
                    where tensor_prefetch(map, coords);
                /// Sets `*(to + index)` in the shared memory of a block of the cluster to `value`; the phase of the
                /// barrier, which is in the same block, then waits for as many bytes fewer.
                /// PTX ISA 9.7.9.13 `st.async`.
                st_async = StAsync (base: MutPointer, index: Index, value: Elem, barrier: MutPointer,
                    barrier_index: Index) {} -> Unit : Any, Sync, SM_90, PTX_8_1
                    where st_async(base, barrier);
                /// As `st_async`, combined with the destination. PTX ISA 9.7.13.8 `red.async`.
                red_async = RedAsync (base: MutPointer, index: Index, value: Elem, barrier: MutPointer,
                    barrier_index: Index) { op: BulkReduce } -> Unit : Any, Sync, SM_90, PTX_8_1
                    where red_async(base, barrier, op);
                /// Makes a group of the bulk copies of the thread that are in none.
                /// PTX ISA 9.7.9.25.6.2 `cp.async.bulk.commit_group`.
                cp_async_bulk_commit_group = CpAsyncBulkCommitGroup () {} -> Unit : Any, Sync, SM_90, PTX_8_0;
                /// Waits until at most `pending` groups of bulk copies of the thread, the latest ones, are not
                /// done, or have not read their source. PTX ISA 9.7.9.25.6.3 `cp.async.bulk.wait_group`.
                cp_async_bulk_wait_group = CpAsyncBulkWaitGroup () { pending: u32, wait: BulkWait } -> Unit
                    : Any, Sync, SM_90, PTX_8_0;
                /// Brings the description of a tensor into a cache. PTX ISA 9.7.9.15 `prefetch.tensormap`.
                prefetch_tensormap = PrefetchTensormap (map: TensorMap) {} -> Unit : Any, Read, SM_90, PTX_8_0;
            }
            /// Operations of the threads of a warp together: those whose bits `members` has, which must all
            /// come, with the same `members`, unless they have ended.
            Warp {
                /// `value` of the lane that `mode`, `lane` and `segment` choose, and whether that lane is
                /// inside the segment; where it is not, `value` of the thread itself.
                /// PTX ISA 9.7.9.6 `shfl.sync`.
                shfl = Shfl (value: T, lane: U32, segment: U32, members: U32) { mode: ShflMode } -> T, Bool
                    : Scalar, Sync, SM_80;
                /// True where `pred` holds in all members, in any of them, or is the same in all of them. PTX ISA
                /// 9.7.13.9 `vote.sync`.
                vote = Vote (pred: Bool, members: U32) { mode: VoteMode } -> Bool : Any, Sync, SM_80;
                /// The bits of the members in which `pred` holds. PTX ISA 9.7.13.9 `vote.sync.ballot`.
                vote_ballot = VoteBallot (pred: Bool, members: U32) {} -> U32 : Any, Sync, SM_80;
                /// The bits of the members whose `value` has the same bits as the thread's.
                /// PTX ISA 9.7.13.10 `match.any.sync`.
                match_any = MatchAny (value: T, members: U32) {} -> U32 : ScalarNumber, Sync, SM_80;
                /// `members` where `value` has the same bits in all of them, else 0; and whether it has.
                /// PTX ISA 9.7.13.10 `match.all.sync`.
                match_all = MatchAll (value: T, members: U32) {} -> U32, Bool
                    : ScalarNumber, Sync, SM_80;
                /// `value` of all members, combined; sums wrap. PTX ISA 9.7.13.12 `redux.sync`.
                redux = Redux (value: T, members: U32) { op: ReduxOp } -> T : Int32, Sync, SM_80;
                /// The lane of one of the members, the same one in all, and whether it is the thread.
                /// PTX ISA 9.7.13.14 `elect.sync`.
                elect = Elect (members: U32) {} -> U32, Bool : Any, Sync, SM_90, PTX_8_0;
                /// Waits for all members; memory accesses before it are seen by them after it.
                /// PTX ISA 9.7.13.2 `bar.warp.sync`.
                bar_warp = BarWarp (members: U32) {} -> Unit : Any, Sync, SM_80;
                /// The bits of the lanes that execute it together. PTX ISA 9.7.13.11 `activemask`.
                activemask = Activemask () {} -> U32 : Any, Read, SM_80;
            }
            /// Requests of a thread to the hardware that runs it.
            Thread {
                /// A special register that keeps its value while the thread runs. PTX ISA 10 `mov` from a special
                /// register.
                sreg = Sreg () { reg: SpecialReg } -> Reg : Any, Pure, SM_80 where special(reg);
                /// A special register that may change while the thread runs. PTX ISA 10 `mov` from a volatile special
                /// register.
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
