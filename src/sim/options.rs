//! [`Options`]: the settings of a simulation. They choose schedules, checks, numerics, reports and
//! traces.

use crate::ir::Target;
use crate::sim::output::Output;
use crate::sim::progress::{OnProgress, Progress};
use crate::sim::reports::Reports;
use crate::sim::stream_order::StreamOrder;

/// Which warp runs next, and when asynchronous operations take effect.
///
/// A correct kernel computes the same under every order. Start with [`Order::RoundRobin`], the
/// fastest. The adversarial orders find mistakes that it hides, and [`Options::schedules`] runs
/// through them for you. Choose [`Order::Paced`] for traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The warps take turns. Each runs for some thousand operations or up to its next barrier. An
    /// asynchronous operation takes effect as late as possible: when a thread waits for it, or when
    /// no warp can go on and one waits at its mbarrier. Of several that signal the same mbarrier,
    /// the latest is first.
    ///
    /// With [`Options::race`], a kernel that polls global memory also runs under [`Order::Fine`].
    /// Blocks that run one after the other never wait for each other, so the code for a block
    /// that comes too early would not run at all, for example the slow path of a decoupled
    /// look-back. A kernel counts as polling if it has a `loop` with a volatile, relaxed or acquire
    /// load, a compare-and-swap or an exchange. It takes two to three times as long; every other
    /// kernel runs once. If you do not ask for several schedules, the buffers then hold the results
    /// of [`Order::Fine`], so that your comparison with a reference covers the slow path.
    #[default]
    RoundRobin,
    /// A random warp runs for at most 32 operations, then another one. Asynchronous operations take
    /// effect as late as with [`Order::RoundRobin`], because most mistakes show only then; one in
    /// four `wgmma` and loads over written shared memory completes early. With [`Options::race`], 4
    /// blocks or clusters run at the same time, and a random one of them goes on. The same seed
    /// gives the same order.
    Random {
        /// Seed of the random generator.
        seed: u64,
    },
    /// Like [`Order::RoundRobin`], from the last warp to the first. With [`Options::race`], the
    /// last cluster runs first.
    Reverse,
    /// Like [`Order::RoundRobin`], but `wgmma` and the loads that signal an mbarrier take effect as
    /// early as possible.
    Eager,
    /// Like [`Order::RoundRobin`], but each warp runs for one operation only. With
    /// [`Options::race`], 4 blocks or clusters run at the same time, the last one first, so a
    /// block meets others that have published only part of their results.
    Fine,
    /// Like [`Order::Fine`], but asynchronous operations take a while: a copy takes effect some
    /// rounds after it was issued, in issue order, and a `wgmma` some rounds after a warp began to
    /// wait for it. Use it for traces, because the stages of a pipeline then fill while others are
    /// read, as on a GPU.
    Paced,
}

impl Order {
    /// Returns the orders of a launch with several schedules: this one, then `second` if there is
    /// one, then the remaining fixed orders, then random ones without end.
    pub(in crate::sim) fn schedules(self, second: Option<Order>) -> impl Iterator<Item = Order> {
        let fixed = [Order::RoundRobin, Order::Reverse, Order::Eager, Order::Fine];
        let random = (1..).map(|seed| Order::Random { seed });
        let others = fixed.into_iter().chain(random);
        let others = others.filter(move |order| *order != self && Some(*order) != second);
        [self].into_iter().chain(second).chain(others)
    }

    /// Returns how many clusters run at the same time in a launch that is not cooperative.
    pub(in crate::sim) fn clusters_at_once(self) -> u64 {
        match self {
            Order::Fine | Order::Random { .. } => 4,
            Order::RoundRobin | Order::Reverse | Order::Eager | Order::Paced => 1,
        }
    }
}

