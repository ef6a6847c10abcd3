//! Runs NVIDIA's assembler `ptxas`, if it is installed. Use it to read register counts and compiler
//! notes without a GPU.

use crate::errors::errors;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::note::CompilerNote;
use super::random_name::random_name;
use crate::ir::Target;

/// A working `ptxas`. You do not need one, because the driver compiles PTX, too. Use it to see
/// registers, spills and shared memory without a GPU, or to get code that does not depend on the
/// driver version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ptxas {
    path: PathBuf,
    version: String,
}

/// What `ptxas` made of a PTX text, from [`Ptxas::assemble`]: the code and the compiler's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The code for one architecture.
    pub cubin: Vec<u8>,
    /// The log: registers, spills and shared memory of each entry, and warnings.
    pub log: String,
}

/// What `ptxas` reports about one entry of the PTX, such as its registers and spills: read it to
/// see why a kernel's occupancy is low.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EntryReport {
    /// The entry's name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes that each thread stores because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes that each thread loads back.
    pub spill_load_bytes: u32,
    /// Local memory per thread in bytes, including spills.
    pub local_bytes: u32,
    /// Static shared memory per block in bytes.
    pub shared_bytes: u32,
}

impl Assembled {
    /// Parses what the log says about each entry, in log order, for example how many registers it
    /// uses.
    #[inline]
    pub fn entries(&self) -> Vec<EntryReport> {
        entries_of(&self.log)
    }

    /// Parses the log's warnings about code that will be slower than written, for example a
    /// serialised `wgmma`.
    pub fn notes(&self) -> Vec<CompilerNote> {
        CompilerNote::all(&self.log)
    }
}

/// Parses the integer before a word: for `registers` in `Used 32 registers, used 1 barriers` it is
/// 32.
fn number_before(line: &str, word: &str) -> Option<u32> {
    let (before, _) = line.split_once(word)?;
    before.split_whitespace().next_back()?.parse().ok()
}

#[inline]
fn entries_of(log: &str) -> Vec<EntryReport> {
    let mut entries: Vec<EntryReport> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            entries.push(EntryReport { name, ..EntryReport::default() });
        }
        let Some(entry) = entries.last_mut() else { continue };
        let numbers = [
            (&mut entry.local_bytes, " bytes stack frame"),
            (&mut entry.spill_store_bytes, " bytes spill stores"),
            (&mut entry.spill_load_bytes, " bytes spill loads"),
            (&mut entry.registers, " registers"),
            (&mut entry.shared_bytes, " bytes smem"),
        ];
        for (place, word) in numbers {
            if let Some(number) = number_before(line, word) {
                *place = number;
            }
        }
    }
    entries
}

errors! {
    /// The error of a `ptxas` call.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PtxasError {
        /// The program does not run.
        DoesNotRun {
            /// The program's path.
            path: PathBuf,
            /// What the system says.
            reason: String,
        } = |f| write!(
            f,
            "`{}` does not run as ptxas ({reason}): name another one in `TILEWRIGHT_PTXAS`",
            path.display()
        ),
        /// ptxas rejected the PTX; its log: {log}
        Refused { log: String },
        /// A file that `ptxas` reads or writes could not be created.
        File {
            /// The file's path.
            path: PathBuf,
            /// What the system says.
            reason: String,
        } = |f| write!(f, "cannot use the file `{}` for ptxas: {reason}", path.display()),
    }
}
crate::errors::message_as_debug!(PtxasError);

impl Ptxas {
    /// Finds a `ptxas` that runs. Tries the environment variable `TILEWRIGHT_PTXAS`, then the
    /// toolkit that `CUDA_HOME` or `CUDA_PATH` names, then `PATH`, then `/usr/local/cuda`. Returns
    /// `None` if no `ptxas` is found, so that a program can go on without it.
    #[inline]
    pub fn find() -> Option<Ptxas> {
        Ptxas::try_find().ok().flatten()
    }

    /// Like [`find`](Ptxas::find), but returns an error if `TILEWRIGHT_PTXAS` names something that
    /// is not a `ptxas`.
    ///
    /// # Errors
    /// [`PtxasError::DoesNotRun`].
    #[inline]
    pub fn try_find() -> Result<Option<Ptxas>, PtxasError> {
        if let Some(named) = std::env::var_os("TILEWRIGHT_PTXAS") {
            return Ptxas::at(named).map(Some);
        }
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
        let toolkits = toolkits.map(|folder| Path::new(&folder).join("bin").join("ptxas"));
        let usual = [PathBuf::from("ptxas"), PathBuf::from("/usr/local/cuda/bin/ptxas")];
        Ok(toolkits.chain(usual).find_map(|path| Ptxas::at(path).ok()))
    }

