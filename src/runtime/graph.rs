//! Defines [`Graph`], launches that are recorded once and run many times.

use std::fmt;
#[cfg(feature = "cuda-any-version")]
use std::sync::{Mutex, PoisonError};

use super::argument::Arguments;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::function::Function;
use super::options::LaunchOptions;
use super::stream::{Stream, StreamBackend};
use super::timing::Timing;
use crate::launch::grid::Grid;

#[cfg(feature = "cuda-any-version")]
use super::cuda;
#[cfg(feature = "sim")]
use std::time::Instant;

#[cfg(feature = "sim")]
pub(super) use sim_recording::{SimNode, SimRecording};

/// Launches that are recorded, to become a [`Graph`].
///
/// Either one by one with [`launch`](GraphBuilder::launch), or by code that launches on
/// [`stream`](GraphBuilder::stream): both may be mixed.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// # use tilewright::ir::{GlobalMut, Kernel};
/// # use tilewright::runtime::{Device, Grid};
/// # let device = Device::default()?;
/// # let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("add", device.target(), |k, (x, n)| {
/// #     let i = k.thread_idx().x;
/// #     x.store(k, i, x.load(k, i) + n)
/// # })?;
/// # let add = device.load(&kernel)?;
/// let mut x = device.zeros(32)?;
/// let mut graph = device.graph()?;
/// graph.launch(&add, Grid::cover(32, 32), (&mut x, 1))?;
/// graph.launch(&add, Grid::cover(32, 32), (&mut x, 2))?;
/// let graph = graph.finish()?;
/// assert_eq!(x.to_vec()?, [0; 32]); // recorded, not run
/// graph.launch()?;
/// graph.launch()?;
/// assert_eq!(x.to_vec()?, [6; 32]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphBuilder {
    device: Device,
    stream: Stream,
    #[cfg(feature = "cuda-any-version")]
    recording: Option<cuda::Recording>,
}

impl GraphBuilder {
    pub(super) fn new(device: &Device) -> Result<GraphBuilder, RuntimeError> {
        #[cfg(feature = "cuda-any-version")]
        let recording;
        let backend = match &device.backend {
            #[cfg(feature = "sim")]
            Backend::Sim(_) => {
                #[cfg(feature = "cuda-any-version")]
                {
                    recording = None;
                }
                StreamBackend::Sim(Some(SimRecording::new()))
            }
            #[cfg(feature = "cuda-any-version")]
            Backend::Cuda(context) => {
                let opened = cuda::Recording::new(context)?;
                let stream = std::sync::Arc::clone(opened.stream());
                recording = Some(opened);
                StreamBackend::Cuda(stream)
            }
        };
        Ok(GraphBuilder {
            device: device.clone(),
            stream: Stream { backend },
            #[cfg(feature = "cuda-any-version")]
            recording,
        })
    }

    /// Returns the stream whose launches are recorded, and its copies ([`Buffer::copy_from`](super::Buffer::copy_from))
    /// and fills ([`Buffer::fill`](super::Buffer::fill)). When the recording has ended it is a stream like others.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Records a launch, after those before.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    pub fn launch<P: Arguments>(
        &mut self,
        function: &Function<P>,
        grid: Grid,
        args: P::Args<'_, '_>,
    ) -> Result<(), RuntimeError> {
        function.launch_with(LaunchOptions::default().stream(&self.stream), grid, args)
    }

    /// Returns the recorded work as a graph that can run.
    ///
    /// # Errors
    /// [`Driver`](RuntimeError::Driver), where the driver refuses the launches together.
    #[cfg_attr(not(feature = "cuda-any-version"), expect(unused_mut, reason = "of a GPU"))]
    pub fn finish(mut self) -> Result<Graph, RuntimeError> {
        let backend = match &self.stream.backend {
            #[cfg(feature = "sim")]
            StreamBackend::Sim(recording) => {
                GraphBackend::Sim(recording.as_ref().map(SimRecording::finish).unwrap_or_default())
            }
            #[cfg(feature = "cuda-any-version")]
            StreamBackend::Cuda(_) => match self.recording.take() {
                Some(recording) => GraphBackend::Cuda(Mutex::new(recording.finish()?)),
                None => return Err(RuntimeError::NotInGraph { call: "GraphBuilder::finish" }),
            },
        };
        Ok(Graph { device: self.device.clone(), backend })
    }
}

/// Forgets the recorded work. The stream, which others may share, runs later work.
impl Drop for GraphBuilder {
    fn drop(&mut self) {
        #[cfg(feature = "sim")]
        if let StreamBackend::Sim(Some(recording)) = &self.stream.backend {
            recording.finish();
        }
    }
}

impl fmt::Debug for GraphBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphBuilder(on {})", self.device)
    }
}

/// Launches, copies and fills that run one after the other each time the graph is launched, for less than single ones
/// cost. Made by [`GraphBuilder`].
///
/// A graph keeps the buffers and the code that it uses. Its launches are ordered with all other work on these
/// buffers like a launch that takes them, so a buffer may be read, written and dropped while there is a
/// graph of it; scalars and tensor maps stay as they were recorded.
pub struct Graph {
    device: Device,
    backend: GraphBackend,
}

