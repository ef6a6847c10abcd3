//! Convolution, compared with its definition in `f64`.

use proptest::prelude::*;
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Target, bf16, f16};
use tilewright::kernels::convolution::{
    Convolution, ConvolutionArgs, ConvolutionBias, ConvolutionConfig, ConvolutionError,
    ConvolutionProblem,
};
use tilewright::kernels::gemm::Activation;
use tilewright::runtime::Device;
use tilewright::sim::Options;
use tilewright::tensor::copy::Filter;

use super::matrix::{Real, devices};
use crate::support::rng::Rng;
use crate::support::slow::{sample, slow};
use crate::support::{ptxas, text};

#[path = "../../examples/convolution.rs"]
mod example;

#[test]
fn the_example_runs() {
    devices().iter().for_each(|device| example::run(device).unwrap());
}

/// The number in the output before a launch, which must stay behind the last pixel.
const UNTOUCHED: f32 = -77.0;

/// Random integers from -2 to 2, and NaN behind the last one. Sums of their products are exact in
/// `f32`.
fn integers<T: Real>(len: u64, rng: &mut Rng) -> Vec<T> {
    let number = |rng: &mut Rng| T::of(rng.below(5) as f32 - 2.0);
    let mut all: Vec<T> = (0..len).map(|_| number(rng)).collect();
    all.resize(all.len() + 16, T::of(f32::NAN));
    all
}

/// The definition: `sum over r, s, c of x[n, h, w, c] w[k, r, s, c]` for each n, p, q, k, where x
/// is 0 outside the image.
fn convolved<T: Real>(problem: &ConvolutionProblem, x: &[T], w: &[T]) -> Vec<f64> {
    let ConvolutionProblem { images, height, width, channels, out_channels, .. } = *problem;
    let [along_h, along_w] = problem.filters;
    let [out_height, out_width] = problem.outputs();
    let pixel = |filter: Filter, output: u32, at: u32, extent: u32| {
        let at = i64::from(output) * i64::from(filter.stride)
            + i64::from(at) * i64::from(filter.dilation)
            - i64::from(filter.lower_padding);
        (0..i64::from(extent)).contains(&at).then_some(at as usize)
    };
    let [height_of, width_of, depth] = [height, width, channels].map(|size| size as usize);
    let mut y = Vec::new();
    for n in 0..images as usize {
        for (p, q) in (0..out_height).flat_map(|p| (0..out_width).map(move |q| (p, q))) {
            for k in 0..out_channels {
                let mut sum = 0.0;
                for (r, s) in (0..along_h.size).flat_map(|r| (0..along_w.size).map(move |s| (r, s)))
                {
                    let at = (pixel(along_h, p, r, height), pixel(along_w, q, s, width));
                    let (Some(row), Some(column)) = at else { continue };
                    let x = &x[((n * height_of + row) * width_of + column) * depth..][..depth];
                    let position = (k * along_h.size + r) * along_w.size + s;
                    let w = &w[position as usize * depth..][..depth];
                    sum += x.iter().zip(w).map(|(x, w)| x.to() * w.to()).sum::<f64>();
                }
                y.push(sum);
            }
        }
    }
    y
}

