//! [`Search`]: finds the fastest of several candidates by measuring them. For kernels,
//! [`Tuner`](super::Tuner) runs one for you; use it directly to tune something else.

use std::fmt;

use super::rounds::interleave;
use super::stats::median;
use super::store::{Best, Known, Outcome, TuningKey, TuningStore, hash};

/// Why a candidate cannot win a [`Search`]: it does not run, its result is wrong, or the device is
/// lost. [`Measure`]'s methods return it.
///
/// ```
/// use tilewright_tune::Rejection;
/// let why = Rejection::Failed("too many registers".to_owned());
/// assert_eq!(why.to_string(), "failed: too many registers");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// It could not be built, loaded or run, and why.
    Failed(String),
    /// Its result is wrong, and how.
    Wrong(String),
    /// The device cannot be used any more, and why.
    Lost(String),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Failed(why) => write!(f, "failed: {why}"),
            Rejection::Wrong(how) => write!(f, "wrong: {how}"),
            Rejection::Lost(how) => write!(f, "lost the device: {how}"),
        }
    }
}

impl std::error::Error for Rejection {}

impl Rejection {
    /// Returns [`Rejection::Wrong`] with the text `how` if the result is wrong.
    ///
    /// ```
    /// use tilewright_tune::Rejection;
    /// assert_eq!(Rejection::unless(1 + 1 == 2, "no sum"), Ok(()));
    /// assert_eq!(Rejection::unless(1 + 1 == 3, "no sum"), Err(Rejection::Wrong("no sum".to_owned())));
    /// ```
    ///
    /// # Errors
    /// [`Rejection::Wrong`].
    pub fn unless(is_right: bool, how: impl Into<String>) -> Result<(), Rejection> {
        if is_right { Ok(()) } else { Err(Rejection::Wrong(how.into())) }
    }
}

/// How a [`Search`] measures its candidates. Implement it to tune something other than a kernel;
/// for kernels, a [`Tunable`](super::Tunable) is less work. A search calls these methods in this
/// order, and stops at a candidate's first rejection. [`Search`] has an example.
pub trait Measure<C> {
    /// Returns a text that changes whenever the candidate's code does, such as a hash of its PTX.
    ///
    /// # Errors
    /// Returns why there is no code.
    fn code(&mut self, candidate: &C) -> Result<String, Rejection>;

    /// Runs the candidate and compares its whole result with a correct one.
    ///
    /// # Errors
    /// Returns how they differ.
    fn check(&mut self, candidate: &C) -> Result<(), Rejection>;

    /// Returns the seconds per launch, from one measurement window: a series of launches that are
    /// timed together.
    ///
    /// # Errors
    /// Returns why it did not run.
    fn time(&mut self, candidate: &C) -> Result<f64, Rejection>;

    /// Times as [`Measure::time`] does, from a window that may be shorter. It decides which
    /// candidates reach the final.
    ///
    /// # Errors
    /// Returns why it did not run.
    fn time_quickly(&mut self, candidate: &C) -> Result<f64, Rejection> {
        self.time(candidate)
    }
}

/// How much a search measures. Raise it to find faster kernels, or lower it to search in less time.
///
/// ```
/// use tilewright_tune::Effort;
/// let quick = Effort { candidates: 8, ..Effort::default() };
/// assert_eq!((quick.rounds, quick.finalists, quick.final_rounds), (3, 4, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How many candidates to measure, counted from the first. Default: 24.
    pub candidates: usize,
    /// Windows per candidate. A candidate that needs more than 1.5 times the best time so far gets
    /// only one. More windows distinguish candidates that are close. Default: 3.
    pub rounds: usize,
    /// How many of the fastest candidates to measure again, interleaved, so that the final compares
    /// them at the same clock. Default: 4.
    pub finalists: usize,
    /// Windows per finalist. Default: 8.
    pub final_rounds: usize,
}

/// 24 candidates with 3 windows each, then the 4 fastest in 8 rounds.
impl Default for Effort {
    fn default() -> Effort {
        Effort { candidates: 24, rounds: 3, finalists: 4, final_rounds: 8 }
    }
}

