//! Every control construct, under divergence: each thread must compute what the same Rust code
//! computes on the host.

use crate::support::text;

use tilewright::ir::builder::Terminated;
use tilewright::ir::{
    Body, Element, Global, GlobalMut, Integer, Kernel, Shared, Target, Val, range,
};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, LaunchReport, Options, Order, run};

type Threads = (GlobalMut<i32>,);

/// Runs a kernel that computes one `i32` for each thread of two blocks of 70, in every order of
/// warps, and compares each with `host` of the thread's number.
#[track_caller]
fn check<R: tilewright::ir::builder::BodyResult>(
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>, Val<'b, GlobalMut<i32>>) -> R,
    host: impl Fn(i32) -> i32,
) {
    let kernel = Kernel::<Threads>::build("control", Target::SM_80, |k, (out,)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        body(k, i, out)
    })
    .expect("the kernel is correct");
    text::check_round_trip(kernel.ir());
    let expected: Vec<i32> = (0..140).map(host).collect();
    let orders =
        [Order::RoundRobin, Order::Random { seed: 1 }, Order::Random { seed: 0xdead_beef }];
    let mut reports = Vec::new();
    for order in orders {
        let out = GlobalBuffer::from_slice(&[i32::MIN; 140]);
        let options = Options::default().order(order);
        let grid = Grid::new([2, 1, 1], [70, 1, 1]);
        let report = run(kernel.ir(), grid, &[KernelArg::Buffer(&out)], &options);
        reports.push(report.expect("the kernel ends without a fault"));
        assert_eq!(out.to_vec::<i32>(), expected, "{order:?} {kernel}");
    }
    // The work does not depend on the order.
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:?}");
}

#[test]
fn if_without_else() {
    check(
        |k, i, out| {
            out.store(i, i);
            k.if_((i % 3).eq(0), |k| {
                k.if_((i % 2).eq(0), |_| out.store(i, i * 10));
            });
        },
        |i| if i % 6 == 0 { i * 10 } else { i },
    );
}

#[test]
fn if_with_results() {
    check(
        |k, i, out| {
            let (a, b) = k.if_else(
                i.lt(40),
                |k| {
                    let inner = k.if_else((i % 2).eq(0), |k| k.yield_(i), |k| k.yield_(-i));
                    k.yield_((inner, 1))
                },
                |k| k.yield_((i * 2, 2)),
            );
            let c = k.if_with(i.gt(60), a, |_| a * 100);
            out.store(i, c + b);
        },
        |i| {
            let a = match i {
                0..40 if i % 2 == 0 => i,
                0..40 => -i,
                _ => i * 2,
            };
            if i < 40 { a + 1 } else { (if i > 60 { a * 100 } else { a }) + 2 }
        },
    );
}

#[test]
fn an_arm_may_jump_away() {
    check(
        |k, i, out| {
            let v = k.if_else(
                (i % 5).eq(0),
                |k| {
                    out.store(i, -1);
                    k.return_()
                },
                |k| k.yield_(i + 1),
            );
            out.store(i, v);
        },
        |i| if i % 5 == 0 { -1 } else { i + 1 },
    );
}

#[test]
fn for_carries_values_in_parallel() {
    check(
        |k, i, out| {
            // Fibonacci numbers: both next values need both old ones.
            let (a, _) = k.for_(range(0, i % 20), (0, 1), |_, _, (a, b)| (b, a + b));
            let [x, y, z] = k.for_(range(0, i), [1, 2, 3], |_, _, [x, y, z]| [y, z, x]);
            out.store(i, a * 1000 + x * 100 + y * 10 + z);
        },
        |i| {
            let (mut a, mut b) = (0, 1);
            for _ in 0..i % 20 {
                (a, b) = (b, a + b);
            }
            let mut xyz = [1, 2, 3];
            xyz.rotate_left(i as usize % 3);
            let [x, y, z] = xyz;
            a * 1000 + x * 100 + y * 10 + z
        },
    );
}

#[test]
fn for_of_a_divergent_range() {
    check(
        |k, i, out| {
            let sum = k.for_(range(i, i * 2 - 20).step(i % 7 + 1), 0, |_, j, sum| sum * 3 + j);
            out.store(i, sum);
        },
        |i| {
            let range = i..i * 2 - 20;
            range
                .step_by(i as usize % 7 + 1)
                .fold(0i32, |sum, j| sum.wrapping_mul(3).wrapping_add(j))
        },
    );
}

