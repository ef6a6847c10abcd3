//! Integer functions (wide, saturating and packed arithmetic, dot products, bit and byte
//! manipulation) and conversions with an explicit rounding mode.

use super::body::Body;
use super::typed::{Converted, Element, Float, Integer, IntoOperand, Number, Ty, Val};
use super::vector::{Vector, VectorElement};
use crate::ir::number::Rounding;
use crate::ir::op::{Arith, ByteHalf, Convert, Excess, FloatMode, IntArith};

/// An integer of 32 or 64 bits: `i32`, `i64`, `u32` or `u64`. Bit-field extraction
/// ([`bfe`](Val::bfe)) and the like need it; you only name it as a bound.
pub trait Word: Integer {}
impl Word for i32 {}
impl Word for i64 {}
impl Word for u32 {}
impl Word for u64 {}

/// A 32-bit integer: `i32` or `u32`. PTX has more functions for it than for other widths, such as
/// [`lop3`](Val::lop3) and the 24-bit products.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::ProductHalf;
/// use tilewright::runtime::Device;
/// use tilewright::testing::eval;
///
/// let device = Device::default()?;
/// let low: i32 = eval(&device, |k| k.constant(0x7f00_0003).mul24(-5, ProductHalf::Lo))?;
/// let high: u32 = eval(&device, |k| k.constant(0x10_0000u32).mad24(0x100, 1, ProductHalf::Hi))?;
/// assert_eq!((low, high), (-15, 0x1001));
/// # }
/// # Ok::<(), tilewright::testing::EvalError>(())
/// ```
pub trait Word32: Word {}
impl Word32 for i32 {}
impl Word32 for u32 {}

/// An integer type with a product of twice the width in PTX: 16 or 32 bits.
/// [`mul_wide`](Val::mul_wide) and [`mad_wide`](Val::mad_wide) need it; you only name it as a
/// bound.
pub trait Widen: Integer {
    /// The type with twice the width.
    type Wide: Integer;
}

/// An element of the packed words that [`dp4a`](Val::dp4a) and [`dp2a`](Val::dp2a) multiply: an
/// 8-bit or 16-bit integer. You only name it as a bound.
pub trait DotElement: Integer {
    /// The type of the sum if the other operand's elements are unsigned.
    type Sum: Integer;
    /// The type of the sum if the other operand's elements are of type `B`: `u32` if both are
    /// unsigned, otherwise `i32`.
    type Dot<B: DotElement>: Integer;
}

macro_rules! widths {
    ($($ty:ty => $wide:ty;)*) => {$(
        impl Widen for $ty {
            type Wide = $wide;
        }
    )*};
}
widths! {
    i16 => i32;
    u16 => u32;
    i32 => i64;
    u32 => u64;
}

macro_rules! dot_elements {
    ($($signed:ty, $unsigned:ty;)*) => {$(
        impl DotElement for $signed {
            type Sum = i32;
            type Dot<B: DotElement> = i32;
        }
        impl DotElement for $unsigned {
            type Sum = u32;
            type Dot<B: DotElement> = <B as DotElement>::Sum;
        }
    )*};
}
dot_elements! {
    i8, u8;
    i16, u16;
}

/// # Integer arithmetic
///
/// Computes the high half of a product, which `*` drops.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("ints", Target::SM_80, |_, (x,)| {
///     let (a, b) = (x.load(0), x.load(1));
///     x.store(0, a.mul_hi(b));
///     x.store(1, a.sad(b, 1));
///     x.store(2, a.add_sat(i32::MAX));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1 << 30, 40, 0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [10, (1 << 30) - 39, i32::MAX]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Integer> Val<'b, T> {
    /// Returns the high half of `self * rhs`, for example to divide by multiplying with a
    /// reciprocal. PTX ISA 9.7.1.3 `mul.hi`.
    #[doc(alias("__mulhi", "__umulhi", "umulhi"))]
    #[track_caller]
    pub fn mul_hi(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::MulHi { lhs, rhs })
    }

    /// Returns the high half of `self * rhs`, plus `addend`, in one instruction; the sum wraps. PTX
    /// ISA 9.7.1.4 `mad.hi`.
    #[track_caller]
    pub fn mad_hi(
        self,
        rhs: impl IntoOperand<'b, T>,
        addend: impl IntoOperand<'b, T>,
    ) -> Val<'b, T> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(Arith::MadHi { lhs, rhs, addend })
    }
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $Variant:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(self, rhs: Self) -> Self {
            let cx = self.context();
            let (lhs, rhs) = (cx.operand(self), cx.operand(rhs));
            cx.emit_val(IntArith::$Variant { lhs, rhs })
        }
    )*};
}

