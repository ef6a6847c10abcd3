//! [`GlobalBuffer`]: the buffers in simulated global memory that you pass to a launch. All host
//! threads of the launch share them.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::element::Element;
use super::shared::byte_mask;
use crate::ir;
use crate::sim::stream_order::Uses;

/// A buffer in the simulator's global memory, for launches that you make with
/// [`run`](crate::sim::run). It holds initialised bytes, which can be read and written as elements
/// of any type, in the GPU's byte order (little endian).
///
/// Blocks run in parallel and share buffers by reference, so the bytes are atomic words. A kernel
/// with a race gets some mix of the written values, as on a GPU.
///
/// ```
/// use tilewright::sim::GlobalBuffer;
/// let buffer = GlobalBuffer::from_slice(&[1.0f32, 2.0]);
/// assert_eq!(buffer.len_bytes(), 8);
/// assert_eq!(buffer.to_vec::<u32>(), [0x3f80_0000, 0x4000_0000]);
/// buffer.write(&[3.0f32, 4.0])?;
/// assert_eq!(buffer.to_vec::<f32>(), [3.0, 4.0]);
/// # Ok::<(), tilewright::sim::WriteError>(())
/// ```
pub struct GlobalBuffer {
    /// The allocation's words, shared by all its parts.
    words: Arc<[AtomicU32]>,
    /// The allocation's uses.
    uses: Arc<Uses>,
    /// The first word of this part.
    first: usize,
    len_bytes: usize,
}

/// The error of [`GlobalBuffer::write`] if the data does not have as many bytes as the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WriteError {
    /// The buffer's size in bytes.
    pub buffer_bytes: usize,
    /// The data's size in bytes.
    pub data_bytes: usize,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriteError { buffer_bytes, data_bytes } = self;
        write!(
            f,
            "{data_bytes} bytes cannot fill a buffer of {buffer_bytes} bytes: pass exactly as many"
        )
    }
}

impl std::error::Error for WriteError {}
crate::errors::message_as_debug!(WriteError);

impl GlobalBuffer {
    /// Makes a buffer of zero bytes, for example for a kernel's output.
    pub fn zeros(len_bytes: usize) -> GlobalBuffer {
        let words = (0..len_bytes.div_ceil(4)).map(|_| AtomicU32::new(0)).collect();
        GlobalBuffer { words, uses: Arc::default(), first: 0, len_bytes }
    }

    /// Makes a buffer that holds `values`, for example a kernel's input.
    pub fn from_slice<T: ir::Element>(values: &[T]) -> GlobalBuffer {
        let buffer = GlobalBuffer::zeros(size_of_val_in_memory(values));
        buffer.fill_from(values);
        buffer
    }

    /// Returns `len_bytes` bytes from byte `4 * first_word` on as a buffer that shares them. Use it
    /// to pass a part of a buffer to a kernel: an access outside the part is a fault. Returns
    /// `None` if the part does not fit into the buffer.
    ///
    /// ```
    /// use tilewright::sim::GlobalBuffer;
    /// let buffer = GlobalBuffer::from_slice(&[1, 2, 3]);
    /// buffer.part(1, 8).unwrap().write(&[5, 6])?;
    /// assert_eq!(buffer.to_vec::<i32>(), [1, 5, 6]);
    /// assert!(buffer.part(2, 8).is_none());
    /// # Ok::<(), tilewright::sim::WriteError>(())
    /// ```
    pub fn part(&self, first_word: usize, len_bytes: usize) -> Option<GlobalBuffer> {
        let end = first_word.checked_mul(4)?.checked_add(len_bytes)?;
        let first = self.first + first_word;
        (end <= self.len_bytes).then(|| GlobalBuffer {
            words: self.words.clone(),
            uses: Arc::clone(&self.uses),
            first,
            len_bytes,
        })
    }

    /// Returns the length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the allocation's uses, and the buffer's first byte there.
    pub(in crate::sim) fn place(&self) -> (&Arc<Uses>, usize) {
        (&self.uses, 4 * self.first)
    }

    /// Returns the content as elements of type `T`, for example to check a kernel's result. If the
    /// length is not a multiple of the element size, leaves out the last bytes.
    pub fn to_vec<T: ir::Element>(&self) -> Vec<T> {
        self.uses.note_host(false);
        let size = T::SCALAR.size_bytes() as usize;
        let word = |i| self.word(i);
        let load = |at| match size {
            1 => u64::from(<u8 as Element>::load(at, word)),
            2 => u64::from(<u16 as Element>::load(at, word)),
            4 => u64::from(<u32 as Element>::load(at, word)),
            _ => <u64 as Element>::load(at, word),
        };
        (0..self.len_bytes / size).map(|i| T::from_bits(load(i * size))).collect()
    }

