//! [`TuningStore`]: what was measured, kept for the next search.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::regime::Regime;
use crate::runtime::cache_folder::cache_folder;

/// Results of searches on the disk: a file for each [`TuningKey`].
///
/// A file has a line for each result: the first 16 digits of the BLAKE3 hash of the rest of the line, a space, and
/// JSON. Lines are only ever added, each with one write, so several processes may share a folder and one that is
/// killed leaves at most one line that is cut off. A line whose hash is not right is not read; a file whose first line
/// is not that of its key is begun anew. A folder that cannot be read or written is one without results, and no error.
#[derive(Clone, Debug)]
pub struct TuningStore {
    folder: Option<PathBuf>,
}

/// What results depend on, beside the code of the kernel, which each result names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TuningKey {
    /// The name of the device.
    pub device: String,
    /// The release of its driver, as the system tells it, and the version of CUDA.
    pub driver: String,
    /// The problem: sizes, types, where the matrices lie.
    pub problem: String,
    /// How it was timed.
    pub regime: Regime,
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was right, and took so many seconds in each window.
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
    /// What became of a candidate, and the hash of its code.
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

/// What a store has for a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) results: HashMap<String, (String, Outcome)>,
    pub(super) best: Option<Best>,
    /// Lines that could not be read.
    pub(super) damaged: usize,
}

/// The most bytes of a file that are read.
const MOST_BYTES: u64 = 64 << 20;

impl TuningStore {
    /// The store in the user's cache folder, or below the folder that the environment variable `TILEWRIGHT_CACHE`
    /// names (`off` is none).
    pub fn shared() -> TuningStore {
        TuningStore { folder: cache_folder("tuning") }
    }

    /// A store in a folder, which is made when the first result is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TuningStore {
        TuningStore { folder: Some(folder.into()) }
    }

    /// A store that keeps nothing.
    pub const fn none() -> TuningStore {
        TuningStore { folder: None }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The file of a key.
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

    /// What there is for the key.
    pub(super) fn read(&self, key: &TuningKey) -> Known {
        let mut known = Known::default();
        let Some(text) = self.file(key).and_then(|path| read_file(&path).ok()) else {
            return known;
        };
        let mut lines = text.lines().filter(|line| !line.is_empty()).map(Line::parse);
        match lines.next() {
            Some(Some(Line::Key(found))) if found == *key => {}
            Some(_) => {
                known.damaged = 1 + lines.count();
                return known;
            }
            None => return known,
        }
        for line in lines {
            match line {
                // The latest one counts.
                Some(Line::Result { config, code, outcome }) => {
                    known.results.insert(config, (code, outcome));
                }
                Some(Line::Best { config, code, seconds, space }) => {
                    known.best = Some(Best { config, code, seconds, space });
                }
                Some(Line::Key(_)) | None => known.damaged += 1,
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
            fs::create_dir_all(folder)?;
        }
        let first = Line::Key(key.clone()).text();
        let text = read_file(&path).unwrap_or_default();
        if text.lines().find(|line| !line.is_empty()) != Some(first.as_str()) {
            // It is another file, or none.
            return fs::write(&path, format!("{first}\n{}\n", line.text()));
        }
        let mut file = fs::OpenOptions::new().append(true).open(&path)?;
        // A line that was cut off must not take this one with it.
        let start = if text.ends_with('\n') { "" } else { "\n" };
        file.write_all(format!("{start}{}\n", line.text()).as_bytes())
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
}

/// The first 16 digits of the hash of a text.
pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect()
}

fn read_file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // A damaged byte costs its line only.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
