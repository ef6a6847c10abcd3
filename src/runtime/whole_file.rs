//! Atomic file writes, safe across processes: a file has the old or the new content, never half of
//! it. The caches use them, because several processes may write the same entry.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::random_name::random_name;
use super::trust::private;

/// From this age on, a temporary file must belong to a process that was killed.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A cache entry: only this user can read it, and the system writes it to disk whenever it
    /// wants.
    Cache,
    /// A document: it has the usual permissions, and is on disk when the call returns.
    Document,
}

/// Writes a file under a new random name, then renames it to `path`. Replaces whatever `path` was,
/// even a link.
pub(super) fn write_file(
    path: &Path,
    purpose: Purpose,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let temporary = folder.join(format!(".{}.partial", random_name()));
    let mut options = OpenOptions::new();
    // Fails if the name already exists, even as a link.
    options.write(true).create_new(true);
    if purpose == Purpose::Cache {
        private(&mut options);
    }
    let mut file = options.open(&temporary)?;
    let write = || {
        fill(&mut file)?;
        if purpose == Purpose::Document {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Removes temporary files of at least this age from a cache folder.
pub(super) fn remove_abandoned(folder: &Path, age: Duration) {
    let Ok(listed) = fs::read_dir(folder) else { return };
    for entry in listed.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(is_temporary);
        let written =
            entry.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::now());
        if ours && written.elapsed().is_ok_and(|since| since >= age) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a name looks like those that [`write_file`] gives to temporary files:
/// `.0123456789abcdef.partial`.
fn is_temporary(name: &str) -> bool {
    let digits = name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial"));
    digits.is_some_and(|digits| is_hex(digits, 16))
}

/// Returns whether a text consists of `len` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
