//! Products of integers, and results of 8 bits: exact, whatever the schedule and the way to D.

use crate::support::slow::sample;
use crate::support::{device, ptxas};

use tilewright::arch::Major;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Number, Target, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::gemm::{
    AccumulationMode, Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmError,
    GemmProblem, LoadMethod, Machine, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;

/// An element of the nearest number that the type has.
trait Near: Element {
    fn near(x: f32) -> Self;
}

macro_rules! near {
    ($($ty:ty: $near:expr;)*) => {$(
        impl Near for $ty {
            fn near(x: f32) -> $ty {
                ($near)(x)
            }
        }
    )*};
}
near! {
    i8: |x: f32| x.round_ties_even() as i8;
    u8: |x: f32| x.round_ties_even() as u8;
    i32: |x: f32| x.round_ties_even() as i32;
    f32: |x| x;
    f64: |x: f32| x.into();
    f16: f16::from_f32;
    bf16: bf16::from_f32;
    f8e4m3: |x: f32| f8e4m3::from_f32(x.clamp(-448.0, 448.0));
    f8e5m2: |x: f32| f8e5m2::from_f32(x.clamp(-57344.0, 57344.0));
}

/// Compares D with the sums that the host computes. Elements of A and B are whole numbers up to 3,
/// those of `u8` not below 0.
fn check<A: Near, B: Near, C: Near + Number, D: Near + Converted>(
    device: &Device,
    config: GemmConfig,
    [m, n, k]: [u32; 3],
) {
    assert_eq!(config.check(), Ok(()), "{config}");
    let small = |scalar: Scalar, i: usize, step: usize| {
        let x = (i * step % 7) as f32 - 3.0;
        if scalar == Scalar::U8 { x.abs() } else { x }
    };
    let (batch, [rows, columns, depth]) = (2, [m, n, k].map(|size| size as usize));
    let a: Vec<A> = (0..batch * rows * depth).map(|i| A::near(small(A::SCALAR, i, 5))).collect();
    let b: Vec<B> = (0..batch * columns * depth).map(|i| B::near(small(B::SCALAR, i, 3))).collect();
    let c: Vec<C> = (0..batch * rows * columns).map(|i| C::near((i % 9) as f32)).collect();
    let bias: Vec<C> = (0..rows.max(columns)).map(|i| C::near((i % 11) as f32)).collect();
    let gemm = Gemm::<A, B, C, D>::new(config).unwrap().load(device).unwrap();
    let on = |x: &[C]| device.upload(x).unwrap();
    let (c_on, bias_on) = (on(&c), on(&bias));
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut d = device.zeros::<D>(batch * rows * columns).unwrap();
    let problem = GemmProblem { batch: batch as u32, ..GemmProblem::new(m, n, k) };
    let (alpha, beta, ops) = (0.25f32, -0.5f32, config.epilogue);
    // The second launch finds the workspace as the first one left it.
    for _ in 0..if config.splits.is_split() { 2 } else { 1 } {
        let mut args = GemmArgs::new(&a, &b, &mut d);
        args = if ops.alpha { args.alpha(alpha.into()) } else { args };
        args = if ops.beta { args.beta(beta.into(), &c_on) } else { args };
        args = if ops.bias.is_some() { args.bias(&bias_on) } else { args };
        gemm.launch(&problem, args).unwrap();
    }
    let d = d.to_vec().unwrap();
    for (at, found) in d.iter().enumerate() {
        let (matrix, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let of = |scalar, at: usize, step| small(scalar, at, step);
        let product = |step: usize| {
            let at = |major, lines: usize, line: usize| match major {
                Major::K => (matrix * lines + line) * depth + step,
                Major::Mn => (matrix * depth + step) * lines + line,
            };
            let a = of(A::SCALAR, at(config.major_a, rows, row), 5);
            a * of(B::SCALAR, at(config.major_b, columns, column), 3)
        };
        let mut value: f32 = (0..depth).map(product).sum();
        value *= if ops.alpha { alpha } else { 1.0 };
        value += if ops.beta { beta * (at % 9) as f32 } else { 0.0 };
        value += match ops.bias {
            None => 0.0,
            Some(Bias::Row) => (row % 11) as f32,
            Some(Bias::Column) => (column % 11) as f32,
        };
        value = if ops.activation.is_some() { value.max(0.0) } else { value };
        assert_eq!(*found, D::near(value), "{config}: D[{row}, {column}] of {matrix}");
    }
}

fn gpu() -> Device {
    device::gpu().unwrap_or_else(|| Device::sim().unwrap())
}

/// The schedules and ways to D of products of elements of 8 bits.
fn configs(input: Scalar) -> Vec<GemmConfig> {
    let sm90 = |tile| GemmConfig { stages: 2, ..GemmConfig::sm90(input, tile) };
    let sm80 = GemmConfig::sm80(Target::SM_89, input, [64, 64]);
    vec![
        sm90([128, 64]),
        GemmConfig { store: StoreMethod::Rows, ..sm90([128, 48]) },
        GemmConfig { store: StoreMethod::Direct, ..sm90([64, 128]) },
        GemmConfig { stages: 4, ..sm90([32, 64]) },
        GemmConfig { schedule: Schedule::Pingpong, store: StoreMethod::Rows, ..sm90([64, 80]) },
        GemmConfig { cluster: [2, 2], ..sm90([128, 128]) },
        GemmConfig { splits: Splits::SplitK(2), store: StoreMethod::Rows, ..sm90([128, 64]) },
        GemmConfig { splits: Splits::StreamK, store: StoreMethod::Rows, ..sm90([64, 64]) },
        GemmConfig { load: LoadMethod::Repack, store: StoreMethod::Direct, ..sm90([64, 64]) },
        GemmConfig { stages: 2, ..sm80 },
        GemmConfig { splits: Splits::SplitK(2), ..sm80 },
        GemmConfig { alignment: 1, tile: [64, 32, 128], ..sm80 },
    ]
    .into_iter()
    .map(|config| {
        let stores = config.is_warp_specialised();
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        if stores { config } else { GemmConfig { store: StoreMethod::Direct, ..config } }
    })
    .collect()
}

/// Sizes of whole and of ragged tiles.
fn sizes(config: &GemmConfig) -> [u32; 3] {
    let is_odd = config.load == LoadMethod::Repack || config.alignment == 1;
    if is_odd { [69, 75, 173] } else { [69, 80, 272] }
}

#[test]
fn sums_of_integers_are_exact() {
    let device = gpu();
    for config in configs(Scalar::I8) {
        check::<i8, i8, i32, i32>(&device, config, sizes(&config));
    }
    for config in sample(3, configs(Scalar::U8)) {
        let mixed = GemmConfig { b: Scalar::I8, ..config };
        check::<u8, i8, i32, i32>(&device, mixed, sizes(&config));
        let mixed = GemmConfig { a: Scalar::I8, ..config };
        check::<i8, u8, i32, i32>(&device, mixed, sizes(&config));
    }
}

/// Operands that are contiguous along M or N are transposed first, whatever their pitches are.
#[test]
fn operands_across_k_are_transposed() {
    let device = gpu();
    let majors = [(Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)];
    for (major_a, major_b) in majors {
        let of = |input| {
            let config = GemmConfig { stages: 2, ..GemmConfig::sm90(input, [64, 64]) };
            GemmConfig {
                major_a,
                major_b,
                load: LoadMethod::Repack,
                store: StoreMethod::Direct,
                ..config
            }
        };
        for sizes in sample(2, [[80, 96, 144], [69, 75, 173]]) {
            check::<i8, i8, i32, i32>(&device, of(Scalar::I8), sizes);
            check::<f8e4m3, f8e4m3, bf16, bf16>(&device, of(Scalar::F8E4M3), sizes);
            check::<f32, f32, f32, f32>(&device, of(Scalar::Tf32), sizes);
            // And the plan for a problem takes them.
            let problem = GemmProblem::new(sizes[0], sizes[1], sizes[2]);
            let wanted = GemmConfig { load: LoadMethod::Tensor, ..of(Scalar::F8E4M3) };
            let found = wanted.best(&problem, &Machine::H200).unwrap();
            assert_eq!((found.load, found.major_b), (LoadMethod::Repack, major_b), "{found}");
            check::<f8e4m3, f8e4m3, bf16, bf16>(&device, found, sizes);
        }
    }
}

/// Sums beyond 2^24, which no `f32` has: with splits, too.
#[test]
fn large_sums_of_integers_are_not_rounded() {
    let device = gpu();
    let (m, n, k) = (64, 64, 2048u32);
    let base = GemmConfig { stages: 2, ..GemmConfig::sm90(Scalar::I8, [64, 64]) };
    let sm80 = GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_80, Scalar::I8, [64, 64]) };
    let split = GemmConfig { splits: Splits::SplitK(2), ..base };
    for config in [base, split, sm80] {
        let a = device.upload(&vec![127i8; m * k as usize]).unwrap();
        let mut b = vec![127i8; n * k as usize];
        b[0] = 126;
        let b = device.upload(&b).unwrap();
        let mut d = device.zeros::<i32>(m * n).unwrap();
        let gemm = Gemm::<i8, i8, i32>::new(config).unwrap().load(&device).unwrap();
        let problem = GemmProblem::new(m as u32, n as u32, k);
        gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
        let d = d.to_vec().unwrap();
        assert_eq!((d[0], d[1]), (127 * 127 * 2048 - 127, 127 * 127 * 2048), "{config}");
    }
}

