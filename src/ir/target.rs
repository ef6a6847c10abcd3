//! The GPU generations that a kernel can be built for.

use std::fmt;
use std::str::FromStr;

/// A PTX target, such as `sm_90a`. It is a value, given by the caller: building never asks the machine.
///
/// `sm_80` is the base that every target offers. Targets other than those named here are built through
/// [`Target::new`] and get the base feature set.
///
/// ```
/// use tilewright::ir::Target;
/// let target: Target = "sm_90a".parse()?;
/// assert_eq!(target, Target::SM_90A);
/// assert_eq!(Target::for_compute_capability(8, 6).to_string(), "sm_86");
/// # Ok::<(), tilewright::ir::ParseTargetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    sm: u16,
    arch_specific: bool,
}

impl Target {
    /// Ampere: `sm_80`.
    pub const SM_80: Target = Target { sm: 80, arch_specific: false };
    /// Ada: `sm_89`, the first with conversions to 8-bit floating point.
    pub const SM_89: Target = Target { sm: 89, arch_specific: false };
    /// Hopper, as far as newer GPUs have it too: `sm_90`.
    pub const SM_90: Target = Target { sm: 90, arch_specific: false };
    /// Hopper with the instructions that only it has: `sm_90a`.
    pub const SM_90A: Target = Target { sm: 90, arch_specific: true };

    /// The target `sm_<sm>`, with suffix `a` where `arch_specific`; `None` below `sm_80`, and for a suffix
    /// on an architecture that has none (they start with `sm_90`).
    pub const fn new(sm: u16, arch_specific: bool) -> Option<Target> {
        if sm < 80 || (arch_specific && sm < 90) {
            None
        } else {
            Some(Target { sm, arch_specific })
        }
    }

    /// The target of a device with compute capability `major.minor`: `sm_90a` for 9.0, else the plain
    /// `sm_<major><minor>`.
    pub const fn for_compute_capability(major: u16, minor: u16) -> Target {
        Target { sm: major * 10 + minor, arch_specific: major == 9 && minor == 0 }
    }

    /// The number after `sm_`, ten times the major plus the minor version.
    pub const fn sm(self) -> u16 {
        self.sm
    }

    /// Whether the target has the suffix `a`: code for it runs on this architecture only.
    pub const fn arch_specific(self) -> bool {
        self.arch_specific
    }

    /// The threads that a multiprocessor holds at once (CUDA C++ Programming Guide, "Technical Specifications
    /// per Compute Capability"). A target that is not known has what the small ones have.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!((Target::SM_80.threads_per_sm(), Target::SM_90A.threads_per_sm()), (2048, 2048));
    /// ```
    pub const fn threads_per_sm(self) -> u32 {
        match self.sm {
            80 | 90 | 100 | 103 => 2048,
            _ => 1536,
        }
    }

    /// The bytes of shared memory that a block can have, static and dynamic together (CUDA C++ Programming
    /// Guide, "Technical Specifications per Compute Capability"). A target that is not known has what the
    /// smallest has.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!(Target::SM_90A.max_shared_bytes(), 227 * 1024);
    /// ```
    pub const fn max_shared_bytes(self) -> u64 {
        let kibibytes = match self.sm {
            80 | 87 => 163,
            90 | 100 | 103 | 110 => 227,
            _ => 99,
        };
        kibibytes * 1024
    }

    /// Whether everything that `first` offers is offered here.
    pub const fn offers(self, first: Target) -> bool {
        if first.arch_specific {
            self.arch_specific && self.sm == first.sm
        } else {
            self.sm >= first.sm
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.arch_specific { "a" } else { "" })
    }
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTargetError {
    text: String,
}

impl fmt::Display for ParseTargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a target: expected `sm_80` or newer, such as `sm_90a`",
            self.text.escape_default()
        )
    }
}

impl std::error::Error for ParseTargetError {}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Target, ParseTargetError> {
        let error = || ParseTargetError { text: text.to_owned() };
        let number = text.strip_prefix("sm_").ok_or_else(error)?;
        let (number, arch_specific) = match number.strip_suffix('a') {
            Some(number) => (number, true),
            None => (number, false),
        };
        if !(2..=3).contains(&number.len()) || !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        number.parse().ok().and_then(|sm| Target::new(sm, arch_specific)).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_bad_text_is_refused() {
        for text in ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "sm_", "sm_8", "sm_75", "sm_80a", "sm_+80", "sm90", "sm_9000", "sm_90ab"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn arch_specific_features_are_offered_by_that_architecture_only() {
        let sm_100a = Target::new(100, true).unwrap();
        assert!(Target::SM_90A.offers(Target::SM_80) && sm_100a.offers(Target::SM_80));
        assert!(!sm_100a.offers(Target::SM_90A) && !Target::SM_80.offers(Target::SM_90A));
    }
}
