//! Compiles the header of a `for` loop. When lanes enter the loop, each lane's iteration count is
//! computed once. The loop then counts down instead of comparing the index with the end, so an
//! index that wraps after the last iteration does no harm.

use super::code::{Advance, Enter};
use crate::ir::eval::{Int, Number};
use crate::ir::types::{Const, Scalar};
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::lanes::Word;
use crate::sim::memory::mask::{FULL, LANES, lanes_of};

/// The register slots of a `for`: its bounds, its step, its index and its counter.
#[derive(Clone, Copy)]
pub(in crate::sim) struct ForRange {
    pub(in crate::sim) lo: u32,
    pub(in crate::sim) hi: u32,
    pub(in crate::sim) step: u32,
    pub(in crate::sim) index: u32,
    /// In the file `d`: how many iterations are left, including the current one.
    pub(in crate::sim) remaining: u32,
}

/// Returns how many of `lo, lo + step, ..` are below `hi`, without wrapping: for example 4 for `lo`
/// 0, `hi` 10 and `step` 3. `step` must be positive.
fn trips_of<T: Int>(lo: T, hi: T, step: T) -> u64 {
    if hi <= lo {
        return 0;
    }
    // The distance between two integers fits their unsigned type.
    (Number::sub(hi, lo).word().bits() - 1) / step.word().bits() + 1
}

impl ForRange {
    /// Returns the functions that start and advance a loop over integers of type `T`.
    pub(in crate::sim) fn functions<T: Int>(self, scalar: Scalar) -> (Enter, Advance) {
        let [lo, hi, step, index, remaining] =
            [self.lo, self.hi, self.step, self.index, self.remaining].map(|slot| slot as usize);
        let enter: Enter = Box::new(move |regs, mask| {
            let (lo, hi, step) =
                (T::Word::file(regs)[lo], T::Word::file(regs)[hi], T::Word::file(regs)[step]);
            // Most loops are the same in all lanes, so one division is enough.
            let mut known: Option<(T, T, T, u64)> = None;
            let (mut trips, mut entered) = ([0; LANES], 0);
            for lane in lanes_of(mask) {
                let (lo, hi, step) = (T::of(lo[lane]), T::of(hi[lane]), T::of(step[lane]));
                if step <= T::ZERO {
                    let step = Const::new(scalar, step.word().bits());
                    return Err(RawFault::new(lane, RawCause::StepNotPositive { step }));
                }
                trips[lane] = match known {
                    Some((l, h, s, trips)) if l == lo && h == hi && s == step => trips,
                    _ => trips_of(lo, hi, step),
                };
                known = Some((lo, hi, step, trips[lane]));
                entered |= u32::from(trips[lane] != 0) << lane;
            }
            T::Word::file_mut(regs)[index] = lo;
            regs.d[remaining] = trips;
            Ok(entered)
        });
        let advance: Advance = Box::new(move |regs| {
            let step = T::Word::file(regs)[step];
            for (index, step) in T::Word::file_mut(regs)[index].iter_mut().zip(step) {
                *index = Number::add(T::of(*index), T::of(step)).word();
            }
            let mut mask = FULL;
            for (lane, remaining) in regs.d[remaining].iter_mut().enumerate() {
                *remaining = remaining.wrapping_sub(1);
                if *remaining == 0 {
                    mask &= !(1 << lane);
                }
            }
            mask
        });
        (enter, advance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_never_wrap() {
        assert_eq!(trips_of(-128i8, 127, 127), 3);
        assert_eq!(trips_of(-128i8, 127, 1), 255);
        assert_eq!(trips_of(i64::MIN, i64::MAX, 1), u64::MAX);
        assert_eq!(trips_of(0u64, u64::MAX, u64::MAX), 1);
        assert_eq!(trips_of(3u8, 3, 1), 0);
        assert_eq!(trips_of(250u8, 255, 4), 2);
    }
}
