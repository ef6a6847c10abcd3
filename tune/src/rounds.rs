//! [`interleave`]: measures candidates alternately, so that a drifting GPU clock favours none of
//! them. Use it if you have a timing function of your own; a [`Tuner`](super::Tuner) calls it for
//! kernels.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Times each of `count` candidates once per round, for `rounds` rounds in random order, so that a
/// slow drift of the device favours none of them. `time` gets a candidate's index and returns
/// seconds.
///
/// Returns each candidate's times, one per round. A candidate whose measurement fails is not
/// measured again; its entry is the error.
///
/// ```
/// use tilewright_tune::interleave;
/// let times = interleave(2, 3, 7, |i| if i == 0 { Ok(1.5) } else { Err("it hangs") });
/// assert_eq!(times, [Ok(vec![1.5, 1.5, 1.5]), Err("it hangs")]);
/// ```
pub fn interleave<E>(
    count: usize,
    rounds: usize,
    seed: u64,
    mut time: impl FnMut(usize) -> Result<f64, E>,
) -> Vec<Result<Vec<f64>, E>> {
    let mut times: Vec<Result<Vec<f64>, E>> =
        (0..count).map(|_| Ok(Vec::with_capacity(rounds))).collect();
    for which in order(count, rounds, seed) {
        let Ok(known) = &mut times[which] else { continue };
        match time(which) {
            Ok(seconds) => known.push(seconds),
            Err(error) => times[which] = Err(error),
        }
    }
    times
}

/// Returns the indices below `count` in a random order for each round, all rounds after each other.
fn order(count: usize, rounds: usize, seed: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Vec::with_capacity(count * rounds);
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..count).collect();
        // Fisher-Yates shuffle.
        for last in (1..count).rev() {
            order.swap(last, rng.random_range(0..=last));
        }
        all.extend(order);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_thing_once_in_another_order() {
        let (mut asked, count, rounds) = (Vec::new(), 6, 20);
        let times = interleave(count, rounds, 1, |which| {
            asked.push(which);
            Ok::<_, ()>(asked.len() as f64)
        });
        let mut orders: Vec<&[usize]> = asked.chunks(count).collect();
        for order in &orders {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
        }
        orders.dedup();
        assert!(orders.len() > rounds / 2);
        for times in times {
            let times = times.unwrap();
            assert_eq!(times.len(), rounds);
            let in_its_round = |(round, time): (usize, &f64)| {
                (round * count + 1..=(round + 1) * count).contains(&(*time as usize))
            };
            assert!(times.iter().enumerate().all(in_its_round));
        }
    }

    #[test]
    fn what_failed_is_not_asked_again() {
        let mut asked = 0;
        let times = interleave(3, 5, 1, |which| match which {
            1 => {
                asked += 1;
                if asked == 2 { Err("fault") } else { Ok(1.0) }
            }
            _ => Ok(1.0),
        });
        assert_eq!((asked, times[1].clone()), (2, Err("fault")));
        assert_eq!((times[0].clone(), times[2].clone()), (Ok(vec![1.0; 5]), Ok(vec![1.0; 5])));
    }
}
