//! Runs asynchronous operations on the simulator.
//!
//! Boxes are compared with the host, phases of barriers with a model; missing waits in pipelines
//! must show.

use crate::support::pipelines;

use std::collections::BTreeSet;

use pipelines::{ampere_copy, ampere_gemm, hopper_gemm};
use tilewright::arch::{Fill, SwizzleMode, TensorMapDesc};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, bf16, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{
    Agent, FaultCause, GlobalBuffer, KernelArg, MissingEdge, Options, Order, RunError, run,
};

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

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const ORDERS: [Order; 4] = [
    Order::RoundRobin,
    Order::Random { seed: 1 },
    Order::Random { seed: 2 },
    Order::Random { seed: 3 },
];

#[track_caller]
fn verified(text: &str) -> Kernel<tilewright::ir::Untyped> {
    let ir = parse("test.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn simulate(text: &str, grid: Grid, args: &[KernelArg<'_>], order: Order) -> Result<(), RunError> {
    let options = Options::default().order(order).threads(1).fuel(1 << 24);
    run(verified(text).ir(), grid, args, &options).map(|_| ())
}

// Boxes.

/// A random map with a tensor of a few elements, and coordinates from far outside to far outside.
fn random_box(random: &mut Random) -> (TensorMapDesc, Vec<i32>) {
    let elems = [Scalar::U8, Scalar::Bf16, Scalar::F16, Scalar::F32, Scalar::I32, Scalar::F64];
    let elem = random.pick(&elems);
    let (rank, size) = (1 + random.below(5) as usize, u64::from(elem.size_bytes()));
    let swizzle = random.pick(&SwizzleMode::ALL);
    loop {
        let dims: Vec<u64> = (0..rank).map(|_| 1 + random.below(24)).collect();
        let (mut strides, mut stride) = (Vec::new(), size);
        for extent in &dims[..rank - 1] {
            stride = (stride * extent).next_multiple_of(16) + 16 * random.below(2);
            strides.push(stride);
        }
        let mut extents: Vec<u32> = (1..rank).map(|_| 1 + random.below(5) as u32).collect();
        let inner = random.pick(&[16, 32, 64, 128]) / size as u32;
        extents.insert(0, inner);
        let Ok(map) = TensorMapDesc::new(elem, &dims, &strides, &extents) else { continue };
        let mut map = map;
        if random.below(3) == 0 {
            let mut steps: Vec<u32> = (0..rank).map(|_| 1 + random.below(3) as u32).collect();
            steps[0] = 1;
            let Ok(strided) = map.clone().with_element_strides(&steps) else { continue };
            map = strided;
        }
        let Ok(map) = map.with_swizzle(swizzle) else { continue };
        let fill = if elem.is_float() && random.below(2) == 0 { Fill::Nan } else { Fill::Zero };
        let map = map.with_fill(fill).unwrap();
        if map.box_bytes() > 8192 {
            continue;
        }
        let coord = |extent: &u64| random.below(2 * extent + 8) as i32 - (*extent as i32 / 2 + 4);
        let mut coords: Vec<i32> = dims.iter().map(coord).collect();
        // A box starts at a multiple of 16 bytes.
        let unit = 16 / size as i32;
        coords[0] = coords[0].div_euclid(unit) * unit;
        return (map, coords);
    }
}

fn coords_text(coords: &[i32]) -> (String, String) {
    let consts = coords.iter().enumerate();
    let lines = consts.map(|(i, c)| format!("  %c{i} = const {c} : i32\n")).collect();
    let names: Vec<String> = (0..coords.len()).map(|i| format!("%c{i}")).collect();
    (lines, names.join(", "))
}

/// A box comes to where the map says, swizzled by the bits of the address, and the rest is filled.
#[test]
fn boxes_are_loaded_as_the_map_says() {
    let mut random = Random(1);
    for round in 0..150 {
        let (map, coords) = random_box(&mut random);
        let (elem, bytes, rank) = (map.elem(), map.box_bytes(), map.rank());
        // The pattern is one of addresses: the tile need not start where it does.
        let before = 128 * random.below(8);
        let len = map.shared_bytes().next_multiple_of(128) + before;
        let (lines, names) = coords_text(&coords);
        let start = before / u64::from(elem.size_bytes());
        let text = format!(
            "kernel @load target sm_90 (%m: tensor_map<{elem}, {rank}>, %out: ptr<global, mut u8>) {{
  shared @tile: {elem} x {} align 1024
  shared @bar: u64 x 1 align 8
  %tile = shared_base<@tile> : ptr<shared, mut {elem}>
  %raw = ptr_cast<u8> %tile : ptr<shared, mut u8>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %zero = const 0 : i32
  %start = const {start} : i32
  %t = sreg<tid.x> : i32
  %first = setp<eq> %t, %zero : bool
  %one = const 1 : u32
  %bytes = const {bytes} : u32
  %even = const 0 : u32
{lines}  if %first {{
    mbarrier_init %bar, %zero, %one
    fence_mbarrier_init
    %state = mbarrier_arrive_expect_tx %bar, %zero, %bytes : u64
    cp_async_bulk_tensor_load %m, %tile, %start, %bar, %zero, {names}
    yield
  }}
  barrier
  mbarrier_wait_parity %bar, %zero, %even
  %from = const {before} : i32
  %end = const {} : i32
  %step = const 32 : i32
  for @copy %i: i32 = %t to %end step %step {{
    %j = add %i, %from : i32
    %v = ld %raw, %j : u8
    st %out, %i, %v
    continue @copy
  }}
  return
}}",
            len / u64::from(elem.size_bytes()),
            bytes,
        );
        let tensor: Vec<u8> = (0..map.tensor_bytes()).map(|i| (i * 7 + 1) as u8).collect();
        let (buffer, out) =
            (GlobalBuffer::from_slice(&tensor), GlobalBuffer::zeros(bytes as usize));
        let args = [KernelArg::TensorMap(&map, &buffer), KernelArg::Buffer(&out)];
        // Rows of the pattern that the box does not fill were never written.
        let whole = bytes == map.shared_bytes() && bytes.is_multiple_of(128);
        let order = ORDERS[round % ORDERS.len()];
        match simulate(&text, Grid::new([1; 3], [32, 1, 1]), &args, order) {
            Ok(()) => {}
            Err(error) if !whole => {
                let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
                assert!(matches!(fault.op, "ld"), "{error}");
                continue;
            }
            Err(error) => panic!("{error}\n{map} {coords:?}"),
        }
        let size = elem.size_bytes() as usize;
        let nan: u64 = match elem {
            Scalar::F64 => 0x7ff7_7ff7_7ff7_7ff7,
            Scalar::F32 => 0x7ff7_7ff7,
            _ => 0x7ff7,
        };
        let found = out.to_vec::<u8>();
        for element in map.box_elements(&coords) {
            let at = (map.shared_address(before, element.shared) - before) as usize;
            let expected: Vec<u8> = match (element.global, map.fill()) {
                (Some(global), _) => tensor[global as usize..global as usize + size].to_vec(),
                (None, Fill::Zero) => vec![0; size],
                (None, Fill::Nan) => nan.to_le_bytes()[..size].to_vec(),
            };
            assert_eq!(found[at..at + size], expected, "{map} {coords:?} {element:?}");
        }
    }
}

