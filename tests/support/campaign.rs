//! Long property-test runs for the layout laws: draws random arguments from a seed, checks each
//! result against its definition, and counts.
//!
//! A campaign is a generator and a case. The case returns whether the operation accepted its
//! arguments; if it did, the result has passed its check. `xtask/src/campaigns.rs` runs the
//! campaigns.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use tilewright::layout::strategies::{
    basis_layouts, composed_layouts, layout_pairs, layouts, shapes, swizzles, symbolic_layouts,
    tilers,
};
use tilewright::layout::{
    Coord, Env, Int, IntTuple, Layout, LayoutError, Slot, Swizzle, Tiler, Tuple, crd2idx, idx2crd,
    laws,
};

use super::oracle::{self, LIMIT, Violation};

/// The seed of the recorded runs and of those in the tests.
pub(crate) const SEED: u64 = 2026;

/// The size of the layouts that are drawn.
const SIZE: i64 = 96;

/// True if the operation accepted the arguments. The error says how its result breaks the law.
type Case = Result<bool, String>;

/// How a case ended that does not break the law. `true` converts to accepted, `false` to refused.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Accepted,
    /// Refused, and the same case with integers has no result either.
    Refused(Advice),
    /// Refused because of symbols, although the same case with integers has a result.
    Avoidable {
        cause: Cause,
        advice: Advice,
        by_cases: bool,
    },
}

/// What the refusal of a symbolic case advises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice {
    /// To assume something about one symbol; the operation then has a result.
    Assume,
    /// Nothing, because no assumption about one symbol is enough.
    Nothing,
    /// There is a result, under a condition that the drawn integers do not meet.
    Evaluate,
}

/// The maximum length of a refusal in characters.
const MAX_REFUSAL: usize = 200;

/// Why a symbolic case is refused although the same case with integers has a result.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// There is a result, under a condition that the integers do not meet: their result has another
    /// form.
    Condition,
    /// The result's modes or their order depend on the values, so no single symbolic layout is the
    /// result.
    Form,
    /// None of the other values that were tried has a result. The integers are an exception, for
    /// example because of an extent of 1.
    Exception,
    /// All values that were tried and have a result have one of the same form.
    None,
}

impl From<bool> for Outcome {
    fn from(accepted: bool) -> Self {
        if accepted { Outcome::Accepted } else { Outcome::Refused(Advice::Nothing) }
    }
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// Refused cases that have a result with integers, by cause.
    pub(crate) by_form: u64,
    pub(crate) by_condition: u64,
    pub(crate) by_exception: u64,
    pub(crate) without_cause: u64,
    /// Refused symbolic cases whose error names an assumption, and those whose error does not.
    pub(crate) with_assumption: u64,
    pub(crate) without_assumption: u64,
    /// Refused cases that have a result with integers, and also a symbolic result by cases.
    pub(crate) by_cases: u64,
}

/// A law, and the operations that it is about.
pub(crate) struct Campaign {
    pub(crate) name: &'static str,
    pub(crate) law: &'static str,
    /// Runs this many cases from a seed. The error is the shrunk counterexample.
    pub(crate) run: fn(u64, u64) -> Result<Tally, String>,
}

fn run<S: Strategy, O: Into<Outcome>>(
    cases: u64,
    seed: u64,
    strategy: S,
    case: impl Fn(S::Value) -> Result<O, String>,
) -> Result<Tally, String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = ProptestConfig {
        max_local_rejects: u32::MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let judge = |value: S::Value| {
        catch_unwind(AssertUnwindSafe(|| case(value))).unwrap_or_else(|_| Err("panicked".into()))
    };
    let mut tally = Tally::default();
    for _ in 0..cases {
        let mut tree = strategy.new_tree(&mut runner).map_err(|e| e.to_string())?;
        match judge(tree.current()) {
            Ok(outcome) => {
                tally.cases += 1;
                let outcome: Outcome = outcome.into();
                let refused = !matches!(outcome, Outcome::Accepted);
                *(if refused { &mut tally.refused } else { &mut tally.accepted }) += 1;
                let advice = match outcome {
                    Outcome::Accepted => continue,
                    Outcome::Refused(advice) => advice,
                    Outcome::Avoidable { cause, advice, by_cases } => {
                        tally.by_cases += u64::from(by_cases);
                        *match cause {
                            Cause::Form => &mut tally.by_form,
                            Cause::Condition => &mut tally.by_condition,
                            Cause::Exception => &mut tally.by_exception,
                            Cause::None => &mut tally.without_cause,
                        } += 1;
                        advice
                    }
                };
                match advice {
                    Advice::Assume => tally.with_assumption += 1,
                    Advice::Nothing => tally.without_assumption += 1,
                    Advice::Evaluate => {}
                }
            }
            Err(mut error) => {
                // Shrink: find the smallest arguments that also fail.
                let mut smallest = tree.current();
                let mut more = tree.simplify();
                while more {
                    match judge(tree.current()) {
                        Err(e) => {
                            (error, smallest) = (e, tree.current());
                            more = tree.simplify();
                        }
                        Ok(_) => more = tree.complicate(),
                    }
                }
                return Err(format!("case {} of seed {seed}, {smallest:?}: {error}", tally.cases));
            }
        }
    }
    Ok(tally)
}

