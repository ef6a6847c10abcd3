//! Atomic operations, and loads and stores with an order, on every device, against the same on the
//! host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::slow::sample;
use crate::support::{device, text, threads};

use tilewright::ir::builder::{AtomicCas, AtomicHalf, AtomicInt, AtomicWord};
use tilewright::ir::op::{
    AtomicOrder, L1Evict, L2Policy, L2Prefetch, LoadAccess, LoadCache, MemScope, PrefetchLevel,
    RedOrder, StoreAccess, StoreCache,
};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    Body, Element, Float, GlobalMut, Integer, Kernel, Shared, Target, Val, Vector, bf16, f16, range,
};
use tilewright::runtime::Grid;

const BLOCKS: u32 = 40;
const THREADS: u32 = 96;
const ALL: i64 = (BLOCKS * THREADS) as i64;

/// Runs `body` in many blocks on one cell of `T`, once by `atom` in global memory, and checks what
/// the cell holds at the end. The order of the threads is not known, so the result must not depend
/// on it.
#[track_caller]
fn check_cell<T: Element>(
    first: T,
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, GlobalMut<T>>, Val<'b, i32>),
    expected: T,
) {
    let build = |target| {
        Kernel::<(GlobalMut<T>,)>::build("cell", target, |k, (cell,)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            body(k, cell, i);
        })
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let kernel = build(device.target());
        text::check_round_trip(kernel.ir());
        let function = device.load(&kernel).expect("the kernel loads");
        let mut cell = device.upload(&[first]).expect("the buffer fits");
        let grid = Grid::new([BLOCKS, 1, 1], [THREADS, 1, 1]);
        function.launch(grid, (&mut cell,)).unwrap_or_else(|error| panic!("{error}\n{kernel}"));
        let found = cell.to_vec().expect("the buffer can be read");
        assert_eq!(found, [expected], "on {}\n{kernel}", device.name());
    }
}

/// An integer of type `T` from its bits.
fn int<T: Element>(value: i64) -> T {
    T::from_bits(tilewright::ir::types::Const::new(T::SCALAR, value as u64).bits())
}

fn integers_of<T: AtomicInt + AtomicWord>() {
    // The value of a thread: its number, scattered, in the whole range of the type.
    let scale = if T::SCALAR.bits() == 64 { 0x0123_4567_89ab } else { 0x0012_3457 };
    let value = |i: i64| int::<T>((i * 37 % ALL - ALL / 2) * scale);
    fn value_in<'b, T: AtomicInt>(i: Val<'b, i32>, scale: i64) -> Val<'b, T> {
        ((i.cvt::<i64>() * 37 % ALL - ALL / 2) * scale).cvt::<T>()
    }
    let all = || (0..ALL).map(value);
    let bits = |x: T| x.to_const().as_int().unwrap();
    let sum = all().fold(0i64, |sum, x| sum.wrapping_add(bits(x) as i64));
    check_cell::<T>(T::ZERO, |_, c, i| c.red().add(0, value_in::<T>(i, scale)), int(sum));
    check_cell::<T>(
        T::ZERO,
        |_, c, i| {
            c.atom().order(AtomicOrder::AcqRel).add(0, value_in::<T>(i, scale));
        },
        int(sum),
    );
    let middle = value(ALL / 2);
    let smallest = all().min_by_key(|x| bits(*x)).unwrap();
    let largest = all().max_by_key(|x| bits(*x)).unwrap();
    check_cell::<T>(middle, |_, c, i| c.red().min(0, value_in::<T>(i, scale)), smallest);
    check_cell::<T>(
        middle,
        |_, c, i| {
            c.atom().scope(MemScope::Sys).max(0, value_in::<T>(i, scale));
        },
        largest,
    );
    let fold = |first: i64, f: fn(i64, i64) -> i64| {
        int::<T>(all().fold(first, |a, b| f(a, b.to_const().bits() as i64)))
    };
    let and = fold(-1, |a, b| a & (b | 0x00f0_0ff0));
    check_cell::<T>(
        int(-1),
        |_, c, i| c.red().and(0, value_in::<T>(i, scale) | int::<T>(0x00f0_0ff0)),
        and,
    );
    let or = fold(0, |a, b| a | b & 0x0f0f_0f0f);
    check_cell::<T>(
        int(0),
        |_, c, i| c.red().or(0, value_in::<T>(i, scale) & int::<T>(0x0f0f_0f0f)),
        or,
    );
    let xor = fold(5, |a, b| a ^ b);
    check_cell::<T>(
        int(5),
        |_, c, i| c.red().order(RedOrder::Release).xor(0, value_in::<T>(i, scale)),
        xor,
    );
}

