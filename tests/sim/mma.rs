//! Compares every shape and type of tensor core product on the simulator with the host.
//!
//! Fragments are those of `tilewright::tensor`; a layout describes operands in shared memory.

use tilewright::arch::{Major, MatrixDescriptor, SwizzleMode};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, bf16, f8e4m3, f8e5m2, f16, parse, tf32};
use tilewright::layout::{ComposedLayout, Layout, Swizzle};
use tilewright::runtime::Grid;
use tilewright::sim::{Accumulation, GlobalBuffer, KernelArg, Options, Order, run};
use tilewright::tensor::atom::{MmaAtom, MmaSync, ValType};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number of the type: a small integer, or any of a few magnitudes.
    fn number(&mut self, elem: Scalar, exact: bool) -> f64 {
        let low = if elem == Scalar::U8 { 0 } else { -4 };
        let int = (self.below(9) as i64 + low) as f64;
        if exact || elem.is_int() {
            return int;
        }
        let fraction = 1.0 + self.below(1 << 20) as f64 / f64::from(1 << 20);
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        let x = sign * fraction * 2f64.powi(self.below(8) as i32 - 4);
        number(elem, bits(elem, x))
    }
}

/// The bits of the nearest number.
fn bits(elem: Scalar, x: f64) -> u64 {
    match elem {
        Scalar::I8 => (x as i8 as u8).into(),
        Scalar::U8 => (x as u8).into(),
        Scalar::F8E4M3 => f8e4m3::from_f64(x).to_bits().into(),
        Scalar::F8E5M2 => f8e5m2::from_f64(x).to_bits().into(),
        Scalar::F16 => f16::from_f64(x).to_bits().into(),
        Scalar::Bf16 => bf16::from_f64(x).to_bits().into(),
        Scalar::Tf32 => tf32::from_f64(x).to_bits().into(),
        Scalar::F32 => (x as f32).to_bits().into(),
        Scalar::I32 => (x as i32 as u32).into(),
        Scalar::F64 => x.to_bits(),
        _ => panic!("{elem}"),
    }
}

/// The number of the bits.
fn number(elem: Scalar, bits: u64) -> f64 {
    match elem {
        Scalar::I8 => f64::from(bits as i8),
        Scalar::U8 => f64::from(bits as u8),
        Scalar::F8E4M3 => f8e4m3::from_bits(bits as u8).to_f64(),
        Scalar::F8E5M2 => f8e5m2::from_bits(bits as u8).to_f64(),
        Scalar::F16 => f16::from_bits(bits as u16).to_f64(),
        Scalar::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Scalar::Tf32 => tf32::from_bits(bits as u32).to_f64(),
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::I32 => f64::from(bits as i32),
        Scalar::F64 => f64::from_bits(bits),
        _ => panic!("{elem}"),
    }
}

/// A matrix in the order of its rows.
#[derive(Clone)]
struct Matrix {
    elem: Scalar,
    columns: usize,
    numbers: Vec<f64>,
}

impl Matrix {
    fn random(
        random: &mut Random,
        elem: Scalar,
        [rows, columns]: [usize; 2],
        exact: bool,
    ) -> Matrix {
        let numbers = (0..rows * columns).map(|_| random.number(elem, exact)).collect();
        Matrix { elem, columns, numbers }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.columns + column]
    }
}

/// The documented sum: along `k`, each time rounded in the type of the sums.
fn sum(c: f64, elem: Scalar, products: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut sum = c;
    for (a, b) in products {
        sum = match elem {
            Scalar::F64 => a.mul_add(b, sum),
            Scalar::I32 => sum + a * b,
            // Products are exact in f64, and so is this sum for numbers of these magnitudes.
            _ => f64::from((sum + a * b) as f32),
        };
    }
    if elem == Scalar::F16 { f16::from_f64(sum).to_f64() } else { sum }
}

