//! Chooses a shared-memory tile's swizzle so that its accesses have as few bank conflicts as
//! possible. Use it on the host if no standard swizzle fits, for example for a transpose tile.

use std::fmt;

use crate::ir::types::Scalar;
use crate::layout::{
    Analysis, BankConflicts, ComposedLayout, IntTuple, Layout, LayoutError, Swizzle,
};

use super::SmemAtom;
use super::tiled_copy::{Side, TiledCopy};
use crate::sorting::sort_by_key;
use crate::tensor::error::{TensorError, TensorErrorKind};

/// An access by a block's threads to a shared-memory tile, warp by warp. Thread `t` accesses
/// `vector` elements starting at `threads(t)`, a linear coordinate of the tile (first mode
/// fastest). Describe each access of a kernel to a tile, then pass them to [`choose_swizzle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmemAccess {
    /// The access's name in the report.
    pub name: String,
    /// Maps a thread to a coordinate of the tile.
    pub threads: Layout,
    /// Elements per access.
    pub vector: u32,
}

impl SmemAccess {
    /// Describes the access `name` of `vector` elements starting at `threads(t)`. Use it for
    /// accesses that are not those of a tiled copy.
    pub fn new(name: &str, threads: Layout, vector: u32) -> Self {
        Self { name: name.to_owned(), threads, vector }
    }

    /// Describes how a tiled copy's threads read a shared-memory tile with this layout: each
    /// thread's first vector, or the row whose address it gives to `ldmatrix`.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::layout::tiler;
    /// use tilewright::tensor::atom::{
    ///     CopyAtom, CopyOp, Matrices, MmaAtom, Operand, SmemAccess, TiledCopy, TiledMma,
    ///     choose_swizzle,
    /// };
    ///
    /// let tile = layout!((64, 64) : (64, 1));
    /// // A warp stores 4 rows of 64 elements, 16 bytes a thread, and loads 16 x 16 of them by `ldmatrix`.
    /// let atom = CopyAtom::new(CopyOp::Universal { bits: 128 })?;
    /// let store = TiledCopy::new(atom, Scalar::U16, &layout!((4, 8) : (8, 1)), &layout!((1, 8)))?;
    /// let op = CopyOp::LdMatrix { matrices: Matrices::X4, transposed: false };
    /// let mma: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    /// let mma = TiledMma::new(mma, &layout!((1, 1, 1)), tiler!(_, _, _))?;
    /// let load = TiledCopy::of_operand(CopyAtom::new(op)?, Scalar::U16, &mma, Operand::A)?;
    /// let accesses = [
    ///     SmemAccess::written_by("store", &store, &tile)?,
    ///     SmemAccess::read_by("ldmatrix", &load, &tile)?,
    /// ];
    /// assert_eq!(accesses[0].threads.to_string(), "(8,4):(512,1)");
    /// assert_eq!(choose_swizzle(&tile, Scalar::U16, &accesses)?.best().swizzle().to_string(), "S<3,3,3>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The tile's modes do not match the copy's; [`TensorErrorKind::Vector`] if the tile's layout
    /// does not allow the copy's vectors.
    #[inline]
    pub fn read_by(name: &str, copy: &TiledCopy, tile: &Layout) -> Result<Self, TensorError> {
        Self::of_copy(name, copy, tile, Side::Source)
    }

    /// Like [`read_by`](SmemAccess::read_by), for what the threads write.
    ///
    /// # Errors
    /// Those of [`read_by`](SmemAccess::read_by).
    #[inline]
    pub fn written_by(name: &str, copy: &TiledCopy, tile: &Layout) -> Result<Self, TensorError> {
        Self::of_copy(name, copy, tile, Side::Destination)
    }

    #[inline]
    fn of_copy(
        name: &str,
        copy: &TiledCopy,
        tile: &Layout,
        side: Side,
    ) -> Result<Self, TensorError> {
        let access = || -> Result<Self, TensorErrorKind> {
            // Partition coordinates of the tile, not indices.
            let coords = Layout::compact(tile.shape().to_owned().product_each()?);
            let threads = copy.tidfrg(&coords, side)?.get(&[0])?.coalesce()?;
            let vector = u32::try_from(copy.vector(side)?).unwrap_or(u32::MAX);
            let values = copy.tidfrg(tile, side)?.get(&[1, 0])?;
            let (bits, align) = (copy.dtype().bits(), MAX_ALIGN);
            let widest = values.vector_of(bits, align, vector)?;
            if widest.elements() < vector {
                return Err(TensorErrorKind::Vector {
                    elements: vector.into(),
                    bits: i64::from(vector * bits),
                    tensor: values.to_string(),
                    widest: Box::new(widest),
                    name: None,
                });
            }
            Ok(SmemAccess::new(name, threads, vector))
        };
        access().map_err(|kind| {
            let operand = format!("{copy} on {tile}");
            TensorError { operation: "SmemAccess", operand, kind }
        })
    }
}

