//! Checks that data races are named with both lines and the missing edge, and that right kernels
//! are silent.
//!
//! A race is found in the default order, whatever the order of the two accesses was.

mod agents;
mod bugs;
mod clusters;
mod consan;
mod launches;
mod several;
mod threads;

use tilewright::arch::TensorMapDesc;
use tilewright::ir::op::MemScope;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Kernel, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{
    Agent, Fault, FaultCause, FenceAfterReads, GlobalBuffer, KernelArg, MissingEdge, Options,
    Order, RunError, run,
};

/// A kernel, its grid, and options that it needs.
pub(super) struct Case {
    pub(super) text: String,
    pub(super) grid: Grid,
    cooperative: bool,
    /// A tensor map of 32-bit integers in place of the first buffer.
    map: Option<TensorMapDesc>,
}

impl Case {
    pub(super) fn new(text: impl Into<String>, blocks: u32, threads: u32) -> Case {
        let grid = Grid::new([blocks, 1, 1], [threads, 1, 1]);
        Case { text: text.into(), grid, cooperative: false, map: None }
    }

    pub(super) fn cluster(self, blocks: u32) -> Case {
        Case { grid: self.grid.cluster([blocks, 1, 1]), ..self }
    }

    pub(super) fn cooperative(self) -> Case {
        Case { cooperative: true, ..self }
    }

    pub(super) fn map(self, map: TensorMapDesc) -> Case {
        Case { map: Some(map), ..self }
    }

    pub(super) fn run(&self, text: &str, order: Order) -> Result<(), RunError> {
        self.run_with(text, |options| options.order(order))
    }

    /// As [`Case::run`], with other options.
    pub(super) fn run_with(
        &self,
        text: &str,
        options: impl Fn(Options) -> Options,
    ) -> Result<(), RunError> {
        let ir = parse("test.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let buffers: Vec<GlobalBuffer> =
            kernel.ir().params.iter().map(|_| GlobalBuffer::zeros(1 << 14)).collect();
        let mut args: Vec<KernelArg<'_>> = buffers.iter().map(KernelArg::Buffer).collect();
        if let Some(map) = &self.map {
            args[0] = KernelArg::TensorMap(map, &buffers[0]);
        }
        let default = Options::default().fuel(1 << 22).threads(1).race(true);
        let options = options(default.cooperative(self.cooperative));
        run(kernel.ir(), self.grid, &args, &options).map(|_| ())
    }

    /// The fault of the kernel with `right` as `wrong`.
    #[track_caller]
    pub(super) fn fault(&self, right: &str, wrong: &str) -> Fault {
        assert!(self.text.contains(right), "{right}\n{}", self.text);
        let mutant = self.text.replace(right, wrong);
        match self.run(&mutant, Order::RoundRobin) {
            Err(RunError::Fault(fault)) => *fault,
            other => panic!("{right} as {wrong}: {other:?}\n{mutant}"),
        }
    }

    /// Checks that the kernel is silent in several orders, and that each mistake is a race that
    /// lacks an edge.
    #[track_caller]
    pub(super) fn check(&self, mistakes: &[(&str, &str, MissingEdge)]) {
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

pub(super) fn kernel(target: &str, signature: &str, shared: &str, body: &str) -> String {
    format!("kernel @k target {target} ({signature}) {{\n{shared}{CONSTANTS}{body}\n  return\n}}")
}
