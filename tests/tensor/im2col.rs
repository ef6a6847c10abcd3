//! Copies of im2col mode against their definition: the pixels that a convolution reads, and its
//! result.

use crate::support::device;
use crate::support::rng::Rng;

use tilewright::arch::{PixelBox, TensorMapDesc, TensorMapError};
use tilewright::ir::op::{BarrierForm, BulkReduce, BulkWait, ClusterArrival, L2Policy, ProxySpace};
use tilewright::ir::types::Scalar;
use tilewright::ir::{GlobalMut, Kernel, KernelOptions, Target, TensorMap, TensorMapMut};
use tilewright::layout::{IntTuple, Layout, layout};
use tilewright::runtime::{Device, Grid, RuntimeError};
use tilewright::tensor::atom::{CopyAtom, CopyOp, TmaOp};
use tilewright::tensor::copy::{Filter, Im2colCopy, TmaCopy};
use tilewright::tensor::view::SharedTensor;

/// A convolution of images with channels last: output `(q, n)` at output channel `k` is the sum
/// over filter positions `s` and channels `c` of
/// `x[c, q * stride + s * dilation - padding, n] * w[c, s, k]`.
#[derive(Clone, Debug)]
struct Problem {
    channels: u32,
    image: Vec<u32>,
    images: u32,
    filters: Vec<Filter>,
}

/// All coordinates below `extents`, the first the fastest.
fn coordinates(extents: &[u32]) -> Vec<Vec<i64>> {
    let all: u32 = extents.iter().product();
    let coord = |mut i: u32| {
        let digit = |extent: &u32| {
            let digit = i % extent;
            i /= extent;
            i64::from(digit)
        };
        extents.iter().map(digit).collect()
    };
    (0..all).map(coord).collect()
}

impl Problem {
    fn random(rng: &mut Rng, spatial: usize) -> Problem {
        loop {
            let mut filter = || Filter {
                size: 1 + rng.below(3) as u32,
                stride: 1 + rng.below(3) as u32,
                dilation: 1 + rng.below(2) as u32,
                lower_padding: rng.below(3) as u32,
                upper_padding: rng.below(3) as u32,
            };
            let filters: Vec<Filter> = (0..spatial).map(|_| filter()).collect();
            let image: Vec<u32> = (0..spatial).map(|_| 2 + rng.below(6) as u32).collect();
            let fits = filters.iter().zip(&image).all(|(f, extent)| f.outputs(*extent) > 0);
            if fits {
                let (channels, images) = (4 * (1 + rng.below(4) as u32), 1 + rng.below(3) as u32);
                return Problem { channels, image, images, filters };
            }
        }
    }

    /// The extents of the tensor, channels first.
    fn extents(&self) -> Vec<u32> {
        [&[self.channels][..], &self.image, &[self.images]].concat()
    }

    fn tensor(&self) -> Layout {
        let extents: Vec<String> = self.extents().iter().map(u32::to_string).collect();
        Layout::compact(format!("({})", extents.join(",")).parse::<IntTuple>().unwrap())
    }

    fn outputs(&self) -> Vec<u32> {
        self.filters
            .iter()
            .zip(&self.image)
            .map(|(filter, extent)| filter.outputs(*extent))
            .collect()
    }

    fn positions(&self) -> Vec<Vec<i64>> {
        coordinates(&self.filters.iter().map(|filter| filter.size).collect::<Vec<_>>())
    }

    /// The element of the tensor that output `output` reads at a position of the filter, `None` in
    /// the padding.
    fn element(&self, output: usize, position: &[i64], channel: i64) -> Option<usize> {
        let extents = self.extents();
        let mut rest = output as i64;
        let mut at = vec![channel];
        for ((filter, outputs), s) in self.filters.iter().zip(self.outputs()).zip(position) {
            let q = rest % i64::from(outputs);
            rest /= i64::from(outputs);
            let [stride, dilation, padding] =
                [filter.stride, filter.dilation, filter.lower_padding].map(i64::from);
            at.push(q * stride + s * dilation - padding);
        }
        at.push(rest);
        let inside =
            at.iter().zip(&extents).all(|(at, extent)| (0..i64::from(*extent)).contains(at));
        let number = at.iter().zip(&extents).rev();
        inside.then(|| number.fold(0, |all, (at, extent)| all * *extent as usize + *at as usize))
    }
}

