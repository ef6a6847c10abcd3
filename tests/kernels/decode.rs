//! Decode steps over a paged cache, compared with the definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::decode::{
    Decode, DecodeArgs, DecodeConfig, DecodeError, DecodePlan, DecodeProblem,
};
use tilewright::runtime::{Buffer, Device};
use tilewright::sim::Options;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

/// The inputs of a decode step: tokens behind the end of a sequence, pages of no sequence and what
/// is between rows are NaN.
struct Case<T> {
    problem: DecodeProblem,
    lens: Vec<i32>,
    table: Vec<i32>,
    sinks: Option<Vec<f32>>,
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

/// A number with variance 1.
fn normal<T: Real>(rng: &mut Rng) -> T {
    T::of((0..12).map(|_| rng.below(1001) as f32 / 1000.0).sum::<f32>() - 6.0)
}

/// The first element of a row: (position, head, sequence or page).
fn at(strides: [u64; 3], coord: [u32; 3]) -> usize {
    strides.into_iter().zip(coord).map(|(stride, x)| (stride * u64::from(x)) as usize).sum()
}

/// A tensor of NaN.
fn nans<T: Real>(strides: [u64; 3], sizes: [u32; 3], dim: u32) -> Vec<T> {
    let empty = sizes.contains(&0);
    let last = at(strides, sizes.map(|size| size.saturating_sub(1))) + dim as usize;
    vec![T::of(f32::NAN); if empty { 0 } else { last }]
}

impl<T: Real + VectorElement<2>> Case<T> {
    /// Sequences of these lengths with random pages; the problem says the pages of a sequence at
    /// most.
    fn new(problem: DecodeProblem, lens: &[i32], seed: u64) -> Case<T> {
        let DecodeProblem { batch, heads, key_heads, queries, head_dim, page, .. } = problem;
        let rng = &mut Rng::new(seed);
        let dim = head_dim as usize;
        let used = |len: i32| (len.max(0) as u32).div_ceil(page);
        let pages = lens.iter().map(|len| used(*len)).sum::<u32>() + 2;
        let problem = DecodeProblem { pages, ..problem };
        let mut free: Vec<i32> = (0..pages as i32).collect();
        let row = problem.max_pages as usize;
        // Entries behind the last key are no pages.
        let mut table: Vec<i32> =
            (0..lens.len() * row).map(|_| *rng.pick(&[i32::MIN, -1, i32::MAX])).collect();
        let mut q = nans(problem.q_strides(), [queries, heads, batch], head_dim);
        let mut k = nans(problem.k_strides(), [page, key_heads, pages], head_dim);
        let mut v = nans(problem.v_strides(), [page, key_heads, pages], head_dim);
        for (sequence, len) in lens.iter().enumerate() {
            for coord in (0..queries).flat_map(|i| (0..heads).map(move |h| [i, h, sequence as u32]))
            {
                q[at(problem.q_strides(), coord)..][..dim].fill_with(|| normal(rng));
            }
            for own in 0..used(*len) as usize {
                let taken = free.swap_remove(rng.below(free.len()));
                table[sequence * row + own] = taken;
                let tokens = (*len as u32 - own as u32 * page).min(page);
                for coord in
                    (0..tokens).flat_map(|t| (0..key_heads).map(move |h| [t, h, taken as u32]))
                {
                    k[at(problem.k_strides(), coord)..][..dim].fill_with(|| normal(rng));
                    v[at(problem.v_strides(), coord)..][..dim].fill_with(|| normal(rng));
                }
            }
        }
        Case { problem, lens: lens.to_vec(), table, sinks: None, q, k, v }
    }

