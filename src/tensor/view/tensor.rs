//! [`Tensor`]: an engine (where the elements are) and a layout (how coordinates map to them). Here
//! are its constructors, and accesses to single elements; `views.rs` has slices and tiles.

use std::fmt;

use crate::ir::builder::{DeviceCoord, IntoOperand, Ty};
use crate::ir::types::{Scalar, Space};
use crate::ir::{
    Body, Element, Global, GlobalMut, Pointer as PointerType, Registers, Shared, Val, Vector, f16,
};
use crate::layout::{
    ComposedLayout, IntTuple, IntTupleRef, Layout, LayoutError, Names, Part, Swizzle,
};

use super::coord::check_inside;
use super::engine::{Coordinates, Engine, Readable, Rmem, Writable};
use super::names::TensorLayout;
use super::pointer::TensorPointer;
use crate::tensor::error::{TensorError, TensorErrorKind};

/// A tensor: `T(c) = *(p + L(c))` for a pointer `p` and a layout `L`. CuTe's `Tensor`.
///
/// The engine `E` is what the layout's indices start from, so it decides where the elements live:
///
/// | alias | engine | elements |
/// |---|---|---|
/// | [`GlobalTensor`], [`GlobalTensorMut`] | [`TensorPointer`] | in global memory |
/// | [`SharedTensor`] | [`TensorPointer`] | in the block's shared memory |
/// | [`RegisterTensor`] | [`Rmem`] | in the thread's registers: a CuTe fragment |
/// | [`CoordTensor`] | [`Coordinates`] | the coordinates themselves, for predicates |
///
/// A coordinate can mix host and device values; `..` in a slice is CuTe's `_`. What the host knows
/// is folded into addresses and costs nothing at run time.
///
/// The methods below are grouped by topic:
///
/// | topic | for example |
/// |---|---|
/// | construction | `new`, `shared`, `registers`, `identity` |
/// | layout, size and alignment | `layout`, `shape`, `size`, `alignment` |
/// | access to elements | `load`, `store`, `load_all`, `store_all`, `gather`, `fill` |
/// | slices, tiles and partitions | `slice`, `local_tile`, `local_partition`, `zipped_divide` |
/// | recasts | `recast` |
/// | modes and their names | `group_modes`, `select`, `flatten`, `named` |
/// | coordinates and predicates | `coord`, `within` |
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, tiler};
/// use tilewright::tensor::view::Tensor;
///
/// type Signature = (Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Signature>::build("transpose", Target::SM_80, |k, (x, y)| {
///     let x = Tensor::new(x, layout!((64, 32) : (32, 1)));
///     let y = Tensor::new(y, layout!((64, 32) : (1, 64)));
///     // A block moves a tile of 16 x 8; thread `t` moves row `t`.
///     let (block, thread) = (k.block_idx(), k.thread_idx().x);
///     let from = x.local_tile(&tiler!(16, 8), (block.x, block.y)).slice((thread, ..));
///     let to = y.local_tile(&tiler!(16, 8), (block.x, block.y)).slice((thread, ..));
///     assert_eq!(from.to_string(), "ptr<f32, gmem, align<4>> o (8):(1)");
///     for column in 0..8 {
///         to.store(column, from.load(column));
///     }
/// })?;
/// // The columns of the tile are in the addresses.
/// assert!(kernel.ptx().text().contains("+28]"));
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[derive(Clone)]
pub struct Tensor<E> {
    pub(in crate::tensor) engine: E,
    pub(in crate::tensor) layout: Layout,
    pub(in crate::tensor) names: Names,
    /// Placeholder for a tensor that could not be made; its error has been recorded.
    pub(in crate::tensor) poisoned: bool,
}

/// A tensor in global memory that the kernel only reads, for example an input matrix.
pub type GlobalTensor<'b, T> = Tensor<TensorPointer<'b, Global<T>>>;
/// A tensor in global memory that the kernel also writes, for example an output matrix.
pub type GlobalTensorMut<'b, T> = Tensor<TensorPointer<'b, GlobalMut<T>>>;
/// A tensor in the shared memory of the block. Use it for tiles that the block's threads exchange.
pub type SharedTensor<'b, T> = Tensor<TensorPointer<'b, Shared<T>>>;
/// A tensor in the thread's registers: a CuTe fragment, for example an MMA's accumulators. You can
/// index it with host values only.
pub type RegisterTensor<'b, T> = Tensor<Rmem<'b, T>>;
/// A tensor whose elements are coordinates, for example to find the matrix row and column of each
/// element that a thread holds. Made by [`CoordTensor::identity`].
pub type CoordTensor<'b> = Tensor<Coordinates<'b>>;

