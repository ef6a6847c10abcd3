//! Defines the arguments of launches that are tensor maps.

use std::fmt;
use std::marker::PhantomData;

use super::buffer::{Buffer, Memory};
use super::buffer_ref::BufferRef;
use super::cuda;
use super::error::RuntimeError;
use crate::arch::{TensorMapDesc, TensorMapError};
use crate::ir::Element;

/// A tensor in a buffer that a kernel reads through the tensor memory accelerator: the argument of a
/// [`TensorMap`](crate::ir::TensorMap) parameter. Made by [`Buffer::tensor_map`].
///
/// It borrows the buffer, so the tensor does not change hands or go away as long as there is a map of it. A
/// launch takes a copy of the map: the map may be dropped right after.
pub struct TensorMapArg<'b, T> {
    map: Mapped<'b>,
    elem: PhantomData<fn() -> T>,
}

/// As [`TensorMapArg`], of a tensor that the kernel may write: the argument of a
/// [`TensorMapMut`](crate::ir::TensorMapMut) parameter. Made by [`Buffer::tensor_map_mut`].
///
/// It borrows the buffer mutably, so nothing else reads or writes it in a launch that has the map.
pub struct TensorMapArgMut<'b, T> {
    map: Mapped<'b>,
    elem: PhantomData<fn() -> T>,
}

/// A map of a buffer, as its device reads it.
#[derive(Debug)]
pub(crate) struct Mapped<'b> {
    pub(super) desc: TensorMapDesc,
    pub(super) memory: &'b Memory,
    /// Of a buffer on a GPU: what the GPU reads.
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
    /// Returns the tensor that `map` describes, at the start of this buffer, for a kernel that reads it.
    ///
    /// # Errors
    /// [`TensorMap`](RuntimeError::TensorMap) where the elements differ or the tensor is larger than the
    /// buffer; [`Driver`](RuntimeError::Driver).
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
        Ok(TensorMapArg { map: Mapped::new((&*self).into(), map)?, elem: PhantomData })
    }

    /// As [`Buffer::tensor_map`], for a kernel that may write the tensor.
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
            /// Returns the description of the map.
            pub fn desc(&self) -> &TensorMapDesc {
                &self.map.desc
            }

            pub(super) fn mapped(&self) -> &Mapped<'_> {
                &self.map
            }
        }

        /// Writes the description of the map.
        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.map.desc)
            }
        }
    )*};
}

tensor_map_arg!(TensorMapArg TensorMapArgMut);
