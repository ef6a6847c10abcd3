//! [`AsyncTile`]: a block copies matrix tiles to shared memory with `cp.async`. Use it for the
//! loads of an `sm_80` main loop that feeds `mma.sync`.

use crate::ir::op::CpAsyncCache;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, Shared, Val};
use crate::layout::{ComposedLayout, Layout, layout, shape};

use crate::arch::Major;
use crate::tensor::atom::{AtomError, SmemAtom, SmemSwizzle};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::SharedTensor;

/// Copies an (MN, K) tile of a matrix from global to swizzled shared memory with all threads of a
/// block: `cp.async` of 16, 8 or 4 bytes, or element by element if the alignment allows no more.
///
/// This is how `sm_80` kernels feed `mma.sync`. It handles any extent (elements beyond the matrix
/// become zero) and any pitch, but every thread computes addresses and holds registers for it. If
/// you have `sm_90` and a pitch that is a multiple of 16 bytes,
/// [`TmaCopy`](crate::tensor::copy::TmaCopy) is cheaper. A plain
/// [`TiledCopy`](crate::tensor::atom::TiledCopy) leaves threads, edges and swizzle to you.
///
/// Lines run along the matrix's contiguous mode. They have 128 bytes if the tile consists of whole
/// lines of 128 bytes, else 64.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::arch::Major;
/// use tilewright::tensor::copy::AsyncTile;
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
    /// Bytes per line.
    line_bytes: u32,
    threads: u32,
    alignment: u32,
    interleaved: bool,
    /// The matrix contains every line of a tile completely, so edges need no check along lines.
    whole_lines: bool,
}

impl AsyncTile {
    /// Makes the copy of `extent` rows of A or columns of B by `threads` threads. The matrix's
    /// address, its pitch and its extent along the contiguous mode must be multiples of `alignment`
    /// bytes: 16, 8, 4, or the element size. K has 128 bytes; change it with
    /// [`with_depth`](AsyncTile::with_depth).
    ///
    /// # Errors
    /// [`TensorErrorKind::AsyncTile`] if threads do not share lines evenly, or the alignment is
    /// impossible.
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

    /// Like [`new`](AsyncTile::new), for a tile of `extent` by `depth` elements (MN, K) and copies
    /// of 16 bytes. The matrix must contain the whole tile along its contiguous mode. If the tile
    /// is several lines wide, blocks of one line's width follow each other in shared memory.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::copy::AsyncTile;
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

    /// Sets the tile's extent along K.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::copy::AsyncTile;
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

    /// Chooses the widest lines that divide the contiguous mode.
    const fn with_lines(self) -> AsyncTile {
        let whole = self.contiguous().is_multiple_of(128 / self.elem.size_bytes());
        AsyncTile { line_bytes: if whole { 128 } else { 64 }, ..self }
    }

