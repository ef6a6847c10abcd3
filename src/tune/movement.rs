//! [`PermuteTunable`] and [`GatherTunable`]: kernels that move rows, as [`Tunable`]s.
//! `tilewright bench permute` and `tilewright bench gather` run them.

use std::marker::PhantomData;

use super::data;
use super::data::not_a_number;
use super::definition::Definition;
use super::rows::matrices;
use super::search::Rejection;
use super::tunable::Tunable;
use crate::ir::Target;
use crate::ir::builder::Converted;
use crate::kernels::gather::{GatherSide, RowGather, RowGatherArgs, RowGatherConfig};
use crate::kernels::permute::{Permute, PermuteConfig, PermuteProblem};
use crate::kernels::rows::{RowError, RowProblem};
use crate::kernels::{Built, Loaded};
use crate::runtime::{Buffer, Device, LaunchOptions, Stream};

/// A permutation of a tensor's modes, as a [`Tunable`]. It tunes how many threads share a row and
/// how many vectors each moves at once, or the tiles of a transpose.
///
/// ```
/// use tilewright::kernels::permute::PermuteProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, PermuteTunable, Regime, Tuner, TuningStore};
///
/// let permute = PermuteTunable::<f32>::new(PermuteProblem::new(&[7, 3, 40], &[1, 0, 2])?);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&permute, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PermuteTunable<T> {
    problem: PermuteProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> PermuteTunable<T> {
    /// Returns the tunable for this problem, to pass to a [`Tuner`](super::Tuner) or
    /// [`bench()`](super::bench()).
    pub const fn new(problem: PermuteProblem) -> Self {
        PermuteTunable { problem, elem: PhantomData }
    }
}

impl<T: Converted> Tunable for PermuteTunable<T> {
    type Config = PermuteConfig;
    type Kernel = Built<Permute<T>>;
    type Data = [Buffer<T>; 2];

    fn key(&self) -> String {
        format!("permute of {} {}", T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<PermuteConfig> {
        PermuteConfig::candidates(device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &PermuteConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Permute::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        2 * self.problem.elements() * size_of::<T>() as u64
    }

    fn data(&self, device: &Device, set: u32) -> Result<[Buffer<T>; 2], Rejection> {
        let [input, output] =
            self.problem.lens().ok_or(RowError::TooLarge { operand: "the tensor" })?;
        Ok([data::normal(device, set, input as usize)?, device.zeros(output as usize)?])
    }

    fn clear(&self, [_, y]: &mut [Buffer<T>; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &PermuteConfig,
        permute: &Loaded<Permute<T>>,
        [x, y]: &mut [Buffer<T>; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(permute.with(options).launch(&self.problem, (x, y))?)
    }

    fn verify(&self, [x, y]: &mut [Buffer<T>; 2]) -> Result<(), Rejection> {
        let mut sizes = [0; 14];
        sizes[0] = self.problem.columns.into();
        sizes[1] = self.problem.column_stride as i64;
        for (mode, sizes) in self.problem.modes.iter().zip(sizes[2..].chunks_mut(3)) {
            let strides = [mode.input_stride, mode.output_stride].map(|stride| stride as i64);
            sizes.copy_from_slice(&[mode.count.into(), strides[0], strides[1]]);
        }
        let items = ("elements", self.problem.elements());
        Definition { x: [&*x], y: &*y, list: None, sizes, items }.check(|k, at| {
            let (column, mut row) = (at.item % at.sizes[0], at.item / at.sizes[0]);
            let (mut from, mut to) = (column, column * at.sizes[1]);
            for mode in at.sizes[2..].chunks(3) {
                let index = row % mode[0];
                row /= mode[0];
                from += index * mode[1];
                to += index * mode[2];
            }
            at.x[0].load(k, from).cvt::<f32>().eq(at.y.load(k, to).cvt::<f32>())
        })
    }
}

/// A gather or scatter of rows, as a [`Tunable`]. It tunes how many threads share a row and how
/// many vectors each moves at once. The list contains every row once, in scattered order.
///
/// ```
/// use tilewright::kernels::gather::GatherSide;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, GatherTunable, Regime, Tuner, TuningStore};
///
/// let gather = GatherTunable::<f32>::new(GatherSide::Input, RowProblem::new(7, 100));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&gather, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GatherTunable<T> {
    side: GatherSide,
    problem: RowProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> GatherTunable<T> {
    /// Returns the tunable for a gather or scatter of these rows, to pass to a
    /// [`Tuner`](super::Tuner) or [`bench()`](super::bench()).
    pub const fn new(side: GatherSide, problem: RowProblem) -> Self {
        GatherTunable { side, problem, elem: PhantomData }
    }
}

impl<T: Converted> Tunable for GatherTunable<T> {
    type Config = RowGatherConfig;
    type Kernel = Built<RowGather<T>>;
    /// Input and output, then the list.
    type Data = ([Buffer<T>; 2], Buffer<i32>);

    fn key(&self) -> String {
        format!("{} of {} {}", self.side.name(), T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<RowGatherConfig> {
        RowGatherConfig::candidates(self.side, device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &RowGatherConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(RowGather::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        2 * u64::from(self.problem.rows) * u64::from(self.problem.columns) * size_of::<T>() as u64
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        // The factor is a prime larger than any row count, so the list is a permutation.
        let rows = u64::from(self.problem.rows);
        let list: Vec<i32> = (0..rows).map(|i| (i * 4_294_967_291 % rows) as i32).collect();
        Ok((matrices(device, &self.problem, set)?, device.upload(&list)?))
    }

    fn clear(&self, ([_, y], _): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &RowGatherConfig,
        gather: &Loaded<RowGather<T>>,
        ([x, y], index): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let args = RowGatherArgs { index, limit: self.problem.rows, x, y };
        Ok(gather.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, ([x, y], list): &mut Self::Data) -> Result<(), Rejection> {
        let [x_pitch, y_pitch] = self.problem.pitches().map(|pitch| pitch as i64);
        let sizes = [x_pitch, y_pitch, self.problem.columns.into()];
        let items = ("elements", u64::from(self.problem.rows) * u64::from(self.problem.columns));
        let side = self.side;
        Definition { x: [&*x], y: &*y, list: Some(list), sizes, items }.check(|k, at| {
            let [x_pitch, y_pitch, columns] = at.sizes;
            let (row, column) = (at.item / columns, at.item % columns);
            let listed = at.list.load(k, row).cvt::<i64>();
            let [from, to] = if side == GatherSide::Input { [listed, row] } else { [row, listed] };
            let x = at.x[0].load(k, from * x_pitch + column).cvt::<f32>();
            x.eq(at.y.load(k, to * y_pitch + column).cvt::<f32>())
        })
    }
}
