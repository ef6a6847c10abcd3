//! Finds missing proxy fences: reads of shared memory by the asynchronous proxy that may not see
//! what a thread has stored.
//!
//! Threads write shared memory through the generic proxy. Bulk stores and `wgmma` read it through
//! the asynchronous proxy, which may still see the old bytes. So PTX requires a `fence.proxy.async`
//! between the stores and such a read, either in the warp that stored, or in a warp that first
//! synchronised with the storing warp.
//!
//! This module finds the missing fence even without race detection. It records for each byte when
//! and by which warp the byte was last stored, and for each warp when it last executed a proxy
//! fence. A byte is visible if the warp that stored it executed a fence later, or if any warp
//! executed a fence after a synchronisation that followed the store. The module does not track
//! which warps synchronised with which: each barrier or acquire counts for all warps of the
//! cluster. This never reports a false fault, but it can accept a fence that is too early. With
//! [`Options::race`](crate::sim::Options::race), the race detector checks the same rule exactly
//! (`race/`, "Facts").
//!
//! `cp.async` is left out, because hardware shows it such stores without a fence. Global memory is
//! left out too. Only kernels that read shared memory through the asynchronous proxy pay for the
//! bookkeeping.

use super::shared::Shared;
use crate::ir::KernelIr;
use crate::ir::op::{AsyncCopy, Mma, Op};
use crate::sim::fault::raw::Origin;
use crate::sim::fault::raw_fault::RawCause;

/// How many bytes share one mark.
const CHUNK: usize = 16;
/// The most warps that a block can have.
const WARPS: u32 = 32;

/// When each byte of a block's shared memory was last stored, and by whom. Empty if the kernel does
/// not need it.
#[derive(Debug, Default)]
pub(in crate::sim) struct Stores {
    /// When the byte was last stored; 0 for never.
    when: Vec<u32>,
    /// The warp that stored it, by its index in the cluster.
    by: Vec<u16>,
    /// For each chunk, whether any byte was stored.
    any: Vec<bool>,
}

impl Stores {
    pub(in crate::sim) fn new(len_bytes: usize) -> Stores {
        let any = vec![false; len_bytes.div_ceil(CHUNK)];
        Stores { when: vec![0; len_bytes], by: vec![0; len_bytes], any }
    }

    /// Forgets everything.
    pub(in crate::sim) fn reset(&mut self) {
        self.any.fill(false);
        self.when.fill(0);
    }

    /// Called when something other than a thread's store has written these bytes, so that they need
    /// no fence.
    pub(in crate::sim) fn forget(&mut self, at: usize, bytes: usize) {
        if let Some(when) = self.when.get_mut(at..at + bytes) {
            when.fill(0);
        }
    }

    pub(in crate::sim) fn note(&mut self, at: usize, bytes: usize, now: u32, warp: u16) {
        let end = (at + bytes).min(self.when.len());
        for byte in at..end {
            self.when[byte] = now;
            self.by[byte] = warp;
            self.any[byte / CHUNK] = true;
        }
    }
}

/// A block's shared memory as the asynchronous proxy reads it.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct ProxyView<'m> {
    pub(in crate::sim) shared: &'m Shared,
    /// Set if missing proxy fences are faults.
    pub(in crate::sim) proxies: Option<&'m Proxies>,
}

/// The clock of a cluster for this check: when warps stored, fenced and synchronised.
#[derive(Debug)]
pub(in crate::sim) struct Proxies {
    pub(in crate::sim) now: u32,
    /// When a warp last synchronised with others.
    learned: u32,
    /// All stores before this time are visible.
    fenced: u32,
    /// For each warp of the cluster, when it last fenced.
    fences: Vec<u32>,
}

/// Returns a warp's index in its cluster.
pub(in crate::sim) fn number(block: u32, warp: u32) -> u16 {
    (block * WARPS + warp) as u16
}

impl Proxies {
    pub(in crate::sim) fn new(blocks: usize) -> Proxies {
        Proxies { now: 1, learned: 0, fenced: 0, fences: vec![0; blocks * WARPS as usize] }
    }

    pub(in crate::sim) fn reset(&mut self) {
        (self.now, self.learned, self.fenced) = (1, 0, 0);
        self.fences.fill(0);
    }

    /// Called when a warp has synchronised with others.
    pub(in crate::sim) fn learn(&mut self) {
        self.now += 1;
        self.learned = self.now;
    }

