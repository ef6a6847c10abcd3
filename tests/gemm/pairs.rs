//! Epilogues of pairs of columns of A B, which become one column of D, in every schedule.

use crate::support::gemm_case::Real;
use crate::support::rng::Rng;
use crate::support::slow::sample;
use crate::support::{device, ptxas};

use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, GlobalMut, Number, Target, bf16, f16};
use tilewright::kernels::Built;
use tilewright::kernels::gemm::{
    Epilogue, FusedEpilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, LoadMethod,
    Machine, MatrixStrides, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;

tilewright::params! {
    /// The number of times that each element of D was seen, with the row pitch and the batch
    /// stride.
    struct Seen => SeenAt<'b> {
        count: GlobalMut<u32>,
        strides: [i32; 2],
    }
}

/// SwiGLU of the gates in the even columns and the values in the odd ones, plus the row and twice
/// the column.
fn swiglu<A: Real + Element<Sum = f32>, D: Number>(
    config: GemmConfig,
) -> Result<Built<Gemm<A, A, D, D, FusedEpilogue<Seen>>>, GemmError> {
    Gemm::<A, A, D>::with_pairs::<Seen>(config, |_, [gate, up], [row, column, batch], seen| {
        let [pitch, next] = seen.strides;
        seen.count.atom().add(batch * next + row * pitch + column, 1u32);
        (gate * 0.125).silu_fast().fma(up, (row + column * 2).cvt::<f32>())
    })
}

/// The same in `f64`.
fn expected([gate, up]: [f64; 2], row: usize, column: usize) -> f64 {
    let gate = gate / 8.0;
    gate / (1.0 + (-gate).exp()) * up + (row + 2 * column) as f64
}

fn sm90(tile: [u32; 2]) -> GemmConfig {
    GemmConfig { pairs: true, ..GemmConfig::sm90(Scalar::Bf16, tile) }
}

/// The schedules and the ways to store of the kernel for `sm_90a`, in `bf16`.
fn warp_specialised() -> Vec<GemmConfig> {
    vec![
        sm90([128, 128]),
        GemmConfig { store: StoreMethod::Rows, ..sm90([128, 48]) },
        GemmConfig { store: StoreMethod::Rows, ..sm90([16, 64]) },
        GemmConfig { store: StoreMethod::Direct, ..sm90([64, 64]) },
        GemmConfig { store: StoreMethod::Overlapped, stages: 2, ..sm90([128, 256]) },
        GemmConfig { schedule: Schedule::Pingpong, store: StoreMethod::Rows, ..sm90([64, 80]) },
        GemmConfig { cluster: [1, 2], ..sm90([128, 128]) },
        GemmConfig { splits: Splits::SplitK(2), ..sm90([128, 128]) },
        GemmConfig { splits: Splits::StreamK, ..sm90([128, 128]) },
        GemmConfig { load: LoadMethod::Repack, ..sm90([64, 128]) },
    ]
}

fn multistage() -> Vec<GemmConfig> {
    let base = GemmConfig::sm80(Target::SM_80, Scalar::Bf16, [64, 64]);
    let base = GemmConfig { stages: 2, pairs: true, ..base };
    vec![base, GemmConfig { alignment: 2, ..base }, GemmConfig { major_b: Major::Mn, ..base }]
}

