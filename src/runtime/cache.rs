//! [`ModuleCache`] keeps compiled modules in memory and on disk, so that a second load of a kernel
//! does not compile it again. If loads compile too often, look at [`stats`](ModuleCache::stats) and
//! [`last_refusal`](ModuleCache::last_refusal).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::cache_disk::Disk;
use super::cache_folder::CacheFolder;
use super::trust::{Refusal, RefusalReason, Unusable};

/// A cache of modules that the driver or `ptxas` has compiled. Loads use [`ModuleCache::shared`]
/// unless you pass another one with [`LoadOptions::cache`](super::LoadOptions::cache), for example
/// one in a folder of your own.
///
/// An entry is named by the SHA-256 hash of everything that affects its code: the PTX text, the
/// device's target, the driver version, the compiler and its options. On disk, an entry is a file
/// that is written under another name and then renamed. So any number of processes can share a
/// folder, and a killed process leaves no half-written entry. Each entry contains its name and a
/// checksum. If an entry is cut off or changed, has another format, or is refused by the driver,
/// the cache never uses it: the module is compiled again and the entry is counted, but you get no
/// error. If the folder cannot be written, the cache only reads.
///
/// Whoever writes an entry chooses the code that runs. On Unix, the folder and its entries must
/// therefore belong to the user of the process (or to the superuser), and neither their group nor
/// other users may have write permission. New folders get mode 700, new entries mode 600. The
/// cache does not use a folder or entry that breaks this rule, nor anything but a regular file in
/// place of an entry: see [`ModuleCache::last_refusal`].
///
/// An entry can have up to 128 MiB. All entries of a folder together can have up to 1 GiB, or
/// whatever you set with [`ModuleCache::limit`]. If a new entry exceeds the limit, the least
/// recently used entries are removed.
///
/// Loading uses [`ModuleCache::shared`]. Its folder is the one that the environment variable
/// `TILEWRIGHT_CACHE` names (`off` turns it off), otherwise `tilewright` in the user's cache
/// folder.
///
/// Kernels with `setmaxnreg` are cached here only if [`Ptxas`](super::Ptxas) compiles them. The
/// driver does not give out the code of such kernels; it keeps them in its own cache, and the next
/// process loads them from there.
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
    /// The code in the form that the driver loads.
    pub(super) cubin: Vec<u8>,
    /// The compiler's log.
    pub(super) log: String,
}

