//! Division by constants as PTX: no `div` and no `rem`, and the numbers of Rust's `/` and `%`.

use tilewright::ir::op::{Arith, Axis, Mem, SpecialReg, Thread};
use tilewright::ir::types::{Scalar, Space};
use tilewright::ir::{Kernel, Target, Untyped, bf16, f16};
use tilewright::kernels::gemm::{Gemm, GemmConfig, Schedule};

use crate::support::{ptx_interpreter, raw};

use ptx_interpreter::{Argument, Entry};
use raw::Raw;

const INTEGERS: [Scalar; 8] = [
    Scalar::I8,
    Scalar::I16,
    Scalar::I32,
    Scalar::I64,
    Scalar::U8,
    Scalar::U16,
    Scalar::U32,
    Scalar::U64,
];

/// The kernel that stores `x / d` and `x % d` for each `d`, where `x` is the element of the thread.
fn const_divisor(scalar: Scalar, divisors: &[i128], threads: usize) -> Kernel<Untyped> {
    let mut raw = Raw::new("const_divisor", Target::SM_80);
    let lhs = raw.unknown(scalar.into());
    let base = raw.new_param(raw::pointer(Space::Global, scalar));
    let thread = raw.get(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) });
    let mut row = 0;
    for d in divisors {
        let rhs = raw.constant(scalar, *d as u64);
        for op in [Arith::Div { lhs, rhs }, Arith::Rem { lhs, rhs }] {
            let value = raw.get(op);
            let first = raw.constant(Scalar::I32, row * threads as u64);
            let index = raw.get(Arith::Add { lhs: first, rhs: thread });
            raw.op(Mem::St { base, index, value, access: Default::default() });
            row += 1;
        }
    }
    raw.finish()
}

/// The instructions of a PTX text that divide.
fn divisions(text: &str) -> Vec<&str> {
    let divides = |line: &&str| {
        let name = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
        let integer = [".s16", ".s32", ".s64", ".u16", ".u32", ".u64"];
        (name.starts_with("div.") || name.starts_with("rem."))
            && integer.iter().any(|ty| name.ends_with(ty))
    };
    text.lines().map(str::trim).filter(divides).collect()
}

#[track_caller]
fn check(scalar: Scalar, dividends: &[i128], divisors: &[i128]) {
    let (size, threads) = (scalar.size_bytes() as usize, dividends.len());
    let kernel = const_divisor(scalar, divisors, threads);
    let ptx = kernel.ptx();
    assert_eq!(divisions(ptx.text()), [""; 0], "{ptx}");
    let bytes = |number: i128| number.to_le_bytes().into_iter().take(size);
    let mut x: Vec<u8> = dividends.iter().flat_map(|number| bytes(*number)).collect();
    let mut y = vec![0; 2 * divisors.len() * x.len()];
    let mut arguments = [Argument::Buffer(&mut x), Argument::Buffer(&mut y)];
    let ran =
        Entry::parse(ptx.text()).and_then(|entry| entry.run(threads, &mut arguments, 1 << 20));
    ran.unwrap_or_else(|problem| panic!("{problem}\n{ptx}"));
    let mut found = y.chunks_exact(size);
    for d in divisors {
        // Rust's operators on numbers that cannot overflow; the bytes wrap.
        for operation in [|x: i128, d: i128| x / d, |x, d| x % d] {
            for x in dividends {
                let expected: Vec<u8> = bytes(operation(*x, *d)).collect();
                let found = found.next().expect("there is an element for each result");
                assert_eq!(found, expected, "{scalar}: {x} and {d}");
            }
        }
    }
}

fn range(scalar: Scalar) -> (i128, i128) {
    let bits = scalar.bits();
    match scalar.is_signed() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// Numbers near the ends of the type, near zero, near powers of two and their thirds, fifths and
/// sevenths.
fn corners(scalar: Scalar, step: usize) -> Vec<i128> {
    let (min, max) = range(scalar);
    let mut all: Vec<i128> =
        (-12..=12).chain([min, min + 1, min + 2, max, max - 1, max - 2]).collect();
    for bit in (2..scalar.bits()).step_by(step) {
        for part in [1, 3, 5, 7, 641] {
            let near = (1i128 << bit) / part;
            all.extend([near - 1, near, near + 1, -near - 1, -near, 1 - near]);
        }
    }
    all.retain(|number| (min..=max).contains(number));
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn every_quotient_and_remainder_of_8_bits() {
    for scalar in [Scalar::I8, Scalar::U8] {
        let (min, max) = range(scalar);
        let all: Vec<i128> = (min..=max).collect();
        let divisors: Vec<i128> = all.iter().copied().filter(|d| *d != 0).collect();
        check(scalar, &all, &divisors);
    }
}

#[test]
fn quotients_and_remainders_of_corner_values() {
    for scalar in INTEGERS {
        let divisors = corners(scalar, 5).into_iter().filter(|d| *d != 0);
        check(scalar, &corners(scalar, 3), &divisors.collect::<Vec<_>>());
    }
}

/// The lines between the label of a loop and the last branch back to it, of all loops.
fn lines_in_loops(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut inside = vec![false; lines.len()];
    for (first, line) in lines.iter().enumerate() {
        let Some(label) = line.strip_suffix(':') else { continue };
        let back = format!("bra {label};");
        if let Some(last) = lines.iter().rposition(|line| line.ends_with(&back))
            && last > first
        {
            inside[first..=last].fill(true);
        }
    }
    let lines = lines.into_iter().zip(inside);
    lines.filter(|(_, inside)| *inside).map(|(line, _)| line).collect()
}

/// Only divisions by a register remain: the launch gives the number of tiles.
#[test]
fn gemms_divide_by_no_constant() {
    let sm90 = |tile| GemmConfig::sm90(Scalar::Bf16, tile);
    let sm80 = |target, tile| GemmConfig::sm80(target, Scalar::Bf16, tile);
    let pingpong = GemmConfig { schedule: Schedule::Pingpong, ..sm90([128, 192]) };
    let kernels = [
        Gemm::<bf16>::new(sm90([128, 256])).unwrap().ptx(),
        Gemm::<bf16>::new(sm90([256, 128])).unwrap().ptx(),
        Gemm::<bf16>::new(sm90([128, 176])).unwrap().ptx(),
        Gemm::<bf16>::new(pingpong.with_max_stages(8)).unwrap().ptx(),
        Gemm::<bf16>::new(sm80(Target::SM_80, [128, 256])).unwrap().ptx(),
        Gemm::<bf16>::new(sm80(Target::SM_90, [64, 128])).unwrap().ptx(),
        Gemm::<f16>::new(GemmConfig::sm80(Target::SM_80, Scalar::F16, [128, 128])).unwrap().ptx(),
        Gemm::<f32>::new(GemmConfig::simt(Target::SM_80, Scalar::F32)).unwrap().ptx(),
    ];
    for ptx in &kernels {
        let by_constant = |line: &&str| {
            let last = line.rsplit(", ").next().unwrap_or_default();
            !last.starts_with('%')
        };
        let constant: Vec<&str> = divisions(ptx.text()).into_iter().filter(by_constant).collect();
        assert_eq!(constant, [""; 0], "{ptx}");
        let inside = lines_in_loops(ptx.text());
        assert!(inside.len() > 100, "there are loops in\n{ptx}");
        let inside = inside.join("\n");
        assert!(divisions(&inside).len() < 8, "{:?}", divisions(&inside));
    }
}