/// A box of a copy has the elements that the definition of the convolution reads, in the order of
/// its outputs.
#[test]
fn boxes_have_the_pixels_of_the_convolution() {
    let rng = &mut Rng::new(41);
    for case in 0..600 {
        let problem = Problem::random(rng, 1 + case % 3);
        let (pixels, channels) = (8 * (1 + rng.below(4) as i64), 4i64);
        let tile = layout!((pixels, channels) : (channels, 1));
        let copy =
            Im2colCopy::new(Scalar::F32, &tile.into(), &problem.image, &problem.filters).unwrap();
        assert_eq!(copy.outputs(), problem.outputs());
        let map = copy.desc(&problem.tensor()).unwrap();
        let positions = problem.positions();
        let position = &positions[rng.below(positions.len())];
        let per_image: u32 = problem.outputs().iter().product();
        let first = rng.below((per_image * problem.images) as usize);
        let channel = 4 * rng.below(problem.channels as usize / 4) as i64;
        let mut rest = first as u32;
        let mut coords = vec![channel as i32];
        for (filter, outputs) in problem.filters.iter().zip(problem.outputs()) {
            coords.push((rest % outputs * filter.stride) as i32 - filter.lower_padding as i32);
            rest /= outputs;
        }
        coords.push(rest as i32);
        let shifts = position.iter().zip(&problem.filters);
        coords.extend(shifts.map(|(s, filter)| *s as i32 * filter.dilation as i32));
        let found: Vec<Option<u64>> =
            map.box_elements(&coords).map(|element| element.global).collect();
        let expected = (0..pixels * channels).map(|i| {
            let element =
                problem.element(first + (i / channels) as usize, position, channel + i % channels);
            element.map(|element| 4 * element as u64)
        });
        assert!(found.iter().copied().eq(expected), "{problem:?} {map} at {coords:?}");
    }
}

/// Outputs and output channels of a block, and channels of one copy.
const TILE: [i64; 3] = [32, 4, 4];

/// Computes the convolution by tiles of im2col copies and compares it with its definition.
fn convolve<const RANK: usize>(device: &Device, problem: &Problem, rng: &mut Rng) {
    let [rows, wide, depth] = TILE;
    let tile = layout!((rows, depth) : (depth, 1));
    let copy = Im2colCopy::new(Scalar::F32, &tile.clone().into(), &problem.image, &problem.filters)
        .unwrap();
    let positions = problem.positions();
    type Params<const RANK: usize> = (TensorMap<f32, RANK>, GlobalMut<f32>, GlobalMut<f32>);
    let options = KernelOptions::default().block([rows as u32, 1, 1]);
    let kernel =
        Kernel::<Params<RANK>>::build_with(options, "conv", Target::SM_90, |k, (x, w, y)| {
            let part = SharedTensor::<f32>::shared_aligned(k, tile.clone(), 128);
            let full = k.shared::<u64>(1).mbarrier(0);
            let t = k.thread_idx().x;
            k.if_(t.eq(0), |k| {
                full.init(1);
                k.fence_mbarrier_init();
            });
            k.barrier();
            let first = k.block_idx().x * rows as i32;
            let sums = k.registers::<f32>(wide as u32);
            sums.fill(0.0);
            let mut steps = 0;
            for (p, position) in positions.iter().enumerate() {
                for channel in (0..problem.channels as i32).step_by(depth as usize) {
                    k.if_(t.eq(0), |_| {
                        full.arrive_expect_tx(copy.bytes());
                        let position = position.iter().map(|s| *s as i32);
                        copy.load(x, (first, channel), position, &part, full);
                    });
                    full.wait_parity(steps % 2);
                    steps += 1;
                    for c in 0..depth as i32 {
                        let value = part.load((t, c));
                        for n in 0..wide as u32 {
                            let at = (n as i32 * positions.len() as i32 + p as i32)
                                * problem.channels as i32;
                            let weight = w.load(at + channel + c);
                            sums.set(n, value * weight + sums.get(n));
                        }
                    }
                    // All have read the tile before the next copy writes it.
                    k.fence_proxy_async(ProxySpace::SharedCta);
                    k.barrier();
                }
            }
            for n in 0..wide as u32 {
                y.store((first + t) * wide as i32 + n as i32, sums.get(n));
            }
        })
        .unwrap();
    let elements: u32 = problem.extents().iter().product();
    let small = |rng: &mut Rng| rng.below(9) as f32 - 4.0;
    let x: Vec<f32> = (0..elements).map(|_| small(rng)).collect();
    let count = wide as usize * positions.len() * problem.channels as usize;
    let w: Vec<f32> = (0..count).map(|_| small(rng)).collect();
    let outputs = (problem.outputs().iter().product::<u32>() * problem.images) as usize;
    let blocks = outputs.div_ceil(rows as usize);
    let (on_device, mut weights) = (device.upload(&x).unwrap(), device.upload(&w).unwrap());
    let map = copy.desc(&problem.tensor()).unwrap();
    let mut y = device.zeros::<f32>(blocks * (rows * wide) as usize).unwrap();
    let grid = Grid::new([blocks as u32, 1, 1], [rows as u32, 1, 1]);
    let function = device.load(&kernel).unwrap();
    function.launch(grid, (&on_device.tensor_map(&map).unwrap(), &mut weights, &mut y)).unwrap();
    let y = y.to_vec().unwrap();
    for (output, found) in y.chunks_exact(wide as usize).enumerate() {
        for (n, found) in found.iter().enumerate() {
            let term = |(p, c): (usize, u32)| {
                let element = problem.element(output, &positions[p], c.into());
                let weight = (n * positions.len() + p) * problem.channels as usize + c as usize;
                element.map_or(0.0, |element| x[element] * w[weight])
            };
            let pairs =
                (0..positions.len()).flat_map(|p| (0..problem.channels).map(move |c| (p, c)));
            let expected: f32 = pairs.map(term).sum();
            assert_eq!(*found, expected, "{problem:?}: output {output}, channel {n}");
        }
    }
}

