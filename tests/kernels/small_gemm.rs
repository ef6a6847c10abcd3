//! GEMMs with few rows, compared with their definition in `f64`.

use std::f64::consts::PI;

use proptest::prelude::*;
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Element, Target, bf16, f8e4m3, f16};
use tilewright::kernels::gemm::Activation;
use tilewright::kernels::small_gemm::{
    Exchange, Int4Matrix, Int4Packing, LaunchStart, MmaKind, PackedWeights, ScaleGroup, SmallGemm,
    SmallGemmArgs, SmallGemmConfig, SmallGemmError, SmallGemmProblem, WeightFormat, ZeroPoints,
    pack_scales,
};
use tilewright::runtime::Device;
use tilewright::sim::Options;

use super::matrix::{Real, UNTOUCHED, devices};
use crate::support::ptxas;
use crate::support::rng::Rng;

/// The operands of a product, in the order of their definition.
#[derive(Clone, Debug)]
struct Case<T> {
    format: WeightFormat,
    problem: SmallGemmProblem,
    a: Vec<T>,
    /// The bits of a weight for each column of D and element of K.
    weights: Vec<u32>,
    /// A scale and a zero point for each column of D and group.
    scales: Vec<T>,
    zeros: Vec<u32>,
    /// Those that a launch does not get are `None`.
    bias: Option<Vec<T>>,
    residual: Option<Vec<T>>,
}

impl<T: Real + VectorElement<2>> Case<T> {
    fn random(format: WeightFormat, problem: SmallGemmProblem, seed: u64) -> Case<T> {
        let mut rng = Rng::new(seed);
        let SmallGemmProblem { rows, columns, depth } = problem;
        let len = |sizes: [u32; 2]| sizes.iter().map(|size| *size as usize).product::<usize>();
        let groups = len([columns, groups(format, depth)]);
        let mut real =
            |from: f32, to: f32| T::of(from + (to - from) * (rng.below(1001) as f32 / 1000.0));
        let a = (0..len([rows, depth])).map(|_| real(-2.0, 2.0)).collect();
        let scales = (0..groups).map(|_| real(0.01, 1.0)).collect();
        let mut below = |count: usize| rng.below(count) as u32;
        let mut weight = || match format {
            WeightFormat::Int4 { .. } => below(16),
            WeightFormat::Int8 { .. } => below(256),
            // All but the two NaNs, which have the largest magnitude.
            WeightFormat::E4m3 { .. } => below(127) | below(2) << 7,
            WeightFormat::Full => bits(T::of(below(1001) as f32 / 500.0 - 1.0)),
        };
        let weights = (0..len([columns, depth])).map(|_| weight()).collect();
        Case {
            format,
            problem,
            a,
            scales,
            weights,
            // GPTQ stores zero points minus 1.
            zeros: (0..groups).map(|_| 1 + below(15)).collect(),
            bias: None,
            residual: None,
        }
    }

    /// The same with a bias and a residual.
    fn with_epilogue(self) -> Case<T> {
        let values = |len: u32, factor: f32| (0..len).map(|i| T::of(i as f32 * factor)).collect();
        let SmallGemmProblem { rows, columns, .. } = self.problem;
        let (bias, residual) = (values(columns, -0.5), values(rows * columns, 0.125));
        Case { bias: Some(bias), residual: Some(residual), ..self }
    }

