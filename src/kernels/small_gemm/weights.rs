//! [`WeightFormat`]: how the kernel's weights are stored, with the layouts that say where each
//! weight and each scale is.

use std::fmt;

use crate::ir::types::Scalar;
use crate::layout::{Layout, LayoutError};

use super::config::TILE;

/// Which elements along K share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleGroup {
    /// 32 adjacent elements.
    Of32,
    /// 64 adjacent elements.
    Of64,
    /// 128 adjacent elements.
    Of128,
    /// All of them, so that there is one scale per column of D.
    PerColumn,
}

impl ScaleGroup {
    /// Every group, from the smallest on.
    pub const ALL: [ScaleGroup; 4] =
        [ScaleGroup::Of32, ScaleGroup::Of64, ScaleGroup::Of128, ScaleGroup::PerColumn];

    /// Returns the elements of a group, for `depth` elements along K.
    pub fn len(self, depth: u32) -> u32 {
        match self {
            ScaleGroup::Of32 => 32,
            ScaleGroup::Of64 => 64,
            ScaleGroup::Of128 => 128,
            ScaleGroup::PerColumn => depth.max(1),
        }
    }
}

/// Whether scales have zero points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZeroPoints {
    /// The 4-bit integer `n` stands for `scale * (n - 8)`.
    Absent,
    /// It stands for `scale * (n - zero)`, with a zero point for each scale.
    Present,
}

/// How weights are stored. 4-bit integers are packed once, by
/// [`PackedWeights`](super::PackedWeights). All other weights are a row-major `[N, K]` matrix, as a
/// checkpoint has it. Scales have A's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// Unsigned 4-bit integers.
    Int4 {
        /// Which elements share a scale.
        group: ScaleGroup,
        /// Whether there are zero points.
        zeros: ZeroPoints,
    },
    /// Signed 8-bit integers.
    Int8 {
        /// Which elements share a scale: not [`ScaleGroup::Of32`].
        group: ScaleGroup,
    },
    /// 8-bit floats, all finite.
    E4m3 {
        /// Which elements share a scale: not [`ScaleGroup::Of32`].
        group: ScaleGroup,
    },
    /// Weights of A's type, without scales.
    Full,
}

impl WeightFormat {
    /// Returns all formats, for example to test a program with each.
    pub fn all() -> impl Iterator<Item = WeightFormat> {
        let zeros = [ZeroPoints::Absent, ZeroPoints::Present];
        let int4 = move |group| zeros.map(|zeros| WeightFormat::Int4 { group, zeros });
        let bytes = [ScaleGroup::Of64, ScaleGroup::Of128, ScaleGroup::PerColumn]
            .into_iter()
            .flat_map(|group| [WeightFormat::Int8 { group }, WeightFormat::E4m3 { group }]);
        ScaleGroup::ALL.into_iter().flat_map(int4).chain(bytes).chain([WeightFormat::Full])
    }

    /// Returns the bits of a weight.
    pub fn bits(self) -> u32 {
        match self {
            WeightFormat::Int4 { .. } => 4,
            WeightFormat::Int8 { .. } | WeightFormat::E4m3 { .. } => 8,
            WeightFormat::Full => 16,
        }
    }

    /// Returns which elements share a scale; `None` if there are no scales.
    pub fn group(self) -> Option<ScaleGroup> {
        match self {
            WeightFormat::Int4 { group, .. }
            | WeightFormat::Int8 { group }
            | WeightFormat::E4m3 { group } => Some(group),
            WeightFormat::Full => None,
        }
    }

    /// Returns the type of the buffer with the weights, for A of type `elem`: words of packed
    /// weights are `u32`.
    pub fn scalar(self, elem: Scalar) -> Scalar {
        match self {
            WeightFormat::Int4 { .. } => Scalar::U32,
            WeightFormat::Int8 { .. } => Scalar::I8,
            WeightFormat::E4m3 { .. } => Scalar::F8E4M3,
            WeightFormat::Full => elem,
        }
    }

    /// Returns what K must be a multiple of, so that rows of A and of weights start at multiples of
    /// 16 bytes.
    pub fn depth_multiple(self) -> u32 {
        match self {
            WeightFormat::Int4 { .. } | WeightFormat::Full => 8,
            WeightFormat::Int8 { .. } | WeightFormat::E4m3 { .. } => 16,
        }
    }

    /// Returns whether the weights are packed, not a row-major matrix.
    pub(super) fn is_packed(self) -> bool {
        matches!(self, WeightFormat::Int4 { .. })
    }

    /// Returns the elements along K of which a warp loads the weights at once.
    pub fn step(self) -> u32 {
        match self {
            WeightFormat::Full => 64,
            _ => 128,
        }
    }

    /// Returns the bytes of weights that a lane loads per tile and step.
    pub(super) fn lane_bytes(self) -> u32 {
        // 32 lanes share 16 columns.
        self.step() * self.bits() / 16
    }

    /// Returns the elements of a group of scales that a step divides into; `None` if a column has
    /// one scale, or none.
    pub(super) fn group_len(self) -> Option<u32> {
        self.group().filter(|group| *group != ScaleGroup::PerColumn).map(|group| group.len(0))
    }

