//! Local memory and generic pointers on every device, against the same on the host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::{device, text, threads};

use tilewright::ir::builder::VectorElement;
use tilewright::ir::op::{BarrierForm, ClusterArrival, MemScope};
use tilewright::ir::types::Space;
use tilewright::ir::{
    Element, GenericMut, GlobalMut, Kernel, KernelOptions, Local, Shared, SharedCluster, Target,
    Val, Vector, bf16, f8e4m3, f8e5m2, f16, range, tf32,
};
use tilewright::runtime::Grid;

const THREADS: u32 = 96;

fn grid() -> Grid {
    Grid::new([3, 1, 1], [THREADS, 1, 1])
}

/// Each thread sorts numbers of its own in local memory, at indices that only the device knows.
#[test]
fn local_arrays_are_indexed_by_device_numbers() {
    let number = |i: i32, j: i32| (i * 37 + j * j * 11) % 101;
    let sorted = |i: i32| {
        let mut all: Vec<i32> = (0..9).map(|j| number(i, j)).collect();
        all.sort_unstable();
        all
    };
    threads::check_grid::<i32>(
        Target::SM_80,
        grid(),
        |k, i| {
            let a = k.local_array::<i32>(9);
            k.for_(range(0, 9), (), |_, j, ()| a.store(j, (i * 37 + j * j * 11) % 101));
            k.for_(range(0, 9), (), |k, _, ()| {
                k.for_(range(0, 8), (), |_, j, ()| {
                    let (x, y) = (a.load(j), a.load(j + 1));
                    a.store(j, x.min(y));
                    a.store(j + 1, x.max(y));
                });
            });
            k.for_(range(0, 9), 0, |_, j, sum| sum * 7 + a.load(j))
        },
        |i| sorted(i).into_iter().fold(0i32, |sum, x| sum.wrapping_mul(7).wrapping_add(x)),
    );
}

/// Every element type goes through local memory, by a pointer of the space and by a generic one.
fn through_local<T: Element>() {
    let value = |i: i32| T::from_bits(0x3f3f_3f3f_3f3f_3f3f & (i as u64 * 0x0101_0101_0101_0101));
    let build = |target| {
        Kernel::<(GlobalMut<T>, GlobalMut<T>)>::build("through", target, |k, (x, y)| {
            let (t, mine) = (k.thread_idx().x, k.local_array::<T>(3));
            mine.store(t % 3, x.load(t));
            let generic = mine.cvta();
            generic.store((t + 1) % 3, mine.load(t % 3));
            y.store(t, generic.cvta_to::<Local<T>>().load((t + 1) % 3));
        })
        .unwrap()
    };
    threads::assemble(Target::SM_80, build);
    let values: Vec<T> = (0..THREADS as i32).map(value).collect();
    for device in device::devices() {
        let kernel = build(device.target());
        text::check_round_trip(kernel.ir());
        let mut x = device.upload(&values).unwrap();
        let mut y = device.zeros::<T>(values.len()).unwrap();
        let grid = Grid::new([1, 1, 1], [THREADS, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&mut x, &mut y)).unwrap();
        let bits = |all: &[T]| -> Vec<u64> { all.iter().map(|x| x.to_const().bits()).collect() };
        assert_eq!(bits(&y.to_vec().unwrap()), bits(&values), "{} on {}", T::SCALAR, device.name());
    }
}

#[test]
fn every_element_goes_through_local_memory() {
    through_local::<bool>();
    through_local::<i8>();
    through_local::<i16>();
    through_local::<i32>();
    through_local::<i64>();
    through_local::<u8>();
    through_local::<u16>();
    through_local::<u32>();
    through_local::<u64>();
    through_local::<f8e4m3>();
    through_local::<f8e5m2>();
    through_local::<f16>();
    through_local::<bf16>();
    through_local::<tf32>();
    through_local::<f32>();
    through_local::<f64>();
}

/// Vectors of a row of local memory, and of the same by a generic pointer.
fn vectors_of<T: VectorElement<N>, const N: usize>() {
    let build = |target| {
        Kernel::<(GlobalMut<T>, GlobalMut<T>)>::build("vectors", target, |k, (x, y)| {
            let (t, n) = (k.thread_idx().x, N as i32);
            let mine = k.local_array::<T>(3 * N as u32);
            let v: Val<'_, Vector<T, N>> = x.load_vector(t * n);
            mine.store_vector((t % 3) * n, v);
            let w: Val<'_, Vector<T, N>> = mine.cvta().load_vector((t % 3) * n);
            y.cvta().store_vector(t * n, w);
        })
        .unwrap()
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let values: Vec<T> = (0..32 * N).map(|i| T::from_bits(i as u64 * 3)).collect();
        let mut x = device.upload(&values).unwrap();
        let mut y = device.zeros::<T>(values.len()).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        let kernel = build(device.target());
        device.load(&kernel).unwrap().launch(grid, (&mut x, &mut y)).unwrap();
        assert_eq!(y.to_vec().unwrap(), values, "{} x {N} on {}", T::SCALAR, device.name());
    }
}

