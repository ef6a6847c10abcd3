//! [`AttentionFunction`]: an attention kernel loaded on a device. Checks buffers, makes tensor
//! maps, and launches.

use std::sync::{Mutex, PoisonError};

use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions, LoadOptions};
use crate::tensor::pipeline::Sequences;

use super::Attention;
use super::config::AttentionConfig;
use super::error::AttentionError;
use super::plan::{
    AnyKernel, BySequence, ByThreads, Inputs, Operands, Params, Plan, SequenceParams, TensorKernel,
    Whole,
};
use super::problem::AttentionProblem;

/// How many bytes of K and V the heads of a section may have. Blocks work through one section after
/// the other, so that its K and V stay in the L2 cache.
const SECTION: u64 = 24 << 20;

/// Bytes that a thread copies at a time.
const VECTOR: u32 = 16;

/// The buffers of an attention launch, for [`AttentionFunction::launch`]. Their sizes and strides
/// are in the [`AttentionProblem`].
pub struct AttentionArgs<'h, T> {
    /// Q.
    pub q: &'h Buffer<T>,
    /// K.
    pub k: &'h Buffer<T>,
    /// V.
    pub v: &'h Buffer<T>,
    /// O, the output.
    pub o: &'h mut Buffer<T>,
    /// The LSE: per query, the logarithm of the sum of its exponentials. Compact in the order
    /// batch, head, query.
    pub lse: &'h mut Buffer<f32>,
}

/// An [`Attention`] loaded on a device, made by [`Attention::load`]. Load it once; each
/// [`launch`](AttentionFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct AttentionFunction<T: VectorElement<2>> {
    config: AttentionConfig,
    function: AnyFunction<T>,
    sms: u32,
    /// Passed in place of K and V if there are no keys.
    none: Buffer<T>,
    /// Passed in place of sequence starts if all sequences have one length.
    no_starts: Buffer<i32>,
    /// How many work items the blocks of a launch have drawn. Because of it, launches of one
    /// function run one after the other.
    taken: Mutex<Buffer<u32>>,
}

#[derive(Debug)]
enum AnyFunction<T: VectorElement<2>> {
    Tensor(Box<Plan>, TensorFunction<T>),
    Threads(Function<ByThreads<T>>),
}

#[derive(Debug)]
enum TensorFunction<T: VectorElement<2>> {
    Whole(Function<Whole<T>>),
    Sequences(Function<BySequence<T>>),
}

impl<T: VectorElement<2>> Attention<T> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AttentionFunction<T>, AttentionError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Same as [`load`](Attention::load), with load options: for example access checks.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<AttentionFunction<T>, AttentionError> {
        // The simulator runs blocks one after the other. With only two, each has several tiles, as
        // on a GPU.
        let sms = device.properties().map_or(2, |properties| properties.sm_count);
        let function = match &self.kernel {
            AnyKernel::Tensor(plan, kernel) => {
                let function = match kernel {
                    TensorKernel::Whole(kernel) => {
                        TensorFunction::Whole(device.load_with(options, kernel)?)
                    }
                    TensorKernel::Sequences(kernel) => {
                        TensorFunction::Sequences(device.load_with(options, kernel)?)
                    }
                };
                AnyFunction::Tensor(plan.clone(), function)
            }
            AnyKernel::Threads(kernel) => AnyFunction::Threads(device.load_with(options, kernel)?),
        };
        let (none, no_starts) = (device.zeros(256)?, device.zeros(1)?);
        let (config, taken) = (self.config, Mutex::new(device.zeros(1)?));
        Ok(AttentionFunction { config, function, sms, none, no_starts, taken })
    }
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), AttentionError> {
    let found = found as u64;
    if found < needed {
        return Err(AttentionError::BufferLength { operand, found, needed });
    }
    Ok(())
}

/// Checks that threads can copy rows of Q, K, V and O as vectors.
fn check_aligned<T: VectorElement<2>>(
    problem: &AttentionProblem,
    buffers: [&Buffer<T>; 4],
) -> Result<(), AttentionError> {
    let strides =
        [problem.q_strides(), problem.k_strides(), problem.v_strides(), problem.o_strides()];
    let (bytes, elements) = (VECTOR, u64::from(VECTOR) / size_of::<T>() as u64);
    let operands = ["Q", "K", "V", "O"].into_iter().zip(buffers).zip(strides);
    for ((operand, buffer), strides) in operands {
        let whole = strides.iter().all(|stride| stride.is_multiple_of(elements));
        if !whole || !buffer.is_aligned_to(bytes.into()) {
            return Err(AttentionError::Alignment { operand, bytes });
        }
    }
    Ok(())
}

impl<T: VectorElement<2>> AttentionFunction<T> {
    /// Returns the configuration.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// Returns the log of the driver's compiler (`ptxas`).
    pub fn compiler_log(&self) -> &str {
        match &self.function {
            AnyFunction::Tensor(_, TensorFunction::Whole(function)) => function.compiler_log(),
            AnyFunction::Tensor(_, TensorFunction::Sequences(function)) => function.compiler_log(),
            AnyFunction::Threads(function) => function.compiler_log(),
        }
    }