#[test]
fn integers_of_every_type() {
    let all: [fn(); 4] =
        [integers_of::<u32>, integers_of::<i32>, integers_of::<i64>, integers_of::<u64>];
    sample(2, all).for_each(|test| test());
}

/// Small whole numbers, whose sums are exact in any order.
#[test]
fn sums_of_floating_point_numbers() {
    let sum = (0..ALL).sum::<i64>();
    check_cell::<f64>(0.0, |_, c, i| c.red().add(0, i.cvt::<f64>()), sum as f64);
    let parity = (0..ALL).map(|i| i % 5 - 1).sum::<i64>();
    check_cell::<f32>(0.5, |_, c, i| c.red().add(0, (i % 5 - 1).cvt::<f32>()), parity as f32 + 0.5);
    check_cell::<f32>(
        0.5,
        |_, c, i| {
            c.atom().add(0, (i % 5 - 1).cvt::<f32>());
        },
        parity as f32 + 0.5,
    );
}

/// In global memory the device adds `f32` without subnormal numbers; in shared memory with them.
#[test]
fn sums_of_subnormal_numbers() {
    let tiny = f32::from_bits(3);
    check_cell::<f32>(0.0, |k, c, i| k.if_(i.lt(1), |_| c.red().add(0, tiny)), 0.0);
    let grid = Grid::new([1, 1, 1], [32, 1, 1]);
    threads::check_grid::<f32>(
        Target::SM_80,
        grid,
        |k, i| {
            let s = k.shared::<f32>(1);
            k.if_(i.eq(0), |_| s.store(0, 0.0));
            k.barrier();
            s.red().add(0, tiny);
            k.barrier();
            s.load(0)
        },
        |_| f32::from_bits(96),
    );
}

/// Each thread gets another number: together all of them, once.
#[test]
fn what_was_there_before() {
    let build = |target| {
        Kernel::<(GlobalMut<u32>, GlobalMut<u32>, GlobalMut<u64>)>::build(
            "tickets",
            target,
            |k, (next, taken, next64)| {
                let ticket = next.atom().add(0, 1);
                taken.red().add(ticket, 1);
                let ticket = next64.atom().add(0, 1 << 20);
                taken.red().add(ticket >> 20u32, 1);
                // Exchanges pass each number on; the last one stays.
                let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
                let found = next.atom().exch(1, i.cvt::<u32>() + 1);
                k.if_(found.gt(0), |_| taken.red().add(found - 1, 1));
            },
        )
        .expect("the kernel is valid")
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let function = device.load(&build(device.target())).unwrap();
        let mut next = device.zeros::<u32>(2).unwrap();
        let mut next64 = device.zeros::<u64>(1).unwrap();
        let mut taken = device.zeros::<u32>(ALL as usize).unwrap();
        let grid = Grid::new([BLOCKS, 1, 1], [THREADS, 1, 1]);
        function.launch(grid, (&mut next, &mut taken, &mut next64)).unwrap();
        let (next, mut taken) = (next.to_vec().unwrap(), taken.to_vec().unwrap());
        taken[next[1] as usize - 1] += 1;
        assert!(taken.iter().all(|count| *count == 3), "on {}: {taken:?}", device.name());
        assert_eq!((next[0], next64.to_vec().unwrap()[0]), (ALL as u32, (ALL as u64) << 20));
    }
}

