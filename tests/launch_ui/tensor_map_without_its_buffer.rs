use tilewright::arch::TensorMapDesc;
use tilewright::ir::TensorMap;
use tilewright::runtime::{Buffer, Function, Grid, RuntimeError};

type Load = Function<(TensorMap<f32, 2>,)>;

fn launch(f: &Load, x: Buffer<f32>, map: &TensorMapDesc) -> Result<(), RuntimeError> {
    let tensor = x.tensor_map(map)?;
    drop(x);
    f.launch(Grid::cover(100, 256), (&tensor,))
}

fn main() {}
