//! [`Raster`]: the order in which a GEMM's output tiles are computed. Choose it so that tiles which
//! are computed at the same time share rows of A and columns of B in L2.

use std::fmt;
use std::str::FromStr;

/// The rasterization order: maps a tile's index to its row and column.
///
/// Blocks that run at the same time compute tiles with adjacent indices. The fewer rows and columns
/// those tiles span, the less the blocks read from L2 and global memory. So an order that stays
/// within a square reads less than one along a line.
///
/// It prints as a name and parses from it: `m`, `n`, `strip8` (swizzle width 8), `mstrip8`,
/// `hilbert`.
///
/// ```
/// use tilewright::tensor::pipeline::Raster;
///
/// let order = |raster: Raster| (0..6).map(|i| raster.tile(i, [3, 2])).collect::<Vec<_>>();
/// assert_eq!(order(Raster::AlongN), [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
/// // Two rows of tiles at a time, column by column; the second two from right to left.
/// let swizzle = Raster::Swizzle { width: 2 };
/// assert_eq!(order(swizzle), [[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [2, 0]]);
/// assert_eq!("strip2".parse(), Ok(swizzle));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raster {
    /// Down a column, then the next column.
    AlongM,
    /// Along a row, then the next row.
    AlongN,
    /// Groups of `width` rows of tiles. Each group is walked along N, column by column, every other
    /// group from right to left. CUTLASS's swizzle size, rasterized along N.
    Swizzle {
        /// Rows of tiles per group. The last group has the remaining rows.
        width: u32,
    },
    /// Like `Swizzle` with M and N exchanged: groups of `width` columns of tiles, walked row by
    /// row.
    SwizzleAlongM {
        /// Columns of tiles per group.
        width: u32,
    },
    /// A Hilbert curve fitted to the rectangle: tiles that are adjacent in the order are adjacent
    /// in the matrix.
    Hilbert,
}

impl Raster {
    /// Returns the row and column of tile `index` of `rows` x `columns` tiles. Every tile comes up
    /// exactly once for the indices below `rows * columns`. Larger indices give the last tile. Use
    /// it on the host to see an order; in a kernel, [`TileScheduler`](super::TileScheduler)
    /// computes it.
    #[inline]
    pub fn tile(self, index: u32, [rows, columns]: [u32; 2]) -> [u32; 2] {
        let (rows, columns) = (u64::from(rows.max(1)), u64::from(columns.max(1)));
        let index = u64::from(index).min(rows * columns - 1);
        let [row, column] = match self {
            Raster::AlongM => [index % rows, index / rows],
            Raster::AlongN => [index / columns, index % columns],
            Raster::Swizzle { width } => swizzled(index, [rows, columns], width.into()),
            Raster::SwizzleAlongM { width } => {
                let [column, row] = swizzled(index, [columns, rows], width.into());
                [row, column]
            }
            Raster::Hilbert => hilbert(index as i64, [rows as i64, columns as i64]),
        };
        // Both are below `rows` and `columns`, which fit in 32 bits.
        [row as u32, column as u32]
    }

    /// Returns whether the swizzle width is between 1 and 2^16 - 1; orders without a width are
    /// always valid. Call it before you build a kernel with an order that a user chose.
    pub fn is_valid(self) -> bool {
        match self {
            Raster::Swizzle { width } | Raster::SwizzleAlongM { width } => {
                (1..1 << 16).contains(&width)
            }
            Raster::AlongM | Raster::AlongN | Raster::Hilbert => true,
        }
    }
}

/// Returns tile `index` in groups of `width` along the first mode.
fn swizzled(index: u64, [rows, columns]: [u64; 2], width: u64) -> [u64; 2] {
    let width = width.max(1);
    let group = index / (columns * width);
    let inside = index % (columns * width);
    let first = group * width;
    let height = (rows - first).min(width);
    let along = inside / height;
    let column = if group % 2 == 1 { columns - 1 - along } else { along };
    [first + inside % height, column]
}

