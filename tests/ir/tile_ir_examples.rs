//! Runs every example of control flow in the text of CUDA Tile IR (8.5), by its name there.
//!
//! Conditions and values show which operations ran.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::threads;

use tilewright::ir::{Body, Element, Target, Val, range};
use tilewright::runtime::Grid;

#[track_caller]
fn check<T: Element>(
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    threads::check_grid(Target::SM_80, Grid::new([1, 1, 1], [40, 1, 1]), body, expected);
}

/// Out of the body, out of an `if` in it, and out of the arm of an `if` with values.
#[test]
fn break_0() {
    check(
        |k, i| {
            let count = k.var(0);
            k.loop_((), |k, lp, ()| {
                count.set(count.get() + 1);
                lp.break_(k, ())
            });
            k.loop_((), |k, lp, ()| {
                count.set(count.get() + 10);
                k.if_(count.get().gt(i), |k| lp.break_(k, ()));
                lp.continue_(k, ())
            });
            count.get()
        },
        |i| 1 + 10 * (i / 10).max(1) + if i >= 10 && i % 10 >= 1 { 10 } else { 0 },
    );
    check(
        |k, i| {
            k.loop_(0.0, |k, lp, v| {
                k.if_else(v.lt(i.cvt::<f32>()), |_| (), |k| lp.break_(k, v + 0.5));
                lp.continue_(k, v + 1.0)
            })
        },
        |i| i as f32 + 0.5,
    );
}

/// From the body, from an `if` in it, and from the arm of an `if` with values.
#[test]
fn continue_0() {
    check(
        |k, i| {
            let count = k.var(0);
            k.for_loop(range(0, 10), (), |k, lp, _, ()| {
                count.set(count.get() + 1);
                lp.continue_(k, ())
            });
            k.for_loop(range(0, 10), (), |k, lp, j, ()| {
                k.if_((i + j).gt(12), |k| lp.continue_(k, ()));
                count.set(count.get() + 100);
                lp.continue_(k, ())
            });
            count.get()
        },
        |i| 10 + 100 * (0..10).filter(|j| i + j <= 12).count() as i32,
    );
    check(
        |k, i| {
            k.for_loop(range(0, 10), 0.0, |k, lp, j, v| {
                k.if_else((i & j).eq(0), |_| (), |k| lp.continue_(k, v + 0.25));
                lp.continue_(k, v + 1.0)
            })
        },
        |i| (0..10).map(|j| if i & j == 0 { 1.0 } else { 0.25 }).sum(),
    );
}

/// A range, and the same with a carried value.
#[test]
fn for_0() {
    check(
        |k, i| {
            let seen = k.var(0);
            k.for_(range(0, 10), (), |_, j, ()| seen.set(seen.get() * 3 + j));
            let last = k.for_(range(0, 10), 0.0, |_, j, v| v * 0.5 + (i + j).cvt::<f32>());
            last + seen.get().cvt::<f32>()
        },
        |i| {
            let seen = (0..10).fold(0i32, |seen, j| seen * 3 + j);
            (0..10).fold(0.0, |v, j| v * 0.5 + (i + j) as f32) + seen as f32
        },
    );
}

/// Without and with `else`, and with results of two types.
#[test]
fn if_0() {
    check(
        |k, i| {
            let condition = (i % 3).eq(0);
            let v = k.var(1);
            k.if_(condition, |_| v.set(2));
            k.if_else(condition, |_| v.set(v.get() * 5), |_| v.set(v.get() * 7));
            let (x, y) = k.if_else(condition, |k| k.yield_((1.0, 2)), |k| k.yield_((0.5, 42)));
            x * 1000.0 + (y * 10 + v.get()).cvt::<f32>()
        },
        |i| if i % 3 == 0 { 1030.0 } else { 927.0 },
    );
}

/// "while-do": the condition is asked first.
#[test]
fn loop_0() {
    check(
        |k, i| {
            let n = k.var(i);
            k.loop_((), |k, lp, ()| {
                k.if_(n.get().gt(9), |k| {
                    n.set(n.get() - 10);
                    lp.continue_(k, ())
                });
                lp.break_(k, ())
            });
            n.get()
        },
        |i| i % 10,
    );
}

/// "do-while": the body runs at least once.
#[test]
fn loop_1() {
    check(
        |k, i| {
            let n = k.var(i);
            k.loop_((), |k, lp, ()| {
                n.set(n.get() - 10);
                k.if_(n.get().ge(0), |k| lp.continue_(k, ()));
                lp.break_(k, ())
            });
            n.get()
        },
        |i| i % 10 - 10,
    );
}

/// Carried values are the results.
#[test]
fn loop_2() {
    check(
        |k, i| {
            k.loop_(0.0, |k, lp, v| {
                k.if_(v.lt(i.cvt::<f32>()), |k| lp.continue_(k, v + 1.5));
                lp.break_(k, v)
            })
        },
        |i| (i as f32 / 1.5).ceil() * 1.5,
    );
}

/// The result is of another type than what is carried.
#[test]
fn loop_3() {
    check(
        |k, i| {
            k.loop_(0, |k, lp, n| {
                k.if_((n * n).lt(i), |k| lp.continue_(k, n + 1));
                lp.break_(k, n.cvt::<f32>() * 0.25)
            })
        },
        |i| (0..).find(|n| n * n >= i).unwrap() as f32 * 0.25,
    );
}

/// An arm without values, and arms with two.
#[test]
fn yield_0() {
    check(
        |k, i| {
            let v = k.var(0.0);
            k.if_(i.lt(20), |_| v.set(100.0));
            let (x, y) = k.if_else(
                (i & 1).eq(0),
                |k| k.yield_((1.0, i.cvt::<f32>())),
                |k| k.yield_((i.cvt::<f32>(), 2.0)),
            );
            x * 8.0 + y + v.get()
        },
        |i| {
            let (x, y) = if i % 2 == 0 { (1.0, i as f32) } else { (i as f32, 2.0) };
            x * 8.0 + y + if i < 20 { 100.0 } else { 0.0 }
        },
    );
}
