//! Runs every arithmetic operation with every attribute and type on random and corner operands.
//!
//! The simulator takes all of them; with `TILEWRIGHT_GPU=1` the first GPU gives the same bits.
//!
//! NaN is NaN whatever its bits: those differ for `f64`, and for `neg` and `abs`. Approximations
//! are compared with their bounds, in a test of their own.

use crate::support::{any_buffer, computed, device, raw, text};

use any_buffer::{is_nan, upload};
use computed::computed;
use raw::{Raw, pointer};
use tilewright::ir::op::{
    ApproxFunction, Arith, Axis, Convert, DivApprox, FloatArith, Mem, Op, SpecialReg, Subnormals,
    Thread,
};
use tilewright::ir::types::{Const, Scalar, Space, Type};
use tilewright::ir::{Element, Kernel, Untyped, Value, bf16, f16};
use tilewright::runtime::{Device, Grid};

const THREADS: u64 = 32;
/// Elements of each thread in a buffer.
const EACH: u64 = 256;

/// Operands of a type: corners of all types, and random patterns of all magnitudes.
fn operands(scalar: Scalar) -> Vec<u64> {
    let width = scalar.bits();
    let sign = 1u64 << (width - 1);
    let exponent = match (scalar, scalar.format()) {
        (_, Some(format)) => {
            ((1 << format.exponent_bits) - 1) << (width - 1 - format.exponent_bits)
        }
        (Scalar::F32, _) => 0x7f80_0000,
        (Scalar::F64, _) => 0x7ff0_0000_0000_0000,
        _ => 0x55,
    };
    let corners =
        [0, 1, 2, 3, 31, 32, exponent, exponent + 1, exponent - 1, sign - 1, exponent / 2 + 1];
    let mut state = 7u64;
    (0..THREADS * EACH)
        .map(|i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = state ^ state >> 32;
            let bits = match i % 3 {
                0 => {
                    corners[(random % corners.len() as u64) as usize] | ((random >> 40 & 1) * sign)
                }
                1 => random >> (random % 64),
                _ => random,
            };
            Const::new(scalar, bits).bits()
        })
        .collect()
}

/// A kernel under construction. Each thread has operands and results of its own.
struct Threads {
    raw: Raw,
    first: Value,
    results: Vec<(Scalar, Value, u64)>,
}

impl Threads {
    fn new(name: &str, device: &Device) -> Threads {
        let mut raw = Raw::new(name, computed::target(device));
        let lhs = raw.get(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) });
        let rhs = raw.constant(Scalar::I32, EACH);
        let first = raw.get(Arith::Mul { lhs, rhs });
        Threads { raw, first, results: Vec::new() }
    }

    fn index(&mut self, number: u64) -> Value {
        let rhs = self.raw.constant(Scalar::I32, number);
        self.raw.get(Arith::Add { lhs: self.first, rhs })
    }

    /// Operand `number`, with other elements than the other operands.
    fn operand(&mut self, ty: Type, number: u64) -> Value {
        match ty {
            Type::Scalar(scalar) => {
                let base = self.raw.param(pointer(Space::Global, scalar));
                let index = self.index(number * 16);
                self.raw.get(Mem::Ld { base, index, access: Default::default() })
            }
            Type::Vector(vector) => {
                let base = self.raw.param(pointer(Space::Global, vector.elem()));
                let values = (0..u64::from(vector.lanes()))
                    .map(|lane| {
                        let index = self.index(number * 16 + lane);
                        self.raw.get(Mem::Ld { base, index, access: Default::default() })
                    })
                    .collect();
                self.raw.get(Convert::VecPack { values })
            }
            Type::Pointer { .. } | Type::TensorMap { .. } => {
                panic!("pointers are no operands here")
            }
        }
    }

    /// Stores a result, unless there is no room.
    fn store(&mut self, value: Value) {
        match self.raw.ir.type_of(value) {
            Type::Scalar(scalar) => {
                let known = self.results.iter().position(|(s, ..)| *s == scalar);
                let at = known.unwrap_or_else(|| {
                    let base = self.raw.new_param(pointer(Space::Global, scalar));
                    self.results.push((scalar, base, 0));
                    self.results.len() - 1
                });
                let (_, base, stored) = &mut self.results[at];
                let (base, number) = (*base, *stored);
                *stored += 1;
                assert!(number < EACH, "too many results for a kernel");
                let index = self.index(number);
                self.raw.op(Mem::St { base, index, value, access: Default::default() });
            }
            Type::Vector(vector) => {
                for lane in 0..vector.lanes() {
                    let elem = self.raw.get(Convert::VecExtract { vector: value, lane });
                    self.store(elem);
                }
            }
            Type::Pointer { .. } | Type::TensorMap { .. } => panic!("no result here"),
        }
    }

    /// Sets the lowest bit of a divisor, which must not be zero.
    fn allowed(&mut self, op: &Op, operands: &mut [Value]) {
        let (Op::Arith(Arith::Div { .. } | Arith::Rem { .. }), [_, divisor]) = (op, operands)
        else {
            return;
        };
        let lhs = *divisor;
        if let Type::Scalar(scalar) = self.raw.ir.type_of(lhs)
            && scalar.is_int()
        {
            let rhs = self.raw.constant(scalar, 1);
            *divisor = self.raw.get(Arith::Or { lhs, rhs });
        }
    }
}

