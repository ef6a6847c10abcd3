//! [`TiledCopy`]: one copy instruction repeated over the threads and values of a tile. Make one on
//! the host when you want to choose yourself which thread copies which elements.

use std::fmt;

use crate::ir::builder::DeviceCoord;
use crate::ir::types::Scalar;
use crate::layout::{IntTuple, Layout, LayoutError, Tiler, make_layout_tv, tiler};

use super::CopyAtom;
use super::coverage;
use super::thr_copy::ThrCopy;
use super::tiled_mma::{Operand, TiledMma, count_of_size};
use crate::tensor::error::{TensorError, TensorErrorKind};

/// A [`CopyAtom`] repeated over threads and values, so that together they copy a tile: CuTe's
/// `TiledCopy`.
///
/// Use it for thread copies, `cp.async` and `ldmatrix`. For TMA use
/// [`TmaCopy`](crate::tensor::copy::TmaCopy); for tiles of any extent that a block copies with
/// `cp.async`, [`AsyncTile`](crate::tensor::copy::AsyncTile) chooses the threads for you.
///
/// `layout_tv` maps (thread, value) to an index of the tile, in the order of the atom's registers.
/// Constructors check that each element of the tile is reached exactly once.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::tensor::atom::{CopyAtom, CopyOp, TiledCopy};
///
/// // 32 threads copy four neighbours of a row each: a tile of 8 x 16.
/// let atom = CopyAtom::new(CopyOp::Universal { bits: 128 })?;
/// let copy = TiledCopy::new(atom.clone(), Scalar::F32, &layout!((8, 4) : (4, 1)), &layout!((1, 4)))?;
/// assert_eq!(copy.tiler().to_string(), "(8,16)");
/// assert_eq!(copy.layout_tv().to_string(), "((4,8),4):((32,1),8)");
///
/// // Three values are no vector of four.
/// let error = TiledCopy::new(atom, Scalar::F32, &layout!((8, 4) : (4, 1)), &layout!((1, 3))).unwrap_err();
/// assert!(error.to_string().ends_with(
///     "the tile has 3 values, which is not a multiple of the atom's 4: 3 are left over"
/// ));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TiledCopy {
    atom: CopyAtom,
    dtype: Scalar,
    layout_tv: Layout,
    tiler: IntTuple,
    /// The tile's rows and columns, if they are not contiguous.
    modes: Option<Vec<Layout>>,
}

/// For example `SM80_CP_ASYNC_CACHEALWAYS<uint128_t> o ((4,8),4):((32,1),8) of (8,16)`: atom,
/// layout and tile.
impl fmt::Display for TiledCopy {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} o {} of {}", self.atom.op(), self.layout_tv, self.tiler)
    }
}

impl TiledCopy {
    /// Tiles `atom` for elements of type `dtype`. `threads` maps an index of the tile to a thread,
    /// `values` an index to one of each thread's values: CuTe's `make_tiled_copy` and CuTe DSL's
    /// `make_tiled_copy_tv`.
    ///
    /// # Errors
    /// Threads and values do not reach each element of the tile once, or do not divide into whole
    /// atoms.
    #[doc(alias = "make_tiled_copy")]
    #[inline]
    pub fn new(
        atom: CopyAtom,
        dtype: Scalar,
        threads: &Layout,
        values: &Layout,
    ) -> Result<Self, TensorError> {
        match make_layout_tv(threads, values) {
            Ok((tiler, layout_tv)) => Self::from_tv(atom, dtype, layout_tv, tiler),
            Err(error) => {
                let operand = format!("{} o threads {threads}, values {values}", atom.op());
                let kind = match error {
                    LayoutError::NotBijective { .. } => {
                        coverage::threads_and_values(threads, values)
                            .unwrap_or_else(TensorErrorKind::from)
                    }
                    error => error.into(),
                };
                Err(TensorError { operation: "make_tiled_copy", operand, kind })
            }
        }
    }

