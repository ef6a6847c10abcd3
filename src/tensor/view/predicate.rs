//! [`Predicate`]: which elements of a copy are in bounds. Pass one to
//! [`copy_if`](crate::tensor::copy::copy_if) and its siblings for tiles that reach beyond their
//! tensor.

use std::collections::HashMap;
use std::fmt;

use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Val};
use crate::layout::{Int, IntTuple, IntTupleRef, LayoutError, Tuple};

use super::engine::{Coordinates, Engine, Entry, clamped};
use super::ssa::TensorSsa;
use super::tensor::{CoordTensor, RegisterTensor, Tensor};
use crate::tensor::error::TensorErrorKind;

/// One bool per element of a copy: `false` leaves the element alone. Bools that are known to be
/// true at build time cost nothing.
///
/// Make one with [`within`](CoordTensor::within) from coordinates, or pass a [`TensorSsa`] of
/// bools.
#[derive(Clone)]
pub struct Predicate<'b> {
    shape: IntTuple,
    /// In coordinate order; `None` is always true.
    values: Vec<Option<Val<'b, bool>>>,
}

impl<'b> Predicate<'b> {
    /// Returns the shape, which is equal to that of the tensors to copy.
    pub fn shape(&self) -> &IntTuple {
        &self.shape
    }

    /// Returns the bools in coordinate order; `None` stands for an element that always takes part.
    /// Use them for accesses of your own, one `if` per element.
    pub fn values(&self) -> &[Option<Val<'b, bool>>] {
        &self.values
    }

    /// Reduces the predicate to one bool per vector, for `vectors` vectors of `elements` elements
    /// that are copied as a whole. `parts` are the shapes that the predicate may have: one bool per
    /// element, if a vector's bools are all the same value; one bool per vector; or one bool per
    /// coordinate of the modes after the first.
    #[inline]
    pub(in crate::tensor) fn of_vectors(
        &self,
        [vectors, elements]: [usize; 2],
        parts: [IntTupleRef<'_>; 2],
    ) -> Result<Vec<Option<Val<'b, bool>>>, TensorErrorKind> {
        let values = &self.values;
        if values.len() == vectors * elements && parts.iter().any(|part| self.is_of(*part)) {
            let of_one = |(vector, values): (usize, &[Option<Val<'b, bool>>])| {
                let first = values.first().copied().flatten();
                let same = |value: &Option<Val<'b, bool>>| value.map(Val::id) == first.map(Val::id);
                let differs = TensorErrorKind::PredicateInVector { vector, elements };
                values.iter().all(same).then_some(first).ok_or(differs)
            };
            return values.chunks(elements.max(1)).enumerate().map(of_one).collect();
        }
        for part in parts {
            let (first, rest) = match part.child(0) {
                Some(first) if !part.is_leaf() => (first.to_owned(), part.children().skip(1)),
                _ => (part.to_owned(), part.children().skip(usize::MAX)),
            };
            let rest: Vec<IntTuple> = rest.map(IntTupleRef::to_owned).collect();
            let of_part = |first: Option<IntTuple>| -> Result<bool, LayoutError> {
                let modes = first.into_iter().chain(rest.iter().cloned());
                Ok(self.is_of(Tuple::from_items(modes)?.as_ref()))
            };
            let in_first = first.product()?.floor_div(&Int::from(elements.max(1) as i64))?;
            if values.len() == vectors && of_part(Some(Tuple::leaf(in_first)))? {
                return Ok(values.clone());
            }
            if vectors.is_multiple_of(values.len().max(1)) && of_part(None)? {
                let each = vectors / values.len().max(1);
                let repeated = |value: &Option<Val<'b, bool>>| std::iter::repeat_n(*value, each);
                return Ok(values.iter().flat_map(repeated).collect());
            }
        }
        let (shape, [copy, _]) = (self.shape.to_string(), parts.map(|part| part.to_string()));
        Err(TensorErrorKind::PredicateVectors { shape, copy, vectors, elements })
    }

    /// Returns whether the predicate fits a copy of `shape`: it has the same modes, or one bool for
    /// all.
    #[inline]
    pub(in crate::tensor) fn is_of(&self, shape: IntTupleRef<'_>) -> bool {
        same_modes(self.shape.as_ref(), shape)
    }

    /// Returns whether the elements at these linear coordinates share one bool.
    pub(in crate::tensor) fn is_one(&self, coordinates: &[i64]) -> bool {
        let value = |coordinate: &i64| {
            let value = usize::try_from(*coordinate).ok().and_then(|at| self.values.get(at));
            value.copied().flatten().map(Val::id)
        };
        let first = coordinates.first().and_then(value);
        coordinates.iter().all(|coordinate| value(coordinate) == first)
    }

    /// Returns whether every element takes part, whatever the kernel's arguments are. If so, you
    /// can copy without a predicate.
    pub fn is_always(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// For example `predicate o (4,2)`.
impl fmt::Display for Predicate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "predicate o {}", self.shape)
    }
}

