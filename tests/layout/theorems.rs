//! The theorems of "Categorical Foundations for CuTe Layouts" (arXiv 2601.05972) about tractable
//! layouts.
//!
//! A morphism of the category Tuple from `(s0, s1, ..)` to `(t0, t1, ..)` sends each entry of its
//! domain to an equal entry of its codomain, no two to the same, or to none. Its layout has the
//! domain as shape; the stride of an entry is the product of the codomain before the entry that it
//! is sent to, or 0. A layout is *tractable* if each of its strides, sorted and without the zeros,
//! is a multiple of the stride times the extent before it. The theorems say that the tractable
//! layouts are those of morphisms, and that the operations on layouts are those on morphisms.

use proptest::prelude::*;
use proptest::sample::Index;
use tilewright::layout::laws::{all_layouts, check_same};
use tilewright::layout::{IntTuple, Layout};

use crate::laws::cases;
use crate::support::slow::sample;

/// A morphism of the category Tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Morphism {
    domain: Vec<i64>,
    codomain: Vec<i64>,
    /// For each entry of the domain, the entry of the codomain that it is sent to.
    map: Vec<Option<usize>>,
}

impl Morphism {
    /// The layout of the morphism.
    fn layout(&self) -> Layout {
        let stride =
            |to: &Option<usize>| to.map_or(0, |to| self.codomain[..to].iter().product::<i64>());
        let strides: Vec<i64> = self.map.iter().map(stride).collect();
        match (&self.domain[..], &strides[..]) {
            ([], _) => Layout::trivial(),
            ([s], [d]) => Layout::leaf(*s, *d),
            (shape, strides) => {
                let tuple =
                    |entries: &[i64]| IntTuple::from_items(entries.iter().copied()).unwrap();
                Layout::new(tuple(shape), tuple(strides)).unwrap()
            }
        }
    }

    /// The morphism of a tractable layout in standard form: the codomain alternates between gaps
    /// and modes.
    fn standard(layout: &Layout) -> Option<Morphism> {
        let leaves = leaves(layout);
        let mut order: Vec<usize> = (0..leaves.len()).filter(|&i| leaves[i].1 != 0).collect();
        order.sort_by_key(|&i| (leaves[i].1, leaves[i].0));
        let (mut codomain, mut map) = (Vec::new(), vec![None; leaves.len()]);
        let mut reached = 1;
        for i in order {
            let (s, d) = leaves[i];
            if d < reached || d % reached != 0 {
                return None;
            }
            if d > reached {
                codomain.push(d / reached);
            }
            map[i] = Some(codomain.len());
            codomain.push(s);
            reached = d * s;
        }
        Some(Morphism { domain: leaves.iter().map(|(s, _)| *s).collect(), codomain, map })
    }

    /// `self`, then `next`, whose domain is the codomain of `self`.
    fn then(&self, next: &Morphism) -> Morphism {
        assert_eq!(self.codomain, next.domain);
        let map = self.map.iter().map(|to| to.and_then(|to| next.map[to])).collect();
        Morphism { domain: self.domain.clone(), codomain: next.codomain.clone(), map }
    }

    /// The inclusion of the entries of the codomain that no entry is sent to.
    fn complement(&self) -> Morphism {
        let free: Vec<usize> =
            (0..self.codomain.len()).filter(|to| !self.map.contains(&Some(*to))).collect();
        Morphism {
            domain: free.iter().map(|&to| self.codomain[to]).collect(),
            codomain: self.codomain.clone(),
            map: free.into_iter().map(Some).collect(),
        }
    }

    /// The same function with the entries of the codomain replaced by factors, and each entry of
    /// the domain by those of the entry that it is sent to.
    fn with_codomain(&self, factors: &[Vec<i64>]) -> Morphism {
        let first = |to: usize| factors[..to].iter().map(Vec::len).sum::<usize>();
        let (mut domain, mut map) = (Vec::new(), Vec::new());
        for (s, to) in self.domain.iter().zip(&self.map) {
            match to {
                None => {
                    domain.push(*s);
                    map.push(None);
                }
                Some(to) => {
                    domain.extend(&factors[*to]);
                    map.extend((first(*to)..first(to + 1)).map(Some));
                }
            }
        }
        Morphism { domain, codomain: factors.concat(), map }
    }

