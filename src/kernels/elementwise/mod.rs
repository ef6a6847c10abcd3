//! Elementwise kernels: a closure computes each output element from the input elements at the same
//! coordinate.

mod plan;
mod source;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::{Body, Global, GlobalMut, Kernel, Target, Untyped, Val};
use crate::layout::{ComposedLayout, Layout};
use crate::runtime::{AnyElement, BufferElement, Function, LoadOptions};
use crate::tensor::rows::{RowAccess, RowTile};

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::RowError;
pub use plan::ElementwiseTypes;
use plan::{Named, Plan};

/// What decides the generated code of an [`Elementwise`] kernel, besides its closure.
/// [`new`](ElementwiseConfig::new) chooses it for a number of inputs; set fields yourself if you
/// tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseConfig {
    /// The target.
    pub target: Target,
    /// Threads per block.
    pub threads: u32,
    /// 16-byte vectors of each input that a thread loads at once.
    pub vectors: u32,
}

impl ElementwiseConfig {
    /// Returns the configuration for this many inputs: a thread has 4 vectors in flight, but at
    /// least one per input.
    #[inline]
    pub fn new(target: Target, inputs: usize) -> Self {
        let vectors = (4 / inputs.clamp(1, 4)) as u32;
        ElementwiseConfig { target, threads: 256, vectors }
    }

    /// Returns configurations for a tuner to try, that of [`new`](ElementwiseConfig::new) first:
    /// 128 to 1024 threads per block, and 1 to 8 vectors per thread.
    #[inline]
    pub fn candidates(target: Target, inputs: usize) -> Vec<Self> {
        let mut found = vec![Self::new(target, inputs)];
        for vectors in [1, 2, 4, 8] {
            for threads in [256, 128, 512, 1024] {
                let config = ElementwiseConfig { target, threads, vectors };
                if !found.contains(&config) {
                    found.push(config);
                }
            }
        }
        found
    }

    /// Returns the tile that holds a block's elements.
    fn tile(&self, access: RowAccess) -> RowTile {
        let ElementwiseConfig { threads, vectors, .. } = *self;
        RowTile { threads, team: threads, cluster: 1, vectors, access }
    }
}

/// Prints the configuration's name, threads per block and vectors per thread: `256x4`.
impl fmt::Display for ElementwiseConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.threads, self.vectors)
    }
}

/// The inputs, the output, and the element count.
type Params<T, D, const N: usize> = ([Global<T>; N], GlobalMut<D>, i64);

/// Computes `y[i] = f(x0[i], x1[i], ..)` for `N` inputs of `T` and an output of `D`. Both types are
/// `f32`, `f16` or `bf16`, and `D` may be an `f8`; `f` computes in `f32`. With
/// [`with_layouts`](Elementwise::with_layouts), inputs can be broadcast or permuted.
///
/// A launch takes `&()` and `([&x0, &x1, ..], &mut y)`. It computes all elements of `y`; with
/// layouts, as many as the output's layout has. It does nothing if there are none.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::bf16;
/// use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
/// use tilewright::runtime::Device;
///
/// // SwiGLU: the gate, and the linear part.
/// let device = Device::sim()?;
/// let config = ElementwiseConfig::new(device.target(), 2);
/// let swiglu = Elementwise::<bf16, bf16, 2>::new(config, "swiglu", |_, [gate, linear]| {
///     gate.silu_fast() * linear
/// })?;
/// let (gate, linear) = (device.upload(&[bf16::from_f32(0.0); 101])?, device.zeros::<bf16>(101)?);
/// let mut y = device.upload(&[bf16::from_f32(7.0); 101])?;
/// swiglu.load(&device)?.launch(&(), ([&gate, &linear], &mut y))?;
/// assert_eq!(y.to_vec()?, [bf16::from_f32(0.0); 101]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Elementwise<T, D, const N: usize> {
    plan: Plan<N>,
    types: PhantomData<fn(T) -> D>,
}

