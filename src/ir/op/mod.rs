//! Operations: the rows of the op table as Rust enums, with the functions that a macro derives from
//! each row. To add one, add a row to the table (`table.rs`).

mod access;
mod async_copy;
mod attr;
mod control;
mod copy_support;
mod diagnostic;
mod info;
mod inline;
mod mma;
mod mma_support;
mod mode;
mod parts;
mod requirement;
mod space_support;
mod special;
mod support;
mod support_types;
mod sync;
pub(in crate::ir) mod table;
mod var_use;
mod warp;

use std::any::Any;

use smallvec::SmallVec;

pub use access::{
    AtomicOp, AtomicOrder, L1Evict, L2Prefetch, LoadAccess, LoadCache, LoadOrder, MemScope,
    ParseAccessError, PrefetchLevel, RedOrder, StoreAccess, StoreCache, StoreOrder,
};
pub use async_copy::{
    BoxMode, BulkReduce, BulkWait, ClusterArrival, CpAsyncCache, L2Policy, PendingCount,
    RemoteArrival,
};
pub use attr::{Axis, Compare, Unroll};
pub use control::{Control, ValueList};
pub use diagnostic::Diagnostic;
pub use info::{Class, Constraint, Effect, Mnemonic, OpInfo, ResultKind, Together, TypeSuffix};
pub use inline::{Inline, InlinePtx, PtxPiece, PtxTextError, Simulate};
pub(crate) use mma::metadata_threads;
pub use mma::{
    Accumulators, MatrixCount, MatrixOrder, MmaOverflow, MmaShape, ParseMmaShapeError,
    ParseWgmmaFormError, SetmaxnregAction, WgmmaForm,
};
pub use mode::{
    ApproxFunction, ByteHalf, Clamp, Direction, DivApprox, Excess, FindFrom, FloatMode, FloatTest,
    PermuteMode, ProductHalf, Subnormals,
};
use parts::NoNames;
pub(in crate::ir) use parts::{BadPart, Names, Parts};
pub use special::{SpecialReg, VolatileReg};
pub use sync::{BarrierForm, BarrierRed, FenceOrder, ProxySpace};
pub(in crate::ir) use var_use::VarUse;
pub use warp::{ReduxOp, ShflMode, VoteMode};

use super::entity::{ArrayId, GlobalId, LocalId, RegionId, SharedId, Value, VarId};
use super::kernel::KernelIr;
use super::number::Rounding;
use super::target::Target;
use super::types::{Const, Scalar, Space, Type};
use super::vector::VectorType;

