//! Bit matrices of layouts and the analyses of layouts, against their definitions on whole domains.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tilewright::layout::{
    Analysis, ComposedLayout, CoordFn, DOMAIN_LIMIT, Env, Int, IntTuple, Layout, LayoutBuilder,
    LayoutError, LinearLayout, ModePath, Swizzle, VectorLimit, layout, shape,
};

/// All indices by evaluation, coordinate by coordinate.
fn values(l: &ComposedLayout) -> Vec<i64> {
    let size = l.size().unwrap().to_static().unwrap();
    (0..size).map(|i| l.crd2idx(i).unwrap().to_static().unwrap()).collect()
}

fn flat(modes: &[(i64, i64)]) -> Layout {
    let mut out = LayoutBuilder::new();
    out.open();
    modes.iter().for_each(|&(s, d)| out.push(s, d));
    out.close();
    out.finish().unwrap()
}

fn swizzled(swizzle: Swizzle, offset: i64, layout: &Layout) -> ComposedLayout {
    ComposedLayout::new(swizzle, offset, layout.clone()).unwrap()
}

/// The matrix exists exactly if the exclusive or of the images of the bits is the layout, and then
/// it is that.
fn check_linear(l: &ComposedLayout) {
    let values = values(l);
    let linear = values.len().is_power_of_two()
        && values.iter().enumerate().all(|(i, &v)| {
            let bits = (0..usize::BITS).filter(|b| i >> b & 1 == 1);
            v >= 0 && bits.fold(0, |x, b| x ^ values[1 << b]) == v
        });
    match LinearLayout::from_composed(l) {
        Ok(m) => {
            assert!(linear, "{l} has no matrix");
            assert_eq!(m.size(), values.len() as u64, "{l}");
            for (i, &v) in values.iter().enumerate() {
                assert_eq!(m.apply(i as u64), v.unsigned_abs(), "{l} at {i}");
            }
            check_matrix(&m);
        }
        // A composition may be linear although its parts are not; a plain layout may not.
        Err(error) => assert!(!(linear && l.is_normal()), "{l} is linear, but: {error}"),
    }
}

fn span(basis: &[u64]) -> BTreeSet<u64> {
    basis
        .iter()
        .fold(BTreeSet::from([0]), |span, b| span.iter().flat_map(|x| [*x, x ^ b]).collect())
}

/// Rank, kernel, inverses, rows, and the way back to layouts, by their definitions.
fn check_matrix(m: &LinearLayout) {
    let image: BTreeSet<u64> = (0..m.size()).map(|i| m.apply(i)).collect();
    assert_eq!(1 << m.rank(), image.len(), "rank of {m:?}");
    assert!(image.iter().all(|v| v >> m.out_bits() == 0), "{m:?}");
    let zeros: BTreeSet<u64> = (0..m.size()).filter(|&i| m.apply(i) == 0).collect();
    let kernel = m.kernel();
    assert_eq!((span(&kernel), 1 << kernel.len()), (zeros.clone(), zeros.len()), "{m:?}");
    for i in 0..m.size() {
        let index = (0..m.out_bits()).map(|r| u64::from((m.row(r) & i).count_ones() % 2) << r);
        assert_eq!(index.sum::<u64>(), m.apply(i), "rows of {m:?}");
    }
    for index in 0..1u64 << m.out_bits() {
        let found = m.solve(index).map(|i| m.apply(i));
        assert_eq!(found, image.contains(&index).then_some(index), "{m:?}");
    }
    let (injective, surjective) = (zeros.len() == 1, image.len() == 1 << m.out_bits());
    assert_eq!((m.is_injective(), m.is_surjective()), (injective, surjective), "{m:?}");
    let refused = |r: &Result<LinearLayout, LayoutError>| matches!(r, Err(LayoutError::RankDeficient { rank, needed }) if rank < needed);
    match m.left_inverse() {
        Ok(r) => assert!((0..m.size()).all(|i| r.apply(m.apply(i)) == i), "{m:?}"),
        r => assert!(!injective && refused(&r), "{m:?}"),
    }
    match m.right_inverse() {
        Ok(r) => assert!((0..1 << m.out_bits()).all(|j| m.apply(r.apply(j)) == j), "{m:?}"),
        r => assert!(!surjective && refused(&r), "{m:?}"),
    }
    match m.inverse() {
        Ok(r) => assert_eq!(r.compose(m), LinearLayout::identity(m.in_bits()), "{m:?}"),
        r => assert!(!(injective && surjective) && refused(&r), "{m:?}"),
    }
    match m.to_composed() {
        Ok(l) => {
            let back = values(&l).into_iter().map(i64::unsigned_abs);
            assert!(back.eq((0..m.size()).map(|i| m.apply(i))), "{m:?} gave {l}");
            assert_eq!(m.to_layout().ok().as_ref(), l.as_normal(), "{m:?}");
        }
        Err(error) => {
            assert!(matches!(error, LayoutError::NotALayout { .. }), "{m:?}: {error}");
            assert!(m.to_layout().is_err(), "{m:?}");
        }
    }
}

