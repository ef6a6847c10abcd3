//! [`Predicate`]: which elements of a copy are inside, for tiles that leave their tensor.

use std::collections::HashMap;
use std::fmt;

use crate::ir::{Body, DeviceCoord, Val};
use crate::layout::{IntTuple, LayoutError};

use super::engine::{Coordinates, clamped};
use super::error::{TensorError, TensorErrorKind};
use super::ssa::TensorSsa;
use super::tensor::{CoordTensor, Fragment};

/// For each element of a tensor, whether it takes part: a tensor of bools of the same shape, of which some may
/// be known to be true when the kernel is built, and then cost nothing.
///
/// Made by [`within`](CoordTensor::within) from coordinates, or from a [`TensorSsa`] of bools.
#[derive(Clone)]
pub struct Predicate<'b> {
    shape: IntTuple,
    /// In the order of the coordinates; `None` is always true.
    values: Vec<Option<Val<'b, bool>>>,
}

impl<'b> Predicate<'b> {
    /// The shape.
    pub fn shape(&self) -> &IntTuple {
        &self.shape
    }

    /// For each element in the order of the coordinates, whether it takes part; `None` where it always does.
    pub fn values(&self) -> &[Option<Val<'b, bool>>] {
        &self.values
    }

    /// One bool for each of `vectors` vectors of `elements` elements, which are copied as a whole: of a predicate with
    /// one for each element, where those of a vector are the same value; with one for each vector; or with one for each
    /// of the `rest` coordinates of the modes after the first.
    pub(super) fn of_vectors(
        &self,
        [vectors, elements, rest]: [usize; 3],
    ) -> Result<Vec<Option<Val<'b, bool>>>, TensorErrorKind> {
        let values = &self.values;
        if values.len() == vectors {
            return Ok(values.clone());
        }
        if values.len() == vectors * elements {
            let of_one = |(vector, values): (usize, &[Option<Val<'b, bool>>])| {
                let first = values.first().copied().flatten();
                let same = |value: &Option<Val<'b, bool>>| value.map(Val::id) == first.map(Val::id);
                let differs = TensorErrorKind::PredicateInVector { vector, elements };
                values.iter().all(same).then_some(first).ok_or(differs)
            };
            return values.chunks(elements.max(1)).enumerate().map(of_one).collect();
        }
        if values.len() == rest && vectors.is_multiple_of(rest.max(1)) {
            let each = vectors / rest.max(1);
            return Ok(values.iter().flat_map(|value| std::iter::repeat_n(*value, each)).collect());
        }
        let shape = self.shape.to_string();
        Err(TensorErrorKind::PredicateVectors { shape, vectors, elements })
    }

    /// Whether all elements take part, whatever the kernel is given.
    pub fn is_always(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// `predicate o (4,2)`
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

/// A tensor of bools that says which elements of a copy take part: a [`Predicate`], a [`TensorSsa`] of bools or
/// a [`Fragment`] of bools.
#[diagnostic::on_unimplemented(
    message = "a predicate is a tensor of bools of the copy's shape, not `{Self}`",
    label = "expected a `Predicate`, a `TensorSsa` of bools or a `Fragment` of bools",
    note = "a single bool becomes one with `TensorSsa::full(k, shape, value)`, where `shape` is that of the copy; where it is the same for all elements, `k.if_` around the copy does it too"
)]
pub trait IntoPredicate<'b> {
    /// The predicate.
    fn predicate(&self, k: &Body<'b, '_>) -> Predicate<'b>;
}

impl<'b> IntoPredicate<'b> for Predicate<'b> {
    fn predicate(&self, _: &Body<'b, '_>) -> Predicate<'b> {
        self.clone()
    }
}

impl<'b> IntoPredicate<'b> for TensorSsa<'b, bool> {
    fn predicate(&self, _: &Body<'b, '_>) -> Predicate<'b> {
        let values = self.values().iter().copied().map(Some).collect();
        Predicate { shape: self.shape().clone(), values }
    }
}

impl<'b> IntoPredicate<'b> for Fragment<'b, bool> {
    #[track_caller]
    fn predicate(&self, k: &Body<'b, '_>) -> Predicate<'b> {
        self.load_all(k).predicate(k)
    }
}

/// The leaves of a limit, in order.
fn leaves<'b>(limit: &DeviceCoord<'b>, out: &mut Vec<DeviceCoord<'b>>) {
    match limit {
        DeviceCoord::Tuple(items) => items.iter().for_each(|item| leaves(item, out)),
        leaf => out.push(leaf.clone()),
    }
}

