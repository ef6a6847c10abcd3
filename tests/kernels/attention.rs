//! Attention, compared with its definition in `f64`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::attention::{
    Attention, AttentionArgs, AttentionConfig, AttentionError, AttentionProblem, AttentionSchedule,
    SoftmaxOverlap,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;

use super::matrix::{Real, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

#[path = "../../examples/attention.rs"]
mod example;

#[test]
fn the_example_runs() {
    devices().iter().for_each(|device| example::run(device).unwrap());
}

/// The number in the output before a launch, which must stay between rows.
const UNTOUCHED: f32 = -77.0;

/// A tensor (batch, head, position, dimension) with NaN between its rows.
fn tensor<T: Real>([batch, heads, len, dim]: [u32; 4], strides: [u64; 3], rng: &mut Rng) -> Vec<T> {
    let [position, head, sequence] = strides.map(|stride| stride as usize);
    let [batch, heads, len, dim] = [batch, heads, len, dim].map(|size| size as usize);
    if [batch, heads, len].contains(&0) {
        return Vec::new();
    }
    let size = (batch - 1) * sequence + (heads - 1) * head + (len - 1) * position + dim;
    let mut all = vec![T::of(f32::NAN); size];
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..len {
                let row = &mut all[b * sequence + h * head + i * position..][..dim];
                // A sum of uniform numbers with variance 1.
                row.fill_with(|| {
                    let sum: f32 = (0..12).map(|_| rng.below(1001) as f32 / 1000.0).sum();
                    T::of(sum - 6.0)
                });
            }
        }
    }
    all
}

#[track_caller]
fn check<T: Real + VectorElement<2>>(
    device: &Device,
    config: AttentionConfig,
    problem: &AttentionProblem,
    seed: u64,
) {
    let AttentionProblem { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } =
        *problem;
    let rng = &mut Rng::new(seed);
    let q: Vec<T> = tensor([batch, heads, queries, head_dim], problem.q_strides(), rng);
    let k: Vec<T> = tensor([batch, key_heads, keys, head_dim], problem.k_strides(), rng);
    let v: Vec<T> = tensor([batch, key_heads, keys, value_dim], problem.v_strides(), rng);
    let shape_o = [batch, heads, queries, value_dim];
    let len = tensor::<T>(shape_o, problem.o_strides(), rng).len();
    let attention = Attention::<T>::new(config).unwrap().load(device).unwrap();
    let mut o = device.upload(&vec![T::of(UNTOUCHED); len]).unwrap();
    let mut lse = device.upload(&vec![UNTOUCHED; (batch * heads * queries) as usize]).unwrap();
    let [q_at, k_at, v_at] = [&q, &k, &v].map(|x| device.upload(x).unwrap());
    let args =
        AttentionArgs { q: &q_at, k: &k_at, v: &v_at, o: &mut o, lse: &mut lse, starts: None };
    attention.launch(problem, args).unwrap();
    let (o, lse) = (o.to_vec().unwrap(), lse.to_vec().unwrap());
    let what = format!("{config} of {problem:?} on {}", device.name());
    let mut written = vec![false; o.len()];
    let group = heads / key_heads.max(1);
    let at = |strides: [u64; 3], b: u32, h: u32, i: u32| {
        let [position, head, sequence] = strides;
        (u64::from(b) * sequence + u64::from(h) * head + u64::from(i) * position) as usize
    };
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        for i in 0..queries {
            let q = &q[at(problem.q_strides(), b, h, i)..][..head_dim as usize];
            let visible = problem.visible(i);
            let score = |j: u32| {
                let k = &k[at(problem.k_strides(), b, h / group, j)..][..head_dim as usize];
                let dot: f64 = q.iter().zip(k).map(|(q, k)| q.to() * k.to()).sum();
                let score = dot * f64::from(problem.scale());
                problem
                    .softcap
                    .map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            };
            let scores: Vec<f64> = visible.clone().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            let expected = if scores.is_empty() { f64::NEG_INFINITY } else { max + sum.ln() };
            let found = f64::from(lse[((b * heads + h) * queries + i) as usize]);
            // `tanh.approx` has an error of 2^-11.
            let slack = 1e-4 + problem.softcap.map_or(0.0, |cap| f64::from(cap) * 1e-3);
            let close = found == expected || (found - expected).abs() <= slack;
            assert!(close, "{what}: the LSE of ({b}, {h}, {i}) is {found}, not {expected}");
            let mut row = vec![0.0; value_dim as usize];
            for (j, s) in visible.zip(&scores) {
                let v = &v[at(problem.v_strides(), b, h / group, j)..][..value_dim as usize];
                let power = (s - max).exp() / sum;
                row.iter_mut().zip(v).for_each(|(o, v)| *o += power * v.to());
            }
            let first = at(problem.o_strides(), b, h, i);
            for (d, expected) in row.into_iter().enumerate() {
                let found = o[first + d].to();
                written[first + d] = true;
                // The powers and the output are rounded.
                let slack = 2.0 * T::EPSILON * (1.0 + expected.abs()) + 4.0 * (slack - 1e-4);
                let close = (found - expected).abs() <= slack;
                assert!(close, "{what}: ({b}, {h}, {i}, {d}) is {found}, not {expected}");
            }
        }
    }
    let outside = o.iter().zip(&written).filter(|(_, written)| !**written);
    assert!(outside.clone().all(|(o, _)| o.to() == f64::from(UNTOUCHED)), "{what}: wrote outside");
}

