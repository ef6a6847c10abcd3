//! The GPU architectures that you can build a kernel for. You pass one to `Kernel::build`, for
//! example `Target::SM_90A`.

use std::fmt;
use std::str::FromStr;

/// A PTX target, such as `sm_90a`.
///
/// You choose the target when you build a kernel; a build never queries the machine. `sm_80` is the
/// oldest. A newer target has everything that older targets without a suffix have. Targets with
/// suffix `a` add instructions that run on their architecture only, such as `wgmma` on `sm_90a`.
/// [`Target::all`] lists the valid targets.
///
/// ```
/// use tilewright::ir::Target;
/// let target: Target = "sm_90a".parse()?;
/// assert_eq!(target, Target::SM_90A);
/// assert!("sm_999".parse::<Target>().is_err());
/// # Ok::<(), tilewright::ir::ParseTargetError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    sm: u16,
    arch_specific: bool,
}

/// A row of the target table.
#[derive(Clone, Copy)]
struct Known {
    sm: u16,
    /// Whether a target with suffix `a` exists.
    has_specific: bool,
    threads_per_sm: u32,
    max_shared_kib: u64,
}

const fn known(sm: u16, has_specific: bool, threads_per_sm: u32, max_shared_kib: u64) -> Known {
    Known { sm, has_specific, threads_per_sm, max_shared_kib }
}

/// The PTX ISA's targets from `sm_80` on, with their per-SM limits (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability"). Their PTX versions are in `TARGETS` in
/// `src/codegen/ptx.rs`.
const KNOWN: [Known; 11] = [
    known(80, false, 2048, 163),
    known(86, false, 1536, 99),
    known(87, false, 1536, 163),
    known(88, false, 1536, 99),
    known(89, false, 1536, 99),
    known(90, true, 2048, 227),
    known(100, true, 2048, 227),
    known(103, true, 2048, 227),
    known(110, true, 1536, 227),
    known(120, true, 1536, 99),
    known(121, true, 1536, 99),
];

impl Target {
    /// Ampere: `sm_80`.
    pub const SM_80: Target = Target { sm: 80, arch_specific: false };
    /// Ada: `sm_89`, the first target with conversions to 8-bit floating point.
    pub const SM_89: Target = Target { sm: 89, arch_specific: false };
    /// Hopper: `sm_90`, the features that newer GPUs also have.
    pub const SM_90: Target = Target { sm: 90, arch_specific: false };
    /// Hopper: `sm_90a`, including the instructions that no other GPU has.
    pub const SM_90A: Target = Target { sm: 90, arch_specific: true };

    /// Returns all targets from `sm_80` on, oldest first, for example to build a kernel for each.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!(Target::all().next(), Some(Target::SM_80));
    /// assert!(Target::all().any(|target| target == Target::SM_90A));
    /// ```
    pub fn all() -> impl Iterator<Item = Target> {
        KNOWN.into_iter().flat_map(|Known { sm, has_specific, .. }| {
            let plain = Target { sm, arch_specific: false };
            let specific = Target { sm, arch_specific: true };
            [Some(plain), has_specific.then_some(specific)].into_iter().flatten()
        })
    }

    /// Returns `sm_<sm>`, with suffix `a` if `arch_specific`. Returns `None` if the PTX ISA has no
    /// such target or if it is older than `sm_80`.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!(Target::new(90, true), Some(Target::SM_90A));
    /// assert_eq!((Target::new(75, false), Target::new(80, true), Target::new(95, false)), (None, None, None));
    /// ```
    pub const fn new(sm: u16, arch_specific: bool) -> Option<Target> {
        let mut i = 0;
        while i < KNOWN.len() {
            if KNOWN[i].sm == sm && (KNOWN[i].has_specific || !arch_specific) {
                return Some(Target { sm, arch_specific });
            }
            i += 1;
        }
        None
    }

    /// Returns the best target for a device of compute capability `major.minor`, for kernels that
    /// run where they are built: `sm_90a` for 9.0, and otherwise the newest target without suffix
    /// that the device can run. Returns `None` below 8.0.
    ///
    /// A device that is newer than every target gets the newest one, because the driver compiles
    /// PTX of older targets for newer devices.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// let target = |major, minor| Target::for_compute_capability(major, minor).map(|target| target.to_string());
    /// assert_eq!(target(8, 6).as_deref(), Some("sm_86"));
    /// assert_eq!(target(9, 0).as_deref(), Some("sm_90a"));
    /// assert_eq!(target(13, 0).as_deref(), Some("sm_121"));
    /// assert_eq!(target(7, 5), None);
    /// ```
    #[inline]
    pub fn for_compute_capability(major: u16, minor: u16) -> Option<Target> {
        let sm = major.saturating_mul(10).saturating_add(minor);
        if (major, minor) == (9, 0) {
            return Some(Target::SM_90A);
        }
        Target::all().filter(|target| !target.arch_specific && target.sm <= sm).last()
    }