fn number(i: Result<Int, LayoutError>) -> Result<i64, String> {
    i.and_then(|i| i.to_static()).map_err(|e| e.to_string())
}

/// Accepts a result that passes its check. If the layout is static, the error must not say that a
/// symbol is in the way.
fn judged<T, E: std::fmt::Display>(
    result: Result<T, LayoutError>,
    check: impl FnOnce(T) -> Result<(), E>,
) -> Case {
    match result {
        Ok(result) => check(result).map(|()| true).map_err(|e| e.to_string()),
        Err(e) => match e.cause() {
            LayoutError::Undecided { .. } | LayoutError::NotStatic { .. } => Err(e.to_string()),
            _ => Ok(false),
        },
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> oracle::Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn read_back<T>(value: &T) -> oracle::Check
where
    T: std::str::FromStr + std::fmt::Display + PartialEq,
    T::Err: std::fmt::Display,
{
    let text = value.to_string();
    match text.parse::<T>() {
        Ok(read) => ensure(read == *value, || format!("`{text}` reads as `{read}`")),
        Err(e) => Err(format!("`{text}` is refused: {e}")),
    }
}

fn text(cases: u64, seed: u64) -> Result<Tally, String> {
    let all = (layouts(SIZE), basis_layouts(SIZE), composed_layouts(SIZE), tilers(3), swizzles());
    run(cases, seed, all, |(l, b, c, t, s)| {
        read_back(&l)?;
        read_back(&b)?;
        read_back(&c)?;
        read_back(&t)?;
        read_back(&s)?;
        Ok(true)
    })
}

fn coordinates(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(SIZE), any::<Index>()), |(l, index)| {
        let shape = l.shape().to_owned();
        let size = number(shape.product())?;
        let i = i64::try_from(index.index(usize::try_from(size).unwrap_or(1))).unwrap_or(0);
        let crd = idx2crd(&i.into(), &shape).map_err(|e| e.to_string())?;
        let back = number(crd2idx(&crd, &shape))?;
        ensure(crd.congruent(&shape) && back == i, || format!("{i} is at {crd}, which is {back}"))?;
        // The definition: coordinates times strides.
        let strides = l.stride().leaves().iter().map(|d| d.as_static().unwrap_or(0));
        let sum: i64 = crd
            .leaves()
            .iter()
            .map(|c| c.as_static().unwrap_or(0))
            .zip(strides)
            .map(|(c, d)| c * d)
            .sum();
        let (at, by_crd) = (l.at(i).map_err(|e| e.to_string())?, number(l.crd2idx(&crd))?);
        ensure(at == sum && by_crd == sum, || {
            format!("{l} at {i} is {at} and {by_crd}, not {sum}")
        })?;
        let walked = l.indices().map_err(|e| e.to_string())?.nth(usize::try_from(i).unwrap_or(0));
        ensure(walked == Some(sum), || format!("the walk has {walked:?} at {i}, not {sum}"))?;
        Ok(true)
    })
}

fn coalesce(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, layouts(SIZE), |l| judged(l.coalesce(), |r| oracle::check_coalesce(&l, &r)))
}

fn composition(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, layout_pairs(SIZE), |(a, b)| {
        judged(a.composition(&b), |r| oracle::check_composition(&a, &b, &r))
    })
}

