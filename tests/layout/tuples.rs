//! Operations on tuples against their definitions, on trees that are built here.

use proptest::prelude::*;
use tilewright::layout::strategies::{basis_layouts, layouts, shapes, swizzles};
use tilewright::layout::{
    ComposedLayout, Env, Int, IntTuple, IntTupleRef, Layout, LayoutError, LinearLayout, Swizzle,
    Tuple, crd2crd, crd2idx, idx2crd_with, layout, shape,
};

use crate::laws::cases;

/// A tree with numbers at its leaves: the model of a tuple.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Leaf(i64),
    Node(Vec<Tree>),
}

use Tree::{Leaf, Node};

impl Tree {
    fn of(tuple: IntTupleRef<'_>) -> Tree {
        match tuple.as_leaf() {
            Some(leaf) => Leaf(leaf.to_static().unwrap()),
            None => Node(tuple.children().map(Tree::of).collect()),
        }
    }

    fn tuple(&self) -> IntTuple {
        match self {
            Leaf(n) => Tuple::leaf(*n),
            Node(modes) => Tuple::from_items(modes.iter().map(Tree::tuple)).unwrap(),
        }
    }

    fn modes(&self) -> Vec<Tree> {
        match self {
            Leaf(_) => vec![self.clone()],
            Node(modes) => modes.clone(),
        }
    }

    /// The leaves in pre-order, with their paths.
    fn leaves(&self, path: &[usize]) -> Vec<(Vec<usize>, i64)> {
        match self {
            Leaf(n) => vec![(path.to_vec(), *n)],
            Node(modes) => {
                let below = |(i, mode): (usize, &Tree)| mode.leaves(&[path, &[i]].concat());
                modes.iter().enumerate().flat_map(below).collect()
            }
        }
    }

    fn with_leaves(&self, leaf: &Tree) -> Tree {
        match self {
            Leaf(_) => leaf.clone(),
            Node(modes) => Node(modes.iter().map(|mode| mode.with_leaves(leaf)).collect()),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    prop_oneof![
        1 => (-3..9i64).prop_map(Leaf),
        3 => (-3..9i64).prop_map(Leaf).prop_recursive(3, 8, 3, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Node)
        }),
    ]
}

/// Orders two trees as CuTe's `lex_less` does: the first pair of modes that differ decides, and a
/// tuple comes before its extensions. `None` where a number meets a tuple.
fn less(a: &Tree, b: &Tree, reverse: bool) -> Option<bool> {
    match (a, b) {
        (Leaf(a), Leaf(b)) => Some(a < b),
        (Node(a), Node(b)) => {
            let turned = |modes: &[Tree]| {
                let mut modes = modes.to_vec();
                if reverse {
                    modes.reverse();
                }
                modes
            };
            let (a, b) = (turned(a), turned(b));
            for (i, y) in b.iter().enumerate() {
                let Some(x) = a.get(i) else { return Some(true) };
                if less(x, y, reverse)? {
                    return Some(true);
                }
                if x != y {
                    return Some(false);
                }
            }
            Some(false)
        }
        _ => None,
    }
}