/// The number of iterations, and the last index, of a loop over `T`.
fn trips<T: Integer + tilewright::ir::builder::MemIndex>(cases: &[(T, T, T)]) -> Vec<(T, T)> {
    type Params<T> = (Global<T>, GlobalMut<T>);
    let kernel = Kernel::<Params<T>>::build("trips", Target::SM_80, |k, (x, out)| {
        let t = k.thread_idx().x;
        let (lo, hi, step) = (x.load(t * 3), x.load(t * 3 + 1), x.load(t * 3 + 2));
        let (count, last) =
            k.for_(range(lo, hi).step(step), (T::from_bits(0), lo), |_, i, (count, _)| {
                (count + T::ONE, i)
            });
        out.store(t * 2, count);
        out.store(t * 2 + 1, last);
    })
    .expect("the kernel is correct");
    let x: Vec<T> = cases.iter().flat_map(|(lo, hi, step)| [*lo, *hi, *step]).collect();
    let (x, out) =
        (GlobalBuffer::from_slice(&x), GlobalBuffer::from_slice(&vec![T::ONE; cases.len() * 2]));
    let grid = Grid::new([1, 1, 1], [cases.len() as u32, 1, 1]);
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&out)];
    run(kernel.ir(), grid, &args, &Options::default()).expect("the kernel ends without a fault");
    out.to_vec::<T>().chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn the_last_index_does_not_wrap() {
    let (max, min) = (i32::MAX, i32::MIN);
    let cases = [
        (0, 10, 3),
        (0, 0, 1),
        (5, -5, 1),
        (max - 5, max, 2),
        (max - 1, max, max),
        (min, max, max),
        (min, min + 1, 1),
        (-7, 8, 5),
    ];
    let host = cases.map(|(lo, hi, step)| {
        let all = (i64::from(lo)..i64::from(hi)).step_by(step as usize);
        (all.clone().count() as i32, all.last().map_or(lo, |last| last as i32))
    });
    assert_eq!(trips(&cases), host);
    // Unsigned ranges compare without a sign.
    let max = u64::MAX;
    assert_eq!(
        trips(&[(1 << 63, (1 << 63) + 4, 2), (max - 3, max, 2), (3, 1, 1), (0, max, max)]),
        [(2, (1 << 63) + 2), (2, max - 1), (0, 3), (1, 0)]
    );
    assert_eq!(trips(&[(i64::MIN, i64::MAX, i64::MAX)]), [(3, i64::MAX - 1)]);
    assert_eq!(trips(&[(u32::MAX - 3, u32::MAX, 2)]), [(2, u32::MAX - 1)]);
}

#[test]
fn loop_breaks_with_other_types() {
    check(
        |k, i, out| {
            // Collatz steps; breaks from inside an `if` with values.
            let (steps, odd) = k.loop_((i + 1, 0), |k, lp, (x, n)| {
                k.if_(x.le(1), |k| lp.break_(k, (n, n.gt(10))));
                let half = k.if_else((x % 2).eq(0), |k| k.yield_(x / 2), |k| k.yield_(x * 3 + 1));
                lp.continue_(k, (half, n + 1))
            });
            out.store(i, odd.select(steps, -steps));
        },
        |i| {
            let (mut x, mut n) = (i + 1, 0);
            while x > 1 {
                x = if x % 2 == 0 { x / 2 } else { x * 3 + 1 };
                n += 1;
            }
            if n > 10 { n } else { -n }
        },
    );
}

#[test]
fn break_and_continue_in_for() {
    check(
        |k, i, out| {
            let found = k.for_loop(range(0, 50), -1, |k, lp, j, found| {
                k.if_((j % 3).eq(0), |k| lp.continue_(k, found));
                k.if_((j * j).gt(i), |k| lp.break_(k, j));
                lp.continue_(k, found - 1)
            });
            out.store(i, found);
        },
        |i| {
            let mut found = -1;
            for j in 0..50 {
                if j % 3 == 0 {
                    continue;
                }
                if j * j > i {
                    return j;
                }
                found -= 1;
            }
            found
        },
    );
}

