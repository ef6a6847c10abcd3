//! [`LayoutError`], the one error of the algebra, and [`ModePath`], the place inside a tuple.

use std::fmt;

use smallvec::SmallVec;

use super::analysis::DOMAIN_LIMIT;
use super::int::Int;
use super::names::NameError;
use super::tuple::LEAF;

/// The place of a mode: the index at each level, outermost first. Prints as `1.0`.
///
/// ```
/// use tilewright::layout::ModePath;
/// assert_eq!(ModePath::from([1, 0]).to_string(), "1.0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModePath(SmallVec<[u16; 8]>);

impl ModePath {
    /// The indices, outermost first.
    ///
    /// ```
    /// # use tilewright::layout::ModePath;
    /// assert!(ModePath::from([1, 0]).indices().eq([1, 0]));
    /// ```
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|&i| usize::from(i))
    }

    /// True for the path of the whole tuple.
    ///
    /// ```
    /// # use tilewright::layout::ModePath;
    /// assert!(ModePath::default().is_root() && !ModePath::from([1]).is_root());
    /// ```
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push_front(&mut self, mode: usize) {
        self.0.insert(0, u16::try_from(mode).unwrap_or(u16::MAX));
    }
}

impl<const N: usize> From<[usize; N]> for ModePath {
    fn from(path: [usize; N]) -> Self {
        Self::from(path.as_slice())
    }
}

impl From<&[usize]> for ModePath {
    fn from(path: &[usize]) -> Self {
        Self(path.iter().map(|&m| u16::try_from(m).unwrap_or(u16::MAX)).collect())
    }
}

impl fmt::Display for ModePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mode) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            write!(f, "{mode}")?;
        }
        Ok(())
    }
}

