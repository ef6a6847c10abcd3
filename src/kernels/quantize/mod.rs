//! Quantisation to 8-bit floats with one scale per row, per 1 x 128 or per 128 x 128 elements: what
//! a [`ScaledGemm`](super::scaled_gemm::ScaledGemm) multiplies.

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{
    BuildErrors, Element, Global, GlobalMut, Group, Kernel, Target, Untyped, Val, f8e4m3, f8e5m2,
};
use crate::runtime::{Buffer, Function, Grid, LoadOptions};
use crate::tensor::rows::{RowAccess, RowFragment, RowPartition, RowTile, tree};

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{Input, Output, RowConfig, RowError, RowProblem, check_len, with_elements};
use super::scaled_gemm::{BLOCK, ScaleStrides};

/// Which elements of a matrix share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleBlock {
    /// A row.
    Row,
    /// 128 adjacent elements of a row: for activations, and A of a scaled GEMM.
    Row128,
    /// 128 x 128 elements: for weights, and B of a scaled GEMM.
    Square128,
}

/// What a [`Quantize`] kernel quantises.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::{Target, bf16, f8e4m3};
/// use tilewright::kernels::quantize::{
///     Quantize, QuantizeArgs, QuantizeConfig, QuantizeProblem, ScaleBlock,
/// };
/// use tilewright::runtime::Device;
///
/// let device = Device::sim_for(Target::SM_90)?;
/// // One row: 128 gates, which are so large that `silu` leaves them as they are, then 128 of up.
/// let problem = QuantizeProblem::new(ScaleBlock::Row128, 1, 128);
/// let config = QuantizeConfig::new(ScaleBlock::Row128, device.target(), Scalar::Bf16, &problem)?;
/// let quantize = Quantize::<bf16, f8e4m3>::new(config.silu_mul())?.load(&device)?;
/// let x = [[64.0; 128], [7.0; 128]].concat();
/// let x = device.upload(&x.into_iter().map(bf16::from_f32).collect::<Vec<_>>())?;
/// let (mut y, mut scales) = (device.zeros::<f8e4m3>(128)?, device.zeros::<f32>(1)?);
/// quantize.launch(&problem, QuantizeArgs { x: &x, y: &mut y, scales: &mut scales })?;
/// assert!((scales.to_vec()?[0] - 1.0).abs() < 1e-6);
/// assert!(y.to_vec()?.iter().all(|y| y.to_f32() == 448.0));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantizeInput {
    /// The elements of x.
    #[default]
    Elements,
    /// SwiGLU: `silu(gate) * up` with `silu(g) = g / (1 + exp(-g))`. A row of x has the gate's
    /// columns first, then as many of up. The products are not rounded before they are quantised.
    SiluMul,
}

/// What decides the generated code of a [`Quantize`] kernel. [`new`](QuantizeConfig::new) chooses
/// it for a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeConfig {
    /// Which elements share a scale.
    pub block: ScaleBlock,
    /// What is quantised.
    pub input: QuantizeInput,
    /// The target, and how threads share a row, or the part of a row in a block.
    pub rows: RowConfig,
}

impl QuantizeConfig {
    /// Returns the configuration for a matrix of this size with elements of this type, which
    /// quantises the elements of x. Call [`silu_mul`](QuantizeConfig::silu_mul) for SwiGLU.
    ///
    /// # Errors
    /// For scales per row, those of [`RowConfig::new`].
    #[inline]
    pub fn new(
        block: ScaleBlock,
        target: Target,
        input: Scalar,
        problem: &QuantizeProblem,
    ) -> Result<Self, RowError> {
        let vectors = BLOCK / RowTile::vector_len(input);
        let of_team = |team: u32| {
            let (vectors, access) = (vectors / team, RowAccess::Aligned);
            let tile = RowTile { threads: 256, team, cluster: 1, vectors, access };
            RowConfig { target, tile }
        };
        let rows = match block {
            ScaleBlock::Row => {
                RowConfig::new(target, input, &RowProblem::new(problem.rows, problem.columns))?
            }
            ScaleBlock::Row128 => of_team(8),
            ScaleBlock::Square128 => of_team(16),
        };
        Ok(QuantizeConfig { block, input: QuantizeInput::Elements, rows })
    }

