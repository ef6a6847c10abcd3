//! [`DecodeTunable`]: a decode step over a paged KV cache as a [`Tunable`].

use std::fmt;
use std::marker::PhantomData;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::attention::inputs;
use super::attention_reference::Attended;
use super::data::not_a_number;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{Element, Target};
use tilewright::kernels::decode::{
    Decode, DecodeArgs, DecodeConfig, DecodeError, DecodePlan, DecodeProblem,
};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{Buffer, Device, LaunchOptions, Stream};

/// A configuration of a decode step: the kernel, and into how many splits it cuts a sequence. Its
/// name is, for example, `d128_w4_s3` or `d128_w4_s3_splits8`.
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::kernels::decode::DecodeConfig;
/// use tilewright_tune::DecodeChoice;
///
/// let kernel = DecodeConfig::new(Target::SM_90A, 128)?;
/// let choice = DecodeChoice { kernel, splits: Some(8) };
/// assert_eq!(choice.to_string(), format!("{kernel}_splits8"));
/// # Ok::<(), tilewright::kernels::decode::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeChoice {
    /// The kernel's configuration.
    pub kernel: DecodeConfig,
    /// Splits per sequence, or `None` for the kernel's own plan.
    pub splits: Option<u32>,
}

impl DecodeChoice {
    /// Returns the plan to launch with.
    pub fn plan<T: VectorElement<2>>(
        &self,
        decode: &Loaded<Decode<T>>,
        problem: &DecodeProblem,
    ) -> DecodePlan {
        match self.splits {
            None => decode.plan(problem),
            Some(splits) => DecodePlan::split(problem, splits),
        }
    }
}

impl fmt::Display for DecodeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kernel)?;
        self.splits.map_or(Ok(()), |splits| write!(f, "_splits{splits}"))
    }
}

/// Decode attention, one step for sequences of `max_len` keys each, as a [`Tunable`]. It tunes
/// warps, stages and splits.
///
/// The pages of a sequence are scattered over the pool. Results are checked as those of an
/// [`AttentionTunable`](super::AttentionTunable).
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::kernels::decode::DecodeProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{DecodeTunable, Effort, Regime, Tuner, TuningStore};
///
/// // Two sequences of 128 keys, 4 heads that share one head of keys; 16 pages of 16 tokens.
/// let decode = DecodeTunable::<bf16>::new(DecodeProblem::new([2, 4, 1], 64, [16, 16, 8]));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&decode, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("d64_w4_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DecodeTunable<T> {
    problem: DecodeProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> DecodeTunable<T> {
    /// Returns the tunable for this decode step.
    pub const fn new(problem: DecodeProblem) -> Self {
        DecodeTunable { problem, elem: PhantomData }
    }

    /// Returns how many keys each sequence has: 0 if the pool has no pages.
    fn keys(&self) -> u32 {
        if self.problem.pages == 0 { 0 } else { self.problem.max_len }
    }
}

/// A decode step's tensors, on which a [`DecodeTunable`] launches its kernels.
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::kernels::decode::DecodeProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{DecodeTunable, Tunable};
///
/// // Two sequences of up to 8 pages each.
/// let problem = DecodeProblem::new([2, 4, 1], 64, [16, 16, 8]);
/// let data = DecodeTunable::<bf16>::new(problem).data(&Device::sim()?, 0)?;
/// assert_eq!((data.table.len(), data.lens.len()), (2 * 8, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DecodeOperands<T> {
    /// Q, the pool of K, and the pool of V.
    pub inputs: [Buffer<T>; 3],
    /// The page table: each sequence's pages.
    pub table: Buffer<i32>,
    /// How many keys each sequence has.
    pub lens: Buffer<i32>,
    /// The output.
    pub o: Buffer<T>,
    /// The log-sum-exp of each query.
    pub lse: Buffer<f32>,
}

impl<T: Element> fmt::Debug for DecodeOperands<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecodeOperands({:?}, {:?})", self.inputs, self.o)
    }
}

