//! Every control construct, run on every device there is, against the same function on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, threads};

use tilewright::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Group, Integer, Kernel, Number, Target, Val,
    range,
};
use tilewright::runtime::{Device, Grid};

/// Runs `body` with one block of `threads` threads and checks that thread `i` computes
/// `expected(i)`.
#[track_caller]
fn check_block<T: Element>(
    threads: [u32; 3],
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    threads::check_grid(Target::SM_80, Grid::new([1, 1, 1], threads), body, expected);
}

#[track_caller]
fn check<T: Element>(
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    check_block([40, 1, 1], body, expected);
}

#[test]
fn if_runs_where_the_condition_holds() {
    check(
        |k, i| {
            let v = k.var(0);
            k.if_(i.gt(7), |_| v.set(i));
            k.if_((i & 1).eq(0), |_| v.set(v.get() + 100));
            v.get()
        },
        |i| if i > 7 { i } else { 0 } + if i % 2 == 0 { 100 } else { 0 },
    );
}

#[test]
fn if_else_yields_mixed_types() {
    check(
        |k, i| {
            let (a, b, c) = k.if_else(
                i.lt(5),
                |k| k.yield_((i * 2, 1.5, true)),
                |k| k.yield_((7, i.cvt::<f32>(), i.lt(20))),
            );
            k.if_else(c, |k| k.yield_(a.cvt::<f32>() + b), |k| k.yield_(-b))
        },
        |i| {
            let (a, b, c) = if i < 5 { (i * 2, 1.5, true) } else { (7, i as f32, i < 20) };
            if c { a as f32 + b } else { -b }
        },
    );
}

#[test]
fn if_with_keeps_init_when_false() {
    check(
        |k, i| {
            let (a, b) = k.if_with(i.gt(30), (i, 2), |_| (i * i, i + 1));
            a * b
        },
        |i| if i > 30 { i * i * (i + 1) } else { i * 2 },
    );
}

#[test]
fn ifs_nest_and_an_arm_may_fall_through() {
    check(
        |k, i| {
            let v = k.var(1);
            k.if_else(
                (i & 1).eq(0),
                |k| k.if_else((i & 2).eq(0), |k| k.if_((i & 4).eq(0), |_| v.set(8)), |_| v.set(4)),
                |_| (),
            );
            v.get()
        },
        |i| match (i & 1, i & 2, i & 4) {
            (0, 0, 0) => 8,
            (0, 0, _) => 1,
            (0, _, _) => 4,
            _ => 1,
        },
    );
}

#[test]
fn for_carries_values_and_swaps_them() {
    check(
        |k, i| {
            let (a, b, _) =
                k.for_(range(0, i), (0, 1, true), |_, _, (a, b, flip)| (b, a + b, !flip));
            a * 1000 + b
        },
        |i| {
            let (mut a, mut b) = (0i32, 1i32);
            for _ in 0..i {
                (a, b) = (b, a.wrapping_add(b));
            }
            a.wrapping_mul(1000).wrapping_add(b)
        },
    );
}

#[test]
fn for_rotates_three_values() {
    check(
        |k, i| {
            let [a, b, c] = k.for_(range(0, i), [1, 2, 3], |_, _, [a, b, c]| [b, c, a]);
            a * 100 + b * 10 + c
        },
        |i| match i % 3 {
            0 => 123,
            1 => 231,
            _ => 312,
        },
    );
}

#[test]
fn for_takes_negative_bounds_and_dynamic_steps() {
    check(
        |k, i| {
            let down = k.for_(range(-10, i - 20).step(3), 0, |_, j, acc| acc * 3 + j);
            k.for_(range(i - 30, i).step(i + 1), down, |_, j, acc| acc * 5 + j)
        },
        |i| {
            let first = (-10..i - 20).step_by(3);
            let acc = first.fold(0i32, |acc, j| acc.wrapping_mul(3).wrapping_add(j));
            let second = (i - 30..i).step_by(i as usize + 1);
            second.fold(acc, |acc, j| acc.wrapping_mul(5).wrapping_add(j))
        },
    );
}

