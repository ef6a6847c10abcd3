//! Launches as a user writes them, on every device: the same tests, the same results. The tests of
//! the second half need a GPU, and run where the environment has `TILEWRIGHT_GPU=1`.

use crate::support::device;
use crate::support::kernels::{Axpy, axpy};

use device::{devices, wanted_gpu};
use tilewright::arch::{Fill, L2Promotion, SwizzleMode, TensorMapDesc};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Global, GlobalMut, Kernel, KernelOptions, Target, TensorMap, TensorMapMut, Untyped, range,
};
use tilewright::layout::{Layout, layout};
use tilewright::runtime::{Buffer, Device, Function, Grid, LaunchOptions, RuntimeError, Stream};

/// Devices and what is on them can be sent to and shared between threads.
const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Device>();
    check::<Kernel<Axpy>>();
    check::<Buffer<f32>>();
    check::<Function<Axpy>>();
    check::<RuntimeError>();
};

/// `y' = a x + y`, for lengths that do and do not fill the last block.
#[test]
fn axpy_computes() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        for n in [1, 31, 256, 257, 10_000] {
            let xs: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let ys: Vec<f32> = (0..n).map(|i| 0.5 * i as f32 + 1.0).collect();
            let x = device.upload(&xs).unwrap();
            let mut y = device.upload(&ys).unwrap();
            f.launch(Grid::cover(n, 256), (2.0, &x, &mut y, n as i32)).unwrap();
            f.launch(Grid::cover(n, 64), (-1.0, &x, &mut y, n as i32)).unwrap();
            device.synchronize().unwrap();
            let expected: Vec<f32> = xs.iter().zip(&ys).map(|(x, y)| x + y).collect();
            assert_eq!(y.to_vec().unwrap(), expected, "{n} on {device}");
            assert_eq!(x.to_vec().unwrap(), xs);
        }
    }
}

/// Every scalar type goes to a kernel and comes back.
#[test]
fn arguments_of_every_type_arrive() {
    fn check<T>(device: &Device, value: T)
    where
        T: tilewright::ir::Element + for<'h> tilewright::runtime::Argument<Arg<'h, 'h> = T>,
        for<'b> tilewright::ir::Val<'b, T>: tilewright::ir::builder::IntoVal<'b, T>,
    {
        let kernel = Kernel::<(GlobalMut<T>, T, i32)>::build(
            "pass",
            device.target(),
            |_, (to, value, at)| to.store(at, value),
        )
        .unwrap();
        let mut to = device.zeros::<T>(3).unwrap();
        let f = device.load(&kernel).unwrap();
        f.launch(Grid::cover(1, 1), (&mut to, value, 1)).unwrap();
        assert_eq!(to.to_vec().unwrap(), [T::default(), value, T::default()], "on {device}");
    }
    for device in devices() {
        check(&device, true);
        check(&device, -5i8);
        check(&device, 200u8);
        check(&device, -30_000i16);
        check(&device, 60_000u16);
        check(&device, i32::MIN);
        check(&device, u32::MAX);
        check(&device, i64::MIN + 1);
        check(&device, u64::MAX - 1);
        check(&device, -1.5e30f32);
        check(&device, f64::MIN_POSITIVE);
    }
}

#[test]
fn a_launch_is_timed() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        let x = device.upload(&[1.0; 1000]).unwrap();
        let mut y = device.zeros(1000).unwrap();
        let timing = f.time(Grid::cover(1000, 128), (3.0, &x, &mut y, 1000)).unwrap();
        assert!(!timing.elapsed.is_zero() && timing.rate(1.0) > 0.0, "{timing:?} on {device}");
        assert_eq!(timing.thread_ops.is_some(), device.is_sim());
        // Each of 1000 threads loads, computes and stores; each of 1024 looks where it is.
        assert!(timing.thread_ops.is_none_or(|ops| ops > 7 * 1000), "{timing:?}");
        assert_eq!(y.to_vec().unwrap(), [3.0; 1000]);
    }
}

