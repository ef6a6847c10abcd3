//! Arithmetic modes: attributes that PTX writes as instruction suffixes, such as rounding and
//! `.ftz`. Kernel authors pass them to the builder's methods with an explicit mode.

use std::fmt;
use std::str::FromStr;

use crate::ir::name::{self, ParseNameError};
use crate::ir::number::Rounding;

/// Defines an attribute enum with a name for each variant.
macro_rules! named {
    (
        $(#[$doc:meta])*
        $Name:ident, $what:literal {
            $($(#[$variant_doc:meta])* $Variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $($(#[$variant_doc])* $Variant,)*
        }

        impl $Name {
            /// All values.
            pub const ALL: &'static [$Name] = &[$($Name::$Variant),*];

            /// Returns the name in printed kernels, which is PTX's name if there is one.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Name::$Variant => $text,)*
                }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $Name {
            type Err = ParseNameError;

            fn from_str(text: &str) -> Result<$Name, ParseNameError> {
                name::find($what, $Name::ALL, text)
            }
        }
    };
}

named! {
    /// How out-of-range results of a floating-point operation are clamped, part of [`FloatMode`].
    Clamp, "a clamp" {
        /// No clamping.
        None = "none",
        /// `.sat`: clamps to the range from 0 to 1. NaN becomes 0.
        Sat = "sat",
        /// `.relu`: negative results become 0. NaN stays NaN.
        Relu = "relu",
        /// `.satfinite`: results beyond the largest finite value become that value.
        Satfinite = "satfinite",
        /// `.satfinite.relu`: negative results become 0, and results beyond the largest finite
        /// value become that value.
        SatfiniteRelu = "satfinite.relu",
    }
}

/// A floating-point operation's rounding, subnormal handling and clamping: PTX's suffixes in PTX's
/// order. Pass it to methods such as [`add_rounded`](crate::ir::Val::add_rounded) if the default,
/// rounding to nearest even, does not fit.
///
/// ```
/// use tilewright::ir::op::FloatMode;
/// let mode = FloatMode::RZ.ftz().sat();
/// assert_eq!(mode.to_string(), "rz.ftz.sat");
/// assert_eq!("rz.ftz.sat".parse(), Ok(mode));
/// ```
///
/// Not every type has every mode. `f32` has all roundings, `.ftz` and `.sat`; `f64` has all
/// roundings; `f16` and `f16x2` have `.ftz` and `.sat`; `bf16` and `bf16x2` have only `rn`. `fma`
/// on 16-bit types also has `.relu`. For any other mode, the verifier reports an error that names
/// the valid ones.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::FloatMode;
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("third", Target::SM_80, |_, (x,)| {
///     let (one, three) = (x.load(0), x.load(1));
///     x.store(0, one.div_rounded(three, FloatMode::RM));
///     x.store(1, one.div_rounded(three, FloatMode::RP));
///     x.store(2, three.add_rounded(one, FloatMode::RZ.ftz().sat()));
/// })?;
/// assert!(kernel.ptx().text().contains("add.rz.ftz.sat.f32"));
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0f32, 3.0, 0.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [0.33333331, 0.33333334, 1.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatMode {
    /// How results are rounded.
    pub rounding: Rounding,
    /// Whether subnormal operands and results are flushed to zero, keeping their sign (`.ftz`).
    pub ftz: bool,
    /// How out-of-range results are clamped.
    pub clamp: Clamp,
}

impl FloatMode {
    /// `.rn`: to nearest, ties to even.
    pub const RN: FloatMode = FloatMode::new(Rounding::NearestEven);
    /// `.rna`: to nearest, ties away from zero.
    pub const RNA: FloatMode = FloatMode::new(Rounding::NearestAway);
    /// `.rz`: toward zero.
    pub const RZ: FloatMode = FloatMode::new(Rounding::Zero);
    /// `.rm`: toward negative infinity.
    pub const RM: FloatMode = FloatMode::new(Rounding::Down);
    /// `.rp`: toward positive infinity.
    pub const RP: FloatMode = FloatMode::new(Rounding::Up);

    /// Creates a mode with this rounding, without [flushing](FloatMode::ftz) and
    /// [clamping](FloatMode::sat). Use it if the rounding is a variable of your program; otherwise
    /// a constant such as [`RN`](FloatMode::RN) is shorter.
    pub const fn new(rounding: Rounding) -> FloatMode {
        FloatMode { rounding, ftz: false, clamp: Clamp::None }
    }

    /// Flushes subnormal operands and results to zero, which is faster for some operations.
    pub const fn ftz(self) -> FloatMode {
        FloatMode { ftz: true, ..self }
    }

    /// Clamps results to the range from 0 to 1; NaN becomes 0.
    pub const fn sat(self) -> FloatMode {
        FloatMode { clamp: Clamp::Sat, ..self }
    }

    /// Replaces negative results by 0; NaN stays NaN.
    pub const fn relu(self) -> FloatMode {
        let clamp = match self.clamp {
            Clamp::Satfinite | Clamp::SatfiniteRelu => Clamp::SatfiniteRelu,
            Clamp::None | Clamp::Sat | Clamp::Relu => Clamp::Relu,
        };
        FloatMode { clamp, ..self }
    }

    /// Clamps results to the finite range of the type, for example when you convert to 8-bit
    /// floats.
    pub const fn satfinite(self) -> FloatMode {
        let clamp = match self.clamp {
            Clamp::Relu | Clamp::SatfiniteRelu => Clamp::SatfiniteRelu,
            Clamp::None | Clamp::Sat | Clamp::Satfinite => Clamp::Satfinite,
        };
        FloatMode { clamp, ..self }
    }

    /// Iterates over all modes, including combinations that no instruction has, for tests and
    /// tables.
    pub fn all() -> impl Iterator<Item = FloatMode> {
        Rounding::ALL.into_iter().flat_map(|rounding| {
            [false, true].into_iter().flat_map(move |ftz| {
                Clamp::ALL.iter().map(move |clamp| FloatMode { rounding, ftz, clamp: *clamp })
            })
        })
    }
}

/// Prints, for example, `rz.ftz.sat`.
impl fmt::Display for FloatMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rounding, if self.ftz { ".ftz" } else { "" })?;
        if self.clamp == Clamp::None { Ok(()) } else { write!(f, ".{}", self.clamp) }
    }
}

impl FromStr for FloatMode {
    type Err = ParseNameError;

    #[inline]
    fn from_str(text: &str) -> Result<FloatMode, ParseNameError> {
        name::find("a mode", &FloatMode::all().collect::<Vec<_>>(), text)
    }
}

named! {
    /// A function that the hardware approximates, for [`approx`](crate::ir::Val::approx). Each
    /// variant gives the PTX ISA's error bound. An H200 slightly exceeds two of them, as the
    /// variants say. The simulator rounds the exact result to nearest, which satisfies every bound.
    ApproxFunction, "an approximated function" {
        /// `1 / x`; `f32`: 1 ulp. PTX ISA 9.7.3.13 `rcp.approx`.
        Rcp = "rcp",
        /// Square root; `f32`: relative error 2^-23. PTX ISA 9.7.3.15 `sqrt.approx`.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`; `f32`: relative error 2^-22.9. PTX ISA 9.7.3.17 `rsqrt.approx`.
        Rsqrt = "rsqrt",
        /// `2^x`; `f32`: 2 ulp; `f16`: relative error 2^-9.9; `bf16`: 2^-7. PTX ISA 9.7.3.21,
        /// 9.7.4.10 `ex2.approx`.
        Ex2 = "ex2",
        /// Base-2 logarithm; `f32`: absolute error 2^-22 between 0.5 and 2, elsewhere relative
        /// error 2^-22. PTX ISA 9.7.3.20 `lg2.approx`.
        Lg2 = "lg2",
        /// Sine; `f32`: absolute error 2^-20.5 between -2 pi and 2 pi (an H200: 2^-20.46). PTX ISA
        /// 9.7.3.18 `sin.approx`.
        Sin = "sin",
        /// Cosine; `f32`: absolute error 2^-20.5 between -2 pi and 2 pi. PTX ISA 9.7.3.19
        /// `cos.approx`.
        Cos = "cos",
        /// Hyperbolic tangent; `f32`: relative error 2^-11; `f16`: absolute error 2^-10.987;
        /// `bf16`: 2^-8 (an H200: 2^-7.9999 at 0.74609375, a whole unit in the last place; tests
        /// allow 2^-7.9). PTX ISA 9.7.3.22, 9.7.4.9 `tanh.approx`.
        Tanh = "tanh",
    }
}

named! {
    /// How an approximation handles subnormal operands and results: keep them, or flush them to
    /// zero, which is faster.
    Subnormals, "a treatment of subnormal numbers" {
        /// They keep their values.
        Keep = "keep",
        /// `.ftz`: they are flushed to zero, keeping their sign.
        Ftz = "ftz",
    }
}

named! {
    /// The two approximate divisions of PTX ISA 9.7.3.8, for
    /// [`div_approx`](crate::ir::Val::div_approx). Both are within 2 ulp; choose `Full` if the
    /// divisor can be very small or very large.
    DivApprox, "an approximation of a quotient" {
        /// `div.approx`: `lhs * (1 / rhs)`, for `|rhs|` between 2^-126 and 2^126. Outside that
        /// range, the result is 0, infinity or NaN.
        Approx = "approx",
        /// `div.full`: for any divisor.
        Full = "full",
    }
}

named! {
    /// A property of a floating-point value that [`testp`](crate::ir::Val::testp) tests. PTX
    /// ISA 9.7.3.1 `testp`.
    FloatTest, "a property of floating-point values" {
        /// Neither infinite nor NaN.
        Finite = "finite",
        /// Positive or negative infinity.
        Infinite = "infinite",
        /// Not NaN.
        Number = "number",
        /// NaN.
        NotANumber = "notanumber",
        /// Not subnormal, infinite or NaN. Zero counts as normal.
        Normal = "normal",
        /// Subnormal. Zero does not count.
        Subnormal = "subnormal",
    }
}

named! {
    /// What happens if a shift amount or a bit position exceeds the width, for example in
    /// [`shf`](crate::ir::Val::shf).
    Excess, "a treatment of large shift amounts" {
        /// `.clamp`: the amount is clamped to the width.
        Clamp = "clamp",
        /// `.wrap`: only the lowest five bits of the amount count.
        Wrap = "wrap",
    }
}

named! {
    /// The direction of a funnel shift ([`shf`](crate::ir::Val::shf)).
    Direction, "a direction" {
        /// Toward the high bits.
        Left = "l",
        /// Toward the low bits.
        Right = "r",
    }
}

named! {
    /// How [`prmt`](crate::ir::Val::prmt) picks bytes; `Index` can express every choice. PTX
    /// ISA 9.7.9.7 `prmt`. `b[0..4]` are the bytes of the first operand, `b[4..8]` those of the
    /// second, and `s` is the lowest two bits of the selector.
    PermuteMode, "a mode of `prmt`" {
        /// Let `n` be hex digit `i` of the selector. Byte `i` is `b[n % 8]`; if `n >= 8`, that
        /// byte's sign bit, repeated.
        Index = "index",
        /// `.f4e`: `b[s]`, `b[s + 1]`, `b[s + 2]`, `b[s + 3]`.
        F4e = "f4e",
        /// `.b4e`: `b[s]`, `b[s - 1]`, `b[s - 2]`, `b[s - 3]`, modulo 8.
        B4e = "b4e",
        /// `.rc8`: `b[s]`, four times.
        Rc8 = "rc8",
        /// `.ecl`: byte `i` is `b[max(i, s)]`.
        Ecl = "ecl",
        /// `.ecr`: byte `i` is `b[min(i, s)]`.
        Ecr = "ecr",
        /// `.rc16`: the bytes `2 (s % 2)` and `2 (s % 2) + 1`, twice.
        Rc16 = "rc16",
    }
}

named! {
    /// From which end [`bfind`](crate::ir::Val::bfind) counts. PTX ISA 9.7.1.16 `bfind`.
    FindFrom, "a count of `bfind`" {
        /// The bit's position, counted from bit 0.
        Position = "position",
        /// `.shiftamt`: the left shift that moves the bit to the highest position.
        ShiftAmount = "shiftamt",
    }
}

named! {
    /// Which bits of a 48-bit product [`mul24`](crate::ir::Val::mul24) returns. PTX ISA 9.7.1.5
    /// `mul24`.
    ProductHalf, "a part of a product" {
        /// Bits 0 to 31.
        Lo = "lo",
        /// Bits 16 to 47.
        Hi = "hi",
    }
}

named! {
    /// Which two of the four bytes [`dp2a`](crate::ir::Val::dp2a) uses. PTX ISA 9.7.1.24 `dp2a`.
    ByteHalf, "a pair of the four bytes" {
        /// Bytes 0 and 1.
        Lo = "lo",
        /// Bytes 2 and 3.
        Hi = "hi",
    }
}

impl Rounding {
    /// All rounding modes, for tests and tables.
    pub const ALL: [Rounding; 5] = [
        Rounding::NearestEven,
        Rounding::NearestAway,
        Rounding::Zero,
        Rounding::Down,
        Rounding::Up,
    ];

    /// Returns PTX's name for the rounding mode, such as `rn`.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::NearestEven => "rn",
            Rounding::NearestAway => "rna",
            Rounding::Zero => "rz",
            Rounding::Down => "rm",
            Rounding::Up => "rp",
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Rounding {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Rounding, ParseNameError> {
        name::find("a rounding", &Rounding::ALL, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_print() {
        for mode in FloatMode::all() {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!(FloatMode::RN.satfinite().relu().to_string(), "rn.satfinite.relu");
        assert_eq!(FloatMode::RN.relu().satfinite(), FloatMode::RN.satfinite().relu());
        assert!("rn.none".parse::<FloatMode>().is_err());
    }
}