fn sum(a: &IntTuple, b: IntTupleRef<'_>) -> Result<IntTuple, LayoutError> {
    Ok(IntTuple::leaf(a.sum()?.add(&b.to_owned().sum()?)?))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn reverse_is_the_modes_from_the_last_to_the_first(t in trees()) {
        let reversed = t.tuple().reverse().unwrap();
        let mut modes = t.modes();
        modes.reverse();
        let expected = if let Leaf(_) = t { t.clone() } else { Node(modes) };
        prop_assert_eq!(Tree::of(reversed.as_ref()), expected);
        prop_assert_eq!(reversed.reverse().unwrap(), t.tuple());
    }

    #[test]
    fn repeat_like_has_the_value_at_each_leaf(t in trees(), value in trees()) {
        let repeated = value.tuple().repeat_like(&t.tuple()).unwrap();
        prop_assert_eq!(Tree::of(repeated.as_ref()), t.with_leaves(&value));
    }

    #[test]
    fn cat_is_the_modes_of_both(a in trees(), b in trees()) {
        let expected = Node([a.modes(), b.modes()].concat());
        prop_assert_eq!(Tree::of(a.tuple().cat(&b.tuple()).unwrap().as_ref()), expected);
    }

    #[test]
    fn find_is_the_path_of_the_first_leaf(t in trees(), wanted in -3..9i64, least in 0..3usize) {
        let (tuple, leaves) = (t.tuple(), t.leaves(&[]));
        let first = |is_it: &dyn Fn(i64, &[usize]) -> bool| {
            leaves.iter().find(|(path, n)| is_it(*n, path)).map(|(path, _)| path.clone())
        };
        let found = tuple.find(&Int::new(wanted));
        prop_assert_eq!(&found, &first(&|n, _| n == wanted));
        if let Some(path) = found {
            prop_assert_eq!(tuple.mode(&path).unwrap().as_static(), Some(wanted));
        }
        let deep = tuple.find_if(|n, path| path.len() > least && n.as_static() > Some(wanted));
        prop_assert_eq!(deep, first(&|n, path| path.len() > least && n > wanted));
    }

    #[test]
    fn filter_tuple_is_the_modes_of_the_results(t in trees(), wanted in -3..9i64) {
        // Large leaves stay, small ones vanish, tuples are dissolved.
        let kept = |mode: &Tree| match mode {
            Leaf(n) if *n >= wanted => vec![mode.clone()],
            Leaf(_) => vec![],
            Node(modes) => modes.clone(),
        };
        let made = t.tuple().filter_tuple(|mode| Ok(Node(kept(&Tree::of(mode))).tuple())).unwrap();
        let expected: Vec<Tree> = t.modes().iter().flat_map(kept).collect();
        prop_assert_eq!(Tree::of(made.as_ref()), Node(expected));
    }

    #[test]
    fn scans_are_running_sums(t in trees(), start in -3..9i64) {
        let totals = t.modes().iter().map(|mode| mode.leaves(&[]).iter().map(|(_, n)| n).sum::<i64>()).collect::<Vec<_>>();
        let before = |i: usize| start + totals[..i].iter().sum::<i64>();
        let shaped = |numbers: Vec<i64>| match t {
            Leaf(_) => Leaf(numbers[0]),
            Node(_) => Node(numbers.into_iter().map(Leaf).collect()),
        };
        let (tuple, start) = (t.tuple(), IntTuple::from(start));
        let inclusive = tuple.inclusive_scan(&start, sum).unwrap();
        let exclusive = tuple.exclusive_scan(&start, sum).unwrap();
        prop_assert_eq!(Tree::of(inclusive.as_ref()), shaped((0..totals.len()).map(|i| before(i + 1)).collect()));
        prop_assert_eq!(Tree::of(exclusive.as_ref()), shaped((0..totals.len()).map(before).collect()));
    }

    /// The exclusive products of the extents are the strides of the compact layout of a flat shape.
    #[test]
    fn compact_strides_are_an_exclusive_scan(s in shapes(4096)) {
        let flat = s.flatten().unwrap();
        let times = |p: &IntTuple, mode: IntTupleRef<'_>| Ok(IntTuple::leaf(p.product()?.mul(&mode.product()?)?));
        let scanned = flat.exclusive_scan(&1.into(), times).unwrap();
        let strides = compact_strides(&flat);
        prop_assert_eq!(scanned, strides);
    }

    /// `zip2_by` undoes the pairing of two tuples of one profile, and leaves the rest behind.
    #[test]
    fn zip2_by_takes_pairs_apart(guide in trees(), rest in trees()) {
        fn paired(guide: &Tree, next: &mut i64, rest: Option<&Tree>) -> (Tree, Tree, Tree) {
            match guide {
                Leaf(_) => {
                    *next += 2;
                    (Node(vec![Leaf(*next), Leaf(*next + 1)]), Leaf(*next), Leaf(*next + 1))
                }
                Node(guides) => {
                    let parts: Vec<_> = guides.iter().map(|g| paired(g, next, rest)).collect();
                    let (mut pairs, mut second): (Vec<Tree>, Vec<Tree>) =
                        parts.iter().map(|(p, _, s)| (p.clone(), s.clone())).unzip();
                    pairs.extend(rest.cloned());
                    second.extend(rest.cloned());
                    (Node(pairs), Node(parts.into_iter().map(|(_, f, _)| f).collect()), Node(second))
                }
            }
        }
        for rest in [None, Some(&rest)] {
            let (pairs, first, second) = paired(&guide, &mut 0, rest);
            let made = pairs.tuple().zip2_by(&guide.tuple()).unwrap();
            prop_assert_eq!(Tree::of(made.as_ref()), Node(vec![first, second]));
        }
    }

    #[test]
    fn orders_are_those_of_the_definition(a in trees(), b in trees()) {
        let (x, y) = (a.tuple(), b.tuple());
        for (reverse, made) in [
            (false, [x.lex_less(&y), x.lex_gtr(&y), x.lex_leq(&y), x.lex_geq(&y)]),
            (true, [x.colex_less(&y), x.colex_gtr(&y), x.colex_leq(&y), x.colex_geq(&y)]),
        ] {
            // An error of ours may name a pair that the definition never reaches, but never the
            // other way.
            if let [Ok(is_less), Ok(is_gtr), Ok(is_leq), Ok(is_geq)] = made {
                prop_assert_eq!((Some(is_less), Some(is_gtr)), (less(&a, &b, reverse), less(&b, &a, reverse)));
                prop_assert_eq!((is_leq, is_geq), (!is_gtr, !is_less));
            } else {
                prop_assert!(less(&a, &b, reverse).is_none() || less(&b, &a, reverse).is_none(), "{} {}", x, y);
            }
        }
    }

    #[test]
    fn lcm_is_the_least_common_multiple(a in -40..40i64, b in -40..40i64, c in 1..40i64, d in 1..9i64) {
        let least = |a: i64, b: i64| match (a.abs(), b.abs()) {
            (0, _) | (_, 0) => 0,
            (a, b) => (1..=a * b).find(|m| m % a == 0 && m % b == 0).unwrap(),
        };
        prop_assert_eq!(Int::new(a).lcm(&b.into()), Ok(least(a, b).into()));
        prop_assert_eq!(shape!(a, (b, c)).lcm(), Ok(least(least(a, b), c).into()));
        // Symbols commute with it.
        let (n, env) = (Int::symbol("n").divisible_by(d), Env::new().with("n", c * d));
        if let Ok(of_symbol) = n.lcm(&b.into()) {
            prop_assert_eq!(of_symbol.eval(&env), Ok(least(c * d, b)));
        }
    }
}

