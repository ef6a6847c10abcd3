//! [`SelectiveScanConfig`]: what decides the generated code of a selective scan. `new` chooses tile
//! and lanes for a problem.

use std::fmt;
use std::str::FromStr;

use crate::ir::Target;
use crate::ir::types::Scalar;
use crate::tensor::rows::{RowAccess, RowTile};

use super::error::SelectiveScanError;
use super::problem::SelectiveScanProblem;

/// How the step size delta is made from `dt + bias`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaActivation {
    /// `delta = dt + bias`.
    Identity,
    /// `delta = ln(1 + e^(dt + bias))`, which is positive, as Mamba needs it.
    Softplus,
}

/// What becomes of the states after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalState {
    /// They are dropped.
    Dropped,
    /// They are stored, so that a later launch can continue the sequence.
    Stored,
}

/// What decides the generated code of a [`SelectiveScan`](super::SelectiveScan) kernel.
/// [`new`](SelectiveScanConfig::new) chooses it for a problem. `states`, `delta` and `last` say
/// what is computed; the other fields affect only the speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectiveScanConfig {
    /// The target to build for.
    pub target: Target,
    /// The states of each channel: a power of two.
    pub states: u32,
    /// How delta is made from `dt`.
    pub delta: DeltaActivation,
    /// Whether the final states are stored.
    pub last: FinalState,
    /// How sequences are accessed: `Aligned` or `Elements`. `Aligned` needs a length that is a
    /// multiple of 16 bytes; `Elements` lets more threads load if many lanes share a channel.
    pub access: RowAccess,
    /// Adjacent lanes of a warp that share a channel, a power of two. Each has `states / lanes`
    /// states, at most 16. More lanes keep more threads busy if there are few channels, but each
    /// step then takes more shuffles.
    pub lanes: u32,
    /// Channels per thread block. They share the block's copy of B and C. A block has
    /// `channels * lanes` threads.
    pub channels: u32,
    /// The steps that a block has in shared memory at once: a power of two from 8 to 128.
    pub steps: u32,
}

/// Threads that give about two warps to each warp scheduler of a large GPU, such as an H200 with
/// 132 SMs.
const FILLING_THREADS: u64 = 1 << 15;

impl SelectiveScanConfig {
    /// Chooses the configuration for a problem with elements of this type. It has softplus, and
    /// drops the final states.
    ///
    /// As many lanes share a channel as it takes to fill a large GPU.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::kernels::selective_scan::{SelectiveScanConfig, SelectiveScanProblem};
    ///
    /// let problem = SelectiveScanProblem::new(8, 2048, 2048);
    /// let config = SelectiveScanConfig::new(Target::SM_90A, Scalar::Bf16, 16, &problem)?;
    /// assert_eq!(config.to_string(), "sm90a_n16_softplus_32x2_t32");
    /// assert_eq!("sm90a_n16_softplus_32x2_t32".parse(), Ok(config));
    /// // One sequence has few channels, so 8 lanes share each.
    /// let problem = SelectiveScanProblem { batch: 1, ..problem };
    /// let config = SelectiveScanConfig::new(Target::SM_90A, Scalar::Bf16, 16, &problem)?;
    /// assert_eq!(config.lanes, 8);
    /// # Ok::<(), tilewright::kernels::selective_scan::SelectiveScanError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`check`](SelectiveScanConfig::check).
    #[inline]
    pub fn new(
        target: Target,
        element: Scalar,
        states: u32,
        problem: &SelectiveScanProblem,
    ) -> Result<Self, SelectiveScanError> {
        let channels = u64::from(problem.batch) * u64::from(problem.channels);
        let fills = |lanes: &u32| channels.saturating_mul((*lanes).into()) >= FILLING_THREADS;
        // More lanes than 8 lose more by sums across lanes than they win.
        let most = states.min(8).max(states / 8);
        let lanes = [1, 2, 4].into_iter().filter(|lanes| *lanes < most && states / lanes <= 8);
        let lanes = lanes.into_iter().find(fills).unwrap_or(most);
        // B and C of 64 steps and 128 states do not fit in shared memory.
        let steps = if lanes < 8 || states > 64 { 32 } else { 64 };
        // If a vector is more than a thread's share, some threads would load nothing.
        let vector = RowTile::vector_len(element);
        let is_aligned = problem.length.is_multiple_of(vector) && vector <= steps / lanes.max(1);
        let config = SelectiveScanConfig {
            target,
            states,
            delta: DeltaActivation::Softplus,
            last: FinalState::Dropped,
            access: if is_aligned { RowAccess::Aligned } else { RowAccess::Elements },
            lanes,
            channels: (64 / lanes.max(1)).max(16),
            steps,
        };
        config.check()?;
        Ok(config)
    }

    /// Returns the threads per block.
    pub fn threads(&self) -> u32 {
        self.channels.saturating_mul(self.lanes)
    }

    /// Returns the states that a thread has in registers.
    pub(super) fn share(&self) -> u32 {
        self.states / self.lanes
    }