#[track_caller]
fn check<T: Real + VectorElement<2>>(
    device: &Device,
    config: ConvolutionConfig,
    problem: &ConvolutionProblem,
    seed: u64,
) {
    let rng = &mut Rng::new(seed);
    let [x_len, w_len, y_len] = problem.lens();
    let (x, w): (Vec<T>, Vec<T>) = (integers(x_len, rng), integers(w_len, rng));
    let bias: Vec<T> = integers(problem.out_channels.into(), rng);
    let has_bias = config.bias == ConvolutionBias::PerChannel;
    let [x_at, w_at, bias_at] = [&x, &w, &bias].map(|all| device.upload(all).unwrap());
    let mut y = device.upload(&vec![T::of(UNTOUCHED); y_len as usize + 16]).unwrap();
    let convolution = Convolution::<T>::new(config).unwrap().load(device).unwrap();
    let args =
        ConvolutionArgs { x: &x_at, w: &w_at, bias: has_bias.then_some(&bias_at), y: &mut y };
    convolution.launch(problem, args).unwrap();
    let mut expected = convolved(problem, &x, &w);
    assert_eq!(expected.len() as u64, y_len);
    for (at, value) in expected.iter_mut().enumerate() {
        if has_bias {
            *value += bias[at % problem.out_channels as usize].to();
        }
        *value = match config.activation {
            None => *value,
            Some(Activation::Relu) => value.max(0.0),
            Some(Activation::Gelu) => {
                let inner =
                    (2.0 / std::f64::consts::PI).sqrt() * (*value + 0.044715 * value.powi(3));
                *value / 2.0 * (1.0 + inner.tanh())
            }
        };
    }
    let what = format!("{config} of {problem:?} on {}", device.name());
    for (at, found) in y.to_vec().unwrap().into_iter().enumerate() {
        let found = found.to();
        let Some(expected) = expected.get(at).copied() else {
            assert_eq!(found, T::of(UNTOUCHED).to(), "{what}: wrote behind y, at {at}");
            continue;
        };
        // `tanh.approx` has an error of 2^-11. Everything else is exact before it is rounded.
        let is_close = match config.activation {
            Some(Activation::Gelu) => {
                (found - expected).abs() <= expected.abs() * (T::EPSILON + 1e-3) + 1e-3
            }
            _ => found == T::of(expected as f32).to(),
        };
        let (pixel, channel) =
            (at / problem.out_channels as usize, at % problem.out_channels as usize);
        assert!(is_close, "{what}: channel {channel} of pixel {pixel} is {found}, not {expected}");
    }
}

/// The configuration with this tile width and these store steps.
fn config_of(columns: u32, stages: u32, store_steps: u32) -> ConvolutionConfig {
    format!("sm90a_128x{columns}x64_s{stages}_o{store_steps}").parse().unwrap()
}

#[track_caller]
fn check_chosen<T: Real + VectorElement<2>>(problem: &ConvolutionProblem, seed: u64) {
    for device in devices() {
        let config = ConvolutionConfig::new(device.target(), problem).unwrap();
        check::<T>(&device, config, problem, seed);
    }
}

/// Pixel counts that do not fill tiles, and tiles that span rows and images.
#[test]
fn ragged_pixels() {
    let same = Filter::new(3).padding(1);
    check_chosen::<bf16>(&ConvolutionProblem::new([1, 9, 15, 8], 8, [same; 2]), 1);
    check_chosen::<f16>(&ConvolutionProblem::new([3, 1, 43, 24], 40, [Filter::new(1), same]), 2);
    check_chosen::<bf16>(&ConvolutionProblem::new([2, 16, 8, 64], 64, [Filter::new(1); 2]), 3);
    check_chosen::<bf16>(&ConvolutionProblem::new([1, 1, 1, 8], 8, [Filter::new(1); 2]), 4);
}

/// Strides, dilations and paddings, also different ones along the two dimensions and on the two
/// sides of the image.
#[test]
fn filters() {
    let of_7 = Filter::new(7).stride(2).padding(3);
    check_chosen::<bf16>(&ConvolutionProblem::new([1, 20, 17, 8], 16, [of_7; 2]), 1);
    let along_h = Filter::new(2).dilation(2).padding(2);
    let along_w = Filter { upper_padding: 3, ..Filter::new(4).stride(3) };
    check_chosen::<f16>(&ConvolutionProblem::new([2, 6, 19, 24], 8, [along_h, along_w]), 2);
    let along_h = Filter { lower_padding: 3, ..Filter::new(3).stride(8) };
    let along_w = Filter::new(1).stride(2).padding(1);
    check_chosen::<bf16>(&ConvolutionProblem::new([3, 30, 5, 8], 24, [along_h, along_w]), 3);
}

/// Channels that end inside a step, and output channels that end inside a tile and after several.
#[test]
fn ragged_channels() {
    let along_w = Filter::new(2).padding(1);
    let problem = ConvolutionProblem::new([1, 5, 8, 72], 264, [Filter::new(1), along_w]);
    check_chosen::<bf16>(&problem, 1);
    for device in devices() {
        for (columns, stages, store_steps) in [(64, 2, 1), (128, 6, 2), (192, 4, 3), (256, 4, 2)] {
            check::<f16>(&device, config_of(columns, stages, store_steps), &problem, 2);
        }
    }
}

