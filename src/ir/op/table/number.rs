//! Op-table rows for arithmetic, comparison and conversion, one per operation (`table.rs` explains
//! the notation).

/// Passes these rows on, after the rows that came before.
macro_rules! number_rows {
    ($callback:ident $($before:tt)*) => {
        $crate::ir::op::table::memory::memory_rows! { $callback
            $($before)*
        /// Arithmetic, logic and comparison. No side effects.
        Arith {
            /// `lhs + rhs`; integers wrap. PTX ISA 9.7.1.1, 9.7.3.3 `add`.
            add = Add (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
            /// `lhs - rhs`; integers wrap. PTX ISA 9.7.1.2, 9.7.3.4 `sub`.
            sub = Sub (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
            /// `lhs * rhs`; integers keep the low half. PTX ISA 9.7.1.3 `mul.lo`, 9.7.3.5 `mul`.
            mul = Mul (lhs: T, rhs: T) {} -> T : Number, Pure, SM_80;
            /// `lhs / rhs`; integers round toward zero, and a zero divisor is a fault; floating
            /// point is the correctly rounded quotient, which `f16` and `bf16` compute in `f32`.
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
            /// The correctly rounded square root; NaN below zero. `f16` and `bf16` compute it in
            /// `f32`. PTX ISA 9.7.3.14 `sqrt.rn`.
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
            /// `value >> amount`, filling with the sign of signed types; an `amount` of the width
            /// or more counts as the width. PTX ISA 9.7.8.9 `shr`.
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
            /// `lhs * rhs + addend` in the type of twice the width; wraps. PTX ISA 9.7.1.4
            /// `mad.wide`.
            mad_wide = MadWide (lhs: T, rhs: T, addend: Wide) {} -> Wide : IntHalf, Pure, SM_80;
            /// The lowest `count` bits of `value >> start`, extended by the highest of them where
            /// the type is signed, else by zeros; of `start` and `count` the lowest 8 bits count.
            /// PTX ISA 9.7.1.19 `bfe`.
            bfe = Bfe (value: T, start: U32, count: U32) {} -> T : IntWord, Pure, SM_80;
            /// `into` with `count` bits from `start` on replaced by the lowest ones of `value`; of
            /// `start` and `count` the lowest 8 bits count. PTX ISA 9.7.1.20 `bfi`.
            bfi = Bfi (value: T, into: T, start: U32, count: U32) {} -> T : IntWord, Pure, SM_80;
            /// The position of a bit that is set in `mask`: of the `offset`-th one from bit `base`
            /// on, that one included, upward, or downward where `offset` is negative; for `offset`
            /// 0, `base` itself. 2^32 - 1 if there is none, and where `base` is above 31. PTX ISA
            /// 9.7.1.17 `fns`.
            fns = Fns (mask: U32, base: U32, offset: I32) {} -> U32 : Any, Pure, SM_80;
            /// Any function of three bits, in each bit: bit `4 a + 2 b + c` of `table`.
            /// PTX ISA 9.7.8.6 `lop3`.
            lop3 = Lop3 (a: T, b: T, c: T) { table: u8 } -> T : Int32, Pure, SM_80;
        }
        /// Floating-point operations that are a single PTX instruction, with their modes.
        FloatArith {
            /// `lhs + rhs` with the rounding, flushing and clamping that `mode` asks for; `+`
            /// always rounds to nearest even. PTX ISA 9.7.3.3, 9.7.4.1 `add`.
            add_rounded = AddRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                where float_mode(lhs, mode) as "add.{mode}" Result, method;
            /// `lhs - rhs` with the rounding, flushing and clamping that `mode` asks for; `-`
            /// always rounds to nearest even. PTX ISA 9.7.3.4, 9.7.4.2 `sub`.
            sub_rounded = SubRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                where float_mode(lhs, mode) as "sub.{mode}" Result, method;
            /// `lhs * rhs` with the rounding, flushing and clamping that `mode` asks for; `*`
            /// always rounds to nearest even. PTX ISA 9.7.3.5, 9.7.4.3 `mul`.
            mul_rounded = MulRounded (lhs: T, rhs: T) { mode: FloatMode } -> T : Float, Pure, SM_80
                where float_mode(lhs, mode) as "mul.{mode}" Result, method;
            /// `lhs * rhs + addend`, rounded once, with the rounding, flushing and clamping that
            /// `mode` asks for. PTX ISA 9.7.3.6, 9.7.4.4 `fma`.
            fma_rounded = FmaRounded (lhs: T, rhs: T, addend: T) { mode: FloatMode } -> T
                : Float, Pure, SM_80 where fma_mode(lhs, mode) as "fma.{mode}" Result, method;
            /// `lhs / rhs` with the rounding, flushing and clamping that `mode` asks for; `/`
            /// always rounds to nearest even. PTX ISA 9.7.3.8 `div`.
            div_rounded = DivRounded (lhs: T, rhs: T) { mode: FloatMode } -> T
                : ScalarFloat, Pure, SM_80 where wide_float_mode(lhs, mode) as "div.{mode}" Result, method;
            /// The square root with the rounding, flushing and clamping that `mode` asks for;
            /// `sqrt` always rounds to nearest even. PTX ISA 9.7.3.15 `sqrt`.
            sqrt_rounded = SqrtRounded (value: T) { mode: FloatMode } -> T : ScalarFloat, Pure, SM_80
                where wide_float_mode(value, mode) as "sqrt.{mode}" Result, method;
            /// `1 / value` with the rounding, flushing and clamping that `mode` asks for. PTX
            /// ISA 9.7.3.13 `rcp`.
            rcp_rounded = RcpRounded (value: T) { mode: FloatMode } -> T : ScalarFloat, Pure, SM_80
                where wide_float_mode(value, mode) as "rcp.{mode}" Result, method;
            /// An approximation of `function` at `value`, for code that needs speed more than the
            /// last bits; [`ApproxFunction`] has the error bounds.
            approx = Approx (value: T) { function: ApproxFunction, subnormals: Subnormals } -> T
                : Float, Pure, SM_80 where approximation(value, function, subnormals)
                as "{function}.approx{.subnormals}" Result, method;
            /// An approximation of `lhs / rhs`, within 2 ulp. PTX ISA 9.7.3.8 `div.approx`,
            /// `div.full`.
            div_approx = DivApprox (lhs: T, rhs: T) { form: DivApprox, subnormals: Subnormals } -> T
                : ScalarFloat, Pure, SM_80 where f32_only(lhs) as "div.{form}{.subnormals}" Result;
            /// The smaller operand, or NaN if one is NaN; `min` would return the other operand. PTX
            /// ISA 9.7.3.11, 9.7.4.7 `min.NaN`.
            min_nan = MinNan (lhs: T, rhs: T) {} -> T : Float, Pure, SM_80 where not_f64(lhs)
                as "min.NaN" Result, method;
            /// The larger operand, or NaN if one is NaN; `max` would return the other operand. PTX
            /// ISA 9.7.3.12, 9.7.4.8 `max.NaN`.
            max_nan = MaxNan (lhs: T, rhs: T) {} -> T : Float, Pure, SM_80 where not_f64(lhs)
                as "max.NaN" Result, method;
            /// True if `value` has the property `test`, for example if it is finite. PTX
            /// ISA 9.7.3.1 `testp`.
            testp = Testp (value: T) { test: FloatTest } -> Bool : ScalarFloat, Pure, SM_80
                where f32_or_f64(value) as "testp.{test}" Operand, method;
        }
        /// Integer operations that are a single PTX instruction.
        IntArith {
            /// `lhs + rhs`, cut to the range of the type. PTX ISA 9.7.1.1 `add.sat`.
            add_sat = AddSat (lhs: T, rhs: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                as "add.sat" Result;
            /// `lhs - rhs`, cut to the range of the type. PTX ISA 9.7.1.2 `sub.sat`.
            sub_sat = SubSat (lhs: T, rhs: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                as "sub.sat" Result;
            /// `lhs * rhs + addend` in one instruction, for example to compute an address; keeps
            /// the low half. PTX ISA 9.7.1.4 `mad.lo`.
            mad = Mad (lhs: T, rhs: T, addend: T) {} -> T : Int, Pure, SM_80 as "mad.lo" Wrapped, method;
            /// `mad_hi`, cut to the range of the type. PTX ISA 9.7.1.4 `mad.hi.sat`.
            mad_hi_sat = MadHiSat (lhs: T, rhs: T, addend: T) {} -> T : Int32, Pure, SM_80 where i32_only(lhs)
                as "mad.hi.sat" Result;
            /// The low or high 32 bits of the 48-bit product of the operands' lowest 24 bits, which
            /// count as 24-bit integers: CUDA's `__mul24`. PTX ISA 9.7.1.5 `mul24`.
            mul24 = Mul24 (lhs: T, rhs: T) { half: ProductHalf } -> T : Int32, Pure, SM_80
                as "mul24.{half}" Result, method;
            /// `mul24` of `lhs` and `rhs`, plus `addend`; wraps. PTX ISA 9.7.1.6 `mad24`.
            mad24 = Mad24 (lhs: T, rhs: T, addend: T) { half: ProductHalf } -> T : Int32, Pure, SM_80
                as "mad24.{half}" Result, method;
            /// The high bits of `mul24`, plus `addend`, cut to the range of the type. PTX ISA
            /// 9.7.1.6 `mad24.hi.sat`.
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
            /// `|lhs - rhs| + addend`, to sum up absolute differences; wraps. PTX ISA 9.7.1.7
            /// `sad`.
            sad = Sad (lhs: T, rhs: T, addend: T) {} -> T : Int, Pure, SM_80 as "sad" Wrapped, method;
            /// The sum of the products of four bytes each, plus `addend`; wraps. PTX ISA 9.7.1.23
            /// `dp4a`.
            dp4a = Dp4a (lhs: Bytes, rhs: Bytes, addend: Dot) {} -> Dot : Any, Pure, SM_80
                as "dp4a" Dot;
            /// The sum of the products of two half words and two bytes, plus `addend`; wraps.
            /// PTX ISA 9.7.1.24 `dp2a`.
            dp2a = Dp2a (lhs: Halves, rhs: Bytes, addend: Dot) { half: ByteHalf } -> Dot
                : Any, Pure, SM_80 as "dp2a.{half}" Dot;
            /// The number of set bits, for example of the lanes in a ballot's mask. PTX
            /// ISA 9.7.1.14 `popc`.
            popc = Popc (value: T) {} -> U32 : IntWord, Pure, SM_80 as "popc" Bits, method;
            /// The number of zeros above the highest set bit, for example to round up to a power of
            /// two. PTX ISA 9.7.1.15 `clz`.
            clz = Clz (value: T) {} -> U32 : IntWord, Pure, SM_80 as "clz" Bits, method;
            /// 1 if `value` is 0, otherwise 0: C's `!`. PTX ISA 9.7.8.5 `cnot`.
            cnot = Cnot (value: T) {} -> T : Int, Pure, SM_80 as "cnot" Bits, method;
            /// `then_value` if `sign >= 0`, otherwise `else_value`: a select that needs no
            /// comparison. PTX ISA 9.7.6.4 `slct`.
            slct = Slct (then_value: T, else_value: T, sign: I32) {} -> T
                : ScalarNumber, Pure, SM_80 as "slct" Select, method;
            /// `then_value` if `sign >= 0`, otherwise `else_value`, also if `sign` is NaN. With
            /// `ftz`, a subnormal `sign` counts as 0. PTX ISA 9.7.6.4 `slct`.
            slct_float = SlctFloat (then_value: T, else_value: T, sign: F32) { subnormals: Subnormals } -> T
                : ScalarNumber, Pure, SM_80 as "slct{.subnormals}" Select, method;
            /// The bits in reverse order, for example to compute the indices of an FFT. PTX
            /// ISA 9.7.1.18 `brev`.
            brev = Brev (value: T) {} -> T : IntWord, Pure, SM_80 as "brev" Bits, method;
            /// The position of the highest bit that differs from the sign, or for unsigned types of
            /// the highest set bit, counted as `from` says; 2^32 - 1 if there is none. PTX
            /// ISA 9.7.1.16 `bfind`.
            bfind = Bfind (value: T) { from: FindFrom } -> U32 : IntWord, Pure, SM_80
                as "bfind{.from}" Operand, method;
            /// Shifts the 64 bits `high:low`; the result is the high half of a left shift, the low
            /// half of a right shift. With equal operands it rotates. PTX ISA 9.7.8.7 `shf`.
            shf = Shf (low: T, high: T, amount: U32) { direction: Direction, excess: Excess } -> T
                : Int32, Pure, SM_80 as "shf.{direction}.{excess}.b32" None, method;
            /// Four of the eight bytes of `low` and `high`, chosen by `mode` and `selector`, for
            /// example to reverse a word's bytes. PTX ISA 9.7.9.7 `prmt`.
            prmt = Prmt (low: T, high: T, selector: U32) { mode: PermuteMode } -> T
                : Int32, Pure, SM_80 as "prmt.b32{.mode}" None, method;
            /// The lowest `bits` bits, extended to the width by the sign if the type is signed,
            /// otherwise by zeros. PTX ISA 9.7.1.21 `szext`.
            szext = Szext (value: T, bits: U32) { excess: Excess } -> T : Int32, Pure, SM_80, PTX_7_6
                as "szext.{excess}" Operand, method;
            /// `count` bits set, from `start` on. PTX ISA 9.7.1.22 `bmsk`.
            bmsk = Bmsk (start: U32, count: U32) { excess: Excess } -> U32 : Any, Pure, SM_80, PTX_7_6
                as "bmsk.{excess}.b32" None;
        }
        /// Conversions, bit casts, and packing and unpacking of vectors.
        Convert {
            /// The value in the type `to`, as Rust's `as`: integers wrap, floating point to integer
            /// truncates and saturates (NaN gives 0), everything else rounds to nearest even. A
            /// number that is too large for a floating point type of 8 bits becomes its largest. In
            /// each element of a vector. PTX ISA 9.7.9.21 `cvt`.
            cvt = Cvt (value: T) { to: Scalar } -> To : Data, Pure, SM_80 where conversion(value, to);
            /// The same bits as a value of the type `to`. PTX ISA 9.7.9.1 `mov`.
            bitcast = Bitcast (value: T) { to: Type } -> As : Data, Pure, SM_80 where same_bits(value, to);
            /// The number rounded to the floating point type `to` as `mode` says, in each element.
            /// PTX ISA 9.7.9.21 `cvt`.
            cvt_rounded = CvtRounded (value: T) { to: Scalar, mode: FloatMode } -> To
                : Data, Pure, SM_80 where rounded_conversion(value, to, mode);
            /// The number rounded to an integer, as the type `to`: an integer type, whose range it
            /// is cut to (NaN gives 0), or the floating point type that it has.
            /// PTX ISA 9.7.9.21 `cvt.rni`, `cvt.rzi`, `cvt.rmi`, `cvt.rpi`.
            cvt_rint = CvtRint (value: T) { to: Scalar, rounding: Rounding } -> To
                : ScalarFloat, Pure, SM_80 where rint(value, to, rounding);
            /// The integer cut to the range of the integer type `to`. PTX ISA 9.7.9.21 `cvt.sat`.
            cvt_sat = CvtSat (value: T) { to: Scalar } -> To : Int, Pure, SM_80 where to_int(to);
            /// The vector of the integers of the list, each cut to the range of `to`, the first one
            /// in the lowest bits: four of 8 bits, or two of 16. PTX ISA 9.7.9.22 `cvt.pack.sat`.
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
        }
    };
}

pub(in crate::ir) use number_rows;
