//! [`AttentionTunable`]: attention forward as a [`Tunable`].

use std::fmt;
use std::marker::PhantomData;

use super::attention_reference::Attended;
use super::data::not_a_number;
use super::data::{self, Filler};
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::{Element, Target};
use tilewright::kernels::attention::{
    Attention, AttentionArgs, AttentionConfig, AttentionError, AttentionProblem,
};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{Buffer, Device, LaunchOptions, Stream};

/// Attention forward of `f16` or `bf16` tensors, as a [`Tunable`]. It tunes the tile, the stages,
/// and how softmax and MMAs are ordered. It does not support sequences of different lengths.
///
/// The check compares up to 1024 rows from all parts of the output with the definition, so every
/// row of a small problem.
///
/// ```
/// use tilewright::ir::{Target, bf16};
/// use tilewright::kernels::attention::AttentionProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{AttentionTunable, Effort, Regime, Tuner, TuningStore};
///
/// let problem = AttentionProblem::new([1, 2, 1], [5, 40], 64).causal();
/// let attention = AttentionTunable::<bf16>::new(problem);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim_for(Target::SM_80)?);
/// let tuned = tuner.tune(&attention, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("d64_128x"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AttentionTunable<T> {
    problem: AttentionProblem,
    elem: PhantomData<fn() -> T>,
}

impl<T> AttentionTunable<T> {
    /// Returns the tunable for this problem.
    pub const fn new(problem: AttentionProblem) -> Self {
        AttentionTunable { problem, elem: PhantomData }
    }
}

/// The tensors of an attention problem, on which an [`AttentionTunable`] launches its kernels.
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::kernels::attention::AttentionProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{AttentionTunable, Tunable};
///
/// // One sequence, 2 heads, 5 queries and 40 keys, dimension 64.
/// let problem = AttentionProblem::new([1, 2, 1], [5, 40], 64);
/// let data = AttentionTunable::<bf16>::new(problem).data(&Device::sim()?, 0)?;
/// assert_eq!((data.o.len(), data.lse.len()), (2 * 5 * 64, 2 * 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AttentionOperands<T> {
    /// Q, K and V.
    pub inputs: [Buffer<T>; 3],
    /// The output.
    pub o: Buffer<T>,
    /// The log-sum-exp of each query.
    pub lse: Buffer<f32>,
    /// A page table with one page per sequence, because the reference expects a paged cache.
    pages: Buffer<i32>,
}

impl<T: Element> fmt::Debug for AttentionOperands<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttentionOperands({:?}, {:?})", self.inputs, self.o)
    }
}

impl From<AttentionError> for Rejection {
    fn from(error: AttentionError) -> Rejection {
        match error {
            AttentionError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

/// The seeds of Q, K and V in the first set.
const SEEDS: [u32; 3] = [0x1357_9bdf, 0x2468_ace0, 0x5a69_7887];

/// Returns normally distributed Q, K and V.
pub(super) fn inputs<T: VectorElement<2> + Converted>(
    device: &Device,
    set: u32,
    [q, k, v, _]: [u64; 4],
) -> Result<[Buffer<T>; 3], Rejection> {
    let filler = Filler::new(device, T::SCALAR, &data::normal_table(0))?;
    let tensor = |i: usize, len: u64| {
        let seed = SEEDS[i].wrapping_add(set.wrapping_mul(0x9e37_79b9));
        filler.typed(seed, len as usize)
    };
    Ok([tensor(0, q)?, tensor(1, k)?, tensor(2, v)?])
}

impl<T: VectorElement<2> + Converted> Tunable for AttentionTunable<T> {
    type Config = AttentionConfig;
    type Kernel = Built<Attention<T>>;
    type Data = AttentionOperands<T>;

    fn key(&self) -> String {
        format!("attention of {} {:?}", T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<AttentionConfig> {
        AttentionConfig::candidates(device.target(), &self.problem)
    }

    fn check(&self, config: &AttentionConfig) -> Result<(), Rejection> {
        config.check()?;
        Ok(config.check_problem(&self.problem)?)
    }

    fn build(config: &AttentionConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Attention::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        let elements = self.problem.lens().into_iter().fold(0, u64::saturating_add);
        elements.saturating_mul(size_of::<T>() as u64).saturating_add(4 * self.problem.rows())
    }

    fn flops(&self) -> f64 {
        self.problem.flops()
    }

    fn data(&self, device: &Device, set: u32) -> Result<AttentionOperands<T>, Rejection> {
        self.problem.check()?;
        let lens = self.problem.lens();
        Ok(AttentionOperands {
            inputs: inputs(device, set, lens)?,
            o: device.zeros(lens[3] as usize)?,
            lse: device.zeros(self.problem.rows() as usize)?,
            pages: device.upload(&Vec::from_iter(0..self.problem.batch as i32))?,
        })
    }

    fn clear(&self, data: &mut AttentionOperands<T>, stream: &Stream) -> Result<(), Rejection> {
        data.o.fill(not_a_number(), stream)?;
        Ok(data.lse.fill(f32::NAN, stream)?)
    }

    fn launch(
        &self,
        _: &AttentionConfig,
        attention: &Loaded<Attention<T>>,
        data: &mut AttentionOperands<T>,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let AttentionOperands { inputs: [q, k, v], o, lse, .. } = data;
        let args = AttentionArgs { q, k, v, o, lse, starts: None };
        Ok(attention.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, data: &mut AttentionOperands<T>) -> Result<(), Rejection> {
        let AttentionProblem { batch, heads, key_heads, queries, keys, .. } = self.problem;
        let AttentionProblem { head_dim, value_dim, left, right, softcap, .. } = self.problem;
        let problem = &self.problem;
        let attended = Attended {
            dims: [head_dim, value_dim],
            strides: [
                problem.q_strides(),
                problem.k_strides(),
                problem.v_strides(),
                problem.o_strides(),
            ],
            batch,
            heads,
            group: heads.checked_div(key_heads).unwrap_or(1),
            queries,
            keys,
            page: keys,
            row: 1,
            window: [left, right],
            scale: problem.scale(),
            softcap,
        };
        let [q, k, v] = &data.inputs;
        attended.verify([q, k, v, &data.o], &data.lse, &data.pages)
    }
}
