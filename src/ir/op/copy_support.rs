//! Support checks for mbarriers and asynchronous copies: which attributes and types PTX allows. The
//! op table's rows name these functions, and the verifier runs them.

use super::support::{ANY, Support};
use super::support_types::{SHARED, Types, only};
use super::{BoxMode, BulkReduce, CpAsyncCache, ValueList};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};

const GLOBAL: &str = "the pointer is to global memory";
/// The maximum size of a bulk copy, in bytes.
const BULK_BYTES: i128 = 0xffff0;

/// Checks an operation on an mbarrier.
pub(super) fn barrier(ir: &KernelIr, barrier: &Value) -> Support {
    is_barrier(Types(ir), *barrier)?;
    ANY
}

/// Checks an mbarrier operation with an arrival count.
pub(super) fn counts(ir: &KernelIr, barrier: &Value, count: &Value) -> Support {
    is_barrier(Types(ir), *barrier)?;
    only(
        Types(ir).may(*count, |n| (1..1 << 20).contains(&n)),
        "a barrier counts from 1 to 2^20 - 1 arrivals",
    )?;
    ANY
}

pub(super) fn arrivals(ir: &KernelIr, barrier: &Value, count: &Value) -> Support {
    counts(ir, barrier, count)?;
    // Before `sm_90`, an arrival with a count above 1 may not complete a phase.
    Ok(if ir.integer(*count) == Some(1) { Target::SM_80 } else { Target::SM_90 })
}

/// Checks an mbarrier operation with a phase parity.
pub(super) fn parity(ir: &KernelIr, barrier: &Value, parity: &Value) -> Support {
    is_barrier(Types(ir), *barrier)?;
    only(Types(ir).may(*parity, |n| matches!(n, 0 | 1)), "a parity is 0 or 1")?;
    ANY
}