fn composition_of_coordinates(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (basis_layouts(SIZE), layouts(SIZE), any::<bool>()), |(a, b, turn)| {
        let (a, b) = if turn { (b, a) } else { (a, b) };
        judged(a.composition(&b), |r| oracle::check_composition(&a, &b, &r))
    })
}

fn composition_by_mode(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(SIZE), tilers(3)), |(a, t)| {
        judged(a.composition(&t), |r| oracle::check_composition_by(&a, &t, &r))
    })
}

fn composition_of_swizzled(cases: u64, seed: u64) -> Result<Tally, String> {
    let all = (composed_layouts(SIZE), layouts(SIZE), swizzles(), 0..2u8);
    run(cases, seed, all, |(c, l, s, which)| match which {
        0 => judged(c.composition(&l), |r| oracle::check_composition(&c, &l, &r)),
        _ => judged(l.compose_swizzle(s), |r| {
            for i in 0..number(l.size())?.min(LIMIT) {
                let (found, wanted) =
                    (number(r.crd2idx(i))?, l.at(s.apply(i)).map_err(|e| e.to_string())?);
                ensure(found == wanted, || format!("{l} o {s} at {i}: {found}, not {wanted}"))?;
            }
            Ok::<(), String>(())
        }),
    })
}

/// Cotargets of a complement: an integer or a shape.
fn cotargets() -> impl Strategy<Value = IntTuple> {
    prop_oneof![3 => (1..400i64).prop_map(IntTuple::from), 1 => shapes(SIZE)]
}

fn complement(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(SIZE), cotargets()), |(l, target)| {
        let extents: Vec<i64> = target.leaves().iter().filter_map(Int::as_static).collect();
        judged(l.complement(&target), |r| oracle::check_complement(&l, &extents, &r))
    })
}

fn right_inverse(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, layouts(SIZE), |l| {
        judged(l.right_inverse(), |r| {
            oracle::said(laws::check_right_inverse(&l, &r))?;
            oracle::said(laws::check_longest_right_inverse(&l, &r))
        })
    })
}

fn left_inverse(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, layouts(SIZE), |l| {
        judged(l.left_inverse(), |r| oracle::check_left_inverse(&l, &r))
    })
}

fn nullspace(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, layouts(SIZE), |l| judged(l.nullspace(), |r| laws::check_nullspace(&l, &r)))
}

fn divide(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(SIZE), layouts(24)), |(l, tile)| {
        judged(l.logical_divide(&tile), |r| oracle::check_logical_divide(&l, &tile, &r))
    })
}

fn divide_by_mode(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(SIZE), tilers(3)), |(l, t)| {
        judged(l.logical_divide(&t), |r| {
            laws::check_logical_divide(&l, &t, &r)?;
            if let Ok(zipped) = l.zipped_divide(&t) {
                laws::check_zipped_divide(&l, &t, &zipped)?;
            }
            if let Ok(tiled) = l.tiled_divide(&t) {
                laws::check_tiled_divide(&l, &t, &tiled)?;
            }
            if let Ok(flat) = l.flat_divide(&t) {
                laws::check_flat_divide(&l, &t, &flat)?;
            }
            Ok::<(), Violation>(())
        })
    })
}

fn product(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(24), layouts(24)), |(b, t)| {
        judged(b.logical_product(&t), |r| {
            laws::check_logical_product(&b, &t, &r)?;
            if let Ok(blocked) = b.blocked_product(&t) {
                laws::check_blocked_product(&b, &t, &blocked)?;
            }
            if let Ok(raked) = b.raked_product(&t) {
                laws::check_raked_product(&b, &t, &raked)?;
            }
            Ok::<(), Violation>(())
        })
    })
}

fn recast(cases: u64, seed: u64) -> Result<Tally, String> {
    let widths = prop::sample::select(vec![2i64, 4, 8]);
    run(cases, seed, (layouts(SIZE), widths, any::<bool>()), |(l, n, up)| match up {
        true => judged(l.upcast(n), |r| laws::check_recast(&l, 1, n, &r)),
        false => judged(l.downcast(n), |r| laws::check_recast(&l, n, 1, &r)),
    })
}

