//! Operations of a warp and special registers, on every device, against the same function on the
//! host.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.

use crate::support::threads;

use tilewright::ir::op::{ShflMode, SpecialReg, VolatileReg};
use tilewright::ir::{Body, Element, GlobalMut, Kernel, Number, Target, Val, WARP, WARP as ALL};
use tilewright::runtime::Grid;

/// Blocks of whole warps along one axis.
fn warps(count: u32) -> Grid {
    Grid::new([1, 1, 1], [32 * count, 1, 1])
}

#[track_caller]
fn check<T: Element>(
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    threads::check_grid(Target::SM_80, warps(2), body, expected);
}

/// The value of each lane: a mixed number of its index.
fn mixed(i: i32) -> u64 {
    (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

/// The same in a kernel, from a table in registers of constants.
fn mixed_in<'b>(i: Val<'b, i32>) -> Val<'b, u64> {
    let product = (i.cvt::<u64>() + 1) * 0x9e37_79b9_7f4a_7c15;
    (product << 17u32) | (product >> 47u32)
}

/// All widths and some lanes in one kernel for each mode: what is read, and whether it is inside.
fn shuffles_of<T: Number>() {
    let mut cases = Vec::new();
    for width in [32, 16, 8, 4, 2, 1] {
        cases.extend([0u32, 1, 7, 21, 32].map(|lane| (width, lane)));
    }
    for mode in ShflMode::ALL {
        check::<u64>(
            |k, i| {
                let value = mixed_in(i).cvt::<T>();
                let mut hash = k.constant(0u64);
                for &(width, lane) in &cases {
                    let segment = mode.segment(width).unwrap();
                    let (read, inside) = k.shfl(mode, ALL, value, lane, segment);
                    hash = hash * 31 + (read.cvt::<u64>() << 1u32) + inside.cvt::<u64>();
                }
                hash
            },
            |i| {
                cases.iter().fold(0, |hash: u64, &(width, lane)| {
                    let segment = mode.segment(width).unwrap();
                    let (source, inside) = mode.source(i as u32 % 32, lane, segment);
                    let read = host_cvt::<T>(mixed(i / 32 * 32 + source as i32));
                    let sum = hash.wrapping_mul(31).wrapping_add(read << 1);
                    sum.wrapping_add(u64::from(inside))
                })
            },
        );
    }
}

/// A `u64` converted to `T` and back.
fn host_cvt<T: Number>(value: u64) -> u64 {
    match T::SCALAR {
        tilewright::ir::types::Scalar::F32 => (value as f32) as u64,
        tilewright::ir::types::Scalar::F64 => (value as f64) as u64,
        other => {
            let number = tilewright::ir::types::Const::new(other, value).as_int();
            number.expect("it is an integer") as u64
        }
    }
}

#[test]
fn shuffles_of_every_width() {
    shuffles_of::<u8>();
    shuffles_of::<i16>();
    shuffles_of::<f32>();
    shuffles_of::<u64>();
    shuffles_of::<f64>();
}

#[test]
fn shuffles_by_dynamic_lanes() {
    let lane_of = |i: i32| (i * 5 + 3) as u32;
    check::<i32>(
        |k, i| k.shfl_idx(ALL, i * 2, (i * 5 + 3).cvt::<u32>()),
        |i| 2 * (i / 32 * 32 + (lane_of(i) % 32) as i32),
    );
    check::<i32>(|k, i| k.shfl_up(ALL, i, 3), |i| if i % 32 < 3 { i } else { i - 3 });
    check::<i32>(|k, i| k.shfl_down(ALL, i, 3), |i| if i % 32 > 28 { i } else { i + 3 });
    check::<i32>(|k, i| k.shfl_bfly(ALL, i, 9), |i| i ^ 9);
    check::<bool>(
        |k, i| k.shfl_down(ALL, i.gt(20), 1),
        |i| {
            if i % 32 == 31 { i > 20 } else { i + 1 > 20 }
        },
    );
}