    /// Returns how many scales a column has in a step; 0 if it has one for all steps.
    pub(super) fn step_groups(self) -> u32 {
        self.group_len().map_or(0, |len| self.step() / len)
    }

    /// Returns the elements that a lane loads per scale: for two columns, a scale each and maybe a
    /// zero point each.
    pub(super) fn scale_elements(self) -> u32 {
        match self {
            WeightFormat::Full => 0,
            WeightFormat::Int4 { zeros: ZeroPoints::Present, .. } => 4,
            _ => 2,
        }
    }

    /// Returns the elements of scales and zero points that a lane loads per tile and step.
    pub(super) fn lane_scales(self) -> u32 {
        self.step_groups() * self.scale_elements()
    }

    /// Returns the layout of a matrix's weights: from `(column of D, element of K)` to an index that
    /// counts weights.
    ///
    /// 4-bit weights are packed: an index counts the weights of a 32-bit word from its lowest bits
    /// up, columns are padded to 16, and K to whole steps. A lane's 16 bytes are the A operands of
    /// four MMAs with 16 columns and 16 elements of K each.
    ///
    /// ```
    /// use tilewright::kernels::small_gemm::{ScaleGroup, WeightFormat, ZeroPoints};
    ///
    /// let format = WeightFormat::Int4 { group: ScaleGroup::Of128, zeros: ZeroPoints::Absent };
    /// let layout = format.layout(16, 128)?;
    /// assert_eq!(layout.to_string(), "((8,2,1),(2,4,2,4,2,1)):((128,1,2048),(4,32,2,8,1024,2048))");
    /// assert_eq!(WeightFormat::Full.layout(16, 128)?.to_string(), "(16,128):(128,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn layout(self, columns: u32, depth: u32) -> Result<Layout, LayoutError> {
        if !self.is_packed() {
            return Layout::new((columns, depth), (depth, 1));
        }
        let [tiles, steps] = self.padded(columns, depth);
        let of_tile = steps.saturating_mul(2048);
        Layout::new(
            ((8, 2, tiles), (2, 4, 2, 4, 2, steps)),
            ((128, 1, of_tile), (4, 32, 2, 8, 1024, 2048)),
        )
    }

    /// Returns the layout of the packed scales: from `(column of D, group)` to an index that counts
    /// elements. A zero point is two elements after its scale.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn scale_layout(self, columns: u32, depth: u32) -> Result<Layout, LayoutError> {
        let [tiles, steps] = self.padded(columns, depth);
        let (groups, steps) = match self.step_groups() {
            0 => (1, 1),
            groups => (i64::from(groups), steps),
        };
        let elements = i64::from(self.scale_elements());
        let (of_lane, of_step) = (groups * elements, 8 * groups * elements);
        Layout::new(
            ((8, 2, tiles), (groups, steps)),
            ((of_lane, 1, steps.saturating_mul(of_step)), (elements, of_step)),
        )
    }

    /// Returns the tiles of columns and the steps of K.
    pub(super) fn padded(self, columns: u32, depth: u32) -> [i64; 2] {
        [columns.div_ceil(TILE).into(), depth.div_ceil(self.step()).into()]
    }

    /// Returns the length of the buffer with the weights: 32-bit words of packed weights, elements
    /// of others.
    pub fn weights(self, columns: u32, depth: u32) -> u64 {
        if !self.is_packed() {
            return u64::from(columns) * u64::from(depth);
        }
        let [tiles, steps] = self.padded(columns, depth).map(i64::cast_unsigned);
        tiles * steps * u64::from(self.step_words())
    }

    /// Returns the 32-bit words that a warp loads per tile and step.
    pub(super) fn step_words(self) -> u32 {
        self.lane_bytes() / 4 * 32
    }

    /// Returns the elements of a matrix's packed scales and zero points.
    pub fn scales(self, columns: u32, depth: u32) -> u64 {
        let [tiles, steps] = self.padded(columns, depth).map(i64::cast_unsigned);
        let per_tile = match self.lane_scales() {
            0 => 8 * u64::from(self.scale_elements()),
            elements => steps * 8 * u64::from(elements),
        };
        tiles * per_tile
    }

    /// Reads a name.
    #[inline]
    pub(super) fn read(text: &str) -> Option<Self> {
        Self::all().find(|format| format.to_string() == text)
    }
}

/// Prints `int4g128`, `int8g64`, `e4m3` or `full`: the type and the group, which is missing if there
/// is one scale per column, and `z` if there are zero points.
impl fmt::Display for WeightFormat {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WeightFormat::Int4 { .. } => "int4",
            WeightFormat::Int8 { .. } => "int8",
            WeightFormat::E4m3 { .. } => "e4m3",
            WeightFormat::Full => "full",
        })?;
        if let Some(len) = self.group_len() {
            write!(f, "g{len}")?;
        }
        match self {
            WeightFormat::Int4 { zeros: ZeroPoints::Present, .. } => f.write_str("z"),
            _ => Ok(()),
        }
    }
}