/// A tile with fewer steps than the kernel has store steps gets steps with zeros. Each block has
/// several tiles.
#[test]
fn tiles_of_a_single_step() {
    let problem = ConvolutionProblem::new([5, 9, 14, 8], 200, [Filter::new(1); 2]);
    for device in devices() {
        for store_steps in [1, 2, 4] {
            check::<bf16>(&device, config_of(256, 4, store_steps), &problem, store_steps.into());
        }
    }
}

#[test]
fn bias_and_activation() {
    let problem = ConvolutionProblem::new([1, 6, 5, 16], 136, [Filter::new(2); 2]);
    for device in devices() {
        let base = ConvolutionConfig::new(device.target(), &problem).unwrap();
        for bias in [ConvolutionBias::Absent, ConvolutionBias::PerChannel] {
            for activation in [None, Some(Activation::Relu), Some(Activation::Gelu)] {
                let config = ConvolutionConfig { bias, activation, ..base };
                check::<bf16>(&device, config, &problem, 1);
            }
        }
        let config = ConvolutionConfig { bias: ConvolutionBias::PerChannel, ..base };
        check::<f16>(&device, config, &problem, 2);
    }
}

/// Without images nothing is launched, and y stays.
#[test]
fn an_empty_batch() {
    let problem = ConvolutionProblem::new([0, 8, 8, 64], 64, [Filter::new(3); 2]);
    check_chosen::<bf16>(&problem, 1);
}

/// One kernel serves layers of any size, one after the other.
#[test]
fn a_kernel_serves_many_problems() {
    for device in devices() {
        for (image, out_channels, size) in [([1, 4, 4, 8], 72, 3), ([2, 5, 3, 16], 8, 1)] {
            let problem = ConvolutionProblem::new(image, out_channels, [Filter::new(size); 2]);
            check::<bf16>(&device, config_of(128, 3, 2), &problem, 1);
        }
    }
}

/// Several tiles for each block, so that all rings are used again, without a data race in
/// adversarial schedules.
#[test]
fn no_data_race() {
    let options =
        Options::default().target(Target::SM_90A).race(true).schedules(if slow() { 12 } else { 2 });
    let device = Device::sim_with(options);
    let problem = ConvolutionProblem::new([5, 11, 10, 8], 72, [Filter::new(1), Filter::new(2)]);
    let config = ConvolutionConfig { bias: ConvolutionBias::PerChannel, ..config_of(128, 3, 2) };
    check::<bf16>(&device, config, &problem, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if slow() { 60 } else { 6 }, ..ProptestConfig::default() })]

    #[test]
    fn random_problems(
        images in 1u32..4,
        extents in [1u32..14, 1u32..14],
        channels in [1u32..10, 1u32..20],
        sizes in [1u32..4, 1u32..4],
        strides in [1u32..4, 1u32..4],
        dilations in [1u32..3, 1u32..3],
        paddings in [0u32..4, 0u32..4, 0u32..4, 0u32..4],
        choice in 0usize..4,
        seed in 0u64..1000,
    ) {
        let filter = |i: usize| Filter {
            size: sizes[i],
            stride: strides[i],
            dilation: dilations[i],
            lower_padding: paddings[2 * i],
            upper_padding: paddings[2 * i + 1],
        };
        let [height, width] = extents;
        let [channels, out_channels] = channels.map(|count| 8 * count);
        let image = [images, height, width, channels];
        let problem = ConvolutionProblem::new(image, out_channels, [filter(0), filter(1)]);
        prop_assume!(problem.outputs().iter().all(|outputs| *outputs > 0));
        for device in devices() {
            let all = ConvolutionConfig::candidates(device.target(), &problem);
            check::<bf16>(&device, all[choice % all.len()], &problem, seed);
        }
    }
}

