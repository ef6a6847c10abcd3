//! [`TuningStore`] keeps the results of searches for the next search.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kernels::gemm::Regime;
use crate::runtime::cache_folder::CacheFolder;
use crate::runtime::trust::{make_private_folder, open_regular, private};

/// Results of searches on the disk: a file for each [`TuningKey`].
///
/// A file has a line for each result: the first 16 digits of the SHA-256 hash of the rest of the line, a space, and
/// JSON. A line with the key comes before the results of the key. Lines are only ever added, under a lock of the file (on
/// Unix) and each with one write. So any number of processes may share a folder, and a killed process leaves at most
/// one incomplete line. A line with a wrong hash is ignored, and so are results behind the line of another key. A file
/// is never truncated: if it cannot be read, is no regular file of at most 64 MiB, or is a link, nothing is written. A
/// folder that cannot be read or written counts as empty, which is no error.
#[derive(Clone, Debug)]
pub struct TuningStore {
    folder: Option<PathBuf>,
}

/// The conditions of a result beside the code of the kernel. Each result names its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TuningKey {
    /// The name of the device.
    pub device: String,
    /// The release of its driver, as the system tells it, and the version of CUDA.
    pub driver: String,
    /// The problem: sizes, types, strides.
    pub problem: String,
    /// The regime of the times.
    pub regime: Regime,
}

/// The outcome of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The candidate was right; these are its seconds in each window.
    Right(Vec<f64>),
    /// It was not built, not loaded, or did not run: why.
    Failed(String),
    /// It ran and gave another result than it must: how.
    Wrong(String),
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// The first one.
    Key(TuningKey),
    /// The outcome of a candidate, and the hash of its code.
    Result { config: String, code: String, outcome: Outcome },
    /// The end of a search: the best candidate, its code, its seconds, and the hash of the names of all candidates.
    Best { config: String, code: String, seconds: f64, space: String },
}

/// The best candidate of a search that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Its name.
    pub config: String,
    /// The hash of its code.
    pub code: String,
    /// The median of its times in the last rounds.
    pub seconds: f64,
    /// The hash of the names of the candidates that were searched.
    pub space: String,
}

/// The results of a store for a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) results: HashMap<String, (String, Outcome)>,
    pub(super) best: Option<Best>,
    /// Lines that could not be read.
    pub(super) damaged: usize,
}

/// The maximum number of bytes of a file that are read.
const MOST_BYTES: u64 = 64 << 20;

impl TuningStore {
    /// Returns the store in the user's cache folder, or below the folder that the environment variable
    /// `TILEWRIGHT_CACHE` names (`off` is none).
    pub fn shared() -> TuningStore {
        TuningStore { folder: CacheFolder::of_user("tuning").map(|folder| folder.path) }
    }

    /// Returns a store in a folder, which is made when the first result is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TuningStore {
        TuningStore { folder: Some(folder.into()) }
    }

    /// Returns a store that keeps nothing.
    pub const fn none() -> TuningStore {
        TuningStore { folder: None }
    }

    /// Returns the folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the file of a key.
    ///
    /// ```
    /// use tilewright::tune::{Regime, TuningKey, TuningStore};
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

    /// Reads the results of the key.
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
                // The latest one counts.
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

    /// Adds what became of a candidate.
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

    /// Notes the end of a search.
    pub(super) fn finish(&self, key: &TuningKey, best: &Best) -> io::Result<()> {
        let Best { config, code, seconds, space } = best.clone();
        self.append(key, &Line::Best { config, code, seconds, space })
    }

    fn append(&self, key: &TuningKey, line: &Line) -> io::Result<()> {
        let Some(path) = self.file(key) else { return Ok(()) };
        if let Some(folder) = path.parent() {
            make_private_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        let file = open(&path, private(options.read(true).append(true).create(true)))?;
        lock(&file)?;
        let text = read(&file)?;
        // A line that was cut off must not take this one with it.
        let mut new = String::from(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
        let last_key = text.lines().filter_map(Line::parse_key).next_back();
        if last_key.as_ref() != Some(key) {
            new += &format!("{}\n", Line::Key(key.clone()).text());
        }
        new += &format!("{}\n", line.text());
        // The lock ends with the file.
        (&file).write_all(new.as_bytes())
    }
}

impl Line {
    fn json(&self) -> String {
        // All that a line has can be written as JSON: texts, finite and other numbers.
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

    /// Returns the key that a line names, if it is the line of a key.
    fn parse_key(text: &str) -> Option<TuningKey> {
        // All other lines need not be read as JSON.
        let (_, json) = text.split_once(' ')?;
        match json.starts_with("{\"key\"").then(|| Line::parse(text))?? {
            Line::Key(key) => Some(key),
            Line::Result { .. } | Line::Best { .. } => None,
        }
    }
}

/// Returns the first 16 digits of the hash of a text.
pub(super) fn hash(text: &str) -> String {
    let hash = hmac_sha256::Hash::hash(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    Ok(open_regular(path, options, MOST_BYTES)?.0)
}

/// Waits until no other process adds to the file.
#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Some network folders have no locks. Lines are still added whole there, at most with a key too many.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            locked => return locked,
        }
    }
}

/// Windows adds what one call writes in one piece, and its locks would keep readers out.
#[cfg(not(unix))]
fn lock(_file: &File) -> io::Result<()> {
    Ok(())
}

fn read(file: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // A damaged byte costs its line only.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
