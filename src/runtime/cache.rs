//! [`ModuleCache`] keeps compiled modules in memory and on the disk.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::cache_disk::Disk;
use super::cache_folder::CacheFolder;
use super::trust::{Refusal, RefusalReason, Unusable};

/// Modules that a driver or `ptxas` has compiled, by what they were compiled from.
///
/// The name of an entry is the SHA-256 hash of all that decides it: the PTX text, the device's target, the
/// driver's version, the compiler and its options. On the disk an entry is a file that is written under
/// another name and then renamed, so any number of processes may share a folder, and a killed process
/// leaves no half entry. An entry carries its name and a checksum. An entry that is cut off, changed, of another
/// format or refused by the driver is compiled again and counted; it is never used, and it is no error. A folder that
/// cannot be written is read only.
///
/// Whoever writes an entry chooses the code that runs. On Unix the folder and its entries must therefore belong to the
/// user of the process (or to the superuser), and neither their group nor other users may be able to write them. The
/// folder is made with mode 700 and entries with mode 600. A folder or an entry for which this does not hold is not
/// used, nor is anything but a regular file in the place of an entry: see [`ModuleCache::last_refusal`].
///
/// An entry has at most 128 MiB. All entries of a folder together have at most 1 GiB, or what [`ModuleCache::limit`]
/// says; when a new entry exceeds that, the least recently used entries are removed.
///
/// Loading uses [`ModuleCache::shared`], in the folder that the environment variable `TILEWRIGHT_CACHE` names
/// (`off` is none), else `tilewright` in the user's cache folder.
///
/// Kernels with `setmaxnreg` are here only where [`Ptxas`](super::Ptxas) compiles them: the driver gives no code of
/// them away, and keeps it in its own cache, from which it loads them in the next process.
///
/// ```
/// use tilewright::runtime::{CacheStats, ModuleCache};
/// let cache = ModuleCache::in_memory();
/// assert_eq!((cache.folder(), cache.stats()), (None, CacheStats::default()));
/// ```
#[derive(Debug)]
pub struct ModuleCache {
    disk: Option<Disk>,
    memory: Mutex<Kept>,
    stats: Counters,
    refusal: Mutex<Option<Refusal>>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Key, Arc<Compiled>>,
    bytes: usize,
}

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compiled {
    /// The code, as the driver loads it.
    pub(super) cubin: Vec<u8>,
    /// The log of the compiler.
    pub(super) log: String,
}

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Returns the name of what the parts decide. Each is hashed with its length, so that none runs into the next.
    pub(super) fn of(parts: &[&str]) -> Key {
        let mut hasher = hmac_sha256::Hash::new();
        hasher.update(MAGIC);
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(hasher.finalize())
    }

    /// Returns the name of its file.
    pub(super) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Counts of hits and misses since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CacheStats {
    /// Modules found in memory.
    pub memory_hits: u64,
    /// Modules found on the disk.
    pub disk_hits: u64,
    /// Modules that were compiled.
    pub misses: u64,
    /// Entries on the disk that were damaged or no modules, among the misses.
    pub corrupt: u64,
    /// Entries that could not be written to the disk.
    pub write_failures: u64,
    /// Entries that were removed because all together were larger than the limit.
    pub evicted: u64,
    /// Look-ups for which the entry or the folder was refused because it belongs to another user:
    /// [`RefusalReason::Owner`].
    pub refused_owner: u64,
    /// Look-ups for which the entry or the folder was refused because other users can write it:
    /// [`RefusalReason::WritableByOthers`].
    pub refused_writable: u64,
    /// Look-ups for which something else than a file was in the place of the entry, or than a folder in that of the
    /// folder: [`RefusalReason::Kind`].
    pub refused_kind: u64,
    /// Look-ups for which the entry was larger than any entry: [`RefusalReason::Size`].
    pub refused_size: u64,
}

#[derive(Debug, Default)]
struct Counters {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    misses: AtomicU64,
    corrupt: AtomicU64,
    write_failures: AtomicU64,
    evicted: AtomicU64,
    refused_owner: AtomicU64,
    refused_writable: AtomicU64,
    refused_kind: AtomicU64,
    refused_size: AtomicU64,
}

/// The first bytes of an entry, with the number of the format.
const MAGIC: &[u8; 16] = b"tilewright cub 1";
/// The maximum number of bytes of modules that are kept in memory.
const MEMORY_BYTES: usize = 256 << 20;

