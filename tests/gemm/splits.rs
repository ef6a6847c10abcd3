//! Thread blocks that share tiles: equal splits along K, and stream-K.

use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{device, gemm_case, ptxas};

use gemm_case::{Case, ptx};
use tilewright::arch::Major;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::gemm::{
    Activation, BatchMode, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmError, GemmModel,
    GemmProblem, GemmWorkspace, LoadMethod, Machine, Regime, Schedule, Splits, StoreMethod,
};
use tilewright::runtime::{Buffer, Device, LaunchOptions};
use tilewright::sim::{Options, Order};

use super::tiles::{direct, swapped};

/// A GPU, or the simulator with this order.
fn device_in(order: Order) -> Device {
    device::gpu().unwrap_or_else(|| Device::sim_with(Options::default().order(order)))
}

/// Thread blocks that share a tile: parts of unequal length, several groups, clusters, batches,
/// every way to write D.
#[test]
fn blocks_share_a_tile() {
    let plain =
        GemmConfig { splits: Splits::SplitK(3), ..GemmConfig::sm90(Scalar::Bf16, [128, 64]) };
    let exchanged = swapped(Scalar::Bf16, [24, 64]);
    let epilogue = Epilogue { alpha: true, bias: Some(Bias::Row), ..Epilogue::default() };
    let configs = [
        plain,
        GemmConfig { splits: Splits::SplitK(2), cluster: [2, 1], ..plain },
        GemmConfig { splits: Splits::SplitK(2), cluster: [1, 2], ..plain },
        GemmConfig { epilogue, store: StoreMethod::Rows, tile: [128, 40, 64], ..plain },
        GemmConfig { splits: Splits::SplitK(3), load: LoadMethod::Repack, ..exchanged },
        direct(GemmConfig { splits: Splits::SplitK(3), load: LoadMethod::Repack, ..exchanged }),
        GemmConfig {
            splits: Splits::SplitK(4),
            tile: [16, 192, 64],
            registers: Some([32, 160]),
            ..exchanged
        },
    ];
    for config in configs {
        assert_eq!(config.check(), Ok(()), "{config}");
        let sizes = [(150, 72, 7 * 64), (20, 200, 7 * 64 + 8)];
        for (seed, (m, n, k)) in sample(3, (0..2).flat_map(|seed| sizes.map(|size| (seed, size)))) {
            let device = device_in(Order::Random { seed });
            let batch = GemmProblem { batch: 2, ..GemmProblem::new(m, n, k) };
            Case::new(batch).check::<bf16, bf16>(&device, config);
        }
    }
}

/// Returns an operand whose sums depend on their order.
fn numbers(device: &Device, len: usize) -> Buffer<f16> {
    let number = |i: usize| f16::from_f32((i * 7919 % 1009) as f32 / 317.0 - 1.5);
    device.upload(&(0..len).map(number).collect::<Vec<f16>>()).unwrap()
}

/// A function is launched again and again: its workspace is as it was, and the bits of a result do
/// not change.
#[test]
fn sums_of_parts_are_reproducible() {
    let config =
        GemmConfig { splits: Splits::SplitK(4), ..GemmConfig::sm90(Scalar::F16, [64, 64]) };
    let stream = GemmConfig { splits: Splits::StreamK, ..config };
    let ms = GemmConfig::sm80(Target::SM_80, Scalar::F16, [64, 64]);
    let simt = GemmConfig { tile: [64, 64, 16], ..GemmConfig::simt(Target::SM_80, Scalar::F16) };
    let [ms_stream, simt] = [ms, simt].map(|of| GemmConfig { splits: Splits::StreamK, ..of });
    let ms = GemmConfig { splits: Splits::SplitK(3), ..ms };
    let all = [(config, 100), (stream, 100), (stream, 190), (ms, 70), (ms_stream, 70), (simt, 70)];
    for (config, m) in all {
        let problem = GemmProblem::new(m as u32, 136, 1024);
        let mut results = Vec::new();
        for seed in 0..3 {
            let device = device_in(Order::Random { seed });
            let (a, b) = (numbers(&device, m * 1024), numbers(&device, 136 * 1024));
            let function = Gemm::<f16>::new(config).unwrap().load(&device).unwrap();
            for _ in 0..2 {
                let mut d = device.zeros::<f16>(m * 136).unwrap();
                function.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
                results.push(d.to_vec().unwrap());
            }
        }
        assert!(results.iter().all(|d| *d == results[0]), "{config}");
    }
}

