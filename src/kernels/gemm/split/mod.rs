//! Split-K and stream-K: several thread blocks share a tile's steps along K. Each writes its
//! partial accumulators to a workspace, and the last one to arrive sums them in a fixed order, so
//! that every launch returns the same bits, and stores the tile.

pub(crate) mod work_tiles;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ir::types::Scalar;
use crate::ir::{Body, Float, GlobalMut, NamedBarrier, Registers, Val, Vector, WARP, range};
use crate::runtime::{ArgList, Argument, Buffer, Device, Grid, RuntimeError};

use crate::kernels::arrival::ArrivingGroup;
use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::Splits;
use crate::kernels::gemm::split::work_tiles::{Slots, WorkTile, WorkTiles};

crate::params! {
    /// The workspace parameter of a kernel that splits K, or whose blocks draw tiles from a counter
    /// at run time.
    pub(crate) struct SplitParams => SplitArgs<'b> {
        /// The partial accumulators: a slot for each part of a tile, in it one for each warp group
        /// or block.
        pub(crate) partials: GlobalMut<f32>,
        /// With split K: how many parts have been written, per warp group and tile. If tiles are
        /// drawn from a counter: how many tiles have been drawn and how many blocks have finished.
        /// All counts are 0 before and after a launch.
        pub(crate) arrivals: GlobalMut<u32>,
        /// The parts per tile (split-K). It is a parameter because `ptxas` would unroll a constant
        /// loop over the parts, and spill.
        pub(crate) parts: i32,
    }
}

/// Words per vector of accumulators.
const VECTOR: u32 = 4;

/// Returns how many words a thread with `words` words of accumulators loads at a time: 32, or more
/// if both together are at most 96.
const fn words_at_once(words: u32) -> u32 {
    let more = 96u32.saturating_sub(words);
    if more > 32 { more } else { 32 }
}

/// A group of threads that holds accumulators of a tile: a warp group, or a block without roles.
#[derive(Clone, Copy)]
pub(crate) struct Threads<'b> {
    /// The group's index among the groups of the tile, and how many there are.
    pub(crate) group: Val<'b, i32>,
    pub(crate) groups: u32,
    /// The threads per group, and their barrier.
    pub(crate) count: u32,
    pub(crate) barrier: NamedBarrier<'b>,
}

impl<'b> WorkTiles<'b> {
    /// Runs `write` on the accumulators of a whole tile. If the threads have only a part of one,
    /// they write it to the workspace; the last ones to arrive sum all parts in the order of K and
    /// run `write`.
    pub(crate) fn sum<'a: 'b, S: Float>(
        &self,
        k: &mut Body<'b, '_>,
        args: Option<&SplitArgs<'a>>,
        part: WorkTile<'b>,
        threads: Threads<'b>,
        accumulators: &Registers<'b, S>,
        write: impl for<'c> FnOnce(&mut Body<'c, 'b>),
    ) {
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let Some(args) = args.filter(|_| self.splits.is_split()) else {
            return write(&mut k.rescoped());
        };
        let of = Accumulators { of: accumulators, threads: threads.count, acc: self.acc };
        let is_last = match self.is_partial(part) {
            None => threads.sum(k, args, self.slots(k, part, args.parts), of),
            Some(is_partial) => k.if_with(is_partial, true, |k| {
                threads.sum(k, args, self.slots(k, part, args.parts), of)
            }),
        };
        // `is_last` is uniform in a warp, but `ptxas` cannot see that and would duplicate the
        // warp-wide code. The vote shows it.
        let is_last = k.vote_any(WARP, is_last);
        k.if_(is_last, write);
    }
}

