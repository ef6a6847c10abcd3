//! Defines [`Timing`] for a launch and [`LoadTimes`] for a load: what you get back when you ask how
//! long they took.

use std::time::Duration;

/// How long one launch or graph took, from [`Function::time`](super::Function::time) or
/// [`Graph::time`](super::Graph::time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// On a GPU, the time between two events around the launch, which the GPU measures. On the
    /// simulator, wall-clock time.
    pub elapsed: Duration,
    /// How many operations the simulator ran, counted once for every thread that ran them; `None`
    /// on a GPU.
    pub thread_ops: Option<u64>,
}

impl Timing {
    /// Returns `amount / elapsed`, a rate per second. Pass a launch's floating-point operations to
    /// get FLOP/s, or the bytes that it moves to get B/s.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// # use tilewright::ir::{GlobalMut, Kernel};
    /// # use tilewright::runtime::{Device, Grid};
    /// # let device = Device::sim()?;
    /// # let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", device.target(), |k, (x,)| {
    /// #     x.store(k.thread_idx().x, 7)
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

/// How long it took to load a kernel or a module: the time to compile it and the time to load the
/// code into the driver. Get it from [`Function::load_times`](super::Function::load_times) to see
/// whether the module cache saves compilations.
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
    /// Compilation from PTX to code, by the driver or by `ptxas`. Zero if the code came from a
    /// cache. If the driver compiles and loads in one call, this is the time of the whole call.
    pub compile: Duration,
    /// Loading compiled code into the driver.
    pub load: Duration,
}
