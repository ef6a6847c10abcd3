//! Draws thread-value layouts: which thread holds each element of a tile. Use it to check a copy or
//! an MMA atom by eye.

use super::super::error::LayoutError;
use super::super::into_tuple::IntoTuple;
use super::super::tuple::{IntTuple, IntTupleRef};
use super::super::{Int, Layout, crd2idx};
use super::palette::Shading;
use super::scene::{Cell, MAX_CELLS, Scene, extents, tables};
use super::{Drawing, section};

type Result<T> = std::result::Result<T, LayoutError>;

/// The first thread and value that hold an element, and how many hold it.
#[derive(Clone, Copy)]
struct Holder {
    thread: i64,
    value: i64,
    count: u64,
}

#[inline]
fn holders(layout: &Layout, tile: &IntTuple) -> Result<Vec<Option<Holder>>> {
    let modes: Vec<_> = layout.modes().collect();
    let [threads, values] = modes.as_slice() else {
        return Err(LayoutError::RankMismatch { expected: 2, found: layout.rank() });
    };
    if layout.is_leaf() {
        return Err(LayoutError::RankMismatch { expected: 2, found: 1 });
    }
    let size = |shape: IntTupleRef<'_>| -> Result<i64> { Ok(extents(shape)?.iter().product()) };
    let (threads, values) = (size(threads.shape())?, size(values.shape())?);
    // Both products are at most `MAX_CELLS`, so this one cannot overflow.
    if (threads * values).unsigned_abs() > MAX_CELLS {
        return Err(super::too_many_cells());
    }
    let size_of_tile = size(tile.as_ref())?;
    let mut found = vec![None; usize::try_from(size_of_tile).unwrap_or(0)];
    for thread in 0..threads {
        for value in 0..values {
            let element = layout.apply((thread, value))?;
            let index = crd2idx(&element, tile)?.to_static()?;
            let inside = match (element.as_static(), usize::try_from(index)) {
                (Some(_), Ok(index)) => found.get_mut(index),
                (None, Ok(index)) if contains(tile.as_ref(), element.as_ref()) => {
                    found.get_mut(index)
                }
                _ => None,
            };
            let Some(holder) = inside else {
                return Err(LayoutError::OutsideShape {
                    coord: element.to_string(),
                    shape: tile.to_string(),
                });
            };
            let first = holder.get_or_insert(Holder { thread, value, count: 0 });
            first.count += 1;
        }
    }
    Ok(found)
}

/// Returns true if each entry of the coordinate is inside its mode.
#[inline]
fn contains(shape: IntTupleRef<'_>, coord: IntTupleRef<'_>) -> bool {
    match coord.as_leaf() {
        Some(entry) => {
            let size = shape.product().ok().and_then(|size| size.as_static()).unwrap_or(0);
            entry.as_static().is_some_and(|entry| (0..size).contains(&entry))
        }
        None => shape.children().zip(coord.children()).all(|(s, c)| contains(s, c)),
    }
}

/// # Drawings of thread-value layouts
///
/// Shows which thread holds each element.
impl Layout {
    /// Draws a thread-value layout `(thread, value) -> element of tile` as the tile, coloured by
    /// thread. The label `T3 V1` says that the element is value 1 of thread 3.
    ///
    /// The layout must map to the indices of `tile` (first mode fastest) or to its coordinates. If
    /// several threads or values hold an element, the label shows the first by thread, then by
    /// value, and how many there are: `x4`. An element that nobody holds stays empty. A tile of
    /// rank 3 or more is drawn in slices.
    ///
    /// There is no picture if the layout is not of rank 2 ([`LayoutError::RankMismatch`]), if an
    /// element is outside the tile ([`LayoutError::OutsideShape`]), or in the cases that
    /// [`Drawing`] lists.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let accumulator = layout!(((2, 2), 2):((4, 1), 2));
    /// assert_eq!(
    ///     accumulator.draw_tv((2, 4)).text()?,
    ///     "\
    /// ((2,2),2):((4,1),2) in (2,4)
    ///           0       1       2       3
    ///     +-------+-------+-------+-------+
    ///  0  | T0 V0 | T0 V1 | T1 V0 | T1 V1 |
    ///     +-------+-------+-------+-------+
    ///  1  | T2 V0 | T2 V1 | T3 V0 | T3 V1 |
    ///     +-------+-------+-------+-------+"
    /// );
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn draw_tv(&self, tile: impl IntoTuple<Int>) -> Drawing {
        let drawn = tile.into_tuple().and_then(|tile| {
            let notation = format!("{self} in {tile}");
            let holders = holders(self, &tile)?;
            let tables = tables(&tile, |at, coord| {
                let holder = usize::try_from(at).ok().and_then(|at| holders.get(at)).copied();
                Ok(holder.flatten().map(|Holder { thread, value, count }| {
                    let second = match count {
                        1 => format!("V{value}"),
                        count => format!("V{value} x{count}"),
                    };
                    Cell {
                        label: vec![format!("T{thread}"), second],
                        index: at,
                        coord,
                        value: Some(at),
                        owner: Some(thread),
                    }
                }))
            })?;
            Ok(Scene {
                sections: vec![section(notation, 0, tables)],
                shading: Shading::Owner,
                owner: "thread mod 8",
            })
        });
        Drawing::new(format!("{self}"), drawn)
    }
}