/// One-to-one, the witness of the contrary, image, contiguous, bijective.
fn check_set(l: &ComposedLayout) {
    let values = values(l);
    let set: BTreeSet<i64> = values.iter().copied().collect();
    let injective = set.len() == values.len();
    assert_eq!(l.is_injective(), Ok(injective), "{l}");
    match l.collision().unwrap() {
        None => assert!(injective, "{l}"),
        Some(o) => {
            assert_ne!(o.left, o.right, "{l}");
            let shape = l.shape().unwrap().to_owned();
            for c in [&o.left, &o.right] {
                let inside =
                    c.leaves().iter().zip(shape.leaves()).all(|(c, s)| {
                        (0..s.as_static().unwrap()).contains(&c.as_static().unwrap())
                    });
                assert!(inside && c.congruent(&shape), "{l}: {o}");
                assert_eq!(l.crd2idx(c), Ok(Int::new(o.index)), "{l}: {o}");
            }
        }
    }
    let (first, last) = (*set.first().unwrap(), *set.last().unwrap());
    let contiguous = last - first + 1 == set.len() as i64;
    assert_eq!(l.is_contiguous(), Ok(contiguous), "{l}");
    assert_eq!(l.is_bijective(), Ok(contiguous && injective && first == 0), "{l}");
    let image = l.image().unwrap();
    assert!(image.iter().eq(set.iter().copied()), "{l}: {image}");
    assert_eq!(image.len(), set.len() as u64, "{l}");
    assert_eq!((image.first(), image.last()), (Some(first), Some(last)), "{l}");
    assert_eq!(image.is_interval(), contiguous, "{l}");
    for index in first - 2..=last + 2 {
        assert_eq!(image.contains(index), set.contains(&index), "{l} at {index}");
    }
    // The form is the only one of the set: no run goes on in the next, the step is the largest.
    let ends =
        image.runs().windows(2).all(|w| w[0].start + w[0].count as i64 * image.step() < w[1].start);
    assert!(ends, "{l}: {image}");
    let divides = |step: i64| set.iter().all(|v| (v - first) % step == 0);
    assert!(divides(image.step()), "{l}: {image}");
    assert!(set.len() == 1 || (2..=8).all(|k| !divides(image.step() * k)), "{l}: {image}");
}

fn check_overlap(a: &ComposedLayout, b: &ComposedLayout) {
    let (in_a, in_b): (BTreeSet<i64>, BTreeSet<i64>) =
        (values(a).into_iter().collect(), values(b).into_iter().collect());
    match a.overlap(b).unwrap() {
        None => assert!(in_a.is_disjoint(&in_b), "{a} and {b} meet"),
        Some(o) => {
            assert!(in_a.contains(&o.index) && in_b.contains(&o.index), "{a}, {b}: {o}");
            assert_eq!(a.crd2idx(&o.left), Ok(Int::new(o.index)), "{a}, {b}: {o}");
            assert_eq!(b.crd2idx(&o.right), Ok(Int::new(o.index)), "{a}, {b}: {o}");
        }
    }
}

