//! Macros for layouts, shapes, coordinates and tilers in CuTe's notation. Use them if the nesting
//! is known when you write the code.
//!
//! An exported macro lands in the crate root, where we hide it under another name. Readers use the
//! re-exports at the end. Each of them needs `#[doc(inline)]`, here and wherever it is exported
//! again, or it has no page.

/// Writes a layout in CuTe's notation: `layout!((4, (2, 8)):(2, (1, 8)))`. Without strides you get
/// the compact column-major layout.
///
/// The shape is one literal, name or tuple; strides are expressions. Extents and strides may have
/// any integer type or be an [`Int`](crate::layout::Int); a stride may also be a
/// [`ScaledBasis`](crate::layout::ScaledBasis). If shape and stride are nested differently, the
/// macro does not compile.
///
/// ```
/// use tilewright::layout::{Layout, layout};
/// let (n, row_pitch): (i32, usize) = (8, 8);
/// assert_eq!(layout!((4, (2, n)):(2, (1, row_pitch))).to_string(), "(4,(2,8)):(2,(1,8))");
/// assert_eq!(layout!((4, 8)), Layout::compact((4, 8)));
/// ```
///
/// ```compile_fail
/// let l = tilewright::layout::layout!((4, (2, 8)):(2, 1));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __layout {
    ($shape:tt : $($stride:tt)+) => {{
        let mut b = $crate::layout::LayoutBuilder::new();
        $crate::__layout_modes!(b [$shape] [$($stride)+]);
        b.finish_literal()
    }};
    ($shape:tt) => {
        $crate::layout::Layout::compact($crate::__tuple!(@one $crate::layout::Int; $shape))
    };
}

/// Pushes the modes of a shape and a stride, entry by entry.
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_modes {
    ($b:ident [] []) => {};
    ($b:ident [($($s:tt)*) $(, $($sr:tt)*)?] [($($d:tt)*) $(, $($dr:tt)*)?]) => {
        $b.open();
        $crate::__layout_modes!($b [$($s)*] [$($d)*]);
        $b.close();
        $crate::__layout_modes!($b [$($($sr)*)?] [$($($dr)*)?]);
    };
    ($b:ident [$s:expr $(, $($sr:tt)*)?] [$d:expr $(, $($dr:tt)*)?]) => {
        $b.push($s, $d);
        $crate::__layout_modes!($b [$($($sr)*)?] [$($($dr)*)?]);
    };
}

/// Pushes the entries of a tuple with leaves of any type.
#[doc(hidden)]
#[macro_export]
macro_rules! __tuple {
    (@items $b:ident []) => {};
    (@items $b:ident [_ $(, $($r:tt)*)?]) => {
        $b.push($crate::layout::Underscore);
        $crate::__tuple!(@items $b [$($($r)*)?]);
    };
    (@items $b:ident [($($s:tt)*) : ($($d:tt)*) $(, $($r:tt)*)?]) => {
        $b.push($crate::__layout!(($($s)*):($($d)*)));
        $crate::__tuple!(@items $b [$($($r)*)?]);
    };
    (@items $b:ident [$s:tt : $d:tt $(, $($r:tt)*)?]) => {
        $b.push($crate::__layout!($s:$d));
        $crate::__tuple!(@items $b [$($($r)*)?]);
    };
    (@items $b:ident [($($s:tt)*) $(, $($r:tt)*)?]) => {
        $b.open();
        $crate::__tuple!(@items $b [$($s)*]);
        $b.close();
        $crate::__tuple!(@items $b [$($($r)*)?]);
    };
    (@items $b:ident [$e:expr $(, $($r:tt)*)?]) => {
        $crate::layout::IntoTuple::push_into($e, &mut $b);
        $crate::__tuple!(@items $b [$($($r)*)?]);
    };
    (@one $leaf:ty; $($s:tt)*) => {{
        let mut b = $crate::layout::Builder::<$leaf>::new();
        $crate::__tuple!(@items b [$($s)*]);
        b.finish().unwrap_or_default()
    }};
    ($leaf:ty; $($items:tt)*) => {{
        let mut b = $crate::layout::Builder::<$leaf>::new();
        b.open();
        $crate::__tuple!(@items b [$($items)*]);
        b.close();
        b.finish().unwrap_or_default()
    }};
}

/// Writes a shape. If there are several entries, the macro's parentheses are those of the tuple:
/// `shape!(4, (2, 8))` is `(4,(2,8))`. One entry stands for itself, as in [`layout!`]: `shape!(24)`
/// is `24`, and `shape!((24))` or `shape!(24,)` is `(24)`.
///
/// ```
/// use tilewright::layout::{Int, IntTuple, shape};
/// let n = Int::symbol("n");
/// assert_eq!(shape!(4, (2, n)).to_string(), "(4,(2,n))");
/// assert_eq!((shape!(24), shape!((24)).to_string()), (IntTuple::from(24), "(24)".into()));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __shape {
    ($one:tt) => { $crate::__tuple!(@one $crate::layout::Int; $one) };
    ($one:expr) => { $crate::__tuple!(@one $crate::layout::Int; $one) };
    ($($items:tt)*) => { $crate::__tuple!($crate::layout::Int; $($items)*) };
}

/// Writes an integer tuple that is not a shape, such as an order, a profile or a coordinate without
/// `_`. It works like [`shape!`].
///
/// ```
/// use tilewright::layout::{Layout, LayoutError, shape, tuple};
/// // The second mode runs fastest.
/// let rows = Layout::ordered(&shape!(4, 8), &tuple!(1, 0))?;
/// assert_eq!(rows.to_string(), "(4,8):(8,1)");
/// # Ok::<(), LayoutError>(())
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __int_tuple {
    ($($items:tt)*) => { $crate::__shape!($($items)*) };
}

/// Writes a coordinate, with `_` for whole modes: `coord!(1, (_, 2))`. Pass it to
/// [`Layout::slice`](crate::layout::Layout::slice) and
/// [`Layout::local_tile`](crate::layout::Layout::local_tile).
///
/// ```
/// use tilewright::layout::coord;
/// assert_eq!(coord!(1, (_, 2)).to_string(), "(1,(_,2))");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __coord {
    ($($items:tt)*) => { $crate::__tuple!($crate::layout::Slot; $($items)*) };
}

/// Writes a tiler of integers, layouts, `_` and tuples: `tiler!(2, 4:1, (_, 8))`. Pass it to
/// divides, products and compositions.
///
/// ```
/// use tilewright::layout::tiler;
/// assert_eq!(tiler!(2, 4:1, (_, 8)).to_string(), "(2,4:1,(_,8))");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __tiler {
    ($($items:tt)*) => { $crate::__tuple!($crate::layout::TilerLeaf; $($items)*) };
}

#[doc(inline)]
pub use crate::{
    __coord as coord, __int_tuple as tuple, __layout as layout, __shape as shape, __tiler as tiler,
};