    /// Tiles `atom` with a layout from (thread, value) to the column-major index in a tile of
    /// extents `tiler`. Use it if you have such a layout already, for example one from
    /// [`TiledMma::layout_tv`].
    ///
    /// # Errors
    /// Those of [`TiledCopy::new`].
    #[doc(alias = "make_tiled_copy_tv")]
    #[inline]
    pub fn from_tv(
        atom: CopyAtom,
        dtype: Scalar,
        layout_tv: Layout,
        tiler: IntTuple,
    ) -> Result<Self, TensorError> {
        let copy = Self { atom, dtype, layout_tv, tiler, modes: None };
        match copy.check() {
            Ok(()) => Ok(copy),
            Err(kind) => {
                Err(TensorError { operation: "make_tiled_copy", operand: copy.to_string(), kind })
            }
        }
    }

    /// Tiles `atom` for an operand of `mma`, so that each thread copies what it multiplies: CuTe's
    /// `make_tiled_copy_A`, `_B`, `_C`. Threads that multiply the same elements each copy them. Use
    /// it for example to load fragments with `ldmatrix`.
    ///
    /// # Errors
    /// Those of [`TiledMma::layout_tv`]; threads and values do not divide into whole atoms, or
    /// reach some elements more often than others.
    #[inline]
    pub fn of_operand(
        atom: CopyAtom,
        dtype: Scalar,
        mma: &TiledMma,
        operand: Operand,
    ) -> Result<Self, TensorError> {
        let parts = || -> Result<_, LayoutError> {
            let [first, second] = operand.modes();
            let tiler = (mma.tile_size_mnk(first)?, mma.tile_size_mnk(second)?);
            Ok((mma.layout_tv(operand)?, IntTuple::from(tiler)))
        };
        let copy =
            parts().map(|(layout_tv, tiler)| Self { atom, dtype, layout_tv, tiler, modes: None });
        let error = |operand: String, kind| {
            Err(TensorError { operation: "make_tiled_copy", operand, kind })
        };
        match copy {
            Ok(copy) => match copy.check_shared() {
                Ok(()) => Ok(copy),
                Err(kind) => error(copy.to_string(), kind),
            },
            Err(cause) => error(format!("{mma:?}"), cause.into()),
        }
    }

    /// Tiles `atom` for the C operand of `mma`, one atom's worth of values at a time, in the order
    /// of C's values: CuTe's `make_tiled_copy_C_atom`. The tile contains only the rows and columns
    /// that these values reach.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::atom::{CopyAtom, CopyOp, MmaAtom, TiledCopy, TiledMma};
    ///
    /// let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(32, 32, 16))?;
    /// let pairs = CopyAtom::new(CopyOp::Universal { bits: 64 })?;
    /// let copy = TiledCopy::of_c_atom(pairs, Scalar::F32, &mma)?;
    /// // Of 32 x 32 elements, the rows 0 to 7 and 16 to 23, and the first 16 columns.
    /// let modes: Vec<String> = copy.tiler_layouts().iter().map(|mode| mode.to_string()).collect();
    /// assert_eq!(modes, ["(8,2):(1,16)", "(8,2):(2,1)"]);
    /// assert_eq!(copy.tiler().to_string(), "(16,16)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread holds fewer values of C than the atom; those of [`TiledCopy::of_operand`].
    #[inline]
    pub fn of_c_atom(atom: CopyAtom, dtype: Scalar, mma: &TiledMma) -> Result<Self, TensorError> {
        let operand = format!("{} of C of {mma:?}", atom.op());
        let made = || -> Result<_, TensorErrorKind> {
            let layout_tv = mma.layout_tv(Operand::C)?;
            let threads = layout_tv.get(&[0])?.size()?.to_static()?;
            let count = layout_tv.get(&[1])?.size()?.to_static()?;
            let probe = Self { atom, dtype, layout_tv, tiler: IntTuple::from(1), modes: None };
            let values = probe.vector(Side::Source)?;
            if values > count {
                return Err(TensorErrorKind::Atoms { what: "values", count, atom: values });
            }
            let layout_tv = probe.layout_tv.composition(&Layout::compact((threads, values)))?;
            let tile = IntTuple::from((mma.tile_size_mnk(0)?, mma.tile_size_mnk(1)?));
            Self::of_coords(probe.atom, dtype, &layout_tv, &tile)
        };
        made().map_err(|kind| TensorError { operation: "make_tiled_copy_C_atom", operand, kind })
    }