    /// The definition: each element of D, and the sum of the magnitudes of what is added up.
    fn expected(&self, activation: Option<Activation>) -> Vec<[f64; 2]> {
        let SmallGemmProblem { rows, columns, depth } = self.problem;
        let length = self.format.group().map_or(depth, |group| group.len(depth));
        let groups = groups(self.format, depth);
        let element = |row: u32, column: u32| {
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[column as usize].to());
            let at = (row * columns + column) as usize;
            let residual = self.residual.as_ref().map_or(0.0, |residual| residual[at].to());
            let [sum, magnitude] = (0..depth).fold([bias, bias.abs()], |[sum, magnitude], k| {
                let scale = (column * groups + k / length) as usize;
                let bits = self.weights[(column * depth + k) as usize];
                let weight = match self.format {
                    WeightFormat::Int4 { zeros: ZeroPoints::Absent, .. } => f64::from(bits) - 8.0,
                    WeightFormat::Int4 { zeros: ZeroPoints::Present, .. } => {
                        f64::from(bits) - f64::from(self.zeros[scale])
                    }
                    WeightFormat::Int8 { .. } => f64::from(bits as u8 as i8),
                    WeightFormat::E4m3 { .. } => f8e4m3::from_bits(bits as u8).to_f32().into(),
                    WeightFormat::Full => <T as Element>::from_bits(bits.into()).to(),
                };
                let weight = weight * self.scales.get(scale).map_or(1.0, |scale| scale.to());
                let product = self.a[(row * depth + k) as usize].to() * weight;
                [sum + product, magnitude + product.abs()]
            });
            let sum = match activation {
                None => sum,
                Some(Activation::Relu) => sum.max(0.0),
                Some(Activation::Gelu) => {
                    let inner = (2.0 / PI).sqrt() * (sum + 0.044715 * sum.powi(3));
                    sum / 2.0 * (1.0 + inner.tanh())
                }
            };
            [sum + residual, magnitude + residual.abs()]
        };
        (0..rows).flat_map(|row| (0..columns).map(move |column| element(row, column))).collect()
    }

    /// Stores the weights as a checkpoint does, by the definition of its packing, and packs them.
    fn packed(&self, packing: Int4Packing) -> PackedWeights<T> {
        let WeightFormat::Int4 { zeros, .. } = self.format else { panic!("{}", self.format) };
        let SmallGemmProblem { columns, depth, .. } = self.problem;
        let [columns, depth, groups] =
            [columns, depth, groups(self.format, depth)].map(|count| count as usize);
        // The order of the columns in one of AWQ's words.
        const AWQ: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
        let words = |rows: usize, len: usize, at: &dyn Fn(usize, usize) -> Option<u32>| {
            let word = |row: usize, word: usize| {
                (0..8).fold(0, |bits, i| bits | at(row, 8 * word + i).unwrap_or(0) << (4 * i))
            };
            let all = (0..rows).flat_map(|row| (0..len.div_ceil(8)).map(move |i| (row, i)));
            all.map(|(row, i)| word(row, i)).collect::<Vec<u32>>()
        };
        let integer = |column: usize, k: usize| {
            (column < columns && k < depth).then(|| self.weights[column * depth + k])
        };
        let zero = |column: usize, group: usize, minus: u32| {
            (column < columns).then(|| self.zeros[column * groups + group] - minus)
        };
        let awq = |column: usize| column / 8 * 8 + AWQ[column % 8];
        let by_group = || {
            let all = (0..groups).flat_map(|group| (0..columns).map(move |column| (column, group)));
            all.map(|(column, group)| self.scales[column * groups + group]).collect::<Vec<T>>()
        };
        let (stored, scales, stored_zeros) = match packing {
            Int4Packing::RowMajor => (
                words(1, columns * depth, &|_, i| integer(i / depth, i % depth)),
                self.scales.clone(),
                words(1, columns * groups, &|_, i| (i < columns * groups).then(|| self.zeros[i])),
            ),
            Int4Packing::Gptq | Int4Packing::GptqV2 => {
                // Word `n` of row `r` has elements 8 r to 8 r + 7 of column n.
                let rows = (0..depth / 8).flat_map(|row| (0..columns).map(move |n| (row, n)));
                let word = |(row, n): (usize, usize)| {
                    (0..8).fold(0, |bits, i| bits | integer(n, 8 * row + i).unwrap_or(0) << (4 * i))
                };
                let minus = u32::from(packing == Int4Packing::Gptq);
                (
                    rows.map(word).collect(),
                    by_group(),
                    words(groups, columns, &|group, n| zero(n, group, minus)),
                )
            }
            Int4Packing::Awq => (
                words(depth, columns, &|k, n| integer(awq(n), k)),
                by_group(),
                words(groups, columns, &|group, n| zero(awq(n), group, 0)),
            ),
        };
        let zeros = (zeros == ZeroPoints::Present).then_some(stored_zeros.as_slice());
        let matrix = Int4Matrix { packing, words: &stored, scales: &scales, zeros };
        PackedWeights::int4(self.format, &self.problem, &matrix).unwrap()
    }

    /// Runs the case.
    #[track_caller]
    fn run(&self, device: &Device, config: SmallGemmConfig) -> Vec<T> {
        let scales = || pack_scales(self.format, &self.problem, &self.scales).unwrap();
        let bytes = self.weights.iter().map(|bits| *bits as u8);
        match self.format {
            WeightFormat::Int4 { .. } => {
                let packed = self.packed(Int4Packing::RowMajor);
                self.run_with(device, config, &packed.words, &packed.scales)
            }
            WeightFormat::Int8 { .. } => {
                let weights: Vec<_> = bytes.map(|byte| byte as i8).collect();
                self.run_with(device, config, &weights, &scales())
            }
            WeightFormat::E4m3 { .. } => {
                let weights: Vec<_> = bytes.map(f8e4m3::from_bits).collect();
                self.run_with(device, config, &weights, &scales())
            }
            WeightFormat::Full => {
                let weights = self.weights.iter().map(|bits| T::from_bits((*bits).into()));
                self.run_with(device, config, &weights.collect::<Vec<_>>(), &[])
            }
        }
    }

    /// Runs the case with weights and scales as a launch takes them. Nothing may be written behind
    /// D.
    #[track_caller]
    fn run_with<W: Element>(
        &self,
        device: &Device,
        config: SmallGemmConfig,
        weights: &[W],
        scales: &[T],
    ) -> Vec<T> {
        let gemm = SmallGemm::<T, W>::new(config).unwrap().load(device).unwrap();
        let len = (self.problem.rows * self.problem.columns) as usize;
        let elements = |all: &Vec<T>| device.upload(all).unwrap();
        let (bias, residual) =
            (self.bias.as_ref().map(elements), self.residual.as_ref().map(elements));
        let scales = self.format.group().map(|_| device.upload(scales).unwrap());
        let mut d = device.upload(&vec![T::of(UNTOUCHED); len + 8]).unwrap();
        let args = SmallGemmArgs {
            a: &device.upload(&self.a).unwrap(),
            weights: &device.upload(weights).unwrap(),
            scales: scales.as_ref(),
            d: &mut d,
            bias: bias.as_ref(),
            residual: residual.as_ref(),
        };
        gemm.launch(&self.problem, args).unwrap();
        let mut d = d.to_vec().unwrap();
        assert!(d.drain(len..).all(|d| d.to() == T::of(UNTOUCHED).to()), "wrote behind D");
        d
    }

    /// Runs the case and compares D with the definition.
    #[track_caller]
    fn check(&self, device: &Device, config: SmallGemmConfig) {
        let found = self.run(device, config);
        let what = format!("{config} of {} {} on {}", self.problem, T::SCALAR, device.name());
        for (at, (found, [sum, magnitude])) in
            found.iter().zip(self.expected(config.activation)).enumerate()
        {
            // The hardware's `tanh` has an absolute error of about 2^-11.
            let of_tanh = if config.activation == Some(Activation::Gelu) { 1e-3 } else { 0.0 };
            let slack = sum.abs() * T::EPSILON + magnitude * (1e-6 + of_tanh) + 1e-7;
            let found = found.to();
            assert!((found - sum).abs() <= slack, "{what}: D[{at}] is {found}, not {sum}");
        }
    }
}

