//! [`Workload`]: a problem's buffers on a device, and the timing of kernels on them. Use it for
//! timing loops of your own.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use super::engine::{Problem, fill};
use super::rounds::interleave;
use super::search::Rejection;
use super::tunable::Tunable;
use super::tuner::Compared;
use tilewright::kernels::gemm::Regime;
use tilewright::runtime::{Device, Graph, RuntimeError, Stream};

/// A problem's buffers on a device, in so many sets that they do not all fit in the L2 cache.
/// Launches rotate through the sets and are recorded in CUDA graphs for timing. Use one to time
/// kernels on a problem yourself; a [`Tuner`](super::Tuner) makes its own.
///
/// ```
/// use tilewright::runtime::{AnyBuffer, Device, LaunchOptions, Stream};
/// use tilewright_tune::{MemoryTunable, Regime, Tunable, Tuner, Workload};
///
/// let (device, copy) = (Device::sim()?, MemoryTunable::new(40_000, false));
/// let config = copy.space(&device)[0];
/// let function = Tuner::<MemoryTunable>::new(&device).function(&config)?;
/// let launch = |stream: &Stream, data: &mut [AnyBuffer; 2]| {
///     copy.launch(&config, &function, data, LaunchOptions::default().stream(stream))
/// };
/// let mut work = Workload::new(&device, &copy)?;
/// work.check(launch)?;
/// let seconds = work.probe(launch)?;
/// let window = work.window(Regime::Latency, seconds, launch)?;
/// assert!(work.time(&window, Regime::Latency)? > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Workload<'k, K: Tunable> {
    kernel: &'k K,
    pub(super) timer: Timer,
    pub(super) sets: Vec<K::Data>,
}

/// Launches and times on a stream, whatever the kernel is.
pub(super) struct Timer {
    device: Device,
    pub(super) stream: Stream,
    /// When the last window ended, if it was a long one.
    worked_until: Cell<Option<Instant>>,
}

/// Launches a kernel on the set of buffers with an index.
type LaunchOn<'l> = &'l mut dyn FnMut(&Stream, usize) -> Result<(), Rejection>;

/// At most this many sets.
const MOST_SETS: u64 = 128;
/// At most this many launches per graph.
const MOST_LAUNCHES: usize = 400;

/// Launches of one kernel that are timed together, recorded as a CUDA graph. [`Workload::window`]
/// records one and [`Workload::time`] runs it, as often as you like. [`Workload`] has an example.
#[derive(Debug)]
pub struct Window {
    graph: Graph,
    launches: usize,
    repeats: usize,
}

impl<K: Tunable> fmt::Debug for Workload<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Workload({} sets of {} on {})",
            self.sets.len(),
            self.kernel.key(),
            self.timer.device
        )
    }
}

