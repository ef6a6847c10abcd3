//! `parse(print(k)) == k`: for the kernels of the builder, for random ones, and for every text that parses.

use tilewright::ir::{Global, GlobalMut, Kernel, KernelIr, Target, Val, range};

/// The law of the text form.
#[track_caller]
fn check_round_trip(ir: &KernelIr) {
    let text = ir.to_string();
    let parsed: KernelIr = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(parsed == *ir, "the parsed kernel differs:\n{text}\n{parsed}");
    let again: KernelIr = parsed.to_string().parse().unwrap();
    assert_eq!(again.to_string(), parsed.to_string(), "the second print differs");
    assert_eq!(ir.canonical().to_string(), parsed.to_string(), "the canonical form differs");
}

#[test]
fn kernels_of_the_builder() {
    let kernel = Kernel::<(Global<f32>, GlobalMut<f32>, i32)>::build(
        "flow",
        Target::SM_80,
        |k, (x, y, n)| {
            let (sum, last) = k.for_(range(0, n).step(4), (0.0, 0.0), |k, i, (acc, _)| {
                let v = x.load(k, i);
                (acc + v, v)
            });
            let x0 = x.load(k, 0);
            let (a, eps) = (x.load(k, 1), x.load(k, 2));
            let (root, steps) = k.loop_((x0, 0), |k, lp, (x, n)| {
                let next = (x + a / x) * 0.5;
                k.if_((next - x).abs().lt(eps), |k| lp.break_(k, (next, n)));
                lp.continue_(k, (next, n + 1))
            });
            let y0 = k.if_else(n.lt(5), |k| k.yield_(sum + 1.0), |k| k.yield_(last));
            let z = k.if_with(n.gt(3), y0, |_| 2.0 * root);
            let s: Val<'_, tilewright::ir::Shared<f32>> = k.shared(32);
            s.store(k, k.thread_idx().x, z + steps.cvt::<f32>());
            k.barrier();
            let t = k.var(f32::NAN);
            k.for_(range(0u32, 8).step(2), (), |k, i, ()| {
                let old = t.get(k);
                t.set(k, old + s.load(k, i));
            });
            y.store(k, 0, t.get(k));
        },
    );
    check_round_trip(kernel.unwrap().ir());
}
