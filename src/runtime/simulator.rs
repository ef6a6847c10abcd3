//! The CPU simulator as a backend of the runtime. `Device`, `Buffer`, `Stream` and `Function`
//! forward to these types on the simulator, and to those in `cuda` on a GPU.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use smallvec::SmallVec;

use super::error::RuntimeError;
use super::timing::Timing;
use crate::arch::TensorMapDesc;
use crate::ir::types::Const;
use crate::ir::{CheckedKernel, Element, KernelIr, Record, Target};
use crate::launch::grid::Grid;
use crate::sim;

/// A simulator, with the options for its launches.
#[derive(Clone)]
pub(super) struct Context {
    options: sim::Options,
    number: u32,
    /// The order of launches on the default stream.
    order: sim::StreamOrder,
    /// Counts how often the host has waited for all streams.
    waits: Arc<AtomicU64>,
}

impl From<sim::Options> for Context {
    fn from(options: sim::Options) -> Context {
        Context { options, number: 0, order: sim::StreamOrder::new(), waits: Arc::default() }
    }
}

impl Context {
    /// Opens a simulator for programs that build their kernels for `target`; `None` means the
    /// default target.
    pub(super) fn open(target: Option<Target>) -> Result<Context, RuntimeError> {
        let options = sim::Options::default();
        Ok(match target {
            Some(target) => options.target(target),
            None => options,
        }
        .into())
    }

    /// Returns the simulator with this number and the same options.
    pub(super) fn numbered(self, number: u32) -> Context {
        Context { number, ..self }
    }

    /// Returns the simulator's number, which distinguishes it from other simulators.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn name(&self) -> &str {
        "simulator"
    }

    pub(super) fn label(&self) -> String {
        match self.number {
            0 => "the simulator".to_owned(),
            number => format!("simulator {number}"),
        }
    }

    pub(super) fn target(&self) -> Target {
        self.options.target
    }

    /// Waits for all streams.
    pub(super) fn synchronize(&self) {
        self.waits.fetch_add(1, Relaxed);
        self.order.finish();
    }
}

/// Simulator memory, shared with the graphs that use it.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    buffer: Arc<sim::GlobalBuffer>,
    /// The offset of a part within its allocation, in bytes.
    first: usize,
    /// The number of the simulator that owns it.
    number: u32,
}

impl Memory {
    /// Allocates `bytes` zero bytes.
    pub(super) fn zeros(context: &Context, bytes: usize) -> Result<Memory, RuntimeError> {
        reserve(context, bytes)?;
        let buffer = Arc::new(sim::GlobalBuffer::zeros(bytes));
        Ok(Memory { buffer, first: 0, number: context.number })
    }

    pub(super) fn from_slice<T: Element>(
        context: &Context,
        data: &[T],
    ) -> Result<Memory, RuntimeError> {
        reserve(context, size_of_val(data))?;
        let buffer = Arc::new(sim::GlobalBuffer::from_slice(data));
        Ok(Memory { buffer, first: 0, number: context.number })
    }

    /// Returns the `bytes` bytes from offset `first` on, or `None` if the memory is shorter.
    /// `first` must be a multiple of 4.
    pub(super) fn part(&self, first: usize, bytes: usize) -> Option<Memory> {
        let buffer = Arc::new(self.buffer.part(first / 4, bytes)?);
        Some(Memory { buffer, first: self.first + first, number: self.number })
    }

    /// Returns whether the memory's offset within its allocation is a multiple of `bytes`.
    pub(super) fn is_aligned_to(&self, bytes: u64) -> bool {
        (self.first as u64).is_multiple_of(bytes)
    }

    /// Returns the simulator that owns the memory, with default options.
    pub(super) fn context(&self) -> Context {
        Context::from(sim::Options::default()).numbered(self.number)
    }