fn config(problem: &AttentionProblem, tile: [u32; 2]) -> AttentionConfig {
    AttentionConfig { tile, ..AttentionConfig::new(Target::SM_90A, problem).unwrap() }
}

/// A configuration with `mma.sync`.
fn multistage(
    problem: &AttentionProblem,
    tile: [u32; 2],
    [warps, stages]: [u32; 2],
) -> AttentionConfig {
    let schedule = AttentionSchedule::Multistage { warps };
    let config = AttentionConfig::sm80(Target::SM_90A, problem).unwrap();
    AttentionConfig { tile, schedule, stages, ..config }
}

/// A configuration of each schedule: 4 warps with 16 queries each, or with 32.
fn both(problem: &AttentionProblem, tile: [u32; 2]) -> [AttentionConfig; 2] {
    let [rows, columns] = [tile[0].min(128), tile[1].next_multiple_of(32)];
    let stages = if columns > 64 { 2 } else { 3 };
    [config(problem, tile), multistage(problem, [rows, columns.min(64)], [4, stages])]
}

#[test]
fn full_attention_of_dimension_128() {
    for device in devices() {
        let problem = AttentionProblem::new([1, 1, 1], [130, 300], 128);
        for config in both(&problem, [128, 128]) {
            check::<bf16>(&device, config, &problem, 1);
        }
    }
}

#[test]
fn dimensions_tiles_and_types() {
    for device in devices() {
        let forms = [
            (64, 64, [192, 128]),
            (64, 64, [64, 16]),
            (32, 32, [128, 64]),
            (96, 96, [128, 128]),
            (128, 128, [128, 176]),
            (192, 128, [128, 112]),
            (256, 256, [128, 80]),
        ];
        for (head_dim, value_dim, tile) in sample(3, forms) {
            let problem = AttentionProblem::new([1, 2, 1], [97, 200], head_dim);
            let problem = AttentionProblem { value_dim, ..problem };
            check::<bf16>(&device, config(&problem, tile), &problem, 2);
            let overlap =
                if head_dim == 64 { SoftmaxOverlap::Free } else { SoftmaxOverlap::Softmax };
            let problem = problem.causal();
            let config = AttentionConfig { overlap, ..config(&problem, tile) };
            check::<f16>(&device, config, &problem, 3);
        }
    }
}

/// The tiles of `mma.sync`: lines of 64 and of 128 bytes, 16 and 32 queries of a warp, other
/// values.
#[test]
fn dimensions_tiles_and_types_of_mma_sync() {
    for device in devices() {
        let forms = [
            (64, 64, [128, 64], [4, 2]),
            (32, 32, [64, 32], [4, 2]),
            (96, 96, [128, 64], [4, 2]),
            (128, 128, [128, 64], [4, 2]),
            (64, 64, [64, 16], [4, 4]),
            (32, 128, [64, 64], [4, 2]),
            (192, 128, [128, 64], [8, 2]),
            (128, 64, [256, 32], [8, 2]),
            (256, 256, [64, 64], [4, 2]),
        ];
        for (head_dim, value_dim, tile, of_block) in sample(2, forms) {
            let problem = AttentionProblem::new([1, 2, 1], [97, 200], head_dim);
            let problem = AttentionProblem { value_dim, ..problem };
            check::<bf16>(&device, multistage(&problem, tile, of_block), &problem, 2);
            let problem = problem.causal();
            check::<f16>(&device, multistage(&problem, tile, of_block), &problem, 3);
        }
    }
}