#[test]
fn counters_that_wrap() {
    let n = ALL as u32;
    check_cell::<u32>(0, |_, c, _| c.red().inc(0, 6), n % 7);
    check_cell::<u32>(
        3,
        |_, c, _| {
            c.atom().dec(0, 6);
        },
        (0..n).fold(3, |old, _| if old == 0 { 6 } else { old - 1 }),
    );
    // Above the limit it starts again.
    check_cell::<u32>(100, |k, c, i| k.if_(i.eq(0), |_| c.red().inc(0, 6)), 0);
    check_cell::<u32>(100, |k, c, i| k.if_(i.eq(0), |_| c.red().dec(0, 6)), 6);
}

fn cas_loop<T: AtomicWord>(
    first: T,
    next: impl for<'b> Fn(Val<'b, T>) -> Val<'b, T>,
    is_same: impl for<'b> Fn(Val<'b, T>, Val<'b, T>) -> Val<'b, bool>,
    expected: T,
) {
    check_cell::<T>(
        first,
        |k, c, _| {
            let seen = c.load_with(0, LoadAccess::default().relaxed(MemScope::Gpu));
            k.loop_::<_, ()>(seen, |k, lp, seen| {
                let old = c.atom().cas(0, seen, next(seen));
                k.if_(is_same(old, seen), |k| lp.break_(k, ()));
                lp.continue_(k, old)
            });
        },
        expected,
    );
}

/// `cas` builds an atomic product modulo 2^n, which no single instruction computes.
#[test]
fn products_by_compare_and_swap() {
    let n = ALL as usize;
    let odd = |power: usize| (0..power).fold(1u64, |p, _| p.wrapping_mul(3));
    cas_loop::<u32>(1, |v| v * 3, |a, b| a.eq(b), odd(n) as u32);
    cas_loop::<i64>(1, |v| v * 3, |a, b| a.eq(b), odd(n) as i64);
    let mut f = 1.0f32;
    (0..n).for_each(|_| f = if f > 1e6 { f * 0.001 } else { f * 1.5 });
    cas_loop::<f32>(1.0, |v| v.gt(1e6).select(v * 0.001, v * 1.5), |a, b| a.eq(b), f);
    cas_loop::<f64>(1.0, |v| v + 1.0, |a, b| a.eq(b), 1.0 + n as f64);
}

/// The same operations in shared memory.
#[test]
fn shared_memory() {
    fn cell<'b, T: Element>(k: &mut Body<'b, 'b>, i: Val<'b, i32>, first: T) -> Val<'b, Shared<T>> {
        let s = k.shared::<T>(1);
        k.if_(i.eq(0), |_| s.store(0, first));
        k.barrier();
        s
    }
    let grid = Grid::new([1, 1, 1], [THREADS, 1, 1]);
    let n = i64::from(THREADS);
    threads::check_grid::<i64>(
        Target::SM_80,
        grid,
        |k, i| {
            let (a, b) = (cell(k, i, 5i64), cell(k, i, 0u32));
            let c = cell(k, i, f64::from(1u8));
            a.red().add(0, i.cvt::<i64>() << 30u32);
            b.atom().scope(MemScope::Cta).max(0, i.cvt::<u32>());
            c.red().add(0, 2.0);
            k.barrier();
            a.load(0) + b.load(0).cvt::<i64>() + c.load(0).cvt::<i64>()
        },
        |_| 5 + ((n * (n - 1) / 2) << 30) + (n - 1) + (1 + 2 * n),
    );
}

