//! Tiles of every width: exchanged operands, three consumer groups, clusters, unaligned pitches and
//! operands.

use crate::support::slow::sample;
use crate::support::{device, gemm_case, ptxas};

use gemm_case::{Case, ptx};
use tilewright::arch::{L2Promotion, Major};
use tilewright::ir::types::Scalar;
use tilewright::ir::{bf16, f8e4m3, f16};
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, LoadMethod, Machine,
    MatrixStrides, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::Device;

fn device() -> Device {
    device::gpu().unwrap_or_else(|| Device::sim().unwrap())
}

/// A configuration with exchanged operands and three stages.
pub(crate) fn swapped(input: Scalar, [m, n]: [u32; 2]) -> GemmConfig {
    let config = GemmConfig { swap: true, ..GemmConfig::sm90(input, [m, n]) };
    let config = GemmConfig { store: StoreMethod::Rows, stages: 3, ..config };
    GemmConfig { registers: config.usual_registers(), ..config }
}

/// One to three groups of 64 columns, and two of 128, by rows that are multiples of 8 in odd and
/// even number.
#[test]
fn operands_are_exchanged() {
    let device = device();
    for tile in [[8, 64], [16, 64], [24, 128], [80, 192], [104, 256], [40, 64]] {
        let config = swapped(Scalar::Bf16, tile);
        assert_eq!(config.check(), Ok(()), "{config}");
        let [m, n] = tile;
        // Two tiles along each mode, the second one ragged in every way.
        for [m, n, k] in [[m + 5, n + 24, 136], [m, n, 64], [3, 8, 328]] {
            Case::new(GemmProblem::new(m, n, k)).check::<bf16, bf16>(&device, config);
        }
    }
}

#[test]
fn exchanged_operands_take_every_option() {
    let device = device();
    let base = swapped(Scalar::F16, [48, 64]);
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Relu),
    };
    let columns = Epilogue { bias: Some(Bias::Column), ..Epilogue::default() };
    let configs = [
        GemmConfig { epilogue, ..base },
        GemmConfig { epilogue: columns, tile: [56, 128, 64], ..base },
        GemmConfig { major_b: Major::Mn, ..base },
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, tile: [64, 64, 64], ..base },
        GemmConfig { cluster: [4, 1], ..base },
        GemmConfig { tile: [48, 64, 128], stages: 2, programmatic: false, ..base },
        // Parts of 24 and of 8 rows.
        GemmConfig { store: StoreMethod::Chunks, ..base },
        GemmConfig { tile: [56, 128, 64], store: StoreMethod::Chunks, ..base },
    ];
    for config in configs {
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        let batch = GemmProblem { batch: 2, ..GemmProblem::new(104, 136, 200) };
        let shared = MatrixStrides { batch: Some(0), ..Default::default() };
        for problem in sample(2, [GemmProblem { b: shared, ..batch }, batch]) {
            Case::new(problem).check::<f16, f16>(&device, config);
        }
    }
    let fp8 = swapped(Scalar::F8E4M3, [24, 64]);
    Case::new(GemmProblem::new(40, 72, 144)).check::<f8e4m3, bf16>(&device, fp8);
}

#[test]
fn exchanged_operands_have_rules() {
    let base = swapped(Scalar::Bf16, [16, 64]);
    let said = |config: GemmConfig| config.check().unwrap_err().to_string();
    let table = [
        (GemmConfig { store: StoreMethod::Overlapped, ..base }, "`overlapped` cannot transpose"),
        (
            GemmConfig { d: Scalar::F32, ..base },
            "only a D with 16-bit elements can be stored transposed",
        ),
        (
            GemmConfig { schedule: Schedule::Pingpong, tile: [64, 64, 64], ..base },
            "only the cooperative schedule",
        ),
        (GemmConfig { tile: [20, 64, 64], ..base }, "20 along M"),
        (GemmConfig { tile: [16, 72, 64], ..base }, "72 along N"),
        (GemmConfig { tile: [16, 64, 64], major_a: Major::Mn, ..base }, "16 along M"),
    ];
    for (config, expected) in table {
        let found = said(config);
        assert!(found.contains(expected), "{config}: {found}");
    }
    assert_eq!(base.to_string(), "sm90a_bf16_tn_16x64x64_s3_coop_swap_strip8_rows_pdl");
}