/// Causal and with windows, more queries than keys and fewer, queries without keys.
#[test]
fn masks() {
    for device in devices() {
        for lens in [[200, 200], [70, 260], [260, 70], [1, 129], [129, 1]] {
            for [left, right] in [
                [None, Some(0)],
                [None, Some(17)],
                [Some(0), Some(0)],
                [Some(40), Some(0)],
                [Some(90), Some(3)],
                [Some(33), None],
            ] {
                let problem = AttentionProblem::new([1, 1, 1], lens, 64);
                let problem = AttentionProblem { left, right, ..problem };
                let of_warps = multistage(&problem, [128, 64], [4, 2]);
                check::<bf16>(&device, config(&problem, [128, 64]), &problem, 4);
                if slow() || lens[0] != 200 {
                    check::<bf16>(&device, of_warps, &problem, 4);
                }
            }
        }
    }
}

#[test]
fn heads_strides_softcap_and_scale() {
    for device in devices() {
        let problem = AttentionProblem::new([2, 6, 2], [75, 140], 64);
        // (batch, position, head, dimension), with space between heads and sequences.
        let interleaved = |heads: u64, len: u64| Some([heads * 72, 72, heads * 72 * (len + 3)]);
        let problem = AttentionProblem {
            scale: Some(0.2),
            softcap: Some(3.0),
            q: interleaved(6, 75),
            k: interleaved(2, 140),
            v: interleaved(2, 140),
            o: interleaved(6, 75),
            ..problem
        };
        for config in both(&problem, [64, 64]) {
            check::<bf16>(&device, config, &problem, 5);
        }
        for config in both(&problem.causal(), [192, 64]) {
            check::<f16>(&device, config, &problem.causal(), 6);
        }
    }
}

/// Rows of 4 or of 64 heads in one tile.
#[test]
fn heads_share_a_tile() {
    for device in devices() {
        for ([heads, key_heads], queries) in [([8, 2], 37), ([64, 1], 3)] {
            let problem = AttentionProblem::new([2, heads, key_heads], [queries, 70], 64);
            let of_heads = u64::from(heads) * 72;
            let interleaved = Some([of_heads, 72, of_heads * u64::from(queries + 1)]);
            let problem = AttentionProblem { q: interleaved, o: interleaved, ..problem.causal() };
            for config in both(&problem, [128, 64]) {
                assert_eq!(config.packed_heads, heads / key_heads, "{config}");
                check::<bf16>(&device, config, &problem, 9);
            }
        }
    }
}

#[test]
fn empty_problems() {
    for device in devices() {
        for (sizes, lens) in
            [([1, 2, 1], [70, 0]), ([0, 2, 1], [70, 70]), ([1, 2, 1], [0, 70]), ([1, 0, 0], [5, 5])]
        {
            let problem = AttentionProblem::new(sizes, lens, 64);
            for problem in [problem, problem.causal()] {
                for config in both(&problem, [128, 64]) {
                    check::<bf16>(&device, config, &problem, 7);
                }
            }
        }
    }
}