/// # Engine, layout and shape
///
/// Returns the parts of a tensor.
impl<E> Tensor<E> {
    pub(in crate::tensor) fn from_parts(engine: E, layout: Layout) -> Self {
        Tensor { engine, layout, names: Names::default(), poisoned: false }
    }

    /// Returns the engine: for a tensor in memory, the pointer to its first element. CuTe's `data`.
    /// Call it to pass the address to an instruction or to check its alignment.
    pub fn data(&self) -> &E {
        &self.engine
    }

    /// Returns the layout, which maps a coordinate to an index from [`data`](Tensor::data). It does
    /// not contain the swizzle, which belongs to the pointer.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the shape, for example to make an identity tensor or a fragment of equal shape.
    pub fn shape(&self) -> IntTupleRef<'_> {
        self.layout.shape()
    }

    /// Returns how many modes the tensor has: 2 for a matrix, 3 for a partition (V, M, N).
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }
}

/// # Construction from a pointer
///
/// Makes a tensor in memory that exists already.
impl<'b, P: PointerType> Tensor<TensorPointer<'b, P>> {
    /// Makes a tensor from a pointer and a layout: CuTe's `make_tensor`. A [`ComposedLayout`] with
    /// a swizzle makes a swizzled tensor, `T(c) = *(p + S(offset + L(c)))`; a
    /// [`NamedLayout`](crate::layout::NamedLayout) names the modes.
    ///
    /// Symbols in the layout must be symbols of the kernel's parameters. The device then computes
    /// indices with them, and their known divisors give known alignments. Tiles with static extents
    /// can be copied like any other tensor.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target};
    /// use tilewright::layout::{Layout, layout, tiler};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// // A matrix of rows, of any size and pitch.
    /// let rows = layout!((8, 8) : (8, 1)).mark_layout_dynamic(1)?;
    /// type Params = (Layout, GlobalMut<f32>);
    /// let options = KernelOptions::default().template(&rows);
    /// let kernel = Kernel::<Params>::build_with(options, "twice", Target::SM_80, |k, (rows, x)| {
    ///     let x = Tensor::new(x, rows);
    ///     assert_eq!(x.layout().to_string(), "(s0,s1):(d0,1)");
    ///     let tile = x.local_tile(&tiler!(2, 4), (k.block_idx().x, k.block_idx().y));
    ///     tile.store_all(&(tile.load_all() * 2.0));
    /// })?;
    /// let function = Device::sim()?.load(&kernel)?;
    /// for (m, n, pitch) in [(4, 4, 5), (2, 8, 8)] {
    ///     let mut x = function.device().upload(&vec![1f32; (m * pitch) as usize])?;
    ///     let grid = Grid::new([m as u32 / 2, n as u32 / 4, 1], [1, 1, 1]);
    ///     function.launch(grid, (&layout!((m, n) : (pitch, 1)), &mut x))?;
    ///     assert_eq!(x.to_vec()?.iter().sum::<f32>(), (m * pitch + m * n) as f32);
    /// }
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It is a build error if the layout maps to coordinates, or composes anything but a swizzle.
    #[doc(alias = "make_tensor")]
    #[track_caller]
    pub fn new(pointer: impl Into<TensorPointer<'b, P>>, layout: impl Into<TensorLayout>) -> Self {
        let (pointer, TensorLayout { layout, names }) = (pointer.into(), layout.into());
        let k = &pointer.body();
        match Self::from_composed(k, pointer, &layout) {
            Ok(tensor) => Tensor { names, ..tensor },
            Err(kind) => {
                let operand = format!("{pointer} o {layout}");
                k.report(TensorError { operation: "make_tensor", operand, kind });
                Tensor { poisoned: true, ..Tensor::from_parts(pointer, Layout::trivial()) }
            }
        }
    }