enum GraphBackend {
    #[cfg(feature = "sim")]
    Sim(Vec<SimNode>),
    /// The driver takes one launch of a graph at a time.
    #[cfg(feature = "cuda-any-version")]
    Cuda(Mutex<cuda::Graph>),
}

impl Graph {
    /// Runs the launches, after all work of the default stream before this call.
    ///
    /// # Errors
    /// On the simulator those of the launches; on a GPU the fault of a launch before, if it had one, and
    /// [`Driver`](RuntimeError::Driver).
    pub fn launch(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            #[cfg(feature = "sim")]
            GraphBackend::Sim(nodes) => run_all(nodes).map(|_| ()),
            #[cfg(feature = "cuda-any-version")]
            GraphBackend::Cuda(graph) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                graph.launch(graph.context().default_stream())
            }
        }
    }

    /// As [`Graph::launch`]; waits for the end and says how long all that was recorded took together: on a GPU between
    /// two events around it, with `thread_ops` of all launches together on the simulator.
    ///
    /// # Errors
    /// Those of [`Graph::launch`], and on a GPU the fault of this launch and
    /// [`AssertFailed`](RuntimeError::AssertFailed).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel};
    /// use tilewright::runtime::{Device, Grid};
    /// let device = Device::sim()?;
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("fill", device.target(), |k, (x,)| {
    ///     x.store(k, k.thread_idx().x, 7)
    /// })?;
    /// let fill = device.load(&kernel)?;
    /// let mut x = device.zeros(32)?;
    /// let one = fill.time(Grid::cover(32, 32), (&mut x,))?;
    /// let mut graph = device.graph()?;
    /// graph.launch(&fill, Grid::cover(32, 32), (&mut x,))?;
    /// graph.launch(&fill, Grid::cover(32, 32), (&mut x,))?;
    /// let both = graph.finish()?.time()?;
    /// assert_eq!(both.thread_ops, one.thread_ops.map(|ops| 2 * ops));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn time(&self) -> Result<Timing, RuntimeError> {
        match &self.backend {
            #[cfg(feature = "sim")]
            GraphBackend::Sim(nodes) => time_all(nodes),
            #[cfg(feature = "cuda-any-version")]
            GraphBackend::Cuda(graph) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                let elapsed = graph.time(graph.context().default_stream())?;
                Ok(Timing { elapsed, thread_ops: None })
            }
        }
    }

    /// As [`Graph::time`], on a stream.
    ///
    /// # Errors
    /// Those of [`Graph::launch_on`] and [`Graph::time`].
    pub fn time_on(&self, stream: &Stream) -> Result<Timing, RuntimeError> {
        match (&self.backend, &stream.backend) {
            #[cfg(feature = "sim")]
            (GraphBackend::Sim(nodes), StreamBackend::Sim(recording)) => {
                super::stream::not_recording(recording, "Graph::time_on")?;
                time_all(nodes)
            }
            #[cfg(feature = "cuda-any-version")]
            (GraphBackend::Cuda(graph), StreamBackend::Cuda(on)) if stream.is_on(&self.device) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Timing { elapsed: graph.time(on)?, thread_ops: None })
            }
            #[cfg(feature = "cuda-any-version")]
            _ => Err(self.other_device(stream)),
        }
    }

    #[cfg(feature = "cuda-any-version")]
    fn other_device(&self, stream: &Stream) -> RuntimeError {
        RuntimeError::OtherDeviceStream {
            what: "a graph".to_owned(),
            stream: stream.device().to_string(),
            device: self.device.to_string(),
        }
    }

    /// As [`Graph::launch`], on a stream.
    ///
    /// # Errors
    /// Those of [`Graph::launch`]; [`OtherDeviceStream`](RuntimeError::OtherDeviceStream);
    /// [`NotInGraph`](RuntimeError::NotInGraph) on a stream that records one.
    pub fn launch_on(&self, stream: &Stream) -> Result<(), RuntimeError> {
        match (&self.backend, &stream.backend) {
            #[cfg(feature = "sim")]
            (GraphBackend::Sim(nodes), StreamBackend::Sim(recording)) => {
                super::stream::not_recording(recording, "Graph::launch_on")?;
                run_all(nodes).map(|_| ())
            }
            #[cfg(feature = "cuda-any-version")]
            (GraphBackend::Cuda(graph), StreamBackend::Cuda(on)) if stream.is_on(&self.device) => {
                graph.lock().unwrap_or_else(PoisonError::into_inner).launch(on)
            }
            #[cfg(feature = "cuda-any-version")]
            _ => Err(self.other_device(stream)),
        }
    }

    /// Returns the number of launches, copies and fills.
    pub fn len(&self) -> usize {
        match &self.backend {
            #[cfg(feature = "sim")]
            GraphBackend::Sim(nodes) => nodes.len(),
            #[cfg(feature = "cuda-any-version")]
            GraphBackend::Cuda(graph) => {
                graph.lock().unwrap_or_else(PoisonError::into_inner).nodes() as usize
            }
        }
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes on {})", self.len(), self.device)
    }
}