/// Several tiles for each block, so that all rings are used again, without a data race in
/// adversarial schedules and a random one.
#[test]
fn no_data_race() {
    let options =
        Options::default().target(Target::SM_90A).race(true).schedules(if slow() { 20 } else { 3 });
    let device = Device::sim_with(options);
    let full = AttentionProblem::new([1, 3, 1], [260, 150], 64);
    let causal = AttentionProblem::new([1, 2, 1], [300, 150], 64).causal();
    let cases = [([128, 64], full), ([128, 64], causal), ([192, 32], full), ([192, 32], causal)];
    for (tile, problem) in sample(3, cases) {
        for config in [config(&problem, tile), multistage(&problem, [64, 32], [4, 3])] {
            check::<bf16>(&device, config, &problem, 8);
        }
    }
    // One tile of Q, items of one step, and outputs that pass through a ring in an even and an odd
    // number of parts, or through none.
    for (dim, tile) in sample(1, [(256, [128, 64]), (192, [128, 96]), (256, [128, 80])]) {
        let problem = AttentionProblem::new([1, 5, 1], [70, 40], dim);
        let config = config(&problem, tile);
        assert_eq!(config.query_stages(), 1);
        check::<bf16>(&device, config, &problem, 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 12 } else { 5 }, ..ProptestConfig::default() })]

    #[test]
    fn random_problems(
        sizes in (1u32..3, 1u32..3, 1u32..3),
        lens in [0u32..300, 0u32..300],
        window in [proptest::option::of(0u32..300), proptest::option::of(0u32..300)],
        seed in 0u64..1000,
    ) {
        let (batch, key_heads, group) = sizes;
        let [left, right] = window;
        let problem = AttentionProblem::new([batch, key_heads * group, key_heads], lens, 64);
        let problem = AttentionProblem { left, right, ..problem };
        for device in devices() {
            for config in both(&problem, [128, 96]) {
                check::<bf16>(&device, config, &problem, seed);
            }
        }
    }
}

/// No spilled registers, no `wgmma` that `ptxas` runs one after the other, and no fence that it has
/// to add.
#[test]
fn kernels_assemble_without_spills() {
    for head_dim in [64, 96, 128, 192, 256] {
        let problem = AttentionProblem::new([1, 1, 1], [8192, 8192], head_dim);
        let problem =
            AttentionProblem { value_dim: if head_dim == 192 { 128 } else { head_dim }, ..problem };
        let forms = [
            (problem, SoftmaxOverlap::Maxima),
            (problem, SoftmaxOverlap::Softmax),
            (problem.causal(), SoftmaxOverlap::Maxima),
            (problem.causal(), SoftmaxOverlap::Free),
        ];
        for (problem, overlap) in sample(3, forms) {
            let config = AttentionConfig::new(Target::SM_90A, &problem).unwrap();
            let config = AttentionConfig { overlap, ..config };
            let attention = Attention::<bf16>::new(config).unwrap();
            text::check_round_trip(attention.ir());
            let Some(ptxas) = ptxas::find() else { continue };
            let report = ptxas.report(attention.ptx().text(), "sm_90a").unwrap();
            let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
            assert!(clean && !report.contains("C75"), "{config}: {report}");
        }
    }
}

/// No spilled registers, on the oldest target and the newest.
#[test]
fn kernels_of_mma_sync_assemble_without_spills() {
    for (head_dim, value_dim) in [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)] {
        let problem = AttentionProblem::new([1, 1, 1], [8192, 8192], head_dim);
        let problem = AttentionProblem { value_dim, ..problem };
        for (target, problem) in [(Target::SM_80, problem), (Target::SM_90A, problem.causal())] {
            let config = AttentionConfig::sm80(target, &problem).unwrap();
            let attention = Attention::<bf16>::new(config).unwrap();
            text::check_round_trip(attention.ir());
            let Some(ptxas) = ptxas::find() else { continue };
            let report = ptxas.report(attention.ptx().text(), &target.to_string()).unwrap();
            // A few values are spilled in the widest form.
            let few = head_dim == 128 && report.contains(", 12 bytes spill stores");
            let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
            assert!(clean || few, "{config} of {target}: {report}");
        }
    }
}

#[test]
fn candidates_compute_attention() {
    let problem = AttentionProblem::new([1, 4, 2], [40, 150], 64).causal();
    for target in [Target::SM_90A, Target::SM_80] {
        let device = Device::sim_for(target).unwrap();
        for config in sample(13, AttentionConfig::candidates(target, &problem)) {
            check::<bf16>(&device, config, &problem, 11);
        }
    }
}

