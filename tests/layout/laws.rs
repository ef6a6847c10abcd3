//! Each operation of the algebra against its definition: random, exhaustive and symbolic.

use crate::support::oracle;

use proptest::prelude::*;
use tilewright::layout::strategies::{
    basis_layouts, composed_layouts, layout_pairs, layouts, shapes, swizzles, symbolic, tilers,
};
use tilewright::layout::{
    ComposedLayout, Coord, Env, Int, IntTuple, Layout, LayoutError, Slot, Swizzle, Tiler, Tuple,
    compact_col_major, coord, crd2idx, domain_distribute, idx2crd, layout, make_layout_tv,
};

/// The size of the sizes that are drawn.
pub(crate) const SIZE: i64 = 96;

fn held(check: Result<(), impl std::fmt::Display>) -> Result<(), TestCaseError> {
    check.map_err(|violation| TestCaseError::fail(violation.to_string()))
}

pub(crate) fn cases() -> ProptestConfig {
    let cases = std::env::var("TILEWRIGHT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    }
}

/// Errors that a static layout must not meet.
fn is_honest(e: &LayoutError) -> bool {
    !matches!(e.cause(), LayoutError::Undecided { .. } | LayoutError::NotStatic { .. })
}

/// Returns true if the error gives the reason why there is no complement: a negative stride, if
/// there is one.
fn has_no_complement(l: &Layout, e: &LayoutError) -> bool {
    let filtered = l.filter().unwrap();
    let negative = filtered.as_ref().leaves().any(|(_, d)| d.as_static() < Some(0));
    match e.cause() {
        LayoutError::Unsupported { .. } => negative,
        LayoutError::NotInjective { .. } => !negative && !filtered.is_injective().unwrap(),
        LayoutError::Interleaved { .. } => !negative,
        _ => false,
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn text_round_trip(l in layouts(SIZE), b in basis_layouts(SIZE), c in composed_layouts(SIZE), t in tilers(3)) {
        prop_assert_eq!(l.to_string().parse::<Layout>(), Ok(l));
        prop_assert_eq!(b.to_string().parse::<Layout>(), Ok(b));
        prop_assert_eq!(c.to_string().parse::<ComposedLayout>(), Ok(c));
        prop_assert_eq!(t.to_string().parse::<Tiler>(), Ok(t));
    }

    #[test]
    fn coordinates_and_indices_are_inverse(s in shapes(SIZE)) {
        for i in 0..s.product().unwrap().to_static().unwrap() {
            let c = idx2crd(&i.into(), &s).unwrap();
            prop_assert!(c.congruent(&s));
            prop_assert_eq!(crd2idx(&c, &s), Ok(i.into()));
            prop_assert_eq!(Layout::compact(s.clone()).crd2idx(&c), Ok(i.into()));
            prop_assert_eq!(&Layout::identity(&s).unwrap().apply(i).unwrap(), &c);
        }
    }

    #[test]
    fn walking_is_evaluating(l in layouts(SIZE)) {
        let walked: Vec<i64> = l.indices().unwrap().collect();
        let mut folded = Vec::new();
        l.indices().unwrap().for_each(|i| folded.push(i));
        let at: Vec<i64> = (0..l.size().unwrap().to_static().unwrap()).map(|i| l.at(i).unwrap()).collect();
        prop_assert_eq!(&walked, &at);
        prop_assert_eq!(&folded, &at);
    }

    #[test]
    fn coalesce(l in layouts(SIZE)) {
        held(oracle::check_coalesce(&l, &l.coalesce().unwrap()))?;
    }

    #[test]
    fn composition((a, b) in layout_pairs(SIZE)) {
        match a.composition(&b) {
            Ok(r) => held(oracle::check_composition(&a, &b, &r))?,
            Err(e) => prop_assert!(is_honest(&e), "{}", e),
        }
    }

    #[test]
    fn composition_of_coordinates(a in basis_layouts(SIZE), b in layouts(SIZE)) {
        if let Ok(r) = a.composition(&b) {
            held(oracle::check_composition(&a, &b, &r))?;
        }
        if let Ok(r) = b.composition(&a) {
            held(oracle::check_composition(&b, &a, &r))?;
        }
    }

    #[test]
    fn composition_by_mode(a in layouts(SIZE), t in tilers(3)) {
        match a.composition(&t) {
            Ok(r) => held(oracle::check_composition_by(&a, &t, &r))?,
            Err(e) => prop_assert!(is_honest(&e), "{}", e),
        }
    }

    #[test]
    fn complement(l in layouts(SIZE), target in 1..400i64) {
        match l.complement(&target.into()) {
            Ok(r) => held(oracle::check_complement(&l, &[target], &r))?,
            Err(e) => prop_assert!(has_no_complement(&l, &e), "{}", e),
        }
    }

    #[test]
    fn inverses(l in layouts(SIZE)) {
        let r = l.right_inverse().unwrap();
        let n = r.size().unwrap().to_static().unwrap();
        held(oracle::check_right_inverse(&l, &r, n))?;
        held(oracle::check_longest_right_inverse(&l, &r))?;
        held(left_inverse_is_as_promised(&l))?;
        let null = l.nullspace().unwrap();
        prop_assert!(null.indices().unwrap().all(|i| l.at(i) == Ok(0)));
        prop_assert_eq!(null.nullspace().unwrap().size(), Ok(Int::ONE));
    }

    /// `(A o B) o C == A o (B o C)` if every `C(i)` is in `0..size(B)`, also with negative strides.
    #[test]
    fn composition_is_associative_inside((a, b) in layout_pairs(SIZE), c in layouts(12)) {
        let size = b.size().unwrap().to_static().unwrap();
        if c.indices().unwrap().all(|i| (0..size).contains(&i))
            && let (Ok(ab), Ok(bc)) = (a.composition(&b), b.composition(&c))
            && let (Ok(left), Ok(right)) = (ab.composition(&c), a.composition(&bc))
        {
            prop_assert!(left.indices().unwrap().eq(right.indices().unwrap()), "{} and {}", left, right);
        }
    }

    /// `a(R(i)) == i == b(R(i))` for as many coordinates of both as the right inverse of either
    /// begins with.
    #[test]
    fn what_is_in_common(a in layouts(SIZE), b in layouts(SIZE)) {
        held(common_is_as_promised(&a, &b))?;
        // Without strides that are negative or 0, no right inverse begins with more.
        let number = |i: Int| i.to_static().unwrap();
        let increases = |l: &Layout| l.as_ref().leaves().all(|(s, d)| s.is(1) || d.as_static() > Some(0));
        if increases(&a) && increases(&b) {
            let domain = number(a.size().unwrap()).min(number(b.size().unwrap()));
            let mut most = 1;
            for (inverted, l) in [(&b, &a), (&a, &b)] {
                let r = inverted.right_inverse().unwrap();
                let same = |m: i64| (0..m).all(|i| {
                    let at = r.at(i).unwrap();
                    at < domain && l.at(at) == Ok(i)
                });
                let mut before = 1;
                for (s, _) in r.as_ref().leaves() {
                    let s = s.to_static().unwrap();
                    most = most.max((1..=s).map(|c| before * c).filter(|m| same(*m)).max().unwrap_or(1));
                    before *= s;
                }
            }
            prop_assert!(number(a.max_common_vector(&b).unwrap()) >= most, "{} and {} have {}", a, b, most);
        }
    }

    #[test]
    fn divides(l in layouts(SIZE), t in tilers(3), tile in layouts(24)) {
        if let Ok(r) = l.logical_divide(&t) {
            held(oracle::check_logical_divide(&l, &t, &r))?;
            if let Ok(z) = l.zipped_divide(&t) {
                prop_assert_eq!(z.rank(), 2);
                prop_assert_eq!(z.size(), r.size());
            }
        }
        if let Ok(r) = l.logical_divide(&tile) {
            held(oracle::check_logical_divide(&l, &tile, &r))?;
        }
    }

    #[test]
    fn products(b in layouts(24), t in layouts(24)) {
        match b.logical_product(&t) {
            Ok(r) => held(oracle::check_logical_product(&b, &t, &r))?,
            Err(e) => prop_assert!(is_honest(&e), "{}", e),
        }
        if let (Ok(x), Ok(y)) = (b.blocked_product(&t), b.raked_product(&t)) {
            let sorted = |l: &Layout| {
                let mut all: Vec<i64> = l.indices().unwrap().collect();
                all.sort_unstable();
                all
            };
            prop_assert_eq!(sorted(&x), sorted(&y));
        }
    }

    #[test]
    fn tiles_reach_their_shape(b in layouts(16), n in 1..5i64, m in 1..5i64) {
        let own = b.shape().to_owned().product_each().unwrap();
        let factors = [n, m, 1, 1];
        let target: Vec<i64> = own.leaves().iter().zip(factors)
            .map(|(s, f)| s.to_static().unwrap() * f).collect();
        let target = IntTuple::from_items(target).unwrap();
        if let Ok(r) = b.tile_to_shape(&target, None) {
            prop_assert_eq!(target.compatible(&r.shape().to_owned()), Ok(true));
        }
    }

    #[test]
    fn swizzles_are_involutions(s in swizzles(), x in 0..1i64 << 20) {
        prop_assert_eq!(s.apply(s.apply(x)), x);
        let symbol = Int::symbol("x").assume(1, 0, i64::MAX).unwrap();
        let env = Env::new().with("x", x);
        prop_assert_eq!(s.apply_int(&symbol).unwrap().eval(&env), Ok(s.apply(x)));
    }

    #[test]
    fn swizzled_slices(c in composed_layouts(SIZE), keep in any::<[bool; 4]>(), at in any::<[prop::sample::Index; 4]>()) {
        let outer = c.outer_layout().unwrap().clone();
        let slots = outer.modes().enumerate().map(|(i, mode)| {
            let n = mode.size().unwrap().to_static().unwrap();
            if keep[i] { Tuple::leaf(Slot::All) } else { Tuple::leaf(Slot::At(Int::from(at[i].index(usize::try_from(n).unwrap())))) }
        });
        let slots: Vec<Coord> = slots.collect();
        let coord = Coord::from_items(&slots).unwrap();
        let coord = if outer.is_leaf() { slots[0].clone() } else { coord };
        let (r, offset) = c.slice_and_offset(&coord).unwrap();
        let n = r.size().unwrap().to_static().unwrap();
        let sliced = outer.slice(&coord).unwrap();
        // The values of the kept modes, added to the offset of the places.
        let start = outer.slice_and_offset(&coord).unwrap().1.to_int().unwrap().to_static().unwrap();
        let base = c.offset().to_int().unwrap().to_static().unwrap();
        for i in 0..n {
            let inside = base + start + sliced.at(i).unwrap();
            let expected = c.swizzle().unwrap().apply(inside);
            let found = r.crd2idx(i).unwrap().add(offset.to_int().unwrap()).unwrap();
            prop_assert_eq!(found, Int::from(expected), "at {} of {} sliced by {}: {} + {}", i, c, coord, offset, r);
        }
    }

    #[test]
    fn layouts_after_swizzles(l in layouts(64), s in swizzles()) {
        let r = l.compose_swizzle(s).unwrap();
        for i in 0..l.size().unwrap().to_static().unwrap() {
            prop_assert_eq!(r.crd2idx(i), Ok(l.at(s.apply(i)).unwrap().into()), "{} o {} = {}", l, s, r);
        }
    }

    #[test]
    fn composed_layouts_after_each_other(a in composed_layouts(SIZE), b in composed_layouts(SIZE)) {
        if let Ok(r) = a.compose_composed(&b) {
            for i in 0..b.size().unwrap().to_static().unwrap() {
                let inside = b.apply(i).unwrap();
                prop_assert_eq!(r.apply(i), a.apply(&inside), "{} o {} = {} at {}", a, b, r, i);
            }
        }
    }

    #[test]
    fn recasts_keep_the_memory(l in layouts(SIZE), n in prop::sample::select(vec![2i64, 4, 8])) {
        if let Ok(up) = l.upcast(n) {
            held(oracle::check_recast(&l, 1, n, &up))?;
        }
        if let Ok(down) = l.downcast(n) {
            held(oracle::check_recast(&l, n, 1, &down))?;
        }
    }
}

/// The law of symbols: evaluation commutes with the operation. `op` of the symbolic layout, where
/// it accepts and its conditions hold, is the same function as `op` of the numbers.
fn commutes(
    l: &Layout,
    env: &Env,
    op: impl Fn(&Layout) -> Result<Layout, LayoutError>,
) -> Result<(), TestCaseError> {
    let Ok(symbolic) = op(l) else { return Ok(()) };
    let Ok(left) = symbolic.eval(env) else { return Ok(()) };
    let numbers = l.eval(env).map_err(|e| TestCaseError::fail(e.to_string()))?;
    match op(&numbers) {
        Ok(right) => oracle::check_same(&left, &right).map_err(|e| {
            TestCaseError::fail(format!(
                "{l}: {symbolic} is {left}, but {numbers} gives {right}: {e}"
            ))
        }),
        Err(e) => {
            Err(TestCaseError::fail(format!("{l}: {symbolic} is {left}, but {numbers} gives {e}")))
        }
    }
}

/// Extents and strides at the ends of their ranges, also ones that no layout should have.
fn extreme_layouts() -> impl Strategy<Value = Layout> {
    let ends = vec![
        0,
        1,
        2,
        3,
        7,
        -1,
        -2,
        1 << 31,
        1 << 32,
        1 << 62,
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        i64::MIN + 1,
    ];
    let leaf = (prop::sample::select(ends.clone()), prop::sample::select(ends));
    prop::collection::vec(leaf, 1..4).prop_map(|leaves| {
        if let [(s, d)] = leaves[..] {
            return Layout::leaf(s, d);
        }
        let (shape, stride): (Vec<i64>, Vec<i64>) = leaves.into_iter().unzip();
        Layout::new(IntTuple::from_items(shape).unwrap(), IntTuple::from_items(stride).unwrap())
            .unwrap()
    })
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever comes out, nothing overflows on the way.
    #[test]
    fn extremes_do_not_panic(a in extreme_layouts(), b in extreme_layouts(), t in tilers(3), n in prop::sample::select(vec![0, 1, -1, 2, 8, 1 << 40, i64::MAX, i64::MIN])) {
        let shape = b.shape().to_owned();
        let _ = (a.size(), a.cosize(), a.coshape(), a.coalesce(), a.filter(), a.flatten(), a.nullspace());
        let _ = (a.right_inverse(), a.left_inverse(), a.complement_inner(), a.complement(&shape));
        let _ = (a.complement(&n.into()), a.composition(&b), a.composition(&t), a.logical_divide(&b));
        let _ = (a.zipped_divide(&t), a.tiled_divide(&b), a.flat_divide(&t), a.logical_product(&b));
        let _ = (a.zipped_product(&t), a.blocked_product(&b), a.raked_product(&b), a.tile_to_shape(&shape, None));
        let _ = (a.upcast(n), a.downcast(n), a.recast_layout(n, 8), a.recast_layout(8, n), a.size_in_bytes(n));
        let _ = (a.max_common_layout(&b), a.max_common_vector(&b), a.max_alignment(), a.layout_like(), a.fragment_like());
        let _ = (a.at(n), a.crd2idx(n), a.apply(n), a.indices().map(|i| i.take(9).count()), a.slice(&coord!(_)));
        let _ = (a.local_tile(&t, &coord!(0)), a.local_partition(&b, &n.into()), a.domain_offset(&n.into()));
        let _ = (idx2crd(&n.into(), &shape), crd2idx(&n.into(), &shape), shape.ceil_div(&n.into()), shape.shape_div(&n.into()));
        let _ = (shape.product_each(), shape.round_up(&shape), shape.compatible(&n.into()), shape.increment(&shape));
        let _ = (a.compose_swizzle(Swizzle::new(2, 3, 3).unwrap()), a.leading_dim(), a.identity_like(), make_layout_tv(&a, &b));
        let _ = (domain_distribute(&shape, &n.into()), compact_col_major(&shape, &n.into()), Layout::compact(shape));
        let _ = a.is_major(&[0]);
    }
}

fn symbolic_layouts() -> impl Strategy<Value = (Layout, Env)> {
    layouts(SIZE).prop_flat_map(symbolic)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn symbols_commute_with_everything((l, env) in symbolic_layouts(), b in layouts(24), t in tilers(3)) {
        commutes(&l, &env, Layout::coalesce)?;
        commutes(&l, &env, Layout::filter)?;
        commutes(&l, &env, Layout::flatten)?;
        commutes(&l, &env, Layout::nullspace)?;
        commutes(&l, &env, |l| l.composition(&b))?;
        commutes(&l, &env, |l| b.composition(l))?;
        commutes(&l, &env, |l| l.composition(&t))?;
        commutes(&l, &env, |l| l.logical_divide(&t))?;
        commutes(&l, &env, |l| l.zipped_divide(&t))?;
        commutes(&l, &env, |l| l.logical_divide(&b))?;
        commutes(&l, &env, |l| l.logical_product(&b))?;
        commutes(&l, &env, |l| b.logical_product(l))?;
        commutes(&l, &env, |l| l.complement(&256.into()))?;
        commutes(&l, &env, |l| l.upcast(2))?;
        commutes(&l, &env, |l| l.downcast(2))?;
        commutes(&l, &env, |l| Ok(Layout::compact(l.shape().to_owned())))?;
    }

    #[test]
    fn symbols_commute_with_what_is_made_of_these((l, env) in symbolic_layouts(), b in layouts(24), t in tilers(3)) {
        commutes(&l, &env, |l| Ok(l.filter_zeros()))?;
        commutes(&l, &env, |l| Ok(Layout::row_major(l.shape().to_owned())))?;
        commutes(&l, &env, |l| l.coalesce_by(&IntTuple::from((1, 1))))?;
        commutes(&l, &env, |l| l.filter_by(&IntTuple::from((1, 1))))?;
        commutes(&l, &env, |l| l.complement_inner())?;
        commutes(&l, &env, |l| l.complement(&b.shape().to_owned()))?;
        commutes(&l, &env, |l| b.complement(&l.shape().to_owned()))?;
        commutes(&l, &env, |l| b.logical_divide(l))?;
        commutes(&l, &env, |l| l.tiled_divide(&t))?;
        commutes(&l, &env, |l| l.flat_divide(&t))?;
        commutes(&l, &env, |l| l.logical_product(&t))?;
        commutes(&l, &env, |l| l.zipped_product(&t))?;
        commutes(&l, &env, |l| l.blocked_product(&b))?;
        commutes(&l, &env, |l| l.raked_product(&b))?;
        commutes(&l, &env, |l| b.blocked_product(l))?;
        commutes(&l, &env, |l| b.raked_product(l))?;
        commutes(&l, &env, |l| b.tile_to_shape(&l.shape().to_owned(), None))?;
        commutes(&l, &env, |l| l.recast_layout(16, 8))?;
        commutes(&l, &env, |l| l.recast_layout(8, 16))?;
        commutes(&l, &env, |l| l.recast_layout(12, 8))?;
        commutes(&l, &env, |l| l.append_ones(5))?;
        commutes(&l, &env, |l| l.slice(&coord!(_)))?;
        // A slice of a divide may leave out the mode that does not hold for the numbers.
        let numbers = l.eval(&env).unwrap();
        if numbers.zipped_divide(&t).is_ok() {
            commutes(&l, &env, |l| Ok(l.local_tile(&t, &coord!(0))?.0))?;
        }
        if numbers.local_partition(&b, &1.into()).is_ok() {
            commutes(&l, &env, |l| Ok(l.local_partition(&b, &1.into())?.0))?;
        }
    }

    #[test]
    fn numbers_of_symbolic_layouts((l, env) in symbolic_layouts(), b in layouts(24), i in 0..24i64) {
        let numbers = l.eval(&env).unwrap();
        let same = |made: Result<Int, LayoutError>, wanted: Result<Int, LayoutError>| {
            match made.and_then(|made| made.eval(&env)) {
                Ok(made) => made == wanted.unwrap().to_static().unwrap(),
                Err(_) => true,
            }
        };
        prop_assert!(same(l.size(), numbers.size()), "size of {}", l);
        prop_assert!(same(l.cosize(), numbers.cosize()), "cosize of {}", l);
        prop_assert!(same(l.crd2idx(i), numbers.crd2idx(i)), "{} at {}", l, i);
        // What is known to be aligned or in common is so for all numbers.
        if let (Ok(known), Ok(of_numbers)) = (l.max_alignment(), numbers.max_alignment()) {
            let (known, of_numbers) = (known.eval(&env).unwrap(), of_numbers.to_static().unwrap());
            prop_assert!(of_numbers % known == 0, "{}: {} and {}", l, known, of_numbers);
        }
        if let Ok(common) = l.max_common_layout(&b)
            && let Ok(common) = common.eval(&env)
        {
            let n = common.size().unwrap().to_static().unwrap();
            held(oracle::check_right_inverse(&numbers, &common, n))?;
            held(oracle::check_right_inverse(&b, &common, n))?;
        }
    }

    #[test]
    fn coordinates_of_symbolic_shapes((l, env) in symbolic_layouts(), i in 0..500i64) {
        let shape = l.shape().to_owned();
        let crd = idx2crd(&i.into(), &shape).unwrap();
        let numbers = shape.eval(&env).unwrap();
        prop_assert_eq!(crd.eval(&env), idx2crd(&i.into(), &numbers));
        prop_assert_eq!(crd2idx(&crd, &shape).unwrap().eval(&env), Ok(i), "{} in {}", crd, shape);
    }

    #[test]
    fn symbolic_left_inverses((l, env) in symbolic_layouts()) {
        // It may have modes that numbers drop.
        if let Ok(r) = l.left_inverse()
            && let Ok(r) = r.eval(&env)
        {
            held(oracle::check_left_inverse(l.eval(&env).unwrap(), r))?;
        }
    }

    #[test]
    fn left_inverses_of_negative_strides(l in layouts(SIZE), turn in any::<prop::sample::Index>()) {
        let leaves: Vec<(Int, i64)> = l.as_ref().leaves().map(|(s, d)| (s.clone(), d.as_static().unwrap())).collect();
        let at = turn.index(leaves.len());
        let strides: Vec<i64> = leaves.iter().enumerate().map(|(i, (_, d))| if i == at { -d.abs() } else { *d }).collect();
        let l = Layout::new(
            IntTuple::from_items(leaves.into_iter().map(|(s, _)| s)).unwrap(),
            IntTuple::from_items(strides).unwrap(),
        ).unwrap();
        held(left_inverse_is_as_promised(&l))?;
    }

    #[test]
    fn symbolic_right_inverses((l, env) in symbolic_layouts()) {
        // It may stop earlier than the one of the numbers, as not every stride is known.
        let r = l.right_inverse().unwrap().eval(&env).unwrap();
        let n = r.size().unwrap().to_static().unwrap();
        held(oracle::check_right_inverse(l.eval(&env).unwrap(), r, n))?;
    }

    #[test]
    fn arithmetic_of_symbols(ops in prop::collection::vec((0u8..9, 0usize..6, 0usize..6), 1..7), values in any::<[u8; 3]>(), divisors in any::<[prop::sample::Index; 3]>(), c in 1..9i64) {
        let mut env = Env::new();
        let mut pool: Vec<(Int, i64)> = vec![(c.into(), c), (2.into(), 2), (3.into(), 3)];
        for (i, v) in values.iter().enumerate() {
            let v = i64::from(*v) + 1;
            let all: Vec<i64> = (1..=v).filter(|d| v % d == 0).collect();
            let name = format!("n{i}");
            env = env.with(&name, v);
            pool.push((Int::symbol(&name).divisible_by(all[divisors[i].index(all.len())]), v));
        }
        for (op, i, j) in ops {
            let ((a, x), (b, y)) = (pool[i % pool.len()].clone(), pool[j % pool.len()].clone());
            let (made, expected) = match op {
                0 => (a.add(&b), x.checked_add(y)),
                1 => (a.sub(&b), x.checked_sub(y)),
                2 => (a.mul(&b), x.checked_mul(y)),
                3 => (a.floor_div(&b), (y != 0).then(|| x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0))),
                4 => (a.ceil_div(&b), (y != 0).then(|| -((-x).div_euclid(y) - i64::from(y < 0 && (-x).rem_euclid(y) != 0)))),
                5 => (a.modulo(&b), (y > 0).then(|| x.rem_euclid(y))),
                6 => (a.min(&b), Some(x.min(y))),
                7 => (a.max(&b), Some(x.max(y))),
                _ => (a.gcd(&b), Some({ let (mut p, mut q) = (x.abs(), y.abs()); while q != 0 { (p, q) = (q, p % q); } p })),
            };
            let (Ok(made), Some(expected)) = (made, expected) else { continue };
            prop_assert_eq!(made.eval(&env), Ok(expected), "{} of {:?} and {:?} is {:?}", op, a, b, made);
            let d = made.divisibility();
            prop_assert!(if d == 0 { expected == 0 } else { expected % d == 0 }, "{:?} = {} is not divisible by {}", made, expected, d);
            let (lo, hi) = made.bounds();
            prop_assert!(lo <= expected && expected <= hi, "{:?} = {} is not in {}..={}", made, expected, lo, hi);
            pool.push((made, expected));
        }
    }
}

/// Checks the law of `max_common_layout` and `max_common_vector`: every coordinate is one of both
/// layouts and has the same index in both, and the layouts can be exchanged.
fn common_is_as_promised(a: &Layout, b: &Layout) -> oracle::Check {
    let common = a.max_common_layout(b).map_err(|e| e.to_string())?;
    let size = |l: &Layout| l.size().unwrap().to_static().unwrap();
    let n = size(&common);
    let says = |what: &str| format!("{a} and {b} have {common} in common: {what}");
    if a.max_common_vector(b) != Ok(Int::from(n)) || b.max_common_vector(a) != Ok(Int::from(n)) {
        return Err(says("another number of elements"));
    }
    let domain = size(a).min(size(b));
    for i in 0..n {
        let at = common.at(i).unwrap();
        if at >= domain || a.at(at) != Ok(i) || b.at(at) != Ok(i) {
            return Err(says(&format!("not index {i}")));
        }
    }
    Ok(())
}

/// Layouts of different sizes and layouts that overlap themselves, small enough to try them all.
#[test]
fn what_is_in_common_of_small_layouts() {
    let strides = [-1, 0, 1, 2, 3];
    let leaves = (1..=3).flat_map(|s| strides.map(|d| (s, d)));
    let leaves: Vec<(i64, i64)> = leaves.collect();
    let mut all: Vec<Layout> = leaves.iter().map(|&(s, d)| Layout::leaf(s, d)).collect();
    for &(s, d) in &leaves {
        all.extend(leaves.iter().map(|&(t, e)| layout!((s, t):(d, e))));
    }
    all.extend([layout!((3, 8):(1, 1)), layout!((2, 2, 3):(1, 6, 2)), layout!((2, 3):(1, 4))]);
    for (i, a) in all.iter().enumerate() {
        for b in &all[..=i] {
            common_is_as_promised(a, b).unwrap();
        }
    }
    for (a, b, n) in [
        (layout!(2:1), layout!(4:1), 2),
        (layout!((2, 2):(1, 1)), layout!((2, 2):(2, 1)), 2),
        (layout!((5, 3):(3, 1)), layout!((3, 5):(-1, 3)), 2),
        (layout!((3, 8):(1, 1)), layout!((2, 2, 3):(1, 6, 2)), 4),
    ] {
        assert_eq!(
            (a.max_common_vector(&b), b.max_common_vector(&a)),
            (Ok(n.into()), Ok(n.into()))
        );
    }
}

/// Checks the promises of `left_inverse`. Let `d0, d1, ..` be the strides other than 0 of the
/// coalesced layout, by their absolute values.
/// * If one of them is negative and not the largest, it is `Unsupported`.
/// * Else, if one of them does not divide the next, it is `StrideNotDivisible`.
/// * Else, if the layout is one-to-one but for strides 0, there is an `R` with
///   `L(R(L(i))) == L(i)`, and `R(L(i)) == i` where it is one-to-one.
/// * Else there is such an `R`, or it is `NotInjective`.
pub(crate) fn left_inverse_is_as_promised(l: &Layout) -> oracle::Check {
    let flat = l.coalesce().unwrap();
    let wide = flat.as_ref().leaves().filter(|(s, _)| **s != Int::ONE);
    let mut strides: Vec<i64> =
        wide.map(|(_, d)| d.as_static().unwrap()).filter(|d| *d != 0).collect();
    strides.sort_by_key(|d| (d.abs(), *d < 0));
    let lower = strides.split_last().map_or(&[][..], |(_, lower)| lower);
    let distinct = |l: &Layout| {
        let mut all: Vec<i64> = l.indices().unwrap().collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() == n
    };
    let result = l.left_inverse();
    let expected = if lower.iter().any(|d| *d < 0) {
        matches!(&result, Err(LayoutError::Unsupported { .. }))
    } else if strides.windows(2).any(|d| d[1] % d[0] != 0) {
        matches!(&result, Err(LayoutError::StrideNotDivisible { .. }))
    } else if distinct(&flat.filter().unwrap()) {
        result.is_ok()
    } else {
        matches!(&result, Ok(_) | Err(LayoutError::NotInjective { .. }))
    };
    let Ok(r) = result else {
        return if expected { Ok(()) } else { oracle::fail(format!("{l}: {result:?}")) };
    };
    if !expected {
        return oracle::fail(format!("{l} has no left inverse, but {r} is the result"));
    }
    oracle::said(oracle::check_left_inverse(l, &r))?;
    let moved = (0..).zip(l.indices().unwrap()).find(|&(i, index)| r.at(index) != Ok(i));
    match moved {
        Some((i, index)) if distinct(l) => {
            oracle::fail(format!("{l}: R({index}) = R(L({i})) is not {i}"))
        }
        _ => Ok(()),
    }
}

/// All layouts of rank 1 and 2 with extents to 4 and strides from -3 to 8.
fn small_layouts() -> Vec<Layout> {
    let leaves: Vec<(i64, i64)> = (1..=4).flat_map(|s| (-3..=8).map(move |d| (s, d))).collect();
    let mut all: Vec<Layout> = leaves.iter().map(|&(s, d)| Layout::leaf(s, d)).collect();
    for &(s, d) in &leaves {
        for &(t, e) in &leaves {
            all.push(Layout::new((s, t), (d, e)).unwrap());
        }
    }
    all
}

/// Returns `n` where one in `n` pairs is tried; 1 with `TILEWRIGHT_EXHAUSTIVE=1`.
fn every() -> usize {
    if std::env::var_os("TILEWRIGHT_EXHAUSTIVE").is_some() { 1 } else { 97 }
}

/// Returns true if a layout exists whose modes refine those of `b` and that is `i -> A⁺(B(i))`.
pub(crate) fn exists(values: &[i64], extents: &[i64]) -> bool {
    // The function must be a sum of functions of the modes, and each of these a layout.
    let mut steps = Vec::new();
    let mut stride = 1;
    for &s in extents {
        steps
            .push((0..s).map(|i| values[usize::try_from(i * stride).unwrap()]).collect::<Vec<_>>());
        stride *= s;
    }
    let sum = |mut i: i64| {
        extents
            .iter()
            .zip(&steps)
            .map(|(s, v)| {
                let digit = i % s;
                i /= s;
                v[usize::try_from(digit).unwrap()]
            })
            .sum::<i64>()
    };
    (0..stride).all(|i| sum(i) == values[usize::try_from(i).unwrap()])
        && steps.iter().all(|v| is_layout(v))
}

/// Returns true if `v` is the function of a layout of one mode or of a tuple.
fn is_layout(v: &[i64]) -> bool {
    let n = v.len();
    if n == 1 {
        return v[0] == 0;
    }
    let run = (0..n).take_while(|&i| v[i] == v[1] * i64::try_from(i).unwrap()).count();
    if run == n {
        return true;
    }
    if !n.is_multiple_of(run) {
        return false;
    }
    let outer: Vec<i64> = v.iter().step_by(run).copied().collect();
    (0..n).all(|i| v[i] == v[i % run] + outer[i / run]) && is_layout(&outer)
}

#[test]
fn composition_of_all_small_layouts() {
    let all = small_layouts();
    let (mut accepted, mut refused) = (0, 0);
    let mut number = 0;
    for a in &all {
        for b in &all {
            number += 1;
            if number % every() != 0 {
                continue;
            }
            let n = b.size().unwrap().to_static().unwrap();
            let values: Vec<i64> = (0..n).map(|i| a.at(b.at(i).unwrap()).unwrap()).collect();
            match a.composition(b) {
                Ok(r) => {
                    accepted += 1;
                    let found: Vec<i64> = (0..n).map(|i| r.at(i).unwrap()).collect();
                    assert_eq!(found, values, "{a} o {b} = {r}");
                }
                Err(e) => {
                    refused += 1;
                    let extents: Vec<i64> =
                        b.shape().leaves().iter().map(|s| s.to_static().unwrap()).collect();
                    assert!(!exists(&values, &extents), "{a} o {b} exists, but: {e}");
                }
            }
        }
    }
    assert!(accepted > refused, "{accepted} accepted, {refused} refused");
}

#[test]
fn every_small_layout_alone() {
    for l in small_layouts() {
        oracle::check_coalesce(&l, &l.coalesce().unwrap()).unwrap();
        for target in [1, 7, 16, 64] {
            match l.complement(&target.into()) {
                Ok(r) => oracle::check_complement(&l, &[target], &r).unwrap(),
                Err(e) => assert!(has_no_complement(&l, &e), "{l}: {e}"),
            }
        }
        let r = l.right_inverse().unwrap();
        let n = r.size().unwrap().to_static().unwrap();
        oracle::check_right_inverse(&l, &r, n).unwrap();
        left_inverse_is_as_promised(&l).unwrap();
        for tile in [1, 2, 3, 4] {
            if let Ok(r) = l.logical_divide(&Layout::leaf(tile, 1)) {
                oracle::check_logical_divide(&l, &Layout::leaf(tile, 1), &r).unwrap();
            }
        }
    }
}

#[test]
fn every_small_swizzle() {
    for bits in 0..=12i64 {
        for base in 0..=12 - bits {
            for shift in -(12 - bits - base)..=(12 - bits - base) {
                let Ok(s) = Swizzle::new(bits, base, shift) else {
                    assert!(shift.abs() < bits);
                    continue;
                };
                let n = 1i64 << (bits + base + shift.abs());
                let mut seen = vec![false; usize::try_from(n).unwrap()];
                for x in 0..n {
                    let y = s.apply(x);
                    assert_eq!(s.apply(y), x, "{s} is its own inverse");
                    let slot = &mut seen[usize::try_from(y).unwrap()];
                    assert!(!std::mem::replace(slot, true), "{s} is one-to-one");
                    // The definition, bit by bit.
                    for bit in 0..bits {
                        let (from, to) = if shift >= 0 {
                            (base + shift + bit, base + bit)
                        } else {
                            (base + bit, base - shift + bit)
                        };
                        let expected = (x >> to ^ x >> from) & 1;
                        assert_eq!(y >> to & 1, expected, "{s} of {x}");
                    }
                }
                let masks = (s.y_mask().unsigned_abs(), s.z_mask().unsigned_abs());
                if bits > 0 {
                    assert_eq!(Swizzle::from_masks(masks.0, masks.1), Ok(s));
                }
                assert_eq!(s.to_string().parse(), Ok(s));
            }
        }
    }
}
