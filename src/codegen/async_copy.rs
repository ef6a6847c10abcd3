//! Writes asynchronous copies: `cp.async`, bulk copies and TMA tensor copies, with their multicast
//! masks and cache policies.

use smallvec::SmallVec;

use super::entry::Entry;
use super::instruction::Part;
use super::regs::{Class, Operand, Reg, memory_type};
use crate::ir::Value;
use crate::ir::op::{AsyncCopy, BoxMode, BulkReduce, BulkWait, L2Policy, PendingCount};

impl Entry<'_> {
    pub(super) fn async_copy(&mut self, op: &AsyncCopy, result: Option<Value>) {
        match op {
            &AsyncCopy::CpAsync { to, to_index, from, from_index, src_bytes, cache, bytes } => {
                let (to, from) = (self.address_of(to, to_index), self.address_of(from, from_index));
                let size = Operand::Int(bytes.into());
                let read = self.operand_where(src_bytes, |read| read <= u64::from(bytes));
                let whole = matches!(read, Operand::Const(read) if read.bits() == u64::from(bytes));
                let parts = [Part::At(to), Part::At(from), Part::One(size), Part::One(read)];
                let said = if whole { &parts[..3] } else { &parts[..] };
                self.instruction(&["cp.async.", cache.name(), ".shared.global"], said);
            }
            AsyncCopy::CpAsyncCommitGroup {} => self.ins(&["cp.async.commit_group"], &[]),
            AsyncCopy::CpAsyncWaitGroup { pending } => {
                self.ins(&["cp.async.wait_group"], &[Operand::Int((*pending).into())]);
            }
            AsyncCopy::CpAsyncWaitAll {} => self.ins(&["cp.async.wait_all"], &[]),
            &AsyncCopy::CpAsyncMbarrierArrive { barrier, index, count } => {
                let address = self.address_of(barrier, index);
                let noinc = match count {
                    PendingCount::Inc => "",
                    PendingCount::Noinc => ".noinc",
                };
                let name = ["cp.async.mbarrier.arrive", noinc, ".shared.b64"];
                self.instruction(&name, &[Part::At(address)]);
            }
            &AsyncCopy::CpAsyncBulkLoad {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
                policy,
            } => {
                let (to, from) = (self.address_of(to, to_index), self.address_of(from, from_index));
                let barrier = self.address_of(barrier, barrier_index);
                let bytes = self.bulk_bytes(bytes);
                let parts = [Part::At(to), Part::At(from), Part::One(bytes), Part::At(barrier)];
                let name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
                self.with_policy(name, "", &parts, policy);
            }
            &AsyncCopy::CpAsyncBulkMulticast {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
                ctas,
                policy,
            } => {
                let (to, from) = (self.address_of(to, to_index), self.address_of(from, from_index));
                let barrier = self.address_of(barrier, barrier_index);
                let (bytes, ctas) = (self.bulk_bytes(bytes), self.cta_mask(ctas));
                let parts =
                    [Part::At(to), Part::At(from), Part::One(bytes), Part::At(barrier), ctas];
                let name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
                self.with_policy(name, ".multicast::cluster", &parts, policy);
            }
            &AsyncCopy::CpAsyncBulkCluster {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
            } => {
                let (to, from) = (self.address_of(to, to_index), self.address_of(from, from_index));
                let barrier = self.address_of(barrier, barrier_index);
                let bytes = self.bulk_bytes(bytes);
                let parts = [Part::At(to), Part::At(from), Part::One(bytes), Part::At(barrier)];
                let name =
                    ["cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"];
                self.instruction(&name, &parts);
            }
            &AsyncCopy::CpAsyncBulkStore { to, to_index, from, from_index, bytes, policy } => {
                let (to, from) = (self.address_of(to, to_index), self.address_of(from, from_index));
                let bytes = self.bulk_bytes(bytes);
                let parts = [Part::At(to), Part::At(from), Part::One(bytes)];
                self.with_policy("cp.async.bulk.global.shared::cta.bulk_group", "", &parts, policy);
            }
            &AsyncCopy::CpAsyncBulkPrefetch { from, from_index, bytes, policy } => {
                let (from, bytes) = (self.address_of(from, from_index), self.bulk_bytes(bytes));
                let parts = [Part::At(from), Part::One(bytes)];
                self.with_policy("cp.async.bulk.prefetch.L2.global", "", &parts, policy);
            }
            AsyncCopy::CpAsyncBulkTensorLoad {
                map,
                to,
                to_index,
                barrier,
                barrier_index,
                coords,
                policy,
                mode,
            } => self.tensor_load(
                [*map, *to, *to_index, *barrier, *barrier_index],
                None,
                coords,
                *mode,
                *policy,
            ),
            AsyncCopy::CpAsyncBulkTensorMulticast {
                map,
                to,
                to_index,
                barrier,
                barrier_index,
                ctas,
                coords,
                policy,
                mode,
            } => self.tensor_load(
                [*map, *to, *to_index, *barrier, *barrier_index],
                Some(*ctas),
                coords,
                *mode,
                *policy,
            ),
            AsyncCopy::CpAsyncBulkTensorStore { map, from, from_index, coords, policy, mode } => {
                let rest = format!("d.global.shared::cta.{}.bulk_group", store_mode(*mode));
                let name = ["cp.async.bulk.tensor.", &rest];
                self.tensor_store(name, [*map, *from, *from_index], coords, *policy);
            }
            AsyncCopy::CpReduceAsyncBulkTensor {
                map,
                from,
                from_index,
                op,
                coords,
                policy,
                mode,
            } => {
                let rest = format!("d.global.shared::cta.{op}.{}.bulk_group", store_mode(*mode));
                let name = ["cp.reduce.async.bulk.tensor.", &rest];
                self.tensor_store(name, [*map, *from, *from_index], coords, *policy);
            }
            AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy, mode } => {
                let (map, (coords, offsets)) =
                    (self.operand(*map), self.pixel_coords(coords, *mode));
                let name = format!(
                    "cp.async.bulk.prefetch.tensor.{}d.L2.global.{}",
                    coords.len(),
                    load_mode(*mode)
                );
                let parts = [Part::Box(map, &coords), Part::List(&offsets)];
                let len = if offsets.is_empty() { 1 } else { 2 };
                self.with_policy(&name, "", &parts[..len], *policy);
            }
            &AsyncCopy::StAsync { base, index, value, barrier, barrier_index } => {
                let (_, elem) = self.pointee(base);
                let name = [
                    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.",
                    memory_type(elem),
                ];
                self.async_store(&name, [base, index, value, barrier, barrier_index]);
            }
            &AsyncCopy::RedAsync { base, index, value, barrier, barrier_index, op } => {
                let (_, elem) = self.pointee(base);
                let ty = match op {
                    BulkReduce::And | BulkReduce::Or | BulkReduce::Xor => "b32",
                    BulkReduce::Add
                    | BulkReduce::Min
                    | BulkReduce::Max
                    | BulkReduce::Inc
                    | BulkReduce::Dec => memory_type(elem),
                };
                let name = [
                    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.",
                    op.name(),
                    ".",
                    ty,
                ];
                self.async_store(&name, [base, index, value, barrier, barrier_index]);
            }
            AsyncCopy::CpAsyncBulkCommitGroup {} => self.ins(&["cp.async.bulk.commit_group"], &[]),
            AsyncCopy::CpAsyncBulkWaitGroup { pending, wait } => {
                let read = match wait {
                    BulkWait::Done => "",
                    BulkWait::Read => ".read",
                };
                let pending = Operand::Int((*pending).into());
                self.ins(&["cp.async.bulk.wait_group", read], &[pending]);
            }
            AsyncCopy::PrefetchTensormap { map } => {
                let map = self.operand(*map);
                let map = self.in_reg(map, Class::B64);
                self.begin();
                self.text.push("prefetch.tensormap [");
                self.text.reg(map);
                self.text.push("];\n");
            }
            AsyncCopy::TensormapReplace { map, to, to_index, base, base_index, sizes } => {
                let at = [*to, *to_index, *base, *base_index];
                self.tensormap_replace(*map, at, sizes);
            }
            &AsyncCopy::TensormapAcquire { map: _, from, from_index } => {
                if let Some(result) = result {
                    self.tensormap_acquire(result, [from, from_index]);
                }
            }
        }
    }

    fn async_store(
        &mut self,
        name: &[&str],
        [base, index, value, barrier, barrier_index]: [Value; 5],
    ) {
        let (to, barrier) = (self.address_of(base, index), self.address_of(barrier, barrier_index));
        let value = self.operand(value);
        self.instruction(name, &[Part::At(to), Part::One(value), Part::At(barrier)]);
    }

    fn coords(&self, coords: &[Value]) -> SmallVec<[Operand; 5]> {
        coords.iter().map(|coord| self.operand(*coord)).collect()
    }

    fn tensor_load(
        &mut self,
        [map, to, to_index, barrier, barrier_index]: [Value; 5],
        ctas: Option<Value>,
        coords: &[Value],
        mode: BoxMode,
        policy: L2Policy,
    ) {
        let (to, barrier) =
            (self.address_of(to, to_index), self.address_of(barrier, barrier_index));
        let (map, (coords, offsets)) = (self.operand(map), self.pixel_coords(coords, mode));
        let mut parts: SmallVec<[Part<'_>; 10]> =
            SmallVec::from_slice(&[Part::At(to), Part::Box(map, &coords), Part::At(barrier)]);
        if !offsets.is_empty() {
            parts.push(Part::List(&offsets));
        }
        if let Some(ctas) = ctas {
            parts.push(self.cta_mask(ctas));
        }
        let multicast = if ctas.is_some() { ".multicast::cluster" } else { "" };
        let name = format!(
            "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes",
            coords.len(),
            load_mode(mode)
        );
        self.with_policy(&name, multicast, &parts, policy);
    }

    /// Returns a tensor copy's coordinates, and its im2col offsets as 16-bit operands.
    fn pixel_coords(
        &mut self,
        coords: &[Value],
        mode: BoxMode,
    ) -> (SmallVec<[Operand; 5]>, SmallVec<[Operand; 5]>) {
        // A tensor of `n` dimensions has `n - 2` offsets.
        let rank = match mode {
            BoxMode::Tile => coords.len(),
            BoxMode::Im2col => coords.len() / 2 + 1,
        };
        let (coords, offsets) = coords.split_at(rank.min(coords.len()));
        let offsets = offsets.iter().map(|offset| self.low_half(*offset).into()).collect();
        (self.coords(coords), offsets)
    }

    /// Returns the 16-bit mask of destination blocks.
    fn cta_mask(&mut self, ctas: Value) -> Part<'static> {
        Part::One(self.low_half(ctas).into())
    }

    /// Returns the low 16 bits of a word.
    fn low_half(&mut self, value: Value) -> Reg {
        let value = self.operand(value);
        let value = self.in_reg(value, Class::B32);
        let half = self.temp(Class::B16);
        self.ins(&["cvt.u16.u32"], &[half.into(), value.into()]);
        half
    }

    fn tensor_store(
        &mut self,
        [name, rest]: [&str; 2],
        [map, from, from_index]: [Value; 3],
        coords: &[Value],
        policy: L2Policy,
    ) {
        let from = self.address_of(from, from_index);
        let (map, coords) = (self.operand(map), self.coords(coords));
        let name = format!("{name}{}{rest}", coords.len());
        self.with_policy(&name, "", &[Part::Box(map, &coords), Part::At(from)], policy);
    }

    /// Writes a bulk copy, with the cache policy as its last operand if it has one.
    fn with_policy(&mut self, name: &str, rest: &str, parts: &[Part<'_>], policy: L2Policy) {
        let Some(policy) = self.policy(policy) else {
            return self.instruction(&[name, rest], parts);
        };
        let mut parts: SmallVec<[Part<'_>; 10]> = SmallVec::from_slice(parts);
        parts.push(Part::One(policy.into()));
        self.instruction(&[name, rest, ".L2::cache_hint"], &parts);
    }

    /// Returns a register with an L2 policy that applies to everything accessed with it.
    pub(super) fn policy(&mut self, policy: L2Policy) -> Option<Reg> {
        if policy == L2Policy::Default {
            return None;
        }
        let to = self.temp(Class::B64);
        self.ins(&["createpolicy.fractional.", policy.name(), ".b64"], &[to.into()]);
        Some(to)
    }
}

/// Returns the name of a load's mode.
fn load_mode(mode: BoxMode) -> &'static str {
    match mode {
        BoxMode::Tile => "tile",
        BoxMode::Im2col => "im2col",
    }
}

/// Returns the name of a store's mode.
fn store_mode(mode: BoxMode) -> &'static str {
    match mode {
        BoxMode::Tile => "tile",
        BoxMode::Im2col => "im2col_no_offs",
    }
}
