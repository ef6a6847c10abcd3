//! Defines [`Graph`]: launches that are recorded once and then run many times, which saves the
//! host's work per launch.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::argument::Arguments;
use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::function::Function;
use super::launch_options::LaunchOptions;
use super::simulator;
use super::stream::{Stream, StreamBackend};
use super::timing::Timing;
use crate::launch::grid::Grid;

/// Records launches, copies and fills for a [`Graph`]. Made by [`Device::graph`].
///
/// Either record launches one by one with [`launch`](GraphBuilder::launch), or pass
/// [`stream`](GraphBuilder::stream) to code that launches on a stream. You can mix both.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// # use tilewright::ir::{GlobalMut, Kernel};
/// # use tilewright::runtime::{Device, Grid};
/// # let device = Device::default()?;
/// # let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("add", device.target(), |k, (x, n)| {
/// #     let i = k.thread_idx().x;
/// #     x.store(i, x.load(i) + n)
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
    recording: Recording,
}

/// A recording in progress. Dropping it discards the recorded work. The stream, which you may have
/// cloned, then runs later work.
enum Recording {
    Sim(simulator::Recording),
    Cuda(cuda::Recording),
}

impl Device {
    /// Starts to record a graph: see [`GraphBuilder`].
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias = "cudaStreamBeginCapture")]
    #[inline]
    pub fn graph(&self) -> Result<GraphBuilder, RuntimeError> {
        GraphBuilder::new(self)
    }
}

impl GraphBuilder {
    #[inline]
    pub(super) fn new(device: &Device) -> Result<GraphBuilder, RuntimeError> {
        let (backend, recording) = match &device.backend {
            Backend::Sim(context) => {
                let recording = simulator::Recording::new(context)?;
                (StreamBackend::Sim(recording.stream()), Recording::Sim(recording))
            }
            Backend::Cuda(context) => {
                let recording = cuda::Recording::new(context)?;
                (StreamBackend::Cuda(Arc::clone(recording.stream())), Recording::Cuda(recording))
            }
        };
        Ok(GraphBuilder { device: device.clone(), stream: Stream { backend }, recording })
    }

    /// Returns the stream that records: its launches, its copies
    /// ([`Buffer::copy_from`](super::Buffer::copy_from)) and its fills
    /// ([`Buffer::fill`](super::Buffer::fill)) become part of the graph. After the recording it is
    /// an ordinary stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Appends a launch to the recording. The kernel runs each time the finished graph is launched.
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

    /// Ends the recording and returns the graph, ready to launch.
    ///
    /// # Errors
    /// [`Driver`](RuntimeError::Driver) if the driver refuses the recorded work.
    #[inline]
    pub fn finish(self) -> Result<Graph, RuntimeError> {
        let backend = match self.recording {
            Recording::Sim(recording) => GraphBackend::Sim(recording.finish()?),
            Recording::Cuda(recording) => GraphBackend::Cuda(Mutex::new(recording.finish()?)),
        };
        Ok(Graph { device: self.device, backend })
    }
}

impl fmt::Debug for GraphBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphBuilder(on {})", self.device)
    }
}

/// Launches, copies and fills that run one after the other each time you launch the graph. One
/// graph launch costs less than the single launches. Made by [`GraphBuilder`].
///
/// A graph keeps the buffers and the code that it uses alive. A graph launch is ordered with all
/// other work on these buffers, like a launch that takes them, so you can read, write and drop them
/// while the graph exists. Scalars and tensor maps keep the values that they had during the
/// recording.
pub struct Graph {
    device: Device,
    backend: GraphBackend,
}

enum GraphBackend {
    Sim(simulator::Graph),
    /// Locked because the driver takes one launch of a graph at a time.
    Cuda(Mutex<cuda::Graph>),
}

impl Graph {
    /// Runs the graph on the default stream, after that stream's earlier work.
    ///
    /// # Errors
    /// On the simulator, those of the recorded launches; on a GPU, the fault of an earlier launch,
    /// if there was one, and [`Driver`](RuntimeError::Driver).
    #[inline]
    pub fn launch(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            GraphBackend::Sim(graph) => graph.launch(None),
            GraphBackend::Cuda(graph) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                graph.launch(graph.context().default_stream())
            }
        }
    }

    /// Like [`Graph::launch`], but waits for the end and returns how long the whole graph took. On
    /// a GPU, `elapsed` is the time between two events around the graph. On the simulator it is
    /// wall-clock time, and `thread_ops` counts the operations of all launches in the graph.
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
    ///     x.store(k.thread_idx().x, 7)
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
    #[inline]
    pub fn time(&self) -> Result<Timing, RuntimeError> {
        match &self.backend {
            GraphBackend::Sim(graph) => graph.time(None),
            GraphBackend::Cuda(graph) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                let elapsed = graph.time(graph.context().default_stream())?;
                Ok(Timing { elapsed, thread_ops: None })
            }
        }
    }

    /// Like [`Graph::time`], but runs the graph on `stream` instead of the default stream.
    ///
    /// # Errors
    /// Those of [`Graph::launch_on`] and [`Graph::time`].
    #[inline]
    pub fn time_on(&self, stream: &Stream) -> Result<Timing, RuntimeError> {
        match (&self.backend, &stream.backend) {
            (GraphBackend::Sim(graph), StreamBackend::Sim(on)) if stream.is_on(&self.device) => {
                graph.time(Some(on))
            }
            (GraphBackend::Cuda(graph), StreamBackend::Cuda(on)) if stream.is_on(&self.device) => {
                let graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Timing { elapsed: graph.time(on)?, thread_ops: None })
            }
            _ => Err(self.other_device(stream)),
        }
    }

    fn other_device(&self, stream: &Stream) -> RuntimeError {
        RuntimeError::OtherDeviceStream {
            what: "a graph".to_owned(),
            stream: stream.device().to_string(),
            device: self.device.to_string(),
        }
    }

    /// Like [`Graph::launch`], but runs the graph on `stream` instead of the default stream, after
    /// that stream's earlier work.
    ///
    /// # Errors
    /// Those of [`Graph::launch`]; [`OtherDeviceStream`](RuntimeError::OtherDeviceStream);
    /// [`NotInGraph`](RuntimeError::NotInGraph) if the stream records a graph.
    #[inline]
    pub fn launch_on(&self, stream: &Stream) -> Result<(), RuntimeError> {
        match (&self.backend, &stream.backend) {
            (GraphBackend::Sim(graph), StreamBackend::Sim(on)) if stream.is_on(&self.device) => {
                graph.launch(Some(on))
            }
            (GraphBackend::Cuda(graph), StreamBackend::Cuda(on)) if stream.is_on(&self.device) => {
                graph.lock().unwrap_or_else(PoisonError::into_inner).launch(on)
            }
            _ => Err(self.other_device(stream)),
        }
    }

    /// Returns how many launches, copies and fills one launch of the graph runs.
    pub fn len(&self) -> usize {
        match &self.backend {
            GraphBackend::Sim(graph) => graph.nodes(),
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