/// A box is stored, or added, where it is inside of the tensor.
#[test]
fn boxes_are_stored_as_the_map_says() {
    let mut random = Random(2);
    for round in 0..100 {
        let (map, coords) = random_box(&mut random);
        // No store starts before the tensor.
        let coords: Vec<i32> = coords.iter().map(|coord| (*coord).max(0)).collect();
        let (elem, rank) = (map.elem(), map.rank());
        let adds = elem == Scalar::I32 && random.below(2) == 0;
        let (lines, names) = coords_text(&coords);
        let op =
            if adds { "cp_reduce_async_bulk_tensor<add>" } else { "cp_async_bulk_tensor_store" };
        let len = map.shared_bytes().next_multiple_of(128);
        let text = format!(
            "kernel @store target sm_90 (%m: tensor_map<mut {elem}, {rank}>, %x: ptr<global, u8>) {{
  shared @tile: {elem} x {} align 1024
  %tile = shared_base<@tile> : ptr<shared, mut {elem}>
  %raw = ptr_cast<u8> %tile : ptr<shared, mut u8>
  %zero = const 0 : i32
  %t = sreg<tid.x> : i32
  %first = setp<eq> %t, %zero : bool
  %end = const {len} : i32
  %step = const 32 : i32
{lines}  for @copy %i: i32 = %t to %end step %step {{
    %v = ld %x, %i : u8
    st %raw, %i, %v
    continue @copy
  }}
  fence_proxy_async<shared::cta>
  barrier
  if %first {{
    {op} %m, %tile, %zero, {names}
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0, read>
    yield
  }}
  return
}}",
            len / u64::from(elem.size_bytes()),
        );
        let before: Vec<u8> = (0..map.tensor_bytes()).map(|i| (i * 5) as u8).collect();
        let tile: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let (buffer, x) = (GlobalBuffer::from_slice(&before), GlobalBuffer::from_slice(&tile));
        let args = [KernelArg::TensorMap(&map, &buffer), KernelArg::Buffer(&x)];
        let order = ORDERS[round % ORDERS.len()];
        simulate(&text, Grid::new([1; 3], [32, 1, 1]), &args, order)
            .unwrap_or_else(|error| panic!("{error}\n{map} {coords:?}"));
        let (mut expected, size) = (before, elem.size_bytes() as usize);
        // A store writes whole units of 16 bytes: behind the end of a row of the tensor, too.
        let whole = !adds && map.element_strides().iter().all(|step| *step == 1);
        let inner = map.box_extents().next().unwrap() as usize;
        let mut next = None;
        for (i, element) in map.box_elements(&coords).enumerate() {
            let rest = next.filter(|next| whole && i % inner > 0 && next % 16 > 0);
            let rest = rest.filter(|next| next + size <= expected.len());
            let Some(to) = element.global.map(|global| global as usize).or(rest) else { continue };
            next = Some(to + size);
            let from = map.shared_address(0, element.shared) as usize;
            let source = &tile[from..from + size];
            if adds {
                let word = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
                let sum = word(&expected[to..to + 4]).wrapping_add(word(source));
                expected[to..to + 4].copy_from_slice(&sum.to_le_bytes());
            } else {
                expected[to..to + size].copy_from_slice(source);
            }
        }
        assert!(buffer.to_vec::<u8>() == expected, "{map} {coords:?}");
    }
}