    fn checked(self) -> Result<AsyncTile, TensorError> {
        let AsyncTile { elem, extent, depth, threads, alignment, .. } = self;
        let size = elem.size_bytes();
        let why = if !threads.is_power_of_two() || !(64..=512).contains(&threads) {
            Some("64, 128, 256 or 512 threads must share the lines")
        } else if extent == 0 || depth == 0 || !self.contiguous().is_multiple_of(self.line()) {
            Some("the extents must be positive, and the contiguous one a multiple of 64 bytes")
        } else if !self.block_lines().is_multiple_of(self.lines_at_once()) {
            Some("the lines must divide evenly among the threads")
        } else if !matches!(alignment, 4 | 8 | 16) && alignment != size || alignment < size {
            Some("the alignment must be 16, 8 or 4 bytes, or one element, and at least one element")
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

    /// Permutes the tile's rows of A or columns of B, so that a thread's results can be stored in
    /// wider vectors. In `mma.sync` a thread holds 2 adjacent columns out of 8. With B permuted, it
    /// holds 8 adjacent columns out of 32.
    ///
    /// [`rows`](AsyncTile::rows) returns the permutation. Nothing changes if lines do not run along
    /// K, or if the extent is not a multiple of 32.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::copy::AsyncTile;
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

    /// Maps each row (or column) in shared memory to its row of A (or column of B). An epilogue
    /// uses it to find where the results of an [interleaved](AsyncTile::interleaved) tile belong;
    /// without interleaving it is the identity.
    #[inline]
    pub fn rows(&self) -> Layout {
        let extent = i64::from(self.extent);
        if self.interleaved {
            layout!((2, 4, 4, extent / 32):(1, 8, 2, 32))
        } else {
            Layout::compact(extent)
        }
    }

    /// Returns the tile's extents (MN, K), for example to step along K by its depth.
    pub const fn shape(&self) -> [u32; 2] {
        [self.extent, self.depth]
    }

    /// Returns how many elements a line has. Code that computes shared-memory addresses of its own
    /// needs it.
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

    /// Lines per block, which is one line wide.
    const fn block_lines(&self) -> u32 {
        match self.major {
            Major::K => self.extent,
            Major::Mn => self.depth,
        }
    }

    /// Units of 16 bytes per line.
    const fn units(&self) -> u32 {
        self.line_bytes / 16
    }

    /// Lines that all threads copy together.
    const fn lines_at_once(&self) -> u32 {
        self.threads / self.units()
    }

    /// Lines per thread and block.
    const fn lines_of_thread(&self) -> u32 {
        self.block_lines() / self.lines_at_once()
    }

    /// Returns how many matrix rows a thread's line is away from its first line. A thread's line
    /// index and that distance share no bits, so the result does not depend on the thread.
    fn row_of(&self, line: u32) -> u32 {
        if self.interleaved {
            line / 32 * 32 + line % 2 + line / 2 % 4 * 8 + line / 8 % 4 * 2
        } else {
            line
        }
    }

    /// Returns how many 16-byte copies each thread makes per tile, for example to size the
    /// registers of a copy that goes through registers.
    pub const fn copies(&self) -> u32 {
        self.lines_of_thread() * (self.contiguous() / self.line())
    }

    /// Returns the layout of a ring buffer of `stages` tiles: (MN, K, stage). Allocate the shared
    /// tensor that you pass to [`slice`](AsyncTile::slice) with it.
    ///
    /// # Errors
    /// [`TensorErrorKind::Layout`] if the ring buffer is too large.
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
                _ => TensorErrorKind::AsyncTile {
                    why: "the swizzle does not support elements of this width",
                },
            },
        })
    }

    /// Returns a thread's share of the copies that move tiles of A or B into the ring buffer
    /// `ring`. Allocate `ring` in shared memory with the layout that [`layout`](AsyncTile::layout)
    /// returns for your stage count.
    ///
    /// Call it once per output tile, before the main loop, because it computes the thread's
    /// addresses. In each K step call [`start`](ThrAsyncTile::start) on the result, with the stage
    /// to fill and the K offset; [`CpAsyncPipeline`](crate::tensor::pipeline::CpAsyncPipeline)
    /// provides the stage.
    ///
    /// The matrix starts at `from`, its lines are `pitch` elements apart, and its extents are
    /// `limits` (MN, K). `first` is the output tile's first row of A or column of B.
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
        // Pairs of 64-byte lines are swizzled alike.
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
        // Kernels that use `of_shape` need their registers for other values.
        let kept = if self.whole_lines { 0 } else { self.lines_of_thread() };
        ThrAsyncTile { lines: (0..kept).map(|i| made.line(i)).collect(), ..made }
    }

    /// Like [`slice`](AsyncTile::slice), for lines along K that start anywhere: row `r` of A or
    /// column of B starts `start(r)` elements after `from`. Use it for gathered or paged rows.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::arch::Major;
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::copy::AsyncTile;
    /// use tilewright::tensor::view::SharedTensor;
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
    ///     rows.start(zero, zero);
    ///     k.cp_async_commit_group();
    ///     k.cp_async_wait_group(0);
    ///     k.barrier();
    ///     let row = k.thread_idx().x;
    ///     k.if_(row.lt(16), |_| y.store(row, ring.load((row, 0, 0))));
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
                kind: TensorErrorKind::AsyncTile {
                    why: "rows at arbitrary addresses must be contiguous along K",
                },
            });
        }
        let made = self.slice(k, from, k.constant(0i64), first, limits, ring);
        let row = first + k.crd2idx::<i32>(self.thread(k)[0], &self.rows());
        let start_of = |line: u32| start(row + self.row_of(line * self.lines_at_once()));
        let bytes = |line| (start_of(line) - start_of(0)) * i64::from(self.elem.size_bytes());
        let lines = (0..self.lines_of_thread()).map(bytes).collect();
        ThrAsyncTile { from: made.from.offset(start_of(0)), lines, ..made }
    }

    /// Returns the thread's first line, and its 16-byte unit in that line.
    #[track_caller]
    #[inline]
    fn thread<'b>(&self, k: &Body<'b, '_>) -> [Val<'b, i32>; 2] {
        let thread = k.thread_idx().x.cvt::<u32>();
        [thread / self.units(), thread % self.units()].map(|number| number.cvt::<i32>())
    }
}

/// A thread's share of the copies of an [`AsyncTile`]. Made by [`AsyncTile::slice`] before the main
/// loop, which calls [`start`](ThrAsyncTile::start) for each tile along K.
#[derive(Clone, Debug)]
pub struct ThrAsyncTile<'b, T> {
    tile: AsyncTile,
    /// The thread's first element of the first tile, and the line pitch.
    from: Val<'b, Global<T>>,
    pitch: Val<'b, i64>,
    /// Byte offsets of the thread's lines from its first one, if they are kept in registers.
    lines: Vec<Val<'b, i64>>,
    /// How many lines, and elements per line, remain in the matrix from the thread's first element.
    limits: [Val<'b, i32>; 2],
    /// The thread's destination in stage 0.
    to: Val<'b, Shared<T>>,
}

