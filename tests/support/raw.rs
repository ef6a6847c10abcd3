//! Kernels made as data, where the types of the builder would stand in the way of covering all cases.

use tilewright::ir::{
    ApproxFunction, Arith, ArrayData, Axis, ByteHalf, Compare, Const, Constraint, Control,
    Direction, DivApprox, Entity, Excess, FindFrom, FloatMode, FloatTest, Kernel, KernelIr,
    LocalData, Mem, Op, OpData, Param, PermuteMode, Place, PlaceId, ProductHalf, RegionId,
    Rounding, Scalar, SharedData, Space, SpecialReg, Subnormals, Target, Type, Untyped, Value,
    ValueData, ValueDef, VarData, VectorType,
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
    let spaces = [Space::Global, Space::Shared, Space::Local, Space::Generic];
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
                self.get(Mem::Ld { base, index, access: Default::default() })
            }
            Type::Vector(vector) => {
                let value = self.unknown(vector.elem().into());
                let values = (0..vector.lanes()).map(|_| value).collect();
                self.get(Arith::VecPack { values })
            }
            Type::TensorMap { .. } | Type::Pointer { space: Space::Global, .. } => self.param(ty),
            Type::Pointer { space: Space::Const, elem, .. } => {
                let array = ArrayData { elem, bits: [1; 8].into(), place: self.place };
                let array = self.ir.arrays.push(array);
                self.get(Mem::ArrayBase { array })
            }
            Type::Pointer { space: Space::Shared, elem, .. } => {
                let alloc =
                    SharedData { elem, len: 8, align_bytes: elem.size_bytes(), place: self.place };
                let shared = self.ir.shared.push(alloc);
                self.get(Mem::SharedBase { shared })
            }
            Type::Pointer { space: Space::Local, elem, .. } => {
                let local = LocalData { elem, len: 8, place: self.place };
                let local = self.ir.locals.push(local);
                self.get(Mem::LocalBase { local })
            }
            Type::Pointer { space: Space::Generic, elem, mutable } => {
                let base = self.param(Type::Pointer { space: Space::Global, elem, mutable });
                self.get(Mem::Cvta { base })
            }
            Type::Pointer { space: Space::SharedCluster, elem, .. } => {
                let base = self.unknown(pointer(Space::Shared, elem));
                let cta = self.unknown(Scalar::U32.into());
                self.get(Mem::Mapa { base, cta })
            }
        }
    }

    /// A variable of one register that holds `value`.
    pub(crate) fn var(&mut self, value: Value) -> tilewright::ir::VarId {
        let (ty, region, place) = (self.ir.type_of(value), self.region, self.place);
        let var = self.ir.vars.push(VarData { ty, len: 2, region, place, name: None });
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
            Type::TensorMap { .. } => panic!("no operation here takes a tensor map"),
            Type::Pointer { elem, .. } => {
                (elem, self.get(Mem::Ld { base: value, index: zero, access: Default::default() }))
            }
        };
        let base = self.param(pointer(Space::Global, scalar));
        self.stored += 1;
        let index = self.constant(Scalar::I32, self.stored);
        self.op(Mem::St { base, index, value, access: Default::default() });
    }

    /// Ends and verifies the kernel.
    pub(crate) fn finish(mut self) -> Kernel<Untyped> {
        self.op(Control::Return);
        let text = self.ir.to_string();
        Kernel::verify(self.ir).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// All operations of the arithmetic family, with all values of their attributes. Their operands are to be
/// replaced, with [`with_operands`].
pub(crate) fn arith() -> Vec<Arith> {
    let v = no_value();
    let [lhs, rhs, addend, value, amount, cond] = [v; 6];
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
        Arith::Selp { cond, then_value: v, else_value: v },
        Arith::MinNan { lhs, rhs },
        Arith::MaxNan { lhs, rhs },
        Arith::Copysign { magnitude: v, sign: v },
        Arith::AddSat { lhs, rhs },
        Arith::SubSat { lhs, rhs },
        Arith::MulHi { lhs, rhs },
        Arith::MulWide { lhs, rhs },
        Arith::Mad { lhs, rhs, addend },
        Arith::MadHi { lhs, rhs, addend },
        Arith::MadWide { lhs, rhs, addend },
        Arith::MadHiSat { lhs, rhs, addend },
        Arith::Mad24HiSat { lhs, rhs, addend },
        Arith::AddPacked { lhs, rhs },
        Arith::MinPacked { lhs, rhs },
        Arith::MaxPacked { lhs, rhs },
        Arith::MinRelu { lhs, rhs },
        Arith::MaxRelu { lhs, rhs },
        Arith::Sad { lhs, rhs, addend },
        Arith::Dp4a { lhs, rhs, addend },
        Arith::Popc { value },
        Arith::Clz { value },
        Arith::Brev { value },
        Arith::Bfe { value, start: v, count: v },
        Arith::Bfi { value, into: v, start: v, count: v },
        Arith::Fns { mask: v, base: v, offset: v },
    ];
    all.extend(Compare::ALL.map(|compare| Arith::Setp { lhs, rhs, compare }));
    let converted = Scalar::ALL.into_iter().filter(|to| *to != Scalar::Bool);
    all.extend(converted.map(|to| Arith::Cvt { value, to }));
    for lanes in [2, 4, 8, 16] {
        all.push(Arith::VecPack { values: vec![v; lanes as usize].into() });
        all.push(Arith::VecSplat { value, lanes });
        all.push(Arith::VecExtract { vector: v, lane: lanes - 1 });
    }
    all.extend(FloatMode::all().map(|mode| Arith::AddRounded { lhs, rhs, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::SubRounded { lhs, rhs, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::MulRounded { lhs, rhs, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::FmaRounded { lhs, rhs, addend, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::DivRounded { lhs, rhs, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::SqrtRounded { value, mode }));
    all.extend(FloatMode::all().map(|mode| Arith::RcpRounded { value, mode }));
    for subnormals in Subnormals::ALL.iter().copied() {
        let functions = ApproxFunction::ALL.iter().copied();
        all.extend(functions.map(|function| Arith::Approx { value, function, subnormals }));
        let forms = DivApprox::ALL.iter().copied();
        all.extend(forms.map(|form| Arith::DivApprox { lhs, rhs, form, subnormals }));
    }
    all.extend(FloatTest::ALL.iter().map(|test| Arith::Testp { value, test: *test }));
    all.extend(ByteHalf::ALL.iter().map(|half| Arith::Dp2a { lhs, rhs, addend, half: *half }));
    all.extend(FindFrom::ALL.iter().map(|from| Arith::Bfind { value, from: *from }));
    all.extend(ProductHalf::ALL.iter().map(|half| Arith::Mul24 { lhs, rhs, half: *half }));
    all.extend(ProductHalf::ALL.iter().map(|half| Arith::Mad24 { lhs, rhs, addend, half: *half }));
    for (to, len) in [(Scalar::I8, 4), (Scalar::U8, 4), (Scalar::I16, 2), (Scalar::U16, 2)] {
        all.push(Arith::CvtPack { values: vec![v; len].into(), to });
    }
    all.extend([0x96, 0xca].map(|table| Arith::Lop3 { a: v, b: v, c: v, table }));
    let modes = PermuteMode::ALL.iter().copied();
    all.extend(modes.map(|mode| Arith::Prmt { low: v, high: v, selector: v, mode }));
    for excess in Excess::ALL.iter().copied() {
        for direction in Direction::ALL.iter().copied() {
            all.push(Arith::Shf { low: v, high: v, amount, direction, excess });
        }
        all.push(Arith::Szext { value, bits: v, excess });
        all.push(Arith::Bmsk { start: v, count: v, excess });
    }
    let types = types().into_iter().filter(|ty| !matches!(ty, Type::Pointer { .. }));
    all.extend(types.map(|to| Arith::Bitcast { value, to }));
    for to in Scalar::ALL {
        all.extend(FloatMode::all().map(|mode| Arith::CvtRounded { value, to, mode }));
        all.extend(Rounding::ALL.map(|rounding| Arith::CvtRint { value, to, rounding }));
        all.push(Arith::CvtSat { value, to });
    }
    all.extend(SpecialReg::ALL.map(|reg| Arith::Sreg { reg }));
    all
}

/// The operation on these operands, in order.
pub(crate) fn with_operands(op: &Arith, operands: &[Value]) -> Arith {
    let (mut op, mut operands) = (op.clone(), operands.iter());
    op.for_each_operand_mut(|value| *value = *operands.next().expect("as many as there are"));
    op
}

/// The types of the operands of an operation, where the type variable of its row stands for `ty`; those of rows
/// without one are signed or unsigned as `ty` is.
pub(crate) fn operand_types(op: &Arith, ty: Type) -> Vec<Type> {
    let info = op.info();
    let unsigned = matches!(ty, Type::Scalar(Scalar::U8));
    let vector = |signed, other, lanes| {
        VectorType::new(if unsigned { other } else { signed }, lanes).expect("it exists").into()
    };
    let of = |constraint: Constraint| match constraint {
        Constraint::T | Constraint::Any => ty,
        Constraint::Bool => Type::BOOL,
        Constraint::U32 => Scalar::U32.into(),
        Constraint::I32 => Scalar::I32.into(),
        Constraint::Wide => match ty {
            Type::Scalar(Scalar::I16) => Scalar::I32.into(),
            Type::Scalar(Scalar::U16) => Scalar::U32.into(),
            Type::Scalar(Scalar::I32) => Scalar::I64.into(),
            _ => Scalar::U64.into(),
        },
        Constraint::Bytes => vector(Scalar::I8, Scalar::U8, 4),
        Constraint::Halves => vector(Scalar::I16, Scalar::U16, 2),
        Constraint::Dot => if unsigned { Scalar::U32 } else { Scalar::I32 }.into(),
        other => panic!("{other:?} does not occur in arithmetic"),
    };
    let mut constraints: Vec<Constraint> = info.operands.iter().map(|(_, c)| *c).collect();
    let listed = op.operands().len() - constraints.len();
    constraints.extend(info.list.iter().flat_map(|(_, c)| vec![*c; listed]));
    constraints.into_iter().map(of).collect()
}

/// Returns true if the target of the kernel has the operation, on operands of the kernel.
pub(crate) fn is_valid(op: &Arith, ir: &KernelIr) -> bool {
    let op = Op::from(op.clone());
    let lane_exists = match &op {
        Op::Arith(Arith::VecExtract { vector, lane }) => {
            ir.type_of(*vector).vector().is_some_and(|vector| *lane < vector.lanes())
        }
        _ => true,
    };
    let supported = op.support(ir).is_ok_and(|first| ir.target.offers(first));
    lane_exists && supported && !op.result_types(ir).is_empty()
}

/// A value that no kernel has, to ask an operation for its row.
pub(crate) fn no_value() -> Value {
    Value::from_index(0)
}
