//! Checks the limits of the simulator.
//!
//! Launches do not fit the kernel, kernels do not end or have an unusual shape, IR is not verified.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use tilewright::arch::TensorMapDesc;
use tilewright::ir::op::{
    Arith, Control, LoadAccess, Mem, MemScope, Op, SpecialReg, StoreAccess, Thread,
};
use tilewright::ir::types::{Const, Scalar, Type};
use tilewright::ir::{
    Element, Entity, Global, GlobalMut, Kernel, KernelIr, KernelOptions, OpData, OpId, Param,
    Region, RegionId, SourceLocation, Target, TensorMap, Value, ValueData, ValueDef, range,
};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Order, RunError, run};

/// The message with the line numbers of this file taken out.
fn text(error: &RunError) -> String {
    let mut text = String::new();
    for (i, part) in error.to_string().split(concat!(file!(), ":")).enumerate() {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        text += &if i == 0 { part.to_owned() } else { format!("FILE:LINE{}", &part[end..]) };
    }
    text
}

#[track_caller]
fn check_refused(kernel: &KernelIr, grid: Grid, args: &[KernelArg<'_>], expected: Expect) {
    let error = run(kernel, grid, args, &Options::default()).expect_err("it does not fit");
    assert_eq!(error.fault(), None);
    expected.assert_eq(&error.to_string());
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    type Params = (f32, Global<f32>);
    let options = KernelOptions::default().block([64, 1, 1]);
    let fixed = Kernel::<Params>::build_with(options, "fixed", Target::SM_80, |_, _| ())
        .expect("the kernel is correct");
    let kernel =
        Kernel::<Params>::build("free", Target::SM_80, |_, _| ()).expect("the kernel is correct");
    let x = GlobalBuffer::zeros(4);
    let (two, int) = (KernelArg::Scalar(2.0f32.to_const()), KernelArg::Scalar(2i32.to_const()));
    let (x, one) = (KernelArg::Buffer(&x), Grid::new([1; 3], [64, 1, 1]));
    assert!(run(kernel.ir(), one, &[two, x], &Options::default()).is_ok());
    check_refused(
        kernel.ir(),
        one,
        &[two],
        expect!["the kernel has 2 parameters, but the launch passes 1 arguments"],
    );
    check_refused(
        kernel.ir(),
        one,
        &[int, x],
        expect!["parameter `p0` is f32, but the argument is i32"],
    );
    check_refused(
        kernel.ir(),
        one,
        &[x, x],
        expect!["parameter `p0` is f32, but the argument is a buffer"],
    );
    check_refused(
        kernel.ir(),
        one,
        &[two, two],
        expect!["parameter `p1` is ptr<global, f32>, but the argument is f32"],
    );
    check_refused(
        fixed.ir(),
        Grid::new([1; 3], [32, 1, 1]),
        &[two, x],
        expect![
            "the kernel is built for blocks of 64 x 1 x 1 threads, but is launched with 32 x 1 x 1"
        ],
    );
    check_refused(
        kernel.ir(),
        Grid::new([1, 65536, 1], [1, 1, 1]),
        &[two, x],
        expect![
            "a grid of 1 x 65536 x 1 blocks is not possible: at most 2147483647 x 65535 x 65535, and none zero"
        ],
    );
    for threads in [[0, 1, 1], [1025, 1, 1], [32, 33, 1], [1, 1, 65], [u32::MAX; 3]] {
        let error = run(kernel.ir(), Grid::new([1; 3], threads), &[two, x], &Options::default());
        assert_eq!(error, Err(RunError::BlockSize { threads }));
    }
    for blocks in [[0, 1, 1], [1, 0, 1], [1 << 31, 1, 1], [1, 1, 65536]] {
        let error = run(kernel.ir(), Grid::new(blocks, [1; 3]), &[two, x], &Options::default());
        assert_eq!(error, Err(RunError::GridSize { blocks }));
    }
}

#[test]
fn tensor_maps_that_do_not_fit_are_refused() {
    let kernel = Kernel::<(TensorMap<f32, 2>,)>::build("maps", Target::SM_90, |_, _| ())
        .expect("the kernel is correct");
    let map = |dims: &[u64], strides: &[u64], in_box: &[u32]| {
        TensorMapDesc::new(Scalar::F32, dims, strides, in_box).expect("the map is possible")
    };
    let (plane, line) = (map(&[8, 4], &[32], &[4, 4]), map(&[8], &[], &[4]));
    let (fits, short) = (GlobalBuffer::zeros(128), GlobalBuffer::zeros(124));
    let grid = Grid::new([1; 3], [32, 1, 1]);
    let args = [KernelArg::TensorMap(&plane, &fits)];
    assert!(run(kernel.ir(), grid, &args, &Options::default()).is_ok());
    check_refused(
        kernel.ir(),
        grid,
        &[KernelArg::TensorMap(&plane, &short)],
        expect![
            "the tensor map of parameter `p0` has a tensor of 128 bytes, but its buffer has 124"
        ],
    );
    check_refused(
        kernel.ir(),
        grid,
        &[KernelArg::TensorMap(&line, &fits)],
        expect![
            "parameter `p0` is tensor_map<f32, 2>, but the argument is a tensor map of f32 (8) by (4) bytes, box (4)"
        ],
    );
    check_refused(
        kernel.ir(),
        grid,
        &[KernelArg::Buffer(&fits)],
        expect!["parameter `p0` is tensor_map<f32, 2>, but the argument is a buffer"],
    );
}

#[test]
fn launches_beyond_the_bounds_of_the_kernel_are_refused() {
    let build = |options| {
        Kernel::<()>::build_with(options, "bounded", Target::SM_90A, |_, ()| ())
            .expect("the kernel is correct")
    };
    let bounded = build(KernelOptions::default().max_threads(64));
    let grid = Grid::new([1; 3], [8, 8, 1]);
    assert!(run(bounded.ir(), grid, &[], &Options::default()).is_ok());
    check_refused(
        bounded.ir(),
        Grid::new([1; 3], [8, 9, 1]),
        &[],
        expect![
            "the kernel is built for blocks of at most 64 threads, but is launched with 8 x 9 x 1"
        ],
    );
    let clustered = build(KernelOptions::default().cluster_at_launch());
    assert!(run(clustered.ir(), grid.cluster([1; 3]), &[], &Options::default()).is_ok());
    check_refused(
        clustered.ir(),
        grid,
        &[],
        expect![
            "the kernel cannot be launched in these clusters: it leaves the cluster size to the launch, which sets none: call `Grid::cluster`"
        ],
    );
}

/// A block has all the shared memory that its target has, not only what needs no asking.
#[test]
fn shared_memory_beyond_48_kibibytes() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("large", Target::SM_90A, |k, (x,)| {
        let (tile, i) = (k.shared::<i32>(227 * 256), k.thread_idx().x);
        k.for_(range(0, 227 * 256 / 64), (), |_, step, ()| {
            let at = step * 64 + i;
            tile.store(at, at * 3);
        });
        k.barrier();
        x.store(i, tile.load(227 * 256 - 1 - i));
    })
    .expect("the kernel is correct");
    let x = GlobalBuffer::from_slice(&[0i32; 64]);
    let grid = Grid::new([1; 3], [64, 1, 1]);
    run(kernel.ir(), grid, &[KernelArg::Buffer(&x)], &Options::default()).expect("it runs");
    let expected: Vec<i32> = (0..64).map(|i| 3 * (227 * 256 - 1 - i)).collect();
    assert_eq!(x.to_vec::<i32>(), expected);
}

