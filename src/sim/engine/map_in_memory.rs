//! Tensor maps in global memory, which a kernel writes and changes itself, for example one for each
//! problem of a grouped GEMM. `tensormap.replace` writes such a map, and a fence acquires it.
//!
//! The 128 bytes hold 16 words: a hash of the map's fixed part, the tensor's first byte in its
//! buffer, 5 extents and 4 strides. The fixed part itself (element type, box, swizzle and fill) is
//! not in memory: it comes from the kernel parameter from which the map was made.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::bulk_copy::each_lane;
use crate::arch::{TensorMapDesc, TensorMapError};
use crate::ir::op::AsyncCopy;
use crate::ir::types::Scalar;
use crate::ir::{OpId, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::{Address, Alloc};
use crate::sim::memory::cluster_memory::Acquired;
use crate::sim::memory::mask::LANE_BIT;
use crate::sim::memory::races::{Accessed, Stored};
use crate::sim::memory::shared::ByteAddress;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::ExecContext;
use crate::sim::program::refused::Refused;
use crate::sim::program::slots::Slots;

const BYTES: u32 = 128;
const WORDS: usize = BYTES as usize / 8;
/// The first word with an extent, and the first with a stride.
const DIMS: usize = 2;
const STRIDES: usize = DIMS + 5;

/// Returns a hash of everything that a map in memory shares with the map that it is made from.
fn fixed(map: &TensorMapDesc) -> u64 {
    let mut hasher = DefaultHasher::new();
    let box_dims = map.box_dims();
    (map.elem(), map.rank(), box_dims, map.swizzle(), map.fill()).hash(&mut hasher);
    // 128 zero bytes must not be a valid map.
    hasher.finish() | 1
}

fn checked(map: TensorMapDesc, dims: &[u64], strides: &[u64]) -> Result<TensorMapDesc, RawCause> {
    map.with_tensor(dims, strides).map_err(|error| match error {
        TensorMapError::Stride { dim, .. } => {
            let size = strides.get(dim - 1).copied().unwrap_or(0);
            RawCause::MapSize { dim: dim as u32, size, is_stride: true }
        }
        TensorMapError::Extent { dim, .. } => {
            let size = dims.get(dim).copied().unwrap_or(0);
            RawCause::MapSize { dim: dim as u32, size, is_stride: false }
        }
        _ => RawCause::NoMap,
    })
}

/// The operands of a map in memory: the parameter that it is made from, and its address.
#[derive(Clone, Copy)]
struct InMemory {
    param: Alloc,
    at: Address,
}

impl InMemory {
    /// Returns the parameter's map, its index, and the address in memory.
    fn lane(
        &self,
        context: &mut ExecContext<'_, '_>,
        lane: usize,
        writes: bool,
    ) -> RawResult<(TensorMapDesc, u32, ByteAddress)> {
        let at = self.at.byte_address(context.regs, context.memory, lane, BYTES, BYTES)?;
        let accessed = Accessed {
            address: Address { elem: Scalar::U64, lanes: WORDS as u32, ..self.at },
            writes,
            strong: None,
            stored: Stored::None,
        };
        let origin = context.origin;
        context.memory.race_access(context.regs, &accessed, origin, LANE_BIT[lane]);
        let number = self.param.lane(context.regs, lane);
        let map = context.memory.map(number).cloned();
        let map = map.ok_or_else(|| RawFault::new(lane, RawCause::NoMap))?;
        Ok((map, context.memory.param_of_map(number), at))
    }
}

fn replace(
    context: &mut ExecContext<'_, '_>,
    lane: usize,
    operands: InMemory,
    base: &Address,
    sizes: &[u32],
) -> RawResult {
    let (map, param, at) = operands.lane(context, lane, true)?;
    let fault = |cause| RawFault::new(lane, cause);
    let start = base.byte_address(context.regs, context.memory, lane, 0, 16)?;
    let size = |slot: &u32| context.regs.d[*slot as usize][lane];
    let (dims, strides) = sizes.split_at(map.rank());
    let dims: Vec<u64> = dims.iter().map(size).collect();
    let strides: Vec<u64> = strides.iter().map(size).collect();
    let word = fixed(&map);
    let map = checked(map, &dims, &strides).map_err(fault)?;
    let (buffer, own) = (context.memory.global(start.alloc), context.memory.global(param));
    if !std::ptr::eq(buffer, own) {
        return Err(fault(RawCause::MapBuffer));
    }
    let (end, buffer_bytes) = (start.at as u64 + map.tensor_bytes(), buffer.len_bytes() as u64);
    if end > buffer_bytes {
        return Err(fault(RawCause::MapBounds { end, buffer_bytes }));
    }
    let mut words = [0; WORDS];
    (words[0], words[1]) = (word, start.at as u64);
    words[DIMS..][..dims.len()].copy_from_slice(&dims);
    words[STRIDES..][..strides.len()].copy_from_slice(&strides);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    context.memory.global(at.alloc).write_bytes(at.at, &bytes);
    Ok(())
}

/// Returns the index of a map in memory.
fn acquire(context: &mut ExecContext<'_, '_>, lane: usize, operands: InMemory) -> RawResult<u32> {
    let (map, param, at) = operands.lane(context, lane, false)?;
    let fault = |cause| RawFault::new(lane, cause);
    let mut bytes = [0; BYTES as usize];
    context.memory.global(at.alloc).read_bytes(at.at, &mut bytes);
    let words: [u64; WORDS] = std::array::from_fn(|i| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * i..8 * i + 8]);
        u64::from_le_bytes(word)
    });
    if words[0] != fixed(&map) {
        return Err(fault(RawCause::NoMap));
    }
    let rank = map.rank();
    let (dims, strides) = (&words[DIMS..][..rank], &words[STRIDES..][..rank - 1]);
    let map = checked(map, dims, strides).map_err(fault)?;
    let buffer_bytes = context.memory.global(param).len_bytes() as u64;
    let end = words[1].saturating_add(map.tensor_bytes());
    if end > buffer_bytes {
        return Err(fault(RawCause::MapBounds { end, buffer_bytes }));
    }
    Ok(context.memory.number_of_map(Acquired { param, start: words[1] as usize, map }))
}

