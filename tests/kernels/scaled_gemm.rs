//! GEMM with block scales, compared with its definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::gemm::{BatchMode, GroupRows};
use tilewright::kernels::scaled_gemm::{
    BScaleBlock, BatchStrides, LaunchOverlap, ScaleStrides, ScaledBatch, ScaledGemm,
    ScaledGemmArgs, ScaledGemmConfig, ScaledGemmError, ScaledGemmProblem,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;
use tilewright::tensor::pipeline::Raster;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

/// Elements along K, and rows of B, that share a scale.
const BLOCK: usize = 128;

/// Where a GEMM of a launch finds its matrices and scales, in elements.
#[derive(Clone, Copy, Default)]
struct Starts {
    a: usize,
    a_scales: usize,
    b: usize,
    b_scales: usize,
    d: usize,
}

/// The operands of a launch, as `f64`.
struct Operands<'x> {
    a: &'x [f64],
    a_scales: &'x [f32],
    b: &'x [f64],
    b_scales: &'x [f32],
}

impl Operands<'_> {
    /// The definition of an element of D:
    /// `sum over k of SA[m, k / 128] * SB[n / 128, k / 128] * A[m, k] * B[n, k]`, or with
    /// `SB[n, k / 128]` if each row of B has its own scales.
    fn sum(&self, problem: &ScaledGemmProblem, at: Starts, [row, column]: [usize; 2]) -> f64 {
        let k = problem.k as usize;
        let b_scale_row = match problem.b_block {
            BScaleBlock::Square128 => column / BLOCK,
            BScaleBlock::Row128 => column,
        };
        let scale = |scales: &[f32], strides: ScaleStrides, row: usize, block: usize| {
            f64::from(scales[row * strides.row as usize + block * strides.block as usize])
        };
        let mut sum = 0.0;
        for block in 0..k.div_ceil(BLOCK) {
            let depth = block * BLOCK..k.min((block + 1) * BLOCK);
            let x = &self.a[at.a + row * k..][depth.clone()];
            let y = &self.b[at.b + column * k..][depth];
            let products: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
            let of_a = scale(&self.a_scales[at.a_scales..], problem.a_scales, row, block);
            let of_b = scale(&self.b_scales[at.b_scales..], problem.b_scales, b_scale_row, block);
            sum += products * of_a * of_b;
        }
        sum
    }
}

/// The rows of groups, as a launch has them.
#[derive(Clone, Debug)]
enum Rows {
    /// The first row of each group, and the end of the last one.
    Starts(Vec<i32>),
    /// The rows of each group, and the room for them.
    Counts(Vec<i32>, u32),
}

impl Rows {
    /// The rows of group `group`.
    fn of(&self, group: usize) -> std::ops::Range<usize> {
        match self {
            Rows::Starts(starts) => starts[group] as usize..starts[group + 1] as usize,
            Rows::Counts(counts, room) => {
                let first = group * *room as usize;
                first..first + counts[group] as usize
            }
        }
    }

    /// The problem of these groups.
    fn problem(&self, n: u32, k: u32) -> ScaledGemmProblem {
        match self {
            Rows::Starts(starts) => {
                let m = *starts.last().unwrap() as u32;
                ScaledGemmProblem::new(m, n, k).grouped(starts.len() as u32 - 1)
            }
            Rows::Counts(counts, room) => {
                let groups = counts.len() as u32;
                ScaledGemmProblem::new(groups * room, n, k).grouped(groups)
            }
        }
    }
}

/// The elements of D and their values: each row and its GEMM's starts.
fn expected(
    problem: &ScaledGemmProblem,
    operands: &Operands<'_>,
    rows: Option<&Rows>,
) -> Vec<(usize, f64)> {
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let blocks = k.div_ceil(BLOCK);
    let b_rows = match problem.b_block {
        BScaleBlock::Square128 => n.div_ceil(BLOCK),
        BScaleBlock::Row128 => n,
    };
    let len = |strides: ScaleStrides, rows: usize| {
        let last = |count: usize, stride: u32| count.saturating_sub(1) * stride as usize;
        last(rows, strides.row) + last(blocks, strides.block) + 1
    };
    let (of_a, of_b) = (len(problem.a_scales, m), len(problem.b_scales, b_rows));
    let mut all = Vec::new();
    for l in 0..problem.batch.count() as usize {
        let (at, rows) = match (problem.batch, rows) {
            (ScaledBatch::Uniform { strides, .. }, _) => {
                let of = |stride: Option<u64>, own: usize| l * stride.map_or(own, |s| s as usize);
                let at = Starts {
                    a: of(strides.a, m * k),
                    a_scales: of(strides.a_scales, of_a),
                    b: of(strides.b, n * k),
                    b_scales: of(strides.b_scales, of_b),
                    d: of(strides.d, m * n),
                };
                (at, 0..m)
            }
            (ScaledBatch::Grouped { .. }, Some(rows)) => {
                (Starts { b: l * n * k, b_scales: l * of_b, ..Starts::default() }, rows.of(l))
            }
            (ScaledBatch::Grouped { .. }, None) => panic!("groups have rows"),
        };
        for row in rows {
            for column in 0..n {
                let sum = operands.sum(problem, at, [row, column]);
                all.push((at.d + row * n + column, sum));
            }
        }
    }
    all
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
    check_rows::<A, B, D>(device, config, problem, None, seed);
}

