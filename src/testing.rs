//! Evaluates one expression on one thread of a device. Use it in tests and for short bug reports.
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use tilewright::runtime::Device;
//! use tilewright::testing::eval;
//!
//! let device = Device::default()?; // a GPU if there is one, else the simulator
//! let x: f32 = eval(&device, |k| k.constant(2.0f32).sqrt())?;
//! assert_eq!(x, 2f32.sqrt());
//!
//! // Tuples and arrays, and everything that a kernel can do on the way.
//! let (sum, bits): (i32, [bool; 2]) = eval(&device, |k| {
//!     let sum = k.for_(tilewright::ir::range(0, 5), 0, |_, i, sum| sum + i);
//!     (sum, [sum.gt(9), sum.gt(10)])
//! })?;
//! assert_eq!((sum, bits), (10, [true, false]));
//! # }
//! # Ok::<(), tilewright::testing::EvalError>(())
//! ```

use std::fmt;

use crate::ir::builder::Values;
use crate::ir::{Body, BuildErrors, Element, Kernel};
use crate::runtime::{Arg, Buffer, Device, Grid, RuntimeError};

/// Runs `body` on one thread of the device and returns the values that it computes. Use it to test
/// a device expression without a kernel, buffers and a launch of your own. `T` is a scalar, or a
/// tuple or array of such types; `body` returns the matching device values.
///
/// # Errors
/// Returns [`EvalError::Build`] if the expression is wrong, and [`EvalError::Runtime`] if the
/// device reports a fault or if an assertion in `body` fails.
#[track_caller]
pub fn eval<T: Evaluated>(
    device: &Device,
    body: impl for<'b> FnOnce(&mut Body<'b, 'b>) -> <T::Group as Values>::At<'b>,
) -> Result<T, EvalError> {
    let kernel = Kernel::expression::<T::Group>(device.target(), body)?;
    let mut results = T::allocate(device)?;
    let mut args = Vec::new();
    T::pass(&mut results, &mut args);
    device.load(&kernel)?.launch(Grid::new([1; 3], [1; 3]), args)?;
    Ok(T::read(&results)?)
}

/// A host type that [`eval`] can return: a scalar, or a tuple or array of such types. You need not
/// implement it; use it as a bound in a test helper that calls [`eval`].
pub trait Evaluated: Sized {
    /// The matching device values, which the body returns: `f32` for an `f32`, for example.
    type Group: Values;
    /// The device buffers that receive the values.
    type Results;
    /// Allocates the buffers.
    ///
    /// # Errors
    /// Returns an error if the device cannot allocate a buffer.
    fn allocate(device: &Device) -> Result<Self::Results, RuntimeError>;
    /// Appends the buffers to a launch's arguments.
    fn pass<'h>(results: &'h mut Self::Results, args: &mut Vec<Arg<'h>>);
    /// Copies the values back to the host.
    ///
    /// # Errors
    /// Returns an error if the device reports one.
    fn read(results: &Self::Results) -> Result<Self, RuntimeError>;
}

impl<T: Element> Evaluated for T {
    type Group = T;
    type Results = Buffer<T>;

    fn allocate(device: &Device) -> Result<Buffer<T>, RuntimeError> {
        device.zeros(1)
    }

    fn pass<'h>(results: &'h mut Buffer<T>, args: &mut Vec<Arg<'h>>) {
        args.push(results.into());
    }

    fn read(results: &Buffer<T>) -> Result<T, RuntimeError> {
        let mut value = [T::default()];
        results.read_into(&mut value)?;
        let [value] = value;
        Ok(value)
    }
}

impl<T: Evaluated, const N: usize> Evaluated for [T; N] {
    type Group = [T::Group; N];
    type Results = Vec<T::Results>;

    fn allocate(device: &Device) -> Result<Vec<T::Results>, RuntimeError> {
        (0..N).map(|_| T::allocate(device)).collect()
    }

    fn pass<'h>(results: &'h mut Vec<T::Results>, args: &mut Vec<Arg<'h>>) {
        results.iter_mut().for_each(|part| T::pass(part, args));
    }

    fn read(results: &Vec<T::Results>) -> Result<[T; N], RuntimeError> {
        let values: Vec<T> = results.iter().map(T::read).collect::<Result<_, _>>()?;
        // `allocate` made one buffer for each element.
        values
            .try_into()
            .map_err(|_| RuntimeError::LengthMismatch { buffer: results.len(), host: N })
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: Evaluated),+> Evaluated for ($($name,)+) {
            type Group = ($($name::Group,)+);
            type Results = ($($name::Results,)+);

            fn allocate(device: &Device) -> Result<Self::Results, RuntimeError> {
                Ok(($($name::allocate(device)?,)+))
            }

            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            fn pass<'h>(($($name,)+): &'h mut Self::Results, args: &mut Vec<Arg<'h>>) {
                $(<$name as Evaluated>::pass($name, args);)+
            }

            #[allow(non_snake_case, reason = "one name serves as type and as variable")]
            fn read(($($name,)+): &Self::Results) -> Result<Self, RuntimeError> {
                Ok(($(<$name as Evaluated>::read($name)?,)+))
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

/// Why [`eval`] returned no value: the expression is wrong, or it failed on the device.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalError {
    /// The expression does not build.
    Build(BuildErrors),
    /// The device could not run the expression, or reported a fault.
    Runtime(RuntimeError),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::Build(errors) => errors.fmt(f),
            EvalError::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EvalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EvalError::Build(errors) => Some(errors),
            EvalError::Runtime(error) => Some(error),
        }
    }
}

impl From<BuildErrors> for EvalError {
    fn from(errors: BuildErrors) -> EvalError {
        EvalError::Build(errors)
    }
}

impl From<RuntimeError> for EvalError {
    fn from(error: RuntimeError) -> EvalError {
        EvalError::Runtime(error)
    }
}