/// Launches with workspaces of their own, on two streams and in a graph, have the results of those
/// with that of the function.
#[test]
fn workspaces_are_given() {
    let config =
        GemmConfig { splits: Splits::SplitK(4), ..GemmConfig::sm90(Scalar::F16, [64, 64]) };
    let stream = GemmConfig { splits: Splits::StreamK, ..config };
    let ms = GemmConfig::sm80(Target::SM_80, Scalar::F16, [64, 64]);
    let ms = GemmConfig { splits: Splits::SplitK(2), ..ms };
    let repack = GemmConfig { load: LoadMethod::Repack, ..stream };
    let device = device::gpu().unwrap_or_else(|| Device::sim().unwrap());
    for (config, k) in [(config, 256), (stream, 256), (ms, 256), (repack, 253)] {
        let (m, n) = (40, 72);
        let problem = GemmProblem::new(m as u32, n as u32, k as u32);
        let (a, b) = (numbers(&device, m * k), numbers(&device, n * k));
        let function = Gemm::<f16>::new(config).unwrap().load(&device).unwrap();
        let mut results: Vec<Buffer<f16>> =
            (0..4).map(|_| device.zeros::<f16>(m * n).unwrap()).collect();
        let mut spaces: Vec<GemmWorkspace> =
            (0..3).map(|_| function.workspace(&problem).unwrap()).collect();
        let [first, d0, d1, d2] = &mut results[..] else { panic!("four") };
        let [w0, w1, w2] = &mut spaces[..] else { panic!("three") };
        assert!(w0.bytes() > 0, "{config}");
        function.launch(&problem, GemmArgs::new(&a, &b, first)).unwrap();
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        for ((d, w), stream) in [(d0, w0), (d1, w1)].into_iter().zip(&streams) {
            let options = LaunchOptions::default().stream(stream);
            let args = GemmArgs::new(&a, &b, d).workspace(w);
            function.launch_with(options, &problem, args).unwrap();
        }
        {
            let graph = device.graph().unwrap();
            let args = GemmArgs::new(&a, &b, d2).workspace(w2);
            function.prepare(&problem, args).unwrap().record(&graph).unwrap();
            let graph = graph.finish().unwrap();
            // The workspace is as it was after each launch.
            (0..2).for_each(|_| graph.launch().unwrap());
        }
        device.synchronize().unwrap();
        let expected = results[0].to_vec().unwrap();
        assert!(results.iter().all(|d| d.to_vec().unwrap() == expected), "{config}");
        // That of a smaller problem has too little room. A kernel without splits takes any.
        let small = GemmProblem::new(8, 8, problem.k);
        let mut small = function.workspace(&small).unwrap();
        let mut d = device.zeros::<f16>(m * n).unwrap();
        let args = GemmArgs::new(&a, &b, &mut d).workspace(&mut small);
        let error = function.launch(&problem, args).unwrap_err();
        assert!(matches!(error, GemmError::Workspace { .. }), "{config}: {error}");
    }
    let whole = Gemm::<f16>::new(GemmConfig { splits: Splits::SplitK(1), ..config }).unwrap();
    let (whole, problem) = (whole.load(&device).unwrap(), GemmProblem::new(64, 64, 64));
    let (a, mut d) = (numbers(&device, 64 * 64), device.zeros::<f16>(64 * 64).unwrap());
    let mut none = whole.workspace(&problem).unwrap();
    assert_eq!(none.bytes(), 0);
    whole.launch(&problem, GemmArgs::new(&a, &a, &mut d).workspace(&mut none)).unwrap();
}

