//! Splits a coordinate into what the host knows, what the device computes, and `_`. Every tensor
//! access uses it: the host part becomes a constant offset, the device part instructions.

use crate::ir::builder::{DeviceCoord, MemIndex};
use crate::ir::{Body, Val};
use crate::layout::{
    Coord, Int, IntTuple, Layout, LayoutError, LayoutRef, Slot, StrideTuple, Tuple,
};

use crate::tensor::error::TensorErrorKind;

type Result<T> = std::result::Result<T, LayoutError>;

/// A coordinate `c`, split into a host and a device coordinate. Every mode's entry is in one of
/// them and 0 in the other, so that `L(c) == L(host) + dice(L, picks)(device)`.
pub(in crate::tensor) struct Parts<'b> {
    /// The coordinate, with 0 in place of each device value.
    pub(in crate::tensor) host: Coord,
    /// The device values, if there are any.
    pub(in crate::tensor) device: Option<DevicePart<'b>>,
}

/// The device values of a coordinate.
pub(in crate::tensor) struct DevicePart<'b> {
    /// A slot for each device value, `_` everywhere else.
    picks: Coord,
    /// One entry per slot of `picks`.
    coord: DeviceCoord<'b>,
}

impl<'b> Parts<'b> {
    #[inline]
    pub(in crate::tensor) fn new(coord: &DeviceCoord<'b>) -> Result<Parts<'b>> {
        let host = map(coord, &mut |entry| match entry {
            DeviceCoord::Host(value) => Slot::At(Int::from(*value)),
            DeviceCoord::Device(_) => Slot::At(Int::ZERO),
            DeviceCoord::All | DeviceCoord::Tuple(_) => Slot::All,
        })?;
        let mut found = Vec::new();
        let picks = map(coord, &mut |entry| match entry {
            DeviceCoord::Device(value) => {
                found.push(DeviceCoord::Device(*value));
                Slot::At(Int::ZERO)
            }
            DeviceCoord::Host(_) | DeviceCoord::All | DeviceCoord::Tuple(_) => Slot::All,
        })?;
        let device = match (coord, found.is_empty()) {
            (_, true) => None,
            (DeviceCoord::Tuple(_), false) => {
                Some(DevicePart { picks, coord: DeviceCoord::Tuple(found) })
            }
            (coord, false) => Some(DevicePart { picks, coord: coord.clone() }),
        };
        Ok(Parts { host, device })
    }
}

/// Checks that host values lie inside their modes, for modes with a static extent.
#[inline]
pub(in crate::tensor) fn check_inside(
    coord: &DeviceCoord<'_>,
    layout: LayoutRef<'_>,
) -> std::result::Result<(), TensorErrorKind> {
    inside(coord, layout, &mut Vec::new())
}

#[inline]
fn inside(
    coord: &DeviceCoord<'_>,
    layout: LayoutRef<'_>,
    path: &mut Vec<usize>,
) -> std::result::Result<(), TensorErrorKind> {
    match coord {
        DeviceCoord::Host(coord) => {
            let Some(extent) = layout.size()?.as_static() else { return Ok(()) };
            if (0..extent).contains(coord) {
                return Ok(());
            }
            let mode: Vec<String> = path.iter().map(ToString::to_string).collect();
            Err(match mode.is_empty() {
                true => TensorErrorKind::NoSuchElement {
                    index: *coord,
                    len: usize::try_from(extent).unwrap_or(0),
                },
                false => {
                    TensorErrorKind::OutsideMode { coord: *coord, mode: mode.join("."), extent }
                }
            })
        }
        DeviceCoord::Tuple(entries) => {
            for (mode, (entry, layout)) in entries.iter().zip(layout.modes()).enumerate() {
                path.push(mode);
                inside(entry, layout, path)?;
                path.pop();
            }
            Ok(())
        }
        DeviceCoord::Device(_) | DeviceCoord::All => Ok(()),
    }
}

fn map<'b>(
    coord: &DeviceCoord<'b>,
    leaf: &mut impl FnMut(&DeviceCoord<'b>) -> Slot,
) -> Result<Coord> {
    match coord {
        DeviceCoord::Tuple(items) => {
            let items = items.iter().map(|item| map(item, leaf)).collect::<Result<Vec<_>>>()?;
            Tuple::from_items(items)
        }
        entry => Ok(Tuple::leaf(leaf(entry))),
    }
}

impl<'b> DevicePart<'b> {
    /// The modes of `layout` that device values index.
    #[inline]
    pub(in crate::tensor) fn modes(&self, layout: &Layout) -> Result<Layout> {
        layout.dice(&self.picks)
    }

