//! Shows the progress of long commands on standard error. Work that ends within a second shows
//! nothing.

use std::fmt::Display;
use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tilewright::runtime::{Device, DeviceChoice, RuntimeError};
use tilewright::sim::{Options as SimOptions, Progress};
use tilewright_tune::BenchProgress;

/// Shorter work shows nothing.
const FIRST: Duration = Duration::from_secs(1);
/// The maximum time between two lines if standard error is not a terminal.
const LONGEST: Duration = Duration::from_secs(60);

/// Shows a command's progress: on a terminal as one changing line, otherwise as a line now and
/// then. Clones are the same meter. A command has one or more tasks, and a task has steps.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Mutex<State>>);

struct State {
    start: Instant,
    /// The current task, for example a benchmark's problem.
    name: String,
    task: usize,
    tasks: usize,
    step: usize,
    steps: usize,
    /// The line on a terminal.
    bar: Option<ProgressBar>,
    lines: Lines,
}

/// Decides when to print the next line if standard error is not a terminal.
struct Lines {
    due: Duration,
}

impl Lines {
    /// Returns whether a line is due. The time between two lines doubles, up to a minute.
    fn is_due(&mut self, elapsed: Duration) -> bool {
        let due = elapsed >= self.due;
        if due {
            self.due = elapsed + elapsed.min(LONGEST);
        }
        due
    }
}

impl Meter {
    /// Starts a meter for the command that starts now. It shows nothing if `TILEWRIGHT_PROGRESS` is
    /// 0.
    pub(crate) fn new() -> Meter {
        let hidden = std::env::var_os("TILEWRIGHT_PROGRESS").is_some_and(|value| value == "0");
        let bar = (!hidden && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{wide_msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::no_length().with_style(style)
        });
        let (name, start) = (String::new(), Instant::now());
        let lines = Lines { due: if hidden { Duration::MAX } else { FIRST } };
        let state = State { start, name, task: 0, tasks: 1, step: 0, steps: 0, bar, lines };
        Meter(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts task `task` of `tasks`, counted from 0. It has no steps yet.
    pub(crate) fn task(&self, name: impl Display, task: usize, tasks: usize) {
        let state = &mut *self.lock();
        (state.name, state.task, state.tasks) = (name.to_string(), task, tasks);
        (state.step, state.steps) = (0, 0);
        state.show("");
    }

    /// Adds steps to the current task.
    pub(crate) fn add_steps(&self, steps: usize) {
        self.lock().steps += steps;
    }

    /// Counts a finished step.
    pub(crate) fn step(&self) {
        let state = &mut *self.lock();
        state.step += 1;
        state.show("");
    }

    /// Shows a benchmark's progress.
    pub(crate) fn bench(&self, progress: &BenchProgress<'_>) {
        let BenchProgress { problem, index, problems, step, steps, .. } = *progress;
        let state = &mut *self.lock();
        state.name.clear();
        state.name.push_str(problem);
        (state.task, state.tasks, state.step, state.steps) = (index, problems, step, steps);
        state.show("");
    }

    /// Shows the progress of a simulator launch within the current step, or of the whole command if
    /// it has neither tasks nor steps.
    fn launch(&self, progress: &Progress) {
        let state = &mut *self.lock();
        if state.tasks > 1 || state.steps > 0 {
            let Progress { clusters_done, clusters, .. } = progress;
            return state.show(&format!(", block {clusters_done} of {clusters}"));
        }
        let elapsed = state.start.elapsed();
        if elapsed >= FIRST {
            state.put(elapsed, &of_launch(progress));
        }
    }

    /// Returns simulator options that report the progress of long launches to this meter.
    pub(crate) fn simulator(&self) -> SimOptions {
        let meter = self.clone();
        SimOptions::default().on_progress(move |progress| meter.launch(progress))
    }

    /// Opens a device. If it is the simulator, it reports the progress of long launches to this
    /// meter.
    pub(crate) fn open(&self, choice: DeviceChoice) -> Result<Device, RuntimeError> {
        let device = Device::open(choice)?;
        Ok(match device.is_sim() {
            true => Device::sim_with(self.simulator().target(device.target())),
            false => device,
        })
    }

    /// Starts a phase with this many steps and a clock of its own, because the time of the earlier
    /// phase says nothing about it.
    pub(crate) fn phase(&self, name: impl Display, steps: usize) {
        let state = &mut *self.lock();
        state.start = Instant::now();
        if state.lines.due != Duration::MAX {
            state.lines.due = FIRST;
        }
        (state.name, state.task, state.tasks) = (name.to_string(), 0, 1);
        (state.step, state.steps) = (0, steps);
    }

    /// Removes the line from the terminal before other text is printed.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.lock().bar {
            bar.finish_and_clear();
            bar.reset();
        }
    }
}

