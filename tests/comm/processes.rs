//! Ranks in processes of their own: this program starts itself.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tilewright::runtime::comm::{CommError, CommOptions, Communicator, ReduceOp, UniqueId};
use tilewright::runtime::{Device, RuntimeError};

const RANK: &str = "TILEWRIGHT_TEST_RANK";
const FILE: &str = "TILEWRIGHT_TEST_ID_FILE";
/// Set for a rank that makes calls until it is killed.
const FOREVER: &str = "TILEWRIGHT_TEST_FOREVER";

fn start(rank: u32, file: &Path, forever: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["processes::a_rank_of_a_test", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(RANK, rank.to_string()).env(FILE, file).stdout(Stdio::inherit());
    if forever {
        command.env(FOREVER, "1");
    }
    command.spawn().expect("the program starts itself")
}

fn connect(rank: u32, file: &Path, timeout: Duration) -> Result<Communicator, RuntimeError> {
    let device = Device::cuda(rank as usize)?;
    let id = match rank {
        0 => {
            let id = UniqueId::new(&device)?;
            id.write_file(file)?;
            id
        }
        _ => UniqueId::read_file(file, Duration::from_secs(60))?,
    };
    Communicator::connect(CommOptions::default().timeout(timeout), &device, &id, rank, 2)
}

fn reduce(comm: &Communicator) -> Result<Vec<f32>, RuntimeError> {
    let device = comm.device();
    let mut x = device.upload(&[comm.rank() as f32 + 1.0; 100_000])?;
    comm.all_reduce_in_place(&device.stream()?, ReduceOp::Sum, &mut x)?;
    x.to_vec()
}

/// No test by itself: the other tests start it with a rank.
#[test]
fn a_rank_of_a_test() {
    let (Ok(rank), Ok(file)) = (std::env::var(RANK), std::env::var(FILE)) else { return };
    let comm = connect(rank.parse().unwrap(), file.as_ref(), Duration::from_secs(60)).unwrap();
    let forever = std::env::var(FOREVER).is_ok();
    let mut calls = 0;
    while forever || calls < 100 {
        assert_eq!(reduce(&comm).unwrap(), [3.0; 100_000]);
        calls += 1;
    }
}

fn id_file(name: &str) -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("tilewright-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

#[test]
fn two_processes_connect_by_a_file() {
    if crate::ranks::gpus(2).is_none() {
        return;
    }
    let file = id_file("processes");
    let ranks = [0, 1].map(|rank| start(rank, &file, false));
    let ended = ranks.map(|mut rank| rank.wait().unwrap().success());
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ended, [true, true]);
}

/// A killed process is an error of the other one, within 10 seconds, whatever the timeout.
#[test]
fn a_killed_process_is_an_error_of_the_other() {
    if crate::ranks::gpus(2).is_none() {
        return;
    }
    let file = id_file("killed");
    let mut other = start(1, &file, true);
    let comm = connect(0, &file, Duration::from_secs(300)).unwrap();
    std::fs::remove_file(&file).unwrap();
    for _ in 0..10 {
        assert_eq!(reduce(&comm).unwrap(), [3.0; 100_000]);
    }
    other.kill().unwrap();
    let start = Instant::now();
    let error = loop {
        match reduce(&comm) {
            Ok(_) => {}
            Err(RuntimeError::Comm(error)) => break *error,
            Err(error) => panic!("{error}"),
        }
    };
    let elapsed = start.elapsed();
    other.wait().unwrap();
    eprintln!("after {elapsed:?}: {error}");
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    let is_expected = matches!(
        error,
        CommError::PeerGone { rank: 1 } | CommError::Status { .. } | CommError::Aborted { .. }
    );
    assert!(is_expected, "{error}");
    assert!(comm.check().is_err() && reduce(&comm).is_err());
}
