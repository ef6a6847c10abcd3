//! [`CopyAtom`]: one copy instruction with its thread and value layouts. Pick one by its CuTe name,
//! then repeat it over a tile with [`TiledCopy`](crate::tensor::atom::TiledCopy).
//!
//! `ldmatrix` and `stmatrix` move 8 x 8 matrices of 16-bit elements, 1024 bits each. Thread `t`
//! provides the address of row `t % 8` of matrix `t / 8`, a row of 128 bits. Its register `r` holds
//! the elements `2 * (t % 4)` and the next one of row `t / 4` in matrix `r`; with `.trans`, element
//! `t / 4` of rows `2 * (t % 4)` and the next one. PTX ISA, "ldmatrix", "stmatrix", "movmatrix".

use crate::ir::Target;
use crate::layout::{Layout, LayoutError, layout};

use super::bulk::{BulkOp, TmaOp};
use super::error::AtomError;

/// How many 8 x 8 matrices one `ldmatrix` or `stmatrix` moves. Take four if the tile allows it: it
/// needs the fewest instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Matrices {
    /// One matrix, `.x1`.
    X1,
    /// Two matrices, `.x2`.
    X2,
    /// Four matrices, `.x4`.
    X4,
}

impl Matrices {
    /// All counts, for example to list or test every instruction.
    pub const ALL: [Matrices; 3] = [Matrices::X1, Matrices::X2, Matrices::X4];

    /// Returns the count: 1, 2 or 4.
    pub const fn count(self) -> u32 {
        match self {
            Matrices::X1 => 1,
            Matrices::X2 => 2,
            Matrices::X4 => 4,
        }
    }
}

/// The cache level of a `cp.async`: whether the data passes through the L1 cache or only through
/// L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheOp {
    /// `.ca`: all levels. Copies 4, 8 or 16 bytes. Use it if other blocks on the same SM read the
    /// data too, or for copies below 16 bytes.
    Always,
    /// `.cg`: only L2, which all SMs share. Copies 16 bytes. Use it for data that each block reads
    /// once.
    Global,
}

/// The instruction of a [`CopyAtom`], for example `cp.async` or `ldmatrix`. It prints as its CuTe
/// name and parses from it.
///
/// ```
/// use tilewright::tensor::atom::{CopyOp, TmaOp};
/// let op: CopyOp = "SM75_U16x8_LDSM_T".parse()?;
/// assert_eq!(op.instruction(), "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16");
/// assert_eq!(op.to_string(), "SM75_U16x8_LDSM_T");
///
/// // Bulk copies have any number of bits, which is a parameter of CuTe's traits: here a box of 16 KiB.
/// let op: CopyOp = "SM90_TMA_LOAD<131072>".parse()?;
/// assert_eq!(op, CopyOp::Tma { op: TmaOp::Load, bits: 131_072 });
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyOp {
    /// A load and a store of one thread. CuTe's `UniversalCopy`.
    Universal {
        /// Bits per copy: 8, 16, 32, 64 or 128.
        bits: u32,
    },
    /// One thread's `cp.async` from global to shared memory.
    CpAsync {
        /// Bits per copy: 32, 64 or 128.
        bits: u32,
        /// The cache level.
        cache: CacheOp,
        /// Takes a predicate, and writes zeros if it is false.
        zero_fill: bool,
    },
    /// A warp's `ldmatrix` from shared memory.
    LdMatrix {
        /// How many matrices it loads.
        matrices: Matrices,
        /// Whether it transposes each matrix.
        transposed: bool,
    },
    /// A warp's `stmatrix` to shared memory.
    StMatrix {
        /// How many matrices it stores.
        matrices: Matrices,
        /// Whether it transposes each matrix.
        transposed: bool,
    },
    /// `movmatrix`: transposes a matrix in registers.
    MovMatrix,
    /// Transposes the 2 x 2 registers of a thread pair with `shfl.bfly`: register `r` of thread `t`
    /// becomes register `t / apart % 2` of the pair's thread `r`. CuTe's
    /// `SM50_Shuffle_U32_2x2Trans`.
    ShuffleTranspose {
        /// The distance between the pair's threads: 1 or 4.
        apart: u32,
    },
    /// A TMA copy of a tensor box, issued by one thread.
    Tma {
        /// The TMA operation.
        op: TmaOp,
        /// Bits per copy: a multiple of 128.
        bits: u32,
    },
    /// `cp.async.bulk`: contiguous bytes, issued by one thread.
    Bulk {
        /// Which way it copies.
        op: BulkOp,
        /// Bits per copy: a multiple of 128.
        bits: u32,
    },
}