/// Checks banks and sectors against a count byte by byte. Returns false if the access is an error.
fn check_access(l: &ComposedLayout, threads: &Layout, vector: u32, element_bits: u32) -> bool {
    let place = format!("{l} by {threads}, {vector} x {element_bits}");
    let report = match l.bank_conflicts(threads, vector, element_bits) {
        Ok(report) => report,
        Err(error) => {
            let refused = matches!(error, LayoutError::Misaligned { .. });
            assert!(refused, "{place}: {error}");
            assert_eq!(l.sectors(threads, vector, element_bits).err(), Some(error));
            return false;
        }
    };
    let sectors = l.sectors(threads, vector, element_bits).unwrap();
    let all = values(l);
    let (bytes, bits) = (i64::from(vector * element_bits / 8), i64::from(element_bits));
    let threads_at: Vec<i64> = threads.indices().unwrap().collect();
    let first_byte = |t: usize| all[threads_at[t] as usize] * bits / 8;
    let few_lanes = if bytes <= 4 { 32 } else { 128 / bytes as usize };
    let mut phases = report.phases().iter();
    for (w, warp) in (0..threads_at.len()).collect::<Vec<_>>().chunks(32).enumerate() {
        let touched = |lanes: &[usize]| -> BTreeSet<i64> {
            lanes.iter().flat_map(|&t| (0..bytes).map(move |b| first_byte(t) + b)).collect()
        };
        let touched_by_warp = touched(warp);
        let in_warp: BTreeSet<i64> = touched_by_warp.iter().map(|b| b.div_euclid(32)).collect();
        let found = &sectors.warps()[w];
        assert_eq!(found.sectors as usize, in_warp.len(), "{place}");
        assert_eq!(found.bytes as usize, touched_by_warp.len(), "{place}");
        // Wide accesses are merged where pairs of lanes agree throughout the warp.
        let agree = |step: usize| {
            warp.iter()
                .all(|&t| t ^ step >= threads_at.len() || first_byte(t) == first_byte(t ^ step))
        };
        let merged = few_lanes < 32 && (agree(1) || agree(2));
        for phase in warp.chunks(if merged { 2 * few_lanes } else { few_lanes }) {
            let words: BTreeSet<i64> = touched(phase).iter().map(|b| b.div_euclid(4)).collect();
            let mut in_bank = BTreeMap::<i64, u32>::new();
            words.iter().for_each(|w| *in_bank.entry(w.rem_euclid(32)).or_default() += 1);
            let degree = *in_bank.values().max().unwrap();
            let bank = *in_bank.iter().find(|(_, n)| **n == degree).unwrap().0;
            let found = phases.next().unwrap();
            let lane = (phase[0] % 32) as u32;
            assert_eq!((found.warp, found.first_lane), (w as u64, lane), "{place}");
            assert_eq!(found.lanes as usize, phase.len(), "{place}");
            assert_eq!((found.degree, i64::from(found.bank)), (degree, bank), "{place}");
            assert_eq!(found.words as usize, words.len(), "{place}");
        }
    }
    assert_eq!(phases.next(), None, "{place}");
    true
}

fn check_vector(l: &ComposedLayout, element_bits: u32, align: u32) {
    let all = values(l);
    let fits = |v: usize| {
        v as u32 * element_bits <= 128.min(8 * align)
            && all.len().is_multiple_of(v)
            && all.chunks(v).all(|c| {
                c[0] % v as i64 == 0 && c.iter().zip(c[0]..).all(|(found, at)| *found == at)
            })
    };
    let widest = (1..8).map(|k| 1 << k).take_while(|&v| fits(v)).last().unwrap_or(1);
    let report = l.widest_vector(element_bits, align).unwrap();
    assert_eq!(report.elements() as usize, widest, "{l}, {element_bits} bits: {report}");
    // The limit that is named is one.
    let twice = 2 * widest as i64;
    match report.limit() {
        VectorLimit::Width => assert_eq!(report.bits(), 128, "{l}: {report}"),
        VectorLimit::BaseAlignment { bytes, needed } => {
            assert!(2 * report.bits() > 8 * bytes, "{l}: {report}");
            let aligned = l.widest_vector(element_bits, *needed).unwrap();
            assert!(aligned.elements() > report.elements(), "{l}: {report}, but {aligned}");
        }
        VectorLimit::Run { elements, .. } => assert_ne!(elements % twice, 0, "{l}: {report}"),
        VectorLimit::Stride { mode, stride, .. } => {
            let path: Vec<usize> = mode.indices().collect();
            let found = l.outer_layout().unwrap().get(&path).unwrap();
            assert_eq!(&found.stride().to_string(), stride, "{l}: {report}");
            assert_ne!(stride.parse::<i64>().unwrap() % twice, 0, "{l}: {report}");
        }
        VectorLimit::Offset { offset, .. } => {
            assert_ne!(offset.parse::<i64>().unwrap() % twice, 0, "{l}: {report}");
        }
        VectorLimit::Index { coordinate, index, needed, .. } => {
            assert_eq!(all[*coordinate as usize], *index, "{l}: {report}");
            let first = (coordinate / twice * twice) as usize;
            assert_eq!(all[first] + coordinate % twice, *needed, "{l}: {report}");
            assert_ne!(index, needed, "{l}: {report}");
        }
        VectorLimit::Start { coordinate, index, needed, .. } => {
            assert_eq!(all[*coordinate as usize], *index, "{l}: {report}");
            assert_eq!(coordinate % twice, 0, "{l}: {report}");
            assert_ne!(index % i64::from(*needed), 0, "{l}: {report}");
        }
        limit => panic!("{l}: {limit:?}"),
    }
}

/// All flat layouts of `rank` modes with these extents and strides.
fn all_layouts(rank: usize, extents: &[i64], strides: &[i64]) -> Vec<Layout> {
    let modes: Vec<(i64, i64)> =
        extents.iter().flat_map(|&s| strides.iter().map(move |&d| (s, d))).collect();
    let longer = |lists: Vec<Vec<(i64, i64)>>| {
        lists
            .iter()
            .flat_map(|l| modes.iter().map(move |&m| [l.as_slice(), &[m]].concat()))
            .collect()
    };
    (0..rank).fold(vec![vec![]], |lists, _| longer(lists)).iter().map(|l| flat(l)).collect()
}

