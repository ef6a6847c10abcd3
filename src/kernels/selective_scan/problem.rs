//! [`SelectiveScanProblem`]: the sizes of a selective scan. You pass it at launch, so one kernel
//! serves all batch sizes, channel counts and lengths.

use std::fmt;

use super::error::SelectiveScanError;

/// The sizes of a selective scan. All tensors are compact, with the time as their last mode.
///
/// ```
/// use tilewright::kernels::selective_scan::SelectiveScanProblem;
///
/// let problem = SelectiveScanProblem::new(8, 2048, 1000);
/// assert_eq!(problem.to_string(), "8x2048x1000");
/// assert!(problem.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectiveScanProblem {
    /// Sequences.
    pub batch: u32,
    /// Channels of each sequence.
    pub channels: u32,
    /// Steps of each sequence.
    pub length: u32,
}

/// Prints `8x2048x1000`: the batch, the channels, the length.
impl fmt::Display for SelectiveScanProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.batch, self.channels, self.length)
    }
}

impl SelectiveScanProblem {
    /// Returns the problem for `batch` sequences of `length` steps with `channels` channels each.
    pub const fn new(batch: u32, channels: u32, length: u32) -> SelectiveScanProblem {
        SelectiveScanProblem { batch, channels, length }
    }

    /// Returns the channels of all sequences.
    pub(super) fn rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.channels)
    }

    /// Checks the sizes. Every launch calls it; call it to refuse a problem earlier.
    ///
    /// # Errors
    /// [`SelectiveScanError::TooLarge`].
    #[inline]
    pub fn check(&self) -> Result<(), SelectiveScanError> {
        let limits = [
            ("the channel count", self.channels.into(), 1 << 30),
            ("the length", self.length.into(), 1 << 30),
            ("the batch", self.batch.into(), 65_535),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(SelectiveScanError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}