/// # Packed 16-bit arithmetic
///
/// Computes with two integers at once, at the cost of one instruction. Requires `sm_90`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<i16>,)>::build("pairs", Target::SM_90, |_, (x,)| {
///     let (a, b) = (x.load_vector::<2>(0), x.load_vector::<2>(2));
///     x.store_vector(0, a.add_packed(b));
///     x.store_vector(2, a.max_relu(b));
/// })?;
/// assert!(kernel.ptx().text().contains("max.relu.s16x2"));
/// let device = Device::sim()?;
/// let mut x = device.upload(&[i16::MAX, -5, 1, -7])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [i16::MIN, -12, i16::MAX, 0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: PackedInt16> Val<'_, Vector<T, 2>> {
    binary! {
        /// Returns `self + rhs` in both halves; each half wraps on its own. PTX ISA 9.7.1.1
        /// `add.s16x2`.
        add_packed = AddPacked;
        /// Returns the smaller of each pair of halves. PTX ISA 9.7.1.12 `min.s16x2`.
        min_packed = MinPacked;
        /// Returns the larger of each pair of halves. PTX ISA 9.7.1.13 `max.s16x2`.
        max_packed = MaxPacked;
    }
}

/// # Packed minimum and maximum with ReLU
///
/// Clamps negative results to 0 in both halves. Requires `sm_90`.
impl Val<'_, Vector<i16, 2>> {
    binary! {
        /// Returns `max(min(self, rhs), 0)` in both halves, for example a ReLU with an upper limit.
        /// Requires `sm_90`. PTX ISA 9.7.1.12 `min.relu.s16x2`.
        min_relu = MinRelu;
        /// Returns `max(self, rhs, 0)` in both halves, for example to pool and apply a ReLU in one
        /// step. Requires `sm_90`. PTX ISA 9.7.1.13 `max.relu.s16x2`.
        max_relu = MaxRelu;
    }
}

/// One 16-bit half of a 32-bit word: the integer types `i16` and `u16`, not a half-precision float.
/// `Val<Vector<T, 2>>` has [`add_packed`](Val::add_packed), [`min_packed`](Val::min_packed) and
/// [`max_packed`](Val::max_packed) for them, one instruction for both halves. You only name the
/// trait as a bound, in code that is generic over the two types.
pub trait PackedInt16: Integer + VectorElement<2> {}
impl PackedInt16 for i16 {}
impl PackedInt16 for u16 {}

