//! Device-side assertions and `printf`, to debug a kernel or to check its inputs.

use super::body::Body;
use super::control::ids_of;
use super::typed::{IntoVal, Ty, Val};
use super::values::IntoValues;
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Diagnostic, ValueList};

/// # Assertions and printing
///
/// Tells the host what a thread found.
impl<'b> Body<'b, '_> {
    /// Reports `message` to the host if `cond` is false, with this Rust line, the block and the
    /// thread. The kernel continues, so guard what depends on the condition with an `if_` too.
    ///
    /// The simulator returns failed assertions from the launch, a GPU from the next call that waits
    /// for it; both as `RuntimeError::AssertFailed`. On a GPU an assertion that holds costs one
    /// branch. Kernels without assertions pay nothing, and
    /// [`Kernel::without_asserts`](crate::ir::Kernel::without_asserts) removes them.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid, RuntimeError};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>, i32)>::build("fill", Target::SM_80, |k, (x, n)| {
    ///     let i = k.thread_idx().x;
    ///     k.assert_with(i.lt(n), "thread {} has no element of {}", (i, n));
    ///     k.if_(i.lt(n), |_| x.store(i, 1.0));
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.zeros(3)?;
    /// let error = device.load(&kernel)?.launch(Grid::cover(4, 4), (&mut x, 3)).unwrap_err();
    /// let RuntimeError::AssertFailed(failed) = error else { panic!("{error}") };
    /// assert_eq!(failed.failures[0].message, "thread 3 has no element of 3");
    /// assert_eq!((failed.total, failed.failures[0].thread), (1, [3, 0, 0]));
    /// assert_eq!(x.to_vec()?, [1.0; 3]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("device_assert", "tl.device_assert"))]
    #[track_caller]
    pub fn assert(&self, cond: impl IntoVal<'b, bool>, message: &str) {
        self.assert_with(cond, message, ());
    }

    /// Asserts as [`assert`](Body::assert) does, with values for the placeholders in the message,
    /// which is a [`Format`](crate::ir::Format): at most 4 scalars, in the group's order.
    #[track_caller]
    pub fn assert_with<V: IntoValues<'b>>(
        &self,
        cond: impl IntoVal<'b, bool>,
        message: &str,
        values: V,
    ) {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (cond, values) = (cx.operand_of(cond), ids_of(cx, values));
        let assert = Diagnostic::Assert { cond, message: message.into(), values, element: None };
        cx.with(|state| state.append(assert.into(), location));
    }

    /// Reports `message` to the host if any of `conds` is false, with the index of the first false
    /// one.
    #[track_caller]
    #[inline]
    pub(crate) fn assert_each(&self, conds: &[Val<'b, bool>], message: &str) {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let none = i32::try_from(conds.len()).unwrap_or(i32::MAX);
        let mut first = cx.constant(none);
        for (i, cond) in conds.iter().enumerate().rev() {
            let number = cx.constant(i32::try_from(i).unwrap_or(i32::MAX));
            first = cond.select(first, number);
        }
        let cond = cx.operand(first.eq(none));
        let (element, values) = (Some(cx.operand(first)), ValueList::new());
        let assert = Diagnostic::Assert { cond, message: message.into(), values, element };
        cx.with(|state| state.append(assert.into(), location));
    }

    /// Prints as [`printf`](Body::printf) does, with values of one type.
    #[track_caller]
    pub(crate) fn printf_values<T: Ty>(
        &self,
        format: &str,
        values: impl IntoIterator<Item = Val<'b, T>>,
    ) {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let mut operands = ValueList::new();
        for value in values {
            operands.push(cx.operand(value));
        }
        let printf = Diagnostic::Printf { format: format.into(), values: operands };
        cx.with(|state| state.append(printf.into(), location));
    }

    /// Prints the text in every thread that gets here, with values for its placeholders: at most 32
    /// scalars, in the group's order. The text is a [`Format`](crate::ir::Format); end its lines
    /// with `\n` yourself.
    ///
    /// A GPU prints to the process's standard output when the host waits for the device, in no
    /// particular thread order (`vprintf`; see "Formatted Output" in the CUDA C++ Programming
    /// Guide). Its buffer keeps the last megabyte. The simulator prints at the end of a launch to
    /// the `Output` in its options, even if the kernel faults: block after block, thread after
    /// thread, and each thread in program order.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::sim;
    ///
    /// let kernel = Kernel::<(f32,)>::build("hello", Target::SM_80, |k, (a,)| {
    ///     let i = k.thread_idx().x;
    ///     k.printf("thread {:02}: {:.3}\n", (i, a * i.cvt::<f32>()));
    /// })?;
    /// let output = sim::Output::captured();
    /// let device = Device::sim_with(sim::Options::default().output(output.clone()));
    /// device.load(&kernel)?.launch(Grid::cover(2, 2), (0.1,))?;
    /// assert_eq!(output.take(), "thread 00: 0.000\nthread 01: 0.100\n");
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("device_print", "tl.device_print", "print"))]
    #[track_caller]
    pub fn printf<V: IntoValues<'b>>(&self, format: &str, values: V) {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let values = ids_of(cx, values);
        let printf = Diagnostic::Printf { format: format.into(), values };
        cx.with(|state| state.append(printf.into(), location));
    }
}