/// The last block to come sees what all others have written.
#[test]
fn the_last_block_sums_what_the_others_wrote() {
    let build = |target| {
        Kernel::<(GlobalMut<u64>, GlobalMut<u32>, GlobalMut<u64>)>::build(
            "last",
            target,
            |k, (parts, arrived, sum)| {
                let (b, t) = (k.block_idx().x, k.thread_idx().x);
                k.if_(t.eq(0), |k| {
                    parts.store(b, (b.cvt::<u64>() + 1) * 0x1_0000_0001);
                    let before = arrived.atom().order(AtomicOrder::AcqRel).add(0, 1);
                    k.if_(before.eq(BLOCKS - 1), |k| {
                        let all =
                            k.for_(range(0, BLOCKS as i32), 0u64, |_, i, all| all + parts.load(i));
                        sum.store_with(0, all, StoreAccess::default().release(MemScope::Sys));
                    });
                });
            },
        )
        .expect("the kernel is valid")
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let function = device.load(&build(device.target())).unwrap();
        for _ in 0..20 {
            let mut parts = device.zeros::<u64>(BLOCKS as usize).unwrap();
            let mut arrived = device.zeros::<u32>(1).unwrap();
            let mut sum = device.zeros::<u64>(1).unwrap();
            let grid = Grid::new([BLOCKS, 1, 1], [32, 1, 1]);
            function.launch(grid, (&mut parts, &mut arrived, &mut sum)).unwrap();
            let n = u64::from(BLOCKS);
            let expected = n * (n + 1) / 2 * 0x1_0000_0001;
            assert_eq!(sum.to_vec().unwrap(), [expected], "on {}", device.name());
        }
    }
}

/// One warp waits for a flag that another one sets.
#[test]
fn a_flag_between_warps() {
    let grid = Grid::new([1, 1, 1], [64, 1, 1]);
    threads::check_grid::<i32>(
        Target::SM_80,
        grid,
        |k, i| {
            let (flag, data) = (k.shared::<u32>(1), k.shared::<i32>(1));
            k.if_(i.eq(0), |_| flag.store(0, 0));
            k.barrier();
            k.if_(i.eq(40), |_| {
                data.store(0, 77);
                flag.store_with(0, 1, StoreAccess::default().release(MemScope::Cta));
            });
            k.if_(i.lt(32), |k| {
                k.loop_::<_, ()>((), |k, lp, ()| {
                    let set = flag.load_with(0, LoadAccess::default().acquire(MemScope::Cta));
                    k.if_(set.eq(1), |k| lp.break_(k, ()));
                    k.nanosleep(20u32);
                    lp.continue_(k, ())
                });
            });
            k.barrier();
            data.load(0)
        },
        |_| 77,
    );
}

/// Hints change nothing but the text.
#[test]
fn hints_and_orders_read_and_write_the_same() {
    let load = LoadAccess::default();
    let loads = [
        load,
        load.volatile(),
        load.relaxed(MemScope::Cta),
        load.acquire(MemScope::Sys),
        load.cache(LoadCache::Cs).l2_prefetch(L2Prefetch::B256),
        load.cache(LoadCache::Cv),
        load.cache(LoadCache::Lu),
        load.non_coherent().l1_evict(L1Evict::NoAllocate),
        load.non_coherent().cache(LoadCache::Ca),
        load.l1_evict(L1Evict::Last),
        load.l1_evict(L1Evict::First).l2_policy(L2Policy::EvictNormal),
    ];
    let store = StoreAccess::default();
    let stores = [
        store,
        store.volatile(),
        store.relaxed(MemScope::Gpu),
        store.release(MemScope::Sys),
        store.cache(StoreCache::Wt),
        store.cache(StoreCache::Cg),
        store.l1_evict(L1Evict::First),
    ];
    fn check<T: Element>(values: &[T], loads: &[LoadAccess], stores: &[StoreAccess]) {
        for (number, load) in loads.iter().enumerate() {
            let store = stores[number % stores.len()];
            let build = |target| {
                type Copy<T> = (tilewright::ir::Global<T>, GlobalMut<T>);
                Kernel::<Copy<T>>::build("copy", target, |k, (x, y)| {
                    let i = k.thread_idx().x;
                    x.prefetch(i, PrefetchLevel::ALL[number % 4]);
                    let v = x.load_with(i, *load);
                    y.store_with(i, v, store);
                })
                .unwrap_or_else(|errors| panic!("{errors}"))
            };
            threads::assemble(Target::SM_80, build);
            for device in device::devices() {
                let kernel = build(device.target());
                text::check_round_trip(kernel.ir());
                let x = device.upload(values).unwrap();
                let mut y = device.zeros::<T>(values.len()).unwrap();
                let grid = Grid::new([1, 1, 1], [values.len() as u32, 1, 1]);
                device.load(&kernel).unwrap().launch(grid, (&x, &mut y)).unwrap();
                assert_eq!(y.to_vec().unwrap(), values, "{load} {store} on {}", device.name());
            }
        }
    }
    check::<u64>(&[u64::MAX, 1, 1 << 40], &loads, &stores);
    check::<f32>(&[1.5, -0.0, 3e38], &loads, &stores);
    check::<u8>(&[1, 255, 7, 128, 0], &loads, &stores);
    check::<bool>(&[true, false, true], &loads, &stores);
}