impl From<DecodeError> for Rejection {
    fn from(error: DecodeError) -> Rejection {
        match error {
            DecodeError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl<T: VectorElement<2> + Converted> Tunable for DecodeTunable<T> {
    type Config = DecodeChoice;
    type Kernel = Built<Decode<T>>;
    type Data = DecodeOperands<T>;

    fn key(&self) -> String {
        format!("decode of {} {:?}", T::SCALAR, self.problem)
    }

    /// The first kernel with its own plan and with other split counts, then the other kernels with
    /// their own plans.
    fn space(&self, device: &Device) -> Vec<DecodeChoice> {
        let kernels = DecodeConfig::candidates(device.target(), self.problem.head_dim);
        let Some((first, others)) = kernels.split_first() else { return Vec::new() };
        // A split has at least 64 keys.
        let most = self.problem.visible(self.problem.max_len).div_ceil(64).clamp(1, 256);
        let splits = (0..=8).map(|power| 1 << power).take_while(|splits| *splits <= most);
        let splits = std::iter::once(None).chain(splits.map(Some));
        let of_first = splits.map(|splits| DecodeChoice { kernel: *first, splits });
        let others = others.iter().map(|kernel| DecodeChoice { kernel: *kernel, splits: None });
        of_first.chain(others).collect()
    }

    fn check(&self, config: &DecodeChoice) -> Result<(), Rejection> {
        config.kernel.check()?;
        Ok(self.problem.check()?)
    }

    fn build(config: &DecodeChoice, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Decode::new(config.kernel)?)
    }

    fn bytes(&self) -> u64 {
        let [q, _, _, o] = self.problem.lens();
        let cached = self.problem.bytes([self.keys()]).saturating_mul(self.problem.batch.into());
        let rows = q.saturating_add(o).saturating_mul(size_of::<T>() as u64);
        cached.saturating_add(rows).saturating_add(4 * self.problem.rows())
    }

    fn data(&self, device: &Device, set: u32) -> Result<DecodeOperands<T>, Rejection> {
        self.problem.check()?;
        let DecodeProblem { batch, pages, max_pages, .. } = self.problem;
        let lens = self.problem.lens();
        // Sequences share pages only if the pool has too few.
        let count = i64::from(batch) * i64::from(max_pages);
        let mut table: Vec<i32> =
            (0..count).map(|entry| (entry % i64::from(pages.max(1))) as i32).collect();
        table.shuffle(&mut ChaCha8Rng::seed_from_u64(set.into()));
        Ok(DecodeOperands {
            inputs: inputs(device, set, lens)?,
            table: device.upload(&table)?,
            lens: device.upload(&vec![self.keys() as i32; batch as usize])?,
            o: device.zeros(lens[3] as usize)?,
            lse: device.zeros(self.problem.rows() as usize)?,
        })
    }

    fn clear(&self, data: &mut DecodeOperands<T>, stream: &Stream) -> Result<(), Rejection> {
        data.o.fill(not_a_number(), stream)?;
        Ok(data.lse.fill(f32::NAN, stream)?)
    }

    fn launch(
        &self,
        config: &DecodeChoice,
        decode: &Loaded<Decode<T>>,
        data: &mut DecodeOperands<T>,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let DecodeOperands { inputs: [q, k, v], table, lens, o, lse } = data;
        let plan = Some(config.plan(decode, &self.problem));
        let args = DecodeArgs { q, k, v, table, lens, sinks: None, o, lse: Some(lse), plan };
        Ok(decode.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, data: &mut DecodeOperands<T>) -> Result<(), Rejection> {
        let DecodeProblem { batch, heads, queries, head_dim, page, max_pages, .. } = self.problem;
        let problem = &self.problem;
        let attended = Attended {
            dims: [head_dim; 2],
            strides: [
                problem.q_strides(),
                problem.k_strides(),
                problem.v_strides(),
                problem.o_strides(),
            ],
            batch,
            heads,
            group: problem.group().max(1),
            queries,
            keys: self.keys(),
            page,
            row: max_pages,
            window: [problem.window.map(|window| window - 1), Some(0)],
            scale: problem.scale(),
            softcap: None,
        };
        let [q, k, v] = &data.inputs;
        attended.verify([q, k, v, &data.o], &data.lse, &data.table)
    }
}
