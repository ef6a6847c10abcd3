//! Views of a tensor: slices, tiles, partitions, recasts and divides. They change layouts and
//! engines and move no data. A block finds its tile with [`local_tile`](Tensor::local_tile), a
//! thread its part with [`local_partition`](Tensor::local_partition).

use crate::ir::builder::DeviceCoord;
use crate::ir::{Body, Element, Val};
use crate::layout::{Arrange, Layout, LayoutBuilder, LayoutError, Names, Tiler, TilerRef};

use super::coord::{Parts, check_inside};
use super::engine::{Engine, Readable, Writable};
use super::names::kept_names;
use super::pointer::{Recast, TensorPointer};
use super::tensor::{RegisterTensor, Tensor};
use crate::sorting::sort;
use crate::tensor::error::TensorErrorKind;

/// # Slices
///
/// Fixes some entries of the coordinate and keeps the rest.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Keeps the modes that have `..` (CuTe's `_`) and fixes the others at the coordinate, so that
    /// `R(the entries of c at the ..) == T(c)`. It is a build error if a host value is outside its
    /// mode.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let x = Tensor::new(x, layout!((4, (2, 8), 3) : (2, (1, 8), 64)));
    ///     let j = k.thread_idx().x;
    ///     assert_eq!(x.slice((j, .., 1)).layout().to_string(), "((2,8)):((1,8))");
    ///     assert_eq!(x.slice((.., (1, ..), 0)).layout().to_string(), "(4,8):(2,8)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
        let k = &self.body();
        self.sliced(k, "slice", &coord.into())
    }

    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn sliced(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        coord: &DeviceCoord<'b>,
    ) -> Self {
        if self.poisoned {
            return self.poison();
        }
        let layout = Parts::new(coord).and_then(|parts| self.layout.slice(&parts.host));
        let engine = self.engine.advance(k, &self.layout, coord);
        let engine = engine.and_then(|engine| {
            check_inside(coord, self.layout.as_ref())?;
            Ok(engine)
        });
        match (layout, engine) {
            (Ok(layout), Ok(engine)) => {
                let names = kept_names(&self.names, coord);
                Tensor { names, ..Tensor::from_parts(engine, layout) }
            }
            (Err(error), _) => {
                self.failed(k, operation, error);
                self.poison()
            }
            (_, Err(kind)) => {
                self.failed(k, operation, kind);
                self.poison()
            }
        }
    }

    /// Moves the origin to a coordinate and keeps the layout: CuTe's `domain_offset`. The result's
    /// coordinate 0 is then the element at `coord`. Use it to start at a block's first row, or one
    /// element earlier for a halo.
    #[track_caller]
    pub fn domain_offset(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
        let k = &self.body();
        match self.origin(k, "domain_offset", &coord.into()) {
            Some(engine) => Tensor { engine, ..self.clone() },
            None => self.poison(),
        }
    }

    /// Sets the mode names, unless the operation failed.
    pub(in crate::tensor) fn with_names(mut self, names: Names) -> Self {
        if !self.poisoned {
            self.names = names;
        }
        self
    }

    /// Returns the tensor with another layout over the same indices.
    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn with_layout(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        layout: Result<Layout, LayoutError>,
    ) -> Self {
        if self.poisoned {
            return self.poison();
        }
        match layout {
            Ok(layout) => Tensor::from_parts(self.engine.clone(), layout),
            Err(error) => {
                self.failed(k, operation, error);
                self.poison()
            }
        }
    }
}

