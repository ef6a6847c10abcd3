//! Several schedules of one launch, and the second one that kernels get whose blocks wait for each
//! other.

use tilewright::ir::op::{LoadAccess, MemScope, StoreAccess};
use tilewright::ir::{Global, GlobalMut, Kernel, Target, Val};
use tilewright::runtime::Grid;
use tilewright::sim::{
    FaultCause, GlobalBuffer, KernelArg, Options, Order, ResultsDiffer, RunError, run,
};

const BLOCKS: u32 = 16;

/// What is wrong with the scan, in code that only runs if a block meets one that has no prefix yet.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// The sum of the block above.
    OtherSum,
    /// The sum is published without a release.
    NoRelease,
}

/// The values; of each block its state, its sum and its prefix; and the next ticket.
type Params = (Global<i32>, GlobalMut<i32>, GlobalMut<i32>, GlobalMut<i32>, GlobalMut<i32>);

/// A scan over blocks by a decoupled look-back (Merrill and Garland, 2016): each block publishes
/// its sum, looks back over the sums of the blocks before it to the first prefix, and publishes its
/// own.
fn scan(mistake: Mistake, by_ticket: bool) -> Kernel<Params> {
    Kernel::<Params>::build("scan", Target::SM_80, |k, (x, state, sums, prefixes, ticket)| {
        let release = StoreAccess::default().release(MemScope::Gpu);
        let acquire = LoadAccess::default().acquire(MemScope::Gpu);
        let block = if by_ticket { ticket.atom().add(0, 1) } else { k.block_idx().x };
        let (own, is_first) = (x.load(block), block.eq(0));
        k.if_(is_first, |_| {
            prefixes.store(block, own);
            state.store_with(block, 2, release);
        });
        k.if_(!is_first, |k| {
            sums.store(block, own);
            let published = match mistake {
                Mistake::NoRelease => StoreAccess::default().relaxed(MemScope::Gpu),
                _ => release,
            };
            state.store_with(block, 1, published);
            let before: Val<'_, i32> = k.loop_((block - 1, 0), |k, look, (at, sum)| {
                let found = state.load_with(at, acquire);
                k.if_(found.eq(2), |k| look.break_(k, sum + prefixes.load(at)));
                k.if_(found.eq(1), |k| {
                    let at_sum = if mistake == Mistake::OtherSum { at + 1 } else { at };
                    look.continue_(k, (at - 1, sum + sums.load(at_sum)))
                });
                look.continue_(k, (at, sum))
            });
            prefixes.store(block, before + own);
            state.store_with(block, 2, release);
        });
    })
    .unwrap()
}

/// Runs the scan, and returns its prefixes.
fn prefixes(kernel: &Kernel<Params>, options: &Options) -> (Vec<i32>, Result<(), RunError>) {
    let values: Vec<i32> = (0..BLOCKS as i32).map(|block| 1 + block * block).collect();
    let x = GlobalBuffer::from_slice(&values);
    let others = [0; 4].map(|_| GlobalBuffer::zeros(4 * BLOCKS as usize));
    let args: Vec<_> = [&x].into_iter().chain(&others).map(KernelArg::Buffer).collect();
    let grid = Grid::new([BLOCKS, 1, 1], [1; 3]);
    let options = options.clone().race(true).fuel(1 << 20);
    let ran = run(kernel.ir(), grid, &args, &options).map(|_| ());
    (others[2].to_vec(), ran)
}

fn expected() -> Vec<i32> {
    let values = (0..BLOCKS as i32).map(|block| 1 + block * block);
    values
        .scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        })
        .collect()
}

#[test]
fn a_correct_look_back_is_silent() {
    for (by_ticket, cooperative) in [(false, false), (true, false), (true, true)] {
        let kernel = scan(Mistake::None, by_ticket);
        // Without tickets the reversed order waits for blocks that have not started.
        let schedules = if by_ticket { 20 } else { 1 };
        for order in [Order::RoundRobin, Order::Fine, Order::Random { seed: 9 }] {
            let options = Options::default().order(order).cooperative(cooperative);
            let (found, ran) = prefixes(&kernel, &options.schedules(schedules));
            ran.unwrap_or_else(|error| panic!("{order:?}: {error}"));
            assert_eq!(found, expected(), "{order:?}");
        }
    }
}

