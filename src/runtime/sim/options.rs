//! How a kernel is simulated, and what came of it.

use super::output::Output;

/// The order in which the warps of a block, or of a cluster, run, and when asynchronous operations take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// One after the other, each for some thousand operations or to its next barrier. An asynchronous
    /// operation takes effect as late as can be: when a thread waits for it, or no warp can go on without it.
    #[default]
    RoundRobin,
    /// A random warp for a random number of operations, again and again, and asynchronous operations at random
    /// times between. The same seed gives the same order.
    Random {
        /// The seed.
        seed: u64,
    },
}

/// How a kernel is simulated.
///
/// ```
/// use tilewright::runtime::sim::{Options, Order};
/// let options = Options::default().order(Order::Random { seed: 7 }).threads(1).fuel(1_000_000);
/// assert_eq!(options.fuel, 1_000_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The order in which warps run and asynchronous operations take effect.
    pub order: Order,
    /// Operations that the warps of one block may execute, all together, those of a cluster as many times its
    /// blocks; one operation of a warp counts once, however many of its threads take part. A warp that waits
    /// uses none. It is checked from time to time, so some thousand more
    /// may be executed.
    pub fuel: u64,
    /// Blocks or clusters that run at the same time, each on a thread of rayon's pool; 0 stands for as many as the pool
    /// has threads.
    pub threads: usize,
    /// Where `printf` prints to.
    pub output: Output,
}

/// Round robin, 2^32 operations a block (minutes), all threads, standard output.
impl Default for Options {
    fn default() -> Options {
        Options { order: Order::RoundRobin, fuel: 1 << 32, threads: 0, output: Output::stdout() }
    }
}

impl Options {
    /// Sets [`Options::order`].
    pub fn order(self, order: Order) -> Options {
        Options { order, ..self }
    }

    /// Sets [`Options::fuel`].
    pub fn fuel(self, fuel: u64) -> Options {
        Options { fuel, ..self }
    }

    /// Sets [`Options::threads`].
    pub fn threads(self, threads: usize) -> Options {
        Options { threads, ..self }
    }

    /// Sets [`Options::output`].
    pub fn output(self, output: Output) -> Options {
        Options { output, ..self }
    }
}

/// What a simulation executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Operations of the IR, counted for each thread that executed them.
    pub thread_ops: u64,
    /// Operations of the IR, counted for each warp that executed them.
    pub warp_ops: u64,
}