/// The two halves of each warp are groups of their own, at one instruction and in two arms.
#[test]
fn halves_of_a_warp() {
    let half = |i: i32| if i % 32 < 16 { 0x0000_ffffu32 } else { 0xffff_0000 };
    check::<u32>(
        |k, i| {
            let low = (i & 31).lt(16);
            let members = low.select(0x0000_ffffu32, 0xffff_0000u32);
            let odd = k.vote_ballot(members, (i & 1).ne(0));
            let sum = k.redux_add(members, i.cvt::<u32>());
            odd ^ sum ^ k.shfl_bfly(members, i.cvt::<u32>(), 15)
        },
        |i| {
            let odd = half(i) & 0xaaaa_aaaa;
            let first = i / 16 * 16;
            let sum: i32 = (first..first + 16).sum();
            odd ^ sum as u32 ^ (i ^ 15) as u32
        },
    );
    check::<i32>(
        |k, i| {
            let low = (i & 31).lt(16);
            k.if_else(
                low,
                |k| {
                    let v = k.redux_max(0x0000_ffff, i);
                    k.yield_(v)
                },
                |k| {
                    let v = k.redux_min(0xffff_0000, i);
                    k.yield_(v)
                },
            )
        },
        |i| if i % 32 < 16 { i / 32 * 32 + 15 } else { i / 32 * 32 + 16 },
    );
}

#[test]
fn votes() {
    let lanes = |i: i32, f: fn(i32) -> bool| (0..32).filter(|lane| f(i / 32 * 32 + lane)).count();
    check::<bool>(|k, i| k.vote_all(ALL, i.lt(32)), |i| lanes(i, |i| i < 32) == 32);
    check::<bool>(|k, i| k.vote_any(ALL, i.eq(40)), |i| lanes(i, |i| i == 40) > 0);
    check::<bool>(|k, i| k.vote_uni(ALL, i.gt(40)), |i| i < 32);
    check::<bool>(|k, i| k.vote_uni(ALL, i.gt(31)), |_| true);
    check::<u32>(
        |k, i| k.vote_ballot(ALL, (i % 3).eq(0)),
        |i| (0..32).fold(0, |mask, lane| mask | u32::from((i / 32 * 32 + lane) % 3 == 0) << lane),
    );
}

#[test]
fn matches_by_bits() {
    let group = |i: i32, same: fn(i32, i32) -> bool| {
        (0..32).fold(0u32, |mask, lane| mask | u32::from(same(i / 32 * 32 + lane, i)) << lane)
    };
    let same = |a: i32, b: i32| a % 5 == b % 5;
    check::<u32>(|k, i| k.match_any(ALL, i % 5), |i| group(i, same));
    check::<u32>(|k, i| k.match_any(ALL, (i % 5).cvt::<f64>()), |i| group(i, same));
    check::<u32>(|k, i| k.match_any(ALL, (i % 5).cvt::<i8>()), |i| group(i, same));
    check::<u32>(|k, i| k.match_all(ALL, i / 32).0, |_| ALL);
    check::<bool>(|k, i| k.match_all(ALL, (i / 33).cvt::<u64>()).1, |i| i < 32);
    check::<u32>(
        |k, i| k.match_all(ALL, (i / 33).cvt::<u64>()).0,
        |i| if i < 32 { ALL } else { 0 },
    );
}

#[test]
fn reductions() {
    let of_warp = |i: i32| (0..32).map(move |lane| (i / 32 * 32 + lane - 40) * 0x0123_4567);
    fn value<'b>(i: Val<'b, i32>) -> Val<'b, i32> {
        (i - 40) * 0x0123_4567
    }
    let unsigned = |i: i32| of_warp(i).map(|v| v as u32);
    check::<i32>(|k, i| k.redux_add(ALL, value(i)), |i| of_warp(i).fold(0, i32::wrapping_add));
    check::<i32>(|k, i| k.redux_min(ALL, value(i)), |i| of_warp(i).min().unwrap());
    check::<i32>(|k, i| k.redux_max(ALL, value(i)), |i| of_warp(i).max().unwrap());
    check::<u32>(|k, i| k.redux_min(ALL, value(i).cvt::<u32>()), |i| unsigned(i).min().unwrap());
    check::<u32>(|k, i| k.redux_max(ALL, value(i).cvt::<u32>()), |i| unsigned(i).max().unwrap());
    check::<i32>(|k, i| k.redux_and(ALL, value(i)), |i| of_warp(i).fold(-1, |a, b| a & b));
    check::<u32>(
        |k, i| k.redux_or(ALL, value(i).cvt::<u32>()),
        |i| unsigned(i).fold(0, |a, b| a | b),
    );
    check::<i32>(|k, i| k.redux_xor(ALL, value(i)), |i| of_warp(i).fold(0, |a, b| a ^ b));
}