/// Three consumer groups of 64 rows.
#[test]
fn three_groups_share_a_tile() {
    let device = device();
    for (tile, store) in [([192, 192], StoreMethod::Chunks), ([192, 72], StoreMethod::Rows)] {
        let config = GemmConfig { store, ..GemmConfig::sm90(Scalar::Bf16, tile) };
        let config = GemmConfig { registers: config.usual_registers(), stages: 2, ..config };
        assert_eq!((config.threads(), config.registers), (512, Some([32, 160])));
        for cluster in [[1, 1], [2, 1], [1, 4]] {
            let config = GemmConfig { cluster, ..config };
            let problem = GemmProblem::new(200, tile[1] + 40, 200);
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
}

/// Tensor maps promote to 256 bytes only where each row of a box starts at a line of the L2 cache.
#[test]
fn unaligned_pitches_are_not_promoted() {
    let gemm = Gemm::<bf16>::new(GemmConfig::sm90(Scalar::Bf16, [128, 128])).unwrap();
    let promotion = |k: u32| {
        let [a, b, _] = gemm.tensor_maps(&GemmProblem::new(256, 256, k)).unwrap().unwrap();
        [a, b].map(|map| map.l2_promotion())
    };
    assert_eq!(promotion(3008), [L2Promotion::B256; 2]);
    assert_eq!(promotion(3000), [L2Promotion::None; 2]);
}

/// The same configuration, whose threads store D.
pub(crate) fn direct(config: GemmConfig) -> GemmConfig {
    GemmConfig { store: StoreMethod::Direct, ..config }.with_max_stages(2)
}

/// Threads store rows of D that start anywhere, in vectors and by single elements, and nothing
/// beside them: every schedule, both orders of the operands, one to three groups, low tiles, odd
/// and even numbers of 16-byte units in a row, splits.
#[test]
fn rows_of_d_start_anywhere() {
    let device = device();
    let sm90 = |tile| direct(GemmConfig::sm90(Scalar::Bf16, tile));
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Relu),
    };
    let configs = [
        sm90([64, 64]),
        GemmConfig { epilogue, ..sm90([128, 40]) },
        sm90([256, 48]),
        sm90([192, 128]),
        sm90([16, 72]),
        GemmConfig { schedule: Schedule::Pingpong, ..sm90([64, 80]) },
        direct(swapped(Scalar::Bf16, [24, 64])),
        direct(swapped(Scalar::Bf16, [40, 192])),
        GemmConfig { splits: Splits::SplitK(2), cluster: [2, 1], ..sm90([64, 56]) },
    ];
    for config in configs {
        let config = GemmConfig { registers: config.usual_registers(), ..config };
        assert_eq!(config.check(), Ok(()), "{config}");
        let [m, n, _] = config.tile;
        for (m, n) in sample(3, [(m + 5, n + 33), (m, n - 1), (3, 1), (9, n + 5)]) {
            Case::new(GemmProblem::new(m, n, 136)).check::<bf16, bf16>(&device, config);
        }
        let far = MatrixStrides { leading: Some(u64::from(n) + 3), batch: None };
        let batch = GemmProblem { batch: 2, d: far, ..GemmProblem::new(m - 1, n, 128) };
        Case::new(batch).check::<bf16, bf16>(&device, config);
    }
    let base = GemmConfig::sm90(Scalar::Bf16, [128, 24]);
    let wide = direct(GemmConfig { d: Scalar::F32, c: Scalar::F32, ..base });
    for n in [23, 24, 50] {
        Case::new(GemmProblem::new(130, n, 64)).check::<bf16, f32>(&device, wide);
    }
}

/// An odd N alone needs no copy of A and B: D is stored by the threads.
#[test]
fn odd_columns_are_stored_without_a_copy() {
    let base = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let best = base.best(&GemmProblem::new(4096, 4093, 4096), &Machine::H200).unwrap();
    assert!(best.is_warp_specialised() && best.load == LoadMethod::Tensor, "{best}");
    assert_eq!(best.store, StoreMethod::Direct);
    let best = base.best(&GemmProblem::new(4096, 4096, 4093), &Machine::H200).unwrap();
    assert!(best.load == LoadMethod::Repack && best.store != StoreMethod::Direct, "{best}");
    let gemm = Gemm::<bf16>::new(direct(base)).unwrap();
    assert_eq!(gemm.tensor_maps(&GemmProblem::new(64, 63, 64)), Ok(None));
}

/// Rows of odd lengths are copied to a workspace, or fetched by threads: both operands and each,
/// batches, epilogues.
#[test]
fn unaligned_operands_are_copied() {
    operands_of_any_pitch(LoadMethod::Repack);
}

