//! [`Plan`]: an elementwise kernel without the Rust types of its elements.

use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Element, Kernel, Untyped, Val};
use crate::layout::{ComposedLayout, Layout};
use crate::runtime::{ArgList, BufferMut, BufferRef, Grid};
use crate::tensor::rows::{RowAccess, RowTile};

use super::super::rows::{Input, Output, RowConfig, RowError, check_matrix, with_elements};
use super::source::{Source, offsets_to_coordinates};
use super::{ElementwiseConfig, Params};

/// The function of the elements at one coordinate.
pub(super) trait Compute<const N: usize>:
    for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>
{
}
impl<F, const N: usize> Compute<N> for F where
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>
{
}

/// What the launches of an elementwise kernel need.
#[derive(Clone, Debug)]
pub(super) struct Plan<const N: usize> {
    pub(super) config: ElementwiseConfig,
    tile: RowTile,
    /// Element counts of the inputs and of the output, if layouts determine them.
    lens: Option<([u64; N], u64)>,
}

/// The name and the element types of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Named<'n> {
    pub(super) name: &'n str,
    pub(super) types: ElementwiseTypes,
}

/// The element types of an [untyped](super::Elementwise::untyped) elementwise kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseTypes {
    /// The type of all inputs: `f32`, `f16` or `bf16`.
    pub input: Scalar,
    /// The type of the output, which may also be an `f8`.
    pub output: Scalar,
}

impl<const N: usize> Plan<N> {
    /// Builds a kernel whose inputs are stored like the output.
    #[inline]
    pub(super) fn build(
        config: ElementwiseConfig,
        named: Named<'_>,
        f: &dyn Compute<N>,
    ) -> Result<(Kernel<Untyped>, Self), RowError> {
        let plan = Plan { config, tile: config.tile(RowAccess::Ragged), lens: None };
        plan.kernel(named, None, f)
    }

    /// Builds a kernel with these layouts.
    #[inline]
    pub(super) fn with_layouts(
        config: ElementwiseConfig,
        named: Named<'_>,
        output: &Layout,
        inputs: &[ComposedLayout; N],
        f: &dyn Compute<N>,
    ) -> Result<(Kernel<Untyped>, Self), RowError> {
        let (coordinates, len) = offsets_to_coordinates(output)?;
        let sources = inputs.iter().map(|input| Source::new(input, output, &coordinates));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let vector = config.tile(RowAccess::Aligned).vector(named.types.input).into();
        let has_vectors = sources.iter().all(|source| source.has_vectors(vector));
        let has_runs = sources.iter().all(|source| source.has_runs(vector));
        let tile = config.tile(match len % vector.unsigned_abs() {
            0 if has_vectors => RowAccess::Aligned,
            _ if has_runs && len >= vector.unsigned_abs() => RowAccess::Ragged,
            _ => RowAccess::Elements,
        });
        let mut lens = [0; N];
        lens.iter_mut().zip(&sources).for_each(|(len, source)| *len = source.len);
        let plan = Plan { config, tile, lens: Some((lens, len)) };
        plan.kernel(named, Some((&sources, len)), f)
    }

    fn kernel(
        self,
        named: Named<'_>,
        sources: Option<(&[Source], u64)>,
        f: &dyn Compute<N>,
    ) -> Result<(Kernel<Untyped>, Self), RowError> {
        let Named { name, types: ElementwiseTypes { input, output } } = named;
        RowConfig { target: self.config.target, tile: self.tile }.check()?;
        RowConfig::check_element("an input", input, false)?;
        RowConfig::check_element("the output", output, true)?;
        let kernel = with_elements(input, output, || self.body(name, sources, f))?;
        Ok((kernel, self))
    }

    /// A block treats its elements as one row, in which all vectors are whole except at the end of
    /// the buffers. Without sources, inputs are stored like the output.
    fn body(
        &self,
        name: &str,
        sources: Option<(&[Source], u64)>,
        f: &dyn Compute<N>,
    ) -> Result<Kernel<Params<Input, Output, N>>, BuildErrors> {
        let tile = &self.tile;
        let block = i64::from(tile.capacity(Input::scalar()));
        Kernel::<Params<Input, Output, N>>::build_with(
            tile.options(),
            name,
            self.config.target,
            |k, (x, y, len)| {
                let start = k.block_idx().x.cvt::<i64>() * block;
                let part = tile.part::<Input>(k, start, (len - start).min(block).cvt::<i32>());
                let mut inputs = Vec::new();
                for (number, x) in x.into_iter().enumerate() {
                    inputs.push(match sources.map(|(sources, all)| (&sources[number], all)) {
                        Some((source, all)) if !source.is_same(all) => {
                            source.load_part(k, x, &part, start, len, tile)
                        }
                        _ => part.load(x.offset(start), 0.0),
                    });
                }
                let elements = inputs.first().map_or(0, Vec::len);
                let results: Vec<_> = (0..elements)
                    .map(|i| f(k, std::array::from_fn(|input| inputs[input][i])))
                    .collect();
                part.store(y.offset(start), results);
            },
        )
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    pub(super) fn bind<'h>(
        &self,
        x: [BufferRef<'h>; N],
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let (tile, all) = (&self.tile, y.as_ref().len() as u64);
        let (lens, len) = self.lens.unwrap_or(([all; N], all));
        for (x, len) in x.into_iter().zip(lens) {
            check_matrix("an input", tile, x, len)?;
        }
        check_matrix("the output", tile, y.as_ref(), len)?;
        let capacity = x.first().map_or(1, |x| tile.capacity(x.scalar()));
        let blocks = len.div_ceil(capacity.into());
        let blocks = i32::try_from(blocks).ok().filter(|_| len < 1 << 40);
        let blocks = blocks.ok_or(RowError::TooLarge { operand: "the output" })?;
        if blocks == 0 {
            return Ok(None);
        }
        // In the order of `Params`.
        x.into_iter().for_each(|x| args.buffer(x));
        args.buffer_mut(y);
        args.scalars([len as i64]);
        Ok(Some(Grid::new([blocks as u32, 1, 1], [tile.threads, 1, 1])))
    }
}