    /// Tiles `atom` by memory address. `atom_tv` maps (thread, value) to addresses of `data`, a
    /// layout from coordinates to addresses: CuTe's `make_cotiled_copy`. The tile contains only the
    /// rows and columns that are reached.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::atom::{CopyAtom, CopyOp, TiledCopy};
    ///
    /// // 32 threads copy runs of 4 addresses, whatever coordinates these have: here they are columns.
    /// let atom = CopyAtom::new(CopyOp::Universal { bits: 128 })?;
    /// let addresses = layout!((32, 4) : (4, 1));
    /// let copy = TiledCopy::cotiled(atom, Scalar::F32, &addresses, &layout!((16, 64) : (1, 16)))?;
    /// assert_eq!(copy.tiler().to_string(), "(16,8)");
    /// assert_eq!(copy.layout_tv().to_string(), "((4,8),4):((1,16),4)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `data` lacks one of the addresses; those of [`TiledCopy::new`].
    #[doc(alias = "make_cotiled_copy")]
    #[inline]
    pub fn cotiled(
        atom: CopyAtom,
        dtype: Scalar,
        atom_tv: &Layout,
        data: &Layout,
    ) -> Result<Self, TensorError> {
        let operand = format!("{} o {atom_tv} of {data}", atom.op());
        let made = || -> Result<_, TensorErrorKind> {
            let to_coord = data.left_inverse()?;
            let layout_tv = to_coord.composition(atom_tv)?;
            // Each address must belong to its coordinate, so that none lies in a gap or beyond the
            // data.
            for (coord, address) in layout_tv.indices()?.zip(atom_tv.indices()?) {
                if data.at(coord)? != address || coord >= data.size()?.to_static()? {
                    return Err(TensorErrorKind::NoSuchAddress { address, data: data.to_string() });
                }
            }
            Self::of_coords(atom, dtype, &layout_tv, &data.shape().to_owned().product_each()?)
        };
        made().map_err(|kind| TensorError { operation: "make_cotiled_copy", operand, kind })
    }

    /// Makes a copy from (thread, value) -> tile index, cut to the rows and columns that it
    /// reaches.
    #[inline]
    fn of_coords(
        atom: CopyAtom,
        dtype: Scalar,
        layout_tv: &Layout,
        tile: &IntTuple,
    ) -> Result<Self, TensorErrorKind> {
        let extents: Vec<i64> =
            tile.leaves().iter().map(|extent| extent.to_static()).collect::<Result<_, _>>()?;
        let mut modes = Vec::with_capacity(extents.len());
        for mode in 0..extents.len() {
            let leaf = |(at, extent): (usize, &i64)| Layout::leaf(*extent, i64::from(at == mode));
            let leaves: Vec<Layout> = extents.iter().enumerate().map(leaf).collect();
            modes.push(Layout::concat(&leaves)?.composition(layout_tv)?.filter()?);
        }
        let to_tile =
            Tiler::from_items(modes.iter().cloned().map(Tiler::from).collect::<Vec<_>>())?;
        let tile_to_data = Layout::compact(tile.clone()).composition(&to_tile)?;
        let sizes = modes
            .iter()
            .map(|mode| mode.size()?.to_static())
            .collect::<Result<Vec<_>, LayoutError>>()?;
        let sizes: Vec<IntTuple> = sizes.into_iter().map(IntTuple::from).collect();
        let layout_tv = tile_to_data.left_inverse()?.composition(layout_tv)?;
        let copy = Self {
            atom,
            dtype,
            layout_tv,
            tiler: IntTuple::from_items(sizes)?,
            modes: Some(modes),
        };
        copy.check()?;
        Ok(copy)
    }

    #[inline]
    fn check(&self) -> Result<(), TensorErrorKind> {
        self.check_atoms()?;
        coverage::check(&self.layout_tv, "(threads, values)", &self.tiler)
    }

