//! Attributes of loads, stores and atomics: memory order, scope and cache hints (PTX ISA 8 and
//! 9.7.9). Kernel authors pass them to the builder's access methods.

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
    /// The threads that an access or a fence is ordered for (PTX ISA 8.5). Choose the smallest
    /// scope that contains all threads that communicate, because a larger one is slower.
    MemScope ("a scope") {
        /// The threads of the block.
        Cta = "cta",
        /// The threads of the cluster. Needs `sm_90`.
        Cluster = "cluster",
        /// All threads on the device.
        Gpu = "gpu",
        /// All threads on all devices, and the host.
        Sys = "sys",
    }

    /// A load's cache operator: which caches keep the data (PTX ISA 9.7.9.1). Set it with
    /// [`LoadAccess::cache`], for example for data that is read only once.
    LoadCache ("a cache operator of loads") {
        /// Cache at all levels: the data is likely to be read again.
        Ca = "ca",
        /// Cache in L2 only.
        Cg = "cg",
        /// Streaming: the data is read once, so evict it first.
        Cs = "cs",
        /// Last use: the data is not read again.
        Lu = "lu",
        /// Do not cache: fetch the data again.
        Cv = "cv",
    }

    /// A store's cache operator: which caches keep the data (PTX ISA 9.7.9.1). Set it with
    /// [`StoreAccess::cache`], for example for results that the kernel does not read again.
    StoreCache ("a cache operator of stores") {
        /// Write back at all coherent levels.
        Wb = "wb",
        /// Cache in L2 only.
        Cg = "cg",
        /// Streaming: the data is written once, so evict it first.
        Cs = "cs",
        /// Write through to system memory.
        Wt = "wt",
    }

    /// How long L1 keeps the accessed line (PTX ISA 9.7.9.2). Use it to protect reused data from
    /// data that streams through.
    L1Evict ("a priority of eviction") {
        /// Evict with normal priority.
        Normal = "L1::evict_normal",
        /// Keep the line's current priority.
        Unchanged = "L1::evict_unchanged",
        /// Evict before other lines.
        First = "L1::evict_first",
        /// Evict after other lines.
        Last = "L1::evict_last",
        /// Do not allocate a line.
        NoAllocate = "L1::no_allocate",
    }

    /// How many bytes L2 should fetch with a load (PTX ISA 9.7.9.8). It is a hint for kernels that
    /// will read the neighbouring data soon.
    L2Prefetch ("a size of a prefetch") {
        /// 64 bytes.
        B64 = "L2::64B",
        /// 128 bytes.
        B128 = "L2::128B",
        /// 256 bytes.
        B256 = "L2::256B",
    }

    /// The cache level that [`prefetch`](crate::ir::Val::prefetch) brings a line into (PTX
    /// ISA 9.7.9.15).
    PrefetchLevel ("a level of the caches") {
        /// L1.
        L1 = "L1",
        /// L2.
        L2 = "L2",
        /// L2, to be evicted after other lines.
        L2EvictLast = "L2::evict_last",
        /// L2, with normal eviction priority.
        L2EvictNormal = "L2::evict_normal",
    }

    /// What an atomic operation writes (PTX ISA 9.7.13.5), where `old` is the value in memory and
    /// `value` the operand. You match on it in the IR; in a kernel, call the methods of
    /// [`Atom`](crate::ir::builder::Atom) and [`Red`](crate::ir::builder::Red).
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

    /// The memory order of an atomic operation that returns the old value (PTX ISA 8.4), set with
    /// [`Atom::order`](crate::ir::builder::Atom::order). Use an order other than relaxed if the
    /// atomic guards other data.
    AtomicOrder ("an order") {
        /// No ordering with other locations.
        Relaxed = "relaxed",
        /// Later accesses of the thread are ordered after it.
        Acquire = "acquire",
        /// Earlier accesses of the thread are ordered before it.
        Release = "release",
        /// Both `Acquire` and `Release`.
        AcqRel = "acq_rel",
    }

    /// The memory order of an atomic operation without a result (PTX ISA 8.4), set with
    /// [`Red::order`](crate::ir::builder::Red::order).
    RedOrder ("an order") {
        /// No ordering with other locations.
        Relaxed = "relaxed",
        /// Earlier accesses of the thread are ordered before it.
        Release = "release",
    }
}

