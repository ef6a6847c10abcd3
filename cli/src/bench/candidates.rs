//! Defines [`Candidates`]: which configurations a benchmark measures.

use clap::ValueEnum;
use tilewright_tune::{BenchConfigs, Effort, Regime, Tunable, Tuner, TuningStore};

use super::super::Failure;
use super::super::progress::Meter;

/// Which configurations a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Candidates {
    /// The configuration that the library chooses.
    Default,
    /// All configurations that a tuner can choose from.
    All,
    /// The fastest configuration of a search, and the library's choice.
    Tuned,
}

impl From<Candidates> for BenchConfigs {
    fn from(candidates: Candidates) -> Self {
        match candidates {
            Candidates::Default => BenchConfigs::Default,
            Candidates::All => BenchConfigs::All,
            Candidates::Tuned => BenchConfigs::Tuned,
        }
    }
}

impl Candidates {
    /// Returns the configurations to measure; `default` if there is nothing to choose. A search
    /// optimises for the regime.
    pub(super) fn of<K: Tunable>(
        self,
        tuner: &mut Tuner<K>,
        kernel: &K,
        regime: Regime,
        default: Vec<K::Config>,
        meter: &Meter,
    ) -> Result<Vec<K::Config>, Failure> {
        match self {
            Candidates::Default => Ok(default),
            Candidates::All => Ok(tuner.order(kernel, regime)),
            Candidates::Tuned => {
                let effort = Effort::of(regime);
                let order: Vec<_> =
                    tuner.order(kernel, regime).into_iter().take(effort.candidates).collect();
                meter.add_steps(2 * order.len());
                tuner.prepare(&order, &|| meter.step());
                let store = TuningStore::shared();
                let done = || meter.step();
                let tuned = tuner.search(kernel, &store, effort, regime, &order, &done);
                let tuned = tuned.map_err(Failure::run)?.config;
                let others = default.into_iter().filter(|config| *config != tuned);
                Ok([tuned.clone()].into_iter().chain(others).collect())
            }
        }
    }
}