fn compact_strides(shape: &IntTuple) -> IntTuple {
    let strides = Layout::compact(shape.clone()).stride().to_owned();
    // The stride of an extent of 1 is 0 in a compact layout; the scan goes on counting.
    let mut product = 1;
    let leaves = shape.leaves().iter().map(|s| {
        let stride = product;
        product *= s.to_static().unwrap();
        Ok::<_, LayoutError>(Int::new(stride))
    });
    let leaves: Vec<Int> = leaves.collect::<Result<_, _>>().unwrap();
    for (made, stride) in leaves.iter().zip(strides.leaves()) {
        assert!(stride.as_static() == made.as_static() || stride.as_static() == Some(0));
    }
    if shape.is_leaf() {
        Tuple::leaf(leaves[0].clone())
    } else {
        Tuple::from_items(&leaves).unwrap()
    }
}

proptest! {
    #![proptest_config(cases())]

    /// `congruent(coprofile(L), L(i))` for every `i`.
    #[test]
    fn coprofile_is_congruent_with_every_result(l in layouts(64), b in basis_layouts(64)) {
        for l in [l, b] {
            let profile = l.coprofile().unwrap();
            prop_assert!(profile.leaves().iter().all(|leaf| *leaf == 0), "{}", profile);
            for i in 0..l.to_static().map_or(1, |l| l.size()) {
                prop_assert!(profile.congruent(&l.apply(i).unwrap()), "{} of {}", profile, l);
            }
        }
    }

    /// `R(i) == L(i)` for all `i` below the size of the shape, with the shape that was asked for.
    #[test]
    fn with_shape_is_the_same_function(l in layouts(64), s in shapes(64), swizzle in swizzles()) {
        let n = s.product().unwrap().to_static().unwrap();
        if let Ok(made) = l.with_shape(&s) {
            prop_assert!(s.weakly_congruent(&made.shape().to_owned()));
            for i in 0..n {
                prop_assert_eq!(made.at(i), l.at(i), "{} with {} is {}", l, s, made);
            }
            let swizzled = swizzle.compose_layout(&l).unwrap();
            let made = swizzled.with_shape(&s).unwrap();
            for i in 0..n {
                prop_assert_eq!(made.crd2idx(i), swizzled.crd2idx(i));
            }
        }
    }

    #[test]
    fn transform_layout_is_the_function_of_each_mode(a in layouts(64), b in layouts(64)) {
        let made = a.transform_layout(|mode| mode.to_layout().coalesce()).unwrap();
        prop_assert_eq!(made.rank(), a.rank());
        for (made, mode) in made.modes().zip(a.modes()) {
            prop_assert_eq!(made.to_layout(), mode.to_layout().coalesce().unwrap());
        }
        let pairs = a.transform_layout_with(&b, |x, y| Ok(Layout::concat(&[x.to_layout(), y.to_layout()]))?).unwrap();
        prop_assert_eq!(pairs.rank(), a.rank().max(b.rank()));
        for (i, made) in pairs.modes().enumerate() {
            let modes = [&a, &b].map(|l| l.get(&[i]).ok());
            match modes {
                [Some(x), Some(y)] => prop_assert_eq!(made.to_layout(), Layout::concat(&[x, y]).unwrap()),
                [x, y] => prop_assert_eq!(Some(made.to_layout()), x.or(y)),
            }
        }
    }

    /// CuTe's `get_hier_coord`, `get_flat_coord` and `get_1d_coord` of a compact layout: the
    /// coordinate of an index.
    #[test]
    fn coordinates_of_an_index_have_three_forms(s in shapes(64)) {
        let l = Layout::compact(s.clone());
        for i in 0..l.to_static().unwrap().size() {
            let index = l.at(i).unwrap();
            let hier = idx2crd_with(&index.into(), &l).unwrap();
            prop_assert!(hier.congruent(&s));
            prop_assert_eq!(l.crd2idx(&hier), Ok(index.into()));
            prop_assert_eq!(crd2idx(&hier, &s), Ok(i.into()));
            let modes = if s.is_leaf() { s.clone() } else { s.product_each().unwrap() };
            let flat = crd2crd(&hier, &s, &modes).unwrap();
            prop_assert!(flat.depth() <= 1);
            prop_assert_eq!(l.crd2idx(&flat), Ok(index.into()));
        }
    }

    /// CuTe's `basis_get`: the entry of a tuple at the mode of a basis element.
    #[test]
    fn basis_elements_name_entries(s in shapes(64)) {
        let identity = Layout::identity(&s).unwrap();
        for (d, extent) in identity.stride().leaves().iter().zip(s.leaves()) {
            let path: Vec<usize> = d.mode().collect();
            prop_assert_eq!(s.mode(&path).unwrap().as_leaf(), Some(extent));
        }
    }

    /// The view of a static layout agrees with the accessors that may fail.
    #[test]
    fn static_layouts_have_the_numbers_of_the_layout(l in layouts(64)) {
        let view = l.to_static().unwrap();
        prop_assert_eq!((l.size(), l.cosize()), (Ok(view.size().into()), Ok(view.cosize().into())));
        prop_assert_eq!((l.rank(), l.depth()), (view.rank(), view.depth()));
        prop_assert!(l.indices().unwrap().eq(view.indices()));
        for i in -1..=view.size() {
            let inside = (0..view.size()).contains(&i);
            prop_assert_eq!(view.at(i), if inside { l.at(i).ok() } else { None });
        }
        let leaves: Vec<(i64, i64)> = view.leaves().collect();
        prop_assert_eq!(leaves.iter().map(|(s, _)| s).product::<i64>(), view.size());
    }

    /// If `S(old(i)) == old(j)`, then `R(i) == new(j)`. Layouts: each coordinate bit has an index
    /// bit of its own.
    #[test]
    fn transferred_swizzles_permute_the_same_coordinates(
        swizzle in swizzles(),
        [old, new] in [bits(6), bits(6)],
    ) {
        let from = LinearLayout::new(&old).unwrap();
        match swizzle.transfer(&old, &new) {
            Ok(made) => for i in 0..64 {
                let swizzled = swizzle.apply(old.at(i).unwrap());
                let j = from.solve(swizzled.unsigned_abs());
                let j = j.expect("the swizzle permutes the indices of the old layout");
                prop_assert_eq!(made.crd2idx(i), Ok(new.at(i64::try_from(j).unwrap()).unwrap().into()), "{} from {} to {}: {}", swizzle, old, new, made);
            },
            Err(e) => prop_assert!(!exists(swizzle, &old, &new), "{} from {} to {}: {}", swizzle, old, new, e),
        }
    }
}

