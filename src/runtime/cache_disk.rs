//! [`Disk`]: the folder of a module cache.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use super::cache_folder::CacheFolder;
use super::trust::{Unusable, check_folder, check_owner, make_private_folder, open_regular};
use super::whole_file::{ABANDONED, Purpose, is_hex, remove_abandoned, write_file};

/// The largest entry, in bytes.
pub(super) const ENTRY_BYTES: u64 = 128 << 20;
/// The limit of a folder that is given no other one, in bytes.
pub(super) const FOLDER_BYTES: u64 = 1 << 30;
/// How old the time of the last use of an entry may be before it is written again.
const USE_RESOLUTION: Duration = Duration::from_secs(60);

const EXTENSION: &str = "module";

/// The folder of a module cache, with a file for each entry.
#[derive(Debug)]
pub(super) struct Disk {
    folder: CacheFolder,
    /// The limit of all entries together, in bytes.
    pub(super) limit: u64,
    listed: Mutex<Option<Listed>>,
}

/// What is known of the bytes in the folder.
#[derive(Debug)]
struct Listed {
    /// Their number when the folder was last listed.
    then: u64,
    /// Those that were written since.
    since: u64,
}

/// An entry as a listing shows it.
struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Disk {
    pub(super) fn new(folder: CacheFolder) -> Disk {
        Disk { folder, limit: FOLDER_BYTES, listed: Mutex::default() }
    }

    /// Sets the limit of all entries together, in bytes.
    pub(super) fn limited(self, limit: u64) -> Disk {
        Disk { limit, ..self }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// The path of the entry of this name: 64 hexadecimal digits.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name).with_extension(EXTENSION)
    }

    /// Checks the folder, and those above it that belong to this crate.
    fn check(&self) -> Result<(), Unusable> {
        self.folder.path.ancestors().take(self.folder.own).try_for_each(check_folder)
    }

    /// Reads an entry that nobody but the user can have written.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Unusable> {
        self.check()?;
        self.read_path(&self.path(name))
    }

    fn read_path(&self, path: &Path) -> Result<Vec<u8>, Unusable> {
        let (file, data) = open_regular(path, OpenOptions::new().read(true), ENTRY_BYTES)?;
        check_owner(path, &data)?;
        let is_old = |used: SystemTime| used.elapsed().is_ok_and(|age| age >= USE_RESOLUTION);
        if data.modified().is_ok_and(is_old) {
            // Where it cannot be written, the entry only counts as older than it is.
            let _ = file.set_modified(SystemTime::now());
        }
        let mut bytes = Vec::with_capacity(data.len() as usize);
        // Another process may make it longer meanwhile.
        file.take(ENTRY_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes an entry, and removes others if the folder is too large then; the number of those.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<u64> {
        let limit = self.limit.min(ENTRY_BYTES);
        if bytes.len() as u64 > limit {
            let len = bytes.len();
            let message = format!("an entry of {len} bytes is larger than the limit of {limit}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        make_private_folder(&self.folder.path)?;
        self.check()?;
        static CLEANED: Once = Once::new();
        CLEANED.call_once(|| remove_abandoned(&self.folder.path, ABANDONED));
        let path = self.path(name);
        // An entry that is cut off when the power fails is found by its checksum and compiled anew, so a load does not
        // wait for the disk.
        write_file(&path, Purpose::Cache, |file: &mut File| file.write_all(bytes))?;
        Ok(self.make_room(&path, bytes.len() as u64))
    }

    /// Removes the entries that were not used for the longest time, until an eighth of the limit is free, where all
    /// of them together are larger than the limit; their number. `newest` was just written, with `bytes` bytes.
    fn make_room(&self, newest: &Path, bytes: u64) -> u64 {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Listed { then, since }) = listed.as_mut() {
            *since = since.saturating_add(bytes);
            // Other processes write too, so that the folder is listed again from time to time.
            if then.saturating_add(*since) <= self.limit && *since <= self.limit / 16 {
                return 0;
            }
        }
        let mut entries = self.entries();
        let mut total = entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
        let mut removed = 0;
        if total > self.limit {
            entries.sort_by_key(|entry| entry.used);
            for entry in entries.iter().filter(|entry| entry.path != newest) {
                if total <= self.limit - self.limit / 8 {
                    break;
                }
                if fs::remove_file(&entry.path).is_ok() {
                    total = total.saturating_sub(entry.bytes);
                    removed += 1;
                }
            }
        }
        *listed = Some(Listed { then: total, since: 0 });
        removed
    }

    /// The entries, in no order.
    fn entries(&self) -> Vec<Entry> {
        let Ok(found) = fs::read_dir(&self.folder.path) else { return Vec::new() };
        let entry = |found: io::Result<fs::DirEntry>| {
            let found = found.ok()?;
            let name = found.file_name();
            let name = name.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
            // Whatever has another name is not the cache's.
            let data =
                is_hex(name, 64).then(|| found.metadata().ok())?.filter(Metadata::is_file)?;
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Entry { path: found.path(), bytes: data.len(), used })
        };
        found.filter_map(entry).collect()
    }

    /// Reads each entry that can be read, in the order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut entries = if self.check().is_ok() { self.entries() } else { Vec::new() };
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.into_iter().filter_map(|entry| self.read_path(&entry.path).ok())
    }

    /// The number of entries and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let entries = self.entries();
        (entries.len(), entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add))
    }

    /// Removes an entry. Where it cannot be removed, it is refused or found to be corrupt each time.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Removes all entries, and what killed processes have left.
    pub(super) fn clear(&self) -> io::Result<()> {
        remove_abandoned(&self.folder.path, Duration::ZERO);
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.entries().into_iter().try_for_each(|entry| match fs::remove_file(entry.path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }
}