fn all_swizzles(total: i64) -> Vec<Swizzle> {
    let mut out = Vec::new();
    for bits in 0..=total {
        for base in 0..=total - bits {
            let distances = bits..=total - bits - base;
            out.extend(
                distances.flat_map(|d| [d, -d]).map(|d| Swizzle::new(bits, base, d).unwrap()),
            );
        }
    }
    out
}

#[test]
fn all_small_layouts() {
    let rank_2 = all_layouts(2, &[1, 2, 3, 4], &[-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let rank_3 = all_layouts(3, &[1, 2, 4], &[-2, 0, 1, 2, 3, 4, 6]);
    for l in rank_2.into_iter().chain(rank_3) {
        let l = l.into();
        check_set(&l);
        check_linear(&l);
        check_vector(&l, 16, 16);
    }
}

#[test]
fn all_small_swizzles() {
    let layouts = all_layouts(2, &[2, 4], &[-1, 1, 2, 4, 5, 8]);
    for swizzle in all_swizzles(if crate::support::slow::slow() { 12 } else { 5 }) {
        for offset in [0, 3] {
            for l in layouts.iter().map(|l| swizzled(swizzle, offset, l)) {
                check_set(&l);
                check_vector(&l, 32, 16);
                // Exclusive or of a negative number with bits above its own is no matrix.
                if offset == 0 {
                    check_linear(&l);
                }
            }
        }
    }
}

#[test]
fn all_pairs_overlap_or_not() {
    let layouts = all_layouts(2, &[1, 3], &[-2, 0, 1, 3, 6]);
    let moved = |l: &Layout, offset| swizzled(Swizzle::identity(), offset, l);
    for a in &layouts {
        for b in &layouts {
            for offset in [-7, -1, 0, 2, 5, 13] {
                check_overlap(&moved(a, 2), &moved(b, offset));
            }
        }
    }
    let bank = Swizzle::new(2, 0, 2).unwrap();
    for b in &layouts {
        for offset in [0, 5, 16, 21] {
            check_overlap(&swizzled(bank, 3, &layout!((4, 2):(1, 8))), &moved(b, offset));
            check_overlap(&moved(b, offset), &swizzled(bank, 16, &layout!((4, 4):(1, 4))));
        }
    }
}

#[test]
fn random_matrices() {
    proptest!(|(columns in prop::collection::vec(0u64..64, 0..7), more in prop::collection::vec(0u64..64, 0..7))| {
        let (a, b) = (LinearLayout::from_columns(columns).unwrap(), LinearLayout::from_columns(more).unwrap());
        check_matrix(&a);
        let joined = a.concat(&b).unwrap();
        for i in 0..joined.size() {
            prop_assert_eq!(joined.apply(i), a.apply(i % a.size()) ^ b.apply(i / a.size()));
        }
        match a.compose(&b) {
            Ok(product) => for i in 0..b.size() {
                prop_assert_eq!(product.apply(i), a.apply(b.apply(i)));
            },
            Err(error) => {
                prop_assert!((0..b.size()).any(|i| b.apply(i) >= a.size()), "{}", error);
            }
        }
    });
}

/// Layouts of up to four leaves, nested below the second one, with an offset and a swizzle.
fn composed() -> impl Strategy<Value = ComposedLayout> {
    let mode = (1i64..9, prop_oneof![-9i64..40, (0u32..9).prop_map(|k| 1 << k)]);
    let swizzle = (0i64..4, 0i64..5, 0i64..5, any::<bool>());
    let parts = (prop::collection::vec(mode, 1..5), swizzle, prop_oneof![Just(0i64), -20i64..60]);
    parts.prop_map(|(modes, (bits, base, more, down), offset)| {
        let mut out = LayoutBuilder::new();
        out.open();
        for (i, &(s, d)) in modes.iter().enumerate() {
            if i == 1 {
                out.open();
            }
            out.push(s, d);
        }
        let distance = if down { -(bits + more) } else { bits + more };
        let swizzle = Swizzle::new(bits, base, distance).unwrap();
        swizzled(swizzle, offset, &out.finish().unwrap())
    })
}

#[test]
fn random_sets() {
    proptest!(ProptestConfig::with_cases(300), |(l in composed(), other in composed(), bits in 0u32..8, align in 0u32..6)| {
        check_set(&l);
        check_vector(&l, 1 << bits, 1 << align);
        check_overlap(&l, &other);
    });
}

/// Some of the `bits` bits of an index, in any order, each at most once.
fn linear(bits: usize) -> impl Strategy<Value = Layout> {
    let order = Just((0..bits).collect::<Vec<_>>()).prop_shuffle();
    (order, 1..=bits).prop_map(|(order, count)| {
        flat(&order[..count].iter().map(|b| (2, 1i64 << b)).collect::<Vec<_>>()).coalesce().unwrap()
    })
}

/// A linear layout, and threads that each take one of its elements, some of them perhaps the same.
fn tile_and_threads() -> impl Strategy<Value = (Layout, Layout)> {
    let tile = linear(10).prop_flat_map(|l| {
        let bits = l.size().unwrap().to_static().unwrap().trailing_zeros() as usize;
        (Just(l), linear(bits), 0..3u32)
    });
    (tile, any::<bool>()).prop_map(|((l, t, more), first)| {
        let same = Layout::leaf(1i64 << more, 0);
        let threads = Layout::concat(if first { [&same, &t] } else { [&t, &same] });
        (l, threads.unwrap())
    })
}

#[test]
fn random_accesses() {
    let elements = prop::sample::select(vec![
        (1u32, 8u32),
        (2, 8),
        (4, 8),
        (16, 8),
        (2, 4),
        (32, 4),
        (1, 16),
        (2, 16),
        (8, 16),
        (1, 32),
        (2, 32),
        (4, 32),
        (1, 64),
        (2, 64),
        (1, 128),
    ]);
    let swizzles = prop::sample::select(all_swizzles(9));
    let compared = [0, 1].map(Cell::new);
    let count = |ok: bool| compared[usize::from(ok)].set(compared[usize::from(ok)].get() + 1);
    proptest!(ProptestConfig::with_cases(600), |((l, threads) in tile_and_threads(), swizzle in swizzles, (vector, bits) in elements, pad in 0i64..3)| {
        // Indices in units of a vector, so that most accesses are aligned.
        let scale = i64::from(vector) * (1 + pad) - i64::from(pad == 2 && vector > 1);
        let modes: Vec<(i64, i64)> = l.as_ref().leaves()
            .map(|(s, d)| (s.as_static().unwrap(), d.as_static().unwrap() * scale)).collect();
        count(check_access(&flat(&modes).into(), &threads, vector, bits));
        count(check_access(&swizzled(swizzle, 0, &flat(&modes)), &threads, vector, bits));
        count(check_access(&swizzled(swizzle, scale, &l), &threads, 1, 32));
    });
    assert!(compared.iter().all(|count| count.get() > 100), "{compared:?}");
}

/// Accesses that everyone knows, and some that have been timed: wavefronts of one warp.
#[test]
fn known_accesses() {
    let memory = layout!(4096:1);
    let wavefronts = |threads: &Layout, vector: u32| {
        let report = memory.bank_conflicts(threads, vector, 32).unwrap();
        (report.wavefronts(), report.phases().len())
    };
    // One word a thread: neighbours, one word for all, every second, every 32nd, every 33rd.
    assert_eq!(wavefronts(&layout!(32:1), 1), (1, 1));
    assert_eq!(wavefronts(&layout!(32:0), 1), (1, 1));
    assert_eq!(wavefronts(&layout!(32:2), 1), (2, 1));
    assert_eq!(wavefronts(&layout!(32:32), 1), (32, 1));
    assert_eq!(wavefronts(&layout!(32:33), 1), (1, 1));
    // Wider accesses: half and quarter warps, merged where pairs of lanes agree.
    assert_eq!(wavefronts(&layout!(32:2), 2), (2, 2));
    assert_eq!(wavefronts(&layout!((2, 16):(0, 2)), 2), (1, 1));
    assert_eq!(wavefronts(&layout!((2, 2, 8):(2, 0, 4)), 2), (1, 1));
    assert_eq!(wavefronts(&layout!((4, 2, 4):(2, 0, 8)), 2), (2, 2));
    assert_eq!(wavefronts(&layout!(32:4), 4), (4, 4));
    assert_eq!(wavefronts(&layout!(32:0), 4), (2, 2));
    assert_eq!(wavefronts(&layout!((2, 2, 8):(4, 0, 8)), 4), (2, 2));
    assert_eq!(wavefronts(&layout!((16, 2):(4, 0)), 4), (4, 4));
    assert_eq!(wavefronts(&layout!(32:32), 4), (32, 4));
    // Sectors: neighbours, every second word, one word each in a sector of its own.
    let sectors = |threads: &Layout, vector| memory.sectors(threads, vector, 32).unwrap().sectors();
    assert_eq!(sectors(&layout!(32:1), 1), 4);
    assert_eq!(sectors(&layout!(32:2), 1), 8);
    assert_eq!(sectors(&layout!(32:8), 1), 32);
    assert_eq!(sectors(&layout!(32:4), 4), 16);
    assert_eq!(sectors(&layout!(32:0), 4), 1);
}

/// An answer for symbols is right for all of their values.
#[test]
fn symbols() {
    let values = [1i64, 2, 3, 5, 8];
    let n = Int::symbol("n");
    let m = Int::symbol("m");
    let times = |a: &Int, b: i64| a.mul(&Int::new(b)).unwrap();
    let entries = [Int::new(0), Int::new(1), Int::new(3), Int::new(8), n.clone(), m.clone()];
    let more = [times(&n, 2), n.mul(&m).unwrap(), n.add(&Int::ONE).unwrap(), times(&n, -1)];
    let strides: Vec<Int> = entries.iter().chain(&more).cloned().collect();
    let extents = [Int::new(1), Int::new(4), n.clone(), m.clone(), times(&m, 2)];
    let mut answers = [0; 4];
    for (s0, d0) in extents.iter().flat_map(|s| strides.iter().map(move |d| (s, d))) {
        for (s1, d1) in extents.iter().flat_map(|s| strides.iter().map(move |d| (s, d))) {
            let l = Layout::new((s0, s1), (d0, d1)).unwrap();
            if l.is_static() {
                continue;
            }
            let found = [l.is_injective(), l.is_contiguous(), l.is_bijective()];
            let widest = l.widest_vector(16, 16).unwrap().elements();
            for (count, answer) in answers.iter_mut().zip(&found) {
                *count += i32::from(answer.is_ok());
            }
            answers[3] += i32::from(widest > 1);
            for (n, m) in values.iter().flat_map(|n| values.iter().map(move |m| (*n, *m))) {
                let l = l.eval(&Env::new().with("n", n).with("m", m)).unwrap();
                let exact = [l.is_injective(), l.is_contiguous(), l.is_bijective()];
                for (found, exact) in found.iter().zip(exact) {
                    match found {
                        Ok(answer) => assert_eq!(Ok(*answer), exact, "{l}"),
                        Err(error) => assert!(matches!(error, LayoutError::Undecided { .. })),
                    }
                }
                assert!(l.widest_vector(16, 16).unwrap().elements() >= widest, "{l}");
            }
        }
    }
    // Lower bounds of the decided pairs, of 2,200.
    assert!(answers.iter().zip([600, 200, 200, 30]).all(|(a, least)| *a >= least), "{answers:?}");
    let shift = |offset: &Int, l: &Layout| {
        ComposedLayout::new(Swizzle::identity(), offset, l.clone()).unwrap()
    };
    let rows = Layout::new((&m, &n), (&n, 1)).unwrap();
    assert_eq!(rows.is_bijective(), Ok(true));
    let after = n.mul(&m).unwrap();
    assert_eq!(rows.overlap(&shift(&after, &rows)), Ok(None));
    let inside = rows.overlap(&shift(&n, &rows));
    assert!(matches!(inside, Err(LayoutError::NotStatic { .. })), "{inside:?}");
}

#[test]
fn other_maps_inside() {
    let table = [4, 0, 4, 9];
    let gather = CoordFn::new("rows", move |i| {
        let i = i.to_int()?.to_static()?;
        Ok(IntTuple::from(usize::try_from(i).ok().and_then(|i| table.get(i)).copied().unwrap_or(0)))
    });
    let l = ComposedLayout::new(gather, 0, layout!((2, 2):(2, 1))).unwrap();
    check_set(&l);
    assert_eq!(l.collision().unwrap().unwrap().to_string(), "(0,0) and (1,0) share the index 4");
    let nested: ComposedLayout = "(4,4):(8,1) o 2 o (2,4):(1,2)".parse().unwrap();
    check_set(&nested);
    check_vector(&nested, 32, 16);
    check_overlap(&nested, &l);
}

#[test]
fn what_does_not_depend_on_the_size_has_no_limit() {
    let huge = layout!((1048576, 1048576):(1048576, 1));
    assert_eq!((huge.is_injective(), huge.is_bijective()), (Ok(true), Ok(true)));
    assert_eq!(huge.image().unwrap().to_string(), "0..=1099511627775");
    // Strides without a common divisor come back to an index only after as many steps as the other.
    assert_eq!(layout!((1048576, 1048576):(1048575, 1048576)).is_injective(), Ok(true));
    let one_more = layout!((1048577, 1048577):(1048575, 1048576)).collision().unwrap().unwrap();
    assert_eq!((one_more.left, one_more.right), (shape!(1048576, 0), shape!(0, 1048575)));
    let twice = layout!((1048576, 1048576):(6, 4)).collision().unwrap().unwrap();
    assert_eq!((twice.left, twice.right), (shape!(2, 0), shape!(0, 3)));
    let odd = swizzled(Swizzle::identity(), 1, &layout!((1048576, 1048576):(2097152, 2)));
    assert_eq!(odd.overlap(&layout!((1048576, 1048576):(2, 2097152))), Ok(None));
    let found = odd.overlap(&layout!((1048576, 1048576):(3, 3145728))).unwrap().unwrap();
    assert_eq!(found.index, 3);
    let s = Swizzle::new(3, 4, 3).unwrap();
    assert_eq!(swizzled(s, 0, &huge).is_bijective(), Ok(true));
    assert_eq!(swizzled(s, 0, &huge).widest_vector(16, 16).unwrap().elements(), 1);
}

/// The limits of a linear layout have closed forms, so they are the same at any size.
#[test]
fn the_vector_of_a_linear_layout_needs_no_walk() {
    for extent in [4, 1 << 30] {
        let limit = |base, strides: [i64; 2]| {
            let l = flat(&[(64, strides[0]), (extent, strides[1])]);
            let l = swizzled(Swizzle::new(3, base, 3).unwrap(), 0, &l);
            let report = l.widest_vector(16, 16).unwrap();
            (report.elements(), report.limit().clone())
        };
        let mode = ModePath::from([0]);
        let start = |coordinate, index, needed| VectorLimit::Start {
            mode: mode.clone(),
            coordinate,
            index,
            needed,
        };
        assert_eq!(limit(0, [1, 64]), (1, start(8, 9, 2)));
        assert_eq!(limit(2, [1, 64]), (4, start(32, 36, 8)));
        let index = VectorLimit::Index { mode: mode.clone(), coordinate: 1, index: 4, needed: 1 };
        assert_eq!(limit(0, [4, 256]), (1, index));
    }
}

#[test]
fn limits_and_other_errors() {
    let limit =
        LayoutError::TooLarge { what: "the number of coordinates to walk", limit: DOMAIN_LIMIT };
    // Strides without a pattern, and too many coordinates to try; a collision is found in a corner.
    let crowded = flat(&[(1000, 1001), (1000, 1003), (1000, 1007), (1000, 1013)]);
    let found = crowded.collision().unwrap().unwrap();
    assert_ne!(found.left, found.right);
    for c in [&found.left, &found.right] {
        assert_eq!(crowded.crd2idx(c), Ok(Int::new(found.index)));
    }
    let sparse =
        flat(&[(1000, 1_000_000_007_123), (1000, 1_414_213_562_373), (1000, 1_618_033_988_749)]);
    assert_eq!(sparse.is_injective(), Err(limit.clone()));
    let gaps = flat(&[(10000, 3), (10000, 100_003), (10000, 10_000_000_019)]);
    assert_eq!(gaps.image(), Err(limit.clone()));
    let s = swizzled(Swizzle::new(3, 0, 3).unwrap(), 5, &layout!(8388608:1));
    assert_eq!(s.image(), Err(limit.clone()));
    assert_eq!(s.is_contiguous(), Err(limit.clone()));
    assert_eq!(s.widest_vector(16, 16), Err(limit.clone()));
    assert_eq!(s.is_injective(), Ok(true));
    assert_eq!(layout!(8388608:1).bank_conflicts(&layout!(8388608:1), 1, 32), Err(limit.clone()));
    assert_eq!(layout!(8388608:0).overlap(&s), Err(limit));

    let n = Int::symbol("n");
    let symbolic = Layout::compact((&n, 4));
    assert!(matches!(symbolic.image(), Err(LayoutError::NotStatic { .. })));
    assert!(matches!(symbolic.collision(), Err(LayoutError::NotStatic { .. })));
    let undecided = Layout::new((&n, 4), (3, 4)).unwrap().is_injective();
    assert!(matches!(undecided, Err(LayoutError::Undecided { .. })), "{undecided:?}");

    let tile = layout!((32, 32):(32, 1));
    let warp = layout!(32:1);
    let access = |vector, bits| tile.bank_conflicts(&warp, vector, bits).unwrap_err();
    assert_eq!(access(3, 32), LayoutError::BadAccess { vector: 3, element_bits: 32 });
    assert_eq!(access(1, 4), LayoutError::BadAccess { vector: 1, element_bits: 4 });
    assert_eq!(access(8, 32), LayoutError::BadAccess { vector: 8, element_bits: 32 });
    let outside = tile.sectors(&layout!(32:64), 1, 32);
    assert_eq!(outside, Err(LayoutError::OutsideDomain { coordinate: 1024, size: 1024 }));
    let odd = layout!((32, 32):(33, 1)).bank_conflicts(&warp, 4, 32);
    assert_eq!(odd, Err(LayoutError::Misaligned { thread: 1, index: 33, bits: 128 }));
    let sixes = tile.widest_vector(6, 16);
    assert_eq!(sixes, Err(LayoutError::BadAccess { vector: 1, element_bits: 6 }));
    assert_eq!(tile.widest_vector(8, 12), Err(LayoutError::NotPowerOfTwo { value: Int::new(12) }));
    let huge = flat(&[(4, i64::MAX / 3), (4, i64::MAX / 3)]);
    assert!(matches!(huge.image(), Err(LayoutError::Overflow { .. })));
    assert!(matches!(layout!(0:1).is_injective(), Err(LayoutError::ExtentNotPositive { .. })));
}

#[test]
fn matrices_that_are_none() {
    let cause =
        |l: Layout| LinearLayout::new(&l).map_err(|e| (e.mode().cloned(), e.cause().clone()));
    let (place, error) = cause(layout!((4, (2, 6)):(1, (4, 8)))).unwrap_err();
    assert_eq!(place.unwrap().to_string(), "1.1");
    assert_eq!(error, LayoutError::NotPowerOfTwo { value: Int::new(6) });
    let (place, error) = cause(layout!((4, (2, 8)):(1, (2, 8)))).unwrap_err();
    assert_eq!(place.unwrap().to_string(), "1.0");
    let carries = LayoutError::AddsWithCarry { extent: Int::new(2), stride: "2".into(), bit: 1 };
    assert_eq!(error, carries);
    let (_, error) = cause(layout!(4:3)).unwrap_err();
    assert!(matches!(error, LayoutError::AddsWithCarry { bit: 1, .. }));
    let (_, error) = cause(layout!(4:-1)).unwrap_err();
    assert_eq!(error, LayoutError::NegativeStride { stride: "-1".into() });
    let (_, error) = cause(Layout::compact((Int::symbol("n"), 4))).unwrap_err();
    assert!(matches!(error, LayoutError::NotStatic { .. }));
    assert!(matches!(
        cause(flat(&[(8, 1 << 60)])),
        Err((_, LayoutError::TooManyBits { limit: 62 }))
    ));
    let moved = swizzled(Swizzle::identity(), 4, &layout!(4:1));
    let error = LinearLayout::from_composed(&moved).unwrap_err();
    assert!(matches!(error, LayoutError::Unsupported { .. }));
    let (wide, narrow) = (LinearLayout::identity(5).unwrap(), LinearLayout::identity(3).unwrap());
    let mismatch = LayoutError::BitsMismatch { expected: 3, found: 5 };
    assert_eq!(narrow.compose(&wide), Err(mismatch.clone()));
    assert_eq!(wide.with_out_bits(3), Err(mismatch));
    assert!(LinearLayout::identity(63).is_err() && LinearLayout::from_columns([1 << 62]).is_err());
    // No swizzle adds two bits onto one.
    let none = LinearLayout::from_columns([1, 2, 7]).unwrap().to_composed();
    assert!(matches!(none, Err(LayoutError::NotALayout { .. })), "{none:?}");
}

/// The obstacle to a vector is named with its mode, its value and the needed value: the layout
/// before the alignment.
#[test]
fn the_limit_of_a_vector_names_the_mode() {
    for (layout, align, vector, expected) in [
        (
            "(8,4):(1,12)",
            16,
            8,
            "4 x 16 bits; mode 1 has stride 12, but a vector of 8 needs a multiple of 8",
        ),
        ("(8,4):(1,8)", 4, 8, "2 x 16 bits; the alignment is 4 bytes, but the layout allows 16"),
        ("(8,4):(1,8)", 4, 2, "2 x 16 bits; no access is wider"),
        // More alignment would help to four, but not to eight.
        (
            "(4,4):(1,16)",
            4,
            8,
            "2 x 16 bits; contiguous runs have length 4, because mode 1 has stride 16, but a vector of 8 needs a multiple of 8",
        ),
        (
            "((4,1),1):((8,0),0)",
            2,
            4,
            "1 x 16 bits; contiguous runs have length 1, because mode 0.0 has stride 8, but a vector of 4 needs a multiple of 4",
        ),
        (
            "(12):(1)",
            16,
            8,
            "4 x 16 bits; contiguous runs have length 12, but a vector of 8 needs a multiple of 8",
        ),
        (
            "S<2,2,3> o 0 o (32,8):(1,32)",
            16,
            8,
            "4 x 16 bits; along mode 1, coordinate 32 has index 36, but a vector of 8 needs a multiple of 8",
        ),
        (
            "S<1,0,3> o 0 o (32,8):(1,32)",
            16,
            8,
            "1 x 16 bits; along mode 0, coordinate 8 has index 9, but a vector of 2 needs a multiple of 2",
        ),
    ] {
        let report = match layout.parse::<Layout>() {
            Ok(plain) => plain.vector_of(16, align, vector),
            Err(_) => layout.parse::<ComposedLayout>().unwrap().vector_of(16, align, vector),
        };
        assert_eq!(report.unwrap().to_string(), expected, "{layout}");
    }
    let tile = layout!((8, 4):(1, 8));
    let error = LayoutError::BadAccess { vector: 16, element_bits: 16 };
    assert_eq!(tile.vector_of(16, 16, 16), Err(error));
}