    #[track_caller]
    fn from_composed(
        k: &Body<'b, '_>,
        pointer: TensorPointer<'b, P>,
        composed: &ComposedLayout,
    ) -> Result<Self, TensorErrorKind> {
        let layout = composed.outer_layout()?.clone();
        for (_, stride) in layout.as_ref().leaves() {
            stride.to_int()?;
        }
        let offset = composed.offset().to_int()?;
        let engine = match composed.inner() {
            Part::Identity => pointer.add_int(k, offset)?,
            Part::Swizzle(swizzle) => pointer.swizzled(*swizzle, 0).add_int(k, offset)?,
            inner => return Err(TensorErrorKind::NotASwizzle { inner: inner.to_string() }),
        };
        Ok(Tensor::from_parts(engine, layout))
    }
}

/// # Swizzle
///
/// Tells how the pointer permutes indices.
impl<'b, P: PointerType> Tensor<TensorPointer<'b, P>> {
    /// Returns the swizzle that indices pass through, or `None` if elements are where the layout
    /// says. TMA and `ldmatrix` code needs it because a swizzled tile is not contiguous.
    pub fn swizzle(&self) -> Option<Swizzle> {
        self.engine.swizzle()
    }
}

/// # Construction in shared memory
///
/// Allocates the memory too.
impl<'b, T: Element> SharedTensor<'b, T> {
    /// Allocates a tensor in shared memory, aligned to 16 bytes. Its elements are uninitialised.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::ComposedLayout;
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let layout: ComposedLayout = "S<3,2,3> o 0 o (8,32):(32,1)".parse()?;
    ///     let tile = SharedTensor::<f32>::shared(k, layout);
    ///     assert_eq!(tile.to_string(), "ptr<f32, smem, align<16>, S<3,2,3>> o (8,32):(32,1)");
    ///     tile.store((k.thread_idx().x, 3), 1.0);
    ///     Ok::<(), tilewright::layout::LayoutError>(())
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias = "make_smem_tensor")]
    #[track_caller]
    pub fn shared(k: &Body<'b, '_>, layout: impl Into<TensorLayout>) -> Self {
        Self::shared_aligned(k, layout, 16)
    }

    /// Like [`shared`](Tensor::shared), with the first element aligned to `align_bytes`. TMA needs
    /// 128 bytes, or 1024 if the tile has the 128-byte swizzle.
    #[track_caller]
    pub fn shared_aligned(
        k: &Body<'b, '_>,
        layout: impl Into<TensorLayout>,
        align_bytes: u32,
    ) -> Self {
        let with_names = layout.into();
        let layout = &with_names.layout;
        let len = match shared_len(layout) {
            Ok(len) => len,
            Err(error) => {
                let operand = format!("shared memory o {layout}");
                let operation = "make_tensor";
                k.report(TensorError { operation, operand, kind: error.into() });
                1
            }
        };
        let pointer = TensorPointer::new(k.shared_aligned::<T>(len, align_bytes));
        Tensor::new(pointer.assume_aligned(align_bytes), with_names)
    }
}

/// Returns how many elements to allocate for a layout: up to its largest index, rounded up to the
/// blocks within which a swizzle moves indices.
#[inline]
pub(in crate::tensor) fn shared_len(layout: &ComposedLayout) -> Result<u32, LayoutError> {
    let offset = layout.offset().to_int()?.to_static()?;
    let overflow = LayoutError::Overflow { operation: "the size of shared memory" };
    let len = layout.cosize()?.to_static()?.checked_add(offset).ok_or(overflow.clone())?;
    let block = layout.swizzle().map_or(0, |swizzle| swizzle.y_mask() | swizzle.z_mask());
    let block =
        u64::try_from(block).unwrap_or(0).checked_add(1).and_then(u64::checked_next_power_of_two);
    let len = u64::try_from(len).ok().zip(block);
    let len = len
        .and_then(|(len, block)| len.checked_next_multiple_of(block.min(len.next_power_of_two())));
    len.and_then(|len| u32::try_from(len).ok()).ok_or(overflow)
}

