//! Defines [`UniqueId`]: the name under which ranks find each other. One rank creates it and sends
//! it to the others before they connect.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::CommError;
use super::nccl;
use crate::runtime::device::{Backend, Device};
use crate::runtime::error::RuntimeError;
use crate::runtime::random_name::random_name;

/// The name of a communicator: one rank creates it, and all ranks connect with it.
///
/// Send it to the other ranks as bytes, or through a file that all ranks can read.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::Device;
/// use tilewright::runtime::comm::UniqueId;
/// let id = UniqueId::new(&Device::sim()?)?;
/// assert_eq!(UniqueId::from_bytes(id.as_bytes())?, id);
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId {
    bytes: [u8; UniqueId::BYTES],
}

impl UniqueId {
    /// The size of an id in bytes.
    pub const BYTES: usize = 128;

    /// Creates an id for ranks on devices of the same kind as `device`: GPUs or simulators.
    ///
    /// With GPUs, the process that calls this answers the other ranks when they connect, so it must
    /// live until all of them have connected.
    ///
    /// # Errors
    /// [`NcclNotBuilt`](CommError::NcclNotBuilt), [`NoLibrary`](CommError::NoLibrary),
    /// [`MissingSymbol`](CommError::MissingSymbol), [`OldVersion`](CommError::OldVersion),
    /// [`Status`](CommError::Status).
    pub fn new(device: &Device) -> Result<UniqueId, RuntimeError> {
        match &device.backend {
            Backend::Sim(_) => {
                let mut bytes = [0; UniqueId::BYTES];
                for part in bytes.chunks_mut(16) {
                    part.copy_from_slice(random_name().as_bytes());
                }
                Ok(UniqueId { bytes })
            }
            Backend::Cuda(_) => nccl::unique_id().map(|bytes| UniqueId { bytes }),
        }
    }

    /// Returns the id with these bytes, which another rank has sent: see [`UniqueId::as_bytes`].
    ///
    /// # Errors
    /// [`IdLength`](CommError::IdLength).
    pub fn from_bytes(bytes: &[u8]) -> Result<UniqueId, RuntimeError> {
        let error = CommError::IdLength { bytes: bytes.len() };
        bytes.try_into().map(|bytes| UniqueId { bytes }).map_err(|_| error.into())
    }

    /// Returns the id's bytes, so that you can send them to the other ranks, for example over a
    /// socket.
    pub fn as_bytes(&self) -> &[u8; UniqueId::BYTES] {
        &self.bytes
    }

    /// Writes the id to a new file, atomically: another process never reads half of it. Fails if
    /// the file exists, because it may be left over from an earlier run. Remove it first.
    ///
    /// # Errors
    /// [`IdFile`](CommError::IdFile).
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<(), RuntimeError> {
        let path = path.as_ref();
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", random_name()));
        let temporary = path.with_file_name(name);
        let written = write_new(&temporary, &self.bytes)
            // A hard link fails if the path already exists.
            .and_then(|()| std::fs::hard_link(&temporary, path));
        let _ = std::fs::remove_file(&temporary);
        written.map_err(|error| file_error(path, &error))
    }

    /// Waits until another rank has written the file, then reads the id from it.
    ///
    /// # Errors
    /// [`IdFile`](CommError::IdFile) if the file does not exist after `timeout` or cannot be read;
    /// [`IdLength`](CommError::IdLength).
    pub fn read_file(path: impl AsRef<Path>, timeout: Duration) -> Result<UniqueId, RuntimeError> {
        const PAUSE: Duration = Duration::from_millis(10);
        let (path, start) = (path.as_ref(), Instant::now());
        loop {
            match std::fs::read(path) {
                Ok(bytes) => return UniqueId::from_bytes(&bytes),
                Err(error)
                    if error.kind() != std::io::ErrorKind::NotFound
                        || start.elapsed() >= timeout =>
                {
                    return Err(file_error(path, &error));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::File::create_new(path)?.write_all(bytes)
}

fn file_error(path: &Path, error: &std::io::Error) -> RuntimeError {
    CommError::IdFile { path: path.display().to_string(), error: error.to_string() }.into()
}

/// Shows the first bytes in hexadecimal, enough to tell ids apart in a log.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId(")?;
        self.bytes[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}