    /// Launches the kernel on the default stream. Does nothing if there are no queries. Launches of
    /// one function run one after the other, even on different streams, because they share a
    /// counter.
    ///
    /// # Errors
    /// Those of [`AttentionConfig::check_problem`]; buffers that are too short; strides that are
    /// not multiples of 16 bytes; those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
    ) -> Result<(), AttentionError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// Same as [`launch`](AttentionFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](AttentionFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
    ) -> Result<(), AttentionError> {
        self.start(options, problem, args, None)
    }

    /// Launches with options, for sequences of different lengths. `starts` are those of Q and of K:
    /// the first position of each sequence, ascending from 0, then the total. The LSE is compact in
    /// the order head, position.
    ///
    /// A tile can read keys and values of the next sequence and multiply them by 0. So all of K and
    /// V must be finite.
    ///
    /// # Errors
    /// Those of [`launch`](AttentionFunction::launch).
    pub fn launch_varlen(
        &self,
        options: LaunchOptions<'_>,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
        starts: [&Buffer<i32>; 2],
    ) -> Result<(), AttentionError> {
        self.start(options, problem, args, Some(starts))
    }

    fn start(
        &self,
        options: LaunchOptions<'_>,
        problem: &AttentionProblem,
        args: AttentionArgs<'_, T>,
        starts: Option<[&Buffer<i32>; 2]>,
    ) -> Result<(), AttentionError> {
        let config = &self.config;
        config.check_problem(problem)?;
        if problem.varlen != starts.is_some() {
            let with = if problem.varlen { "with" } else { "without" };
            let what = if problem.varlen { "no list of sequences" } else { "a list of sequences" };
            return Err(AttentionError::Feature { what, with });
        }
        let AttentionProblem { heads, key_heads, queries, keys, .. } = *problem;
        let batch = problem.tensor_batch();
        let AttentionProblem { head_dim, value_dim, .. } = *problem;
        if problem.is_empty() {
            return Ok(());
        }
        let lens = [args.q.len(), args.k.len(), args.v.len(), args.o.len()];
        for ((operand, found), needed) in
            ["Q", "K", "V", "O"].into_iter().zip(lens).zip(problem.lens())
        {
            check_len(operand, found, needed)?;
        }
        check_len("the LSE", args.lse.len(), problem.rows())?;
        let (k, v) = if keys == 0 { (&self.none, &self.none) } else { (args.k, args.v) };
        let names = ["the starts of Q", "the starts of K"];
        for (operand, starts) in names.into_iter().zip(starts.into_iter().flatten()) {
            check_len(operand, starts.len(), u64::from(problem.batch) + 1)?;
        }
        let row_tiles = match problem.varlen {
            true => Sequences::slots(queries, problem.batch, config.queries_of_tile()),
            false => queries.div_ceil(config.queries_of_tile()).into(),
        };
        // Heads that share a tile count as one.
        let own_heads = heads / config.packed_heads;
        let items = row_tiles * u64::from(batch * own_heads);
        let max = (1 << 31) - 1;
        if items > max {
            return Err(AttentionError::TooLarge { what: "the tile count", found: items, max });
        }
        let is_persistent = !matches!(self.function, AnyFunction::Threads(_));
        let blocks = if is_persistent { items.min(self.sms.into()) } else { items };
        let of_head = u64::from(keys.max(1)) * u64::from(head_dim + value_dim) * 2;
        let group = own_heads / key_heads.max(1);
        let section = (SECTION / of_head).clamp(1, 1 << 20) as u32 * group;
        let offset = if problem.varlen { 0 } else { keys as i32 - queries as i32 };
        let cap = problem.softcap.unwrap_or(1.0);
        let exponent = if config.softcap { cap } else { problem.scale() };
        let grid = Grid::new([blocks as u32, 1, 1], [config.threads(), 1, 1]);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let params = Params {
            lse: args.lse,
            taken: &mut *taken,
            row_tiles: row_tiles as i32,
            heads: own_heads as i32,
            all_heads: (batch * own_heads) as i32,
            group: group as i32,
            section: section as i32,
            queries: queries as i32,
            keys: keys as i32,
            lower: offset - problem.left.unwrap_or(0) as i32,
            upper: offset + problem.right.unwrap_or(0) as i32,
            scale: exponent * std::f32::consts::LOG2_E,
            inner: problem.scale() / cap,
        };
        let [q_starts, k_starts] = starts.unwrap_or([&self.no_starts; 2]);
        let strides = problem.o_strides().map(|stride| stride as i64);
        let count = problem.batch as i32;
        let launched = match &self.function {
            AnyFunction::Tensor(plan, function) => {
                let [q_map, k_map, v_map, o_map] = plan.maps(problem)?;
                let inputs = Inputs {
                    q: &args.q.tensor_map(&q_map)?,
                    k: &k.tensor_map(&k_map)?,
                    v: &v.tensor_map(&v_map)?,
                };
                match function {
                    TensorFunction::Whole(function) => {
                        let o = &mut args.o.tensor_map_mut(&o_map)?;
                        function.launch_with(options, grid, (inputs, o, params))
                    }
                    TensorFunction::Sequences(function) => {
                        check_aligned(problem, [args.q, k, v, args.o])?;
                        let to = SequenceParams { o: args.o, strides, q_starts, k_starts, count };
                        function.launch_with(options, grid, (inputs, to, params))
                    }
                }
            }
            AnyFunction::Threads(function) => {
                check_aligned(problem, [args.q, k, v, args.o])?;
                let to = SequenceParams { o: args.o, strides, q_starts, k_starts, count };
                let strides = [problem.q_strides(), problem.k_strides(), problem.v_strides()];
                let strides = strides.map(|of_one| of_one.map(|stride| stride as i64));
                let operands = Operands { q: args.q, k, v, strides };
                function.launch_with(options, grid, (operands, to, params))
            }
        };
        if launched.is_err() && taken.device().is_sim() {
            // The blocks that the simulator stopped have not drawn all items.
            *taken = taken.device().zeros(1)?;
        }
        Ok(launched?)
    }
}
