//! [`Ratio`] is an exact fraction. Recasts need it if the element widths do not divide each other.

use std::fmt;

use num_rational::Ratio as Fraction;

use super::error::LayoutError;
use super::int::{floor_div_i64, gcd_i64};

type Result<T> = std::result::Result<T, LayoutError>;

/// An exact fraction of two 64-bit integers, always reduced, with a positive denominator. Recasts
/// need it if the element widths do not divide each other.
///
/// ```
/// use tilewright::layout::Ratio;
/// let r = Ratio::new(6, 8)?;
/// assert_eq!(r.to_string(), "3/4");
/// assert_eq!(r.mul(Ratio::from(4))?, Ratio::from(3));
/// assert_eq!((Ratio::new(-3, 2)?.floor(), r.to_f64()), (-2, 0.75));
/// assert!(Ratio::new(1, 0).is_err());
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ratio(Fraction<i64>);

fn reduce(numerator: i128, denominator: i128) -> Result<Ratio> {
    if denominator == 0 {
        return Err(LayoutError::ZeroDenominator);
    }
    let (mut a, mut b) = (numerator.unsigned_abs(), denominator.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let overflow = |_| LayoutError::overflow("a ratio");
    let gcd = i128::try_from(a).map_err(|_| LayoutError::overflow("a ratio"))?;
    let sign = if denominator < 0 { -1 } else { 1 };
    let n = i64::try_from(sign * (numerator / gcd)).map_err(overflow)?;
    let d = i64::try_from(sign * (denominator / gcd)).map_err(overflow)?;
    Ok(Ratio(Fraction::new_raw(n, d)))
}

impl Ratio {
    /// Makes `numerator / denominator`, reduced, for example the ratio of two element widths.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, -8)?.to_string(), "-3/4");
    /// assert!(Ratio::new(1, 0).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::ZeroDenominator`], or [`LayoutError::Overflow`] if the reduced
    /// fraction does not fit (`1 / i64::MIN`).
    pub fn new(numerator: i64, denominator: i64) -> Result<Self> {
        reduce(i128::from(numerator), i128::from(denominator))
    }

    /// Returns the numerator of the reduced fraction, which has the sign. Use it to turn a fraction
    /// into an integer multiplication.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, 8)?.numerator(), 3);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn numerator(self) -> i64 {
        *self.0.numer()
    }

    /// Returns the denominator of the reduced fraction, which is positive. Use it to turn a
    /// fraction into an integer division.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, 8)?.denominator(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn denominator(self) -> i64 {
        *self.0.denom()
    }

    /// Returns true if this is an integer, that is, if the denominator is 1.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert!(Ratio::new(8, 4)?.is_integral() && !Ratio::new(6, 4)?.is_integral());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_integral(self) -> bool {
        self.denominator() == 1
    }

    /// Returns the integer, or `None` if this is not one.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(8, 4)?.as_integer(), Some(2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn as_integer(self) -> Option<i64> {
        self.is_integral().then(|| self.numerator())
    }

    /// Returns the largest integer that is not above the fraction, for example -2 for `-7/4`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!((Ratio::new(7, 4)?.floor(), Ratio::new(-7, 4)?.floor()), (1, -2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn floor(self) -> i64 {
        // The denominator is positive, so the quotient exists and fits.
        floor_div_i64(self.numerator(), self.denominator()).unwrap_or(i64::MIN)
    }

    /// Returns the nearest floating-point value. Use it to print a percentage, for example.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.to_f64(), 0.75);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "that is what is asked for")]
    pub fn to_f64(self) -> f64 {
        self.numerator() as f64 / self.denominator() as f64
    }

    fn wide(self) -> (i128, i128) {
        (i128::from(self.numerator()), i128::from(self.denominator()))
    }

    /// Returns `self * other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.mul(Ratio::new(2, 3)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the reduced result does not fit.
    pub fn mul(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        reduce(a * c, b * d)
    }

    /// Returns `self / other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.div(Ratio::new(3, 2)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::ZeroDenominator`] if `other` is zero, or [`LayoutError::Overflow`].
    pub fn div(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        reduce(a * d, b * c)
    }

    /// Returns `self + other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(1, 4)?.add(Ratio::new(1, 4)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the reduced result does not fit.
    pub fn add(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        let sum = (a * d).checked_add(c * b).ok_or_else(|| LayoutError::overflow("a ratio"))?;
        reduce(sum, b * d)
    }

    /// Returns `self - other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.sub(Ratio::new(1, 4)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the reduced result does not fit.
    pub fn sub(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        let sum = (a * d).checked_sub(c * b).ok_or_else(|| LayoutError::overflow("a ratio"))?;
        reduce(sum, b * d)
    }

    /// Returns the absolute value.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(-3, 4)?.abs()?, Ratio::new(3, 4)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the numerator is `i64::MIN`.
    pub fn abs(self) -> Result<Ratio> {
        let (n, d) = self.wide();
        reduce(n.abs(), d)
    }

    /// Returns CuTe's `gcd` of two fractions: `gcd(a*y, b*x) / (b*x)` for `a/b` and `x/y`. For
    /// example, `gcd(4/3, 7/2)` is `1/21`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(4, 3)?.gcd(Ratio::new(7, 2)?)?, Ratio::new(1, 21)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::ZeroDenominator`] if `other` is zero.
    pub fn gcd(self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (x, y)) = (self.wide(), other.wide());
        let narrow = |v: i128| i64::try_from(v).map_err(|_| LayoutError::overflow("a ratio"));
        let gcd = gcd_i64(narrow(a * y)?, narrow(b * x)?);
        reduce(i128::from(gcd), b * x)
    }
}

impl From<i64> for Ratio {
    fn from(value: i64) -> Self {
        Ratio(Fraction::new_raw(value, 1))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        (a * d).cmp(&(c * b))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_integer() {
            Some(value) => write!(f, "{value}"),
            None => write!(f, "{}/{}", self.numerator(), self.denominator()),
        }
    }
}
impl fmt::Debug for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
