//! Attributes of warp-level operations: shuffles, votes and reductions. You pass them to
//! `Body::shfl`; the other methods choose them for you.

use std::fmt;
use std::str::FromStr;

use crate::ir::name::{self, ParseNameError};

/// Which lane a shuffle reads, given its operands `lane` and `segment`. Only the low five bits of
/// `lane` count.
///
/// Most kernels get `segment` from [`segment`](ShflMode::segment). Its bits 0 to 4 are PTX's clamp,
/// and its bits 8 to 12 are the mask of the lane bits that select a segment. With
/// `first = own & mask` and `last = first | (clamp & !mask)`, a source lane `j` is in bounds if
/// `j >= last` for [`Up`](ShflMode::Up), and if `j <= last` for the other modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShflMode {
    /// `own - lane`
    Up,
    /// `own + lane`
    Down,
    /// `own ^ lane`
    Bfly,
    /// `first | (lane & !mask)`
    Idx,
}

impl ShflMode {
    /// All modes.
    pub const ALL: [ShflMode; 4] = [ShflMode::Up, ShflMode::Down, ShflMode::Bfly, ShflMode::Idx];

    /// Returns the operand `segment` for segments of `width` lanes. `width` must be a power of two
    /// up to 32; returns `None` otherwise.
    ///
    /// ```
    /// use tilewright::ir::op::ShflMode;
    /// assert_eq!(ShflMode::Down.segment(32), Some(0x001f));
    /// assert_eq!(ShflMode::Up.segment(8), Some(0x1800));
    /// assert_eq!(ShflMode::Idx.segment(12), None);
    /// ```
    pub const fn segment(self, width: u32) -> Option<u32> {
        if !width.is_power_of_two() || width > 32 {
            return None;
        }
        let clamp = if matches!(self, ShflMode::Up) { 0 } else { 31 };
        Some((32 - width) << 8 | clamp)
    }

    /// Returns the lane that lane `own` reads, and whether the source is in bounds. If it is not,
    /// the lane reads itself. The simulator runs shuffles with it.
    pub const fn source(self, own: u32, lane: u32, segment: u32) -> (u32, bool) {
        let (lane, clamp, mask) = (lane & 31, segment & 31, segment >> 8 & 31);
        let first = own & mask;
        let last = (first | clamp & !mask) as i32;
        let (source, inside) = match self {
            ShflMode::Up => {
                let source = own as i32 - lane as i32;
                (source, source >= last)
            }
            ShflMode::Down => ((own + lane) as i32, (own + lane) as i32 <= last),
            ShflMode::Bfly => ((own ^ lane) as i32, (own ^ lane) as i32 <= last),
            ShflMode::Idx => {
                let source = (first | lane & !mask) as i32;
                (source, source <= last)
            }
        };
        if inside { (source as u32, true) } else { (own, false) }
    }

    /// Returns PTX's name for the mode, such as `bfly`.
    pub const fn name(self) -> &'static str {
        match self {
            ShflMode::Up => "up",
            ShflMode::Down => "down",
            ShflMode::Bfly => "bfly",
            ShflMode::Idx => "idx",
        }
    }
}

/// What a vote asks about the members' predicates. In a kernel, `Body::vote_all` and its siblings
/// choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoteMode {
    /// Is it true in all of them?
    All,
    /// Is it true in any of them?
    Any,
    /// Is it the same in all of them?
    Uni,
}

impl VoteMode {
    /// All modes.
    pub const ALL: [VoteMode; 3] = [VoteMode::All, VoteMode::Any, VoteMode::Uni];

    /// Returns PTX's name for the mode.
    pub const fn name(self) -> &'static str {
        match self {
            VoteMode::All => "all",
            VoteMode::Any => "any",
            VoteMode::Uni => "uni",
        }
    }
}

/// How a warp reduction (`redux.sync`) combines its values. In a kernel, `Body::redux_add` and its
/// siblings choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduxOp {
    /// The sum; wraps.
    Add,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl ReduxOp {
    /// All operations.
    pub const ALL: [ReduxOp; 6] =
        [ReduxOp::Add, ReduxOp::Min, ReduxOp::Max, ReduxOp::And, ReduxOp::Or, ReduxOp::Xor];

    /// Returns PTX's name.
    pub const fn name(self) -> &'static str {
        match self {
            ReduxOp::Add => "add",
            ReduxOp::Min => "min",
            ReduxOp::Max => "max",
            ReduxOp::And => "and",
            ReduxOp::Or => "or",
            ReduxOp::Xor => "xor",
        }
    }
}

macro_rules! named {
    ($($ty:ident: $what:literal;)*) => {$(
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $ty {
            type Err = ParseNameError;

            fn from_str(text: &str) -> Result<$ty, ParseNameError> {
                name::find($what, &$ty::ALL, text)
            }
        }
    )*};
}

named! {
    ShflMode: "a shuffle mode";
    VoteMode: "a vote mode";
    ReduxOp: "a reduction";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected lane, computed from the plain definition for segments of a width.
    #[test]
    fn lanes_of_segments() {
        for width in [1, 2, 4, 8, 16, 32] {
            for own in 0..32u32 {
                let first = own / width * width;
                let inside =
                    |lane: i64| lane >= i64::from(first) && lane < i64::from(first + width);
                for lane in 0..32 {
                    let check = |mode: ShflMode, source: i64| {
                        let expected =
                            if inside(source) { (source as u32, true) } else { (own, false) };
                        let segment = mode.segment(width).unwrap();
                        assert_eq!(mode.source(own, lane, segment), expected, "{mode} {lane}");
                    };
                    check(ShflMode::Up, i64::from(own) - i64::from(lane));
                    check(ShflMode::Down, i64::from(own + lane));
                    check(ShflMode::Idx, i64::from(first + lane % width));
                    // A butterfly may read a lane in a lower segment.
                    let (source, found) =
                        ShflMode::Bfly.source(own, lane, ShflMode::Bfly.segment(width).unwrap());
                    let expected = (own ^ lane) < first + width;
                    assert_eq!(
                        (source, found),
                        if expected { (own ^ lane, true) } else { (own, false) }
                    );
                }
            }
        }
    }
}