/// Runs all; the operations of all threads.
#[cfg(feature = "sim")]
fn run_all(nodes: &[SimNode]) -> Result<u64, RuntimeError> {
    nodes.iter().try_fold(0u64, |ops, node| Ok(ops.saturating_add(node.run()?)))
}

#[cfg(feature = "sim")]
fn time_all(nodes: &[SimNode]) -> Result<Timing, RuntimeError> {
    let start = Instant::now();
    let thread_ops = run_all(nodes)?;
    Ok(Timing { elapsed: start.elapsed(), thread_ops: Some(thread_ops) })
}

/// Graphs of the simulator.
#[cfg(feature = "sim")]
mod sim_recording {
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use crate::arch::TensorMapDesc;
    use crate::ir::Const;
    use crate::runtime::argument::{Arg, ArgValue};
    use crate::runtime::buffer::Memory;
    use crate::runtime::function::Inner;
    use crate::runtime::{Grid, RuntimeError};
    use crate::sim;

    /// Recorded work, with all that it uses.
    pub(in crate::runtime) enum SimNode {
        Launch(SimLaunch),
        /// A copy or a fill.
        Memory(Box<dyn Fn() + Send + Sync>),
    }

    impl SimNode {
        /// Runs it; the operations of all threads.
        pub(super) fn run(&self) -> Result<u64, RuntimeError> {
            match self {
                SimNode::Launch(launch) => launch.run(),
                SimNode::Memory(work) => {
                    work();
                    Ok(0)
                }
            }
        }
    }

    /// A launch, with what it uses.
    pub(in crate::runtime) struct SimLaunch {
        function: Arc<Inner>,
        grid: Grid,
        args: Vec<OwnedArg>,
        cooperative: bool,
    }

    enum OwnedArg {
        Scalar(Const),
        Buffer(Arc<sim::Buffer>),
        TensorMap(Box<TensorMapDesc>, Arc<sim::Buffer>),
    }

    impl SimLaunch {
        fn run(&self) -> Result<u64, RuntimeError> {
            let args: Vec<_> = self
                .args
                .iter()
                .map(|arg| match arg {
                    OwnedArg::Scalar(value) => sim::Arg::Scalar(*value),
                    OwnedArg::Buffer(buffer) => sim::Arg::Buffer(buffer),
                    OwnedArg::TensorMap(map, buffer) => sim::Arg::TensorMap(map, buffer),
                })
                .collect();
            self.function.simulate(self.grid, &args, self.cooperative)
        }
    }

    /// The work recorded so far; nothing once the recording is finished.
    #[derive(Clone)]
    pub(in crate::runtime) struct SimRecording(Arc<Mutex<Option<Vec<SimNode>>>>);

    impl SimRecording {
        pub(super) fn new() -> SimRecording {
            SimRecording(Arc::new(Mutex::new(Some(Vec::new()))))
        }

        fn lock(&self) -> MutexGuard<'_, Option<Vec<SimNode>>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(in crate::runtime) fn is_open(&self) -> bool {
            self.lock().is_some()
        }

        pub(super) fn finish(&self) -> Vec<SimNode> {
            self.lock().take().unwrap_or_default()
        }

        /// Records work on memory where the recording, if there is one, goes on; else does it.
        pub(in crate::runtime) fn run_or_note(
            recording: Option<&SimRecording>,
            work: impl Fn() + Send + Sync + 'static,
        ) {
            if let Some(recording) = recording
                && let Some(nodes) = recording.lock().as_mut()
            {
                return nodes.push(SimNode::Memory(Box::new(work)));
            }
            work();
        }

        /// Records the launch, if that goes on; whether it does.
        pub(in crate::runtime) fn note(
            &self,
            function: &Arc<Inner>,
            grid: Grid,
            args: &[Arg<'_>],
            cooperative: bool,
        ) -> bool {
            let mut recording = self.lock();
            let Some(nodes) = recording.as_mut() else { return false };
            let owned = |arg: &Arg<'_>| {
                let on_simulator = |memory: &Memory| match memory {
                    Memory::Sim(buffer) => Some(Arc::clone(buffer)),
                    #[cfg(feature = "cuda-any-version")]
                    Memory::Cuda(_) => None,
                };
                match arg.value {
                    ArgValue::Scalar(value) => Some(OwnedArg::Scalar(value)),
                    ArgValue::Buffer(memory, _) => on_simulator(memory).map(OwnedArg::Buffer),
                    ArgValue::TensorMap(map) => on_simulator(map.memory)
                        .map(|buffer| OwnedArg::TensorMap(Box::new(map.desc.clone()), buffer)),
                }
            };
            // A buffer of another device has been refused before.
            let args = args.iter().filter_map(owned).collect();
            let launch = SimLaunch { function: Arc::clone(function), grid, args, cooperative };
            nodes.push(SimNode::Launch(launch));
            true
        }
    }
}
