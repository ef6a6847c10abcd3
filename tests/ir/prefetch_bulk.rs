//! Loops that start bulk and tensor copies some iterations ahead give the result of the plain loop.
//!
//! The simulator always runs. With `TILEWRIGHT_GPU=1` the first GPU runs too.
//! For the long run, on all cores, set `TILEWRIGHT_RANDOM_BULK_LOOPS=10000` and call
//! `cargo test --release --test ir prefetch_bulk::bulk_copies_ahead`;
//! `TILEWRIGHT_RANDOM_BULK_LOOPS_SEED` starts elsewhere. The driver compiles one kernel after the
//! other; with `TILEWRIGHT_PTXAS` each core has a `ptxas` of its own.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::rng::Rng;
use crate::support::{device, ptxas, text};

use tilewright::arch::TensorMapDesc;
use tilewright::ir::builder::BuildErrorKind;
use tilewright::ir::op::{L2Policy, ProxySpace};
use tilewright::ir::types::Scalar;
use tilewright::ir::{
    BuildErrors, Global, GlobalMut, Kernel, KernelIr, KernelOptions, Target, TensorMap, Untyped,
    VerifyError, range,
};
use tilewright::runtime::{Arg, Device, Grid, LoadOptions, Ptxas};
use tilewright::sim::{Options, Order};

/// Elements of `x`.
const LEN: u32 = 1 << 14;
/// Rows and columns of the matrix that the map describes.
const MATRIX: [u32; 2] = [64, 64];

/// The source of bulk copies, the map of the matrix, the result, the end of the loop.
type Params = (Global<u32>, TensorMap<u32, 2>, GlobalMut<u32>, i32);

/// A tile that an iteration fills.
#[derive(Clone, Copy, Debug)]
enum Tile {
    /// So many elements of `x`, of consecutive ones for consecutive indices.
    Bytes { elements: u32, pieces: u32 },
    /// A box of the matrix: rows and columns.
    Box { rows: u32, columns: u32 },
}

impl Tile {
    fn elements(self) -> u32 {
        match self {
            Tile::Bytes { elements, .. } => elements,
            Tile::Box { rows, columns } => rows * columns,
        }
    }
}

/// A loop of the form that can be done ahead.
#[derive(Clone, Debug)]
struct Form {
    threads: u32,
    tiles: Vec<Tile>,
    /// The thread that copies each tile.
    leaders: Vec<u32>,
    /// The index starts at it, an even number.
    lo: i32,
    /// An odd number.
    step: i32,
    /// The end is known when the kernel is built.
    known: Option<i32>,
    unroll: u32,
    /// The parity is `i & 1`, else `i % 2`.
    mask: bool,
    /// The loop is in an `if` that all threads take.
    nested: bool,
    /// An iteration also loads an element of `x` by itself.
    loads: bool,
}

impl Form {
    fn random(rng: &mut Rng) -> Form {
        let threads = [32, 64, 96][rng.below(3)];
        let count = 1 + rng.below(3);
        let tile = |rng: &mut Rng| match rng.below(3) {
            0 => Tile::Box { rows: 1 + rng.below(8) as u32, columns: 4 << rng.below(3) },
            _ => {
                let pieces = 1 + rng.below(3) as u32;
                Tile::Bytes { elements: pieces * 4 * (1 + rng.below(12) as u32), pieces }
            }
        };
        let tiles = (0..count).map(|_| tile(rng)).collect();
        let leaders = (0..count).map(|_| rng.below(threads as usize) as u32).collect();
        let (lo, step) = (2 * rng.below(3) as i32, 1 + 2 * rng.below(2) as i32);
        let known = (rng.below(2) == 0).then(|| lo + rng.below(20) as i32 - 1);
        let unroll = [1, 1, 2, 3][rng.below(4)];
        let [mask, nested, loads] = [(); 3].map(|()| rng.below(2) == 0);
        Form { threads, tiles, leaders, lo, step, known, unroll, mask, nested, loads }
    }

