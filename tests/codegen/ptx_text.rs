//! The text of small kernels.

use expect_test::{Expect, expect};
use tilewright::codegen::PtxOptions;
use tilewright::ir::{
    Body, Global, GlobalMut, Kernel, KernelOptions, Params, Target, TensorMap, TensorMapMut, range,
};

/// Builds a kernel and compares its text, without Rust lines, which move when this file is edited.
#[track_caller]
fn check<P: Params>(
    name: &str,
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>, P::At<'b>),
    expected: Expect,
) {
    let kernel = Kernel::<P>::build(name, Target::SM_80, body).unwrap();
    expected.assert_eq(kernel.ptx_with(PtxOptions::default().locations(false)).text());
}

#[test]
fn axpy() {
    check::<(f32, Global<f32>, GlobalMut<f32>, i32)>(
        "axpy",
        |k, (a, x, y, n)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry axpy(
              .param .f32 p0,
              .param .u64 .ptr .global .align 4 p1,
              .param .u64 .ptr .global .align 4 p2,
              .param .s32 p3
            )
            {
              .reg .pred %p<16>;
              .reg .b32 %r<15>;
              .reg .b64 %rd<3>;
              .reg .f32 %f<20>;
              .reg .b64 %trd<2>;

              ld.param.f32 %f0, [p0];
              ld.param.u64 %rd1, [p1];
              cvta.to.global.u64 %rd1, %rd1;
              ld.param.u64 %rd2, [p2];
              cvta.to.global.u64 %rd2, %rd2;
              ld.param.s32 %r3, [p3];
              mov.u32 %r4, %ctaid.x;
              mov.u32 %r7, %ntid.x;
              mul.lo.s32 %r10, %r4, %r7;
              mov.u32 %r11, %tid.x;
              add.s32 %r14, %r10, %r11;
              setp.lt.s32 %p15, %r14, %r3;
              @!%p15 bra $if0_end;
                mad.wide.s32 %trd0, %r14, 4, %rd1;
                ld.global.f32 %f16, [%trd0];
                mul.rn.f32 %f17, %f0, %f16;
                mad.wide.s32 %trd1, %r14, 4, %rd2;
                ld.global.f32 %f18, [%trd1];
                add.rn.f32 %f19, %f17, %f18;
                st.global.f32 [%trd1], %f19;
              $if0_end:
              ret;
            }
        "#]],
    );
}

