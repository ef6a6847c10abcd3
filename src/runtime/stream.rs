//! Defines [`Stream`], work in order, and [`Event`], a point in it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::simulator;

/// Work of a device in the order of the calls. Work of two streams may run at the same time; a stream is
/// made by [`Device::stream`], and a launch names it with [`LaunchOptions::stream`](super::LaunchOptions).
///
/// Buffers order the work that uses them: a launch that reads a buffer waits for the last launch that wrote it,
/// on whatever stream, and a launch that writes it waits for all uses before. For that a stream waits for all that the
/// other stream has at that moment. So streams need no events to be safe and right; events order the rest.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// # use tilewright::ir::{Global, GlobalMut, Kernel};
/// # use tilewright::runtime::{Device, Grid, LaunchOptions};
/// # type Copy = (Global<i32>, GlobalMut<i32>);
/// # let device = Device::default()?;
/// # let kernel = Kernel::<Copy>::build("copy", device.target(), |k, (x, y)| {
/// #     let i = k.thread_idx().x;
/// #     y.store(k, i, x.load(k, i))
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
/// The simulator runs a launch when it is called, so its streams are always idle. A stream is cheap to clone.
///
/// # Streams that other code captures
///
/// A program can capture a stream of its own (`Stream::from_cudarc`) into a CUDA graph, as `torch.cuda.graph` does.
/// [`Stream::is_captured`] tells. A launch on the stream becomes part of that graph:
///
/// * Buffers and functions do not know when the graph runs, nor when it is destroyed. So the function is never unloaded, and
///   its buffers and those of the launch are never freed, although they are dropped. Memory that is only borrowed
///   (`Device::borrow_cudarc`) is not kept: it must stay as long as the graph.
/// * Nothing orders the graph with other work on the same buffers, and an assertion that fails in it is not reported. A
///   function may have buffers of its own, such as the counter of tiles of an attention or the partial sums of a split product.
///   So neither two graphs with launches of one function nor a graph and a launch of it may run at the same time, unless the
///   function was loaded for each of them.
/// * Nothing can be waited for. A launch fails with [`CaptureWaits`](RuntimeError::CaptureWaits) if work on another stream
///   still uses one of its buffers. The driver also refuses to load kernels and to allocate memory during most captures
///   ([`CaptureForbids`](RuntimeError::CaptureForbids)), and ends the capture. So load each function, launch it once with the
///   same sizes, and wait, before the capture begins.
/// * `cudarc` itself waits for events when memory is borrowed. A program that captures calls
///   `CudaContext::disable_event_tracking` before it makes slices.
///
/// Every other call that queues work on the stream fails with [`StreamCaptures`](RuntimeError::StreamCaptures) during the
/// capture, and queues nothing. If a capture begins in another thread while such a call or a launch runs, then:
///
/// * No graph of other code has a copy between host and device. These copies run on a stream of this crate, in the order of
///   the stream that was named.
/// * No stream of this crate takes part in the capture.
/// * A check behind the call finds the capture. The call fails with the same error, although the graph may have its work.
///   The buffers, the function or the graph that the work uses are never freed, so the graph can be launched. Memory that
///   is only borrowed (`Device::borrow_cudarc`) is not kept.
/// * The check misses one case: the other thread begins *and* ends its capture between two calls of the driver that follow
///   each other within one call of this crate. Such a graph may use device memory that was freed. So if two threads share a
///   stream, order its captures and the work on it, for example by a lock.
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
    /// Returns a new stream: see [`Stream`].
    ///
    /// # Errors
    /// The fault of a launch before, if it had one; [`Driver`](RuntimeError::Driver).
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

    /// Returns the device whose work it is.
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

    /// Returns whether the stream records a graph, so that work is noted and does not run.
    pub fn is_recording(&self) -> bool {
        match &self.backend {
            StreamBackend::Sim(stream) => stream.records(),
            StreamBackend::Cuda(stream) => stream.check_runs("").is_err(),
        }
    }

    /// Returns whether other code captures the stream into a graph, which then gets each launch: see [`Stream`].
    ///
    /// # Errors
    /// [`OtherThreadStream`](RuntimeError::OtherThreadStream); the fault of a launch before, if it had one;
    /// [`Driver`](RuntimeError::Driver).
    pub fn is_captured(&self) -> Result<bool, RuntimeError> {
        match &self.backend {
            StreamBackend::Sim(_) => Ok(false),
            StreamBackend::Cuda(stream) => stream.is_captured(),
        }
    }

    /// Waits for all work of the stream before this call.
    ///
    /// # Errors
    /// As [`Device::synchronize`]; [`NotInGraph`](RuntimeError::NotInGraph) while it records a graph.
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

    /// Lets the work that is queued from now on wait until the result is dropped (a second at most): what is
    /// queued meanwhile then runs without waiting for the host. Nothing waits on the simulator.
    #[cfg(feature = "tune")]
    pub(crate) fn hold(&self) -> Result<Hold, RuntimeError> {
        match &self.backend {
            StreamBackend::Sim(stream) => {
                stream.check_runs("Stream::hold")?;
                Ok(Hold { held: None })
            }
            StreamBackend::Cuda(stream) => Ok(Hold { held: Some(cuda::Hold::new(stream)?) }),
        }
    }

    /// Returns the point behind all work of the stream before this call.
    ///
    /// # Errors
    /// [`NotInGraph`](RuntimeError::NotInGraph) while it records a graph; the fault of a launch before, if it
    /// had one; [`Driver`](RuntimeError::Driver).
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

    /// Lets work of this stream that is queued from now on wait for the point.
    ///
    /// # Errors
    /// [`NotInGraph`](RuntimeError::NotInGraph) while it records a graph;
    /// [`OtherDeviceEvent`](RuntimeError::OtherDeviceEvent); the fault of a launch before, if it had one;
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

/// Work of a stream that waits: see [`Stream::hold`].
#[cfg(feature = "tune")]
pub(crate) struct Hold {
    held: Option<cuda::Hold>,
}

#[cfg(feature = "tune")]
impl Hold {
    /// Lets the work go on. Whether it had waited until now: it does not if queueing took too long, as where the queue
    /// was full.
    pub(crate) fn release(self) -> bool {
        self.held.is_none_or(cuda::Hold::release)
    }
}

/// A point in the work of a stream, made by [`Stream::record`].
pub struct Event {
    backend: EventBackend,
}

enum EventBackend {
    /// The time of the recording, and the point.
    Sim(Instant, simulator::Point),
    Cuda(cuda::Event),
}

impl Event {
    /// Waits until the device has come to the point.
    ///
    /// # Errors
    /// The fault of a launch before, if it had one; [`Driver`](RuntimeError::Driver).
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            EventBackend::Sim(_, point) => {
                point.wait();
                Ok(())
            }
            EventBackend::Cuda(event) => event.wait(),
        }
    }

    /// Returns whether the device has reached the event.
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

    /// Returns the time from this point to `end`, once both are passed: waits for them. On the simulator it is the
    /// time on the wall.
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