impl ModuleCache {
    /// Returns the cache that loading uses.
    pub fn shared() -> &'static ModuleCache {
        static SHARED: OnceLock<ModuleCache> = OnceLock::new();
        SHARED.get_or_init(|| ModuleCache::with(CacheFolder::of_user("modules")))
    }

    /// Returns a cache without a folder.
    pub fn in_memory() -> ModuleCache {
        ModuleCache::with(None)
    }

    /// Returns a cache in a folder, which is made when the first entry is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> ModuleCache {
        ModuleCache::with(Some(CacheFolder::named(folder.into())))
    }

    fn with(folder: Option<CacheFolder>) -> ModuleCache {
        ModuleCache {
            disk: folder.map(Disk::new),
            memory: Mutex::default(),
            stats: Counters::default(),
            refusal: Mutex::default(),
        }
    }

    /// Limits the bytes of all entries of the folder together. Each process that writes there keeps its own limit;
    /// those of several processes can be exceeded by what the others have written since a process last listed the
    /// folder, which it does after it has written a sixteenth of its limit.
    ///
    /// ```
    /// use tilewright::runtime::ModuleCache;
    /// let cache = ModuleCache::in_folder("modules").limit(64 << 20);
    /// assert_eq!(cache.folder(), Some("modules".as_ref()));
    /// ```
    pub fn limit(self, bytes: u64) -> ModuleCache {
        ModuleCache { disk: self.disk.map(|disk| disk.limited(bytes)), ..self }
    }

    /// Returns the folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::folder)
    }

    /// Returns the counts of hits and misses.
    pub fn stats(&self) -> CacheStats {
        let stats = &self.stats;
        CacheStats {
            memory_hits: stats.memory_hits.load(Relaxed),
            disk_hits: stats.disk_hits.load(Relaxed),
            misses: stats.misses.load(Relaxed),
            corrupt: stats.corrupt.load(Relaxed),
            write_failures: stats.write_failures.load(Relaxed),
            evicted: stats.evicted.load(Relaxed),
            refused_owner: stats.refused_owner.load(Relaxed),
            refused_writable: stats.refused_writable.load(Relaxed),
            refused_kind: stats.refused_kind.load(Relaxed),
            refused_size: stats.refused_size.load(Relaxed),
        }
    }

    /// Returns the last folder or entry that was not used because of what it is or who can write it. `stats` counts all
    /// of them.
    ///
    /// ```
    /// use tilewright::runtime::ModuleCache;
    /// assert_eq!(ModuleCache::in_memory().last_refusal(), None);
    /// ```
    pub fn last_refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_refusal(&self, refusal: Refusal) {
        let counter = match refusal.reason {
            RefusalReason::Owner { .. } => &self.stats.refused_owner,
            RefusalReason::WritableByOthers { .. } => &self.stats.refused_writable,
            RefusalReason::Kind { .. } => &self.stats.refused_kind,
            RefusalReason::Size { .. } => &self.stats.refused_size,
        };
        counter.fetch_add(1, Relaxed);
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    fn memory(&self) -> MutexGuard<'_, Kept> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the module, from memory or from the disk.
    pub(super) fn find(&self, key: Key) -> Option<Arc<Compiled>> {
        if let Some(found) = self.memory().entries.get(&key).cloned() {
            self.stats.memory_hits.fetch_add(1, Relaxed);
            return Some(found);
        }
        match self.read(key) {
            Found::Entry(compiled) => {
                self.stats.disk_hits.fetch_add(1, Relaxed);
                Some(self.keep(key, compiled))
            }
            Found::Corrupt => {
                self.note_corrupt(key);
                None
            }
            Found::Refused(refusal) => {
                self.note_refusal(refusal);
                None
            }
            Found::Nothing => None,
        }
    }

    /// Forgets an entry that turned out to be no module.
    pub(super) fn note_corrupt(&self, key: Key) {
        self.stats.corrupt.fetch_add(1, Relaxed);
        let mut memory = self.memory();
        if let Some(old) = memory.entries.remove(&key) {
            memory.bytes = memory.bytes.saturating_sub(old.cubin.len());
        }
        drop(memory);
        if let Some(disk) = &self.disk {
            disk.remove(&key.hex());
        }
    }

    /// Keeps a module that was compiled.
    pub(super) fn insert(&self, key: Key, compiled: Compiled) -> Arc<Compiled> {
        self.stats.misses.fetch_add(1, Relaxed);
        if self.write(key, &compiled).is_err() {
            self.stats.write_failures.fetch_add(1, Relaxed);
        }
        self.keep(key, compiled)
    }

    pub(super) fn keep(&self, key: Key, compiled: Compiled) -> Arc<Compiled> {
        let compiled = Arc::new(compiled);
        let mut memory = self.memory();
        if memory.bytes.saturating_add(compiled.cubin.len()) > MEMORY_BYTES {
            *memory = Kept::default();
        }
        memory.bytes += compiled.cubin.len();
        memory.entries.insert(key, Arc::clone(&compiled));
        compiled
    }

    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    fn read(&self, key: Key) -> Found {
        let Some(disk) = &self.disk else { return Found::Nothing };
        match disk.read(&key.hex()) {
            Ok(bytes) => decode(key, &bytes).map_or(Found::Corrupt, Found::Entry),
            Err(Unusable::Refused(refusal)) => Found::Refused(refusal),
            // There is none. Or there are too many open files, or the disk fails: the entry may be whole.
            Err(Unusable::Io(_)) => Found::Nothing,
        }
    }

    pub(super) fn write(&self, key: Key, compiled: &Compiled) -> io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let evicted = disk.write(&key.hex(), &encode(key, compiled))?;
        self.stats.evicted.fetch_add(evicted, Relaxed);
        Ok(())
    }

    /// Returns the number of entries on the disk and their bytes.
    pub fn size(&self) -> (usize, u64) {
        self.disk.as_ref().map_or((0, 0), Disk::size)
    }

    /// Removes all entries, and what killed processes have left.
    ///
    /// # Errors
    /// The first file that cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        *self.memory() = Kept::default();
        self.disk.as_ref().map_or(Ok(()), Disk::clear)
    }
}