/// The documented sum where bits are cut off, in integers: `fraction_bits` below the largest
/// exponent are kept.
fn truncated(
    c: f64,
    elem: Scalar,
    products: impl Iterator<Item = (f64, f64)>,
    fraction_bits: i32,
) -> f64 {
    // Sign, integer and exponent: `x = m * 2^e`, with the leading bit of `m` that of `2^52`.
    let parts = |x: f64| {
        let bits = x.to_bits();
        ((bits & ((1 << 52) - 1) | 1 << 52) as i128, (bits >> 52 & 0x7ff) as i32 - 1075)
    };
    let mut terms: Vec<(bool, i128, i32, i32)> = Vec::new();
    if c != 0.0 {
        let (m, e) = parts(c);
        terms.push((c < 0.0, m, e, e + 52));
    }
    for (a, b) in products.filter(|(a, b)| a * b != 0.0) {
        let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
        terms.push(((a < 0.0) != (b < 0.0), ma * mb, ea + eb, ea + eb + 104));
    }
    let Some(largest) = terms.iter().map(|term| term.3).max() else { return 0.0 };
    let unit = largest - fraction_bits;
    let sum: i128 = terms
        .iter()
        .map(|(negative, m, e, _)| {
            let cut = m >> (unit - e).min(127);
            if *negative { -cut } else { cut }
        })
        .sum();
    let scaled = |x: i128| x as f64 * 2f64.powi(unit);
    if elem == Scalar::F16 {
        return f16::from_f64(scaled(sum)).to_f64();
    }
    let magnitude = sum.unsigned_abs() as i128;
    let dropped = (128 - magnitude.leading_zeros() as i32 - 24).max(0);
    scaled(sum.signum() * (magnitude >> dropped << dropped))
}

/// Returns `c` plus the products of factors of type `factor`, accumulated as `accumulation` says.
fn accumulated(
    accumulation: Accumulation,
    c: f64,
    (elem, factor): (Scalar, Scalar),
    products: impl Iterator<Item = (f64, f64)>,
) -> f64 {
    match accumulation {
        Accumulation::Truncated { fraction_bits, fraction_bits_f8 } => {
            let bits = if factor.bits() == 8 { fraction_bits_f8 } else { fraction_bits };
            truncated(c, elem, products, bits as i32)
        }
        _ => sum(c, elem, products),
    }
}

fn bytes(elem: Scalar, numbers: &[f64]) -> Vec<u8> {
    let size = elem.size_bytes() as usize;
    let all = numbers.iter().flat_map(|x| bits(elem, *x).to_le_bytes().into_iter().take(size));
    all.collect()
}

fn numbers(elem: Scalar, bytes: &[u8]) -> Vec<f64> {
    let size = elem.size_bytes() as usize;
    let element = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        number(elem, u64::from_le_bytes(word))
    };
    bytes.chunks_exact(size).map(element).collect()
}

/// The first thread-value pair to coordinate: `layout(thread + threads * value)` is
/// `row + rows * column`.
fn place(layout: &Layout, [threads, thread, value]: [usize; 3], rows: usize) -> (usize, usize) {
    let index = layout.at((thread + threads * value) as i64).unwrap() as usize;
    (index % rows, index / rows)
}

/// A load of `count` elements at `%name_index` of `%name_param`.
fn load(name: &str, elem: Scalar, count: usize) -> String {
    match count {
        1 => format!("  %{name} = ld %p{name}, %i{name} : {elem}\n"),
        n => format!("  %{name} = ld_vec<{n}> %p{name}, %i{name} : {elem}x{n}\n"),
    }
}