/// The result of a search: the fastest candidate, its time, and how it was found. [`Search::run`]
/// and [`Tuner::tune`](super::Tuner::tune) return it.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, MemoryTunable, Regime, Tuner, TuningStore};
///
/// let (copy, store) = (MemoryTunable::new(40_000, false), TuningStore::none());
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&copy, &store, effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.times.len()), (2, 2));
/// assert!(!tuned.is_from_store && tuned.rejected.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned<C> {
    /// The fastest candidate that gives the right result.
    pub config: C,
    /// Its median time, in seconds.
    pub seconds: f64,
    /// True if a finished search was in the store, with the same candidates and the winner's code
    /// unchanged, so that nothing was measured.
    pub is_from_store: bool,
    /// How many candidates were measured in this search. 0 if all came from the store.
    pub measured: usize,
    /// How many candidates' results came from the store, which an interrupted search left there.
    pub reused: usize,
    /// The median time of each candidate that is right, fastest first, without the final rounds.
    /// Empty if the answer came from the store.
    pub times: Vec<(C, f64)>,
    /// The candidates that cannot win, each with the reason, in the order in which they were
    /// rejected.
    pub rejected: Vec<(C, Rejection)>,
    /// The first error while storing results, if there was one. The search continues without it,
    /// but a later search may measure again.
    pub store_error: Option<String>,
}

impl Tuned<usize> {
    /// Returns the result with candidates instead of their indices.
    pub(super) fn of<C: Clone>(self, candidates: &[C]) -> Tuned<C> {
        let Tuned { seconds, is_from_store, measured, reused, store_error, .. } = self;
        let candidate = |index: usize| candidates[index].clone();
        let times = self.times.into_iter().map(|(index, time)| (candidate(index), time));
        let rejected = self.rejected.into_iter().map(|(index, why)| (candidate(index), why));
        Tuned {
            config: candidate(self.config),
            seconds,
            is_from_store,
            measured,
            reused,
            times: times.collect(),
            rejected: rejected.collect(),
            store_error,
        }
    }
}

/// Why a search has no answer.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{GemmBench, SearchError};
/// let error = GemmBench::new(&Device::sim()?).unwrap_err();
/// assert!(matches!(error, SearchError::Unsupported { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
#[allow(missing_docs, reason = "a variant's comment explains its fields")]
pub enum SearchError {
    /// No candidate gives the right result. `rejected` has the names of the candidates that were
    /// measured, and why they cannot win.
    NoCandidate { rejected: Vec<(String, Rejection)> },
    /// The candidate `config` made the device unusable. A second search continues this one.
    DeviceLost { config: String, how: String },
    /// The tuner cannot tune `what`.
    Unsupported { what: String },
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchError::NoCandidate { rejected } => match rejected.first() {
                None => f.write_str("there are no candidates"),
                Some((config, why)) => write!(
                    f,
                    "none of the {} candidates gives the right result; the first, {config}, {why}",
                    rejected.len()
                ),
            },
            SearchError::DeviceLost { config, how } => write!(
                f,
                "{config} made the device unusable ({how}); run the search again to continue it"
            ),
            SearchError::Unsupported { what } => write!(f, "cannot tune {what}"),
        }
    }
}

/// Prints the message, because a `main` that returns an error prints its `Debug`.
impl fmt::Debug for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SearchError {}

/// Finds the fastest of several candidates, and stores what it measures.
///
/// Each candidate is built, checked and timed, unless the store has a result for the same code.
/// Then the fastest are timed again, interleaved, and the smallest median wins. Candidates are
/// identified by their texts.
///
/// An interrupted search resumes where it stopped. A finished search is answered from the store as
/// long as the candidates and the winner's code stay the same.
///
/// ```
/// use tilewright_tune::{Measure, Regime, Rejection, Search, TuningKey, TuningStore};
///
/// /// A device on which a tile of `n` takes `n` seconds, and a tile of 1 gives a wrong result.
/// struct Fake;
/// impl Measure<u32> for Fake {
///     fn code(&mut self, n: &u32) -> Result<String, Rejection> { Ok(format!("code of {n}")) }
///     fn check(&mut self, n: &u32) -> Result<(), Rejection> {
///         if *n == 1 { Err(Rejection::Wrong("all zeros".into())) } else { Ok(()) }
///     }
///     fn time(&mut self, n: &u32) -> Result<f64, Rejection> { Ok(f64::from(*n)) }
/// }
///
/// let key = TuningKey {
///     device: "fake".into(),
///     driver: "none".into(),
///     problem: "8x8".into(),
///     regime: Regime::Latency,
/// };
/// let best = Search::new(TuningStore::none(), key).run(&[3, 1, 2], &mut Fake)?;
/// assert_eq!((best.config, best.seconds), (2, 2.0));
/// assert_eq!(best.rejected, [(1, Rejection::Wrong("all zeros".into()))]);
/// # Ok::<(), tilewright_tune::SearchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Search {
    store: TuningStore,
    key: TuningKey,
    effort: Effort,
}

/// A candidate that may win. `index` is its position among the candidates.
struct Right {
    index: usize,
    code: String,
    seconds: f64,
}

