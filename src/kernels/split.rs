//! [`SplitWorkspace`]: memory in which blocks that split one result exchange their parts.

use std::sync::{Mutex, PoisonError};

use crate::ir::Element;
use crate::runtime::{Buffer, Function, Occupancy, RuntimeError};

/// What launches of a kernel share if several blocks can split one result: how many blocks the
/// device runs at once, partial results, and arrival counters. Because of them, launches of one
/// loaded kernel run one after the other, even on different streams.
#[derive(Debug)]
pub struct SplitWorkspace<P: Element> {
    occupancy: Occupancy,
    buffers: Mutex<SplitBuffers<P>>,
}

/// The buffers of a [`SplitWorkspace`].
#[derive(Debug)]
pub(super) struct SplitBuffers<P: Element> {
    /// Partial results, as many as the largest launch has needed.
    pub(super) partials: Buffer<P>,
    /// Arrival counters, which are 0 between launches.
    pub(super) arrivals: Buffer<u32>,
    /// A buffer with one element, to pass for an output that the caller does not want.
    pub(super) unwanted: Buffer<P>,
    /// The same for an input that the caller does not have.
    pub(super) absent: Buffer<P>,
}

impl<P: Element> SplitWorkspace<P> {
    /// Returns a workspace for blocks of `threads` threads. The simulator counts as a GPU that runs
    /// `simulated` blocks at once: few, so that it splits small problems too.
    #[inline]
    pub(super) fn new<S>(
        function: &Function<S>,
        threads: u32,
        simulated: Occupancy,
    ) -> Result<SplitWorkspace<P>, RuntimeError> {
        let (device, occupancy) = (function.device(), function.occupancy(threads)?);
        let buffers = SplitBuffers {
            partials: device.zeros(1)?,
            arrivals: device.zeros(1)?,
            unwanted: device.zeros(1)?,
            absent: device.zeros(1)?,
        };
        Ok(SplitWorkspace {
            occupancy: occupancy.unwrap_or(simulated),
            buffers: Mutex::new(buffers),
        })
    }

    /// Returns how many blocks run at once.
    pub(super) fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Calls `start` with at least `partials` partial results and `arrivals` counters.
    #[inline]
    pub(super) fn with(
        &self,
        partials: u64,
        arrivals: u64,
        start: impl FnOnce(&mut SplitBuffers<P>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if (buffers.partials.len() as u64) < partials {
            buffers.partials = buffers.partials.device().zeros(partials as usize)?;
        }
        if (buffers.arrivals.len() as u64) < arrivals {
            buffers.arrivals = buffers.arrivals.device().zeros(arrivals as usize)?;
        }
        let started = start(&mut buffers);
        if started.is_err() && buffers.arrivals.device().is_sim() {
            // The blocks that the simulator stopped have not arrived.
            buffers.arrivals = buffers.arrivals.device().zeros(buffers.arrivals.len())?;
        }
        started
    }
}
