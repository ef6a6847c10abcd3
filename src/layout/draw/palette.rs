//! [`Shading`] says what the colours of a picture mean; the palette is here too.
//!
//! The eight colours are from Paul Tol's scheme "light", which is made for dark labels and for all
//! common forms of colour blindness. We leave out its ninth colour, olive, because it is too close
//! to pear. The ramp goes from pale yellow to blue and gets darker all the way, so that it survives
//! black-and-white printing. Black text has a contrast of at least 7 to 1 on every colour, which is
//! the strictest level of WCAG.

use std::fmt;

/// A colour as `0xRRGGBB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Colour(pub(super) u32);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06X}", self.0)
    }
}

/// Text, and the lines of tables.
pub(super) const INK: Colour = Colour(0x111111);
/// Headers and notes.
pub(super) const FAINT: Colour = Colour(0x555555);
/// The background, and cells without a colour.
pub(super) const PAPER: Colour = Colour(0xFFFFFF);
/// The lines between cells.
pub(super) const LINE: Colour = Colour(0x444444);

/// Light blue, orange, light yellow, mint, pink, pear, light cyan, pale grey.
const CYCLE: [Colour; 8] = [
    Colour(0x77AADD),
    Colour(0xEE8866),
    Colour(0xEEDD88),
    Colour(0x44BB99),
    Colour(0xFFAABB),
    Colour(0xBBCC33),
    Colour(0x99DDFF),
    Colour(0xDDDDDD),
];

const RAMP: [Colour; 4] = [Colour(0xFFFADB), Colour(0xD9EBC4), Colour(0xA3D0D1), Colour(0x74A5D6)];

/// Returns the colour of entry `entry` in a cycle of `period`.
pub(super) fn cycle(entry: i64, period: i64) -> Colour {
    if period > CYCLE.len() as i64 {
        return ramp(entry, period - 1);
    }
    usize::try_from(entry).ok().and_then(|entry| CYCLE.get(entry)).copied().unwrap_or(PAPER)
}

/// Returns the colour for `at` in `0 ..= last`, from light to dark.
pub(super) fn ramp(at: i64, last: i64) -> Colour {
    let steps = RAMP.len() as i128 - 1;
    let (at, last) = (i128::from(at), i128::from(last.max(1)));
    let at = at.clamp(0, last) * steps;
    let step = (at / last).min(steps - 1);
    let (part, step) = (at - step * last, usize::try_from(step).unwrap_or(0));
    let (Some(a), Some(b)) = (RAMP.get(step), RAMP.get(step + 1)) else { return PAPER };
    let mix = |shift: u32| {
        let (a, b) = (i128::from(a.0 >> shift & 0xFF), i128::from(b.0 >> shift & 0xFF));
        // Round to nearest. Integers are exact, so the bytes are the same everywhere.
        let value = (2 * (a * last + (b - a) * part) + last) / (2 * last);
        u32::try_from(value).unwrap_or(0xFF) << shift
    };
    Colour(mix(16) | mix(8) | mix(0))
}

/// What the colour of a cell means. Pass one to [`Drawing::shaded`](super::Drawing::shaded).
///
/// ```
/// use tilewright::layout::{Shading, layout};
/// let tile = layout!((8, 64):(64, 1)).draw().shaded(Shading::Banks { element_bits: 16 });
/// assert!(tile.svg()?.contains("colour: 16-byte bank group"));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shading {
    /// Nothing: all cells are white.
    Plain,
    /// The cell's value, from light (the smallest) to dark (the largest). It shows the path through
    /// memory.
    Ramp,
    /// `floor(value / run) mod period`. If memory has rows of `period` runs, cells of the same
    /// colour are in the same column. There are 8 different colours; a longer period goes from
    /// light to dark.
    Cycle {
        /// How many consecutive values share a colour. 0 counts as 1.
        run: u64,
        /// After how many runs the colours repeat. 0 counts as 1.
        period: u64,
    },
    /// The group of four shared-memory banks (16 bytes) that holds the element. Two cells of the
    /// same colour conflict if they are in different 128-byte rows and are accessed together, 16
    /// bytes each.
    Banks {
        /// The size of an element in bits. 0 counts as 1.
        element_bits: u32,
    },
    /// Who owns the cell: its thread in a thread-value picture, or its tile in the picture of an
    /// operation.
    Owner,
}

impl Shading {
    /// Returns a cell's colour, given its value and owner and the picture's smallest and largest
    /// value.
    pub(super) fn colour(
        self,
        value: Option<i64>,
        owner: Option<i64>,
        (low, high): (i64, i64),
    ) -> Colour {
        let of = |value: Option<i64>, run: i64, period: i64| {
            value.map_or(PAPER, |value| cycle(value.div_euclid(run).rem_euclid(period), period))
        };
        match self {
            Shading::Plain => PAPER,
            Shading::Ramp => {
                value.map_or(PAPER, |v| ramp(v.saturating_sub(low), high.saturating_sub(low)))
            }
            Shading::Cycle { run, period } => of(value, positive(run), positive(period)),
            Shading::Banks { element_bits } => value.map_or(PAPER, |value| {
                let bit = i128::from(value) * i128::from(element_bits.max(1));
                cycle(i64::try_from(bit.div_euclid(128).rem_euclid(8)).unwrap_or(0), 8)
            }),
            Shading::Owner => of(owner, 1, 8),
        }
    }

    /// Returns the note below the picture. `owner` says in words what the colours of
    /// [`Shading::Owner`] mean, or the values.
    pub(super) fn note(self, owner: &str) -> Option<String> {
        match self {
            Shading::Plain => None,
            Shading::Ramp if owner.is_empty() => None,
            Shading::Ramp => Some(format!("colour: {owner}, from light to dark")),
            Shading::Cycle { run: 0 | 1, period } => Some(format!("colour: value mod {period}")),
            Shading::Cycle { run, period } => Some(format!("colour: (value / {run}) mod {period}")),
            Shading::Banks { element_bits } => {
                Some(format!("colour: 16-byte bank group, elements of {element_bits} bits"))
            }
            Shading::Owner => Some(format!("colour: {owner}")),
        }
    }
}

fn positive(value: u64) -> i64 {
    i64::try_from(value.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The relative luminance as WCAG 2 defines it.
    fn luminance(colour: Colour) -> f64 {
        let part = |shift: u32| {
            let c = f64::from(colour.0 >> shift & 0xFF) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    }

    fn contrast(a: Colour, b: Colour) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn labels_have_the_strictest_contrast() {
        let ramp = (0..=255).map(|at| ramp(at, 255));
        for colour in CYCLE.into_iter().chain(ramp).chain([PAPER]) {
            assert!(contrast(INK, colour) >= 7.0, "#{colour}");
        }
        assert!(contrast(FAINT, PAPER) >= 7.0);
    }

    #[test]
    fn the_ramp_falls_in_lightness() {
        let steps: Vec<f64> = (0..=30).map(|at| luminance(ramp(at, 30))).collect();
        assert!(steps.is_sorted_by(|a, b| a > b), "{steps:?}");
        assert_eq!((ramp(0, 9), ramp(9, 9)), (RAMP[0], RAMP[3]));
    }

    #[test]
    fn the_cycle_has_no_colour_twice() {
        for period in [1, 2, 8, 9, 32] {
            let mut colours: Vec<_> = (0..period).map(|entry| cycle(entry, period)).collect();
            colours.sort();
            colours.dedup();
            assert_eq!(colours.len() as i64, period);
        }
    }
}
