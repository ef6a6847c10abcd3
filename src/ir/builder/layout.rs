//! Layouts inside a kernel: computes the offset of a coordinate that mixes host and device values.
//! The tensors use it for indexing; call it yourself if you work with bare pointers.

use std::ops::RangeFull;

use super::body::Body;
use super::context::Context;
use super::error::BuildErrorKind;
use super::symbolic::int;
use super::typed::{MemIndex, Val};
use crate::layout::{Int, IntTupleRef, Layout, LayoutError, LayoutRef};

/// A coordinate that mixes host integers, known when the kernel is built, with device values, for
/// example `(0, k.thread_idx().x)`. You rarely name it: integers, values and tuples convert into
/// it.
#[derive(Clone, Debug)]
pub enum DeviceCoord<'b> {
    /// A host integer, known when the kernel is built.
    Host(i64),
    /// A device integer, which must not be negative.
    Device(Val<'b, i32>),
    /// Every index of the mode: CuTe's `_`, written `..`. Only operations that split a coordinate
    /// accept it, such as slicing a tensor.
    All,
    /// One coordinate per mode.
    Tuple(Vec<DeviceCoord<'b>>),
}

impl From<i32> for DeviceCoord<'_> {
    fn from(value: i32) -> Self {
        DeviceCoord::Host(value.into())
    }
}

impl From<i64> for DeviceCoord<'_> {
    fn from(value: i64) -> Self {
        DeviceCoord::Host(value)
    }
}

impl From<u32> for DeviceCoord<'_> {
    fn from(value: u32) -> Self {
        DeviceCoord::Host(value.into())
    }
}

/// A value above `i64::MAX`, which no layout reaches, is reported as an overflow when it is used.
impl From<usize> for DeviceCoord<'_> {
    fn from(value: usize) -> Self {
        DeviceCoord::Host(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// `..` is CuTe's `_`.
impl From<RangeFull> for DeviceCoord<'_> {
    fn from(_: RangeFull) -> Self {
        DeviceCoord::All
    }
}

impl<'b> From<Val<'b, i32>> for DeviceCoord<'b> {
    fn from(value: Val<'b, i32>) -> Self {
        DeviceCoord::Device(value)
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<'b, $($name: Into<DeviceCoord<'b>>),+> From<($($name,)+)> for DeviceCoord<'b> {
            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            fn from(($($name,)+): ($($name,)+)) -> Self {
                DeviceCoord::Tuple(vec![$($name.into()),+])
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
}

/// # Coordinates
///
/// Applies a layout on the device, and turns shapes into coordinates.
impl<'b> Body<'b, '_> {
    /// Returns `layout(coord)`, the offset of a coordinate, in the index type `I`. Use it to index
    /// memory through a bare pointer; tensors call it for you.
    ///
    /// It follows CuTe's `crd2idx`: a tuple gives each mode its own coordinate, and an integer for
    /// a mode with several leaves runs through them colexicographically, without a bound for the
    /// last leaf. Host values are folded when the kernel is built. A device value `c` costs `c / p
    /// % s * d` for each leaf `s:d`, where `p` is the product of the sizes before it. This becomes
    /// shifts and masks if `p` and `s` are powers of two, and nothing if `d` is 0.
    ///
    /// Symbols in the layout are read from the kernel's parameters, as [`int`](Body::int) does. It
    /// is an error of the build if the coordinate does not fit the layout, if no parameter has a
    /// symbol, or if the layout maps to coordinates.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("one", Target::SM_80, |k, (x,)| {
    ///     let row_major = layout!((8, 32) : (32, 1));
    ///     let offset = k.crd2idx::<i32>((3, k.thread_idx().x), &row_major);
    ///     x.store(offset, 1.0); // x[96 + thread]
    /// })?;
    /// assert!(kernel.to_string().contains("const 96 : i32"));
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn crd2idx<I: MemIndex>(
        &self,
        coord: impl Into<DeviceCoord<'b>>,
        layout: &Layout,
    ) -> Val<'b, I> {
        let cx = self.context();
        let mut offset = Offset { host: Int::ZERO, device: None };
        if let Err(error) = offset.add(cx, &coord.into(), layout.as_ref()) {
            cx.error(BuildErrorKind::Layout(error));
        }
        match offset.device {
            None => int(cx, &offset.host),
            Some(device) if offset.host.is(0) => device,
            Some(device) => device + int::<I>(cx, &offset.host),
        }
    }

    /// Converts a tuple to a coordinate: integers become host values, symbolic expressions become
    /// device values. Use it to turn a shape into the limit of a predicate.
    ///
    /// ```
    /// use tilewright::ir::builder::DeviceCoord;
    /// use tilewright::ir::{Kernel, KernelOptions, Target};
    /// use tilewright::layout::{Int, Layout};
    ///
    /// let rows = Layout::compact((Int::symbol("m"), 8));
    /// let options = KernelOptions::default().template(&rows);
    /// Kernel::<(Layout,)>::build_with(options, "k", Target::SM_80, |k, (rows,)| {
    ///     let DeviceCoord::Tuple(entries) = k.coord(rows.shape()) else { panic!() };
    ///     assert!(matches!(entries[..], [DeviceCoord::Device(_), DeviceCoord::Host(8)]));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn coord(&self, tuple: IntTupleRef<'_>) -> DeviceCoord<'b> {
        match tuple.as_leaf() {
            Some(entry) => match entry.as_static() {
                Some(number) => DeviceCoord::Host(number),
                None => DeviceCoord::Device(int(self.context(), entry)),
            },
            None => {
                let mut entries = Vec::with_capacity(tuple.rank());
                for entry in tuple.children() {
                    entries.push(self.coord(entry));
                }
                DeviceCoord::Tuple(entries)
            }
        }
    }
}

