//! Draws swizzles and swizzled layouts. The picture shows where a swizzle moves elements, and which
//! of them land in the same column of memory.

use super::super::error::LayoutError;
use super::super::{ComposedLayout, Int, IntTuple, Swizzle};
use super::palette::Shading;
use super::scene::{MAX_CELLS, Scene};
use super::{Drawing, values};

/// Colours by the bits that the swizzle changes, in units of `1 << low` values. Without the
/// swizzle, each column of a row-major tile would have one colour.
fn shading(swizzle: Swizzle, low: i64) -> Shading {
    if swizzle.is_identity() {
        return Shading::Ramp;
    }
    let lowest = swizzle.z_mask().trailing_zeros();
    let run = 1u64 << lowest.saturating_sub(u32::try_from(low).unwrap_or(0));
    Shading::Cycle { run, period: 1u64 << swizzle.bits().clamp(0, 62) }
}

impl Swizzle {
    /// Draws the swizzle as a permutation of a table. Its columns are the lower bits that take
    /// part, and its rows are the upper ones. A cell stands for `2^base` indices, which stay
    /// together. Its label says where they go. Its colour shows the bits that change; without the
    /// swizzle, each column would have one colour.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(
    ///     Swizzle::new(1, 4, 2)?.draw().text()?,
    ///     "\
    /// S<1,4,2> in units of 16
    ///       0   1   2   3
    ///     +---+---+---+---+
    ///  0  | 0 | 1 | 2 | 3 |
    ///     +---+---+---+---+
    ///  1  | 5 | 4 | 7 | 6 |
    ///     +---+---+---+---+"
    /// );
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn draw(self) -> Drawing {
        let base = self.base();
        let (rows, columns) = (1i64 << self.bits(), 1i64 << self.shift().abs());
        let notation = match base {
            0 => self.to_string(),
            _ => format!("{self} in units of {}", 1i64 << base),
        };
        // A swizzle has at most 62 bits in total.
        let scene = if rows.saturating_mul(columns).unsigned_abs() > MAX_CELLS {
            Err(super::too_many_cells())
        } else {
            let shape = IntTuple::from((rows, columns));
            values(notation, &shape, 0, None, |at| {
                let unit = at % rows * columns + at / rows;
                Ok(IntTuple::leaf(Int::new(self.apply(unit << base) >> base)))
            })
            .map(|section| Scene {
                sections: vec![section],
                shading: shading(self, base),
                owner: "",
            })
        };
        Drawing::new(self.to_string(), scene)
    }
}

impl ComposedLayout {
    /// Draws the layout: each coordinate with its value. If there is a swizzle, the colour shows
    /// the bits that it changes, so that cells of the same colour are in the same column of the
    /// swizzled memory. Otherwise the colour goes from light to dark with the value.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let l: ComposedLayout = "S<1,0,2> o 0 o (2,4):(4,1)".parse()?;
    /// assert_eq!(
    ///     l.draw().text()?,
    ///     "\
    /// S<1,0,2> o 0 o (2,4):(4,1)
    ///       0   1   2   3
    ///     +---+---+---+---+
    ///  0  | 0 | 1 | 2 | 3 |
    ///     +---+---+---+---+
    ///  1  | 5 | 4 | 7 | 6 |
    ///     +---+---+---+---+"
    /// );
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// There is no picture of the inverse of a swizzled layout, because it has no shape
    /// ([`LayoutError::Unsupported`]), and none if its function fails on a value.
    #[inline]
    pub fn draw(&self) -> Drawing {
        if let Some(layout) = self.as_normal() {
            return layout.draw();
        }
        let scene = self.shape().and_then(|shape| {
            let shape = shape.to_owned();
            let section = values(self.to_string(), &shape, 0, None, |at| {
                let value = self.apply(IntTuple::leaf(Int::new(at)))?;
                match value.is_static() {
                    true => Ok(value),
                    false => Err(LayoutError::NotStatic { value: value.to_string() }),
                }
            })?;
            let shading = self.swizzle().map_or(Shading::Ramp, |swizzle| shading(swizzle, 0));
            Ok(Scene { sections: vec![section], shading, owner: "" })
        });
        Drawing::new(self.to_string(), scene)
    }
}