fn simulate(
    text: &str,
    threads: u32,
    args: &[&GlobalBuffer],
    (order, accumulation): (Order, Accumulation),
) {
    let ir = parse("test.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let args: Vec<KernelArg<'_>> = args.iter().map(|buffer| KernelArg::Buffer(buffer)).collect();
    let options = Options::default().order(order).accumulation(accumulation).threads(1);
    run(kernel.ir(), Grid::new([1; 3], [threads, 1, 1]), &args, &options)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
}

const VALS: [(Scalar, ValType); 8] = [
    (Scalar::I8, ValType::S8),
    (Scalar::U8, ValType::U8),
    (Scalar::F8E4M3, ValType::E4M3),
    (Scalar::F8E5M2, ValType::E5M2),
    (Scalar::F16, ValType::F16),
    (Scalar::Bf16, ValType::Bf16),
    (Scalar::Tf32, ValType::Tf32),
    (Scalar::F64, ValType::F64),
];

/// Sums that cut bits off: as reported of a device, and few enough that most of them show it.
const TRUNCATED: [Accumulation; 2] =
    [Accumulation::HOPPER, Accumulation::Truncated { fraction_bits: 11, fraction_bits_f8: 6 }];

/// One `mma.sync` of random matrices, with its fragments from and to memory.
fn check_mma_sync(
    random: &mut Random,
    op: MmaSync,
    [a, b, c]: [Scalar; 3],
    (exact, accumulation): (bool, Accumulation),
) {
    let atom = MmaAtom::new(op).unwrap();
    let [m, n, k] = op.shape_mnk.map(|extent| extent as usize);
    let (ma, mb) =
        (Matrix::random(random, a, [m, k], exact), Matrix::random(random, b, [n, k], exact));
    let mc = Matrix::random(random, c, [m, n], exact);
    let fragments = |layout: &Layout, matrix: &Matrix, rows: usize| -> Vec<f64> {
        let count = rows * matrix.columns / 32;
        (0..32 * count)
            .map(|i| {
                let (row, column) = place(layout, [32, i / count, i % count], rows);
                matrix.at(row, column)
            })
            .collect()
    };
    let (na, nb, nc) = (m * k / 32, n * k / 32, m * n / 32);
    let packed = c == Scalar::F16;
    let (ty, registers) = if packed { ("f16x2".to_owned(), nc / 2) } else { (c.to_string(), nc) };
    let per = nc / registers;
    let mut text = format!(
        "kernel @mma target {} (%pa: ptr<global, {a}>, %pb: ptr<global, {b}>, %pc: ptr<global, mut {c}>) {{\n  \
         var @acc: {ty} x {registers}\n  %t = sreg<tid.x> : i32\n",
        match a.bits() {
            8 if a.is_float() => "sm_89",
            64 if m == 16 => "sm_90",
            _ => "sm_80",
        }
    );
    // More than a vector holds is a list.
    let listed = a == Scalar::F64 && k > 4;
    for (name, count) in [("a", na), ("b", nb), ("c", nc)] {
        text += &format!("  %n{name} = const {count} : i32\n  %i{name} = mul %t, %n{name} : i32\n");
    }
    let mut list = Vec::new();
    if listed {
        for (name, count) in [("a", na), ("b", nb)] {
            for i in 0..count {
                text += &format!("  %n{name}{i} = const {i} : i32\n");
                text += &format!("  %i{name}{i} = add %i{name}, %n{name}{i} : i32\n");
                text += &format!("  %{name}{i} = ld %p{name}, %i{name}{i} : f64\n");
                list.push(format!("%{name}{i}"));
            }
        }
    } else {
        text += &(load("a", a, na) + &load("b", b, nb));
    }
    for r in 0..registers {
        text += &format!("  %r{r} = const {} : i32\n  %j{r} = add %ic, %r{r} : i32\n", r * per);
        text += &match packed {
            true => format!("  %c{r} = ld_vec<2> %pc, %j{r} : f16x2\n"),
            false => format!("  %c{r} = ld %pc, %j{r} : {c}\n"),
        };
        text += &format!("  set_var<@acc, {r}> %c{r}\n");
    }
    text += &match listed {
        true => format!("  mma_sync_f64<m{m}n{n}k{k}, @acc, 0> {}\n", list.join(", ")),
        false => format!("  mma_sync<m{m}n{n}k{k}, @acc, 0> %a, %b\n"),
    };
    for r in 0..registers {
        text += &format!("  %d{r} = get_var<@acc, {r}> : {ty}\n");
        text += &format!("  st{} %pc, %j{r}, %d{r}\n", if packed { "_vec" } else { "" });
    }
    text += "  return\n}\n";
    let buffer = |elem, numbers: &[f64]| GlobalBuffer::from_slice(&bytes(elem, numbers));
    let (pa, pb) = (
        buffer(a, &fragments(atom.layout_a_tv(), &ma, m)),
        buffer(b, &fragments(atom.layout_b_tv(), &mb, n)),
    );
    let pc = buffer(c, &fragments(atom.layout_c_tv(), &mc, m));
    simulate(&text, 32, &[&pa, &pb, &pc], (Order::RoundRobin, accumulation));
    let found = numbers(c, &pc.to_vec::<u8>());
    for (i, found) in found.iter().enumerate() {
        let (row, column) = place(atom.layout_c_tv(), [32, i / nc, i % nc], m);
        let products = (0..k).map(|i| (ma.at(row, i), mb.at(column, i)));
        let expected = accumulated(accumulation, mc.at(row, column), (c, a), products.clone());
        assert_eq!(*found, expected, "{op:?}: D({row}, {column})\n{text}");
        let scale: f64 = products.clone().map(|(a, b)| (a * b).abs()).sum();
        let real: f64 = mc.at(row, column) + products.map(|(a, b)| a * b).sum::<f64>();
        let step = match accumulation {
            Accumulation::Truncated { fraction_bits, fraction_bits_f8 } => {
                // Each term may lose a step of the largest one.
                k as f64 * 2f64.powi(2 - fraction_bits.min(fraction_bits_f8).min(10) as i32)
            }
            _ if packed => 2f64.powi(-10),
            _ => 2f64.powi(-20),
        };
        assert!(
            (found - real).abs() <= step * (scale + real.abs() + 1.0),
            "{op:?}: {found} {real}"
        );
    }
}

#[test]
fn every_shape_of_mma_sync_is_the_product() {
    let mut random = Random(1);
    let mut count = 0;
    for (a, a_val) in VALS {
        for (b, b_val) in VALS {
            let sums: &[(Scalar, ValType)] = match a {
                Scalar::F16 => &[(Scalar::F32, ValType::F32), (Scalar::F16, ValType::F16)],
                Scalar::F64 => &[(Scalar::F64, ValType::F64)],
                Scalar::I8 | Scalar::U8 => &[(Scalar::I32, ValType::S32)],
                _ => &[(Scalar::F32, ValType::F32)],
            };
            let same = a == b || a.bits() == 8 && b.bits() == 8 && a.is_int() == b.is_int();
            let shapes: &[[u32; 3]] = match a.bits() {
                8 if a.is_int() => &[[8, 8, 16], [16, 8, 16], [16, 8, 32]],
                8 => &[[16, 8, 32]],
                16 => &[[16, 8, 8], [16, 8, 16]],
                32 => &[[16, 8, 4], [16, 8, 8]],
                _ => &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]],
            };
            for shape in shapes.iter().filter(|_| same) {
                for (c, c_val) in sums {
                    let op = MmaSync::new(*shape, a_val, b_val, *c_val);
                    for exact in [true, false, false] {
                        let nearest = Accumulation::Nearest;
                        check_mma_sync(&mut random, op, [a, b, *c], (exact, nearest));
                    }
                    if a.is_float() && a != Scalar::F64 {
                        for accumulation in TRUNCATED {
                            check_mma_sync(&mut random, op, [a, b, *c], (false, accumulation));
                        }
                    }
                    count += 1;
                }
            }
        }
    }
    // f16 twice, bf16, tf32, four of f64; four pairs of integers and of 8-bit floating point.
    assert_eq!(count, 4 + 2 + 2 + 4 + 4 * 3 + 4);
}

