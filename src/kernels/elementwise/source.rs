//! [`Source`]: finds the input element that belongs to an output element when their layouts differ,
//! for example for a broadcast or transposed input.

use crate::ir::builder::Converted;
use crate::ir::op::LoadAccess;
use crate::ir::{Body, Global, Val};
use crate::layout::{ComposedLayout, Layout, LayoutError, Part};
use crate::tensor::copy::{lead, shifted};
use crate::tensor::rows::{RowAccess, RowFragment, RowPartition, RowTile};

use super::super::rows::RowError;

/// Maps offset `o` of the output, from 0 on, to the offset of its element in an input.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Extents and strides, fastest mode first.
    modes: Vec<(i64, i64)>,
    /// The input offset for output offset 0.
    offset: i64,
    /// One more than the largest offset.
    pub(super) len: u64,
}

#[inline]
fn refused(operand: &'static str, rule: &'static str) -> RowError {
    RowError::Layout { operand, rule }
}

/// Returns the layout from output offsets to coordinates, and the element count.
#[inline]
pub(super) fn offsets_to_coordinates(output: &Layout) -> Result<(Layout, u64), RowError> {
    let found = || -> Result<_, LayoutError> {
        let (inverse, size) = (output.right_inverse()?, output.size()?.to_static()?);
        Ok((inverse.size()?.to_static()? == size).then_some((inverse, size)))
    };
    let rule = "it must be static and compact, so that each offset below its size belongs to exactly one coordinate";
    let (inverse, size) = found().ok().flatten().ok_or_else(|| refused("the output", rule))?;
    // Vector indices must fit in 31 bits.
    if !(1..1 << 31).contains(&size) {
        return Err(refused("the output", "it must have 1 to 2^31 - 1 elements"));
    }
    Ok((inverse, size.unsigned_abs()))
}

impl Source {
    /// Returns the source for an input with this layout.
    #[inline]
    pub(super) fn new(
        input: &ComposedLayout,
        output: &Layout,
        coordinates: &Layout,
    ) -> Result<Source, RowError> {
        let refused = |rule| refused("an input", rule);
        let is_plain = match input.inner() {
            Part::Identity => true,
            Part::Swizzle(swizzle) => swizzle.is_identity(),
            _ => false,
        };
        let offset = input.offset().as_static().filter(|_| is_plain);
        let (Some(offset), Ok(layout)) = (offset, input.outer_layout()) else {
            return Err(refused(
                "it must be a plain layout with static strides and a static offset",
            ));
        };
        if layout.shape() != output.shape() {
            return Err(refused("it must have the output's shape"));
        }
        let modes = || -> Result<Vec<(i64, i64)>, LayoutError> {
            Ok(layout.composition(coordinates)?.coalesce()?.to_static()?.leaves().collect())
        };
        let modes = modes().map_err(|_| refused("it must be static"))?;
        let (mut low, mut high) = (offset, offset);
        for (extent, stride) in &modes {
            let last = (extent - 1).max(0).checked_mul(*stride);
            let last = last.filter(|last| last.unsigned_abs() < 1 << 40);
            let last = last.ok_or(RowError::TooLarge { operand: "an input" })?;
            low += last.min(0);
            high += last.max(0);
        }
        if low < 0 {
            return Err(refused("no offset may be negative"));
        }
        Ok(Source { modes, offset, len: high.unsigned_abs() + 1 })
    }

    /// Returns true if each aligned group of `vector` output elements has a single input stride.
    pub(super) fn has_vectors(&self, vector: i64) -> bool {
        self.modes.first().is_none_or(|(extent, _)| extent % vector == 0)
    }

    /// Returns true if the input has its elements at the same offsets as the output, which has
    /// `len` elements.
    pub(super) fn is_same(&self, len: u64) -> bool {
        let is_whole = self.modes.first().is_none_or(|mode| mode.1 == 1) && self.modes.len() < 2;
        is_whole && self.offset == 0 && self.len == len
    }

    /// Returns true if any `vector` consecutive output elements span at most two runs of the
    /// input's first mode.
    pub(super) fn has_runs(&self, vector: i64) -> bool {
        self.modes.len() < 2 || self.modes[0].0 >= vector
    }