#[test]
fn an_empty_range_yields_the_initial_values() {
    check(
        |k, i| {
            let (a, b) = k.for_(range(i, i - 5), (i, 2.5), |_, j, (a, b)| (a + j, b * 2.0));
            let same = k.for_(range(i, i), b, |_, _, b| b + 1.0);
            same + a.cvt::<f32>()
        },
        |i| 2.5 + i as f32,
    );
}

/// The iterations of `range(lo, hi).step(step)` are counted, and the last index is kept.
#[track_caller]
fn check_trip_count<T: Integer>(lo: T, hi: T, step: T, expected: (i32, T)) {
    check_block(
        [1, 1, 1],
        |k, _| k.for_(range(lo, hi).step(step), 0, |_, _, count| count + 1),
        |_| expected.0,
    );
    check_block(
        [1, 1, 1],
        |k, _| k.for_(range(lo, hi).step(step), lo, |_, i, _| i),
        |_| expected.1,
    );
}

#[test]
fn trip_counts_do_not_wrap_in_any_integer_type() {
    check_trip_count(i32::MAX - 3, i32::MAX, 2, (2, i32::MAX - 1));
    check_trip_count(i32::MIN, i32::MAX, i32::MAX, (3, i32::MAX - 1));
    check_trip_count(0u8, 255, 200, (2, 200));
    check_trip_count(250u8, 255, 3, (2, 253));
    check_trip_count(-128i8, 127, 127, (3, 126));
    check_trip_count(-32768i16, 32767, 32767, (3, 32766));
    check_trip_count(65000u16, 65535, 500, (2, 65500));
    check_trip_count(u32::MAX - 1, u32::MAX, u32::MAX, (1, u32::MAX - 1));
    check_trip_count(0u32, u32::MAX, 1 << 31, (2, 1 << 31));
    check_trip_count(i64::MIN, i64::MAX, i64::MAX, (3, i64::MAX - 1));
    check_trip_count(u64::MAX - 9, u64::MAX, 4, (3, u64::MAX - 1));
    check_trip_count(5i64, -5, 1, (0, 5));
    check_trip_count(5u64, 4, 1, (0, 5));
}

#[test]
fn for_loop_breaks_and_continues() {
    check(
        |k, i| {
            k.for_loop(range(0, 100), 0, |k, lp, j, acc| {
                k.if_((j & 1).eq(1), |k| lp.continue_(k, acc));
                k.if_(j.gt(i), |k| lp.break_(k, acc + 1000));
                lp.continue_(k, acc + j)
            })
        },
        |i| {
            let mut acc = 0;
            for j in 0..100 {
                if j % 2 == 1 {
                    continue;
                }
                if j > i {
                    return acc + 1000;
                }
                acc += j;
            }
            acc
        },
    );
}

fn collatz(mut n: i32) -> i32 {
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[test]
fn loop_breaks_with_other_types_than_it_carries() {
    check(
        |k, i| {
            let (steps, ratio) = k.loop_((i + 1, 0), |k, lp, (n, steps)| {
                k.if_(n.eq(1), |k| lp.break_(k, (steps, steps.cvt::<f32>() * 0.5)));
                let next = k.if_else((n & 1).eq(0), |k| k.yield_(n / 2), |k| k.yield_(n * 3 + 1));
                lp.continue_(k, (next, steps + 1))
            });
            ratio + steps.cvt::<f32>()
        },
        |i| collatz(i + 1) as f32 * 1.5,
    );
}

#[test]
fn loop_in_the_form_do_while() {
    check(
        |k, i| {
            k.loop_(i, |k, lp, n| {
                let next = n / 2;
                k.if_else(next.gt(3), |k| lp.continue_(k, next), |k| lp.break_(k, next))
            })
        },
        |i| {
            let mut n = i;
            loop {
                n /= 2;
                if n <= 3 {
                    return n;
                }
            }
        },
    );
}

#[test]
fn an_outer_loop_can_be_left_and_continued_from_inside() {
    check(
        |k, i| {
            k.for_loop(range(0, 10), 0, |k, outer, a, acc| {
                let acc = k.loop_((0, acc), |k, inner, (b, acc)| {
                    k.if_((a * b).gt(i), |k| outer.continue_(k, acc + 1));
                    k.if_((a + b).eq(15), |k| outer.break_(k, acc + 10_000));
                    k.if_(b.ge(9), |k| inner.break_(k, acc));
                    inner.continue_(k, (b + 1, acc + b))
                });
                outer.continue_(k, acc + 100)
            })
        },
        |i| {
            let mut acc = 0;
            'outer: for a in 0..10 {
                let mut b = 0;
                loop {
                    if a * b > i {
                        acc += 1;
                        continue 'outer;
                    }
                    if a + b == 15 {
                        return acc + 10_000;
                    }
                    if b >= 9 {
                        break;
                    }
                    acc += b;
                    b += 1;
                }
                acc += 100;
            }
            acc
        },
    );
}

