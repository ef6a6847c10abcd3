//! [`ElementwiseTunable`]: an elementwise kernel as a [`Tunable`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::data;
use super::definition::{Definition, Y, is_close};
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Body, Target, Val};
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig, ElementwiseTypes};
use tilewright::kernels::{Built, Loaded};
use tilewright::layout::{ComposedLayout, Layout};
use tilewright::runtime::{AnyBuffer, AnyElement, Device, LaunchOptions, Stream};

/// A function of the elements at the same coordinate, as a [`Tunable`]. It tunes the threads per
/// block and the vectors per thread. To check a result, it computes the same function element by
/// element.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, ElementwiseTunable, Regime, Tuner, TuningStore};
///
/// // A scale for each row.
/// let (y, scale) = (layout!((3, 40):(40, 1)), layout!((3, 40):(1, 0)));
/// let inputs = [&y, &scale].map(Into::into);
/// let scaled = ElementwiseTunable::new("scaled", Scalar::F32, &y, inputs, |_, [x, scale]| x * scale);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let tuned = Tuner::new(&Device::sim()?).tune(&scaled, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ElementwiseTunable<const N: usize, F> {
    kernel: Arc<Parts<N, F>>,
    /// The element type of the output.
    output: Scalar,
}

/// What all configurations of a kernel share.
struct Parts<const N: usize, F> {
    name: &'static str,
    elem: Scalar,
    output: Layout,
    inputs: [ComposedLayout; N],
    f: F,
}

impl<const N: usize, F> fmt::Debug for Parts<N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<const N: usize, F> fmt::Display for Parts<N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(ToString::to_string).collect();
        write!(f, "{}<-{}", self.output, inputs.join(","))
    }
}

/// A configuration of an [`ElementwiseTunable`], together with the function that it computes.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{ElementwiseTunable, Tunable};
///
/// let y = layout!((3, 40):(40, 1));
/// let inputs = [&y].map(Into::into);
/// let twice = ElementwiseTunable::new("twice", Scalar::F32, &y, inputs, |_, [x]| x + x);
/// let choice = &twice.space(&Device::sim()?)[0];
/// assert_eq!(choice.to_string(), format!("twice_{}", choice.config()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ElementwiseChoice<const N: usize, F> {
    config: ElementwiseConfig,
    output: Scalar,
    kernel: Arc<Parts<N, F>>,
}

impl<const N: usize, F> ElementwiseChoice<N, F> {
    /// Returns the kernel configuration.
    pub fn config(&self) -> ElementwiseConfig {
        self.config
    }

    fn key(&self) -> (ElementwiseConfig, &str, [Scalar; 2], String) {
        let Parts { name, elem, .. } = &*self.kernel;
        (self.config, name, [*elem, self.output], self.kernel.to_string())
    }
}

impl<const N: usize, F> Clone for ElementwiseChoice<N, F> {
    fn clone(&self) -> Self {
        ElementwiseChoice { kernel: Arc::clone(&self.kernel), ..*self }
    }
}

impl<const N: usize, F> PartialEq for ElementwiseChoice<N, F> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<const N: usize, F> Eq for ElementwiseChoice<N, F> {}

impl<const N: usize, F> Hash for ElementwiseChoice<N, F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl<const N: usize, F> fmt::Debug for ElementwiseChoice<N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Prints the function's name and the configuration: `scaled_256x2`.
impl<const N: usize, F> fmt::Display for ElementwiseChoice<N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.kernel.name, self.config)
    }
}

impl<const N: usize, F> ElementwiseTunable<N, F>
where
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32> + Send + Sync,
{
    /// Returns the tunable for function `f`, called `name`, with elements of this type:
    /// `f32`, `f16` or `bf16`. The other arguments are those of
    /// [`Elementwise::with_layouts`](tilewright::kernels::elementwise::Elementwise::with_layouts).
    pub fn new(
        name: &'static str,
        elem: Scalar,
        output: &Layout,
        inputs: [ComposedLayout; N],
        f: F,
    ) -> Self {
        let kernel = Arc::new(Parts { name, elem, output: output.clone(), inputs, f });
        ElementwiseTunable { kernel, output: elem }
    }

    /// Sets another element type for the output, which may also be an `f8`.
    pub fn output(self, output: Scalar) -> Self {
        ElementwiseTunable { output, ..self }
    }
}

