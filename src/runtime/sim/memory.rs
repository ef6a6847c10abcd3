//! What a block sees as memory, and the loads and stores of a warp.
//!
//! A pointer keeps the allocation that it was made from. Each access is checked against that allocation, so
//! an index that leaves one allocation is a fault even where it lands in another one.

use super::buffer::Buffer;
use super::lanes::{LANE_BIT, LANES, Regs, Word, lanes_of};
use super::trap::{AccessAt, Trap, TrapCause, Trapped};
use crate::ir::{Scalar, Space};

/// The memory of one block.
#[derive(Debug)]
pub(super) struct Memory<'m> {
    /// The buffer of each parameter; an empty one for a parameter that is not a pointer.
    pub(super) globals: &'m [&'m Buffer],
    pub(super) shared: Shared,
}

/// Where a shared allocation lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedRange {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// The shared memory of one block: bytes, and for each byte whether it was written.
#[derive(Debug)]
pub(super) struct Shared {
    bytes: Vec<u8>,
    /// All ones for a byte that was written, else zero.
    written: Vec<u8>,
    allocs: Vec<SharedRange>,
}

impl Shared {
    pub(super) fn new(len_bytes: usize, allocs: &[SharedRange]) -> Shared {
        Shared { bytes: vec![0; len_bytes], written: vec![0; len_bytes], allocs: allocs.to_vec() }
    }

    /// Forgets all content, for the next block.
    pub(super) fn reset(&mut self) {
        self.written.fill(0);
    }

    fn range(&self, alloc: u32) -> SharedRange {
        self.allocs.get(alloc as usize).copied().unwrap_or(SharedRange { start: 0, len: 0 })
    }
}

/// The allocation of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alloc {
    /// The same one in all lanes, known when the kernel is compiled.
    Static(u32),
    /// In a slot of the file `w`.
    Slot(u32),
}

/// A pointer in the register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointerSlots {
    pub(super) alloc: Alloc,
    /// The slot of the offset in bytes; `None` for the start of the allocation.
    pub(super) offset: Option<u32>,
}

/// An index in the register files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Index {
    I32(u32),
    U32(u32),
    I64(u32),
    U64(u32),
}

/// The offset of a pointer that has left the range of `i64`. It stays so, whatever is added.
const LOST: i64 = i64::MIN;

impl Index {
    fn lane(self, regs: &Regs, lane: usize) -> i128 {
        match self {
            Index::I32(slot) => (regs.w[slot as usize][lane] as i32).into(),
            Index::U32(slot) => regs.w[slot as usize][lane].into(),
            Index::I64(slot) => (regs.d[slot as usize][lane] as i64).into(),
            Index::U64(slot) => regs.d[slot as usize][lane].into(),
        }
    }

    /// `index * size_bytes` in each lane; the nearest `i64` where it is none.
    fn bytes(self, regs: &Regs, size_bytes: u32) -> [i64; LANES] {
        let size = i64::from(size_bytes);
        match self {
            Index::I32(slot) => regs.w[slot as usize].map(|i| i64::from(i as i32) * size),
            Index::U32(slot) => regs.w[slot as usize].map(|i| i64::from(i) * size),
            Index::I64(slot) => regs.d[slot as usize].map(|i| (i as i64).saturating_mul(size)),
            Index::U64(slot) => regs.d[slot as usize]
                .map(|i| i64::try_from(i).unwrap_or(i64::MAX).saturating_mul(size)),
        }
    }
}

/// The offset in bytes of `pointer + index`, as a pointer keeps it.
pub(super) fn offset(
    regs: &Regs,
    pointer: PointerSlots,
    index: Index,
    size_bytes: u32,
) -> [u64; LANES] {
    let base = |lane| match pointer.offset {
        Some(slot) => regs.d[slot as usize][lane] as i64,
        None => 0,
    };
    std::array::from_fn(|lane| {
        let base = base(lane);
        let sum = i128::from(base) + index.lane(regs, lane) * i128::from(size_bytes);
        match i64::try_from(sum) {
            Ok(sum) if base != LOST => sum as u64,
            _ => LOST as u64,
        }
    })
}

/// An element of memory as a word of a register file.
trait Element {
    type Word: Word;
    const BYTES: usize;
    fn load(buffer: &Buffer, at: usize) -> Self::Word;
    fn store(buffer: &Buffer, at: usize, word: Self::Word);
    /// The word of bytes in memory; `bytes` has `BYTES` bytes.
    fn from_bytes(bytes: &[u8]) -> Self::Word;
    /// Writes the word to `bytes`, which has `BYTES` bytes.
    fn to_bytes(word: Self::Word, bytes: &mut [u8]);
}

