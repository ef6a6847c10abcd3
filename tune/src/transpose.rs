//! [`TransposeTunable`]: a transpose as a [`Tunable`].

use super::data;
use super::definition::Definition;
use super::element_config::ElementConfig;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::rows::RowError;
use tilewright::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{AnyBuffer, AnyElement, Device, LaunchOptions, Stream};

/// A transpose of one matrix or a batch, as a [`Tunable`]. It tunes the tiles and their order.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::transpose::TransposeProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, TransposeTunable, Tuner, TuningStore};
///
/// let transpose = TransposeTunable::new(Scalar::F32, TransposeProblem::new(70, 130));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&transpose, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransposeTunable {
    elem: Scalar,
    problem: TransposeProblem,
}

impl TransposeTunable {
    /// Returns the tunable for this problem, with elements of this type.
    pub const fn new(elem: Scalar, problem: TransposeProblem) -> Self {
        TransposeTunable { elem, problem }
    }
}

impl From<RowError> for Rejection {
    fn from(error: RowError) -> Rejection {
        match error {
            RowError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl Tunable for TransposeTunable {
    type Config = ElementConfig<TransposeConfig>;
    type Kernel = Built<Transpose<AnyElement>>;
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        format!("transpose of {} {}", self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let configs = TransposeConfig::candidates(device.target(), self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Transpose::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        2 * self.problem.elements() * u64::from(self.elem.size_bytes())
    }

    fn data(&self, device: &Device, set: u32) -> Result<[AnyBuffer; 2], Rejection> {
        let [input, output] =
            self.problem.lens().ok_or(RowError::TooLarge { operand: "the matrix" })?;
        let x = data::normal(device, self.elem, set, input as usize)?;
        Ok([x, AnyBuffer::zeros(device, self.elem, output as usize)?])
    }

    fn clear(&self, [_, y]: &mut [AnyBuffer; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        transpose: &Loaded<Transpose<AnyElement>>,
        [x, y]: &mut [AnyBuffer; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(transpose.with(options).launch(&self.problem, (x.as_ref(), y.as_mut()))?)
    }

    fn verify(&self, [x, y]: &mut [AnyBuffer; 2]) -> Result<(), Rejection> {
        let TransposeProblem { rows, columns, batch, .. } = self.problem;
        let [x_pitch, y_pitch] = self.problem.pitches().map(|pitch| pitch as i64);
        let mut sizes = [rows.into(), columns.into(), x_pitch, y_pitch, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (mode, sizes) in batch.iter().zip(sizes[4..].chunks_mut(3)) {
            let strides = [mode.input_stride, mode.output_stride].map(|stride| stride as i64);
            sizes.copy_from_slice(&[mode.count.into(), strides[0], strides[1]]);
        }
        let items = ("elements", self.problem.elements());
        let (x, y) = ([x.as_ref()], y.as_ref());
        Definition { x, y, list: None, sizes, items }.check(|_, at| {
            let [rows, columns, x_pitch, y_pitch, ..] = at.sizes;
            let (column, i) = (at.item % columns, at.item / columns);
            let (row, mut matrix) = (i % rows, i / rows);
            let (mut from, mut to) = (row * x_pitch + column, column * y_pitch + row);
            for mode in at.sizes[4..].chunks(3) {
                let index = matrix % mode[0];
                matrix /= mode[0];
                from += index * mode[1];
                to += index * mode[2];
            }
            at.x[0].load(from).cvt::<f32>().eq(at.y.load(to).cvt::<f32>())
        })
    }
}