macro_rules! define_ops {
    ($(
        $(#[$family_doc:meta])*
        $Family:ident {
            $(
                $(#[$doc:meta])*
                $name:ident = $Variant:ident
                    ( $($operand:ident : $constraint:ident),* $(; $list:ident : [$each:ident])? )
                    { $($attr:ident : $attr_ty:ty),* }
                    -> $($result:ident),+ : $class:ident,
                    $effect:ident $(/ $together:ident)? $(+ $own:ident)?, $target:ident $(, $version:ident)?
                    $(where $check:ident ( $($part:ident),* ))?
                    $(as $mnemonic:literal $suffix:ident $(, $method:ident)?)?;
            )*
        }
    )*) => {
        $(
            $(#[$family_doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Hash)]
            pub enum $Family {
                $(
                    $(#[$doc])*
                    $Variant {
                        $(
                            #[doc = concat!("An operand; [`Constraint::", stringify!($constraint), "`].")]
                            $operand: Value,
                        )*
                        $(
                            #[doc = concat!("Any number of operands; [`Constraint::", stringify!($each), "`].")]
                            $list: ValueList,
                        )?
                        $(
                            #[doc = concat!("The attribute `", stringify!($attr), "`.")]
                            $attr: $attr_ty,
                        )*
                    },
                )*
            }

            impl $Family {
                /// The table entries of the family's rows, in the order of the variants.
                pub const INFO: &'static [OpInfo] = &[$(
                    OpInfo {
                        name: stringify!($name),
                        operands: &[$((stringify!($operand), Constraint::$constraint)),*],
                        list: define_ops!(@list $($list $each)?),
                        attributes: &[$((stringify!($attr), stringify!($attr_ty))),*],
                        results: &[$(ResultKind::$result),+],
                        class: Class::$class,
                        effect: Effect::$effect,
                        together: define_ops!(@together $($together)?),
                        own_result: define_ops!(@own $($own)?),
                        target: Target::$target,
                        version: define_ops!(@version $($version)?),
                        mnemonic: define_ops!(@mnemonic $($mnemonic $suffix)?),
                    },
                )*];

                /// Returns the operation's table entry: its operands, results, effect and target.
                pub const fn info(&self) -> &'static OpInfo {
                    // Variants and rows have the same order.
                    enum Row { $($Variant),* }
                    match self {
                        $($Family::$Variant { .. } => &Self::INFO[Row::$Variant as usize],)*
                    }
                }

                /// Runs the row's `where` check. Returns the first target that has the operation
                /// for its operands' types, or why no target has it. The row's constraints must
                /// already hold.
                fn check(&self, _ir: &KernelIr) -> support::Support {
                    match self {
                        $($Family::$Variant { $($($part,)*)? .. } => {
                            define_ops!(@check _ir $($check $($part)*)?)
                        })*
                    }
                }

                /// Returns the operands, in order.
                pub fn operands(&self) -> ValueList {
                    match self {
                        $($Family::$Variant { $($operand,)* $($list,)? .. } => {
                            #[allow(unused_mut, reason = "most rows have no list")]
                            let mut _operands = ValueList::from_slice(&[$(*$operand),*]);
                            $(_operands.extend_from_slice($list);)?
                            _operands
                        })*
                    }
                }

                /// Returns the attributes as printed, in order.
                pub fn attributes(&self) -> SmallVec<[String; 2]> {
                    match self {
                        $($Family::$Variant { $($attr,)* .. } => {
                            SmallVec::from_vec(vec![$(parts::Attribute::to_text($attr)),*])
                        })*
                    }
                }

                /// Calls `visit` with each attribute, in order.
                fn for_each_attribute(&self, _visit: &mut dyn FnMut(&dyn Any)) {
                    match self {
                        $($Family::$Variant { $($attr,)* .. } => {
                            $(_visit($attr);)*
                        })*
                    }
                }

                /// Returns the register variable that an attribute names, if any. Passes that
                /// rename or remove variables ask it.
                pub fn var(&self) -> Option<VarId> {
                    match self {
                        $($Family::$Variant { $($attr,)* .. } => {
                            None$(.or(parts::Attribute::var($attr)))*
                        })*
                    }
                }

                /// Returns the register variable that an attribute names, for replacing it.
                pub(in crate::ir) fn var_mut(&mut self) -> Option<&mut VarId> {
                    match self {
                        $($Family::$Variant { $($attr,)* .. } => {
                            None$(.or(parts::Attribute::var_mut($attr)))*
                        })*
                    }
                }

                /// Calls `visit` with each operand, in order, so that a pass can replace it.
                pub fn for_each_operand_mut(&mut self, _visit: &mut dyn FnMut(&mut Value)) {
                    match self {
                        $($Family::$Variant { $($operand,)* $($list,)? .. } => {
                            $(_visit($operand);)*
                            $($list.iter_mut().for_each(_visit);)?
                        })*
                    }
                }

                /// Builds the operation of row `name` from operands and attributes.
                #[inline]
                pub(in crate::ir) fn from_parts(
                    name: &str,
                    _parts: &mut Parts<'_>,
                ) -> Result<$Family, BadPart> {
                    match name {
                        $(stringify!($name) => Ok($Family::$Variant {
                            $($operand: _parts.operand()?,)*
                            $($list: _parts.operands(),)?
                            $($attr: _parts.attribute()?,)*
                        }),)*
                        _ => Err(BadPart::Name),
                    }
                }
            }

            impl From<$Family> for Op {
                fn from(op: $Family) -> Op {
                    Op::$Family(op)
                }
            }
        )*

        /// An operation. Match on it to inspect or transform a kernel. Each family of the table is
        /// a variant; constants, control flow, diagnostics and inline PTX have no row.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            /// A constant.
            Const(Const),
            $(
                $(#[$family_doc])*
                $Family($Family),
            )*
            /// Structured control flow.
            Control(Control),
            /// Asserts and prints.
            Diagnostic(Diagnostic),
            /// Inline PTX. Boxed because it is rare and large.
            Inline(Box<Inline>),
        }

        impl Op {
            /// Iterates over the table entries of all rows, for example to list all operations.
            pub fn table() -> impl Iterator<Item = &'static OpInfo> {
                [$($Family::INFO),*].into_iter().flatten()
            }

            /// Returns the operation's table entry. Returns `None` for constants, control flow,
            /// diagnostics and inline PTX, which have no row.
            pub const fn info(&self) -> Option<&'static OpInfo> {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => None,
                    $(Op::$Family(op) => Some(op.info()),)*
                }
            }

            /// Returns the operation's name in a printed kernel, such as `ld`.
            pub const fn name(&self) -> &'static str {
                match self {
                    Op::Const(_) => "const",
                    Op::Control(op) => op.name(),
                    Op::Diagnostic(op) => op.name(),
            Op::Inline(_) => Inline::NAME,
                    $(Op::$Family(op) => op.info().name,)*
                }
            }

            /// Returns the operands, in order.
            pub fn operands(&self) -> ValueList {
                match self {
                    Op::Const(_) => ValueList::new(),
                    Op::Control(op) => op.operands(),
                    Op::Diagnostic(op) => op.operands(),
                    Op::Inline(op) => op.operands.clone(),
                    $(Op::$Family(op) => op.operands(),)*
                }
            }

            /// Calls `visit` with each operand, in order, so that a pass can replace it.
            pub fn for_each_operand_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
                match self {
                    Op::Const(_) => {}
                    Op::Control(op) => op.for_each_operand_mut(visit),
                    Op::Diagnostic(op) => op.for_each_operand_mut(visit),
                    Op::Inline(op) => op.for_each_operand_mut(visit),
                    $(Op::$Family(op) => op.for_each_operand_mut(visit),)*
                }
            }

            /// Builds the operation of row `name` from operands and attributes.
            #[inline]
            pub(in crate::ir) fn from_parts(
                name: &str,
                parts: &mut Parts<'_>,
            ) -> Result<Op, BadPart> {
                $(match $Family::from_parts(name, parts) {
                    Err(BadPart::Name) => {}
                    found => return found.map(Op::$Family),
                })*
                Err(BadPart::Name)
            }

            /// Returns the register variable that the operation names, if any. Passes that rename
            /// or remove variables ask it.
            pub fn var(&self) -> Option<VarId> {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => None,
                    $(Op::$Family(op) => op.var(),)*
                }
            }

            /// Returns the register variable that the operation names, for replacing it.
            pub(in crate::ir) fn var_mut(&mut self) -> Option<&mut VarId> {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => None,
                    $(Op::$Family(op) => op.var_mut(),)*
                }
            }

            /// Calls `visit` with each attribute, in order.
            fn for_each_attribute(&self, visit: &mut dyn FnMut(&dyn Any)) {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => {}
                    $(Op::$Family(op) => op.for_each_attribute(visit),)*
                }
            }

            /// Runs the `where` check of the operation's row.
            fn check(&self, ir: &KernelIr) -> support::Support {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => support::ANY,
                    $(Op::$Family(op) => op.check(ir),)*
                }
            }

            /// Returns the attributes as printed, in order. Operations without a row have none.
            pub fn attributes(&self) -> SmallVec<[String; 2]> {
                match self {
                    Op::Const(_) | Op::Control(_) | Op::Diagnostic(_) | Op::Inline(_) => SmallVec::new(),
                    $(Op::$Family(op) => op.attributes(),)*
                }
            }
        }
    };
    (@version) => { info::PTX_7_0 };
    (@version $version:ident) => { info::$version };
    (@together) => { None };
    (@together $together:ident) => { Some(Together::$together) };
    (@own) => { false };
    (@own Own) => { true };
    (@mnemonic) => { None };
    (@mnemonic $text:literal $suffix:ident) => {
        Some(Mnemonic { text: $text, suffix: TypeSuffix::$suffix })
    };
    (@check $ir:ident) => { support::ANY };
    (@check $ir:ident $check:ident $($part:ident)*) => { support::$check($ir, $($part),*) };
    (@list) => { None };
    (@list $list:ident $each:ident) => { Some((stringify!($list), Constraint::$each)) };
}

