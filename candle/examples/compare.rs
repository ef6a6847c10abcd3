//! Runs operations beside candle's own and compares the results: `cargo run --example compare`.
//! With `--bench` on a GPU (`--release --features cuda`) it measures both.

use std::error::Error;
use std::time::Instant;

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::Module;
use tilewright_candle::ops::{Activation, linear, rms_norm, sdpa, softmax_last_dim};

type Run<'a> = Box<dyn Fn() -> Result<Tensor> + 'a>;

/// An operation of this crate, and candle's way to the same result.
struct Pair<'a> {
    name: String,
    ours: Run<'a>,
    candle: Run<'a>,
}

fn numbers(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::randn(0f32, 1f32, shape, device)?.to_dtype(DType::BF16)
}

/// Returns the operations for `rows` rows or positions with `width` columns, at least the width of
/// 8 heads.
fn pairs(rows: usize, width: usize, device: &Device) -> Result<Vec<Pair<'static>>> {
    let x = numbers(&[rows, width], device)?;
    let weight = numbers(&[width], device)?;
    let matrix = (numbers(&[width, width], device)? / (width as f64).sqrt())?;
    let (heads, dim) = (8, 64.max(width / 32));
    let [q, k, v] = [0, 1, 2].map(|_| numbers(&[1, heads, rows, dim], device));
    let (q, k, v) = (q?, k?, v?);
    let layer = candle_nn::Linear::new(matrix.clone(), Some(weight.clone()));
    let (of_softmax, of_norm, of_linear) = (x.clone(), (x.clone(), weight.clone()), x.clone());
    let of_attention = (q.clone(), k.clone(), v.clone());
    Ok(vec![
        Pair {
            name: format!("softmax of {rows} x {width}"),
            ours: Box::new(move || softmax_last_dim(&of_softmax)),
            candle: {
                let x = x.clone();
                Box::new(move || candle_nn::ops::softmax_last_dim(&x))
            },
        },
        Pair {
            name: format!("RMSNorm of {rows} x {width}"),
            ours: Box::new(move || rms_norm(&of_norm.0, &of_norm.1, 1e-5)),
            candle: {
                let (x, weight) = (x.clone(), weight.clone());
                Box::new(move || candle_nn::ops::rms_norm(&x, &weight, 1e-5))
            },
        },
        Pair {
            name: format!("linear layer of {rows} x {width} x {width} with bias and GELU"),
            ours: Box::new(move || {
                linear(&of_linear, &matrix, Some(&weight), Some(Activation::Gelu))
            }),
            candle: Box::new(move || layer.forward(&x)?.gelu()),
        },
        Pair {
            name: format!("attention of {heads} heads, {rows} positions, dimension {dim}"),
            ours: Box::new(move || {
                let (q, k, v) = &of_attention;
                sdpa(q, k, v, None, false, 1.0 / (dim as f32).sqrt(), 1.0)
            }),
            candle: Box::new(move || {
                let scores = (q.matmul(&k.t()?)? / (dim as f64).sqrt())?;
                candle_nn::ops::softmax_last_dim(&scores)?.matmul(&v)
            }),
        },
    ])
}

/// Returns the largest difference between two tensors.
fn difference(a: &Tensor, b: &Tensor) -> Result<f32> {
    let [a, b] = [a, b].map(|x| x.to_dtype(DType::F32)?.flatten_all());
    (a? - b?)?.abs()?.max(D::Minus1)?.to_scalar()
}

/// Returns the seconds per call, when the stream runs `calls` of them one after the other.
fn seconds(device: &Device, calls: u32, run: &Run<'_>) -> Result<f64> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..calls {
        run()?;
    }
    device.synchronize()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(calls))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let bench = std::env::args().any(|argument| argument == "--bench");
    let device = Device::cuda_if_available(0)?;
    if bench && !device.is_cuda() {
        return Err("`--bench` needs a GPU and the feature `cuda`".into());
    }
    let sizes = if bench { &[(4096, 4096), (16384, 1024), (1, 4096)][..] } else { &[(40, 256)] };
    for &(rows, width) in sizes {
        for Pair { name, ours, candle } in pairs(rows, width, &device)? {
            let difference = difference(&ours()?, &candle()?)?;
            println!("{name}: the largest difference from candle is {difference}");
            if bench {
                // Some milliseconds of calls, both in turn.
                let calls = match seconds(&device, 10, &candle)? {
                    ..2e-5 => 1000,
                    ..2e-4 => 100,
                    _ => 10,
                };
                let mut times = [Vec::new(), Vec::new()];
                for _ in 0..15 {
                    times[0].push(seconds(&device, calls, &ours)?);
                    times[1].push(seconds(&device, calls, &candle)?);
                }
                let [ours, candle] = times.map(|times| 1e6 * median(times));
                println!(
                    "    {ours:.1} us, candle {candle:.1} us: {:.2} of its speed",
                    candle / ours
                );
            }
        }
    }
    Ok(())
}
