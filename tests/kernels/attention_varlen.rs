//! Attention of sequences of different lengths, and of heads that share a tile, compared with the
//! definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::attention::{
    Attention, AttentionArgs, AttentionConfig, AttentionError, AttentionProblem,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

/// Numbers with variance 1.
fn numbers<T: Real>(len: usize, rng: &mut Rng) -> Vec<T> {
    let mut number = || (0..12).map(|_| rng.below(1001) as f32 / 1000.0).sum::<f32>() - 6.0;
    (0..len).map(|_| T::of(number())).collect()
}

/// The sums of the numbers before each one, and of all.
fn starts(lens: impl Iterator<Item = u32>) -> Vec<i32> {
    let mut all = vec![0];
    lens.for_each(|len| all.push(all[all.len() - 1] + len as i32));
    all
}

/// The place of an element: head and position.
fn at(strides: [u64; 3], head: u32, position: u32) -> usize {
    (u64::from(head) * strides[1] + u64::from(position) * strides[0]) as usize
}

/// Runs sequences with these queries and keys, and compares each of them with its own attention.
#[track_caller]
fn check<T: Real + VectorElement<2>>(
    device: &Device,
    config: AttentionConfig,
    problem: &AttentionProblem,
    lens: &[[u32; 2]],
    seed: u64,
) {
    let AttentionProblem { heads, key_heads, queries, keys, head_dim: dim, .. } = *problem;
    let rng = &mut Rng::new(seed);
    let last = |strides, heads: u32, len: u32| match heads * len {
        0 => 0,
        _ => at(strides, heads - 1, len - 1) + dim as usize,
    };
    let (of_q, of_k) = (problem.q_strides(), problem.k_strides());
    let q: Vec<T> = numbers(last(of_q, heads, queries), rng);
    let [k, v] = [0; 2].map(|_| numbers::<T>(last(of_k, key_heads, keys), rng));
    let attention = Attention::<T>::new(config).unwrap().load(device).unwrap();
    let mut o = device
        .upload(&vec![T::of(UNTOUCHED); last(problem.o_strides(), heads, queries) + 8])
        .unwrap();
    let mut lse = device.upload(&vec![UNTOUCHED; (heads * queries) as usize]).unwrap();
    let [q_at, k_at, v_at] = [&q, &k, &v].map(|x| device.upload(x).unwrap());
    let starts = [0, 1].map(|i| starts(lens.iter().map(|lens| lens[i])));
    let starts_at = [&starts[0], &starts[1]].map(|starts| device.upload(starts).unwrap());
    let (o_at, lse_at, starts_at) = (&mut o, &mut lse, Some(starts_at.each_ref()));
    let args =
        AttentionArgs { q: &q_at, k: &k_at, v: &v_at, o: o_at, lse: lse_at, starts: starts_at };
    attention.launch(problem, args).unwrap();
    let (o, lse) = (o.to_vec().unwrap(), lse.to_vec().unwrap());
    let what = format!("{config} of {problem:?} with {lens:?} on {}", device.name());
    let mut written = vec![false; o.len()];
    for (number, [own_queries, own_keys]) in lens.iter().enumerate() {
        let [q_start, k_start] = [0, 1].map(|i| starts[i][number] as u32);
        let alone = AttentionProblem { queries: *own_queries, keys: *own_keys, ..*problem };
        for (h, i) in (0..heads).flat_map(|h| (0..*own_queries).map(move |i| (h, i))) {
            let q = &q[at(of_q, h, q_start + i)..][..dim as usize];
            let key_head = h / (heads / key_heads);
            let row = |j: u32| {
                at(of_k, key_head, k_start + j)..at(of_k, key_head, k_start + j) + dim as usize
            };
            let visible = alone.visible(i);
            let score = |j: u32| {
                let dot: f64 = q.iter().zip(&k[row(j)]).map(|(q, k)| q.to() * k.to()).sum();
                dot * f64::from(problem.scale())
            };
            let scores: Vec<f64> = visible.clone().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            let expected = if scores.is_empty() { f64::NEG_INFINITY } else { max + sum.ln() };
            let found = f64::from(lse[(h * queries + q_start + i) as usize]);
            let close = found == expected || (found - expected).abs() <= 1e-4;
            assert!(close, "{what}: the LSE of ({number}, {h}, {i}) is {found}, not {expected}");
            let mut expected = vec![0.0; dim as usize];
            for (j, s) in visible.zip(&scores) {
                let power = (s - max).exp() / sum;
                expected.iter_mut().zip(&v[row(j)]).for_each(|(o, v)| *o += power * v.to());
            }
            let first = at(problem.o_strides(), h, q_start + i);
            for (d, expected) in expected.into_iter().enumerate() {
                written[first + d] = true;
                let found = o[first + d].to();
                let close = (found - expected).abs() <= 2.0 * T::EPSILON * (1.0 + expected.abs());
                assert!(close, "{what}: ({number}, {h}, {i}, {d}) is {found}, not {expected}");
            }
        }
    }
    let mut outside = o.iter().zip(&written).filter(|(_, written)| !**written);
    assert!(outside.all(|(o, _)| o.to() == T::of(UNTOUCHED).to()), "{what}: wrote outside");
}

