//! Checks each refusal of a device or a launch on a machine without a GPU, with its message.

use crate::support::kernels::axpy;
use expect_test::{Expect, expect};
use tilewright::arch::TensorMapError;
use tilewright::ir::{Kernel, KernelOptions, Target, Untyped};
use tilewright::runtime::{
    Arg, ClusterError, CompilerNote, CudaVersion, Device, DeviceChoice, DeviceFault, DriverStatus,
    FaultKind, Function, Grid, Limits, PtxRejection, PtxasError, RuntimeError,
};
use tilewright::sim;

use crate::support::skip::skip;

fn simulator() -> Device {
    Device::sim().unwrap()
}

/// `result` is the error `expected`, with this sentence.
#[track_caller]
fn check<T: std::fmt::Debug>(
    result: Result<T, RuntimeError>,
    expected: &RuntimeError,
    sentence: Expect,
) {
    let error = result.expect_err("it must be refused");
    assert_eq!(&error, expected);
    sentence.assert_eq(&error.to_string());
}

#[test]
fn an_empty_grid() {
    let f = simulator().load(&axpy(Target::SM_80)).unwrap();
    let (x, mut y) = (simulator().zeros(1).unwrap(), simulator().zeros(1).unwrap());
    let grid = Grid::new([4, 0, 1], [128, 1, 1]);
    check(
        f.launch(grid, (1.0, &x, &mut y, 1)),
        &RuntimeError::EmptyGrid { grid },
        expect![
            "a grid of 4 x 0 x 1 blocks of 128 x 1 x 1 threads has an empty axis: each must be at least 1"
        ],
    );
    assert!(f.time(grid, (1.0, &x, &mut y, 1)).is_err());
}

#[test]
fn too_many_blocks() {
    let f = simulator().load(&axpy(Target::SM_80)).unwrap();
    let (x, mut y) = (simulator().zeros(1).unwrap(), simulator().zeros(1).unwrap());
    let limit = Limits::EVERY_TARGET.blocks;
    check(
        f.launch(Grid::cover(usize::MAX, 1), (1.0, &x, &mut y, 1)),
        &RuntimeError::GridTooLarge { blocks: [u32::MAX, 1, 1], limit },
        expect![
            "a grid of 4294967295 x 1 x 1 blocks exceeds the device's limit of 2147483647 x 65535 x 65535: give each block more work, or launch several times"
        ],
    );
}

#[test]
fn too_many_threads_in_a_block() {
    let f = simulator().load(&axpy(Target::SM_80)).unwrap();
    let (x, mut y) = (simulator().zeros(1).unwrap(), simulator().zeros(1).unwrap());
    let (threads, limit) = ([33, 32, 1], Limits::EVERY_TARGET.threads);
    check(
        f.launch(Grid::new([1, 1, 1], threads), (1.0, &x, &mut y, 1)),
        &RuntimeError::BlockTooLarge { threads, limit, limit_in_all: 1024 },
        expect![
            "a block of 33 x 32 x 1 threads exceeds the device's limit of 1024 x 1024 x 64, and 1024 in all: use smaller blocks"
        ],
    );
}

#[test]
fn a_block_that_the_kernel_is_not_built_for() {
    let options = KernelOptions::default().block([128, 1, 1]);
    let kernel = Kernel::<()>::build_with(options, "fixed", Target::SM_80, |_, ()| ()).unwrap();
    let f = simulator().load(&kernel).unwrap();
    assert_eq!(f.launch(Grid::cover(1, 128), ()), Ok(()));
    let (kernel, built, given) = ("fixed".to_owned(), [128, 1, 1], [64, 1, 1]);
    check(
        f.launch(Grid::cover(1, 64), ()),
        &RuntimeError::BlockNotAsBuilt { kernel, built, given },
        expect![
            "kernel `fixed` was built for blocks of 128 x 1 x 1 threads, but is launched with 64 x 1 x 1"
        ],
    );
}