/// # Tiles and partitions
///
/// Returns the part on which a thread block or a thread works.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Divides the tensor by `tiler` and returns the tile at `coord`: CuTe's `local_tile`. The
    /// result has the tile's modes, followed by one mode of tiles for each `..` in `coord`. If
    /// `coord` has too few entries, the rest are `..`.
    ///
    /// The tile count rounds up. If the tiler does not divide an extent, its last tile reaches
    /// beyond the tensor: mask it with a predicate from
    /// [`within`](super::tensor::CoordTensor::within).
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(a, layout!((64, 32) : (32, 1)));
    ///     // All tiles along the second mode, in the row of tiles of the block.
    ///     let tiles = a.local_tile(&tiler!(16, 8), (k.block_idx().x, ..));
    ///     assert_eq!(tiles.layout().to_string(), "(16,8,4):(32,1,8)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: impl Into<DeviceCoord<'b>>,
    ) -> Self {
        let k = &self.body();
        let tiler = tiler.into();
        let tiled = self.with_layout(k, "local_tile", self.layout.zipped_divide(tiler));
        let ranks: Vec<usize> = tiled.layout.modes().map(|mode| mode.rank()).collect();
        let [tile, rest] = ranks.as_slice() else { return tiled.poison() };
        let coord = match coord.into() {
            DeviceCoord::Tuple(mut items) => {
                let missing = rest.saturating_sub(items.len());
                items.extend(std::iter::repeat_n(DeviceCoord::All, missing));
                DeviceCoord::Tuple(items)
            }
            coord => coord,
        };
        let names = match &coord {
            DeviceCoord::Tuple(items) => {
                let mut flat = vec![DeviceCoord::All; *tile];
                flat.extend(items.iter().cloned());
                let names = self.names.flat(tiler, *tile, tile + rest);
                kept_names(&names, &DeviceCoord::Tuple(flat))
            }
            // A single index or `..` for all tiles.
            _ => Names::default(),
        };
        let coord = DeviceCoord::Tuple(vec![underscores(*tile), coord]);
        tiled.sliced(k, "local_tile", &coord).with_names(names)
    }

    /// Returns the elements of thread `index` when the threads cover the tensor again and again:
    /// CuTe's `local_partition`. `threads` maps a position to the index of its thread. Threads are
    /// not distinguished along a mode of stride 0, where each takes the first position.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(a, layout!((16, 8) : (1, 16)));
    ///     let part = a.local_partition(&layout!((4, 8) : (1, 4)), k.thread_idx().x);
    ///     assert_eq!(part.layout().to_string(), "(4,1):(4,0)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn local_partition(&self, threads: &Layout, index: Val<'b, i32>) -> Self {
        let k = &self.body();
        let operation = "local_partition";
        let parts = match partition(&self.layout, threads) {
            Ok(layout) => self.with_layout(k, operation, Ok(layout)),
            Err(kind) => {
                self.failed(k, operation, kind);
                self.poison()
            }
        };
        let ranks: Vec<usize> = parts.layout.modes().map(|mode| mode.rank()).collect();
        let [_, rest] = ranks.as_slice() else { return parts.poison() };
        let coord = DeviceCoord::Tuple(vec![index.into(), underscores(*rest)]);
        parts.sliced(k, operation, &coord).with_names(self.names.clone())
    }

    /// Divides the tensor by `tiler` and returns the element at `coord` of every tile: CuTe's
    /// `outer_partition`. Its counterpart [`local_tile`](Tensor::local_tile) is `inner_partition`
    /// and returns all elements of one tile. If `coord` has too few entries, the rest are `..`.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(a, layout!((16, 8) : (1, 16)));
    ///     let t = k.thread_idx().x;
    ///     let part = a.outer_partition(&tiler!(4, 8), (t, 0));
    ///     assert_eq!(part.layout().to_string(), "(4,1):(4,0)");
    ///     let rows = a.outer_partition(&tiler!(4, 8), (t,));
    ///     assert_eq!(rows.layout().to_string(), "(8,4,1):(16,4,0)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[track_caller]
    pub fn outer_partition<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: impl Into<DeviceCoord<'b>>,
    ) -> Self {
        let k = &self.body();
        let operation = "outer_partition";
        let tiled = self.with_layout(k, operation, self.layout.zipped_divide(tiler.into()));
        let ranks: Vec<usize> = tiled.layout.modes().map(|mode| mode.rank()).collect();
        let [tile, rest] = ranks.as_slice() else { return tiled.poison() };
        let coord = match coord.into() {
            DeviceCoord::Tuple(mut items) => {
                let missing = tile.saturating_sub(items.len());
                items.extend(std::iter::repeat_n(DeviceCoord::All, missing));
                DeviceCoord::Tuple(items)
            }
            coord => coord,
        };
        let coord = DeviceCoord::Tuple(vec![coord, underscores(*rest)]);
        tiled.sliced(k, operation, &coord).with_names(Names::default())
    }
}

/// # Composition and coalescing
///
/// Reorders the elements, or merges modes.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Composes the layout with `right`, so that `R(i) == T(right(i))`: [`Layout::composition`].
    /// Use it to pick elements in an order that no slice or tile describes.
    #[doc(alias = "compose")]
    #[track_caller]
    pub fn composition<'t>(&self, right: impl Into<TilerRef<'t>>) -> Self {
        let k = &self.body();
        let right = right.into();
        let names = right.by_mode().map_or(Names::default(), |_| self.names.clone());
        self.with_layout(k, "composition", self.layout.composition(right)).with_names(names)
    }

    /// Merges modes while elements and their order stay the same: CuTe's `coalesce`. Use it before
    /// a vectorised access, because fewer modes give longer contiguous runs.
    #[track_caller]
    pub fn coalesce(&self) -> Self {
        let k = &self.body();
        self.with_layout(k, "coalesce", self.layout.coalesce())
    }
}