#[test]
fn jumps_to_outer_loops() {
    check(
        |k, i, out| {
            let result = k.for_loop(range(0, 10), 0, |k, outer, a, sum| {
                let inner = k.loop_((0, sum), |k, inner, (b, sum)| -> Terminated {
                    k.if_((a + b).gt(i % 13), |k| outer.continue_(k, sum + 1));
                    k.if_((a * b).eq(i % 29), |k| outer.break_(k, sum * 1000));
                    k.for_loop(range(0, 3), (), |k, middle, c, ()| {
                        k.if_((b + c).gt(6), |k| inner.break_(k, sum + 7));
                        middle.continue_(k, ())
                    });
                    inner.continue_(k, (b + 1, sum + b))
                });
                outer.continue_(k, inner)
            });
            out.store(i, result);
        },
        |i| {
            let mut sum = 0;
            'outer: for a in 0..10 {
                let mut b = 0;
                'inner: loop {
                    if a + b > i % 13 {
                        sum += 1;
                        continue 'outer;
                    }
                    if a * b == i % 29 {
                        return sum * 1000;
                    }
                    for c in 0..3 {
                        if b + c > 6 {
                            sum += 7;
                            break 'inner;
                        }
                    }
                    sum += b;
                    b += 1;
                }
            }
            sum
        },
    );
}

#[test]
fn return_from_inside_loops() {
    check(
        |k, i, out| {
            out.store(i, -1);
            k.for_(range(0, 100), (), |k, j, ()| {
                k.if_((j * 7 % 31).eq(i % 40), |k| {
                    out.store(i, j);
                    k.return_()
                });
            });
            k.return_()
        },
        |i| (0..100).find(|j| j * 7 % 31 == i % 40).unwrap_or(-1),
    );
}

#[test]
fn register_variables_keep_their_lanes_apart() {
    check(
        |k, i, out| {
            let (best, regs) = (k.var(0), k.registers::<i32>(3));
            regs.fill(i);
            k.for_(range(0, i % 11), (), |k, j, ()| {
                let local = k.var(j);
                k.if_((j % 2).eq(1), |_| {
                    let old = best.get();
                    best.set(old + j);
                    local.set(-j);
                });
                let (a, b, c) = (regs.get(0), regs.get(1), local.get());
                regs.set(0, b);
                regs.set(1, a + c);
            });
            out.store(i, best.get() + regs.get(0) * 2 + regs.get(1) * 3 + regs.get(2));
        },
        |i| {
            let (mut best, mut regs) = (0, [i; 3]);
            for j in 0..i % 11 {
                let mut local = j;
                if j % 2 == 1 {
                    best += j;
                    local = -j;
                }
                regs = [regs[1], regs[0] + local, regs[2]];
            }
            best + regs[0] * 2 + regs[1] * 3 + regs[2]
        },
    );
}

#[test]
fn a_value_read_from_a_variable_stays_when_the_variable_changes() {
    check(
        |k, i, out| {
            let var = k.var(i);
            let before = var.get();
            var.set(before + 1);
            let after = var.get();
            var.set(0);
            out.store(i, before * 1000 + after);
        },
        |i| i * 1000 + i + 1,
    );
}

#[test]
fn barriers_order_the_warps() {
    check(
        |k, i, out| {
            let t = k.thread_idx().x;
            let s: Val<'_, Shared<i32>> = k.shared(70);
            s.store(t, i);
            let sum = k.for_(range(0, 5), 0, |k, step, sum| {
                k.barrier();
                let next = s.load((t + step * 13 + 32) % 70);
                k.barrier();
                s.store(t, next + 1);
                sum + next
            });
            out.store(i, sum);
        },
        |i| {
            let block = i / 70 * 70;
            let mut s: Vec<i32> = (0..70).map(|t| block + t).collect();
            let mut sum = 0;
            for step in 0..5 {
                let next: Vec<i32> = (0..70).map(|t| s[(t + step * 13 + 32) % 70]).collect();
                sum += next[(i - block) as usize];
                s = next.iter().map(|next| next + 1).collect();
            }
            sum
        },
    );
}

#[test]
fn barriers_do_not_wait_for_threads_that_have_returned() {
    check(
        |k, i, out| {
            let t = k.thread_idx().x;
            let s: Val<'_, Shared<i32>> = k.shared(70);
            s.store(t, i * 3);
            out.store(i, -1);
            // A whole warp, and half of another one.
            k.if_(t.lt(48), |k| k.return_());
            k.barrier();
            out.store(i, s.load(117 - t));
        },
        |i| if i % 70 < 48 { -1 } else { (i / 70 * 70 + 117 - i % 70) * 3 },
    );
}

