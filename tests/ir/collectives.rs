//! Reductions and scans over warps and blocks, on every device, against a fold on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, ptxas, text};

use device::devices;
use tilewright::ir::{Body, Element, Global, GlobalMut, Group, Kernel, Target, Val, range};
use tilewright::runtime::{Device, Grid, RuntimeError, sim};

/// Blocks of one thread, of partial warps, of whole warps, of all warps, of several axes.
const BLOCKS: [[u32; 3]; 10] = [
    [1, 1, 1],
    [5, 1, 1],
    [31, 1, 1],
    [32, 1, 1],
    [33, 1, 1],
    [64, 1, 1],
    [10, 7, 1],
    [3, 5, 9],
    [1023, 1, 1],
    [1024, 1, 1],
];

fn checked<P>(device: &Device, build: impl Fn(Target) -> Kernel<P>) -> Kernel<P> {
    let kernel = build(device.target());
    text::check_round_trip(kernel.ir());
    if let Some(ptxas) = ptxas::find() {
        for target in [Target::SM_80, Target::SM_90A] {
            let ptx = build(target).ptx();
            let result = ptxas.assemble(ptx.text(), &target.to_string(), &["-O1"]);
            result.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
    kernel
}

/// The number of the thread in its block.
fn thread<'b>(k: &Body<'b, '_>) -> Val<'b, i32> {
    let (tid, dim) = (k.thread_idx(), k.block_dim());
    tid.x + dim.x * (tid.y + dim.y * tid.z)
}

/// The threads of each group, as the ranges of their numbers.
fn groups(group: Group, threads: usize) -> Vec<std::ops::Range<usize>> {
    let size = match group {
        Group::Warp => 32,
        Group::Block => threads,
    };
    (0..threads).step_by(size).map(|first| first..threads.min(first + size)).collect()
}

/// A map `x -> a x + b`, modulo 2^64: composition is associative and does not commute.
type Affine = (u64, u64);

fn then((a, b): Affine, (c, d): Affine) -> Affine {
    (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d))
}

/// Reduce and both scans of maps, with different values in two blocks.
#[test]
fn reduce_and_scan_in_the_order_of_the_threads() {
    type Params = (Global<u64>, GlobalMut<u64>);
    for group in [Group::Warp, Group::Block] {
        let build = |target| {
            Kernel::<Params>::build("maps", target, |k, (x, out)| {
                let dim = k.block_dim();
                let i = k.block_idx().x * (dim.x * dim.y * dim.z) + thread(k);
                let v = (x.load(k, i * 2), x.load(k, i * 2 + 1));
                let all = k.reduce(group, v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                let upto = k.scan(group, v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                let before = k
                    .scan_exclusive(group, (3u64, 7u64), v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                for (j, value) in (0..).zip([all.0, all.1, upto.0, upto.1, before.0, before.1]) {
                    out.store(k, i * 6 + j, value);
                }
            })
            .unwrap()
        };
        for device in devices() {
            let f = device.load(&checked(&device, build)).unwrap();
            for block in BLOCKS {
                let threads: usize = block.iter().product::<u32>() as usize;
                let maps: Vec<Affine> =
                    (0..2 * threads as u64).map(|i| (i * 2 + 1, i * i + 5)).collect();
                let flat: Vec<u64> = maps.iter().flat_map(|(a, b)| [*a, *b]).collect();
                let x = device.upload(&flat).unwrap();
                let mut out = device.zeros(12 * threads).unwrap();
                f.launch(Grid::new([2, 1, 1], block), (&x, &mut out)).unwrap();
                let mut expected = Vec::new();
                for maps in maps.chunks(threads) {
                    for range in groups(group, threads) {
                        let maps = &maps[range];
                        let all = maps.iter().copied().reduce(then).unwrap();
                        for i in 0..maps.len() {
                            let upto = maps[..=i].iter().copied().reduce(then).unwrap();
                            let before = maps[..i].iter().copied().fold((3, 7), then);
                            expected.extend([all.0, all.1, upto.0, upto.1, before.0, before.1]);
                        }
                    }
                }
                assert_eq!(out.to_vec().unwrap(), expected, "{group:?} {block:?} on {device}");
            }
        }
    }
}

/// The smallest of one value of each width, and whether all or any are true.
#[test]
fn reduce_takes_values_of_any_width() {
    fn check<T: Element + tilewright::ir::Number + PartialOrd>(device: &Device, values: &[T]) {
        for group in [Group::Warp, Group::Block] {
            let kernel = Kernel::<(GlobalMut<T>,)>::build("min", device.target(), |k, (x,)| {
                let i = k.thread_idx().x;
                let v: Val<'_, T> = x.load(k, i);
                let least =
                    k.reduce(group, v, |_, a: Val<'_, T>, b: Val<'_, T>| a.lt(b).select(a, b));
                k.barrier();
                x.store(k, i, least);
            })
            .unwrap();
            let mut x = device.upload(values).unwrap();
            let n = values.len();
            device.load(&kernel).unwrap().launch(Grid::cover(n, n as u32), (&mut x,)).unwrap();
            let expected: Vec<T> = groups(group, n)
                .into_iter()
                .flat_map(|range| {
                    let part = &values[range];
                    let least = part.iter().fold(part[0], |a, b| if a < *b { a } else { *b });
                    part.iter().map(move |_| least).collect::<Vec<T>>()
                })
                .collect();
            assert_eq!(x.to_vec().unwrap(), expected, "{group:?} of {} on {device}", T::SCALAR);
        }
    }
    macro_rules! check_ints {
        ($device:expr, $($ty:ty)*) => {$(
            let values: Vec<$ty> = (0..70).map(|i: i32| (i * 37 % 101 - 20) as $ty).collect();
            check(&$device, &values);
        )*};
    }
    for device in devices() {
        check_ints!(device, i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        let kernel = Kernel::<(GlobalMut<i32>,)>::build("truth", device.target(), |k, (x,)| {
            let i = k.thread_idx().x;
            let v = x.load(k, i);
            let (all, any) =
                k.reduce(Group::Block, (v.gt(0), v.gt(40)), |_, a, b| (a.0 & b.0, a.1 | b.1));
            k.barrier();
            x.store(k, i, all.cvt::<i32>() * 10 + any.cvt::<i32>());
        })
        .unwrap();
        let f = device.load(&kernel).unwrap();
        for (values, expected) in [((1..50).collect::<Vec<i32>>(), 11), ((0..30).collect(), 0)] {
            let mut x = device.upload(&values).unwrap();
            f.launch(Grid::cover(values.len(), values.len() as u32), (&mut x,)).unwrap();
            assert_eq!(x.to_vec().unwrap(), vec![expected; values.len()]);
        }
    }
}

/// In a loop the shared memory is used again, in every order of the warps.
#[test]
fn scan_in_a_loop_reuses_its_memory() {
    let build = |target| {
        Kernel::<(GlobalMut<i32>,)>::build("rounds", target, |k, (x,)| {
            let i = k.thread_idx().x;
            let v = x.load(k, i);
            let v = k.for_(range(0, 5), v, |k, _, v| {
                let sum = k.scan(Group::Block, v, |_, a, b| a + b);
                k.reduce(Group::Warp, sum, |_, a, b| a.max(b)) - v
            });
            x.store(k, i, v);
        })
        .unwrap()
    };
    let mut all = devices();
    let random = |seed| sim::Options::default().order(sim::Order::Random { seed });
    all.extend((0..8).map(|seed| Device::sim_with(random(seed))));
    for device in all {
        let values: Vec<i32> = (0..200).map(|i| i % 7 - 3).collect();
        let mut x = device.upload(&values).unwrap();
        let f = device.load(&checked(&device, build)).unwrap();
        f.launch(Grid::cover(200, 200), (&mut x,)).unwrap();
        let mut v = values;
        for _ in 0..5 {
            let mut sum = 0i32;
            let sums: Vec<i32> = v
                .iter()
                .map(|v| {
                    sum = sum.wrapping_add(*v);
                    sum
                })
                .collect();
            v = (0..200)
                .map(|i| {
                    let warp = i / 32 * 32..200.min(i / 32 * 32 + 32);
                    sums[warp].iter().max().unwrap().wrapping_sub(v[i])
                })
                .collect();
        }
        assert_eq!(x.to_vec().unwrap(), v, "on {device}");
    }
}

/// A fault of the combining body names its line; one of the reduction names the call.
#[test]
fn reduce_names_the_lines_of_its_caller() {
    let device = Device::sim().unwrap();
    let (call, body) = (line!() + 4, line!() + 6);
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("divides", Target::SM_80, |k, (x,)| {
        let i = k.thread_idx().x;
        let v = x.load(k, i);
        let quotient = k.reduce(Group::Warp, v, |_, a, b| {
            let one = a - a + 1;
            a / b * one
        });
        x.store(k, i, quotient);
    })
    .unwrap();
    let lines: std::collections::BTreeSet<u32> =
        kernel.ir().reached_ops().iter().map(|op| kernel.ir().place_of(*op).line).collect();
    assert!(lines.contains(&call) && lines.contains(&body));
    assert!(kernel.ir().reached_ops().iter().all(|op| kernel.ir().place_of(*op).file == file!()));
    let mut x = device.upload(&[1, 0, 1]).unwrap();
    let error = device.load(&kernel).unwrap().launch(Grid::cover(3, 3), (&mut x,)).unwrap_err();
    let RuntimeError::Simulation(error) = error else { panic!("{error}") };
    assert_eq!(error.fault().unwrap().place.line, body);
}

/// Under a branch that is not the same for all threads the verifier refuses it, with the line of the call.
#[test]
fn reduce_under_a_divergent_branch_is_refused() {
    let build = |group| {
        Kernel::<(GlobalMut<i32>,)>::build("wrong", Target::SM_80, |k, (x,)| {
            let i = k.thread_idx().x;
            k.if_(i.lt(7), |k| {
                let sum = k.reduce(group, i, |_, a, b| a + b);
                x.store(k, i, sum);
            });
        })
        .map(|_| ())
    };
    for group in [Group::Warp, Group::Block] {
        let errors = build(group).unwrap_err().to_string();
        assert!(errors.contains("collectives.rs"), "{errors}");
    }
}