table::for_each_op!(define_ops);

impl Op {
    /// Builds the operation of row `name` from its operands and the texts of its attributes, in
    /// order.
    ///
    /// Returns `None` if there is no such row, if a part is missing, or if an attribute does not
    /// parse. Attributes that name an entity of a kernel, such as a variable, cannot be given as
    /// text here.
    ///
    /// ```
    /// use tilewright::ir::{Entity, Value};
    /// use tilewright::ir::op::{Excess, IntArith, Op};
    /// let [value, bits] = [0, 1].map(Value::from_index);
    /// let szext = Op::from_row("szext", &[value, bits], &["clamp"]);
    /// assert_eq!(szext, Some(IntArith::Szext { value, bits, excess: Excess::Clamp }.into()));
    /// ```
    #[inline]
    pub fn from_row(name: &str, operands: &[Value], attributes: &[&str]) -> Option<Op> {
        Op::from_parts(name, &mut Parts::new(operands, attributes, &NoNames)).ok()
    }

    /// Returns the control flow operation if this is one, to look at a loop or branch.
    pub const fn control(&self) -> Option<&Control> {
        if let Op::Control(control) = self { Some(control) } else { None }
    }

    /// Returns whether swapping the operands gives bit-identical results.
    pub(in crate::ir) fn commutes(&self) -> bool {
        matches!(
            self,
            Op::Arith(
                Arith::Add { .. }
                    | Arith::Mul { .. }
                    | Arith::Min { .. }
                    | Arith::Max { .. }
                    | Arith::And { .. }
                    | Arith::Or { .. }
                    | Arith::Xor { .. }
            ) | Op::FloatArith(FloatArith::MinNan { .. } | FloatArith::MaxNan { .. })
        )
    }

