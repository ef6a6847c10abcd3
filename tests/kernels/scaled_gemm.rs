//! GEMM with block scales, compared with its definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::scaled_gemm::{
    BScaleBlock, LaunchOverlap, ScaleStrides, ScaledGemm, ScaledGemmArgs, ScaledGemmConfig,
    ScaledGemmError, ScaledGemmProblem,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

/// Elements along K, and rows of B, that share a scale.
const BLOCK: usize = 128;

/// The definition: `sum over k of SA[m, k / 128] * SB[n / 128, k / 128] * A[m, k] * B[n, k]`, or
/// with `SB[n, k / 128]` if each row of B has its own scales.
fn product(
    problem: &ScaledGemmProblem,
    (a, a_scales): (&[f64], &[f32]),
    (b, b_scales): (&[f64], &[f32]),
) -> Vec<f64> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let scale = |scales: &[f32], strides: ScaleStrides, row: usize, block: usize| {
        f64::from(scales[row * strides.row as usize + block * strides.block as usize])
    };
    let b_scale_row = |column: usize| match problem.b_block {
        BScaleBlock::Square128 => column / BLOCK,
        BScaleBlock::Row128 => column,
    };
    let mut d = Vec::new();
    for row in 0..m {
        for column in 0..n {
            let mut sum = 0.0;
            for block in 0..k.div_ceil(BLOCK) {
                let depth = block * BLOCK..k.min((block + 1) * BLOCK);
                let (x, y) = (&a[row * k..][depth.clone()], &b[column * k..][depth]);
                let products: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
                let of_a = scale(a_scales, problem.a_scales, row, block);
                let of_b = scale(b_scales, problem.b_scales, b_scale_row(column), block);
                sum += products * of_a * of_b;
            }
            d.push(sum);
        }
    }
    d
}

/// Random integers from -2 to 2 as 8-bit floats, and NaN behind the last one.
fn integers<T: Real>(len: usize, rng: &mut Rng) -> Vec<T> {
    let mut all: Vec<T> = (0..len).map(|_| T::of(rng.below(5) as f32 - 2.0)).collect();
    all.resize(len + 16, T::of(f32::NAN));
    all
}

/// Random scales 0.5, 1 and 2, with which all sums are exact in `f32`.
fn scales(len: u64, rng: &mut Rng) -> Vec<f32> {
    (0..len).map(|_| [0.5, 1.0, 2.0][rng.below(3)]).collect()
}

#[track_caller]
fn check<A: Real, B: Real, D: Real + Converted>(
    device: &Device,
    config: ScaledGemmConfig,
    problem: &ScaledGemmProblem,
    seed: u64,
) {
    let rng = &mut Rng::new(seed);
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let (a, b): (Vec<A>, Vec<B>) = (integers(m * k, rng), integers(n * k, rng));
    let [a_scales, b_scales] = problem.scale_lens().map(|len| scales(len, rng));
    let (a_at, b_at) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let [a_scales_at, b_scales_at] = [&a_scales, &b_scales].map(|all| device.upload(all).unwrap());
    let mut d = device.upload(&vec![D::of(UNTOUCHED); m * n + 16]).unwrap();
    let gemm = ScaledGemm::<A, B, D>::new(config).unwrap().load(device).unwrap();
    let args = ScaledGemmArgs {
        a: &a_at,
        a_scales: &a_scales_at,
        b: &b_at,
        b_scales: &b_scales_at,
        d: &mut d,
    };
    gemm.launch(problem, args).unwrap();
    let exact_a: Vec<f64> = a.iter().map(|x| x.to()).collect();
    let exact_b: Vec<f64> = b.iter().map(|x| x.to()).collect();
    let expected = product(problem, (&exact_a, &a_scales), (&exact_b, &b_scales));
    let what = format!("{config} of {problem:?} on {}", device.name());
    for (at, found) in d.to_vec().unwrap().into_iter().enumerate() {
        let expected = expected.get(at).map_or(UNTOUCHED, |expected| *expected as f32);
        let (row, column) = (at / n.max(1), at % n.max(1));
        let found = found.to();
        assert_eq!(found, D::of(expected).to(), "{what}: ({row}, {column})");
    }
}

