//! [`LayoutError`] is the algebra's error, [`NameError`] the one for mode names. [`ModePath`] says
//! which mode an error is about.

use crate::errors::errors;
use std::fmt;

use smallvec::SmallVec;

use super::assumption::Assumption;
use super::int::Int;

/// The path of a mode: its index at each level, outermost first. Prints as `1.0`.
/// [`LayoutError::mode`] returns one, and [`Layout::mode`](super::Layout::mode) takes its indices.
///
/// ```
/// use tilewright::layout::ModePath;
/// assert_eq!(ModePath::from([1, 0]).to_string(), "1.0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModePath(SmallVec<[u16; 8]>);

impl ModePath {
    /// Iterates over the indices, outermost first. Collect them to pass the path to
    /// [`Layout::mode`](super::Layout::mode).
    ///
    /// ```
    /// # use tilewright::layout::ModePath;
    /// assert!(ModePath::from([1, 0]).indices().eq([1, 0]));
    /// ```
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|&i| usize::from(i))
    }

    /// Returns true for the empty path, which means that the whole layout is at fault and not one
    /// mode.
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
    #[inline]
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

errors! {
    /// Why an operation of the algebra has no result.
    ///
    /// Each variant is a cause with the values at fault. If the cause is in one mode,
    /// [`LayoutError::At`] wraps it. To match on a cause, call [`cause`](LayoutError::cause) first.
    ///
    /// ```
    /// use tilewright::layout::{Layout, LayoutError, layout};
    /// let a = layout!((4, 6, 8):(2, 3, 5));
    /// let error = a.composition(&layout!(6:3)).unwrap_err();
    /// assert!(matches!(error.cause(), LayoutError::NotAdmissible { .. }));
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum LayoutError {
        /// in mode {mode}: {cause}
        At { mode: ModePath, cause: Box<LayoutError> },
        /// An operation on a layout with names failed. The text has at most 200 characters; `cause`
        /// has the rest.
        Named {
            /// The operation, in CuTe's words.
            operation: &'static str,
            /// The layout with its names, as text.
            layout: String,
            /// The mode's name, and the path inside it.
            mode: Option<String>,
            /// Why it failed.
            cause: Box<LayoutError>,
        } = |f| {
            let place = |layout: &str, mode: Option<&str>| {
                let mode = mode.map_or_else(String::new, |mode| format!("in mode {mode}: "));
                format!("`{operation}` of {layout}: {mode}")
            };
            let reason = |limit| match &**cause {
                LayoutError::Symbolic { cause, assumption } => {
                    refusal(cause, assumption.as_deref(), limit)
                }
                cause => cropped(&cause.to_string(), limit),
            };
            let mut text = place(layout, mode.as_deref());
            let rest = reason(MAX_TEXT);
            if text.chars().count() + rest.chars().count() > MAX_TEXT {
                let mode = mode.as_ref().map(|mode| cropped(mode, 20));
                text = place(&cropped(layout, 40), mode.as_deref());
            }
            let room = MAX_TEXT - text.chars().count();
            write!(f, "{text}{}", reason(room))
        },
        /// The operation has no result for all values of its symbols. The text has at most 200
        /// characters; `cause` has the rest.
        Symbolic {
            /// Why it does not succeed.
            cause: Box<LayoutError>,
            /// An assumption about one symbol that would be enough, if there is one.
            assumption: Option<Box<Assumption>>,
        } = |f| f.write_str(&refusal(cause, assumption.as_deref(), MAX_TEXT)),
        /// {error}
        Name(error: NameError),
        /// {operation} overflows a 64-bit integer; use smaller extents or strides
        Overflow { operation: &'static str },
        /// {operation} divides by zero
        DivisionByZero { operation: &'static str },
        /// {left} and {right} have different profiles; give both the same nesting
        NotCongruent { left: String, right: String },
        /// {expected} modes are needed, {found} were given
        RankMismatch { expected: usize, found: usize },
        /// expected an integer, but found the tuple {found}
        NotAnInteger { found: String },
        /// there is no mode {mode}; the tuple has {rank} modes
        NoSuchMode { mode: usize, rank: usize },
        /// {begin}..{end} is not a valid range of modes; it must be non-empty and within the
        /// tuple's {rank} modes
        BadRange { begin: usize, end: usize, rank: usize },
        /// the extent {extent} is not positive
        ExtentNotPositive { extent: Int },
        /// {value} is not divisible by {by}
        NotDivisible { value: Int, by: Int },
        /// `left o right` is not a layout, because `left` does not map this mode of `right` to an
        /// affine function.
        NotAdmissible {
            /// The left-hand layout, as text.
            left: String,
            /// The extent of the right-hand mode at fault.
            extent: Int,
            /// The stride of the right-hand mode at fault.
            stride: Int,
        } = |f| write!(
            f,
            "{left} o {extent}:{stride} is not a layout: steps of {stride} do not line up with the modes of {left}; choose a stride and an extent that divide its extents or are multiples of them{}",
            if stride.bounds().0 < 0 { NEGATIVE } else { "" }
        ),
        /// In a composition, two modes of `right` carry into each other in a mode of `left`.
        Carries {
            /// The left-hand layout, as text.
            left: String,
            /// The right-hand layout, as text.
            right: String,
            /// The extent of the left-hand mode that overflows.
            extent: Int,
        } = |f| write!(
            f,
            "{left} o {right} is not a layout: two modes of {right} together run past the extent {extent} of {left}{}",
            if [":-", "(-", ",-"].iter().any(|sign| right.contains(sign)) {
                NEGATIVE
            } else {
                ""
            }
        ),
        /// {layout} maps two coordinates to one index, but the operation needs a one-to-one layout
        NotInjective { layout: String },
        /// {layout} has no complement: its mode {extent}:{stride} reaches past the next larger
        /// stride, {next}, so the modes interleave; make each stride at least the extent times the
        /// stride of the mode below it
        Interleaved { layout: String, extent: Int, stride: Int, next: Int },
        /// the stride {stride} of {layout} is not a multiple of the next smaller one, {by}; the
        /// operation needs strides that divide each other
        StrideNotDivisible { layout: String, stride: Int, by: Int },
        /// {layout} is not bijective; the operation needs a layout that reaches each index from 0
        /// to its size - 1 exactly once
        NotBijective { layout: String },
        /// no mode of {layout} has stride 1, so only the first of the {n} elements that replace
        /// each old one would have a coordinate; put a mode `1:1` in front for them
        NoUnitStride { layout: String, n: i64 },
        /// the tiler has {tiler} modes, but the layout has only {layout}
        TooManyModes { tiler: usize, layout: usize },
        /// {operation} needs a value, but got `_`
        UnexpectedUnderscore { operation: &'static str },
        /// {value} is not static; evaluate it with the values of its symbols first
        NotStatic { value: String },
        /// the environment has no value for {name}
        UnboundSymbol { name: String },
        /// {name} = {value} violates its assumption: it must be a multiple of {divisor} from {min}
        /// to {max}
        AssumptionViolated { name: String, value: i64, divisor: i64, min: i64, max: i64 },
        /// Symbols leave it open whether the operation succeeds.
        Undecided {
            /// The operation, in CuTe's words.
            operation: &'static str,
            /// What must be known.
            condition: String,
        } = |f| write!(
            f,
            "{operation} cannot be decided for these symbols: it needs to know {}; give them divisors or bounds",
            cropped(condition, 80)
        ),
        /// The symbols' values violate the condition that a symbolic result carries.
        ConditionViolated {
            /// The extent or stride, as text.
            value: String,
            /// The condition, as text.
            condition: String,
        } = |f| write!(
            f,
            "{} is valid only if {}, which is false for these values; evaluate the operands first",
            cropped(value, 40),
            cropped(condition, 70)
        ),
        /// the stride {stride} is not an integer
        NotAnIntegerStride { stride: String },
        /// the stride {stride} yields a coordinate, not an index: use `apply`
        NotAnIndex { stride: String },
        /// the stride {stride} mixes integers and coordinates in one layout
        MixedCodomain { stride: String },
        /// the denominator of a ratio is zero
        ZeroDenominator,
        /// S<{bits},{base},{shift}> is not a swizzle: bits and base must not be negative, |shift|
        /// must be at least bits, and the swizzle may only use bits below 63
        BadSwizzle { bits: i64, base: i64, shift: i64 },
        /// the masks {y:#x} and {z:#x} do not describe a swizzle: they must be two runs of adjacent
        /// bits, equally long and not overlapping
        BadSwizzleMasks { y: u64, z: u64 },
        /// {operation} is not defined for {argument}
        Unsupported { operation: &'static str, argument: String },
        /// the nesting is deeper than {limit} levels
        TooDeep { limit: usize },
        /// the coordinate {coord} is outside the shape {shape}
        OutsideShape { coord: String, shape: String },
        /// {what} is over the limit of {limit}
        TooLarge { what: &'static str, limit: u64 },
        /// a symbolic expression would have more than {limit} parts; give its symbols divisors so
        /// that it simplifies, or replace a part of it by a new symbol
        ExpressionTooLarge { limit: u32 },
        /// {value} is not a power of two
        NotPowerOfTwo { value: Int },
        /// the stride {stride} is negative, but a bit matrix needs strides from 0
        NegativeStride { stride: String },
        /// the mode {extent}:{stride} sets bit {bit}, which is set already, so that indices are
        /// added with a carry; a bit matrix needs separate bits
        AddsWithCarry { extent: Int, stride: String, bit: u32 },
        /// the bit matrix has more than {limit} rows or columns
        TooManyBits { limit: u32 },
        /// expected values with at most {expected} bits, but found {found} bits
        BitsMismatch { expected: u32, found: u32 },
        /// the bit matrix has rank {rank}, but an inverse needs rank {needed}: two coordinates
        /// share an index, or an index is never reached
        RankDeficient { rank: u32, needed: u32 },
        /// the bit matrix with columns {columns} is not a swizzled layout
        NotALayout { columns: String },
        /// no memory access has {vector} x {element_bits} bits; it must have 8, 16, 32, 64 or 128
        /// bits, and the element's width must be a power of two
        BadAccess { vector: u32, element_bits: u32 },
        /// thread {thread} accesses {bits} bits at element {index}, which is not aligned to {bits}
        /// bits; use a narrower vector, or strides that are multiples of it
        Misaligned { thread: u64, index: i64, bits: u32 },
        /// the coordinate {coordinate} must be below the layout's size, {size}
        OutsideDomain { coordinate: i64, size: i64 },
        /// cannot parse the text at offset {offset}: expected {expected}
        Parse { offset: usize, expected: &'static str },
    }
}
crate::errors::message_as_debug!(LayoutError);

impl LayoutError {
    /// Returns the innermost cause, without the mode and other context around it. Use it to match
    /// on the kind of error.
    ///
    /// ```
    /// # use tilewright::layout::LayoutError;
    /// let error = LayoutError::ZeroDenominator.at(1);
    /// assert_eq!(error.cause(), &LayoutError::ZeroDenominator);
    /// ```
    pub fn cause(&self) -> &LayoutError {
        match self {
            LayoutError::At { cause, .. }
            | LayoutError::Named { cause, .. }
            | LayoutError::Symbolic { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// Returns the error without its mode, but with its assumption.
    pub(crate) fn without_mode(self) -> Self {
        match self {
            LayoutError::At { cause, .. } => *cause,
            LayoutError::Symbolic { cause, assumption } => {
                LayoutError::Symbolic { cause: Box::new(cause.without_mode()), assumption }
            }
            other => other,
        }
    }

    /// Returns the assumption about one symbol that would make the operation succeed, if one is
    /// enough. Apply it with [`Layout::assuming`](super::Layout::assuming).
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout};
    /// let l = Layout::new((Int::symbol("n"), 2), (1, 1))?;
    /// let error = l.downcast(4).unwrap_err();
    /// assert_eq!(error.assumption().map(ToString::to_string).as_deref(), Some("n == 1"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn assumption(&self) -> Option<&Assumption> {
        match self {
            LayoutError::Symbolic { assumption, .. } => assumption.as_deref(),
            LayoutError::At { cause, .. } | LayoutError::Named { cause, .. } => cause.assumption(),
            _ => None,
        }
    }

    /// Returns the path of the mode that the error is about, or `None` if the operation does not
    /// work mode by mode. Use it to tell a user which mode to change.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutError, ModePath};
    /// let error = LayoutError::ZeroDenominator.at(0).at(1);
    /// assert_eq!(error.mode(), Some(&ModePath::from([1, 0])));
    /// ```
    pub fn mode(&self) -> Option<&ModePath> {
        match self {
            LayoutError::At { mode, .. } => Some(mode),
            LayoutError::Symbolic { cause, .. } => cause.mode(),
            _ => None,
        }
    }

    /// Adds a mode to the error's path, one level further out. Use it if you run operations on the
    /// modes of a layout one by one.
    ///
    /// ```
    /// # use tilewright::layout::LayoutError;
    /// let error = LayoutError::ZeroDenominator.at(1);
    /// assert!(error.to_string().contains("mode 1"), "{error}");
    /// ```
    #[must_use]
    #[inline]
    pub fn at(self, index: usize) -> Self {
        match self {
            LayoutError::At { mut mode, cause } => {
                mode.push_front(index);
                LayoutError::At { mode, cause }
            }
            cause => LayoutError::At { mode: ModePath::from([index]), cause: Box::new(cause) },
        }
    }

    #[cold]
    pub(crate) fn overflow(operation: &'static str) -> Self {
        LayoutError::Overflow { operation }
    }
}

errors! {
    /// Why names do not fit the modes of a layout. You find it in [`LayoutError::Name`], from
    /// [`Layout::named`](super::Layout::named) or from a lookup by name.
    ///
    /// ```
    /// use tilewright::layout::{LayoutError, NameError, layout};
    ///
    /// let error = layout!((4, 8)).named(["m"]).unwrap_err();
    /// assert_eq!(error, LayoutError::Name(NameError::Count { modes: 2, names: 1 }));
    /// assert_eq!(error.to_string(), "there are 2 modes, but 1 names were given");
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum NameError {
        /// there are {modes} modes, but {names} names were given
        Count { modes: usize, names: usize },
        /// the name of mode {mode} is empty
        Empty { mode: usize },
        /// several modes have the name `{name}`
        Repeated { name: String },
        /// no mode has the name `{name}`; the modes are {names}
        Missing { name: String, names: String },
    }
}
crate::errors::message_as_debug!(NameError);

/// The most characters that a message about symbols or names may have.
const MAX_TEXT: usize = 200;

/// The reason for a refusal and the advice, in at most `limit` characters, at least 90. The reason
/// is cut first.
fn refusal(cause: &LayoutError, assumption: Option<&Assumption>, limit: usize) -> String {
    let advice = match assumption {
        Some(assumption) => cropped(&format!("assume {assumption}"), 80),
        None => "no assumption about a single symbol is enough".to_owned(),
    };
    let reason = cropped(&cause.to_string(), limit.saturating_sub(advice.chars().count() + 2));
    format!("{reason}; {advice}")
}

/// Cuts the text off after `limit` characters.
fn cropped(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(2)).collect();
    short.push_str("..");
    short
}

/// Why a composition with a negative stride is rarely a layout.
const NEGATIVE: &str = "; a negative index counts down from the end of every mode but the last, so that -1 is the coordinate (-1 % extent, .., -1)";