/// No spilled registers, no `wgmma` that `ptxas` runs one after the other, and no fence that it has
/// to add.
#[test]
fn kernels_assemble_without_spills() {
    let problem = ConvolutionProblem::new([32, 56, 56, 256], 256, [Filter::new(3).padding(1); 2]);
    let all = ConvolutionConfig::candidates(Target::SM_90A, &problem);
    let fused = all.iter().map(|config| ConvolutionConfig {
        bias: ConvolutionBias::PerChannel,
        activation: Some(Activation::Gelu),
        ..*config
    });
    for config in sample(3, all.iter().copied().chain(fused)) {
        assert_eq!(config.to_string().parse(), Ok(config));
        let convolution = Convolution::<bf16>::new(config).unwrap();
        text::check_round_trip(convolution.ir());
        let Some(ptxas) = ptxas::find() else { continue };
        let report = ptxas.report(convolution.ptx().text(), "sm_90a").unwrap();
        let clean = report.contains("0 bytes stack frame, 0 bytes spill stores");
        assert!(clean && !report.contains("C75"), "{config}: {report}");
    }
}

/// The widest tile, unless a narrower one leaves less of it empty or gives more SMs work.
#[test]
fn choices() {
    let name = |image, out_channels, size: u32| {
        let filter = Filter::new(size).padding(size / 2);
        let problem = ConvolutionProblem::new(image, out_channels, [filter; 2]);
        let config = ConvolutionConfig::new(Target::SM_90A, &problem).unwrap();
        let all = ConvolutionConfig::candidates(Target::SM_90A, &problem);
        assert_eq!(all[0], config);
        assert!(all.iter().all(|config| config.check().is_ok()));
        config.to_string()
    };
    assert_eq!(name([32, 56, 56, 256], 256, 3), "sm90a_128x256x64_s4_o4");
    assert_eq!(name([32, 28, 28, 512], 512, 3), "sm90a_128x256x64_s4_o4");
    assert_eq!(name([32, 56, 56, 64], 256, 1), "sm90a_128x256x64_s4_o1");
    assert_eq!(name([32, 56, 56, 128], 128, 3), "sm90a_128x128x64_s6_o2");
    assert_eq!(name([32, 56, 56, 64], 64, 3), "sm90a_128x64x64_s8_o1");
    assert_eq!(name([64, 56, 56, 64], 384, 3), "sm90a_128x192x64_s4_o3");
    assert_eq!(name([1, 7, 7, 512], 512, 3), "sm90a_128x64x64_s8_o1");
}

