//! The public checks, questions and generators for property tests: each against its definition.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};
use tilewright::layout::laws::{self, Law, Violation, all_layouts};
use tilewright::layout::strategies::{layouts, symbolic_layouts, thread_value_layouts, tilers};
use tilewright::layout::{
    ComposedLayout, Env, Int, IntTuple, Layout, LayoutError, Swizzle, coord, layout, shape, tiler,
};
use tilewright::tensor::strategies::tiled_copies;

use crate::laws::{SIZE, cases};
use crate::support::slow::sample;

fn values(l: &Layout) -> Vec<i64> {
    l.indices().unwrap().collect()
}

#[test]
fn equal_functions_have_equal_values() {
    let all: Vec<Layout> = all_layouts(1..=2, 1..=3, -1..=4).collect();
    let mut equal = 0;
    for (i, a) in all.iter().enumerate() {
        for b in sample(7, all.iter().skip(i % 7)) {
            let same = values(a) == values(b);
            assert_eq!(a.same_function(b), Ok(same), "{a} and {b}");
            assert_eq!(laws::check_same(a, b).is_ok(), same, "{a} and {b}");
            equal += usize::from(same);
        }
    }
    assert!(equal > all.len() / 7, "{equal}");
}

#[test]
fn equal_functions_of_symbols_swizzles_and_large_layouts() {
    let l = |text: &str| text.parse::<ComposedLayout>().unwrap();
    let same = |a: &str, b: &str| l(a).same_function(&l(b));
    assert_eq!(same("(2,n):(1,2)", "(2,n):(1,2)"), Ok(true));
    assert_eq!(same("(2,(1,n)):(1,(5,2))", "2*n:1"), Ok(true));
    assert_eq!(same("n:1", "n+1:1"), Ok(false));
    assert!(matches!(same("n:1", "n:d"), Err(LayoutError::Undecided { .. })));
    // 2^40 elements, which nobody walks.
    assert_eq!(same("(1048576,1048576):(1,1048576)", "1099511627776:1"), Ok(true));
    assert_eq!(
        same("S<3,4,3> o 0 o (8,64):(64,1)", "S<3,4,3> o 0 o (8,(8,8)):(64,(1,8))"),
        Ok(true)
    );
    assert_eq!(same("S<1,0,3> o 0 o 8:1", "8:1"), Ok(true));
    assert_eq!(same("S<1,0,3> o 0 o 16:1", "16:1"), Ok(false));
    assert_eq!(same("S<0,4,3> o 1 o 8:1", "8:1"), Ok(false));
    assert_eq!(same("(2,3):(1@0,1@1)", "(2,3):(1@1,1@0)"), Ok(false));
}

#[test]
fn one_to_one_and_permutations_by_definition() {
    for l in sample(29, all_layouts(1..=3, 1..=4, -4..=8)) {
        let mut all = values(&l);
        let n = all.len();
        all.sort_unstable();
        let permutation = all.iter().copied().eq(0..i64::try_from(n).unwrap());
        all.dedup();
        assert_eq!(l.is_injective(), Ok(all.len() == n), "{l}");
        assert_eq!(l.is_bijective(), Ok(permutation), "{l}");
    }
}

#[test]
fn all_layouts_are_all_and_no_two_are_equal() {
    let all: Vec<Layout> = all_layouts(1..=2, 1..=3, -1..=2).collect();
    assert_eq!(all.len(), 12 + 144);
    let texts: std::collections::BTreeSet<String> = all.iter().map(Layout::to_string).collect();
    assert_eq!(texts.len(), all.len());
    for (s, d) in [(1, -1), (3, 2)] {
        assert!(texts.contains(&format!("{s}:{d}")) && texts.contains(&format!("({s},2):({d},0)")));
    }
    // Skipping is stepping.
    let skipped: Vec<Layout> = all_layouts(1..=2, 1..=3, -1..=2).step_by(5).collect();
    assert!(skipped.iter().eq(all.iter().step_by(5)));
    let mut rest = all_layouts(1..=2, 1..=3, -1..=2);
    assert_eq!(
        (rest.nth(150), rest.len(), rest.size_hint()),
        (Some(all[150].clone()), 5, (5, Some(5)))
    );
    assert_eq!((rest.nth(5), rest.len()), (None, 0));
    // Nothing overflows, and nothing is walked to count.
    let huge = all_layouts(0..=usize::MAX, i64::MIN..=i64::MAX, i64::MIN..=i64::MAX);
    assert_eq!(huge.len(), u64::MAX);
    let (first, last) = (2, 1);
    assert!(all_layouts(first..=last, 1..=2, 0..=1).is_empty());
}

