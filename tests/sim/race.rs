//! Checks that data races are named with both lines and the missing edge, and that right kernels are silent.
//!
//! A race is found in the default order, whatever the order of the two accesses was.

use tilewright::arch::TensorMapDesc;
use tilewright::ir::op::MemScope;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{
    Agent, Fault, FaultCause, GlobalBuffer, KernelArg, MissingEdge, Options, Order, RunError, run,
};

/// A kernel, its grid, and options that it needs.
struct Case {
    text: String,
    grid: Grid,
    cooperative: bool,
    /// A tensor map of 32-bit integers in place of the first buffer.
    map: Option<TensorMapDesc>,
}

impl Case {
    fn new(text: impl Into<String>, blocks: u32, threads: u32) -> Case {
        let grid = Grid::new([blocks, 1, 1], [threads, 1, 1]);
        Case { text: text.into(), grid, cooperative: false, map: None }
    }

    fn cluster(self, blocks: u32) -> Case {
        Case { grid: self.grid.cluster([blocks, 1, 1]), ..self }
    }

    fn cooperative(self) -> Case {
        Case { cooperative: true, ..self }
    }

    fn map(self, map: TensorMapDesc) -> Case {
        Case { map: Some(map), ..self }
    }

    fn run(&self, text: &str, order: Order) -> Result<(), RunError> {
        let ir = parse("test.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let buffers: Vec<GlobalBuffer> =
            kernel.ir().params.iter().map(|_| GlobalBuffer::zeros(1 << 14)).collect();
        let mut args: Vec<KernelArg<'_>> = buffers.iter().map(KernelArg::Buffer).collect();
        if let Some(map) = &self.map {
            args[0] = KernelArg::TensorMap(map, &buffers[0]);
        }
        let options = Options::default().order(order).fuel(1 << 22).threads(1).race(true);
        let options = options.cooperative(self.cooperative);
        run(kernel.ir(), self.grid, &args, &options).map(|_| ())
    }

    /// The fault of the kernel with `right` as `wrong`.
    #[track_caller]
    fn fault(&self, right: &str, wrong: &str) -> Fault {
        assert!(self.text.contains(right), "{right}\n{}", self.text);
        let mutant = self.text.replace(right, wrong);
        match self.run(&mutant, Order::RoundRobin) {
            Err(RunError::Fault(fault)) => *fault,
            other => panic!("{right} as {wrong}: {other:?}\n{mutant}"),
        }
    }

    /// Checks that the kernel is silent in several orders, and that each mistake is a race that lacks an edge.
    #[track_caller]
    fn check(&self, mistakes: &[(&str, &str, MissingEdge)]) {
        let orders = (1..6).map(|seed| Order::Random { seed });
        for order in [Order::RoundRobin].into_iter().chain(orders) {
            let run = self.run(&self.text, order);
            run.unwrap_or_else(|error| panic!("{order:?}: {error}\n{}", self.text));
        }
        for (right, wrong, expected) in mistakes {
            let fault = self.fault(right, wrong);
            let FaultCause::Race { access, other, missing, .. } = &fault.cause else {
                panic!("{right} as {wrong}: {fault}");
            };
            assert_eq!(missing, expected, "{right} as {wrong}: {fault}");
            assert!(access.is_store || other.writes, "{fault}");
            assert!(fault.location.line > 0 && other.op.location.line > 0, "{fault}");
        }
    }
}

/// The lines of every kernel: constants.
const CONSTANTS: &str = "
  %t = sreg<tid.x> : i32
  %block = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %n31 = const 31 : i32
  %n32 = const 32 : i32
  %n63 = const 63 : i32
  %u0 = const 0 : u32
  %u1 = const 1 : u32
  %all = const 4294967295 : u32
  %first = setp<eq> %t, %zero : bool
";

fn kernel(target: &str, signature: &str, shared: &str, body: &str) -> String {
    format!("kernel @k target {target} ({signature}) {{\n{shared}{CONSTANTS}{body}\n  return\n}}")
}

#[test]
fn lanes_of_a_warp() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n31, %t : i32
  st %s, %other, %t ;old
  bar_warp %all ;first
  st %s, %t, %t ;new
  bar_warp %all ;second
  %v = ld %s, %other : i32
  st %x, %t, %v";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 32 align 4\n", body);
    let case = Case::new(text, 1, 32);
    case.check(&[
        ("bar_warp %all ;first", "", MissingEdge::Warp),
        ("bar_warp %all ;second", "", MissingEdge::Warp),
        // All lanes store their number to one element.
        ("st %x, %t, %v", "st %x, %zero, %t", MissingEdge::Warp),
    ]);
    // What all lanes store alike is no race.
    let alike = case.text.replace("st %x, %t, %v", "st %x, %zero, %one");
    case.run(&alike, Order::RoundRobin).unwrap();
    let fault = case.fault("bar_warp %all ;second", "").to_string();
    assert!(fault.contains("`ld` at test.kir:"), "{fault}");
    assert!(fault.contains("races: reads i32 element"), "{fault}");
    assert!(fault.contains("which the `st` at test.kir:"), "{fault}");
    assert!(fault.contains("of block (0, 0, 0) wrote: no `bar_warp` orders the two"), "{fault}");
}

