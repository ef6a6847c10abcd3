//! Compiles the operations that a warp's lanes execute together: shuffles, votes, matches,
//! reductions.
//!
//! The active lanes that pass the same `members` mask form a group. The simulator reports a fault
//! if a lane of the group is not in the mask, or if a thread in the mask has not ended and is not
//! in the group, because a GPU would then wait forever or return an undefined result.

use super::code::Group;
use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused;
use super::slots::Slots;
use super::special::truth;
use crate::ir::eval::{Bits, Int, Number, with_type};
use crate::ir::op::{ReduxOp, ShflMode, VoteMode, Warp};
use crate::ir::types::Scalar;
use crate::ir::{OpId, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::lanes::{Lane, Regs, Word};
use crate::sim::memory::mask::{LANE_BIT, LANES, lanes_of};

/// Writes `value` in the lanes of `group`.
fn set<T: Copy>(out: &mut [T; LANES], group: u32, value: impl Fn(usize) -> T) {
    for lane in lanes_of(group) {
        out[lane] = value(lane);
    }
}

impl Compiler<'_> {
    pub(in crate::sim) fn warp(
        &mut self,
        id: OpId,
        op: &Warp,
        results: &[Value],
    ) -> Result<(), Refused> {
        let (members, run): (Value, Group) = match *op {
            Warp::Shfl { value, lane, segment, members, mode } => {
                let (scalar, value) = self.scalar(value)?;
                let lane = self.scalar_of(lane, Scalar::U32)?;
                let segment = self.scalar_of(segment, Scalar::U32)?;
                let dst = self.result(results, 0)?.scalar(scalar)?;
                let inside = self.result(results, 1)?.scalar(Scalar::Bool)?;
                let slots = Shuffle { mode, value, lane, segment, dst, inside };
                let run: Group = if scalar.bits() == 64 {
                    Box::new(move |regs, group| slots.run::<u64>(regs, group))
                } else {
                    Box::new(move |regs, group| slots.run::<u32>(regs, group))
                };
                (members, run)
            }
            Warp::Vote { pred, members, mode } => {
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                let dst = self.result(results, 0)?.scalar(Scalar::Bool)? as usize;
                let run: Group = Box::new(move |regs, group| {
                    let holds = regs.truth(pred) & group;
                    let vote = match mode {
                        VoteMode::All => holds == group,
                        VoteMode::Any => holds != 0,
                        VoteMode::Uni => holds == group || holds == 0,
                    };
                    set(&mut regs.w[dst], group, |_| vote.word());
                    Ok(())
                });
                (members, run)
            }
            Warp::VoteBallot { pred, members } => {
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                let dst = self.result(results, 0)?.scalar(Scalar::U32)? as usize;
                let run: Group = Box::new(move |regs, group| {
                    let holds = regs.truth(pred) & group;
                    set(&mut regs.w[dst], group, |_| holds);
                    Ok(())
                });
                (members, run)
            }
            Warp::MatchAny { value, members } => {
                let (scalar, value) = self.scalar(value)?;
                let dst = self.result(results, 0)?.scalar(Scalar::U32)? as usize;
                let run: Group = Box::new(move |regs, group| {
                    let words = words_of(regs, scalar, value);
                    let equal = |lane: usize| {
                        lanes_of(group)
                            .filter(|other| words[*other] == words[lane])
                            .fold(0, |mask, other| mask | LANE_BIT[other])
                    };
                    set(&mut regs.w[dst], group, equal);
                    Ok(())
                });
                (members, run)
            }
            Warp::MatchAll { value, members } => {
                let (scalar, value) = self.scalar(value)?;
                let mask_slot = self.scalar_of(members, Scalar::U32)? as usize;
                let dst = self.result(results, 0)?.scalar(Scalar::U32)? as usize;
                let all = self.result(results, 1)?.scalar(Scalar::Bool)? as usize;
                let run: Group = Box::new(move |regs, group| {
                    let words = words_of(regs, scalar, value);
                    let mut lanes = lanes_of(group);
                    let first = lanes.next().unwrap_or_default();
                    let equal = lanes.all(|lane| words[lane] == words[first]);
                    let members = if equal { regs.w[mask_slot][first] } else { 0 };
                    set(&mut regs.w[dst], group, |_| members);
                    set(&mut regs.w[all], group, |_| equal.word());
                    Ok(())
                });
                (members, run)
            }
            Warp::Redux { value, members, op } => {
                let (scalar, value) = self.scalar(value)?;
                let dst = self.result(results, 0)?.scalar(scalar)?;
                (
                    members,
                    with_type!(scalar, [I32 i32, U32 u32], T => redux::<T>(op, value, dst))
                        .ok_or(Refused::Malformed)?,
                )
            }
            Warp::Elect { members } => {
                let leader = self.result(results, 0)?.scalar(Scalar::U32)? as usize;
                let is_leader = self.result(results, 1)?.scalar(Scalar::Bool)? as usize;
                let run: Group = Box::new(move |regs, group| {
                    let lowest = group.trailing_zeros();
                    set(&mut regs.w[leader], group, |_| lowest);
                    set(&mut regs.w[is_leader], group, |lane| (lane as u32 == lowest).word());
                    Ok(())
                });
                (members, run)
            }
            // All lanes execute a warp's steps at once, so there is nothing to wait for.
            Warp::BarWarp { members } => (members, Box::new(|_, _| Ok(()))),
            Warp::Activemask {} => {
                let dst = self.result(results, 0)?.scalar(Scalar::U32)? as usize;
                let run = move |regs: &mut Regs,
                                _: &mut crate::sim::memory::cluster_memory::Memory<'_>,
                                mask: u32| {
                    regs.w[dst] = [mask; LANES];
                    Ok(())
                };
                self.emit(id, Inst::Memory(Box::new(run)));
                return Ok(());
            }
        };
        let members = self.scalar_of(members, Scalar::U32)?;
        let orders_memory = matches!(op, Warp::BarWarp { .. });
        self.emit(id, Inst::Warp { members, run, orders_memory });
        Ok(())
    }

    /// Allocates the slots of a result.
    pub(in crate::sim) fn result(
        &mut self,
        results: &[Value],
        position: usize,
    ) -> Result<Slots, Refused> {
        let result = *results.get(position).ok_or(Refused::Malformed)?;
        let slots = self.allocate_values(&[result])?;
        slots.first().copied().ok_or(Refused::Malformed)
    }
}

