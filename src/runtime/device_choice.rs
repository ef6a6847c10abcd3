//! Defines [`DeviceChoice`]: the device that a user asks for on a command line, as text.

use std::fmt;
use std::str::FromStr;

/// The device that a user asks for, parsed from `auto`, `sim`, `cuda` or `cuda:N`. Pass it to
/// [`Device::open`](super::Device::open).
///
/// ```
/// use tilewright::runtime::DeviceChoice;
/// assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda(Some(1))));
/// assert_eq!(DeviceChoice::default().to_string(), "auto");
/// let error = "gpu".parse::<DeviceChoice>().expect_err("it is no device");
/// assert_eq!(error.to_string(), "`gpu` is not a device: expected `auto`, `sim`, `cuda` or `cuda:N`");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// A GPU if there is one, otherwise the simulator.
    #[default]
    Auto,
    /// The simulator.
    Sim,
    /// The GPU with this ordinal; with `None`, the first supported GPU.
    Cuda(Option<usize>),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Auto => f.write_str("auto"),
            DeviceChoice::Sim => f.write_str("sim"),
            DeviceChoice::Cuda(None) => f.write_str("cuda"),
            DeviceChoice::Cuda(Some(ordinal)) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// The error if a text that should name a device is not `auto`, `sim`, `cuda` or `cuda:N`.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseDeviceError {
    text: String,
}

impl fmt::Display for ParseDeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_default();
        write!(f, "`{text}` is not a device: expected `auto`, `sim`, `cuda` or `cuda:N`")
    }
}

impl std::error::Error for ParseDeviceError {}
crate::errors::message_as_debug!(ParseDeviceError);

impl FromStr for DeviceChoice {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<DeviceChoice, ParseDeviceError> {
        let error = || ParseDeviceError { text: text.to_owned() };
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "sim" => Ok(DeviceChoice::Sim),
            "cuda" => Ok(DeviceChoice::Cuda(None)),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or_else(error)?;
                let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                let ordinal = number.parse().ok().filter(|_| digits).ok_or_else(error)?;
                Ok(DeviceChoice::Cuda(Some(ordinal)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_round_trip_and_bad_text_is_refused() {
        for text in ["auto", "sim", "cuda", "cuda:0", "cuda:15"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        let huge = "cuda:99999999999999999999999";
        for text in ["", "gpu", "Sim", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:x", huge] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