/// A convolution as a product of im2col tiles is the convolution, with 1, 2 and 3 spatial
/// dimensions.
#[test]
fn a_convolution_by_im2col_is_the_direct_one() {
    for device in device::devices() {
        let rng = &mut Rng::new(7);
        for _ in 0..6 {
            let problem = Problem::random(rng, 1);
            convolve::<3>(&device, &problem, rng);
            let problem = Problem::random(rng, 2);
            convolve::<4>(&device, &problem, rng);
            let problem = Problem::random(rng, 3);
            convolve::<5>(&device, &problem, rng);
        }
    }
}

/// A multicast gives each block of the cluster the tile that a load gives.
#[test]
fn a_multicast_is_a_load_in_each_block() {
    let problem = Problem {
        channels: 8,
        image: vec![5, 4],
        images: 2,
        filters: vec![Filter::new(3).padding(1); 2],
    };
    let tile = layout!((16, 8) : (8, 1));
    let copy = Im2colCopy::new(Scalar::F32, &tile.clone().into(), &problem.image, &problem.filters)
        .unwrap();
    type Params = (TensorMap<f32, 4>, GlobalMut<f32>);
    let options = KernelOptions::default().block([32, 1, 1]).cluster([2, 1, 1]);
    let kernel = Kernel::<Params>::build_with(options, "both", Target::SM_90, |k, (x, y)| {
        let part = SharedTensor::<f32>::shared_aligned(k, tile.clone(), 128);
        let full = k.shared::<u64>(1).mbarrier(0);
        let (t, rank) = (k.thread_idx().x, k.block_idx().x);
        k.if_(t.eq(0), |k| {
            full.init(1);
            k.fence_mbarrier_init();
            full.arrive_expect_tx(copy.bytes());
        });
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        k.if_(t.eq(0) & rank.eq(1), |_| {
            copy.load_multicast(x, (9, 0), [2, 1], &part, full, 3u32);
        });
        full.wait_parity(0);
        for i in 0..4 {
            let at = t + 32 * i;
            y.store(rank * 128 + at, part.load((at / 8, at % 8)));
        }
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
    })
    .unwrap();
    let x: Vec<f32> = (0..8 * 5 * 4 * 2).map(|i| i as f32 + 1.0).collect();
    let expected: Vec<f32> = (0..128)
        .map(|i| {
            problem.element(9 + i / 8, &[2, 1], i as i64 % 8).map_or(0.0, |element| x[element])
        })
        .collect();
    for device in device::devices() {
        let (on_device, mut y) = (device.upload(&x).unwrap(), device.zeros::<f32>(256).unwrap());
        let map = copy.desc(&problem.tensor()).unwrap();
        let grid = Grid::new([2, 1, 1], [32, 1, 1]);
        let function = device.load(&kernel).unwrap();
        function.launch(grid, (&on_device.tensor_map(&map).unwrap(), &mut y)).unwrap();
        let y = y.to_vec().unwrap();
        assert_eq!([&y[..128], &y[128..]], [&expected[..]; 2]);
    }
}