/// # Construction in registers
///
/// Allocates a fragment.
impl<'b, T: Ty> RegisterTensor<'b, T> {
    /// Allocates a tensor in registers: CuTe's `make_rmem_tensor`. Write its elements before you
    /// read them.
    ///
    /// It is a build error if the layout has symbols.
    #[doc(alias("make_rmem_tensor", "make_fragment"))]
    #[track_caller]
    pub fn registers(k: &Body<'b, '_>, layout: impl Into<Layout>) -> Self {
        let layout = layout.into();
        let size = layout.cosize().and_then(|size| size.to_static());
        let (size, poisoned) = match size {
            Ok(size) => (u32::try_from(size).unwrap_or(u32::MAX), false),
            Err(error) => {
                let operand = format!("rmem<{}> o {layout}", T::ty());
                k.report(TensorError { operation: "make_tensor", operand, kind: error.into() });
                (1, true)
            }
        };
        let layout = if poisoned { Layout::trivial() } else { layout };
        Tensor { poisoned, ..Tensor::from_parts(Rmem::new(k.registers(size)), layout) }
    }
}

/// # Registers of a fragment
///
/// Accesses all registers at once.
impl<'b, T: Ty> RegisterTensor<'b, T> {
    /// Returns the registers in index order. Use it to pass a fragment's registers to an
    /// instruction that takes them one by one.
    pub fn variables(&self) -> Registers<'b, T> {
        self.engine.variables()
    }

    /// Writes `value` to all elements: CuTe's `fill`. On a slice of a fragment it writes only the
    /// slice. For example set accumulators to 0 before the main loop.
    #[doc(alias("cute::fill", "tl.full"))]
    #[track_caller]
    pub fn fill(&self, value: impl IntoOperand<'b, T>) {
        let k = &self.body();
        if !self.poisoned
            && let Err(error) = self.engine.fill(k, &self.layout, value)
        {
            self.failed(k, "fill", error);
        }
    }
}

/// # Packed accumulators
///
/// Unpacks and packs accumulators in `f16`, of which each register holds two.
impl<'b> RegisterTensor<'b, Vector<f16, 2>> {
    /// Unpacks the pairs into a new fragment of single elements, so that an epilogue can compute
    /// with them. Mode 0 becomes twice as long.
    #[track_caller]
    #[inline]
    pub fn elements(&self) -> RegisterTensor<'b, f16> {
        let k = &self.body();
        let (elements, indices) = match self.pairs() {
            Ok((shape, indices)) => (Layout::compact(shape), indices),
            Err(error) => {
                self.failed(k, "elements", error);
                return RegisterTensor::registers(k, Layout::trivial()).poison();
            }
        };
        let elements = RegisterTensor::registers(k, elements);
        if self.poisoned {
            return elements.poison();
        }
        for (pair, index) in (0..).zip(indices) {
            let lanes = self.variables().get(u32::try_from(index).unwrap_or(u32::MAX)).lanes();
            for (lane, value) in (0..).zip(lanes) {
                elements.variables().set(2 * pair + lane, value);
            }
        }
        elements
    }

    /// Packs single elements back into the pairs, in the order in which
    /// `elements` unpacked them. Call it after you have changed them.
    #[track_caller]
    #[inline]
    pub fn set_elements(&self, elements: &RegisterTensor<'b, f16>) {
        let k = &self.body();
        let _call = k.call();
        if self.poisoned || elements.poisoned {
            return;
        }
        let both = self
            .pairs()
            .and_then(|(_, pairs)| Ok((pairs, elements.layout().indices()?.collect::<Vec<_>>())));
        match both {
            Ok((pairs, elements_at)) if elements_at.len() == 2 * pairs.len() => {
                for (pair, two) in pairs.into_iter().zip(elements_at.chunks_exact(2)) {
                    let value = |i: usize| elements.engine.at(two[i]).read();
                    let value = Val::pack([value(0), value(1)]);
                    self.variables().set(u32::try_from(pair).unwrap_or(u32::MAX), value);
                }
            }
            Ok(_) => {
                let (source, destination) =
                    (elements.shape().to_string(), self.shape().to_string());
                self.failed(k, "set_elements", TensorErrorKind::CopySizes { source, destination });
            }
            Err(error) => self.failed(k, "set_elements", error),
        }
    }

    /// Returns the shape of the unpacked elements, and each pair's register.
    #[inline]
    fn pairs(&self) -> Result<(IntTuple, Vec<i64>), LayoutError> {
        let first = 2 * self.layout.get(&[0])?.size()?.to_static()?;
        let rest = self.layout.take(1, self.rank())?.shape().to_owned();
        Ok((rest.prepend(&first.into())?, self.layout.indices()?.collect()))
    }
}