#[test]
fn a_block_of_more_threads_than_the_kernel_is_built_for() {
    let options = KernelOptions::default().max_threads(128);
    let kernel = Kernel::<()>::build_with(options, "bounded", Target::SM_80, |_, ()| ()).unwrap();
    let f = simulator().load(&kernel).unwrap();
    assert_eq!(f.launch(Grid::cover(1, 128), ()), Ok(()));
    let (kernel, built, given) = ("bounded".to_owned(), 128, [129, 1, 1]);
    check(
        f.launch(Grid::cover(1, 129), ()),
        &RuntimeError::MoreThreadsThanBuilt { kernel, built, given },
        expect![
            "kernel `bounded` was built for blocks of at most 128 threads, but is launched with 129 x 1 x 1"
        ],
    );
}

#[test]
fn a_grid_without_the_clusters_of_the_kernel() {
    let options = KernelOptions::default().cluster([2, 1, 1]);
    let kernel = Kernel::<()>::build_with(options, "pairs", Target::SM_90A, |_, ()| ()).unwrap();
    let f = simulator().load(&kernel).unwrap();
    let grid = |blocks| Grid::new([blocks, 1, 1], [32, 1, 1]);
    assert_eq!(f.launch(grid(4), ()), Ok(()));
    assert_eq!(f.launch(grid(4).cluster([2, 1, 1]), ()), Ok(()));
    let (blocks, cluster) = ([3, 1, 1], [2, 1, 1]);
    let error = ClusterError::NotWhole { blocks, cluster };
    check(
        f.launch(grid(3), ()),
        &RuntimeError::Cluster { kernel: "pairs".to_owned(), error },
        expect![
            "kernel `pairs` cannot be launched in these clusters: a grid of 3 x 1 x 1 blocks cannot be divided into clusters of 2 x 1 x 1: round its blocks up along each axis"
        ],
    );
}

#[test]
fn arguments_of_a_kernel_that_rustc_does_not_know() {
    let kernel = Kernel::verify(axpy(Target::SM_80).ir().clone()).unwrap();
    let f: Function<Untyped> = simulator().load(&kernel).unwrap();
    let x = simulator().upload(&[1.0f32, 2.0]).unwrap();
    let mut y = simulator().upload(&[10.0f32, 20.0]).unwrap();
    let grid = Grid::cover(2, 32);
    let args: Vec<Arg<'_>> = vec![3.0f32.into(), (&x).into(), (&mut y).into(), 2i32.into()];
    f.launch(grid, args).unwrap();
    assert_eq!(y.to_vec().unwrap(), [13.0, 26.0]);

    let kernel = || "axpy".to_owned();
    check(
        f.launch(grid, vec![3.0f32.into()]),
        &RuntimeError::ArgumentCount { kernel: kernel(), expected: 4, given: 1 },
        expect!["kernel `axpy` has 4 parameters, but the launch passes 1 arguments"],
    );
    let types = || {
        let params = &axpy(Target::SM_80);
        let params = params.ir();
        [2, 3].map(|i: usize| params.type_of(params.params[i].value))
    };
    let [y_type, n_type] = types();
    let x_type = axpy(Target::SM_80).ir().type_of(axpy(Target::SM_80).ir().params[1].value);
    check(
        f.launch(grid, vec![3.0f32.into(), (&x).into(), (&x).into(), 2i32.into()]),
        &RuntimeError::ArgumentType { kernel: kernel(), index: 2, expected: y_type, given: x_type },
        expect![
            "parameter 2 of kernel `axpy` is `ptr<global, mut f32>`, but its argument is `ptr<global, f32>`"
        ],
    );
    let given = tilewright::ir::types::Type::Scalar(tilewright::ir::types::Scalar::U32);
    check(
        f.launch(grid, vec![3.0f32.into(), (&x).into(), (&mut y).into(), 2u32.into()]),
        &RuntimeError::ArgumentType { kernel: kernel(), index: 3, expected: n_type, given },
        expect!["parameter 3 of kernel `axpy` is `i32`, but its argument is `u32`"],
    );
}

#[test]
fn a_copy_of_another_length() {
    let mut x = simulator().upload(&[1u8, 2, 3]).unwrap();
    let error = RuntimeError::LengthMismatch { buffer: 3, host: 2 };
    let sentence = || {
        expect![
            "a buffer of 3 elements cannot be copied from or to 2 elements: the lengths must be equal"
        ]
    };
    check(x.write(&[9, 9]), &error, sentence());
    check(x.read_into(&mut [9, 9]), &error, sentence());
    assert_eq!(x.to_vec().unwrap(), [1, 2, 3]);
}

