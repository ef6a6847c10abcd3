//! [`GemmError`]: why there is no such matrix product.

use std::fmt;

use crate::arch::{DescriptorError, Major, TensorMapError};
use crate::ir::{BuildErrors, Scalar, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;
use crate::tensor::{AtomError, Raster, TensorError};

use super::config::{Schedule, StoreForm};

/// A configuration without a kernel, or a problem that a kernel does not take.
///
/// ```
/// use tilewright::ir::{Scalar, Target};
/// use tilewright::kernels::gemm::{GemmConfig, GemmError, Schedule};
///
/// let config = GemmConfig { target: Target::SM_80, ..GemmConfig::sm90(Scalar::F16, [128, 256]) };
/// let error = config.check().unwrap_err();
/// assert!(matches!(error, GemmError::Target { schedule: Schedule::Cooperative, .. }));
/// assert_eq!(error.to_string(), "the schedule `coop` needs sm_90a, and the target is sm_80");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GemmError {
    /// The target lacks the instructions of the schedule.
    Target {
        /// The schedule.
        schedule: Schedule,
        /// The target.
        target: Target,
    },
    /// The schedule does not multiply elements of these types, or not into such sums.
    Inputs {
        /// The schedule.
        schedule: Schedule,
        /// The type of A.
        a: Scalar,
        /// The type of B.
        b: Scalar,
        /// The type of sums.
        acc: Scalar,
    },
    /// There is no conversion from or to the type of C or D.
    Output {
        /// `C` or `D`.
        operand: char,
        /// The type.
        scalar: Scalar,
    },
    /// Elements of this type are only multiplied K-major.
    MajorMode {
        /// `A` or `B`.
        operand: char,
        /// The type.
        scalar: Scalar,
        /// The contiguous mode.
        major: Major,
    },
    /// A tile of this extent does not exist.
    Tile {
        /// `M`, `N` or `K`.
        mode: char,
        /// The extent.
        extent: u32,
        /// The possible extents.
        rule: &'static str,
    },
    /// A number of stages that there is not.
    Stages {
        /// The stages.
        stages: u32,
        /// The fewest.
        least: u32,
    },
    /// A cluster that there is not.
    Cluster {
        /// Blocks of a cluster.
        cluster: u32,
        /// The reason.
        rule: &'static str,
    },
    /// An order of tiles that cannot be followed.
    Raster {
        /// The order.
        raster: Raster,
    },
    /// The tile of D cannot be written so.
    Store {
        /// The form.
        store: StoreForm,
        /// The reason.
        rule: &'static str,
    },
    /// Registers that cannot be moved so.
    Registers {
        /// Those of a producer thread and of a consumer thread.
        registers: Option<[u32; 2]>,
        /// The reason.
        rule: &'static str,
    },
    /// More sums than a thread has registers for.
    Accumulators {
        /// Registers with sums, with packed elements of the tile before where these are written late, and with elements of
        /// A, B and C that wait there.
        needed: u32,
        /// The most there can be.
        most: u32,
    },
    /// More threads than a block has.
    Threads {
        /// The threads.
        threads: u32,
    },
    /// More shared memory than a block has.
    SharedMemory {
        /// The bytes needed.
        needed: u64,
        /// The bytes of the target.
        available: u64,
    },
    /// An alignment that copies do not have.
    CopyAlignment {
        /// The alignment in bytes.
        alignment: u32,
        /// The possible ones.
        rule: &'static str,
    },
    /// A text that names no configuration.
    Name {
        /// The text.
        text: String,
        /// The part of it that was expected to be something else.
        part: String,
        /// The expected part.
        expected: &'static str,
    },
    /// A size of 0 or too large a one.
    Size {
        /// `m`, `n`, `k` or `batch`.
        name: &'static str,
        /// The size.
        size: u32,
    },
    /// Fewer steps along K than parts of a tile that are written under them.
    Depth {
        /// The size `k`.
        k: u32,
        /// The least there can be.
        least: u32,
    },
    /// A pitch that lets lines overlap.
    Pitch {
        /// `A`, `B`, `C` or `D`.
        operand: char,
        /// The pitch in elements.
        pitch: u64,
        /// The least there can be.
        least: u64,
    },
    /// A matrix or a batch with 2^40 elements or more.
    TooLarge {
        /// `A`, `B`, `C` or `D`.
        operand: char,
        /// Its rows or columns, whichever are contiguous, of all matrices of the batch.
        lines: u64,
        /// The elements from one line to the next.
        pitch: u64,
    },
    /// A distance that is no multiple of what the kernel relies on.
    Alignment {
        /// The name of the distance.
        what: &'static str,
        /// `A`, `B` or `D`.
        operand: char,
        /// The distance in bytes.
        bytes: u64,
        /// The required divisor.
        alignment: u32,
    },
    /// A matrix in memory of other code that starts at no multiple of what the kernel relies on.
    Address {
        /// `A` or `B`.
        operand: char,
        /// The required divisor of its address.
        alignment: u32,
    },
    /// More tiles than can be numbered.
    Tiles {
        /// The tiles.
        tiles: u64,
    },
    /// A buffer of another type than the configuration has.
    BufferType {
        /// `A`, `B`, `C` or `D`.
        operand: char,
        /// The type of its elements.
        found: Scalar,
        /// The type that the configuration has.
        expected: Scalar,
    },
    /// A buffer that is too short.
    BufferLength {
        /// The operand.
        operand: &'static str,
        /// Its elements.
        found: u64,
        /// The elements that are needed.
        needed: u64,
    },
    /// The epilogue needs a matrix or a vector that was not given, or has no use for the given one.
    EpilogueOperand {
        /// The operand.
        operand: &'static str,
        /// The epilogue needs it.
        needed: bool,
    },
    /// No configuration takes the problem.
    NoConfig {
        /// The error of the last configuration that was tried.
        last: Option<Box<GemmError>>,
    },
    /// A layout could not be made.
    Layout(Box<LayoutError>),
    /// An instruction does not exist.
    Atom(Box<AtomError>),
    /// A tensor could not be made.
    Tensor(Box<TensorError>),
    /// A tensor has no map.
    TensorMap(Box<TensorMapError>),
    /// A tile is no operand of `wgmma`.
    Descriptor(Box<DescriptorError>),
    /// The kernel could not be built.
    Build(Box<BuildErrors>),
    /// The device refused it.
    Runtime(Box<RuntimeError>),
}