/// Stream-K with every option that a tile has: fewer tiles than thread blocks, whole waves, one
/// tile more, batches, clusters.
#[test]
fn blocks_share_runs_of_steps() {
    let plain = GemmConfig { splits: Splits::StreamK, ..GemmConfig::sm90(Scalar::Bf16, [64, 64]) };
    let exchanged = GemmConfig { splits: Splits::StreamK, ..swapped(Scalar::Bf16, [24, 64]) };
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Row),
        activation: Some(Activation::Relu),
    };
    let configs = [
        plain,
        GemmConfig { cluster: [2, 1], ..plain },
        GemmConfig { cluster: [1, 2], ..plain },
        GemmConfig { tile: [128, 64, 64], registers: Some([40, 232]), epilogue, ..plain },
        GemmConfig { store: StoreMethod::Rows, tile: [64, 40, 128], ..plain },
        exchanged,
        direct(GemmConfig { load: LoadMethod::Threads, ..plain }),
        direct(GemmConfig { load: LoadMethod::Repack, ..exchanged }),
        GemmConfig { tile: [16, 192, 64], registers: Some([32, 160]), ..exchanged },
    ];
    for (seed, config) in (0..).zip(configs) {
        assert_eq!(config.check(), Ok(()), "{config}");
        let [m, n, depth] = config.tile;
        // Tiles along each mode for four thread blocks, or two clusters.
        let sizes = [(1, 1, 9), (1, 3, 3), (2, 2, 2), (5, 1, 3), (2, 3, 4), (7, 1, 1)];
        for (rows, columns, steps) in sample(3, sizes) {
            let [m, n, k] = [rows * m - 3, columns * n - 8, steps * depth - 8];
            let problem = GemmProblem { batch: 1 + rows % 2, ..GemmProblem::new(m, n, k) };
            let device = device_in(Order::Random { seed });
            Case::new(problem).check::<bf16, bf16>(&device, config);
        }
    }
}

/// The kernels without roles: each type and each way to copy, batches, epilogues, a last part that
/// is not whole.
#[test]
fn blocks_without_roles_share_a_tile() {
    let epilogue = Epilogue {
        alpha: true,
        beta: true,
        bias: Some(Bias::Column),
        activation: Some(Activation::Relu),
    };
    let simt = |input, tile| GemmConfig { tile, ..GemmConfig::simt(Target::SM_80, input) };
    let single = simt(Scalar::F32, [64, 64, 8]);
    let stages = |config| GemmConfig { stages: 2, ..config };
    let ms = |input, tile| stages(GemmConfig::sm80(Target::SM_80, input, tile));
    let columns = |config| GemmConfig { major_a: Major::Mn, major_b: Major::Mn, ..config };
    let configs = [
        single,
        GemmConfig { epilogue, ..columns(single) },
        simt(Scalar::F32, [128, 128, 32]),
        simt(Scalar::F32, [32, 64, 16]),
        columns(simt(Scalar::Bf16, [64, 64, 16])),
        ms(Scalar::Bf16, [64, 64]),
        GemmConfig { epilogue, stages: 3, ..columns(ms(Scalar::F16, [128, 64])) },
        GemmConfig { alignment: 2, ..ms(Scalar::Bf16, [64, 128]) },
        ms(Scalar::Tf32, [64, 64]),
    ];
    for (seed, config) in (0..).zip(configs) {
        let device = device_in(Order::Random { seed });
        let even = [(2, 69, 40, 5), (3, 30, 136, 7), (4, 8, 16, 4)]
            .map(|(parts, m, n, steps)| (Splits::SplitK(parts), m, n, steps));
        let runs =
            [(69, 40, 19), (130, 136, 9)].map(|(m, n, steps)| (Splits::StreamK, m, n, steps));
        for (splits, m, n, steps) in sample(2, even).chain(sample(1, runs)) {
            let config = GemmConfig { splits, ..config };
            assert_eq!(config.check(), Ok(()), "{config}");
            let ragged = if config.alignment == 2 { 3 } else { 8 };
            let k = steps * config.tile[2] - if config.tile[2] > 8 { ragged } else { 0 };
            let batch = 1 + steps % 2;
            let m = if config.major_a == Major::Mn { m / 8 * 8 } else { m };
            Case::new(GemmProblem { batch, ..GemmProblem::new(m, n, k) })
                .check_any(&device, config);
        }
    }
}