/// The configuration with this tile, stages and cluster, for `bf16`.
fn config_of([rows, columns]: [u32; 2], stages: u32, cluster: [u32; 2]) -> ScaledGemmConfig {
    let name = format!("sm90a_bf16_{rows}x{columns}x128_s{stages}_strip2");
    ScaledGemmConfig { cluster, ..name.parse().unwrap() }
}

/// Sizes that end inside tiles, blocks and vectors, in tiles that start inside a block of 128
/// columns and meet two or three of them. Each block computes several tiles.
#[test]
fn tiles_and_edges() {
    let tiles = [[64, 64], [128, 112], [128, 160], [128, 176], [128, 192], [256, 128], [64, 56]];
    for device in devices() {
        for (seed, tile) in (0..).zip(tiles) {
            let problem = ScaledGemmProblem::new(300 - tile[0] / 2, 520, 336);
            let config = config_of(tile, 2 + (seed % 3) as u32, [1, 1]);
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, seed);
        }
    }
}

/// Each row of B has its own scales, in tiles that end inside a warp's 32 copies of scales, and
/// with fewer and more steps than stages.
#[test]
fn scales_of_single_columns() {
    let tiles = [[64, 64], [128, 112], [128, 128], [256, 80], [64, 56]];
    for device in devices() {
        for (seed, tile) in (0..).zip(tiles) {
            let problem = ScaledGemmProblem::new(300 - tile[0] / 2, 264, 336 + 208 * seed as u32);
            let problem = ScaledGemmProblem { b_block: BScaleBlock::Row128, ..problem };
            let config = config_of(tile, 2 + (seed % 3) as u32, [1, 1]);
            let config = ScaledGemmConfig { b_block: BScaleBlock::Row128, ..config };
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, seed);
        }
    }
}

/// On an H200, no measured configuration without programmatic launches was more than 1 % faster
/// (column-major scales of A).
#[test]
fn choices() {
    for (sizes, name) in [
        ([8192, 8192, 8192], "128x192x128_s4_strip16"),
        ([4096, 7168, 16384], "256x128x128_s4_strip8"),
        ([4096, 4096, 7168], "256x128x128_s4_strip8"),
        ([4096, 24576, 1536], "128x192x128_s4_strip16"),
        ([4096, 32768, 512], "256x128x128_s4_strip8"),
        ([4096, 7168, 2048], "256x128x128_s4_strip8"),
        ([128, 7168, 16384], "128x64x128_s6_strip1"),
        ([64, 7168, 16384], "64x64x128_s6_strip1"),
        ([64, 24576, 1536], "64x192x128_s6_strip1"),
    ] {
        let [m, n, k] = sizes;
        let problem = ScaledGemmProblem::new(m, n, k);
        let config = ScaledGemmConfig::new(Target::SM_90A, Scalar::Bf16, &problem).unwrap();
        assert_eq!(config.to_string(), format!("sm90a_bf16_{name}"), "{sizes:?}");
    }
}

/// Steps before, at and after the four steps whose scales a quad loads together.
#[test]
fn steps() {
    for device in devices() {
        for k in [16, 128, 384, 512, 528, 640, 1024, 1168] {
            let problem = ScaledGemmProblem::new(70, 144, k);
            check::<f8e4m3, f8e4m3, bf16>(&device, config_of([64, 96], 3, [1, 1]), &problem, 1);
        }
    }
}

/// Scales in other orders, with padding between rows.
#[test]
fn scale_orders() {
    use BScaleBlock::{Row128, Square128};
    let strides = [ScaleStrides::column_major(268), ScaleStrides::row_major(9)];
    for device in devices() {
        for (a_scales, b_scales, b_block) in [
            (0, 1, Square128),
            (1, 0, Square128),
            (0, 0, Square128),
            (0, 1, Row128),
            (1, 0, Row128),
        ] {
            let [a_scales, b_scales] = [a_scales, b_scales].map(|i: usize| strides[i]);
            let problem = ScaledGemmProblem::new(137, 264, 896);
            let problem = ScaledGemmProblem { a_scales, b_scales, b_block, ..problem };
            let config = ScaledGemmConfig::new(device.target(), Scalar::Bf16, &problem).unwrap();
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 1);
        }
    }
}