    /// Returns the `ptxas` at this path, after asking it for its version. Use it if the user names
    /// a particular toolkit.
    ///
    /// # Errors
    /// [`PtxasError::DoesNotRun`].
    pub fn at(path: impl Into<PathBuf>) -> Result<Ptxas, PtxasError> {
        let path = path.into();
        let refused = |reason: String| PtxasError::DoesNotRun { path: path.clone(), reason };
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| refused(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // For example `Cuda compilation tools, release 13.0, V13.0.88`.
        let version = said.split_once(", V").map(|(_, rest)| rest);
        match version.and_then(|rest| rest.split_whitespace().next()) {
            Some(version) if output.status.success() => {
                let version = version.to_owned();
                Ok(Ptxas { path, version })
            }
            _ => Err(refused("it does not print a version".to_owned())),
        }
    }

    /// Returns the program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version, such as `13.0.88`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Compiles a PTX text for a target, without a GPU. Read the log or disassemble the code; to
    /// launch code from `ptxas`, load it with [`LoadOptions::ptxas`](super::LoadOptions::ptxas)
    /// instead.
    ///
    /// # Errors
    /// See [`PtxasError`].
    pub fn assemble(&self, ptx: &str, target: Target) -> Result<Assembled, PtxasError> {
        let of_file = |path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| PtxasError::File { path, reason: error.to_string() }
        };
        let path = std::env::temp_dir().join(format!("tilewright-{}", random_name()));
        let folder = Temporary::make(&path).map_err(of_file(&path))?;
        let (source, object) = (folder.0.join("kernel.ptx"), folder.0.join("kernel.cubin"));
        std::fs::write(&source, ptx).map_err(of_file(&source))?;
        let output = Command::new(&self.path)
            .args(["--verbose", "--gpu-name", &target.to_string(), "--output-file"])
            .args([&object, &source])
            .output()
            .map_err(|error| {
                let (path, reason) = (self.path.clone(), error.to_string());
                PtxasError::DoesNotRun { path, reason }
            })?;
        let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let log = log.replace(&source.display().to_string(), "ptx").trim().to_owned();
        if !output.status.success() {
            return Err(PtxasError::Refused { log });
        }
        let cubin = std::fs::read(&object).map_err(of_file(&object))?;
        Ok(Assembled { cubin, log })
    }
}

/// A folder that only the user can read and write. It is removed when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    /// Creates the folder. Fails if the name already exists, even as a link.
    fn make(path: &Path) -> std::io::Result<Temporary> {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "folders of Windows have no mode"))]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map(|()| Temporary(path.to_owned()))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_each_entry_is_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'a' for 'sm_90a'\n\
                   ptxas info    : Function properties for a\n    \
                   16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 168 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]\n\
                   ptxas info    : Compiling entry function 'b' for 'sm_90a'\n\
                   ptxas info    : Used 4 registers, used 0 barriers";
        let entries = entries_of(log);
        let a = EntryReport {
            name: "a".to_owned(),
            registers: 168,
            spill_store_bytes: 12,
            spill_load_bytes: 8,
            local_bytes: 16,
            shared_bytes: 1024,
        };
        let b = EntryReport { name: "b".to_owned(), registers: 4, ..EntryReport::default() };
        assert_eq!(entries, [a, b]);
        assert!(entries_of("").is_empty());
    }

    /// Nobody else can plant a link under a name that is about to be written, or change the
    /// assembler's output.
    #[cfg(unix)]
    #[test]
    fn only_the_user_can_write_beside_the_files_of_the_assembler() {
        use std::os::unix::fs::{MetadataExt, symlink};
        let path = std::env::temp_dir().join(format!("tilewright-{}", random_name()));
        let folder = Temporary::make(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        assert!(Temporary::make(&path).is_err() && path.exists(), "it exists, and stays");
        drop(folder);
        symlink("/", &path).unwrap();
        assert!(Temporary::make(&path).is_err(), "a link has its name");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_assembler_is_refused() {
        let error = Ptxas::at("/nowhere/ptxas").unwrap_err();
        assert!(error.to_string().starts_with("`/nowhere/ptxas` does not run as ptxas"), "{error}");
        assert!(matches!(Ptxas::at("true"), Err(PtxasError::DoesNotRun { .. })));
    }
}
