//! Access to the elements of [`TensorSsa`]: slices, bitcasts, powers, `any` and `all`, and gather
//! and scatter at indices that the kernel computes.

use super::operators::tensor;
use super::{SsaOperand, TensorSsa};
use crate::ir::builder::{AnyVector, DeviceCoord, IntoOperand};
use crate::ir::{Body, Element, Val, bf16, f16};
use crate::layout::{IntTuple, Layout, LayoutError};
use crate::tensor::error::TensorErrorKind;
use crate::tensor::view::coord::{Parts, check_inside};
use crate::tensor::view::engine::{Engine, Readable, Writable};
use crate::tensor::view::tensor::Tensor;

impl<'b, T: Element> TensorSsa<'b, T> {
    /// Returns the modes that the coordinate keeps with `..`: CuTe DSL's `tensor[crd]` with a
    /// `None`. The other entries must be host values. Use it to take one row of what a thread
    /// holds.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::shape;
    /// use tilewright::tensor::view::TensorSsa;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let x = TensorSsa::<f32>::full(k, shape!(8, (2, 4)), 1.0);
    ///     assert_eq!(x.slice((3, ..)).shape(), &shape!((2, 4),));
    ///     assert_eq!(x.slice((.., (1, ..))).shape(), &shape!(8, 4));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
        match self.sliced(&coord.into()) {
            Ok(part) => part,
            Err(kind) => {
                self.failed("slice", kind);
                self.clone()
            }
        }
    }

    fn sliced(&self, coord: &DeviceCoord<'b>) -> Result<Self, TensorErrorKind> {
        let Parts { host, device } = Parts::new(coord)?;
        if device.is_some() {
            return Err(TensorErrorKind::DeviceIndexOfRegisters);
        }
        let whole = Layout::compact(self.shape.clone());
        let (layout, offset) = whole.slice_and_offset(&host)?;
        check_inside(coord, whole.as_ref())?;
        let first = offset.to_int()?.to_static()?;
        let mut values = Vec::new();
        for index in layout.indices()? {
            let index = index.saturating_add(first);
            let value = usize::try_from(index).ok().and_then(|index| self.values.get(index));
            let len = self.values.len();
            values.push(*value.ok_or(TensorErrorKind::NoSuchElement { index, len })?);
        }
        Ok(TensorSsa { shape: layout.shape().to_owned(), values })
    }

    /// Reinterprets the elements' bits as elements of type `U`: CuTe DSL's `bitcast`. If both types
    /// have the same size, the shape stays; otherwise the result has one mode.
    ///
    /// It is a build error if the bits are not a whole count of new elements, or if a type is bool.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, f16};
    /// use tilewright::layout::shape;
    /// use tilewright::tensor::view::TensorSsa;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let x = TensorSsa::<f32>::full(k, shape!(2, 4), 1.0);
    ///     assert_eq!(x.bitcast::<i32>().shape(), &shape!(2, 4));
    ///     assert_eq!(x.bitcast::<f16>().shape(), &shape!(16,));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn bitcast<U: Element>(&self) -> TensorSsa<'b, U> {
        let k = &self.body();
        let _call = k.call();
        let (from, to, len) = (T::scalar(), U::scalar(), self.values.len());
        let group = (to.bits() / from.bits()).max(1) as usize;
        let values = if len.is_multiple_of(group) {
            let parts = self.values.chunks(group).map(|part| {
                let vector = AnyVector::pack(part).and_then(|vector| vector.cast(to))?;
                vector.values::<U>()
            });
            parts.collect::<Option<Vec<_>>>()
        } else {
            None
        };
        let Some(values) = values else {
            self.failed("bitcast", TensorErrorKind::BitcastSize { len, from, to });
            return TensorSsa { shape: 1.into(), values: vec![k.constant(U::default())] };
        };
        let values: Vec<Val<'b, U>> = values.into_iter().flatten().collect();
        let same = values.len() == len;
        let shape = if same { self.shape.clone() } else { one_mode(values.len()) };
        TensorSsa { shape, values }
    }
}

#[inline]
fn one_mode(len: usize) -> IntTuple {
    IntTuple::from((i64::try_from(len).unwrap_or(i64::MAX),))
}