/// Runs the kernel on random operands, and compares D with the definition. Elements that belong to
/// no GEMM stay.
#[track_caller]
fn check_rows<A: Real, B: Real, D: Real + Converted>(
    device: &Device,
    config: ScaledGemmConfig,
    problem: &ScaledGemmProblem,
    rows: Option<&Rows>,
    seed: u64,
) {
    let rng = &mut Rng::new(seed);
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
    let (own, strides) = match problem.batch {
        ScaledBatch::Uniform { count, strides } => (count as usize, strides),
        ScaledBatch::Grouped { .. } => (1, BatchStrides::default()),
    };
    let len = |count: usize, stride: Option<u64>, one: usize| match count {
        0 => 0,
        _ => (count - 1) * stride.map_or(one, |stride| stride as usize) + one,
    };
    let b_count = problem.batch.count() as usize;
    let a: Vec<A> = integers(len(own, strides.a, m * k), rng);
    let b: Vec<B> = integers(len(b_count, strides.b, n * k), rng);
    let d_len = len(own, strides.d, m * n);
    let [a_scales, b_scales] = problem.scale_lens().map(|len| scales(len, rng));
    let (a_at, b_at) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let [a_scales_at, b_scales_at] = [&a_scales, &b_scales].map(|all| device.upload(all).unwrap());
    let mut d = device.upload(&vec![D::of(UNTOUCHED); d_len + 16]).unwrap();
    let bounds = rows.map(|rows| match rows {
        Rows::Starts(bounds) | Rows::Counts(bounds, _) => device.upload(bounds).unwrap(),
    });
    let groups = rows.zip(bounds.as_ref()).map(|(rows, bounds)| match rows {
        Rows::Starts(_) => GroupRows::Starts(bounds),
        Rows::Counts(..) => GroupRows::Counts(bounds),
    });
    let gemm = ScaledGemm::<A, B, D>::new(config).unwrap().load(device).unwrap();
    let args = ScaledGemmArgs {
        a: &a_at,
        a_scales: &a_scales_at,
        b: &b_at,
        b_scales: &b_scales_at,
        d: &mut d,
        groups,
    };
    gemm.launch(problem, args).unwrap();
    let exact_a: Vec<f64> = a.iter().map(|x| x.to()).collect();
    let exact_b: Vec<f64> = b.iter().map(|x| x.to()).collect();
    let operands = Operands { a: &exact_a, a_scales: &a_scales, b: &exact_b, b_scales: &b_scales };
    let mut values = vec![D::of(UNTOUCHED).to(); d_len + 16];
    for (at, sum) in expected(problem, &operands, rows) {
        values[at] = D::of(sum as f32).to();
    }
    let what = format!("{config} of {problem:?} {rows:?} on {}", device.name());
    for (at, found) in d.to_vec().unwrap().into_iter().enumerate() {
        let (row, column) = (at / n.max(1), at % n.max(1));
        assert_eq!(found.to(), values[at], "{what}: ({row}, {column})");
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

/// A batch of GEMMs: matrices that follow each other, with gaps, and shared ones. Each block
/// computes tiles of several.
#[test]
fn batches() {
    let gaps = BatchStrides {
        a: Some(70 * 272 + 32),
        a_scales: Some(1000),
        b: Some(200 * 272 + 16),
        b_scales: Some(777),
        d: Some(70 * 200 + 8),
    };
    let shared_b = BatchStrides { b: Some(0), b_scales: Some(0), ..BatchStrides::default() };
    let shared_a = BatchStrides { a: Some(0), a_scales: Some(0), ..BatchStrides::default() };
    for device in devices() {
        for (seed, strides) in (0..).zip([BatchStrides::default(), gaps, shared_b, shared_a]) {
            for b_block in [BScaleBlock::Square128, BScaleBlock::Row128] {
                let batch = ScaledBatch::Uniform { count: 3, strides };
                let problem = ScaledGemmProblem::new(70, 200, 272);
                let problem = ScaledGemmProblem { b_block, batch, ..problem };
                let config = ScaledGemmConfig { b_block, ..config_of([64, 96], 3, [1, 1]) };
                check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, seed);
            }
        }
        let problem = ScaledGemmProblem::new(130, 136, 144).batched(2);
        let config = config_of([128, 64], 3, [2, 1]);
        check::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, 9);
    }
}