/// One leader in each group, the same one for all. Which one is the device's choice.
#[test]
fn elections() {
    threads::check_grid::<u32>(
        Target::SM_90,
        warps(3),
        |k, i| {
            let (leader, is_leader) = k.elect(ALL);
            let leaders = k.vote_ballot(ALL, is_leader);
            let is_bit = leaders.eq(k.constant(1u32) << leader);
            is_bit.cvt::<u32>() * (i.cvt::<u32>() + 1)
        },
        |i| i as u32 + 1,
    );
}

#[test]
fn a_warp_with_few_threads() {
    let grid = Grid::new([1, 1, 1], [40, 1, 1]);
    threads::check_grid::<i32>(
        Target::SM_80,
        grid,
        |k, i| {
            k.bar_warp(ALL);
            k.redux_add(ALL, i)
        },
        |i| if i < 32 { 496 } else { (32..40).sum() },
    );
    // Threads that have returned are not waited for.
    threads::check_grid::<u32>(
        Target::SM_80,
        warps(1),
        |k, _| {
            k.if_(k.lane_id().ge(64), |k| k.return_());
            k.vote_ballot(ALL, true)
        },
        |_| ALL,
    );
}

#[test]
fn active_lanes() {
    check::<u32>(
        |k, i| {
            let v = k.var(0u32);
            // Whoever is active at least includes the thread, and nobody of the other arm.
            k.if_else(
                (i & 31).lt(10),
                |k| v.set(k.activemask() & !0x3ffu32 | (k.lanemask_eq() & !k.activemask())),
                |k| v.set(k.activemask() & 0x3ffu32 | (k.lanemask_eq() & !k.activemask())),
            );
            v.get()
        },
        |_| 0,
    );
}

#[test]
fn masks_of_lanes() {
    let bit = |i: i32| 1u32 << (i % 32);
    check::<u32>(|k, _| k.lanemask_eq(), bit);
    check::<u32>(|k, _| k.lanemask_lt(), |i| bit(i) - 1);
    check::<u32>(|k, _| k.lanemask_le(), |i| bit(i) | (bit(i) - 1));
    check::<u32>(|k, _| k.lanemask_gt(), |i| !(bit(i) | (bit(i) - 1)));
    check::<u32>(|k, _| k.lanemask_ge(), |i| !(bit(i) - 1));
}

#[test]
fn registers_of_clusters_without_a_cluster() {
    let grid = Grid::new([3, 2, 2], [32, 1, 1]);
    threads::check_grid::<i32>(
        Target::SM_90,
        grid,
        |k, _| {
            let (id, n) = (k.clusterid(), k.nclusterid());
            let (at, size) = (k.cluster_ctaid(), k.cluster_nctaid());
            let inner = at.x + at.y + at.z + k.cluster_ctarank();
            let sizes = size.x * size.y * size.z * k.cluster_nctarank();
            let number = id.x + n.x * (id.y + n.y * id.z);
            let explicit = k.is_explicit_cluster().cvt::<i32>();
            number + 1000 * inner + 10_000 * (sizes - 1) + 100_000 * explicit
        },
        |i| i / 32,
    );
}

/// The blocks of a cluster are numbered along x, then y, then z.
#[test]
fn registers_of_clusters() {
    let grid = Grid::new([4, 2, 2], [32, 1, 1]).cluster([2, 1, 2]);
    threads::check_grid::<i32>(
        Target::SM_90,
        grid,
        |k, _| {
            let (id, n) = (k.clusterid(), k.nclusterid());
            let (at, size) = (k.cluster_ctaid(), k.cluster_nctaid());
            let number = id.x + n.x * (id.y + n.y * id.z);
            let inside = at.x + size.x * (at.y + size.y * at.z);
            let same = inside.eq(k.cluster_ctarank()) & k.is_explicit_cluster();
            let sizes = size.x * 100 + size.y * 10 + size.z + k.cluster_nctarank() * 1000;
            same.cvt::<i32>() * (number * 10 + inside) * 10_000 + sizes
        },
        |i| {
            let block = i / 32;
            let [x, y, z] = [block % 4, block / 4 % 2, block / 8];
            let (number, inside) = (x / 2 + 2 * (y + 2 * (z / 2)), x % 2 + 2 * (z % 2));
            (number * 10 + inside) * 10_000 + 4212
        },
    );
}