/// For any tiles, steps and thread blocks, stream-K takes each step of each tile once: the sums of
/// integers are those of the kernel whose thread blocks share nothing.
#[test]
fn runs_cover_all_steps() {
    let plain = GemmConfig { stages: 2, ..GemmConfig::sm90(Scalar::F16, [64, 8]) };
    let plain = GemmConfig { store: StoreMethod::Rows, ..plain };
    let ms = GemmConfig { stages: 2, ..GemmConfig::sm80(Target::SM_80, Scalar::F16, [64, 64]) };
    let simt = GemmConfig { tile: [32, 64, 16], ..GemmConfig::simt(Target::SM_80, Scalar::F16) };
    let mut rng = Rng::new(21);
    let device = device_in(Order::RoundRobin);
    for case in 0..if slow() { 200 } else { 16 } {
        let plain = [plain, plain, ms, simt][case % 4];
        let config = GemmConfig { splits: Splits::StreamK, ..plain };
        let size = |mode: usize, tiles: usize| plain.tile[mode] as usize * (1 + tiles);
        let [m, n, k] = [size(0, rng.below(3)), size(1, rng.below(4)), size(2, rng.below(9))];
        let batch = 1 + rng.below(2);
        let problem = GemmProblem::new(m as u32, n as u32, k as u32);
        let problem = GemmProblem { batch: batch as u32, ..problem };
        let mut operand = |len: usize| {
            let numbers: Vec<f16> =
                (0..len).map(|_| f16::from_f32(rng.below(5) as f32 - 2.0)).collect();
            device.upload(&numbers).unwrap()
        };
        let (a, b) = (operand(batch * m * k), operand(batch * n * k));
        let sms = 1 + rng.below(4) as u32;
        let d = |config| {
            let function = Gemm::<f16>::new(config).unwrap().load(&device).unwrap().with_sms(sms);
            let mut d = device.zeros::<f16>(batch * m * n).unwrap();
            function.launch(&problem, GemmArgs::new(&a, &b, &mut d)).unwrap();
            d.to_vec().unwrap()
        };
        assert_eq!(d(config), d(plain), "{problem:?} on {sms} SMs");
    }
}