impl Compiler<'_> {
    /// Compiles writing a tensor map to memory, or reading one.
    pub(super) fn map_in_memory(
        &mut self,
        id: OpId,
        op: &AsyncCopy,
        results: &[Value],
    ) -> Result<(), Refused> {
        let inst = match op {
            AsyncCopy::TensormapReplace { map, to, to_index, base, base_index, sizes } => {
                let operands =
                    InMemory { param: self.tensor_map(*map)?, at: self.in_global(*to, *to_index)? };
                let base = self.in_global(*base, *base_index)?;
                let sizes = sizes.iter().map(|size| self.scalar_of(*size, Scalar::U64));
                let sizes = sizes.collect::<Result<Vec<u32>, Refused>>()?;
                each_lane(move |context, lane| replace(context, lane, operands, &base, &sizes))
            }
            AsyncCopy::TensormapAcquire { map, from, from_index } => {
                let operands = InMemory {
                    param: self.tensor_map(*map)?,
                    at: self.in_global(*from, *from_index)?,
                };
                let Slots::Pointer(to) = self.result(results, 0)? else {
                    return Err(Refused::Malformed);
                };
                let Alloc::Slot(to) = to.alloc else { return Err(Refused::Malformed) };
                each_lane(move |context, lane| {
                    let number = acquire(context, lane, operands)?;
                    context.regs.w[to as usize][lane] = number;
                    Ok(())
                })
            }
            AsyncCopy::CpAsync { .. }
            | AsyncCopy::CpAsyncCommitGroup {}
            | AsyncCopy::CpAsyncWaitGroup { .. }
            | AsyncCopy::CpAsyncWaitAll {}
            | AsyncCopy::CpAsyncMbarrierArrive { .. }
            | AsyncCopy::CpAsyncBulkLoad { .. }
            | AsyncCopy::CpAsyncBulkMulticast { .. }
            | AsyncCopy::CpAsyncBulkCluster { .. }
            | AsyncCopy::CpAsyncBulkStore { .. }
            | AsyncCopy::CpAsyncBulkPrefetch { .. }
            | AsyncCopy::CpAsyncBulkTensorLoad { .. }
            | AsyncCopy::CpAsyncBulkTensorMulticast { .. }
            | AsyncCopy::CpAsyncBulkTensorStore { .. }
            | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            | AsyncCopy::CpAsyncBulkPrefetchTensor { .. }
            | AsyncCopy::StAsync { .. }
            | AsyncCopy::RedAsync { .. }
            | AsyncCopy::CpAsyncBulkCommitGroup {}
            | AsyncCopy::CpAsyncBulkWaitGroup { .. }
            | AsyncCopy::PrefetchTensormap { .. } => return Err(Refused::Malformed),
        };
        self.emit(id, inst);
        Ok(())
    }
}
