//! Writes a launch's trace as JSON: one cluster's timeline, its pipeline stages and heat maps. The
//! page that `tilewright trace` makes reads this text.

use std::collections::HashMap;

use crate::ir::SourceLocation;
use crate::json::Json;
use crate::sim::fault::cause::FaultCause;
use crate::sim::fault::error::RunError;
use crate::sim::fault::raw::Origin;
use crate::sim::fault::report::Fault;
use crate::sim::fault::source::SourceOp;
use crate::sim::kernel_report::{KernelReport, StageReport};
use crate::sim::launch::global_name;
use crate::sim::memory::shared::SharedRange;
use crate::sim::race::MbarrierAddress;
use crate::sim::report::explain::Launch;
use crate::sim::trace::class::OpClass;
use crate::sim::trace::counts::{MemoryKind, TrafficSource};
use crate::sim::trace::heat::Mapped;
use crate::sim::trace::stages::{Fill, Filler};
use crate::sim::trace::timeline::{
    Arriver, BarrierKey, Engine, Event, Flight, PhaseLog, Timeline, Wait,
};
use crate::sorting::{sort, sort_by_key};

/// A note that every trace carries.
const NOTE: &str = "Steps are the order in which the simulator ran the operations. They are no cycles: arithmetic takes \
                    no steps, and the length of a bar says nothing about a GPU. What the picture shows is who waits for whom.";

fn number(n: impl Into<u64>) -> Json {
    Json::Number(n.into())
}

fn step(at: Option<u32>) -> Json {
    Json::option(at, number)
}

/// Operations and source lines, numbered in the order in which they are first named.
#[derive(Default)]
struct Index {
    ops: Vec<Json>,
    op_of: HashMap<u32, usize>,
    lines: Vec<Json>,
    line_of: HashMap<(&'static str, u32), usize>,
}

impl Index {
    fn line(&mut self, location: SourceLocation) -> Json {
        let next = self.lines.len();
        let index = *self.line_of.entry((location.file, location.line)).or_insert(next);
        if index == next {
            self.lines.push(Json::Object(vec![
                ("file", Json::text(location.file)),
                ("line", number(location.line)),
            ]));
        }
        number(index as u64)
    }

