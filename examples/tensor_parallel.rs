//! A two-layer MLP on several devices: `cargo run --example tensor_parallel`.
//!
//! `Y = relu(X W1) W2`. The columns of W1 and the rows of W2 are split across the ranks, and so are
//! the rows of X and Y: the first layer gathers the rows of X, the second one scatters the sums.
//! Every rank compares its rows of Y with the same MLP on its device alone. Both must be equal,
//! because the operands are chosen so that all sums are exact, in whatever order the ranks add.
//!
//! Without options, one process uses all GPUs of the machine, or two simulators. To use several
//! processes with one GPU each:
//!
//! ```text
//! tensor_parallel --rank 0 --world 2 --id-file /tmp/id &
//! tensor_parallel --rank 1 --world 2 --id-file /tmp/id
//! ```
//!
//! The file must not exist yet. `--sim` uses simulators, `--large` the sizes of a language model.

use std::error::Error;
use std::time::{Duration, Instant};

use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, bf16};
use tilewright::kernels::gemm::{
    Activation, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, Machine,
};
use tilewright::kernels::parallel::{ColumnParallel, ParallelSizes, RowOutput, RowParallel};
use tilewright::runtime::comm::{CommOptions, Communicator, UniqueId};
use tilewright::runtime::{Buffer, Device, Function, Grid, LaunchOptions, Stream};

type AnyError = Box<dyn Error + Send + Sync>;

/// The MLP's sizes: rows of X, columns of X and Y, columns of the hidden layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rows: u32,
    pub(crate) outer: u32,
    pub(crate) hidden: u32,
}

/// A row-major matrix of `-1`, `0` and `1`, which each rank computes for itself.
#[derive(Clone, Copy)]
struct Matrix {
    seed: u64,
    /// Only one in this many elements of a row can differ from 0.
    spacing: u32,
}

impl Matrix {
    const X: Matrix = Matrix { seed: 1, spacing: 1 };

    /// The weights of a layer with `inputs` inputs, of which eight count for each output. So an
    /// element of the hidden layer is at most 8, and one of Y at most 64: bf16 represents these
    /// integers and all their partial sums exactly.
    fn weights(seed: u64, inputs: u32) -> Matrix {
        Matrix { seed, spacing: (inputs / 8).max(1) }
    }

    fn element(self, row: u32, column: u32) -> bf16 {
        if !(row + column).is_multiple_of(self.spacing) {
            return bf16::from_f32(0.0);
        }
        let [row, column] = [row, column].map(u64::from);
        let mixed = (row * 0x9e37_79b9 + column * 0x85eb_ca6b + self.seed * 0xc2b2_ae35)
            .wrapping_mul(0x2545_f491_4f6c_dd1d);
        bf16::from_f32((mixed >> 60) as f32 % 3.0 - 1.0)
    }

    /// Returns the `rows x columns` part that starts at row and column `first`.
    fn part(self, first: [u32; 2], [rows, columns]: [u32; 2]) -> Vec<bf16> {
        let row =
            |row: u32| (first[1]..first[1] + columns).map(move |column| self.element(row, column));
        (first[0]..first[0] + rows).flat_map(row).collect()
    }
}

/// Returns a matrix's element count.
fn len(rows: u32, columns: u32) -> Result<usize, AnyError> {
    Ok(usize::try_from(rows)? * usize::try_from(columns)?)
}

/// Runs one rank's MLP. Returns how long it took on average.
fn rank(comm: &Communicator, sizes: Sizes) -> Result<Duration, AnyError> {
    let (device, ranks, rank) = (comm.device(), comm.ranks(), comm.rank());
    let Sizes { rows, outer, hidden } = sizes;
    let [own_rows, own_hidden] = [rows / ranks, hidden / ranks];
    let first = ParallelSizes { rows: own_rows, n: own_hidden, k: outer };
    let second = ParallelSizes { rows: own_rows, n: outer, k: own_hidden };
    let mut up = ColumnParallel::<bf16>::new(comm, first, None)?;
    let mut down = RowParallel::<bf16>::new(comm, second, RowOutput::Scattered, None)?;
    let relu = Relu::new(device)?;

    // Weights are stored transposed: W1 is `hidden x outer`, W2 is `outer x hidden`.
    let [w1, w2] = [Matrix::weights(2, outer), Matrix::weights(3, hidden)];
    let x = device.upload(&Matrix::X.part([rank * own_rows, 0], [own_rows, outer]))?;
    let w1 = device.upload(&w1.part([rank * own_hidden, 0], [own_hidden, outer]))?;
    let w2 = device.upload(&w2.part([0, rank * own_hidden], [outer, own_hidden]))?;
    let mut h = device.zeros::<bf16>(len(rows, own_hidden)?)?;
    let mut y = device.zeros::<bf16>(len(own_rows, outer)?)?;
    let stream = device.stream()?;
    let mut forward = || -> Result<(), AnyError> {
        up.forward(&stream, &x, &w1, &mut h)?;
        relu.run(&stream, &mut h)?;
        Ok(down.forward(&stream, &h, &w2, &mut y)?)
    };
    forward()?;
    device.synchronize()?;
    let times = if device.is_sim() { 1 } else { 20 };
    let start = Instant::now();
    (0..times).try_for_each(|_| forward())?;
    device.synchronize()?;
    let elapsed = start.elapsed() / times;

    let found = y.to_vec()?;
    let all = alone(device, sizes)?;
    let expected = &all[len(rank * own_rows, outer)?..][..found.len()];
    if expected.iter().all(|y| y.to_f32() == 0.0) {
        return Err(format!("rank {rank}: Y is 0, which compares nothing").into());
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (found.to_f32(), expected.to_f32());
        if found != expected {
            return Err(
                format!("rank {rank}: Y[{i}] is {found}, and {expected} on one device").into()
            );
        }
    }
    Ok(elapsed)
}