/// Returns tile `index` of the Hilbert curve over a rectangle. It cuts the rectangle repeatedly: in
/// two along its long side if that is much longer, else into three parts that the curve passes up,
/// along and down again.
#[inline]
fn hilbert(mut index: i64, [rows, columns]: [i64; 2]) -> [u64; 2] {
    // The current rectangle: its first tile, its long axis and its other axis, as (row, column).
    let mut at = [0, 0];
    let (mut a, mut b) =
        if rows > columns { ([rows, 0], [0, columns]) } else { ([0, columns], [rows, 0]) };
    let length = |v: [i64; 2]| (v[0] + v[1]).abs();
    let unit = |v: [i64; 2]| v.map(i64::signum);
    let half = |v: [i64; 2]| v.map(|x| x / 2);
    let add = |v: [i64; 2], w: [i64; 2]| [v[0] + w[0], v[1] + w[1]];
    let scale = |v: [i64; 2], n: i64| v.map(|x| x * n);
    loop {
        let (width, height) = (length(a), length(b));
        if height == 1 || width == 1 {
            let along = if height == 1 { a } else { b };
            let [row, column] = add(at, scale(unit(along), index));
            return [row.unsigned_abs(), column.unsigned_abs()];
        }
        let (mut a2, mut b2) = (half(a), half(b));
        if 2 * width > 3 * height {
            // A part of even length ends where the next part can begin.
            if length(a2) % 2 == 1 && width > 2 {
                a2 = add(a2, unit(a));
            }
            let first = length(a2) * height;
            if index < first {
                a = a2;
            } else {
                index -= first;
                at = add(at, a2);
                a = add(a, scale(a2, -1));
            }
            continue;
        }
        if length(b2) % 2 == 1 && height > 2 {
            b2 = add(b2, unit(b));
        }
        let (up, along) = (length(b2) * length(a2), width * (height - length(b2)));
        if index < up {
            (a, b) = (b2, a2);
        } else if index < up + along {
            index -= up;
            at = add(at, b2);
            b = add(b, scale(b2, -1));
        } else {
            index -= up + along;
            // It starts next to the previous part's end, at the last tile along both axes.
            at = add(at, add(add(a, scale(unit(a), -1)), add(b2, scale(unit(b), -1))));
            (a, b) = (scale(b2, -1), add(a2, scale(a, -1)));
        }
    }
}

impl fmt::Display for Raster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raster::AlongM => f.write_str("m"),
            Raster::AlongN => f.write_str("n"),
            Raster::Swizzle { width } => write!(f, "strip{width}"),
            Raster::SwizzleAlongM { width } => write!(f, "mstrip{width}"),
            Raster::Hilbert => f.write_str("hilbert"),
        }
    }
}

/// The error of parsing a [`Raster`] from a text that is not one of its names.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseRasterError {
    text: String,
}

impl fmt::Display for ParseRasterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a raster order: expected `m`, `n`, `hilbert`, or `strip` or `mstrip` with \
             a width, such as `strip8`",
            self.text.escape_default()
        )
    }
}

impl std::error::Error for ParseRasterError {}
crate::errors::message_as_debug!(ParseRasterError);

impl FromStr for Raster {
    type Err = ParseRasterError;

    fn from_str(text: &str) -> Result<Raster, ParseRasterError> {
        let width = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            digits.parse::<u32>().ok().filter(|width| width.to_string() == digits)
        };
        let raster = match text {
            "m" => Some(Raster::AlongM),
            "n" => Some(Raster::AlongN),
            "hilbert" => Some(Raster::Hilbert),
            _ => width("strip")
                .map(|width| Raster::Swizzle { width })
                .or_else(|| width("mstrip").map(|width| Raster::SwizzleAlongM { width })),
        };
        raster
            .filter(|raster| raster.is_valid())
            .ok_or_else(|| ParseRasterError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Raster; 7] = [
        Raster::AlongM,
        Raster::AlongN,
        Raster::Swizzle { width: 1 },
        Raster::Swizzle { width: 3 },
        Raster::Swizzle { width: 100 },
        Raster::SwizzleAlongM { width: 4 },
        Raster::Hilbert,
    ];

    #[test]
    fn each_tile_is_taken_once() {
        for raster in ALL {
            for rows in 1..20 {
                for columns in 1..20 {
                    let tiles = (0..rows * columns).map(|i| raster.tile(i, [rows, columns]));
                    let mut tiles: Vec<_> = tiles.collect();
                    tiles.sort_unstable();
                    let all =
                        (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
                    assert!(tiles.into_iter().eq(all), "{raster}, {rows} x {columns}");
                }
            }
        }
    }

    /// No step is long. The curve has at most one diagonal step, when the extents make one
    /// unavoidable.
    #[test]
    fn the_curve_of_hilbert_goes_from_tile_to_tile() {
        for rows in 1..24 {
            for columns in 1..24 {
                let tile = |i| Raster::Hilbert.tile(i, [rows, columns]);
                let steps = (1..rows * columns).map(|i| {
                    let ([a, b], [c, d]) = (tile(i - 1), tile(i));
                    (a.abs_diff(c), b.abs_diff(d))
                });
                let steps: Vec<_> = steps.collect();
                assert!(steps.iter().all(|(a, b)| *a <= 1 && *b <= 1), "{rows} x {columns}");
                let diagonal = steps.iter().filter(|(a, b)| a + b == 2).count();
                assert!(diagonal <= 1, "{rows} x {columns}: {diagonal}");
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for raster in ALL {
            assert_eq!(raster.to_string().parse(), Ok(raster));
        }
        for text in ["", "strip", "strip0", "strip-1", "strip08", "strip65536", "strips8", "M"] {
            assert!(text.parse::<Raster>().is_err(), "{text}");
        }
    }
}
