//! The search among candidates and its store, with a device that is made up.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{GemmProblem, MatrixStrides};
use tilewright::runtime::Device;
use tilewright_tune::{
    Effort, GemmSpace, Measure, Regime, Rejection, Search, SearchError, TuningKey, TuningStore,
    tune,
};

/// A device on which candidate `n` takes `n` seconds.
#[derive(Default)]
struct Fake {
    /// Candidates that are rejected, with the rejection.
    rejects: HashMap<u32, Rejection>,
    /// Candidates that are right when they are first asked, and wrong later.
    wrong_later: Vec<u32>,
    /// Fails everything from this call of `check` on, as a process that is killed would.
    dies_after: Option<usize>,
    version: u32,
    checked: Vec<u32>,
    timed: Vec<u32>,
}

impl Measure<u32> for Fake {
    fn code(&mut self, n: &u32) -> Result<String, Rejection> {
        Ok(format!("{n} of version {}", self.version))
    }

    fn check(&mut self, n: &u32) -> Result<(), Rejection> {
        if self.dies_after.is_some_and(|calls| self.checked.len() >= calls) {
            return Err(Rejection::Lost("killed".into()));
        }
        let again = self.checked.contains(n);
        self.checked.push(*n);
        if again && self.wrong_later.contains(n) {
            return Err(Rejection::Wrong("later".into()));
        }
        self.rejects.get(n).map_or(Ok(()), |why| Err(why.clone()))
    }

    fn time(&mut self, n: &u32) -> Result<f64, Rejection> {
        assert!(self.checked.contains(n), "{n} is timed before it is known to be right");
        self.timed.push(*n);
        Ok(f64::from(*n))
    }
}

fn key() -> TuningKey {
    TuningKey {
        device: "made up".into(),
        driver: "1".into(),
        problem: "8x8x8".into(),
        regime: Regime::Burst,
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tilewright-tuner-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        Folder(folder)
    }

    fn search(&self) -> Search {
        Search::new(TuningStore::in_folder(&self.0), key())
    }

    fn file(&self) -> PathBuf {
        TuningStore::in_folder(&self.0).file(&key()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(&self.0);
    }
}

const CANDIDATES: [u32; 6] = [5, 3, 6, 2, 4, 7];

#[test]
fn the_second_search_is_answered_from_the_store() {
    let folder = Folder::new("second");
    let first = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    assert_eq!((first.config, first.seconds, first.measured, first.reused), (2, 2.0, 6, 0));
    assert!(!first.is_from_store && first.store_error.is_none());
    let mut device = Fake::default();
    let second = folder.search().run(&CANDIDATES, &mut device).unwrap();
    assert_eq!((second.config, second.seconds, second.is_from_store), (2, 2.0, true));
    assert!(device.checked.is_empty() && device.timed.is_empty());
}

/// Wherever a search is broken off, the next one measures what is left, and the answer is that of
/// one search.
#[test]
fn a_search_goes_on_where_it_was() {
    for calls in 0..CANDIDATES.len() {
        let folder = Folder::new(&format!("resume-{calls}"));
        let mut dying = Fake { dies_after: Some(calls), ..Fake::default() };
        let error = folder.search().run(&CANDIDATES, &mut dying).unwrap_err();
        let SearchError::DeviceLost { config, .. } = &error else { panic!("{error}") };
        // A candidate in flight when the search broke off is not tried again: it may have been the
        // cause.
        assert_eq!(*config, CANDIDATES[calls].to_string());
        let mut device = Fake::default();
        let tuned = folder.search().run(&CANDIDATES, &mut device).unwrap();
        let left: Vec<u32> = CANDIDATES[calls + 1..].to_vec();
        assert_eq!((tuned.reused, tuned.measured), (calls + 1, left.len()));
        assert!(device.checked.starts_with(&left));
        let best = if CANDIDATES[calls] == 2 { 3 } else { 2 };
        assert_eq!(tuned.config, best);
    }
}

#[test]
fn what_fails_or_is_wrong_never_wins() {
    let folder = Folder::new("wrong");
    let rejects = HashMap::from([
        (2, Rejection::Wrong("3 of 64 elements".into())),
        (3, Rejection::Failed("spills".into())),
    ]);
    for _ in 0..2 {
        let mut device = Fake { rejects: rejects.clone(), ..Fake::default() };
        let tuned = folder.search().run(&CANDIDATES, &mut device).unwrap();
        assert_eq!(tuned.config, 4);
        assert!(!device.timed.contains(&2) && !device.timed.contains(&3));
    }
    // Wrong only in the last rounds: the next one wins, and the store knows.
    let folder = Folder::new("wrong-later");
    let mut device = Fake { wrong_later: vec![2, 3, 4, 5], ..Fake::default() };
    let tuned = folder.search().run(&CANDIDATES, &mut device).unwrap();
    assert_eq!(tuned.config, 6);
    assert_eq!(tuned.rejected.len(), 4);
    let again = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    assert_eq!((again.config, again.is_from_store), (6, true));
    // All are wrong.
    let rejects = CANDIDATES.map(|n| (n, Rejection::Wrong("zeros".into()))).into();
    let none = Search::new(TuningStore::none(), key());
    let error = none.run(&CANDIDATES, &mut Fake { rejects, ..Fake::default() }).unwrap_err();
    let expected = "none of the 6 candidates gives the right result; the first, 5, wrong: zeros";
    assert_eq!(error.to_string(), expected);
    let error = none.run(&[], &mut Fake::default()).unwrap_err();
    assert_eq!(error.to_string(), "there are no candidates");
}

#[test]
fn a_time_that_is_none_never_wins() {
    struct Broken(f64);
    impl Measure<u32> for Broken {
        fn code(&mut self, n: &u32) -> Result<String, Rejection> {
            Ok(n.to_string())
        }
        fn check(&mut self, _: &u32) -> Result<(), Rejection> {
            Ok(())
        }
        fn time(&mut self, n: &u32) -> Result<f64, Rejection> {
            Ok(if *n == 2 { self.0 } else { f64::from(*n) })
        }
    }
    for time in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
        let search = Search::new(TuningStore::none(), key());
        assert_eq!(search.run(&CANDIDATES, &mut Broken(time)).unwrap().config, 3);
    }
}

