//! Finds where a cluster that does not end spends its time, for the error message of a launch that
//! ran out of [`Options::fuel`](crate::sim::Options::fuel).

use super::cluster::{Cluster, Stop, Why};

/// How many operations are counted by step after the fuel is used up.
const COUNTED: usize = 2048;

impl Cluster<'_> {
    /// Lets a cluster without fuel continue, operation by operation, until [`COUNTED`] operations
    /// have been counted, then returns the error. Warp `number` has just run from `step` on. The
    /// error's location is the operation at which the fuel was used up.
    pub(super) fn out_of_fuel(&mut self, number: usize, step: u32) -> Result<(), Stop> {
        let Some(Stop { why: Why::OutOfFuel { steps, .. }, .. }) = &mut self.spent else {
            let lane = self.warps[number].first_lane();
            self.spent = Some(self.stop(number, Why::OutOfFuel { lane, steps: Vec::new() }));
            return Ok(());
        };
        steps.push(step);
        match steps.len() < COUNTED {
            true => Ok(()),
            false => self.spent.take().map_or(Ok(()), Err),
        }
    }
}
