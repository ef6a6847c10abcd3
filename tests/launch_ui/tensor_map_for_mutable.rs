use tilewright::arch::TensorMapDesc;
use tilewright::ir::TensorMapMut;
use tilewright::runtime::{Buffer, Function, Grid, RuntimeError};

type Store = Function<(TensorMapMut<f32, 2>,)>;

fn launch(f: &Store, y: Buffer<f32>, map: &TensorMapDesc) -> Result<(), RuntimeError> {
    f.launch(Grid::cover(100, 256), (&y.tensor_map(map)?,))
}

fn main() {}