/// Elements that [`ThrAsyncTile::begin`] has loaded to registers, with their addresses in shared
/// memory. `begin` does so if elements are narrower than the smallest `cp.async`; otherwise there
/// are none, because `cp.async` copies the tile.
#[derive(Clone, Debug)]
#[must_use = "the elements are not stored"]
pub struct LoadedElements<'b, T>(Vec<(Val<'b, Shared<T>>, Val<'b, T>)>);

impl<'b, T: Element> LoadedElements<'b, T> {
    /// Stores the elements to shared memory. Call it after other work, so that the loads have time
    /// to arrive.
    #[track_caller]
    pub fn store(&self) {
        self.0.iter().for_each(|(to, element)| to.store(0, *element));
    }
}

/// 16 bytes: source, destination, whether the line is in the matrix, and how many elements remain.
type Unit<'b, T> = (Val<'b, Global<T>>, Val<'b, Shared<T>>, Val<'b, bool>, Val<'b, i32>);

impl<'b, T: Element> ThrAsyncTile<'b, T> {
    /// Returns the address of the thread's first element.
    pub(crate) fn address(&self) -> Val<'b, i64> {
        self.from.ptr_to_int()
    }

    /// Starts copying the tile that is `depth` elements along K from the first one into `stage`.
    /// The copies are complete after a wait ([`cp_async_wait_group`](Body::cp_async_wait_group))
    /// and a barrier.
    #[track_caller]
    pub fn start(&self, stage: Val<'b, i32>, depth: Val<'b, i32>) {
        self.start_part(stage, depth, 0, 1);
    }

    /// Like [`start`](ThrAsyncTile::start), but if elements are too narrow for `cp.async`, they
    /// only go to registers, with all loads in flight together. Call
    /// [`store`](LoadedElements::store) on the result after the step's MMAs, so that the loads'
    /// latency is hidden.
    #[track_caller]
    pub fn begin(&self, stage: Val<'b, i32>, depth: Val<'b, i32>) -> LoadedElements<'b, T> {
        let k = &mut self.from.body();
        let all = self.part_of(stage, depth, [0, self.tile.copies()]);
        if self.tile.alignment < 4 {
            return LoadedElements(self.load(k, &all));
        }
        self.units(k, &all);
        LoadedElements(Vec::new())
    }

    /// Starts one of `parts` roughly equal parts of a tile, so that you can spread the copies among
    /// other work. All parts together equal one [`start`](ThrAsyncTile::start). It is a build error
    /// if `part` is not below `parts`.
    #[track_caller]
    pub fn start_part(&self, stage: Val<'b, i32>, depth: Val<'b, i32>, part: u32, parts: u32) {
        let k = &mut self.from.body();
        if part >= parts {
            return k.report(TensorError {
                operation: "async_copy",
                operand: format!("part {part} of {parts}"),
                kind: TensorErrorKind::AsyncTile {
                    why: "the part index must be below the part count",
                },
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

    /// Returns a line's byte offset from the thread's first line.
    #[track_caller]
    fn line(&self, number: u32) -> Val<'b, i64> {
        let line = self.tile.row_of(number * self.tile.lines_at_once());
        self.pitch * i64::from(self.tile.elem.size_bytes()) * i64::from(line)
    }

    /// Returns a tile's copies `first..end`.
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
        // The lines and elements that remain in this tile.
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

    /// Loads the elements of 16-byte copies, with their addresses in shared memory.
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
                let x = k.if_with(inside, T::default(), |_| from.load(element));
                loaded.push((to.offset(element), x));
            }
        }
        loaded
    }

    /// Issues 16-byte copies, in pieces of `alignment` bytes.
    #[track_caller]
    fn units(&self, k: &mut Body<'b, '_>, all: &[Unit<'b, T>]) {
        let AsyncTile { elem, alignment, whole_lines, .. } = self.tile;
        if alignment < 4 {
            return LoadedElements(self.load(k, all)).store();
        }
        for piece in 0..16 / alignment {
            let elements = piece * alignment / elem.size_bytes();
            for (from, to, inside, left) in all {
                let (from, to) = (from.offset(elements), to.offset(elements));
                // A piece is inside or outside as a whole, because extents are multiples of its
                // size.
                let inside = if whole_lines { *inside } else { *inside & left.gt(elements) };
                let bytes = inside.select(k.constant(alignment), k.constant(0));
                let cache = if alignment == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                k.cp_async_zfill(to, from, cache, alignment, bytes);
            }
        }
    }
}