    /// The output and the LSE of a row by definition.
    fn expected(&self, sequence: u32, head: u32, query: u32) -> (Vec<f64>, f64) {
        let DecodeProblem { heads, key_heads, queries, head_dim, page, max_pages, .. } =
            self.problem;
        let dim = head_dim as usize;
        let len = self.lens[sequence as usize].clamp(0, self.problem.max_len as i32);
        let end = (len - (queries - 1 - query) as i32).max(0) as u32;
        let start = self.problem.window.map_or(0, |window| end.saturating_sub(window));
        let row = |all: &[T], strides, key: u32| -> Option<Vec<f64>> {
            let entry = self.table[(sequence * max_pages + key / page) as usize];
            let page_of = u32::try_from(entry).ok().filter(|entry| *entry < self.problem.pages)?;
            let first = at(strides, [key % page, head / (heads / key_heads), page_of]);
            Some(all[first..][..dim].iter().map(|x| x.to()).collect())
        };
        let q = &self.q[at(self.problem.q_strides(), [query, head, sequence])..][..dim];
        let mut scores = Vec::new();
        for key in start..end {
            let Some(k) = row(&self.k, self.problem.k_strides(), key) else { continue };
            let dot: f64 = q.iter().zip(k).map(|(q, k)| q.to() * k).sum();
            scores.push((key, dot * f64::from(self.problem.scale())));
        }
        let sink = self.sinks.as_ref().map(|sinks| f64::from(sinks[head as usize]));
        let sink = sink.filter(|sink| sink.is_finite());
        let all = || scores.iter().map(|(_, s)| *s).chain(sink);
        let max = all().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all().map(|s| (s - max).exp()).sum();
        let mut o = vec![0.0; dim];
        for (key, s) in &scores {
            let v = row(&self.v, self.problem.v_strides(), *key).unwrap();
            o.iter_mut().zip(v).for_each(|(o, v)| *o += (s - max).exp() / sum * v);
        }
        (o, if all().next().is_none() { f64::NEG_INFINITY } else { max + sum.ln() })
    }

    /// The output that a launch gets.
    fn output(&self) -> Vec<T> {
        let DecodeProblem { batch, heads, queries, head_dim, .. } = self.problem;
        let len = nans::<T>(self.problem.o_strides(), [queries, heads, batch], head_dim).len();
        vec![T::of(UNTOUCHED); len]
    }

    /// Launches with a plan `times` times; the results are the same bits. Compares them with the
    /// definition.
    #[track_caller]
    fn check(
        &self,
        device: &Device,
        config: DecodeConfig,
        splits: Option<u32>,
        times: u32,
    ) -> Vec<T> {
        let problem = &self.problem;
        let decode = Decode::<T>::new(config).unwrap().load(device).unwrap();
        let plan = splits
            .map_or_else(|| decode.plan(problem), |splits| DecodePlan::split(problem, splits));
        let what = format!(
            "{config} of {problem:?} with {:?} by {plan:?} on {}",
            self.lens,
            device.name()
        );
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|x| device.upload(x).unwrap());
        let [table, lens] = [&self.table, &self.lens].map(|x| device.upload(x).unwrap());
        let sinks = self.sinks.as_ref().map(|sinks| device.upload(sinks).unwrap());
        let rows = (problem.batch * problem.heads * problem.queries) as usize;
        let mut first = None;
        for time in 0..times {
            let mut o = device.upload(&self.output()).unwrap();
            let mut lse = device.upload(&vec![UNTOUCHED; rows]).unwrap();
            let args = DecodeArgs {
                q: &q,
                k: &k,
                v: &v,
                table: &table,
                lens: &lens,
                sinks: sinks.as_ref(),
                o: &mut o,
                lse: Some(&mut lse),
                plan: Some(plan),
            };
            decode.launch(problem, args).unwrap();
            let (o, lse) = (o.to_vec().unwrap(), lse.to_vec().unwrap());
            let bits = (
                o.iter().map(|x| x.to().to_bits()).collect(),
                lse.iter().map(|x| x.to_bits()).collect(),
            );
            let (_, same): &(_, (Vec<u64>, Vec<u32>)) =
                first.get_or_insert(((o, lse), bits.clone()));
            assert!(*same == bits, "{what}: launch {time} has another result");
        }
        let (o, lse) = first.unwrap().0;
        self.compare(&what, &o, &lse);
        o
    }