#[test]
fn shuffles_order_lanes_too() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n31, %t : i32
  st %s, %other, %t
  %b = vote_ballot %first, %all : u32
  %v = ld %s, %t : i32
  st %x, %t, %v";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 32 align 4\n", body);
    Case::new(text, 1, 32).check(&[("%b = vote_ballot %first, %all : u32", "", MissingEdge::Warp)]);
}

#[test]
fn warps_of_a_block() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %other = sub %n63, %t : i32
  st %s, %other, %t
  barrier ;first
  st %s, %t, %one
  barrier ;second
  %v = ld %s, %other : i32
  barrier ;third
  st %s, %t, %v
  barrier ;fourth
  %w = ld %s, %other : i32
  st %x, %t, %w";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 64 align 4\n", body);
    Case::new(text, 1, 64).check(&[
        ("barrier ;first", "", MissingEdge::Block),
        ("barrier ;second", "", MissingEdge::Block),
        // A write after a read.
        ("barrier ;third", "", MissingEdge::Block),
        ("barrier ;fourth", "", MissingEdge::Block),
        ("barrier ;third", "bar_warp %all", MissingEdge::Block),
    ]);
}

#[test]
fn blocks_of_a_grid() {
    let body = "
  st %x, %block, %block";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    let case = Case::new(text, 8, 1);
    case.check(&[
        ("st %x, %block, %block", "st %x, %zero, %block", MissingEdge::Grid),
        (
            "st %x, %block, %block",
            "%v = ld %x, %zero : i32\n  st %x, %block, %v",
            MissingEdge::Grid,
        ),
        (
            "st %x, %block, %block",
            "%o = atom<add, relaxed, cta> %x, %zero, %one : i32",
            MissingEdge::Scope { needed: MemScope::Gpu },
        ),
    ]);
    for alike in ["st %x, %zero, %one", "%o = atom<add, relaxed, gpu> %x, %zero, %one : i32"] {
        let text = case.text.replace("st %x, %block, %block", alike);
        case.run(&text, Order::RoundRobin).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Block 0 passes a message to block 1 through global memory.
fn message() -> Case {
    let body = "
  %leads = setp<eq> %block, %zero : bool
  if %leads {
    st %x, %zero, %two
    fence<acq_rel, gpu> ;release
    st<relaxed.gpu> %x, %one, %one
    yield
  } else {
    loop @spin {
      %seen = ld<relaxed.gpu> %x, %one : i32
      %is = setp<eq> %seen, %one : bool
      if %is {
        break @spin
      }
      continue @spin
    }
    fence<acq_rel, gpu> ;acquire
    %v = ld %x, %zero : i32
    st %x, %two, %v
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    Case::new(text, 2, 1).cooperative()
}

#[test]
fn messages_between_blocks() {
    let scope = MissingEdge::Scope { needed: MemScope::Gpu };
    message().check(&[
        ("fence<acq_rel, gpu> ;release", "", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;acquire", "", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;release", "fence<acq_rel, cta>", MissingEdge::Grid),
        ("fence<acq_rel, gpu> ;acquire", "fence<acq_rel, cta>", MissingEdge::Grid),
        ("ld<relaxed.gpu> %x, %one", "ld<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st<relaxed.cta> %x, %one", scope),
        ("st<relaxed.gpu> %x, %one", "st %x, %one", MissingEdge::Grid),
    ]);
    let mut strong = message();
    strong.text = strong.text.replace("fence<acq_rel, gpu> ;release", "");
    strong.text = strong.text.replace("fence<acq_rel, gpu> ;acquire", "");
    strong.text = strong.text.replace("st<relaxed.gpu>", "st<release.gpu>");
    strong.text = strong.text.replace("ld<relaxed.gpu>", "ld<acquire.gpu>");
    strong.check(&[
        ("st<release.gpu>", "st<relaxed.gpu>", MissingEdge::Grid),
        ("ld<acquire.gpu>", "ld<relaxed.gpu>", MissingEdge::Grid),
    ]);
}

#[test]
fn the_last_block_reads_what_all_wrote() {
    let body = "
  %n = const 7 : i32
  if %first {
    %at = add %block, %one : i32
    st %x, %at, %block
    fence<acq_rel, gpu> ;fence
    %before = atom<add, acq_rel, gpu> %x, %zero, %one : i32
    %last = setp<eq> %before, %n : bool
    if %last {
      %v = ld %x, %two : i32
      st %x, %one, %v
      yield
    }
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "", body);
    let case = Case::new(text, 8, 32);
    case.check(&[
        ("atom<add, acq_rel, gpu>", "atom<add, relaxed, gpu>", MissingEdge::Grid),
        ("atom<add, acq_rel, gpu>", "atom<add, release, gpu>", MissingEdge::Grid),
    ]);
    // The atomic operation releases and acquires without the fence.
    case.run(&case.text.replace("fence<acq_rel, gpu> ;fence", ""), Order::RoundRobin).unwrap();
}

#[test]
fn blocks_of_a_cluster() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  st %s, %t, %t
  barrier_cluster_arrive ;written
  barrier_cluster_wait
  %v = ld %far, %t : i32
  barrier_cluster_arrive ;read
  barrier_cluster_wait
  st %s, %t, %v";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", "  shared @s: i32 x 32 align 4\n", body);
    Case::new(text, 2, 32).cluster(2).check(&[
        (
            "barrier_cluster_arrive ;written",
            "barrier_cluster_arrive<, relaxed>",
            MissingEdge::Cluster,
        ),
        ("barrier_cluster_arrive ;read", "barrier_cluster_arrive<, relaxed>", MissingEdge::Cluster),
        ("barrier_cluster_arrive ;read\n  barrier_cluster_wait", "barrier", MissingEdge::Cluster),
    ]);
}

/// One warp loads 64 elements twice by `cp.async` to memory that has a value before.
fn copies() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %four = const 4 : i32
  %bytes = const 16 : u32
  %i = mul %t, %four : i32
  %other = sub %n31, %t : i32
  for @init %j: i32 = %zero to %four step %one {
    %e = add %i, %j : i32
    st %s, %e, %zero
    continue @init
  }
  barrier
  cp_async<cg, 16> %s, %i, %x, %i, %bytes
  cp_async_commit_group
  cp_async_wait_group<0> ;wait
  barrier ;barrier
  %o = mul %other, %four : i32
  %v = ld %s, %o : i32
  st %y, %t, %v";
    let shared = "  shared @s: i32 x 128 align 16\n";
    let text = kernel("sm_80", "%x: ptr<global, i32>, %y: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 32)
}

#[test]
fn copies_of_threads() {
    let case = copies();
    case.check(&[("barrier ;barrier", "", MissingEdge::Publish)]);
    // Without the wait the bytes count as not written; with another wait the old value would be read.
    let fault = case.fault("cp_async_wait_group<0> ;wait", "cp_async_wait_group<1>").to_string();
    assert!(fault.contains("which the `cp_async` at test.kir"), "{fault}");
}

/// One thread loads a box, all read it, then the thread loads the next one to the same memory.
fn boxes(fence: &str) -> Case {
    let load = |parity: &str, row: &str| {
        format!(
            "
  if %leads {{
    %state{parity} = mbarrier_arrive_expect_tx %full, %zero, %bytes : u64
    cp_async_bulk_tensor_load %m, %s, %zero, %full, %zero, %zero, {row}
    yield
  }}
  mbarrier_wait_parity %full, %zero, %u{parity} ;wait{parity}
  %v{parity} = ld %s, %t : i32
  st %y, %t, %v{parity}"
        )
    };
    let body = format!(
        "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %full = shared_base<@full> : ptr<shared, mut u64>
  %bytes = const 512 : u32
  %n16 = const 16 : i32
  %leads = setp<eq> %t, %n32 : bool
  if %leads {{
    mbarrier_init %full, %zero, %u1
    fence_mbarrier_init ;init
    yield
  }}
  barrier ;ready
{}
  {fence} ;fence
  barrier ;free
{}",
        load("0", "%zero"),
        load("1", "%n16")
    );
    let shared = "  shared @s: i32 x 128 align 128\n  shared @full: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%m: tensor_map<i32, 2>, %y: ptr<global, mut i32>", shared, &body);
    let map = TensorMapDesc::new(Scalar::I32, &[8, 64], &[32], &[8, 16]).unwrap();
    Case::new(text, 1, 64).map(map)
}

