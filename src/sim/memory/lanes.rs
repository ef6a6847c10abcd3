//! [`Regs`]: a warp's registers. A value is an array of its 32 lanes, so that an operation is one
//! loop over an array.
//!
//! Values of at most 32 bits live in the file `w`, 64-bit values in the file `d`. A `bool` is a
//! word of all ones or all zeros. A pointer is an allocation index (in `w`, unless it is known when
//! the kernel is compiled) and a byte offset (in `d`).
//!
//! Operations without side effects compute all 32 lanes, whatever the execution mask. This is safe,
//! because an inactive lane never reads a value that was computed while it was inactive, and the
//! slot of a value that an inactive lane still needs is not reused. Only variables, arguments and
//! results of control flow are written under the mask.

use super::local::LocalMemory;
use super::mask::{FULL, LANE_BIT, LANES, mask_of};
use crate::ir::eval::Registers;
pub(in crate::sim) use crate::ir::eval::{Lane, Word};

/// One warp's register files.
#[derive(Debug)]
pub(in crate::sim) struct Regs {
    /// Values of at most 32 bits.
    pub(in crate::sim) w: Vec<[u32; LANES]>,
    /// 64-bit values.
    pub(in crate::sim) d: Vec<[u64; LANES]>,
    /// Each thread's local memory.
    pub(in crate::sim) local: LocalMemory,
}

impl Regs {
    pub(in crate::sim) fn new(w: usize, d: usize) -> Regs {
        let local = LocalMemory::default();
        Regs { w: vec![[0; LANES]; w], d: vec![[0; LANES]; d], local }
    }

    /// Returns the lanes in which the `bool` in slot `slot` of the file `w` is true.
    pub(in crate::sim) fn truth(&self, slot: u32) -> u32 {
        mask_of(&self.w[slot as usize])
    }
}

impl Registers<LANES> for Regs {
    fn narrow(&self) -> &[[u32; LANES]] {
        &self.w
    }
    fn wide(&self) -> &[[u64; LANES]] {
        &self.d
    }
    fn narrow_mut(&mut self) -> &mut [[u32; LANES]] {
        &mut self.w
    }
    fn wide_mut(&mut self) -> &mut [[u64; LANES]] {
        &mut self.d
    }
}

/// A compiled operation without side effects. It computes all lanes.
pub(in crate::sim) type Pure = Box<dyn Fn(&mut Regs) + Send + Sync>;

/// Makes `dst = f(a)` for all lanes.
pub(in crate::sim) fn unary<A: Lane, R: Lane>(
    dst: u32,
    a: u32,
    f: impl Fn(A) -> R + Send + Sync + 'static,
) -> Pure {
    let (dst, a) = (dst as usize, a as usize);
    Box::new(move |regs| {
        let a = &A::Word::file(regs)[a];
        let mut out = [R::Word::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::of(a[lane])).word();
        }
        R::Word::file_mut(regs)[dst] = out;
    })
}

/// Makes `dst = f(a, b)` for all lanes.
pub(in crate::sim) fn binary<A: Lane, B: Lane, R: Lane>(
    dst: u32,
    [a, b]: [u32; 2],
    f: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Pure {
    let (dst, a, b) = (dst as usize, a as usize, b as usize);
    Box::new(move |regs| {
        let (a, b) = (&A::Word::file(regs)[a], &B::Word::file(regs)[b]);
        let mut out = [R::Word::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::of(a[lane]), B::of(b[lane])).word();
        }
        R::Word::file_mut(regs)[dst] = out;
    })
}

/// Makes `dst = f(a, b, c)` for all lanes.
pub(in crate::sim) fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
    dst: u32,
    [a, b, c]: [u32; 3],
    f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
) -> Pure {
    let (dst, a, b, c) = (dst as usize, a as usize, b as usize, c as usize);
    Box::new(move |regs| {
        let (a, b) = (&A::Word::file(regs)[a], &B::Word::file(regs)[b]);
        let c = &C::Word::file(regs)[c];
        let mut out = [R::Word::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::of(a[lane]), B::of(b[lane]), C::of(c[lane])).word();
        }
        R::Word::file_mut(regs)[dst] = out;
    })
}

/// A copy between two slots of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Move {
    /// In the file `w`.
    W { dst: u32, src: u32 },
    /// In the file `d`.
    D { dst: u32, src: u32 },
}

impl Regs {
    /// Performs the copies in order, in the lanes of `mask` only.
    pub(in crate::sim) fn copy(&mut self, moves: &[Move], mask: u32) {
        for step in moves {
            match *step {
                Move::W { dst, src } => copy_lanes(&mut self.w, dst, src, mask),
                Move::D { dst, src } => copy_lanes(&mut self.d, dst, src, mask),
            }
        }
    }
}

fn copy_lanes<T: Copy>(file: &mut [[T; LANES]], dst: u32, src: u32, mask: u32) {
    let src = file[src as usize];
    let dst = &mut file[dst as usize];
    if mask == FULL {
        *dst = src;
    } else {
        for lane in 0..LANES {
            dst[lane] = if mask & LANE_BIT[lane] != 0 { src[lane] } else { dst[lane] };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mask::lanes_of;
    use super::*;

    #[test]
    fn masks_and_lanes_are_inverse() {
        for mask in [0, 1, 0x8000_0001, 0xffff_0000, FULL] {
            let words = std::array::from_fn(|lane| (mask >> lane & 1 == 1).word());
            assert_eq!(mask_of(&words), mask);
            assert_eq!(lanes_of(mask).fold(0, |m, lane| m | LANE_BIT[lane]), mask);
        }
    }

    #[test]
    fn copies_leave_other_lanes_alone() {
        let mut regs = Regs::new(2, 0);
        regs.w[0] = [7; LANES];
        regs.copy(&[Move::W { dst: 1, src: 0 }], 0b101);
        assert_eq!(regs.w[1][..4], [7, 0, 7, 0]);
    }
}
