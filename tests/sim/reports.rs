//! Reports and traces of launches.

use serde_json::Value as Json;
use tilewright::ir::op::ProxySpace;
use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, Target, TensorMap, parse, range};
use tilewright::layout::layout;
use tilewright::runtime::{Device, Grid};
use tilewright::sim::{
    KernelReport, MemoryKind, Options, Order, Output, Reports, TrafficSource, run,
};
use tilewright::tensor::copy::TmaCopy;
use tilewright::tensor::pipeline::TmaPipeline;
use tilewright::tensor::view::{SharedTensor, Tensor};

/// Tiles of 1 KiB in two stages: warp 0 copies, warp 1 reads.
const TILES: u32 = 6;

/// The report and the trace of a pipeline of TMA copies.
fn pipeline(order: Order) -> (KernelReport, Json) {
    let tile = layout!((8, 32):(32, 1));
    let copy = TmaCopy::new(Scalar::F32, &tile).expect("it is a box");
    type Params = (TensorMap<f32, 2>, GlobalMut<f32>);
    let kernel = Kernel::<Params>::build("ring", Target::SM_90, |k, (map, y)| {
        let ring = layout!((8, 32, 2):(32, 1, 256));
        let shared: SharedTensor<'_, f32> = Tensor::shared_aligned(k, ring, 128);
        let pipe = TmaPipeline::new(k, 2, copy.bytes(), 1);
        let t = k.thread_idx().x;
        pipe.init(t.eq(0));
        k.barrier();
        let lane = t % 32;
        k.if_else(
            t.lt(32),
            |k| {
                k.if_(lane.eq(0), |k| {
                    k.for_(range(0, TILES as i32), pipe.producer(), |_, i, state| {
                        let full = pipe.acquire(state);
                        copy.load(map, (i * 8, 0), &shared.slice((.., .., state.stage)), full);
                        state.next()
                    });
                });
            },
            |k| {
                k.for_(range(0, TILES as i32), pipe.consumer(), |k, i, state| {
                    pipe.wait(state);
                    let x = shared.slice((.., .., state.stage)).load((7, lane));
                    k.fence_proxy_async(ProxySpace::SharedCta);
                    k.bar_warp(u32::MAX);
                    k.if_(lane.eq(0), |_| pipe.release(state));
                    y.store(i * 32 + lane, x);
                    state.next()
                });
            },
        );
    })
    .expect("the kernel is correct");
    let (reports, trace) = (Reports::new(), Output::captured());
    let options = Options::default().order(order).reports(&reports).trace(&trace);
    let device = Device::sim_with(options);
    let x: Vec<f32> = (0..8 * TILES * 32).map(|i| i as f32).collect();
    let x = device.upload(&x).expect("memory");
    let mut y = device.zeros::<f32>(32 * TILES as usize).expect("memory");
    let map = copy.desc(&layout!((48, 32):(32, 1))).expect("it is a tensor");
    let function = device.load(&kernel).expect("it loads");
    let map = x.tensor_map(&map).expect("it fits");
    function.launch(Grid::cover(64, 64), (&map, &mut y)).expect("it runs");
    assert_eq!(y.to_vec().expect("it is there")[32], (15 * 32) as f32);
    let [report] = &reports.take()[..] else { panic!("one launch") };
    let text = trace.take();
    assert_eq!(text.lines().count(), 1);
    (report.clone(), serde_json::from_str(&text).expect("it is JSON"))
}

/// The bytes of each mover are those of the tiles, under each order.
#[test]
fn a_report_counts_bytes_waits_and_stages() {
    for order in [Order::RoundRobin, Order::Paced, Order::Eager, Order::Random { seed: 3 }] {
        let (report, _) = pipeline(order);
        let moved = |memory: MemoryKind, mover: TrafficSource| {
            let found = report.traffic.iter().find(|t| (t.memory, t.mover) == (memory, mover));
            found.map(|traffic| (traffic.loaded, traffic.stored))
        };
        let bytes = u64::from(TILES) * 1024;
        assert_eq!(moved(MemoryKind::Global, TrafficSource::Copies), Some((bytes, 0)), "{order:?}");
        assert_eq!(moved(MemoryKind::Shared, TrafficSource::Copies), Some((0, bytes)));
        assert_eq!(moved(MemoryKind::Shared, TrafficSource::Threads), Some((bytes / 8, 0)));
        assert_eq!(moved(MemoryKind::Global, TrafficSource::Threads), Some((0, bytes / 8)));
        let stages = report.stages.expect("it has stages");
        assert_eq!((stages.stages, stages.fills), (2, u64::from(TILES)));
        let all = stages.filling + stages.full + stages.read + stages.free;
        assert!((all - 1.0).abs() < 1e-9, "{stages:?}");
        let text = report.to_string();
        assert!(text.starts_with("kernel `ring`\n") && text.contains("2 with 6 fills"), "{text}");
    }
    let (report, _) = pipeline(Order::Paced);
    let waits: u64 = report.waits.iter().map(|wait| wait.blocked).sum();
    assert!(waits > u64::from(TILES), "{:?}", report.waits);
}