#[test]
fn loads_of_boxes() {
    let fenced = boxes("fence_proxy_async<shared::cta>");
    fenced.check(&[
        ("barrier ;free", "bar_warp %all", MissingEdge::Block),
        ("fence_mbarrier_init ;init", "", MissingEdge::InitFence),
        // Threads have read the box before, and the next one overwrites it.
        ("fence_proxy_async<shared::cta> ;fence", "", MissingEdge::ProxyFence),
    ]);
    // The proxy fence makes the barrier visible too.
    let text = fenced.text.replace("fence_mbarrier_init", "fence_proxy_async");
    fenced.run(&text, Order::RoundRobin).unwrap();
    let fault = fenced.fault("mbarrier_wait_parity %full, %zero, %u1 ;wait1", "");
    assert!(
        matches!(fault.cause, FaultCause::InFlight { .. } | FaultCause::Race { .. }),
        "{fault}"
    );
}

/// Threads write a tile that one thread stores, and write it again.
fn stores() -> Case {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bytes = const 256 : u32
  %n64 = const 64 : i32
  %other = sub %n63, %t : i32
  st %s, %other, %zero
  barrier
  st %s, %t, %t
  fence_proxy_async<shared::cta> ;fence
  barrier ;filled
  if %first {
    cp_async_bulk_store %x, %zero, %s, %zero, %bytes
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0, read> ;wait
    yield
  }
  barrier ;free
  st %s, %t, %one
  fence_proxy_async<shared::cta>
  barrier
  if %first {
    cp_async_bulk_store %x, %n64, %s, %zero, %bytes
    cp_async_bulk_commit_group
    cp_async_bulk_wait_group<0, read>
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 128\n";
    Case::new(kernel("sm_90", "%x: ptr<global, mut i32>", shared, body), 1, 64)
}

#[test]
fn stores_of_tiles() {
    stores().check(&[
        ("barrier ;filled", "bar_warp %all", MissingEdge::Publish),
        ("barrier ;free", "bar_warp %all", MissingEdge::Wait),
        // The second store overlaps the first one, whose writes nobody has waited for.
        ("%n64, %s", "%n32, %s", MissingEdge::Wait),
    ]);
    let fault = stores().fault("fence_proxy_async<shared::cta> ;fence", "");
    assert!(matches!(fault.cause, FaultCause::UnfencedStore { .. }), "{fault}");
    // A fence of one warp does not cover what the other one stored.
    let fault = stores().fault(
        "fence_proxy_async<shared::cta> ;fence",
        "%low = setp<lt> %t, %n32 : bool\n  if %low {\n    fence_proxy_async<shared::cta>\n    yield\n  }",
    );
    assert!(
        matches!(
            fault.cause,
            FaultCause::UnfencedStore { .. }
                | FaultCause::Race { missing: MissingEdge::ProxyFence, .. }
        ),
        "{fault}"
    );
}

#[test]
fn loads_of_boxes_in_clusters() {
    for blocks in [1, 2, 4] {
        let mut case = boxes("fence_proxy_async<shared::cta>").cluster(blocks);
        case.grid = Grid::new([4, 1, 1], [64, 1, 1]).cluster([blocks, 1, 1]);
        // Each block has its part of the result.
        case.text = case.text.replace("st %y, %t,", "st %y, %out,").replace(
            "  %leads =",
            "  %n64 = const 64 : i32\n  %start = mul %block, %n64 : i32\n  %out = add %start, %t : i32\n  %leads =",
        );
        case.check(&[
            ("barrier ;free", "bar_warp %all", MissingEdge::Block),
            ("fence_proxy_async<shared::cta> ;fence", "", MissingEdge::ProxyFence),
            ("fence_mbarrier_init ;init", "", MissingEdge::InitFence),
        ]);
    }
}

/// Each block of a cluster fills the next one by stores that signal its mbarrier, and reads what it got, twice.
#[test]
fn stores_to_other_blocks() {
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %bytes = const 128 : u32
  %number = sreg<cluster_ctarank> : i32
  %rank = cvt<u32> %number : u32
  %next = xor %rank, %u1 : u32
  %far = mapa %s, %next : ptr<shared::cluster, mut i32>
  %there = mapa %bar, %next : ptr<shared::cluster, mut u64>
  if %first {
    mbarrier_init %bar, %zero, %u1
    fence_mbarrier_init ;init
    %state = mbarrier_arrive_expect_tx %bar, %zero, %bytes : u64
    yield
  }
  barrier
  barrier_cluster_arrive<, relaxed> ;ready
  barrier_cluster_wait
  st_async %far, %t, %t, %there, %zero
  mbarrier_wait_parity %bar, %zero, %u0
  %other = sub %n31, %t : i32
  %v = ld %s, %other : i32
  %start = mul %number, %n32 : i32
  %out = add %start, %t : i32
  st %x, %out, %v
  barrier_cluster_arrive ;read
  barrier_cluster_wait
  st %far, %other, %zero
  barrier_cluster_arrive
  barrier_cluster_wait
  %w = ld %s, %t : i32
  st %x, %out, %w
  barrier_cluster_arrive
  barrier_cluster_wait";
    let shared = "  shared @s: i32 x 32 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_90", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 2, 32).cluster(2).check(&[
        ("barrier_cluster_arrive ;read", "barrier_cluster_arrive<, relaxed>", MissingEdge::Publish),
        // The relaxed barrier of the cluster publishes nothing but what is fenced.
        ("fence_mbarrier_init ;init", "", MissingEdge::Cluster),
    ]);
}

