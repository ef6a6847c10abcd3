//! Computes medians and their confidence intervals.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns the middle of the values: the mean of the two middle ones of an even number. `None` without values.
///
/// ```
/// use tilewright::tune::median;
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

/// A median with the interval in which it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median of the values.
    pub median: f64,
    /// The 2.5 % quantile of the medians of 2000 samples drawn from the values with repetition (the percentile
    /// bootstrap of Efron, 1979).
    pub low: f64,
    /// The 97.5 % quantile of them.
    pub high: f64,
}

const SAMPLES: usize = 2000;

impl Estimate {
    /// Of the values; the same seed draws the same samples. `None` without values.
    ///
    /// ```
    /// use tilewright::tune::Estimate;
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

    /// Of the ratios `theirs / ours` of each round: above 1, ours took less time. Rounds that one of both lacks are
    /// left out.
    ///
    /// ```
    /// use tilewright::tune::Estimate;
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

    /// A law: of samples from a known distribution, about 95 % of the intervals have its median inside.
    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (trials, rounds) = (200, 16);
        let covered = (0..trials)
            .filter(|seed| {
                // The sum of three uniform numbers is symmetric about 1.5.
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
