//! Stands in for backends that are not compiled in.
//!
//! No value of these types exists, so the front needs no `cfg`: its match arms for such a backend
//! compile to nothing. Each method consists of an empty match, which proves that nobody can call
//! it. The fields are private, so that rustc does not warn about the arms.

#![allow(dead_code, reason = "nothing reaches a backend that is not compiled in")]
#![allow(clippy::extra_unused_type_parameters, reason = "the signatures are those of a backend")]

/// Stands in for the CUDA driver.
#[cfg(not(feature = "cuda-any-version"))]
#[rustfmt::skip]
pub(super) mod cuda {
    use std::any::Any;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::arch::TensorMapDesc;
    use crate::ir::{Element, KernelIr, Target};
    use crate::launch::grid::Grid;
    use crate::runtime::driver_answer::CudaVersion;
    use crate::runtime::error::RuntimeError;
    use crate::runtime::limits::Limits;
    use crate::runtime::load_options::LoadOptions;
    use crate::runtime::occupancy::Occupancy;
    use crate::runtime::properties::Properties;
    use crate::runtime::timing::LoadTimes;

    type Result<T> = std::result::Result<T, RuntimeError>;

    pub(in crate::runtime) fn device_count() -> Result<usize> { Err(RuntimeError::CudaNotBuilt) }
    pub(in crate::runtime) fn driver_version() -> Result<CudaVersion> { Err(RuntimeError::CudaNotBuilt) }

    pub(in crate::runtime) struct Context(Infallible);

    impl Context {
        pub(in crate::runtime) fn open(_: usize) -> Result<&'static Context> { Err(RuntimeError::CudaNotBuilt) }
        pub(in crate::runtime) fn name(&self) -> &str { match self.0 {} }
        pub(in crate::runtime) fn record_of(&self, _: &Arc<crate::ir::CheckedKernel>) -> Result<u64> { match self.0 {} }
        pub(in crate::runtime) fn label(&self) -> &str { match self.0 {} }
        pub(in crate::runtime) fn target(&self) -> Target { match self.0 {} }
        pub(in crate::runtime) fn limits(&self) -> Limits { match self.0 {} }
        pub(in crate::runtime) fn properties(&self) -> Properties { match self.0 {} }
        pub(in crate::runtime) fn cuda_version(&self) -> CudaVersion { match self.0 {} }
        pub(in crate::runtime) fn memory(&self) -> Result<(u64, u64)> { match self.0 {} }
        pub(in crate::runtime) fn check_target(&self, _: &str, _: Target) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn keep_memory(&self, _: u64) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn trim_memory(&self) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn synchronize(&self) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn default_stream(&self) -> &'static Arc<Stream> { match self.0 {} }
    }

    #[derive(Debug)]
    pub(in crate::runtime) struct Memory(Infallible);