impl fmt::Debug for Predicate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What [`copy_if`](crate::tensor::copy::copy_if) takes as predicate: a [`Predicate`], or a
/// [`TensorSsa`] or [`RegisterTensor`] of bools.
#[diagnostic::on_unimplemented(
    message = "a predicate must be a tensor of bools of the copy's shape, not `{Self}`",
    label = "expected a `Predicate`, a `TensorSsa` of bools or a `RegisterTensor` of bools",
    note = "to use one bool for all elements, put the copy into `k.if_`, or make a tensor of the copy's shape with `TensorSsa::full(k, shape, value)`"
)]
pub trait IntoPredicate<'b> {
    /// Returns the predicate. The copies call it; you call it only in a generic function of your
    /// own.
    fn predicate(&self, k: &Body<'b, '_>) -> Predicate<'b>;
}

impl<'b> IntoPredicate<'b> for Predicate<'b> {
    #[inline]
    fn predicate(&self, _: &Body<'b, '_>) -> Predicate<'b> {
        self.clone()
    }
}

impl<'b> IntoPredicate<'b> for TensorSsa<'b, bool> {
    #[inline]
    fn predicate(&self, _: &Body<'b, '_>) -> Predicate<'b> {
        let values = self.values().iter().copied().map(Some).collect();
        Predicate { shape: self.shape().clone(), values }
    }
}

impl<'b> IntoPredicate<'b> for RegisterTensor<'b, bool> {
    #[track_caller]
    #[inline]
    fn predicate(&self, k: &Body<'b, '_>) -> Predicate<'b> {
        self.load_all().predicate(k)
    }
}

/// Returns whether modes have equal sizes, whatever their inner structure. A single extent can
/// match a whole tuple.
#[inline]
fn same_modes(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> bool {
    let same_size = |a: IntTupleRef<'_>, b: IntTupleRef<'_>| {
        let sizes = (a.product(), b.product());
        matches!(sizes, (Ok(a), Ok(b)) if a == b)
    };
    match (a.rank(), b.rank()) {
        (1, _) | (_, 1) => same_size(a, b),
        (x, y) => x == y && a.children().zip(b.children()).all(|(a, b)| same_size(a, b)),
    }
}

/// Collects the leaves of a limit, in order.
fn leaves<'b>(limit: &DeviceCoord<'b>, out: &mut Vec<DeviceCoord<'b>>) {
    match limit {
        DeviceCoord::Tuple(items) => items.iter().for_each(|item| leaves(item, out)),
        leaf => out.push(leaf.clone()),
    }
}