/// The code for a block that comes too early runs in the default order too: its race is named, and
/// its wrong sum is in the result, where a comparison with a reference finds it.
#[test]
fn the_default_order_reaches_the_slow_path_of_a_look_back() {
    for (by_ticket, cooperative) in [(false, false), (true, false), (true, true)] {
        let options = Options::default().cooperative(cooperative);
        let (_, ran) = prefixes(&scan(Mistake::NoRelease, by_ticket), &options);
        let error = ran.expect_err("no race is named");
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert!(matches!(fault.cause, FaultCause::Race { .. }), "{fault}");
        assert_eq!(fault.order, Order::Fine);

        let wrong = scan(Mistake::OtherSum, by_ticket);
        let (found, ran) = prefixes(&wrong, &options);
        ran.unwrap();
        assert_ne!(found, expected());
        let (_, ran) = prefixes(&wrong, &options.schedules(2));
        let error = ran.expect_err("the results are not compared");
        let RunError::ResultsDiffer(differ) = &error else { panic!("{error}") };
        assert_eq!((differ.first_order, differ.other_order), (Order::RoundRobin, Order::Fine));
    }
}

/// The report is that of running each schedule alone: the first one whose result differs, its first
/// element, both values. The buffers keep the results of the first schedule.
#[test]
fn a_difference_is_that_of_the_schedules_alone() {
    // Each block appends its index to a list. An odd block adds 100 to the list's first element.
    let kernel = Kernel::<(GlobalMut<i32>, GlobalMut<i32>)>::build(
        "list",
        Target::SM_80,
        |k, (len, list)| {
            let (block, odd) = (k.block_idx().x, (k.block_idx().x & 1).eq(1));
            let at = len.atom().add(0, 1);
            list.store(at + 1, block);
            k.if_(odd, |_| list.red().add(0, 100));
        },
    );
    let kernel = kernel.unwrap();
    let run = |options: Options| {
        let (len, list) = (GlobalBuffer::zeros(4), GlobalBuffer::zeros(4 * 9));
        let args = [KernelArg::Buffer(&len), KernelArg::Buffer(&list)];
        let ran = run(kernel.ir(), Grid::new([8, 1, 1], [1; 3]), &args, &options.race(true));
        (list.to_vec::<i32>(), ran)
    };
    let alone = |order| {
        let (list, ran) = run(Options::default().order(order));
        ran.unwrap_or_else(|error| panic!("{order:?}: {error}"));
        list
    };
    for first in [Order::RoundRobin, Order::Reverse, Order::Random { seed: 3 }] {
        let (kept, ran) = run(Options::default().order(first).schedules(8));
        let Err(RunError::ResultsDiffer(found)) = ran else { panic!("{ran:?}") };
        let ResultsDiffer { element, first_order, other_order, .. } = *found;
        let (one, other) = (alone(first), alone(other_order));
        assert_eq!((&kept, first_order), (&one, first));
        let differing: Vec<usize> = (0..9).filter(|i| one[*i] != other[*i]).collect();
        assert_eq!((element, found.elements), (differing[0] as u64, differing.len() as u64));
        let value = |list: &[i32]| i128::from(list[element as usize]);
        assert_eq!(found.first_value.as_int(), Some(value(&one)));
        assert_eq!(found.other_value.as_int(), Some(value(&other)));
        let param = found.param.clone();
        let text = found.to_string();
        for part in [
            &format!("element {element} of `{param}`"),
            &format!("`{first_order:?}`"),
            &format!("`{other_order:?}`"),
        ] {
            assert!(text.contains(part.as_str()), "{text}");
        }
        let allowed = run(Options::default().order(first).schedules(8).may_differ(param));
        assert_eq!((allowed.0, allowed.1.is_ok()), (one, true));
    }
}

/// Each block of a grid runs once, however many run at the same time.
#[test]
fn orders_with_several_clusters_at_once_run_each_once() {
    let kernel = Kernel::<(GlobalMut<i32>,)>::build("count", Target::SM_90, |k, (x,)| {
        let first = k.thread_idx().x.eq(0);
        k.if_(first, |k| x.red().add(k.block_idx().x, 1));
    });
    let kernel = kernel.unwrap();
    let orders =
        [Order::Fine, Order::Reverse, Order::Random { seed: 1 }, Order::Random { seed: 2 }];
    for (blocks, cluster) in [(1, 1), (3, 1), (4, 1), (9, 1), (10, 2), (2, 2)] {
        for (order, cooperative) in
            orders.into_iter().flat_map(|order| [(order, false), (order, true)])
        {
            let x = GlobalBuffer::zeros(4 * blocks);
            let grid = Grid::new([blocks as u32, 1, 1], [64, 1, 1]).cluster([cluster, 1, 1]);
            let options = Options::default().order(order).race(true).cooperative(cooperative);
            run(kernel.ir(), grid, &[KernelArg::Buffer(&x)], &options).unwrap();
            assert_eq!(x.to_vec::<i32>(), vec![1; blocks], "{order:?}");
        }
    }
}
