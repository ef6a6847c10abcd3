//! Boxes of tensors and operands of `wgmma` on the simulator and on a GPU: the same bytes.
//!
//! The simulator always runs and is compared with the host; with `TILEWRIGHT_GPU=1` the first GPU
//! runs too, on many more cases.

use crate::support::{device, rng};

use rng::Rng;
use tilewright::arch::{Fill, Major, MatrixDescriptor, SwizzleMode, TensorMapDesc};
use tilewright::ir::op::{CpAsyncCache, L2Policy, ProxySpace, WgmmaForm};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Element, Global, GlobalMut, Kernel, Target, TensorMap, bf16, f8e4m3, f16, range, tf32,
};
use tilewright::layout::{ComposedLayout, Layout, Swizzle};
use tilewright::runtime::{Device, Function, Grid};

/// Returns the number of random cases of a kind: `TILEWRIGHT_CASES`, or more where a GPU is there
/// to compare with.
fn cases() -> usize {
    let wanted = std::env::var("TILEWRIGHT_CASES").ok().and_then(|cases| cases.parse().ok());
    wanted.unwrap_or(if device::gpu().is_some() { 400 } else { 12 })
}

/// Shared memory that a box or an operand may fill.
const SHARED_BYTES: u32 = 32 * 1024;

// Boxes.

/// The map, what is loaded, the place in shared memory and the bytes of the box, the coordinates.
type LoadBox<T, const RANK: usize> = (TensorMap<T, RANK>, GlobalMut<u32>, i32, u32, Global<i32>);

/// Loads a box over memory that has a pattern, and writes out all of it.
fn load_box<T: Element, const RANK: usize>(
    device: &Device,
    name: &str,
) -> Function<LoadBox<T, RANK>> {
    let kernel = Kernel::<LoadBox<T, RANK>>::build(name, Target::SM_90, |k, params| {
        let (map, out, place, bytes, coords) = params;
        let tile = k.shared_aligned::<u32>(SHARED_BYTES / 4, 1024);
        let full = k.shared::<u64>(1).mbarrier(0);
        let t = k.thread_idx().x;
        // A swizzle can take bytes of a small box beyond its end.
        let words = || range(t, SHARED_BYTES / 4).step(128);
        k.for_(words(), (), |_, i, ()| tile.store(i, 0x5a5a_5a5a));
        k.if_(t.eq(0), |k| {
            full.init(1);
            k.fence_mbarrier_init();
        });
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.barrier();
        k.if_(t.eq(0), |_| {
            full.arrive_expect_tx(bytes);
            let coords = std::array::from_fn(|i| coords.load(i as i32));
            let to = tile.ptr_cast::<u8>().offset(place).ptr_cast::<T>();
            map.cp_async_bulk_tensor_load(to, coords, full, L2Policy::Default);
        });
        full.wait_parity(0);
        k.for_(words(), (), |_, i, ()| out.store(i, tile.load(i)));
    });
    device.load(&kernel.unwrap()).unwrap()
}

/// A map with a tensor of a few elements, and coordinates from outside to outside.
fn random_map(rng: &mut Rng, elem: Scalar, rank: usize) -> (TensorMapDesc, Vec<i32>) {
    let size = u64::from(elem.size_bytes());
    loop {
        let dims: Vec<u64> = (0..rank).map(|_| 1 + rng.below(20) as u64).collect();
        let mut stride = (dims[0] * size).next_multiple_of(16);
        let mut strides = Vec::new();
        for extent in &dims[1..] {
            stride += 16 * rng.below(3) as u64;
            strides.push(stride);
            stride *= extent;
        }
        let most = [32, 12, 6, 4, 4];
        let boxes: Vec<u32> = (0..rank).map(|i| 1 + rng.below(most[i]) as u32).collect();
        let Ok(map) = TensorMapDesc::new(elem, &dims, &strides, &boxes) else { continue };
        let Ok(map) = map.with_swizzle(*rng.pick(&SwizzleMode::ALL)) else { continue };
        let fill = if elem.is_float() && rng.below(3) == 0 { Fill::Nan } else { Fill::Zero };
        let Ok(map) = map.with_fill(fill) else { continue };
        let mut step = |dim| if dim > 0 && rng.below(4) == 0 { 2 } else { 1 };
        let steps: Vec<u32> = (0..rank).map(&mut step).collect();
        let Ok(map) = map.with_element_strides(&steps) else { continue };
        if map.shared_bytes() > u64::from(SHARED_BYTES - 8 * 1024) || map.box_bytes() % 16 != 0 {
            continue;
        }
        let coords = dims.iter().zip(&boxes).map(|(extent, width)| {
            rng.below(*extent as usize + 2 * *width as usize) as i32 - *width as i32
        });
        let mut coords: Vec<i32> = coords.collect();
        // A box starts at a multiple of 16 bytes.
        coords[0] = coords[0].div_euclid(16 / size as i32) * (16 / size as i32);
        return (map, coords);
    }
}