/// Functions, buffers and devices may be dropped in any order, right after a launch.
#[test]
fn drops_in_any_order() {
    /// The last of the device that the caller keeps is the result.
    fn run(device: Device) -> Buffer<f32> {
        let mut y = device.upload(&[0.0f32; 64]).unwrap();
        for i in 0..20u32 {
            let f = device.load(&axpy(device.target())).unwrap();
            let x = device.upload(&[i as f32; 64]).unwrap();
            f.launch(Grid::cover(64, 64), (1.0, &x, &mut y, 64)).unwrap();
            if i.is_multiple_of(2) {
                drop(f);
                drop(x);
            } else {
                drop(x);
                drop(f);
            }
            // What is allocated now may get the memory of what was just dropped.
            drop(device.upload(&[1e9f32; 64]).unwrap());
        }
        y
    }
    for device in devices() {
        assert_eq!(run(device).to_vec().unwrap(), [190.0; 64]);
    }
}

#[test]
fn threads_share_a_device() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        std::thread::scope(|scope| {
            for t in 1..=4 {
                let (device, f) = (device.clone(), f.clone());
                scope.spawn(move || {
                    let x = device.upload(&[t as f32; 300]).unwrap();
                    let mut y = device.zeros(300).unwrap();
                    for _ in 0..10 {
                        f.launch(Grid::cover(300, 64), (1.0, &x, &mut y, 300)).unwrap();
                    }
                    assert_eq!(y.to_vec().unwrap(), [10.0 * t as f32; 300]);
                });
            }
        });
    }
}

#[test]
fn buffers_of_no_elements() {
    for device in devices() {
        let f = device.load(&axpy(device.target())).unwrap();
        let x = device.upload::<f32>(&[]).unwrap();
        let mut y = device.zeros(0).unwrap();
        f.launch(Grid::cover(0, 32), (1.0, &x, &mut y, 0)).unwrap();
        assert!(y.is_empty() && y.to_vec().unwrap().is_empty());
    }
}

#[test]
fn a_kernel_without_a_rust_signature() {
    for device in devices() {
        let kernel = Kernel::verify(axpy(device.target()).ir().clone()).unwrap();
        let f: Function<Untyped> = device.load(&kernel).unwrap();
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let mut y = device.upload(&[10.0f32, 20.0]).unwrap();
        let args = vec![3.0f32.into(), (&x).into(), (&mut y).into(), 2i32.into()];
        f.launch(Grid::cover(2, 32), args).unwrap();
        assert_eq!(y.to_vec().unwrap(), [13.0, 26.0]);
        assert!(matches!(
            f.launch(Grid::cover(2, 32), vec![]),
            Err(RuntimeError::ArgumentCount { .. })
        ));
    }
}

/// All the shared memory that a block of the target can have: every byte of it keeps what is stored
/// there.
#[test]
fn shared_memory_that_a_launch_gives() {
    for device in devices() {
        let target = device.target();
        let words = u32::try_from(target.max_shared_bytes() / 4).unwrap();
        let kernel = Kernel::<(GlobalMut<i32>,)>::build("large", target, |k, (x,)| {
            let (tile, i) = (k.shared::<i32>(words), k.thread_idx().x);
            k.for_(range(0, words / 128), (), |_, step, ()| {
                let at = step * 128 + i;
                tile.store(at, at * 7 - 3);
            });
            k.barrier();
            k.for_(range(0, words / 128), (), |_, step, ()| {
                let at = step * 128 + i;
                x.store(at, tile.load(-(at - (words - 1))));
            });
        })
        .unwrap();
        let mut x = device.zeros::<i32>(words as usize).unwrap();
        device.load(&kernel).unwrap().launch(Grid::cover(1, 128), (&mut x,)).unwrap();
        let expected: Vec<i32> = (0..words as i32).rev().map(|i| 7 * i - 3).collect();
        assert!(x.to_vec().unwrap() == expected, "{words} words on {device}");
    }
}

