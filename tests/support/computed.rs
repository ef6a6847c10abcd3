//! Evaluates one expression on a device, for many operands.

use tilewright::ir::{Element, Global, GlobalMut, Kernel, Target, Val};
use tilewright::runtime::{Device, Grid};

use super::text;

type Params<A, B, C, R> = (Global<A>, Global<B>, Global<C>, GlobalMut<R>, u32);

/// Returns the target to build for. The simulator supports the features of every target.
pub(crate) fn target(device: &Device) -> Target {
    if device.is_sim() { Target::SM_90A } else { device.target() }
}

/// Evaluates `f` on the device for each triple of operands.
pub(crate) fn computed<A: Element, B: Element, C: Element, R: Element>(
    device: &Device,
    operands: &[(A, B, C)],
    f: impl for<'b> Fn(Val<'b, A>, Val<'b, B>, Val<'b, C>) -> Val<'b, R>,
) -> Vec<R> {
    let kernel =
        Kernel::<Params<A, B, C, R>>::build("op", target(device), |k, (a, b, c, out, n)| {
            let i = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<u32>();
            k.if_(i.lt(n), |_| {
                let (a, b, c) = (a.load(i), b.load(i), c.load(i));
                out.store(i, f(a, b, c));
            });
        });
    let kernel = kernel.expect("the kernel is correct");
    text::check_round_trip(kernel.ir());
    let function = device.load(&kernel).expect("the kernel loads");
    let a: Vec<A> = operands.iter().map(|operands| operands.0).collect();
    let b: Vec<B> = operands.iter().map(|operands| operands.1).collect();
    let c: Vec<C> = operands.iter().map(|operands| operands.2).collect();
    let (a, b, c) = (device.upload(&a), device.upload(&b), device.upload(&c));
    let a = a.expect("the buffer fits");
    let (b, c) = (b.expect("the buffer fits"), c.expect("the buffer fits"));
    let mut out = device.zeros::<R>(operands.len()).expect("the buffer fits");
    let n = operands.len() as u32;
    function
        .launch(Grid::cover(operands.len(), 96), (&a, &b, &c, &mut out, n))
        .expect("no operand is at fault");
    out.to_vec().expect("the buffer can be read")
}
