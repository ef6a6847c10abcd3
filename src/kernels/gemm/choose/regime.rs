//! [`Regime`] says how a GPU is loaded before and while a kernel is timed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "tune")]
use serde::{Deserialize, Serialize};

/// The ways to time launches. A large GPU under load lowers its clock to stay within its power, so one kernel has
/// several speeds; which of two kernels is faster may depend on it. In all regimes the launches are replays of a graph
/// over sets of operands that together exceed twice the L2 cache, one set after the other. So the host is not measured, and
/// each launch reads its operands from memory.
///
/// A loop that launches a small product on the same operands finds them in the L2 cache. Both libraries are faster then, and
/// the ratio is closer to 1: 512 cubed in `bf16` on an H200 has 1.23 of the speed of cuBLAS in such a loop of PyTorch, and 1.36
/// in the latency regime (2026-11-25).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "tune", derive(Serialize, Deserialize), serde(rename_all = "lowercase"))]
pub enum Regime {
    /// Small problems: 2 ms of launches at the full clock, where tile counts, prologue and epilogue decide.
    Latency,
    /// 1 ms of launches after 40 ms of rest: a nearly full clock.
    Burst,
    /// 0.25 s of launches after as much work: the clock that the power allows. It shows energy, mostly of memory
    /// traffic.
    Steady,
}

impl Regime {
    /// All regimes.
    pub const ALL: [Regime; 3] = [Regime::Latency, Regime::Burst, Regime::Steady];

    /// `latency`, `burst` or `steady`.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::Latency => "latency",
            Regime::Burst => "burst",
            Regime::Steady => "steady",
        }
    }

    /// Returns the time for which the device rests before a window.
    pub const fn rest(self) -> Duration {
        match self {
            Regime::Latency | Regime::Steady => Duration::ZERO,
            Regime::Burst => Duration::from_millis(40),
        }
    }

    /// Returns the time of all launches of a window.
    pub const fn window(self) -> Duration {
        match self {
            Regime::Latency => Duration::from_millis(2),
            Regime::Burst => Duration::from_millis(1),
            Regime::Steady => Duration::from_millis(250),
        }
    }

    /// Returns the regime whose windows are short, to find out which kernels are worth the long ones: a kernel that is
    /// slow in a burst is slow in steady work.
    pub const fn quick(self) -> Regime {
        match self {
            Regime::Latency => Regime::Latency,
            Regime::Burst | Regime::Steady => Regime::Burst,
        }
    }

    /// Returns the regimes that say something about a product of these sizes: latency where the GPU is not filled (M up
    /// to 256, or nothing above 1024), else burst, and steady from 4096 cubed on.
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

/// A text that names no regime.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseRegimeError {
    text: String,
}

impl fmt::Display for ParseRegimeError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.escape_default();
        write!(f, "`{text}` is no regime: expected `latency`, `burst` or `steady`")
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
