//! [`PaddedTile`]: tiles in shared memory with one line for each step along K, copied by all threads of a block.

use crate::arch::Major;
use crate::ir::op::CpAsyncCache;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Global, Registers, Shared, Val, Var};

/// Elements between the ends of two lines in shared memory: vectors stay aligned, and 8 steps of 4 rows, which a warp
/// writes at a time where the matrix is contiguous along K, are in 32 banks.
const PAD: u32 = 4;

/// A tile of rows of A or columns of B, in shared memory as `f32` with a line for each step along K.
///
/// `cp.async` copies elements of 32 bits one by one, from any address, and so transposes a matrix that is contiguous along K.
/// Elements of 16 bits are loaded to registers, and converted to `f32` when they are stored.
///
/// The first tile along K is the partial one: it starts at `K - round_up(K, depth)`, and its leading steps are zero-filled. All
/// later tiles are full.
#[derive(Clone, Copy)]
pub(crate) struct PaddedTile {
    /// Rows or columns.
    pub(crate) extent: u32,
    pub(crate) depth: u32,
    pub(crate) threads: u32,
    pub(crate) major: Major,
    /// The number of threads that copy adjacent elements along K, where K is contiguous: the elements of a memory request.
    pub(crate) along: u32,
}

impl PaddedTile {
    /// Elements from a line to the next one in shared memory.
    pub(crate) fn pitch(self) -> u32 {
        self.extent + PAD
    }

    /// Elements in shared memory.
    pub(crate) fn elements(self) -> u32 {
        self.depth * self.pitch()
    }

    /// The number of threads that copy adjacent elements of a line of the matrix. Where K is contiguous this is `along`. Else it is a
    /// warp, or more: enough for all threads to have a line, and for a thread to have at most 4 elements of one, because each has a
    /// predicate in a register.
    #[inline]
    fn beside(self) -> u32 {
        match self.major {
            Major::K => self.along,
            Major::Mn => (self.threads / self.depth).max(self.extent / 4).max(32).min(self.extent),
        }
    }

    /// The elements that a thread copies, from its first one: lines of the matrix, and elements along them.
    #[inline]
    fn offsets(self) -> Vec<[i32; 2]> {
        let [lines, along] = self.exchange([self.extent, self.depth]);
        let beside = self.beside();
        let steps = |extent: u32, step: u32| (0..extent).step_by(step as usize);
        steps(lines, self.threads / beside)
            .flat_map(|line| steps(along, beside).map(move |i| [line as i32, i as i32]))
            .collect()
    }

    /// The number of elements of a tile that a thread copies.
    pub(crate) const fn copies(self) -> u32 {
        self.extent * self.depth / self.threads
    }

    /// Exchanges a line and an element of the matrix with a row (or column) and a step along K.
    fn exchange<T>(self, [line, along]: [T; 2]) -> [T; 2] {
        if self.major == Major::K { [line, along] } else { [along, line] }
    }

    /// The copies of a thread from the tiles of a matrix with `limit` rows or columns; the first ones of the tiles are `first`
    /// and, along K, `-missing`. `to` is the first element of the tile in the first stage of a ring.
    pub(crate) fn slice<'b, T: Element>(
        self,
        k: &Body<'b, '_>,
        (from, pitch): (Val<'b, Global<T>>, Val<'b, i64>),
        [first, limit]: [Val<'b, i32>; 2],
        missing: Val<'b, i32>,
        to: Val<'b, Shared<f32>>,
    ) -> PaddedTileCopy<'b, T> {
        let thread = k.thread_idx().x.cvt::<u32>();
        let beside = self.beside();
        let own = [thread / beside, thread % beside].map(|i| i.cvt::<i32>());
        let [row, step] = self.exchange(own);
        let [line, along] = self.exchange([first + row, step - missing]);
        let from = from.offset(line.cvt::<i64>() * pitch + along.cvt::<i64>());
        let bytes = |lines: u32| pitch * i64::from(lines * T::scalar().size_bytes());
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

/// The copies of a thread from consecutive tiles along K.
pub(crate) struct PaddedTileCopy<'b, T> {
    tile: PaddedTile,
    offsets: Vec<[i32; 2]>,
    /// Its first element of the next tile.
    from: Var<'b, Global<T>>,
    /// Bytes from a line that it copies to the next one, and from a tile to the next one.
    line: Val<'b, i64>,
    next: Val<'b, i64>,
    /// Rows or columns of the matrix from its first one on.
    left: Val<'b, i32>,
    /// Steps of the first tile from its first one on that are before the matrix.
    before: Val<'b, i32>,
    /// The destination of its first element in the first stage.
    to: Val<'b, Shared<f32>>,
    /// Registers for elements that `cp.async` cannot copy.
    waiting: Option<Registers<'b, f32>>,
}

