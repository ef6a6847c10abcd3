//! Kernels made as data, where the types of the builder would stand in the way of covering all cases.

use tilewright::ir::{
    Arith, Axis, Compare, Const, Constraint, Control, Entity, Kernel, KernelIr, Mem, Op, OpData,
    OpInfo, Param, Place, PlaceId, RegionId, Scalar, SharedData, Space, SpecialReg, Target, Type,
    Untyped, Value, ValueData, ValueDef, VarData, VectorType,
};

/// A kernel under construction, whose operations go to the end of its body.
pub(crate) struct Raw {
    pub(crate) ir: KernelIr,
    region: RegionId,
    place: PlaceId,
    stored: u64,
}

pub(crate) fn pointer(space: Space, elem: Scalar) -> Type {
    Type::Pointer { space, elem, mutable: true }
}

/// All types of values.
pub(crate) fn types() -> Vec<Type> {
    let spaces = [Space::Global, Space::Shared];
    let pointers =
        spaces.into_iter().flat_map(|space| Scalar::ALL.map(|elem| pointer(space, elem)));
    let vectors = VectorType::all().map(Type::from);
    Scalar::ALL.into_iter().map(Type::from).chain(vectors).chain(pointers).collect()
}

impl Raw {
    pub(crate) fn new(name: impl Into<String>, target: Target) -> Raw {
        let mut ir = KernelIr::new(name, target);
        let place = ir.place(Place { file: "raw.rs", line: 1, column: 1 });
        let region = ir.body;
        Raw { ir, region, place, stored: 0 }
    }

    fn value(&mut self, ty: Type, def: ValueDef) -> Value {
        let (region, place) = (self.region, self.place);
        self.ir.values.push(ValueData { ty, def, region, place })
    }

    /// The parameter of a type: one for each.
    pub(crate) fn param(&mut self, ty: Type) -> Value {
        let known = self.ir.params.iter().find(|param| self.ir.type_of(param.value) == ty);
        if let Some(known) = known {
            return known.value;
        }
        self.new_param(ty)
    }

    /// One more parameter.
    pub(crate) fn new_param(&mut self, ty: Type) -> Value {
        let count = self.ir.params.len();
        let value = self.value(ty, ValueDef::Param(count as u32));
        self.ir.params.push(Param { name: format!("p{count}"), value });
        value
    }

    /// Adds an operation; its first result, if it has one.
    pub(crate) fn op(&mut self, op: impl Into<Op>) -> Option<Value> {
        let op = op.into();
        let types = op.result_types(&self.ir);
        let (region, place) = (self.region, self.place);
        let id = self.ir.ops.push(OpData { op, results: Default::default(), region, place });
        self.ir.regions[region].ops.push(id);
        for (number, ty) in (0..).zip(types) {
            let value = self.value(ty, ValueDef::Result(id, number));
            self.ir.ops[id].results.push(value);
        }
        self.ir.ops[id].results.first().copied()
    }

    /// Adds an operation that has a result.
    pub(crate) fn get(&mut self, op: impl Into<Op>) -> Value {
        self.op(op).expect("the operation has a result")
    }

    pub(crate) fn constant(&mut self, scalar: Scalar, bits: u64) -> Value {
        self.get(Op::Const(Const::new(scalar, bits)))
    }

    /// A value of a type that is not known before the kernel runs.
    pub(crate) fn unknown(&mut self, ty: Type) -> Value {
        match ty {
            Type::Scalar(scalar) => {
                let base = self.param(pointer(Space::Global, scalar));
                let index = self.get(Arith::Sreg { reg: SpecialReg::Tid(Axis::X) });
                self.get(Mem::Ld { base, index })
            }
            Type::Vector(vector) => {
                let value = self.unknown(vector.elem().into());
                let values = (0..vector.lanes()).map(|_| value).collect();
                self.get(Arith::VecPack { values })
            }
            Type::Pointer { space: Space::Global, .. } => self.param(ty),
            Type::Pointer { space: Space::Shared, elem, .. } => {
                let alloc =
                    SharedData { elem, len: 8, align_bytes: elem.size_bytes(), place: self.place };
                let shared = self.ir.shared.push(alloc);
                self.get(Mem::SharedBase { shared })
            }
        }
    }

