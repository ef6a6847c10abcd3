//! Why a kernel cannot be compiled for the simulator: its IR is malformed, or it needs too many
//! register slots. A launch returns it as a [`RunError`](crate::sim::RunError).

/// Why a kernel cannot be compiled for the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Refused {
    /// The IR breaks a rule of the verifier.
    Malformed,
    /// A thread needs more register slots at once than there are.
    TooManyRegisters,
}