/// The problem of sequences with these queries and keys.
fn problem([heads, key_heads]: [u32; 2], lens: &[[u32; 2]], dim: u32) -> AttentionProblem {
    let [queries, keys] = [0, 1].map(|i| lens.iter().map(|lens| lens[i]).sum());
    AttentionProblem::new([lens.len() as u32, heads, key_heads], [queries, keys], dim).varlen()
}

fn config(problem: &AttentionProblem, tile: [u32; 2]) -> AttentionConfig {
    let config = AttentionConfig::new(Target::SM_90A, problem).unwrap();
    AttentionConfig { tile, packed_heads: 1, ..config }
}

/// A configuration of each schedule.
fn both(problem: &AttentionProblem, tile: [u32; 2]) -> [AttentionConfig; 2] {
    let warps = AttentionConfig::sm80(Target::SM_90A, problem).unwrap();
    [config(problem, tile), AttentionConfig { tile: [tile[0], 32], stages: 2, ..warps }]
}

/// Short, empty and long sequences, whole tiles, more queries than keys; also interleaved heads.
const LENS: [[u32; 2]; 6] = [[70, 70], [0, 9], [1, 130], [128, 64], [5, 0], [150, 40]];

#[test]
fn sequences_of_different_lengths() {
    for device in devices() {
        let full = problem([2, 1], &LENS, 64);
        for config in both(&full, [128, 64]) {
            check::<bf16>(&device, config, &full, &LENS, 1);
        }
        for config in both(&full.causal(), [64, 96]) {
            check::<f16>(&device, config, &full.causal(), &LENS, 2);
        }
        let interleaved = |heads: u64| Some([heads * 64, 64, 0]);
        let window = AttentionProblem {
            left: Some(30),
            right: Some(4),
            q: interleaved(2),
            o: interleaved(2),
            k: interleaved(1),
            v: interleaved(1),
            ..full
        };
        for config in both(&window, [128, 64]) {
            check::<bf16>(&device, config, &window, &LENS, 3);
        }
        let wide = problem([1, 1], &LENS[2..4], 128).causal();
        for config in both(&wide, [128, 128]) {
            check::<bf16>(&device, config, &wide, &LENS[2..4], 4);
        }
    }
}

/// Rows of 2, 4 or 8 heads in one tile.
#[test]
fn heads_share_a_tile() {
    let lens = [[3, 100], [20, 20], [0, 4], [70, 90]];
    for device in devices() {
        for group in [2, 4, 8] {
            let full = problem([2 * group, 2], &lens, 64);
            let window = AttentionProblem { left: Some(9), ..full.causal() };
            for problem in sample(2, [full, full.causal(), window]) {
                for config in both(&problem, [64, 64]) {
                    let config = AttentionConfig { packed_heads: group, ..config };
                    check::<bf16>(&device, config, &problem, &lens, u64::from(group));
                }
            }
        }
        // The configuration for short sequences packs them.
        let short = problem([8, 2], &[[1, 40], [2, 90]], 64);
        let config = AttentionConfig::new(Target::SM_90A, &short).unwrap();
        assert_eq!(config.packed_heads, 4);
        check::<f16>(
            &device,
            AttentionConfig { tile: [64, 64], ..config },
            &short,
            &[[1, 40], [2, 90]],
            9,
        );
    }
}

