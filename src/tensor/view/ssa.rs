//! [`TensorSsa`]: a tensor's elements as immutable values, for element-wise math on what a thread
//! holds, for example in an epilogue.

mod access;
mod broadcast;
mod operators;

use std::fmt;

use crate::ir::builder::{DeviceCoord, IntoVal};
use crate::ir::{Body, Element, Number, Val};
use crate::layout::{Coord, Int, IntTuple, IntTupleRef, Layout, LayoutError, Slot};

use super::coord::{Parts, check_inside};
use super::engine::{Readable, Writable};
use super::tensor::{RegisterTensor, Tensor};
use crate::tensor::error::{TensorError, TensorErrorKind};
use broadcast::{common_shape, repeated};

/// A tensor's elements as values of the thread, in coordinate order (first mode fastest): CuTe
/// DSL's `TensorSSA`. It is immutable; operations return new ones.
///
/// Use it for element-wise math, reductions and comparisons on what a thread holds. Use a
/// [`RegisterTensor`] if elements change in place, for example accumulators in a loop.
///
/// Operators work element by element on tensors and references to them: `+ - * /` on numbers, `%`,
/// `<<` and `>>` on integers, `& | ^ !` on integers and bools. Either side can be a single value;
/// two tensors are [broadcast](TensorSsa::broadcast_to) to a common shape.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::view::Tensor;
///
/// // Softmax over the rows of a 2 x 4 tensor, but for the exponential.
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("rows", Target::SM_80, |_, (x,)| {
///     let x = Tensor::new(x, layout!((2, 4) : (4, 1)));
///     let values = x.load_all();
///     let sums = values.reduce(0.0, (.., 1), |a, b| a + b);
///     assert_eq!((values.shape(), sums.shape()), (&shape!(2, 4), &shape!(2,)));
///     x.store_all(&(&values / &sums * 8.0));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0, 2.0, 4.0, 1.0, 5.0, 5.0, 5.0, 5.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 4.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TensorSsa<'b, T> {
    shape: IntTuple,
    /// In colexicographic coordinate order; never empty.
    values: Vec<Val<'b, T>>,
}

impl<T> Clone for TensorSsa<'_, T> {
    fn clone(&self) -> Self {
        TensorSsa { shape: self.shape.clone(), values: self.values.clone() }
    }
}

/// For example `ssa<f32> o (2,4)`.
impl<T: Element> fmt::Display for TensorSsa<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ssa<{}> o {}", T::scalar(), self.shape)
    }
}

impl<T: Element> fmt::Debug for TensorSsa<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The right-hand side of a [`TensorSsa`] operator: a tensor or a single value, for example in
/// `&x * 2.0`. You only meet it as a bound.
pub trait SsaOperand<'b, T> {
    /// Returns the operand; `other` is a value of the same build, from which constants can be made.
    /// The operators call it; you need it only in a generic function of your own.
    #[doc(hidden)]
    fn operand<U>(self, other: Val<'b, U>) -> SsaCow<'b, T>;
}