/// Clamps integers to a narrow type and packs them into one word.
macro_rules! cvt_pack {
    ($($ty:ident $lanes:literal;)*) => {$(
        #[doc = concat!("# Packing into `", stringify!($ty), "` vectors")]
        ///
        /// Clamps and packs integers, for example quantised results.
        impl<'b> Val<'b, Vector<$ty, $lanes>> {
            /// Clamps each integer to the element type's range and packs the results into a vector,
            /// the first one as element 0. Use it to store quantised results. PTX ISA 9.7.9.22
            /// `cvt.pack.sat`.
            ///
            /// ```
            /// # #[cfg(feature = "sim")] {
            /// use tilewright::ir::{Val, Vector};
            /// use tilewright::runtime::Device;
            /// use tilewright::testing::eval;
            ///
            /// let bytes: u32 = eval(&Device::default()?, |k| {
            ///     let all = [1000, -1000, 7, -7].map(|x| k.constant(x));
            ///     Val::<Vector<i8, 4>>::cvt_pack(all).bitcast::<u32>()
            /// })?;
            /// assert_eq!(bytes.to_le_bytes(), [127, 128, 7, 249]);
            /// # }
            /// # Ok::<(), tilewright::testing::EvalError>(())
            /// ```
            #[track_caller]
            pub fn cvt_pack(values: [Val<'b, i32>; $lanes]) -> Val<'b, Vector<$ty, $lanes>> {
                let cx = values[0].context();
                let values = values.iter().map(|value| cx.operand(*value)).collect();
                cx.emit_val(Convert::CvtPack { values, to: $ty::scalar() })
            }
        }
    )*};
}
cvt_pack! {
    i8 4;
    u8 4;
    i16 2;
    u16 2;
}

/// # Widening products
///
/// Returns the whole product, in twice the width.
impl<'b, T: Widen> Val<'b, T> {
    /// Returns the exact product `self * rhs` in twice the width, for example to compute a 64-bit
    /// offset from 32-bit indices. PTX ISA 9.7.1.3 `mul.wide`.
    #[track_caller]
    pub fn mul_wide(self, rhs: impl IntoOperand<'b, T>) -> Val<'b, T::Wide> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(Arith::MulWide { lhs, rhs })
    }

    /// Returns `self * rhs + addend` in twice the width, for example an offset plus a base. The
    /// product is exact; the sum wraps. PTX ISA 9.7.1.4 `mad.wide`.
    #[track_caller]
    pub fn mad_wide(
        self,
        rhs: impl IntoOperand<'b, T>,
        addend: impl IntoOperand<'b, T::Wide>,
    ) -> Val<'b, T::Wide> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(Arith::MadWide { lhs, rhs, addend })
    }
}

/// # Saturating arithmetic
///
/// Clamps to the range of `i32` where the operators would wrap.
impl<'b> Val<'b, i32> {
    /// Returns `self + rhs`, clamped to the range of `i32` where `+` would wrap. PTX ISA 9.7.1.1
    /// `add.sat`.
    #[track_caller]
    pub fn add_sat(self, rhs: impl IntoOperand<'b, i32>) -> Val<'b, i32> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(IntArith::AddSat { lhs, rhs })
    }

    /// Returns `self - rhs`, clamped to the range of `i32` where `-` would wrap. PTX ISA 9.7.1.2
    /// `sub.sat`.
    #[track_caller]
    pub fn sub_sat(self, rhs: impl IntoOperand<'b, i32>) -> Val<'b, i32> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(IntArith::SubSat { lhs, rhs })
    }

    /// Returns the high half of `self * rhs`, plus `addend`, clamped to the range of `i32`. PTX ISA
    /// 9.7.1.4 `mad.hi.sat`.
    #[track_caller]
    pub fn mad_hi_sat(
        self,
        rhs: impl IntoOperand<'b, i32>,
        addend: impl IntoOperand<'b, i32>,
    ) -> Val<'b, i32> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(IntArith::MadHiSat { lhs, rhs, addend })
    }

    /// Returns bits 16 to 47 of the 48-bit product of the lowest 24 bits of `self` and `rhs` (see
    /// [`mul24`](Val::mul24)), plus `addend`, clamped to the range of `i32`. PTX ISA 9.7.1.6
    /// `mad24.hi.sat`.
    #[track_caller]
    pub fn mad24_hi_sat(
        self,
        rhs: impl IntoOperand<'b, i32>,
        addend: impl IntoOperand<'b, i32>,
    ) -> Val<'b, i32> {
        let cx = self.context();
        let lhs = cx.operand(self);
        let (rhs, addend) = (cx.operand_of(rhs), cx.operand_of(addend));
        cx.emit_val(IntArith::Mad24HiSat { lhs, rhs, addend })
    }
}

/// # Minimum and maximum with ReLU
///
/// Clamps negative results to 0. Requires `sm_90`.
impl<'b> Val<'b, i32> {
    /// Returns `max(min(self, rhs), 0)`, for example a ReLU with an upper limit. Requires `sm_90`.
    /// PTX ISA 9.7.1.12 `min.relu.s32`.
    #[track_caller]
    pub fn min_relu(self, rhs: impl IntoOperand<'b, i32>) -> Val<'b, i32> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(IntArith::MinRelu { lhs, rhs })
    }

