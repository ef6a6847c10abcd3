//! Computes a convolution layer with bias and ReLU, and compares it with the host:
//! `cargo run --example convolution`.
//!
//! With `-- --time`, a GPU runs three layers without bias and prints how long each takes. The
//! buffers take turns and are larger than L2 together, so every launch finds x in global memory.

use std::error::Error;
use std::time::Duration;

use tilewright::ir::{Target, bf16};
use tilewright::kernels::convolution::{
    Convolution, ConvolutionArgs, ConvolutionBias, ConvolutionConfig, ConvolutionProblem,
};
use tilewright::kernels::gemm::Activation;
use tilewright::runtime::Device;
use tilewright::tensor::copy::Filter;

/// Random numbers with mean 0.
struct Random(u32);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as f32 / u32::MAX as f32 - 0.5
    }

    fn vector(&mut self, len: u64) -> Vec<bf16> {
        // The sum of four uniform numbers is close to a normal one.
        let mut normal = || (0..4).map(|_| self.next()).sum::<f32>();
        (0..len).map(|_| bf16::from_f32(normal())).collect()
    }
}

/// The definition: output `at` of y.
fn convolved(
    problem: &ConvolutionProblem,
    x: &[bf16],
    w: &[bf16],
    at: usize,
) -> Result<f64, Box<dyn Error>> {
    let ConvolutionProblem { height, width, channels, out_channels, .. } = *problem;
    let [along_h, along_w] = problem.filters;
    let [out_height, out_width] = problem.outputs();
    let at = u32::try_from(at)?;
    let (pixel, channel) = (at / out_channels, at % out_channels);
    let (image, p, q) =
        (pixel / out_width / out_height, pixel / out_width % out_height, pixel % out_width);
    // The pixel that position `at` of the filter reads, if it is inside the image.
    let read = |filter: Filter, output: u32, at: u32, extent: u32| {
        let shifted = output * filter.stride + at * filter.dilation;
        shifted.checked_sub(filter.lower_padding).filter(|pixel| *pixel < extent)
    };
    let vector = |all: &[bf16], number: u32| -> Result<Vec<f32>, Box<dyn Error>> {
        let channels = usize::try_from(channels)?;
        let own = &all[usize::try_from(number)? * channels..][..channels];
        Ok(own.iter().map(|x| x.to_f32()).collect())
    };
    let mut sum = 0.0;
    for r in 0..along_h.size {
        for s in 0..along_w.size {
            let (row, column) = (read(along_h, p, r, height), read(along_w, q, s, width));
            let (Some(row), Some(column)) = (row, column) else { continue };
            let x = vector(x, (image * height + row) * width + column)?;
            let w = vector(w, (channel * along_h.size + r) * along_w.size + s)?;
            sum += x.iter().zip(w).map(|(x, w)| f64::from(x * w)).sum::<f64>();
        }
    }
    Ok(sum)
}

/// Convolves on the device and compares each output with the definition.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let filter = Filter::new(3).stride(2).padding(1);
    let problem = ConvolutionProblem::new([2, 18, 22, 24], 40, [filter; 2]);
    let config = ConvolutionConfig {
        bias: ConvolutionBias::PerChannel,
        activation: Some(Activation::Relu),
        ..ConvolutionConfig::new(device.target(), &problem)?
    };
    let convolution = Convolution::<bf16>::new(config)?.load(device)?;
    let (random, [x_len, w_len, y_len]) = (&mut Random(1), problem.lens());
    let (x, w) = (random.vector(x_len), random.vector(w_len));
    let bias = random.vector(problem.out_channels.into());
    let (x_at, w_at, bias_at) = (device.upload(&x)?, device.upload(&w)?, device.upload(&bias)?);
    let mut y = device.zeros::<bf16>(usize::try_from(y_len)?)?;
    let args = ConvolutionArgs { x: &x_at, w: &w_at, bias: Some(&bias_at), y: &mut y };
    convolution.launch(&problem, args)?;
    for (at, found) in y.to_vec()?.iter().enumerate() {
        let bias = f64::from(bias[at % bias.len()].to_f32());
        let expected = (convolved(&problem, &x, &w, at)? + bias).max(0.0);
        let found = f64::from(found.to_f32());
        assert!((found - expected).abs() < 0.01 * (1.0 + expected), "{found}, not {expected}");
    }
    println!("the convolution by {config} is right on {}", device.name());
    Ok(())
}

/// Prints the time of a layer on a GPU, after it has compared some outputs with the definition.
fn time(device: &Device, name: &str, problem: &ConvolutionProblem) -> Result<(), Box<dyn Error>> {
    const LAUNCHES: u32 = 24;
    let config = ConvolutionConfig::new(device.target(), problem)?;
    let convolution = Convolution::<bf16>::new(config)?.load(device)?;
    let (random, [x_len, w_len, y_len]) = (&mut Random(7), problem.lens());
    let (x, w) = (random.vector(x_len), random.vector(w_len));
    let bytes = 2 * (x_len + w_len + y_len);
    let l2 = device.properties().map_or(0, |properties| properties.l2_bytes);
    let mut sets = Vec::new();
    for _ in 0..(4 * l2).div_ceil(bytes).clamp(1, LAUNCHES.into()) {
        let y = device.zeros::<bf16>(usize::try_from(y_len)?)?;
        sets.push((device.upload(&x)?, device.upload(&w)?, y));
    }
    // A graph takes the host's work out of the measurement.
    let graph = device.graph()?;
    for _ in 0..LAUNCHES {
        sets.rotate_left(1);
        let (x, w, y) = &mut sets[0];
        let args = ConvolutionArgs { x, w, bias: None, y };
        convolution.on(graph.stream()).launch(problem, args)?;
    }
    let graph = graph.finish()?;
    let mut times = Vec::new();
    for _ in 0..20 {
        // A short rest between the bursts: large convolutions are limited by power.
        std::thread::sleep(Duration::from_millis(30));
        times.push(graph.time()?.elapsed.as_secs_f64() / f64::from(LAUNCHES));
    }
    times.sort_by(f64::total_cmp);
    for (_, _, y) in &sets {
        let y = y.to_vec()?;
        for at in (0..y.len()).step_by((y.len() / 200).max(1) | 1) {
            let expected = convolved(problem, &x, &w, at)?;
            let found = f64::from(y[at].to_f32());
            assert!(
                (found - expected).abs() < 0.02 * (1.0 + expected.abs()),
                "{found}, {expected}"
            );
        }
    }
    let (median, fastest) = (times[times.len() / 2], times[0]);
    println!(
        "{name} by {config}: {:.1} us (fastest {:.1}), {:.0} TFLOP/s, {:.2} TB/s",
        median * 1e6,
        fastest * 1e6,
        problem.flops() / median / 1e12,
        bytes as f64 / median / 1e12,
    );
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    if device.is_sim() {
        return run(&Device::sim_for(Target::SM_90A)?);
    }
    run(&device)?;
    if std::env::args().any(|arg| arg == "--time") {
        let [one, three] = [Filter::new(1), Filter::new(3).padding(1)];
        for (name, image, out_channels, filter) in [
            ("32x256x56x56, 3x3 -> 256", [32, 56, 56, 256], 256, three),
            ("32x512x28x28, 3x3 -> 512", [32, 28, 28, 512], 512, three),
            ("32x64x56x56, 1x1 -> 256", [32, 56, 56, 64], 256, one),
        ] {
            time(&device, name, &ConvolutionProblem::new(image, out_channels, [filter; 2]))?;
        }
    }
    Ok(())
}