/// Candidates pass the checks, have different names, and spill no registers, but for the first one.
#[test]
fn candidates_assemble_without_spills() {
    for (head_dim, value_dim) in [(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)] {
        let problem = AttentionProblem::new([1, 8, 2], [8192, 8192], head_dim);
        let problem = AttentionProblem { value_dim, ..problem };
        let window = AttentionProblem { softcap: Some(30.0), left: Some(1000), ..problem.causal() };
        for (target, problem) in
            [(Target::SM_90A, problem), (Target::SM_90A, window), (Target::SM_80, problem.causal())]
        {
            let all = AttentionConfig::candidates(target, &problem);
            assert_eq!(all[0], AttentionConfig::new(target, &problem).unwrap());
            assert!(all.iter().all(|config| config.check_problem(&problem).is_ok()));
            let names: BTreeSet<String> = all.iter().map(AttentionConfig::to_string).collect();
            assert!(names.len() == all.len() && all.len() >= 5, "{names:?}");
            for config in sample(10, all.into_iter().skip(1)) {
                let Some(ptxas) = ptxas::find() else { continue };
                let attention = Attention::<bf16>::new(config).unwrap();
                let report = ptxas.report(attention.ptx().text(), &target.to_string()).unwrap();
                let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
                assert!(clean && !report.contains("C75"), "{config} of {target}: {report}");
            }
        }
    }
}

/// Every target has a kernel, for all dimensions.
#[test]
fn other_targets_than_sm_90a_have_mma_sync() {
    for target in [Target::SM_80, Target::SM_89, Target::SM_90] {
        for head_dim in (32..=256).step_by(32) {
            let problem = AttentionProblem::new([1, 1, 1], [500, 500], head_dim).causal();
            let config = AttentionConfig::new(target, &problem).unwrap();
            assert!(matches!(config.schedule, AttentionSchedule::Multistage { .. }), "{config}");
            assert_eq!(config, AttentionConfig::sm80(target, &problem).unwrap());
        }
    }
    let problem = AttentionProblem::new([1, 2, 1], [70, 90], 64).causal();
    for target in [Target::SM_80, Target::SM_89] {
        let device = Device::sim_for(target).unwrap();
        check::<bf16>(&device, AttentionConfig::new(target, &problem).unwrap(), &problem, 9);
    }
}

