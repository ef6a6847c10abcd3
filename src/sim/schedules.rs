//! Runs a launch under several schedules and compares their results, to find kernels whose results
//! depend on the order in which warps and copies run. Every launch passes through here, even with
//! one schedule.

use super::fault::error::RunError;
use super::fault::results_differ::ResultsDiffer;
use super::launch::{Call, InStream, KernelArg, check_grid, global_name, launch_once, written};
use super::memory::buffer::GlobalBuffer;
use super::options::{LaunchReport, Options, Order};
use super::output::Output;
use super::program::code::Code;
use super::progress::Ticker;
use crate::ir::KernelIr;
use crate::ir::types::{Const, Scalar, Type};
use crate::launch::grid::Grid;

/// Runs a launch under each schedule that the options ask for. Returns the operation counts of the
/// first schedule, or the error of the first schedule that fails.
pub(in crate::sim) fn launch(
    ir: &KernelIr,
    code: &Code,
    grid: Grid,
    args: &[KernelArg<'_>],
    options: &Options,
) -> Result<LaunchReport, RunError> {
    let in_stream = InStream::start(ir, code, args, options);
    let result = launch_all(Call { ir, code, grid, args }, options, in_stream.as_ref());
    if let (Some(in_stream), Err(_)) = (&in_stream, &result) {
        in_stream.fail();
    }
    result
}

fn launch_all(
    call: Call<'_>,
    options: &Options,
    in_stream: Option<&InStream<'_>>,
) -> Result<LaunchReport, RunError> {
    let blocks: u64 = call.grid.blocks.iter().map(|n| u64::from(*n)).product();
    let of_cluster: u64 = check_grid(call.ir, call.grid)?.iter().map(|n| u64::from(*n)).product();
    let clusters = blocks / of_cluster.max(1);
    // Blocks that run one after the other never wait for each other.
    let waits = options.race && call.code.polls && clusters > 1;
    let second = (waits && options.order == Order::RoundRobin).then_some(Order::Fine);
    let schedules = options.schedules.max(if second.is_some() { 2 } else { 1 });
    let hear = options.progress.as_ref();
    let mut ticker = Ticker::new(hear, &call.ir.name, schedules, clusters);
    ticker.next_schedule();
    if schedules == 1 {
        return launch_once(call, options, in_stream, &ticker);
    }
    let buffers = Buffers::of(&call);
    let before = buffers.content();
    let report = launch_once(call, options, in_stream, &ticker)?;
    let after = buffers.content();
    for order in options.order.schedules(second).take(schedules as usize).skip(1) {
        buffers.restore(&before);
        let (output, reports, trace) = (Output::captured(), None, None);
        let one = Options { order, output, reports, trace, ..options.clone() };
        ticker.next_schedule();
        launch_once(call, &one, in_stream, &ticker)?;
        if options.schedules > 1
            && let Some(found) = buffers.difference(&call, &after, options, order)
        {
            buffers.restore(&after);
            return Err(RunError::ResultsDiffer(Box::new(found)));
        }
    }
    if options.schedules > 1 {
        buffers.restore(&after);
    }
    Ok(report)
}

/// The argument buffers, each with its parameter's index, and the global arrays, whose indices
/// follow those of the parameters.
struct Buffers<'l>(Vec<(usize, &'l GlobalBuffer)>);

impl<'l> Buffers<'l> {
    fn of(call: &Call<'l>) -> Buffers<'l> {
        let buffer = |(param, arg): (usize, &KernelArg<'l>)| match arg {
            KernelArg::Buffer(buffer) | KernelArg::TensorMap(_, buffer) => Some((param, *buffer)),
            KernelArg::Scalar(_) => None,
        };
        let globals = (call.args.len()..).zip(&call.code.globals);
        Buffers(call.args.iter().enumerate().filter_map(buffer).chain(globals).collect())
    }

    /// Returns the bytes of each buffer.
    fn content(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(_, buffer)| bytes(buffer)).collect()
    }

    fn restore(&self, content: &[Vec<u8>]) {
        for ((_, buffer), bytes) in self.0.iter().zip(content) {
            buffer.write_bytes(0, bytes);
        }
    }

    /// Returns the first element that the kernel can write and that differs from the first
    /// schedule's result.
    fn difference(
        &self,
        call: &Call<'_>,
        first: &[Vec<u8>],
        options: &Options,
        order: Order,
    ) -> Option<ResultsDiffer> {
        let name = |number: usize| global_name(call.ir, number).unwrap_or_default();
        let allowed = |param: usize| {
            let plain = |name: &str| name.trim_start_matches('%').to_owned();
            options.may_differ.iter().any(|allowed| plain(allowed) == plain(&name(param)))
        };
        let written: Vec<bool> = written(call.ir).collect();
        for ((param, buffer), first) in self.0.iter().zip(first) {
            let same = |other: &GlobalBuffer| std::ptr::eq(*buffer, other);
            let may_differ = self.0.iter().any(|(param, other)| same(other) && allowed(*param));
            let Some(scalar) = element_of(call.ir, *param) else { continue };
            if may_differ || !written.get(*param).is_some_and(|written| *written) {
                continue;
            }
            let (now, size) = (bytes(buffer), scalar.size_bytes().max(1) as usize);
            let differing = first.chunks_exact(size).zip(now.chunks_exact(size)).enumerate();
            let mut differing = differing.filter(|(_, (first, now))| first != now);
            let Some((element, (first, now))) = differing.next() else { continue };
            let value = |bytes: &[u8]| {
                let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                Const::new(scalar, bits)
            };
            return Some(ResultsDiffer {
                kernel: call.ir.name.clone(),
                param: name(*param),
                element: element as u64,
                elements: 1 + differing.count() as u64,
                first_order: options.order,
                first_value: value(first),
                other_order: order,
                other_value: value(now),
            });
        }
        None
    }
}

/// Returns the type of the elements that a parameter points to, or of a global array's.
fn element_of(ir: &KernelIr, number: usize) -> Option<Scalar> {
    let Some(param) = ir.params.get(number) else {
        return ir.globals.iter().nth(number - ir.params.len()).map(|(_, global)| global.elem);
    };
    match ir.values.get(param.value)?.ty {
        Type::Pointer { elem, .. } | Type::TensorMap { elem, .. } => Some(elem),
        Type::Scalar(_) | Type::Vector(_) => None,
    }
}

fn bytes(buffer: &GlobalBuffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len_bytes()];
    buffer.read_bytes(0, &mut bytes);
    bytes
}