    #[track_caller]
    fn compare(&self, what: &str, o: &[T], lse: &[f32]) {
        let DecodeProblem { batch, heads, queries, .. } = self.problem;
        let mut written = vec![false; o.len()];
        let rows = (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h)));
        for (b, h, i) in rows.flat_map(|(b, h)| (0..queries).map(move |i| (b, h, i))) {
            let (row, expected) = self.expected(b, h, i);
            let found = f64::from(lse[((b * heads + h) * queries + i) as usize]);
            let close = found == expected || (found - expected).abs() <= 1e-4;
            assert!(close, "{what}: the LSE of ({b}, {h}, {i}) is {found}, not {expected}");
            let first = at(self.problem.o_strides(), [i, h, b]);
            for (d, expected) in row.into_iter().enumerate() {
                let found = o[first + d].to();
                written[first + d] = true;
                // The powers and the output are rounded.
                let close = (found - expected).abs() <= 2.0 * T::EPSILON * (1.0 + expected.abs());
                assert!(close, "{what}: ({b}, {h}, {i}, {d}) is {found}, not {expected}");
            }
        }
        let mut outside = o.iter().zip(&written).filter(|(_, written)| !**written);
        assert!(outside.all(|(o, _)| o.to() == T::of(UNTOUCHED).to()), "{what}: wrote outside");
    }
}

fn config(dim: u32) -> DecodeConfig {
    DecodeConfig::new(Target::SM_90A, dim).unwrap()
}

/// Of sequences with these heads and lengths, in pages of 16 tokens.
fn problem([heads, key_heads]: [u32; 2], dim: u32, lens: &[i32]) -> DecodeProblem {
    let max_pages = lens.iter().map(|len| (*len).max(0) as u32).max().unwrap_or(0).div_ceil(16);
    DecodeProblem::new([lens.len() as u32, heads, key_heads], dim, [0, 16, max_pages])
}

#[test]
fn one_query_in_each_dimension() {
    for device in devices() {
        for (seed, dim) in [64, 96, 128, 256].into_iter().enumerate() {
            let lens = [130, 0, 1, 64];
            let all = problem([4, 2], dim, &lens);
            Case::<bf16>::new(all, &lens, seed as u64).check(&device, config(dim), None, 1);
            let one = problem([4, 2], dim, &lens[..1]);
            Case::<f16>::new(one, &lens[..1], 9).check(&device, config(dim), Some(1), 1);
        }
    }
}

/// Around the keys of a step of a warp, of all warps, of a split and of a page.
#[test]
fn lengths_at_all_edges() {
    let lens = [15, 16, 17, 63, 65, 127, 128, 129, 191, 193, 255, 256, 257];
    for device in devices() {
        for page in [16, 64, 256] {
            let problem = DecodeProblem::new([13, 1, 1], 64, [0, page, 272 / page + 1]);
            let case = Case::<bf16>::new(problem, &lens, page.into());
            for splits in sample(2, [1, 2, 4]) {
                case.check(&device, config(64), Some(splits), 1);
            }
        }
    }
}

/// Rows of several heads and queries in one tile and in more; sequences shorter than their queries.
#[test]
fn queries_are_causal() {
    for device in devices() {
        for ([heads, key_heads], queries) in
            [([1, 1], 2), ([8, 1], 2), ([6, 2], 3), ([5, 1], 8), ([3, 1], 16)]
        {
            let lens = [queries as i32 - 1, 40, 100];
            let problem = DecodeProblem { queries, ..problem([heads, key_heads], 64, &lens) };
            let case = Case::<bf16>::new(problem, &lens, u64::from(queries));
            for splits in [1, 2] {
                case.check(&device, config(64), Some(splits), 1);
            }
        }
    }
}

