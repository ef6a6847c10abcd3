use tilewright::arch::TensorMapDesc;
use tilewright::ir::{Global, TensorMapMut};
use tilewright::runtime::{Buffer, Function, Grid, RuntimeError};

type Store = Function<(Global<f32>, TensorMapMut<f32, 2>)>;

fn launch(f: &Store, mut y: Buffer<f32>, map: &TensorMapDesc) -> Result<(), RuntimeError> {
    let mut tensor = y.tensor_map_mut(map)?;
    f.launch(Grid::cover(100, 256), (&y, &mut tensor))
}

fn main() {}
