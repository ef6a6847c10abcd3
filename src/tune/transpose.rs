//! [`TransposeTunable`]: a transpose as a [`Tunable`].

use std::marker::PhantomData;

use super::data::not_a_number;
use super::data::{self, Fill};
use super::search::Rejection;
use super::tunable::Tunable;
use crate::ir::builder::Converted;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, range};
use crate::kernels::rows::RowError;
use crate::kernels::transpose::{Transpose, TransposeConfig, TransposeProblem};
use crate::kernels::{Built, Loaded};
use crate::runtime::{Buffer, Device, Function, LaunchOptions, Stream};

/// A transpose of one matrix or a batch, as a [`Tunable`]. It tunes the tiles and their order.
///
/// ```
/// use tilewright::kernels::transpose::TransposeProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, Regime, TransposeTunable, Tuner, TuningStore};
///
/// let transpose = TransposeTunable::<f32>::new(TransposeProblem::new(70, 130));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&transpose, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransposeTunable<T> {
    problem: TransposeProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> TransposeTunable<T> {
    /// Returns the tunable for this problem.
    pub const fn new(problem: TransposeProblem) -> Self {
        TransposeTunable { problem, elem: PhantomData }
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

impl<T: Element + Converted> Tunable for TransposeTunable<T> {
    type Config = TransposeConfig;
    type Kernel = Built<Transpose<T>>;
    type Data = [Buffer<T>; 2];

    fn key(&self) -> String {
        format!("transpose of {} {}", T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<TransposeConfig> {
        TransposeConfig::candidates(device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &TransposeConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Transpose::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        2 * self.problem.elements() * size_of::<T>() as u64
    }

    fn data(&self, device: &Device, set: u32) -> Result<[Buffer<T>; 2], Rejection> {
        let [input, output] =
            self.problem.lens().ok_or(RowError::TooLarge { operand: "the matrix" })?;
        let fill: Function<Fill<T>> = device.load(&data::fill::<T>(device.target())?)?;
        let table = device.upload(&data::normal_table(0))?;
        let x = data::filled(device, (&fill, &table), set, input as usize)?;
        Ok([x, device.zeros(output as usize)?])
    }

    fn clear(&self, [_, y]: &mut [Buffer<T>; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &TransposeConfig,
        transpose: &Loaded<Transpose<T>>,
        [x, y]: &mut [Buffer<T>; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(transpose.with(options).launch(&self.problem, (x, y))?)
    }

    fn verify(&self, [x, y]: &mut [Buffer<T>; 2]) -> Result<(), Rejection> {
        let device = x.device();
        let kernel: Function<Compare<T>> = device.load(&compare(device.target())?)?;
        let mut found = device.upload(&[0])?;
        let TransposeProblem { rows, columns, batch, .. } = self.problem;
        let elements = self.problem.elements();
        let [x_pitch, y_pitch] = self.problem.pitches().map(|pitch| pitch as i64);
        let strides = batch
            .map(|mode| [mode.count.into(), mode.input_stride as i64, mode.output_stride as i64]);
        let sizes = [i64::from(rows), i64::from(columns), elements as i64];
        let args = ((&*x, x_pitch), (&*y, y_pitch), &mut found, sizes, strides);
        kernel.launch(data::grid(elements as usize), args)?;
        match found.to_vec()?[..] {
            [0] => Ok(()),
            _ => Err(Rejection::Wrong(format!("{} elements differ", found.to_vec()?[0]))),
        }
    }
}

/// The input and its transpose, each with its pitch; the difference counter; rows, columns and
/// total elements; for each batch mode its count and its strides.
type Compare<T> = ((Global<T>, i64), (Global<T>, i64), GlobalMut<u64>, [i64; 3], [[i64; 3]; 3]);

/// Builds a kernel that counts the elements that differ from the input. NaN counts as different.
fn compare<T: Element + Converted>(target: Target) -> Result<Kernel<Compare<T>>, BuildErrors> {
    Kernel::<Compare<T>>::build("compare", target, |k, (x, y, found, sizes, batch)| {
        let ((x, x_pitch), (y, y_pitch), [rows, columns, elements]) = (x, y, sizes);
        let threads = (k.grid_dim().x * k.block_dim().x).cvt::<i64>();
        let first = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<i64>();
        k.for_(range(first, elements).step(threads), (), |k, i, ()| {
            let (column, i) = (i % columns, i / columns);
            let (row, mut matrix) = (i % rows, i / rows);
            let mut at = [row * x_pitch + column, column * y_pitch + row];
            for [count, input, output] in batch {
                let index = matrix % count;
                at = [at[0] + index * input, at[1] + index * output];
                matrix /= count;
            }
            let (x, y) = (x.load(k, at[0]).cvt::<f32>(), y.load(k, at[1]).cvt::<f32>());
            k.if_(!x.eq(y), |k| found.red().add(k, 0, 1));
        });
    })
}