/// Results with one number changed.
fn changed(l: &Layout) -> Vec<Layout> {
    let leaves: Vec<(i64, i64)> = l.to_static().unwrap().leaves().collect();
    let mut out = Vec::new();
    for at in 0..leaves.len() {
        for (extent, stride) in [(1, 0), (0, 1), (0, -2)] {
            let mut leaves = leaves.clone();
            leaves[at].0 += extent;
            leaves[at].1 += stride;
            let (mut extents, mut strides) =
                (leaves.iter().map(|l| l.0), leaves.iter().map(|l| l.1));
            let shape = l
                .shape()
                .to_owned()
                .map(|_| Ok::<_, LayoutError>(Int::new(extents.next().unwrap())));
            let stride = l
                .shape()
                .to_owned()
                .map(|_| Ok::<_, LayoutError>(Int::new(strides.next().unwrap())));
            out.push(Layout::new(shape.unwrap(), stride.unwrap()).unwrap());
        }
    }
    out
}

/// The check accepts a result, and of the changed results those that are the same function in a
/// domain that counts.
fn refuses_changes(
    made: Result<Layout, LayoutError>,
    check: impl Fn(&Layout) -> Result<(), Violation>,
) -> TestCaseResult {
    let Ok(made) = made else { return Ok(()) };
    check(&made)?;
    for wrong in changed(&made) {
        if made.same_function(&wrong) == Ok(false) {
            prop_assert!(check(&wrong).is_err(), "{} passes for {}", wrong, made);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn checks_refuse_changed_results(a in layouts(48), b in layouts(12), t in tilers(2)) {
        refuses_changes(a.coalesce(), |r| laws::check_coalesce(&a, r))?;
        refuses_changes(a.coalesce_by(&shape!(1)), |r| laws::check_coalesce_by(&a, &shape!(1), r))?;
        refuses_changes(a.filter(), |r| laws::check_filter(&a, r))?;
        refuses_changes(a.composition(&b), |r| laws::check_composition(&a, &b, r))?;
        refuses_changes(a.composition(&t), |r| laws::check_composition_by(&a, &t, r))?;
        refuses_changes(a.logical_divide(&b), |r| laws::check_logical_divide(&a, &b, r))?;
        refuses_changes(a.logical_divide(&t), |r| laws::check_logical_divide(&a, &t, r))?;
        refuses_changes(a.zipped_divide(&t), |r| laws::check_zipped_divide(&a, &t, r))?;
        refuses_changes(a.tiled_divide(&t), |r| laws::check_tiled_divide(&a, &t, r))?;
        refuses_changes(a.flat_divide(&t), |r| laws::check_flat_divide(&a, &t, r))?;
        refuses_changes(b.logical_product(&b), |r| laws::check_logical_product(&b, &b, r))?;
        refuses_changes(b.zipped_product(&t), |r| laws::check_zipped_product(&b, &t, r))?;
        refuses_changes(b.tiled_product(&t), |r| laws::check_tiled_product(&b, &t, r))?;
        refuses_changes(b.flat_product(&t), |r| laws::check_flat_product(&b, &t, r))?;
        refuses_changes(b.blocked_product(&b), |r| laws::check_blocked_product(&b, &b, r))?;
        refuses_changes(b.raked_product(&b), |r| laws::check_raked_product(&b, &b, r))?;
        refuses_changes(a.upcast(2), |r| laws::check_recast(&a, 8, 16, r))?;
        refuses_changes(a.downcast(2), |r| laws::check_recast(&a, 16, 8, r))?;
    }

    /// What a failed law prints reads back as the same value, in the one-line and in the pretty
    /// form.
    #[test]
    fn debug_of_symbols_reads_back((l, env) in symbolic_layouts(SIZE)) {
        for text in [format!("{l:?}"), format!("{l:#?}")] {
            prop_assert_eq!(text.parse::<Layout>(), Ok(l.clone()), "{}", text);
        }
        let mut read = Env::new();
        let text = format!("{env:#?}");
        for pair in text.strip_prefix("Env::new()").unwrap().split(".with(\"").skip(1) {
            let (name, value) = pair.trim_end_matches(')').split_once("\", ").unwrap();
            read = read.with(name, value.parse().unwrap());
        }
        prop_assert_eq!(l.eval(&read), l.eval(&env), "{}", text);
    }

    #[test]
    fn thread_value_layouts_reach_each_element_once((tv, tile) in thread_value_layouts(SIZE)) {
        let n = tile.product().unwrap().to_static().unwrap();
        let mut all = values(&tv);
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..n), "{} of {}", tv, tile);
        prop_assert!(tv.rank() == 2 && n <= SIZE);
    }

    #[test]
    fn tiled_copies_move_whole_atoms(copy in tiled_copies(SIZE)) {
        let values = copy.layout_tv().get(&[1]).unwrap().to_static().unwrap().size();
        let bits = values * i64::from(copy.dtype().bits());
        prop_assert!(copy.layout_tv().is_bijective().unwrap(), "{}", copy);
        prop_assert_eq!(copy.tiler().product(), copy.layout_tv().size());
        prop_assert!(bits % 8 == 0, "{}", copy);
    }
}

