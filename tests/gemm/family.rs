//! The matrix products of `kernels::gemm`: every kind of configuration, at sizes that are ragged.
//!
//! On the simulator; with `TILEWRIGHT_GPU=1` on the first GPU.

use crate::support::slow::{sample, slow};
use crate::support::{device, gemm_case};

use gemm_case::Case;
use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f16};
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, MatrixStrides, Schedule,
    StoreMethod,
};
use tilewright::runtime::Device;
use tilewright::sim::{Options, Order};
use tilewright::tensor::pipeline::Raster;

fn device() -> Device {
    device::gpu().unwrap_or_else(|| Device::sim().unwrap())
}

/// Whole tiles, ragged ones, fewer rows than a tile, several tiles for each block.
fn problems() -> Vec<GemmProblem> {
    let mut all = vec![GemmProblem::new(136, 136, 136), GemmProblem::new(72, 48, 72)];
    if device::gpu().is_some() {
        all.extend([
            GemmProblem::new(128, 128, 256),
            GemmProblem::new(300, 136, 8),
            GemmProblem::new(520, 392, 264),
        ]);
    }
    all
}

fn small() -> GemmConfig {
    GemmConfig {
        stages: 2,
        raster: Raster::Swizzle { width: 2 },
        ..GemmConfig::sm90(Scalar::Bf16, [128, 64])
    }
}

