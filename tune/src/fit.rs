//! Fits the cost model's parameters to measurements, and rates the order in which the model ranks
//! configurations. A new sweep of a GPU gives new constants for
//! [`Parameters`](tilewright::kernels::gemm::Parameters).

use super::record::ProblemTimes;
use tilewright::kernels::gemm::{GemmConfig, GemmModel, Machine, Parameters};

/// Fits the model's parameters to measured times. Call it with a new sweep, to update the constants
/// with which [`GemmConfig::best`] chooses. It minimises the mean over all problems of
///
/// `sum_i w_i ln(t_i / best) / sum_i w_i + 12 spread + 0.5 offset`, plus `0.001 distance`.
///
/// The first term is what a program loses if it takes the model's first choice, or another one that
/// is predicted to be almost as fast. The sums run over the configurations, with measured times
/// `t_i`, predicted times `p_i` and weights `w_i = (p_i / least)^-50`.
///
/// Within a problem, the errors are `ln(p / t)`. Their weighted mean is the offset, and how far
/// they scatter around it the spread. Beyond 5 % an error counts linearly instead of squared, and
/// slow configurations count less. Some parameters are not determined by the measurements. The
/// distance between the logarithms of the parameters and of their start values holds these in
/// place. The search moves along one parameter's logarithm at a time.
///
/// Without measurements it returns `start`.
///
/// ```
/// use tilewright_tune::{Machine, Parameters, fit};
/// assert_eq!(fit(Machine::H200, Parameters::H200, &[]), Parameters::H200);
/// ```
pub fn fit(machine: Machine, start: Parameters, groups: &[ProblemTimes]) -> Parameters {
    let first = start.to_array().map(|value| value.max(1e-30).ln());
    let loss = |logs: &[f64; Parameters::COUNT]| {
        let parameters = Parameters::from_array(logs.map(f64::exp));
        let distance: f64 = logs.iter().zip(first).map(|(log, first)| (log - first).powi(2)).sum();
        loss(&GemmModel { machine, parameters }, groups) + 0.001 * distance
    };
    if groups.iter().all(|group| group.times.is_empty()) {
        return start;
    }
    Parameters::from_array(search(first, EVALUATIONS, &loss).map(f64::exp))
}

/// After this many evaluations the search starts no further round.
const EVALUATIONS: usize = 6000;
/// The first and the last step along a coordinate.
const FIRST_STEP: f64 = 0.15;
const LAST_STEP: f64 = 0.004;

/// Returns a model's loss: the formula in [`fit`], without the distance.
fn loss(model: &GemmModel, groups: &[ProblemTimes]) -> f64 {
    let of_problem = |group: &ProblemTimes| {
        let best = group.best()?;
        let predicted = predictions(model, group);
        let least = predicted.iter().copied().fold(f64::MAX, f64::min);
        let (mut chosen, mut chances) = (0.0, 0.0);
        let mut errors = Vec::with_capacity(predicted.len());
        for ((_, seconds), predicted) in group.times.iter().zip(predicted) {
            let chance = (predicted / least).powi(-50);
            chances += chance;
            // Twice the best time is as bad as anything slower.
            chosen += chance * (seconds / best).min(2.0).ln();
            // 1.2 times the best time counts a third.
            let weight = (-5.5 * (seconds / best - 1.0)).exp().max(0.05);
            errors.push(((predicted / seconds).ln(), weight));
        }
        let weights: f64 = errors.iter().map(|(_, weight)| weight).sum();
        let offset = errors.iter().map(|(error, weight)| error * weight).sum::<f64>() / weights;
        let robust = |error: f64| 0.05f64.powi(2) * ((1.0 + (error / 0.05).powi(2)).sqrt() - 1.0);
        let spread =
            errors.iter().map(|(error, weight)| robust(error - offset) * weight).sum::<f64>();
        Some(chosen / chances + 12.0 * spread / weights + 0.5 * robust(offset))
    };
    let sum: f64 = groups.iter().filter_map(of_problem).sum();
    sum / groups.len().max(1) as f64
}

/// Minimises `f` along one coordinate at a time, and returns the best point. A step that helps
/// becomes longer for the next round; otherwise it is halved.
fn search<const N: usize>(
    mut point: [f64; N],
    evaluations: usize,
    f: &impl Fn(&[f64; N]) -> f64,
) -> [f64; N] {
    let (mut steps, mut value, mut used) = ([FIRST_STEP; N], f(&point), 1);
    while used < evaluations && steps.iter().any(|step| step.abs() > LAST_STEP) {
        for i in 0..N {
            let before = point[i];
            let tried = [steps[i], -steps[i]].into_iter().find(|step| {
                point[i] = before + step;
                let found = f(&point);
                used += 1;
                let is_less = found < value;
                value = value.min(found);
                is_less
            });
            // Next time, try the direction first that helped.
            steps[i] = tried.map_or(0.5 * steps[i], |step| 1.5 * step);
            point[i] = before + tried.unwrap_or(0.0);
        }
    }
    point
}

