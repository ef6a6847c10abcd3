//! [`DecodePlan`]: how the keys of a sequence are split among thread blocks.

use super::config::DecodeConfig;
use super::error::DecodeError;
use super::problem::DecodeProblem;

/// The cost of a thread block beside its keys, in keys: it starts, fills its ring and combines its warps.
const START: u64 = 128;
/// The cost of a partial result, in keys: its block writes it, and the last block reads it.
const WRITE: u64 = 64;
const READ: u64 = 16;
/// Splits end at multiples of the keys that all warps take in a step.
const STEP: u32 = 64;

/// The split of the keys of a sequence among thread blocks, for each tile of its query heads.
///
/// Split `i` has `tokens` keys from key `i * tokens` on; the last split has the rest. A sequence with at most `tokens` keys
/// is one block's and takes no workspace. The result of a sequence depends on its own data and on `tokens`, not on the other
/// sequences.
///
/// ```
/// use tilewright::kernels::decode::{DecodePlan, DecodeProblem};
///
/// // One sequence with 8 heads of keys does not fill a GPU with 132 SMs and 264 thread blocks at once.
/// let problem = DecodeProblem::new([1, 64, 8], 128, [512, 64, 512]);
/// assert_eq!(DecodePlan::new(&problem, [132, 264]), DecodePlan { splits: 16, tokens: 2048 });
/// // With 128 sequences there are enough blocks.
/// let problem = DecodeProblem::new([128, 64, 8], 128, [512, 64, 512]);
/// assert_eq!(DecodePlan::new(&problem, [132, 264]).splits, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodePlan {
    /// The thread blocks of a sequence, a head of keys and a tile of rows; 1 is no split.
    pub splits: u32,
    /// The keys of a split: a multiple of 64.
    pub tokens: u32,
}

impl DecodePlan {
    /// The splits for which a device with `[sms, resident]` SMs and thread blocks at once takes the shortest time, if all
    /// sequences have `max_len` keys.
    ///
    /// Full waves of resident blocks run at the bandwidth of the memory. The last wave does so too where each SM has as many
    /// blocks.
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
        let most = problem.max_len.div_ceil(STEP).clamp(1, 512);
        let plans = (1..=most).map(|splits| DecodePlan::split(problem, splits));
        // The first of equal ones: the fewest splits.
        plans.min_by_key(time).unwrap_or(DecodePlan::split(problem, 1))
    }

    /// The plan with at most `splits` equal splits of sequences with `max_len` keys.
    #[inline]
    pub fn split(problem: &DecodeProblem, splits: u32) -> DecodePlan {
        let tokens = problem.max_len.div_ceil(splits.max(1)).next_multiple_of(STEP).max(STEP);
        DecodePlan { splits: problem.max_len.div_ceil(tokens).max(1), tokens }
    }

    /// Returns the bytes of partial results in the workspace of a kernel.
    #[inline]
    pub fn workspace_bytes(&self, config: &DecodeConfig, problem: &DecodeProblem) -> u64 {
        let of_part = u64::from(config.warps * config.share_numbers()) * 4;
        let parts = if self.splits == 1 { 0 } else { self.splits };
        problem.tiles().saturating_mul(parts.into()).saturating_mul(of_part)
    }

    /// Checks that the splits have all keys of the problem.
    ///
    /// # Errors
    /// [`DecodeError::Plan`].
    pub fn check(&self, problem: &DecodeProblem) -> Result<(), DecodeError> {
        let (DecodePlan { splits, tokens }, max_len) = (*self, problem.max_len);
        let rule = if tokens == 0 || !tokens.is_multiple_of(STEP) || tokens > 1 << 30 {
            "a split has a multiple of 64 tokens, at most 2^30"
        } else if splits == 0 || splits > 65535 {
            "there are 1 to 65535 splits"
        } else if u64::from(splits) * u64::from(tokens) < max_len.into() {
            "they have fewer keys"
        } else {
            return Ok(());
        };
        Err(DecodeError::Plan { splits, tokens, max_len, rule })
    }
}