    impl Memory {
        pub(in crate::runtime) fn zeros(context: &Context, _: usize) -> Result<Memory> { match context.0 {} }
        pub(in crate::runtime) fn from_slice<T: Element>(context: &Context, _: &[T]) -> Result<Memory> { match context.0 {} }
        pub(in crate::runtime) fn part(&self, _: usize, _: usize) -> Option<Memory> { match self.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn address(&self) -> u64 { match self.0 {} }
        pub(in crate::runtime) fn to_vec<T: Element>(&self) -> Result<Vec<T>> { match self.0 {} }
        pub(in crate::runtime) fn read_into<T: Element>(&self, _: &mut [T]) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn write<T: Element>(&mut self, _: &[T]) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn write_from(&mut self, _: &HostMemory, _: &Arc<Stream>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn read_to_host(&self, _: &mut HostMemory, _: &Arc<Stream>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn copy_from(&mut self, _: &Memory, _: &Arc<Stream>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn fill<T: Element>(&mut self, _: T, _: &Arc<Stream>) -> Result<()> { match self.0 {} }
    }

    pub(in crate::runtime) struct HostMemory(Infallible);

    impl HostMemory {
        pub(in crate::runtime) fn zeros(context: &Context, _: usize) -> Result<HostMemory> { match context.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn slice<T: Element>(&self) -> Result<&[T]> { match self.0 {} }
        pub(in crate::runtime) fn slice_mut<T: Element>(&mut self) -> Result<&mut [T]> { match self.0 {} }
    }

    pub(in crate::runtime) struct Stream(Infallible);

    impl Stream {
        pub(in crate::runtime) fn new(context: &Context) -> Result<Arc<Stream>> { match context.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn check_runs(&self, _: &'static str) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn synchronize(&self) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn is_captured(&self) -> Result<bool> { match self.0 {} }
    }

    pub(in crate::runtime) struct Event(Infallible);

    impl Event {
        pub(in crate::runtime) fn new(context: &Context) -> Result<Event> { match context.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn record_on(&self, _: &Stream) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn hold(&self, _: &Stream) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn wait(&self) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn is_passed(&self) -> Result<bool> { match self.0 {} }
        pub(in crate::runtime) fn elapsed_until(&self, _: &Event) -> Result<Duration> { match self.0 {} }
    }

    pub(in crate::runtime) struct Hold(Infallible);

    impl Hold {
        pub(in crate::runtime) fn new(stream: &Stream) -> Result<Hold> { match stream.0 {} }
        pub(in crate::runtime) fn release(self) -> bool { match self.0 {} }
    }

    pub(in crate::runtime) struct Module(Infallible);

    impl Module {
        pub(in crate::runtime) fn load(context: &Context, _: &str, _: &str) -> Result<Module> { match context.0 {} }
        pub(in crate::runtime) fn load_with(context: &Context, _: &str, _: &str, _: &LoadOptions<'_>) -> Result<Module> { match context.0 {} }
        pub(in crate::runtime) fn log(&self) -> &str { match self.0 {} }
    }

    #[derive(Debug)]
    pub(in crate::runtime) struct EncodedMap(Infallible);

    impl EncodedMap {
        pub(in crate::runtime) fn new(_: &TensorMapDesc, memory: &Memory) -> Result<EncodedMap> { match memory.0 {} }
    }

    pub(in crate::runtime) struct Launch<'l> {
        pub(in crate::runtime) grid: Grid,
        pub(in crate::runtime) cluster: [u32; 3],
        pub(in crate::runtime) programmatic: bool,
        pub(in crate::runtime) cooperative: bool,
        pub(in crate::runtime) stream: &'l Arc<Stream>,
        pub(in crate::runtime) owner: &'l dyn Fn() -> Arc<dyn Any + Send + Sync>,
    }

    pub(in crate::runtime) enum LaunchArg<'h> {
        Bits(&'h u64),
        Memory(&'h Memory, bool),
        Map(&'h EncodedMap, &'h Memory, bool),
    }

    pub(in crate::runtime) struct Function(Infallible);

    impl Function {
        pub(in crate::runtime) fn load(context: &Context, _: &KernelIr, _: &KernelIr, _: &str, _: &LoadOptions<'_>) -> Result<Function> { match context.0 {} }
        pub(in crate::runtime) fn new(module: Arc<Module>, _: &KernelIr, _: &KernelIr) -> Result<Function> { match module.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn log(&self) -> &str { match self.0 {} }
        pub(in crate::runtime) fn load_times(&self) -> LoadTimes { match self.0 {} }
        pub(in crate::runtime) fn occupancy(&self, _: u32) -> Result<Occupancy> { match self.0 {} }
        pub(in crate::runtime) fn clusters_at_once(&self, _: &Launch<'_>) -> Result<u32> { match self.0 {} }
        pub(in crate::runtime) fn launch<'h>(&self, _: &Launch<'_>, _: impl Iterator<Item = LaunchArg<'h>>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn time<'h>(&self, _: &Launch<'_>, _: impl Iterator<Item = LaunchArg<'h>>) -> Result<Duration> { match self.0 {} }
    }

    pub(in crate::runtime) struct Recording(Infallible);

    impl Recording {
        pub(in crate::runtime) fn new(context: &Context) -> Result<Recording> { match context.0 {} }
        pub(in crate::runtime) fn stream(&self) -> &Arc<Stream> { match self.0 {} }
        pub(in crate::runtime) fn finish(self) -> Result<Graph> { match self.0 {} }
    }

    pub(in crate::runtime) struct Graph(Infallible);

    impl Graph {
        pub(in crate::runtime) fn nodes(&self) -> u64 { match self.0 {} }
        pub(in crate::runtime) fn context(&self) -> &'static Context { match self.0 {} }
        pub(in crate::runtime) fn launch(&self, _: &Arc<Stream>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn time(&self, _: &Arc<Stream>) -> Result<Duration> { match self.0 {} }
    }
}

/// Stands in for the simulator.
#[cfg(not(feature = "sim"))]
#[rustfmt::skip]
pub(super) mod simulator {
    use std::convert::Infallible;
    use std::sync::Arc;

    use crate::arch::TensorMapDesc;
    use crate::ir::types::Const;
    use crate::ir::{CheckedKernel, Element, KernelIr, Target};
    use crate::launch::grid::Grid;
    use crate::runtime::error::RuntimeError;
    use crate::runtime::timing::Timing;

    type Result<T> = std::result::Result<T, RuntimeError>;

    #[derive(Clone)]
    pub(in crate::runtime) struct Context(Infallible);

    impl Context {
        pub(in crate::runtime) fn open(_: Option<Target>) -> Result<Context> { Err(RuntimeError::SimulatorNotBuilt) }
        pub(in crate::runtime) fn numbered(self, _: u32) -> Context { match self.0 {} }
        pub(in crate::runtime) fn number(&self) -> u32 { match self.0 {} }
        pub(in crate::runtime) fn name(&self) -> &str { match self.0 {} }
        pub(in crate::runtime) fn label(&self) -> String { match self.0 {} }
        pub(in crate::runtime) fn target(&self) -> Target { match self.0 {} }
        pub(in crate::runtime) fn synchronize(&self) { match self.0 {} }
    }

    #[derive(Clone, Debug)]
    pub(in crate::runtime) struct Memory(Infallible);

    impl Memory {
        pub(in crate::runtime) fn zeros(context: &Context, _: usize) -> Result<Memory> { match context.0 {} }
        pub(in crate::runtime) fn from_slice<T: Element>(context: &Context, _: &[T]) -> Result<Memory> { match context.0 {} }
        pub(in crate::runtime) fn part(&self, _: usize, _: usize) -> Option<Memory> { match self.0 {} }
        pub(in crate::runtime) fn is_aligned_to(&self, _: u64) -> bool { match self.0 {} }
        pub(in crate::runtime) fn context(&self) -> Context { match self.0 {} }
        pub(in crate::runtime) fn number(&self) -> u32 { match self.0 {} }
        pub(in crate::runtime) fn to_vec<T: Element>(&self) -> Vec<T> { match self.0 {} }
        pub(in crate::runtime) fn write<T: Element>(&self, _: &[T]) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn copy_from<T: Element>(&self, _: &Memory, _: &Stream) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn fill<T: Element>(&self, _: T, _: usize, _: &Stream) -> Result<()> { match self.0 {} }
    }

    #[derive(Clone)]
    pub(in crate::runtime) struct Stream(Infallible);

    impl Stream {
        pub(in crate::runtime) fn new(context: &Context) -> Result<Stream> { match context.0 {} }
        pub(in crate::runtime) fn context(&self) -> Context { match self.0 {} }
        pub(in crate::runtime) fn number(&self) -> u32 { match self.0 {} }
        pub(in crate::runtime) fn check_runs(&self, _: &'static str) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn records(&self) -> bool { match self.0 {} }
        pub(in crate::runtime) fn is_recorded_with(&self, _: &Stream) -> bool { match self.0 {} }
        pub(in crate::runtime) fn finish(&self) { match self.0 {} }
        pub(in crate::runtime) fn point(&self) -> Point { match self.0 {} }
        pub(in crate::runtime) fn run_or_record(&self, _: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> { match self.0 {} }
    }

    pub(in crate::runtime) struct Point(Infallible);

    impl Point {
        pub(in crate::runtime) fn number(&self) -> u32 { match self.0 {} }
        pub(in crate::runtime) fn wait(&self) { match self.0 {} }
    }

    pub(in crate::runtime) struct Launch<'l> {
        pub(in crate::runtime) grid: Grid,
        pub(in crate::runtime) cooperative: bool,
        pub(in crate::runtime) programmatic: bool,
        pub(in crate::runtime) stream: Option<&'l Stream>,
    }

    pub(in crate::runtime) enum LaunchArg<'h> {
        Scalar(Const),
        Memory(&'h Memory),
        Map(&'h TensorMapDesc, &'h Memory),
    }

    pub(in crate::runtime) struct Function(Infallible);

    impl Function {
        pub(in crate::runtime) fn load(context: &Context, _: &KernelIr, _: Option<&Arc<CheckedKernel>>) -> Result<Arc<Function>> { match context.0 {} }
        pub(in crate::runtime) fn launch<'h>(&self, _: Launch<'_>, _: impl Iterator<Item = LaunchArg<'h>>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn time<'h>(&self, _: Launch<'_>, _: impl Iterator<Item = LaunchArg<'h>>) -> Result<Timing> { match self.0 {} }
    }

    pub(in crate::runtime) struct Recording(Infallible);

    impl Recording {
        pub(in crate::runtime) fn new(context: &Context) -> Result<Recording> { match context.0 {} }
        pub(in crate::runtime) fn stream(&self) -> Stream { match self.0 {} }
        pub(in crate::runtime) fn finish(self) -> Result<Graph> { match self.0 {} }
    }

    pub(in crate::runtime) struct Graph(Infallible);

    impl Graph {
        pub(in crate::runtime) fn nodes(&self) -> usize { match self.0 {} }
        pub(in crate::runtime) fn launch(&self, _: Option<&Stream>) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn time(&self, _: Option<&Stream>) -> Result<Timing> { match self.0 {} }
    }
}

/// Stands in for NCCL.
#[cfg(not(feature = "nccl"))]
#[rustfmt::skip]
pub(super) mod nccl {
    use std::convert::Infallible;
    use std::sync::Arc;

    use crate::runtime::comm::{CallShape, CommError, CommOptions, NcclVersion, UniqueId};
    use crate::runtime::cuda;
    use crate::runtime::error::RuntimeError;

    type Result<T> = std::result::Result<T, RuntimeError>;

    pub(in crate::runtime) fn version() -> Result<NcclVersion> { Err(CommError::NcclNotBuilt.into()) }
    pub(in crate::runtime) fn unique_id() -> Result<[u8; UniqueId::BYTES]> { Err(CommError::NcclNotBuilt.into()) }

    pub(in crate::runtime) struct Comm(Infallible);

    impl Comm {
        pub(in crate::runtime) fn connect(_: &[u8; UniqueId::BYTES], _: &[&'static cuda::Context], _: u32, _: u32, _: CommOptions) -> Result<Vec<Arc<Comm>>> { Err(CommError::NcclNotBuilt.into()) }
        pub(in crate::runtime) fn check(&self) -> Result<()> { match self.0 {} }
        pub(in crate::runtime) fn abort(&self) { match self.0 {} }
    }

    pub(in crate::runtime) struct CommCall<'c> {
        pub(in crate::runtime) comm: &'c Arc<Comm>,
        pub(in crate::runtime) stream: &'c Arc<cuda::Stream>,
        pub(in crate::runtime) shape: CallShape,
        pub(in crate::runtime) from: Option<&'c cuda::Memory>,
        pub(in crate::runtime) to: Option<&'c cuda::Memory>,
    }

    pub(in crate::runtime) fn run(calls: &[CommCall<'_>]) -> Result<()> {
        match calls.first() {
            Some(call) => match call.comm.0 {},
            None => Ok(()),
        }
    }
}
