use tilewright::ir::Shared;
use tilewright::runtime::{Function, Grid, RuntimeError};

fn launch(f: &Function<(Shared<f32>,)>) -> Result<(), RuntimeError> {
    f.launch(Grid::cover(100, 256), ())
}

fn main() {}