    /// The same function with the entries of the domain replaced by factors, and each entry of the
    /// codomain that is hit by those of the entry that is sent to it.
    fn with_domain(&self, factors: &[Vec<i64>]) -> Morphism {
        let mut of_codomain: Vec<Vec<i64>> = self.codomain.iter().map(|t| vec![*t]).collect();
        for (to, factors) in self.map.iter().zip(factors) {
            if let Some(to) = to {
                of_codomain[*to] = factors.clone();
            }
        }
        let first = |to: usize| of_codomain[..to].iter().map(Vec::len).sum::<usize>();
        let (mut domain, mut map) = (Vec::new(), Vec::new());
        for (to, factors) in self.map.iter().zip(factors) {
            domain.extend(factors);
            let image = |i: usize| to.map(|to| first(to) + i);
            map.extend((0..factors.len()).map(image));
        }
        Morphism { domain, codomain: of_codomain.concat(), map }
    }

    /// The weak composite: `self`, then `next`, after both are refined so that the codomain of
    /// `self` is the beginning of the domain of `next`. `None` if there are no such refinements.
    fn then_weakly(&self, next: &Morphism) -> Option<Morphism> {
        let (of_codomain, of_domain) = mutual_refinement(&self.codomain, &next.domain)?;
        let mut first = self.with_codomain(&of_codomain);
        let second = next.with_domain(&of_domain);
        assert!(second.domain.starts_with(&first.codomain));
        first.codomain.clone_from(&second.domain);
        Some(first.then(&second))
    }
}

/// The factors of each extent.
type Parts = Vec<Vec<i64>>;

/// Factors of each entry of `a` and of each entry of `b`, so that those of `a` are the first of
/// those of `b`: both tuples are cut where either of them has an end.
fn mutual_refinement(a: &[i64], b: &[i64]) -> Option<(Parts, Parts)> {
    let ends = |tuple: &[i64]| {
        let end = |product: &mut i64, s: &i64| {
            *product *= s;
            Some(*product)
        };
        tuple.iter().scan(1, end).collect::<Vec<i64>>()
    };
    let whole: i64 = a.iter().product();
    let mut cuts: Vec<i64> = ends(a);
    cuts.extend(ends(b).into_iter().filter(|end| *end < whole));
    cuts.sort_unstable();
    cuts.dedup();
    if cuts.windows(2).any(|pair| pair[1] % pair[0] != 0) || b.iter().product::<i64>() % whole != 0
    {
        return None;
    }
    let factors = |tuple: &[i64]| {
        let mut reached = 1;
        let mut of_entry = Vec::new();
        for s in tuple {
            let end = reached * s;
            let mut parts = Vec::new();
            for cut in cuts.iter().copied().filter(|cut| (reached + 1..end).contains(cut)) {
                let before = reached * parts.iter().product::<i64>();
                if cut % before != 0 {
                    return None;
                }
                parts.push(cut / before);
            }
            let before = reached * parts.iter().product::<i64>();
            if end % before != 0 {
                return None;
            }
            parts.push(end / before);
            of_entry.push(parts);
            reached = end;
        }
        Some(of_entry)
    };
    let (of_a, of_b) = (factors(a)?, factors(b)?);
    // An entry 1 of one tuple has no counterpart in the other.
    of_b.concat().starts_with(&of_a.concat()).then_some((of_a, of_b))
}

fn leaves(layout: &Layout) -> Vec<(i64, i64)> {
    layout.to_static().unwrap().leaves().collect()
}

/// The definition of tractable: of the sorted strides that are not 0, each is a multiple of the one
/// before times its extent.
fn is_tractable(layout: &Layout) -> bool {
    let mut modes: Vec<(i64, i64)> =
        leaves(layout).into_iter().map(|(s, d)| (d, s)).filter(|(d, _)| *d != 0).collect();
    modes.sort_unstable();
    modes.windows(2).all(|pair| pair[1].0 % (pair[0].0 * pair[0].1) == 0)
}

