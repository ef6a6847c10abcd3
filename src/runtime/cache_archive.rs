//! Exports a module cache to one file, and imports such files, so that you can ship compiled
//! kernels with a program.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::cache::ModuleCache;
use super::cache::{decode, key_of};
use super::cache_disk::ENTRY_BYTES;
use super::trust::open_regular;
use super::whole_file::{Purpose, write_file};

/// The first bytes of an exported cache.
const ARCHIVE_MAGIC: &[u8; 16] = b"tilewright arc 1";

impl ModuleCache {
    /// Writes all valid disk entries to one file, for example to ship compiled kernels with a
    /// program: on the user's machine, [`ModuleCache::import`] adds them to another cache. Returns
    /// how many entries were written. Leaves out entries that a load would refuse. If `file` is a
    /// link, replaces the link.
    ///
    /// # Errors
    /// The error of a file that cannot be written.
    #[inline]
    pub fn export(&self, file: &Path) -> io::Result<usize> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut count = 0;
        write_file(file, Purpose::Document, |file: &mut File| {
            let mut archive = BufWriter::new(file);
            archive.write_all(ARCHIVE_MAGIC)?;
            for bytes in self.disk().into_iter().flat_map(|disk| disk.all()) {
                if key_of(&bytes).and_then(|key| decode(key, &bytes)).is_some() {
                    archive.write_all(&(bytes.len() as u64).to_le_bytes())?;
                    archive.write_all(&bytes)?;
                    count += 1;
                }
            }
            archive.flush()
        })?;
        Ok(count)
    }

    /// Adds the valid entries of an exported cache, and returns how many it added. Call it before
    /// the first load, so that loads find their code. Entries for other devices, drivers or options
    /// do no harm, because nobody looks them up.
    ///
    /// Later loads run the code in these entries, so import only files that you trust.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a regular file, is not an exported cache or is cut
    /// off; if an entry exceeds 128 MiB or this cache's limit ([`ModuleCache::limit`]); or if an
    /// entry cannot be written.
    #[inline]
    pub fn import(&self, file: &Path) -> io::Result<usize> {
        let invalid = |what: String| {
            let message = format!("`{}` {what}", file.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        // The user may pass a link.
        let target = fs::canonicalize(file)?;
        let limit = self.disk().map_or(u64::MAX, |disk| disk.limit);
        let (opened, _) = open_regular(&target, OpenOptions::new().read(true), u64::MAX)?;
        let mut archive = BufReader::new(opened);
        let mut magic = [0; ARCHIVE_MAGIC.len()];
        if archive.read_exact(&mut magic).is_err() || magic != *ARCHIVE_MAGIC {
            return Err(invalid("is not an exported module cache".to_owned()));
        }
        let (mut count, mut total) = (0, 0u64);
        let cut_off =
            |count| invalid(format!("ends inside an entry; {count} entries before it were added"));
        while let Some(len) = next_len(&mut archive).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => cut_off(count),
            _ => error,
        })? {
            if len > ENTRY_BYTES {
                return Err(invalid(format!(
                    "has an entry of {len} bytes, but an entry can have at most {ENTRY_BYTES}; \
                     {count} entries before it were added"
                )));
            }
            total = total.saturating_add(len);
            if total > limit {
                return Err(invalid(format!(
                    "has more than the cache's limit of {limit} bytes; {count} entries before it were added"
                )));
            }
            let mut bytes = Vec::new();
            archive.by_ref().take(len).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != len {
                return Err(cut_off(count));
            }
            let Some(key) = key_of(&bytes) else { continue };
            let Some(compiled) = decode(key, &bytes) else { continue };
            self.write(key, &compiled)?;
            self.keep(key, compiled);
            count += 1;
        }
        Ok(count)
    }
}

/// Reads the next entry's length; `None` at the end of the file.
fn next_len(archive: &mut impl Read) -> io::Result<Option<u64>> {
    let mut len = Vec::new();
    archive.take(8).read_to_end(&mut len)?;
    match len.as_slice().try_into() {
        Ok(len) => Ok(Some(u64::from_le_bytes(len))),
        Err(_) if len.is_empty() => Ok(None),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cache::Key;
    use crate::runtime::cache::tests::{Folder, compiled};

    #[test]
    fn an_archive_is_read_to_the_limits_of_the_cache() {
        let folder = Folder::new("limits");
        let from = ModuleCache::in_folder(folder.0.join("from"));
        for number in 0..4 {
            from.insert(Key::of(&[&number.to_string()]), compiled(number));
        }
        let file = folder.0.join("all");
        assert_eq!(from.export(&file).unwrap(), 4);
        let (_, bytes) = from.size();
        let into = |name: &str| ModuleCache::in_folder(folder.0.join(name));
        let error = into("small").limit(bytes / 2).import(&file).unwrap_err().to_string();
        let expected = format!("has more than the cache's limit of {} bytes", bytes / 2);
        assert!(
            error.contains(&expected) && error.ends_with("2 entries before it were added"),
            "{error}"
        );
        assert_eq!(into("right").limit(bytes).import(&file).unwrap(), 4);

        // The archive claims that this entry has 1 TiB.
        let mut archive = fs::read(&file).unwrap();
        archive.extend((1u64 << 40).to_le_bytes());
        fs::write(&file, &archive).unwrap();
        let error = into("large").import(&file).unwrap_err().to_string();
        assert!(error.contains("has an entry of 1099511627776 bytes"), "{error}");
        archive.truncate(archive.len() - 3);
        fs::write(&file, &archive).unwrap();
        let error = into("cut").import(&file).unwrap_err().to_string();
        assert!(error.ends_with("ends inside an entry; 4 entries before it were added"), "{error}");
        let error = into("folder").import(&folder.0).unwrap_err().to_string();
        assert!(error.ends_with("is not used: it is a folder; remove it"), "{error}");
        // A device returns bytes without an end.
        #[cfg(unix)]
        assert!(into("device").import(Path::new("/dev/zero")).is_err());
    }
}
