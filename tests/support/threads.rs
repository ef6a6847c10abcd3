//! Runs kernels in which each thread computes one value, and checks them on every device against a
//! host function.
//!
//! A test file that uses this must also declare `device`, `ptxas` and `text`.

use tilewright::ir::{Body, Element, GlobalMut, Kernel, Target, Val};
use tilewright::runtime::Grid;

use super::{device, ptxas, text};

/// Runs `body` with this grid on every device, built for the first target that supports it, and
/// checks that thread `i` computes `expected(i)`. Threads are numbered along x, then y, then z,
/// block by block.
#[track_caller]
pub(crate) fn check_grid<T: Element>(
    first: Target,
    grid: Grid,
    body: impl for<'b> Fn(&mut Body<'b, 'b>, Val<'b, i32>) -> Val<'b, T>,
    expected: impl Fn(i32) -> T,
) {
    let threads: u32 = grid.threads.iter().product();
    let n = threads * grid.blocks.iter().product::<u32>();
    let build = |target| {
        Kernel::<(GlobalMut<T>,)>::build("check", target, |k, (out,)| {
            let (t, dim) = (k.thread_idx(), k.block_dim());
            let (b, blocks) = (k.block_idx(), k.grid_dim());
            let thread = t.x + dim.x * (t.y + dim.y * t.z);
            let block = b.x + blocks.x * (b.y + blocks.y * b.z);
            let i = block * (dim.x * dim.y * dim.z) + thread;
            let value = body(k, i);
            out.store(i, value);
        })
        .unwrap_or_else(|errors| panic!("{errors}"))
    };
    assemble(first, build);
    for device in device::devices() {
        let target = if device.is_sim() { first } else { device.target() };
        if !target.offers(first) {
            continue;
        }
        let kernel = build(target);
        text::check_round_trip(kernel.ir());
        let function = device.load(&kernel).expect("the kernel loads");
        let mut out = device.zeros::<T>(n as usize).expect("the buffer fits");
        if let Err(error) = function.launch(grid, (&mut out,)) {
            panic!("{error}, on {}\n{kernel}", device.name());
        }
        let found = out.to_vec().unwrap_or_else(|error| panic!("{error}\n{kernel}"));
        let expected: Vec<T> = (0..n as i32).map(&expected).collect();
        assert_eq!(found, expected, "on {}\n{kernel}", device.name());
    }
}

/// Assembles the kernel for each target from `first` on, and treats warnings as errors.
#[track_caller]
pub(crate) fn assemble<P>(first: Target, build: impl Fn(Target) -> Kernel<P>) {
    let Some(ptxas) = ptxas::find() else { return };
    for target in [Target::SM_80, Target::SM_90, Target::SM_90A] {
        if target.offers(first) {
            let ptx = build(target).ptx();
            let result = ptxas.assemble(ptx.text(), &target.to_string(), &["-O1"]);
            result.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
}
