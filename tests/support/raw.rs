//! Builds kernels as plain data, for tests that cover all cases, which the builder's types would
//! prevent.

use tilewright::ir::op::{
    ApproxFunction, Arith, AsyncCopy, Axis, ByteHalf, Compare, Constraint, Control, Convert,
    Direction, DivApprox, Excess, FindFrom, FloatArith, FloatMode, FloatTest, IntArith, Mem, Op,
    OpInfo, PermuteMode, ProductHalf, SpecialReg, Subnormals, Thread,
};
use tilewright::ir::types::{Const, Rounding, Scalar, Space, Type, VectorType};
use tilewright::ir::{
    ArrayData, Entity, Kernel, KernelIr, LocalData, LocationId, OpData, OpId, Param, RegionId,
    SharedData, SourceLocation, Target, Untyped, Value, ValueData, ValueDef, VarData, VarId,
};

/// A kernel under construction. Operations are appended to its body.
pub(crate) struct Raw {
    pub(crate) ir: KernelIr,
    /// The region that operations are appended to.
    pub(crate) region: RegionId,
    pub(crate) location: LocationId,
    stored: u64,
}

pub(crate) fn pointer(space: Space, elem: Scalar) -> Type {
    Type::Pointer { space, elem, mutable: true }
}

/// Returns all value types.
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
        let location = ir.location(SourceLocation { file: "raw.rs", line: 1, column: 1 });
        let region = ir.body;
        Raw { ir, region, location, stored: 0 }
    }

    /// Adds a value to a region.
    pub(crate) fn value(&mut self, ty: Type, def: ValueDef, region: RegionId) -> Value {
        self.ir.values.push(ValueData { ty, def, region, location: self.location })
    }

    /// Returns the parameter with this type, and adds it if there is none.
    pub(crate) fn param(&mut self, ty: Type) -> Value {
        let known = self.ir.params.iter().find(|param| self.ir.type_of(param.value) == ty);
        if let Some(known) = known {
            return known.value;
        }
        self.new_param(ty)
    }

    /// Adds a parameter.
    pub(crate) fn new_param(&mut self, ty: Type) -> Value {
        let count = self.ir.params.len();
        let value = self.value(ty, ValueDef::Param(count as u32), self.ir.body);
        self.ir.params.push(Param { name: format!("p{count}"), value });
        value
    }

    /// Adds an operation with results of these types.
    pub(crate) fn push(&mut self, op: impl Into<Op>, results: &[Type]) -> OpId {
        let (region, location) = (self.region, self.location);
        let data = OpData { op: op.into(), results: Default::default(), region, location };
        let id = self.ir.ops.push(data);
        self.ir.regions[region].ops.push(id);
        for (number, &ty) in (0..).zip(results) {
            let value = self.value(ty, ValueDef::Result(id, number), region);
            self.ir.ops[id].results.push(value);
        }
        id
    }

    /// Adds an operation. Returns its first result, if it has one.
    pub(crate) fn op(&mut self, op: impl Into<Op>) -> Option<Value> {
        let op = op.into();
        let types = op.result_types(&self.ir);
        let id = self.push(op, &types);
        self.ir.ops[id].results.first().copied()
    }

    /// Adds an operation that has a result.
    pub(crate) fn get(&mut self, op: impl Into<Op>) -> Value {
        self.op(op).expect("the operation has a result")
    }

    pub(crate) fn constant(&mut self, scalar: Scalar, bits: u64) -> Value {
        self.get(Op::Const(Const::new(scalar, bits)))
    }

    /// Returns a value of the type that is only known at run time.
    pub(crate) fn unknown(&mut self, ty: Type) -> Value {
        match ty {
            Type::Scalar(scalar) => {
                let base = self.param(pointer(Space::Global, scalar));
                let index = self.get(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) });
                self.get(Mem::Ld { base, index, access: Default::default() })
            }
            Type::Vector(vector) => {
                let value = self.unknown(vector.elem().into());
                let values = (0..vector.lanes()).map(|_| value).collect();
                self.get(Convert::VecPack { values })
            }
            Type::TensorMap { .. } | Type::Pointer { space: Space::Global, .. } => self.param(ty),
            Type::Pointer { space: Space::Const, elem, .. } => {
                let array = ArrayData { elem, bits: [1; 8].into(), location: self.location };
                let array = self.ir.arrays.push(array);
                self.get(Mem::ArrayBase { array })
            }
            Type::Pointer { space: Space::Shared, elem, .. } => {
                let alloc = SharedData {
                    elem,
                    len: 8,
                    align_bytes: elem.size_bytes(),
                    location: self.location,
                };
                let shared = self.ir.shared.push(alloc);
                self.get(Mem::SharedBase { shared })
            }
            Type::Pointer { space: Space::Local, elem, .. } => {
                let local = LocalData { elem, len: 8, location: self.location };
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

    /// Declares a variable of `len` registers in the current region.
    pub(crate) fn new_var(&mut self, ty: Type, len: u32) -> VarId {
        let (region, location) = (self.region, self.location);
        self.ir.vars.push(VarData { ty, len, region, location, name: None })
    }

    /// Declares a variable with one register that holds `value`.
    pub(crate) fn var(&mut self, value: Value) -> VarId {
        let var = self.new_var(self.ir.type_of(value), 2);
        self.op(Mem::SetVar { value, var, index: 1 });
        var
    }

    /// Uses a value, so that it cannot be optimised away.
    pub(crate) fn consume(&mut self, value: Value) {
        if let Type::Vector(vector) = self.ir.type_of(value) {
            for lane in 0..vector.lanes() {
                let elem = self.get(Convert::VecExtract { vector: value, lane });
                self.consume(elem);
            }
            return;
        }
        if let Type::TensorMap { .. } = self.ir.type_of(value) {
            self.op(AsyncCopy::PrefetchTensormap { map: value });
            return;
        }
        let zero = self.constant(Scalar::I32, 0);
        let (scalar, value) = match self.ir.type_of(value) {
            Type::Scalar(scalar) => (scalar, value),
            Type::Vector(vector) => (vector.elem(), value),
            Type::TensorMap { .. } => panic!("a tensor map cannot be printed"),
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

/// Returns the table row of an operation that has one.
pub(crate) fn info(op: &Op) -> &'static OpInfo {
    op.info().expect("the operation has a row")
}

/// Returns the texts of all values that an attribute of type `ty` can have in the operation `row`.
fn attribute_values(row: &str, ty: &str) -> Vec<String> {
    fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
        values.into_iter().map(|value| value.to_string()).collect()
    }
    match (row, ty) {
        ("cvt", "Scalar") => {
            texts(Scalar::ALL.into_iter().filter(|scalar| *scalar != Scalar::Bool))
        }
        ("cvt_pack", "Scalar") => texts([Scalar::I8, Scalar::U8, Scalar::I16, Scalar::U16]),
        ("vec_splat", "u32") => texts([2, 4, 8, 16]),
        ("vec_extract", "u32") => texts([1, 3, 7, 15]),
        (_, "Scalar") => texts(Scalar::ALL),
        (_, "Type") => texts(types().into_iter().filter(|ty| !matches!(ty, Type::Pointer { .. }))),
        (_, "Compare") => texts(Compare::ALL),
        (_, "FloatMode") => texts(FloatMode::all()),
        (_, "Rounding") => texts(Rounding::ALL),
        (_, "ApproxFunction") => texts(ApproxFunction::ALL),
        (_, "Subnormals") => texts(Subnormals::ALL),
        (_, "DivApprox") => texts(DivApprox::ALL),
        (_, "FloatTest") => texts(FloatTest::ALL),
        (_, "ByteHalf") => texts(ByteHalf::ALL),
        (_, "ProductHalf") => texts(ProductHalf::ALL),
        (_, "FindFrom") => texts(FindFrom::ALL),
        (_, "PermuteMode") => texts(PermuteMode::ALL),
        (_, "Direction") => texts(Direction::ALL),
        (_, "Excess") => texts(Excess::ALL),
        (_, "SpecialReg") => texts(SpecialReg::ALL),
        (_, "u8") => texts([0x96, 0xca]),
        _ => panic!("{row}: add the values of an attribute of type {ty} to tests/support/raw.rs"),
    }
}

/// Returns all pure operations on numbers with all values of their attributes. Replace their
/// operands with [`with_operands`].
pub(crate) fn arith() -> Vec<Op> {
    let rows = [Arith::INFO, FloatArith::INFO, IntArith::INFO, Convert::INFO].concat();
    let sreg = Op::table().filter(|info| info.name == "sreg").copied();
    let mut all = Vec::new();
    for info in rows.into_iter().chain(sreg) {
        let mut attributes = vec![Vec::new()];
        for (_, ty) in info.attributes {
            let values = attribute_values(info.name, ty);
            let with = |chosen: &Vec<String>| {
                let chosen = chosen.clone();
                values.clone().into_iter().map(move |value| [&chosen[..], &[value]].concat())
            };
            attributes = attributes.iter().flat_map(with).collect();
        }
        for attributes in attributes {
            let listed: &[usize] = match (info.name, attributes.first().map(String::as_str)) {
                ("cvt_pack", Some("i8" | "u8")) => &[4],
                ("cvt_pack", _) => &[2],
                _ if info.list.is_some() => &[2, 4, 8, 16],
                _ => &[0],
            };
            for listed in listed {
                let operands = vec![no_value(); info.operands.len() + listed];
                let texts: Vec<&str> = attributes.iter().map(String::as_str).collect();
                let op = Op::from_row(info.name, &operands, &texts);
                all.push(op.unwrap_or_else(|| panic!("{} {attributes:?}", info.name)));
            }
        }
    }
    all
}

/// Returns the operation with these operands, in order.
pub(crate) fn with_operands(op: &Op, operands: &[Value]) -> Op {
    let (mut op, mut operands) = (op.clone(), operands.iter());
    op.for_each_operand_mut(&mut |value| *value = *operands.next().expect("as many as there are"));
    op
}

/// Returns an operation's operand types, with `ty` for its row's type variable. If the row has
/// none, the types are signed or unsigned like `ty`.
pub(crate) fn operand_types(op: &Op, ty: Type) -> Vec<Type> {
    let info = info(op);
    let unsigned = matches!(ty, Type::Scalar(Scalar::U8));
    let vector = |signed, other, lanes| {
        VectorType::new(if unsigned { other } else { signed }, lanes).expect("it exists").into()
    };
    let of = |constraint: Constraint| match constraint {
        Constraint::T | Constraint::Any => ty,
        Constraint::Bool => Type::BOOL,
        Constraint::U32 => Scalar::U32.into(),
        Constraint::I32 => Scalar::I32.into(),
        Constraint::F32 => Scalar::F32.into(),
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

/// Returns whether the kernel's target has the operation on these operands.
pub(crate) fn is_valid(op: &Op, ir: &KernelIr) -> bool {
    let lane_exists = match op {
        Op::Convert(Convert::VecExtract { vector, lane }) => {
            ir.type_of(*vector).vector().is_some_and(|vector| *lane < vector.lanes())
        }
        _ => true,
    };
    let supported = op.support(ir).is_ok_and(|first| ir.target.offers(first));
    lane_exists && supported && !op.result_types(ir).is_empty()
}

/// Returns a value that is in no kernel, to ask an operation for its row.
pub(crate) fn no_value() -> Value {
    Value::from_index(0)
}