/// The layout of an operand as CUTLASS writes it, for `blocks` blocks along `mn`: `t` elements in
/// 16 bytes.
fn operand(major: Major, swizzle: SwizzleMode, t: i64, mn: i64) -> Layout {
    let u = 1i64 << swizzle.bits();
    let text = match (major, u) {
        (Major::K, 1) => {
            let blocks = mn / 8;
            // The halves along k are not adjacent.
            format!("((8,{blocks}),({t},2)):(({t},{}),(1,{}))", 8 * t, 8 * t * blocks)
        }
        (Major::K, u) => {
            format!("((8,{}),({t},2)):(({},{}),(1,{t}))", mn / 8, u * t, 8 * u * t)
        }
        (Major::Mn, 1) => {
            let blocks = mn / t;
            format!("(({t},{blocks}),(8,{})):((1,{}),({t},{}))", t / 4, 8 * t, 8 * t * blocks)
        }
        (Major::Mn, u) => {
            let (row, blocks) = (u * t, mn / (u * t));
            let column = 8 * row;
            format!("(({row},{blocks}),(8,{})):((1,{}),({row},{column}))", t / 4, column * (t / 4))
        }
    };
    text.parse().unwrap()
}

/// An operand of `wgmma` in shared memory: its bytes from a multiple of 1024 on, and its
/// descriptor.
fn in_shared(matrix: &Matrix, major: Major, swizzle: SwizzleMode) -> Option<(Vec<u8>, u64)> {
    let (elem, k) = (matrix.elem, matrix.columns);
    let size = elem.size_bytes();
    let mn = matrix.numbers.len() / k;
    let t = i64::from(16 / size);
    if major == Major::Mn && mn as i64 % (t << swizzle.bits()) != 0 {
        return None;
    }
    let layout = operand(major, swizzle, t, mn as i64);
    let base = 4 - i64::from(size.ilog2());
    let part = Swizzle::new(swizzle.bits().into(), base, 3).unwrap();
    let composed = ComposedLayout::new(part, 0, layout.clone()).unwrap();
    let descriptor = MatrixDescriptor::of(&composed, elem.bits()).unwrap();
    // A matrix of one block cannot show its major mode, nor some distance.
    assert!(descriptor.swizzle == swizzle);
    let len = layout.cosize().unwrap().to_static().unwrap() as usize * size as usize;
    let mut image = vec![0xee; len.next_multiple_of(1024)];
    for row in 0..mn {
        for column in 0..k {
            let plain = layout.at((row + mn * column) as i64).unwrap();
            let at = part.apply(plain) as usize * size as usize;
            let value = bits(elem, matrix.at(row, column)).to_le_bytes();
            image[at..at + size as usize].copy_from_slice(&value[..size as usize]);
        }
    }
    Some((image, descriptor.bits()))
}