/// What a [`SsaOperand`] becomes: a tensor, or one value for all elements.
#[doc(hidden)]
pub enum SsaCow<'b, T> {
    /// One element per coordinate.
    Tensor(TensorSsa<'b, T>),
    /// One value for all elements.
    Value(Val<'b, T>),
}

impl<'b, T: Element> SsaOperand<'b, T> for T {
    #[track_caller]
    fn operand<U>(self, other: Val<'b, U>) -> SsaCow<'b, T> {
        SsaCow::Value(other.constant(self))
    }
}
impl<'b, T> SsaOperand<'b, T> for Val<'b, T> {
    fn operand<U>(self, _: Val<'b, U>) -> SsaCow<'b, T> {
        SsaCow::Value(self)
    }
}
impl<'b, T> SsaOperand<'b, T> for TensorSsa<'b, T> {
    fn operand<U>(self, _: Val<'b, U>) -> SsaCow<'b, T> {
        SsaCow::Tensor(self)
    }
}
impl<'b, T> SsaOperand<'b, T> for &TensorSsa<'b, T> {
    fn operand<U>(self, _: Val<'b, U>) -> SsaCow<'b, T> {
        SsaCow::Tensor(self.clone())
    }
}

impl<'b, T: Element> TensorSsa<'b, T> {
    /// Returns a handle of the innermost open body of the tensor's kernel.
    pub(super) fn body(&self) -> Body<'b, 'b> {
        self.values[0].body()
    }

    /// Fills a tensor with one value: CuTe DSL's `full`. Use it as the start of a computation, or
    /// for the other side of [`select`](TensorSsa::select).
    ///
    /// It is a build error if the shape has symbols.
    #[doc(alias = "zeros_like")]
    #[track_caller]
    pub fn full(k: &Body<'b, '_>, shape: impl Into<IntTuple>, value: impl IntoVal<'b, T>) -> Self {
        let (shape, value) = (shape.into(), k.value(value));
        match shape.product().and_then(|size| size.to_static()) {
            Ok(size) => {
                let len = usize::try_from(size).unwrap_or(0).max(1);
                TensorSsa { shape, values: vec![value; len] }
            }
            Err(error) => {
                let operand = shape.to_string();
                k.report(TensorError { operation: "full", operand, kind: error.into() });
                TensorSsa { shape: 1.into(), values: vec![value] }
            }
        }
    }

    /// Returns the shape that the elements' coordinates have.
    pub fn shape(&self) -> &IntTuple {
        &self.shape
    }

    /// Returns the elements in coordinate order, for example to pass them to an operation on single
    /// values.
    pub fn values(&self) -> &[Val<'b, T>] {
        &self.values
    }

    /// Any element: errors and constants need a value of the build.
    fn first(&self) -> Option<Val<'b, T>> {
        self.values.first().copied()
    }

    #[track_caller]
    fn failed(&self, operation: &'static str, kind: TensorErrorKind) {
        if let Some(value) = self.first() {
            value.report(TensorError { operation, operand: self.to_string(), kind });
        }
    }

    /// Returns the element at a coordinate. The coordinate must consist of host values, because
    /// registers cannot be indexed at run time.
    #[track_caller]
    pub fn at(&self, coord: impl Into<DeviceCoord<'b>>) -> Val<'b, T> {
        let k = &self.body();
        match self.index(&coord.into()) {
            Ok(value) => value,
            Err(kind) => {
                self.failed("load", kind);
                k.constant(T::default())
            }
        }
    }

    fn index(&self, coord: &DeviceCoord<'b>) -> Result<Val<'b, T>, TensorErrorKind> {
        let Parts { host, device } = Parts::new(coord)?;
        if device.is_some() {
            return Err(TensorErrorKind::DeviceIndexOfRegisters);
        }
        let layout = Layout::compact(self.shape.clone());
        let index = layout.crd2idx(&host.to_ints("load")?)?.to_static()?;
        check_inside(coord, layout.as_ref())?;
        let value = usize::try_from(index).ok().and_then(|index| self.values.get(index));
        let len = self.values.len();
        value.copied().ok_or(TensorErrorKind::NoSuchElement { index, len })
    }

    /// Applies `f` to each element in coordinate order. Use it for a function that has no operator,
    /// for example `exp2` or an activation.
    pub fn map<U: Element>(&self, f: impl FnMut(Val<'b, T>) -> Val<'b, U>) -> TensorSsa<'b, U> {
        let values = self.values.iter().copied().map(f).collect();
        TensorSsa { shape: self.shape.clone(), values }
    }

    /// Converts the elements to another type like [`Val::cvt`]: CuTe DSL's `to`. Use it to compute
    /// in `f32` on `bf16` elements, and to round the results before a store.
    #[track_caller]
    pub fn convert<U: Number>(&self) -> TensorSsa<'b, U> {
        let mut values = Vec::with_capacity(self.values.len());
        for value in &self.values {
            values.push(value.cvt::<U>());
        }
        TensorSsa { shape: self.shape.clone(), values }
    }

    /// Repeats elements along modes of extent 1 and along missing trailing modes, until the tensor
    /// has `shape`: CuTe DSL's `broadcast_to`. It emits no operation.
    ///
    /// Inside a mode both shapes must have the same structure: `((1,2,1),1)` broadcasts to
    /// `((2,2,4),8)`, but `(2)` does not. It is a build error if modes are missing and the present
    /// ones also match other modes of `shape`, as `(4)` in `(4,4)`.
    /// [`reduce_keepdims`](TensorSsa::reduce_keepdims) and [`reshape`](TensorSsa::reshape) say
    /// which ones you mean.
    #[doc(alias = "tl.broadcast_to")]
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<IntTuple>) -> Self {
        let shape = shape.into();
        match self.broadcast(&shape) {
            Ok(tensor) => tensor,
            Err(kind) => {
                self.failed("broadcast_to", kind);
                self.clone()
            }
        }
    }

    fn broadcast(&self, shape: &IntTuple) -> Result<Self, TensorErrorKind> {
        if self.shape == *shape {
            return Ok(self.clone());
        }
        let mut values = Vec::new();
        for index in repeated_indices(&self.shape, shape)? {
            let value = usize::try_from(index).ok().and_then(|index| self.values.get(index));
            values.push(*value.ok_or(LayoutError::Overflow { operation: "broadcast" })?);
        }
        Ok(TensorSsa { shape: shape.clone(), values })
    }

    /// Applies `f` to each pair of elements, for an operation that has no operator, for example
    /// `min`. Either side is broadcast, as in operators.
    #[track_caller]
    pub fn zip<U: Element, V: Element>(
        &self,
        other: &TensorSsa<'b, U>,
        mut f: impl FnMut(Val<'b, T>, Val<'b, U>) -> Val<'b, V>,
    ) -> TensorSsa<'b, V> {
        let (a, b) = self.repeated_with(other);
        let pairs = a.values.iter().zip(&b.values);
        let values = pairs.map(|(x, y)| f(*x, *y)).collect();
        TensorSsa { shape: a.shape, values }
    }

    /// Broadcasts both tensors to their common shape.
    #[track_caller]
    fn repeated_with<U: Element>(
        &self,
        other: &TensorSsa<'b, U>,
    ) -> (TensorSsa<'b, T>, TensorSsa<'b, U>) {
        let both = common_shape(self.shape.as_ref(), other.shape.as_ref())
            .and_then(|shape| Ok((self.broadcast(&shape)?, other.broadcast(&shape)?)));
        match both {
            Ok(both) => both,
            Err(kind) => {
                self.failed("broadcast", kind);
                let values = other.values.iter().take(1).copied().collect();
                let other = TensorSsa { shape: 1.into(), values };
                let values = self.values.iter().take(1).copied().collect();
                (TensorSsa { shape: 1.into(), values }, other)
            }
        }
    }

    /// Returns the same elements in the same order, as a tensor of another shape of equal size:
    /// CuTe DSL's `reshape`. Use it to say which modes a [broadcast](TensorSsa::broadcast_to)
    /// repeats.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::shape;
    /// use tilewright::tensor::view::TensorSsa;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let square = TensorSsa::<f32>::full(k, shape!(4, 4), 1.0);
    ///     let row = square.reduce(0.0, (1, ..), |a, b| a + b);
    ///     assert_eq!(row.shape(), &shape!(4,));
    ///     assert_eq!((square * row.reshape(shape!(1, 4))).shape(), &shape!(4, 4));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("tl.reshape", "view"))]
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<IntTuple>) -> Self {
        let shape = shape.into();
        let size = shape.product().and_then(|size| size.to_static());
        if size.is_ok_and(|size| usize::try_from(size) == Ok(self.values.len())) {
            return TensorSsa { shape, values: self.values.clone() };
        }
        let (found, len) = (shape.to_string(), self.values.len());
        self.failed("reshape", TensorErrorKind::ReshapeSize { shape: found, len });
        self.clone()
    }

    /// Folds away the modes that `profile` does not keep with `..`. Each result starts at `init`
    /// and takes its elements in coordinate order with `f`: CuTe DSL's `reduce`. A profile that is
    /// a single number folds all elements into one.
    ///
    /// The shape loses the folded modes, as in a slice.
    /// [`reduce_keepdims`](TensorSsa::reduce_keepdims) keeps them with extent 1, so that the result
    /// works in operators with the tensor itself.
    #[doc(alias = "tl.reduce")]
    #[track_caller]
    pub fn reduce(
        &self,
        init: impl IntoVal<'b, T>,
        profile: impl Into<DeviceCoord<'b>>,
        f: impl FnMut(Val<'b, T>, Val<'b, T>) -> Val<'b, T>,
    ) -> Self {
        let k = &self.body();
        self.reduced_or_failed(k.value(init), &profile.into(), false, f)
    }

    /// Like [`reduce`](TensorSsa::reduce), but each folded leaf keeps extent 1: NumPy's `keepdims`.
    /// The result therefore broadcasts to the tensor in every operator.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::shape;
    /// use tilewright::tensor::view::TensorSsa;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     // The accumulators of a thread: pairs of columns, two rows, four repeats along the columns.
    ///     let sums = TensorSsa::<f32>::full(k, shape!((2, 2, 4), 1, 1), 1.0);
    ///     let rows = sums.reduce_keepdims(0.0, ((1, .., 1), 1, 1), |a, b| a.max(b));
    ///     assert_eq!(rows.shape(), &shape!((1, 2, 1), 1, 1));
    ///     assert_eq!((&sums - &rows).shape(), sums.shape());
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn reduce_keepdims(
        &self,
        init: impl IntoVal<'b, T>,
        profile: impl Into<DeviceCoord<'b>>,
        f: impl FnMut(Val<'b, T>, Val<'b, T>) -> Val<'b, T>,
    ) -> Self {
        let k = &self.body();
        self.reduced_or_failed(k.value(init), &profile.into(), true, f)
    }

    #[track_caller]
    fn reduced_or_failed(
        &self,
        init: Val<'b, T>,
        profile: &DeviceCoord<'b>,
        keepdims: bool,
        f: impl FnMut(Val<'b, T>, Val<'b, T>) -> Val<'b, T>,
    ) -> Self {
        match self.reduced(init, profile, keepdims, f) {
            Ok(tensor) => tensor,
            Err(error) => {
                self.failed("reduce", error.into());
                TensorSsa { shape: 1.into(), values: vec![init] }
            }
        }
    }

    fn reduced(
        &self,
        init: Val<'b, T>,
        profile: &DeviceCoord<'b>,
        keepdims: bool,
        mut f: impl FnMut(Val<'b, T>, Val<'b, T>) -> Val<'b, T>,
    ) -> Result<Self, LayoutError> {
        let profile = Parts::new(profile)?.host;
        let layout = Layout::compact(self.shape.clone());
        let kept = match profile.as_leaf() {
            Some(slot) => vec![*slot == Slot::All; self.shape.leaves().len()],
            None => kept(&profile, layout.shape())?,
        };
        // Maps an element's coordinate to the index of its result.
        let results = Layout::new(&self.shape, self.strides(&kept, &mut 1)?)?;
        let mut keep = kept.into_iter();
        let shape = match profile.as_leaf() {
            _ if keepdims => self.shape.map(|extent| {
                let is_kept = keep.next() == Some(true);
                Ok::<_, LayoutError>(if is_kept { extent.clone() } else { Int::ONE })
            })?,
            Some(Slot::At(_)) => 1.into(),
            Some(Slot::All) | None => layout.slice(&profile)?.shape().to_owned(),
        };
        let len = usize::try_from(shape.product()?.to_static()?).unwrap_or(0).max(1);
        let mut values = vec![init; len];
        for (index, value) in results.indices()?.zip(&self.values) {
            if let Some(sum) = usize::try_from(index).ok().and_then(|index| values.get_mut(index)) {
                *sum = f(*sum, *value);
            }
        }
        Ok(TensorSsa { shape, values })
    }

    /// Compact strides over the kept leaves, 0 for the others.
    fn strides(&self, kept: &[bool], step: &mut i64) -> Result<IntTuple, LayoutError> {
        let mut kept = kept.iter();
        self.shape.map(|extent| {
            if kept.next() != Some(&true) {
                return Ok(Int::ZERO);
            }
            let stride = *step;
            let overflow = LayoutError::Overflow { operation: "reduce" };
            *step = step.checked_mul(extent.to_static()?).ok_or(overflow)?;
            Ok(Int::from(stride))
        })
    }
}