/// Returns the differences between the devices.
fn boxes<T: Element, const RANK: usize>(seed: u64, fill: impl Fn(&mut Rng) -> T) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let devices = device::devices();
    let name = format!("box_{}_{RANK}", T::SCALAR);
    let functions: Vec<_> =
        devices.iter().map(|device| load_box::<T, RANK>(device, &name)).collect();
    let mut wrong = Vec::new();
    for _ in 0..cases() / 5 {
        let (map, coords) = random_map(&mut rng, T::SCALAR, RANK);
        let elements = map.tensor_bytes() as usize / T::SCALAR.size_bytes() as usize;
        let data: Vec<T> = (0..elements).map(|_| fill(&mut rng)).collect();
        let place = 128 * rng.below(32);
        let bytes = map.box_bytes();
        let mut results = Vec::new();
        for (device, f) in devices.iter().zip(&functions) {
            let buffer = device.upload(&data).unwrap();
            let mut out = device.zeros::<u32>(SHARED_BYTES as usize / 4).unwrap();
            let at = device.upload(&coords).unwrap();
            let arg = buffer.tensor_map(&map).unwrap();
            let args = (&arg, &mut out, place as i32, bytes as u32, &at);
            f.launch(Grid::new([1, 1, 1], [128, 1, 1]), args).unwrap();
            results.push(out.to_vec().unwrap());
        }
        for (result, device) in results.iter().zip(&devices) {
            let differs = |(i, (x, y)): (usize, (&u32, &u32))| {
                (x != y).then(|| format!("word {i} is {x:x} on {device}, not {y:x}"))
            };
            let first = result.iter().zip(&results[0]).enumerate().find_map(differs);
            let case = || format!("{map}, {:?}, at {coords:?} to {place}", map.fill());
            wrong.extend(first.map(|first| format!("{}: {first}", case())));
        }
    }
    wrong
}