#[test]
fn pointers_are_values() {
    check(
        |k, i, out| {
            let t = k.thread_idx().x;
            let (a, b) = (k.shared::<i32>(70), k.shared::<i32>(140));
            a.store(t, i);
            b.offset(70).store(t, -i);
            // Different allocations in the lanes of one warp, through select, if and loop.
            let even = (t % 2).eq(0);
            let p = even.select(a, b.offset(70i64));
            let q = k.if_else((t % 3).eq(0), |k| k.yield_(p), |k| k.yield_(a));
            let (r, _) = k.for_(range(0, t % 4), (q, p), |_, _, (x, y)| (y, x));
            let var = k.var(r);
            k.if_(t.gt(50), |_| var.set(b.offset(70u64)));
            let s = var.get().offset(t - 1).offset(1u32);
            out.store(i, s.load(0i32));
        },
        |i| {
            let t = i % 70;
            let p = if t % 2 == 0 { i } else { -i };
            let q = if t % 3 == 0 { p } else { i };
            let r = if t % 4 % 2 == 0 { q } else { p };
            if t > 50 { -i } else { r }
        },
    );
}

#[test]
fn threads_are_numbered_along_x_first() {
    let kernel = Kernel::<(GlobalMut<i32>, GlobalMut<i32>)>::build(
        "numbers",
        Target::SM_80,
        |k, (out, lanes)| {
            let (t, b, n, g) = (k.thread_idx(), k.block_idx(), k.block_dim(), k.grid_dim());
            let thread = (t.z * n.y + t.y) * n.x + t.x;
            let block = (b.z * g.y + b.y) * g.x + b.x;
            let i = block * (n.x * n.y * n.z) + thread;
            out.store(i, t.x + 10 * t.y + 100 * t.z + 1000 * b.x + 10000 * b.y + 100000 * b.z);
            lanes.store(i, k.lane_id());
        },
    )
    .expect("the kernel is correct");
    let (out, lanes) = (GlobalBuffer::zeros(24 * 42 * 4), GlobalBuffer::zeros(24 * 42 * 4));
    let grid = Grid::new([2, 3, 4], [3, 7, 2]);
    let args = [KernelArg::Buffer(&out), KernelArg::Buffer(&lanes)];
    run(kernel.ir(), grid, &args, &Options::default()).expect("the kernel ends without a fault");
    let mut expected = Vec::new();
    for b in 0..24 {
        for t in 0..42 {
            let thread = t % 3 + t / 3 % 7 * 10 + t / 21 * 100;
            expected.push(thread + 1000 * (b % 2) + 10000 * (b / 2 % 3) + 100_000 * (b / 6));
        }
    }
    assert_eq!(out.to_vec::<i32>(), expected);
    let expected: Vec<i32> = (0..24).flat_map(|_| (0..42).map(|t| t % 32)).collect();
    assert_eq!(lanes.to_vec::<i32>(), expected);
}

#[test]
fn scalar_arguments_of_every_type_arrive() {
    fn check<T: Element>(value: T) {
        let kernel = Kernel::<(T, GlobalMut<T>)>::build("pass", Target::SM_80, |k, (v, out)| {
            out.store(k.thread_idx().x, v);
        });
        let out = GlobalBuffer::zeros(33 * T::SCALAR.size_bytes() as usize);
        let args = [KernelArg::Scalar(value.to_const()), KernelArg::Buffer(&out)];
        let grid = Grid::new([1, 1, 1], [33, 1, 1]);
        let kernel = kernel.expect("the kernel is correct");
        run(kernel.ir(), grid, &args, &Options::default()).expect("the kernel has no fault");
        assert_eq!(out.to_vec::<T>(), [value; 33]);
    }
    check(true);
    check(false);
    check(-5i8);
    check(-500i16);
    check(-70_000i32);
    check(i64::MIN + 1);
    check(200u8);
    check(60_000u16);
    check(u32::MAX);
    check(u64::MAX - 1);
    check(-0.25f32);
    check(1e300f64);
}

#[test]
fn operations_are_counted_for_threads_and_for_warps() {
    let kernel = Kernel::<Threads>::build("count", Target::SM_80, |k, (out,)| {
        let t = k.thread_idx().x; //                            1
        k.if_(t.lt(10), |_| out.store(t, t)); //             const, setp, if; then st, yield
    }) //                                                       return
    .expect("the kernel is correct");
    let out = GlobalBuffer::zeros(400);
    let grid = Grid::new([3, 1, 1], [40, 1, 1]);
    let report =
        run(kernel.ir(), grid, &[KernelArg::Buffer(&out)], &Options::default()).expect("no fault");
    let LaunchReport { thread_ops, warp_ops, .. } = report;
    assert_eq!((thread_ops, warp_ops), (3 * (40 * 5 + 10 * 2), 3 * (2 * 5 + 2)));
}