/// One of the swizzles that [`choose_swizzle`] compares, and the bank conflicts that it leaves.
/// Compare it with others if more than bank conflicts decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwizzleCandidate {
    swizzle: Swizzle,
    atom: Option<SmemAtom>,
    conflicts: Vec<BankConflicts>,
}

impl SwizzleCandidate {
    /// Returns the swizzle in element units; it is the identity for the tile without a swizzle.
    /// Compose the tile's layout with it.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// Returns the atom that the swizzled tile repeats if `wgmma` and TMA can read the tile, else
    /// `None`.
    pub fn smem_atom(&self) -> Option<SmemAtom> {
        self.atom
    }

    /// Returns each access's conflicts, phase by phase, in the order in which you gave the
    /// accesses. Use them to see which access limits a candidate.
    pub fn conflicts(&self) -> &[BankConflicts] {
        &self.conflicts
    }

    /// Returns whether no access has a conflict. Use it to stop searching, or to assert it in a
    /// test of your kernel.
    pub fn is_free(&self) -> bool {
        self.conflicts.iter().all(BankConflicts::is_free)
    }

    /// Returns how many wavefronts (passes through shared memory) all accesses take together: the
    /// figure by which candidates are ranked.
    pub fn wavefronts(&self) -> u64 {
        self.conflicts.iter().map(BankConflicts::wavefronts).sum()
    }
}

/// The swizzles of a tile, ranked by [`choose_swizzle`]: take [`best`](SwizzleChoice::best), or
/// print it to see why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwizzleChoice {
    tile: Layout,
    names: Vec<String>,
    /// Never empty.
    candidates: Vec<SwizzleCandidate>,
    plain: SwizzleCandidate,
}

impl SwizzleChoice {
    /// Returns the swizzle with the fewest wavefronts; on a tie one that `wgmma` can read, then the
    /// one that permutes the fewest bits. It is the identity if no swizzle helps.
    pub fn best(&self) -> &SwizzleCandidate {
        self.candidates.first().unwrap_or(&self.plain)
    }

    /// Returns the best swizzle that `wgmma` and TMA can read, if the tile has one. Use it for a
    /// tile that both threads and `wgmma` access.
    pub fn best_for_wgmma(&self) -> Option<&SwizzleCandidate> {
        self.candidates.iter().find(|candidate| candidate.atom.is_some())
    }

    /// Returns the costs of the tile without a swizzle, to see what a swizzle would gain.
    pub fn plain(&self) -> &SwizzleCandidate {
        &self.plain
    }

    /// Returns all swizzles, best first, for example to pick the best one that another constraint
    /// allows.
    pub fn candidates(&self) -> &[SwizzleCandidate] {
        &self.candidates
    }

    /// Returns the tile with the best swizzle, ready for
    /// [`SharedTensor::shared`](crate::tensor::view::SharedTensor::shared).
    ///
    /// # Errors
    /// Those of [`ComposedLayout::new`].
    #[inline]
    pub fn layout(&self) -> Result<ComposedLayout, LayoutError> {
        swizzled(self.best().swizzle, &self.tile)
    }
}

/// Shows the tile without and with the best swizzle, each with every access's conflicts.
impl fmt::Display for SwizzleChoice {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile {}", self.tile)?;
        let best = self.best();
        let shown = [Some(&self.plain), (best != &self.plain).then_some(best)];
        for candidate in shown.into_iter().flatten() {
            match (candidate.swizzle.is_identity(), candidate.atom) {
                (true, None) => write!(f, "\n  not swizzled")?,
                (true, Some(atom)) => write!(f, "\n  not swizzled, {atom} of wgmma and TMA")?,
                (false, None) => write!(f, "\n  {}", candidate.swizzle)?,
                (false, Some(atom)) => {
                    write!(f, "\n  {}, {atom} of wgmma and TMA", candidate.swizzle)?;
                }
            }
            for (name, conflicts) in self.names.iter().zip(&candidate.conflicts) {
                write!(f, "\n    {name}: {conflicts}")?;
            }
        }
        Ok(())
    }
}

/// The alignment of the widest access, in bytes.
const MAX_ALIGN: u32 = 16;

#[inline]
fn swizzled(swizzle: Swizzle, tile: &Layout) -> Result<ComposedLayout, LayoutError> {
    if swizzle.is_identity() {
        return Ok(tile.into());
    }
    ComposedLayout::new(swizzle, 0, tile)
}

