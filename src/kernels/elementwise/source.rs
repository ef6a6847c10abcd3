//! [`Source`]: where an input has the elements of the output.

use crate::ir::builder::Converted;
use crate::ir::op::LoadAccess;
use crate::ir::{Body, Global, Val};
use crate::layout::{ComposedLayout, Layout, LayoutError, Part};
use crate::tensor::{RowElements, RowTile};

use super::super::rows::RowError;

/// The offset in an input of the element that belongs to offset `o` of the output, for `o` from 0 on.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Extents and strides, the fastest mode first.
    modes: Vec<(i64, i64)>,
    /// The offset of the element for 0.
    offset: i64,
    /// One more than the largest offset.
    pub(super) len: u64,
}

fn refused(operand: &'static str, rule: &'static str) -> RowError {
    RowError::Layout { operand, rule }
}

/// Returns the layout from offsets of the output to coordinates, and the number of elements.
pub(super) fn offsets_to_coordinates(output: &Layout) -> Result<(Layout, u64), RowError> {
    let found = || -> Result<_, LayoutError> {
        let (inverse, size) = (output.right_inverse()?, output.size()?.to_static()?);
        Ok((inverse.size()?.to_static()? == size).then_some((inverse, size)))
    };
    let rule =
        "it is static, and compact: each offset from 0 to its size belongs to one coordinate";
    let (inverse, size) = found().ok().flatten().ok_or_else(|| refused("the output", rule))?;
    // Vectors have numbers of 31 bits.
    if !(1..1 << 31).contains(&size) {
        return Err(refused("the output", "it has 1 to 2^31 - 1 elements"));
    }
    Ok((inverse, size.unsigned_abs()))
}

impl Source {
    /// The source of an input with this layout.
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
            return Err(refused("it is a layout with static strides, behind a static offset"));
        };
        if layout.shape() != output.shape() {
            return Err(refused("it has the shape of the output"));
        }
        let modes = || -> Result<Vec<(i64, i64)>, LayoutError> {
            Ok(layout.composition(coordinates)?.coalesce()?.to_static()?.leaves().collect())
        };
        let modes = modes().map_err(|_| refused("it is static"))?;
        let (mut low, mut high) = (offset, offset);
        for (extent, stride) in &modes {
            let last = (extent - 1).max(0).checked_mul(*stride);
            let last = last.filter(|last| last.unsigned_abs() < 1 << 40);
            let last = last.ok_or(RowError::TooLarge { operand: "an input" })?;
            low += last.min(0);
            high += last.max(0);
        }
        if low < 0 {
            return Err(refused("no offset is below 0"));
        }
        Ok(Source { modes, offset, len: high.unsigned_abs() + 1 })
    }

    /// Returns true if the `vector` elements from each multiple of it on have one stride.
    pub(super) fn has_vectors(&self, vector: i64) -> bool {
        self.modes.first().is_none_or(|(extent, _)| extent % vector == 0)
    }

    /// Loads the elements that belong to the vectors of a thread, from vector `first` on, of an output of `len` elements.
    pub(super) fn load_part<'b, T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        x: Val<'b, Global<T>>,
        (first, len): (Val<'b, i32>, Val<'b, i64>),
        tile: &RowTile,
        vector: u32,
    ) -> Vec<Val<'b, f32>> {
        let mut all = Vec::new();
        for number in 0..tile.vectors {
            // Of threads without a vector the last one's is loaded again.
            let last = (len / i64::from(vector) - 1).cvt::<i32>();
            let number = (first + (number * tile.threads) as i32).min(last);
            all.extend(self.load(k, x, number, vector));
        }
        all
    }

    /// Loads the elements that belong to vector `number` of the output, of `vector` elements.
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
            let words = x.ptr_cast::<u32>().load_vector_with::<4>(k, 0, access);
            return RowElements::<T> { vectors: vec![words], singles: Vec::new() }.to_f32();
        }
        if step == 0 {
            return vec![x.load_with(k, 0, access).cvt::<f32>(); vector as usize];
        }
        (0..size).map(|i| x.load_with(k, i * step, access).cvt::<f32>()).collect()
    }
}