/// Why an operation of the algebra has no result.
///
/// A variant is a cause with its values; the mode where it happened, if there is one, wraps it as
/// [`LayoutError::At`].
///
/// ```
/// use tilewright::layout::{Layout, LayoutError, layout};
/// let a = layout!((4, 6, 8):(2, 3, 5));
/// let error = a.composition(&layout!(6:3)).unwrap_err();
/// assert!(matches!(error.cause(), LayoutError::NotAdmissible { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The cause happened in the mode `mode` of the argument.
    At {
        /// Where.
        mode: ModePath,
        /// What.
        cause: Box<LayoutError>,
    },
    /// The cause happened in an operation on a layout with names.
    Named {
        /// The operation, in CuTe's words.
        operation: &'static str,
        /// The layout with its names, printed.
        layout: String,
        /// Where: the name of the mode, and the places inside of it.
        mode: Option<String>,
        /// What.
        cause: Box<LayoutError>,
    },
    /// Names do not fit modes.
    Name(NameError),
    /// A result does not fit into 64 bits.
    Overflow {
        /// The operation, in CuTe's words.
        operation: &'static str,
    },
    /// A division or remainder by zero.
    DivisionByZero {
        /// The operation, in CuTe's words.
        operation: &'static str,
    },
    /// Two tuples that must have the same profile have not.
    NotCongruent {
        /// The first tuple, printed.
        left: String,
        /// The second tuple, printed.
        right: String,
    },
    /// Two tuples that must have the same number of modes have not.
    RankMismatch {
        /// The number of modes that is needed.
        expected: usize,
        /// The number of modes that was given.
        found: usize,
    },
    /// A tuple stands where an integer is needed.
    NotAnInteger {
        /// The tuple, printed.
        found: String,
    },
    /// There is no such mode.
    NoSuchMode {
        /// The index of the mode.
        mode: usize,
        /// The number of modes there are.
        rank: usize,
    },
    /// A range of modes is empty or leaves the tuple.
    BadRange {
        /// First mode.
        begin: usize,
        /// One past the last mode.
        end: usize,
        /// The number of modes there are.
        rank: usize,
    },
    /// An extent is not positive.
    ExtentNotPositive {
        /// The extent.
        extent: Int,
    },
    /// A number must divide another one and does not.
    NotDivisible {
        /// The dividend.
        value: Int,
        /// The divisor.
        by: Int,
    },
    /// `left o right` is not a layout: this mode of `right` is not mapped to an affine function.
    NotAdmissible {
        /// The left layout, printed.
        left: String,
        /// The extent of the offending mode of the right layout.
        extent: Int,
        /// The stride of the offending mode of the right layout.
        stride: Int,
    },
    /// Two modes of the right layout of a composition carry into each other in a mode of the left.
    Carries {
        /// The left layout, printed.
        left: String,
        /// The right layout, printed.
        right: String,
        /// The extent of the mode of the left layout that overflows.
        extent: Int,
    },
    /// A layout that must be one-to-one maps two coordinates to one index.
    NotInjective {
        /// The layout, printed.
        layout: String,
    },
    /// A layout that must number its coordinates from 0 on, each once, does not.
    NotBijective {
        /// The layout, printed.
        layout: String,
    },
    /// A tiler has more modes than the layout it is applied to.
    TooManyModes {
        /// The modes of the tiler.
        tiler: usize,
        /// The modes of the layout.
        layout: usize,
    },
    /// A `_` stands where a value is needed.
    UnexpectedUnderscore {
        /// The operation, in CuTe's words.
        operation: &'static str,
    },
    /// The value depends on a symbol, and the operation needs a number.
    NotStatic {
        /// The value, printed.
        value: String,
    },
    /// The environment has no value for a symbol.
    UnboundSymbol {
        /// The symbol's name.
        name: String,
    },
    /// The value of a symbol contradicts what was said about it.
    AssumptionViolated {
        /// The symbol or expression.
        name: String,
        /// The value it was given.
        value: i64,
        /// The divisor it was said to have.
        divisor: i64,
        /// The smallest value it was said to have.
        min: i64,
        /// The largest value it was said to have.
        max: i64,
    },
    /// The divisors and bounds of the symbols do not decide the case.
    Undecided {
        /// The operation, in CuTe's words.
        operation: &'static str,
        /// What would have to be known, printed.
        condition: String,
    },
    /// A symbolic result holds on a condition that the values of the symbols do not meet.
    ConditionViolated {
        /// The result, printed.
        value: String,
        /// The condition, printed.
        condition: String,
    },
    /// A stride is a basis element or a ratio where an integer is needed.
    NotAnIntegerStride {
        /// The stride, printed.
        stride: String,
    },
    /// An index is asked of a layout of basis strides, which makes coordinates.
    NotAnIndex {
        /// The stride, printed.
        stride: String,
    },
    /// A plain integer and a coordinate are added.
    MixedCodomain {
        /// The stride, printed.
        stride: String,
    },
    /// A ratio with denominator zero.
    ZeroDenominator,
    /// The parameters of a swizzle are not admissible.
    BadSwizzle {
        /// Number of bits.
        bits: i64,
        /// Lowest bit.
        base: i64,
        /// Distance.
        shift: i64,
    },
    /// Two bit masks do not describe a swizzle.
    BadSwizzleMasks {
        /// The mask of the bits that are read.
        y: u64,
        /// The mask of the bits that are changed.
        z: u64,
    },
    /// The operation is not defined for this kind of layout.
    Unsupported {
        /// The operation, in CuTe's words.
        operation: &'static str,
        /// The argument, printed.
        argument: String,
    },
    /// A tuple is nested deeper, or a basis path is longer, than the library represents.
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A coordinate or index is not inside a shape.
    OutsideShape {
        /// The coordinate, printed.
        coord: String,
        /// The shape, printed.
        shape: String,
    },
    /// A result, or the domain that an analysis walks, is larger than its limit.
    TooLarge {
        /// What is counted, as a phrase.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A value over symbols would have more parts than an expression may have. Parts are terms, symbols and
    /// operations, counted at each place where they stand.
    ExpressionTooLarge {
        /// The largest number of parts.
        limit: u32,
    },
    /// A number must be a power of two and is not.
    NotPowerOfTwo {
        /// The number.
        value: Int,
    },
    /// A stride is negative where the bits of an index are looked at.
    NegativeStride {
        /// The stride, printed.
        stride: String,
    },
    /// An index is formed with a carry, so that the layout is not linear over bits.
    AddsWithCarry {
        /// The extent of the mode that is added.
        extent: Int,
        /// Its stride, printed.
        stride: String,
        /// The lowest bit that is set twice.
        bit: u32,
    },
    /// A bit matrix has more rows or columns than the library represents.
    TooManyBits {
        /// The limit.
        limit: u32,
    },
    /// Numbers of more bits than a bit matrix takes or gives.
    BitsMismatch {
        /// The number of bits there are.
        expected: u32,
        /// The number of bits that would be needed.
        found: u32,
    },
    /// A bit matrix has not the rank that an inverse needs.
    RankDeficient {
        /// The rank it has.
        rank: u32,
        /// The rank that is needed.
        needed: u32,
    },
    /// A bit matrix is not the one of a layout, with or without a swizzle.
    NotALayout {
        /// Its columns.
        columns: String,
    },
    /// There is no memory access of this width.
    BadAccess {
        /// The number of elements of a vector.
        vector: u32,
        /// The width of an element.
        element_bits: u32,
    },
    /// The access of a thread does not begin at a multiple of its width.
    Misaligned {
        /// The thread.
        thread: u64,
        /// The index of the first element.
        index: i64,
        /// The width of the access.
        bits: u32,
    },
    /// A coordinate is not in the domain of a layout.
    OutsideDomain {
        /// The coordinate, as an integer.
        coordinate: i64,
        /// The size of the domain.
        size: i64,
    },
    /// A text is not in the notation of layouts.
    Parse {
        /// Byte offset of the first character that does not fit.
        offset: usize,
        /// What the notation allows there.
        expected: &'static str,
    },
}

