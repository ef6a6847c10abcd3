//! [`DirectStore`]: stores accumulators from registers straight to D, as vectors if D's alignment
//! allows. The kernels without warp roles use it.

use crate::ir::builder::DeviceCoord;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, GlobalMut, Registers, Val, Vector};
use crate::tensor::copy::packed;
use crate::tensor::pipeline::Tile;

use crate::kernels::gemm::elements::{D, Sum};
use crate::kernels::gemm::epilogue::EpilogueRef;
use crate::kernels::gemm::epilogue::fragment::FirstElement;

/// A row of a thread, relative to its first one: its registers and their columns.
type Row = (i32, Vec<(u32, i32)>);

/// Stores a thread's elements of a tile from registers.
pub(crate) struct DirectStore<'b> {
    d: Val<'b, GlobalMut<D>>,
    pitch: Val<'b, i64>,
    /// The first row and column of the tile.
    origin: [Val<'b, i32>; 2],
    /// The matrix in the batch.
    batch: Val<'b, i32>,
    /// The rows and columns of D.
    limits: [Val<'b, i32>; 2],
    /// The most adjacent columns in a vector.
    max: u32,
    /// Accumulators per element of D: 1, or 2 neighbours along N.
    per_element: u32,
    /// The bitwise OR of D's address, row pitch and columns, in elements. Its lowest set bit is the
    /// largest power of two that divides all three.
    multiple: Val<'b, i32>,
}

impl<'b> DirectStore<'b> {
    /// Makes the store of a tile whose first row and column are `origin`. `strides` are D's row
    /// pitch and batch stride.
    #[inline]
    pub(crate) fn new(
        d: Val<'b, GlobalMut<D>>,
        [pitch, next]: [Val<'b, i64>; 2],
        tile: Tile<'b>,
        origin: [Val<'b, i32>; 2],
        limits: [Val<'b, i32>; 2],
    ) -> Self {
        let d = d.offset(tile.batch.cvt::<i64>() * next);
        let start = d.ptr_to_int().cvt::<i32>() >> D::scalar().size_bytes().ilog2();
        let multiple = pitch.cvt::<i32>() | limits[1] | start;
        DirectStore {
            d,
            pitch,
            origin,
            batch: tile.batch,
            limits,
            max: 2,
            per_element: 1,
            multiple,
        }
    }

    /// Makes one element from each pair of accumulators along N, if `pairs` is set.
    #[inline]
    pub(crate) fn pairs(self, pairs: bool) -> Self {
        DirectStore { per_element: if pairs { 2 } else { 1 }, ..self }
    }

    /// Allows vectors of up to 16 bytes, for threads whose registers hold adjacent columns.
    #[inline]
    pub(crate) fn wide(self) -> Self {
        DirectStore { max: 16 / D::scalar().size_bytes(), ..self }
    }

    /// Returns the (row, column, matrix) in D of a thread's first accumulator, from its coordinate
    /// in the tile.
    #[inline]
    pub(crate) fn first(&self, k: &Body<'b, '_>, first: &DeviceCoord<'b>) -> FirstElement<'b> {
        let [row, column] = entries(k, first);
        let column = if self.per_element > 1 { column / self.per_element } else { column };
        ([self.origin[0] + row, self.origin[1] + column, self.batch], [None; 2])
    }

    /// Stores a thread's accumulators. `first` is the first one's coordinate in the tile, and
    /// `offsets` are relative to it. Stores `v` adjacent columns as one vector if `v` elements
    /// divide D's address and row pitch; the first column must be a multiple of `v`.
    #[inline]
    pub(crate) fn all<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, Sum>,
        first: &DeviceCoord<'b>,
        offsets: &[[i32; 2]],
        epilogue: EpilogueRef<'_, 'a>,
    ) {
        let ([row, column, _], _) = self.first(k, first);
        let mut rows: Vec<Row> = Vec::new();
        for (register, [down, right]) in (0..).zip(offsets) {
            match rows.iter_mut().find(|(row, _)| row == down) {
                Some((_, columns)) => columns.push((register, *right)),
                None => rows.push((*down, vec![(register, *right)])),
            }
        }
        // With `pairs`, a thread holds both columns of a pair, with every MMA.
        let run = (run(&rows, self.max * self.per_element) / self.per_element).max(1);
        let runs = [run, 2, 1].into_iter().filter(|some| *some <= run);
        let mut runs: Vec<u32> = runs.collect();
        runs.dedup();
        self.widest(k, accumulators, [row, column], &rows, &runs, epilogue);
    }

    /// Stores rows with the widest vectors of `runs` that D's alignment allows. The device decides.
    #[inline]
    fn widest<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, Sum>,
        first: [Val<'b, i32>; 2],
        rows: &[Row],
        runs: &[u32],
        epilogue: EpilogueRef<'_, 'a>,
    ) {
        match *runs {
            [] => {}
            [run] => self.rows(k, accumulators, first, rows, run, epilogue),
            [run, ref narrower @ ..] => k.if_else(
                (self.multiple & (run - 1)).eq(0),
                |k| self.rows(k, accumulators, first, rows, run, epilogue),
                |k| self.widest(k, accumulators, first, rows, narrower, epilogue),
            ),
        }
    }

    /// Stores rows with `run` elements at a time.
    #[inline]
    fn rows<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, Sum>,
        [row, column]: [Val<'b, i32>; 2],
        rows: &[Row],
        run: u32,
        epilogue: EpilogueRef<'_, 'a>,
    ) {
        for (down, columns) in rows {
            let row = row + *down;
            k.if_(row.lt(self.limits[0]), |k| {
                self.row(k, accumulators, [row, column], columns, run, epilogue);
            });
        }
    }

    /// Stores some registers of one row, `run` elements at a time. `column` is the first element's.
    #[inline]
    fn row<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        accumulators: &Registers<'b, Sum>,
        [row, column]: [Val<'b, i32>; 2],
        columns: &[(u32, i32)],
        run: u32,
        epilogue: EpilogueRef<'_, 'a>,
    ) {
        let line = self.d.offset(row.cvt::<i64>() * self.pitch + column.cvt::<i64>());
        let per_element = self.per_element as usize;
        let right = |columns: &[(u32, i32)]| {
            columns.first().map_or(0, |(_, right)| *right) / self.per_element as i32
        };
        for columns in columns.chunks_exact(run as usize * per_element) {
            k.if_((column + right(columns)).lt(self.limits[1]), |k| {
                let mut values = Vec::with_capacity(run as usize);
                for element in columns.chunks_exact(per_element) {
                    let at = [row, column + right(element), self.batch];
                    let mut accumulators =
                        element.iter().map(|(register, _)| accumulators.get(*register));
                    let Some(first) = accumulators.next() else { continue };
                    let second = accumulators.next().unwrap_or(first);
                    values.push(epilogue.of_accumulators(k, [first, second], at));
                }
                store(line, right(columns), &values);
            });
        }
    }
}

/// Returns how many adjacent columns every row of the thread has, at most `max`: a power of two.
#[inline]
fn run(rows: &[Row], max: u32) -> u32 {
    let together = |columns: &[(u32, i32)]| {
        let expected = columns.first().map_or(0, |(_, first)| *first)..;
        columns.iter().map(|(_, right)| *right).eq(expected.take(columns.len()))
    };
    let holds = |run: &u32| {
        rows.iter().all(|(_, columns)| {
            columns.chunks(*run as usize).all(|columns| {
                let first = columns.first().map_or(0, |(_, first)| first.unsigned_abs());
                columns.len() == *run as usize && first.is_multiple_of(*run) && together(columns)
            })
        })
    };
    let halves = std::iter::successors(Some(max), |run| (*run > 1).then_some(run / 2));
    halves.into_iter().find(holds).unwrap_or(1)
}

/// Returns the two entries of a coordinate.
#[inline]
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

/// Stores 1, 2, 4, 8 or 16 neighbours, at a multiple of that count.
#[inline]
fn store<'b>(to: Val<'b, GlobalMut<D>>, at: i32, values: &[Val<'b, Sum>]) {
    if let [one] = values
        && !matches!(D::scalar(), Scalar::I8 | Scalar::U8 | Scalar::I32)
    {
        return to.store(at, one.cvt::<D>());
    }
    if D::scalar() == Scalar::F64 {
        let words = values.iter().flat_map(|x| x.bitcast::<Vector<u32, 2>>().lanes());
        let words: Vec<Val<'b, u32>> = words.collect();
        if let [x, y, z, w] = words[..] {
            let to = to.offset(at).ptr_cast::<u32>();
            to.store_vector(0, Val::pack([x, y, z, w]));
        }
        return;
    }
    let values: Vec<Val<'b, f32>> = values.iter().map(|value| value.cvt::<f32>()).collect();
    let values = &values[..];
    let bits = values.len() as u32 * D::scalar().bits();
    let words = packed(D::scalar(), values);
    let [first, ..] = *words else { return };
    match bits {
        8 => to.ptr_cast::<u8>().store(at, first.cvt::<u8>()),
        16 => {
            let to = to.offset(at).ptr_cast::<u16>();
            to.store(0, first.cvt::<u16>());
        }
        _ => {
            let to = to.offset(at).ptr_cast::<u32>();
            match words[..] {
                [x] => to.store(0, x),
                [x, y] => to.store_vector(0, Val::pack([x, y])),
                [x, y, z, w] => to.store_vector(0, Val::pack([x, y, z, w])),
                _ => {}
            }
        }
    }
}