#[test]
fn endless_kernels_run_out_of_fuel() {
    let empty = Kernel::<()>::build("empty", Target::SM_80, |k, ()| {
        k.loop_::<_, ()>((), |k, lp, ()| lp.continue_(k, ()));
    });
    let barriers = Kernel::<()>::build("barriers", Target::SM_80, |k, ()| {
        k.if_(k.thread_idx().x.lt(32), |k| k.return_());
        k.loop_::<_, ()>((), |k, lp, ()| {
            k.barrier();
            lp.continue_(k, ())
        });
    });
    let long = Kernel::<()>::build("long", Target::SM_80, |k, ()| {
        k.if_(k.block_idx().x.eq(3), |k| {
            k.for_(range(0u64, u64::MAX), (), |_, _, ()| ());
        });
    });
    let check = |kernel: &KernelIr, expected: Expect| {
        for order in [Order::RoundRobin, Order::Random { seed: 3 }] {
            let options = Options::default().fuel(20_000).order(order);
            let grid = Grid::new([8, 1, 1], [64, 1, 1]);
            let error = run(kernel, grid, &[], &options).expect_err("it does not end");
            if order == Order::RoundRobin {
                // The hot lines follow.
                expected.assert_eq(text(&error).lines().next().unwrap_or_default());
            }
            assert!(matches!(error, RunError::OutOfFuel { fuel: 20_000, .. }), "{error:?}");
        }
    };
    check(
        empty.expect("the kernel is correct").ir(),
        expect![
            "block (0, 0, 0) has not ended after 20000 operations, when thread (0, 0, 0) is at the `continue` at FILE:LINE the kernel does not end, or `Options::fuel` is too low for it"
        ],
    );
    check(
        barriers.expect("the kernel is correct").ir(),
        expect![
            "block (0, 0, 0) has not ended after 20000 operations, when thread (32, 0, 0) is at the `continue` at FILE:LINE the kernel does not end, or `Options::fuel` is too low for it"
        ],
    );
    check(
        long.expect("the kernel is correct").ir(),
        expect![
            "block (3, 0, 0) has not ended after 20000 operations, when thread (0, 0, 0) is at the `continue` at FILE:LINE the kernel does not end, or `Options::fuel` is too low for it"
        ],
    );
}

