//! Recomputes rows of an attention output from the definition, on the device, so that the tuner
//! rejects a kernel that is fast but wrong.

use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Target, Val, WARP, range,
};
use tilewright::runtime::{Buffer, Function, Grid};

use super::search::Rejection;

tilewright::params! {
    /// The attention problem and its result. K and V are in pages; contiguous keys count as one
    /// page per sequence.
    struct Params<T: Converted> => ParamsAt<'b, T> {
        q: Global<T>,
        k: Global<T>,
        v: Global<T>,
        o: Global<T>,
        lse: Global<f32>,
        /// Strides of Q and O (query, head, sequence), and of K and V (key in the page, head,
        /// page).
        q_strides: [i64; 3],
        k_strides: [i64; 3],
        v_strides: [i64; 3],
        o_strides: [i64; 3],
        /// The page table, its row length, and the keys per page and per sequence.
        table: Global<i32>,
        row: i64,
        page: i64,
        keys: i64,
        /// Queries per sequence, heads, heads per key head, and the total row count.
        queries: i64,
        heads: i64,
        group: i64,
        rows: i64,
        /// Query `i` sees the keys from `i + lower` to `i + upper`.
        lower: i64,
        upper: i64,
        /// The factor for scores, and the softcap if there is one.
        scale: f32,
        cap: f32,
        /// The relative errors of rounding to `T` and of the exponentials.
        unit: f32,
        powers: f32,
        /// How many rows to compare, and two counters: elements not written, and elements that
        /// differ.
        samples: i64,
        found: GlobalMut<u64>,
    }
}

/// An attention problem's sizes and strides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attended {
    /// The dimensions of queries and values, multiples of 32.
    pub(super) dims: [u32; 2],
    /// Strides of Q, K, V and O: from one position, head, and sequence or page to the next.
    pub(super) strides: [[u64; 3]; 4],
    /// Sequences, heads per sequence, heads per key head, and queries per head.
    pub(super) batch: u32,
    pub(super) heads: u32,
    pub(super) group: u32,
    pub(super) queries: u32,
    /// Keys per sequence, keys per page, and pages per row of the page table.
    pub(super) keys: u32,
    pub(super) page: u32,
    pub(super) row: u32,
    /// How many keys a query sees before and after its own position; `None` means all.
    pub(super) window: [Option<u32>; 2],
    pub(super) scale: f32,
    pub(super) softcap: Option<f32>,
}

/// How many rows are compared, or all if there are fewer.
const SAMPLES: u64 = 1024;
/// Threads per block.
const THREADS: u32 = 256;

impl Attended {
    /// Checks a result whose elements were NaN before the launch: none may be NaN now, and up to
    /// 1024 rows from all parts must match the definition. The tensors are Q, K, V and O.
    pub(super) fn verify<T: VectorElement<2> + Converted>(
        &self,
        [q, k, v, o]: [&Buffer<T>; 4],
        lse: &Buffer<f32>,
        table: &Buffer<i32>,
    ) -> Result<(), Rejection> {
        let device = o.device();
        let kernel = build::<T>(device.target(), self.dims, self.softcap.is_some())?;
        let kernel: Function<(Params<T>,)> = device.load(&kernel)?;
        let rows = u64::from(self.batch) * u64::from(self.heads) * u64::from(self.queries);
        let mut found = device.upload(&[0, 0])?;
        let samples = rows.min(SAMPLES);
        // Exponentials and results are rounded to `T`.
        let unit = match T::SCALAR {
            Scalar::Bf16 => 1.0 / 256.0,
            _ => 1.0 / 2048.0,
        };
        // An `f32` sum over all keys loses 2^-24 per key, scores and fast functions about 1e-5, and
        // `tanh.approx` 2^-11 of a score, which is at most the softcap.
        let sums = self.keys as f32 / (1 << 24) as f32;
        let powers = 1e-4 + sums + self.softcap.map_or(0.0, |cap| cap / 2048.0);
        let own = i64::from(self.keys) - i64::from(self.queries);
        let [left, right] = self.window.map(|bound| bound.map_or(1 << 32, i64::from));
        let [q_strides, k_strides, v_strides, o_strides] =
            self.strides.map(|strides| strides.map(|stride| stride as i64));
        let params = Params {
            q,
            k,
            v,
            o,
            lse,
            q_strides,
            k_strides,
            v_strides,
            o_strides,
            table,
            row: self.row.into(),
            page: self.page.into(),
            keys: self.keys.into(),
            queries: self.queries.into(),
            heads: self.heads.into(),
            group: self.group.into(),
            rows: rows as i64,
            lower: own - left,
            upper: own + right,
            scale: self.scale,
            cap: self.softcap.unwrap_or(1.0),
            unit,
            powers,
            samples: samples as i64,
            found: &mut found,
        };
        let blocks = rows.div_ceil(u64::from(THREADS / 32)).clamp(1, 1 << 12) as u32;
        kernel.launch(Grid::new([blocks, 1, 1], [THREADS, 1, 1]), (params,))?;
        match found.to_vec()?[..] {
            [0, 0] => Ok(()),
            [missing, wrong] => Err(Rejection::Wrong(format!(
                "{missing} elements are not numbers, and {wrong} elements of {samples} rows differ"
            ))),
            _ => Ok(()),
        }
    }
}