    /// Quantises [`QuantizeInput::SiluMul`].
    pub fn silu_mul(self) -> Self {
        QuantizeConfig { input: QuantizeInput::SiluMul, ..self }
    }

    /// Returns how many columns x has for each column of y.
    fn input_columns(&self) -> u32 {
        match self.input {
            QuantizeInput::Elements => 1,
            QuantizeInput::SiluMul => 2,
        }
    }

    /// Returns how many rows of a block a thread has a part of.
    fn passes(&self) -> u32 {
        match self.block {
            ScaleBlock::Row | ScaleBlock::Row128 => 1,
            ScaleBlock::Square128 => BLOCK / self.rows.tile.rows_per_block().max(1),
        }
    }

    #[inline]
    fn check(&self, input: Scalar, output: Scalar) -> Result<(), RowError> {
        self.rows.check()?;
        RowConfig::check_element("the input", input, false)?;
        if largest(output).is_none() {
            let (operand, expected) = ("the output", "an 8-bit float");
            return Err(RowError::Element { operand, found: output, expected });
        }
        let RowTile { threads, team, access, .. } = self.rows.tile;
        if access != RowAccess::Aligned {
            return Err(RowError::Tile { rule: "a quantisation needs aligned rows" });
        }
        let rows = threads / team.max(1);
        let fits = match self.block {
            ScaleBlock::Row => true,
            ScaleBlock::Row128 => self.rows.tile.capacity(input) == BLOCK,
            ScaleBlock::Square128 => {
                self.rows.tile.capacity(input) == BLOCK && BLOCK.is_multiple_of(rows)
            }
        };
        if !fits {
            let rule = "the threads that share a row must hold 128 elements, and 128 rows must be \
                        a multiple of a block's rows";
            return Err(RowError::Tile { rule });
        }
        Ok(())
    }
}

/// Prints the configuration's name: `quantize_row`, `quantize_1x128` or `quantize_128x128`,
/// `silu_mul` for SwiGLU, then the name of the [`RowConfig`].
impl fmt::Display for QuantizeConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = match self.block {
            ScaleBlock::Row => "row",
            ScaleBlock::Row128 => "1x128",
            ScaleBlock::Square128 => "128x128",
        };
        let input = match self.input {
            QuantizeInput::Elements => "",
            QuantizeInput::SiluMul => "silu_mul_",
        };
        write!(f, "quantize_{block}_{input}{}", self.rows)
    }
}

/// The sizes of a row-major quantised matrix, and the order of its scales. Rows of the input, and
/// both halves of them for [`QuantizeInput::SiluMul`], must be multiples of 16 bytes.
///
/// ```
/// use tilewright::kernels::quantize::{QuantizeProblem, ScaleBlock};
/// use tilewright::kernels::scaled_gemm::ScaleStrides;
///
/// let problem = QuantizeProblem::new(ScaleBlock::Row128, 100, 1024);
/// assert_eq!(problem.scales, ScaleStrides::row_major(8));
/// assert_eq!(QuantizeProblem::new(ScaleBlock::Square128, 100, 1000).scale_blocks, [1, 8]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeProblem {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// How many scales there are along the rows and along the columns.
    pub scale_blocks: [u32; 2],
    /// Where the scales are.
    pub scales: ScaleStrides,
}

impl QuantizeProblem {
    /// Makes the problem with row-major scales. Set `scales` for others.
    pub const fn new(block: ScaleBlock, rows: u32, columns: u32) -> QuantizeProblem {
        let scale_blocks = match block {
            ScaleBlock::Row => [rows, 1],
            ScaleBlock::Row128 => [rows, columns.div_ceil(BLOCK)],
            ScaleBlock::Square128 => [rows.div_ceil(BLOCK), columns.div_ceil(BLOCK)],
        };
        let scales = ScaleStrides::row_major(scale_blocks[1]);
        QuantizeProblem { rows, columns, scale_blocks, scales }
    }