/// The hidden layer's activation, in place.
struct Relu(Function<(GlobalMut<bf16>, i32)>);

impl Relu {
    fn new(device: &Device) -> Result<Relu, AnyError> {
        type Params = (GlobalMut<bf16>, i32);
        let kernel = Kernel::<Params>::build("relu", device.target(), |k, (h, n)| {
            let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
            k.if_(i.lt(n), |_| {
                let x = h.load(i).cvt::<f32>();
                h.store(i, x.max(0.0).cvt::<bf16>());
            });
        })?;
        Ok(Relu(device.load(&kernel)?))
    }

    fn run(&self, stream: &Stream, h: &mut Buffer<bf16>) -> Result<(), AnyError> {
        let (options, len) = (LaunchOptions::default().stream(stream), h.len());
        Ok(self.0.launch_with(options, Grid::cover(len, 256), (h, i32::try_from(len)?))?)
    }
}

/// Returns Y of the whole MLP, computed on one device.
fn alone(device: &Device, sizes: Sizes) -> Result<Vec<bf16>, AnyError> {
    let Sizes { rows, outer, hidden } = sizes;
    let types =
        GemmConfig { target: device.target(), ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
    let relu = Epilogue { activation: Some(Activation::Relu), ..Epilogue::default() };
    let upload = |matrix: Matrix, sizes| device.upload(&matrix.part([0, 0], sizes));
    let x = upload(Matrix::X, [rows, outer])?;
    let w1 = upload(Matrix::weights(2, outer), [hidden, outer])?;
    let w2 = upload(Matrix::weights(3, hidden), [outer, hidden])?;
    let mut h = device.zeros::<bf16>(len(rows, hidden)?)?;
    let mut y = device.zeros::<bf16>(len(rows, outer)?)?;
    let layers = [(relu, [hidden, outer]), (Epilogue::default(), [outer, hidden])];
    for (i, (epilogue, [n, k])) in layers.into_iter().enumerate() {
        let problem = GemmProblem::new(rows, n, k);
        let config = GemmConfig { epilogue, ..types }.best(&problem, &Machine::of(device))?;
        let gemm = Gemm::<bf16>::new(config)?.load(device)?;
        match i {
            0 => gemm.launch(&problem, GemmArgs::new(&x, &w1, &mut h))?,
            _ => gemm.launch(&problem, GemmArgs::new(&h, &w2, &mut y))?,
        }
    }
    Ok(y.to_vec()?)
}

/// Runs the MLP on these devices, with one thread each.
pub(crate) fn run(devices: &[Device], sizes: Sizes) -> Result<(), AnyError> {
    let ranks = Communicator::all(devices)?;
    let times = std::thread::scope(|threads| -> Result<Vec<Duration>, AnyError> {
        let start = |comm| threads.spawn(move || rank(comm, sizes));
        let threads: Vec<_> = ranks.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a rank panicked")?).collect()
    })?;
    for (comm, time) in ranks.iter().zip(times) {
        println!("{comm:?}: {sizes:?} in {time:?}, equal to one device");
    }
    Ok(())
}

/// The command line options.
#[derive(Default)]
struct Options {
    rank: Option<u32>,
    world: Option<u32>,
    id_file: Option<String>,
    sim: bool,
    large: bool,
}

fn options() -> Result<Options, AnyError> {
    let (mut options, mut words) = (Options::default(), std::env::args().skip(1));
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        match word.as_str() {
            "--rank" => options.rank = Some(value()?.parse()?),
            "--world" => options.world = Some(value()?.parse()?),
            "--id-file" => options.id_file = Some(value()?),
            "--sim" => options.sim = true,
            "--large" => options.large = true,
            _ => {
                return Err(
                    format!("`{word}` is no option: see the first lines of the example").into()
                );
            }
        }
    }
    Ok(options)
}

#[allow(dead_code, reason = "a test runs the other functions")]
fn main() -> Result<(), AnyError> {
    let Options { rank: number, world, id_file, sim, large } = options()?;
    let sizes = match large {
        true => Sizes { rows: 4096, outer: 8192, hidden: 28672 },
        false => Sizes { rows: 64, outer: 48, hidden: 96 },
    };
    if let (Some(number), Some(world), Some(file)) = (number, world, id_file) {
        const PATIENCE: Duration = Duration::from_secs(60);
        let device = Device::cuda(usize::try_from(number)? % Device::cuda_count()?)?;
        let id = match number {
            0 => {
                let id = UniqueId::new(&device)?;
                id.write_file(&file)?;
                id
            }
            _ => UniqueId::read_file(&file, PATIENCE)?,
        };
        let options = CommOptions::default().timeout(PATIENCE);
        let comm = Communicator::connect(options, &device, &id, number, world)?;
        if number == 0 {
            // All ranks have read it.
            std::fs::remove_file(&file)?;
        }
        let time = rank(&comm, sizes)?;
        println!("{comm:?}: {sizes:?} in {time:?}, equal to one device");
        return Ok(());
    }
    let gpus = if sim { 0 } else { Device::cuda_count().unwrap_or(0) };
    let devices: Vec<Device> = match gpus {
        0 => (0..world.unwrap_or(2)).map(Device::sim_number).collect::<Result<_, _>>()?,
        count => (0..count).map(Device::cuda).collect::<Result<_, _>>()?,
    };
    run(&devices, sizes)
}