#[test]
fn an_mbarrier_for_one_arrival_too_few() {
    // Both warps store and arrive; warp 0 waits and reads what warp 1 stored. With a count of 63 the last lane's store is
    // not part of the phase.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %count = const 64 : u32
  %low = setp<lt> %t, %n32 : bool
  st %s, %t, %zero
  if %first {
    mbarrier_init %bar, %zero, %count
    yield
  }
  barrier
  st %s, %t, %one
  %state = mbarrier_arrive %bar, %zero, %u1 : u64
  if %low {
    mbarrier_wait_parity %bar, %zero, %u0
    %other = sub %n63, %t : i32
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 64).check(&[("%count = const 64", "%count = const 63", MissingEdge::Block)]);
}

#[test]
fn one_lane_arrives_for_a_warp() {
    // The lanes of warp 0 store, one arrives at an mbarrier, warp 1 waits and reads.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %bar = shared_base<@bar> : ptr<shared, mut u64>
  %low = setp<lt> %t, %n32 : bool
  if %first {
    mbarrier_init %bar, %zero, %u1
    yield
  }
  st %s, %t, %zero
  barrier ;ready
  %other = and %t, %n31 : i32
  if %low {
    st %s, %other, %one
    bar_warp %all ;warp
    if %first {
      %state = mbarrier_arrive %bar, %zero, %u1 : u64
      yield
    }
    yield
  } else {
    mbarrier_wait_parity %bar, %zero, %u0
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  }";
    let shared = "  shared @s: i32 x 64 align 4\n  shared @bar: u64 x 1 align 8\n";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", shared, body);
    Case::new(text, 1, 64).check(&[
        ("bar_warp %all ;warp", "", MissingEdge::Block),
        ("barrier ;ready", "bar_warp %all", MissingEdge::Block),
    ]);
}