/// Windows that end within a group of keys, a step, a split and a page, for one query and several.
/// What is in front of a window is not read: its pages are no pages.
#[test]
fn windows_slide() {
    for device in devices() {
        let lens = [0, 1, 20, 70, 135, 400];
        for (queries, window, splits) in
            [(1, 1, 1), (1, 16, 3), (2, 17, 1), (16, 63, 2), (3, 128, 3), (1, 1000, 2)]
        {
            let window = Some(window);
            let problem = DecodeProblem { queries, window, ..problem([4, 2], 64, &lens) };
            let mut case = Case::<bf16>::new(problem, &lens, 6);
            for (sequence, len) in lens.iter().enumerate() {
                let unseen = *len as u32 - problem.visible(*len as u32);
                let row = &mut case.table[sequence * problem.max_pages as usize..];
                row[..unseen as usize / 16].fill(-1);
            }
            case.check(&device, config(64), Some(splits), 2);
            case.check(&device, config(64), None, 1);
        }
    }
}

/// Sinks above, among and below the scores, for sequences without keys too.
#[test]
fn sinks_are_scores_without_values() {
    for device in devices() {
        let lens = [0, 5, 150];
        for (queries, splits) in [(1, 1), (2, 3)] {
            let problem = DecodeProblem { queries, ..problem([6, 2], 64, &lens) };
            let mut case = Case::<bf16>::new(problem, &lens, 7);
            case.sinks = Some(vec![0.0, 30.0, -30.0, 2.5, f32::NEG_INFINITY, -1.0]);
            case.check(&device, config(64), Some(splits), 2);
        }
    }
}

#[test]
fn splits_have_the_same_bits_in_each_launch() {
    for device in devices() {
        let lens = [400, 0, 64, 65, 129];
        let case = Case::<bf16>::new(problem([4, 2], 64, &lens), &lens, 3);
        for splits in [2, 3, 7] {
            case.check(&device, config(64), Some(splits), 3);
        }
    }
}

/// A sequence has the same bits alone as in a batch with longer ones.
#[test]
fn other_sequences_do_not_matter() {
    for device in devices() {
        let lens = [150, 320, 7];
        let case = Case::<bf16>::new(problem([2, 1], 64, &lens), &lens, 4);
        let all = case.check(&device, config(64), Some(5), 1);
        let DecodeProblem { max_pages, max_len, .. } = case.problem;
        let problem = DecodeProblem { batch: 1, max_len, ..case.problem };
        let (table, q) = (case.table[..max_pages as usize].to_vec(), case.q[..2 * 64].to_vec());
        let alone = Case { problem, lens: vec![150], table, q, ..case };
        assert_eq!(alone.check(&device, config(64), Some(5), 1), all[..2 * 64]);
    }
}

/// Strides with space between rows, a scale, and K and V that lie in their pools in other ways.
#[test]
fn strides_and_scale() {
    for device in devices() {
        let lens = [90, 33];
        let problem = DecodeProblem {
            queries: 2,
            scale: Some(0.3),
            // (sequence, head, query, dimension), and (sequence, query, head, dimension).
            q: Some([72, 2 * 72, 8 * 72 + 8]),
            o: Some([4 * 64 + 8, 64, 600]),
            // (page, head, token, dimension), and (head, page, token, dimension).
            k: Some([64, 32 * 64, 64 * 64]),
            v: Some([80, 20 * 32 * 80, 32 * 80]),
            ..DecodeProblem::new([2, 4, 2], 64, [0, 32, 3])
        };
        let case = Case::<f16>::new(problem, &lens, 5);
        case.check(&device, config(64), Some(1), 1);
        case.check(&device, config(64), Some(2), 1);
    }
}

/// A cache without pages is one with the table 0, 1, 2, ..
#[test]
fn a_plain_cache_has_the_identity_as_its_table() {
    for device in devices() {
        let lens = [64, 50];
        let problem = DecodeProblem::new([2, 2, 1], 64, [0, 16, 4]);
        let mut case = Case::<bf16>::new(problem, &lens, 6);
        let plain: Vec<bf16> = (0..2 * 64 * 64).map(|_| normal(&mut Rng::new(7))).collect();
        case.problem.pages = 8;
        (case.table, case.k, case.v) = ((0..8).collect(), plain.clone(), plain);
        case.check(&device, config(64), None, 1);
    }
}

