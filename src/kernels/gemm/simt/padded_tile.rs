//! [`PaddedTile`]: a tile of A or B in shared memory with one padded line per step along K, copied
//! by all threads of a block. The kernel without tensor cores stages both operands in it.

use crate::arch::Major;
use crate::ir::op::CpAsyncCache;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, Registers, Shared, Val, Var};
use crate::kernels::gemm::sm80::arguments::Matrix;

/// Padding between two lines in shared memory, in elements. It keeps vectors aligned, and spreads
/// the 8 steps of 4 rows that a warp writes at a time over 32 banks, if the matrix is contiguous
/// along K.
const PAD: u32 = 4;

/// A tile of rows of A, or of columns of B, in shared memory as `f32`, with one line per step along
/// K.
///
/// 32-bit elements are copied one by one with `cp.async`, from any address, which transposes a
/// matrix that is contiguous along K. 16-bit elements are loaded into registers, and converted to
/// `f32` when they are stored.
///
/// The first tile along K is the partial one: it starts at `K - round_up(K, depth)`, and its
/// leading steps are zero-filled. All later tiles are full.
#[derive(Clone, Copy)]
pub(crate) struct PaddedTile {
    /// Rows or columns.
    pub(crate) extent: u32,
    pub(crate) depth: u32,
    pub(crate) threads: u32,
    pub(crate) major: Major,
    /// If K is contiguous: how many threads copy adjacent elements along K. It sets the size of a
    /// memory request.
    pub(crate) along: u32,
}

impl PaddedTile {
    /// Returns the elements from one line to the next in shared memory.
    pub(crate) fn pitch(self) -> u32 {
        self.extent + PAD
    }

    /// Returns the elements in shared memory.
    pub(crate) fn elements(self) -> u32 {
        self.depth * self.pitch()
    }

    /// Returns how many threads copy adjacent elements of a line of the matrix. If K is contiguous,
    /// this is `along`. Otherwise it is a warp or more: enough for every thread to have a line, and
    /// for a thread to have at most 4 elements of one, because each needs a predicate.
    #[inline]
    fn beside(self) -> u32 {
        match self.major {
            Major::K => self.along,
            Major::Mn => (self.threads / self.depth).max(self.extent / 4).max(32).min(self.extent),
        }
    }

    /// Returns the offsets of the elements that a thread copies, as (line, element along it), from
    /// its first one.
    #[inline]
    fn offsets(self) -> Vec<[i32; 2]> {
        let [lines, along] = self.exchange([self.extent, self.depth]);
        let beside = self.beside();
        let steps = |extent: u32, step: u32| (0..extent).step_by(step as usize);
        steps(lines, self.threads / beside)
            .flat_map(|line| steps(along, beside).map(move |i| [line as i32, i as i32]))
            .collect()
    }

    /// Returns how many elements of a tile a thread copies.
    pub(crate) const fn copies(self) -> u32 {
        self.extent * self.depth / self.threads
    }

    /// Swaps (line, element) of the matrix for (row or column, step along K).
    fn exchange<T>(self, [line, along]: [T; 2]) -> [T; 2] {
        if self.major == Major::K { [line, along] } else { [along, line] }
    }

    /// Returns a thread's copies from the tiles of `of`, which has `limit` rows or columns. The tiles
    /// start at row or column `first`, and at `-missing` along K. `to` is the tile's first element
    /// in the first stage of the ring buffer.
    pub(crate) fn slice<'b, T: Element>(
        self,
        k: &Body<'b, '_>,
        of: Matrix<'b, T>,
        [first, limit]: [Val<'b, i32>; 2],
        missing: Val<'b, i32>,
        to: Val<'b, Shared<f32>>,
    ) -> PaddedTileCopy<'b, T> {
        let thread = k.thread_idx().x.cvt::<u32>();
        let beside = self.beside();
        let own = [thread / beside, thread % beside].map(|i| i.cvt::<i32>());
        let [row, step] = self.exchange(own);
        let [line, along] = self.exchange([first + row, step - missing]);
        let from = of.first.offset(line.cvt::<i64>() * of.pitch + along.cvt::<i64>());
        let bytes = |lines: u32| of.pitch * i64::from(lines * T::scalar().size_bytes());
        let waiting = (T::scalar() != Scalar::F32).then(|| k.registers(self.copies()));
        PaddedTileCopy {
            tile: self,
            offsets: self.offsets(),
            from: k.var(from),
            line: bytes(self.threads / beside),
            next: match self.major {
                Major::K => k.constant(i64::from(self.depth * T::scalar().size_bytes())),
                Major::Mn => bytes(self.depth),
            },
            left: limit - (first + row),
            before: missing - step,
            to: to.offset(step * self.pitch() + row),
            waiting,
        }
    }
}