#[test]
fn nothing_to_do() {
    for device in devices() {
        for lens in [&[[0, 5], [0, 3]][..], &[[4, 0], [2, 0]]] {
            let none = problem([2, 1], lens, 64);
            for config in both(&none, [64, 64]) {
                check::<bf16>(&device, config, &none, lens, 1);
            }
        }
    }
}

#[test]
fn no_data_race() {
    let options = Options::default().target(Target::SM_90A).race(true).schedules(4);
    let device = Device::sim_with(options);
    let lens = [[140, 80], [3, 50]];
    let problem = problem([4, 2], &lens, 64).causal();
    for config in both(&problem, [128, 64]) {
        check::<bf16>(&device, config, &problem, &lens, 5);
    }
    for config in both(&problem, [64, 64]) {
        let config = AttentionConfig { packed_heads: 2, ..config };
        check::<bf16>(&device, config, &problem, &lens, 5);
    }
    // One tile of Q, and items of one step.
    let wide = self::problem([4, 2], &[[70, 40], [3, 50]], 256);
    check::<bf16>(&device, config(&wide, [128, 64]), &wide, &[[70, 40], [3, 50]], 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 8 } else { 4 }, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences(
        lens in prop::collection::vec([0u32..100, 0u32..150], 1..5),
        key_heads in 1u32..3,
        group in prop_oneof![Just(1u32), Just(2), Just(4)],
        pack: bool,
        causal: bool,
        seed in 0u64..1000,
    ) {
        let full = problem([key_heads * group, key_heads], &lens, 64);
        let problem = if causal { full.causal() } else { full };
        let packed_heads = if pack { group } else { 1 };
        for device in devices() {
            for config in both(&problem, [64, 64]) {
                let config = AttentionConfig { packed_heads, ..config };
                check::<bf16>(&device, config, &problem, &lens, seed);
            }
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    for (dim, group) in [(64, 1), (128, 1), (128, 8), (256, 4)] {
        let problem = AttentionProblem::new([4, 8 * group, 8], [8192, 8192], dim).causal().varlen();
        let config = AttentionConfig::new(Target::SM_90A, &problem).unwrap();
        let config = AttentionConfig { packed_heads: group, ..config };
        let attention = Attention::<bf16>::new(config).unwrap();
        text::check_round_trip(attention.ir());
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(attention.ptx().text(), "sm_90a").unwrap();
        let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
        assert!(clean && !report.contains("C75"), "{config}: {report}");
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let lens = [[64, 64]];
    let problem = problem([4, 2], &lens, 64);
    let right = config(&problem, [64, 64]);
    let attention = Attention::<bf16>::new(right).unwrap().load(&device).unwrap();
    let x = device.zeros::<bf16>(4 * 64 * 64).unwrap();
    let (mut o, mut lse) = (x.device().zeros(4 * 64 * 64).unwrap(), device.zeros(256).unwrap());
    let starts = device.upload(&[0, 64]).unwrap();
    let mut launch = |problem: &AttentionProblem, starts: Option<[&_; 2]>| {
        let args = AttentionArgs { q: &x, k: &x, v: &x, o: &mut o, lse: &mut lse, starts };
        attention.launch(problem, args)
    };
    launch(&problem, Some([&starts, &starts])).unwrap();
    let error = launch(&problem, None).unwrap_err();
    let expected = "the problem has no list of sequences, but the kernel was configured with one";
    assert_eq!(error.to_string(), expected);
    let one = AttentionProblem { varlen: false, ..problem };
    assert_eq!(launch(&one, None).unwrap_err().to_string(), expected);
    let two = AttentionProblem { batch: 2, ..problem };
    let error = launch(&two, Some([&starts, &starts])).unwrap_err();
    let expected = "the buffer for the starts of Q has 2 elements, but 3 are needed";
    assert_eq!(error.to_string(), expected);
    let four = AttentionConfig { packed_heads: 4, ..right };
    let error = four.check_problem(&problem).unwrap_err();
    assert!(matches!(error, AttentionError::PackedHeads { packed: 4, group: 2 }), "{error}");
    let error = AttentionConfig { packed_heads: 3, ..right }.check().unwrap_err();
    assert!(
        error.to_string().contains("the number of heads that share it must divide 64"),
        "{error}"
    );
}