/// The device checks lengths and the table: what they say must not lead out of the pool.
#[test]
fn wrong_lengths_and_entries_are_harmless() {
    for device in devices() {
        let lens = [100, 100, 60, 48, -5];
        let mut case = Case::<bf16>::new(problem([2, 2], 64, &lens), &lens, 8);
        let row = case.problem.max_pages as usize;
        // Dropped pages, a page behind the pool, and a sequence without any page.
        (case.table[0], case.table[3], case.table[row + 6]) = (-1, i32::MIN, -7);
        case.table[2 * row + 1] = case.problem.pages as i32;
        case.table[3 * row..4 * row].fill(i32::MAX);
        for splits in [1, 2] {
            case.check(&device, config(64), Some(splits), 1);
        }
        // All keys of the first sequence count as `max_len`.
        (case.lens[0], case.problem.max_len) = (i32::MAX, 100);
        case.check(&device, config(64), Some(2), 1);
    }
}

#[test]
fn nothing_to_do() {
    for device in devices() {
        for sizes in [[0, 2, 1], [2, 0, 0], [1, 2, 1]] {
            let problem = DecodeProblem::new(sizes, 64, [0, 16, 0]);
            let lens = vec![3; sizes[0] as usize];
            let mut case = Case::<bf16>::new(DecodeProblem { max_pages: 1, ..problem }, &lens, 1);
            (case.problem.max_pages, case.problem.max_len) = (0, 0);
            case.check(&device, config(64), None, 1);
        }
    }
}

/// Lengths are read when a graph runs, and the counters of splits are 0 after each run.
#[test]
fn a_graph_runs_again_with_other_lengths() {
    for device in devices() {
        let lens = [200, 70];
        let mut case = Case::<bf16>::new(problem([2, 1], 64, &lens), &lens, 10);
        let decode = Decode::<bf16>::new(config(64)).unwrap().load(&device).unwrap();
        let [q, k, v] = [&case.q, &case.k, &case.v].map(|x| device.upload(x).unwrap());
        let [table, mut lens] = [&case.table, &case.lens].map(|x| device.upload(x).unwrap());
        let mut o = device.upload(&case.output()).unwrap();
        let mut lse: Buffer<f32> = device.zeros(4).unwrap();
        let graph = device.graph().unwrap();
        let args = DecodeArgs {
            q: &q,
            k: &k,
            v: &v,
            table: &table,
            sinks: None,
            lens: &lens,
            o: &mut o,
            lse: Some(&mut lse),
            plan: Some(DecodePlan::split(&case.problem, 3)),
        };
        decode.on(graph.stream()).launch(&case.problem, args).unwrap();
        let graph = graph.finish().unwrap();
        for found in [[200, 70], [10, 64], [199, 0], [65, 66]] {
            lens.write(&found).unwrap();
            graph.launch().unwrap();
            case.lens = found.to_vec();
            let (o, lse) = (o.to_vec().unwrap(), lse.to_vec().unwrap());
            case.compare(&format!("{found:?}"), &o, &lse);
        }
    }
}