/// How floating point MMAs (`mma.sync` and `wgmma` on `f16`, `bf16`, `tf32`, `f8e4m3` and `f8e5m2`)
/// round their sums.
///
/// Keep [`Accumulation::Nearest`] unless you want to know how much a result depends on the tensor
/// cores' truncation. Both models multiply exactly, and both accumulate `f64` by `fma`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accumulation {
    /// Adds an instruction's products to the sum one after the other, by rising `k`, and rounds
    /// each time to nearest even in `f32`.
    #[default]
    Nearest,
    /// Adds an instruction's products and the incoming accumulator all at once. Let `e` be the
    /// largest exponent of a nonzero term, where a product's exponent is the sum of its factors'
    /// exponents after normalisation. Each term is cut toward zero to a multiple of
    /// `2^(e - fraction_bits)`, the cut terms are added exactly, and the sum is cut toward zero to
    /// `f32`, or rounded to nearest even if accumulators are `f16`. A sum that overflows becomes
    /// infinity; infinity and NaN behave as elsewhere.
    ///
    /// Measurements of tensor cores found this form (M. Fasi, N. Higham, M. Mikaitis, S. Pranesh,
    /// "Numerical behavior of NVIDIA tensor cores", 2021; X. Li and others, "FTTN: feature-targeted
    /// testing for numerical properties of NVIDIA and AMD matrix accelerators", 2024). How many
    /// bits are kept, and how many products are added at once, differs between generations and
    /// types. So the model shows how sensitive a result is, and does not promise a GPU's bits.
    Truncated {
        /// Bits kept below the leading bit of the largest term, for 16-bit and 32-bit operands: 0
        /// to 44, more count as 44.
        fraction_bits: u32,
        /// The same for 8-bit operands, for which tensor cores keep fewer bits.
        fraction_bits_f8: u32,
    },
}

impl Accumulation {
    /// Hopper's model: 25 bits, two more than `f32` has, and 13 for 8-bit operands (DeepSeek-AI,
    /// "DeepSeek-V3 technical report", 2024).
    pub const HOPPER: Accumulation =
        Accumulation::Truncated { fraction_bits: 25, fraction_bits_f8: 13 };

    /// Returns how many bits are kept for operands of `bits` bits; `None` if each addition is
    /// rounded.
    pub(in crate::sim) fn fraction_bits(self, bits: u32) -> Option<u32> {
        match self {
            Accumulation::Nearest => None,
            Accumulation::Truncated { fraction_bits_f8, .. } if bits == 8 => Some(fraction_bits_f8),
            Accumulation::Truncated { fraction_bits, .. } => Some(fraction_bits),
        }
    }
}

/// Whether shared memory that threads have only read needs a `fence.proxy.async` before an
/// asynchronous write to it, such as a TMA load.
///
/// The PTX ISA asks for the fence, because threads and the asynchronous proxy reach memory in
/// different ways. CUTLASS omits it: its main loops release a stage after `ldmatrix`, and the next
/// load into that stage follows without a fence.
///
/// ```
/// use tilewright::sim::{FenceAfterReads, Options};
/// assert_eq!(Options::default().fence_after_reads, FenceAfterReads::Required);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FenceAfterReads {
    /// Reports a missing fence as
    /// [`MissingEdge::ProxyFenceAfterRead`](crate::sim::MissingEdge::ProxyFenceAfterRead).
    #[default]
    Required,
    /// Accepts a barrier or an mbarrier between the read and the asynchronous write. Choose this
    /// for kernels ported from CUTLASS.
    Optional,
}