    /// Returns a divisor of the device values' offset in `modes`; 0 if that offset is always 0.
    #[inline]
    pub(in crate::tensor) fn divisor(&self, modes: &Layout) -> Result<i64> {
        let known = |entry: &DeviceCoord<'b>| match entry {
            DeviceCoord::Device(value) => i64::try_from(value.divisor()).unwrap_or(1),
            DeviceCoord::Host(_) | DeviceCoord::All | DeviceCoord::Tuple(_) => 1,
        };
        let mut all = Int::ZERO;
        match &self.coord {
            DeviceCoord::Tuple(entries) => {
                for (mode, entry) in modes.as_ref().modes().zip(entries) {
                    all = all.gcd(&divisor_at(mode, known(entry))?)?;
                }
            }
            entry => all = divisor_at(modes.as_ref(), known(entry))?,
        }
        Ok(all.divisibility())
    }

    /// Computes the device values' offset in `modes`; `None` if it is always 0.
    #[track_caller]
    pub(in crate::tensor) fn offset<I: MemIndex>(
        &self,
        k: &Body<'b, '_>,
        modes: &Layout,
    ) -> Option<Val<'b, I>> {
        let moves = modes.stride().leaves().iter().any(|stride| !stride.is_zero());
        moves.then_some(())?;
        Some(k.crd2idx::<I>(self.coord.clone(), modes))
    }
}

/// Returns a divisor of `layout(x)` for every multiple `x` of `divisor`; 0 if they are all 0.
#[inline]
fn divisor_at(layout: LayoutRef<'_>, divisor: i64) -> Result<Int> {
    let (mut all, mut rest) = (Int::ZERO, Int::from(divisor));
    let last = layout.leaves().count().saturating_sub(1);
    for (i, (extent, stride)) in layout.leaves().enumerate() {
        // Each leaf but the last takes `x` modulo its extent and passes on the quotient.
        let here = if i == last { rest.clone() } else { rest.gcd(extent)? };
        // If the extent divides `x`, this leaf's coordinate is 0.
        if !extent.is(1) && (i == last || here != *extent) {
            let stride = Int::from(stride.to_int()?.divisibility());
            let product = stride.mul(&here.divisibility().into()).unwrap_or(stride);
            all = all.gcd(&product)?;
        }
        rest = rest.exact_div(extent).ok().filter(Int::is_static).unwrap_or(Int::ONE);
    }
    Ok(all)
}

/// Returns whether 32 bits hold every index of the layout.
#[inline]
pub(in crate::tensor) fn is_narrow(layout: &Layout) -> bool {
    let last = layout.cosize().ok().and_then(|cosize| cosize.as_static());
    last.is_some_and(|cosize| i32::try_from(cosize).is_ok())
}

/// Projects a layout into coordinates onto the entry at `path`, which gives a layout into integers.
#[inline]
pub(in crate::tensor) fn component(layout: &Layout, path: &[usize]) -> Result<Layout> {
    let strides: StrideTuple = layout.stride().to_owned().map(|stride| {
        let value =
            if !stride.mode().eq(path.iter().copied()) { Some(&Int::ZERO) } else { stride.value() };
        let error = || LayoutError::NotAnIntegerStride { stride: stride.to_string() };
        Ok(value.ok_or_else(error)?.clone().into())
    })?;
    let shape: IntTuple = layout.shape().to_owned();
    Layout::new(shape, strides)
}
