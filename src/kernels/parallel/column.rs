//! [`ColumnParallel`]: rows are gathered, then multiplied with a rank's columns of the weight.

use std::fmt;

use crate::ir::Number;
use crate::kernels::gemm::{GemmError, GemmProblem, MatrixStrides};
use crate::runtime::comm::Communicator;
use crate::runtime::{Buffer, Stream};

use super::plan::{CommOverlap, Exchange, ParallelSizes};
use super::products::{Product, Products, can_start, check_len, check_sizes, elements, first_of};

/// `Y = X W` with the columns of `W` cut among the ranks: each gathers the rows of `X` of all ranks.
///
/// On each rank X has `rows x k` elements, W (stored as `W^T`) `n x k`, and Y `ranks * rows x n`. With overlap, the product
/// of the rank's own rows runs while the first rows of the others arrive.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::kernels::parallel::{ColumnParallel, ParallelSizes};
/// use tilewright::runtime::Device;
/// use tilewright::runtime::comm::Communicator;
///
/// // One rank is enough: nothing is gathered.
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
    /// The product of the rank's own rows, where they do not wait for others.
    own: Option<Product>,
    chunks: Vec<Chunk<T>>,
}

/// Rows of all ranks that are gathered together.
struct Chunk<T> {
    /// The first of the rows of each rank, and the first behind them.
    rows: [u32; 2],
    /// These rows of all ranks.
    gathered: Buffer<T>,
    /// Products of the rows of neighbouring ranks, with the first of these.
    products: Vec<(u32, Product)>,
}

impl<'c, T: Number> ColumnParallel<'c, T> {
    /// Loads the kernels of the layer. `overlap` is chosen by a model if it is `None`; all ranks need the same.
    ///
    /// # Errors
    /// [`GemmError::Size`]; those of [`Device::load`](crate::runtime::Device::load).
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
            // The last product has no communication beside it.
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
                // The rows of all ranks are one matrix where they are not cut.
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

    /// Returns how communication and products overlap.
    pub fn overlap(&self) -> CommOverlap {
        self.overlap
    }

    /// Queues the layer: the products on `stream`, and the communication on a stream of the layer. On a stream that records
    /// a graph all is recorded, one after the other.
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
        // Work on a stream waits for all that the other stream has at that moment. So each collective is queued right
        // before the products that need it.
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