enum Found {
    Entry(Compiled),
    Corrupt,
    Refused(Refusal),
    Nothing,
}

/// Returns an entry as a file: magic, name, checksum of the rest; then the bytes of the log, the log, the code.
fn encode(key: Key, compiled: &Compiled) -> Vec<u8> {
    let log = compiled.log.as_bytes();
    let mut rest = (log.len() as u64).to_le_bytes().to_vec();
    rest.extend(log);
    rest.extend(&compiled.cubin);
    let mut file = MAGIC.to_vec();
    file.extend(key.0);
    file.extend(checksum(key, &rest));
    file.extend(rest);
    file
}

/// Returns the module of a file that is whole and has the name.
pub(super) fn decode(key: Key, file: &[u8]) -> Option<Compiled> {
    let (found, rest) = file.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
    let (sum, rest) = rest.split_first_chunk::<32>()?;
    if *found != key.0 || *sum != checksum(key, rest) {
        return None;
    }
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (log, cubin) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    let log = String::from_utf8(log.to_vec()).ok()?;
    Some(Compiled { cubin: cubin.to_vec(), log })
}

/// Returns the name that a file has inside.
pub(super) fn key_of(file: &[u8]) -> Option<Key> {
    file.strip_prefix(MAGIC)?.first_chunk::<32>().map(|key| Key(*key))
}

