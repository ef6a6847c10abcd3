//! [`PackedWeights`]: packs 4-bit weights and scales on the host, from the order of a checkpoint
//! into the order in which the kernel's threads read them. Both orders are layouts.

use crate::ir::types::Scalar;
use crate::ir::{Element, bf16, f16};
use crate::layout::{Layout, LayoutError, LayoutRef};

use super::error::{SmallGemmError, some_or_no};
use super::problem::SmallGemmProblem;
use super::weights::{WeightFormat, ZeroPoints};

/// How a checkpoint stores 4-bit integers. Each 32-bit word has eight, from its lowest bits up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Int4Packing {
    /// One column of D after the other: weights `[N, K]`, scales and zero points `[N, groups]`.
    RowMajor,
    /// GPTQ's `qweight`, `[K / 8, N]` words with eight elements of K each, and `qzeros`,
    /// `[groups, N / 8]` words, which hold the zero points minus 1. Scales are `[groups, N]`. Sort a
    /// checkpoint with act-order (`g_idx`) along K first.
    Gptq,
    /// The same with zero points that are stored as they are.
    GptqV2,
    /// AWQ's `qweight`, `[K, N / 8]` words with eight columns each in the order 0 2 4 6 1 3 5 7, and
    /// `qzeros`, `[groups, N / 8]` words in the same order. Scales are `[groups, N]`.
    Awq,
}

/// Columns of D in the order 0 2 4 6 1 3 5 7 within a word, as shape and strides of one mode.
const AWQ_ORDER: [(i64, i64); 2] = [(2, 4), (4, 1)];

impl Int4Packing {
    /// Returns the layout from `(column of D, element of K)` to the index of a weight, which counts
    /// integers.
    ///
    /// ```
    /// use tilewright::kernels::small_gemm::Int4Packing;
    ///
    /// assert_eq!(Int4Packing::Gptq.layout(64, 32)?.to_string(), "(64,(8,4)):(8,(1,512))");
    /// let awq = Int4Packing::Awq.layout(64, 32)?;
    /// assert_eq!(awq.to_string(), "((2,4,8),32):((4,1,8),64)");
    /// // Column 1 is the fifth integer of its word.
    /// assert_eq!(awq.crd2idx((1, 0))?.as_static(), Some(4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn layout(self, columns: u32, depth: u32) -> Result<Layout, LayoutError> {
        match self {
            Int4Packing::RowMajor => Layout::new((columns, depth), (depth, 1)),
            Int4Packing::Gptq | Int4Packing::GptqV2 => {
                let of_word = i64::from(columns) * 8;
                Layout::new((columns, (8, depth.div_ceil(8))), (8, (1, of_word)))
            }
            Int4Packing::Awq => Self::awq(columns, depth),
        }
    }

    /// Returns the layout from `(column of D, group)` to the index of a zero point.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn zero_layout(self, columns: u32, groups: u32) -> Result<Layout, LayoutError> {
        match self {
            Int4Packing::RowMajor => Layout::new((columns, groups), (groups, 1)),
            Int4Packing::Gptq | Int4Packing::GptqV2 => {
                Layout::new((columns, groups), (1, columns.next_multiple_of(8)))
            }
            Int4Packing::Awq => Self::awq(columns, groups),
        }
    }

    /// Returns the layout from `(column of D, group)` to the index of a scale.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn scale_layout(self, columns: u32, groups: u32) -> Result<Layout, LayoutError> {
        match self {
            Int4Packing::RowMajor => Layout::new((columns, groups), (groups, 1)),
            _ => Layout::new((columns, groups), (1, columns)),
        }
    }

    /// Returns the layout of a matrix with rows of words in AWQ's order.
    fn awq(columns: u32, rows: u32) -> Result<Layout, LayoutError> {
        let [(two, of_two), (four, of_four)] = AWQ_ORDER;
        let words = columns.div_ceil(8);
        Layout::new(((two, four, words), rows), ((of_two, of_four, 8), i64::from(words) * 8))
    }

    /// Returns what is added to a stored zero point.
    fn zero_offset(self) -> f32 {
        if self == Int4Packing::Gptq { 1.0 } else { 0.0 }
    }
}

