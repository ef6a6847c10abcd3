//! Names of modes, which follow the modes of a tensor and stand in its errors.

use crate::ir::Body;
use crate::ir::builder::DeviceCoord;
use crate::layout::{ComposedLayout, LayoutError, NamedLayout, Names};

use super::engine::Engine;
use super::tensor::Tensor;

/// The layout argument of a tensor: a layout, a [`ComposedLayout`] with a swizzle, or a [`NamedLayout`], whose names the tensor
/// gets.
///
/// ```
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::layout::{layout, tiler};
/// use tilewright::tensor::Tensor;
///
/// let layout = layout!((64, 32) : (32, 1)).named(["m", "k"])?;
/// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
///     let tile = Tensor::new(k, a, layout.clone()).local_tile(k, &tiler!(16, 8), (0, ..));
///     assert_eq!(tile.to_string(), "ptr<f32, gmem, align<4>> o (16,8,4):(32,1,8) of (m,k,tiles of k)");
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorLayout {
    pub(in crate::tensor) layout: ComposedLayout,
    pub(in crate::tensor) names: Names,
}

impl<L: Into<ComposedLayout>> From<L> for TensorLayout {
    fn from(layout: L) -> Self {
        TensorLayout { layout: layout.into(), names: Names::default() }
    }
}

impl From<NamedLayout> for TensorLayout {
    #[inline]
    fn from(named: NamedLayout) -> Self {
        let (layout, names) = named.into_parts();
        TensorLayout { layout: layout.into(), names }
    }
}

impl From<&NamedLayout> for TensorLayout {
    #[inline]
    fn from(named: &NamedLayout) -> Self {
        named.clone().into()
    }
}

/// The names of the modes that a coordinate keeps.
#[inline]
pub(in crate::tensor) fn kept_names(names: &Names, coord: &DeviceCoord<'_>) -> Names {
    fn kept(coord: &DeviceCoord<'_>) -> usize {
        match coord {
            DeviceCoord::All => 1,
            DeviceCoord::Host(_) | DeviceCoord::Device(_) => 0,
            DeviceCoord::Tuple(items) => items.iter().map(kept).sum(),
        }
    }
    match coord {
        DeviceCoord::All => names.clone(),
        DeviceCoord::Tuple(items) => names.slice(items.iter().map(kept)),
        DeviceCoord::Host(_) | DeviceCoord::Device(_) => Names::default(),
    }
}

impl<'b, E: Engine<'b>> Tensor<E> {
    /// The same tensor with a name for each of its modes. Names follow their modes through slices, divides and
    /// tiles, and stand in the text of the tensor and of its errors.
    ///
    /// A number of names that is not the number of modes is an error of the build; so is a name that is empty or stands
    /// twice.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::Tensor;
    ///
    /// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(k, a, layout!((64, 32) : (32, 1))).named(k, ["m", "k"]);
    ///     let tiles = a.local_tile(k, &tiler!(16, 8), (k.block_idx().x, ..));
    ///     assert_eq!(tiles.to_string(), "ptr<f32, gmem, align<4>> o (16,8,4):(32,1,8) of (m,k,tiles of k)");
    ///     tiles.slice(k, (.., 0));
    /// })
    /// .unwrap_err();
    /// assert!(errors.to_string().contains("of (m,k,tiles of k): 3 modes are needed, 2 were given"));
    /// ```
    #[track_caller]
    pub fn named<N: Into<String>>(
        &self,
        k: &Body<'b, '_>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        if self.poisoned {
            return self.poison();
        }
        match Names::new(names, self.rank()) {
            Ok(names) => Tensor { names, ..self.clone() },
            Err(error) => {
                self.failed(k, "named", LayoutError::Name(error));
                self.clone()
            }
        }
    }
}