impl<'b> Threads<'b> {
    /// Writes the accumulators to their slot in the workspace. Returns true in the last threads to
    /// do so, whose accumulators then hold the sums of all parts.
    fn sum<'a: 'b, S: Float>(
        self,
        k: &mut Body<'b, '_>,
        args: &SplitArgs<'a>,
        slots: Slots<'b>,
        part: Accumulators<'_, '_, S>,
    ) -> Val<'b, bool> {
        let Threads { group, groups, count, barrier } = self;
        let Slots { number, count: parts, .. } = slots;
        let thread = k.thread_idx().x % count;
        let words = S::scalar().size_bytes() / 4;
        let size = i64::from(part.of.len() * words * count);
        let first = (slots.first * groups + group).cvt::<i64>() * size;
        let first = args.partials.offset(first + (thread * VECTOR).cvt::<i64>());
        let step = size * i64::from(slots.step * groups);
        let counter = args.arrivals.offset(slots.tile * groups + group);
        let arriving = ArrivingGroup { barrier, is_leader: thread.eq(0) };
        // With stream-K, a tile's first part comes at the end of a block's run and the others at
        // the start. So it is usually the last to be ready, and can stay in registers.
        let is_written = match slots.first_is_late {
            false => k.constant(true),
            true => {
                k.if_with(number.eq(0), true, |k| !arriving.have_others_arrived(k, counter, parts))
            }
        };
        let is_last = k.if_with(is_written, true, |k| {
            part.store(first.offset(number.cvt::<i64>() * step));
            arriving.is_last_to_arrive(k, counter, parts)
        });
        // Several small parts are loaded at once. Beyond the last part, the last one is loaded
        // again and ignored.
        let at_once = (words_at_once(part.words()) / part.words()).max(1);
        k.if_(is_last, |k| {
            k.if_(is_written, |k| part.load(k, &[first], None));
            k.for_(range(1, parts).step(at_once), (), |k, other, ()| {
                let (mut places, mut are_there) = (Vec::new(), Vec::new());
                for i in 0..at_once.cast_signed() {
                    let number = if i == 0 { other } else { (other + i).min(parts - 1) };
                    places.push(first.offset(number.cvt::<i64>() * step));
                    are_there.push(if i == 0 { k.constant(true) } else { (other + i).lt(parts) });
                }
                part.load(k, &places, Some(&are_there));
            });
        });
        is_last
    }
}

/// A thread's accumulators, in registers and in a slot. In a slot, vector `i` of all threads is
/// contiguous, so that accesses coalesce.
#[derive(Clone, Copy)]
struct Accumulators<'r, 'b, S> {
    of: &'r Registers<'b, S>,
    threads: u32,
    /// The accumulator type. `i32` is bit-cast to `f32`.
    acc: Scalar,
}

impl<'k, S: Float> Accumulators<'_, 'k, S> {
    /// Returns the first accumulator of each vector, and where the vector is in the slot.
    fn vectors(&self) -> impl Iterator<Item = (u32, i32)> + use<S> {
        let (step, each) = (VECTOR * self.threads, Self::of_vector());
        (0..self.of.len() / each).map(move |i| (each * i, (i * step).cast_signed()))
    }

    /// Returns the accumulators per vector.
    fn of_vector() -> u32 {
        VECTOR * 4 / S::scalar().size_bytes()
    }

    fn store(&self, to: Val<'_, GlobalMut<f32>>) {
        let to = to.ptr_cast::<u32>();
        for (first, at) in self.vectors() {
            let some = (first..first + Self::of_vector()).map(|i| self.of.get(i));
            let words: Vec<Val<'_, u32>> = match S::scalar() {
                Scalar::F64 => some.flat_map(|x| x.bitcast::<Vector<u32, 2>>().lanes()).collect(),
                _ => some.map(|x| x.bitcast()).collect(),
            };
            if let [x, y, z, w] = words[..] {
                to.store_vector(at, Val::pack([x, y, z, w]));
            }
        }
    }

    /// Returns the accumulators' size in words.
    fn words(&self) -> u32 {
        self.of.len() * S::scalar().size_bytes() / 4
    }

    /// Loads the accumulators of one slot, or adds those of several slots in order. A slot is added
    /// only if its condition is true.
    fn load(
        &self,
        k: &Body<'k, '_>,
        from: &[Val<'k, GlobalMut<f32>>],
        add: Option<&[Val<'k, bool>]>,
    ) {
        let (vectors, at_once): (Vec<_>, _) =
            (self.vectors().collect(), words_at_once(self.words()));
        for (batch, vectors) in vectors.chunks((at_once / VECTOR) as usize).enumerate() {
            if batch > 0 {
                // Keeps `ptxas` from moving later loads above this point: all loads at once would
                // take too many registers.
                k.bar_warp(WARP);
            }
            let words = from.iter().map(|from| {
                let from = from.ptr_cast::<u32>();
                let load = |(_, at): &(u32, i32)| from.load_vector(*at);
                vectors.iter().map(load).collect::<Vec<Val<'k, Vector<u32, 4>>>>()
            });
            // All loads are issued before the first sum.
            for (slot, words) in words.collect::<Vec<_>>().into_iter().enumerate() {
                let is_there = add.and_then(|add| add.get(slot).copied());
                for ((first, _), four) in vectors.iter().zip(words) {
                    self.add(*first, four.lanes(), is_there);
                }
            }
        }
    }

    /// Adds a vector of accumulators if the condition is true, or without one overwrites those from
    /// `first` on.
    fn add(&self, first: u32, words: [Val<'k, u32>; 4], add: Option<Val<'k, bool>>) {
        let [x, y, z, w] = words;
        let parts: Vec<Val<'k, S>> = match S::scalar() {
            Scalar::F64 => [[x, y], [z, w]]
                .into_iter()
                .map(|words| Val::<Vector<u32, 2>>::pack(words).bitcast())
                .collect(),
            _ => words.into_iter().map(|word| word.bitcast()).collect(),
        };
        for (i, part) in (first..).zip(parts) {
            let sum = |of: Val<'k, S>| match self.acc {
                Scalar::I32 => (of.bitcast::<i32>() + part.bitcast::<i32>()).bitcast(),
                _ => of + part,
            };
            let sum = add.map_or(part, |is_there| {
                let of = self.of.get(i);
                is_there.select(sum(of), of)
            });
            self.of.set(i, sum);
        }
    }
}

