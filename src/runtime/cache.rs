//! Compiled modules, kept in memory and on the disk.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use super::cache_folder::cache_folder;
use super::whole_file::{ABANDONED, Reaches, remove_abandoned, write_file};

/// Modules that a driver or `ptxas` has compiled, by what they were compiled from.
///
/// The name of an entry is the BLAKE3 hash of all that decides it: the PTX text, the device's target, the
/// driver's version, the compiler and its options. On the disk an entry is a file that is written under
/// another name and then renamed, so any number of processes may share a folder, and one that is killed
/// leaves no half entry. An entry carries its name and a checksum: one that is cut off, changed, of another
/// format or not what the driver takes is compiled anew and counted, never used, and no error. A folder that
/// cannot be written is read only.
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
    folder: Option<PathBuf>,
    memory: Mutex<Kept>,
    stats: Counters,
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
    /// What the compiler said.
    pub(super) log: String,
}

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// The name of what the parts decide. Each is hashed with its length, so that none runs into the next.
    pub(super) fn of(parts: &[&str]) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(MAGIC);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(*hasher.finalize().as_bytes())
    }

    fn hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// What was found and what was not, since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CacheStats {
    /// Modules found in memory.
    pub memory_hits: u64,
    /// Modules found on the disk.
    pub disk_hits: u64,
    /// Modules that were compiled.
    pub misses: u64,
    /// Entries on the disk that could not be used, among the misses.
    pub corrupt: u64,
    /// Entries that could not be written to the disk.
    pub write_failures: u64,
}

#[derive(Debug, Default)]
struct Counters {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    misses: AtomicU64,
    corrupt: AtomicU64,
    write_failures: AtomicU64,
}

/// The first bytes of an entry, with the number of the format.
const MAGIC: &[u8; 16] = b"tilewright cub 1";
/// The first bytes of an exported cache.
const ARCHIVE_MAGIC: &[u8; 16] = b"tilewright arc 1";
/// The most bytes of modules that are kept in memory.
const MEMORY_BYTES: usize = 256 << 20;
/// The most bytes of an entry that is read.
const ENTRY_BYTES: u64 = 1 << 30;
const EXTENSION: &str = "module";