impl MemScope {
    /// Returns the oldest target that has the scope: `sm_90` for clusters, otherwise `sm_80`.
    pub const fn first_target(self) -> Target {
        match self {
            MemScope::Cluster => Target::SM_90,
            MemScope::Cta | MemScope::Gpu | MemScope::Sys => Target::SM_80,
        }
    }
}

/// A load's memory order (PTX ISA 8.4), part of [`LoadAccess`]. Use an order other than `Weak` if
/// another thread may write the location at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadOrder {
    /// An ordinary load. No other thread may write the location at the same time.
    #[default]
    Weak,
    /// Reads memory every time, in one access.
    Volatile,
    /// An atomic read, not ordered with other locations.
    Relaxed(MemScope),
    /// Like `Relaxed`, and the thread's later accesses are ordered after it.
    Acquire(MemScope),
}

/// A store's memory order (PTX ISA 8.4), part of [`StoreAccess`]. Use an order other than `Weak` if
/// another thread may access the location at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StoreOrder {
    /// An ordinary store. No other thread may access the location at the same time.
    #[default]
    Weak,
    /// Writes memory every time, in one access.
    Volatile,
    /// An atomic write, not ordered with other locations.
    Relaxed(MemScope),
    /// Like `Relaxed`, and the thread's earlier accesses are ordered before it.
    Release(MemScope),
}

impl LoadOrder {
    /// Returns the scope, if the order has one.
    pub const fn scope(self) -> Option<MemScope> {
        match self {
            LoadOrder::Weak | LoadOrder::Volatile => None,
            LoadOrder::Relaxed(scope) | LoadOrder::Acquire(scope) => Some(scope),
        }
    }
}

impl StoreOrder {
    /// Returns the scope, if the order has one.
    pub const fn scope(self) -> Option<MemScope> {
        match self {
            StoreOrder::Weak | StoreOrder::Volatile => None,
            StoreOrder::Relaxed(scope) | StoreOrder::Release(scope) => Some(scope),
        }
    }
}

/// A load's memory order, scope and cache hints, for [`load_with`](crate::ir::Val::load_with) and
/// its siblings. The default is an ordinary load without hints.
///
/// A printed kernel shows the parts that are not default, in field order and separated by dots, for
/// example `acquire.gpu.L1::evict_last`.
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
    /// The memory order.
    pub order: LoadOrder,
    /// The cache operator.
    pub cache: Option<LoadCache>,
    /// Whether to use the read-only path (`ld.global.nc`). Nothing may write the location while the
    /// kernel runs.
    pub non_coherent: bool,
    /// The L1 eviction priority.
    pub l1_evict: Option<L1Evict>,
    /// The L2 eviction policy. Code generation emits a `createpolicy` for it.
    pub l2_policy: L2Policy,
    /// How much L2 should fetch.
    pub l2_prefetch: Option<L2Prefetch>,
}

impl LoadAccess {
    /// Makes the load volatile, so that it reads memory every time, for example in a loop that
    /// polls.
    pub const fn volatile(self) -> LoadAccess {
        LoadAccess { order: LoadOrder::Volatile, ..self }
    }

    /// Makes the load atomic, without ordering other locations. Use it for a counter that other
    /// threads update, if it guards no other data.
    pub const fn relaxed(self, scope: MemScope) -> LoadAccess {
        LoadAccess { order: LoadOrder::Relaxed(scope), ..self }
    }

    /// Makes the load atomic and orders the thread's later accesses after it. Use it to read a flag
    /// before the data that the flag guards.
    pub const fn acquire(self, scope: MemScope) -> LoadAccess {
        LoadAccess { order: LoadOrder::Acquire(scope), ..self }
    }

    /// Sets the cache operator, for example [`Cs`](LoadCache::Cs) for data that is read once.
    pub const fn cache(self, cache: LoadCache) -> LoadAccess {
        LoadAccess { cache: Some(cache), ..self }
    }

