//! [`ThrCopy`]: a thread's share of a [`TiledCopy`]. Use it inside the kernel to partition source
//! and destination and to issue the copies.

use crate::ir::builder::{AnyVector, DeviceCoord};
use crate::ir::op::{CpAsyncCache, MatrixCount, MatrixOrder};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Val, WARP};
use crate::layout::{Analysis, IntTuple};

use super::tiled_copy::{Side, TiledCopy};
use super::{CacheOp, CopyOp, Matrices};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::elements::Step;
use crate::tensor::view::engine::{ElementAddress, Engine, Readable, Writable};
use crate::tensor::view::predicate::IntoPredicate;
use crate::tensor::view::tensor::Tensor;

/// A thread's share of a [`TiledCopy`]: CuTe's `ThrCopy`.
///
/// Partition source and destination with it, then [`copy`](ThrCopy::copy) issues the atom's
/// instruction once per vector:
///
/// | atom | from | to | instructions |
/// |---|---|---|---|
/// | [`CopyOp::Universal`] | memory, registers | memory, registers | a load, a store, or both |
/// | [`CopyOp::CpAsync`] | global | shared | one `cp.async` |
/// | [`CopyOp::LdMatrix`] | shared | registers | one `ldmatrix` |
/// | [`CopyOp::StMatrix`] | registers | shared | one `stmatrix` |
/// | [`CopyOp::MovMatrix`] | registers | registers | one `movmatrix` |
/// | [`CopyOp::ShuffleTranspose`] | registers | registers | one `shfl.bfly` |
///
/// ```
/// use tilewright::ir::{Global, Kernel, Target, f16};
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::{layout, shape};
/// use tilewright::tensor::atom::{CacheOp, CopyAtom, CopyOp, Matrices, TiledCopy};
/// use tilewright::tensor::view::{RegisterTensor, SharedTensor, Tensor, TensorPointer};
///
/// // 32 threads bring 16 x 64 elements to shared memory, 8 of a row each time, and load them as 8 x 8 matrices.
/// let cp_async = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: false };
/// let bring = TiledCopy::new(CopyAtom::new(cp_async)?, Scalar::F16, &layout!((4, 8) : (8, 1)), &layout!((1, 8)))?;
/// let ldmatrix = CopyOp::LdMatrix { matrices: Matrices::X4, transposed: false };
/// // A register has two neighbours of a row of a matrix; four matrices are beside each other.
/// let tv = layout!(((4, 8), (2, 4)) : ((16, 1), (8, 64)));
/// let load = TiledCopy::from_tv(CopyAtom::new(ldmatrix)?, Scalar::F16, tv, shape!(8, 32))?;
/// let kernel = Kernel::<(Global<f16>,)>::build("k", Target::SM_80, |k, (x,)| {
///     let thread = k.thread_idx().x;
///     let (bring, load) = (bring.slice(thread), load.slice(thread));
///     let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), layout!((16, 64) : (64, 1)));
///     let tile = SharedTensor::<f16>::shared(k, layout!((16, 64) : (72, 1)));
///     bring.copy(&bring.partition_s(&x), &bring.partition_d(&tile));
///     k.cp_async_wait_all();
///     k.barrier();
///     let from = load.partition_s(&tile);
///     let held: RegisterTensor<'_, f16> = load.partition_d(&tile).fragment_like();
///     load.copy(&from, &held);
/// })?;
/// let count = |what: &str| kernel.ptx().text().matches(what).count();
/// assert_eq!(count("cp.async.cg.shared.global"), 16 * 64 / 32 / 8);
/// assert_eq!(count("ldmatrix.sync.aligned.m8n8.x4"), 16 * 64 / 256);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ThrCopy<'c, 'b> {
    pub(in crate::tensor) copy: &'c TiledCopy,
    pub(in crate::tensor) thread: DeviceCoord<'b>,
}

/// A step with its predicate; `None` is always true.
type CheckedStep<'b, S, D> = (Step<S, D>, Option<Val<'b, bool>>);