#[test]
fn named_barriers_with_arrivals() {
    // Warp 1 arrives, warp 0 waits.
    let body = "
  %s = shared_base<@s> : ptr<shared, mut i32>
  %n64 = const 64 : u32
  %low = setp<lt> %t, %n32 : bool
  %other = sub %n63, %t : i32
  st %s, %other, %zero
  barrier
  if %low {
    barrier_sync %u1, %n64 ;sync
    %v = ld %s, %other : i32
    st %x, %t, %v
    yield
  } else {
    st %s, %t, %one
    barrier_arrive %u1, %n64 ;arrive
    yield
  }";
    let text = kernel("sm_80", "%x: ptr<global, mut i32>", "  shared @s: i32 x 64 align 4\n", body);
    Case::new(text, 1, 64).check(&[(
        "st %s, %t, %one\n    barrier_arrive %u1, %n64 ;arrive",
        "barrier_arrive %u1, %n64\n    st %s, %t, %one",
        MissingEdge::Block,
    )]);
}

#[test]
fn a_race_names_its_agents() {
    let fault = boxes("fence_proxy_async").fault("barrier ;free", "bar_warp %all");
    let FaultCause::Race { agent, other, access, .. } = &fault.cause else { panic!("{fault}") };
    assert_eq!((*agent, other.agent), (Agent::Load, Agent::Thread));
    assert!(access.is_store && !other.writes);
    assert_eq!((fault.op, other.op.name), ("cp_async_bulk_tensor_load", "ld"));
    assert_eq!((fault.thread, other.thread), ([32, 0, 0], [0, 0, 0]));
    let text = fault.to_string();
    assert!(text.contains("no barrier orders the two threads of the block"), "{text}");
}