    #[inline]
    fn check_shared(&self) -> Result<(), TensorErrorKind> {
        self.check_atoms()?;
        coverage::check_shared(&self.layout_tv, &self.tiler)
    }

    #[inline]
    fn check_atoms(&self) -> Result<(), TensorErrorKind> {
        let (threads, values) = self.atom_size()?;
        let modes: Vec<Layout> = self.layout_tv.modes().map(|mode| mode.to_layout()).collect();
        let [thread, value] = modes.as_slice() else {
            let (expected, found) = (2, modes.len());
            return Err(LayoutError::RankMismatch { expected, found }.into());
        };
        for (what, layout, atom) in [("threads", thread, threads), ("values", value, values)] {
            let count = layout.size()?.to_static()?;
            if count % atom != 0 {
                return Err(TensorErrorKind::Atoms { what, count, atom });
            }
        }
        Ok(())
    }

    /// Returns the atom that the copy repeats, for example to see its instruction.
    pub fn atom(&self) -> &CopyAtom {
        &self.atom
    }

    /// Maps (thread, value) to the column-major index in the tile. Print it to see which thread
    /// copies what.
    pub fn layout_tv(&self) -> &Layout {
        &self.layout_tv
    }

    /// Returns the tile's extents. Divide a tensor by them to get one tile per copy.
    pub fn tiler(&self) -> &IntTuple {
        &self.tiler
    }

    /// Returns the matrix rows and columns that form the tile, as in CuTe's `Tiler_MN`. For most
    /// copies these are the first ones. Use them to see which elements a copy [for C's
    /// atoms](TiledCopy::of_c_atom) leaves to others.
    #[inline]
    pub fn tiler_layouts(&self) -> Vec<Layout> {
        match &self.modes {
            Some(modes) => modes.clone(),
            None => self.tiler.children().map(|mode| Layout::compact(mode.to_owned())).collect(),
        }
    }

    /// The smallest matrix that consists of whole tiles.
    #[inline]
    pub(in crate::tensor) fn period(&self) -> Result<IntTuple, LayoutError> {
        let Some(modes) = &self.modes else { return Ok(self.tiler.clone()) };
        let period = |mode: &Layout| -> Result<IntTuple, LayoutError> {
            let mut max = 1;
            for (extent, stride) in mode.as_ref().leaves() {
                let overflow = LayoutError::Overflow { operation: "the extents of a tile" };
                let (extent, stride) = (extent.to_static()?, stride.to_int()?.to_static()?);
                max = max.max(extent.checked_mul(stride).ok_or(overflow)?);
            }
            Ok(IntTuple::from(max))
        };
        IntTuple::from_items(modes.iter().map(period).collect::<Result<Vec<_>, _>>()?)
    }

    /// Returns the type of the elements that are copied: tensors to copy must have it.
    pub fn dtype(&self) -> Scalar {
        self.dtype
    }