#[test]
fn unaligned_operands_are_fetched_by_threads() {
    operands_of_any_pitch(LoadMethod::Threads);
    let base = direct(GemmConfig::sm90(Scalar::Bf16, [64, 64]));
    let threads = GemmConfig { load: LoadMethod::Threads, ..base };
    // Thread blocks that share tiles, tiles of two swizzle rows, bytes; as many stages as groups
    // that fetch, two and three.
    let split = GemmConfig { splits: Splits::SplitK(3), tile: [64, 24, 128], ..threads };
    let swap = GemmConfig { tile: [16, 64, 64], swap: true, splits: Splits::SplitK(2), ..threads };
    for config in [
        split,
        GemmConfig { stages: 2, ..split },
        GemmConfig { stages: 3, registers: Some([136, 104]), ..swap },
    ] {
        assert_eq!(config.check(), Ok(()), "{config}");
        Case::new(GemmProblem::new(70, 45, 7 * 128 + 11)).check::<bf16, bf16>(&device(), config);
    }
    let said = |config: GemmConfig| config.check().unwrap_err().to_string();
    assert_eq!(
        said(GemmConfig { tile: [128, 64, 64], ..threads }),
        "`load` cannot be `Threads`: loads by threads support only one consumer warp group"
    );
    assert_eq!(
        said(GemmConfig { store: StoreMethod::Rows, ..threads }),
        "`load` cannot be `Threads`: loads by threads need the store method `direct`"
    );
    assert_eq!(
        threads.check_problem(&GemmProblem::new(4, 9, 4)).unwrap_err().to_string(),
        "A has 32 bytes, but loads by threads (`threads`) need at least 48"
    );
    let far = MatrixStrides { leading: Some(5_000_001), batch: None };
    let far = GemmProblem { a: far, ..GemmProblem::new(4, 9, 64) };
    assert_eq!(
        threads.check_problem(&far).unwrap_err().to_string(),
        "the pitch of A is 5000001 elements, but loads by threads (`threads`) allow at most 2097152"
    );
    let name = threads.to_string();
    assert!(name.contains("_threads"), "{name}");
    assert_eq!(name.parse(), Ok(threads));
}

