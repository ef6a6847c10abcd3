//! The warp scheduler: picks the warp of a cluster that runs next, in turn or at random, as
//! [`Order`](crate::sim::Order) says.

use crate::sim::options::Order;

/// How many operations a warp may run in one turn.
pub(in crate::sim) const QUANTUM: u64 = 4096;
/// How many operations a warp may run in one turn of a cooperative launch. It is lower than
/// [`QUANTUM`], because a block that polls global memory wastes its turn.
pub(in crate::sim) const COOPERATIVE_QUANTUM: u64 = 256;
/// The most operations that a warp may run in one turn with the random order.
const RANDOM_QUANTUM: u64 = 32;

/// The order in which a cluster's warps run.
pub(in crate::sim) struct WarpScheduler {
    order: Order,
    /// How many operations a warp may run in one turn.
    quantum: u64,
    last: usize,
    state: u64,
}

impl WarpScheduler {
    /// Makes the scheduler of the cluster whose first block is at this position.
    pub(in crate::sim) fn new(order: Order, quantum: u64, [x, y, z]: [u32; 3]) -> WarpScheduler {
        let seed = match order {
            Order::RoundRobin | Order::Reverse | Order::Eager | Order::Fine | Order::Paced => 0,
            Order::Random { seed } => seed,
        };
        // Every cluster has its own random sequence.
        let mut scheduler = WarpScheduler { order, quantum, last: usize::MAX, state: seed };
        for word in [x, y, z] {
            scheduler.state = scheduler.random() ^ u64::from(word);
        }
        scheduler
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(in crate::sim) fn order(&self) -> Order {
        self.order
    }

    /// Chooses one in `odds` at random. With the eager order, chooses always.
    pub(in crate::sim) fn is_chosen(&mut self, odds: u64) -> bool {
        self.order == Order::Eager || self.choice().is_some_and(|random| random % odds == 0)
    }

    /// Returns a random number if the order is random.
    pub(in crate::sim) fn choice(&mut self) -> Option<u64> {
        match self.order {
            Order::RoundRobin | Order::Reverse | Order::Eager | Order::Fine | Order::Paced => None,
            Order::Random { .. } => Some(self.random()),
        }
    }

    /// Returns the next ready one of `count` warps, and how many operations it may execute.
    pub(in crate::sim) fn next(
        &mut self,
        count: usize,
        ready: impl Fn(&usize) -> bool,
    ) -> Option<(usize, u64)> {
        match self.order {
            Order::RoundRobin | Order::Eager | Order::Fine | Order::Paced => {
                let from = self.last.wrapping_add(1);
                let warp = (from..count).chain(0..from.min(count)).find(ready)?;
                self.last = warp;
                let quantum =
                    if matches!(self.order, Order::Fine | Order::Paced) { 1 } else { self.quantum };
                Some((warp, quantum))
            }
            Order::Reverse => {
                let from = self.last.min(count);
                let warp = (0..from).rev().chain((from..count).rev()).find(ready)?;
                self.last = warp;
                Some((warp, self.quantum))
            }
            Order::Random { .. } => {
                let all = (0..count).filter(&ready).count();
                if all == 0 {
                    return None;
                }
                let chosen = self.random() % all as u64;
                let warp = (0..count).filter(&ready).nth(chosen as usize)?;
                Some((warp, 1 + self.random() % RANDOM_QUANTUM))
            }
        }
    }
}