    /// A variable of one register that holds `value`.
    pub(crate) fn var(&mut self, value: Value) -> tilewright::ir::VarId {
        let (ty, region, place) = (self.ir.type_of(value), self.region, self.place);
        let var = self.ir.vars.push(VarData { ty, len: 2, region, place });
        self.op(Mem::SetVar { value, var, index: 1 });
        var
    }

    /// Uses a value so that nothing may be left out.
    pub(crate) fn consume(&mut self, value: Value) {
        if let Type::Vector(vector) = self.ir.type_of(value) {
            for lane in 0..vector.lanes() {
                let elem = self.get(Arith::VecExtract { vector: value, lane });
                self.consume(elem);
            }
            return;
        }
        let zero = self.constant(Scalar::I32, 0);
        let (scalar, value) = match self.ir.type_of(value) {
            Type::Scalar(scalar) => (scalar, value),
            Type::Vector(vector) => (vector.elem(), value),
            Type::Pointer { elem, .. } => (elem, self.get(Mem::Ld { base: value, index: zero })),
        };
        let base = self.param(pointer(Space::Global, scalar));
        self.stored += 1;
        let index = self.constant(Scalar::I32, self.stored);
        self.op(Mem::St { base, index, value });
    }

    /// Ends and verifies the kernel.
    pub(crate) fn finish(mut self) -> Kernel<Untyped> {
        self.op(Control::Return);
        let text = self.ir.to_string();
        Kernel::verify(self.ir).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// All operations of the arithmetic family on operands of which the first is `values[0]`, and so on.
/// Operations that need more operands than there are take the last one again.
pub(crate) fn arith(values: &[Value]) -> Vec<Arith> {
    let at = |i: usize| values[i.min(values.len() - 1)];
    let [lhs, rhs, addend] = [at(0), at(1), at(2)];
    let value = lhs;
    let (amount, cond, then_value, else_value) = (at(1), at(0), at(1), at(2));
    let mut all = vec![
        Arith::Add { lhs, rhs },
        Arith::Sub { lhs, rhs },
        Arith::Mul { lhs, rhs },
        Arith::Div { lhs, rhs },
        Arith::Rem { lhs, rhs },
        Arith::Min { lhs, rhs },
        Arith::Max { lhs, rhs },
        Arith::Neg { value },
        Arith::Abs { value },
        Arith::Fma { lhs, rhs, addend },
        Arith::Sqrt { value },
        Arith::And { lhs, rhs },
        Arith::Or { lhs, rhs },
        Arith::Xor { lhs, rhs },
        Arith::Not { value },
        Arith::Shl { value, amount },
        Arith::Shr { value, amount },
        Arith::Selp { cond, then_value, else_value },
    ];
    all.extend(Compare::ALL.map(|compare| Arith::Setp { lhs, rhs, compare }));
    let converted = Scalar::ALL.into_iter().filter(|to| *to != Scalar::Bool);
    all.extend(converted.map(|to| Arith::Cvt { value, to }));
    for lanes in [2, 4, 8, 16] {
        all.push(Arith::VecPack { values: (0..lanes).map(at).collect() });
        all.push(Arith::VecSplat { value, lanes: lanes as u32 });
        all.push(Arith::VecExtract { vector: value, lane: lanes as u32 - 1 });
    }
    all.extend(SpecialReg::ALL.map(|reg| Arith::Sreg { reg }));
    all
}

/// The types of the operands of a row, where its type variable stands for `ty`.
pub(crate) fn operand_types(info: &OpInfo, ty: Type) -> Vec<Type> {
    let of = |(_, constraint): &(_, Constraint)| match constraint {
        Constraint::T | Constraint::Any => ty,
        Constraint::Bool => Type::BOOL,
        Constraint::U32 => Scalar::U32.into(),
        other => panic!("{other:?} does not occur in arithmetic"),
    };
    info.operands.iter().chain(&info.list).map(of).collect()
}

/// A value that no kernel has, to ask an operation for its row.
pub(crate) fn no_value() -> Value {
    Value::from_index(0)
}