impl<const N: usize, F> Tunable for ElementwiseTunable<N, F>
where
    F: for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32> + Send + Sync,
{
    type Config = ElementwiseChoice<N, F>;
    type Kernel = Built<Elementwise<AnyElement, AnyElement, N>>;
    /// The inputs and the output.
    type Data = ([AnyBuffer; N], AnyBuffer);

    fn key(&self) -> String {
        let Parts { name, elem, .. } = &*self.kernel;
        format!("{name} of {elem} to {}: {}", self.output, self.kernel)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let configs = ElementwiseConfig::candidates(device.target(), N).into_iter();
        let choice = |config| ElementwiseChoice {
            config,
            output: self.output,
            kernel: Arc::clone(&self.kernel),
        };
        configs.map(choice).collect()
    }

    fn build(choice: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        let Parts { name, elem, output, inputs, f } = &*choice.kernel;
        let types = ElementwiseTypes { input: *elem, output: choice.output };
        Ok(Elementwise::untyped(choice.config, name, types, output, inputs.clone(), f)?)
    }

    fn bytes(&self) -> u64 {
        let Parts { elem, output, inputs, .. } = &*self.kernel;
        let read = inputs.iter().map(cosize).sum::<u64>() * u64::from(elem.size_bytes());
        read + size(output) * u64::from(self.output.size_bytes())
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        let Parts { elem, output, inputs, .. } = &*self.kernel;
        let input = |(number, input): (u32, &ComposedLayout)| {
            data::normal(device, *elem, set * N as u32 + number, cosize(input) as usize)
        };
        let x: Vec<_> = (0..).zip(inputs).map(input).collect::<Result<_, _>>()?;
        let x =
            x.try_into().map_err(|_| Rejection::Failed("there are too few inputs".to_owned()))?;
        Ok((x, AnyBuffer::zeros(device, self.output, size(output) as usize)?))
    }

    fn clear(&self, (_, y): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        elementwise: &Loaded<Elementwise<AnyElement, AnyElement, N>>,
        (x, y): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let x = x.each_ref().map(AnyBuffer::as_ref);
        Ok(elementwise.with(options).launch(&(), (x, y.as_mut()))?)
    }

    fn verify(&self, (x, y): &mut Self::Data) -> Result<(), Rejection> {
        let Parts { output, inputs, f, .. } = &*self.kernel;
        let items = ("elements", size(output));
        let plain = inputs.iter().map(|input| {
            let layout = input.outer_layout().ok()?;
            Some((layout, input.offset().as_static()?))
        });
        let inputs: Option<Vec<_>> = plain.collect();
        let inputs =
            inputs.ok_or_else(|| Rejection::Failed("a layout is not static".to_owned()))?;
        let (x, y) = (x.each_ref().map(AnyBuffer::as_ref), y.as_ref());
        Definition { x, y, list: None, sizes: [], items }.check(|k, at| {
            let values = std::array::from_fn(|i| {
                let (layout, start) = &inputs[i];
                let offset = k.crd2idx::<i64>(at.item.cvt::<i32>(), layout) + *start;
                at.x[i].load(offset).cvt::<f32>()
            });
            let (expected, to) = (f(k, values), k.crd2idx::<i64>(at.item.cvt::<i32>(), output));
            let found = at.y.load(to).cvt::<f32>();
            is_close(self.output, found, expected.cvt::<Y>().cvt::<f32>(), k.constant(1e-5))
        })
    }
}

/// Returns how many coordinates the layout has, or 0 if its shape is not static.
fn size(layout: &Layout) -> u64 {
    let size = layout.size().and_then(|size| size.to_static());
    size.map_or(0, i64::unsigned_abs)
}

/// Returns one more than the largest offset, or 0 if the layout is not static.
fn cosize(layout: &ComposedLayout) -> u64 {
    let cosize = layout.cosize().and_then(|size| size.to_static());
    cosize.map_or(0, i64::unsigned_abs)
}