    fn build(&self, stages: u32) -> Result<Kernel<Params>, BuildErrors> {
        let options = KernelOptions::default().block([self.threads, 1, 1]);
        Kernel::<Params>::build_with(options, "bulk", Target::SM_90, |k, (x, map, y, n)| {
            let tiles: Vec<_> = self
                .tiles
                .iter()
                .map(|tile| k.shared_aligned::<u32>(tile.elements(), 128))
                .collect();
            let full = k.shared::<u64>(1).mbarrier(0);
            let t = k.thread_idx().x;
            k.if_(t.eq(0), |k| {
                full.init(self.tiles.len() as u32);
                k.fence_mbarrier_init();
            });
            k.barrier();
            let hi = self.known.map_or(n, |known| k.constant(known));
            let all = range(self.lo, hi).step(self.step).prefetch_stages(stages);
            let all = if self.unroll > 1 { all.unroll(self.unroll) } else { all };
            let enter = if self.nested { n.gt(-100) } else { k.value::<bool>(true) };
            let sum = k.if_with(enter, k.constant(1u32), |k| {
                k.for_(all, k.constant(1u32), |k, i, sum| {
                    for ((tile, to), leader) in self.tiles.iter().zip(&tiles).zip(&self.leaders) {
                        k.if_(t.eq(*leader), |k| {
                            full.arrive_expect_tx(4 * tile.elements());
                            match *tile {
                                Tile::Bytes { elements, pieces } => {
                                    let part = elements / pieces;
                                    for piece in 0..pieces {
                                        let from = x.offset(i * elements + piece * part);
                                        let to = to.offset(piece * part);
                                        let (bytes, policy) = (4 * part, L2Policy::Default);
                                        k.cp_async_bulk_load(to, from, bytes, full, policy);
                                    }
                                }
                                Tile::Box { .. } => {
                                    let at = [i * 4, i - 2];
                                    map.cp_async_bulk_tensor_load(*to, at, full, L2Policy::Default);
                                }
                            }
                        });
                    }
                    let parity = if self.mask { i & 1 } else { i % 2 };
                    full.wait_parity(parity.cvt::<u32>());
                    let mut sum = sum * 5;
                    if self.loads {
                        sum += x.load((i * 3 + t) & (LEN - 1).cast_signed());
                    }
                    for (tile, from) in self.tiles.iter().zip(&tiles) {
                        let at = (t * 7 + i) % tile.elements().cast_signed();
                        sum = sum * 3 + from.load(at);
                    }
                    k.fence_proxy_async(ProxySpace::SharedCta);
                    k.barrier();
                    sum
                })
            });
            y.store(t, sum);
        })
    }

    /// The same on the host, with the end `n` where it is not known.
    fn expected(&self, n: i32) -> Vec<u32> {
        let hi = self.known.unwrap_or(n);
        let of_thread = |t: i32| {
            let mut sum = 1u32;
            let mut i = self.lo;
            while i < hi {
                sum = sum.wrapping_mul(5);
                if self.loads {
                    sum = sum.wrapping_add(value((i * 3 + t) as u32 & (LEN - 1)));
                }
                for tile in &self.tiles {
                    let at = ((t * 7 + i) % tile.elements().cast_signed()) as u32;
                    let found = match *tile {
                        Tile::Bytes { elements, .. } => value(i as u32 * elements + at),
                        Tile::Box { columns, .. } => {
                            let row = i - 2 + (at / columns) as i32;
                            let column = i * 4 + (at % columns) as i32;
                            let inside = (0..64).contains(&row) && (0..64).contains(&column);
                            if inside { value((row * 64 + column) as u32) } else { 0 }
                        }
                    };
                    sum = sum.wrapping_mul(3).wrapping_add(found);
                }
                i += self.step;
            }
            sum
        };
        (0..self.threads.cast_signed()).map(of_thread).collect()
    }

    fn run<K>(&self, device: &Device, kernel: &Kernel<K>, n: i32) -> Result<Vec<u32>, String>
    where
        K: 'static,
    {
        let kernel: Kernel<Untyped> = Kernel::verify(kernel.ir().clone()).unwrap();
        let x: Vec<u32> = (0..LEN).map(value).collect();
        let x = device.upload(&x).unwrap();
        let boxed = self.tiles.iter().find_map(|tile| match *tile {
            Tile::Box { rows, columns } => Some([columns, rows]),
            Tile::Bytes { .. } => None,
        });
        let dims = MATRIX.map(u64::from);
        let map = TensorMapDesc::new(Scalar::U32, &dims, &[4 * dims[0]], &boxed.unwrap_or([4, 1]))
            .unwrap();
        let map = x.tensor_map(&map).unwrap();
        let mut y = device.zeros::<u32>(self.threads as usize).unwrap();
        let grid = Grid::new([1; 3], [self.threads, 1, 1]);
        let args = vec![Arg::from(&x), Arg::from(&map), Arg::from(&mut y), Arg::from(n)];
        let options = LoadOptions::default().ptxas(PTXAS.as_ref());
        // No kernel comes twice.
        let options = options.cache(None);
        let ran = device.load_with(options, &kernel).unwrap().launch(grid, args);
        ran.map_err(|error| error.to_string())?;
        y.to_vec().map_err(|error| error.to_string())
    }
}

