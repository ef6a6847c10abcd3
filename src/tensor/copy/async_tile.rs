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
/// element by element where less is known of the addresses. The tile has swizzled lines along K or along the other mode, as the
/// matrix has: of 128 bytes where that mode is whole lines of them, and of 64 bytes otherwise. Elements beyond the matrix
/// become zero, in any size.
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
    depth: u32,
    /// Bytes of a line.
    line_bytes: u32,
    threads: u32,
    alignment: u32,
    interleaved: bool,
    /// The matrix has all lines of a tile as a whole.
    whole_lines: bool,
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
        let depth = 128 / elem.size_bytes();
        let [interleaved, whole_lines] = [false; 2];
        AsyncTile {
            elem,
            major,
            extent,
            depth,
            line_bytes: 128,
            threads,
            alignment,
            interleaved,
            whole_lines,
        }
        .with_lines()
        .checked()
    }

    /// As [`new`](AsyncTile::new), of a tile of `extent` by `depth` elements (MN, K), with copies of 16 bytes. Along the
    /// contiguous mode the matrix has all of the tile. Blocks that are one line wide lie behind each other.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::AsyncTile;
    ///
    /// let keys = AsyncTile::of_shape(Scalar::F16, Major::K, [64, 96], 128)?;
    /// assert_eq!(keys.layout(1)?.to_string(), "S<2,3,3> o 0 o ((8,8),(32,3),(1,1)):((32,256),(1,2048),(0,0))");
    /// assert_eq!(keys.copies(), 6);
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](AsyncTile::new).
    pub fn of_shape(
        elem: Scalar,
        major: Major,
        [extent, depth]: [u32; 2],
        threads: u32,
    ) -> Result<AsyncTile, TensorError> {
        let (alignment, interleaved, whole_lines) = (16, false, true);
        AsyncTile {
            elem,
            major,
            extent,
            depth,
            line_bytes: 128,
            threads,
            alignment,
            interleaved,
            whole_lines,
        }
        .with_lines()
        .checked()
    }

    /// The same with `depth` elements along K.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::AsyncTile;
    ///
    /// let tile = AsyncTile::new(Scalar::F16, Major::K, 64, 128, 4)?.with_depth(32)?;
    /// assert_eq!((tile.shape(), tile.line(), tile.copies()), ([64, 32], 32, 2));
    /// # Ok::<(), tilewright::tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](AsyncTile::new).
    pub fn with_depth(self, depth: u32) -> Result<AsyncTile, TensorError> {
        AsyncTile { depth, ..self }.with_lines().checked()
    }

    /// The same with the widest lines that divide the contiguous mode.
    const fn with_lines(self) -> AsyncTile {
        let whole = self.contiguous().is_multiple_of(128 / self.elem.size_bytes());
        AsyncTile { line_bytes: if whole { 128 } else { 64 }, ..self }
    }

    fn checked(self) -> Result<AsyncTile, TensorError> {
        let AsyncTile { elem, extent, depth, threads, alignment, .. } = self;
        let size = elem.size_bytes();
        let why = if !threads.is_power_of_two() || !(64..=512).contains(&threads) {
            Some("lines are shared by 64, 128, 256 or 512 threads")
        } else if extent == 0 || depth == 0 || !self.contiguous().is_multiple_of(self.line()) {
            Some("lines along the contiguous mode are whole")
        } else if !self.block_lines().is_multiple_of(self.lines_at_once()) {
            Some("the threads do not share the lines evenly")
        } else if !matches!(alignment, 4 | 8 | 16) && alignment != size || alignment < size {
            Some("copies are of 16, 8 or 4 bytes, or of one element")
        } else {
            None
        };
        match why {
            None => Ok(self),
            Some(why) => Err(TensorError {
                operation: "make_async_tile",
                operand: format!("{elem} o ({extent},{depth}) by {threads} threads"),
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
    #[inline]
    pub fn rows(&self) -> Layout {
        let extent = i64::from(self.extent);
        if self.interleaved {
            layout!((2, 4, 4, extent / 32):(1, 8, 2, 32))
        } else {
            Layout::compact(extent)
        }
    }

    /// The extents (MN, K).
    pub const fn shape(&self) -> [u32; 2] {
        [self.extent, self.depth]
    }

    /// Elements of a line.
    pub const fn line(&self) -> u32 {
        self.line_bytes / self.elem.size_bytes()
    }

    /// The extent of the contiguous mode.
    const fn contiguous(&self) -> u32 {
        match self.major {
            Major::K => self.depth,
            Major::Mn => self.extent,
        }
    }

    /// Lines of a block, which is one line wide.
    const fn block_lines(&self) -> u32 {
        match self.major {
            Major::K => self.extent,
            Major::Mn => self.depth,
        }
    }

    /// Units of 16 bytes of a line.
    const fn units(&self) -> u32 {
        self.line_bytes / 16
    }

    /// Lines that all threads copy at the same time.
    const fn lines_at_once(&self) -> u32 {
        self.threads / self.units()
    }

    /// Lines of a thread in a block.
    const fn lines_of_thread(&self) -> u32 {
        self.block_lines() / self.lines_at_once()
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
        self.lines_of_thread() * (self.contiguous() / self.line())
    }

    /// The layout of a ring of `stages` tiles: (MN, K, stage).
    ///
    /// # Errors
    /// [`TensorErrorKind::Layout`]: the ring is too large.
    #[inline]
    pub fn layout(&self, stages: u32) -> Result<ComposedLayout, TensorError> {
        let made = || -> Result<ComposedLayout, AtomError> {
            let swizzle =
                if self.line_bytes == 128 { SmemSwizzle::Sw128 } else { SmemSwizzle::Sw64 };
            let atom = SmemAtom::new(self.major, swizzle);
            let atom = atom.position_independent(self.elem.bits())?;
            let order = if self.major == Major::K { shape!(0, 1, 2) } else { shape!(1, 0, 2) };
            Ok(atom.tile_to_shape(&shape!(self.extent, self.depth, stages), Some(&order))?)
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
        let units = self.units();
        let [line, unit] = self.thread(k);
        let row = k.crd2idx::<i32>(line, &self.rows());
        let per_unit = 16 / self.elem.size_bytes();
        let column = unit * per_unit;
        let (across, along) = match self.major {
            Major::K => ((first + row).cvt::<i64>() * pitch, column),
            Major::Mn => (line.cvt::<i64>() * pitch, first + column),
        };
        let (base, _) = ring.engine.resolve();
        // Two lines of 64 bytes are exchanged alike.
        let exchange = if units == 8 { line } else { line >> 1 } & (units - 1) as i32;
        let element = line * self.line() + (unit ^ exchange) * per_unit;
        let line = if self.major == Major::K { first + row } else { line };
        let limits = match self.major {
            Major::K => [limits[0] - line, limits[1] - column],
            Major::Mn => [limits[1] - line, limits[0] - along],
        };
        let from = from.offset(across + along.cvt::<i64>());
        let to = base.offset(element);
        let made = ThrAsyncTile { tile: *self, from, pitch, lines: Vec::new(), limits, to };
        // Kernels with such tiles have other uses for the registers.
        let kept = if self.whole_lines { 0 } else { self.lines_of_thread() };
        ThrAsyncTile { lines: (0..kept).map(|i| made.line(i)).collect(), ..made }
    }

    /// As [`slice`](AsyncTile::slice), of lines along K in any places: row `r` of A or column of B starts `start(r)` elements after
    /// `from`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::arch::Major;
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::{AsyncTile, SharedTensor};
    ///
    /// // Rows of two matrices of 8 x 32 numbers alternate.
    /// let tile = AsyncTile::of_shape(Scalar::I32, Major::K, [16, 32], 64)?;
    /// let kernel = Kernel::<(Global<i32>, GlobalMut<i32>)>::build("alternate", Target::SM_80, |k, (x, y)| {
    ///     let ring = SharedTensor::<i32>::shared_aligned(k, tile.layout(1)?, 1024);
    ///     let (zero, limits) = (k.constant(0), [16, 32].map(|limit| k.constant(limit)));
    ///     let rows = tile.slice_rows(
    ///         k,
    ///         x,
    ///         |row| (row % 2 * 8 + row / 2).cvt::<i64>() * 32,
    ///         zero,
    ///         limits,
    ///         &ring,
    ///     );
    ///     rows.start(k, zero, zero);
    ///     k.cp_async_commit_group();
    ///     k.cp_async_wait_group(0);
    ///     k.barrier();
    ///     let row = k.thread_idx().x;
    ///     k.if_(row.lt(16), |k| y.store(k, row, ring.load(k, (row, 0, 0))));
    ///     Ok::<(), tilewright::tensor::TensorError>(())
    /// })?;
    /// let device = Device::sim()?;
    /// let x = device.upload(&(0..512).map(|i| i / 32).collect::<Vec<i32>>())?;
    /// let mut y = device.zeros::<i32>(16)?;
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&x, &mut y))?;
    /// assert_eq!(y.to_vec()?[..6], [0, 8, 1, 9, 2, 10]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn slice_rows<'b, T: Element>(
        &self,
        k: &Body<'b, '_>,
        from: Val<'b, Global<T>>,
        start: impl Fn(Val<'b, i32>) -> Val<'b, i64>,
        first: Val<'b, i32>,
        limits: [Val<'b, i32>; 2],
        ring: &SharedTensor<'b, T>,
    ) -> ThrAsyncTile<'b, T> {
        let _call = k.call();
        if self.major != Major::K {
            k.report(TensorError {
                operation: "async_copy",
                operand: format!("{self:?}"),
                kind: TensorErrorKind::AsyncTile { why: "rows in any places are lines along K" },
            });
        }
        let made = self.slice(k, from, k.constant(0i64), first, limits, ring);
        let row = first + k.crd2idx::<i32>(self.thread(k)[0], &self.rows());
        let start_of = |line: u32| start(row + self.row_of(line * self.lines_at_once()));
        let bytes = |line| (start_of(line) - start_of(0)) * i64::from(self.elem.size_bytes());
        let lines = (0..self.lines_of_thread()).map(bytes).collect();
        ThrAsyncTile { from: made.from.offset(start_of(0)), lines, ..made }
    }

    /// The first line of the thread, and its unit of 16 bytes of a line.
    #[track_caller]
    #[inline]
    fn thread<'b>(&self, k: &Body<'b, '_>) -> [Val<'b, i32>; 2] {
        let thread = k.thread_idx().x.cvt::<u32>();
        [thread / self.units(), thread % self.units()].map(|number| number.cvt::<i32>())
    }
}

/// The part of an [`AsyncTile`] that a thread has.
#[derive(Clone, Debug)]
pub struct ThrAsyncTile<'b, T> {
    tile: AsyncTile,
    /// The thread's first element of the first tile, and the distance of lines.
    from: Val<'b, Global<T>>,
    pitch: Val<'b, i64>,
    /// The offsets of its lines from the first line, in bytes, where they are kept.
    lines: Vec<Val<'b, i64>>,
    /// Lines, and elements of them, that are left from its first one in the first tile.
    limits: [Val<'b, i32>; 2],
    /// Its start in the first stage.
    to: Val<'b, Shared<T>>,
}

/// Elements of a tile that a thread has loaded, with their indices in shared memory. None where `cp.async` copies.
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
    /// The address of the first element of the thread.
    pub(crate) fn address(&self) -> Val<'b, i64> {
        self.from.ptr_to_int()
    }

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

    /// The offset of a line of the thread from its first line, in bytes.
    #[track_caller]
    fn line(&self, number: u32) -> Val<'b, i64> {
        let line = self.tile.row_of(number * self.tile.lines_at_once());
        self.pitch * i64::from(self.tile.elem.size_bytes()) * i64::from(line)
    }

    /// The copies from one number to another one of a tile.
    #[track_caller]
    fn part_of(
        &self,
        stage: Val<'b, i32>,
        depth: Val<'b, i32>,
        [first, end]: [u32; 2],
    ) -> Vec<Unit<'b, T>> {
        let AsyncTile { elem, major, extent, depth: depths, .. } = self.tile;
        let (line, size) = (self.tile.line(), elem.size_bytes());
        let to = self.to.ptr_cast::<u8>().offset(stage * (extent * depths * size));
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
            let shift = i * self.tile.lines_at_once();
            let step = self.lines.get(i as usize).copied().unwrap_or_else(|| self.line(i));
            all.push((
                from.offset(step).offset(block * line * size).ptr_cast::<T>(),
                to.offset((block * self.tile.block_lines() + shift) * line * size).ptr_cast::<T>(),
                lines.gt(self.tile.row_of(shift)),
                left - block * line,
            ));
        }
        all
    }

    /// Loads the elements of copies of 16 bytes, with their indices.
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
        let AsyncTile { elem, alignment, whole_lines, .. } = self.tile;
        if alignment < 4 {
            return LoadedElements(self.load(k, all)).store(k);
        }
        for piece in 0..16 / alignment {
            let elements = piece * alignment / elem.size_bytes();
            for (from, to, inside, left) in all {
                let (from, to) = (from.offset(elements), to.offset(elements));
                // A copy is all or nothing: lines end at multiples of its size.
                let inside = if whole_lines { *inside } else { *inside & left.gt(elements) };
                let bytes = inside.select(k.constant(alignment), k.constant(0));
                let cache = if alignment == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                k.cp_async_zfill(to, from, cache, alignment, bytes);
            }
        }
    }
}
