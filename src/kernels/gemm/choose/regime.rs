//! [`Regime`]: how a GPU is loaded before and while a kernel is timed (a short window, a burst
//! after rest, steady work), because clocks and power limits change which kernel is fastest.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// How launches are timed. A large GPU under load lowers its clock to stay within its power limit,
/// so one kernel has several speeds, and which of two kernels is faster can depend on the load.
/// Pick the regime that resembles your program.
///
/// In all regimes, the timed launches are replays of a graph. They cycle through several sets of
/// operands, which together exceed twice the L2 cache. So the host is not measured, and every
/// launch reads its operands from memory.
///
/// If you launch a small GEMM in a loop over the same operands instead, it finds them in the L2
/// cache. Everything is faster then, and the difference to cuBLAS smaller: for bf16 512³ on an H200
/// it is 1.23x in a PyTorch loop and 1.36x in the latency regime (2026-11-25).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "lowercase"))]
pub enum Regime {
    /// For small problems: 2 ms of launches at full clock, without rest before. Tile counts,
    /// prologue and epilogue decide.
    Latency,
    /// 1 ms of launches after 40 ms of rest, at nearly full clock.
    Burst,
    /// 0.25 s of launches after as long a warm-up, at the clock that the power limit allows. Shows
    /// the cost of energy, most of which goes to memory traffic.
    Steady,
}

impl Regime {
    /// All regimes, for example to time a kernel in each.
    pub const ALL: [Regime; 3] = [Regime::Latency, Regime::Burst, Regime::Steady];

    /// Returns `latency`, `burst` or `steady`, as records and the command line spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::Latency => "latency",
            Regime::Burst => "burst",
            Regime::Steady => "steady",
        }
    }

    /// Returns how long the device must be idle before the launches of a measurement start: 40 ms
    /// for a burst, which then starts with a cool GPU at nearly full clock, and 0 for the other
    /// regimes. The workload that times kernels sleeps for so long.
    pub const fn rest(self) -> Duration {
        match self {
            Regime::Latency | Regime::Steady => Duration::ZERO,
            Regime::Burst => Duration::from_millis(40),
        }
    }

    /// Returns how long the timed launches of one measurement take together: 2 ms, 1 ms or 250 ms.
    /// The workload repeats a launch until it has filled this time.
    pub const fn window(self) -> Duration {
        match self {
            Regime::Latency => Duration::from_millis(2),
            Regime::Burst => Duration::from_millis(1),
            Regime::Steady => Duration::from_millis(250),
        }
    }

    /// Returns the regime in which a search sorts out slow kernels before it times the others in
    /// `self`. For steady work it is the burst, which takes 1 ms instead of 0.25 s: a kernel that
    /// is slow in a burst is also slow in steady work. Otherwise it is `self`.
    pub const fn quick(self) -> Regime {
        match self {
            Regime::Latency => Regime::Latency,
            Regime::Burst | Regime::Steady => Regime::Burst,
        }
    }

    /// Returns the regimes that matter for a GEMM of these sizes: latency if it cannot fill the GPU
    /// (M or N up to 256, or nothing above 1024), else burst, and also steady from 4096³ on.
    ///
    /// ```
    /// use tilewright::kernels::gemm::Regime;
    /// assert_eq!(Regime::of_sizes([1024, 1024, 1024]), [Regime::Latency]);
    /// assert_eq!(Regime::of_sizes([256, 8192, 8192]), [Regime::Latency]);
    /// assert_eq!(Regime::of_sizes([2048, 2048, 2048]), [Regime::Burst]);
    /// assert_eq!(Regime::of_sizes([8192, 8192, 8192]), [Regime::Burst, Regime::Steady]);
    /// ```
    #[inline]
    pub fn of_sizes(sizes: [u32; 3]) -> &'static [Regime] {
        let volume = sizes.into_iter().map(f64::from).product::<f64>();
        let small = sizes[0].min(sizes[1]) <= 256 || sizes.into_iter().all(|size| size <= 1024);
        match (small, volume >= 4096f64.powi(3)) {
            (true, _) => &[Regime::Latency],
            (false, false) => &[Regime::Burst],
            (false, true) => &[Regime::Burst, Regime::Steady],
        }
    }
}

impl fmt::Display for Regime {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of parsing a [`Regime`] from a text that is not one of its names.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseRegimeError {
    text: String,
}

impl fmt::Display for ParseRegimeError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_default();
        write!(f, "`{text}` is not a regime: expected `latency`, `burst` or `steady`")
    }
}

impl std::error::Error for ParseRegimeError {}
crate::errors::message_as_debug!(ParseRegimeError);

impl FromStr for Regime {
    type Err = ParseRegimeError;

    #[inline]
    fn from_str(text: &str) -> Result<Regime, ParseRegimeError> {
        let named = Regime::ALL.into_iter().find(|regime| regime.name() == text);
        named.ok_or_else(|| ParseRegimeError { text: text.to_owned() })
    }
}