/// The bits of a value.
fn bits<T: Element>(value: T) -> u32 {
    value.to_const().bits() as u32
}

/// The groups of a column.
fn groups(format: WeightFormat, depth: u32) -> u32 {
    format.group().map_or(0, |group| depth.div_ceil(group.len(depth)))
}

const GROUPED: WeightFormat =
    WeightFormat::Int4 { group: ScaleGroup::Of64, zeros: ZeroPoints::Present };

/// A small block that shares columns with others.
fn small(target: Target, weights: WeightFormat, rows: u32) -> SmallGemmConfig {
    SmallGemmConfig {
        target,
        weights,
        mma: MmaKind::Warp,
        rows,
        columns: 32,
        warps: 2,
        depth_warps: 2,
        steps: 2,
        stages: 2,
        splits: 1,
        exchange: Exchange::Workspace,
        start: LaunchStart::AfterPrevious,
        activation: None,
    }
}

/// Every format, with the library's configuration for `bf16` or with small blocks for `f16`, for
/// sizes around tiles, groups and slabs.
#[test]
fn every_format() {
    let sizes = [(1, 16, 128), (1, 40, 1008), (3, 70, 528), (9, 33, 272), (17, 5, 80), (70, 8, 16)];
    for device in devices() {
        for (seed, format) in (0..).zip(WeightFormat::all()) {
            for (i, (rows, columns, depth)) in (seed..).zip(sizes) {
                let problem = SmallGemmProblem::new(rows, columns, depth);
                let chosen = SmallGemmConfig::new(device.target(), format, &problem).unwrap();
                let small = small(device.target(), format, rows.min(32).next_power_of_two());
                match i % 2 {
                    0 => Case::<bf16>::random(format, problem, i).check(&device, chosen),
                    _ => Case::<f16>::random(format, problem, i).check(&device, small),
                }
            }
        }
    }
}