#[test]
fn more_memory_than_there_is() {
    let device = "the simulator".to_owned();
    check(
        simulator().zeros::<f64>(usize::MAX),
        &RuntimeError::OutOfMemory { device, bytes: u64::MAX },
        expect![
            "the simulator does not have 18446744073709551615 bytes of free memory: drop buffers that are no longer needed, or split the work"
        ],
    );
    // As many bytes as can be addressed, which no machine has.
    assert!(matches!(
        simulator().zeros::<u8>(isize::MAX as usize),
        Err(RuntimeError::OutOfMemory { .. })
    ));
    assert_eq!(simulator().zeros::<u8>(3).unwrap().to_vec().unwrap(), [0; 3]);
}

#[test]
fn a_fault_on_the_simulator() {
    let f = simulator().load(&axpy(Target::SM_80)).unwrap();
    let (x, mut y) = (simulator().zeros(10).unwrap(), simulator().zeros(10).unwrap());
    let error =
        f.launch(Grid::cover(11, 32), (1.0, &x, &mut y, 11)).expect_err("it reads past the end");
    let RuntimeError::Simulation(cause) = &error else { panic!("{error:?}") };
    assert_eq!(cause.fault().map(|fault| fault.thread), Some([10, 0, 0]));
    assert_eq!(error.to_string(), cause.to_string());
    // The simulator is not lost by it.
    f.launch(Grid::cover(10, 32), (1.0, &x, &mut y, 10)).unwrap();
}

#[test]
fn a_kernel_without_end_on_the_simulator() {
    let kernel = Kernel::<()>::build("endless", Target::SM_80, |k, ()| {
        k.loop_::<_, ()>((), |k, lp, ()| lp.continue_(k, ()))
    })
    .unwrap();
    let device = Device::sim_with(sim::Options::default().fuel(100_000));
    let error = device.load(&kernel).unwrap().launch(Grid::cover(1, 32), ()).expect_err("no end");
    let RuntimeError::Simulation(cause) = error else { panic!("{error:?}") };
    assert!(matches!(*cause, sim::RunError::OutOfFuel { fuel: 100_000, .. }), "{cause:?}");
}

#[test]
fn ptx_on_the_simulator() {
    let name = "text".to_owned();
    check(
        simulator().check_ptx("text", ".version 8.0"),
        &RuntimeError::PtxOnSimulator { name },
        expect![
            "the PTX of `text` cannot be compiled on the simulator, which runs kernels without PTX: use a GPU"
        ],
    );
}

/// Without a driver, all ways to ask for a GPU return that error, and asking for any device gives
/// the simulator.
#[test]
fn no_driver() {
    let expected = RuntimeError::NoDriver;
    if Device::cuda_count().as_ref().is_err_and(|error| *error == expected) {
        assert_eq!(Device::cuda(0), Err(expected.clone()));
        assert_eq!(Device::open(DeviceChoice::Cuda(None)), Err(expected.clone()));
        assert_eq!(Device::open(DeviceChoice::Cuda(Some(3))), Err(expected));
        assert_eq!(Device::default(), Device::sim());
        assert_eq!(Device::open(DeviceChoice::Auto), Device::sim());
    } else {
        skip("this machine has a CUDA driver");
    }
    assert_eq!(Device::open(DeviceChoice::Sim), Device::sim());
}

/// The note of `ptxas` on an ignored `setmaxnreg`.
const IGNORED: &str = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to \
                       determine register count at entry.";

