//! [`Groups`]: finds the group that a tile index belongs to, in a grouped GEMM. The tile scheduler
//! uses it for both kinds: [`RowGroups`] (one matrix, split by rows) and [`GroupSizes`] (many
//! GEMMs).

use super::group_sizes::GroupSizes;
use super::row_groups::{RowGroup, RowGroups};
use crate::ir::{Body, Val};

#[derive(Clone, Copy, Debug)]
pub(super) enum Groups<'b> {
    /// Groups of rows, and the rows per tile.
    Rows(RowGroups<'b>, Val<'b, i32>),
    /// GEMMs of different sizes, and the rows and columns per tile.
    Sizes(GroupSizes<'b>, [Val<'b, i32>; 2]),
}

impl<'b> Groups<'b> {
    pub(super) fn count(self) -> Val<'b, i32> {
        match self {
            Groups::Rows(groups, _) => groups.count,
            Groups::Sizes(sizes, _) => sizes.count,
        }
    }

    /// Returns a group's counts of row tiles and column tiles. Row groups have `columns` column
    /// tiles.
    #[track_caller]
    #[inline]
    fn tiles(self, group: Val<'b, i32>, columns: Val<'b, i32>) -> [Val<'b, i32>; 2] {
        match self {
            Groups::Rows(groups, size) => {
                let [start, end] = groups.range(group);
                [((end - start).max(0) + (size - 1)) / size, columns]
            }
            Groups::Sizes(sizes, [rows, columns]) => sizes.tiles(group, [rows, columns]),
        }
    }

    /// See [`RowGroups::seek`].
    #[track_caller]
    #[inline]
    pub(super) fn seek(
        self,
        k: &mut Body<'b, '_>,
        from: RowGroup<'b>,
        number: Val<'b, i32>,
        columns: Val<'b, i32>,
    ) -> RowGroup<'b> {
        let count = self.count();
        k.while_(
            from,
            |_, at| at.group.lt(count) & number.ge(at.first + at.rows * at.columns),
            |k, at| {
                let group = at.group + 1;
                let [rows, columns] =
                    k.if_with(group.lt(count), [0, 0], |_| self.tiles(group, columns));
                RowGroup { group, first: at.first + at.rows * at.columns, rows, columns }
            },
        )
    }
}