/// A sum of a host part, which may have symbols, and a device part.
struct Offset<'b, I> {
    host: Int,
    device: Option<Val<'b, I>>,
}

impl<'b, I: MemIndex> Offset<'b, I> {
    #[track_caller]
    #[inline]
    fn add(
        &mut self,
        cx: &'b Context,
        coord: &DeviceCoord<'b>,
        layout: LayoutRef<'_>,
    ) -> Result<(), LayoutError> {
        match coord {
            DeviceCoord::Host(index) => {
                let layout = layout.to_layout();
                let offset = if layout.is_static() {
                    Int::new(layout.at(*index)?)
                } else {
                    layout.crd2idx(Int::new(*index))?
                };
                self.host = self.host.add(&offset)?;
                Ok(())
            }
            DeviceCoord::Device(index) => self.add_device(cx, *index, layout),
            DeviceCoord::All => Err(LayoutError::UnexpectedUnderscore { operation: "crd2idx" }),
            DeviceCoord::Tuple(coords) => {
                let (expected, found) = (layout.rank(), coords.len());
                if layout.is_leaf() || expected != found {
                    return Err(LayoutError::RankMismatch { expected, found });
                }
                for (coord, mode) in coords.iter().zip(layout.modes()) {
                    self.add(cx, coord, mode)?;
                }
                Ok(())
            }
        }
    }

    #[track_caller]
    #[inline]
    fn add_device(
        &mut self,
        cx: &'b Context,
        index: Val<'b, i32>,
        layout: LayoutRef<'_>,
    ) -> Result<(), LayoutError> {
        // Coalesced leaves need no division between them.
        let coalesced = layout.to_layout().coalesce()?;
        let leaves: Vec<(&Int, &Int)> = coalesced
            .as_ref()
            .leaves()
            .map(|(extent, stride)| Ok((extent, stride.to_int()?)))
            .collect::<Result<_, LayoutError>>()?;
        let mut before = Int::ONE;
        for (i, &(extent, stride)) in leaves.iter().enumerate() {
            if !stride.is(0) {
                let quotient = quotient(cx, index, &before);
                let last = i + 1 == leaves.len();
                let digit = if last { quotient } else { remainder(cx, quotient, extent) };
                let digit: Val<'b, I> = digit.cvt();
                let term = if stride.is(1) { digit } else { digit * int::<I>(cx, stride) };
                self.device = Some(match self.device {
                    Some(sum) => sum + term,
                    None => term,
                });
            }
            before = before.mul(extent)?;
        }
        Ok(())
    }
}

/// Returns `index / divisor` for an index that is not negative.
#[track_caller]
#[inline]
fn quotient<'b>(cx: &'b Context, index: Val<'b, i32>, divisor: &Int) -> Val<'b, i32> {
    let Some(number) = divisor.as_static() else { return index / int::<i32>(cx, divisor) };
    match i32::try_from(number) {
        Ok(1) => index,
        Ok(divisor) if divisor.count_ones() == 1 => index >> divisor.trailing_zeros(),
        Ok(divisor) => index / divisor,
        // The divisor is larger than every index.
        Err(_) => cx.constant(0),
    }
}

/// Returns `index % divisor` for an index that is not negative.
#[track_caller]
#[inline]
fn remainder<'b>(cx: &'b Context, index: Val<'b, i32>, divisor: &Int) -> Val<'b, i32> {
    let Some(number) = divisor.as_static() else { return index % int::<i32>(cx, divisor) };
    match i32::try_from(number) {
        Ok(1) => cx.constant(0),
        Ok(divisor) if divisor.count_ones() == 1 => index & (divisor - 1),
        Ok(divisor) => index % divisor,
        Err(_) => index,
    }
}