#[test]
fn vectors_go_through_local_memory() {
    vectors_of::<u8, 16>();
    vectors_of::<u16, 2>();
    vectors_of::<f16, 8>();
    vectors_of::<f32, 4>();
    vectors_of::<f64, 2>();
    vectors_of::<i32, 2>();
}

/// One loop accesses global, shared, local and constant memory, by which pointer the device
/// decides.
#[test]
fn one_generic_pointer_accesses_every_space() {
    threads::check_grid::<i32>(
        Target::SM_80,
        grid(),
        |k, i| {
            let t = k.thread_idx().x;
            let (tile, mine) = (k.shared::<i32>(THREADS * 2), k.local_array::<i32>(2));
            k.for_(range(0, 2), (), |_, j, ()| {
                tile.store(t * 2 + j, t * 10 + j);
                mine.store(j, i * 100 + j);
            });
            k.barrier();
            let (near, own): (Val<'_, GenericMut<i32>>, _) =
                (tile.offset(t * 2).cvta(), mine.cvta());
            let chosen = (i % 2).eq(0).select(near, own);
            let table = k.const_array(&[5i32, 7]).cvta();
            let sum = k.for_(range(0, 2), 0, |_, j, sum| sum + chosen.load(j) * table.load(1 - j));
            let spaces = [Space::Global, Space::Shared, Space::Local, Space::Const];
            let mut bits = k.constant(0);
            for (n, space) in (0..).zip(spaces) {
                bits += chosen.isspacep(space).select(1 << n, 0);
                bits += table.isspacep(space).select(16 << n, 0);
            }
            sum * 256 + bits
        },
        |i| {
            let t = i % THREADS as i32;
            let at = |j: i32| if i % 2 == 0 { t * 10 + j } else { i * 100 + j };
            let sum = at(0) * 7 + at(1) * 5;
            sum * 256 + if i % 2 == 0 { 0x82 } else { 0x84 }
        },
    );
}

/// Addresses differ by the size of an element, in every space and generically; vectors are aligned.
#[test]
fn addresses_of_pointers() {
    threads::check_grid::<i32>(
        Target::SM_80,
        grid(),
        |k, i| {
            let (tile, mine) = (k.shared_aligned::<f64>(16, 64), k.local_array::<i16>(32));
            let table = k.const_array(&[1f32, 2.0, 3.0]);
            tile.store(0, 0.0);
            mine.store(i % 32, 0);
            let at = i % 16;
            let shared = tile.offset(at).ptr_to_int() - tile.ptr_to_int();
            let local = mine.offset(at + 3).ptr_to_int() - mine.offset(3).ptr_to_int();
            let constant = table.offset(2).ptr_to_int() - table.ptr_to_int();
            let wide = tile.offset(at).cvta().ptr_to_int() - tile.cvta().ptr_to_int();
            let generic = mine.offset(at).cvta().ptr_to_int() - mine.cvta().ptr_to_int();
            let aligned = tile.ptr_to_int() % 64;
            shared + local * 256 + constant * 65536 + (wide + generic).cvt::<i32>() - aligned
        },
        |i| {
            let at = i % 16;
            8 * at + 2 * at * 256 + 8 * 65536 + 8 * at + 2 * at
        },
    );
}

/// To the generic space and back, in each space; atomic and ordered accesses by generic pointers.
#[test]
fn generic_pointers_to_and_from_every_space() {
    let build = |target| {
        Kernel::<(GlobalMut<u32>,)>::build("to_and_from", target, |k, (x,)| {
            let (t, sum) = (k.thread_idx().x, k.shared::<u32>(2));
            k.if_(t.lt(2), |_| sum.store(t, 0));
            k.barrier();
            let (shared, global) = (sum.cvta(), x.cvta());
            shared.red().scope(MemScope::Cta).add(0, 1);
            global.red().add(0, 1);
            let old = shared.atom().max(1, t.cvt::<u32>());
            k.barrier();
            k.if_(t.eq(0), |_| {
                let sum = shared.cvta_to::<Shared<u32>>();
                let x = global.cvta_to::<GlobalMut<u32>>();
                x.store(1, sum.load(0));
                x.store(2, sum.load(1));
                x.store(3, old.lt(THREADS).select(1, 0));
                let swapped = global.atom().cas(2, THREADS - 1, 7);
                global.store(4, swapped);
                global.atom().exch(5, 11);
            });
        })
        .unwrap()
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let kernel = build(device.target());
        text::check_round_trip(kernel.ir());
        let mut x = device.zeros::<u32>(6).unwrap();
        let grid = Grid::new([1, 1, 1], [THREADS, 1, 1]);
        device.load(&kernel).unwrap().launch(grid, (&mut x,)).unwrap();
        let expected = [THREADS, THREADS, 7, 1, THREADS - 1, 11];
        assert_eq!(x.to_vec().unwrap(), expected, "on {}", device.name());
    }
}

/// Sums of `f32` by a generic pointer have subnormal numbers in shared memory, and not in global
/// memory.
#[test]
fn generic_sums_are_those_of_the_memory() {
    let tiny = f32::from_bits(3);
    let build = |target| {
        Kernel::<(GlobalMut<f32>,)>::build("tiny", target, |k, (x,)| {
            let (t, tile) = (k.thread_idx().x, k.shared::<f32>(1));
            k.if_(t.eq(0), |_| tile.store(0, 0.0));
            k.barrier();
            // Which memory it is only the device knows.
            let in_shared = (t % 2).eq(0).select(tile.cvta(), x.cvta());
            in_shared.red().add(0, tiny);
            k.barrier();
            k.if_(t.eq(0), |_| x.store(1, tile.load(0)));
        })
        .unwrap()
    };
    threads::assemble(Target::SM_80, build);
    for device in device::devices() {
        let mut x = device.zeros::<f32>(2).unwrap();
        let grid = Grid::new([1, 1, 1], [32, 1, 1]);
        device.load(&build(device.target())).unwrap().launch(grid, (&mut x,)).unwrap();
        let found: Vec<u32> = x.to_vec().unwrap().into_iter().map(f32::to_bits).collect();
        assert_eq!(found, [0, 48], "on {}", device.name());
    }
}

/// Generic pointers to shared memory of the own and of another block of a cluster.
#[test]
fn generic_pointers_into_the_cluster() {
    let options = || KernelOptions::default().cluster([2, 1, 1]);
    let build = |target| {
        Kernel::<(GlobalMut<i32>,)>::build_with(options(), "cluster", target, |k, (x,)| {
            let (tile, t) = (k.shared::<i32>(32), k.thread_idx().x);
            tile.store(t, t + k.block_idx().x * 100);
            k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Unaligned);
            let far = tile.mapa(k.cluster_ctarank().cvt::<u32>() ^ 1).cvta();
            let near = tile.cvta().cvta_to::<SharedCluster<i32>>();
            fn is<'b>(pointer: Val<'b, GenericMut<i32>>, space: Space) -> Val<'b, bool> {
                pointer.isspacep(space)
            }
            let flags = is(far, Space::SharedCluster).select(1, 0)
                + is(far, Space::Shared).select(2, 0)
                + is(far, Space::Global).select(4, 0)
                + is(tile.cvta(), Space::SharedCluster).select(8, 0)
                + is(tile.cvta(), Space::Shared).select(16, 0);
            let value = far.load(t) * 1000 + near.load(t);
            x.store(k.block_idx().x * 32 + t, value * 32 + flags);
            k.barrier_cluster_arrive(BarrierForm::Unaligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Unaligned);
        })
        .unwrap()
    };
    threads::assemble(Target::SM_90, build);
    for device in device::devices() {
        let target = if device.is_sim() { Target::SM_90 } else { device.target() };
        if !target.offers(Target::SM_90) {
            continue;
        }
        let mut x = device.zeros::<i32>(64).unwrap();
        let grid = Grid::new([2, 1, 1], [32, 1, 1]);
        device.load(&build(target)).unwrap().launch(grid, (&mut x,)).unwrap();
        let at = |block: i32, t: i32| block * 100 + t;
        let expected: Vec<i32> = (0..64)
            .map(|i| (at(1 - i / 32, i % 32) * 1000 + at(i / 32, i % 32)) * 32 + 1 + 8 + 16)
            .collect();
        assert_eq!(x.to_vec().unwrap(), expected, "on {}", device.name());
    }
}
