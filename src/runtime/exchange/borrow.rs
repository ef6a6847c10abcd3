//! Lends `cudarc` memory to launches of this crate, for programs that keep their slices.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice,
};

use super::cudarc::other_device;
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::buffer::{Buffer, Memory};
use crate::runtime::cuda::{self, Access, CudarcElement, Lent};
use crate::runtime::device::{Backend, Device};
use crate::runtime::error::RuntimeError;

/// References to `cudarc` memory that [`Device::borrow_cudarc`] turns into buffers.
/// `&CudaSlice<T>`, `&CudaView<T>` and `&CudaViewMut<T>` become `&Buffer<T>`; `&mut CudaSlice<T>`
/// and `&mut CudaViewMut<T>` become `&mut Buffer<T>`. Tuples of 1 to 8 references become tuples,
/// also if they are nested, and vectors become vectors. `T` is any [`CudarcElement`]: a slice of
/// `half::bf16` becomes a `Buffer<bf16>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `cudarc` memory that can be borrowed",
    note = "pass `&` or `&mut` of a `CudaSlice` or a view of one, or a tuple of these"
)]
pub trait CudarcSlices: Sealed {
    /// The buffers that the closure receives. They live as long as the borrow.
    type Buffers<'b>;
    /// The borrow itself. It ends when this value is dropped.
    #[doc(hidden)]
    type Held;
    /// Begins the borrow. [`Device::borrow_cudarc`] calls it before the closure.
    #[doc(hidden)]
    fn hold(self, device: &Device, scope: Scope) -> Result<Self::Held, RuntimeError>;
    /// Returns the borrow's buffers, which [`Device::borrow_cudarc`] passes to the closure.
    #[doc(hidden)]
    fn buffers(held: &mut Self::Held) -> Self::Buffers<'_>;
}

/// Implemented by this crate only. Only its name is public, which seals the trait above.
pub trait Sealed {}

/// Only [`Device::borrow_cudarc`] can create this, so nobody else can begin a borrow and then
/// forget it instead of dropping it.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Scope(());

/// A slice that is lent.
#[doc(hidden)]
pub struct Held<'s, T: Element> {
    /// The closure may swap it for another buffer. It is dropped before the loan ends.
    buffer: Buffer<T>,
    _lent: Lent<'s>,
}

impl<'s, T: Element> Held<'s, T> {
    /// Lends `len` elements.
    ///
    /// # Safety
    /// `access` returns the address of `len` elements that `cudarc` allocated in the context of
    /// `stream`. Until `'s` ends, nobody frees or writes them, and if `writes`, nobody reads them.
    unsafe fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        len: usize,
        writes: bool,
        access: Access<'s>,
    ) -> Result<Held<'s, T>, RuntimeError> {
        let context = match &device.backend {
            Backend::Cuda(context) => *context,
            Backend::Sim(_) => return Err(RuntimeError::AddressOnSimulator),
        };
        if !std::ptr::eq(cuda::context_of(stream)?, context) {
            return Err(other_device(stream, device));
        }
        if writes && T::SCALAR == Scalar::Bool {
            return Err(RuntimeError::BorrowedBool);
        }
        let (stream, bytes) =
            (cuda::Stream::from_cudarc(stream)?, len.saturating_mul(size_of::<T>()));
        // SAFETY: guaranteed by the caller.
        let (memory, lent) = unsafe { Lent::new(stream, bytes, access)? };
        Ok(Held { buffer: Buffer::from_memory(Memory::Cuda(memory), len), _lent: lent })
    }
}

/// Implements the borrow for each slice and view type.
macro_rules! lend {
    ($([$($mutable:tt)?] $Slice:ty, $ptr:ident, $writes:literal;)*) => {$(
        impl<'s, T: CudarcElement> Sealed for &'s $($mutable)? $Slice {}

        #[diagnostic::do_not_recommend]
        impl<'s, T: CudarcElement> CudarcSlices for &'s $($mutable)? $Slice {
            type Buffers<'b> = &'b $($mutable)? Buffer<T::Elem>;
            type Held = Held<'s, T::Elem>;

            fn hold(self, device: &Device, _: Scope) -> Result<Self::Held, RuntimeError> {
                let (stream, len) = (Arc::clone(DeviceSlice::stream(&*self)), self.len());
                let used = Arc::clone(&stream);
                let access = move |is_used: bool| {
                    let (address, recorded) = self.$ptr(&used);
                    if !is_used {
                        // Dropping it makes `cudarc` note a use.
                        mem::forget(recorded);
                    }
                    address
                };
                // SAFETY: the slice has `len` elements, which the trait says have the same bytes,
                // and is borrowed for `'s`.
                unsafe { Held::new(device, &stream, len, $writes, Box::new(access)) }
            }

            fn buffers(held: &mut Self::Held) -> Self::Buffers<'_> {
                &$($mutable)? held.buffer
            }
        }
    )*};
}

