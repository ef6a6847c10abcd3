//! Random programs give the same on a GPU as on the simulator.
//!
//! With `TILEWRIGHT_GPU=1`, else there is nothing to compare with. `TILEWRIGHT_CASES` says how many
//! programs run, `TILEWRIGHT_RANDOM_SEED` starts elsewhere.

use std::collections::BTreeSet;

use crate::support::{any_buffer, device, random_kernel, random_loops, rng};

use any_buffer::{AnyBuffer, OfElement, is_nan, upload, with_element};
use random_loops::{READ, THREADS};
use rng::Rng;
use tilewright::codegen::Module;
use tilewright::ir::op::{Arith, Cache, Convert, FloatArith, Mem, Op, SpecialReg, Sync, Thread};
use tilewright::ir::types::{Scalar, Type};
use tilewright::ir::{Element, Kernel, KernelIr, Target, Untyped};
use tilewright::runtime::{Arg, Device, Function, Grid, LoadOptions};
use tilewright::sim::{Options, Output};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

/// Kernels that are compiled together: a single one takes a driver nearly as long.
const MODULE: usize = 50;

/// Loads kernels on a GPU.
fn load(gpu: &Device, kernels: &[Kernel<Untyped>]) -> Vec<Function<Untyped>> {
    let mut functions = Vec::new();
    for part in kernels.chunks(MODULE) {
        let mut module = Module::new(part[0].target());
        part.iter().for_each(|kernel| module.add(kernel).unwrap());
        let options = LoadOptions::default().cache(None);
        let loaded = gpu.load_module_with(options, &module).unwrap();
        functions.extend(part.iter().map(|kernel| loaded.function(kernel).unwrap()));
    }
    functions
}

/// Control flow in every form, as it was built and after loops are unrolled and fetch ahead, on two
/// warps.
#[test]
fn random_loops_are_the_same_everywhere() {
    let Some(gpu) = device::wanted_gpu() else { return };
    let sim = Device::sim().unwrap();
    let (count, seed) = (number("TILEWRIGHT_CASES", 300), number("TILEWRIGHT_RANDOM_SEED", 1));
    let mut kernels = Vec::new();
    for case in 0..count {
        let (mut ir, _) = random_loops::random_loops(&mut Rng::new(seed.wrapping_add(case)));
        ir.name = format!("loops_{case}");
        let mut lowered = Kernel::verify(ir.clone()).unwrap().lower().unwrap().ir().clone();
        lowered.name = format!("lowered_{case}");
        kernels.extend([ir, lowered].map(|ir| Kernel::verify(ir).unwrap()));
    }
    let x: Vec<i32> = (0..READ as i32).map(|i| (i * 37 + 11) % 101 - 40).collect();
    for (kernel, on_gpu) in kernels.iter().zip(load(&gpu, &kernels)) {
        let on_sim = sim.load(kernel).unwrap();
        for n in [-1, 3, 6] {
            let [expected, found] = [(&sim, &on_sim), (&gpu, &on_gpu)].map(|(device, f)| {
                let x = device.upload(&x).unwrap();
                let mut y = device.zeros::<i32>(THREADS as usize).unwrap();
                let args = vec![Arg::from(&x), Arg::from(&mut y), Arg::from(n)];
                f.launch(Grid::new([1; 3], [THREADS, 1, 1]), args).unwrap();
                y.to_vec().unwrap()
            });
            assert_eq!(found, expected, "with n = {n}:\n{kernel}");
        }
    }
}

/// Returns true if one thread alone in its grid computes the same in every run and on every device,
/// but for the bits of NaN. The kernel has no approximation, reads no register that differs by
/// device or time, and reads no bits of a NaN.
fn is_determined(ir: &KernelIr) -> bool {
    let is_map = |ty: Type| matches!(ty, Type::TensorMap { .. });
    let may_be_nan = |value| {
        let elem = match ir.type_of(value) {
            Type::Vector(vector) => Some(vector.elem()),
            ty => ty.scalar(),
        };
        elem.is_none_or(Scalar::is_float)
    };
    !ir.values.iter().any(|(_, data)| is_map(data.ty))
        && ir.ops.iter().all(|(_, data)| match &data.op {
            Op::Thread(Thread::Sreg { reg }) => is_of_the_launch(*reg),
            Op::Convert(Convert::Bitcast { value, .. }) => !may_be_nan(*value),
            // The sign of a NaN is one of its bits.
            Op::Arith(op) => !matches!(op, Arith::Copysign { .. }),
            Op::FloatArith(op) => {
                !matches!(op, FloatArith::Approx { .. } | FloatArith::DivApprox { .. })
            }
            Op::IntArith(_) | Op::Convert(_) => true,
            // What is discarded may be anything.
            Op::Cache(op) => !matches!(op, Cache::Discard { .. }),
            // Each device has addresses of its own.
            Op::Mem(op) => !matches!(op, Mem::PtrToInt { .. } | Mem::IntToPtr { .. }),
            // A named barrier counts whole warps, and there is one thread.
            Op::Sync(op) => !matches!(
                op,
                Sync::BarrierSync { .. }
                    | Sync::BarrierArrive { .. }
                    | Sync::BarrierRed { .. }
                    | Sync::BarrierRedPopc { .. }
            ),
            // Without a debugger a breakpoint is a trap.
            Op::Thread(op) => matches!(op, Thread::Nanosleep { .. } | Thread::Trap {}),
            // A kernel whose assertion fails is left out, as all that end in a fault.
            Op::Const(_) | Op::Atomic(_) | Op::Control(_) | Op::Warp(_) | Op::Diagnostic(_) => true,
            Op::Mma(_) | Op::Mbarrier(_) | Op::AsyncCopy(_) | Op::Inline(_) => false,
        })
}