/// A thread's copies from consecutive tiles along K.
pub(crate) struct PaddedTileCopy<'b, T> {
    tile: PaddedTile,
    offsets: Vec<[i32; 2]>,
    /// The thread's first element in the next tile.
    from: Var<'b, Global<T>>,
    /// Bytes from one of its lines to the next, and from one tile to the next.
    line: Val<'b, i64>,
    next: Val<'b, i64>,
    /// Rows or columns left in the matrix, from the thread's first on.
    left: Val<'b, i32>,
    /// How many of the thread's steps in the first tile are before the matrix.
    before: Val<'b, i32>,
    /// Where the thread's first element goes in the first stage.
    to: Val<'b, Shared<f32>>,
    /// Registers for elements that `cp.async` cannot copy.
    waiting: Option<Registers<'b, f32>>,
}

impl<'b, T: Element> PaddedTileCopy<'b, T> {
    /// Returns the address of the thread's first element in the next tile.
    pub(crate) fn address(&self) -> Val<'b, i64> {
        self.from.get().ptr_to_int()
    }

    /// Begins to copy the next tile to the stage at `stage`. Call [`Started::copy`] until it
    /// returns false.
    ///
    /// Elements outside the matrix become zero. If `exists` is false, the whole tile does.
    pub(crate) fn start<'s>(
        &'s self,
        k: &Body<'b, '_>,
        stage: Val<'b, i32>,
        exists: Val<'b, bool>,
    ) -> Started<'b, 's, T> {
        Started {
            copy: self,
            done: 0,
            at: self.from.get(),
            left: exists.select(self.left, k.constant(0)),
            to: self.to.offset(stage),
            is_first: false,
        }
    }

    /// Copies a whole tile at once, which may be the first one. The prologue uses it, when there is
    /// no work to spread copies over.
    pub(crate) fn tile(
        &self,
        k: &mut Body<'b, '_>,
        stage: Val<'b, i32>,
        exists: Val<'b, bool>,
        is_first: bool,
    ) {
        let mut started = Started { is_first, ..self.start(k, stage, exists) };
        while started.copy(k) {}
        self.finish(stage);
    }

    /// Stores the elements waiting in registers to their stage.
    pub(crate) fn finish(&self, stage: Val<'_, i32>) {
        let Some(waiting) = &self.waiting else { return };
        let to = self.to.offset(stage);
        for (i, offset) in (0..).zip(&self.offsets) {
            let [row, step] = self.tile.exchange(*offset);
            to.store(step * self.tile.pitch() as i32 + row, waiting.get(i));
        }
    }
}

/// A partly copied tile. Its last copy advances to the next tile.
pub(crate) struct Started<'b, 's, T> {
    copy: &'s PaddedTileCopy<'b, T>,
    /// How many elements have been copied.
    done: u32,
    /// The first element of the line being copied, and the rows or columns left from the first one
    /// on.
    at: Val<'b, Global<T>>,
    left: Val<'b, i32>,
    to: Val<'b, Shared<f32>>,
    is_first: bool,
}

impl<'b, T: Element> Started<'b, '_, T> {
    /// Returns how many elements are left.
    pub(crate) fn remaining(&self) -> u32 {
        self.copy.tile.copies() - self.done
    }

    /// Copies the next element. Returns false if there is none.
    pub(crate) fn copy(&mut self, k: &mut Body<'b, '_>) -> bool {
        let Some(&[line, element]) = self.copy.offsets.get(self.done as usize) else {
            return false;
        };
        let PaddedTileCopy { tile, from, next, before, waiting, .. } = self.copy;
        let bytes =
            |at: Val<'b, Global<T>>, bytes| at.ptr_cast::<u8>().offset(bytes).ptr_cast::<T>();
        if self.done > 0 && element == 0 {
            self.at = bytes(self.at, self.copy.line);
        }
        let [row, step] = tile.exchange([line, element]);
        let inside = self.left.gt(row);
        let inside = if self.is_first { inside & before.le(step) } else { inside };
        if let Some(waiting) = waiting {
            let at = self.at;
            let x = k.if_with(inside, T::default(), |_| at.load(element));
            waiting.set(self.done, x.cvt::<f32>());
        } else {
            let size = inside.select(k.constant(4), k.constant(0));
            let to = self.to.offset(step * tile.pitch() as i32 + row);
            let at = self.at.offset(element).ptr_cast::<f32>();
            k.cp_async_zfill(to, at, CpAsyncCache::Ca, 4, size);
        }
        self.done += 1;
        if self.remaining() == 0 {
            from.set(bytes(from.get(), *next));
        }
        true
    }
}