fn slice(cases: u64, seed: u64) -> Result<Tally, String> {
    let all = (composed_layouts(SIZE), any::<[bool; 4]>(), any::<[Index; 4]>());
    run(cases, seed, all, |(c, keep, at)| {
        let outer = c.outer_layout().map_err(|e| e.to_string())?;
        let mut slots: Vec<Coord> = Vec::new();
        for (i, mode) in outer.modes().enumerate() {
            let n = usize::try_from(number(mode.size())?).unwrap_or(1);
            slots.push(Tuple::leaf(match keep[i] {
                true => Slot::All,
                false => Slot::At(Int::from(i64::try_from(at[i].index(n)).unwrap_or(0))),
            }));
        }
        let whole = Coord::from_items(&slots).map_err(|e| e.to_string())?;
        let coord = if outer.is_leaf() { slots[0].clone() } else { whole };
        judged(c.slice_and_offset(&coord), |(r, offset)| {
            oracle::said(laws::check_slice(&c, &coord, &r, &offset))?;
            let (sliced, start) = outer.slice_and_offset(&coord).map_err(|e| e.to_string())?;
            let base = number(c.offset().to_int().cloned())? + number(start.to_int().cloned())?;
            let after = number(offset.to_int().cloned())?;
            for i in 0..number(sliced.size())? {
                let inside = base + sliced.at(i).map_err(|e| e.to_string())?;
                let wanted = c.swizzle().unwrap_or(Swizzle::identity()).apply(inside);
                let found = number(r.crd2idx(i))? + after;
                ensure(found == wanted, || format!("{c} at {coord}, {i}: {found}, not {wanted}"))?;
            }
            Ok::<(), String>(())
        })
    })
}

fn tile_to_shape(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (layouts(16), 1..5i64, 1..5i64), |(b, n, m)| {
        let own = b.shape().to_owned().product_each().map_err(|e| e.to_string())?;
        let wanted: Vec<i64> = own
            .leaves()
            .iter()
            .zip([n, m, 1, 1])
            .map(|(s, f)| s.as_static().unwrap_or(1) * f)
            .collect();
        let target = IntTuple::from_items(wanted).map_err(|e| e.to_string())?;
        judged(b.tile_to_shape(&target, None), |r| laws::check_tile_to_shape(&b, &target, &r))
    })
}

fn swizzle(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, (swizzles(), 0..1i64 << 40), |(s, x)| {
        let y = s.apply(x);
        ensure(s.apply(y) == x && s.inverse().apply(y) == x, || format!("{s} of {x} is {y}"))?;
        for bit in 0..s.bits() {
            let (from, to) = match s.shift() {
                d @ 0.. => (s.base() + d + bit, s.base() + bit),
                d => (s.base() + bit, s.base() - d + bit),
            };
            ensure(y >> to & 1 == (x >> to ^ x >> from) & 1, || format!("{s} of {x} is {y}"))?;
        }
        Ok(true)
    })
}

/// To find the cause of a refusal: multiples of its divisor that a symbol takes besides the drawn
/// value.
const MULTIPLES: [[i64; 4]; 6] = [
    [12, 7, 24, 5],
    [24, 24, 12, 36],
    [5, 12, 7, 24],
    [36, 5, 60, 12],
    [60, 36, 36, 60],
    [7, 60, 5, 7],
];

/// Checks that a refusal is short, and that the operation has a result under the assumption that it
/// names.
fn advice(
    l: &Layout,
    error: &LayoutError,
    op: impl Fn(&Layout) -> Result<Layout, LayoutError>,
) -> Result<Advice, String> {
    let text = error.to_string();
    ensure(text.chars().count() <= MAX_REFUSAL, || format!("too long: {text}"))?;
    if matches!(error, LayoutError::ConditionViolated { .. }) {
        return Ok(Advice::Evaluate);
    }
    let Some(assumption) = error.assumption() else { return Ok(Advice::Nothing) };
    ensure(text.ends_with(&format!("; assume {assumption}")), || format!("not named: {text}"))?;
    match l.assuming(assumption).and_then(|l| op(&l)) {
        Ok(_) => Ok(Advice::Assume),
        Err(e) => Err(format!("{text}, but then {e}")),
    }
}