/// # Recasts in memory
///
/// Views the same memory as elements of another type.
impl<'b, P: Recast> Tensor<TensorPointer<'b, P>> {
    /// Views the same memory as elements of type `T`: CuTe's `recast`. Elements that merge into one
    /// must be contiguous in the layout, and the address must be aligned to the new size.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::{Tensor, TensorPointer};
    ///
    /// Kernel::<(GlobalMut<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
    ///     let x = Tensor::new(TensorPointer::new(x).assume_aligned(8), layout!((8, 4) : (1, 8)));
    ///     assert_eq!(x.recast::<f64>().to_string(), "ptr<f64, gmem, align<8>> o (4,4):(1,4)");
    ///     assert_eq!(x.recast::<i16>().to_string(), "ptr<i16, gmem, align<8>> o (16,4):(1,16)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias("recast_tensor", "recast_ptr"))]
    #[track_caller]
    pub fn recast<T: Element>(&self) -> Tensor<TensorPointer<'b, P::Of<T>>> {
        let k = &self.body();
        let (from, to) = (P::Elem::scalar().bits().into(), T::scalar().bits().into());
        let recast = self.with_layout(k, "recast", self.layout.recast_layout(from, to));
        if recast.poisoned {
            let engine = TensorPointer::new(P::cast(self.engine.resolve().0));
            return Tensor { poisoned: true, ..Tensor::from_parts(engine, Layout::trivial()) };
        }
        let tensor = Tensor::from_parts(self.engine.recast::<T>(), recast.layout);
        Tensor { names: self.names.clone(), ..tensor }
    }
}

/// # Recasts of registers
///
/// Copies, because a register keeps its type.
impl<'b, T: Element> RegisterTensor<'b, T> {
    /// Reinterprets the elements' bits as elements of type `U`, in new registers: CuTe's `recast`.
    /// Elements that merge into one must be contiguous in the layout. Bools cannot be recast.
    ///
    /// Unlike in memory, the result is a copy, because a register keeps its type: later writes to
    /// one fragment are not seen in the other.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::view::{RegisterTensor, Tensor};
    ///
    /// let kernel = Kernel::<(GlobalMut<u32>,)>::build("pairs", Target::SM_80, |k, (x,)| {
    ///     let halves = RegisterTensor::<u16>::registers(k, layout!((2, 3) : (1, 2)));
    ///     for i in 0..6 {
    ///         halves.store(i, i as u16 + 1);
    ///     }
    ///     let words = halves.recast::<u32>();
    ///     assert_eq!(words.to_string(), "rmem<u32> o (1,3):(1,1)");
    ///     Tensor::new(x, layout!((1, 3))).store_all(&words.load_all());
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.zeros::<u32>(3)?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [0x2_0001, 0x4_0003, 0x6_0005]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn recast<U: Element>(&self) -> RegisterTensor<'b, U> {
        let k = &self.body();
        let _call = k.call();
        let (from, to) = (T::scalar(), U::scalar());
        let recast = || -> Result<RegisterTensor<'b, U>, LayoutError> {
            let unsupported = || {
                let argument = format!("elements of type {from} as elements of type {to}");
                LayoutError::Unsupported { operation: "recast", argument }
            };
            let layout = self.layout.recast_layout(from.bits().into(), to.bits().into())?;
            // How many old and new elements share the same bits.
            let (old, new) = if from.bits() < to.bits() {
                (i64::from(to.bits() / from.bits()), 1)
            } else {
                (1, i64::from(from.bits() / to.bits()))
            };
            let fragment = RegisterTensor::<U>::registers(k, layout);
            let mut groups: Vec<i64> =
                fragment.layout.indices()?.map(|index| index.div_euclid(new)).collect();
            groups.sort_unstable();
            groups.dedup();
            let run = |group: i64, len: i64| (group * len..group * len + len).collect::<Vec<_>>();
            for group in groups {
                let vector = self.engine.read_vector(&run(group, old));
                let vector = vector.and_then(|vector| vector.cast(to)).ok_or_else(unsupported)?;
                fragment.engine.write_vector(&run(group, new), vector);
            }
            Ok(Tensor { names: self.names.clone(), ..fragment })
        };
        if self.poisoned {
            return RegisterTensor::registers(k, Layout::trivial()).poison();
        }
        match recast() {
            Ok(fragment) => fragment,
            Err(error) => {
                self.failed(k, "recast", error);
                RegisterTensor::registers(k, Layout::trivial()).poison()
            }
        }
    }
}

