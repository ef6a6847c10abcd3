//! Fits the parameters of the model to measurements, and rates its order.

use super::record::ProblemTimes;
use crate::kernels::gemm::GemmConfig;
use crate::kernels::gemm::{GemmModel, Machine, Parameters};

/// Fits the parameters to measured times. Minimises the mean squared error of the logarithm of the predicted times.
/// Fast configurations have more weight, because a search must find them. The method is the simplex search of Nelder
/// and Mead (1965) over the logarithms of the parameters, restarted from its result. A small penalty on the distance
/// keeps a parameter near its start if the measurements do not determine it.
///
/// Without measurements the parameters stay as they are.
pub fn fit(machine: Machine, start: Parameters, groups: &[ProblemTimes]) -> Parameters {
    let first = start.to_array().map(|value| value.max(1e-30).ln());
    let loss = |logs: &[f64; Parameters::COUNT]| {
        let parameters = Parameters::from_array(logs.map(f64::exp));
        let distance: f64 = logs.iter().zip(first).map(|(log, first)| (log - first).powi(2)).sum();
        loss(&GemmModel { machine, parameters }, groups) + PRICE * distance
    };
    let mut best = first;
    if groups.iter().all(|group| group.times.is_empty()) {
        return start;
    }
    for step in [0.4, 0.25, 0.15, 0.1] {
        best = simplex(best, step, 1500, &loss);
    }
    Parameters::from_array(best.map(f64::exp))
}

/// The penalty of a parameter that changed by the factor `e`, up or down: a twentieth of the error of times that are
/// off by 2 %.
const PRICE: f64 = 2e-5;

/// The number of the model's first configurations that a search tries before any other.
const FIRST: usize = 8;

/// Returns the error of a model.
fn loss(model: &GemmModel, groups: &[ProblemTimes]) -> f64 {
    let mut sum = 0.0;
    for group in groups {
        let Some(best) = group.best() else { continue };
        let predicted = predictions(model, group);
        let errors: Vec<(f64, f64)> = group
            .times
            .iter()
            .zip(&predicted)
            .map(|((_, seconds), predicted)| {
                // A configuration that takes 1.2 times the best one counts a third.
                let weight = (-5.5 * (seconds / best - 1.0)).exp().max(0.02);
                ((predicted / seconds).ln(), weight)
            })
            .collect();
        let weights: f64 = errors.iter().map(|(_, weight)| weight).sum();
        let mean = errors.iter().map(|(error, weight)| error * weight).sum::<f64>() / weights;
        // Beyond 5 % an error counts in proportion, not by its square: what the model does not know of one problem must
        // not bend what it knows of the others.
        let robust = |error: f64| 0.05f64.powi(2) * ((1.0 + (error / 0.05).powi(2)).sqrt() - 1.0);
        let spread =
            errors.iter().map(|(error, weight)| robust(error - mean) * weight).sum::<f64>();
        // What all configurations of a problem have in common does not change their order.
        sum += spread / weights + 0.02 * robust(mean);
        sum += 0.03 * (regret(&predicted, group, FIRST).map_or(1.0, |(_, regret)| regret) - 1.0);
    }
    sum / groups.len().max(1) as f64
}

/// Returns the smallest value that the simplex method finds.
fn simplex<const N: usize>(
    start: [f64; N],
    step: f64,
    evaluations: usize,
    f: &impl Fn(&[f64; N]) -> f64,
) -> [f64; N] {
    let mut points: Vec<([f64; N], f64)> = vec![(start, f(&start))];
    for i in 0..N {
        let mut point = start;
        point[i] += step;
        points.push((point, f(&point)));
    }
    let mut used = N + 1;
    while used < evaluations {
        points.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (worst, second, best) = (points[N], points[N - 1].1, points[0]);
        let mut centre = [0.0; N];
        for (point, _) in &points[..N] {
            for (sum, x) in centre.iter_mut().zip(point) {
                *sum += x / N as f64;
            }
        }
        let along = |t: f64| {
            let mut point = centre;
            for ((x, c), w) in point.iter_mut().zip(centre).zip(worst.0) {
                *x = c + t * (w - c);
            }
            (point, f(&point))
        };
        let reflected = along(-1.0);
        used += 1;
        let new = if reflected.1 < best.1 {
            let expanded = along(-2.0);
            used += 1;
            if expanded.1 < reflected.1 { Some(expanded) } else { Some(reflected) }
        } else if reflected.1 < second {
            Some(reflected)
        } else {
            let contracted = along(if reflected.1 < worst.1 { -0.5 } else { 0.5 });
            used += 1;
            (contracted.1 < worst.1.min(reflected.1)).then_some(contracted)
        };
        match new {
            Some(new) => points[N] = new,
            None => {
                for point in &mut points[1..] {
                    for (x, b) in point.0.iter_mut().zip(best.0) {
                        *x = b + 0.5 * (*x - b);
                    }
                    point.1 = f(&point.0);
                }
                used += N;
            }
        }
    }
    points.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(start, |(point, _)| point)
}

/// The quality of the order of a model for one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The name of the configuration that was fastest among the model's first ones.
    pub found: String,
    /// Its time, relative to that of the fastest of all: 1 where the model has found it.
    pub regret: f64,
    /// Set if the problem was held out from the fit.
    pub is_held_out: bool,
}

/// Returns whether a problem is held out from a fit: every third one is, from the second.
///
/// ```
/// use tilewright::tune::is_held_out;
/// assert_eq!((0..6).filter(|i| is_held_out(*i)).collect::<Vec<_>>(), [1, 4]);
/// ```
pub fn is_held_out(index: usize) -> bool {
    index % 3 == 1
}

/// Returns, for each problem, the best of the model's `first` measured configurations.
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

/// Returns the fastest of the first measured configurations by their predicted times, and its time relative to that of the
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
    use crate::ir::Target;
    use crate::ir::types::Scalar;
    use crate::kernels::gemm::GemmProblem;
    use crate::tune::{GemmSpace, Regime};

    fn groups(model: &GemmModel) -> Vec<ProblemTimes> {
        let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
        let sizes = [512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384];
        let group = |size| {
            let problem = GemmProblem::new(size, size, size);
            let configs = space.configs(&problem, &Machine::H200).into_iter().step_by(20);
            let times = configs
                .map(|config| (config, model.predict(&config, &problem, Regime::Burst).seconds));
            ProblemTimes { problem, regime: Regime::Burst, times: times.collect() }
        };
        sizes.map(group).into()
    }

    /// Times that a model made are found again by a fit that starts elsewhere, in their order.
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
        assert!(after < before / 10.0, "{before} {after}");
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
    fn the_simplex_method_finds_a_valley() {
        // Rosenbrock's.
        let f = |p: &[f64; 2]| (1.0 - p[0]).powi(2) + 100.0 * (p[1] - p[0] * p[0]).powi(2);
        let found = simplex([-1.2, 1.0], 0.5, 2000, &f);
        assert!(f(&found) < 1e-9, "{found:?}");
    }
}