    /// Returns the regions that the operation owns, to visit the operations inside; most operations
    /// own none.
    pub fn regions(&self) -> SmallVec<[RegionId; 2]> {
        self.control().map(Control::regions).unwrap_or_default()
    }

    /// Returns the result types that follow from the row and the operands' types. The list is empty
    /// for control flow, whose results follow from its regions.
    ///
    /// If an operand has a type that the row does not allow, results that depend on it are missing.
    pub fn result_types(&self, ir: &KernelIr) -> SmallVec<[Type; 2]> {
        match (self, self.info()) {
            (Op::Const(constant), _) => SmallVec::from_slice(&[constant.scalar().into()]),
            (_, Some(info)) => {
                info.results.iter().filter_map(|kind| self.result_type(ir, info, *kind)).collect()
            }
            (Op::Inline(op), _) => op.results.iter().copied().collect(),
            (_, None) => SmallVec::new(),
        }
    }

    fn result_type(&self, ir: &KernelIr, info: &OpInfo, kind: ResultKind) -> Option<Type> {
        match kind {
            ResultKind::Unit => None,
            ResultKind::Bool => Some(Type::BOOL),
            ResultKind::U32 => Some(Scalar::U32.into()),
            ResultKind::U64 => Some(Scalar::U64.into()),
            ResultKind::T => self.type_of_operand(ir, info, Constraint::T),
            ResultKind::Elem => self.pointee(ir, info).map(Type::from),
            ResultKind::ElemVector if matches!(self, Op::Atomic(_)) => {
                self.type_of_operand(ir, info, Constraint::ElemVector)
            }
            ResultKind::ElemVector => {
                VectorType::new(self.pointee(ir, info)?, self.made_lanes()?).map(Type::Vector)
            }
            ResultKind::PointerTo => {
                let base = self.type_of_operand(ir, info, Constraint::Pointer)?;
                match (base, self) {
                    (
                        Type::Pointer { space, mutable, .. },
                        Op::Mem(Mem::PtrCast { to: elem, .. }),
                    ) => Some(Type::Pointer { space, elem: *elem, mutable }),
                    _ => None,
                }
            }
            ResultKind::ClusterPointer => self.pointer_into(ir, info, Space::SharedCluster),
            ResultKind::GenericPointer => self.pointer_into(ir, info, Space::Generic),
            ResultKind::PointerInto => match self {
                Op::Mem(Mem::CvtaTo { space, .. }) => self.pointer_into(ir, info, *space),
                _ => None,
            },
            ResultKind::GlobalPointer => {
                let elem = self.type_of_attribute(ir)?.scalar()?;
                Some(Type::Pointer { space: Space::Global, elem, mutable: true })
            }
            ResultKind::Address => {
                space_support::address(self.type_of_operand(ir, info, Constraint::Pointer)?)
            }
            ResultKind::Map => self.type_of_operand(ir, info, Constraint::TensorMap),
            ResultKind::To => self.converted(ir, info),
            ResultKind::Wide => self.wide(ir, info),
            ResultKind::Dot => Some(self.dot(ir)),
            ResultKind::PackTo => {
                let to = self.type_of_attribute(ir)?.scalar()?;
                VectorType::new(to, self.made_lanes()?).map(Type::Vector)
            }
            ResultKind::Pack | ResultKind::Splat => self.vector(ir, info),
            ResultKind::Lane => {
                let vector = self.type_of_operand(ir, info, Constraint::T)?.vector()?;
                Some(vector.elem().into())
            }
            ResultKind::As
            | ResultKind::Reg
            | ResultKind::SharedPointer
            | ResultKind::LocalPointer
            | ResultKind::ArrayPointer
            | ResultKind::GlobalArrayPointer
            | ResultKind::VarElem => self.type_of_attribute(ir),
        }
    }