impl<'b> TensorSsa<'b, bool> {
    /// Returns whether any element is true: CuTe DSL's `any_`. Use it to skip work that no element
    /// needs.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(GlobalMut<i32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let x = Tensor::new(x, layout!(8)).load_all();
    ///     k.assert(x.ge(0).all(), "no number is negative");
    ///     k.if_(x.eq(7).any(), |k| k.printf("there is a 7\n", ()));
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn any(&self) -> Val<'b, bool> {
        let k = &self.body();
        self.folded(k, false, |a, b| a | b)
    }

    /// Returns whether all elements are true: CuTe DSL's `all_`. Use it to take a fast path if
    /// every element allows it.
    #[track_caller]
    #[inline]
    pub fn all(&self) -> Val<'b, bool> {
        let k = &self.body();
        self.folded(k, true, |a, b| a & b)
    }

    /// Reports `message` to the host if an element is false, with the index of the first one in
    /// coordinate order: [`Body::assert`] for a whole fragment. The kernel continues.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid, RuntimeError};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let kernel = Kernel::<(Global<f32>,)>::build("check", Target::SM_80, |_, (x,)| {
    ///     let x = Tensor::new(x, layout!((2, 3))).load_all();
    ///     x.ge(0.0).assert("a distance is not negative");
    /// })?;
    /// let device = Device::sim()?;
    /// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, -5.0, -6.0])?;
    /// let error = device.load(&kernel)?.launch(Grid::cover(1, 1), (&x,)).unwrap_err();
    /// let RuntimeError::AssertFailed(failed) = error else { panic!("{error}") };
    /// assert_eq!((failed.total, failed.failures[0].element), (1, Some(4)));
    /// assert!(failed.to_string().contains("for element 4: a distance is not negative"));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[inline]
    pub fn assert(&self, message: &str) {
        let k = &self.body();
        let _call = k.call();
        k.assert_each(&self.values, message);
    }

    #[track_caller]
    fn folded(
        &self,
        k: &Body<'b, '_>,
        empty: bool,
        f: impl Fn(Val<'b, bool>, Val<'b, bool>) -> Val<'b, bool>,
    ) -> Val<'b, bool> {
        let _call = k.call();
        self.values.iter().copied().reduce(f).unwrap_or_else(|| k.constant(empty))
    }
}

macro_rules! powers {
    ($($ty:ty)*) => {$(
        impl<'b> TensorSsa<'b, $ty> {
            /// Raises each element to the power `exponent`, a tensor or a single value, within the
            /// error of
            #[doc = concat!("[`Val::pow`](Val::<", stringify!($ty), ">::pow): CuTe DSL's `**`.")]
            #[track_caller]
            pub fn pow(&self, exponent: impl SsaOperand<'b, $ty>) -> Self {
                let Some(any) = self.first() else { return self.clone() };
                let (a, b) = self.repeated_with(&tensor(exponent.operand(any)));
                let mut values = Vec::with_capacity(a.values.len());
                for (x, y) in a.values.iter().zip(b.values) {
                    values.push(x.pow(y));
                }
                TensorSsa { shape: a.shape, values }
            }
        }
    )*};
}
powers!(f32 f16 bf16);

