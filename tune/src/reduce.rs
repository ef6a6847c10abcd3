//! [`RowReduceTunable`], [`AxisReduceTunable`] and [`TopKTunable`]: reductions as [`Tunable`]s.

use super::data;
use super::definition::Definition;
use super::element_config::ElementConfig;
use super::rows::matrices;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, range};
use tilewright::kernels::reduce::{
    AxisProblem, AxisReduce, AxisReduceConfig, RowReduce, RowReduceConfig, RowReduceOp, TopK,
    TopKArgs, TopKConfig,
};
use tilewright::kernels::rows::{RowError, RowProblem};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{AnyBuffer, AnyElement, Buffer, Device, LaunchOptions, Stream};

/// A reduction of rows, as a [`Tunable`]. It tunes how many threads share a row and how many
/// vectors each loads at once.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::reduce::RowReduceOp;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, RowReduceTunable, Tuner, TuningStore};
///
/// let sums = RowReduceTunable::new(RowReduceOp::Sum, Scalar::F32, RowProblem::new(5, 1000));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&sums, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowReduceTunable {
    op: RowReduceOp,
    elem: Scalar,
    problem: RowProblem,
}

impl RowReduceTunable {
    /// Returns the tunable for reducing these rows of elements of this type: `f32`, `f16` or
    /// `bf16`.
    pub const fn new(op: RowReduceOp, elem: Scalar, problem: RowProblem) -> Self {
        RowReduceTunable { op, elem, problem }
    }
}

