use tilewright::ir::{Global, GlobalMut};
use tilewright::runtime::{Buffer, Function, Grid, RuntimeError};

type Axpy = Function<(f32, Global<f32>, GlobalMut<f32>, i32)>;

fn launch(f: &Axpy, mut x: Buffer<f32>) -> Result<(), RuntimeError> {
    f.launch(Grid::cover(100, 256), (2.0, &x, &mut x, 100))
}

fn main() {}