    /// Returns how many elements the scales' buffer needs.
    #[inline]
    pub fn scale_len(&self) -> u64 {
        let [rows, columns] = self.scale_blocks;
        self.scales.len(rows, columns)
    }
}

/// Input, output and scales; rows and columns; scales along both; the strides of the scales.
type Params<T, D> = ((Global<T>, GlobalMut<D>, GlobalMut<f32>), [i32; 2], [i32; 2], [i32; 2]);

/// Quantises a matrix to 8-bit floats: `y = x / s` with `s = max |x| / largest` over the elements
/// that share a scale, where `largest` is 448 for `f8e4m3` and 57344 for `f8e5m2`. Then `s * y` is
/// x, rounded. `T` is `f32`, `f16` or `bf16`.
///
/// With [`silu_mul`](QuantizeConfig::silu_mul), x is `silu(gate) * up`, as between the two GEMMs of
/// a feed-forward layer.
///
/// If all elements of a block are 0 or tiny, its scale is 2^-126. NaN stays NaN, and does not
/// change the scale.
///
/// It reads each element once. A launch takes a [`QuantizeProblem`] and [`QuantizeArgs`]. It does
/// nothing if the matrix is empty.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::{Target, bf16, f8e4m3};
/// use tilewright::kernels::quantize::{
///     Quantize, QuantizeArgs, QuantizeConfig, QuantizeProblem, ScaleBlock,
/// };
/// use tilewright::runtime::Device;
///
/// let device = Device::sim_for(Target::SM_90)?;
/// let problem = QuantizeProblem::new(ScaleBlock::Row128, 2, 256);
/// let config = QuantizeConfig::new(ScaleBlock::Row128, device.target(), Scalar::Bf16, &problem)?;
/// let quantize = Quantize::<bf16, f8e4m3>::new(config)?.load(&device)?;
/// let x: Vec<bf16> = (0..512).map(|i| bf16::from_f32((i / 128) as f32 * 7.0)).collect();
/// let (x, mut y) = (device.upload(&x)?, device.zeros::<f8e4m3>(512)?);
/// let mut scales = device.zeros::<f32>(4)?;
/// quantize.launch(&problem, QuantizeArgs { x: &x, y: &mut y, scales: &mut scales })?;
/// let (y, scales) = (y.to_vec()?, scales.to_vec()?);
/// assert_eq!((y[0].to_f32(), y[128].to_f32()), (0.0, 448.0));
/// assert_eq!(scales[1..], [7.0 / 448.0, 14.0 / 448.0, 21.0 / 448.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Quantize<T, D> {
    config: QuantizeConfig,
    types: PhantomData<fn(T) -> D>,
}

/// The buffers of a launch, for a [`Quantize`].
pub struct QuantizeArgs<'h, T, D> {
    /// The matrix, row-major; for [`QuantizeInput::SiluMul`] with twice as many columns.
    pub x: &'h Buffer<T>,
    /// The quantised matrix.
    pub y: &'h mut Buffer<D>,
    /// The scales.
    pub scales: &'h mut Buffer<f32>,
}

