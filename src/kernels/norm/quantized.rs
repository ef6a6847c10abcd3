//! [`QuantizedNorm`]: a norm whose results are quantised to 8-bit floats with a scale for each 128
//! columns.

use std::marker::PhantomData;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Element, GlobalMut, Kernel, Target, Untyped, WARP};
use crate::runtime::{ArgList, Buffer, Function, LoadOptions};
use crate::tensor::rows::{RowAccess, RowTile, tree};

use super::super::quantize::{Scale, largest};
use super::super::ready::{Built, Launch, ReadyKernel};
use super::super::rows::{
    Input, Output, RowConfig, RowError, RowProblem, check_len, with_elements,
};
use super::super::scaled_gemm::{BLOCK, ScaleStrides};
use super::{NormArgs, NormConfig, NormKind, OwnRow, Params, Results, body};

/// The rows of a [`QuantizedNorm`], and the order of the scales. Rows of the input must be
/// multiples of 16 bytes.
///
/// ```
/// use tilewright::kernels::norm::QuantizedNormProblem;
///
/// let problem = QuantizedNormProblem::new(100, 1000);
/// assert_eq!((problem.scales.row, problem.scale_len()), (8, 800));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedNormProblem {
    /// The sizes and pitches of the matrices.
    pub rows: RowProblem,
    /// Where the scale of a row and a block of 128 columns is.
    pub scales: ScaleStrides,
}

impl QuantizedNormProblem {
    /// Makes the problem of packed matrices with row-major scales.
    pub const fn new(rows: u32, columns: u32) -> QuantizedNormProblem {
        let scales = ScaleStrides::row_major(columns.div_ceil(BLOCK));
        QuantizedNormProblem { rows: RowProblem::new(rows, columns), scales }
    }

    /// Returns how many elements the scales' buffer needs.
    #[inline]
    pub fn scale_len(&self) -> u64 {
        self.scales.len(self.rows.rows, self.rows.columns.div_ceil(BLOCK))
    }
}

impl NormConfig {
    /// Returns the configuration of a [`QuantizedNorm`]: as [`new`](NormConfig::new), but at least
    /// as many threads share a row as have 128 columns in a vector each.
    ///
    /// # Errors
    /// Those of [`new`](NormConfig::new).
    #[inline]
    pub fn quantized(
        kind: NormKind,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Result<Self, RowError> {
        let mut config = NormConfig::new(kind, target, input, problem)?;
        let (tile, lanes) = (&mut config.rows.tile, lanes_of_block(input));
        if tile.team < lanes {
            tile.vectors = (tile.team * tile.vectors).div_ceil(lanes);
            tile.team = lanes;
        }
        Ok(config)
    }
}

/// Returns how many adjacent threads hold the 128 columns of a block.
fn lanes_of_block(input: Scalar) -> u32 {
    BLOCK / RowTile::vector_len(input)
}

/// A [`Norm`](super::Norm) whose results are quantised as by
/// [`Quantize`](crate::kernels::quantize::Quantize) with
/// [`Row128`](crate::kernels::quantize::ScaleBlock::Row128): A of a
/// [`ScaledGemm`](crate::kernels::scaled_gemm::ScaledGemm), without writing the unquantised matrix. `D` is
/// [`f8e4m3`](crate::ir::f8e4m3) or [`f8e5m2`](crate::ir::f8e5m2). The results of the norm are not
/// rounded before they are quantised.
///
/// A launch takes a [`QuantizedNormProblem`] and [`QuantizedNormArgs`]. It does nothing if the
/// matrix is empty.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::{Target, bf16, f8e4m3};
/// use tilewright::kernels::norm::{
///     NormArgs, NormConfig, NormKind, QuantizedNorm, QuantizedNormArgs, QuantizedNormProblem,
/// };
/// use tilewright::runtime::Device;
///
/// let device = Device::sim_for(Target::SM_90)?;
/// let problem = QuantizedNormProblem::new(1, 256);
/// let rows = &problem.rows;
/// let config = NormConfig::quantized(NormKind::Rms, device.target(), Scalar::Bf16, rows)?;
/// let norm = QuantizedNorm::<bf16, f8e4m3>::new(config)?.load(&device)?;
/// // The root of the mean square is 5.
/// let x: Vec<_> = (0..256).map(|i| bf16::from_f32(if i < 128 { 1.0 } else { 7.0 })).collect();
/// let (x, mut y) = (device.upload(&x)?, device.zeros::<f8e4m3>(256)?);
/// let mut scales = device.zeros::<f32>(2)?;
/// let norm_args = NormArgs::new(&x, &mut y).epsilon(0.0);
/// norm.launch(&problem, QuantizedNormArgs { norm: norm_args, scales: &mut scales })?;
/// let scales = scales.to_vec()?;
/// assert!((scales[0] * 448.0 - 0.2).abs() < 1e-6 && (scales[1] * 448.0 - 1.4).abs() < 1e-6);
/// assert!(y.to_vec()?.iter().all(|y| y.to_f32() == 448.0));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QuantizedNorm<T, D> {
    config: NormConfig,
    types: PhantomData<fn(T) -> D>,
}

/// The buffers and factors of a launch, for a [`QuantizedNorm`].
pub struct QuantizedNormArgs<'h, T: Element, D: Element> {
    /// Those of the norm. The output gets the quantised results.
    pub norm: NormArgs<'h, T, D>,
    /// The scales.
    pub scales: &'h mut Buffer<f32>,
}