/// A grid has a thread block for four steps or more, and no more than there are SMs.
#[test]
fn grids_of_shared_steps() {
    let config =
        GemmConfig { splits: Splits::StreamK, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    let blocks =
        |config: GemmConfig, m, n, k| config.grid(&GemmProblem::new(m, n, k), 132).blocks[0];
    assert_eq!(blocks(config, 128, 128, 65536), 132);
    assert_eq!(blocks(config, 128, 128, 32 * 64), 8);
    assert_eq!(blocks(config, 256, 256, 64), 4);
    assert_eq!(blocks(config, 8192, 8192, 64), 132);
    assert_eq!(blocks(GemmConfig { cluster: [2, 1], ..config }, 8192, 8192, 64), 132);
    // Four blocks of 3 stages of 16 KiB stay on an SM of 227 KiB.
    let ms = GemmConfig::sm80(Target::SM_90, Scalar::Bf16, [64, 64]);
    let ms = GemmConfig { splits: Splits::StreamK, ..ms };
    assert_eq!((blocks(ms, 64, 64, 65536), blocks(ms, 8192, 8192, 64)), (256, 4 * 132));
}

#[test]
fn splits_have_rules() {
    let base =
        GemmConfig { splits: Splits::SplitK(4), ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    let said = |config: GemmConfig| config.check().unwrap_err().to_string();
    assert!(
        said(GemmConfig { splits: Splits::SplitK(65), ..base })
            .contains("the split count must be 1 to 64")
    );
    let pingpong = GemmConfig { schedule: Schedule::Pingpong, ..base };
    assert!(said(pingpong).contains("the ping-pong schedule cannot split K"));
    let overlapped = GemmConfig { store: StoreMethod::Overlapped, tile: [128, 256, 64], ..base };
    assert!(said(overlapped).contains("`overlapped` cannot split K"));
    let stored = GemmConfig { splits: Splits::SplitK(2), ..direct(base) };
    assert!(said(stored).contains("one consumer warp group"));
    let grouped = GemmConfig { batch: BatchMode::Grouped, splits: Splits::StreamK, ..base };
    assert!(said(grouped).contains("not support swapped operands, clusters or splits"));
    let stream = GemmConfig { splits: Splits::StreamK, ..base };
    assert_eq!(stream.to_string().parse(), Ok(stream));
    let old = GemmConfig { programmatic: true, ..GemmConfig::simt(Target::SM_89, Scalar::F32) };
    assert_eq!(said(old), "`programmatic` cannot be `true`: programmatic launches need sm_90");
    let wide = GemmConfig::sm80(base.target, Scalar::Bf16, [128, 128]);
    assert!(
        said(GemmConfig { splits: Splits::SplitK(2), ..wide }).contains("at most 64 accumulators")
    );
    let wide = GemmConfig { splits: Splits::SplitK(2), ..swapped(Scalar::Bf16, [144, 256]) };
    assert!(said(wide).contains("more than 136 accumulators"));
    let steps = stream.check_problem(&GemmProblem::new(1 << 20, 1 << 16, 65536)).unwrap_err();
    assert!(matches!(steps, GemmError::Steps { .. }), "{steps}");
    // Parts of 2 steps: the third one is the last.
    let error = base.check_problem(&GemmProblem::new(128, 128, 5 * 64)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the size `k` is 320, which leaves some of the 4 splits without a step along K: use fewer splits"
    );
    assert!(base.check_problem(&GemmProblem::new(128, 128, 7 * 64)).is_ok());
    // Few tiles and a long sum: the planner splits.
    let best = GemmConfig::sm90(Scalar::Bf16, [128, 128])
        .best(&GemmProblem::new(128, 128, 65536), &Machine::H200)
        .unwrap();
    assert!(best.splits.is_split(), "{best}");
}

/// Returns the split kernels of all tiles that the planner has.
fn every_split() -> Vec<GemmConfig> {
    let mut all = Vec::new();
    for (input, rows) in [Scalar::Bf16, Scalar::Tf32]
        .into_iter()
        .flat_map(|input| [64, 128, 192, 256].map(|rows| (input, rows)))
    {
        for (columns, splits) in (1..=32)
            .flat_map(|n| [Splits::SplitK(2), Splits::StreamK].map(|splits| (8 * n, splits)))
        {
            let plain = GemmConfig { splits, ..GemmConfig::sm90(input, [rows, columns]) };
            let exchanged =
                GemmConfig { swap: true, tile: [columns, rows, plain.tile[2]], ..plain };
            for config in [plain, GemmConfig { store: StoreMethod::Rows, ..exchanged }] {
                let config = GemmConfig { registers: config.usual_registers(), ..config };
                let config = config.with_max_stages(12);
                // The planner splits K with one warp group where it has 116 accumulators or fewer.
                let has_registers = config.consumers() > 1 || config.accumulators() <= 116;
                all.extend((has_registers && config.check().is_ok()).then_some(config));
            }
        }
    }
    assert!(all.len() > 300, "only {}", all.len());
    all
}

/// No spill, no stack, no remark: two and three warp groups, clusters, epilogues, `f32`, exchanged
/// operands, kernels without roles.
#[test]
fn the_assembler_has_no_remark_of_splits() {
    let Some(ptxas) = ptxas::find() else { return };
    let names = [
        "sm90a_bf16_tn_128x256x64_s4_coop_streamk_strip8_chunks_pdl",
        "sm90a_bf16_tn_256x176x64_s3_coop_streamk_strip8_rows_pdl",
        "sm90a_bf16_tn_128x256x64_s4_coop_cl2_streamk_strip8_chunks_alpha_beta_biascol_relu_pdl",
        "sm90a_bf16_tn_208x128x64_s4_coop_swap_streamk_strip8_rows_pdl",
        "sm90a_bf16_tn_64x128x64_s6_coop_streamk_strip8_direct_pdl",
        "sm90a_tf32_df32_tn_256x128x32_s4_coop_streamk_strip8_chunks_pdl",
        "sm90a_tf32_df32_tn_192x160x32_s4_coop_streamk_strip8_chunks_pdl",
        "sm90a_f32_tn_128x64x16_s3_simt_streamk_strip8_direct_a4",
        "sm90a_bf16_tn_32x32x64_s4_ms_k4_strip8_direct_a2_pdl",
        "sm90a_bf16_tn_32x64x32_s2_ms_streamk_strip8_direct_a4_pdl",
        "sm90a_bf16_tn_128x256x64_s4_coop_k4_strip8_chunks_pdl",
        "sm80_f32_nt_64x64x16_s4_simt_k4_strip8_direct_a4",
        "sm90_f32_tn_128x128x32_s3_simt_k2_strip8_direct_a4",
        "sm80_bf16_tn_128x64x64_s3_ms_k8_strip8_direct_a2",
        "sm90_bf16_nt_256x64x64_s3_ms_k4_strip8_direct_alpha_beta_biascol_relu",
        "sm80_f32_nt_64x64x16_s4_simt_streamk_strip8_direct_a4",
        "sm90_f32_tn_128x128x32_s3_simt_streamk_strip8_direct_a4",
        "sm90_bf16_tn_64x64x16_s4_simt_streamk_strip8_direct_a2",
        "sm80_bf16_tn_128x64x64_s3_ms_streamk_strip8_direct_a2",
        "sm90_bf16_tn_64x128x64_s3_ms_streamk_strip8_direct",
        "sm90_bf16_nt_256x64x64_s3_ms_streamk_strip8_direct_alpha_beta_biascol_relu",
    ];
    let named = names.iter().map(|name| name.parse().unwrap());
    for config in named.chain(every_split().into_iter().step_by(if slow() { 1 } else { 24 })) {
        let report = ptxas.report(ptx(config).text(), &config.target.to_string());
        let report = report.unwrap_or_else(|problem| panic!("{config}: {problem}"));
        assert!(!report.contains("(C7"), "{config}: {report}");
        for none in ["0 bytes stack frame", "0 bytes spill stores", "0 bytes spill loads"] {
            assert!(report.contains(none), "{config}: there is not `{none}` in\n{report}");
        }
    }
}

/// The planner splits K where there are few tiles, and says what the sums take. Stream-K has fewer
/// products on the busiest SM, and takes longer.
#[test]
fn plans_have_splits() {
    let problem = GemmProblem::new(1792, 2560, 8192);
    let whole = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
    let stream = GemmConfig { splits: Splits::StreamK, ..whole };
    let predict = |config: &GemmConfig| GemmModel::H200.predict(config, &problem, Regime::Burst);
    let (shared, whole) = (predict(&stream), predict(&whole));
    assert!(shared.fix_up_s > 0.0 && whole.fix_up_s == 0.0);
    assert!(shared.mma_s < whole.mma_s, "{stream}");
    let tall = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
    let all = tall.defaults(&problem, &Machine::H200);
    assert!(all.iter().all(|config| config.splits != Splits::StreamK));
    let long = tall.best(&GemmProblem::new(128, 128, 65536), &Machine::H200).unwrap();
    assert!(long.splits.is_split(), "{long}");
    let simt = GemmConfig::simt(Target::SM_90A, Scalar::F32);
    let why = simt.explain(&GemmProblem::new(512, 512, 512), &Machine::H200).unwrap();
    assert!(why.config.splits.is_split() && why.prediction.fix_up_s > 0.0, "{why}");
    // 324 tiles of 128 x 128 are 2.45 waves of 132 SMs.
    let ragged = simt.explain(&GemmProblem::new(2300, 2300, 4096), &Machine::H200).unwrap();
    assert_eq!(ragged.config.splits, Splits::StreamK, "{ragged}");
    let large = simt.best(&GemmProblem::new(4096, 4096, 4096), &Machine::H200).unwrap();
    assert!(!large.splits.is_split(), "{large}");
}