    /// Returns the elements from one channel's steps to the next one's in shared memory: a multiple
    /// of a vector, and different banks for adjacent channels.
    pub(super) fn pitch(&self) -> u32 {
        self.steps + 4
    }

    /// Returns which threads load a sequence's next `steps` elements together: adjacent lanes, with
    /// an equal share for each thread of the block, if that is a vector to 8 elements.
    pub(super) fn tile(&self, element: Scalar) -> RowTile {
        let SelectiveScanConfig { access, lanes, steps, .. } = *self;
        let tile = RowTile { threads: self.threads(), team: 1, cluster: 1, vectors: 1, access };
        let vector = tile.vector(element);
        let share = (steps / lanes).clamp(vector, 8);
        RowTile { team: steps / share, vectors: share / vector, ..tile }
    }

    /// Returns how many rows shared memory has for `rows` sequences. The threads load as many at
    /// once as they can.
    pub(super) fn padded(rows: u32, tile: &RowTile) -> u32 {
        rows.next_multiple_of(tile.rows_per_block())
    }

    /// Returns the shared memory per block in bytes, with elements of the widest type.
    fn shared_bytes(&self) -> u64 {
        let tile = self.tile(Scalar::F16);
        let channels = u64::from(Self::padded(self.channels, &tile) * self.pitch());
        let states = u64::from(Self::padded(self.states, &tile) * self.steps);
        (3 * channels + 2 * states) * 4
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`SelectiveScan::new`](super::SelectiveScan::new) calls it too.
    ///
    /// # Errors
    /// [`SelectiveScanError::Config`] says which rule is broken.
    #[inline]
    pub fn check(&self) -> Result<(), SelectiveScanError> {
        let SelectiveScanConfig { states, access, lanes, channels, steps, .. } = *self;
        let threads = self.threads();
        let rule = if !states.is_power_of_two() || states > 128 {
            "the state count must be a power of two, at most 128"
        } else if access == RowAccess::Ragged {
            "sequences can be accessed as `Aligned` or by `Elements`"
        } else if !lanes.is_power_of_two() || lanes > states.min(32) || states / lanes > 16 {
            "the lanes of a channel must be a power of two, at most 32, and have 1 to 16 states each"
        } else if channels > 1024 || !threads.is_multiple_of(32) || !(32..=1024).contains(&threads)
        {
            "a block must have a multiple of 32 threads from 32 to 1024"
        } else if !steps.is_power_of_two() || !(8..=128).contains(&steps) {
            "a block must have a power of two of steps at once, from 8 to 128"
        } else if self.shared_bytes() > 48 << 10 {
            "a block can have 48 KiB of shared memory: use fewer channels or steps"
        } else {
            return Ok(());
        };
        Err(SelectiveScanError::Config { rule })
    }

    /// Reads a name, which need not be in the printed form.
    #[inline]
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split('_').peekable();
        let target = format!("sm_{}", words.next()?.strip_prefix("sm")?).parse().ok()?;
        let states = words.next()?.strip_prefix('n')?.parse().ok()?;
        let mut has = |word: &str| words.next_if(|next| *next == word).is_some();
        let delta =
            if has("softplus") { DeltaActivation::Softplus } else { DeltaActivation::Identity };
        let last = if has("last") { FinalState::Stored } else { FinalState::Dropped };
        let access = if has("elements") { RowAccess::Elements } else { RowAccess::Aligned };
        let (channels, lanes) = words.next()?.split_once('x')?;
        let (channels, lanes) = (channels.parse().ok()?, lanes.parse().ok()?);
        let steps = words.next()?.strip_prefix('t')?.parse().ok()?;
        Some(SelectiveScanConfig { target, states, delta, last, access, lanes, channels, steps })
    }
}

/// Prints a name such as `sm90a_n16_softplus_32x2_t32`: the target, the states, what is computed,
/// `last` if final states are stored, `elements` if sequences are not aligned, channels per block
/// and lanes per channel, and the steps.
impl fmt::Display for SelectiveScanConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SelectiveScanConfig { target, states, channels, lanes, steps, .. } = *self;
        let suffix = if target.arch_specific() { "a" } else { "" };
        write!(f, "sm{}{suffix}_n{states}", target.sm())?;
        let words = [
            (self.delta == DeltaActivation::Softplus, "_softplus"),
            (self.last == FinalState::Stored, "_last"),
            (self.access == RowAccess::Elements, "_elements"),
        ];
        words.iter().filter(|(has, _)| *has).try_for_each(|(_, word)| f.write_str(word))?;
        write!(f, "_{channels}x{lanes}_t{steps}")
    }
}

impl FromStr for SelectiveScanConfig {
    type Err = SelectiveScanError;

    /// Reads a configuration's name. [`check`](SelectiveScanConfig::check) says whether a kernel
    /// exists for it.
    #[inline]
    fn from_str(text: &str) -> Result<Self, SelectiveScanError> {
        // A name has one form: this refuses leading zeros and plus signs.
        let config = Self::read(text).filter(|config| config.to_string() == text);
        config.ok_or_else(|| SelectiveScanError::Name { text: text.to_owned() })
    }
}
