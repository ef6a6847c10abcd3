//! Warp collectives: shuffles, votes, matches, reductions, elections and warp barriers. Threads
//! exchange values without shared memory. [`Body::reduce`] and [`Body::scan`] are built from them.

use super::body::Body;
use super::typed::{Element, Integer, IntoVal, Number, Val};
use crate::ir::op::{ReduxOp, ShflMode, VoteMode, Warp};

/// The member mask of a full warp: all 32 lanes. Pass it to warp operations that every thread of
/// the warp executes.
pub const WARP: u32 = u32::MAX;

mod sealed {
    /// Seals [`Redux`](super::Redux).
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
}

/// A type that a warp reduces in one instruction (`redux.sync`): `i32` and `u32`. You name it as a
/// bound in generic code.
pub trait Redux: Integer + sealed::Sealed {}
impl Redux for i32 {}
impl Redux for u32 {}

/// # Warp shuffles
///
/// Each lane reads a value of another lane in its warp. PTX ISA 9.7.9.6 `shfl.sync`.
///
/// `members` is the mask of the lanes that take part, including the calling lane and every lane
/// that it reads; [`WARP`] means all 32. All members must execute the shuffle with the same
/// `members`, unless they have ended. Reading a lane that is not a member or has ended is undefined
/// on a GPU and a fault in the simulator.
///
/// A 64-bit value takes two instructions.
///
/// Shuffles do not order memory accesses, nor do votes, matches, reductions and `elect`. If one
/// lane stores an element and another loads it, call [`bar_warp`](Body::bar_warp) in between.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, WARP};
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sum", Target::SM_80, |k, (x,)| {
///     let mut sum = x.load(k.thread_idx().x);
///     for distance in [16, 8, 4, 2, 1] {
///         sum = sum + k.shfl_bfly(WARP, sum, distance);
///     }
///     x.store(k.thread_idx().x, sum);
/// })?;
/// assert_eq!(kernel.ptx().text().matches("shfl.sync.bfly.b32").count(), 5);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    /// Returns `value` of the lane selected by `mode`, `lane` and `segment`, and whether that lane
    /// is inside the segment. Use it to shuffle within parts of a warp; otherwise `shfl_up` and its
    /// siblings are shorter. If it is not, the value is the thread's own. [`ShflMode`] has the
    /// formulas; [`ShflMode::segment`] computes `segment` for a width. PTX ISA 9.7.9.6 `shfl.sync`.
    #[doc(alias("__shfl_sync", "shuffle_sync"))]
    #[track_caller]
    pub fn shfl<T: Element>(
        &self,
        mode: ShflMode,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        lane: impl IntoVal<'b, u32>,
        segment: impl IntoVal<'b, u32>,
    ) -> (Val<'b, T>, Val<'b, bool>) {
        let cx = self.context();
        let (members, value) = (cx.operand_of(members), cx.operand_of(value));
        let (lane, segment) = (cx.operand_of(lane), cx.operand_of(segment));
        cx.emit_pair(Warp::Shfl { value, lane, segment, members, mode })
    }

    #[track_caller]
    fn shfl_all<T: Element>(
        &self,
        mode: ShflMode,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        lane: impl IntoVal<'b, u32>,
    ) -> Val<'b, T> {
        let whole = mode.segment(32).unwrap_or_default();
        self.shfl(mode, members, value, lane, whole).0
    }

    /// Returns `value` of the lane `delta` below, or the thread's own if there is none. Scans use
    /// it. PTX ISA 9.7.9.6 `shfl.sync`.
    #[doc(alias("__shfl_up_sync", "shuffle_sync_up"))]
    #[track_caller]
    pub fn shfl_up<T: Element>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        delta: impl IntoVal<'b, u32>,
    ) -> Val<'b, T> {
        self.shfl_all(ShflMode::Up, members, value, delta)
    }

    /// Returns `value` of the lane `delta` above, or the thread's own if there is none. Reductions
    /// into the first lane use it. PTX ISA 9.7.9.6 `shfl.sync`.
    #[doc(alias("__shfl_down_sync", "shuffle_sync_down"))]
    #[track_caller]
    pub fn shfl_down<T: Element>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        delta: impl IntoVal<'b, u32>,
    ) -> Val<'b, T> {
        self.shfl_all(ShflMode::Down, members, value, delta)
    }

    /// Returns `value` of lane `lane_id ^ mask` (butterfly exchange). Reductions whose result every
    /// lane needs use it. PTX ISA 9.7.9.6 `shfl.sync`.
    #[doc(alias("__shfl_xor_sync", "shfl_xor", "shuffle_sync_bfly"))]
    #[track_caller]
    pub fn shfl_bfly<T: Element>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        mask: impl IntoVal<'b, u32>,
    ) -> Val<'b, T> {
        self.shfl_all(ShflMode::Bfly, members, value, mask)
    }

    /// Returns `value` of lane `lane % 32`, for example to broadcast it. PTX ISA 9.7.9.6
    /// `shfl.sync`.
    #[doc(alias = "__shfl_sync")]
    #[track_caller]
    pub fn shfl_idx<T: Element>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
        lane: impl IntoVal<'b, u32>,
    ) -> Val<'b, T> {
        self.shfl_all(ShflMode::Idx, members, value, lane)
    }
}

