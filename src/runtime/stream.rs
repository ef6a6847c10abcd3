//! Defines [`Stream`], a queue of device work, and [`Event`], a point in such a queue. You need
//! them to overlap work or to time it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::simulator;

/// A queue of device work that runs in call order, made by [`Device::stream`]. To launch on it,
/// pass [`LaunchOptions::stream`](super::LaunchOptions). You need streams only if work may overlap:
/// without one, launches run on the device's default stream.
///
/// Work on two streams may run at the same time, but buffers order the work that uses them: a
/// launch that reads a buffer waits for the last launch that wrote it, on whichever stream, and a
/// launch that writes a buffer waits for all its earlier uses. To wait, a stream waits for
/// everything that is queued on the other stream at that moment. So your program is safe and its
/// results are right without events. Use events to order anything else, or to measure time.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// # use tilewright::ir::{Global, GlobalMut, Kernel};
/// # use tilewright::runtime::{Device, Grid, LaunchOptions};
/// # type Copy = (Global<i32>, GlobalMut<i32>);
/// # let device = Device::default()?;
/// # let kernel = Kernel::<Copy>::build("copy", device.target(), |k, (x, y)| {
/// #     let i = k.thread_idx().x;
/// #     y.store(i, x.load(i))
/// # })?;
/// # let copy = device.load(&kernel)?;
/// let (first, second) = (device.stream()?, device.stream()?);
/// let x = device.upload(&[7; 32])?;
/// let (mut y, mut z) = (device.zeros(32)?, device.zeros(32)?);
/// let on = |stream| LaunchOptions::default().stream(stream);
/// copy.launch_with(on(&first), Grid::cover(32, 32), (&x, &mut y))?;
/// copy.launch_with(on(&second), Grid::cover(32, 32), (&y, &mut z))?; // after the first
/// assert_eq!(z.to_vec()?, [7; 32]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The simulator finishes a launch before the call returns, so its streams are always idle. A
/// stream is cheap to clone.
///
/// # Streams that other code captures
///
/// A program can capture a stream of its own (`Stream::from_cudarc`) into a CUDA graph, as
/// `torch.cuda.graph` does. [`Stream::is_captured`] tells whether it does. A launch on the stream
/// then becomes part of that graph:
///
/// * Buffers and functions cannot know when the graph runs or when it is destroyed. So we never
///   unload the function and never free its buffers or those of the launch, even if you drop them.
///   Memory that is only borrowed (`Device::borrow_cudarc`) is not kept: it must live as long as
///   the graph.
/// * Nothing orders the graph with other work on the same buffers, and an assertion that fails in
///   it is not reported. A function may have buffers of its own, for example an attention kernel's
///   tile counter or a split-K workspace. So two graphs that launch the same function must not run
///   at the same time, and neither must such a graph and a launch of that function, unless you load
///   the function separately for each of them.
/// * Nothing can wait. A launch fails with [`CaptureWaits`](RuntimeError::CaptureWaits) if work on
///   another stream still uses one of its buffers. During most captures the driver also refuses to
///   load kernels and to allocate memory ([`CaptureForbids`](RuntimeError::CaptureForbids)), and
///   ends the capture. So before the capture begins, load each function, launch it once with the
///   same sizes, and synchronize.
/// * `cudarc` itself waits for events when memory is borrowed. So call
///   `CudaContext::disable_event_tracking` before your program makes slices that it uses during a
///   capture.
///
/// Every other call that queues work on the stream fails with
/// [`StreamCaptures`](RuntimeError::StreamCaptures) during the capture, and queues nothing. If
/// another thread begins a capture while such a call or a launch is running, then:
///
/// * The captured graph never contains a copy between host and device. These copies run on a stream
///   of this crate that is ordered with the stream you named.
/// * No stream of this crate takes part in the capture.
/// * A check after the call finds the capture. The call fails with the same error, although the
///   graph may contain its work. We never free the buffers, the function or the graph that this
///   work uses, so the captured graph can be launched. Borrowed memory (`Device::borrow_cudarc`) is
///   not kept.
/// * The check misses one case: the other thread begins *and* ends its capture between two
///   consecutive driver calls within one call of this crate. Such a graph may use device memory
///   that was freed. So if two threads share a stream, put a lock around its captures and the work
///   on it.
#[derive(Clone)]
pub struct Stream {
    pub(super) backend: StreamBackend,
}

