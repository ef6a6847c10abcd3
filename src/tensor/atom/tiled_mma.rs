//! [`TiledMma`]: one MMA instruction repeated over the warps and values of a tile. Make one on the
//! host per kernel; it decides which thread holds which element of A, B and C.

use std::fmt;

use crate::layout::{Analysis, Layout, LayoutError, Tiler, TilerLeaf, layout, tiler};

use super::MmaAtom;
use super::coverage;
use crate::tensor::error::{TensorError, TensorErrorKind};

type Result<T> = std::result::Result<T, LayoutError>;

/// An MMA operand. A is an M x K tile, B is N x K, C and D are M x N. Pass one to functions that
/// work on any of them, for example [`TiledMma::thrfrg`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// The accumulator: addend and result.
    C,
}

impl Operand {
    /// All operands, for example to check something for each.
    pub const ALL: [Operand; 3] = [Operand::A, Operand::B, Operand::C];

    /// The operand's modes among (M, N, K).
    pub(in crate::tensor) const fn modes(self) -> [usize; 2] {
        match self {
            Operand::A => [0, 2],
            Operand::B => [1, 2],
            Operand::C => [0, 1],
        }
    }
}

/// An [`MmaAtom`] repeated over threads: CuTe's `TiledMMA`. `atom_layout_mnk` says which atom of
/// the M x N x K grid of atoms the next threads execute; `permutation_mnk` can permute the tile's
/// modes first.
///
/// Use it with `mma.sync` ([`TiledMma::gemm_sync`]), `wgmma` ([`TiledMma::gemm_async`]) or FMA
/// ([`gemm`](crate::tensor::mma::gemm())).
///
/// ```
/// use tilewright::layout::{Layout, layout, tiler};
/// use tilewright::tensor::atom::{MmaAtom, Operand, TiledMma};
/// let atom: MmaAtom = "SM80_16x8x8_F32TF32TF32F32_TN".parse()?;
/// let mma = TiledMma::new(atom, &layout!((2, 2, 1):(2, 1, 1)), tiler!(_, _, _))?;
/// assert_eq!(mma.tile_size_mnk(0)?, 32);
/// // ((ThrV,(ThrM,ThrN)),(FrgV,(RestM,RestN))) -> index in a 128 x 128 matrix
/// let c = mma.thrfrg(Operand::C, &Layout::row_major((128, 128)))?;
/// assert_eq!(c.to_string(), "(((4,8),(2,2)),((2,2),(4,8))):(((2,128),(2048,8)),((1,1024),(4096,16)))");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TiledMma {
    atom: MmaAtom,
    thr_layout_vmnk: Layout,
    permutation_mnk: Tiler,
}

/// For example `SM80_16x8x16_F32F16F16F32_TN o (32,2,2,1):(1,32,64,0) of (32,32,16)`: atom, threads
/// and permutation.
impl fmt::Display for TiledMma {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} o {} of {}", self.atom.op(), self.thr_layout_vmnk, self.permutation_mnk)
    }
}

/// How errors name the extents.
const ELEMENTS: [&str; 3] = ["elements along M", "elements along N", "elements along K"];
const PERMUTATIONS: [&str; 3] =
    ["the permutation of M", "the permutation of N", "the permutation of K"];

impl TiledMma {
    /// Repeats `atom` by `atom_layout_mnk`; `_` in `permutation_mnk` leaves a mode as it is.
    ///
    /// ```
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::atom::{MmaAtom, TiledMma};
    /// let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    /// // Two atoms along N are 16 columns, which are not a part of 24.
    /// let error = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(32, 24, 16)).unwrap_err();
    /// assert!(error.to_string().ends_with(
    ///     "24 elements along N, which is not a multiple of the atom's 16: 8 are left over"
    /// ));
    /// # Ok::<(), tilewright::tensor::atom::AtomError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`TiledMma::unchecked`] and [`TiledMma::check_coverage`].
    #[doc(alias = "make_tiled_mma")]
    pub fn new(
        atom: MmaAtom,
        atom_layout_mnk: &Layout,
        permutation_mnk: impl Into<Tiler>,
    ) -> std::result::Result<Self, TensorError> {
        let permutation_mnk = permutation_mnk.into();
        let operand = format!("{} o {atom_layout_mnk} of {permutation_mnk}", atom.op());
        let mma = Self::unchecked(atom, atom_layout_mnk, permutation_mnk)
            .map_err(TensorErrorKind::from)
            .and_then(|mma| mma.covered().map(|()| mma));
        mma.map_err(|kind| TensorError { operation: "make_tiled_mma", operand, kind })
    }

