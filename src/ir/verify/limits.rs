//! Verifier rules for the parts of a kernel outside its body: names, parameters, launch bounds,
//! allocations and variables stay within the limits of PTX and the hardware.

use std::collections::HashSet;

use super::{Report, VerifyError};
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::kernel::{GlobalData, KernelIr, SharedData, ValueDef};
use crate::ir::op::{AsyncCopy, Axis, Op};
use crate::ir::target::Target;
use crate::ir::types::{Space, Type};

/// The maximum number of registers per variable. The hardware has 255 per thread; this much larger
/// limit only rejects mistakes, and bounds the memory that a single line of text can make us
/// allocate.
const VAR_REGISTERS: u32 = 1 << 16;

/// The maximum size of a kernel's parameters, in bytes (PTX ISA 6.1.3, from version 8.1 on).
const PARAM_BYTES: u64 = 32_764;

/// The maximum length of a name, in characters.
const NAME_LENGTH: usize = 255;

/// The maximum alignment of a shared allocation, in bytes. A tile that a swizzled tensor map fills
/// needs this much.
const SHARED_ALIGN_BYTES: u32 = 1024;

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let invalid = |name| VerifyError::InvalidName { name };
    check_name(report, &ir.name, invalid);
    params(report);
    bounds(report);
    tensor_maps(report);
    for (var, data) in ir.vars.iter() {
        let (len, limit) = (data.len, VAR_REGISTERS);
        if len == 0 {
            report.location(data.location, VerifyError::VarEmpty { var });
        }
        if len > limit {
            report.location(data.location, VerifyError::VarSize { var, len, limit });
        }
    }
    locals(report);
    arrays(report);
    globals(report);
    shared(report);
}

fn locals(report: &mut Report<'_>) {
    let ir = report.ir;
    for (local, data) in ir.locals.iter() {
        if data.len == 0 {
            report.location(data.location, VerifyError::LocalEmpty { local });
        }
    }
    let (_, bytes) = ir.local_layout();
    if let Some((_, last)) = ir.locals.iter().last()
        && bytes > KernelIr::LOCAL_BYTES
    {
        report.location(
            last.location,
            VerifyError::LocalSize { bytes, limit: KernelIr::LOCAL_BYTES },
        );
    }
}

fn arrays(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut bytes = 0u64;
    for (array, data) in ir.arrays.iter() {
        if data.bits.is_empty() {
            report.location(data.location, VerifyError::ArrayEmpty { array });
        }
        bytes = bytes.next_multiple_of(u64::from(data.elem.size_bytes())) + data.bytes();
    }
    if let Some((_, last)) = ir.arrays.iter().last()
        && bytes > KernelIr::CONST_BYTES
    {
        report.location(
            last.location,
            VerifyError::ArrayBytes { bytes, limit: KernelIr::CONST_BYTES },
        );
    }
}

fn globals(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut bytes = 0u64;
    for (global, data) in ir.globals.iter() {
        let (len, values) = (data.len, data.bits.len());
        if len == 0 {
            report.location(data.location, VerifyError::GlobalEmpty { global });
        } else if values > len as usize {
            report.location(data.location, VerifyError::GlobalValues { global, len, values });
        }
        bytes = bytes.next_multiple_of(GlobalData::ALIGN_BYTES.into()) + data.bytes();
    }
    if let Some((_, last)) = ir.globals.iter().last()
        && bytes > KernelIr::GLOBAL_BYTES
    {
        let limit = KernelIr::GLOBAL_BYTES;
        report.location(last.location, VerifyError::GlobalBytes { bytes, limit });
    }
}

fn check_name(report: &mut Report<'_>, name: &str, invalid: fn(String) -> VerifyError) {
    let owned = name.to_owned();
    // We accept only PTX identifiers (PTX ISA 4.4) that start with a letter and contain no `$`,
    // because every tool takes those. `WARP_SZ` is the only one with a predefined meaning;
    // instruction names are not reserved.
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier {
        report.kernel(invalid(owned));
    } else if name == "WARP_SZ" {
        report.kernel(VerifyError::ReservedName { name: owned });
    } else if name.len() > NAME_LENGTH {
        report.kernel(VerifyError::NameTooLong { name: owned, limit: NAME_LENGTH });
    }
}

fn params(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut names = HashSet::new();
    for param in &ir.params {
        let name = &param.name;
        check_name(report, name, |name| VerifyError::InvalidParamName { name });
        if !names.insert(name) {
            report.kernel(VerifyError::DuplicateParamName { name: name.clone() });
        }
        let ty = ir.type_of(param.value);
        if let Type::Pointer {
            space:
                space @ (Space::Shared
                | Space::SharedCluster
                | Space::Local
                | Space::Const
                | Space::Generic),
            ..
        } = ty
        {
            report.kernel(VerifyError::ParamSpace { name: name.clone(), space });
        }
        if let Type::Vector(ty) = ty {
            report.kernel(VerifyError::VectorParam { name: name.clone(), ty });
        }
    }
    let bytes = ir.param_bytes();
    if bytes > PARAM_BYTES {
        report.kernel(VerifyError::ParamBytes { bytes, limit: PARAM_BYTES });
    }
}