type Slow = (Global<f32>, GlobalMut<f32>, i32);

/// `y[i] += n * x[i]`, slow enough that a missing wait is seen.
fn slow(target: Target) -> Kernel<Slow> {
    Kernel::<Slow>::build("slow", target, |k, (x, y, n)| {
        let i = k.thread_idx().x;
        let sum = k.for_(range(0, n), 0.0, |_, _, sum| sum + x.load(i));
        y.store(i, y.load(i) + sum);
    })
    .unwrap()
}

fn on(stream: &Stream) -> LaunchOptions<'_> {
    LaunchOptions::default().stream(stream)
}

/// Work on several streams is ordered by the buffers that it shares, and by nothing else.
#[test]
fn streams_are_ordered_by_their_buffers() {
    for device in devices() {
        let n = if device.is_sim() { 10 } else { 100_000 };
        let f = device.load(&slow(device.target())).unwrap();
        let streams = [(); 3].map(|()| device.stream().unwrap());
        let grid = Grid::cover(1, 64);
        for round in 0..5 {
            let x = device.upload(&[1.0f32; 64]).unwrap();
            let mut chain = device.zeros::<f32>(64).unwrap();
            let mut next = device.zeros::<f32>(64).unwrap();
            for step in 0..6 {
                f.launch_with(on(&streams[step % 3]), grid, (&x, &mut chain, n)).unwrap();
            }
            f.launch_with(on(&streams[1]), grid, (&chain, &mut next, 1)).unwrap();
            // Both ends of a dependency on buffers that are dropped at once.
            let spare = device.upload(&[2.0f32; 64]).unwrap();
            f.launch_with(on(&streams[2]), grid, (&spare, &mut next, 1)).unwrap();
            drop(spare);
            drop(device.upload(&[1e9f32; 64]).unwrap());
            let expected = 6.0 * n as f32 + 2.0;
            assert_eq!(next.to_vec().unwrap(), [expected; 64], "round {round} on {device}");
            drop((x, chain));
        }
        let (start, end) = (streams[0].record().unwrap(), streams[0].record().unwrap());
        streams[1].wait_for(&end).unwrap();
        streams[1].synchronize().unwrap();
        assert!(end.is_passed().unwrap() && start.elapsed_until(&end).is_ok());
    }
}

#[test]
fn pinned_memory_in_flight() {
    for device in devices() {
        let (n, len) = if device.is_sim() { (10, 1000) } else { (100_000, 1 << 20) };
        let f = device.load(&slow(device.target())).unwrap();
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let mut from = device.pinned::<f32>(len).unwrap();
        let mut to = device.pinned::<f32>(len).unwrap();
        let (mut x, mut y) = (device.zeros(len).unwrap(), device.zeros(len).unwrap());
        for i in 1..=3 {
            // Keeps the stream busy, so that the copies behind it are in flight when the host goes
            // on.
            f.launch_with(on(&a), Grid::cover(1, 64), (&y, &mut x, n)).unwrap();
            from.as_mut_slice().unwrap().fill(i as f32);
            x.write_from(&from, &a).unwrap();
            y.copy_from(&x, &b).unwrap();
            y.read_to(&mut to, &a).unwrap();
            assert_eq!(to.as_slice().unwrap(), vec![i as f32; len], "on {device}");
        }
        f.launch_with(on(&a), Grid::cover(1, 64), (&y, &mut x, n)).unwrap();
        x.write_from(&from, &a).unwrap();
        x.read_to(&mut to, &b).unwrap();
        drop((from, to, x));
        y.fill(-2.5, &b).unwrap();
        assert_eq!(y.to_vec().unwrap(), vec![-2.5; len]);
        let mut wide = device.zeros::<u64>(len).unwrap();
        wide.fill(0x0123_4567_89ab_cdef, &b).unwrap();
        assert_eq!(wide.to_vec().unwrap(), vec![0x0123_4567_89ab_cdef; len]);
    }
}