/// Blocks of warp groups, with one or several slabs, for every format that they take, under the race
/// detector.
#[test]
fn warp_groups() {
    let is_hopper = |device: &Device| !device.is_sim() && device.target() == Target::SM_90A;
    let options = Options::default().target(Target::SM_90A).race(true);
    for device in devices().into_iter().filter(is_hopper).chain([Device::sim_with(options)]) {
        for (seed, format) in (0..).zip(WeightFormat::all().filter(|format| format.bits() == 4)) {
            let grids = [(16, 32, 4, 2), (8, 16, 4, 1), (64, 16, 4, 1), (32, 16, 8, 1)];
            let (rows, columns, warps, depth_warps) = grids[seed as usize % grids.len()];
            let problem = SmallGemmProblem::new(rows - 3, 70, 776);
            let small = small(device.target(), format, rows);
            let config = SmallGemmConfig { mma: MmaKind::WarpGroup, columns, ..small };
            let config = SmallGemmConfig { warps, depth_warps, ..config };
            if seed % 2 == 0 {
                Case::<bf16>::random(format, problem, seed).check(&device, config);
            } else {
                let config = SmallGemmConfig { splits: 2, exchange: Exchange::Cluster, ..config };
                Case::<f16>::random(format, problem, seed).with_epilogue().check(&device, config);
            }
        }
    }
}

/// Blocks that share columns, in clusters and by a workspace, under the race detector. Some of them
/// have no part of K.
#[test]
fn splits() {
    let options = Options::default().target(Target::SM_90A).race(true).schedules(2);
    for device in devices().into_iter().chain([Device::sim_with(options)]) {
        for (rows, columns, depth) in [(1, 80, 1544), (5, 48, 2048), (12, 64, 512)] {
            let problem = SmallGemmProblem::new(rows, columns, depth);
            let case = Case::<bf16>::random(GROUPED, problem, 3);
            let small = small(device.target(), GROUPED, rows.next_power_of_two());
            for splits in [1, 2, 3, 4, 8] {
                case.check(&device, SmallGemmConfig { splits, ..small });
                let cluster = SmallGemmConfig { splits, exchange: Exchange::Cluster, ..small };
                if splits.is_power_of_two() {
                    case.check(&device, cluster);
                }
            }
        }
    }
}

/// Bias, activation and residual, however blocks exchange their sums.
#[test]
fn epilogues() {
    for device in devices() {
        for (rows, columns) in [(1, 33), (9, 70)] {
            let problem = SmallGemmProblem::new(rows, columns, 512);
            let case = Case::<bf16>::random(GROUPED, problem, 9).with_epilogue();
            let small = small(device.target(), GROUPED, rows.next_power_of_two());
            for (splits, exchange) in
                [(1, Exchange::Cluster), (2, Exchange::Cluster), (2, Exchange::Workspace)]
            {
                for activation in [None, Some(Activation::Relu), Some(Activation::Gelu)] {
                    let config = SmallGemmConfig { splits, exchange, activation, ..small };
                    case.check(&device, config);
                }
            }
        }
    }
}

/// A launch leaves the workspace as it found it.
#[test]
fn launches_repeat() {
    for device in devices() {
        let problem = SmallGemmProblem::new(2, 64, 1024);
        let case = Case::<f16>::random(GROUPED, problem, 7);
        let config = SmallGemmConfig { splits: 3, ..small(device.target(), GROUPED, 2) };
        let packed = case.packed(Int4Packing::Awq);
        let gemm = SmallGemm::<f16>::new(config).unwrap().load(&device).unwrap();
        let (a, words) = (device.upload(&case.a).unwrap(), device.upload(&packed.words).unwrap());
        let scales = device.upload(&packed.scales).unwrap();
        let mut results = (0..3).map(|_| {
            let mut d = device.zeros(128).unwrap();
            let args = SmallGemmArgs {
                a: &a,
                weights: &words,
                scales: Some(&scales),
                d: &mut d,
                bias: None,
                residual: None,
            };
            gemm.launch(&problem, args).unwrap();
            d.to_vec().unwrap()
        });
        let first = results.next().unwrap();
        assert!(first.iter().any(|d| d.to_f32() != 0.0));
        assert!(results.all(|d| d == first));
    }
}