    /// Returns the number of the simulator that owns the memory.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn to_vec<T: Element>(&self) -> Vec<T> {
        self.buffer.to_vec()
    }

    /// Overwrites all elements.
    pub(super) fn write<T: Element>(&self, data: &[T]) -> Result<(), RuntimeError> {
        self.buffer.write(data).map_err(|error| {
            let elements = |bytes: usize| bytes / T::SCALAR.size_bytes() as usize;
            RuntimeError::LengthMismatch {
                buffer: elements(error.buffer_bytes),
                host: elements(error.data_bytes),
            }
        })
    }

    /// Copies all elements from other memory, or records the copy if the stream records a graph.
    pub(super) fn copy_from<T: Element>(
        &self,
        from: &Memory,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        let (to, from) = (self.clone(), from.clone());
        stream.run_or_record(move || to.write(&from.to_vec::<T>()))
    }

    /// Sets all `len` elements to `value`, or records the fill if the stream records a graph.
    pub(super) fn fill<T: Element>(
        &self,
        value: T,
        len: usize,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        let to = self.clone();
        stream.run_or_record(move || to.write(&vec![value; len]))
    }
}

/// Returns an error if an allocation of `bytes` would abort the process.
fn reserve(context: &Context, bytes: usize) -> Result<(), RuntimeError> {
    Vec::<u64>::new()
        .try_reserve_exact(bytes.div_ceil(8))
        .map_err(|_| RuntimeError::OutOfMemory { device: context.label(), bytes: bytes as u64 })
}

/// A simulator stream. It is always idle, because a launch has ended when its call returns. Its
/// `order` tells the race detector which launches may overlap on a GPU.
#[derive(Clone)]
pub(super) struct Stream {
    order: sim::StreamOrder,
    /// The count of host waits for all streams, and its value at this stream's last launch.
    waits: Arc<AtomicU64>,
    seen: Arc<AtomicU64>,
    /// The recording in progress, if this is the stream of a [`Recording`].
    recorded: Option<Recorded>,
    /// The number of the stream's simulator.
    number: u32,
}

impl Stream {
    pub(super) fn new(context: &Context) -> Result<Stream, RuntimeError> {
        let (order, waits) = (sim::StreamOrder::new(), Arc::clone(&context.waits));
        Ok(Stream { order, waits, seen: Arc::default(), recorded: None, number: context.number })
    }

    /// Returns the stream's simulator, with default options.
    pub(super) fn context(&self) -> Context {
        Context::from(sim::Options::default()).numbered(self.number)
    }

    /// Returns the number of the stream's simulator.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns an error if the stream records a graph, for calls that no graph can contain.
    pub(super) fn check_runs(&self, call: &'static str) -> Result<(), RuntimeError> {
        match &self.recorded {
            Some(recorded) if recorded.lock().is_some() => Err(RuntimeError::NotInGraph { call }),
            _ => Ok(()),
        }
    }

    /// Returns whether the stream records work instead of running it.
    pub(super) fn records(&self) -> bool {
        self.recorded.as_ref().is_some_and(|recorded| recorded.lock().is_some())
    }

    /// Returns whether both streams record into the same graph.
    pub(super) fn is_recorded_with(&self, other: &Stream) -> bool {
        match (&self.recorded, &other.recorded) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.0, &b.0),
            _ => false,
        }
    }

    /// Waits for all earlier work, so that the next launch cannot overlap with it.
    pub(super) fn finish(&self) {
        self.order.finish();
    }

    /// Returns the point after all work so far.
    pub(super) fn point(&self) -> Point {
        Point { order: self.order.clone(), launches: self.order.launches(), number: self.number }
    }

    /// Returns the order of the stream's launches, after all waits of the host.
    fn order(&self) -> &sim::StreamOrder {
        let waits = self.waits.load(Relaxed);
        if self.seen.swap(waits, Relaxed) != waits {
            self.order.finish();
        }
        &self.order
    }

    /// Lets `f` add nodes to the recording in progress. Returns false if there is none.
    fn record(&self, f: impl FnOnce(&mut Vec<Node>)) -> bool {
        let Some(recorded) = &self.recorded else { return false };
        recorded.lock().as_mut().map(f).is_some()
    }

    /// Records work on memory, or runs it if nothing is recorded.
    pub(super) fn run_or_record(
        &self,
        work: impl Fn() -> Result<(), RuntimeError> + Send + Sync + 'static,
    ) -> Result<(), RuntimeError> {
        let work = Box::new(work);
        let mut left = Some(work);
        if self.record(|nodes| nodes.extend(left.take().map(|work| Node::Memory(work)))) {
            return Ok(());
        }
        self.finish();
        left.map_or(Ok(()), |work| work())
    }
}