macro_rules! element {
    ($($ty:ident: $word:ty, $bytes:literal, $load:ident, $store:ident, $of:expr, $to:expr;)*) => {$(
        impl Element for $ty {
            type Word = $word;
            const BYTES: usize = $bytes;
            #[inline(always)]
            fn load(buffer: &Buffer, at: usize) -> $word {
                $of(buffer.$load(at))
            }
            #[inline(always)]
            fn store(buffer: &Buffer, at: usize, word: $word) {
                buffer.$store(at, $to(word));
            }
            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> $word {
                let mut array = [0; $bytes];
                array.copy_from_slice(bytes);
                $of(Raw::<$bytes>::from_le_bytes(array))
            }
            #[inline(always)]
            fn to_bytes(word: $word, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$to(word).to_le_bytes());
            }
        }
    )*};
}

/// The unsigned integer of `N` bytes.
type Raw<const N: usize> = <Bytes<N> as Unsigned>::Int;
struct Bytes<const N: usize>;
trait Unsigned {
    type Int;
}
impl Unsigned for Bytes<1> {
    type Int = u8;
}
impl Unsigned for Bytes<2> {
    type Int = u16;
}
impl Unsigned for Bytes<4> {
    type Int = u32;
}
impl Unsigned for Bytes<8> {
    type Int = u64;
}

fn same<T>(x: T) -> T {
    x
}

element! {
    bool: u32, 1, load_u8, store_u8, |b: u8| if b == 0 { 0 } else { u32::MAX }, |w: u32| (w & 1) as u8;
    u8: u32, 1, load_u8, store_u8, u32::from, |w: u32| w as u8;
    u16: u32, 2, load_u16, store_u16, u32::from, |w: u32| w as u16;
    u32: u32, 4, load_u32, store_u32, same, same;
    u64: u64, 8, load_u64, store_u64, same, same;
}

/// A load or a store of a warp, but for the register that it loads or stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) space: Space,
    pub(super) elem: Scalar,
    pub(super) pointer: PointerSlots,
    pub(super) index: Index,
}

