//! Defines [`Timing`] of a launch and [`LoadTimes`] of a load.

use std::time::Duration;

/// The time of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// On a GPU the time between two events around the launch, measured by the GPU; on the simulator the
    /// time on the wall.
    pub elapsed: Duration,
    /// Operations that the simulator executed, each counted once for every thread that executed it; `None`
    /// on a GPU.
    pub thread_ops: Option<u64>,
}

impl Timing {
    /// Returns the rate `amount / elapsed` per second. With the floating point operations of a launch
    /// this is FLOP/s, with the bytes that it moves B/s.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// # use tilewright::ir::{GlobalMut, Kernel};
    /// # use tilewright::runtime::{Device, Grid};
    /// # let device = Device::sim()?;
    /// # let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", device.target(), |k, (x,)| {
    /// #     x.store(k, k.thread_idx().x, 7)
    /// # })?;
    /// # let mut x = device.zeros(32)?;
    /// let timing = device.load(&kernel)?.time(Grid::cover(32, 32), (&mut x,))?;
    /// let stores_per_second = timing.rate(32.0);
    /// assert!(stores_per_second > 0.0);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rate(&self, amount: f64) -> f64 {
        amount / self.elapsed.as_secs_f64()
    }
}

/// The times that loading a kernel, or its module, took the compiler and the driver.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// # use tilewright::ir::{Kernel, Target};
/// use tilewright::runtime::{Device, LoadTimes};
/// # let kernel = Kernel::<()>::build("k", Target::SM_80, |_, ()| ())?;
/// // The simulator has neither a compiler nor a driver.
/// let function = Device::sim()?.load(&kernel)?;
/// assert_eq!(function.load_times(), LoadTimes::default());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadTimes {
    /// The compiler, from PTX to code: the driver's, or `ptxas`. It is zero where the code was in a cache. Where the
    /// driver compiles and loads in one call, it is all of that call.
    pub compile: Duration,
    /// The driver, loading code that there was.
    pub load: Duration,
}
