//! [`LaunchMode`]: whether to launch the kernels or to time them. A GEMM can be several kernels
//! (repacking, tensor maps, the GEMM itself), and all of them go through here.

use std::time::Duration;

use crate::runtime::{ArgList, Declared, Function, Grid, LaunchOptions, Timing};

use crate::kernels::gemm::config::error::GemmError;

/// Whether to launch kernels or to time them.
pub(crate) enum LaunchMode<'o> {
    /// Launch, with these options.
    Launch(LaunchOptions<'o>),
    /// Run and time each kernel, and add up the times.
    Time(Timing),
}

impl LaunchMode<'_> {
    /// Runs kernels and returns the sum of their times.
    pub(crate) fn timed(
        run: impl FnOnce(&mut LaunchMode<'_>) -> Result<(), GemmError>,
    ) -> Result<Timing, GemmError> {
        let none = Timing { elapsed: Duration::ZERO, thread_ops: None };
        let mut mode = LaunchMode::Time(none);
        run(&mut mode)?;
        Ok(match mode {
            LaunchMode::Time(all) => all,
            LaunchMode::Launch(_) => none,
        })
    }

    /// Same as [`run`](LaunchMode::run), for a kernel that must not overlap with the previous
    /// launch.
    #[inline]
    pub(crate) fn run_in_turn(
        &mut self,
        function: &Function<Declared>,
        grid: Grid,
        args: ArgList<'_>,
    ) -> Result<(), GemmError> {
        match self {
            LaunchMode::Launch(options) => {
                LaunchMode::Launch(options.programmatic(false)).run(function, grid, args)
            }
            LaunchMode::Time(_) => self.run(function, grid, args),
        }
    }

    #[inline]
    pub(crate) fn run(
        &mut self,
        function: &Function<Declared>,
        grid: Grid,
        args: ArgList<'_>,
    ) -> Result<(), GemmError> {
        match self {
            LaunchMode::Launch(options) => function.launch_with(*options, grid, args)?,
            LaunchMode::Time(all) => {
                let one = function.time(grid, args)?;
                all.elapsed += one.elapsed;
                let ops = one.thread_ops.zip(Some(all.thread_ops.unwrap_or(0)));
                all.thread_ops = ops.map(|(one, all)| one + all);
            }
        }
        Ok(())
    }
}