/// All packings of the same weights become the same words and scales.
#[test]
fn packings() {
    for format in WeightFormat::all().filter(|format| format.bits() == 4) {
        for (columns, depth) in [(16, 128), (8, 64), (24, 200), (40, 8)] {
            let problem = SmallGemmProblem::new(1, columns, depth);
            let case = Case::<f16>::random(format, problem, 11);
            let expected = case.packed(Int4Packing::RowMajor);
            for packing in [Int4Packing::Gptq, Int4Packing::GptqV2, Int4Packing::Awq] {
                assert_eq!(case.packed(packing), expected, "{packing:?} {format} {problem}");
            }
        }
    }
}

/// The layouts of weights and scales are one-to-one, so that no two share bits.
#[test]
fn layouts_are_injective() {
    for format in WeightFormat::all() {
        let scales = format.group().map(|_| format.scale_layout(33, 300).unwrap());
        for layout in [format.layout(33, 300).unwrap()].into_iter().chain(scales) {
            let size = layout.size().unwrap().as_static().unwrap();
            let mut indices: Vec<_> = (0..size).map(|i| layout.at(i).unwrap()).collect();
            indices.sort_unstable();
            indices.dedup();
            assert_eq!(indices.len() as i64, size);
        }
        let weights = format.weights(33, 300) as i64;
        let cosize = format.layout(33, 300).unwrap().cosize().unwrap().as_static().unwrap();
        assert_eq!(cosize, weights * if format.bits() == 4 { 8 } else { 1 });
    }
}