#[test]
fn return_ends_the_thread_anywhere() {
    let build = |target| {
        Kernel::<(GlobalMut<i32>,)>::build("ret", target, |k, (out,)| {
            let i = k.thread_idx().x;
            k.if_(i.eq(3), |k| k.return_());
            k.for_(range(0, 10), (), |k, j, ()| {
                out.store(i, j + 1);
                k.if_((i + j).gt(20), |k| k.return_());
            });
            k.barrier();
            out.store(i, -1);
        })
        .expect("the kernel is valid")
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let kernel = build(device.target());
        let function = device.load(&kernel).expect("the kernel loads");
        let mut out = device.upload(&[0; 70]).expect("the buffer fits");
        let grid = Grid::new([1, 1, 1], [70, 1, 1]);
        function.launch(grid, (&mut out,)).expect("the kernel runs");
        let expected: Vec<i32> = (0..70)
            .map(|i| match i {
                3 => 0,
                _ if i + 9 > 20 => (21 - i).max(0) + 1,
                _ => -1,
            })
            .collect();
        assert_eq!(out.to_vec().expect("the buffer can be read"), expected, "{}", device.name());
    }
}

#[test]
fn variables_live_across_bodies() {
    check(
        |k, i| {
            let acc = k.registers::<i32>(4);
            acc.fill(1);
            k.for_(range(0, i), (), |k, j, ()| {
                for r in 0..4 {
                    let v = acc.get(r);
                    acc.set(r, v * 3 + j + r as i32);
                }
                let first = acc.get(0);
                k.if_(first.lt(0), |_| acc.set(0, first + i32::MAX));
            });
            acc.get(0) ^ acc.get(1) ^ acc.get(2) ^ acc.get(3)
        },
        |i| {
            let mut acc = [1i32; 4];
            for j in 0..i {
                for (r, v) in acc.iter_mut().enumerate() {
                    *v = v.wrapping_mul(3).wrapping_add(j + r as i32);
                }
                if acc[0] < 0 {
                    acc[0] = acc[0].wrapping_add(i32::MAX);
                }
            }
            acc[0] ^ acc[1] ^ acc[2] ^ acc[3]
        },
    );
}

fn power<'b>(k: &mut Body<'b, '_>, x: Val<'b, i32>, exponent: u32) -> Val<'b, i32> {
    match exponent {
        0 => k.constant(1),
        _ if exponent.is_multiple_of(2) => {
            let root = power(k, x, exponent / 2);
            root * root
        }
        _ => x * power(k, x, exponent - 1),
    }
}

#[test]
fn rust_functions_and_recursion_unroll() {
    check(|k, i| power(k, i, 11), |i| i.wrapping_pow(11));
}

#[test]
fn host_control_flow_leaves_only_what_it_makes() {
    let mut runs = Vec::new();
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("host", Target::SM_80, {
        |k, (out,)| {
            for i in 0..3 {
                if i != 1 {
                    out.store(i, i * 10);
                }
            }
            k.for_(range(0, 10), (), |_, i, ()| {
                runs.push("body");
                out.store(i, 1);
            });
        }
    })
    .expect("the kernel is valid");
    assert_eq!(runs, ["body"]);
    let text = kernel.to_string();
    assert_eq!(text.matches("st %p0").count(), 3, "{text}");
    assert_eq!(text.matches("if ").count(), 0, "{text}");
}

