//! Engines: what a tensor's layout indexes into (memory, registers or coordinates). The traits say
//! what each engine can do: [`Readable`], [`Writable`].

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{AnyVector, Context, DeviceCoord, IntoOperand, RegisterRange, Ty};
use crate::ir::types::Space;
use crate::ir::{
    Body, Element, Global, MutPointer, Pointer as PointerType, Registers, Shared, Val,
};
use crate::layout::{Int, IntTupleRef, Layout, LayoutError, Tuple};

use super::coord::{Parts, component};
use super::pointer::TensorPointer;
use crate::tensor::error::TensorErrorKind;

mod sealed {
    /// Keeps other crates from adding engines.
    pub trait Sealed {}
    impl<P> Sealed for super::TensorPointer<'_, P> {}
    impl<T> Sealed for super::Rmem<'_, T> {}
    impl Sealed for super::Coordinates<'_> {}
}

/// What the indices of a tensor's layout start from: a [`TensorPointer`], registers ([`Rmem`]) or
/// [`Coordinates`]. CuTe's `Engine`. Name it as a bound (`E: Engine`) in functions that only slice
/// or tile a tensor; functions that access elements need [`Readable`] or [`Writable`].
pub trait Engine<'b>: sealed::Sealed + Clone + fmt::Display {
    /// Returns the engine moved to a coordinate of `layout`; each `_` counts as 0.
    ///
    /// # Errors
    /// The coordinate does not fit the layout, or the engine needs a host value and gets a device
    /// value.
    #[doc(hidden)]
    fn advance(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        coord: &DeviceCoord<'b>,
    ) -> Result<Self, TensorErrorKind>;

    /// Returns a handle of the innermost open body of the engine's kernel.
    #[doc(hidden)]
    fn body(&self) -> Body<'b, 'b>;

    /// Returns whether the allocation ends with the tensor (registers and shared memory), so that
    /// no tile may reach beyond it, not even a predicated one. Tiled copies and MMAs then refuse
    /// tiles that do not divide the tensor.
    #[doc(hidden)]
    fn ends_with_tensor(&self) -> bool;
}

/// An engine whose elements you can read: memory and registers, but not coordinates. The bound for
/// functions that load, for example the source of a copy.
pub trait Readable<'b>: Engine<'b> {
    /// The type of the elements, for example `f32`.
    type Elem: Element;
    /// Reads the element that the engine points to, which is the one at coordinate 0.
    fn read(&self) -> Val<'b, Self::Elem>;
    /// Returns the engine moved by `index` elements.
    #[doc(hidden)]
    #[must_use]
    fn at(&self, index: i64) -> Self;
    /// Returns the engine moved by `offset` elements, which may contain symbols.
    #[doc(hidden)]
    fn moved(&self, k: &Body<'b, '_>, offset: &Int) -> Result<Self, TensorErrorKind>;
    /// The known alignment of the first element in bytes; `None` if elements have no address.
    #[doc(hidden)]
    fn alignment_bytes(&self) -> Option<u32>;
    /// Reads the elements at `indices` as one vector, or returns `None` if no vector has this
    /// length. In memory the elements must be contiguous and aligned to the vector, because this is
    /// one access.
    #[doc(hidden)]
    fn read_vector(&self, indices: &[i64]) -> Option<AnyVector<'b>>;
    /// The memory space of the elements; `None` for registers.
    #[doc(hidden)]
    fn memory(&self) -> Option<Space>;
    /// Returns the address of the element at `index`.
    #[doc(hidden)]
    fn address(&self, index: i64) -> ElementAddress<'b, Self::Elem>;
}