/// # Predicates
///
/// Compares coordinates with a limit, to mask accesses.
impl<'b> CoordTensor<'b> {
    /// Returns a predicate that is true where an element's entries are all below those of `limit`:
    /// CuTe's `elem_less`. An entry `..` of the limit is not compared.
    ///
    /// If the tensor's extents prove that an entry is always below its limit, nothing is compared,
    /// so that tiles that divide their tensor cost nothing. This relies on coordinates that stay
    /// inside the shape.
    ///
    /// If the host moves coordinates below 0, for example for a halo, entries are also compared
    /// with 0. Device offsets count as non-negative. So write `8 * block - 1` as two steps:
    /// `domain_offset(k, -1)`, then `8 * block`.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let kernel = Kernel::<(i32,)>::build("k", Target::SM_80, |k, (n,)| {
    ///     let (block, thread) = (k.block_idx(), k.thread_idx().x);
    ///     let coords = Tensor::identity(k, shape!(64, 100)).local_tile(&tiler!(16, 16), (block.x, block.y));
    ///     let coords = coords.local_partition(&layout!((16, 2) : (2, 1)), thread);
    ///     // 16 divides 64, so rows are not compared. The last tile of columns begins at 96: of the 8 columns of
    ///     // a thread, the first two are always below 100.
    ///     let inside = coords.within((64, 100));
    ///     assert_eq!(inside.shape(), &shape!(1, 8));
    ///     assert!(!inside.is_always() && coords.within((64, ..)).is_always());
    /// })?;
    /// assert_eq!(kernel.to_string().matches("setp").count(), 6);
    ///
    /// // Each element with the one before it: the element before the first one does not exist.
    /// let kernel = Kernel::<()>::build("halo", Target::SM_80, |k, ()| {
    ///     let coords = Tensor::identity(k, shape!(64)).domain_offset(-1).local_tile(&tiler!(16), k.block_idx().x);
    ///     let inside = coords.within(64);
    ///     assert!(inside.values()[0].is_some() && inside.values()[1..].iter().all(Option::is_none));
    /// })?;
    /// assert_eq!(kernel.to_string().matches("setp").count(), 1);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("elem_less", "mask"))]
    #[track_caller]
    pub fn within(&self, limit: impl Into<DeviceCoord<'b>>) -> Predicate<'b> {
        let k = &self.body();
        let _call = k.call();
        let always = Predicate { shape: 1.into(), values: vec![None] };
        if self.poisoned {
            return always;
        }
        match self.compared(k, &limit.into()) {
            Ok(predicate) => predicate,
            Err(kind) => {
                self.failed(k, "elem_less", kind);
                always
            }
        }
    }

    #[track_caller]
    #[inline]
    fn compared(
        &self,
        k: &Body<'b, '_>,
        limit: &DeviceCoord<'b>,
    ) -> Result<Predicate<'b>, TensorErrorKind> {
        let mut limits = Vec::new();
        leaves(limit, &mut limits);
        let (expected, found) = (self.engine.entries().len(), limits.len());
        if expected != found {
            return Err(LayoutError::RankMismatch { expected, found }.into());
        }
        // One list of offsets per entry of the coordinates.
        let offsets = self.engine.offsets(&self.layout)?;
        let size = offsets.first().map_or(0, Vec::len);
        let mut values: Vec<Option<Val<'b, bool>>> = vec![None; size];
        // Combine equal pairs of comparisons only once, so that elements with the same answer share
        // a value.
        let mut both = HashMap::new();
        let mut never = None;
        for ((entry, limit), offsets) in self.engine.entries().iter().zip(&limits).zip(offsets) {
            let mut known = HashMap::new();
            for (value, offset) in values.iter_mut().zip(offsets) {
                let overflow = LayoutError::Overflow { operation: "a coordinate" };
                let host = entry.host.checked_add(offset).ok_or(overflow)?;
                let inside = match known.get(&host) {
                    Some(inside) => *inside,
                    None => {
                        let below = below(k, entry, host, limit, &mut never);
                        let inside = match (below, not_negative(k, entry, host, limit, &mut never))
                        {
                            (Some(a), Some(b)) if a.id() != b.id() => Some(a & b),
                            (a, b) => a.or(b),
                        };
                        known.insert(host, inside);
                        inside
                    }
                };
                *value = match (*value, inside) {
                    (Some(a), Some(b)) => {
                        let known = both.get(&(a.id(), b.id())).copied();
                        let value = known.unwrap_or_else(|| a & b);
                        both.insert((a.id(), b.id()), value);
                        Some(value)
                    }
                    (a, b) => a.or(b),
                };
            }
        }
        Ok(Predicate { shape: self.shape().to_owned(), values })
    }
}