/// The assembler that the environment names.
static PTXAS: LazyLock<Option<Ptxas>> =
    LazyLock::new(|| std::env::var_os("TILEWRIGHT_PTXAS").and_then(|path| Ptxas::at(path).ok()));

/// Element `i` of `x`.
fn value(i: u32) -> u32 {
    i.wrapping_mul(7919) ^ (i >> 3)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"))
}

/// Random loops: the plain one and the pipelined one on the simulator, the pipelined one on a GPU,
/// and the host agree.
#[test]
fn bulk_copies_ahead_change_nothing() {
    let count = number("TILEWRIGHT_RANDOM_BULK_LOOPS", 60);
    let seed = number("TILEWRIGHT_RANDOM_BULK_LOOPS_SEED", 1);
    let (gpu, next) = (device::gpu(), AtomicU64::new(0));
    // Many loops take all cores; a few leave them to other tests.
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for _ in 0..(count / 100).clamp(1, cores) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    check_loop(number, seed, gpu.as_ref());
                }
            });
        }
    });
}

/// Checks loop `number` of those from `seed` on.
fn check_loop(number: u64, seed: u64, gpu: Option<&Device>) {
    let mut rng = Rng::new(seed.wrapping_add(number));
    let mut form = Form::random(&mut rng);
    // One map has one box.
    let mut boxes = 0;
    form.tiles.retain(|tile| {
        boxes += u32::from(matches!(tile, Tile::Box { .. }));
        boxes < 2 || matches!(tile, Tile::Bytes { .. })
    });
    let stages = 1 + rng.below(5) as u32;
    let n = form.lo + rng.below(24) as i32 - 2;
    let [plain, ahead] = [0, stages]
        .map(|stages| form.build(stages).unwrap_or_else(|errors| panic!("{form:?}: {errors}")));
    let made = |kernel: &Kernel<Params>| kernel.ptx().text().matches("mbarrier.init").count();
    let trips = form.known.map(|hi| (hi - form.lo + form.step - 1).div_euclid(form.step));
    let is_ahead = trips.is_none_or(|trips| trips >= stages.cast_signed());
    let expected = if is_ahead { stages as usize + 1 } else { 1 };
    assert_eq!([made(&plain), made(&ahead)], [1, expected], "{form:?}, {stages} ahead");
    text::check_round_trip(ahead.ir());
    let expected = form.expected(n);
    let order = Options::default().order(Order::Random { seed: number });
    let sim = Device::sim_with(order);
    // The driver compiles each kernel, which takes longer than all the rest: the plain one runs
    // there now and then.
    let rare = gpu.filter(|_| number.is_multiple_of(16));
    let runs = [(Some(&sim), &plain), (Some(&sim), &ahead), (gpu, &ahead), (rare, &plain)];
    for (device, kernel) in runs {
        let Some(device) = device else { continue };
        let found = form.run(device, kernel, n);
        assert_eq!(
            found.as_ref(),
            Ok(&expected),
            "loop {number} of seed {seed}, {stages} ahead, n = {n}, on {device}: {form:?}\n{kernel}"
        );
    }
}

/// A loop of each kind of copy.
fn simple() -> Form {
    Form {
        threads: 64,
        tiles: vec![Tile::Bytes { elements: 32, pieces: 2 }, Tile::Box { rows: 4, columns: 8 }],
        leaders: vec![0, 33],
        lo: 0,
        step: 1,
        known: Some(9),
        unroll: 1,
        mask: true,
        nested: false,
        loads: false,
    }
}