// Barriers.

/// A barrier as its documentation describes it.
struct Model {
    phase: u64,
    count: i64,
    arrivals: i64,
    bytes: i64,
}

impl Model {
    fn change(&mut self, arrivals: i64, bytes: i64) {
        self.arrivals -= arrivals;
        self.bytes += bytes;
        if self.arrivals == 0 && self.bytes == 0 {
            (self.phase, self.arrivals) = (self.phase + 1, self.count);
        }
    }
}

/// Random operations of one thread, as the model has them.
#[test]
fn phases_are_those_of_the_model() {
    let mut random = Random(3);
    for _ in 0..40 {
        let count = 1 + random.below(4) as i64;
        let mut model = Model { phase: 0, count, arrivals: count, bytes: 0 };
        let mut text = format!(
            "kernel @model target sm_90 (%out: ptr<global, mut bool>) {{
  shared @bar: u64 x 1 align 8
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %i = const 0 : i32
  %count = const {count} : u32
  %even = const 0 : u32
  %odd = const 1 : u32
  mbarrier_init %bar, %i, %count\n"
        );
        let (mut expected, mut states): (Vec<bool>, Vec<(usize, u64)>) = (Vec::new(), Vec::new());
        for op in 0..60 {
            let bytes = 16 * random.below(4) as i64;
            match random.below(6) {
                0 => {
                    let arrivals = 1 + random.below(model.arrivals.max(1) as u64) as i64;
                    if arrivals > model.arrivals {
                        continue;
                    }
                    text += &format!("  %n{op} = const {arrivals} : u32\n");
                    text += &format!("  %s{op} = mbarrier_arrive %bar, %i, %n{op} : u64\n");
                    states.push((op, model.phase));
                    model.change(arrivals, 0);
                }
                1 if model.arrivals > 0 => {
                    text += &format!("  %n{op} = const {bytes} : u32\n");
                    text +=
                        &format!("  %s{op} = mbarrier_arrive_expect_tx %bar, %i, %n{op} : u64\n");
                    states.push((op, model.phase));
                    model.change(1, bytes);
                }
                2 => {
                    text += &format!("  %n{op} = const {bytes} : u32\n");
                    text += &format!("  mbarrier_expect_tx %bar, %i, %n{op}\n");
                    model.change(0, bytes);
                }
                3 | 4 if model.bytes > 0 => {
                    let bytes = if random.below(2) == 0 { model.bytes } else { 16 };
                    text += &format!("  %n{op} = const {bytes} : u32\n");
                    text += &format!("  mbarrier_complete_tx %bar, %i, %n{op}\n");
                    model.change(0, -bytes);
                }
                _ => {
                    let form = random.pick(&["test", "try"]);
                    let at = expected.len();
                    text += &format!("  %j{op} = const {at} : i32\n");
                    if let (Some((state, phase)), 0) = (states.last(), random.below(2)) {
                        text += &format!(
                            "  %r{op} = mbarrier_{form}_wait %bar, %i, %s{state} : bool\n"
                        );
                        expected.push(model.phase > *phase);
                    } else {
                        let (name, parity) = random.pick(&[("even", 0), ("odd", 1)]);
                        text += &format!(
                            "  %r{op} = mbarrier_{form}_wait_parity %bar, %i, %{name} : bool\n"
                        );
                        expected.push(model.phase % 2 != parity);
                    }
                    text += &format!("  st %out, %j{op}, %r{op}\n");
                }
            }
        }
        text += "  return\n}\n";
        let out = GlobalBuffer::zeros(64);
        for order in ORDERS {
            let grid = Grid::new([1; 3], [1, 1, 1]);
            simulate(&text, grid, &[KernelArg::Buffer(&out)], order)
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(out.to_vec::<bool>()[..expected.len()], expected, "{text}");
        }
    }
}