/// Returns the words of a slot of either file, zero-extended.
fn words_of(regs: &Regs, scalar: Scalar, slot: u32) -> [u64; LANES] {
    if scalar.bits() == 64 { regs.d[slot as usize] } else { regs.w[slot as usize].map(u64::from) }
}

fn redux<T: Int + Number + Bits>(op: ReduxOp, value: u32, dst: u32) -> Group {
    let (value, dst) = (value as usize, dst as usize);
    let combine: fn(T, T) -> T = match op {
        ReduxOp::Add => Number::add,
        ReduxOp::Min => Number::min,
        ReduxOp::Max => Number::max,
        ReduxOp::And => Bits::and,
        ReduxOp::Or => Bits::or,
        ReduxOp::Xor => Bits::xor,
    };
    Box::new(move |regs, group| {
        let words = &T::Word::file(regs)[value];
        let all = lanes_of(group).map(|lane| T::of(words[lane])).reduce(combine);
        if let Some(all) = all {
            set(&mut T::Word::file_mut(regs)[dst], group, |_| all.word());
        }
        Ok(())
    })
}

/// The slots of a shuffle's operands.
#[derive(Clone, Copy)]
struct Shuffle {
    mode: ShflMode,
    value: u32,
    lane: u32,
    segment: u32,
    dst: u32,
    inside: u32,
}

impl Shuffle {
    fn run<W: Word>(self, regs: &mut Regs, group: u32) -> RawResult {
        let (lanes, segments) = (regs.w[self.lane as usize], regs.w[self.segment as usize]);
        let values = W::file(regs)[self.value as usize];
        let (mut read, mut inside) = ([0; LANES], 0);
        for lane in lanes_of(group) {
            let (source, is_inside) = self.mode.source(lane as u32, lanes[lane], segments[lane]);
            if LANE_BIT[source as usize] & group == 0 {
                return Err(RawFault::new(lane, RawCause::InactiveSource { source, group }));
            }
            read[lane] = source as usize;
            inside |= if is_inside { LANE_BIT[lane] } else { 0 };
        }
        set(&mut W::file_mut(regs)[self.dst as usize], group, |lane| values[read[lane]]);
        let words = truth(inside);
        set(&mut regs.w[self.inside as usize], group, |lane| words[lane]);
        Ok(())
    }
}