/// A store writes the base pixels, and a reduction adds to them. What is behind the last image is
/// left out.
#[test]
fn stores_write_base_pixels() {
    let filters = vec![Filter::new(1).stride(2), Filter::new(2)];
    let problem = Problem { channels: 4, image: vec![6, 5], images: 2, filters };
    let tile = layout!((32, 8) : (8, 1));
    let copy = Im2colCopy::new(Scalar::I32, &tile.clone().into(), &problem.image, &problem.filters)
        .unwrap();
    let build = |adds: bool| {
        Kernel::<(TensorMapMut<i32, 4>,)>::build("fill", Target::SM_90, |k, (to,)| {
            let part = SharedTensor::<i32>::shared_aligned(k, tile.clone(), 128);
            let plain = k.shared_aligned::<i32>(256, 128);
            let t = k.thread_idx().x;
            for c in 0..8 {
                part.store((t, c), t * 8 + c + 1);
                plain.store(t * 8 + c, t * 8 + c + 1);
            }
            k.fence_proxy_async(ProxySpace::SharedCta);
            k.barrier();
            k.if_(t.eq(0), |k| {
                if adds {
                    // Output 3 is the first one of the second row.
                    let [zero, one] = [0, 1].map(|n| k.constant(n));
                    let (at, op, policy) =
                        ([zero, zero, one, zero], BulkReduce::Add, L2Policy::Default);
                    to.cp_reduce_async_bulk_tensor_im2col(op, at, plain, policy);
                } else {
                    copy.store(to, &part, (3, 0));
                }
                k.cp_async_bulk_commit_group();
                k.cp_async_bulk_wait_group(0, BulkWait::Done);
            });
        })
        .unwrap()
    };
    for device in device::devices() {
        for adds in [false, true] {
            let mut expected = vec![-1; 4 * 6 * 5 * 2];
            for row in 0..32 {
                for channel in 0..4 {
                    if let Some(element) = problem.element(3 + row, &[0, 0], channel) {
                        let value = row as i32 * 8 + channel as i32 + 1;
                        expected[element] = if adds { value - 1 } else { value };
                    }
                }
            }
            let mut x = device.upload(&[-1; 4 * 6 * 5 * 2]).unwrap();
            let map = copy.desc(&problem.tensor()).unwrap();
            let mut to = x.tensor_map_mut(&map).unwrap();
            let function = device.load(&build(adds)).unwrap();
            function.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut to,)).unwrap();
            assert_eq!(x.to_vec().unwrap(), expected, "adds: {adds}");
        }
    }
}

/// Hardware stores to base pixels inside of the tensor only: others are refused by the build or by
/// the launch.
#[test]
fn stores_to_padding_are_refused() {
    let tile = layout!((16, 8) : (8, 1));
    let copy = |filter: Filter| {
        Im2colCopy::new(Scalar::F32, &tile.clone().into(), &[9], &[filter]).unwrap()
    };
    let (inside, lower) = (copy(Filter::new(3)), copy(Filter::new(3).padding(1)));
    let upper = copy(Filter { upper_padding: 2, ..Filter::new(2) });
    let store = |copy: &Im2colCopy| {
        Kernel::<(TensorMapMut<f32, 3>,)>::build("fill", Target::SM_90, |k, (to,)| {
            let part = SharedTensor::<f32>::shared_aligned(k, tile.clone(), 128);
            copy.store(to, &part, (0, 0));
        })
    };
    for outside in [&lower, &upper] {
        let error = store(outside).unwrap_err().to_string();
        assert!(error.contains("filters without padding, so that all base pixels"), "{error}");
    }
    let kernel = store(&inside).unwrap();
    for device in device::devices() {
        let mut x = device.zeros::<f32>(8 * 9 * 2).unwrap();
        let function = device.load(&kernel).unwrap();
        for (outside, first, last) in [(&lower, -1, 7), (&upper, 0, 9)] {
            let map = outside.desc(&layout!((8, 9, 2) : (1, 8, 72))).unwrap();
            let mut to = x.tensor_map_mut(&map).unwrap();
            let error = function.launch(Grid::new([1; 3], [1; 3]), (&mut to,)).unwrap_err();
            let RuntimeError::StorePixels { index: 0, dim: 1, pixels, extent: 9, .. } = error
            else {
                panic!("{error}");
            };
            assert_eq!(pixels, (first, last));
        }
    }
}

/// The atoms have CuTe's names and one thread.
#[test]
fn atoms_are_those_of_cute() {
    for (name, op) in [
        ("SM90_TMA_LOAD_IM2COL<4096>", TmaOp::LoadIm2col),
        ("SM90_TMA_LOAD_IM2COL_MULTICAST<4096>", TmaOp::LoadIm2colMulticast),
        ("SM90_TMA_STORE_IM2COL<4096>", TmaOp::StoreIm2col),
    ] {
        assert_eq!(name.parse(), Ok(CopyOp::Tma { op, bits: 4096 }));
        let tile = layout!((16, 8) : (8, 1));
        let copy = Im2colCopy::new(Scalar::F32, &tile.into(), &[8], &[Filter::new(3)]).unwrap();
        let atom = copy.atom(op).unwrap();
        assert_eq!(atom.op().to_string(), name);
        assert_eq!(atom, CopyAtom::new(atom.op().to_owned()).unwrap());
        assert_eq!(atom.layout_src_tv().to_string(), "(1,4096):(0,1)");
    }
}