/// One way to run a `wgmma`.
#[derive(Clone, Copy, Debug)]
struct Wgmma {
    types: [Scalar; 3],
    n: usize,
    majors: [Major; 2],
    swizzles: [SwizzleMode; 2],
    registers: bool,
    negate: [bool; 2],
    satfinite: bool,
    exact: bool,
    order: Order,
    accumulation: Accumulation,
}

/// Two multiplications: the first one sets D, the second one adds. Returns whether there is such an
/// operand.
fn check_wgmma(random: &mut Random, case: Wgmma) -> bool {
    let [a, b, c] = case.types;
    let (n, k) = (case.n, 32 / a.size_bytes() as usize);
    let ma = Matrix::random(random, a, [64, k], case.exact);
    let mb = Matrix::random(random, b, [n, k], case.exact);
    let (Some((a_image, a_bits)), Some((b_image, b_bits))) = (
        in_shared(&ma, case.majors[0], case.swizzles[0]),
        in_shared(&mb, case.majors[1], case.swizzles[1]),
    ) else {
        return false;
    };
    let packed = c == Scalar::F16;
    let (ty, registers) = if packed { ("f16x2".to_owned(), n / 4) } else { (c.to_string(), n / 2) };
    let per = n / 2 / registers;
    let (len_a, len_b) = (a_image.len(), b_image.len());
    let mut form: Vec<&str> = Vec::new();
    for (said, name) in [
        (case.negate[0], "neg_a"),
        (case.negate[1], "neg_b"),
        (!case.registers && case.majors[0] == Major::Mn, "tnsp_a"),
        (case.majors[1] == Major::Mn, "tnsp_b"),
        (case.satfinite, "satfinite"),
    ] {
        form.extend(said.then_some(name));
    }
    let form = if form.is_empty() { String::new() } else { format!(", {}", form.join(".")) };
    let mut text = format!(
        "kernel @k target sm_90a (%xa: ptr<global, u8>, %xb: ptr<global, u8>, %pf: ptr<global, {a}>, \
         %out: ptr<global, mut {c}>) {{
  shared @a: u8 x {len_a} align 1024
  shared @b: u8 x {len_b} align 1024
  var @acc: {ty} x {}
  %a = shared_base<@a> : ptr<shared, mut u8>
  %b = shared_base<@b> : ptr<shared, mut u8>
  %t = sreg<tid.x> : i32
  %threads = const 128 : i32
  %len_a = const {len_a} : i32
  %len_b = const {len_b} : i32
  for @copy_a %i: i32 = %t to %len_a step %threads {{
    %va = ld %xa, %i : u8
    st %a, %i, %va
    continue @copy_a
  }}
  for @copy_b %j: i32 = %t to %len_b step %threads {{
    %vb = ld %xb, %j : u8
    st %b, %j, %vb
    continue @copy_b
  }}
  fence_proxy_async<shared::cta>
  barrier
  %da = matrix_descriptor<{a_bits}> %a : u64
  %db = matrix_descriptor<{b_bits}> %b : u64
  %false = const false : bool
  %true = const true : bool
  wgmma_fence
",
        registers + 3
    );
    let instruction = if case.registers {
        let per = 64 * k / 128;
        text += &format!("  %nf = const {per} : i32\n  %if = mul %t, %nf : i32\n");
        text += &load("f", a, per);
        format!("wgmma_rs<m64n{n}k{k}, {b}, @acc, 3{form}> %f, %db")
    } else {
        format!("wgmma<m64n{n}k{k}, {a}, {b}, @acc, 3{form}> %da, %db")
    };
    text += &format!("  {instruction}, %false\n  {instruction}, %true\n");
    text += "  wgmma_commit_group\n  wgmma_wait_group<0>\n";
    text += &format!("  %n = const {} : i32\n  %o = mul %t, %n : i32\n", n / 2);
    for r in 0..registers {
        text += &format!("  %r{r} = const {} : i32\n  %j{r} = add %o, %r{r} : i32\n", r * per);
        text += &format!("  %d{r} = get_var<@acc, {}> : {ty}\n", r + 3);
        text += &format!("  st{} %out, %j{r}, %d{r}\n", if packed { "_vec" } else { "" });
    }
    text += "  return\n}\n";
    // A(m, k): m = 16 w + row + 8 (r % 2), k = quad p + v + 4 p (r / 2).
    let p = 4 / a.size_bytes() as usize;
    let fragment: Vec<f64> = (0..128 * 4 * p)
        .map(|i| {
            let (t, r, v) = (i / (4 * p), i / p % 4, i % p);
            let (row, quad) = (16 * (t / 32) + t % 32 / 4 + 8 * (r % 2), t % 4);
            ma.at(row, quad * p + v + 4 * p * (r / 2))
        })
        .collect();
    let (xa, xb) = (GlobalBuffer::from_slice(&a_image), GlobalBuffer::from_slice(&b_image));
    let pf = GlobalBuffer::from_slice(&bytes(a, &fragment));
    let out = GlobalBuffer::zeros(64 * n * c.size_bytes() as usize);
    simulate(&text, 128, &[&xa, &xb, &pf, &out], (case.order, case.accumulation));
    let found = numbers(c, &out.to_vec::<u8>());
    for (i, found) in found.iter().enumerate() {
        let (t, r) = (i / (n / 2), i % (n / 2));
        let row = 16 * (t / 32) + t % 32 / 4 + 8 * (r / 2 % 2);
        let column = t % 4 * 2 + r % 2 + 8 * (r / 4);
        let sign = if case.negate[0] != case.negate[1] { -1.0 } else { 1.0 };
        let products = (0..k).map(|i| (sign * ma.at(row, i), mb.at(column, i)));
        let add = |sum, products| accumulated(case.accumulation, sum, (c, a), products);
        let once = add(0.0, products.clone());
        let expected = add(once, products);
        assert_eq!(*found, expected, "{case:?}: D({row}, {column})\n{text}");
    }
    true
}