    /// Uses the read-only path (`ld.global.nc`), for inputs that nothing writes while the kernel
    /// runs.
    pub const fn non_coherent(self) -> LoadAccess {
        LoadAccess { non_coherent: true, ..self }
    }

    /// Sets the L1 eviction priority, for example to keep reused data longer than streamed data.
    pub const fn l1_evict(self, evict: L1Evict) -> LoadAccess {
        LoadAccess { l1_evict: Some(evict), ..self }
    }

    /// Sets the L2 eviction policy, for example to keep weights that every block reads.
    pub const fn l2_policy(self, policy: L2Policy) -> LoadAccess {
        LoadAccess { l2_policy: policy, ..self }
    }

    /// Sets how many bytes L2 should fetch, as a hint that the neighbouring data will be read soon.
    pub const fn l2_prefetch(self, prefetch: L2Prefetch) -> LoadAccess {
        LoadAccess { l2_prefetch: Some(prefetch), ..self }
    }
}

/// A store's memory order, scope and cache hints, for [`store_with`](crate::ir::Val::store_with)
/// and its siblings. The default is an ordinary store without hints.
///
/// A printed kernel shows the parts that are not default, in field order and separated by dots, for
/// example `release.sys`.
///
/// ```
/// use tilewright::ir::op::{MemScope, StoreAccess, StoreCache};
///
/// assert_eq!(StoreAccess::default().cache(StoreCache::Cs).to_string(), "cs");
/// assert_eq!("release.sys".parse(), Ok(StoreAccess::default().release(MemScope::Sys)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreAccess {
    /// The memory order.
    pub order: StoreOrder,
    /// The cache operator.
    pub cache: Option<StoreCache>,
    /// The L1 eviction priority.
    pub l1_evict: Option<L1Evict>,
    /// The L2 eviction policy. Code generation emits a `createpolicy` for it.
    pub l2_policy: L2Policy,
}

impl StoreAccess {
    /// Makes the store volatile, so that it writes memory every time.
    pub const fn volatile(self) -> StoreAccess {
        StoreAccess { order: StoreOrder::Volatile, ..self }
    }

    /// Makes the store atomic, without ordering other locations. Use it for a value that other
    /// threads read at the same time, if it guards no other data.
    pub const fn relaxed(self, scope: MemScope) -> StoreAccess {
        StoreAccess { order: StoreOrder::Relaxed(scope), ..self }
    }

    /// Makes the store atomic and orders the thread's earlier accesses before it. Use it to set a
    /// flag after the data that the flag guards.
    pub const fn release(self, scope: MemScope) -> StoreAccess {
        StoreAccess { order: StoreOrder::Release(scope), ..self }
    }

    /// Sets the cache operator, for example [`Cs`](StoreCache::Cs) for data that is written once.
    pub const fn cache(self, cache: StoreCache) -> StoreAccess {
        StoreAccess { cache: Some(cache), ..self }
    }

    /// Sets the L1 eviction priority, for example to evict streamed results first.
    pub const fn l1_evict(self, evict: L1Evict) -> StoreAccess {
        StoreAccess { l1_evict: Some(evict), ..self }
    }

    /// Sets the L2 eviction policy, for example to keep results that the next kernel reads.
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

/// Joins the nonempty parts with dots.
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

/// The error of parsing a text that is not a [`LoadAccess`] or [`StoreAccess`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseAccessError {
    text: String,
}

impl fmt::Display for ParseAccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a memory access attribute: expected parts such as `acquire.gpu` and `L1::evict_last`, separated by points, each once and in order",
            self.text.escape_debug()
        )
    }
}

impl std::error::Error for ParseAccessError {}
crate::errors::message_as_debug!(ParseAccessError);

/// Takes the next part if it parses as a `T`.
fn take<T: FromStr>(parts: &mut &[&str]) -> Option<T> {
    let (first, rest) = parts.split_first()?;
    let part = first.parse().ok()?;
    *parts = rest;
    Some(part)
}

/// Takes the next part and the scope after it, if the part is `name`.
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

/// Takes the next part if it is a policy. An empty part is not a policy, because the default policy
/// prints as nothing.
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
        assert!(error.to_string().starts_with("`acquire.gpu` is not a memory access attribute"));
    }
}
