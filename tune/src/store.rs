//! [`TuningStore`]: keeps search results on disk for later searches. A program that tunes at
//! start-up uses one, so that only its first run measures.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use tilewright::kernels::gemm::Regime;
use tilewright::runtime::cache_folder;

/// Search results on disk, one file per [`TuningKey`].
///
/// A file has one line per result: the first 16 digits of the SHA-256 hash of the rest of the line,
/// a space, and JSON. A line with the key precedes the results that belong to it. Lines are only
/// ever appended, each with a single write under a file lock (on Unix). So any number of processes
/// can share a folder, and a killed process leaves at most one incomplete line.
///
/// A line with a wrong hash is ignored, and so are results after another key's line. A file is
/// never truncated. If it cannot be read, is a link, or is not a regular file of at most 64 MiB,
/// nothing is written. A folder that cannot be read or written counts as empty, which is not an
/// error.
///
/// ```
/// use tilewright_tune::TuningStore;
/// assert_eq!(TuningStore::in_folder("/tuned").folder(), Some("/tuned".as_ref()));
/// assert_eq!(TuningStore::none().folder(), None);
/// ```
#[derive(Clone, Debug)]
pub struct TuningStore {
    folder: Option<PathBuf>,
}

/// What a stored result depends on besides the kernel's code: a search reuses results only if
/// device, driver, problem and regime are the same. (Each result also names its code.)
///
/// ```
/// use tilewright_tune::{Regime, TuningKey, TuningStore};
/// let key = TuningKey {
///     device: "NVIDIA H200".into(),
///     driver: "580.159.04, CUDA 13.0".into(),
///     problem: "bf16 8192x8192x8192".into(),
///     regime: Regime::Steady,
/// };
/// // After an update of the driver, a search measures anew.
/// let updated = TuningKey { driver: "590.10, CUDA 13.1".into(), ..key.clone() };
/// let store = TuningStore::in_folder("/tuned");
/// assert_ne!(store.file(&key), store.file(&updated));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TuningKey {
    /// The device's name.
    pub device: String,
    /// The driver release, as the operating system reports it, and the CUDA version.
    pub driver: String,
    /// The problem: sizes, types, strides.
    pub problem: String,
    /// How the GPU was loaded while it was timed: in a short window, in a burst, or in steady work.
    pub regime: Regime,
}

/// What became of a candidate in an earlier search. [`TuningStore`] keeps it, so that a later
/// search neither measures nor fails it again.
///
/// ```
/// use tilewright_tune::Outcome;
/// let text = serde_json::to_string(&Outcome::Wrong("all zeros".into()))?;
/// assert_eq!(text, r#"{"wrong":"all zeros"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It gave the right result; these are the seconds per launch in each window.
    Right(Vec<f64>),
    /// It could not be built, loaded or run, and why.
    Failed(String),
    /// It gave a wrong result, and how.
    Wrong(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// Names the key of the lines that follow.
    Key(TuningKey),
    /// A candidate's outcome, with the hash of its code.
    Result { config: String, code: String, outcome: Outcome },
    /// The end of a search: the winner, its code, its time, and the hash of all candidate names.
    Best { config: String, code: String, seconds: f64, space: String },
}

/// The winner of a finished search. A later search returns it without measuring if candidates and
/// code are the same.
///
/// ```
/// use tilewright_tune::Best;
/// let [config, code, space] = ["128x256", "3f2a", "9c01"].map(String::from);
/// let best = Best { config, code, seconds: 1.5e-3, space };
/// // Other code has to be measured again.
/// assert_ne!(Best { code: "77b0".into(), ..best.clone() }, best);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The candidate's name.
    pub config: String,
    /// The hash of its code.
    pub code: String,
    /// Its median time in the final rounds.
    pub seconds: f64,
    /// The hash of the names of all candidates searched.
    pub space: String,
}

/// What the store knows for one key: the outcomes, and the winner if a search has finished.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) results: HashMap<String, (String, Outcome)>,
    pub(super) best: Option<Best>,
    /// How many lines could not be read, because their hash was wrong or their text damaged.
    pub(super) damaged: usize,
}

/// Reads at most this many bytes of a file.
const MOST_BYTES: u64 = 64 << 20;

impl TuningStore {
    /// Returns the store in the folder `tuning` of [`cache_folder`], which the environment variable
    /// `TILEWRIGHT_CACHE` names or disables with `off`. Use it unless you have a reason to keep
    /// results apart.
    pub fn shared() -> TuningStore {
        TuningStore { folder: cache_folder().map(|folder| folder.join("tuning")) }
    }

