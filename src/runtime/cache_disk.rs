//! [`Disk`] reads and writes a module cache's folder: one file per entry, written atomically. If
//! the folder is full, the least recently used entries go.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use super::cache_folder::CacheFolder;
use super::trust::{Unusable, check_folder, check_owner, make_private_folder, open_regular};
use super::whole_file::{ABANDONED, Purpose, is_hex, remove_abandoned, write_file};
use crate::sorting::{sort_by, sort_by_key};

/// The maximum size of an entry in bytes.
pub(super) const ENTRY_BYTES: u64 = 128 << 20;
/// The default limit of a folder in bytes.
pub(super) const FOLDER_BYTES: u64 = 1 << 30;
/// An entry's last-use time is written again only if it is older than this.
const USE_RESOLUTION: Duration = Duration::from_secs(60);

const EXTENSION: &str = "module";

/// A module cache's folder, with one file per entry.
#[derive(Debug)]
pub(super) struct Disk {
    folder: CacheFolder,
    /// The limit for all entries together, in bytes.
    pub(super) limit: u64,
    listed: Mutex<Option<Listed>>,
}

/// What is known about the size of the folder.
#[derive(Debug)]
struct Listed {
    /// The size in bytes when the folder was last listed.
    then: u64,
    /// How many bytes this process has written since then.
    since: u64,
}

