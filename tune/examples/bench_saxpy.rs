//! Tunes and measures a program's own kernel: `tilewright bench saxpy`.
//!
//! `cargo build --release --example tilewright-bench-saxpy` builds the program. The command line
//! finds it if `target/release/examples` is in `PATH`.

use std::error::Error;

use tilewright::prelude::*;
use tilewright_tune::{BenchOptions, Rejection, Tunable, bench};

type Params = (Global<f32>, GlobalMut<f32>);

/// `y = 2 x + y`, with `vectors` vectors per thread.
fn saxpy(vectors: u32, target: Target) -> Result<Kernel<Params>, BuildErrors> {
    Kernel::<Params>::build("saxpy", target, |k, (x, y)| {
        let first = k.block_idx().x * 128 * vectors + k.thread_idx().x;
        for i in 0..vectors {
            let at = (first + i * 128) * 4;
            let (x, old) = (x.load_vector::<4>(at), y.load_vector::<4>(at));
            let lane = |i: usize| x.lanes()[i].fma(2.0, old.lanes()[i]);
            y.store_vector(at, Val::pack([0, 1, 2, 3].map(lane)));
        }
    })
}

/// The problem: this many blocks of 4096 elements.
struct Saxpy(u16);

#[rustfmt::skip]
impl Tunable for Saxpy {
    type Config = u32;
    type Kernel = Kernel<Params>;
    type Data = [Buffer<f32>; 2];
    fn key(&self) -> String { format!("saxpy of {}", 4096 * u32::from(self.0)) }
    fn space(&self, _: &Device) -> Vec<u32> { vec![1, 2, 4, 8] }
    fn build(vectors: &u32, target: Target) -> Result<Kernel<Params>, Rejection> { Ok(saxpy(*vectors, target)?) }
    fn bytes(&self) -> u64 { 12 * 4096 * u64::from(self.0) }
    fn data(&self, device: &Device, _: u32) -> Result<Self::Data, Rejection> { Ok([device.upload(&[1.5; 4096].repeat(self.0.into()))?, device.zeros(4096 * usize::from(self.0))?]) }
    fn launch(&self, vectors: &u32, saxpy: &Function<Params>, [x, y]: &mut Self::Data, options: LaunchOptions<'_>) -> Result<(), Rejection> {
        Ok(saxpy.launch_with(options, Grid::new([8 * u32::from(self.0) / vectors, 1, 1], [128, 1, 1]), (x, y))?)
    }
    fn verify(&self, [_, y]: &mut Self::Data) -> Result<(), Rejection> { Rejection::unless(y.to_vec()?.iter().all(|y| *y == 3.0), "not 2 x + y") }
}

/// Tunes and measures the kernel, and returns the table.
pub(crate) fn run(sizes: &[u16], options: &BenchOptions) -> Result<String, Box<dyn Error>> {
    let kernels: Vec<Saxpy> = sizes.iter().map(|size| Saxpy(*size)).collect();
    Ok(bench(&kernels, options)?.to_string())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let options = BenchOptions::parse(std::env::args().skip(1))?;
    print!("{}", run(&[1 << 8, 1 << 12, 1 << 15], &options)?);
    Ok(())
}