/// Computes `device + host < limit` for an entry; `None` if it is always true. If it is never true,
/// every caller gets the one value `never`.
#[track_caller]
#[inline]
fn below<'b>(
    k: &Body<'b, '_>,
    &Entry { device, max, .. }: &Entry<'b>,
    host: i64,
    limit: &DeviceCoord<'b>,
    never: &mut Option<Val<'b, bool>>,
) -> Option<Val<'b, bool>> {
    let always = |limit: i64| {
        let max = if device.is_some() { max } else { Some(0) };
        max.and_then(|max| max.checked_add(host)).is_some_and(|max| max < limit)
    };
    match (device, limit) {
        (_, DeviceCoord::All | DeviceCoord::Tuple(_)) => None,
        (_, DeviceCoord::Host(limit)) if always(*limit) => None,
        (None, DeviceCoord::Host(_)) => Some(*never.get_or_insert_with(|| k.constant(false))),
        (Some(device), DeviceCoord::Host(limit)) => {
            Some(device.lt(clamped(limit.saturating_sub(host))))
        }
        (None, DeviceCoord::Device(limit)) => Some(limit.gt(clamped(host))),
        (Some(device), DeviceCoord::Device(limit)) if host == 0 => Some(device.lt(*limit)),
        (Some(device), DeviceCoord::Device(limit)) => Some((device + clamped(host)).lt(*limit)),
    }
}

/// Computes `device + host >= 0` if `host` is negative and the entry has a limit; else `None`, as
/// in [`below`].
#[track_caller]
fn not_negative<'b>(
    k: &Body<'b, '_>,
    &Entry { device, .. }: &Entry<'b>,
    host: i64,
    limit: &DeviceCoord<'b>,
    never: &mut Option<Val<'b, bool>>,
) -> Option<Val<'b, bool>> {
    match (device, limit) {
        (_, DeviceCoord::All | DeviceCoord::Tuple(_)) => None,
        _ if host >= 0 => None,
        (None, _) => Some(*never.get_or_insert_with(|| k.constant(false))),
        (Some(device), _) => Some(device.ge(clamped(host.saturating_neg()))),
    }
}

/// Returns the predicate of a copy of `copied`; if the shapes differ, reports that and returns
/// `None`.
#[track_caller]
pub(in crate::tensor) fn of_shape<'b, E: Engine<'b>>(
    k: &Body<'b, '_>,
    operation: &'static str,
    predicate: &impl IntoPredicate<'b>,
    copied: &Tensor<E>,
) -> Option<Predicate<'b>> {
    let predicate = predicate.predicate(k);
    if predicate.is_of(copied.shape()) {
        return Some(predicate);
    }
    let (shape, copy) = (predicate.shape.to_string(), copied.shape().to_string());
    copied.failed(k, operation, TensorErrorKind::PredicateShape { shape, copy });
    None
}

impl Coordinates<'_> {
    /// For each entry, the offsets that the layout's coordinates add to it.
    #[inline]
    fn offsets(&self, layout: &crate::layout::Layout) -> Result<Vec<Vec<i64>>, LayoutError> {
        let offsets = |entry: &super::engine::Entry<'_>| {
            let part = super::coord::component(layout, entry.path())?;
            Ok(part.indices()?.collect())
        };
        self.entries().iter().map(offsets).collect()
    }
}