crate::params! {
    /// The scales, and the distances from a row's to the next row's and from a block's to the next
    /// block's.
    struct ScaleParams => ScalesAt<'b> {
        scales: GlobalMut<f32>,
        strides: [i32; 2],
    }
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> QuantizedNorm<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// [`RowError::Element`] for an unsupported type, [`RowError::Tile`] for a tile in which 128
    /// columns are not in adjacent threads: start from [`NormConfig::quantized`].
    #[inline]
    pub fn new(config: NormConfig) -> Result<Built<Self>, RowError> {
        config.rows.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        let Some(largest) = largest(D::SCALAR) else {
            let (operand, expected) = ("the output", "an 8-bit float");
            return Err(RowError::Element { operand, found: D::SCALAR, expected });
        };
        let RowTile { access, team, .. } = config.rows.tile;
        if access != RowAccess::Aligned || !team.is_multiple_of(lanes_of_block(T::SCALAR)) {
            let rule = "a quantised norm needs aligned rows, and a team whose vectors are whole \
                        blocks of 128 columns";
            return Err(RowError::Tile { rule });
        }
        let kernel = with_elements(T::SCALAR, D::SCALAR, || build(&config, largest))?;
        Ok(Built::new(QuantizedNorm { config, types: PhantomData }, kernel))
    }
}

impl<T, D> ReadyKernel for QuantizedNorm<T, D>
where
    T: VectorElement<2> + Converted,
    D: VectorElement<2> + Converted,
{
    type Config = NormConfig;
    type Params = Untyped;
    type Problem = QuantizedNormProblem;
    type Args<'a> = QuantizedNormArgs<'a, T, D>;
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &NormConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Those of a [`Norm`](super::Norm), scales that are too short, and
    /// [`RowError::TooLarge`] for too many.
    fn launch(
        &self,
        problem: &QuantizedNormProblem,
        args: QuantizedNormArgs<'_, T, D>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        let QuantizedNormArgs { norm, scales } = args;
        check_len("the scales", scales.len(), problem.scale_len())?;
        if problem.scale_len() >= 1 << 31 {
            return Err(RowError::TooLarge { operand: "the scales" });
        }
        let ScaleStrides { row, block } = problem.scales;
        launch.start_bound(|list: &mut ArgList<'_>| {
            let grid = self.config.bind(&problem.rows, norm.into(), list)?;
            if grid.is_some() {
                list.buffer_mut(scales.into());
                list.scalars([row as i32, block as i32]);
            }
            Ok(grid)
        })
    }
}

#[inline]
fn build(config: &NormConfig, largest: f32) -> Result<Kernel<Untyped>, BuildErrors> {
    let (tile, target) = (config.rows.tile, config.rows.target);
    let name = format!("quantized_{}_{}_{}", config, Input::scalar(), Output::scalar());
    let (options, name) = (tile.options(), name.as_str());
    if config.residual {
        type P = (Params, GlobalMut<Input>, ScaleParams);
        let kernel =
            Kernel::<P>::build_with(options, name, target, |k, (params, residual, scales)| {
                body(k, config, &params, Some(residual), |k, row, results| {
                    store(k, tile, row, results, &scales, largest);
                });
            })?;
        return Ok(kernel.untyped());
    }
    let kernel = Kernel::<(Params, ScaleParams)>::build_with(
        options,
        name,
        target,
        |k, (params, scales)| {
            body(k, config, &params, None, |k, row, results| {
                store(k, tile, row, results, &scales, largest);
            });
        },
    )?;
    Ok(kernel.untyped())
}

/// Quantises a thread's results. Each of its vectors is in a different block of 128 columns, and
/// adjacent lanes hold the rest of the block.
#[inline]
fn store<'b>(
    k: &mut Body<'b, '_>,
    tile: RowTile,
    row: &OwnRow<'b>,
    results: Results<'_, 'b>,
    scales: &ScalesAt<'b>,
    largest: f32,
) {
    let (part, vector) = (&row.part, RowTile::vector_len(Input::scalar()));
    let lanes = lanes_of_block(Input::scalar());
    let leads = (k.lane_id() & (lanes - 1).cast_signed()).eq(0);
    let first = row.output().offset(part.first_column());
    // A vector at a time, so that few results are in registers at once.
    for number in 0..tile.vectors {
        let values: Vec<_> = (&mut *results).take(vector as usize).collect();
        let absolute: Vec<_> = values.iter().map(|value| value.abs()).collect();
        let column = part.first_column() + number.cast_signed() * part.stride();
        // Beyond the row are the results of zeros, which a mean can make large.
        let is_inside = column.lt(part.vector_end());
        let own = tree(k.constant(0.0), &absolute, |a, b| a.max(b));
        let mut max = is_inside.select(own, k.constant(0.0));
        let mut distance = lanes / 2;
        while distance > 0 {
            max = max.max(k.shfl_bfly(WARP, max, distance));
            distance /= 2;
        }
        let Scale { scale, inverse } = Scale::of(max, largest);
        part.store_vector(first, number, values.iter().map(|value| *value * inverse));
        k.if_(leads & is_inside, |_| {
            let [to_row, to_block] = scales.strides;
            let at = row.index.cvt::<i32>() * to_row + column / BLOCK * to_block;
            scales.scales.store(at, scale);
        });
    }
}