#[test]
fn cooperative_kernels() {
    let device = device();
    let small = small();
    let rows = GemmConfig { tile: [128, 40, 64], store: StoreMethod::Rows, ..small };
    let configs = [
        small,
        rows,
        GemmConfig { tile: [256, 40, 64], ..rows },
        GemmConfig {
            tile: [64, 32, 128],
            stages: 3,
            store: StoreMethod::Rows,
            registers: None,
            ..small
        },
        // Parts of 24 and of 40 columns.
        GemmConfig { tile: [128, 72, 64], store: StoreMethod::Chunks, ..small },
        GemmConfig { tile: [256, 120, 64], store: StoreMethod::Chunks, ..small },
        GemmConfig { cluster: [2, 1], ..small },
        GemmConfig { tile: [256, 64, 64], cluster: [1, 2], raster: Raster::Hilbert, ..small },
        GemmConfig { raster: Raster::AlongM, programmatic: false, tile: [128, 192, 64], ..small },
    ];
    for config in configs {
        for problem in problems() {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
}

/// Tiles of fewer rows than an instruction: the rows of A below them are zero, and those of D are
/// another tile's.
#[test]
fn low_tiles() {
    let device = device();
    let low = |input, tile: [u32; 2], lines| {
        let config = GemmConfig::sm90(input, tile);
        let tile = [tile[0], tile[1], lines * config.tile[2]];
        GemmConfig { tile, stages: 3, raster: Raster::AlongN, ..config }
    };
    for config in [low(Scalar::Bf16, [16, 32], 2), low(Scalar::Bf16, [32, 64], 1)] {
        for problem in [[16, 64, 264], [13, 40, 136], [40, 72, 520], [1, 8, 8]] {
            let [m, n, k] = problem;
            Case::new(GemmProblem::new(m, n, k)).check::<bf16, bf16>(&device, config);
        }
    }
    let epilogue = Epilogue { alpha: true, beta: true, bias: Some(Bias::Row), activation: None };
    let config = GemmConfig { epilogue, major_b: Major::Mn, ..low(Scalar::F16, [16, 64], 1) };
    let batch = GemmProblem { batch: 2, ..GemmProblem::new(40, 72, 72) };
    Case::new(batch).check::<f16, f16>(&device, config);
    let problem = GemmProblem::new(19, 72, 144);
    Case::new(problem).check::<f32, f32>(&device, low(Scalar::Tf32, [16, 32], 1));
    Case::new(problem).check::<f8e4m3, bf16>(&device, low(Scalar::F8E4M3, [16, 32], 2));
}

#[test]
fn overlapped_stores() {
    let device = device();
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, tile: [128, 256, 64], ..small() };
    for config in [overlapped, GemmConfig { cluster: [2, 2], stages: 3, ..overlapped }] {
        for problem in [GemmProblem::new(136, 200, 264), GemmProblem::new(400, 264, 264)] {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
    // Fewer steps than parts that are written under them.
    assert!(overlapped.check_problem(&GemmProblem::new(128, 256, 192)).is_err());
}

#[test]
fn pingpong_kernels() {
    let device = device();
    let small = GemmConfig { schedule: Schedule::Pingpong, ..small() };
    let configs = [
        small,
        GemmConfig { tile: [64, 40, 64], store: StoreMethod::Rows, stages: 3, ..small },
        GemmConfig { tile: [64, 64, 128], raster: Raster::AlongN, ..small },
        GemmConfig { cluster: [2, 1], ..small },
        GemmConfig {
            cluster: [1, 4],
            tile: [128, 40, 64],
            store: StoreMethod::Rows,
            stages: 3,
            ..small
        },
    ];
    for config in configs {
        for problem in problems() {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
}

/// No random order of the simulator finds a fault, or another product. `TILEWRIGHT_CASES` says how
/// many orders.
#[test]
fn every_schedule_in_random_orders() {
    let cases = std::env::var("TILEWRIGHT_CASES").ok().and_then(|cases| cases.parse().ok());
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, tile: [128, 256, 64], ..small() };
    let rows = GemmConfig { store: StoreMethod::Rows, tile: [128, 40, 64], stages: 3, ..small() };
    let configs = [
        GemmConfig { cluster: [2, 1], ..small() },
        GemmConfig { schedule: Schedule::Pingpong, ..small() },
        GemmConfig { schedule: Schedule::Pingpong, cluster: [2, 2], ..small() },
        rows,
        GemmConfig { schedule: Schedule::Pingpong, tile: [64, 40, 64], ..rows },
        GemmConfig { tile: [16, 32, 128], stages: 3, ..GemmConfig::sm90(Scalar::Bf16, [16, 32]) },
        small_80(),
        GemmConfig { stages: 3, ..small_80() },
        GemmConfig { alignment: 2, ..small_80() },
    ];
    for seed in 1..=cases.unwrap_or(if slow() { 2 } else { 1 }) {
        let device = Device::sim_with(Options::default().order(Order::Random { seed }));
        for config in configs {
            Case::new(GemmProblem::new(136, 72, 264)).check::<bf16, bf16>(&device, config);
        }
        if seed % 4 == 1 {
            Case::new(GemmProblem::new(136, 264, 264)).check::<bf16, bf16>(&device, overlapped);
        }
    }
}

#[test]
fn all_majors_and_types() {
    let device = device();
    let problem = GemmProblem::new(136, 72, 136);
    for major_a in [Major::K, Major::Mn] {
        for major_b in [Major::K, Major::Mn] {
            for schedule in [Schedule::Cooperative, Schedule::Pingpong] {
                let config = GemmConfig { major_a, major_b, schedule, ..small() };
                Case::new(problem).check::<bf16, bf16>(&device, config);
            }
            let halves = GemmConfig {
                major_a,
                major_b,
                stages: 2,
                ..GemmConfig::sm90(Scalar::F16, [128, 64])
            };
            Case::new(problem).check::<f16, f16>(&device, halves);
            let deep = GemmConfig { tile: [64, 64, 128], registers: None, ..halves };
            Case::new(problem).check::<f16, f16>(&device, deep);
        }
    }
    let wide = |config: GemmConfig| GemmConfig { d: Scalar::F32, c: Scalar::F32, ..config };
    Case::new(problem).check::<bf16, f32>(&device, wide(small()));
    let rows = GemmConfig { store: StoreMethod::Rows, tile: [128, 40, 64], ..wide(small()) };
    Case::new(problem).check::<bf16, f32>(&device, rows);
    let tf32 = GemmConfig { stages: 2, ..GemmConfig::sm90(Scalar::Tf32, [128, 64]) };
    Case::new(problem).check::<f32, f32>(&device, tf32);
    let eight = GemmConfig { stages: 2, ..GemmConfig::sm90(Scalar::F8E4M3, [128, 64]) };
    let problem = GemmProblem::new(136, 72, 144);
    Case::new(problem).check::<f8e4m3, bf16>(&device, eight);
    Case::new(problem)
        .check::<f8e4m3, f16>(&device, GemmConfig { d: Scalar::F16, c: Scalar::F16, ..eight });
}

fn small_80() -> GemmConfig {
    let config = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    GemmConfig { stages: 2, raster: Raster::Swizzle { width: 2 }, ..config }
}

#[test]
fn multistage_kernels() {
    let device = device();
    let small = small_80();
    let mut configs = vec![
        small,
        GemmConfig { tile: [64, 128, 64], stages: 3, raster: Raster::Hilbert, ..small },
        GemmConfig { tile: [128, 128, 64], raster: Raster::AlongM, ..small },
        GemmConfig { tile: [64, 256, 64], ..small },
        GemmConfig { tile: [256, 64, 64], ..small },
        GemmConfig { tile: [128, 256, 64], stages: 3, ..small },
    ];
    for (major_a, major_b) in [(Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)]
    {
        configs.push(GemmConfig { major_a, major_b, tile: [128, 64, 64], ..small });
    }
    for (i, config) in configs.into_iter().enumerate() {
        let mut problems = [GemmProblem::new(136, 72, 136), GemmProblem::new(72, 48, 72)];
        problems.rotate_left(i % 2);
        for problem in sample(2, problems) {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
    // Small and half as deep tiles, of every alignment; columns of D that are written in fours, in
    // pairs, and one by one.
    let of = |tile| GemmConfig { tile, ..small };
    for (config, m, n, k) in [
        (of([32, 32, 64]), 40, 44, 136),
        (of([32, 64, 32]), 40, 66, 40),
        (of([64, 32, 32]), 70, 34, 32),
        (GemmConfig { alignment: 4, stages: 3, ..of([32, 32, 32]) }, 37, 38, 18),
        (GemmConfig { alignment: 2, ..of([64, 64, 32]) }, 37, 41, 35),
        (GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..of([32, 32, 64]) }, 40, 48, 70),
    ] {
        assert_eq!(config.check(), Ok(()), "{config}");
        Case::new(GemmProblem::new(m, n, k)).check::<bf16, bf16>(&device, config);
    }
    let wide = GemmConfig { d: Scalar::F32, c: Scalar::F32, ..small };
    Case::new(GemmProblem::new(70, 67, 72)).check::<bf16, f32>(&device, wide);
    let halves = GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_89, Scalar::F16, [64, 64]) };
    Case::new(GemmProblem::new(70, 67, 72)).check::<f16, f16>(&device, halves);
    let tf32 = GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_80, Scalar::Tf32, [64, 64]) };
    Case::new(GemmProblem::new(70, 67, 72)).check::<f32, f32>(&device, tf32);
    // No instruction transposes elements of 32 bits: they are loaded one by one.
    for (tile, major_a, major_b) in [
        ([64, 64, 32], Major::Mn, Major::Mn),
        ([128, 128, 32], Major::Mn, Major::K),
        ([64, 128, 32], Major::K, Major::Mn),
    ] {
        let config = GemmConfig { tile, major_a, major_b, ..tf32 };
        Case::new(GemmProblem::new(136, 72, 72)).check::<f32, f32>(&device, config);
    }
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Gelu),
    };
    let all = GemmConfig { epilogue, ..small };
    let batch = GemmProblem { batch: 2, ..GemmProblem::new(70, 68, 72) };
    Case::new(batch).check::<bf16, bf16>(&device, all);
}

