//! Reductions and scans over warps and blocks, on every device, against a fold on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::device;
use crate::support::kernels::checked;

#[path = "../../examples/softmax.rs"]
mod softmax;

use device::devices;
use tilewright::ir::{
    Body, Element, Global, GlobalMut, Group, Kernel, KernelOptions, Target, Val, range,
};
use tilewright::runtime::{Device, Grid, RuntimeError};
use tilewright::sim;

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

/// The number of the thread in its block.
fn thread<'b>(k: &Body<'b, '_>) -> Val<'b, i32> {
    let (tid, dim) = (k.thread_idx(), k.block_dim());
    tid.x + dim.x * (tid.y + dim.y * tid.z)
}

/// The threads of each group, as the ranges of their numbers.
fn groups(group: Group, threads: usize) -> Vec<std::ops::Range<usize>> {
    let size = match group {
        Group::Lanes(lanes) => lanes as usize,
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
    for group in [Group::Lanes(1), Group::Lanes(4), Group::Lanes(16), Group::Warp, Group::Block] {
        let build = |target| {
            Kernel::<Params>::build("maps", target, |k, (x, out)| {
                let dim = k.block_dim();
                let i = k.block_idx().x * (dim.x * dim.y * dim.z) + thread(k);
                let v = (x.load(i * 2), x.load(i * 2 + 1));
                let all = k.reduce(group, v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                let upto = k.scan(group, v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                let before = k
                    .scan_exclusive(group, (3u64, 7u64), v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                for (j, value) in (0..).zip([all.0, all.1, upto.0, upto.1, before.0, before.1]) {
                    out.store(i * 6 + j, value);
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

/// A scan with the aggregate gives what the scan gives, and what the reduction gives; `init` is not
/// in the aggregate.
#[test]
fn scans_give_the_aggregate_of_the_group() {
    type Params = (Global<u64>, GlobalMut<u64>);
    let fixed = [[1, 1, 1], [20, 1, 1], [64, 1, 1], [10, 7, 1], [1024, 1, 1]];
    let blocks = BLOCKS.map(|block| (block, false)).into_iter();
    let blocks: Vec<_> = blocks.chain(fixed.map(|block| (block, true))).collect();
    for group in [Group::Lanes(1), Group::Lanes(8), Group::Warp, Group::Block] {
        let build = |options: KernelOptions, target| {
            Kernel::<Params>::build_with(options, "maps", target, |k, (x, out)| {
                let i = thread(k);
                let v = (x.load(i * 2), x.load(i * 2 + 1));
                let (upto, all) =
                    k.scan_with_aggregate(group, v, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                let (before, also_all) =
                    k.scan_exclusive_with_aggregate(group, (3u64, 7u64), v, |_, p, q| {
                        (p.0 * q.0, p.1 * q.0 + q.1)
                    });
                let results = [upto, all, before, also_all];
                for (j, value) in (0..).zip(results.iter().flat_map(|(a, b)| [*a, *b])) {
                    out.store(i * 8 + j, value);
                }
            })
            .unwrap()
        };
        for (block, is_fixed) in &blocks {
            let default = KernelOptions::default();
            let options =
                || if *is_fixed { default.clone().block(*block) } else { default.clone() };
            let threads: usize = block.iter().product::<u32>() as usize;
            let maps: Vec<Affine> = (0..threads as u64).map(|i| (i * 2 + 1, i * i + 5)).collect();
            let flat: Vec<u64> = maps.iter().flat_map(|(a, b)| [*a, *b]).collect();
            let mut expected = Vec::new();
            for range in groups(group, threads) {
                let maps = &maps[range];
                let all = maps.iter().copied().reduce(then).unwrap();
                for i in 0..maps.len() {
                    let upto = maps[..=i].iter().copied().reduce(then).unwrap();
                    let before = maps[..i].iter().copied().fold((3, 7), then);
                    expected.extend([upto, all, before, all].iter().flat_map(|(a, b)| [*a, *b]));
                }
            }
            for device in devices() {
                let f = device.load(&checked(&device, |target| build(options(), target))).unwrap();
                let x = device.upload(&flat).unwrap();
                let mut out = device.zeros(8 * threads).unwrap();
                f.launch(Grid::new([1, 1, 1], *block), (&x, &mut out)).unwrap();
                assert_eq!(out.to_vec().unwrap(), expected, "{group:?} {block:?} on {device}");
            }
        }
    }
}

/// Scans of chunks carry the aggregate through a loop, without a barrier of their own and without a
/// race.
#[test]
fn scans_of_chunks_carry_the_aggregate() {
    let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("chunks", Target::SM_80, |k, (x, n)| {
        let thread = k.thread_idx().x;
        k.for_(range(0, n).step(96), 1000, |k, first, before| {
            let i = first + thread;
            let v = k.if_with(i.lt(n), 0, |_| x.load(i));
            let (sum, all) = k.scan_exclusive_with_aggregate(Group::Block, 0, v, |_, a, b| a + b);
            k.if_(i.lt(n), |_| x.store(i, before + sum));
            before + all
        });
    })
    .unwrap();
    let device = Device::sim_with(sim::Options::default().race(true));
    let values: Vec<i32> = (0..500).map(|i| i * 7 % 31).collect();
    let mut x = device.upload(&values).unwrap();
    device.load(&kernel).unwrap().launch(Grid::cover(96, 96), (&mut x, 500)).unwrap();
    let expected: Vec<i32> = (0..500).map(|i| 1000 + values[..i].iter().sum::<i32>()).collect();
    assert_eq!(x.to_vec().unwrap(), expected);
}

/// The smallest of one value of each width, and whether all or any are true.
#[test]
fn reduce_takes_values_of_any_width() {
    fn check<T: Element + tilewright::ir::Number + PartialOrd>(device: &Device, values: &[T]) {
        for group in [Group::Warp, Group::Block] {
            let kernel = Kernel::<(GlobalMut<T>,)>::build("min", device.target(), |k, (x,)| {
                let i = k.thread_idx().x;
                let v: Val<'_, T> = x.load(i);
                let least =
                    k.reduce(group, v, |_, a: Val<'_, T>, b: Val<'_, T>| a.lt(b).select(a, b));
                k.barrier();
                x.store(i, least);
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
            let v = x.load(i);
            let (all, any) =
                k.reduce(Group::Block, (v.gt(0), v.gt(40)), |_, a, b| (a.0 & b.0, a.1 | b.1));
            k.barrier();
            x.store(i, all.cvt::<i32>() * 10 + any.cvt::<i32>());
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
            let v = x.load(i);
            let v = k.for_(range(0, 5), v, |k, _, v| {
                let sum = k.scan(Group::Block, v, |_, a, b| a + b);
                k.reduce(Group::Warp, sum, |_, a, b| a.max(b)) - v
            });
            x.store(i, v);
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
        let v = x.load(i);
        let quotient = k.reduce(Group::Warp, v, |_, a, b| {
            let one = a - a + 1;
            a / b * one
        });
        x.store(i, quotient);
    })
    .unwrap();
    let lines: std::collections::BTreeSet<u32> =
        kernel.ir().reached_ops().iter().map(|op| kernel.ir().location_of(*op).line).collect();
    assert!(lines.contains(&call) && lines.contains(&body));
    assert!(
        kernel.ir().reached_ops().iter().all(|op| kernel.ir().location_of(*op).file == file!())
    );
    let mut x = device.upload(&[1, 0, 1]).unwrap();
    let error = device.load(&kernel).unwrap().launch(Grid::cover(3, 3), (&mut x,)).unwrap_err();
    let RuntimeError::Simulation(error) = error else { panic!("{error}") };
    assert_eq!(error.fault().unwrap().location.line, body);
}

/// Under a branch that is not the same for all threads the verifier refuses it, with the line of
/// the call.
#[test]
fn reduce_under_a_divergent_branch_is_refused() {
    let build = |group| {
        Kernel::<(GlobalMut<i32>,)>::build("wrong", Target::SM_80, |k, (x,)| {
            let i = k.thread_idx().x;
            k.if_(i.lt(7), |k| {
                let sum = k.reduce(group, i, |_, a, b| a + b);
                x.store(i, sum);
            });
        })
        .map(|_| ())
    };
    for group in [Group::Warp, Group::Block] {
        let errors = build(group).unwrap_err().to_string();
        assert!(errors.contains("collectives.rs"), "{errors}");
    }
}

const GROUPS: [Group; 7] = [
    Group::Lanes(2),
    Group::Lanes(4),
    Group::Lanes(8),
    Group::Lanes(16),
    Group::Lanes(32),
    Group::Warp,
    Group::Block,
];

/// The kernel fixes its block: whole warps, partial warps, few and many warps, 1 to 1024 threads.
#[test]
fn reduce_knows_the_block_of_the_kernel() {
    type Params = (Global<u64>, Global<f32>, GlobalMut<u64>, GlobalMut<f32>);
    let mut sizes = vec![1, 2, 3, 16, 31, 32, 33, 64, 65, 96, 200, 256, 288, 289, 513, 992, 1024];
    let mut seed = 7u32;
    for _ in 0..16 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        sizes.push((seed >> 16) % 1024 + 1);
    }
    for device in devices() {
        for (i, threads) in sizes.iter().copied().enumerate() {
            let groups = if i < 17 { &GROUPS[..] } else { &GROUPS[5..] };
            for &group in groups {
                let options = KernelOptions::default().block([threads, 1, 1]);
                let name = "known";
                let target = device.target();
                let kernel =
                    Kernel::<Params>::build_with(options, name, target, |k, (x, y, u, v)| {
                        let i = k.thread_idx().x;
                        let own = (x.load(i * 2), x.load(i * 2 + 1));
                        let maps = k.reduce(group, own, |_, p, q| (p.0 * q.0, p.1 * q.0 + q.1));
                        let small = own.0.cvt::<i32>();
                        let sum = k.sum(group, small);
                        let (xor, or) = k.reduce(group, (small, small.cvt::<u32>()), |_, a, b| {
                            (a.0 ^ b.0, a.1 | b.1)
                        });
                        let f = y.load(i);
                        let (max, min) = (k.max(group, f), k.min(group, f));
                        let (largest, at) = k.argmax(group, f, i);
                        let total = k.sum(group, f);
                        let ints = [sum.cvt::<u32>(), xor.cvt::<u32>(), or, at.cvt::<u32>()];
                        for (j, value) in (0..).zip([maps.0, maps.1]) {
                            u.store(i * 6 + j, value);
                        }
                        for (j, value) in (2..).zip(ints) {
                            u.store(i * 6 + j, value.cvt::<u64>());
                        }
                        for (j, value) in (0..).zip([max, min, largest, total]) {
                            v.store(i * 4 + j, value);
                        }
                    })
                    .unwrap();
                let n = threads as usize;
                let maps: Vec<Affine> =
                    (0..threads).map(|i| (u64::from(i * 2 + 1), u64::from(i * i + 5))).collect();
                let flat: Vec<u64> = maps.iter().flat_map(|(a, b)| [*a, *b]).collect();
                // Small integers, so that sums are exact; each value comes several times.
                let floats: Vec<f32> = (0..threads).map(|i| (i * 37 % 23) as f32 - 11.0).collect();
                let (x, y) = (device.upload(&flat).unwrap(), device.upload(&floats).unwrap());
                let mut u = device.zeros(6 * n).unwrap();
                let mut v = device.zeros(4 * n).unwrap();
                let f = device.load(&kernel).unwrap();
                f.launch(Grid::new([1; 3], [threads, 1, 1]), (&x, &y, &mut u, &mut v)).unwrap();
                let (mut ints, mut reals) = (Vec::new(), Vec::new());
                for range in self::groups(group, n) {
                    let (m, f) = (&maps[range.clone()], &floats[range.clone()]);
                    let all = m.iter().copied().reduce(then).unwrap();
                    let sum = m.iter().fold(0u32, |sum, m| sum.wrapping_add(m.0 as u32));
                    let xor = m.iter().fold(0, |sum, m| sum ^ m.0 as u32);
                    let or = m.iter().fold(0, |sum, m| sum | m.0 as u32);
                    let max = f.iter().copied().fold(f32::MIN, f32::max);
                    let min = f.iter().copied().fold(f32::MAX, f32::min);
                    let at = range.start + f.iter().position(|f| *f == max).unwrap();
                    for _ in range {
                        ints.extend([all.0, all.1]);
                        ints.extend([sum, xor, or, at as u32].map(u64::from));
                        reals.extend([max, min, max, f.iter().sum()]);
                    }
                }
                assert_eq!(u.to_vec().unwrap(), ints, "{group:?} of {threads} on {device}");
                assert_eq!(v.to_vec().unwrap(), reals, "{group:?} of {threads} on {device}");
            }
        }
    }
}

/// Several reductions after each other, of different sizes, in branches and in loops: the memory
/// that they share is not written before all threads have read it, in any order of the warps.
#[test]
fn reductions_share_their_memory() {
    for fixed in [false, true] {
        let options = KernelOptions::default();
        let options = if fixed { options.block([320, 1, 1]) } else { options };
        let kernel = Kernel::<(GlobalMut<i64>, i32)>::build_with(
            options,
            "rounds",
            Target::SM_80,
            |k, (x, n)| {
                let i = k.thread_idx().x;
                let start = x.load(i);
                let v = k.for_(range(0, n), start, |k, round, v| {
                    let sum = k.sum(Group::Block, v);
                    let v = k.if_with((round & 1).eq(0), v, |k| {
                        let small = k.sum(Group::Block, v.cvt::<i32>());
                        let maps = k.reduce(Group::Block, (v, v, v), |_, p, q| {
                            (p.0 * q.0, p.1 * q.0 + q.1, p.2.max(q.2))
                        });
                        v + small.cvt::<i64>() + maps.1 % 1000 + maps.2
                    });
                    let before = k.scan_exclusive(Group::Block, 0i64, v, |_, a, b| a + b);
                    v * 3 + (sum + before) % 1000
                });
                x.store(i, v);
            },
        )
        .unwrap();
        let random = |seed| sim::Options::default().order(sim::Order::Random { seed });
        let mut all = devices();
        all.extend((0..8).map(|seed| Device::sim_with(random(seed))));
        for device in all {
            let mut v: Vec<i64> = (0..320).map(|i| i * 5 % 17 + 1).collect();
            let mut x = device.upload(&v).unwrap();
            let f = device.load(&kernel).unwrap();
            f.launch(Grid::cover(320, 320), (&mut x, 5)).unwrap();
            for round in 0..5 {
                let sum = v.iter().fold(0i64, |sum, v| sum.wrapping_add(*v));
                if round & 1 == 0 {
                    let small = v.iter().fold(0i32, |sum, v| sum.wrapping_add(*v as i32));
                    let maps = v.iter().map(|v| (*v, *v, *v)).reduce(|p, q| {
                        let next = p.1.wrapping_mul(q.0).wrapping_add(q.1);
                        (p.0.wrapping_mul(q.0), next, p.2.max(q.2))
                    });
                    let maps = maps.unwrap();
                    for v in &mut v {
                        *v = v.wrapping_add(i64::from(small)).wrapping_add(maps.1 % 1000);
                        *v = v.wrapping_add(maps.2);
                    }
                }
                let mut before = 0i64;
                for v in &mut v {
                    let own = *v;
                    *v = own.wrapping_mul(3).wrapping_add(sum.wrapping_add(before) % 1000);
                    before = before.wrapping_add(own);
                }
            }
            assert_eq!(x.to_vec().unwrap(), v, "fixed: {fixed}, on {device}");
        }
    }
}

/// Counts shuffles, `redux`, barriers and shared bytes of a kernel with `calls` sums over a block
/// of `threads`.
fn cost(threads: u32, calls: usize, group: Group, of_ints: bool) -> [usize; 4] {
    let options = KernelOptions::default().block([threads, 1, 1]);
    type Params = (GlobalMut<f32>, GlobalMut<i32>);
    let kernel = Kernel::<Params>::build_with(options, "cost", Target::SM_80, |k, (x, y)| {
        let i = k.thread_idx().x;
        for _ in 0..calls {
            if of_ints {
                let sum = k.sum(group, y.load(i));
                y.store(i, sum);
            } else {
                let sum = k.sum(group, x.load(i));
                x.store(i, sum);
            }
        }
    })
    .unwrap();
    let ptx = kernel.ptx();
    let text = ptx.text();
    let count = |what: &str| text.matches(what).count();
    assert_eq!(count("selp"), 0, "{text}");
    let bytes: u32 = kernel.ir().shared.iter().map(|(_, data)| data.len).sum();
    let barriers = count("bar.sync") + count("barrier.sync");
    [count("shfl.sync.bfly"), count("redux.sync.add.s32"), barriers, bytes as usize]
}

/// A sum is as many steps as the lanes need, one barrier for a block, and shared memory once.
#[test]
fn sums_take_few_instructions() {
    for (lanes, shuffles) in [(2, 1), (4, 2), (8, 3), (16, 4), (32, 5)] {
        assert_eq!(cost(128, 1, Group::Lanes(lanes), false), [shuffles, 0, 0, 0]);
    }
    assert_eq!(cost(128, 3, Group::Warp, false), [15, 0, 0, 0]);
    assert_eq!(cost(128, 1, Group::Warp, true), [0, 1, 0, 0]);
    assert_eq!(cost(32, 1, Group::Block, false), [5, 0, 0, 0]);
    // Two halves, of 4 bytes for each warp.
    assert_eq!(cost(256, 1, Group::Block, false), [5, 0, 1, 64]);
    assert_eq!(cost(256, 8, Group::Block, false), [40, 0, 8, 64]);
    assert_eq!(cost(1024, 1, Group::Block, false), [5, 0, 1, 256]);
    assert_eq!(cost(256, 2, Group::Block, true), [0, 2, 2, 64]);
}

/// The lines of PTX of a kernel with the sum of a block, less those of the same kernel without the
/// sum.
fn lines_of_a_sum(options: KernelOptions) -> usize {
    type Params = (GlobalMut<f32>,);
    let lines = |is_summed: bool| {
        let kernel =
            Kernel::<Params>::build_with(options.clone(), "sum", Target::SM_80, |k, (x,)| {
                let i = k.thread_idx().x;
                let value = x.load(i);
                let value = if is_summed { k.sum(Group::Block, value) } else { value };
                x.store(i, value);
            });
        let text = kernel.unwrap().ptx().text().to_owned();
        text.lines()
            .filter(|line| line.trim_end().ends_with(';') && !line.contains(".reg "))
            .count()
    };
    lines(true) - lines(false)
}

/// A sum of a block whose size the launch gives takes a shuffle, an addition and a choice for each
/// of 10 steps.
#[test]
fn sums_of_any_block_take_three_instructions_a_step() {
    let lines = lines_of_a_sum(KernelOptions::default());
    assert!((30..=90).contains(&lines), "{lines} instructions");
    assert!(lines_of_a_sum(KernelOptions::default().block([256, 1, 1])) < 40);
}

/// NaN is taken only where all values are NaN, and then with the lowest index.
#[test]
fn argmax_ignores_nan() {
    let nan = f32::NAN;
    let values = [nan, -0.0, 0.0, nan, 7.0, nan, 7.0, f32::NEG_INFINITY, nan, nan, nan, nan];
    let kernel =
        Kernel::<(Global<f32>, GlobalMut<i32>)>::build("nan", Target::SM_80, |k, (x, y)| {
            let i = k.thread_idx().x;
            let (_, at) = k.argmax(Group::Lanes(4), x.load(i), 100 - i);
            y.store(i, at);
        })
        .unwrap();
    for device in devices() {
        let x = device.upload(&values).unwrap();
        let mut y = device.zeros(12).unwrap();
        device.load(&kernel).unwrap().launch(Grid::cover(12, 12), (&x, &mut y)).unwrap();
        let expected = [[98; 4], [94; 4], [89; 4]].concat();
        assert_eq!(y.to_vec().unwrap(), expected, "on {device}");
    }
}

/// The result of a reduction is the same in all its threads, and the verifier knows it: what they
/// do together may depend on it.
#[test]
fn branches_on_a_reduction_are_taken_together() {
    for threads in [None, Some(5), Some(32), Some(200), Some(256), Some(1024)] {
        let options = KernelOptions::default();
        let options = threads.map_or(options.clone(), |threads| options.block([threads, 1, 1]));
        Kernel::<(GlobalMut<f32>,)>::build_with(options, "branch", Target::SM_80, |k, (x,)| {
            let i = k.thread_idx().x;
            let v = x.load(i);
            let largest = k.max(Group::Warp, v);
            k.if_(largest.gt(0.0), |k| k.bar_warp(tilewright::ir::WARP));
            let (_, at) = k.argmax(Group::Block, v, i);
            k.if_(at.gt(3), |k| k.barrier());
            let last = k.reduce(Group::Block, (v, v), |_, a, b| (b.0, a.1 + b.0));
            k.if_(last.1.gt(3.0), |k| k.barrier());
        })
        .unwrap_or_else(|errors| panic!("{threads:?}: {errors}"));
    }
}

#[test]
fn groups_have_lanes_of_a_power_of_two() {
    for lanes in [0, 3, 48, 64] {
        let built = Kernel::<(GlobalMut<i32>,)>::build("wrong", Target::SM_80, |k, (x,)| {
            let sum = k.sum(Group::Lanes(lanes), x.load(0));
            x.store(0, sum);
        });
        let errors = built.map(|_| ()).unwrap_err().to_string();
        let wanted = format!("a group of lanes has 1, 2, 4, 8, 16 or 32 lanes, not {lanes}: use");
        assert!(errors.contains(&wanted) && errors.contains("collectives.rs"), "{errors}");
    }
}

#[test]
fn the_softmax_example_runs() {
    for device in device::devices() {
        softmax::run(&device).unwrap();
    }
}