#[test]
fn every_operand_of_wgmma_is_read_as_its_layout_says() {
    let mut random = Random(2);
    let mut count = 0;
    let plain = Wgmma {
        types: [Scalar::Bf16, Scalar::Bf16, Scalar::F32],
        n: 64,
        majors: [Major::K; 2],
        swizzles: [SwizzleMode::None; 2],
        registers: false,
        negate: [false; 2],
        satfinite: false,
        exact: true,
        order: Order::RoundRobin,
        accumulation: Accumulation::Nearest,
    };
    // Each major mode and swizzle of each operand.
    for a_major in [Major::K, Major::Mn] {
        for b_major in [Major::K, Major::Mn] {
            for a_swizzle in SwizzleMode::ALL {
                for b_swizzle in SwizzleMode::ALL {
                    let (majors, swizzles) = ([a_major, b_major], [a_swizzle, b_swizzle]);
                    let case = Wgmma { majors, swizzles, ..plain };
                    count += u32::from(check_wgmma(&mut random, case));
                }
            }
        }
    }
    assert_eq!(count, 64);
    // Each pair of types and each way to pass A, in both orders.
    let eight = [Scalar::F8E4M3, Scalar::F8E5M2];
    let mut types = vec![
        [Scalar::F16, Scalar::F16, Scalar::F32],
        [Scalar::F16, Scalar::F16, Scalar::F16],
        [Scalar::Bf16, Scalar::Bf16, Scalar::F32],
        [Scalar::Tf32, Scalar::Tf32, Scalar::F32],
    ];
    types.extend(eight.iter().flat_map(|a| eight.map(|b| [*a, b, Scalar::F32])));
    types.extend(eight.map(|a| [a, a, Scalar::F16]));
    let bytes = [Scalar::I8, Scalar::U8];
    types.extend(bytes.iter().flat_map(|a| bytes.map(|b| [*a, b, Scalar::I32])));
    for (i, types) in types.into_iter().enumerate() {
        let is_int = types[0].is_int();
        for registers in [false, true] {
            let case = Wgmma {
                types,
                n: [8, 24, 32, 96][i % 4],
                swizzles: [SwizzleMode::B128, SwizzleMode::B32],
                registers,
                negate: [!is_int && i % 2 == 0, !is_int && i % 3 == 0],
                satfinite: is_int && registers,
                exact: is_int || i % 2 == 0,
                order: Order::Random { seed: i as u64 },
                ..plain
            };
            assert!(check_wgmma(&mut random, case), "{case:?}");
            for accumulation in TRUNCATED.into_iter().filter(|_| !is_int) {
                let case = Wgmma { exact: false, accumulation, ..case };
                assert!(check_wgmma(&mut random, case), "{case:?}");
            }
        }
    }
    // Each width.
    for n in (8..=256).step_by(40) {
        assert!(check_wgmma(&mut random, Wgmma { n, exact: false, ..plain }));
    }
}