/// An element's address, with one variant per memory space: a pointer and an offset from it in
/// elements.
///
/// The crate's copies match on it before they issue an instruction that takes only certain spaces:
/// `cp.async` and `cp.async.bulk` load from `Global` to `Shared`, `ldmatrix` reads `Shared`, and
/// `stmatrix` writes it. Plain loads and stores need no match, because they work in every space.
#[derive(Clone, Copy)]
pub enum ElementAddress<'b, T> {
    /// In the thread's registers.
    Registers,
    /// In global memory.
    Global(Val<'b, Global<T>>, i64),
    /// In the block's shared memory.
    Shared(Val<'b, Shared<T>>, i64),
    /// In another space, for example behind a generic pointer: only plain loads and stores reach
    /// it.
    Other,
}

/// An engine whose elements you can write, the bound for functions that store.
#[diagnostic::on_unimplemented(
    message = "the elements of this tensor cannot be written",
    note = "registers, shared memory and kernel parameters of type `GlobalMut<T>` can; `Global<T>` and coordinates cannot"
)]
pub trait Writable<'b>: Readable<'b> {
    /// Writes the element that the engine points to, which is the one at coordinate 0.
    fn write(&self, value: impl IntoOperand<'b, Self::Elem>);
    /// Writes a vector to the elements at `indices`, in memory with one access, like
    /// [`read_vector`](Readable::read_vector). The vector must have as many bits as the elements.
    #[doc(hidden)]
    fn write_vector(&self, indices: &[i64], vector: AnyVector<'b>);
}

impl<'b, P: PointerType> Engine<'b> for TensorPointer<'b, P> {
    fn body(&self) -> Body<'b, 'b> {
        TensorPointer::body(self)
    }

    #[track_caller]
    fn advance(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        coord: &DeviceCoord<'b>,
    ) -> Result<Self, TensorErrorKind> {
        TensorPointer::advance(self, k, layout, coord)
    }

    fn ends_with_tensor(&self) -> bool {
        self.space() == Space::Shared
    }
}

impl<'b, P: PointerType> Readable<'b> for TensorPointer<'b, P> {
    type Elem = P::Elem;

    #[track_caller]
    fn read(&self) -> Val<'b, P::Elem> {
        self.load()
    }

    fn at(&self, index: i64) -> Self {
        *self + index
    }

    #[track_caller]
    fn moved(&self, k: &Body<'b, '_>, offset: &Int) -> Result<Self, TensorErrorKind> {
        self.add_int(k, offset)
    }

    fn alignment_bytes(&self) -> Option<u32> {
        Some(self.alignment())
    }

    #[track_caller]
    fn read_vector(&self, indices: &[i64]) -> Option<AnyVector<'b>> {
        let (base, offset) = (*self + *indices.first()?).resolve();
        base.load_any(offset, u32::try_from(indices.len()).ok()?)
    }

    fn memory(&self) -> Option<Space> {
        Some(self.space())
    }

    #[track_caller]
    fn address(&self, index: i64) -> ElementAddress<'b, P::Elem> {
        let (base, offset) = (*self + index).resolve();
        match (base.as_global(), base.as_shared()) {
            (Some(base), _) => ElementAddress::Global(base, offset),
            (_, Some(base)) => ElementAddress::Shared(base, offset),
            _ => ElementAddress::Other,
        }
    }
}

impl<'b, P: MutPointer> Writable<'b> for TensorPointer<'b, P> {
    #[track_caller]
    fn write(&self, value: impl IntoOperand<'b, P::Elem>) {
        self.store(value);
    }

    #[track_caller]
    fn write_vector(&self, indices: &[i64], vector: AnyVector<'b>) {
        let Some((first, vector)) = indices.first().zip(vector.cast(P::Elem::scalar())) else {
            return;
        };
        let (base, offset) = (*self + *first).resolve();
        base.store_vector(offset, vector);
    }
}

/// A thread's registers: the engine of a [`RegisterTensor`](crate::tensor::view::RegisterTensor).
/// You meet it only in types and bounds; make a fragment with
/// [`Tensor::registers`](crate::tensor::view::Tensor::registers).
pub struct Rmem<'b, T> {
    registers: Registers<'b, T>,
    offset: i64,
}

impl<T> Clone for Rmem<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Rmem<'_, T> {}

impl<'b, T: Ty> Rmem<'b, T> {
    pub(in crate::tensor) fn new(registers: Registers<'b, T>) -> Self {
        Rmem { registers, offset: 0 }
    }

    /// Returns what control flow carries of the fragment.
    pub(super) fn part(&self) -> FragmentPart<T> {
        let registers = self.registers.range();
        FragmentPart { registers, offset: self.offset, ty: PhantomData }
    }

    /// Returns the fragment that control flow carried, in the build in which it is used.
    pub(super) fn bound(cx: &'b Context, part: FragmentPart<T>) -> Self {
        Rmem { registers: Registers::bound(cx, part.registers), offset: part.offset }
    }

