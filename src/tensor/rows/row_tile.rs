//! [`RowTile`]: which threads share a matrix row, and how they access it. Make one on the host when
//! a kernel needs a whole row in registers, for example for softmax or a norm.

use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Group, KernelOptions, Pointer, Val};
use crate::tensor::copy::lead;

use super::partition::RowPartition;

/// How a kernel accesses a matrix's rows, depending on where rows start. Pick the first one whose
/// condition your matrices meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowAccess {
    /// Vectors of 16 bytes. Every row starts at a multiple of 16 bytes and consists of whole
    /// vectors.
    Aligned,
    /// Vectors of 16 bytes inside the row, single elements at its ends. Rows can start and end
    /// anywhere. All matrices of a kernel must start a row at the same offset from a multiple of 16
    /// bytes, in elements, except those of a [`UnalignedRowCopy`](super::UnalignedRowCopy).
    Ragged,
    /// Single elements. Rows can start and end anywhere, and matrices need not agree. The slowest
    /// way.
    Elements,
}

/// Which threads share a row, and how many vectors of it each thread holds in registers: some lanes
/// of a warp, a block, or a cluster of blocks.
///
/// Use it if a kernel needs a whole row at once, for example softmax, a norm or a row reduction. It
/// reads the row from memory only once. It costs 4 registers per vector and thread, and twice that
/// once 16-bit elements are `f32`. A row above the [`capacity`](RowTile::capacity) takes several
/// [`steps`](RowPartition::steps) and is read again in every pass; a kernel without steps calls
/// [`assert_fits`](RowTile::assert_fits). To bring rows to shared memory
/// instead, use [`TiledRowCopy`](crate::tensor::rows::TiledRowCopy).
///
/// Vector `v` of a row belongs to thread `v % sharers`, so that adjacent threads access adjacent
/// vectors.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16};
/// use tilewright::ir::types::Scalar;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::{RowAccess, RowTile, tree};
///
/// // Divides rows of at most 8 * 2 * 8 = 128 elements by their sums; 4 rows for each block.
/// let tile = RowTile { threads: 32, team: 8, cluster: 1, vectors: 2, access: RowAccess::Ragged };
/// type Params = (Global<bf16>, GlobalMut<f32>, i32, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "parts", Target::SM_80, |k, (x, y, rows, columns)| {
///     let row = tile.row(k);
///     let columns = row.lt(rows).select(columns, 0);
///     tile.assert_fits::<bf16>(k, columns);
///     let start = row.cvt::<i64>() * columns.cvt::<i64>();
///     let part = tile.part::<bf16>(k, start, columns);
///     let values = part.load(x.offset(start), 0.0);
///     let own = tree(k.constant(0.0), &values, |a, b| a + b);
///     let [sum] = part.reduce([own], |_, [a], [b]| [a + b]);
///     part.store(y.offset(start), values.iter().map(|value| *value / sum));
/// })?;
/// let (rows, columns) = (5, 101);
/// assert!(columns <= tile.capacity(Scalar::Bf16) as usize);
/// let device = Device::sim()?;
/// let x = device.upload(&vec![bf16::from_f32(2.0); rows * columns])?;
/// let mut y = device.zeros::<f32>(rows * columns)?;
/// let args = (&x, &mut y, rows as i32, columns as i32);
/// device.load(&kernel)?.launch(Grid::new([tile.blocks(5), 1, 1], [32, 1, 1]), args)?;
/// assert_eq!(y.to_vec()?, vec![2.0 / 202.0; rows * columns]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowTile {
    /// Threads per block, a multiple of 32. The kernel must be launched with that many.
    pub threads: u32,
    /// Threads of a block that share a row: 1, 2, 4, 8, 16 or 32, or all threads of the block. Few
    /// threads suit short rows, because a block then handles many of them.
    pub team: u32,
    /// Blocks that share a row: 1, or a cluster of 2, 4 or 8. More than 1 needs `team == threads`.
    /// Use a cluster for rows that do not fit into one block's registers.
    pub cluster: u32,
    /// Vectors of a row that a thread holds at a time. Each takes 4 registers until it is
    /// converted.
    pub vectors: u32,
    /// How rows are accessed.
    pub access: RowAccess,
}