/// Ranks the swizzles of a shared-memory tile by the bank conflicts of the given accesses, best
/// first.
///
/// It tries every `S<b,m,s>` with `s >= b` that stays inside the tile (rounded up to a power of
/// two) and keeps the widest vector whole. `wgmma` can read those whose tile consists of a
/// [`SmemAtom`].
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::tensor::atom::{SmemAccess, choose_swizzle};
///
/// // 64 x 64 elements of 16 bits, written row by row, 16 bytes a thread; read by `ldmatrix`, 8 rows at a time.
/// let tile = layout!((64, 64) : (64, 1));
/// let choice = choose_swizzle(&tile, Scalar::U16, &[
///     SmemAccess::new("store", layout!((8, 4) : (512, 1)), 8),
///     SmemAccess::new("ldmatrix", layout!(32:1), 8),
/// ])?;
/// assert_eq!(choice.to_string(), "\
/// tile (64,64):(64,1)
///   not swizzled
///     store: 32 threads x 128 bits: no bank conflicts; 4 wavefronts in 4 phases
///     ldmatrix: 32 threads x 128 bits: 8-way bank conflict (8 words of bank 0 in lanes 0..8 of warp 0); 32 wavefronts in 4 phases
///   S<3,3,3>, GMMA::Layout_K_SW128_Atom of wgmma and TMA
///     store: 32 threads x 128 bits: no bank conflicts; 4 wavefronts in 4 phases
///     ldmatrix: 32 threads x 128 bits: no bank conflicts; 4 wavefronts in 4 phases");
/// assert_eq!(choice.layout()?.to_string(), "S<3,3,3> o 0 o (64,64):(64,1)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Those of [`Analysis::bank_conflicts`] for the unswizzled tile; [`LayoutError::NotStatic`].
#[inline]
pub fn choose_swizzle(
    tile: &Layout,
    dtype: Scalar,
    accesses: &[SmemAccess],
) -> Result<SwizzleChoice, LayoutError> {
    let atoms = atoms_of(tile, dtype.bits())?;
    let measure = |swizzle: Swizzle| -> Result<SwizzleCandidate, LayoutError> {
        let layout = swizzled(swizzle, tile)?;
        let report = |access: &SmemAccess| {
            layout.bank_conflicts(&access.threads, access.vector, dtype.bits())
        };
        let conflicts = accesses.iter().map(report).collect::<Result<_, _>>()?;
        let atom = atoms.iter().find(|(found, _)| *found == swizzle).map(|(_, atom)| *atom);
        Ok(SwizzleCandidate { swizzle, atom, conflicts })
    };
    let plain = measure(Swizzle::identity())?;
    let mut candidates = vec![plain.clone()];
    let size = u64::try_from(tile.cosize()?.to_static()?).unwrap_or(0);
    let bits = i64::from(size.max(1).next_power_of_two().trailing_zeros());
    let vector = accesses.iter().map(|access| access.vector).max().unwrap_or(1);
    let whole = i64::from(vector.max(1).next_power_of_two().trailing_zeros());
    // A phase covers all banks, so nothing larger needs to be permuted.
    let line = i64::from((1024 / dtype.bits()).max(1).trailing_zeros());
    for base in whole..=line.max(whole) {
        for count in 1..=5 {
            for shift in count..=(bits - base - count).max(0) {
                let candidate = measure(Swizzle::new(count, base, shift)?)?;
                candidates.push(candidate);
            }
        }
    }
    sort_by_key(&mut candidates, |candidate| {
        let swizzle = candidate.swizzle;
        let changed = if swizzle.is_identity() { 0 } else { swizzle.bits() };
        (candidate.wavefronts(), candidate.atom.is_none(), changed, swizzle.base(), swizzle.shift())
    });
    let names = accesses.iter().map(|access| access.name.clone()).collect();
    Ok(SwizzleChoice { tile: tile.clone(), names, candidates, plain })
}

/// Returns the swizzles, in element units, that make the tile consist of a `wgmma` atom.
#[inline]
fn atoms_of(tile: &Layout, bits: u32) -> Result<Vec<(Swizzle, SmemAtom)>, LayoutError> {
    let mut found = Vec::new();
    if tile.rank() != 2 || !tile.is_static() {
        return Ok(found);
    }
    let shape = tile.shape().to_owned().product_each()?;
    let indices: Vec<i64> = tile.indices()?.collect();
    for atom in SmemAtom::all() {
        let Ok(layout) = atom.layout(bits) else { continue };
        let orders = [None, Some(IntTuple::from((1, 0)))];
        let is_tile = |order: &Option<IntTuple>| {
            let tiled = layout.tile_to_shape(&shape, order.as_ref());
            tiled
                .and_then(|tiled| Ok(tiled.indices()?.eq(indices.iter().copied())))
                .unwrap_or(false)
        };
        if orders.iter().any(is_tile)
            && let Ok(swizzle) = atom.swizzle().recast(8, bits.into())
        {
            let swizzle = if swizzle.is_identity() { Swizzle::identity() } else { swizzle };
            found.push((swizzle, atom));
        }
    }
    Ok(found)
}
