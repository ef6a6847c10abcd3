//! Methods for operations that are a single PTX instruction, such as `popc`, generated from the
//! operation table's rows marked `method`. Come here if such a row needs an operand type that the
//! macro does not know.

use super::typed::{
    Arithmetic as ScalarNumber, Float as ScalarFloat, Fused as Float, Integer as Int, IntoOperand,
    Val,
};
use super::{Word as IntWord, Word32 as Int32};
use crate::ir::op::{
    ApproxFunction, Direction, Excess, FindFrom, FloatArith, FloatMode, FloatTest, IntArith,
    PermuteMode, ProductHalf, Subnormals,
};

/// Maps a constraint or result of a row to its Rust type; `T` is the row's type variable.
macro_rules! type_of {
    (T $t:ident) => {
        $t
    };
    (U32 $t:ident) => {
        u32
    };
    (Bool $t:ident) => {
        bool
    };
    (I32 $t:ident) => {
        i32
    };
    (F32 $t:ident) => {
        f32
    };
}

/// Expands to the method for one row, or to nothing if the row is not marked `method`. The bound on
/// `T` is named like the row's class.
macro_rules! row_method {
    (
        [method] [$($doc:tt)*] $Family:ident $name:ident $Variant:ident
        ($first:ident T $($operand:ident $constraint:ident)*) { $($attr:ident: $attr_ty:ty),* }
        $result:ident $class:ident
    ) => {
        impl<'b, T: $class> Val<'b, T> {
            $($doc)*
            ///
            #[doc = concat!("`self` is the operand `", stringify!($first), "`.")]
            #[track_caller]
            pub fn $name(
                self,
                $($operand: impl IntoOperand<'b, type_of!($constraint T)>,)*
                $($attr: $attr_ty,)*
            ) -> Val<'b, type_of!($result T)> {
                let cx = self.context();
                let $first = cx.operand(self);
                $(let $operand = cx.operand_of($operand);)*
                cx.emit_val($Family::$Variant { $first, $($operand,)* $($attr,)* })
            }
        }
    };
    ([] $($row:tt)*) => {};
}

macro_rules! row_methods {
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
        $($(row_method! {
            [$($($method)?)?] [$(#[$doc])*] $Family $name $Variant
            ($($operand $constraint)*) { $($attr: $attr_ty),* }
            $($result)+ $class
        })*)*
    };
}

crate::ir::op::table::for_each_op!(row_methods);
