//! [`ElementConfig`]: a kernel's configuration with the type of its elements.

use std::fmt;

use tilewright::ir::types::Scalar;

/// The configuration of a ready kernel, and the type of the elements for which the kernel is built.
/// It is the configuration of tunables whose element type is a run-time value, such as
/// [`SoftmaxTunable`](super::SoftmaxTunable).
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::kernels::softmax::Softmax;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{SoftmaxTunable, Tunable};
///
/// let softmax = SoftmaxTunable::new(Scalar::Bf16, RowProblem::new(5, 300));
/// let configs = softmax.space(&Device::sim()?);
/// assert_eq!(configs[0].elem, Scalar::Bf16);
/// let kernel = Softmax::<bf16>::new(configs[0].config)?;
/// assert_eq!(kernel.config().to_string(), configs[0].to_string());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementConfig<C> {
    /// The kernel's configuration.
    pub config: C,
    /// The element type.
    pub elem: Scalar,
}

impl<C> ElementConfig<C> {
    /// Returns configurations for elements of one type.
    pub(super) fn all(elem: Scalar, configs: impl IntoIterator<Item = C>) -> Vec<Self> {
        configs.into_iter().map(|config| ElementConfig { config, elem }).collect()
    }
}

/// Prints the name of the kernel's configuration.
impl<C: fmt::Display> fmt::Display for ElementConfig<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
