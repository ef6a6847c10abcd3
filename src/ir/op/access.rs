//! Attributes of memory accesses: order, scope and caches (PTX ISA 8 and 9.7.9).

use std::fmt;
use std::str::FromStr;

use super::async_copy::L2Policy;
use crate::ir::name::named;
use crate::ir::target::Target;

macro_rules! names {
    ($(
        $(#[$meta:meta])*
        $ty:ident ($what:literal) { $($(#[$doc:meta])* $Variant:ident = $name:literal,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $ty {
            $($(#[$doc])* $Variant,)*
        }

        named! { $ty, $what: $($Variant = $name),*; }
    )*};
}

names! {
    /// The threads among which an access or a fence has its order (PTX ISA 8.5).
    MemScope ("a scope") {
        /// Those of the block.
        Cta = "cta",
        /// Those of the cluster; `sm_90`.
        Cluster = "cluster",
        /// Those of the device.
        Gpu = "gpu",
        /// Those of all devices, and the host.
        Sys = "sys",
    }

    /// The cache operator of a load (PTX ISA 9.7.9.1).
    LoadCache ("a cache operator of loads") {
        /// At all levels: likely to be read again.
        Ca = "ca",
        /// In L2 only.
        Cg = "cg",
        /// For data that is read once: evicted first.
        Cs = "cs",
        /// For data that is read for the last time.
        Lu = "lu",
        /// Not at all: fetched again.
        Cv = "cv",
    }

    /// The cache operator of a store (PTX ISA 9.7.9.1).
    StoreCache ("a cache operator of stores") {
        /// At all levels that are coherent.
        Wb = "wb",
        /// In L2 only.
        Cg = "cg",
        /// For data that is written once: evicted first.
        Cs = "cs",
        /// Written through to the memory of the system.
        Wt = "wt",
    }

    /// The eviction priority of a line in L1 (PTX ISA 9.7.9.2).
    L1Evict ("a priority of eviction") {
        /// In its turn.
        Normal = "L1::evict_normal",
        /// As it was.
        Unchanged = "L1::evict_unchanged",
        /// Before others.
        First = "L1::evict_first",
        /// After others.
        Last = "L1::evict_last",
        /// It does not take it.
        NoAllocate = "L1::no_allocate",
    }

    /// The bytes that L2 fetches with a load, as a hint (PTX ISA 9.7.9.8).
    L2Prefetch ("a size of a prefetch") {
        /// 64 bytes.
        B64 = "L2::64B",
        /// 128 bytes.
        B128 = "L2::128B",
        /// 256 bytes.
        B256 = "L2::256B",
    }

    /// The cache level to which `prefetch` brings a line (PTX ISA 9.7.9.15).
    PrefetchLevel ("a level of the caches") {
        /// L1.
        L1 = "L1",
        /// L2.
        L2 = "L2",
        /// L2, which gives it up after others.
        L2EvictLast = "L2::evict_last",
        /// L2, which gives it up in its turn.
        L2EvictNormal = "L2::evict_normal",
    }

    /// The new value that an atomic operation writes (PTX ISA 9.7.13.5). `old` is the value in memory.
    AtomicOp ("an atomic operation") {
        /// `old + value`; integers wrap.
        Add = "add",
        /// The smaller of `old` and `value`.
        Min = "min",
        /// The larger of `old` and `value`.
        Max = "max",
        /// `old & value`
        And = "and",
        /// `old | value`
        Or = "or",
        /// `old ^ value`
        Xor = "xor",
        /// `value`
        Exch = "exch",
        /// `if old >= value { 0 } else { old + 1 }`
        Inc = "inc",
        /// `if old == 0 || old > value { value } else { old - 1 }`
        Dec = "dec",
    }

    /// The order of an atomic operation with a result (PTX ISA 8.4).
    AtomicOrder ("an order") {
        /// None beside that of the location.
        Relaxed = "relaxed",
        /// Later accesses of the thread are ordered after it.
        Acquire = "acquire",
        /// Earlier accesses of the thread are ordered before it.
        Release = "release",
        /// Both.
        AcqRel = "acq_rel",
    }

    /// The order of an atomic operation without a result (PTX ISA 8.4).
    RedOrder ("an order") {
        /// None beside that of the location.
        Relaxed = "relaxed",
        /// Earlier accesses of the thread are ordered before it.
        Release = "release",
    }
}

impl MemScope {
    /// The first target that has the scope.
    pub const fn first_target(self) -> Target {
        match self {
            MemScope::Cluster => Target::SM_90,
            MemScope::Cta | MemScope::Gpu | MemScope::Sys => Target::SM_80,
        }
    }
}

/// The order of a load among other accesses to memory (PTX ISA 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadOrder {
    /// None: another thread may not write to the location at the same time.
    #[default]
    Weak,
    /// Read from memory each time, in one piece.
    Volatile,
    /// In one piece, in the order of the location.
    Relaxed(MemScope),
    /// As relaxed; and what follows comes after it.
    Acquire(MemScope),
}

/// The order of a store among other accesses to memory (PTX ISA 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StoreOrder {
    /// None: another thread may not access the location at the same time.
    #[default]
    Weak,
    /// Written to memory each time, in one piece.
    Volatile,
    /// In one piece, in the order of the location.
    Relaxed(MemScope),
    /// As relaxed; and earlier accesses of the thread are ordered before it.
    Release(MemScope),
}

impl LoadOrder {
    /// The scope, where the order has one.
    pub const fn scope(self) -> Option<MemScope> {
        match self {
            LoadOrder::Weak | LoadOrder::Volatile => None,
            LoadOrder::Relaxed(scope) | LoadOrder::Acquire(scope) => Some(scope),
        }
    }
}

impl StoreOrder {
    /// The scope, where the order has one.
    pub const fn scope(self) -> Option<MemScope> {
        match self {
            StoreOrder::Weak | StoreOrder::Volatile => None,
            StoreOrder::Relaxed(scope) | StoreOrder::Release(scope) => Some(scope),
        }
    }
}

/// The order, scope and cache hints of a load. In the text form nothing, or parts in the order of the fields
/// with points between: `acquire.gpu.L1::evict_last`.
///
/// ```
/// use tilewright::ir::op::{L1Evict, LoadAccess, MemScope};
///
/// let streamed = LoadAccess::default().non_coherent().l1_evict(L1Evict::NoAllocate);
/// assert_eq!(streamed.to_string(), "nc.L1::no_allocate");
/// assert_eq!("acquire.gpu".parse(), Ok(LoadAccess::default().acquire(MemScope::Gpu)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadAccess {
    /// The order among other accesses.
    pub order: LoadOrder,
    /// The cache operator.
    pub cache: Option<LoadCache>,
    /// True for the read-only path (`ld.global.nc`): nothing may write to the location while the kernel runs.
    pub non_coherent: bool,
    /// The eviction priority in L1.
    pub l1_evict: Option<L1Evict>,
    /// The eviction policy in L2, which a `createpolicy` of its own makes.
    pub l2_policy: L2Policy,
    /// The bytes that L2 fetches.
    pub l2_prefetch: Option<L2Prefetch>,
}

impl LoadAccess {
    /// Reads memory each time.
    pub const fn volatile(self) -> LoadAccess {
        LoadAccess { order: LoadOrder::Volatile, ..self }
    }

    /// In one piece, in the order of the location.
    pub const fn relaxed(self, scope: MemScope) -> LoadAccess {
        LoadAccess { order: LoadOrder::Relaxed(scope), ..self }
    }

    /// As relaxed; and what follows comes after it.
    pub const fn acquire(self, scope: MemScope) -> LoadAccess {
        LoadAccess { order: LoadOrder::Acquire(scope), ..self }
    }

    /// Sets the cache operator.
    pub const fn cache(self, cache: LoadCache) -> LoadAccess {
        LoadAccess { cache: Some(cache), ..self }
    }

    /// Through the read-only path: nothing may write to the location as long as the kernel runs.
    pub const fn non_coherent(self) -> LoadAccess {
        LoadAccess { non_coherent: true, ..self }
    }

    /// Sets the eviction priority in L1.
    pub const fn l1_evict(self, evict: L1Evict) -> LoadAccess {
        LoadAccess { l1_evict: Some(evict), ..self }
    }

    /// Sets the eviction policy in L2.
    pub const fn l2_policy(self, policy: L2Policy) -> LoadAccess {
        LoadAccess { l2_policy: policy, ..self }
    }

    /// Sets the bytes that L2 fetches.
    pub const fn l2_prefetch(self, prefetch: L2Prefetch) -> LoadAccess {
        LoadAccess { l2_prefetch: Some(prefetch), ..self }
    }
}

/// The order, scope and cache hints of a store. In the text form nothing, or parts in the order of the fields
/// with points between: `release.sys`.
///
/// ```
/// use tilewright::ir::op::{MemScope, StoreAccess, StoreCache};
///
/// assert_eq!(StoreAccess::default().cache(StoreCache::Cs).to_string(), "cs");
/// assert_eq!("release.sys".parse(), Ok(StoreAccess::default().release(MemScope::Sys)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreAccess {
    /// The order among other accesses.
    pub order: StoreOrder,
    /// The cache operator.
    pub cache: Option<StoreCache>,
    /// The eviction priority in L1.
    pub l1_evict: Option<L1Evict>,
    /// The eviction policy in L2, which a `createpolicy` of its own makes.
    pub l2_policy: L2Policy,
}

impl StoreAccess {
    /// Writes memory each time.
    pub const fn volatile(self) -> StoreAccess {
        StoreAccess { order: StoreOrder::Volatile, ..self }
    }

    /// In one piece, in the order of the location.
    pub const fn relaxed(self, scope: MemScope) -> StoreAccess {
        StoreAccess { order: StoreOrder::Relaxed(scope), ..self }
    }

    /// As relaxed; and earlier accesses of the thread are ordered before it.
    pub const fn release(self, scope: MemScope) -> StoreAccess {
        StoreAccess { order: StoreOrder::Release(scope), ..self }
    }

    /// Sets the cache operator.
    pub const fn cache(self, cache: StoreCache) -> StoreAccess {
        StoreAccess { cache: Some(cache), ..self }
    }

    /// Sets the eviction priority in L1.
    pub const fn l1_evict(self, evict: L1Evict) -> StoreAccess {
        StoreAccess { l1_evict: Some(evict), ..self }
    }

    /// Sets the eviction policy in L2.
    pub const fn l2_policy(self, policy: L2Policy) -> StoreAccess {
        StoreAccess { l2_policy: policy, ..self }
    }
}

impl fmt::Display for LoadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadOrder::Weak => Ok(()),
            LoadOrder::Volatile => f.write_str("volatile"),
            LoadOrder::Relaxed(scope) => write!(f, "relaxed.{scope}"),
            LoadOrder::Acquire(scope) => write!(f, "acquire.{scope}"),
        }
    }
}

