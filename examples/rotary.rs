//! Rotates queries by their positions (RoPE) in an elementwise kernel:
//! `cargo run --example rotary`.
//!
//! A head's vector has two halves `a` and `b`. Pair `i` at position `p` is rotated by
//! `p * base^(-i / pairs)`: `a' = a cos - b sin` and `b' = b cos + a sin`, the same for all heads.
//! Layouts say which elements belong together.

use std::error::Error;

use tilewright::ir::bf16;
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
use tilewright::layout::{ComposedLayout, Layout, Part};
use tilewright::runtime::Device;

/// Positions, heads, and pairs per head.
const SIZES: [u32; 3] = [10, 3, 32];
const BASE: f64 = 10_000.0;

/// Rotates on the device and compares with the host.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let [positions, heads, pairs] = SIZES;
    let [p, h, n] = SIZES.map(i64::from);
    // (position, head, half, pair).
    let shape = (p, h, 2, n);
    let x = Layout::new(shape, (h * 2 * n, 2 * n, n, 1))?;
    // The pair's other half: from the second half, backwards.
    let partner = Layout::new(shape, (h * 2 * n, 2 * n, -n, 1))?;
    let partner = ComposedLayout::new(Part::Identity, n, partner)?;
    // Tables of (position, pair) and (position, half, pair). Heads have stride 0.
    let cos = Layout::new(shape, (n, 0, 0, 1))?;
    let sin = Layout::new(shape, (2 * n, 0, n, 1))?;
    let rotary = Elementwise::<bf16, bf16, 4>::with_layouts(
        ElementwiseConfig::new(device.target(), 4),
        "rotary",
        &x,
        [(&x).into(), partner, (&cos).into(), (&sin).into()],
        |_, [x, partner, cos, sin]| x.fma(cos, partner * sin),
    )?;

    let angle = |position: u32, pair: u32| {
        f64::from(position) * BASE.powf(-f64::from(pair) / f64::from(pairs))
    };
    let (mut cosines, mut sines) = (Vec::new(), Vec::new());
    for position in 0..positions {
        let round = |value: f64| bf16::from_f32(value as f32);
        cosines.extend((0..pairs).map(|pair| round(angle(position, pair).cos())));
        sines.extend((0..pairs).map(|pair| round(-angle(position, pair).sin())));
        sines.extend((0..pairs).map(|pair| round(angle(position, pair).sin())));
    }
    let len = positions * heads * 2 * pairs;
    let numbers: Vec<bf16> =
        (0..len).map(|i| bf16::from_f32((i * 37 % 101) as f32 / 50.0 - 1.0)).collect();
    let (input, cosines, sines) =
        (device.upload(&numbers)?, device.upload(&cosines)?, device.upload(&sines)?);
    let mut y = device.zeros::<bf16>(numbers.len())?;
    rotary.load(device)?.launch(&(), ([&input, &input, &cosines, &sines], &mut y))?;

    let y = y.to_vec()?;
    let vector = usize::try_from(2 * pairs)?;
    for (number, (x, y)) in (0u32..).zip(numbers.chunks(vector).zip(y.chunks(vector))) {
        let [(a, b), (found_a, found_b)] = [x, y].map(|all| all.split_at(vector / 2));
        for (pair, (a, b)) in (0u32..).zip(a.iter().zip(b)) {
            let [a, b] = [a, b].map(|x| f64::from(x.to_f32()));
            let (sin, cos) = angle(number / heads, pair).sin_cos();
            let expected = [a * cos - b * sin, b * cos + a * sin];
            let at = usize::try_from(pair)?;
            for (found, expected) in [found_a[at], found_b[at]].into_iter().zip(expected) {
                let found = f64::from(found.to_f32());
                assert!(
                    (found - expected).abs() < 0.02,
                    "{number}, {pair}: {found}, not {expected}"
                );
            }
        }
    }
    println!("{positions} positions of {heads} heads are rotated right on {}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    run(&Device::default()?)
}