    /// Returns all registers from the first element on.
    pub(in crate::tensor) fn variables(&self) -> Registers<'b, T> {
        self.registers.part(self.index(), self.registers.len())
    }

    /// Writes `value` to every register that the layout reaches, once each.
    #[track_caller]
    pub(in crate::tensor) fn fill(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        value: impl IntoOperand<'b, T>,
    ) -> Result<(), LayoutError> {
        let (value, mut indices) = (k.value(value), layout.indices()?.collect::<Vec<i64>>());
        indices.sort_unstable();
        indices.dedup();
        for index in indices {
            let place = self.offset.checked_add(index).and_then(|at| u32::try_from(at).ok());
            self.registers.set(place.unwrap_or(u32::MAX), value);
        }
        Ok(())
    }

    /// The register's index; for a negative offset `u32::MAX`, which no variable has.
    fn index(&self) -> u32 {
        u32::try_from(self.offset).unwrap_or(u32::MAX)
    }
}

/// A fragment is carried by name: its registers, and the index of its first element.
pub(super) struct FragmentPart<T> {
    pub(super) registers: RegisterRange,
    pub(super) offset: i64,
    pub(super) ty: PhantomData<fn() -> T>,
}

impl<T> Clone for FragmentPart<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for FragmentPart<T> {}

impl<'b, T: Ty> Engine<'b> for Rmem<'b, T> {
    fn body(&self) -> Body<'b, 'b> {
        self.registers.body()
    }

    #[track_caller]
    fn advance(
        &self,
        _: &Body<'b, '_>,
        layout: &Layout,
        coord: &DeviceCoord<'b>,
    ) -> Result<Self, TensorErrorKind> {
        let Parts { host, device } = Parts::new(coord)?;
        if device.is_some() {
            return Err(TensorErrorKind::DeviceIndexOfRegisters);
        }
        let (_, offset) = layout.slice_and_offset(&host)?;
        let overflow = LayoutError::Overflow { operation: "the index of a register" };
        let offset = self.offset.checked_add(offset.to_int()?.to_static()?).ok_or(overflow)?;
        Ok(Rmem { offset, ..*self })
    }

    fn ends_with_tensor(&self) -> bool {
        true
    }
}

impl<'b, T: Element> Readable<'b> for Rmem<'b, T> {
    type Elem = T;

    #[track_caller]
    fn read(&self) -> Val<'b, T> {
        self.registers.get(self.index())
    }

    fn at(&self, index: i64) -> Self {
        Rmem { offset: self.offset.saturating_add(index), ..*self }
    }

    fn moved(&self, _: &Body<'b, '_>, offset: &Int) -> Result<Self, TensorErrorKind> {
        Ok(self.at(offset.to_static()?))
    }

    fn alignment_bytes(&self) -> Option<u32> {
        None
    }

    #[track_caller]
    fn read_vector(&self, indices: &[i64]) -> Option<AnyVector<'b>> {
        let mut values = Vec::with_capacity(indices.len());
        for index in indices {
            values.push(self.at(*index).read());
        }
        AnyVector::pack(&values)
    }

    fn memory(&self) -> Option<Space> {
        None
    }

    fn address(&self, _: i64) -> ElementAddress<'b, T> {
        ElementAddress::Registers
    }
}

impl<'b, T: Element> Writable<'b> for Rmem<'b, T> {
    #[track_caller]
    fn write(&self, value: impl IntoOperand<'b, T>) {
        self.registers.set(self.index(), value);
    }

    #[track_caller]
    fn write_vector(&self, indices: &[i64], vector: AnyVector<'b>) {
        for (index, value) in indices.iter().zip(vector.values::<T>().unwrap_or_default()) {
            self.at(*index).write(value);
        }
    }
}

/// `rmem<f32>`
impl<T: Ty> fmt::Display for Rmem<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rmem<{}>", T::ty())
    }
}

impl<T: Ty> fmt::Debug for Rmem<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The engine of a [`CoordTensor`](crate::tensor::view::CoordTensor), whose elements are positions
/// such as (row, column) instead of data. You use it for predication and for TMA. CuTe's
/// `ArithmeticTuple` iterator.
#[derive(Clone)]
pub struct Coordinates<'b> {
    cx: &'b Context,
    /// The coordinate's tree; its leaves are `entries`.
    profile: Tuple<Int>,
    entries: Vec<Entry<'b>>,
}

/// One entry of a coordinate: `host + device`.
#[derive(Clone)]
pub(in crate::tensor) struct Entry<'b> {
    path: Vec<usize>,
    pub(in crate::tensor) host: i64,
    pub(in crate::tensor) device: Option<Val<'b, i32>>,
    /// The maximum of `device`, if it is known.
    pub(in crate::tensor) max: Option<i64>,
}

impl<'b> Entry<'b> {
    pub(in crate::tensor) fn path(&self) -> &[usize] {
        &self.path
    }