impl From<RuntimeError> for Rejection {
    fn from(error: RuntimeError) -> Rejection {
        match error {
            RuntimeError::Fault(_) | RuntimeError::DeviceLost(_) => {
                Rejection::Lost(error.to_string())
            }
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl<'k, K: Tunable> Workload<'k, K> {
    /// Allocates and fills the buffers for a problem, once before you time any kernel on it.
    ///
    /// # Errors
    /// Returns the error of [`Tunable::data`], for example if memory runs out.
    pub fn new(device: &Device, kernel: &'k K) -> Result<Workload<'k, K>, Rejection> {
        let mut sets = Vec::new();
        let timer = fill(device, &mut Problem { kernel, configs: &[], sets: &mut sets })?;
        Ok(Workload { kernel, timer, sets })
    }

    /// Returns how many sets of buffers there are. It is 1 if one set is larger than twice the L2
    /// cache, and on the simulator.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Checks the whole result of `launch` against the expected one. The outputs are overwritten
    /// with wrong values first. Call it before you time a kernel, so that a wrong one cannot win.
    ///
    /// # Errors
    /// Returns the error of `launch`, or [`Rejection::Wrong`].
    pub fn check(
        &mut self,
        mut launch: impl FnMut(&Stream, &mut K::Data) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        let (set, stream) = (&mut self.sets[0], &self.timer.stream);
        self.kernel.clear(set, stream)?;
        launch(stream, set)?;
        stream.synchronize()?;
        self.kernel.verify(set)
    }

    /// Returns roughly the seconds per launch: the mean of six launches on a warm GPU. Pass it to
    /// [`window`](Workload::window).
    ///
    /// # Errors
    /// Returns the error of `launch` or of the device.
    pub fn probe(
        &mut self,
        mut launch: impl FnMut(&Stream, &mut K::Data) -> Result<(), Rejection>,
    ) -> Result<f64, Rejection> {
        let Workload { timer, sets, .. } = self;
        timer.probe(sets.len(), &mut |stream, set| launch(stream, &mut sets[set]))
    }

    /// Records launches of one kernel as a window for a regime, rotating through the sets, and runs
    /// it once. `seconds` is roughly the time per launch; it determines how many launches fit.
    ///
    /// # Errors
    /// Returns the error of `launch` or of the device.
    pub fn window(
        &mut self,
        regime: Regime,
        seconds: f64,
        mut launch: impl FnMut(&Stream, &mut K::Data) -> Result<(), Rejection>,
    ) -> Result<Window, Rejection> {
        let Workload { timer, sets, .. } = self;
        let count = sets.len();
        timer.window(count, regime, seconds, &mut |stream, set| launch(stream, &mut sets[set]))
    }

    /// Rests or warms up as the regime demands, runs one window, and returns the seconds per
    /// launch. Pass the regime for which the window was recorded.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn time(&self, window: &Window, regime: Regime) -> Result<f64, Rejection> {
        self.timer.time(window, regime)
    }
}

/// Returns how many sets of buffers a kernel that moves `bytes` gets: enough for two L2 caches.
pub(super) fn sets_of(device: &Device, bytes: u64) -> u32 {
    let l2 = device.properties().map_or(1 << 20, |properties| properties.l2_bytes);
    let sets = (2 * l2).div_ceil(bytes.max(1)).clamp(1, MOST_SETS) as u32;
    if device.is_sim() { 1 } else { sets }
}

impl Timer {
    /// Returns a timer with a stream of its own.
    pub(super) fn new(device: &Device) -> Result<Timer, Rejection> {
        let (stream, worked_until) = (device.stream()?, Cell::new(None));
        Ok(Timer { device: device.clone(), stream, worked_until })
    }

    /// See [`Workload::probe`].
    pub(super) fn probe(&self, count: usize, launch: LaunchOn<'_>) -> Result<f64, Rejection> {
        const PROBES: usize = 6;
        for set in 0..count.min(2) {
            launch(&self.stream, set)?;
        }
        let held = self.stream.hold()?;
        let begin = self.stream.record()?;
        for i in 0..PROBES {
            launch(&self.stream, i % count)?;
        }
        let end = self.stream.record()?;
        held.release();
        Ok(begin.elapsed_until(&end)?.as_secs_f64() / PROBES as f64)
    }

    /// See [`Workload::window`].
    pub(super) fn window(
        &self,
        count: usize,
        regime: Regime,
        seconds: f64,
        launch: LaunchOn<'_>,
    ) -> Result<Window, Rejection> {
        let wanted = (regime.window().as_secs_f64() / seconds.max(1e-7)).ceil().max(1.0) as usize;
        // A window uses each set at least once, or as many as fit.
        let wanted = if regime == Regime::Latency { wanted.max(count) } else { wanted };
        let repeats = wanted.div_ceil(MOST_LAUNCHES);
        let launches = wanted.div_ceil(repeats);
        let graph = self.device.graph()?;
        for i in 0..launches {
            launch(graph.stream(), i % count)?;
        }
        let graph = graph.finish()?;
        graph.launch_on(&self.stream)?;
        self.stream.synchronize()?;
        Ok(Window { graph, launches, repeats })
    }

    /// See [`Workload::time`].
    pub(super) fn time(&self, window: &Window, regime: Regime) -> Result<f64, Rejection> {
        self.stream.synchronize()?;
        if regime.rest() > Duration::ZERO {
            std::thread::sleep(regime.rest());
        }
        match regime {
            // Warms up, so that the clock is high and the cache holds what earlier launches left.
            Regime::Latency => window.graph.launch_on(&self.stream)?,
            // Brings the clock to that of a device under sustained load, also before the first
            // window.
            Regime::Steady if self.has_rested() => {
                self.run(window)?;
            }
            Regime::Steady | Regime::Burst => {}
        }
        let elapsed = self.run(window)?;
        self.worked_until.set((regime == Regime::Steady).then(Instant::now));
        Ok(elapsed.as_secs_f64() / (window.launches * window.repeats) as f64)
    }

    /// Times named windows in interleaved rounds.
    pub(super) fn rounds(
        &self,
        windows: Vec<(String, Window)>,
        regime: Regime,
        rounds: usize,
        done: &dyn Fn(),
    ) -> Compared {
        let times = interleave(windows.len(), rounds, 1, |which| {
            let time = self.time(&windows[which].1, regime);
            done();
            time
        });
        let (mut kept, mut rejected) = (Vec::new(), Vec::new());
        for ((name, _), times) in windows.into_iter().zip(times) {
            match times {
                Ok(seconds) => kept.push((name, seconds)),
                Err(why) => rejected.push((name, why)),
            }
        }
        (kept, rejected)
    }

    /// Returns whether the device has been idle for a while, or ran only short windows.
    fn has_rested(&self) -> bool {
        const REST: Duration = Duration::from_millis(20);
        self.worked_until.get().is_none_or(|end| end.elapsed() > REST)
    }

    /// Returns the time of all launches in a window. The launches never wait for the host.
    fn run(&self, window: &Window) -> Result<Duration, Rejection> {
        let held = self.stream.hold()?;
        let begin = self.stream.record()?;
        window.graph.launch_on(&self.stream)?;
        // The other graphs are queued while this one runs, because a stream's queue cannot hold all
        // of them.
        if !held.release() {
            return Err(Rejection::Failed("the device did not wait for its launches".to_owned()));
        }
        for _ in 1..window.repeats {
            window.graph.launch_on(&self.stream)?;
        }
        let end = self.stream.record()?;
        Ok(begin.elapsed_until(&end)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::ir::{GlobalMut, Kernel, Target};
    use tilewright::runtime::{Buffer, Function, Grid, LaunchOptions};

    /// Counts its launches.
    struct Count;

    type Params = (GlobalMut<f32>,);

    impl Tunable for Count {
        type Config = u32;
        type Kernel = Kernel<Params>;
        type Data = Buffer<f32>;

        fn key(&self) -> String {
            "count".to_owned()
        }

        fn space(&self, _: &Device) -> Vec<u32> {
            vec![1]
        }

        fn build(_: &u32, target: Target) -> Result<Kernel<Params>, Rejection> {
            Ok(Kernel::<Params>::build("count", target, |_, (x,)| {
                x.store(0, x.load(0) + 1.0);
            })?)
        }

        fn bytes(&self) -> u64 {
            4
        }

        fn data(&self, device: &Device, _: u32) -> Result<Buffer<f32>, Rejection> {
            Ok(device.zeros(1)?)
        }

        fn clear(&self, data: &mut Buffer<f32>, stream: &Stream) -> Result<(), Rejection> {
            Ok(data.fill(f32::NAN, stream)?)
        }

        fn launch(
            &self,
            _: &u32,
            function: &Function<Params>,
            data: &mut Buffer<f32>,
            options: LaunchOptions<'_>,
        ) -> Result<(), Rejection> {
            Ok(function.launch_with(options, Grid::cover(1, 1), (data,))?)
        }

        fn verify(&self, data: &mut Buffer<f32>) -> Result<(), Rejection> {
            let found = data.to_vec()?;
            if found == [1.0] { Ok(()) } else { Err(Rejection::Wrong(format!("{found:?}"))) }
        }
    }

    #[test]
    fn windows_replay_what_was_recorded() {
        let device = Device::sim().unwrap();
        let mut work = Workload::new(&device, &Count).unwrap();
        let count = device.load(&Count::build(&1, device.target()).unwrap()).unwrap();
        let mut launch = |stream: &Stream, data: &mut Buffer<f32>| {
            Count.launch(&1, &count, data, LaunchOptions::default().stream(stream))
        };
        assert!(work.probe(&mut launch).unwrap() > 0.0);
        let window = work.window(Regime::Latency, 1e-4, &mut launch).unwrap();
        assert_eq!((window.launches, window.repeats), (20, 1));
        let done = |work: &Workload<'_, Count>| work.sets[0].to_vec().unwrap()[0] as usize;
        let before = done(&work);
        assert!(work.time(&window, Regime::Latency).unwrap() > 0.0);
        assert_eq!(done(&work) - before, window.launches * (window.repeats + 1));
        // A rested device runs a warm-up window first.
        let before = done(&work);
        assert!(work.time(&window, Regime::Steady).unwrap() > 0.0);
        assert_eq!(done(&work) - before, 2 * window.launches * window.repeats);
        work.timer.worked_until.set(Some(Instant::now() + Duration::from_secs(3600)));
        let before = done(&work);
        assert!(work.time(&window, Regime::Steady).unwrap() > 0.0);
        assert_eq!(done(&work) - before, window.launches * window.repeats);
    }

    /// The outputs are wrong before a launch, so a launch that does nothing is noticed.
    #[test]
    fn results_are_compared_from_wrong_outputs() {
        let device = Device::sim().unwrap();
        let mut work = Workload::new(&device, &Count).unwrap();
        work.check(|_, data| Ok(data.write(&[1.0])?)).unwrap();
        let error = work.check(|_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "wrong: [NaN]");
        let failed = || Rejection::Failed("no".into());
        assert_eq!(work.check(|_, _| Err(failed())), Err(failed()));
    }
}
