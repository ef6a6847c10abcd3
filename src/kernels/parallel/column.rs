//! [`ColumnParallel`]: gathers rows of activations, then multiplies them with a rank's columns of
//! the weight. Use it for the first layer of a pair, such as the up projection.

use std::fmt;

use crate::ir::Number;
use crate::kernels::gemm::{GemmError, GemmProblem, MatrixStrides};
use crate::runtime::comm::Communicator;
use crate::runtime::{Buffer, Stream};

use super::plan::{CommOverlap, Exchange, ParallelSizes};
use super::products::{Product, Products, can_start, check_len, check_sizes, elements, first_of};

/// `Y = X W`, with the columns of `W` divided among the ranks. Each rank gathers the rows of `X`
/// from all ranks.
///
/// On each rank, X is `rows x k`, W (stored as `W^T`) is `n x k`, and Y is `ranks * rows x n`. With
/// overlap, the rank's own rows are multiplied while the first rows of the other ranks arrive.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::kernels::parallel::{ColumnParallel, ParallelSizes};
/// use tilewright::runtime::Device;
/// use tilewright::runtime::comm::Communicator;
///
/// // With one rank, nothing is gathered.
/// let comm = Communicator::all(&[Device::sim()?])?.swap_remove(0);
/// let device = comm.device();
/// let sizes = ParallelSizes { rows: 2, n: 3, k: 4 };
/// let mut layer = ColumnParallel::<f32>::new(&comm, sizes, None)?;
/// let x = device.upload(&[1.0f32; 8])?;
/// let w = device.upload(&[0.5f32; 12])?;
/// let mut y = device.zeros::<f32>(6)?;
/// layer.forward(&device.stream()?, &x, &w, &mut y)?;
/// assert_eq!(y.to_vec()?, [2.0; 6]);
/// # }
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
pub struct ColumnParallel<'c, T: Number> {
    comm: &'c Communicator,
    sizes: ParallelSizes,
    overlap: CommOverlap,
    products: Products<T>,
    stream: Stream,
    /// The GEMM of the rank's own rows, if it does not have to wait for other ranks.
    own: Option<Product>,
    chunks: Vec<Chunk<T>>,
}

/// Rows that are gathered together from all ranks.
struct Chunk<T> {
    /// The first of each rank's rows, and the end.
    rows: [u32; 2],
    /// These rows, from all ranks.
    gathered: Buffer<T>,
    /// GEMMs over the rows of neighbouring ranks, each with its first rank.
    products: Vec<(u32, Product)>,
}

impl<'c, T: Number> ColumnParallel<'c, T> {
    /// Loads the layer's kernels. If `overlap` is `None`, a cost model chooses it; all ranks must
    /// use the same.
    ///
    /// # Errors
    /// [`GemmError::Size`], and those of [`Device::load`](crate::runtime::Device::load).
    pub fn new(
        comm: &'c Communicator,
        sizes: ParallelSizes,
        overlap: Option<CommOverlap>,
    ) -> Result<Self, GemmError> {
        let (ranks, rank) = (comm.ranks(), comm.rank());
        check_sizes(sizes, ranks)?;
        let ParallelSizes { rows, n, k } = sizes;
        let mut products = Products::new(comm.device());
        let overlap = products.overlap(Exchange::Gather, sizes, comm, overlap)?;
        let row_of = |rank: u32| u64::from(rank) * u64::from(rows);
        let own_first = overlap != CommOverlap::None && can_start::<T>(row_of(rank), n);
        let own = match own_first || ranks == 1 {
            true => Some(products.add(GemmProblem::new(rows, n, k), overlap.comm_sms())?),
            false => None,
        };
        let starts = if ranks == 1 { vec![0] } else { overlap.starts(rows) };
        let mut chunks = Vec::new();
        for (i, ends) in starts.windows(2).enumerate() {
            let [first, end] = [ends[0], ends[1]];
            let len = end - first;
            // Nothing is communicated during the last GEMM.
            let free = if i + 2 == starts.len() { 0 } else { overlap.comm_sms() };
            let others = [0..rank, rank + 1..ranks].map(|of| (of.start, of.len() as u32));
            let fits = |&(of, _): &(u32, u32)| {
                can_start::<T>(u64::from(of) * u64::from(len), k)
                    && can_start::<T>(row_of(of) + u64::from(first), n)
            };
            let others = others.into_iter().filter(|(_, count)| *count > 0);
            let runs: Vec<(u32, u32)> = match own.is_some() && others.clone().all(|of| fits(&of)) {
                true => others.collect(),
                false => vec![(0, ranks)],
            };
            let mut of_chunk = Vec::new();
            for (of, batch) in runs {
                let next = Some(row_of(1) * u64::from(n));
                let d = MatrixStrides { leading: None, batch: next };
                // If the rows are not divided into chunks, those of all ranks form one matrix.
                let problem = match len == rows {
                    true => GemmProblem::new(len * batch, n, k),
                    false => {
                        let b = MatrixStrides { leading: None, batch: Some(0) };
                        GemmProblem { batch, b, d, ..GemmProblem::new(len, n, k) }
                    }
                };
                of_chunk.push((of, products.add(problem, free)?));
            }
            let elements = u64::from(len) * u64::from(k) * u64::from(ranks);
            let gathered = comm.device().zeros(elements as usize)?;
            chunks.push(Chunk { rows: [first, end], gathered, products: of_chunk });
        }
        let stream = comm.device().stream()?;
        Ok(ColumnParallel { comm, sizes, overlap, products, stream, own, chunks })
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
        check_len("X", x, rows.into(), k)?;
        check_len("W", w, n.into(), k)?;
        check_len("Y", y, all_rows, n)?;
        let end = y.len();
        let row_of = |rank: u32| u64::from(rank) * u64::from(rows);
        let comm_stream = if stream.is_recording() { stream } else { &self.stream };
        let mut own = self.own.as_ref();
        // Work on a stream waits for everything that is on the other stream at that moment. So we
        // queue each collective right before the GEMMs that need it.
        for chunk in &mut self.chunks {
            let [first, last] = chunk.rows.map(u64::from);
            let part = x.part(elements(first..last, k))?;
            self.comm.all_gather(comm_stream, &part, &mut chunk.gathered)?;
            if let Some(own) = own.take() {
                let of = row_of(self.comm.rank());
                let mut d = y.part_mut(elements(of..of + u64::from(rows), n))?;
                self.products.launch(own, stream, x, w, &mut d)?;
            }
            for (of, product) in &chunk.products {
                let from = first_of(u64::from(*of) * (last - first), k);
                let a = chunk.gathered.part(from..chunk.gathered.len())?;
                let to = first_of(row_of(*of) + first, n);
                self.products.launch(product, stream, &a, w, &mut *y.part_mut(to..end)?)?;
            }
        }
        match own {
            Some(own) => self.products.launch(own, stream, x, w, y),
            None => Ok(()),
        }
    }
}

impl<T: Number> fmt::Debug for ColumnParallel<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnParallel({:?}, {:?}, {:?})", self.sizes, self.overlap, self.comm)
    }
}