/// Classifies a refusal for symbols with the values `env`. `ConditionViolated` means that there is
/// a result, under a condition that the values violate. `holds` checks the integers' result.
fn refusal(
    l: &Layout,
    env: &Env,
    error: &LayoutError,
    op: impl Fn(&Layout) -> Result<Layout, LayoutError>,
    holds: impl Fn(&Layout) -> oracle::Check,
) -> Result<Outcome, String> {
    let advice = advice(l, error, &op)?;
    let result = |env: &Env| l.eval(env).and_then(|numbers| op(&numbers));
    let Ok(own) = result(env) else { return Ok(Outcome::Refused(advice)) };
    let by_cases = match l.by_cases(&op).and_then(|cases| cases.eval(env)) {
        Ok(made) => holds(&made).map(|()| true)?,
        Err(_) => false,
    };
    let outcome = |cause| Ok(Outcome::Avoidable { cause, advice, by_cases });
    if advice == Advice::Evaluate {
        return outcome(Cause::Condition);
    }
    let extents = l.shape().leaves().iter();
    let strides = l.stride().leaves().iter().filter_map(|d| d.as_int());
    let symbols: Vec<_> = extents.chain(strides).filter_map(Int::as_symbol).cloned().collect();
    let mut forms = std::collections::BTreeSet::from([form(&own)]);
    let mut is_exception = true;
    for row in MULTIPLES {
        let mut other = Env::new();
        for (i, symbol) in symbols.iter().enumerate() {
            let sign = if symbol.bounds().1 < 0 { -1 } else { 1 };
            other = other.with(symbol.name(), sign * symbol.divisor() * row[i % row.len()]);
        }
        if let Ok(made) = result(&other) {
            is_exception = false;
            forms.insert(form(&made));
        }
    }
    outcome(match forms.len() {
        1 if is_exception => Cause::Exception,
        1 => Cause::None,
        _ => Cause::Form,
    })
}

/// Returns a static layout's form: for each mode with an extent other than 1, its place in the
/// order of the strides.
fn form(l: &Layout) -> Vec<usize> {
    let leaves = l.shape().leaves().iter().zip(l.stride().leaves());
    let strides: Vec<i64> = leaves
        .filter(|(s, _)| !s.is(1))
        .map(|(_, d)| d.as_static().map_or(0, |d| d.saturating_abs()))
        .collect();
    strides.iter().map(|d| strides.iter().filter(|other| *other < d).count()).collect()
}

/// Checks that evaluation commutes with the operation. If the operation accepts the symbols and its
/// conditions hold for the values, the symbolic result is the same function as the integers'
/// result.
fn commutes<S: Strategy>(
    cases: u64,
    seed: u64,
    other: S,
    op: impl Fn(&Layout, &S::Value) -> Result<Layout, LayoutError>,
) -> Result<Tally, String> {
    // At least one symbol, because the campaigns above cover the other cases.
    let with_symbols = symbolic_layouts(SIZE)
        .prop_filter("without a symbol", |(l, _): &(Layout, Env)| !l.is_static());
    run(cases, seed, (with_symbols, other), |((l, env), other)| {
        let numbers = l.eval(&env).map_err(|e| e.to_string())?;
        let same = |found: &Layout| {
            let says = |right: &dyn std::fmt::Display| {
                format!(
                    "{l:?} is {numbers}; {found} is made of its symbols, {right} of its numbers"
                )
            };
            match op(&numbers, &other) {
                Ok(right) => {
                    oracle::check_same(found, &right).map_err(|e| format!("{}: {e}", says(&right)))
                }
                Err(e) => Err(says(&e)),
            }
        };
        match op(&l, &other).and_then(|made| made.eval(&env)) {
            Ok(found) => same(&found).map(|()| Outcome::Accepted),
            Err(e) => refusal(&l, &env, &e, |l| op(l, &other), same),
        }
    })
}

/// A symbolic right inverse may be shorter than the integers' one, but it is a right inverse.
fn symbolic_right_inverse(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, symbolic_layouts(SIZE), |(l, env)| {
        let Ok(r) = l.right_inverse() else { return Ok(false) };
        let Ok(r) = r.eval(&env) else { return Ok(false) };
        let numbers = l.eval(&env).map_err(|e| e.to_string())?;
        oracle::said(laws::check_right_inverse(&numbers, &r)).map(|()| true)
    })
}