    /// Returns `max(self, rhs, 0)`, for example to pool and apply a ReLU in one step. Requires
    /// `sm_90`. PTX ISA 9.7.1.13 `max.relu.s32`.
    #[track_caller]
    pub fn max_relu(self, rhs: impl IntoOperand<'b, i32>) -> Val<'b, i32> {
        let cx = self.context();
        let (lhs, rhs) = (cx.operand(self), cx.operand_of(rhs));
        cx.emit_val(IntArith::MaxRelu { lhs, rhs })
    }
}

/// # Dot products of bytes
///
/// Sums up in 32 bits. Use it for int8 arithmetic without tensor cores.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, Vector};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("dot", Target::SM_80, |k, (x,)| {
///     let bytes = x.load(0).bitcast::<Vector<i8, 4>>();
///     let twos = k.constant(2u8);
///     x.store(0, bytes.dp4a(Val::splat(twos), 100));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[0x01_02_03_ff])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [100 + 2 * (1 + 2 + 3 - 1)]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, A: DotElement + VectorElement<4>> Val<'b, Vector<A, 4>> {
    /// Returns `addend + sum(self[i] * rhs[i])` over the four elements; each operand has `i8` or
    /// `u8` elements. The sum wraps. PTX ISA 9.7.1.23 `dp4a`.
    #[doc(alias = "__dp4a")]
    #[track_caller]
    pub fn dp4a<B: DotElement + VectorElement<4>>(
        self,
        rhs: Val<'b, Vector<B, 4>>,
        addend: impl IntoOperand<'b, A::Dot<B>>,
    ) -> Val<'b, A::Dot<B>> {
        let cx = self.context();
        let (lhs, rhs, addend) = (cx.operand(self), cx.operand(rhs), cx.operand_of(addend));
        cx.emit_val(IntArith::Dp4a { lhs, rhs, addend })
    }
}

/// # Dot products of half words and bytes
///
/// Sums up in 32 bits.
impl<'b, A: DotElement + VectorElement<2>> Val<'b, Vector<A, 2>> {
    /// Returns `addend + self[0] * rhs[h] + self[1] * rhs[h + 1]`, where `half` selects `h` = 0 or
    /// `h` = 2. The elements of `self` are `i16` or `u16`, those of `rhs` are `i8` or `u8`. The sum
    /// wraps. PTX ISA 9.7.1.24 `dp2a`.
    #[track_caller]
    pub fn dp2a<B: DotElement + VectorElement<4>>(
        self,
        rhs: Val<'b, Vector<B, 4>>,
        addend: impl IntoOperand<'b, A::Dot<B>>,
        half: ByteHalf,
    ) -> Val<'b, A::Dot<B>> {
        let cx = self.context();
        let (lhs, rhs, addend) = (cx.operand(self), cx.operand(rhs), cx.operand_of(addend));
        cx.emit_val(IntArith::Dp2a { lhs, rhs, addend, half })
    }
}

/// A function of three bits as a truth table. The closure passed to [`Val::lop3`] gets one for each
/// operand, and returns the combined one.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::builder::TruthTable;
/// use tilewright::runtime::Device;
/// use tilewright::testing::eval;
///
/// fn majority(a: TruthTable, b: TruthTable, c: TruthTable) -> TruthTable {
///     a & b | b & c | c & a
/// }
///
/// let device = Device::default()?;
/// let word: u32 = eval(&device, |k| k.constant(0b0011u32).lop3(0b0101, 0b0110, majority))?;
/// assert_eq!(word, 0b0111);
/// # }
/// # Ok::<(), tilewright::testing::EvalError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TruthTable(u8);

impl std::ops::BitAnd for TruthTable {
    type Output = TruthTable;
    fn bitand(self, rhs: TruthTable) -> TruthTable {
        TruthTable(self.0 & rhs.0)
    }
}

impl std::ops::BitOr for TruthTable {
    type Output = TruthTable;
    fn bitor(self, rhs: TruthTable) -> TruthTable {
        TruthTable(self.0 | rhs.0)
    }
}

impl std::ops::BitXor for TruthTable {
    type Output = TruthTable;
    fn bitxor(self, rhs: TruthTable) -> TruthTable {
        TruthTable(self.0 ^ rhs.0)
    }
}

impl std::ops::Not for TruthTable {
    type Output = TruthTable;
    fn not(self) -> TruthTable {
        TruthTable(!self.0)
    }
}

