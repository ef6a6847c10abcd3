//! [`CommOverlap`]: how a layer is divided into chunks, so that the communication of one runs
//! during the GEMM of the next, and the cost model that chooses the division. `Situation::plan`
//! makes the choice.

use crate::ir::types::Scalar;
use crate::kernels::gemm::{GemmConfig, GemmError, GemmProblem, Machine};

/// The GEMM sizes of a parallel layer on one rank. Pass them to
/// [`ColumnParallel`](super::ColumnParallel) and [`RowParallel`](super::RowParallel) when you make
/// a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParallelSizes {
    /// Rows of activations per rank, when rows are divided. The GEMM has `ranks` times as many.
    pub rows: u32,
    /// Columns of this rank's part of the weight.
    pub n: u32,
    /// Rows of this rank's part of the weight.
    pub k: u32,
}

/// How a layer overlaps communication with its GEMMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommOverlap {
    /// No overlap: one collective, one GEMM. Best for small layers, where a chunk costs more than
    /// it hides.
    None,
    /// Chunk by chunk.
    Chunks {
        /// How many chunks a rank's rows are divided into.
        chunks: u32,
        /// How many SMs the GEMMs leave to the communication. Pass what you passed to
        /// [`CommOptions::max_blocks`](crate::runtime::comm::CommOptions::max_blocks).
        comm_sms: u32,
    },
}

impl CommOverlap {
    /// Returns how many SMs the GEMMs leave free while communication runs.
    pub(super) fn comm_sms(self) -> u32 {
        match self {
            CommOverlap::None => 0,
            CommOverlap::Chunks { comm_sms, .. } => comm_sms,
        }
    }

    /// Returns the first row of each chunk of `rows` rows, then `rows`. Chunks start at multiples
    /// of 8 rows, so that matrix parts start at multiples of 16 bytes; large chunks start at
    /// multiples of 128 rows.
    #[inline]
    pub(super) fn starts(self, rows: u32) -> Vec<u32> {
        let chunks = match self {
            CommOverlap::None => 1,
            CommOverlap::Chunks { chunks, .. } => chunks.max(1),
        };
        let each = rows.div_ceil(chunks);
        let step = each.next_multiple_of(if each > 128 { 128 } else { 8 }).max(1);
        (0..rows).step_by(step as usize).chain([rows]).collect()
    }
}

/// What a layer communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    /// Gathers the rows of X before the GEMM.
    Gather,
    /// Sums the rows of the result after the GEMM, and scatters them.
    Scatter,
    /// Sums the rows of the result after the GEMM, on all ranks.
    Sum,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) exchange: Exchange,
    pub(super) sizes: ParallelSizes,
    pub(super) ranks: u32,
    pub(super) machine: Machine,
    /// The most thread blocks that the communicator may use.
    pub(super) max_blocks: Option<u32>,
}

/// Seconds that an empty collective takes.
const LATENCY_S: f64 = 15e-6;
/// Bytes per second that a rank sends over NVLink, and that one of NCCL's thread blocks sends.
const BYTES_PER_S: f64 = 230e9;
const BLOCK_BYTES_PER_S: f64 = 20e9;
/// Thread blocks that NCCL uses by default.
const USUAL_BLOCKS: u32 = 24;
/// Seconds of host time per collective or GEMM.
const HOST_S: f64 = 8e-6;
/// Chunk counts to try.
const CHUNKS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Chunks are chosen only if their predicted time is below this share of the time without.
const WORTH: f64 = 0.94;

/// Chunks are tried only if the layer takes at least this many times as long as its communication.
/// Between two H200s, chunks of shorter GEMMs took longer than doing one after the other.
const LEAST_SHARE: f64 = 7.0;

impl Situation {
    /// Returns the overlap that is predicted to be fastest.
    #[inline]
    pub(super) fn plan(&self, wanted: &GemmConfig) -> Result<CommOverlap, GemmError> {
        let comm_sms = self.max_blocks.unwrap_or(USUAL_BLOCKS).min(self.machine.sms / 2);
        let alone = self.seconds(wanted, CommOverlap::None)?;
        let mut best = (CommOverlap::None, alone * WORTH);
        // If a collective takes little more than its latency, more calls do not pay.
        let comm = self.comm_seconds(wanted.a, self.sizes.rows);
        if self.ranks == 1 || comm < 2.0 * LATENCY_S || alone < LEAST_SHARE * comm {
            return Ok(best.0);
        }
        for chunks in CHUNKS.into_iter().filter(|chunks| *chunks <= self.sizes.rows.div_ceil(64)) {
            let overlap = CommOverlap::Chunks { chunks, comm_sms };
            let seconds = self.seconds(wanted, overlap)?;
            if seconds < best.1 {
                best = (overlap, seconds);
            }
        }
        Ok(best.0)
    }

