//! Computes `wgmma`'s shared-memory matrix descriptors from layouts. Use it if you issue `wgmma`
//! yourself; a tiled MMA computes its descriptors here too.
//!
//! [`MatrixDescriptor::of`] reads the leading and the stride dimension off the layout and then
//! compares every offset with the canonical form. Sources: PTX ISA 9.7.15.5.1 "Matrix Descriptor
//! Format"; CUTLASS `mma_sm90_desc.hpp`.

use crate::errors::errors;

use super::swizzle_mode::SwizzleMode;
use crate::layout::{ComposedLayout, LayoutError, Swizzle};

/// Which mode of an MMA operand is contiguous in memory: K or M/N. A row-major A is K-major. It is
/// one part of a [`MatrixDescriptor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// The reduction coordinate `k`: A row-major, B column-major. All types support it.
    K,
    /// The row of A or the column of B (the transposed forms), for 16-bit types only.
    Mn,
}

/// Returns how many 16-byte units a row of the swizzle pattern has.
fn units(swizzle: SwizzleMode) -> i64 {
    1 << swizzle.bits()
}

/// Returns bits 62 and 63 of a matrix descriptor.
const fn code(swizzle: SwizzleMode) -> u64 {
    match swizzle {
        SwizzleMode::None => 0,
        SwizzleMode::B128 => 1,
        SwizzleMode::B64 => 2,
        SwizzleMode::B32 => 3,
    }
}

/// A `wgmma` matrix descriptor without the start address: how an operand in shared memory is laid
/// out. Compute one with [`of`](MatrixDescriptor::of) if you issue `wgmma` yourself.
///
/// The operand is a layout from `(mn, k)` to elements, over the tile that one instruction reads.
/// `mn` is the row of A or the column of B, and the tile has 32 bytes along `k`. The hardware
/// accepts eight forms: two major modes with four swizzles each. In the table, offsets, `L` and `S`
/// are in elements. `T` is the number of elements in 16 bytes, `u` the number of 16-byte units in a
/// row of the swizzle pattern (2, 4 or 8 for 32, 64 or 128 bytes), `L` the leading and `S` the
/// stride dimension:
///
/// | major mode | swizzle | offset of `(mn, k)` before the swizzle |
/// |---|---|---|
/// | K | none | `mn % 8 * T + mn / 8 * S + k % T + k / T * L` |
/// | K | 32, 64, 128 bytes | `mn % 8 * u * T + mn / 8 * S + k` |
/// | MN | none | `mn % T + mn / T * S + k % 8 * T + k / 8 * L` |
/// | MN | 32, 64, 128 bytes | `mn % (u * T) + mn / (u * T) * L + k % 8 * u * T + k / 8 * S` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixDescriptor {
    /// Which coordinate is contiguous, `k` or `mn`.
    pub major: Major,
    /// The swizzle mode.
    pub swizzle: SwizzleMode,
    /// The leading dimension byte offset: the table's `L`, in bytes. 16 if the form has no leading
    /// dimension, and 0 if the tile is too small to need one.
    pub leading_bytes: u32,
    /// The stride dimension byte offset: the table's `S`, in bytes. 0 if the tile is too small to
    /// need one.
    pub stride_bytes: u32,
}

errors! {
    /// Why a layout cannot be an operand of `wgmma`. [`MatrixDescriptor::of`] returns it.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum DescriptorError {
        /// `{layout}` is not an operand of wgmma, which must be a static layout with two modes:
        /// {reason}
        NotStatic { layout: String, reason: LayoutError },
        /// the second mode of a wgmma operand is k and must have {expected} elements (32 bytes),
        /// not {found}: divide the layout by the instruction's shape first
        KExtent { found: i64, expected: i64 },
        /// wgmma does not support the swizzle `{swizzle}` on {elem_bits}-bit elements: on byte
        /// addresses it supports S<1,4,3>, S<2,4,3> and S<3,4,3>
        Swizzle { swizzle: Swizzle, elem_bits: u32 },
        /// a wgmma operand must start at its pointer, but the layout has the offset {offset}: add
        /// it to the pointer
        Offset { offset: String },
        /// The layout's swizzle is fine, but it has neither the K-major nor the MN-major form.
        Form {
            /// The layout.
            layout: String,
            /// Its swizzle.
            swizzle: SwizzleMode,
            /// The first coordinate at which the layout differs from the nearest form, with its
            /// offset and the form's offset there.
            at: ((i64, i64), i64, i64),
            /// The major mode of the nearest form.
            major: Major,
        } = |f| {
            let ((mn, k), found, expected) = at;
            let form = match major {
                Major::K => "K-major",
                Major::Mn => "MN-major",
            };
            write!(
                f,
                "`{layout}` with swizzle {swizzle} is not an operand of wgmma: coordinate ({mn},{k}) is \
                 at element {found}, but the {form} form needs it at {expected}: tile the operand with a \
                 layout from the table in `MatrixDescriptor`"
            )
        },
        /// the parts of a wgmma operand are {bytes} bytes apart, but the distance must be a
        /// multiple of 16 below 262144
        Distance { bytes: i64 },
    }
}
crate::errors::message_as_debug!(DescriptorError);