/// # Bit fields
///
/// Extracts and inserts bit fields, for example to unpack values from a word.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::{FindFrom, PermuteMode};
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<u32>,)>::build("bits", Target::SM_80, |_, (x,)| {
///     let v = x.load(0);
///     x.store(0, v.popc());
///     x.store(1, v.bfe(4, 8));
///     x.store(2, v.bfind(FindFrom::Position));
///     x.store(3, v.prmt(0, 0x0123, PermuteMode::Index)); // bytes in reverse order
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[0x0001_02f0u32, 0, 0, 0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [6, 0x2f, 16, 0xf002_0100]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b, T: Word> Val<'b, T> {
    /// Extracts `count` bits, starting at bit `start`. The result is sign-extended if `T` is
    /// signed, otherwise zero-extended. PTX ISA 9.7.1.19 `bfe`.
    #[track_caller]
    pub fn bfe(
        self,
        start: impl IntoOperand<'b, u32>,
        count: impl IntoOperand<'b, u32>,
    ) -> Val<'b, T> {
        let cx = self.context();
        let (value, start, count) = (cx.operand(self), cx.operand_of(start), cx.operand_of(count));
        cx.emit_val(Arith::Bfe { value, start, count })
    }

    /// Returns `into` with the `count` bits from bit `start` on replaced by the lowest bits of
    /// `self`, for example to pack values into a word. PTX ISA 9.7.1.20 `bfi`.
    #[track_caller]
    pub fn bfi(
        self,
        into: impl IntoOperand<'b, T>,
        start: impl IntoOperand<'b, u32>,
        count: impl IntoOperand<'b, u32>,
    ) -> Val<'b, T> {
        let cx = self.context();
        let (value, into) = (cx.operand(self), cx.operand_of(into));
        let (start, count) = (cx.operand_of(start), cx.operand_of(count));
        cx.emit_val(Arith::Bfi { value, into, start, count })
    }
}

/// # Bitwise functions of three operands
///
/// Replaces several `&`, `|` and `^` by one instruction.
impl<'b, T: Word32> Val<'b, T> {
    /// Applies a bitwise function of `self`, `b` and `c` in one instruction; use it instead of
    /// several `&`, `|` and `^`. PTX ISA 9.7.8.6 `lop3`.
    ///
    /// The closure describes the function with `&`, `|`, `^` and `!`. It runs once, on the host,
    /// with three truth tables.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("merge", Target::SM_80, |_, (x,)| {
    ///     let merged = x.load(0).lop3(0x00ff, 0x4300, |a, b, c| a & b | c);
    ///     x.store(0, merged);
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("lop3.b32").count(), 1);
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[0x1234_5678])?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [0x4378]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn lop3(
        self,
        b: impl IntoOperand<'b, T>,
        c: impl IntoOperand<'b, T>,
        function: impl FnOnce(TruthTable, TruthTable, TruthTable) -> TruthTable,
    ) -> Val<'b, T> {
        let TruthTable(table) = function(TruthTable(0xf0), TruthTable(0xcc), TruthTable(0xaa));
        self.lop3_lut(b, c, table)
    }

    /// Applies a bitwise function given by its truth table, PTX's `immLut`: the result bit for
    /// operand bits `a` (of `self`), `b` and `c` is bit `4 a + 2 b + c` of `table`. To get the
    /// table, apply the function to `0xf0`, `0xcc` and `0xaa`: for example `0x96` for `a ^ b ^ c`.
    /// PTX ISA 9.7.8.6 `lop3`.
    #[track_caller]
    pub fn lop3_lut(
        self,
        b: impl IntoOperand<'b, T>,
        c: impl IntoOperand<'b, T>,
        table: u8,
    ) -> Val<'b, T> {
        let cx = self.context();
        let (a, b, c) = (cx.operand(self), cx.operand_of(b), cx.operand_of(c));
        cx.emit_val(Arith::Lop3 { a, b, c, table })
    }
}

/// # Positions of set bits
///
/// Finds a set bit by its rank, for example in a ballot's mask.
impl<'b> Val<'b, u32> {
    /// Returns the position of the `offset`-th set bit, counting from bit `base` (included) upward,
    /// or downward if `offset` is negative. For `offset` 0 it is `base` itself. For example, it
    /// finds the n-th lane in a ballot's mask. Returns `u32::MAX` if there is no such bit or if
    /// `base` is above 31. PTX ISA 9.7.1.17 `fns`.
    #[track_caller]
    pub fn fns(
        self,
        base: impl IntoOperand<'b, u32>,
        offset: impl IntoOperand<'b, i32>,
    ) -> Val<'b, u32> {
        let cx = self.context();
        let (mask, base, offset) = (cx.operand(self), cx.operand_of(base), cx.operand_of(offset));
        cx.emit_val(Arith::Fns { mask, base, offset })
    }
}