impl fmt::Display for StoreOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreOrder::Weak => Ok(()),
            StoreOrder::Volatile => f.write_str("volatile"),
            StoreOrder::Relaxed(scope) => write!(f, "relaxed.{scope}"),
            StoreOrder::Release(scope) => write!(f, "release.{scope}"),
        }
    }
}

/// The parts that are there, with points between.
fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

fn text_of<T: fmt::Display>(part: Option<T>) -> String {
    part.map(|part| part.to_string()).unwrap_or_default()
}

impl fmt::Display for LoadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&[
            self.order.to_string(),
            text_of(self.cache),
            text_of(self.non_coherent.then_some("nc")),
            text_of(self.l1_evict),
            self.l2_policy.to_string(),
            text_of(self.l2_prefetch),
        ]))
    }
}

impl fmt::Display for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&[
            self.order.to_string(),
            text_of(self.cache),
            text_of(self.l1_evict),
            self.l2_policy.to_string(),
        ]))
    }
}

/// A text that is no way to access memory.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseAccessError {
    text: String,
}

impl fmt::Display for ParseAccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no way to access memory: expected parts such as `acquire.gpu` and `L1::evict_last`, each once and in order, with points between",
            self.text.escape_debug()
        )
    }
}

impl std::error::Error for ParseAccessError {}
crate::errors::message_as_debug!(ParseAccessError);