    /// Returns the type of the pointer operand, moved to another space.
    fn pointer_into(&self, ir: &KernelIr, info: &OpInfo, space: Space) -> Option<Type> {
        space_support::into(self.type_of_operand(ir, info, Constraint::Pointer)?, space)
    }

    /// Returns the integer type twice as wide as `T`.
    pub(in crate::ir) fn wide(&self, ir: &KernelIr, info: &OpInfo) -> Option<Type> {
        match self.type_of_operand(ir, info, Constraint::T)?.scalar()? {
            Scalar::I16 => Some(Scalar::I32.into()),
            Scalar::U16 => Some(Scalar::U32.into()),
            Scalar::I32 => Some(Scalar::I64.into()),
            Scalar::U32 => Some(Scalar::U64.into()),
            _ => None,
        }
    }

    /// Returns the accumulator type of a `dp4a` or `dp2a`: `i32` if any operand is signed,
    /// otherwise `u32`.
    pub(in crate::ir) fn dot(&self, ir: &KernelIr) -> Type {
        let signed = self.operands().into_iter().any(|value| {
            let vector = ir.values.get(value).and_then(|value| value.ty.vector());
            vector.is_some_and(|vector| vector.elem().is_signed())
        });
        if signed { Scalar::I32.into() } else { Scalar::U32.into() }
    }

    /// Returns the type of the attribute `to`; for a vector operand, the vector of as many `to`
    /// elements.
    fn converted(&self, ir: &KernelIr, info: &OpInfo) -> Option<Type> {
        let to = self.type_of_attribute(ir)?;
        match self.type_of_operand(ir, info, Constraint::T)? {
            Type::Vector(vector) => VectorType::new(to.scalar()?, vector.lanes()).map(Type::Vector),
            Type::Scalar(_) | Type::Pointer { .. } | Type::TensorMap { .. } => Some(to),
        }
    }

