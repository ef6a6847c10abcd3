//! [`Ptx`]: a written PTX module, with its text, its entry names and its PTX version. `Kernel::ptx`
//! returns one.

use std::fmt;

use crate::ir::Target;

/// A version of the PTX ISA, as in `.version`. [`Ptx::version`] returns the one that a text needs;
/// compare it with what your driver or `ptxas` supports.
///
/// ```
/// use tilewright::codegen::PtxVersion;
/// assert!(PtxVersion { major: 7, minor: 8 } < PtxVersion { major: 8, minor: 0 });
/// assert_eq!(PtxVersion { major: 8, minor: 0 }.to_string(), "8.0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// The part before the dot.
    pub major: u16,
    /// The part after the dot.
    pub minor: u16,
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A PTX module as text, with its target and version, for a driver or `ptxas`. Returned by
/// [`Kernel::ptx`](crate::ir::Kernel::ptx) and [`Module::ptx`](super::Module::ptx). It displays as
/// the text.
///
/// ```
/// use tilewright::ir::{Kernel, Target};
///
/// let ptx = Kernel::<()>::build("k", Target::SM_80, |_, ()| ())?.ptx();
/// assert_eq!((ptx.entries(), ptx.target()), (&["k".to_owned()][..], Target::SM_80));
/// assert!(ptx.text().contains(".entry k"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ptx {
    pub(super) text: String,
    pub(super) entries: Vec<String>,
    pub(super) target: Target,
    pub(super) version: PtxVersion,
}

impl Ptx {
    /// Returns the PTX text, to print it or to pass it to `ptxas` or a driver.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the PTX text out without copying it. Use it if you do not need the other fields any
    /// more.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Returns the names of the entries (the kernels), in the order in which they were added. Look
    /// a function up by this name after you load the text yourself.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Returns the target that the text names in `.target`.
    ///
    /// It is the kernels' target if the PTX ISA has it. For any other (a device that is newer than
    /// this crate) it is the nearest older one, which the driver compiles for every newer device.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the version that the text names in `.version`: the lowest PTX ISA version that has
    /// the target and every instruction used. An older driver cannot load the text.
    pub fn version(&self) -> PtxVersion {
        self.version
    }
}

impl fmt::Display for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl AsRef<str> for Ptx {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

const fn version(major: u16, minor: u16) -> PtxVersion {
    PtxVersion { major, minor }
}

/// The PTX ISA's targets from `sm_80` on: the number, the first version with the plain target, and
/// the first with the suffix `a` (PTX ISA, release notes).
const TARGETS: [(u16, PtxVersion, Option<PtxVersion>); 11] = [
    (80, version(7, 0), None),
    (86, version(7, 1), None),
    (87, version(7, 4), None),
    (88, version(9, 0), None),
    (89, version(7, 8), None),
    (90, version(7, 8), Some(version(8, 0))),
    (100, version(8, 6), Some(version(8, 6))),
    (103, version(8, 8), Some(version(8, 8))),
    (110, version(9, 0), Some(version(9, 0))),
    (120, version(8, 7), Some(version(8, 7))),
    (121, version(8, 8), Some(version(8, 8))),
];

/// The first version whose entries accept more than 4352 bytes of parameters.
pub(super) const LARGE_PARAMS: PtxVersion = version(8, 1);

/// Returns the first version that has the target.
pub(super) fn version_of(target: Target) -> PtxVersion {
    let row = TARGETS.iter().find(|(sm, ..)| *sm == target.sm());
    row.map_or(TARGETS[0].1, |(_, plain, specific)| {
        specific.filter(|_| target.arch_specific()).unwrap_or(*plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_their_first_version() {
        let cases = [
            ("sm_80", version(7, 0)),
            ("sm_89", version(7, 8)),
            ("sm_90", version(7, 8)),
            ("sm_90a", version(8, 0)),
            ("sm_100a", version(8, 6)),
            ("sm_120", version(8, 7)),
            ("sm_121a", version(8, 8)),
        ];
        for (target, first) in cases {
            assert_eq!(version_of(target.parse().unwrap()), first, "{target}");
        }
    }

    #[test]
    fn the_table_has_all_targets() {
        let of = |(sm, _, specific): (u16, PtxVersion, Option<PtxVersion>)| {
            [Target::new(sm, false), specific.and_then(|_| Target::new(sm, true))]
        };
        let listed = TARGETS.into_iter().flat_map(of).flatten();
        assert!(listed.eq(Target::all()));
    }
}
