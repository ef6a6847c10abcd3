//! Files that are there whole or not at all, with any number of processes.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The age at which a file that was never renamed belongs to a process that was killed.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

/// Where a file is when it counts as written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaches {
    /// With the system, which all processes see, and which writes it to the disk when it likes.
    System,
    Disk,
}

/// Writes the file under another name first, so that it is there whole or not at all.
pub(super) fn write_file(path: &Path, bytes: &[u8], reaches: Reaches) -> io::Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    let number = WRITTEN.fetch_add(1, Relaxed);
    let temporary = folder.join(format!(".{}-{number}.partial", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        if reaches == Reaches::Disk {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Removes files of a folder of the cache of that age that were never renamed.
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

/// Whether a file has a name that [`write_file`] gives: `.PROCESS-NUMBER.partial`.
fn is_temporary(name: &str) -> bool {
    let numbers = name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once('-'))
        .is_some_and(|(process, number)| is_number(process) && is_number(number))
}