impl Tunable for RowReduceTunable {
    type Config = ElementConfig<RowReduceConfig>;
    type Kernel = Built<RowReduce<AnyElement, AnyElement>>;
    /// The input and the results.
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        format!("{} of rows of {} {}", self.op.name(), self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let target = device.target();
        let configs = RowReduceConfig::candidates(self.op, target, self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(RowReduce::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        bytes(self.elem, &self.problem)
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<[AnyBuffer; 2], Rejection> {
        let [x, _] = matrices(device, self.elem, &self.problem, set)?;
        Ok([x, AnyBuffer::zeros(device, self.op.output(), self.problem.rows as usize)?])
    }

    fn clear(&self, [_, y]: &mut [AnyBuffer; 2], stream: &Stream) -> Result<(), Rejection> {
        clear(y, stream)
    }

    fn launch(
        &self,
        _: &Self::Config,
        reduce: &Loaded<RowReduce<AnyElement, AnyElement>>,
        [x, y]: &mut [AnyBuffer; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(reduce.with(options).launch(&self.problem, (x.as_ref(), y.as_mut()))?)
    }

    fn verify(&self, [x, y]: &mut [AnyBuffer; 2]) -> Result<(), Rejection> {
        let pitch = self.problem.pitches()[0] as i64;
        verify(
            self.op,
            (x, y),
            self.problem.rows.into(),
            [1, pitch, 1, self.problem.columns.into()],
        )
    }
}

/// A reduction along any axis, as a [`Tunable`]. It tunes the block's tile and the rows in flight.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::reduce::{AxisProblem, RowReduceOp};
/// use tilewright::runtime::Device;
/// use tilewright_tune::{AxisReduceTunable, Effort, Regime, Tuner, TuningStore};
///
/// let problem = AxisProblem { outer: 1, len: 300, inner: 40 };
/// let sums = AxisReduceTunable::new(RowReduceOp::ArgMax, Scalar::F32, problem);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&sums, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AxisReduceTunable {
    op: RowReduceOp,
    elem: Scalar,
    problem: AxisProblem,
}

impl AxisReduceTunable {
    /// Returns the tunable for reducing along this axis, for elements of this type: `f32`, `f16` or
    /// `bf16`.
    pub const fn new(op: RowReduceOp, elem: Scalar, problem: AxisProblem) -> Self {
        AxisReduceTunable { op, elem, problem }
    }

    fn len(&self) -> Result<usize, RowError> {
        let len = self.problem.results().checked_mul(self.problem.len.into());
        let len = len.and_then(|len| usize::try_from(len).ok());
        len.ok_or(RowError::TooLarge { operand: "the input" })
    }
}

impl Tunable for AxisReduceTunable {
    type Config = ElementConfig<AxisReduceConfig>;
    type Kernel = Built<AxisReduce<AnyElement, AnyElement>>;
    /// The input and the results.
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        format!("{} along an axis of {} {}", self.op.name(), self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let target = device.target();
        let configs = AxisReduceConfig::candidates(self.op, target, self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(AxisReduce::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        self.len().map_or(u64::MAX, |len| len as u64 * u64::from(self.elem.size_bytes()))
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<[AnyBuffer; 2], Rejection> {
        let x = data::normal(device, self.elem, set, self.len()?)?;
        Ok([x, AnyBuffer::zeros(device, self.op.output(), self.problem.results() as usize)?])
    }

    fn clear(&self, [_, y]: &mut [AnyBuffer; 2], stream: &Stream) -> Result<(), Rejection> {
        clear(y, stream)
    }

    fn launch(
        &self,
        _: &Self::Config,
        reduce: &Loaded<AxisReduce<AnyElement, AnyElement>>,
        [x, y]: &mut [AnyBuffer; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(reduce.with(options).launch(&self.problem, (x.as_ref(), y.as_mut()))?)
    }

    fn verify(&self, [x, y]: &mut [AnyBuffer; 2]) -> Result<(), Rejection> {
        let AxisProblem { len, inner, .. } = self.problem;
        let [len, inner] = [len, inner].map(i64::from);
        verify(self.op, (x, y), self.problem.results(), [inner, len * inner, inner, len])
    }
}

/// Returns how many bytes a reduction of rows reads.
fn bytes(elem: Scalar, problem: &RowProblem) -> u64 {
    u64::from(problem.rows) * u64::from(problem.columns) * u64::from(elem.size_bytes())
}

/// Overwrites results with a value that no reduction returns: NaN, or an index above any axis.
fn clear(y: &mut AnyBuffer, stream: &Stream) -> Result<(), Rejection> {
    let byte = if y.scalar() == Scalar::I32 { 0x7f } else { data::WRONG };
    Ok(y.fill_bytes(byte, stream)?)
}

/// Checks reductions against their definition, in `f64`. Line `i` starts at `i / inner * outer + i
/// % inner` and has `len` elements, `stride` apart.
fn verify(
    op: RowReduceOp,
    (x, y): (&AnyBuffer, &AnyBuffer),
    lines: u64,
    sizes @ [inner, ..]: [i64; 4],
) -> Result<(), Rejection> {
    let sizes = [inner.max(1), sizes[1], sizes[2], sizes[3]];
    let (x, y, items) = ([x.as_ref()], y.as_ref(), ("results", lines));
    Definition { x, y, list: None, sizes, items }.check(|k, at| {
        let ([inner, outer, stride, len], zero) = (at.sizes, k.constant(0i64));
        let x = at.x[0].offset(at.item / inner * outer + at.item % inner);
        // Sums of the elements, their squares and their magnitudes; the largest and the smallest
        // element; the first index of the largest.
        let first = ([0.0f64; 3], [f32::NEG_INFINITY, f32::INFINITY], zero);
        let (sums, [max, min], best) =
            k.for_(range(0i64, len), first, |_, i, ([sum, squares, size], [max, min], best)| {
                let x = x.load(i * stride).cvt::<f32>();
                let x64 = x.cvt::<f64>();
                let sums = [sum + x64, squares + x64 * x64, size + x64.abs()];
                (sums, [max.max(x), min.min(x)], x.gt(max).select(i, best))
            });
        let [sum, squares, size] = sums;
        let found = at.y.load(at.item);
        if op == RowReduceOp::ArgMax {
            return found.cvt::<i32>().cvt::<i64>().eq(len.eq(0).select(-1, best));
        }
        let found = found.cvt::<f32>().cvt::<f64>();
        let (expected, error) = match op {
            RowReduceOp::Max => (max.cvt::<f64>(), k.constant(0.0f64)),
            RowReduceOp::Min => (min.cvt::<f64>(), k.constant(0.0f64)),
            RowReduceOp::Mean => (sum / len.cvt::<f64>(), size / len.cvt::<f64>() * 1e-5),
            RowReduceOp::Norm => (squares.sqrt(), squares.sqrt() * 1e-5),
            _ => (sum, size * 1e-5),
        };
        (found - expected).abs().le(error)
    })
}

/// The k largest elements of each row, as a [`Tunable`]. It tunes how many warps share a row.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, TopKTunable, Tuner, TuningStore};
///
/// let top = TopKTunable::new(8, Scalar::F32, RowProblem::new(3, 1000));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&top, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TopKTunable {
    count: u32,
    elem: Scalar,
    problem: RowProblem,
}

impl TopKTunable {
    /// Returns the tunable for the `count` largest elements of each row, of elements of this type:
    /// `f32`, `f16` or `bf16`.
    pub const fn new(count: u32, elem: Scalar, problem: RowProblem) -> Self {
        TopKTunable { count, elem, problem }
    }
}

impl Tunable for TopKTunable {
    type Config = ElementConfig<TopKConfig>;
    type Kernel = Built<TopK<AnyElement>>;
    /// The input, the values and the columns.
    type Data = (AnyBuffer, Buffer<f32>, Buffer<i32>);

    fn key(&self) -> String {
        format!("top {} of rows of {} {}", self.count, self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let target = device.target();
        let configs = TopKConfig::candidates(self.count, target, self.elem, &self.problem);
        ElementConfig::all(self.elem, configs)
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(TopK::untyped(config.config, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        bytes(self.elem, &self.problem)
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let [x, _] = matrices(device, self.elem, &self.problem, set)?;
        let results = self.problem.rows as usize * self.count as usize;
        Ok((x, device.zeros(results)?, device.zeros(results)?))
    }

    fn clear(
        &self,
        (_, values, columns): &mut Self::Data,
        stream: &Stream,
    ) -> Result<(), Rejection> {
        values.fill(f32::NAN, stream)?;
        Ok(columns.fill(i32::MAX, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        top_k: &Loaded<TopK<AnyElement>>,
        (x, values, columns): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let args = TopKArgs { x: x.as_ref(), values, columns };
        Ok(top_k.with(options).launch(&self.problem, args)?)
    }

    /// Checks that each value is the element in its column, that the values are in order, and that
    /// no other element comes before the last one.
    fn verify(&self, (x, values, columns): &mut Self::Data) -> Result<(), Rejection> {
        let RowProblem { rows, columns: width, .. } = self.problem;
        let pitch = self.problem.pitches()[0] as i64;
        // A row with fewer elements returns all of them.
        let count = self.count.min(width);
        let sizes = [pitch, width.into(), self.count.into(), count.into()];
        let items = ("rows", rows.into());
        let (x, y) = ([x.as_ref()], (&*values).into());
        Definition { x, y, list: Some(columns), sizes, items }.check(|k, at| {
            let [pitch, width, slots, count] = at.sizes;
            let x = at.x[0].offset(at.item * pitch);
            let (values, columns) = (at.y.offset(at.item * slots), at.list.offset(at.item * slots));
            let start = (true, [f32::INFINITY], -1i64);
            let (is_right, [last], column) =
                k.for_(range(0i64, count), start, |_, rank, (is_right, [before], column)| {
                    let value = values.load(rank).cvt::<f32>();
                    let found = columns.load(rank).cvt::<i64>();
                    let is_column = found.ge(0) & found.lt(width);
                    let element = x.load(is_column.select(found, 0)).cvt::<f32>();
                    let follows = value.lt(before) | (value.eq(before) & found.gt(column));
                    (is_right & is_column & follows & element.eq(value), [value], found)
                });
            let better = k.for_(range(0i64, width), 0i64, |_, i, better| {
                let element = x.load(i).cvt::<f32>();
                let is_better = element.gt(last) | (element.eq(last) & i.lt(column));
                better + is_better.select(1i64, 0)
            });
            is_right & better.eq(count - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::spoil;
    use crate::tunable::Loadable;

    /// Every configuration's results pass, and a single wrong result does not.
    #[track_caller]
    fn check<K: Tunable>(tunable: &K, spoil: impl Fn(&mut K::Data), message: &str) {
        let device = Device::sim().unwrap();
        for config in tunable.space(&device) {
            let function = K::build(&config, device.target()).unwrap().load(&device).unwrap();
            let mut data = tunable.data(&device, 0).unwrap();
            tunable.launch(&config, &function, &mut data, LaunchOptions::default()).unwrap();
            assert_eq!(tunable.verify(&mut data), Ok(()), "{config}");
            spoil(&mut data);
            assert_eq!(
                tunable.verify(&mut data),
                Err(Rejection::Wrong(message.to_owned())),
                "{config}"
            );
        }
    }

    /// Adds 1 to one result.
    fn change(y: &mut AnyBuffer, at: usize) {
        let value = y.to_f64().unwrap()[at] + 1.0;
        spoil(y, at, value);
    }

    #[test]
    fn one_wrong_result_is_found() {
        let rows = RowProblem { input_pitch: Some(306), ..RowProblem::new(3, 301) };
        let axis = AxisProblem { outer: 2, len: 30, inner: 5 };
        for op in RowReduceOp::ALL {
            let of_rows = RowReduceTunable::new(op, Scalar::Bf16, rows);
            check(&of_rows, |[_, y]| change(y, 2), "1 of 3 results differ");
            let of_axis = AxisReduceTunable::new(op, Scalar::F32, axis);
            check(&of_axis, |[_, y]| change(y, 9), "1 of 10 results differ");
        }
        let top = TopKTunable::new(5, Scalar::Bf16, rows);
        let message = "1 of 3 rows differ";
        let values = |(_, values, _): &mut (AnyBuffer, Buffer<f32>, Buffer<i32>)| {
            let mut all = values.to_vec().unwrap();
            all[14] += 1.0;
            values.write(&all).unwrap();
        };
        check(&top, values, message);
        let columns = |(_, _, columns): &mut (AnyBuffer, Buffer<f32>, Buffer<i32>)| {
            let mut all = columns.to_vec().unwrap();
            all[14] -= 1;
            columns.write(&all).unwrap();
        };
        check(&top, columns, message);
    }
}