/// A symbolic left inverse may be larger than the integers' one, which drops modes with extent 1
/// and stride 0, but it is a left inverse.
fn symbolic_left_inverse(cases: u64, seed: u64) -> Result<Tally, String> {
    run(cases, seed, symbolic_layouts(SIZE), |(l, env)| {
        let numbers = l.eval(&env).map_err(|e| e.to_string())?;
        let holds = |found: &Layout| oracle::said(laws::check_left_inverse(&numbers, found));
        match l.left_inverse().and_then(|made| made.eval(&env)) {
            Ok(found) => holds(&found).map(|()| Outcome::Accepted),
            Err(e) => refusal(&l, &env, &e, Layout::left_inverse, holds),
        }
    })
}

/// Checks value, divisor and bounds of symbolic sums, products, quotients, bit operations and
/// swizzles.
fn symbolic_arithmetic(cases: u64, seed: u64) -> Result<Tally, String> {
    let steps = prop::collection::vec((0u8..14, 0usize..6, 0usize..6, swizzles()), 1..7);
    let all = (steps, any::<[u8; 3]>(), any::<[Index; 3]>(), 1..9i64);
    run(cases, seed, all, |(steps, values, divisors, c)| {
        let mut env = Env::new();
        let mut pool: Vec<(Int, i64)> = vec![(c.into(), c), (2.into(), 2), (3.into(), 3)];
        for (i, v) in values.iter().enumerate() {
            let v = i64::from(*v) + 1;
            let all: Vec<i64> = (1..=v).filter(|d| v % d == 0).collect();
            let name = format!("n{i}");
            env = env.with(&name, v);
            pool.push((Int::symbol(&name).divisible_by(all[divisors[i].index(all.len())]), v));
        }
        let mut accepted = true;
        for (op, i, j, swizzle) in steps {
            let ((a, x), (b, y)) = (pool[i % pool.len()].clone(), pool[j % pool.len()].clone());
            let (made, wanted) = match op {
                0..12 => arithmetic(op, (&a, x), (&b, y)),
                12 => shift(&a, x, i64::try_from(j).unwrap_or(0) - 3),
                _ => (swizzle.apply_int(&a), Some(swizzle.apply(x))),
            };
            let (Ok(made), Some(wanted)) = (made, wanted) else {
                accepted = false;
                continue;
            };
            let found = made.eval(&env).map_err(|e| e.to_string())?;
            ensure(found == wanted, || format!("{op} of {a:?}, {b:?} is {found}, not {wanted}"))?;
            let d = made.divisibility();
            let divides = if d == 0 { found == 0 } else { found % d == 0 };
            ensure(divides, || format!("{made:?} = {found} is not divisible by {d}"))?;
            let zeros = match op {
                9 => low_zeros(&a).max(low_zeros(&b)),
                10 => low_zeros(&a).min(low_zeros(&b)),
                13 => swizzled_zeros(swizzle, low_zeros(&a)),
                _ => 0,
            };
            ensure(d == 0 || low_zeros(&made) >= zeros, || {
                format!("{made:?} has {zeros} low bits of 0, and is known to be divisible by {d}")
            })?;
            let (low, high) = made.bounds();
            ensure(low <= found && found <= high, || {
                format!("{made:?} = {found} in {low}..={high}")
            })?;
            pool.push((made, found));
        }
        Ok(accepted)
    })
}

/// Applies the operation with this index to symbols and to their values.
fn arithmetic(
    op: u8,
    (a, x): (&Int, i64),
    (b, y): (&Int, i64),
) -> (Result<Int, LayoutError>, Option<i64>) {
    let floor = |x: i64, y: i64| {
        let (q, r) = (x.checked_div(y)?, x.checked_rem(y)?);
        Some(if r != 0 && (r < 0) != (y < 0) { q - 1 } else { q })
    };
    match op {
        0 => (a.add(b), x.checked_add(y)),
        1 => (a.sub(b), x.checked_sub(y)),
        2 => (a.mul(b), x.checked_mul(y)),
        3 => (a.floor_div(b), floor(x, y)),
        4 => (a.ceil_div(b), x.checked_neg().and_then(|x| floor(x, y)).map(|q| -q)),
        5 => (a.modulo(b), (y > 0).then(|| x.rem_euclid(y))),
        6 => (a.min(b), Some(x.min(y))),
        7 => (a.max(b), Some(x.max(y))),
        8 => (a.gcd(b), {
            let (mut p, mut q) = (x.abs(), y.abs());
            while q != 0 {
                (p, q) = (q, p % q);
            }
            Some(p)
        }),
        9 => (a.and(b), Some(x & y)),
        10 => (a.xor(b), Some(x ^ y)),
        _ => (a.round_up(b), (y > 0).then(|| x + (-x).rem_euclid(y))),
    }
}