fn is_barrier(types: Types<'_>, barrier: Value) -> Result<(), &'static str> {
    let expected =
        types.in_space(barrier, Space::Shared) && types.pointee(barrier) == Some(Scalar::U64);
    only(expected, "a barrier is a u64 in shared memory")
}

fn in_cluster(types: Types<'_>, to: Value, barrier: Value) -> Result<(), &'static str> {
    let space = Space::SharedCluster;
    only(types.in_space(to, space), "the pointer is to shared memory of the cluster: use `mapa`")?;
    let is_barrier = types.in_space(barrier, space) && types.pointee(barrier) == Some(Scalar::U64);
    only(is_barrier, "the barrier is a u64 in shared memory of the cluster: use `mapa`")
}

fn to_shared(types: Types<'_>, to: Value, from: Value) -> Result<(), &'static str> {
    only(types.in_space(to, Space::Shared), "it copies to shared memory")?;
    only(types.in_space(from, Space::Global), "it copies from global memory")
}

fn sixteen(types: Types<'_>, bytes: Value) -> Result<(), &'static str> {
    only(
        types.may(bytes, |n| (1..=BULK_BYTES).contains(&n) && n % 16 == 0),
        "the bytes are a multiple of 16 from 16 to 1048560",
    )
}

/// Checks a tensor copy's coordinates, and its pointer to shared memory if it has one.
fn boxes(
    types: Types<'_>,
    map: Value,
    pointer: Option<Value>,
    coords: &ValueList,
    mode: BoxMode,
    stores: bool,
) -> Result<(), &'static str> {
    let Some(Type::TensorMap { elem, rank, mutable }) = types.of(map) else {
        return Err("it takes a tensor map");
    };
    let rank = usize::from(rank);
    match mode {
        BoxMode::Tile => {
            only(coords.len() == rank, "a box has a coordinate for each dimension of the tensor")?;
        }
        BoxMode::Im2col => {
            only((3..=5).contains(&rank), "a tensor of im2col mode has 3 to 5 dimensions")?;
            let offsets = if stores { 0 } else { rank - 2 };
            only(
                coords.len() == rank + offsets,
                "a copy of im2col mode has a coordinate for each dimension, and unless it stores an offset for each \
                 but channels and images",
            )?;
        }
    }
    only(mutable || !stores, "the kernel only reads the tensor: declare it as `TensorMapMut`")?;
    let Some(pointer) = pointer else { return Ok(()) };
    only(types.in_space(pointer, Space::Shared), SHARED)?;
    only(types.pointee(pointer) == Some(elem), "the pointer is to elements of the tensor: cast it")
}

pub(super) fn cp_async(
    ir: &KernelIr,
    to: &Value,
    from: &Value,
    cache: &CpAsyncCache,
    bytes: &u32,
    src_bytes: &Value,
) -> Support {
    to_shared(Types(ir), *to, *from)?;
    only(matches!(bytes, 4 | 8 | 16), "it copies 4, 8 or 16 bytes")?;
    only(*cache == CpAsyncCache::Ca || *bytes == 16, "`cg` is for 16 bytes")?;
    let bytes = i128::from(*bytes);
    only(
        Types(ir).may(*src_bytes, |n| (0..=bytes).contains(&n)),
        "it reads no more bytes than it writes",
    )?;
    ANY
}

pub(super) fn st_async(ir: &KernelIr, base: &Value, barrier: &Value) -> Support {
    in_cluster(Types(ir), *base, *barrier)?;
    let elem = Types(ir).pointee(*base).unwrap_or(Scalar::Bool);
    only(
        elem.bits() >= 32 && elem != Scalar::Tf32,
        "it stores integers and floating point of 32 and 64 bits",
    )?;
    ANY
}

pub(super) fn red_async(ir: &KernelIr, base: &Value, barrier: &Value, op: &BulkReduce) -> Support {
    in_cluster(Types(ir), *base, *barrier)?;
    let elem = Types(ir).pointee(*base).unwrap_or(Scalar::Bool);
    let word = matches!(elem, Scalar::I32 | Scalar::U32);
    let legal = match op {
        BulkReduce::Add => word || elem == Scalar::U64,
        BulkReduce::Min | BulkReduce::Max => word,
        BulkReduce::Inc | BulkReduce::Dec => elem == Scalar::U32,
        BulkReduce::And | BulkReduce::Or | BulkReduce::Xor => word,
    };
    only(
        legal,
        "it has `add`, `min`, `max`, `and`, `or` and `xor` of i32 and u32, `add` of u64, and `inc` and `dec` of u32",
    )?;
    ANY
}

pub(super) fn bulk_load(
    ir: &KernelIr,
    to: &Value,
    from: &Value,
    bytes: &Value,
    barrier: &Value,
) -> Support {
    to_shared(Types(ir), *to, *from)?;
    sixteen(Types(ir), *bytes)?;
    is_barrier(Types(ir), *barrier)?;
    ANY
}

pub(super) fn bulk_cluster(
    ir: &KernelIr,
    to: &Value,
    from: &Value,
    bytes: &Value,
    barrier: &Value,
) -> Support {
    in_cluster(Types(ir), *to, *barrier)?;
    only(Types(ir).in_space(*from, Space::Shared), "it copies from shared memory")?;
    sixteen(Types(ir), *bytes)?;
    ANY
}

pub(super) fn bulk_store(ir: &KernelIr, to: &Value, from: &Value, bytes: &Value) -> Support {
    only(Types(ir).in_space(*to, Space::Global), "it copies to global memory")?;
    only(Types(ir).in_space(*from, Space::Shared), "it copies from shared memory")?;
    sixteen(Types(ir), *bytes)?;
    ANY
}

pub(super) fn bulk_prefetch(ir: &KernelIr, from: &Value, bytes: &Value) -> Support {
    only(Types(ir).in_space(*from, Space::Global), GLOBAL)?;
    sixteen(Types(ir), *bytes)?;
    ANY
}

pub(super) fn tensor_load(
    ir: &KernelIr,
    map: &Value,
    to: &Value,
    barrier: &Value,
    coords: &ValueList,
    mode: &BoxMode,
) -> Support {
    boxes(Types(ir), *map, Some(*to), coords, *mode, false)?;
    is_barrier(Types(ir), *barrier)?;
    ANY
}

pub(super) fn tensor_store(
    ir: &KernelIr,
    map: &Value,
    from: &Value,
    coords: &ValueList,
    mode: &BoxMode,
) -> Support {
    boxes(Types(ir), *map, Some(*from), coords, *mode, true)?;
    ANY
}

pub(super) fn tensor_prefetch(
    ir: &KernelIr,
    map: &Value,
    coords: &ValueList,
    mode: &BoxMode,
) -> Support {
    boxes(Types(ir), *map, None, coords, *mode, false)?;
    ANY
}

pub(super) fn tensor_reduce(
    ir: &KernelIr,
    map: &Value,
    from: &Value,
    coords: &ValueList,
    op: &BulkReduce,
    mode: &BoxMode,
) -> Support {
    boxes(Types(ir), *map, Some(*from), coords, *mode, true)?;
    let elem = Types(ir).pointee(*from).unwrap_or(Scalar::Bool);
    let narrow = matches!(elem, Scalar::F16 | Scalar::Bf16);
    let word = matches!(elem, Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64);
    let legal = match op {
        BulkReduce::Add => narrow || elem == Scalar::F32 || (word && elem != Scalar::I64),
        BulkReduce::Min | BulkReduce::Max => narrow || word,
        BulkReduce::Inc | BulkReduce::Dec => elem == Scalar::U32,
        BulkReduce::And | BulkReduce::Or | BulkReduce::Xor => word,
    };
    only(
        legal,
        "it has `add` of f16, bf16, f32, i32, u32 and u64, `min` and `max` of f16, bf16 and \
         integers of 32 and 64 bits, `and`, `or` and `xor` of these integers, and `inc` and `dec` \
         of u32",
    )?;
    ANY
}

pub(super) fn tensormap_replace(
    ir: &KernelIr,
    map: &Value,
    to: &Value,
    base: &Value,
    sizes: &ValueList,
) -> Support {
    tensormap_acquire(ir, to)?;
    let Some(Type::TensorMap { elem, rank, .. }) = Types(ir).of(*map) else {
        return Err("it takes a tensor map");
    };
    only(Types(ir).in_space(*base, Space::Global), GLOBAL)?;
    only(Types(ir).pointee(*base) == Some(elem), "the tensor has the elements of the map")?;
    only(
        sizes.len() == 2 * usize::from(rank) - 1,
        "a tensor has an extent for each dimension, and a stride for each but the first one",
    )?;
    ANY
}

pub(super) fn tensormap_acquire(ir: &KernelIr, at: &Value) -> Support {
    only(Types(ir).in_space(*at, Space::Global), GLOBAL)?;
    ANY
}