    /// Returns the integer after `sm_`: ten times the major version plus the minor version, for
    /// example 90 for `sm_90a`.
    pub const fn sm(self) -> u16 {
        self.sm
    }

    /// Returns whether the target has suffix `a`, so that its code runs on this architecture only.
    pub const fn arch_specific(self) -> bool {
        self.arch_specific
    }

    /// Returns the target's table row. Every target has one.
    const fn row(self) -> Known {
        let mut i = KNOWN.len() - 1;
        while i > 0 && KNOWN[i].sm != self.sm {
            i -= 1;
        }
        KNOWN[i]
    }

    /// Returns the maximum number of resident threads on an SM, for example to plan occupancy (CUDA
    /// C++ Programming Guide, "Technical Specifications per Compute Capability").
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!((Target::SM_80.threads_per_sm(), Target::SM_90A.threads_per_sm()), (2048, 2048));
    /// ```
    pub const fn threads_per_sm(self) -> u32 {
        self.row().threads_per_sm
    }

    /// Returns the maximum shared memory per block in bytes, static and dynamic together, for
    /// example to choose tile sizes and stages (CUDA C++ Programming Guide, "Technical
    /// Specifications per Compute Capability").
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// assert_eq!(Target::SM_90A.max_shared_bytes(), 227 * 1024);
    /// ```
    pub const fn max_shared_bytes(self) -> u64 {
        self.row().max_shared_kib * 1024
    }

    /// Returns whether this target supports a feature that exists since the target `first`. Use it
    /// to choose between kernels; the verifier calls it for each operation. An
    /// architecture-specific `first` such as `sm_90a`, which has `wgmma`, is offered only by
    /// itself: `sm_100a` does not offer `sm_90a`, but both offer `sm_90`.
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

/// The error that `parse` returns for a text that is not a target. The message lists the valid
/// targets.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseTargetError {
    text: String,
}

impl fmt::Display for ParseTargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<String> = Target::all().map(|target| target.to_string()).collect();
        write!(
            f,
            "`{}` is not a target: expected one of {}",
            self.text.escape_default(),
            known.join(", ")
        )
    }
}

impl std::error::Error for ParseTargetError {}
crate::errors::message_as_debug!(ParseTargetError);

impl FromStr for Target {
    type Err = ParseTargetError;

    #[inline]
    fn from_str(text: &str) -> Result<Target, ParseTargetError> {
        let known = Target::all().find(|target| target.to_string() == text);
        known.ok_or_else(|| ParseTargetError { text: text.to_owned() })
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
        for text in [
            "", "sm_", "sm_8", "sm_75", "sm_80a", "sm_+80", "sm90", "sm_9000", "sm_90ab", "sm_95",
            "sm_090", "sm_200a", "sm_999",
        ] {
            let error = text.parse::<Target>().unwrap_err();
            let known: Vec<String> = Target::all().map(|target| target.to_string()).collect();
            assert!(known.starts_with(&["sm_80".to_owned(), "sm_86".to_owned()]));
            let expected =
                format!("`{text}` is not a target: expected one of {}", known.join(", "));
            assert_eq!(error.to_string(), expected);
        }
    }

    /// Every target prints as a name that parses back to it.
    #[test]
    fn there_are_only_known_targets() {
        for sm in 0..=u16::MAX {
            for arch_specific in [false, true] {
                let target = Target::new(sm, arch_specific);
                assert_eq!(
                    target.is_some(),
                    Target::all().any(|known| Some(known) == target),
                    "{sm}"
                );
            }
            let target = Target::for_compute_capability(sm / 10, sm % 10);
            assert_eq!(target.is_some(), sm >= 80, "{sm}");
            assert!(target.is_none_or(|target| target.to_string().parse() == Ok(target)), "{sm}");
        }
    }

    #[test]
    fn arch_specific_features_are_offered_by_that_architecture_only() {
        let sm_100a = Target::new(100, true).unwrap();
        assert!(Target::SM_90A.offers(Target::SM_80) && sm_100a.offers(Target::SM_80));
        assert!(!sm_100a.offers(Target::SM_90A) && !Target::SM_80.offers(Target::SM_90A));
    }
}