/// A loop that asks a barrier again and again ends, with and without sleep, and a wait costs no
/// fuel.
#[test]
fn polls_end_and_waits_are_free() {
    let text = |poll: &str| {
        format!(
            "kernel @poll target sm_90 (%m: tensor_map<f32, 2>, %out: ptr<global, mut f32>) {{
  shared @tile: f32 x 32 align 128
  shared @bar: u64 x 1 align 8
  %tile = shared_base<@tile> : ptr<shared, mut f32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %zero = const 0 : i32
  %t = sreg<tid.x> : i32
  %first = setp<eq> %t, %zero : bool
  %one = const 1 : u32
  %bytes = const 128 : u32
  %even = const 0 : u32
  if %first {{
    mbarrier_init %bar, %zero, %one
    fence_mbarrier_init
    yield
  }}
  barrier
  if %first {{
    %state = mbarrier_arrive_expect_tx %bar, %zero, %bytes : u64
    cp_async_bulk_tensor_load %m, %tile, %zero, %bar, %zero, %zero, %zero
    yield
  }}
{poll}
  %lane = const 31 : i32
  %i = and %t, %lane : i32
  %v = ld %tile, %i : f32
  st %out, %t, %v
  return
}}"
        )
    };
    let spin = |sleep: &str| {
        format!(
            "  loop @spin {{
    %done = mbarrier_try_wait_parity %bar, %zero, %even : bool
    if %done {{
      break @spin
    }}
{sleep}    continue @spin
  }}"
        )
    };
    let sleep = "    %ns = const 100 : u32\n    nanosleep %ns\n";
    let polls = [spin(""), spin(sleep), "  mbarrier_wait_parity %bar, %zero, %even".to_owned()];
    let map = TensorMapDesc::new(Scalar::F32, &[8, 4], &[32], &[8, 4]).unwrap();
    let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
    for poll in polls {
        let text = text(&poll);
        for order in ORDERS {
            let (x, out) = (GlobalBuffer::from_slice(&values), GlobalBuffer::zeros(4 * 96));
            let args = [KernelArg::TensorMap(&map, &x), KernelArg::Buffer(&out)];
            let options = Options::default().order(order).fuel(2000);
            run(verified(&text).ir(), Grid::new([1; 3], [96, 1, 1]), &args, &options)
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(out.to_vec::<f32>(), [&values[..]; 3].concat());
        }
    }
}

// Pipelines.

/// The text without the lines that have the mark.
fn without(text: &str, mark: &str) -> String {
    let mark = format!(";{mark}");
    assert!(text.contains(&mark), "{mark}");
    text.lines().filter(|line| !line.ends_with(&mark)).map(|line| format!("{line}\n")).collect()
}