#[test]
fn graphs_run_what_was_recorded() {
    for device in devices() {
        let f = device.load(&slow(device.target())).unwrap();
        let grid = Grid::cover(1, 64);
        let x = device.upload(&[1.0f32; 64]).unwrap();
        let mut y = device.zeros::<f32>(64).unwrap();
        let mut z = device.zeros::<f32>(64).unwrap();
        let mut builder = device.graph().unwrap();
        for _ in 0..20 {
            builder.launch(&f, grid, (&x, &mut y, 3)).unwrap();
        }
        f.launch_with(on(builder.stream()), grid, (&y, &mut z, 1)).unwrap();
        let graph = builder.finish().unwrap();
        assert_eq!((graph.len(), y.to_vec().unwrap()), (21, vec![0.0; 64]), "on {device}");
        graph.launch().unwrap();
        graph.launch_on(&device.stream().unwrap()).unwrap();
        // Between two runs the buffers are like any others.
        y.write(&[1000.0; 64]).unwrap();
        graph.launch().unwrap();
        assert_eq!(y.to_vec().unwrap(), [1060.0; 64]);
        assert_eq!(z.to_vec().unwrap(), [60.0 + 120.0 + 1060.0; 64]);
        drop((f, x, y));
        graph.launch().unwrap();
        assert_eq!(z.to_vec().unwrap(), [2360.0; 64]);
        graph.launch().unwrap();
        drop(graph);
        drop(device.upload(&[1e9f32; 64]).unwrap());
        assert_eq!(z.to_vec().unwrap(), [2360.0 + 1180.0; 64]);
    }
}

/// Options of a launch change how it runs and not what it computes.
#[test]
fn launches_with_options() {
    for device in devices() {
        let build = |options| {
            Kernel::<Axpy>::build_with(options, "axpy", device.target(), |k, (a, x, y, n)| {
                let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
                k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
            })
            .unwrap()
        };
        let options = KernelOptions::default().max_threads(256).max_registers(32);
        let mut runs = vec![(options.clone().min_blocks_per_sm(4), Grid::cover(1000, 128))];
        if device.limits().cluster_blocks > 1 && device.target().offers(Target::SM_90) {
            let grid = Grid::new([16, 1, 1], [64, 1, 1]);
            runs.push((options.clone(), grid.cluster([2, 1, 1])));
            runs.push((options.clone().cluster([4, 1, 1]), grid));
            runs.push((options.clone().cluster([16, 1, 1]), grid));
            runs.push((options.cluster_at_launch(), grid.cluster([8, 1, 1])));
        }
        for (options, grid) in runs {
            let f = device.load(&build(options.clone())).unwrap();
            let x = device.upload(&[2.0f32; 1000]).unwrap();
            let mut y = device.zeros::<f32>(1000).unwrap();
            let plain = LaunchOptions::default();
            let programmatic = plain.programmatic(true);
            let refused = f.launch_with(programmatic, grid, (1.0, &x, &mut y, 1000));
            let kernel = f.name().to_owned();
            assert_eq!(refused, Err(RuntimeError::ProgrammaticWithoutWait { kernel }));
            for launch in [plain, plain, plain.cooperative(true)] {
                f.launch_with(launch, grid, (1.0, &x, &mut y, 1000)).unwrap();
                device.synchronize().unwrap();
            }
            assert_eq!(y.to_vec().unwrap(), [6.0; 1000], "{options:?} on {device}");
        }
    }
}