impl State {
    /// Shows the command's progress.
    fn show(&mut self, detail: &str) {
        let elapsed = self.start.elapsed();
        if elapsed < FIRST {
            return;
        }
        let step = self.step.min(self.steps) as f64 / self.steps.max(1) as f64;
        let done = (self.task as f64 + step) / self.tasks.max(1) as f64;
        let mut name = self.name.clone();
        if self.tasks > 1 {
            name += &format!(" ({} of {})", self.task + 1, self.tasks);
        }
        self.put(elapsed, &line(&format!("{name}{detail}"), done, elapsed));
    }

    fn put(&mut self, elapsed: Duration, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None if self.lines.is_due(elapsed) => eprintln!("{text}"),
            None => {}
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns the line for a simulator launch.
fn of_launch(progress: &Progress) -> String {
    let Progress { kernel, schedule, schedules, clusters_done, clusters, .. } = progress;
    let mut name = kernel.clone();
    if *schedules > 1 {
        name += &format!(", schedule {schedule} of {schedules}");
    }
    if *clusters > 1 {
        name += &format!(", block {clusters_done} of {clusters}");
    }
    line(&name, progress.fraction(), progress.elapsed)
}

/// Returns a line with what is done, how long it took, and roughly how long the rest takes.
fn line(name: &str, done: f64, elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() * (1.0 - done) / done;
    let left = match Duration::try_from_secs_f64(left) {
        Ok(left) => format!(", about {} left", time(left)),
        Err(_) => String::new(),
    };
    format!("{name}: {:.0} % after {}{left}", (100.0 * done).floor(), time(elapsed))
}

/// Formats a time in its two largest units.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (minutes, hours, days) {
        (0, ..) => format!("{seconds} s"),
        (_, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (_, _, 0) => format!("{hours} h {} min", minutes % 60),
        (.., 1..1000) => format!("{days} d {} h", hours % 24),
        _ => format!("{:.0} years", (days as f64 / 365.25).max(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_left() {
        let line = |done, seconds| line("softmax", done, Duration::from_secs(seconds));
        assert_eq!(line(0.25, 30), "softmax: 25 % after 30 s, about 1 min 30 s left");
        assert_eq!(line(0.0, 2), "softmax: 0 % after 2 s");
        assert_eq!(line(1.0, 7200), "softmax: 100 % after 2 h 0 min, about 0 s left");
        assert_eq!(line(1e-9, 10), "softmax: 0 % after 10 s, about 317 years left");
    }

    /// Without a terminal, a run of an hour prints only few lines, the first one after a second.
    #[test]
    fn lines_get_rare() {
        let mut lines = Lines { due: FIRST };
        let due = (0..36_000).map(|tenths| Duration::from_millis(100 * tenths));
        let shown: Vec<Duration> = due.filter(|elapsed| lines.is_due(*elapsed)).collect();
        assert_eq!(shown[..4], [1, 2, 4, 8].map(Duration::from_secs));
        assert!(shown.len() < 70);
        assert!(shown.windows(2).all(|pair| pair[1] - pair[0] <= LONGEST));
    }
}