/// Strides 0 for modes of extent 1, as morphisms have them.
fn nondegenerate(layout: &Layout) -> Layout {
    let strides: Vec<i64> =
        leaves(layout).into_iter().map(|(s, d)| if s == 1 { 0 } else { d }).collect();
    match strides[..] {
        [d] => Layout::leaf(layout.shape().leaves()[0].clone(), d),
        _ => {
            Layout::new(layout.shape().to_owned(), IntTuple::from_items(strides).unwrap()).unwrap()
        }
    }
}

fn size(tuple: &[i64]) -> i64 {
    tuple.iter().product()
}

/// Picks from a tuple of these entries, each at most once, or entries that are sent nowhere.
fn picked(codomain: Vec<i64>, picks: Vec<(bool, Index, i64)>) -> Morphism {
    let mut free: Vec<usize> = (0..codomain.len()).collect();
    let (mut domain, mut map) = (Vec::new(), Vec::new());
    for (somewhere, at, extent) in picks {
        if somewhere && !free.is_empty() {
            let to = free.remove(at.index(free.len()));
            domain.push(codomain[to]);
            map.push(Some(to));
        } else {
            domain.push(extent);
            map.push(None);
        }
    }
    Morphism { domain, codomain, map }
}

fn picks() -> impl Strategy<Value = Vec<(bool, Index, i64)>> {
    prop::collection::vec((prop::bool::weighted(0.8), any::<Index>(), 1..4i64), 1..5)
}

/// Morphisms; `injective` without entries that are sent nowhere.
fn morphisms() -> impl Strategy<Value = Morphism> {
    let codomain = prop::collection::vec(prop::sample::select(vec![2i64, 3, 4, 1, 6]), 1..6);
    (codomain, picks()).prop_map(|(codomain, picks)| picked(codomain, picks))
}

/// `(f, g)` with the codomain of `f` as the domain of `g`.
fn composable_morphisms() -> impl Strategy<Value = (Morphism, Morphism)> {
    (morphisms(), picks()).prop_map(|(g, picks)| (picked(g.domain.clone(), picks), g))
}

/// Without the entries that are sent nowhere.
fn injective(f: &Morphism) -> Morphism {
    let kept: Vec<usize> = (0..f.map.len()).filter(|&i| f.map[i].is_some()).collect();
    Morphism {
        domain: kept.iter().map(|&i| f.domain[i]).collect(),
        codomain: f.codomain.clone(),
        map: kept.iter().map(|&i| f.map[i]).collect(),
    }
}

/// The layouts of morphisms are exactly the tractable layouts.
#[test]
fn tractable_layouts_are_those_of_morphisms() {
    let mut tractable = 0;
    for l in sample(7, all_layouts(1..=3, 1..=4, 0..=12)) {
        let l = nondegenerate(&l);
        let morphism = Morphism::standard(&l);
        assert_eq!(morphism.is_some(), is_tractable(&l), "{l}");
        if let Some(morphism) = morphism {
            assert_eq!(morphism.layout(), l);
            tractable += 1;
        }
    }
    assert!(tractable > 1000, "{tractable}");
}

/// A complement that tiles exists if and only if the sorted strides divide, and it is that of the
/// morphism.
#[test]
fn a_complement_exists_if_and_only_if_the_sorted_strides_divide() {
    let mut tilings = 0;
    for l in sample(7, all_layouts(1..=3, 1..=4, 1..=8)) {
        let l = nondegenerate(&l);
        let filtered = l.filter().unwrap();
        let reach = leaves(&l).iter().map(|(s, d)| (s - 1) * d).sum::<i64>() + 1;
        let values: Vec<i64> = filtered.indices().unwrap().collect();
        let is_injective = l.is_injective().unwrap();
        let exists = is_injective && (reach..=2 * reach).any(|n| tiles(&values, n).is_some());
        let divides = is_injective && is_tractable(&l);
        // A divisor of the tile may be larger than twice the reach only if the first stride is.
        let f = Morphism::standard(&l).filter(|_| divides);
        if let Some(f) = f {
            let n = size(&f.codomain).max(1);
            let tiling = tiles(&values, n);
            let made = l.complement(&n.into()).unwrap();
            assert_eq!(tiling, Some(made.indices().unwrap().collect()), "{l} in {n}");
            check_same(f.complement().layout(), &made).unwrap();
            tilings += 1;
        } else {
            assert!(!exists, "{l} has a complement");
        }
    }
    assert!(tilings > 100, "{tilings}");
}