    /// Like [`TiledMma::new`], but also accepts tiles whose elements are not reached exactly once.
    /// CuTe accepts those: if a tile cuts an atom, its layouts repeat elements or leave the tile.
    ///
    /// # Errors
    /// [`LayoutError::RankMismatch`] if `atom_layout_mnk` or `permutation_mnk` does not have three
    /// modes; those of [`Layout::tiled_product`].
    pub fn unchecked(
        atom: MmaAtom,
        atom_layout_mnk: &Layout,
        permutation_mnk: impl Into<Tiler>,
    ) -> Result<Self> {
        let permutation_mnk = permutation_mnk.into();
        for found in [atom_layout_mnk.rank(), permutation_mnk.rank()] {
            if found != 3 {
                return Err(LayoutError::RankMismatch { expected: 3, found });
            }
        }
        let thr_layout_vmnk = atom.thr_id().tiled_product(atom_layout_mnk)?;
        Ok(Self { atom, thr_layout_vmnk, permutation_mnk })
    }

    /// Returns the atom that the MMA repeats, for example to see its instruction.
    pub fn atom(&self) -> &MmaAtom {
        &self.atom
    }

    /// Maps (atom thread, atom in M, in N, in K) to the thread index: CuTe's `get_thr_layout_vmnk`.
    /// Use it to find which threads share an operand.
    pub fn thr_layout_vmnk(&self) -> &Layout {
        &self.thr_layout_vmnk
    }

