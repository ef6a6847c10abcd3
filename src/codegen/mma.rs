//! Writes MMAs (`mma`, `wgmma` and their sparse forms), and the loads, stores and moves of their
//! matrices.

use smallvec::SmallVec;

use super::entry::Entry;
use super::instruction::Part;
use super::regs::{Class, Operand};
use crate::ir::op::{
    Accumulators, MatrixCount, MatrixOrder, Mma, MmaOverflow, MmaShape, WgmmaForm,
};
use crate::ir::types::{Scalar, Type, VectorType};
use crate::ir::{Value, VarId};

type Registers = SmallVec<[Operand; 5]>;

/// What the forms of `wgmma` have in common.
struct Wgmma {
    shape: MmaShape,
    types: [Scalar; 2],
    form: WgmmaForm,
    /// The variable with the accumulators, and the index of the first one in it.
    d: VarId,
    first: u32,
}

impl Entry<'_> {
    pub(super) fn mma(&mut self, op: &Mma, result: Option<Value>) {
        match (op, result) {
            (&Mma::MmaSyncF64 { ref values, shape, d, first }, _) => {
                let values: Registers = values
                    .iter()
                    .map(|value| {
                        let value = self.operand(*value);
                        self.in_reg(value, Class::F64).into()
                    })
                    .collect();
                let (a, b) = values.split_at((shape.m * shape.k / 32) as usize);
                let (accumulators, _) = self.accumulators(d, first, shape, 32);
                let shape = shape.to_string();
                let name = ["mma.sync.aligned.", &shape, ".row.col.f64.f64.f64.f64"];
                let parts = [
                    Part::List(&accumulators),
                    Part::List(a),
                    Part::List(b),
                    Part::List(&accumulators),
                ];
                self.instruction(&name, &parts);
            }
            (&Mma::MmaSync { a, b, shape, d, first, overflow }, _) => {
                self.mma_sync([a, b], shape, d, first, overflow, None);
            }
            (&Mma::MmaSyncSp { a, b, metadata, shape, selector, d, first, overflow }, _) => {
                let metadata = self.metadata(metadata, selector);
                self.mma_sync([a, b], shape, d, first, overflow, Some(metadata));
            }
            (&Mma::Movmatrix { value }, Some(result)) => {
                let from = self.fragment(value);
                let to: Registers = self.def_parts(result).into_iter().map(Operand::from).collect();
                if let (Some(to), Some(from)) = (to.first(), from.first()) {
                    let name = ["movmatrix.sync.aligned.m8n8.trans.b16"];
                    self.instruction(&name, &[Part::One(*to), Part::One(*from)]);
                }
            }
            (&Mma::Ldmatrix { base, index, count, order }, Some(result)) => {
                let address = self.address_of(base, index);
                let to: Registers = self.def_parts(result).into_iter().map(Operand::from).collect();
                let name =
                    ["ldmatrix.sync.aligned.m8n8.", count.name(), trans(order), ".shared.b16"];
                self.instruction(&name, &[Part::List(&to), Part::At(address)]);
            }
            (&Mma::Stmatrix { base, index, vector, order }, _) => {
                let address = self.address_of(base, index);
                let from = self.fragment(vector);
                let count = MatrixCount::of(from.len() as u32).map_or("", MatrixCount::name);
                let name = ["stmatrix.sync.aligned.m8n8.", count, trans(order), ".shared.b16"];
                self.instruction(&name, &[Part::At(address), Part::List(&from)]);
            }
            (&Mma::MatrixDescriptor { base, bits }, Some(result)) => {
                let base = self.operand(base);
                let base = self.in_reg(base, Class::B32);
                let (field, wide) = (self.temp(Class::B32), self.temp(Class::B64));
                let operands = [field.into(), base.into(), Operand::Int(4), Operand::Int(14)];
                self.ins(&["bfe.u32"], &operands);
                self.ins(&["cvt.u64.u32"], &[wide.into(), field.into()]);
                let to = self.def(result);
                self.ins(&["or.b64"], &[to.into(), wide.into(), Operand::Int(bits as i64)]);
            }
            (&Mma::Wgmma { a, b, accumulate, shape, a_type, b_type, d, first, form }, _) => {
                let a = self.operand(a);
                let a = self.in_reg(a, Class::B64).into();
                let types = [a_type, b_type];
                let wgmma = Wgmma { shape, types, form, d, first };
                self.wgmma(wgmma, Part::One(a), b, accumulate, None);
            }
            (
                &Mma::WgmmaSp {
                    a,
                    b,
                    metadata,
                    accumulate,
                    shape,
                    a_type,
                    b_type,
                    selector,
                    d,
                    first,
                    form,
                },
                _,
            ) => {
                let a = self.operand(a);
                let a = Part::One(self.in_reg(a, Class::B64).into());
                let metadata = Some(self.metadata(metadata, selector));
                let wgmma = Wgmma { shape, types: [a_type, b_type], form, d, first };
                self.wgmma(wgmma, a, b, accumulate, metadata);
            }
            (&Mma::WgmmaRs { a, b, accumulate, shape, b_type, d, first, form }, _) => {
                let types = [self.element_of(a), b_type];
                let a = self.fragment(a);
                let wgmma = Wgmma { shape, types, form, d, first };
                self.wgmma(wgmma, Part::List(&a), b, accumulate, None);
            }
            (
                &Mma::WgmmaRsSp {
                    a,
                    b,
                    metadata,
                    accumulate,
                    shape,
                    b_type,
                    selector,
                    d,
                    first,
                    form,
                },
                _,
            ) => {
                let types = [self.element_of(a), b_type];
                let (a, metadata) = (self.fragment(a), self.metadata(metadata, selector));
                let wgmma = Wgmma { shape, types, form, d, first };
                self.wgmma(wgmma, Part::List(&a), b, accumulate, Some(metadata));
            }
            (Mma::WgmmaFence {}, _) => self.ins(&["wgmma.fence.sync.aligned"], &[]),
            (Mma::WgmmaCommitGroup {}, _) => self.ins(&["wgmma.commit_group.sync.aligned"], &[]),
            (Mma::WgmmaWaitGroup { pending }, _) => {
                let pending = Operand::Int((*pending).into());
                self.ins(&["wgmma.wait_group.sync.aligned"], &[pending]);
            }
            (Mma::Setmaxnreg { action, count }, _) => {
                let count = Operand::Int((*count).into());
                self.ins(&["setmaxnreg.", action.name(), ".sync.aligned.u32"], &[count]);
            }
            // The verifier has checked that these have a result.
            (Mma::Ldmatrix { .. } | Mma::Movmatrix { .. } | Mma::MatrixDescriptor { .. }, None) => {
            }
        }
    }

    /// Returns the element type of a thread's part of a matrix.
    fn element_of(&self, value: Value) -> Scalar {
        match self.ir.type_of(value) {
            Type::Vector(vector) => vector.elem(),
            Type::Scalar(scalar) => scalar,
            Type::Pointer { elem, .. } | Type::TensorMap { elem, .. } => elem,
        }
    }

    /// Returns a sparse matrix's metadata and selector.
    fn metadata(&mut self, metadata: Value, selector: u32) -> [Part<'static>; 2] {
        let metadata = self.operand(metadata);
        let metadata = self.in_reg(metadata, Class::B32);
        [Part::One(metadata.into()), Part::One(Operand::Int(selector.into()))]
    }

    /// Returns the registers of a thread's part of a matrix.
    fn fragment(&mut self, value: Value) -> Registers {
        let class = Class::of(self.ir.type_of(value));
        let parts = self.parts(value);
        parts.into_iter().map(|part| self.in_reg(part, class).into()).collect()
    }

    /// Returns the registers `first ..` of a variable that hold the accumulators of an MMA.
    fn accumulators(
        &self,
        var: VarId,
        first: u32,
        shape: MmaShape,
        threads: u32,
    ) -> (Vec<Operand>, &'static str) {
        let ty = self.ir.vars[var].ty;
        let len = Accumulators::new(shape, threads, ty).map_or(0, |accumulators| accumulators.len);
        let registers = (first..first + len).flat_map(|index| self.var(var, index));
        let name = match ty {
            Type::Scalar(Scalar::F64) => "f64",
            Type::Scalar(Scalar::I32) => "s32",
            Type::Vector(VectorType::F16X2) => "f16",
            Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
                "f32"
            }
        };
        (registers.map(Operand::from).collect(), name)
    }

    fn mma_sync(
        &mut self,
        [a, b]: [Value; 2],
        shape: MmaShape,
        d: VarId,
        first: u32,
        overflow: MmaOverflow,
        metadata: Option<[Part<'_>; 2]>,
    ) {
        let types = [a, b].map(|value| match self.ir.type_of(value) {
            Type::Vector(vector) => mma_type(vector.elem()),
            Type::Scalar(scalar) => mma_type(scalar),
            Type::Pointer { .. } | Type::TensorMap { .. } => "",
        });
        let (a, b) = (self.fragment(a), self.fragment(b));
        let (accumulators, sum) = self.accumulators(d, first, shape, 32);
        let (shape, [a_type, b_type]) = (shape.to_string(), types);
        let form = match overflow {
            MmaOverflow::Wrap => ".row.col.",
            MmaOverflow::Satfinite => ".row.col.satfinite.",
        };
        let mma = match metadata {
            None => "mma.sync.aligned.",
            Some(_) => "mma.sp::ordered_metadata.sync.aligned.",
        };
        let name = [mma, &shape, form, sum, ".", a_type, ".", b_type, ".", sum];
        let sums = Part::List(&accumulators);
        let mut parts: SmallVec<[Part<'_>; 10]> =
            SmallVec::from_slice(&[sums, Part::List(&a), Part::List(&b), sums]);
        parts.extend(metadata.into_iter().flatten());
        self.instruction(&name, &parts);
    }

    fn wgmma(
        &mut self,
        wgmma: Wgmma,
        a: Part<'_>,
        b: Value,
        accumulate: Value,
        metadata: Option<[Part<'_>; 2]>,
    ) {
        let Wgmma { shape, types, form, d, first } = wgmma;
        let (b, accumulate) = (self.operand(b), self.operand(accumulate));
        let b: Operand = self.in_reg(b, Class::B64).into();
        let accumulate: Operand = self.in_reg(accumulate, Class::Pred).into();
        let (accumulators, sum) = self.accumulators(d, first, shape, 128);
        let mut parts: SmallVec<[Part<'_>; 10]> =
            SmallVec::from_slice(&[Part::List(&accumulators), a, Part::One(b)]);
        parts.extend(metadata.into_iter().flatten());
        parts.push(Part::One(accumulate));
        let one = |number: i64| Part::One(Operand::Int(number));
        if !types[0].is_int() {
            let sign = |negative: bool| one(if negative { -1 } else { 1 });
            parts.extend([sign(form.negate_a), sign(form.negate_b)]);
        }
        if types[0].bits() == 16 {
            if matches!(a, Part::One(_)) {
                parts.push(one(form.transpose_a.into()));
            }
            parts.push(one(form.transpose_b.into()));
        }
        let shape = shape.to_string();
        let satfinite = if form.satfinite { ".satfinite" } else { "" };
        let [a_type, b_type] = types.map(mma_type);
        let name = [
            if metadata.is_some() {
                "wgmma.mma_async.sp.sync.aligned."
            } else {
                "wgmma.mma_async.sync.aligned."
            },
            &shape,
            satfinite,
            ".",
            sum,
            ".",
            a_type,
            ".",
            b_type,
        ];
        self.instruction(&name, &parts);
    }
}

fn trans(order: MatrixOrder) -> &'static str {
    match order {
        MatrixOrder::Rows => "",
        MatrixOrder::Trans => ".trans",
    }
}

/// Returns the name of a matrix's element type.
fn mma_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::I8 => "s8",
        Scalar::U8 => "u8",
        Scalar::F8E4M3 => "e4m3",
        Scalar::F8E5M2 => "e5m2",
        Scalar::F16 => "f16",
        Scalar::Bf16 => "bf16",
        Scalar::Tf32 => "tf32",
        Scalar::F64 => "f64",
        Scalar::Bool
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64
        | Scalar::F32 => "",
    }
}