#[test]
fn element_types() {
    let problem = ScaledGemmProblem::new(100, 200, 272);
    for device in devices() {
        let of = |d| ScaledGemmConfig::new(device.target(), d, &problem).unwrap();
        check::<f8e5m2, f8e4m3, f16>(&device, of(Scalar::F16), &problem, 1);
        check::<f8e4m3, f8e5m2, f32>(&device, of(Scalar::F32), &problem, 2);
        let wide = ScaledGemmConfig { tile: [128, 160, 128], ..of(Scalar::F32) };
        let wide = ScaledGemmConfig { stages: 3, ..wide };
        check::<f8e4m3, f8e4m3, f32>(&device, wide, &problem, 3);
    }
}

/// Blocks that share tiles by multicast, also with tiles beyond the edges.
#[test]
fn clusters() {
    for device in devices() {
        for (cluster, sizes, b_block) in [
            ([2, 1], [300, 200], BScaleBlock::Square128),
            ([1, 2], [130, 488], BScaleBlock::Square128),
            ([1, 2], [130, 296], BScaleBlock::Row128),
        ] {
            let problem = ScaledGemmProblem::new(sizes[0], sizes[1], 656);
            let problem = ScaledGemmProblem { b_block, ..problem };
            let config = ScaledGemmConfig { b_block, ..config_of([128, 128], 3, cluster) };
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 1);
        }
    }
}

/// A launch that starts before the previous one has ended gives the same results.
#[test]
fn programmatic_launches() {
    for device in devices() {
        let problem = ScaledGemmProblem::new(64, 264, 528);
        let config = config_of([64, 64], 4, [1, 1]);
        let config = ScaledGemmConfig { overlap: LaunchOverlap::Programmatic, ..config };
        assert_eq!(config.to_string().parse(), Ok(config));
        check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 1);
    }
}

/// An empty D needs no kernel.
#[test]
fn empty() {
    for device in devices() {
        for [m, n] in [[0, 64], [64, 0]] {
            let problem = ScaledGemmProblem::new(m, n, 128);
            let config = ScaledGemmConfig::new(device.target(), Scalar::Bf16, &problem).unwrap();
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 1);
        }
    }
}

/// Several tiles for each block, so that all rings are used again, without a data race in
/// adversarial schedules.
#[test]
fn no_data_race() {
    let options =
        Options::default().target(Target::SM_90A).race(true).schedules(if slow() { 12 } else { 2 });
    let device = Device::sim_with(options);
    let problem = ScaledGemmProblem::new(400, 256, 400);
    for b_block in [BScaleBlock::Square128, BScaleBlock::Row128] {
        let problem = ScaledGemmProblem { b_block, ..problem };
        for tile in [[128, 64], [256, 64]] {
            let config = ScaledGemmConfig { b_block, ..config_of(tile, 3, [1, 1]) };
            check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 60 } else { 6 }, ..ProptestConfig::default() })]

    #[test]
    fn random_problems(
        m in 1u32..300,
        n in 1u32..50,
        k in 1u32..60,
        is_column_major in any::<bool>(),
        has_column_scales in any::<bool>(),
        choice in 0usize..14,
        seed in 0u64..1000,
    ) {
        let mut problem = ScaledGemmProblem::new(m, 8 * n, 16 * k);
        if is_column_major {
            problem.a_scales = ScaleStrides::column_major(m.next_multiple_of(4));
        }
        if has_column_scales {
            problem.b_block = BScaleBlock::Row128;
        }
        for device in devices() {
            let all = ScaledGemmConfig::candidates(device.target(), Scalar::Bf16, &problem);
            check::<f8e4m3, f8e4m3, bf16>(&device, all[choice % all.len()], &problem, seed);
        }
    }
}