/// In adversarial schedules and random ones, also where each ring is used again and two splits end
/// at the same time.
#[test]
fn no_data_race() {
    let options =
        Options::default().target(Target::SM_80).race(true).schedules(if slow() { 12 } else { 3 });
    let device = Device::sim_with(options);
    for (warps, stages) in [(4, 2), (2, 3)] {
        let lens = [300, 70];
        let problem = DecodeProblem { queries: 2, ..problem([2, 1], 64, &lens) };
        let config = DecodeConfig { target: Target::SM_80, head_dim: 64, warps, stages };
        let case = Case::<bf16>::new(problem, &lens, 11);
        case.check(&device, config, Some(1), 1);
        case.check(&device, config, Some(3), 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 32 } else { 8 }, ..ProptestConfig::default() })]

    #[test]
    fn random_caches(
        lens in prop::collection::vec(
            prop_oneof![Just(0), Just(1), 0i32..300, (0i32..18, -1i32..2).prop_map(|(n, by)| 16 * n + by)],
            1..4,
        ),
        (key_heads, group, queries) in (1u32..3, 1u32..6, 1u32..5),
        page_bits in 4u32..9,
        (dim, warps, stages) in (prop::sample::select(vec![64u32, 96, 128]), 0u32..3, 2u32..5),
        window in prop::option::of(1u32..330),
        has_sinks in any::<bool>(),
        splits in 1u32..6,
        seed in 0u64..1000,
    ) {
        let page = 1 << page_bits;
        let sizes = [lens.len() as u32, key_heads * group, key_heads];
        let problem = DecodeProblem::new(sizes, dim, [0, page, 320u32.div_ceil(page)]);
        let problem = DecodeProblem { queries, max_len: 320, window, ..problem };
        let config = DecodeConfig { warps: 1 << warps, stages, ..config(dim) };
        for device in devices() {
            let mut case = Case::<bf16>::new(problem, &lens, seed);
            case.sinks = has_sinks.then(|| {
                let rng = &mut Rng::new(seed);
                (0..problem.heads).map(|_| normal::<f32>(rng)).collect()
            });
            case.check(&device, config, Some(splits), 2);
        }
    }

    /// The splits of a plan have all keys and none of them is empty.
    #[test]
    fn plans_have_all_keys(
        (batch, heads, queries) in (1u32..300, 1u32..65, 1u32..17),
        max_len in 0u32..200_000,
        window in prop::option::of(1u32..10_000),
        (sms, per_sm) in (1u32..200, 1u32..4),
    ) {
        let problem = DecodeProblem::new([batch, heads, 1], 128, [1, 64, 1 << 16]);
        let problem = DecodeProblem { queries, max_len, window, ..problem };
        let plan = DecodePlan::new(&problem, [sms, sms * per_sm]);
        prop_assert!(plan.check(&problem).is_ok());
        prop_assert!(plan.splits == 1 || (plan.splits - 1) * plan.tokens < max_len);
        // From any group of keys on, the splits reach all keys that the queries of a sequence see.
        let read = u64::from(plan.splits) * u64::from(plan.tokens);
        prop_assert!(read >= u64::from((problem.visible(max_len) + 15).min(max_len)));
    }
}