/// Other code, other candidates, another problem, device or driver: another search.
#[test]
fn old_results_are_not_taken_for_new_ones() {
    let folder = Folder::new("old");
    folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    let mut newer = Fake { version: 1, ..Fake::default() };
    let tuned = folder.search().run(&CANDIDATES, &mut newer).unwrap();
    assert_eq!((tuned.measured, tuned.reused, tuned.is_from_store), (6, 0, false));
    let more = [1, 5, 3, 6, 2, 4, 7];
    let tuned = folder.search().run(&more, &mut Fake { version: 1, ..Fake::default() }).unwrap();
    assert_eq!((tuned.config, tuned.measured, tuned.reused), (1, 1, 6));
    let others = [
        TuningKey { device: "other".into(), ..key() },
        TuningKey { driver: "2".into(), ..key() },
        TuningKey { problem: "9x8x8".into(), ..key() },
        TuningKey { regime: Regime::Steady, ..key() },
    ];
    for other in others {
        let search = Search::new(TuningStore::in_folder(&folder.0), other);
        assert_eq!(search.run(&CANDIDATES, &mut Fake::default()).unwrap().reused, 0);
    }
}

/// However the file is damaged, every result is the measured one.
#[test]
fn a_damaged_store_is_never_believed() {
    let folder = Folder::new("damaged");
    folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for round in 0..400 {
        let mut damaged = whole.clone();
        match round % 4 {
            0 => damaged.truncate(random(whole.len())),
            1 => damaged[random(whole.len())] ^= 1 << random(8),
            2 => {
                let at = random(whole.len());
                damaged.splice(at..at, b"{\"best\":{\"config\":\"7\"}}\n".iter().copied());
            }
            _ => {
                let mut lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
                lines.remove(random(lines.len()));
                damaged = lines.concat();
            }
        }
        fs::write(folder.file(), &damaged).unwrap();
        let tuned = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
        assert_eq!((tuned.config, tuned.seconds), (2, 2.0), "round {round}");
        // What was added is found by the next search.
        let again = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
        assert!(again.is_from_store, "round {round}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_no_error() {
    let folder = Folder::new("refused");
    // A file where the folder should be.
    fs::write(&folder.0, b"").unwrap();
    let tuned = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    assert_eq!(tuned.config, 2);
    assert!(tuned.store_error.is_some());
}

/// Short windows choose who comes to the last rounds, long ones who wins.
#[test]
fn the_last_rounds_decide() {
    struct Two;
    impl Measure<u32> for Two {
        fn code(&mut self, n: &u32) -> Result<String, Rejection> {
            Ok(n.to_string())
        }
        fn check(&mut self, _: &u32) -> Result<(), Rejection> {
            Ok(())
        }
        fn time(&mut self, n: &u32) -> Result<f64, Rejection> {
            Ok(1.0 / f64::from(*n))
        }
        fn time_quickly(&mut self, n: &u32) -> Result<f64, Rejection> {
            Ok(f64::from(*n))
        }
    }
    let effort = Effort { finalists: 3, ..Effort::default() };
    let search = Search::new(TuningStore::none(), key()).effort(effort);
    // 2, 3 and 4 are the fastest in short windows, and 4 is the fastest of these in long ones.
    assert_eq!(search.run(&CANDIDATES, &mut Two).unwrap().config, 4);
}

#[test]
fn the_effort_bounds_what_is_measured() {
    let effort = Effort { candidates: 3, rounds: 2, finalists: 2, final_rounds: 5 };
    let search = Search::new(TuningStore::none(), key()).effort(effort);
    let mut device = Fake::default();
    let tuned = search.run(&CANDIDATES, &mut device).unwrap();
    assert_eq!((tuned.config, tuned.measured), (3, 3));
    // 6 takes twice as long as 3, and has one window.
    assert_eq!(device.timed.len(), 2 * 2 + 1 + 2 * 5);
}

/// A problem that no kernel takes is refused before anything is measured.
#[test]
fn problems_that_cannot_be_measured_are_refused_at_once() {
    let device = Device::sim().unwrap();
    let space = GemmSpace::new(Target::SM_80, Scalar::Bf16);
    let said = |problem: GemmProblem| {
        let error = tune(&device, &space, &problem).unwrap_err();
        assert!(matches!(error, SearchError::Unsupported { .. }), "{error}");
        error.to_string()
    };
    let problem = GemmProblem { batch: 2, ..GemmProblem::new(64, 64, 64) };
    let same = MatrixStrides { batch: Some(0), ..Default::default() };
    let narrow = MatrixStrides { leading: Some(63), ..Default::default() };
    assert!(said(GemmProblem { d: same, ..problem }).contains("matrices of D that overlap"));
    assert!(said(GemmProblem { a: narrow, ..problem }).contains("this problem: "));
    // Where matrices lie is no reason.
    let wide = MatrixStrides { leading: Some(80), ..Default::default() };
    let text = said(GemmProblem { a: wide, b: same, d: wide, ..problem });
    assert_eq!(text, "cannot tune on the simulator, whose times mean nothing");
}

/// Says in which folder, and as which of the processes, a child searches.
const CHILD: &str = "TILEWRIGHT_TUNER_CHILD";
const PROCESSES: u32 = 16;
const EACH: u32 = 8;

/// Sixteen processes that begin one store at once add all of their results to it.
#[test]
fn sixteen_searches_at_once_lose_no_result() {
    for round in 0..4 {
        let folder = Folder::new(&format!("at-once-{round}"));
        let go = folder.0.with_extension("go");
        let _ = fs::remove_file(&go);
        let child = |process: u32| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "search::searching_child", "--nocapture"]);
            command.env(CHILD, format!("{process} {}", folder.0.display()));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..PROCESSES).map(child).collect();
        std::thread::sleep(std::time::Duration::from_millis(100));
        fs::write(&go, b"").unwrap();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && text.contains("searched"), "{text}");
        }
        fs::remove_file(&go).unwrap();
        let all: Vec<u32> = (0..PROCESSES * EACH).collect();
        let mut device = Fake::default();
        let effort = Effort { candidates: all.len(), ..Effort::default() };
        let found = folder.search().effort(effort).run(&all, &mut device).unwrap();
        assert_eq!(found.reused, all.len(), "in round {round}");
        let text = fs::read_to_string(folder.file()).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("{\"key\"")).count(), 1);
    }
}

