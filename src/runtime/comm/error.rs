//! Defines [`CommError`]: the error type of communicators.

use std::time::Duration;

use crate::errors::errors;
use crate::ir::types::Scalar;

errors! {
    /// The error of a communicator or a collective. Calls return it inside
    /// [`RuntimeError::Comm`](crate::runtime::RuntimeError::Comm).
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum CommError {
        /// this build has no NCCL: build it with the feature `nccl`, or use simulators
        NcclNotBuilt,
        /// NCCL was not found as {tried} in the system's folders, in a CUDA toolkit, or in the
        /// active Python environment: install it, or name its folder in `LD_LIBRARY_PATH`
        NoLibrary { tried: String },
        /// the NCCL library has no function `{symbol}`: update it
        MissingSymbol { symbol: &'static str },
        /// NCCL {found} was found, but at least {needed} is needed: update it
        OldVersion { found: NcclVersion, needed: NcclVersion },
        /// a communicator needs a device
        NoDevices,
        /// a communicator cannot mix GPUs and simulators: use devices of one kind
        MixedDevices,
        /// {device} cannot have two ranks of a communicator
        SameDevice { device: String },
        /// there is no rank {rank}: the communicator's {ranks} ranks are numbered from 0
        Rank { rank: u32, ranks: u32 },
        /// rank {rank} of the communicator is already connected
        RankTaken { rank: u32 },
        /// {what} of `{call}` is on {found}, but rank {rank} of the communicator is on {device}:
        /// use memory and streams of the communicator's device
        OtherDevice { call: &'static str, what: &'static str, found: String, rank: u32, device: String },
        /// `{call}` on {ranks} ranks turns {from} elements into {expected}, but its output has
        /// {to}: make the output as long
        Length { call: &'static str, ranks: u32, from: usize, expected: String, to: usize },
        /// `{call}` cannot reduce elements of type {scalar}
        UnsupportedType { call: &'static str, scalar: Scalar },
        /// a group of calls cannot mix GPUs and simulators
        MixedGroup,
        /// the ranks of the communicator make different calls: rank {rank} calls {call}, but rank
        /// {other} calls {other_call}
        Mismatch { rank: u32, call: String, other: u32, other_call: String },
        /// rank {rank} has left the communicator, but a call of this rank needs it
        PeerGone { rank: u32 },
        /// {call} has not finished within {timeout:?}: another rank has not made the same call, or
        /// hangs
        TimedOut { call: String, timeout: Duration },
        /// rank {rank} aborted the communicator
        Aborted { rank: u32 },
        /// the NCCL call `{call}` failed with status {status} ({name}): {detail}
        Status { call: &'static str, status: u32, name: String, detail: String },
        /// a unique id has 128 bytes, not {bytes}
        IdLength { bytes: usize },
        /// the file of the unique id, `{path}`: {error}
        IdFile { path: String, error: String },
    }
}
crate::errors::message_as_debug!(CommError);

/// An NCCL version, from [`Communicator::nccl_version`](super::Communicator::nccl_version) or in an
/// error about a library that is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NcclVersion {
    /// Major, minor and patch version.
    pub numbers: [u32; 3],
}

/// For example `2.28.9`.
impl std::fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")
    }
}