/// No spilled registers, no `wgmma` that `ptxas` runs one after the other, and no fence that it has
/// to add.
#[test]
fn kernels_assemble_without_spills() {
    let problem = ScaledGemmProblem::new(4096, 7168, 2048);
    let mut all = Vec::new();
    for d in [Scalar::Bf16, Scalar::F32] {
        for b_block in [BScaleBlock::Square128, BScaleBlock::Row128] {
            let problem = ScaledGemmProblem { b_block, ..problem };
            all.extend(ScaledGemmConfig::candidates(Target::SM_90A, d, &problem));
        }
    }
    // Those with the most registers.
    let widest =
        ScaledGemmConfig { b_block: BScaleBlock::Row128, ..config_of([128, 128], 4, [1, 1]) };
    let tallest = ScaledGemmConfig { tile: [256, 80, 128], ..widest };
    for config in sample(5, all).into_iter().chain([widest, tallest]) {
        assert_eq!(config.to_string().parse(), Ok(config));
        let text = match config.d {
            Scalar::F32 => assembled::<f32>(config),
            _ => assembled::<bf16>(config),
        };
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(&text, "sm_90a").unwrap();
        let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
        assert!(clean && !report.contains("C75"), "{config}: {report}");
    }
}

fn assembled<D: Real + Converted>(config: ScaledGemmConfig) -> String {
    let gemm = ScaledGemm::<f8e4m3, f8e4m3, D>::new(config).unwrap();
    text::check_round_trip(gemm.ir());
    gemm.ptx().text().to_owned()
}

#[test]
fn names_and_refusals() {
    let config = config_of([128, 160], 5, [1, 1]);
    for wrong in [
        "",
        "sm90a_bf16_128x160x128_s5",
        "sm90a_bf16_128x160_s5_strip2",
        "sm90a_bf16_128x160x128_s05_strip2",
        "sm90a_bf16_128x160x128_s5_c1x1_strip2",
        "sm90a_bf16_128x160x128_s5_c2_strip2",
        "sm90a_bf16_128x160x128_s5_b128x128_strip2",
        "sm90a_bf16_128x160x128_s5_strip2_x",
        "sm90a_bf16_128x160x128_s5_strip2_pdl_x",
    ] {
        let error = wrong.parse::<ScaledGemmConfig>().unwrap_err();
        assert_eq!(error, ScaledGemmError::Name { name: wrong.to_owned() });
    }
    let refused = |config: ScaledGemmConfig| config.check().unwrap_err();
    for config in [
        ScaledGemmConfig { tile: [192, 128, 128], ..config },
        ScaledGemmConfig { tile: [256, 160, 128], ..config },
        ScaledGemmConfig { tile: [128, 124, 128], ..config },
        ScaledGemmConfig { tile: [128, 128, 64], ..config },
        ScaledGemmConfig { cluster: [2, 2], ..config },
        ScaledGemmConfig { stages: 1, ..config },
        ScaledGemmConfig { b_block: BScaleBlock::Row128, ..config },
    ] {
        assert!(matches!(refused(config), ScaledGemmError::Config { .. }), "{config}");
    }
    let large = ScaledGemmConfig { stages: 8, ..config };
    assert!(matches!(refused(large), ScaledGemmError::SharedMemory { .. }));
    let old = ScaledGemmConfig { target: Target::SM_80, ..config };
    assert!(matches!(refused(old), ScaledGemmError::Target { .. }));
    let other = ScaledGemm::<f8e4m3, f8e4m3, f32>::new(config).unwrap_err();
    assert!(matches!(other, ScaledGemmError::Element { operand: "D", .. }));
    let other = ScaledGemm::<f16, f8e4m3, bf16>::new(config).unwrap_err();
    assert!(matches!(other, ScaledGemmError::Element { operand: "A", .. }));
    for (sizes, d) in [([8, 8, 200], 16), ([8, 4, 128], 16), ([8, 6, 128], 32), ([8, 8, 0], 16)] {
        let [m, n, k] = sizes;
        let error = ScaledGemmProblem::new(m, n, k).check(d).unwrap_err();
        assert!(matches!(error, ScaledGemmError::Pitch { .. }), "{sizes:?}");
    }
}