/// Sizes that leave nothing aligned: copies of 8, 4 and 2 bytes.
#[test]
fn any_alignment() {
    let device = device();
    for (alignment, m, n, k) in [(8, 68, 76, 76), (4, 66, 74, 70), (2, 65, 71, 67), (2, 1, 1, 1)] {
        for major in [Major::K, Major::Mn] {
            let config = GemmConfig { alignment, major_a: major, major_b: major, ..small_80() };
            Case::new(GemmProblem::new(m, n, k)).check::<bf16, bf16>(&device, config);
        }
    }
    let tf32 = GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_80, Scalar::Tf32, [64, 64]) };
    let odd = GemmConfig { alignment: 4, ..tf32 };
    for major in [Major::K, Major::Mn] {
        let config = GemmConfig { major_a: major, major_b: major, ..odd };
        Case::new(GemmProblem::new(33, 35, 37)).check::<f32, f32>(&device, config);
    }
}

/// Matrices in memory of other code, which may start at any element: D is written in parts that
/// fit, and a kernel that copies more at once than A allows is refused.
#[test]
#[expect(unsafe_code, reason = "memory of other code is what its owner says")]
fn gpu_matrices_of_other_code() {
    use cudarc::driver::{CudaContext, CudaSlice, DevicePtr};
    use tilewright::kernels::gemm::GemmError;
    use tilewright::runtime::Buffer;

    let Some(device) = device::wanted_gpu() else { return };
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    // All elements are the same, so any part of the memory is the matrix.
    let borrow = |x: f32, skip: u64, len: usize| -> Buffer<bf16> {
        let bits = vec![bf16::from_f32(x).to_bits(); len + skip as usize];
        let slice: CudaSlice<u16> = stream.clone_htod(&bits).unwrap();
        stream.synchronize().unwrap();
        let address = slice.device_ptr(&stream).0 + 2 * skip;
        // SAFETY: the memory is the slice's, which the buffer keeps.
        unsafe { device.borrow_raw(address, len, slice) }.unwrap()
    };
    let problem = GemmProblem::new(72, 80, 64);
    let [m, n, k] = [72, 80, 64];
    let run = |config: GemmConfig, a: &Buffer<bf16>, d: &mut Buffer<bf16>| {
        let b = device.upload(&vec![bf16::from_f32(2.0); n * k]).unwrap();
        let gemm = Gemm::<bf16, bf16>::new(config).unwrap().load(&device).unwrap();
        gemm.launch(&problem, GemmArgs::new(a, &b, d))
    };
    let odd = GemmConfig { alignment: 2, ..small_80() };
    for skip in [0, 1, 2, 4, 8] {
        let (a, mut d) = (borrow(0.5, skip, m * k), borrow(0.0, skip, m * n));
        run(odd, &a, &mut d).unwrap();
        assert!(d.to_vec().unwrap().iter().all(|d| d.to_f32() == 64.0), "{skip}");
        let whole = run(small_80(), &a, &mut d);
        if skip == 8 || skip == 0 {
            whole.unwrap();
        } else {
            assert_eq!(whole, Err(GemmError::Address { operand: 'A', alignment: 16 }), "{skip}");
            let copies = run(GemmConfig::sm90(Scalar::Bf16, [64, 64]), &a, &mut d).unwrap_err();
            assert!(copies.to_string().contains("16"), "{copies}");
        }
    }
}

