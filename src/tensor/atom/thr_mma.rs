//! [`ThrMma`]: a thread's share of a [`TiledMma`]. Use it inside the kernel to partition A, B and C
//! and to allocate the thread's fragments.

use crate::ir::builder::{Accumulator, DeviceCoord, Ty};
use crate::ir::{Body, Element};
use crate::layout::{IntTuple, Layout, LayoutError};

use super::tiled_mma::{Operand, TiledMma};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::engine::Engine;
use crate::tensor::view::tensor::{RegisterTensor, Tensor};

impl TiledMma {
    /// Returns a thread's share: CuTe's `get_slice`. `thread` is a host or a device value. Call it
    /// at the start of the kernel with the thread's index.
    #[doc(alias("get_slice", "get_thread_slice"))]
    pub fn slice<'m, 'b>(&'m self, thread: impl Into<DeviceCoord<'b>>) -> ThrMma<'m, 'b> {
        ThrMma { mma: self, thread: thread.into() }
    }

    /// Returns `matrix` as (thread index, atom value, atoms in each mode ..).
    #[inline]
    pub(in crate::tensor) fn parts(
        &self,
        operand: Operand,
        matrix: &Layout,
    ) -> Result<Layout, LayoutError> {
        let by_thread = self.thrfrg(operand, matrix)?;
        let by_index = self.by_index(operand, &by_thread)?;
        let (thread, values) = (by_index.get(&[0])?, by_index.get(&[1])?);
        let (value, atoms) = (values.get(&[0])?, values.get(&[1])?);
        let modes: Vec<Layout> =
            [thread, value].into_iter().chain(atoms.modes().map(|mode| mode.to_layout())).collect();
        Layout::concat(&modes)
    }

    /// Returns a thread's 32-bit words of an (MN, K) operand, with modes (V, MN, K).
    #[inline]
    pub(in crate::tensor) fn words(
        &self,
        operand: Operand,
        shape: &IntTuple,
    ) -> Result<Layout, LayoutError> {
        let parts = self.parts(operand, &Layout::compact(shape.clone()))?;
        let bits = self.atom().op().val_type_a().bits();
        let values = parts.get(&[1])?.size()?.to_static()?;
        let words = values * i64::from(bits) / 32;
        let sizes =
            [words, parts.get(&[2])?.size()?.to_static()?, parts.get(&[3])?.size()?.to_static()?];
        Ok(Layout::compact((sizes[0], sizes[1], sizes[2])))
    }
}

/// A thread's share of a [`TiledMma`]: CuTe's `ThrMMA`.
///
/// A is an (M, K) tensor, B is (N, K) and C is (M, N); further modes pass through. Partitions have
/// the modes (atom value, atoms in the first mode, atoms in the second, ..).
///
/// ```
/// use tilewright::ir::{Kernel, Target};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::tensor::atom::{MmaAtom, MmaOp, TiledMma, ValType};
/// use tilewright::tensor::view::SharedTensor;
///
/// let atom = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 })?;
/// let mma = TiledMma::new(atom, &layout!((16, 16, 1) : (16, 1, 0)), tiler!(_, _, _))?;
/// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     let thr = mma.slice(k.thread_idx().x);
///     let a = SharedTensor::<f32>::shared(k, layout!((64, 8) : (1, 65)));
///     // The rows of the thread are 16 apart.
///     assert_eq!(thr.partition_a(&a).layout().to_string(), "(1,4,8):(0,16,65)");
///     let accumulators = thr.fragment_c::<f32>(k, shape!(64, 64));
///     assert_eq!(accumulators.layout().to_string(), "(1,4,4):(0,1,4)");
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThrMma<'m, 'b> {
    mma: &'m TiledMma,
    thread: DeviceCoord<'b>,
}

