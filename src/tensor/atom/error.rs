//! [`AtomError`]: you asked for an instruction that does not exist, for example an MMA with a shape
//! or a CuTe name that no GPU has. Constructors and `parse` return it.

use crate::errors::errors;

use crate::layout::LayoutError;

use super::val_type::ValType;

errors! {
    /// An instruction that does not exist, or a name that no atom has.
    ///
    /// ```
    /// use tilewright::tensor::atom::{AtomError, MmaAtom, MmaSync, ValType};
    /// let tf32 = MmaSync::new([16, 8, 16], ValType::Tf32, ValType::Tf32, ValType::F32);
    /// let error = MmaAtom::new(tf32).unwrap_err();
    /// assert!(matches!(error, AtomError::Shape { .. }));
    /// assert_eq!(error.to_string(), "mma.sync of TF32 by TF32 has no shape 16x8x16: it has 16x8x4, 16x8x8");
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum AtomError {
        /// {instruction} cannot multiply {a} by {b} with accumulators in {c}
        ValTypes { instruction: &'static str, a: ValType, b: ValType, c: ValType },
        /// The instruction takes these types, but not in this shape.
        Shape {
            /// The instruction's name without its types.
            instruction: &'static str,
            /// A's type.
            a: ValType,
            /// B's type.
            b: ValType,
            /// M, N and K.
            shape_mnk: [u32; 3],
            /// The shapes that exist for these types.
            legal: &'static [[u32; 3]],
        } = |f| match shape_mnk {
            [m, n, k] => {
                let legal = list(legal, |[m, n, k]| format!("{m}x{n}x{k}"));
                write!(
                    f,
                    "{instruction} of {a} by {b} has no shape {m}x{n}x{k}: it has {legal}"
                )
            }
        },
        /// `wgmma` has no tile of this width.
        Width {
            /// A's type.
            a: ValType,
            /// N.
            n: u32,
        } = |f| {
            let legal = if a.is_integer() {
                "8, 24, or a multiple of 16 up to 256"
            } else {
                "a multiple of 8 from 8 to 256"
            };
            write!(f, "wgmma of {a} does not support N = {n}: N must be {legal}")
        },
        /// only products of 4-bit or 8-bit integers can saturate, not those of {a}
        Saturate { a: ValType },
        /// A bit operation is given for elements wider than one bit, or missing for one-bit
        /// elements.
        BitOp {
            /// A's type.
            a: ValType,
        } = |f| match a {
            ValType::B1 => f.write_str(
                "one-bit elements need a bit operation: `BitOp::Xor` or `BitOp::And`",
            ),
            a => {
                write!(
                    f,
                    "a bit operation needs one-bit elements, but {a} has {} bits",
                    a.bits()
                )
            }
        },
        /// a sparse matrix of {columns} columns has no such tile: rows and tiles must be whole
        /// chunks of {multiple} columns, and tiles must lie inside the matrix
        SparseColumns { columns: usize, multiple: usize },
        /// the chunk at row {row}, column {column} has {found} non-zero elements, but can keep at
        /// most {max}
        SparseChunk { row: usize, column: usize, found: usize, max: usize },
        /// a shuffle transpose needs threads that are 1 or 4 apart, not {apart}
        ShuffleDistance { apart: u32 },
        /// The instruction cannot copy this many bits.
        CopyBits {
            /// The instruction.
            instruction: &'static str,
            /// Bits per copy.
            bits: u32,
            /// The sizes that it can copy.
            legal: &'static [u32],
        } = |f| {
            let legal = list(legal, u32::to_string);
            write!(f, "{instruction} does not copy {bits} bits at a time: it copies {legal}")
        },
        /// {instruction} copies multiples of 128 bits, not {bits} bits
        BulkBits { instruction: String, bits: u32 },
        /// elements of {bits} bits do not fill the 128 bits that a swizzle keeps together: the
        /// width must be a power of two up to 128
        ElementBits { bits: u32 },
        /// No atom has this name.
        UnknownName {
            /// The name.
            name: String,
        } = |f| write!(
            f,
            "no atom has the name `{}`: expected one of CuTe's, such as \
                     `SM80_16x8x16_F32F16F16F32_TN` or `SM75_U32x4_LDSM_N`",
            name.escape_default()
        ),
        /// {error}
        Layout(error: LayoutError),
    }
}
crate::errors::message_as_debug!(AtomError);

impl From<LayoutError> for AtomError {
    fn from(error: LayoutError) -> Self {
        AtomError::Layout(error)
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