    /// Replaces the content, for example before the kernel runs on new data.
    ///
    /// # Errors
    /// If `values` do not have exactly as many bytes as the buffer.
    pub fn write<T: ir::Element>(&self, values: &[T]) -> Result<(), WriteError> {
        let data_bytes = size_of_val_in_memory(values);
        if data_bytes != self.len_bytes {
            return Err(WriteError { buffer_bytes: self.len_bytes, data_bytes });
        }
        self.uses.note_host(true);
        self.fill_from(values);
        Ok(())
    }

    fn fill_from<T: ir::Element>(&self, values: &[T]) {
        let size = T::SCALAR.size_bytes() as usize;
        for (i, value) in values.iter().enumerate() {
            let bits = value.to_const().bits();
            let update = |word, mask, bits| self.update(word, mask, bits);
            match size {
                1 => <u8 as Element>::store(i, bits as u32, update),
                2 => <u16 as Element>::store(i * 2, bits as u32, update),
                4 => <u32 as Element>::store(i * 4, bits as u32, update),
                _ => <u64 as Element>::store(i * 8, bits, update),
            }
        }
    }

    /// Returns word `i`.
    #[inline(always)]
    pub(in crate::sim) fn word(&self, i: usize) -> u32 {
        self.words[self.first + i].load(Relaxed)
    }

    /// Sets the bits of `mask` in word `i` to those of `bits`, which has no others. Other threads
    /// may write the other bits at the same time.
    #[inline(always)]
    pub(in crate::sim) fn update(&self, i: usize, mask: u32, bits: u32) {
        let word = &self.words[self.first + i];
        if mask == u32::MAX {
            return word.store(bits, Relaxed);
        }
        let mut old = word.load(Relaxed);
        while let Err(now) = word.compare_exchange_weak(old, old & !mask | bits, Relaxed, Relaxed) {
            old = now;
        }
    }
}

impl GlobalBuffer {
    /// Reads bytes from byte `at` on.
    pub(in crate::sim) fn read_bytes(&self, at: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (word, from) = ((at + done) / 4, (at + done) % 4);
            let take = (4 - from).min(out.len() - done);
            let bytes = self.word(word).to_le_bytes();
            out[done..done + take].copy_from_slice(&bytes[from..from + take]);
            done += take;
        }
    }

    /// Writes bytes from byte `at` on.
    pub(in crate::sim) fn write_bytes(&self, at: usize, from: &[u8]) {
        let mut done = 0;
        while done < from.len() {
            let (word, first) = ((at + done) / 4, (at + done) % 4);
            let take = (4 - first).min(from.len() - done);
            let mut bytes = [0; 4];
            bytes[first..first + take].copy_from_slice(&from[done..done + take]);
            self.update(word, byte_mask(first, take), u32::from_le_bytes(bytes));
            done += take;
        }
    }
}

/// Locks for accesses that take two words and must not be torn, chosen by address.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

impl GlobalBuffer {
    /// Sets word `i` to `f(old)` atomically, and returns `old`.
    pub(in crate::sim) fn update_word(&self, i: usize, f: impl Fn(u32) -> u32) -> u32 {
        let word = &self.words[self.first + i];
        let mut old = word.load(Relaxed);
        while let Err(now) = word.compare_exchange_weak(old, f(old), Relaxed, Relaxed) {
            old = now;
        }
        old
    }

    /// Locks the two words from word `i` on against other accesses that must not be torn.
    pub(in crate::sim) fn lock(&self, i: usize) -> MutexGuard<'static, ()> {
        let pair = (self.words.as_ptr().addr() / 4 + self.first + i) / 2;
        LOCKS[pair % LOCKS.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many bytes the values take in GPU memory.
fn size_of_val_in_memory<T: ir::Element>(values: &[T]) -> usize {
    values.len() * T::SCALAR.size_bytes() as usize
}

impl fmt::Debug for GlobalBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalBuffer").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_round_trip<T: ir::Element>(values: &[T]) {
        assert_eq!(GlobalBuffer::from_slice(values).to_vec::<T>(), values);
    }

    #[test]
    fn what_is_written_is_read() {
        check_round_trip(&[true, false, true, true, true]);
        check_round_trip(&[-1i8, 2, i8::MIN]);
        check_round_trip(&[-1i16, 2, i16::MIN]);
        check_round_trip(&[1u64, u64::MAX, 1 << 40]);
        check_round_trip(&[0.5f64, -0.0, f64::INFINITY]);
        check_round_trip::<f32>(&[]);
    }

    #[test]
    fn bytes_are_in_the_order_of_the_gpu() {
        let buffer = GlobalBuffer::from_slice(&[0x0807_0605_0403_0201u64]);
        assert_eq!(buffer.to_vec::<u8>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(buffer.to_vec::<u16>(), [0x201, 0x403, 0x605, 0x807]);
        assert_eq!(GlobalBuffer::zeros(11).to_vec::<u32>(), [0, 0]);
        assert_eq!(buffer.write(&[1u8]), Err(WriteError { buffer_bytes: 8, data_bytes: 1 }));
    }
}