/// Of name and content, so that an entry does not pass for another one.
fn checksum(key: Key, content: &[u8]) -> [u8; 32] {
    hmac_sha256::HMAC::mac(content, key.0)
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;
    use crate::runtime::whole_file::{ABANDONED, remove_abandoned};

    pub(in crate::runtime) struct Folder(pub(in crate::runtime) PathBuf);

    impl Folder {
        pub(in crate::runtime) fn new(name: &str) -> Folder {
            let name = format!("tilewright-cache-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&folder);
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    pub(in crate::runtime) fn path_of(cache: &ModuleCache, key: Key) -> PathBuf {
        cache.disk().unwrap().path(&key.hex())
    }

    pub(in crate::runtime) fn compiled(number: u8) -> Compiled {
        let cubin = (0..1000u32).map(|i| (i as u8).wrapping_mul(number)).collect();
        Compiled { cubin, log: format!("ptxas info: {number}") }
    }

    #[test]
    fn names_depend_on_every_part_and_on_where_it_ends() {
        let names = [
            Key::of(&["a", "b"]),
            Key::of(&["ab", ""]),
            Key::of(&["", "ab"]),
            Key::of(&["a", "b", ""]),
            Key::of(&["a", "c"]),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(names[..i].iter().all(|other| other != name));
        }
        assert_eq!(Key::of(&["a", "b"]), names[0]);
    }

    #[test]
    fn entries_are_found_in_memory_then_on_the_disk() {
        let folder = Folder::new("found");
        let (cache, key) = (ModuleCache::in_folder(&folder.0), Key::of(&["x"]));
        assert!(cache.find(key).is_none());
        cache.insert(key, compiled(3));
        assert_eq!(*cache.find(key).unwrap(), compiled(3));
        let again = ModuleCache::in_folder(&folder.0);
        assert_eq!(*again.find(key).unwrap(), compiled(3));
        let stats = again.stats();
        assert_eq!((stats.disk_hits, stats.memory_hits, stats.misses), (1, 0, 0));
        assert_eq!(again.size().0, 1);
        again.clear().unwrap();
        assert!(again.find(key).is_none() && again.size() == (0, 0));
    }

    /// A damaged file is never used, and the next entry replaces it.
    #[test]
    fn damaged_entries_are_never_used() {
        let folder = Folder::new("damaged");
        let key = Key::of(&["x"]);
        let file = encode(key, &compiled(7));
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let cache = ModuleCache::in_folder(&folder.0);
        let path = path_of(&cache, key);
        fs::create_dir_all(&folder.0).unwrap();
        for round in 0..1000 {
            let mut damaged = file.clone();
            match round % 5 {
                0 => damaged.truncate(random(file.len())),
                1 => damaged[random(file.len())] ^= 1 << random(8),
                // Another format.
                2 => damaged[15] = b'2',
                // Another entry under this name: of another target, say.
                3 => damaged = encode(Key::of(&["y"]), &compiled(7)),
                _ => damaged.extend(vec![0; 1 + random(100)]),
            }
            fs::write(&path, &damaged).unwrap();
            assert!(cache.find(key).is_none(), "round {round}");
            assert!(!path.exists());
        }
        assert_eq!(cache.stats().corrupt, 1000);
        cache.insert(key, compiled(7));
        assert_eq!(*ModuleCache::in_folder(&folder.0).find(key).unwrap(), compiled(7));
        // A folder where the file should be.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let other = ModuleCache::in_folder(&folder.0);
        assert!(other.find(key).is_none());
        other.insert(key, compiled(7));
        assert_eq!((other.stats().refused_kind, other.stats().write_failures), (1, 1));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = Folder::new("refused");
        // A file where the folder should be: nobody can write below it, not even root.
        fs::write(&folder.0, b"").unwrap();
        let (cache, key) = (ModuleCache::in_folder(folder.0.join("below")), Key::of(&["x"]));
        assert_eq!(*cache.insert(key, compiled(5)), compiled(5));
        assert_eq!(*cache.find(key).unwrap(), compiled(5));
        assert_eq!((cache.stats().write_failures, cache.size()), (1, (0, 0)));
        fs::remove_file(&folder.0).unwrap();
    }

    #[test]
    fn what_killed_writers_leave_goes_away() {
        let folder = Folder::new("killed");
        fs::create_dir_all(&folder.0).unwrap();
        let partial = folder.0.join(".0123456789abcdef.partial");
        fs::write(&partial, b"tilewr").unwrap();
        // Nobody else's files are touched.
        let others = [
            "thesis.partial",
            ".partial",
            ".0123.partial",
            ".0123456789ABCDEF.partial",
            "1-2.partial",
        ];
        let others = others.map(|name| folder.0.join(name));
        others.iter().for_each(|path| fs::write(path, b"mine").unwrap());
        let cache = ModuleCache::in_folder(&folder.0);
        assert_eq!(cache.size(), (0, 0));
        remove_abandoned(&folder.0, ABANDONED);
        assert!(partial.exists(), "it may be one that is being written");
        cache.clear().unwrap();
        assert!(!partial.exists());
        assert!(others.iter().all(|path| path.exists()));
    }

    #[test]
    fn a_cache_moves_as_one_file() {
        let (from, to) = (Folder::new("from"), Folder::new("to"));
        let cache = ModuleCache::in_folder(&from.0);
        let keys = ["a", "b", "c"].map(|name| Key::of(&[name]));
        for (key, number) in keys.into_iter().zip(1..) {
            cache.insert(key, compiled(number));
        }
        fs::write(path_of(&cache, keys[1]), b"tilewright cub 1").unwrap();
        let file = from.0.join("all");
        assert_eq!(cache.export(&file).unwrap(), 2);
        let other = ModuleCache::in_folder(&to.0);
        assert_eq!(other.import(&file).unwrap(), 2);
        let found = ModuleCache::in_folder(&to.0);
        assert_eq!(*found.find(keys[2]).unwrap(), compiled(3));
        assert!(found.find(keys[1]).is_none());
        let error = other.import(&path_of(&cache, keys[0])).unwrap_err();
        assert!(error.to_string().contains("is no exported module cache"), "{error}");
        let mut cut = fs::read(&file).unwrap();
        cut.pop();
        fs::write(&file, cut).unwrap();
        let error = ModuleCache::in_folder(to.0.join("new")).import(&file).unwrap_err();
        assert!(error.to_string().ends_with("after 1 that were added"), "{error}");
    }

    #[test]
    fn threads_share_a_folder() {
        let folder = Folder::new("threads");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = ModuleCache::in_folder(&folder.0);
                    for number in 0..20 {
                        let key = Key::of(&[&number.to_string()]);
                        match cache.find(key) {
                            Some(found) => assert_eq!(*found, compiled(number)),
                            None => {
                                assert_eq!(*cache.insert(key, compiled(number)), compiled(number))
                            }
                        }
                    }
                    assert_eq!(cache.stats().corrupt, 0);
                });
            }
        });
        assert_eq!(ModuleCache::in_folder(&folder.0).size().0, 20);
    }
}