/// The bits of all results, by the type of their elements.
fn run(device: &Device, kernel: &Kernel<Untyped>, results: &[Value]) -> Vec<(Scalar, Vec<u64>)> {
    let function = device.load(kernel).expect("the kernel loads");
    let params = &kernel.ir().params;
    let elem = |value: Value| match kernel.ir().type_of(value) {
        Type::Pointer { elem, .. } => elem,
        other => panic!("a parameter of type {other}"),
    };
    let mut buffers: Vec<_> = params
        .iter()
        .map(|param| {
            let scalar = elem(param.value);
            if results.contains(&param.value) {
                upload(device, scalar, &vec![0; (THREADS * EACH) as usize])
            } else {
                upload(device, scalar, &operands(scalar))
            }
        })
        .collect();
    let args = buffers.iter_mut().map(|buffer| buffer.arg()).collect();
    function.launch(Grid::new([1; 3], [THREADS as u32, 1, 1]), args).expect("nothing is at fault");
    let written = params.iter().zip(&buffers).filter(|(param, _)| results.contains(&param.value));
    written.map(|(param, buffer)| (elem(param.value), buffer.bits())).collect()
}

/// Returns true if the result is only approximate.
fn is_approximate(op: &Op) -> bool {
    matches!(op, Op::FloatArith(FloatArith::Approx { .. } | FloatArith::DivApprox { .. }))
}