impl<'b> CoordTensor<'b> {
    /// For each element, a coordinate, whether all its entries are below those of `limit`: CuTe's `elem_less`.
    /// An entry that is `..` limits nothing.
    ///
    /// Where the extents of the tensor show that an entry always is, nothing is compared: tiles that divide
    /// their tensor cost nothing. This relies on coordinates inside of the shape.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::tensor::Tensor;
    ///
    /// let kernel = Kernel::<(i32,)>::build("k", Target::SM_80, |k, (n,)| {
    ///     let (block, thread) = (k.block_idx(), k.thread_idx().x);
    ///     let places = Tensor::identity(k, shape!(64, 100)).local_tile(k, &tiler!(16, 16), (block.x, block.y));
    ///     let places = places.local_partition(k, &layout!((16, 2) : (2, 1)), thread);
    ///     // 16 divides 64, so rows are not compared. The last tile of columns begins at 96: of the 8 columns of
    ///     // a thread, the first two are always below 100.
    ///     let inside = places.within(k, (64, 100));
    ///     assert_eq!(inside.shape(), &shape!(1, 8));
    ///     assert!(!inside.is_always() && places.within(k, (64, ..)).is_always());
    /// })?;
    /// assert_eq!(kernel.to_string().matches("setp").count(), 6);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn within(&self, k: &Body<'b, '_>, limit: impl Into<DeviceCoord<'b>>) -> Predicate<'b> {
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
        // One list of offsets for each entry of the coordinates.
        let offsets = self.engine.offsets(&self.layout)?;
        let size = offsets.first().map_or(0, Vec::len);
        let mut values: Vec<Option<Val<'b, bool>>> = vec![None; size];
        // The same two comparisons are combined once, so that elements with one answer have one value.
        let mut both = HashMap::new();
        for ((entry, limit), offsets) in self.engine.entries().iter().zip(&limits).zip(offsets) {
            let mut known = HashMap::new();
            for (value, offset) in values.iter_mut().zip(offsets) {
                let overflow = LayoutError::Overflow { operation: "a coordinate" };
                let host = entry.host.checked_add(offset).ok_or(overflow)?;
                let below = match known.get(&host) {
                    Some(below) => *below,
                    None => {
                        let below = below(k, entry.device, entry.most, host, limit);
                        known.insert(host, below);
                        below
                    }
                };
                *value = match (*value, below) {
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

/// Whether `device + host < limit`; `None` where it always is.
#[track_caller]
fn below<'b>(
    k: &Body<'b, '_>,
    device: Option<Val<'b, i32>>,
    most: Option<i64>,
    host: i64,
    limit: &DeviceCoord<'b>,
) -> Option<Val<'b, bool>> {
    let always = |limit: i64| {
        let most = if device.is_some() { most } else { Some(0) };
        most.and_then(|most| most.checked_add(host)).is_some_and(|most| most < limit)
    };
    match (device, limit) {
        (_, DeviceCoord::All | DeviceCoord::Tuple(_)) => None,
        (_, DeviceCoord::Host(limit)) if always(*limit) => None,
        (None, DeviceCoord::Host(_)) => Some(k.constant(false)),
        (Some(device), DeviceCoord::Host(limit)) => {
            Some(device.lt(clamped(limit.saturating_sub(host))))
        }
        (None, DeviceCoord::Device(limit)) => Some(limit.gt(clamped(host))),
        (Some(device), DeviceCoord::Device(limit)) if host == 0 => Some(device.lt(*limit)),
        (Some(device), DeviceCoord::Device(limit)) => Some((device + clamped(host)).lt(*limit)),
    }
}

/// The predicate of a copy of `shape`, or `None` after the error was recorded.
#[track_caller]
pub(super) fn of_shape<'b>(
    k: &Body<'b, '_>,
    predicate: &impl IntoPredicate<'b>,
    size: usize,
    operand: &dyn fmt::Display,
) -> Option<Predicate<'b>> {
    let predicate = predicate.predicate(k);
    if predicate.values.len() == size {
        return Some(predicate);
    }
    let kind = TensorErrorKind::PredicateSize { shape: predicate.shape.to_string(), size };
    k.report(TensorError { operation: "copy_if", operand: operand.to_string(), kind });
    None
}

impl Coordinates<'_> {
    /// For each entry, the offsets of all coordinates of a layout in it.
    fn offsets(&self, layout: &crate::layout::Layout) -> Result<Vec<Vec<i64>>, LayoutError> {
        let offsets = |entry: &super::engine::Entry<'_>| {
            let part = super::coord::component(layout, entry.path())?;
            Ok(part.indices()?.collect())
        };
        self.entries().iter().map(offsets).collect()
    }
}