/// No spilled registers; two thread blocks on an SM where shared memory has room for them. The
/// first candidate is that of `new`.
#[test]
fn kernels_assemble_without_spills() {
    for (target, arch) in [(Target::SM_90A, "sm_90a"), (Target::SM_80, "sm_80")] {
        for dim in [64, 96, 128, 256] {
            let all = DecodeConfig::candidates(target, dim);
            assert_eq!(all[0], DecodeConfig::new(target, dim).unwrap());
            assert!(all.iter().all(|config| config.check().is_ok()));
            for config in std::iter::once(all[0]).chain(sample(5, all.into_iter().skip(1))) {
                let decode = Decode::<bf16>::new(config).unwrap();
                text::check_round_trip(decode.ir());
                let Some(ptxas) = ptxas::find() else { continue };
                let report = ptxas.report(decode.ptx().text(), arch).unwrap();
                let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
                assert!(clean, "{} for {arch}: {report}", decode.config());
            }
        }
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let right = config(64);
    let problem = DecodeProblem::new([2, 4, 2], 64, [3, 16, 2]);
    for (other, part) in [
        (
            DecodeProblem { key_heads: 3, ..problem },
            "4 query heads are not a multiple of 3 key heads",
        ),
        (
            DecodeProblem { key_heads: 0, ..problem },
            "4 query heads are not a multiple of 0 key heads",
        ),
        (DecodeProblem { queries: 0, ..problem }, "each sequence has 0 queries"),
        (DecodeProblem { queries: 17, ..problem }, "each sequence has 17 queries"),
        (DecodeProblem { window: Some(0), ..problem }, "a window must have at least one key"),
        (DecodeProblem { page: 8, ..problem }, "a page has 8 tokens"),
        (DecodeProblem { page: 24, ..problem }, "a power of two from 16"),
        (
            DecodeProblem { max_len: 33, ..problem },
            "up to 33 keys, but each row of the page table has room for 32",
        ),
        (DecodeProblem { scale: Some(f32::NAN), ..problem }, "must be finite and above 0, got NaN"),
        (
            DecodeProblem { v: Some([68, 64, 1024]), ..problem },
            "the token stride of V is 68 elements",
        ),
        (
            DecodeProblem { o: Some([64, 64, 100]), ..problem },
            "the sequence stride of O is 100 elements",
        ),
        (DecodeProblem { max_pages: 1 << 31, ..problem }, "the entry count of the table is"),
    ] {
        let error = other.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (other, part) in [
        (DecodeConfig { head_dim: 80, ..right }, "the head dimension is 80"),
        (DecodeConfig { warps: 3, ..right }, "3 warps and 4 stages: a block must have"),
        (DecodeConfig { stages: 1, ..right }, "4 warps and 1 stages: a block must have"),
        (DecodeConfig { stages: 40, ..right }, "bytes of shared memory, but a block can have"),
    ] {
        let error = Decode::<bf16>::new(other).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = Decode::<f32>::new(right).unwrap_err();
    assert!(matches!(error, DecodeError::Element { .. }), "{error}");
    for (splits, tokens, part) in
        [(2, 0, "a multiple of 64"), (1, 96, "a multiple of 64"), (0, 64, "1 to 65535")]
    {
        let error = DecodePlan { splits, tokens }.check(&problem).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let long = DecodeProblem::new([2, 4, 2], 64, [3, 16, 20]);
    let error = DecodePlan { splits: 4, tokens: 64 }.check(&long).unwrap_err();
    let expected = "4 splits of 64 tokens cannot serve sequences whose queries see up to 320 keys: they cover fewer keys";
    assert_eq!(error.to_string(), expected);

    let device = Device::sim_for(Target::SM_90A).unwrap();
    let decode = Decode::<bf16>::new(right).unwrap().load(&device).unwrap();
    let zeros = |len| device.zeros::<bf16>(len).unwrap();
    let (q, pool, short) = (zeros(512), zeros(3 * 16 * 2 * 64), zeros(8));
    let (table, lens) = (device.zeros(4).unwrap(), device.zeros(2).unwrap());
    let launch =
        |problem: DecodeProblem, [q, k, v]: [&Buffer<bf16>; 3], lens: &Buffer<i32>, rows| {
            let (mut o, mut lse) = (zeros(512), device.zeros(rows).unwrap());
            let (o, lse) = (&mut o, Some(&mut lse));
            let args = DecodeArgs { q, k, v, table: &table, lens, sinks: None, o, lse, plan: None };
            decode.launch(&problem, args).map_err(|error| error.to_string())
        };
    launch(problem, [&q, &pool, &pool], &lens, 8).unwrap();
    let (all, one) = ([&q, &pool, &pool], device.zeros(1).unwrap());
    let error = launch(problem, [&short, &pool, &pool], &lens, 8).unwrap_err();
    assert_eq!(error, "the buffer for Q has 8 elements, but 512 are needed");
    let error = launch(problem, [&q, &pool, &q], &lens, 8).unwrap_err();
    assert_eq!(error, "the buffer for V has 512 elements, but 6144 are needed");
    let error = launch(DecodeProblem { pages: 4, ..problem }, all, &lens, 8).unwrap_err();
    assert_eq!(error, "the buffer for K has 6144 elements, but 8192 are needed");
    let error = launch(DecodeProblem { max_pages: 3, ..problem }, all, &lens, 8).unwrap_err();
    assert_eq!(error, "the buffer for the table has 4 elements, but 6 are needed");
    let error = launch(problem, all, &one, 8).unwrap_err();
    assert_eq!(error, "the buffer for the lengths has 1 elements, but 2 are needed");
    let error = launch(problem, all, &lens, 7).unwrap_err();
    assert_eq!(error, "the buffer for the LSE has 7 elements, but 8 are needed");
    let error = launch(DecodeProblem { head_dim: 128, ..problem }, all, &lens, 8).unwrap_err();
    assert_eq!(error, "the problem has the head dimension 128, but the kernel was built for 64");
}
