//! [`RowParallel`]: multiplies with a rank's rows of the weight, then sums over the ranks. Use it
//! for the second layer of a pair, such as the down projection.

use std::fmt;

use crate::ir::Number;
use crate::kernels::gemm::{GemmError, GemmProblem, MatrixStrides};
use crate::runtime::comm::{Communicator, ReduceOp};
use crate::runtime::{Buffer, Stream};

use super::plan::{CommOverlap, Exchange, ParallelSizes};
use super::products::{Product, Products, check_len, check_sizes, elements, first_of};

/// Which rows of the sum each rank gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOutput {
    /// Its own rows: Y is `rows x n`.
    Scattered,
    /// All rows: Y is `ranks * rows x n`.
    Everywhere,
}

/// `Y = X W`, with the rows of `W` divided among the ranks, and the columns of `X` with them. The
/// ranks' results are summed.
///
/// On each rank, X is `ranks * rows x k` and W (stored as `W^T`) is `n x k`; for Y see
/// [`RowOutput`]. With overlap, a chunk of rows is summed while the next one is multiplied. Each
/// rank's result is rounded to `T` before the sum.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::kernels::parallel::{ParallelSizes, RowOutput, RowParallel};
/// use tilewright::runtime::Device;
/// use tilewright::runtime::comm::Communicator;
///
/// let comm = Communicator::all(&[Device::sim()?])?.swap_remove(0);
/// let device = comm.device();
/// let sizes = ParallelSizes { rows: 2, n: 3, k: 4 };
/// let mut layer = RowParallel::<f32>::new(&comm, sizes, RowOutput::Scattered, None)?;
/// let x = device.upload(&[1.0f32; 8])?;
/// let w = device.upload(&[0.5f32; 12])?;
/// let mut y = device.zeros::<f32>(6)?;
/// layer.forward(&device.stream()?, &x, &w, &mut y)?;
/// assert_eq!(y.to_vec()?, [2.0; 6]);
/// # }
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
pub struct RowParallel<'c, T: Number> {
    comm: &'c Communicator,
    sizes: ParallelSizes,
    output: RowOutput,
    overlap: CommOverlap,
    products: Products<T>,
    stream: Stream,
    chunks: Vec<Chunk<T>>,
}

/// Rows that are summed together.
struct Chunk<T> {
    /// The first row and the end: of each rank's rows, or of all rows.
    rows: [u32; 2],
    /// This rank's result.
    partial: Buffer<T>,
    product: Product,
}

impl<'c, T: Number> RowParallel<'c, T> {
    /// Loads the kernels of a row-parallel layer on this rank. `overlap` says in how many chunks
    /// the sum over the ranks runs beside the GEMM; with `None` a cost model chooses. All ranks
    /// must use the same.
    ///
    /// # Errors
    /// [`GemmError::Size`], and those of [`Device::load`](crate::runtime::Device::load).
    pub fn new(
        comm: &'c Communicator,
        sizes: ParallelSizes,
        output: RowOutput,
        overlap: Option<CommOverlap>,
    ) -> Result<Self, GemmError> {
        let ranks = comm.ranks();
        check_sizes(sizes, ranks)?;
        let ParallelSizes { rows, n, k } = sizes;
        let mut products = Products::new(comm.device());
        let exchange = match output {
            RowOutput::Scattered => Exchange::Scatter,
            RowOutput::Everywhere => Exchange::Sum,
        };
        let overlap = products.overlap(exchange, sizes, comm, overlap)?;
        // If every rank gets all rows, the rows of all ranks form one matrix.
        let (cut, batch) = match output {
            RowOutput::Scattered => (rows, ranks),
            RowOutput::Everywhere => (rows * ranks, 1),
        };
        let mut chunks = Vec::new();
        for (i, ends) in overlap.starts(cut).windows(2).enumerate() {
            let [first, end] = [ends[0], ends[1]];
            let len = end - first;
            let next = Some(u64::from(rows) * u64::from(k));
            let problem = match len == cut {
                true => GemmProblem::new(len * batch, n, k),
                false => GemmProblem {
                    batch,
                    a: MatrixStrides { leading: None, batch: next },
                    b: MatrixStrides { leading: None, batch: Some(0) },
                    ..GemmProblem::new(len, n, k)
                },
            };
            // Nothing is communicated during the first GEMM.
            let product = products.add(problem, if i == 0 { 0 } else { overlap.comm_sms() })?;
            let elements = u64::from(len) * u64::from(n) * u64::from(batch);
            let partial = comm.device().zeros(if ranks == 1 { 0 } else { elements as usize })?;
            chunks.push(Chunk { rows: [first, end], partial, product });
        }
        let stream = comm.device().stream()?;
        Ok(RowParallel { comm, sizes, output, overlap, products, stream, chunks })
    }

    /// Returns how the layer overlaps communication with its GEMMs.
    pub fn overlap(&self) -> CommOverlap {
        self.overlap
    }

    /// Queues the layer: GEMMs on `stream`, communication on the layer's own stream. If `stream`
    /// records a graph, everything is recorded on it, one after the other.
    ///
    /// # Errors
    /// [`GemmError::BufferLength`], [`GemmError::Runtime`].
    pub fn forward(
        &mut self,
        stream: &Stream,
        x: &Buffer<T>,
        w: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), GemmError> {
        let ParallelSizes { rows, n, k } = self.sizes;
        let all_rows = check_sizes(self.sizes, self.comm.ranks())?;
        check_len("X", x, all_rows, k)?;
        check_len("W", w, n.into(), k)?;
        let own_rows = match self.output {
            RowOutput::Scattered => rows.into(),
            RowOutput::Everywhere => all_rows,
        };
        check_len("Y", y, own_rows, n)?;
        let comm_stream = if stream.is_recording() { stream } else { &self.stream };
        for chunk in &mut self.chunks {
            let [first, last] = chunk.rows.map(u64::from);
            let a = x.part(first_of(first, k)..x.len())?;
            let mut to = y.part_mut(elements(first..last, n))?;
            if self.comm.ranks() == 1 {
                self.products.launch(&chunk.product, stream, &a, w, &mut to)?;
                continue;
            }
            self.products.launch(&chunk.product, stream, &a, w, &mut chunk.partial)?;
            match self.output {
                RowOutput::Scattered => {
                    let sum = ReduceOp::Sum;
                    self.comm.reduce_scatter(comm_stream, sum, &chunk.partial, &mut to)?;
                }
                RowOutput::Everywhere => {
                    self.comm.all_reduce(comm_stream, ReduceOp::Sum, &chunk.partial, &mut to)?;
                }
            }
        }
        Ok(())
    }
}

impl<T: Number> fmt::Debug for RowParallel<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowParallel({:?}, {:?}, {:?})", self.sizes, self.overlap, self.comm)
    }
}
