//! Opens files that are kept between runs, and refuses files that other users can write, because a
//! cached module is code that runs on the GPU.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file or folder that the module cache does not use, because it is not a regular file or folder,
/// is too large, or could have been written by another user.
///
/// ```
/// use tilewright::runtime::{Refusal, RefusalReason};
/// let reason = RefusalReason::WritableByOthers { mode: 0o777 };
/// let refusal = Refusal { path: "/tmp/cache".into(), reason };
/// assert_eq!(
///     refusal.to_string(),
///     "`/tmp/cache` is not used: its mode is 777, so other users can write to it; check what it \
///      contains, then `chmod go-w` it",
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file or folder.
    pub path: PathBuf,
    /// Why it is not used.
    pub reason: RefusalReason,
}

/// Why a file or folder is not used. If the reason is [`Owner`](RefusalReason::Owner) or
/// [`WritableByOthers`](RefusalReason::WritableByOthers), change its owner or its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// It belongs neither to the user of this process nor to the superuser (Unix only).
    Owner {
        /// Its owner's user id.
        owner: u32,
        /// This process's effective user id.
        user: u32,
    },
    /// Its group or all users can write it (Unix only).
    WritableByOthers {
        /// Its permission bits.
        mode: u32,
    },
    /// It is not what is expected there, a regular file or a folder.
    Kind {
        /// What it is, for example `a fifo`.
        found: &'static str,
    },
    /// It is larger than any file that this crate writes there.
    Size {
        /// Its size in bytes.
        bytes: u64,
        /// The maximum size in bytes.
        limit: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not used: ", self.path.display())?;
        match self.reason {
            RefusalReason::Owner { owner, user } => write!(
                f,
                "it belongs to user {owner}, but this process runs as user {user}; remove it, or name another folder"
            ),
            RefusalReason::WritableByOthers { mode } => write!(
                f,
                "its mode is {mode:o}, so other users can write to it; check what it contains, then `chmod go-w` it"
            ),
            RefusalReason::Kind { found } => write!(f, "it is {found}; remove it"),
            RefusalReason::Size { bytes, limit } => {
                write!(f, "it has {bytes} bytes, but at most {limit} are read; remove it")
            }
        }
    }
}

impl std::error::Error for Refusal {}
crate::errors::message_as_debug!(Refusal);

/// Why a file or folder cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// The system refused it.
    Io(io::Error),
    /// This crate refused it.
    Refused(Refusal),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::Io(error)
    }
}

impl From<Unusable> for io::Error {
    fn from(unusable: Unusable) -> io::Error {
        match unusable {
            Unusable::Io(error) => error,
            Unusable::Refused(refusal) => io::Error::new(io::ErrorKind::InvalidInput, refusal),
        }
    }
}

fn refused(path: &Path, reason: RefusalReason) -> Unusable {
    Unusable::Refused(Refusal { path: path.to_owned(), reason })
}

/// Opens a regular file of at most `limit` bytes. Does not follow a link at the end of the path,
/// and opens nothing but a regular file, because opening a fifo waits for a writer and opening a
/// device can have side effects.
pub(crate) fn open_regular(
    path: &Path,
    options: &OpenOptions,
    limit: u64,
) -> Result<(File, Metadata), Unusable> {
    match fs::symlink_metadata(path) {
        Ok(data) => check_regular(path, &data)?,
        // The options decide whether the file is created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let file = without_links(options).open(path)?;
    // The file may have been replaced in between.
    let data = file.metadata()?;
    check_regular(path, &data)?;
    if data.len() > limit {
        return Err(refused(path, RefusalReason::Size { bytes: data.len(), limit }));
    }
    Ok((file, data))
}

/// Returns an error if another user owns the file or folder, or can write it.
#[cfg(all(unix, feature = "cuda-any-version"))]
pub(crate) fn check_owner(path: &Path, data: &Metadata) -> Result<(), Unusable> {
    use std::os::unix::fs::MetadataExt;
    const SUPERUSER: u32 = 0;
    let (owner, user) = (data.uid(), super::cuda::effective_user());
    if owner != user && owner != SUPERUSER {
        return Err(refused(path, RefusalReason::Owner { owner, user }));
    }
    // A link's own mode means nothing; its target is checked.
    if !data.is_symlink() && data.mode() & 0o022 != 0 {
        return Err(refused(path, RefusalReason::WritableByOthers { mode: data.mode() & 0o7777 }));
    }
    Ok(())
}

/// Accepts everything, because Windows protects a user's folders from other users.
#[cfg(all(not(unix), feature = "cuda-any-version"))]
pub(crate) fn check_owner(_path: &Path, _data: &Metadata) -> Result<(), Unusable> {
    Ok(())
}

/// Checks that a path leads to a folder that other users cannot write. The path may be a link,
/// unless another user owns it.
#[cfg(feature = "cuda-any-version")]
pub(crate) fn check_folder(path: &Path) -> Result<(), Unusable> {
    let mut data = fs::symlink_metadata(path)?;
    check_owner(path, &data)?;
    if data.is_symlink() {
        data = fs::metadata(path)?;
        check_owner(path, &data)?;
    }
    match data.is_dir() {
        true => Ok(()),
        false => Err(refused(path, RefusalReason::Kind { found: kind(&data) })),
    }
}

/// Creates a folder that only the user can read and write, and missing parent folders.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Sets the options so that a file that they create can be read and written only by the user.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn without_links(options: &OpenOptions) -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "Windows has no such flags"))]
    let mut options = options.clone();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    options
}

fn check_regular(path: &Path, data: &Metadata) -> Result<(), Unusable> {
    match data.is_file() {
        true => Ok(()),
        false => Err(refused(path, RefusalReason::Kind { found: kind(data) })),
    }
}

fn kind(data: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = data.file_type();
        if kind.is_fifo() {
            return "a fifo";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_block_device() || kind.is_char_device() {
            return "a device";
        }
    }
    if data.is_symlink() {
        "a link"
    } else if data.is_dir() {
        "a folder"
    } else if data.is_file() {
        "a file"
    } else {
        "no file"
    }
}