/// Every map that can be described can be encoded, and a kernel can be launched with it.
#[test]
fn tensor_maps_are_passed() {
    for device in devices() {
        let maps = [
            TensorMapDesc::new(Scalar::F32, &[64, 100], &[256], &[32, 8]),
            TensorMapDesc::new(Scalar::F32, &[1 << 20, 1], &[1 << 22], &[256, 128]),
            TensorMapDesc::new(Scalar::F32, &[5, 100], &[1 << 10], &[4, 256])
                .and_then(|map| map.with_element_strides(&[1, 8])),
            TensorMapDesc::new(Scalar::F32, &[32, 10], &[128], &[32, 64])
                .and_then(|map| map.with_swizzle(SwizzleMode::B128))
                .and_then(|map| map.with_fill(Fill::Nan)),
            TensorMapDesc::new(Scalar::F32, &[32, 10], &[128], &[4, 64])
                .and_then(|map| map.with_swizzle(SwizzleMode::B128)),
        ];
        if !device.is_sim() && !device.target().offers(Target::SM_90) {
            continue;
        }
        type Params = (TensorMap<f32, 2>, TensorMapMut<f32, 2>, GlobalMut<i32>);
        let kernel = Kernel::<Params>::build("maps", Target::SM_90, |k, (_, _, out)| {
            out.store(k.thread_idx().x, 7);
        })
        .unwrap();
        let f = device.load(&kernel).unwrap();
        let x = device.zeros::<f32>(1 << 20).unwrap();
        let mut y = device.zeros::<f32>(1 << 20).unwrap();
        let mut refused = Vec::new();
        for map in maps {
            let map = map.unwrap().with_l2_promotion(L2Promotion::B256);
            if let Err(error) = x.tensor_map(&map) {
                refused.push(format!("{map}: {error}"));
                continue;
            }
            let mut out = device.zeros::<i32>(32).unwrap();
            let (from, mut to) = (x.tensor_map(&map).unwrap(), y.tensor_map_mut(&map).unwrap());
            f.launch(Grid::cover(1, 32), (&from, &mut to, &mut out)).unwrap();
            assert_eq!(out.to_vec().unwrap(), [7; 32], "{map} on {device}");
        }
        assert!(refused.is_empty(), "{refused:#?} on {device}");
    }
}

#[test]
fn gpu_occupancy_is_known() {
    let Some(device) = wanted_gpu() else { return };
    let f = device.load(&axpy(device.target())).unwrap();
    let occupancy = f.occupancy(1024).unwrap().unwrap();
    assert!((1..=2).contains(&occupancy.blocks_per_sm) && occupancy.sm_count > 1);
    if device.target().offers(Target::SM_90) {
        let clusters = f.clusters_at_once(Grid::cover(1 << 20, 1024).cluster([2, 1, 1])).unwrap();
        assert!(clusters.is_some_and(|clusters| clusters > 1), "{clusters:?}");
    }
    eprintln!("{occupancy:?}");
}

/// Copies and fills are part of a graph, in their order, and a graph of nothing else runs too.
#[test]
fn graphs_copy_and_fill() {
    for device in devices() {
        let f = device.load(&axpy(Target::SM_80)).unwrap();
        let mut x = device.upload(&[2.0f32; 64]).unwrap();
        let [mut y, mut z] = [device.zeros::<f32>(64).unwrap(), device.zeros::<f32>(64).unwrap()];
        let mut wide = device.zeros::<f64>(8).unwrap();
        let mut builder = device.graph().unwrap();
        let stream = builder.stream().clone();
        y.fill(10.0, &stream).unwrap();
        builder.launch(&f, Grid::cover(64, 64), (1.0, &x, &mut y, 64)).unwrap();
        z.copy_from(&y, &stream).unwrap();
        x.fill(3.0, &stream).unwrap();
        wide.fill(-0.125, &stream).unwrap();
        let graph = builder.finish().unwrap();
        assert_eq!((z.to_vec().unwrap()[0], wide.to_vec().unwrap()[0]), (0.0, 0.0), "{device}");
        graph.launch().unwrap();
        assert_eq!(z.to_vec().unwrap(), [12.0; 64], "{device}");
        graph.launch_on(&device.stream().unwrap()).unwrap();
        assert_eq!(z.to_vec().unwrap(), [13.0; 64], "{device}");
        assert_eq!(wide.to_vec().unwrap(), [-0.125; 8], "{device}");

        let builder = device.graph().unwrap();
        y.fill(1.0, builder.stream()).unwrap();
        let graph = builder.finish().unwrap();
        assert_eq!((graph.len(), graph.is_empty()), (1, false));
        graph.launch().unwrap();
        drop(graph);
        assert_eq!(y.to_vec().unwrap(), [1.0; 64], "{device}");
    }
}