lend! {
    [] CudaSlice<T>, device_ptr, false;
    [] CudaView<'_, T>, device_ptr, false;
    [] CudaViewMut<'_, T>, device_ptr, false;
    [mut] CudaSlice<T>, device_ptr_mut, true;
    [mut] CudaViewMut<'_, T>, device_ptr_mut, true;
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: CudarcSlices),*> Sealed for ($($name,)*) {}

        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case, reason = "a variable is named as its type")]
        impl<$($name: CudarcSlices),*> CudarcSlices for ($($name,)*) {
            type Buffers<'b> = ($($name::Buffers<'b>,)*);
            type Held = ($($name::Held,)*);

            fn hold(self, device: &Device, scope: Scope) -> Result<Self::Held, RuntimeError> {
                let ($($name,)*) = self;
                Ok(($($name.hold(device, scope)?,)*))
            }

            fn buffers(held: &mut Self::Held) -> Self::Buffers<'_> {
                let ($($name,)*) = held;
                ($(<$name as CudarcSlices>::buffers($name),)*)
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
}

impl<S: CudarcSlices> Sealed for Vec<S> {}

#[diagnostic::do_not_recommend]
impl<S: CudarcSlices> CudarcSlices for Vec<S> {
    type Buffers<'b> = Vec<S::Buffers<'b>>;
    type Held = Vec<S::Held>;

    fn hold(self, device: &Device, scope: Scope) -> Result<Self::Held, RuntimeError> {
        self.into_iter().map(|slice| slice.hold(device, scope)).collect()
    }

    fn buffers(held: &mut Self::Held) -> Self::Buffers<'_> {
        held.iter_mut().map(S::buffers).collect()
    }
}

impl Device {
    /// Calls `f` with buffers that borrow `cudarc` memory, for example the arguments of an
    /// operation that `candle` calls. A launch takes these buffers like any others. The borrow ends
    /// when `f` returns.
    ///
    /// Compared with [`Buffer::from_cudarc`], the program keeps its slices, and nothing is
    /// allocated or freed.
    ///
    /// The host does not wait: work on the buffers runs after the work that `cudarc` has queued on
    /// the slices, and what `cudarc` queues on the slices later runs after the work from `f`, on
    /// whichever streams. If you launch on the slices' stream
    /// ([`Stream::from_cudarc`](crate::runtime::Stream::from_cudarc)), this needs no events.
    ///
    /// A graph cannot record launches with these buffers. If `f` moves a buffer out with
    /// [`std::mem::swap`], later uses fail with [`BorrowEnded`](RuntimeError::BorrowEnded).
    ///
    /// # Errors
    /// [`OtherDeviceStream`](RuntimeError::OtherDeviceStream),
    /// [`NotPrimaryContext`](RuntimeError::NotPrimaryContext),
    /// [`StreamCaptures`](RuntimeError::StreamCaptures);
    /// [`BorrowedBool`](RuntimeError::BorrowedBool) for a mutable slice of `bool`s;
    /// [`AddressOnSimulator`](RuntimeError::AddressOnSimulator); the fault of an earlier launch, if
    /// there was one; those of `f`.
    ///
    /// ```no_run
    /// use cudarc::driver::{CudaSlice, CudaView};
    /// use tilewright::ir::{Global, GlobalMut};
    /// use tilewright::runtime::{Function, Grid, LaunchOptions, RuntimeError, Stream};
    ///
    /// type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
    ///
    /// /// `y += a * x`, on the stream of `y`.
    /// fn add(
    ///     axpy: &Function<Axpy>,
    ///     a: f32,
    ///     x: &CudaView<'_, f32>,
    ///     y: &mut CudaSlice<f32>,
    /// ) -> Result<(), RuntimeError> {
    ///     let (n, stream) = (y.len(), Stream::from_cudarc(y.stream())?);
    ///     let options = LaunchOptions::default().stream(&stream);
    ///     axpy.device().borrow_cudarc((x, y), |(x, y)| {
    ///         axpy.launch_with(options, Grid::cover(n, 256), (a, x, y, n as i32))
    ///     })
    /// }
    /// ```
    ///
    /// The buffers cannot outlive the call:
    ///
    /// ```compile_fail
    /// # use cudarc::driver::CudaSlice;
    /// # use tilewright::runtime::{Buffer, Device, RuntimeError};
    /// # fn escape(device: &Device, x: &CudaSlice<f32>) -> Result<(), RuntimeError> {
    /// let mut kept: Option<&Buffer<f32>> = None;
    /// device.borrow_cudarc(x, |x| {
    ///     kept = Some(x);
    ///     Ok::<(), RuntimeError>(())
    /// })
    /// # }
    /// ```
    pub fn borrow_cudarc<S: CudarcSlices, R, E: From<RuntimeError>>(
        &self,
        slices: S,
        f: impl FnOnce(S::Buffers<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut held = slices.hold(self, Scope(()))?;
        f(S::buffers(&mut held))
    }
}