/// A point in a stream's work.
pub(super) struct Point {
    order: sim::StreamOrder,
    /// How many launches of the stream come before the point.
    launches: u64,
    /// The number of the stream's simulator.
    number: u32,
}

impl Point {
    /// Returns the number of the stream's simulator.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Waits for all work before the point.
    pub(super) fn wait(&self) {
        self.order.finish_until(self.launches);
    }
}

/// A launch whose grid and arguments have been checked.
#[derive(Clone, Copy)]
pub(super) struct Launch<'l> {
    pub(super) grid: Grid,
    /// Set if all blocks have to run at once.
    pub(super) cooperative: bool,
    /// Set if the launch may overlap with earlier launches in the stream.
    pub(super) programmatic: bool,
    pub(super) stream: Option<&'l Stream>,
}

#[derive(Clone, Copy)]
pub(super) enum LaunchArg<'h> {
    Scalar(Const),
    Memory(&'h Memory),
    Map(&'h TensorMapDesc, &'h Memory),
}

/// A kernel that is ready to run.
pub(super) struct Function {
    name: String,
    program: sim::Program,
    /// The kernel with checks, if `program` contains checks.
    checked: Option<Arc<CheckedKernel>>,
    options: sim::Options,
    /// The order of launches on the default stream.
    order: sim::StreamOrder,
}

/// The parts of a launch that the kernel sees.
#[derive(Clone, Copy)]
struct LaunchShape {
    grid: Grid,
    cooperative: bool,
    programmatic: bool,
}

impl Function {
    /// Prepares a kernel. With `checked`, prepares the same kernel with checks.
    pub(super) fn load(
        context: &Context,
        ir: &KernelIr,
        checked: Option<&Arc<CheckedKernel>>,
    ) -> Result<Arc<Function>, RuntimeError> {
        let ir = checked.map_or(ir, |checked| checked.kernel().ir());
        let program = sim::Program::new(ir).map_err(|error| refused(&ir.name, error))?;
        let (name, options) = (ir.name.clone(), context.options.clone());
        let order = context.order.clone();
        Ok(Arc::new(Function { name, program, checked: checked.cloned(), options, order }))
    }

    /// Runs a launch, or records it if its stream records a graph.
    pub(super) fn launch<'h>(
        self: &Arc<Self>,
        launch: Launch<'_>,
        args: impl Iterator<Item = LaunchArg<'h>> + Clone,
    ) -> Result<(), RuntimeError> {
        let Launch { grid, cooperative, programmatic, stream } = launch;
        let how = LaunchShape { grid, cooperative, programmatic };
        let record = |nodes: &mut Vec<Node>| {
            let args = args.clone().map(OwnedArg::from).collect();
            nodes.push(Node::Launch { function: Arc::clone(self), args, how });
        };
        if stream.is_some_and(|stream| stream.record(record)) {
            return Ok(());
        }
        self.run(how, args, stream.map_or(&self.order, Stream::order)).map(|_| ())
    }

    /// Runs a launch and measures how long it takes.
    pub(super) fn time<'h>(
        &self,
        launch: Launch<'_>,
        args: impl Iterator<Item = LaunchArg<'h>>,
    ) -> Result<Timing, RuntimeError> {
        let Launch { grid, cooperative, programmatic, stream } = launch;
        stream.map_or(Ok(()), |stream| stream.check_runs("Function::time"))?;
        let order = stream.map_or(&self.order, Stream::order);
        let how = LaunchShape { grid, cooperative, programmatic };
        let timing = timed(|| self.run(how, args, order));
        order.finish();
        timing
    }

    /// Runs the kernel and returns how many operations its threads ran in total.
    fn run<'h>(
        &self,
        how: LaunchShape,
        args: impl Iterator<Item = LaunchArg<'h>>,
        order: &sim::StreamOrder,
    ) -> Result<u64, RuntimeError> {
        let (Function { name, program, checked, options, .. }, LaunchShape { grid, .. }) =
            (self, how);
        let record = checked.as_ref().map(|_| sim::GlobalBuffer::zeros(8 * Record::WORDS));
        let record = record.as_ref();
        let args = borrowed(args, record);
        let ran = match how.cooperative || options.race {
            true => {
                let options = options.clone().in_stream(order, how.programmatic);
                program.run(grid, &args, &options.cooperative(how.cooperative))
            }
            false => program.run(grid, &args, options),
        };
        let ran = ran.map_err(|error| match (checked, record) {
            (Some(checked), Some(record)) => violation(checked, record, error),
            _ => error,
        });
        Ok(ran.map_err(|error| refused(name, error))?.thread_ops)
    }
}