/// A recording that is given up leaves a stream like others.
#[test]
fn streams_outlive_their_recordings() {
    for device in devices() {
        let f = device.load(&axpy(Target::SM_80)).unwrap();
        let x = device.upload(&[2.0f32; 64]).unwrap();
        let mut y = device.zeros::<f32>(64).unwrap();
        let builder = device.graph().unwrap();
        let stream = builder.stream().clone();
        f.launch_with(on(&stream), Grid::cover(64, 64), (1.0, &x, &mut y, 64)).unwrap();
        drop(builder);
        f.launch_with(on(&stream), Grid::cover(64, 64), (10.0, &x, &mut y, 64)).unwrap();
        assert_eq!(y.to_vec().unwrap(), [20.0; 64], "{device}");
    }
}

/// The arguments of a launch can be made before it, tensor maps that are written too, and as often
/// as one likes.
#[test]
fn a_tuple_of_arguments_can_be_held() {
    let device = Device::sim().unwrap();
    type Maps = (TensorMapMut<f32, 2>, TensorMapMut<f32, 2>, GlobalMut<i32>);
    let kernel = Kernel::<Maps>::build("k", Target::SM_90A, |_, (_, _, x)| {
        x.store(0, x.load(0) + 1);
    });
    let f = device.load(&kernel.unwrap()).unwrap();
    let (matrix, tile) = (Layout::row_major((100, 64)), layout!((8, 32):(32, 1)));
    let map = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &tile.into()).unwrap();
    let mut a = device.zeros::<f32>(100 * 64).unwrap();
    let mut x = device.zeros::<i32>(1).unwrap();
    let mut b = device.zeros::<f32>(100 * 64).unwrap();
    let (mut a, mut b) = (a.tensor_map_mut(&map).unwrap(), b.tensor_map_mut(&map).unwrap());
    for _ in 0..2 {
        let args = (&mut a, &mut b, &mut x);
        f.launch(Grid::cover(1, 1), args).unwrap();
        f.launch(Grid::cover(1, 1), (&mut a, &mut b, &mut x)).unwrap();
    }
    assert_eq!(x.to_vec().unwrap(), [4]);
}