/// Every type of D from sums of integers and of floats, through the operations of the epilogue.
#[test]
fn results_of_all_types() {
    fn of<A: Near, C: Near + Number, D: Near + Converted>(device: &Device, every: usize) {
        let epilogues = [
            Epilogue::default(),
            Epilogue { alpha: true, beta: true, bias: Some(Bias::Row), activation: None },
            Epilogue {
                alpha: true,
                beta: false,
                bias: Some(Bias::Column),
                activation: Some(Activation::Relu),
            },
        ];
        for (config, epilogue) in
            sample(every, configs(A::SCALAR)).zip(epilogues.into_iter().cycle())
        {
            let config = GemmConfig { c: C::SCALAR, d: D::SCALAR, epilogue, ..config };
            // Rows of D in shared memory have the length that the type gives them.
            let config = match config.check() {
                Err(GemmError::Field { field: "store", .. }) => {
                    GemmConfig { store: StoreMethod::Rows, ..config }
                }
                _ => config,
            };
            check::<A, A, C, D>(device, config, sizes(&config));
        }
    }
    let device = gpu();
    of::<i8, i32, i8>(&device, 4);
    of::<i8, f32, i8>(&device, 5);
    of::<i8, f32, u8>(&device, 6);
    of::<i8, f32, f32>(&device, 6);
    of::<i8, bf16, bf16>(&device, 7);
    of::<i8, f16, f16>(&device, 8);
    of::<i8, bf16, f8e4m3>(&device, 6);
    of::<f8e4m3, bf16, f8e4m3>(&device, 2);
    of::<f8e5m2, f16, f8e5m2>(&device, 5);
    of::<f8e4m3, f32, i32>(&device, 6);
    of::<f8e4m3, f32, f32>(&device, 6);
}