macro_rules! by_tiler {
    ($($(#[$doc:meta])* $name:ident, $arrange:expr;)*) => {
        /// # Division
        ///
        /// Divides by a tiler. The layout becomes the result of the [`Layout`] operation of the
        /// same name; the elements stay in place.
        impl<'b, E: Engine<'b>> Tensor<E> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Self {
                let k = &self.body();
                let tiler: TilerRef<'t> = tiler.into();
                let made = self.with_layout(k, stringify!($name), self.layout.$name(tiler));
                let pair = || self.layout.logical_divide(tiler);
                let names = self.names.tiled($arrange, tiler, &made.layout, pair);
                made.with_names(names)
            }
        )*}
    };
}

by_tiler! {
    /// Splits each mode into (tile, tiles): [`Layout::logical_divide`]. Use it if each mode should
    /// keep its place. A `(16,8)` tensor divided by `(4,2)` gets the shape `((4,4),(2,4))`.
    logical_divide, None;
    /// Groups all tile modes into one mode and all modes of tiles into another:
    /// [`Layout::zipped_divide`].
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (a,)| {
    ///     let a = Tensor::new(a, layout!((16, 8) : (1, 16)));
    ///     let layout = |t: Tensor<_>| t.layout().to_string();
    ///     let tile = tiler!(4, 2);
    ///     assert_eq!(layout(a.logical_divide(&tile)), "((4,4),(2,4)):((1,4),(16,32))");
    ///     assert_eq!(layout(a.zipped_divide(&tile)), "((4,2),(4,4)):((1,16),(4,32))");
    ///     assert_eq!(layout(a.tiled_divide(&tile)), "((4,2),4,4):((1,16),4,32)");
    ///     assert_eq!(layout(a.flat_divide(&tile)), "(4,2,4,4):(1,16,4,32)");
    ///     assert_eq!(layout(a.flat_divide(&tile).group_modes(0, 2)), "((4,2),4,4):((1,16),4,32)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    zipped_divide, Some(Arrange::Zipped);
    /// Groups the tile modes into one, followed by one mode of tiles per mode:
    /// [`Layout::tiled_divide`]. A `(16,8)` tensor divided by `(4,2)` gets the shape `((4,2),4,4)`.
    /// Use it to index tiles by row and column.
    tiled_divide, Some(Arrange::Tiled);
    /// Returns the tile modes, followed by one mode of tiles per mode: [`Layout::flat_divide`]. Use
    /// it if you want to index the tile modes separately. A `(16,8)` tensor divided by `(4,2)` gets
    /// the shape `(4,2,4,4)`.
    flat_divide, Some(Arrange::Flat);
}

/// Returns `(.., ..)`; like CuTe, a single mode gets a plain `..`.
fn underscores(rank: usize) -> DeviceCoord<'static> {
    match rank {
        1 => DeviceCoord::All,
        rank => DeviceCoord::Tuple(vec![DeviceCoord::All; rank]),
    }
}

/// Returns `layout` as (thread index, the thread's element).
#[inline]
pub(in crate::tensor) fn partition(
    layout: &Layout,
    threads: &Layout,
) -> Result<Layout, TensorErrorKind> {
    let tile = threads.shape().to_owned().product_each()?;
    let tiled = layout.zipped_divide(&Tiler::from(&tile))?;
    let (coords, rest) = (tiled.get(&[0])?, tiled.get(&[1])?);
    let coords = coords.composition(&thread_coords(threads)?)?;
    Ok(Layout::concat([&coords, &rest])?)
}

/// Maps a thread index to its position in the shape of `threads`: `threads(R(i)) == i` if some
/// thread has index `i`. Other indices get the position of a lower one.
#[inline]
fn thread_coords(threads: &Layout) -> Result<Layout, TensorErrorKind> {
    let mut leaves = Vec::new();
    let mut place = 1i64;
    for (extent, stride) in threads.as_ref().leaves() {
        let (extent, stride) = (extent.to_static()?, stride.to_int()?.to_static()?);
        if extent != 1 && stride != 0 {
            leaves.push((stride, extent, place));
        }
        let overflow = LayoutError::Overflow { operation: "the number of threads" };
        place = place.checked_mul(extent).ok_or(overflow)?;
    }
    sort(&mut leaves);
    let mut layout = LayoutBuilder::new();
    let mut next = 1;
    layout.open();
    for (stride, extent, place) in leaves {
        if stride < next || stride % next != 0 {
            let threads = threads.to_string();
            return Err(TensorErrorKind::Threads { threads, stride });
        }
        if stride != next {
            layout.push(stride / next, 0);
        }
        layout.push(extent, place);
        let overflow = LayoutError::Overflow { operation: "the number of threads" };
        next = stride.checked_mul(extent).ok_or(overflow)?;
    }
    layout.close();
    let layout = layout.finish()?;
    // A single thread gives the layout `()`, which composes with nothing.
    Ok(if layout.rank() == 0 { Layout::trivial() } else { layout })
}
