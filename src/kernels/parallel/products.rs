//! The GEMMs of a layer: loads their kernels, launches them, and computes offsets of matrix parts.

use std::collections::HashMap;
use std::ops::Range;

use crate::ir::Number;
use crate::ir::types::Scalar;
use crate::kernels::Loaded;
use crate::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmError, GemmProblem, Machine};
use crate::runtime::comm::Communicator;
use crate::runtime::{Buffer, Device, Stream};

use super::plan::{CommOverlap, Exchange, ParallelSizes, Situation};

/// A GEMM of a layer, ready to launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    config: GemmConfig,
    pub(super) problem: GemmProblem,
    /// How many SMs it may use.
    sms: u32,
}

/// The GEMM kernels of a layer.
pub(super) struct Products<T: Number> {
    wanted: GemmConfig,
    device: Device,
    machine: Machine,
    loaded: HashMap<(GemmConfig, u32), Loaded<Gemm<T>>>,
}

impl<T: Number> Products<T> {
    pub(super) fn new(device: &Device) -> Products<T> {
        let wanted =
            GemmConfig { target: device.target(), ..GemmConfig::sm90(T::scalar(), [128, 128]) };
        // Tensor cores do not multiply `f32` in full precision.
        let wanted = match T::scalar() {
            Scalar::F32 => GemmConfig::simt(device.target(), T::scalar()),
            _ => wanted,
        };
        let (device, machine) = (device.clone(), Machine::of(device));
        Products { wanted, device, machine, loaded: HashMap::new() }
    }

    /// Returns the caller's overlap, or else the model's choice.
    pub(super) fn overlap(
        &self,
        exchange: Exchange,
        sizes: ParallelSizes,
        comm: &Communicator,
        chosen: Option<CommOverlap>,
    ) -> Result<CommOverlap, GemmError> {
        let (ranks, max_blocks, machine) = (comm.ranks(), comm.max_blocks(), self.machine);
        let situation = Situation { exchange, sizes, ranks, machine, max_blocks };
        chosen.map_or_else(|| situation.plan(&self.wanted), Ok)
    }

    /// Loads the kernel for a problem, leaving `free` SMs to other work.
    pub(super) fn add(&mut self, problem: GemmProblem, free: u32) -> Result<Product, GemmError> {
        let sms = self.machine.sms.saturating_sub(free).max(1);
        let config = self.wanted.best(&problem, &Machine { sms, ..self.machine })?;
        if !self.loaded.contains_key(&(config, sms)) {
            let function = Gemm::<T>::new(config)?.load(&self.device)?;
            let function = if free > 0 { function.with_sms(sms) } else { function };
            self.loaded.insert((config, sms), function);
        }
        Ok(Product { config, problem, sms })
    }

    /// Launches a GEMM that `add` returned.
    pub(super) fn launch(
        &self,
        product: &Product,
        stream: &Stream,
        a: &Buffer<T>,
        b: &Buffer<T>,
        d: &mut Buffer<T>,
    ) -> Result<(), GemmError> {
        let Some(function) = self.loaded.get(&(product.config, product.sms)) else {
            return Ok(());
        };
        function.on(stream).launch(&product.problem, GemmArgs::new(a, b, d))
    }
}

/// Returns the index of a row's first element, in a matrix with `columns` columns.
pub(super) fn first_of(row: u64, columns: u32) -> usize {
    (row * u64::from(columns)) as usize
}

/// Returns the index range of some rows, in a matrix with `columns` columns.
pub(super) fn elements(rows: Range<u64>, columns: u32) -> Range<usize> {
    first_of(rows.start, columns)..first_of(rows.end, columns)
}

/// Returns whether a part that starts at this row is aligned to 16 bytes, in a matrix with
/// `columns` columns.
pub(super) fn can_start<T: Number>(row: u64, columns: u32) -> bool {
    (row * u64::from(columns) * u64::from(T::scalar().size_bytes())).is_multiple_of(16)
}

/// Checks that a buffer has exactly as many elements as the matrix.
pub(super) fn check_len<T: Number>(
    operand: &'static str,
    buffer: &Buffer<T>,
    rows: u64,
    columns: u32,
) -> Result<(), GemmError> {
    let (found, needed) = (buffer.len() as u64, rows * u64::from(columns));
    match found == needed {
        true => Ok(()),
        false => Err(GemmError::BufferLength { operand, found, needed }),
    }
}

/// Checks that all GEMMs have valid sizes, and returns the rows of all ranks.
#[inline]
pub(super) fn check_sizes(sizes: ParallelSizes, ranks: u32) -> Result<u64, GemmError> {
    let rows = u64::from(sizes.rows) * u64::from(ranks);
    let all = u32::try_from(rows).unwrap_or(u32::MAX);
    for (name, size) in [("m", all), ("n", sizes.n), ("k", sizes.k)] {
        if size == 0 || size > GemmProblem::MAX_SIZE {
            return Err(GemmError::Size { name, size });
        }
    }
    Ok(rows)
}