/// Sums of 8-bit floats that leave the tensor cores after each step along K.
#[test]
fn promoted_sums() {
    let device = gpu();
    for config in sample(5, configs(Scalar::F8E4M3)) {
        let config = GemmConfig {
            accumulation: AccumulationMode::Promoted,
            d: Scalar::F32,
            c: Scalar::F32,
            ..config
        };
        match config.check() {
            Ok(()) => check::<f8e4m3, f8e4m3, f32, f32>(&device, config, sizes(&config)),
            Err(GemmError::Field { field: "accumulation", .. }) => {
                assert!(!config.is_warp_specialised())
            }
            Err(GemmError::Field { field: "store", .. }) => {}
            Err(error) => panic!("{config}: {error}"),
        }
    }
    let config = GemmConfig {
        accumulation: AccumulationMode::Promoted,
        ..GemmConfig::sm90(Scalar::F8E4M3, [128, 128])
    };
    let text = Gemm::<f8e4m3, f8e4m3, bf16>::new(config).unwrap().ptx().text().to_owned();
    // 64 accumulators of a thread.
    assert_eq!(text.matches("add.f32").count() + text.matches("add.rn.f32").count(), 64);
    assert!(GemmConfig { tile: [256, 192, 128], ..config }.check().is_err());
}

/// A factor on the device for results of 8 bits, by a closure; pairs of columns, too.
#[test]
fn closures_scale_results_of_8_bits() {
    let device = gpu();
    let scale = device.upload(&[0.125f32]).unwrap();
    let (m, n, k) = (69usize, 96usize, 144usize);
    let a = device.upload(&vec![f8e4m3::from_f32(0.5); m * k]).unwrap();
    // The rows of B are ones and twos in turn.
    let b: Vec<f8e4m3> = (0..n * k).map(|i| f8e4m3::from_f32((1 + i / k % 2) as f32)).collect();
    let b = device.upload(&b).unwrap();
    let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    let d8 = |config: GemmConfig| GemmConfig { d: Scalar::F8E4M3, ..config };
    type Scale = tilewright::ir::Global<f32>;
    let sm90 = GemmConfig { stages: 2, ..GemmConfig::sm90(Scalar::F8E4M3, [128, 64]) };
    let sm80 = GemmConfig::sm80(Target::SM_89, Scalar::F8E4M3, [64, 64]);
    let sm90 = GemmConfig { store: StoreMethod::Rows, ..sm90 };
    for config in [sm90, sm80].map(d8) {
        let gemm = Gemm::<f8e4m3, f8e4m3, bf16, f8e4m3>::with_epilogue::<Scale>(
            config,
            |_, sum, _, scale| sum * scale.load(0),
        );
        let mut d = device.zeros::<f8e4m3>(m * n).unwrap();
        let args = GemmArgs::new(&a, &b, &mut d);
        gemm.unwrap().load(&device).unwrap().launch(&problem, (args, &scale)).unwrap();
        let expected = |column: usize| 72.0 * (1 + column % 2) as f32 * 0.125;
        let found: Vec<f32> = d.to_vec().unwrap().iter().map(|x| x.to_f32()).collect();
        assert!((0..m * n).all(|at| found[at] == expected(at % n)), "{config}");

        let pairs = Gemm::<f8e4m3, f8e4m3, bf16, f8e4m3>::with_pairs::<Scale>(
            config,
            |_, [x, y], _, scale| (x + y) * scale.load(0),
        );
        let mut d = device.zeros::<f8e4m3>(m * n / 2).unwrap();
        let args = GemmArgs::new(&a, &b, &mut d);
        pairs.unwrap().load(&device).unwrap().launch(&problem, (args, &scale)).unwrap();
        // (72 + 144) / 8 = 27 is between 26 and 28, and has to become the even one.
        let expected = f8e4m3::from_f32(27.0);
        assert!(d.to_vec().unwrap().iter().all(|x| *x == expected), "{config}");
    }
}