#[derive(Clone)]
pub(super) enum StreamBackend {
    Sim(simulator::Stream),
    Cuda(Arc<cuda::Stream>),
}

impl Device {
    /// Creates a stream. Use it if work should overlap with the work on the default stream: see
    /// [`Stream`].
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias = "cudaStreamCreate")]
    pub fn stream(&self) -> Result<Stream, RuntimeError> {
        Stream::new(self)
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Stream, RuntimeError> {
        let backend = match &device.backend {
            Backend::Sim(context) => StreamBackend::Sim(simulator::Stream::new(context)?),
            Backend::Cuda(context) => StreamBackend::Cuda(cuda::Stream::new(context)?),
        };
        Ok(Stream { backend })
    }

    /// Returns the device that runs the stream's work.
    pub fn device(&self) -> Device {
        match &self.backend {
            StreamBackend::Sim(stream) => Backend::Sim(stream.context()).into(),
            StreamBackend::Cuda(stream) => Backend::Cuda(stream.context()).into(),
        }
    }

    /// Returns whether `self.device() == *device`.
    pub(super) fn is_on(&self, device: &Device) -> bool {
        match (&self.backend, &device.backend) {
            (StreamBackend::Sim(stream), Backend::Sim(context)) => {
                stream.number() == context.number()
            }
            (StreamBackend::Cuda(stream), Backend::Cuda(context)) => {
                std::ptr::eq(stream.context(), *context)
            }
            (StreamBackend::Sim(_), Backend::Cuda(_))
            | (StreamBackend::Cuda(_), Backend::Sim(_)) => false,
        }
    }

    /// Returns whether the stream records a graph
    /// ([`GraphBuilder::stream`](super::GraphBuilder::stream)): then work is recorded instead of
    /// run, and calls that wait for it fail.
    pub fn is_recording(&self) -> bool {
        match &self.backend {
            StreamBackend::Sim(stream) => stream.records(),
            StreamBackend::Cuda(stream) => stream.check_runs("").is_err(),
        }
    }

    /// Returns whether other code captures the stream into a graph, which then receives each
    /// launch: see [`Stream`]. Ask before you allocate memory or load a kernel, because the driver
    /// can refuse both during a capture and end it.
    ///
    /// # Errors
    /// [`OtherThreadStream`](RuntimeError::OtherThreadStream); the fault of an earlier launch, if
    /// there was one;
    /// [`Driver`](RuntimeError::Driver).
    pub fn is_captured(&self) -> Result<bool, RuntimeError> {
        match &self.backend {
            StreamBackend::Sim(_) => Ok(false),
            StreamBackend::Cuda(stream) => stream.is_captured(),
        }
    }

    /// Waits for all earlier work of the stream. Call it before other code reads the results or
    /// stops a clock; reading a buffer waits by itself.
    ///
    /// # Errors
    /// Those of [`Device::synchronize`]; [`NotInGraph`](RuntimeError::NotInGraph) if the stream
    /// records a graph.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            StreamBackend::Sim(stream) => {
                stream.check_runs("Stream::synchronize")?;
                stream.finish();
                Ok(())
            }
            StreamBackend::Cuda(stream) => stream.synchronize(),
        }
    }

    /// Makes the stream's later work wait until the result is released or dropped, for a second at
    /// most. Whatever you queue meanwhile then runs without waiting for the host, so that times do
    /// not depend on how fast the host queues launches. Does nothing on the simulator.
    ///
    /// # Errors
    /// [`NotInGraph`](RuntimeError::NotInGraph) if the stream records a graph; the fault of an
    /// earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn hold(&self) -> Result<Hold, RuntimeError> {
        match &self.backend {
            StreamBackend::Sim(stream) => {
                stream.check_runs("Stream::hold")?;
                Ok(Hold { held: None })
            }
            StreamBackend::Cuda(stream) => Ok(Hold { held: Some(cuda::Hold::new(stream)?) }),
        }
    }

    /// Records an event: the point behind all earlier work of the stream. Other streams can wait
    /// for it ([`Stream::wait_for`]), and two of them measure time ([`Event::elapsed_until`]).
    ///
    /// # Errors
    /// [`NotInGraph`](RuntimeError::NotInGraph) if the stream records a graph; the fault of an
    /// earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    #[doc(alias = "cudaEventRecord")]
    pub fn record(&self) -> Result<Event, RuntimeError> {
        let backend = match &self.backend {
            StreamBackend::Sim(stream) => {
                stream.check_runs("Stream::record")?;
                EventBackend::Sim(Instant::now(), stream.point())
            }
            StreamBackend::Cuda(stream) => {
                let event = cuda::Event::new(stream.context())?;
                event.record_on(stream)?;
                EventBackend::Cuda(event)
            }
        };
        Ok(Event { backend })
    }

    /// Makes the stream's later work wait until the event's point is reached. The host does not
    /// wait. You need it only for work that the use of buffers does not order.
    ///
    /// # Errors
    /// [`NotInGraph`](RuntimeError::NotInGraph) if the stream records a graph;
    /// [`OtherDeviceEvent`](RuntimeError::OtherDeviceEvent); the fault of an earlier launch, if
    /// there was one;
    /// [`Driver`](RuntimeError::Driver).
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait_for(&self, event: &Event) -> Result<(), RuntimeError> {
        match (&self.backend, &event.backend) {
            (StreamBackend::Sim(stream), EventBackend::Sim(_, point))
                if stream.number() == point.number() =>
            {
                stream.check_runs("Stream::wait_for")?;
                stream.finish();
                Ok(())
            }
            (StreamBackend::Cuda(stream), EventBackend::Cuda(event))
                if std::ptr::eq(stream.context(), event.context()) =>
            {
                event.hold(stream)
            }
            _ => Err(RuntimeError::OtherDeviceEvent),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(on {})", self.device())
    }
}