/// Layouts of `n` extents of 2 whose strides are different powers of two.
fn bits(n: usize) -> impl Strategy<Value = Layout> {
    let places: Vec<u32> = (0..8).collect();
    Just(places).prop_shuffle().prop_map(move |places| {
        let strides = places[..n].iter().map(|place| 1i64 << place);
        Layout::new(
            IntTuple::from_items(std::iter::repeat_n(2, n)).unwrap(),
            IntTuple::from_items(strides).unwrap(),
        )
        .unwrap()
    })
}

/// Returns true if some swizzle of 8 bits permutes the coordinates of `new` as `swizzle` permutes
/// those of `old`.
fn exists(swizzle: Swizzle, old: &Layout, new: &Layout) -> bool {
    let from = LinearLayout::new(old).unwrap();
    let wanted: Option<Vec<i64>> = (0..64)
        .map(|i| {
            let j = from.solve(swizzle.apply(old.at(i).unwrap()).unsigned_abs())?;
            new.at(i64::try_from(j).ok()?).ok()
        })
        .collect();
    let Some(wanted) = wanted else { return false };
    let all = (0..5).flat_map(|b| (0..9).flat_map(move |m| (-8..9).map(move |s| (b, m, s))));
    all.filter_map(|(b, m, s)| Swizzle::new(b, m, s).ok()).any(|s| {
        (0..64).all(|i| s.apply(new.at(i).unwrap()) == wanted[usize::try_from(i).unwrap()])
    })
}