/// Builds the kernel. Each warp checks whole rows.
fn build<T: VectorElement<2> + Converted>(
    target: Target,
    dims: [u32; 2],
    softcap: bool,
) -> Result<Kernel<(Params<T>,)>, BuildErrors> {
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    Kernel::<(Params<T>,)>::build_with(options, "compare", target, |k, (args,)| {
        let thread = k.block_idx().x * THREADS as i32 + k.thread_idx().x;
        let warp = k.shfl_idx(WARP, thread / 32, 0).cvt::<i64>();
        let warps = (k.grid_dim().x * (THREADS / 32) as i32).cvt::<i64>();
        let lane = k.lane_id();
        k.for_(range(warp, args.rows).step(warps), (), |k, number, ()| {
            Row { args: &args, dims, softcap, number, lane }.check_written(k);
        });
        k.for_(range(warp, args.samples).step(warps), (), |k, sample, ()| {
            let number = sample * (args.rows - 1) / (args.samples - 1).max(1);
            Row { args: &args, dims, softcap, number, lane }.compare(k);
        });
    })
}

/// One row of the output. A lane has every 32nd column.
struct Row<'p, 'a, 'b, T: Converted> {
    args: &'p ParamsAt<'a, T>,
    dims: [u32; 2],
    softcap: bool,
    /// The row's index, in the order (sequence, head, query).
    number: Val<'b, i64>,
    lane: Val<'b, i32>,
}

impl<'a: 'b, 'b, T: Converted> Row<'_, 'a, 'b, T> {
    /// Returns sequence, head and query.
    fn place(&self) -> [Val<'b, i64>; 3] {
        let (heads, queries) = (self.args.heads, self.args.queries);
        let head = self.number / queries;
        [head / heads, head % heads, self.number % queries]
    }