/// Computes `a << by`, or `a >> -by`, as a product or quotient with a power of two.
fn shift(a: &Int, x: i64, by: i64) -> (Result<Int, LayoutError>, Option<i64>) {
    let power = 1i64 << by.abs();
    match by {
        0.. => (a.mul(&power.into()), x.checked_mul(power)),
        _ => (a.floor_div(&power.into()), Some(x >> -by)),
    }
}

/// Returns how many low bits are known to be 0.
fn low_zeros(x: &Int) -> u32 {
    x.divisibility().trailing_zeros()
}

/// Returns how many low bits stay 0 under a swizzle: those below the bits that change, or all of
/// them if they include the bits that are read.
fn swizzled_zeros(swizzle: Swizzle, zeros: u32) -> u32 {
    let read = i64::BITS - swizzle.y_mask().leading_zeros();
    if zeros >= read { zeros } else { zeros.min(swizzle.z_mask().trailing_zeros()) }
}

/// Returns a profile that keeps the layout's modes.
fn ones(l: &Layout) -> Result<IntTuple, LayoutError> {
    if l.is_leaf() { Ok(1.into()) } else { IntTuple::from_items(vec![1i64; l.rank()]) }
}

/// Repeats the layout to a multiple of each of its modes.
fn multiples(l: &Layout, factors: &[i64; 4]) -> Result<Layout, LayoutError> {
    let own = l.shape().to_owned().product_each()?;
    let wanted = own.leaves().iter().zip(factors).map(|(s, f)| s.mul(&(*f).into()));
    let wanted = wanted.collect::<Result<Vec<Int>, LayoutError>>()?;
    let target = if l.is_leaf() { wanted[0].clone().into() } else { IntTuple::from_items(wanted)? };
    l.tile_to_shape(&target, None)
}

/// Returns a coordinate that keeps some modes and fixes the others.
fn slicer(l: &Layout, at: &[Option<u8>; 4]) -> Result<Coord, LayoutError> {
    let slot = |at: &Option<u8>| match at {
        Some(at) => Tuple::leaf(Slot::At(Int::from(i64::from(at % 4)))),
        None => Tuple::leaf(Slot::All),
    };
    let slots: Vec<Coord> = at.iter().take(l.rank()).map(slot).collect();
    if l.is_leaf() { Ok(slots[0].clone()) } else { Coord::from_items(&slots) }
}

/// Bit widths of old and new elements.
fn widths() -> impl Strategy<Value = (i64, i64)> {
    prop::sample::select(vec![(8i64, 16i64), (16, 8), (8, 32), (32, 8), (16, 32), (4, 8), (6, 8)])
}

/// A campaign whose law is that evaluation commutes with an operation.
macro_rules! symbolic_law {
    ($name:literal, $other:expr, $op:expr) => {
        Campaign {
            name: concat!("symbolic-", $name),
            law: concat!("`eval(", $name, "(L), env) == ", $name, "(eval(L, env))` as functions"),
            run: |cases, seed| commutes(cases, seed, $other, $op),
        }
    };
}