/// Options of a simulation: pass them to [`run`](crate::sim::run) or
/// [`Device::sim_with`](crate::runtime::Device::sim_with). The defaults suit tests; set single
/// options with the methods below.
///
/// ```
/// use tilewright::sim::{Options, Order};
/// let options = Options::default().order(Order::Random { seed: 7 }).threads(1).fuel(1_000_000);
/// assert_eq!(options.fuel, 1_000_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Which warp runs next, and when asynchronous operations take effect.
    pub order: Order,
    /// How many operations the warps of a block may execute before the launch is stopped with
    /// [`RunError::OutOfFuel`](crate::sim::RunError::OutOfFuel). A cluster gets that many for each
    /// of its blocks. One operation of a warp counts once, however many lanes take part, and
    /// waiting costs nothing. The limit is checked from time to time, so a launch may run some
    /// thousand operations more.
    pub fuel: u64,
    /// How many blocks or clusters run at the same time, each on a host thread. 0, the default,
    /// uses all threads that [`available_parallelism`](std::thread::available_parallelism) reports,
    /// which is also the maximum. Ignored if [`Options::race`] or [`Options::cooperative`] is set.
    pub threads: usize,
    /// Where `printf` writes to.
    pub output: Output,
    /// How floating point MMAs round their sums.
    pub accumulation: Accumulation,
    /// The simulator's [`Device::target`](crate::runtime::Device::target), for which programs build
    /// their kernels. It runs kernels of every target, whatever this is.
    pub target: Target,
    /// Runs all blocks of a grid at once, on one host thread, so that they can wait for each other
    /// through global memory. A grid that does not fit on a GPU with 132 SMs is refused. Launches
    /// with [`LaunchOptions::cooperative`](crate::runtime::LaunchOptions::cooperative) always run
    /// this way.
    pub cooperative: bool,
    /// Detects data races between threads and asynchronous operations, in shared and global memory.
    /// The launch's clusters then run on one host thread. On by default in builds with
    /// `debug_assertions`, such as those of `cargo test`.
    pub race: bool,
    /// Whether unordered stores of equal values are also reported as races. Needs
    /// [`Options::race`].
    pub equal_stores: bool,
    /// Whether an asynchronous write over bytes that threads have only read needs a proxy fence.
    /// Needs [`Options::race`].
    pub fence_after_reads: FenceAfterReads,
    /// How many schedules a launch runs under: [`Options::order`] first, then adversarial and
    /// random ones. Their results are compared with the first one's. 0 counts as 1.
    pub schedules: u32,
    /// Names of parameters whose buffers may hold different results under different schedules, so
    /// that the comparison skips them.
    pub may_differ: Vec<String>,
    /// The launch's stream, for races between launches; `None` if it overlaps with no other launch.
    /// Launches through [`runtime`](crate::runtime) set it to the stream that they run in.
    pub stream: Option<StreamOrder>,
    /// Marks the launch as a programmatic dependent launch: on a GPU it may start while earlier
    /// launches of its stream still run. The simulator runs one launch after the other, and the
    /// race detector compares their accesses.
    pub programmatic: bool,
    /// The list that collects a report of each launch; `None` for no reports.
    pub reports: Option<Reports>,
    /// Where traces are written to; `None` for no traces.
    pub trace: Option<Output>,
    /// The function that is called while a long launch runs; `None` for no calls.
    pub progress: Option<OnProgress>,
}

/// The order is round robin, with 2^32 operations for each block (which takes minutes), on all host
/// threads. Kernels print to standard output, MMAs round to nearest, the target is `sm_80`, and
/// launches are not cooperative. Races are detected only with `debug_assertions`. There is one
/// schedule.
impl Default for Options {
    fn default() -> Options {
        Options {
            order: Order::RoundRobin,
            fuel: 1 << 32,
            threads: 0,
            output: Output::stdout(),
            accumulation: Accumulation::Nearest,
            target: Target::SM_80,
            cooperative: false,
            race: cfg!(debug_assertions),
            equal_stores: false,
            fence_after_reads: FenceAfterReads::Required,
            schedules: 1,
            may_differ: Vec::new(),
            stream: None,
            programmatic: false,
            reports: None,
            trace: None,
            progress: None,
        }
    }
}

impl Options {
    /// Sets [`Options::order`], for example to repeat a fault that was found under another order.
    pub fn order(self, order: Order) -> Options {
        Options { order, ..self }
    }

    /// Sets [`Options::fuel`]: lower it in tests so that a kernel that never ends fails early, and
    /// raise it for long kernels.
    pub fn fuel(self, fuel: u64) -> Options {
        Options { fuel, ..self }
    }

    /// Sets [`Options::threads`], for example to leave host threads for other work.
    pub fn threads(self, threads: usize) -> Options {
        Options { threads, ..self }
    }

    /// Sets [`Options::output`], for example to a captured text that a test checks.
    pub fn output(self, output: Output) -> Options {
        Options { output, ..self }
    }