/// Without rows or columns nothing happens; without K, D is 0.
#[test]
fn empty_problems() {
    for device in devices() {
        for (rows, columns, depth) in [(0, 5, 16), (3, 0, 16), (2, 3, 0), (0, 0, 0)] {
            let problem = SmallGemmProblem::new(rows, columns, depth);
            for format in WeightFormat::all() {
                let config = SmallGemmConfig::new(device.target(), format, &problem).unwrap();
                let case = Case::<bf16>::random(format, problem, 1);
                case.check(&device, config);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Any sizes in any configuration.
    #[test]
    fn random_products(
        rows in 1u32..40,
        columns in 1u32..150,
        depth in (1u32..60).prop_map(|vectors| 16 * vectors),
        format in any::<prop::sample::Index>(),
        choice in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let formats: Vec<_> = WeightFormat::all().collect();
        let (format, problem) = (*format.get(&formats), SmallGemmProblem::new(rows, columns, depth));
        for device in devices() {
            let all = SmallGemmConfig::candidates(device.target(), format, &problem);
            Case::<f16>::random(format, problem, seed).check(&device, *choice.get(&all));
        }
    }
}

#[test]
fn names_are_read_back() {
    let mut count = 0;
    for format in WeightFormat::all() {
        for (rows, target) in [(1, Target::SM_80), (16, Target::SM_90A), (64, Target::SM_90)] {
            let problem = SmallGemmProblem::new(rows, 4096, 4096);
            let mut all = SmallGemmConfig::candidates(target, format, &problem);
            all.extend(
                Activation::ALL.map(|one| SmallGemmConfig { activation: Some(one), ..all[0] }),
            );
            for config in all {
                assert_eq!(config.to_string().parse(), Ok(config));
                count += 1;
            }
        }
    }
    assert!(count > 100);
    for name in ["", "sm90a", "sm90a_int4g128_1x16x1_k8_t8", "sm90a_int4g16_1x16x1_k8_t8_s4"] {
        let error = name.parse::<SmallGemmConfig>().unwrap_err();
        assert_eq!(error, SmallGemmError::Name { name: name.to_owned() });
    }
}

#[test]
fn what_no_kernel_runs_is_refused() {
    let config = small(Target::SM_90A, GROUPED, 4);
    for (config, rule) in [
        (SmallGemmConfig { rows: 3, ..config }, "the rows of a block"),
        (SmallGemmConfig { rows: 128, ..config }, "the rows of a block"),
        (SmallGemmConfig { columns: 24, ..config }, "a warp must have"),
        (SmallGemmConfig { rows: 64, columns: 64, ..config }, "a warp can have"),
        (SmallGemmConfig { warps: 3, ..config }, "a block must have"),
        (SmallGemmConfig { warps: 16, depth_warps: 16, ..config }, "a block must have"),
        (SmallGemmConfig { depth_warps: 0, ..config }, "a block must have"),
        (SmallGemmConfig { steps: 0, ..config }, "A must be copied"),
        (SmallGemmConfig { stages: 4, ..config }, "the stages must be"),
        (SmallGemmConfig { stages: 1, ..config }, "the stages must be"),
        (SmallGemmConfig { splits: 0, ..config }, "K can be split"),
        (SmallGemmConfig { splits: 3, exchange: Exchange::Cluster, ..config }, "a cluster must"),
        (
            SmallGemmConfig { weights: WeightFormat::Int8 { group: ScaleGroup::Of32 }, ..config },
            "8-bit",
        ),
        (SmallGemmConfig { mma: MmaKind::WarpGroup, ..config }, "`wgmma` needs at least"),
        (
            SmallGemmConfig { mma: MmaKind::WarpGroup, weights: WeightFormat::Full, ..config },
            "`wgmma` needs 4-bit",
        ),
    ] {
        match SmallGemm::<f16>::new(config).unwrap_err() {
            SmallGemmError::Config { rule: found, .. } => {
                assert!(found.starts_with(rule), "{found}");
            }
            other => panic!("{other}"),
        }
    }
    let large = SmallGemmConfig { rows: 64, steps: 32, depth_warps: 8, ..config };
    let error = SmallGemm::<f16>::new(large).unwrap_err();
    assert!(matches!(error, SmallGemmError::SharedMemory { .. }), "{error}");
    let error = SmallGemm::<f32>::new(config).unwrap_err();
    assert!(matches!(error, SmallGemmError::Element { .. }), "{error}");
    for problem in [SmallGemmProblem::new(1, 16, 12), SmallGemmProblem::new(1, u32::MAX, 1 << 20)] {
        assert!(SmallGemmConfig::new(Target::SM_90A, GROUPED, &problem).is_ok());
        assert!(problem.check().is_err());
    }
    let problem = SmallGemmProblem::new(1, 16, 64);
    let matrix = Int4Matrix {
        packing: Int4Packing::Gptq,
        words: &[0; 127],
        scales: &[f16::from_f32(1.0); 16],
        zeros: Some(&[0; 2]),
    };
    let error = PackedWeights::int4(GROUPED, &problem, &matrix).unwrap_err();
    assert_eq!(error.to_string(), "the words have 127 elements, but 128 are needed");
    let matrix = Int4Matrix { words: &[0; 128], zeros: None, ..matrix };
    let error = PackedWeights::int4(GROUPED, &problem, &matrix).unwrap_err();
    assert_eq!(error.to_string(), "the weights have no zero points, but the format has some");
}

/// The kernels that the library chooses assemble for each target without a warning, and keep
/// everything in registers.
#[test]
fn kernels_assemble_without_spills() {
    let Some(ptxas) = ptxas::find() else { return };
    for target in [Target::SM_80, Target::SM_90A] {
        // Rows for every other format, and other ones for the second target.
        let skipped = usize::from(target == Target::SM_80);
        let rows = [1, 16, 4, 64, 8, 1, 32].into_iter().cycle();
        for (format, rows) in WeightFormat::all().skip(skipped).step_by(2).zip(rows) {
            let problem = SmallGemmProblem::new(rows, 8192, 8192);
            let config = SmallGemmConfig::new(target, format, &problem).unwrap();
            let ptx = match format {
                WeightFormat::Int4 { .. } => SmallGemm::<bf16>::new(config).unwrap().ptx(),
                WeightFormat::Int8 { .. } => SmallGemm::<bf16, i8>::new(config).unwrap().ptx(),
                WeightFormat::E4m3 { .. } => SmallGemm::<bf16, f8e4m3>::new(config).unwrap().ptx(),
                WeightFormat::Full => SmallGemm::<bf16, bf16>::new(config).unwrap().ptx(),
            };
            let (text, target) = (ptx.text(), ptx.target().to_string());
            let assembled = ptxas.assemble(text, &target, &[]);
            assembled.unwrap_or_else(|problem| panic!("{config}: {problem}"));
            let report = ptxas.report(text, &target).unwrap();
            assert!(report.contains(" 0 bytes spill stores"), "{config}: {report}");
        }
    }
}
