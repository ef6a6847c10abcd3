//! The operations on numbers, ratios, swizzles and tuples.

use tilewright::layout::{
    FastDivmod, Int, IntTuple, Layout, LayoutError, Ratio, crd2crd, crd2idx, idx2crd, idx2crd_with,
};

use super::bytes::Bytes;
use super::numbers::{Operand as _, commuting};

type Result<T> = std::result::Result<T, LayoutError>;

/// Operations of two tuples with a tuple or a number as the result.
const PAIRS: [(&str, fn(&IntTuple, &IntTuple) -> Result<IntTuple>); 17] = [
    ("sum", |a, _| a.sum().map(IntTuple::from)),
    ("max", |a, _| a.max().map(IntTuple::from)),
    ("min", |a, _| a.min().map(IntTuple::from)),
    ("gcd", |a, _| a.gcd().map(IntTuple::from)),
    ("product", |a, _| a.product().map(IntTuple::from)),
    ("inner_product", |a, b| a.inner_product(b).map(IntTuple::from)),
    ("ceil_div", |a, b| a.ceil_div(b)),
    ("round_up", |a, b| a.round_up(b)),
    ("elem_scale", |a, b| a.elem_scale(b)),
    ("increment", |a, b| a.increment(b)),
    ("product_each", |a, _| a.product_each()),
    ("product_like", |a, b| a.product_like(b)),
    ("flatten", |a, _| a.flatten()),
    ("unflatten", |a, b| a.unflatten(b)),
    ("zip", |a, b| a.zip(b)),
    ("crd2idx", |a, b| crd2idx(a, b).map(IntTuple::from)),
    ("idx2crd", idx2crd),
];

/// Questions about two tuples. What symbols decide, their numbers decide so.
const QUESTIONS: [(&str, fn(&IntTuple, &IntTuple) -> Result<bool>); 8] = [
    ("compatible", |a, b| a.compatible(b)),
    ("lex_less", |a, b| a.lex_less(b)),
    ("colex_less", |a, b| a.colex_less(b)),
    ("elem_less", |a, b| a.elem_less(b)),
    ("elem_leq", |a, b| a.elem_leq(b)),
    ("elem_gtr", |a, b| a.elem_gtr(b)),
    ("elem_geq", |a, b| a.elem_geq(b)),
    ("congruent", |a, b| Ok(a.congruent(b))),
];

pub(crate) fn tuples(bytes: &mut Bytes<'_>) -> Option<Layout> {
    let (a, b, c) = (bytes.tuple(), bytes.tuple(), bytes.tuple());
    let (i, j) = (bytes.below(5), bytes.below(5));
    for (name, op) in PAIRS {
        commuting(bytes, name, &a, &b, op);
    }
    for (name, question) in QUESTIONS {
        let Ok(answer) = question(&a, &b) else { continue };
        for env in &bytes.envs {
            if let (Ok(x), Ok(y)) = (a.eval(env), b.eval(env))
                && x.is_small()
                && y.is_small()
            {
                assert_eq!(question(&x, &y), Ok(answer), "{name} of {a:?} and {b:?}, {x} and {y}");
            }
        }
    }
    let _ = (a.shape_div(&b), a.weakly_congruent(&b), a.wrap(), a.unwrap_tuple());
    let _ = (a.group(i, j), a.take(i, j), a.select(&[i, j]), a.append(&b), a.insert(i, &b));
    let _ = (a.remove(i), a.replace(i, &b), a.repeat(i), a.append_to(i, &b), a.prepend_to(i, &b));
    commuting(bytes, "crd2crd", &a, &(b.clone(), c.clone()), |a, (b, c)| crd2crd(a, b, c));
    let _ = a.evenly_divides(&bytes.tiler());
    let coord = bytes.coord(a.rank());
    commuting(bytes, "slice", &a, &coord, |a, at| a.slice(at));
    if let Ok(l) = Layout::new(&b, &c) {
        let _ = idx2crd_with(&a, &l);
    }
    // The coordinate of an index has this index.
    if let Ok(crd) = idx2crd(&a, &b)
        && let (Some(index), Some(size)) =
            (a.as_static(), b.product().ok().and_then(|n| n.as_static()))
        && b.leaves().iter().all(|s| s.as_static().is_some_and(|s| s > 0))
        && (0..size).contains(&index)
    {
        assert_eq!(crd2idx(&crd, &b).ok().and_then(|i| i.as_static()), Some(index), "{crd} in {b}");
    }
    None
}