/// Converts the arguments to the simulator's form. A kernel with checks gets its record as the last
/// argument.
fn borrowed<'a, 'h: 'a>(
    args: impl Iterator<Item = LaunchArg<'h>>,
    record: Option<&'a sim::GlobalBuffer>,
) -> SmallVec<[sim::KernelArg<'a>; 8]> {
    let args = args.map(|arg| match arg {
        LaunchArg::Scalar(value) => sim::KernelArg::Scalar(value),
        LaunchArg::Memory(memory) => sim::KernelArg::Buffer(&memory.buffer),
        LaunchArg::Map(map, memory) => sim::KernelArg::TensorMap(map, &memory.buffer),
    });
    args.chain(record.map(sim::KernelArg::Buffer)).collect()
}

/// If a checked kernel trapped, returns the violation that it recorded. Returns any other error
/// unchanged.
fn violation(
    checked: &CheckedKernel,
    record: &sim::GlobalBuffer,
    error: sim::RunError,
) -> sim::RunError {
    let Some(trap) = error.fault().filter(|fault| matches!(fault.cause, sim::FaultCause::Trap))
    else {
        return error;
    };
    let record = Record::read(&record.to_vec());
    match record.and_then(|record| sim::Fault::from_record(checked, &record)) {
        Some(fault) => sim::RunError::Fault(Box::new(sim::Fault { order: trap.order, ..fault })),
        None => error,
    }
}

fn timed(run: impl FnOnce() -> Result<u64, RuntimeError>) -> Result<Timing, RuntimeError> {
    let start = Instant::now();
    let thread_ops = run()?;
    Ok(Timing { elapsed: start.elapsed(), thread_ops: Some(thread_ops) })
}

fn refused(kernel: &str, error: sim::RunError) -> RuntimeError {
    match error {
        sim::RunError::TooManyBlocksAtOnce { blocks, limit } => {
            RuntimeError::TooManyBlocksAtOnce { kernel: kernel.to_owned(), blocks, limit }
        }
        sim::RunError::AssertFailed(failures) => RuntimeError::AssertFailed(failures),
        error => RuntimeError::Simulation(Box::new(error)),
    }
}

/// Recorded work, with everything that it uses.
enum Node {
    Launch {
        function: Arc<Function>,
        args: Vec<OwnedArg>,
        how: LaunchShape,
    },
    /// A copy or a fill.
    Memory(Box<dyn Fn() -> Result<(), RuntimeError> + Send + Sync>),
}

enum OwnedArg {
    Scalar(Const),
    Memory(Memory),
    Map(Box<TensorMapDesc>, Memory),
}

impl From<LaunchArg<'_>> for OwnedArg {
    fn from(arg: LaunchArg<'_>) -> OwnedArg {
        match arg {
            LaunchArg::Scalar(value) => OwnedArg::Scalar(value),
            LaunchArg::Memory(memory) => OwnedArg::Memory(memory.clone()),
            LaunchArg::Map(map, memory) => OwnedArg::Map(Box::new(map.clone()), memory.clone()),
        }
    }
}