/// A matrix of 4-bit weights as a checkpoint has it, for [`PackedWeights::int4`].
#[derive(Clone, Copy, Debug)]
pub struct Int4Matrix<'w, T> {
    /// The order of everything below.
    pub packing: Int4Packing,
    /// The weights.
    pub words: &'w [u32],
    /// The scales.
    pub scales: &'w [T],
    /// The zero points, for [`ZeroPoints::Present`].
    pub zeros: Option<&'w [u32]>,
}

/// 4-bit weights in the order in which the kernel's threads read them. Upload both parts.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedWeights<T> {
    /// The weights, eight 4-bit integers per word.
    pub words: Vec<u32>,
    /// The scales and zero points.
    pub scales: Vec<T>,
}

impl<T: Element> PackedWeights<T> {
    /// Packs the weights of a problem.
    ///
    /// # Errors
    /// Those of [`SmallGemmProblem::check`]; [`SmallGemmError::Format`] if `format` is not
    /// [`WeightFormat::Int4`]; [`SmallGemmError::Element`] if `T` is neither `f16` nor `bf16`;
    /// [`SmallGemmError::Length`] if something is too short; [`SmallGemmError::ZeroPoints`] if there
    /// are zero points and the format has none, or if they are missing.
    pub fn int4(
        format: WeightFormat,
        problem: &SmallGemmProblem,
        matrix: &Int4Matrix<'_, T>,
    ) -> Result<Self, SmallGemmError> {
        problem.check()?;
        let element = element::<T>()?;
        let WeightFormat::Int4 { group, zeros: wanted } = format else {
            return Err(SmallGemmError::Format { found: format });
        };
        let SmallGemmProblem { columns, depth, .. } = *problem;
        let Int4Matrix { packing, words, scales, zeros } = *matrix;
        let groups = depth.div_ceil(group.len(depth));
        let (needed, found) = (wanted == ZeroPoints::Present, zeros.is_some());
        if needed != found {
            let [found, needed] = [found, needed].map(some_or_no);
            return Err(SmallGemmError::ZeroPoints { found, needed });
        }
        let weights = Axes::new(&packing.layout(columns, depth)?)?;
        let of_zeros = Axes::new(&packing.zero_layout(columns, groups)?)?;
        check_len("words", words.len(), weights.len().div_ceil(8))?;
        if let Some(zeros) = zeros {
            check_len("words of zero points", zeros.len(), of_zeros.len().div_ceil(8))?;
        }
        let of_scales = packing.scale_layout(columns, groups)?;
        let mut packed = PackedWeights {
            words: vec![0; format.weights(columns, depth) as usize],
            scales: pack_scales_of(format, problem, scales, &of_scales)?,
        };
        // The kernel takes two's complement if there are no zero points.
        let flipped = if needed { 0 } else { 8 };
        let to = Axes::new(&format.layout(columns, depth)?)?;
        for column in 0..columns as usize {
            for k in 0..depth as usize {
                let (from, to) = (weights.at(column, k), to.at(column, k));
                let weight = nibble(words, from) ^ flipped;
                if let Some(word) = packed.words.get_mut(to / 8) {
                    *word |= weight << (to % 8 * 4);
                }
            }
        }
        let Some(zeros) = zeros else { return Ok(packed) };
        let to = Axes::new(&format.scale_layout(columns, depth)?)?;
        for column in 0..columns as usize {
            for group in 0..groups as usize {
                let zero = nibble(zeros, of_zeros.at(column, group)) as f32;
                let to = to.at(column, group) + 2;
                packed.scales[to] = element(zero + packing.zero_offset());
            }
        }
        Ok(packed)
    }
}

