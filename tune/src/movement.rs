//! [`PermuteTunable`] and [`GatherTunable`]: kernels that move rows, as [`Tunable`]s.
//! `tilewright bench permute` and `tilewright bench gather` run them.

use super::data;
use super::definition::Definition;
use super::element_config::ElementConfig;
use super::rows::matrices;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gather::{GatherSide, RowGather, RowGatherArgs, RowGatherConfig};
use tilewright::kernels::permute::{Permute, PermuteConfig, PermuteProblem};
use tilewright::kernels::rows::{RowError, RowProblem};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{AnyBuffer, AnyElement, Buffer, Device, LaunchOptions, Stream};

/// A permutation of a tensor's modes, as a [`Tunable`]. It tunes how many threads share a row and
/// how many vectors each moves at once, or the tiles of a transpose.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::permute::PermuteProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, PermuteTunable, Regime, Tuner, TuningStore};
///
/// let permute = PermuteTunable::new(Scalar::F32, PermuteProblem::new(&[7, 3, 40], &[1, 0, 2])?);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&permute, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PermuteTunable {
    elem: Scalar,
    problem: PermuteProblem,
}

impl PermuteTunable {
    /// Returns the tunable for this problem with elements of this type, to pass to a
    /// [`Tuner`](super::Tuner) or [`bench()`](super::bench()).
    pub const fn new(elem: Scalar, problem: PermuteProblem) -> Self {
        PermuteTunable { elem, problem }
    }
}

impl Tunable for PermuteTunable {
    type Config = ElementConfig<PermuteConfig>;
    type Kernel = Built<Permute<AnyElement>>;
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        format!("permute of {} {}", self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let configs = PermuteConfig::candidates(device.target(), self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Permute::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        2 * self.problem.elements() * u64::from(self.elem.size_bytes())
    }

    fn data(&self, device: &Device, set: u32) -> Result<[AnyBuffer; 2], Rejection> {
        let [input, output] =
            self.problem.lens().ok_or(RowError::TooLarge { operand: "the tensor" })?;
        let x = data::normal(device, self.elem, set, input as usize)?;
        Ok([x, AnyBuffer::zeros(device, self.elem, output as usize)?])
    }

    fn clear(&self, [_, y]: &mut [AnyBuffer; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        permute: &Loaded<Permute<AnyElement>>,
        [x, y]: &mut [AnyBuffer; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(permute.with(options).launch(&self.problem, (x.as_ref(), y.as_mut()))?)
    }

    fn verify(&self, [x, y]: &mut [AnyBuffer; 2]) -> Result<(), Rejection> {
        let mut sizes = [0; 14];
        sizes[0] = self.problem.columns.into();
        sizes[1] = self.problem.column_stride as i64;
        for (mode, sizes) in self.problem.modes.iter().zip(sizes[2..].chunks_mut(3)) {
            let strides = [mode.input_stride, mode.output_stride].map(|stride| stride as i64);
            sizes.copy_from_slice(&[mode.count.into(), strides[0], strides[1]]);
        }
        let items = ("elements", self.problem.elements());
        let (x, y) = ([x.as_ref()], y.as_ref());
        Definition { x, y, list: None, sizes, items }.check(|_, at| {
            let (column, mut row) = (at.item % at.sizes[0], at.item / at.sizes[0]);
            let (mut from, mut to) = (column, column * at.sizes[1]);
            for mode in at.sizes[2..].chunks(3) {
                let index = row % mode[0];
                row /= mode[0];
                from += index * mode[1];
                to += index * mode[2];
            }
            at.x[0].load(from).cvt::<f32>().eq(at.y.load(to).cvt::<f32>())
        })
    }
}

/// A gather or scatter of rows, as a [`Tunable`]. It tunes how many threads share a row and how
/// many vectors each moves at once. The list contains every row once, in scattered order.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gather::GatherSide;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, GatherTunable, Regime, Tuner, TuningStore};
///
/// let gather = GatherTunable::new(GatherSide::Input, Scalar::F32, RowProblem::new(7, 100));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&gather, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GatherTunable {
    side: GatherSide,
    elem: Scalar,
    problem: RowProblem,
}

impl GatherTunable {
    /// Returns the tunable for a gather or scatter of these rows with elements of this type, to
    /// pass to a [`Tuner`](super::Tuner) or [`bench()`](super::bench()).
    pub const fn new(side: GatherSide, elem: Scalar, problem: RowProblem) -> Self {
        GatherTunable { side, elem, problem }
    }
}

impl Tunable for GatherTunable {
    type Config = ElementConfig<RowGatherConfig>;
    type Kernel = Built<RowGather<AnyElement>>;
    /// Input and output, then the list.
    type Data = ([AnyBuffer; 2], Buffer<i32>);

    fn key(&self) -> String {
        format!("{} of {} {}", self.side.name(), self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let target = device.target();
        let configs = RowGatherConfig::candidates(self.side, target, self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(RowGather::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        let RowProblem { rows, columns, .. } = self.problem;
        2 * u64::from(rows) * u64::from(columns) * u64::from(self.elem.size_bytes())
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        // The factor is a prime larger than any row count, so the list is a permutation.
        let rows = u64::from(self.problem.rows);
        let list: Vec<i32> = (0..rows).map(|i| (i * 4_294_967_291 % rows) as i32).collect();
        Ok((matrices(device, self.elem, &self.problem, set)?, device.upload(&list)?))
    }

    fn clear(&self, ([_, y], _): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        gather: &Loaded<RowGather<AnyElement>>,
        ([x, y], index): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let limit = self.problem.rows;
        let args = RowGatherArgs { index, limit, x: x.as_ref(), y: y.as_mut() };
        Ok(gather.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, ([x, y], list): &mut Self::Data) -> Result<(), Rejection> {
        let [x_pitch, y_pitch] = self.problem.pitches().map(|pitch| pitch as i64);
        let sizes = [x_pitch, y_pitch, self.problem.columns.into()];
        let items = ("elements", u64::from(self.problem.rows) * u64::from(self.problem.columns));
        let side = self.side;
        let (x, y) = ([x.as_ref()], y.as_ref());
        Definition { x, y, list: Some(list), sizes, items }.check(|_, at| {
            let [x_pitch, y_pitch, columns] = at.sizes;
            let (row, column) = (at.item / columns, at.item % columns);
            let listed = at.list.load(row).cvt::<i64>();
            let [from, to] = if side == GatherSide::Input { [listed, row] } else { [row, listed] };
            let x = at.x[0].load(from * x_pitch + column).cvt::<f32>();
            x.eq(at.y.load(to * y_pitch + column).cvt::<f32>())
        })
    }
}