/// The smallest failing value of a false law, and how often the law was tried.
fn counterexample<T: std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
    law: impl Fn(&T) -> bool,
) -> (T, usize) {
    let config = Config { cases: 20_000, failure_persistence: None, ..Config::default() };
    let tried = std::cell::Cell::new(0);
    let result = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&strategy, |value| {
        tried.set(tried.get() + 1);
        prop_assert!(law(&value));
        Ok(())
    });
    match result {
        Err(TestError::Fail(_, smallest)) => (smallest, tried.get()),
        other => panic!("the law is false: {other:?}"),
    }
}

/// Shrinking drops leaves that do not matter, also symbolic ones, and ends after few steps: 80,000
/// are allowed.
#[test]
fn counterexamples_are_small() {
    let text = |(value, _): (Layout, usize)| value.to_string();
    assert_eq!(text(counterexample(layouts(64), |l| l.is_injective().unwrap())), "2:0");
    assert_eq!(text(counterexample(layouts(64), |l| l.cosize().unwrap() == Int::ONE)), "2:1");
    // One symbol is enough for both; without symbols the laws hold.
    let symbols = |env: &Env| format!("{env:?}").matches(".with(").count();
    let ((l, env), tried) =
        counterexample(symbolic_layouts(64), |(l, _)| l.size().unwrap().is_static());
    assert!(tried < 5_000 && symbols(&env) == 1, "{l:?}, {env:?} after {tried} tries");
    let ((l, env), tried) = counterexample(symbolic_layouts(64), |(l, env)| {
        l.eval(env).unwrap().is_injective().unwrap() || l.is_static()
    });
    assert!(tried < 5_000 && symbols(&env) == 1, "{l:?}, {env:?} after {tried} tries");
}

