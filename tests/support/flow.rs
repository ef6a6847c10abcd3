//! Kernels that cover every form of control flow.

use tilewright::ir::builder::{Terminated, Ty};
use tilewright::ir::{
    Body, GlobalMut, Integer, Kernel, KernelOptions, Params, Shared, Target, Untyped, Val, range,
};

/// The kernels for one target.
pub(crate) struct Flow {
    target: Target,
    pub(crate) kernels: Vec<Kernel<Untyped>>,
}

type One<T> = (GlobalMut<T>, T);

impl Flow {
    fn add<P: Params>(
        &mut self,
        name: &str,
        body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>),
    ) {
        let options = KernelOptions::default().block([64, 2, 1]);
        let kernel = Kernel::<P>::build_with(options, name, self.target, body);
        let kernel = kernel.unwrap_or_else(|errors| panic!("{errors}"));
        self.kernels.push(Kernel::verify(kernel.ir().clone()).expect("it was verified"));
    }

    pub(crate) fn all(target: Target) -> Vec<Kernel<Untyped>> {
        let mut flow = Flow { target, kernels: Vec::new() };
        macro_rules! for_ints {
            ($($ty:ident)*) => {$(
                flow.ranges::<$ty>(
                    stringify!($ty),
                    &[0, 1, 2, 7, 100, $ty::MIN, $ty::MAX, $ty::MAX - 1],
                );
            )*};
        }
        for_ints!(i8 i16 i32 i64 u8 u16 u32 u64);
        flow.carried_of_every_type();
        flow.ifs();
        flow.loops();
        flow.jumps();
        flow.variables();
        flow.kernels
    }

    /// Adds ranges with known and unknown bounds and steps.
    fn ranges<T: Integer>(&mut self, name: &str, known: &[T]) {
        self.add::<(GlobalMut<T>, T, T, T)>(&format!("range_{name}"), |k, (out, lo, hi, step)| {
            let body = |_: &mut Body<'_, '_>, i: Val<'_, T>| out.store(0, i);
            k.for_(range(lo, hi).step(step), (), |k, i, ()| body(k, i));
            for bound in known {
                k.for_(range(*bound, hi).step(step), (), |k, i, ()| body(k, i));
                k.for_(range(lo, *bound), (), |k, i, ()| body(k, i));
                if *bound > T::ZERO {
                    k.for_(range(lo, hi).step(*bound), (), |k, i, ()| body(k, i));
                    k.for_(range(T::ZERO, *bound).step(*bound), (), |k, i, ()| body(k, i));
                }
                k.for_(range(*bound, known[6]), (), |k, i, ()| body(k, i));
                k.for_(range(known[5], *bound).step(known[2]), (), |k, i, ()| body(k, i));
            }
        });
    }

    /// Adds a value that is carried through loops and arms, rotated, and kept in a variable.
    fn carried<T: Ty>(
        &mut self,
        name: &str,
        get: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, GlobalMut<i32>>, i32) -> Val<'b, T>,
        put: impl for<'b> Fn(&mut Body<'b, '_>, Val<'b, GlobalMut<i32>>, i32, Val<'b, T>),
    ) {
        self.add::<One<i32>>(&format!("carried_{name}"), |k, (x, n)| {
            let (a, b, c) = (get(k, x, 0), get(k, x, 1), get(k, x, 2));
            let (a, b, c) = k.for_(range(0, n), (a, b, c), |_, _, (a, b, c)| (b, c, a));
            let (a, b) = k.for_loop(range(0, n).step(n), (a, b), |k, lp, i, (a, b)| {
                k.if_(i.gt(5), |k| lp.break_(k, (b, a)));
                k.if_(i.gt(4), |k| lp.continue_(k, (b, b)));
                lp.continue_(k, (b, a))
            });
            let d = k.if_else(n.lt(3), |k| k.yield_((a, c)), |k| k.yield_((c, b)));
            let v = k.registers::<T>(3);
            v.set(2, d.0);
            v.set(1, d.1);
            let e = k.loop_((d.1, 0), |k, lp, (e, i)| {
                v.set(2, e);
                k.if_(i.eq(n), |k| lp.break_(k, (v.get(1), e)));
                lp.continue_(k, (v.get(2), i + 1))
            });
            put(k, x, 3, e.0);
            put(k, x, 4, e.1);
            put(k, x, 5, v.get(2));
        });
    }

    fn carried_of_every_type(&mut self) {
        macro_rules! numbers {
            ($($ty:ident)*) => {$(
                self.carried::<$ty>(
                    stringify!($ty),
                    |_, x, i| x.load(i).cvt::<$ty>(),
                    |_, x, i, value| x.store(i, value.cvt::<i32>()),
                );
            )*};
        }
        numbers!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        self.carried::<bool>(
            "bool",
            |_, x, i| x.load(i).gt(0),
            |_, x, i, value| x.store(i, value.cvt::<i32>()),
        );
        self.carried::<GlobalMut<i32>>(
            "global",
            |_, x, i| x.offset(i),
            |_, _, i, value| value.store(i, 1),
        );
        self.carried::<Shared<f32>>(
            "shared",
            |k, _, i| k.shared::<f32>(8).offset(i),
            |_, _, i, value| value.store(i, 1.0),
        );
    }

    /// Adds empty arms, arms that only jump, and conditions that are known.
    fn ifs(&mut self) {
        self.add::<(GlobalMut<i32>, i32, bool)>("ifs", |k, (x, n, flag)| {
            let mut conditions = vec![n.lt(3), flag, !flag, !(!n.eq(4))];
            conditions.extend([true, false].map(|known| k.constant(known)));
            for cond in conditions {
                k.if_(cond, |_| ());
                k.if_else(cond, |_| (), |_| ());
                k.if_else(cond, |_| x.store(0, n), |_| ());
                k.if_else(cond, |_| (), |_| x.store(0, n));
                k.if_else(cond, |_| x.store(1, n), |_| x.store(2, n));
                let same = k.if_else(cond, |k| k.yield_(n), |k| k.yield_(n));
                let unused = k.if_else(cond, |k| k.yield_(n), |k| k.yield_(1));
                let _ = unused;
                let both = k.if_else(cond, |k| k.yield_((n, flag)), |k| k.yield_((same, true)));
                let kept = k.if_with(cond, both.0, |_| x.load(3));
                x.store(4, kept + both.1.cvt::<i32>() + cond.select(1, 2));
                let not = !cond;
                k.if_(not, |_| x.store(5, not.cvt::<i32>()));
                k.for_loop(range(0, n), (), |k, lp, i, ()| {
                    k.if_(cond & i.gt(3), |k| lp.break_(k, ()));
                    k.if_else(not, |k| lp.continue_(k, ()), |_| x.store(i, 1));
                    k.if_else(i.lt(2), |_| x.store(i, 2), |k| k.return_());
                    lp.continue_(k, ())
                });
            }
            let sign = k
                .cases()
                .when(n.lt(0), |k| k.yield_(-1))
                .when(n.gt(0), |k| k.yield_(1))
                .otherwise(|k| k.yield_(0));
            x.store(6, sign);
            let chosen = k.select_n(n, &[n, sign, n + sign]);
            x.store(7, chosen);
        });
        self.add::<One<i32>>("if_ends", |k, (x, n)| {
            let ended: Terminated = k.if_else(
                n.lt(3),
                |k| {
                    x.store(0, 1);
                    k.return_()
                },
                |k| k.return_(),
            );
            let _ = ended;
        });
    }

    fn loops(&mut self) {
        self.add::<One<u8>>("whiles", |k, (x, n)| {
            let (count, _) = k.while_((0u8, n), |_, (_, n)| n.gt(1), |_, (c, n)| (c + 1, n / 2));
            let last = k.do_while(count, |_, c| (c + 1, (c + 1).lt(n)));
            x.store(0, last);
        });
        self.add::<One<i32>>("forever", |k, (x, n)| {
            k.loop_::<_, ()>(n, |k, lp, i| {
                x.store(0, i);
                lp.continue_(k, i + 1)
            });
            x.store(1, n);
        });
        self.add::<One<i32>>("once", |k, (x, n)| {
            k.for_loop(range(0, n), (), |k, lp, i, ()| {
                x.store(0, i);
                lp.break_(k, ())
            });
            let v: Val<'_, i32> = k.loop_(n, |k, lp, i| lp.break_(k, i + 1));
            k.for_loop(range(0, 4), v, |k, _, i, v| {
                x.store(i, v);
                k.return_()
            });
        });
        self.add::<One<i64>>("nested_carried", |k, (x, n)| {
            let sum = k.for_(range(0, n), (0i64, 1i64), |k, i, (a, b)| {
                k.for_(range(i, n).step(i + 1), (b, a), |k, j, (a, b)| {
                    k.while_((a, b + j), |_, (a, b)| a.lt(b), |_, (a, b)| (a + b, b - 1))
                })
            });
            x.store(0, sum.0 ^ sum.1);
        });
    }

    /// Adds jumps out of several loops, with and without values, and out of the thread.
    fn jumps(&mut self) {
        self.add::<One<i32>>("jumps", |k, (x, n)| {
            let found = k.loop_((0, n), |k, first, (a, b)| {
                k.for_loop(range(a, b), (a, b), |k, second, i, (c, d)| {
                    let e: Val<'_, i32> = k.loop_(i, |k, third, e| {
                        let v = x.load(e);
                        k.if_(v.eq(1), |k| first.break_(k, (v, e)));
                        k.if_(v.eq(2), |k| first.continue_(k, (b, a)));
                        k.if_(v.eq(3), |k| second.break_(k, (d, c)));
                        k.if_(v.eq(4), |k| second.continue_(k, (d, c)));
                        k.if_(v.eq(5), |k| second.continue_(k, (c, d)));
                        k.if_(v.eq(6), |k| {
                            x.store(0, v);
                            k.return_()
                        });
                        k.if_(v.eq(7), |k| k.return_());
                        k.if_else(v.eq(8), |k| third.break_(k, e), |k| third.continue_(k, e + v))
                    });
                    second.continue_(k, (d, c + e))
                });
                first.continue_(k, (a + 1, b))
            });
            x.store(1, found.0);
            x.store(2, found.1);
        });
        self.add::<One<i32>>("early_return", |k, (x, n)| {
            k.if_(k.thread_idx().x.ge(n), |k| k.return_());
            let s = k.shared::<i32>(64);
            s.store(k.thread_idx().x, n);
            k.barrier();
            x.store(k.thread_idx().x, s.load(0));
        });
    }

    fn variables(&mut self) {
        self.add::<One<f32>>("accumulators", |k, (x, a)| {
            let acc = k.registers::<f32>(16);
            acc.fill(0.0);
            k.for_(range(0, 64), (), |_, i, ()| {
                let v = x.load(i);
                for j in 0..16 {
                    let old = acc.get(j);
                    acc.set(j, v.fma(a + j as f32, old));
                }
            });
            for j in 0..16 {
                x.store(j as i32, acc.get(j));
            }
        });
        self.add::<(GlobalMut<f32>, bool)>("swapped", |k, (x, flag)| {
            let (a, b) = (k.var(x.load(0)), k.var(x.load(1)));
            let was = k.var(flag);
            k.for_(range(0u16, 100), (), |_, _, ()| {
                let (old_a, old_b) = (a.get(), b.get());
                a.set(old_b);
                b.set(old_a);
                was.set(!was.get());
            });
            let sum = was.get().select(a.get(), a.get() + b.get());
            x.store(0, sum);
        });
    }
}