#[test]
fn a_barrier_makes_shared_stores_visible() {
    check_block(
        [8, 3, 4],
        |k, i| {
            let s = k.shared::<i32>(96);
            s.store(i, i * i);
            k.barrier();
            let other = s.load(95 - i);
            k.barrier();
            s.store((i + 1) % 96, other);
            k.barrier();
            s.load(i)
        },
        |i| {
            let from = (i + 95) % 96;
            (95 - from) * (95 - from)
        },
    );
}

#[test]
fn bools_are_carried_stored_and_combined() {
    check(
        |k, i| {
            let flag = k.var(false);
            let (any, all) = k.for_(range(0, 6), (false, true), |k, j, (any, all)| {
                let bit = ((i >> j.cvt::<u32>()) & 1).eq(1);
                k.if_(bit & j.eq(5), |_| flag.set(true));
                (any | bit, all & bit)
            });
            any ^ all ^ flag.get()
        },
        |i| {
            let bits = (0..6).map(|j| i >> j & 1 == 1);
            bits.clone().any(|b| b) ^ bits.clone().all(|b| b) ^ (i >> 5 & 1 == 1)
        },
    );
}

#[test]
fn select_takes_no_branch() {
    check(|_, i| i.lt(9).select(i * 2, 5), |i| if i < 9 { i * 2 } else { 5 });
}

#[test]
fn while_runs_its_body_while_the_condition_holds() {
    check(
        |k, i| {
            let (a, b) = k.while_((i + 48, 36), |_, (_, b)| b.ne(0), |_, (a, b)| (b, a % b));
            a + b
        },
        |i| {
            let (mut a, mut b) = (i + 48, 36);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a + b
        },
    );
}

#[test]
fn do_while_runs_its_body_at_least_once() {
    check(
        |k, i| k.do_while(i, |_, n| (n - 7, (n - 7).gt(0))),
        |i| {
            let mut n = i;
            loop {
                n -= 7;
                if n <= 0 {
                    return n;
                }
            }
        },
    );
}

#[test]
fn cases_take_the_first_condition_that_holds() {
    check(
        |k, i| {
            let (small, even, large) = (i.lt(4), (i & 1).eq(0), i.gt(20));
            k.for_loop(range(0, 1), 0, |k, lp, _, _| {
                let v = k
                    .cases()
                    .when(small, |k| k.yield_(1))
                    .when(even, |k| {
                        let nested = k.if_else(large, |k| k.yield_(2), |k| k.yield_(3));
                        k.yield_(nested + i)
                    })
                    .when(large, |k| lp.break_(k, 777))
                    .otherwise(|k| k.yield_(5));
                lp.continue_(k, v)
            })
        },
        |i| match i {
            _ if i < 4 => 1,
            _ if i % 2 == 0 => i + if i > 20 { 2 } else { 3 },
            _ if i > 20 => 777,
            _ => 5,
        },
    );
}

#[test]
fn cases_without_values() {
    check(
        |k, i| {
            let v = k.var(0);
            let (a, b) = (i.lt(4), i.lt(30));
            k.cases().when(a, |_| v.set(1)).when(b, |_| v.set(i)).otherwise(|_| ());
            v.get()
        },
        |i| match i {
            0..4 => 1,
            4..30 => i,
            _ => 0,
        },
    );
}

tilewright::values! {
    struct Point<'b> {
        x: Val<'b, i32>,
        y: Val<'b, i32>,
    }

    struct State<'b> {
        at: Point<'b>,
        seen: (Val<'b, bool>, [Val<'b, i32>; 2]),
    }
}

