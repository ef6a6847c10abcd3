//! Defines the tensor maps that a launch passes to a kernel which copies tiles by TMA. They tell
//! the hardware the tensor's address, shape and strides.

use std::fmt;
use std::marker::PhantomData;

use super::buffer::{Buffer, Memory};
use super::buffer_ref::BufferRef;
use super::cuda;
use super::error::RuntimeError;
use crate::arch::{TensorMapDesc, TensorMapError};
use crate::ir::Element;

/// A tensor map for a kernel that reads a buffer through TMA: the argument of a
/// [`TensorMap`](crate::ir::TensorMap) parameter. Made by [`Buffer::tensor_map`].
///
/// It borrows the buffer, so you cannot drop or write the buffer while the map exists. A launch
/// copies the map, so you can drop the map right after the launch.
pub struct TensorMapArg<'b, T> {
    map: Mapped<'b>,
    elem: PhantomData<fn() -> T>,
}

/// Like [`TensorMapArg`], but for a tensor that the kernel may write: the argument of a
/// [`TensorMapMut`](crate::ir::TensorMapMut) parameter. Made by [`Buffer::tensor_map_mut`].
///
/// It borrows the buffer mutably, so a launch that takes the map cannot also take the buffer.
pub struct TensorMapArgMut<'b, T> {
    map: Mapped<'b>,
    elem: PhantomData<fn() -> T>,
}

/// A tensor map over a buffer, in the form that the device needs.
#[derive(Debug)]
pub(crate) struct Mapped<'b> {
    pub(super) desc: TensorMapDesc,
    pub(super) memory: &'b Memory,
    /// The map as the GPU reads it; `None` on the simulator.
    pub(super) encoded: Option<cuda::EncodedMap>,
}

impl<'b> Mapped<'b> {
    pub(super) fn new(
        buffer: BufferRef<'b>,
        desc: &TensorMapDesc,
    ) -> Result<Mapped<'b>, RuntimeError> {
        let scalar = buffer.scalar();
        if desc.elem() != scalar {
            return Err(TensorMapError::Element { map: desc.elem(), buffer: scalar }.into());
        }
        let tensor_bytes = desc.tensor_bytes();
        let buffer_bytes = buffer.len() as u64 * u64::from(scalar.size_bytes());
        if tensor_bytes > buffer_bytes {
            return Err(TensorMapError::BufferTooSmall { tensor_bytes, buffer_bytes }.into());
        }
        let memory = buffer.memory();
        Ok(Mapped {
            desc: desc.clone(),
            memory,
            encoded: match memory {
                Memory::Sim(_) => None,
                Memory::Cuda(memory) => Some(cuda::EncodedMap::new(desc, memory)?),
            },
        })
    }
}

impl<T: Element> Buffer<T> {
    /// Returns a tensor map for a kernel that reads the tensor which `map` describes and which
    /// starts at this buffer's first element. Make it before the launch and pass it instead of the
    /// buffer.
    ///
    /// # Errors
    /// [`TensorMap`](RuntimeError::TensorMap) if the element types differ or the tensor is larger
    /// than the buffer; [`Driver`](RuntimeError::Driver).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::arch::TensorMapDesc;
    /// use tilewright::ir::{Kernel, Target, TensorMap};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{Layout, layout};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let device = Device::sim()?;
    /// let kernel = Kernel::<(TensorMap<f32, 2>,)>::build("k", Target::SM_90A, |_, _| ())?;
    /// let x = device.zeros::<f32>(100 * 64)?;
    /// let (matrix, tile) = (Layout::row_major((100, 64)), layout!((8, 32):(32, 1)));
    /// let map = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &tile.into())?;
    /// device.load(&kernel)?.launch(Grid::cover(1, 32), (&x.tensor_map(&map)?,))?;
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor_map(&self, map: &TensorMapDesc) -> Result<TensorMapArg<'_, T>, RuntimeError> {
        Ok(TensorMapArg { map: Mapped::new(self.into(), map)?, elem: PhantomData })
    }

    /// Like [`Buffer::tensor_map`], but for a kernel that may write the tensor.
    ///
    /// # Errors
    /// Those of [`Buffer::tensor_map`].
    pub fn tensor_map_mut(
        &mut self,
        map: &TensorMapDesc,
    ) -> Result<TensorMapArgMut<'_, T>, RuntimeError> {
        Ok(TensorMapArgMut { map: Mapped::new((&*self).into(), map)?, elem: PhantomData })
    }
}

macro_rules! tensor_map_arg {
    ($($name:ident)*) => {$(
        impl<T> $name<'_, T> {
            /// Returns the description that the map was made from: shape, strides, box and swizzle.
            pub fn desc(&self) -> &TensorMapDesc {
                &self.map.desc
            }

            pub(super) fn mapped(&self) -> &Mapped<'_> {
                &self.map
            }
        }

        /// Shows the map's description.
        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.map.desc)
            }
        }
    )*};
}

tensor_map_arg!(TensorMapArg TensorMapArgMut);