/// Sums of integers wrap, or stop at the ends of their type.
#[test]
fn integers_wrap_or_saturate() {
    let text = |form: &str| {
        format!(
            "kernel @k target sm_90a (%out: ptr<global, mut i32>) {{
  shared @s: i8 x 8192 align 1024
  var @acc: i32 x 4
  %s = shared_base<@s> : ptr<shared, mut i8>
  %t = sreg<tid.x> : i32
  %x = const -128 : i8
  %n = const 8192 : i32
  %threads = const 128 : i32
  for @fill %i: i32 = %t to %n step %threads {{
    st %s, %i, %x
    continue @fill
  }}
  fence_proxy_async<shared::cta>
  barrier
  %c = const 2147483000 : i32
  set_var<@acc, 0> %c
  set_var<@acc, 1> %c
  set_var<@acc, 2> %c
  set_var<@acc, 3> %c
  %d = matrix_descriptor<4611686293305360384> %s : u64
  %true = const true : bool
  wgmma_fence
  wgmma<m64n8k32, i8, i8, @acc, 0{form}> %d, %d, %true
  wgmma_commit_group
  wgmma_wait_group<0>
  %v = get_var<@acc, 1> : i32
  st %out, %t, %v
  return
}}"
        )
    };
    let out = GlobalBuffer::zeros(4 * 128);
    simulate(&text(""), 128, &[&out], Default::default());
    let wrapped = 2_147_483_000i32.wrapping_add(32 * 128 * 128);
    assert_eq!(out.to_vec::<i32>(), [wrapped; 128]);
    simulate(&text(", satfinite"), 128, &[&out], Default::default());
    assert_eq!(out.to_vec::<i32>(), [i32::MAX; 128]);
}
