//! [`MemoryTunable`]: copy and read kernels, the bandwidth baseline for memory-bound kernels. Time
//! them next to a kernel of your own to see what share of the bandwidth it reaches.

use std::fmt;

use super::data;
use super::definition::Definition;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::op::LoadAccess;
use tilewright::ir::types::Scalar;
use tilewright::ir::{BuildErrors, Global, GlobalMut, Kernel, Target, Untyped, Val, Vector};
use tilewright::runtime::{AnyBuffer, Device, Function, Grid, LaunchOptions, Stream};

/// A copy or a read of memory, as a [`Tunable`]. A copy reads one half of the bytes and writes the
/// other; a read only reads. The fastest configuration shows the device's memory bandwidth.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, MemoryTunable, Regime, Tunable, Tuner, TuningStore};
///
/// let copy = MemoryTunable::new(40_000, false);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&copy, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((copy.key(), tuned.measured), ("copy of 40000 bytes".to_owned(), 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemoryTunable {
    bytes: u64,
    only_reads: bool,
}

impl MemoryTunable {
    /// Moves this many bytes, rounded down to whole 16-byte vectors, but at least one. Pass the
    /// bytes that your own kernel moves, to compare it with a plain copy.
    pub const fn new(bytes: u64, only_reads: bool) -> Self {
        MemoryTunable { bytes, only_reads }
    }

    /// Returns how many vectors are read.
    fn vectors(&self) -> u64 {
        (self.bytes / if self.only_reads { 16 } else { 32 }).clamp(1, 1 << 30)
    }
}

/// The configuration of a [`MemoryTunable`]: how many threads a block has, and how many loads each
/// keeps in flight.
///
/// ```
/// use tilewright_tune::MemoryConfig;
/// let config = MemoryConfig { threads: 256, vectors: 4, only_reads: false };
/// assert_eq!(config.to_string(), "copy_256x4");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryConfig {
    /// Threads per block.
    pub threads: u32,
    /// 16-byte vectors that each thread has in flight.
    pub vectors: u32,
    /// True for a read kernel, which stores nothing; false for a copy.
    pub only_reads: bool,
}

/// Prints the configuration's name: `copy_256x4` or `read_256x4`.
impl fmt::Display for MemoryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.only_reads { "read" } else { "copy" };
        write!(f, "{name}_{}x{}", self.threads, self.vectors)
    }
}

/// Source, destination, count of 16-byte vectors.
type Params = (Global<f32>, GlobalMut<f32>, i32);

/// Builds the kernel. A read kernel stores only if all of a thread's words have all bits set, which
/// never happens, so that the compiler cannot drop the loads.
fn build(config: MemoryConfig, target: Target) -> Result<Kernel<Params>, BuildErrors> {
    let MemoryConfig { threads, vectors, only_reads } = config;
    Kernel::<Params>::build(&config.to_string(), target, |k, (x, y, count)| {
        let first = k.block_idx().x * (threads * vectors) as i32 + k.thread_idx().x;
        let at: Vec<Val<'_, i32>> = (0..vectors).map(|i| first + (i * threads) as i32).collect();
        let zero: Val<'_, Vector<u32, 4>> = Val::splat(k.constant(0u32));
        let (x, y) = (x.ptr_cast::<u32>(), y.ptr_cast::<u32>());
        let access = LoadAccess::default().non_coherent();
        let mut loaded = Vec::new();
        for at in &at {
            loaded.push(k.if_with(at.lt(count), zero, |_| {
                x.load_vector_with::<4>(at.cvt::<i64>() * 4, access)
            }));
        }
        if only_reads {
            let words = loaded.iter().flat_map(|vector| vector.lanes());
            let all = words.fold(k.constant(u32::MAX), |all, word| all & word);
            return k.if_(all.eq(u32::MAX), |_| y.store(0, all));
        }
        for (at, vector) in at.iter().zip(loaded) {
            k.if_(at.lt(count), |_| y.store_vector(at.cvt::<i64>() * 4, vector));
        }
    })
}

impl Tunable for MemoryTunable {
    type Config = MemoryConfig;
    type Kernel = Kernel<Untyped>;
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        let name = if self.only_reads { "read" } else { "copy" };
        format!("{name} of {} bytes", self.bytes)
    }

    fn space(&self, _: &Device) -> Vec<MemoryConfig> {
        let sizes = [[256, 1], [256, 2], [256, 4], [512, 4], [1024, 4]];
        let only_reads = self.only_reads;
        sizes.map(|[threads, vectors]| MemoryConfig { threads, vectors, only_reads }).into()
    }

    fn build(config: &MemoryConfig, target: Target) -> Result<Kernel<Untyped>, Rejection> {
        Ok(build(*config, target)?.untyped())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn only_reads(&self) -> bool {
        self.only_reads
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let len = 4 * self.vectors() as usize;
        let written = if self.only_reads { 1 } else { len };
        let x = data::normal(device, Scalar::F32, set, len)?;
        Ok([x, AnyBuffer::zeros(device, Scalar::F32, written)?])
    }

    fn clear(&self, [_, y]: &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(0, stream)?)
    }

    fn launch(
        &self,
        config: &MemoryConfig,
        function: &Function<Untyped>,
        [x, y]: &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let count = self.vectors() as u32;
        let blocks = count.div_ceil(config.threads * config.vectors);
        let grid = Grid::new([blocks, 1, 1], [config.threads, 1, 1]);
        // In the order of `Params`.
        let args = vec![x.as_ref().into(), y.as_mut().into(), (count as i32).into()];
        Ok(function.launch_with(options, grid, args)?)
    }

    fn verify(&self, [x, y]: &mut Self::Data) -> Result<(), Rejection> {
        let items = ("numbers", y.len() as u64);
        let only_reads = self.only_reads;
        let (x, y) = ([x.as_ref()], y.as_ref());
        Definition { x, y, list: None, sizes: [], items }.check(|k, at| {
            let found = at.y.load(at.item).cvt::<f32>();
            let expected = if only_reads { k.constant(0.0) } else { at.x[0].load(at.item).cvt() };
            found.eq(expected)
        })
    }
}