/// Takes the next part, where it is one of the type.
fn take<T: FromStr>(parts: &mut &[&str]) -> Option<T> {
    let (first, rest) = parts.split_first()?;
    let part = first.parse().ok()?;
    *parts = rest;
    Some(part)
}

/// Takes the next part and its scope, where the part is `name`.
fn take_scoped(parts: &mut &[&str], name: &str) -> Option<MemScope> {
    let [first, scope, rest @ ..] = parts else { return None };
    let scope = (*first == name).then(|| scope.parse().ok())??;
    *parts = rest;
    Some(scope)
}

fn take_word(parts: &mut &[&str], word: &str) -> bool {
    let found = parts.first() == Some(&word);
    if found {
        *parts = &parts[1..];
    }
    found
}

/// Takes the next part where it is a policy. An empty part is none: nothing stands for the default.
fn take_policy(parts: &mut &[&str]) -> L2Policy {
    match parts.first() {
        None | Some(&"") => L2Policy::Default,
        Some(_) => take(parts).unwrap_or_default(),
    }
}

fn parts_of(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('.').collect() }
}

impl FromStr for LoadAccess {
    type Err = ParseAccessError;

    #[inline]
    fn from_str(text: &str) -> Result<LoadAccess, ParseAccessError> {
        let all = parts_of(text);
        let mut parts = &all[..];
        let order = if take_word(&mut parts, "volatile") {
            LoadOrder::Volatile
        } else if let Some(scope) = take_scoped(&mut parts, "relaxed") {
            LoadOrder::Relaxed(scope)
        } else {
            take_scoped(&mut parts, "acquire").map_or(LoadOrder::Weak, LoadOrder::Acquire)
        };
        let access = LoadAccess {
            order,
            cache: take(&mut parts),
            non_coherent: take_word(&mut parts, "nc"),
            l1_evict: take(&mut parts),
            l2_policy: take_policy(&mut parts),
            l2_prefetch: take(&mut parts),
        };
        if parts.is_empty() { Ok(access) } else { Err(ParseAccessError { text: text.to_owned() }) }
    }
}