    /// Returns the offset of the lane's first column of this row in Q or O.
    fn offset(&self, [of_query, of_head, of_sequence]: [Val<'a, i64>; 3]) -> Val<'b, i64> {
        let [sequence, head, query] = self.place();
        let row = query * of_query + head * of_head + sequence * of_sequence;
        row + self.lane.cvt::<i64>()
    }

    /// Returns the offsets of the lane's first column for a key in K, and for its value in V.
    fn offsets_of_key(&self, key: Val<'b, i64>) -> [Val<'b, i64>; 2] {
        let ParamsAt { table, row, page, group, k_strides, v_strides, .. } = self.args;
        let [sequence, head, _] = self.place();
        let (key_head, lane) = (head / *group, self.lane.cvt::<i64>());
        let number = table.load(sequence * *row + key / *page).cvt::<i64>();
        [k_strides, v_strides].map(|[of_key, of_head, of_page]| {
            key % *page * *of_key + key_head * *of_head + number * *of_page + lane
        })
    }

    /// Returns a key's score, the same in all lanes.
    fn score(&self, k: &Body<'b, '_>, q: &[Val<'b, f32>], at: Val<'b, i64>) -> Val<'b, f32> {
        let mut sum: Val<'b, f32> = k.constant(0.0);
        for (i, q) in (0..).zip(q) {
            sum = self.args.k.load(at + 32 * i).cvt::<f32>().fma(*q, sum);
        }
        for distance in [16, 8, 4, 2, 1] {
            sum += k.shfl_bfly(WARP, sum, distance);
        }
        let (score, cap) = (sum * self.args.scale, self.args.cap);
        if self.softcap { (score / cap).tanh() * cap } else { score }
    }

    /// Counts the elements that are NaN, so were not written.
    fn check_written(&self, k: &mut Body<'b, '_>) {
        let ParamsAt { o, lse, o_strides, found, .. } = self.args;
        let at = self.offset(*o_strides);
        for i in 0..i64::from(self.dims[1] / 32) {
            let element = o.load(at + 32 * i).cvt::<f32>();
            k.if_(!element.eq(element), |_| found.red().add(0, 1));
        }
        let element = lse.load(self.number);
        k.if_(!element.eq(element) & self.lane.eq(0), |_| found.red().add(0, 1));
    }

    /// Counts the elements that differ from the definition.
    fn compare(&self, k: &mut Body<'b, '_>) {
        let ParamsAt { q, v, o, lse, q_strides, o_strides, keys, lower, upper, .. } = self.args;
        let ParamsAt { unit, powers, found, .. } = self.args;
        let at = self.offset(*q_strides);
        let steps = |dim: u32| 0..i64::from(dim / 32);
        let q: Vec<_> = steps(self.dims[0]).map(|i| q.load(at + 32 * i).cvt::<f32>()).collect();
        let [_, _, query] = self.place();
        let low = (query + *lower).max(0).min(*keys);
        let high = (query + *upper + 1).min(*keys).max(low);
        let max = k.for_(range(low, high), f32::NEG_INFINITY, |k, key, max| {
            let [at, _] = self.offsets_of_key(key);
            max.max(self.score(k, &q, at))
        });
        let sum = k.var(0.0f64);
        // Sums of the lane's values, and of their magnitudes.
        let columns: Vec<_> = steps(self.dims[1]).map(|_| (k.var(0.0f64), k.var(0.0f64))).collect();
        k.for_(range(low, high), (), |k, key, ()| {
            let [at, of_value] = self.offsets_of_key(key);
            let power = (self.score(k, &q, at) - max).exp().cvt::<f64>();
            sum.set(sum.get() + power);
            for (i, (value, magnitude)) in (0..).zip(&columns) {
                let v = v.load(of_value + 32 * i).cvt::<f32>();
                value.set(value.get() + power * v.cvt::<f64>());
                magnitude.set(magnitude.get() + power * v.abs().cvt::<f64>());
            }
        });
        let (sum, at) = (sum.get(), self.offset(*o_strides));
        let is_seen = sum.gt(0.0);
        for (i, (value, magnitude)) in (0..).zip(&columns) {
            let [expected, magnitude] =
                [value, magnitude].map(|of| is_seen.select(of.get() / sum, 0.0).cvt::<f32>());
            // An error in all exponentials affects numerator and denominator; their rounding
            // affects the numerator only.
            let slack = (*unit + *powers * 2.0) * magnitude + *unit * expected.abs();
            let element = o.load(at + 32 * i).cvt::<f32>();
            let is_close = (element - expected).abs().le(slack);
            k.if_(!is_close, |_| found.red().add(1, 1));
        }
        let expected = is_seen.select(max + sum.cvt::<f32>().ln(), f32::NEG_INFINITY);
        let element = lse.load(self.number);
        let is_close = element.eq(expected) | (element - expected).abs().le(*powers);
        k.if_(!is_close & self.lane.eq(0), |_| found.red().add(1, 1));
    }
}

#[cfg(test)]
mod tests {
    use crate::tunable::{Loadable, Tunable};
    use crate::{AttentionTunable, DecodeTunable};
    use tilewright::ir::{Target, bf16, f16};
    use tilewright::kernels::attention::AttentionProblem;
    use tilewright::kernels::decode::DecodeProblem;
    use tilewright::runtime::{Buffer, Device, LaunchOptions};

    use super::*;

    /// Launches the first configuration of `launched` on the data of `expected`.
    fn data<K: Tunable>(device: &Device, launched: &K, expected: &K) -> K::Data {
        let config = launched.space(device).swap_remove(0);
        assert_eq!(launched.check(&config), Ok(()));
        let function = K::build(&config, device.target()).unwrap().load(device).unwrap();
        let mut data = expected.data(device, 0).unwrap();
        expected.clear(&mut data, &device.stream().unwrap()).unwrap();
        device.synchronize().unwrap();
        launched.launch(&config, &function, &mut data, LaunchOptions::default()).unwrap();
        data
    }

    fn change<T: Converted>(buffer: &mut Buffer<T>, at: usize, change: impl Fn(T) -> T) {
        let mut all = buffer.to_vec().unwrap();
        all[at] = change(all[at]);
        buffer.write(&all).unwrap();
    }

    #[track_caller]
    fn check_wrong(found: Result<(), Rejection>, [missing, rows, wrong]: [u32; 3]) {
        let text = format!(
            "{missing} elements are not numbers, and {wrong} elements of {rows} rows differ"
        );
        assert_eq!(found, Err(Rejection::Wrong(text)));
    }

    fn problems() -> [AttentionProblem; 4] {
        let problem = AttentionProblem::new([2, 2, 1], [13, 21], 64);
        let rows = Some([3 * 64, 64, 13 * 3 * 64]);
        [
            AttentionProblem { softcap: Some(5.0), ..problem },
            AttentionProblem { q: rows, ..problem.causal() },
            AttentionProblem { left: Some(3), o: rows, heads: 3, key_heads: 3, ..problem.causal() },
            // The first queries see no key.
            AttentionProblem { keys: 10, value_dim: 32, scale: Some(0.5), ..problem.causal() },
        ]
    }

    #[test]
    fn results_are_right_and_one_wrong_element_is_found() {
        let device = Device::sim_for(Target::SM_80).unwrap();
        for problem in problems() {
            let attention = AttentionTunable::<bf16>::new(problem);
            let mut found = data(&device, &attention, &attention);
            assert_eq!(attention.verify(&mut found), Ok(()), "{problem:?}");
            let rows = problem.rows() as u32;
            change(&mut found.o, 0, |_| bf16::from_f32(3.0));
            check_wrong(attention.verify(&mut found), [0, rows, 1]);
            change(&mut found.o, 0, |_| bf16::NAN);
            check_wrong(attention.verify(&mut found), [1, rows, 1]);
        }
        let attention = AttentionTunable::<f16>::new(problems()[1]);
        let mut found = data(&device, &attention, &attention);
        assert_eq!(attention.verify(&mut found), Ok(()));
        change(&mut found.lse, 30, |lse| lse + 0.01);
        check_wrong(attention.verify(&mut found), [0, 2 * 2 * 13, 1]);
    }

    /// The mask hides one key too few.
    #[test]
    fn a_kernel_with_a_wrong_mask_is_found() {
        let device = Device::sim_for(Target::SM_80).unwrap();
        let right = AttentionProblem::new([1, 1, 1], [32, 32], 64).causal();
        let wrong = AttentionTunable::new(AttentionProblem { right: Some(1), ..right });
        let right = AttentionTunable::<bf16>::new(right);
        let mut found = data(&device, &wrong, &right);
        assert!(matches!(right.verify(&mut found), Err(Rejection::Wrong(_))));
    }

    /// Rows that are not compared must still be written.
    #[test]
    fn an_element_that_is_not_written_is_found_in_any_row() {
        let device = Device::sim_for(Target::SM_80).unwrap();
        let attention =
            AttentionTunable::<f16>::new(AttentionProblem::new([1, 2, 1], [1100, 1], 32));
        let mut found = data(&device, &attention, &attention);
        assert_eq!(attention.verify(&mut found), Ok(()));
        change(&mut found.o, 32, |_| f16::NAN);
        check_wrong(attention.verify(&mut found), [1, 1024, 0]);
    }

    #[test]
    fn decode_steps_are_right_and_one_wrong_element_is_found() {
        let device = Device::sim().unwrap();
        let problem = DecodeProblem::new([3, 4, 2], 64, [40, 16, 10]);
        let problem = DecodeProblem { queries: 2, max_len: 150, ..problem };
        // The second pool is smaller than the table, the third is empty.
        for pages in [40, 7, 0] {
            let decode = DecodeTunable::<bf16>::new(DecodeProblem { pages, ..problem });
            let mut found = data(&device, &decode, &decode);
            assert_eq!(decode.verify(&mut found), Ok(()), "{pages}");
            change(&mut found.o, 3 * 4 * 2 * 64 - 1, |_| bf16::from_f32(2.0));
            check_wrong(decode.verify(&mut found), [0, 24, 1]);
        }
        let short = DecodeTunable::new(DecodeProblem { max_len: 149, ..problem });
        let decode = DecodeTunable::<bf16>::new(problem);
        let mut found = data(&device, &short, &decode);
        assert!(matches!(decode.verify(&mut found), Err(Rejection::Wrong(_))));
    }
}
