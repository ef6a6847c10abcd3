//! [`Reported`]: typed errors that code on top of the builder, such as a library of tile
//! operations, adds to the build's errors. Use it if your own kernel functions can be called
//! wrongly.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::body::Body;
use super::error::BuildErrorKind;
use super::typed::Val;

/// An error of any type that code on top of the builder reported with [`Body::report`]. You can get
/// the original error back with [`downcast_ref`](Reported::downcast_ref).
///
/// ```
/// use tilewright::ir::builder::BuildErrorKind;
/// use tilewright::ir::{Kernel, Target};
/// use tilewright::layout::{LayoutError, layout};
///
/// let errors = Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     if let Err(error) = layout!(4:1).get(&[2]) {
///         k.report(error);
///     }
/// })
/// .unwrap_err();
/// let BuildErrorKind::Reported(reported) = &errors.iter().next().unwrap().kind else { panic!() };
/// assert!(matches!(reported.downcast_ref(), Some(LayoutError::NoSuchMode { mode: 2, .. })));
/// ```
#[derive(Clone)]
pub struct Reported(Arc<dyn Error + Send + Sync>);

impl Reported {
    /// Returns the original error if it is of type `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

/// Compares the messages.
impl PartialEq for Reported {
    fn eq(&self, other: &Reported) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}
impl Eq for Reported {}

impl fmt::Debug for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// # Error reports
///
/// Lets code on top of the builder add errors to those that the build returns.
impl Body<'_, '_> {
    /// Records an error at the caller's line; [`Kernel::build`](crate::ir::Kernel::build) returns
    /// it together with all others. Code on top of the builder uses it to report wrong use.
    #[track_caller]
    pub fn report(&self, error: impl Error + Send + Sync + 'static) {
        self.context().error(BuildErrorKind::Reported(Reported(Arc::new(error))));
    }
}

/// # Error reports
///
/// Lets code that has a value but no [`Body`] add errors to those that the build returns.
impl<T> Val<'_, T> {
    /// Records an error at the caller's line, in the build that the value belongs to. Use it in
    /// operators and other code that has a value but no [`Body`].
    #[track_caller]
    pub fn report(self, error: impl Error + Send + Sync + 'static) {
        self.context().error(BuildErrorKind::Reported(Reported(Arc::new(error))));
    }
}
