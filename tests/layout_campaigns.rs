//! The campaigns of `scripts/campaign`, one case in a hundred: same laws, same seed.

#[path = "common/campaign.rs"]
mod campaign;
#[path = "common/oracle.rs"]
mod oracle;

use campaign::{SEED, campaigns};

/// A hundredth of 10^6.
const CASES: u64 = 10_000;

/// Every campaign whose place is `turn` modulo `of`: a few tests share the list, to run in parallel.
fn check(turn: usize, of: usize) {
    for campaign in campaigns().iter().skip(turn).step_by(of) {
        let start = std::time::Instant::now();
        match (campaign.run)(CASES, SEED) {
            Ok(tally) => {
                assert_eq!(tally.accepted + tally.refused, CASES, "{}", campaign.name);
                // A law that nothing reaches says nothing.
                assert!(tally.accepted > CASES / 20, "{}: {tally:?}", campaign.name);
                eprintln!("{}: {tally:?}, {:?}", campaign.name, start.elapsed());
            }
            Err(e) => panic!("{}, {}: {e}", campaign.name, campaign.law),
        }
    }
}

#[test]
fn first_third() {
    check(0, 3);
}

#[test]
fn second_third() {
    check(1, 3);
}

#[test]
fn last_third() {
    check(2, 3);
}