/// The set `R` with 0 for which each of `0..n` is one sum of an element of `values` and one of `R`.
/// It is unique: its next element is the smallest number that is no sum yet.
pub(crate) fn tiles(values: &[i64], n: i64) -> Option<Vec<i64>> {
    let mut covered = vec![false; usize::try_from(n).unwrap()];
    let mut out = Vec::new();
    while let Some(next) = covered.iter().position(|covered| !covered) {
        for value in values {
            let at = usize::try_from(i64::try_from(next).unwrap() + value).ok()?;
            if std::mem::replace(covered.get_mut(at)?, true) {
                return None;
            }
        }
        out.push(i64::try_from(next).unwrap());
    }
    Some(out)
}

proptest! {
    #![proptest_config(cases())]

    /// The layout of a composite is the composition of the layouts, which exists.
    #[test]
    fn composites_are_compositions((f, g) in composable_morphisms()) {
        let made = g.layout().composition(&f.layout());
        let composite = f.then(&g).layout();
        prop_assert!(made.is_ok(), "{} o {}: {:?}, not {}", g.layout(), f.layout(), made, composite);
        check_same(&composite, made.unwrap())?;
    }

    /// Tractable and weakly composable: the composition exists and is that of the morphisms, so it
    /// is tractable too.
    #[test]
    fn weak_composites_are_compositions(f in morphisms(), g in morphisms()) {
        let Some(composite) = f.then_weakly(&g) else { return Ok(()) };
        prop_assert_eq!(size(&composite.domain), size(&f.domain));
        let (a, b) = (g.layout(), f.layout());
        let made = a.composition(&b);
        prop_assert!(made.is_ok(), "{} o {}: {:?}, not {}", a, b, made, composite.layout());
        let made = made.unwrap();
        check_same(composite.layout(), &made)?;
        prop_assert!(is_tractable(&nondegenerate(&made.flatten().unwrap())), "{} o {} = {}", a, b, made);
    }

    /// The complement of a layout of a morphism without `_` is that of the morphism.
    #[test]
    fn complements_are_those_of_morphisms(f in morphisms()) {
        let f = injective(&f);
        let made = f.layout().complement(&size(&f.codomain).into()).unwrap();
        check_same(f.complement().layout(), &made)?;
    }

    /// `g / f == (g o f, g o complement(f))` for `f` into the domain of `g`.
    #[test]
    fn divides_are_those_of_morphisms((f, g) in composable_morphisms()) {
        let f = injective(&f);
        let made = g.layout().logical_divide(&f.layout()).unwrap();
        let parts = [f.then(&g).layout(), f.complement().then(&g).layout()];
        check_same(Layout::concat(&parts).unwrap(), &made)?;
    }

    /// `f x g == (f, complement(f) o g)` for `g` into the domain of the complement of `f`.
    #[test]
    fn products_are_those_of_morphisms(f in morphisms(), picks in picks()) {
        let f = injective(&f);
        let free = f.complement();
        let g = picked(free.domain.clone(), picks);
        let made = f.layout().logical_product(&g.layout()).unwrap();
        let parts = [f.layout(), g.then(&free).layout()];
        check_same(Layout::concat(&parts).unwrap(), &made)?;
    }
}

/// The weak composite is defined often enough for the law to mean something, and refused where the
/// paper's authors say so.
#[test]
fn weak_composites_of_examples() {
    let of = |text: &str| Morphism::standard(&text.parse().unwrap()).unwrap();
    let composite = of("(6,6):(1,6)").then_weakly(&of("(2,6,6):(1,2,12)")).unwrap();
    assert_eq!(composite.layout().coalesce().unwrap().to_string(), "36:1");
    // Both are tractable and the composition exists, but the result is not tractable: 12 and 18 do
    // not divide each other.
    let (a, b) = ("(6,3):(21,7)".parse::<Layout>().unwrap(), "4:3".parse::<Layout>().unwrap());
    assert!(of("4:3").then_weakly(&of("(6,3):(21,7)")).is_none());
    let made = a.composition(&b).unwrap();
    assert!(
        is_tractable(&a) && is_tractable(&b) && !is_tractable(&made.flatten().unwrap()),
        "{made}"
    );
}
