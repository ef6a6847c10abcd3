//! [`Estimate`]: medians with confidence intervals, to say whether one kernel is really faster than
//! another. Use it to evaluate rounds of your own measurements.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns the median: the middle value, or the mean of the two middle values. `None` if there are
/// no values. Use it to summarise rounds, because an outlier does not move it.
///
/// ```
/// use tilewright_tune::median;
/// assert_eq!(median(&[3.0, 1.0, 100.0]), Some(3.0));
/// assert_eq!(median(&[1.0, 2.0, 3.0, 100.0]), Some(2.5));
/// assert_eq!(median(&[]), None);
/// ```
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    match sorted.len() % 2 {
        0 => sorted.get(half - 1).map(|lower| (lower + upper) / 2.0),
        _ => Some(upper),
    }
}

/// A median and its 95 % confidence interval. If the interval of a speedup contains 1, the
/// measurement does not show which kernel is faster.
///
/// ```
/// use tilewright_tune::Estimate;
/// let speedup = Estimate::of_ratios(&[1.1, 1.0, 1.2], &[1.0; 3], 7);
/// // Three rounds do not show that the second kernel is faster.
/// assert_eq!(speedup.map(|speedup| (speedup.median, speedup.low)), Some((1.1, 1.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median of the values.
    pub median: f64,
    /// The interval's lower end: the 2.5 % quantile of the medians of 2000 resamples with
    /// replacement (Efron's percentile bootstrap, 1979).
    pub low: f64,
    /// The interval's upper end: the 97.5 % quantile of these medians.
    pub high: f64,
}

const SAMPLES: usize = 2000;

impl Estimate {
    /// Estimates the median of `values`; `None` if there are none. The same seed draws the same
    /// resamples. Use it for the times of one kernel.
    ///
    /// ```
    /// use tilewright_tune::Estimate;
    /// let of = Estimate::of(&[1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.0], 7).expect("there are values");
    /// assert_eq!(of.median, 1.0);
    /// assert!(of.low >= 0.9 && of.low <= 1.0 && of.high >= 1.0 && of.high <= 1.1);
    /// ```
    pub fn of(values: &[f64], seed: u64) -> Option<Estimate> {
        let of_all = median(values)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut drawn = vec![0.0; values.len()];
        let mut medians = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            drawn.fill_with(|| values[rng.random_range(0..values.len())]);
            medians.push(median(&drawn)?);
        }
        medians.sort_by(f64::total_cmp);
        let quantile = |share: f64| medians[(share * (SAMPLES - 1) as f64).round() as usize];
        Some(Estimate { median: of_all, low: quantile(0.025), high: quantile(0.975) })
    }

    /// Estimates the median of the ratios `theirs / ours`, round by round: how many times faster
    /// ours is. Ignores rounds that only one of them has. Use it to compare two kernels that were
    /// timed in the same rounds.
    ///
    /// ```
    /// use tilewright_tune::Estimate;
    /// let ratio = Estimate::of_ratios(&[2.0, 4.0], &[1.0, 2.0], 0).expect("there are rounds");
    /// assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    /// ```
    pub fn of_ratios(theirs: &[f64], ours: &[f64], seed: u64) -> Option<Estimate> {
        let ratios: Vec<f64> =
            theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours).collect();
        Estimate::of(&ratios, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of many samples from a known distribution, about 95 % of the intervals contain its median.
    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (trials, rounds) = (200, 16);
        let covered = (0..trials)
            .filter(|seed| {
                // A sum of three uniform values is symmetric about 1.5.
                let mut draw = || (0..3).map(|_| rng.random_range(0.0..1.0)).sum::<f64>();
                let values: Vec<f64> = (0..rounds).map(|_| draw()).collect();
                let Estimate { low, high, .. } = Estimate::of(&values, *seed).unwrap();
                (low..=high).contains(&1.5)
            })
            .count();
        let share = covered as f64 / trials as f64;
        assert!((0.88..=0.995).contains(&share), "{share}");
    }

    #[test]
    fn the_median_is_between_the_bounds() {
        let values: Vec<f64> = (0..9).map(|i| f64::from(i * i)).collect();
        let of = Estimate::of(&values, 3).unwrap();
        assert_eq!(of.median, 16.0);
        assert!(of.low <= of.median && of.median <= of.high && of.low < of.high);
        assert_eq!(Estimate::of(&values, 3), Some(of), "the same seed");
        assert_eq!(Estimate::of(&[], 0), None);
    }
}
