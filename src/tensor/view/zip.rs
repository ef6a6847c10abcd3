//! [`ZipTensor`]: slices and tiles several tensors of one shape together. Use it to keep the data
//! and its coordinates in step, for example for predication.

use crate::ir::builder::DeviceCoord;
use crate::layout::TilerRef;

use super::engine::Engine;
use super::tensor::Tensor;
use crate::tensor::error::{TensorError, TensorErrorKind};

mod sealed {
    /// Keeps other crates from adding tuples.
    pub trait Sealed {}
}

/// A tuple of tensors of the same shape that are sliced and tiled together: CuTe's zip tensor. Use
/// it for example for data and its coordinates, so that both always get the same view. The tuple
/// itself is what CuTe calls `unzip_tensor`.
///
/// ```
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::tensor::view::{CoordTensor, Tensor, ZipTensor};
///
/// type Signature = (Global<f32>, GlobalMut<f32>);
/// Kernel::<Signature>::build("k", Target::SM_80, |k, (x, y)| {
///     let x = Tensor::new(x, layout!((64, 32) : (32, 1)));
///     let y = Tensor::new(y, layout!((64, 32) : (1, 64)));
///     let coords = CoordTensor::identity(k, shape!(64, 32));
///     let (x, y, coords) = (x, y, coords)
///         .zip_local_tile(&tiler!(16, 8), (k.block_idx().x, k.block_idx().y))
///         .zip_slice((k.thread_idx().x, ..));
///     assert_eq!(x.layout().to_string(), "(8):(1)");
///     assert_eq!((y.layout().to_string(), coords.rank()), ("(8):(64)".into(), 1));
/// })?;
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
pub trait ZipTensor<'b>: sealed::Sealed + Sized {
    /// Slices each tensor at a coordinate: [`Tensor::slice`].
    ///
    /// It is a build error if the shapes differ, as in all methods of this trait.
    #[track_caller]
    fn zip_slice(&self, coord: impl Into<DeviceCoord<'b>>) -> Self;
    /// Takes a tile of each tensor: [`Tensor::local_tile`].
    #[track_caller]
    fn zip_local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: impl Into<DeviceCoord<'b>>,
    ) -> Self;
    /// Divides each tensor into (tile, tiles): [`Tensor::zipped_divide`].
    #[track_caller]
    fn zip_zipped_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Self;
    /// Groups the modes from `begin` to `end - 1` of each tensor: [`Tensor::group_modes`].
    #[track_caller]
    fn zip_group_modes(&self, begin: usize, end: usize) -> Self;
    /// Moves each tensor's origin to a coordinate: [`Tensor::domain_offset`].
    #[track_caller]
    fn zip_domain_offset(&self, coord: impl Into<DeviceCoord<'b>>) -> Self;
}

#[track_caller]
fn check<'b, A: Engine<'b>, B: Engine<'b>>(first: &Tensor<A>, other: &Tensor<B>) {
    if first.poisoned || other.poisoned || first.shape() == other.shape() {
        return;
    }
    let operand = format!("{first} and {other}");
    let (left, right) = (first.shape().to_string(), other.shape().to_string());
    let kind = TensorErrorKind::ZipShapes { left, right };
    first.body().report(TensorError { operation: "make_zip_tensor", operand, kind });
}

macro_rules! zips {
    ($($A:ident $a:tt $($T:ident $t:tt)+;)*) => {$(
        impl<$A, $($T),+> sealed::Sealed for (Tensor<$A>, $(Tensor<$T>),+) {}

        impl<'b, $A: Engine<'b>, $($T: Engine<'b>),+> ZipTensor<'b> for (Tensor<$A>, $(Tensor<$T>),+) {
            fn zip_slice(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
                let coord = coord.into();
                $(check(&self.0, &self.$t);)+
                (self.$a.slice(coord.clone()), $(self.$t.slice(coord.clone())),+)
            }

            fn zip_local_tile<'t>(
                &self,
                tiler: impl Into<TilerRef<'t>>,
                coord: impl Into<DeviceCoord<'b>>,
            ) -> Self {
                let (tiler, coord) = (tiler.into(), coord.into());
                $(check(&self.0, &self.$t);)+
                (
                    self.$a.local_tile(tiler, coord.clone()),
                    $(self.$t.local_tile(tiler, coord.clone())),+
                )
            }

            fn zip_zipped_divide<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Self {
                let tiler = tiler.into();
                $(check(&self.0, &self.$t);)+
                (self.$a.zipped_divide(tiler), $(self.$t.zipped_divide(tiler)),+)
            }

            fn zip_group_modes(&self, begin: usize, end: usize) -> Self {
                $(check(&self.0, &self.$t);)+
                (self.$a.group_modes(begin, end), $(self.$t.group_modes(begin, end)),+)
            }

            fn zip_domain_offset(&self, coord: impl Into<DeviceCoord<'b>>) -> Self {
                let coord = coord.into();
                $(check(&self.0, &self.$t);)+
                (
                    self.$a.domain_offset(coord.clone()),
                    $(self.$t.domain_offset(coord.clone())),+
                )
            }
        }
    )*};
}

zips! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
}