impl<'b> ThrCopy<'_, 'b> {
    /// Returns the source elements that the thread copies, with modes (value, tile in each mode
    /// ..): CuTe's `partition_S`.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::atom::{CopyAtom, CopyOp, TiledCopy};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let atom = CopyAtom::new(CopyOp::Universal { bits: 32 })?;
    /// let copy = TiledCopy::new(atom, Scalar::F32, &layout!((8, 4) : (4, 1)), &layout!((1, 4)))?;
    /// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(a, layout!((64, 32) : (32, 1)));
    ///     let part = copy.slice(k.thread_idx().x).partition_s(&a);
    ///     assert_eq!(part.layout().to_string(), "((1,4),8,2):((0,1),256,16)");
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "partition_S")]
    #[track_caller]
    pub fn partition_s<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.partition(k, "partition_S", tensor, Side::Source)
    }

    /// Returns the destination elements that the thread copies: CuTe's `partition_D`. See
    /// [`partition_s`](ThrCopy::partition_s). Use both on the same tile, so that source and
    /// destination match.
    #[doc(alias = "partition_D")]
    #[track_caller]
    pub fn partition_d<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.partition(k, "partition_D", tensor, Side::Destination)
    }

    #[track_caller]
    fn partition<E: Engine<'b>>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        tensor: &Tensor<E>,
        side: Side,
    ) -> Tensor<E> {
        if tensor.poisoned {
            return tensor.poison();
        }
        let whole = self.copy.period().map_err(TensorErrorKind::from);
        let whole = whole.and_then(|period| check_whole_tiles(tensor, &period));
        match whole.and_then(|()| self.copy.tidfrg(&tensor.layout, side)) {
            Ok(layout) => {
                let modes = layout.rank().saturating_sub(1);
                let names = tensor.names.by_thread();
                let by_thread = tensor.with_layout(k, operation, Ok(layout)).with_names(names);
                let mut coord = vec![self.thread.clone()];
                coord.extend(std::iter::repeat_n(DeviceCoord::All, modes));
                by_thread.slice(DeviceCoord::Tuple(coord))
            }
            Err(kind) => {
                tensor.failed(k, operation, kind);
                tensor.poison()
            }
        }
    }

    /// Rearranges a fragment of another partition, for example of a
    /// [`ThrMma`](crate::tensor::atom::ThrMma), into the modes of this copy's source: CuTe's
    /// `retile_S`. Use it for example to store accumulators with `stmatrix`.
    #[doc(alias = "retile")]
    #[track_caller]
    pub fn retile_s<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.retile(k, "retile_S", tensor)
    }

    /// Rearranges a fragment of another partition, for example of a
    /// [`ThrMma`](crate::tensor::atom::ThrMma), into the modes of this copy's destination: CuTe's
    /// `retile_D`. The fragment must have the modes (value, ..) of the operand that the copy was
    /// made for ([`TiledCopy::of_operand`]).
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target, f16};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::tensor::atom::{
    ///     CopyAtom, CopyOp, Matrices, MmaAtom, Operand, TiledCopy, TiledMma,
    /// };
    /// use tilewright::tensor::view::SharedTensor;
    ///
    /// let atom: MmaAtom = "SM80_16x8x16_F32F16F16F32_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, 32, _))?;
    /// let ldmatrix = CopyAtom::new(CopyOp::LdMatrix { matrices: Matrices::X4, transposed: false })?;
    /// let load = TiledCopy::of_operand(ldmatrix, Scalar::F16, &mma, Operand::B)?;
    /// let kernel = Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let tile = SharedTensor::<f16>::shared(k, layout!((64, 32) : (40, 1)));
    ///     let thread = k.thread_idx().x;
    ///     let (thr, load) = (mma.slice(thread), load.slice(thread));
    ///     let b = thr.fragment_b::<f16>(k, shape!(64, 32));
    ///     assert_eq!(b.layout().to_string(), "((2,2),4,2):((1,2),4,16)");
    ///     let to = load.retile_d(&b);
    ///     assert_eq!(to.layout().to_string(), "((8,1),2,2):((1,0),8,16)");
    ///     load.copy(&load.partition_s(&tile), &to);
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("ldmatrix.sync.aligned.m8n8.x4").count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn retile_d<E: Engine<'b>>(&self, tensor: &Tensor<E>) -> Tensor<E> {
        let k = &tensor.body();
        self.retile(k, "retile_D", tensor)
    }

    #[track_caller]
    fn retile<E: Engine<'b>>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        tensor: &Tensor<E>,
    ) -> Tensor<E> {
        if tensor.poisoned {
            return tensor.poison();
        }
        match self.copy.retiled(&tensor.layout) {
            Ok(layout) => {
                tensor.with_layout(k, operation, Ok(layout)).with_names(tensor.names.clone())
            }
            Err(kind) => {
                tensor.failed(k, operation, kind);
                tensor.poison()
            }
        }
    }

    /// Copies a partitioned source to a partitioned destination with the atom's instruction. Make
    /// them with [`partition_s`](ThrCopy::partition_s), [`partition_d`](ThrCopy::partition_d), or
    /// [`retile_d`](ThrCopy::retile_d) and its siblings. It is a build error if the atom's vectors
    /// are not contiguous in both tensors, or not known to be aligned.
    ///
    /// `cp.async` copies only start here: commit their group and wait for it before the barrier.
    #[track_caller]
    pub fn copy<S, D>(&self, source: &Tensor<S>, destination: &Tensor<D>)
    where
        S: Readable<'b>,
        D: Writable<'b, Elem = S::Elem>,
    {
        let k = &destination.body();
        let Some(steps) = self.checked(k, "copy", source, destination) else { return };
        let op = *self.copy.atom().op();
        for step in &steps {
            execute(op, step, None);
        }
    }

    /// Like [`copy`](ThrCopy::copy), for the vectors whose predicate is true: CuTe's `copy_if`.
    /// Other vectors are neither read nor written, but a `cp.async` with `zero_fill` sets them to
    /// zero without reading.
    ///
    /// A vector is copied as a whole, so it needs one bool. The predicate has the partition's shape
    /// with equal values inside each vector, or one element per vector, or, as in CuTe, one per
    /// coordinate of the modes after the first. `ldmatrix`, `stmatrix` and `movmatrix` take no
    /// predicate.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{layout, shape};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::atom::{CacheOp, CopyAtom, CopyOp, TiledCopy};
    /// use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer};
    ///
    /// // Eight threads: a row of 16 each. Rows below `rows` exist.
    /// let op = CopyOp::CpAsync { bits: 128, cache: CacheOp::Global, zero_fill: true };
    /// let copy = TiledCopy::new(CopyAtom::new(op)?, Scalar::F32, &layout!((8, 1)), &layout!((1, 4)))?;
    /// type Params = (Global<f32>, GlobalMut<f32>, i32);
    /// let kernel = Kernel::<Params>::build("rows", Target::SM_80, |k, (x, y, rows)| {
    ///     let thr = copy.slice(k.thread_idx().x);
    ///     let x = Tensor::new(TensorPointer::new(x).assume_aligned(16), layout!((8, 16) : (16, 1)));
    ///     let tile = SharedTensor::<f32>::shared(k, layout!((8, 16) : (20, 1)));
    ///     let inside = thr.partition_s(&Tensor::identity(k, shape!(8, 16))).within((rows, ..));
    ///     thr.copy_if(&inside, &thr.partition_s(&x), &thr.partition_d(&tile));
    ///     k.cp_async_wait_all();
    ///     k.barrier();
    ///     y.store(k.thread_idx().x, tile.load((k.thread_idx().x, 15)));
    /// })?;
    /// assert_eq!(kernel.ptx().text().matches("cp.async.cg.shared.global").count(), 4);
    /// let device = Device::sim()?;
    /// // The other rows are not there at all.
    /// let (x, mut y) = (device.upload(&[7.0; 3 * 16])?, device.upload(&[1.0; 8])?);
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [8, 1, 1]), (&x, &mut y, 3))?;
    /// assert_eq!(y.to_vec()?, [7.0, 7.0, 7.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn copy_if<S, D>(
        &self,
        predicate: &impl IntoPredicate<'b>,
        source: &Tensor<S>,
        destination: &Tensor<D>,
    ) where
        S: Readable<'b>,
        D: Writable<'b, Elem = S::Elem>,
    {
        let k = &mut destination.body();
        let steps = self.checked_if(k, "copy_if", predicate, source, destination);
        let op = *self.copy.atom().op();
        for (step, inside) in steps.into_iter().flatten() {
            match (op, inside) {
                (_, None) | (CopyOp::CpAsync { zero_fill: true, .. }, _) => {
                    execute(op, &step, inside);
                }
                (_, Some(inside)) => k.if_(inside, |_| execute(op, &step, None)),
            }
        }
    }

    /// Like [`copy_if`](ThrCopy::copy_if), but writes zeros for vectors whose predicate is false,
    /// without reading them. A `cp.async` atom must have `zero_fill`. Use it for tiles that reach
    /// beyond their tensor.
    #[track_caller]
    pub fn copy_zfill<S, D>(
        &self,
        predicate: &impl IntoPredicate<'b>,
        source: &Tensor<S>,
        destination: &Tensor<D>,
    ) where
        S: Readable<'b>,
        D: Writable<'b, Elem = S::Elem>,
    {
        let k = &mut destination.body();
        let steps = self.checked_if(k, "copy_zfill", predicate, source, destination);
        let Some(steps) = steps else { return };
        let op = *self.copy.atom().op();
        let always = steps.iter().all(|(_, inside)| inside.is_none());
        if !always && matches!(op, CopyOp::CpAsync { zero_fill: false, .. }) {
            let kind = TensorErrorKind::NoZeroFill { instruction: op.instruction() };
            return self.failed(k, "copy_zfill", kind);
        }
        for (step, inside) in steps {
            match (op, inside) {
                (_, None) | (CopyOp::CpAsync { .. }, _) => execute(op, &step, inside),
                (_, Some(inside)) => {
                    let Step { from, to } = &step;
                    let held = k.registers::<S::Elem>(from.indices.len() as u32);
                    held.fill(S::Elem::default());
                    k.if_(inside, |_| {
                        let values = from.engine.read_vector(&from.indices);
                        let values = values.and_then(|vector| vector.values::<S::Elem>());
                        for (i, value) in (0..).zip(values.unwrap_or_default()) {
                            held.set(i, value);
                        }
                    });
                    let mut values = Vec::with_capacity(from.indices.len());
                    for i in 0..held.len() {
                        values.push(held.get(i));
                    }
                    if let Some(vector) = crate::ir::builder::AnyVector::pack(&values) {
                        to.engine.write_vector(&to.indices, vector);
                    }
                }
            }
        }
    }

    #[track_caller]
    #[inline]
    fn failed(&self, k: &Body<'b, '_>, operation: &'static str, kind: TensorErrorKind) {
        k.report(TensorError { operation, operand: self.copy.to_string(), kind });
    }

    /// Like [`checked`](ThrCopy::checked), with a predicate per step.
    #[track_caller]
    fn checked_if<S: Readable<'b>, D: Writable<'b>>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        predicate: &impl IntoPredicate<'b>,
        source: &Tensor<S>,
        destination: &Tensor<D>,
    ) -> Option<Vec<CheckedStep<'b, S, D>>> {
        let steps = self.checked(k, operation, source, destination)?;
        let predicate = predicate.predicate(k);
        let found = || {
            let op = self.copy.atom().op();
            let vector = steps.first().map_or(1, |step| step.from.indices.len());
            let parts = [source.shape(), destination.shape()];
            let inside = predicate.of_vectors([steps.len(), vector], parts)?;
            match op {
                CopyOp::Universal { .. }
                | CopyOp::CpAsync { .. }
                | CopyOp::Tma { .. }
                | CopyOp::Bulk { .. } => Ok(inside),
                CopyOp::LdMatrix { .. }
                | CopyOp::StMatrix { .. }
                | CopyOp::MovMatrix
                | CopyOp::ShuffleTranspose { .. } => {
                    let none = TensorErrorKind::NoPredicate { instruction: op.instruction() };
                    if predicate.is_always() { Ok(inside) } else { Err(none) }
                }
            }
        };
        match found() {
            Ok(inside) => Some(steps.into_iter().zip(inside).collect()),
            Err(kind) => {
                self.failed(k, operation, kind);
                None
            }
        }
    }

    /// Returns the atom's executions; on failure reports the error and returns `None`.
    #[track_caller]
    fn checked<S: Readable<'b>, D: Writable<'b>>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        source: &Tensor<S>,
        destination: &Tensor<D>,
    ) -> Option<Vec<Step<S, D>>> {
        if source.poisoned || destination.poisoned {
            return None;
        }
        match self.steps(k, source, destination) {
            Ok(steps) => Some(steps),
            Err(kind) => {
                self.failed(k, operation, kind);
                None
            }
        }
    }

    #[track_caller]
    fn steps<S: Readable<'b>, D: Writable<'b>>(
        &self,
        k: &Body<'b, '_>,
        source: &Tensor<S>,
        destination: &Tensor<D>,
    ) -> Result<Vec<Step<S, D>>, TensorErrorKind> {
        check_spaces(self.copy.atom().op(), source, destination)?;
        let (found, expected) = (S::Elem::scalar(), self.copy.dtype());
        if found.bits() != expected.bits() {
            let expected = expected.to_string();
            return Err(TensorErrorKind::ElementType { operand: "the source", found, expected });
        }
        let from = self.copy.vector(Side::Source)?;
        check_vector(source, from)?;
        let to = self.copy.vector(Side::Destination)?;
        check_vector(destination, to)?;
        if found == Scalar::Bool && (from > 1 || to > 1) {
            let expected = "a numeric type for vector copies".to_owned();
            return Err(TensorErrorKind::ElementType { operand: "the source", found, expected });
        }
        let groups = |vector: i64| usize::try_from(vector).unwrap_or(1);
        let froms = source.groups(k, &source.layout, groups(from))?;
        let tos = destination.groups(k, &destination.layout, groups(to))?;
        match (froms.len(), tos.len()) {
            (a, b) if a == b => {
                let both = froms.into_iter().zip(tos);
                Ok(both.map(|(from, to)| Step { from, to }).collect())
            }
            _ if from == to => {
                let source = format!("{}{}", source.shape(), source.names);
                let destination = format!("{}{}", destination.shape(), destination.names);
                Err(TensorErrorKind::CopySizes { source, destination })
            }
            (source, destination) => Err(TensorErrorKind::CopyCounts { source, destination }),
        }
    }
}