/// A line that is discarded is written again; the lines beside it are untouched.
#[test]
fn lines_that_are_discarded() {
    let build = |target| {
        Kernel::<(GlobalMut<u32>,)>::build("discard", target, |k, (x,)| {
            let i = k.thread_idx().x;
            k.if_(i.eq(0), |_| {
                x.applypriority(0);
                x.discard(32);
            });
            k.barrier();
            x.store(i + 32, i.cvt::<u32>());
        })
        .unwrap()
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let function = device.load(&build(device.target())).unwrap();
        let mut x = device.upload(&[9u32; 96]).unwrap();
        function.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut x,)).unwrap();
        let expected: Vec<u32> = (0..96).map(|i| if i / 32 == 1 { i - 32 } else { 9 }).collect();
        assert_eq!(x.to_vec().unwrap(), expected, "on {}", device.name());
    }
}

/// The text names order, scope and hints as the PTX ISA has them, with the lowest version that has
/// them.
#[test]
fn text_and_version_of_accesses() {
    let check = |target: Target, access: LoadAccess, text: &str, version: &str| {
        let kernel = Kernel::<(GlobalMut<f32>,)>::build("k", target, |_, (x,)| {
            let v = x.load_with(1, access);
            x.store(0, v);
        });
        let ptx = kernel.unwrap().ptx();
        assert!(ptx.text().contains(text), "{text}: {ptx}");
        assert_eq!(ptx.version().to_string(), version, "{text}");
    };
    let load = LoadAccess::default();
    check(Target::SM_80, load, "ld.global.f32 ", "7.0");
    check(Target::SM_80, load.acquire(MemScope::Sys), "ld.acquire.sys.global.f32 ", "7.0");
    check(Target::SM_90, load.relaxed(MemScope::Cluster), "ld.relaxed.cluster.global.f32", "7.8");
    let streamed = load.non_coherent().l1_evict(L1Evict::NoAllocate).l2_prefetch(L2Prefetch::B128);
    check(Target::SM_80, streamed, "ld.global.nc.L1::no_allocate.L2::128B.f32 ", "7.4");
    check(Target::SM_80, load.cache(LoadCache::Cs).non_coherent(), "ld.global.cs.nc.f32", "7.0");
    let kept = load.l2_policy(L2Policy::EvictLast).l2_prefetch(L2Prefetch::B256);
    check(Target::SM_80, kept, "ld.global.L2::cache_hint.L2::256B.f32 ", "7.4");
    check(Target::SM_80, kept, "createpolicy.fractional.L2::evict_last.b64 ", "7.4");
    let first = load.relaxed(MemScope::Gpu).l2_policy(L2Policy::EvictFirst);
    check(Target::SM_80, first, "ld.relaxed.gpu.global.L2::cache_hint.f32 ", "7.4");
}