/// Reads and writes one warp's accesses, on the registers and the memory of a block.
pub(super) type Access = Box<dyn Fn(&mut Regs, &mut Memory<'_>, u32) -> Trapped + Send + Sync>;

impl Address {
    /// The first byte of each lane's access, counted from its allocation. What is not in the range of
    /// `i64` is cut to it, which is outside any allocation.
    fn bytes(&self, regs: &Regs) -> [u64; LANES] {
        let mut bytes = self.index.bytes(regs, self.elem.size_bytes());
        if let Some(slot) = self.pointer.offset {
            let base = &regs.d[slot as usize];
            for lane in 0..LANES {
                bytes[lane] = bytes[lane].saturating_add(base[lane] as i64);
            }
        }
        bytes.map(|byte| byte as u64)
    }

    /// Calls `access` for each allocation that lanes of `mask` point into, with those lanes.
    fn for_each_alloc(
        &self,
        regs: &mut Regs,
        mask: u32,
        mut access: impl FnMut(&mut Regs, u32, u32) -> Trapped,
    ) -> Trapped {
        let slot = match self.pointer.alloc {
            Alloc::Static(alloc) => return access(regs, alloc, mask),
            Alloc::Slot(slot) => slot as usize,
        };
        let mut rest = mask;
        while rest != 0 {
            let allocs = &regs.w[slot];
            let alloc = allocs[rest.trailing_zeros() as usize];
            let group = (0..LANES)
                .filter(|lane| allocs[*lane] == alloc)
                .fold(0, |group, lane| group | LANE_BIT[lane])
                & rest;
            rest &= !group;
            access(regs, alloc, group)?;
        }
        Ok(())
    }

    /// Checks bounds and alignment of all lanes of `mask`.
    #[inline(always)]
    fn check(
        &self,
        regs: &Regs,
        bytes: &[u64; LANES],
        (alloc, len, mask): (u32, usize, u32),
    ) -> Trapped {
        let size = u64::from(self.elem.size_bytes());
        // With no room for one element every offset is too large.
        let (end, room) = ((len as u64).saturating_sub(size), len as u64 >= size);
        let bad = (0..LANES).fold(0, |bad, lane| {
            let wrong = bytes[lane] > end || bytes[lane] & (size - 1) != 0;
            bad | if wrong { LANE_BIT[lane] } else { 0 }
        });
        let bad = mask & if room { bad } else { u32::MAX };
        if bad == 0 { Ok(()) } else { Err(self.bad_address(regs, bad, alloc, len)) }
    }

    #[cold]
    fn bad_address(&self, regs: &Regs, bad: u32, alloc: u32, len: usize) -> Box<Trap> {
        let lane = bad.trailing_zeros() as usize;
        let access = self.at(regs, lane, alloc, len);
        let size = i128::from(self.elem.size_bytes());
        let inside = access.byte >= 0 && access.byte + size <= len as i128;
        let cause = if inside { TrapCause::Misaligned } else { TrapCause::OutOfBounds };
        Trap::new(lane, cause(access))
    }

    #[cold]
    fn uninitialised(
        &self,
        regs: &Regs,
        lane: usize,
        (alloc, len): (u32, usize),
        missing: usize,
    ) -> Box<Trap> {
        let access = self.at(regs, lane, alloc, len);
        let byte = access.byte as u64 + missing as u64;
        Trap::new(lane, TrapCause::Uninitialised { access, byte })
    }

    fn at(&self, regs: &Regs, lane: usize, alloc: u32, len: usize) -> AccessAt {
        let base = match self.pointer.offset {
            Some(slot) => regs.d[slot as usize][lane] as i64,
            None => 0,
        };
        let byte =
            i128::from(base) + self.index.lane(regs, lane) * i128::from(self.elem.size_bytes());
        AccessAt { space: self.space, alloc, elem: self.elem, byte, len_bytes: len as u64 }
    }

    /// The load into slot `dst`, in the file of the element type.
    pub(super) fn load_elem(self, dst: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.load::<bool>(dst),
            Scalar::I8 | Scalar::U8 => self.load::<u8>(dst),
            Scalar::I16 | Scalar::U16 => self.load::<u16>(dst),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.load::<u32>(dst),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.load::<u64>(dst),
        }
    }

    /// The store from slot `src`, in the file of the element type. Of lanes that write to the same bytes,
    /// the highest one wins.
    pub(super) fn store_elem(self, src: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.store::<bool>(src),
            Scalar::I8 | Scalar::U8 => self.store::<u8>(src),
            Scalar::I16 | Scalar::U16 => self.store::<u16>(src),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.store::<u32>(src),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.store::<u64>(src),
        }
    }

    fn load<E: Element>(self, dst: u32) -> Access {
        let dst = dst as usize;
        match self.space {
            Space::Global => Box::new(move |regs, memory, mask| {
                let bytes = self.bytes(regs);
                self.for_each_alloc(regs, mask, |regs, alloc, mask| {
                    let buffer = memory.global(alloc);
                    self.check(regs, &bytes, (alloc, buffer.len_bytes(), mask))?;
                    let dst = &mut E::Word::file_mut(regs)[dst];
                    if mask == u32::MAX {
                        for lane in 0..LANES {
                            dst[lane] = E::load(buffer, bytes[lane] as usize);
                        }
                    } else {
                        for lane in lanes_of(mask) {
                            dst[lane] = E::load(buffer, bytes[lane] as usize);
                        }
                    }
                    Ok(())
                })
            }),
            Space::Shared => Box::new(move |regs, memory, mask| {
                let bytes = self.bytes(regs);
                self.for_each_alloc(regs, mask, |regs, alloc, mask| {
                    let SharedRange { start, len } = memory.shared.range(alloc);
                    self.check(regs, &bytes, (alloc, len, mask))?;
                    let data = &memory.shared.bytes[start..start + len];
                    let written = &memory.shared.written[start..start + len];
                    let mut missing = 0;
                    {
                        let dst = &mut E::Word::file_mut(regs)[dst];
                        let mut load = |lane: usize| {
                            let at = bytes[lane] as usize;
                            let range = at..at + E::BYTES;
                            dst[lane] = E::from_bytes(&data[range.clone()]);
                            if !is_all_ones(&written[range]) {
                                missing |= LANE_BIT[lane];
                            }
                        };
                        if mask == u32::MAX {
                            (0..LANES).for_each(&mut load);
                        } else {
                            lanes_of(mask).for_each(&mut load);
                        }
                    }
                    if missing != 0 {
                        let lane = missing.trailing_zeros() as usize;
                        let at = bytes[lane] as usize;
                        let first = written[at..].iter().position(|w| *w == 0).unwrap_or(0);
                        return Err(self.uninitialised(regs, lane, (alloc, len), first));
                    }
                    Ok(())
                })
            }),
        }
    }

    fn store<E: Element>(self, src: u32) -> Access {
        let src = src as usize;
        match self.space {
            Space::Global => Box::new(move |regs, memory, mask| {
                let bytes = self.bytes(regs);
                self.for_each_alloc(regs, mask, |regs, alloc, mask| {
                    let buffer = memory.global(alloc);
                    self.check(regs, &bytes, (alloc, buffer.len_bytes(), mask))?;
                    let src = &E::Word::file(regs)[src];
                    for lane in lanes_of(mask) {
                        E::store(buffer, bytes[lane] as usize, src[lane]);
                    }
                    Ok(())
                })
            }),
            Space::Shared => Box::new(move |regs, memory, mask| {
                let bytes = self.bytes(regs);
                self.for_each_alloc(regs, mask, |regs, alloc, mask| {
                    let SharedRange { start, len } = memory.shared.range(alloc);
                    self.check(regs, &bytes, (alloc, len, mask))?;
                    let src = &E::Word::file(regs)[src];
                    let data = &mut memory.shared.bytes[start..start + len];
                    let written = &mut memory.shared.written[start..start + len];
                    for lane in lanes_of(mask) {
                        let at = bytes[lane] as usize;
                        E::to_bytes(src[lane], &mut data[at..at + E::BYTES]);
                        written[at..at + E::BYTES].fill(u8::MAX);
                    }
                    Ok(())
                })
            }),
        }
    }
}

