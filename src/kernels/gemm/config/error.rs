//! [`GemmError`]: errors for unsupported GEMM configurations and for problems that a kernel cannot
//! run. Each message says what to change.

use crate::errors::errors;

use crate::arch::{DescriptorError, Major, TensorMapError};
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Target};
use crate::layout::LayoutError;
use crate::runtime::RuntimeError;
use crate::tensor::TensorError;
use crate::tensor::atom::AtomError;

use crate::kernels::gemm::config::methods::Schedule;
use crate::kernels::group_rows::GroupRowsError;
use crate::kernels::rows::RowError;

errors! {
    /// Why a GEMM kernel cannot be built, or why it cannot run a problem.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmConfig, GemmError, Schedule};
    ///
    /// let config = GemmConfig { target: Target::SM_80, ..GemmConfig::sm90(Scalar::F16, [128, 256]) };
    /// let error = config.check().unwrap_err();
    /// assert!(matches!(error, GemmError::Target { schedule: Schedule::Cooperative, .. }));
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the schedule `coop` needs sm_90a, and the target is sm_80; \
    ///      start from `GemmConfig::sm80`, or let `GemmConfig::best` choose for the target"
    /// );
    /// ```
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum GemmError {
        /// The target lacks the schedule's instructions.
        Target {
            /// The schedule.
            schedule: Schedule,
            /// The target.
            target: Target,
        } = |f| {
            let needed = if schedule.uses_tma() { Target::SM_90A } else { Target::SM_80 };
            let name = schedule.name();
            write!(f, "the schedule `{name}` needs {needed}, and the target is {target}")?;
            if schedule.uses_tma() {
                write!(f, "; start from `GemmConfig::sm80`, or let `GemmConfig::best` choose for the target")?;
            }
            Ok(())
        },
        /// The schedule cannot multiply elements of these types, or not with this accumulator type.
        Inputs {
            /// The schedule.
            schedule: Schedule,
            /// The type of A.
            a: Scalar,
            /// The type of B.
            b: Scalar,
            /// The accumulator type.
            acc: Scalar,
        } = |f| write!(
            f,
            "the schedule `{}` cannot multiply {a} by {b} with accumulators in {acc}",
            schedule.name()
        ),
        /// C or D cannot have this type.
        Output {
            /// `C` or `D`.
            operand: char,
            /// The type.
            scalar: Scalar,
        } = |f| {
            let small = if *operand == 'D' { ", f8e4m3, f8e5m2, i8, u8" } else { "" };
            write!(f, "{operand} must be f64 if A and B are, else f32, f16, bf16{small} or i32, not {scalar}")
        },
        /// elements of {scalar} need sm_89, and the target is {target}
        SmallFloats { scalar: Scalar, target: Target },
        /// The MMA reads elements of this type only if they are contiguous along K.
        MajorMode {
            /// `A` or `B`.
            operand: char,
            /// The type.
            scalar: Scalar,
            /// The contiguous mode.
            major: Major,
        } = |f| {
            let contiguous = match (major, operand) {
                (Major::K, _) => 'K',
                (Major::Mn, 'A') => 'M',
                (Major::Mn, _) => 'N',
            };
            write!(
                f,
                "{operand} is {scalar} and contiguous along {contiguous}, which `wgmma` supports \
                 only for 16-bit elements: it must be contiguous along K"
            )?;
            match scalar.bits() {
                32 => f.write_str(", be copied first (`repack`), or be multiplied by a multistage kernel"),
                _ => f.write_str(", or be copied first (`repack`)"),
            }
        },
        /// the tile has the extent {extent} along {mode}, but it must be {rule}
        Tile { mode: char, extent: u32, rule: &'static str },
        /// `{field}` cannot be `{value}`: {rule}
        Field { field: &'static str, value: String, rule: &'static str },
        /// These register counts are not possible.
        Registers {
            /// The registers of a producer thread and of a consumer thread.
            registers: Option<[u32; 2]>,
            /// The reason.
            rule: &'static str,
        } = |f| match registers {
            Some([fetch, multiply]) => {
                write!(f, "unsupported register counts {fetch} (producers) and {multiply} (consumers): {rule}")
            }
            None => {
                write!(f, "the register counts are missing: {rule}")
            }
        },
        /// each thread needs {needed} registers for elements, but has only {max}: use a smaller
        /// tile
        Accumulators { needed: u32, max: u32 },
        /// a block would have {threads} threads, but must have 32 to 1024
        Threads { threads: u32 },
        /// the kernel needs {needed} bytes of shared memory, but a block can have {available}: use
        /// fewer stages or a smaller tile
        SharedMemory { needed: u64, available: u64 },
        /// The text is not the name of a configuration.
        Name {
            /// The text.
            text: String,
            /// The part that was not recognised.
            part: String,
            /// What was expected in its place.
            expected: &'static str,
        } = |f| {
            let text = text.escape_default();
            if part.is_empty() {
                write!(f, "`{text}` is not a configuration name: {expected} is missing")
            } else {
                let part = part.escape_default();
                write!(f, "`{text}` is not a configuration name: `{part}` should be {expected}")
            }
        },
        /// A size is 0 or too large.
        Size {
            /// `m`, `n`, `k` or `batch`.
            name: &'static str,
            /// The size.
            size: u32,
        } = |f| {
            let max = crate::kernels::gemm::GemmProblem::MAX_SIZE;
            write!(f, "the size `{name}` is {size}, but must be from 1 to {max}")
        },
        /// the size `k` is {k}, but the store method `overlapped` needs at least {min}
        Depth { k: u32, min: u32 },
        /// the size `k` is {k}, which leaves some of the {splits} splits without a step along K:
        /// use fewer splits
        Splits { k: u32, splits: u32 },
        /// the pitch of {operand} is {pitch} elements, but its lines have {min}
        Pitch { operand: char, pitch: u64, min: u64 },
        /// {operand} is too large: it has {lines} lines of {pitch} elements, and a matrix must have
        /// fewer than 2^40
        TooLarge { operand: char, lines: u64, pitch: u64 },
        /// {what} {operand} is {bytes} bytes, but must be a multiple of {alignment}
        Alignment { what: &'static str, operand: char, bytes: u64, alignment: u32 },
        /// {operand} has {bytes} bytes, but loads by threads (`threads`) need at least {min}
        Short { operand: char, bytes: u64, min: u32 },
        /// the pitch of {operand} is {pitch} elements, but loads by threads (`threads`) allow at
        /// most {max}
        Far { operand: char, pitch: u64, max: u64 },
        /// {operand} must start at a multiple of {alignment} bytes: choose a configuration with a
        /// smaller `alignment`
        Address { operand: char, alignment: u32 },
        /// the problem has {tiles} tiles, but can have at most 2^31 - 1
        Tiles { tiles: u64 },
        /// all tiles together have {steps} steps along K, but stream-K (`streamk`) supports fewer
        /// than 2^30
        Steps { steps: u64 },
        /// {operand} has type {found}, but the configuration needs {expected}
        BufferType { operand: &'static str, found: Scalar, expected: Scalar },
        /// the buffer for {operand} has {found} elements, but {needed} are needed
        BufferLength { operand: &'static str, found: u64, needed: u64 },
        /// the kernel has its own epilogue function, so its configuration must have the epilogue
        /// `Epilogue::default()`
        TwoEpilogues,
        /// a kernel with `pairs` makes one column of D from two of A B: build it with
        /// `Gemm::with_pairs`
        PairsWithoutEpilogue,
        /// the size `n` is {n}, but must be even for column pairs
        OddColumns { n: u32 },
        /// The list of groups is missing, or the kernel does not take one.
        GroupRows {
            /// Whether the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => f.write_str("the configuration is `grouped`, but no `GroupRows` are given"),
            false => f.write_str("`GroupRows` are given, but the configuration is not `grouped`"),
        },
        /// the workspace has {found:?} partial accumulators and counters, but the launch needs
        /// {needed:?}: make it with `Loaded::workspace` for this problem
        Workspace { found: [u64; 2], needed: [u64; 2] },
        /// The table of a ragged batch is missing, or the kernel does not take one.
        Products {
            /// Whether the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => f.write_str("the configuration is `ragged`, but no table of `products` is given"),
            false => f.write_str("a table of `products` is given, but the configuration is not `ragged`"),
        },
        /// the batch strides of A, C and D must be 0: groups are rows of one matrix
        /// (`GemmProblem::grouped`)
        GroupStrides,
        /// {m} rows do not divide into {groups} groups with room for equally many rows
        GroupCapacity { m: u32, groups: u32 },
        /// An epilogue operand is missing, or the kernel does not take it.
        EpilogueOperand {
            /// The operand.
            operand: &'static str,
            /// Whether the kernel needs it.
            needed: bool,
        } = |f| match needed {
            true => {
                write!(f, "the kernel's epilogue needs {operand}, which is missing")
            }
            false => {
                write!(f, "{operand} is given, but the kernel's epilogue does not use it")
            }
        },
        /// No configuration takes the problem.
        NoConfig {
            /// The error of the last configuration that was tried.
            last: Option<Box<GemmError>>,
        } = |f| match last {
            Some(last) => {
                write!(f, "no configuration can run the problem; the last one tried: {last}")
            }
            None => f.write_str("no configuration was given"),
        },
        /// {error}
        Layout(error: Box<LayoutError>),
        /// {error}
        Atom(error: Box<AtomError>),
        /// {error}
        Tensor(error: Box<TensorError>),
        /// {error}
        TensorMap(error: Box<TensorMapError>),
        /// {error}
        Descriptor(error: Box<DescriptorError>),
        /// {error}
        Build(error: Box<BuildErrors>),
        /// {error}
        Transpose(error: Box<RowError>),
        /// {error}
        Runtime(error: Box<RuntimeError>),
    }
}
crate::errors::message_as_debug!(GemmError);

macro_rules! from {
    ($($Variant:ident($Error:ty)),* $(,)?) => {$(
        impl From<$Error> for GemmError {
            #[inline]
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
    Transpose(RowError),
    Runtime(RuntimeError),
}

impl From<GroupRowsError> for GemmError {
    #[inline]
    fn from(error: GroupRowsError) -> GemmError {
        match error {
            GroupRowsError::Length { operand, found, needed } => {
                GemmError::BufferLength { operand, found, needed }
            }
            GroupRowsError::Capacity { m, groups } => GemmError::GroupCapacity { m, groups },
        }
    }
}