/// An entry in a folder listing.
struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Disk {
    pub(super) fn new(folder: CacheFolder) -> Disk {
        Disk { folder, limit: FOLDER_BYTES, listed: Mutex::default() }
    }

    /// Sets the limit for all entries together, in bytes.
    pub(super) fn limited(self, limit: u64) -> Disk {
        Disk { limit, ..self }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Returns the path of the entry with this name, which consists of 64 hexadecimal digits.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name).with_extension(EXTENSION)
    }

    /// Checks the folder, and its parents as far as they belong to this crate.
    fn check(&self) -> Result<(), Unusable> {
        self.folder.path.ancestors().take(self.folder.own).try_for_each(check_folder)
    }

    /// Reads an entry, if nobody but the user can have written it.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Unusable> {
        self.check()?;
        self.read_path(&self.path(name))
    }

    fn read_path(&self, path: &Path) -> Result<Vec<u8>, Unusable> {
        let (file, data) = open_regular(path, OpenOptions::new().read(true), ENTRY_BYTES)?;
        check_owner(path, &data)?;
        let is_old = |used: SystemTime| used.elapsed().is_ok_and(|age| age >= USE_RESOLUTION);
        if data.modified().is_ok_and(is_old) {
            // If this fails, the entry only counts as older than it is.
            let _ = file.set_modified(SystemTime::now());
        }
        let mut bytes = Vec::with_capacity(data.len() as usize);
        // Another process may be appending to it, so the length is limited here, too.
        file.take(ENTRY_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes an entry. If the folder is too large then, removes others and returns how many.
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
        // Do not wait for the disk. If the power fails and cuts the entry off, its checksum is
        // wrong and it is compiled again.
        write_file(&path, Purpose::Cache, |file: &mut File| file.write_all(bytes))?;
        Ok(self.make_room(&path, bytes.len() as u64))
    }

    /// If all entries together exceed the limit, removes the least recently used ones until an
    /// eighth of the limit is free, and returns how many. `newest` was just written, with `bytes`
    /// bytes.
    fn make_room(&self, newest: &Path, bytes: u64) -> u64 {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Listed { then, since }) = listed.as_mut() {
            *since = since.saturating_add(bytes);
            // Other processes write here, too, so list the folder again from time to time.
            if then.saturating_add(*since) <= self.limit && *since <= self.limit / 16 {
                return 0;
            }
        }
        let mut entries = self.entries();
        let mut total = entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
        let mut removed = 0;
        if total > self.limit {
            sort_by_key(&mut entries, |entry| entry.used);
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

    /// Lists the entries in arbitrary order.
    fn entries(&self) -> Vec<Entry> {
        let Ok(found) = fs::read_dir(&self.folder.path) else { return Vec::new() };
        let entry = |found: io::Result<fs::DirEntry>| {
            let found = found.ok()?;
            let name = found.file_name();
            let name = name.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
            // Files with other names do not belong to the cache.
            let data =
                is_hex(name, 64).then(|| found.metadata().ok())?.filter(Metadata::is_file)?;
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Entry { path: found.path(), bytes: data.len(), used })
        };
        found.filter_map(entry).collect()
    }

    /// Reads all entries that can be read, sorted by name.
    pub(super) fn all(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut entries = if self.check().is_ok() { self.entries() } else { Vec::new() };
        sort_by(&mut entries, |a, b| a.path.cmp(&b.path));
        entries.into_iter().filter_map(|entry| self.read_path(&entry.path).ok())
    }

    /// Returns how many entries there are, and their total size in bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let entries = self.entries();
        (entries.len(), entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add))
    }

    /// Removes an entry. If that fails, later lookups refuse it or find it corrupt again.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Removes all entries, and the temporary files of killed processes.
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;
    use crate::runtime::cache::Key;
    use crate::runtime::cache::tests::{Folder, compiled, path_of};
    use crate::runtime::cache::{CacheStats, ModuleCache};
    use crate::runtime::trust::{Refusal, RefusalReason};

    /// A user that does not run the tests.
    const SOMEBODY: u32 = 12345;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// Creates a folder with one entry.
    fn filled(name: &str) -> (Folder, Key) {
        let (folder, key) = (Folder::new(name), Key::of(&["x"]));
        ModuleCache::in_folder(&folder.0).insert(key, compiled(1));
        (folder, key)
    }

    /// Looks a key up in a cache that has nothing in memory.
    fn look(folder: &Folder, key: Key) -> (CacheStats, Option<RefusalReason>) {
        let cache = ModuleCache::in_folder(&folder.0);
        let is_found = cache.find(key).is_some();
        assert_eq!(is_found, cache.stats().disk_hits == 1);
        (cache.stats(), cache.last_refusal().map(|refusal| refusal.reason))
    }

    #[test]
    fn only_the_user_can_use_what_is_written() {
        let (folder, key) = filled("private");
        let cache = ModuleCache::in_folder(folder.0.join("a/b"));
        cache.insert(key, compiled(2));
        for path in [folder.0.clone(), folder.0.join("a"), folder.0.join("a/b")] {
            assert_eq!(mode(&path), 0o700, "{path:?}");
        }
        assert_eq!(mode(&path_of(&cache, key)), 0o600);
    }

    #[test]
    fn what_others_can_write_is_not_used() {
        let (folder, key) = filled("writable");
        let entry = path_of(&ModuleCache::in_folder(&folder.0), key);
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            set_mode(&folder.0, mode);
            let (stats, reason) = look(&folder, key);
            assert_eq!((stats.refused_writable, stats.disk_hits), (1, 0), "{mode:o}");
            assert_eq!(reason, Some(RefusalReason::WritableByOthers { mode }));
            // Nothing is written there either.
            let cache = ModuleCache::in_folder(&folder.0);
            cache.insert(Key::of(&["y"]), compiled(2));
            assert_eq!((cache.stats().write_failures, cache.size().0), (1, 1));
        }
        set_mode(&folder.0, 0o755);
        assert_eq!(look(&folder, key).0.disk_hits, 1);
        for mode in [0o666, 0o620] {
            set_mode(&entry, mode);
            let (stats, reason) = look(&folder, key);
            assert_eq!((stats.refused_writable, stats.disk_hits), (1, 0), "{mode:o}");
            assert_eq!(reason, Some(RefusalReason::WritableByOthers { mode }));
        }
        set_mode(&entry, 0o644);
        assert_eq!(look(&folder, key).0.disk_hits, 1);
    }

    #[test]
    fn what_belongs_to_others_is_not_used() {
        let (folder, key) = filled("owner");
        let entry = path_of(&ModuleCache::in_folder(&folder.0), key);
        if chown(&entry, Some(SOMEBODY), None).is_err() {
            eprintln!("skipped: only the superuser can give a file away");
            return;
        }
        let user = crate::runtime::cuda::effective_user();
        let reason = Some(RefusalReason::Owner { owner: SOMEBODY, user });
        let (stats, found) = look(&folder, key);
        assert_eq!((stats.refused_owner, stats.disk_hits, found), (1, 0, reason));
        // The next insert compiles and replaces it.
        ModuleCache::in_folder(&folder.0).insert(key, compiled(1));
        assert_eq!(look(&folder, key).0.disk_hits, 1);
        chown(&folder.0, Some(SOMEBODY), None).unwrap();
        let (stats, found) = look(&folder, key);
        assert_eq!((stats.refused_owner, stats.disk_hits, found), (1, 0, reason));
        chown(&folder.0, Some(user), None).unwrap();

        // A parent folder that belongs to this crate is checked, too, and so is a link that
        // somebody else created.
        let name = key.hex();
        let below = Disk::new(CacheFolder { path: folder.0.join("tilewright/modules"), own: 2 });
        below.write(&name, b"code").unwrap();
        assert_eq!(below.read(&name).unwrap(), b"code");
        chown(folder.0.join("tilewright"), Some(SOMEBODY), None).unwrap();
        let Err(Unusable::Refused(refusal)) = below.read(&name) else { panic!("it was used") };
        assert_eq!(refusal.path, folder.0.join("tilewright"));
        let link = folder.0.join("link");
        symlink(&folder.0, &link).unwrap();
        let linked = Disk::new(CacheFolder::named(link.clone()));
        assert!(linked.read(&name).is_ok());
        std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).unwrap();
        assert!(matches!(linked.read(&name), Err(Unusable::Refused(Refusal { .. }))));
    }

    /// Opening a fifo would wait for a writer, and a 40 GiB file would fill the memory.
    #[test]
    fn only_files_of_the_size_of_an_entry_are_opened() {
        let (folder, key) = filled("special");
        let entry = path_of(&ModuleCache::in_folder(&folder.0), key);
        let other = folder.0.join("other");
        fs::copy(&entry, &other).unwrap();
        let make: [(&str, &dyn Fn()); 4] = [
            ("a fifo", &|| {
                let made = std::process::Command::new("mkfifo").arg(&entry).status();
                assert!(made.unwrap().success());
            }),
            ("a socket", &|| drop(UnixListener::bind(&entry).unwrap())),
            ("a link", &|| symlink(&other, &entry).unwrap()),
            ("a folder", &|| fs::create_dir(&entry).unwrap()),
        ];
        for (kind, make) in make {
            fs::remove_file(&entry).unwrap();
            make();
            let (stats, reason) = look(&folder, key);
            assert_eq!((stats.refused_kind, stats.disk_hits), (1, 0), "{kind}");
            assert_eq!(reason, Some(RefusalReason::Kind { found: kind }));
            if kind == "a folder" {
                fs::remove_dir(&entry).unwrap();
            }
            // What is compiled replaces it.
            ModuleCache::in_folder(&folder.0).insert(key, compiled(1));
            assert_eq!(look(&folder, key).0.disk_hits, 1, "{kind}");
            assert_eq!(fs::read(&entry).unwrap(), fs::read(&other).unwrap(), "{kind}");
        }
        let bytes = 40 << 30;
        File::create(&entry).unwrap().set_len(bytes).unwrap();
        set_mode(&entry, 0o600);
        let start = Instant::now();
        let (stats, reason) = look(&folder, key);
        assert_eq!((stats.refused_size, stats.disk_hits), (1, 0));
        assert_eq!(reason, Some(RefusalReason::Size { bytes, limit: ENTRY_BYTES }));
        assert!(start.elapsed() < Duration::from_secs(5), "it was read");
    }

    /// Regression test: temporary file names used to follow from the process id and a counter, so
    /// that somebody could plant links there.
    #[test]
    fn temporary_files_follow_no_links() {
        let (folder, key) = filled("planted");
        let victim = folder.0.join("victim");
        fs::write(&victim, b"mine").unwrap();
        for number in 0..2000 {
            let name = format!(".{}-{number}.partial", std::process::id());
            symlink(&victim, folder.0.join(name)).unwrap();
        }
        let cache = ModuleCache::in_folder(&folder.0);
        cache.insert(key, compiled(2));
        let archive = folder.0.join("archive");
        symlink(&victim, &archive).unwrap();
        cache.export(&archive).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert!(path_of(&cache, key).symlink_metadata().unwrap().is_file());
        assert!(archive.symlink_metadata().unwrap().is_file(), "a link at the name is replaced");
    }

    /// The limit holds after each write, and the least recently used entries are removed first.
    #[test]
    fn entries_that_are_not_used_make_room() {
        let folder = Folder::new("room");
        let keys: Vec<Key> = (0..40).map(|number| Key::of(&[&number.to_string()])).collect();
        ModuleCache::in_folder(&folder.0).insert(keys[0], compiled(0));
        let (_, bytes) = ModuleCache::in_folder(&folder.0).size();
        let limit = 10 * bytes + bytes / 2;
        let thesis = folder.0.join("thesis.module");
        fs::write(&thesis, vec![0; 1 << 20]).unwrap();
        let cache = || ModuleCache::in_folder(&folder.0).limit(limit);
        let writer = cache();
        for (number, key) in keys.iter().enumerate() {
            writer.insert(*key, compiled(number as u8));
            assert!(writer.size().1 <= limit, "{number}");
            // An hour passes before the first entry is used again.
            for key in &keys[..=number] {
                if let Ok(file) = File::open(path_of(&writer, *key)) {
                    let used = file.metadata().unwrap().modified().unwrap();
                    file.set_modified(used - Duration::from_secs(3600)).unwrap();
                }
            }
            assert!(cache().find(keys[0]).is_some(), "{number}: it is used all the time");
        }
        let kept: Vec<bool> = keys.iter().map(|key| path_of(&writer, *key).exists()).collect();
        let evicted = kept.iter().filter(|kept| !**kept).count();
        assert_eq!(writer.stats().evicted, evicted as u64);
        // The first entry is kept, and the last ones without a gap.
        let first_of_last = kept.iter().skip(1).position(|kept| *kept).unwrap() + 1;
        assert!(kept[0] && kept[first_of_last..].iter().all(|kept| *kept), "{kept:?}");
        assert!((7..=10).contains(&(40 - evicted)), "{kept:?}");
        assert!(thesis.exists(), "only entries are removed");

        // An entry larger than the limit is not written and removes nothing.
        let small = ModuleCache::in_folder(&folder.0).limit(bytes / 2);
        small.insert(Key::of(&["large"]), compiled(0));
        assert_eq!((small.stats().write_failures, small.size().0), (1, 40 - evicted));
    }
}