/// How well a cost model ranks one problem's configurations, from [`rankings`]. Compare them before
/// and after a fit, mainly for the problems that were held out.
///
/// ```
/// use tilewright_tune::Ranking;
/// let found = "the default".to_owned();
/// let exact = Ranking { sizes: [4096; 3], found, regret: 1.0, is_held_out: true };
/// let rankings = [Ranking { regret: 1.04, ..exact.clone() }, exact];
/// let held_out = rankings.iter().filter(|ranking| ranking.is_held_out);
/// let worst = held_out.map(|ranking| ranking.regret).fold(1.0, f64::max);
/// assert_eq!(worst, 1.04);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The fastest configuration among the model's first choices.
    pub found: String,
    /// Its time divided by that of the fastest configuration: 1 if the model found the fastest,
    /// 1.05 if it lost 5 %.
    pub regret: f64,
    /// True if the problem was held out from the fit, so that it shows how the model does on new
    /// problems.
    pub is_held_out: bool,
}

/// Returns whether a problem is held out from the fit: the fourth to sixth of every nine. Random
/// problems come from three classes in turn, so each class is held out equally often. Call it to
/// split a sweep before [`fit`].
///
/// ```
/// use tilewright_tune::is_held_out;
/// assert_eq!((0..12).filter(|i| is_held_out(*i)).collect::<Vec<_>>(), [3, 4, 5]);
/// ```
pub fn is_held_out(index: usize) -> bool {
    index / 3 % 3 == 1
}

/// Returns, for each problem, the fastest of the `first` configurations that the model predicts to
/// be best, among those that were measured. Call it after [`fit`] to judge the model.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem};
/// use tilewright_tune::{GemmModel, ProblemTimes, Regime, rankings};
///
/// let configs = [128, 256].map(|n| GemmConfig::sm90(Scalar::Bf16, [128, n]));
/// let times = vec![(configs[0], 0.002), (configs[1], 0.001)];
/// let problem = GemmProblem::new(4096, 4096, 4096);
/// let group = ProblemTimes { problem, regime: Regime::Burst, times };
/// // If both may be tried, the faster one is found.
/// let judged = rankings(&GemmModel::H200, &[group], 2);
/// assert_eq!((&judged[0].found, judged[0].regret), (&configs[1].to_string(), 1.0));
/// ```
pub fn rankings(model: &GemmModel, groups: &[ProblemTimes], first: usize) -> Vec<Ranking> {
    let ranking = |(index, group): (usize, &ProblemTimes)| {
        let (config, regret) = regret(&predictions(model, group), group, first)?;
        let problem = &group.problem;
        Some(Ranking {
            sizes: [problem.m, problem.n, problem.k],
            found: config.to_string(),
            regret,
            is_held_out: is_held_out(index),
        })
    };
    groups.iter().enumerate().filter_map(ranking).collect()
}

/// Returns the predicted times of the measured configurations.
fn predictions(model: &GemmModel, group: &ProblemTimes) -> Vec<f64> {
    let seconds = |(config, _): &(GemmConfig, f64)| {
        model.predict(config, &group.problem, group.regime).seconds
    };
    group.times.iter().map(seconds).collect()
}

/// Returns the fastest among the first choices (by predicted time), and its time relative to the
/// fastest of all.
fn regret<'g>(
    predicted: &[f64],
    group: &'g ProblemTimes,
    first: usize,
) -> Option<(&'g GemmConfig, f64)> {
    let best = group.best()?;
    let mut order: Vec<(f64, &(GemmConfig, f64))> =
        predicted.iter().copied().zip(&group.times).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let chosen = order.iter().take(first.max(1)).map(|(_, one)| *one);
    let (config, seconds) = chosen.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((config, seconds / best))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GemmSpace, Regime};
    use tilewright::ir::Target;
    use tilewright::ir::types::Scalar;
    use tilewright::kernels::gemm::GemmProblem;

    fn groups(model: &GemmModel) -> Vec<ProblemTimes> {
        let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
        let sizes = [512, 1024, 4096, 16384];
        let group = |size| {
            let problem = GemmProblem::new(size, size, size);
            let configs = space.configs(&problem, &Machine::H200).into_iter().step_by(60);
            let times = configs
                .map(|config| (config, model.predict(&config, &problem, Regime::Burst).seconds));
            ProblemTimes { problem, regime: Regime::Burst, times: times.collect() }
        };
        sizes.map(group).into()
    }

    /// If a model made the times, a fit that starts elsewhere finds its order again.
    #[test]
    fn a_fit_finds_the_order_of_a_model() {
        let parameters = Parameters {
            step_cycles: 30.0,
            fill_bytes: 45.0,
            switch_cycles: 3000.0,
            store_bytes: 12.0,
            ..Parameters::H200
        };
        let groups = groups(&GemmModel { parameters, ..GemmModel::H200 });
        let start = GemmModel::H200;
        let fitted = fit(Machine::H200, Parameters::H200, &groups);
        let fitted = GemmModel { parameters: fitted, ..start };
        let [before, after] = [start, fitted].map(|model| loss(&model, &groups));
        assert!(after < before / 5.0, "{before} {after}");
        let found = rankings(&fitted, &groups, 8);
        assert_eq!(found.len(), groups.len());
        assert!(found.iter().all(|ranking| ranking.regret < 1.03), "{found:?}");
    }

    #[test]
    fn without_measurements_nothing_is_fitted() {
        assert_eq!(fit(Machine::H200, Parameters::H200, &[]), Parameters::H200);
        assert!(rankings(&GemmModel::H200, &[], 8).is_empty());
    }

    #[test]
    fn a_search_finds_a_valley() {
        let f = |p: &[f64; 2]| (1.0 - p[0]).powi(2) + (p[1] - p[0]).powi(2);
        let found = search([-1.2, 3.0], 4000, &f);
        assert!(f(&found) < 1e-4, "{found:?}");
    }
}
