//! Inline PTX, for instructions that the builder does not offer. Use it before you consider adding
//! a row to the op table.

use std::sync::Arc;

use super::body::Body;
use super::control::{add_results, ids_of};
use super::host_part::HostParts;
use super::joins::{made_of, types_of};
use super::values::{IntoValues, Values};
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Inline, InlinePtx};

/// # Inline PTX
///
/// Appends PTX text, for instructions that the builder does not have.
impl<'b> Body<'b, '_> {
    /// Appends PTX text as one operation with results of type `R`. Use it for an instruction that
    /// this crate does not have.
    ///
    /// The operands are a group of scalars and pointers, each in a register of its own; a pointer
    /// is an address in its own state space. The build checks that the text cannot break out of its
    /// scope, but only `ptxas` checks the instructions. The simulator runs the closure passed to
    /// [`InlinePtx::simulated`]. Without that closure, or with a pointer operand, it reports a
    /// fault that names the text.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::op::InlinePtx;
    /// use tilewright::runtime::Device;
    /// use tilewright::testing::eval;
    ///
    /// // Bit-wise: a where the mask has a one, else b.
    /// let choose = || {
    ///     InlinePtx::new("lop3.b32 %0, %1, %2, %3, 0xca;")
    ///         .pure()
    ///         .simulated(|operands, results| {
    ///             let (mask, a, b) = (operands[0], operands[1], operands[2]);
    ///             results[0] = mask & a | !mask & b;
    ///         })
    /// };
    /// let device = Device::default()?;
    /// let x: u32 = eval(&device, |k| {
    ///     let (mask, a) = (k.constant(0xff00u32), k.constant(0x1234u32));
    ///     k.ptx::<u32, _>(choose(), (mask, a, 0xabcdu32))
    /// })?;
    /// assert_eq!(x, 0x12cd);
    /// # }
    /// # Ok::<(), tilewright::testing::EvalError>(())
    /// ```
    #[doc(alias("asm", "inline_asm"))]
    #[track_caller]
    pub fn ptx<R: Values, V: IntoValues<'b>>(&self, ptx: InlinePtx, operands: V) -> R::At<'b> {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let operands = ids_of(cx, operands);
        let parts = HostParts::new();
        let types = types_of::<R>(&parts);
        let inline = Inline { ptx: Arc::new(ptx), operands, results: types.clone() };
        let op = cx.with(|state| state.append(inline.into(), location));
        made_of::<R>(cx, &mut add_results(cx, op, &types).into_iter(), &parts)
    }
}