/// The environment names the target of the simulator that programs without a GPU get.
#[test]
fn the_default_simulator_has_the_target_of_the_environment() {
    const CHILD: &str = "TILEWRIGHT_LAUNCH_CHILD";
    const NAME: &str = "launch::the_default_simulator_has_the_target_of_the_environment";
    if std::env::var_os(CHILD).is_some() {
        match Device::default() {
            Ok(device) => eprintln!("{device} for {}", device.target()),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    let says = |target: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1");
        // No GPU.
        command.env("CUDA_VISIBLE_DEVICES", "-1").env("TILEWRIGHT_SIM_TARGET", target);
        String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
    };
    assert!(says("").contains("the simulator for sm_80"));
    assert!(says("sm_90a").contains("the simulator for sm_90a"));
    let refused = says("sm_75");
    assert!(
        refused.contains("the environment variable `TILEWRIGHT_SIM_TARGET`: `sm_75`"),
        "{refused}"
    );
}

/// Streams and memory of a program that uses `cudarc`, in and out.
#[test]
fn gpu_streams_and_memory_of_cudarc() {
    use cudarc::driver::CudaContext;
    let Some(device) = wanted_gpu() else { return };
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let x = stream.clone_htod(&[3.0f32; 1000]).unwrap();
    let x = Buffer::from_cudarc(x).unwrap();
    let mut y = device.upload(&[1.0f32; 1000]).unwrap();
    let f = device.load(&axpy(device.target())).unwrap();
    let ours = Stream::from_cudarc(&stream).unwrap();
    assert_eq!(ours.cu_stream(), Some(stream.cu_stream()));
    assert_ne!(device.stream().unwrap().cu_stream(), Some(stream.cu_stream()));
    assert_eq!(Device::sim().unwrap().stream().unwrap().cu_stream(), None);
    f.launch_with(on(&ours), Grid::cover(1000, 256), (2.0, &x, &mut y, 1000)).unwrap();
    let y = y.into_cudarc(&stream).unwrap();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), [7.0f32; 1000]);
    // What came from there goes back as it was.
    let x = x.into_cudarc(&stream).unwrap();
    assert_eq!((x.stream().cu_stream(), x.len()), (stream.cu_stream(), 1000));
    drop((x, y));
    // A buffer that came from elsewhere is freed after its last use.
    let x = Buffer::from_cudarc(stream.clone_htod(&[5.0f32; 64]).unwrap()).unwrap();
    let slow = device.load(&slow(device.target())).unwrap();
    let mut sum = device.zeros::<f32>(64).unwrap();
    slow.launch(Grid::cover(1, 64), (&x, &mut sum, 100_000)).unwrap();
    drop(x);
    let other = stream.clone_htod(&[1e9f32; 64]).unwrap();
    assert_eq!(sum.to_vec().unwrap(), [500_000.0; 64]);
    drop(other);

    // What other code records on its stream are launches and nothing else.
    let x = device.upload(&[1.0f32; 64]).unwrap();
    let mut y = device.zeros::<f32>(64).unwrap();
    f.launch_with(on(&ours), Grid::cover(64, 64), (2.0, &x, &mut y, 64)).unwrap();
    ours.synchronize().unwrap();
    let mode = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    stream.begin_capture(mode).unwrap();
    let launched = f.launch_with(on(&ours), Grid::cover(64, 64), (2.0, &x, &mut y, 64));
    assert_eq!(launched, Ok(()));
    let timed = f.time_with(on(&ours), Grid::cover(64, 64), (2.0, &x, &mut y, 64));
    assert_eq!(timed.map(|_| ()), Err(RuntimeError::StreamCaptures));
    assert_eq!(ours.synchronize(), Err(RuntimeError::StreamCaptures));
    assert_eq!(ours.record().map(|_| ()), Err(RuntimeError::StreamCaptures));
    // All else goes on.
    device.synchronize().unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0; 64]);
    let flags =
        cudarc::driver::sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    drop(stream.end_capture(flags).unwrap());
    assert_eq!(y.to_vec().unwrap(), [2.0; 64]);
}

#[test]
fn gpu_refuses_cooperative_grids_without_room() {
    let Some(device) = wanted_gpu() else { return };
    let f = device.load(&axpy(device.target())).unwrap();
    let (x, mut y) = (device.zeros::<f32>(1).unwrap(), device.zeros::<f32>(1).unwrap());
    let cooperative = LaunchOptions::default().cooperative(true);
    let grid = Grid::new([1_000_000, 1, 1], [256, 1, 1]);
    let error = f.launch_with(cooperative, grid, (1.0, &x, &mut y, 1)).expect_err("it is too much");
    let RuntimeError::TooManyBlocksAtOnce { blocks: 1_000_000, limit, .. } = error else {
        panic!("{error}")
    };
    let grid = Grid::new([limit as u32, 1, 1], [256, 1, 1]);
    f.launch_with(cooperative, grid, (1.0, &x, &mut y, 1)).unwrap();
    device.synchronize().unwrap();
}

/// The description of a device can be printed.
#[test]
fn devices_are_named() {
    for device in devices() {
        assert!(!device.name().is_empty() && device.to_string().contains(device.name()));
        assert_eq!(device.cuda_version().is_none(), device.is_sim());
        assert!(device.limits().threads_per_block >= 1024);
    }
    let sim = Device::sim().unwrap();
    assert_eq!(
        (sim.name(), sim.driver_release(), sim.target()),
        ("simulator", None, Target::SM_80)
    );
}