/// Compares D with the definition. Its rows are `pad` elements longer than `n / 2`.
fn check<A: Real + Element<Sum = f32>, D: Real + Number>(
    device: &Device,
    config: GemmConfig,
    sizes: [u32; 3],
    pad: u64,
) {
    assert_eq!(config.check(), Ok(()), "{config}");
    let [m, n, k] = sizes;
    let batch = 2;
    let leading = Some(u64::from(n / 2) + pad);
    let d = MatrixStrides { leading, ..MatrixStrides::default() };
    let problem = GemmProblem { batch, d, ..GemmProblem::new(m, n, k) };
    let strides = config.check_problem(&problem).unwrap();
    let [pitch, next] = strides.d.map(|stride| stride as usize);
    let [m, n, k, batch] = [m, n, k, batch].map(|size| size as usize);
    let mut rng = Rng::new(23);
    let mut of =
        |len: usize| -> Vec<A> { (0..len).map(|_| A::of(rng.below(5) as f32 - 2.0)).collect() };
    let (a, b) = (of(batch * m * k), of(batch * n * k));
    let untouched = D::of(-77.0);
    let (a_on, b_on) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut d = device.upload(&vec![untouched; batch * next]).unwrap();
    let mut count = device.zeros::<u32>(batch * next).unwrap();
    let function = swiglu::<A, D>(config).unwrap().load(device).unwrap();
    let seen = Seen { count: &mut count, strides: [pitch as i32, next as i32] };
    function.launch(&problem, (GemmArgs::new(&a_on, &b_on, &mut d), seen)).unwrap();
    let (d, count) = (d.to_vec().unwrap(), count.to_vec().unwrap());
    for at in 0..batch * next {
        let (matrix, row, column) = (at / next, at % next / pitch, at % pitch);
        if column >= n / 2 {
            assert_eq!((d[at], count[at]), (untouched, 0), "{config}: beside D");
            continue;
        }
        let a = &a[(matrix * m + row) * k..][..k];
        let sum = |column: usize| -> f64 {
            let of_b = |i: usize| match config.major_b {
                Major::K => b[(matrix * n + column) * k + i].to(),
                Major::Mn => b[(matrix * k + i) * n + column].to(),
            };
            a.iter().enumerate().map(|(i, a)| a.to() * of_b(i)).sum()
        };
        let x = expected([sum(2 * column), sum(2 * column + 1)], row, column);
        let (found, slack) = (d[at].to(), x.abs().max(1.0) * (D::EPSILON + 2e-3));
        assert!((found - x).abs() <= slack, "{config}: D[{row}, {column}] is {found}, not {x}");
        assert_eq!(count[at], 1, "{config}: D[{row}, {column}]");
    }
}

#[test]
fn every_schedule_combines_pairs_of_columns() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    for config in warp_specialised() {
        // Ragged in M, in N by whole and by half units of 16 bytes of D, and several tiles.
        for sizes in sample(2, [[70, 144, 72], [133, 176, 264]]) {
            check::<bf16, bf16>(&device, config, sizes, 0);
        }
    }
    let direct = GemmConfig { store: StoreMethod::Direct, ..sm90([128, 96]) };
    check::<bf16, bf16>(&device, direct, [70, 106, 72], 3);
    for config in multistage() {
        for (sizes, pad) in sample(2, [([70, 136, 72], 0), ([33, 104, 136], 5)]) {
            check::<bf16, bf16>(&device, config, sizes, pad);
        }
    }
    let simt = GemmConfig { pairs: true, ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
    for (sizes, pad) in [([40, 138, 17], 0), ([9, 70, 33], 1)] {
        check::<f32, f32>(&device, simt, sizes, pad);
    }
}

/// D of other types: `f32` by single words, `f16`.
#[test]
fn elements_of_pairs_have_all_types() {
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    let of = |config: GemmConfig| GemmConfig { pairs: true, ..config };
    let wide = |tile, store| {
        let config = GemmConfig::sm90(Scalar::Bf16, tile);
        of(GemmConfig { d: Scalar::F32, c: Scalar::F32, stages: 2, store, ..config })
    };
    check::<bf16, f32>(&device, wide([128, 64], StoreMethod::Chunks), [133, 136, 72], 0);
    check::<bf16, f32>(&device, wide([64, 48], StoreMethod::Rows), [70, 104, 72], 0);
    check::<bf16, f32>(&device, wide([64, 48], StoreMethod::Direct), [70, 106, 72], 1);
    check::<f16, f16>(&device, of(GemmConfig::sm90(Scalar::F16, [64, 128])), [70, 144, 72], 0);
    let tf32 = GemmConfig::sm80(Target::SM_80, Scalar::Tf32, [64, 64]);
    check::<f32, f32>(&device, of(GemmConfig { stages: 2, ..tf32 }), [70, 72, 40], 0);
}