/// The lines of the loop that does not end are named, and no line before it.
#[test]
fn endless_kernels_name_their_hot_lines() {
    let first = line!();
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("spin", Target::SM_80, |k, (x,)| {
        k.for_(range(0, 100), (), |_, i, ()| x.store(i % 8, i));
        k.barrier();
        k.loop_((), |k, spin, ()| {
            let found = x.load(9);
            k.if_(found.eq(1), |k| spin.break_(k, ()));
            spin.continue_(k, ())
        });
    });
    let x = GlobalBuffer::from_slice(&[0i32; 10]);
    for order in [Order::RoundRobin, Order::Random { seed: 5 }, Order::Fine] {
        let options = Options::default().fuel(10_000).order(order);
        let grid = Grid::new([1; 3], [64, 1, 1]);
        let kernel = kernel.as_ref().expect("the kernel is correct").ir();
        let error = run(kernel, grid, &[KernelArg::Buffer(&x)], &options.race(false));
        let Err(RunError::OutOfFuel { hot, .. }) = &error else { panic!("{error:?}") };
        let lines: Vec<u32> = hot.iter().map(|line| line.location.line - first).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| (4..=7).contains(line)), "{hot:?}");
        for line in hot {
            let (location, percent) = (line.location, line.percent);
            let line = format!("\n  {percent} % of the operations that followed: {location}");
            let text = error.as_ref().expect_err("it does not end").to_string();
            assert!(text.contains(&line), "{text}");
        }
        let percent: Vec<u32> = hot.iter().map(|line| line.percent).collect();
        assert!(percent.is_sorted_by(|a, b| a >= b) && percent.iter().sum::<u32>() > 90, "{hot:?}");
    }
}

#[test]
fn a_warp_that_spins_lets_the_others_run() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("spin", Target::SM_80, |k, (out,)| {
        let t = k.thread_idx().x;
        let flag = k.shared::<i32>(1);
        k.if_(t.eq(0), |_| flag.store(0i32, 0));
        k.barrier();
        k.if_else(
            t.lt(32),
            |k| {
                let seen = k.loop_((), |k, lp, ()| {
                    let access = LoadAccess::default().relaxed(MemScope::Cta);
                    let seen = flag.load_with(0i32, access);
                    k.if_(seen.ne(0), |k| lp.break_(k, seen));
                    lp.continue_(k, ())
                });
                out.store(t, seen);
            },
            |k| {
                let access = StoreAccess::default().relaxed(MemScope::Cta);
                k.if_(t.eq(63), |_| flag.store_with(0i32, 5, access));
            },
        );
    })
    .expect("the kernel is correct");
    for order in [Order::RoundRobin, Order::Random { seed: 3 }] {
        let out = GlobalBuffer::zeros(32 * 4);
        let grid = Grid::new([1; 3], [64, 1, 1]);
        let options = Options::default().order(order);
        run(kernel.ir(), grid, &[KernelArg::Buffer(&out)], &options).expect("it ends");
        assert_eq!(out.to_vec::<i32>(), [5; 32]);
    }
}