/// Executes the atom once. If `inside` is given and false, the destination becomes zero; only
/// `cp.async` takes it.
#[track_caller]
fn execute<'b, S, D>(op: CopyOp, step: &Step<S, D>, inside: Option<Val<'b, bool>>)
where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let Step { from, to } = step;
    let (source, destination) = (&from.engine, &to.engine);
    let k = &destination.body();
    let _call = k.call();
    match op {
        CopyOp::Universal { .. } => step.move_vector(),
        CopyOp::CpAsync { bits, cache, .. } => {
            let addresses = (source.address(from.first()), destination.address(to.first()));
            let (ElementAddress::Global(from, from_at), ElementAddress::Shared(to, to_at)) =
                addresses
            else {
                return;
            };
            let cache = match cache {
                CacheOp::Always => CpAsyncCache::Ca,
                CacheOp::Global => CpAsyncCache::Cg,
            };
            let (to, from, bytes) = (to.offset(to_at), from.offset(from_at), bits / 8);
            match inside {
                None => k.cp_async(to, from, cache, bytes),
                Some(inside) => {
                    let read = inside.select(bytes, k.constant(0u32));
                    k.cp_async_zfill(to, from, cache, bytes, read);
                }
            }
        }
        CopyOp::LdMatrix { matrices, transposed } => {
            let ElementAddress::Shared(from, at) = source.address(from.first()) else { return };
            let (count, order) = matrix(matrices, transposed);
            let vector = match S::Elem::scalar().bits() {
                16 => from.ldmatrix_any(at, count, order),
                _ => {
                    // Row offsets are multiples of 16 bytes.
                    let from = from.offset(at).ptr_cast::<u16>();
                    from.ldmatrix_any(0, count, order)
                }
            };
            destination.write_vector(&to.indices, vector);
        }
        CopyOp::StMatrix { matrices, transposed } => {
            let ElementAddress::Shared(to, at) = destination.address(to.first()) else { return };
            let (_, order) = matrix(matrices, transposed);
            let Some(vector) = source.read_vector(&from.indices) else { return };
            match S::Elem::scalar().bits() {
                16 => to.stmatrix(at, vector, order),
                _ => {
                    let Some(vector) = vector.cast(Scalar::U16) else { return };
                    to.offset(at).ptr_cast::<u16>().stmatrix(0, vector, order);
                }
            }
        }
        CopyOp::MovMatrix => {
            // `movmatrix` works on 16-bit pairs, whatever the element type.
            let pair = source.read_vector(&from.indices).and_then(|pair| {
                if pair.elem().bits() == 16 { Some(pair) } else { pair.cast(Scalar::U16) }
            });
            if let Some(pair) = pair {
                destination.write_vector(&to.indices, pair.movmatrix());
            }
        }
        CopyOp::ShuffleTranspose { apart } => {
            let pair = source.read_vector(&from.indices).and_then(|pair| pair.values::<u32>());
            let Some(&[first, second]) = pair.as_deref() else { return };
            // A thread keeps the register of its own index and gives the other one to its partner.
            let upper = (k.lane_id() & apart.cast_signed()).ne(0);
            let got = k.shfl_bfly(WARP, upper.select(first, second), apart);
            let pair = [upper.select(got, first), upper.select(second, got)];
            if let Some(pair) = AnyVector::pack(&pair) {
                let pair = pair.cast(S::Elem::scalar()).unwrap_or(pair);
                destination.write_vector(&to.indices, pair);
            }
        }
        // `check_spaces` has refused these.
        CopyOp::Tma { .. } | CopyOp::Bulk { .. } => {}
    }
}