impl FromStr for StoreAccess {
    type Err = ParseAccessError;

    #[inline]
    fn from_str(text: &str) -> Result<StoreAccess, ParseAccessError> {
        let all = parts_of(text);
        let mut parts = &all[..];
        let order = if take_word(&mut parts, "volatile") {
            StoreOrder::Volatile
        } else if let Some(scope) = take_scoped(&mut parts, "relaxed") {
            StoreOrder::Relaxed(scope)
        } else {
            take_scoped(&mut parts, "release").map_or(StoreOrder::Weak, StoreOrder::Release)
        };
        let access = StoreAccess {
            order,
            cache: take(&mut parts),
            l1_evict: take(&mut parts),
            l2_policy: take_policy(&mut parts),
        };
        if parts.is_empty() { Ok(access) } else { Err(ParseAccessError { text: text.to_owned() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_and_others_refused() {
        let loads = [
            LoadAccess::default(),
            LoadAccess::default().volatile().l2_prefetch(L2Prefetch::B256),
            LoadAccess::default().relaxed(MemScope::Cluster).l1_evict(L1Evict::First),
            LoadAccess::default().cache(LoadCache::Cs).non_coherent(),
            LoadAccess::default().l2_policy(L2Policy::EvictLast).l2_prefetch(L2Prefetch::B64),
        ];
        for access in loads {
            assert_eq!(access.to_string().parse(), Ok(access));
        }
        let store = StoreAccess::default().release(MemScope::Cta).cache(StoreCache::Wt);
        assert_eq!(store.to_string(), "release.cta.wt");
        assert_eq!(store.to_string().parse(), Ok(store));
        for text in [
            "relaxed",
            "acquire",
            "acquire.all",
            "nc.ca",
            "ca.ca",
            "ca.",
            ".ca",
            "wb",
            " ",
            "ca..L2::64B",
        ] {
            assert!(text.parse::<LoadAccess>().is_err(), "{text}");
        }
        let error = "acquire.gpu".parse::<StoreAccess>().unwrap_err();
        assert!(error.to_string().starts_with("`acquire.gpu` is no way to access memory"));
    }
}
