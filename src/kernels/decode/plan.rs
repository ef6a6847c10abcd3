//! [`DecodePlan`]: into how many splits a launch divides each sequence's keys, so that a small
//! batch still fills the GPU, and how large the workspace for the splits' partial results is. Pass
//! a plan of your own in [`DecodeArgs`](super::DecodeArgs::plan) to fix the splits.

use super::config::DecodeConfig;
use super::error::DecodeError;
use super::problem::DecodeProblem;

/// What a thread block costs besides its keys, in keys: to start, fill its ring buffers and combine
/// its warps.
const START: u64 = 128;
/// What a partial result costs, in keys: its block writes it, and the last block reads it.
const WRITE: u64 = 64;
const READ: u64 = 16;
/// Splits end at multiples of the keys that 4 warps process in a step.
const STEP: u32 = 64;

/// How a sequence's keys are split among thread blocks. The launch chooses it, unless you pass your
/// own in [`DecodeArgs`](super::DecodeArgs::plan), for example to get the same results on every
/// GPU.
///
/// Split `i` has the `tokens` keys from key `i * tokens` on, and the last split has the rest. With
/// a window, the keys in front of it do not count. A sequence with at most `tokens` keys is computed by one block and uses no workspace. A sequence's
/// result depends on its own data and on `tokens`, not on the other sequences.
///
/// ```
/// use tilewright::kernels::decode::{DecodePlan, DecodeProblem};
///
/// // One sequence with 8 key heads cannot fill a GPU with 132 SMs and 264 thread blocks at once.
/// let problem = DecodeProblem::new([1, 64, 8], 128, [512, 64, 512]);
/// assert_eq!(DecodePlan::new(&problem, [132, 264]), DecodePlan { splits: 16, tokens: 2048 });
/// // With 128 sequences there are enough blocks.
/// let problem = DecodeProblem::new([128, 64, 8], 128, [512, 64, 512]);
/// assert_eq!(DecodePlan::new(&problem, [132, 264]).splits, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodePlan {
    /// Thread blocks per sequence, key head and row tile. 1 means no split.
    pub splits: u32,
    /// Keys per split: a multiple of 64.
    pub tokens: u32,
}

impl DecodePlan {
    /// Returns the plan that is predicted to be fastest on a device with
    /// `[SMs, thread blocks at once]`, if all sequences have `max_len` keys. A launch uses this
    /// plan by default; call `new` to compare devices.
    ///
    /// The prediction assumes that full waves of resident blocks run at memory bandwidth, and so
    /// does the last wave if every SM has the same count of blocks.
    #[inline]
    pub fn new(problem: &DecodeProblem, [sms, resident]: [u32; 2]) -> DecodePlan {
        let (sms, resident) = (u64::from(sms.max(1)), u64::from(resident.max(1)));
        let time = |plan: &DecodePlan| {
            let blocks = problem.tiles() * u64::from(plan.splits);
            let (waves, rest) = (blocks / resident, blocks % resident);
            let last = rest.next_multiple_of(sms).min(resident);
            let partial = if plan.splits > 1 { WRITE + READ * u64::from(plan.splits) } else { 0 };
            (waves * resident + last).saturating_mul(u64::from(plan.tokens) + START + partial)
        };
        let most = problem.max_read().div_ceil(STEP).clamp(1, 512);
        let plans = (1..=most).map(|splits| DecodePlan::split(problem, splits));
        // `min_by_key` returns the first of equal plans, the one with the fewest splits.
        plans.min_by_key(time).unwrap_or(DecodePlan::split(problem, 1))
    }

    /// Returns the plan with at most `splits` equal splits of the keys that the queries of the
    /// longest sequence see. Use it to measure other split counts than [`new`](DecodePlan::new) chooses.
    #[inline]
    pub fn split(problem: &DecodeProblem, splits: u32) -> DecodePlan {
        let keys = problem.max_read();
        let tokens = keys.div_ceil(splits.max(1)).next_multiple_of(STEP).max(STEP);
        DecodePlan { splits: keys.div_ceil(tokens).max(1), tokens }
    }

    /// Returns how many bytes of workspace the partial results of a launch take: 0 without splits.
    /// The launch allocates the workspace.
    #[inline]
    pub fn workspace_bytes(&self, config: &DecodeConfig, problem: &DecodeProblem) -> u64 {
        let of_part = u64::from(config.warps * config.share_numbers()) * 4;
        let parts = if self.splits == 1 { 0 } else { self.splits };
        problem.tiles().saturating_mul(parts.into()).saturating_mul(of_part)
    }

    /// Checks that the splits cover all keys of a problem. Call it if you fill in the fields
    /// yourself; a launch calls it too.
    ///
    /// # Errors
    /// [`DecodeError::Plan`].
    pub fn check(&self, problem: &DecodeProblem) -> Result<(), DecodeError> {
        let (DecodePlan { splits, tokens }, keys) = (*self, problem.max_read());
        let rule = if tokens == 0 || !tokens.is_multiple_of(STEP) || tokens > 1 << 30 {
            "a split must have a multiple of 64 tokens, at most 2^30"
        } else if splits == 0 || splits > 65535 {
            "the split count must be 1 to 65535"
        } else if u64::from(splits) * u64::from(tokens) < keys.into() {
            "they cover fewer keys"
        } else {
            return Ok(());
        };
        Err(DecodeError::Plan { splits, tokens, keys, rule })
    }
}