/// The configuration with this tile for groups.
fn grouped(tile: [u32; 2], b_block: BScaleBlock) -> ScaledGemmConfig {
    ScaledGemmConfig { batch: BatchMode::Grouped, b_block, ..config_of(tile, 3, [1, 1]) }
}

/// Groups of rows, each with its own B: empty ones, ones that end inside tiles and inside a
/// consumer's 64 rows, one that leaves a consumer without rows, and more groups than blocks.
#[test]
fn groups() {
    let contiguous = Rows::Starts(vec![0, 70, 70, 90, 300, 301, 301]);
    let masked = Rows::Counts(vec![0, 80, 1, 64, 33], 80);
    let many = Rows::Starts(
        (0..=40)
            .map(|group| group * (group % 5) / 2 + group)
            .scan(0, |end, next| {
                *end = next.max(*end);
                Some(*end)
            })
            .collect(),
    );
    for device in devices() {
        for (rows, k) in [(&contiguous, 336), (&masked, 528), (&many, 128)] {
            for (tile, b_block) in [
                ([64, 64], BScaleBlock::Square128),
                ([128, 112], BScaleBlock::Square128),
                ([256, 64], BScaleBlock::Square128),
                ([128, 96], BScaleBlock::Row128),
            ] {
                let problem = ScaledGemmProblem { b_block, ..rows.problem(200, k) };
                let config = grouped(tile, b_block);
                check_rows::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, Some(rows), 1);
            }
        }
        // Blocks that find no tile, in strips of a single row of tiles.
        let rows = Rows::Starts(vec![0, 20]);
        let config = grouped([64, 64], BScaleBlock::Square128);
        let config = ScaledGemmConfig { raster: Raster::Swizzle { width: 1 }, ..config };
        let problem = rows.problem(200, 128);
        check_rows::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, Some(&rows), 1);
        // All groups are empty, and D has rows of no group.
        let rows = Rows::Counts(vec![0; 4], 16);
        let (problem, config) = (rows.problem(64, 128), grouped([64, 64], BScaleBlock::Square128));
        check_rows::<f8e4m3, f8e4m3, f32>(
            &device,
            ScaledGemmConfig { d: Scalar::F32, ..config },
            &problem,
            Some(&rows),
            1,
        );
    }
}

