//! [`AsyncTile`]: tiles of a matrix in global memory, copied to shared memory by all threads of a block.

use crate::ir::op::CpAsyncCache;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, Shared, Val};
use crate::layout::{ComposedLayout, Layout, layout, shape};

use crate::arch::Major;
use crate::tensor::atom::{AtomError, SmemAtom, SmemSwizzle};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::SharedTensor;

/// The copy of a tile (MN, K) of a matrix to shared memory by the threads of a block: `cp.async` of 16, 8 or 4 bytes, or
/// element by element where less is known of the addresses. The tile has lines of 128 bytes in the swizzle of 128
/// bytes, along K or along the other mode, as the matrix has; what is outside of the matrix becomes zero, in any size.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::arch::Major;
/// use tilewright::tensor::AsyncTile;
///
/// let tile = AsyncTile::new(Scalar::F16, Major::K, 64, 128, 16)?;
/// assert_eq!(tile.layout(3)?.to_string(), "S<3,3,3> o 0 o ((8,8),(64,1),(1,3)):((64,512),(1,0),(0,4096))");
/// // 64 lines of 8 times 16 bytes: four for each thread.
/// assert_eq!(tile.copies(), 4);
/// assert!(AsyncTile::new(Scalar::F16, Major::K, 64, 96, 16).is_err());
/// # Ok::<(), tilewright::tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncTile {
    elem: Scalar,
    major: Major,
    extent: u32,
    threads: u32,
    alignment: u32,
    interleaved: bool,
}

impl AsyncTile {
    /// Copies of `extent` rows of A or columns of B, by `threads` threads, from a matrix whose address, pitch and extent
    /// along its contiguous mode are multiples of `alignment` bytes: 16, 8, 4, or the size of an element.
    ///
    /// # Errors
    /// [`TensorErrorKind::AsyncTile`]: threads do not share lines evenly, or such an alignment is not possible.
    pub fn new(
        elem: Scalar,
        major: Major,
        extent: u32,
        threads: u32,
        alignment: u32,
    ) -> Result<AsyncTile, TensorError> {
        let tile = AsyncTile { elem, major, extent, threads, alignment, interleaved: false };
        let size = elem.size_bytes();
        let line = 128 / size;
        let why = if !threads.is_power_of_two() || !(64..=512).contains(&threads) {
            Some("lines are shared by 64, 128, 256 or 512 threads")
        } else if extent == 0 || !tile.lines().is_multiple_of(threads / 8) {
            Some("the threads do not share the lines evenly")
        } else if major == Major::Mn
            && (!extent.is_multiple_of(line) || !line.is_multiple_of(threads / 8))
        {
            Some("lines along M or N are whole, and the threads go through them evenly")
        } else if !matches!(alignment, 4 | 8 | 16) && alignment != size || alignment < size {
            Some("copies are of 16, 8 or 4 bytes, or of one element")
        } else {
            None
        };
        match why {
            None => Ok(tile),
            Some(why) => Err(TensorError {
                operation: "make_async_tile",
                operand: format!("{elem} o {extent} by {threads} threads"),
                kind: TensorErrorKind::AsyncTile { why },
            }),
        }
    }

    /// The same with rows of A or columns of B in another order, where they are lines: [`rows`](AsyncTile::rows) says
    /// in which. A thread of `mma.sync` has 2 neighbouring columns of each 8 columns of a product. With B in this order
    /// they are 8 neighbours of each 32, which can be written together. Nothing changes where the lines are along K, or
    /// are no multiple of 32.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::AsyncTile;
    ///
    /// let tile = AsyncTile::new(Scalar::F16, Major::K, 64, 128, 16)?.interleaved();
    /// assert_eq!(tile.rows().to_string(), "(2,4,4,2):(1,8,2,32)");
    /// let columns = AsyncTile::new(Scalar::F16, Major::Mn, 64, 128, 16)?.interleaved();
    /// assert_eq!(columns.rows().to_string(), "64:1");
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    #[must_use]
    pub fn interleaved(self) -> AsyncTile {
        let interleaved = self.major == Major::K && self.extent.is_multiple_of(32);
        AsyncTile { interleaved, ..self }
    }

    /// The row of A or column of B that each one in shared memory is.
    pub fn rows(&self) -> Layout {
        let extent = i64::from(self.extent);
        if self.interleaved {
            layout!((2, 4, 4, extent / 32):(1, 8, 2, 32))
        } else {
            Layout::compact(extent)
        }
    }

    /// Elements of a line, which is the depth of the tile too.
    pub const fn line(&self) -> u32 {
        128 / self.elem.size_bytes()
    }

    const fn lines(&self) -> u32 {
        match self.major {
            Major::K => self.extent,
            // Blocks of a line along the contiguous mode, of as many lines as the tile is deep.
            Major::Mn => self.extent / self.line() * self.line(),
        }
    }

