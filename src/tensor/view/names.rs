//! Mode names, such as `m` and `k`: they follow a tensor's modes through its views and appear in
//! its errors. Name the modes of a kernel's inputs if you want an error to say which one is wrong.

use crate::ir::builder::DeviceCoord;
use crate::layout::{ComposedLayout, LayoutError, NamedLayout, Names};

use super::engine::Engine;
use super::tensor::Tensor;

/// The layout argument of [`Tensor::new`]: a layout, a [`ComposedLayout`] with a swizzle, or a
/// [`NamedLayout`], which also names the tensor's modes.
///
/// ```
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::layout::{layout, tiler};
/// use tilewright::tensor::view::Tensor;
///
/// let layout = layout!((64, 32) : (32, 1)).named(["m", "k"])?;
/// Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (a,)| {
///     let tile = Tensor::new(a, layout.clone()).local_tile(&tiler!(16, 8), (0, ..));
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

/// Returns the names of the modes that a coordinate keeps.
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

/// # Mode names
///
/// Lets errors and printed tensors name the modes.
impl<'b, E: Engine<'b>> Tensor<E> {
    /// Returns the same tensor with one name per mode. Names follow their modes through slices,
    /// divides and tiles, and appear in the text of the tensor and of its errors.
    ///
    /// It is a build error if the name count differs from the rank, or if a name is empty or
    /// repeated.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::view::Tensor;
    ///
    /// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(a, layout!((64, 32) : (32, 1))).named(["m", "k"]);
    ///     let tiles = a.local_tile(&tiler!(16, 8), (k.block_idx().x, ..));
    ///     assert_eq!(tiles.to_string(), "ptr<f32, gmem, align<4>> o (16,8,4):(32,1,8) of (m,k,tiles of k)");
    ///     tiles.slice((.., 0));
    /// })
    /// .unwrap_err();
    /// assert!(errors.to_string().contains("of (m,k,tiles of k): 3 modes are needed, 2 were given"));
    /// ```
    #[track_caller]
    pub fn named<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> Self {
        let k = &self.body();
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