impl Search {
    /// Returns a search whose results are stored under `key`, with the default [`Effort`].
    pub fn new(store: TuningStore, key: TuningKey) -> Search {
        Search { store, key, effort: Effort::default() }
    }

    /// Sets how much to measure. Call it before [`run`](Search::run).
    pub fn effort(self, effort: Effort) -> Search {
        Search { effort, ..self }
    }

    /// Returns the best of the candidates. Pass the most promising first, because only the first
    /// [`Effort::candidates`] are measured.
    ///
    /// # Errors
    /// Returns a [`SearchError`] if no candidate gives the right result, or if the device is lost.
    pub fn run<C: Clone + fmt::Display>(
        &self,
        candidates: &[C],
        device: &mut impl Measure<C>,
    ) -> Result<Tuned<C>, SearchError> {
        let asked = &candidates[..candidates.len().min(self.effort.candidates.max(1))];
        let names: Vec<String> = asked.iter().map(C::to_string).collect();
        Ok(self.run_named(&names, &mut Numbered { asked, device })?.of(asked))
    }

    /// Like [`run`](Search::run), for candidates with these names. Results refer to candidates by
    /// their indices.
    pub(super) fn run_named(
        &self,
        names: &[String],
        device: &mut dyn Measure<usize>,
    ) -> Result<Tuned<usize>, SearchError> {
        let space = hash(&names.join("\n"));
        let known = self.store.read(&self.key);
        if let Some(tuned) = self.stored(names, &space, &known, device) {
            return Ok(tuned);
        }
        let mut state = State { measured: 0, reused: 0, best: f64::INFINITY, store_error: None };
        let (mut right, mut rejected) = (Vec::new(), Vec::new());
        for (index, name) in names.iter().enumerate() {
            match self.ask(index, name, &known, device, &mut state) {
                Ok((code, seconds)) => right.push(Right { index, code, seconds }),
                Err(Rejection::Lost(how)) => return Err(lost(name, how)),
                Err(why) => rejected.push((index, why)),
            }
        }
        right.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let times = right.iter().map(|one| (one.index, one.seconds)).collect();
        let winner = self.last_rounds(names, right, device, &mut rejected, &mut state)?;
        let Some(Right { index, code, seconds }) = winner else {
            let named = |(index, why): (usize, Rejection)| (names[index].clone(), why);
            let rejected = rejected.into_iter().map(named).collect();
            return Err(SearchError::NoCandidate { rejected });
        };
        let best = Best { config: names[index].clone(), code, seconds, space };
        state.note(self.store.finish(&self.key, &best));
        Ok(Tuned {
            config: index,
            seconds,
            is_from_store: false,
            measured: state.measured,
            reused: state.reused,
            times,
            rejected,
            store_error: state.store_error,
        })
    }

    /// Returns the stored answer, if it is still valid.
    fn stored(
        &self,
        names: &[String],
        space: &str,
        known: &Known,
        device: &mut dyn Measure<usize>,
    ) -> Option<Tuned<usize>> {
        let best = known.best.as_ref().filter(|best| best.space == space)?;
        let index = names.iter().position(|name| *name == best.config)?;
        // If the latest result says otherwise, it is newer than the search.
        match known.results.get(&best.config) {
            Some((code, Outcome::Right(_))) if *code == best.code => {}
            _ => return None,
        }
        if device.code(&index).ok()? != best.code {
            return None;
        }
        Some(Tuned {
            config: index,
            seconds: best.seconds,
            is_from_store: true,
            measured: 0,
            reused: known.results.len(),
            times: Vec::new(),
            rejected: Vec::new(),
            store_error: None,
        })
    }

    /// Returns a candidate's code and median time, stored or measured.
    fn ask(
        &self,
        index: usize,
        name: &str,
        known: &Known,
        device: &mut dyn Measure<usize>,
        state: &mut State,
    ) -> Result<(String, f64), Rejection> {
        let code = device.code(&index)?;
        if let Some((of, outcome)) = known.results.get(name)
            && *of == code
            && let Some(answer) = settled(outcome)
        {
            state.reused += 1;
            return answer.map(|seconds| {
                state.best = state.best.min(seconds);
                (code, seconds)
            });
        }
        state.measured += 1;
        let times = device.check(&index).and_then(|()| {
            let mut times = Vec::new();
            while times.len() < self.effort.rounds.max(1) {
                let seconds = as_time(device.time_quickly(&index)?)?;
                times.push(seconds);
                if seconds > HOPELESS * state.best {
                    break;
                }
            }
            Ok(times)
        });
        let outcome = match &times {
            Ok(times) => Outcome::Right(times.clone()),
            Err(why) => outcome_of(why),
        };
        state.note(self.store.add(&self.key, name, &code, &outcome));
        let seconds = median(&times?).unwrap_or(f64::INFINITY);
        state.best = state.best.min(seconds);
        Ok((code, seconds))
    }

