//! An operation of your own for candle: `cargo run --example custom_op`.

use candle_core::{Device, Layout, Shape, Tensor};
use tilewright_candle::bridge::{AnyError, Float, Input, Operation, Place, apply};
use tilewright_candle::tilewright::prelude::{Buffer, Function, Global, GlobalMut, Grid, Kernel};

/// The square of each element.
struct Square;

impl Operation<1> for Square {
    fn name(&self) -> &'static str {
        "square"
    }

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x]: [Input<'_, T>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        type Params<E> = (Global<E>, GlobalMut<E>, u32);
        let square = place.loaded((), || -> Result<Function<Params<T::Own>>, AnyError> {
            let target = place.device.target();
            let kernel = Kernel::<Params<T::Own>>::build("square", target, |k, (x, y, n)| {
                let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
                k.if_(i.cvt::<u32>().lt(n), |_| y.store(i, x.load(i) * x.load(i)));
            })?;
            Ok(place.device.load(&kernel)?)
        })?;
        let (grid, count) = (Grid::cover(y.len(), 256), y.len().try_into()?);
        Ok(square.launch_with(place.options, grid, (x.buffer, y, count))?)
    }
}

fn main() -> candle_core::Result<()> {
    let x = Tensor::new(&[1f32, 2.0, 3.0], &Device::Cpu)?;
    assert_eq!(apply(Square, [&x])?.to_vec1::<f32>()?, [1.0, 4.0, 9.0]);
    Ok(())
}