/// # Gather
///
/// Loads elements at indices that the device computes.
impl<'b, E: Readable<'b>> Tensor<E> {
    /// Reads the elements at index values: `R(c) = T(c')`, where `c'` is `c` with the entry of
    /// `mode` replaced by `index(c)`. CuTe DSL's `gather`.
    ///
    /// An index outside the mode reads outside the tensor. It is a build error if the ranks differ,
    /// or if another mode of the indices is larger than the tensor's.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// // Reverses each row by indices, and back.
    /// type Signature = (Global<f32>, Global<i32>, GlobalMut<f32>);
    /// let kernel = Kernel::<Signature>::build("rows", Target::SM_80, |_, (x, index, y)| {
    ///     let matrix = layout!((2, 3) : (3, 1));
    ///     let index = Tensor::new(index, matrix.clone()).load_all();
    ///     let reversed = Tensor::new(x, matrix.clone()).gather(1, &index);
    ///     Tensor::new(y, matrix.clone()).scatter(0, &(&index * 0), &reversed.slice((0, ..)));
    ///     Tensor::new(y, matrix).store_all(&reversed);
    /// });
    /// assert!(kernel.is_err()); // the data of `scatter` have the shape of the indices
    /// let kernel = Kernel::<Signature>::build("rows", Target::SM_80, |_, (x, index, y)| {
    ///     let matrix = layout!((2, 3) : (3, 1));
    ///     let index = Tensor::new(index, matrix.clone()).load_all();
    ///     let gathered = Tensor::new(x, matrix.clone()).gather(1, &index);
    ///     Tensor::new(y, matrix).scatter(1, &index, &(gathered * 10.0));
    /// })?;
    /// let device = Device::sim()?;
    /// let x = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let index = device.upload(&[1, 2, 0, 2, 1, 0])?;
    /// let mut y = device.zeros::<f32>(6)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &index, &mut y))?;
    /// assert_eq!(y.to_vec()?, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "tl.gather")]
    #[track_caller]
    pub fn gather(&self, mode: usize, index: &TensorSsa<'b, i32>) -> TensorSsa<'b, E::Elem> {
        let k = &self.body();
        let _call = k.call();
        match self.chosen(k, mode, index) {
            Ok(engines) => {
                let mut values = Vec::with_capacity(engines.len());
                for engine in engines {
                    values.push(engine.read());
                }
                TensorSsa { shape: index.shape.clone(), values }
            }
            Err(kind) => {
                self.failed(k, "gather", kind);
                TensorSsa::full(k, index.shape.clone(), E::Elem::default())
            }
        }
    }
}

/// # Scatter
///
/// Stores elements at indices that the device computes.
impl<'b, E: Writable<'b>> Tensor<E> {
    /// Writes elements at index values: `T(c') = data(c)`, with `c'` as in
    /// [`gather`](Tensor::gather). CuTe DSL's `scatter`. If two values have the same index, the
    /// later one stays.
    ///
    /// Build errors are those of [`gather`](Tensor::gather), and data whose shape is not the
    /// indices'.
    #[track_caller]
    pub fn scatter(&self, mode: usize, index: &TensorSsa<'b, i32>, data: &TensorSsa<'b, E::Elem>)
    where
        Val<'b, E::Elem>: IntoOperand<'b, E::Elem>,
    {
        let k = &self.body();
        let _call = k.call();
        if index.shape != data.shape {
            let (left, right) = (index.shape.to_string(), data.shape.to_string());
            return self.failed(k, "scatter", TensorErrorKind::NoCommonShape { left, right });
        }
        match self.chosen(k, mode, index) {
            Ok(engines) => {
                for (engine, value) in engines.into_iter().zip(&data.values) {
                    engine.write(*value);
                }
            }
            Err(kind) => self.failed(k, "scatter", kind),
        }
    }
}

impl<'b, E: Engine<'b>> Tensor<E> {
    /// Returns the engine at each coordinate of `index`, with the entry of `mode` replaced by the
    /// index.
    #[track_caller]
    fn chosen(
        &self,
        k: &Body<'b, '_>,
        mode: usize,
        index: &TensorSsa<'b, i32>,
    ) -> Result<Vec<E>, TensorErrorKind> {
        let rank = self.rank();
        if mode >= rank {
            return Err(TensorErrorKind::NoSuchMode { mode, rank });
        }
        let sizes = |shape: &IntTuple| -> Result<Vec<i64>, LayoutError> {
            let layout = Layout::compact(shape.clone());
            layout.modes().map(|mode| mode.to_layout().size()?.to_static()).collect()
        };
        let extents = sizes(&index.shape)?;
        let bounds: Vec<Option<i64>> = self
            .layout
            .modes()
            .map(|mode| mode.to_layout().size().ok().and_then(|size| size.as_static()))
            .collect();
        let larger = |at: usize, extent: i64| bounds[at].is_some_and(|bound| extent > bound);
        let fits = extents.len() == rank
            && extents.iter().enumerate().all(|(at, extent)| at == mode || !larger(at, *extent));
        if !fits {
            let (index, tensor) = (index.shape.to_string(), self.shape().to_string());
            return Err(TensorErrorKind::GatherShapes { index, tensor, mode });
        }
        let mut coord = vec![0i64; rank];
        let mut all = Vec::with_capacity(index.values.len());
        for value in &index.values {
            let entries = coord.iter().enumerate().map(|(at, entry)| {
                if at == mode { DeviceCoord::Device(*value) } else { DeviceCoord::Host(*entry) }
            });
            let element = DeviceCoord::Tuple(entries.collect());
            // A tensor that is a single leaf takes a plain integer as coordinate.
            let element = if self.layout.as_ref().is_leaf() { (*value).into() } else { element };
            all.push(self.engine.advance(k, &self.layout, &element)?);
            for (entry, extent) in coord.iter_mut().zip(&extents) {
                *entry += 1;
                if *entry < *extent {
                    break;
                }
                *entry = 0;
            }
        }
        Ok(all)
    }
}