    /// Returns how many threads take part. Launch at least as many; each calls
    /// [`slice`](TiledCopy::slice) with its index.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn size(&self) -> Result<u32, LayoutError> {
        count_of_size(self.layout_tv.get(&[0])?.size()?.to_static()?)
    }

    /// Turns an atom's layout of bits into one of elements.
    #[inline]
    fn of_elements(&self, bits: &Layout) -> Result<Layout, TensorErrorKind> {
        let element = self.dtype.bits();
        let values = self.atom.op().bits_together();
        if !values.is_multiple_of(element) {
            let (instruction, bits) = (self.atom.op().instruction(), values.into());
            return Err(TensorErrorKind::AtomBits { instruction, bits, element });
        }
        Ok(bits.recast_layout(1, element.into())?)
    }

    /// Returns the atom's thread count and value count.
    #[inline]
    fn atom_size(&self) -> Result<(i64, i64), TensorErrorKind> {
        let tv = self.of_elements(self.atom.layout_ref_tv())?;
        let size = |mode: usize| tv.get(&[mode])?.size()?.to_static();
        Ok((size(0)?, size(1)?))
    }

    /// Returns how many elements one thread copies at once.
    #[inline]
    pub(in crate::tensor) fn vector(&self, side: Side) -> Result<i64, TensorErrorKind> {
        let bits = match side {
            Side::Source => self.atom.layout_src_tv(),
            Side::Destination => self.atom.layout_dst_tv(),
        };
        Ok(self.of_elements(bits)?.get(&[1])?.size()?.to_static()?)
    }

    /// Returns `matrix` as (thread index, (atom value, atom), tiles..): CuTe's `tidfrg_S`,
    /// `tidfrg_D`.
    #[inline]
    pub(in crate::tensor) fn tidfrg(
        &self,
        matrix: &Layout,
        side: Side,
    ) -> Result<Layout, TensorErrorKind> {
        let target = match side {
            Side::Source => self.atom.layout_src_tv(),
            Side::Destination => self.atom.layout_dst_tv(),
        };
        let reference = self.of_elements(self.atom.layout_ref_tv())?;
        let to_target = reference.right_inverse()?.composition(&self.of_elements(target)?)?;
        let (threads, values) = self.atom_size()?;
        // ((thread of the atom, value of the atom), (atom in threads, atom in values)) -> index
        let atoms = self.layout_tv.zipped_divide(&tiler!(threads, values))?;
        let atoms = atoms.composition(&tiler!(to_target, _))?;
        let (atom, rest) = (atoms.get(&[0])?, atoms.get(&[1])?);
        let values = atom.zip(&rest)?.coalesce_by(&IntTuple::from((1, (1, 1))))?;
        let tiled = match &self.modes {
            None => matrix.zipped_divide(&Tiler::from(&self.tiler))?,
            Some(modes) => {
                let modes = modes.iter().cloned().map(Tiler::from).collect::<Vec<_>>();
                matrix.zipped_divide(&Tiler::from_items(modes)?)?
            }
        };
        let by_thread = tiled.composition(&tiler!(values, _))?;
        // ((thread, values), tiles) -> (thread, values, tiles..)
        let (tile, tiles) = (by_thread.get(&[0])?, by_thread.get(&[1])?);
        let modes: Vec<Layout> =
            tile.modes().chain(tiles.modes()).map(|mode| mode.to_layout()).collect();
        Ok(Layout::concat(&modes)?)
    }

    /// Rearranges a thread's (value, ..) part of a tile into this copy's ((atom value, rest), ..):
    /// CuTe's `retile`. The part's values are each thread's first ones in this copy's layout.
    #[inline]
    pub(in crate::tensor) fn retiled(&self, part: &Layout) -> Result<Layout, TensorErrorKind> {
        let values = part.get(&[0])?.size()?.to_static()?;
        let (_, atom) = self.atom_size()?;
        // Tile index -> index in the part's first mode. Its inverse gives their order.
        let of_index = self.layout_tv.right_inverse()?;
        let of_index = of_index.composition(&Layout::compact(self.tiler.clone()))?;
        let of_index = of_index.upcast(i64::from(self.size()?) * values)?;
        let order = Layout::compact(values).logical_product(&of_index.right_inverse()?)?;
        // (atom value, rest) -> (part value, its indices)
        let order = order.zipped_divide(&Layout::compact(atom))?;
        let counts = of_index.shape().to_owned().product_each()?;
        let tile = counts.prepend(&values.into())?;
        let tiled = part.zipped_divide(&Tiler::from(&tile))?;
        let tiled = tiled.composition(&tiler!(order, _))?;
        let (first, rest) = (tiled.get(&[0])?, tiled.get(&[1])?);
        let modes = std::iter::once(first).chain(rest.modes().skip(1).map(|mode| mode.to_layout()));
        Ok(Layout::concat(&modes.collect::<Vec<Layout>>())?)
    }

    /// Returns a thread's share of the copy, which partitions tensors and issues the instructions:
    /// CuTe's `get_slice`. `thread` is a host or a device value.
    #[doc(alias("get_slice", "get_thread_slice"))]
    pub fn slice<'c, 'b>(&'c self, thread: impl Into<DeviceCoord<'b>>) -> ThrCopy<'c, 'b> {
        ThrCopy { copy: self, thread: thread.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tensor) enum Side {
    Source,
    Destination,
}