    /// Returns the vector type that the operation packs its scalars into, if it exists.
    fn vector(&self, ir: &KernelIr, info: &OpInfo) -> Option<Type> {
        let elem = self.type_of_operand(ir, info, Constraint::T)?.scalar()?;
        VectorType::new(elem, self.made_lanes()?).map(Type::Vector)
    }

    /// Returns how many elements the vector has that the operation packs or loads.
    pub(in crate::ir) fn made_lanes(&self) -> Option<u32> {
        if let Op::Convert(Convert::VecPack { values } | Convert::CvtPack { values, .. }) = self {
            u32::try_from(values.len()).ok()
        } else if let Op::Convert(Convert::VecSplat { lanes, .. })
        | Op::Mem(Mem::LdVec { lanes, .. }) = self
        {
            Some(*lanes)
        } else if let Op::Mma(Mma::Ldmatrix { count, .. }) = self {
            Some(2 * count.matrices())
        } else {
            None
        }
    }

    /// Returns the type that the operand `base` points to.
    pub(in crate::ir) fn pointee(&self, ir: &KernelIr, info: &OpInfo) -> Option<Scalar> {
        let base = self
            .type_of_operand(ir, info, Constraint::Pointer)
            .or_else(|| self.type_of_operand(ir, info, Constraint::MutPointer));
        match base? {
            Type::Pointer { elem, .. } => Some(elem),
            Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => None,
        }
    }

    /// Returns the type of the first operand with the given constraint.
    pub(in crate::ir) fn type_of_operand(
        &self,
        ir: &KernelIr,
        info: &OpInfo,
        constraint: Constraint,
    ) -> Option<Type> {
        let named = info.operands.iter().position(|(_, c)| *c == constraint);
        let listed = info.list.filter(|(_, c)| *c == constraint).map(|_| info.operands.len());
        let position = named.or(listed)?;
        ir.values.get(*self.operands().get(position)?).map(|value| value.ty)
    }

    /// Returns the type that an attribute stands for: a conversion's target, a special register's
    /// type, a variable's element, or the pointer to an allocation.
    pub(in crate::ir) fn type_of_attribute(&self, ir: &KernelIr) -> Option<Type> {
        let mut found = None;
        self.for_each_attribute(&mut |attribute| {
            if found.is_none() {
                found = parts::type_of(attribute, ir);
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_row_is_reached_by_its_variant() {
        let mut names: Vec<_> = Op::table().map(|info| info.name).collect();
        let rows = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows);
        assert_eq!(Op::from(Sync::Barrier {}).name(), "barrier");
        let v = <Value as crate::ir::entity::Entity>::from_index(0);
        assert_eq!(Op::from(Arith::Sqrt { value: v }).info().unwrap().operands[0].0, "value");
    }

    #[test]
    fn classes_sort_the_types() {
        let ptr = Type::Pointer { space: Space::Global, elem: Scalar::F32, mutable: false };
        assert!(Class::Any.contains(ptr) && Class::Pointer.contains(ptr));
        assert!(!Class::Scalar.contains(ptr) && !Class::Number.contains(Type::BOOL));
        assert!(Class::Bits.contains(Type::BOOL) && !Class::Int.contains(Type::BOOL));
        assert!(Class::Signed.contains(Scalar::F64.into()));
        assert!(!Class::Signed.contains(Scalar::U64.into()));
        let pair = Type::Vector(VectorType::F16X2);
        assert!(Class::Float.contains(pair) && !Class::ScalarFloat.contains(pair));
        assert!(Class::Data.contains(pair) && !Class::Scalar.contains(pair));
        assert!(Class::Scalar.contains(Scalar::F8E4M3.into()));
        assert!(!Class::Ordered.contains(Scalar::Tf32.into()));
    }
}