/// Returns, for each element of shape `to`, the index of its source in a tensor of shape `from`.
#[inline]
fn repeated_indices(from: &IntTuple, to: &IntTuple) -> Result<Vec<i64>, TensorErrorKind> {
    if common_shape(from.as_ref(), to.as_ref())? != *to {
        let (left, right) = (from.to_string(), to.to_string());
        return Err(TensorErrorKind::NoCommonShape { left, right });
    }
    Ok(repeated(from.as_ref(), to.as_ref())?.indices()?.collect())
}

/// Returns for each leaf of `shape` whether the profile has `_` there.
#[inline]
fn kept(profile: &Coord, shape: IntTupleRef<'_>) -> Result<Vec<bool>, LayoutError> {
    #[inline]
    fn walk(
        profile: crate::layout::CoordRef<'_>,
        shape: IntTupleRef<'_>,
        out: &mut Vec<bool>,
    ) -> Result<(), LayoutError> {
        if let Some(slot) = profile.as_leaf() {
            let keep = *slot == Slot::All;
            out.extend(shape.leaves().iter().map(|_| keep));
            return Ok(());
        }
        if profile.rank() != shape.rank() || shape.is_leaf() {
            let (expected, found) = (shape.rank(), profile.rank());
            return Err(LayoutError::RankMismatch { expected, found });
        }
        profile.children().zip(shape.children()).try_for_each(|(p, s)| walk(p, s, out))
    }
    let mut out = Vec::new();
    walk(profile.as_ref(), shape, &mut out)?;
    Ok(out)
}