    /// Returns the index of a step's operation.
    fn op(&mut self, launch: &Launch<'_>, step: u32) -> Json {
        let (next, id) = (self.ops.len(), launch.code.ops.get(step as usize));
        let index = *self.op_of.entry(step).or_insert(next);
        if index == next {
            let class = id.map_or(OpClass::Other, |id| OpClass::of(launch.ir, *id));
            let (name, line) = match launch.op(step) {
                Some(SourceOp { name, location }) => (name, self.line(location)),
                None => ("", Json::Null),
            };
            self.ops.push(Json::List(vec![Json::text(name), Json::text(class.name()), line]));
        }
        number(index as u64)
    }
}

/// Returns the trace of a launch, with the error that ended it, if there was one.
pub(in crate::sim) fn trace(
    launch: &Launch<'_>,
    report: &KernelReport,
    timeline: &Timeline,
    error: Option<&RunError>,
) -> Json {
    let mut index = Index::default();
    let warps_of_block = launch.grid.threads.iter().product::<u32>().div_ceil(32);
    let warp = |origin: Origin| number(origin.block * warps_of_block + origin.warp);
    let event = |index: &mut Index, event: &Event| {
        let Event { at, warp, step, plain } = *event;
        Json::List(vec![number(at), number(warp), index.op(launch, step), number(plain)])
    };
    let events = timeline.events.iter().map(|found| event(&mut index, found)).collect();

    // Barriers are numbered by the order of their keys. Those that are only waited for count too.
    let waits = || timeline.waits.iter().chain(timeline.open_waits());
    let mut keys: Vec<BarrierKey> = timeline.barriers.keys().copied().collect();
    keys.extend(waits().map(|wait| wait.on));
    sort(&mut keys);
    keys.dedup();
    let number_of = |key: BarrierKey| keys.binary_search(&key).ok().map(|index| index as u64);
    let barrier_of = |key: BarrierKey| Json::option(number_of(key), number);
    let memory = |barrier: Option<MbarrierAddress>| {
        barrier.map_or(Json::Null, |barrier| barrier_of(BarrierKey::Memory(barrier)))
    };

    let wait = |index: &mut Index, wait: &Wait| {
        let Wait { warp, step: at, from, to, on, phase } = *wait;
        let op = index.op(launch, at);
        Json::List(vec![number(warp), op, number(from), step(to), barrier_of(on), number(phase)])
    };
    let waits: Vec<Json> = waits().map(|found| wait(&mut index, found)).collect();
    let flight = |index: &mut Index, flight: &Flight| {
        let op = index.op(launch, flight.origin.step);
        let engine = match flight.engine {
            Engine::Load => "load",
            Engine::Store => "store",
            Engine::CpAsync => "cp.async",
            Engine::Remote => "remote",
            Engine::Arrival => "arrival",
            Engine::Wgmma => "wgmma",
        };
        Json::List(vec![
            Json::text(engine),
            warp(flight.origin),
            op,
            number(flight.from),
            step(flight.done),
            number(flight.bytes),
            memory(flight.barrier),
            step(flight.read),
        ])
    };
    let flights = timeline.flights.iter().map(|found| flight(&mut index, found)).collect();
    let stages = stages(timeline, &memory);
    let none = Vec::new();
    let mut barriers = Vec::new();
    for key in &keys {
        let phases = timeline.barriers.get(key).unwrap_or(&none);
        barriers.push(barrier(launch, timeline, &mut index, *key, phases));
    }
    let race = |index: &mut Index, (by, other, at): &(Origin, Origin, u32)| {
        let [by_op, other_op] = [by, other].map(|origin| index.op(launch, origin.step));
        Json::List(vec![warp(*by), by_op, warp(*other), other_op, number(*at)])
    };
    let races = timeline.races.iter().map(|found| race(&mut index, found)).collect();
    let report = report_json(&mut index, report);
    let heat = heat(launch, &mut index, timeline);
    let fault = Json::option(error, |error| fault(&mut index, error));
    let rank = |rank: u32| {
        let block = launch.shape.block(launch.grid, 0, rank);
        Json::List(block.into_iter().map(number).collect())
    };
    Json::Object(vec![
        ("kernel", Json::text(&launch.ir.name)),
        ("target", Json::text(launch.ir.target)),
        ("order", Json::text(format!("{:?}", launch.order))),
        ("note", Json::text(NOTE)),
        ("blocks", Json::List((0..launch.shape.blocks()).map(rank).collect())),
        ("warps", number(warps_of_block)),
        ("steps", number(timeline.end())),
        ("truncated", Json::Bool(timeline.truncated)),
        ("events", Json::List(events)),
        ("waits", Json::List(waits)),
        ("flights", Json::List(flights)),
        ("barriers", Json::List(barriers)),
        ("stages", Json::List(stages)),
        ("races", Json::List(races)),
        ("report", report),
        ("heat", Json::List(heat)),
        ("heat_truncated", Json::Bool(timeline.heat.truncated)),
        ("fault", fault),
        ("ops", Json::List(index.ops)),
        ("lines", Json::List(index.lines)),
    ])
}

/// Returns the stages, each with its fills.
fn stages(timeline: &Timeline, memory: &dyn Fn(Option<MbarrierAddress>) -> Json) -> Vec<Json> {
    let mut all: Vec<&Fill> = timeline.stages.fills.iter().collect();
    sort_by_key(&mut all, |fill| fill.stage());
    let stage = |fills: &[&Fill]| {
        let Some(first) = fills.first() else { return Json::Null };
        let full = match first.filler {
            Filler::Barrier(byte) => Some(MbarrierAddress { rank: first.block, byte }),
            Filler::Group(_) => None,
        };
        let empty = fills.iter().find_map(|fill| fill.empty);
        let bytes = first.bytes();
        let fill = |fill: &&Fill| {
            let end = fill.end(timeline.end());
            Json::List(vec![
                number(fill.begin),
                step(fill.full),
                step(fill.first_read),
                number(end),
            ])
        };
        Json::Object(vec![
            ("block", number(first.block as u64)),
            ("full", memory(full)),
            ("empty", memory(empty)),
            ("bytes", number(bytes)),
            ("fills", Json::List(fills.iter().map(fill).collect())),
        ])
    };
    all.chunk_by(|a, b| a.stage() == b.stage()).map(stage).collect()
}

fn barrier(
    launch: &Launch<'_>,
    timeline: &Timeline,
    index: &mut Index,
    key: BarrierKey,
    phases: &[PhaseLog],
) -> Json {
    let (mut line, mut role) = (Json::Null, "");
    let (kind, block, name) = match key {
        BarrierKey::Memory(address) => {
            let MbarrierAddress { rank, byte } = address;
            let has = |range: &SharedRange| (range.start..range.start + range.len).contains(&byte);
            let alloc = launch.code.shared.iter().position(has).unwrap_or(0);
            let (name, made) = launch.shared(alloc as u32);
            line = Json::option(made, |made| index.line(made));
            let start = launch.code.shared.get(alloc).map_or(0, |range| range.start);
            let fills = &timeline.stages.fills;
            if fills.iter().any(|fill| (fill.block, fill.filler) == (rank, Filler::Barrier(byte))) {
                role = "full";
            } else if fills.iter().any(|fill| fill.empty == Some(address)) {
                role = "empty";
            }
            ("mbarrier", rank, format!("{name}[{}]", byte.saturating_sub(start) / 8))
        }
        BarrierKey::Named(rank, id) => ("named", rank, format!("barrier {id}")),
        BarrierKey::Block(rank) => ("block", rank, "block".to_owned()),
        BarrierKey::Cluster => ("cluster", 0, "cluster".to_owned()),
        BarrierKey::WarpGroup(rank, group) => ("wgmma", rank, format!("warp group {group}")),
    };
    let arrival = |(at, by): &(u32, Arriver)| {
        let (is_flight, by) = match by {
            Arriver::Warp(warp) => (false, *warp),
            Arriver::Flight(flight) => (true, *flight),
        };
        Json::List(vec![number(*at), number(is_flight), number(by)])
    };
    let phase = |phase: &PhaseLog| {
        let arrivals = phase.arrivals.iter().map(arrival).collect();
        Json::List(vec![step(phase.end), Json::List(arrivals)])
    };
    Json::Object(vec![
        ("kind", Json::text(kind)),
        ("block", number(block as u64)),
        ("name", Json::text(name)),
        ("role", Json::text(role)),
        ("line", line),
        ("phases", Json::List(phases.iter().map(phase).collect())),
    ])
}

/// Returns the heat map of each operation and memory: the units that it accesses, with how often
/// and with what excess.
fn heat(launch: &Launch<'_>, index: &mut Index, timeline: &Timeline) -> Vec<Json> {
    type Place = (&'static str, String, u64);
    let place = |mapped: Mapped, unit: u64| -> (Place, u64) {
        match mapped {
            Mapped::Global(param) => {
                let name = global_name(launch.ir, param);
                (("global", name.unwrap_or_default(), 32), unit)
            }
            Mapped::Shared => {
                let has = |range: &SharedRange| {
                    (range.start..range.start + range.len).contains(&(4 * unit as usize))
                };
                let alloc = launch.code.shared.iter().position(has).unwrap_or(0);
                let start = launch.code.shared.get(alloc).map_or(0, |range| range.start / 4);
                (("shared", launch.shared(alloc as u32).0, 4), unit - start as u64)
            }
        }
    };
    // Several steps may belong to one source line.
    let mut units = Vec::new();
    for ((step, mapped, unit), found) in &timeline.heat.units {
        let Some(SourceOp { name, location }) = launch.op(*step) else { continue };
        let (place, unit) = place(*mapped, *unit);
        units.push((((location.file, location.line, name), place), unit, *found));
    }
    sort_by_key(&mut units, |(map, unit, _)| (map.clone(), *unit));
    let mut all = Vec::new();
    for map in units.chunk_by(|a, b| a.0 == b.0) {
        let Some((((file, line, op), (memory, name, bytes)), ..)) = map.first() else { continue };
        let mut list = Vec::new();
        for same in map.chunk_by(|a, b| a.1 == b.1) {
            let accesses: u32 = same.iter().map(|(.., found)| found.accesses).sum();
            let excess: u32 = same.iter().map(|(.., found)| found.excess).sum();
            let unit = same.first().map_or(0, |(_, unit, _)| *unit);
            list.extend([number(unit), number(accesses), number(excess)]);
        }
        all.push(Json::Object(vec![
            ("op", Json::text(*op)),
            ("line", index.line(SourceLocation { file, line: *line, column: 0 })),
            ("memory", Json::text(*memory)),
            ("name", Json::text(name.clone())),
            ("unit", number(*bytes)),
            ("units", Json::List(list)),
        ]));
    }
    all
}

fn report_json(index: &mut Index, report: &KernelReport) -> Json {
    let class = |(class, count): &(OpClass, u64)| {
        Json::List(vec![Json::text(class.name()), number(*count)])
    };
    let traffic = report.traffic.iter().map(|traffic| {
        let memory = match traffic.memory {
            MemoryKind::Global => "global",
            MemoryKind::Shared => "shared",
        };
        let mover = match traffic.mover {
            TrafficSource::Threads => "threads",
            TrafficSource::Copies => "copies",
            TrafficSource::TensorCores => "wgmma",
        };
        let (loaded, stored) = (number(traffic.loaded), number(traffic.stored));
        Json::List(vec![Json::text(memory), Json::text(mover), loaded, stored])
    });
    let mut accesses = Vec::new();
    for access in &report.accesses {
        accesses.push(Json::Object(vec![
            ("op", Json::text(access.op)),
            ("line", index.line(access.location)),
            ("warps", number(access.warps)),
            ("global", number(access.global_bytes)),
            ("sectors", number(access.sectors)),
            ("ideal_sectors", number(access.ideal_sectors)),
            ("shared", number(access.shared_bytes)),
            ("wavefronts", number(access.wavefronts)),
            ("ideal_wavefronts", number(access.ideal_wavefronts)),
            ("banks", Json::List(access.banks.iter().map(|bank| number(*bank)).collect())),
        ]));
    }
    let mut waits = Vec::new();
    for wait in &report.waits {
        waits.push(Json::Object(vec![
            ("op", Json::text(wait.op)),
            ("line", index.line(wait.location)),
            ("warps", number(wait.warps)),
            ("blocked", number(wait.blocked)),
        ]));
    }
    // In thousandths.
    let share = |share: f64| number((1000.0 * share).round() as u64);
    let stages = Json::option(report.stages, |stages| {
        let StageReport { stages, fills, filling, full, read, free } = stages;
        Json::Object(vec![
            ("stages", number(stages)),
            ("fills", number(fills)),
            ("filling", share(filling)),
            ("full", share(full)),
            ("read", share(read)),
            ("free", share(free)),
        ])
    });
    Json::Object(vec![
        ("warp_ops", number(report.warp_ops)),
        ("thread_ops", number(report.thread_ops)),
        ("flops", number(report.flops)),
        ("global_bytes", number(report.global_bytes())),
        ("classes", Json::List(report.classes.iter().map(class).collect())),
        ("traffic", Json::List(traffic.collect())),
        ("accesses", Json::List(accesses)),
        ("waits", Json::List(waits)),
        ("stages", stages),
    ])
}

fn fault(index: &mut Index, error: &RunError) -> Json {
    let mut races = Vec::new();
    let all = error.fault().into_iter().flat_map(|fault| [fault].into_iter().chain(&fault.also));
    for Fault { cause, op, location, .. } in all {
        let FaultCause::Race { access, other, missing, .. } = cause else { continue };
        races.push(Json::Object(vec![
            ("op", Json::text(op)),
            ("line", index.line(*location)),
            ("other_op", Json::text(other.op.name)),
            ("other_line", index.line(other.op.location)),
            ("missing", Json::text(missing)),
            ("allocation", Json::text(&access.allocation)),
            ("element", Json::Int(i64::try_from(access.element).unwrap_or(i64::MAX))),
        ]));
    }
    Json::Object(vec![("text", Json::text(error)), ("races", Json::List(races))])
}
