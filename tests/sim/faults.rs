//! Every fault: its cause with its values, its place, and its text.

use crate::support::text;

use expect_test::{Expect, expect};
use std::mem::discriminant;

use tilewright::arch::TensorMapDesc;
use tilewright::ir::op::{Axis, Op, SpecialReg, Thread};
use tilewright::ir::types::{Const, Scalar, Space};
use tilewright::ir::{
    Body, Element, Global, GlobalMut, Kernel, KernelIr, Params, Target, TensorMap, Val, parse,
    range,
};
use tilewright::runtime::Grid;
use tilewright::sim::{Fault, FaultCause, GlobalBuffer, KernelArg, Options, Order, run};

/// Runs a kernel that must fault, in every order of warps, and compares the text of the fault.
#[track_caller]
fn check<P: Params>(
    grid: Grid,
    args: &[KernelArg<'_>],
    body: impl for<'b> Fn(&mut Body<'b, 'b>, P::At<'b>),
    expected: Expect,
) -> Fault {
    let kernel = Kernel::<P>::build("wrong", Target::SM_80, body).expect("it verifies");
    text::check_round_trip(kernel.ir());
    check_ir(kernel.ir(), grid, args, expected)
}

/// As `check`, with the index of the thread in place of the index of the block: the verifier finds
/// a barrier that only some threads reach, so the kernels here are changed after it.
#[track_caller]
fn check_by_thread<P: Params>(
    grid: Grid,
    args: &[KernelArg<'_>],
    body: impl for<'b> Fn(&mut Body<'b, 'b>, P::At<'b>),
    expected: Expect,
) -> Fault {
    let kernel = Kernel::<P>::build("wrong", Target::SM_80, body).expect("it verifies");
    check_ir(&by_thread(kernel.ir()), grid, args, expected)
}

/// The kernel with the index of the thread in place of the index of the block.
fn by_thread(ir: &KernelIr) -> KernelIr {
    let mut ir = ir.clone();
    for id in ir.ops.keys().collect::<Vec<_>>() {
        if let Op::Thread(Thread::Sreg { reg: reg @ SpecialReg::Ctaid(_) }) = &mut ir.ops[id].op {
            *reg = SpecialReg::Tid(Axis::X);
        }
    }
    ir
}

#[track_caller]
fn check_ir(ir: &KernelIr, grid: Grid, args: &[KernelArg<'_>], expected: Expect) -> Fault {
    let fault = |order, threads, race| {
        let options = Options::default().order(order).threads(threads).race(race);
        let error = run(ir, grid, args, &options).expect_err("it faults");
        let mut fault = error.fault().cloned().expect("the kernel is at fault, not the launch");
        assert_eq!(fault.order, order);
        fault.order = Order::RoundRobin;
        fault
    };
    let first = fault(Order::RoundRobin, 0, false);
    for race in [false, true] {
        assert_eq!(fault(Order::RoundRobin, 1, race), first);
    }
    assert_eq!(fault(Order::Random { seed: 5 }, 0, false), first);
    // With race detection four blocks run at once in a random order: the first fault may be that of
    // another block.
    let of_any_block = fault(Order::Random { seed: 5 }, 0, true);
    let place = |fault: &Fault| (fault.op, fault.path.clone(), fault.location.line);
    assert_eq!(place(&of_any_block), place(&first));
    assert_eq!(discriminant(&of_any_block.cause), discriminant(&first.cause));
    assert!(first.location.file.ends_with(file!()) && first.location.line > 0);
    expected.assert_eq(&without_lines(&first.to_string()));
    first
}

/// The text with the line numbers of this file taken out: they move when it is edited.
fn without_lines(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split(concat!(file!(), ":")).enumerate() {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        out += &if i == 0 { part.to_owned() } else { format!("FILE:LINE{}", &part[end..]) };
    }
    out
}

/// A warp of the second block waits elsewhere: the verifier finds that, so the kernel is changed
/// after it.
#[test]
fn a_barrier_of_the_cluster_that_never_opens() {
    let text = "kernel @cluster target sm_90 () {
  %block = sreg<ctaid.x> : i32
  %five = const 5 : u32
  %zero = const 0 : i32
  %warp = shr %block, %five : i32
  %first = setp<eq> %warp, %zero : bool
  if %first {
    barrier_cluster_arrive
    barrier_cluster_wait
    yield
  } else {
    barrier
    yield
  }
  return
}";
    let ir = parse("cluster.kir", text).expect("it parses");
    let kernel = Kernel::verify(ir).expect("it verifies");
    let grid = Grid::new([2, 1, 1], [64, 1, 1]).cluster([2, 1, 1]);
    let error =
        run(&by_thread(kernel.ir()), grid, &[], &Options::default()).expect_err("it faults");
    let fault = error.fault().expect("the kernel is at fault");
    assert_eq!(fault.cause, FaultCause::ClusterDeadlock { threads: 128, arrived: 64 });
    let sentence = "`barrier_cluster_wait` at cluster.kir:9:5 waits forever at the cluster's barrier, where 64 \
                    of 128 threads have arrived, in thread (0, 0, 0) of block (0, 0, 0) of kernel \
                    `cluster`\n\
                    \x20 warp 0 of block (0, 0, 0): `barrier_cluster_wait` at cluster.kir:9:5 waits forever at the \
                    cluster's barrier, where 64 of 128 threads have arrived\n\
                    \x20 warp 0 of block (1, 0, 0): `barrier_cluster_wait` at cluster.kir:9:5 waits forever at the \
                    cluster's barrier, where 64 of 128 threads have arrived\n\
                    \x20 warp 1 of block (0, 0, 0): `barrier` at cluster.kir:12:5 waits forever at the block's \
                    barrier, where 32 of 64 threads have arrived\n\
                    \x20 warp 1 of block (1, 0, 0): `barrier` at cluster.kir:12:5 waits forever at the block's \
                    barrier, where 32 of 64 threads have arrived\n\
                    \x20 the cycle: warp 0 waits for warp 1, which waits for warp 0";
    assert_eq!(fault.to_string(), sentence);
    let waits = fault.stuck[2].waits.as_ref().expect("it waits");
    assert_eq!(waits.cause, FaultCause::BlockDeadlock { threads: 64, arrived: 32 });
}

