//! A rank that fails: the others get an error and do not hang.

use std::time::{Duration, Instant};

use tilewright::runtime::RuntimeError;
use tilewright::runtime::comm::{CommError, CommOptions, Communicator, ReduceOp};

use crate::ranks::{device_sets, each_rank};

/// Calls `all_reduce` and waits for the result.
fn reduce(comm: &Communicator) -> Result<Vec<i32>, RuntimeError> {
    let device = comm.device();
    let mut x = device.upload(&[comm.rank() as i32; 1000])?;
    comm.all_reduce_in_place(&device.stream()?, ReduceOp::Sum, &mut x)?;
    x.to_vec()
}

fn error_of(result: Result<Vec<i32>, RuntimeError>) -> CommError {
    match result {
        Err(RuntimeError::Comm(error)) => *error,
        other => panic!("{other:?} is no error of a communicator"),
    }
}

fn options(seconds: u64) -> CommOptions {
    CommOptions::default().timeout(Duration::from_secs(seconds))
}

/// A rank that does not come makes the others fail after the timeout, and each later call too.
#[test]
fn a_rank_that_does_not_call_is_a_timeout() {
    for ranks in [2, 4] {
        for devices in device_sets(ranks) {
            let start = Instant::now();
            let results = each_rank(options(2), &devices, |comm| {
                reduce(&comm).expect("all ranks call");
                if comm.rank() == 1 {
                    std::thread::sleep(Duration::from_secs(4));
                    return None;
                }
                let first = error_of(reduce(&comm));
                assert!(comm.check().is_err() && reduce(&comm).is_err());
                Some(first)
            });
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
            let errors: Vec<CommError> = results.into_iter().flatten().collect();
            let is_timeout = |error: &CommError| matches!(error, CommError::TimedOut { .. });
            assert!(errors.iter().any(is_timeout), "{errors:?}");
            assert_eq!(errors.len(), ranks as usize - 1);
        }
    }
}

/// `abort` of one rank frees the calls of all.
#[test]
fn an_abort_frees_all_ranks() {
    for devices in device_sets(2) {
        let start = Instant::now();
        each_rank(options(60), &devices, |comm| {
            reduce(&comm).expect("all ranks call");
            if comm.rank() == 1 {
                std::thread::sleep(Duration::from_millis(300));
                comm.abort();
            }
            assert_eq!(error_of(reduce(&comm)), CommError::Aborted { rank: 1 });
        });
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

/// After a failure the devices work on, with a new communicator.
#[test]
fn a_new_communicator_follows_a_failed_one() {
    for devices in device_sets(2) {
        each_rank(options(30), &devices, |comm| {
            comm.abort();
            reduce(&comm).unwrap_err();
        });
        each_rank(options(30), &devices, |comm| {
            assert_eq!(reduce(&comm), Ok(vec![1; 1000]));
        });
    }
}

/// A simulated rank that leaves, and ranks that make different calls, are named.
#[test]
fn the_simulator_names_ranks_that_leave_or_differ() {
    let devices = device_sets(4).swap_remove(0);
    let errors = each_rank(options(60), &devices, |comm| match comm.rank() {
        2 => None,
        _ => Some(error_of(reduce(&comm))),
    });
    assert!(errors.into_iter().flatten().all(|e| e == CommError::PeerGone { rank: 2 }));

    let errors = each_rank(options(60), &devices[..2], |comm| {
        let device = comm.device();
        let mut x = device.zeros::<f32>(3 + comm.rank() as usize).unwrap();
        comm.all_reduce_in_place(&device.stream().unwrap(), ReduceOp::Sum, &mut x).unwrap_err()
    });
    assert!(errors.iter().all(|error| *error == errors[0]));
    let text = errors[0].to_string();
    assert!(text.contains("all_reduce(Sum) of 3 f32") && text.contains("of 4 f32"), "{text}");

    // All ranks send first, and none receives.
    let errors = each_rank(options(1), &devices[..2], |comm| {
        let device = comm.device();
        let x = device.zeros::<f32>(3).unwrap();
        comm.send(&device.stream().unwrap(), 1 - comm.rank(), &x).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("has not finished within 1s")), "{errors:?}");
}