#[test]
fn a_violation_names_the_law_the_place_and_both_values() {
    let l = layout!((4, 8):(8, 1));
    let violation = laws::check_right_inverse(&l, &layout!(32:1)).unwrap_err();
    let [at, left, right] = [1, 8, 1].map(|n| Box::new(IntTuple::from(n)));
    assert_eq!(violation, Violation::Unequal { law: Law::RightInverse, at, left, right });
    assert_eq!(violation.law().equation(), "L(R(i)) == i");

    let collides =
        laws::check_complement(&layout!((2, 2):(1, 6)), &shape!(24), &layout!((3, 4):(1, 12)));
    assert_eq!(
        collides.unwrap_err().to_string(),
        "complement, `(filter(L), R) is one-to-one, R increases and reaches the cotarget`: the coordinates \
         ((1,0),(0,0)) and ((0,0),(1,0)) of ((2,2),(3,4)):((1,6),(1,12)) share the index 1"
    );
    let symbolic =
        laws::check_coalesce(&"n:1".parse().unwrap(), &"n:1".parse().unwrap()).unwrap_err();
    assert!(matches!(
        symbolic,
        Violation::NotEvaluated { law: Law::Coalesce, cause: LayoutError::NotStatic { .. } }
    ));
    let c = Swizzle::new(2, 0, 2).unwrap().compose_layout(&layout!((4, 4):(4, 1))).unwrap();
    let (rest, offset) = c.slice_and_offset(&coord!(1, _)).unwrap();
    laws::check_slice(&c, &coord!(1, _), &rest, &offset).unwrap();
    assert!(laws::check_slice(&c, &coord!(2, _), &rest, &offset).is_err());
    let (tile, at) = l.local_tile(&tiler!(2, 4), &coord!(1, _)).unwrap();
    laws::check_local_tile(&l, &tiler!(2, 4), &coord!(1, _), &tile, &at).unwrap();
    assert!(laws::check_local_tile(&l, &tiler!(2, 4), &coord!(0, _), &tile, &at).is_err());
}

/// A check answers or names the cause, for any numbers.
#[test]
fn checks_do_not_panic_at_the_ends_of_their_ranges() {
    let ends = [0, 1, 2, -1, 1 << 31, 1 << 62, i64::MAX, i64::MIN];
    let all: Vec<Layout> = ends
        .into_iter()
        .flat_map(|s| ends.into_iter().map(move |d| Layout::leaf(s, d)))
        .chain([
            "(2,2):(1,9223372036854775807)".parse().unwrap(),
            "(4611686018427387904,4):(2,1)".parse().unwrap(),
        ])
        .collect();
    let walked = |l: &Layout| l.size().is_ok_and(|n| n.as_static() > Some(4096));
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
        match (walked(a), walked(b)) {
            (true, true) => {}
            (false, false) => short.push((a, b)),
            _ => long.push((a, b)),
        }
    }
    // The checks of a large layout walk up to `laws::LIMIT` coordinates, so few of these pairs are
    // tried.
    for (a, b) in short.into_iter().chain(sample(307, long)) {
        let r = b;
        let _ = (laws::check_coalesce(a, r), laws::check_filter(a, r), laws::check_nullspace(a, r));
        let _ = (
            laws::check_complement(a, &7.into(), r),
            laws::check_complement(a, &i64::MAX.into(), r),
        );
        let _ = (laws::check_longest_right_inverse(a, r), laws::check_recast(a, 8, 16, r));
        let _ = (laws::check_recast(a, 1 << 40, 3, r), laws::check_recast(a, 0, i64::MIN, r));
        let _ = (laws::check_logical_divide(a, b, r), laws::check_logical_product(a, b, r));
        let _ = (laws::check_zipped_divide(a, b, r), laws::check_flat_product(a, b, r));
        let _ = (laws::check_blocked_product(a, b, r), laws::check_raked_product(a, b, r));
        let _ = (laws::check_tile_to_shape(a, &b.shape().to_owned(), r), a.same_function(b));
        let _ = (
            laws::check_slice(a, &coord!(_), r, &0.into()),
            laws::check_slice(a, &coord!(1), r, &5.into()),
        );
        let _ = (laws::check_local_partition(a, b, &1.into(), r, &0.into()), a.is_bijective());
    }
}