    /// Called when a warp has executed a proxy fence.
    pub(in crate::sim) fn fence(&mut self, origin: Origin) {
        self.now += 1;
        self.fenced = self.learned;
        if let Some(fence) = self.fences.get_mut(usize::from(number(origin.block, origin.warp))) {
            *fence = self.now;
        }
    }

    /// Returns whether the asynchronous proxy sees a store.
    fn is_seen(&self, when: u32, by: u16) -> bool {
        let own = self.fences.get(usize::from(by)).copied().unwrap_or(0);
        when == 0 || when < self.fenced || when < own
    }

    /// Returns a fault if the asynchronous proxy may not see all of these bytes.
    #[inline]
    pub(in crate::sim) fn check(
        &self,
        stores: &Stores,
        at: usize,
        bytes: usize,
    ) -> Result<(), RawCause> {
        let Stores { when, by, any } = stores;
        let chunks = any.get(at / CHUNK..(at + bytes).div_ceil(CHUNK)).unwrap_or_default();
        if !chunks.contains(&true) {
            return Ok(());
        }
        match (at..at + bytes).find(|byte| !self.is_seen(when[*byte], by[*byte])) {
            None => Ok(()),
            Some(byte) => {
                let (by, address) = (u32::from(by[byte]), byte as u64);
                Err(RawCause::UnfencedStore { address, block: by / WARPS, warp: by % WARPS })
            }
        }
    }
}

/// Returns whether a kernel reads shared memory through the asynchronous proxy.
pub(in crate::sim) fn is_used(ir: &KernelIr) -> bool {
    ir.ops.iter().any(|(_, data)| {
        matches!(
            data.op,
            Op::Mma(
                Mma::Wgmma { .. }
                    | Mma::WgmmaRs { .. }
                    | Mma::WgmmaSp { .. }
                    | Mma::WgmmaRsSp { .. }
            ) | Op::AsyncCopy(
                AsyncCopy::CpAsyncBulkStore { .. }
                    | AsyncCopy::CpAsyncBulkTensorStore { .. }
                    | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            )
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Origin = Origin { block: 0, warp: 0, step: 0 };
    const B: Origin = Origin { block: 1, warp: 2, step: 0 };

    /// Warps A and B store to bytes 0 and 20, then `then` happens. Returns whether each store is
    /// visible.
    fn seen(then: impl FnOnce(&mut Proxies)) -> [bool; 2] {
        let (mut proxies, mut shared) = (Proxies::new(2), Shared::new(32, &[], true));
        for (at, origin) in [(0, A), (20, B)] {
            let by = number(origin.block, origin.warp);
            shared.stores.note(at, 1, proxies.now, by);
        }
        then(&mut proxies);
        [0, 20].map(|at| proxies.check(&shared.stores, at, 1).is_ok())
    }

    #[test]
    fn a_fence_is_for_the_stores_of_its_warp_and_those_it_learned_of() {
        assert_eq!(seen(|_| ()), [false, false]);
        assert_eq!(seen(Proxies::learn), [false, false]);
        assert_eq!(seen(|p| p.fence(A)), [true, false]);
        assert_eq!(seen(|p| p.fence(B)), [false, true]);
        let learn_then = |origin| {
            move |p: &mut Proxies| {
                p.learn();
                p.fence(origin);
            }
        };
        assert_eq!(seen(learn_then(A)), [true, true]);
        assert_eq!(seen(learn_then(B)), [true, true]);
        assert_eq!(
            seen(|p| {
                p.fence(A);
                p.learn();
            }),
            [true, false]
        );
    }

    #[test]
    fn other_writes_take_the_place_of_stores() {
        let (proxies, mut shared) = (Proxies::new(1), Shared::new(32, &[], true));
        shared.stores.note(4, 8, proxies.now, 3);
        let cause = proxies.check(&shared.stores, 0, 32);
        assert!(matches!(cause, Err(RawCause::UnfencedStore { address: 4, block: 0, warp: 3 })));
        assert!(
            proxies.check(&shared.stores, 12, 20).is_ok()
                && proxies.check(&shared.stores, 0, 4).is_ok()
        );
        shared.write_bytes(4, &[0; 6]);
        let cause = proxies.check(&shared.stores, 0, 32);
        assert!(matches!(cause, Err(RawCause::UnfencedStore { address: 10, .. })));
        shared.reset();
        assert!(proxies.check(&shared.stores, 0, 32).is_ok());
    }
}