/// A coordinate, the layout's offset there, and the form's offset there.
type Miss = ((i64, i64), i64, i64);

/// One of the eight forms, measured in elements.
#[derive(Clone, Copy)]
struct Form {
    major: Major,
    swizzle: SwizzleMode,
    /// Elements in 16 bytes.
    unit: i64,
    leading: i64,
    stride: i64,
}

impl Form {
    /// Returns the coordinates at which the form has the offsets `leading` and `stride`; `None` for
    /// a dimension that the form does not have.
    fn steps(major: Major, swizzle: SwizzleMode, unit: i64) -> [Option<(i64, i64)>; 2] {
        let row = units(swizzle) * unit;
        match (major, swizzle) {
            (Major::K, SwizzleMode::None) => [Some((0, unit)), Some((8, 0))],
            (Major::K, _) => [None, Some((8, 0))],
            (Major::Mn, SwizzleMode::None) => [Some((0, 8)), Some((unit, 0))],
            (Major::Mn, _) => [Some((row, 0)), Some((0, 8))],
        }
    }

    fn at(&self, mn: i64, k: i64) -> i64 {
        let Form { unit, leading, stride, .. } = *self;
        let row = units(self.swizzle) * unit;
        match (self.major, self.swizzle) {
            (Major::K, SwizzleMode::None) => {
                mn % 8 * unit + mn / 8 * stride + k % unit + k / unit * leading
            }
            (Major::K, _) => mn % 8 * row + mn / 8 * stride + k,
            (Major::Mn, SwizzleMode::None) => {
                mn % unit + mn / unit * stride + k % 8 * unit + k / 8 * leading
            }
            (Major::Mn, _) => mn % row + mn / row * leading + k % 8 * row + k / 8 * stride,
        }
    }
}

impl MatrixDescriptor {
    /// Computes the descriptor of an operand for one instruction. `operand` maps `(mn, k)` to
    /// elements of `elem_bits` bits, and its swizzle is in elements too. The start address is that
    /// of coordinate `(0, 0)`.
    ///
    /// # Errors
    /// Returns a [`DescriptorError`] that names the hardware's condition that the layout does not
    /// meet.
    ///
    /// ```
    /// use tilewright::arch::{Major, MatrixDescriptor, SwizzleMode};
    /// use tilewright::layout::{ComposedLayout, Swizzle, layout};
    /// // 64 rows of 128 bytes in the 128-byte pattern; an instruction reads 16 columns.
    /// let operand = ComposedLayout::new(Swizzle::new(3, 3, 3)?, 0, layout!((64, 16) : (64, 1)))?;
    /// let descriptor = MatrixDescriptor::of(&operand, 16)?;
    /// assert_eq!((descriptor.major, descriptor.swizzle), (Major::K, SwizzleMode::B128));
    /// assert_eq!(descriptor.stride_bytes, 1024);
    /// assert_eq!(descriptor.bits(), 1 << 62 | 64 << 32 | 1 << 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn of(
        operand: &ComposedLayout,
        elem_bits: u32,
    ) -> Result<MatrixDescriptor, DescriptorError> {
        let not_static =
            |reason| DescriptorError::NotStatic { layout: operand.to_string(), reason };
        let layout = operand.outer_layout().map_err(not_static)?;
        let swizzle = operand.swizzle_portion();
        let elem_bytes = i64::from(elem_bits / 8).max(1);
        let swizzle = SwizzleMode::of(swizzle, elem_bits / 8)
            .ok_or(DescriptorError::Swizzle { swizzle, elem_bits })?;
        if operand.offset().as_static() != Some(0) {
            return Err(DescriptorError::Offset { offset: operand.offset().to_string() });
        }
        let extent = |mode: usize| -> Result<i64, LayoutError> {
            let mode = layout.modes().nth(mode);
            mode.ok_or(LayoutError::RankMismatch { expected: 2, found: layout.rank() })?
                .size()?
                .to_static()
        };
        let (mn, k) = (extent(0).map_err(not_static)?, extent(1).map_err(not_static)?);
        if layout.rank() != 2 {
            let found = layout.rank();
            return Err(not_static(LayoutError::RankMismatch { expected: 2, found }));
        }
        let unit = 16 / elem_bytes;
        if k != 2 * unit {
            return Err(DescriptorError::KExtent { found: k, expected: 2 * unit });
        }
        let at = |row: i64, column: i64| layout.at(row + column * mn).map_err(not_static);
        // The nearest form is the one from which the layout departs latest.
        let mut nearest = None;
        for major in [Major::K, Major::Mn] {
            let [leading, stride] = Form::steps(major, swizzle, unit);
            let read = |step: Option<(i64, i64)>| match step {
                Some((row, column)) if row < mn && column < k => at(row, column),
                // The tile is too small to show this dimension.
                Some(_) => Ok(0),
                // The hardware takes it as one unit.
                None => Ok(unit),
            };
            let form =
                Form { major, swizzle, unit, leading: read(leading)?, stride: read(stride)? };
            let mut miss = None;
            'all: for column in 0..k {
                for row in 0..mn {
                    let (found, expected) = (at(row, column)?, form.at(row, column));
                    if found != expected {
                        miss = Some(((row, column), found, expected));
                        break 'all;
                    }
                }
            }
            match miss {
                None => return form.descriptor(elem_bytes),
                Some(miss) => {
                    let position = |((row, column), ..): Miss| row + column * mn;
                    if nearest.is_none_or(|(other, _)| position(other) < position(miss)) {
                        nearest = Some((miss, major));
                    }
                }
            }
        }
        let (at, major) = nearest.unwrap_or((((0, 0), 0, 0), Major::K));
        Err(DescriptorError::Form { layout: layout.to_string(), swizzle, at, major })
    }

    /// Returns the 64 bits that `wgmma` takes, without the start address. To complete them, put
    /// bits 4 to 17 of the operand's shared-memory address into bits 0 to 13.
    pub const fn bits(self) -> u64 {
        let (leading, stride) = (self.leading_bytes as u64 >> 4, self.stride_bytes as u64 >> 4);
        code(self.swizzle) << 62 | stride << 32 | leading << 16
    }
}