#[test]
fn many_constants_and_many_values_need_no_more_than_their_due() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("constants", Target::SM_80, |k, (out,)| {
        let t = k.thread_idx().x;
        // More constants than keep a slot; some are used again.
        let sum = (0..6000).fold(t, |sum, i| sum + i * 7 + (i % 5) * 7);
        let wide = (0..6000i64).fold(k.constant(0i64), |sum, i| sum + ((i << 33) + i));
        out.store(t, sum + (wide % 1000).cvt::<i32>());
    })
    .expect("the kernel is correct");
    let out = GlobalBuffer::zeros(40 * 4);
    let grid = Grid::new([1; 3], [40, 1, 1]);
    run(kernel.ir(), grid, &[KernelArg::Buffer(&out)], &Options::default())
        .expect("it has no fault");
    let wide = (0..6000i64).map(|i| (i << 33) + i).sum::<i64>() % 1000;
    let sum = (0..6000).map(|i| i * 7 + i % 5 * 7).sum::<i32>() + wide as i32;
    assert_eq!(out.to_vec::<i32>(), (0..40).map(|t| sum + t).collect::<Vec<_>>());

    let kernel = Kernel::<()>::build("registers", Target::SM_80, |k, ()| {
        k.registers::<f32>(65_536);
    })
    .expect("the kernel is correct");
    check_refused(
        kernel.ir(),
        Grid::new([1; 3], [1; 3]),
        &[],
        expect![
            "a thread of the kernel holds more than 8192 values at once: use fewer register variables"
        ],
    );
}

/// A kernel made as data.
struct Made {
    ir: KernelIr,
    location: tilewright::ir::LocationId,
}

impl Made {
    fn new() -> Made {
        let mut ir = KernelIr::new("made", Target::SM_80);
        let location = ir.location(SourceLocation { file: "made.rs", line: 1, column: 1 });
        let ty = Type::Pointer {
            space: tilewright::ir::types::Space::Global,
            elem: Scalar::I32,
            mutable: true,
        };
        let (region, def) = (ir.body, ValueDef::Param(0));
        let value = ir.values.push(ValueData { ty, def, region, location });
        ir.params.push(Param { name: "out".to_owned(), value });
        Made { ir, location }
    }

    fn op(&mut self, region: RegionId, op: impl Into<Op>) -> OpId {
        let (op, location) = (op.into(), self.location);
        let ty = op.result_types(&self.ir).pop();
        let id = self.ir.ops.push(OpData { op, results: Default::default(), region, location });
        self.ir.regions[region].ops.push(id);
        if let Some(ty) = ty {
            let def = ValueDef::Result(id, 0);
            let value = self.ir.values.push(ValueData { ty, def, region, location });
            self.ir.ops[id].results.push(value);
        }
        id
    }

    fn value(&mut self, region: RegionId, op: impl Into<Op>) -> Value {
        let id = self.op(region, op);
        self.ir.ops[id].results[0]
    }
}

#[test]
fn nesting_has_no_limit() {
    let mut made = Made::new();
    let body = made.ir.body;
    let reg = SpecialReg::LaneId;
    let lane = made.value(body, Thread::Sreg { reg });
    let limit = made.value(body, Op::Const(Const::new(Scalar::I32, 20)));
    let compare = tilewright::ir::op::Compare::Lt;
    let cond = made.value(body, Arith::Setp { lhs: lane, rhs: limit, compare });
    let mut regions = vec![body];
    for _ in 0..50_000 {
        let parent = regions[regions.len() - 1];
        let then_region = made.ir.regions.push(Region::default());
        let op = made.op(parent, Control::If { cond, then_region, else_region: None });
        made.ir.regions[then_region].parent = Some(op);
        regions.push(then_region);
    }
    let innermost = regions[regions.len() - 1];
    let base = made.ir.params[0].value;
    made.op(innermost, Mem::St { base, index: lane, value: lane, access: Default::default() });
    for region in regions.into_iter().skip(1).rev() {
        made.op(region, Control::Yield { values: Default::default() });
    }
    made.op(body, Control::Return);

    let grid = Grid::new([1; 3], [32, 1, 1]);
    let run =
        |out: &GlobalBuffer| run(&made.ir, grid, &[KernelArg::Buffer(out)], &Options::default());
    let out = GlobalBuffer::from_slice(&[-1; 32]);
    assert!(run(&out).is_ok());
    let expected: Vec<i32> = (0..32).map(|lane| if lane < 20 { lane } else { -1 }).collect();
    assert_eq!(out.to_vec::<i32>(), expected);
    // The path in the message is as deep.
    let error = run(&GlobalBuffer::zeros(4 * 4)).expect_err("element 4 is outside");
    assert!(error.fault().is_some_and(|fault| fault.path.ends_with("/if[0]/then/0")));
}

