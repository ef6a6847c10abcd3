//! Correct kernels to which mistakes are made, with arguments that show them.

mod asynchronous;
mod block;
mod clusters;
mod grid;
mod launches;
mod products;

use tilewright::arch::TensorMapDesc;
use tilewright::ir::{Kernel, KernelIr, parse};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, RunError, StreamOrder, run};

/// An argument: a buffer begins with these bytes.
#[derive(Clone)]
pub(crate) enum Arg {
    Int(i32),
    Buffer(Vec<u8>),
    Map(Box<TensorMapDesc>, Vec<u8>),
}

impl Arg {
    fn zeros(len: usize) -> Arg {
        Arg::Buffer(vec![0; 4 * len])
    }

    /// Different numbers.
    fn numbers(len: usize) -> Arg {
        Arg::Buffer(bytes(len))
    }

    fn map(map: TensorMapDesc, len: usize) -> Arg {
        Arg::Map(Box::new(map), bytes(len))
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as i32).flat_map(|i| (i * 7 % 1009 + 1).to_le_bytes()).collect()
}

/// A correct kernel, and a launch of it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) ir: KernelIr,
    grid: Grid,
    cooperative: bool,
    /// Launches of the kernel, one after the other: those behind the first are programmatic, and
    /// each has the first two arguments of the one before exchanged.
    launches: u32,
    args: Vec<Arg>,
}

impl Subject {
    fn new(
        name: &'static str,
        text: String,
        (blocks, threads): (u32, u32),
        args: Vec<Arg>,
    ) -> Subject {
        let ir =
            parse("kernel.kir", &text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let kernel = Kernel::verify(ir).unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
        let grid = Grid::new([blocks, 1, 1], [threads, 1, 1]);
        let ir = kernel.ir().clone();
        Subject { name, text, ir, grid, cooperative: false, launches: 1, args }
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.grid.blocks[0]
    }

    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    pub(crate) fn is_cooperative(&self) -> bool {
        self.cooperative
    }

    pub(crate) fn args(&self) -> &[Arg] {
        &self.args
    }

    fn cluster(self, blocks: u32) -> Subject {
        Subject { grid: self.grid.cluster([blocks, 1, 1]), ..self }
    }

    fn cooperative(self) -> Subject {
        Subject { cooperative: true, ..self }
    }

    fn launches(self, launches: u32) -> Subject {
        Subject { launches, ..self }
    }

    /// Returns whether there are several launches.
    pub(crate) fn is_chain(&self) -> bool {
        self.launches > 1
    }

    /// Runs a kernel with the arguments, with races. Returns the content of all buffers.
    pub(crate) fn run(&self, ir: &KernelIr, options: Options) -> Result<Vec<Vec<u8>>, RunError> {
        self.run_plain(ir, options.race(true))
    }

    /// As [`Subject::run`], with the races of the options.
    pub(crate) fn run_plain(
        &self,
        ir: &KernelIr,
        options: Options,
    ) -> Result<Vec<Vec<u8>>, RunError> {
        self.run_checked(ir, &[], &mut [], options)
    }

    /// As [`Subject::run_plain`], for a kernel with the bytes of the parameters `extents` and a
    /// record as further parameters.
    pub(crate) fn run_checked(
        &self,
        ir: &KernelIr,
        extents: &[u32],
        record: &mut [u64],
        options: Options,
    ) -> Result<Vec<Vec<u8>>, RunError> {
        let buffers: Vec<GlobalBuffer> = self
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Int(_) => GlobalBuffer::zeros(0),
                Arg::Buffer(bytes) | Arg::Map(_, bytes) => GlobalBuffer::from_slice(bytes),
            })
            .collect();
        let mut args: Vec<KernelArg<'_>> = self
            .args
            .iter()
            .zip(&buffers)
            .map(|(arg, buffer)| match arg {
                Arg::Int(value) => KernelArg::Scalar(tilewright::ir::Element::to_const(*value)),
                Arg::Buffer(_) => KernelArg::Buffer(buffer),
                Arg::Map(map, _) => KernelArg::TensorMap(map, buffer),
            })
            .collect();
        for extent in extents {
            let bytes = match &self.args[*extent as usize] {
                Arg::Map(map, _) => map.shared_bytes(),
                Arg::Int(_) | Arg::Buffer(_) => buffers[*extent as usize].len_bytes() as u64,
            };
            args.push(KernelArg::Scalar(tilewright::ir::Element::to_const(bytes)));
        }
        let words = GlobalBuffer::from_slice(record);
        if !record.is_empty() {
            args.push(KernelArg::Buffer(&words));
        }
        let options = options.cooperative(self.cooperative).threads(1);
        let stream = StreamOrder::new();
        let mut report = Ok(());
        for launch in 0..self.launches {
            let options = options.clone().in_stream(&stream, launch > 0);
            report = report.and_then(|()| run(ir, self.grid, &args, &options).map(|_| ()));
            if self.launches > 1 {
                args.swap(0, 1);
            }
        }
        record.copy_from_slice(&words.to_vec());
        report?;
        Ok(buffers.iter().map(GlobalBuffer::to_vec).collect())
    }
}

/// The lines of every kernel: constants.
const CONSTANTS: &str = "
  %t = sreg<tid.x> : i32
  %block = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %four = const 4 : i32
  %n15 = const 15 : i32
  %n16 = const 16 : i32
  %n31 = const 31 : i32
  %n32 = const 32 : i32
  %n63 = const 63 : i32
  %n64 = const 64 : i32
  %n256 = const 256 : i32
  %u0 = const 0 : u32
  %u1 = const 1 : u32
  %u2 = const 2 : u32
  %u4 = const 4 : u32
  %u5 = const 5 : u32
  %u32 = const 32 : u32
  %u64 = const 64 : u32
  %all = const 4294967295 : u32
  %first = setp<eq> %t, %zero : bool
  %low = setp<lt> %t, %n32 : bool
  %lane = and %t, %n31 : i32
  %leads = setp<eq> %lane, %zero : bool
";

fn kernel(target: &str, signature: &str, shared: &str, body: &str) -> String {
    format!("kernel @k target {target} ({signature}) {{\n{shared}{CONSTANTS}{body}\n  return\n}}")
}

/// Two pointers: what is read, and what is written.
const XY: &str = "%x: ptr<global, i32>, %y: ptr<global, mut i32>";

/// All kernels.
pub(crate) fn subjects() -> Vec<Subject> {
    let mut all = block::subjects();
    all.extend(grid::subjects());
    all.extend(launches::subjects());
    all.extend(asynchronous::subjects());
    all.extend(clusters::subjects());
    all.extend(products::subjects());
    all
}
