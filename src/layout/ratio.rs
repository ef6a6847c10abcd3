//! [`Ratio`] is an exact fraction.

use std::fmt;

use num_rational::Ratio as Fraction;

use super::error::LayoutError;
use super::int::{floor_div_i64, gcd_i64};

type Result<T> = std::result::Result<T, LayoutError>;

/// An exact fraction of two 64-bit integers, always reduced, with a positive denominator.
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
    /// `numerator / denominator`, reduced.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, -8)?.to_string(), "-3/4");
    /// assert!(Ratio::new(1, 0).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::ZeroDenominator`]; [`LayoutError::Overflow`] if the reduced fraction does
    /// not fit (`1 / i64::MIN`).
    pub fn new(numerator: i64, denominator: i64) -> Result<Self> {
        reduce(i128::from(numerator), i128::from(denominator))
    }

    /// The numerator of the reduced fraction; it has the sign.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, 8)?.numerator(), 3);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn numerator(self) -> i64 {
        *self.0.numer()
    }

    /// The denominator of the reduced fraction, positive.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(6, 8)?.denominator(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn denominator(self) -> i64 {
        *self.0.denom()
    }

    /// True if it is an integer.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert!(Ratio::new(8, 4)?.is_integral() && !Ratio::new(6, 4)?.is_integral());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_integral(self) -> bool {
        self.denominator() == 1
    }

    /// The integer, if it is one.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(8, 4)?.as_integer(), Some(2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn as_integer(self) -> Option<i64> {
        self.is_integral().then(|| self.numerator())
    }

    /// The largest integer that is not above it.
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

    /// The nearest floating-point number.
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

    /// `self * other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.mul(Ratio::new(2, 3)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn mul(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        reduce(a * c, b * d)
    }

    /// `self / other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.div(Ratio::new(3, 2)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::ZeroDenominator`], [`LayoutError::Overflow`].
    pub fn div(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        reduce(a * d, b * c)
    }

    /// `self + other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(1, 4)?.add(Ratio::new(1, 4)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn add(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        let sum = (a * d).checked_add(c * b).ok_or_else(|| LayoutError::overflow("a ratio"))?;
        reduce(sum, b * d)
    }

    /// `self - other`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(3, 4)?.sub(Ratio::new(1, 4)?)?, Ratio::new(1, 2)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn sub(&self, other: Ratio) -> Result<Ratio> {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        let sum = (a * d).checked_sub(c * b).ok_or_else(|| LayoutError::overflow("a ratio"))?;
        reduce(sum, b * d)
    }

    /// The absolute value.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(-3, 4)?.abs()?, Ratio::new(3, 4)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn abs(self) -> Result<Ratio> {
        let (n, d) = self.wide();
        reduce(n.abs(), d)
    }

    /// CuTe's `gcd` of ratios: `gcd(a*y, b*x) / (b*x)` for `a/b` and `x/y`.
    ///
    /// ```
    /// # use tilewright::layout::Ratio;
    /// assert_eq!(Ratio::new(4, 3)?.gcd(Ratio::new(7, 2)?)?, Ratio::new(1, 21)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`], [`LayoutError::ZeroDenominator`] for a zero `other`.
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