/// Runs `body` with 64 threads in one block on a buffer of `N` elements, for the targets from
/// `first` on, and compares all of it.
#[track_caller]
fn check_buffer<T: Element, const N: usize>(
    first: Target,
    values: [T; N],
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, GlobalMut<T>>, Val<'b, i32>),
    expected: [T; N],
) {
    let build = |target| {
        Kernel::<(GlobalMut<T>,)>::build("buffer", target, |k, (x,)| {
            let t = k.thread_idx().x;
            body(k, x, t);
        })
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    threads::assemble(first, build);
    let bits = |all: &[T]| -> Vec<u64> { all.iter().map(|x| x.to_const().bits()).collect() };
    for device in device::devices() {
        let target = if device.is_sim() { first } else { device.target() };
        if !target.offers(first) {
            continue;
        }
        let kernel = build(target);
        text::check_round_trip(kernel.ir());
        let mut x = device.upload(&values).unwrap();
        let grid = Grid::new([1, 1, 1], [64, 1, 1]);
        let run = device.load(&kernel).unwrap().launch(grid, (&mut x,));
        run.unwrap_or_else(|error| panic!("{error}\n{kernel}"));
        let found = x.to_vec().unwrap();
        assert_eq!(bits(&found), bits(&expected), "{found:?} on {}\n{kernel}", device.name());
    }
}

fn halves<T: Element>(numbers: [f64; 8]) -> [T; 8] {
    numbers.map(|x| {
        T::from_bits(match T::SCALAR {
            Scalar::F16 => f16::from_f64(x).to_bits().into(),
            _ => bf16::from_f64(x).to_bits().into(),
        })
    })
}

/// Halves, one by one and in vectors of every length: sums of whole numbers, which are exact in any
/// order, and of subnormal numbers; smaller and larger ones.
fn halves_of<T>(first: Target, tiny: u64)
where
    T: AtomicHalf<2> + AtomicHalf<4> + AtomicHalf<8> + AtomicCas + Float,
{
    let one = || halves::<T>([1.0; 8])[0];
    let zeros = halves::<T>([0.0; 8]);
    let each = |x: f64| halves::<T>([x; 8]);
    // Both halves of each word, by other threads.
    check_buffer::<T, 8>(
        first,
        zeros,
        |_, x, t| {
            x.red().add(t & 7, one());
            x.atom().order(AtomicOrder::AcqRel).add(t & 7, one());
        },
        each(16.0),
    );
    check_buffer::<T, 8>(
        first,
        zeros,
        |k, x, _| {
            let pair: Val<'_, Vector<T, 2>> = Val::splat(k.constant(one()));
            x.red().add_vector(2, pair);
            x.cvta().atom().add_vector(4, pair);
        },
        halves([0.0, 0.0, 64.0, 64.0, 64.0, 64.0, 0.0, 0.0]),
    );
    // Numbers below the normal ones are numbers like others.
    let small = T::from_bits(tiny);
    let sum = T::from_bits(tiny * 64);
    check_buffer::<T, 8>(
        first,
        zeros,
        |k, x, _| {
            x.red().add(0, small);
            let pair: Val<'_, Vector<T, 2>> = Val::splat(k.constant(small));
            x.red().add_vector(6, pair);
        },
        [sum, zeros[0], zeros[0], zeros[0], zeros[0], zeros[0], sum, sum],
    );
    check_buffer::<T, 8>(
        Target::SM_90,
        zeros,
        |k, x, t| {
            let four: Val<'_, Vector<T, 4>> = Val::splat(k.constant(one()));
            x.red().order(RedOrder::Release).add_vector(4, four);
            let eight: Val<'_, Vector<T, 8>> = Val::splat(k.constant(one()));
            x.atom().scope(MemScope::Sys).add_vector(0, eight);
            k.if_(t.eq(0), |k| {
                let small: Val<'_, Vector<T, 8>> = Val::splat(k.constant(T::from_bits(0)));
                x.red().add_vector(0, small);
            });
        },
        halves([64.0, 64.0, 64.0, 64.0, 128.0, 128.0, 128.0, 128.0]),
    );
    let start = halves::<T>([5.0, -5.0, 100.0, -100.0, 0.5, -0.5, 63.0, -63.0]);
    check_buffer::<T, 8>(
        Target::SM_90,
        start,
        |_, x, t| {
            let v = t.cvt::<T>();
            let two: Val<'_, Vector<T, 2>> = Val::splat(v);
            let four: Val<'_, Vector<T, 4>> = Val::splat(v);
            x.atom().max_vector(0, two);
            x.red().min_vector(2, two);
            x.red().min_vector(4, four);
        },
        halves([63.0, 63.0, 0.0, -100.0, 0.0, -0.5, 0.0, -63.0]),
    );
    check_buffer::<T, 8>(
        Target::SM_90,
        start,
        |k, x, t| {
            let eight: Val<'_, Vector<T, 8>> = Val::splat(t.cvt::<T>() - k.constant(one()));
            x.atom().max_vector(0, eight);
        },
        halves([62.0, 62.0, 100.0, 62.0, 62.0, 62.0, 63.0, 62.0]),
    );
    // One more by each thread, as no single instruction does it.
    check_buffer::<T, 8>(
        first,
        zeros,
        |k, x, t| {
            let at = t & 1;
            let seen = x.load_with(at, LoadAccess::default().relaxed(MemScope::Gpu));
            k.loop_::<_, ()>(seen, |k, lp, seen| {
                let old = x.atom().cas(at, seen, seen + one());
                k.if_(old.eq(seen), |k| lp.break_(k, ()));
                lp.continue_(k, old)
            });
        },
        halves([32.0, 32.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    );
}

#[test]
fn halves_and_their_vectors() {
    halves_of::<f16>(Target::SM_80, 3);
    halves_of::<bf16>(Target::SM_90, 2);
}

/// `cas.b16` of integers, whose halves of a word are apart.
#[test]
fn half_words_by_compare_and_swap() {
    fn check<T: AtomicCas + Integer>(values: [T; 2], expected: [T; 2]) {
        check_buffer::<T, 2>(
            Target::SM_80,
            values,
            |k, x, t| {
                let at = t & 1;
                let seen = x.load_with(at, LoadAccess::default().relaxed(MemScope::Gpu));
                k.loop_::<_, ()>(seen, |k, lp, seen| {
                    let old = x.atom().order(AtomicOrder::AcqRel).cas(at, seen, seen + T::ONE);
                    k.if_(old.eq(seen), |k| lp.break_(k, ()));
                    lp.continue_(k, old)
                });
            },
            expected,
        );
    }
    check::<i16>([-20, i16::MAX], [12, i16::MIN + 31]);
    check::<u16>([u16::MAX, 5], [31, 37]);
}

/// Vectors of `f32` in global memory, with subnormal numbers as zero.
#[test]
fn sums_of_vectors() {
    let tiny = f32::from_bits(5);
    check_buffer::<f32, 8>(
        Target::SM_90,
        [0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        |k, x, t| {
            let v = t.cvt::<f32>();
            let two: Val<'_, Vector<f32, 2>> = Val::pack([v, -v]);
            let four: Val<'_, Vector<f32, 4>> = Val::pack([v, v * 2.0, -v, k.constant(tiny)]);
            x.red().add_vector(0, two);
            x.atom().order(AtomicOrder::Release).add_vector(4, four);
        },
        [2016.5, -2015.0, 0.0, 0.0, 2016.0, 4032.0, -2016.0, 0.0],
    );
}

/// An atomic returns the old value: each thread takes slots in two queues at once.
#[test]
fn vectors_that_were_there_before() {
    let build = |target| {
        Kernel::<(GlobalMut<f32>, GlobalMut<u32>)>::build("queues", target, |k, (next, taken)| {
            let step: Val<'_, Vector<f32, 2>> = Val::pack([k.constant(1.0), k.constant(2.0)]);
            let [a, b] = next.atom().add_vector(0, step).lanes();
            taken.red().add(a.cvt::<i32>(), 1);
            taken.red().add(b.cvt::<i32>() / 2, 1);
        })
        .unwrap()
    };
    threads::assemble(Target::SM_90, build);
    for device in device::devices() {
        let target = if device.is_sim() { Target::SM_90 } else { device.target() };
        if !target.offers(Target::SM_90) {
            continue;
        }
        let mut next = device.zeros::<f32>(2).unwrap();
        let mut taken = device.zeros::<u32>(ALL as usize).unwrap();
        let grid = Grid::new([BLOCKS, 1, 1], [THREADS, 1, 1]);
        device.load(&build(target)).unwrap().launch(grid, (&mut next, &mut taken)).unwrap();
        assert!(taken.to_vec().unwrap().iter().all(|count| *count == 2), "{}", device.name());
        assert_eq!(next.to_vec().unwrap(), [ALL as f32, 2.0 * ALL as f32]);
    }
}