impl<'b, T: Element> PaddedTileCopy<'b, T> {
    /// The address of its first element of the next tile.
    pub(crate) fn address(&self, k: &Body<'b, '_>) -> Val<'b, i64> {
        self.from.get(k).ptr_to_int()
    }

    /// Begins with the copies of the next tile to the stage at `stage`; [`Started::copy`] makes them, to the last one.
    ///
    /// What is outside of the matrix becomes zero, and so does the whole of a tile that does not exist.
    pub(crate) fn start<'s>(
        &'s self,
        k: &Body<'b, '_>,
        stage: Val<'b, i32>,
        exists: Val<'b, bool>,
    ) -> Started<'b, 's, T> {
        Started {
            copy: self,
            done: 0,
            at: self.from.get(k),
            left: exists.select(self.left, k.constant(0)),
            to: self.to.offset(stage),
            is_first: false,
        }
    }

    /// Copies the next tile, which may be the first one.
    pub(crate) fn tile(
        &self,
        k: &mut Body<'b, '_>,
        stage: Val<'b, i32>,
        exists: Val<'b, bool>,
        is_first: bool,
    ) {
        let mut started = Started { is_first, ..self.start(k, stage, exists) };
        while started.copy(k) {}
        self.finish(k, stage);
    }

    /// Writes the elements that wait to the stage that they are for.
    pub(crate) fn finish(&self, k: &Body<'_, '_>, stage: Val<'_, i32>) {
        let Some(waiting) = &self.waiting else { return };
        let to = self.to.offset(stage);
        for (i, offset) in (0..).zip(&self.offsets) {
            let [row, step] = self.tile.exchange(*offset);
            to.store(k, step * self.tile.pitch() as i32 + row, waiting.get(k, i));
        }
    }
}

/// A partly copied tile. The last copy advances to the next tile.
pub(crate) struct Started<'b, 's, T> {
    copy: &'s PaddedTileCopy<'b, T>,
    /// The number of elements that were copied.
    done: u32,
    /// The first element of the line that is copied, and rows or columns from the first one on.
    at: Val<'b, Global<T>>,
    left: Val<'b, i32>,
    to: Val<'b, Shared<f32>>,
    is_first: bool,
}

impl<'b, T: Element> Started<'b, '_, T> {
    /// The number of elements that are left.
    pub(crate) fn remaining(&self) -> u32 {
        self.copy.tile.copies() - self.done
    }

    /// Copies the next element, if there is one.
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
            let x = k.if_with(inside, T::default(), |k| at.load(k, element));
            waiting.set(k, self.done, x.cvt::<f32>());
        } else {
            let size = inside.select(k.constant(4), k.constant(0));
            let to = self.to.offset(step * tile.pitch() as i32 + row);
            let at = self.at.offset(element).ptr_cast::<f32>();
            k.cp_async_zfill(to, at, CpAsyncCache::Ca, 4, size);
        }
        self.done += 1;
        if self.remaining() == 0 {
            from.set(k, bytes(from.get(k), *next));
        }
        true
    }
}