impl Node {
    /// Returns the memory that a launch uses.
    fn memories(&self) -> impl Iterator<Item = &Memory> {
        let args = match self {
            Node::Launch { args, .. } => &args[..],
            Node::Memory(_) => &[],
        };
        args.iter().filter_map(|arg| match arg {
            OwnedArg::Scalar(_) => None,
            OwnedArg::Memory(memory) | OwnedArg::Map(_, memory) => Some(memory),
        })
    }

    /// Runs the work and returns how many operations its threads ran in total.
    #[inline]
    fn run(&self, order: &sim::StreamOrder) -> Result<u64, RuntimeError> {
        match self {
            Node::Launch { function, args, how } => {
                let args = args.iter().map(|arg| match arg {
                    OwnedArg::Scalar(value) => LaunchArg::Scalar(*value),
                    OwnedArg::Memory(memory) => LaunchArg::Memory(memory),
                    OwnedArg::Map(map, memory) => LaunchArg::Map(map, memory),
                });
                function.run(*how, args, order)
            }
            Node::Memory(work) => {
                order.finish();
                work().map(|()| 0)
            }
        }
    }
}

/// The work that is recorded so far; `None` after the recording has finished.
#[derive(Clone)]
struct Recorded(Arc<Mutex<Option<Vec<Node>>>>);

impl Recorded {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recording in progress. When it is finished or dropped, its stream runs later work as usual.
pub(super) struct Recording {
    recorded: Recorded,
    stream: Stream,
    /// The order of launches on the default stream.
    default: sim::StreamOrder,
}

impl Recording {
    pub(super) fn new(context: &Context) -> Result<Recording, RuntimeError> {
        let recorded = Recorded(Arc::new(Mutex::new(Some(Vec::new()))));
        let stream = Stream { recorded: Some(recorded.clone()), ..Stream::new(context)? };
        Ok(Recording { recorded, stream, default: context.order.clone() })
    }

    /// Returns the stream that records.
    pub(super) fn stream(&self) -> Stream {
        self.stream.clone()
    }

    pub(super) fn finish(self) -> Result<Graph, RuntimeError> {
        let nodes = self.recorded.lock().take().unwrap_or_default();
        Ok(Graph { nodes, default: self.default.clone() })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        *self.recorded.lock() = None;
    }
}

/// A recorded graph.
pub(super) struct Graph {
    nodes: Vec<Node>,
    /// The order of launches on the default stream.
    default: sim::StreamOrder,
}

impl Graph {
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Runs the whole graph and returns how many operations its threads ran in total. The stream's
    /// earlier work ends before the graph starts, and its later work starts after the graph has
    /// ended.
    #[inline]
    fn run(&self, stream: Option<&Stream>) -> Result<u64, RuntimeError> {
        let order = stream.map_or(&self.default, Stream::order);
        order.finish();
        // A stream waits for other streams before the graph, not between the graph's launches.
        for node in &self.nodes {
            node.memories().for_each(|memory| order.wait_for(&memory.buffer));
        }
        let run = |node: &Node| node.run(order);
        let ops = self.nodes.iter().try_fold(0u64, |ops, node| Ok(ops.saturating_add(run(node)?)));
        order.finish();
        ops
    }

    /// Runs the graph on a stream, or on the default stream.
    #[inline]
    pub(super) fn launch(&self, stream: Option<&Stream>) -> Result<(), RuntimeError> {
        stream.map_or(Ok(()), |stream| stream.check_runs("Graph::launch_on"))?;
        self.run(stream).map(|_| ())
    }

    /// Like [`Graph::launch`], but also measures the time.
    #[inline]
    pub(super) fn time(&self, stream: Option<&Stream>) -> Result<Timing, RuntimeError> {
        stream.map_or(Ok(()), |stream| stream.check_runs("Graph::time_on"))?;
        timed(|| self.run(stream))
    }
}
