//! [`WeightFormat`]: how the kernel's weights are stored, with the layouts that say where each
//! weight and each scale is.

use std::fmt;

use crate::layout::{Layout, LayoutError};

use super::config::{LANE_BYTES, TILE};

/// Which elements along K share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Int4Group {
    /// 32 adjacent elements.
    Of32,
    /// 64 adjacent elements.
    Of64,
    /// 128 adjacent elements.
    Of128,
    /// All of them, so that there is one scale per column of D.
    PerColumn,
}

impl Int4Group {
    /// Every group, from the smallest on.
    pub const ALL: [Int4Group; 4] =
        [Int4Group::Of32, Int4Group::Of64, Int4Group::Of128, Int4Group::PerColumn];

    /// Returns the elements of a group, for `depth` elements along K.
    pub fn len(self, depth: u32) -> u32 {
        match self {
            Int4Group::Of32 => 32,
            Int4Group::Of64 => 64,
            Int4Group::Of128 => 128,
            Int4Group::PerColumn => depth.max(1),
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

/// How weights are stored. [`PackedWeights`](super::PackedWeights) has the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// Unsigned 4-bit integers. The scales have A's type.
    Int4 {
        /// Which elements share a scale.
        group: Int4Group,
        /// Whether there are zero points.
        zeros: ZeroPoints,
    },
}

impl WeightFormat {
    /// Returns all formats, for example to test a program with each.
    pub fn all() -> impl Iterator<Item = WeightFormat> {
        let zeros = [ZeroPoints::Absent, ZeroPoints::Present];
        let of = move |group| zeros.map(|zeros| WeightFormat::Int4 { group, zeros });
        Int4Group::ALL.into_iter().flat_map(of)
    }

    /// Returns the bits of a weight.
    pub fn bits(self) -> u32 {
        match self {
            WeightFormat::Int4 { .. } => 4,
        }
    }

    /// Returns the elements along K of which a warp loads the weights at once: 32 bytes per lane.
    pub fn step(self) -> u32 {
        // 32 lanes share 16 columns.
        LANE_BYTES * 8 / self.bits() * 2
    }

    /// Returns how many scales a column has in a step; 0 if it has one for all steps.
    pub(super) fn step_groups(self) -> u32 {
        match self {
            WeightFormat::Int4 { group: Int4Group::PerColumn, .. } => 0,
            WeightFormat::Int4 { group, .. } => self.step() / group.len(0),
        }
    }

    /// Returns the elements that a lane loads per scale: for two columns, a scale each and maybe a
    /// zero point each.
    pub(super) fn scale_elements(self) -> u32 {
        match self {
            WeightFormat::Int4 { zeros: ZeroPoints::Absent, .. } => 2,
            WeightFormat::Int4 { zeros: ZeroPoints::Present, .. } => 4,
        }
    }

    /// Returns the elements of scales and zero points that a lane loads per tile and step.
    pub(super) fn lane_scales(self) -> u32 {
        self.step_groups() * self.scale_elements()
    }

    /// Returns the layout of a matrix's weights: from `(column of D, element of K)` to an index that
    /// counts weights, those of a 32-bit word from its lowest bits up. Columns are padded to 16, and
    /// K to whole steps.
    ///
    /// A lane's 16 bytes are the A operands of four `mma.sync.m16n8k16`. The order of a sum does not
    /// matter, so lane `4 g + t` takes 8 adjacent elements of each 32 along K, for columns `g` and
    /// `g + 8`. It then also finds its elements of the activations side by side.
    ///
    /// ```
    /// use tilewright::kernels::small_gemm::{Int4Group, WeightFormat, ZeroPoints};
    ///
    /// let format = WeightFormat::Int4 { group: Int4Group::Of128, zeros: ZeroPoints::Absent };
    /// let layout = format.layout(16, 128)?;
    /// assert_eq!(layout.to_string(), "((8,2,1),(2,2,2,4,2,2,1)):((128,1,2048),(4,2,8,32,16,1024,2048))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn layout(self, columns: u32, depth: u32) -> Result<Layout, LayoutError> {
        let [tiles, steps] = self.padded(columns, depth);
        let of_tile = steps.saturating_mul(2048);
        Layout::new(
            ((8, 2, tiles), (2, 2, 2, 4, 2, 2, steps)),
            ((128, 1, of_tile), (4, 2, 8, 32, 16, 1024, 2048)),
        )
    }

    /// Returns the layout of the scales: from `(column of D, group)` to an index that counts
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

    /// Returns the 32-bit words of a matrix's weights.
    pub fn words(self, columns: u32, depth: u32) -> u64 {
        let [tiles, steps] = self.padded(columns, depth).map(i64::cast_unsigned);
        tiles * steps * u64::from(LANE_BYTES / 4 * 32)
    }

    /// Returns the elements of a matrix's scales and zero points.
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

/// Prints `int4g128`, with `z` at the end if there are zero points, and without the group if there
/// is one per column.
impl fmt::Display for WeightFormat {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WeightFormat::Int4 { group, zeros } = self;
        f.write_str("int4")?;
        if *group != Int4Group::PerColumn {
            write!(f, "g{}", group.len(0))?;
        }
        match zeros {
            ZeroPoints::Absent => Ok(()),
            ZeroPoints::Present => f.write_str("z"),
        }
    }
}