/// A graph replays with other group sizes: the host does not know them.
#[test]
fn groups_in_a_graph() {
    for device in devices() {
        let problem = ScaledGemmProblem::new(200, 64, 128).grouped(3);
        let config = grouped([64, 64], BScaleBlock::Square128);
        let gemm = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config).unwrap().load(&device).unwrap();
        let a = device.upload(&[f8e4m3::from_f32(1.0); 200 * 128]).unwrap();
        let b = device.upload(&[f8e4m3::from_f32(0.5); 3 * 64 * 128]).unwrap();
        let a_scales = device.upload(&[1.0; 200]).unwrap();
        let b_scales = device.upload(&[1.0, 2.0, 3.0]).unwrap();
        let mut d = device.zeros::<bf16>(200 * 64).unwrap();
        let mut starts = device.zeros::<i32>(4).unwrap();
        let graph = device.graph().unwrap();
        let args = ScaledGemmArgs {
            a: &a,
            a_scales: &a_scales,
            b: &b,
            b_scales: &b_scales,
            d: &mut d,
            groups: Some(GroupRows::Starts(&starts)),
        };
        gemm.on(graph.stream()).launch(&problem, args).unwrap();
        let graph = graph.finish().unwrap();
        for sizes in [[200, 0, 0], [0, 0, 200], [65, 70, 65]] {
            let ends = [0, sizes[0], sizes[0] + sizes[1], 200];
            starts.write(&ends.map(|end| end as i32)).unwrap();
            graph.launch().unwrap();
            for (at, found) in d.to_vec().unwrap().into_iter().enumerate() {
                let group = ends[1..].iter().position(|end| at / 64 < *end).unwrap();
                assert_eq!(found.to_f32(), 64.0 * (group + 1) as f32, "{sizes:?}: {at}");
            }
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
    let rows = Rows::Starts(vec![0, 10, 10, 210, 340]);
    for b_block in [BScaleBlock::Square128, BScaleBlock::Row128] {
        let groups = ScaledGemmProblem { b_block, ..rows.problem(136, 400) };
        let config = grouped([128, 64], b_block);
        check_rows::<f8e4m3, f8e4m3, bf16>(&device, config, &groups, Some(&rows), 1);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 60 } else { 5 }, ..ProptestConfig::default() })]

    #[test]
    fn random_groups(
        sizes in prop::collection::vec(prop_oneof![Just(0), 1i32..20, 60i32..140], 1..12),
        is_masked in any::<bool>(),
        n in 1u32..30,
        k in 1u32..40,
        has_column_scales in any::<bool>(),
        choice in 0usize..8,
        seed in 0u64..1000,
    ) {
        let rows = match is_masked {
            true => Rows::Counts(sizes, 140),
            false => Rows::Starts(std::iter::once(0).chain(sizes.into_iter().scan(0, |end, size| {
                *end += size;
                Some(*end)
            })).collect()),
        };
        let mut problem = rows.problem(8 * n, 16 * k);
        if has_column_scales {
            problem.b_block = BScaleBlock::Row128;
        }
        for device in devices() {
            let all = ScaledGemmConfig::candidates(device.target(), Scalar::Bf16, &problem);
            let config = all[choice % all.len()];
            check_rows::<f8e4m3, f8e4m3, bf16>(&device, config, &problem, Some(&rows), seed);
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
    let of_groups = [
        grouped([256, 128], BScaleBlock::Square128),
        grouped([128, 192], BScaleBlock::Square128),
        grouped([256, 80], BScaleBlock::Row128),
        grouped([128, 128], BScaleBlock::Row128),
    ];
    for config in sample(5, all).chain([widest, tallest]).chain(of_groups) {
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
        "sm90a_bf16_128x160x128_s5_ragged_strip2",
        "sm90a_bf16_128x160x128_s5_grouped_b1x128_strip2",
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
        ScaledGemmConfig { batch: BatchMode::Grouped, cluster: [2, 1], ..config },
        ScaledGemmConfig { batch: BatchMode::Ragged, ..config },
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

/// Batches that TMA cannot describe, and launches that do not fit the kernel.
#[test]
fn refused_batches() {
    let of = |strides: BatchStrides| {
        let batch = ScaledBatch::Uniform { count: 2, strides };
        ScaledGemmProblem { batch, ..ScaledGemmProblem::new(8, 16, 32) }.check(16)
    };
    for strides in [
        BatchStrides { a: Some(24), ..BatchStrides::default() },
        BatchStrides { b: Some(8), ..BatchStrides::default() },
        BatchStrides { d: Some(4), ..BatchStrides::default() },
        BatchStrides { d: Some(64), ..BatchStrides::default() },
    ] {
        let error = of(strides).unwrap_err();
        assert!(matches!(error, ScaledGemmError::BatchStride { .. }), "{strides:?}: {error}");
    }
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let launch = |config: ScaledGemmConfig, problem: ScaledGemmProblem, bounds: Option<&[i32]>| {
        let gemm = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config).unwrap().load(&device).unwrap();
        let x = device.zeros::<f8e4m3>(4096).unwrap();
        let scales = device.zeros::<f32>(64).unwrap();
        let mut d = device.zeros::<bf16>(4096).unwrap();
        let bounds = bounds.map(|bounds| device.upload(bounds).unwrap());
        let groups = bounds.as_ref().map(GroupRows::Counts);
        let args = ScaledGemmArgs {
            a: &x,
            a_scales: &scales,
            b: &x,
            b_scales: &scales,
            d: &mut d,
            groups,
        };
        gemm.launch(&problem, args).map_err(|error| error.to_string())
    };
    let (plain, problem) = (config_of([64, 64], 2, [1, 1]), ScaledGemmProblem::new(12, 16, 32));
    let groups = grouped([64, 64], BScaleBlock::Square128);
    let of_rows = ScaledGemmProblem { b_block: BScaleBlock::Row128, ..problem };
    for (config, problem, bounds, why) in [
        (
            plain,
            of_rows,
            None,
            "a scale of B belongs to 1x128 elements, but the kernel was built for 128x128",
        ),
        (plain, problem.grouped(2), None, "the problem is grouped, but the kernel is not"),
        (groups, problem, None, "the kernel is grouped, but the problem is not"),
        (groups, problem.grouped(2), None, "the kernel is grouped, but no `GroupRows` are given"),
        (plain, problem, Some(&[1, 2][..]), "`GroupRows` are given, but the kernel is not grouped"),
        (
            groups,
            problem.grouped(3),
            Some(&[1, 2]),
            "the buffer for the group counts has 2 elements, but 3 are needed",
        ),
        (
            groups,
            problem.grouped(5),
            Some(&[1; 5]),
            "12 rows do not divide into 5 groups with room for equally many rows",
        ),
    ] {
        assert_eq!(launch(config, problem, bounds), Err(why.to_owned()));
    }
}