    /// Lines of a thread that are not far along the contiguous mode: of the tile, or of each block.
    const fn lines_of_thread(&self) -> u32 {
        match self.major {
            Major::K => self.extent / (self.threads / 8),
            Major::Mn => self.line() / (self.threads / 8),
        }
    }

    /// The distance of a line from the first line in the matrix. Lines of a thread have no bit of their numbers in common with
    /// it, so that it is as far from any other.
    fn row_of(&self, line: u32) -> u32 {
        if self.interleaved {
            line / 32 * 32 + line % 2 + line / 2 % 4 * 8 + line / 8 % 4 * 2
        } else {
            line
        }
    }

    /// The number of 16-byte copies of each thread in a tile.
    pub const fn copies(&self) -> u32 {
        self.lines() / (self.threads / 8)
    }

    /// The layout of a ring of `stages` tiles: (MN, K, stage).
    ///
    /// # Errors
    /// [`TensorErrorKind::Layout`]: the ring is too large.
    pub fn layout(&self, stages: u32) -> Result<ComposedLayout, TensorError> {
        let made = || -> Result<ComposedLayout, AtomError> {
            let atom = SmemAtom::new(self.major, SmemSwizzle::Sw128);
            let atom = atom.position_independent(self.elem.bits())?;
            let order = if self.major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
            Ok(atom.tile_to_shape(&shape!(self.extent, self.line(), stages), Some(&order))?)
        };
        made().map_err(|error| TensorError {
            operation: "make_async_tile",
            operand: format!("{self:?}"),
            kind: match error {
                AtomError::Layout(error) => error.into(),
                _ => TensorErrorKind::AsyncTile { why: "the swizzle has no such elements" },
            },
        })
    }

    /// The part of a thread: of tiles whose first row of A or column of B is `first`, of a matrix at `from` with lines
    /// `pitch` elements apart and the extents `limits` (MN, K), to a ring of the layout of this copy.
    #[track_caller]
    pub fn slice<'b, T: Element>(
        &self,
        k: &Body<'b, '_>,
        from: Val<'b, Global<T>>,
        pitch: Val<'b, i64>,
        first: Val<'b, i32>,
        limits: [Val<'b, i32>; 2],
        ring: &SharedTensor<'b, T>,
    ) -> ThrAsyncTile<'b, T> {
        let _call = k.call();
        let t = k.thread_idx().x.cvt::<u32>();
        let (line, unit) = ((t / 8).cvt::<i32>(), (t % 8).cvt::<i32>());
        let row = k.crd2idx::<i32>(line, &self.rows());
        let per_unit = 16 / self.elem.size_bytes();
        let column = unit * per_unit;
        let (across, along) = match self.major {
            Major::K => ((first + row).cvt::<i64>() * pitch, column),
            Major::Mn => (line.cvt::<i64>() * pitch, first + column),
        };
        let (base, _) = ring.engine.resolve();
        let place = line * self.line() + (unit ^ (line & 7)) * per_unit;
        let line = if self.major == Major::K { first + row } else { line };
        let limits = match self.major {
            Major::K => [limits[0] - line, limits[1] - column],
            Major::Mn => [limits[1] - line, limits[0] - along],
        };
        let bytes = pitch * i64::from(self.elem.size_bytes());
        let lines = (0..self.lines_of_thread())
            .map(|i| bytes * i64::from(self.row_of(i * (self.threads / 8))))
            .collect();
        ThrAsyncTile {
            tile: *self,
            from: from.offset(across + along.cvt::<i64>()),
            pitch,
            lines,
            limits,
            to: base.offset(place),
        }
    }
}

/// The part of an [`AsyncTile`] that a thread has.
#[derive(Clone, Debug)]
pub struct ThrAsyncTile<'b, T> {
    tile: AsyncTile,
    /// The thread's first element of the first tile, and the distance of lines.
    from: Val<'b, Global<T>>,
    pitch: Val<'b, i64>,
    /// The offsets of its lines from the first line, in bytes.
    lines: Vec<Val<'b, i64>>,
    /// Lines, and elements of them, that are left from its first one in the first tile.
    limits: [Val<'b, i32>; 2],
    /// Its place in the first stage.
    to: Val<'b, Shared<T>>,
}

/// Elements of a tile that a thread has loaded, with their places in shared memory. None where `cp.async` copies.
#[derive(Clone, Debug)]
#[must_use = "the elements are not stored"]
pub struct LoadedElements<'b, T>(Vec<(Val<'b, Shared<T>>, Val<'b, T>)>);

impl<'b, T: Element> LoadedElements<'b, T> {
    /// Stores the elements to shared memory.
    #[track_caller]
    pub fn store<'k: 'b>(&self, k: &mut Body<'k, '_>) {
        let k = &mut k.rescoped();
        self.0.iter().for_each(|(to, element)| to.store(k, 0, *element));
    }
}

/// 16 bytes: from where, to where, whether their line is inside of the matrix, and how many elements of it are left.
type Unit<'b, T> = (Val<'b, Global<T>>, Val<'b, Shared<T>>, Val<'b, bool>, Val<'b, i32>);