/// The search of one of the processes.
#[test]
fn searching_child() {
    let Ok(setting) = std::env::var(CHILD) else { return };
    let (process, folder) = setting.split_once(' ').unwrap();
    let (process, folder) = (process.parse::<u32>().unwrap(), PathBuf::from(folder));
    while !folder.with_extension("go").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let candidates: Vec<u32> = (process * EACH..(process + 1) * EACH).collect();
    let search = Search::new(TuningStore::in_folder(&folder), key());
    let tuned = search.run(&candidates, &mut Fake::default()).unwrap();
    assert!(tuned.store_error.is_none(), "{:?}", tuned.store_error);
    eprintln!("searched");
}

/// A link, fifo or folder at the name of a store is neither followed, nor waited for, nor written
/// over.
#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_read_is_never_written_over() {
    let run = |folder: &Folder| {
        let tuned = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
        assert_eq!(tuned.config, 2);
        tuned.store_error.map(|error| error.to_string()).unwrap_or_default()
    };
    let folder = Folder::new("planted");
    fs::create_dir_all(&folder.0).unwrap();
    let victim = folder.0.join("victim");
    fs::write(&victim, b"mine").unwrap();
    std::os::unix::fs::symlink(&victim, folder.file()).unwrap();
    assert!(run(&folder).contains("it is a link"));
    assert_eq!(fs::read(&victim).unwrap(), b"mine");

    fs::remove_file(folder.file()).unwrap();
    assert!(Command::new("mkfifo").arg(folder.file()).status().unwrap().success());
    assert!(run(&folder).contains("it is a fifo"));

    // Longer than what is read: its end is not known.
    fs::remove_file(folder.file()).unwrap();
    let bytes = (64 << 20) + 1;
    fs::File::create(folder.file()).unwrap().set_len(bytes).unwrap();
    assert!(run(&folder).contains("at most 67108864"));
    assert_eq!(fs::metadata(folder.file()).unwrap().len(), bytes);
}

/// A file that begins with something else keeps it, and has the results behind.
#[test]
fn a_store_only_grows() {
    let folder = Folder::new("grows");
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.file(), "another text\nthat was cut o").unwrap();
    let first = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    assert!(first.store_error.is_none());
    let text = fs::read_to_string(folder.file()).unwrap();
    assert!(text.starts_with("another text\nthat was cut o\n"), "{text}");
    let second = folder.search().run(&CANDIDATES, &mut Fake::default()).unwrap();
    assert_eq!((second.is_from_store, second.config), (true, 2));
}