/// Keeps a stream's later work waiting, from [`Stream::hold`]. Use it if you time launches that are
/// shorter than the host needs to queue them.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::Device;
///
/// let stream = Device::sim()?.stream()?;
/// let held = stream.hold()?;
/// let begin = stream.record()?;
/// // Queue the launches here.
/// let end = stream.record()?;
/// assert!(held.release(), "queueing took more than a second");
/// println!("{:?}", begin.elapsed_until(&end)?);
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
pub struct Hold {
    held: Option<cuda::Hold>,
}

impl Hold {
    /// Lets the work run. Returns false if the stream has continued by itself, because queueing
    /// took longer than a second, for example with a full queue: then discard the measurement.
    pub fn release(self) -> bool {
        self.held.is_none_or(cuda::Hold::release)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

/// A point in a stream's work, made by [`Stream::record`]: you can wait for it and measure times
/// between two of them.
pub struct Event {
    backend: EventBackend,
}

enum EventBackend {
    /// When it was recorded, and the point.
    Sim(Instant, simulator::Point),
    Cuda(cuda::Event),
}

impl Event {
    /// Blocks the host until the device reaches the event.
    ///
    /// # Errors
    /// The fault of an earlier launch, if there was one; [`Driver`](RuntimeError::Driver).
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            EventBackend::Sim(_, point) => {
                point.wait();
                Ok(())
            }
            EventBackend::Cuda(event) => event.wait(),
        }
    }

    /// Returns whether the device has reached the event, without waiting, so that the host can do
    /// other work meanwhile.
    ///
    /// # Errors
    /// Those of [`Event::synchronize`].
    pub fn is_passed(&self) -> Result<bool, RuntimeError> {
        match &self.backend {
            EventBackend::Sim(_, point) => {
                point.wait();
                Ok(true)
            }
            EventBackend::Cuda(event) => event.is_passed(),
        }
    }

    /// Waits for both events, then returns the time from this one to `end`, for example how long
    /// the launches between them took. On the simulator this is wall-clock time.
    ///
    /// # Errors
    /// Those of [`Event::synchronize`]; [`OtherDeviceEvent`](RuntimeError::OtherDeviceEvent).
    #[doc(alias = "cudaEventElapsedTime")]
    #[inline]
    pub fn elapsed_until(&self, end: &Event) -> Result<Duration, RuntimeError> {
        match (&self.backend, &end.backend) {
            (EventBackend::Sim(start, first), EventBackend::Sim(end, last))
                if first.number() == last.number() =>
            {
                [first, last].into_iter().for_each(simulator::Point::wait);
                Ok(end.saturating_duration_since(*start))
            }
            (EventBackend::Cuda(start), EventBackend::Cuda(end))
                if std::ptr::eq(start.context(), end.context()) =>
            {
                start.wait()?;
                end.wait()?;
                start.elapsed_until(end)
            }
            _ => Err(RuntimeError::OtherDeviceEvent),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Event")
    }
}
