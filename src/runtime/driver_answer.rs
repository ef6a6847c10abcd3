//! Defines the answers of the CUDA driver: its version, its status codes, its rejections of PTX.

use std::fmt;

/// A version of CUDA, such as 12.0: what a driver implements. It is not the number of the driver's release.
///
/// ```
/// use tilewright::runtime::CudaVersion;
/// let version = CudaVersion::from_number(12080);
/// assert_eq!((version.to_string().as_str(), version < CudaVersion::new(13, 0)), ("12.8", true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// The number before the point.
    pub major: u16,
    /// The number after the point.
    pub minor: u16,
}

impl CudaVersion {
    /// Returns the version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> CudaVersion {
        CudaVersion { major, minor }
    }

    /// Returns the version from CUDA's number, `1000 * major + 10 * minor`; a negative number counts as 0.
    pub const fn from_number(number: i32) -> CudaVersion {
        let number = if number < 0 { 0 } else { number };
        CudaVersion { major: (number / 1000) as u16, minor: (number % 1000 / 10) as u16 }
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The answer of a call of the CUDA driver: a value of `CUresult`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DriverStatus {
    /// The number.
    pub code: u32,
    /// Its name, such as `CUDA_ERROR_INVALID_VALUE`, where the driver knows one.
    pub name: Option<String>,
}

impl fmt::Display for DriverStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.code),
            None => write!(f, "CUDA error {}", self.code),
        }
    }
}

/// PTX that the driver's compiler refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PtxRejection {
    /// The kernel.
    pub kernel: String,
    /// The answer of the driver.
    pub status: DriverStatus,
    /// The line of the PTX text that the log names, from 1, with its text.
    pub line: Option<(usize, String)>,
    /// The Rust line that this line was written for, as `file:line`, where a comment in the PTX names it.
    pub location: Option<String>,
    /// The compiler's messages.
    pub log: String,
}

impl fmt::Display for PtxRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PtxRejection { kernel, status, line, location, log } = self;
        write!(f, "the driver refused the PTX of `{kernel}` with {status}")?;
        if let Some((number, text)) = line {
            write!(f, " at line {number}, `{}`", text.trim())?;
        }
        if let Some(location) = location {
            write!(f, ", which is from {location}")?;
        }
        if !log.is_empty() {
            write!(f, "; it says: {log}")?;
        }
        Ok(())
    }
}

/// As [`Device::driver_release`](super::Device::driver_release), also where the driver or its GPUs cannot be used.
pub fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