/// `blocks` blocks of `threads` threads.
fn line(blocks: u32, threads: u32) -> Grid {
    Grid::new([blocks, 1, 1], [threads, 1, 1])
}

type Out = (GlobalMut<i32>,);
type InOut = (Global<i32>, GlobalMut<i32>);

#[test]
fn store_outside_a_buffer() {
    let out = GlobalBuffer::zeros(100 * 4);
    let fault = check::<Out>(
        line(4, 64),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            k.if_(i.ge(0), |_| out.store(i, i));
        },
        expect![
            "`st` at FILE:LINE writes i32 element 100 (bytes 400 to 404) of parameter `p0`, which has 100 elements (400 bytes), in thread (36, 0, 0) of block (1, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
    assert_eq!((fault.block, fault.thread), ([1, 0, 0], [36, 0, 0]));
    assert_eq!((fault.op, fault.path.as_str()), ("st", "if[7]/then/0"));
    let FaultCause::OutOfBounds { access } = &fault.cause else { unreachable!("{fault:?}") };
    assert_eq!((access.element, access.byte, access.len_bytes), (100, 400, 400));
    assert_eq!((access.is_store, access.space), (true, Space::Global));
}

#[test]
fn load_before_a_buffer() {
    let (x, out) = (GlobalBuffer::zeros(40), GlobalBuffer::zeros(400));
    check::<InOut>(
        Grid::new([1, 1, 2], [4, 4, 4]),
        &[KernelArg::Buffer(&x), KernelArg::Buffer(&out)],
        |k, (x, out)| {
            let t = k.thread_idx();
            let v = x.load(1 - t.z);
            out.store(0i32, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element -1 (bytes -4 to 0) of parameter `p0`, which has 10 elements (40 bytes), in thread (0, 0, 2) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
}

#[test]
fn the_last_element_of_a_buffer_may_be_cut() {
    // Ten bytes hold two elements, not three.
    let (x, out) = (GlobalBuffer::zeros(10), GlobalBuffer::zeros(400));
    check::<InOut>(
        line(1, 3),
        &[KernelArg::Buffer(&x), KernelArg::Buffer(&out)],
        |k, (x, out)| {
            let t = k.thread_idx().x;
            let v = x.load(t);
            out.store(t, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 2 (bytes 8 to 12) of parameter `p0`, which has 2 elements (10 bytes), in thread (2, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
    let empty = GlobalBuffer::zeros(0);
    check::<InOut>(
        line(1, 3),
        &[KernelArg::Buffer(&empty), KernelArg::Buffer(&out)],
        |_, (x, out)| {
            let v = x.load(0i32);
            out.store(0i32, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 0 (bytes 0 to 4) of parameter `p0`, which has 0 elements (0 bytes), in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
}

#[test]
fn an_index_does_not_wrap_into_the_buffer() {
    let (x, out) = (GlobalBuffer::zeros(400), GlobalBuffer::zeros(400));
    // 2^62 elements of four bytes are 2^64 bytes.
    check::<InOut>(
        line(1, 1),
        &[KernelArg::Buffer(&x), KernelArg::Buffer(&out)],
        |_, (x, out)| {
            let v = x.load(1u64 << 62);
            out.store(0i32, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 4611686018427387904 (bytes 18446744073709551616 to 18446744073709551620) of parameter `p0`, which has 100 elements (400 bytes), in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
    check::<InOut>(
        line(1, 1),
        &[KernelArg::Buffer(&x), KernelArg::Buffer(&out)],
        |_, (x, out)| {
            let far = x.offset(1i64 << 62).offset(-(1i64 << 62));
            let v = far.load(0i32);
            out.store(0i32, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element -2305843009213693952 (bytes -9223372036854775808 to -9223372036854775804) of parameter `p0`, which has 100 elements (400 bytes), in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
    check::<InOut>(
        line(1, 1),
        &[KernelArg::Buffer(&x), KernelArg::Buffer(&out)],
        |_, (x, out)| {
            let v = x.load(u32::MAX);
            out.store(0i32, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 4294967295 (bytes 17179869180 to 17179869184) of parameter `p0`, which has 100 elements (400 bytes), in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
}

#[test]
fn an_index_from_one_shared_allocation_into_the_next() {
    let out = GlobalBuffer::zeros(400);
    let fault = check::<Out>(
        line(1, 40),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let t = k.thread_idx().x;
            let (a, b) = (k.shared::<i32>(36), k.shared::<i32>(40));
            b.store(t, t);
            k.barrier();
            k.if_(t.ge(36), |_| {
                let v = a.load(t);
                out.store(t, v);
            });
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 36 (bytes 144 to 148) of shared memory `shared0`, made at FILE:LINE, which has 36 elements (144 bytes), in thread (36, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or make the allocation larger"
        ],
    );
    let FaultCause::OutOfBounds { access } = &fault.cause else { unreachable!("{fault:?}") };
    assert_eq!((access.space, access.allocation.as_str()), (Space::Shared, "shared0"));
    assert!(access.made.is_some_and(|made| made.line < fault.location.line));
}

#[test]
fn pointers_into_different_allocations_are_checked_apart() {
    let out = GlobalBuffer::zeros(400);
    check::<Out>(
        line(1, 40),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let t = k.thread_idx().x;
            let (a, b) = (k.shared::<i32>(40), k.shared::<i32>(16));
            let p = (t % 2).eq(0).select(a, b);
            p.store(t, t);
            out.store(t, t);
        },
        expect![
            "`st` at FILE:LINE writes i32 element 17 (bytes 68 to 72) of shared memory `shared1`, made at FILE:LINE, which has 16 elements (64 bytes), in thread (17, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or make the allocation larger"
        ],
    );
}

#[test]
fn shared_memory_that_nobody_wrote() {
    let out = GlobalBuffer::zeros(400);
    let fault = check::<Out>(
        line(2, 64),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let t = k.thread_idx().x;
            let s = k.shared::<i32>(64);
            k.if_(t.lt(48) | k.block_idx().x.eq(0), |_| s.store(t, t));
            k.barrier();
            let v = s.load(63 - t);
            out.store(t, v);
        },
        expect![
            "`ld` at FILE:LINE reads i32 element 63 (bytes 252 to 256) of shared memory `shared0`, made at FILE:LINE, of which byte 252 was never written, in thread (0, 0, 0) of block (1, 0, 0) of kernel `wrong`; store every element, and pass a barrier, before you load it; if an `if_` or a predicate guards the store, guard the load too, or store zeros to the other elements"
        ],
    );
    // Block 0 wrote all of it, but what it wrote is gone.
    assert_eq!((fault.block, fault.thread), ([1, 0, 0], [0, 0, 0]));
    let FaultCause::Uninitialised { byte, .. } = fault.cause else { unreachable!("{fault:?}") };
    assert_eq!(byte, 63 * 4);
}

#[test]
fn division_by_zero() {
    let (x, out) = (GlobalBuffer::from_slice(&[1, 2, -7, 0]), GlobalBuffer::zeros(400));
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&out)];
    check::<InOut>(
        line(1, 4),
        &args,
        |k, (x, out)| {
            let t = k.thread_idx().x;
            let v = x.load(t) / (t - 2);
            out.store(t, v);
        },
        expect![
            "`div` at FILE:LINE divides -7 by zero in thread (2, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the divisor with 0 first"
        ],
    );
    check::<InOut>(
        line(1, 4),
        &args,
        |k, (x, out)| {
            let t = k.thread_idx().x;
            let d = x.load(t).cvt::<u8>();
            let v = k.constant(200u8) % d;
            out.store(t, v.cvt::<i32>());
        },
        expect![
            "`rem` at FILE:LINE divides 200 by zero in thread (3, 0, 0) of block (0, 0, 0) of kernel `wrong`; compare the divisor with 0 first"
        ],
    );
    // Lanes that are not active do not divide.
    let kernel = Kernel::<InOut>::build("guarded", Target::SM_80, |k, (x, out)| {
        let t = k.thread_idx().x;
        let d = x.load(t);
        k.if_(d.ne(0), |_| out.store(t, 100 / d));
    })
    .expect("it verifies");
    run(kernel.ir(), line(1, 4), &args, &Options::default()).expect("it has no fault");
    assert_eq!(out.to_vec::<i32>()[..4], [100, 50, -14, 0]);
}

#[test]
fn a_step_that_is_not_positive() {
    let (x, out) = (GlobalBuffer::from_slice(&[1, 2, -7, 0]), GlobalBuffer::zeros(400));
    let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&out)];
    let fault = check::<InOut>(
        line(1, 4),
        &args,
        |k, (x, out)| {
            let t = k.thread_idx().x;
            let step = x.load(t);
            k.for_(range(0, 10).step(step), (), |_, i, ()| out.store(i, t));
        },
        expect![
            "`for` at FILE:LINE has the step -7, which is not positive, in thread (2, 0, 0) of block (0, 0, 0) of kernel `wrong`; pass a positive step"
        ],
    );
    assert_eq!(fault.cause, FaultCause::StepNotPositive { step: (-7i32).to_const() });
    // Also where there is nothing to iterate over, and for unsigned indices.
    check::<InOut>(
        line(1, 4),
        &args,
        |k, (x, out)| {
            let t = k.thread_idx().x;
            let step = x.load(t).cvt::<u64>();
            k.for_(range(10, 0).step(step), (), |_, _, ()| out.store(t, t));
        },
        expect![
            "`for` at FILE:LINE has the step 0, which is not positive, in thread (3, 0, 0) of block (0, 0, 0) of kernel `wrong`; pass a positive step"
        ],
    );
}

#[test]
fn a_barrier_in_one_arm() {
    let out = GlobalBuffer::zeros(400);
    let args = [KernelArg::Buffer(&out)];
    let fault = check_by_thread::<Out>(
        line(1, 64),
        &args,
        |k, (out,)| {
            let t = k.block_idx().x;
            k.if_else(t.lt(40), |k| k.barrier(), |_| out.store(t, t));
        },
        expect![
            "`barrier` at FILE:LINE is reached by thread (32, 0, 0) of block (0, 0, 0) of kernel `wrong`, but not by thread (40, 0, 0) of the same warp, which diverges at the `if` at FILE:LINE; move the barrier to where all threads of the block reach it"
        ],
    );
    assert_eq!((fault.op, fault.thread), ("barrier", [32, 0, 0]));
    let FaultCause::BarrierDivergence { other, op } = fault.cause else {
        unreachable!("{fault:?}")
    };
    assert_eq!((other, op.name), ([40, 0, 0], "if"));
    assert_eq!(op.location.line, fault.location.line);

    check_by_thread::<Out>(
        line(1, 64),
        &args,
        |k, (out,)| {
            let t = k.block_idx().x;
            k.if_(t.gt(7), |k| {
                out.store(t, t);
                k.barrier();
            });
        },
        expect![
            "`barrier` at FILE:LINE is reached by thread (8, 0, 0) of block (0, 0, 0) of kernel `wrong`, but not by thread (0, 0, 0) of the same warp, which diverges at the `if` at FILE:LINE; move the barrier to where all threads of the block reach it"
        ],
    );
}

#[test]
fn a_barrier_in_a_divergent_loop() {
    let out = GlobalBuffer::zeros(400);
    let args = [KernelArg::Buffer(&out)];
    check_by_thread::<Out>(
        line(1, 32),
        &args,
        |k, (out,)| {
            let t = k.block_idx().x;
            k.for_(range(0, t % 4 + 1), (), |k, i, ()| {
                k.barrier();
                out.store(t, i);
            });
        },
        expect![
            "`barrier` at FILE:LINE is reached by thread (1, 0, 0) of block (0, 0, 0) of kernel `wrong`, but not by thread (0, 0, 0) of the same warp, which diverges at the `for` at FILE:LINE; move the barrier to where all threads of the block reach it"
        ],
    );
    // The same number of iterations in all lanes of a warp is enough.
    let kernel = Kernel::<Out>::build("right", Target::SM_80, |k, (out,)| {
        let t = k.block_idx().x;
        k.for_(range(0, t / 32 + 3), (), |k, i, ()| {
            k.barrier();
            out.store(t, i);
        });
    })
    .expect("it verifies");
    run(&by_thread(kernel.ir()), line(1, 64), &args, &Options::default()).expect("it has no fault");
}

#[test]
fn the_lowest_block_is_reported() {
    // All blocks from the third on fault; they run in parallel, and later ones fault sooner.
    let out = GlobalBuffer::zeros(400);
    let fault = check::<Out>(
        line(64, 32),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let b = k.block_idx().x;
            let n = k.for_(range(0, (64 - b) * 50), 0, |_, i, n| n + i);
            out.store(b.gt(2).select(-1, b), n);
        },
        expect![
            "`st` at FILE:LINE writes i32 element -1 (bytes -4 to 0) of parameter `p0`, which has 100 elements (400 bytes), in thread (0, 0, 0) of block (3, 0, 0) of kernel `wrong`; compare the index with the length first (`k.if_`), or pass a larger buffer"
        ],
    );
    assert_eq!(fault.block, [3, 0, 0]);
}

#[test]
fn what_was_done_before_a_fault_stays() {
    let out = GlobalBuffer::from_slice(&[7i32; 8]);
    let kernel = Kernel::<Out>::build("late", Target::SM_80, |k, (out,)| {
        let t = k.thread_idx().x;
        out.store(t, t);
        let p: Val<'_, GlobalMut<i32>> = out.offset(8);
        p.store(t, t);
    })
    .expect("it verifies");
    assert!(run(kernel.ir(), line(1, 8), &[KernelArg::Buffer(&out)], &Options::default()).is_err());
    assert_eq!(out.to_vec::<i32>(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_warp_operation_of_a_stranger() {
    let out = GlobalBuffer::zeros(4 * 32);
    check::<Out>(
        line(1, 32),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let sum = k.redux_add(0xffff, k.lane_id());
            out.store(0, sum);
        },
        expect![
            "`redux` at FILE:LINE names lanes 0 to 15 as members, but not the lane that executes it, in thread (16, 0, 0) of block (0, 0, 0) of kernel `wrong`"
        ],
    );
}

#[test]
fn a_warp_operation_with_other_members() {
    let out = GlobalBuffer::zeros(4 * 32);
    check::<Out>(
        line(1, 32),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let members = k.lane_id().lt(8).select(0xffffu32, 0xffff_ffffu32);
            let sum = k.redux_add(members, k.lane_id());
            out.store(0, sum);
        },
        expect![
            "`redux` at FILE:LINE names lanes 0 to 15 as members in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`, but thread (8, 0, 0), one of the members, names others"
        ],
    );
}

#[test]
fn a_warp_operation_without_a_member() {
    let out = GlobalBuffer::zeros(4 * 64);
    let fault = check::<Out>(
        line(1, 64),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let lane = k.lane_id();
            // Mask and condition do not agree.
            k.if_(lane.lt(8), |k| {
                let sum = k.redux_add(0x1ff, lane);
                out.store(0, sum);
            });
        },
        expect![
            "`redux` at FILE:LINE names lanes 0 to 8 as members in thread (0, 0, 0) of block (0, 0, 0) of kernel `wrong`, but thread (8, 0, 0), one of the members, does not reach it: it diverges at the `if` at FILE:LINE"
        ],
    );
    let FaultCause::MissingMember { members, other, op, .. } = fault.cause else { unreachable!() };
    assert_eq!((members, other, op.name), (0x1ff, [8, 0, 0], "if"));
}

#[test]
fn a_shuffle_from_a_lane_that_is_elsewhere() {
    let out = GlobalBuffer::zeros(4 * 32);
    check::<Out>(
        line(1, 32),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let lane = k.lane_id();
            k.if_(lane.lt(8), |k| {
                let next = k.shfl_down(0xff, lane, 1);
                out.store(lane, next);
            });
        },
        expect![
            "`shfl` at FILE:LINE reads lane 8, but is executed only by lanes 0 to 7, in thread (7, 0, 0) of block (0, 0, 0) of kernel `wrong`"
        ],
    );
    // The last warp of the block has eight threads.
    check::<Out>(
        line(1, 40),
        &[KernelArg::Buffer(&out)],
        |k, (out,)| {
            let lane = k.lane_id();
            let other = k.shfl_bfly(0xffff_ffff, lane, 8);
            out.store(lane, other);
        },
        expect![
            "`shfl` at FILE:LINE reads lane 8, but is executed only by lanes 0 to 7, in thread (32, 0, 0) of block (0, 0, 0) of kernel `wrong`"
        ],
    );
}

#[test]
fn traps_and_breakpoints() {
    check::<()>(
        line(1, 40),
        &[],
        |k, ()| k.if_(k.thread_idx().x.gt(35), |k| k.trap()),
        expect![
            "`trap` at FILE:LINE is executed by thread (36, 0, 0) of block (0, 0, 0) of kernel `wrong`"
        ],
    );
    check::<()>(
        line(3, 40),
        &[],
        |k, ()| k.if_(k.block_idx().x.gt(0), |k| k.brkpt()),
        expect![
            "`brkpt` at FILE:LINE is executed by thread (0, 0, 0) of block (1, 0, 0) of kernel `wrong`"
        ],
    );
}

#[test]
fn accesses_without_an_order_are_a_race() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("race", Target::SM_80, |k, (x,)| {
        x.store(3, k.block_idx().x);
    })
    .expect("it verifies");
    let x = GlobalBuffer::zeros(16);
    let (grid, args) = (Grid::new([2, 1, 1], [1, 1, 1]), [KernelArg::Buffer(&x)]);
    let unchecked = Options::default().race(false);
    run(kernel.ir(), grid, &args, &unchecked).expect("races are not detected");
    let error = run(kernel.ir(), grid, &args, &Options::default().race(true)).unwrap_err();
    let Some(Fault { cause: FaultCause::Race { access, other, .. }, .. }) = error.fault() else {
        panic!("{error}")
    };
    assert_eq!((access.element, other.block, other.thread), (3, [0; 3], [0; 3]));
    let text = error.to_string();
    assert!(text.contains(" writes i32 element 3 (bytes 12 to 16) of parameter `p0`"), "{text}");
    assert!(text.contains("no release and acquire with scope gpu orders the two blocks"), "{text}");
}

/// A tensor map that a kernel makes is of elements inside of the buffer of its parameter, and is
/// made before it is taken.
#[test]
fn tensor_maps_in_memory() {
    type Params = (TensorMap<f32, 2>, Global<f32>, GlobalMut<u64>, [u64; 2]);
    let kernel =
        Kernel::<Params>::build("wrong", Target::SM_90A, |k, (map, x, maps, [rows, pitch])| {
            map.tensormap_replace(maps, x.offset(4), [k.constant(8u64), rows], &[pitch]);
            k.prefetch_tensormap(map.tensormap_acquire(maps));
        })
        .unwrap();
    let (x, maps) = (GlobalBuffer::zeros(4 * 64), GlobalBuffer::zeros(128));
    let map = TensorMapDesc::new(Scalar::F32, &[8, 8], &[32], &[4, 1]).unwrap();
    let run_with = |rows: u64, pitch: u64| {
        let number = |number| KernelArg::Scalar(Const::new(Scalar::U64, number));
        let args = [
            KernelArg::TensorMap(&map, &x),
            KernelArg::Buffer(&x),
            KernelArg::Buffer(&maps),
            number(rows),
            number(pitch),
        ];
        let grid = Grid::new([1, 1, 1], [1, 1, 1]);
        run(kernel.ir(), grid, &args, &Options::default()).map(|_| ())
    };
    // 7 rows of 8 elements from element 4 on, and two that lie further apart.
    assert!(run_with(7, 32).is_ok() && run_with(2, 192).is_ok());
    for (rows, pitch, end) in [(8, 32, 272), (2, 224, 272)] {
        let error = run_with(rows, pitch).unwrap_err();
        let expected = FaultCause::MapBounds { end, buffer_bytes: 256 };
        assert_eq!(error.fault().map(|fault| &fault.cause), Some(&expected), "{error}");
    }
}