impl<'b> TensorSsa<'b, bool> {
    /// Picks `then_values` where the element is true, else `else_values`: CuTe DSL's `where`. Use
    /// it for example to replace masked elements by 0.
    #[doc(alias("where", "tl.where"))]
    #[track_caller]
    pub fn select<T: Element>(
        &self,
        then_values: &TensorSsa<'b, T>,
        else_values: &TensorSsa<'b, T>,
    ) -> TensorSsa<'b, T> {
        let shape = match common_shape(self.shape.as_ref(), then_values.shape.as_ref()) {
            Ok(shape) => shape,
            Err(kind) => {
                self.failed("select", kind);
                return then_values.clone();
            }
        };
        let conditions = self.broadcast_to(shape);
        let (a, _) = then_values.repeated_with(&conditions);
        let (a, b) = a.repeated_with(else_values);
        let mut values = Vec::with_capacity(a.values.len());
        let cases = conditions.broadcast_to(a.shape.clone()).values;
        for ((condition, x), y) in cases.into_iter().zip(a.values).zip(b.values) {
            values.push(condition.select(x, y));
        }
        TensorSsa { shape: a.shape, values }
    }
}

/// # Loads of all elements
///
/// Brings a tensor into registers for element-wise math.
impl<'b, E: Readable<'b>> Tensor<E> {
    /// Loads all elements: CuTe DSL's `load` of a whole tensor. Use it to bring a thread's
    /// partition into registers for element-wise math.
    ///
    /// It is a build error if the shape has symbols. Strides may have them.
    #[doc(alias = "tl.load")]
    #[track_caller]
    #[inline]
    pub fn load_all(&self) -> TensorSsa<'b, E::Elem> {
        let k = &self.body();
        let _call = k.call();
        let nothing =
            || TensorSsa { shape: 1.into(), values: vec![k.constant(E::Elem::default())] };
        if self.poisoned {
            return nothing();
        }
        let elements = match self.elements(k) {
            Ok(elements) => elements,
            Err(error) => {
                self.failed(k, "load", error);
                return nothing();
            }
        };
        let mut values = Vec::with_capacity(elements.len());
        for (engine, index) in elements {
            values.push(engine.at(index).read());
        }
        TensorSsa { shape: self.shape().to_owned(), values }
    }
}

