//! Methods for operations that are a single PTX instruction, such as `popc`, generated from the
//! operation table's rows marked `method`. A row of a new class needs an `impl` in
//! `methods_by_class`.

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

/// Expands to the method for one row.
macro_rules! method {
    (
        [$($doc:tt)*] $Family:ident $name:ident $Variant:ident
        ($first:ident T $($operand:ident $constraint:ident)*) { $($attr:ident: $attr_ty:ty),* }
        $result:ident
    ) => {
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
    };
}

/// Expands to the method for one row, or to nothing if the row is not marked `method` or is of
/// another class than the first word. A marked row whose class has no `impl` does not compile.
macro_rules! row_method {
    ($wanted:ident: $class:ident [] $($row:tt)*) => {};
    (Float: Float [method] $($row:tt)*) => { method! { $($row)* } };
    (ScalarFloat: ScalarFloat [method] $($row:tt)*) => { method! { $($row)* } };
    (ScalarNumber: ScalarNumber [method] $($row:tt)*) => { method! { $($row)* } };
    (Int: Int [method] $($row:tt)*) => { method! { $($row)* } };
    (Int32: Int32 [method] $($row:tt)*) => { method! { $($row)* } };
    (IntWord: IntWord [method] $($row:tt)*) => { method! { $($row)* } };
    ($wanted:ident: Float $($row:tt)*) => {};
    ($wanted:ident: ScalarFloat $($row:tt)*) => {};
    ($wanted:ident: ScalarNumber $($row:tt)*) => {};
    ($wanted:ident: Int $($row:tt)*) => {};
    ($wanted:ident: Int32 $($row:tt)*) => {};
    ($wanted:ident: IntWord $($row:tt)*) => {};
}

/// Groups the rows by class, one `impl` for each. The bound on `T` is named like the class.
macro_rules! methods_by_class {
    ($({ $($row:tt)* })*) => {
        /// # Rounding modes, approximations and NaN
        ///
        /// Use these if the rounding or the NaN rule of the operators does not fit.
        impl<'b, T: Float> Val<'b, T> {
            $(row_method! { Float: $($row)* })*
        }

        /// # Division, roots and tests with a mode
        ///
        /// Divides, takes roots and classifies scalar floats.
        impl<'b, T: ScalarFloat> Val<'b, T> {
            $(row_method! { ScalarFloat: $($row)* })*
        }

        /// # Selection by sign
        ///
        /// Selects without a comparison.
        impl<'b, T: ScalarNumber> Val<'b, T> {
            $(row_method! { ScalarNumber: $($row)* })*
        }

        /// # Integer instructions
        ///
        /// Computes with integers of any width, each in one instruction.
        impl<'b, T: Int> Val<'b, T> {
            $(row_method! { Int: $($row)* })*
        }

        /// # 24-bit products, funnel shifts and bytes
        ///
        /// Computes with 32-bit integers, each in one instruction.
        impl<'b, T: Int32> Val<'b, T> {
            $(row_method! { Int32: $($row)* })*
        }

        /// # Bits
        ///
        /// Counts, finds and reverses the bits of a word.
        impl<'b, T: IntWord> Val<'b, T> {
            $(row_method! { IntWord: $($row)* })*
        }
    };
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
        methods_by_class! { $($({
            $class [$($($method)?)?] [$(#[$doc])*] $Family $name $Variant
            ($($operand $constraint)*) { $($attr: $attr_ty),* }
            $($result)+
        })*)* }
    };
}

crate::ir::op::table::for_each_op!(row_methods);