impl<T: Converted, D: VectorElement<2> + Converted, const N: usize> Elementwise<T, D, N> {
    /// Builds a kernel called `name` that computes `f`.
    ///
    /// # Errors
    /// [`RowError::Tile`], [`RowError::Element`], or build errors.
    #[inline]
    pub fn new(
        config: ElementwiseConfig,
        name: &str,
        f: impl for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>,
    ) -> Result<Built<Self>, RowError> {
        Ok(Self::of(Plan::build(config, Self::named(name), &f)?))
    }

    /// Builds a kernel called `name` that computes `y[L(c)] = f(x0[L0(c)], x1[L1(c)], ..)` for all
    /// coordinates `c`. `L` is the output's layout, which must be compact. The inputs' layouts have
    /// the same shape: a stride of 0 broadcasts, and a negative stride with an offset reverses a
    /// mode.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
    /// use tilewright::layout::layout;
    /// use tilewright::runtime::Device;
    ///
    /// // A row is scaled by a number of its own, and each column has a bias: y[i][j] = x[i][j] * scale[i] + bias[j].
    /// let device = Device::sim()?;
    /// let (y, scale, bias) = (layout!((3, 40):(40, 1)), layout!((3, 40):(1, 0)), layout!((3, 40):(0, 1)));
    /// let affine = Elementwise::<f32, f32, 3>::with_layouts(
    ///     ElementwiseConfig::new(device.target(), 3),
    ///     "affine",
    ///     &y,
    ///     [&y, &scale, &bias].map(Into::into),
    ///     |_, [x, scale, bias]| x.fma(scale, bias),
    /// )?;
    /// let (x, scale) = (device.upload(&[2.0; 120])?, device.upload(&[1.0, 10.0, 100.0])?);
    /// let (bias, mut y) = (device.upload(&[0.5; 40])?, device.zeros::<f32>(120)?);
    /// affine.load(&device)?.launch(&(), ([&x, &scale, &bias], &mut y))?;
    /// assert_eq!(y.to_vec()?, [[2.5; 40], [20.5; 40], [200.5; 40]].concat());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`new`](Elementwise::new), [`RowError::Layout`] or
    /// [`RowError::TooLarge`].
    pub fn with_layouts(
        config: ElementwiseConfig,
        name: &str,
        output: &Layout,
        inputs: [ComposedLayout; N],
        f: impl for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>,
    ) -> Result<Built<Self>, RowError> {
        Ok(Self::of(Plan::with_layouts(config, Self::named(name), output, &inputs, &f)?))
    }

    fn named(name: &str) -> Named<'_> {
        Named { name, types: ElementwiseTypes { input: T::SCALAR, output: D::SCALAR } }
    }
}

impl<const N: usize> Elementwise<AnyElement, AnyElement, N> {
    /// Builds a kernel for element types that are values, otherwise as
    /// [`with_layouts`](Elementwise::with_layouts) does: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`with_layouts`](Elementwise::with_layouts).
    pub fn untyped(
        config: ElementwiseConfig,
        name: &str,
        types: ElementwiseTypes,
        output: &Layout,
        inputs: [ComposedLayout; N],
        f: impl for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>,
    ) -> Result<Built<Self>, RowError> {
        let named = Named { name, types };
        Ok(Self::of(Plan::with_layouts(config, named, output, &inputs, &f)?))
    }
}

impl<T: BufferElement, D: BufferElement, const N: usize> Elementwise<T, D, N> {
    fn of((kernel, plan): (Kernel<Untyped>, Plan<N>)) -> Built<Self> {
        Built::new(Elementwise { plan, types: PhantomData }, kernel)
    }
}

impl<T: BufferElement, D: BufferElement, const N: usize> ReadyKernel for Elementwise<T, D, N> {
    type Config = ElementwiseConfig;
    type Params = Untyped;
    type Problem = ();
    type Args<'a> = ([T::Ref<'a>; N], D::Mut<'a>);
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &ElementwiseConfig {
        &self.plan.config
    }

    fn share(&self, _: &Function<Self::Params>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Errors for inputs shorter than `y`, for buffers shorter than their layouts, and for
    /// misaligned buffers; [`RowError::TooLarge`]; those of [`Function::launch`].
    fn launch(
        &self,
        (): &(),
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.plan.bind(x.map(Into::into), y.into(), args))
    }
}