fn matrix(matrices: Matrices, transposed: bool) -> (MatrixCount, MatrixOrder) {
    let count = match matrices {
        Matrices::X1 => MatrixCount::X1,
        Matrices::X2 => MatrixCount::X2,
        Matrices::X4 => MatrixCount::X4,
    };
    (count, if transposed { MatrixOrder::Trans } else { MatrixOrder::Rows })
}

/// Checks that the instruction copies between the two memory spaces.
fn check_spaces<'b, S: Readable<'b>, D: Writable<'b>>(
    op: &CopyOp,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) -> Result<(), TensorErrorKind> {
    let (from, to) = (source.engine.address(0), destination.engine.address(0));
    let (fits, takes) = match op {
        CopyOp::Universal { .. } => (true, ""),
        CopyOp::CpAsync { .. } => (
            matches!((from, to), (ElementAddress::Global(..), ElementAddress::Shared(..))),
            "from global to shared memory",
        ),
        CopyOp::LdMatrix { .. } => (
            matches!((from, to), (ElementAddress::Shared(..), ElementAddress::Registers)),
            "from shared memory to registers",
        ),
        CopyOp::StMatrix { .. } => (
            matches!((from, to), (ElementAddress::Registers, ElementAddress::Shared(..))),
            "from registers to shared memory",
        ),
        CopyOp::MovMatrix | CopyOp::ShuffleTranspose { .. } => (
            matches!((from, to), (ElementAddress::Registers, ElementAddress::Registers)),
            "from registers to registers",
        ),
        CopyOp::Tma { .. } | CopyOp::Bulk { .. } => {
            let (instruction, method) = (op.to_string(), op.method().unwrap_or_default());
            return Err(TensorErrorKind::OtherCopy { instruction, method });
        }
    };
    if fits {
        return Ok(());
    }
    let instruction = op.instruction();
    let found = format!("from {source} to {destination}");
    Err(TensorErrorKind::CopySpaces { instruction, takes, found })
}