    /// Returns the layer's predicted time, in seconds.
    #[inline]
    pub(super) fn seconds(
        &self,
        wanted: &GemmConfig,
        overlap: CommOverlap,
    ) -> Result<f64, GemmError> {
        let ParallelSizes { rows, n, k } = self.sizes;
        let ranks = self.ranks;
        let product = |rows: u32, batch: u32, sms: u32| -> Result<f64, GemmError> {
            if rows == 0 || batch == 0 {
                return Ok(0.0);
            }
            let problem = GemmProblem { batch, ..GemmProblem::new(rows, n, k) };
            Ok(wanted.explain(&problem, &Machine { sms, ..self.machine })?.prediction.seconds)
        };
        let free = self.machine.sms.saturating_sub(overlap.comm_sms()).max(1);
        let (mut comm, mut compute) = (0.0f64, 0.0f64);
        let starts = overlap.starts(rows);
        let mut calls = 2 * (starts.len() - 1);
        if self.exchange == Exchange::Gather && overlap != CommOverlap::None {
            compute = product(rows, 1, free)?;
            calls += 1;
        }
        for (i, chunk) in starts.windows(2).enumerate() {
            let rows = chunk[1] - chunk[0];
            let send = self.comm_seconds(wanted.a, rows);
            match (self.exchange, overlap) {
                (_, CommOverlap::None) => {
                    compute = product(rows, ranks, self.machine.sms)? + send;
                }
                (Exchange::Gather, _) => {
                    comm += send;
                    let is_last = i + 2 == starts.len();
                    let sms = if is_last { self.machine.sms } else { free };
                    compute = compute.max(comm) + product(rows, ranks - 1, sms)?;
                }
                (Exchange::Scatter | Exchange::Sum, _) => {
                    compute += product(rows, ranks, if i == 0 { self.machine.sms } else { free })?;
                    comm = comm.max(compute) + send;
                }
            }
        }
        Ok(compute.max(comm).max(calls as f64 * HOST_S))
    }

    /// Returns the predicted seconds to communicate `rows` rows of each rank.
    #[inline]
    fn comm_seconds(&self, scalar: Scalar, rows: u32) -> f64 {
        let ParallelSizes { n, k, .. } = self.sizes;
        let (columns, times) = match self.exchange {
            Exchange::Gather => (k, 1.0),
            Exchange::Scatter => (n, 1.0),
            // A sum on all ranks is a scatter and a gather.
            Exchange::Sum => (n, 2.0),
        };
        let bytes = f64::from(rows) * f64::from(columns) * f64::from(scalar.size_bytes());
        let blocks = f64::from(self.max_blocks.unwrap_or(USUAL_BLOCKS));
        let rate = BYTES_PER_S.min(blocks * BLOCK_BYTES_PER_S);
        LATENCY_S + times * bytes * f64::from(self.ranks - 1) / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_rows() {
        let chunks = |chunks| CommOverlap::Chunks { chunks, comm_sms: 16 };
        assert_eq!(CommOverlap::None.starts(37), [0, 37]);
        assert_eq!(chunks(2).starts(37), [0, 24, 37]);
        assert_eq!(chunks(4).starts(4096), [0, 1024, 2048, 3072, 4096]);
        assert_eq!(chunks(3).starts(4096), [0, 1408, 2816, 4096]);
        assert_eq!(chunks(8).starts(5), [0, 5]);
        assert_eq!(chunks(4).starts(0), [0]);
    }

    /// Long GEMMs hide their communication. Short ones have nothing to hide it behind.
    #[test]
    fn communication_is_hidden_where_that_is_faster() {
        let of = |exchange, rows, n, k| Situation {
            exchange,
            sizes: ParallelSizes { rows, n, k },
            ranks: 2,
            machine: Machine::H200,
            max_blocks: Some(16),
        };
        let wanted = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
        let large = of(Exchange::Gather, 4096, 14336, 8192);
        let overlap = large.plan(&wanted).unwrap();
        assert!(matches!(overlap, CommOverlap::Chunks { comm_sms: 16, .. }), "{overlap:?}");
        let alone = large.seconds(&wanted, CommOverlap::None).unwrap();
        assert!(large.seconds(&wanted, overlap).unwrap() < 0.94 * alone);
        assert_eq!(Situation { ranks: 1, ..large }.plan(&wanted), Ok(CommOverlap::None));
        for exchange in [Exchange::Gather, Exchange::Scatter, Exchange::Sum] {
            for (rows, n, k) in [(8, 4096, 4096), (4096, 4096, 4096)] {
                assert_eq!(of(exchange, rows, n, k).plan(&wanted), Ok(CommOverlap::None));
            }
        }
    }
}