fn shared(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut aligned = true;
    for (shared, data) in ir.shared.iter() {
        let SharedData { elem, len, align_bytes, location } = *data;
        if len == 0 {
            report.location(location, VerifyError::SharedEmpty { shared });
        }
        let limit = SHARED_ALIGN_BYTES;
        let error = if !align_bytes.is_power_of_two() {
            VerifyError::SharedAlignment { shared, align_bytes }
        } else if align_bytes < elem.size_bytes() {
            VerifyError::SharedAlignmentTooSmall { shared, align_bytes, elem }
        } else if align_bytes > limit {
            VerifyError::SharedAlignmentTooLarge { shared, align_bytes, limit }
        } else {
            continue;
        };
        report.location(location, error);
        aligned = false;
    }
    if !aligned {
        return;
    }
    let (_, bytes) = ir.shared_layout();
    if let Some((_, last)) = ir.shared.iter().last()
        && bytes > ir.target.max_shared_bytes()
    {
        let limit = ir.target.max_shared_bytes();
        report.location(last.location, VerifyError::SharedSize { bytes, limit });
    }
}

/// Checks that every tensor map is a parameter or derives from one, so that its parameter is always
/// known, and that the target has tensor maps.
fn tensor_maps(report: &mut Report<'_>) {
    let ir = report.ir;
    for (_, data) in ir.values.iter() {
        let Type::TensorMap { rank, .. } = data.ty else { continue };
        let is_made = match data.def {
            ValueDef::Result(op, _) => {
                matches!(ir.ops[op].op, Op::AsyncCopy(AsyncCopy::TensormapAcquire { .. }))
            }
            ValueDef::Param(_) | ValueDef::Arg(..) => false,
        };
        if !is_made && !matches!(data.def, ValueDef::Param(_)) {
            report.location(data.location, VerifyError::TensorMapNotParam { found: data.ty });
        } else if !(1..=5).contains(&rank) {
            report.location(data.location, VerifyError::TensorMapRank { rank });
        } else if !ir.target.offers(Target::SM_90) {
            let (op, first, target) = ("tensor_map".to_owned(), Target::SM_90, ir.target);
            report.location(data.location, VerifyError::NotOnTarget { op, first, target });
        }
    }
    for (_, data) in ir.vars.iter() {
        if matches!(data.ty, Type::TensorMap { .. }) {
            report.location(data.location, VerifyError::TensorMapNotParam { found: data.ty });
        }
    }
}

fn bounds(report: &mut Report<'_>) {
    let target = report.ir.target;
    let LaunchBounds { block, max_threads, min_blocks_per_sm, max_registers, cluster } =
        report.ir.bounds;
    let product = |extent: &[u32; 3]| {
        extent.iter().fold(1u64, |product, n| product.saturating_mul((*n).into()))
    };
    if let Some(block) = block {
        let limits = [1024, 1024, 64];
        let above = |axis: &Axis| block[axis.index()] > limits[axis.index()];
        if block.contains(&0) {
            report.kernel(VerifyError::BlockEmpty { block });
        } else if let Some(axis) = Axis::ALL.into_iter().find(above) {
            let (threads, limit) = (block[axis.index()], limits[axis.index()]);
            report.kernel(VerifyError::BlockAxis { axis, threads, limit });
        } else if product(&block) > u64::from(LaunchBounds::MAX_THREADS) {
            report.kernel(VerifyError::BlockSize { block });
        }
    }
    let (min, max) = LaunchBounds::REGISTERS;
    let numbers = [
        ("max_threads", max_threads, 1, LaunchBounds::MAX_THREADS),
        ("min_blocks_per_sm", min_blocks_per_sm, 1, LaunchBounds::MAX_BLOCKS_PER_SM),
        ("max_registers", max_registers, min, max),
    ];
    for (bound, number, min, max) in numbers {
        if let Some(number) = number.filter(|number| !(min..=max).contains(number)) {
            report.kernel(VerifyError::LaunchBound { bound, number, min, max });
        }
    }
    if let (Some(max_threads), Some(block)) = (max_threads, block) {
        report.kernel(VerifyError::MaxThreadsOfFixedBlock { max_threads, block });
    }
    if let (Some(min_blocks_per_sm), None, None) = (min_blocks_per_sm, block, max_threads) {
        report.kernel(VerifyError::MinBlocksOfAnyBlock { min_blocks_per_sm });
    }
    let threads = block.map(|block| product(&block)).or(max_threads.map(u64::from));
    if let (Some(min_blocks_per_sm), Some(threads)) = (min_blocks_per_sm, threads) {
        let limit = target.threads_per_sm();
        if u64::from(min_blocks_per_sm).saturating_mul(threads.next_multiple_of(32)) > limit.into()
        {
            report.kernel(VerifyError::ThreadsPerSm { min_blocks_per_sm, threads, limit });
        }
    }
    if cluster.is_some() && !target.offers(Target::SM_90) {
        let (op, first) = ("cluster".to_owned(), Target::SM_90);
        report.kernel(VerifyError::NotOnTarget { op, first, target });
    }
    if let Some(ClusterShape::Fixed(cluster)) = cluster {
        let limit = LaunchBounds::MAX_CLUSTER;
        if !(1..=u64::from(limit)).contains(&product(&cluster)) {
            report.kernel(VerifyError::ClusterSize { cluster, limit });
        }
    }
}