/// A kernel with every kind of operation.
fn everything() -> KernelIr {
    let kernel = Kernel::<(GlobalMut<i32>, f32)>::build("all", Target::SM_80, |k, (out, a)| {
        let t = k.thread_idx().x;
        let s = k.shared::<i32>(64);
        s.store(t, t);
        k.barrier();
        let regs = k.registers::<i32>(2);
        regs.fill(1);
        let p = t.lt(3).select(s, s.offset(1));
        let (x, _) = k.for_(range(0, t + 1), (0, p), |_, i, (x, q)| {
            let (old, v) = (regs.get(0), q.load(0i32));
            regs.set(1, old + v / (i + 1));
            (x + v, p)
        });
        let y = k.loop_((x, a), |k, lp, (n, b)| {
            k.if_(n.le(0), |k| lp.break_(k, b.sqrt().cvt::<i32>()));
            k.if_(n.gt(1000), |k| k.return_());
            let b = k.if_else(b.lt(8.0), |k| k.yield_(b.fma(2.0, 1.0)), |k| k.yield_(-b));
            lp.continue_(k, (n - 3, b))
        });
        out.store(t, y + regs.get(1) + (t << 2u32) + t.min(3));
    });
    kernel.expect("the kernel is correct").ir().clone()
}

fn run_everything(ir: &KernelIr) -> Result<Vec<i32>, RunError> {
    let out = GlobalBuffer::zeros(64 * 4);
    let args = [KernelArg::Buffer(&out), KernelArg::Scalar(1.5f32.to_const())];
    let options = Options::default().fuel(5_000);
    run(ir, Grid::new([2, 1, 1], [40, 1, 1]), &args, &options)?;
    Ok(out.to_vec())
}

#[test]
fn a_kernel_with_everything_runs() {
    let found = run_everything(&everything()).expect("it has no fault");
    assert!(found[..40].iter().all(|x| *x != 0) && found[40..].iter().all(|x| *x == 0));
}

/// One change that most often breaks a rule of the verifier.
#[derive(Clone, Debug)]
enum Damage {
    ReplaceOp(usize, usize),
    RemoveOp(usize, usize),
    MoveOp(usize, usize),
    ChangeType(usize, usize),
    DropResult(usize),
    DropArgument(usize),
}

fn damage(ir: &mut KernelIr, damage: &Damage) {
    let op = |ir: &KernelIr, n: usize| OpId::from_index(n % ir.ops.len());
    let region = |ir: &KernelIr, n: usize| RegionId::from_index(n % ir.regions.len());
    match *damage {
        Damage::ReplaceOp(a, b) => {
            let (a, b) = (op(ir, a), op(ir, b));
            ir.ops[a].op = ir.ops[b].op.clone();
        }
        Damage::RemoveOp(r, n) => {
            let r = region(ir, r);
            let ops = &mut ir.regions[r].ops;
            if !ops.is_empty() {
                ops.remove(n % ops.len());
            }
        }
        Damage::MoveOp(r, n) => {
            let (r, n) = (region(ir, r), op(ir, n));
            ir.regions[r].ops.insert(0, n);
        }
        Damage::ChangeType(v, s) => {
            let v = Value::from_index(v % ir.values.len());
            ir.values[v].ty = Scalar::ALL[s % Scalar::ALL.len()].into();
        }
        Damage::DropResult(n) => {
            let n = op(ir, n);
            ir.ops[n].results.pop();
        }
        Damage::DropArgument(r) => {
            let r = region(ir, r);
            ir.regions[r].args.pop();
        }
    }
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let n = || any::<prop::sample::Index>().prop_map(|i| i.index(1 << 16));
    prop_oneof![
        (n(), n()).prop_map(|(a, b)| Damage::ReplaceOp(a, b)),
        (n(), n()).prop_map(|(a, b)| Damage::RemoveOp(a, b)),
        (n(), n()).prop_map(|(a, b)| Damage::MoveOp(a, b)),
        (n(), n()).prop_map(|(a, b)| Damage::ChangeType(a, b)),
        n().prop_map(Damage::DropResult),
        n().prop_map(Damage::DropArgument),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// IR that the verifier refuses has no meaning; it is refused here too, or does something, but
    /// it never panics.
    #[test]
    fn damaged_ir_does_not_panic(damages in prop::collection::vec(any_damage(), 1..4)) {
        let mut ir = everything();
        for one in &damages {
            damage(&mut ir, one);
        }
        let _ = run_everything(&ir);
    }
}