    /// Measures the fastest candidates interleaved and returns the winner. `right` is sorted by
    /// time.
    fn last_rounds(
        &self,
        names: &[String],
        mut right: Vec<Right>,
        device: &mut dyn Measure<usize>,
        rejected: &mut Vec<(usize, Rejection)>,
        state: &mut State,
    ) -> Result<Option<Right>, SearchError> {
        let Effort { finalists, final_rounds, .. } = self.effort;
        while !right.is_empty() {
            let rest = right.split_off(right.len().min(finalists.max(1)));
            // All finalists are checked here, because stored results may come from another process.
            let mut finalists: Vec<Right> = Vec::new();
            for one in right {
                match device.check(&one.index) {
                    Ok(()) => finalists.push(one),
                    Err(why) => self.reject(names, &one, why, rejected, state)?,
                }
            }
            let times = interleave(finalists.len(), final_rounds.max(1), 0, |which| {
                as_time(device.time(&finalists[which].index)?)
            });
            let mut best: Option<Right> = None;
            for (one, times) in finalists.into_iter().zip(times) {
                match times.map(|times| median(&times)) {
                    Ok(Some(seconds))
                        if best.as_ref().is_none_or(|best| seconds < best.seconds) =>
                    {
                        best = Some(Right { seconds, ..one });
                    }
                    Ok(_) => {}
                    Err(why) => self.reject(names, &one, why, rejected, state)?,
                }
            }
            if best.is_some() {
                return Ok(best);
            }
            right = rest;
        }
        Ok(None)
    }

    /// Stores why a finalist cannot win.
    fn reject(
        &self,
        names: &[String],
        one: &Right,
        why: Rejection,
        rejected: &mut Vec<(usize, Rejection)>,
        state: &mut State,
    ) -> Result<(), SearchError> {
        let name = &names[one.index];
        state.note(self.store.add(&self.key, name, &one.code, &outcome_of(&why)));
        match why {
            Rejection::Lost(how) => Err(lost(name, how)),
            why => {
                rejected.push((one.index, why));
                Ok(())
            }
        }
    }
}

/// Measures candidates by their indices, so that the search is compiled once for all types of
/// candidates.
struct Numbered<'m, C, M> {
    asked: &'m [C],
    device: &'m mut M,
}

impl<C, M: Measure<C>> Measure<usize> for Numbered<'_, C, M> {
    fn code(&mut self, index: &usize) -> Result<String, Rejection> {
        self.device.code(&self.asked[*index])
    }

    fn check(&mut self, index: &usize) -> Result<(), Rejection> {
        self.device.check(&self.asked[*index])
    }

    fn time(&mut self, index: &usize) -> Result<f64, Rejection> {
        self.device.time(&self.asked[*index])
    }

    fn time_quickly(&mut self, index: &usize) -> Result<f64, Rejection> {
        self.device.time_quickly(&self.asked[*index])
    }
}

fn lost(name: &str, how: String) -> SearchError {
    SearchError::DeviceLost { config: name.to_owned(), how }
}

fn outcome_of(why: &Rejection) -> Outcome {
    match why {
        Rejection::Failed(why) | Rejection::Lost(why) => Outcome::Failed(why.clone()),
        Rejection::Wrong(how) => Outcome::Wrong(how.clone()),
    }
}

/// The progress of a search.
struct State {
    measured: usize,
    reused: usize,
    /// The shortest time so far, in seconds.
    best: f64,
    store_error: Option<String>,
}

/// A candidate that is slower than the best by this factor is not timed again.
const HOPELESS: f64 = 1.5;

impl State {
    fn note(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.store_error.get_or_insert(error.to_string());
        }
    }
}

/// Checks that a measured time is positive and finite.
fn as_time(seconds: f64) -> Result<f64, Rejection> {
    if seconds.is_finite() && seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(Rejection::Failed(format!("{seconds} is not a valid time")))
    }
}

/// Returns a stored outcome as an answer, if it is usable.
fn settled(outcome: &Outcome) -> Option<Result<f64, Rejection>> {
    match outcome {
        Outcome::Right(times) if times.iter().all(|time| time.is_finite() && *time > 0.0) => {
            median(times).map(Ok)
        }
        Outcome::Right(_) => None,
        Outcome::Failed(why) => Some(Err(Rejection::Failed(why.clone()))),
        Outcome::Wrong(how) => Some(Err(Rejection::Wrong(how.clone()))),
    }
}