/// Packs the scales of 8-bit weights, given as a row-major `[N, groups]` matrix, into the order in
/// which the kernel's threads read them.
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::kernels::small_gemm::{
///     ScaleGroup, SmallGemmProblem, WeightFormat, pack_scales,
/// };
///
/// let format = WeightFormat::Int8 { group: ScaleGroup::PerColumn };
/// let scales = [1.0, 2.0].map(bf16::from_f32);
/// let packed = pack_scales(format, &SmallGemmProblem::new(1, 2, 64), &scales)?;
/// // The scales of columns 0 and 8 are adjacent, then come those of columns 1 and 9.
/// assert_eq!(packed[..3], [1.0, 0.0, 2.0].map(bf16::from_f32));
/// # Ok::<(), tilewright::kernels::small_gemm::SmallGemmError>(())
/// ```
///
/// # Errors
/// Those of [`SmallGemmProblem::check`]; [`SmallGemmError::Element`] if `T` is neither `f16` nor
/// `bf16`; [`SmallGemmError::Length`] if there are too few scales.
pub fn pack_scales<T: Element>(
    format: WeightFormat,
    problem: &SmallGemmProblem,
    scales: &[T],
) -> Result<Vec<T>, SmallGemmError> {
    problem.check()?;
    let SmallGemmProblem { columns, depth, .. } = *problem;
    let Some(group) = format.group() else { return Ok(Vec::new()) };
    let groups = depth.div_ceil(group.len(depth));
    let from = Int4Packing::RowMajor.scale_layout(columns, groups)?;
    pack_scales_of(format, problem, scales, &from)
}

/// Packs scales that the layout `from` describes.
fn pack_scales_of<T: Element>(
    format: WeightFormat,
    problem: &SmallGemmProblem,
    scales: &[T],
    from: &Layout,
) -> Result<Vec<T>, SmallGemmError> {
    let SmallGemmProblem { columns, depth, .. } = *problem;
    let (zero, from) = (element::<T>()?(0.0), Axes::new(from)?);
    check_len("scales", scales.len(), from.len())?;
    let mut packed = vec![zero; format.scales(columns, depth) as usize];
    let to = Axes::new(&format.scale_layout(columns, depth)?)?;
    for column in 0..from.offsets[0].len() {
        for group in 0..from.offsets[1].len() {
            packed[to.at(column, group)] = scales[from.at(column, group)];
        }
    }
    Ok(packed)
}

/// Returns the conversion of numbers to `T`.
fn element<T: Element>() -> Result<fn(f32) -> T, SmallGemmError> {
    match T::SCALAR {
        Scalar::F16 => Ok(|value| T::from_bits(f16::from_f32(value).to_bits().into())),
        Scalar::Bf16 => Ok(|value| T::from_bits(bf16::from_f32(value).to_bits().into())),
        found => Err(SmallGemmError::Element { found }),
    }
}

/// Returns a 4-bit integer of packed words.
fn nibble(words: &[u32], at: usize) -> u32 {
    words[at / 8] >> (at % 8 * 4) & 15
}

/// A layout of a matrix, as the offset of each row and of each column: an index is their sum.
struct Axes {
    offsets: [Vec<usize>; 2],
}

impl Axes {
    fn new(layout: &Layout) -> Result<Axes, LayoutError> {
        let offsets = |mode: LayoutRef<'_>| {
            let layout = mode.to_layout();
            let size = layout.size()?.as_static().unwrap_or(0);
            (0..size).map(|i| Ok(layout.at(i)? as usize)).collect::<Result<Vec<_>, LayoutError>>()
        };
        let mut modes = layout.modes().map(offsets);
        let mut next = || modes.next().unwrap_or(Ok(Vec::new()));
        Ok(Axes { offsets: [next()?, next()?] })
    }

    fn at(&self, row: usize, column: usize) -> usize {
        self.offsets[0][row] + self.offsets[1][column]
    }

    /// Returns how many elements the matrix needs.
    fn len(&self) -> usize {
        let most = |offsets: &Vec<usize>| offsets.iter().copied().max();
        let [rows, columns] = &self.offsets;
        match (most(rows), most(columns)) {
            (Some(row), Some(column)) => row + column + 1,
            _ => 0,
        }
    }
}

fn check_len(operand: &'static str, found: usize, needed: usize) -> Result<(), SmallGemmError> {
    let (found, needed) = (found as u64, needed as u64);
    if found < needed {
        return Err(SmallGemmError::Length { operand, found, needed });
    }
    Ok(())
}