/// An entry's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Hashes the parts that affect an entry's code. Each part is hashed with its length, so that
    /// two lists of parts cannot run together into the same text.
    pub(super) fn of(parts: &[&str]) -> Key {
        let mut hasher = hmac_sha256::Hash::new();
        hasher.update(MAGIC);
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(hasher.finalize())
    }

    /// Returns the entry's file name without extension.
    pub(super) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What a module cache has done since it was created: read it to see whether loads still compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CacheStats {
    /// Modules that were found in memory.
    pub memory_hits: u64,
    /// Modules that were found on disk.
    pub disk_hits: u64,
    /// Modules that were compiled.
    pub misses: u64,
    /// Disk entries that were damaged or were not modules; they are also counted as misses.
    pub corrupt: u64,
    /// Entries that could not be written to disk.
    pub write_failures: u64,
    /// Entries that were removed to stay below the limit.
    pub evicted: u64,
    /// Lookups that refused an entry or the folder because it belongs to another user:
    /// [`RefusalReason::Owner`].
    pub refused_owner: u64,
    /// Lookups that refused an entry or the folder because other users can write it:
    /// [`RefusalReason::WritableByOthers`].
    pub refused_writable: u64,
    /// Lookups that found something else in place of the entry's file or of the folder:
    /// [`RefusalReason::Kind`].
    pub refused_kind: u64,
    /// Lookups that found an entry larger than any valid one: [`RefusalReason::Size`].
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

/// The first bytes of an entry; the last one is the format version.
const MAGIC: &[u8; 16] = b"tilewright cub 1";
/// How many bytes of modules are kept in memory at most.
const MEMORY_BYTES: usize = 256 << 20;

impl ModuleCache {
    /// Returns the cache that loading uses by default, for example to read its
    /// [`stats`](Self::stats) or to [`clear`](Self::clear) it.
    pub fn shared() -> &'static ModuleCache {
        static SHARED: OnceLock<ModuleCache> = OnceLock::new();
        SHARED.get_or_init(|| ModuleCache::with(CacheFolder::of_modules()))
    }

    /// Creates a cache that keeps modules in memory only, for programs and tests that must not
    /// write to disk. Its entries are lost when the process ends.
    pub fn in_memory() -> ModuleCache {
        ModuleCache::with(None)
    }

    /// Creates a module cache in a folder. If the folder has entries from an earlier run, the cache
    /// uses them; if there is no folder, it is created when the first entry is written.
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

    /// Limits how many bytes all entries of the folder may have together; without a call, the limit
    /// is 1 GiB. If several processes write to one folder, each applies its own limit, and lists
    /// the folder again only after it has itself written a sixteenth of that limit. Until then it
    /// does not see what the other processes write, so the folder can exceed the limit.
    ///
    /// ```
    /// use tilewright::runtime::ModuleCache;
    /// let cache = ModuleCache::in_folder("modules").limit(64 << 20);
    /// assert_eq!(cache.folder(), Some("modules".as_ref()));
    /// ```
    pub fn limit(self, bytes: u64) -> ModuleCache {
        ModuleCache { disk: self.disk.map(|disk| disk.limited(bytes)), ..self }
    }

    /// Returns the cache's folder, or `None` if it keeps modules in memory only.
    pub fn folder(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::folder)
    }

    /// Returns what the cache has done since it was created: see [`CacheStats`].
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

    /// Returns the last folder or entry that the cache did not use because it is not a regular file
    /// or folder, is too large, or could have been written by another user. Read it if a cache
    /// folder seems to have no effect. [`ModuleCache::stats`] counts all such refusals.
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

    /// Looks a module up in memory, then on disk. A load calls it before it compiles.
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

    /// Counts and removes an entry that the driver refused or that cannot be decoded.
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

    /// Adds a module that was just compiled, and counts a miss.
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
            // There is no entry, there are too many open files, or the disk fails. The entry itself
            // may be valid.
            Err(Unusable::Io(_)) => Found::Nothing,
        }
    }

    pub(super) fn write(&self, key: Key, compiled: &Compiled) -> io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let evicted = disk.write(&key.hex(), &encode(key, compiled))?;
        self.stats.evicted.fetch_add(evicted, Relaxed);
        Ok(())
    }

    /// Returns how many entries are on disk, and their total size in bytes; `(0, 0)` if the cache
    /// keeps modules in memory only.
    pub fn size(&self) -> (usize, u64) {
        self.disk.as_ref().map_or((0, 0), Disk::size)
    }

    /// Removes all entries from memory and disk, and the temporary files of killed processes. Later
    /// loads compile again.
    ///
    /// # Errors
    /// The error of the first file that cannot be removed.
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

/// Encodes an entry as a file: magic, name, checksum of the rest; then the log's length, the log,
/// and the code.
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

/// Decodes a file. Returns `None` if it is damaged or has another name inside.
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

/// Covers name and content, so that one entry cannot pass for another.
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
                // Another format version.
                2 => damaged[15] = b'2',
                // Another entry under this name, for example for another target.
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
        // A folder in place of the file.
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
        // A file in place of the folder: nobody can write below it, not even root.
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
        // Files that are not the cache's are left alone.
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
        assert!(error.to_string().contains("is not an exported module cache"), "{error}");
        let mut cut = fs::read(&file).unwrap();
        cut.pop();
        fs::write(&file, cut).unwrap();
        let error = ModuleCache::in_folder(to.0.join("new")).import(&file).unwrap_err();
        assert!(error.to_string().ends_with("1 entries before it were added"), "{error}");
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