/// # Votes, matches and warp barriers
///
/// Compares and synchronises the lanes in the mask `members`. As for shuffles, all members must
/// execute the operation with the same `members`, unless they have ended.
///
/// ```
/// use tilewright::ir::{GlobalMut, Kernel, Target, WARP};
///
/// let kernel = Kernel::<(GlobalMut<u32>,)>::build("odd", Target::SM_80, |k, (x,)| {
///     let value = x.load(k.thread_idx().x);
///     let odd = k.vote_ballot(WARP, (value & 1).ne(0));
///     let sum = k.redux_add(WARP, value);
///     x.store(k.thread_idx().x, odd + sum);
/// })?;
/// let ptx = kernel.ptx();
/// assert!(ptx.text().contains("vote.sync.ballot.b32") && ptx.text().contains("redux.sync.add.u32"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
impl<'b> Body<'b, '_> {
    #[track_caller]
    fn vote(
        &self,
        mode: VoteMode,
        members: impl IntoVal<'b, u32>,
        pred: impl IntoVal<'b, bool>,
    ) -> Val<'b, bool> {
        let cx = self.context();
        let (members, pred) = (cx.operand_of(members), cx.operand_of(pred));
        cx.emit_val(Warp::Vote { pred, members, mode })
    }

    /// Returns whether `pred` is true in all members, the same in every member, so that the warp
    /// can branch on it together. PTX ISA 9.7.13.9 `vote.sync.all`.
    #[doc(alias("__all_sync", "vote_all_sync"))]
    #[track_caller]
    pub fn vote_all(
        &self,
        members: impl IntoVal<'b, u32>,
        pred: impl IntoVal<'b, bool>,
    ) -> Val<'b, bool> {
        self.vote(VoteMode::All, members, pred)
    }

    /// Returns whether `pred` is true in at least one member, the same in every member, so that the
    /// warp can branch on it together. PTX ISA 9.7.13.9 `vote.sync.any`.
    #[doc(alias("__any_sync", "vote_any_sync"))]
    #[track_caller]
    pub fn vote_any(
        &self,
        members: impl IntoVal<'b, u32>,
        pred: impl IntoVal<'b, bool>,
    ) -> Val<'b, bool> {
        self.vote(VoteMode::Any, members, pred)
    }

    /// Returns whether `pred` has the same value in all members, be it true or false. PTX
    /// ISA 9.7.13.9 `vote.sync.uni`.
    #[track_caller]
    pub fn vote_uni(
        &self,
        members: impl IntoVal<'b, u32>,
        pred: impl IntoVal<'b, bool>,
    ) -> Val<'b, bool> {
        self.vote(VoteMode::Uni, members, pred)
    }

    /// Returns the mask of the members in which `pred` is true, for example to count them or to
    /// give each of them a place in a list. PTX ISA 9.7.13.9 `vote.sync.ballot`.
    #[doc(alias("__ballot_sync", "ballot", "vote_ballot_sync"))]
    #[track_caller]
    pub fn vote_ballot(
        &self,
        members: impl IntoVal<'b, u32>,
        pred: impl IntoVal<'b, bool>,
    ) -> Val<'b, u32> {
        let cx = self.context();
        let (members, pred) = (cx.operand_of(members), cx.operand_of(pred));
        cx.emit_val(Warp::VoteBallot { pred, members })
    }

    /// Returns the mask of the members whose `value` has the same bits as the thread's, for example
    /// to combine updates of the same bin before an atomic. PTX ISA 9.7.13.10 `match.any.sync`.
    #[doc(alias = "__match_any_sync")]
    #[track_caller]
    pub fn match_any<T: Number>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
    ) -> Val<'b, u32> {
        let cx = self.context();
        let (members, value) = (cx.operand_of(members), cx.operand_of(value));
        cx.emit_val(Warp::MatchAny { value, members })
    }

    /// Returns `members` and true if `value` has the same bits in all members, otherwise 0 and
    /// false. Use it to take a short cut for uniform data. PTX ISA 9.7.13.10 `match.all.sync`.
    #[doc(alias = "__match_all_sync")]
    #[track_caller]
    pub fn match_all<T: Number>(
        &self,
        members: impl IntoVal<'b, u32>,
        value: impl IntoVal<'b, T>,
    ) -> (Val<'b, u32>, Val<'b, bool>) {
        let cx = self.context();
        let (members, value) = (cx.operand_of(members), cx.operand_of(value));
        cx.emit_pair(Warp::MatchAll { value, members })
    }

    /// Elects one member, for example to start a TMA copy for the whole warp. Returns its lane, the
    /// same in all members, and whether it is the calling thread. The simulator elects the lowest
    /// member that has not ended. PTX ISA 9.7.13.14 `elect.sync`; `sm_90`.
    #[doc(alias("elect_one", "elect_sync"))]
    #[track_caller]
    pub fn elect(&self, members: impl IntoVal<'b, u32>) -> (Val<'b, u32>, Val<'b, bool>) {
        let members = self.context().operand_of(members);
        self.context().emit_pair(Warp::Elect { members })
    }

    /// Waits until all members have arrived; each then sees what the others wrote before. No other
    /// warp operation orders memory accesses. PTX ISA 9.7.13.2 `bar.warp.sync`.
    #[doc(alias("__syncwarp", "syncwarp", "sync_warp"))]
    #[track_caller]
    pub fn bar_warp(&self, members: impl IntoVal<'b, u32>) {
        let members = self.context().operand_of(members);
        self.context().emit(Warp::BarWarp { members });
    }

    /// Returns the mask of the lanes that execute this together: in the simulator all that took the
    /// same path, on a GPU any set with the calling thread in it. Do not use it to find out which
    /// lanes will get here. PTX ISA 9.7.13.11 `activemask`.
    #[doc(alias = "__activemask")]
    #[track_caller]
    pub fn activemask(&self) -> Val<'b, u32> {
        self.context().emit_val(Warp::Activemask {})
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        /// # Warp reductions
        ///
        /// Combines `i32` or `u32` values in one instruction. Use it if you need the member mask.
        /// For other types and combining functions, use [`reduce`](Body::reduce). PTX ISA 9.7.13.12
        /// `redux.sync`.
        impl<'b> Body<'b, '_> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<T: Redux>(
                    &self,
                    members: impl IntoVal<'b, u32>,
                    value: impl IntoVal<'b, T>,
                ) -> Val<'b, T> {
                    let cx = self.context();
                    let (members, value) = (cx.operand_of(members), cx.operand_of(value));
                    cx.emit_val(Warp::Redux { value, members, op: ReduxOp::$op })
                }
            )*
        }
    };
}

reductions! {
    /// Returns the sum of all members' `value`, in every member; wraps.
    redux_add = Add;
    /// Returns the smallest `value` of all members, in every member.
    redux_min = Min;
    /// Returns the largest `value` of all members, in every member.
    redux_max = Max;
    /// Returns the bitwise and of all members' `value`, in every member.
    redux_and = And;
    /// Returns the bitwise or of all members' `value`, in every member.
    redux_or = Or;
    /// Returns the bitwise exclusive or of all members' `value`, in every member.
    redux_xor = Xor;
}