    /// Returns how many threads take part. Launch the block, or a role, with that many.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    pub fn size(&self) -> Result<u32> {
        count_of_size(self.thr_layout_vmnk.size()?.to_static()?)
    }

    /// Returns the extents of the atom and of the grid of atoms in mode 0 (M), 1 (N) or 2 (K).
    #[inline]
    fn extents(&self, mode: usize) -> Result<(i64, i64)> {
        let shape = self.atom.op().shape_mnk();
        let atom = shape.get(mode).copied().ok_or(LayoutError::NoSuchMode { mode, rank: 3 })?;
        let atoms = self.thr_layout_vmnk.get(&[mode + 1])?.size()?.to_static()?;
        Ok((i64::from(atom), atoms))
    }

    /// Returns the permutation of mode 0 (M), 1 (N) or 2 (K), where `_` becomes the extent of all
    /// atoms. CuTe's `permutation_mnk`. Use it to see how a tile's modes are permuted.
    ///
    /// # Errors
    /// [`LayoutError::NoSuchMode`] for mode 3 and above.
    #[inline]
    pub fn permutation_mnk(&self, mode: usize) -> Result<Tiler> {
        let (atom, atoms) = self.extents(mode)?;
        let given = self.permutation_mnk.get(&[mode])?.to_owned();
        Ok(match given.as_leaf() {
            Some(TilerLeaf::All) => Tiler::leaf(TilerLeaf::Int((atom * atoms).into())),
            _ => given,
        })
    }

    /// Returns the tile's extent in mode 0 (M), 1 (N) or 2 (K). CuTe's `tile_size_mnk`. Make a
    /// block's tile a multiple of it.
    ///
    /// # Errors
    /// [`LayoutError::NoSuchMode`] for mode 3 and above.
    #[inline]
    pub fn tile_size_mnk(&self, mode: usize) -> Result<u32> {
        let permutation = self.permutation_mnk(mode)?;
        let mut size = 1i64;
        for leaf in permutation.leaves() {
            let extent = match leaf {
                TilerLeaf::Int(n) => n.to_static()?,
                TilerLeaf::Layout(l) => l.size()?.to_static()?,
                // Inside a tuple `_` has no mode to stand for.
                TilerLeaf::All => {
                    return Err(LayoutError::UnexpectedUnderscore { operation: "tile_size_mnk" });
                }
            };
            let overflow = LayoutError::Overflow { operation: "tile_size_mnk" };
            size = size.checked_mul(extent).ok_or(overflow)?;
        }
        count_of_size(size)
    }

    /// Splits an operand's matrix by threads and values:
    /// `((ThrV,(Thr0,Thr1)),(FrgV,(Rest0,Rest1)))`. `ThrV` and `FrgV` are the atom's threads and
    /// values, 0 and 1 the operand's modes. CuTe's `thrfrg_A`, `thrfrg_B`, `thrfrg_C`. Use it to
    /// see how a matrix is distributed; kernels call [`slice`](TiledMma::slice) instead.
    ///
    /// # Errors
    /// Those of [`Layout::logical_divide`] and [`Layout::composition`].
    #[inline]
    pub fn thrfrg(&self, operand: Operand, matrix: &Layout) -> Result<Layout> {
        let [first, second] = operand.modes();
        let (p0, p1) = (self.permutation_mnk(first)?, self.permutation_mnk(second)?);
        let permuted = matrix.logical_divide(&tiler!(p0, p1))?;
        let ((atom0, atoms0), (atom1, atoms1)) = (self.extents(first)?, self.extents(second)?);
        let (atom0, atom1) = (Layout::compact(atom0), Layout::compact(atom1));
        let atoms = permuted.zipped_divide(&tiler!(atom0, atom1))?;
        let tv = match operand {
            Operand::A => self.atom.layout_a_tv(),
            Operand::B => self.atom.layout_b_tv(),
            Operand::C => self.atom.layout_c_tv(),
        };
        let by_value = atoms.composition(&tiler!(tv.clone(), _))?;
        // Like CuTe, a single atom is 1:0.
        let (atoms0, atoms1) = (Layout::compact(atoms0), Layout::compact(atoms1));
        by_value.zipped_divide(&tiler!(_, (atoms0, atoms1)))
    }

    /// Maps (thread index, value) to an index in the operand's column-major tile: CuTe's
    /// `get_layoutA_TV`, `get_layoutB_TV`, `get_layoutC_TV`. Threads that differ only in the mode
    /// that the operand lacks see the same elements. Use it to draw a tile or to make a copy for an
    /// operand.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// # use tilewright::tensor::atom::{MmaAtom, Operand, TiledMma};
    /// let atom: MmaAtom = "SM80_8x8x4_F64F64F64F64_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(32, 32, 16))?;
    /// assert_eq!(mma.layout_tv(Operand::A)?.to_string(), "((4,16,2),(1,(2,4))):((32,1,0),(0,(16,128)))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::thrfrg`]; [`LayoutError::NotInjective`] if two threads share an index.
    #[inline]
    pub fn layout_tv(&self, operand: Operand) -> Result<Layout> {
        let [first, second] = operand.modes();
        let tile = (self.tile_size_mnk(first)?, self.tile_size_mnk(second)?);
        self.by_index(operand, &self.thrfrg(operand, &Layout::compact(tile))?)
    }

    /// Replaces the first mode of [`thrfrg`](Self::thrfrg)'s result by the thread index.
    #[inline]
    pub(in crate::tensor) fn by_index(
        &self,
        operand: Operand,
        by_thread: &Layout,
    ) -> Result<Layout> {
        let (_, m) = self.extents(0)?;
        let (_, n) = self.extents(1)?;
        let (_, k) = self.extents(2)?;
        // (ThrV,(ThrM,ThrN,ThrK)) -> (ThrV,(Thr0,Thr1))
        let by_thread = match operand {
            Operand::A => {
                let grid = layout!((m, n):(1, 0));
                by_thread.composition(&tiler!((_, (grid, _)), _))?
            }
            Operand::B => {
                let grid = layout!((m, n):(0, 1));
                by_thread.composition(&tiler!((_, (grid, _)), _))?
            }
            // CuTe ignores the threads along K for C, so its layout leaves the tile.
            Operand::C if k > 1 => {
                let grid = layout!((n, k):(1, 0));
                by_thread.composition(&tiler!((_, (_, grid)), _))?
            }
            Operand::C => by_thread.clone(),
        };
        by_thread.composition(&tiler!(self.thread_of_index()?, _))
    }

    /// Thread index -> coordinate in `thr_layout_vmnk`.
    #[inline]
    fn thread_of_index(&self) -> Result<Layout> {
        let vmnk = &self.thr_layout_vmnk;
        let all = Layout::concat([vmnk, &vmnk.complement_inner()?])?;
        let inverse = all.right_inverse()?;
        layout!((self.size()?, 1):(1, 0)).composition(&inverse)
    }

    /// Maps (thread index, value) to an index in A's M x K tile: [`layout_tv`](Self::layout_tv) of
    /// A.
    ///
    /// # Errors
    /// Those of [`Self::layout_tv`].
    #[inline]
    pub fn layout_a_tv(&self) -> Result<Layout> {
        self.layout_tv(Operand::A)
    }

    /// Maps (thread index, value) to an index in B's N x K tile: [`layout_tv`](Self::layout_tv) of
    /// B.
    ///
    /// # Errors
    /// Those of [`Self::layout_tv`].
    #[inline]
    pub fn layout_b_tv(&self) -> Result<Layout> {
        self.layout_tv(Operand::B)
    }

    /// Maps (thread index, value) to an index in C's M x N tile: [`layout_tv`](Self::layout_tv) of
    /// C. Print it, or make a tiled copy from it that stores accumulators as the threads hold them.
    ///
    /// # Errors
    /// Those of [`Self::layout_tv`].
    #[inline]
    pub fn layout_c_tv(&self) -> Result<Layout> {
        self.layout_tv(Operand::C)
    }

    /// Checks, as [`TiledMma::new`] does, that threads and values reach each element of the tile
    /// exactly once: no two threads share an index, whole atoms fill each mode, and a layout that
    /// permutes a mode covers it. Call it for an MMA that you made with
    /// [`unchecked`](TiledMma::unchecked).
    ///
    /// # Errors
    /// [`TensorErrorKind::SharedIndex`], [`TensorErrorKind::Atoms`] or
    /// [`TensorErrorKind::Coverage`], each with the mode.
    #[inline]
    pub fn check_coverage(&self) -> std::result::Result<(), TensorError> {
        self.covered().map_err(|kind| TensorError {
            operation: "make_tiled_mma",
            operand: self.to_string(),
            kind,
        })
    }

    #[inline]
    fn covered(&self) -> std::result::Result<(), TensorErrorKind> {
        let vmnk = &self.thr_layout_vmnk;
        if let Some(overlap) = vmnk.collision()? {
            let pairs = overlap.left.children().zip(overlap.right.children());
            let mode = pairs.take_while(|(left, right)| left == right).count();
            let (threads, overlap) = (vmnk.to_string(), Box::new(overlap));
            return Err(TensorErrorKind::SharedIndex { threads, mode, overlap });
        }
        for (mode, (what, of)) in ELEMENTS.into_iter().zip(PERMUTATIONS).enumerate() {
            let (atom, atoms) = self.extents(mode)?;
            let (count, atom) = (i64::from(self.tile_size_mnk(mode)?), atom * atoms);
            if count % atom != 0 {
                return Err(TensorErrorKind::Atoms { what, count, atom });
            }
            for leaf in self.permutation_mnk(mode)?.leaves() {
                if let TilerLeaf::Layout(layout) = leaf {
                    coverage::check(layout, of, &layout.size()?.into())?;
                }
            }
        }
        Ok(())
    }
}

/// Converts a layout's size into a count of threads or elements.
pub(super) fn count_of_size(size: i64) -> Result<u32> {
    u32::try_from(size).map_err(|_| LayoutError::Overflow { operation: "a count" })
}