/// The products of a tile count `2 m n k`, and plain arithmetic counts by thread and type.
#[test]
fn a_report_counts_floating_point_operations() {
    let kernel = Kernel::<(GlobalMut<f32>,)>::build("fma", Target::SM_80, |k, (x,)| {
        let t = k.thread_idx().x;
        let value = x.load(t);
        let sum = value.fma(value, value);
        x.store(t, sum * 2.0);
    })
    .expect("the kernel is correct");
    let reports = Reports::new();
    let device = Device::sim_with(Options::default().reports(&reports));
    let mut x = device.zeros::<f32>(96).expect("memory");
    device
        .load(&kernel)
        .expect("it loads")
        .launch(Grid::cover(96, 96), (&mut x,))
        .expect("it runs");
    let report = &reports.take()[0];
    assert_eq!((report.flops, report.global_bytes()), (96 * 3, 2 * 96 * 4));
    assert_eq!(report.intensity(), Some(0.375));
}

fn list<'j>(json: &'j Json, name: &str) -> &'j Vec<Json> {
    json[name].as_array().unwrap_or_else(|| panic!("`{name}` is a list"))
}

/// Each fill has its states in order, begins with a copy, and is free when its barrier says so;
/// each wait ends in the step in which its phase ends.
#[test]
fn a_trace_says_who_waits_for_whom() {
    for order in [Order::RoundRobin, Order::Paced, Order::Fine] {
        let (_, trace) = pipeline(order);
        let (barriers, flights) = (list(&trace, "barriers"), list(&trace, "flights"));
        assert_eq!(flights.len(), TILES as usize);
        assert!(flights.iter().all(|flight| flight[0] == "load" && flight[5] == 1024));
        let mut fills = 0;
        for stage in list(&trace, "stages") {
            let empty = stage["empty"].as_u64().expect("a barrier frees the stage") as usize;
            assert_eq!(
                (&barriers[empty]["role"], &stage["bytes"]),
                (&"empty".into(), &1024.into())
            );
            for fill in list(stage, "fills") {
                let times: Vec<u64> = (0..4).map(|i| fill[i].as_u64().expect("a step")).collect();
                assert!(times.is_sorted(), "{times:?}");
                assert!(flights.iter().any(|flight| flight[3] == fill[0] && flight[4] == fill[1]));
                fills += 1;
            }
        }
        assert_eq!(fills, TILES);
        let waits = list(&trace, "waits");
        assert!(waits.len() > TILES as usize, "{order:?}: {waits:?}");
        for wait in waits {
            let barrier = &barriers[wait[4].as_u64().expect("a barrier") as usize];
            let phase = &barrier["phases"][wait[5].as_u64().expect("a phase") as usize];
            assert_eq!(phase[0], wait[3], "{order:?}: {wait} of {barrier}");
            assert!(phase[1].as_array().is_some_and(|arrivals| !arrivals.is_empty()));
        }
        // A warp has one event a step.
        let mut last = [None; 2];
        for event in list(&trace, "events") {
            let (at, warp) = (event[0].as_u64(), event[1].as_u64().expect("a warp") as usize);
            assert!(at > last[warp], "{event}");
            last[warp] = at;
        }
    }
}

/// A wait that never ends has no end in the trace, and a race has both accesses.
#[test]
fn a_trace_has_faults() {
    let traced = |text: &str| {
        let kernel = Kernel::verify(parse("k.kir", text).expect("it parses")).expect("it is right");
        let trace = Output::captured();
        let options = Options::default().race(true).trace(&trace);
        let found = run(kernel.ir(), Grid::new([1; 3], [64, 1, 1]), &[], &options);
        let trace: Json = serde_json::from_str(&trace.take()).expect("it is JSON");
        assert_eq!(trace["fault"]["text"], found.expect_err("it is wrong").to_string());
        trace
    };
    let start = "kernel @k target sm_90 () {
  shared @s: i32 x 64 align 8
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %n32 = const 32 : i32
  %zero = const 0 : i32
";
    let race = traced(&format!("{start}  %a = and %t, %zero : i32\n  st %s, %a, %t\n  return\n}}"));
    let races = list(&race["fault"], "races");
    assert_eq!(
        (races.len(), &races[0]["op"], &races[0]["line"]),
        (1, &"st".into(), &races[0]["other_line"])
    );
    assert!(!list(&race, "races").is_empty());
    let stuck = traced(&format!(
        "{start}  %u32 = const 32 : u32
  %u64 = const 64 : u32
  %id = const 1 : u32
  %low = setp<lt> %t, %n32 : bool
  if %low {{
    barrier_sync %id, %u64
    yield
  }}
  return
}}"
    ));
    let waits = list(&stuck, "waits");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(waits[0][3].is_null() && waits[0][0] == 0, "{waits:?}");
}
