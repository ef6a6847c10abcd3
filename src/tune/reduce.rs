//! [`RowReduceTunable`], [`AxisReduceTunable`] and [`TopKTunable`]: reductions as [`Tunable`]s.

use std::marker::PhantomData;

use super::data;
use super::definition::Definition;
use super::rows::matrices;
use super::search::Rejection;
use super::tunable::Tunable;
use crate::ir::builder::Converted;
use crate::ir::{Element, Target, range};
use crate::kernels::reduce::{
    AxisProblem, AxisReduce, AxisReduceConfig, RowReduce, RowReduceConfig, RowReduceOp, TopK,
    TopKArgs, TopKConfig,
};
use crate::kernels::rows::{RowError, RowProblem};
use crate::kernels::{Built, Loaded};
use crate::runtime::{Buffer, Device, LaunchOptions, Stream};

/// A reduction of rows, as a [`Tunable`]. It tunes how many threads share a row and how many
/// vectors each loads at once. `Y` is `i32` for [`RowReduceOp::ArgMax`], otherwise `f32`.
///
/// ```
/// use tilewright::kernels::reduce::RowReduceOp;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, Regime, RowReduceTunable, Tuner, TuningStore};
///
/// let sums = RowReduceTunable::<f32>::new(RowReduceOp::Sum, RowProblem::new(5, 1000));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&sums, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowReduceTunable<T, Y = f32> {
    op: RowReduceOp,
    problem: RowProblem,
    types: PhantomData<fn(T) -> Y>,
}

impl<T, Y> RowReduceTunable<T, Y> {
    /// Returns the tunable for reducing these rows.
    pub const fn new(op: RowReduceOp, problem: RowProblem) -> Self {
        RowReduceTunable { op, problem, types: PhantomData }
    }
}

impl<T: Converted, Y: Converted> Tunable for RowReduceTunable<T, Y> {
    type Config = RowReduceConfig;
    type Kernel = Built<RowReduce<T, Y>>;
    /// The input and the results.
    type Data = (Buffer<T>, Buffer<Y>);