/// A function's own workspace, which grows to the largest launch. Launches on several streams share
/// it, so the runtime serialises them.
pub(crate) struct SplitWorkspace {
    device: Device,
    buffers: Mutex<SplitBuffers>,
}

/// The partial accumulators, and the arrival counters.
pub(crate) type SplitBuffers = (Buffer<f32>, Buffer<u32>);

impl SplitWorkspace {
    #[inline]
    pub(crate) fn new(device: &Device) -> Result<SplitWorkspace, GemmError> {
        let buffers = Mutex::new((device.zeros(1)?, device.zeros(1)?));
        Ok(SplitWorkspace { device: device.clone(), buffers })
    }

    /// Grows the workspace for these row tiles, column tiles and matrices and this grid, and locks
    /// it.
    #[inline]
    fn reserve(
        &self,
        config: &GemmConfig,
        tiles: [u64; 3],
        grid: Grid,
    ) -> Result<MutexGuard<'_, SplitBuffers>, GemmError> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let (partials, arrivals) = &mut *buffers;
        let [elements, groups] = lengths(config, tiles, grid)?;
        if partials.len() < elements {
            *partials = self.device.zeros(elements)?;
        }
        if arrivals.len() < groups {
            *arrivals = self.device.zeros(groups)?;
        }
        Ok(buffers)
    }
}

/// Returns how many partial accumulators and counters a launch needs, from the row tiles, column
/// tiles and matrices, and the grid.
#[inline]
fn lengths(
    config: &GemmConfig,
    [rows, columns, batch]: [u64; 3],
    grid: Grid,
) -> Result<[usize; 2], GemmError> {
    if !config.splits.is_split() {
        // One counter of drawn tiles, one of finished blocks.
        return Ok([0, if config.draws_tiles() { 2 } else { 0 }]);
    }
    let ([m, n], consumers) = (config.cluster.map(u64::from), u64::from(config.consumers()));
    let tiles = (rows + m - 1) * (columns + n - 1) * batch;
    let slots = match config.splits {
        Splits::SplitK(parts) => tiles * u64::from(parts),
        Splits::StreamK => {
            let blocks = (u64::from(grid.blocks[0]) / (m * n)).max(1);
            let tiles = rows.div_ceil(m) * columns.div_ceil(n) * batch;
            (blocks + Splits::shared(tiles, blocks)) * m * n
        }
    };
    let (groups, slots) = (tiles * consumers, slots * consumers);
    let each = u64::from(config.accumulators() * config.threads_of_group());
    let elements = slots.saturating_mul(each);
    let too_large = GemmError::TooLarge { operand: 'W', lines: slots, pitch: each };
    if elements >= 1 << 40 || groups > i32::MAX as u64 {
        return Err(too_large);
    }
    Ok([elements as usize, groups as usize])
}