#[inline(always)]
fn is_all_ones(bytes: &[u8]) -> bool {
    bytes.iter().fold(u8::MAX, |all, byte| all & byte) == u8::MAX
}

impl<'m> Memory<'m> {
    fn global(&self, alloc: u32) -> &'m Buffer {
        static NONE: std::sync::LazyLock<Buffer> = std::sync::LazyLock::new(|| Buffer::zeros(0));
        self.globals.get(alloc as usize).copied().unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warp whose lane `i` points to byte `byte(i)` of an allocation of 64 bytes, with index 0.
    fn check_load(byte: impl Fn(usize) -> i64, mask: u32) -> Trapped {
        let mut regs = Regs::new(2, 1);
        regs.d[0] = std::array::from_fn(|lane| byte(lane) as u64);
        let buffer = Buffer::zeros(64);
        let globals = [&buffer];
        let mut memory = Memory { globals: &globals, shared: Shared::new(0, &[]) };
        let pointer = PointerSlots { alloc: Alloc::Static(0), offset: Some(0) };
        let address =
            Address { space: Space::Global, elem: Scalar::F32, pointer, index: Index::I32(0) };
        address.load_elem(1)(&mut regs, &mut memory, mask)
    }

    #[test]
    fn only_active_lanes_are_checked() {
        assert!(check_load(|lane| lane as i64 % 16 * 4, u32::MAX).is_ok());
        assert!(check_load(|lane| if lane == 3 { 0 } else { -4 }, 0b1000).is_ok());
        let trap = check_load(|lane| lane as i64 * 4, u32::MAX).unwrap_err();
        assert_eq!(trap.lane, 16);
        assert!(matches!(trap.cause, TrapCause::OutOfBounds(AccessAt { byte: 64, .. })));
    }

    #[test]
    fn misaligned_bytes_inside_are_told_from_bytes_outside() {
        let trap = check_load(|_| 6, 0b10).unwrap_err();
        assert_eq!(trap.lane, 1);
        assert!(matches!(trap.cause, TrapCause::Misaligned(AccessAt { byte: 6, .. })));
        let trap = check_load(|_| 62, 1).unwrap_err();
        assert!(matches!(trap.cause, TrapCause::OutOfBounds(AccessAt { byte: 62, .. })));
    }

    #[test]
    fn a_pointer_that_overflows_stays_lost() {
        let mut regs = Regs::new(0, 3);
        let start = PointerSlots { alloc: Alloc::Static(0), offset: None };
        regs.d[0] = [1 << 62; LANES];
        regs.d[1] = offset(&regs, start, Index::I64(0), 8);
        regs.d[0] = [u64::MAX << 59; LANES];
        let moved = PointerSlots { alloc: Alloc::Static(0), offset: Some(1) };
        assert_eq!(offset(&regs, moved, Index::I64(0), 8)[0] as i64, LOST);
    }
}
