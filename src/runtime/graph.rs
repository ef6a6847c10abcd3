//! Defines [`Graph`], launches that are recorded once and run many times.

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
    recording: Recording,
}

/// Recorded work. Dropping it forgets the work; the stream, which others may share, runs later work.
enum Recording {
    Sim(simulator::Recording),
    Cuda(cuda::Recording),
}

impl Device {
    /// Starts to record launches: see [`GraphBuilder`].
    ///
    /// # Errors
    /// The fault of a launch before, if it had one; [`Driver`](RuntimeError::Driver).
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
    Sim(simulator::Graph),
    /// The driver takes one launch of a graph at a time.
    Cuda(Mutex<cuda::Graph>),
}

impl Graph {
    /// Runs the launches, after all work of the default stream before this call.
    ///
    /// # Errors
    /// On the simulator those of the launches; on a GPU the fault of a launch before, if it had one, and
    /// [`Driver`](RuntimeError::Driver).
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

    /// As [`Graph::time`], on a stream.
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

    /// As [`Graph::launch`], on a stream.
    ///
    /// # Errors
    /// Those of [`Graph::launch`]; [`OtherDeviceStream`](RuntimeError::OtherDeviceStream);
    /// [`NotInGraph`](RuntimeError::NotInGraph) on a stream that records one.
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

    /// Returns the number of launches, copies and fills.
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