/// The sentences of the causes that need a driver or a GPU.
#[test]
fn sentences() {
    let (device, kernel) = (|| "GPU 0 (NVIDIA H200)".to_owned(), || "axpy".to_owned());
    let fault = |launches| {
        Box::new(DeviceFault {
            device: device(),
            kind: FaultKind::IllegalAddress,
            launches,
            kernel: (launches > 0).then(kernel),
        })
    };
    let status = |name: Option<&str>| DriverStatus { code: 218, name: name.map(str::to_owned) };
    let errors = [
        RuntimeError::CudaNotBuilt,
        RuntimeError::SimulatorNotBuilt,
        RuntimeError::NoDriver,
        RuntimeError::StubDriver,
        RuntimeError::OldDriver {
            found: CudaVersion::from_number(11080),
            needed: CudaVersion::new(12, 0),
        },
        RuntimeError::MissingSymbol { symbol: "cuLaunchKernelEx", driver: CudaVersion::new(12, 8) },
        RuntimeError::NoDevice,
        RuntimeError::NoSuchDevice { ordinal: 4, count: 2 },
        RuntimeError::NoSuchDevice { ordinal: 1, count: 1 },
        RuntimeError::UnsupportedDevice { ordinal: 1, name: "Tesla T4".into(), capability: (7, 5) },
        RuntimeError::WrongTarget {
            kernel: kernel(),
            target: Target::SM_90A,
            device: "GPU 0 (NVIDIA A100)".into(),
            device_target: Target::SM_80,
        },
        RuntimeError::PtxRejected(Box::new(PtxRejection {
            kernel: kernel(),
            status: status(Some("CUDA_ERROR_INVALID_PTX")),
            line: Some((12, "\tadd.f33 %f1, %f2, %f3;".into())),
            location: Some("axpy.rs:31".into()),
            log: "ptxas application ptx input, line 12; error   : Unknown type".into(),
        })),
        RuntimeError::PtxRejected(Box::new(PtxRejection {
            kernel: kernel(),
            status: status(None),
            line: None,
            location: None,
            log: String::new(),
        })),
        RuntimeError::TooManyRegisters {
            kernel: kernel(),
            threads: 1024,
            limit: 768,
            registers: 80,
        },
        RuntimeError::SharedTooLarge { kernel: kernel(), bytes: 120_000, limit_bytes: 101_376 },
        RuntimeError::SetMaxNRegIgnored {
            kernel: kernel(),
            note: Box::new(CompilerNote::all(IGNORED).remove(0)),
        },
        RuntimeError::MissingEntry { entry: kernel() },
        RuntimeError::Ptxas {
            kernel: kernel(),
            error: PtxasError::Refused {
                log: "ptxas fatal   : Value 'sm_1' is not defined".into(),
            },
        },
        RuntimeError::OtherDeviceStream {
            what: "kernel `axpy`".into(),
            stream: "the simulator".into(),
            device: device(),
        },
        RuntimeError::OtherDeviceEvent,
        RuntimeError::NotInGraph { call: "Stream::synchronize" },
        RuntimeError::NotPrimaryContext { device: device() },
        RuntimeError::BufferShared,
        RuntimeError::AddressOnSimulator,
        RuntimeError::AddressAlignment { address: 0x1002, align: 4 },
        RuntimeError::StreamCaptures,
        RuntimeError::CaptureWaits { kernel: kernel() },
        RuntimeError::CaptureForbids { call: "cuModuleLoadDataEx" },
        RuntimeError::OtherThreadStream,
        RuntimeError::BorrowEnded,
        RuntimeError::BorrowedBool,
        RuntimeError::ProgrammaticWithoutWait { kernel: kernel() },
        RuntimeError::PinnedBool,
        RuntimeError::TensorMap(Box::new(TensorMapError::Address { address: 0x1008 })),
        RuntimeError::TooManyBlocksAtOnce { kernel: kernel(), blocks: 1000, limit: 264 },
        RuntimeError::OtherDevice {
            kernel: kernel(),
            index: 1,
            buffer: "the simulator".into(),
            device: device(),
        },
        RuntimeError::Fault(fault(0)),
        RuntimeError::Fault(fault(1)),
        RuntimeError::DeviceLost(fault(7)),
        RuntimeError::Driver {
            call: "cuStreamCreate",
            status: status(Some("CUDA_ERROR_INVALID_PTX")),
        },
    ];
    let text: String = errors.iter().map(|error| format!("{error}\n")).collect();
    expect![[r#"
        this build cannot use GPUs: build it with the feature `cuda`, or use the simulator
        this build has no simulator: build it with the feature `sim`
        no CUDA driver was found: install the NVIDIA driver (its library is `libcuda.so.1`, or `nvcuda.dll` on Windows), or use the simulator
        the CUDA library that was found is only the link-time stub: remove its folder (`stubs`) from the library search path, so that the driver's library is found
        the CUDA driver supports CUDA 11.8, but at least CUDA 12.0 is needed: update the NVIDIA driver
        the CUDA driver (CUDA 12.8) has no function `cuLaunchKernelEx`: reinstall or update the NVIDIA driver
        the CUDA driver finds no GPU: check `nvidia-smi` and `CUDA_VISIBLE_DEVICES`, or use the simulator
        there is no GPU 4: the 2 found are numbered from 0
        there is no GPU 1: the only one is GPU 0
        GPU 1 (Tesla T4) has compute capability 7.5, but at least 8.0 is needed: use a newer GPU or the simulator
        kernel `axpy` is built for sm_90a, which does not run on GPU 0 (NVIDIA A100): build it for sm_80
        the driver rejected the PTX of `axpy` with CUDA_ERROR_INVALID_PTX (218) at line 12, `add.f33 %f1, %f2, %f3;`, which is from axpy.rs:31; compiler log: ptxas application ptx input, line 12; error   : Unknown type
        the driver rejected the PTX of `axpy` with CUDA error 218
        kernel `axpy` needs 80 registers per thread, which allows blocks of 768 threads, not 1024: use smaller blocks, or fix the block when you build the kernel (`KernelOptions::block`)
        kernel `axpy` needs 120000 bytes of shared memory, but a block can have 101376: use smaller tiles
        the compiler ignores `setmaxnreg` in kernel `axpy`, so its warps would not get the registers that they ask for: set how many a thread starts with (`KernelOptions::max_registers`, or `block` and `min_blocks_per_sm`); compiler note: (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
        the compiled code has no entry `axpy`: clear the module cache, or compile without it
        cannot compile kernel `axpy`: ptxas rejected the PTX; its log: ptxas fatal   : Value 'sm_1' is not defined
        kernel `axpy` on GPU 0 (NVIDIA H200) cannot be used with a stream of the simulator: make the stream with `Device::stream` of the same device
        an event belongs to another device than the stream or event that it is used with: record both on streams of one device
        `Stream::synchronize` cannot be part of a graph, but the stream is recording one: graphs contain launches, copies between buffers, and fills; do it on another stream, or after `GraphBuilder::finish`
        the stream does not belong to the primary context of GPU 0 (NVIDIA H200): make its context with `CudaContext::new`
        the memory of the buffer cannot be given away, because a graph uses it or other code owns it: drop the graph, or copy the elements
        the simulator has no addresses: borrow memory on a GPU, or upload the data
        memory at 0x1002 cannot be borrowed: elements of 4 bytes must start at a multiple of 4
        other code is capturing the stream into a graph, to which this crate can only add launches: do everything else before the capture, or record with `Device::graph`
        kernel `axpy` cannot be captured into a graph of other code, because work on another stream may still use its memory: before the capture, launch the kernel once with these sizes and wait (`Device::synchronize`)
        the CUDA driver does not allow `cuModuleLoadDataEx` while other code captures a stream into a graph: load kernels, make buffers, and launch each kernel once before the capture
        the stream is the default stream of another thread (`CU_STREAM_PER_THREAD`), and only that thread can queue work on it: call `Stream::from_cudarc` in the thread that launches
        the buffer was borrowed from `cudarc` and the borrow has ended: use it only in the closure of `Device::borrow_cudarc`
        a slice of `bool`s cannot be borrowed mutably, because a kernel may store bytes that are not `bool`s: use `u8`
        kernel `axpy` has no `griddepcontrol_wait`, so a programmatic launch might not see what the previous launch writes: add one before the first use of memory
        page-locked memory cannot hold `bool`s, because a kernel may store bytes that are not `bool`s: use `u8`
        invalid tensor map: the tensor starts at address 0x1008, which is not a multiple of 16
        a cooperative launch runs all blocks at once, but the device has room for 264 blocks of kernel `axpy`, not for 1000: launch fewer blocks and let each do more
        argument 1 of kernel `axpy` is a buffer on the simulator, but the kernel is loaded on GPU 0 (NVIDIA H200): upload the data to the kernel's device
        a kernel accessed memory at an illegal address on GPU 0 (NVIDIA H200); the device cannot be used again in this process
        kernel `axpy` accessed memory at an illegal address on GPU 0 (NVIDIA H200); the device cannot be used again in this process
        the device cannot be used again in this process, because earlier one of the last 7 kernels, up to `axpy`, accessed memory at an illegal address on GPU 0 (NVIDIA H200) (synchronise after each launch to learn which)
        the CUDA driver call `cuStreamCreate` failed with CUDA_ERROR_INVALID_PTX (218)
    "#]].assert_eq(&text);
}