/// Products of `f64` have all their bits, with every way to share K and every contiguous mode.
#[test]
fn products_of_doubles() {
    let device = gpu();
    let of = |target, tile| GemmConfig { stages: 3, ..GemmConfig::sm80(target, Scalar::F64, tile) };
    let base = of(Target::SM_90, [64, 64]);
    let all = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Relu),
    };
    let configs = [
        base,
        of(Target::SM_80, [64, 64]),
        of(Target::SM_80, [32, 64]),
        of(Target::SM_90, [64, 128]),
        of(Target::SM_90, [128, 64]),
        GemmConfig { alignment: 8, ..base },
        GemmConfig { splits: Splits::SplitK(2), ..base },
        GemmConfig { splits: Splits::StreamK, ..base },
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..base },
        GemmConfig { major_b: Major::Mn, alignment: 8, ..of(Target::SM_80, [64, 64]) },
        GemmConfig { epilogue: all, ..base },
    ];
    for config in configs {
        let sizes = if config.alignment == 8 { [69, 75, 53] } else { [70, 76, 52] };
        check::<f64, f64, f64, f64>(&device, config, sizes);
        // All sums of these numbers are exact in `f64`, and none in `f32`.
        let (m, n, k) = (24usize, 40usize, 96usize);
        let x = 1.0 + 2f64.powi(-40);
        let (a, b) = (device.upload(&vec![x; m * k]).unwrap(), device.upload(&vec![1.0f64; n * k]));
        let (b, mut d) = (b.unwrap(), device.zeros::<f64>(m * n).unwrap());
        let config = GemmConfig { epilogue: Epilogue::default(), ..config };
        let gemm = Gemm::<f64>::with_epilogue::<f64>(config, |_, sum, _, plus| sum + plus);
        let problem = GemmProblem::new(m as u32, n as u32, k as u32);
        let args = GemmArgs::new(&a, &b, &mut d);
        gemm.unwrap().load(&device).unwrap().launch(&problem, (args, 0.5)).unwrap();
        let expected = k as f64 * x + 0.5;
        assert!(d.to_vec().unwrap().iter().all(|sum| *sum == expected), "{config}");
    }
    let problem = GemmProblem::new(1000, 1000, 1000);
    let found = of(Target::SM_90A, [64, 64]).best(&problem, &Machine::H200).unwrap();
    assert_eq!((found.a, found.schedule), (Scalar::F64, Schedule::Multistage));
    let few = of(Target::SM_90A, [64, 64]).best(&GemmProblem::new(7, 3, 5), &Machine::H200);
    check::<f64, f64, f64, f64>(&device, few.unwrap(), [7, 3, 5]);
}