/// Returns true if the register follows from the grid and the thread.
fn is_of_the_launch(reg: SpecialReg) -> bool {
    use SpecialReg::*;
    let (grid, lane) = (
        matches!(reg, Tid(_) | Ntid(_) | Ctaid(_) | Nctaid(_) | LaneId),
        matches!(reg, LaneMaskEq | LaneMaskLe | LaneMaskLt | LaneMaskGe | LaneMaskGt),
    );
    grid || lane
}

/// Programs that are compared have each kind of operation that a thread alone can have.
#[test]
fn determined_programs_have_every_kind_of_operation_of_one_thread() {
    let mut found = BTreeSet::new();
    for case in 0..20_000 {
        let ir = random_kernel_of(case);
        if is_determined(&ir) {
            found.extend(ir.ops.iter().filter_map(|(_, data)| Some(data.op.info()?.name)));
        }
    }
    let wanted = [
        "activemask",
        "add",
        "atom",
        "barrier",
        "bitcast",
        "fence",
        "match_any",
        "nanosleep",
        "redux",
        "shfl",
        "sreg",
        "st",
        "testp",
        "vote",
    ];
    let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {found:?}");
    for never in ["barrier_sync", "brkpt", "copysign", "mma_sync", "ptr_to_int", "volatile_sreg"] {
        assert!(!found.contains(never), "{never}");
    }
}

/// Bytes behind each pointer that is a parameter.
const BYTES: usize = 512;

/// Returns the memory behind the pointers, zero before the launch, with the same bits for all NaN;
/// `None` after a fault.
fn memory(device: &Device, f: &Function<Untyped>, ir: &KernelIr) -> Option<Vec<Vec<u64>>> {
    let mut buffers: Vec<(Type, Scalar, Box<dyn AnyBuffer>)> = Vec::new();
    for param in ir.params.iter() {
        let ty = ir.type_of(param.value);
        let elem = match ty {
            Type::Pointer { elem, .. } => elem,
            _ => Scalar::U8,
        };
        let zeros = vec![0; BYTES / elem.size_bytes() as usize];
        buffers.push((ty, elem, upload(device, elem, &zeros)));
    }
    let args = buffers.iter_mut().map(|(ty, _, buffer)| match *ty {
        Type::Scalar(scalar) => with_element(scalar, Three),
        Type::Pointer { mutable: true, .. } => buffer.arg(),
        Type::Pointer { mutable: false, .. } => buffer.read_only(),
        Type::Vector(_) | Type::TensorMap { .. } => panic!("no such parameter here"),
    });
    f.launch(Grid::new([1; 3], [1; 3]), args.collect()).ok()?;
    let one_nan = |elem, bits| if is_nan(elem, bits) { u64::MAX } else { bits };
    let bits = |(_, elem, buffer): &(_, Scalar, Box<dyn AnyBuffer>)| {
        buffer.bits().into_iter().map(|bits| one_nan(*elem, bits)).collect()
    };
    Some(buffers.iter().map(bits).collect())
}

fn random_kernel_of(seed: u64) -> KernelIr {
    let mut rng = Rng::new(seed);
    let choices: Vec<u32> = (0..20 + rng.below(60)).map(|_| rng.word() as u32).collect();
    random_kernel::random_kernel(&choices)
}

/// The number 3, or true.
struct Three;

impl OfElement for Three {
    type Output = Arg<'static>;

    fn of<T: Element>(self) -> Arg<'static> {
        let bits = if T::SCALAR == Scalar::Bool { 1 } else { 3 };
        Arg::from(T::from_bits(bits))
    }
}

/// Any operation of a thread alone that the generator of random kernels makes, in any control flow.
/// Kernels that the simulator finds at fault, or that do not end, are left out.
#[test]
fn random_programs_are_the_same_everywhere() {
    let Some(gpu) = device::wanted_gpu() else { return };
    let wanted = number("TILEWRIGHT_CASES", 300) as usize;
    let seed = number("TILEWRIGHT_RANDOM_SEED", 1);
    let options = Options::default().fuel(20_000).threads(1).output(Output::captured());
    let sim = Device::sim_with(options);
    let (mut kernels, mut expected, mut case) = (Vec::new(), Vec::new(), 0u64);
    while kernels.len() < wanted {
        assert!(case < 4000 * wanted as u64, "only {} kernels of {case}", kernels.len());
        let mut ir = random_kernel_of(seed.wrapping_add(case));
        case += 1;
        let stores = |op: &Op| matches!(op, Op::Mem(Mem::St { .. } | Mem::StVec { .. }));
        if !is_determined(&ir) || !ir.ops.iter().any(|(_, data)| stores(&data.op)) {
            continue;
        }
        ir.name = format!("random_{case}");
        ir.target = Target::SM_80;
        ir.bounds = Default::default();
        let Ok(kernel) = Kernel::verify(ir) else { continue };
        let f = sim.load(&kernel).unwrap();
        let Some(memory) = memory(&sim, &f, kernel.ir()) else { continue };
        if memory.iter().flatten().all(|bits| *bits == 0) {
            continue;
        }
        kernels.push(kernel);
        expected.push(memory);
    }
    for ((kernel, expected), f) in kernels.iter().zip(expected).zip(load(&gpu, &kernels)) {
        assert_eq!(memory(&gpu, &f, kernel.ir()), Some(expected), "{kernel}");
    }
}