#[test]
fn kernels_without_tensor_cores() {
    let device = device();
    let single = |tile, stages| {
        let config = GemmConfig::simt(Target::SM_80, Scalar::F32);
        GemmConfig { tile, stages, raster: Raster::Swizzle { width: 2 }, ..config }
    };
    let square = single([64, 64, 8], 2);
    let majors = [Major::K, Major::Mn].map(|a| [Major::K, Major::Mn].map(|b| (a, b)));
    let ragged = GemmProblem::new(67, 131, 35);
    // Threads with 16 x 8 sums, and lines of 32 elements along K.
    for (major_a, major_b) in sample(2, majors.into_iter().flatten()) {
        let config = GemmConfig { major_a, major_b, tile: [256, 128, 32], ..square };
        Case::new(GemmProblem::new(259, 131, 35)).check::<f32, f32>(&device, config);
    }
    for (major_a, major_b) in majors.into_iter().flatten() {
        let config = GemmConfig { major_a, major_b, ..square };
        for problem in [ragged, GemmProblem::new(1, 1, 1)] {
            Case::new(problem).check::<f32, f32>(&device, config);
        }
        let halves = GemmConfig { a: Scalar::Bf16, b: Scalar::Bf16, alignment: 2, ..config };
        let halves = GemmConfig { c: Scalar::Bf16, d: Scalar::Bf16, ..halves };
        Case::new(GemmProblem { batch: 2, ..GemmProblem::new(67, 31, 35) })
            .check::<bf16, bf16>(&device, halves);
    }
    for config in [single([128, 128, 8], 2), single([32, 64, 16], 4), single([128, 32, 8], 3)] {
        Case::new(ragged).check::<f32, f32>(&device, config);
    }
    // Pitches that are multiples of nothing, and one matrix of B for all.
    let strides = |leading, batch| MatrixStrides { leading: Some(leading), batch: Some(batch) };
    let apart = GemmProblem {
        batch: 3,
        a: strides(37, 37 * 67 + 5),
        b: strides(39, 0),
        d: strides(133, 133 * 67 + 3),
        ..ragged
    };
    Case::new(apart).check::<f32, f32>(&device, square);
    let halves =
        GemmConfig { tile: [256, 128, 16], ..GemmConfig::simt(Target::SM_80, Scalar::F16) };
    Case::new(ragged).check::<f16, f16>(&device, halves);
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Relu),
    };
    Case::new(GemmProblem::new(67, 34, 35))
        .check::<f32, f32>(&device, GemmConfig { epilogue, ..square });
}