#[test]
fn structs_are_carried_and_returned() {
    check(
        |k, i| {
            let zero = k.constant(0);
            let start = Point { x: zero, y: i };
            let first = State { at: start, seen: (k.constant(false), [zero, i]) };
            let last = k.for_(range(0, i), first, |k, j, state| {
                let State { at: Point { x, y }, seen: (seen, [a, b]) } = state;
                let at = k.if_with(seen, state.at, |_| Point { x: x + j, y: y - j });
                State { at, seen: (!seen, [b, a + 1]) }
            });
            // A struct of an outer body may be returned from an inner one.
            let chosen = k.if_else(i.gt(10), |k| k.yield_(last.at), |k| k.yield_(start));
            chosen.x * 100 + chosen.y + last.seen.1[0]
        },
        |i| {
            let (mut x, mut y, mut seen, mut a, mut b) = (0, i, false, 0, i);
            for j in 0..i {
                if seen {
                    (x, y) = (x + j, y - j);
                }
                seen = !seen;
                (a, b) = (b, a + 1);
            }
            if i > 10 { x * 100 + y + a } else { i + a }
        },
    );
}

tilewright::values! {
    struct Window<'b>: Clone {
        first: Val<'b, i32>,
        rest: Vec<Val<'b, i32>>,
    }
}

fn sums_of<'b>(a: Vec<Val<'b, i32>>, b: Vec<Val<'b, i32>>) -> Vec<Val<'b, i32>> {
    a.into_iter().zip(b).map(|(a, b)| a + b).collect()
}

