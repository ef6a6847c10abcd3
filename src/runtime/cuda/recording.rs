//! Records work into a driver graph and launches it: the GPU side of the public `GraphBuilder` and
//! `Graph`.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys;

use super::capture::Capture;
use super::context::Context;
use super::event::Event;
use super::stream::Stream;
use super::uses::Note;
use crate::runtime::error::RuntimeError;

/// A recording stream. Dropping this discards what was recorded.
pub(in crate::runtime) struct Recording {
    stream: Arc<Stream>,
    open: bool,
}

impl Recording {
    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Recording, RuntimeError> {
        let _current = context.enter()?;
        // The stream enters the context's list only when it records, so nobody who waits for all
        // streams sees it earlier.
        let stream = Stream::recording(context)?;
        // Relaxed: only the stream itself records, and this thread's other calls work as usual.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream belongs to the context and has no work.
        let code = unsafe { (context.api().cuStreamBeginCapture_v2)(stream.raw(), mode) };
        context.check("cuStreamBeginCapture_v2", code)?;
        context.note_stream(&stream);
        Ok(Recording { stream, open: true })
    }

    pub(in crate::runtime) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Ends the recording.
    fn end(&mut self) -> Result<(sys::CUgraph, Capture), RuntimeError> {
        self.open = false;
        let context = self.stream.context();
        let _current = context.enter()?;
        let mut graph = ptr::null_mut();
        let (code, capture) = self.stream.end_capture(|| {
            // SAFETY: the stream is recording; `graph` is a local out parameter.
            unsafe { (context.api().cuStreamEndCapture)(self.stream.raw(), &mut graph) }
        });
        context.check("cuStreamEndCapture", code)?;
        Ok((graph, capture))
    }

    /// Ends the recording and instantiates it as a graph that can be launched.
    #[inline]
    pub(in crate::runtime) fn finish(mut self) -> Result<Graph, RuntimeError> {
        let context = self.stream.context();
        let (graph, capture) = self.end()?;
        let _current = context.enter()?;
        let mut exec = ptr::null_mut();
        // SAFETY: the graph was created above; `exec` is a local out parameter; 0 means no flags.
        let code = unsafe { (context.api().cuGraphInstantiateWithFlags)(&mut exec, graph, 0) };
        // SAFETY: the instance does not need the graph, which is destroyed once.
        let destroyed = unsafe { (context.api().cuGraphDestroy)(graph) };
        context.check("cuGraphInstantiateWithFlags", code)?;
        let graph = Graph { context, exec, capture };
        context.check("cuGraphDestroy", destroyed)?;
        Ok(graph)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let context = self.stream.context();
        let Some((graph, _)) = context.keep(self.end()) else { return };
        let Some(_current) = context.enter_to_drop() else { return };
        // SAFETY: ending the recording created the graph, and nobody uses it.
        let code = unsafe { (context.api().cuGraphDestroy)(graph) };
        context.keep(context.check("cuGraphDestroy", code));
    }
}

/// An instantiated graph, with everything that its launches use.
pub(in crate::runtime) struct Graph {
    context: &'static Context,
    exec: sys::CUgraphExec,
    capture: Capture,
}

// SAFETY: as for streams; a graph launch waits for the previous one, even on another stream.
unsafe impl Send for Graph {}
// SAFETY: the driver allows one thread at a time on a graph, and `Graph` in `runtime/graph.rs` has
// a lock.
unsafe impl Sync for Graph {}

impl Graph {
    pub(in crate::runtime) fn nodes(&self) -> u64 {
        self.capture.nodes
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    /// Makes the stream wait for earlier work that the graph depends on. The context must be
    /// current.
    fn order(&self, stream: &Arc<Stream>) -> Result<(), RuntimeError> {
        self.capture.ordered().try_for_each(|(uses, writes)| uses.order(stream, writes))
    }

    /// Like [`Graph::launch`], but waits for the end and returns how long the GPU took.
    #[inline]
    pub(in crate::runtime) fn time(&self, stream: &Arc<Stream>) -> Result<Duration, RuntimeError> {
        stream.check_runs("Graph::time")?;
        let (start, end) = (Event::new(self.context)?, Event::new(self.context)?);
        let _current = self.context.enter()?;
        stream.check_not_capturing()?;
        // Order the launch first, so that the measured time does not include waiting for other
        // work.
        self.order(stream)?;
        start.record(stream)?;
        self.launch(stream)?;
        end.record(stream)?;
        stream.wait()?;
        self.context.check_asserts()?;
        start.elapsed_until(&end)
    }

    /// Queues everything that was recorded.
    #[inline]
    pub(in crate::runtime) fn launch(&self, stream: &Arc<Stream>) -> Result<(), RuntimeError> {
        stream.check_runs("Graph::launch")?;
        stream.check_not_capturing()?;
        let Capture { used, code, reports, owners, launches, nodes, .. } = &self.capture;
        if *nodes == 0 {
            return Ok(());
        }
        #[cfg(feature = "nccl")]
        self.capture.launched.iter().try_for_each(|library| library.check())?;
        let _current = self.context.enter()?;
        let _graphs = self.context.lock_graphs();
        let mut pending = (!reports.is_empty()).then(|| self.context.lock_asserts());
        self.order(stream)?;
        let uses = |note: &mut Note<'_>| {
            self.capture.ordered().for_each(|(uses, writes)| note(uses, writes));
            code.iter().for_each(|code| note(code, false));
        };
        stream.queue(*launches, uses, || {
            // SAFETY: graph and stream belong to the context. What the graph uses lives as long as
            // the graph, and is freed or unloaded only after the uses that are noted.
            let answer = unsafe { (self.context.api().cuGraphLaunch)(self.exec, stream.raw()) };
            self.context.check("cuGraphLaunch", answer)
        })?;
        #[cfg(feature = "nccl")]
        self.capture.launched.iter().for_each(|library| library.note(stream));
        if let Some(pending) = &mut pending {
            reports.iter().for_each(|report| pending.note(report));
        }
        stream.check_not_captured(|| (used.clone(), owners.clone()))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Some(_current) = self.context.enter_to_drop() else { return };
        // SAFETY: it is destroyed once; the driver keeps what a running launch still needs.
        let code = unsafe { (self.context.api().cuGraphExecDestroy)(self.exec) };
        self.context.keep(self.context.check("cuGraphExecDestroy", code));
    }
}
