//! Elements of D from registers to global memory.

use crate::ir::{
    Body, Converted, DeviceCoord, Element, GlobalMut, Number, Registers, Scalar, Val, Vector,
    VectorElement, bf16, f16,
};
use crate::tensor::{Pointer, Tile};

use super::epilogue::EpilogueOps;

/// Where the elements of a tile of D go.
pub(super) struct DirectStore<'b, D> {
    d: Val<'b, GlobalMut<D>>,
    pitch: Val<'b, i64>,
    /// The first row and column of the tile, and its matrix.
    origin: [Val<'b, i32>; 2],
    batch: Val<'b, i32>,
    limits: [Val<'b, i32>; 2],
    /// Whether all pairs of columns are inside or outside, at addresses that are multiples of their size.
    pairs: Val<'b, bool>,
}

impl<'b, D: Number> DirectStore<'b, D> {
    pub(super) fn new(
        (d, [pitch, next]): (Val<'b, GlobalMut<D>>, [Val<'b, i64>; 2]),
        tile: Tile<'b>,
        origin: [Val<'b, i32>; 2],
        limits: [Val<'b, i32>; 2],
    ) -> Self {
        let d = d.offset(tile.batch.cvt::<i64>() * next);
        let even = ((pitch | next) & 1).eq(0) & (limits[1] & 1).eq(0);
        DirectStore { d, pitch, origin, batch: tile.batch, limits, pairs: even }
    }

    /// Writes the sums of a thread: `first` is the place of the first one in the tile, `places` those of all from there,
    /// two neighbours along N after each other.
    pub(super) fn all<C: Number>(
        &self,
        k: &mut Body<'b, '_>,
        sums: &Registers<'b, f32>,
        first: &DeviceCoord<'b>,
        places: &[[i32; 2]],
        epilogue: &EpilogueOps<'b, C, D>,
    ) {
        let [row, column] = entries(k, first);
        let (row, column) = (self.origin[0] + row, self.origin[1] + column);
        // The registers of each row, with their columns.
        let mut rows: Vec<(i32, Vec<(usize, i32)>)> = Vec::new();
        for (register, [down, right]) in places.iter().enumerate() {
            match rows.iter_mut().find(|(row, _)| row == down) {
                Some((_, columns)) => columns.push((register, *right)),
                None => rows.push((*down, vec![(register, *right)])),
            }
        }
        for (down, columns) in rows {
            let row = row + down;
            k.if_(row.lt(self.limits[0]), |k| {
                let start = row.cvt::<i64>() * self.pitch + column.cvt::<i64>();
                let line = self.d.offset(start);
                k.if_else(
                    self.pairs,
                    |k| {
                        for two in columns.chunks_exact(2) {
                            let &[(x, right), (y, _)] = two else { continue };
                            k.if_((column + right).lt(self.limits[1]), |k| {
                                let values =
                                    [(x, right), (y, right + 1)].map(|(register, right)| {
                                        let (sum, at) = (
                                            sums.get(k, register),
                                            [row, column + right, self.batch],
                                        );
                                        epilogue.apply(k, sum, at)
                                    });
                                store_pair(k, line, right, values);
                            });
                        }
                    },
                    |k| {
                        for (register, right) in &columns {
                            k.if_((column + *right).lt(self.limits[1]), |k| {
                                let (sum, at) =
                                    (sums.get(k, *register), [row, column + *right, self.batch]);
                                let value = epilogue.apply(k, sum, at).cvt::<D>();
                                line.store(k, *right, value);
                            });
                        }
                    },
                );
            });
        }
    }
}

/// The two entries of a coordinate.
fn entries<'b>(k: &Body<'b, '_>, coord: &DeviceCoord<'b>) -> [Val<'b, i32>; 2] {
    let entry = |i: usize| match coord {
        DeviceCoord::Tuple(items) => match items.get(i) {
            Some(DeviceCoord::Device(value)) => *value,
            Some(DeviceCoord::Host(value)) => k.constant(*value as i32),
            _ => k.constant(0),
        },
        _ => k.constant(0),
    };
    [entry(0), entry(1)]
}

/// Two elements as one word.
fn pair<'b, U: Converted + VectorElement<2>>(two: [Val<'b, f32>; 2]) -> Val<'b, Vector<U, 2>> {
    let two: Val<'b, Vector<f32, 2>> = Val::pack(two);
    two.cvt::<U>()
}

/// Stores two neighbours.
fn store_pair<'b, D: Element>(
    k: &Body<'b, '_>,
    to: Val<'b, GlobalMut<D>>,
    offset: i32,
    two: [Val<'b, f32>; 2],
) {
    let to = Pointer::new(to).assume_aligned(k, 2 * u64::from(D::SCALAR.size_bytes())) + offset;
    match D::SCALAR {
        Scalar::Bf16 => to.recast::<u32>(k).store(k, pair::<bf16>(two).bitcast::<u32>()),
        Scalar::F16 => to.recast::<u32>(k).store(k, pair::<f16>(two).bitcast::<u32>()),
        _ => {
            let two: Val<'_, Vector<f32, 2>> = Val::pack(two);
            to.recast::<u64>(k).store(k, two.bitcast::<u64>());
        }
    }
}