fn arithmetic(op: u8, x: &Int, y: &Int) -> Result<Int> {
    match op % 15 {
        0 => x.add(y),
        1 => x.sub(y),
        2 => x.mul(y),
        3 => x.floor_div(y),
        4 => x.ceil_div(y),
        5 => x.modulo(y),
        6 => x.min(y),
        7 => x.max(y),
        8 => x.gcd(y),
        9 => x.shape_div(y),
        10 => x.round_up(y),
        11 => x.exact_div(y),
        12 => x.xor(y),
        13 => x.and(y),
        _ => x.negate().and_then(|n| n.abs()),
    }
}

/// A chain of operations on numbers and symbols; each result is that of the numbers, with its divisor and
/// bounds.
fn chain(bytes: &mut Bytes<'_>) {
    let mut pool = vec![bytes.int(true), bytes.int(true), bytes.int(true)];
    for _ in 0..1 + bytes.below(4) {
        let (op, i, j) = (bytes.byte(), bytes.below(pool.len()), bytes.below(pool.len()));
        let (x, y) = (pool[i].clone(), pool[j].clone());
        let Ok(made) = arithmetic(op, &x, &y) else { continue };
        for env in &bytes.envs {
            let Ok(value) = made.eval(env) else { continue };
            let d = made.divisibility();
            assert!(if d == 0 { value == 0 } else { value % d == 0 }, "{made:?} = {value} by {d}");
            let (low, high) = made.bounds();
            assert!(low <= value && value <= high, "{made:?} = {value} in {low}..={high}");
            // An operand may be out of range where the result is not.
            if let (Ok(a), Ok(b)) = (x.eval(env), y.eval(env))
                && let Ok(wanted) = arithmetic(op, &a.into(), &b.into())
            {
                assert_eq!(wanted, value, "operation {} of {x:?} = {a} and {y:?} = {b}", op % 15);
            }
            let read: Int = format!("{made:+}").parse().unwrap_or_else(|e| panic!("{made:+}: {e}"));
            if let Ok(found) = read.eval(env) {
                assert_eq!(found, value, "{made} for {env:?}");
            }
        }
        pool.push(made);
    }
}

pub(crate) fn scalars(bytes: &mut Bytes<'_>) -> Option<Layout> {
    chain(bytes);
    let x = bytes.int(true);
    let (n, d, m, e) = (bytes.number(), bytes.number(), bytes.number(), bytes.number());
    if let (Ok(p), Ok(q)) = (Ratio::new(n, d), Ratio::new(m, e)) {
        let _ = (p.mul(q), p.div(q), p.add(q), p.sub(q), p.gcd(q), p.abs(), p.floor(), p < q);
    }
    let swizzle = bytes.swizzle();
    assert_eq!(swizzle.inverse().apply(swizzle.apply(n)), n, "{swizzle} of {n}");
    commuting(bytes, "swizzle", &x, &(), |x, ()| swizzle.apply_int(x));
    let _ = (swizzle.compose(bytes.swizzle()), swizzle.recast(n, d));
    let _ = (swizzle.upcast(n), swizzle.downcast(n));
    if let Ok(fast) = FastDivmod::new(d)
        && let (Ok(by), Ok(n)) = (u32::try_from(d), u32::try_from(n))
    {
        assert_eq!(fast.divmod(n), (n / by, n % by), "{n} by {by}");
    }
    None
}