impl ModuleCache {
    /// The cache that loading uses.
    pub fn shared() -> &'static ModuleCache {
        static SHARED: OnceLock<ModuleCache> = OnceLock::new();
        SHARED.get_or_init(|| ModuleCache::with(cache_folder("modules")))
    }

    /// A cache without a folder.
    pub fn in_memory() -> ModuleCache {
        ModuleCache::with(None)
    }

    /// A cache in a folder, which is made when the first entry is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> ModuleCache {
        ModuleCache::with(Some(folder.into()))
    }

    fn with(folder: Option<PathBuf>) -> ModuleCache {
        ModuleCache { folder, memory: Mutex::default(), stats: Counters::default() }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What was found and what was not.
    pub fn stats(&self) -> CacheStats {
        let Counters { memory_hits, disk_hits, misses, corrupt, write_failures } = &self.stats;
        CacheStats {
            memory_hits: memory_hits.load(Relaxed),
            disk_hits: disk_hits.load(Relaxed),
            misses: misses.load(Relaxed),
            corrupt: corrupt.load(Relaxed),
            write_failures: write_failures.load(Relaxed),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Kept> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The module, from memory or from the disk.
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
        if let Some(path) = self.path(key) {
            // Where it cannot be removed, it is found to be corrupt each time.
            let _ = fs::remove_file(path);
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

    fn keep(&self, key: Key, compiled: Compiled) -> Arc<Compiled> {
        let compiled = Arc::new(compiled);
        let mut memory = self.memory();
        if memory.bytes.saturating_add(compiled.cubin.len()) > MEMORY_BYTES {
            *memory = Kept::default();
        }
        memory.bytes += compiled.cubin.len();
        memory.entries.insert(key, Arc::clone(&compiled));
        compiled
    }

    fn path(&self, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(key.hex()).with_extension(EXTENSION))
    }

    fn read(&self, key: Key) -> Found {
        let Some(path) = self.path(key) else { return Found::Nothing };
        match read_file(&path) {
            Ok(bytes) => decode(key, &bytes).map_or(Found::Corrupt, Found::Entry),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            // A folder in its place, say.
            Err(_) if path.is_dir() => Found::Corrupt,
            // Too many open files, or a disk that fails: the entry may be whole.
            Err(_) => Found::Nothing,
        }
    }

    fn write(&self, key: Key, compiled: &Compiled) -> io::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        // An entry that a system without power has cut off is found by its checksum and compiled anew, so that a load
        // need not wait for the disk.
        static CLEANED: Once = Once::new();
        CLEANED.call_once(|| {
            path.parent().into_iter().for_each(|folder| remove_abandoned(folder, ABANDONED));
        });
        write_file(&path, &encode(key, compiled), Reaches::System)
    }

    /// The paths of all entries on the disk.
    fn paths(&self) -> Vec<PathBuf> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let Ok(listed) = fs::read_dir(folder) else { return Vec::new() };
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|e| e == EXTENSION)).collect();
        paths.sort();
        paths
    }

    /// The number of entries on the disk and their bytes.
    pub fn size(&self) -> (usize, u64) {
        let sizes =
            self.paths().into_iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// Removes all entries, and what killed processes have left.
    ///
    /// # Errors
    /// The first file that cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        *self.memory() = Kept::default();
        if let Some(folder) = &self.folder {
            remove_abandoned(folder, Duration::ZERO);
        }
        self.paths().into_iter().try_for_each(|path| match fs::remove_file(path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
    }

    /// Writes all entries of the disk that are whole to one file, for [`ModuleCache::import`] elsewhere; their
    /// number.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn export(&self, file: &Path) -> io::Result<usize> {
        let mut archive = ARCHIVE_MAGIC.to_vec();
        let mut count = 0;
        for bytes in self.paths().iter().filter_map(|path| read_file(path).ok()) {
            if key_of(&bytes).and_then(|key| decode(key, &bytes)).is_some() {
                archive.extend((bytes.len() as u64).to_le_bytes());
                archive.extend(&bytes);
                count += 1;
            }
        }
        write_file(file, &archive, Reaches::Disk)?;
        Ok(count)
    }

    /// Adds the entries of an exported cache that are whole; their number. Entries for other devices, drivers
    /// or options do no harm: they are never asked for.
    ///
    /// # Errors
    /// The file cannot be read, is no exported cache or not all of one, or an entry cannot be written.
    pub fn import(&self, file: &Path) -> io::Result<usize> {
        let archive = fs::read(file)?;
        let invalid = |what: &str| {
            let message = format!("`{}` {what}", file.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let Some(mut rest) = archive.strip_prefix(ARCHIVE_MAGIC) else {
            return Err(invalid("is no exported module cache"));
        };
        let mut count = 0;
        while !rest.is_empty() {
            let entry = rest.split_first_chunk::<8>().and_then(|(len, after)| {
                after.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
            });
            let Some((bytes, after)) = entry else {
                return Err(invalid(&format!(
                    "ends inside an entry, after {count} that were added"
                )));
            };
            rest = after;
            let Some(key) = key_of(bytes) else { continue };
            let Some(compiled) = decode(key, bytes) else { continue };
            self.write(key, &compiled)?;
            self.keep(key, compiled);
            count += 1;
        }
        Ok(count)
    }
}

enum Found {
    Entry(Compiled),
    Corrupt,
    Nothing,
}

/// An entry as a file: magic, name, checksum of the rest; then the bytes of the log, the log, the code.
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

/// The module of a file that is whole and has the name.
fn decode(key: Key, file: &[u8]) -> Option<Compiled> {
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

/// The name that a file has inside.
fn key_of(file: &[u8]) -> Option<Key> {
    file.strip_prefix(MAGIC)?.first_chunk::<32>().map(|key| Key(*key))
}

/// Of name and content, so that an entry does not pass for another one.
fn checksum(key: Key, content: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(&key.0, content).as_bytes()
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(ENTRY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
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

    fn compiled(number: u8) -> Compiled {
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

    /// Whatever becomes of a file, it is not used, and the next one takes its place.
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
        let path = cache.path(key).unwrap();
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
        assert_eq!((other.stats().corrupt, other.stats().write_failures), (1, 1));
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
        let partial = folder.0.join(".1-2.partial");
        fs::write(&partial, b"tilewr").unwrap();
        // Nobody else's files are touched.
        let others = ["thesis.partial", ".partial", ".1-.partial", ".a-1.partial", "1-2.partial"];
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
        fs::write(cache.path(keys[1]).unwrap(), b"tilewright cub 1").unwrap();
        let file = from.0.join("all");
        assert_eq!(cache.export(&file).unwrap(), 2);
        let other = ModuleCache::in_folder(&to.0);
        assert_eq!(other.import(&file).unwrap(), 2);
        let found = ModuleCache::in_folder(&to.0);
        assert_eq!(*found.find(keys[2]).unwrap(), compiled(3));
        assert!(found.find(keys[1]).is_none());
        let error = other.import(&cache.path(keys[0]).unwrap()).unwrap_err();
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