impl CopyOp {
    /// Returns the PTX instruction with its qualifiers. [`CopyOp::Universal`] gives a load of the
    /// right size; its actual spelling depends on the element type, for example `ld.v2.b32` instead
    /// of `ld.b64`. [`CopyOp::Tma`] lacks the dimension count. Use it to see what an atom compiles
    /// to.
    #[inline]
    pub fn instruction(&self) -> String {
        match self {
            CopyOp::Universal { bits: 128 } => "ld.v4.b32".to_owned(),
            CopyOp::Universal { bits } => format!("ld.b{bits}"),
            CopyOp::CpAsync { cache: CacheOp::Always, .. } => {
                "cp.async.ca.shared.global".to_owned()
            }
            CopyOp::CpAsync { cache: CacheOp::Global, .. } => {
                "cp.async.cg.shared.global".to_owned()
            }
            CopyOp::LdMatrix { matrices, transposed } => matrix("ldmatrix", *matrices, *transposed),
            CopyOp::StMatrix { matrices, transposed } => matrix("stmatrix", *matrices, *transposed),
            CopyOp::MovMatrix => "movmatrix.sync.aligned.m8n8.trans.b16".to_owned(),
            CopyOp::ShuffleTranspose { .. } => "shfl.sync.bfly.b32".to_owned(),
            CopyOp::Tma { op, .. } => op.instruction(),
            CopyOp::Bulk { op, .. } => op.instruction().to_owned(),
        }
    }

    /// Returns the oldest target of this crate that has the instruction. Compare it with a kernel's
    /// target before you choose the instruction.
    pub fn target(&self) -> Target {
        match self {
            CopyOp::StMatrix { .. } | CopyOp::Tma { .. } | CopyOp::Bulk { .. } => {
                Target::new(90, false).unwrap_or(Target::SM_90A)
            }
            CopyOp::Universal { .. }
            | CopyOp::CpAsync { .. }
            | CopyOp::LdMatrix { .. }
            | CopyOp::MovMatrix
            | CopyOp::ShuffleTranspose { .. } => Target::SM_80,
        }
    }

    /// How many bits are contiguous both in memory and in a register. They must be a whole count of
    /// elements.
    pub(in crate::tensor) fn bits_together(&self) -> u32 {
        match self {
            CopyOp::Universal { bits }
            | CopyOp::CpAsync { bits, .. }
            | CopyOp::Tma { bits, .. }
            | CopyOp::Bulk { bits, .. } => *bits,
            CopyOp::LdMatrix { transposed: false, .. }
            | CopyOp::StMatrix { transposed: false, .. }
            | CopyOp::ShuffleTranspose { .. } => 32,
            // Transposed, the two halves of a register come from different rows.
            CopyOp::LdMatrix { .. } | CopyOp::StMatrix { .. } | CopyOp::MovMatrix => 16,
        }
    }