impl<'b> ThrMma<'_, 'b> {
    /// Returns the elements of A, an (M, K) tensor, that the thread multiplies: (V, M, K). CuTe's
    /// `partition_A`.
    ///
    /// Partitions and fragments round up to whole instructions. For example, with a K of 20 an
    /// instruction of K 16 runs twice and reads 12 elements beyond each row. So make tiles in
    /// shared memory whole multiples, and fill their edges with 0.
    #[track_caller]
    pub fn partition_a<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.partition(k, "partition_A", Operand::A, tensor)
    }

    /// Returns the elements of B, an (N, K) tensor, that the thread multiplies: (V, N, K). CuTe's
    /// `partition_B`. It rounds up like [`partition_a`](ThrMma::partition_a).
    #[track_caller]
    pub fn partition_b<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.partition(k, "partition_B", Operand::B, tensor)
    }

    /// Returns the elements of C, an (M, N) tensor, that the thread accumulates: (V, M, N). CuTe's
    /// `partition_C`. Use it to find where a thread's results belong, for example to store them.
    #[track_caller]
    pub fn partition_c<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.partition(k, "partition_C", Operand::C, tensor)
    }

    #[track_caller]
    fn partition<E: Engine<'b>>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        operand: Operand,
        tensor: &Tensor<E>,
    ) -> Tensor<E> {
        if tensor.poisoned {
            return tensor.poison();
        }
        if let Err(kind) = self.check_whole_tiles(operand, tensor) {
            tensor.failed(k, operation, kind);
            return tensor.poison();
        }
        let parts = self.mma.parts(operand, &tensor.layout);
        let names = tensor.names.by_thread();
        let by_thread = tensor.with_layout(k, operation, parts).with_names(names);
        if by_thread.poisoned {
            return by_thread;
        }
        let mut coord = vec![self.thread.clone()];
        let modes = by_thread.rank().saturating_sub(1);
        coord.extend(std::iter::repeat_n(DeviceCoord::All, modes));
        by_thread.slice(DeviceCoord::Tuple(coord))
    }

    /// Checks that the tile divides a tensor whose allocation ends with it.
    fn check_whole_tiles<E: Engine<'b>>(
        &self,
        operand: Operand,
        tensor: &Tensor<E>,
    ) -> Result<(), TensorErrorKind> {
        if !tensor.engine.ends_with_tensor() {
            return Ok(());
        }
        for (mode, (of_mnk, extent)) in
            operand.modes().into_iter().zip(tensor.shape().children()).enumerate()
        {
            let tile = i64::from(self.mma.tile_size_mnk(of_mnk)?);
            let extent = extent.product()?.to_static()?;
            if extent % tile != 0 {
                return Err(TensorErrorKind::RaggedTile { mode, extent, tile });
            }
        }
        Ok(())
    }

    /// Allocates registers for the thread's elements of an (MN, K) operand A or B, as 32-bit words
    /// that hold neighbours along K: (V, MN, K). [`MatrixLoad`](crate::tensor::copy::MatrixLoad)
    /// fills them and [`TiledMma::gemm_sync`] takes them.
    #[track_caller]
    pub fn fragment_words(
        &self,
        k: &Body<'b, '_>,
        operand: Operand,
        shape: impl Into<IntTuple>,
    ) -> RegisterTensor<'b, u32> {
        let shape = shape.into();
        match self.mma.words(operand, &shape) {
            Ok(layout) => RegisterTensor::registers(k, layout),
            Err(error) => {
                let (operation, operand) = ("partition_fragment", shape.to_string());
                k.report(TensorError { operation, operand, kind: error.into() });
                RegisterTensor::registers(k, Layout::trivial()).poison()
            }
        }
    }

    /// Allocates registers for the thread's elements of an (M, K) operand A: (V, M, K). CuTe's
    /// `partition_fragment_A`. Use it if you load A's elements yourself, for example with
    /// [`copy`](crate::tensor::copy::copy()).
    #[doc(alias("partition_fragment_A", "make_fragment_A"))]
    #[track_caller]
    pub fn fragment_a<T: Element>(
        &self,
        k: &Body<'b, '_>,
        shape: impl Into<IntTuple>,
    ) -> RegisterTensor<'b, T> {
        self.fragment(k, "partition_fragment_A", Operand::A, &shape.into(), 1)
    }

    /// Allocates registers for the thread's elements of an (N, K) operand B: (V, N, K). CuTe's
    /// `partition_fragment_B`. Use it like [`fragment_a`](ThrMma::fragment_a).
    #[doc(alias("partition_fragment_B", "make_fragment_B"))]
    #[track_caller]
    pub fn fragment_b<T: Element>(
        &self,
        k: &Body<'b, '_>,
        shape: impl Into<IntTuple>,
    ) -> RegisterTensor<'b, T> {
        self.fragment(k, "partition_fragment_B", Operand::B, &shape.into(), 1)
    }

    /// Allocates registers for the thread's elements of an (M, N) operand C: (V, M, N). CuTe's
    /// `partition_fragment_C`. Use it for a C that the epilogue reads; for accumulators take
    /// [`fragment_accumulators`](ThrMma::fragment_accumulators).
    #[doc(alias("partition_fragment_C", "make_fragment_C"))]
    #[track_caller]
    pub fn fragment_c<T: Element>(
        &self,
        k: &Body<'b, '_>,
        shape: impl Into<IntTuple>,
    ) -> RegisterTensor<'b, T> {
        self.fragment(k, "partition_fragment_C", Operand::C, &shape.into(), 1)
    }

    /// Allocates the thread's accumulators of an (M, N) operand C in the form that tensor cores
    /// use: (V, M, N), where a `Vector<f16, 2>` holds two elements (`RegisterTensor::elements`
    /// unpacks them). For all other types this is [`fragment_c`](ThrMma::fragment_c).
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, Val, Vector, f16};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::tensor::atom::{MmaAtom, TiledMma};
    ///
    /// let atom: MmaAtom = "SM80_16x8x16_F16F16F16F16_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, _, _))?;
    /// Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let thr = mma.slice(k.thread_idx().x);
    ///     let accumulators = thr.fragment_accumulators::<Vector<f16, 2>>(k, shape!(64, 32));
    ///     assert_eq!(accumulators.to_string(), "rmem<f16x2> o (2,2,2):(1,2,4)");
    ///     accumulators.fill(Val::splat(k.constant(f16::from_f32(0.0))));
    ///     let (a, b) = (thr.fragment_a::<f16>(k, shape!(64, 16)), thr.fragment_b::<f16>(k, shape!(32, 16)));
    ///     a.fill(f16::from_f32(1.0));
    ///     b.fill(f16::from_f32(2.0));
    ///     mma.gemm_sync(&accumulators, &a, &b);
    ///     assert_eq!(accumulators.elements().to_string(), "rmem<f16> o (4,2,2):(1,4,8)");
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn fragment_accumulators<D: Accumulator>(
        &self,
        k: &Body<'b, '_>,
        shape: impl Into<IntTuple>,
    ) -> RegisterTensor<'b, D> {
        self.fragment(k, "partition_fragment_C", Operand::C, &shape.into(), D::LANES.into())
    }

    /// Allocates registers that hold `lanes` values each.
    #[track_caller]
    fn fragment<T: Ty>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        operand: Operand,
        shape: &IntTuple,
        lanes: i64,
    ) -> RegisterTensor<'b, T> {
        let layout = self.mma.parts(operand, &Layout::compact(shape.clone())).and_then(|parts| {
            let part = Layout::compact(parts.take(1, parts.rank())?.shape().to_owned());
            if lanes == 1 {
                return Ok(part);
            }
            let values = part.get(&[0])?.size()?.to_static()? / lanes;
            let sizes = part.take(1, part.rank())?.shape().to_owned();
            Ok(Layout::compact(sizes.prepend(&values.into())?))
        });
        match layout {
            Ok(layout) => RegisterTensor::registers(k, layout),
            Err(error) => {
                k.report(TensorError { operation, operand: shape.to_string(), kind: error.into() });
                RegisterTensor::registers(k, Layout::trivial()).poison()
            }
        }
    }
}