/// Returns small integers, whose sums are exact.
fn integers(random: &mut Random, count: usize) -> Vec<bf16> {
    (0..count).map(|_| bf16::from_f32(random.below(9) as f32 - 4.0)).collect()
}

/// `A B^T` on the host.
fn product(a: &[bf16], b: &[bf16], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let (a, b): (Vec<f32>, Vec<f32>) =
        (a.iter().map(|x| x.to_f32()).collect(), b.iter().map(|x| x.to_f32()).collect());
    let mut expected = vec![0.0; m * n];
    for (i, row) in expected.chunks_exact_mut(n).enumerate() {
        for (j, c) in row.iter_mut().enumerate() {
            let (a, b) = (&a[i * k..][..k], &b[j * k..][..k]);
            *c = a.iter().zip(b).map(|(a, b)| a * b).sum();
        }
    }
    expected
}

/// Runs a GEMM with `[m, n, k]`. Returns what it gives, and what it should.
fn run_hopper(
    text: &str,
    [m, n, k]: [usize; 3],
    order: Order,
    threads: usize,
) -> (Result<Vec<f32>, RunError>, Vec<f32>) {
    let options = Options::default().order(order).threads(threads).fuel(1 << 24);
    run_hopper_with(text, [m, n, k], &options)
}

fn run_hopper_with(
    text: &str,
    [m, n, k]: [usize; 3],
    options: &Options,
) -> (Result<Vec<f32>, RunError>, Vec<f32>) {
    let mut random = Random(7);
    let (a, b) = (integers(&mut random, m * k), integers(&mut random, n * k));
    let map = |rows: usize| {
        let (dims, strides) = ([k as u64, rows as u64], [2 * k as u64]);
        let map = TensorMapDesc::new(Scalar::Bf16, &dims, &strides, &[64, 128]).unwrap();
        map.with_swizzle(SwizzleMode::B128).unwrap()
    };
    let (ma, mb) = (map(m), map(n));
    let (xa, xb) = (GlobalBuffer::from_slice(&a), GlobalBuffer::from_slice(&b));
    let c = GlobalBuffer::from_slice(&vec![f32::NAN; m * n]);
    let blocks = (k / 64) as i32;
    let args = [
        KernelArg::TensorMap(&ma, &xa),
        KernelArg::TensorMap(&mb, &xb),
        KernelArg::Buffer(&c),
        KernelArg::Scalar(tilewright::ir::Element::to_const(n as i32)),
        KernelArg::Scalar(tilewright::ir::Element::to_const(blocks)),
    ];
    let grid = Grid::new([(n / 128) as u32, (m / 128) as u32, 1], [384, 1, 1]);
    let result = run(verified(text).ir(), grid, &args, options);
    let expected = product(&a, &b, [m, n, k]);
    (result.map(|_| c.to_vec::<f32>()), expected)
}

#[test]
fn a_pipeline_of_boxes_and_tensor_cores_multiplies() {
    let text = hopper_gemm();
    for order in ORDERS {
        let (found, expected) = run_hopper(&text, [128, 256, 384], order, 0);
        assert!(found.unwrap_or_else(|error| panic!("{error}")) == expected, "{order:?}");
    }
}

/// Whatever wait is left out, and whatever stage is filled or released too early: each order names
/// it as a fault, so the rate is 1. A wrong product without a fault does not count.
#[test]
fn a_missing_wait_shows() {
    let text = hopper_gemm();
    let changed = |right: &str, wrong: &str| {
        assert!(text.contains(right), "{right}");
        text.replace(right, wrong)
    };
    let less = |mark: &str| (mark.to_owned(), without(&text, mark));
    let mut mutants: Vec<(String, String)> =
        ["wait-full", "wait-empty", "wait-all", "fence", "commit"].map(less).into();
    for (what, right, wrong) in [
        ("a wait for fewer groups", "wgmma_wait_group<1> ;wait-one", "wgmma_wait_group<2>"),
        ("no wait for the products before", "wgmma_wait_group<1> ;wait-one", ""),
        ("a stage that is released before its products", "sub %q, %one", "sub %q, %zero"),
        ("a ring of three stages", "mul %ps, %stage", "mul %ps3, %stage"),
    ] {
        mutants.push((what.to_owned(), changed(right, wrong)));
    }
    for (_, mutant) in &mut mutants {
        *mutant = mutant.replace(
            "        %pat = mul %ps3,",
            "        %ps3 = rem %p, %three : i32\n        %pat = mul %ps3,",
        );
    }
    for (what, mutant) in &mutants {
        for order in ORDERS {
            let (found, expected) = run_hopper(mutant, [128, 128, 320], order, 1);
            match found {
                Err(RunError::Fault(_)) => {}
                Err(error) => panic!("{what}, {order:?}: {error}"),
                Ok(found) => panic!("{what}, {order:?}: right is {}", found == expected),
            }
        }
    }
}

