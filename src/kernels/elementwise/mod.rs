//! Kernels that compute each element of an output from the elements with the same coordinate of some inputs.

mod launch;

use crate::codegen::Ptx;
use crate::ir::builder::{Converted, VectorElement};
use crate::ir::{Body, BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target, Val};
use crate::tensor::{RowAccess, RowTile};

use super::rows::{RowConfig, RowError};
pub use launch::ElementwiseFunction;

/// The configuration of an [`Elementwise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseConfig {
    /// The target.
    pub target: Target,
    /// The threads of a block.
    pub threads: u32,
    /// The vectors of 16 bytes of each input that a thread loads at once.
    pub vectors: u32,
}

impl ElementwiseConfig {
    /// The configuration for this number of inputs: a thread has 4 vectors in all, and at least one of each input.
    pub fn new(target: Target, inputs: usize) -> Self {
        let vectors = (4 / inputs.clamp(1, 4)) as u32;
        ElementwiseConfig { target, threads: 256, vectors }
    }

    /// The tile of the elements of a block.
    fn tile(&self) -> RowTile {
        let ElementwiseConfig { threads, vectors, .. } = *self;
        let access = RowAccess::Ragged;
        RowTile { threads, team: threads, cluster: 1, vectors, access, stages: 0 }
    }
}

/// The inputs, the output, and the number of elements.
type Params<T, D, const N: usize> = ([Global<T>; N], GlobalMut<D>, i64);

/// `y[i] = f(x0[i], x1[i], ..)` for `N` inputs of `T` and an output of `D`. Both types are `f32`, `f16` or `bf16`, and `D`
/// may be an `f8`; `f` computes with `f32`.
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
/// swiglu.load(&device)?.launch([&gate, &linear], &mut y)?;
/// assert_eq!(y.to_vec()?, [bf16::from_f32(0.0); 101]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Elementwise<T, D, const N: usize> {
    config: ElementwiseConfig,
    kernel: Kernel<Params<T, D, N>>,
}

impl<T: Converted, D: VectorElement<2> + Converted, const N: usize> Elementwise<T, D, N> {
    /// Builds the kernel `name` that computes `f`.
    ///
    /// # Errors
    /// [`RowError::Tile`], [`RowError::Element`]; those of the build.
    pub fn new(
        config: ElementwiseConfig,
        name: &str,
        f: impl for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>,
    ) -> Result<Self, RowError> {
        RowConfig { target: config.target, tile: config.tile() }.check()?;
        RowConfig::check_element("an input", T::SCALAR, false)?;
        RowConfig::check_element("the output", D::SCALAR, true)?;
        Ok(Elementwise { config, kernel: build(&config, name, f)? })
    }

    /// The configuration.
    pub fn config(&self) -> &ElementwiseConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }
}

/// The elements of a block are a row: all its vectors are whole, but for the end of the buffers.
fn build<T: Converted, D: VectorElement<2> + Converted, const N: usize>(
    config: &ElementwiseConfig,
    name: &str,
    f: impl for<'b> Fn(&mut Body<'b, '_>, [Val<'b, f32>; N]) -> Val<'b, f32>,
) -> Result<Kernel<Params<T, D, N>>, BuildErrors> {
    let tile = config.tile();
    let block = i64::from(tile.capacity(T::SCALAR));
    Kernel::<Params<T, D, N>>::build_with(tile.options(), name, config.target, |k, (x, y, len)| {
        let start = k.block_idx().x.cvt::<i64>() * block;
        let part = tile.part::<T>(k, start, (len - start).min(block).cvt::<i32>());
        let inputs = x.map(|x| part.load(k, x.offset(start), 0.0));
        let elements = inputs.first().map_or(0, Vec::len);
        let results: Vec<_> =
            (0..elements).map(|i| f(k, std::array::from_fn(|input| inputs[input][i]))).collect();
        part.store(k, y.offset(start), results);
    })
}