/// A tile of D has half the columns: the store needs half the shared memory, and the plan has a
/// kernel.
#[test]
fn tiles_of_d_have_half_the_columns() {
    let plain = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
    let pairs = GemmConfig { pairs: true, ..plain };
    assert_eq!(pairs.tile_of_d(), [128, 128]);
    let rows =
        |config: GemmConfig| GemmConfig { store: StoreMethod::Rows, ..config }.shared_bytes();
    // Rows of 128 columns of 64 rows less, for each of two warp groups.
    assert_eq!(rows(plain) - rows(pairs), 2 * 64 * 128 * 2);
    assert_eq!(pairs.to_string().parse(), Ok(pairs));
    assert!(pairs.to_string().contains("_pairs"));
    for [m, n, k] in [[4096, 28672, 4096], [16, 28672, 4096], [1000, 1000, 1000], [300, 40, 72]] {
        let problem = GemmProblem::new(m, n, k);
        let all = pairs.defaults(&problem, &Machine::H200);
        assert!(!all.is_empty());
        for config in all {
            assert!(config.pairs && !config.swap, "{config}");
            assert_eq!(config.check(), Ok(()), "{config}");
        }
    }
    let best = pairs.best(&GemmProblem::new(4096, 28672, 4096), &Machine::H200).unwrap();
    assert!(best.is_warp_specialised(), "{best}");
}

#[test]
fn kernels_of_pairs_assemble_without_spills() {
    let Some(ptxas) = ptxas::find() else { return };
    for config in warp_specialised().into_iter().chain(multistage()) {
        let gemm = swiglu::<bf16, bf16>(config).unwrap();
        let report = ptxas.report(gemm.ptx().text(), &config.target.to_string()).unwrap();
        assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
    }
    // What the planner chooses, with the operations of SwiGLU alone.
    for [m, n, k] in sample(2, [[4096, 28672, 4096], [64, 28672, 4096], [1024, 8192, 8192]]) {
        let problem = GemmProblem::new(m, n, k);
        for config in sample(4, sm90([128, 128]).defaults(&problem, &Machine::H200)) {
            let gemm = Gemm::<bf16>::with_pairs::<()>(config, |_, [gate, up], _, ()| {
                gate.silu_fast() * up
            });
            let text = gemm.unwrap().ptx().text().to_owned();
            let report = ptxas.report(&text, "sm_90a").unwrap();
            assert!(!report.contains("(C7") && report.contains("0 bytes spill stores"), "{report}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let plain = sm90([64, 64]);
    assert_eq!(Gemm::<bf16>::new(plain).unwrap_err(), GemmError::PairsWithoutEpilogue);
    let single = Gemm::<bf16>::with_epilogue::<()>(plain, |_, sum, _, ()| sum);
    assert_eq!(single.unwrap_err(), GemmError::PairsWithoutEpilogue);
    let with = |config| swiglu::<bf16, bf16>(config).unwrap_err();
    let alpha = Epilogue { alpha: true, ..Epilogue::default() };
    assert_eq!(with(GemmConfig { epilogue: alpha, ..plain }), GemmError::TwoEpilogues);
    let field = |error: GemmError| match error {
        GemmError::Field { field, .. } => field,
        error => panic!("{error}"),
    };
    let swap = GemmConfig { swap: true, store: StoreMethod::Rows, stages: 3, ..sm90([24, 64]) };
    assert_eq!(field(with(swap)), "pairs");
    assert_eq!(field(with(GemmConfig { store: StoreMethod::Direct, ..sm90([64, 24]) })), "pairs");
    // 64 columns of A B are 64 bytes of D.
    assert_eq!(field(with(GemmConfig { store: StoreMethod::Chunks, ..plain })), "store");
    let problem = GemmProblem::new(8, 9, 8);
    assert_eq!(plain.check_problem(&problem), Err(GemmError::OddColumns { n: 9 }));
    // Rows of D of 8 elements, where A B has 16 columns.
    let strides = plain.check_problem(&GemmProblem::new(8, 16, 8)).unwrap();
    assert_eq!((strides.c, strides.d), ([16, 128], [8, 64]));
}