impl RowTile {
    /// Bytes per vector: the widest access of one thread.
    pub const VECTOR_BYTES: u32 = 16;

    /// Returns how many elements of this type fit in 16 bytes.
    pub(crate) fn vector_len(elem: Scalar) -> u32 {
        (Self::VECTOR_BYTES / elem.size_bytes().max(1)).max(1)
    }

    /// Returns how many elements of this type one access of a thread moves: 16 bytes' worth, for
    /// example 8 for `bf16`, or 1 if `access` is [`RowAccess::Elements`]. The host uses it to
    /// choose `team` and `vectors` for a row length.
    pub fn vector(&self, elem: Scalar) -> u32 {
        match self.access {
            RowAccess::Aligned | RowAccess::Ragged => Self::vector_len(elem),
            RowAccess::Elements => 1,
        }
    }

    /// Returns how many threads share a row: `team * cluster`. Each holds every `sharers`-th
    /// vector.
    pub fn sharers(&self) -> u32 {
        self.team * self.cluster
    }

    /// Returns the longest row, in columns, that fits in the registers of the threads that share
    /// it. A longer row takes several [`steps`](RowPartition::steps), so choose the tile by it.
    pub fn capacity(&self, elem: Scalar) -> u32 {
        self.sharers() * self.vectors * self.vector(elem)
    }