impl fmt::Display for GemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GemmError::Target { schedule, target } => {
                let needed = if schedule.uses_tma() { Target::SM_90A } else { Target::SM_80 };
                let schedule = schedule.name();
                write!(f, "the schedule `{schedule}` needs {needed}, and the target is {target}")
            }
            GemmError::Inputs { schedule, a, b, acc } => write!(
                f,
                "the schedule `{}` has no products of {a} and {b} with sums in {acc}",
                schedule.name()
            ),
            GemmError::Output { operand, scalar } => {
                write!(f, "{operand} is of f32, f16 or bf16, not of {scalar}")
            }
            GemmError::MajorMode { operand, scalar, major } => {
                let contiguous = match (major, operand) {
                    (Major::K, _) => 'K',
                    (Major::Mn, 'A') => 'M',
                    (Major::Mn, _) => 'N',
                };
                write!(
                    f,
                    "{operand} of {scalar} is contiguous along {contiguous}, but `wgmma` takes elements of 16 bits \
                     only so: it must be contiguous along K, or be multiplied by a multistage kernel"
                )
            }
            GemmError::Tile { mode, extent, rule } => {
                write!(f, "the tile has the extent {extent} along {mode}, but it must be {rule}")
            }
            GemmError::Stages { stages, least } => {
                write!(f, "there are {stages} stages, but {least} to 32 are possible")
            }
            GemmError::Cluster { cluster, rule } => {
                write!(f, "clusters of {cluster} blocks are not possible: {rule}")
            }
            GemmError::Raster { raster } => {
                write!(f, "the order `{raster}` has strips that are too narrow or too wide")
            }
            GemmError::Store { store, rule } => {
                write!(f, "D cannot be written as `{}`: {rule}", store.name())
            }
            GemmError::Registers { registers: Some([fetch, multiply]), rule } => {
                write!(f, "{fetch} and {multiply} registers are not possible: {rule}")
            }
            GemmError::Registers { registers: None, rule } => {
                write!(f, "registers must be moved: {rule}")
            }
            GemmError::Accumulators { needed, most } => write!(
                f,
                "a thread needs {needed} registers for elements, and has {most}: make the tile smaller"
            ),
            GemmError::Threads { threads } => {
                write!(f, "a block would have {threads} threads, but it has 32 to 1024")
            }
            GemmError::SharedMemory { needed, available } => write!(
                f,
                "{needed} bytes of shared memory are needed, and a block has {available}: take fewer stages \
                 or a smaller tile"
            ),
            GemmError::CopyAlignment { alignment, rule } => {
                write!(f, "an alignment of {alignment} bytes is not possible: {rule}")
            }
            GemmError::Name { text, part, expected } if part.is_empty() => write!(
                f,
                "`{}` names no configuration: {expected} is missing",
                text.escape_default()
            ),
            GemmError::Name { text, part, expected } => write!(
                f,
                "`{}` names no configuration: `{}` should be {expected}",
                text.escape_default(),
                part.escape_default()
            ),
            GemmError::Size { name, size } => {
                let most = super::GemmProblem::MAX_SIZE;
                write!(f, "the size `{name}` is {size}, but must be from 1 to {most}")
            }
            GemmError::Depth { k, least } => write!(
                f,
                "the size `k` is {k}, but a tile that is written under the next one needs at least {least}"
            ),
            GemmError::Pitch { operand, pitch, least } => write!(
                f,
                "the lines of {operand} are {pitch} elements apart, but have {least} elements"
            ),
            GemmError::TooLarge { operand, lines, pitch } => write!(
                f,
                "{operand} is too large: it has {lines} lines of {pitch} elements, and a matrix must have fewer than \
                 2^40"
            ),
            GemmError::Alignment { what, operand, bytes, alignment } => write!(
                f,
                "{what} {operand} is {bytes} bytes, but the kernel takes multiples of {alignment}"
            ),
            GemmError::Address { operand, alignment } => write!(
                f,
                "{operand} does not start at a multiple of {alignment} bytes, as the kernel takes it: a configuration \
                 with a smaller `alignment` does"
            ),
            GemmError::Tiles { tiles } => {
                write!(f, "the problem has {tiles} tiles, which are more than 2^31 - 1")
            }
            GemmError::BufferType { operand, found, expected } => {
                write!(f, "the buffer of {operand} has elements of {found}, not of {expected}")
            }
            GemmError::BufferLength { operand, found, needed } => {
                write!(f, "the buffer of {operand} has {found} elements, and {needed} are needed")
            }
            GemmError::EpilogueOperand { operand, needed: true } => {
                write!(f, "the kernel has an epilogue with {operand}, which is not given")
            }
            GemmError::EpilogueOperand { operand, needed: false } => {
                write!(f, "{operand} is given, but the kernel has no epilogue with it")
            }
            GemmError::NoConfig { last: Some(last) } => {
                write!(f, "no configuration takes the problem; the last one tried: {last}")
            }
            GemmError::NoConfig { last: None } => f.write_str("no configuration was given"),
            GemmError::Layout(error) => error.fmt(f),
            GemmError::Atom(error) => error.fmt(f),
            GemmError::Tensor(error) => error.fmt(f),
            GemmError::TensorMap(error) => error.fmt(f),
            GemmError::Descriptor(error) => error.fmt(f),
            GemmError::Build(error) => error.fmt(f),
            GemmError::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GemmError {}

macro_rules! from {
    ($($Variant:ident($Error:ty)),* $(,)?) => {$(
        impl From<$Error> for GemmError {
            fn from(error: $Error) -> GemmError {
                GemmError::$Variant(Box::new(error))
            }
        }
    )*};
}
from! {
    Layout(LayoutError),
    Atom(AtomError),
    Tensor(TensorError),
    TensorMap(TensorMapError),
    Descriptor(DescriptorError),
    Build(BuildErrors),
    Runtime(RuntimeError),
}