#[test]
fn boxes_are_the_same_everywhere() {
    let wrong = [
        boxes::<u8, 1>(1, |rng| rng.word() as u8),
        boxes::<u8, 3>(2, |rng| rng.word() as u8),
        boxes::<bf16, 2>(3, |rng| bf16::from_bits(rng.word() as u16)),
        boxes::<f16, 4>(4, |rng| f16::from_bits(rng.word() as u16)),
        boxes::<f32, 2>(5, |rng| rng.below(1000) as f32),
        boxes::<f32, 5>(6, |rng| rng.below(1000) as f32),
        boxes::<i32, 3>(7, |rng| rng.word() as i32),
        boxes::<f64, 2>(8, |rng| rng.below(1000) as f64),
        boxes::<u16, 5>(9, |rng| rng.word() as u16),
        boxes::<u64, 1>(10, |rng| rng.word()),
    ]
    .concat();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

// Operands of wgmma.

/// The shared memory of a block, the upper parts of both descriptors, and where the operands start;
/// the sums of each thread.
type Product = (Global<u32>, u64, u64, i32, i32, GlobalMut<f32>);

fn product<T: Element>(device: &Device, columns: u32, form: WgmmaForm) -> Function<Product> {
    let name = format!("product_{}_{columns}", T::SCALAR);
    let kernel = Kernel::<Product>::build(&name, Target::SM_90A, |k, params| {
        let (memory, a_bits, b_bits, a_at, b_at, out) = params;
        let shared = k.shared_aligned::<u32>(2 * SHARED_BYTES / 4, 1024);
        let t = k.thread_idx().x;
        k.for_(range(t, 2 * SHARED_BYTES / 4).step(128), (), |_, i, ()| {
            shared.store(i, memory.load(i));
        });
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.barrier();
        let bytes = shared.ptr_cast::<u8>();
        let a = bytes.offset(a_at).matrix_descriptor(0) | a_bits;
        let b = bytes.offset(b_at).matrix_descriptor(0) | b_bits;
        let sums = k.registers::<f32>(columns / 2);
        k.wgmma_fence();
        k.wgmma_with(&sums, [T::SCALAR; 2], [a, b], false, form);
        k.wgmma_commit_group();
        k.wgmma_wait_group(0);
        for i in 0..columns / 2 {
            out.store(t * (columns / 2) + i, sums.get(i));
        }
    });
    device.load(&kernel.unwrap()).unwrap()
}

/// A layout `(mn, k)` of one instruction's operand in one of the forms that hardware has, with
/// distances as they come, in elements.
fn random_operand(
    rng: &mut Rng,
    major: Major,
    swizzle: SwizzleMode,
    (mn, elem_bytes): (i64, i64),
) -> Option<(ComposedLayout, usize)> {
    let unit = 16 / elem_bytes;
    let row = unit << swizzle.bits();
    let mut far = |least: i64, step: i64| least + step * rng.below(3) as i64;
    let text = match (major, swizzle) {
        (Major::K, SwizzleMode::None) => {
            let (l, s) = (far(8 * unit, unit), far(16 * unit, unit));
            let (l, s) = if l < s { (l, s.max(2 * l)) } else { (l, l + s) };
            format!("((8,{}),({unit},2)):(({unit},{s}),(1,{l}))", mn / 8)
        }
        (Major::K, _) => {
            format!("((8,{}),({unit},2)):(({row},{}),(1,{unit}))", mn / 8, far(8 * row, 8 * row))
        }
        (Major::Mn, SwizzleMode::None) => {
            let s = far(8 * unit, unit);
            let l = far(s * (mn / unit), unit);
            format!("(({unit},{}),(8,{})):((1,{s}),({unit},{l}))", mn / unit, unit / 4)
        }
        (Major::Mn, _) => {
            if mn % row != 0 {
                return None;
            }
            let s = far(8 * row, 8 * row);
            let l = far(s * (unit / 4), 8 * row);
            format!("(({row},{}),(8,{})):((1,{l}),({row},{s}))", mn / row, unit / 4)
        }
    };
    let layout: Layout = text.parse().unwrap();
    let base = 4 - i64::from(elem_bytes.ilog2());
    let part = Swizzle::new(i64::from(swizzle.bits()), base, 3).unwrap();
    let bytes = layout.cosize().unwrap().to_static().unwrap() * elem_bytes;
    let operand = ComposedLayout::new(part, 0, layout).unwrap();
    (bytes + 1024 <= i64::from(SHARED_BYTES)).then_some((operand, bytes as usize))
}

fn check_products<T: Element>(
    seed: u64,
    columns: usize,
    [a_major, b_major]: [Major; 2],
    number: impl Fn(i32) -> T,
) {
    let mut rng = Rng::new(seed);
    let size = T::SCALAR.size_bytes() as usize;
    let shared = SHARED_BYTES as usize;
    let depth = 32 / size;
    let form = WgmmaForm {
        transpose_a: a_major == Major::Mn,
        transpose_b: b_major == Major::Mn,
        ..WgmmaForm::default()
    };
    let devices = device::devices();
    let functions: Vec<_> =
        devices.iter().map(|device| product::<T>(device, columns as u32, form)).collect();
    let mut done = 0;
    while done < cases() / 4 {
        let modes = [0, 1].map(|_| *rng.pick(&SwizzleMode::ALL));
        let elem = size as i64;
        let a = random_operand(&mut rng, a_major, modes[0], (64, elem));
        let b = random_operand(&mut rng, b_major, modes[1], (columns as i64, elem));
        let (Some((a, _)), Some((b, _))) = (a, b) else { continue };
        done += 1;
        let bits = [&a, &b].map(|operand| MatrixDescriptor::of(operand, 8 * size as u32).unwrap());
        // Small integers: sums are exact.
        let mut matrix = |rows: usize| -> Vec<i32> {
            (0..rows * depth).map(|_| rng.below(7) as i32 - 3).collect()
        };
        let (x, y) = (matrix(64), matrix(columns));
        let mut memory = vec![0u8; 2 * shared];
        let starts = [0, shared];
        for ((operand, numbers), (rows, start)) in
            [(&a, &x), (&b, &y)].into_iter().zip([(64, starts[0]), (columns, starts[1])])
        {
            for (i, value) in numbers.iter().enumerate() {
                let (row, column) = (i % rows, i / rows);
                let plain = operand.outer_layout().unwrap().at((row + column * rows) as i64);
                let at = operand.swizzle_portion().apply(plain.unwrap()) as usize * size;
                let bytes = number(*value).to_const().bits().to_le_bytes();
                memory[start + at..][..size].copy_from_slice(&bytes[..size]);
            }
        }
        let words: Vec<u32> =
            memory.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let mut expected = vec![0.0f32; 64 * columns];
        for thread in 0..128 {
            for i in 0..columns / 2 {
                let row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
                let column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
                let products = (0..depth).map(|k| x[row + 64 * k] * y[column + columns * k]);
                expected[thread * (columns / 2) + i] = products.sum::<i32>() as f32;
            }
        }
        for (device, f) in devices.iter().zip(&functions) {
            let memory = device.upload(&words).unwrap();
            let mut out = device.zeros::<f32>(64 * columns).unwrap();
            let [a_at, b_at] = starts.map(|start| start as i32);
            let args = (&memory, bits[0].bits(), bits[1].bits(), a_at, b_at, &mut out);
            f.launch(Grid::new([1, 1, 1], [128, 1, 1]), args).unwrap();
            let found = out.to_vec().unwrap();
            assert!(found == expected, "{a}, {b} on {}", device.name());
        }
    }
}

#[test]
fn operands_of_wgmma_are_the_same_everywhere() {
    let bf16 = |x: i32| bf16::from_f32(x as f32);
    let mut seed = 20;
    for columns in [8, 64, 200, 256] {
        for majors in [
            [Major::K, Major::K],
            [Major::Mn, Major::K],
            [Major::K, Major::Mn],
            [Major::Mn, Major::Mn],
        ] {
            seed += 1;
            if columns % 64 == 0 || majors[1] == Major::K {
                check_products::<tilewright::ir::bf16>(seed, columns, majors, bf16);
            }
        }
    }
    let majors = [Major::K, Major::K];
    check_products::<tf32>(40, 64, majors, |x| tf32::from_f32(x as f32));
    check_products::<f8e4m3>(41, 104, majors, |x| f8e4m3::from_f32(x as f32));
}

// Copies of threads.

/// A copy of no bytes reads nothing, wherever its source is, and makes zeros; one of some bytes
/// makes the rest zero.
#[test]
fn copies_without_a_source_are_zeros() {
    type Params = (Global<u32>, GlobalMut<u32>);
    let kernel = Kernel::<Params>::build("zeros", Target::SM_80, |k, (x, y)| {
        let tile = k.shared_aligned::<u32>(128, 16);
        let t = k.thread_idx().x;
        (0..4).for_each(|i| tile.store(t * 4 + i, 7));
        // Lanes 0, 3, 6, .. copy all, the next ones half, the others nothing, from far outside.
        let third = t % 3;
        let bytes = third.eq(0).select(16, third.eq(1).select(8, k.constant(0u32)));
        let far = third.eq(2).select(k.constant(-(1i64 << 40)), (t * 4).cvt::<i64>());
        k.cp_async_zfill(tile.offset(t * 4), x.offset(far), CpAsyncCache::Cg, 16, bytes);
        k.cp_async_commit_group();
        k.cp_async_wait_group(0);
        (0..4).for_each(|i| y.store(t * 4 + i, tile.load(t * 4 + i)));
    })
    .unwrap();
    let x: Vec<u32> = (100..228).collect();
    let copied = |i: usize| match i / 4 % 3 {
        0 => true,
        1 => i % 4 < 2,
        _ => false,
    };
    let expected: Vec<u32> = (0..128).map(|i| if copied(i) { x[i] } else { 0 }).collect();
    for device in device::devices() {
        let (x, mut y) = (device.upload(&x).unwrap(), device.zeros::<u32>(128).unwrap());
        let f = device.load(&kernel).unwrap();
        f.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&x, &mut y)).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected, "{}", device.name());
    }
}