/// # Bit masks
///
/// Makes a mask of neighbouring bits.
impl<'b> Body<'b, '_> {
    /// Returns a mask of `count` set bits, starting at bit `start`: for `start` 4 and `count` 8,
    /// `0xff0`. PTX ISA 9.7.1.22 `bmsk`.
    #[track_caller]
    pub fn bmsk(
        &self,
        start: impl IntoOperand<'b, u32>,
        count: impl IntoOperand<'b, u32>,
        excess: Excess,
    ) -> Val<'b, u32> {
        let cx = self.context();
        let (start, count) = (cx.operand_of(start), cx.operand_of(count));
        cx.emit_val(IntArith::Bmsk { start, count, excess })
    }
}

/// # Clamping conversions
///
/// Clamps if the target type is too narrow, where `cvt` would wrap.
impl<'b, T: Integer> Val<'b, T> {
    /// Converts to `U` and clamps to the range of `U`. Use it to narrow integers when
    /// [`cvt`](Val::cvt) would wrap. PTX ISA 9.7.9.21 `cvt.sat`.
    #[track_caller]
    pub fn cvt_sat<U: Integer>(self) -> Val<'b, U> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtSat { value, to: U::scalar() })
    }
}

/// # Bit casts
///
/// Reinterprets the bits as another type.
impl<'b, T: Ty> Val<'b, T> {
    /// Reinterprets the bits as a value of type `U`, for example to take an `f32` apart as a `u32`.
    /// `U` is a scalar or a vector with equally many bits, but not `bool`. PTX ISA 9.7.9.1 `mov`.
    #[doc(alias("__float_as_int", "__int_as_float", "reinterpret_cast"))]
    #[track_caller]
    pub fn bitcast<U: Ty>(self) -> Val<'b, U> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::Bitcast { value, to: U::ty() })
    }
}

/// # Conversions with a rounding mode
///
/// Converts to a float type if rounding to nearest even does not fit.
impl<'b, T: Number> Val<'b, T> {
    /// Converts to the floating-point type `U`, rounded as `mode` says. Use it if
    /// [`cvt`](Val::cvt), which rounds to nearest even, does not fit. PTX ISA 9.7.9.21 `cvt`.
    ///
    /// ```
    /// use tilewright::ir::op::FloatMode;
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
    ///
    /// type Narrow = (Global<f32>, GlobalMut<bf16>);
    /// let kernel = Kernel::<Narrow>::build("narrow", Target::SM_80, |_, (x, y)| {
    ///     let v = x.load(0).cvt_rounded(FloatMode::RZ.relu());
    ///     y.store(0, v);
    /// })?;
    /// assert!(kernel.ptx().text().contains("cvt.rz.relu.bf16.f32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias = "__float2half_rn")]
    #[track_caller]
    pub fn cvt_rounded<U: Converted>(self, mode: FloatMode) -> Val<'b, U> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtRounded { value, to: U::scalar(), mode })
    }
}

/// # Rounded conversions to integers
///
/// Rounds and clamps, for example to quantise.
impl<'b, T: Float> Val<'b, T> {
    /// Rounds to an integer of type `U` and clamps to the range of `U`; NaN becomes 0. Use it to
    /// quantise, because [`cvt`](Val::cvt) always rounds toward zero. PTX ISA 9.7.9.21 `cvt.rni`,
    /// `cvt.rzi`, `cvt.rmi`, `cvt.rpi`.
    #[track_caller]
    pub fn cvt_rint<U: Integer>(self, rounding: Rounding) -> Val<'b, U> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtRint { value, to: U::scalar(), rounding })
    }
}

/// # Vector conversions with a rounding mode
///
/// Converts element by element.
impl<'b, T: VectorElement<N> + Element, const N: usize> Val<'b, Vector<T, N>> {
    /// Converts each element to the floating-point type `U`, as [`Val::cvt_rounded`] does. If the
    /// rounding is to nearest or toward zero, one PTX instruction converts two `f32`
    /// (`cvt.rn.relu.bf16x2.f32`).
    #[track_caller]
    pub fn cvt_rounded<U: VectorElement<N>>(self, mode: FloatMode) -> Val<'b, Vector<U, N>> {
        let value = self.context().operand(self);
        self.context().emit_val(Convert::CvtRounded { value, to: U::scalar(), mode })
    }
}