impl<'b, T: Element> ThrAsyncTile<'b, T> {
    /// Starts the copies of the tile that is `depth` elements along K from the first one, to a stage of the ring. They
    /// are done after a wait ([`cp_async_wait_group`](Body::cp_async_wait_group)) and a barrier.
    #[track_caller]
    pub fn start<'k: 'b>(&self, k: &mut Body<'k, '_>, stage: Val<'b, i32>, depth: Val<'b, i32>) {
        self.start_part(k, stage, depth, 0, 1);
    }

    /// Starts as [`start`](ThrAsyncTile::start) does. Elements that are copied one by one are loaded to registers alone, all
    /// at the same time, and have to be [stored](LoadedElements::store).
    #[track_caller]
    pub fn begin<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        stage: Val<'b, i32>,
        depth: Val<'b, i32>,
    ) -> LoadedElements<'b, T> {
        let k = &mut k.rescoped();
        let all = self.part_of(stage, depth, [0, self.tile.copies()]);
        if self.tile.alignment < 4 {
            return LoadedElements(self.load(k, &all));
        }
        self.units(k, &all);
        LoadedElements(Vec::new())
    }

    /// Starts the copies of one of `parts` about equal parts of a tile, to spread them among other work. All parts
    /// together are [`start`](ThrAsyncTile::start). A part that there is not is an error of the build.
    #[track_caller]
    pub fn start_part<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        stage: Val<'b, i32>,
        depth: Val<'b, i32>,
        part: u32,
        parts: u32,
    ) {
        if part >= parts {
            return k.report(TensorError {
                operation: "async_copy",
                operand: format!("part {part} of {parts}"),
                kind: TensorErrorKind::AsyncTile { why: "there is no such part" },
            });
        }
        let bound = |part: u32| {
            let copies = u64::from(self.tile.copies()) * u64::from(part) / u64::from(parts);
            copies as u32
        };
        let k = &mut k.rescoped();
        let all = self.part_of(stage, depth, [bound(part), bound(part.saturating_add(1))]);
        self.units(k, &all);
    }

    /// The copies from one number to another one of a tile.
    #[track_caller]
    fn part_of(
        &self,
        stage: Val<'b, i32>,
        depth: Val<'b, i32>,
        [first, end]: [u32; 2],
    ) -> Vec<Unit<'b, T>> {
        let AsyncTile { elem, major, extent, .. } = self.tile;
        let (line, size) = (self.tile.line(), elem.size_bytes());
        let to = self.to.ptr_cast::<u8>().offset(stage * (extent * line * size));
        let from = match major {
            Major::K => self.from.offset(depth),
            Major::Mn => self.from.offset(depth.cvt::<i64>() * self.pitch),
        };
        // Lines and elements that are left in this tile.
        let [lines, left] = match major {
            Major::K => [self.limits[0], self.limits[1] - depth],
            Major::Mn => [self.limits[0] - depth, self.limits[1]],
        };
        let (from, own) = (from.ptr_cast::<u8>(), self.tile.lines_of_thread());
        let mut all = Vec::new();
        for copy in first..end {
            let (block, i) = (copy / own, copy % own);
            let shift = i * (self.tile.threads / 8);
            let Some(step) = self.lines.get(i as usize) else { continue };
            all.push((
                from.offset(*step).offset(block * line * size).ptr_cast::<T>(),
                to.offset((block * line + shift) * line * size).ptr_cast::<T>(),
                lines.gt(self.tile.row_of(shift)),
                left - block * line,
            ));
        }
        all
    }

    /// Loads the elements of copies of 16 bytes, with their places.
    #[track_caller]
    fn load(
        &self,
        k: &mut Body<'b, '_>,
        all: &[Unit<'b, T>],
    ) -> Vec<(Val<'b, Shared<T>>, Val<'b, T>)> {
        let mut loaded = Vec::new();
        for element in 0..16 / self.tile.elem.size_bytes() {
            for (from, to, inside, left) in all {
                let inside = *inside & left.gt(element);
                let x = k.if_with(inside, T::default(), |k| from.load(k, element));
                loaded.push((to.offset(element), x));
            }
        }
        loaded
    }

    /// Copies of 16 bytes.
    #[track_caller]
    fn units(&self, k: &mut Body<'b, '_>, all: &[Unit<'b, T>]) {
        let AsyncTile { elem, alignment, .. } = self.tile;
        if alignment < 4 {
            return LoadedElements(self.load(k, all)).store(k);
        }
        for piece in 0..16 / alignment {
            let elements = piece * alignment / elem.size_bytes();
            for (from, to, inside, left) in all {
                let (from, to) = (from.offset(elements), to.offset(elements));
                // A copy is all or nothing: lines end at multiples of its size.
                let inside = *inside & left.gt(elements);
                let bytes = inside.select(k.constant(alignment), k.constant(0));
                let cache = if alignment == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                k.cp_async_zfill(to, from, cache, alignment, bytes);
            }
        }
    }
}