    /// Reports to the host if a row of `columns` elements of `T` exceeds the
    /// [`capacity`](RowTile::capacity). Call it in a kernel that loads each row once, without
    /// [`steps`](RowPartition::steps): that kernel ignores the columns beyond the capacity, so its
    /// results would be wrong without an error. It is an [assertion](Body::assert): on a GPU it
    /// costs a branch per thread, and
    /// [`Kernel::without_asserts`](crate::ir::Kernel::without_asserts) removes it.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid, RuntimeError};
    /// use tilewright::tensor::rows::{RowAccess, RowTile};
    ///
    /// let tile = RowTile { threads: 32, team: 32, cluster: 1, vectors: 1, access: RowAccess::Ragged };
    /// type Params = (GlobalMut<f32>, i32);
    /// let kernel = Kernel::<Params>::build_with(tile.options(), "twice", Target::SM_80, |k, (x, columns)| {
    ///     tile.assert_fits::<f32>(k, columns);
    ///     let part = tile.part::<f32>(k, k.constant(0i64), columns);
    ///     let values = part.load(x, 0.0);
    ///     part.store(x, values.iter().map(|value| *value * 2.0));
    /// })?;
    /// // The tile holds 32 vectors of 4 elements.
    /// let function = Device::sim()?.load(&kernel)?;
    /// let mut x = function.device().upload(&[1.0; 129])?;
    /// function.launch(Grid::cover(32, 32), (&mut x, 128))?;
    /// let error = function.launch(Grid::cover(32, 32), (&mut x, 129)).unwrap_err();
    /// let RuntimeError::AssertFailed(failed) = error else { panic!("{error}") };
    /// assert_eq!(failed.failures[0].message, "the row has 129 columns, but its tile holds 128");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_fits<'b, T: Element>(&self, k: &Body<'b, '_>, columns: Val<'b, i32>) {
        let capacity = i32::try_from(self.capacity(T::scalar())).unwrap_or(i32::MAX);
        let message = format!("the row has {{}} columns, but its tile holds {capacity}");
        k.assert_with(columns.le(capacity), &message, columns);
    }

    /// Returns how many rows a block handles at once. It is 1 if the block or a cluster shares a
    /// row.
    pub fn rows_per_block(&self) -> u32 {
        self.threads / self.team.max(1)
    }

    /// Returns how many blocks to launch for `rows` rows. A cluster counts with all its blocks; a
    /// result above `u32::MAX` becomes `u32::MAX`.
    pub fn blocks(&self, rows: u32) -> u32 {
        rows.div_ceil(self.rows_per_block().max(1)).saturating_mul(self.cluster)
    }

    /// Returns the launch bounds of a kernel with this tile: its threads and its cluster.
    ///
    /// If a thread holds 8 vectors or more, the bounds also limit it to 64 registers, so that 1024
    /// threads fit on an SM and one block can load while another reduces. Without the limit `ptxas`
    /// can take more, and already 65 registers halve the blocks per SM. If a kernel holds so much
    /// that 64 registers spill, lift the limit with
    /// [`min_blocks_per_sm(1)`](KernelOptions::min_blocks_per_sm).
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::tensor::rows::{RowAccess, RowTile};
    ///
    /// let access = RowAccess::Ragged;
    /// let tile = RowTile { threads: 256, team: 256, cluster: 1, vectors: 8, access };
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build_with(tile.options(), "k", Target::SM_80, |_, _| ())?;
    /// assert!(kernel.ptx().text().contains(".minnctapersm 4"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn options(&self) -> KernelOptions {
        let mut options = KernelOptions::default().block([self.threads, 1, 1]);
        if self.cluster > 1 {
            options = options.cluster([self.cluster, 1, 1]);
        }
        let blocks = 1024 / self.threads.max(1);
        if self.is_wide() && blocks > 1 { options.min_blocks_per_sm(blocks) } else { options }
    }

    /// Returns whether a thread holds 8 vectors or more. They take half of the 64 registers that
    /// each of 1024 threads on an SM has.
    pub(crate) fn is_wide(&self) -> bool {
        self.vectors >= 8
    }

    /// Returns who shares a row inside a block: lanes of a warp, or the block. Use it to vote or to
    /// shuffle among a row's threads.
    pub fn group(&self) -> Group {
        if self.team <= 32 { Group::Lanes(self.team) } else { Group::Block }
    }

    /// Returns the index of this thread's row, from which you compute the row's start. It can
    /// exceed the row count in the last blocks; give such rows 0 columns.
    #[track_caller]
    pub fn row<'b>(&self, k: &Body<'b, '_>) -> Val<'b, i32> {
        let block = k.block_idx().x;
        match (self.cluster, self.rows_per_block()) {
            (1, 1) => block,
            (1, rows) => block * rows as i32 + k.thread_idx().x / self.team as i32,
            (cluster, _) => block / cluster as i32,
        }
    }

    /// Returns this thread's share of a row of `columns` elements of `T` that starts at element
    /// `start` of its matrix. The matrix must start at a multiple of 16 bytes, and `start` and
    /// `columns` must not be negative. With 0 columns nothing is accessed. If `columns` can exceed
    /// the [`capacity`](RowTile::capacity), loop over the [`steps`](RowPartition::steps); else call
    /// [`assert_fits`](RowTile::assert_fits).
    #[track_caller]
    pub fn part<'b, T: Element>(
        &self,
        k: &Body<'b, '_>,
        start: Val<'b, i64>,
        columns: Val<'b, i32>,
    ) -> RowPartition<'b> {
        RowPartition::new(k, *self, self.vector(T::scalar()), self.thread(k), start, columns)
    }

    /// Returns this thread's index among those that share its row.
    #[track_caller]
    pub(super) fn thread<'b>(&self, k: &Body<'b, '_>) -> Val<'b, i32> {
        let thread = k.thread_idx().x;
        match (self.cluster, self.rows_per_block()) {
            (1, 1) => thread,
            (1, _) => thread % self.team as i32,
            (cluster, _) => k.block_idx().x % cluster as i32 * self.threads as i32 + thread,
        }
    }

    /// Returns this thread's share of a row that starts at `*row`, at any address. Use it for a
    /// [`UnalignedRowCopy`](super::UnalignedRowCopy).
    #[track_caller]
    pub fn part_at<'b, P: Pointer>(
        &self,
        k: &Body<'b, '_>,
        row: Val<'b, P>,
        columns: Val<'b, i32>,
    ) -> RowPartition<'b> {
        self.part::<P::Elem>(k, lead(row).cvt::<i64>(), columns)
    }
}