/// The faults that the mutants of the pipeline end with.
#[test]
fn missing_waits_are_named() {
    let text = hopper_gemm();
    let fault = |text: &str| {
        // The faults of a run without the race detector.
        let options = Options::default().threads(1).fuel(1 << 24).race(false);
        let (found, _) = run_hopper_with(text, [128, 128, 384], &options);
        found.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let unfilled = fault(&without(&text, "wait-full"));
    assert!(
        unfilled.contains("reads A at address")
            && unfilled.contains("which the `cp_async_bulk_tensor_load` at")
            && unfilled.contains("still writes"),
        "{unfilled}"
    );
    let early = fault(&without(&text, "wait-all"));
    assert!(early.contains("before the warp has waited for the `wgmma`"), "{early}");
    let fence = fault(&without(&text, "fence"));
    assert!(fence.contains("without a `wgmma_fence` since"), "{fence}");
    let short = text.replace("%bytes = const 32768", "%bytes = const 32784");
    let short = fault(&short);
    assert!(short.contains("still needs 0 of 1 arrivals and 16 bytes"), "{short}");
}

/// The pipeline has no races; tensor cores that do not wait for a stage race with its load.
#[test]
fn tensor_cores_race_with_loads() {
    let text = hopper_gemm();
    let options = Options::default().fuel(1 << 24).race(true);
    let (found, expected) = run_hopper_with(&text, [128, 128, 320], &options);
    assert!(found.unwrap_or_else(|error| panic!("{error}")) == expected);
    let (found, _) = run_hopper_with(&without(&text, "wait-full"), [128, 128, 320], &options);
    let error = found.unwrap_err();
    let Some(FaultCause::Race { by, other, missing, .. }) = error.fault().map(|f| &f.cause) else {
        panic!("{error}")
    };
    let agents = (by.agent, other.agent, *missing);
    assert_eq!(agents, (Agent::Wgmma, Agent::Load, MissingEdge::Pending), "{error}");
    assert_eq!(other.op.name, "cp_async_bulk_tensor_load");
}

/// Runs it. Returns what it gives, and what it should.
fn run_ampere([m, n, k]: [usize; 3], order: Order) -> (Vec<f32>, Vec<f32>) {
    let mut random = Random(8);
    let (a, b) = (integers(&mut random, m * k), integers(&mut random, n * k));
    let (xa, xb) = (GlobalBuffer::from_slice(&a), GlobalBuffer::from_slice(&b));
    let c = GlobalBuffer::zeros(4 * m * n);
    let scalar = |x: usize| KernelArg::Scalar(tilewright::ir::Element::to_const(x as i32));
    let args = [
        KernelArg::Buffer(&xa),
        KernelArg::Buffer(&xb),
        KernelArg::Buffer(&c),
        scalar(n),
        scalar(k),
    ];
    let grid = Grid::new([(n / 128) as u32, (m / 128) as u32, 1], [256, 1, 1]);
    run(verified(&ampere_gemm()).ir(), grid, &args, &Options::default().order(order))
        .unwrap_or_else(|error| panic!("{error}"));
    (c.to_vec::<f32>(), product(&a, &b, [m, n, k]))
}

#[test]
fn a_pipeline_of_threads_and_tensor_cores_multiplies() {
    for order in [Order::RoundRobin, Order::Random { seed: 4 }] {
        let (found, expected) = run_ampere([128, 256, 160], order);
        assert!(found == expected, "{order:?}");
    }
}

#[test]
fn copies_of_threads_in_stages() {
    // Only the upper quarter of each tile is read, by 32 of its elements.
    let x: Vec<i32> = (0..128 * 6).collect();
    let go = |text: &str, order| -> Result<Vec<i32>, RunError> {
        let (x, out) = (GlobalBuffer::from_slice(&x), GlobalBuffer::zeros(4 * 128 * 6));
        let tiles = KernelArg::Scalar(tilewright::ir::Element::to_const(6i32));
        let args = [KernelArg::Buffer(&x), KernelArg::Buffer(&out), tiles];
        simulate(text, Grid::new([1; 3], [32, 1, 1]), &args, order)?;
        Ok(out.to_vec::<i32>())
    };
    let expected: Vec<i32> = (0..6)
        .flat_map(|tile| (0..128).map(move |t| if t < 32 { 128 * tile + 127 - t } else { 0 }))
        .collect();
    for order in ORDERS {
        assert_eq!(go(ampere_copy(), order).unwrap(), expected);
    }
    let mutant = without(ampere_copy(), "wait");
    for order in ORDERS {
        let error = go(&mutant, order).unwrap_err().to_string();
        assert!(
            error.contains("which the `cp_async` at") && error.contains("still writes"),
            "{error}"
        );
    }
}

/// A staging tile that is written again before somebody has waited for the store to read it is a
/// fault.
#[test]
fn a_store_that_is_overtaken_shows() {
    let text = "kernel @store target sm_90 (%m: tensor_map<mut i32, 2>) {
  shared @tile: i32 x 32 align 128
  %tile = shared_base<@tile> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %four = const 4 : i32
  %first = setp<eq> %t, %zero : bool
  for @rows %k: i32 = %zero to %four step %one {
    %v = add %k, %t : i32
    st %tile, %t, %v
    fence_proxy_async<shared::cta>
    barrier
    if %first {
      %y = mul %k, %four : i32
      cp_async_bulk_tensor_store %m, %tile, %zero, %zero, %y
      cp_async_bulk_commit_group
      cp_async_bulk_wait_group<0, read> ;wait
      yield
    }
    barrier
    continue @rows
  }
  if %first {
    cp_async_bulk_wait_group<0, read>
    yield
  }
  return
}";
    let map = TensorMapDesc::new(Scalar::I32, &[8, 16], &[32], &[8, 4]).unwrap();
    let go = |text: &str, order| {
        let buffer = GlobalBuffer::zeros(4 * 128);
        let args = [KernelArg::TensorMap(&map, &buffer)];
        simulate(text, Grid::new([1; 3], [32, 1, 1]), &args, order).map(|()| buffer.to_vec::<i32>())
    };
    let expected: Vec<i32> = (0..4).flat_map(|k| (0..32).map(move |t| k + t)).collect();
    let mutant = without(text, "wait");
    for order in ORDERS {
        assert_eq!(go(text, order).unwrap(), expected);
        let error = go(&mutant, order).unwrap_err().to_string();
        let expected = "writes i32 element 0 (bytes 0 to 4) of shared memory `shared0`, made at test.kir:2:3, which \
                        the `cp_async_bulk_tensor_store` at test.kir:16:7 still reads, in thread (0, 0, 0)";
        assert!(error.starts_with("`st` at test.kir:11:5") && error.contains(expected), "{error}");
    }
}