#[test]
fn gpu_copies_are_exact() {
    let Some(device) = wanted_gpu() else { return };
    let data: Vec<u32> = (0..32u32 << 20).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let mut buffer = device.upload(&data).unwrap();
    assert!(buffer.to_vec().unwrap() == data);
    let reversed: Vec<u32> = data.iter().rev().copied().collect();
    buffer.write(&reversed).unwrap();
    let mut copy = vec![0; data.len()];
    buffer.read_into(&mut copy).unwrap();
    assert!(copy == reversed);
    assert!(device.zeros::<u64>(1 << 20).unwrap().to_vec().unwrap().iter().all(|x| *x == 0));
    assert_eq!(device.upload(&[true, false, true]).unwrap().to_vec().unwrap(), [true, false, true]);
}

#[test]
fn gpu_refuses_ptx_with_a_log() {
    let Some(device) = wanted_gpu() else { return };
    let head = format!(".version 8.0\n.target {}\n.address_size 64\n", device.target());
    let bad = format!("{head}.visible .entry bad() {{\n  add.f33 %f1, %f2;\n  ret;\n}}\n");
    let error = device.check_ptx("bad", &bad).expect_err("the text is wrong");
    let RuntimeError::PtxRejected(rejection) = &error else { panic!("{error:?}") };
    assert_eq!(rejection.line.as_ref().map(|(line, _)| *line), Some(5), "{error}");
    assert!(error.to_string().contains("add.f33") && !rejection.log.is_empty(), "{error}");
    eprintln!("{error}");
    let good = format!("{head}.visible .entry good() {{\n  ret;\n}}\n");
    // The driver says nothing about a text that it finds in its cache.
    eprintln!("{}", device.check_ptx("good", &good).unwrap());
}

#[test]
fn gpu_refuses_other_targets() {
    let Some(device) = wanted_gpu() else { return };
    // The code of an older architecture alone, or of a newer one.
    let newest = Target::all().last().unwrap();
    let other = if device.target().sm() > 90 { Target::SM_90A } else { newest };
    let error = device.load(&axpy(other)).map(|_| ()).expect_err("it is of another architecture");
    assert!(
        matches!(error, RuntimeError::WrongTarget { target, .. } if target == other),
        "{error}"
    );
    device.load(&axpy(Target::SM_80)).unwrap();
}

#[test]
fn gpu_of_no_such_number() {
    let Some(device) = wanted_gpu() else { return };
    let count = Device::cuda_count().unwrap();
    let error = RuntimeError::NoSuchDevice { ordinal: count, count };
    assert_eq!(Device::cuda(count), Err(error));
    // The device is one, however often it is opened.
    assert_eq!(Device::cuda(0), Ok(device.clone()));
    assert_eq!(Device::default(), Ok(device));
}

/// The kernel reads `x` for a while; `x` and the function are dropped meanwhile, and their memory
/// is asked for again.
#[test]
fn gpu_drops_under_a_running_kernel() {
    let Some(device) = wanted_gpu() else { return };
    let kernel = Kernel::<Slow>::build("slow", device.target(), |k, (x, y, n)| {
        let sum = k.for_(tilewright::ir::range(0, n), 0.0, |_, i, sum| sum + x.load(i & 1023));
        y.store(0, sum);
    })
    .unwrap();
    let n = 4_000_000;
    let mut y = device.zeros::<f32>(1).unwrap();
    let mut buffers = Vec::new();
    for _ in 0..5 {
        let f = device.load(&kernel).unwrap();
        let x = device.upload(&[1.0f32; 1024]).unwrap();
        f.launch(Grid::cover(1, 1), (&x, &mut y, n)).unwrap();
        drop(x);
        buffers.push(device.zeros::<f32>(1024).unwrap());
        drop(f);
    }
    assert_eq!(y.to_vec().unwrap(), [n as f32]);
}
