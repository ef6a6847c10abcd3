use tilewright::ir::GlobalMut;
use tilewright::runtime::{Buffer, Function, Grid, RuntimeError};

type Swap = Function<(GlobalMut<f32>, GlobalMut<f32>)>;

fn launch(f: &Swap, mut x: Buffer<f32>) -> Result<(), RuntimeError> {
    f.launch(Grid::cover(100, 256), (&mut x, &mut x))
}

fn main() {}