/// # Construction of coordinates
///
/// Makes a tensor whose elements are their own coordinates.
impl<'b> CoordTensor<'b> {
    /// Makes the tensor whose element at a coordinate is that coordinate: CuTe's
    /// `make_identity_tensor`.
    ///
    /// Tile and slice it like the data, and its elements tell you where each data element is.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::{shape, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let coords = Tensor::identity(k, shape!(100, 50));
    ///     let tile = coords.local_tile(&tiler!(16, 8), (k.block_idx().x, 3));
    ///     assert_eq!(tile.to_string(), "(?,24) o (16,8):(1@0,1@1)");
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    #[doc(alias = "make_identity_tensor")]
    #[track_caller]
    pub fn identity(k: &Body<'b, '_>, shape: impl Into<IntTuple>) -> Self {
        let shape = shape.into();
        let engine = Coordinates::origin(k.context(), &shape);
        let tensor = Tensor::from_parts(engine, Layout::trivial());
        match Layout::identity(&shape) {
            Ok(layout) => Tensor { layout, ..tensor },
            Err(error) => {
                let operand = shape.to_string();
                let operation = "make_identity_tensor";
                k.report(TensorError { operation, operand, kind: error.into() });
                Tensor { poisoned: true, ..tensor }
            }
        }
    }
}

/// # Coordinates of elements
///
/// Tells where an element is in the original tensor.
impl<'b> CoordTensor<'b> {
    /// Returns the element at a coordinate of this view: the coordinate in the original tensor, as
    /// host or device values. Use it if [`within`](CoordTensor::within) is not enough, for example
    /// to store each element's row index or to compare it with a mask.
    #[track_caller]
    pub fn coord(&self, coord: impl Into<DeviceCoord<'b>>) -> DeviceCoord<'b> {
        let k = &self.body();
        match self.element(k, "load", &coord.into()) {
            Some(engine) => engine.value(),
            None => self.engine.value(),
        }
    }
}

impl<'b, E: Engine<'b>> Tensor<E> {
    /// Returns a handle of the innermost open body of the tensor's kernel.
    pub(in crate::tensor) fn body(&self) -> Body<'b, 'b> {
        self.engine.body()
    }

    /// Reports that an operation failed, unless its tensor is a placeholder already.
    #[track_caller]
    pub(in crate::tensor) fn failed(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        kind: impl Into<TensorErrorKind>,
    ) {
        if !self.poisoned {
            let (operand, kind) = (self.to_string(), kind.into());
            k.report(TensorError { operation, operand, kind });
        }
    }

    /// Returns the placeholder for a tensor that could not be made.
    #[inline]
    pub(in crate::tensor) fn poison(&self) -> Self {
        let tensor = Tensor::from_parts(self.engine.clone(), Layout::trivial());
        Tensor { poisoned: true, ..tensor }
    }

    /// Returns the engine at one coordinate. If there is none, reports the error and returns
    /// `None`. A host value outside its mode is an error.
    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn element(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        coord: &DeviceCoord<'b>,
    ) -> Option<E> {
        let engine = self.origin(k, operation, coord)?;
        match check_inside(coord, self.layout.as_ref()) {
            Ok(()) => Some(engine),
            Err(kind) => {
                self.failed(k, operation, kind);
                None
            }
        }
    }