/// All campaigns, in the order of the record.
pub(crate) fn campaigns() -> Vec<Campaign> {
    let law = |name, law, run| Campaign { name, law, run };
    vec![
        law("text", "what is printed reads back as the same value", text),
        law(
            "coordinates",
            "an index, its coordinate and the sum of entries times strides agree",
            coordinates,
        ),
        law("coalesce", "`R(i) == L(i)`, flat, no two adjacent modes are one", coalesce),
        law("composition", "`R(i) == A(B(i))`, and the shape refines that of B", composition),
        law(
            "composition-coordinates",
            "the same with basis strides on either side",
            composition_of_coordinates,
        ),
        law("composition-by-mode", "the same for each mode and its tile", composition_by_mode),
        law(
            "composition-swizzled",
            "the same with a swizzle on either side",
            composition_of_swizzled,
        ),
        law(
            "complement",
            "`(filter(L), R)` is one-to-one, R increases and reaches the cotarget",
            complement,
        ),
        law("right-inverse", "`L(R(i)) == i`, and no chain of leaves is longer", right_inverse),
        law("left-inverse", "`L(R(L(i))) == L(i)`", left_inverse),
        law("nullspace", "`L(R(i)) == 0`, and R has all modes of stride 0", nullspace),
        law("divide", "`R == A o (T, C)` with C the complement of T", divide),
        law(
            "divide-by-mode",
            "the same for each mode; zipped, tiled and flat have the same values",
            divide_by_mode,
        ),
        law(
            "product",
            "`R == (A, C o T)` with C the complement of A; blocked and raked have the same values",
            product,
        ),
        law(
            "tile-to-shape",
            "the shape refines the target, and each block is the first, moved",
            tile_to_shape,
        ),
        law("recast", "the same memory in other units", recast),
        law("slice", "offset plus the rest is the value of the whole, also after a swizzle", slice),
        law("swizzle", "bit by bit, and its own inverse", swizzle),
        symbolic_law!("coalesce", Just(()), |l, ()| l.coalesce()),
        symbolic_law!("coalesce_by", Just(()), |l, ()| l.coalesce_by(&ones(l)?)),
        symbolic_law!("filter", Just(()), |l, ()| l.filter()),
        symbolic_law!("filter_zeros", Just(()), |l, ()| Ok(l.filter_zeros())),
        symbolic_law!("nullspace", Just(()), |l, ()| l.nullspace()),
        law(
            "symbolic-left_inverse",
            "`eval(left_inverse(L), env)` is a left inverse of `eval(L, env)`",
            symbolic_left_inverse,
        ),
        law(
            "symbolic-right_inverse",
            "`eval(right_inverse(L), env)` is a right inverse of `eval(L, env)`",
            symbolic_right_inverse,
        ),
        symbolic_law!("composition", layouts(24), |l, b| l.composition(b)),
        symbolic_law!("composition_on_the_right", layouts(24), |l, b: &Layout| b.composition(l)),
        symbolic_law!("composition_by_mode", tilers(3), |l, t: &Tiler| l.composition(t)),
        symbolic_law!("complement", cotargets(), |l, n| l.complement(n)),
        symbolic_law!("logical_divide", layouts(24), |l, b| l.logical_divide(b)),
        symbolic_law!("logical_divide_by_mode", tilers(3), |l, t: &Tiler| l.logical_divide(t)),
        symbolic_law!("zipped_divide", tilers(3), |l, t: &Tiler| l.zipped_divide(t)),
        symbolic_law!("tiled_divide", tilers(3), |l, t: &Tiler| l.tiled_divide(t)),
        symbolic_law!("flat_divide", tilers(3), |l, t: &Tiler| l.flat_divide(t)),
        symbolic_law!("logical_product", layouts(24), |l, b| l.logical_product(b)),
        symbolic_law!("zipped_product", tilers(3), |l, t: &Tiler| l.zipped_product(t)),
        symbolic_law!("tiled_product", tilers(3), |l, t: &Tiler| l.tiled_product(t)),
        symbolic_law!("flat_product", tilers(3), |l, t: &Tiler| l.flat_product(t)),
        symbolic_law!("blocked_product", layouts(24), |l, b| l.blocked_product(b)),
        symbolic_law!("raked_product", layouts(24), |l, b| l.raked_product(b)),
        symbolic_law!("tile_to_shape", [1..5i64, 1..5, 1..5, 1..5], multiples),
        symbolic_law!("slice", any::<[Option<u8>; 4]>(), |l, c| l.slice(&slicer(l, c)?)),
        symbolic_law!("upcast", prop::sample::select(vec![2i64, 4, 8]), |l, n| l.upcast(*n)),
        symbolic_law!("downcast", prop::sample::select(vec![2i64, 4, 8]), |l, n| l.downcast(*n)),
        symbolic_law!("recast_layout", widths(), |l, &(old, new)| l.recast_layout(old, new)),
        symbolic_law!("compact", Just(()), |l, ()| Ok(Layout::compact(l.shape().to_owned()))),
        law(
            "symbolic-arithmetic",
            "value, divisor and bounds of + - * / % min max gcd & ^ shifts and swizzles hold",
            symbolic_arithmetic,
        ),
    ]
}