/// Batches with pitches of their own, one of the matrices shared by all.
#[test]
fn batches() {
    let device = device();
    let close = GemmProblem { batch: 3, ..GemmProblem::new(72, 72, 72) };
    let strides = |leading, batch| MatrixStrides { leading: Some(leading), batch: Some(batch) };
    let apart = GemmProblem {
        a: strides(80, 80 * 72 + 16),
        b: strides(88, 0),
        c: strides(77, 77 * 72 + 5),
        d: strides(96, 96 * 72 + 8),
        ..close
    };
    for problem in [close, apart] {
        for config in [small(), GemmConfig { schedule: Schedule::Pingpong, ..small() }] {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
        let beta =
            GemmConfig { epilogue: Epilogue { beta: true, ..Epilogue::default() }, ..small() };
        Case::new(problem).check::<bf16, bf16>(&device, beta);
        let columns = GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..small() };
        Case::new(problem).check::<bf16, bf16>(&device, columns);
    }
}

#[test]
fn epilogues() {
    let device = device();
    let problem = GemmProblem::new(72, 136, 200);
    let all = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Relu),
    };
    let none = Epilogue::default();
    let epilogues = [
        all,
        Epilogue { bias: Some(Bias::Column), ..none },
        Epilogue { activation: Some(Activation::Gelu), alpha: true, ..none },
        Epilogue { activation: Some(Activation::Relu), ..none },
    ];
    let small = small();
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, tile: [128, 256, 64], ..small };
    for epilogue in epilogues {
        Case::new(problem).check::<bf16, bf16>(&device, GemmConfig { epilogue, ..small });
        // The registers of loaded elements leave no room for an overlapped epilogue.
        let loads = epilogue.beta || epilogue.bias.is_some();
        let late = GemmConfig { epilogue, ..overlapped };
        assert_eq!(late.check().is_err(), loads);
        if !loads {
            Case::new(problem).check::<bf16, bf16>(&device, late);
        }
        let wide = GemmConfig { epilogue, d: Scalar::F32, c: Scalar::F32, ..small };
        Case::new(problem).check::<bf16, f32>(&device, wide);
    }
}