#[test]
fn for_with_swap() {
    check::<(GlobalMut<f32>, i32)>(
        "swap",
        |k, (x, n)| {
            let (a, b) = (x.load(0), x.load(1));
            let (a, b) = k.for_(range(0, n).step(3), (a, b), |_, _, (a, b)| (b, a));
            x.store(0, a);
            x.store(1, b);
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry swap(
              .param .u64 .ptr .global .align 4 p0,
              .param .s32 p1
            )
            {
              .reg .b32 %r<9>;
              .reg .b64 %rd<1>;
              .reg .f32 %f<11>;
              .reg .pred %tp<2>;
              .reg .b32 %tr<1>;
              .reg .f32 %tf<1>;

              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd0, %rd0;
              ld.param.s32 %r1, [p1];
              ld.global.f32 %f3, [%rd0];
              ld.global.f32 %f5, [%rd0+4];
              mov.b32 %f9, %f3;
              mov.b32 %f10, %f5;
              setp.ge.s32 %tp0, 0, %r1;
              @%tp0 bra $for0_end;
              mov.b32 %r8, 0;
              $for0:
                mov.b32 %tf0, %f9;
                mov.b32 %f9, %f10;
                mov.b32 %f10, %tf0;
                sub.s32 %tr0, %r1, %r8;
                setp.gt.u32 %tp1, %tr0, 3;
                add.s32 %r8, %r8, 3;
                @%tp1 bra $for0;
              $for0_end:
              st.global.f32 [%rd0], %f9;
              st.global.f32 [%rd0+4], %f10;
              ret;
            }
        "#]],
    );
}

#[test]
fn break_of_the_outer_loop() {
    check::<(Global<i32>, GlobalMut<i32>, i32)>(
        "find",
        |k, (x, y, n)| {
            let found = k.for_loop(range(0, n), -1, |k, outer, i, found| {
                k.for_loop(range(0, i), (), |k, inner, j, ()| {
                    let v = x.load(j);
                    k.if_(v.eq(i), |k| outer.break_(k, j));
                    k.if_(v.lt(0), |k| outer.continue_(k, found));
                    inner.continue_(k, ())
                });
                outer.continue_(k, found)
            });
            y.store(0, found);
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry find(
              .param .u64 .ptr .global .align 4 p0,
              .param .u64 .ptr .global .align 4 p1,
              .param .s32 p2
            )
            {
              .reg .pred %p<15>;
              .reg .b32 %r<12>;
              .reg .b64 %rd<2>;
              .reg .pred %tp<4>;
              .reg .b64 %trd<1>;

              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd0, %rd0;
              ld.param.u64 %rd1, [p1];
              cvta.to.global.u64 %rd1, %rd1;
              ld.param.s32 %r2, [p2];
              mov.b32 %r7, -1;
              setp.ge.s32 %tp0, 0, %r2;
              @%tp0 bra $for0_end;
              mov.b32 %r6, 0;
              $for0:
                setp.ge.s32 %tp1, 0, %r6;
                @%tp1 bra $for1_end;
                mov.b32 %r10, 0;
                $for1:
                  mad.wide.s32 %trd0, %r10, 4, %rd0;
                  ld.global.s32 %r11, [%trd0];
                  setp.eq.s32 %p12, %r11, %r6;
                  @!%p12 bra $if2_end;
                    mov.b32 %r7, %r10;
                    bra $for0_end;
                  $if2_end:
                  setp.lt.s32 %p14, %r11, 0;
                  @%p14 bra $for0_next;
                  add.s32 %r10, %r10, 1;
                  setp.lt.s32 %tp2, %r10, %r6;
                  @%tp2 bra $for1;
                $for1_end:
              $for0_next:
                add.s32 %r6, %r6, 1;
                setp.lt.s32 %tp3, %r6, %r2;
                @%tp3 bra $for0;
              $for0_end:
              st.global.s32 [%rd1], %r7;
              ret;
            }
        "#]],
    );
}

#[test]
fn arms_with_results() {
    check::<(GlobalMut<f32>, i32)>(
        "arms",
        |k, (x, n)| {
            let v = x.load(0);
            let (w, m) = k.if_else(
                n.lt(5),
                |k| k.yield_((v + 1.0, n)),
                |k| {
                    k.if_(!n.eq(7), |k| k.return_());
                    k.yield_((v, n * 2))
                },
            );
            x.store(m, w);
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry arms(
              .param .u64 .ptr .global .align 4 p0,
              .param .s32 p1
            )
            {
              .reg .pred %p<10>;
              .reg .b32 %r<15>;
              .reg .b64 %rd<1>;
              .reg .f32 %f<14>;
              .reg .b64 %trd<1>;

              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd0, %rd0;
              ld.param.s32 %r1, [p1];
              ld.global.f32 %f3, [%rd0];
              setp.lt.s32 %p5, %r1, 5;
              @!%p5 bra $if0_else;
                add.rn.f32 %f7, %f3, 0f3F800000;
                mov.b32 %f13, %f7;
                mov.b32 %r14, %r1;
                bra $if0_end;
              $if0_else:
                setp.eq.s32 %p9, %r1, 7;
                @!%p9 ret;
                mul.lo.s32 %r12, %r1, 2;
                mov.b32 %f13, %f3;
                mov.b32 %r14, %r12;
              $if0_end:
              mad.wide.s32 %trd0, %r14, 4, %rd0;
              st.global.f32 [%trd0], %f13;
              ret;
            }
        "#]],
    );
}

#[test]
fn shared_memory_and_variables() {
    check::<(GlobalMut<f32>, u32)>(
        "reverse",
        |k, (x, rounds)| {
            let (low, high) = (k.shared::<f32>(32), k.shared::<bool>(32));
            let i = k.thread_idx().x;
            let sum = k.var(0.0f32);
            k.for_(range(0u32, rounds), (), |k, r, ()| {
                let v = x.load(i);
                low.store(i, v);
                high.store(i, v.gt(r.cvt::<f32>()));
                k.barrier();
                let w = low.load(31 - i);
                k.if_(high.load(3), |_| {
                    let old = sum.get();
                    sum.set(w.fma(2.0, old));
                });
                k.barrier();
            });
            x.store(i, sum.get());
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry reverse(
              .param .u64 .ptr .global .align 4 p0,
              .param .u32 p1
            )
            {
              .reg .pred %p<19>;
              .reg .b32 %r<16>;
              .reg .b64 %rd<1>;
              .reg .f32 %f<23>;
              .reg .pred %tp<2>;
              .reg .b32 %tr<5>;
              .reg .b64 %trd<2>;
              .reg .f32 %v0_<1>;
              .shared .align 4 .b8 $shared[160];

              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd0, %rd0;
              ld.param.u32 %r1, [p1];
              mov.u32 %r2, $shared;
              mov.u32 %r3, $shared+128;
              mov.u32 %r4, %tid.x;
              mov.b32 %v0_0, 0f00000000;
              setp.ge.u32 %tp0, 0, %r1;
              @%tp0 bra $for0_end;
              mov.b32 %r10, 0;
              $for0:
                mad.wide.s32 %trd0, %r4, 4, %rd0;
                ld.global.f32 %f11, [%trd0];
                mad.lo.s32 %tr0, %r4, 4, %r2;
                st.shared.f32 [%tr0], %f11;
                cvt.rn.f32.u32 %f12, %r10;
                setp.gt.f32 %p13, %f11, %f12;
                add.s32 %tr1, %r3, %r4;
                selp.b32 %tr2, 1, 0, %p13;
                st.shared.u8 [%tr1], %tr2;
                barrier.sync 0;
                sub.s32 %r15, 31, %r4;
                mad.lo.s32 %tr3, %r15, 4, %r2;
                ld.shared.f32 %f16, [%tr3];
                ld.shared.u8 %tr4, [%r3+3];
                setp.ne.u32 %p18, %tr4, 0;
                @!%p18 bra $if1_end;
                  mov.b32 %f19, %v0_0;
                  fma.rn.f32 %f21, %f16, 0f40000000, %f19;
                  mov.b32 %v0_0, %f21;
                $if1_end:
                barrier.sync 0;
                add.u32 %r10, %r10, 1;
                setp.lt.u32 %tp1, %r10, %r1;
                @%tp1 bra $for0;
              $for0_end:
              mov.b32 %f22, %v0_0;
              mad.wide.s32 %trd1, %r4, 4, %rd0;
              st.global.f32 [%trd1], %f22;
              ret;
            }
        "#]],
    );
}

#[test]
fn newton() {
    check::<(GlobalMut<f64>,)>(
        "newton",
        |k, (x,)| {
            let a = x.load(0);
            let (root, steps) = k.loop_((a, 0u8), |k, lp, (x, n)| {
                let next = (x + a / x) * 0.5;
                k.if_((next - x).abs().lt(1e-9), |k| lp.break_(k, (next, n)));
                lp.continue_(k, (next, n + 1))
            });
            x.store(0, root + steps.cvt::<f64>());
        },
        expect![[r#"
            .version 7.0
            .target sm_80
            .address_size 64

            .visible .entry newton(
              .param .u64 .ptr .global .align 8 p0
            )
            {
              .reg .pred %p<14>;
              .reg .b32 %r<18>;
              .reg .b64 %rd<1>;
              .reg .f64 %fd<20>;

              ld.param.u64 %rd0, [p0];
              cvta.to.global.u64 %rd0, %rd0;
              ld.global.f64 %fd2, [%rd0];
              mov.b64 %fd4, %fd2;
              mov.b32 %r5, 0;
              $loop0:
                div.rn.f64 %fd6, %fd2, %fd4;
                add.rn.f64 %fd7, %fd4, %fd6;
                mul.rn.f64 %fd9, %fd7, 0d3FE0000000000000;
                sub.rn.f64 %fd10, %fd9, %fd4;
                abs.f64 %fd11, %fd10;
                setp.lt.f64 %p13, %fd11, 0d3E112E0BE826D695;
                @!%p13 bra $if1_end;
                  mov.b64 %fd16, %fd9;
                  mov.b32 %r17, %r5;
                  bra $loop0_end;
                $if1_end:
                add.u32 %r15, %r5, 1;
                cvt.u32.u8 %r15, %r15;
                mov.b64 %fd4, %fd9;
                mov.b32 %r5, %r15;
                bra $loop0;
              $loop0_end:
              cvt.rn.f64.u32 %fd18, %r17;
              add.rn.f64 %fd19, %fd16, %fd18;
              st.global.f64 [%rd0], %fd19;
              ret;
            }
        "#]],
    );
}

/// Launch bounds of the kernel, and shared memory that a launch gives.
#[test]
fn launch_bounds_and_dynamic_shared_memory() {
    let options = KernelOptions::default()
        .block([384, 1, 1])
        .min_blocks_per_sm(1)
        .max_registers(168)
        .cluster([2, 1, 1]);
    let kernel =
        Kernel::<(GlobalMut<u8>,)>::build_with(options, "bounded", Target::SM_90A, |k, (x,)| {
            k.shared::<u8>(3);
            let tile = k.shared_aligned::<u8>(100_000, 128);
            x.store(0, tile.load(5));
        })
        .unwrap();
    let expected = expect![[r#"
        .version 8.0
        .target sm_90a
        .address_size 64

        .extern .shared .align 128 .b8 $shared[];

        .visible .entry bounded(
          .param .u64 .ptr .global .align 1 p0
        )
        .reqntid 384, 1, 1
        .minnctapersm 1
        .maxnreg 168
        .reqnctapercluster 2, 1, 1
        {
          .reg .b32 %r<5>;
          .reg .b64 %rd<1>;

          ld.param.u64 %rd0, [p0];
          cvta.to.global.u64 %rd0, %rd0;
          mov.u32 %r2, $shared+128;
          ld.shared.u8 %r4, [%r2+5];
          st.global.u8 [%rd0], %r4;
          ret;
        }
    "#]];
    expected.assert_eq(kernel.ptx_with(PtxOptions::default().locations(false)).text());
}

/// A tensor map is passed by value, beside parameters of any size.
#[test]
fn tensor_map_parameters() {
    type Params = (i8, TensorMap<f32, 2>, TensorMapMut<u8, 5>, GlobalMut<i32>);
    let kernel = Kernel::<Params>::build("maps", Target::SM_90, |_, (n, _, _, x)| {
        x.store(0, n.cvt::<i32>());
    })
    .unwrap();
    let expected = expect![[r#"
        .version 7.8
        .target sm_90
        .address_size 64

        .visible .entry maps(
          .param .s8 p0,
          .param .align 64 .b8 p1[128],
          .param .align 64 .b8 p2[128],
          .param .u64 .ptr .global .align 4 p3
        )
        {
          .reg .b32 %r<1>;
          .reg .b64 %rd<4>;

          ld.param.s8 %r0, [p0];
          ld.param.u64 %rd3, [p3];
          cvta.to.global.u64 %rd3, %rd3;
          st.global.s32 [%rd3], %r0;
          ret;
        }
    "#]];
    expected.assert_eq(kernel.ptx_with(PtxOptions::default().locations(false)).text());
}

/// An element of a vector that stands for itself is not confused with the first one.
#[test]
fn elements_of_vectors_in_registers() {
    use tilewright::ir::{Val, Vector};
    let kernel = Kernel::<(Global<u32>, GlobalMut<u32>)>::build("k", Target::SM_80, |k, (x, y)| {
        let four: Val<'_, Vector<u32, 4>> = x.load_vector(0);
        let words = k.registers::<u32>(4).named("words");
        for (i, word) in (0..).zip(four.lanes()) {
            words.set(i, word);
        }
        y.store(0, words.get(3));
    });
    let ptx = kernel.unwrap().ptx();
    for i in 0..4 {
        let line = ptx.text().lines().find(|line| line.contains(&format!("mov.b32 %words_{i}, ")));
        assert!(line.unwrap().ends_with(&format!("_{i};")), "{}", ptx.text());
    }
}