    /// Sets [`Options::cooperative`]. You need it if blocks of a grid wait for each other.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::ir::op::{LoadAccess, MemScope, StoreAccess};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim;
    ///
    /// // Block 0 waits for the last one.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("last", Target::SM_80, |k, (x,)| {
    ///     let (block, last) = (k.block_idx().x, k.grid_dim().x - 1);
    ///     let (first, last) = (block.eq(0), block.eq(last));
    ///     k.if_(last, |_| x.store_with(0, 7, StoreAccess::default().release(MemScope::Gpu)));
    ///     k.if_(first, |k| {
    ///         k.loop_((), |k, spin, ()| {
    ///             let found = x.load_with(0, LoadAccess::default().acquire(MemScope::Gpu));
    ///             k.if_(found.eq(7), |k| spin.break_(k, ()));
    ///             spin.continue_(k, ())
    ///         })
    ///     });
    /// })?;
    /// let x = sim::GlobalBuffer::zeros(4);
    /// let options = sim::Options::default().threads(1).fuel(1 << 20).cooperative(true);
    /// sim::run(kernel.ir(), Grid::new([8, 1, 1], [32, 1, 1]), &[sim::KernelArg::Buffer(&x)], &options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cooperative(self, cooperative: bool) -> Options {
        Options { cooperative, ..self }
    }

    /// Sets [`Options::race`]. Turn it on in release builds to look for races, and off in tests
    /// that take too long.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, FaultCause, Options};
    ///
    /// // Both blocks write their number to element 0.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("race", Target::SM_80, |k, (x,)| {
    ///     x.store(0, k.block_idx().x);
    /// })?;
    /// let x = sim::GlobalBuffer::zeros(4);
    /// let run = |grid, options: Options| sim::run(kernel.ir(), grid, &[sim::KernelArg::Buffer(&x)], &options);
    /// let (one, two) = (Grid::new([1, 1, 1], [1, 1, 1]), Grid::new([2, 1, 1], [1, 1, 1]));
    /// assert!(run(one, Options::default().race(true)).is_ok());
    /// assert!(run(two, Options::default().race(false)).is_ok());
    /// let error = run(two, Options::default().race(true)).unwrap_err();
    /// assert!(matches!(error.fault().map(|f| &f.cause), Some(FaultCause::Race { .. })), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn race(self, race: bool) -> Options {
        Options { race, ..self }
    }

    /// Sets [`Options::equal_stores`]. Blocks that store the same value are mostly harmless, but
    /// sometimes they have lost their index.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, Options};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("found", Target::SM_80, |_, (x,)| x.store(0, 1))?;
    /// let x = sim::GlobalBuffer::zeros(4);
    /// let run = |options: Options| {
    ///     let grid = Grid::new([2, 1, 1], [1, 1, 1]);
    ///     sim::run(kernel.ir(), grid, &[sim::KernelArg::Buffer(&x)], &options.race(true))
    /// };
    /// assert!(run(Options::default()).is_ok());
    /// assert!(run(Options::default().equal_stores(true)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn equal_stores(self, equal_stores: bool) -> Options {
        Options { equal_stores, ..self }
    }

    /// Sets [`Options::fence_after_reads`]. Choose `Optional` for kernels ported from CUTLASS.
    ///
    /// ```
    /// use tilewright::ir::op::L2Policy;
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, FenceAfterReads, Options};
    ///
    /// // The second load comes behind the reads of all threads, without a proxy fence.
    /// let kernel = Kernel::<(Global<f32>, GlobalMut<f32>)>::build("stage", Target::SM_90, |k, (x, y)| {
    ///     let (tile, full) = (k.shared_aligned::<f32>(32, 16), k.shared::<u64>(1).mbarrier(0));
    ///     let t = k.thread_idx().x;
    ///     k.if_(t.eq(0), |k| {
    ///         full.init(1);
    ///         k.fence_mbarrier_init();
    ///     });
    ///     for (step, parity) in [(0, 0u32), (1, 1)] {
    ///         k.if_(t.eq(0), |k| {
    ///             full.arrive_expect_tx(128);
    ///             k.cp_async_bulk_load(tile, x.offset(32 * step), 128, full, L2Policy::Default);
    ///         });
    ///         k.barrier();
    ///         full.wait_parity(parity);
    ///         y.store(32 * step + t, tile.load(t));
    ///         k.barrier();
    ///     }
    /// })?;
    /// let (x, y) = (sim::GlobalBuffer::zeros(256), sim::GlobalBuffer::zeros(256));
    /// let args = [sim::KernelArg::Buffer(&x), sim::KernelArg::Buffer(&y)];
    /// let run = |options: Options| {
    ///     sim::run(kernel.ir(), Grid::new([1, 1, 1], [32, 1, 1]), &args, &options.race(true))
    /// };
    /// let error = run(Options::default()).unwrap_err().to_string();
    /// assert!(error.contains("CUTLASS omits this fence"), "{error}");
    /// run(Options::default().fence_after_reads(FenceAfterReads::Optional))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fence_after_reads(self, fence_after_reads: FenceAfterReads) -> Options {
        Options { fence_after_reads, ..self }
    }

    /// Sets [`Options::schedules`]. The first schedule that fails determines the error, and
    /// [`Fault::order`](crate::sim::Fault::order) names it. If a later schedule leaves another
    /// value in a buffer, the error is
    /// [`RunError::ResultsDiffer`](crate::sim::RunError::ResultsDiffer); see
    /// [`Options::may_differ`]. The buffers keep the first schedule's results, and only its output
    /// is written.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, Options, Order};
    ///
    /// // Who comes first finds 0. If that is not block 0, it writes out of bounds.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("first", Target::SM_80, |k, (x,)| {
    ///     let before = x.atom().add(0, 1);
    ///     let block = k.block_idx().x;
    ///     k.if_(before.eq(0) & block.ne(0), |_| x.store(100, 1));
    /// })?;
    /// let run = |options: Options| {
    ///     let x = sim::GlobalBuffer::zeros(4);
    ///     let grid = Grid::new([2, 1, 1], [1, 1, 1]);
    ///     sim::run(kernel.ir(), grid, &[sim::KernelArg::Buffer(&x)], &options.race(true))
    /// };
    /// assert!(run(Options::default()).is_ok());
    /// let error = run(Options::default().schedules(10)).unwrap_err();
    /// assert_eq!(error.fault().map(|fault| fault.order), Some(Order::Reverse));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedules(self, schedules: u32) -> Options {
        Options { schedules, ..self }
    }

    /// Adds a parameter to [`Options::may_differ`], so that [`Options::schedules`] does not compare
    /// its buffer. You need this for floating point sums by atomics, because each order of the
    /// additions rounds differently, and for lists to which blocks append in the order in which
    /// they come.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, Options, Order, RunError};
    ///
    /// // Each block writes the number of blocks that came before it.
    /// let kernel = Kernel::<(GlobalMut<i32>, GlobalMut<i32>)>::build("tickets", Target::SM_80, |k, (next, ticket)| {
    ///     let mine = next.atom().add(0, 1);
    ///     ticket.store(k.block_idx().x, mine);
    /// })?;
    /// let run = |options: Options| {
    ///     let (next, ticket) = (sim::GlobalBuffer::zeros(4), sim::GlobalBuffer::zeros(4 * 8));
    ///     let args = [sim::KernelArg::Buffer(&next), sim::KernelArg::Buffer(&ticket)];
    ///     sim::run(kernel.ir(), Grid::new([8, 1, 1], [1, 1, 1]), &args, &options.race(true).schedules(5))
    /// };
    /// let error = run(Options::default()).unwrap_err();
    /// let RunError::ResultsDiffer(found) = &error else { panic!("{error}") };
    /// let ticket = kernel.ir().params[1].name.clone();
    /// assert_eq!((&found.param, found.element), (&ticket, 0));
    /// assert_eq!((found.first_order, found.first_value.bits()), (Order::RoundRobin, 0));
    /// assert_eq!((found.other_order, found.other_value.bits()), (Order::Reverse, 7));
    /// assert!(run(Options::default().may_differ(ticket)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn may_differ(mut self, param: impl Into<String>) -> Options {
        self.may_differ.push(param.into());
        self
    }

    /// Sets [`Options::stream`] and [`Options::programmatic`]. A programmatic launch may race with
    /// the launches before it, except in code behind its `griddepcontrol.wait` (PTX ISA 9.7.13.13).
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::Grid;
    /// use tilewright::sim::{self, FaultCause, MissingEdge, Options, StreamOrder};
    ///
    /// let kernel = |waits: bool| {
    ///     Kernel::<(GlobalMut<i32>,)>::build("add", Target::SM_90, |k, (x,)| {
    ///         k.griddepcontrol_launch_dependents();
    ///         if waits {
    ///             k.griddepcontrol_wait();
    ///         }
    ///         let i = k.thread_idx().x;
    ///         x.store(i, x.load(i) + 1)
    ///     })
    /// };
    /// let (waits, starts) = (kernel(true)?, kernel(false)?);
    /// let x = sim::GlobalBuffer::zeros(4 * 32);
    /// let stream = StreamOrder::new();
    /// let launch = |kernel: &Kernel<_>, programmatic| {
    ///     let options = Options::default().race(true).in_stream(&stream, programmatic);
    ///     sim::run(kernel.ir(), Grid::cover(32, 32), &[sim::KernelArg::Buffer(&x)], &options)
    /// };
    /// launch(&starts, false)?;
    /// launch(&waits, true)?;
    /// let error = launch(&starts, true).unwrap_err();
    /// let fault = error.fault().expect("a race");
    /// assert!(matches!(fault.cause, FaultCause::Race { missing: MissingEdge::Launch, .. }), "{fault}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_stream(self, stream: &StreamOrder, programmatic: bool) -> Options {
        Options { stream: Some(stream.clone()), programmatic, ..self }
    }

    /// Sets [`Options::reports`]: each launch adds a [`KernelReport`](crate::sim::KernelReport),
    /// launches of ready kernels included. Without reports or traces a run pays nothing for them.
    /// With several schedules, the first one is reported.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target, range};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::sim::{Options, Reports};
    ///
    /// // Each thread reads an element of another row of 32: all 32 are in one bank.
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("column", Target::SM_80, |k, (x,)| {
    ///     let tile = k.shared::<f32>(1024);
    ///     let t = k.thread_idx().x;
    ///     k.for_(range(0, 32), (), |_, i, ()| tile.store(i * 32 + t, 1.0));
    ///     k.barrier();
    ///     x.store(t, tile.load(t * 32));
    /// })?;
    /// let reports = Reports::new();
    /// let device = Device::sim_with(Options::default().reports(&reports));
    /// let mut x = device.zeros::<f32>(32)?;
    /// device.load(&kernel)?.launch(Grid::cover(32, 32), (&mut x,))?;
    /// let [report] = &reports.take()[..] else { panic!("one launch") };
    /// let load = report.accesses.iter().find(|access| access.op == "ld").expect("one load");
    /// assert_eq!((load.wavefronts, load.bank_conflicts()), (32, 31));
    /// let store = report.accesses.iter().find(|access| access.global_bytes > 0).expect("one store");
    /// assert_eq!((store.global_bytes, store.sectors), (128, 4));
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reports(self, reports: &Reports) -> Options {
        Options { reports: Some(reports.clone()), ..self }
    }

    /// Sets [`Options::trace`]: each launch writes one line of JSON about its first block or
    /// cluster, with the operations of all its warps in order, asynchronous operations, barrier
    /// phases, waits and pipeline stages. `tilewright trace` makes a page of it. [`Order::Paced`]
    /// gives the clearest traces. With several schedules, the first one is traced.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::sim::{Options, Order, Output};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("one", Target::SM_80, |k, (x,)| {
    ///     x.store(k.thread_idx().x, 1.0);
    /// })?;
    /// let trace = Output::captured();
    /// let options = Options::default().order(Order::Paced).trace(&trace);
    /// let device = Device::sim_with(options);
    /// let mut x = device.zeros::<f32>(64)?;
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&mut x,))?;
    /// let json = trace.take();
    /// assert!(json.starts_with(r#"{"kernel": "one""#), "{json}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(self, to: &Output) -> Options {
        Options { trace: Some(to.clone()), ..self }
    }

    /// Sets [`Options::progress`]: `hear` is called about ten times a second while a launch runs,
    /// from the threads that run it, so that a program can show how far a long simulation is. A
    /// short launch may end without a call.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use std::sync::Arc;
    /// use tilewright::ir::{GlobalMut, Kernel, Target, range};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::sim::Options;
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("long", Target::SM_80, |k, (x,)| {
    ///     let sum = k.for_(range(0, 2_000), k.constant(0), |_, i, sum| sum + i);
    ///     x.store(k.block_idx().x, sum);
    /// })?;
    /// let done = Arc::new(AtomicU64::new(0));
    /// let last = Arc::clone(&done);
    /// let options = Options::default().on_progress(move |progress| {
    ///     assert_eq!(progress.clusters, 64);
    ///     assert!((0.0..=1.0).contains(&progress.fraction()));
    ///     last.store(progress.clusters_done, Relaxed);
    /// });
    /// let device = Device::sim_with(options);
    /// let mut x = device.zeros::<i32>(64)?;
    /// device.load(&kernel)?.launch(Grid::new([64, 1, 1], [32, 1, 1]), (&mut x,))?;
    /// assert!(done.load(Relaxed) <= 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_progress(self, hear: impl Fn(&Progress) + Send + Sync + 'static) -> Options {
        Options { progress: Some(OnProgress::new(hear)), ..self }
    }

    /// Sets [`Options::accumulation`], for example to see how much a result depends on the tensor
    /// cores' truncation.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target, Val, Vector, f16};
    /// use tilewright::sim::{Accumulation, Options};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// // 4096 + 8 * 2^-12: each product is below the last bit of the sum, all of them together are not.
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sum", Target::SM_80, |k, (x,)| {
    ///     let (a, b) = (f16::from_f32(0.015625), f16::from_f32(0.015625));
    ///     let a: Val<'_, Vector<f16, 4>> = Val::splat(k.constant(a));
    ///     let b: Val<'_, Vector<f16, 2>> = Val::splat(k.constant(b));
    ///     let accumulators = k.registers::<f32>(4);
    ///     accumulators.fill(4096.0);
    ///     k.mma_sync(&accumulators, a, b);
    ///     x.store(k.lane_id(), accumulators.get(0));
    /// })?;
    /// let run = |accumulation| -> Result<f32, Box<dyn std::error::Error>> {
    ///     let device = Device::sim_with(Options::default().accumulation(accumulation));
    ///     let mut x = device.zeros::<f32>(32)?;
    ///     device.load(&kernel)?.launch(Grid::cover(32, 32), (&mut x,))?;
    ///     Ok(x.to_vec()?[0])
    /// };
    /// assert_eq!(run(Accumulation::Nearest)?, 4096.0);
    /// assert_eq!(run(Accumulation::HOPPER)?, 4096.0 + 8.0 / 4096.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulation(self, accumulation: Accumulation) -> Options {
        Options { accumulation, ..self }
    }

    /// Sets [`Options::target`], so that programs which ask the device for its target build their
    /// kernels for `target`.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::runtime::Device;
    /// use tilewright::sim::Options;
    /// let device = Device::sim_with(Options::default().target(Target::SM_90A).threads(1));
    /// assert_eq!(device.target(), Target::SM_90A);
    /// ```
    pub fn target(self, target: Target) -> Options {
        Options { target, ..self }
    }
}

/// How many operations a simulation executed, for example to choose a limit for
/// [`Options::fuel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchReport {
    /// IR operations, each counted once for every thread that executed it.
    pub thread_ops: u64,
    /// IR operations, each counted once for every warp that executed it.
    pub warp_ops: u64,
}