    /// Like [`element`](Self::element), but the coordinate may be outside.
    #[track_caller]
    #[inline]
    pub(in crate::tensor) fn origin(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        coord: &DeviceCoord<'b>,
    ) -> Option<E> {
        if self.poisoned {
            return None;
        }
        if has_underscore(coord) {
            self.failed(k, operation, LayoutError::UnexpectedUnderscore { operation });
            return None;
        }
        match self.engine.advance(k, &self.layout, coord) {
            Ok(engine) => Some(engine),
            Err(kind) => {
                self.failed(k, operation, kind);
                None
            }
        }
    }
}

/// # Size
///
/// Counts the elements, for host loops.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Returns the element count. It is a build error if the count is symbolic. Use it as the bound
    /// of a host loop over linear coordinates.
    #[track_caller]
    pub fn size(&self) -> i64 {
        let k = &self.body();
        match self.layout.size().and_then(|size| size.to_static()) {
            Ok(size) => size,
            Err(error) => {
                self.failed(k, "size", error);
                1
            }
        }
    }
}

fn has_underscore(coord: &DeviceCoord<'_>) -> bool {
    match coord {
        DeviceCoord::All => true,
        DeviceCoord::Tuple(items) => items.iter().any(has_underscore),
        DeviceCoord::Host(_) | DeviceCoord::Device(_) => false,
    }
}

/// # Element type, memory and alignment
///
/// Returns what is known about the elements when the kernel is built.
impl<'b, E: Readable<'b>> Tensor<E> {
    /// Returns the element type. CuTe DSL's `element_type`. Generic code uses it to pick an
    /// instruction or to compute sizes in bytes.
    pub fn element_type(&self) -> Scalar {
        E::Elem::scalar()
    }

    /// Returns the elements' memory space, or `None` for registers. CuTe DSL's `memspace`. Use it
    /// in generic code that treats shared and global memory differently.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::ir::types::{Scalar, Space};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::{Tensor, TensorPointer};
    ///
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
    ///     let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), layout!((8, 4)));
    ///     assert_eq!((x.element_type(), x.memspace()), (Scalar::F32, Some(Space::Global)));
    ///     assert_eq!(x.slice((2, ..)).alignment(), Some(8));
    ///     let held = x.fragment_like::<f32>();
    ///     assert_eq!((held.element_type(), held.memspace()), (Scalar::F32, None));
    ///     assert_eq!(held.alignment(), None);
    /// })?;
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn memspace(&self) -> Option<Space> {
        self.engine.memory()
    }

    /// Returns the first element's known alignment in bytes, or `None` for registers, which have no
    /// addresses. CuTe DSL's `alignment` of the iterator. Check it to decide how wide vectors can
    /// be.
    pub fn alignment(&self) -> Option<u32> {
        self.engine.alignment_bytes()
    }
}

/// # Access to one element
///
/// Loads or stores the element at a coordinate.
impl<'b, E: Readable<'b>> Tensor<E> {
    /// Loads the element at a coordinate inside the shape. A single integer is a linear coordinate,
    /// as in CuTe: it counts through the modes, the first one fastest.
    ///
    /// It is a build error if a host value is outside its mode:
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let error = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
    ///     let x = Tensor::new(x, layout!((8, 4)));
    ///     x.load((k.thread_idx().x, 4));
    /// })
    /// .unwrap_err();
    /// assert!(error.to_string().ends_with("the coordinate 4 is outside mode 1, whose extent is 4"));
    /// ```
    #[doc(alias = "tl.load")]
    #[track_caller]
    pub fn load(&self, coord: impl Into<DeviceCoord<'b>>) -> Val<'b, E::Elem> {
        let k = &self.body();
        match self.element(k, "load", &coord.into()) {
            Some(engine) => engine.read(),
            None => k.constant(E::Elem::default()),
        }
    }

    /// Stores the element at a coordinate inside the shape. As for [`load`](Tensor::load), a host
    /// value outside its mode is a build error.
    #[doc(alias = "tl.store")]
    #[track_caller]
    pub fn store(&self, coord: impl Into<DeviceCoord<'b>>, value: impl IntoOperand<'b, E::Elem>)
    where
        E: Writable<'b>,
    {
        let k = &self.body();
        if let Some(engine) = self.element(k, "store", &coord.into()) {
            engine.write(value);
        }
    }
}

/// For example `ptr<f32, gmem, align<4>> o (8,4):(1,8)`, and ` of (m,k)` with names.
impl<E: fmt::Display> fmt::Display for Tensor<E> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} o {}{}", self.engine, self.layout, self.names)
    }
}

impl<E: fmt::Display> fmt::Debug for Tensor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