#[test]
fn facts_about_the_hardware() {
    // In range, and the same as before.
    check::<bool>(
        |k, _| {
            let sm = k.smid();
            let warp = k.warpid();
            let fits = sm.ge(0) & sm.lt(k.nsmid()) & warp.ge(0) & warp.lt(k.nwarpid());
            fits & k.dynamic_smem_size().eq(0) & k.gridid().eq(k.gridid())
        },
        |_| true,
    );
    check::<bool>(
        |k, i| {
            let s = k.shared::<i32>(100);
            s.store(i, i);
            k.total_smem_size().ge(400) & (k.total_smem_size() & 127).eq(0)
        },
        |_| true,
    );
    threads::check_grid::<bool>(
        Target::SM_90,
        warps(1),
        |k, _| k.aggr_smem_size().ge(k.total_smem_size()),
        |_| true,
    );
}

#[test]
fn clocks_advance() {
    check::<bool>(
        |k, i| {
            let (start, start64, timer) = (k.clock(), k.clock64(), k.globaltimer());
            let v = k.var(i);
            k.for_(tilewright::ir::range(0, 100), (), |_, j, ()| v.set(v.get() * j + 1));
            k.nanosleep(20u32);
            let end64 = k.clock64();
            let wraps = (k.clock() - start).lt(1 << 30);
            end64.gt(start64) & wraps & k.globaltimer().ge(timer) & v.get().ne(0)
        },
        |_| true,
    );
}

/// A thread that waits for another one with `nanosleep` lets it run.
#[test]
fn sleep_lets_others_run() {
    check::<i32>(
        |k, i| {
            let flag = k.shared::<i32>(1);
            k.if_(i.eq(0), |_| flag.store(0, 0));
            k.barrier();
            let warp = i >> 5;
            k.if_(warp.eq(1), |k| {
                k.nanosleep(1000u32);
                k.if_(i.eq(32), |_| flag.store(0, 7));
            });
            k.barrier();
            flag.load(0)
        },
        |_| 7,
    );
}

/// The grids before this one have ended, so nothing waits.
#[test]
fn dependent_launches_without_a_dependent() {
    threads::check_grid::<i32>(
        Target::SM_90,
        warps(1),
        |k, i| {
            k.griddepcontrol_wait();
            k.griddepcontrol_launch_dependents();
            i
        },
        |i| i,
    );
}

/// Each register is read with its own name, with the lowest version that has it.
#[test]
fn names_and_versions_of_registers() {
    let registers = |target: Target, version: &str, registers: Vec<SpecialReg>| {
        for reg in registers {
            let ty = reg.scalar();
            let text = format!(
                "kernel @k target {target} (%x: ptr<global, mut {ty}>) {{\n%i = const 0 : i32\n%v = sreg<{reg}> : {ty}\nst %x, %i, %v\nreturn\n}}"
            );
            let kernel = Kernel::verify(text.parse().unwrap()).unwrap();
            let ptx = kernel.ptx();
            assert!(ptx.text().contains(&format!(", %{reg};")), "{ptx}");
            assert_eq!(ptx.version().to_string(), version, "{reg}");
        }
    };
    let (base, later): (Vec<_>, Vec<_>) =
        SpecialReg::ALL.into_iter().partition(|reg| reg.first_target() == Target::SM_80);
    registers(Target::SM_80, "7.0", base);
    let (newest, later): (Vec<_>, Vec<_>) =
        later.into_iter().partition(|reg| *reg == SpecialReg::AggrSmemSize);
    registers(Target::SM_90, "7.8", later);
    registers(Target::SM_90, "8.1", newest);
    for reg in VolatileReg::ALL {
        let ty = reg.scalar();
        let text =
            format!("kernel @k target sm_80 () {{\n%v = volatile_sreg<{reg}> : {ty}\nreturn\n}}");
        let ptx = Kernel::verify(text.parse().unwrap()).unwrap().ptx();
        // It is read though nothing uses it.
        assert!(ptx.text().contains(&format!(", %{reg};")), "{ptx}");
    }
}

/// An unused result is not written where the instruction can do without.
#[test]
fn unused_predicates_are_left_out() {
    let kernel = Kernel::<(GlobalMut<f32>,)>::build("one", Target::SM_80, |k, (x,)| {
        let v = k.shfl_down(WARP, x.load(0), 4);
        x.store(1, v);
    });
    let ptx = kernel.unwrap().ptx();
    let line = ptx.text().lines().find(|line| line.contains("shfl")).unwrap().trim();
    assert!(line.starts_with("shfl.sync.down.b32 %f") && !line.contains('|'), "{line}");
    assert!(line.ends_with(", 4, 31, 4294967295;"), "{line}");
}