impl LayoutError {
    /// The error without its place.
    ///
    /// ```
    /// # use tilewright::layout::LayoutError;
    /// let error = LayoutError::ZeroDenominator.at(1);
    /// assert_eq!(error.cause(), &LayoutError::ZeroDenominator);
    /// ```
    pub fn cause(&self) -> &LayoutError {
        match self {
            LayoutError::At { cause, .. } | LayoutError::Named { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// The mode where it happened, if the operation works mode by mode.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutError, ModePath};
    /// let error = LayoutError::ZeroDenominator.at(0).at(1);
    /// assert_eq!(error.mode(), Some(&ModePath::from([1, 0])));
    /// ```
    pub fn mode(&self) -> Option<&ModePath> {
        match self {
            LayoutError::At { mode, .. } => Some(mode),
            _ => None,
        }
    }

    /// The same error, one level further out.
    ///
    /// ```
    /// # use tilewright::layout::LayoutError;
    /// let error = LayoutError::ZeroDenominator.at(1);
    /// assert!(error.to_string().contains("mode 1"), "{error}");
    /// ```
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        match self {
            LayoutError::At { mut mode, cause } => {
                mode.push_front(index);
                LayoutError::At { mode, cause }
            }
            cause => LayoutError::At { mode: ModePath::from([index]), cause: Box::new(cause) },
        }
    }

    /// More modes or leaves than a tuple may have.
    #[cold]
    pub(crate) fn too_many_modes() -> Self {
        LayoutError::TooLarge { what: "the number of modes and leaves", limit: u64::from(LEAF) - 1 }
    }

    /// A domain that an analysis does not walk.
    #[cold]
    pub(crate) fn domain_too_large() -> Self {
        LayoutError::TooLarge { what: "the number of coordinates to walk", limit: DOMAIN_LIMIT }
    }

    #[cold]
    pub(crate) fn overflow(operation: &'static str) -> Self {
        LayoutError::Overflow { operation }
    }
}

/// Why a composition with a negative stride is rarely a layout.
const NEGATIVE: &str = "; a negative index counts down from the end of every mode but the last, so that -1 is the coordinate (-1 % extent, .., -1)";

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { mode, cause } => write!(f, "in mode {mode}: {cause}"),
            Self::Named { operation, layout, mode, cause } => {
                write!(f, "`{operation}` of {layout}: ")?;
                mode.iter().try_for_each(|mode| write!(f, "in mode {mode}: "))?;
                cause.fmt(f)
            }
            Self::Name(error) => error.fmt(f),
            Self::Overflow { operation } => {
                write!(
                    f,
                    "{operation} leaves the range of 64-bit integers; use smaller extents or strides"
                )
            }
            Self::DivisionByZero { operation } => write!(f, "{operation} divides by zero"),
            Self::NotCongruent { left, right } => {
                write!(
                    f,
                    "{left} and {right} do not have the same profile; give one entry per entry of the other"
                )
            }
            Self::RankMismatch { expected, found } => {
                write!(f, "{expected} modes are needed, {found} were given")
            }
            Self::NotAnInteger { found } => {
                write!(f, "the tuple {found} stands where an integer is needed")
            }
            Self::NoSuchMode { mode, rank } => {
                write!(f, "there is no mode {mode}; the tuple has {rank} modes")
            }
            Self::BadRange { begin, end, rank } => {
                write!(
                    f,
                    "the modes {begin}..{end} are not a non-empty range of a tuple of {rank} modes"
                )
            }
            Self::ExtentNotPositive { extent } => {
                write!(f, "the extent {extent} is not positive")
            }
            Self::NotDivisible { value, by } => write!(f, "{value} is not divisible by {by}"),
            Self::NotAdmissible { left, extent, stride } => write!(
                f,
                "{left} o {extent}:{stride} is not a layout: the steps of {stride} leave a mode of {left} at a place that does not divide it; choose a stride and an extent that divide or are multiples of its extents{}",
                if stride.bounds().0 < 0 { NEGATIVE } else { "" }
            ),
            Self::Carries { left, right, extent } => write!(
                f,
                "{left} o {right} is not a layout: two modes of {right} add up to more than the extent {extent} of {left}{}",
                if [":-", "(-", ",-"].iter().any(|sign| right.contains(sign)) {
                    NEGATIVE
                } else {
                    ""
                }
            ),
            Self::NotInjective { layout } => {
                write!(
                    f,
                    "{layout} maps two coordinates to one index, and the operation needs one-to-one"
                )
            }
            Self::NotBijective { layout } => write!(
                f,
                "{layout} does not give its coordinates the indices from 0 to its size - 1, each once, and the operation needs that"
            ),
            Self::TooManyModes { tiler, layout } => {
                write!(f, "the tiler has {tiler} modes and the layout only {layout}")
            }
            Self::UnexpectedUnderscore { operation } => {
                write!(f, "{operation} needs a value where `_` was given")
            }
            Self::NotStatic { value } => {
                write!(
                    f,
                    "{value} is not a number; evaluate it with the values of its symbols first"
                )
            }
            Self::UnboundSymbol { name } => write!(f, "the environment has no value for {name}"),
            Self::AssumptionViolated { name, value, divisor, min, max } => write!(
                f,
                "{name} = {value} contradicts what was said about it: a multiple of {divisor} from {min} to {max}"
            ),
            Self::Undecided { operation, condition } => write!(
                f,
                "{operation} is not decided by what is known of the symbols: it needs {condition}; give a divisor or bounds"
            ),
            Self::ConditionViolated { value, condition } => {
                write!(f, "{value} holds only if {condition}, which these values do not meet")
            }
            Self::NotAnIntegerStride { stride } => {
                write!(f, "the stride {stride} is not an integer")
            }
            Self::NotAnIndex { stride } => {
                write!(f, "the stride {stride} makes a coordinate, not an index: use `apply`")
            }
            Self::MixedCodomain { stride } => {
                write!(f, "the stride {stride} mixes integers and coordinates in one layout")
            }
            Self::ZeroDenominator => f.write_str("the denominator of a ratio is zero"),
            Self::BadSwizzle { bits, base, shift } => write!(
                f,
                "S<{bits},{base},{shift}> is not a swizzle: bits and base must not be negative, the distance at least the bits, and all bits below 63"
            ),
            Self::BadSwizzleMasks { y, z } => write!(
                f,
                "the masks {y:#x} and {z:#x} do not describe a swizzle: each must be one run of bits, of equal length, and they must not overlap"
            ),
            Self::Unsupported { operation, argument } => {
                write!(f, "{operation} is not defined for {argument}")
            }
            Self::TooDeep { limit } => write!(f, "the nesting is deeper than the limit of {limit}"),
            Self::OutsideShape { coord, shape } => {
                write!(f, "{coord} is not inside the shape {shape}")
            }
            Self::TooLarge { what, limit } => write!(f, "{what} is over the limit of {limit}"),
            Self::ExpressionTooLarge { limit } => write!(
                f,
                "an expression over symbols would have more than {limit} parts; give the symbols divisors with which it gets shorter, or a symbol of its own to a part of it"
            ),
            Self::NotPowerOfTwo { value } => write!(f, "{value} is not a power of two"),
            Self::NegativeStride { stride } => {
                write!(f, "the stride {stride} is negative, and its bits are needed")
            }
            Self::AddsWithCarry { extent, stride, bit } => write!(
                f,
                "the mode {extent}:{stride} sets bit {bit} a second time, so that indices are formed with a carry and not bit by bit"
            ),
            Self::TooManyBits { limit } => {
                write!(f, "the bit matrix has more than {limit} rows or columns")
            }
            Self::BitsMismatch { expected, found } => {
                write!(f, "numbers of {found} bits do not fit into the {expected} bits there are")
            }
            Self::RankDeficient { rank, needed } => write!(
                f,
                "the bit matrix has rank {rank}, and its inverse needs rank {needed}; two coordinates share an index or an index is never reached"
            ),
            Self::NotALayout { columns } => {
                write!(f, "no strides under a swizzle give the bit matrix of the columns {columns}")
            }
            Self::BadAccess { vector, element_bits } => write!(
                f,
                "there is no access of {vector} x {element_bits} bits; it must be 8, 16, 32, 64 or 128 bits of elements of a power of two bits"
            ),
            Self::Misaligned { thread, index, bits } => write!(
                f,
                "thread {thread} accesses {bits} bits from element {index} on, which is not a multiple of the width; use a narrower vector or strides that are multiples of it"
            ),
            Self::OutsideDomain { coordinate, size } => {
                write!(f, "the coordinate {coordinate} is not below the size {size} of the layout")
            }
            Self::Parse { offset, expected } => {
                write!(f, "the text does not fit at offset {offset}: {expected} is expected")
            }
        }
    }
}

impl std::error::Error for LayoutError {}