/// A `Vec` of any length is carried by every kind of loop, returned by every kind of branch, and
/// combined by reductions and scans, like that many values of their own. It may be in a tuple, an
/// array, a struct or another `Vec`, and have elements of any kind.
#[test]
fn vectors_of_any_length_are_carried_and_returned() {
    for len in [0, 1, 3, 20] {
        let indices = || 0..len;
        check(
            |k, i| {
                let zeros = vec![0; len as usize];
                // Element j of `sums` is the sum of i + j over the iterations. `count` comes after
                // it.
                let start = (zeros.clone(), 0);
                let (sums, count) =
                    k.for_(range(0, i), start, |_, _, (sums, count): (Vec<_>, _)| {
                        let next =
                            indices().zip(&sums).map(|(j, sum): (i32, &Val<'_, i32>)| *sum + i + j);
                        (next.collect(), count + 1)
                    });
                let start = (sums, vec![[count]; len as usize]);
                let (sums, counts) = k.loop_(start, |k, l, (sums, counts)| {
                    let more: Vec<_> = counts.iter().map(|[count]| [*count + 1]).collect();
                    let last = counts.first().map_or(k.constant(true), |[count]| count.gt(9));
                    k.if_(last, |k| l.break_(k, (sums.clone(), counts)));
                    l.continue_(k, (sums, more))
                });
                let halves = k.if_else(
                    i.lt(20),
                    |k| k.yield_((sums.clone(), vec![vec![k.constant(1)]])),
                    |k| {
                        k.yield_((
                            sums.iter().map(|sum| *sum / 2).collect::<Vec<_>>(),
                            vec![vec![k.constant(2)]],
                        ))
                    },
                );
                let of_cases = k
                    .cases()
                    .when(i.lt(5), |k| k.yield_(vec![5; len as usize]))
                    .when(i.lt(10), |k| k.yield_(vec![10; len as usize]))
                    .otherwise(|k| k.yield_(zeros.clone()));
                let window = Window { first: i, rest: of_cases };
                let window = k.if_with(i.gt(7), window.clone(), |_| Window { first: -i, ..window });
                let all =
                    k.reduce(Group::Lanes(4), vec![k.constant(1); len as usize], |_, a, b| {
                        sums_of(a, b)
                    });
                let before =
                    k.scan_exclusive(Group::Lanes(4), zeros, all.clone(), |_, a, b| sums_of(a, b));
                let lists = [
                    halves.0,
                    counts.iter().map(|[count]| *count).collect(),
                    window.rest,
                    all,
                    before,
                ];
                let mut hash = halves.1[0][0] + window.first;
                for list in lists {
                    assert_eq!(list.len(), len as usize);
                    hash = list.into_iter().fold(hash, |hash, value| hash * 7 + value);
                }
                hash
            },
            |i| {
                let sums = indices().map(|j| i * (i + j));
                let sums: Vec<i32> =
                    if i < 20 { sums.collect() } else { sums.map(|sum| sum / 2).collect() };
                let of_cases = if i < 5 {
                    5
                } else if i < 10 {
                    10
                } else {
                    0
                };
                let first = if i < 20 { 1 } else { 2 } + if i > 7 { -i } else { i };
                let others = [i.max(10), of_cases, 4, 4 * (i % 4)];
                let all = sums
                    .into_iter()
                    .chain(others.into_iter().flat_map(|value| indices().map(move |_| value)));
                all.fold(first, |hash: i32, value| hash.wrapping_mul(7).wrapping_add(value))
            },
        );
    }
}

/// A carried `Vec` is the same kernel as an array of its length.
#[test]
fn a_vector_is_carried_like_an_array() {
    let kernel = |carry: &dyn for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, i32>| {
        Kernel::<(GlobalMut<i32>, i32)>::build("sums", Target::SM_80, |k, (x, n)| {
            let sum = carry(k, n);
            x.store(0, sum);
        })
        .expect("builds")
    };
    let of_array = kernel(&|k, n| {
        let [a, b] = k.for_(range(0, n), [0, 1], |_, i, [a, b]| [b, a + i]);
        a + b
    });
    let of_vector = kernel(&|k, n| {
        let sums = k.for_(range(0, n), vec![0, 1], |_, i, sums| vec![sums[1], sums[0] + i]);
        sums[0] + sums[1]
    });
    assert_eq!(of_vector.to_string(), of_array.to_string());
}

#[test]
fn select_n_indexes_a_list_of_values() {
    check(
        |k, i| {
            let list = [i * 2, i + 100, -i];
            k.select_n(i - 1, &list)
        },
        |i| match i - 1 {
            0 => i * 2,
            1 => i + 100,
            _ => -i,
        },
    );
}

#[test]
fn conditions_short_circuit() {
    check(
        |k, i| {
            let s = k.shared::<i32>(40);
            s.store(i, i * 3);
            k.barrier();
            // Without the guards the loads would leave the allocation.
            let both = k.and_then(i.lt(39), |_| s.load(i + 1).gt(30));
            let either = k.or_else(i.lt(5), |_| s.load(i - 5).gt(60));
            both ^ either
        },
        |i| (i < 39 && (i + 1) * 3 > 30) ^ (i < 5 || (i - 5) * 3 > 60),
    );
}

/// A loop gives the same with every number of iterations fetched ahead, and with its body unrolled.
#[test]
fn prefetching_does_not_change_the_result() {
    for (stages, unroll) in [(0, 0), (1, 0), (2, 0), (3, 0), (7, 0), (1, 2), (2, 3)] {
        let build = |target| {
            Kernel::<(Global<i32>, GlobalMut<i32>)>::build("check", target, |k, (x, out)| {
                let i = k.thread_idx().x;
                let seen = k.var(0);
                let indices = range(0, i).prefetch_stages(stages).unroll(unroll);
                let sum = k.for_(indices, 1, |k, j, sum| {
                    let v = x.load(j);
                    let w = k.if_with((j & 1).eq(0), 5, |_| x.load(v & 15));
                    seen.set(seen.get() ^ w);
                    let none = Val::splat(k.constant(9));
                    let pair = k.if_with((j & 2).eq(0), none, |_| x.load_vector::<2>((v & 15) * 2));
                    let [a, b] = pair.lanes();
                    sum * 3 + v + w + a - b
                });
                out.store(i, sum + seen.get());
            })
            .expect("the kernel is valid")
        };
        threads::assemble(Target::SM_80, build);
        let x: Vec<i32> = (0..40).map(|i| i * 7 % 23).collect();
        let expected = |i: i32| {
            let (mut sum, mut seen) = (1i32, 0);
            for j in 0..i {
                let v = x[j as usize];
                let w = if j & 1 == 0 { x[(v & 15) as usize] } else { 5 };
                seen ^= w;
                let at = (v & 15) as usize * 2;
                let pair = if j & 2 == 0 { [x[at], x[at + 1]] } else { [9; 2] };
                sum = sum.wrapping_mul(3).wrapping_add(v + w + pair[0] - pair[1]);
            }
            sum.wrapping_add(seen)
        };
        for device in device::devices() {
            let function = device.load(&build(device.target())).expect("the kernel loads");
            let given = device.upload(&x).expect("the buffer fits");
            let mut out = device.zeros::<i32>(40).expect("the buffer fits");
            let grid = Grid::new([1, 1, 1], [40, 1, 1]);
            function.launch(grid, (&given, &mut out)).expect("the kernel runs");
            let found = out.to_vec().expect("the buffer can be read");
            assert_eq!(found, (0..40).map(expected).collect::<Vec<_>>(), "{stages} stages");
        }
    }
}

/// The prologue has the copies of the first `n` iterations: all of them, and no more.
#[test]
fn the_prologue_has_the_copies_of_n_iterations() {
    for stages in 1..5 {
        type Signature = (Global<i32>, GlobalMut<i32>);
        let kernel = Kernel::<Signature>::build("check", Target::SM_80, |k, (x, out)| {
            let sum = k.for_(range(0, 10).prefetch_stages(stages), 0, |_, i, sum| {
                sum + x.load(i) * x.load(i + 1)
            });
            out.store(0, sum);
        })
        .expect("the kernel is valid");
        let text = kernel.ir().to_string();
        let parts: Vec<&str> = text.split(" = for ").collect();
        let loads = |part: &str| part.matches(" = ld ").count();
        // Prologue; main loop; the drain, a loop where it has more than one iteration.
        assert_eq!(loads(parts[0]), 2 * stages as usize, "{text}");
        assert_eq!(loads(parts[1]), 2, "{text}");
        assert_eq!(parts.len(), if stages == 1 { 2 } else { 3 }, "{text}");
        assert!(parts.get(2).is_none_or(|drain| loads(drain) == 0), "{text}");
    }
}

/// A loop gives the same with every unrolling.
#[test]
fn unrolling_does_not_change_the_result() {
    for n in [0, 1, 2, 3, 7, 50] {
        check(
            |k, i| {
                let part = k.for_(range(3, i).unroll(n), 1, |k, j, acc| {
                    let v = k.var(acc);
                    k.if_((j & 3).eq(0), |_| v.set(acc + 5));
                    v.get() * 3 + j
                });
                k.for_loop(range(-4, i).step(3).unroll(n), part, |k, lp, j, acc| {
                    k.if_(j.eq(5), |k| lp.continue_(k, acc ^ 1));
                    k.if_(j.gt(25), |k| lp.break_(k, acc - j));
                    lp.continue_(k, acc + j * 7)
                })
            },
            |i| {
                let mut acc = 1i32;
                for j in 3..i {
                    acc = if j & 3 == 0 { acc.wrapping_add(5) } else { acc };
                    acc = acc.wrapping_mul(3).wrapping_add(j);
                }
                for j in (-4..i).step_by(3) {
                    match j {
                        5 => acc ^= 1,
                        26.. => return acc.wrapping_sub(j),
                        _ => acc = acc.wrapping_add(j * 7),
                    }
                }
                acc
            },
        );
    }
}

/// `y[first + i] += x[i]` and the sum of all, for `i` below `n`.
fn added<T: Number>(lanes: u32, first: u32) -> Result<Kernel<Added<T>>, BuildErrors> {
    Kernel::<Added<T>>::build("added", Target::SM_80, |k, (x, y, sum, n)| {
        let y = y.offset(first);
        let all = k.for_(range(0, n).vectorize(lanes), k.constant(T::default()), |_, i, all| {
            let v = x.load(i) + y.load(i);
            y.store(i, v);
            all + v
        });
        sum.store(0, all);
    })
}

type Added<T> = (Global<T>, GlobalMut<T>, GlobalMut<T>, i32);

#[test]
fn vectorizing_does_not_change_the_result() {
    fn check<T: Number>(lanes: u32, first: u32, number: fn(i32) -> T) {
        let device = Device::sim().unwrap();
        let run = |lanes: u32, n: i32| {
            let kernel = added::<T>(lanes, first).unwrap();
            let wide = kernel.to_string().matches("= ld_vec").count();
            assert_eq!(wide, if lanes > 1 { 2 } else { 0 }, "{lanes} lanes");
            let x: Vec<T> = (0..n).map(number).collect();
            let y: Vec<T> = (0..n + first as i32).map(|i| number(3 * i)).collect();
            let (x, mut y) = (device.upload(&x).unwrap(), device.upload(&y).unwrap());
            let mut sum = device.zeros(1).unwrap();
            let f = device.load(&kernel).unwrap();
            f.launch(Grid::cover(1, 1), (&x, &mut y, &mut sum, n)).unwrap();
            (y.to_vec().unwrap(), sum.to_vec().unwrap())
        };
        for n in [1, 2, 3, 4, 7, 8, 9, 16, 35] {
            assert_eq!(run(lanes, n), run(1, n), "{n} elements, {lanes} lanes");
        }
    }
    check::<i32>(2, 2, |i| i - 9);
    check::<i32>(4, 4, |i| i * i);
    check::<f32>(4, 0, |i| i as f32 * 0.3);
    check::<i64>(2, 2, |i| i64::from(i) << 33);
    check::<i16>(8, 8, |i| i as i16);
    check::<i8>(16, 16, |i| i as i8);
}

#[test]
fn a_loop_that_cannot_be_vectorized_says_why() {
    let says = |found: Result<Kernel<Added<f32>>, BuildErrors>, part: &str| {
        let found = found.unwrap_err().to_string();
        assert!(found.contains(part), "{found}");
    };
    says(added(4, 2), "is not known to start at a multiple of 16 bytes");
    says(added(8, 0), "no load or store of this loop can become a vector of 8 elements");
    let shifted = Kernel::<Added<f32>>::build("shifted", Target::SM_80, |k, (_, y, _, n)| {
        let next = y.offset(4);
        k.for_(range(0, n).vectorize(4), (), |_, i, ()| y.store(i, next.load(i)));
    });
    says(shifted, "may access what the store at");
}

fn nested_loops<'b>(k: &mut Body<'b, '_>, full: bool) -> Val<'b, i64> {
    let unroll = |range: tilewright::ir::Range<'static, i64>| {
        if full { range.unroll_full() } else { range }
    };
    k.for_loop(unroll(range(0, 9).step(2)), 0, |k, lp, i, acc| {
        let inside = k.for_(unroll(range(-1, 3)), i, |_, j, x| x * 2 + j);
        k.if_((i + acc).gt(90), |k| lp.break_(k, -acc));
        lp.continue_(k, acc + inside)
    })
}

#[test]
fn full_unrolling_leaves_no_loop() {
    let expected = {
        let mut acc = 0;
        for i in (0..9).step_by(2) {
            if i + acc > 90 {
                acc = -acc;
                break;
            }
            acc += (-1..3).fold(i, |x, j| x * 2 + j);
        }
        acc
    };
    for full in [false, true] {
        check_block([1, 1, 1], |k, _| nested_loops(k, full), |_| expected);
        let kernel = Kernel::<()>::build("full", Target::SM_80, |k, ()| {
            nested_loops(k, full);
        });
        let text = kernel.expect("the kernel is valid").to_string();
        assert_eq!(text.contains("for @"), !full, "{text}");
    }
}

/// Host scalars as initial values, yields, both sides of operators, compares, bounds, stores and
/// arguments.
#[test]
fn literals_stand_for_values() {
    check(
        |k, i| {
            let tile = k.shared::<i32>(64);
            tile.store(i, 7);
            k.barrier();
            let (a, b) = k.for_(range(0, 5), (1, 0.5), |k, j, (a, b)| {
                let step = k.if_else(j.lt(3), |k| k.yield_(2), |k| k.yield_(i));
                (10 - (a + step), 1.0 / (b * 2.0))
            });
            let v = k.var(3);
            v.set(4);
            let chosen = i.gt(20).select(100, a);
            chosen + v.get().min(9) + tile.load(i) + b.cvt::<i32>()
        },
        |i| {
            let (mut a, mut b) = (1, 0.5f32);
            for j in 0..5 {
                (a, b) = (10 - (a + if j < 3 { 2 } else { i }), 1.0 / (b * 2.0));
            }
            (if i > 20 { 100 } else { a }) + 4 + 7 + b as i32
        },
    );
}