/// Your own workspace for launches that split K or are
/// [grouped](crate::kernels::gemm::BatchMode::Grouped): it holds partial accumulators, or the
/// counter from which thread blocks draw tiles. Allocate it with
/// [`Loaded::workspace`](crate::kernels::Loaded::workspace) and pass it as
/// [`GemmArgs::workspace`](crate::kernels::gemm::GemmArgs::workspace).
///
/// Launches without one use the loaded kernel's workspace and therefore run one after the other,
/// even on different streams. With a workspace each, they can run at the same time.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, Splits};
/// use tilewright::runtime::Device;
///
/// let config = GemmConfig { splits: Splits::SplitK(2), ..GemmConfig::sm90(Scalar::Bf16, [64, 64]) };
/// let (device, problem) = (Device::sim()?, GemmProblem::new(64, 64, 256));
/// let gemm = Gemm::<bf16>::new(config)?.load(&device)?;
/// let a = device.upload(&vec![bf16::from_f32(0.5); 64 * 256])?;
/// let (mut first, mut second) = (gemm.workspace(&problem)?, gemm.workspace(&problem)?);
/// // Two parts of a 64 x 64 tile, and a counter.
/// assert_eq!(first.bytes(), 2 * 64 * 64 * 4 + 4);
/// let (mut x, mut y) = (device.zeros::<bf16>(64 * 64)?, device.zeros::<bf16>(64 * 64)?);
/// for (d, workspace) in [(&mut x, &mut first), (&mut y, &mut second)] {
///     let stream = device.stream()?;
///     let args = GemmArgs::new(&a, &a, d).workspace(workspace);
///     gemm.on(&stream).launch(&problem, args)?;
///     stream.synchronize()?;
/// }
/// assert!(x.to_vec()?.iter().chain(&y.to_vec()?).all(|x| x.to_f32() == 64.0));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GemmWorkspace(SplitBuffers);

impl GemmWorkspace {
    /// Allocates a workspace for these row tiles, column tiles and matrices, and this grid.
    #[inline]
    pub(crate) fn new(
        device: &Device,
        config: &GemmConfig,
        tiles: [u64; 3],
        grid: Grid,
    ) -> Result<GemmWorkspace, GemmError> {
        let [elements, groups] = lengths(config, tiles, grid)?;
        Ok(GemmWorkspace((device.zeros(elements)?, device.zeros(groups)?)))
    }

    /// Returns the size in bytes, for example to budget memory. It is 0 if the configuration needs
    /// no workspace.
    pub fn bytes(&self) -> u64 {
        let (partials, arrivals) = &self.0;
        4 * (partials.len() as u64 + arrivals.len() as u64)
    }
}

/// Which workspace a launch uses.
pub(crate) enum Workspace<'h> {
    None,
    Own(&'h SplitWorkspace),
    Given(&'h mut GemmWorkspace),
}

/// A workspace that is large enough for a launch.
pub(crate) enum Reserved<'x> {
    None,
    Own(MutexGuard<'x, SplitBuffers>),
    Given(&'x mut SplitBuffers),
}

impl<'h> Workspace<'h> {
    /// Returns the given workspace, or else the loaded kernel's, if the kernel needs one.
    #[inline]
    pub(crate) fn new(
        own: Option<&'h SplitWorkspace>,
        given: Option<&'h mut GemmWorkspace>,
    ) -> Self {
        let or_given = |own| given.map_or(Workspace::Own(own), Workspace::Given);
        own.map_or(Workspace::None, or_given)
    }

    /// Returns the workspace, checked or grown for these row tiles, column tiles and matrices and
    /// this grid.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        config: &GemmConfig,
        tiles: [u64; 3],
        grid: Grid,
    ) -> Result<Reserved<'_>, GemmError> {
        match self {
            Workspace::None => Ok(Reserved::None),
            Workspace::Own(own) => own.reserve(config, tiles, grid).map(Reserved::Own),
            Workspace::Given(GemmWorkspace(given)) => {
                let needed = lengths(config, tiles, grid)?.map(|len| len as u64);
                let found = [given.0.len() as u64, given.1.len() as u64];
                if found[0] < needed[0] || found[1] < needed[1] {
                    return Err(GemmError::Workspace { found, needed });
                }
                Ok(Reserved::Given(given))
            }
        }
    }
}

impl Reserved<'_> {
    fn buffers(&mut self) -> Option<&mut SplitBuffers> {
        match self {
            Reserved::None => None,
            Reserved::Own(guard) => Some(guard),
            Reserved::Given(given) => Some(given),
        }
    }

    /// Appends the workspace to a launch's arguments.
    #[inline]
    pub(crate) fn push<'x>(&'x mut self, config: &GemmConfig, list: &mut ArgList<'x>) {
        if let Some((partials, arrivals)) = self.buffers() {
            let parts = config.splits.even().cast_signed();
            SplitParams::erase(SplitParams { partials, arrivals, parts }, list);
        }
    }

    /// Passes on the result of a launch. If the simulator reported an error, resets the counters,
    /// because the blocks that it stopped have not arrived or drawn all their tiles.
    #[inline]
    pub(crate) fn end(mut self, launched: Result<(), RuntimeError>) -> Result<(), GemmError> {
        if launched.is_err()
            && let Some((_, arrivals)) = self.buffers()
            && arrivals.device().is_sim()
        {
            *arrivals = arrivals.device().zeros(arrivals.len())?;
        }
        Ok(launched?)
    }
}