fn operands_of_any_pitch(load: LoadMethod) {
    let device = device();
    let plain = GemmConfig { load, ..direct(GemmConfig::sm90(Scalar::Bf16, [64, 64])) };
    let exchanged = GemmConfig { load, ..direct(swapped(Scalar::Bf16, [24, 64])) };
    for config in [plain, exchanged] {
        assert_eq!(config.check(), Ok(()), "{config}");
        for [m, n, k] in [[37, 45, 77], [130, 64, 129], [20, 33, 64], [65, 72, 80], [5, 6, 7]] {
            Case::new(GemmProblem::new(m, n, k)).check::<bf16, bf16>(&device, config);
        }
    }
    let epilogue = Epilogue { beta: true, bias: Some(Bias::Column), ..Epilogue::default() };
    let others = [
        GemmConfig { epilogue, ..plain },
        GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..plain },
    ];
    let batch = GemmProblem { batch: 3, ..GemmProblem::new(33, 35, 66) };
    let pitch = |leading| MatrixStrides { leading: Some(leading), batch: None };
    let far = GemmProblem { a: pitch(101), d: pitch(99), ..batch };
    let shared = MatrixStrides { batch: Some(0), ..Default::default() };
    for config in others {
        for problem in [batch, far, GemmProblem { b: shared, ..batch }] {
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
    // Longer than the part of a line that a warp copies.
    let long = GemmProblem::new(3, 9, 1037);
    Case::new(long).check::<bf16, bf16>(&device, plain);
    let tf32 = GemmConfig { load, ..direct(GemmConfig::sm90(Scalar::Tf32, [64, 64])) };
    Case::new(GemmProblem::new(37, 45, 77)).check::<f32, f32>(&device, tf32);
    let simt = GemmConfig::simt(tf32.target, Scalar::F32);
    let error = GemmConfig { load, ..simt }.check().unwrap_err().to_string();
    let expected = format!(
        "`load` cannot be `{load:?}`: only warp-specialised kernels, which load with TMA, need it"
    );
    assert_eq!(error, expected);
}

/// Tensor copies store the rows of D that they take, of copied operands too.
#[test]
fn copied_operands_and_aligned_rows() {
    let device = device();
    let stored =
        GemmConfig { load: LoadMethod::Repack, ..GemmConfig::sm90(Scalar::Bf16, [64, 64]) };
    Case::new(GemmProblem::new(65, 72, 77)).check::<bf16, bf16>(&device, stored);
    let error = stored.check_problem(&GemmProblem::new(65, 73, 77)).unwrap_err().to_string();
    assert_eq!(error, "the pitch of D is 146 bytes, but must be a multiple of 16");
}

/// The planner's first choice is right on the simulator, at a size that is about one tile of it.
#[test]
fn plans_of_awkward_sizes_are_right() {
    let base = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let sizes = [
        [1001, 999, 997],
        [736, 3072, 9088],
        [3000, 3000, 3000],
        [16, 14336, 4096],
        [144, 3776, 3904],
        [5528, 256, 7552],
    ];
    for [m, n, k] in sizes {
        let config = base.best(&GemmProblem::new(m, n, k), &Machine::H200).unwrap();
        let [tile_m, tile_n, depth] = config.tile;
        let k = if config.load != LoadMethod::Tensor { 4 * depth + 7 } else { 4 * depth + 8 };
        let problem = GemmProblem::new(m.min(tile_m + 3), n.min(tile_n + 8), k);
        Case::new(problem).check::<bf16, bf16>(&device(), config);
    }
}

#[test]
fn the_assembler_has_no_remark_of_the_new_tiles() {
    let Some(ptxas) = ptxas::find() else { return };
    let tiles = [[16, 64], [208, 128], [192, 192], [200, 256]];
    let of = |tile| GemmConfig { stages: 2, ..swapped(Scalar::Bf16, tile) };
    let groups = GemmConfig::sm90(Scalar::Bf16, [192, 192]);
    let split =
        GemmConfig { splits: Splits::SplitK(4), ..GemmConfig::sm90(Scalar::Bf16, [64, 128]) };
    let stored = [
        direct(GemmConfig {
            load: LoadMethod::Repack,
            ..GemmConfig::sm90(Scalar::Bf16, [256, 168])
        }),
        direct(GemmConfig {
            schedule: Schedule::Pingpong,
            ..GemmConfig::sm90(Scalar::Bf16, [64, 160])
        }),
        direct(GemmConfig { splits: Splits::SplitK(4), ..swapped(Scalar::Bf16, [160, 64]) }),
        direct(GemmConfig::sm90(Scalar::Bf16, [256, 176])),
        direct(GemmConfig::sm90(Scalar::Bf16, [192, 144])),
    ];
    let stored = stored.map(|config| GemmConfig { registers: config.usual_registers(), ..config });
    for config in tiles.map(of).into_iter().chain([groups, split]).chain(stored) {
        let report = ptxas.report(ptx(config).text(), "sm_90a");
        let report = report.unwrap_or_else(|problem| panic!("{config}: {problem}"));
        assert!(!report.contains("(C7"), "{config}: {report}");
        for none in ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"] {
            assert!(report.contains(none), "{config}: there is not `{none}` in\n{report}");
        }
    }
}

/// Rows of D that end within 16 bytes: nothing behind them is written, by the planned kernel and by
/// one whose threads store.
#[test]
fn nothing_is_written_behind_a_row() {
    const PITCH: usize = 80;
    let wanted = GemmConfig::sm90(Scalar::Bf16, [64, 64]);
    let device = device();
    for n in [1usize, 3, 36, 70] {
        let (m, k) = (70, 64);
        let problem = GemmProblem::new(m as u32, n as u32, k as u32);
        let d = MatrixStrides { leading: Some(PITCH as u64), batch: None };
        let problem = GemmProblem { d, ..problem };
        let [a, b] =
            [m * k, n * k].map(|len| device.upload(&vec![bf16::from_f32(1.0); len]).unwrap());
        let best = wanted.best(&problem, &Machine::H200).unwrap();
        for config in [best, direct(wanted)] {
            let mut d = device.upload(&vec![bf16::from_f32(-1.0); m * PITCH]).unwrap();
            let gemm = Gemm::<bf16>::new(config).unwrap().load(&device).unwrap();
            gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
            for (i, x) in d.to_vec().unwrap().iter().enumerate() {
                let expected = if i % PITCH < n { 64.0 } else { -1.0 };
                assert_eq!(x.to_f32(), expected, "{config}: {} of {n} columns", i % PITCH);
            }
        }
        let error = wanted.check_problem(&problem).unwrap_err().to_string();
        assert!(error.contains("a row of"), "{error}");
    }
}