    /// Loads the input elements for a thread's part of the output. The block's `len` elements begin
    /// at `start`.
    pub(super) fn load_part<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        x: Val<'b, Global<T>>,
        part: &RowPartition<'b>,
        start: Val<'b, i64>,
        len: Val<'b, i64>,
        tile: &RowTile,
    ) -> Vec<Val<'b, f32>> {
        let vector = tile.vector(T::scalar());
        let (start, len) = (start.cvt::<i32>(), len.cvt::<i32>());
        let first = start + part.first_column();
        let mut all = Vec::new();
        for number in 0..tile.vectors as i32 {
            // Threads without a vector load the last one again.
            let last = len / vector as i32 - 1;
            let number = ((first + number * part.stride()) / vector as i32).min(last);
            if tile.access == RowAccess::Ragged && !self.has_vectors(vector.into()) {
                all.extend(self.load_runs(k, x, number * vector as i32, vector));
            } else {
                all.extend(self.load(k, x, number, vector));
            }
        }
        for (column, has) in part.ends() {
            all.push(k.if_with(has, 0.0f32, |k| self.load(k, x, start + column, 1)[0]));
        }
        all
    }

    /// Loads the input elements for `vector` output elements from `at` on, which span at most two
    /// [runs](Source::has_runs).
    fn load_runs<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        x: Val<'b, Global<T>>,
        at: Val<'b, i32>,
        vector: u32,
    ) -> Vec<Val<'b, f32>> {
        let access = LoadAccess::default().non_coherent();
        let [(extent, stride), rest @ ..] = &self.modes[..] else { return Vec::new() };
        let (extent, lanes) = (*extent as i32, vector as i32);
        let (run, first) = (at / extent, at % extent);
        let runs = rest.iter().fold(1, |all, (extent, _)| all * extent) as i32;
        // The offsets of this run and the next.
        let [own, next] = [run, (run + 1).min(runs - 1)].map(|mut run| {
            let mut offset = k.constant(self.offset);
            for (extent, stride) in rest {
                offset += (run % *extent as i32).cvt::<i64>() * *stride;
                run /= *extent as i32;
            }
            offset
        });
        let offset = |element: i32| {
            let column = first + element;
            let is_own = column.lt(extent);
            let column = is_own.select(column, column - extent);
            is_own.select(own, next) + column.cvt::<i64>() * *stride
        };
        if *stride != 1 {
            let load = |element| x.load_with(offset(element), access).cvt::<f32>();
            return (0..lanes).map(load).collect();
        }
        // Elements of one run are contiguous: load two vectors and shift them together.
        let values: Vec<_> = (0..vector).map(|_| k.var(0.0f32)).collect();
        let from = own + first.cvt::<i64>();
        let is_run = first.le(extent - lanes) & from.le(self.len as i64 - 2 * i64::from(vector));
        k.if_else(
            is_run,
            |_| {
                let shift = lead(x.offset(from)) & (lanes - 1);
                let words = x.offset(from - shift.cvt::<i64>()).ptr_cast::<u32>();
                let [low, high] = [0, 4].map(|at| words.load_vector_with::<4>(at, access));
                let bytes = (shift * T::scalar().size_bytes()).cvt::<u32>();
                let word = Val::pack(shifted(low.lanes(), high.lanes(), bytes));
                let elements = RowFragment::<T> { vectors: vec![word], singles: Vec::new() };
                values.iter().zip(elements.to_f32()).for_each(|(to, value)| to.set(value));
            },
            |_| {
                for (element, to) in (0..lanes).zip(&values) {
                    to.set(x.load_with(offset(element), access).cvt::<f32>());
                }
            },
        );
        values.iter().map(|value| value.get()).collect()
    }

    /// Loads the input elements for vector `number` of the output, with `vector` elements.
    fn load<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        x: Val<'b, Global<T>>,
        number: Val<'b, i32>,
        vector: u32,
    ) -> Vec<Val<'b, f32>> {
        let access = LoadAccess::default().non_coherent();
        let size = i64::from(vector);
        let (mut rest, mut at) = (number.cvt::<u32>(), k.constant(self.offset));
        let step = self.modes.first().map_or(0, |(_, stride)| *stride);
        for (mode, (extent, stride)) in self.modes.iter().enumerate() {
            // The first mode counts vectors.
            let (extent, stride) =
                if mode == 0 { (extent / size, stride * size) } else { (*extent, *stride) };
            let is_last = mode + 1 == self.modes.len();
            let index = if is_last { rest } else { rest % extent as u32 };
            rest /= extent as u32;
            if stride != 0 {
                at += index.cvt::<i64>() * stride;
            }
        }
        let x = x.offset(at);
        let aligned = |stride: &i64| stride % size == 0;
        let whole = self.modes.iter().skip(1).map(|(_, stride)| stride).all(aligned);
        if step == 1 && vector > 1 && whole && aligned(&self.offset) {
            let words = x.ptr_cast::<u32>().load_vector_with::<4>(0, access);
            return RowFragment::<T> { vectors: vec![words], singles: Vec::new() }.to_f32();
        }
        if step == 0 {
            return vec![x.load_with(0, access).cvt::<f32>(); vector as usize];
        }
        (0..size).map(|i| x.load_with(i * step, access).cvt::<f32>()).collect()
    }
}