/// The results of blocks, clusters and random orders do not depend on the threads of the host.
#[test]
fn results_do_not_depend_on_the_host() {
    let text = hopper_gemm();
    let order = Order::Random { seed: 9 };
    let mut seen = BTreeSet::new();
    for threads in [1, 2, 0] {
        let (found, _) = run_hopper(&without(&text, "wait-empty"), [256, 128, 384], order, threads);
        seen.insert(match found {
            Ok(found) => format!("{:?}", found.iter().map(|x| x.to_bits()).collect::<Vec<_>>()),
            Err(error) => error.to_string(),
        });
    }
    assert_eq!(seen.len(), 1);
}

/// The time of a GEMM of 512 cubed:
/// `cargo test --release --test sim async_:: -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, in release"]
fn time_of_a_gemm() {
    let text = hopper_gemm();
    for size in [512, 1024] {
        let start = std::time::Instant::now();
        let (found, expected) = run_hopper(&text, [size; 3], Order::RoundRobin, 0);
        let time = start.elapsed();
        assert!(found.unwrap() == expected);
        println!("Hopper, {size} cubed: {time:?} with the product on the host");
        let start = std::time::Instant::now();
        let (found, expected) = run_ampere([size; 3], Order::RoundRobin);
        let time = start.elapsed();
        assert!(found == expected);
        println!("Ampere, {size} cubed: {time:?} with the product on the host");
    }
}