/// The default of each class of problems. What `wgmma` does not take goes to `mma.sync`.
#[test]
fn defaults_of_classes() {
    let name = |dims: [u32; 2], len, causal: bool, varlen| {
        let [head_dim, value_dim] = dims;
        let problem = AttentionProblem::new([8, 16, 16], [len, len], head_dim);
        let right = causal.then_some(0);
        let problem = AttentionProblem { value_dim, right, varlen, ..problem };
        AttentionConfig::new(Target::SM_90A, &problem).unwrap().to_string()
    };
    for (dims, len, causal, expected) in [
        ([64, 64], 1024, false, "d64_192x128_s3_ordered_lazy"),
        ([64, 64], 4096, true, "d64_128x128_s3_right"),
        ([64, 64], 8192, true, "d64_192x128_s3_right_ordered_lazy"),
        ([96, 96], 4096, true, "d96_192x96_s3_right_lazy"),
        ([128, 128], 1024, false, "d128_128x128_s2_lazy"),
        ([128, 128], 4096, false, "d128_192x80_s3_lazy"),
        ([128, 128], 4096, true, "d128_128x128_s2_right_lazy"),
        ([128, 128], 8192, true, "d128_128x160_s2_right_lazy"),
        ([192, 128], 4096, false, "d192x128_192x80_s2_lazy"),
        ([192, 128], 4096, true, "d192x128_128x96_s2_right_lazy"),
        ([256, 256], 4096, false, "d256_128x64_s2_lazy"),
        ([64, 128], 4096, false, "d64x128_128x64_s3_warps4"),
    ] {
        assert_eq!(name(dims, len, causal, false), expected);
    }
    // The positions of 8 sequences together.
    assert_eq!(name([128, 128], 8192, false, true), "d128_128x128_s2_lazy_varlen");
    for target in [Target::SM_80, Target::SM_90A] {
        let problem = AttentionProblem::new([1, 1, 1], [1, 1], u32::MAX);
        let error = AttentionConfig::new(target, &problem).unwrap_err();
        assert!(matches!(error, AttentionError::HeadDim { .. }), "{error}");
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let problem = AttentionProblem::new([1, 4, 2], [64, 64], 64);
    let right = config(&problem, [128, 64]);
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let refused = |problem: &AttentionProblem| right.check_problem(problem).unwrap_err();
    let error = refused(&AttentionProblem { key_heads: 3, ..problem });
    assert_eq!(error.to_string(), "4 query heads are not a multiple of 3 key heads");
    let error = refused(&problem.causal());
    assert_eq!(
        error.to_string(),
        "the problem has a bounded window after a query, but the kernel was configured without one"
    );
    let error = refused(&AttentionProblem { scale: Some(-1.0), ..problem });
    assert!(matches!(error, AttentionError::Scale { .. }), "{error}");
    let error = refused(&AttentionProblem { queries: 1 << 29, ..problem });
    assert!(matches!(error, AttentionError::TooLarge { .. }), "{error}");
    let error = refused(&AttentionProblem { head_dim: 128, ..problem });
    assert!(matches!(error, AttentionError::HeadDim { which: "head", found: 128, .. }), "{error}");
    for (other, part) in [
        (AttentionConfig { tile: [256, 64], ..right }, "the query count must be 64, 128 or 192"),
        (AttentionConfig { tile: [128, 40], ..right }, "the key count must be a multiple of 16"),
        (AttentionConfig { stages: 0, ..right }, "the stage count must be 1 to 8"),
        (AttentionConfig { head_dim: 80, ..right }, "a multiple of 32"),
        (AttentionConfig { value_dim: 128, ..right }, "at most the head dimension"),
        (AttentionConfig { tile: [128, 256], ..right }, "registers for elements"),
        (AttentionConfig { stages: 8, tile: [128, 128], ..right }, "bytes of shared memory"),
        (AttentionConfig { target: Target::SM_80, ..right }, "needs sm_90a"),
    ] {
        let error = Attention::<bf16>::new(other).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let warps = multistage(&problem, [128, 64], [4, 2]);
    for (other, part) in [
        (AttentionConfig { tile: [96, 64], ..warps }, "each warp must have 16 or 32 queries"),
        (AttentionConfig { tile: [128, 72], ..warps }, "the key count must be a multiple of 16"),
        (
            AttentionConfig { schedule: AttentionSchedule::Multistage { warps: 3 }, ..warps },
            "the warp count must be 4 or 8",
        ),
        (AttentionConfig { head_dim: 96, tile: [128, 48], ..warps }, "the keys must divide evenly"),
        (
            AttentionConfig { packed_heads: 3, ..warps },
            "the number of heads that share it must divide 64",
        ),
        (AttentionConfig { stages: 1, ..warps }, "the stage count must be 2 to 8"),
        (AttentionConfig { tile: [128, 256], ..warps }, "registers for elements"),
        (AttentionConfig { stages: 8, head_dim: 256, ..warps }, "bytes of shared memory"),
    ] {
        let error = Attention::<bf16>::new(other).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let attention = Attention::<f16>::new(warps).unwrap().load(&device).unwrap();
    let problem_of = |strides| AttentionProblem { k: Some(strides), ..problem };
    for strides in [[68, 64 * 64, 0], [64, 70 * 64 + 4, 0], [64, 64 * 64, 1]] {
        let all = device.zeros::<f16>(4 * 64 * 72).unwrap();
        let mut o = device.zeros::<f16>(4 * 64 * 64).unwrap();
        let mut lse = device.zeros::<f32>(4 * 64).unwrap();
        let args =
            AttentionArgs { q: &all, k: &all, v: &all, o: &mut o, lse: &mut lse, starts: None };
        let error = attention.launch(&problem_of(strides), args).unwrap_err();
        let expected = "the address of K and its strides must be multiples of 16 bytes";
        assert_eq!(error.to_string(), expected);
    }
    let error = Attention::<f16>::new(right).unwrap().load(&device).unwrap();
    let (short, mut o) =
        (device.zeros::<f16>(64).unwrap(), device.zeros::<f16>(4 * 64 * 64).unwrap());
    let mut lse = device.zeros::<f32>(4 * 64).unwrap();
    let args =
        AttentionArgs { q: &short, k: &short, v: &short, o: &mut o, lse: &mut lse, starts: None };
    let error = error.launch(&problem, args).unwrap_err();
    assert_eq!(error.to_string(), "the buffer for Q has 64 elements, but 16384 are needed");
}