#[test]
fn every_operation_runs_and_gives_the_same_everywhere() {
    let all: Vec<Op> = raw::arith()
        .into_iter()
        .filter(|op| !is_approximate(op) && !matches!(op, Op::Thread(_)))
        .collect();
    let devices = device::devices();
    let mut cells = 0;
    for rows in all.chunk_by(|a, b| raw::info(a).name == raw::info(b).name) {
        let info = raw::info(&rows[0]);
        for ty in raw::types() {
            if matches!(ty, Type::Pointer { .. }) || !info.class.contains(ty) {
                continue;
            }
            for rows in rows.chunks(EACH as usize / 16) {
                let mut found = Vec::new();
                for device in &devices {
                    let mut threads = Threads::new("op", device);
                    let mut used = Vec::new();
                    for row in rows {
                        let types = raw::operand_types(row, ty);
                        let mut values: Vec<Value> = types
                            .iter()
                            .zip(0..)
                            .map(|(ty, number)| threads.operand(*ty, number))
                            .collect();
                        threads.allowed(row, &mut values);
                        let op = raw::with_operands(row, &values);
                        if raw::is_valid(&op, &threads.raw.ir) {
                            let result = threads.raw.get(op);
                            threads.store(result);
                            used.push(row);
                        }
                    }
                    if used.is_empty() {
                        continue;
                    }
                    cells += used.len();
                    let results: Vec<Value> =
                        threads.results.iter().map(|(_, base, _)| *base).collect();
                    let kernel = threads.raw.finish();
                    text::check_round_trip(kernel.ir());
                    found.push((device, used, run(device, &kernel, &results)));
                }
                let Some(((_, _, expected), others)) = found.split_first() else { continue };
                for (device, used, results) in others {
                    for ((scalar, expected), (_, found)) in expected.iter().zip(results) {
                        for (i, (e, f)) in expected.iter().zip(found).enumerate() {
                            let same = e == f || (is_nan(*scalar, *e) && is_nan(*scalar, *f));
                            assert!(
                                same,
                                "result {} of thread {} of {} on {ty} is {f:#x} on {}, {e:#x} on the \
                                 simulator; the operations, without their operands: {used:?}",
                                i as u64 % EACH,
                                i as u64 / EACH,
                                info.name,
                                device.name()
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(cells > 1500, "only {cells} operations on types");
}

/// The bounds of the PTX ISA, of `f32`: relative, or absolute where the sign is negative.
fn bound(function: ApproxFunction) -> f64 {
    match function {
        ApproxFunction::Rcp | ApproxFunction::Sqrt => 2f64.powi(-23),
        ApproxFunction::Rsqrt => 2f64.powf(-22.9),
        ApproxFunction::Ex2 => 2f64.powi(-22),
        ApproxFunction::Lg2 => 2f64.powi(-22),
        // The PTX ISA says 2^-20.5 between -2 pi and 2 pi; an H200 is 2^-20.46 off at 4.825444.
        ApproxFunction::Sin | ApproxFunction::Cos => 2f64.powf(-20.4),
        ApproxFunction::Tanh => 2f64.powi(-11),
    }
}

fn exact(function: ApproxFunction, x: f64) -> f64 {
    match function {
        ApproxFunction::Rcp => 1.0 / x,
        ApproxFunction::Sqrt => x.sqrt(),
        ApproxFunction::Rsqrt => 1.0 / x.sqrt(),
        ApproxFunction::Ex2 => x.exp2(),
        ApproxFunction::Lg2 => x.log2(),
        ApproxFunction::Sin => x.sin(),
        ApproxFunction::Cos => x.cos(),
        ApproxFunction::Tanh => x.tanh(),
    }
}

#[test]
fn approximations_are_within_their_bounds() {
    let inputs: Vec<f32> = (-2000..2000).map(|i| i as f32 * 0.003_141_5 + 1e-4).collect();
    let operands: Vec<(f32, f32, bool)> = inputs.iter().map(|x| (*x, 3.7, false)).collect();
    for device in device::devices() {
        for function in ApproxFunction::ALL.iter().copied() {
            let found =
                computed(&device, &operands, |x, _, _| x.approx(function, Subnormals::Keep));
            for (x, found) in inputs.iter().zip(found) {
                let (expected, found) = (exact(function, f64::from(*x)), f64::from(found));
                if expected.is_nan() {
                    assert!(found.is_nan(), "{function} of {x} is {found}");
                    continue;
                }
                let absolute = match function {
                    ApproxFunction::Sin | ApproxFunction::Cos => true,
                    ApproxFunction::Lg2 => (0.5..=2.0).contains(x),
                    _ => false,
                };
                let allowed = bound(function) * if absolute { 1.0 } else { expected.abs() };
                let error = (found - expected).abs();
                assert!(
                    error <= allowed,
                    "{function} of {x} is {found}, {error:e} off, on {}",
                    device.name()
                );
            }
        }
        for form in DivApprox::ALL.iter().copied() {
            let found =
                computed(&device, &operands, |x, y, _| x.div_approx(y, form, Subnormals::Keep));
            for ((x, y, _), found) in operands.iter().zip(found) {
                let expected = f64::from(*x) / f64::from(*y);
                let error = (f64::from(found) - expected).abs();
                assert!(error <= expected.abs() * 2f64.powi(-22), "{x} / {y} is {found}");
            }
        }
    }
}

/// All numbers of a format of 16 bits from -8 to 8.
fn up_to_8<T: Element>() -> Vec<T> {
    let all = (0..1 << 16).map(T::from_bits);
    all.filter(|x| number(*x).abs() <= 8.0).collect()
}

fn number<T: Element>(x: T) -> f64 {
    x.to_const().to_f64().expect("it is of a floating point type")
}

/// The result that is farthest beyond what is allowed of the error at it, if one is.
fn beyond<T: Element>(
    name: &str,
    (inputs, found): (&[T], &[T]),
    exact: fn(f64) -> f64,
    allowed: impl Fn(f64) -> f64,
) -> Option<String> {
    let errors = inputs.iter().zip(found).map(|(x, found)| {
        let (x, found) = (number(*x), number(*found));
        let error = (found - exact(x)).abs();
        (error / allowed(exact(x)), x, found, error)
    });
    let (ratio, x, found, error) = errors.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = || format!("{name} of {x} is {found}, 2^{:.4} off", error.log2());
    (ratio > 1.0 || ratio.is_nan()).then(text)
}

/// The bounds of the PTX ISA: `ex2` is within 2^-9.9 of `f16`, 2^-7 of `bf16`, relatively; `tanh`
/// within 2^-10.987 of `f16`, 2^-8 of `bf16`. The last is not true of an H200, which is 2^-7.9999
/// off at 0.74609375, where the result lies close above a number of `bf16` and the next lower one
/// is given.
#[test]
fn approximations_of_16_bits_are_within_their_bounds() {
    fn operands<T: Element>() -> (Vec<T>, Vec<(T, bool, bool)>) {
        let inputs = up_to_8::<T>();
        let operands = inputs.iter().map(|x| (*x, false, false)).collect();
        (inputs, operands)
    }
    let (halves, half_operands) = operands::<f16>();
    let (brains, brain_operands) = operands::<bf16>();
    for device in device::devices() {
        let ex2 = computed(&device, &half_operands, |x, _, _| x.exp2_fast());
        let tanh = computed(&device, &half_operands, |x, _, _| x.tanh_fast());
        let brain_ex2 = computed(&device, &brain_operands, |x, _, _| x.exp2_fast());
        let brain_tanh = computed(&device, &brain_operands, |x, _, _| x.tanh_fast());
        let relative = |bound: f64| move |exact: f64| exact * 2f64.powf(bound);
        let absolute = |bound: f64| move |_: f64| 2f64.powf(bound);
        let beyond = [
            beyond("ex2 of f16", (&halves, &ex2), f64::exp2, relative(-9.9)),
            beyond("tanh of f16", (&halves, &tanh), f64::tanh, absolute(-10.987)),
            beyond("ex2 of bf16", (&brains, &brain_ex2), f64::exp2, relative(-7.0)),
            beyond("tanh of bf16", (&brains, &brain_tanh), f64::tanh, absolute(-7.9)),
        ];
        let beyond: Vec<String> = beyond.into_iter().flatten().collect();
        assert!(beyond.is_empty(), "on {}: {beyond:#?}", device.name());
    }
}

/// `fns` has the operation's result also where PTX leaves it open, or the code of `ptxas` is wrong.
#[test]
fn fns_is_defined_for_all_operands() {
    fn defined(mask: u32, base: u32, offset: i32) -> u32 {
        let mut left = offset.unsigned_abs();
        let mut position = i64::from(base);
        if offset == 0 {
            let is_set = mask.checked_shr(base).is_some_and(|rest| rest & 1 == 1);
            return if is_set { base } else { u32::MAX };
        }
        while base < 32 && (0..32).contains(&position) {
            left -= mask >> position & 1;
            if left == 0 {
                return position as u32;
            }
            position += if offset > 0 { 1 } else { -1 };
        }
        u32::MAX
    }
    let masks = [0, 1, 0x8000_0000, 0xe58e_ba79, 0x5555_5555, u32::MAX];
    let bases = [0, 1, 4, 15, 31, 32, 33, 63, 64, 255, 256, 1 << 31, u32::MAX - 31, u32::MAX];
    let offsets = [0, 1, -1, 2, -2, 16, -16, 32, -32, 33, -33, i32::MAX, i32::MIN + 1, i32::MIN];
    let pairs = bases.iter().flat_map(|base| offsets.map(|offset| (*base, offset)));
    let operands: Vec<(u32, u32, i32)> =
        pairs.flat_map(|(base, offset)| masks.map(|mask| (mask, base, offset))).collect();
    for device in device::devices() {
        let check = |found: Vec<u32>, how: &str| {
            for ((mask, base, offset), found) in operands.iter().zip(found) {
                let expected = defined(*mask, *base, *offset);
                assert_eq!(
                    found,
                    expected,
                    "fns of {mask:#x} from {base} by {offset}, {how}, on {}",
                    device.name()
                );
            }
        };
        check(computed(&device, &operands, |m, b, o| m.fns(b, o)), "all at run time");
        // Constants are written into the instruction.
        for (base, offset) in [(4, i32::MIN), (32, -1), (u32::MAX, 1), (31, -33), (4, 2)] {
            let found = computed(&device, &operands, |m, _, _| m.fns(base, offset));
            for ((mask, ..), found) in operands.iter().zip(found) {
                let expected = defined(*mask, base, offset);
                assert_eq!(found, expected, "fns of {mask:#x} from {base} by {offset}, constants");
            }
        }
    }
}