/// # Stores to all elements
///
/// Writes the results of element-wise math.
impl<'b, E: Writable<'b>> Tensor<E> {
    /// Stores all elements: CuTe DSL's `store` of a whole tensor. Values are broadcast to the
    /// tensor's shape, as in operators. Use it to write the result of element-wise math to a
    /// partition.
    #[doc(alias = "tl.store")]
    #[track_caller]
    pub fn store_all(&self, values: &TensorSsa<'b, E::Elem>) {
        let k = &self.body();
        let _call = k.call();
        if self.poisoned {
            return;
        }
        let shape = self.shape().to_owned();
        let both = values.broadcast(&shape);
        match both.and_then(|values| Ok((values, self.elements(k)?))) {
            Ok((values, elements)) => {
                for ((engine, index), value) in elements.into_iter().zip(values.values) {
                    engine.at(index).write(value);
                }
            }
            Err(kind) => self.failed(k, "store", kind),
        }
    }
}

/// # Fragments like a tensor
///
/// Allocates registers for as many elements.
impl<'b, E: Readable<'b>> Tensor<E> {
    /// Allocates registers for as many elements, of type `U`, in the order of this tensor's
    /// strides: CuTe's `make_fragment_like`. Nothing is copied.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(GlobalMut<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
    ///     let x = Tensor::new(x, layout!(((2, 2), 4, 3) : ((32, 1), 12, 2)));
    ///     let fragment = x.fragment_like::<f32>();
    ///     assert_eq!(fragment.to_string(), "rmem<f32> o ((2,2),4,3):((1,2),12,4)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn fragment_like<U: Element>(&self) -> RegisterTensor<'b, U> {
        let k = &self.body();
        let layout = match self.layout.fragment_like() {
            Ok(layout) if !self.poisoned => layout,
            Ok(_) => Layout::trivial(),
            Err(error) => {
                self.failed(k, "make_fragment_like", error);
                Layout::trivial()
            }
        };
        RegisterTensor::registers(k, layout)
    }
}