/// Maps that the hardware does not have are refused, each for its reason.
#[test]
fn maps_that_do_not_exist_are_refused() {
    let pixels = |lower: &[i32], upper: &[i32], channels, pixels| PixelBox {
        lower: lower.to_vec(),
        upper: upper.to_vec(),
        channels,
        pixels,
    };
    let map = |dims: &[u64], strides: &[u64], pixels| {
        TensorMapDesc::im2col(Scalar::F32, dims, strides, pixels).map(|_| ())
    };
    let (dims, strides) = ([8, 6, 5, 2], [32, 192, 960]);
    let good = pixels(&[-1, -1], &[-1, -1], 8, 16);
    assert_eq!(map(&dims, &strides, good.clone()), Ok(()));
    let flat = map(&[8, 6], &[32], good.clone());
    assert_eq!(flat, Err(TensorMapError::PixelRank { rank: 2 }));
    let corners = map(&dims, &strides, pixels(&[-1], &[-1, -1], 8, 16));
    assert_eq!(corners, Err(TensorMapError::PixelCorners { rank: 4, corners: [1, 2] }));
    let far = map(&dims, &strides, pixels(&[-129, 0], &[0, 0], 8, 16));
    assert_eq!(far, Err(TensorMapError::PixelCorner { rank: 4, corner: -129, limit: 128 }));
    let empty = map(&dims, &strides, pixels(&[0, 2], &[0, -3], 8, 16));
    assert_eq!(empty, Err(TensorMapError::PixelBoxEmpty { dim: 2 }));
    let many = map(&dims, &strides, pixels(&[0, 0], &[0, 0], 8, 1025));
    assert_eq!(many, Err(TensorMapError::PixelCount { pixels: 1025 }));
    let wide = map(&dims, &strides, pixels(&[0, 0], &[0, 0], 257, 16));
    assert_eq!(wide, Err(TensorMapError::BoxExtent { dim: 0, extent: 257 }));
    let narrow = map(&dims, &strides, pixels(&[0, 0], &[0, 0], 6, 16));
    assert_eq!(narrow, Err(TensorMapError::InnerBytes { bytes: 24 }));
    let map = TensorMapDesc::im2col(Scalar::F32, &dims, &strides, good).unwrap();
    let steps = vec![1, 2, 2, 2];
    let stepped = map.with_element_strides(&steps);
    assert_eq!(stepped, Err(TensorMapError::ElementStrides { strides: steps }));
}

/// A map of one mode is refused for copies of the other, when the kernel is launched.
#[test]
fn maps_of_the_other_mode_are_refused() {
    let tile = layout!((16, 8) : (8, 1));
    let copy = Im2colCopy::new(Scalar::F32, &tile.clone().into(), &[9], &[Filter::new(3)]).unwrap();
    let tiles = TmaCopy::new(Scalar::F32, layout!((16, 8, 1) : (8, 1, 128))).unwrap();
    let build = |pixels: bool| {
        Kernel::<(TensorMap<f32, 3>,)>::build("ahead", Target::SM_90, |k, (x,)| {
            let [zero, one] = [0, 1].map(|n| k.constant(n));
            let (at, policy) = ([zero; 3], L2Policy::Default);
            match pixels {
                true => x.cp_async_bulk_prefetch_tensor_im2col(at, &[one], policy),
                false => x.cp_async_bulk_prefetch_tensor(at, policy),
            }
        })
        .unwrap()
    };
    for device in device::devices() {
        let x = device.zeros::<f32>(8 * 9 * 2).unwrap();
        let pixels = copy.desc(&layout!((8, 9, 2) : (1, 8, 72))).unwrap();
        let tiled = tiles.desc(&layout!((9, 8, 2) : (8, 1, 72))).unwrap();
        for (kernel, good, bad) in [(build(true), &pixels, &tiled), (build(false), &tiled, &pixels)]
        {
            let function = device.load(&kernel).unwrap();
            let run =
                |map| function.launch(Grid::new([1; 3], [1; 3]), (&x.tensor_map(map).unwrap(),));
            run(good).unwrap();
            let error = run(bad).unwrap_err();
            assert!(matches!(error, RuntimeError::BoxMode { index: 0, .. }), "{error}");
        }
    }
}
