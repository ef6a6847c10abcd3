//! Defines what the CUDA driver reports: its version, its status codes, and why it rejects PTX.
//! Errors contain these types, and programs print them.

use std::fmt;

/// A CUDA version such as 12.0, which a driver implements. This is not the driver's release number;
/// for that see [`driver_release`].
///
/// ```
/// use tilewright::runtime::CudaVersion;
/// let version = CudaVersion::from_number(12080);
/// assert_eq!((version.to_string().as_str(), version < CudaVersion::new(13, 0)), ("12.8", true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// The part before the point.
    pub major: u16,
    /// The part after the point.
    pub minor: u16,
}

impl CudaVersion {
    /// Returns the version `major.minor`, for example to compare it with
    /// [`Device::cuda_version`](super::Device::cuda_version).
    pub const fn new(major: u16, minor: u16) -> CudaVersion {
        CudaVersion { major, minor }
    }

    /// Decodes the integer in which CUDA functions such as `cuDriverGetVersion` return a version,
    /// `1000 * major + 10 * minor`. A negative integer counts as 0.
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

/// The status that a failed CUDA driver call returned, a `CUresult`. Errors contain it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DriverStatus {
    /// The numeric value.
    pub code: u32,
    /// The name, such as `CUDA_ERROR_INVALID_VALUE`, if the driver knows one.
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

/// Why the driver's compiler rejected PTX, and which Rust line produced the rejected PTX line. You
/// get it in [`RuntimeError::PtxRejected`](super::RuntimeError::PtxRejected).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PtxRejection {
    /// The kernel's name.
    pub kernel: String,
    /// The driver's status.
    pub status: DriverStatus,
    /// The PTX line that the log points to, counted from 1, with its text.
    pub line: Option<(usize, String)>,
    /// The Rust line that produced this PTX line, as `file:line`, if a comment in the PTX names it.
    pub location: Option<String>,
    /// The compiler's log.
    pub log: String,
}

impl fmt::Display for PtxRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PtxRejection { kernel, status, line, location, log } = self;
        write!(f, "the driver rejected the PTX of `{kernel}` with {status}")?;
        if let Some((number, text)) = line {
            write!(f, " at line {number}, `{}`", text.trim())?;
        }
        if let Some(location) = location {
            write!(f, ", which is from {location}")?;
        }
        if !log.is_empty() {
            write!(f, "; compiler log: {log}")?;
        }
        Ok(())
    }
}

/// Returns the NVIDIA driver's release, such as `580.95.05`, even if the driver or its GPUs cannot
/// be used; otherwise like [`Device::driver_release`](super::Device::driver_release). Use it in bug
/// reports.
pub fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