/// An error names the cause why a layout has no static view.
#[test]
fn layouts_without_numbers_have_no_static_view() {
    let error = |l: &Layout| l.to_static().unwrap_err();
    let n = Int::symbol("n");
    assert!(matches!(error(&Layout::leaf(n.clone(), 1)), LayoutError::NotStatic { .. }));
    assert!(matches!(error(&Layout::leaf(2, n)), LayoutError::NotStatic { .. }));
    let coordinates = Layout::identity((4, 8)).unwrap();
    assert!(matches!(error(&coordinates), LayoutError::NotAnIntegerStride { .. }));
    assert!(matches!(error(&layout!(0:1)), LayoutError::ExtentNotPositive { .. }));
    let large = layout!((2, 2):(i64::MAX, 1));
    assert!(matches!(error(&large), LayoutError::Overflow { .. }));
}

/// One integer is a leaf, as it is in `layout!`; a 1-tuple has its own parentheses.
#[test]
fn one_integer_is_a_leaf() {
    assert_eq!(shape!(24), IntTuple::from(24));
    assert_eq!(shape!(24), layout!(24).shape().to_owned());
    assert_eq!(shape!((24)).to_string(), "(24)");
    assert_eq!(shape!(24,).to_string(), "(24)");
    assert_eq!(shape!((24)), layout!((24)).shape().to_owned());
    let inner = shape!(4, 6);
    assert_eq!(shape!(inner.clone()), inner);
    assert_eq!(shape!(2 * 12), shape!(24));
    assert_eq!(shape!(24).compatible(&shape!(4, 6)), Ok(true));
    assert_eq!(shape!().to_string(), "()");
    let swizzled: ComposedLayout = "S<1,0,1> o 0 o (2,2):(2,1)".parse().unwrap();
    assert_eq!(swizzled.with_shape(shape!(4)).unwrap().size(), Ok(4.into()));
}

#[test]
fn strides_have_any_integer_type() {
    let n = Int::symbol("n");
    let expected = layout!((4, 2):(2_i64, 8_i64));
    assert_eq!(layout!((4, 2):(2_usize, 8_isize)), expected);
    assert_eq!(layout!((4, 2):(2_u64, 8_u32)), expected);
    assert_eq!(layout!((4, 2):(2_u16, 8_i16)), expected);
    assert_eq!(layout!((4, 2):(2_u8, 8_i8)), expected);
    assert_eq!(layout!((4, 2):([2, 8].len(), 8_i32)), expected);
    assert_eq!(layout!((4, 2):(&n, 1)).to_string(), "(4,2):(n,1)");
    // A stride above `i64::MAX` overflows where it is used.
    assert!(matches!(layout!(4:u64::MAX).cosize(), Err(LayoutError::Overflow { .. })));
}