    /// Adds a device value, which is at most `max`.
    #[track_caller]
    fn add(&mut self, offset: Val<'b, i32>, max: Option<i64>) {
        self.max = self.max.zip(max).and_then(|(a, b)| a.checked_add(b));
        self.device = Some(match self.device {
            Some(device) => device + offset,
            None => offset,
        });
    }
}

impl<'b> Coordinates<'b> {
    /// Returns the origin of the coordinate space of `shape`.
    #[inline]
    pub(in crate::tensor) fn origin(cx: &'b Context, shape: &Tuple<Int>) -> Self {
        let mut entries = Vec::new();
        paths(shape.as_ref(), &mut Vec::new(), &mut entries);
        Coordinates { cx, profile: shape.clone(), entries }
    }

    pub(in crate::tensor) fn entries(&self) -> &[Entry<'b>] {
        &self.entries
    }

    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn value(&self) -> DeviceCoord<'b> {
        fn tree<'b>(
            profile: IntTupleRef<'_>,
            values: &mut impl Iterator<Item = DeviceCoord<'b>>,
        ) -> DeviceCoord<'b> {
            if profile.is_leaf() {
                return values.next().unwrap_or(DeviceCoord::Host(0));
            }
            DeviceCoord::Tuple(profile.children().map(|child| tree(child, values)).collect())
        }
        let mut values = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            values.push(match entry.device {
                None => DeviceCoord::Host(entry.host),
                Some(device) if entry.host == 0 => DeviceCoord::Device(device),
                Some(device) => DeviceCoord::Device(device + clamped(entry.host)),
            });
        }
        tree(self.profile.as_ref(), &mut values.into_iter())
    }
}

/// Clamps a value to `i32`, the type of coordinates on the device.
pub(in crate::tensor) fn clamped(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

fn paths(shape: IntTupleRef<'_>, path: &mut Vec<usize>, out: &mut Vec<Entry<'_>>) {
    if shape.is_leaf() {
        out.push(Entry { path: path.clone(), host: 0, device: None, max: Some(0) });
        return;
    }
    for (i, child) in shape.children().enumerate() {
        path.push(i);
        paths(child, path, out);
        path.pop();
    }
}

impl<'b> Engine<'b> for Coordinates<'b> {
    fn body(&self) -> Body<'b, 'b> {
        self.cx.body()
    }

    #[track_caller]
    #[inline]
    fn advance(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        coord: &DeviceCoord<'b>,
    ) -> Result<Self, TensorErrorKind> {
        let Parts { host, device } = Parts::new(coord)?;
        let mut moved = self.clone();
        for entry in &mut moved.entries {
            let layout = component(layout, &entry.path)?;
            let (_, offset) = layout.slice_and_offset(&host)?;
            let overflow = LayoutError::Overflow { operation: "a coordinate" };
            let offset = offset.to_int()?;
            let number = offset.constant_part();
            entry.host = entry.host.checked_add(number).ok_or(overflow)?;
            let symbols = offset.sub(&number.into())?;
            if !symbols.is(0) {
                entry.add(k.int(&symbols), Some(symbols.bounds().1));
            }
            let Some(device) = &device else { continue };
            let modes = device.modes(&layout)?;
            let Some(offset) = device.offset::<i32>(k, &modes) else { continue };
            let max = modes.cosize()?.as_static().and_then(|cosize| cosize.checked_sub(1));
            entry.add(offset, max);
        }
        Ok(moved)
    }

    fn ends_with_tensor(&self) -> bool {
        false
    }
}

/// For example `(0,?+4)`, where `?` is known only when the kernel runs.
impl fmt::Display for Coordinates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn tree<'e, 'b: 'e>(
            profile: IntTupleRef<'_>,
            entries: &mut impl Iterator<Item = &'e Entry<'b>>,
            f: &mut fmt::Formatter<'_>,
        ) -> fmt::Result {
            if profile.is_leaf() {
                return match entries.next() {
                    None => Ok(()),
                    Some(Entry { host, device: None, .. }) => write!(f, "{host}"),
                    Some(Entry { host: 0, device: Some(_), .. }) => f.write_str("?"),
                    Some(Entry { host, device: Some(_), .. }) => write!(f, "?+{host}"),
                };
            }
            for (i, child) in profile.children().enumerate() {
                f.write_str(if i == 0 { "(" } else { "," })?;
                tree(child, entries, f)?;
            }
            f.write_str(")")
        }
        tree(self.profile.as_ref(), &mut self.entries.iter(), f)
    }
}

impl fmt::Debug for Coordinates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