impl Form {
    fn descriptor(&self, elem_bytes: i64) -> Result<MatrixDescriptor, DescriptorError> {
        let distance = |elements: i64| {
            let bytes = elements * elem_bytes;
            let legal = (0..1 << 18).contains(&bytes) && bytes % 16 == 0;
            if legal { Ok(bytes as u32) } else { Err(DescriptorError::Distance { bytes }) }
        };
        Ok(MatrixDescriptor {
            major: self.major,
            swizzle: self.swizzle,
            leading_bytes: distance(self.leading)?,
            stride_bytes: distance(self.stride)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    /// The plain layout of a form, computed independently of [`Form`] from CUTLASS's table of
    /// canonical layouts, in units of `t` elements.
    fn canonical(major: Major, swizzle: SwizzleMode, t: i64, blocks: i64) -> String {
        let u = units(swizzle);
        let (l, s) = (16 * t, 64 * t);
        match (major, u) {
            (Major::K, 1) => format!("((8,{blocks}),({t},2)):(({t},{s}),(1,{l}))"),
            (Major::K, u) => format!("((8,{blocks}),({t},2)):(({},{s}),(1,{t}))", u * t),
            (Major::Mn, 1) => format!("(({t},1,{blocks}),(8,{})):((1,{t},{s}),({t},{l}))", t / 4),
            (Major::Mn, u) => {
                let row = u * t;
                format!("(({t},{u},{blocks}),(8,{})):((1,{t},{}),({row},{}))", t / 4, l * 8, s * 8)
            }
        }
    }

    #[test]
    fn the_canonical_layouts_have_their_descriptors() {
        for elem_bits in [8u32, 16, 32] {
            let t = 128 / i64::from(elem_bits);
            for swizzle in SwizzleMode::ALL {
                for major in [Major::K, Major::Mn] {
                    if major == Major::Mn && elem_bits != 16 {
                        continue;
                    }
                    let layout: Layout = canonical(major, swizzle, t, 4).parse().unwrap();
                    let bits = i64::from(units(swizzle).ilog2());
                    let base = 4 - i64::from((elem_bits / 8).ilog2());
                    let part = Swizzle::new(bits, base, 3).unwrap();
                    let operand = ComposedLayout::new(part, 0, layout).unwrap();
                    let descriptor = MatrixDescriptor::of(&operand, elem_bits).unwrap();
                    assert_eq!((descriptor.major, descriptor.swizzle), (major, swizzle));
                    let scale =
                        if major == Major::Mn && swizzle != SwizzleMode::None { 8 } else { 1 };
                    assert_eq!(descriptor.stride_bytes, 64 * 16 * scale, "{operand}");
                    let leading = match (major, swizzle) {
                        (Major::K, SwizzleMode::None) => 16 * 16,
                        (Major::K, _) => 16,
                        (Major::Mn, _) => 16 * 16 * scale,
                    };
                    assert_eq!(descriptor.leading_bytes, leading, "{operand}");
                }
            }
        }
    }

    #[test]
    fn what_the_hardware_does_not_know_is_refused_by_name() {
        let of = |text: &str, bits| {
            let operand: ComposedLayout = text.parse().unwrap();
            MatrixDescriptor::of(&operand, bits).unwrap_err().to_string()
        };
        let cases = [
            ("S<3,3,3> o 0 o (64,32):(64,1)", "32 bytes"),
            ("S<3,4,3> o 0 o (64,16):(64,1)", "does not support the swizzle"),
            ("S<3,3,3> o 8 o (64,16):(64,1)", "has the offset 8"),
            ("S<3,3,3> o 0 o (64,16):(72,1)", "coordinate (1,0) is at element 72"),
            ("S<0,4,3> o 0 o ((8,8),(8,2)):((8,65),(1,1024))", "multiple of 16"),
            ("S<3,3,3> o 0 o (64,16,2):(64,1,0)", "two modes"),
        ];
        for (layout, part) in cases {
            let error = of(layout, 16);
            assert!(error.contains(part), "{layout}: {error}");
        }
    }
}