    /// The function that issues the instruction, if
    /// [`ThrCopy::copy`](crate::tensor::atom::ThrCopy::copy) cannot, because it needs a barrier or
    /// a tensor map.
    pub(in crate::tensor) fn method(&self) -> Option<&'static str> {
        match self {
            CopyOp::Tma { op, .. } => Some(op.method()),
            CopyOp::Bulk { op, .. } => Some(op.method()),
            CopyOp::Universal { .. }
            | CopyOp::CpAsync { .. }
            | CopyOp::LdMatrix { .. }
            | CopyOp::StMatrix { .. }
            | CopyOp::MovMatrix
            | CopyOp::ShuffleTranspose { .. } => None,
        }
    }

    #[inline]
    fn check(&self) -> Result<(), AtomError> {
        let (instruction, bits, legal): (_, _, &'static [u32]) = match self {
            CopyOp::Universal { bits } => ("a universal copy", *bits, &[8, 16, 32, 64, 128]),
            CopyOp::CpAsync { bits, cache: CacheOp::Always, .. } => {
                ("cp.async.ca", *bits, &[32, 64, 128])
            }
            CopyOp::CpAsync { bits, cache: CacheOp::Global, .. } => ("cp.async.cg", *bits, &[128]),
            CopyOp::LdMatrix { .. } | CopyOp::StMatrix { .. } | CopyOp::MovMatrix => return Ok(()),
            CopyOp::ShuffleTranspose { apart: 1 | 4 } => return Ok(()),
            CopyOp::ShuffleTranspose { apart } => {
                return Err(AtomError::ShuffleDistance { apart: *apart });
            }
            CopyOp::Tma { bits, .. } | CopyOp::Bulk { bits, .. } => {
                let whole = *bits > 0 && bits.is_multiple_of(BULK_BITS);
                let instruction = self.instruction();
                return if whole {
                    Ok(())
                } else {
                    Err(AtomError::BulkBits { instruction, bits: *bits })
                };
            }
        };
        if legal.contains(&bits) {
            Ok(())
        } else {
            Err(AtomError::CopyBits { instruction, bits, legal })
        }
    }

    /// Iterates over all instructions, for example to list or test them. Instructions that take any
    /// size appear once, with the smallest one.
    #[inline]
    pub fn all() -> impl Iterator<Item = CopyOp> {
        let universal = [8, 16, 32, 64, 128].map(|bits| CopyOp::Universal { bits });
        let sizes = [(32, CacheOp::Always), (64, CacheOp::Always), (128, CacheOp::Always)];
        let sizes = sizes.into_iter().chain([(128, CacheOp::Global)]);
        let cp_async = sizes.flat_map(|(bits, cache)| {
            [false, true].map(|zero_fill| CopyOp::CpAsync { bits, cache, zero_fill })
        });
        let matrices = Matrices::ALL.into_iter().flat_map(|matrices| {
            [false, true].into_iter().flat_map(move |transposed| {
                [
                    CopyOp::LdMatrix { matrices, transposed },
                    CopyOp::StMatrix { matrices, transposed },
                ]
            })
        });
        let tma = TmaOp::all().map(|op| CopyOp::Tma { op, bits: BULK_BITS });
        let bulk = BulkOp::ALL.map(|op| CopyOp::Bulk { op, bits: BULK_BITS });
        let shuffles = [1, 4].map(|apart| CopyOp::ShuffleTranspose { apart });
        let matrices = matrices.chain([CopyOp::MovMatrix]).chain(shuffles);
        universal.into_iter().chain(cp_async).chain(matrices).chain(tma).chain(bulk)
    }
}

/// Bulk copies move multiples of this many bits.
const BULK_BITS: u32 = 128;

fn matrix(name: &str, matrices: Matrices, transposed: bool) -> String {
    let (n, trans) = (matrices.count(), if transposed { ".trans" } else { "" });
    format!("{name}.sync.aligned.m8n8.x{n}{trans}.shared.b16")
}

/// One copy instruction, the threads that execute it, and layouts that say what each of them reads
/// and writes: CuTe's `Copy_Atom` with its `Copy_Traits`.
///
/// The layouts map (thread, value) to a bit index. The index only relates source and destination: a
/// source value arrives where the destination layout has the same bit. `layout_ref_tv` is the
/// layout on the side where threads hold registers.
///
/// ```
/// use tilewright::tensor::atom::{CopyAtom, CopyOp, Matrices};
/// let op = CopyOp::LdMatrix { matrices: Matrices::X2, transposed: false };
/// let atom = CopyAtom::new(op)?;
/// // 16 threads give addresses of 128 bits each, the others read along.
/// assert_eq!(atom.layout_src_tv().to_string(), "((16,2),128):((128,0),1)");
/// // Each thread gets two registers of 32 bits, one of each matrix.
/// assert_eq!(atom.layout_dst_tv().to_string(), "(32,(32,2)):(32,(1,1024))");
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyAtom {
    op: CopyOp,
    thr_id: Layout,
    layout_src_tv: Layout,
    layout_dst_tv: Layout,
}