    fn key(&self) -> String {
        format!("{} of rows of {} {}", self.op.name(), T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<RowReduceConfig> {
        RowReduceConfig::candidates(self.op, device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &RowReduceConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(RowReduce::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.problem.rows) * u64::from(self.problem.columns) * size_of::<T>() as u64
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let [x, _] = matrices(device, &self.problem, set)?;
        Ok((x, device.zeros(self.problem.rows as usize)?))
    }

    fn clear(&self, (_, y): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(wrong(), stream)?)
    }

    fn launch(
        &self,
        _: &RowReduceConfig,
        reduce: &Loaded<RowReduce<T, Y>>,
        (x, y): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(reduce.with(options).launch(&self.problem, (x, y))?)
    }

    fn verify(&self, (x, y): &mut Self::Data) -> Result<(), Rejection> {
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
/// `Y` is `i32` for [`RowReduceOp::ArgMax`], otherwise `f32`.
///
/// ```
/// use tilewright::kernels::reduce::{AxisProblem, RowReduceOp};
/// use tilewright::runtime::Device;
/// use tilewright::tune::{AxisReduceTunable, Effort, Regime, Tuner, TuningStore};
///
/// let problem = AxisProblem { outer: 1, len: 300, inner: 40 };
/// let sums = AxisReduceTunable::<f32, i32>::new(RowReduceOp::ArgMax, problem);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&sums, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AxisReduceTunable<T, Y = f32> {
    op: RowReduceOp,
    problem: AxisProblem,
    types: PhantomData<fn(T) -> Y>,
}

impl<T, Y> AxisReduceTunable<T, Y> {
    /// Returns the tunable for reducing along this axis.
    pub const fn new(op: RowReduceOp, problem: AxisProblem) -> Self {
        AxisReduceTunable { op, problem, types: PhantomData }
    }

    fn len(&self) -> Result<usize, RowError> {
        let len = self.problem.results().checked_mul(self.problem.len.into());
        let len = len.and_then(|len| usize::try_from(len).ok());
        len.ok_or(RowError::TooLarge { operand: "the input" })
    }
}

impl<T: Converted, Y: Converted> Tunable for AxisReduceTunable<T, Y> {
    type Config = AxisReduceConfig;
    type Kernel = Built<AxisReduce<T, Y>>;
    /// The input and the results.
    type Data = (Buffer<T>, Buffer<Y>);

    fn key(&self) -> String {
        format!("{} along an axis of {} {}", self.op.name(), T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<AxisReduceConfig> {
        AxisReduceConfig::candidates(self.op, device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &AxisReduceConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(AxisReduce::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        self.len().map_or(u64::MAX, |len| len as u64 * size_of::<T>() as u64)
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let x = data::normal(device, set, self.len()?)?;
        Ok((x, device.zeros(self.problem.results() as usize)?))
    }

    fn clear(&self, (_, y): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(wrong(), stream)?)
    }

    fn launch(
        &self,
        _: &AxisReduceConfig,
        reduce: &Loaded<AxisReduce<T, Y>>,
        (x, y): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(reduce.with(options).launch(&self.problem, (x, y))?)
    }

    fn verify(&self, (x, y): &mut Self::Data) -> Result<(), Rejection> {
        let AxisProblem { len, inner, .. } = self.problem;
        let [len, inner] = [len, inner].map(i64::from);
        verify(self.op, (x, y), self.problem.results(), [inner, len * inner, inner, len])
    }
}

/// Returns a value that no reduction returns: NaN, or the largest `i32`.
fn wrong<Y: Element>() -> Y {
    Y::from_bits(u64::MAX >> (65 - 8 * size_of::<Y>()))
}

/// Checks reductions against their definition, in `f64`. Line `i` starts at `i / inner * outer + i
/// % inner` and has `len` elements, `stride` apart.
fn verify<T: Converted, Y: Converted>(
    op: RowReduceOp,
    (x, y): (&Buffer<T>, &Buffer<Y>),
    lines: u64,
    sizes @ [inner, ..]: [i64; 4],
) -> Result<(), Rejection> {
    let sizes = [inner.max(1), sizes[1], sizes[2], sizes[3]];
    Definition { x: [x], y, list: None, sizes, items: ("results", lines) }.check(|k, at| {
        let ([inner, outer, stride, len], zero) = (at.sizes, k.constant(0i64));
        let x = at.x[0].offset(at.item / inner * outer + at.item % inner);
        // Sums of the elements, their squares and their magnitudes; the largest and the smallest
        // element; the first index of the largest.
        let first = ([0.0f64; 3], [f32::NEG_INFINITY, f32::INFINITY], zero);
        let (sums, [max, min], best) =
            k.for_(range(0i64, len), first, |k, i, ([sum, squares, size], [max, min], best)| {
                let x = x.load(k, i * stride).cvt::<f32>();
                let x64 = x.cvt::<f64>();
                let sums = [sum + x64, squares + x64 * x64, size + x64.abs()];
                (sums, [max.max(x), min.min(x)], x.gt(max).select(i, best))
            });
        let [sum, squares, size] = sums;
        let found = at.y.load(k, at.item);
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
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, Regime, TopKTunable, Tuner, TuningStore};
///
/// let top = TopKTunable::<f32>::new(8, RowProblem::new(3, 1000));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&top, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TopKTunable<T> {
    count: u32,
    problem: RowProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> TopKTunable<T> {
    /// Returns the tunable for the `count` largest elements of each row.
    pub const fn new(count: u32, problem: RowProblem) -> Self {
        TopKTunable { count, problem, elem: PhantomData }
    }
}

impl<T: Converted> Tunable for TopKTunable<T> {
    type Config = TopKConfig;
    type Kernel = Built<TopK<T>>;
    /// The input, the values and the columns.
    type Data = (Buffer<T>, Buffer<f32>, Buffer<i32>);

    fn key(&self) -> String {
        format!("top {} of rows of {} {}", self.count, T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<TopKConfig> {
        TopKConfig::candidates(self.count, device.target(), T::SCALAR, &self.problem)
    }

    fn build(config: &TopKConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(TopK::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.problem.rows) * u64::from(self.problem.columns) * size_of::<T>() as u64
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let [x, _] = matrices(device, &self.problem, set)?;
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
        _: &TopKConfig,
        top_k: &Loaded<TopK<T>>,
        (x, values, columns): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(top_k.with(options).launch(&self.problem, TopKArgs { x, values, columns })?)
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
        Definition { x: [&*x], y: &*values, list: Some(columns), sizes, items }.check(|k, at| {
            let [pitch, width, slots, count] = at.sizes;
            let x = at.x[0].offset(at.item * pitch);
            let (values, columns) = (at.y.offset(at.item * slots), at.list.offset(at.item * slots));
            let start = (true, [f32::INFINITY], -1i64);
            let (is_right, [last], column) =
                k.for_(range(0i64, count), start, |k, rank, (is_right, [before], column)| {
                    let (value, found) = (values.load(k, rank), columns.load(k, rank).cvt::<i64>());
                    let is_column = found.ge(0) & found.lt(width);
                    let element = x.load(k, is_column.select(found, 0)).cvt::<f32>();
                    let follows = value.lt(before) | (value.eq(before) & found.gt(column));
                    (is_right & is_column & follows & element.eq(value), [value], found)
                });
            let better = k.for_(range(0i64, width), 0i64, |k, i, better| {
                let element = x.load(k, i).cvt::<f32>();
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
    use crate::ir::bf16;
    use crate::tune::tunable::Loadable;

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

    fn change<Y: Element>(y: &mut Buffer<Y>, at: usize, f: impl Fn(Y) -> Y) {
        let mut all = y.to_vec().unwrap();
        all[at] = f(all[at]);
        y.write(&all).unwrap();
    }

    #[test]
    fn one_wrong_result_is_found() {
        let rows = RowProblem { input_pitch: Some(306), ..RowProblem::new(3, 301) };
        let axis = AxisProblem { outer: 2, len: 30, inner: 5 };
        for op in RowReduceOp::ALL {
            if op == RowReduceOp::ArgMax {
                let of_rows = RowReduceTunable::<bf16, i32>::new(op, rows);
                check(&of_rows, |(_, y)| change(y, 2, |y| y + 1), "1 of 3 results differ");
                let of_axis = AxisReduceTunable::<f32, i32>::new(op, axis);
                check(&of_axis, |(_, y)| change(y, 9, |y| y + 1), "1 of 10 results differ");
            } else {
                let of_rows = RowReduceTunable::<bf16>::new(op, rows);
                check(&of_rows, |(_, y)| change(y, 2, |y| y + 1.0), "1 of 3 results differ");
                let of_axis = AxisReduceTunable::<f32>::new(op, axis);
                check(&of_axis, |(_, y)| change(y, 9, |y| y + 1.0), "1 of 10 results differ");
            }
        }
        let top = TopKTunable::<bf16>::new(5, rows);
        check(&top, |data| change(&mut data.1, 14, |y| y + 1.0), "1 of 3 rows differ");
        check(&top, |data| change(&mut data.2, 14, |y| y - 1), "1 of 3 rows differ");
    }
}