impl<T: Element + Converted, D: VectorElement<2> + Converted> Quantize<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`] for an unsupported type, [`RowError::Tile`] for an unsupported tile.
    #[inline]
    pub fn new(config: QuantizeConfig) -> Result<Built<Self>, RowError> {
        config.check(T::SCALAR, D::SCALAR)?;
        let kernel = with_elements(T::SCALAR, D::SCALAR, || build(&config))?;
        Ok(Built::new(Quantize { config, types: PhantomData }, kernel))
    }
}

impl<T: Element + Converted, D: VectorElement<2> + Converted> ReadyKernel for Quantize<T, D> {
    type Config = QuantizeConfig;
    type Params = Untyped;
    type Problem = QuantizeProblem;
    type Args<'a> = QuantizeArgs<'a, T, D>;
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &QuantizeConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// [`RowError::Access`] if rows are not multiples of 16 bytes, [`RowError::Columns`] if a row
    /// is longer than the kernel was built for, [`RowError::TooLarge`], errors for buffers that are
    /// too short or misaligned, and those of [`Function::launch`].
    fn launch(
        &self,
        problem: &QuantizeProblem,
        args: QuantizeArgs<'_, T, D>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        let QuantizeProblem { rows, columns, scale_blocks, scales: strides } = *problem;
        let (QuantizeArgs { x, y, scales }, tile) = (args, &self.config.rows.tile);
        if scale_blocks != QuantizeProblem::new(self.config.block, rows, columns).scale_blocks {
            let (operand, rule) = ("the scales", "the problem has other blocks than the kernel");
            return Err(RowError::Layout { operand, rule });
        }
        if !columns.is_multiple_of(RowTile::vector_len(T::SCALAR)) {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        let (len, max) = (u64::from(rows) * u64::from(columns), tile.capacity(T::SCALAR));
        if self.config.block == ScaleBlock::Row && columns > max {
            return Err(RowError::Columns { columns, max });
        }
        check_len("the input", x.len(), len * u64::from(self.config.input_columns()))?;
        check_len("the output", y.len(), len)?;
        check_len("the scales", scales.len(), problem.scale_len())?;
        for (operand, is_aligned) in
            [("the input", x.is_aligned_to(16)), ("the output", y.is_aligned_to(16))]
        {
            if !is_aligned {
                return Err(RowError::Address { operand });
            }
        }
        let [row_blocks, column_blocks] = scale_blocks;
        let blocks = u64::from(row_blocks) * u64::from(column_blocks);
        let largest =
            [problem.scale_len(), blocks + u64::from(BLOCK), u64::from(rows) + u64::from(BLOCK)];
        if largest.into_iter().any(|count| count >= 1 << 31) || len >= 1 << 40 {
            return Err(RowError::TooLarge { operand: "the input" });
        }
        if len == 0 {
            return Ok(());
        }
        let grid = match self.config.block {
            ScaleBlock::Square128 => blocks as u32,
            ScaleBlock::Row | ScaleBlock::Row128 => tile.blocks(blocks as u32),
        };
        let pair = |pair: [u32; 2]| pair.map(|count| count as i32);
        let sizes = (pair([rows, columns]), pair(scale_blocks), pair([strides.row, strides.block]));
        let grid = Grid::new([grid, 1, 1], [tile.threads, 1, 1]);
        Ok(launch.start_as::<Params<T, D>>(grid, ((x, y, scales), sizes.0, sizes.1, sizes.2))?)
    }
}

/// Returns the largest number of an 8-bit float type.
pub(in crate::kernels) fn largest(elem: Scalar) -> Option<f32> {
    match elem {
        Scalar::F8E4M3 => Some(f8e4m3::MAX.to_f32()),
        Scalar::F8E5M2 => Some(f8e5m2::MAX.to_f32()),
        _ => None,
    }
}

/// The scale of a block, and its reciprocal.
pub(in crate::kernels) struct Scale<'b> {
    pub(in crate::kernels) scale: Val<'b, f32>,
    pub(in crate::kernels) inverse: Val<'b, f32>,
}

impl<'b> Scale<'b> {
    /// Returns the scale with which `max` becomes `largest`. It is no subnormal number, so that its
    /// reciprocal is finite.
    #[inline]
    pub(in crate::kernels) fn of(max: Val<'b, f32>, largest: f32) -> Scale<'b> {
        let max = max.max(largest * f32::MIN_POSITIVE);
        Scale { scale: max / largest, inverse: max.constant(largest) / max }
    }
}

/// What a thread quantises of a row.
enum Values<'b> {
    Elements(RowFragment<'b, Input>),
    Products(Vec<Val<'b, f32>>),
}

impl<'b> Values<'b> {
    /// Loads a thread's share of gate and up, and returns `silu(gate) * up`.
    #[inline]
    fn products(
        part: &RowPartition<'b>,
        gate: Val<'b, Global<Input>>,
        up: Val<'b, Global<Input>>,
    ) -> Values<'b> {
        let [gate, up] = [gate, up].map(|from| part.load_elements(from, 0.0));
        let pairs = gate.iter_f32().zip(up.iter_f32());
        // From -100 on, the function is 0. It would be NaN for negative infinity.
        let products = pairs.map(|(gate, up)| gate.max_nan(-100.0).silu_fast() * up);
        Values::Products(products.collect())
    }

    #[inline]
    fn iter(&self) -> Box<dyn Iterator<Item = Val<'b, f32>> + '_> {
        match self {
            Values::Elements(elements) => Box::new(elements.iter_f32()),
            Values::Products(products) => Box::new(products.iter().copied()),
        }
    }
}

/// The threads of a team share 128 elements of a row, or a whole row. For 128 x 128 elements, a
/// block has a part of several rows in each pass, and all threads share the scale.
#[inline]
fn build(config: &QuantizeConfig) -> Result<Kernel<Params<Input, Output>>, BuildErrors> {
    let QuantizeConfig { block, rows: RowConfig { target, tile }, .. } = *config;
    let name = format!("{config}_{}_{}", Input::scalar(), Output::scalar());
    let largest = largest(Output::scalar()).unwrap_or(1.0);
    Kernel::<Params<Input, Output>>::build_with(
        tile.options(),
        &name,
        target,
        |k, ((x, y, scales), [rows, columns], [row_blocks, column_blocks], strides)| {
            let index = match block {
                ScaleBlock::Square128 => k.block_idx().x,
                ScaleBlock::Row | ScaleBlock::Row128 => tile.row(k),
            };
            let (row, column) = match block {
                ScaleBlock::Row => (index, k.constant(0)),
                _ => (index / column_blocks, index % column_blocks),
            };
            let is_there = row.lt(row_blocks);
            let width = match block {
                ScaleBlock::Row => columns,
                _ => (columns - column * BLOCK).min(BLOCK),
            };
            let mut parts = Vec::new();
            for pass in 0..config.passes() {
                let first = match block {
                    ScaleBlock::Square128 => {
                        let in_pass = k.thread_idx().x / tile.team;
                        row * BLOCK + pass * tile.rows_per_block() + in_pass
                    }
                    _ => row,
                };
                let before = first.cvt::<i64>() * columns.cvt::<i64>();
                let start = before + (column * BLOCK).cvt::<i64>();
                let width = (is_there & first.lt(rows)).select(width, 0);
                let part = tile.part::<Input>(k, start, width);
                let values = match config.input {
                    QuantizeInput::Elements => {
                        Values::Elements(part.load_elements(x.offset(start), 0.0))
                    }
                    QuantizeInput::SiluMul => {
                        let gate = x.offset(before + start);
                        let up = gate.offset(columns.cvt::<i64>());
                        Values::products(&part, gate, up)
                    }
                };
                parts.push((part, start, values));
            }
            let absolute: Vec<_> = parts
                .iter()
                .flat_map(|(.., values)| values.iter().map(|value| value.abs()))
                .collect();
            let own = tree(k.constant(0.0), &absolute, |a, b| a.max(b));
            let max = match block {
                ScaleBlock::Square128 => k.reduce(Group::Block, own, |_, a, b| a.max(b)),
                _ => {
                    let [max] = parts[0].0.reduce([own], |_, [a], [b]| [a.max(b)]);
                    max
                }
            };
            let Scale { scale, inverse } = Scale::of(max, largest);
            for (part, start, values) in &parts {
                part.store(y.offset(*start), values.iter().map(|value| value * inverse));
            }
            let leads = match block {
                ScaleBlock::Square128 => k.thread_idx().x.eq(0),
                _ => parts[0].0.is_leader(),
            };
            k.if_(leads & is_there, |_| {
                scales.store(row * strides[0] + column * strides[1], scale);
            });
        },
    )
}