impl CopyAtom {
    /// Makes the atom of an instruction.
    ///
    /// # Errors
    /// [`AtomError::CopyBits`] or [`AtomError::BulkBits`] if the instruction cannot copy this many
    /// bits.
    #[inline]
    pub fn new(op: CopyOp) -> Result<Self, AtomError> {
        op.check()?;
        let (thr_id, src, dst) = match op {
            CopyOp::Universal { bits }
            | CopyOp::CpAsync { bits, .. }
            | CopyOp::Tma { bits, .. }
            | CopyOp::Bulk { bits, .. } => {
                let all = Layout::compact((1, i64::from(bits)));
                (layout!(1:0), all.clone(), all)
            }
            CopyOp::LdMatrix { matrices, transposed } => {
                (layout!(32:1), rows(matrices), fragments(matrices, transposed)?)
            }
            CopyOp::StMatrix { matrices, transposed } => {
                (layout!(32:1), fragments(matrices, transposed)?, rows(matrices))
            }
            CopyOp::MovMatrix => {
                let (x1, all) = (Matrices::X1, layout!(32:1));
                (all, fragments(x1, false)?, fragments(x1, true)?)
            }
            CopyOp::ShuffleTranspose { apart } => {
                let threads = match apart {
                    1 => layout!((2, 16):(32, 128)),
                    _ => layout!((4, 2, 4):(64, 32, 512)),
                };
                let values =
                    Layout::concat(&[layout!(32:1), Layout::leaf(2, 64 * i64::from(apart))])?;
                let dst = Layout::concat(&[threads, values])?;
                (layout!(32:1), layout!((32, 64):(64, 1)), dst)
            }
        };
        Ok(Self { op, thr_id, layout_src_tv: src, layout_dst_tv: dst })
    }

    /// Returns the instruction that the atom was made from, for example to match on it.
    pub fn op(&self) -> &CopyOp {
        &self.op
    }

    /// Maps a thread of the atom to its index in the warp: CuTe's `ThrID`. It is `32:1` if a warp
    /// executes the instruction, and `1:0` if one thread does.
    pub fn thr_id(&self) -> &Layout {
        &self.thr_id
    }

    /// Maps (thread, value) to the bit that is read: CuTe's `SrcLayout`. Compare it with
    /// [`layout_dst_tv`](CopyAtom::layout_dst_tv) to see where a thread's values go.
    pub fn layout_src_tv(&self) -> &Layout {
        &self.layout_src_tv
    }

    /// Maps (thread, value) to the bit that is written: CuTe's `DstLayout`.
    pub fn layout_dst_tv(&self) -> &Layout {
        &self.layout_dst_tv
    }

    /// Maps (thread, value) to a bit, on the side where threads hold registers: CuTe's `RefLayout`.
    /// [`TiledCopy`](crate::tensor::atom::TiledCopy) repeats this layout.
    pub fn layout_ref_tv(&self) -> &Layout {
        match self.op {
            CopyOp::LdMatrix { .. } | CopyOp::MovMatrix => &self.layout_dst_tv,
            CopyOp::Universal { .. }
            | CopyOp::CpAsync { .. }
            | CopyOp::StMatrix { .. }
            | CopyOp::ShuffleTranspose { .. }
            | CopyOp::Tma { .. }
            | CopyOp::Bulk { .. } => &self.layout_src_tv,
        }
    }
}

/// The matrices' rows in shared memory: one per thread for `8 * n` threads; the others repeat them.
#[inline]
fn rows(matrices: Matrices) -> Layout {
    let threads = 8 * matrices.count();
    if threads == 32 {
        return layout!((32, 128):(128, 1));
    }
    layout!(((threads, 32 / threads), 128):((128, 0), 1))
}

/// The matrices' elements in the threads' registers.
#[inline]
fn fragments(matrices: Matrices, transposed: bool) -> Result<Layout, LayoutError> {
    let (threads, register) = if transposed {
        (layout!((4, 8):(256, 16)), vec![layout!(16:1), layout!(2:128)])
    } else {
        (layout!(32:32), vec![layout!(32:1)])
    };
    let more = (matrices != Matrices::X1).then(|| Layout::leaf(i64::from(matrices.count()), 1024));
    let modes: Vec<Layout> = register.into_iter().chain(more).collect();
    let values = match modes.as_slice() {
        [one] => one.clone(),
        _ => Layout::concat(&modes)?,
    };
    Layout::concat(&[threads, values])
}