#[test]
fn names() {
    let config = config_of(128, 6, 2);
    let fused = ConvolutionConfig { activation: Some(Activation::Gelu), ..config };
    assert_eq!("sm90a_128x128x64_s6_o2_gelu".parse(), Ok(fused));
    for wrong in [
        "",
        "sm90a_128x128x64_s6",
        "sm90a_128x128_s6_o2",
        "sm90a_128x128x64_s06_o2",
        "sm90a_128x128x64_s6_o2_relu_bias",
        "sm90a_128x128x64_s6_o2_tanh",
        "sm90a_128x128x64_s6_o2_bias_relu_",
    ] {
        let error = wrong.parse::<ConvolutionConfig>().unwrap_err();
        assert_eq!(error, ConvolutionError::Name { name: wrong.to_owned() });
    }
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let filter = Filter::new(3).padding(1);
    let right = ConvolutionProblem::new([2, 8, 8, 64], 64, [filter; 2]);
    for (problem, part) in [
        (ConvolutionProblem { channels: 12, ..right }, "there are 12 input channels"),
        (ConvolutionProblem { channels: 0, ..right }, "there are 0 input channels"),
        (ConvolutionProblem { out_channels: 3, ..right }, "there are 3 output channels"),
        (
            ConvolutionProblem { filters: [filter.stride(9), filter], ..right },
            "height has the stride 9, but TMA needs 1 to 8",
        ),
        (
            ConvolutionProblem { filters: [filter, filter.stride(0)], ..right },
            "width has the stride 0",
        ),
        (ConvolutionProblem { filters: [filter, Filter::new(0)], ..right }, "width has the size 0"),
        (ConvolutionProblem { filters: [filter, filter.dilation(0)], ..right }, "the dilation 0"),
        (
            ConvolutionProblem { filters: [filter.padding(129), filter], ..right },
            "the lower padding 129, but TMA needs 0 to 128",
        ),
        (
            ConvolutionProblem {
                width: 300,
                filters: [filter, Filter { upper_padding: 130, ..filter }],
                ..right
            },
            "the upper padding 130, but TMA needs 0 to 129",
        ),
        (
            ConvolutionProblem {
                width: 300,
                filters: [filter, Filter::new(3).dilation(128)],
                ..right
            },
            "the distance of its first from its last position 256, but TMA needs 0 to 255",
        ),
        (
            ConvolutionProblem {
                width: 300,
                filters: [filter, Filter::new(2).dilation(129)],
                ..right
            },
            "the upper padding 0, but TMA needs 1 to 256",
        ),
        (ConvolutionProblem { height: 0, ..right }, "does not fit the 0 pixels along the height"),
        (
            ConvolutionProblem { width: 1, filters: [filter, Filter::new(2)], ..right },
            "does not fit the 1 pixels along the width",
        ),
        (ConvolutionProblem { images: 1 << 25, ..right }, "the pixel count of y is 2147483648"),
        (ConvolutionProblem { channels: 1 << 28, ..right }, "a filter's element count"),
    ] {
        let error = problem.check().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(ConvolutionConfig::new(Target::SM_90A, &problem).unwrap_err(), error);
        assert_eq!(ConvolutionConfig::candidates(Target::SM_90A, &problem), []);
    }
    // All products of sizes fit or are too large, none wraps around.
    let huge = ConvolutionProblem::new([u32::MAX; 4], u32::MAX, [Filter::new(u32::MAX); 2]);
    assert_eq!(huge.lens()[..2], [u64::MAX; 2]);
    assert!(huge.check().is_err());
    let base = config_of(256, 4, 4);
    for (config, part) in [
        (
            ConvolutionConfig { target: Target::SM_90, ..base },
            "needs sm_90a, and the target is sm_90",
        ),
        (ConvolutionConfig { tile: [64, 256, 64], ..base }, "the tile must be"),
        (ConvolutionConfig { tile: [128, 0, 64], ..base }, "the tile must be"),
        (ConvolutionConfig { stages: 1, ..base }, "the stage count must be 2 to 8"),
        (ConvolutionConfig { stages: 5, ..base }, "bytes of shared memory"),
        (ConvolutionConfig { store_steps: 3, ..base }, "the store steps must divide"),
        (ConvolutionConfig { store_steps: 0, ..base }, "the store steps must divide"),
    ] {
        let error = Convolution::<bf16>::new(config).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = Convolution::<f32>::new(base).unwrap_err();
    assert!(matches!(error, ConvolutionError::Element { .. }), "{error}");
    let device = Device::sim_for(Target::SM_90A).unwrap();
    let of = |bias| {
        let config = ConvolutionConfig { bias, ..config_of(64, 4, 1) };
        Convolution::<f16>::new(config).unwrap().load(&device).unwrap()
    };
    let [plain, biased] = [ConvolutionBias::Absent, ConvolutionBias::PerChannel].map(of);
    let zeros = |len: u64| device.zeros::<f16>(len as usize).unwrap();
    let [x_len, w_len, y_len] = right.lens();
    let (x, w, mut y, bias) = (zeros(x_len), zeros(w_len), zeros(y_len), zeros(64));
    let short = zeros(8);
    let args = ConvolutionArgs { x: &x, w: &w, bias: Some(&bias), y: &mut y };
    let error = plain.launch(&right, args).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the launch has a bias, but the kernel was configured without one"
    );
    let args = ConvolutionArgs { x: &x, w: &w, bias: None, y: &mut y };
    let error = biased.launch(&right, args).unwrap_err();
    assert_eq!(error.to_string(), "the launch has no bias, but the kernel was configured with one");
    let args = ConvolutionArgs { x: &x, w: &short, bias: None, y: &mut y };
    let error = plain.launch(&right, args).unwrap_err();
    assert_eq!(error.to_string(), "the buffer for w has 8 elements, but 36864 are needed");
    let args = ConvolutionArgs { x: &x, w: &w, bias: Some(&short), y: &mut y };
    let error = biased.launch(&right, args).unwrap_err();
    assert_eq!(error.to_string(), "the buffer for the bias has 8 elements, but 64 are needed");
}
