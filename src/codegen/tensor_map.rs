//! Writes the operations that make tensor maps in global memory. A kernel needs them if it changes
//! a map's address or extents while it runs, for example for a grouped GEMM.

use super::entry::Entry;
use super::instruction::Part;
use super::mem::Address;
use super::regs::{Class, Operand};
use crate::ir::Value;
use crate::ir::types::Type;

impl Entry<'_> {
    /// Copies the map to global memory, replaces its fields there, and releases them.
    pub(super) fn tensormap_replace(
        &mut self,
        map: Value,
        [to, to_index, base, base_index]: [Value; 4],
        sizes: &[Value],
    ) {
        let start = self.address_register(to, to_index);
        let to = Address::of(start, 0);
        let base = self.address_register(base, base_index);
        let map = self.operand(map);
        let map = self.in_reg(map, Class::B64);
        for offset in (0..Type::TENSOR_MAP_BYTES as i64).step_by(16) {
            let pair = [self.temp(Class::B64).into(), self.temp(Class::B64).into()];
            let from = Part::At(Address::of(map, offset));
            self.instruction(&["ld.v2.b64"], &[Part::List(&pair), from]);
            let to = Part::At(Address::of(start, offset));
            self.instruction(&["st.global.v2.b64"], &[to, Part::List(&pair)]);
        }
        let name = ["tensormap.replace.tile.global_address.global.b1024.b64"];
        self.instruction(&name, &[Part::At(to), Part::One(base.into())]);
        let (dims, strides) = sizes.split_at(sizes.len().div_ceil(2));
        for (dim, size) in (0..).zip(dims) {
            let size = self.operand(*size);
            let size = self.in_reg(size, Class::B64);
            let low = self.temp(Class::B32);
            self.ins(&["cvt.u32.u64"], &[low.into(), size.into()]);
            let parts = [Part::At(to), Part::One(Operand::Int(dim)), Part::One(low.into())];
            self.instruction(&["tensormap.replace.tile.global_dim.global.b1024.b32"], &parts);
        }
        for (dim, stride) in (0..).zip(strides) {
            let stride = self.operand(*stride);
            let stride = self.in_reg(stride, Class::B64);
            let parts = [Part::At(to), Part::One(Operand::Int(dim)), Part::One(stride.into())];
            self.instruction(&["tensormap.replace.tile.global_stride.global.b1024.b64"], &parts);
        }
        self.ins(&["fence.proxy.tensormap::generic.release.gpu"], &[]);
    }

    /// Acquires a map in global memory. The result is its generic address.
    pub(super) fn tensormap_acquire(&mut self, result: Value, [from, from_index]: [Value; 2]) {
        let from = self.address_register(from, from_index);
        let to = self.def(result);
        self.ins(&["cvta.global.u64"], &[to.into(), from.into()]);
        let parts = [Part::At(Address::of(to, 0)), Part::One(Operand::Int(128))];
        self.instruction(&["fence.proxy.tensormap::generic.acquire.gpu"], &parts);
    }
}