/// Three fills before the loop and one in it; four stages of each tile and of the mbarrier, all
/// made.
#[test]
fn the_prologue_has_as_many_fills_as_stages() {
    let [plain, ahead] = [0, 3].map(|stages| simple().build(stages).unwrap());
    let count = |kernel: &Kernel<Params>, op: &str| kernel.ptx().text().matches(op).count();
    for (op, before, after) in [
        ("cp.async.bulk.shared::cluster.global", 2, 2 * (3 + 1)),
        ("cp.async.bulk.tensor.2d", 1, 3 + 1),
        ("mbarrier.arrive.expect_tx", 2, 2 * (3 + 1)),
        ("mbarrier.init", 1, 4),
        // One in the loop, one in the drain.
        ("mbarrier.try_wait.parity", 1, 2),
        // One before the loop, one in each of both, and one behind them.
        ("barrier.sync", 2, 4),
    ] {
        assert_eq!((count(&plain, op), count(&ahead, op)), (before, after), "{op}");
    }
    let bytes = |kernel: &Kernel<Params>| kernel.ir().shared_layout().1;
    assert_eq!(bytes(&plain), 128 + 128 + 8);
    assert_eq!(bytes(&ahead), 4 * (128 + 128 + 8));
    if let Some(ptxas) = ptxas::find() {
        let assembled = ptxas.assemble(ahead.ptx().text(), "sm_90", &["-O3"]);
        assembled.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// Every wait that the pass writes is needed.
#[test]
fn no_wait_or_barrier_of_the_pipeline_can_be_left_out() {
    let form = simple();
    let printed = form.build(2).unwrap().to_string();
    let lines: Vec<&str> = printed.lines().collect();
    let is_wait = |line: &str| {
        let op = line.trim_start();
        op.starts_with("mbarrier_wait_parity") || op == "barrier"
    };
    let places: Vec<usize> = (0..lines.len()).filter(|at| is_wait(lines[*at])).collect();
    // The barrier before the loop, both of the main loop, both of the drain, and one for a loop
    // that is entered again.
    assert_eq!(places.len(), 6, "{printed}");
    // The drain fills nothing, so its barrier is not missed.
    for at in [places[0], places[1], places[2], places[4]] {
        let less = [&lines[..at], &lines[at + 1..]].concat();
        let ir: KernelIr = less.join("\n").parse().unwrap();
        let kernel: Kernel<Untyped> = Kernel::verify(ir).unwrap();
        let is_missed = (0..20).any(|seed| {
            let device = Device::sim_with(Options::default().order(Order::Random { seed }));
            form.run(&device, &kernel, 9) != Ok(form.expected(9))
        });
        assert!(is_missed, "line {} is not missed: {}\n{printed}", at + 1, lines[at]);
    }
}

/// Loops that are not in the form, each with the operation that prevents it.
#[test]
fn other_forms_of_bulk_copies_are_refused() {
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        EnteredAgain,
        Parity,
        Varying,
        SizeOfIndex,
        UseBeforeWait,
        UseBelow,
        NoBarrier,
        UsedOutside,
        OtherArrival,
    }
    let error = |fault: Fault| {
        let built = Kernel::<Params>::build("refused", Target::SM_90, |k, (x, _, y, n)| {
            let tile = k.shared_aligned::<u32>(64, 128);
            let full = k.shared::<u64>(1).mbarrier(0);
            let t = k.thread_idx().x;
            if fault == Fault::EnteredAgain {
                k.if_(t.eq(0), |_| full.init(1));
            }
            k.for_(range(0, n), (), |k, _, ()| {
                if fault != Fault::EnteredAgain {
                    k.if_(t.eq(0), |_| full.init(1));
                }
                k.barrier();
                k.for_(range(0, n).prefetch_stages(2), (), |k, i, ()| {
                    let bytes = if fault == Fault::SizeOfIndex { i * 16 } else { k.constant(256) };
                    let cond = if fault == Fault::Varying { i.eq(0) } else { t.eq(0) };
                    k.if_(cond, |k| {
                        full.arrive_expect_tx(256);
                        let from = x.offset(i * 64);
                        k.cp_async_bulk_load(
                            tile,
                            from,
                            bytes.cvt::<u32>(),
                            full,
                            L2Policy::Default,
                        );
                    });
                    if fault == Fault::UseBeforeWait {
                        y.store(t, tile.load(t));
                    }
                    let parity = if fault == Fault::Parity { i } else { i & 1 };
                    full.wait_parity(parity.cvt::<u32>());
                    if fault == Fault::OtherArrival {
                        full.arrive();
                    }
                    let _ = tile.load(t);
                    if fault != Fault::NoBarrier {
                        k.barrier();
                    }
                    if fault == Fault::UseBelow {
                        let _ = tile.load(t);
                    }
                });
            });
            if fault == Fault::UsedOutside {
                y.store(t, tile.load(t));
            }
        });
        let errors = built.unwrap_err();
        let error = errors.iter().next().expect("there is one");
        let BuildErrorKind::Verify(error) = &error.kind else { panic!("{error}") };
        error.clone()
    };
    for fault in [
        Fault::EnteredAgain,
        Fault::Parity,
        Fault::Varying,
        Fault::SizeOfIndex,
        Fault::UseBeforeWait,
        Fault::UseBelow,
        Fault::NoBarrier,
        Fault::UsedOutside,
        Fault::OtherArrival,
    ] {
        let error = error(fault);
        assert!(matches!(error, VerifyError::PrefetchBulkForm { .. }), "{error}");
    }
}
