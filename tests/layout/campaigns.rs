//! The first cases of each campaign, with the seed of the record.
//! `scripts/campaign all --cases 10000`, which every run of all checks does, goes on;
//! `docs/evidence/laws.md` has the whole campaigns.

use crate::support::campaign;

use std::sync::atomic::{AtomicUsize, Ordering};

use campaign::{SEED, campaigns};

/// Cases without optimisation take about 0.2 ms each.
const CASES: u64 = 60;

#[test]
fn the_first_cases_of_each_campaign() {
    let all = campaigns();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(campaign) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match (campaign.run)(CASES, SEED) {
                        Ok(tally) => assert_eq!(tally.cases, CASES, "{}", campaign.name),
                        Err(e) => panic!("{} ({}): {e}", campaign.name, campaign.law),
                    }
                }
            });
        }
    });
}