/// Kernels of integers and of results of 8 bits keep their accumulators in registers.
#[test]
fn the_assembler_spills_nothing() {
    let Some(ptxas) = ptxas::find() else { return };
    let of = |config: GemmConfig, ptx: tilewright::codegen::Ptx| {
        let report = ptxas.report(ptx.text(), &config.target.to_string()).unwrap();
        assert!(!report.contains("(C7"), "{config}: {report}");
        assert!(report.contains("0 bytes spill stores"), "{config}: {report}");
    };
    for tile in [[256, 192], [128, 256], [128, 128], [256, 128]] {
        let config = GemmConfig::sm90(Scalar::I8, tile);
        of(config, Gemm::<i8, i8, i32>::new(config).unwrap().ptx());
        let small = GemmConfig { c: Scalar::F32, d: Scalar::I8, ..config };
        let small = GemmConfig { epilogue: Epilogue { alpha: true, ..small.epilogue }, ..small };
        of(small, Gemm::<i8, i8, f32, i8>::new(small).unwrap().ptx());
        let floats = GemmConfig { d: Scalar::F8E4M3, ..GemmConfig::sm90(Scalar::F8E4M3, tile) };
        of(floats, Gemm::<f8e4m3, f8e4m3, bf16, f8e4m3>::new(floats).unwrap().ptx());
        let promoted =
            GemmConfig { accumulation: AccumulationMode::Promoted, d: Scalar::Bf16, ..floats };
        if promoted.check().is_ok() {
            of(promoted, Gemm::<f8e4m3, f8e4m3, bf16>::new(promoted).unwrap().ptx());
        }
    }
    for (target, tile) in
        [(Target::SM_80, [64, 64]), (Target::SM_90, [64, 128]), (Target::SM_90, [128, 64])]
    {
        let config = GemmConfig::sm80(target, Scalar::F64, tile);
        assert_eq!(config.check(), Ok(()), "{config}");
        of(config, Gemm::<f64>::new(config).unwrap().ptx());
    }
    for tile in [[128, 256], [128, 128], [64, 64]] {
        let config = GemmConfig::sm80(Target::SM_80, Scalar::I8, tile);
        of(config, Gemm::<i8, i8, i32>::new(config).unwrap().ptx());
    }
}

#[test]
fn types_have_rules() {
    let eight = GemmConfig::sm90(Scalar::I8, [128, 128]);
    let sm80 = GemmConfig::sm80(Target::SM_80, Scalar::F8E4M3, [64, 64]);
    let table = [
        (
            GemmConfig { acc: Scalar::F32, ..eight },
            "cannot multiply i8 by i8 with accumulators in f32",
        ),
        (GemmConfig { b: Scalar::F8E4M3, ..eight }, "cannot multiply i8 by f8e4m3"),
        (GemmConfig { tile: [128, 40, 128], ..eight }, "8, 24 or a multiple of 16"),
        (
            GemmConfig { c: Scalar::I8, ..eight },
            "C must be f64 if A and B are, else f32, f16, bf16 or i32, not i8",
        ),
        (GemmConfig { d: Scalar::I64, ..eight }, "f8e4m3, f8e5m2, i8, u8 or i32, not i64"),
        (GemmConfig { d: Scalar::F64, ..eight }, "not f64"),
        (GemmConfig { major_a: Major::Mn, ..eight }, "must be contiguous along K"),
        (sm80, "elements of f8e4m3 need sm_89, and the target is sm_80"),
    ];
    for (config, expected) in table {
        let found = config.check().unwrap_err().to_string();
        assert!(found.contains(expected), "{config}: {found}");
    }
    assert_eq!(eight.to_string().parse(), Ok(eight));
}