/// Checks that the tiler divides a tensor whose allocation ends with it.
fn check_whole_tiles<'b, E: Engine<'b>>(
    tensor: &Tensor<E>,
    tiler: &IntTuple,
) -> Result<(), TensorErrorKind> {
    if !tensor.engine.ends_with_tensor() {
        return Ok(());
    }
    for (mode, (extent, tile)) in tensor.shape().children().zip(tiler.children()).enumerate() {
        let (extent, tile) = (extent.product()?.to_static()?, tile.product()?.to_static()?);
        if extent % tile != 0 {
            return Err(TensorErrorKind::RaggedTile { mode, extent, tile });
        }
    }
    Ok(())
}

/// Checks that each group of `vector` elements is contiguous in memory and aligned to its size.
/// Registers always pass.
fn check_vector<'b, E: Readable<'b>>(
    tensor: &Tensor<E>,
    vector: i64,
) -> Result<(), TensorErrorKind> {
    let Some(align) = tensor.engine.alignment_bytes() else { return Ok(()) };
    if vector == 1 {
        return Ok(());
    }
    let bits = E::Elem::scalar().bits();
    let wanted = u32::try_from(vector).unwrap_or(u32::MAX);
    let widest = tensor.layout.vector_of(bits, align, wanted)?;
    if i64::from(widest.elements()) >= vector {
        return Ok(());
    }
    let mode = widest.limit().mode().and_then(|path| path.indices().next());
    let name = mode.and_then(|mode| tensor.names.iter().nth(mode)).map(str::to_owned);
    Err(TensorErrorKind::Vector {
        elements: vector,
        bits: vector * i64::from(bits),
        tensor: tensor.to_string(),
        widest: Box::new(widest),
        name,
    })
}