    /// Returns a store in `folder`, for example next to your program's data. Results that are
    /// already there are used; a folder that does not exist is created with the first result.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TuningStore {
        TuningStore { folder: Some(folder.into()) }
    }

    /// Returns a store that keeps nothing, so that every search measures anew. Use it in tests and
    /// benchmarks.
    pub const fn none() -> TuningStore {
        TuningStore { folder: None }
    }

    /// Returns the store's folder, for example to print it, or `None` if the store keeps nothing.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the file for a key, or `None` if the store keeps nothing. Use it to delete or copy
    /// one problem's results.
    ///
    /// ```
    /// use tilewright_tune::{Regime, TuningKey, TuningStore};
    /// let key = TuningKey {
    ///     device: "NVIDIA H200".into(),
    ///     driver: "580.159.04, CUDA 13.0".into(),
    ///     problem: "bf16 8192x8192x8192".into(),
    ///     regime: Regime::Steady,
    /// };
    /// let file = TuningStore::in_folder("/tuned").file(&key).expect("there is a folder");
    /// assert_eq!(file.parent(), Some("/tuned".as_ref()));
    /// assert_ne!(TuningStore::in_folder("/tuned").file(&TuningKey { regime: Regime::Burst, ..key }), Some(file));
    /// ```
    pub fn file(&self, key: &TuningKey) -> Option<PathBuf> {
        let name = hash(&Line::Key(key.clone()).json());
        Some(self.folder.as_ref()?.join(format!("{name}.jsonl")))
    }

    /// Reads the results for a key. A file that is missing or cannot be read counts as empty.
    pub(super) fn read(&self, key: &TuningKey) -> Known {
        let mut known = Known::default();
        let Some(path) = self.file(key) else { return known };
        let Ok(text) = open(&path, OpenOptions::new().read(true)).and_then(read) else {
            return known;
        };
        let mut is_of_key = false;
        for line in text.lines().filter(|line| !line.is_empty()) {
            match Line::parse(line) {
                Some(Line::Key(found)) => {
                    is_of_key = found == *key;
                    known.damaged += usize::from(!is_of_key);
                }
                // The latest result counts.
                Some(Line::Result { config, code, outcome }) if is_of_key => {
                    known.results.insert(config, (code, outcome));
                }
                Some(Line::Best { config, code, seconds, space }) if is_of_key => {
                    known.best = Some(Best { config, code, seconds, space });
                }
                Some(_) | None => known.damaged += 1,
            }
        }
        known
    }

    /// Appends a candidate's outcome, right after it has been measured, so that an interrupted
    /// search can resume.
    pub(super) fn add(
        &self,
        key: &TuningKey,
        config: &str,
        code: &str,
        outcome: &Outcome,
    ) -> io::Result<()> {
        let (config, code) = (config.to_owned(), code.to_owned());
        self.append(key, &Line::Result { config, code, outcome: outcome.clone() })
    }

    /// Appends the end of a search.
    pub(super) fn finish(&self, key: &TuningKey, best: &Best) -> io::Result<()> {
        let Best { config, code, seconds, space } = best.clone();
        self.append(key, &Line::Best { config, code, seconds, space })
    }

    fn append(&self, key: &TuningKey, line: &Line) -> io::Result<()> {
        let Some(path) = self.file(key) else { return Ok(()) };
        if let Some(folder) = path.parent() {
            private_folders().create(folder)?;
        }
        let file = open(&path, private_files().read(true).append(true).create(true))?;
        lock(&file)?;
        let text = read(&file)?;
        // A truncated last line must not damage the new one.
        let mut new = String::from(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
        let last_key = text.lines().filter_map(Line::parse_key).next_back();
        if last_key.as_ref() != Some(key) {
            new += &format!("{}\n", Line::Key(key.clone()).text());
        }
        new += &format!("{}\n", line.text());
        // The lock is released when the file is closed.
        (&file).write_all(new.as_bytes())
    }
}

impl Line {
    fn json(&self) -> String {
        // Everything in a line can be written as JSON: texts and floats.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn text(&self) -> String {
        let json = self.json();
        format!("{} {json}", hash(&json))
    }

    fn parse(text: &str) -> Option<Line> {
        let (sum, json) = text.split_once(' ')?;
        (sum == hash(json)).then(|| serde_json::from_str(json).ok())?
    }

    /// Returns the key, if the line has one.
    fn parse_key(text: &str) -> Option<TuningKey> {
        // Other lines need not be parsed as JSON.
        let (_, json) = text.split_once(' ')?;
        match json.starts_with("{\"key\"").then(|| Line::parse(text))?? {
            Line::Key(key) => Some(key),
            Line::Result { .. } | Line::Best { .. } => None,
        }
    }
}

/// Returns the first 16 hex digits of a text's SHA-256 hash.
pub(super) fn hash(text: &str) -> String {
    let hash = hmac_sha256::Hash::hash(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a regular file of at most [`MOST_BYTES`]. Does not follow a link at the end of the path,
/// and opens nothing else, because opening a fifo waits for a writer and opening a device can have
/// side effects.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(data) => check_regular(path, &data)?,
        // The options decide whether the file is created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    #[cfg(unix)]
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    // The file may have been replaced in between.
    let data = file.metadata()?;
    check_regular(path, &data)?;
    match data.len() {
        0..=MOST_BYTES => Ok(file),
        bytes => {
            Err(unusable(path, &format!("it has {bytes} bytes, but at most {MOST_BYTES} are read")))
        }
    }
}

fn check_regular(path: &Path, data: &Metadata) -> io::Result<()> {
    let kind = data.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let found = match (kind.is_symlink(), kind.is_dir()) {
        (true, _) => "a link",
        (_, true) => "a folder",
        _ => special(kind),
    };
    Err(unusable(path, &format!("it is {found}")))
}

/// Names a file that is none of the usual ones.
#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    if kind.is_fifo() { "a fifo" } else { "a device or a socket" }
}

#[cfg(not(unix))]
fn special(_kind: FileType) -> &'static str {
    "no file"
}

fn unusable(path: &Path, why: &str) -> io::Error {
    let text = format!("`{}` is not used: {why}; remove it", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Returns options that create files which only the user can read and write.
fn private_files() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    options
}

/// Returns a builder of folders, with missing parents, that only the user can read and write.
fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder
}

/// Waits until no other process is appending to the file.
#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Some network file systems have no locks. Lines are still appended whole there; at
            // worst a key is repeated.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            locked => return locked,
        }
    }
}

/// On Windows one write appends in one piece, and a lock would keep readers out.
#[cfg(not(unix))]
fn lock(_file: &File) -> io::Result<()> {
    Ok(())
}

fn read(file: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // A damaged byte costs only its own line.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
